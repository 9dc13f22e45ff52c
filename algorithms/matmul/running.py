"""Run a schedule: exchange blocks, multiply bricks, add up partial sums.

What a process does with one matrix between two products is a generator: it yields what it sends at the end of a
superstep, is given what has arrived, and returns a brick, or its part of a sum.  The generators of a round run side by
side: the next pieces are gathered in the supersteps in which the last sums are added up.

Every process multiplies contiguous blocks only, whether they came from afar or from its own element, so that BLAS
takes the same way through them and the bits of a product do not depend on the number of elements.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bsp.abstract import table
from bsp.algorithms.matmul.blocks import added, contiguous, own
from bsp.algorithms.matmul.counts import Counted, Exchange
from bsp.algorithms.matmul.schedules import SHIFTED, SPREAD, GridPlace, Schedule
from bsp.algorithms.matmul.strassen import product
from bsp.algorithms.matmul.summa import broadcast
from bsp.arrays.procedures import Blocks, DType, Layout, Shape, World
from bsp.cost.model import WORD
from bsp.declared import Reported

Region = tuple[slice, slice]
Sends = list[tuple[int, Any]]
Landings = dict[int, list[Any]]  # by source: memory to receive in
Moves = Generator[tuple[Sends, Landings], dict[int, Any], Any]


def run(here: World, cost: Counted, a: Blocks, b: Blocks, c: Layout, dtype: DType, leaf: str) -> Blocks:
    """Return this process's block of C from its blocks of A and B, in the layouts of the schedule.  Collective."""
    place = cost.schedule.place(here.pid)
    if here.sampled:
        _as_counted(here, cost, dtype)
        return {} if place is None else {at: here.empty(c.block_shape(at), dtype) for at in c.mine(here.pid)}
    if place is None:
        idle(here, cost.exchanges)
        return {}
    own_a, own_b = (own(block) for blocks in (a, b) for block in blocks.values())
    (at,) = c.mine(here.pid)
    if cost.schedule.processes == cost.schedule.rounds == 1:
        return {at: product(here, own_a, own_b, leaf)}
    if cost.schedule.way in (SHIFTED, SPREAD):
        return {at: _in_rounds(here, cost, place, own_a, own_b, c.block_shape(at), dtype, leaf)}
    total = broadcast(here, cost, place, own_a, own_b, leaf)
    return {at: here.empty(c.block_shape(at), dtype) if total is None else total}


def _as_counted(here: World, cost: Counted, dtype: DType) -> None:
    """Declare a product where a few processes stand for all: the words of the busiest, work in equal parts."""
    declared, kernel = Reported(here.proc), table.product_kernel(2, 2, dtype)
    s, steps = cost.schedule, cost.steps
    blocks = (s.m * s.k + s.k * s.n + s.m * s.n) / s.processes * dtype.itemsize / WORD
    work = {kernel: cost.flops * table.complexity(dtype) / (len(steps) + 1)}
    with declared.holding(max(0, cost.memory - blocks)):
        for step in steps:
            declared.work(**work)
            declared.exchange(step.what, {}, step.h, step.messages)
        declared.work(**work)


def idle(here: World, exchanges: Sequence[Exchange]) -> None:
    """Take part in the supersteps of a product as a process that has no work."""
    for step in exchanges:
        if step.h:
            here.exchange(step.what, [])


def together(here: World, exchanges: Iterator[Exchange], moves: dict[str, Moves]) -> dict[str, Any]:
    """Run several moves side by side; return their results by name, after as many supersteps as the longest takes."""
    found: dict[str, Any] = {}
    waiting: dict[str, tuple[Sends, Landings]] = {}

    def advance(arrived: dict[int, Any] | None) -> None:
        for name in list(moves):
            try:
                waiting[name] = next(moves[name]) if arrived is None else moves[name].send(arrived)
            except StopIteration as ended:
                found[name] = ended.value
                del moves[name]

    advance(None)
    while moves:
        step = next(exchanges)
        out = [each for sends, _ in waiting.values() for each in sends]
        into = {pid: memory for _, landings in waiting.values() for pid, memory in landings.items()}
        waiting.clear()
        arrived = dict(here.exchange(step.what, out, into)) if step.h else {}
        out.clear()
        into.clear()
        advance(arrived)
    return found


def _in_rounds(
    here: World, cost: Counted, place: GridPlace, a: Any, b: Any, shape: Shape, dtype: DType, leaf: str
) -> Any:
    """Return this process's block of C: in each round gather pieces of A and B, and add their product or send it."""
    s, adding = cost.schedule, cost.schedule.adding
    exchanges, blocks = iter(cost.exchanges), {"A": a, "B": b}
    bricks: dict[str, Any] = {}
    totals: list[Any] = []  # the brick of C, in the pieces that it is added up in; along n and m one at a time
    out: Any = None
    rows = [slice(t, None, adding.rounds) for t in range(s.sums)]
    for t in range(s.rounds):
        moves = {name: gathered(here, s, name, place, t, blocks[name]) for name in "AB" if not t or s.varies(name)}
        if t and s.along != "k":
            moves["C"] = summed(here, s, place, t - 1, totals.pop())
        bricks |= together(here, exchanges, moves)
        if "C" in bricks:
            out = here.empty(shape, dtype) if out is None else out
            out[_held(s, "C", place, t - 1)] = bricks.pop("C")
        if s.along != "k":
            totals.append(product(here, bricks["A"], bricks["B"], leaf))
        elif not t:
            totals = [product(here, bricks["A"][each], bricks["B"], leaf) for each in rows]
        else:
            for total, each in zip(totals, rows, strict=True):
                _add_product(here, total, bricks["A"][each], bricks["B"], leaf, s.strips(leaf))
        bricks = {} if t == s.rounds - 1 else {name: bricks[name] for name in bricks if not s.varies(name)}
    parts = {}  # of what the pieces add up to, this process's
    for t in range(s.sums) if s.along == "k" else [s.rounds - 1]:
        moves = {"C": summed(here, adding, place, t, totals.pop(0))}
        parts[t] = together(here, exchanges, moves)["C"]
    if out is None and len(parts) == 1:
        return parts.popitem()[1]
    out = here.empty(shape, dtype) if out is None else out
    for t in list(parts):
        out[_held(adding, "C", place, t)] = parts.pop(t)
    return out


def _add_product(here: World, total: Any, a: Any, b: Any, leaf: str, strips: int) -> None:
    """Add a @ b, so many rows at a time that no second block like `total` is made."""
    height = max(1, -(-a.shape[0] // strips))
    for first in range(0, a.shape[0], height):
        rows = slice(first, min(first + height, a.shape[0]))
        added(total[rows], product(here, a[rows], b, leaf))


# --------------------------------------------------------------------------- what travels


def edges(piece: range, bounds: Sequence[int]) -> list[int]:
    """Return how many elements of a piece come before each of some positions."""
    return [min(max(-((piece.start - at) // piece.step), 0), len(piece)) for at in bounds]


def _held(s: Schedule, matrix: str, place: GridPlace, t: int, wanted: tuple[range, range] | None = None) -> Region:
    """Return the region of a process's block that is wanted in round t, by default by itself."""
    dealing = s.dealing(matrix)
    brick, member = s.brick(matrix, place)
    found = []
    for axis, piece in enumerate(wanted or s.wanted(matrix, place, t)):
        at = divmod(member, dealing.split[1])[axis]
        start, stop = dealing.parts(axis, brick[axis])[at : at + 2]
        first, last = edges(piece, (start, stop))
        low = piece.start + first * piece.step - start
        found.append(slice(low, low + (last - first - 1) * piece.step + 1, piece.step) if first < last else slice(0, 0))
    return found[0], found[1]


def gathered(here: World, s: Schedule, matrix: str, place: GridPlace, t: int, block: Any) -> Moves:
    """Gather the piece of this process's brick of A or B of round t from all processes that share the brick."""
    dealing, wanted, places = s.dealing(matrix), s.wanted(matrix, place, t), s.sharing(matrix, place)
    brick, me = s.brick(matrix, place)
    mine = block[_held(s, matrix, place, t, wanted)]
    if dealing.members == 1:
        return contiguous(mine)
    pids, shape = [s.pid(*each) for each in places], (len(wanted[0]), len(wanted[1]))
    rows, columns = (_slices(edges(wanted[axis], dealing.parts(axis, brick[axis]))) for axis in (0, 1))
    x, y = divmod(me, len(columns))
    if s.in_phases(matrix):
        beside, across = pids[x * len(columns) : (x + 1) * len(columns)], pids[y :: len(columns)]
        parts = {pid: (slice(0, mine.shape[0]), columns[at]) for at, pid in enumerate(beside)}
        mine = yield from _joined(here, parts, pids[me], mine, _to_all(beside, mine), (mine.shape[0], shape[1]))
        parts = {pid: (rows[at], slice(0, shape[1])) for at, pid in enumerate(across)}
        return (yield from _joined(here, parts, pids[me], mine, _to_all(across, mine), shape))
    if s.way == SHIFTED and s.rounds > 1:
        sends = _asked(block, [_held(s, matrix, place, t, s.wanted(matrix, each, t)) for each in places], pids)
    else:
        sends = _to_all(pids, mine)
    parts = {pid: (rows[at // len(columns)], columns[at % len(columns)]) for at, pid in enumerate(pids)}
    return (yield from _joined(here, parts, pids[me], mine, sends, shape, kept=False))


def _slices(ends: list[int]) -> list[slice]:
    return [slice(first, last) for first, last in pairwise(ends)]


def _to_all(pids: list[int], mine: Any) -> Sends:
    """Return one block to be sent to all `pids`; the sender takes out its own item later."""
    if not mine.size:
        return []
    copy = contiguous(mine)
    return [(pid, copy) for pid in pids]


def _asked(block: Any, regions: list[Region], pids: list[int]) -> Sends:
    """Return the pieces of a block that other processes want, to be sent."""
    found: Sends = []
    copies: dict[Any, Any] = {}
    for pid, region in zip(pids, regions, strict=True):
        part = block[region]
        if part.size:
            key = region[0].start, region[0].stop, region[1].start, region[1].stop
            found.append((pid, copies.setdefault(key, contiguous(part))))
    return found


def _joined(
    here: World, parts: dict[int, Region], me: int, mine: Any, sends: Sends, shape: Shape, kept: bool = True
) -> Moves:
    """Put parts of a block, one from each process, beside each other; a single part is returned as it is.

    kept : the block outlives the next superstep, so it may not be memory of the process that it came from.
    """
    some = {pid: at for pid, at in parts.items() if at[0].start < at[0].stop and at[1].start < at[1].stop}
    whole, into = None, {}
    if len(some) > 1 and here.alone and all(at[1] == slice(0, shape[1]) for at in some.values()):
        whole = here.empty(shape, mine.dtype)  # rows are received where they belong
        into = {pid: [whole[at[0]].reshape(-1)] for pid, at in some.items() if pid != me}
    others = [each for each in sends if each[0] != me]
    sends.clear()
    arrived = yield others, into
    others.clear()
    into.clear()
    found = {pid: mine if pid == me else arrived.pop(pid) for pid in some}
    if len(found) == 1 and (me in found or not kept):
        (only,) = found.values()
        return contiguous(only)
    if whole is None:
        whole = here.empty(shape, mine.dtype)
    for pid, at in some.items():
        if not np.may_share_memory(found[pid], whole):
            whole[at] = found[pid]
    return whole


def summed(here: World, s: Schedule, place: GridPlace, t: int, total: Any) -> Moves:
    """Add up this process's part of a piece of its brick of C over all layers, the lowest first."""
    dealing, wanted = s.dealing("C"), s.wanted("C", place, t)
    if dealing.members == 1:
        return total
    brick, me = s.brick("C", place)
    pids = [s.pid(*each) for each in s.sharing("C", place)]
    rows, columns = (_slices(edges(wanted[axis], dealing.parts(axis, brick[axis]))) for axis in (0, 1))
    x, y = divmod(me, len(columns))
    if s.in_phases("C"):
        parts = [(pid, (rows[at], slice(None))) for at, pid in enumerate(pids[y :: len(columns)])]
        part = yield from _added_up(here, parts, pids[me], total, False)
        del total
        beside = pids[x * len(columns) : (x + 1) * len(columns)]
        parts = [(pid, (slice(None), columns[at])) for at, pid in enumerate(beside)]
        return (yield from _added_up(here, parts, pids[me], part, True))
    parts = [(pid, (rows[at // len(columns)], columns[at % len(columns)])) for at, pid in enumerate(pids)]
    return (yield from _added_up(here, parts, pids[me], total, len(columns) > 1))


def _added_up(here: World, parts: list[tuple[int, Region]], me: int, total: Any, copied: bool) -> Moves:
    """Add up what all processes have of this process's part of a block, in the order of `parts`.

    copied : whether parts are columns of the block; else they are rows, and sent from where they are.
    """
    sends = [(pid, total[at].copy() if copied else total[at]) for pid, at in parts if pid != me and total[at].size]
    arrived = yield sends, {}
    sends.clear()
    (mine,) = (total[at] for pid, at in parts if pid == me)
    if not mine.size:
        return here.empty(mine.shape, mine.dtype)
    first, second, *others = (mine if pid == me else arrived.pop(pid) for pid, _ in parts)
    found = np.logical_or(first, second) if mine.dtype.kind == "b" else np.add(first, second)
    for part in others:
        found = added(found, part)
    return contiguous(found)
