"""How many elements fall into each of some bins: each process counts its own, and the counts are added."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import reshape, unstack
from bsp.arrays.array import Array, compute, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import DType, Node
from bsp.arrays.expressions.layout import automatic
from bsp.arrays.gathering import brought
from bsp.arrays.kernels.aggregates import SUM
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, known, layout_at, made_of, mine, one_vector, told
from bsp.arrays.sorting.bin_rules import number_of_bins
from bsp.arrays.sorting.extremes import LARGEST, extremes
from bsp.arrays.sorting.grouping import Cells, merged
from bsp.arrays.sorting.searching import few_beside, searchsorted
from bsp.values.payload import is_abstract


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


def _tallied(here: World, places: Any, weights: Any, kind: DType, bins: int) -> Array:
    """How many of this process's places are in each of `bins` bins, or the sum of their weights; all processes' added.

    A process with fewer elements than half the bins sends only the bins that it has.
    """
    at = None
    if bins > 2 * places.size and not automatic((bins,), here.nprocs).replicated:
        at, places = np.unique(places, return_inverse=True)
    length = bins if at is None else len(at)
    if weights is None or weights.dtype == np.float64:
        counts: Any = np.bincount(places, weights, length).astype(kind, copy=False)
    else:
        counts = np.zeros(length, kind)
        np.add.at(counts, places, weights)
    return _added(here, counts, at, bins)


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
    return _tallied(here, own, own_weights, kind, max(int(minlength), 1 + int(greatest)))


def _bins(call: str, array: Array, bins: Any, range: Any, weights: Any) -> Any:
    """How many bins, or their edges, of what a program asked for; an Array only of edges that stay dealt."""
    if isinstance(bins, str):
        return number_of_bins(bins, reshape(array, (-1,)), range, weights)
    if not isinstance(bins, Array) or bins.ndim != 1 or bins.size < 2:
        return brought(f"{call}: bins", bins)
    (node,) = computed(build.strong(bins._node))
    if known(node) is None and few_beside(node, array.size):
        (node,) = computed(build.everywhere(node))
    whole = known(node)
    return wrap(node) if whole is None else whole


def _last_edge(edges: Array) -> Any:
    """Check that dealt edges rise; return the last one.  One superstep, in which all processes agree."""
    falls, last = compute((edges[:-1] > edges[1:]).any(), edges[-1])
    if not is_abstract(falls) and falls:
        raise ValueError("`bins` must increase monotonically, when an array")
    return last


def _bin_places(places: Any, own: Any, last: Any, bins: int) -> Any:
    """The bin of each element that `searchsorted` from the right has placed between edges; -1: none.

    The last edge belongs to the last bin.
    """
    return np.where(places <= bins, places - 1, np.where(own == last, bins - 1, -1))


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
    edges are given.  Dealt edges, where they are not few beside the elements, stay where they are: one superstep more,
    and that of `searchsorted`.
    """
    here = world()
    array = asarray(a)
    if weights is not None and asarray(weights).shape != array.shape:
        raise ValueError("weights should have the same shape as a.")
    node, other = _alike(build.strong(array._node), weights)
    own = one_vector(here, mine(node), array.dtype)
    own_weights = None if other is None else one_vector(here, mine(other), other.kind.dtype)
    given = _bins("histogram", array, bins, range, weights)
    if isinstance(given, Array):
        return _between_dealt(here, node, other, given, density)
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


def _between_dealt(here: World, x: Node, weights: Node | None, edges: Array, density: Any) -> tuple[Array, Array]:
    """histogram between edges that stay dealt: each element looks up its bin."""
    bins = edges.size - 1
    kind = np.dtype(np.int64) if weights is None else weights.kind.dtype
    last = _last_edge(edges)
    x, places = _alike(x, searchsorted(edges, wrap(x), "right"))
    assert places is not None
    if here.abstract:
        here.at_most()
        found = _added(here, here.empty((bins,), kind))
        return (found / 1.0 if density else found), edges
    own = one_vector(here, mine(x), x.kind.dtype)
    at = _bin_places(one_vector(here, mine(places), places.kind.dtype), own, last, bins)
    own_weights = None if weights is None else one_vector(here, mine(weights), kind)[at >= 0]
    found = _tallied(here, at[at >= 0], own_weights, kind, bins)
    return (found / np.diff(edges) / found.sum() if density else found), edges


@procedure
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The edges of `histogram`'s bins.  Cost: one superstep for the extremes if neither range nor edges are given."""
    here = world()
    array = asarray(a)
    (node,) = computed(build.strong(array._node))
    own = one_vector(here, mine(node), array.dtype)
    given = _bins("histogram_bin_edges", array, bins, range, weights)
    if isinstance(given, Array):
        _last_edge(given)
        return given
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


def _laid_alike(nodes: list[Node]) -> list[Node]:
    """Several vectors of one length, computed, and in the same blocks."""
    nodes = list(computed(*nodes))
    target = next((layout_at(node) for node in nodes if not layout_at(node).replicated), None)
    if target is not None:
        nodes = list(computed(*[node if layout_at(node) is target else build.relaid(node, target) for node in nodes]))
    return nodes


@procedure
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, list[Array]]:
    """How many points fall into each box of a grid, and the edges of the grid along each axis.

    sample : one row for each point, or a vector for each coordinate.
    Cost: one superstep for the counts of b boxes, h about 2b at most, and one for the extremes.  Dealt edges, where
    they are not few beside the points, stay where they are: of each one superstep, and that of `searchsorted`.
    """
    here = world()
    nodes = _columns(sample)
    if weights is not None:
        nodes.append(build.strong(asarray(weights)._node))
    if any(node.kind.shape != nodes[0].kind.shape for node in nodes):
        raise ValueError("histogramdd: coordinates and weights have one element for each point")
    nodes = _laid_alike(nodes)
    own = [one_vector(here, mine(node), node.kind.dtype) for node in nodes]
    own_weights = own.pop() if weights is not None else None
    count = len(own)
    several = hasattr(bins, "__len__") or isinstance(bins, Array)
    given: Any = [
        _bins("histogramdd", wrap(nodes[0]), each, None, None) if isinstance(each, Array) else each for each in bins
    ] if several else bins  # fmt: skip
    if several and len(given) != count:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    dealt = {k: each for k, each in enumerate(given) if isinstance(each, Array)} if several else {}
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
    anything = [[0.0, 1.0] if k in dealt else each for k, each in enumerate(given)] if dealt else given
    edges: list[Any] = [*np.histogramdd(np.stack([low, high]) if some else np.empty((0, count)), anything, range)[1]]
    if dealt:
        edges = [dealt.get(k, cuts) for k, cuts in enumerate(edges)]
        found = _boxes_between_dealt(here, nodes[:count], edges, own_weights)
    else:
        points = np.stack([column.astype(float) for column in own], axis=1)
        counts = np.histogramdd(points, edges, weights=own_weights)[0]
        found = reshape(_added(here, counts.reshape(-1)), counts.shape)
    if density:
        total = found.sum()
        for axis, cuts in enumerate(edges):
            found = found / np.diff(cuts)[tuple(slice(None) if k == axis else None for k in builtins.range(count))]
        found = found / total
    return found, [cuts if isinstance(cuts, Array) else wrap(build.from_whole(np.asarray(cuts))) for cuts in edges]


def _boxes_between_dealt(here: World, nodes: Sequence[Node], edges: Sequence[Any], weights: Any) -> Array:
    """histogramdd where some edges stay dealt: each coordinate looks up its bin."""
    shape = tuple(len(cuts) - 1 for cuts in edges)
    at: Any = 0
    inside: Any = True
    for node, cuts, bins in zip(nodes, edges, shape, strict=True):
        (node,) = computed(build.cast(node, np.dtype(float)))
        last = _last_edge(cuts) if isinstance(cuts, Array) else cuts[-1]
        _, places = _alike(node, searchsorted(cuts, wrap(node), "right"))
        assert places is not None
        own = one_vector(here, mine(node), node.kind.dtype)
        bin_at = _bin_places(one_vector(here, mine(places), places.kind.dtype), own, last, bins)
        at, inside = at * bins + bin_at, inside & (bin_at >= 0)
    own_weights = None if weights is None else weights[inside].astype(float)
    return reshape(_tallied(here, at[inside], own_weights, np.dtype(float), prod(shape)), shape)


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
