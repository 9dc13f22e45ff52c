"""What each way to factor costs: words and supersteps exactly, operations and memory to leading order."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from bsp.arrays.functions import tall
from bsp.cost.collective_prices import levels_of, prices
from bsp.cost.model import Machine

METHODS = ("direct", "indirect", "cholesky2")


class QRCost(NamedTuple):
    """W + g·H + L·S, and memory, of the busiest process."""

    W: float  # flops
    H: int  # words, the h-relations of all supersteps added
    S: int  # supersteps
    M: int  # words beside A's own
    messages: int

    def price(self, machine: Machine) -> float:
        """Flop-times on a machine."""
        return machine.price(self.H, self.S, self.messages, self.W)


def cost(m: int, n: int, p: int, method: str, machine: Machine, itemsize: int = 8) -> QRCost:
    """Of qr(A, method) for A of shape (m, n), m >= n, by rows on p processes, elements of `itemsize` bytes.

    direct: W = 6(m/p)n² + T, H and S those of one tree, M = 2(m/p)n.
    indirect: W = 6(m/p)n² + 2T, H and S those of two trees, M = (m/p)n.
    cholesky2: W = 4(m/p)n², H and S those of two sums of n(n+1)/2 words, M = (m/p)n.
    auto: the most it can take: it looks at both AᴴA's and R before it is certain that reflections are needed.
    A tree of arity a, p = a^k: T = 4akn³, H = (a-1)n² and S = 1 at each of its k levels; where p is no power two
    supersteps more, n² there and n² back (2n² with Q).  A sum takes what `allreduce` does.
    H is exact where every process has n rows, else an upper bound.  Raises ValueError for another method.
    """
    rows, share = -(-m // p), float(-(-m // p)) * n * n
    one, two = _tree(n, p, machine, itemsize, False), _tree(n, p, machine, itemsize, True)
    half = _sum(n, p, machine, itemsize)
    block = rows * n * itemsize // 8
    if method == "direct":
        return _added(6 * share, 2 * block, [two])
    if method == "indirect":
        return _added(6 * share, block, [one, one])
    if method == "cholesky2":
        return _added(4 * share, block, [half, half])
    if method == "auto":
        if not gram_first(m, n, p, machine, itemsize):
            return cost(m, n, p, "direct", machine, itemsize)
        return _added(16 * share, 2 * block, [half, half, one, one, two])
    raise ValueError(f"cost: method={method!r} is none of {', '.join((*METHODS, 'auto'))}")


def gram_first(m: int, n: int, p: int, machine: Machine, itemsize: int = 8) -> bool:
    """Whether Cholesky, if it is exact enough, is cheaper than reflections, which always are."""
    found = [cost(m, n, p, method, machine, itemsize).price(machine) for method in ("cholesky2", "direct")]
    return found[0] < found[1]


class _Part(NamedTuple):
    flops: float
    words: int
    supersteps: int
    messages: int


def _added(flops: float, memory: int, parts: list[_Part]) -> QRCost:
    return QRCost(
        flops + sum(part.flops for part in parts),
        sum(part.words for part in parts),
        sum(part.supersteps for part in parts),
        memory,
        sum(part.messages for part in parts),
    )


def _tree(n: int, p: int, machine: Machine, itemsize: int, with_q: bool) -> _Part:
    """Of one R: `tall.tsqr`."""
    if p == 1:
        return _Part(0, 0, 0, 0)
    pattern = tall.cheapest(machine, p, n, itemsize)
    arity = {"direct": p, "tree": 2}.get(str(pattern)) or int(pattern)
    members, levels = tall.tree_of(p, arity)
    square = -(-n * n * itemsize // 8)
    joins = members < p
    words = levels * (arity - 1) * square + joins * (square + (-(-2 * n * n * itemsize // 8) if with_q else square))
    return _Part(
        (levels * (4 * arity + 2) + 10 * joins) * float(n) ** 3,
        words,
        levels + 2 * joins,
        levels * (arity - 1) + 2 * joins,
    )


def _sum(n: int, p: int, machine: Machine, itemsize: int) -> _Part:
    """Of one symmetric matrix: `allreduce` of its upper triangle."""
    if p == 1:
        return _Part(0, 0, 0, 0)
    count = n * (n + 1) // 2
    words = -(-count * itemsize // 8)
    found = prices(machine, p, "allreduce", words, True)
    chosen = min(found, key=found.__getitem__)
    if chosen == "one-phase":
        return _Part(p * words, (p - 1) * words, 1, p - 1)
    if chosen == "two-phase":
        cuts = [count * k // p for k in range(p + 1)]
        sizes = [high - low for low, high in pairwise(cuts)]
        first = max(max(count - size, (p - 1) * size) for size in sizes)
        second = max(max((p - 1) * size, count - size) for size in sizes)
        moved = sum(-(-each * itemsize // 8) for each in (first, second))
        return _Part(words, moved, 2, 2 * (p - 1))
    arity = int(chosen.removeprefix("tree-"))
    sent = sum(min(arity, -(-p // arity**level)) - 1 for level in range(levels_of(p, arity)))
    return _Part(sent * words, 2 * sent * words, 2 * levels_of(p, arity), 2 * sent)
