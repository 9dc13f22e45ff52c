"""Exact order statistics of a dealt vector: the element of rank r, usually in two supersteps.

Every process sends a sample to all.  The expected place of a rank in the sample, plus or minus some standard
deviations, gives the two ends of a bracket.  One pass over the data counts the elements below each end and collects
those between.  Counts and collected elements go to all processes in one superstep, and every process computes the same
value.  If a bracket misses the rank, or collects too much, the search goes on among the elements on the rank's side.
One round is enough with high probability, and each further round has fewer elements.

Order is NumPy's: NaN after everything.  Source of the idea: Floyd and Rivest (1975), in rounds as sample sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.execution.world import World, world
from bsp.declared import Reported

CHUNK = 1 << 15  # elements of a pass that stay in the cache
ALL = 4096  # at most so many elements are sent whole instead of a sample
DEVIATIONS = 4.5  # half the width of a bracket, in standard deviations
PASSES = 8  # brackets in a pass over unsorted data; with more, sorting first is quicker


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def same_value(a: Any, b: Any) -> bool:
    """Return whether two elements are equal, as all NaN are here."""
    return bool(a == b) or (_is_nan(a) and _is_nan(b))


class Bracket(NamedTuple):
    """An interval of values, None where unbounded; a heavy end has its equal elements counted separately.

    An end is heavy if many elements may equal it: these are then counted and not collected.
    """

    low: Any
    high: Any
    heavy_low: bool
    heavy_high: bool


class RankCounts(NamedTuple):
    """One process's numbers of elements: below a bracket's low end, not above it, below the high end, not above it."""

    below_low: int
    upto_low: int
    below_high: int
    upto_high: int


def below_value(x: Any, value: Any, out: Any) -> Any:
    """Return the mask of the elements that are less than `value`, in `out`."""
    return np.equal(x, x, out=out) if _is_nan(value) else np.less(x, value, out=out)


def upto_value(x: Any, value: Any, out: Any) -> Any:
    """Return the mask of the elements that are at most `value`, in `out`."""
    if _is_nan(value):
        out[...] = True
        return out
    return np.less_equal(x, value, out=out)


class Unsorted:
    """A process's elements in any order, with the operations that the search for ranks needs."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.values.size

    def sample(self, count: int, seed: int) -> Any:
        """Return one random element of each of `count` equal stretches; the same elements for the same seed."""
        size = self.values.size
        if count >= size:
            return self.values
        draws = np.random.default_rng([seed, size]).integers(0, max(size // count, 1), count)
        return self.values[np.arange(count) * size // count + draws]

    def divided(self, brackets: Sequence[Bracket]) -> list[tuple[RankCounts, np.ndarray]]:
        """Split the elements at each bracket; return the counts and the elements inside.  One pass over the data."""
        values = self.values
        masks = [np.empty(CHUNK, bool) for _ in range(3)]
        totals = np.zeros((len(brackets), 4), np.int64)
        between: list[list[np.ndarray]] = [[] for _ in brackets]
        for start in range(0, values.size, CHUNK):
            chunk = values[start : start + CHUNK]
            low, high, inside = (mask[: chunk.size] for mask in masks)
            for k, bracket in enumerate(brackets):
                totals[k] += self._chunk(chunk, bracket, low, high)
                np.logical_xor(low, high, out=inside)
                found = np.flatnonzero(inside)
                if found.size:
                    between[k].append(chunk[found])
        empty = values[:0]
        return [
            (RankCounts(*(int(each) for each in total)), np.concatenate(pieces) if pieces else empty)
            for total, pieces in zip(totals, between, strict=True)
        ]

    @staticmethod
    def _chunk(chunk: np.ndarray, bracket: Bracket, low: np.ndarray, high: np.ndarray) -> tuple[int, int, int, int]:
        """Return the counts of a chunk; fill `low` and `high` with masks whose difference is inside the bracket."""
        upto_high = 0
        if bracket.high is None:
            high[...] = True
            below_high = upto_high = chunk.size
        else:
            if bracket.heavy_high:
                upto_high = int(np.count_nonzero(upto_value(chunk, bracket.high, high)))
            below_high = int(np.count_nonzero(below_value(chunk, bracket.high, high)))
        if bracket.low is None:
            low[...] = False
            return 0, 0, below_high, upto_high
        below_low = int(np.count_nonzero(below_value(chunk, bracket.low, low)))
        if not bracket.heavy_low:
            return below_low, below_low, below_high, upto_high
        upto_low = int(np.count_nonzero(upto_value(chunk, bracket.low, low)))
        if same_value(bracket.low, bracket.high):
            high[...] = low
        return below_low, upto_low, below_high, upto_high

    def side(self, bracket: Bracket, above: bool) -> Unsorted:
        """Return the elements below the bracket, or those above it."""
        mask = np.empty(self.values.shape, bool)
        if not above:
            return Unsorted(np.compress(below_value(self.values, bracket.low, mask), self.values))
        reach = upto_value if bracket.heavy_high else below_value
        return Unsorted(np.compress(~reach(self.values, bracket.high, mask), self.values))

    @staticmethod
    def of(values: np.ndarray) -> Unsorted:
        """Return a vector of some of the elements."""
        return Unsorted(values)


class Statistic(NamedTuple):
    """The element of a rank, and how many elements of each process are less than it and equal to it."""

    value: Any
    less: np.ndarray
    equal: np.ndarray


class _Group(NamedTuple):
    """The elements that still may have some wanted ranks; `base` counts the smaller elements left out, by process."""

    data: Unsorted
    base: np.ndarray
    ranks: tuple[int, ...]  # among all elements, not only those of the group


def sample_size(total: int) -> int:
    """Return the sample's size for `total` elements: about as many as a bracket then collects, so both cost as much."""
    return max(ALL, int((4.0 * total) ** (2 / 3)))


def _told(
    here: World, text: str, integers: np.ndarray, values: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Send integers and values of each process to all; return both by process.  Collective: one superstep."""
    arrived = [array for _, array in here.exchange(text, [(range(here.nprocs), each) for each in (integers, values)])]
    return arrived[0::2], arrived[1::2]


def order_statistics(
    here: World, data: Unsorted, ranks: Any, extra: Sequence[int] = ()
) -> tuple[dict[int, Statistic], np.ndarray]:
    """Return the elements of some ranks (from 0), and the `extra` integers of every process, shape (p, extras).

    Collective; every process gets the same result.
    ranks : integers, or a function that computes them from (sizes of all processes, extras) after the first superstep.
    Cost: h = (p-1)·s/p words of the sample, s = (4n)^(2/3), and about as many elements again for each bracket;
    one pass; two supersteps with high probability, two more for each time a bracket misses; one if n <= 4096.
    """
    p = here.nprocs
    empty = data.values[:0]
    found: dict[int, Statistic] = {}
    groups = [_Group(data, np.zeros(p, np.int64), ())]
    extras: np.ndarray | None = None
    seed = 0
    sizes_told: list[np.ndarray] = []
    while groups:
        if extras is None:  # the total is not known yet: assume that every process has as many elements as this one
            count = _share(data.size, data.size * p)
            message = np.array([data.size, min(count, data.size), *extra], np.int64)
            sizes_told, samples = _told(here, "sample", message, np.ascontiguousarray(data.sample(count, here.pid)))
            extras = np.array([each[2:] for each in sizes_told], np.int64).reshape(p, len(extra))
            sizes = np.array([each[0] for each in sizes_told], np.int64)
            wanted = ranks(sizes, extras) if callable(ranks) else ranks
            groups = [groups[0]._replace(ranks=tuple(sorted({int(each) for each in wanted})))]
            taken = [[sample] for sample in samples]
            group_sizes = sizes[:, None]
        else:
            mine = [
                group.data.sample(_share(group.data.size, group.data.size * p), here.pid + seed) for group in groups
            ]
            message = np.array(
                [[group.data.size, len(each)] for group, each in zip(groups, mine, strict=True)], np.int64
            )
            told, samples = _told(here, "sample", message, np.concatenate(mine))
            group_sizes = np.array([each[:, 0] for each in told])
            taken = [np.split(sample, np.cumsum(each[:, 1])[:-1]) for each, sample in zip(told, samples, strict=True)]
        seed += p
        brackets: list[tuple[int, Bracket, list[int], int]] = []  # group, bracket, ranks, limit
        for number, group in enumerate(groups):
            if not group.ranks:
                continue
            sizes = group_sizes[:, number]
            parts = [each[number] for each in taken]
            if all(len(part) == size for part, size in zip(parts, sizes, strict=True)):
                _settle(found, group, parts, group.ranks)
                continue
            brackets += [(number, *each) for each in _brackets(parts, sizes, group, seed > p)]
        if not brackets:
            break
        groups = _round(here, groups, brackets, found, empty)
    assert extras is not None
    return found, extras


def _share(own: int, total: int) -> int:
    """Return how many of its `own` elements a process samples, if `total` is the estimated number of all elements."""
    if total <= ALL:
        return own
    return max(1, -(-sample_size(total) * own // total)) if own else 0


def _settle(found: dict[int, Statistic], group: _Group, parts: Sequence[np.ndarray], ranks: Sequence[int]) -> None:
    """Find the elements of `ranks` in a group of which this process has received all elements, into `found`."""
    together = np.sort(np.concatenate(parts))
    before = int(group.base.sum())
    ordered = [np.sort(part) for part in parts]
    for rank in ranks:
        value = together[rank - before]
        less = np.array([np.searchsorted(part, value, "left") for part in ordered], np.int64)
        upto = np.array([np.searchsorted(part, value, "right") for part in ordered], np.int64)
        found[rank] = Statistic(value, group.base + less, upto - less)


def _brackets(
    parts: Sequence[np.ndarray], sizes: np.ndarray, group: _Group, careful: bool
) -> list[tuple[Bracket, list[int], int]]:
    """Return a bracket around the group's ranks, those it covers, and the most elements it may collect per process.

    Brackets that overlap are joined.  `careful`: count equal elements separately at every end.
    """
    total = int(sizes.sum())
    values = np.concatenate(parts)
    weights = np.concatenate([
        np.full(len(part), size / max(len(part), 1)) for part, size in zip(parts, sizes, strict=True)
    ])  # fmt: skip
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    reach = np.cumsum(weights)  # the estimated number of elements up to each element of the sample
    heaviest = float(weights.max())
    count = len(values)
    before = int(group.base.sum())
    spans: list[tuple[int, int, list[int]]] = []
    for rank in group.ranks:
        q = (rank - before + 0.5) / total
        width = DEVIATIONS * np.sqrt(max(q * (1 - q), 1 / count) / count) * total * np.sqrt(heaviest * count / total)
        low = int(np.searchsorted(reach, rank - before - width)) - 2
        high = int(np.searchsorted(reach, rank - before + width)) + 2
        if spans and low <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(high, spans[-1][1]), [*spans[-1][2], rank])
        else:
            spans.append((low, high, [rank]))
    found = []
    for low, high, ranks in spans:
        a = values[low] if low >= 0 else None
        b = values[high] if high < count else None
        heavy_a = a is not None and (careful or same_value(values[min(low + 2, count - 1)], a))
        heavy_b = b is not None and (careful or same_value(values[max(high - 2, 0)], b))
        limit = int(3 * (high - low) / count * total) + 1024
        found.append((Bracket(a, b, heavy_a, heavy_b), ranks, limit))
    return found


def _round(
    here: World, groups: list[_Group], brackets: Sequence[tuple[int, Bracket, list[int], int]],
    found: dict[int, Statistic], empty: np.ndarray,
) -> list[_Group]:  # fmt: skip
    """Send counts and collected elements to all; put ranks that are settled into `found`; return the other groups.

    Collective: one superstep.
    """
    divided: list[tuple[RankCounts, np.ndarray]] = [(RankCounts(0, 0, 0, 0), empty)] * len(brackets)
    for number in dict.fromkeys(each[0] for each in brackets):
        of_group = [k for k, each in enumerate(brackets) if each[0] == number]
        for k, result in zip(of_group, groups[number].data.divided([brackets[k][1] for k in of_group]), strict=True):
            divided[k] = result
    caught = [
        inside if len(inside) <= limit else empty
        for (_, inside), (_, _, _, limit) in zip(divided, brackets, strict=True)
    ]
    message = np.array([[*counts, len(inside)] for counts, inside in divided], np.int64)
    told, values = _told(here, "counts and candidates", message, np.concatenate(caught))
    table = np.stack(told)  # (p, brackets, 5)
    lengths = np.where(table[:, :, 4] <= [each[3] for each in brackets], table[:, :, 4], 0)
    pieces = [np.split(each, np.cumsum(length)[:-1]) for each, length in zip(values, lengths, strict=True)]
    new: dict[tuple[int, str], list[int]] = {}
    for k, (number, bracket, ranks, _) in enumerate(brackets):
        base = groups[number].base
        below_low, upto_low, below_high, upto_high, inside = (table[:, k, column] for column in range(5))
        first = upto_low if bracket.heavy_low else below_low
        start = int((base + first).sum())
        settled = []
        for rank in ranks:
            if rank < int((base + below_low).sum()):
                new.setdefault((k, "below"), []).append(rank)
            elif rank < start:
                found[rank] = Statistic(bracket.low, base + below_low, upto_low - below_low)
            elif rank < start + int(inside.sum()):
                settled.append(rank)
            elif bracket.heavy_high and rank < int((base + upto_high).sum()):
                found[rank] = Statistic(bracket.high, base + below_high, upto_high - below_high)
            else:
                new.setdefault((k, "above"), []).append(rank)
        if settled and (lengths[:, k] == inside).all():
            _settle(found, _Group(groups[number].data, base + first, ()), [each[k] for each in pieces], settled)
        elif settled:
            new[k, "between"] = settled
    following = []
    for (k, where), ranks in new.items():
        number, bracket, _, _ = brackets[k]
        group = groups[number]
        if where == "between":
            base = group.base + (table[:, k, 1] if bracket.heavy_low else table[:, k, 0])
            following.append(_Group(group.data.of(divided[k][1]), base, tuple(ranks)))
        elif where == "below":
            following.append(_Group(group.data.side(bracket, False), group.base, tuple(ranks)))
        else:
            base = group.base + (table[:, k, 3] if bracket.heavy_high else table[:, k, 2])
            following.append(_Group(group.data.side(bracket, True), base, tuple(ranks)))
    return following


def statistics_cost(costs: Reported, values: Any, total: int, brackets: int) -> None:
    """Declare the cost of `order_statistics` if no bracket misses: the sample, one pass, the collected elements.

    All collected elements are assumed to be on the first processes, as may happen in data that are nearly in order.
    values : an array like this process's elements.  brackets : the most brackets that there can be.
    """
    costs.at_most()
    own, integer = values.shape[0], np.dtype(np.int64)
    sample = min(own, _share(own, own * costs.p))
    costs.tell("sample", costs.memory((3,), integer), costs.memory((sample,), values.dtype))
    costs.passing(8 * min(total, sample_size(total)), integer)
    if total <= ALL:
        return
    for _ in range(brackets):
        np.count_nonzero(np.less(values, values))
        np.count_nonzero(np.less(values, values))
    taken = sample_size(total)
    caught = brackets * int(1.25 * (DEVIATIONS / np.sqrt(taken) + 5 / taken) * total)
    costs.passing(4 * caught, integer)
    caught = min(own, max(0, caught - world().pid * own))
    costs.tell("counts and candidates", costs.memory((5 * brackets,), integer), costs.memory((caught,), values.dtype))
