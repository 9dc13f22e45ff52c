"""What is found out about an index array once is not asked again, until the array is another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.procedures.remembered import MOST

N, M = 40_000, 30_000  # vertices, edges: where a process has half as many edges as there are vertices, all go to all
RNG = np.random.default_rng(11)
FROM, TO = RNG.integers(0, N, M), RNG.integers(0, N, M)

Steps = list[tuple[str, int]]


def traced(main: Callable[[bsp.Process], Any], nprocs: int) -> Steps:
    """The supersteps of a run: what each was for, and its words."""
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    return [(row["call"], max(row["h_sent"], row["h_received"])) for row in rows]


def cut(length: int, nprocs: int) -> np.ndarray:
    return np.arange(nprocs + 1) * length // nprocs


def crossing(positions: np.ndarray, length: int, held: Sequence[int]) -> np.ndarray:
    """[s, q]: how many of the held[s] positions of process s are of elements that process q has; 0 where s = q."""
    nprocs = len(held)
    holder = np.repeat(np.arange(nprocs), held)
    owner = np.searchsorted(cut(length, nprocs), positions, side="right") - 1
    found = np.zeros((nprocs, nprocs), int)
    np.add.at(found, (holder, owner), 1)
    np.fill_diagonal(found, 0)
    return found


@pytest.mark.parametrize("nprocs", [2, 3, 4])
def test_a_second_gather_by_the_same_positions_sends_elements_only(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        source, x = ba.asarray(FROM), ba.asarray(np.arange(float(N)))
        for _ in range(3):
            (block,) = x[source]._node.value.values()
            np.testing.assert_array_equal(block, FROM[slice(*bounds[proc.pid])])

    bounds = [*zip(cut(M, nprocs), cut(M, nprocs)[1:], strict=False)]
    goes = crossing(FROM, N, np.diff(cut(M, nprocs)))
    elements = max(goes.sum(axis=0).max(), goes.sum(axis=1).max())
    asked = goes + (goes > 0)  # a request begins with the number of the block
    requests = max(asked.sum(axis=0).max(), asked.sum(axis=1).max())
    assert traced(main, nprocs) == [
        ("requests for elements at positions", requests), *[("elements at positions", elements)] * 3
    ]  # fmt: skip


@pytest.mark.parametrize("nprocs", [2, 4])
def test_an_iteration_of_page_rank_asks_nothing_that_the_first_has_found_out(nprocs: int) -> None:
    def main(proc: bsp.Process) -> np.ndarray:
        source, target, rank = ba.asarray(FROM), ba.asarray(TO), ba.full(N, 1 / N)
        for _ in range(3):
            rank = 0.15 / N + 0.85 * np.bincount(target, rank[source], N)
        return np.array(rank.compute())

    steps = traced(main, nprocs)
    goes = crossing(FROM, N, np.diff(cut(M, nprocs)))
    elements = max(goes.sum(axis=0).max(), goes.sum(axis=1).max())
    parts = [TO[low:high] for low, high in zip(cut(M, nprocs), cut(M, nprocs)[1:], strict=False)]
    bins = crossing(np.concatenate([np.unique(part) for part in parts]), N, [len(np.unique(part)) for part in parts])
    counts = 2 * max(bins.sum(axis=0).max(), bins.sum(axis=1).max())  # the number of a bin, and what is in it
    calls = [call for call, _ in steps]
    assert calls[:4] == [
        "requests for elements at positions", "elements at positions", "extremes", "counts to their bins"
    ]  # fmt: skip
    assert [words for _, words in steps[4:7]] == [0, elements, counts]  # arithmetic, gather, count
    assert calls[5:7] == ["elements at positions", "counts to their bins"]
    assert len(steps) == 4 + 3 + 3 + 1
    want = np.full(N, 1 / N)
    for _ in range(3):
        want = 0.15 / N + 0.85 * np.bincount(TO, want[FROM], N)
    for found in bsp.run(main, nprocs=nprocs):
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-12 / N)


def test_positions_that_everybody_has_the_elements_of_are_agreed_on_once() -> None:
    def main(proc: bsp.Process) -> list[int]:
        small, where = ba.arange(100.0), ba.asarray(FROM % 100)
        marks = [proc.superstep]
        for _ in range(3):
            small[where]
            marks.append(proc.superstep)
        with pytest.raises(IndexError, match="index 99 is out of bounds for axis 0 with size 99"):
            small[:99].persist()[where]  # in range of 100 elements is not in range of 99
        return np.diff(marks).tolist()

    assert bsp.run(main, nprocs=3) == [[1, 0, 0]] * 3


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5])
def test_a_write_to_the_positions_or_through_a_view_of_them_is_seen_by_all(nprocs: int) -> None:
    def changes(where: Any, part: Any) -> list[Callable[[], Any]]:
        return [
            lambda: None,
            lambda: where.__setitem__(7, 3),
            lambda: part.__setitem__(slice(None), 11),
            lambda: where.__iadd__(1),
            lambda: where.__setitem__(slice(0, 4), where[4:8]),
            lambda: where.__setitem__(where > 9_000, 0),
            lambda: where.sort(),
        ]

    def main(proc: bsp.Process) -> tuple[list[Any], list[int]]:
        x, where = ba.asarray(np.arange(float(N))), ba.asarray(np.arange(25_000)[::-1] * 1)
        part, found, steps = where[100:20_000:3], [], []
        for change in changes(where, part):
            change()
            part.persist(), where.persist()
            before = proc.superstep
            x[where]
            steps.append(proc.superstep - before)
            found.append(float((x[where] * np.arange(25_000)).sum()))
            found.append(float((x[part] * np.arange(6_634)).sum()))
        return found, steps

    x, where = np.arange(float(N)), np.arange(25_000)[::-1] * 1
    part, want = where[100:20_000:3], []
    for change in changes(where, part):
        change()
        want += [(x[where] * np.arange(25_000)).sum(), (x[part] * np.arange(6_634)).sum()]
    for found, steps in bsp.run(main, nprocs=nprocs):
        assert found == want  # integers: exact
        assert len(set(steps)) == 1  # each time as if for the first time
        assert steps[0] == (2 if nprocs > 1 else 0)


@pytest.mark.parametrize("nprocs", [2, 3])
def test_routes_are_of_one_layout_one_place_and_all_the_positions(nprocs: int) -> None:
    shape = (300, 200)
    matrix = np.arange(60_000.0).reshape(shape)
    i, j, k = RNG.integers(-200, 200, 8_000), RNG.integers(-200, 200, 8_000), RNG.integers(-200, 200, 8_000)

    def looked_up(a: Any, b: Any, i: Any, j: Any, k: Any) -> list[Any]:
        return [
            a[i, j],
            a[i, k],
            b[i, j],
            a[i],
            a[:, i],
            a[i, j],
            a[i[:4_000], j[:4_000]],
            (a * 2)[i, j],
            a[:, i, None],
        ]

    def main(proc: bsp.Process) -> list[Any]:
        a, b = ba.asarray(matrix, grid=(nprocs, 1)), ba.asarray(matrix.astype(int), grid=(1, 2 * nprocs))
        dealt = [ba.asarray(each, grid=(nprocs,)) for each in (i, j, k)]
        return [[np.array(each.compute()) for each in looked_up(a, b, *dealt)] for _ in range(2)]

    want = looked_up(matrix, matrix.astype(int), i, j, k)
    for twice in bsp.run(main, nprocs=nprocs):
        for found in twice:
            for one, other in zip(found, want, strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype


def test_the_newest_findings_are_kept_and_pickles_have_none() -> None:
    def main(proc: bsp.Process) -> tuple[int, bool]:
        import pickle

        where = ba.asarray(FROM)
        plain = pickle.dumps(where)
        for extra in range(MOST + 2):
            ba.zeros(N + extra)[where]
        return len(where._node.findings), pickle.dumps(where) == plain

    assert bsp.run(main, nprocs=2) == [(MOST, True)] * 2


def test_a_run_without_values_takes_the_same_supersteps() -> None:
    def main(proc: bsp.Process) -> None:
        where, x = ba.asarray(FROM), ba.zeros(N)
        for _ in range(3):
            ba.bincount(where, x[where], N)

    steps = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
    assert [row["call"] for row in steps] == [call for call, _ in traced(main, 4)]
    whole = [max(row["h_sent"], row["h_received"]) for row in steps]
    assert all(words <= most for most, (_, words) in zip(whole, traced(main, 4), strict=True))


@pytest.mark.thorough
def test_a_process_made_again_at_the_head_of_a_round_takes_the_supersteps_of_the_others() -> None:
    """What a newcomer under clones receives is the State: it has not found out what earlier rounds have."""

    def main(proc: bsp.Process) -> float:
        source, x = ba.asarray(FROM), ba.asarray(np.arange(float(N)))
        x[source]
        state = bsp.State(total=0.0, source=source)
        for _ in proc.rounds(3, state):
            for _ in range(2):
                state.total += float(x[source][5]) + float(x[state.source][6])
        return state.total + float(x[state.source][7])

    want = 6.0 * (FROM[5] + FROM[6]) + FROM[7]
    assert bsp.run(main, nprocs=3, check=True) == bsp.run(main, nprocs=3) == [want] * 3


@pytest.mark.parametrize("nprocs", [2, 3])
def test_the_price_of_a_gather_has_beside_it_that_of_another_one_by_the_same_positions(nprocs: int) -> None:
    def main(proc: bsp.Process) -> tuple[str, str]:
        source, x = ba.asarray(FROM), ba.asarray(np.arange(float(N)))
        return str(x[source].explain()), str(ba.sort(x).explain())

    gather, sort = bsp.run(main, nprocs=nprocs)[0]
    first, again = gather.split("again, of the same arrays")
    assert "requests for elements at positions" in first and "2 supersteps" in first
    assert "requests" not in again and "elements at positions" in again and "1 superstep," in again
    assert "again" not in sort
