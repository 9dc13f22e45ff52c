"""The class `CooArray`: a distributed sparse array of any number of axes, with the names of scipy's `coo_array`.

    A = sparse.from_coo((i, j, k), values, shape=(1000, 2000, 500))     # each process's coordinates and values
    A.sum(axis=(0, 2))                       # dense and lazy, planned together with all other arithmetic
    A * weights[:, None]                     # a dense operand broadcasts

Costs, for nnz entries on p processes:

A * 2, abs(A), A.T         nothing moves; lazy
A * dense, A.sum(axis=0)   lazy: a word for each distinct position, along the axes that the dense side has, that a
                           process's entries have and another one owns; S = 1.  The first of an array and these axes
                           sends these positions once, S = 2 more
A + B, A * B               two words for each entry of the array with fewer of them, but for those that are where the
                           other one's are; S = 2
A[part]                    nothing moves but after a negative step or positions that do not ascend, and where entries
                           become uneven; S = 1
A.reshape(...)             nothing; after a transpose two words for each entry, as for `from_coo`
A.tensordot(B)             that of turning both into matrices, 3 words for each entry, and of their product
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np
import scipy.sparse

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.build import normal_axes
from bsp.arrays.errors import ArrayError, PlanTooLarge
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.sparse import operations as do
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.base import ScipyMatrix, SparseBase
from bsp.arrays.sparse.creation import from_coo
from bsp.arrays.sparse.indices import check_dtype, checked_indices, given_values, length_for, positions_of
from bsp.arrays.sparse.pattern import even, line
from bsp.arrays.sparse.places import PlacedEntries, Places, checked_shape, dealt, placed, raveled, unraveled
from bsp.arrays.sparse.semirings import Semiring
from bsp.cost.units import in_bytes

if TYPE_CHECKING:
    from bsp.arrays.typing import ArrayLike, Index, Int, Scalar

_Part = range | int | np.ndarray  # of an axis: positions that stay, or the one that is taken


class CooArray(SparseBase):
    """A distributed sparse array of one axis or more, by coordinates.  `from_coo` and `as_coo` make them.

    shape, dtype, nnz, T: as in scipy.sparse.  `entries`: the vector of stored values, in the order of their places.
    Each process has the entries of a range of places, and at most twice as many as an even share.
    """

    __slots__ = ("_axes", "_places")
    format = "coo"

    def __init__(self, places: Places, entries: Node, axes: Sequence[int] | None = None) -> None:
        super().__init__(entries)
        self._places = places
        self._axes = tuple(range(len(places.shape)) if axes is None else axes)  # of the places, in this order

    def __reduce__(self) -> Any:
        return CooArray, (self._places, self._entries, self._axes)

    # --------------------------------------------------------------------------- attributes

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return tuple(self._places.shape[axis] for axis in self._axes)

    @property
    def coords(self) -> tuple[np.ndarray, ...]:
        """The coordinates of this process's entries: a vector for each axis."""
        return tuple(self._places.coordinates[axis] for axis in self._axes)

    @property
    def T(self) -> CooArray:
        """The array with its axes in reverse order.  Moves nothing."""
        return self.transpose()

    def __repr__(self) -> str:
        return f"<{'x'.join(map(str, self.shape))} sparse array of {self.dtype}, {self.nnz} entries, coo>"

    def _holding(self, node: Node) -> Self:
        return type(self)(self._places, node, self._axes)

    @property
    def _dealt(self) -> Layout:
        return line(self._places.entries)

    def _coordinates(self) -> tuple[np.ndarray, ...]:
        return self.coords

    def _chosen(self, which: np.ndarray) -> Self:
        own = PlacedEntries(self._places.positions[which], self._own()[which])
        return type(self)(*_unwrapped(placed(world(), self._places.shape, own)), self._axes)

    # ---------------------------------------------------------------------------------- forms

    def local(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Return the coordinates and the values of this process's entries.  Collective if the entries are lazy."""
        return self.coords, self._own()

    def compute(self) -> scipy.sparse.coo_array:
        """Return the whole array as scipy's on every process, in C order.  Collective.  Cost: h = 2 nnz words.

        Arrays of more than two axes need scipy 1.15, those of one 1.13.
        """
        coords, values = self.local()
        pieces = world().private.allgather((raveled(coords, self.shape), values))
        whole = PlacedEntries(*(np.concatenate([each[k] for each in pieces]) for k in (0, 1))).summed()
        return scipy.sparse.coo_array((whole.values, unraveled(whole.positions, self.shape)), shape=self.shape)

    def todense(self) -> Array:
        """Return the dense array, dealt in slabs.  Lazy.  Cost: a word for each entry outside its process's slab."""
        return self._over((), np.add, self.dtype.type(0), self.entries)

    toarray = todense

    def tocoo(self) -> CooArray:
        """Return the array."""
        return self

    def tocsr(self) -> SparseArray:
        """Return an array of two axes as a matrix, which has products, dealt by rows.  Collective, as `from_coo`."""
        if self.ndim != 2:
            raise ArrayError(f"tocsr: an array of shape {self.shape}; a matrix has 2 axes: reshape it")
        rows, columns = self.coords
        return from_coo(rows, columns, self._own(), (self.shape[0], self.shape[1]))

    def _matrix(self, rows: Sequence[int], columns: Sequence[int]) -> SparseArray:
        """Return the matrix whose rows are some of the axes, raveled, and whose columns the others.  Collective.

        Raises PlanTooLarge if a word for each row, or column if they are more, does not fit into the memory.
        """
        sides = [[self._axes[axis] for axis in side] for side in (rows, columns)]
        at = [self._places.raveled(side) if side else np.zeros(len(self._places.positions), np.int64) for side in sides]
        m, n = (prod(self._places.shape[axis] for axis in side) for side in sides)
        here, words = world(), max(m, n)
        if here.memory and 8 * words > here.memory * here.nprocs:
            raise PlanTooLarge(
                f"tensordot: a matrix of {m} rows and {n} columns needs {in_bytes(8 * words / here.nprocs)} on each "
                f"process for its rows, limit {in_bytes(here.memory)}"
            )
        if m < n:  # the longer side is dealt
            return from_coo(at[1], at[0], self._own(), (n, m)).T
        return from_coo(at[0], at[1], self._own(), (m, n))

    # ----------------------------------------------------------------------------------- axes

    def transpose(self, axes: Sequence[int] | None = None) -> CooArray:
        """Return the array with its axes in another order, by default the reverse one.  Moves nothing."""
        order = tuple(range(self.ndim))[::-1] if axes is None else _axes_of(axes, self.ndim, "transpose")
        if len(order) != self.ndim:
            raise ArrayError(f"transpose: axes {axes} of an array of shape {self.shape}")
        return CooArray(self._places, self._entries, [self._axes[axis] for axis in order])

    def reshape(self, *shape: Int | Sequence[Int]) -> CooArray:
        """Return the entries in another shape, in C order; one length may be -1.

        Moves nothing; after a transpose, collective: the cost of `from_coo`.
        """
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        lengths = [int(each) for each in given]  # type: ignore[arg-type]
        size, rest = prod(self.shape), prod(each for each in lengths if each != -1)
        if lengths.count(-1) == 1 and rest:
            lengths[lengths.index(-1)] = size // rest
        if not lengths or min(lengths) < 0 or prod(lengths) != size:
            raise ArrayError(f"reshape: an array of shape {self.shape} as {given}")
        world().note_given(lengths)
        own = self if self._axes == tuple(range(self.ndim)) else self._in_order()
        return CooArray(own._places.reshaped(checked_shape(lengths, "reshape")), own._entries)

    def _in_order(self) -> CooArray:
        """Return the array with places in the order of its own axes.  Collective."""
        return of_entries(world(), self.shape, PlacedEntries(raveled(self.coords, self.shape), self._own()))

    # ----------------------------------------------------------------------------- arithmetic

    def _at_entries(self, x: Array) -> Array:
        self._check_fit(x)
        first = self.ndim - x.ndim
        kept = [axis for axis in range(first, self.ndim) if x.shape[axis - first] != 1]
        bare = x.reshape([x.shape[axis - first] for axis in kept])
        if not kept:
            return bare
        return self._along(tuple(kept), bare)

    def _along(self, axes: tuple[int, ...], x: Array) -> Array:
        order = np.argsort([self._axes[axis] for axis in axes]).tolist()  # that of the places
        wide = x.shape[len(axes)] if x.ndim > len(axes) else None
        turned = x.transpose([*order, *range(len(axes), x.ndim)])
        flat = turned.reshape([prod(turned.shape[: len(axes)]), *turned.shape[len(axes) :]])
        pattern = self._places.pattern(tuple(self._axes[axes[k]] for k in order))
        return wrap(do.applied(do.AT_COLUMNS, pattern, [flat._node], x.dtype, wide))

    def _has_places_of(self, other: SparseBase) -> bool:
        if not isinstance(other, CooArray) or self._axes != other._axes:
            return False
        mine, theirs = self._places, other._places
        return (mine.shape, mine.entries, mine.name) == (theirs.shape, theirs.entries, theirs.name)

    def _over(self, axes: tuple[int, ...], ufunc: np.ufunc, empty: Any, entries: Array) -> Array:
        stored = [self._axes[axis] for axis in range(self.ndim) if axis not in axes]
        kept = tuple(sorted(stored))
        work = do.combining(ufunc, empty, "columns")
        wide = entries.shape[1] if entries.ndim == 2 else None  # one more axis of the result
        flat = wrap(do.applied(work, self._places.pattern(kept), [entries._node], entries.dtype, wide))
        found = flat.reshape([*[self._places.shape[axis] for axis in kept], *entries.shape[1:]])
        return found.transpose([*[kept.index(axis) for axis in stored], *range(len(kept), found.ndim)])

    def _with_sparse(self, other: SparseBase | ScipyMatrix, call: Callable[[Any, Any], Any], sign: str) -> CooArray:
        second = as_coo(other)
        if self.shape != second.shape:
            raise ArrayError(f"sparse {sign} sparse: shapes {self.shape} and {second.shape} are not the same")
        base = self if self.nnz >= second.nnz else second  # which stays where it is
        places, here = base._places, world()
        whole = (1, max(prod(places.shape), 1))

        def row(own: PlacedEntries) -> Any:
            ends = np.array([0, len(own.positions)])
            return scipy.sparse.csr_array((own.values, own.positions, ends), shape=whole, copy=False)

        found = call(row(self._beside(here, base)), row(second._beside(here, base))).tocsr()
        found.sort_indices()
        entries = PlacedEntries(found.indices.astype(np.int64, copy=False), found.data)
        return CooArray(*_unwrapped(placed(here, places.shape, entries)), base._axes)

    def _beside(self, here: World, base: CooArray) -> PlacedEntries:
        """Return the entries of an array that are in this process's range of another one.  Collective, S = 1 or 0."""
        mine, places = self._places, base._places
        if self._axes == base._axes and mine.bounds == places.bounds:
            return PlacedEntries(mine.positions, self._own())
        order = np.argsort(base._axes)  # of the array's axes, those of the other one's places
        at = raveled([self.coords[axis] for axis in order], places.shape)
        entries = PlacedEntries(at, self._own())
        if here.nprocs > 1:
            entries = entries.moved(here, places.owners(at))
        return entries.summed()

    def tensordot(
        self, other: SparseBase | ScipyMatrix | ArrayLike,
        axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2, *, add: np.ufunc = np.add,
        multiply: Callable[..., Any] = np.multiply, zero: Scalar | None = None,
    ) -> Any:  # fmt: skip
        """Return the sum of products along pairs of axes, as numpy.tensordot, in any semiring.  Collective.

        axes : how many of the last axes of the array, and first ones of the other; or the axes of each.
        add, multiply, zero : of the semiring, as in `bsp.arrays.sparse.matmul`.
        With a dense array the result is dense and lazy, else a CooArray, or a number without axes.
        Memory: besides the entries a word for each position along the axes that are paired, or those that are not,
        whichever are more, on all processes together.
        """
        sparse = isinstance(other, SparseBase) or scipy.sparse.issparse(other)
        second: Any = as_coo(other) if sparse else asarray(other)  # type: ignore[arg-type]
        mine, theirs = _pairs(axes, self.ndim, second.ndim)
        if [self.shape[axis] for axis in mine] != [second.shape[axis] for axis in theirs]:
            raise ArrayError(f"tensordot: axes {mine} and {theirs} of shapes {self.shape} and {second.shape} differ")
        left = [axis for axis in range(self.ndim) if axis not in mine]
        right = [axis for axis in range(second.ndim) if axis not in theirs]
        shape = (*[self.shape[axis] for axis in left], *[second.shape[axis] for axis in right])
        matrix = self._matrix(left, mine)
        if not sparse:
            turned = second.transpose([*theirs, *right]).reshape(
                matrix.shape[1], prod(second.shape[axis] for axis in right)
            )
            return matrix.dot(turned, add=add, multiply=multiply, zero=zero).reshape(shape)
        product = matrix.dot(second._matrix(theirs, right), add=add, multiply=multiply, zero=zero)
        if shape:
            return product.tocoo().reshape(shape)
        return product.entries[0] if product.nnz else asarray(Semiring(add, multiply, zero).zero_of(product.dtype))

    def __matmul__(self, other: Any) -> Any:
        """Return the products of the last axis with the first one of a vector or matrix: see `tensordot`."""
        second = other if isinstance(other, SparseBase) or scipy.sparse.issparse(other) else asarray(other)
        if second.ndim not in (1, 2) or second.shape[0] != self.shape[-1]:
            raise ArrayError(f"@: shapes {self.shape} and {second.shape} do not fit")
        return self.tensordot(second, 1)

    def __rmatmul__(self, other: Any) -> Any:
        first = other if scipy.sparse.issparse(other) else asarray(other)
        if self.ndim > 2 or first.ndim not in (1, 2) or first.shape[-1] != self.shape[0]:
            raise ArrayError(f"@: shapes {first.shape} and {self.shape} do not fit; tensordot takes any axes")
        return (self.T @ first.T).T

    # ------------------------------------------------------------------------------- indexing

    def __getitem__(self, key: Index) -> Any:
        """Return a part, as NumPy does; a number where all indices are integers.  Collective.

        key : integers, slices, `...`, None, and for one axis a mask or positions, which every process has; the axis of
            these comes first, as in NumPy, if anything but integers is between them and an integer.
        Entries stay where they are, but after negative steps and positions that do not ascend, or if a process would
        have more than twice an even share.
        """
        parts, added, leads = _parts_of(key, self.shape)
        for part in parts:
            world().note_given([part.start, part.stop, part.step] if isinstance(part, range) else [part])
        world().note_given(added)
        places = self._places
        kept = np.ones(len(places.positions), bool)
        at: dict[int, np.ndarray] = {}  # by axis of the places: where entries are in the part
        listed: tuple[int, np.ndarray] | None = None
        for axis, part in zip(self._axes, parts, strict=True):
            own = places.coordinates[axis]
            if isinstance(part, int):
                kept &= own == part
            elif isinstance(part, range):
                at[axis], rest = np.divmod(own - part.start, part.step)
                kept &= (rest == 0) & (at[axis] >= 0) & (at[axis] < len(part))
            else:
                listed = axis, part
        taken = np.flatnonzero(kept)
        if listed is not None:
            axis, part = listed
            taken, at[axis] = _listed(places.coordinates[axis], taken, part)
        here, values = world(), self._own()[taken]
        if not at and not added:
            found = [each for (each,) in here.told(list(values)) if each]
            return found[0][0] if found else self.dtype.type(0)
        left = sorted(at)  # axes of the places
        lengths = {axis: len(part) for axis, part in zip(self._axes, parts, strict=True) if not isinstance(part, int)}
        shape = (*[lengths[axis] for axis in left], *[1] * len(added))
        nothing = np.zeros(len(values), np.int64)  # no axis may be left
        inside = {axis: each if listed is not None and axis == listed[0] else each[taken] for axis, each in at.items()}
        own = raveled([nothing, *[inside[axis] for axis in left]], (1, *shape[: len(left)]))
        order = [left.index(axis) for axis in self._axes if axis in at]
        for number, axis in enumerate(added):
            order.insert(axis, len(left) + number)
        if leads and listed is not None:
            first = left.index(listed[0])
            order.remove(first)
            order.insert(0, first)
        ascends = all(
            part.step > 0 or len(part) < 2 if isinstance(part, range)  # no word for each position of an axis
            else isinstance(part, int) or (np.diff(part) > 0).all()
            for part in parts
        )  # fmt: skip
        return CooArray(*_unwrapped((placed if ascends else dealt)(here, shape, PlacedEntries(own, values))), order)


def _listed(own: np.ndarray, taken: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which entries are at listed positions, and at which places of the list; once for each place.

    own : the entries' positions.  taken : numbers of the entries that take part.
    """
    order = np.argsort(positions, kind="stable")
    low, high = (np.searchsorted(positions[order], own[taken], side) for side in ("left", "right"))
    counts = high - low
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(taken, counts), order[np.repeat(low, counts) + within]


def _unwrapped(found: tuple[Places, Array]) -> tuple[Places, Node]:
    return found[0], found[1]._node


def of_entries(here: World, shape: Shape, entries: PlacedEntries) -> CooArray:
    """Return the array of all processes' entries, in any order; duplicates are summed.  Collective."""
    return CooArray(*_unwrapped(dealt(here, shape, entries)))


def from_coordinates(
    coords: Sequence[ArrayLike], values: ArrayLike, shape: Sequence[int] | None = None
) -> CooArray:  # fmt: skip
    """Return the array of the entries of all processes, one vector of coordinates for each axis: see `from_coo`."""
    here = world()
    vectors = [given_values(each, "from_coo").reshape(-1) for each in coords]
    given = given_values(values, "from_coo")
    own = given.reshape(-1) if given.ndim or not vectors else np.broadcast_to(given, vectors[0].shape)
    most = here.private.allgather([length_for(each) for each in vectors])

    def checked() -> tuple[Shape, PlacedEntries]:
        if len(set(map(len, most))) > 1 or (shape is not None and len(shape) != len(vectors)):
            told = ", ".join(map(str, sorted(set(map(len, most)))))
            raise ArrayError(f"from_coo: {told} vectors of coordinates for a shape of {len(shape or vectors)} axes")
        lengths = checked_shape([max(each) for each in zip(*most, strict=True)] if shape is None else shape, "from_coo")
        here.note_given(lengths)
        check_dtype(own.dtype, "from_coo")
        if {len(each) for each in vectors} != {len(own)}:
            raise ArrayError(f"from_coo: vectors of {', '.join(str(len(each)) for each in vectors)} coordinates, "
                             f"{len(own)} values")  # fmt: skip
        at = [checked_indices(each, lengths[k], f"from_coo: axis {k}").astype(np.int64)
              for k, each in enumerate(vectors)]  # fmt: skip
        return lengths, PlacedEntries(raveled(at, lengths), own)

    return of_entries(here, *here.together("from_coo", checked))


def as_coo(a: SparseBase | ScipyMatrix | ArrayLike) -> CooArray:
    """Return a sparse array by coordinates: one of this package, one of scipy or a dense one that all processes have.

    Collective, S = 1; a `SparseArray` stays where it is, if its rows deal the entries evenly.
    """
    if isinstance(a, CooArray):
        return a
    here = world()
    if isinstance(a, SparseArray):
        stored = a.T if a._flipped else a
        rows, columns, values = stored.triples()
        shape = checked_shape(stored.shape, "as_coo")
        found = CooArray(*_unwrapped(placed(here, shape, PlacedEntries(raveled((rows, columns), shape), values))))
        return found.T if a._flipped else found
    given: Any = a if scipy.sparse.issparse(a) else np.asarray(a)
    check_dtype(given.dtype, "as_coo")
    whole = scipy.sparse.coo_array(given)
    shape = checked_shape(whole.shape, "as_coo")
    every = PlacedEntries(raveled([each.astype(np.int64) for each in whole.coords], shape), whole.data).summed()
    limits = even(len(every.positions), here.nprocs)
    own = slice(limits[here.pid], limits[here.pid + 1])
    return CooArray(*_unwrapped(placed(here, shape, PlacedEntries(every.positions[own], every.values[own]))))


# ------------------------------------------------------------------------------------ arguments


def _axes_of(axes: int | Sequence[int], ndim: int, call: str) -> tuple[int, ...]:
    """Return axes counted from the start, in their order; ArrayError if they are out of range or named twice."""
    given = [int(each) for each in ([axes] if isinstance(axes, (int, np.integer)) else axes)]
    try:
        normal_axes(tuple(given), ndim)
    except ValueError as error:  # also NumPy's AxisError
        raise ArrayError(f"{call}: axes {tuple(given)} of an array of {ndim} axes: {error}") from None
    return tuple(each % ndim for each in given)


def _pairs(axes: Any, mine: int, theirs: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that tensordot pairs, of both arrays."""
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(mine, theirs):
            raise ArrayError(f"tensordot: {axes} axes of arrays of {mine} and {theirs}")
        return tuple(range(mine - int(axes), mine)), tuple(range(int(axes)))
    first, second = axes
    found = _axes_of(first, mine, "tensordot"), _axes_of(second, theirs, "tensordot")
    if len(found[0]) != len(found[1]):
        raise ArrayError(f"tensordot: {len(found[0])} axes of one array and {len(found[1])} of the other")
    return found


def _is_vector(key: Any) -> bool:
    return bool(getattr(key, "ndim", 0))


def _parts_of(key: Any, shape: Shape) -> tuple[list[_Part], list[int], bool]:
    """Return the part of each axis that a key takes, where the result has new axes, and whether listed positions lead.

    NumPy counts integers beside listed positions as listed too; the listed axis leads if they are not side by side.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    listed = [k for k, each in enumerate(keys) if not (each is None or each is Ellipsis or isinstance(each, slice))]
    leads = bool(listed) and listed[-1] - listed[0] + 1 != len(listed)  # also if `...` between them stands for no axis
    count = sum(each is not None and each is not Ellipsis for each in keys)
    if count > len(shape):
        raise IndexError(f"{count} indices for an array of {len(shape)} axes")
    if sum(each is Ellipsis for each in keys) > 1:
        raise IndexError("an index has one ... at most")
    rest = [slice(None)] * (len(shape) - count)
    places = [k for k, each in enumerate(keys) if each is Ellipsis] or [len(keys)]
    keys[places[0] : places[0] + 1] = rest
    parts: list[_Part] = []
    added: list[int] = []
    for each in keys:
        if each is None:
            added.append(len(added) + sum(not isinstance(part, int) for part in parts))
            continue
        axis = len(parts)
        length = shape[axis]
        if isinstance(each, slice):
            parts.append(range(length)[each])
        elif isinstance(each, SupportsIndex) and not isinstance(each, (bool, np.bool_)) and not _is_vector(each):
            at = each.__index__()
            if not -length <= at < length:
                raise IndexError(f"index {at} is out of bounds for axis {axis} of length {length}")
            parts.append(at % length)
        else:
            parts.append(positions_of(each, length, f"index of axis {axis}"))
    if sum(isinstance(part, np.ndarray) for part in parts) > 1:
        raise ArrayError("positions or masks of two axes, which NumPy would pair: take them one after the other")
    return parts, added, leads
