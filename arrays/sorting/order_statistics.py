"""Exact order statistics of numbers dealt to processes: which value has rank r, in two supersteps as a rule.

Everybody tells a sample; where the wanted rank must lie in it, plus or minus some standard deviations, gives two
brackets.  One pass counts what is below each and picks out what is between; counts and picked elements go to all
in one superstep, and everyone finds the same value.  A bracket that misses, or catches too much, is tried again on
what is left of its side: the number of rounds is one with high probability, and each round leaves less.

Order is NumPy's: NaN after everything.  Source of the idea: Floyd and Rivest (1975), in rounds as sample sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.execution.world import World

CHUNK = 1 << 15  # elements of a pass that stay in the cache
ALL = 4096  # so few elements are told whole
DEVIATIONS = 4.5  # a bracket's half width
PASSES = 8  # brackets in a pass over unsorted data; with more, sorting first is quicker


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (_is_nan(a) and _is_nan(b))


class Bracket(NamedTuple):
    """Two values, or None for no bound; `heavy`: elements equal to the value are counted apart."""

    low: Any
    high: Any
    heavy_low: bool
    heavy_high: bool


class RankCounts(NamedTuple):
    """Of one process: elements below a bracket's low end, not above it, below its high end, not above it."""

    below_low: int
    upto_low: int
    below_high: int
    upto_high: int


def _below(x: Any, value: Any, out: Any) -> Any:
    return np.equal(x, x, out=out) if _is_nan(value) else np.less(x, value, out=out)


def _upto(x: Any, value: Any, out: Any) -> Any:
    if _is_nan(value):
        out[...] = True
        return out
    return np.less_equal(x, value, out=out)


class Unsorted:
    """A vector in any order."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    @property
    def size(self) -> int:
        """Elements."""
        return self.values.size

    def sample(self, count: int, seed: int) -> Any:
        """One element of each of `count` stretches; the same ones every time."""
        size = self.values.size
        if count >= size:
            return self.values
        draws = np.random.default_rng([seed, size]).integers(0, max(size // count, 1), count)
        return self.values[np.arange(count) * size // count + draws]

    def divided(self, brackets: Sequence[Bracket]) -> list[tuple[RankCounts, np.ndarray]]:
        """For each bracket the counts and what is between.  One pass."""
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
        """Counts of a chunk; `low` and `high` are left as what is below the open range, and below its end."""
        upto_high = 0
        if bracket.high is None:
            high[...] = True
            below_high = upto_high = chunk.size
        else:
            if bracket.heavy_high:
                upto_high = int(np.count_nonzero(_upto(chunk, bracket.high, high)))
            below_high = int(np.count_nonzero(_below(chunk, bracket.high, high)))
        if bracket.low is None:
            low[...] = False
            return 0, 0, below_high, upto_high
        below_low = int(np.count_nonzero(_below(chunk, bracket.low, low)))
        if not bracket.heavy_low:
            return below_low, below_low, below_high, upto_high
        upto_low = int(np.count_nonzero(_upto(chunk, bracket.low, low)))
        if _same(bracket.low, bracket.high):
            high[...] = low
        return below_low, upto_low, below_high, upto_high

    def side(self, bracket: Bracket, above: bool) -> Unsorted:
        """What is below the bracket, or above it."""
        mask = np.empty(self.values.shape, bool)
        if not above:
            return Unsorted(np.compress(_below(self.values, bracket.low, mask), self.values))
        reach = _upto if bracket.heavy_high else _below
        return Unsorted(np.compress(~reach(self.values, bracket.high, mask), self.values))

    @staticmethod
    def of(values: np.ndarray) -> Unsorted:
        """Some of the elements."""
        return Unsorted(values)


class Statistic(NamedTuple):
    """The element of a rank, and for each process how many come before it and how many equal it."""

    value: Any
    less: np.ndarray
    equal: np.ndarray


class _Group(NamedTuple):
    """Elements among which some ranks lie: this process's, and how many smaller ones each process has besides."""

    data: Unsorted
    base: np.ndarray
    ranks: tuple[int, ...]  # in the whole


def sample_size(total: int) -> int:
    """As many as what brackets catch then: the two cost the same words."""
    return max(ALL, int((4.0 * total) ** (2 / 3)))


def _told(
    here: World, text: str, integers: np.ndarray, values: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Integers and values of each process, to all."""
    out: list[tuple[int, Any]] = []
    for dest in range(here.nprocs):
        out += [(dest, integers), (dest, values)]
    arrived = [array for _, array in here.exchange(text, out)]
    return arrived[0::2], arrived[1::2]


def order_statistics(
    here: World, data: Unsorted, ranks: Any, extra: Sequence[int] = ()
) -> tuple[dict[int, Statistic], np.ndarray]:
    """The elements of some ranks (from 0), and the `extra` integers of every process, shape (p, extras).

    ranks : integers, or a function that gives them from (sizes of all processes, extras): known after a superstep.
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
        if extras is None:  # sizes are not known yet: a sample in proportion to what this process has
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
    """How many of its elements a process tells, when `total` is what there is at a guess."""
    if total <= ALL:
        return own
    return max(1, -(-sample_size(total) * own // total)) if own else 0


def _settle(found: dict[int, Statistic], group: _Group, parts: Sequence[np.ndarray], ranks: Sequence[int]) -> None:
    """All elements are here."""
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
    """Around each wanted rank; those that overlap are one.  And how many elements one may catch on a process."""
    total = int(sizes.sum())
    values = np.concatenate(parts)
    weights = np.concatenate([
        np.full(len(part), size / max(len(part), 1)) for part, size in zip(parts, sizes, strict=True)
    ])  # fmt: skip
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    reach = np.cumsum(weights)  # about how many elements there are up to each of the sample
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
        heavy_a = a is not None and (careful or _same(values[min(low + 2, count - 1)], a))
        heavy_b = b is not None and (careful or _same(values[max(high - 2, 0)], b))
        limit = int(3 * (high - low) / count * total) + 1024
        found.append((Bracket(a, b, heavy_a, heavy_b), ranks, limit))
    return found


def _round(
    here: World, groups: list[_Group], brackets: Sequence[tuple[int, Bracket, list[int], int]],
    found: dict[int, Statistic], empty: np.ndarray,
) -> list[_Group]:  # fmt: skip
    """Counts and what brackets caught, to all; the ranks that are settled go to `found`, the others into new groups."""
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


def abstract_statistics(here: World, values: Any, total: int, brackets: int, extras: int) -> None:
    """What it moves and counts without values, if no bracket misses: the sample, one pass, what brackets catch.

    What they catch lies all on the first processes, as it may in data that are nearly in order.
    """
    here.at_most()
    p, own = here.nprocs, values.shape[0]
    sample = min(own, _share(own, own * p))
    _told(here, "sample", here.empty((2 + extras,), np.dtype(np.int64)), here.empty((sample,), values.dtype))
    here.passes(8 * min(total, sample_size(total)), np.dtype(np.int64))
    if total <= ALL:
        return
    for _ in range(brackets):
        np.count_nonzero(np.less(values, values))
        np.count_nonzero(np.less(values, values))
    taken = sample_size(total)
    caught = brackets * int(1.25 * (DEVIATIONS / np.sqrt(taken) + 5 / taken) * total)
    here.passes(4 * caught, np.dtype(np.int64))
    caught = min(own, max(0, caught - here.pid * own))
    _told(
        here,
        "counts and candidates",
        here.empty((5 * brackets,), np.dtype(np.int64)),
        here.empty((caught,), values.dtype),
    )
