"""The cost of a superstep, of a program, and the machine they run on.  Nothing here measures or runs.

A superstep in which the busiest element computes for w, and at most h words leave or enter an element
in m blocks of s bytes, takes

    T = w + L + o·m + g(s)·h                                   (flop-times; McColl 1.5.2, with o and g(s))

which for large blocks and few messages is McColl's w + g·h + L, and summed over a program W + g·H + L·S.
Everything is in flop-times, the time of one operation; r, in flop/s, turns them into seconds.

A machine may have *levels* (inside an element, inside a node, between nodes), each with its own g, o and L.
Words that cross a level are counted at its *ports*: what a node shares is summed over the node.  One level
is the classical model.  Words put one by one (`put_each`, scalar puts) cost `fine` instead of g(s); words that
need memory of their own on their way (sends, gets, strided puts) cost `staged` more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log2, sqrt
from typing import NamedTuple

import numpy as np

from bsp.cost.units import in_bytes, in_seconds

WORD = 8  # bytes
_NEGLIGIBLE = 0.01  # of the time of computing: what communication or synchronisation takes beside it


class Traffic(NamedTuple):
    """What crosses one level in a superstep, at each of its ports: arrays of shape (supersteps, ports)."""

    blocks: np.ndarray
    words: np.ndarray  # in blocks
    fine: np.ndarray  # one by one
    staged: np.ndarray  # those of `words` that take memory of their own on their way: sends, gets, strided puts

    def __add__(self, other: Traffic) -> Traffic:  # type: ignore[override]
        return Traffic(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Level:
    """What moving words costs between the parts of one kind; flop-times.

    g     : a word of 8 bytes in large blocks.  `blocks` has it by block size: ((bytes, g), ...), ascending.
    o     : a block.
    L     : a superstep; on the innermost level a process's turn in it.
    fine  : a word put one by one; None: g.  staged : what a word costs more that is staged on its way.
    ports : elements that share a port to this level: 1, or the elements of a node.
    """

    name: str
    g: float
    o: float
    L: float
    blocks: tuple[tuple[int, float], ...] = ()
    fine: float | None = None
    ports: int = 1
    staged: float = 0.0

    def g_of(self, block_bytes: np.ndarray | float) -> np.ndarray:
        """g for blocks of this size: interpolated over the logarithm of the size, constant beyond both ends."""
        if not self.blocks:
            return np.full(np.shape(block_bytes), self.g)
        sizes, costs = zip(*self.blocks, strict=True)
        found: np.ndarray = np.interp(np.log2(np.maximum(block_bytes, 1.0)), np.log2(sizes), costs)
        return found

    def cost(self, traffic: Traffic) -> np.ndarray:
        """o·m + g(s)·h at each port."""
        blocks, words, fine, staged = traffic
        size = WORD * words / np.maximum(blocks, 1)
        fine_g = self.g if self.fine is None else self.fine
        priced: np.ndarray = self.o * blocks + self.g_of(size) * words + fine_g * fine + self.staged * staged
        return priced


@dataclass(frozen=True)
class Machine:
    """(p, r, g, L), and the overhead o of a message: the machine as choices and prices see it.

    p : elements.  r : flop/s of one element, all busy.  g : flop-times a word.  L : flop-times a superstep.
    o : flop-times a message.  memory : bytes an element may use, 0 if unknown.
    levels : innermost first, the first of them inside an element; empty: one level, the classical model.
    rates : flop/s by class of work: blas1, blas2, blas3, elementwise, and bandwidth in bytes/s.
    slowdown : how much longer work takes with all elements busy than with one alone.
    registration : flop-times that a superstep takes longer in which coarrays are registered.
    fresh : what a word costs more that lands in memory the element has not used before.
    kind : measured, imagined, or default.  host : where it was measured.
    """

    p: int = 1
    r: float = 2e9
    g: float = 4.0
    L: float = 2e4
    o: float = 2e3
    name: str = "default"
    kind: str = "default"
    memory: float = 0.0
    levels: tuple[Level, ...] = ()
    rates: Mapping[str, float] = field(default_factory=dict, hash=False)
    slowdown: float = 1.0
    host: str = ""
    registration: float = 0.0
    fresh: float = 0.0

    def price(self, h: float, supersteps: float = 1, messages: float = 0, w: float = 0.0) -> float:
        """Flop-times of `supersteps` that move `h` words in all, the busiest process sending `messages`."""
        return w + self.g * h + self.o * messages + self.L * supersteps

    @property
    def outer(self) -> tuple[Level, ...]:
        """The levels between elements, inner ones first."""
        return self.levels[1:] or (Level("elements", self.g, self.o, self.L),)

    @property
    def inside(self) -> Level | None:
        """What traffic between processes of one element costs; None: nothing, as in the classical model."""
        return self.levels[0] if self.levels else None

    def using(self, elements: int) -> Machine:
        """The machine as a program on this many of its elements sees it: the first ones, packed into few nodes.

        Fewer meet faster: each L shrinks with the logarithm of the parts that meet (a barrier is a tree), to
        nothing where a single part is left.  Work of one element alone is not slowed by others.
        """
        levels = list(self.levels)
        if elements == 1:  # what its own processes take for a superstep is the innermost level's
            levels[1:] = [replace(level, L=0.0) for level in levels[1:]]
        if elements >= self.p:
            return replace(self, levels=tuple(levels))
        for k in range(1, len(levels)):
            group = levels[k + 1].ports if k + 1 < len(levels) else self.p
            all_parts = -(-group // levels[k].ports)
            parts = min(all_parts, -(-elements // levels[k].ports))
            levels[k] = replace(levels[k], L=levels[k].L * _share(parts, all_parts))
        slowdown = 1 + (self.slowdown - 1) * (elements - 1) / (self.p - 1)
        L = self.L * _share(elements, self.p)
        return replace(self, p=elements, L=L, levels=tuple(levels), slowdown=slowdown)

    def seconds(
        self,
        work: np.ndarray,
        hosted: int,
        between: Sequence[Traffic],
        inside: Traffic,
        registers: np.ndarray,
        fresh: np.ndarray,
    ) -> np.ndarray:
        """The time of each superstep.

        work    : seconds of computing, shape (supersteps, elements).
        hosted  : processes on the fullest element.
        between : one Traffic for each of `outer`;  inside : what stays inside elements, ports = elements.
        registers : 1 where coarrays are registered, shape (supersteps,).
        fresh   : words that land in new memory, shape (supersteps, elements).
        """
        flops = self.registration * registers + self.fresh * fresh.max(axis=1)
        for level, traffic in zip(self.outer, between, strict=True):
            flops = flops + level.L + level.cost(traffic).max(axis=1)
        if self.inside is not None:
            flops = flops + self.inside.L * hosted + self.inside.cost(inside).max(axis=1)
        total: np.ndarray = work.max(axis=1) + flops / self.r
        return total

    def classical(self) -> str:
        """One line for people."""
        return f"(p, r, g, L) = ({self.p}, {self.r / 1e9:.3g} Gflop/s, {self.g:.3g}, {self.L:.3g})"


def _share(parts: int, of: int) -> float:
    """The part of a barrier's tree that is left."""
    return log2(parts) / log2(of) if of > 1 else 1.0


DEFAULT = Machine()


class Cost(NamedTuple):
    """W + g·H + L·S of a plan, a procedure or an algorithm, and the memory M it takes.

    W : flops of the busiest process.   H : words, the h-relations of all supersteps added.   S : supersteps.
    M : words of the fullest process; whether operands are among them, the one says who counts.
    messages : of the busiest process.   machine : what it was counted for; choices of algorithms depend on it.
    """

    W: float
    H: int
    S: int
    M: int = 0
    messages: int = 0
    machine: Machine = DEFAULT

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        """Return the cost of one after the other, neither's memory held during the other."""
        return self._replace(
            W=self.W + other.W, H=self.H + other.H, S=self.S + other.S, M=max(self.M, other.M),
            messages=self.messages + other.messages,
        )  # fmt: skip

    def price(self, machine: Machine | None = None) -> float:
        """Return the flop-times on a machine; None: the one it was counted for."""
        return (machine or self.machine).price(self.H, self.S, self.messages, self.W)

    @property
    def seconds(self) -> float:
        """The time on the machine it was counted for."""
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


class Classical(NamedTuple):
    """W + g·H + L·S of a program, in flop-times."""

    W: float
    H: float
    S: float
    g: float
    L: float

    @property
    def total(self) -> float:
        """The cost."""
        return self.W + self.g * self.H + self.L * self.S

    def __str__(self) -> str:
        return (
            f"W + g·H + L·S = {self.W:.3g} + {self.g:.3g}·{self.H:.3g} + {self.L:.3g}·{self.S:.0f} "
            f"= {self.total:.3g} flop-times"
        )

    def balance(self) -> list[str]:
        """Whether the machine is balanced for the program: g < W/H and L < W/S (McColl 1.7.3), in sentences."""
        said = []
        for name, cost, count, what, cure in (
            ("g", self.g, self.H, "words", "move fewer words for each operation, or more work between them"),
            ("L", self.L, self.S, "supersteps", "join supersteps, or give each more work"),
        ):
            if not count:
                said.append(f"{name}: no {what}, any {name} will do")
                continue
            share = cost * count / self.W if self.W else inf
            compared = f"{name} = {cost:.3g} {'<' if share < 1 else '>='} {self.W / count:.3g} = W/{'HS'[name == 'L']}"
            act = "communication" if name == "g" else "synchronisation"
            if share < _NEGLIGIBLE:
                said.append(f"{compared}: {act} is negligible, less than {_NEGLIGIBLE:.0%} of the time of computing")
            elif share < 1:
                said.append(f"{compared}: balanced, {act} takes {share:.0%} of the time of computing")
            else:
                said.append(f"{compared}: {act} costs more than computing; {cure}")
        return said


# McColl 1.7.3, Table 1.1: asymptotic g and L of p processors, small constants ignored
NETWORKS = {
    "ring": (lambda p: p, lambda p: p),
    "2d-array": (sqrt, sqrt),
    "butterfly": (log2, log2),
    "hypercube": (lambda p: 1.0, log2),
    "complete": (lambda p: 1.0, lambda p: 1.0),
}


def on_network(name: str, p: int, base: Machine = DEFAULT) -> Machine:
    """A what-if: `base`'s processors, p of them, joined by a network of Table 1.1.

    base.g and base.L are taken as the constants that the table ignores.  Raises KeyError for other names.
    """
    g_of, L_of = NETWORKS[name]
    p = max(p, 2)  # a logarithm of one processor says nothing
    return Machine(
        p=p, r=base.r, g=base.g * g_of(p), L=base.L * L_of(p), o=base.o, name=f"{name}:{p}", kind="imagined",
        memory=base.memory, rates=base.rates, slowdown=base.slowdown,
    )  # fmt: skip


def costings(
    w: Iterable[tuple[float, float]], h: Iterable[tuple[float, float]], own: Iterable[float], g: float, L: float
) -> dict[str, float]:
    """Four prices of one program: normal, and with barriers, imbalance, or both removed (after Oxford's bspsig).

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
