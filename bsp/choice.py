"""Which algorithm a collective takes: the cheapest by the machine.

A pure function of p, of sizes that all processes know, and of the machine profile, never of the number
of elements (D5).  Costs are those of McColl 1.6.1, with o for each message.
"""

from __future__ import annotations

from bsp.cost import Machine
from bsp.errors import UnknownAlgorithm

ARITIES = (2, 4, 8, 16)


def levels_of(p: int, arity: int) -> int:
    """ceil(log_arity p), and 1 for a single process: a collective is a boundary for it too."""
    levels, reached = 1, arity
    while reached < p:
        levels, reached = levels + 1, reached * arity
    return levels


def _tree_price(machine: Machine, words: int, arity: int) -> float:
    levels = levels_of(machine.p, arity)
    return machine.price(h=levels * (arity - 1) * words, supersteps=levels, messages=levels * (arity - 1))


def value_prices(machine: Machine, words: int, trees: int, chunked: bool) -> dict[str, float]:
    """Flop-times of the algorithms for one value of `words` words, `trees` sweeps over a tree."""
    p = machine.p
    prices = {"one-phase": machine.price(h=(p - 1) * words, messages=p - 1)}
    if chunked:
        prices["two-phase"] = machine.price(h=2 * words, supersteps=2, messages=2 * (p - 1))
    for arity in ARITIES if trees else ():
        prices[f"tree-{arity}"] = trees * _tree_price(machine, words, arity)
    return prices


def choose(prices: dict[str, float], algorithm: str | None, text: str) -> str:
    """The cheapest, the first of equals; or the one asked for."""
    if algorithm is None:
        return min(prices, key=prices.__getitem__)
    if algorithm == "tree" and "tree-2" in prices:
        return "tree-2"
    if algorithm not in prices:
        raise UnknownAlgorithm(f"{text}: algorithm {algorithm!r} is none of {', '.join(prices)}")
    return algorithm


def arity_of(algorithm: str) -> int:
    return int(algorithm.removeprefix("tree-"))
