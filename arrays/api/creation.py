"""Functions that make new arrays.  Each process makes its own blocks; no words are sent.

`grid` is the number of blocks along each axis, `process_grid` the number of processes; None lets the library choose.
`dtype` None is float64, or follows from the values given.  `device` is None or "cpu".
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any, Literal, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.ufuncs import where
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import LayoutError
from bsp.arrays.execution.world import filled, world
from bsp.arrays.expressions.element_types import element_type, given_values
from bsp.arrays.expressions.graph import Blocks, DType, leaf
from bsp.arrays.expressions.layout import Layout, Shape, asked, ragged
from bsp.arrays.expressions.merging import cut
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.kernels.kernels import StageTask
from bsp.arrays.kernels.shared_errors import current
from bsp.arrays.typing import ArrayLike, Device, DTypeLike, Grid, Int, Scalar, ShapeLike, Time
from bsp.arrays.views import link_of, own
from bsp.values.payload import is_abstract

__all__ = [
    "arange", "array", "asarray", "bartlett", "blackman", "copy", "empty", "empty_like", "eye", "from_function",
    "from_local", "fromfunction", "full", "full_like", "geomspace", "hamming", "hanning", "identity", "kaiser",
    "linspace", "logspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def checked_shape(shape: Any) -> Shape:
    """Return a shape as a tuple of integers; raises NumPy's errors."""
    several = hasattr(shape, "__len__") and getattr(shape, "ndim", 1) != 0
    found = tuple(map(index, shape)) if several else (index(shape),)
    if any(length < 0 for length in found):
        raise ValueError("negative dimensions are not allowed")
    return found


def _checked_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r}: arrays live in the memory of processes, device 'cpu'")


def layout_for(shape: Shape, grid: Grid = None, process_grid: Grid = None) -> Layout:
    """Return the layout that `grid=` and `process_grid=` describe."""

    def normal(given: Grid) -> Shape | None:
        if given is None:
            return None
        return checked_shape(given) if len(shape) != 1 or not isinstance(given, int) else (given,)

    return asked(shape, world().nprocs, normal(grid), normal(process_grid))


def made(
    shape: Shape, dtype: DType, layout: Layout, make: Callable[[Shape, tuple[tuple[int, int], ...]], Any], *given: Any
) -> Array:
    """Return a new array; each owner of a merged block calls `make(block shape, index ranges)` for it.

    given : what `make` depends on, besides; it must be the same on every process (`World.give`).
    """
    here, merged = world(), layout.merged
    blocks: Blocks = {}
    for at in merged.mine(here.pid):
        box = merged.box(at)
        size = tuple(stop - start for start, stop in box)
        blocks[at] = filled(size, dtype, partial(make, size, box))
    node = leaf(shape, dtype, layout, cut(layout, blocks))
    if given:
        here.give(node, *given)
    return wrap(node)


def _of_one(array: Array) -> Array:
    """Return the array; make one without axes writable in place, which results without axes are not."""
    if not array.ndim:
        own(array)
    return array


def _filled(shape: Any, value: Any, dtype: DType, grid: Grid, process_grid: Grid, device: Any) -> Array:
    _checked_device(device)
    found = checked_shape(shape)
    layout = layout_for(found, grid, process_grid)
    return _of_one(made(found, dtype, layout, lambda size, box: np.full(size, value, dtype)))


def zeros(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return an array of zeros."""
    return _filled(shape, 0, element_type(float if dtype is None else dtype), grid, process_grid, device)


def ones(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return an array of ones."""
    return _filled(shape, 1, element_type(float if dtype is None else dtype), grid, process_grid, device)


def empty(
    shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return an array of zeros: memory that nobody has written would differ between clones."""
    return zeros(shape, dtype, device=device, grid=grid, process_grid=process_grid)


def full(
    shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, device: Device = None,
    grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return an array of one value, or of values that broadcast to the shape.

    fill_value : a number, or an array.  A distributed array is computed first: a collective.
    """
    values: Any = fill_value
    if np.ndim(values):
        _checked_device(device)
        node, target = build.strong(build.operand(values)), checked_shape(shape)
        if dtype is not None:
            node = build.cast(node, element_type(dtype))
        node = build.broadcast(node, target)
        return wrap(build.relaid(node, layout_for(target, grid, process_grid))).persist()
    value = values.compute() if isinstance(values, Array) else values
    found = element_type(np.asarray(value).dtype if dtype is None else dtype, "full")
    if not is_abstract(value):
        value = np.full((), value, found)[()]  # an error on every process, not only on those that have blocks
    array = _filled(shape, value, found, grid, process_grid, device)
    world().give(array._node, value)
    return array


def _alike(
    function: Callable[..., Array], x: ArrayLike, value: Any, dtype: DTypeLike | None, shape: ShapeLike | None,
    device: Device, grid: Grid, process_grid: Grid,
) -> Array:  # fmt: skip
    """Return `function` of the shape, dtype and layout of x, where no others are given."""
    array = asarray(x)
    kind = array.dtype if dtype is None else dtype
    values = () if value is None else (value,)
    found = function(
        array.shape if shape is None else shape, *values, dtype=kind, device=device, grid=grid,
        process_grid=process_grid,
    )  # fmt: skip
    layout = array.layout
    if shape is None and grid is None and process_grid is None and found.layout is not layout:
        number = (1 if function is ones else 0) if value is None else value
        if np.ndim(number) == 0 and not isinstance(number, Array):
            return made(array.shape, found.dtype, layout, lambda size, box: np.full(size, number, found.dtype), number)
    return found


def zeros_like(
    x: ArrayLike, /, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None, device: Device = None,
    grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return zeros in the shape, dtype and layout of x."""
    return _alike(zeros, x, None, dtype, shape, device, grid, process_grid)


def ones_like(
    x: ArrayLike, /, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None, device: Device = None,
    grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return ones in the shape, dtype and layout of x."""
    return _alike(ones, x, None, dtype, shape, device, grid, process_grid)


def empty_like(
    x: ArrayLike, /, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None, device: Device = None,
    grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return `empty`, which is zeros, in the shape, dtype and layout of x."""
    return _alike(empty, x, None, dtype, shape, device, grid, process_grid)


def full_like(
    x: ArrayLike, /, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None,
    device: Device = None, grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return one value, or values that broadcast, in the shape, dtype and layout of x."""
    return _alike(full, x, fill_value, dtype, shape, device, grid, process_grid)


def arange(
    start: Scalar | Time, /, stop: Scalar | Time | None = None, step: Scalar | Time = 1, *,
    dtype: DTypeLike | None = None, device: Device = None, grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return the numbers, dates or durations start, start + step, ... that come before stop.

    Called with one argument, it starts at 0.
    """
    _checked_device(device)
    if _is_time(dtype, start, stop, step):
        return _times(start, stop, step, dtype, grid, process_grid)
    low: Any = 0 if stop is None else start
    high: Any = start if stop is None else stop
    by: Any = step
    found = np.asarray([low, high, by]).dtype if dtype is None else element_type(dtype)
    length = max(0, int(np.ceil((high - low) / by)))
    first, second = (np.asarray(each if length > k else 0, found) for k, each in enumerate((low, low + by)))
    delta: Any = second - first if found.kind != "b" else None

    def make(size: Shape, box: Any) -> Any:
        if found.kind == "b":
            return np.arange(low, high, by)[slice(*box[0])].astype(found)
        numbers = np.arange(box[0][0], box[0][1]).astype(found, copy=False)
        if delta != 1:
            numbers *= delta
        if first != 0 or delta.real < 0:  # 0 times a step below 0 is -0.0
            numbers += first
        return numbers

    return made((length,), found, layout_for((length,), grid, process_grid), make, low, by)


_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


def _is_time(dtype: Any, *given: Any) -> bool:
    """Return True if the sequence is one of dates or durations."""
    return any(isinstance(each, _TIMES) for each in given) or (dtype is not None and element_type(dtype).kind in "mM")


def _times(start: Any, stop: Any, step: Any, dtype: Any, grid: Grid, process_grid: Grid) -> Array:
    """Return `arange` of dates or durations; raises what NumPy raises.

    The step is a whole number of the finest unit that is given, or of the unit of `dtype`.
    """
    if dtype is None:
        names = {datetime.timedelta: "m8", datetime.date: "M8", datetime.datetime: "M8"}
        kinds = [np.asarray(each, names.get(type(each))).dtype for each in (start, stop, step) if _is_time(None, each)]
        kind = np.result_type(*kinds)
    else:
        kind = element_type(dtype)
    if stop is None:
        if kind.kind == "M":
            raise ValueError("arange requires both a start and a stop for NumPy datetime64 ranges")
        start, stop = 0, start
    span = np.dtype(kind.str.replace("M8", "m8"))

    def units(value: Any, dtype: DType) -> int:
        found = np.asarray(value).astype(dtype) if isinstance(value, np.generic) else np.asarray(value, dtype)
        if np.isnat(found):
            raise ValueError("arange: cannot use NaT (not-a-time) datetime values")
        return int(found.astype(np.int64))

    first = units(start, kind)
    relative = kind.kind == "M" and isinstance(stop, (int, np.integer, np.timedelta64, datetime.timedelta))
    if relative and not isinstance(start, (int, np.integer)):
        last = first + units(stop, span)
    else:
        last = units(stop, kind)
    by = units(1 if step is None else step, span)
    if not by:
        raise ValueError("arange: step cannot be zero")
    length = max(0, -(-(last - first) // by))

    def make(size: Shape, box: Any) -> Any:
        return (first + np.arange(*box[0], dtype=np.int64) * by).view(kind)

    return made((length,), kind, layout_for((length,), grid, process_grid), make, first, by)


@overload
def linspace(
    start: Scalar, stop: Scalar, /, num: int = 50, endpoint: bool = True, retstep: Literal[False] = False,
    dtype: DTypeLike | None = None, *, device: Device = None, grid: Grid = None, process_grid: Grid = None,
) -> Array: ...  # fmt: skip
@overload
def linspace(
    start: Scalar, stop: Scalar, /, num: int = 50, endpoint: bool = True, *, retstep: Literal[True],
    dtype: DTypeLike | None = None, device: Device = None, grid: Grid = None, process_grid: Grid = None,
) -> tuple[Array, np.generic]: ...  # fmt: skip
@overload
def linspace(
    start: Scalar, stop: Scalar, /, num: int, endpoint: bool, retstep: Literal[True],
    dtype: DTypeLike | None = None, *, device: Device = None, grid: Grid = None, process_grid: Grid = None,
) -> tuple[Array, np.generic]: ...  # fmt: skip
def linspace(
    start: Scalar, stop: Scalar, /, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, *, device: Device = None, grid: Grid = None, process_grid: Grid = None,
) -> Any:  # fmt: skip
    """Return `num` evenly spaced numbers from start to stop; with `retstep` also the distance between neighbours.

    endpoint : whether stop is the last of them.
    """
    _checked_device(device)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    exact = np.result_type(start, stop, float(num))
    found = exact if dtype is None else element_type(dtype)
    parts = max(num - 1 if endpoint else num, 1)
    delta = np.subtract(stop, start, dtype=exact)
    step = delta / parts

    def make(size: Shape, box: Any) -> Any:
        at = np.arange(box[0][0], box[0][1], dtype=float)
        values = at * step + start if step != 0 else at / parts * delta + start
        if endpoint and num > 1 and box[0][1] == num and box[0][0] < num:
            values[-1] = stop
        return (np.floor(values) if found.kind in "iu" else values).astype(found)

    array = made((num,), found, layout_for((num,), grid, process_grid), make, start, stop, endpoint)
    return (array, step if num > endpoint else np.float64(np.nan)) if retstep else array


def logspace(
    start: Scalar, stop: Scalar, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Return `num` powers of `base`, from base^start to base^stop, evenly spaced on a logarithmic scale."""
    found = linspace(start, stop, num, endpoint=endpoint)._node
    powers = build.apply(ew.of_ufunc(np.power), build.operand(base), found)
    return wrap(powers if dtype is None else build.cast(powers, element_type(dtype)))


def geomspace(
    start: complex, stop: complex, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """Return `num` numbers from start to stop with a constant ratio between neighbours."""
    kind = None if dtype is None else element_type(dtype)
    ends = np.geomspace(start, stop, 2)  # for NumPy's dtype, and its errors for bad input
    if kind is not None:  # complex numbers go round 0, real ones do not
        ends = np.geomspace(start, stop, 2, dtype=np.result_type(ends, kind))
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = ends.dtype if kind is None else kind
    sign = np.sign(ends[0])
    low, high = ends / sign
    first = np.log10(low)
    step = (np.log10(high) - first) / max(num - 1 if endpoint else num, 1)

    def make(size: Shape, box: Any) -> Any:
        ((begin, end),) = box
        values = np.power(10.0, np.arange(begin, end, dtype=float) * step + first).astype(ends.dtype)
        if begin == 0 and size[0]:
            values[0] = low
        if endpoint and num > 1 and size[0] and end == num:
            values[-1] = high
        return (values * sign).astype(kind)

    return made((num,), kind, layout_for((num,)), make, ends, endpoint)


def bartlett(M: int) -> Array:
    """Return numpy.bartlett: a window of M points, made on every process.  No words."""
    return asarray(np.bartlett(M))


def blackman(M: int) -> Array:
    """Return numpy.blackman: a window of M points, made on every process.  No words."""
    return asarray(np.blackman(M))


def hamming(M: int) -> Array:
    """Return numpy.hamming: a window of M points, made on every process.  No words."""
    return asarray(np.hamming(M))


def hanning(M: int) -> Array:
    """Return numpy.hanning: a window of M points, made on every process.  No words."""
    return asarray(np.hanning(M))


def kaiser(M: int, beta: float) -> Array:
    """Return numpy.kaiser: a window of M points of shape `beta`, made on every process.  No words."""
    return asarray(np.kaiser(M, beta))


def eye(
    n_rows: Int, n_cols: Int | None = None, /, k: int = 0, dtype: DTypeLike | None = None, *, device: Device = None,
    grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return a matrix with ones on the k-th diagonal and zeros elsewhere."""
    _checked_device(device)
    shape = checked_shape((n_rows, n_rows if n_cols is None else n_cols))
    found = element_type(float if dtype is None else dtype)
    return made(
        shape, found, layout_for(shape, grid, process_grid),
        lambda size, box: np.eye(size[0], size[1], k + box[0][0] - box[1][0], dtype=found), k,
    )  # fmt: skip


def identity(n: Int, dtype: DTypeLike | None = None) -> Array:
    """Return the square identity matrix of n rows."""
    return eye(n, dtype=dtype)


def from_function(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike | None = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return the values function(i, j, ...) of index arrays; it is called once for each block, with its indices.

    The function must compute each element from its own indices alone, so that the result does not depend on the layout.
    Cost: one superstep without words, in which all processes agree whether the function has raised.
    """
    return world().together("from_function", lambda: of_indices(function, shape, dtype, grid, process_grid))


def of_indices(
    function: Callable[..., Any], shape: Any, dtype: Any = None, grid: Grid = None, process_grid: Grid = None
) -> Array:
    """Return `from_function` of a function that never raises; takes no superstep."""
    found = checked_shape(shape)
    sample = np.asarray(function(*[np.zeros((0,) * len(found), np.intp)] * len(found)))
    kind = element_type(sample.dtype if dtype is None else dtype, "from_function")

    def make(size: Shape, box: Any) -> Any:
        ranges = [np.arange(start, stop).reshape([-1 if k == axis else 1 for k in range(len(box))])
                  for axis, (start, stop) in enumerate(box)]  # fmt: skip
        current.task = StageTask((), box, [])
        return np.ascontiguousarray(np.broadcast_to(function(*np.broadcast_arrays(*ranges)), size), dtype=kind)

    return made(found, kind, layout_for(found, grid, process_grid), make)


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, **others: Any
) -> Array:  # fmt: skip
    """Return the values of a function of index arrays, as numpy.fromfunction does; see `from_function`.

    dtype : of the index arrays.   others : further arguments of the function.
    """
    kind = element_type(dtype)
    return from_function(lambda *indices: function(*[each.astype(kind) for each in indices], **others), shape)


def asarray(
    obj: ArrayLike, /, dtype: DTypeLike | None = None, *, device: Device = None, copy: bool | None = None,
    grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return an array of values that are equal on every process; each process keeps its blocks.  No words are sent.

    obj : a distributed array, a NumPy array, numbers and nested sequences.  It is the *whole* array and must be equal
        on all processes; `from_local` takes one part from each process.
    copy : True copies a distributed array; False raises ValueError where a copy is needed.
    """
    _checked_device(device)
    if isinstance(obj, Array):
        node = obj._node if dtype is None else build.cast(obj._node, element_type(dtype))
        if grid is not None or process_grid is not None:
            return wrap(build.relaid(node, layout_for(node.kind.shape, grid, process_grid)))
        if node is obj._node and copy is not True:
            return obj
        if copy is False:
            raise ValueError("asarray: another dtype cannot be had without a copy")
        return wrap(node) if link_of(obj) is None else _of_one(wrap(node))
    if copy is False and not isinstance(obj, np.ndarray):
        raise ValueError("asarray: copy=False, but only arrays of ours are taken as they are")
    if _holds_arrays(obj):
        return asarray(_stacked(obj, dtype), grid=grid, process_grid=process_grid).persist()
    kind = None if dtype is None else element_type(dtype, "asarray")
    values = given_values(obj, kind)
    element_type(values.dtype, "asarray")
    layout = layout_for(values.shape, grid, process_grid)
    return _of_one(wrap(build.given(values, layout)))


def _holds_arrays(obj: Any) -> bool:
    """Return whether a sequence contains distributed arrays."""
    return isinstance(obj, (list, tuple)) and any(isinstance(each, Array) or _holds_arrays(each) for each in obj)


def _stacked(obj: Any, dtype: Any) -> Array:
    """Return a sequence that contains distributed arrays as one array; each part stays where its blocks are."""
    from bsp.arrays.api.manipulation import stack  # here, because that module imports this one

    parts = [_stacked(each, dtype) if _holds_arrays(each) else asarray(each, dtype=dtype) for each in obj]
    if len({part.shape for part in parts}) > 1:
        shapes = ", ".join(str(part.shape) for part in parts[:4])
        raise ValueError(f"asarray: the parts of a sequence have one shape, not {shapes}")
    return stack(parts)


def array(
    obj: ArrayLike, dtype: DTypeLike | None = None, *, copy: bool | None = True, ndmin: int = 0, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Return `asarray` of the values, as a new array unless copy is None or False.

    ndmin : the least number of axes; axes of length 1 are added in front.
    """
    if not isinstance(obj, Array):
        copy = copy or None
    found = asarray(obj, dtype=dtype, copy=copy, grid=grid, process_grid=process_grid)
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def from_local(x: ArrayLike, axis: int = 0) -> Array:
    """Return one array of the pieces that the processes hold, joined along `axis` in the order of the processes.

    x : this process's piece, which is copied.  Lengths along other axes and the dtype must be the same everywhere.
    Collective: the lengths are exchanged, p - 1 words, one superstep.  Raises LayoutError if the pieces do not fit.
    """
    here = world()
    piece = given_values(x)
    if not piece.ndim:
        raise LayoutError("from_local of a number: a piece has at least one axis")
    axis = build.normal_axis(axis, piece.ndim)
    told = here.private.allgather((tuple(piece.shape), piece.dtype.str))
    for _, dtype in told:
        element_type(dtype, "from_local")
    rest = {(shape[:axis] + shape[axis + 1 :], kind) for shape, kind in told}
    if len(rest) > 1:
        raise LayoutError(
            f"from_local along axis {axis}: pieces of shapes {[shape for shape, _ in told]} and dtypes "
            f"{[kind for _, kind in told]} make no array"
        )
    counts = [shape[axis] for shape, _ in told]
    whole = (*piece.shape[:axis], sum(counts), *piece.shape[axis + 1 :])
    layout = ragged(whole, axis, counts)
    own = piece.copy()
    blocks = dict.fromkeys(layout.mine(here.pid), own)
    return wrap(leaf(whole, piece.dtype, layout, blocks))


def meshgrid(*arrays: ArrayLike, indexing: Literal["xy", "ij"] = "xy", sparse: bool = False) -> list[Array]:
    """Return coordinate arrays of vectors; sparse ones have one long axis each and broadcast against each other."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing={indexing!r} is none of 'xy', 'ij'")
    given = [asarray(each) for each in arrays]
    if any(each.ndim > 1 for each in given):
        raise ValueError("meshgrid: arguments have at most one dimension")
    lines = [each if each.ndim else each[None] for each in given]
    order = list(range(len(lines)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    shape = tuple(lines[k].shape[0] for k in order)
    found = []
    for k, line in enumerate(lines):
        place = order.index(k)
        lying = line[tuple(slice(None) if axis == place else None for axis in range(len(shape)))]._node
        found.append(wrap(lying) if sparse else wrap(build.broadcast(lying, shape)))
    return found


def _triangle(x: Any, k: int, lower: bool) -> Array:
    array = asarray(x)
    if array.ndim == 0:
        raise ValueError("tril and triu take arrays of one dimension or more: a vector is every row of a matrix")
    m, n = array.shape[-2:][0], array.shape[-1]
    k, kind = max(-m, min(k, n)), np.min_scalar_type(-m - n - 1)  # short numbers are compared faster
    diagonal, columns = arange(k, m + k, dtype=kind)[:, None], arange(n, dtype=kind)[None, :]
    keep = columns <= diagonal if lower else columns >= diagonal
    zero = np.zeros((), array.dtype)
    return where(keep, array, zero)


def tril(x: ArrayLike, /, k: int = 0) -> Array:
    """Return the lower triangle of matrices: what is on or below the k-th diagonal, and zeros above.  Lazy.

    A vector stands for a square matrix, of which it is every row.
    """
    return _triangle(x, k, True)


def triu(x: ArrayLike, /, k: int = 0) -> Array:
    """Return the upper triangle of matrices: what is on or above the k-th diagonal, and zeros below.  Lazy."""
    return _triangle(x, k, False)


def copy(x: ArrayLike) -> Array:
    """Return an array of the same values that shares nothing with x.

    No element is copied: nodes of expressions never change.
    """
    array = asarray(x)
    found = wrap(build.strong(array._node))
    return found if link_of(array) is None else _of_one(found)
