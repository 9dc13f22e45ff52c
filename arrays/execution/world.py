"""The array state of a process: its private channel, options, and the plans of all processes of an interpreter."""

from __future__ import annotations

import contextlib
import marshal
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from xxhash import xxh3_64_digest, xxh3_128_digest

import bsp
from bsp.arrays.compiled import capture
from bsp.arrays.errors import PlanTooLarge, RecomputedWarning
from bsp.arrays.execution import memory
from bsp.arrays.execution.last_use import Overwritten, unread
from bsp.arrays.execution.run import Declared, Run
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, ExpressionGraph, Node
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.expressions.merging import cut, merged_blocks
from bsp.arrays.kernels.fingerprints import fingerprint
from bsp.arrays.kernels.products import Product
from bsp.arrays.kernels.shared_errors import Notes, Trouble, current
from bsp.arrays.planning.plan import MARSHAL, Plan
from bsp.arrays.planning.planner import planned
from bsp.arrays.planning.stages import Value
from bsp.cost.units import in_bytes
from bsp.declared import Costs, declares
from bsp.engine.task import Call
from bsp.source import here
from bsp.transport.header import digest
from bsp.values.effects import Send
from bsp.values.payload import is_abstract
from bsp.world import kept_by

_PLANS, _OPTIONS = 512, 16  # plans in a cache, which is emptied when it is full; caches, one for each set of options
_PANELS = 256  # panels of a contraction at most
_LARGE, _ROUNDS = 1 << 20, 3  # RecomputedWarning: bytes of an array, and the round that warns
_SCHEDULES = ("patterns", "lshs", "round-robin")
_NOTHING: tuple[Any, bytes] = (None, b"")  # was noted: no place, no digest
_plans: dict[Any, tuple[dict[Any, Plan], dict[Any, Plan]]] = {}  # see `World.plan_with`; dealt, and brought together
Result = TypeVar("Result")


class World:
    """The array state of a process: how its arrays are planned, evaluated and exchanged."""

    def __init__(self, proc: bsp.Process) -> None:
        self.proc = proc
        self.private = proc.private("bsp.arrays")
        self.context = self.private._context
        self.task = proc._task
        self.pid = proc.pid
        self.nprocs = proc.nprocs
        self.machine = proc.machine
        self._abstraction = self.task.element.abstract
        self.abstract = self._abstraction is not None
        self.as_numpy = False  # in scripts for NumPy: repr and pickles of arrays are NumPy's, and collective
        self.sampled = self.task.element.sample is not None  # a few processes run and stand for all, in a prediction
        self.in_procedure = self.abstract  # a procedure runs or is forecast, and includes those that it calls
        self._again: Counter[Any] = Counter()  # by structure: evaluations that computed a large array again
        self.notes: Notes | None = None  # floating-point errors of the procedure that runs
        self.noted = _NOTHING  # see `note`
        memory = self.machine.memory / max(1, -(-self.nprocs // self.machine.p))
        self.plan_with("patterns", memory)

    def plan_with(self, schedule: str, memory: float) -> None:
        """Set what plans depend on besides their expressions: the schedule, and the bytes of a process; 0: no limit."""
        self.schedule = schedule
        self.memory = memory
        if len(_plans) >= _OPTIONS:
            _plans.clear()
        self._plans = _plans.setdefault((self.nprocs, self.machine, schedule, memory), ({}, {}))

    @property
    def alone(self) -> bool:
        """True if this is the only process of its element."""
        return len(self.task.element.tasks) == 1

    def in_common(self, what: tuple[Any, ...], make: Callable[[], Result]) -> Result:
        """Return an object that all processes of the element need alike in this superstep, and that nobody changes.

        what : names it, so that a process that needs another one does not get it.
        The first process makes it and stores it in the element; the last one removes it.
        """
        element = self.task.element
        shared, key = element.shared, (element.superstep, *what)
        entry = shared.get(key)
        if entry is None:
            left = [each for each in shared if each[0] < element.superstep]  # a process failed or was made anew
            for each in left:
                del shared[each]
            entry = shared[key] = [make(), len(element.tasks)]
        entry[1] -= 1
        if not entry[1]:
            del shared[key]
        found: Result = entry[0]
        return found

    def once(
        self, name: str, make: Callable[[], Result], of: Sequence[Any] = (), *, same: Hashable = None,
        notes: Notes | None = None,
    ) -> Result:  # fmt: skip
        """Return what `make()` makes, which an element makes once for all processes with the same values; `in_common`.

        name, of, same : the function, the arrays it depends on, compared by their bytes, and what else must be equal.
        notes : where its floating-point errors are noted, for every process; None: those of the procedure that runs.
        An exception goes to the process that calls, and the next one tries for itself.  A run without values divides
        the work among the processes of an element.
        """
        if self._abstraction is not None:
            with self._abstraction.divided(self.machine.sharing(self.nprocs)):
                return make()
        if self.alone:
            return make()
        heard = self.notes if notes is None else notes
        noted = {} if heard is None else heard.found

        def noting() -> tuple[Result, dict[Any, Trouble]]:
            before = set(noted)
            found = make()
            return found, {key: trouble for key, trouble in noted.items() if key not in before}

        prints = [(each.shape, each.dtype.str, xxh3_128_digest(np.ascontiguousarray(each).data)) for each in of]
        found, troubles = self.in_common(("once", name, same, *prints), noting)
        for key, trouble in troubles.items():
            noted.setdefault(key, trouble)
        return found

    def passes(self, count: int, dtype: DType) -> None:
        """Declare memory that a kernel takes and gives back.  A run without values counts it, any other ignores it."""
        if self.abstract:
            self.empty((count,), dtype)

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return a new array with arbitrary values, for a block; in a run without values, an abstract one."""
        if self._abstraction is not None:
            return self._abstraction.memory(tuple(shape), dtype)
        return memory.empty(tuple(shape), dtype)

    def own(self, blocks: Blocks, at: Shape, kept: bool = True) -> Any:
        """Return a block that may be written to: the block itself if nothing else refers to it, else a copy of it.

        blocks : blocks by coordinates, in which a copy replaces the block.
        kept : whether the copy needs the values; if not, they are arbitrary.
        """
        if memory.alone(blocks, at):
            return blocks[at]
        block = blocks[at]
        new = blocks[at] = self.empty(block.shape, block.dtype)
        if kept:
            new[...] = block
        return new

    def note(self, *what: bytes | Sequence[tuple[int, ...]] | Shape) -> None:
        """Note what this process has done or given without a plan; the next boundary checks that all did the same.

        what : numbers, texts, bytes, and tuples and lists of such.
        Nothing is noted beyond the head of a round: a process that joins there has not carried out what came before.
        """
        if self.nprocs > 1:
            place, (noted_at, found) = self._place(), self.noted
            told: Any = found if found and noted_at == place else b"", *what
            self.noted = place, xxh3_64_digest(marshal.dumps(told, MARSHAL))

    def note_given(self, values: Iterable[Any], nodes: Iterable[Node] = ()) -> None:
        """Note NumPy arrays, numbers and texts that a call is given, and what leaves were made of.

        Nothing is noted inside a procedure: the arguments of its call have been.
        """
        if self.nprocs > 1 and not self.in_procedure:
            self.note(*map(fingerprint, values))
            self.compare(nodes)

    def give(self, node: Node, *values: object) -> None:
        """Keep with a new leaf what the program made it of: the first superstep that uses it compares them.

        values : NumPy arrays, numbers and texts, which must be the same on every process.
        """
        if self.nprocs > 1 and not self.in_procedure:
            node.given = self._place(), xxh3_64_digest(marshal.dumps((*map(fingerprint, values),), MARSHAL))

    def compare(self, nodes: Iterable[Node]) -> None:
        """Note what leaves were made of, where that has not been compared."""
        for node in nodes:
            if node.op is LEAF and node.given is not None and node.given[0] == self._place():
                self.note(node.given[1])

    def _place(self) -> Any:
        return self.task.loops, self.task.round

    def called(self, agreed: list[bytes]) -> tuple[bytes, list[bytes]]:
        """Return a digest of what was noted (b"" if nothing), and digests for boundaries that include it; forget it."""
        (place, found), self.noted = self.noted, _NOTHING
        if not found or place != self._place():
            return b"", agreed
        return found, [digest("noted", each, found) for each in agreed]

    def given(self) -> bytes:
        """Return a digest of what was noted, and forget it.

        Where nothing was, it has as many bytes: a run without values, which notes nothing, sends as many words.
        """
        return self.called([])[0] or bytes(8)

    def told(self, *values: object) -> list[Any]:
        """Return a tuple of values of each process, and compare what was noted before.  Collective, S = 1.

        Raises SyncMismatch, on every process, if what was noted differs.
        """
        found = self.private.allgather((*values, self.given()))
        differs = next((pid for pid, each in enumerate(found) if each[-1] != found[0][-1]), None)
        if differs is not None:
            raise bsp.SyncMismatch(
                f"processes 0 and {differs} gave different values at {here()} or before: a shape, an index, a seed or "
                "a whole matrix; every process must give the same values to its arrays"
            )
        return [each[:-1] for each in found]

    def _meet(self, text: str, kind: str) -> None:
        """End a superstep at which all processes must make the same call."""
        self.task.label = text
        given, (agreed,) = self.called([digest(kind, text)])
        self.task.boundary(Call(text, agreed, (self.context,), given))

    def exchange(
        self, text: str, out: Sequence[tuple[int | Sequence[int], Any]], into: dict[int, list[Any]] | None = None
    ) -> list[tuple[int, Any]]:
        """Send arrays in one superstep; return the arrays that arrive, as (source, array) in D2's order.  Collective.

        text : names the step in traces and errors; it must be the same on every process.
        out : pairs (destination, array), or (several destinations, array), which travels once to each element; a
            process may send to itself.  An array in it must never be written again, since processes of an element
            share it.
        into : by source, memory for the arrays that come from it, in their order: vectors of exactly their size, or
            None.  An array may be received there; the array returned then is that memory.
        Cost: h = the words sent or received, one superstep.
        """
        if into is not None and self.alone and not self.abstract:
            self.context.landings = into
        if self.notes is not None:
            self.notes.tell(self.context, self.nprocs)
        effects = self.context.outbox.effects
        for dest, array in out:
            dests = (dest,) if isinstance(dest, int | np.integer) else tuple(dest)
            effects.append(Send(self.pid, dests, self.context.id, None, array, None, borrowed=True, shared=True))
        self._meet(text, "exchange")
        arrived, self.context.arrived = self.context.arrived, []
        self.context.landings = {}
        if self.notes is not None:
            arrived = self.notes.hear(arrived)
        if self.abstract:  # arrays from other processes take memory here, unless `into` has it
            return [
                (source, array if source == self.pid or into else self._received(array))
                for source, _, array, _ in arrived
            ]
        return [(source, array) for source, _, array, _ in arrived]

    def _received(self, array: Any) -> Any:
        """Return an array that has come from another process in a run without values; indices, which are real, stay."""
        found = self.empty(array.shape, array.dtype)
        return found if is_abstract(array) else array

    def together(self, text: str, work: Callable[[], Result]) -> Result:
        """Call work() on every process, then end one superstep that raises its errors on all processes, as a plan does.

        text : names the step in traces and errors; it must be the same on every process.
        """
        notes = Notes(self.pid)
        current.enter(0)
        with notes:
            try:
                found = work()
            except Exception as error:  # noqa: BLE001 - any exception must be raised on all processes
                notes.fail(error)
        notes.tell(self.context, self.nprocs)
        self._meet(text, "together")
        arrived, self.context.arrived = self.context.arrived, []
        notes.hear(arrived)
        return found

    @contextlib.contextmanager
    def calculating(self, text: str) -> Iterator[None]:
        """Collect floating-point errors inside the block; the next exchange reports them to all processes.

        At the end, errors may be left that no exchange has reported.  If the program has asked for exceptions
        (np.errstate, or warnings that are errors), one more superstep reports them; else each element warns of those
        of its processes.
        text : names the procedure in traces and errors; it must be the same on every process.
        """
        notes = self.notes = Notes(self.pid)
        try:
            with notes.collecting():
                yield
        finally:
            self.notes = None
        if notes.strict and self.nprocs > 1:
            notes.tell(self.context, self.nprocs)
            self._meet(text, "calculating")
            arrived, self.context.arrived = self.context.arrived, []
            notes.hear(arrived)
        elif notes:
            element = self.task.element
            shown = element.shared.setdefault((element.superstep, text, "warnings"), [])
            notes.settle(shows=not shown)
            shown.append(self.pid)

    def planned(self, nodes: Sequence[Node], gather: bool) -> tuple[Plan, ExpressionGraph]:
        """Return the plan for some nodes and their graph; the cache keeps a plan for each structure.  Local."""
        graph = capture(nodes)
        plans, key = self._plans[gather], graph.key
        plan = plans.get(key)
        if plan is None:
            plan = self._made(graph, graph.asked if gather else 0)
            if len(plans) >= _PLANS:
                plans.clear()
            plans[key] = plan
        return plan, graph

    def _made(self, graph: ExpressionGraph, gather: int) -> Plan:
        """Make a plan, with twice as many panels until it fits the memory limit; PlanTooLarge if none fits."""
        panels = 1
        while True:
            plan = planned(graph, self.nprocs, self.machine, gather, self.schedule, panels, self.memory)
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
        """Compute some nodes; return this process's merged blocks of each.  Collective.

        gather : bring the whole arrays to every process; else each process keeps the blocks that it owns.
        Ends at least one superstep, which checks that all processes evaluate the same.
        """
        plan, graph = self.planned(nodes, gather)
        if len(graph.given) > graph.asked:
            self._notice(graph)
        given = [leaf for leaf in graph.leaves if leaf.given is not None]
        if given:
            self.compare(given)
            for leaf in given:
                leaf.given = None
        spare = unread(graph, {node for _, node in _stored(graph, gather)}) if plan.heirs and not self.abstract else []
        leaves = [leaf.value if leaf.layout is value.layout else merged_blocks(leaf, self.empty)
                  for leaf, value in zip(graph.leaves, plan.leaves, strict=True)]  # fmt: skip
        run = (Declared if self.abstract else Run)(plan, self, leaves, graph.params)
        run.unread.update(plan.leaves[k].number for k in spare)
        try:
            blocks = run.results()
        except BaseException:
            for k in spare:
                if plan.leaves[k].number in run.overwritten:
                    graph.leaves[k].value = Overwritten()
            raise
        for i, value in plan.small:
            _store(graph.nodes[i], value, run.blocks(value))
        for k, node in _stored(graph, gather):
            _store(node, plan.roots[k], blocks[k])
        for node in graph.positions:
            node.computed = True
        return blocks[: graph.asked]

    def _notice(self, graph: ExpressionGraph) -> None:
        """Warn, once, of a loop that computes a large array a second time in each round.

        Such an array was computed on the way to a result and not kept, and a later result starts from it (see
        `capture`).  The library cannot keep it because earlier rounds needed it: plans would then depend on the past,
        which a clone that joins at the head of a round does not have.
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


def _stored(graph: ExpressionGraph, gather: bool) -> list[tuple[int, Node]]:
    """Return the results that are kept, with their numbers: not those that every process gets whole."""
    return [
        (k, node) for k, node in enumerate(graph.given)
        if node.op is not LEAF and (not gather or k >= graph.asked or node.kind.size <= 1)
    ]  # fmt: skip


def _store(node: Node, value: Value, blocks: Blocks) -> None:
    """Turn a node into a leaf with a computed value; `blocks` are those of the value's layout in the plan."""
    node.become(value.shown, blocks if value.asked is None else cut(value.asked, blocks))


def world() -> World:
    """Return the array state of the calling process."""
    found: World | None = kept_by("arrays")
    if found is None:
        proc = bsp.process()
        libraries = proc._task.libraries
        found = libraries.get("arrays")
        if found is None:
            found = libraries["arrays"] = World(proc)
    return found


def _unfilled(costs: Costs, shape: Shape, dtype: DType, make: Callable[[], Any]) -> Any:
    """Declare the memory of a block."""
    return world().empty(shape, dtype)


@declares(_unfilled)
def filled(shape: Shape, dtype: DType, make: Callable[[], Any]) -> Any:
    """Return the block that `make()` makes, of this shape and dtype.  A run without values makes an abstract one."""
    return make()


@contextlib.contextmanager
def options(*, schedule: str | None = None, memory: float | None = None) -> Iterator[None]:
    """Set options for the plans made inside the block; every process must set the same.

    schedule : "patterns" is the default; "lshs" and "round-robin" place every block operation separately, for
        comparisons.
    memory : bytes that a process may use.  Contractions are split into panels to stay below it; PlanTooLarge if that
        is not enough.  By default, the memory of an element in the machine profile, divided among its processes.
    """
    here = world()
    if schedule is not None and schedule not in _SCHEDULES:
        raise ValueError(f"options(schedule={schedule!r}): one of {', '.join(_SCHEDULES)}")
    kept = here.schedule, here.memory
    here.plan_with(kept[0] if schedule is None else schedule, kept[1] if memory is None else float(memory))
    try:
        yield
    finally:
        here.plan_with(*kept)
