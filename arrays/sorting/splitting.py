"""Exact splitters of vectors that are sorted on each process: where each must cut so that given numbers lie below.

Each splitter is found by one process, its owner, so that no process receives data that only another one needs:

1. Every process sends a sample of its vector to all.  Two elements of the sample become the bracket of each rank.
2. Every process sends the owner of each rank how many of its elements lie below the bracket, and the elements inside:
   all of them, or a sample if they are many.
3. The owner sends every process its cut, or a narrower bracket, with which steps 2 and 3 are repeated.

Samples are taken from the sorted vectors at equal distances, so that the rank of a sampled element is uncertain by
less than one distance on each process.  The number of elements below it therefore lies between exact bounds, and
probably near their middle; a bracket reaches DEVIATIONS standard deviations from there.  Step 2 computes the true
ranks of its ends.  If the bracket missed, the owner notices, and the next bracket reaches as far as the exact bounds.
So the splitters are exact for every input.

Of equal elements those of lower processes come first, and on a process those at lower places.  All elements differ in
this order, so that equal ones need no special case.  NaN is after everything, as in NumPy's own searches.
With n elements on each of p processes, a sample of x from each process leaves about 2.3·n·√p/x in a bracket.
Rounds of histograms: Solomonik and Kale (IPDPS 2010).  There each round involves every process; owners avoid that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import DType
from bsp.declared import Reported

WORD = np.dtype(np.int64)
BYTE = np.dtype(np.uint8)
WHOLE = 1 << 14  # at most so many words are sent whole instead of a sample
FEW = 1 << 12  # so many words are cheaper than two more supersteps
DEVIATIONS = 4.0  # half the width of a bracket, in standard deviations
AMPLE = 100  # with AMPLE·p elements on each process, a third round of brackets may pay: see `budget`
MARGIN = 2.0  # how much fuller than expected the last bracket may be: 1.9 was seen in 63 cuts of six arrays
_GOLDEN = (sqrt(5) - 1) / 2  # multiples of it, modulo one, are spread evenly


class Budget(NamedTuple):
    """The distances of samples, and how many elements an owner asks for at once; functions of sizes only."""

    spacing: int  # of the first sample; 1: all elements
    asked: int  # the most elements of a bracket that are asked for whole, and about so many of a longer one
    rounds: int  # of brackets, as a rule


def budget(total: int, nprocs: int, ranks: int = 0, dtype: DType = WORD, spare: float = 1 / 3) -> Budget:
    """Return how to sample `total` elements: send all; or one round if that takes few words; or two, which take fewer.

    ranks : how many splitters are wanted.
    spare : where there are AMPLE·p² elements, a third round is made if two would take so many words an element.

    With x elements of each process in the first sample and x·p asked for in each round, the last of r rounds finds
    about x·p/MARGIN in a bracket if x^(r+1) = MARGIN·(n/p)·(width/√p)^r.
    """
    words = max(1, dtype.itemsize // 8)
    if total * words <= WHOLE or nprocs == 1:
        return Budget(1, total, 0)
    each = total / nprocs
    width = DEVIATIONS / sqrt(3)  # of a bracket, in spacings, for one process

    def sampled(rounds: int) -> float:
        return float((MARGIN * each * (width / sqrt(nprocs)) ** rounds) ** (1 / (rounds + 1)))

    once, twice = (nprocs * (rounds + 1) * sampled(rounds) for rounds in (1, 2))  # words
    rounds = 1 if once <= max(FEW / words, each / 3, twice) else 2
    if rounds == 2 and each >= AMPLE * nprocs and twice > each * spare:
        rounds = 3
    spacing = ceil(each / max(4, round(sampled(rounds))))
    asked = ceil(width * sqrt(nprocs) * (MARGIN * spacing) ** (1 / rounds))
    if spacing == 1 or 2 * asked * ranks >= total * nprocs:
        return Budget(1, total, 0)
    rounds, inside = 1, width * spacing * sqrt(nprocs)
    while inside > asked and rounds < 3:
        rounds, inside = rounds + 1, inside * width * sqrt(nprocs) / asked
    return Budget(spacing, asked, rounds)


def _sampled(low: int, high: int, spacing: int, pid: int) -> np.ndarray:
    """Return the places of a process's sample between two places, at equal distances.

    The offsets of the processes are spread evenly over a distance.
    """
    if spacing == 1:
        return np.arange(low, high)
    count = -(-max(high - low, 0) // spacing)
    found = low + ((np.arange(count) + pid * _GOLDEN % 1.0) * spacing).astype(np.int64)
    return found[found < high]


def _sample_sizes(lows: np.ndarray, highs: np.ndarray, spacing: int, pids: np.ndarray) -> np.ndarray:
    """Return how many places `_sampled` returns between each pair of places of some processes."""
    length: np.ndarray = np.maximum(highs - lows, 0)
    if spacing == 1:
        return length
    count = -(-length // spacing)
    last = ((count - 1 + pids * _GOLDEN % 1.0) * spacing).astype(np.int64)
    found: np.ndarray = count - ((count > 0) & (last >= length))
    return found


def rough_spacing(total: int, nprocs: int) -> int:
    """Return the distance in a sample that cuts evenly up to a sixty-fourth; 0 if it would take many words."""
    spacing = total // (64 * nprocs * nprocs)
    return spacing if spacing >= 8 * nprocs else 0


def _narrow(total: int, longest: int) -> tuple[DType, DType]:
    """Return the smallest dtypes for the number of an element (or -1), and for a count on one process."""
    return np.min_scalar_type(-max(total, 1)), np.min_scalar_type(longest)


class Ends:
    """One end of each of several brackets: an element by value, process and place there; process -1: unbounded."""

    def __init__(self, values: np.ndarray, pids: np.ndarray, places: np.ndarray) -> None:
        self.values, self.pids, self.places = values, pids, places

    def within(self, own: np.ndarray, me: int, default: int, backwards: bool) -> np.ndarray:
        """Return how many elements of this process's vector come before each end; `default` for unbounded ends."""
        before = self.pids < me if backwards else self.pids > me
        found = np.where(
            before, np.searchsorted(own, self.values, "right"), np.searchsorted(own, self.values, "left")
        )  # fmt: skip
        here = self.pids == me
        found[here] = self.places[here]
        found[self.pids < 0] = default
        return found

    def at(self, k: int) -> tuple[Any, int, int]:
        """Return the end of bracket k: value, process, place."""
        return self.values[k], int(self.pids[k]), int(self.places[k])


class _Reach:
    """The samples of all processes in order, with bounds on how many elements come before each."""

    def __init__(
        self, parts: Sequence[np.ndarray], places: Sequence[np.ndarray], lows: np.ndarray, highs: np.ndarray,
        weights: np.ndarray, backwards: bool,
    ) -> None:  # fmt: skip
        turns = np.arange(len(parts))[::-1] if backwards else np.arange(len(parts))
        values = np.concatenate([parts[pid] for pid in turns])
        order = np.argsort(values, kind="stable")
        lengths = np.array([len(places[pid]) for pid in turns])
        starts = np.cumsum(lengths) - lengths
        filled = lengths > 0
        some, at_start, at_end = turns[filled], starts[filled], (starts + lengths)[filled] - 1
        inside = np.concatenate([places[pid] for pid in turns])
        # elements of the same process between a sample and the one before, or after; `first`: before its first sample
        before, after = np.diff(inside, prepend=0) - 1, np.diff(inside, append=0) - 1
        before[at_start] = inside[at_start] - lows[some]
        after[at_end] = highs[some] - inside[at_end] - 1
        first = (highs - lows)[turns].astype(np.float64)
        first[filled] = before[at_start]
        number = np.arange(len(inside)) - np.repeat(starts, lengths)
        self.values, self.places, before, after, number = (
            each[order] for each in (values, inside, before, after, number)
        )  # fmt: skip
        self.pids = np.repeat(turns, lengths)[order]
        self.lower = np.cumsum(before + 1) - 1
        self.upper = int(first.sum()) + np.cumsum(after + 1) - (after + 1)
        growth = np.square(after, dtype=np.float64) - np.square(before, dtype=np.float64)
        spread = np.square(first).sum() + np.cumsum(growth) - np.square(after, dtype=np.float64)
        weight = weights[self.pids]
        own = self.places - lows[self.pids] - number * weight
        self.likely = np.clip(np.cumsum(weight) - weight + own, self.lower, self.upper)
        self.deviation = np.sqrt(np.maximum(spread, 0) / 12)
        self.total = int((highs - lows).sum())

    def around(self, ranks: np.ndarray, careful: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the samples on both sides of each rank, and about how many elements are between them.

        Index -1, or the number of samples, means that there is none on that side.
        careful : use the exact bounds, so that no bracket can miss.
        """
        width = np.inf if careful else DEVIATIONS
        reach = width * np.maximum(self.deviation, 1e-9)
        most = np.maximum.accumulate(np.minimum(self.upper, self.likely + reach))
        least = np.minimum.accumulate(np.maximum(self.lower, self.likely - reach)[::-1])[::-1]
        high = np.searchsorted(least, ranks, "left")
        low = np.minimum(np.searchsorted(most, ranks, "right") - 1, high)
        edges = np.concatenate([[0.0], self.likely, [self.total]])
        return low, high, np.ceil(edges[high + 1] - edges[low + 1]).astype(np.int64)

    def ends(self, at: np.ndarray) -> Ends:
        """Return ends of brackets at samples, by index; out of range: unbounded."""
        inside = (at >= 0) & (at < len(self.values))
        chosen = np.where(inside, at, 0)
        if not len(self.values):
            return Ends(np.zeros(len(at), self.values.dtype), np.full(len(at), -1), np.zeros(len(at), np.int64))
        return Ends(self.values[chosen], np.where(inside, self.pids[chosen], -1), self.places[chosen])


class Samples(NamedTuple):
    """The samples that all processes sent of their vectors, with what was sent along."""

    sizes: np.ndarray  # by process
    parts: list[np.ndarray]
    places: list[np.ndarray]
    spacings: np.ndarray  # by process
    extras: np.ndarray  # integers sent along, (p, extras)
    more: list[list[np.ndarray]]  # arrays sent along, by process
    whole: bool  # whether these are all elements


class Cuts(NamedTuple):
    """The elements of some ranks, and how many elements of this process come before each of them."""

    values: np.ndarray
    places: np.ndarray
    watched: dict[int, np.ndarray]  # by number of a rank that this process owns or watches: how many of each process


def tell_samples(
    here: World, text: str, own: np.ndarray, spacing: int, extras: Sequence[int] = (),
    more: Sequence[np.ndarray] = (), whole: bool = False,
) -> Samples:  # fmt: skip
    """Send this process's size, a sample, some integers and more arrays to all.  Collective: one superstep.

    spacing : distance in the sample, the same on every process.  whole : whether this process sends all its elements.
    """
    integers = np.array([own.size, *extras], np.int64)
    message = [integers, own if whole or spacing == 1 else own[_sampled(0, own.size, spacing, here.pid)], *more]
    arrived = here.exchange(text, [(dest, each) for dest in range(here.nprocs) for each in message])
    return here.once(text, lambda: _heard(arrived, here.nprocs, spacing), same=spacing)


def _heard(arrived: Sequence[tuple[int, np.ndarray]], nprocs: int, spacing: int) -> Samples:
    """Return the samples that all processes have sent to all; `spacing` is their distance."""
    by_source: list[list[np.ndarray]] = [[] for _ in range(nprocs)]
    for pid, array in arrived:
        by_source[pid].append(array)
    table = np.array([each[0] for each in by_source], np.int64)
    parts = [each[1] for each in by_source]
    full = np.array([len(part) == size for part, size in zip(parts, table[:, 0], strict=True)])
    spacings = np.where(full, 1, spacing)
    places = [
        _sampled(0, int(size), int(apart), pid)
        for pid, (size, apart) in enumerate(zip(table[:, 0], spacings, strict=True))
    ]
    besides = [each[2:] for each in by_source]
    return Samples(table[:, 0], parts, places, spacings, table[:, 1:], besides, bool(full.all()))


def _reach_of(samples: Samples, backwards: bool = False) -> _Reach:
    zeros = np.zeros_like(samples.sizes)
    return _Reach(samples.parts, samples.places, zeros, samples.sizes, samples.spacings, backwards)


def _reached(samples: Samples, ranks: np.ndarray, backwards: bool) -> tuple[_Reach, tuple[np.ndarray, ...]]:
    """Return the samples in order, and those around some ranks."""
    reach = _reach_of(samples, backwards)
    return reach, reach.around(ranks, False)


class _Search:
    """An owner's search for one rank: the narrowest elements that are known to enclose it, with their ranks."""

    def __init__(self, rank: int, total: int) -> None:
        self.rank = rank
        self.low: tuple[Any, int, int] = (None, -1, 0)
        self.high: tuple[Any, int, int] = (None, -1, 0)
        self.low_rank, self.high_rank = 0, total
        self.careful = False

    def answer(
        self, bracket: tuple[Any, Any], spacing: int, most: Budget, spans: np.ndarray, parts: Sequence[np.ndarray],
        places: Sequence[np.ndarray], backwards: bool,
    ) -> tuple[Any, np.ndarray] | tuple[Any, Any, int]:  # fmt: skip
        """Return the element and how many are before it on each process; or a new bracket's ends and spacing.

        bracket : the ends that were asked about.  spans : where they cut each process's vector, shape (p, 2).
        parts, places : the elements inside, or a sample, of each process, and their places.
        """
        lows, highs = spans[:, 0], spans[:, 1]
        below, upto = int(lows.sum()), int(highs.sum())
        low, high = bracket
        if self.rank == upto:
            return high[0], highs
        if self.rank == below and low[1] >= 0:
            return low[0], lows
        if not below <= self.rank < upto:  # the bracket missed the rank
            self.careful = True
            if self.rank < below:
                self.high, self.high_rank = low, below
            else:
                self.low, self.low_rank = high, upto
            return self._asked(self.low, self.high, self.high_rank - self.low_rank, most)
        self.low, self.low_rank, self.high, self.high_rank = low, below, high, upto
        reach = _Reach(parts, places, lows, highs, np.full(len(lows), spacing), backwards)
        if spacing == 1:
            at = self.rank - below
            return reach.values[at], lows + np.bincount(reach.pids[:at], minlength=len(lows))
        at_low, at_high, between = reach.around(np.array([self.rank - below]), self.careful)
        ends = []
        for at, outer in ((int(at_low[0]), low), (int(at_high[0]), high)):
            inside = 0 <= at < len(reach.values)
            ends.append((reach.values[at], int(reach.pids[at]), int(reach.places[at])) if inside else outer)
        return self._asked(ends[0], ends[1], min(int(between[0]), upto - below), most)

    @staticmethod
    def _asked(low: Any, high: Any, between: int, most: Budget) -> tuple[Any, Any, int]:
        return low, high, _spacing(between, most)


def _spacing(between: int, most: Budget) -> int:
    return 1 if between <= most.asked else -(-between // most.asked)


class _Brackets:
    """The search for all ranks, as every process has it: owners, brackets, and the ranks that are settled."""

    def __init__(
        self, here: World, own: np.ndarray, samples: Samples, ranks: np.ndarray, owners: np.ndarray,
        watchers: np.ndarray, most: Budget, backwards: bool, tells: bool,
    ) -> None:  # fmt: skip
        self.here, self.own, self.ranks, self.owners, self.watchers = here, own, ranks, owners, watchers
        self.most, self.backwards, self.tells = most, backwards, tells
        self.starts = np.cumsum(samples.sizes) - samples.sizes
        self.values = np.zeros(len(ranks), own.dtype)
        self.places = np.zeros(len(ranks), np.int64)
        self.watched: dict[int, np.ndarray] = {}
        reach, (low, high, between) = here.once(
            "reached", lambda: _reached(samples, ranks, backwards), [ranks], same=(id(samples), backwards)
        )  # fmt: skip
        self.low, self.high = reach.ends(low), reach.ends(high)
        self.spacing = np.array([_spacing(each, most) for each in between.tolist()], np.int64)
        self.open = np.ones(len(ranks), bool)
        total = int(samples.sizes.sum())
        self.codes, self.counts = _narrow(total, int(samples.sizes.max(initial=1)))
        self.mine = {k: _Search(int(ranks[k]), total) for k in np.flatnonzero(owners == here.pid).tolist()}

    def _by_owner(self) -> dict[int, list[int]]:
        """Return the ranks that are not settled, by owner, both ascending."""
        found: dict[int, list[int]] = {}
        for k in np.flatnonzero(self.open).tolist():
            found.setdefault(int(self.owners[k]), []).append(k)
        return dict(sorted(found.items()))

    def asked(self) -> list[tuple[np.ndarray, list[np.ndarray]]]:
        """Send each owner what is below its brackets and inside; return what arrived, by process.

        Collective: one superstep.  From each process come the spans of this owner's brackets, and the elements inside.
        """
        here = self.here
        lows = self.low.within(self.own, here.pid, 0, self.backwards)
        highs = np.maximum(lows, self.high.within(self.own, here.pid, self.own.size, self.backwards))
        spans = np.stack([lows, highs], axis=1)
        sent, by_owner = spans.astype(self.counts), self._by_owner()
        out = []
        for owner, ranks in by_owner.items():
            inside = [
                self.own[_sampled(low, high, int(self.spacing[k]), here.pid)]
                if self.spacing[k] > 1 else self.own[low:high]
                for k, (low, high) in zip(ranks, spans[ranks].tolist(), strict=True)
            ]  # fmt: skip
            out += [(owner, sent[ranks]), (owner, np.concatenate(inside))]
        arrived = [array for _, array in here.exchange("counts and candidates to owners", out)]
        mine = by_owner.get(here.pid, [])
        if not mine:
            return []
        table = np.stack(arrived[::2]).astype(np.int64)
        pids = np.arange(here.nprocs)
        sizes = [_sample_sizes(table[:, j, 0], table[:, j, 1], int(self.spacing[k]), pids) for j, k in enumerate(mine)]
        cuts = np.cumsum(np.stack(sizes, axis=1), axis=1)[:, :-1]
        return [
            (spans, np.split(values, cut) if len(mine) > 1 else [values])
            for spans, values, cut in zip(table, arrived[1::2], cuts, strict=True)
        ]

    def answered(self, told: list[tuple[np.ndarray, list[np.ndarray]]]) -> None:
        """Answer as an owner; receive this process's cuts, or the next brackets.  Collective: one superstep."""
        here = self.here
        rows: list[Any] = []
        values: list[Any] = []
        watched: list[tuple[int, np.ndarray]] = []
        by_owner = self._by_owner()
        for number, k in enumerate(by_owner.get(here.pid, ())):
            spans = np.array([each[0][number] for each in told])
            spacing = int(self.spacing[k])
            places = [_sampled(low, high, spacing, pid) for pid, (low, high) in enumerate(spans.tolist())]
            bracket = self.low.at(k), self.high.at(k)
            found = self.mine[k].answer(
                bracket, spacing, self.most, spans, [each[1][number] for each in told], places, self.backwards
            )  # fmt: skip
            if len(found) == 2:
                rows.append([(~int(place),) for place in found[1]])
                values += [found[0]] * self.tells
                watched.append((k, found[1]))
                self.watched[k] = found[1]
            else:
                low, high, apart = found
                rows.append([(apart, self._code(low), self._code(high))] * here.nprocs)
                values += [np.zeros((), self.own.dtype)[()] if each[0] is None else each[0] for each in (low, high)]
        out: list[tuple[int, np.ndarray]] = []
        if rows:
            elements = np.array(values, self.own.dtype)
            for dest in range(here.nprocs):
                out.append((dest, np.array([number for row in rows for number in row[dest]], self.codes)))
                out.append((dest, elements))
        out += [(int(self.watchers[k]), places.astype(self.counts)) for k, places in watched if self.watchers[k] >= 0]
        by_source: list[list[np.ndarray]] = [[] for _ in range(here.nprocs)]
        for pid, array in here.exchange("cuts and brackets", out):
            by_source[pid].append(array)
        for owner, ranks in by_owner.items():
            self._learned(ranks, by_source[owner])

    def _learned(self, ranks: list[int], message: list[np.ndarray]) -> None:
        """Read an owner's message: the cuts of its ranks, or their next brackets."""
        numbers, values, *watched = message
        integers = numbers.tolist()
        at = taken = 0
        vectors = iter(watched)
        for k in ranks:
            apart = integers[at]
            if apart < 0:
                self.open[k] = False
                self.places[k] = ~apart
                if self.tells:
                    self.values[k] = values[taken]
                if self.watchers[k] == self.here.pid:
                    self.watched[k] = next(vectors).astype(np.int64)
                at, taken = at + 1, taken + self.tells
                continue
            self.spacing[k] = apart
            for end, code, value in zip((self.low, self.high), integers[at + 1 :], values[taken:], strict=False):
                end.values[k] = value
                end.pids[k], end.places[k] = self._decoded(code)
            at, taken = at + 3, taken + 2

    def _code(self, end: tuple[Any, int, int]) -> int:
        """Return the place on a process as its number among all elements by process; -1: an unbounded end."""
        return -1 if end[1] < 0 else int(self.starts[end[1]]) + end[2]

    def _decoded(self, code: int) -> tuple[int, int]:
        """Return the process and place that `_code` encoded."""
        if code < 0:
            return -1, 0
        pid = int(np.searchsorted(self.starts, code, "right")) - 1
        return pid, code - int(self.starts[pid])


def rough_cuts(samples: Samples, ranks: Sequence[int]) -> np.ndarray:
    """Return sampled elements of approximately these ranks.  No superstep."""
    reach = world().once("reach", lambda: _reach_of(samples), same=id(samples))
    found: np.ndarray = reach.values[np.minimum(np.searchsorted(reach.likely, ranks), len(reach.values) - 1)]
    return found


def find_cuts(
    here: World, own: np.ndarray, samples: Samples, ranks: Sequence[int], most: Budget, *, backwards: bool = False,
    owners: Sequence[int] | None = None, watchers: Sequence[int] | None = None, tells: bool = True,
) -> Cuts:  # fmt: skip
    """Cut the sorted vectors of all processes, `own` here, at some ranks (from 0, each below the number of elements).

    Collective.
    samples : the result of `tell_samples`.  backwards : of equal elements those of higher processes come first.
    owners : by rank, the process that finds it; spread evenly if None.  watchers : by rank, a process that needs how
        many elements come before it on every process, or -1.  tells : whether to return the elements of the ranks, or
        only where to cut.
    Cost: nothing if the samples are whole.  Else two supersteps a round (`Budget.rounds`, two more for a bracket that
    misses).  In a round a process receives about `Budget.asked` elements for each rank it owns, half as many in the
    last round; 2 counts from every process for each rank that it owns; and 3 integers and 2 elements for each rank
    there is, or one of each in the last round.  Integers are sent in the smallest dtype that holds them.
    """
    p = here.nprocs
    wanted = np.array(ranks, np.int64)
    spread = np.arange(len(wanted)) * p // max(len(wanted), 1)
    finding = spread if owners is None else np.array(owners, np.int64)
    watching = np.full(len(wanted), -1) if watchers is None else np.array(watchers, np.int64)
    if samples.whole:
        key = id(samples), backwards  # the samples are one object for all processes of an element
        values, before = here.once("cut", lambda: _cut(samples, wanted, backwards), [wanted], same=key)
        watched = {k: before[k] for k in np.flatnonzero((watching == here.pid) | (finding == here.pid)).tolist()}
        return Cuts(values, before[:, here.pid], watched)
    brackets = _Brackets(here, own, samples, wanted, finding, watching, most, backwards, tells)
    while brackets.open.any():
        brackets.answered(brackets.asked())
    return Cuts(brackets.values, brackets.places, brackets.watched)


def _cut(samples: Samples, ranks: np.ndarray, backwards: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements of some ranks, and how many are before each on every process, of samples that are whole."""
    p, reach = len(samples.sizes), _reach_of(samples, backwards)
    segment = np.searchsorted(ranks, np.arange(len(reach.values)), "right")
    table = np.bincount(segment * p + reach.pids, minlength=(len(ranks) + 1) * p).reshape(-1, p)
    return reach.values[ranks], np.cumsum(table, axis=0)[: len(ranks)]


def shares(amount: int, nprocs: int, me: int) -> list[tuple[int, int]]:
    """Divide an amount over all other processes; return (pid, share) for each.

    If every process does so with the same amount, every process also receives that amount.
    """
    edges = [amount * k // max(nprocs - 1, 1) for k in range(nprocs)]
    return [((me + k) % nprocs, edges[k] - edges[k - 1]) for k in range(1, nprocs)]


def cuts_cost(
    costs: Reported, own: Any, total: int, longest: int, ranks: int, least: int = 0,
    more: Sequence[Any] = (), rough: bool = False, tells: bool = True, most: Budget | None = None,
) -> None:  # fmt: skip
    """Declare the cost of `tell_samples` and `find_cuts` if no bracket misses, with brackets as full as allowed.

    own : an array like this process's elements; a sample has `least` of them or more.  more : arrays sent along.
    total, longest : how many elements there are, and on the fullest process.
    rough : whether a fine sample may give the splitters without rounds.  most : the budget, if not the usual one.
    """
    costs.at_most()
    p, me, size = costs.p, world().pid, own.shape[0]
    most = most or budget(total, p, ranks, own.dtype)
    spacing = rough_spacing(total, p) if rough else 0
    item, words = own.dtype.itemsize, WORD.itemsize
    sample = max(min(size, least), -(-size // (spacing or most.spacing)))
    first = costs.memory((2 * words + item * sample + sum(each.nbytes for each in more),), BYTE)
    costs.tell("distinct elements, or a sample" if rough else "sample", first)
    costs.passing(9 * min(total, p * sample), WORD)
    each_rank = -(-ranks // p)
    code, count = (kind.itemsize for kind in _narrow(total, longest))
    for number in range(0 if spacing else most.rounds):
        last = number == most.rounds - 1
        inside = (most.asked if last else most.asked * 3 // 2 + p) * each_rank  # nearly reached in measured runs
        costs.total_exchange("counts and candidates to owners", [
            (dest, costs.memory((2 * count * each_rank + item * share,), BYTE)) for dest, share in shares(inside, p, me)
        ])  # fmt: skip
        costs.passing(9 * inside // max(each_rank, 1), WORD)  # one rank after another
        answer = costs.memory((each_rank * (code + item * tells if last else 3 * code + 2 * item),), BYTE)
        out = [(dest, answer) for dest in range(p) if dest != me]
        if last:
            out.append(((me - 1) % p, costs.memory((p * count,), BYTE)))
        costs.total_exchange("cuts and brackets", out)
