"""Set operations: membership, unions, intersections and differences of the elements of arrays."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import concat, ravel
from bsp.arrays.api.ufuncs import astype
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import DType, Node
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, declared_of, known, layout_at, made_of, mine, one_vector
from bsp.arrays.selection.masks import compress_node
from bsp.arrays.sorting.distinct import (
    by_source,
    distinct,
    parted,
    splits,
    tell_elements,
    uneven,
    unique,
    words_of,
)  # fmt: skip
from bsp.arrays.sorting.order_statistics import ALL
from bsp.arrays.sorting.own_distinct import own_elements
from bsp.arrays.sorting.searching import searchsorted
from bsp.arrays.sorting.sorting import INT64, argsort
from bsp.arrays.sorting.splitting import cuts_cost, shares
from bsp.arrays.typing import ArrayLike
from bsp.declared import Reported, declares

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d"]


@procedure
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    kind: Literal["sort", "table"] | None = None,
) -> Array:  # fmt: skip
    """Return whether each element is one of `test_elements`; NaN never is.

    Cost: nothing if every process has the test elements; one superstep if they are so few that all may have them.
    Else each process sends its distinct elements of both once, and gets a byte back for each of the first: two
    supersteps, and those that find where to cut (`distinct`).
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    array, tests = asarray(element), asarray(test_elements)
    if not tests.size:
        return (array != array) & False if not invert else (array == array) | True
    dtype = np.result_type(array.dtype, tests.dtype)
    given, node = computed(build.strong(array._node), build.strong(tests._node))
    here = world()
    if known(node) is None and node.kind.size * here.nprocs <= max(given.kind.size, ALL):
        (node,) = computed(build.everywhere(node))
    return _inside(given, node, dtype, invert)


def _inside_cost(costs: Reported, elements: Node, tests: Node, kind: DType, invert: bool) -> Array:
    """Declare the cost of `_inside`."""
    whole, one = known(tests), known(elements)
    if whole is not None:
        for block in elements.value.values():
            costs.passing(5 * (block.size + whole.size), INT64)  # NumPy sorts both together
            np.isin(block, whole)
    elif one is not None:
        np.isin(one, one_vector(world(), mine(tests), tests.kind.dtype))
        costs.allreduce(one.size, np.uint8)
        costs.work(elementwise=2 * one.size)
    else:
        _members_cost(costs, *computed(build.cast(elements, kind), build.cast(tests, kind)))
    return declared_of(costs, elements.kind.shape, np.dtype(bool), layout_at(elements))


@declares(_inside_cost)
def _inside(elements: Node, tests: Node, kind: DType, invert: bool) -> Array:
    """Return whether each element is one of `tests`, both computed; cast to `kind` where both are dealt.  Collective.

    invert : return whether it is not.
    """
    here = world()
    whole, one = known(tests), known(elements)
    if whole is not None:
        blocks = {at: np.isin(block, whole, invert=invert) for at, block in elements.value.items()}
    elif one is not None:
        own = one_vector(here, mine(tests), tests.kind.dtype)
        found = here.private.allreduce(np.isin(one, own).reshape(-1).astype(np.uint8), "max")
        blocks = {at: (found.reshape(one.shape) > 0) ^ invert for at in elements.value}
    else:
        first, second = computed(build.cast(elements, kind), build.cast(tests, kind))
        blocks = _members(here, first, second, invert)
    return made_of(elements.kind.shape, np.dtype(bool), layout_at(elements), blocks)


def _among(values: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Return whether each value is in a sorted vector."""
    if not line.size:
        return np.zeros(values.size, bool)
    return np.asarray(line[np.minimum(np.searchsorted(line, values), line.size - 1)] == values)


def _members(here: World, elements: Node, tests: Node, invert: bool) -> dict[Any, Any]:
    """Return the blocks of `isin` of two dealt arrays.  Collective.

    Distinct elements of both go to processes by value, cut so that each process gets as many of both together.
    """
    own = own_elements(here, elements, True, (True, True, True))
    other = own_elements(here, tests, True, (False, False, False)).distinct.values
    other = other[other == other]  # NaN equals nothing
    values = own.distinct.values
    both = np.concatenate([values, other])
    few = both.size * here.nprocs * words_of(both.dtype) <= ALL
    tested = [np.packbits(np.argsort(both, kind="stable") >= values.size)] if few else []
    both.sort(kind="stable" if few else None)
    total = elements.kind.size + tests.kind.size
    samples = tell_elements(here, both, few, total, tested)
    if samples.extras.all():
        found = np.isin(values, np.concatenate([
            part[np.unpackbits(bits, count=part.size) > 0]
            for part, (bits,) in zip(samples.parts, samples.more, strict=True)
        ]))  # fmt: skip
    else:
        splitters = splits(here, both, samples, total)
        cuts = [parted(each, splitters, here.nprocs) for each in (values, other)]
        arrived = here.exchange("distinct elements by value", [
            (dest, each[cut[dest] : cut[dest + 1]])
            for dest in range(here.nprocs)
            for each, cut in zip((values, other), cuts, strict=True)
        ])  # fmt: skip
        parts = by_source(here, arrived)
        inside = np.sort(np.concatenate([part[1] for part in parts]))
        replies = [(pid, _among(part[0], inside)) for pid, part in enumerate(parts)]
        found = np.concatenate([each for _, each in here.exchange("whether they are members", replies)])
    found ^= invert
    return {
        at: found[each].reshape(layout_at(elements).block_shape(at)) for at, each in own.inverses.items()
    }  # fmt: skip


def _members_cost(costs: Reported, elements: Node, tests: Node) -> None:
    """Declare the cost of `_members`, assuming that all elements are distinct."""
    here, have = world(), 0
    for node, arrays in ((elements, 7), (tests, 3)):
        size = sum(node.value[at].size for at in layout_at(node).mine(here.pid))
        have += size
        costs.passing(size * arrays, INT64)
    kind, members = elements.kind.dtype, np.dtype(bool)
    both = costs.memory((have,), kind)
    few = min(have, ALL // here.nprocs // words_of(kind))
    total = elements.kind.size + tests.kind.size
    longest = int(np.add(*(layout_at(node).held(here.nprocs) for node in (elements, tests))).max())
    tested = costs.memory((-(-few // 8),), np.dtype(np.uint8))
    cuts_cost(costs, both, total, longest, here.nprocs, few, [tested], True)
    by_value = shares(have + uneven(here, have, total), here.nprocs, here.pid)
    costs.total_exchange("distinct elements by value", [(dest, costs.memory((part,), kind)) for dest, part in by_value])
    costs.passing(4 * have, INT64)
    back = [(dest, costs.memory((part,), members)) for dest, part in by_value]
    costs.total_exchange("whether they are members", back)


def _with_positions(x: Any, distinct_already: bool) -> tuple[Array, Array]:
    """Return the distinct elements, ascending, and their first positions in C order.  Collective."""
    if distinct_already:
        line = ravel(x)
        order = argsort(line)
        return line[order], order
    values, positions = unique(x, return_index=True)
    return values, positions


@procedure
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """Return the distinct elements of either array, ascending.  Cost: as `unique` of both together."""
    return distinct(concat([ravel(ar1), ravel(ar2)]), True, False, False, False).values


@overload
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: Literal[False] = False
) -> Array: ...
@overload
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, return_indices: Literal[True]
) -> tuple[Array, Array, Array]: ...
@procedure
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """Return the distinct elements in both arrays, ascending; with `return_indices` also their first positions in each.

    Cost: as `unique` of the first, and `isin`.
    """
    if return_indices:
        (first, i), (second, j) = (_with_positions(each, assume_unique) for each in (ar1, ar2))
        both = isin(first, second)._node
        first = astype(first, np.result_type(first.dtype, second.dtype))
        found, at = (compress_node(build.strong(each._node), both) for each in (first, i))
        return found, at, j[searchsorted(second, found)]
    kind = np.result_type(asarray(ar1).dtype, asarray(ar2).dtype)
    if assume_unique:
        line = concat([ravel(ar1), ravel(ar2)])
        line = line[line == line] if kind.kind in "fcmM" else line  # NaN equals nothing
        every, counts = unique(line, return_counts=True)
        return compress_node(every._node, (counts > 1)._node)
    own = unique(wrap(build.cast(build.strong(asarray(ar1)._node), kind)))
    return compress_node(build.strong(own._node), isin(own, ar2)._node)


@procedure
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the distinct elements in exactly one of two arrays, ascending.

    Cost: as `unique` of each (unless `assume_unique`), and of both together.
    """
    parts = [ravel(each) if assume_unique else unique(each) for each in (ar1, ar2)]
    found = unique(concat(parts), return_counts=True, equal_nan=False)
    return compress_node(found[0]._node, (found[1] == 1)._node)


@procedure
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """Return the distinct elements of the first array that are not in the second.

    Cost: as `unique` of the first (unless `assume_unique`), and `isin`.
    """
    first = ravel(ar1) if assume_unique else unique(ar1)
    return compress_node(build.strong(first._node), isin(first, ar2, invert=True)._node)
