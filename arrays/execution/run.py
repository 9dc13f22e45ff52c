"""The run of a plan on one process: in each superstep it computes, sends, ends the superstep, and receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.arrays.compiled import small_blocks
from bsp.arrays.execution.memory import alone
from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels.kernels import StageTask, extents
from bsp.arrays.kernels.shared_errors import Notes, current
from bsp.arrays.planning.orders import PlanOrders
from bsp.arrays.planning.plan import Plan
from bsp.arrays.planning.stages import Fetch, PieceRow, Stage, Value
from bsp.arrays.planning.tasks import Direct, Pieced, TaskOrder
from bsp.declared import shaped
from bsp.engine.task import Call

if TYPE_CHECKING:
    from bsp.arrays.execution.world import World


class Run:
    """One run of a plan on one process.

    values : the blocks of each value that is still needed, then pieces that have arrived and are whole regions.
    unread : the numbers of leaves that nothing reads after the plan.  overwritten : of those that results are written
        over.  spare : by task of the stage that runs, the block to write its result over.
    """

    def __init__(self, plan: Plan, world: World, leaves: Sequence[Blocks], params: list[Any]) -> None:
        self.plan = plan
        self.world = world
        self.pid = world.pid
        self.params: Sequence[Any] = params
        self.orders: PlanOrders = plan.orders(world.pid)
        self.values: list[Blocks | None] = [None] * (len(plan.values) + len(self.orders.arriving))
        for value in plan.leaves:
            self.values[value.number] = leaves[value.leaf]
        self._awaited: dict[int, np.ndarray] = {}  # regions that pieces are received into, by id of the region
        self._text, self._digests = plan.text, plan.digests
        if params and world.nprocs > 1:  # no part of the plan, but of the digest: different numbers get SyncMismatch
            self._text, self._digests = plan.with_numbers(params)
        self._given, self._digests = world.called(self._digests)
        self._common: dict[int, Any] = {}
        self._arrived: dict[int, dict[int, Any]] = {}  # pieces by fetch, then row
        self._notes = Notes(world.pid)
        self.unread: set[int] = set()
        self.overwritten: set[int] = set()
        self.spare: dict[Shape, Any] = {}

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return a new array."""
        return self.world.empty(shape, dtype)

    def once(self, name: str, make: Callable[[], Any], of: Sequence[Any]) -> Any:
        """Return what `make()` makes of some arrays; see `World.once`."""
        return self.world.once(name, make, of, notes=self._notes)

    def results(self) -> list[Blocks]:
        """Carry out the plan; return this process's blocks of the roots."""
        plan = self.plan
        boundaries = plan.boundaries
        if plan.unheard and boundaries <= plan.last and self._notes.strict:
            boundaries = plan.last + 1  # all processes must raise what one process finds after the last exchange
        for level in range(max(plan.last + 1, boundaries)):
            if level <= plan.last:
                self._compute(level)
            if level < boundaries:
                self._meet(level)
            if level < plan.last:
                self._release(level)
        if self._notes:
            self._settle_alone()
        return [self.blocks(root) for root in plan.roots]

    def _compute(self, level: int) -> None:
        """Compute the stages of a superstep, up to one that fails: the stages after it lack its result."""
        notes = self._notes
        notes.plain = self.orders.small[level]
        with notes:
            for stage, tasks, small in self.orders.stages[level]:
                current.enter(stage.number)
                heirs = self.plan.heirs.get(stage.number) if small is None else None  # C makes blocks of its own
                self.spare = self._last_read(tasks, heirs) if heirs else {}
                try:
                    blocks = NotImplemented if small is None else small_blocks(small, self.values, self.params, current)
                    if blocks is NotImplemented:
                        blocks = stage.kernel.compute(self, self._tasks(tasks))
                    self.values[stage.out.number] = blocks
                except Exception as error:  # noqa: BLE001 - any exception must be raised on all processes
                    notes.fail(error)
                if notes.failed is not None:
                    return
                self._end(stage)

    def _last_read(self, orders: list[TaskOrder], operands: Sequence[int]) -> dict[Shape, Any]:
        """Return by task a block of one of these operands of its stage that nothing else refers to, if there is one.

        An exception for a floating-point error leaves the operands as they are.
        """
        found: dict[Shape, Any] = {}
        for at, box, reads in orders if not self._notes.strict else ():
            for number, block in [read[:2] for read in map(reads.__getitem__, operands) if isinstance(read, Direct)]:
                leaf = self.plan.values[number].leaf >= 0
                blocks = self.values[number]
                if blocks is None or (leaf and number not in self.unread) or not alone(blocks, block):
                    continue
                whole = blocks[block]
                if whole.flags.c_contiguous and whole.shape == extents(box):
                    found[at] = whole
                    if leaf:
                        self.overwritten.add(number)
                    break
        return found

    def _settle_alone(self) -> None:
        """Raise or show what was found after the last boundary, without communication.

        Either all processes found the same, in stages that each of them computes whole, or there are only warnings:
        then the first process of each element that has any shows its own.
        """
        wrong = self._notes.stages
        alike = all(stage.tasks.replicated for stage in self.plan.stages if stage.number in wrong)
        if alike or self._notes.failed is not None:
            self._notes.settle()
            return
        element = self.world.task.element
        shown = element.shared.setdefault((element.superstep, self.plan.digests[0], "warnings"), [])
        self._notes.settle(shows=not shown)
        shown.append(self.pid)

    def blocks(self, value: Value) -> Blocks:
        """Return this process's blocks of a computed value, keyed by block coordinate."""
        found = self.values[value.number]
        assert found is not None
        return found

    def _tasks(self, orders: list[TaskOrder]) -> Iterator[StageTask]:
        values: list[Any] = self.values
        for at, box, reads in orders:
            regions = []
            for read in reads:
                if isinstance(read, Direct):
                    value, block, where, fetch = read
                    region = values[value][block]
                    regions.append(region if where is None else fetch.piece(region, where))
                else:
                    regions.append(self._region(read))
            yield StageTask(at, box, regions)

    def _region(self, read: Pieced) -> Any:
        fetch, number, _ = read
        if fetch.tasks.replicated and not self.world.alone:
            found = self._common.get(number)
            if found is None:
                key = self.plan.digests[0], number
                found = self._common[number] = self.world.in_common(key, lambda: self._joined(read))
            return found
        return self._joined(read)

    def _joined(self, read: Pieced) -> Any:
        """Return a region, put together from its pieces."""
        fetch, number, region = read
        pieces = [self._piece(fetch, number, row) for row in region.rows]
        whole = self._awaited.pop(id(region), None)
        if whole is None:
            whole = self.empty(region.shape, fetch.ref.value.dtype)
        for row, piece in zip(region.rows, pieces, strict=True):
            self._place(whole, row.into, piece)
        return whole

    def _place(self, whole: Any, into: Any, piece: Any) -> None:
        """Write a piece into a region, unless it was received there."""
        if not np.may_share_memory(piece, whole):
            whole[into] = piece

    def _piece(self, fetch: Fetch, number: int, row: PieceRow) -> Any:
        if row.source in (self.world.pid, -1):
            return fetch.piece(self.blocks(fetch.ref.value)[row.block], row.where)
        return self._arrived[number][row.number]

    def _meet(self, level: int) -> None:
        """End a superstep: send and receive its pieces, in the order that the orders of both sides fix."""
        world, plan = self.world, self.plan
        context = world.context
        last = level >= plan.last
        notes, outbox = self._notes, context.outbox
        noted = bool(notes)
        if noted:
            notes.tell(context, world.nprocs)
        if not last and notes.failed is None:
            for fetch, row, dests in self.orders.sends[level]:
                piece = fetch.piece(self.blocks(fetch.ref.value)[row.block], row.where)
                outbox.send(world.pid, dests, context.id, None, piece, None, borrowed=True, shared=True)
            self._prepare(level)
        world.task.label = plan.text
        world.task.boundary(Call(self._text, self._digests[level], (context,), self._given))
        arrived, context.arrived = context.arrived, []
        context.landings = {}
        if arrived or noted:
            arrived = notes.hear(arrived)
        if not last:
            expected = self.orders.receives[level]
            assert len(arrived) == len(expected)
            for (_, number, row_number), (_, _, piece, _) in zip(expected, arrived, strict=True):
                self._keep(number, row_number, self._received(number, row_number, piece))

    def _keep(self, number: int, row_number: int, piece: Any) -> None:
        """Keep a piece that has arrived until its last stage."""
        whole = self.orders.arriving.get((number, row_number))
        if whole is not None:
            self.values[whole] = {(): piece}
        else:
            self._arrived.setdefault(number, {})[row_number] = piece

    def _prepare(self, level: int) -> None:
        """Set the memory that the exchange receives pieces into, if this process is alone in its element."""
        if self.world.alone and self.orders.landings[level]:
            self.world.context.landings = self._landings(level)

    def _received(self, number: int, row_number: int, piece: Any) -> Any:
        """Return a piece that has arrived."""
        return piece

    def _landings(self, level: int) -> dict[int, list[Any]]:
        """Return for each source the memory to receive each of its pieces into, in order; None: memory of its own."""
        places: dict[tuple[int, int], np.ndarray] = {}
        for number, region, rows in self.orders.landings[level]:
            dtype = self.plan.fetches[number].ref.value.dtype
            whole = self._awaited[id(region)] = self.empty(region.shape, dtype)
            for row, into in rows.items():
                places[number, row] = whole[into].reshape(-1)
        found: dict[int, list[Any]] = {}
        for source, number, row in self.orders.receives[level]:
            found.setdefault(source, []).append(places.get((number, row)))
        return found

    def _end(self, stage: Stage) -> None:
        """Release the results that nothing needs after a stage."""
        for value in self.plan.ended.get(stage.number, ()):
            self.values[value.number] = None

    def _release(self, level: int) -> None:
        """Release the blocks and the received pieces that no later superstep needs."""
        for number in self.orders.unread[level]:
            self.values[number] = None
        for number in self.orders.fetched[level]:
            self._arrived.pop(number, None)


class Declared(Run):
    """One run of a plan without values: kernels declare their blocks and work, exchanges declare their memory."""

    def __init__(self, plan: Plan, world: World, leaves: Sequence[Blocks], params: list[Any]) -> None:
        super().__init__(plan, world, leaves, params)
        self._landed: set[tuple[int, int]] = set()  # pieces received into a region, as (fetch, row)

    def _compute(self, level: int) -> None:
        """Declare the stages of a superstep."""
        for stage, tasks, _ in self.orders.stages[level]:
            self.values[stage.out.number] = stage.kernel.declared(self, self._tasks(tasks))
            self._end(stage)

    def _place(self, whole: Any, into: Any, piece: Any) -> None:
        """Declare a copy: a piece that is received into a region counts as a copy of it."""
        whole[into] = piece

    def _meet(self, level: int) -> None:
        """End a superstep; the copies of pieces that are not contiguous are held until it has ended."""
        if self.world.task.element.sample is not None:
            self._meet_of_sample(level)
            return
        copies = []
        for fetch, row, _ in self.orders.sends[level] if level < self.plan.last else ():
            piece = fetch.piece(self.blocks(fetch.ref.value)[row.block], row.where)
            if not piece.flags.c_contiguous:
                copies.append(self.empty(piece.shape, piece.dtype))
        super()._meet(level)
        del copies

    def _prepare(self, level: int) -> None:
        """Declare the regions that pieces are received into, as `_landings` finds them."""
        self._landed = set()
        for number, region, rows in self.orders.landings[level]:
            self._awaited[id(region)] = self.empty(region.shape, self.plan.fetches[number].ref.value.dtype)
            self._landed.update((number, row) for row in rows)

    def _received(self, number: int, row_number: int, piece: Any) -> Any:
        """Return a piece that has arrived: in its place in a region, or in memory of its own."""
        return piece if (number, row_number) in self._landed else self.empty(piece.shape, piece.dtype)

    def _meet_of_sample(self, level: int) -> None:
        """End a superstep in which a few processes run: the plan tells what all exchange, and what arrives here."""
        world, plan = self.world, self.plan
        last = level >= plan.last
        if not last:
            recorder: Any = world.task.element.recorder
            recorder.moved(world.context.id, lambda: plan.exchanged(level))
            self._prepare(level)
        world.task.label = plan.text
        world.task.boundary(Call(self._text, self._digests[level], (world.context,), self._given))
        for _, number, row in self.orders.receives[level] if not last else ():
            fetch = plan.fetches[number]
            shape = tuple(each.stop - each.start for each in fetch.row(row).into)
            piece = shaped(shape, fetch.ref.value.dtype)
            self._keep(number, row, self._received(number, row, piece))
