"""Sparse arrays from triples, from scipy's matrices, and from formulas.

Rows are dealt so that each process has about the same number of entries, unless bounds are given; a row counts as one
entry more, for its share of vectors.  A square matrix's vectors are dealt as its rows are; another's evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import psutil
import scipy.sparse

from bsp.arrays.errors import ArrayError, PlanTooLarge
from bsp.arrays.execution.world import World, world
from bsp.arrays.sparse.array import ScipyMatrix, SparseArray, of_rows
from bsp.arrays.sparse.base import SparseBase
from bsp.arrays.sparse.indices import check_dtype, checked_indices, checked_lengths, given_values, length_for
from bsp.arrays.sparse.pattern import Bounds, even
from bsp.arrays.sparse.semirings import combined_triples
from bsp.arrays.typing import ArrayLike, DTypeLike
from bsp.cost.units import in_bytes

if TYPE_CHECKING:
    from bsp.arrays.sparse.coo import CooArray

_AXES = ("rows", "columns")
_TRIPLES, _COUNTS = "entries to the owners of their rows", "entries of rows"


@overload
def from_coo(
    rows: ArrayLike, columns: ArrayLike, values: ArrayLike, shape: tuple[int, int] | None = None, *,
    bounds: Sequence[int] | None = None, symmetric: bool = False,
) -> SparseArray: ...  # fmt: skip
@overload
def from_coo(
    rows: Sequence[ArrayLike], columns: ArrayLike, *, shape: Sequence[int] | None = None
) -> CooArray: ...  # fmt: skip
def from_coo(
    rows: Any, columns: Any, values: Any = None, shape: Any = None, *, bounds: Sequence[int] | None = None,
    symmetric: bool = False,
) -> Any:  # fmt: skip
    """Return the sparse array of the triples of all processes; duplicates are summed.  Collective.

    rows, columns, values : this process's triples, as vectors of one length; values may be one number.  In a program
        in which all processes have all triples, pass them on one process and empty vectors on the others.
    from_coo((i, j, k), values, shape=...), with any number of vectors of coordinates, gives a `CooArray`.
    shape : by default the least that has all indices.
    bounds : of a matrix: where each process's rows begin, and the end (p + 1 numbers); by default balanced by entries.
    symmetric : of a matrix: each triple off the diagonal counts for its mirrored place too.  Sums of duplicates are
        equal on both sides of the diagonal, to the last bit.
    Raises ArrayError on all processes if an index is out of range on any, SyncMismatch if they give different shapes or
        bounds, PlanTooLarge if a word for each row, with entries or without, does not fit into the memory limit, or
        where there is none, into the memory of a machine.
    Cost: H = three words for each entry that moves and one for each of a process's rows; S = 6, with `bounds` 3, and 1
        more without `shape`; if symmetric, twice as many words for the entries, and S = 5 more.  By coordinates: two
        words for each entry, and samples; S = 6, or more where there are many entries or duplicates.
    """
    if values is None:
        from bsp.arrays.sparse.coo import from_coordinates

        return from_coordinates(rows, columns, shape)
    here = world()
    places = [given_values(each, "from_coo").reshape(-1) for each in (rows, columns)]
    given = given_values(values, "from_coo")
    entries = given.reshape(-1) if given.ndim else np.broadcast_to(given, places[0].shape)
    if shape is None:
        most = here.private.allgather([length_for(each) for each in places])
        shape = (max(each[0] for each in most), max(each[1] for each in most))
        shape = (max(shape),) * 2 if symmetric else shape

    def checked() -> list[np.ndarray]:
        lengths = checked_lengths(shape, "from_coo")
        here.note_given(lengths if bounds is None else limits_of(bounds, lengths[0], here.nprocs) + lengths)
        check_dtype(entries.dtype, "from_coo")
        if symmetric and lengths[0] != lengths[1]:
            raise ArrayError(f"from_coo: a symmetric matrix of shape {shape} is not square")
        if not len(places[0]) == len(places[1]) == len(entries):
            raise ArrayError(
                f"from_coo: {len(places[0])} rows, {len(places[1])} columns, {len(entries)} values; "
                "an array by coordinates has its shape by name: from_coo((i, j, k), values, shape=...)"
            )
        needed, limit = 8 * lengths[0] / here.nprocs, here.memory or psutil.virtual_memory().total
        if needed > limit:
            raise PlanTooLarge(
                f"from_coo: {lengths[0]} rows need {in_bytes(needed)} on each process, a word a row with entries or "
                f"without, limit {in_bytes(limit)}; "
                "np.searchsorted(np.unique(np.concatenate(proc.allgather(rows))), rows) numbers those that have entries"
            )
        return [checked_indices(each, shape[k], f"from_coo: {_AXES[k]}") for k, each in enumerate(places)]

    own, others = here.together("from_coo", checked)
    if symmetric:
        own, others, entries = _both_ways(here, own, others, entries, shape[0])
    limits = balanced(here, own, shape[0]) if bounds is None else limits_of(bounds, shape[0], here.nprocs)
    return of_triples(here, own, others, entries, limits, columns_like(limits, shape))


def _both_ways(
    here: World, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return triples that have each entry also in its mirrored place.  Collective.

    The duplicates of both places are summed once, for the sum of floats depends on their order.
    """
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    limits = balanced(here, low, size)
    low, high, summed = of_triples(here, low, high, values, limits, limits).triples()
    off = low != high
    return (
        np.concatenate([low, high[off]]), np.concatenate([high, low[off]]), np.concatenate([summed, summed[off]])
    )  # fmt: skip


def columns_like(rows: Bounds, shape: tuple[int, int]) -> Bounds:
    """Return the bounds of the vectors that a matrix multiplies: those of its rows if it is square, else even ones."""
    return rows if shape[0] == shape[1] else even(shape[1], len(rows) - 1)


def limits_of(given: Sequence[int], length: int, nprocs: int) -> Bounds:
    """Return bounds that a caller gives, checked."""
    found = tuple(int(each) for each in given)
    if len(found) != nprocs + 1 or found[0] or found[-1] != length or any(np.diff(found) < 0):
        raise ArrayError(f"bounds={found}: {nprocs + 1} ascending positions from 0 to {length}")
    return found


def balanced(here: World, rows: np.ndarray, length: int) -> Bounds:
    """Return bounds of rows that deal the entries of all processes evenly.  Collective.

    rows : of this process's entries.
    A row that has more than an even share of the entries is one process's alone.
    Cost: H = one word for each of a process's distinct rows, S = 3.
    """
    nprocs = here.nprocs
    limits = even(length, nprocs)
    if nprocs == 1 or not length:
        return limits
    distinct, counts = np.unique(rows, return_counts=True)
    cuts = np.searchsorted(distinct, limits)
    out = []
    for dest, (a, b) in enumerate(pairwise(cuts)):
        if a < b:
            out += [(dest, distinct[a:b]), (dest, counts[a:b])]
    arrived = [each for _, each in here.exchange(_COUNTS, out)]
    low, high = limits[here.pid], limits[here.pid + 1]
    weights = np.ones(high - low)
    for at, each in zip(arrived[::2], arrived[1::2], strict=True):
        np.add.at(weights, at - low, each)
    return cut_by_weight(here, low, weights, length)


def cut_by_weight(here: World, low: int, weights: np.ndarray, length: int) -> Bounds:
    """Return bounds that deal rows by their weights, of which each process has those of an even share.  Collective.

    low : the first row of the share.
    Cost: H = p words, S = 2.
    """
    nprocs = here.nprocs
    if not length:
        return (0,) * (nprocs + 1)
    before = np.cumsum([0, *here.private.allgather(int(weights.sum()))])
    ends = before[here.pid] + np.cumsum(weights)  # the weight of all rows up to each own one
    wanted = before[-1] * np.arange(1, nprocs) / nprocs
    mine = wanted[(wanted > before[here.pid]) & (wanted <= before[here.pid + 1])]
    at = np.searchsorted(ends, mine)  # the row that contains the cut: the nearer of its ends
    starts = np.concatenate([[before[here.pid]], ends[:-1]])
    found = low + at + (ends[at] - mine < mine - starts[at]) if len(mine) else np.zeros(0, np.int64)
    cut = np.concatenate(here.private.allgather(found))
    return (0, *(int(each) for each in cut), length)


def of_triples(
    here: World, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, bounds: Bounds, others: Bounds,
    add: np.ufunc = np.add,
) -> SparseArray:  # fmt: skip
    """Return the sparse array of all processes' triples, whose rows have these bounds.  Collective, S = 2.

    others : the bounds of the columns.
    add : combines the values of one place.
    """
    shape = (bounds[-1], others[-1])
    owner = np.searchsorted(bounds, rows, side="right") - 1
    rows, columns, values = sent_to(here, owner, rows, columns, values, max(shape))
    low = bounds[here.pid]
    own_shape = (bounds[here.pid + 1] - low, shape[1])
    if add is not np.add:
        return of_rows(combined_triples(rows - low, columns, values, own_shape, add), bounds, others)
    made = scipy.sparse.coo_array((values, (rows - low, columns)), shape=own_shape).tocsr()
    del rows, columns, values  # their memory goes back with that of other temporaries
    return of_rows(made, bounds, others)


def sent_to(
    here: World, owner: np.ndarray, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, longest: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return the triples that all processes send to this one: to `owner` each.  Collective, S = 1.

    longest : the length of the longer axis, for the size of indices.
    """
    if here.nprocs == 1:
        return rows, columns, values
    small = np.int32 if longest < 2**31 else np.int64
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(here.nprocs + 1))
    parts = [np.ascontiguousarray(each[order]) for each in (rows.astype(small), columns.astype(small), values)]
    out = [(dest, part[a:b]) for dest, (a, b) in enumerate(pairwise(cuts)) if a < b for part in parts]
    arrived = [each for _, each in here.exchange(_TRIPLES, out)]
    return tuple(np.concatenate([part[:0], *arrived[k::3]]) for k, part in enumerate(parts))  # type: ignore[return-value]


def redealt(a: SparseArray, rows: Bounds, columns: Bounds) -> SparseArray:
    """Return an array, stored by rows, with other bounds.  Collective.  Cost: 3 words for each entry that moves."""
    return of_triples(world(), *a.triples(), rows, columns)


def from_scipy(matrix: ScipyMatrix | ArrayLike, *, bounds: Sequence[int] | None = None) -> SparseArray:
    """Return the sparse array of a scipy.sparse matrix, or of a dense one, that every process has.  Collective, S = 1.

    Each process keeps its own rows.  `from_local` makes one array of rows that differ between processes.
    Raises SyncMismatch if the matrix does.
    """
    here = world()
    given: Any = matrix if scipy.sparse.issparse(matrix) else np.asarray(matrix)
    check_dtype(given.dtype, "from_scipy")
    whole = scipy.sparse.csr_array(given)
    here.note_given([*whole.shape, whole.indices, whole.data])
    if whole.ndim != 2:
        raise ArrayError(f"from_scipy: {whole.ndim} axes; a matrix has 2")
    if bounds is None:
        weights = np.cumsum(np.diff(whole.indptr) + 1.0)
        limits = cut_evenly(weights, here.nprocs)
    else:
        limits = limits_of(bounds, whole.shape[0], here.nprocs)
    own = whole[limits[here.pid] : limits[here.pid + 1]]
    return of_rows(own, limits, columns_like(limits, whole.shape))


def as_sparse(a: Any) -> SparseArray:
    """Return a sparse array as a matrix, and so one of scipy, or a dense one, that every process has."""
    return a if isinstance(a, SparseArray) else a.tocsr() if isinstance(a, SparseBase) else from_scipy(a)


def from_local(rows: ScipyMatrix | ArrayLike) -> SparseArray:
    """Return the sparse array that has each process's own rows in the order of the processes.  Collective, S = 3.

    rows : a scipy.sparse or dense matrix with this process's rows and all columns.
    Raises ArrayError on all processes if they have different numbers of columns.
    """
    here = world()

    def checked() -> Any:
        given: Any = rows if scipy.sparse.issparse(rows) else given_values(rows, "from_local")
        check_dtype(given.dtype, "from_local")
        own = scipy.sparse.csr_array(given, copy=True)
        if own.ndim != 2:
            raise ArrayError(f"from_local: {own.ndim} axes; rows of a matrix have 2")
        return own

    own = here.together("from_local", checked)
    told = here.private.allgather(own.shape)
    if len(widths := {columns for _, columns in told}) > 1:
        raise ArrayError(f"from_local: processes have rows of {', '.join(map(str, sorted(widths)))} columns")
    limits = (0, *(int(each) for each in np.cumsum([count for count, _ in told])))
    return of_rows(own, limits, columns_like(limits, (limits[-1], own.shape[1])))


def cut_evenly(ends: np.ndarray, nprocs: int) -> Bounds:
    """Return bounds that deal weights, of which the sums up to each position are given, evenly."""
    total = ends[-1] if len(ends) else 0.0
    wanted = total * np.arange(1, nprocs) / nprocs
    at = np.minimum(np.searchsorted(ends, wanted), max(len(ends) - 1, 0))
    if len(ends):
        starts = np.concatenate([[0.0], ends[:-1]])
        at = at + (ends[at] - wanted < wanted - starts[at])
    return (0, *(int(each) for each in at), len(ends))


def of_function(
    shape: tuple[int, int], make: Callable[[int, int], Any], *, bounds: Sequence[int] | None = None
) -> SparseArray:
    """Return the sparse array of which `make(start, stop)` returns rows, as a scipy.sparse matrix.  Collective.

    make : is called on each process for its own rows; what it returns becomes the array's.
    bounds : by default each process makes as many rows as the others.
    Cost: at most 6p words, S = 2: all agree that they could make their rows, and what has come of it.
    """
    here = world()
    limits = even(shape[0], here.nprocs) if bounds is None else limits_of(bounds, shape[0], here.nprocs)
    here.note_given([*limits, int(shape[1])])
    low, high = limits[here.pid], limits[here.pid + 1]

    def own() -> Any:
        given = make(low, high)
        found = scipy.sparse.csr_array(given if scipy.sparse.issparse(given) else given_values(given, "of_function"))
        if found.shape != (high - low, shape[1]):
            raise ArrayError(f"of_function: rows {low} to {high} have shape {found.shape}, columns {shape[1]}")
        return found

    return of_rows(here.together("of_function", own), limits, columns_like(limits, shape))


def eye(m: int, n: int | None = None, *, k: int = 0, dtype: DTypeLike = float) -> SparseArray:
    """Return the m x n matrix with ones on the k-th diagonal.  Collective.  Cost: as `of_function`."""
    return diags([np.ones((), dtype)], offsets=[k], shape=(m, m if n is None else n), dtype=dtype)


def diags(
    diagonals: Sequence[Any], *, offsets: Sequence[int] | int = 0, shape: tuple[int, int] | None = None,
    dtype: DTypeLike | None = None,
) -> SparseArray:  # fmt: skip
    """Return the matrix with these diagonals, numbers or whole vectors that every process has.  Collective.

    diagonals, offsets, shape : as in scipy.sparse.diags_array.
    Cost: as `of_function`.
    """
    if not len(diagonals):
        raise ArrayError("diags of no diagonals")
    if np.ndim(offsets) == 0:
        diagonals, offsets = ([diagonals] if np.ndim(diagonals[0]) == 0 else diagonals), [int(offsets)]  # type: ignore[arg-type]
    lines = [given_values(each, "diags") for each in diagonals]
    places = [int(each) for each in offsets]  # type: ignore[union-attr]
    if len(lines) != len(places):
        raise ArrayError(f"diags: {len(lines)} diagonals, {len(places)} offsets")
    if shape is None:
        size = max((len(line) + abs(k) if line.ndim else 1 + abs(k)) for line, k in zip(lines, places, strict=True))
        shape = (size, size)
    m, n = checked_lengths(shape, "diags")
    kind = np.result_type(*lines) if dtype is None else np.dtype(dtype)
    check_dtype(kind, "diags")
    for line, k in zip(lines, places, strict=True):
        length = min(m + min(k, 0), n - max(k, 0))
        if length < 0 or (line.ndim and len(line) not in (1, length)):
            raise ArrayError(
                f"diags: diagonal {k} of a matrix of shape {shape} has {max(length, 0)} elements, not {line.size}"
            )

    world().note_given([*lines, *places, str(kind)])
    small = np.int32 if max(shape) < 2**31 else np.int64

    def make(low: int, high: int) -> Any:
        rows, columns, values = [np.zeros(0, small)], [np.zeros(0, small)], [np.zeros(0, kind)]
        for line, k in zip(lines, places, strict=True):
            own = np.arange(max(low, -k, 0), min(high, n - k), dtype=small)
            at = own + min(k, 0)
            rows.append(own - low)
            columns.append(own + k)
            given = line if not line.ndim or len(line) == 1 else line[at]
            values.append(np.broadcast_to(given, own.shape).astype(kind))
        triples = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return scipy.sparse.coo_array(triples, shape=(high - low, n))

    return of_function(shape, make)


def random(
    m: int, n: int, *, density: float = 0.01, seed: int = 0, dtype: DTypeLike = float
) -> SparseArray:  # fmt: skip
    """Return a matrix with entries at random places, uniform in [0, 1).  Collective.

    density : the probability that a place has an entry; each row has density · n of them on average.
    The values follow from the seed and the shape only, not from p: each row has a generator of its own.
    In a run without values it is a `model` of such a matrix, which takes no supersteps.   Cost: as `of_function`.
    """
    m, n = checked_lengths((m, n), "random")
    kind = np.dtype(dtype)
    check_dtype(kind, "random")
    if not 0 <= density <= 1:
        raise ArrayError(f"random: density={density}: a number from 0 to 1")
    if not (isinstance(seed, (int, np.integer)) and 0 <= seed < 1 << 64):
        raise ArrayError(f"random: seed={seed!r}: an integer from 0 to 2^64 - 1")
    if _TILE * n > 1 << 60:
        raise ArrayError(f"random: {n} columns, of at most 2^52")
    if kind.kind in "iu":
        raise ArrayError(f"random: dtype {kind}: numbers in [0, 1) would all be 0; a multiple of such, .astype({kind})")
    if world().abstract:
        from bsp.arrays.sparse.model import model

        return model((m, n), round(density * m * n), dtype=kind)

    world().note_given([float(density), int(seed), str(kind)])

    def make(low: int, high: int) -> Any:
        rows, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        for block in range(low // _TILE, -(-high // _TILE)):
            first, last = block * _TILE, min((block + 1) * _TILE, m)
            rng = np.random.Generator(np.random.Philox(key=np.array([seed, block], np.uint64)))
            places = _drawn(rng, (last - first) * n, density)
            row, value = first + places // max(n, 1), rng.random(len(places))
            kept = (row >= low) & (row < high)
            rows.append(row[kept] - low)
            columns.append(places[kept] % max(n, 1))
            values.append(value[kept])
        triples = np.concatenate(values).astype(kind), (np.concatenate(rows), np.concatenate(columns))
        return scipy.sparse.coo_array(triples, shape=(high - low, n))

    return of_function((m, n), make)


def _drawn(rng: np.random.Generator, size: int, density: float) -> np.ndarray:
    """Return some of `size` places, ascending; each is drawn with the same probability, independently of the others."""
    found, last = [np.zeros(0, np.int64)], -1
    while density and last < size - 1:
        expected = (size - 1 - last) * density
        # From each place that is drawn to the next, or beyond the end: more could overflow.
        steps = np.minimum(rng.geometric(density, int(expected + 4 * expected**0.5) + 4), size + 1)
        places = last + np.cumsum(steps)
        found.append(places[places < size])
        last = int(places[-1])
    return np.concatenate(found)


_TILE = 256  # rows that share a generator
