"""Plans are data, made from coordinates alone, and say beforehand what running them takes."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import random

import bsp
import bsp.arrays as ba
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution import world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.expressions.layout import asked
from bsp.arrays.planning import placing, stages
from bsp.arrays.planning.hosts import Hosts
from bsp.arrays.planning.moves import pieces
from bsp.arrays.planning.planner import Planner
from bsp.cost.model import Level, Machine
from bsp.values import by_value
from tools import arrays_study as study


class Untouchable(dict):  # type: ignore[type-arg]
    """Blocks that must not be looked at."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError(f"block {key} was touched")


def dealt(shape: tuple[int, ...], p: int, grid: tuple[int, ...]) -> Array:
    return wrap(leaf(shape, np.dtype(float), asked(shape, p, grid, None), Untouchable()))


def expressions(p: int) -> dict[str, Array]:
    x, y = dealt((1 << 20, 64), p, (p, 1)), dealt((1 << 20, 64), p, (p, 1))
    a, b = dealt((4096, 4096), p, (2, p)), dealt((4096, 4096), p, (p, 2))
    return {
        "map": ba.sqrt(x * x + y * y),
        "gram": x.T @ y,
        "square": a @ b,
        "slices": a[1:, ::-2] - a[:-1, 1::2],
        "reshape": ba.reshape(a, (1 << 12, 64, 64)),
        "concat": ba.concat([a, b], axis=1),
        "scan": ba.cumsum(a, axis=0),
        "moments": ba.std(x, axis=0),
        "three": ba.einsum("ij,jk,kl->il", a, b, a),
    }


@pytest.mark.parametrize("reduced", [ba.sum, ba.prod, ba.mean, ba.std, ba.argmax, ba.any])
@pytest.mark.parametrize("p", [1, 3])
def test_a_plan_can_be_pickled(reduced: Callable[[Any], Any], p: int) -> None:
    """`Session.run` and `bsp.run` return plans from the processes that have made them."""

    def main(proc: bsp.Process) -> tuple[bytes, str]:
        x = ba.ones((8, 3), grid=(p, 1))
        plan = (reduced(x) + x.T @ x).plan()
        return by_value.dumps(plan), plan.explain()

    for data, text in bsp.run(main, nprocs=p):
        assert pickle.loads(data).explain() == text


@pytest.mark.parametrize("name", list(expressions(1)))
@pytest.mark.parametrize("schedule", study.SCHEDULES)
def test_planning_touches_no_block(name: str, schedule: str) -> None:
    plan = study.planned([expressions(12)[name]], 12, schedule)
    assert plan.boundaries >= 1
    assert "superstep" in plan.explain()


@pytest.mark.parametrize("p", [2, 3, 5, 7, 8, 12])
def test_a_product_keeps_all_processes_busy(p: int) -> None:
    for a, b in (((600, 500), (500, 400)), ((100_000, 8), (8, 8)), ((50, 90_000), (90_000, 60))):
        x, y = dealt(a, p, (1, 1)), dealt(b, p, (1, 1))
        (stage,) = [each for each in study.planned([x @ y], p, "patterns").stages if hasattr(each.kernel, "factors")]
        held = stage.tasks.held(p)
        assert held.min() > 0
        assert held.max() <= 1.5 * held.mean()


def test_a_square_product_on_a_square_grid_moves_what_summa_moves() -> None:
    n, p, side = 256, 16, 4
    machine = bsp.Machine(p=p, g=100.0, o=0.0, L=1e3)
    a, b = dealt((n, n), p, (side, side)), dealt((n, n), p, (side, side))
    plan = study.planned([a @ b], p, "patterns", machine)
    assert plan.words == 2 * n * n // side - 2 * n * n // p
    assert plan.boundaries == 1


def test_a_tall_product_sums_where_the_large_operand_lives() -> None:
    p, d = 8, 16
    x = dealt((1 << 18, d), p, (p, 1))
    plan = study.planned([x.T @ x], p, "patterns")
    assert plan.stages[0].pattern == "partial reduce"
    assert plan.supersteps[0].h <= (p - 1) * d * d
    assert not any(fetch.ref.value.leaf >= 0 and fetch.moves for fetch in plan.fetches)


@pytest.mark.parametrize("grid", [(8, 1), (1, 8), (2, 4), (4, 2)])
def test_a_product_is_computed_where_it_is_used(grid: tuple[int, int]) -> None:
    """An update of low rank reads its thin factors at the blocks that it updates, and moves none of those."""
    (rows, columns), k = grid, 16
    a, b, c = dealt((4096, k), 8, (8, 1)), dealt((k, 4096), 8, (1, 8)), dealt((4096, 4096), 8, grid)
    plan = study.planned([0.5 * c - 2.0 * (a @ b)], 8, "patterns")
    assert plan.boundaries == 1
    assert plan.words <= (4096 // rows + 4096 // columns) * k


@pytest.mark.parametrize("grid", [(8, 1), (1, 8), (2, 4), (4, 2)])
def test_partial_sums_are_merged_where_they_are_used(grid: tuple[int, int]) -> None:
    a, b, c = dealt((512, 1 << 20), 8, (1, 8)), dealt((1 << 20, 512), 8, (8, 1)), dealt((512, 512), 8, grid)
    plan = study.planned([c + a @ b], 8, "patterns")
    assert plan.boundaries == 1
    assert plan.words <= 512 * 512


def test_transposes_slices_and_chains_disappear_into_one_stage() -> None:
    x = dealt((1000, 30), 4, (4, 1))
    plan = study.planned([((x.T * 2 + 1)[3:5] ** 2).sum(axis=0)], 4, "patterns")
    assert len(plan.stages) == 1
    assert plan.words == 0


def test_what_two_stages_need_is_computed_once() -> None:
    x = dealt((1000, 30), 4, (4, 1))
    mu = 1 / (1 + ba.exp(x @ dealt((30,), 4, (1,))))
    plan = study.planned([x.T @ (mu - 1), x.T @ ((mu * (1 - mu))[:, None] * x)], 4, "patterns")
    exponentials = [
        stage for stage in plan.stages for step in getattr(getattr(stage.kernel, "program", None), "code", ())
        if step.op.name == "exp"
    ]  # fmt: skip
    assert len(exponentials) == 1


@pytest.mark.parametrize("name", ["X @ Y.T", "Newton step", "MTTKRP ijk,if,jf->kf"])
def test_patterns_move_and_hold_no_more_than_the_other_schedules(name: str) -> None:
    (case,) = [case for case in study._cases() if case.name == name]
    counts = {schedule: study.counted(study.planned(case.build(64), 64, schedule)) for schedule in study.SCHEDULES}
    for other in ("round-robin", "lshs"):
        assert counts["patterns"].into <= counts[other].into
        assert counts["patterns"].memory <= counts[other].memory


def test_a_newton_step_beats_what_nums_reports() -> None:
    (case,) = [case for case in study._cases() if case.name == "Newton step"]
    robin, ours = (study.counted(study.planned(case.build(512), 512, way)) for way in ("round-robin", "patterns"))
    assert robin.into >= 2 * ours.into  # NumS, section 5: two times less network,
    assert robin.memory >= 4 * ours.memory  # and four times less memory


@pytest.mark.thorough
def test_the_document_of_the_study_is_what_the_study_gives() -> None:
    import pathlib

    document = pathlib.Path(__file__).parents[3] / "docs" / "arrays-study.md"
    assert document.read_text() == study.HEAD + study.table() + "\n"


def test_the_second_round_of_a_loop_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[int] = []
    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda self, gather: plans.append(1) or plan(self, gather))

    def main(proc: bsp.Process) -> int:
        x = ba.from_function(lambda i, j: i + j, (40_000, 3), dtype=float)
        w = ba.zeros(3)
        before = 0
        for k in range(5):
            if k == 2:
                before = len(plans)
            gradient = x.T @ (x @ w - 1.0 * k) * 1e-9
            w = w - (0.5 / (k + 1)) * gradient
            float(ba.sum(w * w))
        return len(plans) - before

    assert bsp.run(main, nprocs=1) == [0]
    assert bsp.run(main, nprocs=3) == [0, 0, 0]


def test_what_a_loop_carries_on_is_computed_at_most_twice() -> None:
    def main(proc: bsp.Process) -> list[int]:
        x, depth = ba.ones(5), []
        total = x
        for _ in range(6):
            total = total * 1.5 + x
            depth.append(len((total + 0).plan().stages[0].kernel.program.code))
            float(total[0])
        return depth

    (depth,) = bsp.run(main, nprocs=1)
    assert max(depth) <= 2 * 2 + 1


def test_panels_trade_supersteps_for_memory_and_move_the_same_words() -> None:
    data = np.random.default_rng(0).normal(size=(96, 96))

    def main(proc: bsp.Process) -> None:
        a = ba.asarray(data, grid=(2, 2))
        free = (a @ a).plan()
        with ba.options(memory=0.6 * free.peak_bytes):
            plan = (a @ a).plan()
            product = (a @ a).persist()
        assert plan.boundaries > free.boundaries
        assert plan.peak_bytes <= 0.6 * free.peak_bytes
        assert plan.words == free.words
        np.testing.assert_allclose(product.compute(), data @ data, rtol=0, atol=1e-12 * 96)

    bsp.run(main, nprocs=4)


def test_a_plan_that_is_too_large_is_refused_before_anything_runs() -> None:
    def main(proc: bsp.Process) -> tuple[str, int]:
        a = ba.ones((300, 300), grid=(2, 2))
        before = proc.superstep
        with ba.options(memory=3e5), pytest.raises(ba.PlanTooLarge) as refused:
            a.compute()
        return str(refused.value), proc.superstep - before

    found = bsp.run(main, nprocs=4)
    assert len(set(found)) == 1
    text, supersteps = found[0]
    assert supersteps == 0
    assert text.startswith("x0 needs ")
    assert "on process " in text
    assert "limit 300 KB; largest term: " in text
    assert text.endswith("persist() leaves it dealt")


def test_explain_says_what_who_and_how_much() -> None:
    def main(proc: bsp.Process) -> str:
        x = ba.ones((30_000, 8))
        return (x.T @ x).explain()

    (text, *rest) = bsp.run(main, nprocs=3)
    assert all(other == text for other in rest)
    assert text.splitlines() == [
        "superstep 1  partial reduce        v0 = partial x0.T @ x0                    on 1x3x1     1.3e+06 flops",
        "superstep 1  total exchange        v0                                        h = 128 words, 2 pieces",
        "afterwards   merge                 v1 = merged x0.T @ x0                     on all       1.9e+02 flops",
        text.splitlines()[-1],
    ]
    assert text.splitlines()[-1].startswith("1 superstep, 128 words, 1.28e+06 flops, peak ")


OPERATIONS = {
    "chain": lambda x: ba.sqrt(x * x + 1) * 3 - x,
    "sum": lambda x: ba.sum(ba.exp(x) * x),
    "columns": lambda x: ba.std(x, axis=0),
    "rows": lambda x: ba.max(x, axis=1),
    "gram": lambda x: x.T @ x,
    "transposed": lambda x: (x.T + 1) * 2,
    "slices": lambda x: x[1:] - x[:-1],
    "reshape": lambda x: ba.reshape(x, (50, -1)),
    "concat": lambda x: ba.concat([x, x], axis=1),
    "rechunk": lambda x: ba.rechunk(x, grid=(1, 4)),
    "scan": lambda x: ba.cumsum(x, axis=0),
    "argmax": lambda x: ba.argmax(x, axis=0),
    "weighted gram": lambda x: x.T @ (x * x[:, :1]),
    "computed rows": lambda x: (x * 2 + 1) @ np.ones((16, 64)),
    "extreme of all": lambda x: ba.argmax(x),
}


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_peak_bytes_are_not_below_what_is_used(name: str, p: int) -> None:
    planned: list[int] = []

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(lambda i, j: np.sin(i * 7.0 + j), (20_000, 16))
        found = OPERATIONS[name](x)
        planned.append(int(found.plan().peaks.sum()))
        proc.sync()
        if proc.pid == 0 and tracemalloc.is_tracing():
            tracemalloc.reset_peak()  # what making x took is no part of the plan
        proc.sync()
        found.persist()

    bsp.run(main, nprocs=p)  # once, so that modules are there and code is warm
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=p)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert planned[-1] >= most - (256 << 10)  # Python's own objects


def test_processes_that_evaluate_different_things_all_hear_of_it_with_both_lines() -> None:
    def sums(proc: bsp.Process) -> None:
        x = ba.ones(100_000)
        float(x.max() if proc.pid == 1 else x.sum())

    def ways(proc: bsp.Process) -> None:
        x = ba.ones(100_000) + 1
        x.compute() if proc.pid == 2 else x.persist()

    def layouts(proc: bsp.Process) -> None:
        x = ba.ones(100_000, grid=(2 + (proc.pid == 1),))
        x.compute()

    def missing(proc: bsp.Process) -> None:
        x = ba.ones(100_000)
        if proc.pid:
            x.sum().compute()

    for main, said in ((sums, "sum(x0)"), (ways, "(x0 + c)"), (layouts, "x0"), (missing, "process 0 has returned")):
        with pytest.raises(bsp.SyncMismatch, match=r"test_plan\.py:") as mismatch:
            bsp.run(main, nprocs=3)
        assert said in str(mismatch.value)
        assert str(mismatch.value).count("test_plan.py:") == (1 if main is missing else 2)


@pytest.mark.parametrize("p", [2, 8, 64])
def test_what_one_process_has_goes_to_all_in_one_phase_or_two(p: int) -> None:
    machine = bsp.Machine(p=p, g=10.0, o=0.0, L=100.0)
    x = dealt((64, 4096), p, (p, 1))
    plan = study.planned([ba.exp(x[5])], p, "patterns", machine)
    one, two = (p - 1) * 4096, 2 * 4096 * (p - 1) // p
    assert plan.words == min(one, two)
    assert plan.boundaries == (1 if one <= two else 2)


@pytest.mark.parametrize("schedule", ["lshs", "round-robin"])
def test_arrays_that_were_placed_one_by_one_are_used_by_patterns(schedule: str) -> None:
    data = np.random.default_rng(0).normal(size=(13, 6))

    def main(proc: bsp.Process) -> None:
        with ba.options(schedule=schedule):
            x = (ba.asarray(data, grid=(4, 3)) * 2).persist()
        for found, expected in (
            (x.std(axis=1), (2 * data).std(axis=1)), (x.sum(axis=0), (2 * data).sum(axis=0)),
            (x.T @ x, 4 * data.T @ data), (ba.cumsum(x, axis=0), (2 * data).cumsum(axis=0)), (x + 1, 2 * data + 1),
            (x.reshape(-1), 2 * data.reshape(-1)), (ba.concat([x, x]), np.concatenate([2 * data, 2 * data])),
            (ba.sort(x, axis=0), np.sort(2 * data, axis=0)), (x[2:9], 2 * data[2:9]),
        ):  # fmt: skip
            np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=1e-13)
        changed = x + 0
        changed[3:5] = 7
        np.testing.assert_array_equal(changed[4].compute(), np.full(6, 7.0))

    for p in (1, 2, 3, 5):
        bsp.run(main, nprocs=p)


@pytest.mark.parametrize(("p", "grids"), [(2, (3, 4)), (3, (5, 6)), (4, (2, 7)), (4, (1, 1, 3))])
def test_where_no_pattern_applies_blocks_are_placed_one_by_one(
    p: int, grids: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = [dealt((1 << 20,), p, (grid,)) for grid in grids]
    total = sum(x[1:], x[0])
    plan = study.planned([total], p, "patterns")
    assert [stage.pattern for stage in plan.stages] == ["block by block"]
    monkeypatch.setattr(placing, "ONE_BY_ONE", 0)
    other = study.planned([total], p, "patterns")
    assert plan.seconds < other.seconds
    assert plan.words <= other.words


@pytest.mark.parametrize("p", [2, 3])
def test_what_was_placed_one_by_one_is_used_like_anything_else(p: int) -> None:
    n = 30_000
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, n, 3))

    def main(proc: bsp.Process) -> None:
        grids = ((3, 1), (4, 1)) if p == 2 else ((5, 1), (6, 1))
        x = (ba.array(a, grid=grids[0]) + ba.array(b, grid=grids[1])).persist()
        assert x.plan().values[0].layout.table is not None
        c = a + b
        np.testing.assert_array_equal(x.compute(), c)
        for axis in (None, 0, 1):
            for name in ("sum", "std", "max", "argmin"):
                found = getattr(x, name)(axis=axis)
                np.testing.assert_allclose(np.asarray(found), getattr(c, name)(axis=axis), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.asarray(x.T @ x), c.T @ c, rtol=1e-12)
        np.testing.assert_array_equal(x[7::3, ::-1].compute(), c[7::3, ::-1])
        np.testing.assert_array_equal(x[x > 0].compute(), c[c > 0])
        np.testing.assert_array_equal(ba.sort(x, axis=0).compute(), np.sort(c, axis=0))
        np.testing.assert_array_equal(ba.reshape(x, (n * 3,)).compute(), c.reshape(-1))
        np.testing.assert_array_equal(ba.concat([x, x]).compute(), np.concatenate([c, c]))

    bsp.run(main, nprocs=p)


def test_a_plan_that_multiplies_what_it_computes_says_what_it_takes() -> None:
    import tracemalloc

    planned: list[int] = []

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(lambda i, j: np.sin(i * 7.0 + j), (20_000, 16))
        found = (x * 2 + 1) @ ba.asarray(np.ones((16, 64)))
        planned.append(int(found.plan().peaks.sum()))
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        found.persist()

    bsp.run(main, nprocs=1)
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert planned[-1] >= most - (256 << 10)


def test_options_that_differ_by_process_are_one_error() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(random(10, 10), grid=(3, 3))
        with ba.options(schedule="lshs" if proc.pid == 0 else "patterns"):
            (x @ x).persist()

    with pytest.raises(bsp.SyncMismatch):
        bsp.run(main, nprocs=3)


def test_plans_are_refused_by_memory_in_sorting_too() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(random(100_000), grid=(3,))
        with ba.options(memory=1e4), pytest.raises(ba.PlanTooLarge):
            ba.sort(x)

    bsp.run(main, nprocs=3)


def test_what_a_late_and_an_early_stage_both_read_is_there_for_the_early_one() -> None:
    data = random(60)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(3,))
        late = x[::-1] * ba.sum(x * ba.sum(x * ba.sum(x)))
        early = x[::-1] + 1
        for found, expected in zip(
            ba.persist(late, early),
            (data[::-1] * np.sum(data * np.sum(data * np.sum(data))), data[::-1] + 1),
            strict=True,
        ):
            np.testing.assert_allclose(found.compute(), expected, rtol=1e-9)

    bsp.run(main, nprocs=3)


def test_what_is_on_its_way_is_held_by_the_plan() -> None:
    def main(proc: bsp.Process) -> tuple[int, int]:
        plan = ba.rechunk(ba.asarray(random(60, 60), grid=(3, 1)), grid=(1, 3)).plan()
        terms = dict(plan.memory(0))
        return int(sum(held for name, held in terms.items() if "on its way" in name).min()), plan.words

    for held, words in bsp.run(main, nprocs=3):
        assert held >= 2 * 8 * words * 0.9


CLUSTER = Machine(
    p=16, name="4 hosts of 4",
    levels=(
        Level("inside an element", 1.0, 2e3, 6e3), Level("inside a host", 4.0, 4e3, 2e4, staged=3.0),
        Level("between hosts", 135.0, 1e4, 2e5, ports=4, staged=3.0),
    ),
)  # fmt: skip


class OneHost(Hosts):
    """Every word is taken to cross the network."""

    def __init__(self, machine: Machine, nprocs: int) -> None:
        super().__init__(machine, nprocs)
        self.several = False


def crossing(m: int, k: int, n: int, hosts: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[int, float]:
    """The words between hosts of a product on 16 processes, and its price; planned with or without knowing hosts."""

    def main(proc: bsp.Process) -> None:
        (ba.ones((m, k)) @ ba.ones((k, n))).persist()

    with monkeypatch.context() as patched:
        patched.setattr(placing, "Hosts", Hosts if hosts else OneHost)
        patched.setattr(world, "_plans", {})
        found = bsp.predict(main, nprocs=16, machine=CLUSTER, elements=16, abstract=True)
    return found.record["words_by_level"][-1], found.seconds


@pytest.mark.parametrize(("shape", "words"), [
    ((4096, 2048, 512), 3_145_728), ((512, 2048, 4096), 9_437_184), ((2048, 2048, 2048), 10_485_760),
    ((256, 65536, 256), 393_216), ((8192, 512, 8192), 12_582_912),
])  # fmt: skip
def test_the_axis_with_more_traffic_stays_inside_hosts(
    shape: tuple[int, int, int], words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, seconds = crossing(*shape, True, monkeypatch)
    flat, slower = crossing(*shape, False, monkeypatch)
    assert known == words <= flat
    assert seconds <= slower


@pytest.mark.parametrize("shape", [(160, 30, 48), (48, 30, 160), (16, 700, 16), (129, 65, 131)])
def test_a_product_on_hosts_is_numpys(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "REPLICATED_SIZE", 16)
    (m, k, n), rng = shape, np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))

    def main(proc: bsp.Process) -> None:
        np.testing.assert_array_equal((ba.asarray(a) @ ba.asarray(b)).compute(), a @ b)
        np.testing.assert_array_equal(ba.sum(ba.asarray(a).T @ ba.asarray(a), axis=0).compute(), (a.T @ a).sum(axis=0))

    bsp.predict(main, nprocs=16, machine=CLUSTER, elements=16)


def test_alike_stages_share_tables_of_pieces_and_the_choice_of_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time of planning grows with the number of results by a small factor."""
    made: list[Any] = []
    monkeypatch.setattr(stages, "pieces", lambda *args: made.append(args) or pieces(*args))
    tables, placed = [], []

    def main(proc: bsp.Process, count: int) -> None:
        vectors = [ba.arange(100.0 * (k % 2 + 1), grid=(3,)) + k for k in range(count)]
        found = ba.compute(*[vector.sum() for vector in vectors])
        assert [float(each) for each in found] == [
            4950.0 + 100 * k if k % 2 == 0 else 19900.0 + 200 * k for k in range(count)
        ]
        plan = world.world().planned([vector.sum()._node for vector in vectors], True)[0]
        placed.append({(stage.pattern, stage.tasks) for stage in plan.stages})

    for count in (4, 20):
        made.clear()
        bsp.run(main, count, nprocs=3)
        tables.append(len(made))
    assert tables[0] == tables[1]
    assert all(each == placed[0] for each in placed)


def test_what_is_no_array_is_told() -> None:
    x = ba.ones(3)
    with pytest.raises(TypeError, match=r"compute: list is no array of bsp.arrays; compute\(\*list\) takes its"):
        ba.compute([x, x])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"persist: ndarray is no array of bsp.arrays$"):
        ba.persist(x, np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="explain: float is no array"):
        ba.explain(2.0)  # type: ignore[arg-type]
