"""Errors and floating-point warnings in the kernels of a plan, raised alike on every process.

Kernels run on blocks, so a division by zero or a bad exponent occurs only on the process that owns the block.
`Notes` collects such errors while the kernels of one process run.  At the next boundary of the plan each process with
errors sends them to all others, and all do the same: raise the same exception, or warn once.  A plan without errors
sends nothing and takes no extra superstep.

Floating-point errors are collected through NumPy's "log" mode, which passes the text of the warning to `Notes.write`.
The program's own mode, set by `np.seterr` or `np.errstate`, is then applied to that text.  Of several errors the
first is raised: by stage of the plan, by operation, and by position in the array, the order in which NumPy would
meet them.
"""

from __future__ import annotations

import pickle
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.arrays.kernels.shared_warnings import warned
from bsp.source import SourceLine, is_ours
from bsp.values.effects import Send
from bsp.values.payload import dumps

if TYPE_CHECKING:
    from bsp.engine.task import Context

AFTER = 1 << 20  # the step of a kernel's work after its program, such as a reduction
_ERROR = -1  # an exception; sorts before floating-point errors of the same step
_KINDS = ("divide by zero", "overflow", "underflow", "invalid value")  # in the order in which NumPy checks them
_MODES = ("divide", "over", "under", "invalid")
_LOGGED: dict[str, Any] = dict.fromkeys(("warn", "raise", "call", "print", "log"), "log") | {"ignore": "ignore"}
_TAG = b"trouble"  # of messages that carry errors to other processes


class Trouble(NamedTuple):
    """One error in a kernel; errors sort in the order in which NumPy would meet them."""

    stage: int
    step: int  # instruction of the stage's program, or AFTER
    kind: int  # of _KINDS, or _ERROR
    at: tuple[int, ...]  # position in the array; () for floating-point errors
    text: str
    error: Exception | None = None


class ComputingPlace:
    """Stage, instruction and piece that this interpreter is computing.

    One object serves all processes of the interpreter, because they take turns only at boundaries.
    """

    __slots__ = ("name", "notes", "piece", "stage", "step", "task")

    def __init__(self) -> None:
        self.notes: Notes | None = None  # None: errors are not collected but raised where they occur
        self.enter(0)

    def enter(self, stage: int) -> None:
        """Begin a stage: reset the instruction, task and piece."""
        self.stage = stage
        self.step = AFTER
        self.name: str | None = None  # NumPy's name of the operation after the program
        self.task: Any = None
        self.piece: int | Sequence[Any] | None = None  # the first position in C order, or slices; None: all of the task

    def position(self, spot: tuple[int, ...]) -> tuple[int, ...]:
        """Return the position in the array of element `spot` of the current piece."""
        if self.task is None:
            return spot
        starts, piece = [start for start, _ in self.task.box], self.piece
        if isinstance(piece, int):
            first = piece + (spot[0] if spot else 0)
            spot = tuple(int(k) for k in np.unravel_index(first, self.task.shape))
        elif piece is not None:
            spot = tuple(k + (each.start or 0) for k, each in zip(spot or (0,) * len(piece), piece, strict=False))
        return tuple(start + k for start, k in zip(starts, (*spot, *[0] * len(starts)), strict=False))


current = ComputingPlace()


class Notes:
    """Errors of one evaluation on one process.  Kernels run inside `with notes`."""

    __slots__ = ("_call", "_modes", "_outer", "_state", "_told", "failed", "found", "pid", "plain")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.plain = False  # no function of the program runs: errors that it ignores may be left out at the end
        self.found: dict[Any, Trouble] = {}
        self.failed: Trouble | None = None  # the first exception on this process
        self._modes: dict[str, str] = {}  # of the program; empty: not asked for yet
        self._call: Any = None
        self._told: set[str] = set()

    # ------------------------------------------------------------------------ while kernels run

    def __enter__(self) -> None:
        self._outer, current.notes = current.notes, self
        self._state = np.errstate(all="log", call=self) if self.plain else self.collecting()
        self._state.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.__exit__(kind, error, trace)
        del self._state  # which refers to this object: a cycle would keep both until the garbage is collected
        current.notes = self._outer
        current.enter(0)  # drop the reference to the last task's blocks
        if self.found and self.plain:
            modes = self._known_modes()
            self.found = {key: each for key, each in self.found.items() if modes[_MODES[each.kind]] != "ignore"}

    def collecting(self) -> np.errstate:
        """Return a context manager that sends NumPy's floating-point errors to this object.

        It stays in force across boundaries, because NumPy's error state belongs to one process.  `current` is shared
        by all processes of the interpreter.
        """
        modes = self._known_modes()
        return np.errstate(
            divide=_LOGGED[modes["divide"]], over=_LOGGED[modes["over"]], under=_LOGGED[modes["under"]],
            invalid=_LOGGED[modes["invalid"]], call=self,
        )  # fmt: skip

    def _known_modes(self) -> dict[str, str]:
        """Return the program's floating-point error modes: those in force when they are first asked for.

        That must not be inside `with notes`.
        """
        if not self._modes:
            self._modes = np.geterr()  # type: ignore[assignment]
            self._call = np.geterrcall()
        return self._modes

    def write(self, text: str) -> None:
        """Note a floating-point error; NumPy passes a line such as "Warning: overflow encountered in exp"."""
        text = text.partition(": ")[2].strip()
        kind = next(k for k, name in enumerate(_KINDS) if text.startswith(name))
        if current.step == AFTER and current.name is not None:
            text = f"{_KINDS[kind]} encountered in {current.name}"
        found = Trouble(current.stage, current.step, kind, (), text)
        self.found.setdefault(found[:-1], found)

    def fail(self, error: Exception, spot: Callable[[], tuple[int, ...]] = tuple) -> None:
        """Note an exception, unless an earlier one is noted already.

        spot : returns the position in the piece of the element at fault; called only if it can matter.
        """
        found = Trouble(current.stage, current.step, _ERROR, current.position(()), "", error)
        if self.failed is None or found[:4] < self.failed[:4]:  # the piece begins before the noted error
            found = found._replace(at=current.position(spot()))
            if self.failed is None or found[:4] < self.failed[:4]:
                self.failed = found

    # ------------------------------------------------------------------------- at a boundary

    def __bool__(self) -> bool:
        return bool(self.found) or self.failed is not None

    @property
    def stages(self) -> set[int]:
        """Stages with errors that have not been sent or raised yet."""
        return {each.stage for each in self._all()}

    def _all(self) -> list[Trouble]:
        return [*self.found.values(), *([] if self.failed is None else [self.failed])]

    def tell(self, context: Context, nprocs: int) -> None:
        """Send this process's errors to all others at the next boundary; send nothing if there are none."""
        if not self:
            return
        packed = self._packed()
        others = tuple(pid for pid in range(nprocs) if pid != self.pid)
        if others:
            context.outbox.effects.append(Send(self.pid, others, context.id, _TAG, None, packed))

    def hear(self, arrived: list[Any]) -> list[Any]:
        """Raise or warn of the errors of all processes; return the other messages that arrived at the boundary."""
        told = [(source, pickled) for source, tag, _, pickled in arrived if tag == _TAG]
        if told or self:
            self.settle([(source, each) for source, pickled in told for each in _unpacked(pickled)])
            return [each for each in arrived if each[1] != _TAG]
        return arrived

    def _packed(self) -> bytes:
        """Return this process's errors pickled.  The exception is pickled apart, as `_portable` returns it."""
        told, data = list(self.found.values()), b""
        if self.failed is not None and self.failed.error is not None:
            error, data = _portable(self.failed.error)
            self.failed = self.failed._replace(error=error)
            told.append(self.failed._replace(error=None))
        return dumps((told, data))

    def settle(self, others: Iterable[tuple[int, Trouble]] = (), shows: bool | None = None) -> None:
        """Raise or warn of this process's errors and of `others`, in the program's floating-point error modes.

        others : (pid, error) of the other processes.
        shows : whether this process prints the warnings, where others may not have the same.  None: every process
            calls this with the same errors, and process 0 prints for all.
        """
        everything = [*others, *[(self.pid, each) for each in self._all()]]
        self.found, self.failed = {}, None
        for _, each in sorted(everything, key=lambda found: (found[1][:4], found[0])):
            if each.error is not None:
                raise each.error
            if each.text not in self._told:
                self._told.add(each.text)
                self._act(each, shows)

    def _act(self, found: Trouble, shows: bool | None) -> None:
        """Apply the program's floating-point error mode to one error."""
        mode = self._known_modes()[_MODES[found.kind]]
        if mode == "raise":
            raise FloatingPointError(found.text)
        if mode == "warn":
            warned(found.text, RuntimeWarning, shows)
        elif mode == "call":
            self._call(_KINDS[found.kind], 1 << found.kind)
        elif mode == "log":
            self._call.write(f"Warning: {found.text}\n")
        elif mode == "print" and (self.pid == 0 if shows is None else shows):
            print(f"Warning: {found.text}")

    # ------------------------------------------------------------------------ the program's error modes

    @property
    def strict(self) -> bool:
        """True if `np.errstate` or the warning filters turn some floating-point errors into exceptions."""
        modes = self._known_modes().values()
        return "raise" in modes or ("warn" in modes and _raises(RuntimeWarning))


def _unpacked(pickled: bytes) -> list[Trouble]:
    told, data = pickle.loads(pickled)
    return [each._replace(error=pickle.loads(data)) if each.kind == _ERROR else each for each in told]


def _raises(category: type[Warning]) -> bool:
    """Return whether the warning filters can turn a warning of this category into an error."""
    for action, message, kind, module, line in warnings.filters:
        if issubclass(category, kind):
            if action == "error":
                return True
            if message is None and module is None and not line:
                return False
    return False


def _portable(error: Exception) -> tuple[Exception, bytes]:
    """Return the exception that all processes raise, and its pickle.

    An exception that does not survive pickling becomes a RuntimeError with its type's name and its text.
    """
    from bsp.values import by_value

    lines = [
        SourceLine((frame.f_code.co_filename, line))
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_ours(frame.f_code.co_filename)
    ]
    if lines:  # raised in a function of the program: a note, since only this process has the traceback
        error.add_note(f"raised at {lines[-1]}")
    for pickled in (dumps, by_value.dumps):  # by reference if possible: cloudpickle copies classes by value
        with suppress(Exception):
            data = pickled(error)
            copy = pickle.loads(data)
            if type(copy) is type(error) and str(copy) == str(error):
                return error, data
    told = RuntimeError(f"{type(error).__name__}: {error}")
    return told, dumps(told)


def first_failing(call: Any, inputs: Sequence[Any], out: np.ndarray) -> tuple[int, ...]:
    """Return the position of the first element of a piece for which an operation raises.

    Calls the ufunc element by element.  Returns the first position if `call` is no ufunc, or if `out` shares memory
    with an input, which the failed call may then have overwritten.
    """
    nowhere = (0,) * out.ndim
    if not isinstance(call, np.ufunc) or any(np.may_share_memory(x, out) for x in inputs if isinstance(x, np.ndarray)):
        return nowhere
    given = [np.broadcast_to(x, out.shape) if isinstance(x, np.ndarray) else x for x in inputs]
    target = np.empty((), out.dtype)
    for at in np.ndindex(out.shape):
        try:
            call(*[x[(*at, ...)] if isinstance(x, np.ndarray) else x for x in given], out=target)
        except Exception:  # noqa: BLE001 - the operation's own
            return at
    return nowhere
