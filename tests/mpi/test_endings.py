"""How jobs end when something is in the way: threads, children, deaths, closed streams; and where their text goes."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from bsp.host import find_mpiexec, is_open_mpi

pytestmark = [pytest.mark.jobs, pytest.mark.crossed]

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
ELEMENTS = pytest.mark.parametrize("elements", [1, 2])
HEAD = "import ctypes, os, signal, sys, threading, time\nimport bsp\nproc = bsp.process()\n"


def program(folder: Path, source: str) -> Path:
    path = folder / "solver.py"
    path.write_text(HEAD + textwrap.dedent(source))
    return path


def job(path: Path, elements: int, *words: str, deadline: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BSPRUN, "-p", "4", "-n", str(elements), *words, str(path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=deadline,
    )  # fmt: skip


def nothing_runs(path: Path) -> bool:
    """Whether no process has the program in its command line."""
    return not any(str(path) in (each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"]))


# ------------------------------------------------------------------------- threads and children


@ELEMENTS
def test_a_thread_that_goes_on_does_not_keep_an_error_from_being_told(tmp_path: Path, elements: int) -> None:
    path = program(
        tmp_path,
        """
        if proc.pid == 1:
            threading.Thread(target=time.sleep, args=(1000,)).start()
        proc.sync()
        if proc.pid == 2:
            raise ValueError("no convergence")
        proc.sync()
        """,
    )
    ended = job(path, elements)
    assert ended.returncode == 1
    assert ended.stderr.startswith("bsprun: process 2 raised in superstep 1:\n")
    assert ended.stderr.endswith("ValueError: no convergence\n")
    assert nothing_runs(path)


@pytest.mark.thorough
@ELEMENTS
def test_a_job_that_waits_for_a_thread_says_so_and_ends_with_it(tmp_path: Path, elements: int) -> None:
    """The thread ends when the note has been said: when a file appears that this test makes then."""
    path = program(
        tmp_path,
        f"""
        def wait():
            while not os.path.exists({str(tmp_path / "go")!r}):
                time.sleep(0.01)
            print("the thread has ended")

        if proc.pid == 3:
            threading.Thread(target=wait, name="writer").start()
        proc.sync()
        """,
    )
    running = subprocess.Popen(
        [BSPRUN, "-p", "4", "-n", str(elements), str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None and running.stderr is not None
    note = running.stderr.readline()
    (tmp_path / "go").touch()
    waits = rf"element {elements - 1} waits for its thread 'writer' at solver.py:\d+"
    assert re.fullmatch(rf"bsprun: note: the program has ended; {waits}\n", note)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out, err) == (0, "the thread has ended\n", "")


@ELEMENTS
def test_a_boundary_in_a_forked_child_is_an_error_of_the_child(tmp_path: Path, elements: int) -> None:
    path = program(
        tmp_path,
        """
        child = os.fork() if proc.pid == 1 else 1
        proc.sync()
        if proc.pid == 1:
            print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    )
    ended = job(path, elements)
    assert (ended.returncode, ended.stdout) == (0, "child ended with 1\n")
    assert ended.stderr.startswith("bsprun: a child of process 1 raised:\nTraceback")
    assert "Forked: sync at solver.py:6 in a child that process 1 has made by os.fork" in ended.stderr
    assert nothing_runs(path)


@ELEMENTS
def test_a_forked_child_that_comes_to_the_scripts_end_runs_no_other_process(tmp_path: Path, elements: int) -> None:
    path = program(
        tmp_path,
        """
        proc.sync()
        if proc.pid == 2:
            if os.fork() == 0:
                print("the child")
                sys.exit(7)
            print("child ended with", os.waitstatus_to_exitcode(os.wait()[1]))
        proc.sync()
        print("process", proc.pid)
        """,
    )
    ended = job(path, elements)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == sorted(
        ["the child", "child ended with 7", *(f"process {pid}" for pid in range(4))]
    )


def test_finalizing_mpi_is_refused_while_elements_are_ranks(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        """
        if proc.pid == 3:
            from mpi4py import MPI
            MPI.Finalize()
        proc.sync()
        """,
    )
    ended = job(path, 2)
    assert ended.returncode == 1
    assert ended.stderr.endswith(
        "MPI.Finalize() at solver.py:7: MPI is bsprun's while the job runs, which ends it with the job\n"
    )


# ----------------------------------------------------------------------------------- deaths


DEATHS = {
    "ctypes.string_at(0)": (139, r"was killed by SIGSEGV at solver.py:6"),
    "os.abort()": (134, r"was killed by SIGABRT at solver.py:6"),
    "os.kill(os.getpid(), signal.SIGKILL)": (137, r"was killed by SIGKILL \(out of memory\?\)( near solver.py:6)?"),
    "os._exit(5)": (5, r"ended by os._exit\(5\) at solver.py:6"),
    "os._exit(0)": (1, r"ended by os._exit\(0\) at solver.py:6"),
}


@ELEMENTS
@pytest.mark.parametrize("death", DEATHS)
def test_a_dead_element_is_named_with_its_processes_whose_turn_it_was_and_where(
    tmp_path: Path, death: str, elements: int
) -> None:
    path = program(tmp_path, f"proc.sync()\nif proc.pid == 3:\n    {death}\nproc.sync()\n")
    status, how = DEATHS[death]
    ended = job(path, elements)
    assert (ended.returncode, ended.stdout) == (status, "")
    whose = {1: "element 0 (processes 0-3)", 2: "element 1 (processes 2-3)"}[elements]
    assert re.fullmatch(
        rf"bsprun: error: {re.escape(whose)} {how}, in the turn of process 3, superstep 1\n", ended.stderr
    )
    assert nothing_runs(path)


def test_a_death_by_sigkill_names_a_line_that_ran_for_a_while(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        f"""
        if proc.pid == 1:
            open({str(tmp_path / "pid")!r}, 'w').write(str(os.getpid()))
            while True:
                sum(range(1000))
        proc.sync()
        """,
    )
    running = subprocess.Popen(
        [BSPRUN, "-p", "2", "-n", "2", str(path)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    note = tmp_path / "pid"
    until = time.monotonic() + 300
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    victim = psutil.Process(int(note.read_text()))
    while victim.cpu_times().user < 1.6:  # it has been looked at once a second
        assert time.monotonic() < until
        time.sleep(0.01)
    victim.kill()
    _, err = running.communicate(timeout=300)
    assert running.returncode == 137
    assert re.fullmatch(
        r"bsprun: error: element 1 \(process 1\) was killed by SIGKILL \(out of memory\?\) near solver.py:[78], "
        r"in the turn of process 1, superstep 0\n",
        err,
    )


def test_what_mpis_launcher_says_is_shown_when_the_job_does_not_start(tmp_path: Path) -> None:
    ended = job(program(tmp_path, ""), 2, "--mpi-args=--no-such-option")
    assert ended.returncode not in (0, 2)
    assert "no-such-option" in ended.stderr


@pytest.mark.thorough
@pytest.mark.skipif(not is_open_mpi(find_mpiexec() or ""), reason="breaks Open MPI by a variable of its own")
def test_a_job_ends_whose_mpi_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_btl", "no_such_component")
    ended = job(program(tmp_path, ""), 2)
    assert ended.returncode not in (0, 2)
    assert ended.stderr.count("no_such_component") <= 1  # Open MPI does not always say why
    # Open MPI's launcher sometimes aborts or crashes when its processes do, before it has told of their end
    whose = r"(element [01] .* before its first process ran|the job was ended by SIG(ABRT|SEGV|BUS))"
    assert re.search(rf"bsprun: error: {whose}; does MPI start\? Try mpiexec .*\n$", ended.stderr)


# ------------------------------------------------------------------------------------- text


@ELEMENTS
@pytest.mark.parametrize("how", ["sys.stdout.close()", "del sys.stdout", "os.close(1)"])
def test_what_process_0_does_to_its_standard_output_is_not_the_others_loss(
    tmp_path: Path, elements: int, how: str
) -> None:
    path = program(
        tmp_path,
        f"""
        proc.sync()
        if proc.pid == 0:
            print("zero")
            {how}
        proc.sync()
        print("process", proc.pid, file=sys.stderr if proc.pid == 0 else None)
        proc.sync()
        if proc.pid == 1:
            raise KeyError("of the program")
        proc.sync()
        """,
    )
    ended = job(path, elements)
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == ["zero", "process 1", "process 2", "process 3"]
    assert ended.stderr.startswith("process 0\nbsprun: process 1 raised in superstep 3:\n")
    assert ended.stderr.endswith("KeyError: 'of the program'\n")
    assert "bsp/" not in ended.stderr


def test_a_line_of_thirty_megabytes_comes_through_whole(tmp_path: Path) -> None:
    path = program(tmp_path, "print(str(proc.pid) * (30_000_000 if proc.pid == 1 else 3))\nproc.sync()\n")
    ended = job(path, 2)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"000\n{'1' * 30_000_000}\n222\n333\n"


@ELEMENTS
def test_standard_streams_are_those_of_bsprun(tmp_path: Path, elements: int) -> None:
    """Pipes and files are what they are; a terminal is one only where bsprun has one, and then at once."""
    path = program(
        tmp_path,
        """
        if proc.pid == 0:
            print(*(os.isatty(k) for k in range(3)), sys.stdout.isatty(), flush=True)
        proc.sync()
        print("process", proc.pid)
        """,
    )
    said = f"False False False False\n{''.join(f'process {pid}{chr(10)}' for pid in range(4))}"
    assert job(path, elements).stdout == said
    with open(tmp_path / "out", "w+") as file:
        file.write("before\n")
        file.flush()
        words = [BSPRUN, "-p", "4", "-n", str(elements), str(path)]
        subprocess.run(words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, timeout=300, check=True)
        file.write("after\n")
    assert (tmp_path / "out").read_text() == f"before\n{said}after\n"


@ELEMENTS
def test_on_a_terminal_text_and_progress_are_live(tmp_path: Path, elements: int) -> None:
    path = program(
        tmp_path,
        f"""
        if proc.pid == 0:
            print(os.isatty(1), os.isatty(2))
        while not proc.allreduce(os.path.exists({str(tmp_path / "go")!r})):
            time.sleep(0.01)
        """,
    )
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [BSPRUN, "-p", "2", "-n", str(elements), "--progress", str(path)],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen, until = b"", time.monotonic() + 300
    while seen.count(b"superstep") < 2 or b"True True" not in seen:  # before the job can end
        assert time.monotonic() < until, seen
        if select.select([ours], [], [], 1)[0]:
            seen += os.read(ours, 4096)
    (tmp_path / "go").touch()
    assert running.wait(60) == 0
    os.close(ours)


@pytest.mark.parametrize("words", [["bsprun", "--help"], ["bsp", "--help"], ["bsp", "probe", "--list"]])
def test_text_of_a_command_itself_that_nobody_reads(words: list[str]) -> None:
    """A reader that has left is no error, as in `bsp probe --list | head`; a full disk is one in a line."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [os.path.join(os.path.dirname(BSPRUN), words[0]), *words[1:]]

    def ended(out: int) -> tuple[int, str]:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=300, env=environment)
        os.close(out)
        return done.returncode, done.stderr

    reader, writer = os.pipe()
    os.close(reader)
    assert ended(writer) == (0, "")
    status, said = ended(os.open("/dev/full", os.O_WRONLY))
    assert status == 2
    assert said == f"{words[0]}: error: standard output: No space left on device\n"


@pytest.mark.parametrize("elements", [1, 2])
def test_the_status_of_a_failure_stays_where_nobody_reads_standard_error(tmp_path: Path, elements: int) -> None:
    path = program(tmp_path, "raise SystemExit('what went wrong')")
    reader, writer = os.pipe()
    os.close(reader)
    for out in (writer, os.open("/dev/full", os.O_WRONLY)):
        command = [BSPRUN, "-p", "2", "-n", str(elements), str(path)]
        done = subprocess.run(command, stderr=out, stdout=subprocess.PIPE, timeout=300)
        os.close(out)
        assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize("elements", [1, 2])
@pytest.mark.parametrize("ends", ["for _ in range(99):\n    proc.sync()", "raise SystemExit(3)"])
def test_a_full_disk_under_standard_output_is_one_line(tmp_path: Path, ends: str, elements: int) -> None:
    path = program(tmp_path, f"if proc.pid == 1:\n    print('text')\n{ends}\n")
    with open("/dev/full", "w") as full:
        command = [BSPRUN, "-p", "2", "-n", str(elements), str(path)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    assert re.fullmatch(
        r"bsprun: error: element 0 \(process(es)? 0(-1)?\) ended by an error of standard output: No space left on "
        r"device, in the turn of process \d, superstep 0\n",
        done.stderr,
    )


def test_more_text_than_is_held_for_a_reader_that_has_left_is_no_error() -> None:
    code = (
        "import sys\nfrom bsp.command import entry, tool\n"
        "tool.bsp = lambda: print('a' * 100) or print('b' * 100000) or 0\nsys.exit(entry.bsp())\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    for out, status in ((writer, 0), (os.open("/dev/full", os.O_WRONLY), 2)):
        done = subprocess.run([sys.executable, "-c", code], stdout=out, stderr=subprocess.PIPE, text=True, timeout=300)
        os.close(out)
        assert done.returncode == status
        assert done.stderr == "bsp: error: standard output: No space left on device\n" * (status > 0)


def test_an_error_of_another_file_is_not_one_of_standard_output() -> None:
    code = (
        "import sys\nfrom bsp.command import entry, tool\n"
        "def fails():\n    print('done')\n    raise BrokenPipeError(32, 'Broken pipe', 'a socket')\n"
        "tool.bsp = fails\nsys.exit(entry.bsp())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "done\n")
    assert done.stderr == "bsp: error: [Errno 32] Broken pipe: 'a socket'\n"
