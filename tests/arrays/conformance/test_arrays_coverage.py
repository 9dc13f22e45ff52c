"""The page of what there is: nothing on it is wrong, and it is what calling everything gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import bsp.arrays as ba
from tools import arrays_coverage as coverage
from tools.arrays_coverage import Case, Cell

PAGE = Path(__file__).resolve().parents[3] / "docs" / "arrays-coverage.md"

# as many as there were: what has a distributed form keeps it
LEAST = {
    "numpy": 337, "numpy.linalg": 27, "numpy.fft": 12, "numpy.random.Generator": 41,
    "samplers of dealt parameters": 32, "methods and attributes": 56, "operators and conversions": 40,
    "as users write it": 47, "indexing": 24, "ufunc.reduce": 17, "ufunc.accumulate": 17, "ufunc.reduceat": 17,
    "ufunc.outer": 38, "ufunc.at": 80, "array API standard 2024.12": 163,
}  # fmt: skip


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return coverage.covered()


@pytest.mark.thorough
def test_nothing_is_wrong(cells: list[Cell]) -> None:
    assert [(cell.called or cell.case.text, cell.note) for cell in cells if cell.status == "wrong"] == []


@pytest.mark.thorough
def test_the_page_is_what_the_calls_give(cells: list[Cell]) -> None:
    """Run `python -m tools.arrays_coverage --write docs/arrays-coverage.md` after a change."""
    text = PAGE.read_text()
    made_with = re.search(r"with NumPy (\S+):", text)
    if made_with is None or made_with[1] != np.__version__:
        pytest.skip("the page was made with another NumPy, of other functions")
    assert text == coverage.page(cells)


@pytest.mark.thorough
def test_what_was_distributed_still_is(cells: list[Cell]) -> None:
    found = {
        section: sum(cell.status == "distributed" for cell in own) for section, own in coverage.sections(cells).items()
    }
    assert {section: found[section] for section, least in LEAST.items() if found[section] < least} == {}


@pytest.mark.thorough
def test_arrays_as_parameters_are_not_brought_together(cells: list[Cell]) -> None:
    """But for what NumPy makes an array of itself: there is no other way, and it warns above 16 MB."""
    own = {cell.case.name: cell.status for cell in coverage.sections(cells)["as users write it"]}
    dealt = [
        "np.repeat(v, I)", "np.bincount(I * 9000)", "np.bincount(I * 9000, v)", "np.quantile(v, U[0])",
        "np.digitize(v, k[::99])", "np.histogram(v, k[::99])", "np.insert(v, o[:99], 1.0)", "np.delete(v, o)",
    ]  # fmt: skip
    assert {name: own[name] for name in dealt} == dict.fromkeys(dealt, "distributed")
    (choice,) = [
        cell for cell in coverage.sections(cells)["samplers of dealt parameters"] if cell.case.name == "choice"
    ]
    assert choice.status == "distributed"
    by_numpy = ["np.array([u, v])", "np.r_[u, v]", "np.vectorize(abs)(v)"]
    assert {name: own[name] for name in by_numpy} == dict.fromkeys(by_numpy, "gathered")


@pytest.mark.thorough
def test_the_standard_has_nothing_missing(cells: list[Cell]) -> None:
    own = coverage.sections(cells)["array API standard 2024.12"]
    assert [cell.case.name for cell in own if cell.status not in ("distributed", "gathered")] == []


@pytest.mark.thorough
def test_every_public_function_is_on_the_page_or_left_out_with_a_reason(cells: list[Cell]) -> None:
    named = {cell.case.name for cell in coverage.sections(cells)["numpy"]}
    without = {name for text in coverage.LEFT_OUT.values() for name in text.split()}
    public = {name for name in np.__all__ if callable(getattr(np, name)) and not isinstance(getattr(np, name), type)}
    assert named | without >= public
    assert not named & without


def judged(call: object, expected: object) -> str:
    """The status of a function that gives something else than NumPy's does."""
    case = Case("s", "n", "A", (("ba.n", lambda: call),), lambda: expected)
    found, rows = coverage.called([case])
    return coverage.judged(
        case, [[found[pid][0][0] for pid in range(coverage.NPROCS)]], rows, coverage.expected(case)
    ).status


def test_wrong_values_shapes_and_dtypes_are_told_and_so_is_what_is_brought_together() -> None:
    assert judged(lambda x: x + 1e-3, lambda x: x) == "wrong"
    assert judged(lambda x: x.astype(np.float32), lambda x: x) == "wrong"
    assert judged(lambda x: x[:, :1], lambda x: x) == "wrong"
    assert judged(lambda x: 1 // 0, lambda x: x) == "wrong"
    assert judged(lambda x: ba.asarray(x.compute()), lambda x: x) == "gathered"
    assert judged(lambda x: x.compute(), lambda x: x) == "gathered"
    assert judged(lambda x: x.rechunk(grid=(1, 4)), lambda x: x) == "distributed"
    assert judged(lambda x: x.nothing(), lambda x: x) == "missing"
