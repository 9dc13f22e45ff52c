"""The same lines on NumPy's arrays and on ours: values, shapes, dtypes and error types must be NumPy's.

A call takes arrays and returns one, several, or plain values.  Ours are dealt in several ways: blocks, blocks of
which some processes have two and some none, ragged pieces of which some are empty; nothing is small (`REPLICATED_SIZE`
is 0 inside `dealt_always`), so results on the way are dealt too.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.execution import world as worlds
from bsp.arrays.expressions import layout

Call = Callable[..., Any]
WAYS = ("blocks", "fine", "ragged")


def forget() -> None:
    layout.automatic.cache_clear()
    layout.asked.cache_clear()
    worlds._plans.clear()


@contextlib.contextmanager
def dealt_always() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(layout, "REPLICATED_SIZE", 0)
    forget()
    try:
        yield
    finally:
        patch.undo()
        forget()


def dealt(proc: bsp.Process, x: np.ndarray, way: str) -> ba.Array:
    """An array of ours with these values."""
    if way == "ragged" and x.ndim:
        cuts = [0, *np.sort(np.random.default_rng(x.size).integers(0, x.shape[0] + 1, proc.nprocs - 1)), x.shape[0]]
        return ba.from_local(x[cuts[proc.pid] : cuts[proc.pid + 1]])
    if way == "fine":
        return ba.asarray(x, grid=tuple(3 if k % 2 else 5 for k in range(x.ndim)))
    return ba.asarray(x, grid=tuple(2 for _ in x.shape))


def plain(found: Any) -> Any:
    """Results as NumPy's, in nested tuples."""
    if isinstance(found, (tuple, list)):
        return tuple(plain(each) for each in found)
    if isinstance(found, ba.Array):
        return np.array(found.compute())
    return found


def outcome(call: Call, arrays: Sequence[Any]) -> Any:
    """What a call returns, or raises."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            return plain(call(*arrays))
    except Exception as error:  # noqa: BLE001 - its type is compared
        return error


def agree(found: Any, expected: Any, where: str, tolerance: float) -> None:
    if isinstance(expected, Exception):
        kinds = tuple(each for each in type(expected).__mro__[:-3]) or (type(expected),)
        assert isinstance(found, kinds), f"{where}: {found!r}, not {expected!r}"
        return
    if isinstance(found, Exception):
        raise AssertionError(f"{where}: {found!r}, not {expected!r:.200}") from found
    if isinstance(expected, tuple):
        assert isinstance(found, tuple), where
        assert len(found) == len(expected), where
        for each, other in zip(found, expected, strict=True):
            agree(each, other, where, tolerance)
        return
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert found == expected, where
        return
    mine, theirs = np.asarray(found), np.asarray(expected)
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), f"{where}: {mine!r}, not {theirs!r}"
    if theirs.dtype.kind not in "fc" or not tolerance:
        np.testing.assert_array_equal(mine, theirs, where)
        return
    size = np.max(np.abs(theirs), initial=0, where=np.isfinite(theirs))
    eps = np.finfo(theirs.dtype).eps
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * eps * max(float(size), 1e-300), err_msg=where)


def as_numpys(
    calls: dict[str, Call], arrays: Sequence[np.ndarray], *, nprocs: int = 3, ways: Sequence[str] = WAYS,
    tolerance: float = 64,
) -> None:  # fmt: skip
    """All calls, each of arrays of its own, on every process; `tolerance` in units of the last place of the largest."""
    with dealt_always():
        for way in ways:

            def main(proc: bsp.Process, way: str = way) -> list[Any]:
                return [outcome(call, [dealt(proc, x, way) for x in arrays]) for call in calls.values()]

            results = bsp.run(main, nprocs=nprocs)
            for k, (name, call) in enumerate(calls.items()):
                expected = outcome(call, [x.copy() for x in arrays])
                for pid in range(nprocs):
                    agree(results[pid][k], expected, f"{name} of {way} arrays on process {pid} of {nprocs}", tolerance)


def roundings(expected: np.ndarray) -> float:
    """Some roundings of the largest number there is."""
    if expected.dtype.kind not in "fc":
        return 0.0
    size = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
    return 64 * float(np.finfo(expected.dtype).eps) * float(size)


def alike(compute: Callable[..., Any], *data: np.ndarray, p: int = 3, grid: int = 3) -> None:
    """The same program with NumPy's arrays and with ours: values, shape, dtype."""
    with np.errstate(all="ignore"):
        expected = np.asarray(compute(np, *[each.copy() for each in data]))

    def main(proc: bsp.Process) -> None:
        with np.errstate(all="ignore"):
            found = compute(ba, *[ba.asarray(each, grid=(grid,) * each.ndim) for each in data])
            found = found.compute() if isinstance(found, ba.Array) else np.asarray(found)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=roundings(expected))

    bsp.run(main, nprocs=p)


def refused(compute: Callable[..., Any], *data: np.ndarray) -> None:
    """NumPy's error is ours."""
    with pytest.raises((TypeError, ValueError, OverflowError)) as expected:
        compute(np, *[each.copy() for each in data])

    def main(proc: bsp.Process) -> None:
        with pytest.raises(expected.type):
            found = compute(ba, *[ba.asarray(each, grid=(3,) * each.ndim) for each in data])
            if isinstance(found, ba.Array):
                found.compute()

    bsp.run(main, nprocs=3)


def random(*shape: int) -> np.ndarray:
    """Normal numbers, always the same."""
    return np.random.default_rng(0).normal(size=shape)
