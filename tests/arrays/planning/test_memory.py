"""Memory of large blocks is used again, and never while anything still refers to it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.execution import memory

FLOAT = np.dtype(float)
LENGTH = memory.SMALLEST // 8


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    memory.release()


def test_memory_goes_back_with_the_last_view_and_is_lent_again() -> None:
    block = memory.empty((LENGTH,), FLOAT)
    place = block.ctypes.data
    views = [block[3:], block.reshape(2, -1).T, np.split(block, [7])[1], block.view(np.int64)]
    del block
    while views:
        assert memory._kept == 0
        other = memory.empty((LENGTH,), FLOAT)
        assert other.ctypes.data != place
        del other
        memory.release()
        views.pop()
    assert memory._kept == 8 * LENGTH
    assert memory.empty((LENGTH,), FLOAT).ctypes.data == place


def test_no_more_is_kept_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_BYTES", 8 * LENGTH)
    both = [memory.empty((LENGTH,), FLOAT) for _ in range(2)]
    both.clear()
    assert memory._kept == 8 * LENGTH


def test_large_results_stay_what_they_are_while_others_come_and_go() -> None:
    data = np.random.default_rng(0).normal(size=(3 * LENGTH,))

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(lambda i: np.cos(i * 1.0), (3 * LENGTH,))
        kept = [(x * k).persist() for k in range(4)]
        for k in range(6):
            (x + k).persist()
            ba.sort(x * k).persist()
            ba.rechunk(ba.reshape(x, (3, -1)), grid=(1, 2)).persist()
        for k, each in enumerate(kept):
            np.testing.assert_array_equal(each.compute(), np.cos(np.arange(3.0 * LENGTH)) * k)
        found = ba.sort(ba.asarray(data))
        np.testing.assert_array_equal(found.compute(), np.sort(data))

    bsp.run(main, nprocs=1)
    bsp.run(main, nprocs=2)


@pytest.mark.thorough
@pytest.mark.jobs
def test_what_is_received_where_it_belongs_is_all_there() -> None:
    side = 1024
    data = np.random.default_rng(0).normal(size=(side, side))

    def main(proc: bsp.Process) -> list[bool]:
        import bsp.arrays as ba

        x = ba.asarray(data, grid=(proc.nprocs, 1))
        line = ba.asarray(data.reshape(-1), grid=(proc.nprocs,))
        found = []
        for _ in range(3):
            columns = ba.rechunk(x, grid=(1, proc.nprocs)).persist()
            found.append(bool(np.array_equal(columns.compute(), data)))
            found.append(bool(np.allclose((x @ columns).compute(), data @ data)))
            found.append(bool(np.array_equal(ba.sort(line).compute(), np.sort(data, axis=None))))
        return found

    for elements in (2, 3):
        assert all(all(each) for each in bsp.run(main, nprocs=elements, elements=elements))
    assert all(all(each) for each in bsp.run(main, nprocs=5, elements=2))


def test_what_an_expression_was_made_of_goes_with_its_last_name() -> None:
    """Not when garbage is collected: blocks are large."""

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(lambda i, j: i - j, (300, 400)).persist()
        blocks = [weakref.ref(block) for block in x._node.value.values()]
        y = ba.sqrt(abs(x) + 1) @ ba.ones((400, 3)) + x.sum(axis=1, keepdims=True)
        z = ba.sort(x.reshape(-1)[x.reshape(-1) > 5])
        y.persist()
        del x
        assert [block() for block in blocks] == [None] * len(blocks)
        assert z.shape[0] > y.shape[0]

    gc.disable()
    try:
        bsp.run(main, nprocs=3)
    finally:
        gc.enable()
