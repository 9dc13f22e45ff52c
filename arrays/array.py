"""The array people hold: a node of the expression so far, with NumPy's operators and methods.

Every process holds one and runs the same lines.  Arithmetic is lazy; `compute`, `persist` and everything that needs
values are collectives.  `repr` is local.  Assignment gives this array another node, and its views too (`views`); what
was computed from the array before keeps its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.arrays import build, indexing
from bsp.arrays.errors import GatherRefused
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF, PARAM, WEAK, DType, Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.iteration import Ahead, iterate
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.planning.plan import Explanation, Plan
from bsp.arrays.views import Link, link_of, settled, store
from bsp.cost.model import Cost

GATHER_LIMIT = 1 << 30  # bytes that __array__ and tolist bring to every process without being asked twice

_REPR_VALUES = 60  # so many are shown all by repr

_infer = ew._inferred


class Array:
    """A distributed array, or an expression that will be one.

    shape, dtype, ndim, size, T: as NumPy's.  `layout`: where its blocks are.  Made by the functions of `bsp.arrays`.

    Slices, transposes, reshapes and the like are views where NumPy's are, if every array that is no view itself is in
    C order: what is written through one array shows in all that share its elements.  `copy()` shares nothing, nor does
    what is pickled.
    """

    __slots__ = ("__weakref__", "_ahead", "_link", "_node")
    __array_priority__ = 900.0
    _ahead: Ahead  # of a row that an iteration has given: where its values come from
    _link: Link  # to the arrays that share elements with this one; not set if there are none
    _node: Node  # what it holds; another one is given by `views.store`

    # --------------------------------------------------------------------------- what it is

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return self._node.kind.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._node.kind.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._node.kind.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._node.kind.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._node.kind.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, over all processes."""
        return self._node.kind.size * self._node.kind.dtype.itemsize

    @property
    def device(self) -> str:
        """Where the standard asks an array to be."""
        return "cpu"

    @property
    def layout(self) -> Layout:
        """Where the blocks are, or would be if it were computed now."""
        node = self._node
        if node.op is LEAF:
            assert node.layout is not None
            return node.layout
        return world().planned([node], False)[0].roots[0].layout

    @property
    def grid(self) -> Shape:
        """Blocks along each axis."""
        return self.layout.grid

    @property
    def process_grid(self) -> Shape:
        """Processes along each axis."""
        return self.layout.process_grid

    # -------------------------------------------------------------------------- evaluation

    def compute(self) -> Any:
        """The whole array as NumPy's, on every process; read-only, shared by the processes of an element.

        Cost: the plan's, and h = size · (p - 1)/p words for bringing it together.
        """
        ahead: Ahead | None = getattr(self, "_ahead", None)
        found = None if ahead is None else ahead.values(self)
        return whole(self._node) if found is None else _own_view(found)

    def persist(self) -> Array:
        """Computed now, and left where its blocks are; returns itself.  What it was made from is released.

        A view still belongs to its base: what is written through it shows there.
        """
        world().evaluate([self._node], False)
        settled(self)
        return self

    def plan(self) -> Plan:
        """What `persist` would do."""
        return world().planned([self._node], False)[0]

    def explain(self) -> Explanation:
        """The plan, superstep by superstep, as text; of what a procedure has made, what that was expected to cost."""
        from bsp.arrays.procedures.forecast import explain  # it needs what is here

        return explain(self)

    def cost(self) -> Cost:
        """The price of what `explain` shows: W, H, S, peak bytes, seconds."""
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
        if what not in ("bool", "index") and world().abstract:
            from bsp.abstract.errors import DEALT, value_needed  # only such runs need it

            raise value_needed(f"{what}()", self, DEALT)
        return self.compute()

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

    def item(self, *args: Any) -> Any:
        """The only element, or the one at an index or a position in C order, as a Python number.  Collective."""
        if not args:
            if self.size != 1:
                raise ValueError("can only convert an array of size 1 to a Python scalar")
            return self._one("item").reshape(()).item()
        at = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        if len(at) == 1 and self.ndim != 1:
            (place,) = at
            if not -self.size <= place < self.size:
                raise IndexError(f"index {place} is out of bounds for size {self.size}")
            at = tuple(int(each) for each in np.unravel_index(place % self.size, self.shape))
        if len(at) != self.ndim:
            raise ValueError("incorrect number of indices for array")
        return self[tuple(each.__index__() for each in at)].compute().item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers, on every process."""
        return self._gathered("tolist").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The whole array as a NumPy array of its own: libraries write to what they have converted."""
        from bsp.arrays.gathering import told_of  # it needs what is here

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

    def __getitem__(self, key: Any) -> Array:
        return indexing.get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.put(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        """Scalars of a vector, rows of any other array, read ahead in pieces.  Collective, see `iteration`."""
        return iterate(self)

    def __reversed__(self) -> Iterator[Any]:
        """Scalars or rows from the last to the first.  Collective, see `iteration`."""
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return iterate(self[::-1])

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    if TYPE_CHECKING:  # what _install gives

        def __add__(self, other: Any) -> Array: ...
        def __radd__(self, other: Any) -> Array: ...
        def __iadd__(self, other: Any) -> Array: ...
        def __sub__(self, other: Any) -> Array: ...
        def __rsub__(self, other: Any) -> Array: ...
        def __isub__(self, other: Any) -> Array: ...
        def __mul__(self, other: Any) -> Array: ...
        def __rmul__(self, other: Any) -> Array: ...
        def __imul__(self, other: Any) -> Array: ...
        def __truediv__(self, other: Any) -> Array: ...
        def __rtruediv__(self, other: Any) -> Array: ...
        def __itruediv__(self, other: Any) -> Array: ...
        def __floordiv__(self, other: Any) -> Array: ...
        def __rfloordiv__(self, other: Any) -> Array: ...
        def __ifloordiv__(self, other: Any) -> Array: ...
        def __mod__(self, other: Any) -> Array: ...
        def __rmod__(self, other: Any) -> Array: ...
        def __imod__(self, other: Any) -> Array: ...
        def __pow__(self, other: Any) -> Array: ...
        def __rpow__(self, other: Any) -> Array: ...
        def __ipow__(self, other: Any) -> Array: ...
        def __and__(self, other: Any) -> Array: ...
        def __rand__(self, other: Any) -> Array: ...
        def __iand__(self, other: Any) -> Array: ...
        def __or__(self, other: Any) -> Array: ...
        def __ror__(self, other: Any) -> Array: ...
        def __ior__(self, other: Any) -> Array: ...
        def __xor__(self, other: Any) -> Array: ...
        def __rxor__(self, other: Any) -> Array: ...
        def __ixor__(self, other: Any) -> Array: ...
        def __lshift__(self, other: Any) -> Array: ...
        def __rlshift__(self, other: Any) -> Array: ...
        def __ilshift__(self, other: Any) -> Array: ...
        def __rshift__(self, other: Any) -> Array: ...
        def __rrshift__(self, other: Any) -> Array: ...
        def __irshift__(self, other: Any) -> Array: ...
        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...
        def __lt__(self, other: Any) -> Array: ...
        def __le__(self, other: Any) -> Array: ...
        def __gt__(self, other: Any) -> Array: ...
        def __ge__(self, other: Any) -> Array: ...
        def __eq__(self, other: Any) -> Array: ...  # type: ignore[override]  # NumPy's == gives an array, no bool
        def __ne__(self, other: Any) -> Array: ...  # type: ignore[override]  # nor does its !=

    if TYPE_CHECKING:  # what `methods` gives
        T: Array
        flat: Any
        mT: Array
        real: Array
        imag: Array

        def __matmul__(self, other: Any) -> Array: ...
        def __rmatmul__(self, other: Any) -> Array: ...
        def __imatmul__(self, other: Any) -> Array: ...
        def __divmod__(self, other: Any) -> tuple[Array, Array]: ...
        def __rdivmod__(self, other: Any) -> tuple[Array, Array]: ...
        def __contains__(self, value: object) -> bool: ...
        def __round__(self, ndigits: int | None = None) -> Any: ...
        def __array_namespace__(self, /, *, api_version: str | None = None) -> Any: ...
        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any: ...
        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...
        def __dlpack__(
            self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
        ) -> Any: ...
        def __dlpack_device__(self) -> tuple[int, int]: ...
        def all(self, axis: Any = None, *, out: Any = None, keepdims: bool = False, where: Any = True) -> Array: ...
        def any(self, axis: Any = None, *, out: Any = None, keepdims: bool = False, where: Any = True) -> Array: ...
        def argmax(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Array: ...
        def argmin(self, axis: int | None = None, out: Any = None, *, keepdims: bool = False) -> Array: ...
        def argpartition(
            self, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
        ) -> Array: ...
        def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None, **kwargs: Any) -> Array: ...
        def astype(
            self, dtype: Any, order: str = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True,
            *, device: Any = None,
        ) -> Array: ...  # fmt: skip
        def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Array: ...
        def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Array: ...
        def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Array: ...
        def conj(self) -> Array: ...
        def conjugate(self) -> Array: ...
        def copy(self, order: str = "C") -> Array: ...
        def cumprod(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array: ...
        def cumsum(self, axis: int | None = None, dtype: Any = None, out: Any = None) -> Array: ...
        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array: ...
        def dot(self, b: Any, out: Any = None) -> Array: ...
        def fill(self, value: Any) -> None: ...
        def flatten(self, order: str = "C") -> Array: ...
        def max(self, axis: Any = None, *, out: Any = None, keepdims: bool = False, **kwargs: Any) -> Array: ...
        def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Array: ...
        def min(self, axis: Any = None, *, out: Any = None, keepdims: bool = False, **kwargs: Any) -> Array: ...
        def nonzero(self) -> tuple[Array, ...]: ...
        def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None: ...
        def prod(
            self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any
        ) -> Array: ...
        def put(self, indices: Any, values: Any, mode: str = "raise") -> None: ...
        def ravel(self, order: str = "C") -> Array: ...
        def rechunk(self, /, *, grid: Any = None, process_grid: Any = None) -> Array: ...
        def repeat(self, repeats: Any, axis: int | None = None) -> Array: ...
        def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Array: ...
        def resize(self, *new_shape: Any, refcheck: bool = True) -> None: ...
        def round(self, decimals: int = 0, out: Any = None) -> Array: ...
        def searchsorted(self, x2: Any, /, side: Any = "left", sorter: Any = None) -> Array: ...
        def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None: ...
        def squeeze(self, axis: Any = None) -> Array: ...
        def std(
            self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
            *, correction: float | None = None,
        ) -> Array: ...  # fmt: skip
        def sum(
            self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, **kwargs: Any
        ) -> Array: ...
        def swapaxes(self, axis1: int, axis2: int) -> Array: ...
        def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Array: ...
        def tobytes(self, order: str = "C") -> bytes: ...
        def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None: ...
        def to_device(self, device: Any, /, *, stream: Any = None) -> Array: ...
        def to_local(self) -> dict[tuple[int, ...], np.ndarray]: ...
        def trace(
            self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
        ) -> Array: ...
        def transpose(self, *axes: Any) -> Array: ...
        def view(self, dtype: Any = None, type: Any = None) -> Array: ...
        def var(
            self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
            *, correction: float | None = None,
        ) -> Array: ...  # fmt: skip

    def __repr__(self) -> str:
        """Local, never a superstep: shape, dtype, where the blocks are or that nothing is computed yet, and values.

        Those that every process has are shown as NumPy shows them; else the first block of this process is, with the
        part of the array that it is, and what it says differs between processes.  Of many values the first and the
        last are shown, of more than two axes the first plane.
        """
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
        """As NumPy prints it; of a large array only the edges are brought together.  A collective."""
        return printed(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not world().abstract else printed(self)

    def _repr_html_(self) -> str:
        """The blocks and their owners, for notebooks.  Local."""
        from bsp.arrays.drawing import drawn

        return drawn(self)

    def __reduce__(self) -> Any:
        return wrap, (self._node,)


def _shown(block: np.ndarray) -> str:
    """Return the text of values, after a colon."""
    text = np.array2string(block, separator=", ", threshold=_REPR_VALUES, edgeitems=3)
    return f": {text}" if block.ndim < 2 else f":\n{text}"


def printed(array: Array) -> str:
    """NumPy's text; the middle of what it would leave out is never looked at.  Without values: a placeholder."""
    options = np.get_printoptions()
    edge = options["edgeitems"]
    if array.size <= options["threshold"]:
        return _text(array, array.compute())
    edges = array
    for axis, length in enumerate(array.shape):
        if length > 2 * edge:  # the middle element stands for all that is left out: NumPy prints dots there
            before = (slice(None),) * axis
            parts = [
                edges[(*before, part)] for part in (slice(edge), slice(edge, edge + 1), slice(length - edge, None))
            ]
            edges = _joined(parts, axis)
    with np.printoptions(threshold=0):
        return _text(array, edges.compute())


def _text(array: Array, values: Any) -> str:
    return f"<{array.dtype}{list(array.shape)}>" if world().abstract else np.array_str(np.asarray(values))


def _joined(parts: list[Array], axis: int) -> Array:
    from bsp.arrays.api.manipulation import concat

    return concat(parts, axis=axis)


def whole(node: Node) -> Any:
    """A node's values on this process."""
    (blocks,) = world().evaluate([node], True)
    return _own_view(*blocks.values())


def compute(*arrays: Array) -> tuple[Any, ...]:
    """Several arrays brought to every process by one plan: what they have in common is computed once."""
    found = world().evaluate([array._node for array in arrays], True)
    return tuple(_own_view(*blocks.values()) for blocks in found)


def persist(*arrays: Array) -> tuple[Array, ...]:
    """Several arrays computed by one plan, and left where their blocks are."""
    world().evaluate([array._node for array in arrays], False)
    for array in arrays:
        settled(array)
    return arrays


def _own_view(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        found = found.view()
        found.flags.writeable = False
    return found


def wrap(node: Node) -> Array:
    """An array of a node."""
    array = Array.__new__(Array)
    array._node = node
    return array


# ---------------------------------------------------------------------------------- operators

_new = object.__new__


def _binary(ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflection; the way for arrays and floats is kept short."""
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

    def backward(self: Array, other: Any) -> Any:
        return _general(op, self, other, True)

    return forward, backward


_FLOAT = WEAK[float]


def _general(op: ew.Elementwise, array: Array, other: Any, reflected: bool) -> Any:
    if not _takes(other):
        return NotImplemented
    a, b = array._node, build.operand(other)
    return wrap(build.apply(op, b, a) if reflected else build.apply(op, a, b))


def _equality(ufunc: np.ufunc) -> Callable[..., Any]:
    """== and !=: what is no number, None or text, equals no element."""
    plain, _ = _binary(ufunc)

    def forward(self: Array, other: Any) -> Any:
        if other is None or isinstance(other, (str, bytes)):
            return wrap(build.broadcast(build.strong(build.operand(ufunc is np.not_equal)), self.shape))
        return plain(self, other)

    return forward


def _takes(other: Any) -> bool:
    """Whether arithmetic with it is ours."""
    return isinstance(other, (Array, np.ndarray, np.generic, int, float, complex, bool, list, tuple)) or getattr(
        type(other), "is_abstract_array", False
    )


def _unary(ufunc: np.ufunc) -> Callable[[Array], Array]:
    op = ew.of_ufunc(ufunc)

    def method(self: Array) -> Array:
        node = self._node
        return wrap(Node(op, (node,), ew.infer(op, node.kind)))

    return method


def _in_place(forward: Callable[..., Any], name: str) -> Callable[[Array, Any], Array]:
    def method(self: Array, other: Any) -> Any:
        found = forward(self, other)
        if found is NotImplemented:
            return NotImplemented
        node, dtype = found._node, self.dtype
        if not self.ndim and link_of(self) is None:
            return found  # of a number: the name gets another one, as in NumPy
        if not np.can_cast(node.kind.dtype, dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast {name} output from {node.kind.dtype!r} to {dtype!r} with casting rule 'same_kind'"
            )
        if node.kind.shape != self.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {self.shape} doesn't match the broadcast shape "
                f"{node.kind.shape}"
            )
        store(self, build.cast(node, dtype))
        return self

    return method


_OPERATORS: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_COMPARISONS: dict[str, np.ufunc] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY: dict[str, np.ufunc] = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_POWERS: dict[float, np.ufunc] = {2: np.square, 0.5: np.sqrt, 1: np.positive, -1: np.reciprocal}


def _pow(self: Array, other: Any) -> Any:
    """NumPy's own short ways for squares and roots of floating-point arrays."""
    if type(other) in (int, float) and other in _POWERS and self.dtype.kind in "fc":
        return _unary(_POWERS[other])(self)
    if type(other) is int and other == 2 and self.dtype.kind in "iu":
        return _unary(np.square)(self)
    return _POW[0](self, other)


_POW = _binary(np.power)


def _install() -> None:
    special = {"pow": _pow, "rpow": _POW[1], "ipow": _in_place(_pow, "power"), "hash": None}
    for name, method in special.items():
        setattr(Array, f"__{name}__", method)
    for name, ufunc in _OPERATORS.items():
        forward, backward = _binary(ufunc)
        setattr(Array, f"__{name}__", forward)
        setattr(Array, f"__r{name}__", backward)
        setattr(Array, f"__i{name}__", _in_place(forward, ufunc.__name__))
    for name, ufunc in _COMPARISONS.items():
        setattr(Array, f"__{name}__", _equality(ufunc) if name in ("eq", "ne") else _binary(ufunc)[0])
    for name, ufunc in _UNARY.items():
        setattr(Array, f"__{name}__", _unary(ufunc))


_install()
