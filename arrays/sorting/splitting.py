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

import itertools
from collections.abc import Iterator, Sequence
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


def _sampled(
    lows: np.ndarray, highs: np.ndarray, spacings: np.ndarray, pids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of samples between pairs of places, at equal distances, and how many each sample has.

    The samples follow one another.  The offsets of the processes are spread evenly over a distance.
    """
    lengths = np.maximum(highs - lows, 0)
    offsets = np.where(spacings > 1, pids * _GOLDEN % 1.0, 0.0)
    counts = -(-lengths // spacings)
    counts -= (counts > 0) & (((counts - 1 + offsets) * spacings).astype(np.int64) >= lengths)
    found = np.arange(counts.sum())  # in place, since there may be many
    found -= np.repeat(np.cumsum(counts) - counts, counts)
    if (spacings > 1).any():
        inside = found + np.repeat(offsets, counts)
        inside *= np.repeat(spacings, counts)
        found[:] = inside  # rounded down
    found += np.repeat(lows, counts)
    return found, counts


def sample_places(size: int, spacing: int, pid: int) -> np.ndarray:
    """Return the places of the sample of a process's vector of so many elements."""
    return _sampled(*np.array([[0], [size], [spacing], [pid]]))[0]


def rough_spacing(total: int, nprocs: int) -> int:
    """Return the distance in a sample that cuts evenly up to a sixty-fourth; 0 if it would take many words."""
    spacing = total // (64 * nprocs * nprocs)
    return spacing if spacing >= 8 * nprocs else 0


def _narrow(total: int, longest: int) -> tuple[DType, DType]:
    """Return the smallest dtypes for the number of an element, from 1 on, or what is below 0; and for a count."""
    return np.min_scalar_type(-total - 1), np.min_scalar_type(longest)


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
        self, values: np.ndarray, places: np.ndarray, counts: np.ndarray, lows: np.ndarray, highs: np.ndarray,
        weights: np.ndarray, backwards: bool,
    ) -> None:  # fmt: skip
        """Order the samples, of so many elements each, that processes 0, 1, ... sent of their places lows to highs."""
        turns = np.arange(len(counts))
        if backwards:
            turns = turns[::-1]
            turned = np.argsort(np.repeat(turns, counts), kind="stable")
            values, places = values[turned], places[turned]
        order = np.argsort(values, kind="stable")
        lengths = counts[turns]
        starts = np.cumsum(lengths) - lengths
        filled = lengths > 0
        some, at_start, at_end = turns[filled], starts[filled], (starts + lengths)[filled] - 1
        # elements of the same process between a sample and the one before, or after; `first`: before its first sample
        before, after = np.diff(places, prepend=0) - 1, np.diff(places, append=0) - 1
        before[at_start] = places[at_start] - lows[some]
        after[at_end] = highs[some] - places[at_end] - 1
        first = (highs - lows)[turns].astype(np.float64)
        first[filled] = before[at_start]
        number = np.arange(len(places)) - np.repeat(starts, lengths)
        self.values, self.places, before, after, number = (
            each[order] for each in (values, places, before, after, number)
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
    places: np.ndarray  # of all samples, one after the other
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
    if not whole and spacing > 1:
        own = own[sample_places(own.size, spacing, here.pid)]
    arrived = here.exchange(text, [(range(here.nprocs), each) for each in (integers, own, *more)])
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
    places, _ = _sampled(np.zeros_like(spacings), table[:, 0], spacings, np.arange(nprocs))
    besides = [each[2:] for each in by_source]
    return Samples(table[:, 0], parts, places, spacings, table[:, 1:], besides, bool(full.all()))


def _reach_of(samples: Samples, backwards: bool = False) -> _Reach:
    values, counts = np.concatenate(samples.parts), np.array([part.size for part in samples.parts])
    lows = np.zeros_like(samples.sizes)
    return _Reach(values, samples.places, counts, lows, samples.sizes, samples.spacings, backwards)


def _reached(samples: Samples, ranks: np.ndarray, backwards: bool) -> tuple[_Reach, tuple[np.ndarray, ...]]:
    """Return the samples in order, and those around some ranks."""
    reach = _reach_of(samples, backwards)
    return reach, reach.around(ranks, False)


class _Candidates(NamedTuple):
    """The counts and elements that the processes have sent to the owner of one bracket."""

    spans: np.ndarray  # (p, 2), where the bracket cuts the vector of each process
    values: np.ndarray  # the elements inside, or a sample of them, one process after the other
    places: np.ndarray  # of these on their processes
    counts: np.ndarray  # (p,), how many of them each process has


class _Round(NamedTuple):
    """The ranks that are not settled, by owner, both ascending."""

    ranks: np.ndarray
    owners: list[int]
    starts: np.ndarray  # where each owner's ranks begin, and the end

    def of(self, pid: int) -> list[int]:
        """Return the ranks of an owner."""
        if pid not in self.owners:
            return []
        at = self.owners.index(pid)
        found: list[int] = self.ranks[self.starts[at] : self.starts[at + 1]].tolist()
        return found


class _Search:
    """An owner's search for one rank: the narrowest elements that are known to enclose it, with their ranks."""

    def __init__(self, rank: int, total: int) -> None:
        self.rank = rank
        self.low: tuple[Any, int, int] = (None, -1, 0)
        self.high: tuple[Any, int, int] = (None, -1, 0)
        self.low_rank, self.high_rank = 0, total
        self.careful = False

    def answer(
        self, bracket: tuple[Any, Any], spacing: int, most: Budget, told: _Candidates, backwards: bool
    ) -> tuple[Any, np.ndarray] | tuple[Any, Any, int]:
        """Return the element and how many are before it on each process; or a new bracket's ends and spacing.

        bracket : the ends that were asked about.
        """
        lows, highs = told.spans[:, 0], told.spans[:, 1]
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
        weights = np.full(len(lows), spacing)
        reach = _Reach(told.values, told.places, told.counts, lows, highs, weights, backwards)
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

    def round(self) -> _Round:
        """Return the ranks that are not settled."""
        ranks = np.flatnonzero(self.open)
        ranks = ranks[np.argsort(self.owners[ranks], kind="stable")]
        owners, starts = np.unique(self.owners[ranks], return_index=True)
        return _Round(ranks, owners.tolist(), np.append(starts, ranks.size))

    def asked(self, round: _Round) -> Iterator[_Candidates]:
        """Send each owner what is below its brackets and inside; return what arrived, for one of its brackets a time.

        Collective: one superstep.
        """
        here = self.here
        lows = self.low.within(self.own, here.pid, 0, self.backwards)
        highs = np.maximum(lows, self.high.within(self.own, here.pid, self.own.size, self.backwards))
        lows, highs, spacings = lows[round.ranks], highs[round.ranks], self.spacing[round.ranks]
        places, counts = _sampled(lows, highs, spacings, np.full(lows.size, here.pid))
        spans, inside = np.stack([lows, highs], axis=1).astype(self.counts), self.own[places]
        first, begin = round.starts.tolist(), np.append(0, np.cumsum(counts))[round.starts].tolist()
        out = []
        for k, owner in enumerate(round.owners):
            out += [(owner, spans[first[k] : first[k + 1]]), (owner, inside[begin[k] : begin[k + 1]])]
        del places, inside
        arrived = [array for _, array in here.exchange("counts and candidates to owners", out)]
        return self._candidates(round.of(here.pid), arrived)

    def _candidates(self, mine: list[int], arrived: list[np.ndarray]) -> Iterator[_Candidates]:
        """Yield what arrived for each of an owner's brackets: from each process all counts, and all elements."""
        if not mine:
            return
        p = self.here.nprocs
        spans = np.concatenate(arrived[::2]).astype(np.int64).reshape(p, len(mine), 2)
        taken = np.zeros(p, np.int64)  # elements of each process that belong to the brackets before
        for j, k in enumerate(mine):
            lows, highs = spans[:, j].T
            places, counts = _sampled(lows, highs, np.full(p, self.spacing[k]), np.arange(p))
            ends = taken + counts
            cuts = zip(arrived[1::2], taken.tolist(), ends.tolist(), strict=True)
            values = np.concatenate([part[start:stop] for part, start, stop in cuts])
            taken = ends
            yield _Candidates(spans[:, j], values, places, counts)

    def answered(self, round: _Round, told: Iterator[_Candidates]) -> None:
        """Answer as an owner; receive this process's cuts, or the next brackets.  Collective: one superstep."""
        here, p = self.here, self.here.nprocs
        columns: list[np.ndarray] = []  # of a table with a row for each process
        values: list[Any] = []
        watched: list[tuple[int, np.ndarray]] = []
        for k, candidates in zip(round.of(here.pid), told, strict=True):
            bracket = self.low.at(k), self.high.at(k)
            found = self.mine[k].answer(bracket, int(self.spacing[k]), self.most, candidates, self.backwards)
            if len(found) == 2:
                columns.append(~found[1][:, None])
                values += [found[0]] * self.tells
                watched.append((k, found[1]))
                self.watched[k] = found[1]
            else:
                low, high, apart = found
                columns.append(np.tile([apart, self._code(low), self._code(high)], (p, 1)))
                values += [np.zeros((), self.own.dtype)[()] if each[0] is None else each[0] for each in (low, high)]
        out: list[tuple[int | range, np.ndarray]] = []
        if columns:
            out += enumerate(np.concatenate(columns, axis=1).astype(self.codes))
            out.append((range(p), np.array(values, self.own.dtype)))
        out += [(int(self.watchers[k]), places.astype(self.counts)) for k, places in watched if self.watchers[k] >= 0]
        heard: dict[int, list[np.ndarray]] = {owner: [] for owner in round.owners}
        for owner, array in here.exchange("cuts and brackets", out):
            heard[owner].append(array)
        self._learned(round.ranks, list(heard.values()))

    def _learned(self, ranks: np.ndarray, heard: list[list[np.ndarray]]) -> None:
        """Read what the owners of some ranks have told: the cuts, one number below 0 each, or the next brackets.

        A bracket is three numbers, not below 0, and the elements at its ends.
        """
        numbers = np.concatenate([each[0] for each in heard]).astype(np.int64)
        values = np.concatenate([each[1] for each in heard])
        more = numbers >= 0
        first = np.flatnonzero(~more | (np.cumsum(more) % 3 == 1))
        wide = more[first]
        taken = np.where(wide, 2, int(self.tells))
        at = np.cumsum(taken) - taken
        settled, others = ranks[~wide], ranks[wide]
        self.open[settled] = False
        self.places[settled] = ~numbers[first[~wide]]
        if self.tells:
            self.values[settled] = values[at[~wide]]
        self.spacing[others] = numbers[first[wide]]
        for j, end in enumerate((self.low, self.high)):
            end.values[others] = values[at[wide] + j]
            end.pids[others], end.places[others] = self._decoded(numbers[first[wide] + 1 + j])
        vectors = itertools.chain.from_iterable(each[2:] for each in heard)
        for k in settled[self.watchers[settled] == self.here.pid].tolist():
            self.watched[k] = next(vectors).astype(np.int64)

    def _code(self, end: tuple[Any, int, int]) -> int:
        """Return the place on a process as its number among all elements by process, from 1 on; 0: unbounded."""
        return 0 if end[1] < 0 else int(self.starts[end[1]]) + end[2] + 1

    def _decoded(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the processes and places that `_code` encoded."""
        pids = np.searchsorted(self.starts, codes - 1, "right") - 1  # -1 of an unbounded end, since starts[0] is 0
        return pids, np.where(codes > 0, codes - 1 - self.starts[pids], 0)


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
        round = brackets.round()
        brackets.answered(round, brackets.asked(round))
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
