"""Every example runs and finds its own answer right, on any number of processes and elements."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.jobs, pytest.mark.crossed]

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def ran(*words: object) -> tuple[int, bytes, bytes]:
    """Status, stdout and stderr of a command."""
    done = subprocess.run([str(word) for word in words], capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    return done.returncode, done.stdout, done.stderr


def numbers(table: bytes) -> list[float]:
    """All numbers of a text, in order."""
    return [float(word) for word in re.findall(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])", table)]


@pytest.mark.parametrize("options", ["-p 1", "-p 3 -n 2", "-p 8 -n 2"])
@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_finds_its_answer_right(example: str, options: str) -> None:
    status, out, err = ran(BSPRUN, *options.split(), EXAMPLES / example)
    assert (status, err) == (0, b"")
    assert out.strip() != b""


@pytest.mark.thorough
def test_doctor_visits_prints_the_same_bytes_on_any_number_of_elements() -> None:
    one, three = (ran(BSPRUN, "-p", 64, "-n", elements, EXAMPLES / "doctor_visits.py") for elements in (1, 3))
    assert (one[0], one[2]) == (0, b"")
    assert one[1].count(b"\n") == 28
    assert one == three


@pytest.mark.thorough
def test_doctor_visits_prints_the_same_table_under_plain_python() -> None:
    many, alone = (
        ran(BSPRUN, "-p", 64, EXAMPLES / "doctor_visits.py"),
        ran(sys.executable, EXAMPLES / "doctor_visits.py"),
    )
    assert (many[0], alone[0]) == (0, 0)
    assert re.sub(rb"[-.\de]+", b"#", many[1]) == re.sub(rb"[-.\de]+", b"#", alone[1])  # all but the numbers
    assert len(numbers(many[1])) > 40
    np.testing.assert_allclose(numbers(many[1]), numbers(alone[1]), rtol=1e-7, atol=0)
