"""Which algorithm a collective takes: the cheapest by the machine.

A pure function of p, of sizes that all processes know, and of the machine profile, never of the number
of elements (D5); the prices are in `prices`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bsp.collectives.prices import prices
from bsp.cost.choice import Choice
from bsp.errors import UnknownAlgorithm

if TYPE_CHECKING:
    from bsp.processes import Process

_KNOWN = 4096  # sizes whose prices are kept


def choose(proc: Process, collective: str, words: int, algorithm: str | None, text: str, chunked: bool = False) -> str:
    """The cheapest, the first of equals; or the one asked for.  `proc.plan()` and traces tell."""
    element = proc._task.element
    known = element.prices.get((collective, words, chunked))
    if known is None:
        found = prices(element.machine, proc.nprocs, collective, words, chunked)
        known = min(found, key=found.__getitem__), tuple(found.items())
        if len(element.prices) >= _KNOWN:
            element.prices.clear()
        element.prices[collective, words, chunked] = known
    chosen, priced = known
    if algorithm is not None:
        chosen = "tree-2" if algorithm == "tree" else algorithm
        names = [name for name, _ in priced]
        if chosen not in names:
            raise UnknownAlgorithm(f"{text}: algorithm {algorithm!r} is none of {', '.join(names)}")
    task = proc._task
    task.choice = task.chosen = Choice(text, chosen, algorithm is not None, priced)
    return chosen


def arity_of(algorithm: str) -> int:
    return int(algorithm.removeprefix("tree-"))
