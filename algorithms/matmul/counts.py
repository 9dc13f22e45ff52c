"""Cost of a schedule: the exact words of every superstep, and the memory of the fullest process.

Nothing is estimated.  For each round the pieces that processes read are laid over the parts that processes hold, all
places of the grid at once, and the most that one process sends, and that one receives, is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.matmul import strassen
from bsp.algorithms.matmul.schedules import SHIFTED, SIDES, SPREAD, TWO_PHASE, Dealing, GridPlace, Schedule, cuts
from bsp.arrays.procedures import Layout, traffic
from bsp.cost.model import WORD, Cost, Machine

_KEPT = 1 << 22  # numbers of readers that are kept from round to round


class Exchange(NamedTuple):
    """The exchange at the end of a superstep: words and messages of the busiest processes."""

    what: str
    sent: int
    received: int
    messages: int

    @property
    def h(self) -> int:
        """The h-relation.  Where it is 0 there is no superstep."""
        return max(self.sent, self.received)


class Counted(NamedTuple):
    """The cost of one way to multiply: W, H, S and M.

    exchanges : in order, those that move nothing among them.
    flops : W, of the busiest process in each round, added.  memory : words of the fullest process: its blocks of A, B
        and C, what arrives, what is put together of it, and a brick's product before it is added.
    """

    method: int | str
    schedule: Schedule
    exchanges: tuple[Exchange, ...]
    flops: float
    memory: int

    @property
    def steps(self) -> tuple[Exchange, ...]:
        """The exchanges that move something: the supersteps."""
        return tuple(each for each in self.exchanges if each.h)

    @property
    def h(self) -> tuple[int, ...]:
        """The h-relation of each superstep, in words."""
        return tuple(each.h for each in self.steps)

    @property
    def words(self) -> int:
        """H: the h-relations of all supersteps, added."""
        return sum(self.h)

    @property
    def supersteps(self) -> int:
        """S: the number of supersteps."""
        return len(self.steps)

    def price(self, machine: Machine) -> float:
        """Return the price in flop-times: W + g·H + o·messages + L·S."""
        messages = sum(each.messages for each in self.steps)
        return Cost(self.flops, self.words, self.supersteps, messages=messages).price(machine)

    def __str__(self) -> str:
        s = self.schedule
        return (
            f"method {self.method} on {s.rows} x {s.columns} x {s.layers} processes: W = {self.flops:.4g} flops, "
            f"H = {self.words} words, S = {self.supersteps}, M = {self.memory} words"
        )


def bringing(sources: Sequence[Layout | None], targets: Sequence[Layout], nprocs: int, itemsize: int) -> int:
    """Return h of the superstep that brings matrices to other layouts; source None: every process has the whole."""
    out, into = np.zeros(nprocs, np.int64), np.zeros(nprocs, np.int64)
    for source, target in zip(sources, targets, strict=False):
        if source is not None:
            sent, received = traffic(source, target, nprocs, itemsize)
            out, into = out + sent, into + received
    return -(-int(max(out.max(initial=0), into.max(initial=0))) // WORD)


@lru_cache(maxsize=4096)
def counted(schedule: Schedule, itemsize: int, leaf: str, method: int | str) -> Counted:
    """Return the cost of a schedule for elements of `itemsize` bytes."""
    count = _in_rounds if schedule.way in (SHIFTED, SPREAD) else _broadcast
    exchanges, flops, memory = count(schedule, itemsize, leaf)
    return Counted(method, schedule, tuple(exchanges), float(flops), -(-int(memory) * itemsize // WORD))


def at_least(s: Schedule, itemsize: int, leaf: str) -> Cost:
    """Return work and words that a schedule has at least: what all processes together do and receive, dealt evenly."""
    m, k, n = s.m, s.k, s.n
    received = (s.columns - 1) * m * k + (s.rows - 1) * k * n + (s.layers - 1) * m * n
    work = 2.0 * m * k * n if leaf == "blas" else 0.0
    return Cost(work / s.processes, received / s.processes * itemsize / WORD, 0)


def exchange(what: str, sent: Any, received: Any, messages: Any, itemsize: int) -> Exchange:
    """Return the h-relation of one exchange, in words, from the elements that each process sends and receives."""
    out, into = (-(-int(elements.max(initial=0)) * itemsize // WORD) for elements in (sent, received))
    return Exchange(what, out, into, int(messages.max(initial=0)))


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return how many positions each range of one list of cuts shares with each of another: [first, second]."""
    low = np.maximum(first[:-1, None], second[None, :-1])
    high = np.minimum(first[1:, None], second[None, 1:])
    found: np.ndarray = np.maximum(high - low, 0)
    return found


# ------------------------------------------------------------- what travels in a superstep


class Phase(NamedTuple):
    """The traffic of one brick, or of its sum, in one superstep: elements by place in the grid.

    sent, received, messages : between processes.
    copied : copies made to be sent.  Other processes of the element may read them until the next superstep ends.
    joined : new memory in which parts are put together; 0: what arrived is used as it came.
    freed : memory that is free once they are joined.  lent : no longer needed, but still read by others, as `copied`.
    """

    sent: Any
    received: Any
    messages: Any
    copied: Any
    joined: Any
    freed: Any
    lent: Any = 0


class Share(NamedTuple):
    """The share that each process has of a piece of its brick, and the size of the piece, along both axes.

    some : how many of the processes that share the brick have something of the piece, along both axes.
    """

    own: tuple[Any, Any]
    full: tuple[Any, Any]
    some: tuple[Any, Any]
    split: tuple[int, int]
    sliced: bool  # whether what each has lies scattered in its block
    phased: bool = False

    @property
    def size(self) -> Any:
        """The number of elements of the piece."""
        return self.full[0] * self.full[1]

    @property
    def members(self) -> int:
        """The number of processes that share a brick."""
        return self.split[0] * self.split[1]


def _share(s: Schedule, matrix: str, t: int) -> Share:
    """Return the shares of a matrix in round t, where pieces are spread."""
    dealing, sides = s.dealing(matrix), SIDES[matrix]
    i, j, layer = np.ogrid[: s.rows, : s.columns, : s.layers]
    brick, member = s.brick(matrix, GridPlace(i, j, layer))  # type: ignore[arg-type]
    at = member // dealing.split[1], member % dealing.split[1]
    own, full, some = [], [], []
    for axis in (0, 1):
        sizes = np.diff(dealing.bounds(axis)).reshape(dealing.bricks[axis], dealing.split[axis])
        if s.rounds > 1 and sides[axis] == s.along:
            before = (_within(dealing, axis) + (s.rounds - 1 - t)) // s.rounds  # of the piece, before each part
            sizes = np.diff(before, axis=1)
        own.append(sizes[brick[axis], at[axis]])
        full.append(sizes.sum(1)[brick[axis]])
        some.append((sizes > 0).sum(1)[brick[axis]])
    return Share(
        (own[0], own[1]), (full[0], full[1]), (some[0], some[1]), dealing.split, s.varies(matrix), s.in_phases(matrix)
    )


def _changes(s: Schedule, matrix: str) -> frozenset[int]:
    """Return the rounds whose pieces are not all as long as those of the round before, where pieces are spread.

    Up to the bound b there are (b + rounds - 1 - t) // rounds elements of piece t: one less from t = b % rounds on.
    """
    if not s.varies(matrix):
        return frozenset([0])
    bounds = _within(s.dealing(matrix), SIDES[matrix].index(s.along))
    return frozenset([0, *(bounds % s.rounds).reshape(-1).tolist()])


def _within(dealing: Dealing, axis: int) -> np.ndarray:
    """Return the positions in its brick at which the parts of each brick begin and end: [brick, part]."""
    bounds = dealing.bounds(axis)
    first = np.arange(dealing.bricks[axis])[:, None] * dealing.split[axis]
    found: np.ndarray = bounds[first + np.arange(dealing.split[axis] + 1)] - bounds[first]
    return found


def _gathering(share: Share) -> list[Phase]:
    """Return the phases in which a piece of a brick is sent to all processes that share the brick."""
    (own_0, own_1), (_, full_1), (rows, columns) = share.own, share.full, share.split
    own, size = own_0 * own_1, share.size
    copied = own * share.sliced
    if share.members == 1:
        return []
    if not share.phased:
        joined = size * ((share.some[0] * share.some[1] > 1) | share.sliced)
        others = share.members - 1
        received = size - own
        return [Phase(own * others, received, (own > 0) * others, copied, joined, received * (joined > 0))]
    half = own_0 * full_1  # after the first phase
    received = half - own
    joined = half * ((share.some[1] > 1) | share.sliced | (own == 0))  # what it keeps is its own memory
    first = Phase(
        own * (columns - 1), received, (own > 0) * (columns - 1), copied, joined, received * (joined > 0)
    )  # fmt: skip
    received = size - half
    joined = size * ((share.some[0] > 1) | (half == 0))
    held = np.where(first.joined > 0, first.joined, first.received)
    gone = joined > 0
    second = Phase(
        half * (rows - 1), received, (half > 0) * (rows - 1), 0 * half, joined, received * gone, held * gone
    )  # fmt: skip
    return [first, second]


def _summing(share: Share) -> list[Phase]:
    """Return the phases in which a piece of a brick of partial sums is sent to the owners of its parts and added up."""
    (own_0, own_1), (_, full_1), (rows, columns) = share.own, share.full, share.split
    own, size = own_0 * own_1, share.size
    if share.members == 1:
        return []
    if not share.phased:
        received, messages = own * (share.members - 1), share.some[0] * share.some[1] - (own > 0)
        if columns == 1:  # rows, sent from where they are
            return [Phase(size - own, received, messages, 0 * own, own, received, size)]
        return [Phase(size - own, received, messages, size - own, own, received + size)]
    half = own_0 * full_1
    received, messages = half * (rows - 1), (full_1 > 0) * (share.some[0] - (own_0 > 0))
    first = Phase(size - half, received, messages, 0 * half, half, received, size)
    received, messages = own * (columns - 1), (own_0 > 0) * (share.some[1] - (own_1 > 0))
    return [first, Phase(half - own, received, messages, half - own, own, received + half)]


def _shifted(s: Schedule) -> Iterator[dict[str, tuple[Share, list[Phase]]]]:
    """Return the moves of A and B, round by round, where pieces are shifted: turns decide who reads what of whom."""
    rounds = s.rounds
    i, j, layer = np.ogrid[: s.rows, : s.columns, : s.layers]
    sliced = s.columns % rounds != 0  # A's pieces are parts of blocks, so they are copied to be sent
    length = np.diff(cuts(s.k, s.layers * rounds)).reshape(s.layers, rounds)
    turns = {"A": i * rounds // s.rows, "B": j * rounds // s.columns}  # of the row, of the column: together the turn
    sides = {"A": np.diff(cuts(s.m, s.rows))[i], "B": np.diff(cuts(s.n, s.columns))[j]}
    held = {
        name: _Held(s, s.dealing(name).members, np.bincount(turns[other].reshape(-1), minlength=rounds))
        for name, other in ("AB", "BA")
    }
    for t in range(rounds):
        piece, found = (turns["A"] + turns["B"] + t) % rounds, {}
        full = length[layer, piece]
        for name, of in held.items():
            member, first = (j if name == "A" else i), (turns[name] + t) % rounds
            side, cut = sides[name], sliced and name == "A"
            own = of.own(layer, piece, member)
            share = Share((side, own), (side, full), (side > 0, of.parts[layer, piece]), s.dealing(name).split, cut)
            if name == "B":  # k is its first side
                share = share._replace(own=share.own[::-1], full=share.full[::-1], some=share.some[::-1])
            phases = _gathering(share)
            if phases:
                copied = side * of.whole[layer, member] * cut
                read, met = of.read(first, layer, member)
                sent = side * (read - own)
                messages = (side > 0) * (met - (own > 0))
                phases[0] = phases[0]._replace(sent=sent, messages=messages, copied=copied)
            found[name] = share, phases
        yield found


class _Held:
    """Pieces of k that each of those that share a brick holds, and what is read of them, where pieces are shifted.

    members : how many share a brick.  begun : how many processes of a row, or column, begin with each piece, where the
    row itself begins with the first.
    parts : how many of them have something of each piece, [layer, piece].  whole : what each has, [layer, member].
    """

    def __init__(self, s: Schedule, members: int, begun: np.ndarray) -> None:
        self._pieces, self._homes = cuts(s.k, s.layers * s.rounds), cuts(s.k, s.layers * members)
        self._shape, self._begun = (s.layers, members), begun
        start = np.unique(np.concatenate([self._pieces, self._homes]))  # where neither a piece nor a home is cut
        piece, self._home = (
            np.searchsorted(of, start[:-1], side="right") - 1 for of in (self._pieces, self._homes)
        )  # fmt: skip
        self._piece, self._size = piece % s.rounds, np.diff(start)
        self.parts = np.bincount(piece, minlength=s.layers * s.rounds).reshape(s.layers, s.rounds)
        self.whole = np.diff(self._homes).reshape(self._shape)
        self._known: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def own(self, layer: np.ndarray, piece: np.ndarray, member: np.ndarray) -> np.ndarray:
        """Return how many elements of pieces are held by members."""
        (layers, members), pieces, homes = self._shape, self._pieces, self._homes
        at, home = layer * (len(pieces) // layers) + piece, layer * members + member
        last, first = np.minimum(pieces[at + 1], homes[home + 1]), np.maximum(pieces[at], homes[home])
        found: np.ndarray = np.maximum(last - first, 0)
        return found

    def read(self, first: np.ndarray, layer: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the elements that are read of members in rows that begin with piece `first`, and by how many."""
        pieces, at = np.unique(first, return_inverse=True)
        read, met = (np.stack(each) for each in zip(*map(self._read, pieces.tolist()), strict=True))
        at = at.reshape(first.shape)
        return read[at, layer, member], met[at, layer, member]

    def _read(self, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for all members, where a row begins with one piece."""
        found = self._known.get(first)
        if found is None:
            if len(self._known) * self.whole.size >= _KEPT:
                self._known.clear()
            readers = self._begun[(self._piece - first) % len(self._begun)]
            read, met = (
                np.bincount(self._home, each, self.whole.size).astype(np.int64).reshape(self._shape)
                for each in (readers * self._size, readers)
            )
            found = self._known[first] = read, met
        return found


# ----------------------------------------------------------------------------- what is held


class Books:
    """Count the elements that every process of the grid holds, and the most that it ever held."""

    def __init__(self, held: np.ndarray) -> None:
        self.now, self.most, self._lent = held, held, np.zeros_like(held)

    def take(self, elements: Any) -> None:
        """Count elements that are held from now on."""
        self.now = self.now + elements
        self.most = np.maximum(self.most, self.now)

    def give(self, elements: Any) -> None:
        """Count elements that are no longer held."""
        self.now = self.now - elements

    def superstep(self, phases: Sequence[Phase]) -> None:
        """Count the memory of a superstep: everything is sent and arrives, then bricks are put together one by one."""
        self.take(sum(each.copied for each in phases))
        self.give(self._lent)  # whoever was slower has read it by now
        self._lent = np.zeros_like(self._lent)
        self.take(sum(each.received for each in phases))
        for each in phases:
            self.take(each.joined)
            self.give(each.freed)
            self._lent = self._lent + each.copied + each.lent


def _in_rounds(s: Schedule, itemsize: int, leaf: str) -> tuple[list[Exchange], float, int]:
    """Count a schedule in which every process gathers what it needs: its exchanges, flops and memory."""
    once = s._replace(rounds=1)  # its pieces are whole bricks
    home_a, home_b, home_c = (each.own[0] * each.own[1] for each in (_share(once, name, 0) for name in "ABC"))
    books = Books(home_a + home_b + np.zeros_like(home_c))
    shifted = _shifted(s) if s.way == SHIFTED and s.rounds > 1 else None
    exchanges: list[Exchange] = []
    shares: dict[str, Share] = {}
    bricks: dict[str, Any] = {}
    changes = {name: _changes(s, name) for name in "ABC"}
    gathered: dict[str, list[Phase]] = {}
    flops = 0.0
    sums: Share | None = None  # of the round before, on their way
    changed = {t + later for name in "ABC" for t in changes[name] for later in range(3)}
    before, done = 0, 0.0  # exchanges and flops before the last round that was counted
    for t in range(s.rounds):
        label = f"matmul: blocks {t + 1} of {s.rounds}"
        if shifted is None and t not in changed and t < s.rounds - 1:  # as the round before, and the one before that
            before, found = len(exchanges), exchanges[before:]
            exchanges += [
                each._replace(what=each.what.replace(f"blocks {t} of", f"blocks {t + 1} of")) for each in found
            ]
            flops, done = flops + (flops - done), flops
            continue
        before, done = len(exchanges), flops
        moves = {}
        if shifted is not None:
            for name, (share, phases) in next(shifted).items():
                shares[name], moves[name] = share, phases
        else:
            for name in "AB":
                if t in changes[name]:
                    shares[name] = _share(s, name, t)
                    gathered[name] = _gathering(shares[name])
                if t == 0 or s.varies(name):
                    moves[name] = gathered[name]
        for name, phases in moves.items():
            bricks[name] = _brick(shares[name], phases)
            if not phases:
                books.take(bricks[name])
        if sums is not None:
            moves["C"], label = _summing(sums), label + ", partial sums"
        flops += _travelled(books, exchanges, moves, label, itemsize)
        if sums is not None:  # into this process's block of C
            books.take(home_c * (t == 1))
            books.give(sums.own[0] * sums.own[1])
        height, length, width = shares["A"].full[0], shares["A"].full[1], shares["B"].full[1]
        adds = s.along == "k" and t > 0
        strip = height
        if adds:
            piece = -(-height // s.sums)
            strip = -(-piece // s.strips(leaf))
        work = strassen.workspace(int(strip.max()), int(length.max()), int(width.max()), leaf)
        books.take(strip * width + work)
        books.give(strip * width * adds + work)
        flops += _product_flops(height, length, width, leaf) + adds * int((height * width).max())
        if s.along != "k" and t in changes["C"]:
            sums = _share(s, "C", t)
        for name in [name for name in bricks if s.varies(name) or t == s.rounds - 1]:
            books.give(bricks.pop(name))
    adding = s.adding
    pieces = range(s.sums) if s.along == "k" else [s.rounds - 1]
    changes["C"] = _changes(adding, "C")
    for t in pieces:
        label = "matmul: partial sums" + f" {t + 1} of {s.sums}" * (s.sums > 1)
        if sums is None or t in changes["C"]:
            sums = _share(adding, "C", t)
        flops += _travelled(books, exchanges, {"C": _summing(sums)}, label, itemsize)
    if len(pieces) > 1:
        books.take(home_c)  # where its parts are put together
    return exchanges, flops, int(books.most.max())


def _brick(share: Share, phases: list[Phase]) -> Any:
    """Return the memory of a piece that has been gathered; 0 where it is the process's own block."""
    held = share.size * share.sliced if share.members == 1 else 0
    for phase in phases:
        held = np.where(phase.joined > 0, phase.joined, held + phase.received)
    return held


def _travelled(
    books: Books, exchanges: list[Exchange], moves: dict[str, list[Phase]], label: str, itemsize: int
) -> float:
    """Count the supersteps in which some bricks are gathered and some sums added up; return the additions."""
    flops = 0
    for at in range(max(map(len, moves.values()))):
        phases = {name: each[at] for name, each in moves.items() if at < len(each)}
        books.superstep(list(phases.values()))
        out, into, messages = (
            sum(getattr(each, what) for each in phases.values()) for what in ("sent", "received", "messages")
        )
        exchanges.append(exchange(label + ", passed on" * (at > 0), out, into, messages, itemsize))
        if "C" in phases:
            flops += int(phases["C"].received.max(initial=0))
    return flops


def _product_flops(height: np.ndarray, length: np.ndarray, width: np.ndarray, leaf: str) -> float:
    if leaf == "blas":
        return float(2 * int((height * length * width).max()))
    return strassen.flops(int(height.max()), int(length.max()), int(width.max()))


# ------------------------------------------------------------------------ SUMMA, the baseline


def _broadcast(s: Schedule, itemsize: int, leaf: str) -> tuple[list[Exchange], float, int]:
    """Count a schedule whose panels are broadcast from their owners along rows and columns of the grid."""
    rows, columns = s.rows, s.columns
    heights, widths = np.diff(cuts(s.m, rows)), np.diff(cuts(s.n, columns))
    height, width = heights[:, None], widths[None, :]
    parts_a = np.diff(height * np.arange(columns + 1) // columns, axis=1)  # of a panel's column, in two phases
    parts_b = np.diff(width * np.arange(rows + 1)[:, None] // rows, axis=0)
    home = height * np.diff(cuts(s.k, columns)) + np.diff(cuts(s.k, rows))[:, None] * width
    block = height * width
    exchanges, flops, memory = [], 0.0, 0
    panels = s.panels
    for t, (low, high) in enumerate(panels):
        w = high - low
        owns_a = (np.arange(columns) == holder(s.k, columns, low))[None, :]
        owns_b = (np.arange(rows) == holder(s.k, rows, low))[:, None]
        name = f"matmul: panel {t + 1} of {len(panels)}"
        if s.way == TWO_PHASE:
            sent = owns_a * (height - parts_a) + owns_b * (width - parts_b)
            received = ~owns_a * parts_a + ~owns_b * parts_b
            messages = owns_a * ((parts_a > 0).sum(1, keepdims=True) - (parts_a > 0))
            messages = messages + owns_b * ((parts_b > 0).sum(0, keepdims=True) - (parts_b > 0))
            exchanges.append(exchange(f"{name}, to be passed on", w * sent, w * received, messages, itemsize))
            others_a, others_b = columns - 1 - ~owns_a, rows - 1 - ~owns_b
            sent = parts_a * others_a + parts_b * others_b
            received = ~owns_a * (height - parts_a) + ~owns_b * (width - parts_b)
            messages = (parts_a > 0) * others_a + (parts_b > 0) * others_b
        else:
            sent = owns_a * height * (columns - 1) + owns_b * width * (rows - 1)
            received = ~owns_a * height + ~owns_b * width
            messages = owns_a * (height > 0) * (columns - 1) + owns_b * (width > 0) * (rows - 1)
        exchanges.append(exchange(name, w * sent, w * received, messages, itemsize))
        adds = block if t else 0
        flops += _product_flops(height, np.array(w), width, leaf) + int(np.max(adds))
        on_way = height * (columns > 1 or len(panels) > 1) + width * (rows > 1)
        passing = w * on_way * (3 if s.way == TWO_PHASE else 2)  # the last panel too, by who is slower
        work = strassen.workspace(int(height.max()), w, int(width.max()), leaf)
        memory = max(memory, int((home + passing + block + adds).max()) + work)
    return exchanges, flops, max(memory, int((home + block).max()))


def holder(length: int, parts: int, position: int) -> int:
    """Return the number of the part that has a position."""
    return int(np.searchsorted(cuts(length, parts), position, side="right")) - 1
