"""Chains of `@` are multiplied in the order that takes fewest operations, by their shapes alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.planning.chains import splits

RNG = np.random.default_rng(3)
N = 96
A, B, C, v, u = *(RNG.normal(size=(N, N)) for _ in range(3)), RNG.normal(size=N), RNG.normal(size=N)
TALL, WIDE = RNG.normal(size=(400, 6)), RNG.normal(size=(6, 400))

CHAINS: dict[str, Callable[..., Any]] = {
    "A @ B @ C @ v": lambda A, B, C, v, u, TALL, WIDE: A @ B @ C @ v,
    "u @ (A @ (B @ C))": lambda A, B, C, v, u, TALL, WIDE: u @ (A @ (B @ C)),
    "u @ A @ B @ v": lambda A, B, C, v, u, TALL, WIDE: u @ (A @ B) @ v,
    "A @ B.T @ C.T @ v": lambda A, B, C, v, u, TALL, WIDE: A @ B.T @ C.T @ v,
    "TALL @ WIDE @ TALL": lambda A, B, C, v, u, TALL, WIDE: TALL @ WIDE @ TALL,
    "TALL @ WIDE @ TALL @ WIDE @ TALL": lambda A, B, C, v, u, TALL, WIDE: TALL @ WIDE @ TALL @ WIDE @ TALL,
    "(A + 1) @ exp(B / 9) @ (v * 2)": lambda A, B, C, v, u, TALL, WIDE: (A + 1) @ np.exp(B / 9) @ (v * 2),
    "(A @ v) @ B @ C": lambda A, B, C, v, u, TALL, WIDE: (A @ v) @ B @ C,
    "A @ (u @ B) @ C": lambda A, B, C, v, u, TALL, WIDE: A @ (u @ B) @ C,
    "A @ B @ v + A @ B @ u": lambda A, B, C, v, u, TALL, WIDE: A @ B @ v + A @ B @ u,
}
OPERANDS = (A, B, C, v, u, TALL, WIDE)


def names(found: Any) -> str:
    """What the last product of a plan is called."""
    last = [stage.what for stage in found.plan().stages if "@" in stage.what][-1]
    return re.sub("merged |partial ", "", last)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4, 7])
def test_every_chain_has_numpys_values(nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[np.ndarray]:
        dealt = [ba.asarray(each, grid=(2,) * each.ndim) for each in OPERANDS]
        return [np.array(call(*dealt).compute()) for call in CHAINS.values()]

    for found in bsp.run(main, nprocs=nprocs):
        for (name, call), got in zip(CHAINS.items(), found, strict=True):
            want = call(*OPERANDS)
            scale = call(*map(abs, OPERANDS))  # the bound of rounding holds in every order
            np.testing.assert_allclose(got, want, rtol=0, atol=1e3 * np.finfo(float).eps * scale.max(), err_msg=name)


@pytest.mark.parametrize("nprocs", [2, 4])
def test_a_chain_that_ends_in_a_vector_moves_vectors_only(nprocs: int) -> None:
    def main(proc: bsp.Process) -> tuple[Any, ...]:
        a, b, c, x = (ba.asarray(each, grid=(2,) * each.ndim) for each in (A, B, C, v))
        chain, dot, one = a @ b @ c @ x, ba.linalg.multi_dot([a, b, c, x]), a @ x
        plans = chain.plan(), dot.plan(), one.plan()
        return names(chain), *[plan.words for plan in plans], plans[0].flops, plans[2].flops

    for name, words, by_multi_dot, of_one, flops, each in bsp.run(main, nprocs=nprocs):
        assert name == "x0 @ (x1 @ (x2 @ x3))"
        assert words == by_multi_dot
        assert words <= 3 * max(of_one, 2 * N)
        assert flops <= 3 * each + 4 * N


def test_the_order_follows_from_shapes_and_not_from_layouts_or_processes() -> None:
    def main(proc: bsp.Process) -> list[str]:
        found = []
        for grid in (None, (1, 1), (2, 2), (4, 1), (1, 3)):
            a, b, c = (ba.asarray(each, grid=grid) for each in (A, B, C))
            x, tall, wide = ba.asarray(v), ba.asarray(TALL, grid=grid), ba.asarray(WIDE, grid=grid)
            found += [names(each) for each in (a @ b @ c @ x, tall @ wide @ tall, a @ b @ c)]
        return found

    orders = {order for nprocs in (1, 2, 3, 5) for found in bsp.run(main, nprocs=nprocs) for order in found}
    bracketed = {order for order in orders if re.fullmatch(r"v\d @ x2", order)}
    assert bracketed  # of square matrices no order is better than Python's
    assert orders - bracketed == {"x0 @ (x1 @ (x2 @ x3))", "x0 @ (x1 @ x0)"}


@pytest.mark.parametrize("dtype", [np.int8, np.int64, bool])
def test_what_is_exact_stays_exact(dtype: Any) -> None:
    a, b = (RNG.integers(-100, 100, (40, 40)).astype(dtype) for _ in range(2))
    x = RNG.integers(-100, 100, 40).astype(dtype)

    def main(proc: bsp.Process) -> np.ndarray:
        return np.array((ba.asarray(a, grid=(2, 2)) @ ba.asarray(b, grid=(2, 2)) @ ba.asarray(x, grid=(2,))).compute())

    for found in bsp.run(main, nprocs=3):
        np.testing.assert_array_equal(found, a @ b @ x)  # int8 overflows alike in every order
        assert found.dtype == (a @ b @ x).dtype


def test_products_of_several_dtypes_are_multiplied_as_written() -> None:
    a, b, x = (np.full((60, 60), 100, np.int8), np.full((60, 60), 100, np.int8), np.ones(60))

    def main(proc: bsp.Process) -> np.ndarray:
        return np.array((ba.asarray(a, grid=(2, 2)) @ ba.asarray(b, grid=(2, 2)) @ ba.asarray(x, grid=(2,))).compute())

    for found in bsp.run(main, nprocs=2):
        np.testing.assert_array_equal(found, a @ b @ x)  # sums of int8 that have overflowed


def test_a_product_with_another_use_is_made_and_one_in_a_loop_is_kept() -> None:
    def main(proc: bsp.Process) -> list[Any]:
        a, b, x = ba.asarray(A, grid=(2, 2)), ba.asarray(B, grid=(2, 2)), ba.asarray(v)
        p = a @ b
        both = (p @ x + p.sum(axis=1)).plan()
        found = [sum("x0 @ x1" in stage.what for stage in both.stages) > 0]
        loop = a @ b
        for _ in range(3):
            found.append(max(stage.out.layout.shape == (N, N) for stage in (loop @ x).plan().stages))
            (loop @ x).persist()
        return [*found, repr(loop)[-5:] != "lazy>"]

    # made where it is used twice; never, then once, then there
    assert bsp.run(main, nprocs=4) == [[True, False, True, False, True]] * 4


@given(st.lists(st.integers(1, 30), min_size=3, max_size=7))
@examples(60)
def test_the_division_is_the_best_of_all_brackets(lengths: list[int]) -> None:
    def every(i: int, j: int) -> int:
        if i == j:
            return 0
        return min(
            every(i, k) + every(k + 1, j) + lengths[i] * lengths[k + 1] * lengths[j + 1] for k in range(i, j)
        )  # fmt: skip

    def taken(i: int, j: int) -> int:
        if i == j:
            return 0
        k = best[i, j]
        return taken(i, k) + taken(k + 1, j) + lengths[i] * lengths[k + 1] * lengths[j + 1]

    best, price = splits(tuple(lengths))
    last = len(lengths) - 2
    assert price[0, last] == every(0, last) == taken(0, last)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_chains_of_random_shapes_and_brackets_are_numpys(nprocs: int) -> None:
    rng = np.random.default_rng(nprocs)
    cases = []
    for _ in range(25):
        count = int(rng.integers(3, 6))
        lengths = rng.choice([1, 2, 7, 40], count + 1)
        factors = [rng.integers(-3, 4, pair).astype(float) for pair in itertools.pairwise(lengths)]
        if rng.random() < 0.5:
            factors[0] = factors[0][0]
        if rng.random() < 0.5:
            factors[-1] = factors[-1][:, 0]
        order = [int(rng.integers(0, left)) for left in range(count - 1, 0, -1)]
        cases.append((factors, order))

    def multiplied(factors: list[Any], order: list[int]) -> Any:
        rest = list(factors)
        for k in order:
            if rest[k].ndim == 1 and k > 0 and rest[k + 1].ndim == 1:
                k -= 1  # two vectors in the middle come from A @ v and u @ B: no chain
            rest[k : k + 2] = [rest[k] @ rest[k + 1]]
        return rest[0]

    def main(proc: bsp.Process) -> list[Any]:
        found = []
        for factors, order in cases:
            dealt = [ba.asarray(each, grid=(2,) * each.ndim) for each in factors]
            found.append(np.array(multiplied(dealt, order).compute()))
        return found

    for found in bsp.run(main, nprocs=nprocs):
        for (factors, order), got in zip(cases, found, strict=True):
            np.testing.assert_array_equal(got, multiplied(factors, order))  # small integers: exact in every order
