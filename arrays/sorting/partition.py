"""`partition`, `argpartition` and `lexsort`.

The elements of a partition on either side of a rank may have any order, and NumPy's order depends on its algorithm.
Here the order must not depend on the blocks.  In a vector, the elements of the wanted ranks are found
(`order_statistics`), and all elements below, equal to and between them follow one another, each class in the order in
which it was.  Lines of arrays are sorted, which is a partition by every rank at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import unstack
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution import memory
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import block_map, bounds_of, declared_of, even_line, flattened, in_line, made_of
from bsp.arrays.selection.selecting import take_along_axis
from bsp.arrays.sorting.order_statistics import PASSES, below_value, same_value, upto_value
from bsp.arrays.sorting.quantiles import elements_cost, elements_of
from bsp.arrays.sorting.sorting import INT64, argsort, sort, vector_to_order
from bsp.arrays.sorting.splitting import shares
from bsp.arrays.typing import ArrayLike, Arrays
from bsp.declared import Reported, declares

__all__ = ["argpartition", "lexsort", "partition"]


def _checked_ranks(array: Array, kth: Any, axis: Any, kind: str, order: Any) -> list[int]:
    """Return the ranks, ascending and from 0.  Raises as NumPy does."""
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind != "introselect":
        raise ValueError(f"select kind must be 'introselect' (got {kind!r})")
    ranks = brought("partition: kth", kth) if isinstance(kth, Array) else np.asarray(kth)
    if ranks.dtype.kind not in "biu":
        raise TypeError("Partition index must be integer")
    if ranks.ndim > 1:
        raise ValueError("object too deep for desired array")
    length = array.size if axis is None else array.shape[build.normal_axis(axis, array.ndim)]
    wanted = ranks.reshape(-1).tolist() if array.size else []
    for rank in wanted:
        if not -length <= rank < length:
            raise ValueError(f"kth(={rank}) out of bounds ({length})")
    return sorted({rank % length for rank in wanted})


@procedure
def partition(
    x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: Literal["introselect"] = "introselect",
    order: None = None,
) -> Array:  # fmt: skip
    """Partition along an axis, or all elements if axis is None: those of ranks `kth` get their sorted places.

    Smaller elements come before them and greater ones behind, in an order that does not depend on the blocks.
    Cost: of a dealt vector and at most 8 ranks, that of finding their elements (see `quantile`), two passes for each,
    and one total exchange of n/p words; else that of `sort`.
    """
    return _partitioned(x, kth, axis, kind, order, False)


@procedure
def argpartition(
    x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: Literal["introselect"] = "introselect",
    order: None = None,
) -> Array:  # fmt: skip
    """Return the positions of the elements of `partition`, in the same order.  Cost: as `partition`."""
    return _partitioned(x, kth, axis, kind, order, True)


def _partitioned(x: ArrayLike, kth: Any, axis: int | None, kind: str, order: Any, positions: bool) -> Array:
    """Return the partition of elements, or their positions."""
    array = wrap(build.lined(asarray(x)._node))
    ranks = _checked_ranks(array, kth, axis, kind, order)
    node = flattened(array._node) if axis is None else array._node
    if len(node.kind.shape) > 1 or len(ranks) > PASSES or node.kind.dtype.kind == "c":
        return (argsort if positions else sort)(array, axis=axis)
    node, is_dealt = vector_to_order(node)
    return (_of_dealt if is_dealt else _of_whole)(node, ranks, positions)


def _apart(values: Any) -> list[int]:
    """Return the places of ascending values that differ from the one before."""
    return [k for k in range(len(values)) if not k or not same_value(values[k - 1], values[k])]


def _classes(x: np.ndarray, values: Any) -> list[np.ndarray]:
    """Return the positions of the elements below the first value, equal to it, between it and the next, and so on.

    values : ascending, all different.
    """
    number, mask = np.zeros(x.shape, np.uint8), np.empty(x.shape, bool)
    for value in values:
        for reach in (below_value, upto_value):
            number += ~reach(x, value, mask)
    return [np.flatnonzero(number == k) for k in range(2 * len(values) + 1)]


def _whole_cost(costs: Reported, node: Node, ranks: list[int], positions: bool) -> Array:
    """Declare the cost of `_of_whole`."""
    dtype = INT64 if positions else node.kind.dtype
    return block_map(node, dtype, lambda x: np.argpartition(x, ranks).astype(dtype) if ranks else x.astype(dtype))


@declares(_whole_cost)
def _of_whole(node: Node, ranks: list[int], positions: bool) -> Array:
    """Partition a vector that is replicated or in one block.  No superstep."""

    def call(x: np.ndarray) -> np.ndarray:
        values = np.partition(x, ranks)[ranks] if ranks else x[:0]
        found = np.concatenate(_classes(x, values[_apart(values)]))
        return found if positions else x[found]

    return block_map(node, INT64 if positions else node.kind.dtype, call)


def _dealt_cost(costs: Reported, node: Node, ranks: list[int], positions: bool) -> Array:
    """Declare the cost of `_of_dealt`, assuming that all elements belong elsewhere, evenly spread."""
    dtype = INT64 if positions else node.kind.dtype
    bounds, block = in_line(node)
    elements_cost(costs, block, node.kind.size, int(np.diff(bounds).max()), max(1, len(ranks)))
    for _ in ranks:
        np.logical_or(np.less(block, block), np.less_equal(block, block))
    costs.tell("sizes of classes", costs.memory((2 * len(ranks) + 1,), INT64))
    moving = costs.memory(block.shape, dtype)
    out, start = [], 0
    for dest, share in shares(block.shape[0], costs.p, world().pid):
        out.append((dest, moving[start : start + share]))
        start += share
    result = declared_of(costs, node.kind.shape, dtype, even_line(node.kind.size, costs.p))
    costs.total_exchange("partition to its pieces", out, placed=True)
    return result


@declares(_dealt_cost)
def _of_dealt(node: Node, ranks: list[int], positions: bool) -> Array:
    """Partition a dealt vector.  Collective: two total exchanges after those of `elements_of`."""
    here, length, dtype = world(), node.kind.size, INT64 if positions else node.kind.dtype
    p, me = here.nprocs, here.pid
    bounds, block = in_line(node)
    found, _ = elements_of(here, block, lambda sizes, extras: ranks, 0, length, max(1, len(ranks)))
    values = [found[rank] for rank in ranks]
    classes = _classes(block, [values[k] for k in _apart(values)])
    sizes = np.array([part.size for part in classes], np.int64)
    counts = np.array([each for _, each in here.exchange("sizes of classes", [(range(p), sizes)])]).T
    starts = (np.cumsum(counts) - counts.reshape(-1)).reshape(counts.shape)
    layout = even_line(length, p)
    target = bounds_of(layout, p)

    def parts(source: int, dest: int) -> Iterator[tuple[int, int, int]]:
        """Generate what a process gets of another one's elements, as (class, start and end in the result)."""
        for k, (start, count) in enumerate(zip(starts[:, source], counts[:, source], strict=True)):
            low, high = max(start, target[dest]), min(start + count, target[dest + 1])
            if low < high:
                yield k, int(low), int(high)

    classes = [part + bounds[me] if positions else block[part] for part in classes]
    result = memory.empty((int(target[me + 1] - target[me]),), dtype)
    into = {
        source: places
        for source in range(p)
        if (places := [result[low - target[me] : high - target[me]] for _, low, high in parts(source, me)])
    }
    out = [
        (dest, classes[k][low - starts[k, me] : high - starts[k, me]])
        for dest in range(p)
        for k, low, high in parts(me, dest)
    ]
    waiting = {source: list(places) for source, places in into.items()}
    arrived = here.exchange("partition to its pieces", out, waiting)
    for place, (_, part) in zip((place for places in into.values() for place in places), arrived, strict=True):
        if not np.may_share_memory(place, part):
            place[:] = part
    return made_of((length,), dtype, layout, dict.fromkeys(layout.mine(me), result))


@procedure
def lexsort(keys: Arrays, axis: int = -1) -> Array:
    """Return the positions that sort by the last key, equal elements by the one before it, and so on.

    Cost: a stable argsort for each key, and for each key but the first a `take_along_axis` of the key and one of the
    positions.
    """
    each = list(unstack(asarray(keys))) if isinstance(keys, (Array, np.ndarray)) and keys.ndim else keys
    if not isinstance(each, (list, tuple)) or not len(each):
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    given = [asarray(key) for key in each]
    if any(key.shape != given[0].shape for key in given):
        raise ValueError("all keys need to be the same shape")
    if not given[0].ndim:
        return argsort(given[0][None])[0]
    place = build.normal_axis(axis, given[0].ndim)
    found = argsort(given[0], axis=place)
    for key in given[1:]:
        found = take_along_axis(found, argsort(take_along_axis(key, found, place), axis=place), place)
    return found
