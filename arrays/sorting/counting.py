"""How many elements fall into each of some bins: each process counts its own, and the counts are added."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import reshape, unstack
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.expressions.layout import automatic
from bsp.arrays.gathering import brought
from bsp.arrays.kernels.aggregates import SUM
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, layout_at, made_of, mine, one_vector, told
from bsp.arrays.sorting.bin_rules import number_of_bins
from bsp.arrays.sorting.extremes import LARGEST, extremes
from bsp.arrays.sorting.grouping import Cells, merged


def _alike(x: Node, weights: Any) -> tuple[Node, Node | None]:
    """Elements and their weights, computed and in the same blocks."""
    if weights is None:
        (x,) = computed(x)
        return x, None
    x, other = computed(x, build.strong(asarray(weights)._node))
    if layout_at(other) is not layout_at(x):
        (other,) = computed(build.relaid(other, layout_at(x)))
    return x, other


def _added(here: World, counts: Any, at: np.ndarray | None = None, bins: int = 0) -> Array:
    """The sum over processes: everywhere if it is small, else in an even layout.

    at : which of how many bins are counted, ascending; None: all.
    """
    size = bins if at is not None else counts.shape[0]
    layout = automatic((size,), here.nprocs)
    if layout.replicated:
        total = here.private.allreduce(counts, "add")
        return made_of((size,), counts.dtype, layout, {(0,): total})
    return merged(here, SUM, Cells(at, counts), (size,), counts.dtype, counts.dtype, "counts to their bins")


@procedure
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Array:
    """How often each of 0, 1, 2, ... occurs, or the weights of those where it does.

    Cost: two supersteps: the greatest element, h = 2(p - 1), told once for an array; and the counts of b bins, h about
    2b at most, of a process with fewer elements than b/2 only those of its bins.  In an abstract run nothing is
    greater than `minlength` says.
    """
    here = world()
    array = asarray(x)
    if array.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if array.ndim else "object of too small depth for desired array"
        )
    sample = np.zeros(min(array.size, 1), array.dtype)  # NumPy's refusal of dtypes, and the dtype of the counts
    weighing = None if weights is None else np.zeros(sample.size, asarray(weights).dtype)
    kind = np.bincount(sample, weighing, minlength).dtype
    if weights is not None and asarray(weights).shape != array.shape:
        raise ValueError("The weights and list don't have the same length.")
    node, other = _alike(build.strong(array._node), weights)
    own = one_vector(here, mine(node), array.dtype)
    own = own.astype(np.int64) if array.dtype.kind == "u" else own
    own_weights = None if other is None else one_vector(here, mine(other), other.kind.dtype).astype(np.float64)
    if here.abstract:
        here.at_most()
        length = max(int(minlength), 1)
        extremes(here, [node])
        counts = np.add(here.empty((length,), kind), 0)
        return _added(here, counts)
    ((least, greatest),) = extremes(here, [node])
    if least < 0 or greatest == LARGEST:  # unsigned ones from 2^63 on are negative to NumPy
        raise ValueError("'list' argument must have no negative elements")
    length = max(int(minlength), 1 + int(greatest))
    if length > 2 * own.size and not automatic((length,), here.nprocs).replicated:  # fewer elements than bins
        at, own = np.unique(own, return_inverse=True)
        return _added(here, np.bincount(own, own_weights, len(at)).astype(kind, copy=False), at, length)
    return _added(here, np.bincount(own, own_weights, length) if own.size else np.zeros(length, kind))


def _bins(array: Array, bins: Any, range: Any, weights: Any) -> Any:
    """How many bins, or their edges, of what a program asked for."""
    if isinstance(bins, str):
        return number_of_bins(bins, reshape(array, (-1,)), range, weights)
    return brought("histogram: bins", bins)


def _edges(here: World, own: np.ndarray, bins: Any, range: Any) -> tuple[np.ndarray, Any]:
    """The edges of the bins, and what NumPy is to count with: equal on all processes."""
    if np.ndim(bins) == 0:
        if range is None:
            if own.dtype.kind == "b":
                own = own.astype(np.uint8)
            each = np.array([own.min(), own.max()] if own.size else [], own.dtype)
            found = np.concatenate(told(here, "extremes", each))
            sample = np.array([found.min(), found.max()] if found.size else [], own.dtype)
            edges = np.histogram_bin_edges(sample, bins)
            return edges, (bins, (sample[0], sample[1]) if found.size else (0, 1))
        return np.histogram_bin_edges(own[:0], bins, range), (bins, range)
    edges = np.histogram_bin_edges(own[:0], bins)
    return edges, (edges, None)


def _returned(edges: np.ndarray, bins: Any) -> Array:
    """Edges as a function returns them: an array that gave them itself, as NumPy does."""
    return bins if isinstance(bins, Array) else wrap(build.from_whole(edges))


@procedure
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array]:
    """How many elements fall into each bin, and the edges of the bins.

    bins : how many, their edges, or the name of a rule (`bin_rules`: "auto", "fd", ...; not "stone").
    Cost: one superstep for the counts of b bins, h about 2b at most, and one for the extremes if neither `range` nor
    edges are given.
    """
    here = world()
    array = asarray(a)
    if weights is not None and asarray(weights).shape != array.shape:
        raise ValueError("weights should have the same shape as a.")
    node, other = _alike(build.strong(array._node), weights)
    own = one_vector(here, mine(node), array.dtype)
    own_weights = None if other is None else one_vector(here, mine(other), other.kind.dtype)
    given = _bins(array, bins, range, weights)
    if here.abstract:
        length = int(given) if np.ndim(given) == 0 else len(given) - 1
        if np.ndim(given) == 0 and range is None:
            told(here, "extremes", here.empty((2,), own.dtype))
        np.searchsorted(np.zeros(length + 1), own)
        here.passes(6 * min(own.size, 1 << 16), np.dtype(np.int64))  # np.histogram's, a piece at a time
        counts = here.empty((length,), np.dtype(np.int64 if other is None else other.kind.dtype))
        found = _added(here, counts)
        ends = wrap(build.from_whole(here.empty((length + 1,), np.dtype(float))))
        return (found / 1.0 if density else found), ends
    edges, (counted, span) = _edges(here, own, given, range)
    counts = np.histogram(own, counted, span, weights=own_weights)[0]
    found = _added(here, counts)
    if density:
        return found / np.diff(edges) / found.sum(), _returned(edges, bins)
    return found, _returned(edges, bins)


@procedure
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of `histogram`'s bins.  Cost: one superstep for the extremes if neither range nor edges are given."""
    here = world()
    array = asarray(a)
    (node,) = computed(build.strong(array._node))
    own = one_vector(here, mine(node), array.dtype)
    given = _bins(array, bins, range, weights)
    if here.abstract:
        told(here, "extremes", here.empty((2,), own.dtype))
        length = int(given) + 1 if np.ndim(given) == 0 else len(given)
        return wrap(build.from_whole(here.empty((length,), np.dtype(float))))
    edges, _ = _edges(here, own, given, range)
    return _returned(edges, bins)


def _columns(sample: Any) -> list[Node]:
    """The coordinates of a sample: the columns of a matrix, or each of several vectors; they need not be laid alike."""
    if isinstance(sample, (Array, np.ndarray)):
        array = asarray(sample)
        array = array if array.ndim > 1 else array[None].T
        if array.ndim != 2:
            raise ValueError("histogramdd: the sample has one row for each point")
        found = list(unstack(array, axis=1))
    else:
        found = [asarray(each) for each in sample]
        if any(each.ndim != 1 for each in found):
            raise ValueError("histogramdd: coordinates are vectors")
    return [build.strong(each._node) for each in found]


def _laid_alike(here: World, nodes: list[Node]) -> list[Any]:
    """This process's share of several vectors of one length: the same positions of each."""
    nodes = list(computed(*nodes))
    target = next((layout_at(node) for node in nodes if not layout_at(node).replicated), None)
    if target is not None:
        nodes = list(computed(*[node if layout_at(node) is target else build.relaid(node, target) for node in nodes]))
    return [one_vector(here, mine(node), node.kind.dtype) for node in nodes]


@procedure
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, list[Array]]:
    """How many points fall into each box of a grid, and the edges of the grid along each axis.

    sample : one row for each point, or a vector for each coordinate.
    Cost: one superstep for the counts of b boxes, h about 2b at most, and one for the extremes.
    """
    here = world()
    nodes = _columns(sample)
    if weights is not None:
        nodes.append(build.strong(asarray(weights)._node))
    if any(node.kind.shape != nodes[0].kind.shape for node in nodes):
        raise ValueError("histogramdd: coordinates and weights have one element for each point")
    own = _laid_alike(here, nodes)
    own_weights = own.pop() if weights is not None else None
    count = len(own)
    several = hasattr(bins, "__len__") or isinstance(bins, Array)
    given: Any = [brought("histogramdd: bins", each) for each in bins] if several else bins
    if several and len(given) != count:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    if here.abstract:
        told(here, "extremes", here.empty((2 * count,), np.dtype(float)))
        each = given if several else [given] * count
        lengths = [int(one) if not np.ndim(one) else len(one) - 1 for one in each]
        for column, length in zip(own, lengths, strict=True):
            np.searchsorted(np.zeros(length + 1), column)
        found = _added(here, here.empty((prod(lengths),), np.dtype(float)))
        ends = [wrap(build.from_whole(here.empty((length + 1,), np.dtype(float)))) for length in lengths]
        return reshape(found, tuple(lengths)), ends
    # of the two corners of all points NumPy makes the edges that it makes of the points
    corners = [[column.min(), column.max()] if column.size else [np.inf, -np.inf] for column in own]
    extremes = np.array(told(here, "extremes", np.array(corners, float).reshape(-1)))
    extremes = extremes.reshape(here.nprocs, count, 2)
    low, high = extremes[:, :, 0].min(axis=0), extremes[:, :, 1].max(axis=0)
    some = bool(nodes[0].kind.shape[0])
    edges = np.histogramdd(np.stack([low, high]) if some else np.empty((0, count)), given, range)[1]
    points = np.stack([column.astype(float) for column in own], axis=1)
    counts = np.histogramdd(points, list(edges), weights=own_weights)[0]
    found = reshape(_added(here, counts.reshape(-1)), counts.shape)
    if density:
        total = found.sum()
        for axis, cuts in enumerate(edges):
            found = found / np.diff(cuts)[tuple(slice(None) if k == axis else None for k in builtins.range(count))]
        found = found / total
    return found, [wrap(build.from_whole(np.asarray(cuts))) for cuts in edges]


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array, Array]:
    """`histogramdd` of points in the plane: counts, and the edges along x and y."""
    first, second = asarray(x), asarray(y)
    if first.shape != second.shape:
        raise ValueError("x and y must have the same length.")
    given = [bins, bins] if hasattr(bins, "__len__") and len(bins) not in (1, 2) else bins
    counts, (along_x, along_y) = histogramdd([first, second], given, range, density, weights)
    return counts, along_x, along_y


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (bincount, histogram, histogram_bin_edges, histogramdd, histogram2d)
}
