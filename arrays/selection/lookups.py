"""Lookup and assignment of elements at integer positions, in one or two supersteps.

Some axes of an array are indexed by arrays of positions, which broadcast to one shape; the others by slices.  The
result has the shape of the positions first, the sliced axes after.  Positions that every process has need no
requests: owners compute which process wants which elements, one superstep.  Positions that are dealt cost two:
requests and replies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Blocks, Node
from bsp.arrays.expressions.layout import REPLICATED_SIZE, Axis, Layout, Shape, automatic, layout_of, replicated
from bsp.arrays.gathering import SILENT_BYTES
from bsp.arrays.planning.reshaping import contiguous
from bsp.arrays.procedures.operands import computed, declared_of, layout_at, made_of
from bsp.arrays.procedures.remembered import recalled, remember
from bsp.declared import Reported, declares
from bsp.values.payload import is_abstract


class Slice(NamedTuple):
    """A slice of an axis: the positions start + step·k for 0 <= k < size; step is positive."""

    start: int
    step: int
    size: int

    def part(self, low: int, high: int) -> slice:
        """Return the slice of the axis for k = low, ..., high - 1."""
        if high <= low:
            return slice(0, 0)
        return slice(self.start + self.step * low, self.start + self.step * (high - 1) + 1, self.step)


class Lookup(NamedTuple):
    """A lookup in an array: which axes are indexed by positions, of which shape, and the slices of the others."""

    places: tuple[int, ...]  # axes that positions index
    slices: tuple[tuple[int, Slice], ...]  # the other axes, ascending
    outer: Shape  # the common shape of the positions

    @property
    def rest(self) -> Shape:
        """The lengths of the sliced axes."""
        return tuple(each.size for _, each in self.slices)


class BadPosition(NamedTuple):
    """A position that is out of range."""

    place: int  # the number of the axis among the indexed axes
    at: int  # where it is among the positions, in C order
    value: int


def out_of_bounds(value: int, axis: int, length: int) -> IndexError:
    """Return an IndexError with NumPy's message."""
    return IndexError(f"index {value} is out of bounds for axis {axis} with size {length}")


def bad_positions(positions: Sequence[np.ndarray], lengths: Sequence[int]) -> Iterator[BadPosition]:
    """Yield the first position out of range for each axis that has one."""
    for place, (each, length) in enumerate(zip(positions, lengths, strict=True)):
        if each.size and (int(each.min()) < -length or int(each.max()) >= length):
            flat = each.reshape(-1)
            at = int(np.flatnonzero((flat < -length) | (flat >= length))[0])
            yield BadPosition(place, at, int(flat[at]))


def wrapped(positions: np.ndarray, length: int) -> np.ndarray:
    """Return positions as int64, with negative ones counted from the end."""
    found = positions.astype(np.int64, copy=False)
    return np.where(found < 0, found + length, found) if found.size and found.min() < 0 else found


def _unchecked(costs: Reported, positions: Sequence[Any], what: Lookup, lengths: Sequence[int]) -> list[Any]:
    """Declare the cost of `checked`, assuming that positions without values are in range."""
    if any(is_abstract(each) for each in positions):
        return [np.broadcast_to(each, what.outer) for each in positions]
    return _in_range(positions, what, lengths)


def _in_range(positions: Sequence[Any], what: Lookup, lengths: Sequence[int]) -> list[Any]:
    """Return what `checked` returns; needs values."""
    refused(list(bad_positions(positions, lengths))[:1], what, lengths)
    return [np.broadcast_to(wrapped(each, length), what.outer) for each, length in zip(positions, lengths, strict=True)]


@declares(_unchecked)
def checked(positions: Sequence[Any], what: Lookup, lengths: Sequence[int]) -> list[Any]:
    """Return replicated positions in the shape `what.outer` without negative ones; raise IndexError out of range."""
    return _in_range(positions, what, lengths)


class Owners:
    """The map from positions along the indexed axes to blocks of a layout, and to places in a block."""

    def __init__(self, layout: Layout, places: Sequence[int]) -> None:
        self.layout = layout
        self.places = places
        self.axes = [layout.axes[axis] for axis in places]
        self.grid = tuple(axis.parts for axis in self.axes)

    def codes(self, positions: Sequence[np.ndarray]) -> np.ndarray:
        """Return for each position the number, in C order, of its part along the indexed axes."""
        found: Any = 0
        for axis, each in zip(self.axes, positions, strict=True):
            part = np.searchsorted(axis.bounds, each, side="right") - 1 if axis.parts > 1 else np.zeros_like(each)
            found = found * axis.parts + part
        return np.asarray(found)

    def code(self, at: Shape) -> int:
        """Return the number of a block's part along the indexed axes, as `codes` counts them."""
        found = 0
        for axis, place in zip(self.axes, self.places, strict=True):
            found = found * axis.parts + at[place]
        return found

    def inside(self, at: Shape, positions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return positions relative to the start of a block."""
        return [
            each - int(axis.bounds[at[place]])
            for axis, place, each in zip(self.axes, self.places, positions, strict=True)
        ]


def _codes_at_most(costs: Reported, owners: Owners, positions: Sequence[Any]) -> np.ndarray:
    """Declare the cost of `codes_of`, assuming that positions without values are all in one block."""
    if not any(is_abstract(each) for each in positions):
        return owners.codes(positions)
    costs.at_most()
    return np.zeros(positions[0].shape, np.int64)


@declares(_codes_at_most)
def codes_of(owners: Owners, positions: Sequence[Any]) -> np.ndarray:
    """Return `owners.codes` of replicated positions."""
    return owners.codes(positions)


def _sliced(axis: Axis, part: int, each: Slice) -> tuple[int, int]:
    """Return the range of k for which the slice's positions start + step·k are in a part of the axis."""
    low, high = int(axis.bounds[part]), int(axis.bounds[part + 1])
    first = -((each.start - low) // each.step)
    last = -((each.start - high) // each.step)
    return min(max(first, 0), each.size), min(max(last, 0), each.size)


def _local(axis: Axis, part: int, each: Slice, low: int, high: int) -> slice:
    """Return the positions for k = low, ..., high - 1 of a slice as a slice of a part of the axis."""
    first = each.start + each.step * low - int(axis.bounds[part])
    return slice(first, first + each.step * (high - low - 1) + 1, each.step) if high > low else slice(0, 0)


class Piece(NamedTuple):
    """The intersection of a source block and a box of the sliced axes, as slices of the block and of the box."""

    local: tuple[slice, ...]
    into: tuple[slice, ...]
    empty: bool


def _meeting(layout: Layout, at: Shape, what: Lookup, box: Sequence[tuple[int, int]]) -> Piece:
    local, into, empty = [], [], False
    for (axis, each), (start, stop) in zip(what.slices, box, strict=True):
        low, high = _sliced(layout.axes[axis], at[axis], each)
        low, high = max(low, start), min(high, stop)
        empty = empty or high <= low
        local.append(_local(layout.axes[axis], at[axis], each, low, high))
        into.append(slice(low - start, high - start))
    return Piece(tuple(local), tuple(into), empty)


def _front(block: Any, what: Lookup) -> Any:
    """Return a view of a block with the indexed axes first."""
    order = (*what.places, *[axis for axis, _ in what.slices])
    return block if order == tuple(range(len(order))) else block.transpose(order)


def _taken(block: Any, what: Lookup, inside: Sequence[np.ndarray], local: tuple[slice, ...]) -> Any:
    """Return the elements of a block at positions inside it, and local slices of the other axes."""
    view = _front(block, what)
    if isinstance(view, np.ndarray) and len(inside) == 1 and inside[0].ndim == 1:
        return view[(slice(None), *local)].take(inside[0], axis=0)
    return view[(*inside, *local)]


# ------------------------------------------------------------------------ known positions


def _outer_axes(shape: Shape, deal: int, stride: int) -> tuple[Axis, ...]:
    """Return axes that are cut into ranges of C order and dealt to `deal` processes, `stride` apart."""
    return tuple(
        Axis(axis.length, axis.parts, axis.deal, axis.stride * stride, axis.cuts)
        for axis in contiguous(shape, deal).axes
    )


def _target(source: Layout, what: Lookup, nprocs: int) -> tuple[Layout, bool]:
    """Return the layout of the result, and whether all its elements are in place already."""
    shape = what.outer + what.rest
    dealt = sorted({source.axes[axis] for axis in what.places if source.axes[axis].deal > 1}, key=lambda a: -a.stride)
    rest = [source.axes[axis] for axis, _ in what.slices]
    kept = source.table is None and all(
        axis.deal == 1 or each == Slice(0, 1, axis.length) for axis, (_, each) in zip(rest, what.slices, strict=True)
    )
    rest = [axis if axis.deal > 1 else Axis(each.size) for axis, (_, each) in zip(rest, what.slices, strict=True)]
    if kept and not dealt and any(axis.deal > 1 for axis in rest):
        return layout_of(tuple(Axis(length) for length in what.outer) + tuple(rest)), True
    if prod(shape) <= REPLICATED_SIZE:
        return replicated(shape), False
    nested = all(a.stride == b.stride * b.deal for a, b in itertools.pairwise(dealt))
    if kept and dealt and nested and len(dealt) == sum(source.axes[axis].deal > 1 for axis in what.places):
        deal = prod(axis.deal for axis in dealt)
        if deal * prod(axis.deal for axis in rest) * 2 > nprocs and prod(what.outer) >= deal:
            return layout_of(_outer_axes(what.outer, deal, dealt[-1].stride) + tuple(rest)), False
    if prod(what.outer) >= nprocs or not what.rest:
        return layout_of(_outer_axes(what.outer, nprocs, 1) + tuple(Axis(length) for length in what.rest)), False
    return automatic(shape, nprocs, False), False


class _Wanted(NamedTuple):
    """One block of the result: the processes that have it, its positions, and its box of the sliced axes."""

    at: Shape  # block coordinates
    pids: tuple[int, ...]
    chosen: tuple[np.ndarray, ...]  # positions, of the shape of the block's outer axes, flat
    codes: np.ndarray  # the part of the source that each position is in
    box: tuple[tuple[int, int], ...]


def _wanted(
    target: Layout, what: Lookup, positions: Sequence[np.ndarray], codes: np.ndarray, nprocs: int
) -> list[_Wanted]:
    free = len(what.outer)
    found = []
    for at in np.ndindex(*target.grid):
        box = target.box(at)
        window = tuple(slice(*span) for span in box[:free])
        pids = tuple(range(nprocs)) if target.replicated else (int(target.owner[at]),)
        found.append(
            _Wanted(
                at, pids, tuple(each[window].reshape(-1) for each in positions), codes[window].reshape(-1), box[free:]
            )
        )
    return found


def at_known(node: Node, what: Lookup, positions: Sequence[np.ndarray]) -> Array:
    """Return the elements at positions that every process has.  Collective.

    positions : one array of the shape `what.outer` for each indexed axis, in range.
    Cost: nothing for a replicated array or axes that are not dealt; else one superstep, each element moves at most
    once (small results go to all).
    """
    here = world()
    (node,) = computed(node)
    source, dtype = layout_at(node), node.kind.dtype
    shape = what.outer + what.rest
    free = len(what.outer)
    if source.replicated:
        target = automatic(shape, here.nprocs)
        (block,) = node.value.values()
        blocks: Blocks = {}
        for at in target.mine(here.pid):
            box = target.box(at)
            window = tuple(slice(*span) for span in box[:free])
            local = tuple(each.part(*span) for (_, each), span in zip(what.slices, box[free:], strict=True))
            blocks[at] = _whole(block, what, [each[window] for each in positions], local)
        return made_of(shape, dtype, target, blocks)
    target, stays = _target(source, what, here.nprocs)
    owners = Owners(source, what.places)
    wanted = _wanted(target, what, positions, codes_of(owners, positions), here.nprocs)
    mine = [each for each in wanted if here.pid in each.pids]
    results = {each.at: here.empty(_block_shape(target, each.at), dtype) for each in mine}
    flat = {at: _rows(result, free) for at, result in results.items()}
    out = []
    for at in source.mine(here.pid):
        for each in wanted:
            piece = _meeting(source, at, what, each.box)
            rows = np.flatnonzero(each.codes == owners.code(at))
            if piece.empty or not rows.size:
                continue
            values = _taken(
                node.value[at], what, owners.inside(at, [chosen[rows] for chosen in each.chosen]), piece.local
            )
            for pid in each.pids:
                if pid != here.pid:
                    out.append((pid, values))
                else:
                    flat[each.at][(rows, *piece.into)] = values
    if stays:
        assert not out
        return made_of(shape, dtype, target, results)
    arrived = iter(here.exchange(_ELEMENTS, out))
    for pid in range(here.nprocs):
        for at in source.mine(pid) if pid != here.pid else ():
            for each in mine:
                piece = _meeting(source, at, what, each.box)
                rows = np.flatnonzero(each.codes == owners.code(at))
                if not piece.empty and rows.size:
                    _, values = next(arrived)
                    flat[each.at][(rows, *piece.into)] = values
    return made_of(shape, dtype, target, results)


def _rows(block: Any, free: int) -> Any:
    """Return a block with its first `free` axes joined to one; a view if the block is contiguous."""
    return block.reshape(prod(block.shape[:free]), *block.shape[free:])


def _block_shape(layout: Layout, at: Shape) -> Shape:
    return layout.block_shape(at)


def _whole_cost(costs: Reported, block: Any, what: Lookup, positions: Sequence[Any], local: tuple[slice, ...]) -> Any:
    """Declare the cost of `_whole`: a copy."""
    outer = np.broadcast_shapes(*[each.shape for each in positions])
    rest = [len(range(*each.indices(block.shape[axis]))) for (axis, _), each in zip(what.slices, local, strict=True)]
    found = costs.memory((*outer, *rest), block.dtype)
    costs.work(nbytes=2 * found.nbytes)
    return found


@declares(_whole_cost)
def _whole(block: Any, what: Lookup, positions: Sequence[Any], local: tuple[slice, ...]) -> Any:
    """Return the elements at positions of a block that is the whole array."""
    return np.asarray(_front(block, what)[(*positions, *local)])


# ------------------------------------------------------------------------ dealt positions


class Dealt(NamedTuple):
    """Dealt positions: this process's blocks of them, and the first one out of range."""

    layout: Layout
    blocks: list[tuple[Shape, list[Any]]]  # this process's: the positions for each indexed axis
    bad: BadPosition | None


def dealt_positions(nodes: Sequence[Node], what: Lookup, lengths: Sequence[int]) -> Dealt:
    """Broadcast arrays of positions to one shape, lay them alike, and check this process's blocks.

    Collective.  The caller must exchange the bad positions: other processes may have found some.
    """
    here = world()
    nodes = computed(*nodes)
    layout = _laid_as(nodes, what)
    laid = computed(*[
        node if layout_at(node) is layout else build.relaid(build.broadcast(node, what.outer), layout) for node in nodes
    ])  # fmt: skip
    bad: BadPosition | None = None
    blocks = []
    for at in layout.mine(here.pid):
        chosen, wrong = _checked_block([node.value[at] for node in laid], layout.box(at), what, lengths)
        bad = wrong if bad is None else bad if wrong is None else min(bad, wrong)
        blocks.append((at, chosen))
    return Dealt(layout, blocks, bad)


@declares(lambda costs, chosen, box, what, lengths: (chosen, None))
def _checked_block(
    chosen: list[Any], box: Sequence[tuple[int, int]], what: Lookup, lengths: Sequence[int]
) -> tuple[list[Any], BadPosition | None]:
    """Return a block's positions without negative ones and None; or unchanged, and the first out of range."""
    bad: BadPosition | None = None
    for place, (each, length) in enumerate(zip(chosen, lengths, strict=True)):
        if each.size and (int(each.min()) < -length or int(each.max()) >= length):
            local = np.argwhere((each < -length) | (each >= length))[0]
            where = int(np.ravel_multi_index(tuple(local + [low for low, _ in box]), what.outer))
            found = BadPosition(place, where, int(each[tuple(local)]))
            bad = found if bad is None else min(bad, found)
    if bad is not None:
        return chosen, bad
    return [wrapped(each, length) for each, length in zip(chosen, lengths, strict=True)], None


def refused(told: Sequence[BadPosition], what: Lookup, lengths: Sequence[int]) -> None:
    """Raise IndexError for the first bad position that any process has found; every process raises the same."""
    if told:
        first = min(told)
        raise out_of_bounds(first.value, what.places[first.place], lengths[first.place])


def _alarm(here: World, bad: BadPosition) -> list[tuple[int, Any]]:
    """Return messages of a bad position to all; they have two axes, while requests have one."""
    return [(dest, np.array([bad], np.int64)) for dest in range(here.nprocs)]


def _alarms(arrived: Sequence[tuple[int, Any]]) -> list[BadPosition]:
    return [BadPosition(*(int(each) for each in array[0])) for _, array in arrived if array.ndim == 2]


class Routes(NamedTuple):
    """Which elements go where, for dealt positions: a function of the positions and of the layout of the source."""

    blocks: list[tuple[Shape, Shape]]  # this process's blocks of positions: coordinates, shape
    due: list[list[tuple[int, np.ndarray, Shape]]]  # by source: the block of positions, its rows, the source's block
    requests: list[tuple[int, Shape, Any]]  # (process that asks, own block, positions inside it)


def at_dealt(node: Node, what: Lookup, nodes: Sequence[Node]) -> Array:
    """Return the elements at dealt positions, in the layout of the positions.  Collective.

    Cost: two supersteps: one word out for each position, its elements back.  The positions remember the routes: when
    they are looked up again in an array of the same layout, one superstep is enough, for the elements only.  An array
    with fewer elements than these words, of 16 MB at most, is brought to every process instead; for it and for a
    replicated array one superstep checks that all positions are in range, none the second time.
    """
    here = world()
    (node,) = computed(node)
    nodes = computed(*nodes)
    source, dtype = layout_at(node), node.kind.dtype
    lengths = tuple(node.kind.shape[axis] for axis in what.places)
    routes: Routes | None = recalled(nodes, ("routes", what, source))
    layout = _laid_as(nodes, what)
    target = layout_of(layout.axes + tuple(Axis(length) for length in what.rest))
    shape = what.outer + what.rest
    if routes is None:
        asked = dealt_positions(nodes, what, lengths)
        words = layout.held(here.nprocs).max(initial=0) * (1 + prod(what.rest))
        small = node.kind.size * dtype.itemsize <= SILENT_BYTES  # larger ones on every process are a silent gather
        if source.replicated or (node.kind.size <= words and small):
            (node,) = computed(node if source.replicated else build.everywhere(node))
            if recalled(nodes, ("in range", lengths)) is None:
                told = here.private.allgather(asked.bad)
                refused([each for each in told if each is not None], what, lengths)
                remember(nodes, ("in range", lengths), True)
            (block,) = node.value.values()
            local = tuple(each.part(0, each.size) for _, each in what.slices)
            blocks = {(*at, *[0] * len(what.rest)): _whole(block, what, chosen, local) for at, chosen in asked.blocks}
            return made_of(shape, dtype, target, blocks)
        routes = _routes(here, source, what, asked, lengths)
        remember(nodes, ("routes", what, source), routes)
    return made_of(shape, dtype, target, _along(here, node, what, routes))


def _laid_as(nodes: Sequence[Node], what: Lookup) -> Layout:
    """Return the layout for positions: that of the first dealt array of them with the full shape, else automatic."""
    dealt = [node for node in nodes if not layout_at(node).replicated and node.kind.shape == what.outer]
    layout = layout_at(dealt[0]) if dealt else automatic(what.outer, world().nprocs, False)
    return automatic(what.outer, world().nprocs, False) if layout.table is not None else layout


def _routes_cost(
    costs: Reported, here: World, source: Layout, what: Lookup, asked: Dealt, lengths: Sequence[int]
) -> Routes:
    """Declare the cost of `_routes`, assuming that all requested elements are on one process."""
    costs.at_most()
    blocks = [(at, tuple(chosen[0].shape)) for at, chosen in asked.blocks]
    out = [(costs.busiest, costs.memory((1 + prod(own),), np.dtype(np.int64))) for _, own in blocks]
    arrived = costs.total_exchange(_REQUESTS, out)
    return Routes(blocks, [[] for _ in range(here.nprocs)], [(pid, (), request[1:]) for pid, request in arrived])


@declares(_routes_cost)
def _routes(here: World, source: Layout, what: Lookup, asked: Dealt, lengths: Sequence[int]) -> Routes:
    """Send requests to the owners of the elements at positions.  One superstep, one word for each position."""
    owners = Owners(source, what.places)
    whole = tuple((0, length) for length in what.rest)
    blocks = [(at, tuple(chosen[0].shape)) for at, chosen in asked.blocks]
    due: list[list[tuple[int, np.ndarray, Shape]]] = [[] for _ in range(here.nprocs)]
    out: list[tuple[int, Any]] = []
    if asked.bad is not None:
        out = _alarm(here, asked.bad)
    else:
        by_code: dict[int, list[tuple[int, Shape]]] = {}
        for pid in range(here.nprocs):
            for at in source.mine(pid):
                by_code.setdefault(owners.code(at), []).append((pid, at))
        for number, (_, chosen) in enumerate(asked.blocks):
            flat = [each.reshape(-1) for each in chosen]
            for code, rows in _grouped(owners.codes(flat)):
                for pid, at in by_code[code]:
                    if _meeting(source, at, what, whole).empty:
                        continue
                    inside: Any = owners.inside(at, [each[rows] for each in flat])
                    dims = [source.block_shape(at)[place] for place in what.places]
                    due[pid].append((number, rows, at))
                    here_first = source.mine(pid).index(at)
                    out.append((pid, np.concatenate([[here_first], np.ravel_multi_index(inside, dims)])))
    arrived = here.exchange(_REQUESTS, out)
    refused(_alarms(arrived), what, lengths)
    requests = []
    for pid, request in arrived:
        at = source.mine(here.pid)[int(request[0])]
        dims = [source.block_shape(at)[place] for place in what.places]
        requests.append((pid, at, np.unravel_index(request[1:], dims)))
    return Routes(blocks, due, requests)


_REQUESTS, _ELEMENTS = "requests for elements at positions", "elements at positions"


def _along_cost(costs: Reported, here: World, node: Node, what: Lookup, routes: Routes) -> Blocks:
    """Declare the cost of `_along`."""
    costs.at_most()
    dtype, rest = node.kind.dtype, (0,) * len(what.rest)
    found = {(*at, *rest): costs.memory((*shape, *what.rest), dtype) for at, shape in routes.blocks}
    size = prod(what.rest)
    replies = [(pid, costs.memory((each.shape[0] * size,), dtype)) for pid, _, each in routes.requests]
    costs.total_exchange(_ELEMENTS, replies)
    return found


@declares(_along_cost)
def _along(here: World, node: Node, what: Lookup, routes: Routes) -> Blocks:
    """Send the requested elements along the routes; return the blocks of the result.  One superstep."""
    source, dtype = layout_at(node), node.kind.dtype
    whole, rest = tuple((0, length) for length in what.rest), (0,) * len(what.rest)
    results = [(at, here.empty((*shape, *what.rest), dtype)) for at, shape in routes.blocks]
    found = {(*at, *rest): result for at, result in results}
    replies = [
        (pid, _taken(node.value[at], what, inside, _meeting(source, at, what, whole).local))
        for pid, at, inside in routes.requests
    ]
    due = iter(here.exchange(_ELEMENTS, replies))
    for pid in range(here.nprocs):
        for number, rows, at in routes.due[pid]:
            _, values = next(due)
            _rows(results[number][1], len(what.outer))[(rows, *_meeting(source, at, what, whole).into)] = values
    return found


def _grouped(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each code that occurs, ascending, with the rows that have it, ascending."""
    if not codes.size:
        return
    low, high = int(codes.min()), int(codes.max())
    if low == high:
        yield low, np.arange(codes.size)
        return
    narrow = codes.astype(np.uint16) if high < 1 << 16 else codes
    order = np.argsort(narrow, kind="stable")
    cuts = np.searchsorted(narrow[order], np.arange(low, high + 2))
    for code in range(low, high + 1):
        start, stop = int(cuts[code - low]), int(cuts[code - low + 1])
        if stop > start:
            yield code, order[start:stop]


# ----------------------------------------------------------------------------- assignment


Store = Callable[[Any, Any, Any], None]  # (a view of a block, an index into it, values): writes into the view


def assign(view: Any, index: Any, values: Any) -> None:
    """Assign values at an index of a view; of repeated positions the last value stays."""
    view[index] = values


class _Putting:
    """An assignment to the blocks of an array at replicated positions; blocks are copied before the first write."""

    def __init__(self, node: Node, what: Lookup, positions: Sequence[Any], how: Store) -> None:
        self.layout = layout_at(node)
        self.what, self.how = what, how
        self.owners = Owners(self.layout, what.places)
        self.codes = codes_of(self.owners, positions).reshape(-1)
        self.flat = [each.reshape(-1) for each in positions]
        self.rest = tuple((0, length) for length in what.rest)
        self.new = dict(node.value)
        self._copied: set[Shape] = set()

    def meeting(self, at: Shape) -> Piece:
        """Return the part of a block that the slices select."""
        return _meeting(self.layout, at, self.what, self.rest)

    def store(self, at: Shape, rows: np.ndarray, values: Any) -> None:
        """Store values at some of the positions, all of which are in block `at`.  rows : their numbers."""
        if at not in self._copied:
            self.new[at] = self.new[at].copy()
            self._copied.add(at)
        index = (*self.owners.inside(at, [each[rows] for each in self.flat]), *self.meeting(at).local)
        stored_by(self.how, _front(self.new[at], self.what), index, values)


@declares(lambda costs, how, view, index, values: costs.work(nbytes=2 * values.nbytes))
def stored_by(how: Store, view: Any, index: Any, values: Any) -> None:
    """Call `how` to store values at an index of a view."""
    how(view, index, values)


def _put_here_cost(
    costs: Reported, here: World, node: Node, what: Lookup, positions: Sequence[Any], value: Node, how: Store
) -> Node:
    """Declare the cost of `_put_here`: copies of the blocks."""
    return declared_of(costs, node.kind.shape, node.kind.dtype, layout_at(node))._node


@declares(_put_here_cost)
def _put_here(here: World, node: Node, what: Lookup, positions: Sequence[Any], value: Node, how: Store) -> Node:
    """Return `node` with a replicated value at replicated positions.  No superstep."""
    putting, shape = _Putting(node, what, positions, how), what.outer + what.rest
    (block,) = value.value.values()
    own: Any = _rows(block, len(what.outer)) if block.shape == shape else np.broadcast_to(block, shape)
    for at in putting.layout.mine(here.pid):
        rows = np.flatnonzero(putting.codes == putting.owners.code(at))
        piece = putting.meeting(at)
        if rows.size and not piece.empty:
            if block.shape == shape:
                values = own[(rows, *piece.into)]
            else:
                values = own[(*np.unravel_index(rows, what.outer), *piece.into)] if what.outer else own[piece.into]
            putting.store(at, rows, values)
    return made_of(node.kind.shape, node.kind.dtype, putting.layout, putting.new)._node


def put_known(node: Node, what: Lookup, positions: Sequence[Any], value: Node, how: Store = assign) -> Node:
    """Return `node` with `value`, of shape outer + rest, at replicated positions; of repeated ones the last counts.

    Collective.
    how : what to do at the positions instead of assigning, in their C order (ufunc.at).
    Cost: nothing if every process has the value; else what brings it into C order, and one superstep.
    """
    here = world()
    node, value = computed(node, value)
    layout, shape = layout_at(node), what.outer + what.rest
    if layout_at(value).replicated:
        return _put_here(here, node, what, positions, value, how)
    if layout.replicated:
        (value,) = computed(build.everywhere(value))
        return put_known(node, what, positions, value, how)
    laid = layout_of(_outer_axes(what.outer, here.nprocs, 1) + tuple(Axis(length) for length in what.rest))
    (value,) = computed(build.relaid(build.broadcast(value, shape), laid))
    spans = np.concatenate([[0], np.cumsum(laid.sizes.reshape(-1) // max(prod(what.rest), 1))])
    if not prod(what.rest):
        return node
    putting = _Putting(node, what, positions, how)

    def share(pid: int, at: Shape) -> np.ndarray:
        """Return the positions in block `at` that process `pid` has values for."""
        if pid >= len(spans) - 1:
            return np.zeros(0, np.int64)
        low, high = int(spans[pid]), int(spans[pid + 1])
        return low + np.flatnonzero(putting.codes[low:high] == putting.owners.code(at))

    out = []
    for dest in range(here.nprocs):
        for at in layout.mine(dest):
            rows, piece = share(here.pid, at), putting.meeting(at)
            if rows.size and not piece.empty:
                (own,) = value.value.values()
                out.append((dest, _rows(own, len(what.outer))[(rows - spans[here.pid], *piece.into)]))
    arrived = iter(here.exchange("values to positions", out))
    for pid in range(here.nprocs):
        for at in layout.mine(here.pid):
            rows = share(pid, at)
            if rows.size and not putting.meeting(at).empty:
                _, values = next(arrived)
                putting.store(at, rows, values)
    return made_of(node.kind.shape, node.kind.dtype, layout, putting.new)._node


def put_dealt(node: Node, what: Lookup, nodes: Sequence[Node], value: Node, how: Store = assign) -> Node:
    """Return `node` with `value` at dealt positions; of repeated ones the last in C order counts.  Collective.

    how : see `put_known`.
    Cost: what brings positions and values into C order, and one superstep that sends both.
    """
    here = world()
    node, value = computed(node, value)
    layout, rest = layout_at(node), what.rest
    size = prod(what.outer)
    lengths = [node.kind.shape[axis] for axis in what.places]
    if layout.replicated:
        nodes = computed(*[build.everywhere(build.broadcast(each, what.outer)) for each in nodes])
        positions = [next(iter(each.value.values())) for each in nodes]
        return put_known(node, what, checked(positions, what, lengths), value, how)
    line = automatic((size,), here.nprocs, False)
    flat = computed(*[build.relaid(build.reshaped(build.broadcast(each, what.outer), (size,)), line) for each in nodes])
    if value.kind.size != 1:
        laid = layout_of(line.axes + tuple(Axis(length) for length in rest))
        spread = build.broadcast(value, what.outer + rest)
        (value,) = computed(build.relaid(build.reshaped(spread, (size, *rest)), laid))
    else:
        (value,) = computed(build.everywhere(value))
    return _put_routed(here, node, Lookup(what.places, what.slices, (size,)), flat, value, how)


def _put_routed_cost(
    costs: Reported, here: World, node: Node, what: Lookup, positions: Sequence[Node], value: Node, how: Store
) -> Node:
    """Declare the cost of `_put_routed`, assuming that all elements go to one process."""
    costs.at_most()
    asked = dealt_positions(positions, what, [node.kind.shape[axis] for axis in what.places])
    out: list[tuple[int, Any]] = []
    for _, chosen in asked.blocks:
        out.append((costs.busiest, costs.memory((1 + prod(chosen[0].shape),), np.dtype(np.int64))))
        out += [(costs.busiest, block) for block in value.value.values() if value.kind.size != 1]
    costs.total_exchange("values to positions", out)
    return declared_of(costs, node.kind.shape, node.kind.dtype, layout_at(node))._node


@declares(_put_routed_cost)
def _put_routed(here: World, node: Node, what: Lookup, positions: Sequence[Node], value: Node, how: Store) -> Node:
    """Return `node` with values at a vector of positions, both in one layout; a single value is replicated.

    Collective: one superstep.
    """
    layout, rest = layout_at(node), what.rest
    lengths = [node.kind.shape[axis] for axis in what.places]
    values: Any = next(iter(value.value.values()), None)
    one: Any = None
    if value.kind.size == 1:
        one, values = values, None
    asked = dealt_positions(positions, what, lengths)
    owners = Owners(layout, what.places)
    whole = tuple((0, length) for length in rest)
    out: list[tuple[int, Any]] = []
    if asked.bad is not None:
        out = _alarm(here, asked.bad)
    else:
        places: dict[int, list[tuple[int, Shape]]] = {}
        for pid in range(here.nprocs):
            for at in layout.mine(pid):
                places.setdefault(owners.code(at), []).append((pid, at))
        for _, chosen in asked.blocks:
            for code, rows in _grouped(owners.codes(chosen)):
                for pid, at in places[code]:
                    piece = _meeting(layout, at, what, whole)
                    if piece.empty:
                        continue
                    dims = [layout.block_shape(at)[place] for place in what.places]
                    packed = np.ravel_multi_index(owners.inside(at, [each[rows] for each in chosen]), dims)
                    out.append((pid, np.concatenate([[layout.mine(pid).index(at)], packed])))
                    if values is not None:
                        out.append((pid, np.ascontiguousarray(values[(rows, *piece.into)]).reshape(-1)))
    arrived = here.exchange("values to positions", out)
    refused(_alarms(arrived), what, lengths)
    new = dict(node.value)
    copied: set[Shape] = set()
    each = iter(arrived)
    for _, request in each:
        at = layout.mine(here.pid)[int(request[0])]
        if at not in copied:
            new[at] = new[at].copy()
            copied.add(at)
        piece = _meeting(layout, at, what, whole)
        dims = [layout.block_shape(at)[place] for place in what.places]
        inside = np.unravel_index(request[1:], dims)
        lengths_here = [into.stop - into.start for into in piece.into]
        new_values = one.reshape(()) if values is None else next(each)[1].reshape(len(request) - 1, *lengths_here)
        how(_front(new[at], what), (*inside, *piece.local), new_values)
    return made_of(node.kind.shape, node.kind.dtype, layout, new)._node
