"""NumPy's ufunc protocol for arrays: `__call__`, reduce, accumulate, reduceat, outer, at.

- An associative ufunc (`ASSOCIATIVE`) reduces and accumulates as `sum` and `cumsum` do: blocks first, then the partial
  results.  So does `reduceat` at ascending positions: each block reduces its part of each segment.
- For any other ufunc, or other positions, whole lines are brought together and reduced (see `lines`).
- `at` is an assignment that combines; the owners of the elements do it, in the order of the positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import contraction, manipulation, reductions, ufuncs
from bsp.arrays.api.creation import asarray
from bsp.arrays.array import NO_VALUE, Array, _takes, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, layout_of
from bsp.arrays.gathering import brought
from bsp.arrays.indexing import parts_of
from bsp.arrays.kernels import aggregates as ag
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.lines import LineFunction, of_lines
from bsp.arrays.procedures.operands import computed, layout_at, made_of
from bsp.arrays.selection import selecting
from bsp.declared import Costs, Reported, declares
from bsp.values.payload import is_abstract, is_array


def array_ufunc(self: Array, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """Implement `Array.__array_ufunc__`: call a ufunc, or one of its methods, with arrays."""
    if method == "at":
        return _at(ufunc, *inputs)
    if not all(_takes(each) for each in inputs):
        return NotImplemented
    if "out" in kwargs and isinstance(kwargs["out"], tuple) and ufunc.nout == 1:
        (kwargs["out"],) = kwargs["out"]
    if method == "__call__" and ufunc in _PRODUCTS:
        return _product(ufunc, *inputs, **kwargs)
    if ufunc.signature is not None:
        return NotImplemented
    return _METHODS[method](ufunc, *inputs, **kwargs)


_PRODUCTS: dict[Any, Callable[..., Array]] = {
    found: getattr(contraction, name)
    for name in ("matmul", "vecdot", "matvec", "vecmat")
    if (found := getattr(np, name, None)) is not None
}


def _product(ufunc: np.ufunc, a: Any, b: Any, /, out: Any = None, dtype: Any = None, **others: Any) -> Any:
    """Call a product of matrices and vectors with the arguments of a ufunc."""
    axis = others.pop("axis", -1) if ufunc is np.vecdot else -1
    casting = others.pop("casting", "same_kind")
    if others:
        raise TypeError(f"{ufunc.__name__}: arrays take out, dtype, casting and axis, not {sorted(others)}")
    given = [wrap(build.strong(build.operand(each))) for each in (a, b)]
    typed: dict[str, Any] = {} if dtype is None else {"signature": (None, None, element_type(dtype))}
    *kinds, _ = ufunc.resolve_dtypes((*[each.dtype for each in given], None), casting=casting, **typed)
    if dtype is not None:
        a, b = (ufuncs.astype(each, kind) for each, kind in zip(given, kinds, strict=True))
    found = contraction.vecdot(a, b, axis=axis) if ufunc is np.vecdot else _PRODUCTS[ufunc](a, b)
    return ufuncs.into(found, out, name=ufunc.__name__, casting=casting)


def _outer(ufunc: np.ufunc, x: Any, y: Any, **kwargs: Any) -> Any:
    a, b = (wrap(build.strong(build.operand(each))) for each in (x, y))
    return ufuncs.called(ufunc, a[(..., *[None] * b.ndim)], b, **kwargs)


# ------------------------------------------------------------------------- reduce, accumulate


def _reduce(
    ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = NO_VALUE, where: Any = True,
) -> Any:  # fmt: skip
    array = asarray(x)
    if initial is np._NoValue:  # NumPy's mark of an argument that is not given
        initial = NO_VALUE
    if not array.ndim and axis in (0, -1):
        axis = ()
    if ufunc in (np.logical_and, np.logical_or) and initial is NO_VALUE and dtype is None:
        plain = reductions.all if ufunc is np.logical_and else reductions.any
        return plain(array, axis=axis, out=out, keepdims=keepdims, where=where)
    if ufunc in ag.ASSOCIATIVE:
        build.reduced_axes(axis, array.ndim)
        ufunc.reduce(np.ones(1, array.dtype), dtype=dtype)  # raises NumPy's error for bad dtypes
        whole = reductions.of_ufunc(ufunc)
        return whole(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)
    axes = build.reduced_axes(axis, array.ndim)
    given: dict[str, Any] = {} if initial is NO_VALUE else {"initial": initial}
    sample = ufunc.reduce(np.ones(1, array.dtype), dtype=dtype, keepdims=True, **given)  # its dtype, or NumPy's error
    if len(axes) > 1:
        what = f"reduction operation '{ufunc.__name__}' is not reorderable"
        raise ValueError(f"{what}, so at most one axis may be specified")
    mask = None if where is True else wrap(build.broadcast(ufuncs.mask_of(where), array.shape))
    if axes:
        (place,) = axes
    else:  # each element is reduced, by itself, with `initial`
        place, keepdims = array.ndim, False
        array = manipulation.expand_dims(array, axis=place)
        mask = None if mask is None else manipulation.expand_dims(mask, axis=place)
    if not array.shape[place] and not given:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    if mask is not None:
        ufunc.reduce(np.ones(1), where=np.ones(1, bool), **given)  # raises NumPy's error for a mask without `initial`
        how = LineFunction(f"{ufunc.__name__}.reduce", lambda lines, held: ufunc.reduce(
            lines, axis=-1, dtype=dtype, where=held, **given
        ))  # fmt: skip
        found = of_lines(how, [array, mask], place, (), sample.dtype)
    else:
        how = LineFunction(f"{ufunc.__name__}.reduce", lambda lines: ufunc.reduce(lines, axis=-1, dtype=dtype, **given))
        found = of_lines(how, [array], place, (), sample.dtype)
    return ufuncs.into(manipulation.expand_dims(found, axis=place) if keepdims else found, out)


def _one_axis(ufunc: np.ufunc, array: Array, axis: Any, method: str) -> int:
    if not array.ndim:
        raise TypeError(f"cannot {method} on a scalar")
    if axis is None or isinstance(axis, tuple):
        axes = build.reduced_axes(axis, array.ndim)
        if len(axes) != 1:
            raise ValueError(f"{method} does not allow multiple axes")
        return axes[0]
    return build.normal_axis(axis, array.ndim)


def _accumulate(ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    array = asarray(x)
    place = _one_axis(ufunc, array, axis, "accumulate")
    if dtype is None and isinstance(out, Array) and ufunc in (np.add, np.multiply):
        dtype = np.result_type(array, out)
    kind: DType = ufunc.accumulate(np.ones(1, array.dtype), dtype=dtype).dtype
    if ufunc in ag.ASSOCIATIVE:
        return ufuncs.into(reductions.accumulated(ag.of_ufunc(ufunc), array, place, kind), out)
    how = LineFunction(f"{ufunc.__name__}.accumulate", lambda lines: ufunc.accumulate(lines, axis=-1, dtype=dtype))
    found = of_lines(how, [array], place, (array.shape[place],), kind)
    return ufuncs.into(manipulation.moveaxis(found, -1, place), out)


# ------------------------------------------------------------------------------------ reduceat


def _reduceat(ufunc: np.ufunc, x: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    array = asarray(x)
    place = _one_axis(ufunc, array, axis, "reduceat")
    at: Any = brought(f"{ufunc.__name__}.reduceat: indices", indices)
    if not is_array(at):
        at = np.asarray(at, dtype=np.intp)  # lists and numbers are cast, as NumPy does
    if at.ndim != 1:
        raise ValueError("object too deep for desired array" if at.ndim else "object of too small depth")
    if at.dtype.kind not in "biu":
        raise TypeError(f"Cannot cast array data from {at.dtype!r} to dtype('int64') according to the rule 'safe'")
    length = array.shape[place]
    at = _in_range(at, length, ufunc)
    kind: DType = ufunc.reduceat(np.ones(1, array.dtype), [0], dtype=dtype).dtype
    if ufunc in ag.ASSOCIATIVE and _ascending(at):
        elements = array != 0 if kind.kind == "b" else array.astype(kind)  # complex numbers have a truth, too
        return ufuncs.into(_segments(ufunc, elements, at, place), out)
    how = LineFunction(f"{ufunc.__name__}.reduceat", lambda lines: ufunc.reduceat(lines, at, axis=-1, dtype=dtype))
    found = of_lines(how, [array], place, at.shape, kind)
    return ufuncs.into(manipulation.moveaxis(found, -1, place), out)


@declares(lambda costs, at, length, ufunc: at)
def _in_range(at: Any, length: int, ufunc: np.ufunc) -> Any:
    """Return the starts of segments as integers; raise NumPy's IndexError if one is out of range."""
    at = at.astype(np.intp)
    wrong = at[(at < 0) | (at >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} out-of-bounds in {ufunc.__name__}.reduceat [0, {length})")
    return at


def _ascending_cost(costs: Costs, at: Any) -> bool:
    """Declare `_ascending`: False for integers without values, so that the forecast has whole lines reduced."""
    return isinstance(at, np.ndarray) and not (np.diff(at) < 0).any()


@declares(_ascending_cost)
def _ascending(at: Any) -> bool:
    """Return whether no integer is less than the one before it."""
    return not (np.diff(at) < 0).any()


@procedure
def _segments(ufunc: np.ufunc, array: Array, at: np.ndarray, place: int) -> Array:
    """Reduce segments of an axis by an associative ufunc; every process has the starts of the segments.

    Collective.  The result of a segment is on the process of its first element; later blocks of it send their part.
    Cost: nothing if the axis is not dealt; else one superstep, one plane across the axis for each block.
    """
    here = world()
    (node,) = computed(build.strong(array._node))
    layout = layout_at(node)
    if layout.table is not None:
        (node,) = computed(build.relaid(node, automatic(node.kind.shape, here.nprocs, False)))
        layout = layout_at(node)
    return _Segments(here, ufunc, node.kind.dtype, layout, at, place).of(node.value)


class _Segments:
    """One reduceat of the blocks of an array: the ends of the segments, and the layout of the result."""

    def __init__(self, here: World, ufunc: np.ufunc, dtype: DType, layout: Layout, at: np.ndarray, place: int) -> None:
        self.here, self.ufunc, self.dtype = here, ufunc, dtype
        self.layout, self.at, self.place = layout, at, place
        axis = layout.axes[place]
        self.bounds = axis.bounds
        length = axis.length
        following = np.append(at[1:], length)
        self.ends = np.where(following > at, following, at + 1)
        cuts = np.searchsorted(at, self.bounds)
        cuts[0], cuts[-1] = 0, at.size
        self.cuts = cuts
        one = axis.parts == 1
        axes = list(layout.axes)
        axes[place] = Axis(at.size) if one else Axis(
            at.size, axis.parts, axis.deal, axis.stride, tuple(int(cut) for cut in cuts)
        )  # fmt: skip
        self.target = layout_of(tuple(axes), layout.replicated)

    def of(self, blocks: Any) -> Array:
        """Return the result for the blocks of this process.  Collective if the axis is dealt."""
        here, layout = self.here, self.layout
        mine = [()] if not layout.axes else layout.mine(here.pid)
        results = {at: self._own(at, blocks[at]) for at in mine}
        out = []
        for at in mine:
            to = self._owner(at)
            if to is not None:
                part = self._carried(at, blocks[at])
                pid = int(layout.owner[to])
                if pid == here.pid:
                    continue
                out.append((pid, part))
        if layout.axes[self.place].deal > 1:
            self._merged(results, blocks, here.exchange("segments that go on", out))
        elif layout.axes[self.place].parts > 1:
            self._merged(results, blocks, [])
        shape = tuple(axis.length for axis in self.target.axes)
        return made_of(shape, self.dtype, self.target, results)

    def _own(self, at: Shape, block: Any) -> Any:
        """Return the reductions of the segments that begin in a block, up to the end of the block."""
        part = at[self.place]
        starts = self.at[self.cuts[part] : self.cuts[part + 1]] - int(self.bounds[part])
        return _reduced_segments(self.ufunc, block, starts, self.place, self.dtype)

    def _owner(self, at: Shape) -> Shape | None:
        """Return the block in which the segment begins that continues into this one; None if none continues."""
        part = at[self.place]
        low, high = int(self.bounds[part]), int(self.bounds[part + 1])
        before = int(self.cuts[part]) - 1
        if before < 0 or high == low or self.ends[before] <= low:
            return None
        first = int(np.searchsorted(self.bounds, self.at[before], side="right")) - 1
        return (*at[: self.place], first, *at[self.place + 1 :])

    def _carried(self, at: Shape, block: Any) -> Any:
        """Return the reduction of a block's part of the segment that continues into it."""
        part = at[self.place]
        stop = min(int(self.ends[int(self.cuts[part]) - 1]), int(self.bounds[part + 1])) - int(self.bounds[part])
        return _reduced_line(self.ufunc, block, stop, self.place, self.dtype)

    def _merged(self, results: dict[Shape, Any], blocks: Any, arrived: Any) -> None:
        """Combine parts with the last segment of the block where it begins, in the order of the axis, in place."""
        here, layout = self.here, self.layout
        parts: list[tuple[int, Shape, Any]] = []
        pieces = iter(arrived)
        for pid in range(here.nprocs):
            for at in layout.mine(pid):
                to = self._owner(at)
                if to is None or int(layout.owner[to]) != here.pid:
                    continue
                piece = self._carried(at, blocks[at]) if pid == here.pid else next(pieces)[1]
                parts.append((at[self.place], to, piece))
        for _, to, piece in sorted(parts, key=lambda each: each[:2]):
            _add_to_last(self.ufunc, results[to], piece, self.place)


def _reduced_segments_cost(
    costs: Reported, ufunc: np.ufunc, block: Any, starts: np.ndarray, place: int, dtype: DType
) -> Any:
    """Declare the cost of `_reduced_segments`: one operation for each element."""
    ufunc(block, block)
    return costs.memory((*block.shape[:place], starts.size, *block.shape[place + 1 :]), dtype)


@declares(_reduced_segments_cost)
def _reduced_segments(ufunc: np.ufunc, block: Any, starts: np.ndarray, place: int, dtype: DType) -> Any:
    """Return the reductions of the segments of a block that begin at `starts`."""
    if not starts.size:
        return world().empty((*block.shape[:place], 0, *block.shape[place + 1 :]), dtype)
    return ufunc.reduceat(block, starts, axis=place, dtype=ag.typed(dtype))


def _reduced_line_cost(costs: Reported, ufunc: np.ufunc, block: Any, stop: int, place: int, dtype: DType) -> Any:
    """Declare the cost of `_reduced_line`."""
    return costs.memory((*block.shape[:place], *block.shape[place + 1 :]), dtype)


@declares(_reduced_line_cost)
def _reduced_line(ufunc: np.ufunc, block: Any, stop: int, place: int, dtype: DType) -> Any:
    """Return the reduction of the first `stop` elements of a block along an axis."""
    key = (slice(None),) * place + (slice(0, stop),)
    return np.asarray(ufunc.reduce(block[key], axis=place, dtype=ag.typed(dtype)))


@declares(lambda costs, ufunc, block, piece, place: None)
def _add_to_last(ufunc: np.ufunc, block: Any, piece: Any, place: int) -> None:
    """Combine the last plane of a block along an axis with a piece, in place."""
    last = block[(slice(None),) * place + (slice(-1, None),)]
    ufunc(last, np.expand_dims(piece, place), out=last)


# ------------------------------------------------------------------------------------------ at


class _Combining:
    """The store function of `ufunc.at`; a class, so that it has a name and the ufunc as an attribute."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self.ufunc = ufunc

    def __call__(self, view: Any, index: Any, values: Any) -> None:
        if self.ufunc.nin == 1:
            self.ufunc.at(view, index)
        else:
            self.ufunc.at(view, index, values)


def _at(ufunc: np.ufunc, x: Any, indices: Any, values: Any = 0) -> None:
    """Assign x[indices] = ufunc(x[indices], values); repeated positions are combined repeatedly, in their order."""
    if (isinstance(x, np.ndarray) or is_abstract(x)) and world().as_numpy:  # a script's small array, which is whole
        dealt = asarray(x)
        _at(ufunc, dealt, indices, values)
        x[...] = dealt.compute()
        return
    if not isinstance(x, Array):
        raise TypeError(f"{ufunc.__name__}.at changes an array of bsp.arrays, not {type(x).__name__}")
    if ufunc.signature is not None or ufunc.nin > 2 or ufunc.nout > 1:
        raise TypeError(f"{ufunc.__name__}.at: only ufuncs of one or two arguments and one result")
    given = values if isinstance(values, Array) else np.asarray(values)
    with np.errstate(all="ignore"):  # raises NumPy's error for bad dtypes on every process, with elements or without
        one, other = np.ones(1, x.dtype), np.ones(1, given.dtype)
        ufunc.at(*((one, [0]) if ufunc.nin == 1 else (one, [0], other)))
    parts, advanced = parts_of(indices)
    if advanced:
        selecting.put(x, parts, given, _Combining(ufunc))
        return
    chosen = x[indices]
    if ufunc.nin == 1:
        found = ufuncs.called(ufunc, chosen)
    else:
        found = ufuncs.called(ufunc, chosen, wrap(build.broadcast(asarray(given)._node, chosen.shape)))
    x[indices] = ufuncs.astype(found, x.dtype)


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": ufuncs.called, "reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat, "outer": _outer,
}  # fmt: skip
