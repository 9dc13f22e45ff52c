"""What each way to factor costs: words and supersteps exactly, operations to leading order, memory as a bound."""

from __future__ import annotations

from bsp.algorithms.costs import Cost, added, allreduced
from bsp.arrays.linalg import tall
from bsp.cost.model import Machine

METHODS = ("direct", "indirect", "cholesky2")


def cost(m: int, n: int, p: int, method: str, machine: Machine, itemsize: int = 8) -> Cost:
    """Of qr(A, method) for A of shape (m, n), m >= n, by rows on p processes, elements of `itemsize` bytes.

    direct: W = 6(m/p)n² + T, H and S those of one tree, M = 2(m/p)n + P: reflections and Q.
    indirect: W = 6(m/p)n² + 2T, H and S those of two trees, M = (m/p)n + P.
    cholesky2: W = 4(m/p)n², H and S those of two sums of n(n+1)/2 words, M = (m/p)n + 8n².
    auto: the most it can take: it looks at both AᴴA's and R before it is certain that reflections are needed.
    A tree of arity a, p = a^k: T = 4akn³, H = (a-1)n² and S = 1 at each of its k levels; where p is no power two
    supersteps more, n² there and n² back (2n² with Q).  A sum takes what `allreduce` does.
    P, of what is factored at once: pieces of b = max(1024, 8n) rows, and their R's: 2bn + 2(m/p)n²/b + 8n² words.
    H is exact where every process has n rows, else an upper bound.  Raises ValueError for another method.
    """
    rows, share = -(-m // p), float(-(-m // p)) * n * n
    one, two = _tree(n, p, machine, itemsize, False), _tree(n, p, machine, itemsize, True)
    half = allreduced(n * (n + 1) // 2, p, machine, itemsize) if p > 1 else Cost(0, 0, 0)
    block = rows * n * itemsize // 8
    length = max(tall.BLOCK, 8 * n)
    square = 8 * n * n * itemsize // 8
    piece = (2 * min(rows, length) * n + 2 * rows * n * n // length) * itemsize // 8 + square
    if method == "direct":
        return added([two], 6 * share, 2 * block + piece)
    if method == "indirect":
        return added([one, one], 6 * share, block + piece)
    if method == "cholesky2":
        return added([half, half], 4 * share, block + square)
    if method == "auto":
        if not gram_first(m, n, p, machine, itemsize):
            return cost(m, n, p, "direct", machine, itemsize)
        return added([half, half, one, one, two], 16 * share, 2 * block + piece)
    raise ValueError(f"cost: method={method!r} is none of {', '.join((*METHODS, 'auto'))}")


def gram_first(m: int, n: int, p: int, machine: Machine, itemsize: int = 8) -> bool:
    """Whether Cholesky, if it is exact enough, is cheaper than reflections, which always are."""
    found = [cost(m, n, p, method, machine, itemsize).price(machine) for method in ("cholesky2", "direct")]
    return found[0] < found[1]


def _tree(n: int, p: int, machine: Machine, itemsize: int, with_q: bool) -> Cost:
    """Of one R: `tall.tsqr`."""
    if p == 1:
        return Cost(0, 0, 0)
    pattern = tall.cheapest(machine, p, n, itemsize)
    arity = {"direct": p, "tree": 2}.get(str(pattern)) or int(pattern)
    members, levels = tall.tree_of(p, arity)
    square = -(-n * n * itemsize // 8)
    joins = members < p
    words = levels * (arity - 1) * square + joins * (square + (-(-2 * n * n * itemsize // 8) if with_q else square))
    return Cost(
        (levels * (4 * arity + 2) + 10 * joins) * float(n) ** 3,
        words,
        levels + 2 * joins,
        messages=levels * (arity - 1) + 2 * joins,
    )
