"""Exact splitters of vectors that are sorted on each process: where each must cut its own so that so many lie below.

A splitter is the business of one process, its owner, so that no process receives what another one needs:

1. Every process tells all a sample of its vector.  It gives every rank a bracket of two elements of the sample.
2. Every process tells the owner of each rank how many of its elements lie below the bracket, and what is inside: all
   of it, or a sample if that would be much.
3. The owner tells every process its cut, or a narrower bracket with which 2 and 3 are done again.

Samples are taken at equal distances from the sorted vectors, so that each is wrong by less than a distance on each
process.  How many elements lie below a sampled one is therefore between bounds that are known, and probably near
their middle; a bracket reaches DEVIATIONS standard deviations of that.  In step 2 its true ranks become known: one
that missed is told, and the next one reaches as far as the bounds do.  So the splitters are exact for every input.

Of equal elements those of lower processes come first, and on a process those of lower places: all elements differ,
and equal ones are no special case.  NaN is after everything, as in NumPy's own searches.
With n elements on each of p processes, a sample of x from each process leaves about 2.3·n·√p/x in a bracket.
Rounds of histograms: Solomonik and Kale (IPDPS 2010); that there each round asks everybody is what owners avoid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import DType

WORD = np.dtype(np.int64)
WHOLE = 1 << 14  # so few words are told whole
FEW = 1 << 12  # so many words are cheaper than two more supersteps
DEVIATIONS = 4.0
_GOLDEN = (sqrt(5) - 1) / 2  # multiples of it, modulo one, are spread evenly

Ranks = Sequence[int] | Callable[[np.ndarray, np.ndarray], Sequence[int]]  # or of (sizes, extras)


class Budget(NamedTuple):
    """How finely a vector is sampled, and how many elements an owner asks for at once; both follow from sizes."""

    spacing: int  # of the first sample; 1: all elements
    asked: int
    rounds: int  # of brackets, as a rule

    @property
    def most(self) -> int:
        """The most elements of a bracket that are asked for whole."""
        return 2 * self.asked


def budget(total: int, nprocs: int, ranks: int = 0, dtype: DType = WORD) -> Budget:
    """For `total` elements: all are told, or one round if that takes few words beside the elements, or two."""
    words = max(1, dtype.itemsize // 8)
    if total * words <= WHOLE or nprocs == 1:
        return Budget(1, total, 0)
    each = total / nprocs
    width = DEVIATIONS / sqrt(3)  # of a bracket, in spacings, for one process
    once = sqrt(width * each / sqrt(nprocs))  # elements sampled on each process
    twice = (width**2 * each / nprocs) ** (1 / 3)
    rounds = 1 if 3 * nprocs * once <= max(FEW / words, each / 3, 4 * nprocs * twice) else 2
    taken = max(4.0, once if rounds == 1 else twice)
    spacing, asked = max(1, int(each / taken)), ceil(nprocs * taken)
    if spacing == 1 or 2 * asked * ranks >= total * nprocs:
        return Budget(1, total, 0)
    return Budget(spacing, asked, 1 if width * spacing * sqrt(nprocs) <= asked else 2)


def _sampled(low: int, high: int, spacing: int, pid: int) -> np.ndarray:
    """The places of a process's sample between two places, at equal distances, the first at one of its own."""
    if spacing == 1:
        return np.arange(low, high)
    count = -(-max(high - low, 0) // spacing)
    found = low + ((np.arange(count) + pid * _GOLDEN % 1.0) * spacing).astype(np.int64)
    return found[found < high]


def rough_spacing(total: int, nprocs: int) -> int:
    """Of a sample so fine that its elements cut evenly but for a sixty-fourth; 0 if that would be many words."""
    spacing = total // (64 * nprocs * nprocs)
    return spacing if spacing >= 8 * nprocs else 0


class Ends:
    """One end of each of some brackets: an element, by value, process and place there; process -1: open."""

    def __init__(self, values: np.ndarray, pids: np.ndarray, places: np.ndarray) -> None:
        self.values, self.pids, self.places = values, pids, places

    def within(self, own: np.ndarray, me: int, default: int, backwards: bool) -> np.ndarray:
        """How many elements of this process's vector come before each end."""
        before = self.pids < me if backwards else self.pids > me
        found = np.where(
            before, np.searchsorted(own, self.values, "right"), np.searchsorted(own, self.values, "left")
        )  # fmt: skip
        here = self.pids == me
        found[here] = self.places[here]
        found[self.pids < 0] = default
        return found

    def at(self, k: int) -> tuple[Any, int, int]:
        """The end of one bracket."""
        return self.values[k], int(self.pids[k]), int(self.places[k])


class _Reach:
    """Samples of all processes in order, with bounds on how many elements come before each."""

    def __init__(
        self, parts: Sequence[np.ndarray], places: Sequence[np.ndarray], lows: np.ndarray, highs: np.ndarray,
        weights: np.ndarray, backwards: bool,
    ) -> None:  # fmt: skip
        turns = range(len(parts))[::-1] if backwards else range(len(parts))
        values = np.concatenate([parts[pid] for pid in turns])
        order = np.argsort(values, kind="stable")
        self.values = values[order]
        self.pids = np.repeat(np.array(turns), [len(parts[pid]) for pid in turns])[order]
        self.places = np.concatenate([places[pid] for pid in turns])[order]
        before = np.concatenate([np.diff(places[pid], prepend=lows[pid] - 1) - 1 for pid in turns])[order]
        after = np.concatenate([np.diff(places[pid], append=highs[pid]) - 1 for pid in turns])[order]
        first = np.array([
            (places[pid][0] if len(places[pid]) else highs[pid]) - lows[pid] for pid in turns
        ], np.float64)  # fmt: skip
        self.lower = np.cumsum(before + 1) - 1
        self.upper = int(first.sum()) + np.cumsum(after + 1) - (after + 1)
        growth = np.square(after, dtype=np.float64) - np.square(before, dtype=np.float64)
        spread = np.square(first).sum() + np.cumsum(growth) - np.square(after, dtype=np.float64)
        weight = weights[self.pids]
        number = np.concatenate([np.arange(len(places[pid])) for pid in turns])[order]
        own = self.places - lows[self.pids] - number * weight
        self.likely = np.clip(np.cumsum(weight) - weight + own, self.lower, self.upper)
        self.deviation = np.sqrt(np.maximum(spread, 0) / 12)
        self.total = int((highs - lows).sum())

    def around(self, ranks: np.ndarray, careful: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The samples on both sides of each rank (-1 and their number: none), and how many elements are between."""
        width = np.inf if careful else DEVIATIONS
        reach = width * np.maximum(self.deviation, 1e-9)
        most = np.maximum.accumulate(np.minimum(self.upper, self.likely + reach))
        least = np.minimum.accumulate(np.maximum(self.lower, self.likely - reach)[::-1])[::-1]
        high = np.searchsorted(least, ranks, "left")
        low = np.minimum(np.searchsorted(most, ranks, "right") - 1, high)
        edges = np.concatenate([[0.0], self.likely, [self.total]])
        return low, high, np.ceil(edges[high + 1] - edges[low + 1]).astype(np.int64)

    def ends(self, at: np.ndarray) -> Ends:
        """Brackets' ends by numbers of samples."""
        inside = (at >= 0) & (at < len(self.values))
        chosen = np.where(inside, at, 0)
        if not len(self.values):
            return Ends(np.zeros(len(at), self.values.dtype), np.full(len(at), -1), np.zeros(len(at), np.int64))
        return Ends(self.values[chosen], np.where(inside, self.pids[chosen], -1), self.places[chosen])


class Samples(NamedTuple):
    """What all processes told of their vectors."""

    sizes: np.ndarray  # by process
    parts: list[np.ndarray]
    places: list[np.ndarray]
    spacings: np.ndarray  # by process
    extras: np.ndarray  # (p, extras)
    more: list[list[np.ndarray]]  # arrays told besides, by process
    whole: bool  # whether these are all elements


class Cuts(NamedTuple):
    """The elements of some ranks, and how many elements of this process come before each."""

    values: np.ndarray
    places: np.ndarray
    watched: dict[int, np.ndarray]  # by number of a rank that this process owns or watches: how many of each process


def tell_samples(
    here: World, text: str, own: np.ndarray, spacing: int, extras: Sequence[int] = (),
    more: Sequence[np.ndarray] = (), whole: bool = False,
) -> Samples:  # fmt: skip
    """One superstep in which all are told each process's size, its sample, some integers, and more arrays.

    spacing : of samples, the same on every process.  whole : whether this process tells all of its elements.
    """
    integers = np.array([own.size, *extras], np.int64)
    message = [integers, own if whole or spacing == 1 else own[_sampled(0, own.size, spacing, here.pid)], *more]
    arrived = here.exchange(text, [(dest, each) for dest in range(here.nprocs) for each in message])
    by_source: list[list[np.ndarray]] = [[] for _ in range(here.nprocs)]
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


class _Search:
    """An owner's search for one rank: between which elements it surely is, and the bracket that is asked about."""

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
        """The element and what comes before it on each process; or the ends of a new bracket and its spacing."""
        lows, highs = spans[:, 0], spans[:, 1]
        below, upto = int(lows.sum()), int(highs.sum())
        low, high = bracket
        if self.rank == upto:
            return high[0], highs
        if self.rank == below and low[1] >= 0:
            return low[0], lows
        if not below <= self.rank < upto:  # it missed
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
    return 1 if between <= most.most else -(-between // most.asked)


class _Brackets:
    """What every process knows of the search for all ranks: who owns each, the brackets, and what is settled."""

    def __init__(
        self, here: World, own: np.ndarray, samples: Samples, ranks: np.ndarray, owners: np.ndarray,
        watchers: np.ndarray, most: Budget, backwards: bool, tells: bool,
    ) -> None:  # fmt: skip
        self.here, self.own, self.ranks, self.owners, self.watchers = here, own, ranks, owners, watchers
        self.most, self.backwards, self.tells = most, backwards, tells
        self.longest = int(samples.sizes.max(initial=1))
        self.values = np.zeros(len(ranks), own.dtype)
        self.places = np.zeros(len(ranks), np.int64)
        self.watched: dict[int, np.ndarray] = {}
        reach = _Reach(
            samples.parts, samples.places, np.zeros_like(samples.sizes), samples.sizes, samples.spacings, backwards
        )
        low, high, between = reach.around(ranks, False)
        self.low, self.high = reach.ends(low), reach.ends(high)
        self.spacing = np.array([_spacing(each, most) for each in between.tolist()], np.int64)
        self.open = np.ones(len(ranks), bool)
        total = int(samples.sizes.sum())
        self.mine = {k: _Search(int(ranks[k]), total) for k in np.flatnonzero(owners == here.pid).tolist()}

    def _of(self, owner: int) -> list[int]:
        return np.flatnonzero(self.open & (self.owners == owner)).tolist()

    def asked(self) -> list[tuple[np.ndarray, list[np.ndarray]]]:
        """One superstep: each owner learns what is below its brackets and inside; by process, spans and elements."""
        here = self.here
        lows = self.low.within(self.own, here.pid, 0, self.backwards)
        highs = np.maximum(lows, self.high.within(self.own, here.pid, self.own.size, self.backwards))
        out = []
        for owner in np.unique(self.owners[self.open]).tolist():
            open_ones = self._of(owner)
            inside = [
                self.own[_sampled(int(lows[k]), int(highs[k]), int(self.spacing[k]), here.pid)]
                if self.spacing[k] > 1 else self.own[lows[k] : highs[k]]
                for k in open_ones
            ]  # fmt: skip
            out.append((owner, np.stack([lows[open_ones], highs[open_ones]], axis=1)))
            out.append((owner, np.concatenate(inside)))
        arrived = here.exchange("counts and candidates to owners", out)
        return [
            (spans, np.split(values, np.cumsum(self._counts(pid, spans))[:-1]))
            for pid, (spans, values) in enumerate(
                (arrived[2 * pid][1], arrived[2 * pid + 1][1]) for pid in range(len(arrived) // 2)
            )
        ]

    def _counts(self, pid: int, spans: np.ndarray) -> list[int]:
        return [
            len(_sampled(int(low), int(high), int(self.spacing[k]), pid))
            for k, (low, high) in zip(self._of(self.here.pid), spans, strict=True)
        ]

    def answered(self, told: list[tuple[np.ndarray, list[np.ndarray]]]) -> None:
        """One superstep: every process learns its cuts, or the next brackets."""
        here = self.here
        rows: list[Any] = []
        values: list[Any] = []
        watched: list[tuple[int, np.ndarray]] = []
        for number, k in enumerate(self._of(here.pid)):
            spans = np.array([each[0][number] for each in told])
            spacing = int(self.spacing[k])
            places = [_sampled(int(low), int(high), spacing, pid) for pid, (low, high) in enumerate(spans)]
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
                out.append((dest, np.array([number for row in rows for number in row[dest]], np.int64)))
                out.append((dest, elements))
        out += [(int(self.watchers[k]), places) for k, places in watched if self.watchers[k] >= 0]
        by_source: list[list[np.ndarray]] = [[] for _ in range(here.nprocs)]
        for pid, array in here.exchange("cuts and brackets", out):
            by_source[pid].append(array)
        for owner in np.unique(self.owners[self.open]).tolist():
            self._learned(owner, by_source[owner])

    def _learned(self, owner: int, message: list[np.ndarray]) -> None:
        """What an owner tells of its ranks."""
        integers, values, *watched = message
        at = taken = 0
        vectors = iter(watched)
        for k in self._of(owner):
            apart = int(integers[at])
            if apart < 0:
                self.open[k] = False
                self.places[k] = ~apart
                if self.tells:
                    self.values[k] = values[taken]
                if self.watchers[k] == self.here.pid:
                    self.watched[k] = next(vectors)
                at, taken = at + 1, taken + self.tells
                continue
            self.spacing[k] = apart
            for end, code, value in zip((self.low, self.high), integers[at + 1 :], values[taken:], strict=False):
                end.values[k] = value
                end.pids[k], end.places[k] = (-1, 0) if code < 0 else divmod(int(code), self.longest)
            at, taken = at + 3, taken + 2

    def _code(self, end: tuple[Any, int, int]) -> int:
        """A place of a process as one word; -1: an open end."""
        return -1 if end[1] < 0 else end[1] * self.longest + end[2]


def rough_cuts(samples: Samples, ranks: Sequence[int]) -> np.ndarray:
    """Elements of about these ranks; nothing moves."""
    zeros = np.zeros_like(samples.sizes)
    reach = _Reach(samples.parts, samples.places, zeros, samples.sizes, samples.spacings, False)
    found: np.ndarray = reach.values[np.minimum(np.searchsorted(reach.likely, ranks), len(reach.values) - 1)]
    return found


def find_cuts(
    here: World, own: np.ndarray, samples: Samples, ranks: Sequence[int], most: Budget, *, backwards: bool = False,
    owners: Sequence[int] | None = None, watchers: Sequence[int] | None = None, tells: bool = True,
) -> Cuts:  # fmt: skip
    """Cut the sorted vectors of all processes, `own` here, at some ranks (from 0, each below the number of elements).

    samples : what `tell_samples` brought.  backwards : of equal elements those of higher processes come first.
    owners : by rank, who finds it; spread evenly if None.  watchers : by rank, a process that needs what comes before
        it on every process, or -1.  tells : whether the elements of the ranks are wanted, or only where to cut.
    Cost: nothing if the samples are whole.  Else two supersteps a round (`Budget.rounds`, two more for a bracket that
    misses); to each process at most `Budget.asked` + p elements for each rank it owns, in the last round twice that,
    and a round 2 words from every process for each rank that it owns, and 5 for each rank there is, or 2 in the last.
    """
    p = here.nprocs
    wanted = np.array(ranks, np.int64)
    spread = np.arange(len(wanted)) * p // max(len(wanted), 1)
    finding = spread if owners is None else np.array(owners, np.int64)
    watching = np.full(len(wanted), -1) if watchers is None else np.array(watchers, np.int64)
    if samples.whole:
        zeros = np.zeros_like(samples.sizes)
        reach = _Reach(samples.parts, samples.places, zeros, samples.sizes, samples.spacings, backwards)
        segment = np.searchsorted(wanted, np.arange(len(reach.values)), "right")
        table = np.bincount(segment * p + reach.pids, minlength=(len(wanted) + 1) * p).reshape(-1, p)
        before = np.cumsum(table, axis=0)[: len(wanted)]
        watched = {k: before[k] for k in np.flatnonzero((watching == here.pid) | (finding == here.pid)).tolist()}
        return Cuts(reach.values[wanted], before[:, here.pid], watched)
    brackets = _Brackets(here, own, samples, wanted, finding, watching, most, backwards, tells)
    while brackets.open.any():
        brackets.answered(brackets.asked())
    return Cuts(brackets.values, brackets.places, brackets.watched)


def abstract_cuts(
    here: World, own: Any, total: int, ranks: int, extras: int = 0, least: int = 0, more: Sequence[Any] = (),
    rough: bool = False, tells: bool = True,
) -> None:  # fmt: skip
    """The words of these without values, if no bracket misses: every bracket as full as it is asked for at once.

    own : this process's elements; a sample has `least` of them or more.  more : what is told with it.
    rough : whether the sample may do for splitters.
    """
    here.at_most()
    p, size = here.nprocs, own.shape[0]
    most = budget(total, p, ranks, own.dtype)
    spacing = rough_spacing(total, p) if rough else 0
    integers, kind = np.dtype(np.int64), own.dtype
    sample = max(min(size, least), -(-size // (spacing or most.spacing)))
    first = [here.empty((1 + extras,), integers), here.empty((sample,), kind), *more]
    here.exchange("sample", [(dest, each) for dest in range(p) for each in first])
    here.passes(9 * min(total, p * sample), integers)
    each_rank = -(-ranks // p)
    for number in range(0 if spacing else most.rounds):
        last = number == most.rounds - 1
        share = -(-(most.most if last else most.asked + p) * each_rank // max(p - 1, 1))
        told = [here.empty((2 * each_rank,), integers), here.empty((share,), kind)]
        here.exchange("counts and candidates to owners", [(dest, each) for dest in range(p) for each in told])
        here.passes(9 * (most.most if last else most.asked + p), integers)
        told = [
            here.empty(((1 if last else 3) * each_rank,), integers),
            here.empty(((tells if last else 2) * each_rank,), kind),
        ]
        out = [(dest, each) for dest in range(p) for each in told]
        if last:
            out.append(((here.pid - 1) % p, here.empty((p,), integers)))
        here.exchange("cuts and brackets", out)
