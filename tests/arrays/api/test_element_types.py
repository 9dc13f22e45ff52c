"""Every way in takes the same dtypes, and refuses others with one error, for every number of processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpys_answers import as_numpys, dealt, dealt_always, outcome

import bsp
import bsp.arrays as ba
from bsp.arrays.expressions.element_types import KINDS, element_type

TEXT = "arrays hold booleans, integers, floating-point and complex numbers, dates and durations"
REFUSED: dict[str, Any] = {
    "objects": object,
    "text": str,
    "texts": "U3",
    "bytes": "S2",
    "void": "V4",
    "record": "f8,i4",
}
HELD = ["?", "i1", "u2", "i8", ">i4", "f2", "f4", ">f8", "g", "F", "D", "M8[D]", "m8[s]", ">M8[s]"]


def _twice(x: Any) -> Any:
    return x * 2


DOORS: dict[str, Callable[[Any, ba.Array], Any]] = {
    "zeros": lambda t, v: ba.zeros(3, t),
    "ones": lambda t, v: ba.ones((2, 3), dtype=t),
    "empty": lambda t, v: ba.empty(3, t),
    "full": lambda t, v: ba.full(3, 1, dtype=t),
    "full of arrays": lambda t, v: ba.full(3, v[0], dtype=t),
    "zeros_like": lambda t, v: ba.zeros_like(v, dtype=t),
    "numpy.full_like": lambda t, v: np.full_like(v, 1, dtype=t),
    "arange": lambda t, v: ba.arange(3, dtype=t),
    "linspace": lambda t, v: ba.linspace(0, 1, 3, dtype=t),
    "logspace": lambda t, v: ba.logspace(0, 1, 3, dtype=t),
    "geomspace": lambda t, v: ba.geomspace(1, 2, 3, dtype=t),
    "eye": lambda t, v: ba.eye(3, dtype=t),
    "tri": lambda t, v: ba.tri(3, dtype=t),
    "asarray": lambda t, v: ba.asarray([1, 2], dtype=t),
    "asarray of NumPy's": lambda t, v: ba.asarray(np.zeros(3, t)),
    "asarray of ours": lambda t, v: ba.asarray(v, dtype=t),
    "array": lambda t, v: ba.array([1, 2], t),
    "from_local": lambda t, v: ba.from_local(np.zeros(3, t)),
    "from_function": lambda t, v: ba.from_function(_twice, 3, dtype=t),
    "from_function's values": lambda t, v: ba.from_function(lambda i: np.zeros(i.shape, t), 3),
    "fromfunction": lambda t, v: ba.fromfunction(_twice, (3,), dtype=t),
    "astype": lambda t, v: v.astype(t),
    "ba.astype": lambda t, v: ba.astype(v, t),
    "view": lambda t, v: v.view(t),
    "sum": lambda t, v: v.sum(dtype=t),
    "mean": lambda t, v: np.mean(v, dtype=t),
    "std": lambda t, v: np.std(v, dtype=t),
    "nanvar": lambda t, v: np.nanvar(v, dtype=t),
    "cumsum": lambda t, v: v.cumsum(dtype=t),
    "cov": lambda t, v: np.cov(v, dtype=t),
    "concatenate": lambda t, v: np.concatenate([v, v], dtype=t, casting="unsafe"),
    "stack": lambda t, v: np.stack([v, v], dtype=t, casting="unsafe"),
    "ufunc": lambda t, v: np.add(v, v, dtype=t, casting="unsafe"),
    "matmul": lambda t, v: np.matmul(v, v, dtype=t, casting="unsafe"),
    "random": lambda t, v: ba.random.default_rng(1).normal(size=3, dtype=t),
    "integers": lambda t, v: ba.random.default_rng(1).integers(0, 5, 3, dtype=t),
    "an operand": lambda t, v: v + np.zeros(4, t),
    "where": lambda t, v: np.where(v > 0, v, np.zeros(4, t)),
    "assignment": lambda t, v: v.__setitem__(slice(None), np.zeros(4, t)),
    "apply_along_axis": lambda t, v: np.apply_along_axis(lambda line: line.astype(t), 0, v[:, None] + v),
}  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("refused", REFUSED)
def test_every_way_in_refuses_what_is_no_number(refused: str, nprocs: int) -> None:
    dtype = REFUSED[refused]

    def main(proc: bsp.Process) -> list[Any]:
        return [
            outcome(lambda door=door: door(dtype, dealt(proc, np.arange(4.0), "fine")), []) for door in DOORS.values()
        ]

    with dealt_always():
        for results in bsp.run(main, nprocs=nprocs):
            for name, found in zip(DOORS, results, strict=True):
                assert isinstance(found, TypeError) and TEXT in str(found), f"{name}: {found!r}"


@pytest.mark.parametrize("nprocs", [1, 3])
def test_python_functions_as_ufuncs_are_refused(nprocs: int) -> None:
    add = np.frompyfunc(lambda a, b: a + b, 2, 1)
    calls: list[Callable[[ba.Array], Any]] = [
        np.frompyfunc(_twice, 1, 1), lambda v: add(v, v), add.reduce, add.accumulate, lambda v: add.outer(v, v),
        lambda v: add.reduceat(v, [0, 2]),
    ]  # fmt: skip

    def main(proc: bsp.Process) -> list[Any]:
        return [outcome(call, [dealt(proc, np.arange(4.0), "fine")]) for call in calls]

    with dealt_always():
        for results in bsp.run(main, nprocs=nprocs):
            for found in results:
                assert isinstance(found, TypeError) and "not Python objects" in str(found)


@pytest.mark.parametrize("call", [ba.asarray, ba.sum, lambda matrix: ba.ones(3) @ ba.asarray(matrix)])
def test_a_sparse_matrix_of_scipys_is_told_with_what_takes_it(call: Callable[[Any], ba.Array]) -> None:
    with pytest.raises(TypeError, match=r"csr_array is a sparse matrix .*from_scipy"):
        bsp.run(lambda proc: call(scipy.sparse.csr_array(np.eye(3))), nprocs=2)


def test_all_dtypes_of_the_list_come_in_and_go_out() -> None:
    """Sums of dates are refused as NumPy refuses them."""
    for name in HELD:
        values = (np.arange(7) % 2 if name == "?" else np.arange(7)).astype(name)
        as_numpys(
            {
                "reversed": lambda x: x[::-1],
                "taken": lambda x: x[[5, 0, 3]],
                "sorted": lambda x: np.sort(x[::-1]).astype(x.dtype),
                "sum": lambda x: x.sum(),
                "mask": lambda x: x[np.arange(7) % 2 == 0],
                "ravel": lambda x: x[:6].reshape(2, 3).T.ravel(),
            },
            [values],
        )
        assert element_type(name).kind in KINDS


def test_an_array_compares_with_no_text() -> None:
    dates = np.datetime64("2026-01-01") + np.arange(3)
    (found,) = bsp.run(lambda proc: outcome(lambda: ba.asarray(dates) == ["2026-01-01"] * 3, []), nprocs=1)
    assert isinstance(found, TypeError) and TEXT in str(found)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_elements_that_a_mask_hides_do_not_count(nprocs: int) -> None:
    hidden = np.ma.MaskedArray([1.0, 2.0, 3.0, 4.0], mask=[True, False, False, False])
    calls: dict[str, Callable[[ba.Array], Any]] = {
        "asarray": lambda v: ba.asarray(hidden),
        "from_local": lambda v: ba.from_local(hidden),
        "right": lambda v: v + hidden,
        "constant": lambda v: v - np.ma.masked,
        "ufunc": lambda v: np.maximum(v, hidden),
        "sum": lambda v: ba.sum(hidden),
        "concatenate": lambda v: np.concatenate([v, hidden]),
        "where": lambda v: np.where(v > 0, v, hidden),
        "assignment": lambda v: v.__setitem__(slice(None), hidden),
        "element": lambda v: v.__setitem__(1, np.ma.masked),
        "positions": lambda v: v.__setitem__([3, 2, 1, 0], hidden),
    }

    def main(proc: bsp.Process) -> None:
        for name, call in calls.items():
            found = outcome(lambda v, call=call: call(v), [dealt(proc, np.arange(4.0), "fine")])
            assert isinstance(found, TypeError) and "arrays have no masks" in str(found), f"{name}: {found!r}"
        shown = dealt(proc, np.arange(4.0), "fine") + np.ma.MaskedArray([1.0, 2.0, 3.0, 4.0], mask=False)
        np.testing.assert_array_equal(shown.compute(), [1, 3, 5, 7])

    with dealt_always():
        bsp.run(main, nprocs=nprocs)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_product_with_a_matrix_is_no_product_by_elements() -> None:
    matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])

    def main(proc: bsp.Process) -> None:
        x = dealt(proc, np.array([[5.0, 6.0], [7.0, 8.0]]), "fine")
        np.testing.assert_array_equal((x * matrix).compute(), x.compute() * matrix)
        with pytest.raises(TypeError):
            matrix * x
        np.testing.assert_array_equal((x + matrix).compute(), x.compute() + matrix)
        np.testing.assert_array_equal((matrix @ x).compute(), matrix @ x.compute())

    with dealt_always():
        bsp.run(main, nprocs=3)


def test_extended_precision_is_kept() -> None:
    as_numpys(
        {
            "nan_to_num": lambda x: np.nan_to_num(x),
            "nan_to_num of complex numbers": lambda x: np.nan_to_num(x * 1j),
            "sort_complex": lambda x: np.sort_complex(x[::-1]),
            "interp": lambda x: np.interp(x, [0.0, 1.0], [2.0, 3.0]),
        },
        [np.array([0.5, np.inf, -np.inf, np.nan, 1.0, 2.0, np.longdouble(1) / 3], np.longdouble)],
        tolerance=0,
    )


def test_a_geometric_sequence_has_the_precision_that_is_asked_for() -> None:
    (found,) = bsp.run(lambda proc: ba.geomspace(1, 9, 7, dtype="g").compute(), nprocs=1)
    np.testing.assert_allclose(found, np.geomspace(1, 9, 7, dtype="g"), rtol=4 * np.finfo("g").eps, atol=0)


PROGRAM = """
import sys
import numpy as np
import bsp, bsp.arrays as ba
v, seen = ba.arange(40000.0), []
for call in (lambda: np.frompyfunc(abs, 1, 1)(v), lambda: v.astype(str), lambda: ba.zeros(50000, "f8,i4"),
             lambda: ba.from_local(np.array(["a"])), lambda: ba.from_function(lambda i: i.astype(object), 50000)):
    try:
        call().persist()
    except TypeError as error:
        seen.append(str(error))
assert len(seen) == 5 and all("arrays hold booleans" in each for each in seen), seen
for dtype in ("?", "i1", ">i4", "f2", "g", "D", "M8[D]", "m8[s]", ">f8"):
    x = ba.arange(50000).astype(dtype)
    assert (x[::-1].compute() == np.arange(50000).astype(dtype)[::-1]).all(), dtype
if bsp.process().pid == 0:
    print("refused 5 of 5")
"""


@pytest.mark.thorough
@pytest.mark.jobs
def test_doors_are_the_same_on_two_elements(tmp_path: Path) -> None:
    script = tmp_path / "doors.py"
    script.write_text(PROGRAM)
    ran = subprocess.run(
        [Path(sys.executable).with_name("bsprun"), "-p", "3", "-n", "2", script],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (ran.returncode, ran.stdout) == (0, "refused 5 of 5\n"), ran.stderr
