"""Elements go between the blocks of an array and the processes that have positions in it: to be read, or written.

A route says for each pair of a block and a block of positions which elements it means.  Both ends know it: if every
process has the positions, each computes its routes; if the positions are dealt, their processes ask the owners, one
superstep.  Elements then move along the routes in one superstep, to the positions (`looked_up`) or from there (`put`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
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
from bsp.arrays.selection.lookups import ALL, Lookup, Owners, Slice, codes_of, elements, front, grouped, meeting
from bsp.arrays.selection.positions import Dealt, alarm, alarms, checked, dealt_positions, laid_as, refused
from bsp.declared import Reported, declares

_REQUESTS, _ELEMENTS, _VALUES = "requests for elements at positions", "elements at positions", "values to positions"


class Ask(NamedTuple):
    """One end of a route: some positions of this process, all of which are in one block of another process."""

    pid: int  # the process with the block
    number: int  # which of this process's blocks of positions
    rows: np.ndarray | slice  # the places in that block, flat; `ALL` of them
    into: tuple[slice, ...]  # its part of the sliced axes


class Serve(NamedTuple):
    """The other end of a route: some elements of this process's blocks, for positions of another process."""

    pid: int  # the process with the positions
    at: Shape  # the block
    inside: Any  # positions in the block, a vector for each indexed axis
    local: tuple[slice, ...]  # the block's part of the sliced axes
    shape: Shape  # of the elements: the number of positions, then the lengths of the sliced axes


class Routes(NamedTuple):
    """The ends that this process has of the routes for some positions in arrays of one layout, by ascending pid.

    What it asks of a process is in the order in which that process serves it.
    """

    blocks: list[tuple[Shape, Shape]]  # blocks of elements at its positions: coordinates, shape
    asks: list[Ask]
    serves: list[Serve]


@lru_cache(maxsize=16)
def _holders(layout: Layout, places: tuple[int, ...], nprocs: int) -> Mapping[int, list[tuple[int, Shape, int]]]:
    """Return for each code of `Owners` the blocks that have it: process, coordinates, number among its blocks."""
    owners = Owners(layout, places)
    found: dict[int, list[tuple[int, Shape, int]]] = {}
    for pid in range(nprocs):
        for number, at in enumerate(layout.mine(pid)):
            found.setdefault(owners.code(at), []).append((pid, at, number))
    return dict(sorted(found.items()))


def _known_routes(
    here: World, source: Layout, what: Lookup, positions: Sequence[Any], target: Layout, own: bool = False
) -> Routes:
    """Return the routes for positions that every process has.  Local: each process computes its ends.

    target : the layout of the elements at the positions.  If it is replicated, every process takes all of them, or,
        if `own`, those that are in its own blocks.
    """
    owners, free = Owners(source, what.places), len(what.outer)
    codes = None if owners.single else codes_of(owners, positions)
    holders = _holders(source, what.places, here.nprocs)
    mine = [(code, at) for code, each in holders.items() for pid, at, _ in each if pid == here.pid]
    routes = Routes([], [], [])
    everyone = [here.pid] if own else range(here.nprocs)
    for at in np.ndindex(*target.grid):
        box = target.box(at)
        window = tuple(slice(*span) for span in box[:free])
        pids = everyone if target.replicated else [int(target.owner[at])]
        parts = None if codes is None else codes[window].reshape(-1)
        chosen = [each[window].reshape(-1) for each in positions]
        for code, block in mine:
            rows = ALL if parts is None else np.flatnonzero(parts == code)
            piece = meeting(source, block, what, box[free:])
            inside = owners.inside(block, [each[rows] for each in chosen])
            count = int(inside[0].size)
            if count and not piece.empty:
                routes.serves.extend(Serve(pid, block, inside, piece.local, (count, *piece.shape)) for pid in pids)
                if own:
                    routes.asks.append(Ask(here.pid, len(routes.blocks), rows, piece.into))
        if here.pid in pids:
            for code, rows in () if own else _groups(parts, chosen[0].size):
                for pid, block, _ in holders[code]:
                    piece = meeting(source, block, what, box[free:])
                    if not piece.empty:
                        routes.asks.append(Ask(pid, len(routes.blocks), rows, piece.into))
            routes.blocks.append((at, target.block_shape(at)))
    return _by_pid(routes)


def _groups(codes: Any, count: int) -> Iterable[tuple[int, Any]]:
    """Return `grouped(codes)` of so many positions; codes None: all are in the only part."""
    return grouped(codes) if codes is not None else [(0, ALL)] if count else []


def _by_pid(routes: Routes) -> Routes:
    return Routes(
        routes.blocks, sorted(routes.asks, key=lambda each: each.pid), sorted(routes.serves, key=lambda each: each.pid)
    )


def _asked_cost(
    costs: Reported, here: World, source: Layout, what: Lookup, asked: Dealt, values: Any = None
) -> tuple[Routes, list[Any]]:
    """Declare the cost of `_asked_routes`, assuming that all positions are in blocks of one process."""
    costs.at_most()
    out: list[tuple[int, Any]] = []
    routes = Routes([], [], [])
    for at, chosen in asked.blocks:
        shape = tuple(chosen[0].shape)
        routes.blocks.append(((*at, *[0] * len(what.rest)), (*shape, *what.rest)))
        out.append((costs.busiest, costs.memory((1 + prod(shape),), np.dtype(np.int64))))
        if values is not None:
            out.append((costs.busiest, values[(*at, *[0] * len(what.rest))]))
    arrived = costs.total_exchange(_REQUESTS if values is None else _VALUES, out)
    step = 1 if values is None else 2
    for pid, request in arrived[::step]:
        routes.serves.append(Serve(pid, (), request[1:], (), (request.shape[0] - 1, *what.rest)))
    return routes, [each for _, each in arrived[1::step]]


@declares(_asked_cost)
def _asked_routes(
    here: World, source: Layout, what: Lookup, asked: Dealt, values: Blocks | None = None
) -> tuple[Routes, list[Any]]:
    """Send dealt positions to the owners of the elements; return the routes.  Collective, one superstep.

    values : blocks of values for the positions, which go with them; those that arrive are returned, flat.
    Raises IndexError on every process if any has a position out of range.
    Cost: one word for each position, and its values.
    """
    owners, holders = Owners(source, what.places), _holders(source, what.places, here.nprocs)
    whole, rest = tuple((0, length) for length in what.rest), (0,) * len(what.rest)
    routes = Routes([], [], [])
    out: list[tuple[int, Any]] = alarm(here, asked.bad) if asked.bad is not None else []
    for number, (at, chosen) in enumerate(asked.blocks if asked.bad is None else ()):
        routes.blocks.append(((*at, *rest), (*chosen[0].shape, *what.rest)))
        flat = [each.reshape(-1) for each in chosen]
        for code, rows in grouped(owners.codes(flat)):
            for pid, block, index in holders[code]:
                piece = meeting(source, block, what, whole)
                if piece.empty:
                    continue
                ask = Ask(pid, number, rows, piece.into)
                routes.asks.append(ask)
                inside: Any = owners.inside(block, [each[rows] for each in flat])
                out.append((pid, np.concatenate([[index], np.ravel_multi_index(inside, _dims(source, what, block))])))
                if values is not None:
                    out.append((pid, _chosen(values[(*at, *rest)], what, ask).reshape(-1)))
    arrived = here.exchange(_REQUESTS if values is None else _VALUES, out)
    refused(alarms(arrived), what, [source.shape[axis] for axis in what.places])
    step = 1 if values is None else 2
    for pid, request in arrived[::step]:
        block = source.mine(here.pid)[int(request[0])]
        piece = meeting(source, block, what, whole)
        inside = np.unravel_index(request[1:], _dims(source, what, block))
        routes.serves.append(Serve(pid, block, inside, piece.local, (request.size - 1, *piece.shape)))
    return _by_pid(routes), [each for _, each in arrived[1::step]]


def _dims(layout: Layout, what: Lookup, at: Shape) -> list[int]:
    """Return the lengths of a block along the indexed axes."""
    shape = layout.block_shape(at)
    return [shape[place] for place in what.places]


def _rows(block: Any, free: int) -> Any:
    """Return a block with its first `free` axes joined to one; a view if the block is contiguous."""
    return block.reshape(prod(block.shape[:free]), *block.shape[free:])


def _chosen(block: Any, what: Lookup, ask: Ask) -> Any:
    """Return from a block of values for positions those that go along a route."""
    return _rows(block, len(what.outer))[(ask.rows, *ask.into)]


# ------------------------------------------------------------------------------ reading


def looked_up(node: Node, what: Lookup, positions: Sequence[Any]) -> Array:
    """Return the elements of an array at positions.  Collective.

    positions : one array of the shape `what.outer` for each indexed axis, in range, that every process has; or dealt
        nodes that broadcast to this shape.
    Cost: nothing for a replicated array, or axes that are not dealt, and positions that all have; else for these one
    superstep, in which each element moves at most once (small results go to all).
    For dealt positions two: one word out for each, its elements back.  The positions remember the routes: when they
    are looked up again in an array of the same layout, the elements alone move, in one superstep.  An array with
    fewer elements than these words, of 16 MB at most, is brought to every process instead; for it and for a
    replicated array one superstep checks that all positions are in range, none the second time.
    """
    (node,) = computed(node)
    return _at_dealt(node, what, positions) if isinstance(positions[0], Node) else _at_known(node, what, positions)


def _at_known(node: Node, what: Lookup, positions: Sequence[np.ndarray]) -> Array:
    """See `looked_up`: positions that every process has."""
    here = world()
    source, free = layout_at(node), len(what.outer)
    if not source.replicated:
        target, stays = _target(source, what, here.nprocs)
        return _collected(here, node, what, target, _known_routes(here, source, what, positions, target), stays)
    target = automatic(what.outer + what.rest, here.nprocs)
    (block,) = node.value.values()
    blocks: Blocks = {}
    for at in target.mine(here.pid):
        box = target.box(at)
        window = tuple(slice(*span) for span in box[:free])
        local = tuple(each.part(*span) for (_, each), span in zip(what.slices, box[free:], strict=True))
        blocks[at] = _whole(block, what, [each[window] for each in positions], local)
    return made_of(target.shape, node.kind.dtype, target, blocks)


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
    return np.asarray(elements(block, what, positions, local))


def _at_dealt(node: Node, what: Lookup, positions: Sequence[Node]) -> Array:
    """See `looked_up`: dealt positions; the result is dealt as they are."""
    here = world()
    nodes = computed(*positions)
    source, lengths = layout_at(node), tuple(node.kind.shape[axis] for axis in what.places)
    layout = laid_as(nodes, what)
    target = layout_of(layout.axes + tuple(Axis(length) for length in what.rest))
    routes: Routes | None = recalled(nodes, ("routes", what, source))
    if routes is None:
        asked = dealt_positions(nodes, what, lengths)
        words = layout.held(here.nprocs).max(initial=0) * (1 + prod(what.rest))
        small = node.kind.size * node.kind.dtype.itemsize <= SILENT_BYTES  # a larger one would be a silent gather
        if source.replicated or (node.kind.size <= words and small):
            (node,) = computed(node if source.replicated else build.everywhere(node))
            if recalled(nodes, ("in range", lengths)) is None:
                told = here.private.allgather(asked.bad)
                refused([each for each in told if each is not None], what, lengths)
                remember(nodes, ("in range", lengths), True)
            (block,) = node.value.values()
            local = tuple(each.part(0, each.size) for _, each in what.slices)
            blocks = {(*at, *[0] * len(what.rest)): _whole(block, what, chosen, local) for at, chosen in asked.blocks}
            return made_of(target.shape, node.kind.dtype, target, blocks)
        routes, _ = _asked_routes(here, source, what, asked)
        remember(nodes, ("routes", what, source), routes)
    return _collected(here, node, what, target, routes)


def _collected_cost(
    costs: Reported, here: World, node: Node, what: Lookup, target: Layout, routes: Routes, stays: bool = False
) -> Array:
    """Declare the cost of `_collected`."""
    dtype = node.kind.dtype
    results = {at: costs.memory(shape, dtype) for at, shape in routes.blocks}
    served = [(each.pid, costs.memory(each.shape, dtype)) for each in routes.serves]
    costs.work(nbytes=2 * sum(each.nbytes for _, each in served))
    if not stays:
        costs.total_exchange(_ELEMENTS, served)
    costs.work(nbytes=2 * sum(each.nbytes for each in results.values()))
    return made_of(target.shape, dtype, target, results)


@declares(_collected_cost)
def _collected(here: World, node: Node, what: Lookup, target: Layout, routes: Routes, stays: bool = False) -> Array:
    """Return the elements at the ends of the routes, in the layout `target`.  Collective, one superstep.

    stays : whether no element leaves its process; then there is no superstep.
    """
    dtype, free = node.kind.dtype, len(what.outer)
    arrived = [(each.pid, elements(node.value[each.at], what, each.inside, each.local)) for each in routes.serves]
    if not stays:
        arrived = here.exchange(_ELEMENTS, arrived)
    results: list[Any] = [None] * len(routes.blocks)
    for ask, (_, values) in zip(routes.asks, arrived, strict=True):
        shape = routes.blocks[ask.number][1]
        if values.size == prod(shape) and (stays or values.flags.c_contiguous):
            results[ask.number] = values.reshape(shape)  # what arrives is the block; other orders do not arrive as such
            continue
        if results[ask.number] is None:
            results[ask.number] = here.empty(shape, dtype)
        _rows(results[ask.number], free)[(ask.rows, *ask.into)] = values
    blocks = {
        at: here.empty(shape, dtype) if found is None else found
        for found, (at, shape) in zip(results, routes.blocks, strict=True)
    }
    return made_of(target.shape, dtype, target, blocks)


# ------------------------------------------------------------------------------ writing


Store = Callable[[Any, Any, Any], None]  # (a view of a block, an index into it, values): writes into the view


def assign(view: Any, index: Any, values: Any) -> None:
    """Assign values at an index of a view; of repeated positions the last value stays."""
    view[index] = values


class Writes(NamedTuple):
    """Values that have come to the ends of routes, to be written into this process's blocks."""

    what: Lookup
    routes: Routes
    arrived: Sequence[Any]  # values, by the routes' ends
    how: Store


def routed(node: Node, what: Lookup, positions: Sequence[Any], value: Node, how: Store = assign) -> Writes:
    """Bring `value`, of the shape outer + rest or of one element, to the blocks of a node at positions.  Collective.

    `write` then writes it.  Of repeated positions the last in C order counts.
    positions : see `looked_up`.
    how : what to do at the positions instead of assigning, in their C order (ufunc.at).
    Cost: nothing if every process has positions and value; else what brings them into C order, and one superstep.
    """
    here = world()
    node, value = computed(node, value)
    if layout_at(node).replicated:  # every process writes all
        positions = _everywhere(node, what, positions)
    if not layout_at(value).replicated and (layout_at(node).replicated or value.kind.size == 1):
        (value,) = computed(build.everywhere(value))
    if isinstance(positions[0], Node) or not layout_at(value).replicated:
        what, positions, value = _in_lines(what, positions, value)
    if isinstance(positions[0], Node):
        routes, arrived = _values_to_dealt(here, node, what, positions, value)
    else:
        routes, arrived = _values_to_known(here, node, what, positions, value)
    if value.kind.size == 1:
        arrived = [next(iter(value.value.values())).reshape(())] * len(routes.serves)
    return Writes(what, routes, arrived, how)


def _write_cost(costs: Reported, here: World, node: Node, writes: Writes) -> None:
    """Declare the cost of `write`, assuming that all blocks are written to."""
    costs.work(nbytes=2 * sum(each.nbytes for each in writes.arrived))
    for at in node.value:
        here.own(node.value, at)


@declares(_write_cost)
def write(here: World, node: Node, writes: Writes) -> None:
    """Write values where the routes end, into the blocks of a renewed leaf (`writing.renewed`).  Local."""
    for each, values in zip(writes.routes.serves, writes.arrived, strict=True):
        block = here.own(node.value, each.at)
        shaped = values.reshape(each.shape) if values.ndim else values
        writes.how(front(block, writes.what), (*each.inside, *each.local), shaped)


def _everywhere(node: Node, what: Lookup, positions: Sequence[Any]) -> list[Any]:
    """Return positions as arrays that every process has, in range.  Collective."""
    if not isinstance(positions[0], Node):
        return list(positions)
    nodes = computed(*[build.everywhere(build.broadcast(each, what.outer)) for each in positions])
    return checked(
        [next(iter(each.value.values())) for each in nodes], what, [node.kind.shape[axis] for axis in what.places]
    )


def _in_lines(what: Lookup, positions: Sequence[Any], value: Node) -> tuple[Lookup, Sequence[Any], Node]:
    """Return a lookup with its positions in C order as vectors; positions and values are dealt in ranges."""
    here, size = world(), prod(what.outer)
    line = automatic((size,), here.nprocs, False)
    laid = layout_of(line.axes + tuple(Axis(length) for length in what.rest))
    if isinstance(positions[0], Node):
        vectors = [build.reshaped(build.broadcast(each, what.outer), (size,)) for each in positions]
        positions = computed(*[build.relaid(each, line) for each in vectors])
    else:
        positions = [each.reshape(-1) for each in positions]
    if value.kind.size != 1:
        spread = build.reshaped(build.broadcast(value, what.outer + what.rest), laid.shape)
        (value,) = computed(build.relaid(spread, laid))
    return Lookup(what.places, what.slices, (size,)), positions, value


def _values_to_dealt(
    here: World, node: Node, what: Lookup, positions: Sequence[Node], value: Node
) -> tuple[Routes, list[Any]]:
    """Send positions and values, dealt alike, to the blocks; one value stays.  Collective, one superstep."""
    asked = dealt_positions(positions, what, [node.kind.shape[axis] for axis in what.places])
    return _asked_routes(here, layout_at(node), what, asked, None if value.kind.size == 1 else value.value)


def _values_to_known(
    here: World, node: Node, what: Lookup, positions: Sequence[Any], value: Node
) -> tuple[Routes, list[Any]]:
    """Send values to the blocks; no superstep if every process has them.  Collective."""
    source, shape = layout_at(node), what.outer + what.rest
    if value.kind.size == 1:
        return _known_routes(here, source, what, positions, replicated(shape), own=True), []
    everywhere = layout_at(value).replicated
    routes = _known_routes(here, source, what, positions, layout_at(value), own=everywhere)
    out = [(each.pid, _chosen(value.value[routes.blocks[each.number][0]], what, each)) for each in routes.asks]
    return routes, [each for _, each in (out if everywhere else here.exchange(_VALUES, out))]
