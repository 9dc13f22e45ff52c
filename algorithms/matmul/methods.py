"""The methods of McColl 1.6.2 and 1.6.3, SUMMA, and the choice among them.

Every method is a family of schedules: process grids of at most p processes, and how many rounds on them.  The cheapest
by the machine is taken: W + g·H + o·messages + L·S, with the exact words of each superstep.  A grid need be neither
square nor of all processes, but of more than half of those that could have work: p = 7 may be 7 x 1 or 3 x 2,
whichever costs less.  "recursive" is the general family: it has the schedules of the others but SUMMA's, which move
more words in more supersteps.  Below, formulas are for n × n matrices and the grids that McColl has in mind; `counts`
has them for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from math import inf, prod

from bsp.algorithms.matmul.counts import Counted, at_least, counted
from bsp.algorithms.matmul.grids import (
    CLOSEST,
    SPARE,
    Candidates,
    ScheduleFamily,
    at_once,
    dealt,
    growing,
    lean,
    skewed,
    staying,
)  # fmt: skip
from bsp.algorithms.matmul.grids import grids as process_grids
from bsp.algorithms.matmul.schedules import AT_ONCE, SHIFTED, SPREAD, TWO_PHASE, Schedule
from bsp.arrays import PlanTooLarge
from bsp.cost.model import WORD, Machine
from bsp.cost.units import in_bytes

FITTINGS = 6  # times that rounds are added to where an estimate was too low

Shape = tuple[int, int, int]  # m, k, n


def all_at_once(shape: Shape, p: int, machine: Machine, room: float) -> Candidates:
    """Plan Method 1: each process gets its whole row of blocks of A and column of blocks of B, and multiplies once.

    W = 2n³/p,  H = 2n²/√p - 2n²/p,  S = 1,  M = 3n²/√p: both, and what arrived of B while it is put together (2n²/√p
    where no two processes share an element: then it is received in its place).
    Source: McColl 1.6.2, Method 1.
    """
    grids = process_grids(shape, p, 0)
    return ScheduleFamily(shape, grids, at_once(shape, grids, machine)).best(room)


def pair_by_pair(shape: Shape, p: int, machine: Machine, room: float) -> Candidates:
    """Plan Method 2: each process gets a pair of blocks at a time, multiplies it and frees it.

    W = 2n³/p,  H = 2n²/√p,  S = √p,  M = 5n²/p and a product on its way.
    Source: McColl 1.6.2, Method 2; the order is Cannon's, so that no block is asked for twice in a superstep.
    """
    grids = process_grids(shape, p, 0)
    return ScheduleFamily(shape, grids, skewed(shape, grids, machine, room, grids[:2].max(axis=0))).best(room)


def three_d(shape: Shape, p: int, machine: Machine, room: float) -> Candidates:
    """Plan Method 4: a three-dimensional grid, with bricks as near to cubes as p allows.

    One superstep brings the inputs, one adds up the partial sums; two each where messages cost more than a superstep.

    W = 2n³/p,  H = 3n²/p^(2/3) - 3n²/p,  S = 2,  M = 3n²/p^(2/3) and the blocks.
    Source: McColl 1.6.2, Method 4 (McColl and Valiant; Agarwal and others 1995).
    """
    grids = process_grids(shape, p, 1)
    found = ScheduleFamily(shape, grids, at_once(shape, grids, machine)).best(room)
    return Candidates(*([other for s in several for other in dealt(s, machine)] for several in found))


def recursive(shape: Shape, p: int, machine: Machine, room: float) -> Candidates:
    """Plan the general family: any grid, with as many rounds as the memory asks for, along the cheapest side.

    With q = p^(1/3) to p^(1/2) bricks along each side of the matrices, q³/p of them for each process:
    W = 2n³/p,  H = 2n²q/p + n²/q² - 3n²/p,  S = rounds + 1,  M = 2n²/p for the blocks of A and B, n²/q² for the brick
    that stays, and a few times its size divided by the rounds.  q = p^(1/3) is Method 4; q = p^(1/2) has the words of
    Method 1 in little more memory than Method 2's.  The cheapest that fits is taken; if none does, those that need
    least memory are returned.  Bricks are cut along both sides where that is more even, or where messages cost more
    than one superstep (`dealt`).
    Source: McColl and Tiskin, Algorithmica 24 (1999); McColl 1.6.3.  The brick of any matrix may stay: Kwasniewski and
    others (SC 2019).
    """
    grids = process_grids(shape, p, SPARE)
    families = [ScheduleFamily(shape, grids, at_once(shape, grids, machine))]
    if room and not families[0].cheapest_fits(room):
        grids = lean(shape, grids)
        families += [
            ScheduleFamily(shape, grids, growing(shape, grids, machine, room), SPREAD),
            ScheduleFamily(shape, grids, skewed(shape, grids, machine, room), SHIFTED),
            ScheduleFamily(shape, grids, staying(shape, grids, machine, room, "n"), SPREAD, "n"),
            ScheduleFamily(shape, grids, staying(shape, grids, machine, room, "m"), SPREAD, "m"),
        ]
    closest = [(rank > 0, *each) for family in families for rank, each in enumerate(family.closest(room))]
    closest.sort(key=lambda each: each[:2])  # the best of each family first: others differ less from those
    fitting = (_fitting(dealt(s, machine), room) for *_, s in closest)
    found = [s for several in islice(filter(None, fitting), CLOSEST) for s in several]
    if found:
        return Candidates(found, [])
    return Candidates([], [other for family in families for s in family.least() for other in dealt(s, machine)])


def _fitting(several: list[Schedule], room: float) -> list[Schedule]:
    """Return the schedules that fit, some with a few more rounds: estimates are of bricks that divide evenly."""
    found = []
    for s in several:
        for _ in range(FITTINGS):
            if not room or counted(s, WORD, "blas", "recursive").memory <= room:
                found.append(s)
                break
            if s.rounds == 1:
                break
            side = {"m": s.m // s.rows, "k": s.k // s.layers, "n": s.n // s.columns}
            finer = s._replace(rounds=_finer(side[s.along], s.rounds), sums=_finer(side["m"], s.sums))
            if finer == s:
                break
            s = finer
    return found


def _finer(side: int, pieces: int) -> int:
    """Return a number of pieces that are an eighth shorter, or shorter by 1; 1 piece stays one."""
    if pieces == 1 or not side:
        return pieces
    length = -(-side // pieces)
    return max(pieces, -(-side // max(1, length - max(1, length // 8))))


def summa(shape: Shape, p: int, machine: Machine, room: float) -> Candidates:
    """SUMMA, the baseline: panel by panel, owners broadcast A along rows of the grid and B along columns.

    Broadcast in one superstep: H = 2n²(1 - 1/√p), S = √p.  In two phases: H = 4n²/√p - 6n²/p and less, S = 2√p.
    W = 2n³/p,  M = 7n²/p (9n²/p in two phases) and a product on its way.
    Source: van de Geijn and Watts, Concurrency 9 (1997); two-phase broadcast: McColl 1.6.1.
    """
    grids = process_grids(shape, p, 0)
    found = ScheduleFamily(shape, grids, skewed(shape, grids, machine, room, grids[:2].max(axis=0))).best(room)
    ways = (AT_ONCE, TWO_PHASE)
    return Candidates(*([s._replace(rounds=1, way=way) for s in several for way in ways] for several in found))


METHODS: dict[int | str, Callable[[Shape, int, Machine, float], Candidates]] = {
    1: all_at_once, 2: pair_by_pair, 4: three_d, "recursive": recursive, "summa": summa,
}  # fmt: skip
AUTO: tuple[int | str, ...] = (1, 4, "recursive")  # the last has the schedules of all that can be cheapest


# ----------------------------------------------------------------------------------- choice


@lru_cache(maxsize=1024)
def options(
    shape: Shape, p: int, method: int | str, room: float, machine: Machine
) -> tuple[tuple[int | str, Schedule, bool], ...]:
    """Return the ways to multiply by a method, or by any of them ("auto"), in their order.

    Each is a method, a schedule, and whether that is one that the cheapest probably make superfluous.
    room : elements, 0: no limit.
    """
    found: list[tuple[int | str, Schedule, bool]] = []
    for name in AUTO if method == "auto" else [method]:
        cheapest, least = METHODS[name](shape, p, machine, room)
        found += [(name, schedule, False) for schedule in cheapest]
        found += [(name, schedule, True) for schedule in least]
    return tuple(found)


def chosen(
    shape: Shape, p: int, method: int | str, memory: float, machine: Machine, itemsize: int, leaf: str,
    extra: Callable[[Counted], float] = lambda cost: 0.0,
) -> Counted:  # fmt: skip
    """Return the cheapest way that fits, the first of equals.

    extra : returns the flop-times that a way takes besides, to bring operands to its layout.
    Raises PlanTooLarge where none fits, with what the one that needs least would take.
    """
    if method != "auto" and method not in METHODS:
        names = ", ".join(map(repr, METHODS))
        raise ValueError(f"matmul: method={method!r}; it is one of {names}, or 'auto'")
    if leaf not in ("blas", "strassen"):
        raise ValueError(f"matmul: leaf={leaf!r}; it is 'blas' or 'strassen'")

    def price(cost: Counted) -> float:
        return cost.price(machine) + extra(cost) if not memory or cost.memory * WORD <= memory else inf

    room = 0.0 if memory in (0, inf) else max(memory // itemsize, 1.0)  # 0 would be no limit
    ways = options(shape, p, method, room, machine)
    best = min((price(counted(s, itemsize, leaf, name)) for name, s, least in ways if not least), default=inf)
    found = [
        counted(s, itemsize, leaf, name)
        for name, s, least in ways
        if not least or at_least(s, itemsize, leaf).price(machine) <= best
    ]
    cost = min(found, key=price)
    if price(cost) == inf:
        least = min(found, key=lambda cost: cost.memory)
        m, k, n = shape
        raise PlanTooLarge(
            f"matmul of ({m}, {k}) by ({k}, {n}) on {p} processes needs {in_bytes(least.memory * WORD)} on a process "
            f"(method {least.method}), limit {in_bytes(memory)}; its share of A, B and C is "
            f"{in_bytes((m * k + k * n + m * n) * itemsize / max(1, prod(least.schedule[3:6])))}; "
            "take more processes, or more memory"
        )
    return cost
