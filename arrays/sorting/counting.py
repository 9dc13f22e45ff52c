"""Histograms and `bincount`: each process counts its own elements in each bin, and the counts are added."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

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
from bsp.arrays.procedures.operands import computed, declared_of, known, layout_at, made_of, mine, one_vector, told
from bsp.arrays.sorting.bin_rules import number_of_bins
from bsp.arrays.sorting.extremes import LARGEST, extremes
from bsp.arrays.sorting.grouping import Cells, merged, merged_cost
from bsp.arrays.sorting.searching import few_beside, searchsorted
from bsp.arrays.typing import ArrayLike, Arrays
from bsp.declared import Reported, declares
from bsp.values.payload import as_array

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def _alike(x: Node, weights: Any) -> tuple[Node, Node | None]:
    """Compute elements and their weights; return both in the elements' layout.  Collective."""
    if weights is None:
        (x,) = computed(x)
        return x, None
    x, other = computed(x, build.strong(asarray(weights)._node))
    if layout_at(other) is not layout_at(x):
        (other,) = computed(build.relaid(other, layout_at(x)))
    return x, other


def _added(here: World, counts: Any, at: np.ndarray | None = None, bins: int = 0) -> Array:
    """Add the counts of all processes; the sum is replicated if it is small, else in an even layout.  Collective.

    at : the bins that `counts` belong to, ascending, out of `bins`; None: `counts` has all bins.
    """
    size = bins if at is not None else counts.shape[0]
    layout = automatic((size,), here.nprocs)
    if layout.replicated:
        total = here.private.allreduce(counts, "add")
        return made_of((size,), counts.dtype, layout, {(0,): total})
    return merged(here, SUM, Cells(at, counts), (size,), counts.dtype, counts.dtype, "counts to their bins")


def _added_cost(costs: Reported, bins: int, kind: DType) -> Array:
    """Declare the cost of `_added` where every process has counts of all bins."""
    if automatic((bins,), costs.p).replicated:
        costs.allreduce(bins, kind)
        return declared_of(costs, (bins,), kind)
    return merged_cost(costs, SUM, bins, (bins,), kind, kind, "counts to their bins")


def _tallied(here: World, places: Any, weights: Any, kind: DType, bins: int) -> Array:
    """Count the places of all processes in each of `bins` bins, or add their weights.  Collective.

    places : the bin of each of this process's elements.
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
def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> Array:
    """Count how often each of 0, 1, 2, ... occurs in a vector, or add the weights of its occurrences.

    Cost: two supersteps.  The first finds the greatest element, h = 2(p - 1); the array remembers it, so that later
    calls skip this step.  The second adds the counts of b bins, h about 2b at most; a process with fewer than b/2
    elements sends only its own bins.
    A forecast and a run without values assume no element above `minlength` - 1; they raise ValueNeeded without it.
    """
    here = world()
    array = asarray(x)
    if array.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if array.ndim else "object of too small depth for desired array"
        )
    sample = np.zeros(min(array.size, 1), array.dtype)  # raises NumPy's error for bad dtypes; gives the counts' dtype
    weighing = None if weights is None else np.zeros(sample.size, asarray(weights).dtype)
    kind = np.bincount(sample, weighing, minlength).dtype
    if weights is not None and asarray(weights).shape != array.shape:
        raise ValueError("The weights and list don't have the same length.")
    node, other = _alike(build.strong(array._node), weights)
    own = one_vector(here, mine(node), array.dtype)
    own = own.astype(np.int64) if array.dtype.kind == "u" else own
    own_weights = None if other is None else one_vector(here, mine(other), other.kind.dtype).astype(np.float64)
    return _occurrences(here, node, own, own_weights, kind, int(minlength))


def _occurrences_cost(
    costs: Reported, here: World, node: Node, own: Any, weights: Any, kind: DType, least_bins: int
) -> Array:
    """Declare the cost of `_occurrences`, assuming that all elements fall into `least_bins` bins."""
    if not least_bins and node.kind.shape != (0,):
        from bsp.abstract.errors import value_needed  # only runs without values need it

        raise value_needed("the length of bincount", wrap(node), "say how many bins there are (minlength=)")
    costs.at_most()
    extremes(here, [node])
    costs.work(elementwise=max(least_bins, 1))
    return _added_cost(costs, max(least_bins, 1), kind)


@declares(_occurrences_cost)
def _occurrences(here: World, node: Node, own: Any, weights: Any, kind: DType, least_bins: int) -> Array:
    """Count how often each of 0, 1, 2, ... occurs, in `least_bins` bins or more.

    node : all elements.  own, weights : this process's elements, as integers, and their weights.
    """
    ((least, greatest),) = extremes(here, [node])
    if least < 0 or greatest == LARGEST:  # NumPy casts to int64: unsigned integers from 2^63 on become negative
        raise ValueError("'list' argument must have no negative elements")
    return _tallied(here, own, weights, kind, max(least_bins, 1 + int(greatest)))


def _bins(call: str, array: Array, bins: Any, range: Any, weights: Any) -> Any:
    """Return the number of bins or their edges; as an Array only where the edges stay dealt.  Collective.

    A rule's name becomes a number of bins.  Edges that are few beside the elements are brought to every process.
    """
    if isinstance(bins, str):
        return number_of_bins(bins, reshape(array, (-1,)), range, weights)
    if np.ndim(bins):  # numbers and dates have no order: an error here is the same on every process
        np.result_type(array.dtype, bins.dtype if isinstance(bins, Array) else as_array(bins).dtype)
    if not isinstance(bins, Array) or bins.ndim != 1 or bins.size < 2:
        return brought(f"{call}: bins", bins)
    (node,) = computed(build.strong(bins._node))
    if known(node) is None and few_beside(node, array.size):
        (node,) = computed(build.everywhere(node))
    whole = known(node)
    return wrap(node) if whole is None else whole


def _last_edge_cost(costs: Reported, edges: Array) -> Any:
    """Declare the cost of `_last_edge`."""
    return compute((edges[:-1] > edges[1:]).any(), edges[-1])[1]


@declares(_last_edge_cost)
def _last_edge(edges: Array) -> Any:
    """Check that dealt edges rise and return the last one.  Collective: one superstep, the same answer everywhere."""
    falls, last = compute((edges[:-1] > edges[1:]).any(), edges[-1])
    if falls:
        raise ValueError("`bins` must increase monotonically, when an array")
    return last


def _bin_places(places: Any, own: Any, last: Any, bins: int) -> Any:
    """Return the bin of each element, or -1 outside all bins, from its position by right-sided `searchsorted`.

    The last bin includes the last edge, as in NumPy.
    """
    return np.where(places <= bins, places - 1, np.where(own == last, bins - 1, -1))


@declares(lambda costs, here, own, bins, range: (_ends_cost(costs, own, bins, range), (bins, range)))
def _edges(here: World, own: np.ndarray, bins: Any, range: Any) -> tuple[np.ndarray, Any]:
    """Return the edges of the bins, and the bins and range to pass to np.histogram; equal on all processes.

    Collective: one superstep for the extremes if neither edges nor `range` are given, else none.
    """
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
    """Return the edges as an Array; if the caller passed an Array as bins, that very Array, as NumPy does."""
    return bins if isinstance(bins, Array) else wrap(build.from_whole(edges))


@procedure
def histogram(
    a: ArrayLike, bins: int | str | ArrayLike = 10, range: tuple[float, float] | None = None,
    density: bool | None = None, weights: ArrayLike | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Count the elements in each bin; return the counts and the edges of the bins.

    bins : their number, their edges, or the name of a rule (`bin_rules`: "auto", "fd", ...; not "stone").
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
    found, edges = _counted(here, own, own_weights, given, range)
    ends = _returned(edges, bins)
    return (found / np.diff(edges) / found.sum() if density else found), ends


def _ends_cost(costs: Reported, own: Any, given: Any, range: Any) -> Any:
    """Declare the cost of `_edges`; return an array with the right number of edges."""
    count = int(given) + 1 if np.ndim(given) == 0 else len(given)
    if np.ndim(given) == 0 and range is None:
        costs.tell("extremes", costs.memory((2,), own.dtype))
    return costs.memory((count,), np.dtype(float))


def _counted_cost(costs: Reported, here: World, own: Any, weights: Any, given: Any, range: Any) -> tuple[Array, Any]:
    """Declare the cost of `_counted`: a search for each element."""
    edges = _ends_cost(costs, own, given, range)
    np.searchsorted(edges, own)
    costs.passing(6 * min(own.size, 1 << 16), np.dtype(np.int64))  # np.histogram works in pieces of 2^16 elements
    kind = np.dtype(np.int64) if weights is None else weights.dtype
    return _added_cost(costs, len(edges) - 1, kind), edges


@declares(_counted_cost)
def _counted(here: World, own: Any, weights: Any, given: Any, range: Any) -> tuple[Array, Any]:
    """Count the elements of all processes in each bin; return the counts and the replicated edges.  Collective."""
    edges, (counted, span) = _edges(here, own, given, range)
    return _added(here, np.histogram(own, counted, span, weights=weights)[0]), edges


def _between_dealt(here: World, x: Node, weights: Node | None, edges: Array, density: Any) -> tuple[Array, Array]:
    """Return `histogram`'s result for edges that stay dealt: each element looks up its bin.  Collective."""
    bins = edges.size - 1
    last = _last_edge(edges)
    x, places = _alike(x, searchsorted(edges, wrap(x), "right"))
    assert places is not None
    found = _counted_at(here, x, places, weights, last, bins)
    return (found / np.diff(edges) / found.sum() if density else found), edges


def _counted_at_cost(
    costs: Reported, here: World, x: Node, places: Node, weights: Node | None, last: Any, bins: int
) -> Array:
    """Declare the cost of `_counted_at`, assuming that every process has elements in all bins."""
    costs.at_most()
    costs.passing(4 * sum(each.size for each in mine(x)), np.dtype(np.int64))  # the bins of the elements
    return _added_cost(costs, bins, np.dtype(np.int64) if weights is None else weights.kind.dtype)


@declares(_counted_at_cost)
def _counted_at(here: World, x: Node, places: Node, weights: Node | None, last: Any, bins: int) -> Array:
    """Count the elements in each bin, from their positions among the edges by `searchsorted`.  Collective."""
    kind = np.dtype(np.int64) if weights is None else weights.kind.dtype
    own = one_vector(here, mine(x), x.kind.dtype)
    at = _bin_places(one_vector(here, mine(places), places.kind.dtype), own, last, bins)
    own_weights = None if weights is None else one_vector(here, mine(weights), kind)[at >= 0]
    return _tallied(here, at[at >= 0], own_weights, kind, bins)


@procedure
def histogram_bin_edges(
    a: ArrayLike, bins: int | str | ArrayLike = 10, range: tuple[float, float] | None = None,
    weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the edges of `histogram`'s bins.

    Cost: one superstep for the extremes if neither range nor edges are given.
    """
    here = world()
    array = asarray(a)
    (node,) = computed(build.strong(array._node))
    own = one_vector(here, mine(node), array.dtype)
    given = _bins("histogram_bin_edges", array, bins, range, weights)
    if isinstance(given, Array):
        _last_edge(given)
        return given
    return _returned(_edges(here, own, given, range)[0], bins)


def _columns(sample: Any) -> list[Node]:
    """Split a sample into coordinates: the columns of a matrix, or the given vectors.  Layouts may differ."""
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
    """Compute several vectors of one length; return them all in one layout.  Collective."""
    nodes = list(computed(*nodes))
    target = next((layout_at(node) for node in nodes if not layout_at(node).replicated), None)
    if target is not None:
        nodes = list(computed(*[node if layout_at(node) is target else build.relaid(node, target) for node in nodes]))
    return nodes


@procedure
def histogramdd(
    sample: Arrays, bins: int | Arrays = 10,
    range: Sequence[tuple[float, float]] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, list[Array]]:  # fmt: skip
    """Count the points in each box of a grid; return the counts and the edges of the grid along each axis.

    sample : one row for each point, or a vector for each coordinate.
    Cost: one superstep for the counts of b boxes, h about 2b at most, and one for the extremes.  Dealt edges, where
    they are not few beside the points, stay where they are: one superstep and a `searchsorted` for each such axis.
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
    given: Any = bins
    if several:
        given = [
            _bins("histogramdd", wrap(nodes[0]), each, None, None) if isinstance(each, Array) else each
            for each in given
        ]
    if several and len(given) != count:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    dealt = {k: each for k, each in enumerate(given) if isinstance(each, Array)} if several else {}
    edges = _grid_edges(here, own, nodes[0].kind.shape[0], given, dealt, range)
    if dealt:
        found = _boxes_between_dealt(here, nodes[:count], edges, own_weights)
    else:
        found = _boxes(here, own, edges, own_weights)
    found = reshape(found, tuple(len(cuts) - 1 for cuts in edges))
    if density:
        total = found.sum()
        for axis, cuts in enumerate(edges):
            found = found / np.diff(cuts)[tuple(slice(None) if k == axis else None for k in builtins.range(count))]
        found = found / total
    return found, [cuts if isinstance(cuts, Array) else wrap(build.from_whole(as_array(cuts))) for cuts in edges]


def _grid_edges_cost(
    costs: Reported, here: World, own: Sequence[Any], points: int, given: Any, dealt: dict[int, Array], range: Any
) -> list[Any]:
    """Declare the cost of `_grid_edges`."""
    costs.tell("extremes", costs.memory((2 * len(own),), np.dtype(float)))
    each = given if hasattr(given, "__len__") else [given] * len(own)
    counts = [len(one) if np.ndim(one) else int(one) + 1 for one in each]
    return [dealt.get(k, costs.memory((count,), np.dtype(float))) for k, count in enumerate(counts)]


@declares(_grid_edges_cost)
def _grid_edges(
    here: World, own: Sequence[Any], points: int, given: Any, dealt: dict[int, Array], range: Any
) -> list[Any]:
    """Return the edges of a grid along each axis; dealt edges stay dealt, others are the same on every process.

    own : the coordinates of this process's points, one vector for each axis.
    Cost: one superstep, in which every process receives the extremes along each axis.  NumPy computes the same edges
    from these two corners as from all points.
    """
    count = len(own)
    corners = [[column.min(), column.max()] if column.size else [np.inf, -np.inf] for column in own]
    every = np.array(told(here, "extremes", np.array(corners, float).reshape(-1))).reshape(here.nprocs, count, 2)
    low, high = every[:, :, 0].min(axis=0), every[:, :, 1].max(axis=0)
    anything = [[0.0, 1.0] if k in dealt else each for k, each in enumerate(given)] if dealt else given
    dtype = np.result_type(*own)
    extremes = np.stack([low, high]).astype(dtype if dtype.kind == "f" else float) if points else np.empty((0, count))
    found = np.histogramdd(extremes, anything, range)[1]
    return [dealt.get(k, cuts) for k, cuts in enumerate(found)]


def _boxes_cost(costs: Reported, here: World, own: Sequence[Any], edges: Sequence[Any], weights: Any) -> Array:
    """Declare the cost of `_boxes`: a search for each coordinate."""
    for column, cuts in zip(own, edges, strict=True):
        np.searchsorted(cuts, column)
    return _added_cost(costs, prod(len(cuts) - 1 for cuts in edges), np.dtype(float))


@declares(_boxes_cost)
def _boxes(here: World, own: Sequence[Any], edges: Sequence[Any], weights: Any) -> Array:
    """Count the points in each box of a grid with replicated edges; boxes in C order.  Collective."""
    points = np.stack([column.astype(float) for column in own], axis=1)
    return _added(here, np.histogramdd(points, edges, weights=weights)[0].reshape(-1))


def _boxes_between_dealt(here: World, nodes: Sequence[Node], edges: Sequence[Any], weights: Any) -> Array:
    """Count the points in each box where some edges stay dealt: each coordinate looks up its bin.  Collective."""
    placed = []
    for node, cuts in zip(nodes, edges, strict=True):
        (node,) = computed(build.cast(node, np.dtype(float)))
        last = _last_edge(cuts) if isinstance(cuts, Array) else cuts[-1]
        _, places = _alike(node, searchsorted(cuts, wrap(node), "right"))
        assert places is not None
        placed.append(_Placed(node, places, last, len(cuts) - 1))
    return _boxes_of_placed(here, placed, weights)


class _Placed(NamedTuple):
    """One coordinate of all points, and its positions among the edges by right-sided `searchsorted`."""

    coordinate: Node
    places: Node
    last: Any  # the last edge
    bins: int


def _boxes_of_placed_cost(costs: Reported, here: World, placed: Sequence[_Placed], weights: Any) -> Array:
    """Declare the cost of `_boxes_of_placed`, assuming that every process has points in all boxes."""
    costs.at_most()
    costs.passing(5 * sum(each.size for each in mine(placed[0].coordinate)), np.dtype(np.int64))
    return _added_cost(costs, prod(each.bins for each in placed), np.dtype(float))


@declares(_boxes_of_placed_cost)
def _boxes_of_placed(here: World, placed: Sequence[_Placed], weights: Any) -> Array:
    """Count the points in each box from their positions among the edges; boxes in C order.  Collective."""
    at: Any = 0
    inside: Any = True
    for node, places, last, bins in placed:
        own = one_vector(here, mine(node), node.kind.dtype)
        bin_at = _bin_places(one_vector(here, mine(places), places.kind.dtype), own, last, bins)
        at, inside = at * bins + bin_at, inside & (bin_at >= 0)
    own_weights = None if weights is None else weights[inside].astype(float)
    return _tallied(here, at[inside], own_weights, np.dtype(float), prod(each.bins for each in placed))


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: int | Arrays = 10,
    range: Sequence[tuple[float, float]] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Count points of the plane in each box of a grid; return the counts and the edges along x and y.

    Cost: as `histogramdd`.
    """
    first, second = asarray(x), asarray(y)
    if first.shape != second.shape:
        raise ValueError("x and y must have the same length.")
    given: Any = bins
    given = [given, given] if hasattr(given, "__len__") and len(given) not in (1, 2) else given
    counts, (along_x, along_y) = histogramdd([first, second], given, range, density, weights)
    return counts, along_x, along_y
