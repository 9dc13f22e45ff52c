"""What a program sees of cloned execution, on real processes: each line of its text once, each effect once."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import bsp

pytestmark = pytest.mark.crossed

BSPRUN = str(Path(sys.executable).with_name("bsprun"))


def bsprun(*arguments: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BSPRUN, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


def script(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text("import sys, time\nimport numpy as np\nimport bsp\nproc = bsp.process()\n" + text)
    return path


# Each is a program whose clones are killed: agents and workers, in loops, between them and without any.
PROGRAMS = {
    "no rounds at all": """
total = 0.0
for k in range(30):
    time.sleep(0.004)
    total += proc.allreduce(proc.rng.random() + proc.pid)
    if k % 10 == 0: print(k, proc.pid, total.hex())
""",
    "two loops, left by break and by return": """
state = bsp.State(x=0.0)
def first():
    for k in proc.rounds(40, state):
        time.sleep(0.004)
        state.x += proc.allreduce(np.random.normal())
        if k == 14: return k
print(first(), state.x.hex())
for k in proc.rounds(40, state):
    time.sleep(0.004)
    state.x = 0.5 * state.x + proc.allreduce(1.0)
    if k == 12: break
print(proc.pid, state.x.hex())
""",
    "coarrays: made before, made inside, registered, in the state": """
mine = np.zeros(4)
ring, slow = proc.coarray(3), proc.register(mine)
state = bsp.State(made=None, seen=np.zeros(2), ring=ring)
for k in proc.rounds(30, state):
    time.sleep(0.004)
    if k == 3:
        state.made = proc.coarray((2, 2), dtype=int)
    state.ring.put((proc.pid + 1) % proc.nprocs, [k, proc.pid, state.seen[0]])
    if k > 3:
        state.made.put((proc.pid + 2) % proc.nprocs, k, at=(1, 0), op="add")
    slow.put(0, proc.pid + k, at=k % 4)
    proc.send((proc.pid + 1) % proc.nprocs, {"round": k, "list": [mine[0]] * 2})
    proc.sync()
    state.seen += [ring.local.sum(), sum(m.payload["round"] for m in proc.inbox)]
print(proc.pid, state.seen.tolist(), mine.tolist(), state.made.local.tolist())
""",
    "large packets": """
state = bsp.State(x=np.full(40_000, float(proc.pid)))
big = proc.coarray(40_000)
for k in proc.rounds(25, state):
    time.sleep(0.004)
    big.put((proc.pid + 1) % proc.nprocs, state.x)
    proc.sync()
    state.x = 0.9 * big.local + k
print(proc.pid, float(state.x.sum()).hex())
""",
    "objects of the script's own classes, with messages of them": """
from collections import defaultdict
class Model:
    def __init__(self): self.beta = 1.0 + proc.pid
model, history, mean = Model(), [], np.zeros(2)
rounds = defaultdict(lambda: 0)  # its function cannot be pickled, and need not be
state = bsp.State(model=model, history=history, mean=mean, rounds=rounds)
for times in (20, 10):
    for k in proc.rounds(times, state):
        time.sleep(0.004)
        proc.send((proc.pid + 1) % proc.nprocs, model)
        proc.sync()
        model.beta += proc.inbox[0].payload.beta / 2
        assert type(model) is type(proc.inbox[0].payload) is Model
        assert model is state.model and history is state.history and mean is state.mean
        mean[k % 2] += proc.allreduce(model.beta) / proc.nprocs
        history.append(mean.sum().hex())
        rounds[k % 3] += 1
print(proc.pid, model.beta.hex(), mean.tolist(), history, dict(rounds))
""",
    "arrays that are first used in a round, and kept": """
import bsp.arrays as ba
state = bsp.State(total=0.0, kept=None)
for k in proc.rounds(25, state):
    time.sleep(0.004)
    lib = proc.private("of the test")
    x = ba.arange(60).reshape(20, 3) * k
    state.kept = (x if state.kept is None else state.kept[::-1] + x).astype("c8").persist()
    lib.send((proc.pid + 1) % proc.nprocs, k)
    lib.sync()
    state.total += float(ba.sort(x.reshape(-1))[7].compute()) + abs(complex(state.kept.sum().compute()))
    state.total += lib.inbox[0].payload
print(proc.pid, state.total.hex())
""",
    "arrays of every dtype of numbers, sent on from the state": """
state = bsp.State(kept=[])
for k in proc.rounds(25, state):
    time.sleep(0.004)
    right = (proc.pid + 1) % proc.nprocs
    proc.send(right, [np.full(2, k % 2, char) for char in "?bhilqBHILQefdgFDG"])
    proc.send(right, np.full(3, k, "lq"[k % 2]))
    for each in state.kept:
        proc.send(right, each)
    proc.sync()
    state.kept = [message.payload for message in proc.inbox][-6:]
print(proc.pid, [each.tolist() for each in state.kept if type(each) is np.ndarray])
""",
}
FAULTS = (
    "kill:element=1,superstep=9; kill:worker=2,superstep=12; kill:element=4,superstep=22; kill:worker=0,superstep=25"
)


@pytest.mark.jobs
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("options", ["--clones 2 --standby 2", "--clones 1.5 --vertical 2 --standby 2"])
def test_killed_clones_change_nothing(name: str, options: str, tmp_path: Path) -> None:
    """p = 8 on 4 elements of a copy; what the plain engine prints in one interpreter is the oracle."""
    program, log = script(tmp_path, PROGRAMS[name]), tmp_path / "events.jsonl"
    plain = bsprun("-p", 8, "-n", 1, program)
    assert plain.returncode == 0 and plain.stdout, plain.stderr
    killed = bsprun("-p", 8, "-n", 4, *options.split(), "--inject", FAULTS, "--events", log, program)
    assert (killed.returncode, killed.stdout) == (0, plain.stdout), killed.stderr
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds.count("injected") == 4 and kinds.count("died") >= 2 and kinds.count("relaunched") >= 2


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.parametrize("clones", [1, 2])
def test_a_new_worker_leaves_a_loop_where_its_predecessor_did(clones: int, tmp_path: Path) -> None:
    """What `return` gives, and whether `else` runs, follows from the round that a new worker computes again."""
    program, log = script(tmp_path, LEFT_EARLY), tmp_path / "events.jsonl"
    plain = bsprun("-p", 4, "-n", 1, program)
    assert plain.returncode == 0 and plain.stdout.count("found 9\n") == plain.stdout.count("whole\n") == 4, plain.stderr
    faults = "kill:worker=0,superstep=11; kill:worker=1,superstep=19; kill:worker=0,superstep=26"
    killed = bsprun("-p", 4, "-n", 2, "--clones", clones, "--inject", faults, "--events", log, program)
    assert (killed.returncode, killed.stdout) == (0, plain.stdout), killed.stderr
    assert [json.loads(line)["kind"] for line in log.read_text().splitlines()].count("relaunched") == 3


LEFT_EARLY = """
state = bsp.State(x=0.0)
def search():
    for k in proc.rounds(40, state):
        state.x += proc.allreduce(1.0)
        if state.x >= 10.0 * proc.nprocs: return k
print("found", search())
for k in proc.rounds(40, state):
    state.x += proc.allreduce(1.0)
    if k == 7: break
else:
    print("no break")
for k in proc.rounds(6, state):
    state.x += proc.allreduce(1.0)
else:
    print("whole")
for k in range(4):
    proc.sync()
print(proc.pid, state.x)
"""


@pytest.mark.thorough
@pytest.mark.jobs
def test_an_effect_is_made_once_and_its_value_and_the_time_are_the_same_in_all_clones(tmp_path: Path) -> None:
    log = tmp_path / "effects"
    program = script(tmp_path, f"""
import os
run = proc.once(lambda: os.getpid())
state = bsp.State(times=[])
for k in proc.rounds(30, state):
    time.sleep(0.004)
    proc.sync()
    if k % 10 == 0:
        state.times.append((proc.once(lambda: open({str(log)!r}, "a").write(f"{{proc.pid}} {{k}}\\n")), proc.time()))
assert len(set(proc.allgather([t for _, t in state.times][-1]))) == 1
assert state.times == sorted(state.times, key=lambda each: each[1])
print(len(set(proc.allgather(run))))
""")  # fmt: skip
    done = bsprun("-p", 4, "-n", 4, "--clones", 2, "--standby", 1, "--inject", "kill:element=2,superstep=15", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4\n" * 4
    made = log.read_text().splitlines()
    assert sorted(set(made)) == sorted(f"{pid} {k}" for pid in range(4) for k in (0, 10, 20))
    assert len(made) <= 12 + 3  # at least once: again only for the one that was killed


@pytest.mark.thorough
@pytest.mark.jobs
def test_each_call_has_a_value_of_its_own_where_rounds_meet(tmp_path: Path) -> None:
    """The end of a round and the beginning of the next one are one superstep, and a worker may begin again between."""
    program = script(
        tmp_path,
        """
state = bsp.State(seen=[])
for k in proc.rounds(20, state):
    state.seen.append(proc.once(lambda: f"start {k}"))
    time.sleep(0.004)
    proc.sync()
    state.seen.append(proc.once(lambda: f"end {k}"))
assert state.seen == [f"{what} {k}" for k in range(20) for what in ("start", "end")], state.seen
print(proc.pid)
""",
    )
    done = bsprun("-p", 4, "-n", 2, "--clones", 2, "--inject", "kill:worker=0,superstep=9", program)
    assert (done.returncode, done.stdout) == (0, "0\n1\n2\n3\n"), done.stderr


@pytest.mark.jobs
@pytest.mark.parametrize("options", ["-p 1 --clones 2", "-p 3 -n 1 --clones 2 --standby 1", "-p 2 -n 1 --clones 1"])
def test_one_element_of_a_copy_is_enough(options: str, tmp_path: Path) -> None:
    """Under mpiexec like any other, also for root."""
    done = bsprun(*options.split(), script(tmp_path, "print(proc.allreduce(1))\n"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{options.split()[1]}\n" * int(options.split()[1])


@pytest.mark.jobs
def test_standard_error_is_shown_once(tmp_path: Path) -> None:
    program = script(tmp_path, 'print("a warning of", proc.pid, file=sys.stderr)\nproc.sync()\n')
    done = bsprun("-p", 2, "-n", 2, "--clones", 2, program)
    assert sorted(done.stderr.splitlines()) == ["a warning of 0", "a warning of 1"]


@pytest.mark.jobs
def test_lines_of_standard_error_stay_whole(tmp_path: Path) -> None:
    """`print` writes each argument by itself."""
    text = 'for k in range(300):\n    print("line", k, "of", proc.pid, file=sys.stderr)\nproc.sync()\n'
    done = bsprun("-p", 2, "-n", 2, "--clones", 2, script(tmp_path, text))
    assert sorted(done.stderr.splitlines()) == sorted(f"line {k} of {pid}" for k in range(300) for pid in range(2))


@pytest.mark.jobs
def test_standard_error_without_the_end_of_a_line_is_shown(tmp_path: Path) -> None:
    program = script(tmp_path, 'print("all is", end=" ", file=sys.stderr)\nproc.sync()\nsys.stderr.write("well")\n')
    assert bsprun("-p", 1, "--clones", 2, program).stderr == "all is well"


@pytest.mark.jobs
def test_gets_of_a_few_bytes_from_another_bundle(tmp_path: Path) -> None:
    text = """
x = proc.coarray(3)
x.local = [proc.pid, 1, 2]
proc.sync()
got = x.get(1) if proc.pid == 0 else None
proc.sync()
if proc.pid == 0: print(got.value)
proc.sync()
"""
    done = bsprun("-p", 2, "-n", 2, "--clones", 2, script(tmp_path, text))
    assert (done.returncode, done.stdout) == (0, "[1. 1. 2.]\n"), done.stderr


@pytest.mark.jobs
@pytest.mark.parametrize("room", [0, 1 << 20])
def test_large_packets_and_states_travel_as_they_are_where_shared_memory_has_no_room(room: int, tmp_path: Path) -> None:
    text = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
x, state = proc.coarray(1 << 18), bsp.State(y=np.arange(float(1 << 18)))
for k in proc.rounds(5, state):
    x.put(1 - proc.pid, state.y)
    proc.sync()
    state.y = 0.5 * state.y + x.local
print(state.y.sum())
"""
    done = bsprun("-p", 2, "-n", 2, "--clones", 2, "--inject", "kill:worker=1,superstep=3", script(tmp_path, text))
    expected = sum(range(1 << 18)) * 1.5**5
    assert (done.returncode, done.stdout) == (0, f"{expected}\n" * 2), done.stderr


ROUNDS = """
import glob
sys.stderr.write(f"before {proc.pid}\\n")
state = bsp.State(x=0)
for k in proc.rounds(40, state):
    sys.stderr.write(f"round {k} {proc.pid}\\n")
    time.sleep(0.004)
    while k == 15 and sys.argv[1:] and not glob.glob(f"{sys.argv[1]}/*/manifest.json"):
        time.sleep(0.01)  # a busy machine may need long for the first checkpoint
    state.x += proc.allreduce(1)
"""
ROUNDS_SAID = sorted(["before 0", "before 1", *(f"round {k} {pid}" for k in range(40) for pid in range(2))])


@pytest.mark.jobs
@pytest.mark.parametrize("options", [
    "--standby 1 --inject kill:worker=0,superstep=12;kill:worker=1,superstep=20",
    "--clones 2 --inject kill:worker=0,superstep=20;kill:worker=2,superstep=20;kill:element=3,superstep=25",
    "--checkpoint {folder} --every 3 --inject kill:element=0,superstep=20",
], ids=["run again", "both clones", "checkpoint"])  # fmt: skip
def test_no_line_of_standard_error_is_lost_with_a_worker_or_shown_again(options: str, tmp_path: Path) -> None:
    """Run again, made anew from a sibling, or gone on with from a checkpoint, it knows how much it had written."""
    program, log = script(tmp_path, ROUNDS), tmp_path / "events.jsonl"
    folder = tmp_path / "checkpoints"
    given = options.format(folder=folder).split()
    done = bsprun("-p", 2, "-n", 2, *given, "--events", log, program, *([folder] if str(folder) in given else []))
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stderr.splitlines() if not line.startswith("bsprun: ")) == ROUNDS_SAID
    kinds = {json.loads(line)["kind"] for line in log.read_text().splitlines()}
    assert kinds & {"relaunched", "resumed"}


@pytest.mark.jobs
@pytest.mark.parametrize("p", [2, 4])
def test_a_crash_in_c_code_shows_the_scripts_line_once(p: int, tmp_path: Path) -> None:
    """However many clones and relaunches meet it."""
    crash = (
        "for k in proc.rounds(9, bsp.State()):\n    if k == 3 and proc.pid == 1: ctypes.string_at(0)\n    proc.sync()\n"
    )
    done = bsprun("-p", p, "-n", 2, "--clones", 2, script(tmp_path, f"import ctypes\n{crash}"))
    assert done.returncode == 3
    assert "its worker was ended by SIGSEGV, 4 times in superstep 3" in done.stderr
    assert done.stderr.count("Fatal Python error: Segmentation fault") == 1
    assert done.stderr.count('program.py", line 7 in <module>') == 1


@pytest.mark.jobs
@pytest.mark.parametrize(("line", "status", "said"), [
    ("sys.exit(7)", 7, ""),
    ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ("raise ValueError(object())", 1, "ValueError: <object object at"),
    ("proc.sync() if proc.pid else None", 1, "SyncMismatch: process 0 has returned"),
    ("list(proc.rounds(3)) if proc.pid else proc.sync()", 1, "SyncMismatch"),
])  # fmt: skip
def test_a_programs_own_end_is_the_jobs(line: str, status: int, said: str, tmp_path: Path) -> None:
    """Clones agree on it, even where its words hold an address: nobody is run again."""
    log = tmp_path / "events.jsonl"
    done = bsprun("-p", 4, "-n", 2, "--clones", 2, "--events", log, script(tmp_path, line + "\n"))
    assert done.returncode == status, done.stderr
    assert said in done.stderr and done.stderr.count("Traceback") <= 1
    assert "relaunched" not in log.read_text()


CANNOT_MOVE = """
class Model:
    def __init__(self): self.f = lambda x: x
class Slotted: __slots__ = "f"
class Sum:
    def __getstate__(self): return proc.allreduce(1)
state = bsp.State(x=0.0)
{before}
for k in proc.rounds(30, state):
    time.sleep(0.004)
    state.x += proc.allreduce(1.0)
    if k == 7 and proc.pid == {pid}: {inside}
    if k == 7: {then}
"""


@pytest.mark.jobs
@pytest.mark.parametrize(("p", "options"), [(2, "--clones 2"), (4, "--clones 2"), (4, "--checkpoint {} --every 10")])
@pytest.mark.parametrize(("before", "inside", "then", "path", "line", "superstep"), [
    ("state.f = open(sys.argv[0])", "pass", "pass", "state.f of type TextIOWrapper", 13, 0),
    ("state.model = Model()", "pass", "pass", "state.model.f of type function", 13, 0),
    ("state.slotted = Slotted(); state.slotted.f = len, print, lambda: 0", "pass", "pass",
     "state.slotted.f[2] of type function", 13, 0),
    ("state.sum = Sum()", "pass", "pass", "state.sum of type Sum", 13, 0),
    ("for _ in range(5000): state.x = [state.x]", "pass", "pass", "state.x of type list", 13, 0),
    ("", "state.models = {1: Model()}", "pass", "state.models[1].f of type function", 13, 8),
    ("", "state.models = {1: Model()}", "break", "state.models[1].f of type function", 17, 8),
])  # fmt: skip
def test_what_cannot_be_moved_is_the_programs_error_and_named(
    p: int, options: str, before: str, inside: str, then: str, path: str, line: int, superstep: int, tmp_path: Path
) -> None:
    """At the same head in all clones, so that nobody is run again; also if the loop is left there."""
    log, pid = tmp_path / "events.jsonl", p // 2 if superstep else 0
    program = script(tmp_path, CANNOT_MOVE.format(before=before, inside=inside, then=then, pid=pid))
    done = bsprun("-p", p, "-n", 2, *options.format(tmp_path / "ck").split(), "--events", log, program)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"bsprun: CannotMove: {path} cannot be pickled, so no clone could take it over and ")
    assert done.stderr.endswith(f" (program.py:{line}, process {pid}, superstep {superstep})\n")
    assert done.stderr.count("\n") == 1
    assert "relaunched" not in log.read_text()


@pytest.mark.jobs
def test_a_fault_that_has_not_happened_is_told(tmp_path: Path) -> None:
    """The run is shorter, or nothing is computed there: a rehearsal of nothing is not taken for a success."""
    program = script(tmp_path, "for k in proc.rounds(30, bsp.State()): proc.sync(); time.sleep(0.004)\n")
    faults = (
        "kill:worker=3,superstep=9; kill:worker=3,superstep=3000; raise:worker=4,superstep=2; slow:element=1,factor=2"
    )
    done = bsprun("-p", 2, "-n", 2, "--clones", 2, "--standby", 1, "--inject", faults, program)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "bsprun: warning: --inject: 'kill:worker=3,superstep=3000' has not happened: superstep 30 was the last",
        "bsprun: warning: --inject: 'raise:worker=4,superstep=2' has not happened: nothing was computed there then "
        "(a standby, or a clone that had jumped ahead)",
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "said"), [
    ("--clones 0.5", "--clones 0.5: 1 or more"),
    ("--clones 2 --vertical 9", "--vertical 9: 1 up to the number of elements"),
    ("--standby -1", "--standby -1: 0 or more"),
    ("--clones 2 --tail-limit 0.5", "--tail-limit 0.5: 1 or more"),
    ("--clones 2 --hang-limit nan", "--hang-limit nan: 0.1 or more"),
    ("--clones 2 --hang-limit 0.2", "--hang-limit 0.2: 0.5 s or more; each of 4 elements gives a sign of life"),
    ("--every 5 --clones 2", "--every 5: 1 or more rounds, together with --checkpoint DIR"),
    ("--keep 5", "--keep 5: 1 checkpoint or more, together with --checkpoint DIR"),
    ("--checkpoint=", "--checkpoint '': name a folder"),
    ("--resume=", "--resume '': name a folder"),
    ("--clones 2 --inject kill:element=99,superstep=1", "there is no element 99"),
    ("--clones 2 --inject kil:element=1,superstep=1", "kil"),
    ("--resume /nonexistent", "there is no such folder"),
    ("--resume /tmp --checkpoint /var/tmp", "--checkpoint '/var/tmp': a resumed job goes on writing into '/tmp'"),
    ("--clones inf", "--clones inf: 1 or more, up to 1000"),
    ("--clones nan", "--clones nan: 1 or more"),
    ("--clones 1e9", "--clones 1e+09: 1 or more, up to 1000"),
    ("--clones 2 --standby 1 --check", "--check rehearses by itself what clones and checkpoints need of a program; "
     "leave out --clones, --standby\n"),
    ("--clones 2 --mtbf 500", "--mtbf goes with --resilience auto; without it it has no effect"),
    ("--round-seconds 1", "--round-seconds goes with --resilience auto"),
    ("--checkpoint /proc/nope", "--checkpoint '/proc/nope': cannot be written: No such file or directory"),
    ("--clones 2 --events /proc/x", "--events '/proc/x': cannot be written: No such file or directory"),
    ("--clones 2 --trace /tmp/x.json", "--trace does not go with clones"),
    ("--clones 1000", "elements on"),
    ("--resilience auto", "--resilience auto: say how often elements crash"),
])  # fmt: skip
def test_wrong_options_are_one_clear_error(options: str, said: str, tmp_path: Path) -> None:
    done = bsprun("-p", 4, "-n", 2, *options.split(), script(tmp_path, "proc.sync()\n"))
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_nothing_in_bsp_imports_what_is_built_on_it() -> None:
    """bsp <- faults: the engine is found by name alone, when it is asked for."""
    root = Path(bsp.__file__).parent
    for path in set(root.rglob("*.py")) - {root / "graphs.py"}:  # which names its package for type checkers
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith(("bsp.faults", "bsp.arrays", "bsp.algorithms"))], path
