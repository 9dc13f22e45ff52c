"""Matrix chains: the order in which products such as `A @ B @ v` are multiplied.

Python brackets from the left, so that `A @ B @ v` would cost a product of two matrices.

A chain is a tree of products of two whose inner products nothing else uses.  All factors have one dtype, so another
order changes the result by rounding only; integer results do not change, since integers are added and multiplied
modulo 2**n.  The order follows from shapes alone, never from layouts or p, so values do not depend on those.
Python's brackets stay unless another order takes at most half the operations.  A product that was computed before,
is a result that was asked for, or has two users is no part of a chain: a loop with `P = A @ B` before it and `P @ v`
inside multiplies by A and B once, then computes P (see `capture`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import Contract, ExpressionGraph, Node
from bsp.arrays.expressions.layout import Shape

_GAIN = 2  # another order is taken if Python's takes at least so many times its operations

# products of two, with their indices numbered as `contracted` of `arrays/build.py` does
_MATRICES = (((0, 1), (1, 2)), (0, 2))
_ROW = (((0,), (0, 1)), (1,))  # a vector times a matrix
_COLUMN = (((0, 1), (1,)), (0,))
_NUMBER = (((0,), (0,)), ())


class Chain(NamedTuple):
    """Factors first to last of some, whose product is a node, and the best place to split each part of them.

    best : by the first and the last factor of a part, the last factor of its left half.
    """

    factors: tuple[Node, ...]
    best: np.ndarray
    first: int
    last: int

    def product(self, i: int, j: int) -> Contract:
        """Return the contraction that multiplies the two parts of factors i to j."""
        row = len(self.factors[i].kind.shape) == 1
        column = len(self.factors[j].kind.shape) == 1
        labels, out = _NUMBER if row and column else _ROW if row else _COLUMN if column else _MATRICES
        return Contract(labels, out)

    def shape(self, i: int, j: int) -> Shape:
        """Return the shape of the product of factors i to j."""
        return (*self.factors[i].kind.shape[:-1], *self.factors[j].kind.shape[1:])


def chains(graph: ExpressionGraph) -> tuple[dict[int, Chain], set[int]]:
    """Return the chains to multiply in another order, by node, and the inner products that are then not computed."""
    products = {i for i, node in enumerate(graph.nodes) if _form(node) is not None}
    if not any(graph.positions[arg] in products for i in products for arg in graph.nodes[i].args):
        return {}, set()
    users = [0] * len(graph.nodes)
    for node in graph.nodes:
        for arg in node.args:
            users[graph.positions[arg]] += 1
    inside = {i for i in products if users[i] == 1 and i not in graph.roots}
    found: dict[int, Chain] = {}
    gone: set[int] = set()
    seen: set[int] = set()
    for i in sorted(products, reverse=True):  # users before their arguments
        if i in seen:
            continue
        factors, parts = _flat(graph, i, inside)
        if len(factors) < 3 or len({factor.kind.dtype for factor in factors}) > 1:
            continue
        seen |= parts.keys()
        lengths = (1, *factors[0].kind.shape) if len(factors[0].kind.shape) == 1 else factors[0].kind.shape
        lengths = (*lengths, *[(*factor.kind.shape, 1)[1] for factor in factors[1:]])
        best, least = splits(lengths)
        for k in sorted(parts, reverse=True):
            first, last, price = parts[k]
            if k not in gone and _GAIN * least[first, last] <= price and least[first, last] < price:
                found[k] = Chain(tuple(factors), best, first, last)
                gone |= {part for part, (low, high, _) in parts.items() if first <= low and high <= last and part < k}
    return found, gone


def _form(node: Node) -> object:
    """Return the form of a node that is a product of two, or None for any other node."""
    if not isinstance(node.op, Contract) or len(node.args) != 2:
        return None
    form = node.op.labels, node.op.out
    return form if form in (_MATRICES, _ROW, _COLUMN, _NUMBER) else None


def _flat(graph: ExpressionGraph, i: int, inside: set[int]) -> tuple[list[Node], dict[int, tuple[int, int, int]]]:
    """Return the factors of a product, from left to right, and what each product of two among them multiplies.

    That is, for `i` and its inner products, the first and the last factor, and the multiplications as Python brackets
    them.  (A @ v) @ B is no chain: the column A @ v acts as a row there.
    """
    inner: dict[int, list[int | None]] = {}  # the arguments that are inner products, by product
    waiting = [i]
    while waiting:
        k = waiting.pop()
        args = zip(graph.nodes[k].args, ((_MATRICES, _ROW), (_MATRICES, _COLUMN)), strict=True)
        places = [(graph.positions[arg], forms) for arg, forms in args]
        inner[k] = [at if at in inside and _form(graph.nodes[at]) in forms else None for at, forms in places]
        waiting += [at for at in inner[k] if at is not None]
    sizes: dict[int | None, int] = {None: 1}
    prices: dict[int | None, int] = {None: 0}
    for k in sorted(inner):  # arguments before their users
        node = graph.nodes[k]
        sizes[k] = sum(sizes[at] for at in inner[k])
        prices[k] = sum(prices[at] for at in inner[k]) + node.kind.size * node.args[0].kind.shape[-1]
    factors: dict[int, Node] = {}
    first = {i: 0}
    for k in sorted(inner, reverse=True):
        start = first[k]
        for arg, at in zip(graph.nodes[k].args, inner[k], strict=True):
            if at is None:
                factors[start] = arg
            else:
                first[at] = start
            start += sizes[at]
    parts = {k: (first[k], first[k] + sizes[k] - 1, prices[k]) for k in inner}
    return [factors[place] for place in sorted(factors)], parts


@lru_cache(maxsize=64)
def splits(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the best split of each part of a chain of matrices, and the multiplications of each part.

    lengths : matrix k is lengths[k] × lengths[k + 1].
    Both are arrays with an entry (i, j) for the product of matrices i to j.

    Source: Cormen, Leiserson, Rivest and Stein, section 15.2; all parts of one length at once.
    """
    count = len(lengths) - 1
    sides = np.array(lengths, float)
    price, best = np.zeros((count, count)), np.zeros((count, count), int)
    for span in range(1, count):
        i = np.arange(count - span)
        k = i[:, None] + np.arange(span)
        j = i + span
        options = price[i[:, None], k] + price[k + 1, j[:, None]] + (sides[i] * sides[j + 1])[:, None] * sides[k + 1]
        least = options.argmin(axis=1)
        price[i, j], best[i, j] = options[i, least], i + least
    return best, price
