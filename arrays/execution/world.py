"""What the array library keeps for a process: its private channel, and plans, shared by an interpreter's processes."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import bsp
from bsp.abstract.work import counter
from bsp.arrays.errors import PlanTooLarge, RecomputedWarning
from bsp.arrays.execution import memory
from bsp.arrays.execution.run import Run
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, Graph, Node, capture
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels.kernels import Product
from bsp.arrays.kernels.shared_errors import Notes, current
from bsp.arrays.planning.plan import Plan
from bsp.arrays.planning.planner import Planner
from bsp.cost.units import in_bytes
from bsp.engine.task import Call
from bsp.source import here
from bsp.transport.header import digest
from bsp.values.effects import Send

_PLANS = 1024
_PANELS = 256
_LARGE, _ROUNDS = 1 << 20, 3  # bytes of an array, and rounds, from which computing it twice is worth a warning
_SCHEDULES = ("patterns", "lshs", "round-robin")
_plans: dict[Any, Plan] = {}
Result = TypeVar("Result")


class World:
    """A process as arrays see it."""

    def __init__(self, proc: bsp.Process) -> None:
        self.proc = proc
        self.private = proc.private()
        self.context = self.private._context
        self.task = proc._task
        self.pid = proc.pid
        self.nprocs = proc.nprocs
        self.machine = proc.machine
        self._abstraction = self.task.element.abstract
        self.abstract = self._abstraction is not None
        self.schedule = "patterns"
        self.in_procedure = False  # whether a procedure runs: those it is made of were forecast with it
        self._again: Counter[Any] = Counter()  # evaluations by structure in which a large array is computed again
        self.notes: Notes | None = None  # what goes wrong in the arithmetic of the procedure that runs
        self.memory = self.machine.memory / max(1, -(-self.nprocs // self.machine.p))  # bytes; 0: no limit known

    @property
    def alone(self) -> bool:
        """Whether no other process shares this one's element."""
        return len(self.task.element.tasks) == 1

    def passes(self, count: int, dtype: DType) -> None:
        """Memory that a kernel takes and gives back: counted in a run without values, nothing otherwise."""
        if self.abstract:
            self.empty((count,), dtype)

    @property
    def busiest(self) -> int:
        """Who gets all that travels, where values could make it so; of another if that is this process."""
        return 0 if self.pid or self.nprocs == 1 else 1

    def at_most(self) -> None:
        """What follows in this run without values is the largest that values could make it."""
        counter.upper_bound = True

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Memory for a block."""
        if self._abstraction is not None:
            return self._abstraction.memory(tuple(shape), dtype)
        return memory.empty(tuple(shape), dtype)

    def exchange(
        self, text: str, out: Sequence[tuple[int, Any]], into: dict[int, list[Any]] | None = None
    ) -> list[tuple[int, Any]]:
        """One superstep of an algorithm: arrays to processes, and what arrives as (source, array), in D2's order.

        text : names the step in traces and errors; it must be the same on every process.
        into : by source, memory for the arrays that come from it, in their order: vectors of just their size, or None.
            An array may be received there; if it was, it is that memory.
        An array given is never written again, so processes of an element may share it; to oneself is allowed.
        """
        if into is not None and self.alone and not self.abstract:
            self.context.landings = into
        if self.notes is not None:
            self.notes.tell(self.context, self.nprocs)
        effects = self.context.outbox.effects
        for dest, array in out:
            effects.append(Send(self.pid, (dest,), self.context.id, None, array, None, borrowed=True, shared=True))
        self.task.label = text
        self.task.boundary(Call(text, digest("exchange", text), (self.context,)))
        arrived, self.context.arrived = self.context.arrived, []
        self.context.landings = {}
        if self.notes is not None:
            arrived = self.notes.hear(arrived)
        if self.abstract:  # what comes from others takes memory here, unless it has a place
            return [
                (source, array if source == self.pid or into else self.empty(array.shape, array.dtype))
                for source, _, array, _ in arrived
            ]
        return [(source, array) for source, _, array, _ in arrived]

    def together(self, text: str, work: Callable[[], Result]) -> Result:
        """work() on every process, and one superstep in which all hear of what has gone wrong in it, as in a plan.

        text : names the step in traces and errors; it must be the same on every process.
        """
        notes = Notes(self.pid)
        current.enter(0)
        with notes:
            try:
                found = work()
            except Exception as error:  # noqa: BLE001 - whatever it is, all processes must hear of it
                notes.fail(error)
        notes.tell(self.context, self.nprocs)
        self.task.label = text
        self.task.boundary(Call(text, digest("together", text), (self.context,)))
        arrived, self.context.arrived = self.context.arrived, []
        notes.hear(arrived)
        return found

    @contextlib.contextmanager
    def calculating(self, text: str) -> Iterator[None]:
        """Inside, floating-point errors of this process are kept; all processes hear of them at the next exchange.

        What no exchange has told at the end is told by one superstep more where the program wants exceptions; else
        each element warns of what its processes have found.
        text : names the procedure in traces and errors; it must be the same on every process.
        """
        notes = self.notes = Notes(self.pid)
        try:
            with notes.collecting():
                yield
        finally:
            self.notes = None
        if notes.raises and self.nprocs > 1:
            notes.tell(self.context, self.nprocs)
            self.task.label = text
            self.task.boundary(Call(text, digest("calculating", text), (self.context,)))
            arrived, self.context.arrived = self.context.arrived, []
            notes.hear(arrived)
        elif notes:
            element = self.task.element
            shown = element.shared.setdefault((element.superstep, text, "warnings"), [])
            notes.settle(shows=not shown)
            shown.append(self.pid)

    def planned(self, nodes: Sequence[Node], gather: bool) -> tuple[Plan, Graph]:
        """The plan for some nodes, from the cache if one of the same structure is there; and their graph."""
        graph = capture(nodes)
        key = (self.nprocs, self.machine, self.schedule, self.memory, gather, graph.key)
        plan = _plans.get(key)
        if plan is None:
            plan = self._made(graph, graph.asked if gather else 0)
            if len(_plans) >= _PLANS:
                _plans.clear()
            _plans[key] = plan
        return plan, graph

    def _made(self, graph: Graph, gather: int) -> Plan:
        """A new plan, in as many panels as the memory asks for."""
        panels = 1
        while True:
            planner = Planner(graph, self.nprocs, self.machine, self.schedule, panels, self.memory)
            plan = planner.plan(gather)
            if not self.memory or plan.peak_bytes <= self.memory:
                return plan
            if panels >= _PANELS or not any(isinstance(stage.kernel, Product) for stage in plan.stages):
                what, held, pid = plan.largest_term()
                advice = "persist() leaves it dealt" if "whole" in what else "take more processes, or a finer grid"
                raise PlanTooLarge(
                    f"{plan.text} needs {in_bytes(plan.peak_bytes)} on process {pid}, limit {in_bytes(self.memory)}; "
                    f"largest term: {what} ({in_bytes(held)}); {advice}"
                )
            panels *= 2

    def evaluate(self, nodes: Sequence[Node], gather: bool) -> list[Blocks]:
        """The nodes computed; every process calls this alike.  Gathered: whole arrays; else blocks stay.

        Ends at least one superstep, in which all processes agree that they evaluate the same.
        """
        plan, graph = self.planned(nodes, gather)
        self._notice(graph)
        run = Run(plan, self, [leaf.value for leaf in graph.leaves], graph.params)
        blocks = run.results()
        for i, value in plan.small:
            graph.nodes[i].become(value.layout, run.blocks(value))
        for k, node in enumerate(graph.given):
            if node.op is not LEAF and (not gather or k >= graph.asked or node.kind.size <= 1):
                node.become(plan.roots[k].layout, blocks[k])
        for node in graph.positions:
            node.computed = True
        return blocks[: graph.asked]

    def _notice(self, graph: Graph) -> None:
        """Warn once where a loop computes a large array a second time in each round.

        Such arrays were computed on the way to a result, were not kept, and are what a later result starts from (see
        `capture`).  Keeping them unasked, because earlier rounds needed them, is no choice: plans would depend on the
        past, which a clone that joins at the head of a round does not have.
        """
        again = [node for node in graph.given[graph.asked :] if node.kind.size * node.kind.dtype.itemsize >= _LARGE]
        if not again:
            return
        self._again[graph.key] += 1
        if self._again[graph.key] == _ROUNDS and self.pid == 0 and not self.abstract:
            line = here()
            warnings.warn_explicit(
                f"for the {_ROUNDS}rd time an array of shape {again[0].kind.shape} is computed a second time, because "
                "it was only computed on the way to another result; if a loop carries it, persist it in each round, "
                "in one plan with what is asked for, as in ba.persist(u, change)",
                RecomputedWarning,
                *(line or ("<program>", 0)),
            )


def world() -> World:
    """Of the process that calls."""
    proc = bsp.process()
    libraries = proc._task.libraries
    found: World | None = libraries.get("arrays")
    if found is None:
        found = libraries["arrays"] = World(proc)
    return found


@contextlib.contextmanager
def options(*, schedule: str | None = None, memory: float | None = None) -> Iterator[None]:
    """Plans inside the block are made otherwise; every process says the same.

    schedule : "patterns"; "lshs" or "round-robin" place every block operation by itself (for comparisons).
    memory : bytes a process may use: contractions go in panels to stay below; PlanTooLarge where that is not enough.
        Else what the machine profile has for an element, shared by its processes.
    """
    here = world()
    kept = here.schedule, here.memory
    if schedule is not None:
        if schedule not in _SCHEDULES:
            raise ValueError(f"options(schedule={schedule!r}): one of {', '.join(_SCHEDULES)}")
        here.schedule = schedule
    if memory is not None:
        here.memory = float(memory)
    try:
        yield
    finally:
        here.schedule, here.memory = kept
