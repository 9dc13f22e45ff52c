"""Type checkers read the types of the public packages: mypy and pyright find wrong calls, and refuse no right one.

basedpyright is pyright with Node in a wheel.  Both read the packages as they read any that has `py.typed`, from scripts
in a folder elsewhere, without this project's settings.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_origin, get_overloads

import numpy as np
import pytest
from test_public_names import PACKAGES

import bsp.arrays as ba
from bsp.arrays.api import ufuncs

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))

RIGHT = """
import numpy as np
import bsp
import bsp.arrays as ba
from bsp.algorithms import glm, matmul, qr
from bsp.arrays import Array

def half(x: Array) -> Array:
    return x / 2

rng = ba.random.default_rng(7)
x: Array = rng.normal(size=(100, 20))
number: float = rng.normal()
counts: Array = rng.poisson(x, size=x.shape)
a = ba.asarray([[1.0, 2.0], [3.0, 4.0]], grid=(2, 1))
b: Array = a + 1
b = 1 + a
b += 2
b = a @ a.T - half(a)
b = -a[0, :] ** 2
b = a[a > 1]
b = a[np.int64(0)]
b = a[..., None, ::2]
b = a[(*(slice(None),) * 1, 0)]
a[0] = 1
a[a > 3] = [1, 2]
values: np.ndarray = a.compute()
both: tuple[np.ndarray, ...] = ba.compute(a, b)
quotient, rest = divmod(a, 2)
b = quotient + rest
b = ba.sum(a, axis=0)
b = ba.sum(a, 0, None, None, True)
b = a.sum(axis=(0, 1), keepdims=True)
b = a.mean(0).std().persist()
b = ba.roll(a, 1, 0)
b = ba.stack([a, b], 1)
b = ba.concatenate((a, np.ones((2, 2)), [[1, 2]]), axis=0)
b = ba.asarray([a.sum(), 1.0, np.float32(2)])
b = ba.where(a > 0, a, 0).reshape(-1)
b = ba.where(a > 0)[0]
b = ba.zeros((3, np.int64(4)), dtype="f4")
b = ba.zeros(a.shape, ba.float32, device=a.device)
b = ba.arange(10).reshape(2, 5)
b = ba.arange(np.datetime64("2020-01-01"), np.datetime64("2020-02-01"))
b = ba.linspace(0, 1, 11)
b, step = ba.linspace(0, 1, 11, retstep=True)
b = ba.einsum("ij,jk->ik", a, a)
b = ba.block([[a, a], [a, a]])
b = ba.linalg.norm(a, "fro")
u, s, vh = ba.linalg.svd(a, full_matrices=False)
b = ba.fft.fft(a, axis=-1, norm="ortho")
b = ba.sin(a, out=b, where=a > 0)
b = ba.add(a, 1.0)
b = ba.divmod(a, 2)[0]
b = ba.unique(a)
b, many = ba.unique(a, return_counts=True)
b, columns = ba.read_csv("x.csv", names=True)
b = ba.linalg.qr(a).Q @ ba.linalg.svd(a).S
b = ba.quantile(a, [0.1, 0.9], axis=0, method="nearest")
b, edges = ba.histogram(a, bins=10, range=(0.0, 1.0))
b = ba.meshgrid(a[0], a[1], indexing="ij")[0]
b = ba.comprehension("C[i,j] = A[i,j] + 1", A=a)
b = matmul.matmul(a, a)
b = qr.lstsq(a, a[0])[0]
ba.save("x.npy", a)
for row in a:
    row.sum()
if a.any() and 3.0 in a and len(a) and a.shape[0] + 1:
    float(a.max())
same: Array = a == b
model = glm.LogisticRegression()
proc = bsp.process()
proc.sync()
box = proc.coarray(4)
box.put(0, [1.0], at=slice(0, 1))
box.put(0, [1.0], at=(0, ...))
proc.send(1, {"any": "value"}, tag=("a", 1))
model.fit(x, ["yes", "no"] * 50).predict(x)
model.fit("table.csv", "target", offset="exposure")
received = proc.total_exchange(np.arange(4), np.array([4]))
"""

WRONG = """
import bsp
import bsp.algorithms
import bsp.arrays as ba

a = ba.zeros((3, 4))
ba.anything(a)  # wrong
a.anything()  # wrong
a.sum(axis="rows")  # wrong
a.sum(axes=0)  # wrong
ba.sum(a, axis=[0])  # wrong
ba.zeros("three")  # wrong
ba.zeros(3, grd=2)  # wrong
ba.roll(a)  # wrong
ba.reshape(a, (2, 6), order="Z")  # wrong
ba.concatenate(a, a)  # wrong
ba.sin("0.5")  # wrong
ba.sin(a, a, a)  # wrong
ba.add(a)  # wrong
ba.sort(a, kind="fastest")  # wrong
ba.where(a > 0, a)  # wrong
a.reshape("all")  # wrong
a.astype(float, casting="maybe")  # wrong
a["name"]  # wrong
a + "text"  # wrong
a ** "text"  # wrong
a.T()  # wrong
a.shape()  # wrong
a.shape = (4, 3)  # wrong
ba.random.default_rng("seed")  # wrong
ba.random.default_rng(0).norml(size=3)  # wrong
ba.random.default_rng(0).normal(siz=3)  # wrong
ba.random.default_rng(0).normal(size="3")  # wrong
ba.linalg.qr(a, mode="rq")  # wrong
ba.linalg.solv(a, a)  # wrong
ba.fft.fft(a, norm="unit")  # wrong
ba.linspace(0, 1, 11, device="gpu")  # wrong
ba.quantile(a, 0.5, method="mean")  # wrong
ba.copyto([1.0], a)  # wrong
ba.read_csv("x.csv", delimeter=";")  # wrong
n: int = a.sum()  # wrong
n = ba.unique(a)  # wrong
ba.compute([a])  # wrong
bsp.anything()  # wrong
bsp.algorithms.lasso  # wrong
bsp.algorithms.glm.GLM().fit(a, y=3j, sample_wieght=a)  # wrong
bsp.algorithms.glm.GLM().fit(1.5j, len)  # wrong
bsp.process().snyc()  # wrong
bsp.process().coarray(4).put([1.0])  # wrong
bsp.process().coarray(4).put(0, [1.0], at="first")  # wrong
"""


def public_names() -> list[str]:
    """Return the expressions of all public names, and of all public attributes of an array and a generator."""
    found = [f"{name}.{each}" for name in PACKAGES for each in importlib.import_module(name).__all__]
    objects = {"array": ba.Array, "generator": ba.random.Generator}
    return found + [f"{name}.{each}" for name, kind in objects.items() for each in dir(kind) if each[0] != "_"]


NAMES = public_names()
REVEALED = "\n".join([
    *(f"import {name}" for name in PACKAGES),
    "array = bsp.arrays.zeros(3)", "generator = bsp.arrays.random.default_rng(1)",
    *(f"reveal_type({name})" for name in NAMES),
])  # fmt: skip


class Report(NamedTuple):
    """Hold a checker's message on a line of a file: an error, or a type that was asked for."""

    file: str
    line: int
    error: bool
    text: str


def by_mypy(folder: Path, files: list[Path]) -> list[Report]:
    options = ["--config-file=", "--cache-dir=cache", "--no-error-summary", "--disable-error-code=import-untyped"]
    command = [sys.executable, "-m", "mypy", *options]
    ran = subprocess.run([*command, *map(str, files)], cwd=folder, capture_output=True, text=True, check=False)
    found = [re.fullmatch(r"(.+?):(\d+): (error|note): (.*)", line) for line in ran.stdout.splitlines()]
    assert ran.stderr == "" and all(found), ran.stdout + ran.stderr
    return [Report(Path(each[1]).name, int(each[2]), each[3] == "error", each[4]) for each in found if each]


def by_pyright(folder: Path, files: list[Path]) -> list[Report]:
    settings = {"include": [str(file) for file in files], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return [
        Report(
            Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["severity"] == "error", each["message"]
        )
        for each in json.loads(ran.stdout)["generalDiagnostics"]
    ]


@pytest.fixture(scope="module", params=[by_mypy, by_pyright])
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """Return the messages of one checker on all scripts, from one run."""
    folder = tmp_path_factory.mktemp("scripts")
    texts = {"right.py": RIGHT, "wrong.py": WRONG, "names.py": REVEALED}
    for name, text in texts.items():
        (folder / name).write_text(text)
    check: Callable[[Path, list[Path]], list[Report]] = request.param
    return check(folder, [*(folder / name for name in texts), *EXAMPLES])


def errors_of(reports: list[Report], file: str) -> dict[int, str]:
    return {each.line: each.text for each in reports if each.file == file and each.error}


@pytest.mark.thorough
def test_every_wrong_call_is_reported_at_its_line(reports: list[Report]) -> None:
    wrong = {k for k, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")}
    assert len(wrong) > 35
    assert errors_of(reports, "wrong.py").keys() == wrong


@pytest.mark.thorough
def test_right_calls_and_the_examples_have_no_errors(reports: list[Report]) -> None:
    assert EXAMPLES
    assert {file: errors_of(reports, file) for file in ("right.py", *(path.name for path in EXAMPLES))} == {
        file: {} for file in ("right.py", *(path.name for path in EXAMPLES))
    }


@pytest.mark.thorough
def test_every_public_name_has_a_type(reports: list[Report]) -> None:
    assert errors_of(reports, "names.py") == {}
    first = REVEALED.splitlines().index(f"reveal_type({NAMES[0]})") + 1
    types = {NAMES[each.line - first]: each.text for each in reports if each.file == "names.py" and each.line >= first}
    assert types.keys() == set(NAMES)
    untyped = [name for name, text in types.items() if re.search(r'is "(Any|Unknown)"', text)]
    assert untyped == []


# ------------------------------------------------------------------------------------- parameters

ON = "handed on to the function that the caller gives"
OPTIONS = "of the format, which the name of the file chooses"
CHECK = "of bsp.verify.equivalent"
VALUE = "numbers, arrays, or any values that the operation combines"
UNTYPED: dict[str, tuple[tuple[str, ...], str]] = {
    **{f"bsp.Process.{name}": (("value",), VALUE) for name in ("reduce", "allreduce", "scan", "exscan")},
    "bsp.run": (("args",), ON),
    "bsp.Session.run": (("args",), ON), "bsp.Session.put": (("values",), "any values"), "bsp.predict": (("args",), ON),
    "bsp.arrays.fromfunction": (("others",), ON), "bsp.arrays.apply_along_axis": (("args", "kwargs"), ON),
    "bsp.arrays.piecewise": (("args", "kw"), ON), "bsp.arrays.forecast": (("args", "kwargs"), ON),
    "bsp.arrays.load": (("options",), OPTIONS), "bsp.arrays.save": (("options",), OPTIONS),
    "bsp.arrays.procedures.dealt_blocks": (("values",), "an array of NumPy, or one without values"),
    "bsp.arrays.procedures.from_whole": (("values",), "an array of NumPy, or one without values"),
    "bsp.arrays.procedures.remember": (("value",), "any value"),
    "bsp.arrays.procedures.told": (("message",), "any value"),
    "bsp.sketch.complete": (("options",), CHECK), "bsp.verify.mutated": (("options",), CHECK),
    "bsp.verify.spec": (("options",), CHECK),
    "bsp.arrays.write_hdf5": (("options",), "of h5py"),
    "bsp.arrays.sparse.load": (("options",), OPTIONS),
    "bsp.algorithms.graphs.from_networkx": (("graph",), "networkx, which has no types, is not imported"),
    "bsp.algorithms.glm.GLM.set_params": (("params",), "of the model, each with a type of its own"),
}  # fmt: skip


def functions_of(package: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of a package, and the public methods of its classes, by name."""
    for name in package.__all__:
        found = getattr(package, name)
        if inspect.isclass(found) and found.__module__.startswith("bsp"):
            for inner in dir(found):
                method = getattr(found, inner)
                ours = str(getattr(inspect.unwrap(method), "__module__", "")).startswith("bsp")
                if callable(method) and ours and (inner[0] != "_" or inner in ("__init__", "__getitem__")):
                    yield f"{package.__name__}.{name}.{inner}", method
        elif callable(found) and not inspect.isclass(found) and get_origin(found) is None:
            yield f"{package.__name__}.{name}", found


def parameters_of(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """All parameters but self, of its overloads if it has any."""
    for each in get_overloads(inspect.unwrap(function)) or [function]:
        yield from (found for name, found in inspect.signature(each).parameters.items() if name != "self")


def test_every_parameter_of_a_public_function_has_a_type_or_a_reason() -> None:
    """`Any` is for what takes anything, and hands it on; every such parameter is in the table with its reason."""
    total, untyped, seen = 0, {}, set()
    for name in PACKAGES:
        for title, function in functions_of(importlib.import_module(name)):
            if inspect.unwrap(function) in seen:  # of a base class
                continue
            seen.add(inspect.unwrap(function))
            parameters = list(parameters_of(function))
            total += len(parameters)
            open_ones = tuple(each.name for each in parameters if each.annotation in (Any, "Any", each.empty))
            if open_ones:
                untyped[title] = open_ones
    assert untyped == {title: names for title, (names, _) in UNTYPED.items()}
    assert sum(map(len, untyped.values())) < 30 < 2000 < total


def test_methods_of_arrays_have_the_parameters_of_the_functions_of_their_names() -> None:
    others = {"copy", "reshape", "astype", "resize", "searchsorted"}  # NumPy's methods have other parameters
    both = [name for name in vars(ba.Array) if name in ba.__all__ and name not in others]
    assert len(both) > 30
    for name in both:
        method = vars(ba.Array)[name]
        if not isinstance(method, property):
            taken = inspect.signature(getattr(ba, name)).parameters
            assert set(inspect.signature(method).parameters) - {"self"} <= taken.keys(), name


def test_every_elementwise_ufunc_of_numpy_has_its_line() -> None:
    theirs = {name for name, each in vars(np).items() if isinstance(each, np.ufunc) and each.signature is None}
    assert theirs <= set(ufuncs.__all__)
