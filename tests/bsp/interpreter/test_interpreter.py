"""Many processes in one interpreter: text, `__main__`, standard input, and the world of one."""

from __future__ import annotations

import gc
import io
import os
import re
import subprocess
import sys
import threading
import traceback
from typing import Any

import greenlet
import pytest
from tests_run import run_program

import bsp
from bsp.interpreter.garbage import MOST


@pytest.mark.solo
def test_text_of_pid_0_is_out_at_once_and_the_others_at_the_boundary_in_pid_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = []

    def main(proc: bsp.Process) -> None:
        for line in range(2):
            print(f"{proc.superstep}.{line} {proc.pid}")
            if proc.pid == 2:
                seen.append(capsys.readouterr().out)
        proc.sync()
        seen.append(capsys.readouterr().out)
        print("end", proc.pid)

    run_program(main, nprocs=3)
    assert seen[0] == "0.0 0\n0.1 0\n"
    assert seen[2] == "0.0 1\n0.1 1\n0.0 2\n0.1 2\n"
    assert "".join(seen[3:]) + capsys.readouterr().out == "end 0\nend 1\nend 2\n"


@pytest.mark.solo
def test_text_written_as_bytes_or_before_a_failure_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    def main(proc: bsp.Process) -> None:
        if proc.pid == 1:
            sys.stdout.buffer.write(b"bytes\n")
            print("é", end="")
            raise ValueError("stop")
        try:
            proc.sync()
        finally:
            print("cleanup", proc.pid)

    with pytest.raises(ValueError, match="stop"):
        run_program(main, nprocs=3)
    assert capsys.readouterr().out == "cleanup 0\nbytes\nécleanup 2\n"


@pytest.mark.solo
def test_standard_streams_and_main_are_the_callers_again_after_a_run() -> None:
    before = sys.stdout, sys.stdin, sys.modules["__main__"]

    def main(proc: bsp.Process) -> None:
        sys.stdout = io.StringIO()  # a redirection of its own, kept over boundaries
        mine = sys.stdout
        proc.sync()
        assert sys.stdout is mine
        print("nobody sees this")

    run_program(main, nprocs=3)
    assert (sys.stdout, sys.stdin, sys.modules["__main__"]) == before


@pytest.mark.parametrize("nprocs", [2, 3])
def test_only_pid_0_reads_standard_input(run: Any, nprocs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a line\n"))

    def main(proc: bsp.Process) -> str:
        return sys.stdin.readline()

    assert run(main, nprocs=nprocs)[1:] == [""] * (nprocs - 1)


def test_bsp_process_is_the_process_whose_turn_it_is(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        for _ in range(3):
            assert bsp.process() is proc
            proc.sync()

    run(main, nprocs=4)


def test_a_run_inside_a_run_is_a_world_of_its_own(run: Any) -> None:
    def inner(proc: bsp.Process, outer: int) -> int:
        return int(proc.allreduce(outer + proc.pid))

    def main(proc: bsp.Process) -> list[int]:
        found = bsp.run(inner, proc.pid, nprocs=2)
        proc.sync()
        assert bsp.process() is proc
        return found

    assert run(main, nprocs=3) == [[1, 1], [3, 3], [5, 5]]


def test_handles_of_other_processes_and_of_ended_runs_are_refused(run: Any) -> None:
    handles: dict[int, tuple[bsp.Process, bsp.Coarray]] = {}

    def main(proc: bsp.Process) -> None:
        x = proc.coarray(2)
        handles[proc.pid] = proc, x
        proc.sync()
        for pid, (other, theirs) in list(handles.items()):
            if pid != proc.pid:
                with pytest.raises(bsp.NotRegistered, match=f"it belongs to process {pid}"):
                    theirs.put(0, 1.0, at=0)
                with pytest.raises(bsp.NotRegistered, match=f"called by process {proc.pid}"):
                    other.sync()
        proc.sync()

    run(main, nprocs=3)
    for proc, x in handles.values():
        with pytest.raises(bsp.NotRegistered, match="has ended"):
            x.put(0, 1.0, at=0)
        with pytest.raises(bsp.NotRegistered, match="has ended"):
            proc.sync()


def test_what_main_raises_is_raised_by_run_with_a_note_on_where(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        proc.sync()
        if proc.pid == 1:
            raise KeyError("lost")
        with pytest.raises(bsp.ProcessFailed, match=r"process 1 raised KeyError: 'lost' \(test_interpreter.py:\d+"):
            proc.sync()

    with pytest.raises(KeyError) as told:
        run(main, nprocs=3)
    assert "raised by process 1 in superstep 1" in "".join(told.value.__notes__)


@pytest.mark.parametrize("options", [{"nprocs": 0}, {"nprocs": 2, "elements": 0}, {"nprocs": 2, "elements": 3}])
@pytest.mark.solo
def test_impossible_runs_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(bsp.LaunchError):
        bsp.run(lambda proc: None, **options)
    with pytest.raises(bsp.LaunchError, match="magic"):
        bsp.run(lambda proc: None, nprocs=1, engine="magic")
    with pytest.raises(bsp.LaunchError, match="pigeon"):
        bsp.run(lambda proc: None, nprocs=1, schedule="pigeon")


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_thread_may_not_end_the_superstep_of_its_process(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> str:
        told = []

        def in_thread() -> None:
            try:
                proc.sync()
            except bsp.WrongThread as wrong:
                told.append(str(wrong))

        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        proc.sync()
        return told[0]

    for said in run(main, nprocs=nprocs):
        assert said.startswith("sync at test_interpreter.py:") and "by a thread that process" in said


@pytest.mark.parametrize("refused", ["allreduce", "alltoall", "transfer"])
@pytest.mark.parametrize("nprocs", [2, 3])
def test_what_a_refused_collective_would_have_sent_does_not_come_with_the_next_one(
    run: Any, nprocs: int, refused: str
) -> None:
    def main(proc: bsp.Process) -> list[int]:
        x = proc.coarray(1, int)

        def in_thread() -> None:
            with pytest.raises(bsp.WrongThread):
                if refused == "allreduce":
                    proc.allreduce(-100)
                elif refused == "alltoall":
                    proc.alltoall([-100] * nprocs)
                else:
                    proc.transfer(-100, to=(proc.pid + 1) % nprocs, expect=True)

        x.put((proc.pid + 1) % nprocs, proc.pid, at=0)  # a call of the program's own, which stays
        if proc.pid == 1:
            thread = threading.Thread(target=in_thread)
            thread.start()
            thread.join()
        received = proc.alltoall([10 * proc.pid + k for k in range(nprocs)])
        return [int(x.local[0]), *received]

    assert run(main, nprocs=nprocs) == [
        [(pid - 1) % nprocs, *(10 * k + pid for k in range(nprocs))] for pid in range(nprocs)
    ]


@pytest.mark.parametrize("nprocs", [1, 3])
def test_greenlets_of_a_process_may_end_its_supersteps_in_turn(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[tuple[str, int]]:
        here, found = greenlet.getcurrent(), []

        def work(name: str) -> None:
            for k in range(2):
                found.append((name, proc.allreduce(k)))
                here.switch()

        both = [greenlet.greenlet(work) for _ in "ab"]
        for _ in range(2):
            for name, one in zip("ab", both, strict=True):
                one.switch(name) if not one else one.switch()
            proc.sync()
        return found

    assert run(main, nprocs=nprocs) == [[("a", 0), ("b", 0), ("a", nprocs), ("b", nprocs)]] * nprocs


def test_rounds_are_a_range_with_a_state(run: Any) -> None:
    def main(proc: bsp.Process) -> list[int]:
        state = bsp.State(total=0)
        for k in proc.rounds(4, state):
            state.total += proc.allreduce(k)
        return [state.total, *proc.rounds(2)]

    assert run(main, nprocs=3) == [[18, 0, 1]] * 3


@pytest.mark.parametrize(("times", "state", "said"), [
    (2.5, None, "'float' object cannot be interpreted as an integer"), (3, {"x": 1}, "bsp.State(x=x), not a dict"),
])  # fmt: skip
def test_rounds_take_a_whole_number_and_a_state(times: Any, state: Any, said: str) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(TypeError, match=re.escape(said)):
            proc.rounds(times, state)

    bsp.run(main, nprocs=2)


@pytest.mark.solo
@pytest.mark.parametrize(("rank", "warned"), [("0", True), ("1", False)])
@pytest.mark.parametrize("launcher", ["OMPI_COMM_WORLD", "PMI"])
def test_copies_that_mpiexec_starts_of_a_plain_script_are_told_of(launcher: str, rank: str, warned: bool) -> None:
    program = "import bsp\nprint(bsp.process().nprocs)"
    environment = os.environ | {f"{launcher}_SIZE": "2", f"{launcher}_RANK": rank}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )  # fmt: skip
    assert ran.stdout == "1\n"
    told = "RuntimeWarning: MPI has started 2 copies of this program, and each is a world of one process"
    assert (told in ran.stderr and "bsprun -p 2" in ran.stderr) is warned
    assert warned or not ran.stderr


@pytest.mark.solo
def test_tracebacks_of_run_show_the_caller_and_the_program_and_no_frame_between() -> None:
    def inner(x: bsp.Coarray) -> None:
        x.put(0, [1, 2, 3, 4])

    def main(proc: bsp.Process) -> None:
        x = proc.coarray(3)
        proc.sync()
        inner(x)

    with pytest.raises(bsp.ShapeError) as ended:
        bsp.run(main, nprocs=2)
    frames = [each.name for each in traceback.extract_tb(ended.value.__traceback__)]
    test = "test_tracebacks_of_run_show_the_caller_and_the_program_and_no_frame_between"
    assert frames == [test, "main", "inner"]


@pytest.mark.solo
@pytest.mark.parametrize(("name", "instead"), [
    ("rank", "pid"), ("Get_size", "nprocs"), ("Barrier", "sync()"), ("bcast", "broadcast(value, root)"), ("moo", None),
    ("Send", "send"), ("Allreduce", "allreduce"), ("Alltoallv", "total_exchange(rows, counts)"), ("Moo", None),
    ("put", "x.put of a coarray, x = proc.coarray(shape)"),
])  # fmt: skip
def test_names_of_mpi_and_of_coarrays_lead_to_those_of_a_process(name: str, instead: str | None) -> None:
    with pytest.raises(AttributeError) as ended:
        bsp.run(lambda proc: getattr(proc, name), nprocs=2)
    found = [note for note in ended.value.__notes__ if note.startswith("instead of ")]
    assert found == ([f"instead of {name}: {instead}"] if instead else [])


@pytest.mark.solo
@pytest.mark.parametrize(("name", "instead"), [
    ("to_numpy", r"compute\(\), .*"), ("median", r"ba\.median\(x\)"), ("strides", r"compute\(\)\.strides: .*"),
])  # fmt: skip
def test_methods_that_arrays_lack_lead_to_what_computes_the_same(name: str, instead: str) -> None:
    import bsp.arrays as ba

    with pytest.raises(AttributeError) as ended:
        bsp.run(lambda proc: getattr(ba.ones(3), name), nprocs=2)
    assert any(re.fullmatch(f"instead of {name}: {instead}", note) for note in ended.value.__notes__)


@pytest.mark.solo
def test_a_mistake_that_is_none_of_this_packages_keeps_the_frames_behind_the_programs_last() -> None:
    with pytest.raises(TypeError) as ended:
        bsp.run(lambda proc: proc.coarray(3, dtype="no such dtype"), nprocs=2)
    files = [os.path.basename(each.filename) for each in traceback.extract_tb(ended.value.__traceback__)]
    assert files[:2] == ["test_interpreter.py", "test_interpreter.py"]
    assert files[2:]
    assert "test_interpreter.py" not in files[2:]


def test_the_garbage_collector_allows_each_process_its_own_objects() -> None:
    """Python's collector counts objects of all processes of an interpreter: see bsp/interpreter/garbage.py."""
    before = gc.get_threshold()

    def main(proc: bsp.Process) -> tuple[int, ...]:
        return gc.get_threshold()

    for found in bsp.run(main, nprocs=5):
        assert found == (5 * before[0], *before[1:])
    assert gc.get_threshold() == before
    assert bsp.run(main, nprocs=1) == [before]
    assert bsp.run(main, nprocs=1000)[0][0] == MOST


def test_what_a_program_tells_the_garbage_collector_stays() -> None:
    before = gc.get_threshold()

    def main(proc: bsp.Process) -> None:
        gc.set_threshold(12345)

    try:
        bsp.run(main, nprocs=3)
        assert gc.get_threshold()[0] == 12345
    finally:
        gc.set_threshold(*before)
