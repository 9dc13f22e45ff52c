"""The handle through which a program computes as one BSP process: `Process`, its messages, and the plan it reports.

Rules of boundaries, cited as B1 to B6 throughout the package:

B1  A boundary is `sync` or a collective called on the process.  Puts, gets and sends issued before it take effect at
    it, and `inbox` becomes a new list: what arrived with it.  A collective of several supersteps is one boundary: gets
    are read and puts applied in its first superstep.
B2  Supersteps inside arrays, algorithms and handles of `private` neither deliver nor clear the puts, gets and messages
    of the caller.  They count as supersteps.
B3  `coarray` and `register` are no boundaries.  Coarrays can be used at once, and match by creation order; dtype and
    number of dimensions must agree, sizes may differ and travel with the next boundary.  Until then a range error on
    another process is raised at that boundary, on every process; afterwards it is raised at the call.
B4  An index `at` refers to the destination's array: negatives, `...`, slices, integer arrays.  Values broadcast to the
    selection and cast 'same_kind'.  Of repeated positions the last wins; with `op` each counts.
B5  The end of the program is an exchange but no superstep.  Effects issued after the last boundary raise EffectsLost.
B6  A collective error that the program catches leaves the job failed: every later boundary raises it again.

Rules of determinism, cited as D1 to D9: a result is a function of the script, its arguments and inputs, p and the seed.

D1  At the end of a superstep all gets are read first: values as they stood when every process reached the boundary.
    Then puts and accumulates apply in order of (source pid, issue order); the last put wins.
D2  Messages arrive in order of (source pid, issue order).
D3  A reduction gives the bytes of one balanced binary tree over the pids.  Every algorithm reproduces that tree.
D4  `rng` and the global generators of NumPy and `random` are each process's own, seeded from (job seed, pid).  `time`
    is the time agreed at the last boundary, the same on every process.
D5  Choices of algorithms are functions of shapes, layouts, p, sizes that all processes hold, and the machine profile,
    never of the number of elements.
D6  No clock value, set order or hash seed decides about data or traffic.
D7  Equal bytes on all elements presume one build of Python, NumPy and BLAS, and one kind of CPU.  A job of several
    elements compares them when it starts.
D8  BLAS uses one thread if p > 1, unless told otherwise (`blas_threads`), because products differ in their last bits
    between one thread and two.
D9  A delivered array is aligned, C-ordered, writable and the receiver's own copy.  Objects are pickled, also within an
    element and to the sender itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from bsp import collectives
from bsp.coarray import Coarray
from bsp.collectives.pooled import KnownReduction, alike
from bsp.collectives.steps import as_int
from bsp.cost.choice import Choice
from bsp.cost.model import Machine
from bsp.engine.task import Call, Context, Task
from bsp.errors import CannotSend, CastError, NoSuchProcess
from bsp.interpreter.generators import generator
from bsp.rounds import State, rounds
from bsp.source import NOWHERE, here
from bsp.transport.header import digest
from bsp.values.memory import local_array
from bsp.values.payload import PLAIN, dumps, is_abstract, is_array, loads
from bsp.values.region import Shape

Group = Sequence[int] | None
Op = str | np.ufunc | Callable[[Any, Any], Any]


class Message(NamedTuple):
    """One delivered message: the pid of the sender, the tag given to `send` (None without one), and the payload."""

    source: int
    tag: Any
    payload: Any


class Choices(NamedTuple):
    """The algorithms chosen by the last collective and the last exchange, with the machine that they were priced on.

    collective : the choice of the last collective, None before the first.
    exchange : the choice of the last exchange of packets between elements, None if there was nothing to choose.
    `str(plan)` is a table of the predicted times in microseconds.
    """

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


_OF_MPI = {  # names of mpi4py, in small letters
    "rank": "pid", "size": "nprocs", "barrier": "sync()", "bcast": "broadcast(value, root)",
    "recv": "inbox, the list of messages that arrived at the last boundary", "irecv": "inbox",
    "isend": "send(dest, payload)",
    "sendrecv": "send(dest, payload), sync() and inbox", "split": "a collective with group=", "abort": "sys.exit",
    "probe": "inbox", "iprobe": "inbox", "wtime": "time()", "alltoallv": "total_exchange(rows, counts)",
    "gatherv": "gather", "allgatherv": "allgather", "scatterv": "scatter",
}  # fmt: skip


class Process:
    """One of `nprocs` processes that compute, communicate by puts, gets and messages, and synchronise at boundaries.

    pid : the number of this process, 0..nprocs-1.
    nprocs : the number of processes, p.

    A boundary is `sync` or a collective.  Puts, gets and sends issued before it take effect at it,
    and `inbox` becomes a new list that holds what arrived with it (rule B1).  A collective of several
    supersteps is one boundary: its first superstep delivers what was issued before it.

    Every process calls every collective, with the same `op`, `root` and `algorithm`.  These hold for all of them:

    root : the pid of the process that gives or receives the value; a member of `group`.
    group : pids, the same list on all its members; only they give and receive data.  Processes outside the group
        call the collective too and get None.  Lists and reductions follow the order of `group`.
    algorithm : 'one-phase', 'two-phase', 'tree', ...  None: the cheapest on the machine profile (D5).  The choice
        never changes the result (D3).
    Raises SyncMismatch on every process if the calls differ; CannotSend for a value that cannot be pickled;
    NoSuchProcess for a bad `root` or `group`; UnknownAlgorithm; UnknownOperation for a bad `op`; ShapeError for
    values that do not combine or are not one for each process.

    Costs are in McColl's model: g per word, L per superstep, p processes.  A word is 8 bytes.  Of a pickle, n is its
    length; bundles of values are pickled together, which adds about 15 words to each.
    """

    _stays = True  # the caller of a `bsp.Session` receives a handle

    @staticmethod
    def _instead(name: str) -> str | None:
        """Return what to use for a name that mpi4py's communicators have, or a coarray."""
        if name in ("put", "get", "put_each", "get_each", "local"):
            return f"x.{name} of a coarray, x = proc.coarray(shape)"
        small = name.lower().removeprefix("get_")
        return _OF_MPI.get(small) or (small if small != name and hasattr(Process, small) else None)

    def __init__(self, task: Task, context: Context) -> None:
        self._task = task
        self._context = context
        self.pid = task.pid
        self.nprocs = task.nprocs
        self._sync = Call("sync", digest("sync", context.id), (context,))
        self._boundary = task.boundary
        self._allreductions: dict[Any, KnownReduction] = {}  # by `alike`: calls that take the short way
        self._scans: dict[str, KnownReduction] = {}
        self._exscans: dict[str, KnownReduction] = {}

    # --------------------------------------------------------- identity, randomness and time

    @property
    def superstep(self) -> int:
        """The number of supersteps that have ended, the same on every process.  Supersteps inside collectives count."""
        return self._task.element.superstep

    @cached_property
    def rng(self) -> np.random.Generator:
        """The random generator of this process: PCG64 seeded from (job seed, pid), whatever the elements (D4)."""
        element = self._task.element
        if element.abstract is not None:
            drawn: np.random.Generator = element.abstract.generator(element.seed, self.pid)
            return drawn
        return generator(element.seed, self.pid)

    @property
    def machine(self) -> Machine:
        """The machine profile (p, r, g, L) that choices of algorithms depend on; frozen when the job starts (D5)."""
        return self._task.element.machine

    def time(self) -> float:
        """Return the seconds from the start of the job to the last boundary: the same value on every process (D4)."""
        return self._task.element.transport.agreed_clock()

    # ---------------------------------------------------------------------------- boundaries

    def sync(self, label: str | None = None, sets_min_time: bool = True) -> None:
        """End the superstep: the puts, gets and sends issued since the last boundary take effect (B1, D1, D2).

        label : a name for this superstep in traces, reports and predictions.
        sets_min_time : whether this process's compute time may set MinTime, the shortest time of the superstep, by
            which cloned execution recognises slow clones (tails).
        Cost: L, and g·h for what was issued.
        Raises SyncMismatch, RegistrationMismatch, ProcessFailed or ProcessExited, the same on every process, if
        not every process reaches this call; each later boundary raises it again (B6).
        Raises BoundaryInImport, BoundaryInOnce, WrongThread or Forked if this is no place for a boundary.
        """
        if label is not None:
            self._task.label = label
        self._task.sets_min_time = sets_min_time
        self._boundary(self._sync)

    def plan(self) -> Choices:
        """Return the algorithms that the last collective and the last exchange between elements used, and their prices.

        The collective's part is what this process can compute: where only the root knows the size of the value, only
        the root has prices.
        """
        element = self._task.element
        return Choices(self._task.chosen, element.transport.chosen, element.machine)

    # ------------------------------------------------------------------------------- memory

    def coarray(self, shape: int | Shape, dtype: DTypeLike = float, fill: complex | np.generic = 0) -> Coarray:
        """Return a new array on every process, which all other processes can put to and get from.

        shape : of the array on this process.  It may differ between processes; its length and the dtype may not.
        dtype : of numbers, or of text of a given length ('U20'); objects are refused.
        fill : the initial value of every element; one that the dtype can hold, so no NaN for integers.

        Called by every process, in the same order: coarrays are matched by creation order (B3).  The call is no
        boundary, and the coarray can be used at once.
        Cost: no superstep; the shapes travel with the next boundary, which raises RegistrationMismatch if they
        do not match.
        Raises CastError for another `fill` or dtype.
        """
        abstract = self._task.element.abstract
        local = local_array(shape, dtype, fill) if abstract is None else abstract.memory(shape, dtype)
        return self._register(local, aliased=False)

    def register(self, array: np.ndarray) -> Coarray:
        """Make an array of the caller remotely accessible: return a coarray whose `local` is that memory, not a copy.

        array : C-contiguous, aligned, writable, of numbers.
        Called by every process in the same order, like `coarray` (B3).
        Raises CastError for any other array.
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
        """Enter a new coarray in the context; the next boundary matches it with those of the other processes (B3)."""
        context = self._context
        coarray = Coarray(self._task, context, len(context.coarrays), local, aliased, here())
        context.coarrays.append(coarray)
        return coarray

    # ----------------------------------------------------------------------------- messages

    def send(self, dest: int, payload: object, tag: object = None) -> None:
        """Send a message to process `dest`: it is in the receiver's `inbox` after the next boundary.

        payload : an array of numbers travels without pickling; anything else is pickled now.  The receiver
            gets a copy of its own (D9), and the caller may change the payload at once.
        tag : any object that can be pickled; the receiver gets it with the payload.
        Cost: the words of the array, or of the pickle, out of this process and into `dest`.
        Raises NoSuchProcess, CannotSend.
        """
        number = as_int(dest)
        if type(number) is not int or not 0 <= number < self.nprocs:
            raise NoSuchProcess(f"send to process {dest!r}: pids are integers in 0..{self.nprocs - 1}{self._place()}")
        array = pickled = None
        try:
            given: Any = payload
            if is_array(given):
                array = given.copy() if is_abstract(given) else np.array(given, order="C", copy=True)
            else:
                pickled = dumps(payload)
            tag_bytes = None if tag is None else dumps(tag)
        except Exception as wrong:
            what = type(payload).__name__
            if array is not None or pickled is not None:
                what = f"a {type(tag).__name__} as tag"
            raise CannotSend(
                f"send to process {dest} of {what}: it cannot be pickled ({wrong}){self._place()}"
            ) from wrong
        line = here() if self._task.element.checking else NOWHERE
        self._context.outbox.send(self.pid, (number,), self._context.id, tag_bytes, array, pickled, line=line)

    @property
    def inbox(self) -> list[Message]:
        """The messages that arrived with the last boundary, in order of (source pid, issue order)  (D2).

        The next boundary replaces the list by a new one.
        """
        context = self._context
        if context.inbox is None:
            context.inbox = [
                Message(
                    source,
                    None if tag is None else loads(tag),
                    loads(pickled) if pickled is not None else array,
                )
                for source, tag, array, pickled in context.arrived
            ]
            context.arrived = []
        inbox: list[Message] = context.inbox
        return inbox

    def _place(self) -> str:
        """Return source line, pid and superstep in brackets, for messages."""
        return f" ({here()}, process {self.pid}, superstep {self.superstep})"

    # -------------------------------------------------------------------------- libraries

    def private(self, library: str = "") -> Process:
        """Return a second handle of this process; its coarrays, messages and boundaries do not touch the caller's (B2).

        For libraries.  A boundary on the handle delivers what was issued on the handle and nothing else.  Its
        supersteps count like all others.  Every process must call it, in the same order.
        library : the name of a library that calls it where its handle is needed first, perhaps in a round: a clone that
            is given its state there then has the handle that the others have.  Calls with one name give one handle.
        """
        return Process(self._task, self._task.context_of(library) if library else self._task.new_context())

    # ------------------------------------------------------------------------ collectives

    def broadcast(self, value: object = None, root: int = 0, group: Group = None, algorithm: str | None = None) -> Any:
        """Return the `value` of process `root` on every process.

        value : an array of numbers, or an object that can be pickled; only `root`'s is used.
        Cost, n words: one-phase g(p-1)n + L; two-phase 2gn(1 - 1/p) + 2L (arrays and pickles); k-ary tree
        (g(k-1)n + L) ⌈log_k p⌉ at most.  Source: McColl 1.6.1.
        """
        return (self._task.element.sampled or collectives).broadcast(self, value, as_int(root), group, algorithm)

    def reduce(
        self, value: Any, op: Op = "add", root: int = 0, group: Group = None, algorithm: str | None = None
    ) -> Any:
        """Return the values of all processes combined by `op` on process `root`; None on the others.

        value : an array of the same shape and dtype on every process, or an object that `op` combines.
        op : a name ('add', 'multiply', 'min', 'max', 'and', ...), a ufunc of two operands, or an associative function
            of two values.  Python's and NumPy's sum, prod, min, max, any and all mean the operations of two values.
        The values combine in pid order in one balanced binary tree (D3), so every algorithm gives the same bytes; the
        result has the type of the input.
        Cost, n words: one-phase g(p-1)n + L; two-phase 2gn(1 - 1/p) + 2L (arrays); k-ary tree
        (g(k-1)n + L) ⌈log_k p⌉ at most.
        """
        return (self._task.element.sampled or collectives).reduce(self, value, op, as_int(root), group, algorithm)

    def allreduce(self, value: Any, op: Op = "add", group: Group = None, algorithm: str | None = None) -> Any:
        """Return the values of all processes combined by `op`, on every process.

        value, op : as in `reduce`; the order of combination is that of D3.
        Cost, n words: one-phase g(p-1)n + L; two-phase 2gn(1 - 1/p) + 2L (arrays); k-ary tree twice
        (g(k-1)n + L) ⌈log_k p⌉ at most.
        """
        if type(op) is str and group is None and algorithm is None:
            known = self._allreductions.get(op if type(value) in PLAIN else alike(value, op))  # here, to save a call
            if known is not None:
                return known.all(value)
        return (self._task.element.sampled or collectives).allreduce(self, value, op, group, algorithm)

    def scan(self, value: Any, op: Op = "add", group: Group = None, algorithm: str | None = None) -> Any:
        """Return the values of processes 0..pid combined by `op` (an inclusive prefix).

        value, op : as in `reduce`; each prefix combines in the tree of D3.
        Cost, n words: one-phase g(p-1)n + L; two-phase 2gn(1 - 1/p) + 2L (arrays).
        """
        return (self._task.element.sampled or collectives).scan(self, value, op, group, algorithm, inclusive=True)

    def exscan(self, value: Any, op: Op = "add", group: Group = None, algorithm: str | None = None) -> Any:
        """Return the values of processes 0..pid-1 combined by `op` (an exclusive prefix).

        Process 0 gets the identity of `op`, or None if `op` has none.  Cost: that of `scan`.
        """
        return (self._task.element.sampled or collectives).scan(self, value, op, group, algorithm, inclusive=False)

    def gather(self, value: object, root: int = 0, group: Group = None, algorithm: str | None = None) -> Any:
        """Return a list of the values of all processes, by pid, on process `root`; None on the others.

        Cost, n words each: one-phase g(p-1)n + L; k-ary tree up to g(p-1)n + L ⌈log_k p⌉ with fewer messages, of
        pickled bundles.
        """
        return (self._task.element.sampled or collectives).gather(self, value, as_int(root), group, algorithm)

    def allgather(self, value: object, group: Group = None, algorithm: str | None = None) -> Any:
        """Return a list of the values of all processes, by pid, on every process.

        Cost, n words each: one-phase g(p-1)n + L; doubling g(p-1)n + L ⌈log_2 p⌉ with ⌈log_2 p⌉ messages a process, of
        pickled bundles.
        """
        return (self._task.element.sampled or collectives).allgather(self, value, group, algorithm)

    def scatter(
        self, values: Sequence[Any] | None = None, root: int = 0, group: Group = None, algorithm: str | None = None
    ) -> Any:
        """Return this process's value out of a list that process `root` gives.

        values : one value for each process, in pid order; only `root`'s is used.
        Cost, n words each: one-phase g(p-1)n + L; k-ary tree up to g(p-1)n + L ⌈log_k p⌉ with fewer messages, of
        pickled bundles.
        """
        return (self._task.element.sampled or collectives).scatter(self, values, as_int(root), group, algorithm)

    def alltoall(self, values: Sequence[Any], group: Group = None, algorithm: str | None = None) -> Any:
        """Send values[i] to process i; return the list of what arrived from each process, by pid.

        values : one value for each process.
        Cost, n words each: one-phase g(p-1)n + L; logarithmic (g(p/2)n + L) ⌈log_2 p⌉ at most, in pickled bundles.
        """
        return (self._task.element.sampled or collectives).alltoall(self, values, group, algorithm)

    def total_exchange(
        self, rows: ArrayLike | Sequence[Any], counts: Sequence[int] | np.ndarray | None = None,
        algorithm: str | None = None,
    ) -> Any:  # fmt: skip
        """Send consecutive rows of an array to consecutive processes; return (rows received, their counts by pid).

        rows : array; without `counts` its first axis has length nprocs, row i goes to process i, and
            the array of rows received is returned alone (MSL's All_to_all).  A list of payloads, without
            `counts`, is exchanged like `alltoall`.
        counts : how many rows go to each process, nprocs numbers; they sum to len(rows).
        The rows received are in order of source pid.
        Cost: h = the most rows any process sends or receives; g·h + L.
        """
        return (self._task.element.sampled or collectives).total_exchange(self, rows, counts, algorithm)

    def transfer(self, payload: object = None, to: int | None = None, expect: bool = False) -> Any:
        """Send `payload` to process `to`, if given; return what arrives if `expect`, else None.

        to : the pid of the receiver; None: send nothing.
        expect : whether a payload is sent to this process.
        Every process calls it.  The receiver checks two rules: it has at most one sender, and something is sent to
        it if and only if it expects something.
        Cost, n words: g·n + L.  Source: MSL 3.3.3.
        Raises TransferMismatch, which ends the job.
        """
        return (self._task.element.sampled or collectives).transfer(self, payload, to, expect)

    # ------------------------------------------------------------------------------- rounds

    def rounds(self, times: int, state: State | None = None) -> Iterator[int]:
        """Iterate over range(times), the rounds of an iteration; cloned execution can recover at the head of each.

        times : the number of rounds, the same on every process.
        state : a bsp.State with everything that a round needs of the last one.  Without clones it has no effect.
        Every process must reach the head of a round in the same superstep.  Only the outermost loop counts: a
        loop inside another one is a plain range(times).
        Raises TypeError for times that are no whole number, and for a state that is no bsp.State.
        """
        if state is not None and not isinstance(state, State):
            raise TypeError(f"rounds: the state is a bsp.State, as in bsp.State(x=x), not a {type(state).__name__}")
        return rounds(self._task, index(times), state)

    def once(self, call: Callable[[], Any]) -> Any:
        """Call `call()` for an effect outside the program, such as writing a file or reading a clock; return its value.

        Without clones it is a plain call.  With clones one clone of this process makes it, and all of them get its
        value, or its exception, the text that it prints, and its draws from the process's generators.  Variables that
        it changes are changed in that clone alone.  It is called again only if the clone that called it died before
        its value was known: at least once, that is.  Not called in a run without values (`bsprun --predict
        --abstract`), where it returns None.
        Raises, with clones: CannotSend if the value cannot be pickled, BoundaryInOnce if the call contains a boundary.
        """
        element = self._task.element
        if element.abstract is not None:
            return None
        return call() if element.recovery is None else element.recovery.once(self._task, call)

    def __repr__(self) -> str:
        return f"<process {self.pid} of {self.nprocs}>"
