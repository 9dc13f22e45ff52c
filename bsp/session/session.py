"""`bsp.Session`: processes that stay alive between calls, for a prompt or the cells of a notebook."""

from __future__ import annotations

import codecs
import os
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Self, TextIO

from bsp.command.launch import Launch
from bsp.cost.machine_file import profile_of
from bsp.cost.model import Machine
from bsp.cost.record.progress import DisplayLine, live_line
from bsp.cost.units import counted
from bsp.engine.layout import check_numbers
from bsp.errors import BspError, CannotMove, CannotSend, Forked, LaunchError, ProcessExited, SessionEnded
from bsp.host import cores, find_mpiexec, no_mpi
from bsp.notebook import cell_names, clear, hide_ours, publish, shell
from bsp.session.channel import (
    ANSWER,
    CLEAR,
    DISPLAY,
    ERROR_TEXT,
    INPUT,
    LINE,
    TEXT,
    CallOutcome,
    NotSent,
    Request,
)
from bsp.session.elements import Elements
from bsp.session.handles import Description, Handle, Handles, description
from bsp.session.tracebacks import Told, rebuilt
from bsp.transport.schedules import CHOICES
from bsp.values.by_value import call_dumps

_newest: list[weakref.ref[Session]] = []
_decoder = codecs.getincrementaldecoder("utf-8")


class Session:
    """Processes that stay alive from call to call, with all that they have made.

    nprocs : the number of processes; None: as many as elements, or one a core.
    elements : the number of operating-system processes that host them, at most nprocs; more than one are MPI ranks.
        None: as many as cores, or 1 where MPI is missing.
        All are on this machine; `bsp.run` and `bsprun` reach other hosts.
    seed, schedule, blas_threads, machine : as for `bsp.run`.
    progress : whether to show a live line during calls: superstep, h, time elapsed and predicted.

        s = bsp.Session(8, 2)
        x = s.run(lambda proc: ba.ones((1000, 1000)))[0]     # a handle: the array stays on the processes
        s.run(lambda proc: float(x.sum()))                   # each process uses its own part of it

    A session is a context manager.  It ends with its `with` block, by `close`, when the object is deleted, and with the
    interpreter, however that ends; then none of its processes is left.  An interrupt (Ctrl-C) of a call ends it too.

    A result is a function of the calls, p and the seed (D1 to D9).  Supersteps count on from call to call, coarrays,
    generators, the inbox and the names of `%%bsp` cells are kept.  The end of a call is an exchange but no superstep
    (B5).  An exception that every process raises at the same place ends the call only.  Any other one ends the session,
    because the processes are no longer at the same place of the program.
    Raises LaunchError for arguments that do not fit, or elements that cannot be started.
    """

    def __init__(
        self,
        nprocs: int | None = None,
        elements: int | None = None,
        *,
        seed: int = 0,
        schedule: str = "auto",
        blas_threads: int | None = None,
        machine: Machine | str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> None:
        check_numbers("bsp.Session", nprocs=nprocs, elements=elements, seed=seed, blas_threads=blas_threads)
        self.nprocs, self.elements = _sizes(nprocs, elements)
        if schedule not in CHOICES:
            raise LaunchError(f"bsp.Session: schedule {schedule!r} is none of {', '.join(CHOICES)}")
        self.superstep = 0
        self._calls = 0
        self._ended = ""  # why, if it has
        self._closed = False  # by its user: one that has ended otherwise is missed
        self._lock = threading.Lock()
        self._progress = progress
        self._handles = Handles(self)
        job = Launch(
            nprocs=self.nprocs, elements=self.elements, program=[], seed=seed, schedule=schedule,
            blas_threads=blas_threads, machine=profile_of(machine, self.elements), progress=progress,
        )  # fmt: skip
        try:
            self._elements = Elements(job)
        except BaseException as error:  # shown is the caller's line
            hide_ours(error)
            raise
        self._end = weakref.finalize(self, self._elements.close)
        _newest.append(weakref.ref(self))

    # ------------------------------------------------------------------------------------------------- calls

    def run(self, main: Callable[..., Any], *args: Any) -> list[Any]:
        """Run `main(proc, *args)` on all processes and return their results, by pid.

        main, args : travel by cloudpickle, and so do the results.  A distributed array or a coarray stays on the
            processes: the result has a handle in its place, and a process gets its own array for a handle in `args` or
            among the names that `main` uses.
        What processes print appears in the order of `bsprun`: that of process 0 at once, that of the others at the end
        of their superstep, by pid.  Process 0 reads the standard input of this interpreter, line by line.
        Raises the exception of the program, with a note that names the process and the superstep; SessionEnded;
        CannotSend for arguments and results that cannot be pickled; Forked in a child made by `os.fork`.
        """
        try:
            return self._run(main, args)
        except BaseException as error:  # shown are the caller's line and those of main
            hide_ours(error)
            raise

    def put(self, **values: Any) -> None:
        """Set names on all processes, for `%%bsp` cells: each process gets a copy, or its own value for a handle."""
        self.run(_set_names, values)

    def get(self, name: str) -> list[Any]:
        """Return what a name that `%%bsp` cells have set means on each process, by pid; arrays as handles."""
        return self.run(_value_of_name, name)

    def _run(
        self, main: Callable[..., Any], args: tuple[Any, ...], visible: bool = True, keeps: bool = True
    ) -> list[Any]:
        """Do what `run` promises.

        visible : with a line of progress, if the session shows one.  keeps : whether arrays stay on the processes.
        """
        if self._elements.elsewhere():  # both would read the answers of both
            raise Forked(
                f"a call of {self!r} in a child made by os.fork, as multiprocessing does: only the process that has "
                f"made the session calls it; {self._advice()} in the child"
            )
        if self._ended:
            raise SessionEnded(f"this session has ended: {self._ended}; {self._advice()}")
        if not self._lock.acquire(blocking=False):
            raise LaunchError(f"{self!r} runs a call already; a session runs one at a time")
        try:
            body = call_dumps("Session.run", main, args, self._handles.dumps)
            self._calls += 1
            return self._results(self._answers(body, live_line() if self._progress and visible else None, keeps))
        finally:
            self._lock.release()

    def _request(self, body: bytes, keeps: bool) -> Request:
        displays = shell() is not None
        return Request(self._calls, body, list(sys.path), cell_names(), self._handles.dropped(), keeps, displays)

    def _answers(self, body: bytes, line: DisplayLine | None, keeps: bool) -> list[CallOutcome]:
        """Send a call to the elements; return their answers, by element, and show what processes print meanwhile."""
        answers: dict[int, CallOutcome] = {}
        shown = _Output(line)
        try:
            self._elements.send(self._request(body, keeps))
            while len(answers) < self.elements:
                if not self._elements.waiting():
                    shown.flush()
                heard = self._elements.hear()
                if heard is None:
                    cause = self._elements.cause_of_death()
                    if self._ended:  # closed by another thread
                        raise SessionEnded(f"this session has ended: {self._ended} during a call; {self._advice()}")
                    self._close(cause)
                    raise SessionEnded(f"{cause}; the session has ended; {self._advice()}")
                element, kind, value = heard
                if kind == ANSWER:
                    answers[element] = value
                elif kind == INPUT:
                    shown.flush()
                    self._elements.answer(element, _line_of_input())
                else:
                    shown.show(element, kind, value)
        except BaseException as error:
            if not self._ended:  # processes are in the middle of a call that nobody waits for
                why = "a call was interrupted" if isinstance(error, KeyboardInterrupt) else f"{error!r} during a call"
                self._ended = why  # first: a second Ctrl-C may interrupt the end
                self._elements.kill()
                self._close(why)
                self._note_end(error, why)
            raise
        finally:
            shown.flush()
        return [answers[element] for element in range(self.elements)]

    def _results(self, answers: list[CallOutcome]) -> list[Any]:
        """Return the results in the answers of a call, or raise the exception that ended it."""
        first = answers[0]
        self.superstep = first.superstep
        if first.failure is None and not first.status:
            results = {pid: data for answer in answers for pid, data in answer.results.items()}
            found = self._handles.loads([results[pid] for pid in range(self.nprocs)])
            lost = next((result.why for result in found if isinstance(result, NotSent)), None)
            if lost is not None:
                raise CannotSend(f"{lost}; a call returns values, or arrays, which stay on the processes")
            return found
        raised = {pid: found for answer in answers for pid, found in answer.raised.items()}
        raise self._failure(first, raised)

    def _failure(self, answer: CallOutcome, raised: dict[int, tuple[int, Told]]) -> BaseException:
        """Return the exception that ended a call; end the session unless all processes have raised it alike."""
        culprit = answer.culprit
        if answer.failure is None:  # sys.exit with a status
            pid = min(pid for pid, (_, told) in raised.items() if told.name == "SystemExit")
            told = raised[pid][1]
            error = self._exit(rebuilt(told), pid, answer.status)
            if answer.in_step and all(told.alike(other) for _, other in raised.values()):
                error.add_note(f"Raised by {self._everyone()} in superstep {raised[pid][0]}.")
                return error
        elif culprit in raised and answer.failure.name == "ProcessFailed":
            superstep, told = raised[culprit]
            error = rebuilt(told)
            if answer.in_step and all(told.alike(other) for _, other in raised.values()):
                error.add_note(f"Raised by {self._everyone()} in superstep {superstep}.")
                return error
            error.add_note(f"Raised by process {culprit} in superstep {superstep}.")
        else:  # a mistake that only a comparison of the processes shows: the place is that of the first process
            error = rebuilt(answer.failure)
            alike = [found for _, found in raised.values() if found.name == answer.failure.name]
            error.__traceback__ = rebuilt(alike[0]).__traceback__ if alike else None
        who = f"process {culprit} raised " if culprit >= 0 else ""
        why = f"{who}{type(error).__name__} in superstep {answer.superstep}"
        self._note_end(error, "the processes are no longer at the same place of the program")
        self._close(why)
        return error

    def _exit(self, left: BaseException, pid: int, status: int) -> BaseException:
        """Return the exception for a process that has called sys.exit."""
        code = left.code if isinstance(left, SystemExit) else None
        what = f": {code}" if isinstance(code, str) else f" with status {status}"
        return ProcessExited(f"process {pid} called sys.exit{what}").with_traceback(left.__traceback__)

    def _note_end(self, error: BaseException, why: str) -> None:
        """Note in an exception that the session has ended with it."""
        error.add_note(f"The session has ended: {why}; {self._advice()}.")

    def _everyone(self) -> str:
        return "all processes" if self.nprocs > 1 else "process 0"

    def _describe(self, handle: Handle) -> Description:
        """Return the present description of a handle's value, or the last one known."""
        changed = handle._seen != self._calls  # calls since then may have computed the array
        if changed and not self._ended and len(handle._pids) == self.nprocs and not self._lock.locked():
            with suppress(BspError):
                handle._described = self._run(_described, (handle,), visible=False)[0]
            handle._seen = self._calls
        return handle._described

    # --------------------------------------------------------------------------------------------------- end

    def close(self) -> None:
        """End the session; none of its processes is left.  No effect on a session that has ended."""
        self._closed = True
        self._close("it was closed")

    def _close(self, why: str) -> None:
        self._ended = self._ended or why
        self._end()

    def _advice(self) -> str:
        return f"start a new one with bsp.Session({self.nprocs}, {self.elements})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise CannotMove(
            f"{self!r} stays in the process that has made it: a function that runs on the processes cannot use it; "
            "proc.nprocs, proc.superstep and names of the notebook are there, and values go there as arguments"
        )

    def __repr__(self) -> str:
        on = f"{counted(self.nprocs, 'process', 'processes')} on {counted(self.elements, 'element')}"
        return f"<bsp.Session: {on}, {f'ended: {self._ended}' if self._ended else f'superstep {self.superstep}'}>"


class OneCall(Session):
    """The session of one `bsp.run`, whose exceptions do not mention it: they are those of a run without a session."""

    def results(self, main: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
        """Run `main` and return its results, by pid.  Raises LaunchError if an element dies."""
        try:
            return self._run(main, args, keeps=False)
        except SessionEnded:
            raise LaunchError(f"bsp.run: {self._ended}") from None

    def _exit(self, left: BaseException, pid: int, status: int) -> BaseException:
        return left

    def _note_end(self, error: BaseException, why: str) -> None:
        """Add nothing: the caller has no session."""


def newest() -> Session | None:
    """Return the session made last of those that were not closed; it may have ended by an error."""
    found = [session for reference in _newest if (session := reference()) is not None and not session._closed]
    _newest[:] = [weakref.ref(session) for session in found]
    return found[-1] if found else None


class _Output:
    """The printed output of processes, shown in the output of this interpreter.

    It is flushed when nothing more waits to be shown: in a notebook every flush is a message to the browser.
    """

    def __init__(self, line: DisplayLine | None) -> None:
        self._line = line
        self._written: TextIO | None = None  # the stream that is not flushed
        # a character may be cut by the end of a message
        self._decoders: defaultdict[tuple[int, str], Any] = defaultdict(lambda: _decoder("replace"))

    def show(self, element: int, kind: str, value: Any) -> None:
        """Show a message of an element: text for standard output or error, a value, or the line of progress."""
        if kind == LINE:
            self.flush()
            if self._line is not None:
                self._line.end(value[:-1]) if value.endswith("\n") else self._line.show(value)
            return
        if self._line is not None:
            self._line.clear()
        if kind in (DISPLAY, CLEAR):
            self.flush()
            publish(*value) if kind == DISPLAY else clear(value)
            return
        stream = {TEXT: sys.stdout, ERROR_TEXT: sys.stderr}[kind]
        if stream is not self._written:  # what is written first appears first
            self.flush()
        if stream is not None:
            stream.write(self._decoders[element, kind].decode(value))
            self._written = stream

    def flush(self) -> None:
        """Show all that was written."""
        if self._written is not None:
            self._written.flush()
            self._written = None


def _line_of_input() -> str:
    """Return a line of standard input, which a notebook asks for in a field below the cell; "" at its end."""
    try:
        return input() + "\n"
    except Exception:  # noqa: BLE001 - EOFError, or one of a notebook that has nobody to ask
        return ""


def _sizes(nprocs: int | None, elements: int | None) -> tuple[int, int]:
    """Return the numbers of processes and elements, chosen where they are None.  Raises LaunchError."""
    if elements is None:
        p = cores() if nprocs is None else nprocs
        elements = max(1, min(p, cores()))
        if elements > 1 and find_mpiexec() is None:
            print(f"bsp.Session: one element instead of {elements}: {no_mpi()}", file=sys.stderr)
            elements = 1
    else:
        p = elements if nprocs is None else nprocs
    if p < 1 or elements < 1:
        raise LaunchError(f"bsp.Session: {p} processes on {elements} elements; both are 1 or more")
    if elements > p:
        raise LaunchError(
            f"bsp.Session: {counted(elements, 'element')} for {counted(p, 'process', 'processes')}; "
            "at most one element a process"
        )
    return p, elements


# ------------------------------------------------------------------------------------------ on the processes


def _described(proc: Any, value: Any) -> Any:
    """Return the description of process 0's value."""
    return description(value, drawn=True) if proc.pid == 0 else None


def _set_names(proc: Any, values: dict[str, Any]) -> None:
    """Set names of the process's `__main__`."""
    vars(sys.modules["__main__"]).update(values)


def _value_of_name(proc: Any, name: str) -> Any:
    """Return the value of a name of the process's `__main__`."""
    names = vars(sys.modules["__main__"])
    if name not in names:
        raise NameError(f"name {name!r} is not defined on process {proc.pid}: no %%bsp cell and no put has set it")
    return names[name]
