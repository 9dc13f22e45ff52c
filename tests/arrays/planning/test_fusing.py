"""A broadcast operand is computed once where that is cheaper than once for each point, and plans get no worse by it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from expressions import nothing_replicated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bsp
import bsp.arrays as ba
from bsp.arrays.expressions.graph import capture
from bsp.arrays.planning.plan import Plan
from bsp.arrays.planning.planner import Planner
from bsp.arrays.planning.planner import planned as planned_graph
from bsp.cost.model import Machine


def computed(plan: Plan) -> dict[str, list[int]]:
    """Return for each operation the points of the stages or factors that compute it."""
    found: dict[str, list[int]] = {}
    for stage in plan.stages:
        programs = getattr(stage.kernel, "programs", None) or [getattr(stage.kernel, "program", None)]
        for program in programs:
            for step in program.code if program is not None else ():
                found.setdefault(step.op.name, []).append(int(np.prod(stage.labels)))
    return found


DEAR = {
    "outer product": lambda x, y: ba.sin(x)[:, None] * ba.cos(y)[None, :],
    "reduction": lambda x, y: (ba.sin(x)[:, None] * ba.cos(y)[None, :]).sum(axis=0),
    "extreme of sums": lambda x, y: ba.max(ba.sin(x)[:, None] + ba.cos(y), axis=1),
    "factor": lambda x, y: (ba.sin(x)[:, None] * (x[:, None] + y)).T @ x,
    "comprehension": lambda x, y: ba.comprehension("S[j] = sum(sin(x[i]) + cos(y[j]))", x=x, y=y),
}


@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("name", list(DEAR))
def test_a_dear_operand_is_computed_once_for_each_of_its_elements(name: str, p: int) -> None:
    n, m = 1501, 1203
    a, b = np.random.default_rng(1).normal(size=(2, n))
    b = b[:m]

    def main(proc: bsp.Process) -> tuple[dict[str, list[int]], Any]:
        found = DEAR[name](ba.asarray(a), ba.asarray(b))
        return computed(found.plan()), found.compute()

    expected: Any = {
        "outer product": lambda: np.sin(a)[:, None] * np.cos(b),
        "reduction": lambda: (np.sin(a)[:, None] * np.cos(b)).sum(axis=0),
        "extreme of sums": lambda: (np.sin(a)[:, None] + np.cos(b)).max(axis=1),
        "comprehension": lambda: np.sin(a).sum() + n * np.cos(b),
        "factor": lambda: (np.sin(a)[:, None] * (a[:, None] + b)).T @ a,
    }[name]()
    for points, result in bsp.run(main, nprocs=p):
        assert points["sin"] == [n]
        assert points.get("cos", [m]) == [m]
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12 * n)


def test_what_costs_less_than_a_stage_stays_fused() -> None:
    x, y = ba.ones(30), ba.ones((400, 500))
    for few in (ba.sin(x)[:, None] * x, y + (y * 2)[:, ::-1], ba.exp(y) * y):
        assert len(few.plan().stages) == 1


def test_of_a_slice_no_more_than_the_slice_is_computed() -> None:
    x = ba.ones((4000, 500))
    for found in (ba.sin(x)[0] * x, ba.sin(x[0]) * x):
        assert computed(found.plan()) == {"sin": [500], "multiply": [4000 * 500]}
    assert computed((ba.sin(x)[:2000] * x[2000:]).plan()) == {"sin": [10**6], "multiply": [10**6]}


def test_what_two_stages_reduce_or_multiply_is_computed_once() -> None:
    x = ba.ones((300, 200))
    y = ba.exp(x)
    n, m = x.shape
    for results in ((y.sum(axis=0), y.max(axis=0)), (y.T @ x, y @ x.T), (y, ba.std(y))):
        graph = capture([each._node for each in results])
        assert computed(planned_graph(graph, 1, Machine()))["exp"] == [n * m]


def test_parts_of_an_assembly_are_computed_in_place() -> None:
    x, y = ba.ones((50, 40)), ba.full((50, 40), 2.0)
    inside = x.copy()
    inside[1:-1] = 2 * y[2:] - y[:-2]
    for found, stages in ((inside, 1), (ba.concat([x * 2, y + 1]), 1), (ba.roll(x * 2, 3, 0), 2)):
        assert len(found.plan().stages) == stages


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_slices_written_over_each_other_give_numpys_values(p: int) -> None:
    rng = np.random.default_rng(3)
    data = rng.normal(size=(13, 17))

    def program(space: Any, u: Any) -> list[Any]:
        steps, smooth = [], u.copy()
        smooth[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        steps.append(smooth)
        twice = u * 3
        twice[2:9] = u[2:9] * 2
        twice[5:, ::3] = space.sqrt(abs(u[5:, ::3]))
        twice[:, 4] = 7
        steps.append(twice)
        hidden = u + 1
        hidden[:] = u[::-1] * u
        hidden[3:3] = 0
        steps.append(hidden)
        steps.append(space.concatenate([u * 2, u[:, :1] - u, smooth + twice], axis=1))
        return steps

    def main(proc: bsp.Process) -> None:
        for grid in (None, (4, 5)):
            for found, expected in zip(program(ba, ba.asarray(data, grid=grid)), program(np, data), strict=True):
                np.testing.assert_allclose(found.compute(), expected, rtol=1e-14, atol=0)

    bsp.run(main, nprocs=p)
    with nothing_replicated():
        bsp.run(main, nprocs=p)


def test_a_jacobi_step_moves_the_border_in_one_superstep() -> None:
    def main(proc: bsp.Process) -> tuple[int, int]:
        u = ba.zeros((600, 600))
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return new.plan().boundaries, new.plan().words

    assert bsp.run(main, nprocs=6) == [(1, 2 * 299 + 200)] * 6


@pytest.mark.parametrize("p", [1, 2])
def test_results_of_transposed_operands_are_stored_by_columns(p: int) -> None:
    data = np.random.default_rng(0).normal(size=(300, 200))

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data)
        found = (ba.reshape(x, (200, 300)).T * 2 + x).persist()
        np.testing.assert_array_equal(found.compute(), data.reshape(200, 300).T * 2 + data)
        found = (x.T * x[0][:, None] + 1).persist()
        np.testing.assert_array_equal(found.compute(), data.T * data[0][:, None] + 1)
        assert all(block.flags.f_contiguous for block in found._node.value.values())

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_results_of_permuted_operands_are_stored_as_these(p: int, order: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).normal(size=(40, 50, 60))

    def main(proc: bsp.Process) -> None:
        x = ba.permute_dims(ba.asarray(data), order)
        y = data.transpose(order)
        found = (x * 2 + x[0] + x).persist()
        np.testing.assert_array_equal(found.compute(), y * 2 + y[0] + y)
        back = np.argsort(order)
        assert all(block.transpose(back).flags.c_contiguous for block in found._node.value.values())
        np.testing.assert_array_equal((found - ba.asarray(y)).compute(), y * 2 + y[0] + y - y)

    bsp.run(main, nprocs=p)


def test_the_machine_decides() -> None:
    def stages(**rates: float) -> int:
        x = ba.ones(2000)
        graph = capture([((x + 1)[:, None] * x)._node])
        machine = Machine(rates={**dict.fromkeys(("blas1", "blas2", "blas3", "bandwidth"), 1e10), **rates})
        return len(planned_graph(graph, 1, machine).stages)

    assert stages(elementwise=1e9) == 2
    assert stages(elementwise=1e13) == 1


@st.composite
def broadcast_expressions(draw: Any) -> tuple[int, int, int, list[str], list[bool]]:
    """(p, rows, columns, functions of the operands, which of them are dealt by columns)."""
    names = draw(st.lists(st.sampled_from(["cos", "sin", "tanh", "abs"]), min_size=2, max_size=3))
    ways = [draw(st.booleans()) for _ in names]
    size = st.sampled_from([1, 2, 7, 300, 1000])
    return draw(st.sampled_from([2, 3, 8])), draw(size), draw(size), names, ways


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(broadcast_expressions())
def test_words_and_supersteps_are_never_more_than_fused(case: tuple[int, int, int, list[str], list[bool]]) -> None:
    p, rows, columns, names, ways = case
    rng = np.random.default_rng(rows + columns)
    whole, parts = rng.random((rows, columns)), [rng.random(columns if way else rows) for way in ways]

    def expression(space: Any, full: Any, vectors: list[Any]) -> Any:
        for name, vector, way in zip(names, vectors, ways, strict=True):
            value = getattr(space, name)(vector * 2 + full[0, 0])
            full = full + (value[None, :] if way else value[:, None])
        return full

    def main(proc: bsp.Process) -> None:
        dealt = [ba.asarray(part, grid=(p,)) for part in parts]
        found = expression(ba, ba.asarray(whole, grid=(2, p)), dealt)
        graph = capture([found._node])
        plan = planned_graph(graph, p, proc.machine)
        fused = Planner(graph, p, proc.machine, plain=True).plan(0)
        assert plan.words <= fused.words
        assert plan.boundaries <= fused.boundaries
        np.testing.assert_allclose(found.compute(), expression(np, whole, parts), rtol=1e-14, atol=0)

    with nothing_replicated():
        bsp.run(main, nprocs=p)
