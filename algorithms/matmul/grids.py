"""Process grids and estimates of schedules on them, which choose the schedules whose words are counted.

There are thousands of grids for some hundred processes, so everything here is computed for all of them at once, with
bricks of equal size.  What is chosen is then counted exactly (`counts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isqrt, prod
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.matmul.schedules import SHIFTED, SIDES, Schedule
from bsp.cost.model import Cost, Machine

CLOSEST = 8  # grids, best by estimate, whose words are counted
LEAN = 2  # times the words of a grid that copies but two of the matrices
SPARE = 4  # numbers of layers looked at for each face of the grid: fewer may divide a brick more evenly
ROUNDS = 1024  # looked at; more if a side of a square grid has more than half as many processes
UNEVEN = 8 / 7  # a largest part of a brick this much larger is worth a layout that no process grid gives

Shape = tuple[int, ...]
Split = tuple[int, int]  # parts of a brick along both sides


@lru_cache(maxsize=256)
def grids(shape: Shape, p: int, layers: int) -> np.ndarray:
    """Return the process grids that give each process work: columns of (rows, columns, layers), more rows first.

    Grids of at most half as many processes as the largest one has are left out.

    layers : how many numbers of layers to look at besides 1, from the largest down.
    """
    m, k, n = (max(1, side) for side in shape)
    rows = np.arange(min(p, m), 0, -1)
    many = np.minimum(p // rows, n)
    rows = np.repeat(rows, many)
    columns = np.concatenate([np.arange(count, 0, -1) for count in many])
    found = [np.stack([rows, columns, np.ones_like(rows)])]
    most = np.minimum(p // (rows * columns), k)
    for fewer in range(layers):
        deep = most - fewer
        found.append(np.stack([rows, columns, deep])[:, deep > 1])
    every = np.concatenate(found, axis=1)
    processes = every.prod(axis=0)
    return every[:, 2 * processes > processes.max()]


def lean(shape: Shape, grids: np.ndarray) -> np.ndarray:
    """Return the grids whose words are at most `LEAN` times those of the best on which some matrix is not copied.

    The others would fit in a little less memory than these, at many times the words.
    """
    words = sum(Bricks(shape, grids).lacked)
    flat = words[grids.min(axis=0) == 1]
    return grids[:, words <= LEAN * flat.min()] if flat.size else grids


class Bricks:
    """Sizes of the bricks of many grids, in elements: whole, own and lacking, in the order A, B, C."""

    def __init__(self, shape: Shape, grids: np.ndarray) -> None:
        self.m, self.k, self.n = (-(-side // count) for side, count in zip(shape, grids[[0, 2, 1]], strict=True))
        self.size = self.m * self.k, self.k * self.n, self.m * self.n
        self.members = grids[1], grids[0], grids[2]
        self.own = tuple(-(-size // count) for size, count in zip(self.size, self.members, strict=True))
        self.lacked = tuple(size - own for size, own in zip(self.size, self.own, strict=True))
        self.shared = tuple(count > 1 for count in self.members)
        self.most = max(ROUNDS, 2 * isqrt(int(grids.prod(axis=0).max())))  # rounds

    def adding_up(self, room: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of pieces in which bricks of C are added up, and the memory that takes."""
        (own_a, own_b, own), size, lacked = self.own, self.size[2], self.lacked[2]
        stays, piece = own_a + own_b + size, size + lacked + own
        whole = (stays + lacked + own <= room) | (not room) | ~self.shared[2]
        sums = np.where(whole, 1, _parts(piece, room - stays, self.m, self.most))
        return sums, (stays + np.where(whole, lacked + own, piece / sums)) * self.shared[2]

    def price(self, machine: Machine, words: Any, times: Sequence[Any], steps: Any) -> np.ndarray:
        """Return the price in flop-times.  times : exchanges with those that share the brick of A, of B, and of C."""
        found: np.ndarray = machine.price(Cost(2.0 * self.m * self.k * self.n, words, steps))
        for count, often in zip(self.members, times, strict=True):
            in_two_phases = machine.price(Cost(0, 0, 1, messages=2 * (np.sqrt(count) - 1)))
            found = found + often * np.minimum(machine.price(Cost(0, 0, 0, messages=count - 1)), in_two_phases)
        return found


class Estimates(NamedTuple):
    """Estimates of schedules, one on each of many grids: flop-times, elements of memory, rounds, and pieces of sums."""

    price: np.ndarray
    memory: np.ndarray
    rounds: np.ndarray
    sums: np.ndarray


def at_once(shape: Shape, grids: np.ndarray, machine: Machine) -> Estimates:
    """Evaluate schedules of a single round."""
    found = Bricks(shape, grids)
    (a, b, c), (own_a, own_b, own_c), (in_a, in_b, in_c) = found.size, found.own, found.lacked
    row, column, depth = found.shared
    one = np.ones_like(a)
    price = found.price(machine, in_a + in_b + in_c, (one, one, one), (row | column) + 1 * depth)
    joined_a, joined_b = a * row, b * column
    joining = np.maximum(in_a + in_b + joined_a, joined_a + in_b + joined_b)
    most = np.maximum(np.maximum(joining, joined_a + joined_b + c), (c + in_c + own_c) * depth)
    return Estimates(price, own_a + own_b + most, one, one)


def growing(shape: Shape, grids: np.ndarray, machine: Machine, room: float) -> Estimates:
    """Evaluate rounds along k: bricks of C stay and grow, then are added up, in pieces where room is short."""
    found = Bricks(shape, grids)
    (a, b, c), (own_a, own_b, _), (in_a, in_b, in_c) = found.size, found.own, found.lacked
    row, column, depth = found.shared
    stays = own_a + own_b + c
    lent = 2 * (own_a * row + own_b * column)  # copies, until the next round's have been read
    pieces = lent + np.maximum(in_a + in_b + a, np.maximum(a + in_b + b, a + b + c))
    rounds = _parts(pieces, room - stays, found.k, found.most)
    sums, adding = found.adding_up(room)
    steps = rounds * (row | column) + sums * depth
    sent = _sent(found.m, found.k, found.members[0], rounds) + _sent(found.n, found.k, found.members[1], rounds)
    price = found.price(machine, np.maximum(in_a + in_b, sent) + in_c, (rounds, rounds, sums), steps)
    return Estimates(price, np.maximum(stays + pieces / rounds, adding), rounds, sums)


def skewed(
    shape: Shape, grids: np.ndarray, machine: Machine, room: float, rounds: np.ndarray | None = None
) -> Estimates:
    """Evaluate rounds along k of shifted pieces, each of which few processes read; a process fetches its own part too.

    rounds : None: a power of 2 that is enough for `room`, or as many as the longer side of the grid has processes.
    """
    found = Bricks(shape, grids)
    (a, b, c), (own_a, own_b, _) = found.size, found.own
    (columns, rows, _), (row, column, depth) = found.members, found.shared
    stays, most = own_a + own_b + c, np.clip(found.k, 1, found.most)

    def memory(rounds: np.ndarray) -> np.ndarray:
        joined = np.maximum(a * (rounds % columns > 0), b * (rounds % rows > 0))
        held: np.ndarray = stays + 2 * own_a * row * (columns % rounds > 0) + (a + b + np.maximum(joined, c)) / rounds
        return held

    if rounds is None:
        enough = _parts(a + b + c, room - stays, found.k, found.most)
        rounds = np.minimum(2 ** np.ceil(np.log2(enough)).astype(np.int64), most)
        longer = np.minimum(np.maximum(rows, columns), most)
        rounds = np.where((memory(rounds) > room) & (longer > rounds), longer, rounds)
    sums, adding = found.adding_up(room)
    meetings = np.maximum(1, rounds / np.maximum(rows, columns))
    words = a * row + b * column + found.lacked[2]
    price = found.price(machine, words, (meetings, meetings, sums), rounds * (row | column) + sums * depth)
    return Estimates(price, np.maximum(memory(rounds), adding), rounds, sums)


def staying(shape: Shape, grids: np.ndarray, machine: Machine, room: float, along: str) -> Estimates:
    """Evaluate rounds along n or m: bricks of A or B stay, those of C are added up piece by piece."""
    found = Bricks(shape, grids)
    one, other = (0, 1) if along == "n" else (1, 0)  # that stays, and that comes in pieces
    size, own, lacked, shared = found.size, found.own, found.lacked, found.shared
    homes = own[0] + own[1]
    gathering, stays = homes + (size[one] + lacked[one]) * shared[one], homes + own[2] + size[one] * shared[one]
    first = 2 * own[other] * shared[other] + lacked[other] + size[other]
    pieces = first + size[2] + (size[2] + lacked[2] + own[2]) * shared[2]
    side = found.n if along == "n" else found.m
    needed = ((first, room - gathering), (pieces, room - stays))
    rounds = np.maximum(*(_parts(elements, left, side, found.most) for elements, left in needed))
    memory = np.maximum(gathering + first / rounds, stays + pieces / rounds)
    times: list[Any] = [rounds, rounds, rounds]
    times[one] = 1
    sent = _sent(found.k, side, found.members[other], rounds)
    sent = sent + _sent(found.m if along == "n" else found.n, side, found.members[2], rounds)
    words = lacked[one] + np.maximum(lacked[other] + lacked[2], sent)
    price = found.price(machine, words, times, rounds + shared[2])
    return Estimates(price, memory, rounds, np.ones_like(rounds))


def _sent(side: np.ndarray, cut: np.ndarray, members: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    """Return the words that the fullest member of bricks sends, or receives of sums, where pieces are of side `cut`.

    Bricks are cut along `side`, or along both, and then gathered in one superstep or two, whichever is more even.
    """
    length, parts = np.maximum(-(-cut // rounds), 1), _near_root(int(members.max()))[members]
    others = members // parts
    part = -(-side // others) * -(-length // parts)
    in_two = part * (parts - 1) + -(-side // others) * length * (others - 1)
    fullest = np.minimum(np.minimum(-(-side // members) * length, part) * (members - 1), in_two)
    found: np.ndarray = fullest * cut / length
    return found


@lru_cache(maxsize=64)
def _near_root(most: int) -> np.ndarray:
    """Return for every number up to `most` its largest factor that is not above its square root."""
    found = np.ones(most + 1, np.int64)
    for factor in range(2, isqrt(most) + 1):
        found[factor * factor :: factor] = factor
    return found


def _parts(elements: np.ndarray, room: np.ndarray, side: np.ndarray, most: int) -> np.ndarray:
    """Return into how many pieces of a side to cut elements so that one fits: at least 2, at most `most`.

    No more than pieces of their length need: of 1366 rows, 342 pieces have up to 4, as 400 have.
    """
    side = np.maximum(side, 1)
    enough = np.clip(-(-elements // np.maximum(room, 1)) * (room > 0) + side * (room <= 0), 2, np.maximum(2, side))
    length = np.maximum(side // enough.astype(np.int64), 1)
    found: np.ndarray = np.clip(-(-side // length), 2, max(2, most))
    return found


class Candidates(NamedTuple):
    """Schedules whose words are counted.

    least : those that need little memory, in case that no other fits, because estimates are of bricks that divide
        evenly.  Some have as many rounds as there are processes, so they are counted only if they may be cheapest.
    """

    cheapest: list[Schedule]
    least: list[Schedule]


class ScheduleFamily:
    """Schedules of one kind, one on each of several grids, and their estimates."""

    def __init__(
        self, shape: Shape, grids: np.ndarray, estimates: Estimates, way: str = SHIFTED, along: str = "k"
    ) -> None:
        self.shape, self.grids, self.estimates, self.way, self.along = shape, grids, estimates, way, along

    def schedule(self, at: int) -> Schedule:
        """Return the schedule on the grid of this number."""
        (m, k, n), (rows, columns, layers) = self.shape, self.grids[:, at].tolist()
        rounds, sums = (int(each[at]) for each in self.estimates[2:])
        return Schedule(m, k, n, rows, columns, layers, rounds, self.way, self.along, sums=sums)

    def cheapest_fits(self, room: float) -> bool:
        """Return whether the cheapest schedule of all fits, so that the limit changes nothing."""
        return bool(self.estimates.memory[np.argmin(self.estimates.price)] <= room)

    def closest(self, room: float) -> list[tuple[float, Schedule]]:
        """Return the cheapest schedules that seem to fit, with their estimated prices."""
        price, memory, _, _ = self.estimates
        fits = (memory <= room) | (not room)
        best = np.argsort(np.where(fits, price, np.inf), kind="stable")[: min(CLOSEST, fits.sum())]
        return [(float(price[at]), self.schedule(at)) for at in best.tolist()]

    def least(self) -> list[Schedule]:
        """Return two schedules that seem to need least memory."""
        return [self.schedule(at) for at in np.lexsort((self.estimates.price, self.estimates.memory))[:2].tolist()]

    def best(self, room: float) -> Candidates:
        """Return the schedules whose words to count: the cheapest that seem to fit and, under a limit, the least."""
        closest = [s for _, s in self.closest(room)]
        return Candidates(closest, [s for s in self.least() if s not in closest] if room else [])


# -------------------------------------------------------------------------- how bricks are shared


def dealt(s: Schedule, machine: Machine) -> list[Schedule]:
    """Return the variants of a schedule with bricks cut along both sides: more even, or with fewer messages.

    A single round may also be as it is.  Several rounds of small pieces are many times too uneven along one side.
    """
    if s.way == SHIFTED and s.rounds > 1:
        return [s]
    even, few = zip(*(_splits(s, name, machine) for name in "ABC"), strict=True)
    found = [s] * (s.rounds == 1) + [s._replace(across=(even[0][0], even[1][1], even[2][1]))]
    across = few[0][0], few[1][1], few[2][1]
    return list(dict.fromkeys([*found, s._replace(across=across, phased=across != s.across)]))


def _splits(s: Schedule, matrix: str, machine: Machine) -> tuple[Split, Split]:
    """Return the most even cuts of a matrix's bricks, and the cheapest ones if each side of the cut is a superstep."""
    dealing, moves = s.dealing(matrix), s.adding if matrix == "C" else s
    brick = tuple(-(-side // count) for side, count in zip(dealing.shape, dealing.bricks, strict=True))
    rounds = tuple(moves.rounds if side == moves.along else 1 for side in SIDES[matrix])
    return _cut(brick, rounds, dealing.split, machine)


@lru_cache(maxsize=4096)
def _cut(brick: Shape, rounds: Shape, plain: Split, machine: Machine) -> tuple[Split, Split]:
    members = prod(plain)

    def largest(split: Split) -> int:
        part = (-(-side // parts) for side, parts in zip(brick, split, strict=True))
        return prod(-(-length // times) for length, times in zip(part, rounds, strict=True))

    def price(split: Split) -> float:
        first, second = split
        words = largest((first, 1)) * (first - 1) + largest(split) * (second - 1)
        return Cost(0, words, (first > 1) + (second > 1), messages=first + second - 2).price(machine)

    splits = [(members // parts, parts) for parts in range(1, members + 1) if members % parts == 0]
    even = min(splits, key=largest)
    if largest(plain) < UNEVEN * largest(even):
        even = plain
    return even, min([even, *(split for split in splits if min(split) > 1)], key=price)
