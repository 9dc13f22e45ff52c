"""How many elements fall into each of some bins: each process counts its own, and the counts are added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.forecast import procedure
from bsp.arrays.functions import build
from bsp.arrays.functions.creation import asarray
from bsp.arrays.planning.graph import Node
from bsp.arrays.planning.layout import automatic
from bsp.arrays.selection.procedures import bounds_of, computed, layout_at, made_of, mine, one_vector, told
from bsp.arrays.world import World, world


def _alike(x: Node, weights: Any) -> tuple[Node, Node | None]:
    """Elements and their weights, computed and in the same blocks."""
    if weights is None:
        (x,) = computed(x)
        return x, None
    x, other = computed(x, build.strong(asarray(weights)._node))
    if layout_at(other) is not layout_at(x):
        (other,) = computed(build.relaid(other, layout_at(x)))
    return x, other


def _added(here: World, counts: Any) -> Array:
    """The sum over processes: everywhere if it is small, else in an even layout."""
    size = counts.shape[0]
    layout = automatic((size,), here.nprocs)
    if layout.replicated:
        total = here.private.allreduce(counts, "add")
        return made_of((size,), counts.dtype, layout, {(0,): total})
    bounds = bounds_of(layout, here.nprocs)
    out = [(pid, counts[int(bounds[pid]) : int(bounds[pid + 1])]) for pid in range(layout.blocks)]
    arrived = [part for _, part in here.exchange("counts to their bins", out)]
    blocks = {}
    for at in layout.mine(here.pid):
        total = arrived[0].copy()
        for part in arrived[1:]:
            total += part
        blocks[at] = total
    return made_of((size,), counts.dtype, layout, blocks)


@procedure
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Array:
    """How often each of 0, 1, 2, ... occurs, or the weights of those where it does.

    Cost: two supersteps: the greatest element, h = p - 1, and the counts of b bins, h about 2b at most.  In an
    abstract run nothing is greater than `minlength` says.
    """
    here = world()
    array = asarray(x)
    if array.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if array.ndim else "object of too small depth for desired array"
        )
    if not np.can_cast(array.dtype, np.int64, "safe"):
        raise TypeError(f"Cannot cast array data from {array.dtype!r} to dtype('int64') according to the rule 'safe'")
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if weights is not None and asarray(weights).shape != array.shape:
        raise ValueError("The weights and list don't have the same length.")
    node, other = _alike(build.strong(array._node), weights)
    own = one_vector(here, mine(node), array.dtype)
    own_weights = None if other is None else one_vector(here, mine(other), other.kind.dtype).astype(np.float64)
    if here.abstract:
        here.at_most()
        length = max(int(minlength), 1)
        told(here, "extremes", here.empty((2,), np.dtype(np.int64)))
        counts = np.add(here.empty((length,), np.dtype(np.int64 if other is None else float)), 0)
        return _added(here, counts)
    ends = [own.min(), own.max()] if own.size else [0, -1]
    extremes = np.array(told(here, "extremes", np.array(ends, np.int64)))
    if extremes[:, 0].min() < 0:
        raise ValueError("'list' argument must have no negative elements")
    length = max(int(minlength), 1 + int(extremes[:, 1].max()))
    counts = (
        np.bincount(own, own_weights, length) if own.size else np.zeros(length, np.int64 if other is None else float)
    )
    return _added(here, counts)


def _edges(here: World, own: np.ndarray, bins: Any, range: Any) -> tuple[np.ndarray, Any]:
    """The edges of the bins, and what NumPy is to count with: equal on all processes."""
    if np.ndim(bins) == 0 and not isinstance(bins, str):
        if range is None:
            if own.dtype.kind == "b":
                own = own.astype(np.uint8)
            each = np.array([own.min(), own.max()] if own.size else [], own.dtype)
            found = np.concatenate(told(here, "extremes", each))
            sample = np.array([found.min(), found.max()] if found.size else [], own.dtype)
            edges = np.histogram_bin_edges(sample, bins)
            return edges, (bins, (sample[0], sample[1]) if found.size else (0, 1))
        return np.histogram_bin_edges(own[:0], bins, range), (bins, range)
    if isinstance(bins, str):
        raise TypeError(f"histogram: bins={bins!r}; say how many, or their edges")
    edges = np.histogram_bin_edges(own[:0], bins)
    return edges, (edges, None)


@procedure
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array]:
    """How many elements fall into each bin, and the edges of the bins.

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
    given = bins.compute() if isinstance(bins, Array) else bins
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
        return found / np.diff(edges) / found.sum(), wrap(build.from_whole(edges))
    return found, wrap(build.from_whole(edges))


FUNCTIONS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (bincount, histogram)}
