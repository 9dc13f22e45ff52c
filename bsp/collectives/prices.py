"""What each algorithm of each collective costs, in flop-times: McColl 1.6.1, on a machine of P elements.

Pure functions of p, of sizes that all processes know, and of the machine profile, whatever number of elements
hosts the run (D5).  A machine without levels is the classical one: every process has a processor of its own,
and one word combined is one flop.  With levels P is the profile's: p / P processes share an element, messages
between them are copies, each superstep takes each of them a turn, and what is sent to several processes of an
element crosses to it once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from bsp.cost.model import WORD, Machine
from bsp.errors import UnknownAlgorithm

ARITIES = (2, 4, 8, 16)
_BUNDLE = 8  # copies inside an element that pickling and unpickling a bundle of messages takes as long as


def levels_of(p: int, arity: int) -> int:
    """ceil(log_arity p), and 1 for a single process: a collective is a boundary for it too."""
    levels, reached = 1, arity
    while reached < p:
        levels, reached = levels + 1, reached * arity
    return levels


class _Prices:
    """The prices of p processes passing values of n words, on one machine."""

    def __init__(self, machine: Machine, p: int, words: float) -> None:
        self.p, self.n = p, words
        self.machine = machine
        inside = machine.inside
        self.P = p if inside is None else max(1, min(p, machine.p))
        self.v = ceil(p / self.P)  # processes of an element
        self.chunk = words / p
        self.hops = levels_of(p, 2)
        self.turns = 0.0 if inside is None else inside.L * self.v
        self.combining = machine.r / machine.rates["elementwise"] if machine.rates else 1.0

    def out(self, messages: float, words: float) -> float:
        """Messages of so many words each that leave, or enter, an element."""
        if self.machine.inside is None:
            return messages * (self.machine.o + self.machine.g * words)
        level = self.machine.outer[-1]
        g = float(level.g_of(WORD * max(words, 1.0))) + level.staged + self.machine.fresh
        return messages * (self.machine.o + g * words)

    def copies(self, messages: float, words: float) -> float:
        """Copies of so many words each inside an element."""
        inside = self.machine.inside
        if inside is None:
            return 0.0
        return messages * (inside.o + (inside.g + inside.staged + self.machine.fresh) * words)

    def bundles(self, messages: float, items: float) -> float:
        """Pickled collections of `items` values in all."""
        return self.out(messages, self.n * items / max(messages, 1)) + self.copies(_BUNDLE * messages + items, 0)

    def combine(self, values: float, words: float) -> float:
        """Values of so many words each, combined on one element."""
        return self.combining * values * words + self.copies(values, 0)

    def steps(self, count: float) -> float:
        """The supersteps themselves."""
        return count * (self.machine.L + self.turns)

    # ------------------------------------------------------------------ patterns

    @property
    def away(self) -> int:
        """Processes of other elements."""
        return self.p - self.v

    def one_to_all(self) -> float:
        """A value from one process to all others at once: it crosses once to each element."""
        return self.out(self.P - 1, self.n) + self.copies(self.v, self.n)

    def all_to_one(self, words: float) -> float:
        """A value from every process to one."""
        return self.out(self.away, words) + self.copies(self.v, words)

    def all_to_all(self, words: float) -> float:
        """A different value from every process to every process."""
        return self.v * (self.out(self.away, words) + self.copies(self.v, words))

    def each_to_all(self, words: float) -> float:
        """One value from every process to all others at once."""
        return self.out(self.away, words) + self.copies(self.p * self.v, words)

    def tree(self, arity: int, combining: bool) -> float:
        """Down a tree, or up it and combining."""
        levels = levels_of(self.p, arity)
        cost = self.copies(self.v, self.n) + self.steps(levels)
        for j in range(levels):  # ranks `stride` apart pass a value on
            stride = arity**j
            ends = min(arity, ceil(self.p / stride)) - 1
            apart = max(0, ends + 1 - max(1, self.v // stride))  # those on other elements
            cost += self.out(apart if combining else min(apart, self.P - 1), self.n)
            if combining:
                cost += self.combine(ends * max(1, self.v // (stride * arity)), self.n)
        return cost


Priced = Callable[[_Prices], dict[str, float]]  # by algorithm

_PRICES: dict[str, Priced] = {}


def _priced(collective: str) -> Callable[[Priced], Priced]:
    """Decorate the function that returns the price of each algorithm of a collective."""

    def register(of: Priced) -> Priced:
        _PRICES[collective] = of
        return of

    return register


def priced() -> tuple[str, ...]:
    """Return the collectives that have prices."""
    return tuple(_PRICES)


def prices(machine: Machine, p: int, collective: str, words: float, chunked: bool) -> dict[str, float]:
    """Return the price of each algorithm of a collective in flop-times, for values of `words` words.

    chunked : whether the values can be cut, which the two-phase algorithms need.
    Raises UnknownAlgorithm for a collective that has no prices.
    """
    if collective not in _PRICES:
        raise UnknownAlgorithm(
            f"collective {collective!r} has no prices; bsp/collectives/prices.py has those of {', '.join(_PRICES)}"
        )
    found = _PRICES[collective](_Prices(machine, p, words))
    if not chunked:
        found.pop("two-phase", None)
    return found


@_priced("broadcast")
def _broadcast(at: _Prices) -> dict[str, float]:
    return {
        "one-phase": at.one_to_all() + at.steps(1),
        "two-phase": at.out(at.away, at.chunk) + at.copies(at.v, at.chunk) + at.each_to_all(at.chunk) + at.steps(2),
    } | {f"tree-{k}": at.tree(k, False) for k in ARITIES}


@_priced("reduce")
def _reduce(at: _Prices) -> dict[str, float]:
    combined = at.all_to_all(at.chunk) + at.combine(at.v * (at.p - 1), at.chunk)
    return {
        "one-phase": at.all_to_one(at.n) + at.combine(at.p - 1, at.n) + at.steps(1),
        "two-phase": combined + at.all_to_one(at.chunk) + at.steps(2),
    } | {f"tree-{k}": at.tree(k, True) for k in ARITIES}


@_priced("allreduce")
def _allreduce(at: _Prices) -> dict[str, float]:
    combined = at.all_to_all(at.chunk) + at.combine(at.v * (at.p - 1), at.chunk)
    return {
        "one-phase": at.each_to_all(at.n) + at.combine(at.v * (at.p - 1), at.n) + at.steps(1),
        "two-phase": combined + at.each_to_all(at.chunk) + at.steps(2),
    } | {f"tree-{k}": at.tree(k, True) + at.tree(k, False) for k in ARITIES}


@_priced("scan")
def _scan(at: _Prices) -> dict[str, float]:
    # in two phases every process makes the prefixes of all of its chunk, each in the tree of D3
    prefixes = at.combine(at.v * at.p * at.hops, at.chunk)
    return {
        "one-phase": at.each_to_all(at.n) + at.combine(at.v * at.p / 2, at.n) + at.steps(1),
        "two-phase": 2 * at.all_to_all(at.chunk) + prefixes + at.steps(2),
    }


@_priced("gather")
def _gather(at: _Prices) -> dict[str, float]:
    return {"one-phase": at.all_to_one(at.n) + at.steps(1)} | {f"tree-{k}": _gather_tree(at, k) for k in ARITIES}


@_priced("scatter")
def _scatter(at: _Prices) -> dict[str, float]:
    """`words` are those of all values together."""
    found = {"one-phase": at.all_to_one(at.chunk) + at.steps(1)}
    return found | {f"tree-{k}": _scatter_tree(at, k, at.chunk) for k in ARITIES}


@_priced("allgather")
def _allgather(at: _Prices) -> dict[str, float]:
    return {
        "one-phase": at.each_to_all(at.n) + at.steps(1),
        "doubling": at.bundles(at.v * at.hops, at.v * at.p) + at.steps(at.hops),
    }


@_priced("alltoall")
def _alltoall(at: _Prices) -> dict[str, float]:
    return {
        "one-phase": at.all_to_all(at.n) + at.steps(1),
        "logarithmic": at.bundles(at.v * at.hops, at.v * at.hops * at.p / 2) + at.steps(at.hops),
    }


def _gather_tree(at: _Prices, arity: int) -> float:
    """Bundles that grow on their way: the root's element sees arity - 1 of them in each stage."""
    levels = levels_of(at.p, arity)
    return at.bundles(levels * (arity - 1) + at.v - 1, at.p) + at.steps(levels)


def _scatter_tree(at: _Prices, arity: int, chunk: float) -> float:
    """Bundles that shrink on their way; all words leave the root."""
    levels = levels_of(at.p, arity)
    moved = at.out(1, chunk * at.p) + at.copies(_BUNDLE * (levels * (arity - 1) + at.v - 1) + at.p, 0)
    return moved + at.out(levels * (arity - 1), 0) + at.steps(levels)
