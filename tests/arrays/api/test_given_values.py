"""NumPy arrays, numbers and seeds that processes give to arrays are compared: other values on one are a mismatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.kernels.fingerprints import fingerprint

Call = Callable[[Any, int], Any]  # of an array of eight elements, and a number

EIGHT = np.arange(8)
CALLS: dict[str, Call] = {
    "asarray": lambda x, k: ba.asarray([1.0 + k, 2.0]),
    "an operand": lambda x, k: x + np.full(8, 1.0 * k),
    "a number without a type of ours": lambda x, k: x + np.float32(k),
    "in place": lambda x, k: x.__iadd__(np.full(8, 1.0 * k)),
    "matmul": lambda x, k: ba.ones((3, 8)) @ np.full(8, 1.0 * k),
    "full": lambda x, k: ba.full(5, k),
    "full_like": lambda x, k: ba.full_like(x, k),
    "arange": lambda x, k: ba.arange(k, k + 4),
    "arange of dates": lambda x, k: ba.arange(f"2024-01-0{1 + k}", f"2024-01-1{1 + k}", dtype="M8[D]").view("i8"),
    "linspace": lambda x, k: ba.linspace(0.0, 1.0 + k, 5),
    "geomspace": lambda x, k: ba.geomspace(1.0, 2.0 + k, 5),
    "eye": lambda x, k: ba.eye(4, 4, k),
    "positions": lambda x, k: x[np.array([k, 3])],
    "a list of positions": lambda x, k: x[[k, 3]],
    "a mask": lambda x, k: x[k == EIGHT % 2],
    "assignment at positions": lambda x, k: _assigned(x, np.array([k]), 7.0),
    "assignment by mask": lambda x, k: _assigned(x, k == EIGHT % 2, 7.0),
    "take": lambda x, k: ba.take(x, [k, 3]),
    "where": lambda x, k: ba.where(k == EIGHT % 2, x, 0.0),
    "bins": lambda x, k: ba.histogram(x, [0.0, 2.0 + k, 8.0])[0],
    "ranks": lambda x, k: ba.quantile(x, 0.25 + k / 2),
    "several ranks": lambda x, k: ba.quantile(x, [0.25, 0.5 + k / 4]),
    "searchsorted": lambda x, k: ba.searchsorted(x, np.array([1.5 + k])),
    "digitize": lambda x, k: ba.digitize(x, np.array([1.5 + k, 6.0])),
    "interp": lambda x, k: ba.interp(x, [0.0, 8.0], [0.0, 1.0 + k]),
    "isin": lambda x, k: ba.isin(x, [k, 5]),
    "polyval": lambda x, k: ba.polyval(np.array([1.0, 2.0 + k]), x),
    "a seed": lambda x, k: ba.random.default_rng(k).normal(size=4),
    "a sequence of seeds": lambda x, k: ba.random.default_rng([1, k]).normal(size=4),
    "a parameter": lambda x, k: ba.random.default_rng(1).normal(1.0 * k, size=4),
    "chances": lambda x, k: ba.random.default_rng(1).choice(3, 8, p=[0.5, 0.25 * k, 0.5 - 0.25 * k]),
}


def _assigned(x: Any, at: Any, value: Any) -> Any:
    x[at] = value
    return x


def _run(p: int, call: Call, number: Callable[[int], int]) -> list[Any]:
    def main(proc: bsp.Process) -> Any:
        found = call(ba.arange(8.0), number(proc.pid))
        return found.compute(), float(found.sum())

    return bsp.run(main, nprocs=p)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_differs_on_one_process_is_a_mismatch(call: Call) -> None:
    with pytest.raises(bsp.SyncMismatch):
        _run(3, call, lambda pid: int(pid == 2))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_agrees_is_none(call: Call) -> None:
    found = _run(3, call, lambda pid: 1)
    (alone,) = _run(1, call, lambda pid: 1)
    for values, total in found:
        np.testing.assert_array_equal(values, alone[0])
        assert total == alone[1]


def test_pieces_of_the_processes_own_are_theirs() -> None:
    def main(proc: bsp.Process) -> Any:
        return ba.from_local(np.full(2, proc.pid)).compute().tolist()

    assert bsp.run(main, nprocs=2) == [[0, 0, 1, 1]] * 2


def test_a_generator_of_numpys_own_seed_is_found_in_a_large_array() -> None:
    """The mistake that this is for: random data that every process draws for itself."""

    def main(proc: bsp.Process) -> None:
        ba.asarray(np.random.default_rng(proc.pid).random((1000, 300))).sum().compute()

    with pytest.raises(bsp.SyncMismatch, match="same values to its arrays"):
        bsp.run(main, nprocs=2)


@examples(200)
@given(
    st.sampled_from(["<f8", ">f8", "<i2", "?", "<c16", "M8[s]", "g"]),
    st.lists(st.integers(0, 40), min_size=0, max_size=3),
    st.randoms(use_true_random=False),
)
def test_equal_arrays_have_equal_fingerprints_however_they_lie_in_memory(dtype: str, shape: Any, chance: Any) -> None:
    values = np.array([chance.randrange(2) for _ in range(int(np.prod(shape)))], "i8").reshape(shape).astype(dtype)
    wide = np.empty([2 * each for each in shape], dtype)
    part = wide[(..., *(slice(None, None, 2),) * len(shape))]
    part[...] = values
    same = [np.array(values, order="F"), part, values.copy()]
    assert {fingerprint(each) for each in same} == {fingerprint(values)}
    if values.size:
        other = values.copy()
        at = tuple(chance.randrange(each) for each in shape)
        other[at] = np.array(2).astype(dtype) if dtype != "?" else ~other[at]
        assert fingerprint(other) != fingerprint(values)


def test_what_is_no_value_of_numpys_has_no_fingerprint() -> None:
    assert [fingerprint(each) for each in (None, 1, 2**70, "a", print, np.array([None]))] == [
        None, 1, 2**70, "a", None, None,
    ]  # fmt: skip
