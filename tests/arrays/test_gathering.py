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
from bsp.arrays import gathering
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.selection import lookups

RNG = np.random.default_rng(17)
V, U, TIMES = RNG.normal(size=30_011), RNG.normal(size=30_011), RNG.integers(0, 4, 30_011)
A = RNG.normal(size=(12, 7))


def received(main: Callable[[bsp.Process], Any], nprocs: int = 4) -> list[int]:
    """The most words that a process receives in each superstep."""
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    return [row["h_received"] for row in rows]


BY_BLOCKS: dict[str, Callable[[], Any]] = {
    "rng.choice(v)": lambda: ba.random.default_rng(1).choice(ba.asarray(V)),
    "rng.choice(v, 20_000)": lambda: ba.random.default_rng(1).choice(ba.asarray(V), 20_000),
    "np.repeat(v, counts)": lambda: np.repeat(ba.asarray(V), ba.asarray(TIMES)),
    "ba.full(shape, v)": lambda: ba.full((3, 30_011), ba.asarray(V)),
    "ba.asarray([u, v])": lambda: ba.asarray([ba.asarray(U), ba.asarray(V)]),
    "bincount over a wide range": lambda: np.bincount(ba.asarray(RNG.integers(0, 9_000_000, 30_011))),
}


@pytest.mark.parametrize("name", list(BY_BLOCKS))
def test_no_process_receives_the_whole_of_an_operand(name: str) -> None:
    def main(proc: bsp.Process) -> None:
        found = BY_BLOCKS[name]()
        if isinstance(found, ba.Array):
            found.persist()

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
    "quantile: q": lambda x: np.quantile(ba.arange(50.0), x),
    "digitize: bins": lambda x: np.digitize(ba.arange(50.0), x),
    "histogram: bins": lambda x: np.histogram(ba.arange(50.0), x),
    "histogramdd: bins": lambda x: np.histogramdd([ba.arange(50.0)], [x]),
    "insert: positions": lambda x: np.insert(ba.arange(50_000.0), ba.floor(x * 50_000).astype(int), 1.0),
    "add.reduceat: indices": lambda x: np.add.reduceat(ba.arange(50_000.0), ba.floor(x * 50_000).astype(int)),
    "choice: p": lambda x: ba.random.default_rng(2).choice(x.size, 9, p=(x + 1) / (x + 1).sum()),
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
            np.quantile(ba.arange(50.0), ba.asarray(np.arange(20_000) / 20_000))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bsp.run(main, nprocs=2)


def test_a_gather_by_positions_never_brings_a_large_array_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "SILENT_BYTES", 100_000)
    where = RNG.integers(0, 20_000, 60_000)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.arange(20_000.0))
        (block,) = x[ba.asarray(where)]._node.value.values()
        np.testing.assert_array_equal(block, where[15_000 * proc.pid : 15_000 * (proc.pid + 1)])

    assert len(received(main)) == 2
    assert max(received(main)) < 12_000  # of 15,000 positions those that others have
    bsp.run(main, nprocs=4)
