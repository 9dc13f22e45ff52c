"""select, choose, piecewise and block are NumPy's, errors included."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba

RNG = np.random.default_rng(0)
V, A, K = RNG.normal(size=17), RNG.normal(size=(6, 5)), RNG.integers(0, 3, 17)


def test_select() -> None:
    as_numpys(
        {
            "two": lambda v, a, k: np.select([v < 0, v > 1], [v, v * 2], 5.0),
            "numbers": lambda v, a, k: np.select([v < 0, v > 1], [1, 2]),
            "broadcast": lambda v, a, k: np.select([a < 0, a[:1] > 1], [a, a[:, :1]], -1),
            "promoted": lambda v, a, k: np.select([k == 0, k == 1], [k.astype(np.int8), 1.5], 0),
            "weak": lambda v, a, k: np.select([k == 0], [k.astype(np.float32)], 0.5),
            "first wins": lambda v, a, k: np.select([v < 1, v < 2], [1, 2], 3),
            "no boolean": lambda v, a, k: np.select([k], [v]),
            "other counts": lambda v, a, k: np.select([v < 0], [v, v]),
            "nothing": lambda v, a, k: np.select([], [v]),
            "shapes that do not fit": lambda v, a, k: np.select([v < 0], [a]),
        },
        [V, A, K],
    )


@examples(30)
@given(
    st.sampled_from("?bBhefdFDMm"), st.sampled_from(["one", "lines", "column", "number"]), st.floats(0, 1),
    st.integers(1, 3),
)  # fmt: skip
def test_where_takes_the_bits_of_one_or_the_other(dtype: str, other: str, share: float, nprocs: int) -> None:
    kind = np.dtype(f"{dtype}8[s]" if dtype in "Mm" else dtype)
    values = RNG.integers(-100, 100, (23, 7)).astype(np.int8).astype(kind)
    if dtype in "efdFD":
        values.flat[::5] = np.nan
        values.flat[1::5] = -0.0
    held = RNG.random((23, 7)) < share
    second = {"one": values[::-1], "lines": values[:1], "column": values[:, :1], "number": values[2, 3]}[other]

    def main(proc: bsp.Process) -> list[bytes]:
        x, mask = ba.asarray(values, grid=(3, 1)), ba.asarray(held, grid=(2, 2))
        found = [ba.where(mask, x, second), ba.where(mask[:, :1], x, second)]
        x[mask] = values[0, 0]
        return [each.compute().tobytes() for each in (*found, x)]

    changed = values.copy()
    changed[held] = values[0, 0]
    expected = [np.where(held, values, second), np.where(held[:, :1], values, second), changed]
    assert bsp.run(main, nprocs=nprocs) == [[each.tobytes() for each in expected]] * nprocs


@examples(40)
@given(st.sampled_from(["raise", "wrap", "clip", "none"]), st.integers(1, 4), st.booleans(), st.integers(1, 4))
def test_choose(mode: str, count: int, bad: bool, nprocs: int) -> None:
    at = RNG.integers(-2 if bad else 0, 9 if bad else count, 17)
    as_numpys(
        {
            "lists": lambda k, v: np.choose(k, [v, 2 * v, k, 1.5][:count], mode=mode),
            "rows": lambda k, v: k.choose(np.arange(17 * count).reshape(count, 17), mode=mode),
            "broadcast": lambda k, v: np.choose(k[:, None], [v, k][:count], mode=mode),
        },
        [at, V], nprocs=nprocs, ways=("blocks", "ragged"),
    )  # fmt: skip


def test_choose_takes_integers_only() -> None:
    as_numpys(
        {
            "floats": lambda v, k: np.choose(v, [1, 2, 3]),
            "booleans": lambda v, k: np.choose(v > 0, [1, 2]),
            "out": lambda v, k: np.choose(k, [1, 2, 3], np.zeros_like(k)),
            "no choices": lambda v, k: np.choose(k, []),
        },
        [V, K],
    )


def test_piecewise() -> None:
    as_numpys(
        {
            "numbers": lambda v, a, k: np.piecewise(v, [v < 0, v >= 0], [-1, 1]),
            "functions": lambda v, a, k: np.piecewise(v, [v < 0, v >= 1], [lambda x: -x, lambda x: x * x, 7]),
            "one condition": lambda v, a, k: np.piecewise(v, v > 0, [lambda x: np.log(x), 0.0]),
            "a matrix": lambda v, a, k: np.piecewise(a, [a < 0, a > 1], [lambda x, y: x * y, 9], 3),
            "named": lambda v, a, k: np.piecewise(a, a < 0, [lambda x, by: x / by, 1], by=2),
            "integers": lambda v, a, k: np.piecewise(k, [k == 0, k == 1], [lambda x: x + 0.7, 5.9]),
            "sums of what is chosen": lambda v, a, k: np.piecewise(k, [k > 0], [lambda x: x.sum()]),
            "rows of an array": lambda v, a, k: np.piecewise(v, np.stack([v < 0, v > 1]), [1, 2, 3]),
            "too many": lambda v, a, k: np.piecewise(v, [v < 0], [1, 2, 3]),
            "nowhere": lambda v, a, k: np.piecewise(v, [v > 99], [lambda x: 1 / 0]),
        },
        [V, A, K],
    )


def test_blocks_of_blocks() -> None:
    as_numpys(
        {
            "four": lambda v, a, k: np.block([[a, a * 2], [a * 3, a[:, ::-1]]]),
            "vectors": lambda v, a, k: np.block([v, k, 3]),
            "rows and numbers": lambda v, a, k: np.block([[a], [v[:5]]]),
            "of three axes": lambda v, a, k: np.block([[a[:2, None]], [a[:2, None]]]),
            "one": lambda v, a, k: np.block(v),
            "depths": lambda v, a, k: np.block([v, [k]]),
            "empty": lambda v, a, k: np.block([[v], []]),
            "tuple": lambda v, a, k: np.block([(v, k)]),
            "that do not fit": lambda v, a, k: np.block([[a, v]]),
        },
        [V, A, K],
    )


def test_arrays_that_are_equal_when_repeated() -> None:
    as_numpys(
        {
            "row": lambda v, a, k: np.array_equiv(a * 0 + v[:5], v[:5]),
            "other": lambda v, a, k: np.array_equiv(a, v[:5]),
            "shapes": lambda v, a, k: np.array_equiv(a, v),
        },
        [V, A, K],
    )


def test_choices_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(50_000))
        k = (x * 3).astype(int)
        for found in (ba.select([x < 0.2, x > 0.7], [x, 1.0]), ba.choose(k, [x, 2.0, 3.0]),
                      ba.piecewise(x, [x < 0.5], [lambda y: y * y, 0.0]), ba.block([x, x])):  # fmt: skip
            assert found.persist().shape[0] >= 50_000

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
