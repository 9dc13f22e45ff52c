"""A plan carried out by one process: compute, send, meet, receive, superstep after superstep."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels.kernels import Task
from bsp.arrays.kernels.shared_errors import Notes, current
from bsp.arrays.planning.orders import Direct, Orders, Pieced, TaskOrder
from bsp.arrays.planning.plan import Plan
from bsp.arrays.planning.stages import Fetch, Row, Value
from bsp.engine.task import Call
from bsp.transport.header import digest
from bsp.values.effects import Send

if TYPE_CHECKING:
    from bsp.arrays.execution.world import World


_SHOWN = 4  # numbers that a mismatch shows


class Run:
    """One evaluation on one process.  `values` has the blocks of each value that is still needed."""

    def __init__(self, plan: Plan, world: World, leaves: Sequence[Blocks], params: Sequence[Any]) -> None:
        self.plan = plan
        self.world = world
        self.abstract = world.abstract
        self.pid = world.pid
        self.params = params
        self.orders: Orders = plan.orders(world.pid)
        self.values: list[Blocks | None] = [None] * len(plan.values)
        for value in plan.values:
            if value.leaf >= 0:
                self.values[value.number] = leaves[value.leaf]
        self._alone = world.alone
        self._awaited: dict[int, np.ndarray] = {}  # regions that parts have been received into
        self._text, self._digests = plan.text, plan.digests
        if params:  # numbers are no part of the plan, but those of processes that differ make no array
            shown = ", ".join(map(repr, params[:_SHOWN]))
            self._text = f"{plan.text} with c = {shown}"
            self._digests = [digest("parameters", first, params) for first in plan.digests]
        self._common: dict[int, Any] = {}
        self._arrived: list[dict[int, Any]] = [{} for _ in plan.fetches]
        self._notes = Notes(world.pid)

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """A new array, abstract where the run is."""
        return self.world.empty(shape, dtype)

    def results(self) -> list[Blocks]:
        """The blocks of the roots."""
        plan = self.plan
        boundaries = plan.boundaries
        if plan.unheard and boundaries <= plan.last and self._notes.strict:
            boundaries = plan.last + 1
        for level in range(max(plan.last + 1, boundaries)):
            if level <= plan.last:
                self._compute(level)
            if level < boundaries:
                self._meet(level)
            self._release(level)
        if self._notes:
            self._settle_alone()
        return [self.blocks(root) for root in plan.roots]

    def _compute(self, level: int) -> None:
        """The stages of a superstep; none after one that has failed, for they have nothing to work on."""
        if self.abstract:
            for stage, tasks in self.orders.tasks[level]:
                self.values[stage.out.number] = stage.kernel.declared(self, self._tasks(tasks))
            return
        notes = self._notes
        with notes:
            for stage, tasks in self.orders.tasks[level]:
                current.enter(stage.number)
                try:
                    self.values[stage.out.number] = stage.kernel.compute(self, self._tasks(tasks))
                except Exception as error:  # noqa: BLE001 - whatever it is, all processes must hear of it
                    notes.fail(error)
                if notes.failed is not None:
                    return

    def _settle_alone(self) -> None:
        """Mistakes after the last boundary: of stages that all processes compute alike, or else only warnings."""
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
        """Of a value that is there."""
        found = self.values[value.number]
        assert found is not None
        return found

    def _tasks(self, orders: list[TaskOrder]) -> Iterator[Task]:
        for at, box, reads in orders:
            yield Task(at, box, [self._region(read) for read in reads])

    def _region(self, read: Direct | Pieced) -> Any:
        if isinstance(read, Direct):
            block = self.blocks(read.fetch.ref.value)[read.block]
            return block if read.where is None else read.fetch.piece(block, read.where)
        fetch, number, _ = read
        if fetch.tasks.replicated and not self._alone:
            found = self._common.get(number)
            if found is None:
                found = self._common[number] = self._in_common(number, lambda: self._joined(read))
            return found
        return self._joined(read)

    def _in_common(self, number: int, make: Callable[[], Any]) -> Any:
        """What all processes of the element make alike now: the first makes it, the last takes it away."""
        element = self.world.task.element
        shared, key = element.shared, (element.superstep, self.plan.digests[0], number)
        entry = shared.get(key)
        if entry is None:
            left = [each for each in shared if each[0] < element.superstep]  # by one that failed or was made anew
            for each in left:
                del shared[each]
            entry = shared[key] = [make(), len(element.tasks)]
        entry[1] -= 1
        if not entry[1]:
            del shared[key]
        return entry[0]

    def _joined(self, read: Pieced) -> Any:
        """A region put together."""
        fetch, number, region = read
        pieces = [self._piece(fetch, number, row) for row in region.rows]
        if len(pieces) == 1 and pieces[0].shape == region.shape:
            return pieces[0]
        whole = self._awaited.pop(id(region), None)
        if whole is None:
            whole = self.empty(region.shape, fetch.ref.value.dtype)
        for row, piece in zip(region.rows, pieces, strict=True):
            if self.abstract or not np.may_share_memory(piece, whole):
                whole[row.into] = piece
        return whole

    def _piece(self, fetch: Fetch, number: int, row: Row) -> Any:
        if row.source in (self.world.pid, -1):
            return fetch.piece(self.blocks(fetch.ref.value)[row.block], row.where)
        return self._arrived[number][row.number]

    def _meet(self, level: int) -> None:
        """The end of a superstep: pieces go out, pieces come in, in the order both sides know."""
        world, plan = self.world, self.plan
        context = world.context
        last = level >= plan.last
        notes, effects = self._notes, context.outbox.effects
        notes.tell(context, world.nprocs)
        if not last and notes.failed is None:
            for fetch, row, dests in self.orders.sends[level]:
                piece = fetch.piece(self.blocks(fetch.ref.value)[row.block], row.where)
                effects.append(Send(world.pid, dests, context.id, None, piece, None, borrowed=True, shared=True))
            if self._alone and not self.abstract and self.orders.landings[level]:
                context.landings = self._landings(level)
        world.task.label = plan.text
        staged = self._staged(level) if self.abstract and not last else ()
        world.task.boundary(Call(self._text, self._digests[level], (context,)))
        arrived, context.arrived = context.arrived, []
        context.landings = {}
        arrived = notes.hear(arrived)
        if not last:
            expected = self.orders.receives[level]
            assert len(arrived) == len(expected)
            for (_, number, row_number), (_, _, piece, _) in zip(expected, arrived, strict=True):
                own = self.abstract and (number, row_number) not in staged
                self._arrived[number][row_number] = self.empty(piece.shape, piece.dtype) if own else piece

    def _staged(self, level: int) -> Container[Any]:
        """The memory of an exchange without values: regions that pieces are received into, and copies that go out.

        Returns which pieces have a place in a region, as `_landings` finds it; the others take memory of their own.
        """
        landed: set[tuple[int, int]] = set()
        for number, region, rows in self.orders.landings[level]:
            self._awaited[id(region)] = self.empty(region.shape, self.plan.fetches[number].ref.value.dtype)
            landed.update((number, row) for row in rows)
        copies = []
        for fetch, row, _ in self.orders.sends[level]:
            block = self.blocks(fetch.ref.value)[row.block]
            piece = fetch.piece(block, row.where)
            if not piece.flags.c_contiguous:
                copies.append(self.empty(piece.shape, piece.dtype))
        return landed

    def _landings(self, level: int) -> dict[int, list[Any]]:
        """By source, in the order in which its pieces come: where each is received, if not in memory of its own."""
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

    def _release(self, level: int) -> None:
        """What nothing needs any more goes at once."""
        for value in self.plan.values:
            if value.last <= level and level < self.plan.last:
                self.values[value.number] = None
        for number, until in enumerate(self.orders.until):
            if until <= level and self._arrived[number]:
                self._arrived[number] = {}
