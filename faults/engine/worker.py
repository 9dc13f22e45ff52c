"""A worker of a nonstop job: the process that runs the script and its BSP processes.

All communication of elements in a superstep is one or more exchanges, numbered alike in every clone.  The worker
sends its packets to its agent, which brings those of the other bundles; to the element the agent is a transport like
any other.  No clock value is in the packets, so that clones send the same bytes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest, xxh64_digest

from bsp.command.job import executing, explanation, load
from bsp.cost.choice import Choice
from bsp.cost.machine_file import to_machine
from bsp.cost.model import DEFAULT
from bsp.engine.element import Element
from bsp.engine.recovery import LoopPosition
from bsp.engine.task import IN_ONCE, Call, Task
from bsp.errors import CannotMove
from bsp.faults.carrier.segments import LEAST, Segment, SegmentPiece, Segments, flat_bytes, usable
from bsp.faults.carrier.wire import Wire
from bsp.faults.checkpoints.state import capture, check, nothing_queued, restore, size_of
from bsp.faults.checkpoints.state_interval import Spacing
from bsp.faults.engine import left_over, once_calls
from bsp.faults.engine.forks import Fork
from bsp.faults.injection import Fault, parse, stretch
from bsp.faults.protocol.messages import (
    END_COMPARED,
    Answer,
    Asks,
    BundlePacket,
    Deliver,
    Ended,
    Head,
    Note,
    Once,
    Packed,
    Printed,
    Snapshot,
    Submitted,
)
from bsp.host import keep_freed_memory
from bsp.rounds import State
from bsp.source import SourceLine, frames_of, is_program, program_line
from bsp.transport import header as h
from bsp.transport.base import Blocks
from bsp.transport.header import Header, SmallPackets
from bsp.values import payload
from bsp.values.canonical import pickled
from bsp.world import hosting


class Erred(tuple[int, int, int, bytes]):
    """A message with a piece of standard error: (bundle, life, number of the piece, text)."""

    __slots__ = ()


class AgentTransport:
    """The element's transport: all its communication with other bundles goes through its agent."""

    def __init__(self, wire: Wire, asked: Fork, bundles: int, faults: Sequence[Fault]) -> None:
        """Create the transport of the worker that `asked` describes, in a job of `bundles` bundles."""
        self.wire = wire
        self.index = asked.bundle
        self.elements = bundles
        self.life = asked.life
        self.chosen: Choice | None = None
        self.moved: str | None = None
        self.slots = None
        self.exchange = 0  # number of the next exchange
        self.heads = -1  # number of the last head passed; -1 before the first
        self.ask = False  # whether the worker must wait for an Answer at its next head
        self.element: Element | None = None
        self.superstep = -1  # of the last exchange
        self.resumed = time.perf_counter()  # time at which the current computation began
        self.segments = Segments() if usable() else None  # for large packets and states, if shared memory can be used
        # the latest state: its shared memory must not go before the agent has opened it, which it has when it answers
        self.given: Snapshot | None = None
        self.came = 0  # bytes of all packets that have come
        self._failed = False  # the program has raised an exception; what follows only reports it
        self._came: dict[int, bytes] = {}  # packets of the last control exchange, by bundle
        self._headers: list[Header] = []
        self._time: tuple[int, float] | None = None  # (superstep, agreed time) of the last reading
        self._faults = [fault for fault in faults if fault.kind in _HERE]
        self._me, self._first = asked.element, asked.first
        self._told = not asked.first  # lasting injected faults have been logged, by this worker or an earlier one
        self.states: dict[int, State | None] = {}  # of the processes here, at the last head
        self.errors = _Errors(self)
        self.final = b""  # digest of the state in which the last loop was left

    # ---------------------------------------------------------------------- the exchange

    def _exchange(
        self, out: dict[int, bytes], raised: bool = False, shared: dict[int, BundlePacket] | None = None
    ) -> dict[int, Any]:  # fmt: skip
        """Exchange bytes with every other bundle, and return theirs; waits for all of them.

        out : the bytes for each bundle.  shared : packets in shared memory, for those that are not in `out`.
        raised : whether a process here has raised an exception, which siblings must confirm (N12).
        """
        assert self.element is not None
        superstep = self.element.superstep
        compute = -1.0
        if superstep != self.superstep:
            compute, self.superstep = time.perf_counter() - self.resumed, superstep
            if self._faults:
                compute = self._suffer(superstep, compute, out)
        # A failure's description may hold memory addresses, in which clones differ: it is sent without digest.
        digest_of = _no_digest if self._failed else xxh3_128_digest
        packets = {b: BundlePacket(len(data), digest_of(data), data) for b, data in out.items()}
        packets |= shared or {}
        digest = xxh3_128_digest(b"".join([packets[b].digest for b in sorted(packets)]))
        sets_min = all(task.sets_min_time for task in self.element.tasks)
        first = self.element.tasks[0]
        self.wire.send(
            Submitted(
                self.index, self.life, self.exchange, superstep, compute, sets_min, digest, raised, packets,
                _where(first.call.text, first.line()),
            )
        )  # fmt: skip
        deliver: Deliver = self.wire.receive()
        assert type(deliver) is Deliver and deliver.exchange == self.exchange, deliver
        self.given = None
        if self.segments is not None:
            self.segments.tidy()
        self.ask = deliver.ask
        self.came += sum([packet.size for packet in deliver.packets.values()])
        self._failed = self._failed or raised
        self.exchange += 1
        self.resumed = time.perf_counter()
        return {b: packet.data for b, packet in deliver.packets.items()}

    def _others(self) -> list[int]:
        """Return all bundles but this one."""
        return [b for b in range(self.elements) if b != self.index]

    def small(
        self, superstep: int, digest: bytes, hint: int, packets: dict[int, bytes], block_bytes: int, asks: bool
    ) -> SmallPackets | None:
        """Hold a control exchange for a bundle with packets, and what follows them; return those of the others."""
        if packets or hint or block_bytes or asks:
            flags = (h.BLOCKS if block_bytes else 0) | (h.GET if asks else 0)
            headers = self.control(h.Header(0.0, superstep, flags, 0, digest, -1, 0, hint, 0, 0, 0), packets)
        else:
            mine = h.pack_quiet(0.0, superstep, self._mixed(digest))
            self._came = self._exchange(dict.fromkeys(self._others(), mine))
            self._headers = []
            if all(data == mine for data in self._came.values()):
                return {}, 0, 0
            self._read_headers(h.Header._make(h.unpack(bytearray(mine), 0)))
            headers = self._headers
        flags, most = h.combined(headers, headers[self.index])
        return None if flags & ~h.FOLLOWS else (self.packets(flags), most, flags)

    def _mixed(self, digest: bytes) -> bytes:
        """Combine a boundary's digest with the number of heads passed, which must be equal on all processes (N10)."""
        return (int.from_bytes(digest, "little") ^ (self.heads + 1)).to_bytes(8, "little")

    def _read_headers(self, mine: Header) -> None:
        """Read the headers out of the packets that came."""
        self._headers = [
            mine if b == self.index else h.unpack(bytearray(self._came[b][: h.SIZE]), 0) for b in range(self.elements)
        ]

    def headers(self) -> list[Header]:
        """Return the headers of the last control exchange, by bundle."""
        return self._headers

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        """Hold a control exchange that carries packets; return the headers by bundle."""
        header = header._replace(clock=0.0, digest=self._mixed(header.digest))
        packed = header.pack()
        out = {b: packed + packets[b] if b in packets else packed for b in self._others()}
        self._came = self._exchange(out, raised=bool(header.flags & h.RAISED))
        self._read_headers(header)
        return self._headers

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        """Return the packets of the last control exchange, by bundle."""
        return {b: memoryview(data)[h.SIZE :] for b, data in self._came.items() if len(data) > h.SIZE}

    def room(self) -> int:
        """Return the largest packet that fits into a control exchange, in bytes: there is no limit."""
        return 1 << 62

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        """Exchange blocks whose sizes both sides know; the blocks of `into` are filled."""
        shared = {b: packet for b in self._others() if (packet := self._shared(out.get(b, ()))) is not None}
        joined = {b: _joined(out.get(b, ())) for b in self._others() if b not in shared}
        came = self._exchange(joined, shared=shared)
        for b, blocks in into.items():
            if isinstance(came[b], Segment):
                came[b].read_into(blocks)
                continue
            data, start = memoryview(came[b]), 0
            for block in blocks:
                block[...] = np.frombuffer(data[start : start + block.nbytes], np.uint8)
                start += block.nbytes

    def _shared(self, blocks: Sequence[np.ndarray]) -> BundlePacket | None:
        """Return a large packet in shared memory; None if it travels as it is.

        Small packets do, all into which faults are injected, and those for which there is no room.
        """
        size = sum(block.nbytes for block in blocks)
        if self.segments is None or self._faults or size < LEAST:
            return None
        try:
            segment = self.segments.empty(size)
            digest = segment.append([flat_bytes(block) for block in blocks]).digest
        except OSError:
            return None
        return BundlePacket(size, _no_digest(b"") if self._failed else digest, segment)

    def gather(self, value: Any) -> list[Any]:
        """Return every bundle's value, by bundle."""
        data = pickled(value)
        came = self._exchange(dict.fromkeys(self._others(), data))
        try:
            return [value if b == self.index else pickle.loads(came[b]) for b in range(self.elements)]
        except Exception:  # what is replayed is another exchange, of which unpickling makes anything
            self._tell_departure(value)
            self.abort()
            raise  # not reached

    def _tell_departure(self, value: Any) -> None:
        """Print that processes do something else than before when they compute again, and the first error of one."""
        errors = [each.error for each in value if getattr(each, "error", "")]
        print(
            f"bsprun: element {self.index}, superstep {self.element.superstep if self.element else 0}: computed again "
            f"after a loss, processes do something else than before{': ' + errors[0] if errors else ''}; the program "
            "is not deterministic, or files that it reads have changed",
            file=sys.stderr, flush=True,
        )  # fmt: skip

    def clock(self) -> float:
        """Return 0: clones must not see different clocks."""
        return 0.0

    def restart_clock(self) -> None:
        """Do nothing: there is no clock."""

    def agreed_clock(self) -> float:
        """Return bsprun's clock when the first clone asked after this boundary: the same value in all clones."""
        assert self.element is not None
        superstep = self.element.superstep
        if self._time is None or self._time[0] != superstep:
            value = self.asked(("time", 0, superstep, 0), None)
            assert value is not None
            self._time = superstep, struct.unpack("<d", value)[0]
        return self._time[1]

    def asked(self, token: tuple[str, int, int, int], value: bytes | None) -> bytes | None:
        """Send a request of proc.once to bsprun, and wait for the answer; see `Asks` and `Once`."""
        self.wire.send(Asks(self.index, self.life, token, value))
        once: Once = self.wire.receive()
        assert type(once) is Once and once.token == token, once
        return once.value

    def abort(self) -> None:
        """End this worker at once."""
        os._exit(70)

    # -------------------------------------------------------------------- injected faults

    def _suffer(self, superstep: int, compute: float, out: dict[int, bytes]) -> float:
        """Carry out the injected faults of this superstep; return the computing time with the delays that they add."""
        for fault in self._faults:
            if fault.kind in ("tails", "slow") and not self._told:
                self._tell_injected(fault, superstep)
            if fault.kind == "tails" and fault.D is not None and fault.seed is not None:
                factor = stretch(fault.D, fault.seed, self._me, superstep)
                seconds = (fault.unit or compute) * (factor - 1)
                time.sleep(seconds)
                compute += seconds
            elif fault.kind == "slow" and fault.element == self._me and fault.lasts(superstep):
                seconds = compute * ((fault.factor or 1.0) - 1)
                time.sleep(seconds)
                compute += seconds
            elif fault.superstep != superstep or not self._first:
                continue
            elif fault.kind == "exit" and fault.worker == self._me:
                self._tell_injected(fault, superstep)
                os._exit(fault.status or 0)
            elif fault.kind == "flip" and self._flips(fault):
                self._tell_injected(fault, superstep)
                if fault.what == "state":
                    flip_state(self.states[fault.process or 0])
                    continue
                for b, data in out.items():
                    out[b] = data[:-1] + bytes([data[-1] ^ 1])
        self._told = True
        return compute

    def _tell_injected(self, fault: Fault, superstep: int) -> None:
        """Log that an injected fault has happened."""
        if fault.kind != "slow" or fault.element == self._me:
            self.wire.send(Note("injected", {"fault": str(fault), "element": self._me, "superstep": superstep}))

    def _flips(self, fault: Fault) -> bool:
        """Return whether a `flip` fault concerns this bundle and clone."""
        assert self.element is not None
        return fault.process in self.element.layout.pids(self.index) and fault.clone == self._me // self.elements


# the kinds of injected faults that a worker carries out itself
_HERE = ("tails", "slow", "exit", "flip")


@lru_cache(maxsize=256)
def _where(call: str, line: SourceLine) -> str:
    """Return what a process has called and in which line, for messages."""
    return f"{call} at {line}"


def _digest(state: Packed) -> bytes:
    """Return the digest of a state, which clones compare (N11): the same wherever its arrays are."""
    arrays = [each.digest if isinstance(each, SegmentPiece) else xxh3_128_digest(each) for each in state.arrays]
    return xxh3_128_digest(xxh3_128_digest(state.pickle) + b"".join(arrays))


def _no_digest(data: Any) -> bytes:
    """Return the digest that means: not to be compared."""
    return bytes(16)


def _end(bundle: int, life: int, status: int, said: str, final: bytes = b"") -> Ended:
    """Return how the program ended, with the digest that clones compare.

    status : exit status; said : message for the user; final : digest of the state at the end of the last loop.
    After success the digest covers all of them, after a failure only the status: messages may differ between clones.
    """
    content = pickled((status, said))
    return Ended(bundle, life, xxh64_digest(b"%d" % status if status else content + final)[:END_COMPARED] + content)


def flip_state(state: State | None) -> None:
    """Change the first number in a State: one bit of an array, or a float."""
    for name, value in vars(state or State()).items():
        if isinstance(value, np.ndarray) and value.nbytes:
            value.reshape(-1).view(np.uint8)[value.itemsize - 2] ^= 4  # high enough in a float to survive rounding
            return
        if isinstance(value, float):
            setattr(state, name, value * 1.0625 + 1.0)
            return


def _joined(blocks: Sequence[np.ndarray]) -> Any:
    """Return blocks as one buffer.

    A single block is not copied: it is sent before the program can write to it again.
    """
    return blocks[0].data if len(blocks) == 1 else b"".join([block.data for block in blocks])


class WorkerRecovery:
    """The worker's part of recovery: states at heads, calls of proc.once and output, all through the agent."""

    def __init__(self, transport: AgentTransport, every: int) -> None:
        """Create the recovery of a worker; `every` is the number of rounds between checkpoints, 0 for none."""
        self._transport = transport
        self._every = every
        self._start = 0  # the first exchange of the current loop
        self._said = 0  # bytes of standard output written so far
        self._spacing = Spacing(time.perf_counter())
        # by (kind, pid): where the last call of proc.once was made, and its number there
        self._calls: dict[tuple[str, int], tuple[int, int]] = {}
        # by pid: the names in its State, with the types seen so far
        self._kinds: dict[int, set[tuple[str, type]]] = {}

    def head(self, tasks: Sequence[Task]) -> None:
        """Pass a head: take a state if one is due, report to the agent, and load a later state if it answers with one.

        tasks : all processes here, which are at the same head.
        """
        transport, place = self._transport, tasks[0].place
        element = transport.element
        assert place is not None and element is not None
        transport.heads += 1
        transport.states = {task.pid: task.place.state for task in tasks if task.place is not None}
        if place.entry:
            self._start = transport.exchange
            self._kinds.clear()
        self._check(tasks)
        began = time.perf_counter()
        data = self._capture(tasks) if self._due(tasks) else None
        asks = transport.ask or place.entry
        answer = self._tell(place, data, asks)
        if data is not None:
            now = time.perf_counter()
            self._spacing.took(transport.heads, now, transport.came, None if asks else now - began)
        # After loading a state the worker is at a later head and asks again: a still later state may have arrived.
        while answer is not None:
            self._put(tasks, answer)
            if answer.final:
                break
            answer = self._tell(place, None, True)

    def _tell(self, place: LoopPosition, data: Packed | None, asks: bool) -> Snapshot | None:
        """Report a head to the agent; if `asks`, wait for its answer.  Return the state to load, or None.

        Where a loop was left early, what follows depends on where it was left, as after `return k`: nobody can go on
        from that state, and the agent does not get it.
        """
        transport = self._transport
        assert transport.element is not None
        digest = _digest(data) if data is not None else b""
        if place.final:
            transport.final = digest
        transport.errors.flush()
        passed = Snapshot(
            transport.index, transport.heads, place.loop, place.round, place.final, transport.exchange, self._start,
            transport.element.superstep, digest, None if place.left else data, self._said, transport.errors.sent,
        )  # fmt: skip
        transport.wire.send(Head(transport.index, transport.life, asks, place.entry, passed))
        transport.given = passed
        if not asks:
            return None
        answer: Answer = transport.wire.receive()
        assert type(answer) is Answer, answer
        transport.resumed = time.perf_counter()
        return answer.snapshot

    def _due(self, tasks: Sequence[Task]) -> bool:
        """Return whether a state is taken at this head.

        It always is at the end of a loop, for checkpoints and when the agent asks; otherwise at intervals that
        `Spacing` chooses.  None is taken at the start of a loop, or while a process has something queued or has failed.
        """
        place = tasks[0].place
        assert place is not None
        if place.entry and not place.final:
            return False
        if not all(nothing_queued(task) and task.fault is None for task in tasks):
            return False
        if place.final or self._transport.ask or (self._every and place.round % self._every == 0):
            return True
        size = sum(map(size_of, tasks))
        return self._spacing.is_due(self._transport.heads, time.perf_counter(), self._transport.came, size)

    def _check(self, tasks: Sequence[Task]) -> None:
        """Check that new entries of each State can be moved.

        All clones check at every head, whether or not they take a state there, so that all find a mistake at the same
        head (N12).  It is raised at the next boundary, as a mistake that is the same on every process.
        """
        for task in tasks:
            assert task.place is not None
            known = self._kinds.setdefault(task.pid, set())
            kinds = {(name, type(value)) for name, value in vars(task.place.state or State()).items()}
            if not kinds <= known:
                known |= kinds
                try:
                    check(task, task.place)
                except CannotMove as wrong:
                    task.fault = wrong

    def _capture(self, tasks: Sequence[Task]) -> Packed | None:
        """Return the states of all processes as one; None if one of them cannot be moved."""
        parts: list[Packed] = []
        segments = self._transport.segments
        shared = None
        with contextlib.suppress(OSError):  # no room there
            shared = None if segments is None else segments.empty(sum(map(size_of, tasks)))
        for task in tasks:
            assert task.place is not None
            try:
                parts.append(capture(task, task.place, shared))
            except CannotMove as wrong:
                task.fault = wrong
                return None
        names = tuple(
            f"process-{task.pid}/{name}" for task, part in zip(tasks, parts, strict=True) for name in part.names
        )
        light = pickle.dumps((self._said, [(part.pickle, len(part.arrays)) for part in parts]), 5)
        return Packed(light, names, tuple(array for part in parts for array in part.arrays))

    def _put(self, tasks: Sequence[Task], snapshot: Snapshot) -> None:
        """Load a state: the processes continue at its head."""
        transport = self._transport
        assert transport.element is not None
        data: Packed = snapshot.data
        self._said, parts = pickle.loads(data.pickle)
        at = 0
        for task, (light, count) in zip(tasks, parts, strict=True):
            assert task.place is not None
            restore(task, task.place, Packed(light, (), data.arrays[at : at + count]))
            at += count
            task.fault = None
            task.place.round, task.place.final, task.place.entry = snapshot.round, snapshot.final, False
        transport.exchange, transport.heads, self._start = snapshot.exchange, snapshot.head, snapshot.start
        transport.element.superstep = snapshot.superstep
        transport.superstep = -1
        transport.errors.go_on_from(snapshot.erred)
        if snapshot.final:
            transport.final = snapshot.digest

    def once(self, task: Task, call: Callable[[], Any]) -> Any:
        """Return what a call gives, or raise what it raises, that one clone makes for all (N9)."""
        if task.element.thread == IN_ONCE:  # inside such a call, which no other clone makes
            return call()
        # A call is identified by its superstep, or inside a loop by its head: a round starts in the superstep in which
        # the one before ends, and a worker may start it again.
        inside = task.round is not None
        what, where = ("round", self._transport.heads) if inside else ("once", task.element.superstep)
        last, count = self._calls.get((what, task.pid), (-1, 0))
        count = count + 1 if last == where else 0
        self._calls[what, task.pid] = where, count
        token = (what, task.pid, where, count)
        value = self._transport.asked(token, None)
        if value is None:
            with self._transport.errors.keeping() as said:
                made = once_calls.made(task, call, said)
            value = self._transport.asked(token, made)
        assert value is not None
        return once_calls.outcome(task, value)

    def lines(self, data: bytes) -> None:
        """Send standard output to the agent."""
        self._transport.wire.send(Printed(self._transport.index, self._transport.life, self._said, data))
        self._said += len(data)


class _Errors:
    """The worker's `sys.stderr`: it sends whole lines to bsprun, which shows each bundle's once.

    Like Python's own, it holds text until a line ends or `flush`: `print` writes each argument by itself, and pieces
    of the lines of two processes must not be mixed.  Nor must those of threads, each of which holds its own.  A child
    made by `os.fork` has no part in the connection to the agent: its text goes straight to standard error.
    """

    def __init__(self, transport: AgentTransport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._held: dict[int, str] = {}  # by thread
        self._kept: dict[int, list[str]] = {}  # by thread that is in a `keeping` block
        self._in_child = False
        self.sent = 0  # pieces of text
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """Leave to the parent what it holds, and the lock."""
        self._lock, self._held, self._kept, self._in_child = threading.Lock(), {}, {}, True

    def write(self, text: str) -> int:
        """Send the text and what was held to the agent if a line ends in it; hold it otherwise."""
        thread = threading.get_ident()
        if thread in self._kept:
            self._kept[thread].append(text)
            return len(text)
        self._held[thread] = self._held.get(thread, "") + text
        if "\n" in text or "\r" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Send the text that is held for the calling thread."""
        self.send(self._held.pop(threading.get_ident(), ""))

    def send(self, text: str) -> None:
        """Send text to the agent at once, as a piece of its own."""
        data = text.encode("utf-8", "replace")
        if not data:
            return
        if self._in_child:
            with contextlib.suppress(OSError):
                os.write(2, data)
            return
        transport = self._transport
        with self._lock:
            transport.wire.send(Erred((transport.index, transport.life, self.sent, data)))
            self.sent += 1

    @contextlib.contextmanager
    def keeping(self) -> Iterator[list[str]]:
        """Keep what the calling thread writes inside the block, and send nothing of it."""
        thread = threading.get_ident()
        kept: list[str] = []
        self._kept[thread] = kept
        try:
            yield kept
        finally:
            self._kept.pop(thread, None)  # absent in a child made by os.fork

    def go_on_from(self, sent: int) -> None:
        """Go on with a state before which `sent` pieces had been sent."""
        self.flush()
        self.sent = sent

    def finish(self) -> None:
        """Send what is held for any thread."""
        while self._held:
            self.send(self._held.popitem()[1])

    def isatty(self) -> bool:
        """Return False."""
        return False

    encoding = "utf-8"


def _raise_in(task: Task, faults: Sequence[Fault], transport: AgentTransport) -> None:
    """Carry out `--inject raise`: the script's boundary raises an exception in the supersteps of `faults`."""
    wanted = {fault.superstep for fault in faults}
    boundary = task.boundary

    def raising(call: Call) -> int:
        if task.element.superstep in wanted:
            transport._tell_injected(faults[0], task.element.superstep)
            raise RuntimeError(f"injected in superstep {task.element.superstep}")
        return boundary(call)

    if wanted:
        task.boundary = raising  # type: ignore[method-assign]


def _tell_exits(transport: AgentTransport) -> None:
    """Have the program's calls of os._exit told on standard error: they end a worker as a crash does.

    Libraries and children that the program forks leave by it in good order.
    """
    leave = os._exit

    def told(status: int) -> Any:
        frame = sys._getframe(1)
        if is_program(frame.f_code.co_filename):
            where = program_line(frames_of(frame))
            transport.errors.send(f"bsprun: bundle {transport.index} ended by os._exit({status}) at {where}\n")
        leave(status)

    os._exit = told
    os.register_at_fork(after_in_child=lambda: setattr(os, "_exit", leave))


def work(settings: dict[str, Any], program: list[str]) -> Callable[[socket.socket, Fork], None]:
    """Return the function that a forked worker runs, `life(channel, asked)`; `channel` leads to its agent."""
    keep_freed_memory()

    def life(channel: socket.socket, asked: Fork) -> None:
        wire = Wire(channel)
        left_over.begin()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        payload.canonical = True
        faults = parse(settings["inject"]) if settings.get("inject") else ()
        transport = AgentTransport(wire, asked, settings["bundles"], faults)
        bundle, number = asked.bundle, asked.life
        profile = settings.get("machine")
        machine = DEFAULT if profile is None else to_machine(profile)
        sys.stderr = transport.errors
        _tell_exits(transport)
        # Show where a SIGSEGV in C code comes from, once for all clones: only the first workers on the first
        # clones' elements do it, on the standard error that bsprun passes on.
        if asked.first and asked.element < settings["bundles"]:
            faulthandler.enable(2, all_threads=False)  # where a SIGSEGV in C code has come from
        try:
            script = load(list(program))
        except (OSError, SyntaxError, ValueError, ImportError) as error:
            import traceback

            wire.send(_end(bundle, number, 1, "".join(traceback.format_exception_only(error))))
        else:
            recovery = WorkerRecovery(transport, settings["every"])
            hosted = Element(settings["nprocs"], transport, settings["seed"], None, machine, recovery=recovery)
            transport.element = hosted
            hosted.host(executing(script.code), script.main_module)
            if asked.first:
                mine = [f for f in faults if f.kind == "raise" and f.worker == asked.element]
                _raise_in(hosted.tasks[0], mine, transport)
            with hosting(hosted):
                verdict = hosted.run()
            # the first bundle prints all text; that of others has no superstep left to get there: to standard error
            text = left_over.finish(verdict.failure is not None, None if bundle == 0 else transport.errors)
            if text:
                recovery.lines(text)
            transport.errors.finish()
            wire.send(_end(bundle, number, verdict.status, explanation(verdict), transport.final))
        wire.receive()  # the agent closes the channel when the job is over

    return life
