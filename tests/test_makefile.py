"""What `make` says when it cannot install, and the faults of `make demo-nonstop`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bsp.faults.injection import parse

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")

OFFLINE = """\
  ERROR: Could not find a version that satisfies the requirement setuptools>=68 (from versions: none)
  ERROR: No matching distribution found for setuptools>=68
"""
REFUSED = """\
WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'NewConnectionError: [Errno 111]': /simple/
ERROR: No matching distribution found for setuptools>=68
"""
TOO_OLD = """\
ERROR: Could not find a version that satisfies the requirement numpy>=99 (from versions: 1.0, 2.0)
ERROR: No matching distribution found for numpy>=99
"""


def installing(folder: Path, told: str) -> subprocess.CompletedProcess[str]:
    """`make install` with a pip that ends with this text."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{told}END\nexit 1\n")
    python.chmod(0o755)
    settings = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", "install"], cwd=folder, capture_output=True, text=True, env=settings)


@pytest.mark.parametrize("told", [OFFLINE, REFUSED])
def test_an_index_that_cannot_be_reached_is_told_in_one_line(told: str, tmp_path: Path) -> None:
    done = installing(tmp_path, told)
    said, last = done.stderr.splitlines()  # make adds which target failed
    assert said.startswith("make: error: the package index could not be reached: connect to the network, or name")
    assert last.startswith("make: *** ")
    assert done.returncode == 2
    assert not (tmp_path / ".venv" / "installed").exists()
    assert (tmp_path / ".venv" / "pip.log").read_text() == told


def test_whatever_else_pip_says_is_shown_as_it_is(tmp_path: Path) -> None:
    done = installing(tmp_path, TOO_OLD)
    assert done.stderr.startswith(TOO_OLD)
    assert "could not be reached" not in done.stderr


def test_the_demo_of_cloned_execution_injects_faults_that_there_are() -> None:
    shown = subprocess.run(["make", "-n", "demo-nonstop"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (faults,) = re.findall(r'--inject "([^"]*)"', shown)
    assert [fault.kind for fault in parse(faults)] == ["kill", "kill", "slow", "kill"]
    assert "cmp " in shown


def test_the_benchmarks_can_be_started() -> None:
    """Their modules load without the arguments of a contender, and set no threads for what is started next."""
    code = "import os, runpy; runpy.run_path(os.path.abspath('run.py')); print(os.environ.get('OMP_NUM_THREADS'))"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); " + code], cwd=ROOT / "tests" / "benchmarks",
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr
