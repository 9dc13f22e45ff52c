"""Many small blocks cost what one block costs, and look as the program asked for them."""

from __future__ import annotations

import pickle
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpys_answers import random

import bsp
import bsp.arrays as ba
from bsp.arrays.array import wrap
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.expressions.layout import asked
from bsp.arrays.expressions.merging import CutBlocks, merged_blocks


def tasks(array: ba.Array, pid: int) -> list[int]:
    """Return the number of tasks of a process in each stage."""
    return [len(stage.tasks.mine(pid)) for stage in array.plan().stages]


def test_a_process_runs_one_task_for_all_blocks_that_lie_side_by_side() -> None:
    data = random(64, 48)

    def main(proc: bsp.Process) -> list[list[int]]:
        a, b = ba.asarray(data, grid=(16, 16)), ba.ones((64, 48), grid=(16, 16))
        v = ba.asarray(data[0], grid=(16,))
        dealt_in_turn = 16 // proc.nprocs
        expressions = [a + b, a * v, a.T @ b, a.sum(axis=0), a[1:, ::2] - 1]
        found = [tasks(each, proc.pid) for each in expressions]
        for each in (*expressions, a.std(axis=1), ba.cumsum(a, axis=0)):
            assert max(tasks(each, proc.pid)) <= dealt_in_turn
        return found

    assert bsp.run(main, nprocs=1) == [[[1]] * 5]
    bsp.run(main, nprocs=2)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_grid_is_shown_as_it_was_asked_for(p: int) -> None:
    data = random(30, 20)

    def main(proc: bsp.Process) -> None:
        a = ba.asarray(data, grid=(6, 5))
        for each in (a, a + 1, (a * a[:1]).persist(), ba.rechunk(a[1:], grid=(6, 5)), ba.zeros((8, 9), grid=(6, 5))):
            assert each.grid == (6, 5)
        assert (a.T + 1).persist().grid == (5, 6)
        for made in (a, (a + 1).persist(), ba.random.default_rng(1).random((30, 20), grid=(6, 5))):
            blocks, layout = made._node.value, made.layout
            values = made.compute()
            assert sorted(blocks) == sorted(layout.mine(proc.pid))
            for at, block in blocks.items():
                np.testing.assert_array_equal(block, values[tuple(slice(*span) for span in layout.box(at))])

    bsp.run(main, nprocs=p)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 13), min_size=1, max_size=3), st.data())
def test_blocks_made_apart_are_brought_together_once(shape: list[int], data: Any) -> None:
    grid = tuple(data.draw(st.integers(1, 5)) for _ in shape)
    p = data.draw(st.sampled_from([1, 2, 3]))
    values = np.arange(prod(shape)).reshape(shape)

    def main(proc: bsp.Process) -> None:
        layout = asked(values.shape, p, grid, None)
        blocks = {
            at: values[tuple(slice(*span) for span in layout.box(at))].copy() for at in layout.mine(proc.pid)
        }  # fmt: skip
        node = leaf(values.shape, values.dtype, layout, blocks)
        np.testing.assert_array_equal((wrap(node) * 2).compute(), values * 2)
        if layout.merged is not layout:
            assert isinstance(node.value, CutBlocks)
        assert node.value.keys() == blocks.keys()
        for at, block in blocks.items():
            np.testing.assert_array_equal(node.value[at], block)
        again = merged_blocks(node, np.empty)
        assert all(again[at] is block for at, block in merged_blocks(node, np.empty).items())

    bsp.run(main, nprocs=p)


def test_blocks_are_pickled_once() -> None:
    x = ba.asarray(random(400, 300), grid=(20, 20))
    packed = pickle.dumps(x._node)
    assert len(packed) < 1.01 * x.nbytes
    np.testing.assert_array_equal(wrap(pickle.loads(packed)).compute(), x.compute())


def test_the_sum_of_many_blocks_is_that_of_one() -> None:
    data = random(700, 90)
    for how in (ba.sum, ba.std, ba.mean):
        whole = how(ba.asarray(data), axis=0).compute()
        assert how(ba.asarray(data, grid=(35, 9)), axis=0).compute().tobytes() == whole.tobytes()


@pytest.mark.parametrize("p", [1, 2])
def test_assignments_are_written_into_merged_blocks(p: int) -> None:
    data = random(60, 40)

    def main(proc: bsp.Process) -> None:
        x, expected = ba.asarray(data, grid=(12, 8)), data.copy()
        memory = {at: block.ctypes.data for at, block in x._node.value.merged.items()}
        for k in range(20):
            x[k, 3 * k % 40] = k
            x[k:, 5] = expected[k:, 5] = 2.5 * k
            expected[k, 3 * k % 40] = k
            expected[k:, 5] = 2.5 * k
        assert {at: block.ctypes.data for at, block in x._node.value.merged.items()} == memory
        assert x.grid == (12, 8)
        np.testing.assert_array_equal(x.compute(), expected)
        x[x > 0.5] = -1.0
        expected[expected > 0.5] = -1.0
        x[np.array([1, 2, 50])] = 9.0
        expected[np.array([1, 2, 50])] = 9.0
        np.testing.assert_array_equal((x + 0).compute(), expected)

    bsp.run(main, nprocs=p)
