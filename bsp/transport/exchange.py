"""The total exchange of blocks between elements: four schedules, one result.

Latin square   Round r pairs element i with i + r (mod P), so no element receives from two at once (McColl 1.5.3).
               P - 1 rounds; every byte travels once.
matched        Rounds in which every element sends to one and receives from one at most, made from the sizes, largest
               first.  For patterns that leave elements idle in rounds of the Latin square, such as rows and columns.
Bruck          log2 P steps; in step k every packet whose distance has bit k set moves on by 2^k.  Bytes travel up to
               log2 P times, so it suits small packets between many elements.
two-phase      Every stream is cut into pieces that go to seeded random intermediates first (Valiant 1982): any
               h-relation becomes two balanced ones.  For skewed traffic.

All elements call `exchange` with the same schedule.  Blocks are byte arrays; the receiver has their number and sizes
beforehand, and they arrive whole and unchanged under every schedule.

A schedule is a function that moves the blocks, decorated with its name and its costs.  The choice is the cheapest by
`Machine.price`; it is the same on every element, because it follows from headers that all have.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from bsp.cost.choice import Choice
from bsp.cost.model import Cost, Machine
from bsp.errors import UnknownAlgorithm
from bsp.transport.schedules import SCHEDULES

Blocks = dict[int, list[np.ndarray]]  # by the other element: uint8 arrays in an agreed order
Move = Callable[[MPI.Comm, Blocks, Blocks, tuple[int, int]], None]

_TAG = 7
_LARGEST = 1 << 30  # bytes in one MPI message: counts stay below 2^31
_PIECE = 4096  # bytes in the smallest piece that goes by an intermediate of its own
_MOST_MATCHED = 64  # elements; more pairs take too long to match
_GOOD = 1.2  # a Latin square that takes so many times as long as the busiest element needs is good enough
_SKEW_MATTERS = 1 << 20  # bytes in all, below which an exchange of sizes costs more than it can save


@dataclass(frozen=True)
class ExchangeSizes:
    """Sizes of an exchange that all elements have: the bytes that each sends, and to how many others.

    matrix : bytes from each element to each other, where they were exchanged.
    """

    totals: Sequence[int]
    counts: Sequence[int]
    matrix: np.ndarray | None = None

    @property
    def elements(self) -> int:
        """The number of elements."""
        return len(self.totals)

    @property
    def words(self) -> float:
        """Words of the element that sends most."""
        return max(self.totals) / 8


Costs = Callable[[ExchangeSizes], Cost | None]  # None: the schedule is not considered


class ExchangeSchedule(NamedTuple):
    """A way to move blocks, and what it costs to move packets and large blocks."""

    move: Move
    packets: Costs
    blocks: Costs


_SCHEDULES: dict[str, ExchangeSchedule] = {}


def _schedule(name: str, packets: Costs, blocks: Costs) -> Callable[[Move], Move]:
    """Decorate a schedule, by the name that `schedules` offers it under; KeyError if it offers none."""
    if name not in SCHEDULES:
        raise KeyError(f"exchange schedule {name!r} is not in bsp/transport/schedules.py")

    def register(move: Move) -> Move:
        _SCHEDULES[name] = ExchangeSchedule(move, packets, blocks)
        return move

    return register


def _never(traffic: ExchangeSizes) -> None:
    """Leave a schedule out of the choice."""


def choose_small(traffic: ExchangeSizes, machine: Machine) -> Choice:
    """Return the cheapest schedule for packets."""
    costs = {name: schedule.packets(traffic) for name, schedule in _SCHEDULES.items()}
    return _cheapest(f"packets between {traffic.elements} elements", costs, machine)


def choose_large(comm: MPI.Comm, traffic: ExchangeSizes, sizes: Sequence[int], machine: Machine) -> Choice:
    """Return the cheapest schedule for blocks.  Collective: exchanges the P x P sizes, only if skew could matter."""
    if traffic.elements > 2 and sum(traffic.totals) >= _SKEW_MATTERS:
        traffic = replace(traffic, matrix=size_matrix(comm, sizes))
    costs = {name: schedule.blocks(traffic) for name, schedule in _SCHEDULES.items()}
    return _cheapest(f"blocks between {traffic.elements} elements", costs, machine)


def _cheapest(call: str, costs: dict[str, Cost | None], machine: Machine) -> Choice:
    prices = {name: cost.price(machine) for name, cost in costs.items() if cost is not None}
    return Choice(call, min(prices, key=prices.__getitem__), False, tuple(prices.items()))


def size_matrix(comm: MPI.Comm, sizes: Sequence[int]) -> np.ndarray:
    """Return the bytes from each element to each other.  Collective."""
    matrix = np.empty((comm.size, comm.size), np.int64)
    comm.Allgather(np.array(sizes, np.int64), matrix)
    return matrix


def exchange(comm: MPI.Comm, out: Blocks, into: Blocks, schedule: str, seed: tuple[int, int]) -> None:
    """Move every block in `out` into its place in `into` of the other element; return when this element is done.

    seed : (job seed, superstep), for schedules that draw random numbers.
    Raises UnknownAlgorithm for an unknown schedule.
    """
    checked(schedule).move(comm, out, into, seed)


def swap(comm: MPI.Comm, other: int, out: Sequence[np.ndarray], into: Sequence[np.ndarray]) -> None:
    """Move blocks between this element and one other, which does the same; return when this element is done."""
    if len(out) == len(into) == 1 and max(out[0].nbytes, into[0].nbytes) <= _LARGEST:
        comm.Sendrecv([out[0], MPI.BYTE], other, _TAG, [into[0], MPI.BYTE], other, _TAG)
        return
    receiving = [comm.Irecv([part, MPI.BYTE], other, _TAG) for part in _messages(into)]
    sending = [comm.Isend([part, MPI.BYTE], other, _TAG) for part in _messages(out)]
    MPI.Request.Waitall(receiving + sending)


def checked(schedule: str) -> ExchangeSchedule:
    """Return the schedule of this name, or raise UnknownAlgorithm."""
    if schedule not in _SCHEDULES:
        raise UnknownAlgorithm(f"exchange schedule {schedule!r} is none of {', '.join(_SCHEDULES)}")
    return _SCHEDULES[schedule]


def _messages(blocks: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    for block in blocks:
        if 0 < block.nbytes <= _LARGEST:
            yield block
        else:
            for start in range(0, block.nbytes, _LARGEST):
                yield block[start : start + _LARGEST]


def _latin_packets(traffic: ExchangeSizes) -> Cost:
    """Return the cost of a request for each packet that is sent or received."""
    return Cost(0, traffic.words, 0, messages=2 * max(traffic.counts))


def _latin_blocks(traffic: ExchangeSizes) -> Cost:
    """Return the cost of all rounds; a round lasts as long as its longest pair."""
    elements, matrix = traffic.elements, traffic.matrix
    if matrix is None:
        return Cost(0, traffic.words, 0, messages=elements - 1)
    rounds = sum(max(int(matrix[i, (i + r) % elements]) for i in range(elements)) for r in range(1, elements))
    return Cost(0, rounds / 8, 0, messages=elements - 1)


@_schedule("latin", _latin_packets, _latin_blocks)
def _latin(comm: MPI.Comm, out: Blocks, into: Blocks, seed: tuple[int, int]) -> None:
    me, elements = comm.rank, comm.size
    _in_order(comm, out, into, [(me + shift) % elements for shift in range(1, elements)])


def _in_order(comm: MPI.Comm, out: Blocks, into: Blocks, dests: Sequence[int]) -> None:
    """Send to one element after the other, and receive meanwhile, so that nobody waits for what it receives."""
    receiving = [
        comm.Irecv([part, MPI.BYTE], source, _TAG) for source, blocks in into.items() for part in _messages(blocks)
    ]
    for dest in dests:
        sending = [comm.Isend([part, MPI.BYTE], dest, _TAG) for part in _messages(out.get(dest, ()))]
        if len(sending) == 1:
            sending[0].Wait()
        elif sending:
            MPI.Request.Waitall(sending)
    MPI.Request.Waitall(receiving)


def matched_rounds(matrix: np.ndarray) -> Sequence[Sequence[int]]:
    """Return rounds that move the bytes of a matrix: for each the element that each element sends to, or -1."""
    return _matched_rounds(matrix.tobytes(), len(matrix))


@lru_cache(maxsize=64)
def _matched_rounds(sizes: bytes, elements: int) -> tuple[tuple[int, ...], ...]:
    matrix = np.frombuffer(sizes, np.int64).reshape(elements, elements)
    waiting = [(i, j) for i, j in np.argwhere(matrix).tolist() if i != j]
    waiting.sort(key=lambda pair: -matrix[pair])
    rounds = []
    while waiting:
        dests, taken, left = [-1] * elements, [False] * elements, []
        for i, j in waiting:
            if dests[i] < 0 and not taken[j]:
                dests[i], taken[j] = j, True
            else:
                left.append((i, j))
        rounds.append(tuple(dests))
        waiting = left
    return tuple(rounds)


def _matched_blocks(traffic: ExchangeSizes) -> Cost | None:
    """Return the cost of all rounds, where those of the Latin square take longer than the busiest element needs."""
    matrix, latin = traffic.matrix, _latin_blocks(traffic)
    if matrix is None or traffic.elements > _MOST_MATCHED or _GOOD * _relation(matrix) / 8 >= latin.H:
        return None
    rounds = matched_rounds(matrix)
    words = sum(max(int(matrix[i, j]) for i, j in enumerate(dests) if j >= 0) for dests in rounds) / 8
    return Cost(0, words, 0, messages=len(rounds))


def _relation(matrix: np.ndarray) -> int:
    """Return the bytes of the element that sends or receives most."""
    return max(int(matrix.sum(axis=0).max()), int(matrix.sum(axis=1).max()))


@_schedule("matched", _never, _matched_blocks)
def _matched(comm: MPI.Comm, out: Blocks, into: Blocks, seed: tuple[int, int]) -> None:
    matrix = size_matrix(comm, [sum(block.nbytes for block in out.get(k, ())) for k in range(comm.size)])
    _in_order(comm, out, into, [dests[comm.rank] for dests in matched_rounds(matrix) if dests[comm.rank] >= 0])


def _pair(comm: MPI.Comm, out: Sequence[np.ndarray], dest: int, into: Sequence[np.ndarray], source: int) -> None:
    requests = [comm.Irecv([part, MPI.BYTE], source, _TAG) for part in _messages(into)]
    requests += [comm.Isend([part, MPI.BYTE], dest, _TAG) for part in _messages(out)]
    if len(requests) == 1:
        requests[0].Wait()
    elif requests:
        MPI.Request.Waitall(requests)


def _bruck_packets(traffic: ExchangeSizes) -> Cost | None:
    """Return the cost of log2 P steps, in each of which half of the packets move on, as one message."""
    steps = (traffic.elements - 1).bit_length()
    if traffic.elements <= 2 or 8 * traffic.words * steps >= _LARGEST:
        return None
    # every step packs, probes and unpacks: about three times the overhead of a plain message
    return Cost(0, traffic.words * steps / 2, 0, messages=6 * steps)


@_schedule("bruck", _bruck_packets, _never)
def _bruck(comm: MPI.Comm, out: Blocks, into: Blocks, seed: tuple[int, int]) -> None:
    me, elements = comm.rank, comm.size
    held = [(me, dest, k, block.tobytes()) for dest in sorted(out) for k, block in enumerate(out[dest])]
    status = MPI.Status()
    step = 1
    while step < elements:
        moving = [item for item in held if (item[1] - item[0]) % elements & step]
        held = [item for item in held if not (item[1] - item[0]) % elements & step]
        request = comm.Isend([marshal.dumps(moving), MPI.BYTE], (me + step) % elements, _TAG)
        message = comm.Mprobe((me - step) % elements, _TAG, status)
        arrived = bytearray(status.Get_count(MPI.BYTE))
        message.Recv([arrived, MPI.BYTE])
        request.Wait()
        held += marshal.loads(arrived)
        step *= 2
    for source, _, k, data in held:
        into[source][k][:] = np.frombuffer(data, np.uint8)


class _Stream:
    """The blocks for one element, addressed as one range of bytes."""

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = blocks

    def parts(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Yield the parts of blocks that make up bytes start..stop."""
        offset = 0
        for block in self.blocks:
            low, high = max(start - offset, 0), min(stop - offset, block.nbytes)
            if low < high:
                yield block[low:high]
            offset += block.nbytes


@dataclass(frozen=True)
class _Piece:
    origin: int
    final: int
    start: int
    stop: int


def _pieces(matrix: np.ndarray, seed: tuple[int, int]) -> list[list[_Piece]]:
    """Return for each intermediate the pieces that go through it, in an order that is the same on all elements."""
    elements = len(matrix)
    ways = np.random.default_rng([*seed, 2]).permuted(np.tile(np.arange(elements), (elements**2, 1)), axis=1)
    through: list[list[_Piece]] = [[] for _ in range(elements)]
    for origin, final in zip(*np.nonzero(matrix), strict=True):
        size = int(matrix[origin, final])
        count = min(elements, -(-size // _PIECE))
        cuts = [size * k // count for k in range(count + 1)]
        for k in range(count):
            via = int(ways[origin * elements + final, k])
            through[via].append(_Piece(int(origin), int(final), cuts[k], cuts[k + 1]))
    return through


def _two_phase_blocks(traffic: ExchangeSizes) -> Cost | None:
    """Return the cost of two balanced h-relations: every word moves twice."""
    if traffic.matrix is None:
        return None
    relation = _relation(traffic.matrix)
    pieces = min(traffic.elements, -(-relation // _PIECE)) * traffic.elements
    return Cost(0, 2 * relation / 8, 0, messages=2 * pieces)


@_schedule("two-phase", _never, _two_phase_blocks)
def _two_phase(comm: MPI.Comm, out: Blocks, into: Blocks, seed: tuple[int, int]) -> None:
    me, elements = comm.rank, comm.size
    sizes = [sum(block.nbytes for block in out.get(dest, ())) for dest in range(elements)]
    through = _pieces(size_matrix(comm, sizes), seed)
    sources = {dest: _Stream(blocks) for dest, blocks in out.items()}
    targets = {source: _Stream(blocks) for source, blocks in into.items()}
    held: dict[_Piece, np.ndarray] = {}

    for shift in range(elements):  # first phase: from the origins to the intermediates
        via, origin = (me + shift) % elements, (me - shift) % elements
        sent = [_whole(sources[p.final].parts(p.start, p.stop)) for p in through[via] if p.origin == me]
        theirs = [p for p in through[me] if p.origin == origin]
        if shift:
            got = [np.empty(p.stop - p.start, np.uint8) for p in theirs]
            _pair(comm, sent, via, got, origin)
        else:
            got = sent
        held.update(zip(theirs, got, strict=True))
    for shift in range(elements):  # second phase: from the intermediates to the owners
        final, via = (me + shift) % elements, (me - shift) % elements
        sent = [held.pop(p) for p in through[me] if p.final == final]
        places = [list(targets[p.origin].parts(p.start, p.stop)) for p in through[via] if p.final == me]
        if shift:
            got = [parts[0] if len(parts) == 1 else np.empty(sum(map(len, parts)), np.uint8) for parts in places]
            _pair(comm, sent, final, got, via)
        else:
            got = sent
        for parts, data in zip(places, got, strict=True):
            if data is not parts[0]:
                cuts = np.cumsum([0, *map(len, parts)])
                for k, part in enumerate(parts):
                    part[:] = data[cuts[k] : cuts[k + 1]]


def _whole(parts: Iterator[np.ndarray]) -> np.ndarray:
    """Return the bytes of some parts in one array; a single part is not copied."""
    found = list(parts)
    return found[0] if len(found) == 1 else np.concatenate(found)


if _lacking := set(SCHEDULES) - set(_SCHEDULES):
    raise NotImplementedError(f"schedules that bsp/transport/schedules.py names and nothing here is: {_lacking}")
