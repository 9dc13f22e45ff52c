"""Places of the entries of arrays of any number of axes, dealt in ranges of C order, balanced by entries.

A place is one number: its position in the array raveled in C order.  A process has the entries of a range of positions,
ascending.  For any choice of axes the entries are the rows of a matrix with one 1 in each row, at the position along
those axes.  That is a `Pattern` as those of matrices are: its products bring dense elements to the entries, its sums
over columns bring entries together, and the exchange of both is found once for the pattern.

No process has more than twice an even share of the entries: what an operation leaves less even is dealt anew.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64

from bsp.arrays.array import Array
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.planning.reshaping import contiguous
from bsp.arrays.procedures import made_of
from bsp.arrays.sorting.splitting import budget, find_cuts, tell_samples
from bsp.arrays.sparse.pattern import Bounds, Pattern, even, line, outline_of, read_only
from bsp.transport.header import digest

_SAMPLES, _ENTRIES = "places of sparse entries", "sparse entries to the owners of their places"


class Places:
    """The places of an array's entries, of which this process has some.

    shape : the lengths of the axes.
    positions : of this process's entries, ascending, each at most once.
    entries : how many entries the processes before each one have, and all.
    bounds : where the range of positions of each process begins, and the end.
    name : of the places, over all processes.
    """

    def __init__(
        self, shape: Shape, positions: np.ndarray, entries: Bounds, bounds: Bounds, name: bytes, pid: int,
        patterns: dict[tuple[int, ...], Pattern] | None = None,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.positions: np.ndarray = read_only(positions)
        self.entries, self.bounds, self.name, self.pid = entries, bounds, name, pid
        self._patterns: dict[tuple[int, ...], Pattern] = patterns or {}

    def __reduce__(self) -> Any:
        return Places, (
            self.shape, self.positions, self.entries, self.bounds, self.name, self.pid, self._patterns,
        )  # fmt: skip

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, ...]:
        """The coordinates of this process's entries, a vector for each axis."""
        return unraveled(self.positions, self.shape)

    def raveled(self, axes: Sequence[int]) -> np.ndarray:
        """Return the positions of this process's entries along some axes, in the order in which they are named."""
        return raveled([self.coordinates[axis] for axis in axes], [self.shape[axis] for axis in axes])

    def pattern(self, axes: tuple[int, ...]) -> Pattern:
        """Return the pattern with a row for each entry, and its position along some axes, ascending, as column."""
        found = self._patterns.get(axes)
        if found is None:
            nprocs = len(self.entries) - 1
            columns = range_bounds(tuple(self.shape[axis] for axis in axes), nprocs)
            small = np.int32 if max(columns[-1], self.entries[-1]) < 2**31 else np.int64
            outline = outline_of(self.entries, columns, self.entries, digest(self.name, self.shape, axes))
            rows = np.arange(len(self.positions) + 1, dtype=small)
            found = self._patterns[axes] = Pattern(outline, rows, self.raveled(axes).astype(small), self.pid)
        return found

    def reshaped(self, shape: Shape) -> Places:
        """Return the same places in an array of another shape."""
        return Places(shape, self.positions, self.entries, self.bounds, self.name, self.pid)

    def owners(self, positions: np.ndarray) -> np.ndarray:
        """Return the processes in whose ranges some positions are."""
        return np.searchsorted(np.array(self.bounds[1:-1], np.int64), positions, side="right")


class PlacedEntries(NamedTuple):
    """Entries of this process with their positions, in any order, or on their way to others."""

    positions: np.ndarray
    values: np.ndarray

    def summed(self) -> PlacedEntries:
        """Return the entries in ascending order; those of one position are summed, in their order here."""
        at, values = self
        if (at[1:] > at[:-1]).all():
            return self
        order = np.argsort(at, kind="stable")
        at, values = at[order], values[order]
        begins = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
        return PlacedEntries(at[begins], np.add.reduceat(values, begins, dtype=values.dtype))

    def moved(self, here: World, owner: np.ndarray) -> PlacedEntries:
        """Return the entries that all processes send to this one.  Collective, S = 1.

        owner : the process that gets each entry.
        """
        at, values = self
        if (owner[1:] < owner[:-1]).any():
            order = np.argsort(owner, kind="stable")
            at, values, owner = at[order], values[order], owner[order]
        cuts = np.searchsorted(owner, np.arange(here.nprocs + 1))
        out = [(dest, part[a:b]) for dest, (a, b) in enumerate(pairwise(cuts)) if a < b for part in (at, values)]
        arrived = [each for _, each in here.exchange(_ENTRIES, out)]
        return PlacedEntries(*(np.concatenate(arrived[k::2]) if arrived else self[k][:0] for k in (0, 1)))


def raveled(coordinates: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """Return positions in C order of an array of some shape."""
    found = coordinates[0]
    for at, length in zip(coordinates[1:], shape[1:], strict=True):
        found = found * length + at
    return found


def unraveled(positions: np.ndarray, shape: Shape) -> tuple[np.ndarray, ...]:
    """Return the coordinates of positions in C order, a vector for each axis."""
    found, rest = [], positions
    for length in shape[:0:-1]:
        rest, at = np.divmod(rest, max(length, 1))
        found.append(at)
    return (rest, *found[::-1])


def checked_shape(shape: Sequence[int], call: str) -> Shape:
    """Return a shape as integers; ArrayError if it is none, or has positions that do not fit into 64 bits."""
    try:
        found = tuple(map(operator.index, shape))
    except TypeError:
        raise ArrayError(f"{call}: shape {shape!r:.60}: lengths of axes are integers") from None
    if not found or min(found) < 0:
        raise ArrayError(f"{call}: shape {found}: one length or more, from 0")
    if prod(max(each, 1) for each in found) >= 2**63:
        raise ArrayError(f"{call}: an array of shape {found} has more than 2**63 - 1 positions")
    return found


def range_bounds(shape: Shape, nprocs: int) -> Bounds:
    """Return where to cut a dense array, raveled, so that giving it its shape moves nothing."""
    sizes = contiguous(shape, nprocs).sizes.reshape(-1)
    ends = np.cumsum(sizes).tolist()
    return (0, *ends, *[ends[-1]] * (nprocs - len(ends)))


# ------------------------------------------------------------------------------------ dealing


def dealt(here: World, shape: Shape, entries: PlacedEntries) -> tuple[Places, Array]:
    """Return the places and values of all processes' entries, in any order; duplicates are summed.  Collective.

    Cost: H = two words for each entry, once, and the samples of a search for the exact cuts; S = 4, more where
    one sample is not enough (`find_cuts`), and 2 more where many duplicates were on different processes.
    """
    entries = entries.summed()
    nprocs = here.nprocs
    if nprocs > 1 and (total := sum(here.private.allgather(len(entries.positions)))):
        how = budget(total, nprocs, nprocs)
        samples = tell_samples(here, _SAMPLES, entries.positions, how.spacing)
        ranks = sorted({total * pid // nprocs for pid in range(1, nprocs)})
        cuts = find_cuts(here, entries.positions, samples, ranks, how).values
        entries = entries.moved(here, np.searchsorted(cuts, entries.positions, side="right")).summed()
    return placed(here, shape, entries)


def placed(here: World, shape: Shape, entries: PlacedEntries) -> tuple[Places, Array]:
    """Return the places and values of entries that ascend from process to process, and on each.  Collective.

    Cost: H = 4p words, S = 1; if a process has more than twice an even share, two words for each entry that moves, and
    S = 2 more.
    """
    nprocs, pid = here.nprocs, here.pid
    counts = _told(here, entries)
    total = counts[0][-1]
    if max(np.diff(counts[0])) > 2 * -(-total // nprocs):
        rank = counts[0][pid] + np.arange(len(entries.positions))
        entries = entries.moved(here, np.searchsorted(np.array(even(total, nprocs)[1:-1]), rank, side="right"))
        counts = _told(here, entries)
    ends, firsts, name, dtype = counts
    bounds = [0, *firsts[1:], prod(shape)]
    for k in range(nprocs - 1, 0, -1):
        if ends[k] == ends[k + 1]:
            bounds[k] = bounds[k + 1]
    places = Places(shape, entries.positions, ends, tuple(bounds), name, pid)
    values = entries.values.astype(dtype, copy=False)
    return places, made_of((total,), dtype, line(ends), {(pid if nprocs > 1 else 0,): values})


def _told(here: World, entries: PlacedEntries) -> tuple[Bounds, list[int], bytes, DType]:
    """Return how many entries come before each process, the first position of each, a digest, and the element type."""
    at, values = entries
    found = xxh3_64(np.ascontiguousarray(at).data).digest()
    told = here.told(len(at), int(at[0]) if len(at) else 0, found, values.dtype.str)
    ends = (0, *np.cumsum([each[0] for each in told]).tolist())
    dtype = np.result_type(*[np.dtype(each[3]) for each in told if each[0] or not ends[-1]])
    return ends, [each[1] for each in told], digest([(each[0], each[2]) for each in told]), dtype
