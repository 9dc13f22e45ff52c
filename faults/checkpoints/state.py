"""Conversion of a process's state at the head of a round to bytes, and back (rule N10).

The state consists of the process's `bsp.State`, its coarrays, its random generators, its inbox, and the position of its
text.  Equal states are equal bytes, so clones can compare theirs.  Coarrays and handles inside a State are replaced by
names, not copied: the process that receives the state (the newcomer) has its own.  Arrays of numbers are kept beside
the pickle in NumPy's npy format, so that the pickle is small and the arrays can be read without it.  An array that lies
in the memory of another, as a slice does, lies there in the newcomer, too: what is written to one shows in both.

An object that has stood in the State since the loop's entry is not made again: the newcomer's own one is filled, to
which other variables of the newcomer refer (`bsp.values.identity`).
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from bsp.coarray import Coarray
from bsp.engine.recovery import LoopPosition
from bsp.engine.task import Context, Task
from bsp.errors import CannotMove
from bsp.faults.carrier.segments import Segment, SegmentPiece, bytes_of
from bsp.faults.checkpoints import npy
from bsp.faults.protocol.messages import Packed
from bsp.interpreter.generators import put, standing
from bsp.processes import Process
from bsp.rounds import State
from bsp.source import NOWHERE
from bsp.values.canonical import alone, pickled
from bsp.values.identity import Own, reduced
from bsp.world import handle

Named = Callable[[Any], Any]  # a `persistent_id` of pickle: the name of an object, or None to pickle it


def nothing_queued(task: Task) -> bool:
    """Return whether all issued effects of a process are delivered and all its registrations exchanged."""
    return all(
        not context.outbox.effects and not context.releases and context.registered == len(context.coarrays)
        for context in task.contexts.values()
    )


def size_of(task: Task) -> int:
    """Return the bytes of the coarrays of a process at a head, and of the arrays that are attributes of its State."""
    coarrays = [coarray for context in task.contexts.values() for coarray in context.coarrays if coarray is not None]
    sizes = {id(each.local): each.local.nbytes for each in coarrays}
    if task.place is not None and task.place.state is not None:
        for value in vars(task.place.state).values():
            if isinstance(value, np.ndarray):
                sizes[id(value)] = value.nbytes
    return sum(sizes.values())


def capture(task: Task, place: LoopPosition, into: Segment | None = None) -> Packed:
    """Return the state of a process that has reached a head, as a pickle with its arrays beside it.

    into : shared memory to which large arrays are added.
    Raises CannotMove, which names the innermost part of the State that cannot be pickled.
    """
    if task.greenlet is None:  # a lone process has the generators swapped in: save them first
        task.streams.leave()
        task.streams.enter()  # which puts back the half of a normal pair
    named = _naming(task, place)
    rng = task.handle.__dict__.get("rng") if task.handle is not None else None
    contexts = [
        (context.id, context.registered, context.arrived, context.inbox,
         [None if c is None else (c.local, c._shapes, c._aliased) for c in context.coarrays])
        for context in task.contexts.values()
    ]  # fmt: skip
    memory = contexts, task.next_context, task.of_libraries
    values = None if place.state is None else vars(place.state)
    streams = task.streams.state(), None if rng is None else standing(rng)
    text = b"" if task.text is None else task.text.getvalue()
    rest = (task.loops, streams, text)
    # two pickles: `restore` must have made the coarrays of the first before it loads the second, which names them;
    # `beside` is one for both, so an array in both is kept once
    beside = _Beside(task, place, into)
    with task.as_current(), alone():
        try:
            parts = (
                pickled(memory, beside),
                pickled((values, rest), *_filling(place, lambda value: named(value) or beside(value))),
            )
            return Packed(pickle.dumps((*parts, *beside.views(), beside.own()), 5), *beside.found())
        except MemoryError:
            raise
        except Exception as wrong:  # noqa: BLE001 - whatever the pickling of a user's object raises
            raise _cannot_move(task, values or {}, _filling(place, named), wrong) from None


def check(task: Task, place: LoopPosition) -> None:
    """Raise CannotMove if `capture` would; cheaper, because arrays of numbers are left out of the pickle."""
    named, values = _naming(task, place), vars(place.state or State())

    def light(value: Any) -> Any:
        """Leave arrays of numbers out: they can always be pickled, and cost most."""
        return "array" if type(value) is np.ndarray and not value.dtype.hasobject else named(value)

    how = _filling(place, light)
    with task.as_current(), alone():
        try:
            pickled(values, *how)
        except MemoryError:
            raise
        except Exception as wrong:  # noqa: BLE001
            raise _cannot_move(task, values, how, wrong) from None


def same_bytes(first: Packed, second: Packed) -> bool:
    """Return whether clones with these states would find them equal."""
    return first.pickle == second.pickle and [*map(bytes_of, first.arrays)] == [*map(bytes_of, second.arrays)]


def _filling(place: LoopPosition, named: Named) -> tuple[Named, Callable[[Any], Any] | None]:
    """Return pickle's `persistent_id` and `reducer_override` that fill what the newcomer has of its own.

    named : the `persistent_id` for everything else.  Without such objects there is no `reducer_override`.
    """
    own = {id(value): Own(name) for name, value in place.own.items() if type(value) is not np.ndarray}

    def persistent(value: Any) -> Any:
        """Return the reference to what the newcomer has of its own, or what `named` returns."""
        return ("own", value.name) if type(value) is Own else named(value)

    def filled(value: Any) -> Any:
        """Return how to fill the newcomer's object, for one that it has of its own."""
        known = own.get(id(value))
        return NotImplemented if known is None else reduced(value, known)

    return persistent, filled if own else None


def _naming(task: Task, place: LoopPosition) -> Named:
    """Return a pickle `persistent_id` that names what the newcomer has of its own, so that it is not copied."""
    locals_ = {
        id(coarray.local): ("local", context.id, index)
        for context in task.contexts.values()
        for index, coarray in enumerate(context.coarrays)
        if coarray is not None
    }
    rng = task.handle.__dict__.get("rng") if task.handle is not None else None

    def named(value: Any) -> Any:
        """Return the name of a value of which the newcomer has its own; None for any other."""
        if type(value) is np.ndarray:
            return locals_.get(id(value))
        if type(value) is Coarray:
            return ("coarray", value._context.id, value._index)
        if type(value) is Process:
            return ("process", value._context.id)
        if value is rng and rng is not None:
            return ("rng",)
        return ("state",) if value is place.state and value is not None else None

    return named


View = tuple[int, int, int, tuple[int, ...]]  # position, that of the owner (negative: no array), offset, strides


class _Beside:
    """A pickle `persistent_id` that takes arrays out of the pickle and replaces them by their positions.

    An array that occurs several times is kept once.  Arrays that npy cannot hold stay in the pickle.
    """

    def __init__(self, task: Task, place: LoopPosition, into: Segment | None) -> None:
        """Prepare names: attributes of the State by theirs, coarrays by context and index; other arrays get numbers."""
        self._into = into
        self._own = place.own
        values = vars(place.state or State())
        self._names = {id(value): f"state.{name}" for name, value in values.items() if name.isidentifier()}
        for context in task.contexts.values():
            for index, coarray in enumerate(context.coarrays):
                if coarray is not None:
                    self._names[id(coarray.local)] = f"coarray-{context.id}.{index}"
        self._positions: dict[int, int | None] = {}  # by id; None: the array stays in the pickle
        self._arrays: list[np.ndarray] = []  # kept alive, so that no other object gets the id of one of them
        self._data: list[tuple[str, bytearray | SegmentPiece]] = []

    def __call__(self, value: Any) -> Any:
        """Return the reference to an array taken out of the pickle; None for anything that stays in it."""
        if type(value) is not np.ndarray:
            return None
        if id(value) not in self._positions:
            data, position = npy.encode(value, self._into), len(self._data)
            self._arrays.append(value)
            self._positions[id(value)] = None if data is None else position
            if data is not None:
                self._data.append((self._names.get(id(value), f"array-{position}"), data))
        at = self._positions[id(value)]
        return None if at is None else ("array", at, value.flags.writeable)

    def views(self) -> tuple[list[View], dict[int, int]]:
        """Return the arrays that are not alone in memory without gaps, and the bytes of each memory of no array.

        Arrays that overlap lie in the memory of the one that holds the others.  If none does, as with two columns of a
        matrix, they lie in memory that belongs to none; so does a single array with gaps or in another order, because
        NumPy and BLAS may add its numbers in the order in which they lie.
        Both are of numbers only and depend on how arrays lie to each other, not where: they are equal in all clones.
        """
        placed = []
        filled = {position for _, position in self.own()}  # other arrays lie in them, as they are alone in their memory
        for array in self._arrays:
            position = self._positions[id(array)]
            if position is not None and array.nbytes:
                low, high = byte_bounds(array)
                placed.append((low, -high, position not in filled, not array.flags.forc, position, array))
        groups: list[list[Any]] = []
        end = 0
        for each in sorted(placed, key=lambda each: each[:5]):
            if each[0] >= end:
                groups.append([])
            groups[-1].append(each)
            end = max(end, -each[1])
        views: list[View] = []
        sizes = {}
        for group in groups:
            begin, high, _, gaps, owner, _ = group[0]
            end = max(-each[1] for each in group)
            if gaps or -high < end:
                owner = -1 - min(each[4] for each in group)
                sizes[owner] = end - begin
            for *_, position, array in group:
                if position != owner:
                    views.append((position, owner, array.__array_interface__["data"][0] - begin, array.strides))
        return sorted(views), dict(sorted(sizes.items()))

    def own(self) -> list[tuple[str, int | None]]:
        """Return the names of objects that the newcomer fills, each with the position of its content if it is an array.

        Arrays that stay in the pickle are made by it, and are not among them.
        """
        positions = ((name, value, self._positions.get(id(value))) for name, value in self._own.items())
        return [(name, at) for name, value, at in positions if at is not None or type(value) is not np.ndarray]

    def found(self) -> tuple[tuple[str, ...], tuple[bytearray | SegmentPiece, ...]]:
        """Return the names and the bytes of all arrays taken out, in order of position."""
        return tuple(name for name, _ in self._data), tuple(data for _, data in self._data)


def _cannot_move(task: Task, values: dict[str, Any], how: tuple[Any, Any], wrong: Exception) -> CannotMove:
    """Return the error for a State that cannot be pickled, in words that are the same in all clones (N12).

    how : what `_filling` has returned.  Clones compare their errors, so memory addresses are removed from the text.
    """
    found = _culprit({f"state.{name}": value for name, value in values.items()}, how, set())
    path, value, reason = found if found is not None else ("the state", task, wrong)
    said = re.sub(r" at 0x[0-9a-f]+", "", f"{type(reason).__name__}: {reason}")
    return CannotMove(
        f"{path} of type {type(value).__name__} cannot be pickled, so no clone could take it over and no checkpoint "
        f"keep it ({said}); keep it out of the bsp.State, and make it from what stands there "
        f"({task.line()}, process {task.pid}, superstep {task.element.superstep})"
    )


def _culprit(parts: dict[str, Any], how: tuple[Any, Any], seen: set[int]) -> tuple[str, Any, Exception] | None:
    """Return the first of some values that cannot be pickled, as (path, value, exception); None if all can be.

    Descends into containers and attributes, and returns the innermost part that fails.
    """
    for path, value in parts.items():
        if id(value) in seen:
            continue
        try:
            pickled(value, *how)
        except Exception as wrong:  # noqa: BLE001
            seen.add(id(value))
            nested = isinstance(wrong, RecursionError)  # each of its parts is nested nearly as deep
            return (None if nested else _culprit(_parts(path, value), how, seen)) or (path, value, wrong)
    return None


def _parts(path: str, value: Any) -> dict[str, Any]:
    """Return the items or attributes of a value by path, to look for the part that cannot be pickled."""
    if isinstance(value, dict):
        return {f"{path}[{key!r}]": part for key, part in value.items()}
    if isinstance(value, list | tuple):
        return {f"{path}[{k}]": part for k, part in enumerate(value)}
    if isinstance(value, type | FunctionType | ModuleType):
        return {}
    kind: Any = type(value)
    by_default = kind.__reduce__ is object.__reduce__ and kind.__getstate__ is object.__getstate__
    attributes: Any = object.__getstate__(value) if by_default else getattr(value, "__dict__", {})
    named = attributes if isinstance(attributes, tuple) else (attributes,)  # those of `__dict__`, and those in slots
    return {f"{path}.{name}": part for each in named for name, part in (each or {}).items()}


def restore(task: Task, place: LoopPosition, data: Packed) -> None:
    """Give a process that has reached a head the state in `data`: coarrays, State, inbox, generators and text."""
    memory, rest, views, sizes, own = pickle.loads(data.pickle)
    place.own = {name: place.own[name] for name, _ in own}
    arrays = _Arrays(data.arrays, views, sizes, {at: place.own[name] for name, at in own if at is not None})
    with task.as_current(), alone():
        _restore(task, place, *(_Named(io.BytesIO(part), task, place, arrays) for part in (memory, rest)))


def _restore(task: Task, place: LoopPosition, memory: _Named, rest: _Named) -> None:
    """Load the coarrays, inboxes and contexts of libraries, then the State, generators and text.

    The order matters: the State may refer to coarrays by name, so they must exist before it is loaded.  It may also
    hold arrays, whose library may not have been used here before.
    """
    contexts, task.next_context, task.of_libraries = memory.load()
    for identity, registered, arrived, inbox, coarrays in contexts:
        context = task.contexts.setdefault(identity, Context(identity))
        context.registered, context.arrived, context.inbox = registered, arrived, inbox
        del context.coarrays[len(coarrays) :]
        for index, kept in enumerate(coarrays):
            known = context.coarrays[index] if index < len(context.coarrays) else None
            coarray = None if kept is None else _coarray(task, context, index, known, *kept)
            if coarray is not None:
                rest.arrays.replace(kept[0], coarray.local)
            if index < len(context.coarrays):
                context.coarrays[index] = coarray
            else:
                context.coarrays.append(coarray)
    values, (task.loops, streams, text) = rest.load()
    if place.state is not None:
        place.state.__dict__.clear()
        place.state.__dict__.update(values or {})
    if task.greenlet is None:
        task.streams.leave()  # NumPy forgets the half of a normal pair that this process has drawn itself
    task.streams.restore(streams[0])
    if task.greenlet is None:
        task.streams.enter()
    if streams[1] is not None:
        put(handle(task).rng, streams[1])
    if task.text is not None:
        task.text.seek(0)
        task.text.truncate()
        task.text.write(text)


def _coarray(
    task: Task, context: Context, index: int, known: Coarray | None, local: np.ndarray, shapes: Any, aliased: bool
) -> Coarray:
    """Return the newcomer's own coarray with the sibling's contents.

    A new Coarray is made if the newcomer has none of this shape and dtype, as when the sibling made it inside the loop.
    """
    if known is not None and known.local.shape == local.shape and known.local.dtype == local.dtype:
        known.local[...] = local
        coarray = known
    else:
        coarray = Coarray(task, context, index, local, aliased, NOWHERE)
    if shapes is not None:
        coarray._learn(shapes)
    return coarray


class _Arrays:
    """The arrays beside a pickle, by position; each is decoded when it is first needed, and then shared.

    own : arrays that the newcomer has of its own; they are filled.
    """

    def __init__(
        self, data: Sequence[Any], views: Sequence[View], sizes: Mapping[int, int], own: dict[int, np.ndarray]
    ) -> None:
        self._data = data
        self._sizes = sizes
        self._own = own
        self._views = {each[0]: each[1:] for each in views}
        self._made: dict[int, np.ndarray] = {}
        self._memory: dict[int, np.ndarray] = {}  # as bytes, of each owner of views

    def __call__(self, position: int, writeable: bool) -> np.ndarray:
        """Return the array at a position; the same object each time, as it was one object in the sibling."""
        if position not in self._made:
            made = self._decoded(position)
            if position in self._views and position not in self._own:
                owner, offset, strides = self._views[position]
                values, made = made, np.ndarray(made.shape, made.dtype, self._memory_of(owner), offset, strides)
                if owner < 0:
                    made[...] = values
            made.flags.writeable = writeable
            self._made[position] = made
        return self._made[position]

    def _decoded(self, position: int) -> np.ndarray:
        """Return the values of an array, in the newcomer's own array if it has one."""
        values = npy.decode(self._data[position])
        own = self._own.get(position)
        if own is None:
            return values
        if not own.flags.writeable:
            own.flags.writeable = True
        own.shape = values.shape  # which may have been set in the loop
        own[...] = values
        return own

    def replace(self, array: np.ndarray, by: np.ndarray) -> None:
        """Let other arrays lie in the memory of `by`, where they would lie in that of `array`."""
        for position, made in self._made.items():
            if made is array and position not in self._views and made.strides == by.strides and by.flags.writeable:
                self._memory[position] = _bytes_of(by)

    def _memory_of(self, position: int) -> np.ndarray:
        """Return the memory of an array, writable even if the array itself is not; new memory for a negative number."""
        if position < 0 and position not in self._memory:
            self._memory[position] = np.zeros(self._sizes[position], np.uint8)
        if position not in self._memory:
            if position not in self._made:
                self._made[position] = self._decoded(position)
            made = self._made[position]
            written, made.flags.writeable = made.flags.writeable, True
            self._memory[position] = _bytes_of(made)
            made.flags.writeable = written
        return self._memory[position]


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """Return the memory of an array without gaps, as an array of bytes."""
    return array.reshape(-1, order="C" if array.flags.c_contiguous else "F").view(np.uint8)


class _Named(pickle.Unpickler):
    """An unpickler that resolves the names given by `capture` to the newcomer's objects and to the arrays."""

    def __init__(self, data: io.BytesIO, task: Task, place: LoopPosition, arrays: _Arrays) -> None:
        super().__init__(data)
        self._task = task
        self._place = place
        self.arrays = arrays

    def persistent_load(self, pid: Any) -> Any:
        """Return the array, object, State, coarray, local memory, generator or handle that a name refers to."""
        kind, *where = pid
        if kind == "array":
            return self.arrays(*where)
        if kind == "own":
            return self._place.own[where[0]]
        if kind == "state":
            return self._place.state
        if kind == "rng":
            return handle(self._task).rng
        context = self._task.contexts[where[0]]
        if kind == "process":
            return handle(self._task) if where[0] == 0 else Process(self._task, context)
        coarray = context.coarrays[where[1]]
        return coarray if kind == "coarray" else coarray.local
