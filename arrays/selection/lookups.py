"""Elements at integer positions: who has them, who wants them, and the one or two supersteps between.

Some axes of an array are indexed by arrays of positions, which broadcast to one shape; the others by slices.  The
result has the shape of the positions first, the sliced axes after.  Positions that every process knows need no
request: owners compute who wants what, one superstep.  Positions that are dealt cost two: requests and replies.
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
from bsp.arrays.procedures.operands import computed, layout_at, made_of
from bsp.arrays.procedures.remembered import recalled, remember
from bsp.values.payload import is_abstract


class Slice(NamedTuple):
    """An axis that is sliced: position start + step·k for k < size; step is positive."""

    start: int
    step: int
    size: int

    def part(self, low: int, high: int) -> slice:
        """What k = low, ..., high - 1 are on the axis."""
        if high <= low:
            return slice(0, 0)
        return slice(self.start + self.step * low, self.start + self.step * (high - 1) + 1, self.step)


class Lookup(NamedTuple):
    """What is looked up in an array."""

    places: tuple[int, ...]  # axes that positions index
    slices: tuple[tuple[int, Slice], ...]  # the other axes, ascending
    outer: Shape  # of the positions

    @property
    def rest(self) -> Shape:
        """Lengths of the sliced axes."""
        return tuple(each.size for _, each in self.slices)


class BadPosition(NamedTuple):
    """A position that is out of range."""

    place: int  # the axis among those indexed
    at: int  # in C order of the positions
    value: int


def out_of_bounds(value: int, axis: int, length: int) -> IndexError:
    """NumPy's words."""
    return IndexError(f"index {value} is out of bounds for axis {axis} with size {length}")


def bad_positions(positions: Sequence[np.ndarray], lengths: Sequence[int]) -> Iterator[BadPosition]:
    """The first out of range for each axis, where there is one."""
    for place, (each, length) in enumerate(zip(positions, lengths, strict=True)):
        if each.size and (int(each.min()) < -length or int(each.max()) >= length):
            flat = each.reshape(-1)
            at = int(np.flatnonzero((flat < -length) | (flat >= length))[0])
            yield BadPosition(place, at, int(flat[at]))


def wrapped(positions: np.ndarray, length: int) -> np.ndarray:
    """Negative positions from the end; as int64."""
    found = positions.astype(np.int64, copy=False)
    return np.where(found < 0, found + length, found) if found.size and found.min() < 0 else found


class Owners:
    """Which block of a layout has a position, and where in the block."""

    def __init__(self, layout: Layout, places: Sequence[int]) -> None:
        self.layout = layout
        self.places = places
        self.axes = [layout.axes[axis] for axis in places]
        self.grid = tuple(axis.parts for axis in self.axes)

    def codes(self, positions: Sequence[np.ndarray]) -> np.ndarray:
        """For each position the C-order number of its part along the indexed axes."""
        found: Any = 0
        for axis, each in zip(self.axes, positions, strict=True):
            part = np.searchsorted(axis.bounds, each, side="right") - 1 if axis.parts > 1 else np.zeros_like(each)
            found = found * axis.parts + part
        return np.asarray(found)

    def code(self, at: Shape) -> int:
        """Of a block."""
        found = 0
        for axis, place in zip(self.axes, self.places, strict=True):
            found = found * axis.parts + at[place]
        return found

    def inside(self, at: Shape, positions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Positions counted from the start of a block."""
        return [
            each - int(axis.bounds[at[place]])
            for axis, place, each in zip(self.axes, self.places, positions, strict=True)
        ]


def _sliced(axis: Axis, part: int, each: Slice) -> tuple[int, int]:
    """Which k of a slice lie in a part."""
    low, high = int(axis.bounds[part]), int(axis.bounds[part + 1])
    first = -((each.start - low) // each.step)
    last = -((each.start - high) // each.step)
    return min(max(first, 0), each.size), min(max(last, 0), each.size)


def _local(axis: Axis, part: int, each: Slice, low: int, high: int) -> slice:
    """The k from low to high of a slice, in a block."""
    first = each.start + each.step * low - int(axis.bounds[part])
    return slice(first, first + each.step * (high - low - 1) + 1, each.step) if high > low else slice(0, 0)


class Piece(NamedTuple):
    """What of a source block meets a box of the sliced axes: local slices, and the box's own."""

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
    """A block with the indexed axes first; a view."""
    order = (*what.places, *[axis for axis, _ in what.slices])
    return block if order == tuple(range(len(order))) else block.transpose(order)


def _taken(block: Any, what: Lookup, inside: Sequence[np.ndarray], local: tuple[slice, ...]) -> Any:
    """The elements of a block."""
    view = _front(block, what)
    if isinstance(view, np.ndarray) and len(inside) == 1 and inside[0].ndim == 1:
        return view[(slice(None), *local)].take(inside[0], axis=0)
    return view[(*inside, *local)]


# ------------------------------------------------------------------------ known positions


def _outer_axes(shape: Shape, deal: int, stride: int) -> tuple[Axis, ...]:
    """Axes cut into C-order ranges, dealt to `deal` processes `stride` apart."""
    return tuple(
        Axis(axis.length, axis.parts, axis.deal, axis.stride * stride, axis.cuts)
        for axis in contiguous(shape, deal).axes
    )


def _target(source: Layout, what: Lookup, nprocs: int) -> tuple[Layout, bool]:
    """Where the result goes, and whether everything is there already."""
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
    """One block of the result: whose it is, which positions, which box of the sliced axes."""

    at: Shape
    pids: tuple[int, ...]
    chosen: tuple[np.ndarray, ...]  # positions, of the shape of the block's outer axes, flat
    codes: np.ndarray
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
    """The elements at positions that every process knows.

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
    wanted = _wanted(target, what, positions, owners.codes(positions), here.nprocs)
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
    arrived = iter(here.exchange("elements at positions", out))
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
    """The first axes as one; a view of what is contiguous."""
    return block.reshape(prod(block.shape[:free]), *block.shape[free:])


def _block_shape(layout: Layout, at: Shape) -> Shape:
    return layout.block_shape(at)


def _whole(block: Any, what: Lookup, positions: Sequence[Any], local: tuple[slice, ...]) -> Any:
    if isinstance(block, np.ndarray) and any(is_abstract(each) for each in positions):  # NumPy would need their values
        block = world().empty(block.shape, block.dtype)
    found = _front(block, what)[(*positions, *local)]
    return np.asarray(found) if not getattr(found, "shape", ()) and isinstance(found, np.generic) else found


# ------------------------------------------------------------------------ dealt positions


class Dealt(NamedTuple):
    """Positions in blocks."""

    layout: Layout
    blocks: list[tuple[Shape, list[Any]]]  # this process's: the positions for each indexed axis
    bad: BadPosition | None


def dealt_positions(nodes: Sequence[Node], what: Lookup, lengths: Sequence[int]) -> Dealt:
    """Arrays of positions, broadcast to one shape and laid alike; checked here, told to nobody yet."""
    here = world()
    nodes = computed(*nodes)
    layout = _laid_as(nodes, what)
    laid = computed(*[
        node if layout_at(node) is layout else build.relaid(build.broadcast(node, what.outer), layout) for node in nodes
    ])  # fmt: skip
    bad, blocks = None, []
    for at in layout.mine(here.pid):
        chosen = [node.value[at] for node in laid]
        if not here.abstract:
            for place, each in enumerate(chosen):
                length = lengths[place]
                if each.size and (int(each.min()) < -length or int(each.max()) >= length):
                    local = np.argwhere((each < -length) | (each >= length))[0]
                    start = [low for low, _ in layout.box(at)]
                    where = int(np.ravel_multi_index(tuple(local + start), what.outer))
                    found = BadPosition(place, where, int(each[tuple(local)]))
                    bad = found if bad is None else min(bad, found)
            if bad is None:
                chosen = [wrapped(each, length) for each, length in zip(chosen, lengths, strict=True)]
        blocks.append((at, chosen))
    return Dealt(layout, blocks, bad)


def refused(told: Sequence[BadPosition], what: Lookup, lengths: Sequence[int]) -> None:
    """Raise for the first bad position any process has found; all raise alike."""
    if told:
        first = min(told)
        raise out_of_bounds(first.value, what.places[first.place], lengths[first.place])


def _alarm(here: World, bad: BadPosition) -> list[tuple[int, Any]]:
    """A bad position to everybody; two axes tell it from requests, which have one."""
    return [(dest, np.array([bad], np.int64)) for dest in range(here.nprocs)]


def _alarms(arrived: Sequence[tuple[int, Any]]) -> list[BadPosition]:
    return [BadPosition(*(int(each) for each in array[0])) for _, array in arrived if array.ndim == 2]


class Routes(NamedTuple):
    """Which elements go where, for positions that are dealt: it follows from them and from the layout of the source."""

    blocks: list[tuple[Shape, Shape]]  # this process's blocks of positions: coordinates, shape
    due: list[list[tuple[int, np.ndarray, Shape]]]  # by source: the block of positions, its rows, the source's block
    requests: list[tuple[int, Shape, Any]]  # (process that asks, own block, positions inside it)


def at_dealt(node: Node, what: Lookup, nodes: Sequence[Node]) -> Array:
    """The elements at positions that are dealt in blocks; the result lies with them.

    Cost: two supersteps: one word out for each position, its elements back.  The routes are kept with the positions:
    where these are looked up again in an array of the same layout, one superstep, elements only.  An array with fewer
    elements than that, of 16 MB at most, goes to every process instead, as a replicated one is there already: one
    superstep to agree that all are in range, none the second time.
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
        small = node.kind.size * dtype.itemsize <= SILENT_BYTES  # to hold more on every process is a gather
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
    """Return the layout of the blocks of positions: that of the first array of them that has their shape."""
    dealt = [node for node in nodes if not layout_at(node).replicated and node.kind.shape == what.outer]
    layout = layout_at(dealt[0]) if dealt else automatic(what.outer, world().nprocs, False)
    return automatic(what.outer, world().nprocs, False) if layout.table is not None else layout


def _routes(here: World, source: Layout, what: Lookup, asked: Dealt, lengths: Sequence[int]) -> Routes:
    """Ask the owners for the elements at positions.  One superstep, one word for each position."""
    owners = Owners(source, what.places)
    whole = tuple((0, length) for length in what.rest)
    blocks = [(at, tuple(chosen[0].shape)) for at, chosen in asked.blocks]
    due: list[list[tuple[int, np.ndarray, Shape]]] = [[] for _ in range(here.nprocs)]
    out: list[tuple[int, Any]] = []
    if here.abstract:  # at most: every element asked for is on one process
        here.at_most()
        out = [(here.busiest, here.empty((1 + prod(own),), np.dtype(np.int64))) for _, own in blocks]
        arrived = here.exchange(_REQUESTS, out)
        return Routes(blocks, due, [(pid, (), request[1:]) for pid, request in arrived])
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


_REQUESTS = "requests for elements at positions"


def _along(here: World, node: Node, what: Lookup, routes: Routes) -> Blocks:
    """Send the elements that were asked for; return the blocks of the result.  One superstep."""
    source, dtype, text = layout_at(node), node.kind.dtype, "elements at positions"
    whole, rest = tuple((0, length) for length in what.rest), (0,) * len(what.rest)
    results = [(at, here.empty((*shape, *what.rest), dtype)) for at, shape in routes.blocks]
    found = {(*at, *rest): result for at, result in results}
    if here.abstract:
        here.at_most()
        size = prod(what.rest)
        here.exchange(text, [(pid, here.empty((each.shape[0] * size,), dtype)) for pid, _, each in routes.requests])
        return found
    replies = [
        (pid, _taken(node.value[at], what, inside, _meeting(source, at, what, whole).local))
        for pid, at, inside in routes.requests
    ]
    due = iter(here.exchange(text, replies))
    for pid in range(here.nprocs):
        for number, rows, at in routes.due[pid]:
            _, values = next(due)
            _rows(results[number][1], len(what.outer))[(rows, *_meeting(source, at, what, whole).into)] = values
    return found


def _grouped(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each code with the rows that have it, ascending."""
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


Store = Callable[[Any, Any, Any], None]  # (a view of a block, an index into it, values): changes the view


def assign(view: Any, index: Any, values: Any) -> None:
    """Values take the places that an index names; of repeated ones the last."""
    view[index] = values


def put_known(node: Node, what: Lookup, positions: Sequence[np.ndarray], value: Node, how: Store = assign) -> Node:
    """`node` with `value`, of shape outer + rest, at positions that every process knows; of repeated ones the last.

    how : what happens at the positions instead, in their C order (ufunc.at).
    Cost: nothing if every process has the value; else what brings it into C order, and one superstep.
    """
    here = world()
    node, value = computed(node, value)
    layout, shape = layout_at(node), what.outer + what.rest
    owners = Owners(layout, what.places)
    codes = owners.codes(positions).reshape(-1)
    flat = [each.reshape(-1) for each in positions]
    whole = tuple((0, length) for length in what.rest)
    new = dict(node.value)
    copied: set[Shape] = set()

    def store(at: Shape, rows: np.ndarray, piece: Piece, values: Any) -> None:
        if at not in copied:
            new[at] = new[at].copy()
            copied.add(at)
        how(_front(new[at], what), (*owners.inside(at, [each[rows] for each in flat]), *piece.local), values)

    if layout_at(value).replicated:
        (block,) = value.value.values()
        own: Any = _rows(block, len(what.outer)) if block.shape == shape else np.broadcast_to(block, shape)
        for at in layout.mine(here.pid):
            rows = np.flatnonzero(codes == owners.code(at))
            piece = _meeting(layout, at, what, whole)
            if rows.size and not piece.empty and not here.abstract:
                if block.shape == shape:
                    values = own[(rows, *piece.into)]
                else:
                    values = own[(*np.unravel_index(rows, what.outer), *piece.into)] if what.outer else own[piece.into]
                store(at, rows, piece, values)
        return made_of(node.kind.shape, node.kind.dtype, layout, new)._node
    if layout.replicated:
        (value,) = computed(build.everywhere(value))
        return put_known(node, what, positions, value, how)
    laid = layout_of(_outer_axes(what.outer, here.nprocs, 1) + tuple(Axis(length) for length in what.rest))
    (value,) = computed(build.relaid(build.broadcast(value, shape), laid))
    spans = np.concatenate([[0], np.cumsum(laid.sizes.reshape(-1) // max(prod(what.rest), 1))])
    if not prod(what.rest):
        return node

    def share(pid: int, at: Shape) -> np.ndarray:
        """Which positions that a process has values for lie in a block."""
        if pid >= len(spans) - 1:
            return np.zeros(0, np.int64)
        low, high = int(spans[pid]), int(spans[pid + 1])
        return low + np.flatnonzero(codes[low:high] == owners.code(at))

    out = []
    for dest in range(here.nprocs):
        for at in layout.mine(dest):
            rows = share(here.pid, at)
            piece = _meeting(layout, at, what, whole)
            if rows.size and not piece.empty:
                (own,) = value.value.values()
                out.append((dest, _rows(own, len(what.outer))[(rows - spans[here.pid], *piece.into)]))
    arrived = iter(here.exchange("values to positions", out))
    for pid in range(here.nprocs):
        for at in layout.mine(here.pid):
            rows = share(pid, at)
            piece = _meeting(layout, at, what, whole)
            if rows.size and not piece.empty:
                _, values = next(arrived)
                store(at, rows, piece, values)
    return made_of(node.kind.shape, node.kind.dtype, layout, new)._node


def put_dealt(node: Node, what: Lookup, nodes: Sequence[Node], value: Node, how: Store = assign) -> Node:
    """`node` with `value` at positions that are dealt; of repeated ones the last in C order.  `how`: see `put_known`.

    Cost: what brings positions and values into C order, and one superstep of both.
    """
    here = world()
    node, value = computed(node, value)
    layout, rest = layout_at(node), what.rest
    size = prod(what.outer)
    lengths = [node.kind.shape[axis] for axis in what.places]
    if layout.replicated:
        nodes = computed(*[build.everywhere(build.broadcast(each, what.outer)) for each in nodes])
        whole_positions = [next(iter(each.value.values())) for each in nodes]
        if not here.abstract:
            refused(list(bad_positions(whole_positions, lengths)), what, lengths)
            whole_positions = [wrapped(each, length) for each, length in zip(whole_positions, lengths, strict=True)]
            return put_known(node, what, whole_positions, value, how)
        computed(build.everywhere(value))
        return node
    line = automatic((size,), here.nprocs, False)
    flat = computed(*[build.relaid(build.reshaped(build.broadcast(each, what.outer), (size,)), line) for each in nodes])
    values: Any = None
    if value.kind.size != 1:
        laid = layout_of(line.axes + tuple(Axis(length) for length in rest))
        spread = build.broadcast(value, what.outer + rest)
        (value,) = computed(build.relaid(build.reshaped(spread, (size, *rest)), laid))
        values = next(iter(value.value.values()), None)
    else:
        (value,) = computed(build.everywhere(value))
        (one,) = value.value.values()
    own = Lookup(what.places, what.slices, (size,))
    asked = dealt_positions(flat, own, lengths)
    owners = Owners(layout, what.places)
    whole = tuple((0, length) for length in rest)
    out: list[tuple[int, Any]] = []
    if here.abstract:
        for _, chosen in asked.blocks:
            here.at_most()
            out.append((here.busiest, here.empty((1 + prod(chosen[0].shape),), np.dtype(np.int64))))
            out += [] if values is None else [(here.busiest, values)]
    elif asked.bad is not None:
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
    if here.abstract:
        return node
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
