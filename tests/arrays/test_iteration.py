"""Iteration is NumPy's, in few supersteps: read ahead in pieces, right when the array is changed, rows written to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpys_answers import WAYS, as_numpys, dealt, dealt_always

import bsp
import bsp.arrays as ba
from bsp.arrays import iteration
from bsp.errors import SyncMismatch

RNG = np.random.default_rng(0)
VECTOR, MATRIX, CUBE = RNG.normal(size=50), RNG.normal(size=(9, 4)), RNG.normal(size=(5, 2, 3))


@pytest.fixture(params=[1, 200, 1 << 20], ids=["elements", "pieces", "whole"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many bytes are read ahead."""
    monkeypatch.setattr(iteration, "PIECE_BYTES", request.param)
    return int(request.param)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_elements_and_rows_are_numpys(nprocs: int, pieces: int) -> None:
    as_numpys(
        {
            "list": lambda v, m, c: list(v),
            "types": lambda v, m, c: [type(each).__name__ for each in v],
            "builtins": lambda v, m, c: (max(v), min(v), sum(v), sorted(v)[:5], list(reversed(v))[:3]),
            "together": lambda v, m, c: [a * b for a, b in zip(v, v[::-1], strict=True)],
            "lazy": lambda v, m, c: list(v * 2 + 1),
            "a view": lambda v, m, c: list(v[40:3:-7]),
            "rows": lambda v, m, c: list(m),
            "lazy rows": lambda v, m, c: list(m.T + 1),
            "reversed rows": lambda v, m, c: list(reversed(m)),
            "planes": lambda v, m, c: list(c),
            "rows of planes": lambda v, m, c: [row + 1 for plane in c for row in plane],
            "no elements": lambda v, m, c: (list(v[:0]), list(m[:0]), list(m[:, :0])),
            "unpacked": lambda v, m, c: [*m[:3], *v[:2]],
            "contained": lambda v, m, c: float(v[3]) in list(v),
        },
        [VECTOR, MATRIX, CUBE], nprocs=nprocs, tolerance=16,
    )  # fmt: skip
    with dealt_always():
        (found, *_) = bsp.run(lambda proc: [type(each).__name__ for each in ba.arange(3.0)], nprocs=nprocs)
        assert found == ["float64"] * 3


def test_an_array_of_no_axes_is_refused_when_the_loop_begins() -> None:
    for call in (iter, reversed):
        with pytest.raises(TypeError, match="0-d"):
            call(ba.asarray(1.0))


def _running_sum(x: Any) -> list[float]:
    seen = []
    for k, each in enumerate(x):
        seen.append(float(each))
        if k + 1 < len(x):
            x[k + 1] += each
    return seen


def _ahead(x: Any) -> list[float]:
    """Changed once in a while, far ahead and behind."""
    seen = []
    for k, each in enumerate(x):
        seen.append(float(each))
        if k % 13 == 5:
            x[:] = x[::-1].copy() * 2
    return seen


def _through_a_view(x: Any) -> list[float]:
    view, seen = x[10:20], []
    for each in x:
        seen.append(float(each))
        if len(seen) == 4:
            view *= 3
    return seen


def _of_a_view(x: Any) -> list[float]:
    seen = []
    for each in x[5:40:3]:
        seen.append(float(each))
        x += 1
    return seen


@pytest.mark.thorough
@pytest.mark.parametrize("change", [_running_sum, _ahead, _through_a_view, _of_a_view])
def test_changes_during_the_iteration_are_seen(change: Callable[[Any], Any], pieces: int) -> None:
    for nprocs in (1, 3):
        as_numpys({change.__name__: lambda v: (change(v), v)}, [VECTOR], nprocs=nprocs, tolerance=256)


def _doubled(m: Any) -> Any:
    for row in m:
        row *= 2
    return m


def _some_elements(m: Any) -> Any:
    for k, row in enumerate(m):
        row[k % 4] = -1 if k % 2 else row.sum().item()
        if k == 3:
            m[5] = 7
    return m


def _rows_kept(m: Any) -> Any:
    rows = list(m)
    rows[2][:] = 5
    m[4, 1] = 9
    rows[4] += 1
    return m, rows


def _read_and_written(m: Any) -> Any:
    seen = []
    rows = list(m)
    for k, row in enumerate(rows):
        seen.append(row.tolist())
        rows[(k * 5 + 3) % 9] += 1
        row *= 2
        seen.append(row.tolist())
    return m, seen


def _both_ways(m: Any) -> Any:
    for above, row in itertools.pairwise(m):
        row += above
    return m


@pytest.mark.parametrize("write", [_doubled, _some_elements, _rows_kept, _both_ways, _read_and_written])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_rows_are_views_that_are_written_to(write: Callable[[Any], Any], nprocs: int, pieces: int) -> None:
    as_numpys({write.__name__: write}, [MATRIX], nprocs=nprocs, tolerance=64)


def _supersteps(proc: bsp.Process, loop: Callable[[], Any]) -> int:
    before = proc.superstep
    loop()
    return proc.superstep - before


@pytest.mark.thorough
def test_supersteps_are_few() -> None:
    """A gather (one superstep or two) a piece, and one to compute a lazy array; none where all have the values."""

    def main(proc: bsp.Process) -> list[int]:
        long, small = ba.arange(300_000.0), ba.arange(50.0).persist()
        rows, wide = ba.ones((40_000, 5)), ba.ones((4, 20_000))
        return [
            _supersteps(proc, loop)
            for loop in (
                lambda: max(long), lambda: sorted(long + 1), lambda: list(small), lambda: list(rows),
                lambda: list(wide), lambda: [float(row.compute()[0]) for row in rows],
                lambda: [float(row.compute()[0]) for row in wide],
            )
        ]  # fmt: skip

    gathers, computed = [3, 3, 0, 0, 0, 2, 4], [0, 1, 0, 0, 0, 0, 0]
    for nprocs in (2, 3):
        results = bsp.run(main, nprocs=nprocs)
        assert all(found == results[0] for found in results)
        for found, pieces, once in zip(results[0], gathers, computed, strict=True):
            assert pieces + once <= found <= 2 * pieces + once


def test_rows_read_ahead_cost_no_superstep_when_they_are_iterated_over() -> None:
    def main(proc: bsp.Process) -> list[int]:
        rows = ba.asarray(MATRIX, grid=(3, 2))
        kept = list(rows)
        return [
            _supersteps(proc, lambda: [float(each) for row in rows for each in row]),
            _supersteps(proc, lambda: [kept[k].tolist() for k in (7, 2, 8, 0)]),
            _supersteps(proc, lambda: [repr(row) for row in kept]),
        ]

    with dealt_always():
        for found in bsp.run(main, nprocs=3):
            assert found[0] in (1, 2) and found[1] in (1, 2) and not found[2]


def test_a_loop_that_writes_each_row_ends_no_superstep() -> None:
    def main(proc: bsp.Process) -> int:
        rows = ba.ones((3000, 60)) + 0
        return _supersteps(proc, lambda: _doubled(rows[:50]))

    found = bsp.run(main, nprocs=3)
    assert found == [0, 0, 0]


def test_processes_that_leave_a_loop_in_different_pieces_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iteration, "PIECE_BYTES", 80)

    def main(proc: bsp.Process) -> None:
        for k, _ in enumerate(ba.arange(60_000.0)):
            if k == 5 + 20 * proc.pid:
                break

    with pytest.raises(SyncMismatch):
        bsp.run(main, nprocs=2)


def test_leaving_a_loop_after_the_same_element_is_no_mistake() -> None:
    def main(proc: bsp.Process) -> float:
        first: Iterator[Any] = iter(ba.arange(60_000.0))
        for each in first:
            if each > 3:
                break
        return float(next(first)) + float(ba.arange(10.0).sum())

    assert bsp.run(main, nprocs=3) == [50.0] * 3


@pytest.mark.parametrize("way", WAYS)
def test_repeated_iteration_gives_the_same(way: str) -> None:
    def main(proc: bsp.Process) -> bool:
        x = dealt(proc, VECTOR, way)
        return list(x) == list(x) == VECTOR.tolist()

    with dealt_always():
        assert all(bsp.run(main, nprocs=4))
