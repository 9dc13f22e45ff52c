"""The account of a run: it takes sums of supersteps, and returns the record that `trace.schema.json` describes.

It prices what a recorder has added up on the machine, and keeps one row for each superstep and one total for each
process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.cost.model import WORD, Cost, Load, Machine, Traffic, costings
from bsp.cost.terms import OF_MACHINE

if TYPE_CHECKING:
    from bsp.cost.choice import Choice

_MOST_EXCHANGES = 100
INSIDE = "inside an element"


class SuperstepSums(NamedTuple):
    """Sums of S supersteps of some processes; traffic in bytes, because words are rounded after summing."""

    work: np.ndarray  # (S, processes here): seconds
    wall: np.ndarray  # (S,): seconds from the end of the last superstep to the end of this one
    sent: np.ndarray  # (S, p): bytes
    received: np.ndarray  # (S, p): bytes
    messages: np.ndarray  # (S,)
    landed: np.ndarray  # (S, elements): words received into memory of their own: sends, gets, strided puts
    registers: np.ndarray  # (S,): 1 where tables of new coarrays were exchanged
    between: tuple[tuple[Traffic, Traffic], ...]  # for each outer level: out of its ports, and into them
    inside: Traffic
    heat: np.ndarray  # (bins, bins): bytes


def starts(nprocs: int, elements: int) -> list[int]:
    """Return the first pid of each element, and nprocs at the end."""
    return [nprocs * k // elements for k in range(elements + 1)]


class Account:
    """The account of a program of `nprocs` processes on `elements` elements of `machine`."""

    def __init__(self, machine: Machine, nprocs: int, elements: int) -> None:
        self.machine = machine
        self.nprocs = nprocs
        self.elements = elements
        self.told: list[tuple[str | None, str, str, str | None]] = []  # label, call, source, how data travelled
        self._starts = starts(nprocs, elements)
        self._hosted = int(max(np.diff(self._starts)))
        self._highest = np.zeros(elements)  # words that landed in one superstep, by element
        self._columns: list[dict[str, np.ndarray]] = []
        self._work = np.zeros(nprocs)
        self._sent = np.zeros(nprocs, np.int64)
        self._received = np.zeros(nprocs, np.int64)
        bins = min(nprocs, 128)
        self._heat = np.zeros((bins, bins))
        self._end: dict[str, Any] = {"source": "its end", "w": 0.0, "seconds": 0.0, "predicted": 0.0}
        self._choices: list[tuple[int, Choice]] = []
        self._exchanges: Counter[Choice] = Counter()

    def absorb(self, sums: SuperstepSums) -> None:
        """Add the sums of all processes in the next supersteps."""
        work, wall = sums.work, sums.wall
        sent, received = (-(-each.astype(np.int64) // WORD) for each in (sums.sent, sums.received))
        by_element = np.add.reduceat(work, self._starts[:-1], axis=1)
        between = tuple(Traffic(*map(np.maximum, out, into)) for out, into in sums.between)
        busiest = by_element.max(axis=1)
        # received words are in new memory as far as the element has not received so many in an earlier superstep
        highest = np.maximum.accumulate(np.vstack([self._highest, sums.landed]), axis=0)
        fresh, self._highest = np.diff(highest, axis=0), highest[-1]
        r, h = self.machine.r, np.maximum(sent, received).max(axis=1)
        load = Load(busiest * r, between, sums.inside, self._hosted, sums.registers, fresh.max(axis=1))
        predicted = self.machine.price(Cost(work.max(axis=1) * r, h, 1, load=load)) / r
        self._columns.append(
            {
                "w": work.max(axis=1), "w_mean": work.mean(axis=1), "w_by": work.argmax(axis=1),
                "h_sent": sent.max(axis=1), "h_sent_by": sent.argmax(axis=1),
                "h_received": received.max(axis=1), "h_received_by": received.argmax(axis=1),
                "h_mean": sent.mean(axis=1), "messages": sums.messages, "seconds": wall,
                "predicted": predicted, "words_by_level": _by_level(sums.inside, sums.between),
                "compute": busiest, "wait": busiest - by_element.mean(axis=1), "communicate": wall - busiest,
            }
        )  # fmt: skip
        self._work += work.sum(axis=0)
        self._sent += sent.sum(axis=0)
        self._received += received.sum(axis=0)
        self._heat += sums.heat

    def exchanged(self, choice: Choice) -> None:
        """Count how data travelled between elements in the superstep that ends; distinct cases are limited."""
        if choice in self._exchanges or len(self._exchanges) < _MOST_EXCHANGES:
            self._exchanges[choice] += 1

    def end(self, work: np.ndarray, wall: float, choices: list[tuple[int, Choice]]) -> None:
        """Add the work after the last boundary, by process, and all choices made, with their supersteps."""
        if len(work) == self.nprocs:  # else some process failed before
            busiest = float(np.add.reduceat(work, self._starts[:-1]).max())
            self._end = {"source": "its end", "w": float(work.max()), "seconds": wall, "predicted": busiest}
            self._work += work
        self._choices = choices

    def record(self, measured: bool) -> dict[str, Any]:
        """Return the record without its head: see trace.schema.json.

        measured : whether the run was timed; otherwise predicted times take the place of measured ones.
        """
        columns = {name: np.concatenate([part[name] for part in self._columns]) for name in self._columns[0]}
        if not measured:
            columns["seconds"] = columns["predicted"]
            columns["communicate"] = columns["predicted"] - columns["compute"]
            self._end["seconds"] = self._end["predicted"]
        choices, of_superstep = self._distinct_choices()
        rows = []
        for k, values in enumerate(zip(*(column.tolist() for column in columns.values()), strict=True)):
            label, call, source, moved = self.told[k]
            row = {"superstep": k, "label": label, "call": call, "source": source}
            row |= dict(zip(columns, values, strict=True))
            row |= {"choice": of_superstep.get(k), "schedule": moved}
            rows.append(row)
        h = np.maximum(columns["h_sent"], columns["h_received"])
        g, L, r = self.machine.g, self.machine.L, self.machine.r
        W = (float(columns["compute"].sum()) + self._end["predicted"]) * r
        cost = Cost(W, int(h.sum()), len(rows), machine=self.machine)
        own = self._work + g / r * np.maximum(self._sent, self._received)
        w_pairs = [*zip(columns["w"].tolist(), columns["w_mean"].tolist(), strict=True)]
        w_pairs.append((self._end["w"], self._end["w"]))
        h_pairs = zip(h.tolist(), columns["h_mean"].tolist(), strict=True)
        return {
            "processes": self.nprocs, "elements": self.elements, "supersteps": len(rows),
            "words": cost.H, "messages": int(columns["messages"].sum()),
            "levels": [self.machine.inside.name if self.machine.inside else INSIDE]
            + [level.name for level in self.machine.outer],
            "words_by_level": columns["words_by_level"].sum(axis=0).tolist(),
            "seconds": float(columns["seconds"].sum()) + self._end["seconds"],
            "predicted_seconds": float(columns["predicted"].sum()) + self._end["predicted"],
            "machine": described(self.machine),
            "per_superstep": rows, "end": self._end,
            "per_process": {
                "w": self._work.tolist(), "sent": self._sent.tolist(), "received": self._received.tolist(),
            },
            "traffic": {
                "bins": len(self._heat),
                "words": (self._heat / WORD).tolist(),
            },
            "choices": choices,
            "costings": costings(w_pairs, h_pairs, own.tolist(), g / r, L / r),
            "classical": {"W": W, "H": cost.H, "S": cost.S, "g": g, "L": L, "total": cost.price()},
            "balance": cost.balance(),
        }  # fmt: skip

    def _distinct_choices(self) -> tuple[list[dict[str, Any]], dict[int, int]]:
        """Return the distinct choices, and by superstep the index of its choice."""
        index: dict[Choice, int] = {}
        of_superstep: dict[int, int] = {}
        times: Counter[Choice] = Counter()
        for superstep, choice in sorted(self._choices, key=lambda made: (made[0], -len(made[1].priced))):
            if superstep not in of_superstep:  # the choice that lists prices comes first
                of_superstep[superstep] = index.setdefault(choice, len(index))
                times[choice] += 1
        times.update(self._exchanges)
        r = self.machine.r
        return [
            {
                "call": choice.call, "chosen": choice.chosen, "forced": choice.forced,
                "priced": {name: flops / r for name, flops in choice.priced}, "times": times[choice],
            }
            for choice in [*index, *self._exchanges]
        ], of_superstep  # fmt: skip


def _by_level(inside: Traffic, between: Sequence[tuple[Traffic, Traffic]]) -> np.ndarray:
    """Return the words that cross each level in each superstep, of all processes, as (supersteps, levels)."""
    words = [(traffic.words + traffic.fine).sum(axis=1) for traffic in (inside, *(out for out, _ in between))]
    found: np.ndarray = np.ceil(np.stack(words, axis=1)).astype(np.int64)
    return found


def described(machine: Machine) -> dict[str, Any]:
    """Return the description of a machine in a record."""
    return {name: getattr(machine, name) for name in ("name", "kind", "p", "r", *(term.name for term in OF_MACHINE))}
