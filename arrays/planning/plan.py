"""Plans: stages in supersteps, with their exchanges, memory and cost.  A plan is data, the same on every process.

superstep 1  local           partial x0.T @ x0      2.1e8 flops    peak 4.1 MB/process
superstep 1  total exchange  partial x0.T @ x0      h = 72 words
"""

from __future__ import annotations

import marshal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64_digest

from bsp.arrays.expressions.graph import ExpressionGraph
from bsp.arrays.kernels.maps import Map
from bsp.arrays.kernels.overlay import Overlay
from bsp.arrays.kernels.products import Product
from bsp.arrays.planning.orders import PlanOrders
from bsp.arrays.planning.stages import Fetch, Stage, Value, walk
from bsp.cost.flows import Flows
from bsp.cost.model import WORD, Cost, Machine
from bsp.cost.units import counted
from bsp.transport.header import digest

MARSHAL = 2  # the last version in which equal values have equal bytes, however often they are referenced
LEAST = 1 << 20  # bytes of a process from which a result is written over an operand
_SHOWN = 4  # numbers that a mismatch shows


class PlanSuperstep(NamedTuple):
    """One superstep of a plan: stages, exchanges and predicted cost.  Arrays are indexed by process."""

    number: int
    stages: list[Stage]
    fetches: list[Fetch]  # the exchanges at its end
    flops: np.ndarray
    out: np.ndarray  # words sent
    into: np.ndarray  # words received
    messages: int
    seconds: float

    @property
    def h(self) -> int:
        """Size of the h-relation: the most words that any process sends or receives."""
        return int(max(self.out.max(initial=0), self.into.max(initial=0)))


class Plan:
    """All stages of one evaluation, made by `planner`."""

    def __init__(
        self, graph: ExpressionGraph, nprocs: int, machine: Machine, stages: list[Stage], values: list[Value],
        roots: list[Value], texts: list[str], small: list[tuple[int, Value]], mode: tuple[Any, ...],
    ) -> None:  # fmt: skip
        self.nprocs = nprocs
        self.machine = machine
        self.stages = stages
        self.values = values
        self.roots = roots
        self.leaves = [value for value in values if value.leaf >= 0]
        self.small = small  # intermediate results, by node, that are kept because they are small
        self.asked = graph.asked
        self.last = max([stage.level for stage in stages], default=0)
        for value in values:
            value.last = value.level
        for stage, fetch in walk(stages):
            fetch.level = stage.level if fetch.level < 0 else min(fetch.level, stage.level)
            fetch.ref.value.last = max(fetch.ref.value.last, stage.level)
        for kept in (*roots, *[value for _, value in small]):
            kept.last = self.last
        # An evaluation ends at least one superstep: at its boundary all processes check that they evaluate the same.
        # Errors in stages after the last boundary are not exchanged; if such a stage can raise for some values,
        # another boundary follows, which exchanges them.
        ends = [stage for stage in stages if stage.level == self.last and not stage.tasks.replicated]
        self.unheard = nprocs > 1 and self.last > 0 and any(stage.kernel.calculates for stage in ends)
        heard = self.unheard and any(stage.kernel.fallible for stage in ends)
        self.boundaries = self.last + 1 if heard else max(1, self.last)
        self.fetches = list(dict.fromkeys(fetch for _, fetch in walk(stages)))
        self._orders: dict[int, PlanOrders] = {}
        self._exchanged: dict[int, Flows] = {}
        self.text = ", ".join(dict.fromkeys(texts)) or "arrays"
        self._numbers: tuple[bytes, str, list[bytes]] = b"", self.text, []  # of the last run with parameters
        whole = digest("plan", mode, repr(graph.key))
        self.digests = [digest(whole, level) for level in range(max(self.boundaries, self.last + 1))]

    def orders(self, pid: int) -> PlanOrders:
        """Return one process's part of the plan."""
        found = self._orders.get(pid)
        if found is None:
            found = self._orders[pid] = PlanOrders(self, pid)
        return found

    def with_numbers(self, params: list[Any]) -> tuple[str, list[bytes]]:
        """Return the text and the digests of a run with these parameters, which all processes must have alike."""
        try:
            packed = marshal.dumps(params, MARSHAL)
        except ValueError:  # values that are assigned
            packed = repr(params).encode()
        for each in params:
            if each != each:  # NaN, whose bits may differ between processes
                packed = repr(params).encode()
                break
        if packed != self._numbers[0]:  # a loop mostly comes with the same ones
            text = f"{self.text} with c = {', '.join(map(repr, params[:_SHOWN]))}"
            self._numbers = packed, text, [xxh3_64_digest(first + packed) for first in self.digests]
        return self._numbers[1:]

    @cached_property
    def ended(self) -> dict[int, list[Value]]:
        """The results, by stage, of other stages that nothing needs after it, neither a later stage nor an exchange.

        What an exchange sends at the end of a superstep is read in a later one.
        """
        kept = {*self.roots, *[value for _, value in self.small]}
        last: dict[Value, Stage] = {}
        for stage in sorted(self.stages, key=lambda stage: stage.level):
            last |= dict.fromkeys([fetch.ref.value for fetch in stage.fetches], stage)
        found: dict[int, list[Value]] = {}
        for value, stage in last.items():
            if value.leaf < 0 and value not in kept:
                found.setdefault(stage.number, []).append(value)
        return found

    @cached_property
    def heirs(self) -> dict[int, list[int]]:
        """The operands, by stage, that its result may be written over: large ones, which it is the last to read.

        None where an operation may raise for some values: the operands then serve for another attempt.
        """
        found: dict[int, list[int]] = {}
        if any(stage.kernel.fallible for stage in self.stages):
            return found
        kept = {*self.roots, *[value for _, value in self.small]}
        last: dict[Value, list[tuple[Stage, int]]] = {}  # the last stage that reads a value, and its operands
        for stage in sorted(self.stages, key=lambda stage: stage.level):
            for k, fetch in enumerate(stage.fetches):
                before = last.get(fetch.ref.value, [])
                last[fetch.ref.value] = [*[each for each in before if each[0] is stage], (stage, k)]
        for value, reads in last.items():
            stage, k = reads[0]
            kernel: Any = stage.kernel
            if value in kept or type(kernel) not in (Map, Overlay):
                continue
            if isinstance(kernel, Overlay):
                spares = kernel.spares(k)  # whatever else of it this stage reads: the run takes care of that
            else:
                spares = len(reads) == 1 and kernel.program.spares(k)
            if not spares:
                continue
            same = value.dtype == kernel.dtype and stage.fetches[k].whole
            if same and int(value.layout.held(self.nprocs).max(initial=0)) * value.dtype.itemsize >= LEAST:
                found.setdefault(stage.number, []).append(k)
        return found

    # --------------------------------------------------------------------------------- cost

    @cached_property
    def supersteps(self) -> list[PlanSuperstep]:
        """Supersteps of the plan, one for each boundary.

        A last one may hold work after the last boundary; it belongs to the superstep that follows the plan.
        """
        found = []
        machine = self.machine
        for level in range(max(self.last + 1, 1)):
            stages = self._stages_at.get(level, [])
            fetches = self._moves_before.get(level + 1, [])
            flops = np.zeros(self.nprocs)
            for stage in stages:
                flops += stage_flops(stage, self.nprocs)
            out, into = np.zeros(self.nprocs, np.int64), np.zeros(self.nprocs, np.int64)
            for fetch in fetches:
                sent, received = fetch.traffic
                out, into = out + sent, into + received
            out, into = -(-out // WORD), -(-into // WORD)
            messages = max([fetch.messages for fetch in fetches], default=0)
            h = float(max(out.max(initial=0), into.max(initial=0)))
            ends = level < self.boundaries
            cost = Cost(float(flops.max(initial=0)), h, int(ends), messages=messages, machine=machine)
            found.append(PlanSuperstep(level, stages, fetches, flops, out, into, messages, cost.seconds))
        return found

    @cached_property
    def _stages_at(self) -> dict[int, list[Stage]]:
        """The stages of each superstep."""
        found: dict[int, list[Stage]] = {}
        for stage in self.stages:
            found.setdefault(stage.level, []).append(stage)
        return found

    @cached_property
    def _moves_before(self) -> dict[int, list[Fetch]]:
        """The fetches with words that are to arrive before each superstep."""
        found: dict[int, list[Fetch]] = {}
        for fetch in self.fetches:
            if fetch.moves:
                found.setdefault(fetch.level, []).append(fetch)
        return found

    def exchanged(self, level: int) -> Flows:
        """Return the traffic of all processes at the end of a superstep, the same object at each call."""
        if level not in self._exchanged:
            fetches = self._moves_before.get(level + 1, [])
            self._exchanged[level] = Flows(
                self.nprocs, [(fetch.flow, fetch.ref.value.dtype.itemsize) for fetch in fetches]
            )
        return self._exchanged[level]

    @property
    def words(self) -> int:
        """H of the BSP cost: the sum of the h-relations of all supersteps, in words."""
        return sum(step.h for step in self.supersteps)

    @property
    def flops(self) -> float:
        """W of the BSP cost: the sum over supersteps of the most operations of one process."""
        return float(sum(step.flops.max(initial=0) for step in self.supersteps))

    @property
    def seconds(self) -> float:
        """Predicted time in seconds."""
        return sum(step.seconds for step in self.supersteps)

    def memory(self, level: int) -> list[tuple[str, np.ndarray]]:
        """Return an upper bound on the memory in a superstep, as terms (description, bytes by process)."""
        terms: list[tuple[str, np.ndarray]] = []
        for value in self.values:
            if value not in self._brief and (value.leaf >= 0 or value.level <= level <= value.last):
                terms.append((value.name, self._held(value)))
        terms.append(self._brief_ones(level))
        for fetch in self.fetches:
            name = fetch.ref.value.name
            if fetch.moves and fetch.level <= level <= self._until[id(fetch)]:
                terms.append((f"received {name}", fetch.traffic[1]))
            if fetch.moves and fetch.level == level + 1:
                terms.append((f"{name} on its way", fetch.traffic[0] + fetch.traffic[1]))
        passing: tuple[str, np.ndarray] = ("", np.zeros(self.nprocs, np.int64))
        for stage in self.stages:
            if stage.level == level:
                points = int(stage.tasks.held(self.nprocs).max(initial=0))
                here = np.full(self.nprocs, stage.kernel.temporary(points, stage.tasks), np.int64)
                for fetch in stage.fetches:
                    if not fetch.direct:
                        here += fetch.regions_held()
                if here.max(initial=0) > passing[1].max(initial=0):
                    passing = (f"gathered for {stage.what}", here)
        return [*terms, passing]

    def _held(self, value: Value) -> np.ndarray:
        """Return the bytes of a value on each process."""
        held: np.ndarray = value.layout.held(self.nprocs) * value.dtype.itemsize
        return held

    @cached_property
    def _brief(self) -> set[Value]:
        """The values that are computed and released in one superstep, of which no other value may be a view."""
        ended = {value for values in self.ended.values() for value in values if value.level == value.last}
        return ended - {fetch.ref.value for stage, fetch in walk(self.stages) if not stage.kernel.calculates}

    def _brief_ones(self, level: int) -> tuple[str, np.ndarray]:
        """Return the memory term of the values that are released before the superstep ends: the most at one time."""
        there: dict[Value, np.ndarray] = {}
        now = most = np.zeros(self.nprocs, np.int64)
        name = ""
        for stage in self._stages_at.get(level, []) if self._brief else ():
            if stage.out in self._brief:
                there[stage.out] = self._held(stage.out)
                now = now + there[stage.out]
                if now.max(initial=0) > most.max(initial=0):
                    name = ", ".join(value.name for value in there)
                most = np.maximum(most, now)
            for value in self.ended.get(stage.number, ()):
                if value in there:
                    now = now - there.pop(value)
        return name, most

    @cached_property
    def _until(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for stage, fetch in walk(self.stages):
            found[id(fetch)] = max(found.get(id(fetch), 0), stage.level)
        return found

    @cached_property
    def peaks(self) -> np.ndarray:
        """Upper bound on the bytes of arrays that each process holds at its fullest superstep, leaves included."""
        most = np.zeros(self.nprocs, np.int64)
        for level in range(self.last + 1):
            most = np.maximum(most, sum((held for _, held in self.memory(level)), np.zeros(self.nprocs, np.int64)))
        return most

    def largest_term(self) -> tuple[str, int, int]:
        """Return the largest memory term of the fullest process in its fullest superstep: (description, bytes, pid)."""
        pid = int(self.peaks.argmax()) if self.nprocs else 0
        level = max(range(self.last + 1), key=lambda k: sum(int(held[pid]) for _, held in self.memory(k)))
        what, held = max(self.memory(level), key=lambda term: int(term[1][pid]))
        return what, int(held[pid]), pid

    @property
    def peak_bytes(self) -> int:
        """Largest of the `peaks`: bytes on the fullest process."""
        return int(self.peaks.max(initial=0))

    def explain(self) -> Explanation:
        """Return the plan as text: stages with places and patterns, exchanges with words, and predicted totals."""
        from bsp.arrays.planning.explain import table  # `explain` imports this module

        return table(self)

    def __repr__(self) -> str:
        return f"<plan of {self.text}: {counted(self.boundaries, 'superstep')}, {counted(self.words, 'word')}>"

    def cost(self) -> Cost:
        """Return the plan's predicted cost."""
        messages = sum(step.messages for step in self.supersteps)
        return Cost(self.flops, self.words, self.boundaries, -(-self.peak_bytes // WORD), messages, self.machine)


class Explanation(str):
    """Text of several lines whose `repr` is the text itself, so that prompts and notebooks show the lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def stage_flops(stage: Stage, nprocs: int) -> np.ndarray:
    """Return the operations of each process in a stage."""
    held = stage.tasks.held(nprocs)
    found: np.ndarray = np.asarray(stage.kernel.flops(held), float)
    if isinstance(stage.kernel, Product):  # with more than two factors, operations are not a multiple of points
        most, points = stage.kernel.flops_on(stage.tasks), float(held.max(initial=0))
        found = held * (most / points) if points else found
    return found


def flops_of(stage: Stage) -> float:
    """Return the operations of the fullest process in a stage."""
    nprocs = 1 + int(stage.tasks.owner.max(initial=0))
    return float(stage_flops(stage, nprocs).max(initial=0))
