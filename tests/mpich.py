"""Environments with this one's packages and another MPI: MPICH, from the `mpich` package, or the system's."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

COMMAND = """\
#!{python}
import sys
from bsp.command.{module} import {name}
sys.exit({name}())
"""


class NoMpich(Exception):
    """MPICH cannot be installed; the text says why."""


def make_environment(folder: Path) -> Path:
    """Make an environment with MPICH; return its interpreter.  Raises NoMpich."""
    python = make_environment_without_mpi(folder)
    done = subprocess.run([python, "-m", "pip", "install", "-q", "mpich>=4.2"], capture_output=True, text=True)
    if done.returncode:
        raise NoMpich(f"mpich cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return python


def make_environment_without_mpi(folder: Path) -> Path:
    """Make an environment that uses the system's MPI, with the commands `bsprun` and `bsp`; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    ours = sysconfig.get_path("purelib")
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (inside / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    for module, name in (("bsprun", "bsprun"), ("tool", "bsp")):
        path = folder / "bin" / name
        path.write_text(COMMAND.format(python=python, module=module, name=name))
        path.chmod(0o755)
    return python
