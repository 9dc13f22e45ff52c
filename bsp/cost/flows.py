"""Traffic between very many processes as groups in which every sender has something for every receiver.

An exchange in which all p processes send to all has p² pairs.  Its regular ones need no list of pairs: senders and
receivers fall into groups, and what one sends to another is a product of a number of the sender's and one of the
receiver's.  Sums over processes, hosts and levels follow from the groups, in time and memory of the order of p.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np


class FlowEnds(NamedTuple):
    """The senders of a flow, or its receivers: arrays of one length."""

    group: np.ndarray
    pid: np.ndarray  # in each group, each at most once
    pieces: np.ndarray
    size: np.ndarray  # elements
    piece: np.ndarray  # receivers of a group that have this number in common get the same pieces


class Flow(NamedTuple):
    """The pieces of an array that move: in each group each sender sends to each receiver, except to itself.

    It sends `sender.pieces * receiver.pieces` pieces of together `sender.size * receiver.size` elements.
    """

    groups: int
    senders: FlowEnds
    receivers: FlowEnds

    def sums(self, nprocs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return by process the elements that it sends and receives, and the pieces that it sends."""
        _, senders, receivers = self
        mine, theirs = _both(senders, receivers, nprocs)
        out, into = _totals(senders.size, receivers.size, self), _totals(receivers.size, senders.size, self.back)
        sent = _totals(senders.pieces, receivers.pieces, self)
        out, into, sent = (
            np.bincount(ends.pid, total, nprocs) for ends, total in ((senders, out), (receivers, into), (senders, sent))
        )
        if len(mine):  # to itself
            pid = senders.pid[mine]
            kept = np.bincount(pid, senders.size[mine] * receivers.size[theirs], nprocs)
            out, into = out - kept, into - kept
            sent = sent - np.bincount(pid, senders.pieces[mine] * receivers.pieces[theirs], nprocs)
        return out.astype(np.int64), into.astype(np.int64), sent.astype(np.int64)

    @property
    def back(self) -> Flow:
        """The way back of all that moves."""
        return Flow(self.groups, self.receivers, self.senders)


def _totals(from_each: np.ndarray, to_each: np.ndarray, flow: Flow) -> np.ndarray:
    """Return what each sender sends to all receivers of its group, itself among them."""
    total: np.ndarray = from_each * np.bincount(flow.receivers.group, to_each, flow.groups)[flow.senders.group]
    return total


def _both(a: FlowEnds, b: FlowEnds, nprocs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of both at which a process is at both ends of a group."""
    if not len(b.pid):
        return b.pid, b.pid
    wanted, known = a.group * nprocs + a.pid, b.group * nprocs + b.pid
    order = known.argsort(kind="stable")
    known = known[order]
    at = known.searchsorted(wanted)
    at[at == len(known)] = 0
    (rows,) = (known[at] == wanted).nonzero()
    return rows, order[at[rows]]


def _near(ends: FlowEnds, others: FlowEnds, port: np.ndarray) -> np.ndarray:
    """Return what each end exchanges with all others of its group that have its port: pieces and elements."""
    count = int(port.max(initial=0)) + 1
    known, at = np.unique(others.group * count + port[others.pid], return_inverse=True)
    wanted = ends.group * count + port[ends.pid]
    place = known.searchsorted(wanted)
    found = np.zeros((2, len(wanted)))
    (here,) = np.isin(wanted, known).nonzero()
    for what, (mine, theirs) in enumerate(((ends.pieces, others.pieces), (ends.size, others.size))):
        found[what, here] = mine[here] * np.bincount(at, theirs, len(known))[place[here]]
    return found


class LevelCrossing(NamedTuple):
    """The pieces and bytes that leave and enter each port of a level."""

    blocks_out: np.ndarray
    bytes_out: np.ndarray
    blocks_into: np.ndarray
    bytes_into: np.ndarray


class Flows:
    """All that moves in one superstep: flows, with the bytes of an element of each."""

    def __init__(self, nprocs: int, flows: Sequence[tuple[Flow, int]]) -> None:
        self.nprocs = nprocs
        self.flows = flows

    @cached_property
    def traffic(self) -> tuple[np.ndarray, np.ndarray]:
        """Bytes that each process sends and receives."""
        out, into = np.zeros((2, self.nprocs), np.int64)
        for flow, itemsize in self.flows:
            sent, received, _ = flow.sums(self.nprocs)
            out, into = out + sent * itemsize, into + received * itemsize
        return out, into

    @cached_property
    def messages(self) -> int:
        """The number of ordered pairs of processes of which one sends to the other.

        Senders that are in the same groups of all flows reach the same receivers, which are found once for all of them.
        """
        p = self.nprocs
        shift = np.concatenate([[0], np.cumsum([flow.groups for flow, _ in self.flows], dtype=np.int64)])
        group, source = self._joined([flow.senders for flow, _ in self.flows], shift)
        order = np.lexsort((group, source))
        senders, first = np.unique(source[order], return_index=True)
        kinds: dict[bytes, int] = {}  # by the groups of a sender
        members: list[np.ndarray] = []  # those groups
        kind = np.empty(len(senders), np.int64)
        for k, own in enumerate(np.split(group[order], first)[1:]):
            kind[k] = kinds.setdefault(own.tobytes(), len(members))
            if kind[k] == len(members):
                members.append(own)
        of = np.repeat(np.arange(len(members)), [len(own) for own in members])
        at = np.concatenate([np.zeros(0, np.int64), *members])
        group, dest = self._joined([flow.receivers for flow, _ in self.flows], shift)
        order = np.argsort(group, kind="stable")
        begin, end = np.searchsorted(group[order], [at, at + 1])
        count = end - begin
        rows = np.arange(count.sum()) + np.repeat(begin - (np.cumsum(count) - count), count)
        reached = np.unique(np.repeat(of, count) * p + dest[order[rows]])
        each = np.bincount(reached // p, minlength=len(members))
        to_itself = np.isin(kind * p + senders, reached)
        return int(each[kind].sum()) - int(np.count_nonzero(to_itself))

    @staticmethod
    def _joined(ends: Sequence[FlowEnds], shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups and processes of all flows; groups are numbered on from flow to flow."""
        none = np.zeros(0, np.int64)
        groups = [each.group + first for each, first in zip(ends, shift.tolist(), strict=False)]
        return np.concatenate([none, *groups]), np.concatenate([none, *[each.pid for each in ends]])

    def crossing(
        self, owner: np.ndarray, ports: Sequence[np.ndarray], each_receiver: bool = False
    ) -> tuple[list[LevelCrossing], np.ndarray, np.ndarray]:
        """Return what crosses each level, and for each element the copies made in it and their bytes.

        A piece crosses once to each element in which it has receivers, and is copied there for all but the first of
        them; inside its own element it is copied for each.  What crosses a wider level as well counts there only.

        owner : the element of each process, ascending.  ports : for each level the port of each element, inner first.
        each_receiver : count a piece that crosses once for each of its receivers.
        """
        elements = int(owner[-1]) + 1
        nested = [np.arange(elements), *ports, np.zeros(elements, np.int64)]
        sums = [np.zeros((4, int(each[-1]) + 1)) for each in ports]
        copies = np.zeros((2, elements))
        for flow, itemsize in self.flows:
            scale = np.array([[1], [itemsize]])
            senders = flow.senders._replace(pid=owner[flow.senders.pid])
            receivers = flow.receivers._replace(pid=owner[flow.receivers.pid])
            if not each_receiver:
                receivers = _once(receivers)
            for end, (ends, others) in enumerate(((senders, receivers), (receivers, senders))):
                near = [scale * _near(ends, others, port) for port in nested]
                for k, port in enumerate(ports):
                    beyond = near[k + 2] - near[k + 1]
                    for what in (0, 1):
                        sums[k][2 * end + what] += np.bincount(port[ends.pid], beyond[what], sums[k].shape[1])
            size, _, pieces = flow.back.sums(self.nprocs)
            for what, received in enumerate((pieces, itemsize * size)):
                crossed = near[-1][what] - near[0][what]
                copies[what] += np.bincount(owner, received, elements) - np.bincount(receivers.pid, crossed, elements)
        return [LevelCrossing(*each) for each in sums], copies[0], copies[1]


def _once(receivers: FlowEnds) -> FlowEnds:
    """Return receivers of which each gets a piece once, in order of groups, pieces and receivers."""
    rows = np.lexsort((receivers.pid, receivers.piece, receivers.group))
    group, piece, pid = receivers.group[rows], receivers.piece[rows], receivers.pid[rows]
    new = np.ones(len(rows), bool)
    new[1:] = (np.diff(group) != 0) | (np.diff(piece) != 0) | (np.diff(pid) != 0)
    return FlowEnds(*[each[rows[new]] for each in receivers])
