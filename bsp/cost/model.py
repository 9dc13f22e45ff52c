"""The cost of supersteps, the machine that they run on, and the one function that prices the former on the latter.

A superstep in which the busiest element computes for w, and at most h words leave or enter an element in m blocks of
s bytes, takes

    T = w + L + o·m + g(s)·h                                   (flop-times; McColl 1.5.2, with o and g(s))

For large blocks and few messages that is McColl's w + g·h + L; summed over a program it is W + g·H + L·S.  The unit is
the flop-time, the time of one operation; r, in flop/s, turns flop-times into seconds.

`Machine.price` is the only place where words, messages and supersteps are multiplied by rates: plans, predictions,
collectives, exchange schedules and algorithms describe what they do as a `Cost` and call it.  `terms` lists the rates.

A machine may have *levels* (inside an element, inside a node, between nodes), each with its own g, o and L.  Words that
cross a level are counted at its *ports*: if the elements of a node share a port, their words are added.  Without levels
the machine is the classical one.  Words put one by one (`put_each`, scalar puts) cost `fine` instead of g(s); words
that need memory of their own on the way (sends, gets, strided puts) cost `staged` in addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, log2, sqrt
from typing import Any, NamedTuple

import numpy as np

from bsp.cost.units import in_bytes, in_seconds

WORD = 8  # bytes
_NEGLIGIBLE = 0.01  # share of the computing time below which communication or synchronisation does not matter


class Traffic(NamedTuple):
    """Data that crosses one level: numbers of its busiest port, or arrays of shape (supersteps, ports)."""

    blocks: Any = 0.0
    words: Any = 0.0  # in blocks
    fine: Any = 0.0  # words one by one
    staged: Any = 0.0  # those of `words` that need memory of their own on the way: sends, gets, strided puts

    def __add__(self, other: Traffic) -> Traffic:  # type: ignore[override]
        return Traffic(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Load(NamedTuple):
    """The load of supersteps on a machine's elements, where it is known: numbers, or arrays with one entry a superstep.

    work : flop-times of computing on the busiest element.
    between : the traffic of each of the machine's `outer` levels.
    inside : the traffic between processes of one element; its ports are the elements.
    turns : for each superstep the processes of the fullest element, added up.
    registers : supersteps in which coarrays are registered.
    fresh : words that land in memory which the fullest element has not used before.
    """

    work: Any
    between: tuple[Traffic, ...]
    inside: Traffic = Traffic()
    turns: Any = 0.0
    registers: Any = 0.0
    fresh: Any = 0.0


@dataclass(frozen=True)
class Level:
    """The rates of one level of a machine, in flop-times.

    g     : for a word of 8 bytes in a large block.  `blocks` has g by block size: ((bytes, g), ...), ascending.
    o     : for a block.
    L     : for a superstep; on the innermost level for the turn of one process in a superstep.
    fine  : for a word put one by one; None: g.
    staged : for a word that is staged on its way, in addition to g.
    ports : the elements that share a port to this level: 1, or those of a node; or one number for each port in turn.
    """

    name: str
    g: float
    o: float
    L: float
    blocks: tuple[tuple[int, float], ...] = ()
    fine: float | None = None
    ports: int | tuple[int, ...] = 1
    staged: float = 0.0

    def port_of(self, element: Any) -> Any:
        """Return the port of an element, or of each element in an array."""
        if isinstance(self.ports, int):
            return element // self.ports
        listed = np.cumsum(self.ports)  # elements beyond the list share ports as those of the last one do
        beyond = np.maximum(element - listed[-1], 0) // self.ports[-1]
        return np.searchsorted(listed, element, side="right") + beyond

    @property
    def widest(self) -> int:
        """The most elements that share a port."""
        return self.ports if isinstance(self.ports, int) else max(self.ports)

    def g_of(self, block_bytes: Any) -> Any:
        """Return g for blocks of this size, interpolated over the size's logarithm and constant beyond both ends."""
        if not self.blocks:
            return self.g
        sizes, costs = zip(*self.blocks, strict=True)
        return np.interp(np.log2(np.maximum(block_bytes, 1.0)), np.log2(sizes), costs)

    def price(self, traffic: Traffic) -> Any:
        """Return the flop-times that the busiest port takes, o·m + g(s)·h: a number, or one for each superstep."""
        blocks, words, fine, staged = traffic
        size = WORD * words / np.maximum(blocks, 1)
        fine_g = self.g if self.fine is None else self.fine
        found = self.o * blocks + self.g_of(size) * words + fine_g * fine + self.staged * staged
        return found.max(axis=-1) if np.ndim(found) else float(found)


@dataclass(frozen=True)
class Machine:
    """(p, r, g, L) of a machine, the overhead o of a message, and what else choices and prices depend on.

    p : elements.  r : flop/s of one element, all busy.  g : flop-times a word.  L : flop-times a superstep.
    o : flop-times a message.  memory : bytes an element may use, 0 if unknown.
    levels : innermost first, the first of them inside an element; empty: one level, the classical model.
    rates : flop/s by class of work: `bsp.abstract.work.FLOPS`, and bandwidth in bytes/s.
    slowdown : time of work with all elements busy, divided by its time on one element alone.
    registration : flop-times that registering coarrays adds to a superstep.
    fresh : flop-times that a word costs in addition if it lands in memory that the element has not used before.
    kind : measured, imagined, or default.  host : where it was measured.
    """

    p: int = 1
    r: float = 2e9
    g: float = 4.0
    L: float = 2e4
    o: float = 1e3
    name: str = "default"
    kind: str = "default"
    memory: float = 0.0
    levels: tuple[Level, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict, hash=False)
    slowdown: float = 1.0
    host: str = ""
    registration: float = 0.0
    fresh: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a number that no machine has."""
        if not isinstance(self.p, (int, np.integer)) or isinstance(self.p, bool) or self.p < 1:
            raise ValueError(f"Machine: p = {self.p!r}; the number of elements, an integer of 1 or more")
        for name in ("r", "g", "L", "o", "memory", "slowdown", "registration", "fresh"):
            value = getattr(self, name)
            number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            above = name in ("r", "slowdown")
            if not number or not (value > 0 if above else value >= 0) or value == float("inf"):
                raise ValueError(
                    f"Machine: {name} = {value!r}; a finite number {'above 0' if above else 'of 0 or more'}"
                )

    def price(self, cost: Cost) -> Any:
        """Return the flop-times of a cost on this machine: a number, or an array if the cost holds arrays.

        A cost with a load is priced level by level, by the size of its blocks.  A cost without one holds only the sums
        of the classical model, so its words are priced as if they went in large blocks: W + g·H + o·messages + L·S.
        """
        load = cost.load
        if load is None:
            return cost.W + self.g * cost.H + self.o * cost.messages + self.L * cost.S
        flops = load.work + self.registration * load.registers + self.fresh * load.fresh
        for level, traffic in zip(self.outer, load.between, strict=True):
            flops = flops + level.L * cost.S + level.price(traffic)
        if self.inside is not None:
            flops = flops + self.inside.L * load.turns + self.inside.price(load.inside)
        return flops

    @property
    def outer(self) -> tuple[Level, ...]:
        """The levels between elements, inner ones first."""
        return self.levels[1:] or (Level("between elements", self.g, self.o, self.L),)

    @property
    def inside(self) -> Level | None:
        """The level between processes of one element; None in the classical model, where such traffic is free."""
        return self.levels[0] if self.levels else None

    def sharing(self, nprocs: int) -> int:
        """Return how many of so many processes share an element at most: 1 on a classical machine."""
        return 1 if self.inside is None else -(-nprocs // min(nprocs, self.p))

    def using(self, elements: int) -> Machine:
        """Return the machine that a program on so many of its elements runs on: the first ones, in as few nodes.

        Each L shrinks with the logarithm of the number of parts that meet, because a barrier is a tree; it is 0 where a
        single part is left.  The slowdown shrinks too: an element alone is not slowed by others.
        """
        levels = list(self.levels)
        if elements == 1:  # its own processes' share of a superstep is the innermost level's
            levels[1:] = [replace(level, L=0.0) for level in levels[1:]]
        if elements >= self.p:
            return replace(self, levels=tuple(levels))
        for k in range(1, len(levels)):
            group = levels[k + 1].widest if k + 1 < len(levels) else self.p
            all_parts = int(levels[k].port_of(group - 1)) + 1
            parts = min(all_parts, int(levels[k].port_of(elements - 1)) + 1)
            levels[k] = replace(levels[k], L=levels[k].L * _share(parts, all_parts))
        slowdown = 1 + (self.slowdown - 1) * (elements - 1) / (self.p - 1)
        L = self.L * _share(elements, self.p)
        return replace(self, p=elements, L=L, levels=tuple(levels), slowdown=slowdown)

    def classical(self) -> str:
        """Return (p, r, g, L) as one line of text."""
        return f"(p, r, g, L) = ({self.p}, {self.r / 1e9:.3g} Gflop/s, {self.g:.3g}, {self.L:.3g})"


def _share(parts: int, of: int) -> float:
    """Return the depth of a barrier's tree over `parts`, divided by that over all."""
    return log2(parts) / log2(of) if of > 1 else 1.0


DEFAULT = Machine()


class Cost(NamedTuple):
    """The cost of a plan, a procedure or an algorithm: W + g·H + L·S, and the memory M.

    W : flops of the busiest process.   H : words, the h-relations of all supersteps added.   S : supersteps.
    M : words of the fullest process; the function that returns the cost states whether operands are included.
    messages : of the busiest process.   machine : the machine for which algorithms were chosen.
    load : what the supersteps ask of the machine's elements; None: only the sums above are known.
    """

    W: float
    H: float
    S: float
    M: int = 0
    messages: float = 0
    machine: Machine = DEFAULT
    load: Load | None = None

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        """Return the sums of one after the other, without a load; neither's memory is held during the other."""
        return self._replace(
            W=self.W + other.W, H=self.H + other.H, S=self.S + other.S, M=max(self.M, other.M),
            messages=self.messages + other.messages, load=None,
        )  # fmt: skip

    def price(self, machine: Machine | None = None) -> float:
        """Return the flop-times on a machine; None: the one for which algorithms were chosen."""
        return float((machine or self.machine).price(self))

    @property
    def seconds(self) -> float:
        """The predicted time on the machine for which algorithms were chosen."""
        return self.price() / self.machine.r

    @property
    def peak_bytes(self) -> int:
        """M in bytes."""
        return WORD * self.M

    def __str__(self) -> str:
        return (
            f"W = {self.W:.3g} flops, H = {self.H} words, S = {self.S}; at most {in_bytes(self.peak_bytes)} a process; "
            f"{in_seconds(self.seconds)} on {self.machine.name}"
        )

    def classical(self) -> str:
        """Return W + g·H + L·S and its value as one line of text."""
        g, L = self.machine.g, self.machine.L
        return (
            f"W + g·H + L·S = {self.W:.3g} + {g:.3g}·{self.H:.3g} + {L:.3g}·{self.S:.0f} "
            f"= {self._replace(messages=0).price():.3g} flop-times"
        )

    def balance(self) -> list[str]:
        """Return sentences on whether the machine suits the program: g < W/H and L < W/S (McColl 1.7.3)."""
        sentences = []
        for name, rate, count, what, cure in (
            ("g", self.machine.g, self.H, "words", "move fewer words for each operation, or more work between them"),
            ("L", self.machine.L, self.S, "supersteps", "join supersteps, or give each more work"),
        ):
            if not count:
                sentences.append(f"{name}: no {what}, any {name} will do")
                continue
            share = rate * count / self.W if self.W else inf
            compared = f"{name} = {rate:.3g} {'<' if share < 1 else '>='} {self.W / count:.3g} = W/{'HS'[name == 'L']}"
            act = "communication" if name == "g" else "synchronisation"
            if share < _NEGLIGIBLE:
                end = f"{act} is negligible, less than {_NEGLIGIBLE:.0%} of the time of computing"
            elif share < 1:
                end = f"balanced, {act} takes {share:.0%} of the time of computing"
            else:
                end = f"{act} costs more than computing; {cure}"
            sentences.append(f"{compared}: {end}")
        return sentences


# McColl 1.7.3, Table 1.1: asymptotic g and L of p processors, small constants ignored
NETWORKS = {
    "ring": (lambda p: p, lambda p: p),
    "2d-array": (sqrt, sqrt),
    "butterfly": (log2, log2),
    "hypercube": (lambda p: 1.0, log2),
    "complete": (lambda p: 1.0, lambda p: 1.0),
}


def on_network(name: str, p: int, base: Machine = DEFAULT) -> Machine:
    """Return an imagined machine: p of `base`'s processors, joined by a network of Table 1.1.

    base.g and base.L are taken as the constants that the table ignores.  Raises KeyError for other names.
    """
    g_of, L_of = NETWORKS[name]
    p = max(p, 2)  # the logarithm of one processor is 0
    return Machine(
        p=p, r=base.r, g=base.g * g_of(p), L=base.L * L_of(p), o=base.o, name=f"{name}:{p}", kind="imagined",
        memory=base.memory, rates=base.rates, slowdown=base.slowdown,
    )  # fmt: skip


def costings(
    w: Iterable[tuple[float, float]], h: Iterable[tuple[float, float]], own: Iterable[float], g: float, L: float
) -> dict[str, float]:
    """Return four prices of one program: as it is, and without barriers, imbalance, or both (after Oxford's bspsig).

    w, h : for each superstep (the most, the mean over processes), in seconds and in words.
    own  : for each process its own sum of w + g·h, in seconds;  g, L : in seconds.
    """
    w, h, own = list(w), list(h), list(own)  # w may have one entry more: after the last superstep
    most = sum(a for a, _ in w) + g * sum(a for a, _ in h)
    mean = sum(b for _, b in w) + g * sum(b for _, b in h)
    return {
        "max_supersteps": most + L * len(h),
        "max_async": max(own, default=0.0),
        "volume": mean + L * len(h),
        "min_async": sum(own) / len(own) if own else 0.0,
    }
