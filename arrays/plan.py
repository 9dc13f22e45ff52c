"""A plan: stages in supersteps, what they move, what they need, what they cost.  Data, the same on every process.

    superstep 1  local           partial x0.T @ x0      2.1e8 flops    peak 4.1 MB/process
    superstep 1  total exchange  partial x0.T @ x0      h = 72 words
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.graph import Graph
from bsp.arrays.orders import Orders
from bsp.arrays.stages import Fetch, Stage, Value, walk
from bsp.cost.model import WORD, Machine
from bsp.header import digest


class Superstep(NamedTuple):
    """What one superstep does; arrays are by process."""

    number: int
    stages: list[Stage]
    fetches: list[Fetch]  # what travels at its end
    flops: np.ndarray
    out: np.ndarray  # words
    into: np.ndarray
    messages: int
    seconds: float

    @property
    def h(self) -> int:
        """The h-relation: the most words any process sends or receives."""
        return int(max(self.out.max(initial=0), self.into.max(initial=0)))


class Plan:
    """All stages of one evaluation; see `planner`."""

    def __init__(
        self, graph: Graph, nprocs: int, machine: Machine, stages: list[Stage], values: list[Value], roots: list[Value]
    ) -> None:
        self.nprocs = nprocs
        self.machine = machine
        self.stages = stages
        self.values = values
        self.roots = roots
        self.asked = graph.asked
        self.last = max([stage.level for stage in stages], default=0)
        for root in roots:
            root.last = self.last
        self.boundaries = max(1, self.last)  # an evaluation ends at least one superstep: that is where all agree
        self.fetches = list(dict.fromkeys(fetch for _, fetch in walk(stages)))
        self._orders: dict[int, Orders] = {}
        self.text = ", ".join(dict.fromkeys(stage.what for stage in stages if stage.out in roots)) or "arrays"
        self.digests = [digest("plan", level, repr(graph.key)) for level in range(self.boundaries)]

    def orders(self, pid: int) -> Orders:
        """What one process does."""
        found = self._orders.get(pid)
        if found is None:
            found = self._orders[pid] = Orders(self, pid)
        return found

    # --------------------------------------------------------------------------------- cost

    @cached_property
    def supersteps(self) -> list[Superstep]:
        """One for each boundary; work after the last boundary belongs to the superstep that follows the plan."""
        found = []
        machine = self.machine
        for level in range(max(self.last + 1, 1)):
            stages = [stage for stage in self.stages if stage.level == level]
            fetches = [fetch for fetch in self.fetches if fetch.level == level + 1 and fetch.moves]
            flops = np.zeros(self.nprocs)
            for stage in stages:
                flops += stage.kernel.flops(stage.tasks.held(self.nprocs))
            out, into = np.zeros(self.nprocs, np.int64), np.zeros(self.nprocs, np.int64)
            for fetch in fetches:
                sent, received = fetch.traffic
                out, into = out + sent, into + received
            out, into = -(-out // WORD), -(-into // WORD)
            messages = max([fetch.messages for fetch in fetches], default=0)
            h = float(max(out.max(initial=0), into.max(initial=0)))
            ends = level < self.boundaries
            price = machine.price(h=h, supersteps=int(ends), messages=messages, w=float(flops.max(initial=0)))
            found.append(Superstep(level, stages, fetches, flops, out, into, messages, price / machine.r))
        return found

    @property
    def words(self) -> int:
        """H: the h-relations of all supersteps, added."""
        return sum(step.h for step in self.supersteps)

    @property
    def flops(self) -> float:
        """W: the most operations of one process in each superstep, added."""
        return float(sum(step.flops.max(initial=0) for step in self.supersteps))

    @property
    def seconds(self) -> float:
        """Predicted time."""
        return sum(step.seconds for step in self.supersteps)

    @cached_property
    def peaks(self) -> np.ndarray:
        """Bytes of arrays that each process holds at the fullest moment, at most, leaves included; by process."""
        most = np.zeros(self.nprocs, np.int64)
        held = {value.number: value.layout.held(self.nprocs) * value.dtype.itemsize for value in self.values}
        until: dict[int, int] = {}
        for stage, fetch in walk(self.stages):
            until[id(fetch)] = max(until.get(id(fetch), 0), stage.level)
        for level in range(self.last + 1):
            live = np.zeros(self.nprocs, np.int64)
            for value in self.values:
                first = 0 if value.leaf >= 0 else value.level
                if first <= level <= value.last or value.leaf >= 0:
                    live += held[value.number]
            for fetch in self.fetches:
                if fetch.moves and fetch.level <= level <= until[id(fetch)]:
                    live += fetch.traffic[1]
                if fetch.moves and fetch.level == level + 1:
                    live += fetch.traffic[0] + fetch.traffic[1]
            passing = np.zeros(self.nprocs, np.int64)
            for stage in self.stages:
                if stage.level == level:
                    points = int(stage.tasks.held(self.nprocs).max(initial=0))
                    here = np.full(self.nprocs, stage.kernel.temporary(points), np.int64)
                    for fetch in stage.fetches:
                        here += fetch.regions_held()
                    passing = np.maximum(passing, here)
            most = np.maximum(most, live + passing)
        return most

    @property
    def peak_bytes(self) -> int:
        """Of the fullest process."""
        return int(self.peaks.max(initial=0))

    def explain(self) -> str:
        """Each superstep: what, where and why, words, operations, memory, time."""
        from bsp.arrays.explain import table

        return table(self)

    def __repr__(self) -> str:
        return f"<plan of {self.text}: {self.boundaries} supersteps, {self.words} words>"

    def cost(self) -> Any:
        """The price in figures."""
        return Cost(self.flops, self.words, self.boundaries, self.peak_bytes, self.seconds, self.machine)


class Cost(NamedTuple):
    """W + g·H + L·S of a plan: operations of the busiest process, words, supersteps, and what they take."""

    W: float
    H: int
    S: int
    peak_bytes: int
    seconds: float
    machine: Machine

    def __str__(self) -> str:
        from bsp.cost.units import in_bytes, in_seconds

        return (
            f"W = {self.W:.3g} flops, H = {self.H} words, S = {self.S}; at most {in_bytes(self.peak_bytes)} a process; "
            f"{in_seconds(self.seconds)} on {self.machine.name}"
        )
