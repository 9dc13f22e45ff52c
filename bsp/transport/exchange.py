"""The total exchange of blocks between elements: three schedules, one result.

Latin square   round r pairs element i with i + r (mod P): no element is ever sent to by two at once
               (McColl 1.5.3).  P - 1 rounds, every byte travels once.
Bruck          log2 P steps; in step k everything whose way has bit k set moves on by 2^k.  Bytes
               travel up to log2 P times, so it is for small packets between many elements.
two-phase      every stream is cut into pieces that go to seeded random intermediates first
               (Valiant 1982): any h-relation becomes two balanced ones.  For skewed traffic.

All elements call `exchange` with the same schedule.  Blocks are byte arrays; the receiver knows
how many there are and how large, and they arrive whole and unchanged under every schedule.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI

from bsp.cost.choice import Choice
from bsp.cost.model import Machine
from bsp.errors import UnknownAlgorithm
from bsp.transport.schedules import SCHEDULES

Blocks = dict[int, list[np.ndarray]]  # by the other element: uint8 arrays in an agreed order
Schedule = Callable[[MPI.Comm, Blocks, Blocks, tuple[int, int]], None]

_TAG = 7
_LARGEST = 1 << 30  # bytes in one MPI message: counts stay below 2^31
_PIECE = 4096  # bytes in the smallest piece worth a way of its own
_SKEW_MATTERS = 1 << 20  # bytes in all, below which sizes are not worth exchanging


@dataclass(frozen=True)
class ExchangeSizes:
    """What the headers tell about an exchange: the bytes each element sends, and to how many others."""

    totals: Sequence[int]
    counts: Sequence[int]


def choose_small(traffic: ExchangeSizes, machine: Machine) -> Choice:
    """Latin square or Bruck for packets, by predicted cost: o a message, g a word."""
    elements = len(traffic.totals)
    steps = (elements - 1).bit_length()
    words = max(traffic.totals) / 8
    prices = {"latin": machine.price(h=words, supersteps=0, messages=2 * max(traffic.counts))}
    if elements > 2 and 8 * words * steps < _LARGEST:
        # every step packs, probes and unpacks: about three times the overhead of a plain message
        prices["bruck"] = machine.price(h=words * steps / 2, supersteps=0, messages=6 * steps)
    return _cheapest(f"packets between {elements} elements", prices)


def choose_large(comm: MPI.Comm, traffic: ExchangeSizes, sizes: Sequence[int], machine: Machine) -> Choice:
    """Latin square or two-phase for blocks; the p x p sizes are exchanged only if skew could matter."""
    elements = len(traffic.totals)
    call = f"blocks between {elements} elements"
    words = max(traffic.totals) / 8
    prices = {"latin": machine.price(h=words, supersteps=0, messages=elements - 1)}
    if elements > 2 and sum(traffic.totals) >= _SKEW_MATTERS:
        matrix = size_matrix(comm, sizes)
        # a round lasts as long as its longest pair; two phases move every word twice, but evenly
        rounds = sum(max(int(matrix[i, (i + r) % elements]) for i in range(elements)) for r in range(1, elements))
        relation = max(int(matrix.sum(axis=0).max()), int(matrix.sum(axis=1).max()))
        pieces = min(elements, -(-relation // _PIECE)) * elements
        prices = {
            "latin": machine.price(h=rounds / 8, supersteps=0, messages=elements - 1),
            "two-phase": machine.price(h=2 * relation / 8, supersteps=0, messages=2 * pieces),
        }
    return _cheapest(call, prices)


def _cheapest(call: str, prices: dict[str, float]) -> Choice:
    return Choice(call, min(prices, key=prices.__getitem__), False, tuple(prices.items()))


def size_matrix(comm: MPI.Comm, sizes: Sequence[int]) -> np.ndarray:
    """Bytes from each element to each other, known to all afterwards."""
    matrix = np.empty((comm.size, comm.size), np.int64)
    comm.Allgather(np.array(sizes, np.int64), matrix)
    return matrix


def exchange(comm: MPI.Comm, out: Blocks, into: Blocks, schedule: str, seed: tuple[int, int]) -> None:
    """Move every block in `out` into its place in `into` of the other element; return when all is done here.

    seed : (job seed, superstep), for the schedules that draw.
    Raises UnknownAlgorithm for an unknown schedule.
    """
    checked(schedule)(comm, out, into, seed)


def checked(schedule: str) -> Schedule:
    """Return the schedule of this name, or raise UnknownAlgorithm."""
    if schedule not in _SCHEDULES:
        raise UnknownAlgorithm(f"exchange schedule {schedule!r} is none of {', '.join(_SCHEDULES)}")
    return _SCHEDULES[schedule]


_SCHEDULES: dict[str, Schedule] = {}


def _named(name: str) -> Callable[[Schedule], Schedule]:
    """Decorate a schedule, by the name that `schedules` offers it under; KeyError if it offers none."""
    if name not in SCHEDULES:
        raise KeyError(f"exchange schedule {name!r} is not in bsp/transport/schedules.py")

    def register(schedule: Schedule) -> Schedule:
        _SCHEDULES[name] = schedule
        return schedule

    return register


def _messages(blocks: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    for block in blocks:
        if 0 < block.nbytes <= _LARGEST:
            yield block
        else:
            for start in range(0, block.nbytes, _LARGEST):
                yield block[start : start + _LARGEST]


@_named("latin")
def _latin(comm: MPI.Comm, out: Blocks, into: Blocks, seed: tuple[int, int]) -> None:
    me, elements = comm.rank, comm.size
    for shift in range(1, elements):
        dest, source = (me + shift) % elements, (me - shift) % elements
        _pair(comm, out.get(dest, ()), dest, into.get(source, ()), source)


def _pair(comm: MPI.Comm, out: Sequence[np.ndarray], dest: int, into: Sequence[np.ndarray], source: int) -> None:
    requests = [comm.Irecv([part, MPI.BYTE], source, _TAG) for part in _messages(into)]
    requests += [comm.Isend([part, MPI.BYTE], dest, _TAG) for part in _messages(out)]
    if len(requests) == 1:
        requests[0].Wait()
    elif requests:
        MPI.Request.Waitall(requests)


@_named("bruck")
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
    """The blocks for one element as one run of bytes."""

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = blocks

    def parts(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """The pieces of blocks that make up bytes start..stop."""
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
    """For each intermediate, the pieces that go through it, in an order all elements agree on."""
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


@_named("two-phase")
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
    """The bytes of some parts in one array; those of a single part where they are."""
    found = list(parts)
    return found[0] if len(found) == 1 else np.concatenate(found)


if _lacking := set(SCHEDULES) - set(_SCHEDULES):
    raise NotImplementedError(f"schedules that bsp/transport/schedules.py names and nothing here is: {_lacking}")
