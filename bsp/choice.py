"""Which algorithm a collective takes: the cheapest by the machine.

A pure function of p, of sizes that all processes know, and of the machine profile, never of the number
of elements (D5).  Costs are those of McColl 1.6.1, with o for each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bsp.cost.model import Machine
from bsp.errors import UnknownAlgorithm

if TYPE_CHECKING:
    from bsp.handle import Process

ARITIES = (2, 4, 8, 16)


class Choice(NamedTuple):
    """What was chosen between, and at which prices in flop-times."""

    call: str
    chosen: str
    forced: bool  # whether the program named it
    priced: tuple[tuple[str, float], ...]


def levels_of(p: int, arity: int) -> int:
    """ceil(log_arity p), and 1 for a single process: a collective is a boundary for it too."""
    levels, reached = 1, arity
    while reached < p:
        levels, reached = levels + 1, reached * arity
    return levels


def _tree_price(machine: Machine, p: int, words: int, arity: int) -> float:
    levels = levels_of(p, arity)
    return machine.price(h=levels * (arity - 1) * words, supersteps=levels, messages=levels * (arity - 1))


def value_prices(machine: Machine, p: int, words: int, trees: int, chunked: bool) -> dict[str, float]:
    """Flop-times of the algorithms for one value of `words` words, `trees` sweeps over a tree."""
    prices = {"one-phase": machine.price(h=(p - 1) * words, messages=p - 1)}
    if chunked:
        prices["two-phase"] = machine.price(h=2 * words, supersteps=2, messages=2 * (p - 1))
    for arity in ARITIES if trees else ():
        prices[f"tree-{arity}"] = trees * _tree_price(machine, p, words, arity)
    return prices


def choose(proc: Process, prices: dict[str, float], algorithm: str | None, text: str) -> str:
    """The cheapest, the first of equals; or the one asked for.  `proc.plan()` and traces tell."""
    if algorithm is None:
        chosen = min(prices, key=prices.__getitem__)
    elif algorithm == "tree" and "tree-2" in prices:
        chosen = "tree-2"
    elif algorithm in prices:
        chosen = algorithm
    else:
        raise UnknownAlgorithm(f"{text}: algorithm {algorithm!r} is none of {', '.join(prices)}")
    task = proc._task
    task.choice = task.chosen = Choice(text, chosen, algorithm is not None, tuple(prices.items()))
    return chosen


def arity_of(algorithm: str) -> int:
    return int(algorithm.removeprefix("tree-"))
