"""The registration of coarrays at a boundary: they are matched between processes, by creation order (B3).

Every element reads the same tables, so a mismatch is the same exception on every process.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.errors import RegistrationMismatch
from bsp.source import SourceLine
from bsp.values.region import Shape

if TYPE_CHECKING:
    from bsp.engine.element import Element


@dataclass(frozen=True)
class Entry:
    """The coarrays that one process registered and released in one context since the last boundary."""

    pid: int
    context: int
    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    lines: tuple[SourceLine, ...]
    releases: tuple[int, ...]


def register(element: Element) -> None:
    """Exchange the tables of new coarrays, and tell each coarray here the shapes of all.  Collective over the elements.

    Raises RegistrationMismatch, the same on all elements, and then changes nothing.
    """
    entries = [
        Entry(
            task.pid, context.id,
            tuple(_told(coarray.local.dtype) for coarray in new),
            tuple(coarray.local.shape for coarray in new),
            tuple(coarray._line for coarray in new),
            tuple(context.releases),
        )
        for task in element.tasks
        for context in task.call.contexts
        for new in [[coarray for coarray in context.coarrays[context.registered :] if coarray is not None]]
    ]  # fmt: skip
    shapes = agree([entry for some in element.transport.gather(entries) for entry in some], element.superstep)
    for task in element.tasks:
        for context in task.call.contexts:
            for coarray, known in zip(context.coarrays[context.registered :], shapes[context.id], strict=True):
                assert coarray is not None
                coarray._learn(known if element.sample is None else element.sample.everybodys(known))
            context.registered = len(context.coarrays)


def forget_released(element: Element) -> None:
    """Forget the coarrays here that were released in this superstep, after its puts and gets."""
    for task in element.tasks:
        for context in task.call.contexts:
            for index in context.releases:
                coarray = context.coarrays[index]
                if coarray is not None:
                    coarray._forget()
                context.coarrays[index] = None
            context.releases.clear()


def agree(entries: Iterable[Entry], superstep: int) -> dict[int, list[list[Shape]]]:
    """Return, for each context, the shapes of its new coarrays: for each coarray a list by pid.

    Raises RegistrationMismatch if number, dtype, dimensions or releases differ between processes.
    """
    contexts: dict[int, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.pid):
        contexts.setdefault(entry.context, []).append(entry)
    for same in contexts.values():
        for entry in same[1:]:
            _compare(same[0], entry, superstep)
    return {
        context: [[entry.shapes[k] for entry in same] for k in range(len(same[0].shapes))]
        for context, same in contexts.items()
    }


def _told(dtype: np.dtype[Any]) -> str:
    """Return a dtype as text that differs for different dtypes; the `.str` of a structured one gives only its size."""
    return dtype.str if dtype.names is None else str(dtype)


def _compare(a: Entry, b: Entry, superstep: int) -> None:
    """Raise RegistrationMismatch if two processes' entries of one context do not match."""
    if len(a.shapes) != len(b.shapes):
        more = a if len(a.shapes) > len(b.shapes) else b
        extra = more.lines[min(len(a.shapes), len(b.shapes))]
        raise RegistrationMismatch(
            f"process {a.pid} has registered {len(a.shapes)} coarray(s) and process {b.pid} {len(b.shapes)} "
            f"({extra} on process {more.pid} has no partner, superstep {superstep}); "
            "every process registers the same coarrays in the same order"
        )
    for k in range(len(a.shapes)):
        if a.dtypes[k] != b.dtypes[k] or len(a.shapes[k]) != len(b.shapes[k]):
            raise RegistrationMismatch(
                f"process {a.pid} registers {a.dtypes[k]} of {len(a.shapes[k])} dimension(s) at {a.lines[k]}, "
                f"process {b.pid} {b.dtypes[k]} of {len(b.shapes[k])} at {b.lines[k]} (superstep {superstep}); "
                "dtype and number of dimensions must agree, sizes may differ"
            )
    if a.releases != b.releases:
        raise RegistrationMismatch(
            f"process {a.pid} releases coarrays {list(a.releases)} and process {b.pid} {list(b.releases)} "
            f"(numbered by creation, superstep {superstep}); every process releases the same ones in the same order"
        )
