"""The classes of errors that the MPI Bugs Initiative collects: which exist here, and how each is reported.

Source of the classes: Laguerre et al., The MPI Bugs Initiative, Correctness 2021.  Each program here has one error of
a class.  All are reported when they run, by name and with the program's line; with MPI most hang, or go unseen.
Classes of what does not exist here are in ABSENT.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

import bsp

BSPRUN = str(Path(sys.executable).with_name("bsprun"))


class Bug(NamedTuple):
    """A program of three processes with one error, the class's name, and the report."""

    kind: str
    program: str
    report: str  # a pattern
    check: bool = False  # whether `--check` is what reports it


BUGS = [
    Bug("call ordering: different collectives", """
        if proc.pid == 1:
            proc.allreduce(1)
        else:
            proc.broadcast(1)
        """, r"SyncMismatch: .*broadcast\(root=0\).*allreduce"),
    Bug("call ordering: a collective is missing", """
        if proc.pid:
            proc.sync()
        """, r"SyncMismatch: process 0 has returned; processes 1, 2 wait in sync"),
    Bug("call ordering: loops of different length", """
        for _ in range(2 + proc.pid % 2):
            proc.sync()
        """, r"SyncMismatch: "),
    Bug("parameter matching: root", "proc.broadcast(1, root=proc.pid % 2)", r"SyncMismatch: .*root=0.*root=1"),
    Bug("parameter matching: operation", "proc.allreduce(1, op=('sum', 'max')[proc.pid % 2])", r"SyncMismatch: "),
    Bug("parameter matching: functions of one name",
        "proc.allreduce(1, (lambda a, b: a + b) if proc.pid else lambda a, b: a * b)", r"SyncMismatch: "),
    Bug("parameter matching: functions of a group",
        "proc.scan(1, (lambda a, b: a + b) if proc.pid else lambda a, b: a + 2 * b, group=[1, 0])", r"SyncMismatch: "),
    Bug("parameter matching: shapes", "proc.allreduce(np.zeros(2 + proc.pid))",
        r"(CollectiveMistake|ShapeError|SyncMismatch)"),
    Bug("parameter matching: memory of two kinds",
        "x = proc.coarray(3, dtype=(float, int)[proc.pid % 2]); proc.sync()",
        r"RegistrationMismatch"),
    Bug("parameter matching: transfer", """
        proc.transfer(1, to=(proc.pid + 1) % 3, receive=proc.pid != 0)
        """, r"(TransferMismatch|TypeError)"),
    Bug("invalid destination", "proc.send(3, 1)", r"NoSuchProcess.*3"),
    Bug("invalid root", "proc.gather(1, root=-4)", r"(NoSuchProcess|IndexError|ValueError)"),
    Bug("invalid operation", "proc.allreduce(1, op='average')", r"UnknownOperation.*average"),
    Bug("invalid buffer: outside of the memory",
        "x = proc.coarray(4); x.put(1, np.zeros(3), at=slice(2, 5)); proc.sync()",
        r"PutOutOfRange"),
    Bug("invalid buffer: reading outside", "x = proc.coarray(4); x.get(2, at=7); proc.sync()", r"GetOutOfRange"),
    Bug("invalid datatype: a cast that loses",
        "x = proc.coarray(4, dtype=int); x.put(1, np.zeros(4) + 0.5); proc.sync()",
        r"CastError"),
    Bug("request life cycle: a value that has not arrived", """
        x = proc.coarray(1)
        proc.sync()
        print(x.get((proc.pid + 1) % 3).value)
        """, r"NotReady"),
    Bug("epoch life cycle: effects that nothing ends",
        "x = proc.coarray(1); proc.sync(); x.put(0, 1.0)", r"EffectsLost",
        check=True),
    Bug("epoch life cycle: memory of one process only", """
        if proc.pid == 0:
            x = proc.coarray(2)
        proc.sync()
        """, r"RegistrationMismatch"),
    Bug("global concurrency: two puts to one place", """
        x = proc.coarray(1)
        proc.sync()
        x.put(0, float(proc.pid))
        proc.sync()
        """, r"Overlap", check=True),
    Bug("message race: the first of several messages", """
        if proc.pid:
            proc.send(0, proc.pid)
        proc.sync()
        random.shuffle(proc.inbox)
        proc.allreduce(proc.inbox[0].payload + random.SystemRandom().random() if proc.inbox else 0)
        """, r"(Nondeterminism|ScheduleDependence|something else)", check=True),
    Bug("an exception on one process", """
        proc.sync()
        if proc.pid == 2:
            raise ValueError("bad row")
        proc.sync()
        """, r"process 2 raised in superstep 1(.|\n)*bad row"),
    Bug("an exit on one process", """
        proc.sync()
        if proc.pid == 2:
            sys.exit(3)
        proc.sync()
        """, r"process 2 "),
]  # fmt: skip

# What has no counterpart: there are no communicators, tags to match, requests to free, windows to lock, buffers that a
# pending call owns (puts take the values at the call), or point-to-point calls that could wait for each other.
ABSENT = (
    "invalid communicator", "invalid tag", "deadlock of sends (buffering hazard)", "missing wait", "missing start",
    "resource leak", "local concurrency", "partitioned communication",
)  # fmt: skip


def said(bug: Bug, elements: int, folder: Path) -> tuple[int, str]:
    file = folder / "bug.py"
    text = "import random\nimport sys\n\nimport numpy as np\n\nimport bsp\n\nproc = bsp.process()\n"
    file.write_text(text + textwrap.dedent(bug.program).strip() + "\n")
    words = [BSPRUN, "-p", "3", "-n", str(elements), *(["--check"] if bug.check else []), str(file)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return ran.returncode, ran.stderr


@pytest.mark.jobs
@pytest.mark.parametrize("elements", [1, 2])
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.kind)
def test_each_is_reported_with_its_line(bug: Bug, elements: int, tmp_path: Path) -> None:
    status, text = said(bug, elements, tmp_path)
    assert status != 0, text
    assert re.search(bug.report, text), text
    assert "bug.py" in text, text


def test_puts_take_the_values_at_the_call() -> None:
    """What MPI calls local concurrency, to change a buffer under way, is no error here."""

    def main(proc: bsp.Process) -> float:
        x = proc.coarray(1)
        proc.sync()
        mine = [float(proc.pid)]
        x.put((proc.pid + 1) % proc.nprocs, mine)
        mine[0] = -1.0
        proc.sync()
        return float(x.local[0])

    assert bsp.run(main, nprocs=3) == [2.0, 0.0, 1.0]
