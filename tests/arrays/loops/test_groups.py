"""Computed indices on the left of a comprehension: NumPy's values by group, two supersteps, the words of the groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import WAYS, dealt, dealt_always

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import ComprehensionError, PlanTooLarge
from bsp.errors import ValueNeeded

RNG = np.random.default_rng(5)
N = 1_003
b, c = RNG.integers(0, 9, N), RNG.integers(0, 5, N).astype(np.int8)
x, w, z = RNG.normal(size=N), RNG.random(N), RNG.normal(size=N) + 1j * RNG.normal(size=N)
k = RNG.integers(-50, 50, N).astype(np.int16)
q = RNG.integers(-100, 100, N).astype(np.int8)
X, K = RNG.normal(size=(37, 11)), RNG.integers(0, 6, (37, 11))
r, s = RNG.integers(0, 4, 37), RNG.integers(2, 5, 11)
v = RNG.normal(size=11)


def by(
    key: np.ndarray, groups: int, values: np.ndarray, how: Callable[..., Any], axis: int | None = None
) -> np.ndarray:
    """What `how` gives of the values of each group."""
    return np.array(
        [how(values[key == g]) if axis is None else how(values[key == g], axis=axis) for g in range(groups)]
    )


def counted(groups: tuple[int, ...], *keys: np.ndarray) -> np.ndarray:
    found = np.zeros(groups, int)
    np.add.at(found, keys, 1)
    return found


def added(groups: tuple[int, ...], keys: tuple[np.ndarray, ...], values: np.ndarray) -> np.ndarray:
    found = np.zeros(groups, values.dtype)
    np.add.at(found, keys, values)
    return found


BX: dict[str, Any] = {"b": b, "x": x}
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("S[b[i]] = sum(x[i])", BX, np.bincount(b, x)),
    ("S[b[i]] = sum(x[i]) for b[ i ] in 0:12", BX, np.bincount(b, x, 12)),
    ("S[b[i]] = sum(x[i]) for b[i] in 0:n, i in 5:40", BX | {"n": 11}, np.bincount(b[5:40], x[5:40], 11)),
    ("S[b[i]] = sum(x[i]) for b[i] in -2:9", BX, np.bincount(b + 2, x)),
    ("S[q[i]] = sum(x[i]) for q[i] in -100:100", {"q": q, "x": x}, np.bincount(q.astype(int) + 100, x, 200)),
    ("S[q[i]] = sum(x[i]) for q[i] in -200:130", {"q": q, "x": x}, np.bincount(q.astype(int) + 200, x, 330)),
    ("S[b[i]] = sum(q[i] * 2 * q[i])", {"b": b, "q": q}, added((9,), (b,), 2 * q.astype(np.int64) ** 2)),
    ("S[b[i]] = mean(2 * q[i])", {"b": b, "q": q}, by(b, 9, 2.0 * q, np.mean)),
    ("S[b[i]] = var(2 * q[i])", {"b": b, "q": q}, by(b, 9, 2.0 * q, np.var)),
    ("S[b[i]] = sum(k[i])", {"b": b, "k": k}, added((9,), (b,), k.astype(np.int64))),
    ("S[b[i]] = sum(z[i])", {"b": b, "z": z}, added((9,), (b,), z)),
    ("S[b[i]] = sum(x[i])", {"b": b, "x": x.astype(np.float32)}, added((9,), (b,), x).astype(np.float32)),
    ("S[b[i]] = sum(1)", {"b": b}, np.bincount(b)),
    ("S[b[i]] = sum(x[i] > 0)", BX, np.bincount(b[x > 0], minlength=9)),
    ("S[b[i]] = prod(x[i])", BX, by(b, 9, x, np.prod)),
    ("S[b[i]] = min(x[i])", BX, by(b, 9, x, np.min)),
    ("S[b[i]] = max(k[i])", {"b": b, "k": k}, by(b, 9, k, np.max)),
    ("S[b[i]] = min(z[i])", {"b": b, "z": z}, by(b, 9, z, np.min)),
    ("S[b[i]] = any(x[i] > 2)", BX, by(b, 9, x > 2, np.any)),
    ("S[b[i]] = all(x[i] > -2)", BX, by(b, 9, x > -2, np.all)),
    ("S[b[i]] = mean(x[i])", BX, by(b, 9, x, np.mean)),
    ("S[b[i]] = mean(k[i])", {"b": b, "k": k}, by(b, 9, k, np.mean)),
    ("S[b[i]] = var(x[i] + 1e6)", BX, by(b, 9, x + 1e6, np.var)),
    ("S[b[i]] = std(z[i])", {"b": b, "z": z}, by(b, 9, z, np.std)),
    ("S[b[i]] = sum(x[i] * w[i]) / sum(w[i])", BX | {"w": w}, np.bincount(b, x * w) / np.bincount(b, w)),
    ("S[b[i]] = sqrt(sum(x[i]**2)) + 2 * min(x[i])", BX, np.sqrt(np.bincount(b, x * x)) + 2 * by(b, 9, x, np.min)),
    ("S[b[i], c[i]] = sum(1)", {"b": b, "c": c}, counted((9, 5), b, c)),
    ("S[b[i], c[i], b[i] % 2] = sum(x[i])", BX | {"c": c}, added((9, 5, 2), (b, c, b % 2), x)),
    ("S[b[i] // 2] = sum(x[i])", BX, np.bincount(b // 2, x)),
    ("S[where(x[i] > 0, 1, 0)] = sum(x[i])", {"x": x}, np.bincount((x > 0).astype(int), x)),
    ("S[x[i] > 0] = sum(x[i])", {"x": x}, np.bincount((x > 0).astype(int), x)),
    ("S[b[-1-i]] = sum(x[i]) for i in 0:n", BX | {"n": N}, np.bincount(b[::-1], x)),
    ("S[r[i], j] = sum(X[i,j])", {"r": r, "X": X}, by(r, 4, X, np.sum, 0)),
    ("S[j, r[i]] = max(X[i,j])", {"r": r, "X": X}, by(r, 4, X, np.max, 0).T),
    ("S[j, r[i]] = var(X[i,j]) for j in 2:7", {"r": r, "X": X}, by(r, 4, X[:, 2:7], np.var, 0).T),
    ("S[r[i], j] = sum(X[i,j]) * v[j] + j for j in 3:9", {"r": r, "X": X, "v": v},
     by(r, 4, X[:, 3:9], np.sum, 0) * v[3:9] + np.arange(3, 9)),
    ("S[j, r[i]] = sum(w[i]) for j in 0:3", {"r": r, "w": w[:37]}, np.tile(np.bincount(r, w[:37]), (3, 1))),
    ("S[K[i,j]] = sum(X[i,j])", {"K": K, "X": X}, np.bincount(K.ravel(), X.ravel())),
    ("S[K[i,j]] = sum(X[i,j])", {"K": K.T.copy(), "X": X.T.copy()}, np.bincount(K.ravel(), X.ravel())),
    ("S[K[j,i]] = max(X[i,j])", {"K": K.T.copy(), "X": X}, by(K, 6, X, np.max)),
    ("S[K[i,j], j] = sum(X[i,j])", {"K": K, "X": X}, added((6, 11), (K, np.arange(11)), X)),
    ("S[r[i], s[j]] = sum(X[i,j])", {"r": r, "s": s, "X": X}, added((4, 5), (r[:, None], s), X)),
    ("S[r[i], s[j]] = sum(X[i,j]) for s[j] in 2:6", {"r": r, "s": s, "X": X}, added((4, 4), (r[:, None], s - 2), X)),
    ("S[r[i]] = sum(X[i,j] * v[j])", {"r": r, "X": X, "v": v}, np.bincount(r, X @ v)),
    ("S[r[i]] = mean(X[i,j])", {"r": r, "X": X}, by(r, 4, X, np.mean)),
    ("S[r[i]] = std[j](X[i,j])", {"r": r, "X": X}, by(r, 4, X, np.std)),
    ("S[r[i]] = max(sum[j](X[i,j]))", {"r": r, "X": X}, by(r, 4, X.sum(1), np.max)),
    ("S[r[i]] = sum(X[i,j] * max[l](X[i,l]))", {"r": r, "X": X}, np.bincount(r, X.sum(1) * X.max(1))),
    ("S[b[i]] = sum(x[i])", {"b": b[:0], "x": x[:0]}, np.zeros(0)),
    ("S[r[i]] = min(X[i,j])", {"r": r, "X": X[:, :0]}, np.full(4, np.inf)),
    ("S[r[i]] = mean(X[i,j])", {"r": r, "X": X[:, :0]}, np.full(4, np.nan)),
    ("S[i//17] = sum(x[i])", {"x": x}, np.bincount(np.arange(N) // 17, x)),
    ("S[i//2, j%3] = max(X[i,j])", {"X": X},
     np.array([[X[2 * g : 2 * g + 2, h::3].max() for h in range(3)] for g in range(19)])),
    ("R[(i+1) % n] = sum(x[i])", {"x": x, "n": N}, np.roll(x, 1)),
    ("P[i+1, j+2] = sum(X[i,j]) for i+1 in 0:n+2, j + 2 in 0:15", {"X": X, "n": 37}, np.pad(X, ((1, 1), (2, 2)))),
    ("F[i+j] = sum(v[i] * w[j])", {"v": v, "w": w[:40]}, np.convolve(v, w[:40])),
    ("D[i-j] = sum(X[i,j]) for i-j in -10:37", {"X": X}, np.array([np.trace(X, -d) for d in range(-10, 37)])),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5, 13])
@pytest.mark.parametrize("way", WAYS)
def test_groups_have_numpys_values_on_every_process(way: str, nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[np.ndarray]:
        found = []
        for text, operands, _ in CASES:
            given = {
                name: dealt(proc, each, way) if isinstance(each, np.ndarray) else each
                for name, each in operands.items()
            }
            found.append(np.array(ba.comprehension(text, **given).compute()))
        return found

    with dealt_always():
        results = bsp.run(main, nprocs=nprocs)
    for found in results:
        for (text, operands, want), got in zip(CASES, found, strict=True):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), text
            eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0
            size = 1e12 if "1e6" in text else max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=0, atol=64 * eps * size, err_msg=f"{text} {[*operands]}")


@pytest.mark.parametrize("nprocs", [1, 3])
def test_small_and_numpy_operands_give_the_same(nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[np.ndarray]:
        return [np.array(ba.comprehension(text, **operands).compute()) for text, operands, _ in CASES]

    for found in bsp.run(main, nprocs=nprocs):
        for (text, _, want), got in zip(CASES, found, strict=True):
            size = 1e12 if "1e6" in text else max(1.0, float(np.abs(want).max(initial=0)))
            atol = 64 * np.finfo(want.dtype).eps * size if want.dtype.kind in "fc" else 0
            np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=text)


@pytest.mark.parametrize("nprocs", [1, 2, 7])
def test_a_group_of_nothing_has_the_value_of_nothing(nprocs: int) -> None:
    keys = np.array([3, 3, 1] * 9)
    values = {"f": np.arange(27.0), "n": np.arange(27, dtype=np.int16), "t": np.arange(27) % 2 == 0}
    low, high = np.iinfo(np.int16).min, np.iinfo(np.int16).max
    wanted = {
        "sum(f[i])": 0.0, "prod(f[i])": 1.0, "min(f[i])": np.inf, "max(f[i])": -np.inf, "min(n[i])": high,
        "max(n[i])": low, "any(t[i])": False, "all(t[i])": True, "min(t[i])": True, "max(t[i])": False,
        "mean(f[i])": np.nan, "var(f[i])": np.nan, "std(n[i])": np.nan, "sum(1)": 0,
    }  # fmt: skip

    def main(proc: bsp.Process) -> list[np.ndarray]:
        given = {name: ba.asarray(each, grid=(proc.nprocs,)) for name, each in values.items()}
        key = ba.asarray(keys, grid=(proc.nprocs,))
        return [
            np.array(
                ba.comprehension(
                    f"S[b[i]] = {right} for b[i] in 0:6", b=key, **{k: e for k, e in given.items() if f"{k}[" in right}
                ).compute()
            )
            for right in wanted
        ]

    for found in bsp.run(main, nprocs=nprocs):
        for (right, nothing), got in zip(wanted.items(), found, strict=True):
            np.testing.assert_array_equal(got[[0, 2, 4, 5]], np.full(4, nothing, got.dtype), err_msg=right)
            assert not np.isnan(got[[1, 3]].astype(float)).any(), right


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("dtype", ["f2", "f4", "c8"])
def test_sums_of_many_elements_in_short_precision_keep_their_digits(dtype: str, nprocs: int) -> None:
    """One after the other in float16, terms of 0.1 add up to 256 at most; in float32 a million give 100958."""
    size = 30_000 if dtype == "f2" else 300_000
    values = RNG.uniform(0.05, 0.15, size).astype(dtype)
    values[0] = values[1] = 0
    keys = np.arange(size) % 2
    exact = values.astype("c16" if dtype == "c8" else "f8")

    def main(proc: bsp.Process) -> list[np.ndarray]:
        x, key = (ba.asarray(each, grid=(proc.nprocs,)) for each in (values, keys))
        return [
            np.array(ba.comprehension(f"S[b[i]] = {how}(x[i])", b=key, x=x).compute())
            for how in ("sum", "mean", "var", "std")
        ]

    eps = np.finfo(values.dtype).eps
    for found in bsp.run(main, nprocs=nprocs):
        for got, how in zip(found, (np.sum, np.mean, np.var, np.std), strict=True):
            want = by(keys, 2, exact, how)
            assert got.dtype == how(values[:1]).dtype
            np.testing.assert_allclose(got, want, rtol=0, atol=4 * eps * np.abs(want).max(), err_msg=how.__name__)


# ------------------------------------------------------------------------------------ cost


def traced(main: Callable[[bsp.Process], Any], nprocs: int) -> list[tuple[str, int]]:
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    return [(row["call"], max(row["h_sent"], row["h_received"])) for row in rows]


@pytest.mark.parametrize("nprocs", [2, 3, 5])
def test_groups_cost_two_supersteps_and_the_words_of_the_groups(nprocs: int) -> None:
    size, groups, few = 60_000, 10_007, 12
    many, some = RNG.permutation(size) % groups, RNG.integers(0, few, size)

    def main(proc: bsp.Process) -> None:
        key, small, values = ba.asarray(many), ba.asarray(some), ba.asarray(np.ones(size))
        ba.comprehension("S[b[i]] = sum(x[i])", b=key, x=values)
        ba.comprehension("S[b[i]] = max(x[i])", b=key, x=values)
        ba.comprehension("S[b[i]] = sum(x[i]) for b[i] in 0:12", b=small, x=values)
        ba.comprehension("S[b[i]] = mean(x[i]) for b[i] in 0:12", b=small, x=values)

    grid = np.arange(nprocs + 1) * groups // nprocs
    part = np.diff(grid)
    dense = max(groups - part.min(), (nprocs - 1) * part.max())
    told, text = ("extremes", 2 * (nprocs - 1)), "groups to their owners"
    assert traced(main, nprocs) == [
        told, (text, dense), (text, dense), told, (text, (nprocs - 1) * few), (text, 2 * (nprocs - 1) * few)
    ]  # fmt: skip


@pytest.mark.parametrize("nprocs", [2, 4])
def test_of_more_groups_than_elements_only_those_travel_that_have_some(nprocs: int) -> None:
    size, groups = 40_000, 10_000_000
    key = RNG.choice(groups, size, replace=False)

    def main(proc: bsp.Process) -> list[float]:
        where, values = ba.asarray(key), ba.asarray(np.arange(float(size)))
        found = ba.comprehension("S[b[i]] = sum(x[i]) for b[i] in 0:n", b=where, x=values, n=groups)
        return [float(found.sum()), float(found[int(key[17])])]

    holder = np.arange(size) * nprocs // size
    owner = np.searchsorted(np.arange(nprocs + 1) * groups // nprocs, key, side="right") - 1
    goes = np.zeros((nprocs, nprocs), int)
    np.add.at(goes, (holder, owner), 2)  # its number, its value
    np.fill_diagonal(goes, 0)
    (_, extremes), (text, words), *_ = traced(main, nprocs)
    assert (extremes, text, words) == (
        2 * (nprocs - 1),
        "groups to their owners",
        max(goes.sum(0).max(), goes.sum(1).max()),
    )
    assert bsp.run(main, nprocs=nprocs) == [[float(np.arange(size).sum()), 17.0]] * nprocs


def test_groups_that_do_not_fit_into_the_memory_are_refused() -> None:
    def main(proc: bsp.Process) -> None:
        with ba.options(memory=1e9), pytest.raises(PlanTooLarge, match=r"10000000001 groups need 26\.7 GB on each"):
            ba.comprehension("S[b[i]] = sum(x[i])", b=np.array([3, 10**10]), x=x[:2])

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize("grid", [None, (2,)])
def test_a_key_by_mistake_far_too_large_is_refused_without_a_limit(grid: tuple[int, ...] | None) -> None:
    def main(proc: bsp.Process) -> None:
        key = np.array([3, 10**15])
        ba.comprehension("S[b[i]] = sum(1)", b=key if grid is None else ba.asarray(key, grid=grid))

    with pytest.raises(PlanTooLarge, match="comprehension: 1000000000000001 groups need 4 PB on each process, with"):
        bsp.run(main, nprocs=2)


def test_rows_by_group_stay_where_they_are() -> None:
    table, rows = RNG.normal(size=(4_000, 10)), RNG.integers(0, 6, 4_000)

    def main(proc: bsp.Process) -> None:
        given = {"r": ba.asarray(rows, grid=(4,)), "X": ba.asarray(table, grid=(4, 1))}
        ba.comprehension("S[r[i], j] = sum(X[i,j]) for r[i] in 0:6", **given)

    assert traced(main, 4) == [("extremes", 6), ("groups to their owners", 3 * 60)]


def test_a_run_without_values_takes_the_same_supersteps_and_no_fewer_words() -> None:
    def main(proc: bsp.Process) -> None:
        key, values = ba.asarray(np.arange(60_000) % 7_000), ba.ones(60_000).persist()
        for how in ("sum", "mean", "std"):
            ba.comprehension(f"S[b[i]] = {how}(x[i]) for b[i] in 0:7000", b=key, x=values)
        ba.comprehension("S[b[i]] = sum(x[i]) for b[i] in 0:9000000", b=key, x=values)

    steps = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
    measured = traced(main, 4)
    assert [row["call"] for row in steps] == [call for call, _ in measured]
    for row, (_, words) in zip(steps, measured, strict=True):
        assert max(row["h_sent"], row["h_received"]) >= words

    def unknown(proc: bsp.Process) -> None:
        ba.comprehension("S[b[i]] = sum(1)", b=ba.asarray(np.arange(60_000)))

    with pytest.raises(ValueNeeded, match=r"give their range: \.\.\. for b\[i\] in 0:n"):
        bsp.predict(unknown, nprocs=2, machine=bsp.Machine(p=2), abstract=True)


def test_explain_tells_what_a_group_by_was_expected_to_cost() -> None:
    def main(proc: bsp.Process) -> str:
        key, values = ba.asarray(np.arange(60_000) % 7), ba.ones(60_000).persist()
        return ba.comprehension("S[b[i]] = sum(x[i]) for b[i] in 0:7", b=key, x=values).explain()

    (text, *others) = bsp.run(main, nprocs=3)
    assert "groups to their owners" in text
    assert "2 supersteps" in text
    assert others == [text] * 2


# ---------------------------------------------------------------------------------- errors

ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("S[b[i]] = sum(x[i]) for b[i] in 0:8", BX,
     """group b[i] is 8, outside its range 0:8
    S[b[i]] = sum(x[i]) for b[i] in 0:8
      ^^^^"""),
    ("S[c[i], b[i]] = sum(1) for b[i] in 1:9", {"b": b, "c": c},
     """group b[i] is 0, outside its range 1:9
    S[c[i], b[i]] = sum(1) for b[i] in 1:9
            ^^^^"""),
    ("S[k[i]] = sum(x[i])", {"k": k, "x": x},
     """group k[i] is -50; groups are counted from 0
    S[k[i]] = sum(x[i])
      ^^^^"""),
    ("S[x[i]] = sum(1)", {"x": x},
     """groups are named by int64 or shorter integers; x[i] is float64
    S[x[i]] = sum(1)
      ^^^^"""),
    ("S[b[i]] = x[i]", BX,
     """b[i] on the left names groups, and no aggregate is on the right: S[...] = sum(x[i])?
    S[b[i]] = x[i]
      ^^^^"""),
    ("S[b[i]] = sum(x[i]) + w[i]", BX | {"w": w},
     """index 'i' is of the members of a group, and no aggregate is over it: outside of aggregates there are the \
indices on the left
    S[b[i]] = sum(x[i]) + w[i]
                            ^"""),
    ("S[i%2] = sum(x[i]) + i", {"x": x},
     """index 'i' is of the members of a group, and no aggregate is over it: outside of aggregates there are the \
indices on the left
    S[i%2] = sum(x[i]) + i
                         ^"""),
    ("S[b[i]] = sum(X[i,j])", {"b": b, "X": X},
     """index 'i' is 37 in X[i,j] (X has shape (37, 11)) and 1003 in b[i] (b has shape (1003,))
    S[b[i]] = sum(X[i,j])
        ^"""),
    ("S[b[i],b[i]] = sum(1)", {"b": b},
     """index 'b[i]' is on the left twice
    S[b[i],b[i]] = sum(1)
           ^^^^"""),
    ("S[b[i]] = sum(1) for c[i] in 0:9", {"b": b},
     """'c[i]' is no index on the left: a range is written: for i in start:stop, or start:stop:step
    S[b[i]] = sum(1) for c[i] in 0:9
                     ^^^^^^^^^^^^^^^"""),
    ("S[b[i]] = sum(1) for b[i] in 0:9:2", {"b": b},
     """the range of b[i] has step 2; of groups it is 1
    S[b[i]] = sum(1) for b[i] in 0:9:2
      ^^^^"""),
    ("S[r[i], j] = sum[j](X[i,j])", {"r": r, "X": X},
     """sum cannot be over 'j', which is on the left
    S[r[i], j] = sum[j](X[i,j])
                     ^"""),
    ("S[b[i]] = count(x[i])", BX,
     """'count' is no elementwise function or aggregate: write sum(1), or sum(condition)
    S[b[i]] = count(x[i])
              ^^^^^"""),
    ("S[b[i]] = sum(x[i])", BX | {"y": x},
     """the operand 'y' is not in the text
    S[b[i]] = sum(x[i])
              ^^^^^^^^^"""),
    ("S[b[i]] = max(d[i])", {"b": b, "d": x.astype("m8[s]")},
     """max of timedelta64[s]: a group of nothing has no date; aggregate its int64
    S[b[i]] = max(d[i])
              ^^^^^^^^^"""),
]  # fmt: skip


@pytest.mark.parametrize("text, operands, message", ERRORS)
def test_an_error_shows_its_place_and_is_the_same_on_every_process(
    text: str, operands: dict[str, Any], message: str
) -> None:
    def main(proc: bsp.Process) -> str:
        given = {
            name: ba.asarray(each, grid=(3,) * each.ndim) if isinstance(each, np.ndarray) else each
            for name, each in operands.items()
        }
        with pytest.raises(ComprehensionError) as found:
            ba.comprehension(text, **given)
        proc.sync()  # all are still in step
        return str(found.value)

    for nprocs in (1, 3):
        assert bsp.run(main, nprocs=nprocs) == [message] * nprocs
