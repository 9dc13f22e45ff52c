"""The class `Partition`, and the functions that make partitions: of ranges, boxes, hypercubes and graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np
import scipy.sparse

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.build import relaid
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.layout import automatic
from bsp.arrays.selection.selecting import take
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.base import ScipyMatrix
from bsp.arrays.sparse.creation import cut_evenly, of_triples
from bsp.arrays.sparse.partition.bisection import bisected
from bsp.arrays.sparse.partition.grid import GridMatrix, dealt_by_blocks, grid_shape, holder_of
from bsp.arrays.sparse.partition.traffic import GridTraffic, ProductTraffic, product_traffic
from bsp.arrays.sparse.pattern import Bounds, even, line
from bsp.arrays.typing import ArrayLike


class Partition:
    """An order of n positions, and where each process's share of the order begins.

    order : the position at each place of the order; None: they stay in their order.
    """

    def __init__(self, order: np.ndarray | None, bounds: Sequence[int]) -> None:
        self.bounds: Bounds = tuple(int(each) for each in bounds)
        self.order = order
        if order is not None and len(order) != self.bounds[-1]:
            raise ArrayError(f"an order of {len(order)} positions with bounds up to {self.bounds[-1]}")

    def __repr__(self) -> str:
        sizes = np.diff(self.bounds)
        return (
            f"<partition of {self.length} positions in {self.nprocs} shares of {sizes.min()} to {sizes.max()}"
            f"{'' if self.order is None else ', reordered'}>"
        )

    @property
    def length(self) -> int:
        """The number of positions."""
        return self.bounds[-1]

    @property
    def nprocs(self) -> int:
        """The number of shares."""
        return len(self.bounds) - 1

    @cached_property
    def places(self) -> np.ndarray | None:
        """The place of each position in the order; None if they stay in their order."""
        if self.order is None:
            return None
        found = np.empty(self.length, self.order.dtype)
        found[self.order] = np.arange(self.length, dtype=self.order.dtype)
        return found

    @cached_property
    def owner(self) -> np.ndarray:
        """The process of each position."""
        found = np.empty(self.length, np.int32)
        shares = np.repeat(np.arange(self.nprocs, dtype=np.int32), np.diff(self.bounds))
        found[slice(None) if self.order is None else self.order] = shares
        return found

    # ------------------------------------------------------------------------------- dealing

    def matrix(self, a: SparseArray) -> SparseArray:
        """Return a square sparse array with rows and columns in this order, dealt by it.  Collective.

        Cost: H = three words for each entry that moves, S = 2.
        """
        here = world()
        self._fits(a.shape, here.nprocs)
        rows, columns, values = a.triples()
        if self.places is not None:
            rows, columns = self.places[rows], self.places[columns]
        return of_triples(here, rows, columns, values, self.bounds, self.bounds)

    def grid(self, a: SparseArray, counts: Sequence[int] | None = None) -> GridMatrix:
        """Return a square sparse array in this order, dealt by two-dimensional blocks.  Collective.

        counts : rows and columns of the grid of processes; by default as near to a square as p allows.
        Its vectors are dealt as those of `matrix`: by `vector`.
        Cost: H = three words for each entry that moves, once by rows and once by blocks; S = 8.
        """
        counts = grid_shape(counts, world().nprocs)
        return dealt_by_blocks(world(), self.matrix(a), self.bounds, counts)

    def vector(self, x: ArrayLike) -> Array:
        """Return a vector in this order, dealt by it.  Collective.  Cost: H = n/p words."""
        array = asarray(x)
        if array.ndim != 1:
            raise ArrayError(f"vector: shape {array.shape} of what is no vector; take a matrix column by column")
        self._fits((array.shape[0], array.shape[0]), world().nprocs)
        moved = array if self.order is None else take(array, self.order)
        return wrap(relaid(moved._node, line(self.bounds))).persist()

    def undone(self, x: ArrayLike) -> Array:
        """Return a vector in this order as one in the order of positions, dealt evenly.  Collective."""
        array = asarray(x)
        if array.shape != (self.length,):
            raise ArrayError(f"undone: shape {array.shape}; a vector of {self.length} elements in this order")
        moved = array if self.places is None else take(array, self.places)
        return wrap(relaid(moved._node, automatic(array.shape, world().nprocs))).persist()

    def _fits(self, shape: tuple[int, ...], nprocs: int) -> None:
        if self.nprocs != nprocs:
            raise ArrayError(f"a partition for {self.nprocs} processes; there are {nprocs}")
        if shape != (self.length, self.length):
            raise ArrayError(f"a partition of {self.length} positions and shape {shape} do not fit")

    # -------------------------------------------------------------------------------- prices

    def product(self, a: ScipyMatrix | SparseArray) -> ProductTraffic:
        """Return what `matrix(a) @ x` will move in each product.

        a : a scipy.sparse matrix that the calling process has: local, for any number of shares; or a sparse array,
            whose rows every process then counts: collective, S = 1.
        """
        counts, (elements,) = self._counted(a, lambda row_owner, _: row_owner, 1)
        return product_traffic(counts, *elements)

    def grid_product(self, a: ScipyMatrix | SparseArray, counts: Sequence[int] | None = None) -> GridTraffic:
        """Return what `grid(a, counts) @ x` will move in each product; the arguments are those of `product`."""
        _, columns = grid_shape(counts, self.nprocs)
        entries, (elements, sums) = self._counted(a, lambda row, column: holder_of(row, column, columns), 2)
        return GridTraffic(product_traffic(entries, *elements), product_traffic(entries, *sums[::-1]))

    def _counted(
        self, a: Any, holder: Callable[[np.ndarray, np.ndarray], np.ndarray], axes: int
    ) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """Return the entries of each process, and by axis the owner and the holder of each position that moves.

        holder : of entries, from the owners of their rows and columns.
        axes : 1 for columns, 2 for columns and rows.
        """
        dealt = isinstance(a, SparseArray)
        whole = None if dealt else scipy.sparse.coo_array(a)
        rows, columns = a.triples()[:2] if whole is None else whole.coords
        if a.shape != (self.length, self.length):
            raise ArrayError(f"a partition of {self.length} positions and shape {a.shape} do not fit")
        places = (columns, rows)[:axes]
        owners = self.owner.astype(np.int64)
        held = holder(owners[rows], owners[columns])
        counts = np.bincount(held, minlength=self.nprocs)
        pairs = [np.unique((held * self.length + each)[held != owners[each]]) for each in places]
        if dealt:
            told = world().private.allgather((counts, pairs))
            counts = np.sum([each for each, _ in told], axis=0)
            pairs = [np.unique(np.concatenate(each)) for each in zip(*[each for _, each in told], strict=True)]
        length = max(self.length, 1)
        return counts, [(owners[each % length], each // length) for each in pairs]


# --------------------------------------------------------------------------------- partitions


def blocks(length: int, nprocs: int, weights: ArrayLike | None = None) -> Partition:
    """Return the partition in ranges of equal length, or of about equal weight."""
    if weights is None:
        return Partition(None, even(length, nprocs))
    given = np.asarray(weights, float)
    if given.shape != (length,) or not (given >= 0).all():
        raise ArrayError(f"blocks: weights of shape {given.shape} for {length} positions; none may be negative or NaN")
    return Partition(None, cut_evenly(np.cumsum(given), nprocs))


def bricks(shape: Sequence[int], grid: int | Sequence[int]) -> Partition:
    """Return the partition of a mesh's nodes, numbered in C order, in boxes.

    grid : the boxes along each axis, or their number, from which those with the least surface are made.
    """
    lengths = tuple(int(each) for each in shape)
    counts = automatic(lengths, grid, False).grid if isinstance(grid, int) else tuple(grid)
    if len(counts) != len(lengths) or min(counts, default=1) < 1 or (isinstance(grid, int) and prod(counts) != grid):
        raise ArrayError(f"bricks: a mesh of shape {lengths} is not cut into {grid}")
    return of_owner(_of_boxes(lengths, counts), prod(counts))


def _of_boxes(lengths: tuple[int, ...], counts: tuple[int, ...]) -> np.ndarray:
    owner = np.zeros((1,) * len(lengths), np.int64)
    for axis, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        part = np.searchsorted(even(length, count), np.arange(length), side="right") - 1
        owner = owner * count + part.reshape([-1 if k == axis else 1 for k in range(len(lengths))])
    return np.broadcast_to(owner, lengths).reshape(-1)


def halves(dimension: int, nprocs: int) -> Partition:
    """Return the partition of a hypercube's 2^dimension nodes by their first log2(p) coordinates.

    nprocs : a power of two.
    """
    if nprocs & (nprocs - 1) or nprocs > 2**dimension:
        raise ArrayError(
            f"halves: {nprocs} shares of a hypercube of dimension {dimension}: a power of two, at most 2^d"
        )
    return Partition(None, even(2**dimension, nprocs))


def of_owner(owner: ArrayLike, nprocs: int) -> Partition:
    """Return the partition in which position i is process owner[i]'s; each share is in the order of positions."""
    given = np.asarray(owner)
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given.size and not 0 <= given.min() <= given.max() < nprocs):
        raise ArrayError(f"of_owner: a vector of processes from 0 to {nprocs - 1}")
    order = np.argsort(given, kind="stable")
    bounds = (0, *np.cumsum(np.bincount(given, minlength=nprocs)).tolist())
    return Partition(None if (order[1:] > order[:-1]).all() else order, bounds)


def of_graph(
    a: ScipyMatrix | SparseArray, nprocs: int, *, method: str = "auto", imbalance: float = 0.03, seed: int = 0
) -> Partition:
    """Return a partition of a square matrix's rows with few far columns and about equal entries.

    a : a scipy.sparse matrix, or a sparse array, which is brought to every process: of its pattern only.
    method : "hypergraph" (mtkahypar, `pip install 'nonstop-bsp[partition]'`) makes the words of a product few: they are
        the connectivity of the cut, the sum over columns of the number of processes that have entries in it, less one.
        "bisection" is built in: halves grown in breadth and mended at their border, again and again.
        "auto": the first if it is installed.
    imbalance : by how much the weight of a share (entries, and one a row) may exceed the mean, as a part of it.
    All processes find the same partition, without communication.
    """
    whole = scipy.sparse.csr_array(a.compute() if isinstance(a, SparseArray) else a)
    if whole.shape[0] != whole.shape[1]:
        raise ArrayError(f"of_graph: a matrix of shape {whole.shape} is not square")
    if method not in ("auto", "hypergraph", "bisection"):
        raise ArrayError(f"of_graph(method={method!r}): auto, hypergraph or bisection")
    weights = np.diff(whole.indptr) + 1
    if method != "bisection":
        owner = _hypergraph(whole, weights, nprocs, imbalance, seed, method == "hypergraph")
        if owner is not None:
            return of_owner(owner, nprocs)
    return of_owner(bisected(whole, weights, nprocs, imbalance), nprocs)


@cache
def _initialized() -> Any:
    """Return mtkahypar's one instance; it must not be made twice."""
    import mtkahypar

    return mtkahypar.initialize(1)


def _hypergraph(
    whole: Any, weights: np.ndarray, nprocs: int, imbalance: float, seed: int, asked: bool
) -> np.ndarray | None:
    """Return the owners that mtkahypar finds; None if it is not installed and was not asked for."""
    try:
        import mtkahypar
    except ImportError:
        if asked:
            raise ArrayError('of_graph(method="hypergraph") takes mtkahypar: pip install mtkahypar') from None
        return None
    if nprocs == 1:
        return np.zeros(len(weights), np.int64)
    columns = (abs(whole) + scipy.sparse.eye_array(whole.shape[0])).tocsc()  # a column's owner is in its net
    nets = np.split(columns.indices.astype(int), columns.indptr[1:-1])
    instance = _initialized()
    mtkahypar.set_seed(seed)
    context = instance.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(nprocs, imbalance, mtkahypar.Objective.KM1)
    context.logging = False
    graph = instance.create_hypergraph(
        context, len(weights), len(nets), [net.tolist() for net in nets], weights.tolist(), [1] * len(nets)
    )
    found = graph.partition(context)
    return np.array(found.get_partition())
