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

from bsp.arrays.expressions.graph import Contract, Graph, Node
from bsp.arrays.expressions.layout import Shape

_GAIN = 2  # another order is taken if Python's takes at least so many times its operations

# products of two, with their indices numbered as `contracted` of `arrays/build.py` does
_MATRICES = (((0, 1), (1, 2)), (0, 2))
_ROW = (((0,), (0, 1)), (1,))  # a vector times a matrix
_COLUMN = (((0, 1), (1,)), (0,))
_NUMBER = (((0,), (0,)), ())

Splits = dict[tuple[int, int], int]  # (i, j) -> the last factor of the left part of factors i to j


class Chain(NamedTuple):
    """Factors whose product is a node, and the best place to split each part of the chain."""

    factors: tuple[Node, ...]
    best: Splits

    def product(self, i: int, j: int) -> Contract:
        """Return the contraction that multiplies the two parts of factors i to j."""
        row = len(self.factors[i].kind.shape) == 1
        column = len(self.factors[j].kind.shape) == 1
        labels, out = _NUMBER if row and column else _ROW if row else _COLUMN if column else _MATRICES
        return Contract(labels, out)

    def shape(self, i: int, j: int) -> Shape:
        """Return the shape of the product of factors i to j."""
        return (*self.factors[i].kind.shape[:-1], *self.factors[j].kind.shape[1:])


def chains(graph: Graph) -> tuple[dict[int, Chain], set[int]]:
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
    for i in sorted(products, reverse=True):  # users before their arguments
        if i in gone:
            continue
        within: set[int] = set()
        factors, price = _flat(graph, i, inside, within)
        if len(factors) < 3 or len({factor.kind.dtype for factor in factors}) > 1:
            continue
        lengths = (1, *factors[0].kind.shape) if len(factors[0].kind.shape) == 1 else factors[0].kind.shape
        lengths = (*lengths, *[(*factor.kind.shape, 1)[1] for factor in factors[1:]])
        best, least = splits(lengths)
        if _GAIN * least <= price and least < price:
            found[i] = Chain(tuple(factors), best)
            gone |= within
    return found, gone


def _form(node: Node) -> object:
    """Return the form of a node that is a product of two, or None for any other node."""
    if not isinstance(node.op, Contract) or len(node.args) != 2:
        return None
    form = node.op.labels, node.op.out
    return form if form in (_MATRICES, _ROW, _COLUMN, _NUMBER) else None


def _flat(graph: Graph, i: int, inside: set[int], within: set[int]) -> tuple[list[Node], int]:
    """Return the factors of a product, from left to right, and its multiplications as Python brackets it.

    Adds the inner products to `within`.  (A @ v) @ B is no chain: the column A @ v acts as a row there.
    """
    node = graph.nodes[i]
    left, right = node.args
    factors: list[Node] = []
    price = node.kind.size * left.kind.shape[-1]
    for arg, forms in ((left, (_MATRICES, _ROW)), (right, (_MATRICES, _COLUMN))):
        k = graph.positions[arg]
        if k in inside and _form(graph.nodes[k]) in forms:
            within.add(k)
            more, further = _flat(graph, k, inside, within)
            factors += more
            price += further
        else:
            factors.append(arg)
    return factors, price


@lru_cache(maxsize=1024)
def splits(lengths: Sequence[int]) -> tuple[Splits, int]:
    """Return the best split of each part of a chain of matrices, and the multiplications of the whole chain.

    lengths : matrix k is lengths[k] × lengths[k + 1].

    Source: Cormen, Leiserson, Rivest and Stein, section 15.2.
    """
    count = len(lengths) - 1
    price = {(k, k): 0 for k in range(count)}
    best: Splits = {}
    for span in range(1, count):
        for i in range(count - span):
            j = i + span
            options = [
                (price[i, k] + price[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1], k) for k in range(i, j)
            ]
            price[i, j], best[i, j] = min(options)
    return best, price[0, count - 1]
