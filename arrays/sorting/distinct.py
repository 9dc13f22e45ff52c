"""Distinct elements, with counts, first positions and inverses.

Each process first finds the distinct elements among its own.  If these are few, every process sends them to all: one
superstep.  Else splitters (`splitting`) assign the distinct elements to processes by value, where those of all
processes are merged.  The result stays there, in pieces whose lengths are exchanged once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import moveaxis, reshape
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.element_types import whole_rows
from bsp.arrays.expressions.graph import Blocks, DType, Node
from bsp.arrays.expressions.layout import Axis, layout_of, replicated
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, declared_of, even_line, layout_at, line_layout, made_of, told
from bsp.arrays.sorting.order_statistics import ALL
from bsp.arrays.sorting.own_distinct import NOTHING, Distinct, OwnElements, merged, own_elements, places_of
from bsp.arrays.sorting.sorting import INT64
from bsp.arrays.sorting.splitting import (
    Samples,
    budget,
    cuts_cost,
    find_cuts,
    rough_cuts,
    rough_spacing,
    shares,
    tell_samples,
)
from bsp.arrays.typing import ArrayLike
from bsp.declared import Reported, declares

__all__ = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class _Details(NamedTuple):
    """The dtypes in which counts and first positions are sent along with elements; None for what is not sent."""

    counts: DType | None
    first: DType | None

    def of(self, part: Distinct, where: slice = slice(None)) -> list[np.ndarray]:
        """Return the arrays to send along with some of the elements."""
        given = zip((part.counts, part.first), self, strict=True)
        return [each[where].astype(kind) for each, kind in given if kind is not None]

    def heard(self, values: np.ndarray, *arrived: np.ndarray) -> Distinct:
        """Return received elements with the counts and positions that arrived with them, as int64."""
        told = iter(arrived)
        counts, first = (NOTHING if kind is None else next(told).astype(np.int64) for kind in self)
        return Distinct(values, counts, first)


def _details(node: Node, longest: int, wanted: tuple[bool, bool, bool]) -> _Details:
    """Return what must be sent along with elements, if (indices, inverse, counts) are `wanted`.

    longest : the most elements on one process.
    Positions are also needed to distinguish NaNs, and to find which of two equal elements with different bits is first.
    """
    indices, _, counts = wanted
    positions = indices or (any(wanted) and node.kind.dtype.kind not in "biu")
    return _Details(
        np.min_scalar_type(longest) if counts else None, np.min_scalar_type(node.kind.size) if positions else None
    )


class Unique(NamedTuple):
    """The distinct elements of an array, with first positions, inverse and counts where wanted."""

    values: Array
    indices: Array | None
    inverse: Array | None
    counts: Array | None


def distinct(x: Any, equal_nan: bool, indices: bool, inverse: bool, counts: bool) -> Unique:
    """Return the distinct elements of an array, ascending.  Collective.

    Cost: one superstep if the distinct elements of all processes together are few (4096 or so).  Else three: a sample,
    each distinct element of each process once, and their numbers; one more brings the inverse back.  Where a sample of
    64·p elements a process would be more than an eighth of what it has, a smaller sample is taken, and the splitters
    are found in 2 or 4 more supersteps (`splitting`): the words beside the elements are then about those of `sort`, and
    4096 at most where some processes have few.  Counts, positions and the inverse are sent in the smallest dtype that
    holds them.
    """
    (node,) = computed(build.strong(asarray(x)._node))
    return _distinct(node, equal_nan, (indices, inverse, counts))


def _distinct_cost(costs: Reported, node: Node, equal_nan: bool, wanted: tuple[bool, bool, bool]) -> Unique:
    """Declare the cost of `_distinct`, assuming that all elements are distinct."""
    here, (indices, inverse, counts) = world(), wanted
    layout, size, dtype = layout_at(node), node.kind.size, node.kind.dtype
    blocks = [node.value[at] for at in layout.mine(here.pid)]
    for block in blocks:
        np.sort(block.reshape(-1))
        costs.passing(block.size * (8 if any(wanted) else 3), INT64)
    target = replicated((size,))
    if not layout.replicated:
        target = line_layout([size * pid // here.nprocs for pid in range(here.nprocs + 1)])
        share, longest = sum(block.size for block in blocks), int(layout.held(here.nprocs).max())
        kinds = [dtype, *[kind for kind in _details(node, longest, wanted) if kind is not None]]
        few = min(share, ALL // here.nprocs // words_of(dtype))
        more = [costs.memory((few,), kind) for kind in kinds[1:]]
        cuts_cost(costs, costs.memory((share,), dtype), size, longest, here.nprocs, few, more, True)
        share += uneven(here, share, size)
        by_value = shares(share, here.nprocs, here.pid)
        arrived = costs.total_exchange("distinct elements by value", [
            (dest, costs.memory((part,), kind)) for dest, part in by_value for kind in kinds
        ])  # fmt: skip
        costs.passing(share * (13 if any(wanted) else 3), INT64)
        del arrived
        costs.tell("how many are distinct", costs.memory((1,), INT64))
        if inverse:
            narrow = np.min_scalar_type(size)
            costs.total_exchange("where distinct elements stand", [
                (dest, costs.memory((part,), narrow)) for dest, part in by_value
            ])  # fmt: skip
    whole = declared_of(costs, node.kind.shape, INT64, layout)
    return Unique(
        declared_of(costs, (size,), dtype, target),
        declared_of(costs, (size,), INT64, target) if indices else None,
        whole if inverse else None,
        declared_of(costs, (size,), INT64, target) if counts else None,
    )


@declares(_distinct_cost)
def _distinct(node: Node, equal_nan: bool, wanted: tuple[bool, bool, bool]) -> Unique:
    """Return the distinct elements of a computed node, with those of (indices, inverse, counts) that are `wanted`."""
    here, inverse = world(), wanted[1]
    own = own_elements(here, node, equal_nan, wanted)
    layout = layout_at(node)
    if layout.replicated:
        return _finished(node, own.distinct, own.inverses, wanted)
    values = own.distinct.values
    few = values.size * here.nprocs * words_of(values.dtype) <= ALL
    details = _details(node, int(layout.held(here.nprocs).max()), wanted)
    samples = tell_elements(here, values, few, node.kind.size, details.of(own.distinct) if few else ())
    if samples.extras.all():
        parts = [details.heard(part, *more) for part, more in zip(samples.parts, samples.more, strict=True)]
        whole = merged(parts, equal_nan)
        places = places_of(whole, own.distinct, equal_nan) if inverse else None
        inverses = {at: places[each] for at, each in own.inverses.items()} if places is not None else {}
        return _finished(node, whole, inverses, wanted)
    return _dealt(here, node, own, splits(here, values, samples, node.kind.size), equal_nan, details, wanted)


def words_of(dtype: DType) -> int:
    """Return the words (8 bytes) of an element, which may be a whole slice."""
    return max(1, dtype.itemsize // 8)


def tell_elements(here: World, values: np.ndarray, few: bool, total: int, more: Sequence[np.ndarray]) -> Samples:
    """Send this process's values to all if they are `few`, else a sample.  Collective: one superstep.

    Whether they are few is sent as an extra; if it holds on every process, all values have arrived everywhere.
    """
    spacing = rough_spacing(total, here.nprocs) or budget(total, here.nprocs, here.nprocs, values.dtype).spacing
    return tell_samples(here, "distinct elements, or a sample", values, spacing, [few], more, few)


def splits(here: World, values: np.ndarray, samples: Samples, total: int) -> np.ndarray:
    """Return the splitters: the elements at which the piece of each process but the first begins.  Collective."""
    size = int(samples.sizes.sum())
    ranks = sorted({size * pid // here.nprocs for pid in range(1, here.nprocs)})
    if rough_spacing(total, here.nprocs):
        return rough_cuts(samples, ranks)
    return find_cuts(here, values, samples, ranks, budget(total, here.nprocs, here.nprocs, values.dtype)).values


def parted(values: np.ndarray, splitters: np.ndarray, nprocs: int) -> np.ndarray:
    """Return where a sorted vector is cut, shape (nprocs + 1,); equal elements go to one process."""
    cuts = np.full(nprocs + 1, values.size)
    cuts[0] = 0
    cuts[1 : 1 + len(splitters)] = np.searchsorted(values, splitters)
    return cuts


def by_source(here: World, arrived: Sequence[tuple[int, Any]]) -> list[list[Any]]:
    """Return the arrays that each process has sent, in order of arrival."""
    found: list[list[Any]] = [[] for _ in range(here.nprocs)]
    for pid, array in arrived:
        found[pid].append(array)
    return found


def _finished(node: Node, whole: Distinct, inverses: Blocks, wanted: tuple[bool, bool, bool]) -> Unique:
    """Return the result if every process has all distinct elements: all replicated but the inverse."""

    def all_have(values: np.ndarray) -> Array:
        return made_of(values.shape, values.dtype, replicated(values.shape), {(0,): values})

    indices, inverse, counts = wanted
    layout, shape = layout_at(node), node.kind.shape
    blocks = {at: each.reshape(layout.block_shape(at)) for at, each in inverses.items()}
    return Unique(
        all_have(whole.values),
        all_have(whole.first) if indices else None,
        made_of(shape, INT64, layout, blocks) if inverse else None,
        all_have(whole.counts) if counts else None,
    )


def _dealt(
    here: World, node: Node, own: OwnElements, splitters: np.ndarray, equal_nan: bool, details: _Details,
    wanted: tuple[bool, bool, bool],
) -> Unique:  # fmt: skip
    """Send distinct elements to processes by value and merge them there; the result stays dealt.  Collective."""
    indices, inverse, counts = wanted
    values = own.distinct.values
    cuts = parted(values, splitters, here.nprocs)
    out: list[tuple[int, Any]] = []
    for dest in range(here.nprocs):
        part = slice(int(cuts[dest]), int(cuts[dest + 1]))
        out += [(dest, each) for each in (values[part], *details.of(own.distinct, part))]
    parts = by_source(here, here.exchange("distinct elements by value", out))
    pieces = [details.heard(*each) for each in parts]
    whole = merged(pieces, equal_nan)
    lengths = told(here, "how many are distinct", np.array([whole.values.size], np.int64))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    layout = line_layout(bounds.tolist())

    def piece(values: np.ndarray) -> Array:
        return made_of((int(bounds[-1]),), values.dtype, layout, {(here.pid,): values})

    found: Array | None = None
    if inverse:
        narrow = np.min_scalar_type(int(bounds[-1]))
        replies = [
            (pid, (places_of(whole, each, equal_nan) + bounds[here.pid]).astype(narrow))
            for pid, each in enumerate(pieces)
            if each.values.size
        ]
        back = by_source(here, here.exchange("where distinct elements stand", replies))
        places = np.concatenate([np.empty(0, np.int64), *[each[0].astype(np.int64) for each in back if each]])
        shape, own_layout = node.kind.shape, layout_at(node)
        found = made_of(shape, INT64, own_layout, {
            at: places[each].reshape(own_layout.block_shape(at)) for at, each in own.inverses.items()
        })  # fmt: skip
    return Unique(
        piece(whole.values), piece(whole.first) if indices else None, found, piece(whole.counts) if counts else None
    )


def uneven(here: World, share: int, total: int) -> int:
    """Return how many elements more than its share a process may get.

    A rough sample cuts unevenly; exact splitters leave at most one equal element from each process.
    """
    return share // 32 + 2 if rough_spacing(total, here.nprocs) else here.nprocs


@declares(lambda costs, block, kind: costs.memory(block.shape[:1], kind))
def _rows_joined(block: Any, kind: DType) -> Any:
    """Return the rows of a block as a vector with one element for each row."""
    return np.ascontiguousarray(block).view(kind).reshape(block.shape[0])


@declares(lambda costs, elements, dtype, width: costs.memory((elements.shape[0], width), dtype))
def _rows_parted(elements: Any, dtype: DType, width: int) -> Any:
    """Return the block of rows that `_rows_joined` made a vector of."""
    return elements.view(dtype).reshape(elements.shape[0], width)


def _distinct_slices(array: Array, axis: int, wanted: tuple[bool, bool, bool]) -> Unique:
    """Return the distinct slices along an axis, each treated as one element of a structured dtype.  Collective."""
    here = world()
    moved = moveaxis(array, axis, 0)
    count, rest = moved.shape[0], moved.shape[1:]
    width = prod(rest)
    if not width:  # slices without elements are all equal
        one = min(count, 1)
        values = array[(slice(None),) * axis + (slice(0, one),)]
        found = [wrap(build.from_whole(np.asarray(each, np.int64))) for each in (
            np.zeros(one), np.zeros(count), np.full(one, count)
        )]  # fmt: skip
        index, inverse, counts = (each if asked else None for each, asked in zip(found, wanted, strict=True))
        return Unique(values, index, inverse, counts)
    (node,) = computed(reshape(moved, (count, width))._node)
    if not layout_at(node).replicated:
        rows = layout_of((*even_line(count, here.nprocs).axes, Axis(width)))
        (node,) = computed(build.relaid(node, rows))
    kind = whole_rows(node.kind.dtype, width)
    layout = layout_at(node)
    line = replicated((count,)) if layout.replicated else layout_of(layout.axes[:1])
    blocks = {at[:1]: _rows_joined(block, kind) for at, block in node.value.items()}
    found_slices = distinct(made_of((count,), kind, line, blocks), True, *wanted)
    leaf_of = found_slices.values._node
    target = layout_at(leaf_of)
    shape = (leaf_of.kind.shape[0], width)
    back = {(*at, 0): _rows_parted(block, array.dtype, width) for at, block in leaf_of.value.items()}
    layout = replicated(shape) if target.replicated else layout_of((*target.axes, Axis(width)))
    values = made_of(shape, array.dtype, layout, back)
    return found_slices._replace(values=moveaxis(reshape(values, (shape[0], *rest)), 0, axis))


# ------------------------------------------------------------------------------ functions


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    inverse_indices: Array


@procedure
def unique_all(x: ArrayLike, /) -> UniqueAll:
    """Return the distinct elements, ascending, their first positions, the inverse and counts; NaNs all differ.

    Cost: as `unique`.
    """
    found = distinct(x, False, True, True, True)
    assert found.indices is not None and found.inverse is not None and found.counts is not None
    return UniqueAll(found.values, found.indices, found.inverse, found.counts)


@procedure
def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """Return the distinct elements, ascending, and how often each occurs; NaNs all differ.  Cost: as `unique`."""
    found = distinct(x, False, False, False, True)
    assert found.counts is not None
    return UniqueCounts(found.values, found.counts)


@procedure
def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """Return the distinct elements, ascending, and each element's number among them; NaNs all differ.

    Cost: as `unique`.
    """
    found = distinct(x, False, False, True, False)
    assert found.inverse is not None
    return UniqueInverse(found.values, found.inverse)


@procedure
def unique_values(x: ArrayLike, /) -> Array:
    """Return the distinct elements, ascending; NaNs all differ.  Cost: as `unique`."""
    return distinct(x, False, False, False, False).values


@overload
def unique(
    ar: ArrayLike, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Array: ...  # fmt: skip
@overload
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> tuple[Array, ...]: ...  # fmt: skip
@procedure
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """Return the distinct elements, ascending, or the distinct slices along an axis; NaNs count as equal.

    axis : find distinct slices along this axis, in lexicographic order; slices with NaN are never equal.
    Cost: one superstep if the distinct elements of all processes together are few (4096 or so); else three, in which
    each process sends each of its distinct elements once, and two to four more where processes have few elements.  The
    inverse takes one more.  With an axis whole slices are brought together first, at most one total exchange; then as
    for as many elements as there are slices.
    """
    array = asarray(ar)
    wanted = (bool(return_index), bool(return_inverse), bool(return_counts))
    if axis is not None and build.normal_axis(axis, array.ndim) >= 0 and array.ndim > 1:
        found = _distinct_slices(array, build.normal_axis(axis, array.ndim), wanted)
    else:
        found = distinct(array, equal_nan, *wanted)
    result = tuple(each for each in (found.values, found.indices, found.inverse, found.counts) if each is not None)
    return result if len(result) > 1 else result[0]
