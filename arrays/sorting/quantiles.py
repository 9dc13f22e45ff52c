"""Exact quantiles, medians and largest elements, without sorting everything.

A quantile of a whole array is computed from one or two order statistics (`order_statistics`), by the formulas that
NumPy documents and in NumPy's order of operations, so that the result is bitwise NumPy's.  For quantiles over some
axes only, whole lines are brought together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import Any, Protocol

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.ufuncs import into
from bsp.arrays.array import Array, compute, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Along, DType, Node, interned, kind_of
from bsp.arrays.expressions.layout import REPLICATED_SIZE, Shape, replicated
from bsp.arrays.gathering import brought
from bsp.arrays.kernels.aggregates import typed
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import (
    block_map,
    computed,
    declared_of,
    flattened,
    in_line,
    known,
    layout_at,
    made_of,
    mine,
    one_vector,
)
from bsp.arrays.sorting.order_statistics import (
    ALL,
    CHUNK,
    PASSES,
    Unsorted,
    order_statistics,
    sample_size,
    statistics_cost,
)
from bsp.arrays.sorting.sorting import INT64, argsort, sort, sorting_positions
from bsp.arrays.sorting.splitting import budget, cuts_cost, find_cuts, tell_samples
from bsp.arrays.typing import ArrayLike, Axes, Method
from bsp.declared import Reported, declares
from bsp.values.payload import as_array

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile", "topk"]

# Hyndman and Fan (1996): the fractional position of a quantile is n·q + alpha + q·(1 - alpha - beta) - 1
CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1), "hazen": (0.5, 0.5), "weibull": (0, 0),
    "median_unbiased": (1 / 3.0, 1 / 3.0), "normal_unbiased": (3 / 8.0, 3 / 8.0),
}  # fmt: skip
DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
_NO_RANKS = np.empty(0)
METHODS = (*CONTINUOUS, *DISCRETE, "averaged_inverted_cdf", "linear", "midpoint")


def _discrete(n: int, q: Any, method: Any) -> Any:
    """Return the rank (from 0) that a discrete method picks; the caller clips it to n - 1."""
    if method == "lower":
        return np.floor((n - 1) * q).astype(np.intp)
    if method == "higher":
        return np.ceil((n - 1) * q).astype(np.intp)
    if method == "nearest":
        return np.around((n - 1) * q).astype(np.intp)
    at = n * q - 1 if method == "inverted_cdf" else n * q - 1 - 0.5
    below = np.floor(at)
    exact = at == below
    if method == "closest_observation":
        exact &= below % 2 == 1
    return np.maximum(np.where(exact, below, below + 1).astype(np.intp), 0)


def _position(n: int, q: Any, method: Any) -> Any:
    """Return the fractional position (from 0) of a quantile among n sorted elements."""
    if method == "linear":
        return (n - 1) * q
    if method == "midpoint":
        return 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
    if method == "averaged_inverted_cdf":
        return n * q - 1
    alpha, beta = CONTINUOUS[method]
    return n * q + (alpha + q * (1 - alpha - beta)) - 1


class Rule:
    """A quantile method for given q: the order statistics it needs of n elements, and their interpolation."""

    def __init__(self, q: np.ndarray, weak: bool, method: Any) -> None:
        self.q, self.weak, self.method = q, weak, method

    def ranks(self, n: int) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return the ranks (from 0) of both neighbours and the weight of the second; None if one rank is enough."""
        if self.method in DISCRETE:
            at = np.clip(_discrete(n, self.q, self.method), 0, n - 1)
            return at, at, None
        at = np.asanyarray(_position(n, self.q, self.method))
        if self.method == "linear" and at.dtype.kind in "iu":
            return at, at, None
        low = np.floor(at)
        high = low + 1
        last, first = at >= n - 1, at < 0
        low = np.where(last, -1, np.where(first, 0, low)).astype(np.intp)
        high = np.where(last, -1, np.where(first, 0, high)).astype(np.intp)
        weight = np.asanyarray(at - low)
        if self.method == "averaged_inverted_cdf":
            weight = np.where(weight == 0, 0.5, 1.0)
        elif self.method == "midpoint":
            weight = np.where(at % 1 == 0, 0.0, 0.5)
        weight = np.asanyarray(weight, dtype=at.dtype)
        return low % n, high % n, float(weight) if self.weak else weight

    def result(self, low: Any, high: Any, weight: Any) -> Any:
        """Interpolate between the order statistics at both neighbours, in NumPy's order of operations."""
        if weight is None:
            return low
        step = high - low
        found = np.asarray(low + step * weight)
        np.subtract(
            high, step * (1 - weight), out=found, where=weight >= 0.5, casting="unsafe", dtype=typed(found.dtype)
        )
        return found


class _AlongQuantiles:
    """An operation along axes: NumPy's quantiles over the last axes of a block."""

    work = 30.0
    fallible = False

    def __init__(self, name: str, call: Callable[[np.ndarray], np.ndarray], leading: int) -> None:
        self.name = name
        self._call = call
        self._leading = leading  # axes of q, which NumPy has first

    def call(self, x: np.ndarray) -> np.ndarray:
        """Return the quantiles of x over its last axes; the axes of q come last."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = np.asarray(self._call(x))
        return np.moveaxis(found, range(self._leading), range(-self._leading, 0)) if self._leading else found


@lru_cache(maxsize=256)
def _along(
    what: str, core: int, q: bytes, dtype: DType, shape: tuple[int, ...], weak: bool, method: str
) -> _AlongQuantiles:
    axes = tuple(range(-core, 0))
    if what in ("median", "nanmedian"):
        return _AlongQuantiles(what, lambda x: getattr(np, what)(x, axis=axes), 0)
    values = np.frombuffer(q, dtype).reshape(shape)
    given = values.item() if weak else values
    name = f"{what} {values.tolist()} {method}{' weak' * weak}"
    return _AlongQuantiles(name, lambda x: getattr(np, what)(x, given, axis=axes, method=method), len(shape))


def _checked(node: Node, q: Any, axis: Any, method: str, weights: Any) -> Any:
    """Check the arguments; return q as a NumPy array, or as an Array where it is dealt and may stay so.

    Collective for a dealt q over some axes only: it is gathered on every process, with a warning if it is large.
    """
    if node.kind.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    if weights is not None:
        raise TypeError("weights= has no distributed form; x.compute() brings an array to every process")
    if method not in METHODS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {', '.join(METHODS)}")
    if not isinstance(q, Array):
        return as_array(q)
    (ranks,) = computed(build.strong(q._node))
    whole = known(ranks)
    if whole is None and len(build.normal_axes(axis, len(node.kind.shape))) == len(node.kind.shape):
        return wrap(ranks)
    return brought("quantile: q", wrap(ranks)) if whole is None else whole


def _spread(axes: Sequence[int], keepdims: bool, leading: int, found: Node) -> Node:
    """Insert axes of length 1 for the reduced axes, after the axes of q, if `keepdims`."""
    return build.expanded(found, [leading + axis for axis in axes]) if keepdims and axes else found


def _reduced(x: Any, axis: Any, keepdims: bool, out: Any, what: str, q: Any, weak: bool, method: Any) -> Array:
    node = build.strong(asarray(x)._node)
    shape, dtype = node.kind.shape, node.kind.dtype
    axes = build.normal_axes(axis, len(shape))
    q = as_array(q)
    sample = np.ones(1, dtype)
    medians = what in ("median", "nanmedian")
    kind = np.asarray(
        np.median(sample) if medians else np.quantile(sample, q.item() if weak else np.ones(1, q.dtype), method=method)
    ).dtype
    if len(axes) == len(shape):
        (node,) = computed(node)
        found = _of_all(node, what, q, weak, method, kind)
    else:
        order = [axis for axis in range(len(shape)) if axis not in axes]
        lines = build.permuted(node, (*order, *axes))
        leading = () if medians else q.shape
        op = interned(
            Along, _along(what, len(axes), q.tobytes(), q.dtype, q.shape, weak, method), (len(axes),), leading
        )
        found = Node(op, (lines,), kind_of((*[shape[axis] for axis in order], *leading), kind))
        kept = len(order)
        found = build.permuted(found, (*range(kept, kept + len(leading)), *range(kept)))
    return into(wrap(_spread(axes, keepdims, 0 if medians else q.ndim, found)), out)


def _shape_of(what: str, q: np.ndarray) -> Shape:
    """Return the shape of the result over all elements: () for medians, else that of q."""
    return () if what in ("median", "nanmedian") else q.shape


def _nan_count(x: np.ndarray) -> int:
    if x.dtype.kind not in "fcmM":
        return 0
    mask = np.empty(CHUNK, bool)
    found = 0
    for start in range(0, x.size, CHUNK):
        chunk = x[start : start + CHUNK]
        found += int(np.count_nonzero(np.not_equal(chunk, chunk, out=mask[: chunk.size])))
    return found


def _of_all_cost(costs: Reported, node: Node, what: str, q: np.ndarray, weak: bool, method: str, kind: DType) -> Node:
    """Declare the cost of `_of_all`: order statistics, or splitters of the sorted elements of each process."""
    here, size = world(), node.kind.size
    values = one_vector(here, mine(node), node.kind.dtype)
    shape = _shape_of(what, q)
    if known(node) is not None:
        costs.passing(size, node.kind.dtype)  # the copy in which NumPy partitions the elements
    elif _finely(here, size, _apart(q)):
        cuts_cost(costs, np.sort(values), size, int(layout_at(node).held(costs.p).max()), 2 * _apart(q))
    else:
        statistics_cost(costs, values, max(size, 1), max(1, prod(shape)))
    return declared_of(costs, shape, kind, replicated(shape))._node


@declares(_of_all_cost)
def _of_all(node: Node, what: str, q: np.ndarray, weak: bool, method: str, kind: DType) -> Node:
    """Return quantiles of all elements of a computed node, replicated.  Collective for a dealt node."""
    here = world()
    shape = _shape_of(what, q)
    whole = known(node)
    rule = Rule(q, weak, method)
    skipping = what.startswith("nan")
    if whole is not None or not node.kind.size:
        values = np.empty(0, node.kind.dtype) if whole is None else whole
        if not skipping or not values.size:
            function = getattr(np, what)
            given = () if shape == () and "median" in what else (q.item() if weak else q,)
            return _result(function(values, *given, **({} if "median" in what else {"method": method})), shape, kind)
        kept = values[values == values]  # without NaN and NaT
        if not kept.size:
            return _result(_missing(shape, kind), shape, kind)
        given = () if "median" in what else (q.item() if weak else q,)
        function = getattr(np, what[3:])
        return _result(function(kept, *given, **({} if "median" in what else {"method": method})), shape, kind)
    values = one_vector(here, mine(node), node.kind.dtype)
    nans = _nan_count(values)

    def ranks(sizes: np.ndarray, extras: np.ndarray) -> list[int]:
        missing = int(extras.sum())
        total = int(sizes.sum()) - missing
        if (missing and not skipping) or not total:
            return []
        if "median" in what:
            return [(total - 1) // 2, total // 2]
        low, high, _ = rule.ranks(total)
        return [*low.reshape(-1).tolist(), *high.reshape(-1).tolist()]

    found, extras = elements_of(here, values, ranks, nans, node.kind.size, _apart(q))
    total = node.kind.size - int(extras.sum())
    if not found:
        return _result(_missing(shape, kind), shape, kind)
    if "median" in what:
        parts = [found[rank] for rank in dict.fromkeys(((total - 1) // 2, total // 2))]
        return _result(np.mean(np.array(parts, node.kind.dtype)), shape, kind)
    low, high, weight = rule.ranks(total)

    def picked(places: np.ndarray) -> Any:
        picked_ones = np.array([found[int(rank)] for rank in places.reshape(-1)], node.kind.dtype)
        return picked_ones.reshape(places.shape)[()]

    return _result(rule.result(picked(low), picked(high), weight), shape, kind)


def _dealt_ranks(node: Node, ranks: Array, what: str, method: Any, percent: bool) -> Node:
    """Return quantiles of all elements for a dealt q, in the layout of q.

    Collective.  The elements are sorted, and each q looks up its two neighbours.
    """
    node, q = computed(node, (ranks / 100 if percent else ranks)._node)
    kind = np.asarray(np.quantile(np.ones(1, node.kind.dtype), np.ones(1, q.kind.dtype), method=method)).dtype
    line, layout = wrap(flattened(node)), layout_at(q)
    nans = _missing_in(line, wrap(q), percent)
    total = node.kind.size - nans
    if not total or (nans and not what.startswith("nan")):
        return block_map(q, kind, lambda block: _missing(block.shape, kind))._node
    line = sort(line)
    *neighbours, weights = _neighbours(q, total, method)
    parts = []
    for places in neighbours:
        (part,) = computed(line[places]._node)
        parts.append(part if layout_at(part) is layout else computed(build.relaid(part, layout))[0])
    return _interpolated(q, parts[0], parts[1], weights, method, kind)


def _in_range(line: Array, q: Array) -> tuple[Array, Array]:
    """Return two lazy arrays: whether all q are between 0 and 1, and the number of NaN (or NaT) elements."""
    missing = (line != line).sum() if line.dtype.kind in "fmM" else asarray(0)
    return ((q >= 0) & (q <= 1)).all(), missing


def _missing_cost(costs: Reported, line: Array, q: Array, percent: bool) -> int:
    """Declare the cost of `_missing_in`, assuming that no element is NaN."""
    compute(*_in_range(line, q))
    return 0


@declares(_missing_cost)
def _missing_in(line: Array, q: Array, percent: bool) -> int:
    """Return the number of NaN (or NaT) elements; raise ValueError for q out of range.  Collective: one plan."""
    inside, missing = compute(*_in_range(line, q))
    if not inside:
        raise ValueError(_outside(percent))
    return int(missing)


def _neighbours_cost(costs: Reported, q: Node, total: int, method: Any) -> tuple[Array, Array, None]:
    """Declare the cost of `_neighbours`."""
    low, high = (declared_of(costs, q.kind.shape, INT64, layout_at(q)) for _ in range(2))
    return low, high, None


@declares(_neighbours_cost)
def _neighbours(q: Node, total: int, method: Any) -> tuple[Array, Array, Any]:
    """Return the positions of each q's two neighbours among `total` sorted elements, and their weights by block."""
    picks = {at: Rule(block, False, method).ranks(total) for at, block in q.value.items()}
    low, high = (
        made_of(q.kind.shape, INT64, layout_at(q), {at: pick[k].astype(np.int64) for at, pick in picks.items()})
        for k in range(2)
    )
    return low, high, {at: pick[2] for at, pick in picks.items()}


def _interpolated_cost(costs: Reported, q: Node, low: Node, high: Node, weights: Any, method: Any, kind: DType) -> Node:
    """Declare the cost of `_interpolated`."""
    return declared_of(costs, q.kind.shape, kind, layout_at(q))._node


@declares(_interpolated_cost)
def _interpolated(q: Node, low: Node, high: Node, weights: Any, method: Any, kind: DType) -> Node:
    """Return the quantiles interpolated between neighbours that are in the layout of q.  No superstep."""
    rule = Rule(_NO_RANKS, False, method)
    return made_of(q.kind.shape, kind, layout_at(q), {
        at: np.asarray(rule.result(low.value[at], high.value[at], weight)).astype(kind, copy=False)
        for at, weight in weights.items()
    })._node  # fmt: skip


@declares(lambda costs, q, percent: None)
def _check_ranks(q: np.ndarray, percent: bool) -> None:
    """Raise ValueError for q out of range."""
    if q.size and not (q.min() >= 0 and q.max() <= 1):
        raise ValueError(_outside(percent))


def _outside(percent: bool) -> str:
    return "Percentiles must be in the range [0, 100]" if percent else "Quantiles must be in the range [0, 1]"


def _apart(q: np.ndarray) -> int:
    """Return the number of different quantiles."""
    return len(np.unique(q))


def _finely(here: World, total: int, quantiles: int) -> bool:
    """Return whether each process sorts its elements first: for many quantiles, or where samples would be large."""
    return quantiles > PASSES or sample_size(total) * (1 + 1.3 * quantiles) > max(3 * ALL, 1.5 * total / here.nprocs)


def elements_cost(costs: Reported, values: Any, total: int, longest: int, ranks: int) -> None:
    """Declare the cost of `elements_of` for so many ranks.

    values : an array like this process's elements.  longest : how many elements the fullest process has.
    """
    if _finely(world(), total, ranks):
        cuts_cost(costs, np.sort(values), total, longest, 2 * ranks)
    else:
        statistics_cost(costs, values, max(total, 1), ranks)


def elements_of(
    here: World, values: np.ndarray, ranks: Callable[[np.ndarray, np.ndarray], list[int]], nans: int, total: int,
    quantiles: int,
) -> tuple[dict[int, Any], np.ndarray]:  # fmt: skip
    """Return the elements of some ranks, and the number of NaNs of each process, shape (p, 1).  Collective."""
    if not _finely(here, total, quantiles):
        statistics, extras = order_statistics(here, Unsorted(values), ranks, [nans])
        return {rank: each.value for rank, each in statistics.items()}, extras
    own = np.sort(values)
    most = budget(total, here.nprocs, 2 * quantiles, own.dtype)
    samples = tell_samples(here, "sample", own, most.spacing, [nans])
    wanted = sorted(set(ranks(samples.sizes, samples.extras)))
    found = find_cuts(here, own, samples, wanted, most).values if wanted else ()
    return dict(zip(wanted, found, strict=True)), samples.extras


def _missing(shape: tuple[int, ...], kind: DType) -> np.ndarray:
    """Return an array of NaN, or of NaT for dates and durations."""
    return np.full(shape, "NaT", kind) if kind.kind in "mM" else np.full(shape, np.nan)


def _result(values: Any, shape: tuple[int, ...], kind: DType) -> Node:
    return build.from_whole(np.asarray(values).astype(kind, copy=False).reshape(shape), replicated(shape))


class Quantile(Protocol):
    """The common signature of `quantile`, `percentile` and their nan variants."""

    def __call__(
        self, a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False,
        method: Method = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
    ) -> Array: ...  # fmt: skip


def _quantile(what: str, percent: bool, text: str) -> Quantile:
    def function(
        a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False,
        method: Method = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
    ) -> Array:  # fmt: skip
        node = build.strong(asarray(a)._node)
        weak = type(q) in (int, float)
        given = _checked(node, q, axis, method, weights)
        if isinstance(given, Array):
            found = _dealt_ranks(node, given, what, method, percent)
            return into(wrap(_spread(range(len(node.kind.shape)), keepdims, given.ndim, found)), out)
        if percent:
            given = as_array(np.true_divide(given, 100))
        _check_ranks(given, percent)
        return _reduced(a, axis, keepdims, out, what, given, weak, method)

    function.__name__ = function.__qualname__ = text
    function.__doc__ = (
        f"{text} over `axis` (an integer, several, or all), exactly, by NumPy's `method`s.\n\n"
        "    Cost of all elements: one pass, and two supersteps as a rule: a sample of (4n)^(2/3) elements and about\n"
        "    as many candidates for each quantile (Floyd and Rivest 1975).  For more than 8 quantiles, or where that\n"
        "    would be much beside n/p: each process sorts what it has, and 1, 3 or 5 supersteps (`splitting`).\n"
        "    Of all elements for dealt q: `sort`, then each q looks up its two neighbours; the result lies as q.\n"
        "    Over some axes: whole lines come together, and a dealt q is gathered on every process, with a\n"
        "    GatherWarning above 16 MB."
    )
    return procedure(function)


quantile = _quantile("quantile", False, "quantile")
percentile = _quantile("quantile", True, "percentile")
nanquantile = _quantile("nanquantile", False, "nanquantile")
nanpercentile = _quantile("nanquantile", True, "nanpercentile")


@procedure
def median(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Return the middle element over `axis`, or the mean of the two middle ones.  Cost: as `quantile`."""
    return _reduced(a, axis, keepdims, out, "median", 0.5, True, "linear")


@procedure
def nanmedian(
    a: ArrayLike, axis: Axes = None, out: Array | None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """Return the median over `axis` of the elements that are not NaN.  Cost: as `quantile`."""
    return _reduced(a, axis, keepdims, out, "nanmedian", 0.5, True, "linear")


# ----------------------------------------------------------------------------------- topk


class _Top:
    """An operation along axes: the first k elements, or positions, of each line in sorted order."""

    work = 60.0
    fallible = False

    def __init__(self, k: int, largest: bool, positions: bool) -> None:
        self.k, self.largest, self.positions = k, largest, positions
        self.name = f"{'positions of ' * positions}{k} {'largest' if largest else 'smallest'}"

    def call(self, x: np.ndarray) -> np.ndarray:
        """Return the first k elements of each line of x, or their positions; lines are along the last axis."""
        order = sorting_positions(x, self.largest, True)[..., : self.k]
        return order if self.positions else np.take_along_axis(x, order, -1)


@lru_cache(maxsize=64)
def _top(k: int, largest: bool, positions: bool) -> _Top:
    return _Top(k, largest, positions)


def _best(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Return the ascending positions of the first k elements of a vector in sorted order.

    Of equal elements those at the lowest positions are taken.
    """
    if k >= x.size or not k:
        return np.arange(min(k, x.size))
    if x.dtype.kind == "c":
        return np.sort(sorting_positions(x, largest, True)[:k])
    edge = np.partition(x, x.size - k if largest else k - 1)[x.size - k if largest else k - 1]
    if edge != edge:  # NaN counts as greatest
        tied = np.flatnonzero(np.isnan(x))
        chosen = np.empty(0, np.intp) if largest else np.flatnonzero(~np.isnan(x))
    else:
        tied = np.flatnonzero(x == edge)
        chosen = np.flatnonzero(~(x <= edge)) if largest else np.flatnonzero(x < edge)
    return np.sort(np.concatenate([chosen, tied[: k - chosen.size]]))


@procedure
def topk(x: ArrayLike, k: int, /, axis: int = -1, *, largest: bool = True) -> tuple[Array, Array]:
    """Return the k largest elements along an axis, greatest first, or the k smallest; and their positions.

    The result is the first k of a stable sort: NaN counts as greatest, of equal elements the lower position is first.
    Cost: a dealt vector: h = 2k(p-1) words, one superstep; for k beyond what is replicated, that of `argsort`.
    """
    array = asarray(x)
    node = build.strong(array._node)
    shape, dtype = node.kind.shape, node.kind.dtype
    place = build.normal_axis(axis, len(shape))
    k = index(k)
    if not 0 <= k <= shape[place]:
        raise ValueError(f"topk: k={k} of an axis of length {shape[place]}; k is at least 0 and at most that")
    if len(shape) > 1:
        order = [axis for axis in range(len(shape)) if axis != place]
        lines = build.permuted(node, (*order, place))
        back = [*range(len(order))]
        back.insert(place, len(order))
        found = []
        for positions in (False, True):
            op = interned(Along, _top(k, largest, positions), (1,), (k,))
            kind = kind_of((*lines.kind.shape[:-1], k), INT64 if positions else dtype)
            found.append(wrap(build.permuted(Node(op, (lines,), kind), back)))
        return found[0], found[1]
    (node,) = computed(node)
    if known(node) is None and k > REPLICATED_SIZE:
        chosen = argsort(wrap(node), descending=largest)[:k].persist()
        return wrap(node)[chosen], chosen
    return _first(node, k, largest)


def _first_cost(costs: Reported, node: Node, k: int, largest: bool) -> tuple[Array, Array]:
    """Declare the cost of `_first`."""
    if known(node) is None:
        _, block = in_line(node)
        size = min(k, block.shape[0])
        np.partition(block, 0) if size else None
        costs.passing(block.shape[0], np.dtype(bool))
        own = costs.memory((size,), node.kind.dtype), costs.memory((size,), INT64)
        arrived = costs.tell("the first of each", *own)
        costs.passing(3 * size * costs.p, INT64)  # values and positions of all processes, and their order
        del arrived
    values, places = (declared_of(costs, (k,), kind, replicated((k,))) for kind in (node.kind.dtype, INT64))
    return values, places


@declares(_first_cost)
def _first(node: Node, k: int, largest: bool) -> tuple[Array, Array]:
    """Return the first k elements of a computed vector in sorted order and their positions, replicated.

    Collective: one superstep if the vector is dealt.
    """
    here, whole = world(), known(node)
    if whole is None:
        bounds, block = in_line(node)
        best = _best(block, k, largest)
        own = block[best], best + bounds[here.pid]
        arrived = here.exchange("the first of each", [(range(here.nprocs), part) for part in own])
        values = np.concatenate([part for _, part in arrived[0::2]])
        places = np.concatenate([part for _, part in arrived[1::2]])
    else:
        values, places = whole, np.arange(node.kind.size)
    order = sorting_positions(values, largest, True)[:k]
    made = [
        made_of((k,), part.dtype, replicated((k,)), {(0,): part})
        for part in (values[order], places[order].astype(np.int64))
    ]
    return made[0], made[1]
