"""A few processes that stand for all of a very wide world, in a run without values.

Tens of thousands of processes do nearly the same.  So a few of them run: the first and the last ones, which often have
no neighbour on one side, and some from the middle.  Each process that does not run is taken to do what an *alike* one
does: with the same sizes, and to processes at the same distance.  Where most of those that run send to one process, as
to a root, the others are taken to send there, too; likewise where each sends to the one opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from bsp.cost.record.recorder import Exchanged
from bsp.errors import BspError
from bsp.values.effects import Effect, Get, Send

WIDE = 1000  # with more processes, predictions without values run a sample
_ENDS = 3  # processes at each end that run, and stand for themselves alone
_MIDDLE = (0.236, 0.618)  # where in the middle others run: an even pid and an odd one
_SHIFTED, _MIRRORED, _ROOTED = range(3)  # others send as far as this one, or where it is mirrored, or to the same one
_LISTED = 4_000_000  # pairs of processes with traffic that are listed one by one


class CannotStand(BspError, ValueError):
    """An error for a call whose effect on all processes does not follow from what a few of them do."""


class Sent(NamedTuple):
    """A message, a put or a request."""

    source: int
    dests: Sequence[int]
    size: int  # bytes
    kind: int  # how it travels, as the recorder numbers it


class Sample:
    """The processes that run, and whom each of them stands for."""

    def __init__(self, nprocs: int) -> None:
        self.nprocs = nprocs
        ends = range(min(_ENDS, nprocs)), range(max(0, nprocs - _ENDS), nprocs)
        middle = [2 * round(share * nprocs / 2) + odd for odd, share in enumerate(_MIDDLE)]
        inside = [pid for pid in middle if _ENDS <= pid < nprocs - _ENDS]
        self.pids = sorted({*ends[0], *ends[1], *inside})
        self.place = {pid: k for k, pid in enumerate(self.pids)}
        self.alike = np.arange(nprocs)  # for each process the one that runs and stands for it
        for pid in inside:
            self.alike[_ENDS : nprocs - _ENDS][np.arange(_ENDS, nprocs - _ENDS) % 2 == pid % 2] = pid
        if len({pid % 2 for pid in inside}) < 2:
            self.pids = list(range(nprocs))
            self.place = {pid: pid for pid in self.pids}
            self.alike = np.arange(nprocs)
        self.index = np.searchsorted(self.pids, self.alike)  # its number among those that run
        self.of = {pid: np.flatnonzero(self.alike == pid) for pid in self.pids}

    def everybodys(self, values: Sequence[Any]) -> list[Any]:
        """Return a value for each process, of one for each process that runs."""
        return [values[k] for k in self.index.tolist()]

    def exchanged(self, sent: Sequence[Sent]) -> Exchanged:
        """Return the traffic of all processes, of what those that run send."""
        source, dest, size, kind, rule = self._flat(sent)
        found = []
        out, into = np.zeros(self.nprocs, np.int64), np.zeros(self.nprocs, np.int64)
        messages = 0
        for pid in self.pids:
            own, others = source == pid, self.of[pid]
            for each in (_SHIFTED, _ROOTED, _MIRRORED):
                chosen = own & (rule == each)
                if each == _ROOTED and int(chosen.sum()) * len(others) > _LISTED:
                    volume = np.bincount(dest[chosen], size[chosen], self.nprocs).astype(np.int64)
                    out[others] += int(volume.sum()) - volume[others]  # to itself it sends nothing
                    into += len(others) * volume
                    into[others] -= volume[others]
                    messages += len(others) * int(chosen.sum()) - int(np.isin(others, dest[chosen]).sum())
                    continue
                to = _to(each, others[:, None], pid, dest[chosen])
                columns = others[:, None], to, size[chosen], kind[chosen]
                rows = np.stack([np.broadcast_to(column, to.shape) for column in columns], axis=-1)
                found.append(rows[(to >= 0) & (to < self.nprocs)])
        return Exchanged(np.concatenate([np.zeros((0, 4), np.int64), *found]), out, into, messages)

    def _flat(self, sent: Sequence[Sent]) -> tuple[np.ndarray, ...]:
        """Return source, destination, bytes, kind of each pair, and the rule by which those alike send, too."""
        counts = [len(each.dests) for each in sent]
        source, size, kind = (
            np.repeat(np.array(column, np.int64), counts)
            for column in ([each.source for each in sent], [each.size for each in sent], [each.kind for each in sent])
        )
        dest = np.fromiter(chain.from_iterable(each.dests for each in sent), np.int64, sum(counts))
        most = max(2, len(np.unique(source)) // 2)
        rule = np.full(len(dest), _SHIFTED)
        for number, place in ((_MIRRORED, source + dest), (_ROOTED, dest)):  # where most processes agree
            pairs = np.unique(source * 2 * self.nprocs + place)
            common = np.bincount(pairs % (2 * self.nprocs), minlength=2 * self.nprocs) > most
            rule[common[place]] = number
        return source, dest, size, kind, rule

    def among(self, effects: Sequence[Effect]) -> list[Effect]:
        """Return what reaches the processes that run, when all do as these: messages by source, and their own gets.

        Puts change nothing in a run without values.  A process that does not run answers a get as the alike one.
        """
        sends = [effect for effect in effects if isinstance(effect, Send)]
        gets: list[Effect] = [
            replace(effect, dest=int(self.alike[effect.dest])) for effect in effects if isinstance(effect, Get)
        ]
        source, dest, number, _, rule = self._flat(
            [Sent(each.source, each.dests, k, 0) for k, each in enumerate(sends)]
        )
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # messages by source, receiver, and the one alike
        for pid in self.pids:
            (rooted,) = np.nonzero((rule == _ROOTED) & (dest == pid))
            for k in rooted.tolist():
                others = self.of[int(source[k])]
                found.append((others, np.full(len(others), pid), np.full(len(others), number[k])))
            sender = np.where(rule == _SHIFTED, pid - dest + source, source + dest - pid)
            (inside,) = np.nonzero((rule != _ROOTED) & (sender >= 0) & (sender < self.nprocs))
            rows = inside[self.alike[sender[inside]] == source[inside]]
            found.append((sender[rows], np.full(len(rows), pid), number[rows]))
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.lexsort((columns[2], columns[0]))
        return gets + [
            replace(sends[k], source=q, dests=(pid,))
            for q, pid, k in zip(*[column[order].tolist() for column in columns], strict=True)
        ]


def _to(rule: int, others: np.ndarray, pid: int, dest: np.ndarray) -> np.ndarray:
    """Return where others send, when process `pid` sends to `dest`."""
    found: np.ndarray
    if rule == _ROOTED:
        found = 0 * others + dest
    else:
        found = dest + (others - pid) if rule == _SHIFTED else dest - (others - pid)
    return found
