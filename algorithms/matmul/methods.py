"""The methods of McColl 1.6.2 and 1.6.3, SUMMA, and the choice among them.

Every method is a family of schedules, one for each process grid of at most p processes; of these the cheapest by the
machine is taken: W + g·H + o·messages + L·S, with the exact words of each superstep.  A grid need be neither square
nor of all processes, but of more than half of those that could have work: p = 7 may be 7 x 1 or 3 x 2, whichever costs
less.  Below, formulas are for n × n matrices and the grids that McColl has in mind; `counts` has them for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from bsp.algorithms.matmul.counts import Cost, counted
from bsp.algorithms.matmul.schedules import AT_ONCE, TWO_PHASE, Schedule
from bsp.arrays.errors import PlanTooLarge
from bsp.arrays.planning.layout import factors
from bsp.cost.model import DEFAULT, WORD, Machine
from bsp.cost.units import in_bytes

__concrete__ = True  # it counts: its arrays are numbers of words, in a run without values too

CLOSEST = 6  # grids, best by estimate, whose words are counted

Shape = tuple[int, int, int]  # m, k, n
Grid = tuple[int, int, int]  # rows, columns, layers


def all_at_once(shape: Shape, p: int, machine: Machine, room: float) -> list[Schedule]:
    """Method 1: a process gets all its row of blocks of A and its column of blocks of B, and multiplies once.

    W = 2n³/p,  H = 2n²/√p - 2n²/p,  S = 1,  M = 3n²/√p: both, and what arrived of B while it is put together (2n²/√p
    where no two processes share an element: then it is received in its place).
    Source: McColl 1.6.2, Method 1.
    """
    return [Schedule(*shape, *q) for q in _nearest(shape, p, machine, room, lambda q: 1 + 0 * q[0])]


def pair_by_pair(shape: Shape, p: int, machine: Machine, room: float) -> list[Schedule]:
    """Method 2: a pair of blocks at a time, which then make room for the next.

    W = 2n³/p,  H = 2n²/√p,  S = √p,  M = 5n²/p and a product on its way.
    Source: McColl 1.6.2, Method 2; the order is Cannon's, so that no block is asked for twice in a superstep.
    """
    found = _nearest(shape, p, machine, room, lambda q: np.maximum(q[0], q[1]))
    return [Schedule(*shape, *q, rounds=max(q)) for q in found]


def three_d(shape: Shape, p: int, machine: Machine, room: float) -> list[Schedule]:
    """Method 4: bricks as near to cubes as p allows; one superstep for the inputs, one for the partial sums.

    W = 2n³/p,  H = 3n²/p^(2/3) - 3n²/p,  S = 2,  M = 3n²/p^(2/3) and the blocks.
    Source: McColl 1.6.2, Method 4 (McColl and Valiant; Agarwal and others 1995).
    """
    found = _nearest(shape, p, machine, room, lambda q: 1 + 0 * q[0], layers=True)
    return [Schedule(*shape, *q) for q in found]


def recursive(shape: Shape, p: int, machine: Machine, room: float) -> list[Schedule]:
    """Bricks halved: by different processes as long as there are some, by one after the other where room is short.

    With q = p^(1/3) to p^(1/2) bricks along each side of the matrices (q³/p of them for each process, one a round):
    W = 2n³/p,  H = 2n²q/p and n²/q² of partial sums,  S = q³/p + 1,  M = 3n²/q² and the blocks.
    q = p^(1/3) is Method 4, q = p^(1/2) is Method 2; `room` decides.
    Source: McColl and Tiskin, Algorithmica 24 (1999); McColl 1.6.3.
    """
    found: dict[Schedule, float] = {}
    for processes in range(p, p // 2, -1):
        primes = factors(processes)
        for depth in range(len(primes) + 1):
            grid = _divided(shape, primes, depth)
            schedule = Schedule(*shape, *grid, rounds=_in_turn(shape, grid, room))
            found.setdefault(schedule, _estimate(schedule, machine))
    most = max(s.processes for s in found)
    found = {s: price for s, price in found.items() if 2 * s.processes > most}
    fitting = [s for s in found if not room or _estimated_memory(s) <= room]
    least = sorted(found, key=lambda s: (_estimated_memory(s), found[s]))[:2] if room else []
    return list(dict.fromkeys(sorted(fitting, key=found.__getitem__)[:CLOSEST] + least))


def _divided(shape: Shape, primes: Sequence[int], depth: int) -> Grid:
    """The recursion between processes: the longest side of the brick is cut, the summed one at most `depth` times."""
    m, k, n = shape
    if not primes:
        return 1, 1, 1
    first, *rest = primes
    sides = {"m": m, "n": n, "k": k} if depth else {"m": m, "n": n}
    longest = max(sides, key=lambda side: sides[side])  # the first of equals
    if sides[longest] < first:
        return _divided(shape, rest, depth)
    if longest == "k":
        rows, columns, layers = _divided((m, k // first, n), rest, depth - 1)
        return rows, columns, layers * first
    if longest == "m":
        rows, columns, layers = _divided((m // first, k, n), rest, depth)
        return rows * first, columns, layers
    rows, columns, layers = _divided((m, k, n // first), rest, depth)
    return rows, columns * first, layers


def _in_turn(shape: Shape, grid: Grid, room: float) -> int:
    """The recursion of one process: its brick's summed side is halved until a pair of blocks fits, or is no larger
    than those that it has anyway."""
    rounds, enough = 1, min(max(grid[:2]), -(-shape[1] // grid[2]))
    while room and rounds < enough and _estimated_memory(Schedule(*shape, *grid, rounds=rounds)) > room:
        rounds *= 2
    return rounds


def summa(shape: Shape, p: int, machine: Machine, room: float) -> list[Schedule]:
    """The baseline: panel by panel, the owners of A's broadcast along rows of the grid, those of B's along columns.

    Broadcast in one superstep: H = 2n²(1 - 1/√p), S = √p.  In two phases: H = 4n²/√p - 6n²/p and less, S = 2√p.
    W = 2n³/p,  M = 7n²/p (9n²/p in two phases) and a product on its way.
    Source: van de Geijn and Watts, Concurrency 9 (1997); two-phase broadcast: McColl 1.6.1.
    """
    found = _nearest(shape, p, machine, room, lambda q: np.maximum(q[0], q[1]))
    return [Schedule(*shape, *q, way=way) for q in found for way in (AT_ONCE, TWO_PHASE)]


METHODS: dict[int | str, Callable[[Shape, int, Machine, float], list[Schedule]]] = {
    1: all_at_once, 2: pair_by_pair, 4: three_d, "recursive": recursive, "summa": summa,
}  # fmt: skip


# ------------------------------------------------------------------------------------ grids


@lru_cache(maxsize=256)
def _grids(shape: Shape, p: int, layers: bool) -> np.ndarray:
    """Process grids that give each process work, and more than half as many of them as the largest grid: columns of
    (rows, columns, layers); more rows first."""
    m, k, n = (max(1, side) for side in shape)
    rows = np.arange(min(p, m), 0, -1)
    many = np.minimum(p // rows, n)
    rows = np.repeat(rows, many)
    columns = np.concatenate([np.arange(count, 0, -1) for count in many])
    found = np.stack([rows, columns, np.ones_like(rows)])
    if layers:
        deep = np.minimum(p // (rows * columns), k)
        found = np.concatenate([found, np.stack([rows, columns, deep])[:, deep > 1]], axis=1)
    processes = found.prod(axis=0)
    return found[:, 2 * processes > processes.max()]


def _nearest(
    shape: Shape,
    p: int,
    machine: Machine,
    room: float,
    rounds: Callable[[np.ndarray], np.ndarray],
    layers: bool = False,
) -> list[Grid]:
    """The grids that seem cheapest among those that seem to fit, and those that seem to need least memory."""
    grids = _grids(shape, p, layers)
    times = np.asarray(rounds(grids))
    price, memory = _estimates(shape, grids, times, machine)
    best = np.argsort(np.where((memory > room) & bool(room), np.inf, price), kind="stable")[:CLOSEST].tolist()
    if room:
        best += np.lexsort((price, memory))[:2].tolist()
    return [(int(grids[0, at]), int(grids[1, at]), int(grids[2, at])) for at in dict.fromkeys(best)]


def _estimates(shape: Shape, grid: np.ndarray, rounds: np.ndarray, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Flop-times and words of memory, to choose whose words to count."""
    m, k, n = (-(-side // count) for side, count in zip(shape, (grid[0], grid[2], grid[1]), strict=True))
    rows, columns, layers = grid
    into = m * k * (1 - 1 / columns) + k * n * (1 - 1 / rows) + m * n * (1 - 1 / layers)
    price = 2.0 * m * k * n + machine.g * into + machine.o * (rows + columns + layers)
    price = price + machine.L * (rounds * ((rows > 1) | (columns > 1)) + (layers > 1))
    piece = -(-k // rounds)
    home_a, home_b = m * -(-k // columns), -(-k // rows) * n
    sliced = columns % rounds != 0
    brick_a, brick_b, block = m * piece, piece * n, m * n
    in_a, in_b = brick_a * (1 - (rounds == 1) / columns), brick_b * (1 - (rounds == 1) / rows)
    joined_a, joined_b = brick_a * ((brick_a > home_a) | sliced), brick_b * (brick_b > home_b)
    most = np.maximum(in_a + in_b + joined_a, brick_a + in_b + joined_b)
    most = np.maximum(np.maximum(most, brick_a + brick_b + block) + block * (rounds > 1), 2 * block * (layers > 1))
    return price, home_a * (1 + 2 * sliced) + home_b + most


def _estimate(s: Schedule, machine: Machine) -> float:
    return float(_of_one(s, machine)[0])


def _estimated_memory(s: Schedule) -> float:
    return float(_of_one(s, DEFAULT)[1])


def _of_one(s: Schedule, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    return _estimates((s.m, s.k, s.n), np.array([s.rows, s.columns, s.layers]), np.array(s.rounds), machine)


# ----------------------------------------------------------------------------------- choice


@lru_cache(maxsize=1024)
def options(
    shape: Shape, p: int, method: int | str, room: float, machine: Machine, itemsize: int, leaf: str
) -> tuple[Cost, ...]:
    """Ways to multiply by a method, or by any of them ("auto"), counted.  room : elements, 0: no limit."""

    def of(name: int | str) -> Iterator[Cost]:
        for schedule in METHODS[name](shape, p, machine, room):
            yield counted(schedule, itemsize, leaf, name)

    return tuple(each for name in (METHODS if method == "auto" else [method]) for each in of(name))


def chosen(
    shape: Shape, p: int, method: int | str, memory: float, machine: Machine, itemsize: int, leaf: str,
    extra: Callable[[Cost], float] = lambda cost: 0.0,
) -> Cost:  # fmt: skip
    """The cheapest way that fits, the first of equals.

    extra : flop-times that a way takes besides: to bring operands to its layout.
    Raises PlanTooLarge where none fits, with what the one that needs least would take.
    """
    if method != "auto" and method not in METHODS:
        names = ", ".join(map(repr, METHODS))
        raise ValueError(f"matmul: method={method!r}; it is one of {names}, or 'auto'")
    if leaf not in ("blas", "strassen"):
        raise ValueError(f"matmul: leaf={leaf!r}; it is 'blas' or 'strassen'")
    found = options(shape, p, method, float(memory // itemsize), machine, itemsize, leaf)
    fitting = [cost for cost in found if not memory or cost.memory * WORD <= memory]
    if not fitting:
        least = min(found, key=lambda cost: cost.memory)
        m, k, n = shape
        raise PlanTooLarge(
            f"matmul of ({m}, {k}) by ({k}, {n}) on {p} processes needs {in_bytes(least.memory * WORD)} on a process "
            f"(method {least.method}), limit {in_bytes(memory)}; its share of A, B and C is "
            f"{in_bytes((m * k + k * n + m * n) * itemsize / max(1, prod(least.schedule[3:6])))}; "
            "take more processes, or more memory"
        )
    return min(fitting, key=lambda cost: cost.price(machine) + extra(cost))
