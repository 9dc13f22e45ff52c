"""No array is brought to every process in silence: functions work by blocks, or warn with the price."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import as_numpys

import bsp
import bsp.arrays as ba
from bsp.arrays import fft, gathering
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.selection import routes

RNG = np.random.default_rng(17)
V, U, TIMES = RNG.normal(size=30_011), RNG.normal(size=30_011), RNG.integers(0, 4, 30_011)
A = RNG.normal(size=(12, 7))


def received(main: Callable[[bsp.Process], Any], nprocs: int = 4) -> list[int]:
    """The most words that a process receives in each superstep."""
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    return [row["h_received"] for row in rows]


EDGES, SHARES = np.sort(RNG.normal(size=30_011)), np.arange(30_011.0) / 30_010
CHANCES = (SHARES + 1) / (SHARES + 1).sum()
WIDE = RNG.integers(0, 9_000_000, 30_011)


BY_BLOCKS: dict[str, Callable[[], Any]] = {
    "digitize": lambda: np.digitize(ba.asarray(V), ba.asarray(EDGES)),
    "digitize between few elements": lambda: np.digitize(ba.arange(50.0), ba.asarray(EDGES)),
    "digitize between falling edges": lambda: np.digitize(ba.asarray(V), ba.asarray(EDGES[::-1])),
    "histogram": lambda: np.histogram(ba.asarray(V), ba.asarray(EDGES)),
    "histogram with weights": lambda: np.histogram(ba.asarray(V), ba.asarray(EDGES), weights=ba.asarray(U)),
    "histogram as a density": lambda: np.histogram(ba.asarray(V), ba.asarray(EDGES), density=True),
    "histogram of few elements": lambda: np.histogram(ba.arange(50.0), ba.asarray(EDGES)),
    "histogram_bin_edges": lambda: np.histogram_bin_edges(ba.asarray(V), ba.asarray(EDGES)),
    "histogram2d": lambda: np.histogram2d(ba.asarray(V), ba.asarray(U), [ba.asarray(EDGES), 4]),
    "interp": lambda: np.interp(ba.arange(50.0), np.arange(30_011.0), ba.asarray(V)),
    "quantile": lambda: np.quantile(ba.asarray(V), ba.asarray(SHARES)),
    "percentile of few elements": lambda: np.percentile(ba.arange(50.0), ba.asarray(100 * SHARES)),
    "nanquantile": lambda: np.nanquantile(ba.asarray(V), ba.asarray(SHARES), method="nearest"),
    "choice with p": lambda: ba.random.default_rng(1).choice(30_011, 9_000, p=ba.asarray(CHANCES)),
    "choice with p of one": lambda: ba.random.default_rng(1).choice(30_011, p=ba.asarray(CHANCES)),
    "choice with p, none twice": lambda: ba.random.default_rng(1).choice(30_011, 9, False, ba.asarray(CHANCES)),
    "choice with p, many and none twice": lambda: ba.random.default_rng(1).choice(
        30_011, 29_000, False, ba.asarray(CHANCES)
    ),
    "rng.choice(v)": lambda: ba.random.default_rng(1).choice(ba.asarray(V)),
    "rng.choice(v, 20_000)": lambda: ba.random.default_rng(1).choice(ba.asarray(V), 20_000),
    "np.repeat(v, counts)": lambda: np.repeat(ba.asarray(V), ba.asarray(TIMES)),
    "ba.full(shape, v)": lambda: ba.full((3, 30_011), ba.asarray(V)),
    "ba.asarray([u, v])": lambda: ba.asarray([ba.asarray(U), ba.asarray(V)]),
    "bincount over a wide range": lambda: np.bincount(ba.asarray(WIDE)),
}


@pytest.mark.parametrize("name", list(BY_BLOCKS))
def test_no_process_receives_the_whole_of_an_operand(name: str) -> None:
    def main(proc: bsp.Process) -> None:
        found = BY_BLOCKS[name]()
        for each in found if isinstance(found, tuple) else [found]:
            if isinstance(each, ba.Array):
                each.persist()

    most = max(received(main))
    assert most < 0.6 * V.size, (name, most)  # a gather brings 3/4


def test_what_works_by_blocks_has_numpys_values() -> None:
    calls: dict[str, Callable[..., Any]] = {
        "repeat": lambda a, v, t, r, c: np.repeat(v, t),
        "repeat of booleans": lambda a, v, t, r, c: np.repeat(v, t > 1),
        "rows": lambda a, v, t, r, c: np.repeat(a, r, axis=0),
        "columns": lambda a, v, t, r, c: np.repeat(a, c, axis=1),
        "flat": lambda a, v, t, r, c: np.repeat(a, np.concatenate([t, t, t])[:84]),
        "nothing": lambda a, v, t, r, c: np.repeat(v, t * 0),
        "negative": lambda a, v, t, r, c: np.repeat(v, t - 1),
        "floats": lambda a, v, t, r, c: np.repeat(v, t * 1.0),
        "another length": lambda a, v, t, r, c: np.repeat(v, t[1:]),
        "lopsided": lambda a, v, t, r, c: np.repeat(v, (t == t[0]) * 40),
        "bincount": lambda a, v, t, r, c: np.bincount(t * 1_000),
        "weights": lambda a, v, t, r, c: np.bincount(t * 1_000, v),
    }
    as_numpys(calls, [A, V[:31], TIMES[:31], TIMES[:12], TIMES[:7]])


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_a_sequence_of_arrays_is_an_array(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        u, v, i = ba.asarray(U), ba.asarray(V), ba.asarray(TIMES)
        for found, want in (
            (ba.asarray([u, v]), np.asarray([U, V])), (ba.asarray((u, i)), np.asarray([U, TIMES])),
            (ba.asarray([[u, v], [v, V]]), np.asarray([[U, V], [V, V]])),
            (ba.asarray([i, i], dtype=np.float32), np.asarray([TIMES, TIMES], np.float32)),
            (ba.asarray([u.sum(), 3]), None), (ba.array([u[:5], [1, 2, 3, 4, 5]]), np.array([U[:5], [1, 2, 3, 4, 5]])),
        ):  # fmt: skip
            if want is not None:
                np.testing.assert_array_equal(found.compute(), want)
                assert found.dtype == want.dtype
        with pytest.raises(ValueError, match=r"the parts of a sequence have one shape, not \(30011,\), \(7,\)"):
            ba.asarray([u, v[:7]])

    bsp.run(main, nprocs=nprocs)


def test_a_wide_bincount_holds_and_moves_what_it_counts() -> None:
    size, wide = 5_000, 9_000_000
    x = RNG.choice(wide, size, replace=False)

    def main(proc: bsp.Process) -> list[int]:
        found = np.bincount(ba.asarray(x, grid=(4,)), minlength=wide)
        return [int(found.sum()), int(found[int(x[9])]), found.size]

    assert bsp.run(main, nprocs=4) == [[size, 1, wide]] * 4
    assert received(main)[1] <= 2 * size  # positions and counts


LARGE: dict[str, Callable[[ba.Array], Any]] = {
    "np.asarray": lambda x: np.asarray(x),
    "np.r_": lambda x: np.r_[x, x],
    "np.array": lambda x: np.array([x, x]),
    "np.vectorize": lambda x: np.vectorize(abs)(x),
    "quantile: q": lambda x: np.quantile(ba.asarray(A), x, axis=0),
    "insert: positions": lambda x: np.insert(ba.arange(50_000.0), ba.floor(x * 50_000).astype(int), 1.0),
    "add.reduceat: indices": lambda x: np.add.reduceat(ba.arange(50_000.0), ba.floor(x * 50_000).astype(int)),
    "partition: kth": lambda x: ba.partition(ba.arange(50_000.0), ba.floor(x * 50_000).astype(int)),
}


@pytest.mark.parametrize("name", list(LARGE))
def test_a_gather_warns_with_its_price_and_a_small_one_does_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rises = np.arange(20_000) / 20_000

    def main(proc: bsp.Process) -> None:
        with np.errstate(all="ignore"):
            LARGE[name](ba.asarray(rises, grid=(3,)))

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bsp.run(main, nprocs=3)
    assert [each for each in told if each.category is GatherWarning] == []
    monkeypatch.setattr(gathering, "SILENT_BYTES", 100_000)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bsp.run(main, nprocs=3)
    texts = {str(each.message) for each in told if each.category is GatherWarning}
    assert any("0.16 MB" in text and "3 processes" in text for text in texts), texts
    wanted = name if ":" in name else "np.asarray"
    assert all(text.startswith(wanted) for text in texts)
    bsp.run(main, nprocs=1)


def test_an_array_that_all_have_is_no_gather_and_a_huge_argument_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 100)
    monkeypatch.setattr(gathering, "MOST_BYTES", 10_000)

    def main(proc: bsp.Process) -> None:
        np.asarray(ba.arange(1_000.0).persist())  # replicated
        with pytest.raises(GatherRefused, match=r"quantile: q has no distributed form and would bring 0\.00016 GB"):
            np.quantile(ba.asarray(A), ba.asarray(np.arange(20_000) / 20_000), axis=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bsp.run(main, nprocs=2)


def test_a_gather_by_positions_never_brings_a_large_array_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "SILENT_BYTES", 100_000)
    where = RNG.integers(0, 20_000, 60_000)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.arange(20_000.0))
        (block,) = x[ba.asarray(where)]._node.value.values()
        np.testing.assert_array_equal(block, where[15_000 * proc.pid : 15_000 * (proc.pid + 1)])

    assert len(received(main)) == 2
    assert max(received(main)) < 12_000  # of 15,000 positions those that others have
    bsp.run(main, nprocs=4)


NAN = np.where(RNG.random(97) < 0.1, np.nan, RNG.normal(size=97).round(1))
CUTS, FALLING = np.sort(RNG.normal(size=41).round(1)), np.sort(RNG.normal(size=41).round(1))[::-1]
ENDS = np.array([-1.0, 0, 0.5, 0.5])  # the last bin has one value
RANKS = RNG.random(53)


def test_binning_between_dealt_edges_has_numpys_values() -> None:
    def at(function: Callable[..., Any], **given: Any) -> Callable[..., Any]:
        return lambda v, e, f, n, w, k: function(v, e, f, n, w, k, **given)

    calls: dict[str, Callable[..., Any]] = {
        "digitize": at(lambda v, e, f, n, w, k: np.digitize(v, e)),
        "digitize right": at(lambda v, e, f, n, w, k: np.digitize(v, e, right=True)),
        "digitize falling": at(lambda v, e, f, n, w, k: np.digitize(v, f)),
        "digitize falling, right": at(lambda v, e, f, n, w, k: np.digitize(v, f, True)),
        "digitize neither": at(lambda v, e, f, n, w, k: np.digitize(v, w)),
        "digitize equal": at(lambda v, e, f, n, w, k: np.digitize(v, e * 0)),
        "digitize integers": at(lambda v, e, f, n, w, k: np.digitize(k, e)),
        "digitize in a table": at(lambda v, e, f, n, w, k: np.digitize(v, v.reshape(1, -1))),
        "histogram": at(lambda v, e, f, n, w, k: np.histogram(v, e)),
        "histogram with NaN": at(lambda v, e, f, n, w, k: np.histogram(n, e)),
        "histogram of integers": at(lambda v, e, f, n, w, k: np.histogram(k, e)),
        "histogram weights": at(lambda v, e, f, n, w, k: np.histogram(v, e, weights=w)),
        "histogram integer weights": at(lambda v, e, f, n, w, k: np.histogram(v, e, weights=k)),
        "histogram complex weights": at(lambda v, e, f, n, w, k: np.histogram(v, e, weights=w + 1j)),
        "histogram density": at(lambda v, e, f, n, w, k: np.histogram(v, e, density=True)),
        "histogram falling": at(lambda v, e, f, n, w, k: np.histogram(v, f)),
        "histogram to the last edge": at(lambda v, e, f, n, w, k: np.histogram(e, e)),
        "edges": at(lambda v, e, f, n, w, k: np.histogram_bin_edges(v, e)),
        "edges falling": at(lambda v, e, f, n, w, k: np.histogram_bin_edges(v, f)),
        "histogramdd": at(lambda v, e, f, n, w, k: np.histogramdd([v, w], [e, e])),
        "histogramdd mixed": at(lambda v, e, f, n, w, k: np.histogramdd([v, w], [e, 3], range=[None, (-1, 1)])),
        "histogramdd weights": at(lambda v, e, f, n, w, k: np.histogramdd([v, k], [e, e], weights=w)),
        "histogramdd density": at(lambda v, e, f, n, w, k: np.histogramdd([v, w], [4, e], density=True)),
        "histogramdd falling": at(lambda v, e, f, n, w, k: np.histogramdd([v, w], [e, f])),
        "histogram2d": at(lambda v, e, f, n, w, k: np.histogram2d(v, v, e)),
    }
    v, w = RNG.normal(size=97).round(1), RNG.normal(size=97)
    as_numpys(calls, [v, CUTS, FALLING, NAN, w, RNG.integers(-2, 3, 97)])
    as_numpys(
        {"one value in the last bin": lambda v, e: np.histogram(v, e), "dd": lambda v, e: np.histogramdd([v], [e])},
        [np.array([0.5, 0.5, 0.7, 0, -1, -2]), ENDS],
    )


@pytest.mark.parametrize("method", ["linear", "nearest", "midpoint", "hazen", "averaged_inverted_cdf", "inverted_cdf"])
def test_quantiles_of_dealt_ranks_have_numpys_values(method: str) -> None:
    calls: dict[str, Callable[..., Any]] = {
        "quantile": lambda v, q, n, k: np.quantile(v, q, method=method),
        "of a matrix of ranks": lambda v, q, n, k: np.quantile(v, q[:52].reshape(4, 13), method=method),
        "of a matrix": lambda v, q, n, k: np.quantile(v[:96].reshape(8, 12), q, method=method, keepdims=True),
        "along an axis": lambda v, q, n, k: np.quantile(v[:96].reshape(8, 12), q, axis=1, method=method),
        "along both axes": lambda v, q, n, k: np.quantile(v[:96].reshape(8, 12), q, axis=(0, 1), method=method),
        "of single precision": lambda v, q, n, k: np.quantile(v.astype("f4"), q, method=method),
        "percentile": lambda v, q, n, k: np.percentile(v, q * 100, method=method),
        "of integers": lambda v, q, n, k: np.quantile(k, q, method=method),
        "NaN": lambda v, q, n, k: np.quantile(n, q, method=method),
        "nanquantile": lambda v, q, n, k: np.nanquantile(n, q, method=method),
        "nanpercentile": lambda v, q, n, k: np.nanpercentile(n, 100 * q, method=method),
        "nothing but NaN": lambda v, q, n, k: np.nanquantile(n * np.nan, q, method=method),
        "outside": lambda v, q, n, k: np.quantile(v, q + 1, method=method),
        "NaN ranks": lambda v, q, n, k: np.quantile(v, q * np.nan, method=method),
    }
    as_numpys(calls, [RNG.normal(size=97), RANKS, NAN, RNG.integers(-9, 9, 97)], tolerance=4)


@pytest.mark.parametrize("size", [None, 5, (30, 40), 20_000])
@pytest.mark.parametrize("replace", [True, False])
def test_choices_with_dealt_chances_are_those_with_numpys(size: Any, replace: bool) -> None:
    count = 20_003
    chances = np.where(np.arange(count) % 7 == 0, 0, np.arange(count) + 1.0)
    many = 1 if size is None else int(np.prod(size))
    if many > np.count_nonzero(chances) and not replace:
        chances += 1
    chances /= chances.sum()

    def main(proc: bsp.Process) -> np.ndarray:
        found = [
            np.array(ba.random.default_rng(5).choice(count, size, replace, given)) for given in (
                chances, ba.asarray(chances), ba.asarray(chances, grid=(7,)), ba.asarray(chances[::-1])[::-1],
            )
        ]  # fmt: skip
        for each in found[1:]:
            np.testing.assert_array_equal(each, found[0])
        return found[0]

    results = [each for nprocs in (1, 3) for each in bsp.run(main, nprocs=nprocs)]
    for each in results:
        np.testing.assert_array_equal(each, results[0])
    assert results[0].shape == (() if size is None else np.empty(size).shape)
    assert (chances[results[0]] > 0).all()
    if not replace:
        assert len(np.unique(results[0])) == results[0].size


@pytest.mark.thorough
def test_choices_without_replacement_follow_their_chances() -> None:
    """The probability of every ordered pair, of 5, drawn one after the other."""
    chances = np.array([0.05, 0.1, 0.15, 0.3, 0.4])
    draws = 20_000

    def main(proc: bsp.Process) -> np.ndarray:
        rng = ba.random.default_rng(3)
        return np.array([rng.choice(5, 2, False, chances).compute() for _ in range(draws)])

    (pairs,) = bsp.run(main, nprocs=1)
    for i in range(5):
        for j in set(range(5)) - {i}:
            want = chances[i] * chances[j] / (1 - chances[i])
            share = np.mean((pairs[:, 0] == i) & (pairs[:, 1] == j))
            assert abs(share - want) < 5 * np.sqrt(want / draws), (i, j)


@pytest.mark.parametrize("wrong", ["negative", "nan", "sum", "length", "few"])
def test_wrong_chances_are_told_to_all_processes(wrong: str) -> None:
    p = np.full(20_000, 1 / 20_000)
    count = 20_001 if wrong == "length" else 20_000
    if wrong in ("negative", "nan"):
        p[777] = -p[777] if wrong == "negative" else np.nan
    elif wrong in ("sum", "few"):
        p[:10_000] = 0
        p[10_000:] *= 1.5 if wrong == "sum" else 2

    def main(proc: bsp.Process) -> list[str]:
        texts = []
        for given in (p, ba.asarray(p)):
            with pytest.raises(ValueError) as error:
                ba.random.default_rng(0).choice(count, 10_001, False, given)
            texts.append(str(error.value))
        return texts

    told = bsp.run(main, nprocs=3)
    assert len({text for texts in told for text in texts}) == 1, told


def test_forecasts_of_binning_by_blocks_bound_what_it_takes() -> None:
    cases: dict[str, Callable[[], Any]] = {
        "digitize": lambda: ba.digitize(ba.asarray(V), ba.asarray(EDGES)),
        "histogram": lambda: ba.histogram(ba.asarray(V), ba.asarray(EDGES))[0],
        "quantile": lambda: ba.quantile(ba.asarray(V), ba.asarray(SHARES)),
        "choice": lambda: ba.random.default_rng(1).choice(30_011, 9_000, p=ba.asarray(CHANCES)),
        "choice without": lambda: ba.random.default_rng(1).choice(30_011, 29_000, False, ba.asarray(CHANCES)),
    }
    for name, call in cases.items():

        def main(proc: bsp.Process, call: Callable[[], Any] = call) -> None:
            with np.errstate(all="ignore"):  # where warnings are errors, a plan takes a superstep to hear of them
                call().persist()

        found, most = (
            bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=abstract).per_superstep
            for abstract in (False, True)
        )
        assert [row["call"] for row in most] == [row["call"] for row in found], name
        words, bound = (sum(max(row["h_sent"], row["h_received"]) for row in rows) for rows in (found, most))
        assert words <= bound, name


DECISIONS: dict[str, Callable[[ba.Array], Any]] = {
    "choose": lambda x: ba.choose(ba.astype(x % 2, int), [x, 2 * x]),
    "cov of weighted observations": lambda x: ba.cov(x, fweights=ba.ones(len(x), dtype=int), aweights=x + 1.0),
    "nanargmax": ba.nanargmax,
    "nanargmin along an axis": lambda x: ba.nanargmin(ba.reshape(x, (6, -1)), axis=1),
    "real_if_close": lambda x: ba.real_if_close(x + (1j * x)),
    "gradient by coordinates": lambda x: ba.gradient(x, x * x),
    "trim_zeros": ba.trim_zeros,
    "eigenvalues of a stack": lambda x: ba.linalg.eigvals(ba.reshape(x, (-1, 2, 2))),
    "polyfit": lambda x: ba.polyfit(x, 3 * x, 2),
    "ranks": lambda x: ba.linalg.lstsq(ba.reshape(x, (-1, 3)), x[: len(x) // 3])[2],
    "conditions": lambda x: ba.linalg.cond(ba.reshape(x, (-1, 3, 3)) + ba.eye(3)),
}


@pytest.mark.parametrize("name", list(DECISIONS))
@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_decision_takes_the_same_supersteps_with_values_and_without(name: str, nprocs: int) -> None:
    def main(proc: Any) -> None:
        x = ba.from_local(np.random.default_rng(proc.pid).uniform(1, 9, 36 * 3 // nprocs))
        found = DECISIONS[name](x)
        if isinstance(found, ba.Array):
            found.persist()

    real, without = (
        [
            (row["call"], max(row["h_sent"], row["h_received"]))
            for row in bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs), abstract=each).per_superstep
        ]
        for each in (False, True)
    )
    assert without == real


def test_a_decision_that_needs_no_values_is_made_without_them() -> None:
    found: list[tuple[bool, bool]] = []

    def main(proc: Any) -> None:
        one = gathering.decided(proc.nprocs == 2, usual=False)
        found.append((one, gathering.decided(ba.ones(()) > 2, usual=True)))

    bsp.run(main, nprocs=2)
    bsp.predict(main, nprocs=2, machine=bsp.Machine(), abstract=True)
    assert found == [(True, False)] * 2 + [(True, True)] * 2


@pytest.mark.thorough
def test_a_gather_that_is_an_error_is_one_on_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 100_000)

    def main(proc: bsp.Process) -> list[str]:
        x, seen = ba.asarray(np.arange(20_000.0)), []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for call in (lambda: np.asarray(x), lambda: np.roots(x), lambda: np.fft.fft(x)):
                try:
                    call()
                except GatherWarning as told:
                    seen.append(str(told))
        proc.sync()
        return seen

    monkeypatch.setattr(fft, "SILENT_BYTES", 100_000)
    first, *others = bsp.run(main, nprocs=3)
    assert len(first) == 3
    assert others == [first] * 2
