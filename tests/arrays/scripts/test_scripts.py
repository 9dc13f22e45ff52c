"""Scripts for NumPy print what they always do, whatever number of processes runs them."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF
from bsp.arrays.scripts.numpy_instead import NumPyInstead
from bsp.arrays.scripts.small_arrays import SmallArray, SmallArrayOfMany, are_small
from bsp.values.canonical import alone, pickled

SCRIPT = """
import math
import pickle
import sys

import numpy as np
from numpy.linalg import norm

n = 120
rng = np.random.default_rng(1)
x = rng.normal(size=(n, 6))
y = np.zeros(n)
for i in range(1, n - 1):
    y[i] = (x[i - 1, 0] + x[i, 0] + x[i + 1, 0]) / 3


def spread(a):
    m = a.shape[1]
    out, mean = np.zeros((m, m)), a.mean(axis=0)
    for j in range(m):
        for k in range(m):
            for i in range(a.shape[0]):
                out[j, k] += (a[i, j] - mean[j]) * (a[i, k] - mean[k])
    return out / (a.shape[0] - 1)


if __name__ == "__main__":
    total = 0.0
    for i in range(n):
        total = 0.5 * total + math.sin(i)
    print(f"{float(np.trace(spread(x))):.10f} {float(norm(y)):.10f} {total:.10f} {len(sys.argv)}")
    print(np.sort(y)[:2] > 0, np.busday_count("2011-01", "2011-02"))
"""

OTHER_NAMES = """
from numpy import *
import numpy as np

rng = np.random.default_rng(1)
x = np.arange(40.0).reshape(10, 4)
np.random.seed(3)
np.random.shuffle(x)
rng.shuffle(x, axis=1)
rng.random(out=x[:1].ravel())
y = np.zeros(4)
print(x[:, 0], rng.random(out=y) is y, y, rng.permutation(x)[0], np.random.default_rng(rng) is rng)
print([x.max(), y], (x.sum(),), {"mean": y.mean()}, (x[:, np.newaxis] - x).shape)
np.add.at(y, [1, 1, 3], 10.0)
print(y, np.subtract.outer(np.arange(3), [1, 2]), np.maximum.accumulate([1, 3, 2]), np.add.reduce(x, axis=0))
print(isinstance(x, np.ndarray), isinstance(x.max(), np.ndarray), isinstance(rng, np.random.Generator))
names = np.array(["b", "a", "b"])
print(y[:3][names == "b"], np.unique(names), np.where(y > 9, "much", "little"), np.array2string(y, precision=2))
import contextlib, copy, io, pickle, sys
import beside
class Model:
    def __init__(self, x):
        self.x = x
model = pickle.loads(pickle.dumps(Model(x[:3] * 2)))
text = io.StringIO()
with contextlib.redirect_stdout(text):
    print(model.x)
sys.stdout.write(text.getvalue() * int(text.getvalue() != ""))
print(beside.doubled(x)[0], copy.deepcopy(x[:2] + 1).sum())
print(linspace(0, 1, 5), log(2.0), linalg.norm(arange(9.0)))
print(type(np.log(2.0)).__name__, np.zeros(2, dtype=[("k", int), ("v", float)])["v"])
"""

OPEN_FILES = """
import io
import os
import numpy as np

x = np.arange(12.0).reshape(3, 4)
held = io.BytesIO()
np.save(held, x)
held.seek(0)
print(np.load(held).T, np.loadtxt(io.StringIO("1 2\\n3 4")), np.loadtxt(["1 2", "3 4"]))
names = os.path.join(os.path.dirname(__file__), "names.csv")
print(np.loadtxt(names, delimiter=",", dtype=str), np.loadtxt(names, delimiter=",", usecols=1, dtype=complex))
print(np.loadtxt(names, delimiter=",", usecols=1), np.genfromtxt(names, delimiter=","))
text = io.StringIO()
np.savetxt(text, x, fmt="%.1f")
print(text.getvalue())
"""

RECORDS = """
import numpy as np

records = np.array([("b", 2), ("a", 1)], dtype=[("name", "U3"), ("k", int)])
print(np.sort(records, order="k"), np.sort(records["k"]))
x = np.arange(4.0)
print(np.isscalar(x[1]), np.isscalar(x.sum()), np.isscalar(x), [float(v) for v in np.nditer(x)])
try:
    with np.nditer(x, op_flags=["readwrite"]) as elements:
        for v in elements:
            v[...] = 2 * v
except TypeError as refused:
    assert "np.ndindex(x.shape)" in str(refused)
    x *= 2
print(x)
"""

OTHER_ELEMENTS = """
import numpy as np

names, x = np.array(["c", "a", "b", "a"]), np.array([3.0, 1.0, 2.0, 5.0])
print(np.lexsort((x, names)), np.lexsort([names, x]))
print(np.select([x > 4, x > 2], [names, np.array(["z"] * 4)], default="-"))
hidden = np.ma.masked_where(x > 2, x)
print(hidden.sum(), (hidden * 2).mean(), np.ma.array(x, mask=[1, 0, 0, 0]))
added = np.frompyfunc(lambda a, b: a + b, 2, 1)
print(added(x, x), added.reduce(x))
"""

ONE_BY_ONE = """
import numpy as np

a, b = "GATTACAGA", "GCATGCUGA"
best = np.zeros((len(a) + 1, len(b) + 1), int)
best[0, :], best[:, 0] = -np.arange(len(b) + 1), -np.arange(len(a) + 1)
for i in range(1, len(a) + 1):
    for j in range(1, len(b) + 1):
        same = best[i - 1, j - 1] + (1 if a[i - 1] == b[j - 1] else -1)
        best[i, j] = max(same, best[i - 1, j] - 1, best[i][j - 1] - 1)
print(best, type(best[2, 3]), type(best[0].reshape(2, 5)[1, 2]))
x, large = np.linspace(0.0, 1.0, 5), np.arange(20_000.0)
view, one = x[::-2], x[1]
x[1:3] += 1
print(one, view[1], isinstance(x[1], np.floating), x[-1].is_integer(), x[np.int64(2)] * x, large[3] + x[0])
try:
    x[5]
except IndexError as error:
    print(error)
"""


SMALL_AND_LARGE = """
import copy
import pickle
import numpy as np

x, large = np.linspace(0, 1, 9), np.sin(np.arange(20_000))
y = x.copy()
y += large[:9]
y[large[:9] > 0] = -1
np.add(x, large[9:18], out=y)
print(np.round(y, 12), np.round(np.add(y, 1, out=y)[:2], 12), y[x > 0.5].shape, x.dtype, repr(x[::4]))
table = np.array([5, 7, 9])
wide = table[np.arange(20_000) % 3]
print(wide.sum(), table[wide.argmax() % 3], table.take(wide % 3).max(), table.searchsorted(wide).sum())
np.copyto(y, large[:9])
y[...] = large[-9:]
np.fill_diagonal(z := np.ones((3, 3)), large[:3] * 0)
print(np.round(y[-1], 12), z, np.round(x @ large[:9], 10), np.round(large[:9] @ x, 10), (x * large[:9]).shape)
cube = x[:, None, None] * np.ones(50)[:, None] * np.ones(60)
print(cube.shape, np.round(cube.sum(), 9), np.zeros((200, 200)).shape, np.tile(x, 3000).shape, np.eye(300).sum())
grid = np.stack(np.meshgrid(np.arange(150.0), np.arange(130.0)))
print(grid.shape, grid[1].max(), np.outer(grid[0, 0], grid[0, 0]).sum(), np.arange(0, 1, 1e-5).shape)
many = np.arange(2000.0)
print((many[:, None] - many).max(), np.subtract.outer(many, many).min(), np.maximum(many, x[:, None]).sum())
many /= many.std()
print(np.round([many[-1], many.mean(), many @ many], 9), (many > 1).sum(), many[many > 3.4].shape)
again = pickle.loads(pickle.dumps(x))
print(again[1], copy.deepcopy(x)[2], x.tolist()[:2])
q, r = np.linalg.qr(np.arange(6.0).reshape(3, 2))
print(np.round(np.abs(q @ r), 9), np.linalg.eigh(np.eye(2)).eigenvalues, np.array_repr(x[:2]))
for number in x[:2]:
    x[-1] += number
print(x, sorted(x)[:2], np.interp(large[:3] * 0 + 0.4, x, x), np.bincount(table).shape, np.array([large[0], 1.0])[1])
print(np.concatenate([x, large]).shape, np.hstack([x, [1, 2]]).shape, np.clip(x, 0, large[:9] * 0 + 0.5).max())
"""


IN_PLACE = """
import numpy as np

where, large = np.arange(20_000) % 7, np.arange(20_000)
counts = np.zeros(9, int)
np.add.at(counts, where, 1)
np.maximum.at(counts, [1, 2], large[-2:])
np.negative.at(counts[::2], where[:3])
print(counts)
try:
    counts += 0.5
except TypeError as refused:
    print(refused)
try:
    large += 0.5
except TypeError as refused:
    print(refused)
x = np.arange(10.0)
x.resize(2, 3, refcheck=False)
x += 1
x.resize((3, 4), refcheck=False)
x.resize(14, refcheck=False)
x[-1] = 3
print(x, str(np.random.default_rng(1)))
"""

OTHER_FILES = """
import numpy as np

names, x, large = np.array(["a", "bb", "c"]), np.arange(6.0), np.arange(20_000.0)
np.save("names.npy", names)
np.savez("all.npz", names=names, x=x, large=large)
with np.load("all.npz") as found:
    print(np.load("names.npy"), found.files, found["names"], found["large"].sum())
np.savetxt("x.txt", x.reshape(3, 2), fmt=["%d", "%.1f"], header="i,v")
np.savetxt("lines.txt", ["first", "second"], fmt="%s")
print(open("x.txt").read(), open("lines.txt").read())
np.save("objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
print(np.load("objects.npy", allow_pickle=True)[0], np.load("all.npz", allow_pickle=False)["x"])
np.save("large.npy", large)
print(np.load("large.npy", mmap_mode="r")[-1], large.astype(str)[-1], large.astype(object)[1])
try:
    np.save("names.npy", np.array([{}], dtype=object), allow_pickle=False)
except ValueError as refused:
    print(refused)
print(np.einsum("i->", large, order="C"), np.fft.fft(a=large)[0].real, np.linspace(0, large[:2], 9_000, axis=1).sum())
"""

DEALT = """
import sys
from bsp.arrays.scripts import running, small_arrays
small_arrays.LIMIT = 0  # all arrays are distributed
running.main(sys.argv[1:])
"""


@pytest.mark.jobs
@pytest.mark.parametrize(("p", "n"), [(1, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("dealt", [False, True], ids=["small arrays", "all dealt"])
@pytest.mark.parametrize(
    "text",
    [SCRIPT, OTHER_NAMES, OPEN_FILES, RECORDS, OTHER_ELEMENTS, ONE_BY_ONE, SMALL_AND_LARGE, IN_PLACE, OTHER_FILES],
    ids=[
        "loops",
        "names",
        "open files",
        "records",
        "other elements",
        "one by one",
        "small and large",
        "in place",
        "other files",
    ],
)
def test_a_script_for_numpy_prints_what_it_always_does(tmp_path: Path, p: int, n: int, dealt: bool, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    (tmp_path / "beside.py").write_text("def doubled(x):\n    print('doubles')\n    return 2 * x\n")
    (tmp_path / "names.csv").write_text("a,1\nb,2\n")
    plain = subprocess.run([sys.executable, script, "a"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    (tmp_path / "dealt.py").write_text(DEALT)
    how = [tmp_path / "dealt.py"] if dealt else ["--numpy"]
    words = [Path(sys.executable).with_name("bsprun"), "-p", str(p), "-n", str(n), *how, script, "a"]
    ours = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (ours.returncode, ours.stdout, plain.returncode) == (0, plain.stdout, 0), ours.stderr


WARNINGS = """
import json
import warnings
import numpy as np

x = np.array([1.0, 0.0, -1.0])
for k in range(3):
    y = np.log(x)
    z = 1 / x
print(y, z)
with np.errstate(all="ignore"):
    np.sqrt(x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    np.sqrt(x)
warnings.filterwarnings("error", message="invalid")
try:
    np.arccos(x + 1)
except RuntimeWarning as warning:
    print(warning, len(caught), json.dumps({"most": x.max()}), {x.sum(): "a key"})
many = np.arange(5000.0)
(np.add(many[:, None], many[:2]) + 1) / many[:2]
np.polyfit([1, 1, 1], [1, 2, 3], 2)
print(np.arange(20_000).sum(), x.base is None, x[1:].base is x, np.asarray(x) is x)
warnings.simplefilter("default")
np.log(x)
np.log(x)
warnings.simplefilter("error")
try:
    np.log(x)
except RuntimeWarning as warning:
    print(warning)
print(np.arange(20_000).max())
"""


@pytest.mark.jobs
@pytest.mark.parametrize(("p", "n"), [(1, 1), (3, 1), (3, 3)])
def test_small_arrays_warn_once_and_at_the_line_of_the_script(tmp_path: Path, p: int, n: int) -> None:
    (tmp_path / "script.py").write_text(WARNINGS)
    plain = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    words = [Path(sys.executable).with_name("bsprun"), "-p", str(p), "-n", str(n), "--numpy", "script.py"]
    ours = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert plain.stderr.count("Warning: ") == 9
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr.replace(f"{tmp_path}/", ""))


def test_what_small_arrays_become() -> None:
    """Results with an element for each pair are distributed beyond the limit, and never made whole if they are huge."""

    def main(proc: bsp.Process) -> None:
        world().as_numpy = True
        numpy = NumPyInstead(ba, np)
        x, many = numpy.linspace(0, 1, 100), numpy.arange(9000.0)
        assert type(x[::2] + 1) is type(numpy.zeros((3, 4)).T) is type(numpy.sqrt([4, 9])) is SmallArray
        assert type(x[:, None] * x) is type(many.reshape(90, 100)[1:] ** 2) is SmallArrayOfMany
        cube, pairs = x[:, None, None] * x[:, None] * x, many[:, None] - many
        assert type(cube) is type(pairs) is type(numpy.outer(many, many)) is type(many.repeat(9)) is ba.Array
        assert pairs._node.op is not LEAF
        whole = np.linspace(0, 1, 100)
        assert np.array_equal(cube.compute(), whole[:, None, None] * whole[:, None] * whole)
        assert isinstance(many.sum(), np.float64)
        assert isinstance(x @ x, np.float64)
        assert proc._task.element.superstep == 1  # of `compute`
        grid, where = x.reshape(10, 10), numpy.arange(2000) // 200
        assert type(grid[:, [0, 1]]) is type(grid[where[:9]]) is SmallArray
        assert type(grid[where, 2]) is type(grid[1:, where[:500]]) is SmallArrayOfMany
        assert type(grid[where]) is type(grid[where[:, None], where]) is type(grid[:, None, where]) is ba.Array
        assert not grid[where[:, None], where]._node.layout.replicated

    bsp.run(main, nprocs=2)


MAKERS: dict[str, Any] = {
    "zeros": lambda a, b, x: ((a, b),), "eye": lambda a, b, x: (a, b), "tile": lambda a, b, x: (x, (a, b)),
    "repeat": lambda a, b, x: (x, a), "linspace": lambda a, b, x: (0, b / 3, a), "vander": lambda a, b, x: (x, a),
    "pad": lambda a, b, x: (x, a), "identity": lambda a, b, x: (a,), "full": lambda a, b, x: ((a, b), 7.0),
    "arange": lambda a, b, x: (-b, a, 1 / b), "kron": lambda a, b, x: (x, x), "outer": lambda a, b, x: (x, x),
    "diag": lambda a, b, x: (x,), "meshgrid": lambda a, b, x: (x, x), "tri": lambda a, b, x: (a,),
    "indices": lambda a, b, x: ((a, b),), "resize": lambda a, b, x: (x, (a, b)),
    "concatenate": lambda a, b, x: ([x, x],), "ones": lambda a, b, x: (np.array([a, b]),),
    "inner": lambda a, b, x: (x[:, None], x[:, None]), "cov": lambda a, b, x: (x[:, None],),
    "histogram": lambda a, b, x: (x, a * b), "hanning": lambda a, b, x: (a * b,),
    "where": lambda a, b, x: (x[:, None] > 0, x, 2.0), "multiply": lambda a, b, x: (x[:, None], x),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the covariance of one sample
@examples(200)
@given(st.sampled_from(sorted(MAKERS)), st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 3000))
def test_results_of_small_arrays_are_not_huge(name: str, a: int, b: int, length: int) -> None:
    args = MAKERS[name](a, b, np.ones(length))
    if are_small(name, args, {}):
        found = getattr(np, name)(*args)
        assert sum(each.size for each in (found if isinstance(found, tuple) else [found])) <= 1 << 21


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_state_is_taken_without_a_superstep(nprocs: int) -> None:
    """Heads at which states are taken depend on time; other pickles of a script for NumPy hold NumPy's arrays."""

    def main(proc: bsp.Process) -> Any:
        world().as_numpy = True
        x = (ba.zeros(proc.nprocs) + 1).persist()
        before = proc._task.element.superstep
        with alone():
            taken = pickle.loads(pickled(x))
        assert proc._task.element.superstep == before
        return taken.compute().tolist(), type(pickle.loads(pickle.dumps(x + 1))).__name__

    assert bsp.run(main, nprocs=nprocs) == [([1.0] * nprocs, "ndarray")] * nprocs


RANDOM = """
import numpy as np

np.random.seed(1)
x = np.random.normal(size=(10_000, 3))
rng = np.random.default_rng(2)
rng.shuffle(x)
y = x @ rng.normal(size=3)
print(rng.permutation(y).sum())
"""


@pytest.mark.jobs
def test_a_script_that_draws_numbers_is_priced_without_values(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(RANDOM)
    words = [Path(sys.executable).with_name("bsprun"), "-p", "2", "--predict", "--abstract", "--numpy", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "script.py:9" in done.stdout


PRICED = """
import numpy as np

A = np.random.default_rng(1).normal(size=(300, 200))
w, b, t = np.array([0.5] * 200), np.zeros(200), np.arange(5) * 2
while t[0] < 3:
    gradient = A.T @ (A @ w)
    w -= 0.01 * gradient
    b += gradient
    b[0] = gradient[1]
    w[3] = gradient.sum()
    t += 1
pairs = b[:, None] * np.ones(300)
print(pairs.sum(), (b @ w) * 2, w[t], b[t[1]], np.outer(b, w).max(axis=0), np.add(b, w, out=w)[:2])
b[:] = A[0]
print(np.concatenate([b, b]).max(), np.linalg.norm(w), b.T[::2] + 1)
grid, where = np.ones((50, 40)), np.arange(2000) // 50
print(grid[where[:, None], where].sum(), grid[:, where].T.max(axis=0).shape, grid[where[:9]].sum())
np.add.at(b, np.arange(20_000) % 200, 1.0)
np.add.at(b, [1, 2], A[0, :2])
print(b.sum())
"""


@pytest.mark.jobs
@pytest.mark.parametrize("p", [1, 3])
def test_a_script_is_priced_without_values_as_it_runs(tmp_path: Path, p: int) -> None:
    (tmp_path / "script.py").write_text(PRICED)
    words = [Path(sys.executable).with_name("bsprun"), "-p", str(p), "--numpy", "--predict"]
    counts = []
    for option in [[], ["--abstract"]]:
        done = subprocess.run([*words, *option, "script.py"], capture_output=True, text=True, timeout=120, cwd=tmp_path)
        counts.append(re.findall(r"\d+ supersteps.*messages", done.stdout))
        assert len(counts[-1]) == 1, done.stderr
    assert counts[0] == counts[1]


@pytest.mark.jobs
def test_a_script_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = [Path(sys.executable).with_name("bsprun"), "-p", "2", "-n", "1", "--numpy", "--explain", script]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert [line.split(": ")[1].split()[0] for line in lines] == ["becomes", "becomes", "stays"], done.stderr
    assert "total is used outside of the loop" in lines[2] or "depends on the iteration before" in lines[2]


@pytest.mark.parametrize(("words", "told"), [
    (["--explain", "x.py"], "--explain goes with --numpy"), (["--numpy", "-m", "this"], "--numpy runs a script"),
    (["--numpy", "nothing.py"], "does not exist"),
])  # fmt: skip
def test_wrong_options(words: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    bsprun = Path(sys.executable).with_name("bsprun")
    done = subprocess.run([bsprun, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
