"""Gather: a value of every process to the root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bsp.collectives.choice import Collective
from bsp.collectives.sizes import Sizes, levels_of
from bsp.collectives.steps import Steps, own_copy, pack, root_rank, unpack
from bsp.cost.model import Cost
from bsp.values.payload import Packed, dumps

if TYPE_CHECKING:
    from bsp.processes import Process

GATHER = Collective("gather")


def gather(proc: Process, value: Any, root: int, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """Return all values on the root; see `Process.gather`.

    Sizes may differ between processes, so the choice is that for one word.
    """
    text = "gather" if group is not None else f"gather(root={root!r})"
    chosen = GATHER.choose(proc, 1, algorithm, text, group is not None)
    steps = Steps(proc, text, group, chosen.name)
    target = root_rank(steps, root)
    held = chosen.run(steps, pack(value, proc, text) if steps.takes_part else b"", target)
    return [unpack(part) for part in steps.of_all(held)] if steps.me == target else None


# Each returns the values that this process holds at the end, by rank.


@GATHER.algorithm("one-phase", lambda at: [at.all_to_one(at.n, (at.p - 1) * at.n)])
def _one_phase(steps: Steps, packed: Packed, target: int) -> dict[int, Packed]:
    if steps.takes_part:
        steps.post([target], packed)
    return steps.step()


def _tree_costs(at: Sizes, arity: int) -> list[Cost]:
    """Return the cost of bundles that grow on their way: the root's element receives arity - 1 in each superstep."""
    levels = levels_of(at.p, arity)
    sent = levels * (arity - 1)
    return [at.bundles(levels, at.n, (at.p - 1) * at.n, sent, sent + at.v - 1, at.p)]


@GATHER.trees(_tree_costs)
def _tree(arity: int, steps: Steps, packed: Packed, target: int) -> dict[int, Packed]:
    position = (steps.me - target) % steps.n
    bundle = {steps.me: own_copy(packed)}
    for level in range(levels_of(steps.proc.nprocs, arity)):
        stride = arity**level
        if steps.takes_part and position % stride == 0 and position % (stride * arity):
            above = position - position % (stride * arity)
            steps.post([(above + target) % steps.n], dumps(bundle))
        for part in steps.step().values():
            bundle |= unpack(part)
    return bundle
