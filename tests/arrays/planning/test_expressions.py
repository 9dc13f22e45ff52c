"""Whatever the program, the layout and p: NumPy's values, shape and dtype; and the plan's words are the trace's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from expressions import applied, nothing_replicated, programs
from hypothesis import given
from thinning import examples

import bsp
import bsp.arrays as ba

MACHINE = bsp.Machine(p=4)


def compared(p: int, shape: tuple[int, ...], grid: Any, steps: list[Any]) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=shape)
    with np.errstate(all="ignore"):
        expected = data
        for step in steps:
            expected = np.asarray(applied(np, expected, step))
    planned: list[list[int]] = []

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=grid)
        for step in steps:
            x = applied(ba, x, step)
        here: list[int] = []
        steps_before = proc.superstep
        with np.errstate(all="ignore"):
            plan = x.plan()
            x.persist()
            here += [step.h for step in plan.supersteps[: plan.boundaries]]
            assert proc.superstep - steps_before == plan.boundaries
            assert plan.peaks.shape == (p,)
            found = x.compute()
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 * scale * max(1, expected.size))
        if proc.pid == 0:
            planned.append([steps_before, *here])

    traced = bsp.predict(main, nprocs=p, machine=MACHINE)
    first, *words = planned[0]
    assert [max(row["h_sent"], row["h_received"]) for row in traced.per_superstep[first : first + len(words)]] == words


@examples(1000)
@given(programs())
def test_random_expressions_give_numpys_values_and_the_plans_words(program: Any) -> None:
    compared(*program)


@examples(100)
@given(programs())
def test_nothing_changes_where_no_array_is_small_enough_to_be_replicated(program: Any) -> None:
    with nothing_replicated():
        compared(*program)


def test_deep_expressions_of_every_kind_are_planned_without_recursion() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.ones((4, 4), grid=(2, 2))
        product, chain, line, turned = x, x, ba.zeros(50, grid=(3,)), ba.arange(30, grid=(2,))
        for _ in range(300):
            product = (product @ x) * 0.25
        for _ in range(3000):
            chain = chain + 1.0
        for k in range(250):
            line[k % 50] = float(k)
            turned = ba.roll(turned, 1)[::-1]
        np.testing.assert_allclose(product.compute(), np.ones((4, 4)), rtol=0, atol=1e-12)
        assert chain.compute()[0, 0] == 3001
        np.testing.assert_array_equal(line.compute(), np.arange(200.0, 250.0))
        assert sorted(turned.compute().tolist()) == list(range(30))

    bsp.run(main, nprocs=3)


def test_numbers_that_differ_between_processes_make_no_array() -> None:
    def main(proc: bsp.Process) -> None:
        (ba.ones(100, grid=(3,)) * float(proc.pid)).compute()

    with pytest.raises(bsp.SyncMismatch, match=r"\(x0 \* c\) with c = 2\.0 at test_expressions\.py"):
        bsp.run(main, nprocs=3)


DEEP: dict[str, Callable[[Any], Any]] = {
    "ufunc": lambda x: x * 0.5 + 1,
    "view": lambda x: x[::-1],
    "roll": lambda x: ba.roll(x, 1),
    "reduction": lambda x: x - ba.sum(x) * 0,
    "matmul": lambda x: ba.asarray(np.eye(10), grid=(3, 1)) @ x,
}


@pytest.mark.parametrize("name", list(DEEP))
def test_expressions_may_be_hundreds_of_operations_deep(name: str) -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.ones(10), grid=(3,))
        for _ in range(1000 if name in ("ufunc", "view") else 300):
            x = DEEP[name](x)
        x.compute()

    bsp.run(main, nprocs=2)


def test_a_loop_may_assign_a_thousand_elements() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.zeros(1000), grid=(3,))
        for k in range(1000):
            x[k] = 2.0 * k
        np.testing.assert_array_equal(x.compute(), 2.0 * np.arange(1000))

    bsp.run(main, nprocs=2)


def test_several_results_of_a_ufunc_may_be_computed_one_after_the_other() -> None:
    def main(proc: bsp.Process) -> None:
        quotient, rest = divmod(ba.asarray(np.arange(9), grid=(3,)), 4)
        np.testing.assert_array_equal(quotient.compute(), np.arange(9) // 4)
        np.testing.assert_array_equal(rest.compute(), np.arange(9) % 4)

    bsp.run(main, nprocs=3)
