"""A worker: the script and its BSP processes, without MPI.  What it needs of others its agent brings.

Everything that elements say to each other in a superstep is one or more exchanges, numbered alike in
every clone; to the element the agent is a transport like any other.  No clock is in what is said, so
that clones say the same bytes.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest, xxh64_digest

from bsp.command.job import executing, explanation, load
from bsp.cost.choice import Choice
from bsp.cost.machine_file import to_machine
from bsp.cost.model import DEFAULT
from bsp.engine.element import Element
from bsp.engine.task import Call, Task
from bsp.errors import CannotMove
from bsp.faults.checkpoints.state import capture, check, nothing_queued, restore
from bsp.faults.checkpoints.state_interval import Spacing
from bsp.faults.engine.forks import Fork
from bsp.faults.engine.wire import Wire
from bsp.faults.injection import Fault, parse, stretch
from bsp.faults.protocol.messages import (
    END_COMPARED,
    Answer,
    Asks,
    Deliver,
    Ended,
    Head,
    Note,
    Once,
    Packed,
    Packet,
    Printed,
    Snapshot,
    Submitted,
)
from bsp.rounds import State
from bsp.transport import header as h
from bsp.transport.base import Blocks
from bsp.transport.header import Header
from bsp.values import payload
from bsp.values.canonical import pickled
from bsp.world import hosting


class Erred(tuple[int, int, int, bytes]):
    """(bundle, life, offset, text) for standard error."""

    __slots__ = ()


class AgentTransport:
    """The element's way to all others: through its agent."""

    def __init__(self, wire: Wire, asked: Fork, bundles: int, faults: Sequence[Fault]) -> None:
        self.wire = wire
        self.index = asked.bundle
        self.elements = bundles
        self.life = asked.life
        self.chosen: Choice | None = None
        self.moved: str | None = None
        self.exchange = 0
        self.heads = -1
        self.ask = False
        self.element: Element | None = None
        self.superstep = -1  # of the last exchange
        self.resumed = time.perf_counter()
        self._failed = False  # the program has raised: this, and how, is being told
        self._came: dict[int, bytes] = {}
        self._headers: list[Header] = []
        self._time: tuple[int, float] | None = None
        self._faults = [fault for fault in faults if fault.kind in _HERE]
        self._me, self._first = asked.element, asked.first
        self._told = not asked.first
        self.states: dict[int, State | None] = {}  # of the processes here, at the last head
        self.erred = 0  # bytes written to standard error
        self.final = b""  # digest of the state in which the last loop was left

    # ---------------------------------------------------------------------- the exchange

    def _exchange(self, out: dict[int, bytes], raised: bool = False) -> dict[int, bytes]:
        """One exchange of bytes with every other bundle."""
        assert self.element is not None
        superstep = self.element.superstep
        compute = -1.0
        if superstep != self.superstep:
            compute, self.superstep = time.perf_counter() - self.resumed, superstep
            if self._faults:
                compute = self._suffer(superstep, compute, out)
        # what is said of a failure may hold addresses: clones need not agree on its words
        digest_of = _no_digest if self._failed else xxh3_128_digest
        packets = {b: Packet(len(data), digest_of(data), data) for b, data in out.items()}
        digest = xxh3_128_digest(b"".join([packets[b].digest for b in sorted(packets)]))
        sets_min = all(task.sets_min_time for task in self.element.tasks)
        self.wire.send(
            Submitted(self.index, self.life, self.exchange, superstep, compute, sets_min, digest, raised, packets)
        )
        deliver: Deliver = self.wire.receive()
        assert type(deliver) is Deliver and deliver.exchange == self.exchange, deliver
        self.ask = deliver.ask
        self._failed = self._failed or raised
        self.exchange += 1
        self.resumed = time.perf_counter()
        return {b: packet.data for b, packet in deliver.packets.items()}

    def _others(self) -> list[int]:
        return [b for b in range(self.elements) if b != self.index]

    def quiet(self, superstep: int, digest: bytes) -> bool:
        mine = h.pack_quiet(0.0, superstep, self._mixed(digest))
        self._came = self._exchange(dict.fromkeys(self._others(), mine))
        self._headers = []
        if all(data == mine for data in self._came.values()):
            return True
        self._read_headers(h.Header._make(h.unpack(bytearray(mine), 0)))
        return False

    def _mixed(self, digest: bytes) -> bytes:
        """A boundary's digest with the number of heads passed: they are the same on all processes (N10)."""
        return (int.from_bytes(digest, "little") ^ (self.heads + 1)).to_bytes(8, "little")

    def _read_headers(self, mine: Header) -> None:
        self._headers = [
            mine if b == self.index else h.unpack(bytearray(self._came[b][: h.SIZE]), 0) for b in range(self.elements)
        ]

    def headers(self) -> list[Header]:
        return self._headers

    def control(self, header: Header, packets: dict[int, bytes]) -> list[Header]:
        header = header._replace(clock=0.0, digest=self._mixed(header.digest))
        packed = header.pack()
        out = {b: packed + packets[b] if b in packets else packed for b in self._others()}
        self._came = self._exchange(out, raised=bool(header.flags & h.RAISED))
        self._read_headers(header)
        return self._headers

    def packets(self, flags: int) -> dict[int, bytes | memoryview]:
        return {b: memoryview(data)[h.SIZE :] for b, data in self._came.items() if len(data) > h.SIZE}

    def room(self) -> int:
        return 1 << 62

    def blocks(self, out: Blocks, into: Blocks, superstep: int) -> None:
        joined = {b: _joined(out.get(b, ())) for b in self._others()}
        came = self._exchange(joined)
        for b, blocks in into.items():
            data, start = memoryview(came[b]), 0
            for block in blocks:
                block[...] = np.frombuffer(data[start : start + block.nbytes], np.uint8)
                start += block.nbytes

    def gather(self, value: Any) -> list[Any]:
        data = pickled(value)
        came = self._exchange(dict.fromkeys(self._others(), data))
        return [value if b == self.index else pickle.loads(came[b]) for b in range(self.elements)]

    def clock(self) -> float:
        return 0.0

    def restart_clock(self) -> None:
        return None

    def agreed_clock(self) -> float:
        """bsprun's clock, when the first clone asked after this boundary: the same value in all."""
        assert self.element is not None
        superstep = self.element.superstep
        if self._time is None or self._time[0] != superstep:
            value = self.asked(("time", 0, superstep, 0), None)
            assert value is not None
            self._time = superstep, struct.unpack("<d", value)[0]
        return self._time[1]

    def asked(self, token: tuple[str, int, int, int], value: bytes | None) -> bytes | None:
        """bsprun's answer in proc.once."""
        self.wire.send(Asks(self.index, self.life, token, value))
        once: Once = self.wire.receive()
        assert type(once) is Once and once.token == token, once
        return once.value

    def abort(self) -> None:
        os._exit(70)

    # -------------------------------------------------------------------- injected faults

    def _suffer(self, superstep: int, compute: float, out: dict[int, bytes]) -> float:
        """What `--inject` has for this worker in this superstep; its computing time, then."""
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
        if fault.kind != "slow" or fault.element == self._me:
            self.wire.send(Note("injected", {"fault": str(fault), "element": self._me, "superstep": superstep}))

    def _flips(self, fault: Fault) -> bool:
        assert self.element is not None
        return fault.process in self.element.layout.pids(self.index) and fault.clone == self._me // self.elements


_HERE = ("tails", "slow", "exit", "flip")


def _digest(state: Packed) -> bytes:
    """What clones compare of a state."""
    digest = xxh3_128(state.pickle)
    for array in state.arrays:
        digest.update(array)
    return digest.digest()


def _no_digest(data: Any) -> bytes:
    return bytes(16)


def _end(bundle: int, life: int, status: int, said: str, final: bytes = b"") -> Ended:
    """How the program ended, and what clones compare of it: of a right end also the state of its last loop."""
    content = pickled((status, said))
    return Ended(bundle, life, xxh64_digest(b"%d" % status if status else content + final)[:END_COMPARED] + content)


def flip_state(state: State | None) -> None:
    """One bit of the first number in a State."""
    for name, value in vars(state or State()).items():
        if isinstance(value, np.ndarray) and value.nbytes:
            value.reshape(-1).view(np.uint8)[value.itemsize - 2] ^= 4  # of a float, one that rounding keeps
            return
        if isinstance(value, float):
            setattr(state, name, value * 1.0625 + 1.0)
            return


def _joined(blocks: Sequence[np.ndarray]) -> Any:
    """Blocks as one buffer; a single one as it stands: it is sent before anybody may write to it."""
    return blocks[0].data if len(blocks) == 1 else b"".join([block.data for block in blocks])


class WorkerRecovery:
    """Heads, `once` and text, through the agent."""

    def __init__(self, transport: AgentTransport, every: int) -> None:
        self._transport = transport
        self._every = every
        self._start = 0
        self._said = 0
        self._spacing = Spacing(time.perf_counter())
        self._calls: dict[tuple[str, int], tuple[int, int]] = {}  # what, pid: where, how many there before this one
        self._kinds: dict[int, set[tuple[str, type]]] = {}  # by pid: the names of its State and their types so far

    def head(self, tasks: Sequence[Task]) -> None:
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
        answer = self._tell(place.loop, place.round, place.final, place.entry, data, asks)
        if data is not None:
            now = time.perf_counter()
            self._spacing.took(transport.heads, now, None if asks else now - began)
        while answer is not None:
            self._put(tasks, answer)
            if answer.final:
                break
            answer = self._tell(answer.loop, answer.round, False, False, None, True)

    def _tell(self, loop: int, k: int, final: bool, entry: bool, data: Packed | None, asks: bool) -> Snapshot | None:
        transport = self._transport
        assert transport.element is not None
        digest = _digest(data) if data is not None else b""
        if final:
            transport.final = digest
        passed = Snapshot(
            transport.index, transport.heads, loop, k, final, transport.exchange, self._start,
            transport.element.superstep, digest, data, self._said, transport.erred,
        )  # fmt: skip
        transport.wire.send(Head(transport.index, transport.life, asks, entry, passed))
        if not asks:
            return None
        answer: Answer = transport.wire.receive()
        assert type(answer) is Answer, answer
        transport.resumed = time.perf_counter()
        return answer.snapshot

    def _due(self, tasks: Sequence[Task]) -> bool:
        """Whether a state is taken here: at the end of a loop and for checkpoints always, else every so many heads."""
        place = tasks[0].place
        assert place is not None
        if place.entry and not place.final:
            return False
        if not all(nothing_queued(task) and task.fault is None for task in tasks):
            return False
        if place.final or self._transport.ask or (self._every and place.round % self._every == 0):
            return True
        return self._spacing.is_due(self._transport.heads, time.perf_counter())

    def _check(self, tasks: Sequence[Task]) -> None:
        """What is new in a State, and cannot be moved, is found at the same head in all clones (N12), states or not.

        It is told at the next boundary, as a mistake that is the same on every process.
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
        parts: list[Packed] = []
        for task in tasks:
            assert task.place is not None
            try:
                parts.append(capture(task, task.place))
            except CannotMove as wrong:
                task.fault = wrong
                return None
        names = tuple(
            f"process-{task.pid}/{name}" for task, part in zip(tasks, parts, strict=True) for name in part.names
        )
        light = pickle.dumps((self._said, [(part.pickle, len(part.arrays)) for part in parts]), 5)
        return Packed(light, names, tuple(array for part in parts for array in part.arrays))

    def _put(self, tasks: Sequence[Task], snapshot: Snapshot) -> None:
        """Become what a sibling was at a head."""
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
            task.place.round, task.place.final = snapshot.round, snapshot.final
        transport.exchange, transport.heads, self._start = snapshot.exchange, snapshot.head, snapshot.start
        transport.element.superstep = snapshot.superstep
        transport.superstep, transport.erred = -1, snapshot.erred
        if snapshot.final:
            transport.final = snapshot.digest

    def once(self, task: Task, call: Callable[[], Any]) -> Any:
        # a round begins in the superstep in which the one before ends, and may be begun again: heads tell them apart
        inside = task.round is not None
        what, where = ("round", self._transport.heads) if inside else ("once", task.element.superstep)
        last, count = self._calls.get((what, task.pid), (-1, 0))
        count = count + 1 if last == where else 0
        self._calls[what, task.pid] = where, count
        token = (what, task.pid, where, count)
        value = self._transport.asked(token, None)
        if value is None:
            value = self._transport.asked(token, pickled(call()))
        assert value is not None
        return pickle.loads(value)

    def lines(self, data: bytes) -> None:
        self._transport.wire.send(Printed(self._transport.index, self._transport.life, self._said, data))
        self._said += len(data)


class _Errors:
    """sys.stderr of a worker: to bsprun, which shows each bundle's once."""

    def __init__(self, transport: AgentTransport) -> None:
        self._transport = transport

    def write(self, text: str) -> int:
        """To the agent, at once."""
        data = text.encode("utf-8", "replace")
        transport = self._transport
        transport.wire.send(Erred((transport.index, transport.life, transport.erred, data)))
        transport.erred += len(data)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        """No."""
        return False

    encoding = "utf-8"


def _raise_in(task: Task, faults: Sequence[Fault], transport: AgentTransport) -> None:
    """`--inject raise`: an exception out of the script's next boundary in these supersteps."""
    wanted = {fault.superstep for fault in faults}
    boundary = task.boundary

    def raising(call: Call) -> int:
        if task.element.superstep in wanted:
            transport._tell_injected(faults[0], task.element.superstep)
            raise RuntimeError(f"injected in superstep {task.element.superstep}")
        return boundary(call)

    if wanted:
        task.boundary = raising  # type: ignore[method-assign]


def work(settings: dict[str, Any], program: list[str]) -> Callable[[socket.socket, Fork], None]:
    """What a forked worker does."""

    def life(channel: socket.socket, asked: Fork) -> None:
        wire = Wire(channel)
        payload.canonical = True
        faults = parse(settings["inject"]) if settings.get("inject") else ()
        transport = AgentTransport(wire, asked, settings["bundles"], faults)
        bundle, number = asked.bundle, asked.life
        profile = settings.get("machine")
        machine = DEFAULT if profile is None else to_machine(profile)
        sys.stderr = _Errors(transport)
        if asked.first and asked.element < settings["bundles"]:  # once: the first clone's first worker, by mpiexec
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
            wire.send(_end(bundle, number, verdict.status, explanation(verdict), transport.final))
        wire.receive()  # the agent closes it when all is over

    return life
