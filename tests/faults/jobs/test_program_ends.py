"""A program ends under clones as it does without: the same text, the same files, the same exit status."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

pytestmark = pytest.mark.jobs

BSPRUN = str(Path(sys.executable).with_name("bsprun"))
ENGINES = ("", "--clones 2")
BOTH = pytest.mark.parametrize("options", ENGINES)


def ended(
    folder: Path, program: str, options: str, redirected: str = "", name: str | bytes = "program.py", **environment: str
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """The end of a job of two processes; `redirected` is what a shell does to its streams."""
    path = os.fsdecode(os.path.join(os.fsencode(folder), os.fsencode(name)))
    Path(path).write_text("import bsp\nproc = bsp.process()\n" + program)
    words = [BSPRUN, "-p", "2", "-n", "2", *options.split(), path]
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirected}', "sh", *words], cwd=folder, capture_output=True, text=True,
        errors="surrogateescape", timeout=300, env=os.environ | environment, check=False,
    )  # fmt: skip


CALLS = """
import sys
for call in (lambda: open("/no/such/folder/file"), lambda: 1 / 0, lambda: sys.exit(4)):
    try:
        proc.once(call)
    except (OSError, ZeroDivisionError, SystemExit) as error:
        print(type(error).__name__, error)
print(proc.once(lambda: proc.once(lambda: 5)))
proc.sync()
"""


@BOTH
def test_an_exception_in_a_call_of_once_reaches_the_program(tmp_path: Path, options: str) -> None:
    done = ended(tmp_path, CALLS, options)
    assert (done.returncode, done.stderr) == (0, "")
    lines = ["FileNotFoundError [Errno 2] No such file or directory: '/no/such/folder/file'",
             "ZeroDivisionError division by zero", "SystemExit 4", "5"]  # fmt: skip
    assert done.stdout.splitlines() == lines * 2


@BOTH
@pytest.mark.parametrize(
    ("call", "status", "said"),
    [("1 / 0", 1, "ZeroDivisionError: division by zero"), ("__import__('sys').exit(4)", 4, ""),
     ("proc.unknown", 1, "AttributeError: 'Process' object has no attribute 'unknown'")],
)  # fmt: skip
def test_one_that_the_program_does_not_catch_ends_it(
    tmp_path: Path, options: str, call: str, status: int, said: str
) -> None:  # fmt: skip
    done = ended(tmp_path, f"proc.sync()\nproc.once(lambda: {call})\n", options)
    assert done.returncode == status, done
    assert said in done.stderr and "BundleLost" not in done.stderr
    assert not said or f"lambda: {call}" in done.stderr.splitlines()[3]  # with the line


def test_what_clones_cannot_share_is_refused_in_the_program(tmp_path: Path) -> None:
    program = """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a)

def odd():
    raise Odd("two arguments", 2)

for call in (lambda: open("/dev/null"), lambda: proc.sync(), odd):
    try:
        proc.once(call)
    except Exception as error:
        print(type(error).__name__, str(error).partition(" (")[0])
proc.sync()
"""
    done = ended(tmp_path, program, "--clones 2")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third = done.stdout.splitlines()[:3]
    assert first == (
        "CannotSend once at program.py:13: its value, of type TextIOWrapper, cannot be pickled for the other clones"
    )
    assert second.startswith("BoundaryInOnce sync at program.py:11 in a call of once by process 0: one clone makes")
    assert third == "BspError Odd: two arguments"


SPEAKS = """
import random, sys
import numpy as np

def draw():
    return proc.rng.random(), np.random.normal(), random.gauss(0, 1)

def call(k):
    print("in once", proc.pid, k)
    print("to standard error", proc.pid, k, file=sys.stderr)
    return draw()

state = bsp.State(n=0)
for k in proc.rounds(4, state):
    state.n += proc.allreduce(k)
    print("before", proc.pid, k)
    print(proc.once(lambda: call(k)), draw())
    print("after", proc.pid, k, file=sys.stderr)
"""


def test_what_a_call_of_once_prints_and_draws_belongs_to_every_clone(tmp_path: Path) -> None:
    plain = ended(tmp_path, SPEAKS, "")
    assert (plain.returncode, len(plain.stdout.splitlines()), len(plain.stderr.splitlines())) == (0, 24, 16)
    for options in ("--clones 2", "--clones 3", "--clones 2 --inject kill:element=1,superstep=2"):
        cloned = ended(tmp_path, SPEAKS, options)
        assert (cloned.returncode, cloned.stdout) == (0, plain.stdout), cloned
        assert program_lines(cloned) == program_lines(plain)


def program_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines of standard error that are not bsprun's own, sorted: processes write at the same time."""
    return sorted(line for line in done.stderr.splitlines() if not line.startswith("bsprun: "))


MANY = """
import multiprocessing, sys, threading

def write(who):
    for k in range(300):
        print(who, proc.pid, k, file=sys.stderr)

threads = [threading.Thread(target=write, args=(f"thread {t}",)) for t in range(3)]
for each in threads:
    each.start()
for k in range(100):
    print("process", proc.pid, k, file=sys.stderr)
    proc.sync()
for each in threads:
    each.join()
for k in range(2):
    child = multiprocessing.get_context("fork").Process(target=lambda: print("child", proc.pid, k, file=sys.stderr))
    child.start()
    child.join()
    assert child.exitcode == 0
    print("parent", proc.pid, k, file=sys.stderr)
"""


def test_threads_and_children_write_whole_lines_to_standard_error(tmp_path: Path) -> None:
    plain = ended(tmp_path, MANY, "")
    assert plain.returncode == 0 and len(program_lines(plain)) == 2 * (3 * 300 + 100 + 2 + 2)
    alone = ended(tmp_path, MANY, "--checkpoint saved")
    assert (alone.returncode, program_lines(alone)) == (0, program_lines(plain))


TIMES = """
import os, sys
for k in range(50):
    print("process", proc.pid, "took", "." * (os.getpid() % 7), "in", k, file=sys.stderr)
    proc.sync()
"""


def test_lines_in_which_clones_differ_are_shown_once_and_whole(tmp_path: Path) -> None:
    cloned = ended(tmp_path, TIMES, "--clones 2")
    assert cloned.returncode == 0
    lines = sorted(line.replace(".", "") for line in program_lines(cloned))
    assert lines == sorted(f"process {pid} took  in {k}" for pid in (0, 1) for k in range(50))


HALVES = """
import numpy as np
for k in proc.rounds(5):
    print(np.random.normal())
    proc.sync()
"""


def test_taking_a_state_leaves_the_second_half_of_a_normal_pair(tmp_path: Path) -> None:
    """Each process is alone on its element, where its generators stay in place."""
    plain = ended(tmp_path, HALVES, "")
    saving = ended(tmp_path, HALVES, "--checkpoint saved --every 1")
    assert (saving.returncode, saving.stdout) == (0, plain.stdout), saving


BETWEEN_HALVES = """
import os, pathlib, sys, time
import numpy as np
drawn = bsp.State(of=[np.random.normal()])
lost = pathlib.Path("lost")
for k in proc.rounds(7, drawn):
    drawn.of += [np.random.normal() for _ in range(k % 2 + 1)]
    if proc.pid == 0 and k == int(os.environ["LOST"]) and not lost.exists():
        while not [*pathlib.Path("saved").glob("checkpoint-*/manifest.json")]:
            time.sleep(0.01)
        lost.touch()
        sys.exit(5)
    proc.sync()
print(drawn.of)
"""


@pytest.mark.parametrize("lost", ["3", "4", "5", "6"])
def test_a_process_that_is_given_a_state_forgets_its_own_half_of_a_normal_pair(tmp_path: Path, lost: str) -> None:
    """It has drawn one half before the loop; states have one at the heads of some rounds, and none at others."""
    plain = ended(tmp_path, BETWEEN_HALVES, "", LOST="-1")
    assert ended(tmp_path, BETWEEN_HALVES, "--checkpoint saved --every 1", LOST=lost).returncode == 5
    resumed = ended(tmp_path, BETWEEN_HALVES, "--resume saved", LOST=lost)
    assert (resumed.returncode, resumed.stdout) == (0, plain.stdout), resumed


LEAVES = """
import atexit, pathlib, threading
proc.sync()
go = threading.Event()
atexit.register(lambda: pathlib.Path(f"atexit-{proc.pid}").touch())

def write():
    go.wait()
    pathlib.Path(f"thread-{proc.pid}").touch()

threading.Thread(target=write).start()
threading.Timer(0.1, go.set).start()
"""


@BOTH
@pytest.mark.parametrize("end", ["", "raise ValueError('over')"])
def test_threads_and_functions_of_atexit_are_not_dropped(tmp_path: Path, options: str, end: str) -> None:
    done = ended(tmp_path, LEAVES + end, options)
    assert done.returncode == bool(end), done
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix == "") == [
        "atexit-0", "atexit-1", "thread-0", "thread-1"]  # fmt: skip


def test_what_a_thread_prints_after_the_end_is_printed_under_clones(tmp_path: Path) -> None:
    program = "import threading, time\nproc.sync()\n" + (
        "threading.Thread(target=lambda: (time.sleep(0.1), print('late', proc.pid))).start()\n"
    )
    done = ended(tmp_path, program, "--clones 2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "late 0\n", "late 1\n")


@BOTH
def test_text_that_no_encoding_has_is_told(tmp_path: Path, options: str) -> None:
    done = ended(tmp_path, "import sys\nproc.sync()\nsys.exit('no file \\udcff')\n", options)
    assert (done.returncode, done.stderr) == (1, "no file \\udcff\n")
    done = ended(tmp_path, "proc.sync()\nif proc.pid: 1 / 0\n", options, name=b"odd\xff.py")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr and "odd\\udcff.py" in done.stderr


@BOTH
def test_a_reported_error_never_has_status_0(tmp_path: Path, options: str) -> None:
    done = ended(tmp_path, "import sys\nif proc.pid: sys.exit(256)\nproc.sync()\n", options)
    assert done.returncode == 1 and "left with status 256" in done.stderr


@BOTH
def test_text_is_encoded_alike_on_all_processes(tmp_path: Path, options: str) -> None:
    latin = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = ended(tmp_path, "print('\\xe9', proc.pid)\nproc.sync()\n", options, **latin)
    assert (done.returncode, done.stdout) == (0, "\udce9 0\n\udce9 1\n")
    done = ended(tmp_path, "proc.sync()\nif proc.pid: print('\\u2192')\n", options, **latin)
    assert done.returncode == 1 and "UnicodeEncodeError" in done.stderr


@pytest.mark.parametrize("options", [*ENGINES, "--predict", "-n 1"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(tmp_path: Path, options: str, closed: str) -> None:
    program = "proc.sync()\nprint('hello', proc.pid)\nopen(f'{proc.pid}', 'w').write('written')\n"
    events = ["--events", "events.jsonl"] if "clones" in options else []
    done = ended(tmp_path, program, " ".join([options, *events]), closed)
    assert done.returncode == 0, done
    text = "hello 0\nhello 1\n"
    assert options == "--predict" or done.stdout == ("" if ">&-" in closed.split() else text)
    assert [(tmp_path / f"{pid}").read_text() for pid in (0, 1)] == ["written"] * 2
    assert not events or "hello" not in (tmp_path / "events.jsonl").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [("--profile program.py", "--profile 'program.py': cannot be made: File exists"),
     ("--clones 2 --listen 99999", "--listen 99999: ports are 0 (any that is free) to 65535")],
)  # fmt: skip
def test_wrong_options_are_one_error(tmp_path: Path, options: str, said: str) -> None:
    done: Any = ended(tmp_path, "", options)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"bsprun: error: {said}\n")


@pytest.mark.parametrize("end", ["", "1 / 0", "os.kill(int(sys.argv[1]), signal.SIGINT)\nproc.sync()\nsignal.pause()"])
def test_programs_that_clones_have_started_end_with_the_job(tmp_path: Path, end: str) -> None:
    """Also those of a worker that was killed."""
    program = tmp_path / "program.py"
    program.write_text(f"""
import os, signal, subprocess, sys, bsp
proc = bsp.process()
child = subprocess.Popen(["sleep", "600"])
open(str(child.pid), "w").close()
for k in proc.rounds(5):
    proc.sync()
{end}
""")
    command = 'exec "$0" -p 2 -n 2 --clones 2 --inject kill:worker=3,superstep=2 program.py $$'
    none = subprocess.DEVNULL
    subprocess.run(["sh", "-c", command, BSPRUN], cwd=tmp_path, stdout=none, stderr=none, timeout=60, check=False)
    started = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]
    assert len(started) >= 2  # the other clones may not have come so far
    assert not [pid for pid in started if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


@pytest.mark.parametrize("above", [2, 3], ids=["what agents are forked from", "the keeper"])
def test_programs_that_clones_have_started_end_with_the_keeper(tmp_path: Path, above: int) -> None:
    """The worker's parents: what it is forked from, its agent, what that is forked from, the keeper."""
    program = f"""
import subprocess, psutil
null = subprocess.DEVNULL
child = subprocess.Popen(["sleep", "600"], stdout=null, stderr=null)
open(str(child.pid), "w").close()
proc.sync()
if proc.pid == 0:
    psutil.Process().parents()[{above}].kill()
while True:
    proc.sync()
"""
    done = ended(tmp_path, program, "--clones 2")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    started = [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]
    assert len(started) >= 2  # the other clones may not have come so far
    assert not [pid for pid in started if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


def test_a_call_of_os_exit_is_named_once_under_clones(tmp_path: Path) -> None:
    program = (
        "import os\nif not os.fork(): os._exit(4)\nos.wait()\nproc.sync()\nif proc.pid: os._exit(5)\nproc.sync()\n"
    )
    done = ended(tmp_path, program, "--clones 2")
    assert done.returncode == 3
    assert re.fullmatch(
        r"bsprun: bundle 1 ended by os\._exit\(5\) at \S+:\d+\n"
        r"bsprun: BundleLost: process 1 \(bundle 1\), .*: its worker left with status 5, 4 times in superstep 1\n",
        done.stderr,
    )


@BOTH
@pytest.mark.parametrize("end", ["", "raise ValueError('over')"])
def test_what_is_written_to_a_file_that_is_not_closed_is_in_it(tmp_path: Path, options: str, end: str) -> None:
    """Files of the script, of a module and of a function that is under way when the program fails."""
    (tmp_path / "journal.py").write_text("file = open('journal.txt', 'w')\n")
    program = f"""
import journal
script = open(f"script-{{proc.pid}}.txt", "w")
def work():
    local = open(f"local-{{proc.pid}}.txt", "wb")
    print("text", file=script)
    local.write(b"bytes")
    print("text", file=journal.file)
    proc.sync()
    {end}
work()
"""
    done = ended(tmp_path, program, options)
    assert done.returncode == bool(end), done
    texts = {each.name: each.read_text() for each in tmp_path.glob("*.txt")}
    kept = {f"{name}-{pid}.txt": text for name, text in (("script", "text\n"), ("local", "bytes")) for pid in (0, 1)}
    assert texts == kept | {"journal.txt": "text\n"}


OVERWRITTEN = """
import bsp.arrays as ba
x = ba.load("x.npy")
ba.save("x.npy", x + 1)
state = bsp.State(total=0.0)
for _ in proc.rounds(30, state):
    state.total += float(x.sum())
print(state.total)
"""


def test_a_file_that_the_job_has_changed_is_told_when_a_process_reads_it_again(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(50_000.0))
    done = ended(tmp_path, OVERWRITTEN, "--clones 1 --inject signal:worker=1,superstep=14,name=SIGKILL")
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "computed again after a loss, processes do something else than before: " in done.stderr
    assert "load('x.npy'): process 1 sees other contents than process 0" in done.stderr
