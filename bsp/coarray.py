"""Coarrays: registered memory, one array on each process, which the others write and read at boundaries.

Theory of operation.  Coarrays are matched between processes by creation order inside their context
(B3).  The shapes of all instances travel with the next boundary.  After it, every put and get is
checked at the call against the shape it addresses.  Before it, the call is kept (`Deferred`) and
resolved at that boundary, before anything is delivered: a mistake is found while every process still
takes part in the exchange, so all of them raise the same exception.

Scalar puts have a fast path, because programs make them by the thousand: `put` appends (pid, position,
number) to a batch, and the boundary converts the batch to arrays at once (`ScalarPuts`).  Any other
put closes the batch, which keeps the issue order (D1).  A put of a whole array has a short path too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bsp.errors import (
    CastError,
    GetOutOfRange,
    LocalMistake,
    NoSuchProcess,
    NotReady,
    NotRegistered,
    PutOutOfRange,
    ShapeError,
    UnknownOperation,
)
from bsp.interpreter.stand_ins import NotAValue
from bsp.pending import Pending
from bsp.source import NOWHERE, SourceLine, assigned_name, here
from bsp.transport.packet import DIRECT_BYTES
from bsp.values.effects import Deferred, Effect, Get, Put, PutEach, ScalarPuts
from bsp.values.memory import empty
from bsp.values.operations import KNOWN, combination, keeps, number_of, operation
from bsp.values.partition import by_process
from bsp.values.parts import description
from bsp.values.payload import is_abstract, items_in
from bsp.values.records import ASK, COMBINE, COPIED, LARGEST_BLOCK, LENT, PART, PUT, Record, address_of
from bsp.values.region import At, OutOfRange, Region, Shape, plain, resolve

if TYPE_CHECKING:
    from bsp.engine.task import Context, Task

Parts = list[tuple[int, Any]]  # (pid, items) as by_process returns them
_FEW_NUMBERS = 4  # effects of a superstep up to which puts of one number are records
_FLOAT, _INT = struct.Struct("=d").pack, struct.Struct("=q").pack
_UNKNOWN = -1


class Coarray(NotAValue):
    """One array on each process, written and read by the others; made by `proc.coarray` or `proc.register`.

    A coarray of `register` is aliased: its memory is the caller's own, and other coarrays may share it.
    Comparison and arithmetic with a coarray raise TypeError: use `.local`, or `x[pid]` for another process's array.
    """

    _stays = True  # on its process: the caller of a `bsp.Session` receives a handle

    def __init__(
        self, task: Task, context: Context, index: int, local: np.ndarray, aliased: bool, line: SourceLine
    ) -> None:
        self._local = local
        self._dtype = local.dtype
        self._flat = local.reshape(-1)
        self.raw = self._flat.view(np.uint8)
        self._task = task
        self._context = context
        self._outbox = context.outbox
        self._index = index
        self._nprocs = task.nprocs
        self._shapes: list[Shape] | None = None
        self._released = False
        self._line = line
        # The fast path of a scalar put: a Python number into a one-dimensional array of its kind.  Such a number
        # needs no check but that it lies between _low and _high.  NaN fails that test and takes the general path.
        self._scalar_type: type | None = None
        self._low: Any = 0
        self._high: Any = 0
        self._lengths = [_UNKNOWN] * task.nprocs
        self._batch: list[tuple[int, int, Any]] | None = None
        self._address = address_of(context.id, index, task.pid)
        # whether puts into one range are records, which write whole bytes: a structured dtype may have gaps between its
        # fields that a put leaves alone; --check needs the line of each put, and arrays without values have no bytes
        plain = bool(local.itemsize) and local.dtype.names is None
        self._has_records = plain and not (task.element.checking or task.element.abstract)
        # returns a number's bytes, so that the first few puts of a superstep are records; None where all are a batch,
        # because there are no records, or the dtype is another one
        self._packed: Callable[..., bytes] | None = None
        if self._has_records and local.dtype.isnative:
            self._packed = {np.dtype(float): _FLOAT, np.dtype(np.int64): _INT}.get(local.dtype)
        self._aliased = aliased
        if local.ndim == 1 and not aliased:
            if local.dtype.kind == "f":
                self._scalar_type, self._low, self._high = float, -np.inf, np.inf
            elif local.dtype.kind in "iu":
                limits = np.iinfo(local.dtype)
                self._scalar_type, self._low, self._high = int, int(limits.min), int(limits.max)

    # ------------------------------------------------------------------ what a user calls

    @property
    def local(self) -> np.ndarray:
        """The array of this process: read and write it freely between boundaries.

        `x.local = values` copies into it, as `x.local[...] = values` does, but the shapes must be equal.
        Raises ShapeError, CastError.
        """
        return self._local

    @local.setter
    def local(self, values: ArrayLike) -> None:
        if values is self._local:  # the second half of `x.local += 1`
            return
        array = self._cast(values, "assignment")
        if array.shape != self.shape:
            raise ShapeError(
                f"x.local = values of shape {array.shape} into {self._name} of shape {self.shape}: the shapes must be "
                f"equal; x.local[...] = values broadcasts{self._place(here())}"
            )
        self._local[...] = array

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type, the same on every process."""
        return self._dtype

    @property
    def shape(self) -> Shape:
        """The shape of the local array; it may differ between processes."""
        return self.local.shape

    def shape_on(self, pid: int) -> Shape:
        """Return the shape on process `pid`.  Raises NotReady before the first boundary after the registration."""
        if self._shapes is None:
            raise NotReady("the shapes of the other processes arrive with the boundary after the registration")
        return self._shapes[self._pid(pid, "shape_on")]

    def put(
        self,
        dest: int,
        values: ArrayLike,
        at: At = ...,
        op: str | np.ufunc | None = None,
        buffered: bool = True,
    ) -> None:
        """Write `values` to `local[at]` on process `dest` when this superstep ends.

        1. `values` is copied now, and the caller may reuse it at once; with `buffered=False` it is
           read at the boundary instead, and a large block moves without a staging copy: the caller
           must not change it before the boundary.
        2. Until the boundary every process still reads the old contents.
        3. Overlapping puts apply in order of (source pid, issue order): the last one wins, in every
           run, on every engine (D1).
        4. `op` ('add', 'min', 'max', ...) combines each value with what is there instead of replacing it;
           then every put counts, and so does every repeated position.

        dest : a pid, also this process's own.
        values : anything that broadcasts to `local[at]` of `dest` and casts to its dtype 'same_kind'.
        at : index into the destination's array (B4): integer, slice, `...`, integer arrays, or a tuple.
        Cost: the words of the region out of this process and into `dest` (the superstep's h).
        Raises PutOutOfRange, NoSuchProcess, CastError, ShapeError, UnknownOperation, NotRegistered here and now; on a
        coarray registered in this superstep, a remote PutOutOfRange or ShapeError at the boundary (B3).
        """
        if (
            type(at) is int
            and op is None
            and type(values) is self._scalar_type
            and type(dest) is int
            and 0 <= dest < self._nprocs
            and 0 <= at < self._lengths[dest]
            and self._low <= values <= self._high
            and self._task.element.turn is self._task
        ):
            batch = self._batch
            if batch is None:
                if self._packed is not None and len(self._outbox.effects) < _FEW_NUMBERS:
                    record = PUT, dest, self._address, at * self._dtype.itemsize, self._packed(values), self
                    self._outbox.effects.append(record)
                    return
                batch = self._open_batch()
            batch.append((dest, at, values))
            return
        if (
            at is ...
            and op is None
            and type(values) is np.ndarray
            and type(dest) is int
            and 0 <= dest < self._nprocs
            and self._shapes is not None
            and values.shape == self._shapes[dest]
            and self._is_recorded(values, buffered)
            and self._task.element.turn is self._task
            and not (self._released or self._aliased)
        ):
            self._batch = None
            record = self._record(dest, 0, values, buffered)  # before the list is looked up, which a boundary replaces
            self._outbox.effects.append(record)
            return
        self._check_owner("put")
        dest = self._pid(dest, "put")
        op_name = None if op is None else self._operation(op, "put")
        array = values if type(values) is np.ndarray and values.dtype == self._dtype else self._cast(values, "put")
        self._close_batch()
        if self._shapes is not None or dest == self._task.pid:
            region, array = self._placed(dest, array, at, NOWHERE)
            recorded = self._recorded(dest, region, array, op_name, buffered)
            effect = recorded or self._put(dest, array, region, op_name, buffered, self._noted())
            self._outbox.effects.append(effect)
            return
        held = _copy(array) if buffered else array
        held_at = self._own_index(at, "put")
        line = here()

        def resolved() -> list[Effect]:
            region, values = self._placed(dest, held, held_at, line)
            return [self._put(dest, values, region, op_name, False, line)]

        self._outbox.effects.append(Deferred(resolved, line))

    def get(self, source: int, at: At = ...) -> Pending:
        """Read `local[at]` of process `source` when this superstep ends; return a Pending.

        The values are the contents as they stood when every process reached the boundary, before any put (D1).

        at : index into the source's array (B4), as in `put`.
        Cost: the words of the region into this process and out of `source`.
        Raises GetOutOfRange, NoSuchProcess, NotRegistered at the call; on a coarray registered in
        this superstep, a remote GetOutOfRange at the boundary (B3).
        """
        self._check_owner("get")
        source = self._pid(source, "get")
        pending = Pending()
        if self._shapes is not None or source == self._task.pid:
            region = self._resolve(source, at, GetOutOfRange, "get", None, NOWHERE)
            asked = self._asked(source, region, pending) or self._get(source, region, pending, self._noted())
            self._outbox.effects.append(asked)
        else:
            line = here()
            held_at = self._own_index(at, "get")

            def resolved() -> list[Effect]:
                region = self._resolve(source, held_at, GetOutOfRange, "get", None, line)
                return [self._get(source, region, pending, line)]

            self._outbox.effects.append(Deferred(resolved, line))
        return pending

    def put_each(
        self,
        dests: ArrayLike,
        at: ArrayLike | tuple[ArrayLike, ...],
        values: ArrayLike,
        op: str | np.ufunc | None = None,
    ) -> None:
        """Write `values[k]` to position `at[k]` on process `dests[k]`, for all k, in one call.

        dests : integer array of pids (or one pid).
        at : flat C positions in the destination's array, or a tuple of index arrays (B4).
        values : broadcasts with `dests` and `at`; casts 'same_kind'.
        op : as in `put`.
        Repeated positions: the last one wins; with `op` each one counts.
        Everything is copied now.
        Cost: 2 words an item (value and position).
        Raises NoSuchProcess, PutOutOfRange, CastError, ShapeError, UnknownOperation, NotRegistered, like `put`.
        """
        self._check_owner("put_each")
        op_name = self._operation(op, "put_each")
        array = self._cast(values, "put_each")
        pids, positions = self._targets(dests, at, "put_each")
        line = self._noted() if self._shapes is not None else here()
        try:
            size = np.broadcast_shapes(pids.shape, array.shape, *[part.shape for part in positions])
        except ValueError:
            raise ShapeError(
                f"put_each of values {array.shape} for processes {pids.shape} and positions "
                f"{[part.shape for part in positions]}: they do not broadcast together{self._place(line)}"
            ) from None
        pids, array = _flat(pids, size), _flat(array, size)
        positions = tuple(_flat(part, size) for part in positions)
        self._close_batch()
        parts = self._split_by_process(pids, "put_each", line)
        if self._shapes is None:
            held = tuple(part.copy() for part in positions), array.copy()
            self._outbox.effects.append(Deferred(lambda: list(self._puts_each(parts, *held, op_name, line)), line))
        else:
            puts = list(self._puts_each(parts, positions, array, op_name, line))
            self._outbox.effects.extend(puts)

    def get_each(self, sources: ArrayLike, at: ArrayLike | tuple[ArrayLike, ...]) -> Pending:
        """Read position `at[k]` on process `sources[k]`, for all k, in one call.

        sources, at : as `dests` and `at` of `put_each`.
        Returns a Pending whose value is an array of their broadcast shape.
        Cost: one word an item out (the position) and one in (the value).
        Raises NoSuchProcess, GetOutOfRange, ShapeError, NotRegistered, like `get`.
        """
        self._check_owner("get_each")
        pids, positions = self._targets(sources, at, "get_each")
        line = self._noted() if self._shapes is not None else here()
        try:
            shape = np.broadcast_shapes(pids.shape, *[part.shape for part in positions])
        except ValueError:
            raise ShapeError(
                f"get_each of processes {pids.shape} and positions {[part.shape for part in positions]}: "
                f"they do not broadcast together{self._place(line)}"
            ) from None
        pids = _flat(pids, shape)
        positions = tuple(_flat(part, shape) for part in positions)
        pending = Pending()
        parts = self._split_by_process(pids, "get_each", line)
        if self._shapes is None:
            held = tuple(part.copy() for part in positions)
            self._outbox.effects.append(
                Deferred(lambda: list(self._gets_each(parts, held, shape, pending, line)), line)
            )
        else:
            gets = list(self._gets_each(parts, positions, shape, pending, line))
            self._outbox.effects.extend(gets)
        return pending

    def __getitem__(self, key: int | tuple[object, ...]) -> Pending:
        """`x[pid]` and `x[pid, index]`: the same as `x.get(pid, at=index)`."""
        pid, at = _split(key)
        return self.get(pid, at)

    def __setitem__(self, key: int | tuple[object, ...], values: ArrayLike) -> None:
        """`x[pid] = v` and `x[pid, index] = v`: the same as `x.put(pid, v, at=index)`."""
        pid, at = _split(key)
        self.put(pid, values, at)

    def release(self) -> None:
        """Give the memory back at the next boundary (BSPlib's pop_reg).  Every process must release the same coarrays.

        Puts and gets issued in the same superstep, before or after this call, still work.
        Raises RegistrationMismatch at the boundary if the processes differ.
        """
        self._check_owner("release")
        if not self._released:
            self._released = True
            self._context.releases.append(self._index)

    def _advice(self, what: str) -> str:
        return (
            f"{what} needs a value, and {self._name} is a coarray, memory on every process: use its .local for this "
            f"process's array, x[pid] to get another's ({here()})"
        )

    def __repr__(self) -> str:
        return f"<coarray {self._name} on process {self._task.pid}: local {self.local.shape} {self._dtype}>"

    def _learn(self, shapes: list[Shape]) -> None:
        """Store the shapes on all processes, by pid; called at the boundary after the registration."""
        self._shapes = shapes
        if self.local.ndim == 1:
            self._lengths = [shape[0] for shape in shapes]

    def _forget(self) -> None:
        """Forget the lengths of a released coarray, so that no put takes the fast path any more."""
        self._lengths = [_UNKNOWN] * self._nprocs

    # ---------------------------------------------------------------- effects from checked calls

    def _placed(self, dest: int, array: np.ndarray, at: Any, line: SourceLine) -> tuple[Region, np.ndarray]:
        """Return the region that a put writes, and its values with the shape of that region."""
        region = self._resolve(dest, at, PutOutOfRange, "put", array, line)
        if array.shape != region.shape:
            try:
                array = np.broadcast_to(array, region.shape)
            except ValueError:
                sample = self._task.element.sample
                if sample is None or dest in sample.place:  # else its shape is but that of a process like it
                    block = "" if region.shape else "; a slice, as in at=slice(3, 6), takes a block of values"
                    raise ShapeError(
                        f"put of values of shape {array.shape} into a region of shape {region.shape} of "
                        f"{self._name} on process {dest}: they do not broadcast{block}{self._place(line)}"
                    ) from None
        return region, array

    def _put(
        self, dest: int, array: np.ndarray, region: Region, op: str | None, buffered: bool, line: SourceLine
    ) -> Put:
        """Return the effect of a put whose arguments have been checked.

        buffered : copy `array` now; else hold the caller's memory where dtype and order allow it.
        """
        if buffered:
            held = self._task.element.staging.copy(array, self._dtype)
        elif array.dtype == self._dtype and array.flags.c_contiguous:
            held = array
        else:
            with np.errstate(all="ignore"):  # as `Staging.copy` does
                held = array if is_abstract(array) else np.asarray(array, dtype=self._dtype, order="C")
        task, context = self._task, self._context
        return Put(task.pid, dest, context.id, self._index, region, held, op, line, not buffered)

    def _is_recorded(self, array: np.ndarray, buffered: bool) -> bool:
        """Return whether a put of `array` may be a record (`bsp.values.records`).

        That of a small put holds its bytes, so one that is read at the boundary (buffered=False) is none.
        """
        if not self._has_records or array.dtype != self._dtype:
            return False
        if array.nbytes < DIRECT_BYTES:
            return buffered
        return array.flags.c_contiguous and array.nbytes <= LARGEST_BLOCK

    def _record(self, dest: int, start: int, array: np.ndarray, buffered: bool) -> Record:
        """Return the record of a put of `array` from byte `start` on; a large one is a block."""
        if array.nbytes < DIRECT_BYTES:
            return PUT, dest, self._address, start, array.tobytes(), self
        held = self._task.element.staging.copy(array, self._dtype) if buffered else array
        return COPIED if buffered else LENT, dest, self._address, start, held.reshape(-1).view(np.uint8), self

    def _recorded(self, dest: int, region: Region, array: np.ndarray, op: str | None, buffered: bool) -> Record | None:
        """Return the record of a put into one range, or of a small one into a rectangular part; None of any other."""
        if not self._is_recorded(array, buffered):
            return None
        start = region.start * self._dtype.itemsize
        if op is None and region.index is None:
            return self._record(dest, start, array, buffered)
        if not (0 < array.nbytes < DIRECT_BYTES and region.is_rectangular):
            return None
        data = self._described(region) + array.tobytes()
        kind, data = (PART, data) if op is None else (COMBINE, number_of(op) + data)
        return kind, dest, self._address, start, data, (self, region)

    def _combine(self, start: int, data: bytes) -> None:
        """Combine the contents from byte `start` on with the values of a record; called by the boundary."""
        op, part = combination(data)
        target = part.region(start, self._dtype.itemsize).view(self.raw, self._dtype)
        values = items_in(part.items, self._dtype, target.size).reshape(target.shape)
        KNOWN[op].accumulate_at(target, ..., values, repeats=False)

    def _described(self, region: Region) -> bytes:
        """Return where a range, or a rectangular part, lies in memory (`bsp.values.parts`)."""
        shape, strides = (region.shape, region.strides) if region.strides else ((prod(region.shape),), (1,))
        return description(shape, strides, self._dtype.itemsize)

    def _get(self, source: int, region: Region, pending: Pending, line: SourceLine) -> Get:
        """Return the effect of a get; it sets `pending` when it is delivered."""
        deliver = _delivery(pending, region.shape)
        return Get(self._task.pid, source, self._context.id, self._index, region, None, deliver, line)

    def _asked(self, source: int, region: Region, pending: Pending) -> Record | None:
        """Return the record of a get of a small range or rectangular part; None of any other."""
        itemsize, shape = self._dtype.itemsize, region.shape
        if not (self._has_records and region.is_rectangular and 0 < prod(shape) * itemsize < DIRECT_BYTES):
            return None
        what = self, region, _delivery(pending, shape)
        return ASK, source, self._address, region.start * itemsize, self._described(region), what

    def _puts_each(
        self, parts: Parts, positions: tuple[np.ndarray, ...], values: np.ndarray, op: str | None, line: SourceLine,
        scalars: bool = False,
    ) -> list[PutEach]:  # fmt: skip
        """Return one effect for each process of `parts`, with copies of its positions and values."""
        effects = []
        for pid, chosen in parts:
            where = self._flat_positions(pid, positions, chosen, PutOutOfRange, "put_each", line)
            with np.errstate(all="ignore"):  # as `Staging.copy` does
                what = values[chosen].astype(self._dtype, copy=_is_view(chosen))
            effects.append(PutEach(self._task.pid, pid, self._context.id, self._index, where, what, op, line, scalars))
        return effects

    def _gets_each(
        self, parts: Parts, positions: tuple[np.ndarray, ...], shape: Shape, pending: Pending, line: SourceLine
    ) -> list[Get]:
        """Return one get for each process of `parts`; the last one delivered sets `pending`."""
        parts = parts or [(self._task.pid, slice(0, 0))]  # no items: still one get, whose delivery makes it ready
        result = self._room(prod(shape))
        waiting = len(parts)

        def place(chosen: np.ndarray | slice) -> Callable[[np.ndarray], None]:
            def deliver(values: np.ndarray) -> None:
                nonlocal waiting
                result[chosen] = values
                waiting -= 1
                if waiting == 0:
                    pending._set(result.reshape(shape))

            return deliver

        return [
            Get(
                self._task.pid, pid, self._context.id, self._index, None,
                self._flat_positions(pid, positions, chosen, GetOutOfRange, "get_each", line),
                place(chosen), line,
            )
            for pid, chosen in parts
        ]  # fmt: skip

    def _room(self, size: int) -> np.ndarray:
        """Return an uninitialised flat array that values of this coarray can be received in."""
        abstract = self._task.element.abstract
        if abstract is None:
            return empty(size, self._dtype)
        room: np.ndarray = abstract.memory(size, self._dtype)
        return room

    def _close_batch(self) -> None:
        """End the open batch of scalar puts, so that later ones apply after the put that is issued now (D1).

        The memory of an aliased coarray may also be that of others: then the batches of all coarrays end.
        """
        self._batch = None
        if self._aliased:
            for coarray in self._context.coarrays:
                if coarray is not None:
                    coarray._batch = None

    def _open_batch(self) -> list[tuple[int, int, Any]]:
        """Queue a new batch of scalar puts; return its list of (dest, position, number), to which `put` appends."""
        line = self._noted()

        def finish(items: list[tuple[int, int, Any]]) -> list[PutEach]:
            if self._batch is items:
                self._batch = None
            dests, positions, values = zip(*items, strict=True)
            with np.errstate(all="ignore"):  # a number too large for a float32 becomes inf, as in an assignment
                array = np.array(values, self._dtype)
            parts = self._split_by_process(np.array(dests), "put", line)
            return self._puts_each(parts, (np.array(positions),), array, None, line, scalars=True)

        effect = ScalarPuts(finish, line)
        self._outbox.effects.append(effect)
        # --check reports the source line of every put, so each one gets a batch of its own
        if not self._task.element.checking:
            self._batch = effect.items
        return effect.items

    # ------------------------------------------------------------------------------ checks

    def _check_owner(self, call: str) -> None:
        """Raise NotRegistered unless this process may use the coarray now."""
        turn = self._task.element.turn
        if turn is not self._task:
            what = "the run it belongs to has ended" if turn is None else f"it belongs to process {self._task.pid}"
            whose = "" if turn is None else f" called by process {turn.pid}"
            raise NotRegistered(f"{call} on coarray {self._name}{whose}: {what}; each process uses its own")
        if self._released and self._index not in self._context.releases:
            raise NotRegistered(f"{call} on coarray {self._name}: it was released{self._place(here())}")

    def _pid(self, pid: Any, call: str) -> int:
        """Return a pid as an int; raise NoSuchProcess if it is none of the job's."""
        if type(pid) is int and 0 <= pid < self._nprocs:
            return pid
        try:
            number = pid.__index__()
        except (AttributeError, TypeError):
            number = -1
        if isinstance(pid, bool) or not 0 <= number < self._nprocs:
            raise NoSuchProcess(
                f"{call} on process {pid!r}: pids are integers in 0..{self._nprocs - 1}{self._place(here())}"
            )
        return int(number)

    def _noted(self) -> SourceLine:
        """Return the user's source line if --check will report it, else NOWHERE, because looking for it is slow.

        A mistake found at the call looks for its line itself.
        """
        return here() if self._task.element.checking else NOWHERE

    def _shape_of(self, pid: int) -> Shape:
        """Return the shape on process `pid`; before the shapes arrive, this is called for the process itself only."""
        return self._shapes[pid] if self._shapes is not None else self.local.shape

    def _operation(self, op: str | np.ufunc | None, call: str) -> str | None:
        """Return the name of an op that every process can look up and that keeps this dtype; raise UnknownOperation."""
        if op is None:
            return None
        known = operation(op)
        if known.ufunc is None or KNOWN.get(known.name) is not known:
            raise UnknownOperation(
                f"{call} takes an op known by name on every process, not {op!r}{self._place(here())}"
            )
        if not keeps(known.name, self._dtype):
            raise UnknownOperation(f"{call} with op {known.name!r} on {self._dtype} values{self._place(here())}")
        return known.name

    def _cast(self, values: ArrayLike, call: str) -> np.ndarray:
        """Return `values` as an array that casts 'same_kind'; Python numbers cast if they fit, as NumPy's do."""
        dtype = self._dtype
        if self._task.element.abstract is not None:
            values = self._task.element.abstract.joined(values)
        if is_abstract(values) and np.can_cast(values.dtype, dtype, "same_kind"):  # type: ignore[union-attr]
            return values.astype(dtype, copy=False)  # type: ignore[union-attr, no-any-return]
        weak = not isinstance(values, (np.ndarray, np.generic))
        try:
            array = np.asarray(values)
            if weak and array.dtype.kind in "iu" and dtype.kind in "iu":
                return np.asarray(values, dtype=dtype)  # Python integers: NumPy refuses those that do not fit
            if array.dtype == dtype or np.can_cast(array.dtype, dtype, "same_kind") or array.size == 0:
                return array if array.size else array.astype(dtype)
            # NumPy makes floats or objects of Python integers that no type of integers holds together
            if weak and dtype.kind in "iufc" and all(type(number) is int for number in np.asarray(values, object).flat):
                return np.asarray(values, dtype=dtype)
        except (ValueError, OverflowError) as wrong:
            raise CastError(
                f"{call} of {values!r:.60} into {dtype} {self._name}: {wrong}{self._place(here())}"
            ) from None
        raise CastError(
            f"{call} of {array.dtype} values into {dtype} {self._name}: "
            f"they do not cast under 'same_kind'; convert them first{self._place(here())}"
        )

    def _targets(self, dests: ArrayLike, at: Any, call: str) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Return pids and positions as integer arrays, not yet broadcast.

        Raises NoSuchProcess, TypeError or ShapeError for other dtypes or a wrong number of index arrays.
        """
        pids = np.asarray(dests)
        if pids.dtype.kind not in "iu" and pids.size:
            what = f"{pids.dtype} pids"
            if pids.dtype.kind == "f" and np.isnan(pids).any():
                what += f" with NaN at item {int(np.flatnonzero(np.isnan(pids.ravel()))[0])}"
            raise NoSuchProcess(f"{call} with {what}: pids are integers in 0..{self._nprocs - 1}{self._place(here())}")
        positions = tuple(np.asarray(part) for part in (at if isinstance(at, tuple) else (at,)))
        positions = tuple(part if part.size else part.astype(np.intp) for part in positions)
        for part in positions:
            if part.dtype.kind not in "iu":
                raise TypeError(
                    f"{call} takes flat C positions or a tuple of index arrays, "
                    f"not {part.dtype} values{self._place(here())}"
                )
        if len(positions) not in (1, self.local.ndim):
            raise ShapeError(
                f"{call} with {len(positions)} index arrays for {self.local.ndim} dimensions{self._place(here())}"
            )
        return pids, positions

    def _split_by_process(self, pids: np.ndarray, call: str, line: SourceLine) -> Parts:
        """Return the items for each pid; raise NoSuchProcess, with the first bad item, for a pid out of range."""
        parts = by_process(pids, self._nprocs)
        if parts is None:
            first = int(np.flatnonzero((pids < 0) | (pids >= self._nprocs))[0])
            raise NoSuchProcess(
                f"{call} item {first} names process {int(pids[first])}: "
                f"pids are integers in 0..{self._nprocs - 1}{self._place(line)}"
            )
        return parts

    def _flat_positions(
        self, pid: int, positions: tuple[np.ndarray, ...], chosen: np.ndarray | slice, error: type[LocalMistake],
        call: str, line: SourceLine,
    ) -> np.ndarray:  # fmt: skip
        """Return the chosen positions as flat C positions on process `pid`: a copy, in int32 where that holds them.

        Raises `error` for a position out of range.
        """
        shape = self._shape_of(pid)
        parts = [part[chosen] for part in positions]
        limits = shape if len(parts) == len(shape) else (prod(shape),)
        fixed: list[np.ndarray] = []
        for part, limit in zip(parts, limits, strict=True):
            low, high = (int(part.min()), int(part.max())) if part.size else (0, -1)
            if low < -limit or high >= limit:
                bad = int(part[(part < -limit) | (part >= limit)][0])
                raise error(
                    f"{call} at position {bad} of {self._name} (shape {shape}, axis length {limit}) "
                    f"on process {pid}{self._place(line)}"
                )
            fixed.append(np.where(part < 0, part + limit, part) if low < 0 else part)
        flat = fixed[0] if len(fixed) == 1 else np.ravel_multi_index(tuple(fixed), limits)
        narrow = np.int32 if prod(shape) <= np.iinfo(np.int32).max else np.int64
        return flat.astype(narrow, copy=_is_view(chosen))

    def _own_index(self, at: Any, call: str) -> Any:
        """Return `at` with its arrays copied, so that the caller may reuse them; raise TypeError if it is no index."""
        try:
            parts = plain(at)
            return parts if isinstance(at, tuple) else parts[0]
        except TypeError as wrong:
            raise TypeError(f"{call} on {self._name}: {wrong}{self._place(here())}") from None

    def _resolve(
        self, pid: int, at: Any, error: type[LocalMistake], call: str, values: np.ndarray | None, line: SourceLine
    ) -> Region:
        """Return the region that `at` selects on process `pid`; raise `error` if it runs past that process's array."""
        shape = self._shape_of(pid)
        try:
            return resolve(at, shape)
        except OutOfRange as wrong:
            amount = f" of {values.size} {self._dtype}" if values is not None else ""
            extent = f"length {shape[0]}" if len(shape) == 1 else f"shape {shape}"
            raise error(
                f"{call}{amount} at {_describe(at)} {wrong} of {self._name} ({extent}) on process {pid}"
                f"{self._place(line)}"
            ) from None
        except TypeError as wrong:
            raise TypeError(f"{call} on {self._name}: {wrong}{self._place(line)}") from None

    @property
    def _name(self) -> str:
        """The variable that the coarray was assigned to, in quotes, for messages; else its number by creation order."""
        return f"'{assigned_name(self._line) or f'coarray {self._index}'}'"

    def _place(self, line: SourceLine) -> str:
        """Return source line, pid and superstep in brackets, for messages."""
        return f" ({line or here()}, process {self._task.pid}, superstep {self._task.element.superstep})"


def _delivery(pending: Pending, shape: Shape) -> Callable[[np.ndarray], None]:
    """Return the function that sets `pending` to the values of a get of this shape."""

    def deliver(values: np.ndarray) -> None:
        pending._set(values.reshape(shape) if shape else values.reshape(-1)[0])

    return deliver


def _copy(array: np.ndarray) -> np.ndarray:
    """Return a C-ordered copy."""
    return array.copy() if is_abstract(array) else np.array(array, order="C")


def _is_view(chosen: np.ndarray | slice) -> bool:
    """Return whether `array[chosen]` is still the caller's memory, which the caller may change before the boundary."""
    return isinstance(chosen, slice)


def _flat(array: np.ndarray, shape: Shape) -> np.ndarray:
    """Return `array`, broadcast to `shape`, as a flat array."""
    return array.reshape(-1) if array.shape == shape else np.broadcast_to(array, shape).reshape(-1)


def _split(key: Any) -> tuple[Any, Any]:
    """Return (pid, at) from the key of `x[pid]` or `x[pid, index, ...]`."""
    if not isinstance(key, tuple):
        return key, ...
    pid, *at = key
    return pid, at[0] if len(at) == 1 else tuple(at) if at else ...


def _describe(at: Any) -> str:
    """Return an index in words, for messages."""
    if isinstance(at, slice):
        return f"offset {at.start or 0}"
    return f"offset {at}" if isinstance(at, int) else f"index {at!r:.60}"
