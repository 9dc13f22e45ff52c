"""Orders: one process's part of a plan, as tasks, sends and receives of each superstep.

A piece that is a whole region is read where it is: in a block of the process, or as it has arrived, like a value with
one block.  Regions of several pieces are put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bsp.arrays.expressions.layout import Shape
from bsp.arrays.planning.small import SmallStage, small_stage
from bsp.arrays.planning.stages import Fetch, PieceRow, ReadRegion, Stage
from bsp.arrays.planning.tasks import Direct, Pieced, TaskOrder, block_of
from bsp.transport.packet import DIRECT_BYTES

if TYPE_CHECKING:
    from bsp.arrays.planning.plan import Plan


class Landing(NamedTuple):
    """A region into which pieces are received without a copy.

    rows : for each such piece, by row of the table, its place in the region, which is contiguous in memory.
    """

    fetch: int
    region: ReadRegion
    rows: dict[int, tuple[slice, ...]]


class StageOrder(NamedTuple):
    """One process's part of a stage: its tasks, and what C needs to compute them if they are small."""

    stage: Stage
    tasks: list[TaskOrder]
    small: SmallStage | None


class Sending(NamedTuple):
    """One piece and the processes to which it is sent."""

    fetch: Fetch
    row: PieceRow
    dests: tuple[int, ...]


class PlanOrders:
    """One process's part of a plan; all lists are by level.

    arriving : pieces from others that are whole regions, by (fetch, row): their numbers, which follow the values'.
    unread : the numbers of values, and of pieces that are whole regions, that no later level reads.  fetched : the
        numbers of fetches whose pieces no later level reads.
    """

    small: list[bool]  # whether C computes all stages of a superstep

    def __init__(self, plan: Plan, pid: int) -> None:
        self.pid = pid
        levels = plan.last + 1
        self.stages: list[list[StageOrder]] = [[] for _ in range(levels)]
        self.sends: list[list[Sending]] = [[] for _ in range(levels)]
        self.receives: list[list[tuple[int, int, int]]] = []  # (source, fetch, row), in the order of arrival
        numbers = {id(fetch): k for k, fetch in enumerate(plan.fetches)}
        self.landings: list[list[Landing]] = [[] for _ in range(levels)]
        until = [0] * len(plan.fetches)
        self.arriving: dict[tuple[int, int], int] = {}
        self._values = len(plan.values)
        expected: list[list[tuple[int, int, int]]] = [[] for _ in range(levels)]
        regions: dict[int, dict[Shape, ReadRegion]] = {}
        for k, fetch in enumerate(plan.fetches):
            if fetch.direct:
                continue
            regions[k] = fetch.regions(pid)
            if not fetch.moves:
                continue
            self.sends[fetch.level - 1] += [Sending(fetch, row, dests) for row, dests in fetch.sends(pid)]
            for region in {id(each): each for each in regions[k].values()}.values():
                landing = _landing(fetch, region, pid)
                if landing:
                    self.landings[fetch.level - 1].append(Landing(k, region, landing))
            rows = {row.number: row for region in regions[k].values() for row in region.rows}
            expected[fetch.level - 1] += [
                (row.source, k, number) for number, row in sorted(rows.items()) if row.source not in (pid, -1)
            ]
        self.receives = [sorted(each) for each in expected]
        for stage in plan.stages:
            orders = []
            for at in stage.tasks.mine(pid):
                reads: list[Direct | Pieced] = []
                for fetch in stage.fetches:
                    k = numbers[id(fetch)]
                    until[k] = max(until[k], stage.level)
                    reads.append(self._read(fetch, k, regions[k][at]) if k in regions else block_of(fetch, at))
                orders.append(TaskOrder(at, stage.tasks.box(at), reads))
            self.stages[stage.level].append(StageOrder(stage, orders, small_stage(stage, orders)))
        self.small = [all(each.small is not None for each in stages) for stages in self.stages]
        self.unread: list[list[int]] = [[] for _ in range(levels)]
        self.fetched: list[list[int]] = [[] for _ in range(levels)]
        for value in plan.values:
            self.unread[max(value.last, 0)].append(value.number)
        for k, level in enumerate(until):
            self.fetched[level].append(k)
        for (k, _), number in self.arriving.items():
            self.unread[until[k]].append(number)

    def _read(self, fetch: Fetch, number: int, region: ReadRegion) -> Direct | Pieced:
        """Return where a region comes from."""
        if len(region.rows) != 1:
            return Pieced(fetch, number, region)
        (row,) = region.rows
        if row.source in (self.pid, -1):
            return Direct(fetch.ref.value.number, row.block, row.where, fetch)
        place = self.arriving.setdefault((number, row.number), self._values + len(self.arriving))
        return Direct(place, (), None, fetch)


def _landing(fetch: Fetch, region: ReadRegion, pid: int) -> dict[int, tuple[slice, ...]]:
    """Return the places in a region of the pieces to receive directly: large, from elsewhere, contiguous there."""
    found: dict[int, tuple[slice, ...]] = {}
    if len(region.rows) < 2:
        return found
    for row in region.rows:
        size, whole = fetch.ref.value.dtype.itemsize, True
        for axis in reversed(range(len(region.shape))):
            length = row.into[axis].stop - row.into[axis].start
            whole = whole and (length == region.shape[axis] or all(
                part.stop - part.start == 1 for part in row.into[:axis]
            ))  # fmt: skip
            size *= length
            if length != region.shape[axis]:
                break
        if whole and row.source not in (pid, -1) and size >= DIRECT_BYTES:
            found[row.number] = row.into
    return found
