"""`sort` and `argsort`: lines are sorted in place, a dealt vector by exact splitters and a single total exchange.

A dealt vector is cut before it is sorted.  The elements at the ranks where the result's pieces begin (the cuts) are
found exactly.  Each process partitions its elements at the cuts, sends them, and sorts what it receives once, with
NumPy's fastest kernel.  If the cuts are few, every process finds all of them (`order_statistics`).  If they are many,
each process sorts its elements first, and each cut is found by one process (`splitting`), so that no process receives
data that only another one needs.  Among equal elements those at lower positions go first.  So many equal elements are
spread evenly too, and the order is stable.  Regular sampling (Shi and Schaeffer 1992) would give uneven pieces, and
needs n of the order of p³.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution import memory
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Along, DType, Node, interned, kind_of
from bsp.arrays.expressions.layout import REPLICATED_SIZE
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import (
    block_map,
    bounds_of,
    computed,
    declared_of,
    even_line,
    flattened,
    in_line,
    layout_at,
    made_of,
)
from bsp.arrays.sorting.order_statistics import (
    CHUNK,
    PASSES,
    Statistic,
    Unsorted,
    order_statistics,
    statistics_cost,
)
from bsp.arrays.sorting.packing import packed, packed_size, unpacked
from bsp.arrays.sorting.splitting import BYTE, Budget, budget, cuts_cost, find_cuts, shares, tell_samples
from bsp.arrays.typing import ArrayLike, SortKind
from bsp.declared import Reported, declares

__all__ = ["argsort", "sort", "sort_complex"]

INT64 = np.dtype(np.int64)

# elements, and of a line, from which on a stable argsort takes longer than a quick one and a sort of equal elements
_QUICK, _SHORT = 1 << 13, 16


# --------------------------------------------------------------------------- on one process


def odd_values(x: np.ndarray) -> bool:
    """Return whether equal elements may differ in their bits, or some are NaN; only a stable sort is unique then."""
    if x.dtype.kind != "f":
        return x.dtype.kind == "c"
    flat = x.reshape(-1) if x.flags.c_contiguous else x.ravel()
    mask = np.empty(CHUNK, bool)
    signed = flat.view(f"i{x.dtype.itemsize}") if x.dtype.itemsize in (2, 4, 8) else None
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK]
        out = mask[: chunk.size]
        if np.not_equal(chunk, chunk, out=out).any():
            return True
        if signed is None:
            if (np.signbit(chunk) & (chunk == 0)).any():
                return True
        elif np.equal(signed[start : start + CHUNK], np.iinfo(signed.dtype).min, out=out).any():
            return True
    return False


def sorted_lines(x: np.ndarray, descending: bool, stable: bool) -> np.ndarray:
    """Return a copy of x sorted along its last axis."""
    if x.ndim == 1:
        return sorted_vector(np.array(x), descending, stable)
    kind: Any = "stable" if stable and odd_values(x) else None
    if not descending:
        return np.sort(x, axis=-1, kind=kind)
    return np.ascontiguousarray(np.sort(x[..., ::-1], axis=-1, kind=kind)[..., ::-1])


def sorted_vector(x: np.ndarray, descending: bool, stable: bool, odd: bool | None = None) -> np.ndarray:
    """Return x sorted; x itself may be overwritten.

    If `stable`, zeros of both signs and NaNs keep their order.  odd : `odd_values(x)`, if the caller has it already.
    """
    if x.dtype.kind == "c":
        if descending:
            return np.ascontiguousarray(np.sort(x[::-1], kind="stable" if stable else None)[::-1])
        return np.sort(x, kind="stable" if stable else None)
    runs: list[tuple[Any, np.ndarray]] = []
    if stable and (odd_values(x) if odd is None else odd):
        runs = [(value, np.compress(mask, x)) for value, mask in ((x.dtype.type(0), x == 0), (np.nan, x != x))]
    x.sort()
    cuts = [(int(np.searchsorted(x, value, "left")), run) for value, run in runs]
    if descending:
        size = x.size
        x = np.ascontiguousarray(x[::-1])
        cuts = [(size - start - run.size, run) for start, run in cuts]
    for start, run in cuts:
        x[start : start + run.size] = run
    return x


def sorting_positions(x: Any, descending: bool, stable: bool) -> Any:
    """Return the positions that sort x along its last axis, as int64."""
    if x.size > _QUICK and x.shape[-1] >= _SHORT and x.dtype.kind in "iuf" and x.itemsize >= 4 and _is_varied(x):
        if x.ndim == 1:
            return _quick_positions(x, descending)
        order = np.empty(x.shape, np.int64)
        step = max(1, CHUNK * x.shape[0] // x.size)
        for start in range(0, x.shape[0], step):
            order[start : start + step] = _quick_positions(x[start : start + step], descending)
        return order
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis=-1, kind=kind).astype(np.int64, copy=False)
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind=kind)[..., ::-1].astype(np.int64, copy=False)


def _is_varied(x: np.ndarray) -> bool:
    """Return whether few of the first elements of the first line are equal; else a stable argsort is quicker."""
    sample = np.sort(x[(0,) * (x.ndim - 1)][:1024])
    return bool(8 * np.count_nonzero(sample[1:] > sample[:-1]) >= 7 * (sample.size - 1))


def _quick_positions(x: np.ndarray, descending: bool) -> np.ndarray:
    """Return a stable argsort of lines: a quicksort, then positions within runs of equal elements are sorted."""
    order = np.argsort(x, axis=-1).astype(np.int64, copy=False)
    if descending:
        order = np.ascontiguousarray(order[..., ::-1])
    values = np.take_along_axis(x, order, -1)
    equal = values[..., 1:] == values[..., :-1]
    if x.dtype.kind == "f":
        nan = np.isnan(values)
        equal |= nan[..., 1:] & nan[..., :-1]
    if not equal.any():
        return order
    first = np.ones(x.shape, bool)  # of a run; runs end with their lines
    first[..., 1:] = ~equal
    tied = ~first
    tied[..., :-1] |= equal
    places = np.flatnonzero(tied)
    length = x.shape[-1]
    keys = np.cumsum(first)[places] * length + order.reshape(-1)[places]
    keys.sort()
    order.reshape(-1)[places] = keys % length
    return order


class _Lines:
    """An operation along an axis: the sort or argsort of whole lines."""

    work = 60.0
    fallible = False

    def __init__(self, positions: bool, descending: bool, stable: bool) -> None:
        self.positions, self.descending, self.stable = positions, descending, stable
        self.name = f"{'argsort' if positions else 'sort'}{' descending' * descending}{'' if stable else ' unstable'}"

    def dtype(self, given: DType) -> DType:
        """Return the dtype of the result for elements of dtype `given`."""
        return INT64 if self.positions else given

    def call(self, x: np.ndarray) -> np.ndarray:
        """Return the lines of x sorted, or their sorting positions; lines are along the last axis."""
        how = sorting_positions if self.positions else sorted_lines
        return how(x, self.descending, self.stable)


@lru_cache(maxsize=16)
def _lines(positions: bool, descending: bool, stable: bool) -> _Lines:
    return _Lines(positions, descending, stable)


# ------------------------------------------------------------------------ a dealt vector


def _ties(statistic: Statistic, rank: int, backwards: bool) -> Any:
    """Return, by process, how many of the elements equal to the one of a rank come before that rank."""
    equal = statistic.equal[::-1] if backwards else statistic.equal
    earlier = np.cumsum(equal) - equal
    before = np.clip(rank - int(statistic.less.sum()) - earlier, 0, equal)
    return before[::-1] if backwards else before


def _halved(buffer: np.ndarray, cuts: Sequence[int]) -> None:
    """Partition a vector in place at all cuts, by halving: each level touches every element once."""
    inner = [cut for cut in cuts if 0 < cut < buffer.size]
    if not inner:
        return
    middle = inner[len(inner) // 2]
    buffer.partition(middle)
    _halved(buffer[:middle], [cut for cut in inner if cut < middle])
    _halved(buffer[middle:], [cut - middle for cut in inner if cut > middle])


def _segments(x: np.ndarray, statistics: Sequence[Statistic], before: Sequence[int], backwards: bool) -> Any:
    """Return for each element how many cuts come before it.

    before : how many of this process's elements equal to each cut are before it, in the order of their positions.
    """
    found: Any = np.zeros(x.size, np.uint16 if len(statistics) < 1 << 16 else np.int64)
    mask = np.empty(x.size, bool)
    for statistic, ties in zip(statistics, before, strict=True):
        value = statistic.value
        if value != value:  # NaN: after everything
            equal = np.not_equal(x, x, out=mask)
            after = np.zeros(x.size, bool)
        else:
            after = ~np.less_equal(x, value)
            equal = np.equal(x, value, out=mask)
        tied = np.flatnonzero(equal)
        after[tied[: tied.size - ties] if backwards else tied[ties:]] = True
        found += after
    return found


def _sorting_cost(costs: Reported, sorting: _Sorting) -> Array:
    """Declare the cost of a dealt sort, assuming that all elements belong elsewhere, evenly spread."""
    block, size, length = sorting.block, sorting.block.shape[0], sorting.length
    dtype, layout = sorting.dtype, sorting.layout
    if sorting.finely:
        own = np.sort(block)
        cuts_cost(costs, own, length, sorting.longest, len(sorting.cuts), tells=False, most=sorting.budget())
    else:
        statistics_cost(costs, block, length, len(sorting.cuts))
        own = np.partition(block, 0) if size else block
    if sorting.positions:
        costs.passing(3 * size, INT64)  # the segment of each element, and the order of the segments
    out, start = [], 0
    for dest, share in shares(size, costs.p, sorting.here.pid):
        if sorting.positions:
            out.append((dest, costs.memory((share * dtype.itemsize + packed_size(share, size),), BYTE)))
        else:
            out.append((dest, own[start : start + share]))
        start += share
    result = declared_of(costs, (length,), dtype, layout)
    arrived = costs.total_exchange("elements to their pieces", out, placed=not sorting.positions)
    if sorting.positions:
        for received in result._node.value.values():
            places = costs.memory(received.shape, INT64)
            costs.passing(received.shape[0], INT64)
            order = np.argsort(received)
            costs.passing(2 * received.shape[0], INT64)  # the elements in that order, and which are equal
            del order, places
        return declared_of(costs, (length,), INT64, layout)
    for received in result._node.value.values():
        np.sort(received)
    del arrived
    return result


class _Sorting:
    """One sort or argsort of a dealt vector: its cuts, and the pieces of the result."""

    def __init__(self, here: World, node: Node, descending: bool, stable: bool, positions: bool) -> None:
        self.here = here
        self.descending = descending
        self.stable = stable
        self.positions = positions
        self.bounds, self.block = in_line(node)
        self.length = node.kind.shape[0]
        self.dtype = node.kind.dtype
        self.layout = even_line(self.length, here.nprocs)
        target = bounds_of(self.layout, here.nprocs)
        ends = self.length - target[::-1] if descending else target
        self.pieces = [(int(a), int(b)) for a, b in itertools.pairwise(ends)]  # ranks, ascending
        if descending:
            self.pieces.reverse()  # by pid
        self.cuts = sorted({rank for piece in self.pieces for rank in piece if 0 < rank < self.length})
        self._numbers = {rank: k + 1 for k, rank in enumerate(self.cuts)}
        self.longest = int(np.diff(self.bounds).max())

    @declares(_sorting_cost)
    def run(self) -> Array:
        """Return the sorted vector, or the sorting positions.  Collective."""
        careful = self.positions or self.dtype.kind == "c"
        odd = not careful and self.stable and odd_values(self.block)
        if self.finely:
            return self._split(careful or odd, odd)
        statistics, extras = order_statistics(self.here, Unsorted(self.block), self.cuts, [int(odd)])
        odd = bool(extras.any())
        ordered = [statistics[rank] for rank in self.cuts]
        ties = [_ties(each, rank, self.descending) for each, rank in zip(ordered, self.cuts, strict=True)]
        table = np.array([each.less + tie for each, tie in zip(ordered, ties, strict=True)], np.int64)
        table = table.reshape(len(self.cuts), self.here.nprocs)  # by cut and process: elements before it
        if self.positions or odd:
            segments = self._in_order(ordered, [int(tie[self.here.pid]) for tie in ties])
        else:
            segments = self._parted(table[:, self.here.pid])
        edges = np.concatenate([np.zeros((1, self.here.nprocs), np.int64), table, np.diff(self.bounds)[None]])
        number = self._piece_of(self.here.pid)
        return self._exchanged(segments, edges[number + 1] - edges[number] if number >= 0 else None, odd)

    @property
    def finely(self) -> bool:
        """Whether each process sorts before it cuts: for many cuts, or complex numbers, whose order only sorts have."""
        return len(self.cuts) > PASSES or self.dtype.kind == "c"

    def budget(self) -> Budget:
        """Return how finely to sample; for argsort the positions take words too, and leave fewer for samples."""
        return budget(self.length, self.here.nprocs, len(self.cuts), self.dtype, 1 / 4 if self.positions else 1 / 3)

    def _split(self, careful: bool, odd: bool) -> Array:
        """Sort by many cuts: each process sorts its elements first, and each cut is found by one process."""
        here, p = self.here, self.here.nprocs
        order = None
        if careful:  # equal elements in the order of their positions, or against it, as the ties go
            last = self.block.size - 1
            order = sorting_positions(self.block[::-1] if self.descending else self.block, False, True)
            order = last - order if self.descending else order
        own = np.sort(self.block) if order is None else self.block[order]
        most = self.budget()
        samples = tell_samples(here, "sample", own, most.spacing, [int(odd)])
        pieces = [self._piece_of(pid) for pid in range(p)]
        below = {piece: pid for pid, piece in enumerate(pieces) if piece >= 0}
        owners = [below.get(k + 1, 0) for k in range(len(self.cuts))]
        watchers = [below.get(k, -1) for k in range(len(self.cuts))]
        cuts = find_cuts(
            here, own, samples, self.cuts, most,
            backwards=self.descending, owners=owners, watchers=watchers, tells=False,
        )  # fmt: skip
        if self.positions and order is not None:
            ordered = [np.sort(part) for part in np.split(order, cuts.places)]
            segments = [[self.block[places], packed(places, self.block.size)] for places in ordered]
        else:
            backwards = -1 if careful and self.descending else 1
            segments = [[part[::backwards]] for part in np.split(own, cuts.places)]
        number = pieces[here.pid]
        if number < 0:
            return self._exchanged(segments, None, False)
        edges = {-1: np.zeros(p, np.int64), len(self.cuts): np.diff(self.bounds), **cuts.watched}
        return self._exchanged(segments, edges[number] - edges[number - 1], bool(samples.extras.any()))

    def _parted(self, cuts: np.ndarray) -> list[list[np.ndarray]]:
        """Return the elements between cuts, in any order."""
        buffer = memory.empty(self.block.shape, self.block.dtype)
        np.copyto(buffer, self.block)
        _halved(buffer, cuts.tolist())
        return [[part] for part in np.split(buffer, cuts)]

    def _in_order(self, statistics: Sequence[Statistic], ties: Sequence[int]) -> list[list[np.ndarray]]:
        """Return the elements between cuts in the order of their positions; for argsort also their positions."""
        segment = _segments(self.block, statistics, ties, self.descending)
        order = np.argsort(segment, kind="stable")
        cuts = np.searchsorted(segment[order], np.arange(1, len(statistics) + 1))
        found = [[part] for part in np.split(self.block[order], cuts)]
        if self.positions:
            for each, part in zip(found, np.split(order, cuts), strict=True):
                each.append(packed(part, self.block.size))
        return found

    def _piece_of(self, pid: int) -> int:
        """Return the number of the segment that becomes a process's piece, or -1 if the piece is empty."""
        low, high = self.pieces[pid]
        return -1 if low == high else self._numbers.get(low, 0)

    def _exchanged(self, segments: list[list[np.ndarray]], counts: np.ndarray | None, odd: bool) -> Array:
        """Send all elements to their pieces, and sort this process's piece.  Collective: one total exchange.

        counts : how many elements come from each process; None: this process has no piece.
        """
        here, me = self.here, self.here.pid
        out = []
        for dest in range(here.nprocs):
            number = self._piece_of(dest)
            if dest != me and number >= 0 and segments[number][0].size:
                out += [(dest, part) for part in segments[number]]
        sources = [] if counts is None else np.flatnonzero(counts).tolist()
        whole, into = None, None
        if counts is not None and not self.positions:  # receive into the vector that is sorted, without a copy
            whole = memory.empty((int(counts.sum()),), self.dtype)
            ends = np.cumsum(counts)
            into = {pid: [whole[ends[pid] - counts[pid] : ends[pid]]] for pid in sources}
            waiting = {pid: [places[0]] for pid, places in into.items()}
        arrived = [array for _, array in here.exchange("elements to their pieces", out, waiting if into else None)]
        if counts is None:
            return made_of((self.length,), INT64 if self.positions else self.dtype, self.layout, self._nothing())
        number = self._piece_of(me)
        kinds = 2 if self.positions else 1
        mine: dict[int, list[np.ndarray]] = {me: segments[number]}
        others = iter(arrived)
        for pid in sources:
            if pid != me:
                mine[pid] = [next(others) for _ in range(kinds)]
        if whole is not None and into is not None:
            for pid in sources:
                (place,) = into[pid]
                if not np.may_share_memory(place, mine[pid][0]):
                    place[:] = mine[pid][0]
            values = whole
        else:
            values = np.concatenate([mine[pid][0] for pid in sources])
        if not self.positions:
            result = sorted_vector(values, self.descending, self.stable, odd)
            return made_of((self.length,), self.dtype, self.layout, {(me,): result})
        places = np.concatenate([
            unpacked(mine[pid][1], mine[pid][0].size, int(self.bounds[pid + 1] - self.bounds[pid])) + self.bounds[pid]
            for pid in sources
        ])  # fmt: skip
        order = sorting_positions(values, self.descending, True)
        return made_of((self.length,), INT64, self.layout, {(me,): places[order]})

    def _nothing(self) -> dict[Any, Any]:
        kind = INT64 if self.positions else self.dtype
        return {at: np.empty(self.layout.block_shape(at), kind) for at in self.layout.mine(self.here.pid)}


def _sorted_whole_cost(costs: Reported, node: Node, how: _Lines) -> Array:
    """Declare the cost of sorting a vector in a single block."""
    costs.passing(3 * node.kind.size if how.positions else 0, INT64)  # the elements in order, and which are equal
    return block_map(node, how.dtype(node.kind.dtype), np.argsort if how.positions else np.sort)


@declares(_sorted_whole_cost)
def _sorted_whole(node: Node, how: _Lines) -> Array:
    """Sort or argsort a vector that is replicated or in one block.  No superstep."""
    return block_map(node, how.dtype(node.kind.dtype), how.call)


def vector_to_order(node: Node) -> tuple[Node, bool]:
    """Return a computed vector, and whether all processes order it together; else a process has all of it."""
    (node,) = computed(node)
    layout, p = layout_at(node), world().nprocs
    if not layout.replicated and (layout.blocks > 1 or layout.shape[0] > REPLICATED_SIZE) and p > 1:
        return node, True
    if not layout.replicated and layout.blocks > 1:
        (node,) = computed(build.relaid(node, even_line(layout.shape[0], 1)))
    return node, False


def _applied(x: Any, axis: int | None, descending: bool, stable: bool, positions: bool) -> Array:
    array = asarray(x)
    node = build.strong(array._node)
    if axis is None:
        node, axis = flattened(node), 0
    if positions:
        node = build.lined(node)
    shape = node.kind.shape
    place = build.whole_axis(axis, len(shape)) if positions else build.normal_axis(axis, len(shape))
    dtype = INT64 if positions else node.kind.dtype
    if len(shape) == 1:
        node, is_dealt = vector_to_order(node)
        if is_dealt:
            return _Sorting(world(), node, descending, stable, positions).run()
        return _sorted_whole(node, _lines(positions, descending, stable))
    order = [axis for axis in range(len(shape)) if axis != place]
    lines = build.permuted(node, (*order, place))
    op = interned(Along, _lines(positions, descending, stable), (1,), (shape[place],))
    found = Node(op, (lines,), kind_of(lines.kind.shape, dtype))
    back = [*range(len(order))]
    back.insert(place, len(order))
    return wrap(build.permuted(found, back))


def _is_stable(kind: Any, order: Any, stable: bool | None) -> bool:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind is not None and (not isinstance(kind, str) or kind[:1].lower() not in ("q", "m", "h", "s")):
        raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})")
    if kind is not None and stable is not None:
        raise ValueError("`kind` and `stable` parameters can't be provided at the same time. Use only one of them.")
    return stable is not False


@procedure
def sort(
    x: ArrayLike, /, axis: int | None = -1, kind: SortKind = None, order: None = None, *, descending: bool = False,
    stable: bool | None = True,
) -> Array:  # fmt: skip
    """Return a copy sorted along an axis, or all elements sorted if axis is None.

    NaN comes last.  With `descending` NaN comes first, and equal elements keep their order.

    Cost: lines that are whole on a process move nothing.  A dealt vector of n elements on p <= 9 processes: three
    supersteps as a rule: a sample of (4n)^(2/3) elements, counts with as many elements again for each cut, and one
    total exchange of n/p words; (n/p) log(n/p) comparisons.  On more processes: two supersteps and n words for
    n <= 16384; else 4 where n is large beside p (about 190·p^2.5), or 6: `splitting`, and the total exchange; in all
    at most 1.5·n/p words for n >= 100·p^2, p >= 64.  The result has an even layout.
    """
    return _applied(x, axis, bool(descending), _is_stable(kind, order, stable if kind is None else None), False)


@procedure
def argsort(
    x: ArrayLike, /, axis: int | None = -1, kind: SortKind = None, order: None = None, *, descending: bool = False,
    stable: bool | None = True,
) -> Array:  # fmt: skip
    """Return the positions that sort along an axis; of equal elements the lower position comes first.

    Cost: as `sort`, and 2 + log2(p) bits more for each element; two supersteps more where `budget` takes three rounds.
    """
    return _applied(x, axis, bool(descending), _is_stable(kind, order, stable if kind is None else None), True)


@procedure
def sort_complex(x: ArrayLike) -> Array:
    """Return a copy sorted along the last axis, by real part and then imaginary part, as complex numbers.

    Cost: as `sort`.
    """
    array = sort(x)
    if array.dtype.kind == "c":
        return array
    narrow = array.dtype.char in "bhBH"  # as in NumPy: integers that single precision holds exactly
    kind = np.dtype(np.complex64) if narrow else np.result_type(array.dtype, np.complex128)
    return wrap(build.cast(array._node, kind))
