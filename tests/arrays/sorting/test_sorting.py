"""Sorted arrays are NumPy's to the bit, ties, zeros of both signs and NaNs included, in three supersteps."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.execution.world import world
from bsp.arrays.sorting.order_statistics import Unsorted, order_statistics
from bsp.arrays.sorting.packing import packed, packed_size, unpacked
from bsp.arrays.sorting.sorting import sorting_positions
from bsp.arrays.sorting.splitting import WHOLE, budget, find_cuts, sample_places, tell_samples

RNG = np.random.default_rng(5)
KINDS = ("normal", "constant", "few", "nan", "sorted", "zeros", "integers", "booleans", "complex", "float32")


def sample(kind: str, size: int) -> Any:
    x: Any = RNG.normal(size=size)
    if kind == "constant":
        x[:] = 3
    elif kind == "few":
        x = np.floor(x * 2)
    elif kind == "nan":
        x[RNG.random(size) < 0.3] = np.nan
        x[RNG.random(size) < 0.2] = -np.nan
    elif kind == "sorted":
        x.sort()
    elif kind == "zeros":
        x = np.where(RNG.random(size) < 0.8, 0 * RNG.choice([-1.0, 1.0], size), x)
    elif kind == "integers":
        x = RNG.integers(-1000, 1000, size)
    elif kind == "booleans":
        x = x > 1
    elif kind == "complex":
        x = np.floor(x * 1.3) + 1j * np.floor(RNG.normal(size=size) * 2)
        for value in (np.nan, complex(1, np.nan), complex(-0.0, 0.0), complex(0.0, -0.0)):
            x[RNG.random(size) < 0.1] = value
    elif kind == "float32":
        x = x.astype(np.float32)
    return x


def oracle(x: Any, descending: bool, axis: int = -1) -> tuple[Any, Any]:
    """By NumPy's stable argsort; descending: the last of equal elements first, backwards."""
    if descending:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), kind="stable", axis=axis), axis)
    else:
        order = np.argsort(x, kind="stable", axis=axis)
    return np.take_along_axis(x, order, axis), order


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", (0, 1, 2, 7, 300, 5000, 40_000))
def test_a_dealt_vector_is_sorted_stably_to_the_bit(kind: str, size: int) -> None:
    x = sample(kind, size)

    def main(proc: bsp.Process, grid: int) -> Any:
        array = ba.asarray(x, grid=grid)
        return [
            (ba.sort(array, descending=down).compute().tobytes(), ba.argsort(array, descending=down).compute())
            for down in (False, True)
        ]

    want = [oracle(x, down) for down in (False, True)]
    for nprocs, grid in ((1, 1), (2, 2), (3, 7), (11, 11)):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for (values, order), (good, right) in zip(results, want, strict=True):
                assert values == good.tobytes()
                assert order.dtype == np.int64 and np.array_equal(order, right)


def test_processes_without_a_piece_get_nothing() -> None:
    """Of two elements on 11 processes: most pieces are empty, also those that begin where another does."""

    def main(proc: bsp.Process, kind: str) -> Any:
        array = ba.asarray(np.array([2, 1]).astype(kind), grid=2)
        found = [ba.sort(array), ba.sort(array, descending=True), ba.argsort(array)]
        return [(each._node.layout.block_shape(at), block.shape) for each in found for at, block in
                each._node.value.items()]  # fmt: skip

    for kind in ("float", "complex"):
        for shapes in bsp.run(main, kind, nprocs=11):
            assert all(want == got for want, got in shapes)


def test_lines_of_any_axis_are_sorted() -> None:
    x = RNG.integers(-3, 3, (6, 7, 5)) * 1.0

    def main(proc: bsp.Process, grid: Any, axis: int, down: bool) -> Any:
        array = ba.asarray(x, grid=grid)
        return ba.sort(array, axis=axis, descending=down).compute(), np.argsort(array, axis=axis).compute()

    for nprocs, grid in ((1, None), (4, (2, 2, 1)), (4, (1, 3, 2))):
        for axis in (0, 1, -1):
            for down in (False, True):
                for values, order in bsp.run(main, grid, axis, down, nprocs=nprocs):
                    assert values.tobytes() == oracle(x, down, axis)[0].tobytes()
                    assert np.array_equal(order, oracle(x, False, axis)[1])


@pytest.mark.parametrize("kind", ("normal", "constant", "few", "nan"))
def test_a_sort_takes_three_supersteps_and_ends_in_even_pieces(kind: str) -> None:
    x = sample(kind, 50_001)

    def main(proc: bsp.Process) -> Any:
        array = ba.asarray(x)
        before = proc.superstep
        found = ba.sort(array)
        steps = proc.superstep - before
        return steps, found.layout is array.layout

    assert bsp.run(main, nprocs=4) == [(3, True)] * 4


def test_the_exchange_of_a_sort_moves_what_lies_elsewhere() -> None:
    n, p = 40_000, 4
    x = RNG.normal(size=n)

    def main(proc: bsp.Process) -> None:
        ba.sort(ba.asarray(x))

    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p)).per_superstep
    exchange = rows[2]
    owner = np.argsort(np.argsort(x)) * p // n
    moved = np.array(
        [[np.count_nonzero(owner[a * n // p : (a + 1) * n // p] == b) for b in range(p)] for a in range(p)]
    )
    np.fill_diagonal(moved, 0)
    assert (exchange["h_sent"], exchange["h_received"]) == (moved.sum(axis=1).max(), moved.sum(axis=0).max())


WORDS: dict[str, tuple[Any, float]] = {  # the most words that a process receives, in units of its share
    "sort": (ba.sort, 1.5),
    "argsort": (ba.argsort, 1.5),
    "partition": (lambda x: ba.partition(x, 10), 1.5),
    "unique": (ba.unique_values, 1.5),
    "unique_inverse": (ba.unique_inverse, 2.5),  # half a word for the first positions of floats, and for the inverse
    "unique_counts": (ba.unique_counts, 2.25),
    "isin": (lambda x: ba.isin(x, x + 0.5), 2 * 1.5),  # of two arrays
    "intersect1d": (lambda x: ba.intersect1d(x, x + 0.5), 3 * 1.5),
    "median": (ba.median, 0.5),
    "percentiles": (lambda x: ba.percentile(x, range(101)), 1.5),
}


def supersteps(call: Any, made: Any, nprocs: int, abstract: bool) -> list[tuple[str, int]]:
    """The label and the words of each superstep of a call on what `made(proc)` makes."""

    def main(proc: bsp.Process) -> None:
        x = made(proc)
        proc.sync(label="here")
        call(x)

    rows = list(bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs), abstract=abstract).per_superstep)
    first = next(k for k, row in enumerate(rows) if row["label"] == "here")
    return [(str(row["label"]), max(row["h_received"], row["h_sent"])) for row in rows[first + 1 :]]


def received(name: str, nprocs: int, size: int, abstract: bool) -> tuple[int, float]:
    """The supersteps of a call on random numbers, and their words in units of what a process has."""
    rows = supersteps(WORDS[name][0], lambda proc: ba.random.default_rng(3).random(size), nprocs, abstract)
    return len(rows), sum(words for _, words in rows) * nprocs / size


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(WORDS))
def test_no_process_receives_what_another_needs(name: str) -> None:
    steps, words = received(name, 64, 100 * 64**2, False)
    assert words <= WORDS[name][1]
    assert steps <= {"median": 6, "percentiles": 6, "isin": 9, "intersect1d": 24}.get(name, 8)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "nprocs"), [("sort", 64), ("sort", 512), ("argsort", 64), ("argsort", 512)])
def test_a_sort_is_predicted_to_be_no_gather(name: str, nprocs: int) -> None:
    collects = gc.isenabled()
    gc.disable()  # half the time is looking through millions of messages for cycles, of which there are none
    try:
        steps, words = received(name, nprocs, 100 * nprocs**2, True)
    finally:
        if collects:
            gc.enable()
    assert words <= 1.5
    assert steps <= (7 if name == "sort" else 9)


VALUES: dict[str, Any] = {  # on each process, of so many
    "random": lambda pid, size: np.random.default_rng(pid).random(size),
    "skewed": lambda pid, size: np.random.default_rng(pid).random(size) ** 9,
    "sorted": lambda pid, size: np.arange(size) + float(pid) * size,
    "the same": lambda pid, size: np.arange(size) + 0.5,
    "few but on one": lambda pid, size: np.arange(size) % (5.0 if pid else size),
    "few on half": lambda pid, size: np.random.default_rng(pid).random(size) if pid % 2 else np.arange(size) % 7.0,
    "constant": lambda pid, size: np.ones(size),
}


@pytest.mark.thorough
@pytest.mark.parametrize("nprocs", (8, 20))
@pytest.mark.parametrize("name", ("sort", "argsort", "unique", "unique_inverse", "unique_counts", "isin"))
def test_no_values_take_more_words_than_are_predicted(name: str, nprocs: int) -> None:
    size = max(100 * nprocs, 4000)
    bounds = supersteps(WORDS[name][0], lambda proc: ba.zeros(size * nprocs, grid=(nprocs,)), nprocs, True)
    for kind, values in VALUES.items():
        rows = supersteps(
            WORDS[name][0], lambda proc, values=values: ba.from_local(values(proc.pid, size) * 1.0), nprocs, False
        )  # fmt: skip
        assert sum(words for _, words in rows) <= sum(words for _, words in bounds), kind
        if kind in ("random", "skewed", "constant", "sorted", "few but on one", "few on half"):
            for label in {label for label, _ in bounds}:
                real, bound = (sum(words for each, words in found if each == label) for found in (rows, bounds))
                assert real <= bound, (kind, label)


@pytest.mark.parametrize("bound", (1, 2, 7, 64, 1000, 65_537))
def test_places_are_unpacked_as_they_were_packed(bound: int) -> None:
    for count in sorted({0, 1, bound // 64, bound // 3, bound - 1, bound} - {-1}):
        for places in (RNG.permutation(bound)[:count], np.arange(count), np.arange(bound - count, bound)):
            places = np.sort(places)
            message = packed(places, bound)
            assert message.dtype == np.uint8 and message.nbytes == packed_size(count, bound)
            assert np.array_equal(unpacked(message, count, bound), places)
            if count:
                assert 8 * message.nbytes <= count * (2 + np.log2(bound / count)) + 24


@pytest.mark.parametrize(("nprocs", "size", "most"), ((64, 300, 2), (64, 16_000, 3), (16, 1_000_000, 5), (512, 600, 2)))
def test_small_arrays_and_few_processes_take_fewer_supersteps(nprocs: int, size: int, most: int) -> None:
    steps, _ = received("sort", nprocs, size, False)
    assert steps <= most


@pytest.mark.parametrize(
    "kind", ("sorted", "constant", "few", "nan", "zeros", "integers", "complex", "backwards", "runs")
)
def test_the_words_of_a_sort_do_not_depend_on_values(kind: str) -> None:
    p, size = 24, 100 * 24**2
    x = np.sort(sample("normal", size))[::-1].copy() if kind == "backwards" else sample(kind, size)
    if kind == "runs":
        x = np.sort(x)[np.argsort(np.arange(size) * 3 * p // size % p, kind="stable")]

    def main(proc: bsp.Process) -> None:
        ba.sort(ba.asarray(x))

    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p)).per_superstep
    width = x.dtype.itemsize / 8
    most = 2.25 if kind == "few" else 2  # where few values are told apart, their counts are told as well
    assert sum(max(row["h_received"], row["h_sent"]) for row in rows) <= most * max(width, 0.5) * size / p
    assert len(rows) <= 6


@pytest.mark.parametrize("kind", ("normal", "constant", "few", "nan", "sorted", "zeros", "integers", "booleans"))
@pytest.mark.parametrize("size", (1, 300, 5000, 60_000))
def test_order_statistics_are_exact_and_counted_by_process(kind: str, size: int) -> None:
    x = sample(kind, size)
    ordered = np.sort(x)
    ranks = sorted({0, size - 1, size // 2, size // 4, min(size - 1, size // 4 + 1), 3 * size // 4})

    def main(proc: bsp.Process, cuts: Any) -> Any:
        before = proc.superstep
        found, extras = order_statistics(world(), Unsorted(x[cuts[proc.pid] : cuts[proc.pid + 1]]), ranks, [proc.pid])
        assert extras[:, 0].tolist() == list(range(proc.nprocs))
        return found, proc.superstep - before

    for inner in ([], [size // 2], [0, 0, size // 2, size // 2]):
        cuts = [0, *inner, size]
        for found, steps in bsp.run(main, cuts, nprocs=len(cuts) - 1):
            assert steps <= 2
            for rank in ranks:
                value, less, equal = found[rank]
                assert np.array_equal(value, ordered[rank], equal_nan=x.dtype.kind == "f")
                for k in range(len(cuts) - 1):
                    own = np.sort(x[cuts[k] : cuts[k + 1]])
                    low = np.searchsorted(own, value, "left")
                    assert (less[k], equal[k]) == (low, np.searchsorted(own, value, "right") - low)


def keys(x: Any, bounds: Any, backwards: bool) -> tuple[Any, Any]:
    """Of all elements in order: their processes and values; of equal ones those of lower processes first, or last."""
    owner = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    values = np.concatenate([np.sort(x[a:b]) for a, b in itertools.pairwise(bounds)])
    turn = -owner if backwards else owner
    order = np.argsort(turn, kind="stable")
    order = order[np.argsort(values[order], kind="stable")]
    return owner[order], values[order]


@pytest.mark.parametrize("kind", (*KINDS, "runs", "alike", "one process", "skewed"))
@pytest.mark.parametrize("backwards", (False, True))
@pytest.mark.parametrize("size", (7, 5000, 40_000))
def test_splitters_are_exact_and_cut_ties_by_process(kind: str, backwards: bool, size: int) -> None:
    p = 12
    even = np.arange(p + 1) * size // p
    x, bounds = sample(kind, size), even
    if kind == "runs":  # each process has two stretches of the order
        x = np.sort(x)[np.argsort(np.arange(size) * 2 * p // size % p, kind="stable")]
    elif kind == "alike":
        x = np.tile(np.arange(size // p + 1.0), p)[:size]
    elif kind == "one process":
        bounds = np.array([0] * 4 + [size] * (p - 3))
    elif kind == "skewed":
        bounds = np.sort(RNG.integers(0, size + 1, p + 1) ** 3 // max(size, 1) ** 2)
        bounds[0], bounds[-1] = 0, size
    ranks = sorted({*(even[1:-1]).tolist(), 0, size - 1, *(even[1:-1] + 1).tolist()})
    ranks = [rank for rank in ranks if rank < size]

    def main(proc: bsp.Process) -> Any:
        own = np.sort(x[bounds[proc.pid] : bounds[proc.pid + 1]])
        before = proc.superstep
        most = budget(size, p, p)
        samples = tell_samples(world(), "sample", own, most.spacing, [7 * proc.pid])
        watchers = [(k + 5) % p - 1 for k in range(len(ranks))]
        found = find_cuts(world(), own, samples, ranks, most, backwards=backwards, watchers=watchers)
        return found, samples.extras[:, 0].tolist(), proc.superstep - before, watchers

    owner, values = keys(x, bounds, backwards)
    want = np.array([np.bincount(owner[:rank], minlength=p) for rank in ranks])
    for pid, (found, extras, steps, watchers) in enumerate(bsp.run(main, nprocs=p)):
        assert extras == [7 * k for k in range(p)]
        assert np.array_equal(found.places, want[:, pid])
        assert np.array_equal(found.values, values[ranks], equal_nan=x.dtype.kind in "fc")
        assert set(found.watched) >= {k for k, watcher in enumerate(watchers) if watcher == pid}
        assert all(np.array_equal(found.watched[k], want[k]) for k in found.watched)
        assert steps == (1 if size <= WHOLE else 3)


@pytest.mark.parametrize("misses", ("above", "below"))
def test_a_bracket_that_misses_is_told_and_found_again(misses: str) -> None:
    """Vectors whose samples lie: all elements of all processes but the sampled ones are on one side."""
    p, size = 12, 60_000
    most = budget(size, p, p)
    places = np.arange(size // p)
    x = [np.full(size // p, -1.0 if misses == "below" else 1.0) for _ in range(p)]
    for pid in range(p):
        sampled = sample_places(size // p, most.spacing, pid)
        x[pid] = np.searchsorted(sampled, places, "left" if misses == "below" else "right") + 0.001 * pid

    def main(proc: bsp.Process) -> Any:
        own = x[proc.pid]
        before = proc.superstep
        samples = tell_samples(world(), "sample", own, most.spacing)
        return find_cuts(world(), own, samples, ranks, most), proc.superstep - before

    ranks = [size * k // p + 5 for k in range(p)]
    owner, values = keys(np.concatenate(x), np.arange(p + 1) * size // p, False)
    for pid, (found, steps) in enumerate(bsp.run(main, nprocs=p)):
        assert np.array_equal(found.places, [np.count_nonzero(owner[:rank] == pid) for rank in ranks])
        assert np.array_equal(found.values, values[ranks])
        assert steps > 3


@pytest.mark.parametrize("nprocs", (1, 2, 5))
def test_searchsorted_counts_what_is_less(nprocs: int) -> None:
    line, values = np.sort(RNG.integers(0, 500, 3001)), RNG.integers(-5, 505, (40, 50))

    def main(proc: bsp.Process) -> Any:
        lines = (line, ba.asarray(line, grid=nprocs), ba.asarray(line, grid=7))
        wanted = (values, ba.asarray(values, grid=(nprocs, 1)), ba.asarray(values[:3, :3], grid=(2, 2)))
        return [ba.searchsorted(a, b, side=side).compute() for a in lines for b in wanted for side in ("left", "right")]

    want = [np.searchsorted(line, b, side) for b in (values, values, values[:3, :3]) for side in ("left", "right")] * 3
    for results in bsp.run(main, nprocs=nprocs):
        for got, expected in zip(results, want, strict=True):
            assert got.shape == expected.shape and np.array_equal(got, expected)


def test_searchsorted_takes_a_sorter_and_digitize_falling_bins() -> None:
    x, edges = RNG.normal(size=2000), np.array([2.0, 1.0, 0.0])

    def main(proc: bsp.Process) -> Any:
        array = ba.asarray(x, grid=3)
        found = ba.searchsorted(array, array, sorter=ba.argsort(array))
        return found.compute(), np.digitize(array, edges, right=True).compute()

    for found, bins in bsp.run(main, nprocs=3):
        assert np.array_equal(found, np.searchsorted(x, x, sorter=np.argsort(x)))
        assert np.array_equal(bins, np.digitize(x, edges, right=True))


def test_an_abstract_sort_moves_every_word() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(100_000))
        ba.sort(x)

    rows = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
    assert rows[-1]["h_sent"] == 25_000


@pytest.mark.thorough
@pytest.mark.jobs
def test_processes_of_several_elements_sort_alike() -> None:
    x = np.random.default_rng(1).normal(size=30_000)
    for values, order in bsp.run(_sorted, nprocs=3, elements=2):
        assert np.array_equal(values, np.sort(x)) and np.array_equal(order, np.argsort(x, kind="stable"))


def _sorted(proc: bsp.Process) -> Any:
    array = ba.asarray(np.random.default_rng(1).normal(size=30_000))
    return ba.sort(array).compute(), ba.argsort(array).compute()


def test_complex_numbers_have_no_bins() -> None:
    with pytest.raises(TypeError, match="x may not be complex"):
        ba.digitize(ba.asarray([1j, 2.0]), [0.0, 1.0])


LONG: dict[str, Any] = {
    "different": lambda rng, shape: rng.standard_normal(shape),
    "some equal": lambda rng, shape: rng.integers(0, 1 << 14, shape).astype(np.float32),
    "many equal": lambda rng, shape: rng.integers(0, 3, shape),
    "some NaN": lambda rng, shape: np.where(rng.random(shape) < 0.01, np.nan, rng.random(shape)),
    "zeros of both signs": lambda rng, shape: np.where(rng.random(shape) < 0.1, -0.0, rng.integers(0, 1 << 14, shape)),
    "equal in later lines": lambda rng, shape: np.concatenate(
        [rng.random((1, *shape[1:])), np.ones((shape[0] - 1, *shape[1:]))]
    ),
    "narrow": lambda rng, shape: rng.integers(-9, 9, shape).astype(np.int16),
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("shape", [(20_000,), (600, 16), (3, 9000), (30, 17, 33), (40_000, 1)])
def test_positions_of_many_elements_are_those_of_a_stable_sort(shape: tuple[int, ...], kind: str) -> None:
    x = LONG[kind](np.random.default_rng(0), shape)
    for lines in (x, np.moveaxis(x, 0, -1)):
        np.testing.assert_array_equal(sorting_positions(lines, False, True), np.argsort(lines, axis=-1, kind="stable"))
        backwards = np.argsort(lines[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        np.testing.assert_array_equal(sorting_positions(lines, True, True), lines.shape[-1] - 1 - backwards)
