"""Random arrays whose numbers depend on the seed and the shape, and on nothing else.

    rng = ba.random.default_rng(7)
    x = rng.normal(size=(1_000_000, 20))        # the same numbers on 1 process and on 64, in any grid

A generator has NumPy's methods.  Every process makes one with the same seed and draws alike; each draw is numbered,
and its numbers come from tiles of the shape (see `random_tiles`), so they are not those that NumPy's own generator
gives for this seed.  Creation costs no words and no superstep.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import Grid, asarray, checked_shape, layout_for, made
from bsp.arrays.api.manipulation import reshape
from bsp.arrays.api.reductions import cumulative_sum
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, compute, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import LEAF, DType, leaf
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, dealt, layout_of, replicated
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.operands import computed, known, layout_at
from bsp.arrays.random import parameters as random_parameters
from bsp.arrays.random.order import Order
from bsp.arrays.random.parameters import Part
from bsp.arrays.random.tiles import Box, Draw, Span, Streams, Tiles, filled
from bsp.arrays.selection.selecting import take_along_axis
from bsp.arrays.sorting.quantiles import topk
from bsp.arrays.sorting.searching import searchsorted
from bsp.arrays.sorting.sorting import argsort
from bsp.arrays.views import store
from bsp.values.payload import is_abstract

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_INT, _FLOAT = np.dtype(np.int64), np.dtype(float)
_ADVICE = "every tile is drawn with all of it"
_JOB = 0x6A6F62  # keeps the job's seeds apart from a program's own
_UNSEEDED = "arrays.random"  # how many generators a process has made without a seed


class Generator:
    """NumPy's `Generator` for distributed arrays; made by `default_rng`.

    Every method takes NumPy's arguments, and `size=`, `dtype=`, `grid=`, `process_grid=`.  Parameters are numbers, or
    arrays that broadcast to `size`: NumPy's, which are equal on all processes, or ours.  Of one that is dealt each
    process gets what it draws with, in one superstep, and one more tells all processes of parameters out of range; the
    result lies where a parameter of its shape does.  The parameters of vectors (`multivariate_normal`, `dirichlet`,
    `multinomial`) are brought to every process, with a GatherWarning above 16 MB; a dealt p of `choice` is not.
    Without a size and with numbers for parameters the result is a number, the same on every process.
    It can be pickled, and be part of a bsp.State: it then goes on from where it stood.
    """

    __slots__ = ("_draws", "_entropy", "_key", "_spawned")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...  # the distributions that are like all others

    def __init__(self, entropy: int | Sequence[int], key: Sequence[int] = ()) -> None:
        self._entropy = entropy
        self._key = tuple(key)
        self._draws = 0
        self._spawned = 0

    def __repr__(self) -> str:
        return f"<generator of seed {self._entropy}{list(self._key) if self._key else ''} after {self._draws} draws>"

    def spawn(self, n_children: int) -> list[Generator]:
        """Generators of their own, independent of this one and of each other."""
        first, self._spawned = self._spawned, self._spawned + n_children
        return [Generator(self._entropy, (*self._key, k)) for k in range(first, self._spawned)]

    # ------------------------------------------------------------------------- how draws are made

    def _next(self) -> tuple[int, ...]:
        """The key of the next draw."""
        self._draws += 1
        return (*self._key, self._draws - 1)

    def _drawn(
        self, name: str, parameters: Sequence[Any], size: Any, natural: DType, dtype: Any, grid: Grid,
        process_grid: Grid, options: dict[str, Any], core: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        """A distribution of NumPy's: with parameters elementwise, or (core given) of vectors of that shape."""
        here = world()
        key = self._next()
        given = random_parameters.given(here, parameters)
        arrays = [] if core is not None else [each for each in given if getattr(each, "shape", ())]
        if size is None and not arrays and core is None:
            return self._number(here, key, name, given, natural, dtype, options)
        found: Shape = np.broadcast_shapes(*[each.shape for each in arrays]) if size is None and core is None else ()
        if size is not None:
            found = checked_shape(size)
        if not all(_broadcasts(each.shape, found) for each in arrays):
            raise ValueError(
                f"{name}: parameters of shapes {[each.shape for each in arrays]} do not broadcast to size={found}"
            )
        shape = (*found, *(core or ()))
        kind = natural if dtype is None else element_type(dtype)
        parts = [each for each in arrays if isinstance(each, Part)]
        lying = [part.layout for part in parts if part.shape == shape]
        asked_for = grid is not None or process_grid is not None
        layout = lying[0] if lying and not asked_for else layout_for(shape, grid, process_grid)
        streams = None if here.abstract else Streams(self._entropy, key)
        tiles = Tiles(shape, len(core or ()))
        if parts:
            random_parameters.fetch(here, name, parts, tiles, layout)
        elif streams is not None:
            _check(name, getattr(streams(0), name), given, options, core is not None)
        leading = len(found)

        def draw(generator: np.random.Generator, box: Box) -> Any:
            box = box[:leading]
            index = tuple(slice(*span) for span in box)
            mine = [
                each.at(box) if isinstance(each, Part)
                else np.broadcast_to(each, found)[index] if arrays and np.ndim(each)
                else each
                for each in given
            ]  # fmt: skip
            return getattr(generator, name)(*mine, size=tuple(high - low for low, high in box), **options)

        return _dealt(here, kind, layout, streams, draw, tiles, bool(parts))

    def _number(
        self, here: World, key: tuple[int, ...], name: str, given: Sequence[Any], natural: DType, dtype: Any,
        options: dict[str, Any],
    ) -> Any:  # fmt: skip
        if here.abstract:
            return _abstract(here, None, natural if dtype is None else element_type(dtype), None, None)
        found = getattr(Streams(self._entropy, key)(0), name)(*given, **options)
        return found if dtype is None else element_type(dtype).type(found)

    # ----------------------------------------------------------------- distributions of their own

    def random(
        self, size: Any = None, dtype: Any = np.float64, out: Any = None, *, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Uniform in [0, 1); float64 or float32."""
        return self._plain("random", (), size, dtype, out, grid, process_grid)

    def standard_normal(
        self, size: Any = None, dtype: Any = np.float64, out: Any = None, *, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Normal, of mean 0 and standard deviation 1; float64 or float32."""
        return self._plain("standard_normal", (), size, dtype, out, grid, process_grid)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None, *, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Exponential, of scale 1; float64 or float32."""
        return self._plain("standard_exponential", (), size, dtype, out, grid, process_grid, method=method)

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None, *, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Gamma, of scale 1; float64 or float32."""
        return self._plain("standard_gamma", (shape,), size, dtype, out, grid, process_grid)

    def _plain(
        self, name: str, parameters: Sequence[Any], size: Any, dtype: Any, out: Any, grid: Grid, process_grid: Grid,
        **options: Any,
    ) -> Any:  # fmt: skip
        kind = element_type(dtype)
        if kind not in (np.float64, np.float32):
            raise TypeError(f"Unsupported dtype {kind!r} for {name}")
        if out is not None:
            if not isinstance(out, Array):
                raise TypeError(f"{name}: out= takes an array of bsp.arrays, not {type(out).__name__}")
            if out.dtype != kind:
                raise TypeError(f"Supplied output array has wrong type. Expected {kind}, got {out.dtype}")
            if size is not None and checked_shape(size) != out.shape:
                raise ValueError("size must match out.shape when used together")
            size = out.shape
        found = self._drawn(name, parameters, size, kind, None, grid, process_grid, {"dtype": kind.type, **options})
        return found if out is None else stored(found, out)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: builtins.bool = False, *,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Integers from low to high (0 to low, if high is None), high itself only with `endpoint`."""
        if high is None:
            low, high = 0, low
        kind = element_type(dtype)
        options = {"dtype": kind.type, "endpoint": endpoint}
        return self._drawn("integers", (low, high), size, kind, None, grid, process_grid, options)

    def multinomial(
        self, n: int, pvals: ArrayLike, size: Any = None, *, dtype: Any = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """How often each of len(pvals) outcomes came in n trials: shape (*size, len(pvals))."""
        if np.ndim(n):
            raise TypeError("multinomial: n is one number")
        chances = brought("multinomial: pvals", pvals, _ADVICE)
        core = np.shape(chances)[-1:]
        return self._drawn("multinomial", (n, chances), size, _INT, dtype, grid, process_grid, {}, core)

    def dirichlet(
        self, alpha: ArrayLike, size: Any = None, *, dtype: Any = None, grid: Grid = None, process_grid: Grid = None
    ) -> Any:
        """Vectors of len(alpha) numbers that sum to 1: shape (*size, len(alpha))."""
        whole = brought("dirichlet: alpha", alpha, _ADVICE)
        return self._drawn("dirichlet", (whole,), size, _FLOAT, dtype, grid, process_grid, {}, np.shape(whole))

    def multivariate_normal(
        self, mean: ArrayLike, cov: ArrayLike, size: Any = None, check_valid: str = "warn", tol: float = 1e-8, *,
        method: str = "svd", dtype: Any = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Normal vectors of this mean and covariance: shape (*size, len(mean))."""
        options = {"check_valid": check_valid, "tol": tol, "method": method}
        both = brought("multivariate_normal: mean", mean, _ADVICE), brought("multivariate_normal: cov", cov, _ADVICE)
        core = np.shape(both[0])
        return self._drawn("multivariate_normal", both, size, _FLOAT, dtype, grid, process_grid, options, core)

    # ---------------------------------------------------------------------------- choosing, ordering

    def choice(
        self, a: Any, size: Any = None, replace: builtins.bool = True, p: Any = None, axis: int = 0,
        shuffle: builtins.bool = True, *, dtype: Any = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Some of range(a), or of an array along an axis.

        p : the probability of each.  Without replacement an exponential number over it is drawn for each, and the
            least are taken, in their order (Efraimidis and Spirakis 2006).
        grid, process_grid : of the positions that are drawn.
        Cost: no words where `a` is a number or NumPy's, and every process has p; what a[positions] costs for an array
        of ours.  A dealt p stays where it is: one superstep checks it; with replacement its sums, and `searchsorted`
        of random numbers in them; without, `topk` of as many numbers as p has, or `argsort` of all if many are taken.
        """
        source = a if is_abstract(a) or isinstance(a, Array) else np.asarray(a)
        count = int(source) if source.ndim == 0 else source.shape[build.normal_axis(axis, source.ndim)]
        if count <= 0 and (size is None or np.prod(checked_shape(size)) > 0):
            raise ValueError("a must be a positive integer unless no samples are taken")
        where: Any
        if replace:
            where = self._with_replacement(count, size, p, grid, process_grid)
        else:
            where = self._without_replacement(count, size, p, shuffle, grid, process_grid)
        if source.ndim == 0:
            return where if dtype is None else where.astype(dtype)
        found = self._taken(source, where, axis)
        return found if dtype is None else found.astype(dtype)

    def _with_replacement(self, count: int, size: Any, p: Any, grid: Grid, process_grid: Grid) -> Any:
        if p is None:
            return self.integers(0, max(count, 1), size, grid=grid, process_grid=process_grid)
        chances = _chances(p, count)
        here, key = world(), self._next()
        if isinstance(chances, Array):
            return self._by_dealt_chances(here, key, chances, size, grid, process_grid)
        if here.abstract:
            return _abstract(here, size, _INT, grid, process_grid)
        cdf = chances.cumsum()
        cdf /= cdf[-1]
        streams = Streams(self._entropy, key)
        if size is None:
            return np.int64(cdf.searchsorted(streams(0).random(), side="right"))
        shape = checked_shape(size)

        def draw(generator: np.random.Generator, spans: Box) -> Any:
            return cdf.searchsorted(generator.random(tuple(high - low for low, high in spans)), side="right")

        return _dealt(here, _INT, layout_for(shape, grid, process_grid), streams, draw, Tiles(shape))

    def _by_dealt_chances(
        self, here: World, key: tuple[int, ...], chances: Array, size: Any, grid: Grid, process_grid: Grid
    ) -> Any:
        """Positions, with replacement: where random numbers stand among the sums of the chances."""
        sums = cumulative_sum(chances)
        sums = wrap((sums / sums[-1:])._node)
        streams = None if here.abstract else Streams(self._entropy, key)
        shape = () if size is None else checked_shape(size)

        def draw(generator: np.random.Generator, spans: Box) -> Any:
            return generator.random(tuple(high - low for low, high in spans))

        numbers = _dealt(here, _FLOAT, layout_for(shape, grid, process_grid), streams, draw, Tiles(shape))
        found = searchsorted(sums, numbers, "right")
        return np.int64(found.compute()) if size is None and not here.abstract else found

    def _without_replacement(
        self, count: int, size: Any, p: Any, shuffle: builtins.bool, grid: Grid, process_grid: Grid
    ) -> Any:
        shape = () if size is None else checked_shape(size)
        many = int(np.prod(shape))
        if many > count:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        here, key = world(), self._next()
        layout = layout_for(shape, grid, process_grid)
        if p is not None:
            chances = _chances(p, count)
            if isinstance(chances, Array) or not here.abstract:
                found = _least(here, key, self._entropy, chances, many)
                found = wrap(build.relaid(build.reshaped(found._node, shape), layout)).persist()
                return np.int64(found.compute()) if size is None and not here.abstract else found
        if here.abstract:
            return _abstract(here, size, _INT, grid, process_grid)
        order = Order(count, Streams(self._entropy, key))
        if size is None:
            return np.int64(order.at(np.zeros(1, np.int64))[0])
        return made(shape, _INT, layout, lambda size, box: order.at(_numbers(shape, box)))

    def _taken(self, source: Any, where: Any, axis: int) -> Any:
        """Parts of an array along an axis.  Of NumPy's, which every process has, without words."""
        axis = build.normal_axis(axis, source.ndim)
        if not isinstance(where, Array):
            return source[(slice(None),) * axis + (int(where),)]
        if isinstance(source, Array):
            return source[(slice(None),) * axis + (where,)]
        (node,) = computed(where._node)
        own = layout_at(node)
        before, after = source.shape[:axis], source.shape[axis + 1 :]
        shape = (*before, *where.shape, *after)
        if own.replicated:
            layout, (whole,) = automatic(shape, world().nprocs), node.value.values()
        else:
            layout, whole = layout_of((*map(Axis, before), *own.axes, *map(Axis, after))), None
        last = axis + where.ndim

        def make(size: Shape, box: Box) -> Any:
            windows = [slice(*span) for span in box]
            chosen = blocks[box[axis:last]] if whole is None else whole[tuple(windows[axis:last])]
            return source[(*windows[:axis], slice(None), *windows[last:])].take(chosen, axis)

        blocks = {own.box(at): block for at, block in node.value.items()}
        return made(shape, source.dtype, layout, make)

    def permutation(self, x: Any, axis: int = 0, *, grid: Grid = None, process_grid: Grid = None) -> Array:
        """range(x) in a random order, or an array with its parts along an axis in one.

        Cost: of a number none; of an array one superstep, h at most size/p words, once it is in slabs.
        """
        here = world()
        if not isinstance(x, Array) and np.ndim(x) == 0 and not is_abstract(x):
            shape = checked_shape(x)
            if len(shape) != 1:
                raise TypeError(f"permutation of {x!r}: a number or an array")
            key = self._next()
            layout = layout_for(shape, grid, process_grid)
            if here.abstract:
                return _abstract_array(here, shape, _INT, layout)
            some = Order(shape[0], Streams(self._entropy, key))
            return made(shape, _INT, layout, lambda size, box: some.at(np.arange(*box[0])))
        array = asarray(x)
        axis = build.normal_axis(axis, array.ndim)
        key = self._next()
        order = None if here.abstract else Order(array.shape[axis], Streams(self._entropy, key))
        return wrap(_reordered(here, array, axis, order))

    def permuted(self, x: Any, axis: int | None = None, out: Any = None) -> Array:
        """An array with each line along an axis in a random order of its own; None: all elements in one.

        Cost: a sort of as many random numbers along the axis, and what takes the elements from there; without an axis
        as `permutation`.
        """
        array = asarray(x)
        if axis is None:
            found = reshape(self.permutation(reshape(array, (-1,))), array.shape)
        else:
            place = build.normal_axis(axis, array.ndim)
            keys = self.integers(0, 1 << 63, array.shape, np.uint64)  # two are equal once in 2^63 pairs
            found = take_along_axis(array, argsort(keys, axis=place, stable=True), place)
        return stored(found, out, name="permuted")

    def bytes(self, length: int) -> builtins.bytes:
        """Random bytes, the same on every process, which each makes all of: no words."""
        here, key, count = world(), self._next(), index(length)
        return builtins.bytes(max(count, 0)) if here.abstract else Streams(self._entropy, key)(0).bytes(count)

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Brings an array of ours into a random order along an axis, and so all that share its elements."""
        if not isinstance(x, Array):
            raise TypeError("shuffle takes an array of bsp.arrays; permutation(x) gives one of a NumPy array")
        store(x, self.permutation(x, axis)._node)


def _abstract(here: World, size: Any, dtype: DType, grid: Grid, process_grid: Grid) -> Any:
    """An abstract array, or number if size is None; the work of drawing it is counted."""
    if size is None:
        return _abstract_generator(here).random(dtype=dtype)
    shape = checked_shape(size)
    return _abstract_array(here, shape, dtype, layout_for(shape, grid, process_grid))


def _abstract_array(here: World, shape: Shape, dtype: DType, layout: Layout) -> Array:
    generator = _abstract_generator(here)
    blocks = {at: generator.random(layout.block_shape(at), dtype=dtype) for at in layout.mine(here.pid)}
    return wrap(leaf(shape, dtype, layout, blocks))


def _abstract_generator(here: World) -> Any:
    assert here._abstraction is not None
    return here._abstraction.generator(0, here.pid)


def _broadcasts(own: Shape, shape: Shape) -> builtins.bool:
    last = shape[len(shape) - len(own) :]
    return len(own) <= len(shape) and all(mine in (1, given) for mine, given in zip(own, last, strict=True))


def _check(
    name: str, method: Callable[..., Any], given: Sequence[Any], options: dict[str, Any], vectors: builtins.bool
) -> None:
    """NumPy's errors for wrong parameters that every process has, on every process and not on those that draw alone."""
    if name == "integers":  # which looks at nothing if it is to draw nothing
        low, high = np.broadcast_arrays(*given)
        wrong = (low > high if options["endpoint"] else low >= high).reshape(-1)
        limits = np.iinfo(options["dtype"]) if np.dtype(options["dtype"]).kind in "iu" else None
        if limits is not None:
            wrong |= ((low < limits.min) | (high - (not options["endpoint"]) > limits.max)).reshape(-1)
        if wrong.any():
            k = int(wrong.argmax())
            method(low.reshape(-1)[k], high.reshape(-1)[k], **options)
        return
    shapes = [] if vectors else [np.shape(each) for each in given]
    method(*given, size=(0, *np.broadcast_shapes(*shapes)), **options)


def _dealt(
    here: World, dtype: DType, layout: Layout, streams: Streams | None, draw: Draw, tiles: Tiles,
    agree: builtins.bool = False,
) -> Array:  # fmt: skip
    """A new array of a draw.  `agree`: a superstep in which all processes hear of an error of one."""

    def work() -> dict[Box, np.ndarray]:
        return {} if streams is None else filled(tiles, dtype, layout, here.pid, streams, draw)

    blocks = here.together("a draw", work) if agree else work()
    if streams is None:
        return _abstract_array(here, tiles.shape, dtype, layout)
    return made(tiles.shape, dtype, layout, lambda size, box: blocks[box])


def _chances(p: Any, count: int) -> Any:
    """Probabilities, checked as NumPy checks them; an Array only if they are dealt.  Of those one superstep."""
    if isinstance(p, Array):
        (node,) = computed(build.cast(p._node, _FLOAT))
        whole = known(node)
        chances: Any = wrap(node) if whole is None else whole
    else:
        chances = p if is_abstract(p) else np.asarray(p, float)
    if chances.shape != (count,):
        raise ValueError("a and p must have same size")
    if is_abstract(chances):
        return chances
    good, total = ((chances >= 0) & (chances < np.inf)).all(), chances.sum()
    if isinstance(chances, Array):
        good, total = compute(good, total)
    if is_abstract(good):
        return chances
    if not good:
        raise ValueError("Probabilities are not non-negative")
    if abs(total - 1) > max(np.sqrt(np.finfo(float).eps), 0):
        raise ValueError("Probabilities do not sum to 1.  See Notes section of docstring for more information.")
    return chances


def _least(here: World, key: tuple[int, ...], entropy: Any, chances: Any, many: int) -> Array:
    """Positions of the least of exponential numbers, each over its chance: a draw without replacement, in its order."""
    shape = chances.shape

    def draw(generator: np.random.Generator, spans: Box) -> Any:
        return generator.standard_exponential(tuple(high - low for low, high in spans))

    def over(numbers: np.ndarray, own: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(np.divide(numbers, own, out=np.full(own.shape, np.inf), where=own > 0))

    node = chances._node if isinstance(chances, Array) else build.from_whole(chances, replicated(shape))
    layout = layout_at(node)
    possible = (chances > 0).sum()
    possible = possible.compute() if isinstance(possible, Array) else possible
    if not is_abstract(possible) and possible < many:
        raise ValueError("Fewer non-zero entries in p than size")
    streams = None if here.abstract else Streams(entropy, key)
    numbers = _dealt(here, _FLOAT, layout, streams, draw, Tiles(shape))
    if not here.abstract:
        blocks = {at: over(numbers._node.value[at], block) for at, block in node.value.items()}
        numbers = wrap(leaf(shape, _FLOAT, layout, blocks))
    if 2 * many * here.nprocs <= shape[0]:
        return topk(numbers, many, largest=False)[1]
    return argsort(numbers)[:many]


def _numbers(shape: Shape, box: Sequence[Span]) -> np.ndarray:
    """The places, in C order of the whole, of the elements of a box."""
    found = np.zeros((), np.int64)
    for length, (low, high) in zip(shape, box, strict=True):
        found = found[..., None] * length + np.arange(low, high)
    return found


def _reordered(here: World, array: Array, axis: int, order: Order | None) -> Any:
    """A leaf with the parts of an array along an axis in another order.

    Both sides know the order, so no index travels: who has part i knows where it goes, who gets it knows whence.
    """
    node = build.strong(array._node)
    node = node if node.op is LEAF else wrap(node).persist()._node
    shape, dtype = array.shape, array.dtype
    length = shape[axis]
    index: Any = (slice(None),) * axis
    own = node.layout
    assert own is not None
    if own.replicated:
        (whole,) = node.value.values()
        taken = whole if order is None else whole.take(order.at(np.arange(length)), axis)
        return leaf(shape, dtype, replicated(shape), {(0,) * len(shape): taken})
    grid = [1] * len(shape)
    grid[axis] = here.nprocs
    slabs = dealt(shape, grid, grid)
    if node.layout is not slabs:
        node = wrap(build.relaid(node, slabs)).persist()._node
    bounds = slabs.axes[axis].bounds
    low, high = int(bounds[here.pid]), int(bounds[here.pid + 1])
    (at,) = slabs.mine(here.pid)
    block = node.value[at]
    if order is None:
        here.exchange("permutation", [((here.pid + 1) % here.nprocs, block)])
        return leaf(shape, dtype, slabs, {at: here.empty(slabs.block_shape(at), dtype)})
    to = order.where(np.arange(low, high))
    ranked = np.argsort(to, kind="stable")
    cuts = np.searchsorted(to[ranked], bounds)
    out = [
        (pid, np.ascontiguousarray(block[(*index, ranked[cuts[pid] : cuts[pid + 1]])]))
        for pid in range(here.nprocs)
        if cuts[pid] < cuts[pid + 1]
    ]
    arrived = here.exchange("permutation", out)
    whence = np.searchsorted(bounds, order.at(np.arange(low, high)), side="right") - 1
    found = np.empty(slabs.block_shape(at), dtype)
    for source, part in arrived:
        found[(*index, whence == source)] = part
    return leaf(shape, dtype, slabs, {at: found})


# ----------------------------------------------------------------- distributions like all others

_REQUIRED: Any = Parameter.empty
_DISTRIBUTIONS: dict[str, tuple[dict[str, Any], DType, str]] = {
    "beta": ({"a": _REQUIRED, "b": _REQUIRED}, _FLOAT, "Beta"),
    "binomial": ({"n": _REQUIRED, "p": _REQUIRED}, _INT, "Binomial: successes in n trials"),
    "chisquare": ({"df": _REQUIRED}, _FLOAT, "Chi-square"),
    "exponential": ({"scale": 1.0}, _FLOAT, "Exponential"),
    "f": ({"dfnum": _REQUIRED, "dfden": _REQUIRED}, _FLOAT, "Fisher's F"),
    "gamma": ({"shape": _REQUIRED, "scale": 1.0}, _FLOAT, "Gamma"),
    "geometric": ({"p": _REQUIRED}, _INT, "Geometric"),
    "gumbel": ({"loc": 0.0, "scale": 1.0}, _FLOAT, "Gumbel"),
    "hypergeometric": ({"ngood": _REQUIRED, "nbad": _REQUIRED, "nsample": _REQUIRED}, _INT, "Hypergeometric"),
    "laplace": ({"loc": 0.0, "scale": 1.0}, _FLOAT, "Laplace"),
    "logistic": ({"loc": 0.0, "scale": 1.0}, _FLOAT, "Logistic"),
    "lognormal": ({"mean": 0.0, "sigma": 1.0}, _FLOAT, "Log-normal"),
    "logseries": ({"p": _REQUIRED}, _INT, "Logarithmic series"),
    "negative_binomial": ({"n": _REQUIRED, "p": _REQUIRED}, _INT, "Negative binomial"),
    "noncentral_chisquare": ({"df": _REQUIRED, "nonc": _REQUIRED}, _FLOAT, "Noncentral chi-square"),
    "noncentral_f": ({"dfnum": _REQUIRED, "dfden": _REQUIRED, "nonc": _REQUIRED}, _FLOAT, "Noncentral F"),
    "normal": ({"loc": 0.0, "scale": 1.0}, _FLOAT, "Normal"),
    "pareto": ({"a": _REQUIRED}, _FLOAT, "Pareto II"),
    "poisson": ({"lam": 1.0}, _INT, "Poisson"),
    "power": ({"a": _REQUIRED}, _FLOAT, "Power"),
    "rayleigh": ({"scale": 1.0}, _FLOAT, "Rayleigh"),
    "standard_cauchy": ({}, _FLOAT, "Cauchy"),
    "standard_t": ({"df": _REQUIRED}, _FLOAT, "Student's t"),
    "triangular": ({"left": _REQUIRED, "mode": _REQUIRED, "right": _REQUIRED}, _FLOAT, "Triangular"),
    "uniform": ({"low": 0.0, "high": 1.0}, _FLOAT, "Uniform in [low, high)"),
    "vonmises": ({"mu": _REQUIRED, "kappa": _REQUIRED}, _FLOAT, "Von Mises"),
    "wald": ({"mean": _REQUIRED, "scale": _REQUIRED}, _FLOAT, "Wald"),
    "weibull": ({"a": _REQUIRED}, _FLOAT, "Weibull"),
    "zipf": ({"a": _REQUIRED}, _INT, "Zipf"),
}


def _distribution(name: str, parameters: dict[str, Any], natural: DType, text: str) -> Callable[..., Any]:
    """A method of the generator."""
    own = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, default=value) for each, value in parameters.items()]
    signature = Signature([
        Parameter("self", Parameter.POSITIONAL_ONLY), *own,
        Parameter("size", Parameter.POSITIONAL_OR_KEYWORD, default=None),
        *[Parameter(each, Parameter.KEYWORD_ONLY, default=None) for each in ("dtype", "grid", "process_grid")],
    ])  # fmt: skip

    def method(self: Generator, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as wrong:
            raise TypeError(f"{name}(): {wrong}") from None
        bound.apply_defaults()
        _, *values, size, dtype, grid, process_grid = bound.args + tuple(bound.kwargs.values())
        return self._drawn(name, values, size, natural, dtype, grid, process_grid, {})

    method.__name__, method.__qualname__ = name, f"Generator.{name}"
    method.__doc__ = f"{text} numbers; no words, no superstep."
    method.__signature__ = signature  # type: ignore[attr-defined]  # known to inspect alone
    return method


for _name, _about in _DISTRIBUTIONS.items():
    setattr(Generator, _name, _distribution(_name, *_about))


def default_rng(seed: Any = None) -> Generator:
    """A generator for distributed arrays; every process calls this alike.

    seed : an integer, a sequence of them, or a SeedSequence; a generator of ours is given back.  None: the job's
        seed (`--seed`), and how many generators were made without one before; never the clock or the machine (D4).
    """
    if isinstance(seed, Generator):
        return seed
    if hasattr(seed, "spawn_key"):  # a SeedSequence
        return Generator(_entropy(seed.entropy), seed.spawn_key)
    if seed is None:
        task = world().task
        number = task.libraries[_UNSEEDED] = task.libraries.get(_UNSEEDED, 0) + 1
        return Generator([task.element.seed, number, _JOB])
    return Generator(_entropy(seed))


def _entropy(seed: Any) -> int | list[int]:
    """A seed as integers."""
    try:
        found = [int(each.__index__()) for each in seed] if np.ndim(seed) else int(seed.__index__())
    except (AttributeError, TypeError):
        raise TypeError(
            f"default_rng({seed!r:.40}): a seed is an integer of 0 or more, or a sequence of them"
        ) from None
    if min(found if isinstance(found, list) else [found], default=0) < 0:
        raise ValueError(f"default_rng({seed!r:.40}): a seed is an integer of 0 or more, or a sequence of them")
    return found
