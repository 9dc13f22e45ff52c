"""In which order a chain of matrices is multiplied: `A @ B @ v` costs a product of matrices as Python brackets it.

A chain is what products of two make that nothing else uses: of one dtype, so that another order changes no more than
rounding (of integers nothing: they are added and multiplied modulo 2**n).  The order follows from shapes alone, never
from layouts or p, so values do not depend on these.  Python's brackets stay unless another order takes at most half
the operations.  A product that was computed before, is asked for, or has two users is no part of a chain: a loop with
`P = A @ B` before it and `P @ v` inside multiplies by A and B once, then computes P (see `capture`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bsp.arrays.expressions.graph import Contract, Graph, Node
from bsp.arrays.expressions.layout import Shape

_GAIN = 2  # Python's brackets take at least so many times the operations

# the products of two, as `functions.build.contracted` numbers their indices
_MATRICES = (((0, 1), (1, 2)), (0, 2))
_ROW = (((0,), (0, 1)), (1,))  # a vector times a matrix
_COLUMN = (((0, 1), (1,)), (0,))
_NUMBER = (((0,), (0,)), ())

Splits = dict[tuple[int, int], int]  # of factors i to j: the last one of the left part


class Chain(NamedTuple):
    """Factors whose product is a node, and where the chain is divided."""

    factors: tuple[Node, ...]
    best: Splits

    def product(self, i: int, j: int) -> Contract:
        """Return the product of the two parts of factors i to j."""
        row = len(self.factors[i].kind.shape) == 1
        column = len(self.factors[j].kind.shape) == 1
        labels, out = _NUMBER if row and column else _ROW if row else _COLUMN if column else _MATRICES
        return Contract(labels, out)

    def shape(self, i: int, j: int) -> Shape:
        """Return the shape of the product of factors i to j."""
        return (*self.factors[i].kind.shape[:-1], *self.factors[j].kind.shape[1:])


def chains(graph: Graph) -> tuple[dict[int, Chain], set[int]]:
    """Return the chains that are multiplied in another order, by node, and the products inside that are not made."""
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
    """Which product of two a node is; None: another operation."""
    if not isinstance(node.op, Contract) or len(node.args) != 2:
        return None
    form = node.op.labels, node.op.out
    return form if form in (_MATRICES, _ROW, _COLUMN, _NUMBER) else None


def _flat(graph: Graph, i: int, inside: set[int], within: set[int]) -> tuple[list[Node], int]:
    """The factors of a product, from left to right, and its operations as bracketed; `within` gains what is inside.

    A column on the left is no row: (A @ v) @ B is no chain.
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
    """Where each chain of matrices is best divided, and its multiplications (Cormen, Leiserson, Rivest, Stein 15.2).

    lengths : matrix k is lengths[k] × lengths[k + 1].
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
