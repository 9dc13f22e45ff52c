"""New arrays: each process makes its own blocks.  No words."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.ufuncs import where
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import LayoutError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import Blocks, DType, leaf
from bsp.arrays.expressions.layout import Layout, Shape, asked, ragged
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.kernels.kernels import Task
from bsp.arrays.kernels.shared_errors import current
from bsp.arrays.views import link_of, own
from bsp.values.payload import is_abstract

Grid = int | Sequence[int] | None


def checked_shape(shape: Any) -> Shape:
    """A shape as a tuple of integers; NumPy's errors."""
    found = tuple(int(each.__index__()) for each in shape) if hasattr(shape, "__len__") else (int(shape.__index__()),)
    if any(length < 0 for length in found):
        raise ValueError("negative dimensions are not allowed")
    return found


def _checked_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r}: arrays live in the memory of processes, device 'cpu'")


def layout_for(shape: Shape, grid: Grid = None, process_grid: Grid = None) -> Layout:
    """The layout of `grid=` and `process_grid=`."""

    def normal(given: Grid) -> Shape | None:
        if given is None:
            return None
        return checked_shape(given) if len(shape) != 1 or not isinstance(given, int) else (given,)

    return asked(shape, world().nprocs, normal(grid), normal(process_grid))


def made(
    shape: Shape, dtype: DType, layout: Layout, make: Callable[[Shape, tuple[tuple[int, int], ...]], Any]
) -> Array:
    """A new array from `make(block shape, index ranges)` on each owner."""
    here = world()
    blocks: Blocks = {}
    for at in layout.mine(here.pid):
        box = layout.box(at)
        size = tuple(stop - start for start, stop in box)
        blocks[at] = here.empty(size, dtype) if here.abstract else make(size, box)
    return wrap(leaf(shape, dtype, layout, blocks))


def _of_one(array: Array) -> Array:
    """An array that one made: without axes it is written to in place, where a result without axes is a number."""
    if not array.ndim:
        own(array)
    return array


def _filled(shape: Any, value: Any, dtype: DType, grid: Grid, process_grid: Grid, device: Any) -> Array:
    _checked_device(device)
    found = checked_shape(shape)
    layout = layout_for(found, grid, process_grid)
    return _of_one(made(found, dtype, layout, lambda size, box: np.full(size, value, dtype)))


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, grid: Grid = None, process_grid: Grid = None) -> Array:
    """Zeros."""
    return _filled(shape, 0, element_type(float if dtype is None else dtype), grid, process_grid, device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, grid: Grid = None, process_grid: Grid = None) -> Array:
    """Ones."""
    return _filled(shape, 1, element_type(float if dtype is None else dtype), grid, process_grid, device)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, grid: Grid = None, process_grid: Grid = None) -> Array:
    """Zeros too: what nobody has written must not differ between clones."""
    return zeros(shape, dtype, device=device, grid=grid, process_grid=process_grid)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, grid: Grid = None, process_grid: Grid = None
) -> Array:
    """One value everywhere, or values that broadcast to the shape."""
    if np.ndim(fill_value):
        _checked_device(device)
        node, target = build.strong(build.operand(fill_value)), checked_shape(shape)
        if dtype is not None:
            node = build.cast(node, element_type(dtype))
        node = build.broadcast(node, target)
        return wrap(build.relaid(node, layout_for(target, grid, process_grid))).persist()
    value = fill_value.compute() if isinstance(fill_value, Array) else fill_value
    found = element_type(np.asarray(value).dtype if dtype is None else dtype, "full")
    return _filled(shape, value, found, grid, process_grid, device)


def _like(function: Callable[..., Array]) -> Callable[..., Array]:
    def like(x: Any, /, *args: Any, dtype: Any = None, shape: Any = None, **kwargs: Any) -> Array:
        array = asarray(x)
        kwargs = {name: kwargs[name] for name in kwargs if name not in ("order", "subok")}
        kind = array.dtype if dtype is None else dtype
        found = function(array.shape if shape is None else shape, *args, dtype=kind, **kwargs)
        layout = array.layout
        if shape is None and not {"grid", "process_grid"} & set(kwargs) and found.layout is not layout:
            value = args[0] if args else kwargs.get("fill_value", 1 if function is ones else 0)
            if np.ndim(value) == 0 and not isinstance(value, Array):
                return made(array.shape, found.dtype, layout, lambda size, box: np.full(size, value, found.dtype))
        return found

    given = [Parameter("x", Parameter.POSITIONAL_ONLY)]
    if function is full:
        given.append(Parameter("fill_value", Parameter.POSITIONAL_OR_KEYWORD))
    named = ("dtype", "shape", "device", "grid", "process_grid")
    given += [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in named]
    like.__signature__ = Signature(given)  # type: ignore[attr-defined]  # known to inspect alone
    like.__name__ = like.__qualname__ = f"{function.__name__}_like"
    like.__doc__ = f"`{function.__name__}` of the shape, dtype and layout of x."
    return like


zeros_like, ones_like, empty_like, full_like = (_like(each) for each in (zeros, ones, empty, full))


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """start, start + step, ... before stop."""
    _checked_device(device)
    if _is_time(dtype, start, stop, step):
        return _times(start, stop, step, dtype, grid, process_grid)
    if stop is None:
        start, stop = 0, start
    found = np.asarray([start, stop, step]).dtype if dtype is None else element_type(dtype)
    length = max(0, int(np.ceil((stop - start) / step)))
    first = np.asarray(start).astype(found)
    delta = (np.asarray(start + step).astype(found) - first) if found.kind != "b" else None

    def make(size: Shape, box: Any) -> Any:
        if found.kind == "b":
            return np.arange(start, stop, step)[slice(*box[0])].astype(found)
        return (first + np.arange(box[0][0], box[0][1]).astype(found) * delta).astype(found)

    return made((length,), found, layout_for((length,), grid, process_grid), make)


_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


def _is_time(dtype: Any, *given: Any) -> bool:
    """Whether a sequence is one of dates or durations."""
    return any(isinstance(each, _TIMES) for each in given) or (dtype is not None and element_type(dtype).kind in "mM")


def _times(start: Any, stop: Any, step: Any, dtype: Any, grid: Grid, process_grid: Grid) -> Array:
    """arange of dates or durations: whole units of the finest unit given, or of `dtype`'s; NumPy's refusals."""
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

    return made((length,), kind, layout_for((length,), grid, process_grid), make)


def linspace(
    start: Any, stop: Any, /, num: int = 50, *, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    device: Any = None, grid: Grid = None, process_grid: Grid = None,
) -> Any:  # fmt: skip
    """`num` numbers from start to stop; with `retstep` also the distance between two."""
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

    array = made((num,), found, layout_for((num,), grid, process_grid), make)
    return (array, step if num > endpoint else np.float64(np.nan)) if retstep else array


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None) -> Array:
    """`num` powers of `base`, from base^start to base^stop, evenly on a logarithmic scale."""
    found = linspace(start, stop, num, endpoint=endpoint)._node
    powers = build.apply(ew.of_ufunc(np.power), build.operand(base), found)
    return wrap(powers if dtype is None else build.cast(powers, element_type(dtype)))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Array:
    """`num` numbers from start to stop, each the one before times the same."""
    ends = np.geomspace(start, stop, 2)  # NumPy's dtype and refusals
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = ends.dtype if dtype is None else element_type(dtype)
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

    return made((num,), kind, layout_for((num,)), make)


def _window(name: str) -> Callable[..., Array]:
    theirs = getattr(np, name)

    @functools.wraps(theirs)
    def function(*args: Any, **kwargs: Any) -> Array:
        return asarray(theirs(*args, **kwargs))

    function.__doc__ = f"numpy.{name}: a window of M points, made on every process.  No words."
    return function


bartlett, blackman, hamming, hanning, kaiser = map(_window, ("bartlett", "blackman", "hamming", "hanning", "kaiser"))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Ones on the k-th diagonal."""
    _checked_device(device)
    shape = checked_shape((n_rows, n_rows if n_cols is None else n_cols))
    found = element_type(float if dtype is None else dtype)
    return made(
        shape, found, layout_for(shape, grid, process_grid),
        lambda size, box: np.eye(size[0], size[1], k + box[0][0] - box[1][0], dtype=found),
    )  # fmt: skip


def identity(n: int, dtype: Any = None) -> Array:
    """The square identity matrix."""
    return eye(n, dtype=dtype)


def from_function(
    function: Callable[..., Any], shape: Any, *, dtype: Any = None, grid: Grid = None, process_grid: Grid = None
) -> Array:
    """function(i, j, ...) of index arrays, called once for each block with the indices of that block.

    It must give each element from its own indices alone, so that the result does not depend on the layout.
    Cost: one superstep without words, in which all processes hear whether the function has raised.
    """
    return world().together("from_function", lambda: of_indices(function, shape, dtype, grid, process_grid))


def of_indices(
    function: Callable[..., Any], shape: Any, dtype: Any = None, grid: Grid = None, process_grid: Grid = None
) -> Array:
    """`from_function` of a function that never raises: no superstep."""
    found = checked_shape(shape)
    sample = np.asarray(function(*[np.zeros((0,) * len(found), np.intp)] * len(found)))
    kind = element_type(sample.dtype if dtype is None else dtype, "from_function")

    def make(size: Shape, box: Any) -> Any:
        ranges = [np.arange(start, stop).reshape([-1 if k == axis else 1 for k in range(len(box))])
                  for axis, (start, stop) in enumerate(box)]  # fmt: skip
        current.task = Task((), box, [])
        return np.ascontiguousarray(np.broadcast_to(function(*np.broadcast_arrays(*ranges)), size), dtype=kind)

    return made(found, kind, layout_for(found, grid, process_grid), make)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **others: Any) -> Array:
    """NumPy's: the indices are of `dtype`."""
    kind = element_type(dtype)
    return from_function(lambda *indices: function(*[each.astype(kind) for each in indices], **others), shape)


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """An array of what every process has alike; each keeps its blocks of it (no words).

    obj : an array of ours, a NumPy array, numbers and nested sequences.  It is the *whole* array and must be equal
        on all processes; what processes have parts of enters by `from_local`.
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
    values = obj if is_abstract(obj) else np.asarray(obj, dtype=kind)
    element_type(values.dtype, "asarray")
    layout = layout_for(values.shape, grid, process_grid)
    return _of_one(wrap(build.from_whole(values, layout)))


def _holds_arrays(obj: Any) -> bool:
    """Whether arrays of ours are in a sequence."""
    return isinstance(obj, (list, tuple)) and any(isinstance(each, Array) or _holds_arrays(each) for each in obj)


def _stacked(obj: Any, dtype: Any) -> Array:
    """A sequence with arrays of ours in it: each is a part of the result, where its blocks are."""
    from bsp.arrays.api.manipulation import stack  # it needs what is here

    parts = [_stacked(each, dtype) if _holds_arrays(each) else asarray(each, dtype=dtype) for each in obj]
    if len({part.shape for part in parts}) > 1:
        shapes = ", ".join(str(part.shape) for part in parts[:4])
        raise ValueError(f"asarray: the parts of a sequence have one shape, not {shapes}")
    return stack(parts)


def array(
    obj: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0, grid: Grid = None,
    process_grid: Grid = None,
) -> Array:  # fmt: skip
    """asarray, a new array unless copy is None or False; axes of length 1 come in front of fewer than `ndmin`."""
    if not isinstance(obj, Array):
        copy = copy or None
    found = asarray(obj, dtype=dtype, copy=copy, grid=grid, process_grid=process_grid)
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def from_local(x: Any, axis: int = 0) -> Array:
    """One array of what each process has: pieces along `axis`, in the order of the processes.

    x : this process's piece; other lengths along `axis` and the dtype are the same everywhere.  It is copied.
    A collective: the lengths go round, p - 1 words, one superstep.  Raises LayoutError if pieces do not fit.
    """
    here = world()
    piece = x if is_abstract(x) else np.asarray(x)
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
    own = piece.copy() if is_abstract(piece) else np.array(piece, order="C")
    blocks = dict.fromkeys(layout.mine(here.pid), own)
    return wrap(leaf(whole, piece.dtype, layout, blocks))


def meshgrid(*arrays: Any, indexing: str = "xy", sparse: bool = False) -> list[Array]:
    """Coordinate arrays; sparse ones have one long axis each, and broadcast against each other."""
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
        index = tuple(slice(None) if axis == place else None for axis in range(len(shape)))
        found.append(wrap(line[index]._node) if sparse else wrap(build.broadcast(line[index]._node, shape)))
    return found


def _triangle(x: Any, k: int, lower: bool) -> Array:
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("tril and triu take arrays of two dimensions or more")
    rows, columns = arange(array.shape[-2]), arange(array.shape[-1])
    keep = columns[None, :] - rows[:, None] <= k if lower else columns[None, :] - rows[:, None] >= k
    zero = np.zeros((), array.dtype)
    return where(keep, array, zero)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """What is on or below the k-th diagonal."""
    return _triangle(x, k, True)


def triu(x: Any, /, *, k: int = 0) -> Array:
    """What is on or above the k-th diagonal."""
    return _triangle(x, k, False)


def copy(x: Any) -> Array:
    """An array of the same values that shares nothing with x (no element is copied: nodes never change)."""
    array = asarray(x)
    found = wrap(build.strong(array._node))
    return found if link_of(array) is None else _of_one(found)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        zeros, ones, empty, full, zeros_like, ones_like, empty_like, full_like, arange, linspace, eye, identity,
        from_function, asarray, array, from_local, meshgrid, tril, triu, copy,
        logspace, geomspace, bartlett, blackman, hamming, hanning, kaiser,
    )
} | {"fromfunction": fromfunction}  # fmt: skip
