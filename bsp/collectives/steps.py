"""The supersteps of a collective: private messages between the ranks that take part.

A collective is one boundary of its caller: the first of its supersteps delivers the caller's puts, gets and messages,
and the others deliver none (B1).  All processes take every superstep, also those outside the group, so several groups
may work at the same time.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.engine.task import Call
from bsp.errors import CannotSend, CollectiveMistake, NoSuchProcess, ShapeError, SyncMismatch
from bsp.source import here
from bsp.transport.header import digest
from bsp.transport.packet import DIRECT_BYTES
from bsp.values.effects import Row, Send
from bsp.values.payload import Packed, Weighed, array_out, as_array, dumps, is_abstract, is_array, loads, size_of
from bsp.values.records import ARRAY, VALUE, address_of

if TYPE_CHECKING:
    from bsp.cost.choice import Choice
    from bsp.engine.pool import Pool
    from bsp.engine.task import Context
    from bsp.processes import Process

_NOBODY = -2  # a rank that no process has; -1 is that of processes outside the group


class Steps:
    """One call of a collective on one process: its supersteps, and the ranks of the processes that take part.

    text : the call as messages show it.  agreed : what must be equal on all processes, beside `text`.
    """

    __slots__ = (
        "_agreed",
        "_channel",
        "_choice",
        "_group_tag",
        "_taken",
        "_task",
        "all_take_part",
        "hint",
        "me",
        "n",
        "note",
        "owns",
        "pool",
        "proc",
        "ranks",
        "text",
    )  # fmt: skip

    def __init__(self, proc: Process, text: str, group: Sequence[int] | None, *agreed: Any) -> None:
        self.proc = proc
        self._task = proc._task
        self._channel = proc._task.contexts[1]
        self.text = text if group is None else f"{text} of a group"
        self._agreed = (self.text, proc._context.id, *agreed)
        self._taken = 0
        self.hint = 0
        self.note: Any = None
        self.pool: Pool | None = None  # what the processes gave to all in the last superstep
        self.all_take_part = group is None
        self.owns = True  # whether arrays that arrived in the last superstep are this process's own
        self._choice: Choice | None = None
        self.ranks: Sequence[int] = range(proc.nprocs)
        self._group_tag: bytes | None = None
        self.me: int = proc.pid
        if group is not None:
            self.ranks = checked_group(proc, text, group)
            self._group_tag = digest("group", *self.ranks)
            self.me = self.ranks.index(proc.pid) if proc.pid in self.ranks else -1
        self.n: int = len(self.ranks)

    @property
    def takes_part(self) -> bool:
        """True if this process takes part in the data."""
        return self.me >= 0

    def post(self, ranks: Iterable[int], value: Packed, note: Any = None, kept: bool = False) -> None:
        """Queue a private message to these ranks.  `value` is not copied, so it must not change before `step`.

        kept : the only receiver is this process, which reads what arrives before its program goes on.
        """
        dests = tuple(self.ranks[rank] for rank in ranks)
        array, pickled = (None, value) if isinstance(value, bytes) else (value, None)
        tag = None if note is None and self._group_tag is None else dumps((self._group_tag, note))
        if dests:
            self._channel.outbox.send(
                self.proc.pid, dests, self._channel.id, tag, array, pickled, borrowed=array is not None, kept=kept
            )

    def post_to_all(self, value: Packed, first: int = 0, lent: bool = True) -> None:
        """Queue the same private message to all ranks from `first` on; an element keeps it once (`bsp.engine.pool`).

        Where other processes are left out, every receiver gets a message of its own.
        lent : whether the program may change `value` while processes here still read it.
        """
        if self.all_take_part:
            give_to_all(self._channel, self.me, first, self.n, value, lent)
        else:
            self.post(range(first, self.n), value)

    def post_each(self, values: Sequence[Packed]) -> None:
        """Queue a private message to each rank; small pickles for all processes stay together (`bsp.engine.pool`)."""
        if self.all_take_part and set(map(type, values)) == {bytes} and max(map(len, values)) < DIRECT_BYTES:
            self.post_row(list(values))
            return
        for rank, value in enumerate(values):
            self.post([rank], value)

    def post_row(self, values: list[Any]) -> None:
        """Queue a small pickle or a number for each process, all of which take part."""
        self._channel.outbox.effects.append(Row(self.me, 0, self._channel.id, values))

    def land(self, places: Sequence[np.ndarray]) -> None:
        """Name the memory, by rank, into which the next step may receive arrays that come from other elements."""
        self._channel.landings = {pid: [place] for pid, place in zip(self.ranks, places, strict=True)}

    def call(self) -> Call:
        """Return the boundary of the next step."""
        contexts = (self.proc._context, self._channel) if self._taken == 0 else (self._channel,)
        return Call(self.text, _digest(*self._agreed, self._taken), contexts)

    def step(self, hint: int = 0) -> dict[int, Packed]:
        """End a superstep; return what arrived, by rank.  Collective: all processes call it.

        What was given to all is shared with the other processes here: `own` unpacks it, or makes a copy.  Afterwards
        `self.hint` is the largest hint of all processes, and `self.note` the last note that arrived.
        """
        call = self.call()
        call.hint = hint
        if self._taken == 0:
            self._choice = self._task.choice
        self._task.choice = self._choice
        self._taken += 1
        self.hint = self._task.boundary(call)
        pool = self.pool = self._task.element.pool
        self.owns = pool is None or pool.take()
        if self._channel.landings:
            self._channel.landings = {}
        if pool is not None and pool.packed:
            return pool.packed
        arrived, self._channel.arrived = self._channel.arrived, []
        found: dict[int, Packed] = {} if pool is None else pool.column(self.me)
        for source, tag, array, pickled in arrived:
            group_tag, note = (None, None) if tag is None else pickle.loads(tag)
            if group_tag != self._group_tag:
                raise self.failed(self._not_one_group(f"process {source} sends to process {self.proc.pid} in another"))
            if note is not None:
                self.note = note
            found[self.ranks.index(source)] = array if pickled is None else pickled
        return found

    def own(self, packed: Packed) -> Any:
        """Return the value that arrived, unpacked, as this process's own."""
        return loads(packed) if isinstance(packed, bytes) else packed if self.owns else packed.copy()

    def agree(self, *what: Any) -> None:
        """Name what all members of a group must give alike, beside the group: it travels with what they send."""
        if self._group_tag is not None:
            self._group_tag = digest("group", self._group_tag.hex(), *what)

    def of_all(self, arrived: dict[int, Packed], count: int | None = None) -> list[Packed]:
        """Return what ranks 0..count-1 sent, in their order; None: all ranks.  Raises SyncMismatch as `expect` does."""
        wanted = range(self.n if count is None else count)
        self.expect(arrived, wanted)
        return [arrived[rank] for rank in wanted]

    def expect(self, arrived: dict[int, Packed], ranks: Iterable[int]) -> None:
        """Raise SyncMismatch if one of `ranks` has sent nothing, because it named another group."""
        if len(arrived) == self.n:
            return
        missing = [self.ranks[rank] for rank in ranks if rank not in arrived]
        if missing:
            raise self.failed(
                self._not_one_group(f"process {missing[0]} sends nothing to process {self.proc.pid} in this")
            )

    def failed(self, mistake: CollectiveMistake) -> CollectiveMistake:
        """Return a mistake that only this process sees, to be raised; the others raise it at the next boundary (B6)."""
        self._task.fault = mistake
        return mistake

    def _not_one_group(self, what: str) -> SyncMismatch:
        return SyncMismatch(
            f"{self.text} at {here()}: {what} group; all members of a group must name the same group "
            "and root, and combine arrays of one shape and dtype "
            f"(superstep {self._task.element.superstep})"
        )


def give_to_all(channel: Context, source: int, first: int, stop: int, value: Packed, lent: bool) -> None:
    """Queue a private message to the processes first..stop-1; see `Steps.post_to_all`."""
    data = None if isinstance(value, bytes) else array_out(value)
    if data is not None:
        give_record(channel, ARRAY, source, first, stop, data)
    elif type(value) is bytes and len(value) < DIRECT_BYTES:
        give_record(channel, VALUE, source, first, stop, value)
    else:
        array, pickled = (None, value) if isinstance(value, bytes) else (value, None)
        borrowed = lent and array is not None
        effect = Send(source, range(first, stop), channel.id, None, array, pickled, borrowed=borrowed, pooled=True)
        channel.outbox.effects.append(effect)


def give_record(channel: Context, kind: int, source: int, first: int, stop: int, data: bytes) -> None:
    """Queue a small value for the processes first..stop-1: as VALUE a pickle, as ARRAY `array_out`."""
    channel.outbox.effects.append((kind, first, address_of(channel.id, 0, source), stop, data, None))


@lru_cache(maxsize=1024)
def _digest(*agreed: Any) -> bytes:
    return digest(*agreed)


def as_int(number: Any) -> Any:
    """Return an integer of any kind as an int, so that equal ones show alike; a bool, and anything else, as it is."""
    if type(number) is int or isinstance(number, bool):
        return number
    try:
        return operator.index(number)
    except TypeError:
        return number


def checked_group(proc: Process, text: str, group: Sequence[int]) -> list[int]:
    """Return the pids of a group.  Raises NoSuchProcess if one is none, or is named twice, or there are none."""
    if not np.iterable(group):
        raise NoSuchProcess(f"{text} with group={group!r}: a group is a list of pids{proc._place()}")
    ranks = [as_int(pid) for pid in group]
    wrong = [pid for pid in ranks if type(pid) is not int or not 0 <= pid < proc.nprocs]
    if wrong or len(set(ranks)) != len(ranks) or not ranks:
        what = f"process {wrong[0]!r} is none" if wrong else "a group names each process once and at least one"
        raise NoSuchProcess(f"{text} with group={ranks}: {what}; pids are 0..{proc.nprocs - 1}{proc._place()}")
    return ranks


def check_one_for_each(proc: Process, text: str, values: Any, n: int) -> None:
    """Raise ShapeError unless `values` is a sequence of one value for each of the n processes that take part.

    A dict would give its keys, and a set its elements in an order of its own.
    """
    try:
        what = type(values).__name__ if isinstance(values, (Mapping, Set)) else f"{len(values)} values"
    except TypeError:  # it has no length
        what = "None" if values is None else type(values).__name__
    if what != f"{n} values":
        raise ShapeError(f"{text} of {what} for {n} processes: one value for each, in a list{proc._place()}")


def root_rank(steps: Steps, root: int) -> int:
    """Return the rank of the root (`as_int`); on a process outside the group a number that no process has.

    Raises NoSuchProcess if the root does not take part.
    """
    if not steps.takes_part:
        return _NOBODY
    if type(root) is not int or root not in steps.ranks:
        raise NoSuchProcess(
            f"{steps.text}: root {root!r} is not one of the processes that take part{steps.proc._place()}"
        )
    steps.agree("root", root)
    return steps.ranks.index(root)


def pack(value: Any, proc: Process, text: str) -> Packed:
    """Return a value as it travels: a pickle, or an array, which may be the caller's own memory.

    The first superstep applies the puts that were pending, which may write over that memory (B1): what is needed
    after it must be an `own_copy`.  Raises CannotSend if the value cannot be pickled.
    """
    if is_array(value):
        if is_abstract(value):
            return as_array(value) if value.flags.c_contiguous else value.copy()
        return np.ascontiguousarray(value) if value.ndim else value.copy()
    return pickled(value, proc, text)


def pickled(value: Any, proc: Process, text: str) -> bytes:
    """Return the pickle of a value.  Raises CannotSend if there is none."""
    try:
        return dumps(value)
    except Exception as wrong:
        raise CannotSend(f"{text} of {type(value).__name__}: it cannot be pickled ({wrong}){proc._place()}") from wrong


def unpack(packed: Packed) -> Any:
    """Return the value that was packed."""
    return loads(packed) if isinstance(packed, bytes) else packed


def words_of(packed: Packed) -> int:
    """Return the words of a packed value."""
    return -(-size_of(packed) // 8)


def own_copy(packed: Packed) -> Packed:
    """Return a value that shares no memory with what the caller gave."""
    return packed if isinstance(packed, bytes) else packed.copy()


def rejoined(pieces: Sequence[Packed]) -> Packed:
    """Return neighbours among the pieces of a value (`pieces_of`) as one piece."""
    if not isinstance(pieces[0], bytes):
        return joined([as_array(piece) for piece in pieces])
    whole = Weighed(b"".join(piece for piece in pieces if isinstance(piece, bytes)))
    whole.weight = sum(map(size_of, pieces)) - len(whole)
    return whole


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return arrays one after the other in exactly their dtype: np.concatenate changes byte order and padding."""
    first = parts[0]
    if is_abstract(first) or any(part.dtype != first.dtype for part in parts):
        return np.concatenate(parts)
    whole = np.empty((sum(map(len, parts)), *first.shape[1:]), first.dtype)
    start = 0
    for part in parts:
        whole[start : start + len(part)] = part
        start += len(part)
    return whole
