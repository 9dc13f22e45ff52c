"""The class `Array`: a distributed array with NumPy's operators and methods.

An array holds a node: the expression that computes its values.  Every process holds an array of its own and runs the
same lines.  Arithmetic is lazy; `compute`, `persist` and everything that needs values are collectives.  `repr` is
local.  Assignment gives the array another node, and its views too (`views`).  Arrays that were computed from it
before the assignment keep their values.

All methods are written in the class.  Those that need packages that import this module import them when called.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from operator import index
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Never, TypeAlias, overload

import numpy as np

from bsp.arrays import build, indexing
from bsp.arrays.errors import GatherRefused
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import KINDS, element_type
from bsp.arrays.expressions.graph import LEAF, PARAM, WEAK, DType, Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.iteration import Ahead, iterate
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.planning.plan import Explanation, Plan
from bsp.arrays.typing import (
    ArrayLike,
    Arrays,
    Axes,
    Casting,
    Device,
    DTypeLike,
    Grid,
    Index,
    Int,
    Mode,
    Order,
    ShapeLike,
    Side,
    SortKind,
    Time,
)
from bsp.arrays.views import TreeLink, link_of, settled, store, view
from bsp.cost.model import Cost
from bsp.declared import Costs, declares
from bsp.values.canonical import is_alone

if TYPE_CHECKING:
    from bsp.arrays.in_place import Flat

GATHER_LIMIT = 1 << 30  # bytes at most that __array__, tolist and the like bring to every process

NO_VALUE: Any = getattr(np, "_NoValue", object())  # NumPy's marker of an argument that was not given

_REPR_VALUES = 60  # values at most that repr shows in full

Operator: TypeAlias = Callable[["Array", ArrayLike], "Array"]


# ---------------------------------------------------------------------------------- operators

_new = object.__new__
_FLOAT = WEAK[float]
_MULTIPLY = ew.of_ufunc(np.multiply)
_POWERS: dict[float, np.ufunc] = {2: np.square, 0.5: np.sqrt, 1: np.positive, -1: np.reciprocal}


def _takes(other: Any) -> bool:
    """Return whether an operator of arrays takes this operand; if not, Python tries the operator of the operand."""
    return isinstance(other, (Array, np.ndarray, np.generic, int, float, complex, bool, list, tuple)) or getattr(
        type(other), "is_abstract_array", False
    )


def _general(op: ew.Elementwise, array: Array, other: Any, reflected: bool) -> Any:
    if op is _MULTIPLY and isinstance(other, (list, tuple, str, bytes)) and not array.ndim and array.dtype.kind in "iu":
        return other * index(array)  # [0] * n with n = x.sum(): NumPy's integers repeat a sequence, too
    if not _takes(other) or (op is _MULTIPLY and isinstance(other, np.matrix)):  # its * is no product by elements
        return NotImplemented
    a, b = array._node, build.operand(other)
    return wrap(build.apply(op, b, a) if reflected else build.apply(op, a, b))


def _binary(ufunc: np.ufunc) -> Operator:
    """Return a ufunc as an operator, with a fast path for operands that are arrays or floats."""
    op = ew.of_ufunc(ufunc)
    known = ew._inferred

    def forward(self: Array, other: Any) -> Any:
        a = self._node
        kind_of_other = type(other)
        if kind_of_other is Array:
            b = other._node
        elif kind_of_other is float:
            b = Node(PARAM, (), _FLOAT)
            b.value = other
        else:
            return _general(op, self, other, False)
        kind = known.get((op, a.kind, b.kind)) or ew.infer(op, a.kind, b.kind)
        out = _new(Array)
        out._node = Node(op, (a, b), kind)
        return out

    return forward


def _reflected(ufunc: np.ufunc) -> Operator:
    """Return a ufunc as an operator whose array is the right operand."""
    op = ew.of_ufunc(ufunc)

    def backward(self: Array, other: Any) -> Any:
        return _general(op, self, other, True)

    return backward


def _in_place(forward: Operator, name: str) -> Operator:
    """Return an operator that writes its result into the left operand, cast as NumPy casts it."""

    def method(self: Array, other: Any) -> Any:
        found = forward(self, other)
        if not isinstance(found, Array):
            return found
        node, dtype = found._node, self.dtype
        if not self.ndim and link_of(self) is None:
            return found  # an array of no axes is a number: its name is bound to another, as in NumPy
        if not np.can_cast(node.kind.dtype, dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast ufunc {name!r} output from {node.kind.dtype!r} to {dtype!r} with casting rule 'same_kind'"
            )
        if node.kind.shape != self.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape "
                f"{node.kind.shape}"
            )
        store(self, build.cast(node, dtype))
        return self

    return method


def _operators(ufunc: np.ufunc) -> tuple[Operator, Operator, Operator]:
    """Return a ufunc as three operators: with the array on the left, with the array on the right, and in place."""
    forward = _binary(ufunc)
    return forward, _reflected(ufunc), _in_place(forward, ufunc.__name__)


def _equality(ufunc: np.ufunc) -> Callable[[Array, object], Array]:
    """Return the operator == or !=; None, text, and to a date a number, are equal to no element."""
    plain = _binary(ufunc)

    def forward(self: Array, other: Any) -> Any:
        shape = self.shape
        if other is not None and not isinstance(other, (str, bytes)):
            try:
                return plain(self, other)
            except TypeError:  # there is no comparison of these dtypes, or `other` has none
                shape = np.broadcast_shapes(shape, build.operand(other).kind.shape)
        return wrap(build.broadcast(build.strong(build.operand(ufunc is np.not_equal)), shape))

    return forward


_equal, _not_equal = _equality(np.equal), _equality(np.not_equal)


def _unary(ufunc: np.ufunc) -> Callable[[Array], Array]:
    op = ew.of_ufunc(ufunc)

    def method(self: Array) -> Array:
        node = self._node
        return wrap(Node(op, (node,), ew.infer(op, node.kind)))

    return method


_any_power = _binary(np.power)


def _pow(self: Array, other: ArrayLike) -> Array:
    """Return self ** other; exponents 2, 1, 0.5 and -1 use the ufuncs that NumPy uses for them."""
    exponent: Any = other
    if type(other) in (int, float) and exponent in _POWERS and self.dtype.kind in "fc":
        return _unary(_POWERS[exponent])(self)
    if type(other) is int and other == 2 and self.dtype.kind in "biu":
        return _unary(np.square)(self)
    return _any_power(self, other)


class Array:
    """A distributed array, or a lazy expression of one.  The functions of `bsp.arrays` create arrays.

    shape, dtype, ndim, size, T: as in NumPy.  `layout`: the placement of its blocks.

    Slices, transposes, reshapes and the like are views wherever NumPy returns views of arrays in C order: what is
    written through one array is visible in all arrays that share its elements.  The results of `copy()` and of pickling
    share nothing.
    """

    __slots__ = ("__weakref__", "_ahead", "_link", "_node")
    __array_priority__ = 900.0
    _ahead: Ahead  # set on a row that an iteration has given: the source of its values
    _link: TreeLink  # to the arrays that share elements with this one; not set if it shares none
    _node: Node  # the expression of its values; only `views` replaces it
    _stays = True  # never sent to the caller of a `bsp.Session`, who receives a handle

    @staticmethod
    def _instead(name: str) -> str | None:
        """Return what to use for a method that this class does not have, if there is such a thing."""
        if name in ("to_numpy", "numpy", "values", "toarray", "asnumpy", "get"):
            return "compute(), a NumPy array on every process"
        if name in ("base", "byteswap", "ctypes", "data", "dump", "dumps", "flags", "setflags", "strides"):
            return f"compute().{name}: the blocks of an array lie in the memory of several processes"
        from bsp import arrays

        return f"ba.{name}(x)" if name in vars(arrays)["__all__"] else None

    # --------------------------------------------------------------------------- attributes

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return self._node.kind.shape

    @shape.setter
    def shape(self, shape: Never) -> None:
        raise AttributeError("an array keeps its shape: instead of x.shape = shape write x = x.reshape(shape)")

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._node.kind.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._node.kind.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._node.kind.size

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._node.kind.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, over all processes."""
        return self._node.kind.size * self._node.kind.dtype.itemsize

    @property
    def device(self) -> Literal["cpu"]:
        """The device that holds the array, in the sense of the array API standard."""
        return "cpu"

    @property
    def layout(self) -> Layout:
        """The placement of the blocks; of a lazy array, the placement that computing it now would give."""
        node = self._node
        if node.op is LEAF:
            assert node.layout is not None
            return node.layout
        return world().planned([node], False)[0].roots[0].shown

    @property
    def grid(self) -> Shape:
        """The number of blocks along each axis."""
        return self.layout.grid

    @property
    def process_grid(self) -> Shape:
        """The number of processes along each axis."""
        return self.layout.process_grid

    # -------------------------------------------------------------------------- evaluation

    def compute(self) -> np.ndarray:
        """Return the whole array as a NumPy array on every process; read-only, shared by the processes of an element.

        Collective.  Cost: the plan's, and h = size · (p - 1)/p words for bringing it together.
        """
        ahead: Ahead | None = getattr(self, "_ahead", None)
        found = None if ahead is None else ahead.values(self)
        values: np.ndarray = whole(self._node) if found is None else _own_view(found)
        return values

    def persist(self) -> Array:
        """Compute the array and leave its blocks where they are; return the array itself.

        Collective.  The expression that the array was computed from is released.  A view still shares the elements of
        its base, and a write through it is visible there.
        Cost: that of `cost()`.  An array that is computed already takes one superstep without words, in which processes
        that make another call are found.
        """
        world().evaluate([self._node], False)
        settled(self)
        return self

    def plan(self) -> Plan:
        """Return the plan that `persist` would carry out.  Local."""
        return world().planned([self._node], False)[0]

    def explain(self) -> Explanation:
        """Return the plan as text, superstep by superstep; for the result of a procedure, its expected cost.  Local."""
        from bsp.arrays.procedures.forecast import explain  # imported here: that module imports this one

        return explain(self)

    def cost(self) -> Cost:
        """Return the cost of what `explain` shows: W, H, S, peak bytes, seconds.  Local."""
        from bsp.arrays.procedures.forecast import origin_of

        origin = origin_of(self)
        return self.plan().cost() if origin is None else origin.forecast().cost()

    # ------------------------------------------------------------------ what needs the values

    def _one(self, what: str) -> Any:
        if self.size != 1:
            if what == "bool":
                detail = "an array with more than one element is ambiguous. Use a.any() or a.all()"
                raise ValueError(f"The truth value of {detail if self.size else 'an empty array is ambiguous'}")
            raise TypeError(f"only arrays of one element convert to Python's {what}; this one has shape {self.shape}")
        return _value(self, what)

    def __bool__(self) -> bool:
        return bool(self._one("bool"))

    def __int__(self) -> int:
        return int(self._one("int").reshape(()))

    def __float__(self) -> float:
        return float(self._one("float").reshape(()))

    def __complex__(self) -> complex:
        return complex(self._one("complex").reshape(()))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._one("index"))

    def item(self, *args: Int | tuple[Int, ...]) -> Any:
        """Return the only element, or that at an index or a position in C order, as a Python number.  Collective.

        Cost: h = p - 1 words at most, S = 1, besides computing it.
        """
        if not args:
            if self.size != 1:
                raise ValueError("can only convert an array of size 1 to a Python scalar")
            return self._one("item").reshape(()).item()
        at: tuple[Any, ...] = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        if len(at) == 1 and self.ndim != 1:
            place = index(at[0])
            if not -self.size <= place < self.size:
                raise IndexError(f"index {place} is out of bounds for size {self.size}")
            at = tuple(int(each) for each in np.unravel_index(place % self.size, self.shape))
        if len(at) != self.ndim:
            raise ValueError("incorrect number of indices for array")
        return self[tuple(map(index, at))].compute().item()

    def tolist(self) -> Any:
        """Return nested lists of Python numbers.  Collective: brings the whole array to every process.

        Cost: h = (p - 1)/p of the array, S = 1.
        Raises GatherRefused above a gigabyte.
        """
        return self._gathered("tolist").tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Return the whole array as a NumPy array of its own, which libraries may write to.

        Collective: brings the whole array to every process, with a GatherWarning for large arrays.  Raises
        GatherRefused above a gigabyte.
        """
        from bsp.arrays.gathering import told_of  # imported here: that module imports this one

        told_of("np.asarray", self)
        found = self._gathered("np.asarray")
        return np.array(found, dtype=dtype, copy=True if copy is None else copy)

    def _gathered(self, what: str) -> Any:
        if self.nbytes > GATHER_LIMIT:
            raise GatherRefused(
                f"{what} of shape {self.shape} would bring {self.nbytes / 1e9:.3g} GB to each of {world().nprocs} "
                "processes; compute() does so on request, or work with its blocks: persist(), to_local()"
            )
        return self.compute()

    # ------------------------------------------------------------------------- indexing

    def __getitem__(self, key: Index) -> Array:
        return indexing.get(self, key)

    def __setitem__(self, key: Index, value: ArrayLike | Time | str) -> None:
        indexing.put(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the scalars of a vector, or the rows of another array, read in pieces.  See `iteration`.

        Collective.
        """
        return iterate(self)

    def __reversed__(self) -> Iterator[Any]:
        """Iterate over scalars or rows from the last to the first.  Collective, see `iteration`."""
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return iterate(self[::-1])

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # ------------------------------------------------------------------------ operators

    __add__, __radd__, __iadd__ = _operators(np.add)
    __sub__, __rsub__, __isub__ = _operators(np.subtract)
    __mul__, __rmul__, __imul__ = _operators(np.multiply)
    __truediv__, __rtruediv__, __itruediv__ = _operators(np.divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _operators(np.floor_divide)
    __mod__, __rmod__, __imod__ = _operators(np.remainder)
    __pow__, __rpow__, __ipow__ = _pow, _reflected(np.power), _in_place(_pow, "power")
    __and__, __rand__, __iand__ = _operators(np.bitwise_and)
    __or__, __ror__, __ior__ = _operators(np.bitwise_or)
    __xor__, __rxor__, __ixor__ = _operators(np.bitwise_xor)
    __lshift__, __rlshift__, __ilshift__ = _operators(np.left_shift)
    __rshift__, __rrshift__, __irshift__ = _operators(np.right_shift)
    __lt__, __le__, __gt__, __ge__ = map(_binary, (np.less, np.less_equal, np.greater, np.greater_equal))
    __neg__, __pos__ = _unary(np.negative), _unary(np.positive)
    __abs__, __invert__ = _unary(np.absolute), _unary(np.invert)
    __hash__ = None  # type: ignore[assignment]  # arrays are compared by value

    def __eq__(self, other: object) -> Array:  # type: ignore[override]  # NumPy's == gives an array, no bool
        return _equal(self, other)

    def __ne__(self, other: object) -> Array:  # type: ignore[override]  # nor does its !=
        return _not_equal(self, other)

    def __matmul__(self, other: ArrayLike) -> Array:
        from bsp.arrays.api.contraction import matmul

        return matmul(self, other) if _takes(other) else NotImplemented

    def __rmatmul__(self, other: ArrayLike) -> Array:
        from bsp.arrays.api.contraction import matmul

        return matmul(other, self) if _takes(other) else NotImplemented

    def __imatmul__(self, other: ArrayLike) -> Array:
        from bsp.arrays.api.contraction import matmul
        from bsp.arrays.api.ufuncs import stored

        found = matmul(self, other)
        if found.shape != self.shape:
            from bsp.arrays.api.dtypes import shape

            raise ValueError(f"@= of shapes {self.shape} and {shape(other)} gives {found.shape}")
        return stored(found, self, name="matmul")

    def __divmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        from bsp.arrays.api.ufuncs import divmod

        return divmod(self, other) if _takes(other) else NotImplemented

    def __rdivmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        from bsp.arrays.api.ufuncs import divmod

        return divmod(other, self) if _takes(other) else NotImplemented

    def __round__(self, ndigits: int | None = None) -> Any:
        """Round an array of no axes to so many digits; without them, return Python's integer (a collective)."""
        if self.ndim:
            raise TypeError("type Array doesn't define __round__ method; numpy.round takes arrays of any shape")
        return round(self.item()) if ndigits is None else self.round(ndigits)

    def __contains__(self, value: object) -> bool:
        """Return whether some element equals a value.  Collective."""
        return bool((self == value).any())

    # ------------------------------------------------------------- shapes, views and copies

    @property
    def T(self) -> Array:
        """The transpose, a view."""
        node = self._node
        return view(self, build.permuted(node, tuple(reversed(range(len(node.kind.shape))))))

    @property
    def mT(self) -> Array:
        """The array with its last two axes swapped, a view."""
        from bsp.arrays.api.manipulation import matrix_transpose

        return matrix_transpose(self)

    @property
    def real(self) -> Array:
        """The real parts, a view; values assigned to it are written into the array."""
        from bsp.arrays.api.ufuncs import real

        return real(self)

    @real.setter
    def real(self, value: ArrayLike) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Array:
        """The imaginary parts, a view; of real numbers, zeros that are not written to."""
        from bsp.arrays.api.ufuncs import imag

        return imag(self)

    @imag.setter
    def imag(self, value: ArrayLike) -> None:
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    @property
    def flat(self) -> Flat:
        """The elements in C order, to be read and assigned."""
        from bsp.arrays.in_place import Flat

        return Flat(self)

    @flat.setter
    def flat(self, values: ArrayLike) -> None:
        self.flat[...] = values

    @overload
    def reshape(self, shape: ShapeLike, /, *, order: Order = "C", copy: bool | None = None) -> Array: ...
    @overload
    def reshape(self, *shape: Int, order: Order = "C", copy: bool | None = None) -> Array: ...
    def reshape(self, *shape: Any, order: Order = "C", copy: bool | None = None) -> Array:
        """Return the same elements under another shape, given as one argument or one length each; see `ba.reshape`."""
        from bsp.arrays.api.manipulation import reshape

        return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)

    @overload
    def transpose(self, axes: Sequence[int] | None = None, /) -> Array: ...
    @overload
    def transpose(self, *axes: int) -> Array: ...
    def transpose(self, *axes: Any) -> Array:
        """Return a view with the axes in another order, given as one argument or one axis each; none: reversed."""
        from bsp.arrays.api.manipulation import permute_dims

        if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
            return permute_dims(self, axes[0])
        return permute_dims(self, axes or None)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Return a view with two axes swapped."""
        from bsp.arrays.api.manipulation import swapaxes

        return swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axes = None) -> Array:
        """Return a view without axes of length 1: those of `axis`, or all."""
        from bsp.arrays.api.manipulation import squeeze

        return squeeze(self, axis)

    def ravel(self, order: Order = "C") -> Array:
        """Return all elements as a vector: a view of an array in C order, else a copy; see `ba.ravel`."""
        from bsp.arrays.api.manipulation import ravel

        return ravel(self, order)

    def flatten(self, order: Order = "C") -> Array:
        """Return a copy of all elements as a vector, in C order, or in Fortran's if order is "F"."""
        from bsp.arrays.api.manipulation import permute_dims, reshape
        from bsp.arrays.api.signatures import checked_order

        checked_order(order)
        return reshape(permute_dims(self) if order == "F" else self, (self.size,), copy=True)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Return the diagonal of two axes as the last axis: a view that is not written to."""
        from bsp.arrays.api.manipulation import diagonal

        return diagonal(self, offset, axis1, axis2)

    def repeat(self, repeats: ArrayLike, axis: int | None = None) -> Array:
        """Return each element repeated a number of times in a row; see `ba.repeat` for the cost."""
        from bsp.arrays.api.manipulation import repeat

        return repeat(self, repeats, axis)

    def rechunk(self, /, *, grid: Grid = None, process_grid: Grid = None) -> Array:
        """Return the same array in other blocks; one total exchange, see `ba.rechunk`."""
        from bsp.arrays.api.manipulation import rechunk

        return rechunk(self, grid=grid, process_grid=process_grid)

    def copy(self, order: Order = "C") -> Array:
        """Return an array of the same values that shares nothing with this one; `order` has no effect."""
        from bsp.arrays.api.creation import copy
        from bsp.arrays.api.signatures import checked_order

        checked_order(order)
        return copy(self)

    def astype(
        self, dtype: DTypeLike, order: Order = "K", casting: Casting = "unsafe", subok: bool = True, copy: bool = True,
        *, device: Device = None,
    ) -> Array:  # fmt: skip
        """Return the elements cast to another dtype.  Lazy.

        casting : the rule by which the cast must be allowed; else TypeError.   copy : False returns the array itself if
            it has this dtype already.   order, subok : have no effect.
        """
        from bsp.arrays.api.signatures import checked_order
        from bsp.arrays.api.ufuncs import astype

        checked_order(order)
        if world().as_numpy and np.dtype(dtype).kind not in KINDS:  # a script's text and objects are NumPy's
            return self.compute().astype(dtype, casting=casting)  # type: ignore[return-value]
        found = element_type(dtype, "astype")
        if not np.can_cast(self.dtype, found, casting):
            raise TypeError(
                f"Cannot cast array data from {self.dtype!r} to {found!r} according to the rule '{casting}'"
            )
        return astype(self, found, copy=copy, device=device)

    def view(self, dtype: DTypeLike | None = None, type: None = None) -> Array:
        """Return a view: the same bytes as elements of another dtype of the same length."""
        if type is not None or (isinstance(dtype, builtins.type) and issubclass(dtype, np.ndarray)):
            raise TypeError("view: arrays of bsp.arrays have no other type; view(dtype) takes a dtype")
        if dtype is None:
            return view(self, self._node)
        found = element_type(dtype, "view")
        if found.itemsize != self.itemsize:
            raise TypeError(
                f"view: {self.dtype} has {self.itemsize} bytes, {found} {found.itemsize}: only dtypes of one length "
                "are views of each other here; of complex numbers .real and .imag are views"
            )
        node = build.strong(self._node)
        return view(self, node if found == self.dtype else build.apply(ew.bits_as(found), node))

    # --------------------------------------------------------------- functions of every element

    def clip(
        self, min: ArrayLike | None = None, max: ArrayLike | None = None, out: Array | None = None
    ) -> Array:  # fmt: skip
        """Return the elements limited to [min, max].  Lazy."""
        from bsp.arrays.api.ufuncs import clip

        return clip(self, min, max, out)

    def round(self, decimals: int = 0, out: Array | None = None) -> Array:
        """Return the elements rounded to a number of decimals, with halves rounded to even.  Lazy."""
        from bsp.arrays.api.ufuncs import round

        return round(self, decimals, out)

    def conj(self) -> Array:
        """Return the complex conjugates; of real numbers the array itself, as NumPy does."""
        if self.dtype.kind != "c":
            return self
        return wrap(build.apply(ew.of_ufunc(np.conjugate), self._node))

    def conjugate(self) -> Array:
        """Return the complex conjugates; of real numbers the array itself, as NumPy does."""
        return self.conj()

    def choose(self, choices: Arrays, out: Array | None = None, mode: Mode = "raise") -> Array:
        """Return for each element the choice that its integer names; see `ba.choose`."""
        from bsp.arrays.api.choosing import choose

        return choose(self, choices, out, mode)

    # ---------------------------------------------------------------------------- reductions

    def sum(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, keepdims: bool = False,
        initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
    ) -> Array:  # fmt: skip
        """Return the sum of elements over axes.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import sum

        return sum(self, axis, dtype, out, keepdims, initial, where)

    def prod(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, keepdims: bool = False,
        initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
    ) -> Array:  # fmt: skip
        """Return the product of elements over axes.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import prod

        return prod(self, axis, dtype, out, keepdims, initial, where)

    def min(
        self, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
        initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
    ) -> Array:  # fmt: skip
        """Return the least element over axes; NaN if there is one.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import min

        return min(self, axis, out, keepdims, initial, where)

    def max(
        self, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
        initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
    ) -> Array:  # fmt: skip
        """Return the greatest element over axes; NaN if there is one.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import max

        return max(self, axis, out, keepdims, initial, where)

    def all(
        self, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *, where: ArrayLike = True
    ) -> Array:
        """Return whether all elements are true, over axes.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import all

        return all(self, axis, out, keepdims, where=where)

    def any(
        self, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *, where: ArrayLike = True
    ) -> Array:
        """Return whether some element is true, over axes.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import any

        return any(self, axis, out, keepdims, where=where)

    def mean(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, keepdims: bool = False, *,
        where: ArrayLike = True,
    ) -> Array:  # fmt: skip
        """Return the mean of elements over axes.  Lazy; see `ba.sum` for the cost."""
        from bsp.arrays.api.reductions import mean

        return mean(self, axis, dtype, out, keepdims, where=where)

    def var(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:  # fmt: skip
        """Return the variance of elements over axes.  Lazy; see `ba.var` for the arguments and the cost."""
        from bsp.arrays.api.reductions import var

        return var(self, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)

    def std(
        self, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
        keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:  # fmt: skip
        """Return the standard deviation of elements over axes.  Lazy; see `ba.var` for the arguments and the cost."""
        from bsp.arrays.api.reductions import std

        return std(self, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)

    def argmin(self, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
        """Return the position of the first least element along an axis; None: in C order.  Lazy."""
        from bsp.arrays.api.reductions import argmin

        return argmin(self, axis, out, keepdims=keepdims)

    def argmax(self, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
        """Return the position of the first greatest element along an axis; None: in C order.  Lazy."""
        from bsp.arrays.api.reductions import argmax

        return argmax(self, axis, out, keepdims=keepdims)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: Array | None = None
    ) -> Array:
        """Return the sum of a diagonal of two axes.  Lazy."""
        from bsp.arrays.api.reductions import trace

        return trace(self, offset, axis1, axis2, dtype, out)

    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
    ) -> Array:  # fmt: skip
        """Return running sums along an axis; None: of all elements in C order.  Lazy; see `ba.cumsum` for the cost."""
        from bsp.arrays.api.reductions import cumsum

        return cumsum(self, axis, dtype, out)

    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
    ) -> Array:  # fmt: skip
        """Return running products along an axis; None: of all elements in C order.  Lazy; cost as `ba.cumsum`."""
        from bsp.arrays.api.reductions import cumprod

        return cumprod(self, axis, dtype, out)

    def dot(self, b: ArrayLike, out: Array | None = None) -> Array:
        """Return NumPy's dot with another array; see `ba.dot`."""
        from bsp.arrays.api.contraction import dot

        return dot(self, b, out)

    # ------------------------------------------------------------------ selecting and sorting

    def take(
        self, indices: ArrayLike, axis: int | None = None, out: Array | None = None, mode: Mode = "raise"
    ) -> Array:
        """Return the elements, or the slices of an axis, at some positions.  Collective; see `ba.take` for the cost."""
        from bsp.arrays.selection.selecting import take

        return take(self, indices, axis, out, mode)

    def compress(self, condition: ArrayLike, axis: int | None = None, out: Array | None = None) -> Array:
        """Return the slices of an axis where a condition holds; None: of all elements in C order.  Collective."""
        from bsp.arrays.selection.masks import compress

        return compress(condition, self, axis, out)

    def nonzero(self) -> tuple[Array, ...]:
        """Return the positions of the elements that are not zero, one array for each axis.  Collective.

        Cost: see `ba.nonzero`.
        """
        from bsp.arrays.selection.masks import nonzero

        return nonzero(self)

    def searchsorted(self, v: ArrayLike, side: Side = "left", sorter: ArrayLike | None = None) -> Array:
        """Return where values belong in this sorted vector.  Collective; see `ba.searchsorted` for the cost."""
        from bsp.arrays.sorting.searching import searchsorted

        return searchsorted(self, v, side, sorter)

    def argsort(
        self, axis: int | None = -1, kind: SortKind = None, order: None = None, *, descending: bool = False,
        stable: bool | None = True,
    ) -> Array:  # fmt: skip
        """Return the positions that sort the elements along an axis.  Collective; see `ba.argsort` for the cost."""
        from bsp.arrays.sorting.sorting import argsort

        return argsort(self, axis, kind, order, descending=descending, stable=stable)

    def argpartition(
        self, kth: int | Sequence[int], axis: int | None = -1, kind: Literal["introselect"] = "introselect",
        order: None = None,
    ) -> Array:  # fmt: skip
        """Return the positions that partition an axis at ranks.  Collective; see `ba.argpartition` for the cost."""
        from bsp.arrays.sorting.partition import argpartition

        return argpartition(self, kth, axis, kind, order)

    # ------------------------------------------------------------------------ changes in place

    def fill(self, value: ArrayLike) -> None:
        """Set every element to one number.  No words."""
        from bsp.arrays.in_place import fill

        fill(self, value)

    def put(self, indices: ArrayLike, values: ArrayLike, mode: Mode = "raise") -> None:
        """Replace the elements at positions in C order.  Cost: as x[indices] = values."""
        from bsp.arrays.in_place import put

        put(self, indices, values, mode)

    def sort(
        self, axis: int = -1, kind: SortKind = None, order: None = None, *, stable: bool | None = None
    ) -> None:  # fmt: skip
        """Sort the elements along an axis, in place.  Collective; see `ba.sort` for the cost."""
        from bsp.arrays.in_place import sort

        sort(self, axis, kind, order, stable=stable)

    def partition(
        self, kth: int | Sequence[int], axis: int = -1, kind: Literal["introselect"] = "introselect",
        order: None = None,
    ) -> None:  # fmt: skip
        """Partition the elements along an axis at ranks, in place.  Collective; see `ba.partition` for the cost."""
        from bsp.arrays.in_place import partition

        partition(self, kth, axis, kind, order)

    @overload
    def resize(self, new_shape: ShapeLike, /, *, refcheck: bool = True) -> None: ...
    @overload
    def resize(self, *new_shape: Int, refcheck: bool = True) -> None: ...
    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """Change the shape, in place: elements in C order are dropped at the end, or followed by zeros."""
        from bsp.arrays.in_place import resize

        if new_shape:
            resize(self, new_shape[0] if len(new_shape) == 1 else new_shape)

    # ------------------------------------------------------------ blocks, files, other libraries

    def to_local(self) -> dict[tuple[int, ...], np.ndarray]:
        """Return this process's blocks, keyed by block coordinate, as read-only views.

        Collective for a lazy array, which is computed first; else local.
        """
        self.persist()
        found = {}
        for at, block in self._node.value.items():
            found[at] = shown = block.view() if isinstance(block, np.ndarray) else block
            if isinstance(block, np.ndarray):
                shown.flags.writeable = False
        return found

    def tobytes(self, order: Order = "C") -> bytes:
        """Return the bytes of all elements.  Collective: brings the whole array to every process.

        Raises GatherRefused above a gigabyte.
        """
        found: bytes = self._gathered("tobytes").tobytes(order)
        return found

    def tofile(self, fid: str | PathLike[str], sep: str = "", format: str = "%s") -> None:
        """Write all elements in C order to a file, as bytes or as text between separators.  Collective."""
        from bsp.arrays.files.text import tofile

        tofile(self, fid, sep, format)

    def to_device(self, device: Device, /, *, stream: None = None) -> Array:
        """Return the array itself: there is one device, "cpu"."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"to_device({device!r}): arrays live on 'cpu', in the memory of processes")
        return self

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return the module that has the standard's functions, `bsp.arrays`."""
        import bsp.arrays

        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"api_version={api_version!r}: arrays follow 2024.12")
        return bsp.arrays

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Carry out a call of one of NumPy's ufuncs, or of its methods, that has an `Array` among its inputs."""
        from bsp.arrays.selection.ufunc_methods import array_ufunc

        return array_ufunc(self, ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Carry out a call of one of NumPy's functions; TypeError for one that has no distributed form."""
        from bsp.arrays.namespace import OF_NUMPY

        ours = OF_NUMPY.get(function)
        if ours is None:
            raise TypeError(
                f"numpy.{getattr(function, '__name__', function)} has no distributed form; "
                "x.compute() brings an array to every process, where NumPy takes it"
            )
        return ours(*args, **kwargs)

    def __dlpack__(
        self, *, stream: None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """Return the whole array as a DLPack capsule.  Collective, as compute(); see `api.interchange.dlpack`."""
        from bsp.arrays.api.interchange import dlpack

        return dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's number of the CPU."""
        return 1, 0

    # ------------------------------------------------------------------------------- as text

    def __repr__(self) -> str:
        """Return a text with shape, dtype, values, and the placement of the blocks, or "lazy" without them.  Local.

        Values of a replicated array are shown as in NumPy.  Of any other array, the first block of this process is
        shown with its index range, so that the text differs between processes.  If there are many values, the first
        and the last are shown; if there are more than two axes, the first plane.  In a script for NumPy, whose lists
        and tuples show their elements by it, the text is NumPy's, and it is collective.
        """
        if world().as_numpy:
            return repr(self.compute()[()])
        node = self._node
        if node.op is not LEAF:
            return f"<{self.dtype}{list(self.shape)} lazy>"
        assert node.layout is not None
        values = ""
        if node.layout.replicated and node.layout.blocks == 1:
            (block,) = node.value.values()
            if isinstance(block, np.ndarray):
                values = _shown(block)
        else:
            held = [(at, block) for at, block in sorted(node.value.items()) if isinstance(block, np.ndarray)]
            at, block = next(((at, block) for at, block in held if block.size), ((), None))
            if block is not None:
                first = tuple(int(axis.bounds[k]) for axis, k in zip(node.layout.axes, at, strict=True))
                plane = (0,) * max(0, block.ndim - 2)
                part = [*map(str, first[: len(plane)])]
                part += [f"{a}:{a + n}" for a, n in zip(first, block.shape, strict=True)][len(plane) :]
                values = f"; here [{', '.join(part)}]{_shown(block[plane])}"
        return f"<{self.dtype}{list(self.shape)} {node.layout.where}{values}>"

    def __str__(self) -> str:
        """Return NumPy's text of the array.  Collective; of a large array only the edges are gathered."""
        return printed(self)

    def __format__(self, spec: str) -> str:
        return _formatted(self, spec)

    def _repr_html_(self) -> str:
        """Return a drawing of the blocks and their owners, for notebooks.  Local."""
        from bsp.arrays.drawing import drawn

        return drawn(self)

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> Any:
        if world().as_numpy and not is_alone():
            return self.compute().__reduce__()
        return wrap, (self._node,)

    def _keeps_identity(self) -> bool:
        """Return whether the array was never shared with views, whose nodes know what was computed from them."""
        return link_of(self) is None

    def _content(self) -> Node:
        """Return what `_fill` gives to another array."""
        return self._node

    def _fill(self, content: Node) -> None:
        """Take the content of a sibling's array (`bsp.values.identity`)."""
        store(self, content)


def _shown(block: np.ndarray) -> str:
    """Return the text of values, after a colon."""
    text = np.array2string(block, separator=", ", threshold=_REPR_VALUES, edgeitems=3)
    return f": {text}" if block.ndim < 2 else f":\n{text}"


def printed(array: Array) -> str:
    """Return NumPy's text of an array, without reading the middle that NumPy leaves out.  Collective.

    A run without values returns a placeholder.
    """
    options = np.get_printoptions()
    edge = options["edgeitems"]
    if array.size <= options["threshold"]:
        return _text(array, array.compute())
    edges = array
    for axis, length in enumerate(array.shape):
        if length > 2 * edge:  # one element in place of the middle, where NumPy prints dots
            before = (slice(None),) * axis
            parts = [
                edges[(*before, part)] for part in (slice(edge), slice(edge, edge + 1), slice(length - edge, None))
            ]
            edges = _joined(parts, axis)
    with np.printoptions(threshold=0):
        return _text(array, edges.compute())


@declares(lambda costs, array, values: f"<{array.dtype}{list(array.shape)}>")
def _text(array: Array, values: Any) -> str:
    """Return NumPy's text of `values`, which are those of the array or of its edges."""
    return np.array_str(np.asarray(values))


@declares(lambda costs, array, spec: printed(array))
def _formatted(array: Array, spec: str) -> str:
    """Return the text of an array without a format, or of its one element with a format."""
    return format(array.item(), spec) if spec else printed(array)


def _value_cost(costs: Costs, array: Array, what: str) -> Any:
    """Declare `_value`: a conversion to a number raises here, a branch or an index where the program uses it."""
    if what in ("bool", "index"):
        return array.compute()
    from bsp.abstract.errors import DEALT, value_needed  # only runs without values need it

    raise value_needed(f"{what}()", array, DEALT)


@declares(_value_cost)
def _value(array: Array, what: str) -> Any:
    """Return the values of an array of one element, which the program converts to Python's `what`.  Collective."""
    return array.compute()


def _joined(parts: list[Array], axis: int) -> Array:
    from bsp.arrays.api.manipulation import concat

    return concat(parts, axis=axis)


def whole(node: Node) -> Any:
    """Return all values of a node on this process.  Collective."""
    (blocks,) = world().evaluate([node], True)
    return _own_view(*blocks.values())


def compute(*arrays: Array) -> tuple[np.ndarray, ...]:
    """Return several arrays as NumPy arrays on every process, by one plan.  Collective.

    What the arrays have in common is computed once.
    Cost: the plan's, and for each array h = size · (p - 1)/p words for bringing it together.
    """
    found = world().evaluate(nodes_of("compute", arrays), True)
    return tuple(_own_view(*blocks.values()) for blocks in found)


def persist(*arrays: Array) -> tuple[Array, ...]:
    """Compute several arrays by one plan, leave their blocks where they are, and return the arrays.  Collective."""
    world().evaluate(nodes_of("persist", arrays), False)
    for array in arrays:
        settled(array)
    return arrays


def nodes_of(call: str, arrays: Sequence[Array]) -> list[Node]:
    """Return the nodes of arrays that were given to a function; TypeError for anything else."""
    for each in arrays:
        if not isinstance(each, Array):
            kind = type(each).__name__
            hint = f"; {call}(*{kind}) takes its elements" if isinstance(each, (list, tuple)) else ""
            hint = f"; it has a method {call}()" if hasattr(each, call) else hint
            raise TypeError(f"{call}: {kind} is no array of bsp.arrays{hint}")
    return [array._node for array in arrays]


def _own_view(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        found = found.view()
        found.flags.writeable = False
    return found


def wrap(node: Node) -> Array:
    """Return the array of a node."""
    array = Array.__new__(Array)
    array._node = node
    return array
