"""Positions that index an array: checked, without negative ones, and laid alike where they are dealt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.expressions.layout import Layout, Shape, automatic
from bsp.arrays.procedures.operands import computed, layout_at
from bsp.arrays.selection.lookups import Lookup
from bsp.declared import Reported, declares
from bsp.values.payload import is_abstract


class BadPosition(NamedTuple):
    """A position that is out of range."""

    place: int  # the number of the axis among the indexed axes
    at: int  # where it is among the positions, in C order
    value: int


def out_of_bounds(value: int, axis: int, length: int) -> IndexError:
    """Return an IndexError with NumPy's message."""
    return IndexError(f"index {value} is out of bounds for axis {axis} with size {length}")


def bad_positions(positions: Sequence[np.ndarray], lengths: Sequence[int]) -> Iterator[BadPosition]:
    """Yield the first position out of range for each axis that has one."""
    for place, (each, length) in enumerate(zip(positions, lengths, strict=True)):
        if each.size and (int(each.min()) < -length or int(each.max()) >= length):
            flat = each.reshape(-1)
            at = int(np.flatnonzero((flat < -length) | (flat >= length))[0])
            yield BadPosition(place, at, int(flat[at]))


def wrapped(positions: np.ndarray, length: int) -> np.ndarray:
    """Return positions as int64, with negative ones counted from the end."""
    found = positions.astype(np.int64, copy=False)
    return np.where(found < 0, found + length, found) if found.size and found.min() < 0 else found


def _unchecked(costs: Reported, positions: Sequence[Any], what: Lookup, lengths: Sequence[int]) -> list[Any]:
    """Declare the cost of `checked`, assuming that positions without values are in range."""
    if any(is_abstract(each) for each in positions):
        return [np.broadcast_to(each, what.outer) for each in positions]
    return _in_range(positions, what, lengths)


def _in_range(positions: Sequence[Any], what: Lookup, lengths: Sequence[int]) -> list[Any]:
    """Return what `checked` returns; needs values."""
    refused(list(bad_positions(positions, lengths))[:1], what, lengths)
    return [np.broadcast_to(wrapped(each, length), what.outer) for each, length in zip(positions, lengths, strict=True)]


@declares(_unchecked)
def checked(positions: Sequence[Any], what: Lookup, lengths: Sequence[int]) -> list[Any]:
    """Return replicated positions in the shape `what.outer` without negative ones; raise IndexError out of range."""
    return _in_range(positions, what, lengths)


class Dealt(NamedTuple):
    """Dealt positions: this process's blocks of them, and the first one out of range."""

    layout: Layout
    blocks: list[tuple[Shape, list[Any]]]  # this process's: the positions for each indexed axis
    bad: BadPosition | None


def dealt_positions(nodes: Sequence[Node], what: Lookup, lengths: Sequence[int]) -> Dealt:
    """Broadcast arrays of positions to one shape, lay them alike, and check this process's blocks.

    Collective.  The caller must exchange the bad positions: other processes may have found some.
    """
    here = world()
    nodes = computed(*nodes)
    layout = laid_as(nodes, what)
    laid = computed(*[
        node if layout_at(node) is layout else build.relaid(build.broadcast(node, what.outer), layout) for node in nodes
    ])  # fmt: skip
    bad: BadPosition | None = None
    blocks = []
    for at in layout.mine(here.pid):
        chosen, wrong = _checked_block([node.value[at] for node in laid], layout.box(at), what, lengths)
        bad = wrong if bad is None else bad if wrong is None else min(bad, wrong)
        blocks.append((at, chosen))
    return Dealt(layout, blocks, bad)


@declares(lambda costs, chosen, box, what, lengths: (chosen, None))
def _checked_block(
    chosen: list[Any], box: Sequence[tuple[int, int]], what: Lookup, lengths: Sequence[int]
) -> tuple[list[Any], BadPosition | None]:
    """Return a block's positions without negative ones and None; or unchanged, and the first out of range."""
    bad: BadPosition | None = None
    for place, (each, length) in enumerate(zip(chosen, lengths, strict=True)):
        if each.size and (int(each.min()) < -length or int(each.max()) >= length):
            local = np.argwhere((each < -length) | (each >= length))[0]
            where = int(np.ravel_multi_index(tuple(local + [low for low, _ in box]), what.outer))
            found = BadPosition(place, where, int(each[tuple(local)]))
            bad = found if bad is None else min(bad, found)
    if bad is not None:
        return chosen, bad
    return [wrapped(each, length) for each, length in zip(chosen, lengths, strict=True)], None


def refused(told: Sequence[BadPosition], what: Lookup, lengths: Sequence[int]) -> None:
    """Raise IndexError for the first bad position that any process has found; every process raises the same."""
    if told:
        first = min(told)
        raise out_of_bounds(first.value, what.places[first.place], lengths[first.place])


def alarm(here: World, bad: BadPosition) -> list[tuple[int, Any]]:
    """Return messages of a bad position to all; they have two axes, while requests have one."""
    return [(dest, np.array([bad], np.int64)) for dest in range(here.nprocs)]


def alarms(arrived: Sequence[tuple[int, Any]]) -> list[BadPosition]:
    """Return the bad positions among the messages that have arrived."""
    return [BadPosition(*(int(each) for each in array[0])) for _, array in arrived if array.ndim == 2]


def laid_as(nodes: Sequence[Node], what: Lookup) -> Layout:
    """Return the layout for positions: that of the first dealt array of them with the full shape, else automatic."""
    dealt = [node for node in nodes if not layout_at(node).replicated and node.kind.shape == what.outer]
    layout = layout_at(dealt[0]) if dealt else automatic(what.outer, world().nprocs, False)
    return automatic(what.outer, world().nprocs, False) if layout.table is not None else layout
