"""Operations of sparse arrays that need no places: those of the entries, sums and extremes, and operators.

`SparseArray` has two axes and products, `CooArray` any number of axes.  Both are a vector of entries, which is an array
like any other, and places of their own kind.  What keeps the places is lazy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

import numpy as np
import scipy.sparse

from bsp.arrays.api.choosing import where
from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.build import reduced_axes
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import DType, Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.planning.plan import Explanation
from bsp.arrays.procedures import computed, made_of
from bsp.arrays.procedures.operands import in_layout
from bsp.arrays.sparse.indices import check_dtype
from bsp.arrays.sparse.pattern import read_only
from bsp.arrays.sparse.semirings import Semiring

if TYPE_CHECKING:
    from bsp.arrays.typing import ArrayLike, Axes, DTypeLike

_KEEP_ZERO = frozenset((
    "absolute", "negative", "positive", "sqrt", "cbrt", "square", "sin", "tan", "arcsin", "arctan", "sinh", "tanh",
    "arcsinh", "arctanh", "expm1", "log1p", "sign", "floor", "ceil", "trunc", "rint", "conjugate", "deg2rad", "rad2deg",
    "isnan", "isinf", "fabs",
))  # fmt: skip
_OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul"}
_COMPARED = {"maximum": np.greater, "minimum": np.less}  # `_COMPARED[name](0, x)`: elements that are 0 stay 0


def _not_compared(sign: str, a: object, b: object) -> TypeError:
    return TypeError(
        f"{sign!r} not supported between instances of {type(a).__name__!r} and {type(b).__name__!r}: "
        "compare a.todense(), or the stored values, a.entries, as a.kept(a.entries > 0.5) does"
    )


class ScipyMatrix(Protocol):
    """A matrix of scipy.sparse, of any format."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed rows."""


class SparseBase:
    """A distributed sparse array, of two axes or any number of them: see `SparseArray` and `CooArray`."""

    __slots__ = ("__weakref__", "_entries")
    __array_priority__ = 1000.0

    def __init__(self, entries: Node) -> None:
        check_dtype(entries.kind.dtype, "sparse array")
        self._entries = entries

    # ------------------------------------------------------------- what depends on the places

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        raise NotImplementedError

    def todense(self) -> Array:
        """Return the dense array.  Lazy."""
        raise NotImplementedError

    def _holding(self, node: Node) -> Self:
        """Return the array with other entries at the same places."""
        raise NotImplementedError

    def tocsr(self) -> Any:
        """Return the array as a `SparseArray`, which has two axes, stored by rows.  Collective."""
        raise NotImplementedError

    @property
    def _dealt(self) -> Layout:
        """The layout of the vector of entries."""
        raise NotImplementedError

    def _coordinates(self) -> tuple[np.ndarray, ...]:
        """Return the coordinates of this process's entries, a vector for each axis."""
        raise NotImplementedError

    def _chosen(self, which: np.ndarray) -> Self:
        """Return the array without those of this process's entries where a mask is False.  Collective."""
        raise NotImplementedError

    def _own(self) -> Any:
        """Return the values of this process's entries.  Collective if they are lazy, or dealt in another way."""
        (node,) = computed(self._entries)
        self._entries = in_layout(node, self._dealt)
        return read_only(self._entries.value[(world().pid if world().nprocs > 1 else 0,)])

    def _at_entries(self, x: Array) -> Array:
        """Return the elements of a dense array, which broadcasts to this shape, at the places of the entries.  Lazy."""
        raise NotImplementedError

    def _along(self, axes: tuple[int, ...], x: Array) -> Array:
        """Return the elements of a dense array at the positions of the entries along some axes.  Lazy.

        x : has the lengths of these axes, in their order, and one more axis at most, which the result has too.
        """
        raise NotImplementedError

    def _has_places_of(self, other: SparseBase) -> bool:
        """Return whether another array has entries at the same places, in the same order."""
        raise NotImplementedError

    @staticmethod
    def __array_comprehension__(text: str, operands: dict[str, Any]) -> Any:
        """Return what a comprehension with sparse operands describes."""
        from bsp.arrays.sparse.comprehended import comprehended

        return comprehended(text, operands)

    def _with_sparse(self, other: SparseBase | ScipyMatrix, call: Callable[[Any, Any], Any], sign: str) -> Any:
        """Return `call`, which is scipy's operation, of this array and another sparse one.  Collective."""
        raise NotImplementedError

    def _over(self, axes: tuple[int, ...], ufunc: np.ufunc, empty: Any, entries: Array) -> Array:
        """Return entries combined by a ufunc along some of the axes; `empty`, its identity, where there are none."""
        raise NotImplementedError

    # --------------------------------------------------------------------------- attributes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._entries.kind.dtype

    @property
    def nnz(self) -> int:
        """The number of stored entries, over all processes; stored zeros count."""
        return self._entries.kind.shape[0]

    @property
    def size(self) -> int:
        """The number of stored entries, as in scipy.sparse."""
        return self.nnz

    @property
    def entries(self) -> Array:
        """The stored values, as a vector: process by process, each in the order of its places."""
        return wrap(self._entries)

    def __len__(self) -> int:
        raise TypeError("sparse array length is ambiguous; use nnz or shape[0]")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        # without it NumPy would compute with an array of one object: np.linalg.norm(a) returned abs(a)
        raise TypeError(
            "np.asarray() of a sparse array would make it dense: use its methods, or a.todense(); "
            "beside a matrix W of scipy's, sparse.from_scipy(W)"
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.array_equal, np.array_equiv):  # they take the error of `__array__` for False
            raise TypeError(f"np.{function.__name__} of a sparse array: equal ones have abs(a - b).max() == 0")
        return function._implementation(*args, **kwargs)

    # --------------------------------------------------------------------------- evaluation

    def persist(self) -> Self:
        """Compute the entries and leave them where they are; return the array itself.  Collective."""
        self.entries.persist()
        return self

    def explain(self) -> Explanation:
        """Return the plan that computes the entries, as text.  Local."""
        return self.entries.explain()

    def with_entries(self, entries: Array) -> Self:
        """Return an array with the same places and other values, one for each of `entries`.  Lazy."""
        node = asarray(entries)._node
        if node.kind.shape != self._entries.kind.shape:
            raise ArrayError(f"with_entries: {node.kind.shape} values for {self._entries.kind.shape} places")
        return self._holding(node)

    def kept(self, which: ArrayLike) -> Self:
        """Return the array without the entries where a mask is False.  Computed at once; collective.

        which : a truth value for each of `entries`: `A.kept(abs(A.entries) > 1e-12)` drops what is small.
        Raises ArrayError for a mask of another shape or type.
        Cost: that of the mask; then nothing moves but counts: at most 6p words, S = 1.
        """
        mask = asarray(which)
        if mask.shape != (self.nnz,) or mask.dtype != bool:
            raise ArrayError(f"kept: a mask of {mask.dtype} and shape {mask.shape} for {self.nnz} entries")
        computed(self._entries, mask._node)
        return self._chosen(self._holding(mask._node)._own())

    def nonzero(self) -> tuple[Array, ...]:
        """Return the coordinates of the entries that are not zero: for each axis a vector, dealt as the entries are.

        Computed at once; collective.
        """
        found = self.kept(self.entries != 0)
        at, own = (world().pid if world().nprocs > 1 else 0,), found._coordinates()
        return tuple(
            made_of((found.nnz,), np.dtype(np.int64), found._dealt, {at: each.astype(np.int64)}) for each in own
        )

    def copy(self) -> Self:
        """Return the array, which nothing can change."""
        return self

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the array with another element type.  Lazy."""
        return self.with_entries(self.entries.astype(dtype))

    # --------------------------------------------------------------------------- arithmetic

    def _mapped(self, call: Callable[[Array], Array]) -> Self:
        return self.with_entries(call(self.entries))

    def __neg__(self) -> Self:
        return self._mapped(lambda entries: -entries)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._mapped(abs)

    def conj(self) -> Self:
        """Return the complex conjugate.  Lazy."""
        if self.dtype.kind != "c":
            return self
        return self._mapped(lambda entries: np.conjugate(entries))  # type: ignore[arg-type,return-value]

    conjugate = conj

    @property
    def real(self) -> Self:
        """The real parts.  Lazy."""
        return self._mapped(lambda entries: entries.real) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Self:
        """The imaginary parts; of real numbers zeros, which are stored.  Lazy."""
        return self._mapped(lambda entries: entries.imag)

    def power(self, n: float) -> Self:
        """Return the array with each entry to a power above 0.  Lazy."""
        if not n > 0:
            raise ArrayError(f"power({n}): zeros to a power that is not positive would fill the array")
        return self._mapped(lambda entries: entries**n)

    def multiply(self, other: SparseBase | ScipyMatrix | ArrayLike) -> Any:
        """Return the product of elements; a dense operand broadcasts.  Lazy with numbers and dense arrays.

        With a sparse array of the same shape it is computed at once.
        """
        if isinstance(other, SparseBase) or scipy.sparse.issparse(other):
            return self._with_sparse(other, lambda a, b: a.multiply(b), "*")  # type: ignore[arg-type]
        x = asarray(other)  # type: ignore[arg-type]
        factors: Any = self._at_entries(x) if x.ndim else other  # a number stays weak
        return self._mapped(lambda entries: entries * factors)

    __mul__ = __rmul__ = multiply
    __pow__ = power  # of elements, as of scipy's sparse arrays

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, SparseBase) or scipy.sparse.issparse(other):
            return NotImplemented
        x = asarray(other)
        return self._mapped(lambda entries: entries / (other if not x.ndim else self._at_entries(x)))

    def __add__(self, other: Any) -> Any:
        return self._sum_with(other, lambda a, b: a + b, "+")

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self._sum_with(other, lambda a, b: a - b, "-")

    def __rsub__(self, other: Any) -> Any:
        found = self._sum_with(other, lambda a, b: b - a, "-")
        return -self if found is self else found  # 0 - self

    def _sum_with(self, other: Any, call: Callable[[Any, Any], Any], sign: str) -> Any:
        if isinstance(other, SparseBase) or scipy.sparse.issparse(other):
            return self._with_sparse(other, call, sign)
        x = asarray(other)
        if not x.ndim and not isinstance(other, Array) and other == 0:
            return self
        if not x.ndim:
            raise ArrayError(f"sparse {sign} a number other than 0 would fill the array: todense() first")
        return call(self.todense(), x)

    def maximum(self, other: SparseBase | ScipyMatrix | float) -> Any:
        """Return the larger of each pair of elements, zeros included.

        other : a sparse array of the same shape, with which it is computed at once, or a number up to 0: lazy.
        """
        return self._larger_or_smaller(np.maximum, other)

    def minimum(self, other: SparseBase | ScipyMatrix | float) -> Any:
        """Return the smaller of each pair of elements, zeros included.

        other : a sparse array of the same shape, with which it is computed at once, or a number from 0 up: lazy.
        """
        return self._larger_or_smaller(np.minimum, other)

    def _larger_or_smaller(self, ufunc: np.ufunc, other: Any) -> Any:
        name = ufunc.__name__
        if isinstance(other, SparseBase) or scipy.sparse.issparse(other):
            return self._with_sparse(other, lambda a, b: getattr(a, name)(b), name)
        if not isinstance(other, (float, int, np.number)) or isinstance(other, np.complexfloating):
            raise ArrayError(f"{name} of a sparse array and {type(other).__name__}: todense() first")
        if other != 0 and not _COMPARED[name](0, other):
            raise ArrayError(f"{name} of a sparse array and {other} would fill it: todense() first")
        return self._mapped(lambda entries: ufunc(entries, other))

    def __eq__(self, other: object) -> bool:
        """Raise TypeError, as other comparisons do: the elements for which it holds may fill the array."""
        raise _not_compared("==", self, other)

    def __ne__(self, other: object) -> bool:
        """Raise TypeError: see `==`."""
        raise _not_compared("!=", self, other)

    def __lt__(self, other: object) -> bool:
        """Raise TypeError: see `==`."""
        raise _not_compared("<", self, other)

    def __le__(self, other: object) -> bool:
        """Raise TypeError: see `==`."""
        raise _not_compared("<=", self, other)

    def __gt__(self, other: object) -> bool:
        """Raise TypeError: see `==`."""
        raise _not_compared(">", self, other)

    def __ge__(self, other: object) -> bool:
        """Raise TypeError: see `==`."""
        raise _not_compared(">=", self, other)

    __hash__ = object.__hash__  # arrays are keys by identity

    def _check_fit(self, x: Array) -> None:
        """Raise ArrayError if a dense operand does not broadcast to this shape."""
        try:
            fits = np.broadcast_shapes(x.shape, self.shape) == self.shape
        except ValueError:
            fits = False
        if not fits:
            raise ArrayError(f"shapes {self.shape} and {x.shape} do not fit")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        if len(inputs) == 1 and ufunc.__name__ in _KEEP_ZERO:
            return self._mapped(lambda entries: ufunc(entries))
        if ufunc.__name__ in _COMPARED:
            own, other = inputs if isinstance(inputs[0], SparseBase) else inputs[::-1]
            return own._larger_or_smaller(ufunc, other)
        name = _OPERATORS.get(ufunc.__name__)
        if name is None:
            raise ArrayError(f"{ufunc.__name__} of a sparse array would fill it or is not known: todense() first")
        first, second = inputs
        if isinstance(first, SparseBase):
            return getattr(first, f"__{name}__")(second)
        return NotImplemented if name == "truediv" else getattr(self, f"__r{name}__")(first)

    # --------------------------------------------------------------------------- reductions

    def _reduced(self, axis: Axes, out: None = None) -> tuple[int, ...]:
        """Return the axes of a reduction, ascending; ArrayError if the array does not have them, or for an `out`."""
        if out is not None:
            raise ArrayError("reductions of sparse arrays take no out=: they return a new array")
        try:
            found = reduced_axes(axis, self.ndim)
        except (ValueError, TypeError) as error:  # NumPy's AxisError is a ValueError
            raise ArrayError(f"axis {axis} of a sparse array of shape {self.shape}: {error}") from None
        if not found:
            raise ArrayError("axis=(): name an axis; None are all")
        return found

    def sum(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """Return the sum of all elements, or along one axis or several (a tuple).  Lazy; the result is dense."""
        axes = self._reduced(axis, out)
        if dtype is not None:
            return self.astype(dtype).sum(axis).astype(dtype)
        if len(axes) == self.ndim:
            return self.entries.sum()
        summed = np.add.reduce(np.zeros(1, self.dtype)).dtype
        return self._over(axes, np.add, summed.type(0), self.entries.astype(summed))

    def mean(self, axis: Axes = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """Return the mean of all elements, zeros included, or along one axis or several.  Lazy; the result is dense."""
        if dtype is None and self.dtype.kind in "biu":
            dtype = np.float64  # sums of integers may not fit
        return self.sum(axis, dtype) / prod(self.shape[each] for each in self._reduced(axis, out))

    def count_nonzero(self, axis: Axes = None) -> Array:
        """Return the number of entries that are not zero: of all, or along one axis or several.  Lazy."""
        return self.with_entries((self.entries != 0).astype(np.int64)).sum(axis)

    def max(self, axis: Axes = None, out: None = None) -> Array:
        """Return the largest element, zeros included: of all, or along one axis or several.  Lazy."""
        return self._extreme(self._reduced(axis, out), np.maximum)

    def min(self, axis: Axes = None, out: None = None) -> Array:
        """Return the smallest element, zeros included: of all, or along one axis or several.  Lazy."""
        return self._extreme(self._reduced(axis, out), np.minimum)

    def _extreme(self, axes: tuple[int, ...], ufunc: np.ufunc) -> Array:
        inside, size = prod(self.shape[each] for each in axes), prod(self.shape)
        if not inside:
            raise ValueError(f"zero-size array of shape {self.shape} to a reduction which has no identity")
        zero = self.dtype.type(0)
        if len(axes) == self.ndim:
            reduce = "max" if ufunc is np.maximum else "min"
            found = getattr(self.entries, reduce)() if self.nnz else asarray(zero)
            return found if self.nnz == size else ufunc(found, zero)
        if self.dtype.kind == "c":  # ordered by real parts, then imaginary ones
            empty = self.dtype.type(complex(-np.inf, -np.inf) if ufunc is np.maximum else complex(np.inf, np.inf))
        else:
            empty = Semiring(ufunc).zero_of(self.dtype)
        found = self._over(axes, ufunc, empty, self.entries)
        ones = (self.entries != 0).astype(np.int64) * 0 + 1  # dealt as the entries are
        return where(self._over(axes, np.add, np.int64(0), ones) == inside, found, ufunc(found, zero))
