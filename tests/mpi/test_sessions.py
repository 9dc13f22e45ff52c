"""`bsp.Session` with real processes: what lives from call to call, how errors and deaths end it, and what is left."""

from __future__ import annotations

import gc
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import bsp
import bsp.arrays as ba
from bsp.session import cells
from bsp.session import elements as elements_of_sessions
from bsp.session import session as sessions

pytestmark = pytest.mark.jobs

ELEMENTS = pytest.mark.parametrize("elements", [1, 2])
START, END = 300.0, 300.0  # seconds, on a busy machine


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until a condition holds; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() if process.status() != psutil.STATUS_ZOMBIE else []
    except psutil.Error:  # it has just gone
        return []


def family(session: bsp.Session) -> list[psutil.Process]:
    """The processes of a session: its elements, and mpiexec."""
    folder = session._elements._folder
    return [process for process in psutil.process_iter() if folder in words(process)]


def hosts(session: bsp.Session) -> list[psutil.Process]:
    """The elements of a session, in their order."""
    pids = session.run(lambda proc: os.getpid())
    return [psutil.Process(pid) for pid in dict.fromkeys(pids)]


@pytest.fixture(scope="module", params=[1, 2], ids=["one element", "two elements"])
def shared(request: pytest.FixtureRequest) -> Iterator[bsp.Session]:
    """A session of four processes for tests that leave it usable."""
    with bsp.Session(4, request.param) as session:
        yield session
    assert family(session) == []


@pytest.fixture
def session(shared: bsp.Session) -> bsp.Session:
    """The shared session, which the test before must not have ended."""
    assert "ended" not in repr(shared)
    return shared


# ------------------------------------------------------------------------------------------ calls


def test_results_come_by_pid_and_supersteps_count_on(session: bsp.Session) -> None:
    begun = session.superstep
    assert session.run(lambda proc, k: (proc.pid, proc.nprocs, k), 7) == [(pid, 4, 7) for pid in range(4)]
    assert session.superstep == begun  # the end of a call is no superstep

    def main(proc: bsp.Process) -> tuple[int, int]:
        before = proc.superstep
        proc.sync()
        return before, proc.superstep

    assert session.run(main) == [(begun, begun + 1)] * 4
    assert session.run(main) == [(begun + 1, begun + 2)] * 4
    assert session.superstep == begun + 2
    assert f"superstep {begun + 2}>" in repr(session)


def test_processes_print_in_the_order_of_bsprun(session: bsp.Session, capfd: pytest.CaptureFixture[str]) -> None:
    def main(proc: bsp.Process) -> None:
        print("first", proc.pid)
        proc.sync()
        print("second", proc.pid, "\N{GREEK SMALL LETTER PI}")
        print("warned", proc.pid, file=sys.stderr)

    session.run(main)
    print("afterwards")
    out, err = capfd.readouterr()
    first = [f"first {pid}" for pid in range(4)]
    assert out.splitlines() == [*first, *(f"second {pid} \N{GREEK SMALL LETTER PI}" for pid in range(4)), "afterwards"]
    assert sorted(err.splitlines()) == [f"warned {pid}" for pid in range(4)]


def test_text_goes_where_standard_output_is_now(session: bsp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    session.run(lambda proc: print("from", proc.pid, end=";"))
    assert out.getvalue() == "from 0;from 1;from 2;from 3;"


def test_process_0_reads_the_callers_standard_input(session: bsp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one \N{GREEK SMALL LETTER PI}\n\nthree\nfour"))

    def main(proc: bsp.Process) -> Any:
        first = [input(), input()] if proc.pid == 0 else []
        return proc.broadcast(first), sys.stdin.read()

    found = session.run(main)
    assert [first for first, _ in found] == [["one \N{GREEK SMALL LETTER PI}", ""]] * 4
    assert [rest for _, rest in found] == ["three\nfour\n", "", "", ""]

    def nothing_left(proc: bsp.Process) -> str:
        try:
            return input()
        except EOFError as end:
            return str(end)

    assert session.run(nothing_left) == ["EOF when reading a line"] * 4


def test_cells_go_to_the_newest_session_until_it_is_closed_though_it_has_ended() -> None:
    with bsp.Session(1, 1) as older:
        with bsp.Session(2, 1) as other:
            assert sessions.newest() is other
            with pytest.raises(ZeroDivisionError):
                other.run(lambda proc: 1 / proc.pid)
            assert sessions.newest() is other and "ended" in repr(other)  # its names are not those of the older one
        assert sessions.newest() is older
    assert sessions.newest() is not older


def test_lines_that_have_arrived_are_shown_together(
    session: bsp.Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every flush is a message to the browser in a notebook, where a line each would be slow."""
    printed = tmp_path / "printed"

    class Shown(io.StringIO):
        flushes = 0

        def flush(self) -> None:
            until(printed.exists, END, "all lines are sent")
            self.flushes += 1

    def main(proc: bsp.Process, path: Path) -> None:
        if proc.pid == 0:
            for k in range(100):
                print("line", k)
            path.touch()

    shown = Shown()
    monkeypatch.setattr(sys, "stdout", shown)
    session.run(main, printed)
    assert shown.getvalue() == "".join(f"line {k}\n" for k in range(100))
    assert 1 <= shown.flushes <= 2


def test_generators_inbox_names_and_settings_live_from_call_to_call(session: bsp.Session) -> None:
    def sends(proc: bsp.Process) -> None:
        proc.send((proc.pid + 1) % proc.nprocs, proc.pid)
        proc.sync()
        np.seterr(over="raise")

    session.run(sends)
    assert session.run(lambda proc: [m.payload for m in proc.inbox]) == [[3], [0], [1], [2]]
    assert session.run(lambda proc: np.geterr()["over"]) == ["raise"] * 4
    session.run(lambda proc: np.seterr(over="warn") and None)
    session.put(label="rows", count=3)
    assert session.get("label") == ["rows"] * 4
    assert session.get("count") == [3] * 4


def draws(proc: bsp.Process) -> tuple[bytes, float, float]:
    import random

    total = proc.allreduce(proc.rng.random(5) + np.random.normal())
    return total.tobytes(), random.random(), float(proc.rng.random())


def test_calls_give_the_bytes_of_one_run_whatever_the_elements() -> None:
    """D1 to D9 hold in a session: what three calls return is what one run returns that does the same in turn."""
    whole = bsp.run(lambda proc: [draws(proc) for _ in range(3)], nprocs=3, seed=5)
    for elements in (1, 2, 3):
        with bsp.Session(3, elements, seed=5) as session:
            calls = [session.run(draws) for _ in range(3)]
        assert [[call[pid] for call in calls] for pid in range(3)] == whole


# ------------------------------------------------------------------------------------------ what stays


def rows(proc: bsp.Process, length: int) -> Any:
    return ba.from_local(np.arange(length * 3.0).reshape(length, 3)[proc.pid :: proc.nprocs] + proc.pid, axis=0)


@pytest.mark.parametrize("length", [1, 7, 40])
def test_an_array_lives_on_behind_a_handle(session: bsp.Session, length: int) -> None:
    """The handle goes into later calls as an argument, inside a container, and as a name that a function uses."""
    x = session.run(rows, length)[0]
    assert x.shape == (length, 3)
    assert x.dtype == np.float64
    expected = np.concatenate([np.arange(length * 3.0).reshape(length, 3)[pid::4] + pid for pid in range(4)])
    np.testing.assert_array_equal(x.compute(), expected)
    y = session.run(lambda proc: x * 2 + 1)[0]
    found = session.run(lambda proc, parts: (parts["y"] + parts["x"]).compute(), {"x": x, "y": y})[3]
    np.testing.assert_array_equal(found, expected * 3 + 1)
    assert session.run(lambda proc, x: float(x.sum()), x) == [expected.sum()] * 4


def test_a_handle_shows_the_array_as_it_is_now(session: bsp.Session) -> None:
    x = session.run(lambda proc: ba.arange(4000.0, grid=4) + 1)[0]
    assert "lazy: nothing is computed yet" in x._repr_html_()
    assert "float64[4000]" in repr(x)
    begun = session.superstep
    session.run(lambda proc: x.persist() is None)
    assert session.superstep > begun
    begun = session.superstep
    assert "lazy" not in x._repr_html_()
    assert "on 4 processes" in repr(x)
    assert session.superstep == begun


@pytest.mark.parametrize("value", ["ba.arange(5.0), 7", "[ba.arange(5.0)]", "{0: ba.arange(5.0), 'b': 3}"])
def test_arrays_in_the_value_of_a_cell_are_handles_of_all_processes(session: bsp.Session, value: str) -> None:
    """A handle of process 0 alone could be used nowhere."""
    found = session.run(cells.execute, f"import bsp.arrays as ba\n{value}", "In[1]")[0]
    assert found[0].compute().tolist() == [0, 1, 2, 3, 4]


def test_a_coarray_lives_on_behind_a_handle(session: bsp.Session) -> None:
    x = session.run(lambda proc: proc.coarray(proc.nprocs, dtype=int, fill=-1))[0]

    def puts(proc: bsp.Process) -> list[int]:
        x.put((proc.pid + 1) % proc.nprocs, proc.pid, at=proc.pid)
        proc.sync()
        return [int(value) for value in x.local]

    assert session.run(puts) == [[-1, -1, -1, 3], [0, -1, -1, -1], [-1, 1, -1, -1], [-1, -1, 2, -1]]
    assert session.run(lambda proc, x: int(x.local.max()), x) == [3, 0, 1, 2]
    with pytest.raises(AttributeError, match="has no 'dtype'"):
        _ = session.run(lambda proc: proc)[0].dtype


def test_an_attribute_that_a_handle_lacks_is_used_in_a_function(session: bsp.Session) -> None:
    x = session.run(lambda proc: ba.arange(5.0))[0]
    with pytest.raises(AttributeError) as raised:
        x.sum()
    written = str(raised.value).split(": ")[1:]
    assert ": ".join(written) == "s.run(lambda proc, value: value.sum, handle)"
    assert session.run(lambda proc, value: float(value.sum()), x) == [10.0] * 4
    assert not hasattr(x, "_repr_svg_")
    assert repr(x) and x.shape == (5,)


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda x: x[2:4], "value[...]"), (lambda x: 1 + x, "value + ..."), (lambda x: x + x, "value + ..."),
        (lambda x: x @ x, "value @ ..."), (lambda x: x > 0, "value > ..."), (list, "value[...]"),
    ],
)  # fmt: skip
def test_operators_of_a_handle_tell_the_call_to_write(
    session: bsp.Session, use: Callable[[Any], Any], told: str
) -> None:
    x = session.run(lambda proc: ba.arange(5.0))[0]
    with pytest.raises(TypeError, match=re.escape(f"s.run(lambda proc, value: {told}, handle)")):
        use(x)
    assert x and x in [x] and len({x, x}) == 1


def test_what_lost_its_handle_is_forgotten(session: bsp.Session) -> None:
    def makes(proc: bsp.Process) -> Any:
        import weakref

        x = ba.ones(100) + 1
        sys.modules["__main__"].watched = weakref.ref(x)  # type: ignore[attr-defined]
        return x

    def alive(proc: bsp.Process) -> bool:
        return sys.modules["__main__"].watched() is not None  # type: ignore[attr-defined]

    kept = session.run(makes)
    assert session.run(alive) == [True] * 4
    del kept
    gc.collect()
    assert session.run(alive) == [False] * 4


def test_a_handle_goes_nowhere_else(session: bsp.Session) -> None:
    import pickle

    x = session.run(lambda proc: ba.ones(3))[0]
    with pytest.raises(bsp.CannotMove, match=r"only its `run` and `put` accept it"):
        pickle.dumps(x)
    with pytest.raises(bsp.CannotMove, match=r"its compute\(\) returns a NumPy array"):
        np.sum(x)
    with pytest.raises(bsp.CannotMove, match=r"its compute\(\) returns a NumPy array"):
        np.ones(3) + x
    with bsp.Session(1, 1) as other, pytest.raises(bsp.NotRegistered, match="handle of another session") as refused:
        other.run(lambda proc: x.sum())
    assert [place.filename for place in traceback.extract_tb(refused.tb)] == [__file__]
    some = session.run(lambda proc: ba.ones(3) if proc.pid < 2 else None)
    assert some[2:] == [None, None]
    with pytest.raises(bsp.NotRegistered, match="only 2 of 4 processes have returned a value there"):
        session.run(lambda proc, x: None, some[0])
    assert "on 2 processes" in repr(some[0])
    assert session.run(lambda proc: proc.pid) == [0, 1, 2, 3]


def test_a_process_of_a_session_may_start_one_of_its_own(session: bsp.Session) -> None:
    """Also one of one element, which MPI does not start: the environment has the number of the rank that starts it."""

    def sum_of_three(proc: bsp.Process) -> list[int]:
        with bsp.Session(3, 1) as inner:
            return inner.run(lambda proc: proc.allreduce(1))

    assert session.run(sum_of_three) == [[3, 3, 3]] * 4


def test_a_forked_child_is_refused_and_harms_nothing(session: bsp.Session) -> None:
    """A forked child would take the answers to the calls of the process that has made the session."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.run(lambda proc: proc.pid)
            said = "no error"
        except bsp.Forked as error:
            said = str(error)
        session.close()
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading) as file:
        said = file.read()
    assert said.startswith("a call of <bsp.Session: 4 processes on ") and "made by os.fork" in said
    assert session.run(lambda proc: proc.pid) == [0, 1, 2, 3]


# ------------------------------------------------------------------------------------------ errors


def frames(error: BaseException) -> list[tuple[str, str]]:
    """File and function of the frames of a traceback."""
    return [(os.path.basename(frame.filename), frame.name) for frame in traceback.extract_tb(error.__traceback__)]


def divides(proc: bsp.Process) -> float:
    proc.sync()
    return inverse(0)


def inverse(number: int) -> float:
    return 1 / number


def test_an_exception_of_all_processes_ends_the_call_only(session: bsp.Session) -> None:
    begun = session.superstep
    with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
        session.run(divides)
    mine = os.path.basename(__file__)
    this = "test_an_exception_of_all_processes_ends_the_call_only"
    assert frames(caught.value) == [(mine, this), (mine, "divides"), (mine, "inverse")]
    assert [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)][1:] == [
        "return inverse(0)", "return 1 / number",
    ]  # fmt: skip
    assert caught.value.__notes__ == [f"Raised by all processes in superstep {begun + 1}."]
    assert "^" not in "".join(traceback.format_exception(caught.value)).partition("in divides")[2]
    assert session.run(lambda proc: proc.allreduce(proc.superstep - begun)) == [4] * 4


def test_endless_recursion_of_all_processes_ends_the_call_only() -> None:
    """A process alone on its element raises at another depth than those that take turns on theirs."""

    def endless(proc: bsp.Process, depth: int = 0) -> int:
        return endless(proc, depth + 1)

    with bsp.Session(3, 2) as session:
        with pytest.raises(RecursionError) as raised:
            session.run(endless)
        assert raised.value.__notes__ == ["Raised by all processes in superstep 0."]
        assert session.run(lambda proc: proc.pid) == [0, 1, 2]


def test_an_exception_keeps_its_cause_and_its_place(session: bsp.Session) -> None:
    def main(proc: bsp.Process) -> None:
        try:
            inverse(0)
        except ZeroDivisionError as error:
            raise KeyError("rate") from error

    with pytest.raises(KeyError) as caught:
        session.run(main)
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert [name for _, name in frames(cause)] == ["main", "inverse"]


def test_a_failed_import_of_all_processes_ends_the_call_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process alone on its element imports by other frames of Python than one beside others."""
    (tmp_path / "fails_on_import.py").write_text("def inverse(k):\n    return 1 / k\n\ninverse(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with bsp.Session(3, 2) as uneven:
        for module, kind in (("not_installed", ModuleNotFoundError), ("fails_on_import", ZeroDivisionError)):
            with pytest.raises(kind) as caught:
                uneven.run(lambda proc, name: __import__(name), module)
            assert [note.partition(" in ")[0] for note in caught.value.__notes__] == ["Raised by all processes"]
        assert [name for _, name in frames(caught.value)][-2:] == ["<module>", "inverse"]
        assert uneven.run(lambda proc: proc.pid) == [0, 1, 2]


class Unsendable(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def test_an_exception_that_cannot_travel_is_told(session: bsp.Session) -> None:
    def main(proc: bsp.Process) -> None:
        raise Unsendable(1, 2)

    with pytest.raises(bsp.ProcessFailed, match=r"^Unsendable: 1 and 2\n"):
        session.run(main)
    with pytest.raises(bsp.CannotSend, match=r"the result of process 0, generator, cannot be pickled"):
        session.run(lambda proc: (k for k in range(3)))
    with pytest.raises(bsp.CannotSend, match=r"the result of process 2, generator, cannot be pickled"):
        session.run(lambda proc: (k for k in range(3)) if proc.pid == 2 else proc.pid)
    with pytest.raises(bsp.CannotSend, match=r"^Session\.run: argument 2, generator, cannot be pickled"):
        session.run(lambda proc, *args: None, 1, (k for k in range(3)))
    assert session.run(lambda proc: proc.pid) == [0, 1, 2, 3]


def test_a_session_is_none_of_what_its_functions_use(session: bsp.Session) -> None:
    with pytest.raises(bsp.CannotMove, match=r"stays in the process that has made it"):
        session.run(lambda proc: session.nprocs)
    assert session.run(lambda proc: proc.nprocs) == [4] * 4


def test_effects_without_a_boundary_are_an_error_and_are_dropped(session: bsp.Session) -> None:
    """B5, for every call.  Later puts, also those of single numbers, are not lost."""
    x = session.run(lambda proc: proc.coarray(2))[0]
    session.run(lambda proc: proc.sync())

    def forgets(proc: bsp.Process) -> None:
        x.put(0, 5.0, at=0)

    with pytest.raises(bsp.EffectsLost, match="sync once more to deliver them"):
        session.run(forgets)

    def puts(proc: bsp.Process) -> float:
        if proc.pid == 3:
            x.put(0, 7.0, at=1)
        proc.sync()
        return float(x.local[0]), float(x.local[1])

    assert session.run(puts)[0] == (0.0, 7.0)


def test_sys_exit_without_a_status_ends_the_call(session: bsp.Session) -> None:
    def main(proc: bsp.Process) -> int:
        if proc.pid == 2:
            sys.exit()
        return proc.pid

    assert session.run(main) == [0, 1, None, 3]


def test_sys_exit_with_a_status_by_all_at_one_place_ends_the_call(session: bsp.Session) -> None:
    with pytest.raises(bsp.ProcessExited, match=r"process 0 called sys\.exit with status 5") as caught:
        session.run(lambda proc: sys.exit(5))
    assert [note.partition(" in ")[0] for note in caught.value.__notes__] == ["Raised by all processes"]
    with pytest.raises(bsp.ProcessExited, match=r"process 0 called sys\.exit: no rows"):
        session.run(lambda proc: sys.exit("no rows"))
    assert session.run(lambda proc: proc.pid) == [0, 1, 2, 3]


def some_raise(proc: bsp.Process) -> None:
    if proc.pid == 2:
        raise ValueError(f"row {proc.pid}")


def raises_while_others_wait(proc: bsp.Process) -> None:
    some_raise(proc)
    proc.sync()


def raises_elsewhere(proc: bsp.Process) -> None:
    if proc.pid == 2:
        raise ValueError("here")
    raise ValueError("there")


def roots(proc: bsp.Process) -> None:
    proc.broadcast(1, root=proc.pid)


def exits(proc: bsp.Process) -> None:
    if proc.pid == 2:
        sys.exit(3)


@pytest.mark.parametrize(
    ("elements", "main", "kind", "text", "why"),
    [
        (1, some_raise, ValueError, "row 2", "process 2 raised ValueError"),
        (1, raises_while_others_wait, ValueError, "row 2", "process 2 raised ValueError"),
        (2, raises_while_others_wait, ValueError, "row 2", "process 2 raised ValueError"),
        (2, raises_elsewhere, ValueError, "there", "process 0 raised ValueError"),
        (2, roots, bsp.SyncMismatch, "broadcast", "SyncMismatch"),
        (1, exits, bsp.ProcessExited, "process 2 called sys.exit with status 3", "ProcessExited"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_processes_that_disagree_end_the_session(
    elements: int, main: Any, kind: type[Exception], text: str, why: str
) -> None:
    session = bsp.Session(4, elements)
    with pytest.raises(kind, match=text) as caught:
        session.run(main)
    assert [name for _, name in frames(caught.value)][1:2] == [main.__name__]
    assert caught.value.__notes__[-1] == (
        "The session has ended: the processes are no longer at the same place of the program; "
        f"start a new one with bsp.Session(4, {elements})."
    )
    assert family(session) == []
    with pytest.raises(bsp.SessionEnded) as ended:
        session.run(lambda proc: None)
    assert str(ended.value) == (
        f"this session has ended: {why} in superstep 0; start a new one with bsp.Session(4, {elements})"
    )
    assert frames(ended.value)[1:] == []


# ------------------------------------------------------------------------------------------ ends


@ELEMENTS
@pytest.mark.parametrize("when", ["during a call", "between calls"])
def test_a_killed_element_is_one_clear_error(elements: int, when: str) -> None:
    session = bsp.Session(4, elements)
    victim = hosts(session)[-1]

    def main(proc: bsp.Process) -> None:
        if proc.pid == proc.nprocs - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        proc.sync()

    if when == "between calls":
        victim.kill()
        until(lambda: words(victim) == [], END, "the element's death")
    whose = "element 0 (processes 0-3)" if elements == 1 else "element 1 (processes 2-3)"
    with pytest.raises(bsp.SessionEnded, match="SIGKILL") as caught:
        session.run(main)
    assert whose in str(caught.value)
    assert str(caught.value).endswith(f"; the session has ended; start a new one with bsp.Session(4, {elements})")
    moment = "(out of memory?), between calls" if when == "between calls" else "in the turn of process 3, superstep 0"
    assert f"{moment}; the session has ended" in str(caught.value)
    assert family(session) == []


@ELEMENTS
def test_close_deletion_and_the_end_of_a_block_leave_no_process(elements: int) -> None:
    with bsp.Session(2, elements) as first:
        assert len(family(first)) >= elements
    assert family(first) == []
    first.close()
    second = bsp.Session(2, elements)
    second.run(lambda proc: proc.sync())
    second.close()
    folder = second._elements._folder
    assert family(second) == []
    assert not os.path.exists(folder)
    with pytest.raises(bsp.SessionEnded, match="this session has ended: it was closed"):
        second.run(lambda proc: None)
    third = bsp.Session(2, elements)
    folder = third._elements._folder
    del third
    gc.collect()
    assert [process for process in psutil.process_iter() if folder in words(process)] == []


ENDLESS = """
    import bsp, os, signal, sys, time

    def main(proc):
        proc.sync()
        print("there", os.getpid(), flush=True)
        while PLACE == "computing" or proc.pid == 1:
            time.sleep(0.01)
        proc.sync()

    ELEMENTS, PLACE, END = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    session = bsp.Session(2, ELEMENTS)
    print("folder", session._elements._folder, flush=True)
    if END == "exit":
        session.run(lambda proc: print("there", flush=True))
        sys.exit(0)
    try:
        session.run(main)
    except KeyboardInterrupt as interrupt:
        print("interrupted:", *interrupt.__notes__, repr(session), flush=True)
    signal.pause()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], Path]]]:
    """`start(source, *arguments)`: an interpreter of its own group that runs a program, and its output."""
    started: list[subprocess.Popen[str]] = []

    def run(source: str, *arguments: object) -> tuple[subprocess.Popen[str], Path]:
        script, out = tmp_path / "caller.py", tmp_path / "out"
        script.write_text(textwrap.dedent(source))
        with out.open("w") as told:
            child = subprocess.Popen(
                [sys.executable, str(script), *map(str, arguments)], stdout=told, stderr=subprocess.STDOUT, text=True,
                stdin=subprocess.DEVNULL, start_new_session=True, env=os.environ | {"TMPDIR": str(tmp_path)},
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run in the background
            )  # fmt: skip
        started.append(child)
        return child, out

    yield run
    for child in started:
        child.kill()
        child.wait(END)


def left(out: Path) -> list[psutil.Process]:
    """Return the processes of the session whose folder a program has printed."""
    folder = next(line.split()[1] for line in out.read_text().splitlines() if line.startswith("folder"))
    return [process for process in psutil.process_iter() if folder in words(process)]


@pytest.mark.parametrize(
    ("how", "elements", "place"),
    [
        (signal.SIGINT, 1, "computing"),
        (signal.SIGINT, 2, "computing"),
        (signal.SIGINT, 2, "waiting"),
        (signal.SIGKILL, 1, "computing"),
        (signal.SIGKILL, 2, "computing"),
        (signal.SIGKILL, 2, "waiting"),
        (signal.SIGTERM, 2, "computing"),
    ],
)
def test_an_interrupt_or_the_death_of_the_caller_leaves_no_process(
    start: Callable[..., tuple[subprocess.Popen[str], Path]], elements: int, place: str, how: signal.Signals
) -> None:
    child, out = start(ENDLESS, elements, place, how.name)
    until(lambda: "there" in out.read_text(), START, "the endless loop")
    assert len(left(out)) >= elements
    if how is signal.SIGINT:  # as a terminal and Jupyter send it: to the whole group
        os.killpg(child.pid, how)
        until(lambda: "interrupted:" in out.read_text(), END, "the KeyboardInterrupt")
        assert left(out) == []
        assert out.read_text().splitlines()[-1] == (
            "interrupted: The session has ended: a call was interrupted; start a new one with "
            f"bsp.Session(2, {elements}). <bsp.Session: 2 processes on {elements} element{'s' * (elements > 1)}, "
            "ended: a call was interrupted>"
        )
    else:
        child.send_signal(how)
        child.wait(END)
        until(lambda: left(out) == [], END, "the end of all processes")


@ELEMENTS
def test_a_program_that_ends_without_close_leaves_no_process_and_no_folder(
    start: Callable[..., tuple[subprocess.Popen[str], Path]], elements: int, tmp_path: Path
) -> None:
    child, out = start(ENDLESS, elements, "computing", "exit")
    assert child.wait(END) == 0
    assert out.read_text().splitlines()[1:] == ["there"] * 2
    assert left(out) == []
    assert list(tmp_path.glob("bsp-session-*")) == []


def test_a_session_removes_the_folders_of_those_that_were_killed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "bsp-session-notes.txt").write_text("no folder")
    (tmp_path / "bsp-session-link").symlink_to(tmp_path)
    program = "import bsp, os; s = bsp.Session(2, 1); print(s.run(lambda proc: proc.pid), flush=True); os._exit(1)"

    def folders() -> set[str]:
        return {each.name for each in tmp_path.iterdir() if not each.name.startswith("bsprun-")}

    others = folders()
    with bsp.Session(1, 1) as first:
        mine = folders()
        killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=START)
        assert killed.stdout == "[0, 1]\n", killed.stderr
        assert len(folders() - mine) == 1
        with bsp.Session(1, 1) as second:
            assert mine < folders() and len(folders() - mine) == 1  # that of the second session
            assert first.run(lambda proc: proc.pid) == second.run(lambda proc: proc.pid) == [0]
        assert folders() == mine
    assert folders() == others


IDLE = """
    import bsp, signal

    session = bsp.Session(2, 2)
    x = session.run(lambda proc: proc.coarray(1, fill=7))[0]
    try:
        print("idle", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print(session.run(lambda proc: float(x.local[0])), flush=True)
"""


def test_an_interrupt_of_an_idle_prompt_leaves_the_session_alone(
    start: Callable[..., tuple[subprocess.Popen[str], Path]],
) -> None:
    child, out = start(IDLE)
    until(lambda: "idle" in out.read_text(), START, "the pause")
    os.killpg(child.pid, signal.SIGINT)
    child.wait(END)
    assert out.read_text().splitlines() == ["idle", "[7.0, 7.0]"]


CLASSES = """
    import bsp, enum

    class Point:
        def __init__(self, x):
            self.x = x

    class Colour(enum.Enum):
        RED = 1

    def main(proc):
        proc.send((proc.pid + 1) % proc.nprocs, (Point(proc.pid), Colour.RED))
        proc.sync()
        (point, colour), = (message.payload for message in proc.inbox)
        return point, colour, type(point) is Point

    session = bsp.Session(3, 2)
    for _ in range(2):
        results = session.run(main)
        print([(point.x, colour is Colour.RED, same, type(point) is Point) for point, colour, same in results])

        class Point(Point):  # defined again, as when a cell runs again
            pass
"""


def test_classes_of_the_callers_script_travel_between_processes(
    start: Callable[..., tuple[subprocess.Popen[str], Path]],
) -> None:
    child, out = start(CLASSES)
    child.wait(END)
    assert out.read_text().splitlines() == ["[(2, True, True, True), (0, True, True, True), (1, True, True, True)]"] * 2


# ------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, 1), "bsp.Session: nprocs = 0; a whole number, 1 or more"),
        ((2, 0), "bsp.Session: elements = 0; a whole number, 1 or more"),
        ((2, 3), "3 elements for 2 processes; at most one element a process"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(arguments: tuple[int, int], text: str) -> None:
    with pytest.raises(bsp.LaunchError, match=text):
        bsp.Session(*arguments)
    with pytest.raises(bsp.LaunchError, match="schedule 'fast' is none of"):
        bsp.Session(2, 1, schedule="fast")


def test_sizes_left_out_are_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "cores", lambda: 3)
    assert sessions._sizes(None, None) == (3, 3)
    assert sessions._sizes(8, None) == (8, 3)
    assert sessions._sizes(2, None) == (2, 2)
    assert sessions._sizes(None, 2) == (2, 2)


def test_without_mpi_one_element_hosts_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sessions, "cores", lambda: 2)
    for module in ("bsp.session.session", "bsp.command.launch"):
        monkeypatch.setattr(f"{module}.find_mpiexec", lambda: None)
    with bsp.Session(3) as session:
        assert session.run(lambda proc: proc.allreduce(1)) == [3] * 3
        assert session.elements == 1
    assert capsys.readouterr().err.startswith("bsp.Session: one element instead of 2: no MPI here")
    with pytest.raises(bsp.LaunchError, match="no MPI here"):
        bsp.Session(2, 2)


@ELEMENTS
def test_a_close_by_another_thread_is_the_cause_of_the_end(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bsp.session.elements._GRACE", 0.0)
    session = bsp.Session(2, elements)
    closes = threading.Thread(target=session.close)

    class Closes(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("running"):
                closes.start()
            return len(text)

    def main(proc: bsp.Process) -> None:
        print("running", flush=True)
        signal.pause()

    monkeypatch.setattr(sys, "stdout", Closes())
    with pytest.raises(bsp.SessionEnded, match=r"^this session has ended: it was closed during a call; start a"):
        session.run(main)
    closes.join()
    until(lambda: family(session) == [], END, "the end of all processes")


@ELEMENTS
def test_a_close_by_a_signals_handler_in_the_middle_of_a_call_is_the_cause_of_the_end(
    elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsp.session.elements._GRACE", 0.0)
    session = bsp.Session(2, elements)
    hear = session._elements._desk.hear

    def interrupted(seconds: float | None) -> None:
        session.close()
        hear(seconds)

    monkeypatch.setattr(session._elements._desk, "hear", interrupted)
    with pytest.raises(bsp.SessionEnded, match=r"^this session has ended: it was closed during a call; start a"):
        session.run(lambda proc: signal.pause())
    assert family(session) == [] and not os.path.exists(session._elements._folder)


def interrupted_once(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> None:
    """Have the next call of a function be interrupted, as by Ctrl-C."""
    real = getattr(place, name)

    def interrupted(*given: Any) -> None:
        monkeypatch.setattr(place, name, real)
        raise KeyboardInterrupt

    monkeypatch.setattr(place, name, interrupted)


@ELEMENTS
def test_after_two_interrupts_of_a_call_the_session_has_ended_and_close_ends_its_processes(
    elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = bsp.Session(2, elements)
    interrupted_once(monkeypatch, session._elements, "hear")
    interrupted_once(monkeypatch, elements_of_sessions, "end")
    with pytest.raises(KeyboardInterrupt):
        session.run(lambda proc: signal.pause())
    with pytest.raises(bsp.SessionEnded, match=r"^this session has ended: a call was interrupted; start a new"):
        session.run(lambda proc: None)
    session.close()
    assert family(session) == [] and not os.path.exists(session._elements._folder)


@ELEMENTS
def test_an_interrupt_of_close_ends_the_processes(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    session = bsp.Session(2, elements)
    assert session._elements._child is not None
    interrupted_once(monkeypatch, session._elements._child, "wait")
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert family(session) == [] and not os.path.exists(session._elements._folder)


def test_a_session_runs_one_call_at_a_time(session: bsp.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            with pytest.raises(bsp.LaunchError, match="runs a call already") as caught:
                session.run(lambda proc: None)
            found.append(str(caught.value))
            return len(text)

    monkeypatch.setattr(sys, "stdout", Out())
    session.run(lambda proc: print("text") if proc.pid == 0 else None)
    assert found


# ------------------------------------------------------------------------------------------ progress


def several(proc: bsp.Process) -> int:
    for _ in range(3):
        proc.send((proc.pid + 1) % proc.nprocs, np.zeros(16))
        proc.sync()
    print("done", proc.pid)
    return proc.superstep


def test_a_session_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard error is no terminal here: one line, after each call."""
    with bsp.Session(2, 2, progress=True) as session:
        assert session.run(several) == [3, 3]
        assert session.run(several) == [6, 6]
    out, err = capsys.readouterr()
    assert out == "done 0\ndone 1\n" * 2
    assert [line.split(",")[0] for line in err.splitlines()] == ["3 supersteps"] * 2
    assert all(" elapsed, " in line and line.endswith(" predicted") for line in err.splitlines())


@pytest.mark.parametrize("elements", [1, 2])
def test_run_shows_its_progress(elements: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert bsp.run(several, nprocs=2, elements=elements, progress=True) == [3, 3]
    out, err = capsys.readouterr()
    assert out == "done 0\ndone 1\n"
    assert err.startswith("3 supersteps, ")
    results = bsp.run(lambda proc: ba.arange(3.0).persist(), nprocs=2, elements=elements, progress=True)
    assert all(isinstance(result, ba.Array) for result in results)
    with pytest.raises(ZeroDivisionError):
        bsp.run(divides, nprocs=2, elements=elements, progress=True)


@pytest.mark.parametrize("progress", [False, True])
def test_progress_changes_no_exception_of_a_run(progress: bool) -> None:
    def stopped(proc: bsp.Process) -> None:
        sys.exit("no rows")

    def killed(proc: bsp.Process) -> None:
        if proc.pid == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        proc.sync()

    def mismatched(proc: bsp.Process) -> None:
        if proc.pid == 1:
            proc.sync()

    mains: list[tuple[Callable[..., Any], type[BaseException], str]] = [
        (stopped, SystemExit, "no rows"),
        (killed, bsp.LaunchError, "bsp.run: "),
        (mismatched, bsp.SyncMismatch, "process 0 has returned"),
    ]
    for main, kind, text in mains:
        with pytest.raises(kind, match=text) as raised:
            bsp.run(main, nprocs=2, elements=2, progress=progress)
        assert "bsp.Session" not in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
