"""The distinct elements of one process: found among its own, and merged from several parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import Node
from bsp.arrays.procedures.operands import layout_at
from bsp.arrays.sorting.sorting import sorting_positions

NOTHING = np.empty(0, np.int64)


class Distinct(NamedTuple):
    """Distinct elements, ascending, with their counts and first positions where wanted, else NOTHING."""

    values: np.ndarray
    counts: np.ndarray
    first: np.ndarray  # position in C order


def _bare(values: np.ndarray) -> Distinct:
    """Return distinct elements without counts and positions."""
    return Distinct(values, NOTHING, NOTHING)


def _changes(ordered: np.ndarray, equal_nan: bool) -> np.ndarray:
    """Return a mask of the sorted elements that differ from the one before them."""
    found = np.ones(ordered.size, bool)
    if ordered.size > 1:
        found[1:] = ordered[1:] != ordered[:-1]
        if equal_nan and ordered.dtype.kind in "fcmM":
            nan = np.isnan(ordered)  # or NaT
            found[1:] &= ~(nan[1:] & nan[:-1])
    return found


class OwnElements(NamedTuple):
    """A process's distinct elements, and for each block the number of each element among them."""

    distinct: Distinct
    inverses: dict[tuple[int, ...], np.ndarray]


def own_elements(here: World, node: Node, equal_nan: bool, wanted: tuple[bool, bool, bool]) -> OwnElements:
    """Return the distinct elements of this process, which has all if the array is replicated.

    wanted : whether first positions, inverses and counts are.  For counts alone of integers no positions are sorted.
    """
    details = any(wanted)
    unplaced = not details or (not any(wanted[:2]) and node.kind.dtype.kind in "biu")
    layout = layout_at(node)
    shape = node.kind.shape
    parts, local = [], []
    ats = layout.mine(here.pid)
    for at in ats:
        block = node.value[at]
        flat = block.reshape(-1)
        if unplaced:
            values, counts = _counted(flat, equal_nan)
            parts.append(Distinct(values, counts if details else NOTHING, NOTHING))
            continue
        found, inverse = _numbered(flat, equal_nan)
        if flat.size and block.shape != shape:
            corner = np.array([low for low, _ in layout.box(at)]).reshape(-1, 1)
            place = tuple(np.array(np.unravel_index(found.first, block.shape)) + corner)
            found = found._replace(first=np.ravel_multi_index(place, shape))
        parts.append(found)
        local.append(inverse)
    if not parts:
        empty = np.empty(0, np.int64)
        return OwnElements(Distinct(np.empty(0, node.kind.dtype), empty, empty), {})
    if len(parts) == 1:
        return OwnElements(parts[0], dict(zip(ats, local, strict=False)))
    together = merged(parts, equal_nan)
    if unplaced:
        return OwnElements(together, {})
    places = [places_of(together, part, equal_nan) for part in parts]
    inverses = {at: place[inverse] for at, inverse, place in zip(ats, local, places, strict=False)}
    return OwnElements(together, inverses)


def _fills_a_table(x: np.ndarray) -> bool:
    """Return whether a vector has integers in a narrow range, such as labels: a table of the range is no longer."""
    return x.dtype.kind in "iu" and x.size > 0 and int(x.max()) - int(x.min()) < x.size


def _table(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each integer's distance from the least, how often each distance is there, and the distances that are."""
    distances = (x - x.min()).view(f"u{x.itemsize}").astype(np.int64)  # those beyond the dtype wrap round
    counts = np.bincount(distances)
    return distances, counts, np.flatnonzero(counts)


def _counted(x: np.ndarray, equal_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct elements of a vector, and how often each is there."""
    if _fills_a_table(x):
        _, counts, present = _table(x)
        return x.min() + present.astype(x.dtype), counts[present]
    ordered = np.sort(x)
    new = np.flatnonzero(_changes(ordered, equal_nan))
    return ordered[new], np.diff(np.append(new, x.size))


def _numbered(x: np.ndarray, equal_nan: bool) -> tuple[Distinct, np.ndarray]:
    """Return the distinct elements of a vector, and the number of each element among them."""
    if _fills_a_table(x):
        distances, counts, present = _table(x)
        first = np.empty(counts.size, np.int64)
        first[distances[::-1]] = np.arange(x.size)[::-1]  # the last assignment to a place stays
        found = Distinct(x.min() + present.astype(x.dtype), counts[present], first[present])
        return found, (np.cumsum(counts > 0) - 1)[distances]
    order = sorting_positions(x, False, True)
    ordered = x[order]
    new = _changes(ordered, equal_nan)
    inverse = np.empty(x.size, np.int64)
    inverse[order] = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    return Distinct(ordered[starts], np.diff(np.append(starts, x.size)), order[starts]), inverse


def merged(parts: Sequence[Distinct], equal_nan: bool) -> Distinct:
    """Merge the distinct elements of several parts; add counts, keep the lowest first positions."""
    values = np.concatenate([part.values for part in parts])
    counted, placed = (all(part[k] is not NOTHING for part in parts) for k in (1, 2))
    if not placed and not counted:
        values.sort()
        return _bare(values[_changes(values, equal_nan)])
    counts = np.concatenate([part.counts for part in parts])
    first = np.concatenate([part.first for part in parts])
    if not placed:
        order = np.argsort(values, kind="stable")
    else:
        order = np.lexsort((first, values)) if values.dtype.kind in "biufmM" else _by_value(values, first)
    new = np.flatnonzero(_changes(values[order], equal_nan))
    if not new.size:
        return Distinct(values, counts, first)
    return Distinct(
        values[order][new],
        np.add.reduceat(counts[order], new) if counted else NOTHING,
        np.minimum.reduceat(first[order], new) if placed else NOTHING,
    )


def _by_value(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the order by value, then by position, for dtypes that np.lexsort does not sort as np.sort does.

    These are complex numbers with NaN, and rows: sort by position, then stably by value.
    """
    order = np.argsort(first, kind="stable")
    return order[np.argsort(values[order], kind="stable")]


def places_of(whole: Distinct, part: Distinct, equal_nan: bool) -> np.ndarray:
    """Return the positions in `whole` of the elements of `part`; distinct NaNs are identified by first position."""
    found = np.searchsorted(whole.values, part.values)
    if part.values.dtype.kind == "V" or (not equal_nan and part.values.dtype.kind in "fcmM"):
        nan = np.flatnonzero(part.values != part.values)
        if part.values.dtype.kind == "V":  # rows: those with NaN may be anywhere in the order
            for k in nan.tolist():
                found[k] += int(np.flatnonzero(whole.first[found[k] :] == part.first[k])[0])
        elif nan.size:
            start = int(np.searchsorted(whole.values, part.values[nan[0]]))
            order = np.argsort(whole.first[start:], kind="stable")
            at = order[np.searchsorted(whole.first[start:][order], part.first[nan])]
            if part.values.dtype.kind in "fmM":
                found[nan] = start + at
            else:
                found[nan] = [start + int(np.flatnonzero(whole.first[start:] == each)[0]) for each in part.first[nan]]
    return found
