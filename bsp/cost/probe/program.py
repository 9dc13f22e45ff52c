"""The program that `bsp probe` runs on the elements: supersteps of known traffic, timed, in random order.

Of every superstep only the boundary is timed: what a process does between boundaries is its work w.  One
*round* measures every point once, in an order drawn anew; rounds go on until the fit is tight or time is up.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

import bsp
from bsp.cost.probe.fit import Fit, fitted
from bsp.cost.probe.rates import rates
from bsp.processes import Process

SIZES = (8, 64, 512, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)  # bytes in a block
FINE = 4096  # words put one by one
INSIDE = 8  # processes of an element, where traffic inside it is measured
_LEAST_ROUNDS = 8
_SAMPLE = 2e-3  # seconds
_SMALL = 64 << 10  # bytes in a block whose copy into a buffer drowns nothing
_SCRATCH = 1 << 17  # words that a process computes on between boundaries: a megabyte


@dataclass(frozen=True)
class Point:
    """A superstep in which every process puts `count` blocks of `size` bytes to its neighbour.

    kind : "blocks"; "sends": as messages; "cold": as messages that land in new memory; "fine": words one by
        one; "new": it registers a coarray.
    """

    size: int
    count: int
    kind: str = "blocks"


POINTS = (
    Point(0, 0),
    Point(8, 1),
    Point(8, FINE, "fine"),
    Point(0, 0, "new"),
    Point(1 << 20, 2, "sends"),
    Point(1 << 20, 2, "cold"),
    *(Point(size, 64 if size <= 4096 else 8 if size <= 64 << 10 else 2 if size <= 1 << 20 else 1) for size in SIZES),
)


@dataclass
class Measured:
    """What the program brings back: flop/s with all busy, and a fit for each level."""

    rates: dict[str, float]
    inside: Fit
    between: Fit | None
    rounds: int
    tight: bool


def measure(proc: Process, budget: float, live: bool) -> Measured | None:
    """The program, on one process an element; process 0 returns what was measured."""
    told = _Progress(live and proc.pid == 0, budget)
    busy = _rates_all_busy(proc)
    order = np.random.default_rng(1)  # the same on every process
    outer = _Bench(proc) if proc.nprocs > 1 else None
    between: list[list[float]] = []
    inside: list[list[float]] = []
    fits: tuple[Fit, Fit | None] | None = None
    began, tight = perf_counter(), False
    while True:
        turns = order.permutation(len(POINTS)).tolist()
        if outer is not None:
            between.append(_round(outer, turns, proc))
        mine = bsp.run(_inside_round, turns, nprocs=INSIDE)
        inside.append(proc.allreduce(np.array(mine[0]), op="max").tolist())
        rounds = len(inside)
        if rounds >= _LEAST_ROUNDS and rounds % 4 == 0:
            if proc.pid == 0:
                fits = fitted(inside, POINTS, INSIDE), fitted(between, POINTS, 1) if outer is not None else None
                tight = all(fit.tight for fit in fits if fit is not None)
                done = tight or perf_counter() - began > budget
                told.show(perf_counter() - began, rounds, fits[1] or fits[0])
            else:
                done = False
            if proc.broadcast(done):
                break
    told.end()
    if proc.pid != 0:
        return None
    assert fits is not None
    return Measured(busy, fits[0], fits[1], rounds, tight)


def _rates_all_busy(proc: Process) -> dict[str, float]:
    """By class the rate of the slowest element, while all of them compute the same."""
    proc.sync()
    mine = rates(0.15)
    slowest = proc.allreduce(np.array(list(mine.values())), op="min")
    return dict(zip(mine, slowest.tolist(), strict=True))


def _forget_memory() -> None:
    """Give all free memory back to the system, where the C library can: what is taken next is new."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _Bench:
    """What the points need on one process: room to put into, and values to put."""

    def __init__(self, proc: Process, buffered: bool = True) -> None:
        self.proc = proc
        self.buffered = buffered
        self.to = (proc.pid + 1) % proc.nprocs
        self.room = proc.coarray(SIZES[-1] // 8)
        self.values = np.ones(SIZES[-1] // 8)
        self.scratch = np.zeros(_SCRATCH)
        self.where = np.random.default_rng(2).permutation(FINE)
        proc.sync()

    def issue(self, point: Point) -> None:
        """The work of one superstep, which leaves the caches as a program would, and its puts."""
        self.scratch += 1
        if point.kind == "new":
            self.proc.coarray(1).release()
        elif point.kind == "fine":
            self.room.put_each(self.to, self.where, self.values[:FINE])
        elif point.kind in ("sends", "cold"):
            if point.kind == "cold":
                _forget_memory()
            for _ in range(point.count):
                self.proc.send(self.to, self.values[: point.size // 8])
        else:
            words = point.size // 8
            for start in range(0, words * point.count, max(words, 1)):
                block = slice(start, start + words)
                self.room.put(self.to, self.values[block], at=block, buffered=self.buffered or point.size <= _SMALL)

    def times(self, point: Point) -> tuple[float, float, int]:
        """Seconds of some supersteps of a point, those between boundaries among them, and how many they were."""
        moved = 16 * FINE if point.kind == "fine" else point.size * point.count
        repeat = max(2, int(_SAMPLE / (1e-4 + moved * 1e-9)))
        issue, sync = self.issue, self.proc.sync
        issue(point)
        sync()
        own, began = 0.0, perf_counter()
        last = began
        for _ in range(repeat):
            issue(point)
            own += perf_counter() - last
            sync()
            last = perf_counter()
        return last - began, own, repeat


def _round(bench: _Bench, order: Sequence[int], proc: Process) -> list[float]:
    """Seconds of a boundary for each point, the slowest element's."""
    found = np.empty(len(POINTS))
    for k in order:
        wall, own, repeat = bench.times(POINTS[k])
        found[k] = (wall - own) / repeat
    slowest: list[float] = proc.allreduce(found, op="max").tolist()
    return slowest


def _inside_round(proc: Process, order: Sequence[int]) -> list[float]:
    """The same for processes that share an element: the wall clock less what each of them did on its own."""
    # large ones not buffered: copies into buffers are work, and would drown the copies at the boundary
    bench = _Bench(proc, buffered=False)
    walls, owns = np.empty(len(POINTS)), np.empty(len(POINTS))
    for k in order:
        wall, own, repeat = bench.times(POINTS[k])
        walls[k], owns[k] = wall / repeat, own / repeat
    found: list[float] = (proc.allreduce(walls, op="min") - proc.allreduce(owns)).tolist()
    return found


# ------------------------------------------------------------------------------ held out

PATTERNS = ("ring", "scatter", "gather", "all-to-all", "random", "skewed")


def pattern(proc: Process, name: str, words: int, repeat: int) -> list[float]:
    """Some supersteps of a pattern that no fit has seen; the wall clock at each boundary."""
    p, me = proc.nprocs, proc.pid
    size = words
    if name == "ring":
        to = [(me + 1) % p]
    elif name == "scatter":
        to = [k for k in range(p) if k] if me == 0 else []
    elif name == "gather":
        to = [0] if me else []
    elif name == "all-to-all":
        to = [k for k in range(p) if k != me]
    elif name == "random":
        to = np.random.default_rng([3, me]).permutation(p)[:3].tolist()
    else:  # skewed: process 0 sends eight times as much as the others
        to, size = [(me + 1) % p], words if me == 0 else words // 8
    room, values, scratch = proc.coarray(words * p), np.ones(size), np.zeros(_SCRATCH)
    proc.sync()
    clock = [perf_counter()]
    for _ in range(repeat):
        scratch += 1
        for k in to:
            room.put(k, values, at=slice(me * words, me * words + size))
        proc.sync()
        clock.append(perf_counter())
    return clock


class _Progress:
    """A line on a terminal while the probe goes on."""

    def __init__(self, live: bool, budget: float) -> None:
        self._live = live
        self._budget = budget

    def show(self, seconds: float, rounds: int, fit: Fit) -> None:
        """Where it stands."""
        if self._live:
            loosest, width = fit.loosest
            print(
                f"\rbsp probe: {seconds:4.0f} of at most {self._budget:.0f} s, {rounds} rounds, "
                f"widest interval {loosest} ±{width / 2:.0%}   ",
                end="", file=sys.stderr, flush=True,
            )  # fmt: skip

    def end(self) -> None:
        """The line is done."""
        if self._live:
            print(file=sys.stderr, flush=True)
