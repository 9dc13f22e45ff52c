"""One BSP process inside its interpreter: its state, its contexts, its turns and its boundaries.

Many processes share an interpreter and run in turn, each until its next boundary.  The parts of the interpreter
that belong to the process whose turn it is are in `bsp.interpreter.belongings`.

A process is RUNNING, WAITING at a boundary or at the head of a round, RETURNED, or RAISED (an exception or
`sys.exit` with a status).
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import io
import os
import sys
from _thread import get_ident
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from bsp.errors import BoundaryInImport, BoundaryInOnce, BspError, CannotMove, EffectsLost, Forked, WrongThread
from bsp.interpreter import turns
from bsp.interpreter.belongings import Belongings
from bsp.interpreter.generators import GlobalStreams
from bsp.interpreter.profilers import active, paused, resumed
from bsp.source import NOWHERE, SourceLine, here, importing, traceback_of, user_line
from bsp.transport.compiled import message_in
from bsp.transport.header import digest
from bsp.values.effects import Outbox

if TYPE_CHECKING:
    import greenlet

    from bsp.coarray import Coarray
    from bsp.cost.choice import Choice
    from bsp.engine.element import Element
    from bsp.engine.recovery import LoopPosition
    from bsp.interpreter.profiling import ProcessProfile
    from bsp.processes import Process

IN_CHILD = None  # the value of an element's `thread` in a child made by os.fork
IN_ONCE = -1  # its value while a clone makes a call of `once`
IN_STATE = -2  # its value while the state of a process is pickled, loaded or looked at
RUNNING, WAITING, RETURNED, RAISED = "running", "waiting", "returned", "raised"

# Python's table of module locks, empty unless an import is under way: frames are searched for an import only then,
# because the search is slow.  True, which means to search always, where Python has no such table.
_importing_now: Any = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", True)


@dataclass(slots=True)
class Context:
    """A name space of effects: the user's own (0), the collectives' (1), or a library's (2, 3, ...).

    A boundary delivers the effects of the contexts that its call lists and no others (B2).
    """

    id: int
    outbox: Outbox = field(default_factory=Outbox)
    arriving: list[Any] = field(default_factory=list)  # delivered by the boundary under way
    arrived: list[Any] = field(default_factory=list)  # delivered by the last one, not yet unpickled
    inbox: list[Any] | None = None  # the same as messages, made at the first access
    landings: dict[int, list[Any]] = field(default_factory=dict)  # by source: arrays to receive the next ones into
    coarrays: list[Coarray | None] = field(default_factory=list)
    registered: int = 0  # coarrays[:registered] have been matched between all processes
    releases: list[int] = field(default_factory=list)

    def receive(self, source: int, data: bytes) -> None:
        """Add a message that has come as a record to those that the boundary under way delivers."""
        self.arriving.append((source, *message_in(data)))

    def drop(self) -> None:
        """Drop the effects issued since the last boundary."""
        self.outbox.effects.clear()
        self.landings = {}
        for coarray in self.coarrays:
            if coarray is not None:
                coarray._batch = None  # later scalar puts open a new one


@dataclass(slots=True)
class Call:
    """A boundary that a process waits at: equal digests on all processes mean the same call."""

    text: str  # for messages: "sync" or "broadcast(root=0)"
    digest: bytes
    contexts: tuple[Context, ...]  # whose effects the boundary delivers
    given: bytes = b""  # a digest of the values that were given to arrays before, which `digest` includes
    hint: int = 0  # `boundary` returns the largest of all processes: a root announces how many supersteps follow


END = Call("its end", digest("end"), ())


class Task:
    """A process as its element handles it; `Process` is the handle that the program gets."""

    def __init__(self, element: Element, pid: int, seed: int, main: ModuleType | None) -> None:
        self.element = element
        self.pid = pid
        self.nprocs = element.nprocs
        self.body: Callable[[], Any] = lambda: None
        self.call = END
        self.state = RUNNING
        self.greenlet: greenlet.greenlet | None = None  # where its next turn begins: its own, or one of the program's
        self.context: contextvars.Context | None = None  # of its greenlets
        self.result: Any = None
        self.raised: BaseException | None = None
        self.raised_in = 0  # superstep
        self.fault: BspError | TypeError | None = None  # a mistake found at a boundary: the next header reports it
        self.contexts = {0: Context(0), 1: Context(1)}
        self.next_context = 2
        self.of_libraries: dict[str, int] = {}  # the contexts of libraries that have named theirs
        self.handle: Process | None = None
        self.label: str | None = None  # of the superstep under way
        self.choice: Choice | None = None  # the algorithm of the collective under way
        self.chosen: Choice | None = None  # that of the last collective
        self.round: tuple[int, int] | None = None  # of the outermost `rounds`: this round, and how many there are
        self.loops = 0  # outermost `rounds` entered
        self.libraries: dict[str, Any] = {}  # state that libraries keep for this process, by library
        self.place: LoopPosition | None = None  # the head of a round at which it waits
        self.sets_min_time = True  # the argument of the last `sync`
        self.profile: ProcessProfile | None = None
        # Process 0 writes to the console at once, except under --check and cloned execution.  The text of the others
        # waits for the boundary, where element 0 prints it in pid order.
        self.text: io.BytesIO | None = None
        stdout: TextIO = sys.stdout
        if pid != 0 or element.checking or element.recovery is not None:
            self.text = _Text()
            encoding, errors = getattr(stdout, "encoding", None), getattr(stdout, "errors", None)  # as process 0's
            stdout = io.TextIOWrapper(self.text, encoding or "utf-8", errors or "replace", write_through=True)
        self.streams = GlobalStreams(seed, pid)
        self.own = Belongings(main, self.streams, stdout, sys.stdin if pid == 0 else _NO_INPUT)

    # ------------------------------------------------------------------- turns

    def enter(self) -> None:
        """Begin a turn: give the interpreter to this process."""
        self.element.turn = self
        if self.element.abstract is not None:
            self.element.abstract.enter(self.pid)
        turns.enter(self.own)

    def leave(self) -> None:
        """End a turn: keep what the process has changed of the interpreter for its next turn."""
        turns.leave(self.own)

    def go_on(self, body: Callable[[], Any]) -> None:
        """Prepare to run another body; effects that no boundary has delivered are dropped."""
        self.body = body
        self.call, self.state = END, RUNNING
        self.greenlet = self.result = self.raised = self.fault = None
        self.label = self.choice = self.round = self.place = None
        for context in self.contexts.values():
            context.drop()

    @property
    def main(self) -> ModuleType | None:
        """The process's own `__main__` module, or None if it has none."""
        return self.own.main

    @contextlib.contextmanager
    def as_current(self) -> Iterator[None]:
        """Make this process the one that calls inside the block, where it may end no superstep.

        For its state: the classes of a script pickle by the `__main__` of their process, and methods that are called
        then, as `__getstate__`, may ask `bsp.process()` where they are.
        """
        element, kept = self.element, sys.modules["__main__"]
        turn, element.turn = element.turn, self
        thread, element.thread = element.thread, IN_STATE
        if self.main is not None:
            sys.modules["__main__"] = self.main
        try:
            yield
        finally:
            sys.modules["__main__"] = kept
            element.turn, element.thread = turn, thread

    def run(self) -> None:
        """Run the process from its first line to its last; never raises."""
        self._run()
        paused()  # a profiler that the program has started and not stopped
        if self.element.thread is IN_CHILD:
            self._end_of_child()

    def _end_of_child(self) -> None:
        """End a child made by os.fork that has come to the end of the script, which must not go on as this element."""
        error = self.raised
        if error is not None and not isinstance(error, SystemExit):
            print(f"bsprun: a child of process {self.pid} raised:\n{traceback_of(error)}", end="", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError, OSError):
                stream.flush()
        status = 0 if error is None else status_of(error) if isinstance(error, SystemExit) else 1
        os._exit(status)

    def superstep_profiled(self) -> None:
        """Assign the calls profiled since the last boundary to this one."""
        if self.profile is not None:
            self.profile.superstep_ended(self.label or f"{self.call.text} at {self.line()}")
            self.label = None if self.element.recorder is None else self.label

    def _profiled(self) -> Any:
        """Run the body under a profiler of its own."""
        from bsp.interpreter.profiling import ProcessProfile

        self.profile = ProcessProfile()
        return self.profile.run(self.body)

    def _run(self) -> None:
        """Run the body; turn its result, exit status or exception into the state that the others will see."""
        try:
            if self.element.failure is not None:  # an interrupt before its first turn
                raise self.element.failure_for(self)
            self.result = self.body() if self.element.profile is None else self._profiled()
            self.check_nothing_lost()
            self.state, self.call = RETURNED, END
        except SystemExit as left:
            try:
                self.check_nothing_lost()
                self.state, self.call = (RAISED if status_of(left) else RETURNED), END
                self.raised, self.raised_in = left, self.element.superstep
            except EffectsLost as lost:
                lost.__suppress_context__ = True
                self._fail(lost)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it ends the job at the next boundary
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Record the exception that ended the process."""
        self.raised, self.raised_in = error, self.element.superstep
        self.state, self.call = RAISED, END
        if isinstance(error, KeyboardInterrupt):
            self.element.interrupted(self)

    def check_nothing_lost(self) -> None:
        """Raise EffectsLost for effects issued after the last boundary, which would never be delivered (B5)."""
        if self.element.failure is not None:
            return
        for context in self.contexts.values():
            effects = context.outbox.effects
            if effects:
                line = getattr(effects[0], "line", NOWHERE)
                first = f"the first at {line}" if line else "bsprun --check names the line of the first"
                raise EffectsLost(
                    f"process {self.pid} ends with {len(effects)} put, get or send call(s) issued after its last "
                    f"boundary (superstep {self.element.superstep}; {first}); sync once more to deliver them"
                )

    # -------------------------------------------------------------- boundaries

    def boundary(self, call: Call) -> int:
        """Wait until every process waits at this boundary and its effects are delivered; return the largest hint (B1).

        Raises the job's failure if there is one, before or after the wait (B6).
        Raises BoundaryInImport, BoundaryInOnce, NotRegistered, WrongThread or Forked if the caller may not end
        supersteps.
        """
        element = self.element
        if _importing_now or element.turn is not self or get_ident() != element.thread:
            try:
                self._check_place(call, sys._getframe(1))
            except BspError:
                self.contexts[1].drop()  # what a collective has queued must not arrive with the next one's
                raise
        if element.failure is not None:  # B6
            raise element.failure_for(self)
        self.call = call
        self.state = WAITING
        if element.hub is None:  # alone on its element: nothing to wait for but the other elements
            element.meet()
        else:  # as `_end_turn`, without its call
            profiler = paused() if active() is not None else None
            self.greenlet = element.hub.getcurrent()
            element.hub.switch()
            if profiler is not None:
                resumed(profiler)
        self.state = RUNNING
        if element.failure is not None:
            raise element.failure_for(self)
        return element.hint

    def _check_place(self, call: Call, frame: FrameType) -> None:
        """Raise what `boundary`, called in `frame`, raises if the caller may not end supersteps."""
        refuse_in_import(call.text, frame, self.pid)
        element = self.element
        if element.turn is not self:
            element.refuse(self, call.text)
        if get_ident() != element.thread:
            if element.thread is IN_CHILD:
                raise Forked(
                    f"{call.text} at {here()} in a child that process {self.pid} has made by os.fork: only the process "
                    f"itself ends its supersteps (superstep {element.superstep}); let the child end by os._exit"
                )
            if element.thread == IN_ONCE:
                raise BoundaryInOnce(
                    f"{call.text} at {here()} in a call of once by process {self.pid}: one clone makes the call "
                    f"for all, and the others would miss the boundary (superstep {element.superstep})"
                )
            if element.thread == IN_STATE:
                raise CannotMove(
                    f"{call.text} at {here()} while the state of process {self.pid} is pickled or loaded: each clone "
                    f"does that at another time, and no other process takes part (superstep {element.superstep})"
                )
            raise WrongThread(
                f"{call.text} at {here()} by a thread that process {self.pid} has started: the process itself "
                f"ends its supersteps (superstep {element.superstep})"
            )

    def _end_turn(self) -> None:
        """Switch to the other processes until it is this one's turn again; its profiler is paused meanwhile."""
        profiler = paused()
        hub = self.element.hub
        assert hub is not None
        self.greenlet = hub.getcurrent()
        hub.switch()
        if profiler is not None:
            resumed(profiler)

    @property
    def running(self) -> bool:
        """True while the task's code runs: not after its end, and not while its frames are being cleared."""
        return self.state is RUNNING and self.element.turn is self

    def stand(self, place: LoopPosition) -> None:
        """Wait at the head of a round until all processes here wait at it (see `bsp.engine.recovery`).

        Recovery may change `place.round` and `place.final` meanwhile.
        """
        element = self.element
        if element.failure is not None:
            raise element.failure_for(self)
        what = "the end of" if place.final else f"round {place.round} of"
        self.place = place
        self.call = Call(f"{what} proc.rounds", digest("head", place.loop, place.round, place.final), ())
        self.state = WAITING
        if element.hub is None:
            element.gather_heads()
        else:
            self._end_turn()
        self.state, self.place = RUNNING, None
        if element.failure is not None:
            raise element.failure_for(self)

    def new_context(self) -> Context:
        """Return a new name space for a library's own supersteps; its number is the same on every process."""
        context = self.contexts[self.next_context] = Context(self.next_context)
        self.next_context += 1
        return context

    def context_of(self, library: str) -> Context:
        """Return the name space of a library, made at the first call."""
        if library not in self.of_libraries:
            self.of_libraries[library] = self.new_context().id
        return self.contexts[self.of_libraries[library]]

    def line(self) -> SourceLine:
        """Return the source line where the user's code waits.  Takes some microseconds."""
        if self.greenlet is not None:
            return user_line(self.greenlet.gr_frame)
        return user_line(sys._getframe(1))

    # -------------------------------------------------------------------- text

    def has_text(self) -> bool:
        """Return whether text waits to be printed at a boundary.  Text of pid 0 that is out already does not."""
        return self.text is not None and self.text.tell() > 0

    def take_text(self, size: int | None = None) -> bytes:
        """Return the text printed since the last boundary, and forget it; or its first `size` bytes."""
        if self.text is None:
            return b""
        text = self.text.getvalue()
        self.text.seek(0)
        self.text.truncate()
        if size is not None:
            self.text.write(text[size:])
        return text[:size]


class _Text(io.BytesIO):
    """A buffer for the output of a process; closing sys.stdout, or losing it, discards nothing."""

    def close(self) -> None:
        """Do nothing: the buffer stays open until the element has taken the text."""


_NO_INPUT = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # stdin belongs to pid 0


def imports_under_way() -> bool:
    """Return whether some module may be under import, so that frames must be searched for it."""
    return bool(_importing_now)


def refuse_in_import(call: str, frame: FrameType, pid: int) -> None:
    """Raise BoundaryInImport if `frame` runs while a module is imported."""
    if not _importing_now:
        return
    module = importing(frame, Task.run.__code__)
    if module is not None:
        raise BoundaryInImport(
            f"{call} at {here()} while module '{module}' is imported (process {pid}): modules are shared between the "
            "processes of an element, and the first would do it for all; call it from the script, or in a function"
        )


def status_of(left: SystemExit) -> int:
    """Return the exit status that a SystemExit asks for: None is 0, a text is 1."""
    if left.code is None:
        return 0
    return left.code if isinstance(left.code, int) else 1
