"""The program that `bsp probe` runs on the elements: supersteps of known traffic, timed in random order.

Only the boundary of a superstep is timed: what a process does between boundaries is its work w.  One *round* measures
every point once, in a new random order.  Rounds are repeated until the fit is tight or the time has passed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

import bsp
from bsp.cost.probe.fit import FittedRates, ProbePoint, fitted
from bsp.cost.probe.rates import rates
from bsp.processes import Process

SIZES = (8, 64, 512, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)  # bytes in a block
FINE = 4096  # words put one by one
INSIDE = 8  # processes of an element for the traffic inside it
_LEAST_ROUNDS = 8
_RATE = 0.02  # seconds in which a rate is measured in a round
_SAMPLE = 2e-3  # seconds that one measurement of a point lasts, about
_SMALL = 64 << 10  # bytes in the largest block whose copy into a buffer takes little time
_SCRATCH = 1 << 17  # words that a process computes on between boundaries: a megabyte


POINTS = (
    ProbePoint(0, 0),
    ProbePoint(8, 1),
    ProbePoint(8, FINE, "fine"),
    ProbePoint(0, 0, "new"),
    ProbePoint(1 << 20, 2, "sends"),
    ProbePoint(1 << 20, 2, "cold"),
    *(
        ProbePoint(size, 64 if size <= 4096 else 8 if size <= 64 << 10 else 2 if size <= 1 << 20 else 1)
        for size in SIZES
    ),
)


@dataclass
class Measured:
    """The result of the program: flop/s with all elements busy, as in most rounds, and a fit for each level."""

    rates: dict[str, float]
    inside: FittedRates | None
    between: FittedRates | None
    rounds: int
    tight: bool


def measure(proc: Process, budget: float, live: bool, inside_too: bool = True) -> Measured | None:
    """Measure, on one process of each element; return the result on process 0 and None elsewhere.

    budget : seconds after which no round begins.
    live : show a live line.
    inside_too : measure the level inside an element too, beside that between elements.
    """
    told = _Progress(live and proc.pid == 0, budget)
    busy: list[dict[str, float]] = []
    order = np.random.default_rng(1)  # the same on every process
    outer = _Bench(proc) if proc.nprocs > 1 else None
    between: list[list[float]] = []
    inside: list[list[float]] = []
    fits: tuple[FittedRates | None, FittedRates | None] = None, None
    began, tight, rounds = perf_counter(), False, 0
    while True:
        turns = order.permutation(len(POINTS)).tolist()
        busy.append(_rates_all_busy(proc))
        if outer is not None:
            between.append(_round(outer, turns, proc))
        if inside_too:
            mine = bsp.run(_inside_round, turns, nprocs=INSIDE)
            inside.append(proc.allreduce(np.array(mine[0]), op="max").tolist())
        rounds += 1
        if rounds >= _LEAST_ROUNDS and rounds % 4 == 0:
            if proc.pid == 0:
                fits = (
                    fitted(inside, POINTS, INSIDE) if inside_too else None,
                    fitted(between, POINTS, 1) if outer is not None else None,
                )
                known = [fit for fit in fits if fit is not None]
                tight = all(fit.tight for fit in known)
                done = tight or perf_counter() - began > budget
                told.show(perf_counter() - began, rounds, known[-1])
            else:
                done = False
            if proc.broadcast(done):
                break
    told.end()
    if proc.pid != 0:
        return None
    typical = {kind: median(each[kind] for each in busy) for kind in busy[0]}
    return Measured(typical, *fits, rounds, tight)


def _rates_all_busy(proc: Process) -> dict[str, float]:
    """Return by class the rate of the slowest element while all compute the same."""
    proc.sync()
    mine = rates(_RATE)
    slowest = proc.allreduce(np.array(list(mine.values())), op="min")
    return dict(zip(mine, slowest.tolist(), strict=True))


def _forget_memory() -> None:
    """Return all free memory to the system, if the C library can, so that what is allocated next is new."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _Bench:
    """The memory that points need on one process: room to put into, and values to put."""

    def __init__(self, proc: Process, buffered: bool = True) -> None:
        self.proc = proc
        self.buffered = buffered
        self.to = (proc.pid + 1) % proc.nprocs
        self.room = proc.coarray(SIZES[-1] // 8)
        self.values = np.ones(SIZES[-1] // 8)
        self.scratch = np.zeros(_SCRATCH)
        self.where = np.random.default_rng(2).permutation(FINE)
        proc.sync()

    def issue(self, point: ProbePoint) -> None:
        """Do the work of one superstep, which leaves the caches as a program would, and issue its traffic."""
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

    def times(self, point: ProbePoint) -> tuple[float, float, int]:
        """Run some supersteps of a point; return their seconds, those of work among them, and their number."""
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
    """Return for each point the seconds of a boundary on the slowest element."""
    found = np.empty(len(POINTS))
    for k in order:
        wall, own, repeat = bench.times(POINTS[k])
        found[k] = (wall - own) / repeat
    slowest: list[float] = proc.allreduce(found, op="max").tolist()
    return slowest


def _inside_round(proc: Process, order: Sequence[int]) -> list[float]:
    """Return the same for processes that share an element: process 0's wall clock less the work of all of them."""
    # large blocks are not buffered: copies into buffers are work, and take longer than the copies at the boundary
    bench = _Bench(proc, buffered=False)
    walls, owns = np.empty(len(POINTS)), np.empty(len(POINTS))
    for k in order:
        wall, own, repeat = bench.times(POINTS[k])
        walls[k], owns[k] = wall / repeat, own / repeat
    # process 0 has the first turn of each superstep, so the work of all processes lies within its time
    found: list[float] = (proc.broadcast(walls) - proc.allreduce(owns)).tolist()
    return found


# ------------------------------------------------------------------------------ held out

PATTERNS = ("ring", "scatter", "gather", "all-to-all", "random", "skewed")


def pattern(proc: Process, name: str, words: int, repeat: int) -> list[float]:
    """Run some supersteps of a pattern that the fit has not used; return the wall clock at each boundary."""
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
    """The live line of the probe on a terminal."""

    def __init__(self, live: bool, budget: float) -> None:
        self._live = live
        self._budget = budget

    def show(self, seconds: float, rounds: int, fit: FittedRates) -> None:
        """Update the line."""
        if self._live:
            loosest, width = fit.loosest
            print(
                f"\rbsp probe: {seconds:4.0f} of at most {self._budget:.0f} s, {rounds} rounds, "
                f"widest interval {loosest} ±{width / 2:.0%}   ",
                end="", file=sys.stderr, flush=True,
            )  # fmt: skip

    def end(self) -> None:
        """End the line."""
        if self._live:
            print(file=sys.stderr, flush=True)
