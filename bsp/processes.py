"""A BSP process as its program sees it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from bsp.coarray import Coarray, memory
from bsp.collectives import algorithms as collectives
from bsp.cost.choice import Choice
from bsp.cost.model import Machine
from bsp.engine.task import Call, Context, Task
from bsp.errors import CannotSend, CastError, NoSuchProcess
from bsp.interpreter.generators import generator
from bsp.rounds import State, rounds
from bsp.source import NOWHERE, here
from bsp.transport.header import digest
from bsp.values.effects import Send
from bsp.values.payload import dumps, is_abstract, is_array
from bsp.values.region import Shape

Group = Sequence[int] | None
Op = str | np.ufunc | Callable[[Any, Any], Any]


class Message(NamedTuple):
    """What `send` delivers: who sent it, the tag it was given, the payload."""

    source: int
    tag: Any
    payload: Any


class Plan(NamedTuple):
    """What `proc.plan()` tells; prints as a table of predicted times."""

    collective: Choice | None
    exchange: Choice | None
    machine: Machine

    def __str__(self) -> str:
        lines = []
        for choice in (self.collective, self.exchange):
            if choice is not None:
                priced = ", ".join(f"{name} {flops / self.machine.r * 1e6:.3g} us" for name, flops in choice.priced)
                asked = " (asked for)" if choice.forced else ""
                lines.append(f"{choice.call}: {choice.chosen}{asked}" + (f"; priced: {priced}" if priced else ""))
        return "\n".join(lines) or "nothing chosen yet"


class Process:
    """One of `nprocs` processes that compute, communicate, and meet at boundaries.

    A boundary is `sync` or a collective.  Puts, gets and sends issued before it take effect at it,
    and `inbox` becomes a new list holding what arrived with it (rule B1).
    """

    def __init__(self, task: Task, context: Context) -> None:
        self._task = task
        self._context = context
        self.pid = task.pid
        self.nprocs = task.nprocs
        self._sync = Call("sync", digest("sync", context.id), (context,))
        self._boundary = task.boundary

    # ------------------------------------------------------------------------- who and when

    @property
    def superstep(self) -> int:
        """Supersteps that have ended, on every process alike; those inside collectives count."""
        return self._task.element.superstep

    @cached_property
    def rng(self) -> np.random.Generator:
        """This process's own random generator, seeded from (job seed, pid)  (D4)."""
        element = self._task.element
        if element.abstract is not None:
            drawn: np.random.Generator = element.abstract.generator(element.seed, self.pid)
            return drawn
        return generator(element.seed, self.pid)

    @property
    def machine(self) -> Machine:
        """The machine profile (p, r, g, L) that choices are made by, frozen when the job starts (D5)."""
        return self._task.element.machine

    def time(self) -> float:
        """Seconds from the start of the job to the last boundary: the same value on every process."""
        return self._task.element.transport.agreed_clock()

    # ---------------------------------------------------------------------------- boundaries

    def sync(self, label: str | None = None, sets_min_time: bool = True) -> None:
        """End the superstep: everything issued since the last boundary takes effect.

        label : a name for this superstep, in traces, reports and predictions.
        sets_min_time : whether this process's compute time may set MinTime, by which cloned execution tells tails.
        Cost: L, and g·h for what was issued.
        Raises SyncMismatch, RegistrationMismatch, ProcessFailed or ProcessExited, the same on every
        process, if the processes do not all stand at this call.
        """
        if label is not None:
            self._task.label = label
        self._task.sets_min_time = sets_min_time
        self._boundary(self._sync)

    def plan(self) -> Plan:
        """How the last collective, and the last exchange between elements, went about it, and at which prices.

        The collective is as this process knows it: where only the root knows the size, only it has prices.
        """
        element = self._task.element
        return Plan(self._task.chosen, element.transport.chosen, element.machine)

    # ------------------------------------------------------------------------------- memory

    def coarray(self, shape: int | Shape, dtype: DTypeLike = float, fill: Any = 0) -> Coarray:
        """A new array on every process, filled with `fill`, that all others can put to and get from.

        shape : may differ between processes; its length and the dtype may not.
        No boundary: usable at once, matched by creation order (B3).
        Cost: the shapes travel with the next boundary.
        """
        abstract = self._task.element.abstract
        local = memory(shape, dtype, fill) if abstract is None else abstract.memory(shape, dtype)
        return self._register(local, aliased=False)

    def register(self, array: np.ndarray) -> Coarray:
        """Make an array of the caller's own remotely accessible; `local` is that very memory.

        array : C-contiguous, aligned, writable, of numbers.
        """
        abstract = self._task.element.abstract
        if abstract is not None:
            return self._register(abstract.carried(array), aliased=True)
        if not isinstance(array, np.ndarray):
            raise CastError(f"register takes a NumPy array, not {type(array).__name__} ({here()}, process {self.pid})")
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and flags.writeable) or array.dtype.hasobject:
            raise CastError(
                f"register needs a C-contiguous, aligned, writable array of numbers; this one is "
                f"{'C-contiguous' if flags.c_contiguous else 'not C-contiguous'}, "
                f"{'writable' if flags.writeable else 'read-only'}, {array.dtype} ({here()}, process {self.pid}); "
                "register np.array(a, order='C') instead"
            )
        return self._register(array if type(array) is np.ndarray else array.view(np.ndarray), aliased=True)

    def _register(self, local: np.ndarray, aliased: bool) -> Coarray:
        context = self._context
        coarray = Coarray(self._task, context, len(context.coarrays), local, aliased, here())
        context.coarrays.append(coarray)
        return coarray

    # ----------------------------------------------------------------------------- messages

    def send(self, dest: int, payload: Any, tag: Any = None) -> None:
        """Put a message into the inbox of process `dest` at the next boundary.

        payload : an array of numbers travels as it is; anything else is pickled now.  Either way the
            receiver gets a copy of its own, and the caller may change the payload at once.
        Cost: the words of the array, or of the pickle, out of here and into `dest`.
        Raises NoSuchProcess, CannotSend.
        """
        number = dest if type(dest) is int else _index(dest)
        if not 0 <= number < self.nprocs:
            raise NoSuchProcess(f"send to process {dest!r}: pids are integers in 0..{self.nprocs - 1}{self._place()}")
        array = pickled = None
        try:
            if is_array(payload):
                array = payload.copy() if is_abstract(payload) else np.array(payload, order="C", copy=True)
            else:
                pickled = dumps(payload)
            tag_bytes = None if tag is None else dumps(tag)
        except Exception as wrong:
            raise CannotSend(
                f"send to process {dest} of {type(payload).__name__}: it cannot be pickled ({wrong}){self._place()}"
            ) from wrong
        line = here() if self._task.element.checking else NOWHERE
        effect = Send(self.pid, (number,), self._context.id, tag_bytes, array, pickled, line=line)
        self._context.outbox.effects.append(effect)

    @property
    def inbox(self) -> list[Message]:
        """The messages that arrived with the last boundary, in order of (source pid, issue order)  (D2)."""
        context = self._context
        if context.inbox is None:
            context.inbox = [
                Message(
                    source,
                    None if tag is None else pickle.loads(tag),
                    pickle.loads(pickled) if pickled is not None else array,
                )
                for source, tag, array, pickled in context.arrived
            ]
            context.arrived = []
        inbox: list[Message] = context.inbox
        return inbox

    def _place(self) -> str:
        return f" ({here()}, process {self.pid}, superstep {self.superstep})"

    # -------------------------------------------------------------------------- libraries

    def private(self) -> Process:
        """A handle for a library: its coarrays, messages and boundaries do not touch the caller's (B2).

        A boundary on the handle delivers what was issued on the handle and nothing else; supersteps
        count as everybody's.  Called by every process alike.
        """
        return Process(self._task, self._task.new_context())

    # ------------------------------------------------------------------------ collectives

    def broadcast(self, value: Any = None, root: int = 0, group: Group = None, algorithm: str | None = None) -> Any:
        """The `value` of process `root`, on every process.

        Cost, n words: one-phase g(p-1)n + L; two-phase about 2gn + 2L (arrays); k-ary tree
        (gkn + L) log_k p.  Source: McColl 1.6.1.
        """
        return collectives.broadcast(self, value, root, group, algorithm)

    def reduce(
        self, value: Any, op: Op = "add", root: int = 0, group: Group = None, algorithm: str | None = None
    ) -> Any:
        """All values combined in pid order, in the tree of D3, on process `root`; None elsewhere.

        The result has the type of the input.  Cost, n words: one-phase g(p-1)n + L; two-phase about
        2gn + 2L (arrays); k-ary tree (gkn + L) log_k p.
        """
        return collectives.reduce(self, value, op, root, group, algorithm)

    def allreduce(self, value: Any, op: Op = "add", group: Group = None, algorithm: str | None = None) -> Any:
        """All values combined in pid order, in the tree of D3, on every process.

        Cost, n words: one-phase g(p-1)n + L; two-phase about 2gn + 2L (arrays); tree twice
        (gkn + L) log_k p.
        """
        return collectives.allreduce(self, value, op, group, algorithm)

    def scan(self, value: Any, op: Op = "add", group: Group = None, algorithm: str | None = None) -> Any:
        """The values of processes 0..pid combined.

        Cost, n words: one-phase g(p-1)n + L; two-phase about 2gn + 2L (arrays).
        """
        return collectives.scan(self, value, op, group, algorithm, inclusive=True)

    def exscan(self, value: Any, op: Op = "add", group: Group = None, algorithm: str | None = None) -> Any:
        """The values of processes 0..pid-1 combined; the identity on pid 0, None where `op` has none."""
        return collectives.scan(self, value, op, group, algorithm, inclusive=False)

    def gather(self, value: Any, root: int = 0, group: Group = None, algorithm: str | None = None) -> Any:
        """A list of everyone's value by pid, on process `root`; None elsewhere.

        Cost, n words each: one-phase g(p-1)n + L; k-ary tree g(p-1)n + L log_k p with fewer messages.
        """
        return collectives.gather(self, value, root, group, algorithm)

    def allgather(self, value: Any, group: Group = None, algorithm: str | None = None) -> Any:
        """A list of everyone's value by pid, on every process.

        Cost, n words each: one-phase g(p-1)n + L; doubling g(p-1)n + L log_2 p with log_2 p messages.
        """
        return collectives.allgather(self, value, group, algorithm)

    def scatter(
        self, values: Sequence[Any] | None = None, root: int = 0, group: Group = None, algorithm: str | None = None
    ) -> Any:
        """The pid-th of the `values` that process `root` gives, one for each process.

        Cost, n words each: one-phase g(p-1)n + L; k-ary tree the same words from the root in log_k p
        supersteps, with fewer messages.
        """
        return collectives.scatter(self, values, root, group, algorithm)

    def alltoall(self, values: Sequence[Any], group: Group = None, algorithm: str | None = None) -> Any:
        """values[i] goes to process i; the list of what came from each process, by pid.

        Cost, n words each: one-phase g(p-1)n + L; logarithmic g(p/2)n log_2 p + L log_2 p.
        """
        return collectives.alltoall(self, values, group, algorithm)

    def total_exchange(
        self, rows: ArrayLike | Sequence[Any], counts: Sequence[int] | None = None, algorithm: str | None = None
    ) -> Any:
        """Consecutive rows of an array to consecutive processes; returns (rows received, their counts by pid).

        rows : array; without `counts` its first axis has length nprocs, row i goes to process i, and
            the array of rows received is returned alone (MSL's All_to_all).  A list of payloads is
            exchanged like `alltoall`.
        counts : how many rows go to each process; they sum to len(rows).
        Cost: h = the most rows any process sends or receives; g·h + L.
        """
        return collectives.total_exchange(self, rows, counts, algorithm)

    def transfer(self, payload: Any = None, to: int | None = None, expect: bool = False) -> Any:
        """Send `payload` to process `to`, if given; return what arrives, if `expect`; else None.

        Rules, checked at the receiver: at most one sender for each receiver; sent if and only if
        expected.  Every process calls it.  Cost: g·n + L.  Source: MSL 3.3.3.
        Raises TransferMismatch, which ends the job.
        """
        return collectives.transfer(self, payload, to, expect)

    # ------------------------------------------------------------------------------- rounds

    def rounds(self, times: int, state: State | None = None) -> Iterator[int]:
        """range(times), as the rounds of an iteration: the places where cloned execution recovers.

        state : a bsp.State with everything a round needs of the last one.  Without clones it has no effect.
        Every process stands at the head of the same round in the same superstep.  Only the outermost loop counts.
        """
        return rounds(self._task, times, state)

    def once(self, call: Callable[[], Any]) -> Any:
        """The value of `call()`, which one clone of this process makes for all: for effects outside the program.

        Writing a file, sending a mail, reading a clock: without clones it is called as it stands.  With clones it is
        called again only if the clone that called it died before its value was known: at least once, that is.
        """
        element = self._task.element
        if element.abstract is not None:
            return None
        return call() if element.recovery is None else element.recovery.once(self._task, call)

    def __repr__(self) -> str:
        return f"<process {self.pid} of {self.nprocs}>"


def _index(pid: Any) -> int:
    try:
        return -1 if isinstance(pid, bool) else int(pid.__index__())
    except (AttributeError, TypeError):
        return -1
