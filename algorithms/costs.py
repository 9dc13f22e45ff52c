"""W + g·H + L·S, and M: what an algorithm costs in McColl's model, and what a sum over processes adds to it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from bsp.collectives.prices import levels_of, prices
from bsp.cost.model import Machine


class Cost(NamedTuple):
    """Of the busiest process."""

    W: float  # flops
    H: int  # words, the h-relations of all supersteps added
    S: int  # supersteps
    M: int = 0  # words beside the input's own
    messages: int = 0

    def price(self, machine: Machine) -> float:
        """Flop-times on a machine."""
        return machine.price(self.H, self.S, self.messages, self.W)


def added(parts: Iterable[Cost], W: float = 0, M: int = 0) -> Cost:
    """One after the other, with work and memory of their own."""
    parts = list(parts)
    return Cost(
        W + sum(part.W for part in parts),
        sum(part.H for part in parts),
        sum(part.S for part in parts),
        M + max((part.M for part in parts), default=0),
        sum(part.messages for part in parts),
    )


def allreduced(count: int, p: int, machine: Machine, itemsize: int = 8) -> Cost:
    """`allreduce` of so many numbers, elementwise, by the algorithm that is the machine's cheapest."""
    if p == 1:
        return Cost(0, 0, 1)  # a boundary all the same
    words = -(-count * itemsize // 8)
    found = prices(machine, p, "allreduce", words, True)
    chosen = min(found, key=found.__getitem__)
    if chosen == "one-phase":
        return Cost(p * words, (p - 1) * words, 1, messages=p - 1)
    if chosen == "two-phase":
        cuts = [count * k // p for k in range(p + 1)]
        sizes = [high - low for low, high in pairwise(cuts)]
        first = max(max(count - size, (p - 1) * size) for size in sizes)
        second = max(max((p - 1) * size, count - size) for size in sizes)
        moved = sum(-(-each * itemsize // 8) for each in (first, second))
        return Cost(words, moved, 2, messages=2 * (p - 1))
    arity = int(chosen.removeprefix("tree-"))
    sent = sum(min(arity, -(-p // arity**level)) - 1 for level in range(levels_of(p, arity)))
    return Cost(sent * words, 2 * sent * words, 2 * levels_of(p, arity), messages=2 * sent)
