"""The state of a process at the head of a round, as bytes, and back (rule N10).

What a process brings along: its `bsp.State`, its coarrays, its generators, its inbox, and where its
text stands.  Equal states are equal bytes, so clones can compare theirs.  Coarrays and handles inside
a State are named, not copied: the newcomer has its own.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from bsp.canonical import pickled
from bsp.coarray import Coarray
from bsp.generators import put, standing
from bsp.handle import Process
from bsp.recovery import Place
from bsp.source import NOWHERE
from bsp.task import Context, Task
from bsp.world import handle


def nothing_queued(task: Task) -> bool:
    """Whether all that was issued has been delivered, and all that was registered is known."""
    return all(
        not context.outbox.effects and not context.releases and context.registered == len(context.coarrays)
        for context in task.contexts.values()
    )


def capture(task: Task, place: Place) -> bytes:
    """The state of a process that stands at a head."""
    if task.greenlet is None:  # a lone process: its generator is in place
        task.stream.leave()
    locals_ = {
        id(coarray.local): ("local", context.id, index)
        for context in task.contexts.values()
        for index, coarray in enumerate(context.coarrays)
        if coarray is not None
    }
    rng = task.handle.__dict__.get("rng") if task.handle is not None else None

    def named(value: Any) -> Any:
        if type(value) is np.ndarray:
            return locals_.get(id(value))
        if type(value) is Coarray:
            return ("coarray", value._context.id, value._index)
        if type(value) is Process:
            return ("process", value._context.id)
        if value is rng and rng is not None:
            return ("rng",)
        return None

    memory = [
        (context.id, context.registered, context.arrived, context.inbox,
         [None if c is None else (c.local, c._shapes, c._aliased) for c in context.coarrays])
        for context in task.contexts.values()
    ]  # fmt: skip
    values = None if place.state is None else vars(place.state)
    streams = task.stream.state(), None if rng is None else standing(rng)
    text = b"" if task.text is None else task.text.getvalue()
    rest = (task._next_context, task.loops, streams, text)
    with task.as_main():
        return pickle.dumps((pickled(memory), pickled((values, rest), named)), 5)


def restore(task: Task, place: Place, data: bytes) -> None:
    """Make a process that stands at a head what the bytes say."""
    with task.as_main():
        _restore(task, place, *pickle.loads(data))


def _restore(task: Task, place: Place, memory: bytes, rest: bytes) -> None:
    for identity, registered, arrived, inbox, coarrays in pickle.loads(memory):
        context = task.contexts.setdefault(identity, Context(identity))
        context.registered, context.arrived, context.inbox = registered, arrived, inbox
        del context.coarrays[len(coarrays) :]
        for index, kept in enumerate(coarrays):
            known = context.coarrays[index] if index < len(context.coarrays) else None
            coarray = None if kept is None else _coarray(task, context, index, known, *kept)
            if index < len(context.coarrays):
                context.coarrays[index] = coarray
            else:
                context.coarrays.append(coarray)
    values, (task._next_context, task.loops, streams, text) = _Named(io.BytesIO(rest), task).load()
    if place.state is not None:
        place.state.__dict__.clear()
        place.state.__dict__.update(values or {})
    task.stream.restore(streams[0])
    if task.element.turn is task and task.greenlet is None:
        task.stream.enter()
    if streams[1] is not None:
        put(handle(task).rng, streams[1])
    if task.text is not None:
        task.text.seek(0)
        task.text.truncate()
        task.text.write(text)


def _coarray(
    task: Task, context: Context, index: int, known: Coarray | None, local: np.ndarray, shapes: Any, aliased: bool
) -> Coarray:
    """The newcomer's own coarray with the sibling's contents; made, if the sibling made it inside the loop."""
    if known is not None and known.local.shape == local.shape and known.local.dtype == local.dtype:
        known.local[...] = local
        coarray = known
    else:
        coarray = Coarray(task, context, index, local, aliased, NOWHERE)
    if shapes is not None:
        coarray._learn(shapes)
    return coarray


class _Named(pickle.Unpickler):
    """Finds what `capture` has named in the newcomer."""

    def __init__(self, data: io.BytesIO, task: Task) -> None:
        super().__init__(data)
        self._task = task

    def persistent_load(self, pid: Any) -> Any:
        """A coarray, its memory, or a handle of this process."""
        kind, *where = pid
        if kind == "rng":
            return handle(self._task).rng
        context = self._task.contexts[where[0]]
        if kind == "process":
            return handle(self._task) if where[0] == 0 else Process(self._task, context)
        coarray = context.coarrays[where[1]]
        return coarray if kind == "coarray" else coarray.local
