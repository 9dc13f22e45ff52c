"""Arrays as sets: distinct elements with counts, first positions and inverses; unions, intersections, membership.

Each process makes its own elements distinct first.  If that leaves few, all tell all: one superstep.  Else splitters
(`splitting`) deal the distinct elements to processes by value, where those of all processes are merged; the result
stays there, in pieces whose lengths become known by one exchange of counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import concat, moveaxis, ravel, reshape
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.element_types import whole_rows
from bsp.arrays.expressions.graph import Blocks, DType, Node
from bsp.arrays.expressions.layout import Axis, layout_of, replicated
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import (
    computed,
    even_line,
    known,
    layout_at,
    line_layout,
    made_of,
    mine,
    one_vector,
    told,
)
from bsp.arrays.selection.masks import compress_node
from bsp.arrays.sorting.order_statistics import ALL
from bsp.arrays.sorting.searching import searchsorted
from bsp.arrays.sorting.sorting import INT64, argsort, sorting_positions
from bsp.arrays.sorting.splitting import (
    Samples,
    abstract_cuts,
    budget,
    find_cuts,
    rough_cuts,
    rough_spacing,
    tell_samples,
)

_NOTHING = np.empty(0, np.int64)


class Distinct(NamedTuple):
    """Distinct elements, ascending, with how often and where first, if that is asked."""

    values: np.ndarray
    counts: np.ndarray
    first: np.ndarray  # position in C order


def _bare(values: np.ndarray) -> Distinct:
    """Elements of which nothing more is asked."""
    return Distinct(values, _NOTHING, _NOTHING)


def _changes(ordered: np.ndarray, equal_nan: bool) -> np.ndarray:
    """Where a new element begins in sorted ones."""
    found = np.ones(ordered.size, bool)
    if ordered.size > 1:
        found[1:] = ordered[1:] != ordered[:-1]
        if equal_nan and ordered.dtype.kind in "fcmM":
            nan = np.isnan(ordered)  # or no date
            found[1:] &= ~(nan[1:] & nan[:-1])
    return found


def merged(parts: Sequence[Distinct], equal_nan: bool) -> Distinct:
    """Distinct elements of several."""
    values = np.concatenate([part.values for part in parts])
    if all(part.counts is _NOTHING for part in parts):
        values.sort()
        return _bare(values[_changes(values, equal_nan)])
    counts = np.concatenate([part.counts for part in parts])
    first = np.concatenate([part.first for part in parts])
    order = np.lexsort((first, values)) if values.dtype.kind in "biufmM" else _by_value(values, first)
    new = np.flatnonzero(_changes(values[order], equal_nan))
    if not new.size:
        return Distinct(values, counts, first)
    return Distinct(values[order][new], np.add.reduceat(counts[order], new), np.minimum.reduceat(first[order], new))


def _by_value(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """lexsort does not know complex numbers with NaN: by position, then a stable sort by value."""
    order = np.argsort(first, kind="stable")
    return order[np.argsort(values[order], kind="stable")]


class _Own(NamedTuple):
    """What a process has: distinct elements, and for each block which of them each element is."""

    distinct: Distinct
    inverses: dict[tuple[int, ...], np.ndarray]


def _own(here: World, node: Node, equal_nan: bool, details: bool) -> _Own:
    """The distinct elements of this process; of a replicated array all."""
    layout = layout_at(node)
    shape = node.kind.shape
    parts, local = [], []
    ats = layout.mine(here.pid)
    for at in ats:
        block = node.value[at]
        flat = block.reshape(-1)
        if not details:
            ordered = np.sort(flat)
            values = ordered[_changes(ordered, equal_nan)]
            parts.append(_bare(values))
            continue
        order = sorting_positions(flat, False, True)
        new = _changes(flat[order], equal_nan)
        inverse = np.empty(flat.size, np.int64)
        inverse[order] = np.cumsum(new) - 1
        starts = np.flatnonzero(new)
        first = order[starts]
        if flat.size and block.shape != shape:
            corner = np.array([low for low, _ in layout.box(at)]).reshape(-1, 1)
            first = np.ravel_multi_index(tuple(np.array(np.unravel_index(first, block.shape)) + corner), shape)
        parts.append(Distinct(flat[order][starts], np.diff(np.append(starts, flat.size)), first))
        local.append(inverse)
    if not parts:
        empty = np.empty(0, np.int64)
        return _Own(Distinct(np.empty(0, node.kind.dtype), empty, empty), {})
    if len(parts) == 1:
        return _Own(parts[0], dict(zip(ats, local, strict=False)))
    together = merged(parts, equal_nan)
    if not details:
        return _Own(together, {})
    inverses = {
        at: places[inverse]
        for at, inverse, places in zip(ats, local, [_places(together, part, equal_nan) for part in parts], strict=False)
    }
    return _Own(together, inverses)


def _places(whole: Distinct, part: Distinct, equal_nan: bool) -> np.ndarray:
    """Where the elements of a part stand in the whole; NaNs that are distinct are told apart by their positions."""
    found = np.searchsorted(whole.values, part.values)
    if part.values.dtype.kind == "V" or (not equal_nan and part.values.dtype.kind in "fcmM"):
        nan = np.flatnonzero(part.values != part.values)
        if part.values.dtype.kind == "V":  # rows: NaN stands anywhere
            for k in nan.tolist():
                found[k] += int(np.flatnonzero(whole.first[found[k] :] == part.first[k])[0])
        elif nan.size:
            start = int(np.searchsorted(whole.values, part.values[nan[0]]))
            order = np.argsort(whole.first[start:], kind="stable")
            at = order[np.searchsorted(whole.first[start:][order], part.first[nan])]
            if part.values.dtype.kind in "fmM":
                found[nan] = start + at
            else:
                found[nan] = [start + int(np.flatnonzero(whole.first[start:] == each)[0]) for each in part.first[nan]]
    return found


class Unique(NamedTuple):
    """The result: distinct elements, and what was asked for besides."""

    values: Array
    indices: Array | None
    inverse: Array | None
    counts: Array | None


def distinct(x: Any, equal_nan: bool, indices: bool, inverse: bool, counts: bool) -> Unique:
    """Distinct elements of an array.

    Cost: one superstep if the distinct elements of all processes together are few (4096 or so); else a sample,
    each distinct element of each process once, counts; and one more that brings the inverse back.  Where a sample of
    64·p elements a process would be more than an eighth of what it has, a smaller one, and 2 or 4 supersteps more in
    which the splitters are found (`splitting`): the words beside the elements are about those of `sort`.
    """
    here = world()
    (node,) = computed(build.strong(asarray(x)._node))
    if here.abstract:
        return _abstract(here, node, indices, inverse, counts)
    details = indices or inverse or counts
    own = _own(here, node, equal_nan, details)
    layout = layout_at(node)
    if layout.replicated:
        return _finished(node, own.distinct, own.inverses, (indices, inverse, counts))
    values = own.distinct.values
    few = values.size * here.nprocs * _words(values.dtype) <= ALL
    more = (own.distinct.counts, own.distinct.first) if few and details else ()
    samples = _told(here, values, few, node.kind.size, more)
    if samples.extras.all():
        parts = [
            Distinct(part, *others) if details else _bare(part)
            for part, others in zip(samples.parts, samples.more, strict=True)
        ]
        whole = merged(parts, equal_nan)
        places = _places(whole, own.distinct, equal_nan) if inverse else None
        inverses = {at: places[each] for at, each in own.inverses.items()} if places is not None else {}
        return _finished(node, whole, inverses, (indices, inverse, counts))
    return _dealt(
        here, node, own, _splits(here, values, samples, node.kind.size), equal_nan, (indices, inverse, counts)
    )


def _words(dtype: DType) -> int:
    """Of an element; a whole slice may be one."""
    return max(1, dtype.itemsize // 8)


def _told(here: World, values: np.ndarray, few: bool, total: int, more: Sequence[np.ndarray]) -> Samples:
    """All of this process's values if they are few, else a sample of them, to all; whether they are few is an extra."""
    spacing = rough_spacing(total, here.nprocs) or budget(total, here.nprocs, here.nprocs, values.dtype).spacing
    return tell_samples(here, "distinct elements, or a sample", values, spacing, [few], more, few)


def _splits(here: World, values: np.ndarray, samples: Samples, total: int) -> np.ndarray:
    """The elements of sorted vectors at which the pieces of all processes begin, but the first."""
    size = int(samples.sizes.sum())
    ranks = sorted({size * pid // here.nprocs for pid in range(1, here.nprocs)})
    if rough_spacing(total, here.nprocs):
        return rough_cuts(samples, ranks)
    return find_cuts(here, values, samples, ranks, budget(total, here.nprocs, here.nprocs, values.dtype)).values


def _parted(values: np.ndarray, splitters: np.ndarray, nprocs: int) -> np.ndarray:
    """Where the pieces of a sorted vector begin and end: equal elements belong to one process."""
    cuts = np.full(nprocs + 1, values.size)
    cuts[0] = 0
    cuts[1 : 1 + len(splitters)] = np.searchsorted(values, splitters)
    return cuts


def _by_source(here: World, arrived: Sequence[tuple[int, Any]]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(here.nprocs)]
    for pid, array in arrived:
        found[pid].append(array)
    return found


def _finished(node: Node, whole: Distinct, inverses: Blocks, wanted: tuple[bool, bool, bool]) -> Unique:
    """A result that every process knows."""

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
    here: World, node: Node, own: _Own, splitters: np.ndarray, equal_nan: bool, wanted: tuple[bool, bool, bool]
) -> Unique:
    """Distinct elements to processes by value."""
    indices, inverse, counts = wanted
    values = own.distinct.values
    cuts = _parted(values, splitters, here.nprocs)
    out: list[tuple[int, Any]] = []
    for dest in range(here.nprocs):
        part = slice(int(cuts[dest]), int(cuts[dest + 1]))
        out.append((dest, values[part]))
        if any(wanted):
            out += [(dest, own.distinct.counts[part]), (dest, own.distinct.first[part])]
    parts = _by_source(here, here.exchange("distinct elements by value", out))
    pieces = [Distinct(each[0], each[1], each[2]) if any(wanted) else _bare(each[0]) for each in parts]
    whole = merged(pieces, equal_nan)
    lengths = told(here, "how many are distinct", np.array([whole.values.size], np.int64))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    layout = line_layout(bounds.tolist())

    def piece(values: np.ndarray) -> Array:
        return made_of((int(bounds[-1]),), values.dtype, layout, {(here.pid,): values})

    found: Array | None = None
    if inverse:
        replies = [
            (pid, _places(whole, each, equal_nan) + bounds[here.pid])
            for pid, each in enumerate(pieces)
            if each.values.size
        ]
        back = _by_source(here, here.exchange("where distinct elements stand", replies))
        places = np.concatenate([np.empty(0, np.int64), *[each[0] for each in back if each]])
        shape, own_layout = node.kind.shape, layout_at(node)
        found = made_of(shape, INT64, own_layout, {
            at: places[each].reshape(own_layout.block_shape(at)) for at, each in own.inverses.items()
        })  # fmt: skip
    return Unique(
        piece(whole.values), piece(whole.first) if indices else None, found, piece(whole.counts) if counts else None
    )


def _abstract(here: World, node: Node, indices: bool, inverse: bool, counts: bool) -> Unique:
    """All elements distinct."""
    details = indices or inverse or counts
    blocks = [node.value[at] for at in layout_at(node).mine(here.pid)]
    layout, size, dtype = layout_at(node), node.kind.size, node.kind.dtype
    for block in blocks:
        np.sort(block.reshape(-1))
        here.passes(block.size * (8 if details else 3), INT64)
    if layout.replicated:
        target = replicated((size,))
    else:
        target = line_layout([size * pid // here.nprocs for pid in range(here.nprocs + 1)])
        here.at_most()
        kinds = [dtype, INT64, INT64][: 3 if details else 1]
        share = sum(block.size for block in blocks)
        few = min(share, ALL // here.nprocs // _words(dtype))
        more = [here.empty((few,), kind) for kind in kinds[1:]]
        abstract_cuts(here, here.empty((share,), dtype), size, here.nprocs, 1, few, more, True)
        dest = (here.pid + 1) % here.nprocs
        share += share // 32 + 2  # what sampling may leave uneven
        here.exchange("distinct elements by value", [(dest, here.empty((share,), kind)) for kind in kinds])
        here.passes(share * (12 if details else 3), INT64)
        told(here, "how many are distinct", here.empty((1,), INT64))
        if inverse:
            here.exchange("where distinct elements stand", [(dest, here.empty((share,), INT64))])

    def made(kind: DType) -> Array:
        return made_of(
            (size,), kind, target, {at: here.empty(target.block_shape(at), kind) for at in target.mine(here.pid)}
        )

    whole = made_of(
        node.kind.shape, INT64, layout, {at: here.empty(block.shape, INT64) for at, block in node.value.items()}
    )
    return Unique(
        made(dtype), made(INT64) if indices else None, whole if inverse else None, made(INT64) if counts else None
    )


def _distinct_slices(array: Array, axis: int, wanted: tuple[bool, bool, bool]) -> Unique:
    """Distinct slices along an axis: each is one element of a dtype with as many fields as the slice has elements."""
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

    def slices(block: Any) -> Any:
        if here.abstract:
            return here.empty(block.shape[:1], kind)
        return np.ascontiguousarray(block).view(kind).reshape(block.shape[0])

    blocks = {at[:1]: slices(block) for at, block in node.value.items()}
    found_slices = distinct(made_of((count,), kind, line, blocks), True, *wanted)
    leaf_of = found_slices.values._node
    target = layout_at(leaf_of)
    shape = (leaf_of.kind.shape[0], width)
    back = {
        (*at, 0): here.empty((block.shape[0], width), array.dtype) if here.abstract
        else block.view(array.dtype).reshape(block.shape[0], width)
        for at, block in leaf_of.value.items()
    }  # fmt: skip
    layout = replicated(shape) if target.replicated else layout_of((*target.axes, Axis(width)))
    values = made_of(shape, array.dtype, layout, back)
    return found_slices._replace(values=moveaxis(reshape(values, (shape[0], *rest)), 0, axis))


# ------------------------------------------------------------------------------ functions


class UniqueAll(NamedTuple):
    """What unique_all gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What unique_counts gives."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What unique_inverse gives."""

    values: Array
    inverse_indices: Array


@procedure
def unique_all(x: Any, /) -> UniqueAll:
    """Distinct elements, ascending, their first positions, the inverse, how often; NaNs all differ."""
    found = distinct(x, False, True, True, True)
    assert found.indices is not None and found.inverse is not None and found.counts is not None
    return UniqueAll(found.values, found.indices, found.inverse, found.counts)


@procedure
def unique_counts(x: Any, /) -> UniqueCounts:
    """Distinct elements, ascending, and how often each occurs; NaNs all differ."""
    found = distinct(x, False, False, False, True)
    assert found.counts is not None
    return UniqueCounts(found.values, found.counts)


@procedure
def unique_inverse(x: Any, /) -> UniqueInverse:
    """Distinct elements, ascending, and which of them each element is; NaNs all differ."""
    found = distinct(x, False, False, True, False)
    assert found.inverse is not None
    return UniqueInverse(found.values, found.inverse)


@procedure
def unique_values(x: Any, /) -> Array:
    """Distinct elements, ascending; NaNs all differ."""
    return distinct(x, False, False, False, False).values


@procedure
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: Any = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """numpy.unique of all elements: distinct ones, ascending; NaNs count as equal.  Cost: see `distinct`.

    axis : the distinct slices along it, in the order of their elements; NaN in them are never equal.  Cost: whole
        slices are brought together, at most one total exchange; then as `distinct` of so many elements as slices.
    """
    array = asarray(ar)
    wanted = (bool(return_index), bool(return_inverse), bool(return_counts))
    if axis is not None and build.normal_axis(axis, array.ndim) >= 0 and array.ndim > 1:
        found = _distinct_slices(array, build.normal_axis(axis, array.ndim), wanted)
    else:
        found = distinct(array, equal_nan, *wanted)
    result = tuple(each for each in (found.values, found.indices, found.inverse, found.counts) if each is not None)
    return result if len(result) > 1 else result[0]


@procedure
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Array:
    """Whether each element is one of `test_elements`; NaN is in nothing.

    Cost: nothing if every process has the test elements; one superstep if they are so few that all may have them.
    Else the distinct elements of both on each process travel once, and a byte back for each of the first: two
    supersteps, and those that find where to cut (`distinct`).
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    array, tests = asarray(element), asarray(test_elements)
    if not tests.size:
        return (array != array) & False if not invert else (array == array) | True
    kind = np.result_type(array.dtype, tests.dtype)
    given, node = computed(build.strong(array._node), build.strong(tests._node))
    here = world()
    if known(node) is None and node.kind.size * here.nprocs <= max(given.kind.size, ALL):
        (node,) = computed(build.everywhere(node))
    whole, one = known(node), known(given)
    if whole is not None:
        for block in given.value.values():
            here.passes(5 * (block.size + whole.size), INT64)  # NumPy sorts both together
        blocks = {at: np.isin(block, whole, invert=invert) for at, block in given.value.items()}
    elif one is not None:
        own = one_vector(here, mine(node), node.kind.dtype)
        found = here.private.allreduce(np.isin(one, own).reshape(-1).astype(np.uint8), "max")
        blocks = {at: (found.reshape(array.shape) > 0) ^ invert for at in given.value}
    else:
        first, second = computed(build.cast(given, kind), build.cast(node, kind))
        blocks = (_abstract_members if here.abstract else _members)(here, first, second, invert)
    return made_of(array.shape, np.dtype(bool), layout_at(given), blocks)


def _among(values: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Whether each value is in a sorted vector."""
    if not line.size:
        return np.zeros(values.size, bool)
    return np.asarray(line[np.minimum(np.searchsorted(line, values), line.size - 1)] == values)


def _members(here: World, elements: Node, tests: Node, invert: bool) -> dict[Any, Any]:
    """isin of two dealt arrays: both go to processes by value, cut so that each gets as many of both together."""
    own = _own(here, elements, True, True)
    other = _own(here, tests, True, False).distinct.values
    other = other[other == other]  # NaN is in nothing
    both = np.sort(np.concatenate([own.distinct.values, other]))
    few = both.size * here.nprocs * _words(both.dtype) <= ALL
    total = elements.kind.size + tests.kind.size
    samples = _told(here, both, few, total, [other] if few else [])
    values = own.distinct.values
    if samples.extras.all():
        found = np.isin(values, np.concatenate([each for (each,) in samples.more]))
    else:
        splitters = _splits(here, both, samples, total)
        cuts = [_parted(each, splitters, here.nprocs) for each in (values, other)]
        arrived = here.exchange("distinct elements by value", [
            (dest, each[cut[dest] : cut[dest + 1]])
            for dest in range(here.nprocs)
            for each, cut in zip((values, other), cuts, strict=True)
        ])  # fmt: skip
        parts = _by_source(here, arrived)
        inside = np.sort(np.concatenate([part[1] for part in parts]))
        replies = [(pid, _among(part[0], inside)) for pid, part in enumerate(parts)]
        found = np.concatenate([each for _, each in here.exchange("whether they are members", replies)])
    found ^= invert
    return {
        at: found[each].reshape(layout_at(elements).block_shape(at)) for at, each in own.inverses.items()
    }  # fmt: skip


def _abstract_members(here: World, elements: Node, tests: Node, invert: bool) -> dict[Any, Any]:
    """All elements distinct."""
    shares = []
    for node, arrays in ((elements, 7), (tests, 3)):
        shares.append(sum(node.value[at].size for at in layout_at(node).mine(here.pid)))
        here.passes(shares[-1] * arrays, INT64)
    kind = elements.kind.dtype
    both = here.empty((sum(shares),), kind)
    few = min(sum(shares), ALL // here.nprocs // _words(kind))
    total = elements.kind.size + tests.kind.size
    abstract_cuts(here, both, total, here.nprocs, 1, few, [here.empty((few,), kind)], True)
    dest = (here.pid + 1) % here.nprocs
    out = [(dest, here.empty((share + share // 32 + here.nprocs,), kind)) for share in shares]
    arrived = here.exchange("distinct elements by value", out)
    here.passes(4 * sum(shares), INT64)
    members = np.dtype(bool)
    here.exchange("whether they are members", [(pid, here.empty(each.shape, members)) for pid, each in arrived[:1]])
    return {at: here.empty(block.shape, members) for at, block in elements.value.items()}


def _with_positions(x: Any, distinct_already: bool) -> tuple[Array, Array]:
    """Distinct elements, ascending, and their first positions in C order."""
    if distinct_already:
        line = ravel(x)
        order = argsort(line)
        return line[order], order
    values, positions = unique(x, return_index=True)
    return values, positions


@procedure
def union1d(ar1: Any, ar2: Any) -> Array:
    """The distinct elements of either, ascending."""
    return distinct(concat([ravel(ar1), ravel(ar2)]), True, False, False, False).values


@procedure
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The distinct elements of both, ascending; with `return_indices` also where each stands first in the two."""
    if return_indices:
        (first, i), (second, j) = (_with_positions(each, assume_unique) for each in (ar1, ar2))
        both = isin(first, second)._node
        found, at = (compress_node(build.strong(each._node), both) for each in (first, i))
        return found, at, j[searchsorted(second, found)]
    parts = [ravel(ar1) if assume_unique else unique(ar1), ravel(ar2) if assume_unique else unique(ar2)]
    if asarray(ar1).dtype.kind in "fcmM":
        parts[0] = parts[0][parts[0] == parts[0]]  # NaN is in nothing
    found = unique(concat(parts), return_counts=True, equal_nan=False)
    return compress_node(found[0]._node, (found[1] > 1)._node)


@procedure
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The distinct elements of either, but not of both, ascending."""
    parts = [ravel(each) if assume_unique else unique(each) for each in (ar1, ar2)]
    found = unique(concat(parts), return_counts=True, equal_nan=False)
    return compress_node(found[0]._node, (found[1] == 1)._node)


@procedure
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The distinct elements of the first that are not in the second."""
    first = ravel(ar1) if assume_unique else unique(ar1)
    return compress_node(build.strong(first._node), isin(first, ar2, invert=True)._node)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        unique_all, unique_counts, unique_inverse, unique_values, unique, isin, union1d, intersect1d, setdiff1d,
        setxor1d,
    )
}  # fmt: skip
