"""Counts of shifted pieces are those of dense tables, and ways whose words are not counted are never the cheapest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bsp
from bsp.algorithms.matmul import cost
from bsp.algorithms.matmul.counts import _gathering, _shifted, at_least, counted, overlaps
from bsp.algorithms.matmul.methods import METHODS, options
from bsp.algorithms.matmul.schedules import AT_ONCE, SHIFTED, SPREAD, TWO_PHASE, Schedule, cuts
from bsp.arrays import PlanTooLarge


def by_tables(s: Schedule) -> Iterator[dict[str, dict[str, Any]]]:
    """The moves of A and B in each round, from what every place has of every piece and reads in every round."""
    i, j, layer = np.ogrid[: s.rows, : s.columns, : s.layers]
    length = np.diff(cuts(s.k, s.layers * s.rounds)).reshape(s.layers, s.rounds)
    turns = {"A": i * s.rounds // s.rows, "B": j * s.rounds // s.columns}
    sides = {"A": np.diff(cuts(s.m, s.rows))[i], "B": np.diff(cuts(s.n, s.columns))[j]}
    members = {"A": s.columns, "B": s.rows}
    held = {}
    for name, parts in members.items():
        pieces, homes = cuts(s.k, s.layers * s.rounds), cuts(s.k, s.layers * parts)
        of = overlaps(pieces, homes).reshape(s.layers, s.rounds, s.layers, parts)
        held[name] = np.stack([of[at, :, at] for at in range(s.layers)])
    for t in range(s.rounds):
        piece, found = (turns["A"] + turns["B"] + t) % s.rounds, {}
        for name, other in ("AB", "BA"):
            of, member = held[name], j if name == "A" else i
            first, side = (turns[name] + t) % s.rounds, sides[name]
            read = sum(of[layer, (first + turn) % s.rounds, member] for turn in turns[other].ravel().tolist())
            met = sum(of[layer, (first + turn) % s.rounds, member] > 0 for turn in turns[other].ravel().tolist())
            own = of[layer, piece, member]
            found[name] = {
                "own": side * own, "full": side * length[layer, piece], "some": (of > 0).sum(2)[layer, piece],
                "sent": side * (read - own), "messages": (side > 0) * (met - (own > 0)),
                "copied": side * of.sum(1)[layer, member] * (name == "A" and s.columns % s.rounds != 0),
            }  # fmt: skip
        yield found


@st.composite
def schedules(draw: st.DrawFn, way: str = SHIFTED) -> Schedule:
    m, k, n = (draw(st.integers(1, 40)) for _ in range(3))
    rows, columns, layers = draw(st.integers(1, 7)), draw(st.integers(1, 7)), draw(st.integers(1, 3))
    rounds = draw(st.integers(2, 9)) if way in (SHIFTED, SPREAD) else 1
    return Schedule(m, k, n, rows, columns, layers if way in (SHIFTED, SPREAD) else 1, rounds, way)


@given(s=schedules())
def test_shifted_pieces_move_what_tables_of_all_places_say(s: Schedule) -> None:
    for moves, known in zip(_shifted(s), by_tables(s), strict=True):
        for name, (share, phases) in moves.items():
            sizes = known[name]
            along = 1 if name == "A" else 0  # of the axis that is k
            np.testing.assert_array_equal(share.own[0] * share.own[1], sizes["own"])
            np.testing.assert_array_equal(share.size, sizes["full"])
            np.testing.assert_array_equal(share.some[along], sizes["some"])
            assert len(phases) == len(_gathering(share))
            for phase in phases:
                np.testing.assert_array_equal(phase.received, sizes["full"] - sizes["own"])
                for what in ("sent", "messages", "copied"):
                    np.testing.assert_array_equal(getattr(phase, what), sizes[what])


@given(
    s=st.sampled_from([SHIFTED, SPREAD, AT_ONCE, TWO_PHASE]).flatmap(schedules), itemsize=st.sampled_from([4, 8, 16])
)
def test_no_schedule_takes_less_than_its_bound(s: Schedule, itemsize: int) -> None:
    found, bound = counted(s, itemsize, "blas", 2), at_least(s, itemsize, "blas")
    assert found.flops >= bound.W
    assert found.words >= bound.H


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (257, 17, 100), (1, 257, 17)])
def test_the_choice_is_that_among_all_ways(method: Any, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    for p, room in ((3, 1.3), (12, 2.0), (17, 3.0), (36, 1.6)):
        memory = room * 8 * (m * k + k * n + m * n) / p
        machine = bsp.Machine(p=p, memory=memory, g=20.0, L=1000.0)
        every = [counted(s, 8, "blas", name) for name, s, _ in options(shape, p, method, float(memory // 8), machine)]
        fitting = [each for each in every if each.memory * 8 <= memory]
        if not fitting:
            with pytest.raises(PlanTooLarge):
                cost(m, k, n, p, method, machine=machine)
            continue
        assert cost(m, k, n, p, method, machine=machine) == min(fitting, key=lambda each: each.price(machine))
