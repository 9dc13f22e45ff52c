"""Dense matrix times vector: right for any shape and layout, n/√p words in each of two supersteps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bsp
import bsp.algorithms.matmul as mm
import bsp.arrays as ba
from bsp.errors import ShapeError


def integers(*shape: int, dtype: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 10, shape).astype(dtype)


def counted(main: Any, p: int, **options: Any) -> list[tuple[str, int]]:
    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), **options).per_superstep
    return [(str(row["label"]), max(row["h_sent"], row["h_received"])) for row in rows]


def stated(cost: mm.Counted) -> list[tuple[str, int]]:
    return [(step.what, step.h) for step in cost.steps]


@pytest.mark.parametrize("p", [1, 2, 3, 5, 7, 8, 64])
def test_matvec_is_numpys_for_any_shape(p: int) -> None:
    pairs = [(integers(m, n), integers(n)) for m, n in ((9, 9), (40, 3), (3, 40), (1, 20), (20, 1), (0, 4), (4, 0))]

    def main(proc: bsp.Process) -> list[np.ndarray]:
        found = [mm.matvec(a, x).compute() for a, x in pairs]
        return found + [mm.matvec(a, ba.asarray(x, grid=(max(1, min(p, len(x))),))).compute() for a, x in pairs]

    for found in bsp.run(main, nprocs=p):
        for product, (a, x) in zip(found, pairs * 2, strict=True):
            np.testing.assert_array_equal(product, a @ x)
            assert product.dtype == (a @ x).dtype


@pytest.mark.parametrize("grid", [(6, 1), (1, 6), (3, 2), (2, 2), (7, 5)])
def test_the_matrix_stays_where_it_lies_on_a_grid(grid: tuple[int, int]) -> None:
    a, x = integers(50, 31, dtype=np.float32), integers(31, dtype=np.float64)

    def main(proc: bsp.Process) -> np.ndarray:
        return mm.matvec(ba.asarray(a, grid=grid), ba.asarray(x, grid=(4,))).compute()

    for found in bsp.run(main, nprocs=6):
        np.testing.assert_array_equal(found, a @ x)


@pytest.mark.parametrize("p", [2, 4, 5, 6, 16, 64])
@pytest.mark.parametrize("shape", [(64, 64), (30, 77), (200, 3), (3, 200), (5, 5)])
def test_words_are_those_stated(shape: tuple[int, int], p: int) -> None:
    m, n = shape
    a, x = integers(m, n), integers(n)
    expected = stated(mm.matvec_cost(m, n, p, bsp.Machine(p=p)))

    def main(proc: bsp.Process) -> None:
        mm.matvec(a, ba.asarray(x, grid=(min(p, n),)))

    assert counted(main, p) == expected
    assert counted(main, p, abstract=True) == expected
    everywhere = counted(lambda proc: mm.matvec(a, x), p)
    assert everywhere == [step for step in expected if step[0] != "matvec: pieces of x"]


def test_the_cost_on_a_square_grid_is_that_of_the_chapter() -> None:
    n, q = 256, 8
    cost = mm.matvec_cost(n, n, q * q, grid=(q, q))
    assert cost.supersteps == 2
    assert cost.h == (n // q, n // q - n // q**2)
    assert cost.flops == 2 * n * n / q**2 + (q - 1) * n // q**2
    chosen = mm.matvec_cost(n, n, q * q, bsp.Machine(p=64, g=1e3, L=1.0, o=0.0))
    assert chosen.words <= cost.words


def test_the_result_is_the_next_vector() -> None:
    n, p = 60, 6
    a, x = integers(n, n) % 3, integers(n)

    def main(proc: bsp.Process) -> np.ndarray:
        matrix = ba.asarray(a, grid=(3, 2))
        y = ba.asarray(x, grid=(p,))
        for _ in range(3):
            y = mm.matvec(matrix, y)
        return y.compute()

    np.testing.assert_array_equal(bsp.run(main, nprocs=p)[0], a @ (a @ (a @ x)))
    labels = [label for label, _ in counted(lambda proc: main(proc), p)]
    assert labels[:6] == ["matvec: pieces of x", "matvec: partial sums"] * 3


def test_memory_is_not_below_what_a_run_without_values_takes() -> None:
    for p, grid in ((4, (2, 2)), (7, (7, 1)), (8, (2, 4)), (6, (1, 6))):
        found: list[ba.Forecast] = []

        def main(proc: bsp.Process) -> None:
            a, x = ba.ones((90, 70), grid=grid), ba.ones(70, grid=(p,))
            if proc.pid == 0:
                found.append(ba.forecast(mm.matvec, a, x))

        bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p))
        cost = mm.matvec_cost(90, 70, p, grid=grid)
        assert tuple(step.h for step in found[0].supersteps) == cost.h
        assert 0.7 * 8 * cost.memory <= found[0].peak_bytes <= 8 * cost.memory


def test_shapes_that_do_not_meet_are_refused() -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(
            ShapeError, match=r"A of shape \(2, 3\) and x of shape \(2,\); \(m, n\) and \(n,\) are wanted"
        ):
            mm.matvec(np.ones((2, 3)), np.ones(2))
        with pytest.raises(ShapeError):
            mm.matvec(np.ones(3), np.ones(3))

    bsp.run(main, nprocs=2)
