"""What goes wrong in the kernels of a plan, made the same on every process.

Kernels run on blocks, so a division by zero or a bad exponent shows only where its block is.  `Notes` collects it
while the kernels of one process run; at the next boundary of the plan each process that has something tells the
others, and all act alike: they raise the same exception, or warn once.  A healthy plan sends nothing and takes no
superstep for it.

Floating-point errors are collected through NumPy's "log" mode, which hands over the text of the warning; what the
program has asked for by `np.seterr` or `np.errstate` then happens to the text.  Of several mistakes the first counts:
by stage of the plan, by operation, and by position in the array, which is the order in which NumPy comes to them.
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
from bsp.source import Line, is_ours
from bsp.values.effects import Send
from bsp.values.payload import dumps

if TYPE_CHECKING:
    from bsp.engine.task import Context

AFTER = 1 << 20  # the step of what a kernel does besides its program
_ERROR = -1  # before the kinds of floating-point errors: an operation that raises has done nothing else
_KINDS = ("divide by zero", "overflow", "underflow", "invalid value")  # in the order in which NumPy looks at them
_MODES = ("divide", "over", "under", "invalid")
_TAG = b"trouble"  # of the messages that tell


class Trouble(NamedTuple):
    """One mistake; they are ordered as NumPy would come to them."""

    stage: int
    step: int  # instruction of the stage's program, or AFTER
    kind: int  # of _KINDS, or _ERROR
    at: tuple[int, ...]  # position in the array, of an error
    text: str
    error: Exception | None = None


class Place:
    """Where the kernels of this interpreter are: processes take turns only at boundaries, so there is one."""

    __slots__ = ("name", "notes", "piece", "stage", "step", "task")

    def __init__(self) -> None:
        self.notes: Notes | None = None  # None: nobody collects, and errors are raised where they happen
        self.enter(0)

    def enter(self, stage: int) -> None:
        """A stage begins."""
        self.stage = stage
        self.step = AFTER
        self.name: str | None = None  # what NumPy calls the operation that follows the program
        self.task: Any = None
        self.piece: int | Sequence[Any] | None = None  # the first position in C order, or slices; None: all of the task

    def position(self, spot: tuple[int, ...]) -> tuple[int, ...]:
        """The position in the array of an element of the piece."""
        if self.task is None:
            return spot
        starts, piece = [start for start, _ in self.task.box], self.piece
        if isinstance(piece, int):
            first = piece + (spot[0] if spot else 0)
            spot = tuple(int(k) for k in np.unravel_index(first, self.task.shape))
        elif piece is not None:
            spot = tuple(k + (each.start or 0) for k, each in zip(spot or (0,) * len(piece), piece, strict=False))
        return tuple(start + k for start, k in zip(starts, (*spot, *[0] * len(starts)), strict=False))


current = Place()


class Notes:
    """What goes wrong in one evaluation on one process; kernels run inside `with notes`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.found: dict[Any, Trouble] = {}
        self.failed: Trouble | None = None  # the first exception here: nothing that follows has a value
        self._modes: dict[str, str] = np.geterr()  # type: ignore[assignment]
        self._call: Any = None
        self._told: set[str] = set()

    # ------------------------------------------------------------------------ while kernels run

    def __enter__(self) -> None:
        self._outer, current.notes = current.notes, self
        self._state = self.collecting()
        self._state.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.__exit__(kind, error, trace)
        current.notes = self._outer
        current.enter(0)  # no block is held longer than its kernel runs

    def collecting(self) -> np.errstate:
        """NumPy's errors come here, across boundaries too: the setting is of this process, as `current` is not."""
        modes: dict[Any, Any] = {name: mode if mode == "ignore" else "log" for name, mode in self._modes.items()}
        self._call = np.geterrcall()
        return np.errstate(**modes, call=self)

    def write(self, text: str) -> None:
        """NumPy has found a floating-point error: "Warning: overflow encountered in exp" and a newline."""
        text = text.partition(": ")[2].strip()
        kind = next(k for k, name in enumerate(_KINDS) if text.startswith(name))
        if current.step == AFTER and current.name is not None:
            text = f"{_KINDS[kind]} encountered in {current.name}"
        found = Trouble(current.stage, current.step, kind, (), text)
        self.found.setdefault(found[:-1], found)

    def fail(self, error: Exception, spot: Callable[[], tuple[int, ...]] = tuple) -> None:
        """Keep an exception if none before it is known; `spot` finds its element in the piece."""
        found = Trouble(current.stage, current.step, _ERROR, current.position(()), "", error)
        if self.failed is None or found[:4] < self.failed[:4]:  # the piece begins before what is known
            found = found._replace(at=current.position(spot()))
            if self.failed is None or found[:4] < self.failed[:4]:
                self.failed = found

    # ------------------------------------------------------------------------- at a boundary

    def __bool__(self) -> bool:
        return bool(self.found) or self.failed is not None

    @property
    def stages(self) -> set[int]:
        """Where what is not told yet has gone wrong."""
        return {each.stage for each in self._all()}

    def _all(self) -> list[Trouble]:
        return [*self.found.values(), *([] if self.failed is None else [self.failed])]

    def tell(self, context: Context, nprocs: int) -> None:
        """Send what has gone wrong here to all others with the boundary that follows; nothing if nothing has."""
        if not self:
            return
        packed = self._packed()
        others = tuple(pid for pid in range(nprocs) if pid != self.pid)
        if others:
            context.outbox.effects.append(Send(self.pid, others, context.id, _TAG, None, packed))

    def hear(self, arrived: list[Any]) -> list[Any]:
        """Raise and warn of what has gone wrong anywhere; return what else has arrived at the boundary."""
        told = [(source, pickled) for source, tag, _, pickled in arrived if tag == _TAG]
        if told or self:
            self.settle([(source, each) for source, pickled in told for each in _unpacked(pickled)])
            return [each for each in arrived if each[1] != _TAG]
        return arrived

    def _packed(self) -> bytes:
        told, data = list(self.found.values()), b""
        if self.failed is not None and self.failed.error is not None:
            error, data = _portable(self.failed.error)
            self.failed = self.failed._replace(error=error)
            told.append(self.failed._replace(error=None))
        return dumps((told, data))

    def settle(self, others: Iterable[tuple[int, Trouble]] = (), shows: bool | None = None) -> None:
        """Raise and warn as the program has asked for: of what is found here and of what others tell.

        Every process calls this with the same mistakes and does the same; process 0 shows warnings for all.
        shows : whether this process shows them, where no other may have found the same.
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
        mode = self._modes[_MODES[found.kind]]
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

    # ------------------------------------------------------------------------ what must be heard

    @property
    def raises(self) -> bool:
        """Whether the program wants some floating-point errors as exceptions, by `np.errstate`."""
        return "raise" in self._modes.values()

    @property
    def strict(self) -> bool:
        """Whether the program wants floating-point errors as exceptions, by `np.errstate` or its warning filters."""
        return self.raises or ("warn" in self._modes.values() and _raises(RuntimeWarning))


def _unpacked(pickled: bytes) -> list[Trouble]:
    told, data = pickle.loads(pickled)
    return [each._replace(error=pickle.loads(data)) if each.kind == _ERROR else each for each in told]


def _raises(category: type[Warning]) -> bool:
    """Whether some warnings of a category are errors."""
    for action, message, kind, module, line in warnings.filters:
        if issubclass(category, kind):
            if action == "error":
                return True
            if message is None and module is None and not line:
                return False
    return False


def _portable(error: Exception) -> tuple[Exception, bytes]:
    """The exception as all processes raise it, and as it travels; of one that does not pickle what it says."""
    import cloudpickle

    lines = [
        Line((frame.f_code.co_filename, line))
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_ours(frame.f_code.co_filename)
    ]
    if lines:  # in a function of the program: only this process has the traceback
        error.add_note(f"raised at {lines[-1]}")
    for pickled in (dumps, cloudpickle.dumps):  # by reference if possible: a process has classes of its own
        with suppress(Exception):
            data = pickled(error)
            copy = pickle.loads(data)
            if type(copy) is type(error) and str(copy) == str(error):
                return error, data
    told = RuntimeError(f"{type(error).__name__}: {error}")
    return told, dumps(told)


def first_failing(call: Any, inputs: Sequence[Any], out: np.ndarray) -> tuple[int, ...]:
    """The first element of a piece for which an operation raises; the first of all where that cannot be told."""
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
