"""The public room for array procedures: a procedure made of its names alone, as the room's documentation shows it."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays import fft
from bsp.arrays.procedures import (
    cast,
    computed,
    dealt,
    in_layout,
    in_line,
    known,
    layout_at,
    made_of,
    mine,
    node_of,
    procedure,
    slabs,
    told,
    traffic,
    world,
)


@procedure
def largest(x: ba.Array) -> float:
    """The greatest absolute value, with one superstep."""
    (node,) = computed(node_of(x))
    own = max((float(abs(block).max(initial=0.0)) for block in mine(node)), default=0.0)
    return float(max(world().private.allgather(own)))


@procedure
def running_sums(x: ba.Array) -> ba.Array:
    """Return numpy.cumsum of a vector, whose pieces are summed where they lie."""
    here = world()
    bounds, own = in_line(cast(node_of(x), np.dtype(float)))
    before = sum(each[0] for each in told(here, "sums of pieces", np.array([np.sum(own)]))[: here.pid])
    layout = slabs((int(bounds[-1]),), here.nprocs)
    pieces = {at: np.cumsum(own) + before for at in layout.mine(here.pid)}
    return made_of((int(bounds[-1]),), np.dtype(float), layout, pieces)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@pytest.mark.parametrize("shape, grid", [((5, 7), (2, 3)), ((90, 80), (4, 2)), ((0, 3), None), ((1,), None)])
def test_a_procedure_of_public_names_looks_at_values(nprocs: int, shape: Any, grid: Any) -> None:
    values = np.random.default_rng(0).normal(size=shape)

    def main(proc: bsp.Process) -> tuple[float, int]:
        x = ba.asarray(values, grid=grid)
        before = proc.superstep
        return largest(x * 2), proc.superstep - before

    results = bsp.run(main, nprocs=nprocs)
    assert {found for found, _ in results} == {2 * np.abs(values).max(initial=0.0)}
    assert {steps for _, steps in results} == {2}  # one of the plan, one of the procedure


@pytest.mark.parametrize("nprocs", [1, 3, 5])
def test_a_procedure_of_public_names_makes_arrays_and_has_a_forecast(nprocs: int) -> None:
    values = np.arange(100_003) % 17

    def main(proc: bsp.Process) -> Any:
        x = ba.asarray(values).persist()
        expected = ba.forecast(running_sums, x)
        before = proc.superstep
        found = running_sums(x)
        taken = proc.superstep - before
        return found.compute(), [step.h for step in expected.supersteps], taken

    for found, words, taken in bsp.run(main, nprocs=nprocs):
        np.testing.assert_array_equal(found, np.cumsum(values))
        assert len(words) == taken and nprocs - 1 in words  # one word to every other process


@pytest.mark.parametrize("nprocs", [2, 5])
def test_traffic_is_what_bringing_an_array_to_another_layout_moves(nprocs: int) -> None:
    shape = (60, 35)
    target = dealt(shape, (1, nprocs), (1, nprocs))

    def main(proc: bsp.Process) -> Any:
        (node,) = computed(node_of(ba.from_local(np.ones((60 // nprocs, 35)))))
        sent, received = traffic(layout_at(node), target, nprocs, 8)
        assert not traffic(target, target, nprocs, 8)[0].any()
        found = in_layout(node, target)
        assert known(found) is None and layout_at(found) is target
        (own,) = found.value.values()
        return sent[proc.pid], received[proc.pid], own.size, 60 // nprocs * own.shape[1]

    for sent, received, columns, stays in bsp.run(main, nprocs=nprocs):
        assert received == 8 * (columns - stays)
        assert sent == 8 * (60 // nprocs * 35 - stays)


def test_a_function_of_the_program_is_called_by_every_process_and_the_librarys_once_an_element() -> None:
    """The program's may change what it is given, draw numbers, or count its calls."""
    line = np.arange(40_000.0)

    def main(proc: bsp.Process) -> tuple[int, Any]:
        calls = []

        def largest(found: np.ndarray) -> Any:
            calls.append(1)
            return found.max()

        x = ba.asarray(line).persist()
        assert float(ba.apply_along_axis(largest, 0, x).compute()) == 39_999
        return len(calls), ba.fft.fft(x).compute()

    called = mock.Mock(wraps=np.fft.fft)
    with mock.patch.object(np.fft, "fft", called):
        fft._transform.cache_clear()
        found = bsp.run(main, nprocs=3)
    fft._transform.cache_clear()
    assert [calls for calls, _ in found] == [2, 2, 2]  # one for the first line, whose result sets the shape
    assert called.call_count == 2  # one for no lines, which sets the shape, and one for the three processes
    for _, transformed in found:
        np.testing.assert_array_equal(transformed, np.fft.fft(line))
