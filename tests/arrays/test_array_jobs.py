"""Array programs as real jobs: the same bytes on any number of elements, whatever is killed; one error for all.

The plain engine with all processes in one interpreter is the oracle.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.jobs

BSPRUN = str(Path(sys.executable).with_name("bsprun"))
SYNCS_ALIKE = "every process must sync equally often"
CALLS_ALIKE = "every process must make the same call"

# A little of everything; what it prints is a digest of every result, on every process.
MANY = """
import hashlib, sys
import numpy as np
import bsp
import bsp.arrays as ba

proc = bsp.process()

def tell(what, *results):
    for k, each in enumerate(results):
        values = np.array(each.compute() if isinstance(each, ba.Array) else each, order="C")
        print(proc.pid, what, k, values.dtype, values.shape, hashlib.sha256(values.tobytes()).hexdigest()[:16])

rng = ba.random.default_rng(7)
x, square, y = rng.normal(size=(301, 64)), rng.random((130, 130)), rng.standard_normal(301)
w = rng.integers(0, 50, size=20_011)
tell("creation", ba.arange(20_000, grid=6), ba.linspace(0, 1, 9_001), ba.eye(150), ba.full((3, 5), 2, grid=(3, 1)))
tell("random", x, w, rng.permutation(20_000), rng.choice(9_000, 70, replace=False), rng.poisson(3.0, (99, 101)))
tell("elementwise", np.exp(-x * x) + np.sqrt(abs(x)), np.where(x > 0, x, -1), (w % 7).astype(np.float32))
tell("reductions", x.sum(), x.mean(axis=0), x.std(axis=1), x.max(axis=1), x.argmin(), (w > 3).all(), np.var(square))
tell("products", x.T @ x, x @ x.T, square @ square, x.T @ y, y @ y)
tell("einsum", np.einsum("ij,ik,i->jk", x, x, y), np.tensordot(x, x, axes=(0, 0)))
tell("slices", x[3:290:7, ::-2], x[5], x[:, None, 1], square[1:-1, 1:-1] - square[:-2, 1:-1])
z = x.copy()
z[10:200:3, 5] = 1.5
z[z < -1] = -1.0
z[np.array([3, 300, 77])] = 0.25
tell("assignment", z)
large = rng.normal(size=(700, 90))
inner, column, lines = large[1:-1, 1:-1], large.T[7], large.reshape(-1)[::2]
inner += 1
column[100:] = inner[5, 0]
lines *= inner.reshape(-1)[: lines.shape[0]].sum()
for row in large[:3]:
    row -= row.sum()
tell("views", large, inner, column, lines, large.persist()[1])
tell("dealt parameters", rng.normal(large.rechunk(grid=(1, 3)), 1 + abs(large)), rng.choice(large, 5000))
tell("shapes", x.reshape(43, 448), x.T.ravel(), np.concatenate([x, x[:11]]), np.stack([y, 2 * y], axis=1))
tell("running", np.cumsum(w), np.cumsum(x, axis=1), np.diff(y))
tell("order", np.sort(w), np.argsort(y), np.unique(w), np.sort(x, axis=0), np.searchsorted(np.sort(y), y))
tell("quantiles", np.percentile(y, [1, 50, 99]), np.median(x, axis=0), np.histogram(y, bins=20)[0])
tell("selection", x[x > 1.0], y[y < 0], np.nonzero(w == 3)[0], np.take(x, w[:500], axis=0), x[np.array([5, 5, -1])])
tell("linalg", *np.linalg.qr(x), np.linalg.solve(x.T @ x, x.T @ y), np.linalg.svd(x, full_matrices=False)[1])
tell("fft", np.fft.fft(y), np.fft.rfft2(square))
tell("comprehension", ba.comprehension("C[i] = min(abs(X[i,j] - Y[i]))", X=x, Y=y))
ba.save(sys.argv[1] + "/x.npy", 2 * x)
tell("file", ba.load(sys.argv[1] + "/x.npy")[::2])
"""

# Gradient steps; what a round needs of the last one is arrays in a bsp.State, persisted.
LOOP = """
import hashlib, pathlib, sys, time
import numpy as np
import bsp
import bsp.arrays as ba

proc = bsp.process()
rng = ba.random.default_rng(3)
x = rng.normal(size=(4001, 12)).persist()
y = (x @ np.arange(12.0) + rng.normal(size=4001)).persist()
state = bsp.State(beta=ba.zeros(12), worst=ba.zeros(4001), order=ba.arange(4001), seen=[])
for k in proc.rounds(12, state):
    time.sleep(0.004)
    slope = x.T @ (x @ state.beta - y) / 4001
    state.beta = (state.beta - 0.3 * slope).persist()
    error = abs(x @ state.beta - y)
    state.worst = np.maximum(state.worst, error)
    some = state.worst[100:3000:2]
    some *= 1.01
    state.worst.persist()
    state.order = np.argsort(state.worst).persist()
    if k % 4 == 0:
        large = error[error > np.percentile(error, 90)]
        state.seen.append((large.shape[0], float(large.sum())))
    print(proc.pid, k, float(slope @ slope).hex())
for folder in sys.argv[1:]:  # a job of milliseconds may be faster than the disk: it does not end before a checkpoint
    while not list(pathlib.Path(folder).glob("*/manifest.json")):
        time.sleep(0.01)
for array in (state.beta, state.worst, state.order):
    print("end", proc.pid, hashlib.sha256(array.compute().tobytes()).hexdigest()[:16], state.seen)
"""


def bsprun(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`bsprun` to its end."""
    given = [str(word) for word in words]
    return subprocess.run([BSPRUN, *given], capture_output=True, text=True, timeout=300, cwd=cwd)


def left_over(folder: Path) -> list[list[str]]:
    """Command lines of processes that still run something in this folder."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if any(str(folder) in word for word in line)]


# ------------------------------------------------------------------------------ one result


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.py"
    path.write_text(MANY)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize(("p", "elements"), [(6, (2, 3)), pytest.param(2, (2,), marks=pytest.mark.rest)])
def test_results_are_the_same_bytes_on_any_number_of_elements(many: Path, p: int, elements: tuple[int, ...]) -> None:
    one = bsprun("-p", p, "-n", 1, many, many.parent)
    assert (one.returncode, one.stderr) == (0, "")
    lines = [line.split(" ", 1) for line in one.stdout.splitlines()]
    told = [[text for pid, text in lines if pid == str(k)] for k in range(p)]
    assert told == [told[0]] * p  # every process has the same
    assert told[0][-1].startswith("file 0 float64 (151, 64)")
    for n in elements:
        several = bsprun("-p", p, "-n", n, many, many.parent)
        assert (several.returncode, several.stdout, several.stderr) == (0, one.stdout, ""), n


@pytest.mark.thorough
def test_the_order_of_turns_changes_nothing(many: Path) -> None:
    done = bsprun("-p", 3, "-n", 2, "--check", many, many.parent)
    assert (done.returncode, done.stderr) == (
        0, "bsprun: --check: no overlaps; another order of turns gives the same bytes\n"
    )  # fmt: skip


# ----------------------------------------------------------------------------- cloned execution


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loop") / "loop.py"
    path.write_text(LOOP)
    return path


@pytest.fixture(scope="module")
def undisturbed(loop: Path) -> str:
    """What the plain engine prints."""
    done = bsprun("-p", 6, "-n", 1, loop)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("options", "faults", "kinds"),
    [
        ("", "", set()),
        ("--standby 1", "kill:element=1,superstep=40", {"died", "promoted"}),  # it joins
        ("", "kill:element=1,superstep=40", {"died", "degraded"}),  # another is started; it joins if there is time
        ("", "kill:worker=2,superstep=45", {"relaunched"}),
    ],
)
def test_killed_clones_change_nothing(
    loop: Path, undisturbed: str, tmp_path: Path, options: str, faults: str, kinds: set[str]
) -> None:
    log = tmp_path / "events.jsonl"
    inject = ["--inject", faults] if faults else []
    done = bsprun("-p", 6, "-n", 2, "--clones", 2, *options.split(), *inject, "--events", log, loop)
    assert (done.returncode, done.stdout) == (0, undisturbed), done.stderr
    assert "Traceback" not in done.stderr
    assert {json.loads(line)["kind"] for line in log.read_text().splitlines()} >= kinds
    assert left_over(loop.parent) == []


@pytest.mark.thorough
def test_a_resumed_job_ends_with_the_same_bytes(loop: Path, undisturbed: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    first = bsprun("-p", 6, "-n", 2, "--checkpoint", folder, "--every", 5, loop, folder)
    assert (first.returncode, first.stdout) == (0, undisturbed), first.stderr
    resumed = bsprun("-p", 6, "-n", 2, "--resume", folder, loop, folder)
    assert resumed.returncode == 0, resumed.stderr
    last = [[line for line in text.splitlines() if line.startswith("end")] for text in (undisturbed, resumed.stdout)]
    assert last[0] == last[1] != []
    assert len(resumed.stdout) < len(undisturbed)


def test_arrays_of_a_state_pass_the_rehearsal(loop: Path, undisturbed: str) -> None:
    done = bsprun("-p", 6, "-n", 2, "--check", loop)
    assert (done.returncode, done.stdout) == (0, undisturbed), done.stderr
    assert "processes made again at the heads of rounds" in done.stderr


def test_an_array_that_is_first_computed_inside_the_loop_is_named(tmp_path: Path) -> None:
    """It was an expression before the loop and is none in it: a newcomer would plan otherwise.  persist() it."""
    path = tmp_path / "lazy.py"
    path.write_text(LOOP.replace("size=4001)).persist()", "size=4001))"))
    done = bsprun("-p", 4, "-n", 1, "--check", path)
    assert done.returncode == 1
    assert done.stderr.startswith("bsprun: Undeclared: process 0, made again at the head of round ")
    assert "it has 'y' as before the loop" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_state_with_an_expression_in_it_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "lazy.py"
    path.write_text(LOOP.replace("(state.beta - 0.3 * slope).persist()", "state.beta - 0.3 * slope"))
    done = bsprun("-p", 4, "-n", 1, "--check", path)
    assert done.returncode == 1
    assert "an array that is not computed yet cannot be pickled: persist() it first" in done.stderr
    assert done.stderr.count("\n") == 1


VIEWS_IN_A_STATE = """
import bsp
import bsp.arrays as ba

proc = bsp.process()
x = ba.zeros(40_000).persist()
state = bsp.State(x=x, view={view})
for k in proc.rounds(6, state):
    view = {where}
    view += k + 1
    ba.persist(state.x, view)
    print(float(state.x.sum()))
"""


@pytest.mark.parametrize(
    ("view", "where", "found"),
    [
        ("None", "state.x[3:9]", 0),
        ("x[3:9].persist()", "state.view", 1),  # what is pickled is an array of its own
    ],
)
def test_a_view_in_a_state_is_no_view_any_more_and_the_rehearsal_says_so(
    view: str, where: str, found: int, tmp_path: Path
) -> None:
    path = tmp_path / "views.py"
    path.write_text(VIEWS_IN_A_STATE.format(view=view, where=where))
    done = bsprun("-p", 3, "-n", 1, "--check", path)
    assert done.returncode == found, done.stderr
    assert ("Undeclared: process" in done.stderr) == bool(found), done.stderr


# --------------------------------------------------------------------------- processes that disagree

UNEQUAL = {
    "another reduction": (
        "y = x.sum().compute() if proc.pid == 2 else x.max().compute()",
        "processes 0, 1, 3 wait in max(x0) at {}; process 2 waits in sum(x0) at {}", CALLS_ALIKE,
    ),
    "another length": (
        "y = ba.ones(30 + (proc.pid == 1), grid=4).sum().compute()",
        "processes 0, 2, 3 wait in sum(x0) at {}; process 1 waits in sum(x0) at {}",
        "every process must make this call with arguments that agree",
    ),
    "a value that one process asks for": (
        "y = proc.pid == 0 and bool(x[3] == 3)",
        "processes 1-3 have returned; process 0 waits in (x0 == c) with c = 3 at {}", SYNCS_ALIKE,
    ),
    "an array that one process prints": (
        "_ = print(x) if proc.pid == 0 else proc.sync()",
        r"process 0 waits in assemble(x0, x0[...], x0[...]) at {}; processes 1-3 wait in sync at {}", CALLS_ALIKE,
    ),
    "an array that one process sorts": (
        "y = (ba.sort(x) if proc.pid == 0 else x + 1).compute()",
        "process 0 waits in sample at {}; processes 1-3 wait in (x0 + c) with c = 1 at {}", CALLS_ALIKE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNEQUAL)
def test_unequal_calls_are_one_mismatch_that_names_both_lines(what: str, tmp_path: Path) -> None:
    line, said, advice = UNEQUAL[what]
    path = tmp_path / "unequal.py"
    path.write_text(f"import bsp\nimport bsp.arrays as ba\nproc = bsp.process()\nx = ba.arange(20_000)\n{line}\n")
    done = bsprun("-p", 4, "-n", 2, path)
    assert (done.returncode, done.stdout) == (1, "")
    expected = re.escape(said.replace("{}", "unequal.py:5")) + rf" \(superstep \d+\); {advice}"
    assert re.fullmatch(f"bsprun: SyncMismatch: {expected}\n", done.stderr), done.stderr
    assert left_over(tmp_path) == []


def test_lines_of_unequal_calls_are_both_told(tmp_path: Path) -> None:
    path = tmp_path / "unequal.py"
    path.write_text(
        "import bsp\nimport bsp.arrays as ba\nproc = bsp.process()\nx = ba.arange(20_000)\n"
        "if proc.pid == 0:\n    x.sum().compute()\nelse:\n    x.mean().compute()\n"
    )
    done = bsprun("-p", 4, "-n", 4, path)
    assert done.returncode == 1
    assert done.stderr == (
        "bsprun: SyncMismatch: process 0 waits in sum(x0) at unequal.py:6; processes 1-3 wait in mean(x0) at "
        f"unequal.py:8 (superstep 0); {CALLS_ALIKE}\n"
    )
