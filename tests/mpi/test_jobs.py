"""Programs run by the real `bsprun`: what a user sees on stdout, on stderr and in the exit status.

Every program is a file of its own, most run with all processes on one element and spread over MPI ranks:
what they print, and what is said about their mistakes, must not tell the difference.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

pytestmark = [pytest.mark.jobs, pytest.mark.crossed]

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
DEADLINE = 300.0  # seconds: far beyond what any job here takes, on a busy machine too; a hang reaches it
ELEMENTS = pytest.mark.parametrize("elements", [1, 2])
ONE_TWO_FOUR = pytest.mark.parametrize("elements", [1, 2, 4])


@dataclass(frozen=True)
class Script:
    """A program in a file; `# <- mark` at the end of a line lets tests name the line."""

    path: Path

    def at(self, mark: str) -> str:
        """`solver.py:7`, the place that messages name for the marked line."""
        lines = self.path.read_text().splitlines()
        (number,) = [k for k, line in enumerate(lines, 1) if line.endswith(f"# <- {mark}")]
        return f"{self.path.name}:{number}"


@dataclass(frozen=True)
class Ended:
    """How a command ended.  Texts are decoded byte for byte, so equal texts are equal bytes."""

    status: int
    out: str
    err: str


Write = Callable[..., Script]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(source, name="solver.py")`: a program as a file of its own."""

    def written(source: str, name: str = "solver.py") -> Script:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return Script(path)

    return written


def command(
    *words: object, given: str = "", merged: bool = False, cwd: Path | None = None, deadline: float = DEADLINE
) -> Ended:
    """Run a command to its end; `merged` sends stderr where stdout goes, so that their order shows."""
    done = subprocess.run(
        [str(word) for word in words],
        input=given.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        cwd=cwd,
        timeout=deadline,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), (done.stderr or b"").decode())


def job(script: Script, *arguments: object, elements: int = 1, p: int = 4, options: str = "", **how: object) -> Ended:
    """`bsprun -p 4 -n 2 solver.py`, run in the script's folder."""
    own = ["-p", p, "-n", elements, *options.split()]
    return command(BSPRUN, *own, script.path.name, *arguments, cwd=script.path.parent, **how)  # type: ignore[arg-type]


def lines(text: str, pids: range = range(4)) -> str:
    """One line for each process, in pid order, from a format such as `process {} of 4`."""
    return "".join(text.format(pid) + "\n" for pid in pids)


# ------------------------------------------------------------- processes that disagree


@ONE_TWO_FOUR
def test_a_process_that_syncs_less_often_ends_the_job_with_both_sides_named(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        print("first", proc.pid)
        proc.sync()
        print("second", proc.pid)
        if proc.pid != 2:
            proc.sync()  # <- waits
            print("third", proc.pid)
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.out == lines("first {}") + lines("second {}")
    assert ended.err == (
        f"bsprun: SyncMismatch: process 2 has returned; processes 0, 1, 3 wait in sync at {script.at('waits')} "
        "(superstep 1); every process must sync equally often\n"
    )


@ELEMENTS
def test_a_process_that_syncs_more_often_is_the_one_that_waits(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        for k in range(3 if proc.pid == 3 else 2):
            proc.sync()  # <- waits
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.err == (
        f"bsprun: SyncMismatch: processes 0-2 have returned; process 3 waits in sync at {script.at('waits')} "
        "(superstep 2); every process must sync equally often\n"
    )


@ELEMENTS
def test_leaving_in_an_orderly_way_while_others_wait_is_a_mismatch(write: Write, elements: int) -> None:
    script = write("""
        import sys
        import bsp

        proc = bsp.process()
        if proc.pid == 1:
            sys.exit(0)
        proc.allreduce(1)  # <- waits
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.err.startswith("bsprun: SyncMismatch: process 1 has returned; processes 0, 2, 3 wait in allreduce")
    assert f"at {script.at('waits')} (superstep 0)" in ended.err
    assert ended.err.count("\n") == 1


@ONE_TWO_FOUR
def test_different_boundaries_are_both_named_with_their_lines(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        print("here", proc.pid)
        if proc.pid == 0:
            proc.sync()  # <- sync
        else:
            proc.allreduce(proc.pid)  # <- allreduce
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.out == lines("here {}")
    assert re.fullmatch(
        rf"bsprun: SyncMismatch: process 0 waits in sync at {script.at('sync')}; "
        rf"processes 1-3 wait in allreduce[^;]* at {script.at('allreduce')} "
        r"\(superstep 0\); every process must make the same call\n",
        ended.err,
    )


@ONE_TWO_FOUR
def test_an_exception_hidden_by_a_boundary_in_a_finally_is_shown(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        try:
            if proc.pid == 2:
                raise ValueError("the cause")  # <- cause
            proc.allreduce(1)  # <- waits
        finally:
            proc.sync()  # <- sync
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    first, second, *traceback = ended.err.splitlines()
    assert first.startswith(
        f"bsprun: SyncMismatch: processes 0, 1, 3 wait in allreduce(object, op='add') at {script.at('waits')}"
    )
    assert second == "process 2 was handling an exception there:"
    assert traceback[0].startswith("Traceback") and traceback[-1] == "ValueError: the cause"
    assert any(f"line {script.at('cause').split(':')[1]}" in line for line in traceback)
    assert "SyncMismatch" not in "".join(traceback)


@ELEMENTS
def test_the_same_collective_with_different_roots_is_a_mismatch(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        if proc.pid < 2:
            proc.broadcast(1, root=0)  # <- low
        else:
            proc.broadcast(1, root=1)  # <- high
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert f"processes 0, 1 wait in broadcast(root=0) at {script.at('low')}" in ended.err
    assert f"processes 2, 3 wait in broadcast(root=1) at {script.at('high')}" in ended.err
    assert ended.err.count("\n") == 1


@ELEMENTS
def test_coarrays_that_do_not_match_are_a_mismatch_that_names_both_lines(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        if proc.pid < 3:
            x = proc.coarray(4)  # <- floats
        else:
            x = proc.coarray(4, dtype=int)  # <- integers
        print("text", proc.pid)
        proc.sync()
    """)
    ended = job(script, elements=elements)
    assert (ended.status, ended.out) == (1, lines("text {}"))
    assert ended.err.startswith("bsprun: RegistrationMismatch: ")
    assert script.at("floats") in ended.err
    assert script.at("integers") in ended.err


@ELEMENTS
def test_a_caught_mismatch_comes_back_at_the_next_boundary(write: Write, elements: int) -> None:
    """B6: a caught collective error leaves the job failed."""
    script = write("""
        import bsp

        proc = bsp.process()
        if proc.pid == 0:
            raise SystemExit
        for attempt in range(2):
            try:
                proc.sync()
            except bsp.SyncMismatch as mismatch:
                print(proc.pid, attempt, str(mismatch).split(";")[0])
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    expected = "".join(f"{pid} {attempt} process 0 has returned\n" for pid in range(1, 4) for attempt in range(2))
    assert ended.out == expected
    assert ended.err.count("bsprun: SyncMismatch: ") == 1


# ------------------------------------------------------------------------- exceptions


RAISES = """
    import bsp

    proc = bsp.process()
    print("first", proc.pid)
    proc.sync()
    print("second", proc.pid)
    if proc.pid == 1:
        raise ValueError("no convergence: größer")  # <- raise
    proc.sync()
    print("never")
"""


@ONE_TWO_FOUR
def test_an_exception_is_told_once_with_its_process_and_superstep(write: Write, elements: int) -> None:
    script = write(RAISES)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.out == lines("first {}") + lines("second {}")
    number = script.at("raise").split(":")[1]
    assert re.fullmatch(
        r"bsprun: process 1 raised in superstep 1:\n"
        r"Traceback \(most recent call last\):\n"
        rf'  File "[^"]*solver.py", line {number}, in <module>\n'
        r"    raise ValueError\(.*\n"
        r"(?: +\^+\n)?"
        r"ValueError: no convergence: größer\n",
        ended.err,
    )


@ELEMENTS
def test_a_traceback_comes_after_the_text_of_all_processes(write: Write, elements: int) -> None:
    ended = job(write(RAISES), elements=elements, merged=True)
    text, _, traceback = ended.out.partition("bsprun: ")
    assert text == lines("first {}") + lines("second {}")
    assert traceback.startswith("process 1 raised in superstep 1:\nTraceback")


@ELEMENTS
def test_of_several_exceptions_the_one_of_the_lowest_pid_is_told(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        proc.sync()
        if proc.pid in (1, 3):
            raise KeyError(f"of {proc.pid}")
        try:
            proc.sync()
        except bsp.ProcessFailed as failed:
            print(failed)
            raise
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.err.count("Traceback") == 1
    assert ended.err.startswith("bsprun: process 1 raised in superstep 1:\n")
    assert ended.err.endswith("KeyError: 'of 1'\n")
    told = "process 1 raised KeyError: 'of 1' (solver.py:7, superstep 1) (and process 3 raised too)\n"
    assert ended.out == 2 * told


@ELEMENTS
def test_a_chained_exception_shows_its_cause_and_none_of_our_frames(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        def solve():
            rows = proc.coarray(2)
            rows.put(proc.pid, [1.0, 2.0, 3.0], at=slice(0, 3))

        proc = bsp.process()
        try:
            solve()
        except bsp.PutOutOfRange as wrong:
            raise RuntimeError("cannot solve") from wrong
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.err.startswith("bsprun: process 0 raised in superstep 0:\nTraceback")
    assert "in solve\n" in ended.err
    assert "PutOutOfRange: put of 3 float64" in ended.err
    assert "The above exception was the direct cause of the following exception" in ended.err
    assert ended.err.endswith("RuntimeError: cannot solve\n")
    assert re.findall(r'File "([^"]*)"', ended.err) != []
    assert all(name.endswith("solver.py") for name in re.findall(r'File "([^"]*)"', ended.err))


@ELEMENTS
@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("import bsp\nx = (\n", "SyntaxError: '(' was never closed"),
        ("import bsp, no_such_module_here\n", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("import bsp\nraise KeyboardInterrupt\n", "KeyboardInterrupt"),
    ],
)
def test_a_program_that_cannot_run_says_why_once(write: Write, elements: int, source: str, last: str) -> None:
    ended = job(write(source), elements=elements)
    assert ended.status == (130 if last == "KeyboardInterrupt" else 1)
    assert ended.out == ""
    assert ended.err.splitlines()[-1] == last
    assert ended.err.splitlines().count(last) == 1


@ELEMENTS
def test_a_boundary_inside_an_import_is_refused(write: Write, elements: int) -> None:
    write("proc.sync()\n", "meets.py")
    script = write("import builtins\nimport bsp\nbuiltins.proc = bsp.process()\nimport meets\n")
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert "BoundaryInImport: sync at meets.py:1 while module 'meets' is imported (process 0)" in ended.err


# --------------------------------------------------------------- mistakes with memory


@ONE_TWO_FOUR
@pytest.mark.parametrize("dest", [0, 3])
def test_a_put_past_the_end_of_known_memory_is_told_at_the_call(write: Write, elements: int, dest: int) -> None:
    script = write(f"""
        import bsp

        proc = bsp.process()
        rows = proc.coarray(2 if proc.pid == {dest} else 9)
        for _ in range(7):
            proc.sync()
        if proc.pid == 0:
            try:
                rows.put({dest}, [1.0, 2.0, 3.0], at=slice(1, 4))  # <- put
            finally:
                print("at the call")
        proc.sync()
        print("never")
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.out == "at the call\n"
    assert ended.err.startswith("bsprun: process 0 raised in superstep 7:\nTraceback")
    assert ended.err.endswith(
        f"PutOutOfRange: put of 3 float64 at offset 1 runs 2 past the end of 'rows' (length 2) on process {dest} "
        f"({script.at('put')}, process 0, superstep 7)\n"
    )
    assert ended.err.count("PutOutOfRange") == 1


@ELEMENTS
def test_a_put_past_the_end_of_ones_own_new_memory_is_told_at_the_call(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        rows = proc.coarray(2)
        if proc.pid == 3:
            rows.put(3, [1.0, 2.0, 3.0], at=slice(1, 4))  # <- put
        proc.sync()
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.err.startswith("bsprun: process 3 raised in superstep 0:\nTraceback")
    assert ended.err.endswith(
        "PutOutOfRange: put of 3 float64 at offset 1 runs 2 past the end of 'rows' (length 2) on process 3 "
        f"({script.at('put')}, process 3, superstep 0)\n"
    )


@ONE_TWO_FOUR
def test_a_put_past_the_end_of_anothers_new_memory_is_raised_at_the_boundary_everywhere(
    write: Write, elements: int
) -> None:
    """B3: until the boundary after the registration a remote range error is raised there, on every process."""
    script = write("""
        import bsp

        proc = bsp.process()
        rows = proc.coarray(2)
        if proc.pid == 0:
            rows.put(3, [1.0, 2.0, 3.0], at=slice(1, 4))  # <- put
        print("not at the call", proc.pid)
        try:
            proc.sync()
        except bsp.PutOutOfRange as wrong:
            print(proc.pid, wrong)
            raise
    """)
    ended = job(script, elements=elements)
    message = (
        "put of 3 float64 at offset 1 runs 2 past the end of 'rows' (length 2) on process 3 "
        f"({script.at('put')}, process 0, superstep 0)"
    )
    assert ended.status == 1
    assert ended.out == lines("not at the call {0}\n{0} " + message)
    assert ended.err.count(message) == 1


@ELEMENTS
def test_a_get_past_the_end_is_told_like_a_put(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        rows = proc.coarray((2, 3))
        proc.sync()
        for at in [5, (0, 3), slice(0, 3), -3, (slice(None), [0, 7])]:
            try:
                rows.get(3, at)
            except bsp.GetOutOfRange as wrong:
                print(proc.pid, str(wrong).partition(" of 'rows'")[0])
        proc.sync()
    """)
    ended = job(script, elements=elements)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[:5] == [
        "0 get at offset 5 runs 4 past the end",
        "0 get at index (0, 3) runs 1 past the end",
        "0 get at offset 0 runs 1 past the end",
        "0 get at offset -3 runs 1 past the start",
        "0 get at index (slice(None, None, None), [0, 7]) index 7 is out of bounds for axis 1 with size 3",
    ]
    assert len(ended.out.splitlines()) == 20


LOCAL_MISTAKES = """
    import numpy as np
    import bsp
    import board

    proc = bsp.process()
    rows = proc.coarray(6)
    counts = proc.coarray(6, dtype=np.int8)
    board.of[proc.pid] = rows
    proc.sync()

    def tried(call):
        try:
            call()
            print(proc.pid, "no error")
        except Exception as error:
            print(proc.pid, type(error).__name__, error)

    if proc.pid == 1:
        tried(lambda: rows.put(-1, 1.0, at=0))
        tried(lambda: rows.put(4, 1.0, at=0))
        tried(lambda: rows.put(1.5, 1.0, at=0))
        tried(lambda: rows.put(True, 1.0, at=0))
        tried(lambda: proc.send(4, "text"))
        tried(lambda: rows.put_each([0, 4], [0, 0], [1.0, 2.0]))
        tried(lambda: rows.put_each(np.array([0, np.nan]), [0, 0], [1.0, 2.0]))
        tried(lambda: rows.put_each([0, 3], [0, 6], [1.0, 2.0]))
        tried(lambda: counts.put(3, np.array([1.5])))
        tried(lambda: rows.put(3, "text"))
        tried(lambda: rows.put(3, np.zeros(4), at=slice(0, 3)))
        tried(lambda: rows.put(3, np.zeros((2, 6))))
        tried(lambda: rows.put(3, 1.0, at=0, op="no such"))
        tried(lambda: board.of[0].put(3, 1.0, at=0))
        tried(lambda: proc.send(3, lambda: 1))
        tried(lambda: rows.get(3).value)
    proc.sync()
    print(proc.pid, rows.local.any(), counts.local.any(), len(proc.inbox))
"""


@ELEMENTS
def test_local_mistakes_raise_at_the_call_and_leave_the_job_whole(write: Write, elements: int) -> None:
    write("of = {}\n", "board.py")
    script = write(LOCAL_MISTAKES)
    ended = job(script, elements=elements)
    assert (ended.status, ended.err) == (0, "")
    said = [line.removeprefix("1 ") for line in ended.out.splitlines()]
    first = int(re.search(r"-1: .*\(solver\.py:(\d+)", said[0]).group(1))  # type: ignore[union-attr]
    numbers = iter(range(first, first + 16))

    def place() -> str:
        return f"(solver.py:{next(numbers)}, process 1, superstep 1)"

    pids = "pids are integers in 0..3"
    assert said[0] == f"NoSuchProcess put on process -1: {pids} {place()}"
    assert said[1] == f"NoSuchProcess put on process 4: {pids} {place()}"
    assert said[2] == f"NoSuchProcess put on process 1.5: {pids} {place()}"
    assert said[3] == f"NoSuchProcess put on process True: {pids} {place()}"
    assert said[4] == f"NoSuchProcess send to process 4: {pids} {place()}"
    assert said[5] == f"NoSuchProcess put_each item 1 names process 4: {pids} {place()}"
    assert said[6] == f"NoSuchProcess put_each with float64 pids with NaN at item 1: {pids} {place()}"
    assert said[7] == (
        f"PutOutOfRange put_each at position 6 of 'rows' (shape (6,), axis length 6) on process 3 {place()}"
    )
    assert said[8] == (
        "CastError put of float64 values into int8 'counts': they do not cast under 'same_kind'; "
        f"convert them first {place()}"
    )
    assert said[9].startswith("CastError put of ") and said[9].endswith(place())
    assert said[10] == (
        "ShapeError put of values of shape (4,) into a region of shape (3,) of 'rows' on process 3: "
        f"they do not broadcast {place()}"
    )
    assert said[11] == (
        "ShapeError put of values of shape (2, 6) into a region of shape (6,) of 'rows' on process 3: "
        f"they do not broadcast {place()}"
    )
    assert said[12].startswith("UnknownOperation ") and "no such" in said[12]
    next(numbers)
    assert said[13] == (
        "NotRegistered put on coarray 'rows' called by process 1: it belongs to process 0; each process uses its own"
    )
    next(numbers)
    assert said[14].startswith("CannotSend send to process 3 of function: it cannot be pickled (")
    assert said[14].endswith(place())
    assert said[15].startswith("NotReady ")
    assert said[16:] == [f"{pid} False False 0" if pid != 1 else "False False 0" for pid in range(4)]


@ELEMENTS
def test_a_number_too_large_for_a_coarrays_integers_is_not_wrapped(write: Write, elements: int) -> None:
    """As in NumPy, where `array[0] = 300` raises for int8."""
    script = write("""
        import numpy as np
        import bsp

        proc = bsp.process()
        counts = proc.coarray(3, dtype=np.int8)
        proc.sync()
        for call in (lambda: counts.put(3, 300, at=0), lambda: counts.put_each([3], [1], [300])):
            try:
                call()
            except bsp.CastError as wrong:
                print(proc.pid, str(wrong).split(":")[0])
        proc.sync()
        print(proc.pid, counts.local)
    """)
    ended = job(script, p=4, elements=elements)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.endswith(lines("{} [0 0 0]"))
    assert ended.out.startswith("0 put of 300 into int8 'counts'\n0 put_each of [300] into int8 'counts'\n")


@ELEMENTS
@pytest.mark.parametrize("call", ["x.put(0, 1.0, at=0)", "proc.send(0, 'text')", "x.get(0)"])
def test_what_is_issued_after_the_last_boundary_is_an_error(write: Write, elements: int, call: str) -> None:
    """B5: it would never be delivered."""
    script = write(f"""
        import bsp

        proc = bsp.process()
        x = proc.coarray(1)
        proc.sync()
        print("text", proc.pid)
        if proc.pid == 3:
            {call}  # <- call
    """)
    for options, where in (
        ("", "bsprun --check names the line of the first"),
        ("--check", f"the first at {script.at('call')}"),
    ):
        ended = job(script, elements=elements, options=options)
        assert ended.status == 1
        assert ended.out == lines("text {}")
        assert ended.err.startswith("bsprun: process 3 raised in superstep 1:\n")
        assert ended.err.endswith(
            "EffectsLost: process 3 ends with 1 put, get or send call(s) issued after its last boundary "
            f"(superstep 1; {where}); sync once more to deliver them\n"
        )


def test_a_plain_script_whose_last_put_is_never_delivered_fails(write: Write) -> None:
    source = "import bsp\nproc = bsp.process()\nx = proc.coarray(1)\nprint('text')\nx.put(0, 1.0, at=0)\n"
    lost = write(source)
    ended = command(sys.executable, lost.path)
    assert ended.status == 1
    assert ended.out == "text\n"
    assert "EffectsLost: process 0 ends with 1 put, get or send call(s)" in ended.err
    delivered = write(source + "proc.sync()\n", "delivered.py")
    assert command(sys.executable, delivered.path) == Ended(0, "text\n", "")


# --------------------------------------------------------------------- exit statuses


@ONE_TWO_FOUR
@pytest.mark.parametrize("leaver", [0, 3])
def test_one_exit_status_is_the_jobs(write: Write, elements: int, leaver: int) -> None:
    script = write(f"""
        import sys
        import bsp

        proc = bsp.process()
        proc.sync()
        print("text", proc.pid)
        if proc.pid == {leaver}:
            sys.exit(7)
    """)
    assert job(script, elements=elements) == Ended(7, lines("text {}"), "")


@ELEMENTS
def test_an_exit_with_a_status_ends_those_who_wait(write: Write, elements: int) -> None:
    script = write("""
        import sys
        import bsp

        proc = bsp.process()
        if proc.pid == 2:
            sys.exit(7)
        proc.sync()  # <- waits
    """)
    ended = job(script, elements=elements)
    assert ended.status == 7
    assert ended.err == (
        "bsprun: ProcessExited: process 2 left with status 7; processes 0, 1, 3 wait in sync at "
        f"{script.at('waits')} (superstep 0)\n"
    )


@ELEMENTS
def test_of_many_exit_statuses_the_first_that_is_not_zero_counts(write: Write, elements: int) -> None:
    script = write("import sys\nimport bsp\nsys.exit(bsp.process().pid * 11)\n")
    assert job(script, elements=elements) == Ended(11, "", "")


@ELEMENTS
def test_a_text_given_to_sys_exit_is_said_once(write: Write, elements: int) -> None:
    script = write("""
        import sys
        import bsp

        print("text", bsp.process().pid)
        sys.exit(f"too few rows on {bsp.process().pid}")
    """)
    assert job(script, elements=elements) == Ended(1, lines("text {}"), "too few rows on 0\n")


@ELEMENTS
def test_a_text_given_to_sys_exit_is_said_while_others_wait_too(write: Write, elements: int) -> None:
    script = write("""
        import sys
        import bsp

        proc = bsp.process()
        if proc.pid == 3:
            sys.exit("too few rows")
        proc.sync()
    """)
    ended = job(script, elements=elements)
    assert ended.status == 1
    assert ended.err.startswith("bsprun: ProcessExited: process 3 left with status 1; processes 0-2 wait in sync")
    assert ended.err.endswith("\ntoo few rows\n")
    assert ended.err.count("too few rows") == 1


@pytest.mark.parametrize(("elements", "pid"), [(1, 3), (2, 0), (2, 3)])
@pytest.mark.parametrize(
    ("death", "status"),
    [
        ("os._exit(3)", 3),
        ("os._exit(0)", 1),
        ("ctypes.string_at(0)", 139),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_an_element_that_dies_ends_the_job(write: Write, elements: int, pid: int, death: str, status: int) -> None:
    script = write(f"""
        import ctypes, os, signal
        import bsp

        proc = bsp.process()
        proc.sync()
        if proc.pid == {pid}:
            {death}
        proc.sync()
        print("never")
    """)
    ended = job(script, elements=elements)
    assert ended.status == status
    assert "never" not in ended.out
    assert "bsprun: error: " in ended.err.splitlines()[-1]


# --------------------------------------------------------------------------- programs


@ELEMENTS
def test_objects_of_the_scripts_own_classes_travel(write: Write, elements: int) -> None:
    script = write("""
        from dataclasses import dataclass
        import bsp

        @dataclass
        class Body:
            name: str
            mass: float

        proc = bsp.process()
        proc.send((proc.pid + 2) % 4, Body(f"body {proc.pid}", proc.pid / 3), tag=Body("tag", 0.0))
        proc.sync()
        (message,) = proc.inbox
        print(proc.pid, message.source, message.payload, type(message.payload) is Body, message.tag == Body("tag", 0.0))
        bodies = proc.allgather(Body(str(proc.pid), 1.0))
        print(proc.pid, [body.name for body in bodies], {type(body) is Body for body in bodies})
    """)
    ended = job(script, elements=elements)
    first = "".join(
        f"{pid} {(pid + 2) % 4} Body(name='body {(pid + 2) % 4}', mass={((pid + 2) % 4) / 3}) True True\n"
        for pid in range(4)
    )
    assert ended == Ended(0, first + lines("{} ['0', '1', '2', '3'] {{True}}"), "")


HARD_ARGUMENTS = ["--", "-p", "9", "--help", "-n", "7", "--seed=1", "-m", "two words", "", "größer", "a\nb", "*", "--"]


@ELEMENTS
def test_arguments_of_the_script_reach_it_untouched(write: Write, elements: int) -> None:
    script = write("""
        import sys
        import bsp

        print(bsp.process().pid, sys.argv)
    """)
    expected = "".join(f"{pid} {['solver.py', *HARD_ARGUMENTS]!r}\n" for pid in range(4))
    assert job(script, *HARD_ARGUMENTS, elements=elements) == Ended(0, expected, "")
    behind = command(BSPRUN, "-p", 4, "-n", elements, "--", script.path.name, *HARD_ARGUMENTS, cwd=script.path.parent)
    assert behind == Ended(0, expected, "")


@ELEMENTS
def test_a_module_runs_as_python_runs_it(write: Write, elements: int) -> None:
    write("", "package/__init__.py")
    write("SEEN = 'sibling'\n", "package/sibling.py")
    source = """
        import sys
        import bsp
        from .sibling import SEEN

        class Thing:
            pass

        proc = bsp.process()
        thing = proc.broadcast(Thing())
        print(__name__, __package__, __spec__.name, __file__, sys.argv, sys.path[0], SEEN, type(thing) is Thing)
    """
    write(source, "package/module.py")
    folder = write(source, "package/__main__.py").path.parent.parent
    arguments = ["-p", "3", "--help"]
    for name in ("package.module", "package"):
        plain = command(sys.executable, "-m", name, *arguments, cwd=folder)
        assert plain.status == 0, plain.err
        ended = command(BSPRUN, "-p", 4, "-n", elements, "-m", name, *arguments, cwd=folder)
        assert ended == Ended(0, 4 * plain.out, "")
    missing = command(BSPRUN, "-p", 4, "-n", elements, "-m", "package.missing", cwd=folder)
    assert (missing.status, missing.out) == (1, "")
    assert missing.err == "ModuleNotFoundError: No module named package.missing\n"


@ELEMENTS
def test_an_error_of_a_package_around_the_module_is_told_with_its_line_alone(write: Write, elements: int) -> None:
    folder = write("print(1)\n", "package/module.py").path.parent.parent
    write("\n1 / 0\n", "package/__init__.py")
    ended = command(BSPRUN, "-p", 4, "-n", elements, "-m", "package.module", cwd=folder)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.count("Traceback") == 1 and ended.err.endswith("\nZeroDivisionError: division by zero\n")
    assert '__init__.py", line 2' in ended.err and "bsp" not in ended.err.replace(str(folder), "")


@ELEMENTS
def test_stdin_belongs_to_process_0(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        for turn in range(2):
            try:
                print(proc.pid, "reads", input())
            except EOFError:
                print(proc.pid, "finds the end")
            proc.sync()
    """)
    others = lines("{} finds the end", range(1, 4))
    ended = job(script, elements=elements, given="one\ntwo\nthree\n")
    assert ended == Ended(0, "0 reads one\n" + others + "0 reads two\n" + others, "")


@ELEMENTS
@pytest.mark.parametrize("given", ["", "one\ntwo\nno end of line"])
def test_process_0_finds_the_end_of_stdin(write: Write, elements: int, given: str) -> None:
    script = write("import sys\nimport bsp\nprint(bsp.process().pid, repr(sys.stdin.read()))\n")
    ended = job(script, elements=elements, given=given)
    assert ended == Ended(0, f"0 {given!r}\n" + lines("{} ''", range(1, 4)), "")


@ELEMENTS
def test_text_of_process_0_appears_at_once(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        if proc.pid == 0:
            print("your name?")
            print("hello", input())
        proc.sync()
    """)
    with subprocess.Popen(
        [BSPRUN, "-p", "4", "-n", str(elements), script.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as asked:  # fmt: skip
        assert asked.stdin is not None and asked.stdout is not None
        try:
            assert asked.stdout.readline() == "your name?\n"  # a hang here is a failure by pytest's time limit
            out, _ = asked.communicate("Ada\n", timeout=DEADLINE)
        finally:
            asked.kill()
    assert (asked.returncode, out) == (0, "hello Ada\n")


WHOLE = """
    \"\"\"A docstring.\"\"\"
    import sys
    import numpy as np
    import bsp

    proc = bsp.process()
    print(proc.pid, proc.nprocs, proc, __doc__, __name__, __spec__, sys.argv)
    print(proc.rng.random(3), np.random.normal(size=3), np.random.random())
    x = proc.coarray(3)
    x.put(0, [1.0, 2.0], at=slice(1, 3))
    proc.send(0, {"a": 1}, tag="t")
    pending = x.get(0)
    proc.sync()
    print(x.local, pending.value, proc.inbox, proc.superstep)
    print(np.random.normal(), proc.allreduce(2.5), proc.exscan(1), proc.gather("g"), proc.superstep)
    a = np.arange(40000.0).reshape(200, 200) / 7
    print((a @ a).sum(), a[0] @ a[1])
    sys.exit(5)
"""


def test_plain_python_and_bsprun_with_one_process_give_the_same_bytes(write: Write) -> None:
    script = write(WHOLE)
    plain = command(sys.executable, script.path.name, "-p", "x", cwd=script.path.parent)
    assert plain.status == 5
    assert plain.out.count("\n") == 5
    assert job(script, "-p", "x", p=1) == plain


def test_a_script_sees_the_same_names_of_itself_as_under_plain_python(write: Write) -> None:
    """`__file__` is absolute since Python 3.9, so that it survives os.chdir."""
    script = write("""
        import sys
        import bsp

        proc = bsp.process()
        print(__file__, sys.argv, sys.path[0], __name__, __package__, __spec__)
    """)
    plain = command(sys.executable, script.path.name, cwd=script.path.parent)
    assert plain.status == 0
    assert job(script, p=1) == plain


@ELEMENTS
def test_modules_beside_the_script_are_found_from_another_folder(
    write: Write, elements: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write("VALUE = 41\n", "programs/beside.py")
    script = write("import bsp\nimport beside\nprint(bsp.process().pid, beside.VALUE + 1)\n", "programs/main.py")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ended = command(BSPRUN, "-p", 4, "-n", elements, script.path, cwd=elsewhere)
    assert ended == Ended(0, lines("{} 42"), "")


RING = """
    import bsp

    proc = bsp.process()
    x = proc.coarray(1, dtype=int)
    x.put((proc.pid + 1) % proc.nprocs, proc.pid, at=0)
    before = x.get((proc.pid + 2) % proc.nprocs)
    proc.send((proc.pid - 1) % proc.nprocs, proc.pid)
    proc.sync()
    print(proc.pid, x.local[0], before.value[0], proc.inbox[0].payload, proc.allreduce(proc.pid))
"""


@pytest.mark.parametrize(("p", "elements"), [(1, 1), (2, 2), (3, 2), (5, 5), (7, 3), (256, 16)])
def test_processes_are_dealt_over_elements_however_unevenly(write: Write, p: int, elements: int) -> None:
    expected = "".join(f"{k} {(k - 1) % p} 0 {(k + 1) % p} {p * (p - 1) // 2}\n" for k in range(p))
    assert job(write(RING), p=p, elements=elements) == Ended(0, expected, "")


def test_text_is_the_same_bytes_on_any_number_of_elements(write: Write) -> None:
    script = write("""
        import sys
        import bsp

        proc = bsp.process()
        for superstep in range(4):
            for line in range(proc.pid % 3):
                print("superstep", superstep, "process", proc.pid, "line", line)
            print("no end ", end="")
            sys.stdout.write("größer" * (superstep == 2) * 20000 + "\\r\\n")
            proc.sync()
            if superstep == 1:
                proc.allreduce(1)
        print("the end of", proc.pid)
    """)
    expected = ""
    for superstep in range(4):
        for pid in range(5):
            expected += "".join(f"superstep {superstep} process {pid} line {line}\n" for line in range(pid % 3))
            expected += "no end " + "größer" * (superstep == 2) * 20000 + "\r\n"
    expected += lines("the end of {}", range(5))
    for elements in (1, 2, 3):
        assert job(script, p=5, elements=elements) == Ended(0, expected, "")


@ELEMENTS
def test_what_processes_say_on_stderr_is_heard(write: Write, elements: int) -> None:
    script = write("import sys\nimport bsp\nprint('warning of', bsp.process().pid, file=sys.stderr)\n")
    ended = job(script, elements=elements)
    assert (ended.status, ended.out) == (0, "")
    assert sorted(ended.err.splitlines()) == [f"warning of {pid}" for pid in range(4)]


# ---------------------------------------------------------------- random numbers, sums


@ELEMENTS
def test_the_global_generator_of_numpy_is_each_process_own(write: Write, elements: int) -> None:
    """D4: seeding it in one process is not felt in another, and an odd number of normals is not either."""
    script = write(
        """
        import numpy as np
        import bsp

        proc = bsp.process()
        np.random.seed(100 + proc.pid)
        for turn in range(3):
            proc.sync()
            print(proc.pid, np.random.normal().hex(), np.random.randint(1000), np.random.normal(size=3)[2].hex())
    """.replace(".hex()", ".item().hex()").replace("normal().item()", "normal()")
    )
    drawn = dict.fromkeys(range(3), "")
    for pid in range(4):
        alone = np.random.RandomState(100 + pid)
        for turn in range(3):
            first, number, third = alone.normal(), alone.randint(1000), alone.normal(size=3)[2]
            drawn[turn] += f"{pid} {float(first).hex()} {number} {float(third).hex()}\n"
    assert job(script, elements=elements) == Ended(0, "".join(drawn.values()), "")


def test_the_seed_decides_all_random_numbers_and_the_elements_none(write: Write) -> None:
    script = write("""
        import numpy as np
        import bsp

        proc = bsp.process()
        print(proc.rng.random().hex())
        proc.sync()
        print(float(np.random.random()).hex())
    """)
    default = job(script)
    assert (default.status, default.err) == (0, "")
    assert job(script, elements=2, options="--seed 0") == default
    seven = job(script, options="--seed 7")
    assert job(script, elements=3, options="--seed=7") == seven
    assert len(set((default.out + seven.out).split())) == 16  # of no two processes, streams or seeds are they equal


def test_every_schedule_delivers_the_same_bytes(write: Write) -> None:
    script = write("""
        import hashlib
        import numpy as np
        import bsp

        proc = bsp.process()
        p, pid = proc.nprocs, proc.pid
        large = proc.coarray((p, 40_000))
        small = proc.coarray(p, dtype=int)
        sums = proc.coarray(9000)
        proc.sync()

        def told(what, *arrays):
            print(pid, what, *(hashlib.sha256(np.ascontiguousarray(array)).hexdigest()[:16] for array in arrays))

        for turn in range(2):
            for dest in range(p):
                large.put(dest, proc.rng.random(40_000), at=pid)      # blocks to all
                small.put(dest, 10 * pid + turn, at=pid)              # and packets
                sums.put(dest, proc.rng.random(9000), op="add")
                proc.send(dest, proc.rng.random(1000 * dest + pid))
                proc.send(dest, "text" * 10_000 * (dest % 2))
            whole = large.get((pid + 3) % p)
            few = large.get((pid + 2) % p, (slice(None), 7))
            proc.sync()
            told("all", large.local, small.local, sums.local, whole.value, few.value)
            told("messages", *(m.payload for m in proc.inbox if isinstance(m.payload, np.ndarray)))
            print(pid, [len(m.payload) for m in proc.inbox])
            large.put(0, proc.rng.random((p, 40_000)), op="max")      # all at one: skew
            proc.sync()
            told("skewed", large.local)
            told("collective", proc.allreduce(large.local[0]), *proc.allgather(sums.local))
    """)
    expected = job(script, p=6)
    assert (expected.status, expected.err) == (0, "")
    assert expected.out.count("\n") == 6 * 2 * 5
    for schedule in ("latin", "matched", "bruck", "two-phase", "auto"):
        assert job(script, p=6, elements=4, options=f"--schedule {schedule}") == expected, schedule


def test_large_matrix_products_are_the_same_bytes_on_one_and_two_elements(write: Write) -> None:
    """D8: BLAS runs on one thread when p > 1, whatever the number of elements."""
    script = write("""
        import hashlib
        import numpy as np
        import bsp

        proc = bsp.process()
        a, b = proc.rng.standard_normal((600, 600)), proc.rng.standard_normal((600, 600))
        results = a @ b, a[0] @ b[0], np.linalg.solve(a, b), a @ b[0]
        print(proc.pid, *(hashlib.sha256(result.tobytes()).hexdigest() for result in results))
        print(hashlib.sha256(proc.allreduce(results[0]).tobytes()).hexdigest())
    """)
    one, two = (job(script, p=2, elements=elements) for elements in (1, 2))
    assert (one.status, one.out.count("\n")) == (0, 4)
    assert one == two


# --------------------------------------------------------------------------- bsp.run


def test_a_function_runs_as_a_job_from_plain_python(write: Write) -> None:
    """Lambdas, closures and results travel; text passes through; exceptions are raised where run was called."""
    script = write("""
        import numpy as np
        import bsp

        class Singular(Exception):
            def __init__(self, row):
                super().__init__(row)
                self.row = row

        class Point:
            def __init__(self, x):
                self.x = x

        offset = 1000

        def ring(proc, scale, *, power=1):
            x = proc.coarray(1)
            x.put((proc.pid + 1) % proc.nprocs, scale * proc.pid, at=0)
            proc.sync()
            print("text of", proc.pid)
            return proc.pid, x.local, Point(offset + proc.pid)

        print("before", flush=True)
        for pid, (told, local, point) in enumerate(bsp.run(ring, 10.0, nprocs=4, elements=2)):
            print(pid, told, local, local.flags.writeable, type(point) is Point, point.x)
        print(bsp.run(lambda proc: proc.allreduce(proc.pid + offset), nprocs=4, elements=2))

        def fails(proc):
            proc.sync()
            if proc.pid == 3:
                raise Singular(17)
            proc.sync()

        def uneven(proc):
            if proc.pid:
                proc.sync()

        def exits(proc):
            raise SystemExit(9)

        for main in (fails, uneven, exits):
            for elements in (1, 2):
                try:
                    bsp.run(main, nprocs=4, elements=elements)
                except BaseException as error:
                    print(type(error).__name__, error, getattr(error, "row", None), error.__class__ is Singular)
        print(bsp.run(lambda proc: (proc.rng.random(), proc.nprocs), nprocs=3, elements=2, seed=5)
              == bsp.run(lambda proc: (proc.rng.random(), proc.nprocs), nprocs=3, seed=5))
    """)
    ended = command(sys.executable, script.path)
    assert ended.status == 0, ended.err
    said = ended.out.splitlines()
    assert said[:5] == ["before", *(f"text of {pid}" for pid in range(4))]
    assert said[5:9] == [f"{pid} {pid} [{10 * ((pid - 1) % 4)}.] True True {1000 + pid}" for pid in range(4)]
    assert said[9] == "[4006, 4006, 4006, 4006]"
    assert said[10:12] == 2 * ["Singular 17 17 True"]
    assert said[12] == said[13]
    assert said[12].startswith("SyncMismatch process 0 has returned; processes 1-3 wait in sync at solver.py:")
    assert said[14:16] == 2 * ["SystemExit 9 None False"]
    assert said[16:] == ["True"]
    assert ended.err == ""


def test_a_job_of_a_function_names_what_it_cannot_give_back_and_how_it_died(write: Write) -> None:
    """A result that cannot be pickled, an exception that cannot be read back, sys.exit with a text, os._exit."""
    script = write("""
        import os
        import sys
        import threading
        import bsp

        class Singular(Exception):
            def __init__(self, row, column):
                super().__init__(f"pivot {row}, {column}")

        def locks(proc):
            return threading.Lock() if proc.pid == 3 else 1

        def fails(proc):
            if proc.pid == 0:
                raise Singular(1, 2)
            proc.sync()

        def exits(proc):
            sys.exit("no input" if proc.pid == 1 else 0)

        def leaves(proc):
            proc.sync()
            if proc.pid == 3:
                os._exit(4)
            proc.sync()

        for main in (locks, fails, exits, leaves):
            try:
                bsp.run(main, nprocs=4, elements=2)
            except BaseException as error:
                print(type(error).__name__, error, ["in fails" in note for note in getattr(error, "__notes__", [])])
        print(bsp.run(lambda proc: sys.exit(0) if proc.pid else 7, nprocs=4, elements=2))
        try:
            bsp.run(fails, 1, threading.Lock(), nprocs=4, elements=2)
        except bsp.CannotSend as error:
            print(error)
    """)
    ended = command(sys.executable, script.path)
    assert ended.out.splitlines() == [
        "CannotSend bsp.run: the result of process 3, lock, cannot be pickled (cannot pickle '_thread.lock' object); "
        "return values, or run on one element [False]",
        "ProcessFailed Singular: pivot 1, 2 [True]",
        "SystemExit no input []",
        "LaunchError bsp.run: the job of 2 elements ended with status 4 and no results []",
        "[7, None, None, None]",
        "bsp.run: argument 2, lock, cannot be pickled (cannot pickle '_thread.lock' object)",
    ]
    assert ended.err == (
        "bsprun: error: element 1 (processes 2-3) ended by os._exit(4) at solver.py:25, in the turn of process 3, "
        "superstep 1\n"
    )


def test_a_job_starts_from_any_thread_of_a_plain_python_process(write: Write) -> None:
    script = write("""
        import concurrent.futures
        import bsp

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            for elements in (1, 2):
                total = pool.submit(bsp.run, lambda proc: proc.allreduce(proc.pid), nprocs=4, elements=elements)
                print(elements, total.result(timeout=300))
    """)
    assert command(sys.executable, script.path) == Ended(0, "1 [6, 6, 6, 6]\n2 [6, 6, 6, 6]\n", "")


# ---------------------------------------------------------------------------- --check


CLEAN = "bsprun: --check: no overlaps; another order of turns gives the same bytes\n"


@ELEMENTS
def test_check_gives_a_file_on_standard_input_to_every_pass_and_refuses_a_pipe(write: Write, elements: int) -> None:
    script = write("""
        import sys
        import bsp

        proc = bsp.process()
        print(proc.broadcast(sys.stdin.readline() if proc.pid == 0 else None).strip())
    """)
    refused = job(script, elements=elements, options="--check", given="12\n")
    assert refused.status == 1 and "NoInput: the script reads standard input (solver.py:6)" in refused.err
    assert "--check runs it several times and can read only a file anew: bsprun --check ... < FILE" in refused.err
    words = [BSPRUN, "-p", "4", "-n", str(elements), "--check", script.path.name]
    data = script.path.with_name("data.txt")
    data.write_text("left out\n12\n")
    with data.open("rb", buffering=0) as file:
        file.readline()
        done = subprocess.run(words, stdin=file, capture_output=True, text=True, cwd=data.parent, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n" * 4, CLEAN)


@ELEMENTS
def test_check_lets_a_clean_program_pass_with_its_text_once(write: Write, elements: int) -> None:
    script = write("""
        import numpy as np
        import bsp

        proc = bsp.process()
        x = proc.coarray(4)
        for turn in range(3):
            x.put(0, proc.rng.random(), at=proc.pid)                      # neighbours, not the same place
            x.put_each([1, 1, 2], [0, 0, 1], np.ones(3), op="add")        # the same place, by one op
            proc.send(3, np.random.random())
            proc.sync()
            print(proc.pid, turn, x.local.sum(), len(proc.inbox))
        print("the end")
    """)
    plain = job(script, elements=elements)
    assert (plain.status, plain.err) == (0, "")
    assert plain.out.count("\n") == 16
    assert job(script, elements=elements, options="--check") == Ended(0, plain.out, CLEAN)


@ELEMENTS
def test_check_reports_two_puts_to_one_place_with_both_lines(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        x = proc.coarray(5)
        proc.sync()
        if proc.pid == 0:
            x.put(3, [1.0, 1.0], at=slice(1, 3))  # <- first
        if proc.pid == 2:
            x.put(3, 2.0, at=2)  # <- second
        print("text", proc.pid)
        proc.sync()
        print(x.local)
    """)
    plain = job(script, elements=elements)
    assert plain == Ended(0, lines("text {}") + 3 * "[0. 0. 0. 0. 0.]\n" + "[0. 1. 2. 0. 0.]\n", "")
    ended = job(script, elements=elements, options="--check")
    assert ended.status == 1
    assert ended.out == lines("text {}")
    assert ended.err == (
        f"bsprun: Overlap: put at {script.at('first')} by process 0 and put at {script.at('second')} by process 2 "
        "touch the same element, flat position 2 of 'x' on process 3, in superstep 1; "
        "the put of the higher pid wins; give both the same op, or other places\n"
    )


@ELEMENTS
def test_check_reports_a_read_of_what_a_put_overwrites_with_both_lines(write: Write, elements: int) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        x = proc.coarray((2, 3))
        proc.sync()
        if proc.pid == 1:
            x.put(0, 5.0, at=(1, slice(None)))  # <- put
        if proc.pid == 3:
            pending = x.get(0, (slice(None), 2))  # <- get
        proc.sync()
    """)
    assert job(script, elements=elements) == Ended(0, "", "")
    ended = job(script, elements=elements, options="--check")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        f"bsprun: Overlap: put at {script.at('put')} by process 1 and get at {script.at('get')} by process 3 "
        "touch the same element, flat position 5 of 'x' on process 0, in superstep 1; "
        "the get reads the old contents; read in one superstep and write in another if that is not meant\n"
    )


DEPENDENT = {
    "shared module state": "import board\nboard.of.append(proc.pid)\nvalue = len(board.of)\nproc.send(0, value)\n",
    "text": "import board\nboard.of.append(proc.pid)\nprint(len(board.of))\n",
    "memory": "import board\nx = proc.coarray(1)\nboard.of.append(proc.pid)\nx.local[0] = len(board.of)\n",
    "working directory": "import os\nproc.send(0, len(os.getcwd()))\nos.makedirs('d', exist_ok=True)\nos.chdir('d')\n",
    "warning filters": (
        "import warnings\nproc.send(0, len(warnings.filters))\nwarnings.simplefilter('ignore', UserWarning, proc.pid)\n"
    ),
    "a cache": "import board\nproc.send(0, board.cached())\n",
    "environment": "import os\nproc.send(0, os.environ.get('LAST', ''))\nos.environ['LAST'] = str(proc.pid)\n",
}


@pytest.mark.parametrize(("what", "elements"), [*((what, 1) for what in DEPENDENT), ("shared module state", 2)])
def test_check_reports_dependence_on_the_order_of_turns(write: Write, what: str, elements: int) -> None:
    write(
        "import functools\nof = []\n@functools.cache\ndef cached():\n    import bsp\n    return bsp.process().pid\n",
        "board.py",
    )
    script = write("import bsp\nproc = bsp.process()\n" + DEPENDENT[what] + "proc.sync()  # <- sync\n")
    plain = job(script, p=6, elements=elements)
    assert (plain.status, plain.err) == (0, "")
    ended = job(script, p=6, elements=elements, options="--check")
    assert ended.status == 1
    assert ended.out == plain.out
    assert re.fullmatch(
        rf"bsprun: ScheduleDependence: process \d does something else in superstep 0 \(sync at {script.at('sync')}\) "
        r"when processes take their turns in another order: .*\n",
        ended.err,
    )


@ELEMENTS
def test_check_passes_a_failing_programs_own_failure_on(write: Write, elements: int) -> None:
    ended = job(write(RAISES), elements=elements, options="--check")
    assert ended.status == 1
    assert ended.out == lines("first {}") + lines("second {}")
    assert ended.err.count("ValueError: no convergence") == 1
    assert CLEAN not in ended.err


# ----------------------------------------------------------------------------- --show


def test_show_prints_the_command_line_that_runs_and_runs_nothing(write: Write) -> None:
    script = write("import bsp\nprint('ran with', bsp.process().nprocs)\n")
    ended = job(script, "two words", elements=2, options="--show --seed 7")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.count("\n") == 1
    assert re.search(r"/mpiexec .*-n 2 ", ended.out)
    assert ended.out.endswith(" solver.py 'two words'\n")
    assert "OPENBLAS_NUM_THREADS=1" in ended.out
    shown = command("sh", "-c", ended.out, cwd=script.path.parent)
    assert (shown.status, shown.out) == (0, 4 * "ran with 4\n")


def test_hashes_and_the_order_of_sets_are_the_same_everywhere_and_every_time(write: Write) -> None:
    script = write("""
        import bsp

        proc = bsp.process()
        print(proc.pid, hash("word"), list({"a", "bb", "ccc", "dddd"}))
    """)
    first = job(script, elements=1)
    assert first.status == 0
    assert [job(script, elements=elements) for elements in (1, 2, 4)] == [first] * 3
    assert len({line.split(" ", 1)[1] for line in first.out.splitlines()}) == 1


def test_standard_input_from_nowhere_ends_at_once(tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text("import sys, bsp\nproc = bsp.process()\nassert sys.stdin.read() == ''\nproc.sync()\n")
    done = subprocess.run([BSPRUN, "-p", "3", "-n", "2", path], stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0


def test_what_killed_jobs_have_left_behind_does_not_stop_later_ones(tmp_path: Path) -> None:
    script = tmp_path / "empty.py"
    script.write_text("import bsp\nbsp.process().sync()\n")
    left = tmp_path / "left"
    for pid in range(os.getpid(), os.getpid() + 500):  # pids to come, as if jobs of theirs had been killed
        folder = left / f"ompi.{pid}"
        folder.mkdir(parents=True)
        for name in ("pmix.{host}.tool", f"pmix.{{host}}.tool.{pid}"):
            (folder / name.format(host=os.uname().nodename)).touch()
    done = subprocess.run(
        [BSPRUN, "-p", "2", "-n", "2", script], env=os.environ | {"TMPDIR": str(left)}, timeout=300, capture_output=True
    )
    assert done.returncode == 0, done.stderr


@ELEMENTS
def test_check_keeps_records_with_large_states(write: Write, elements: int) -> None:
    script = write("""
        import numpy as np
        import bsp

        proc = bsp.process()
        state = bsp.State(x=np.zeros(20_000))
        for k in proc.rounds(4, state):
            state.x += proc.allreduce(k)
            proc.sync()
        print(proc.pid, state.x.sum())
    """)
    ended = job(script, elements=elements, options="--check")
    assert (ended.status, ended.out) == (0, lines("{} 480000.0"))
    assert ended.err.startswith(CLEAN.rstrip("\n") + ", and so do processes made again at the heads of rounds")


@ELEMENTS
def test_a_long_folder_for_temporary_files_is_no_obstacle(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    """A socket's name has 107 bytes at most."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    ended = job(write("import bsp\nprint(bsp.process().allreduce(1))\n"), p=2, elements=elements)
    assert ended == Ended(0, "2\n2\n", "")


@pytest.mark.parametrize("options", ["", "--schedule matched", "--schedule two-phase", "--clones 2"])
@pytest.mark.parametrize("elements", [2, 3])
def test_a_large_put_that_stays_in_its_element_moves_nothing_between_them(
    write: Write, options: str, elements: int
) -> None:
    """Elements exchange blocks all together or not at all: one that did it alone would wait for the others."""
    script = write("""
        import bsp, numpy as np
        proc = bsp.process()
        x = proc.coarray(10_000)
        proc.sync()
        for k in range(1, 7):
            if proc.pid == 0:
                x.put(0, np.full(10_000, float(k)), buffered=k > 3)
            if k == 2 and proc.pid == 1:
                x.put(3, np.full(10_000, 20.0))
            proc.sync()
        print(proc.pid, x.local.min(), x.local.max())
    """)
    ended = job(script, elements=elements, options=options)
    assert (ended.status, ended.out) == (0, "0 6.0 6.0\n1 0.0 0.0\n2 0.0 0.0\n3 20.0 20.0\n"), ended.err


@pytest.mark.parametrize("options", ["-n 1", "-n 2", "--predict"])
@pytest.mark.parametrize("end", ["", "1 / 0", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_programs_that_processes_have_started_end_with_the_job(tmp_path: Path, options: str, end: str) -> None:
    """Also one that has left its parent and its session."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, signal, subprocess, bsp
proc = bsp.process()
child = subprocess.Popen(["sleep", "600"])
open(str(child.pid), "w").close()
subprocess.run("setsid sh -c 'echo > $$; exec sleep 600' &", shell=True)
while len([name for name in os.listdir() if name.isdecimal()]) < 2:
    pass
proc.sync()
{end}
""")
    none = subprocess.DEVNULL
    command = [BSPRUN, "-p", "2", *options.split(), "program.py"]
    subprocess.run(command, cwd=tmp_path, stdout=none, stderr=none, timeout=DEADLINE, check=False)
    started = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]
    assert len(started) >= 2
    assert not [pid for pid in started if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


@ONE_TWO_FOUR
def test_time_begins_with_the_program_and_does_not_go_back(write: Write, elements: int) -> None:
    """A program that asked before its first boundary was told the time of the start-up, by a clock then set to 0."""
    script = write("""
        import bsp
        proc = bsp.process()
        times = [proc.time()]
        for k in range(3):
            proc.sync()
            times.append(proc.time())
        assert times[0] == 0 and times == sorted(times), times
    """)
    done = job(script, elements=elements)
    assert (done.status, done.err) == (0, "")
