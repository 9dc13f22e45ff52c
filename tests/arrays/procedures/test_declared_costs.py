"""Array procedures declare what they send: a run without values takes the supersteps of the run, and its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.sorting import grouping
from bsp.errors import ValueNeeded

N = 6000
MANY = 400_000  # so many that each process has its share


def vector(n: int = N) -> Any:
    return ba.from_function(lambda i: np.sin(i * 7.7), (n,)).persist()


def integers(n: int = N) -> Any:
    return ba.from_function(lambda i: (i * 7919 + i // 7) % 1000, (n,), dtype=int).persist()


def matrix(rows: int = 120, columns: int = 50) -> Any:
    return ba.from_function(lambda i, j: np.sin(i * 7.7 + j * 3.1), (rows, columns)).persist()


def generator() -> Any:
    return ba.random.default_rng(3)


def chances(n: int = N) -> Any:
    positive = abs(vector(n)) + 0.1
    return (positive / positive.sum()).persist()


def filled(call: Callable[[Any], Any], array: Callable[[], Any] = vector) -> Any:
    x = array()
    call(x)
    return x


EXACT: dict[str, Callable[[], Any]] = {  # words follow from shapes
    "lines sorted": lambda: ba.sort(matrix(), axis=0),
    "few sorted": lambda: ba.sort(vector(50)),
    "median of few": lambda: ba.median(vector(50)),
    "medians of lines": lambda: ba.median(matrix(), axis=0),
    "largest": lambda: ba.topk(vector(), 10),
    "largest of lines": lambda: ba.topk(matrix(), 3, axis=1),
    "few looked up": lambda: ba.searchsorted(ba.from_function(lambda i: i * 1.0, (N,)), vector(40)),
    "looked up in few": lambda: ba.searchsorted(ba.from_function(lambda i: i * 1.0, (40,)), vector()),
    "digitized": lambda: ba.digitize(vector(), ba.arange(10.0)),
    "members of few": lambda: ba.isin(vector(), vector(10)),
    "few members": lambda: ba.isin(vector(10), vector(4000)),
    "interpolated": lambda: ba.interp(vector(), ba.arange(50.0), vector(50)),
    "histogram": lambda: ba.histogram(vector(), 20),
    "histogram of a range": lambda: ba.histogram(vector(), 5000, (0, 1)),
    "density": lambda: ba.histogram(vector(), 20, density=True),
    "edges": lambda: ba.histogram_bin_edges(vector(), 20),
    "as many bins as the root": lambda: ba.histogram(vector(), "sqrt"),
    "edges by a rule": lambda: ba.histogram_bin_edges(vector(), "sturges"),
    "numbers of lines": lambda: ba.apply_along_axis(lambda line: line.max() - line.min(), 0, matrix()),
    "bits of what ends within bytes": lambda: ba.packbits(vector(MANY + 4) > 0),
    "bits of rows": lambda: ba.unpackbits((matrix() * 9).astype(np.uint8), axis=0),
    "lines of lines": lambda: ba.apply_along_axis(np.sort, 0, matrix()),
    "matrices of lines": lambda: ba.apply_along_axis(lambda line: np.outer(line[:3], line[:2]), 1, matrix()),
    "histogram in a plane": lambda: ba.histogram2d(vector(), vector(), 10),
    "bins of few": lambda: ba.bincount(integers(40) * 0, minlength=5),
    "extremes of what all have": lambda: grouping.by_group(
        "sum", vector(50), [integers(50)], [(0,), (0,)], (50,), [range(1000)], []
    ),
    "at known positions": lambda: vector()[[1, 2, 3, 5000]],
    "row at a position": lambda: matrix()[integers(50)[3] % 100],
    "own positions of lines": lambda: ba.take_along_axis(matrix(), ba.argsort(matrix(), axis=1), 1),
    "put along lines": lambda: filled(
        lambda x: ba.put_along_axis(x, ba.argsort(matrix(), axis=0), matrix(), 0), matrix
    ),
    "put at few": lambda: filled(lambda x: ba.put(x, integers(300), 3.0)),
    "number at positions": lambda: filled(lambda x: x.__setitem__(np.array([1, 5, 7]), 3.0)),
    "rows at positions": lambda: filled(lambda x: x.__setitem__([1, 2, 3], matrix()[:3]), matrix),
    "number at a position": lambda: filled(lambda x: x.__setitem__(7, 3.0)),
    "numbers in a slice": lambda: filled(lambda x: x.__setitem__((slice(1, 9, 2), 3), np.arange(4.0)), matrix),
    "number under a computed mask": lambda: filled(lambda x: x.__setitem__((vector() > 0).persist(), 3.0)),
    "number under a mask": lambda: filled(lambda x: x.__setitem__(x > 0, 3.0)),
    "masked by what holds": lambda: vector()[vector() < 2],
    "nonzero": lambda: ba.nonzero(matrix() + 2),
    "argwhere": lambda: ba.argwhere(matrix() + 2),
    "compressed": lambda: ba.compress(vector(120) < 2, matrix(), axis=0),
    "placed": lambda: filled(lambda x: ba.place(x, x < 2, np.arange(3.0))),
    "convolved": lambda: ba.convolve(vector(), vector(100)),
    "segments": lambda: np.add.reduceat(vector(), [0, 10, 3000]),
    "segments of columns": lambda: np.maximum.reduceat(matrix(), [0, 10, 100]),
    "changed at few": lambda: filled(lambda x: np.add.at(x, np.array([1, 2, 3]), 1.0)),
    "unraveled": lambda: ba.unravel_index(integers(), (1000, 1000)),
    "raveled": lambda: ba.ravel_multi_index((integers(), integers()), (1000, 1000)),
    "rows one by one": lambda: [row.compute() for row in matrix(20, 30)] and None,
    "normal": lambda: generator().normal(size=(300, 20)),
    "normal about an array": lambda: generator().normal(vector(), 1.0),
    "one number": lambda: generator().normal(dtype=np.float32),
    "vectors": lambda: generator().dirichlet([1.0, 2, 3], 500),
    "choice": lambda: generator().choice(4, N, p=[0.1, 0.2, 0.3, 0.4]),
    "choice without replacement": lambda: generator().choice(N, 300, replace=False),
    "choice of few without replacement": lambda: generator().choice(4, 2, replace=False, p=[0.1, 0.2, 0.3, 0.4]),
    "permutation": lambda: generator().permutation(N),
    "lines permuted": lambda: generator().permuted(matrix(), axis=1),
    "complete QR": lambda: ba.linalg.qr(matrix(), mode="complete"),
    "complete SVD": lambda: ba.linalg.svd(matrix()),
    "complete QR of all": lambda: ba.linalg.qr(ba.asarray(np.eye(9, 4)), mode="complete"),
}
BOUNDED: dict[str, Callable[[], Any]] = {  # words follow from values: no fewer, and the same supersteps
    "sorted": lambda: ba.sort(vector()),
    "sorting positions": lambda: ba.argsort(vector()),
    "complex sorted": lambda: ba.sort(vector() + 1j * vector()),
    "distinct": lambda: ba.unique_all(vector()),
    "median": lambda: ba.median(vector()),
    "percentiles": lambda: ba.percentile(vector(), range(101)),
    "dealt quantiles": lambda: ba.quantile(vector(), abs(vector())),
    "many members": lambda: ba.isin(vector(), vector() + 0.5),
    "looked up": lambda: ba.searchsorted(ba.from_function(lambda i: i * 1.0, (N,)), vector()),
    "histogram between dealt edges": lambda: ba.histogram(vector(), ba.from_function(lambda i: i * 1.0, (N,))),
    "groups": lambda: grouping.by_group("var", vector(), [integers()], [(0,), (0,)], (N,), [range(1000)], []),
    "mask": lambda: vector()[vector() > 0],
    "at dealt positions": lambda: vector()[integers()],
    "at few positions": lambda: vector()[integers(50)],
    "rows at dealt positions": lambda: matrix()[integers(3000) % 120],
    "put at dealt positions": lambda: filled(lambda x: x.__setitem__(integers(), vector())),
    "changed at dealt positions": lambda: filled(lambda x: np.add.at(x, integers(), 1.0)),
    "choice by dealt chances": lambda: generator().choice(N, 3000, p=chances()),
    "one by dealt chances": lambda: generator().choice(N, p=chances()),
    "without replacement by dealt chances": lambda: generator().choice(N, 300, replace=False, p=chances()),
    "shuffled columns": lambda: filled(lambda x: generator().shuffle(x, axis=1), matrix),
    "array permuted": lambda: generator().permutation(vector()),
}  # fmt: skip


def supersteps(call: Callable[[], Any], p: int, abstract: bool) -> list[tuple[str | None, int]]:
    """Return the name and the words of each superstep of a call, and of what it leaves to compute."""

    def main(proc: bsp.Process) -> None:
        found = call()
        arrays = found if isinstance(found, (tuple, list)) else [found]
        if kept := [each for each in arrays if isinstance(each, ba.Array)]:
            ba.persist(*kept)

    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), abstract=abstract).per_superstep
    return [(row["label"], max(row["h_sent"], row["h_received"])) for row in rows]


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("name", list(EXACT))
def test_a_run_without_values_sends_what_the_run_sends(name: str, p: int) -> None:
    assert [h for _, h in supersteps(EXACT[name], p, True)] == [h for _, h in supersteps(EXACT[name], p, False)]


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("name", list(BOUNDED))
def test_a_run_without_values_takes_the_supersteps_of_the_run_and_no_fewer_words(name: str, p: int) -> None:
    declared, ran = (supersteps(BOUNDED[name], p, abstract) for abstract in (True, False))
    assert len(declared) == len(ran)
    assert sum(h for _, h in declared) >= sum(h for _, h in ran)


@pytest.mark.parametrize("p", [2, 7])
def test_an_array_that_is_repeated_a_few_times_is_concatenated(p: int) -> None:
    """Each element travels at most once, and no positions do."""
    declared, ran = (supersteps(lambda: ba.resize(vector(MANY // 4), 3 * MANY // 4), p, each) for each in (True, False))
    assert [h for _, h in declared] == [h for _, h in ran]
    assert sum(h for _, h in ran) <= 3 * (MANY // 4 // p + 1)


@pytest.mark.parametrize("bins, of", [("auto", vector), ("fd", vector), ("sqrt", integers)])
def test_a_number_of_bins_that_follows_from_values_is_not_predicted(bins: str, of: Callable[[], Any]) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(
            ValueNeeded, match=rf"histogram\(bins='{bins}'\): how many bins .* their number or their edges"
        ):
            ba.histogram(of(), bins)
        seen.append(proc.pid)

    seen: list[int] = []
    bsp.predict(main, nprocs=2, machine=bsp.Machine(p=2), abstract=True)
    assert seen == [0, 1]


@pytest.mark.parametrize("p", [2, 13])
@pytest.mark.parametrize("call", [
    lambda: generator().permutation(vector(20_000)),
    lambda: filled(lambda x: generator().shuffle(x, axis=1), lambda: matrix(400, 59)),
])  # fmt: skip
def test_a_permutation_is_an_upper_bound_in_messages_too_and_marked_as_one(call: Callable[[], Any], p: int) -> None:
    def main(proc: bsp.Process) -> None:
        call().persist()

    declared, ran = (bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), abstract=each) for each in (True, False))
    assert declared.supersteps == ran.supersteps
    assert declared.words >= ran.words
    assert declared.messages >= ran.messages
    assert any("upper bounds" in note for note in declared.record["notes"])


def test_a_run_without_values_takes_numpys_positions_and_edges_without_values() -> None:
    def main(proc: bsp.Process) -> None:
        rng = np.random.default_rng(1)
        x = vector()
        places, edges = rng.integers(0, 100, 300), rng.random(30)
        x[places] = 5.0
        np.add.at(x, places, 1.0)
        found = x[places], ba.digitize(x, edges), ba.histogram(x, edges)[0], np.add.reduceat(x, places)
        seen.append([array.shape for array in found])

    seen: list[Any] = []
    bsp.predict(main, nprocs=2, machine=bsp.Machine(p=2), abstract=True)
    assert seen == [[(300,), (N,), (29,), (300,)]] * 2


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: (np.exp(x) + 1).persist(),
    "summed": lambda x: np.exp(x).sum().persist(),
    "beside a product": lambda x: (np.exp(x) @ x).persist(),
    "in parts": lambda x: ba.stack([np.exp(x), x], axis=1).persist(),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_take_the_time_that_the_machines_rate_of_functions_says(name: str) -> None:
    def seconds(functions: float) -> float:
        rates = dict.fromkeys(("blas1", "blas2", "blas3", "elementwise", "bandwidth"), 1e9) | {"functions": functions}

        def main(proc: bsp.Process) -> None:
            FUNCTIONS[name](ba.ones(MANY).persist())

        return bsp.predict(main, nprocs=2, machine=bsp.Machine(p=2, rates=rates), abstract=True).seconds

    assert seconds(8e6) - seconds(8e9) == pytest.approx(MANY / 2 * (1e-6 - 1e-9))
