"""An array without values: its shape and dtype, and the shape and dtype of every result that NumPy would compute.

Rule 1: shape, dtype and errors are NumPy's own for the same call on real data.
Rule 2: a call that needs a value raises ValueNeeded, with the program's line; nothing is ever guessed.
Rule 3: a result whose size depends on values (a mask, unique, nonzero) has the largest possible size, and is marked.
Rule 4: every operation counts its work, and an array that owns memory is charged for it until it is gone.

An array here is no ndarray: NumPy passes its function calls on to __array_ufunc__ and __array_function__, which
look up the function's rule in the table.  Views share the memory block of the array they view; a scalar has none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from bsp.abstract.errors import KEEP, REAL, ROUNDS, value_needed
from bsp.abstract.index import SelectedElements, basic, select, stored
from bsp.abstract.probe import DType, Key, Shape, broadcast, checked_shape, probe
from bsp.abstract.table import TABLE, not_counted
from bsp.abstract.work import Block, counter

SCALAR, UPPER_BOUND, NOT_C, FORTRAN = 1, 2, 4, 8  # traits of an array: bits of `_traits`

_new = object.__new__
_EXTERNAL = "give the program what it reads this for another way"


def _method(function: Any) -> Callable[..., Any]:
    """Return the method with the name and arguments of a function of NumPy."""

    def method(self: AbstractArray, *args: Any, **kwargs: Any) -> Any:
        return TABLE[function](self, *args, **kwargs)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = f"numpy.{function.__name__}(self, ...)"
    return method


def _refusal(name: str, advice: str = KEEP) -> Callable[..., Any]:
    """Return a method that raises ValueNeeded, because it would need the values."""

    def method(self: AbstractArray, *args: Any, **kwargs: Any) -> NoReturn:
        raise value_needed(f"{name}()", self, advice)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "Raises ValueNeeded."
    return method


def _operator(name: str, ufunc: np.ufunc, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """Return an operator of the mixin, with a shortcut for Python numbers and abstract arrays on the other side."""
    general = getattr(NDArrayOperatorsMixin, name)

    def operate(self: AbstractArray, other: Any) -> Any:
        kind = type(other)
        if kind is AbstractArray or kind is float or kind is int:
            return TABLE["call"](ufunc, (other, self) if reflected else (self, other))
        return general(self, other)

    operate.__name__ = operate.__qualname__ = name
    return operate


class AbstractArray(NDArrayOperatorsMixin):
    """The shape and dtype of an array, or of a NumPy scalar (`is_scalar`), without values.

    `upper_bound` : the size depends on values, and this is the largest it can be.
    """

    is_abstract_array = True  # by this the runtime recognises one without importing this package
    __slots__ = ("__weakref__", "_block", "_dtype", "_key", "_shape", "_traits")
    __array_priority__ = 1000.0

    _shape: Shape
    _dtype: DType
    _key: Key  # for promotion: the dtype, or float where NumPy would give a Python float
    _traits: int
    _block: Block | None

    def __init__(self, shape: int | Shape = (), dtype: Any = float) -> None:
        self._shape = checked_shape(shape)
        self._dtype = self._key = np.dtype(dtype)
        if self._dtype.hasobject:
            raise TypeError("an abstract array holds numbers, not Python objects")
        self._traits = 0
        self._block = Block(prod(self._shape) * self._dtype.itemsize)

    # ------------------------------------------------------------------------ what an array is

    @property
    def shape(self) -> Shape:
        """The lengths of the axes; assigning reshapes in place."""
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._shape = probe(self._shape, self._dtype).reshape(shape).shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self._shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes that the values would have."""
        return prod(self._shape) * self._dtype.itemsize

    @property
    def is_scalar(self) -> bool:
        """True if NumPy would return a scalar here, not an array of dimension 0."""
        return bool(self._traits & SCALAR)

    @property
    def upper_bound(self) -> bool:
        """True if the size depends on values, so that it is the largest possible one."""
        return bool(self._traits & UPPER_BOUND)

    @property
    def example(self) -> Any:
        """A number of the type that a scalar has in a real run."""
        if isinstance(self._key, type):
            return self._key()
        return np.ndarray((), self._dtype, bytes(self._dtype.itemsize))[()]

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of a C-contiguous array of this shape, whatever the array is a view of."""
        steps, step = [], self._dtype.itemsize
        for length in reversed(self._shape):
            steps.append(step)
            step *= max(length, 1)
        return tuple(reversed(steps))

    @property
    def flags(self) -> Flags:
        """The flags: contiguity as far as it is tracked; always aligned; writeable unless a scalar."""
        return Flags(self)

    @property
    def base(self) -> None:
        """Always None: a view keeps its base's memory block, not the base."""
        return None

    # ------------------------------------------------------------------------------- NumPy's way in

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            return TABLE["call"](ufunc, inputs)
        return TABLE["ufunc"](ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for kind in types:
            if kind is not AbstractArray and not issubclass(kind, (np.ndarray, AbstractArray)):
                return NotImplemented
        entry = TABLE.get(function) or TABLE["own"](function)
        if entry is None:
            raise not_counted(function)
        if any(value is np._NoValue for value in kwargs.values()):  # NumPy's own code passes them on
            kwargs = {name: value for name, value in kwargs.items() if value is not np._NoValue}
        return entry(*args, **kwargs)

    def __array_wrap__(self, made: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return made[()] if return_scalar and not made.ndim else made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise value_needed("a real NumPy array", self, REAL)

    # ---------------------------------------------------------------------------- indexing

    def __getitem__(self, key: Any) -> Any:
        found = basic(self._shape, self._dtype, key)
        if found is not None:
            if type(found) is np.ndarray:
                return viewing(self, found.shape, found.dtype, _row_traits(self, key))
            return scalar(found.dtype)
        picked = select(self._shape, self._dtype, key)
        if picked.is_view:
            return viewing(self, picked.shape, picked.dtype, self._traits & UPPER_BOUND | NOT_C)
        return TABLE["gathered"](picked)

    def __setitem__(self, key: Any, values: Any) -> None:
        """Store nothing: check that the values would fit, and count the bytes."""
        if self._traits & SCALAR:
            raise TypeError(
                f"'{self._dtype.type.__module__}.{self._dtype.type.__name__}' object does not support item assignment"
            )
        if type(values) is AbstractArray:
            shape, nbytes = values._shape, prod(values._shape) * values._dtype.itemsize
        elif type(values) in (float, int):
            shape, nbytes = (), 8
        else:
            given = TABLE["operand"](values)
            shape, nbytes = given.shape, given.nbytes
        counter.moved(stored(self._shape, self._dtype, key, shape) + nbytes)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError(
                f"object of type 'numpy.{self._dtype.type.__name__}' has no len()"
                if self._traits & SCALAR
                else "len() of unsized object"
            )
        return self._shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(self._shape[0]))

    # ------------------------------------------------------------------ what needs the values

    def __bool__(self) -> bool:
        size = prod(self._shape)
        if size > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        if size == 0:
            raise ValueError(
                "The truth value of an empty array is ambiguous. "
                "Use `array.size > 0` to check that an array is not empty."
            )
        usual = TABLE["usual"](sys._getframe(1))
        if usual is None:
            raise value_needed("a branch", self, ROUNDS)
        return bool(usual)

    def _number(self, asked: str, advice: str = KEEP) -> NoReturn:
        """Raise the error of a conversion to a Python number."""
        if prod(self._shape) != 1:
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        raise value_needed(asked, self, advice)

    def __int__(self) -> int:
        self._number("int()")

    def __float__(self) -> float:
        self._number("float()")

    def __complex__(self) -> complex:
        self._number("complex()")

    def __index__(self) -> int:
        if self._dtype.kind not in "iu" or self._shape:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        raise value_needed("an index, a length or a count", self, "compute it from shapes and pids instead")

    def __contains__(self, value: object) -> bool:
        raise value_needed("'in'", self, ROUNDS)

    def __hash__(self) -> int:
        """Raise: the hash of a scalar, as a dict's key or a set's entry, needs its value; NumPy's arrays have none."""
        if self._traits & SCALAR:
            raise value_needed("a hash", self, "compute it from shapes and pids instead")
        raise TypeError("unhashable type: 'numpy.ndarray'")

    item = _refusal("item")
    tolist = _refusal("tolist")
    tobytes = _refusal("tobytes", _EXTERNAL)
    tofile = _refusal("tofile", _EXTERNAL)
    dump = _refusal("dump", _EXTERNAL)
    dumps = _refusal("dumps", _EXTERNAL)

    # --------------------------------------------------------------------------------- text

    def __repr__(self) -> str:
        most = "<=" if self._traits & UPPER_BOUND else ""
        lengths = ", ".join(map(str, self._shape))
        return f"<{self._dtype}[{most}{lengths}]>" if self._shape else f"<{self._dtype}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Return the placeholder, such as <float64[3, 4]>, for any format, because there is no number to format."""
        return repr(self)

    # ------------------------------------------------------------------------ methods by name

    all = _method(np.all)
    any = _method(np.any)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    argpartition = _method(np.argpartition)
    argsort = _method(np.argsort)
    clip = _method(np.clip)
    cumprod = _method(np.cumprod)
    cumsum = _method(np.cumsum)
    diagonal = _method(np.diagonal)
    dot = _method(np.dot)
    max = _method(np.max)
    mean = _method(np.mean)
    min = _method(np.min)
    nonzero = _method(np.nonzero)
    prod = _method(np.prod)
    put = _method(np.put)
    ravel = _method(np.ravel)
    repeat = _method(np.repeat)
    round = _method(np.round)
    searchsorted = _method(np.searchsorted)
    squeeze = _method(np.squeeze)
    std = _method(np.std)
    sum = _method(np.sum)
    swapaxes = _method(np.swapaxes)
    take = _method(np.take)
    var = _method(np.var)

    @property
    def T(self) -> Any:
        """The transpose, a view."""
        if self._traits & SCALAR:
            return self
        if len(self._shape) < 2:
            return viewing(self, self._shape, self._dtype, self._traits)
        return viewing(self, self._shape[::-1], self._dtype, _transposed(self._traits))

    @property
    def mT(self) -> Any:
        """The last two axes swapped, a view."""
        return self.swapaxes(-1, -2) if len(self._shape) > 1 else probe(self._shape, self._dtype).mT

    @property
    def flat(self) -> Any:
        """All elements in C order, as a vector."""
        return viewing(self, (prod(self._shape),), self._dtype, self._traits & UPPER_BOUND)

    @flat.setter
    def flat(self, values: Any) -> None:
        self[...] = TABLE["operand"](values) if np.ndim(values) == 0 else scalar(self._dtype)

    @property
    def real(self) -> Any:
        """A view of the real parts."""
        return self._part()

    @real.setter
    def real(self, values: Any) -> None:
        self._part()[...] = values

    @property
    def imag(self) -> Any:
        """A view of the imaginary parts."""
        return self._part()

    @imag.setter
    def imag(self, values: Any) -> None:
        if self._dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        self._part()[...] = values

    def _part(self) -> AbstractArray:
        """Return a view of the real or the imaginary parts."""
        part = np.dtype(f"f{self._dtype.itemsize // 2}") if self._dtype.kind == "c" else self._dtype
        if self._traits & SCALAR:
            return scalar(part)
        return viewing(self, self._shape, part, self._traits | (NOT_C if self._dtype.kind == "c" else 0))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """Return the array in another shape: a view of a contiguous array, else a copy."""
        return TABLE[np.reshape](self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy)

    def transpose(self, *axes: Any) -> Any:
        """Return a view with the axes in another order."""
        chosen = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self.T if chosen is None else TABLE[np.transpose](self, chosen)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum over a diagonal."""
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype, out)

    def flatten(self, order: str = "C") -> Any:
        """Return a copy as a vector."""
        return copied(self, (prod(self._shape),))

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Return a copy in another dtype."""
        new = np.dtype(dtype)
        if not np.can_cast(self._dtype, new, casting):
            raise TypeError(f"Cannot cast array data from {self._dtype!r} to {new!r} according to the rule {casting!r}")
        if new == self._dtype and not copy:
            return self
        return scalar(new) if self._traits & SCALAR else copied(self, self._shape, new)

    def copy(self, order: str = "C") -> Any:
        """Return a copy."""
        return scalar(self._dtype) if self._traits & SCALAR else copied(self, self._shape)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """Return a view of the same memory in another dtype."""
        if dtype is None or dtype is np.ndarray:
            return viewing(self, self._shape, self._dtype, self._traits)
        new, size = np.dtype(dtype), self._dtype.itemsize
        shape = self._shape
        if new.itemsize != size:
            if not shape:
                raise ValueError("Changing the dtype of a 0d array is only supported if the itemsize is unchanged")
            nbytes = shape[-1] * size
            if nbytes % new.itemsize:
                raise ValueError(
                    "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the "
                    "last axis of the array."
                )
            shape = (*shape[:-1], nbytes // new.itemsize)
        if self._traits & SCALAR:
            return scalar(new)
        return viewing(self, shape, new, self._traits)

    def fill(self, value: Any) -> None:
        """Count the bytes that a fill writes."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        """Count the comparisons of a sort in place."""
        TABLE["sort in place"](self, axis)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Count the visits of a partition in place: a few to every element."""
        TABLE[np.partition](self, kth, axis)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """Return numpy.compress(condition, self, ...)."""
        return TABLE[np.compress](condition, self, axis, out)

    def conjugate(self, *args: Any, **kwargs: Any) -> Any:
        """Return the complex conjugate; a real array itself."""
        return np.conjugate(self, *args, **kwargs) if self._dtype.kind == "c" or args or kwargs else self

    conj = conjugate

    def byteswap(self, inplace: bool = False) -> Any:
        """Return a copy, or the array itself with `inplace`."""
        return self if inplace else copied(self, self._shape)

    def __copy__(self) -> Any:
        return copied(self, self._shape)

    def __deepcopy__(self, memo: Any) -> Any:
        return copied(self, self._shape)

    def __round__(self, ndigits: int | None = None) -> Any:
        if not self._traits & SCALAR:
            raise TypeError("type numpy.ndarray doesn't define __round__ method")
        return scalar(np.dtype(int)) if ndigits is None else self.round(ndigits)

    __add__, __radd__ = _operator("__add__", np.add), _operator("__radd__", np.add, True)
    __sub__, __rsub__ = _operator("__sub__", np.subtract), _operator("__rsub__", np.subtract, True)
    __mul__, __rmul__ = _operator("__mul__", np.multiply), _operator("__rmul__", np.multiply, True)
    __truediv__ = _operator("__truediv__", np.true_divide)
    __rtruediv__ = _operator("__rtruediv__", np.true_divide, True)
    __matmul__ = _operator("__matmul__", np.matmul)
    __lt__, __le__ = _operator("__lt__", np.less), _operator("__le__", np.less_equal)
    __gt__, __ge__ = _operator("__gt__", np.greater), _operator("__ge__", np.greater_equal)

    def __pow__(self, other: Any) -> Any:
        """Count `x ** 2` as one product an element and `x ** 0.5` as one root, because NumPy computes them so."""
        if type(other) in (int, float):
            if other == 2 and self._dtype.kind in ("biufc" if type(other) is int else "fc"):
                return np.square(self)
            if other == 0.5 and self._dtype.kind in "fc":
                return np.sqrt(self)
        return super().__pow__(other)

    def __ipow__(self, other: Any) -> Any:
        if type(other) is int and other == 2 and self._dtype.kind in "iufc" and not self._traits & SCALAR:
            return np.square(self, out=self)  # type: ignore[call-overload]
        return super().__ipow__(other)

    def __reduce__(self) -> Any:
        return _unpickled, (self._shape, self._dtype, self._traits)


class Flags:
    """The flags of an abstract array."""

    __slots__ = ("_traits", "_vector")

    def __init__(self, of: AbstractArray) -> None:
        self._traits = of._traits
        self._vector = len(of._shape) < 2

    c_contiguous = property(lambda self: not self._traits & NOT_C)
    f_contiguous = property(lambda self: bool(self._traits & FORTRAN) or (self._vector and not self._traits & NOT_C))
    fnc = property(lambda self: self.f_contiguous and not self.c_contiguous)
    contiguous = c_contiguous
    aligned = property(lambda self: True)
    writeable = property(lambda self: not self._traits & SCALAR)

    def __getitem__(self, name: str) -> bool:
        return bool(getattr(self, name.lower()))


# ---------------------------------------------------------------------------------- making arrays
# These bypass __init__, whose checks a run of a thousand processes would repeat millions of times.


def owned(shape: Shape, dtype: DType, traits: int = 0) -> AbstractArray:
    """Return a new array with memory of its own."""
    array: AbstractArray = _new(AbstractArray)
    array._shape = shape
    array._dtype = array._key = dtype
    array._traits = traits
    array._block = Block(prod(shape) * dtype.itemsize)
    return array


def scalar(dtype: DType, key: Key | None = None) -> AbstractArray:
    """Return a NumPy scalar; key: float, int or complex where NumPy returns a Python number."""
    array: AbstractArray = _new(AbstractArray)
    array._shape = ()
    array._dtype = dtype
    array._key = dtype if key is None else key
    array._traits = SCALAR
    array._block = None
    return array


def result(shape: Shape, dtype: DType) -> AbstractArray:
    """Return the result of a computation: a new array, or a scalar if the shape is ()."""
    return owned(shape, dtype) if shape else scalar(dtype)


def viewing(of: AbstractArray, shape: Shape, dtype: DType, traits: int) -> AbstractArray:
    """Return an array in the memory of another."""
    array: AbstractArray = _new(AbstractArray)
    array._shape = shape
    array._dtype = array._key = dtype
    array._traits = traits & ~SCALAR
    array._block = of._block
    return array


def copied(of: Any, shape: Shape, dtype: DType | None = None) -> AbstractArray:
    """Return a copy of an array, real or abstract, and count the bytes read and written."""
    new = owned(shape, dtype or of.dtype, traits_of(of) & UPPER_BOUND)
    counter.moved(of.nbytes + new.nbytes)
    return new


def gathered(picked: SelectedElements) -> AbstractArray:
    """Return the copy that an index with arrays selects, and count its bytes."""
    if picked.upper_bound:
        counter.upper_bound = True
    new = owned(picked.shape, picked.dtype, UPPER_BOUND) if picked.upper_bound else result(picked.shape, picked.dtype)
    counter.moved(2 * new.nbytes)
    return new


TABLE["gathered"] = gathered


def at_most(shape: Shape, dtype: DType) -> AbstractArray:
    """Return an array of the largest shape it can have, because its size depends on values."""
    counter.upper_bound = True
    return owned(shape, dtype, UPPER_BOUND)


def traits_of(array: Any) -> int:
    """Return the traits of an abstract array; 0 for a real one."""
    return array._traits if type(array) is AbstractArray else 0


def into(out: Any, shape: Shape, dtype: DType) -> Any:
    """Return the result of a function with `out=`: that array, if the result fits it; without one, a new result."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return result(shape, dtype)
    if type(out) is not AbstractArray:
        raise value_needed("a result in a real NumPy array", result(shape, dtype), REAL)
    if out._shape != shape and broadcast(out._shape, shape) != out._shape:
        raise ValueError(f"output array of shape {out._shape} does not fit a result of shape {shape}")
    if not np.can_cast(dtype, out._dtype, "same_kind"):
        raise TypeError(f"Cannot cast array data from {dtype!r} to {out._dtype!r} according to the rule 'same_kind'")
    return out


def _transposed(traits: int) -> int:
    """Return the traits of a transposed array."""
    kept = traits & UPPER_BOUND
    if not traits & NOT_C:
        return kept | NOT_C | FORTRAN
    return kept if traits & FORTRAN else kept | NOT_C


def _row_traits(of: AbstractArray, key: Any) -> int:
    """Return the traits of a view: C-contiguous if the base is and the view's elements are consecutive in it."""
    kept = of._traits & UPPER_BOUND
    return kept | NOT_C if of._traits & NOT_C or not _in_rows(of._shape, key) else kept


def _in_rows(shape: Shape, key: Any) -> bool:
    """Return whether an index of integers, slices, `...` and None selects elements that are consecutive in C order."""
    parts = [part for part in (key if type(key) is tuple else (key,)) if part is not None]
    if ... not in parts:
        parts.append(...)
    at = parts.index(...)
    parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    taken = [range(1) if type(part) is int else range(n)[part] for n, part in zip(shape, parts, strict=True)]
    if not all(taken):
        return True
    whole = True  # whether everything is taken along all later axes
    for length, positions in zip(reversed(shape), reversed(taken), strict=True):
        if len(positions) > 1 and not (whole and positions.step == 1):
            return False
        whole = whole and len(positions) == length
    return True


def _unpickled(shape: Shape, dtype: DType, traits: int) -> AbstractArray:
    """Return the array of a pickle: a new one, charged to the process that unpickles it."""
    if traits & SCALAR:
        return scalar(dtype)
    return owned(shape, dtype, traits)
