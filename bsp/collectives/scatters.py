"""Scatter: one value from the root to each process; the root chooses how, and its choice travels with the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bsp.collectives.choice import Collective
from bsp.collectives.sizes import Sizes, levels_of
from bsp.collectives.steps import Steps, check_one_for_each, own_copy, pack, root_rank, unpack, words_of
from bsp.cost.model import Cost
from bsp.values.payload import Packed, dumps

if TYPE_CHECKING:
    from bsp.processes import Process

SCATTER = Collective("scatter")


def scatter(
    proc: Process, values: Sequence[Any] | None, root: int, group: Sequence[int] | None, algorithm: str | None
) -> Any:
    """Return this process's value of those that the root has; see `Process.scatter`."""
    text = "scatter" if group is not None else f"scatter(root={root!r})"
    steps = Steps(proc, text, group, algorithm)
    source = root_rank(steps, root)
    plan: tuple[str, int] | None = None  # the root's choice, and its supersteps
    bundle: dict[int, Packed] = {}  # values that this process holds, by the receiver's distance from the root
    if steps.me == source:
        check_one_for_each(proc, text, values, steps.n)
        assert values is not None
        parts = [pack(value, proc, text) for value in values]
        name = SCATTER.choose(proc, sum(map(words_of, parts)), algorithm, text, group is not None).name
        plan = name, SCATTER.supersteps(name, proc.nprocs, proc._task.element.machine)
        bundle = {(rank - source) % steps.n: parts[rank] for rank in range(steps.n)}
    position = (steps.me - source) % steps.n
    taken, total = 0, 1
    while taken < total:
        if plan is not None and taken < plan[1]:
            SCATTER.algorithms[plan[0]].run(steps, plan, bundle, source, taken)
        arrived = steps.step(plan[1] if plan is not None and taken == 0 else 0)
        total = steps.hint if taken == 0 else total
        for packed in arrived.values():
            plan = steps.note
            alone = plan is not None and plan[0] == "one-phase"
            bundle = {position: packed} if alone else unpack(packed)
        taken += 1
    if not steps.takes_part:
        return None
    if position not in bundle:
        steps.expect({}, [source])
    return unpack(bundle[position])


# What a process that holds a bundle of values sends in superstep `taken`.


@SCATTER.algorithm("one-phase", lambda at: [at.all_to_one(at.chunk, (at.p - 1) * at.chunk)])
def _one_phase(steps: Steps, plan: tuple[str, int], bundle: dict[int, Packed], source: int, taken: int) -> None:
    for at, packed in bundle.items():
        steps.post([(at + source) % steps.n], packed, plan)


def _tree_costs(at: Sizes, arity: int) -> list[Cost]:
    """Return the cost of bundles that shrink on their way; all words leave the root."""
    levels = levels_of(at.p, arity)
    sent = levels * (arity - 1)
    return [at.bundles(levels, at.chunk, (at.p - 1) * at.chunk, sent, sent + at.v, at.p)]


@SCATTER.trees(_tree_costs)
def _tree(arity: int, steps: Steps, plan: tuple[str, int], bundle: dict[int, Packed], source: int, taken: int) -> None:
    if taken == 0:  # the first superstep applies puts that were pending, which may write over the values (B1)
        bundle.update({at: own_copy(packed) for at, packed in bundle.items()})
    position = (steps.me - source) % steps.n
    stride = arity ** (plan[1] - 1 - taken)
    for start in range(position + stride, min(position + stride * arity, steps.n), stride):
        part = {at: bundle.pop(at) for at in range(start, min(start + stride, steps.n))}
        steps.post([(start + source) % steps.n], dumps(part), plan)
