"""The recorder of a sample: it counts what all processes send, of what those that run do and of declared costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.cost.flows import Flows
from bsp.cost.model import WORD, Cost, Machine, Traffic
from bsp.cost.prediction.sample import Sample, Sent
from bsp.cost.record.account import SuperstepSums
from bsp.cost.record.recorder import BLOCK, FINE, SEND, STAGED, Exchanged, Recorder, added_up
from bsp.values.effects import Effect, Get, Put, PutEach, Row
from bsp.values.payload import size_of

if TYPE_CHECKING:
    from bsp.engine.task import Task
    from bsp.transport.base import Transport


_KEPT = 32  # exchanges of plans whose counts are kept


class _Counts(NamedTuple):
    """The counts of one exchange, as `SuperstepSums` holds them."""

    sent: np.ndarray
    received: np.ndarray
    messages: int
    between: list[tuple[Traffic, Traffic]]
    inside: Traffic
    landed: np.ndarray


class SampleRecorder(Recorder):
    """The record of a world of which some processes run; they tell what they send, or what their supersteps cost.

    A collective, a plan of arrays or a declared procedure knows its cost for all processes, and tells it.  Everything
    else is counted by effects.
    """

    def __init__(self, nprocs: int, elements: int, machine: Machine, sample: Sample) -> None:
        super().__init__(nprocs, elements, range(len(sample.pids)), machine)
        self.sample = sample
        self._count = 0
        self._exchanged: list[Exchanged] = []
        self._gets: list[Get] = []
        self._costs: dict[int, list[Cost]] = {}  # by context: those of the superstep under way, and of others behind it
        self._known: dict[int, Flows] = {}  # by context
        self._counts: dict[int, tuple[Flows, _Counts]] = {}  # by id
        none = np.zeros(nprocs, np.int64)
        self._nothing = Exchanged(np.zeros((0, 4), np.int64), none, none, 0)

    @property
    def superstep(self) -> int:
        """The number of supersteps that have ended."""
        return self._count

    def costs(self, context: int, costs: Sequence[Cost]) -> None:
        """Take the costs of a collective's supersteps, or of a declared one; of several processes' the largest."""
        each = [
            cost._replace(H=cost.H / cost.S, S=1, messages=cost.messages / cost.S, load=_part(cost))
            for cost in costs for _ in range(int(cost.S))
        ]  # fmt: skip
        known = self._costs.get(context)
        if known is None or sum(cost.H for cost in each) > sum(cost.H for cost in known):
            self._costs[context] = each

    def moved(self, context: int, traffic: Callable[[], Flows]) -> None:
        """Take the traffic of all processes in this superstep, which every process that runs knows alike."""
        if context not in self._known:
            self._known[context] = traffic()

    def extra(self) -> int:
        """Return how many supersteps follow this one that no process takes part in: the rest of a collective."""
        return max((len(costs) for costs in self._costs.values()), default=1) - 1

    def issued(self, effects: Sequence[Effect]) -> None:
        """Count what the processes that run send."""
        sent: list[Sent] = []
        for effect in effects:
            if isinstance(effect, Put):
                kind = BLOCK if effect.region.index is None else STAGED
                sent.append(Sent(effect.source, (effect.dest,), effect.values.nbytes, kind))
            elif isinstance(effect, PutEach):
                size = effect.values.nbytes if effect.scalars else 2 * WORD * effect.values.size
                sent.append(Sent(effect.source, (effect.dest,), size, FINE))
            elif isinstance(effect, Get):
                size = 0 if effect.positions is None else WORD * effect.positions.size
                sent.append(Sent(effect.source, (effect.dest,), size, FINE))
                self._gets.append(effect)
            elif isinstance(effect, Row):
                each = enumerate(effect.sizes())
                sent += [Sent(effect.source, (effect.first + k,), size, SEND) for k, size in each]
            else:
                size = size_of(effect.pickled) if effect.array is None else effect.array.nbytes  # type: ignore[arg-type]
                sent.append(Sent(effect.source, effect.dests, size, SEND))
        if sent:
            self._exchanged.append(self.sample.exchanged(sent))

    def answered(self, gets: Sequence[tuple[Get, Any]]) -> None:
        """Count the replies to gets: what was asked, on the way back."""
        sent = []
        for asked, (get, coarray) in zip(self._gets, gets, strict=True):
            count = get.positions.size if get.positions is not None else int(np.prod(get.region.shape))  # type: ignore[union-attr]
            kind = STAGED if get.positions is None else FINE
            sent.append(Sent(asked.source, (asked.dest,), int(count) * coarray.dtype.itemsize, kind))
        back = self.sample.exchanged(sent)
        self._exchanged.append(Exchanged(back.pairs[:, [1, 0, 2, 3]], back.into, back.out, back.messages))

    def ended(self, tasks: Sequence[Task], transport: Transport) -> None:
        """Price the superstep that has ended, and those behind it that belong to the same collective."""
        assert self.account is not None
        task = tasks[0]
        told = task.label, task.call.text, str(task.line()), None
        choice = next((task.choice for task in tasks if task.choice is not None), None)
        for task in tasks:
            task.label = task.choice = None
        work, self._work = np.array(self._work), []
        for k in range(self.extra() + 1):
            costs = [each[k] for each in self._costs.values() if k < len(each)]
            counts = [] if k else [*map(self._counted, self._exchanged), *map(self._of_plan, self._known.values())]
            self.account.told.append(told)
            if choice is not None:
                self.choices.append((self._count, choice))
            self.account.absorb(self._summed(work if k == 0 else 0 * work, counts, costs, bool(self._registers)))
            self._registers.clear()
            self._count += 1
        self._exchanged, self._gets, self._costs, self._known = [], [], {}, {}
        self._worked = self.clock()

    def registered(self) -> None:
        """Count that processes exchange the tables of new coarrays in this superstep."""
        self._registers.append(0)

    def finish(self, gather: Callable[[Any], list[Any]]) -> None:
        """Count the work after the last boundary."""
        assert self.account is not None
        work = np.array(self._work)
        if not self._count:
            one = self._summed(np.zeros(len(self.pids)), [], [], False)
            self.account.absorb(_first(one, 0)._replace(heat=one.heat))
        self.account.end(work[self.sample.index] if len(work) == len(self.pids) else work, 0.0, self.choices)

    def _counted(self, exchanged: Exchanged) -> _Counts:
        """Return the counts of one exchange."""
        p = self.nprocs
        single = np.column_stack([np.zeros(len(exchanged.pairs), np.int64), exchanged.pairs])
        zero, source, dest, size, kind = single[single[:, 1] != single[:, 2]].T  # to itself a process sends nothing
        sent, received = added_up(zero, source, size, (1, p)), added_up(zero, dest, size, (1, p))
        of = np.sort((source * p + dest)[(size > 0) | (kind == SEND)])
        messages = int(np.count_nonzero(np.diff(of))) + bool(of.size)
        multi = self._crossing()
        between, landed = [*self._between(single, multi, 1)], self._landed(single, multi, 1)
        if exchanged.messages:
            sent, received = sent + exchanged.out, received + exchanged.into
            self._spread(between, exchanged.out, exchanged.into, exchanged.messages)
            landed = landed + np.bincount(self.owner, exchanged.into / WORD, self.elements)
        return _Counts(sent, received, messages + exchanged.messages, between, self._inside(single, multi, 1), landed)

    def _of_plan(self, flows: Flows) -> _Counts:
        """Return the counts of a plan's exchange; plans run again and again, so they are kept."""
        known = self._counts.get(id(flows))
        if known is not None:
            return known[1]
        out, into = flows.traffic
        ports = [np.asarray(level.port_of(np.arange(self.elements))) for level in self.machine.outer]
        levels, copies, copied = flows.crossing(self.owner, ports)
        between = [
            (_sent(each.blocks_out, each.bytes_out), _sent(each.blocks_into, each.bytes_into)) for each in levels
        ]
        landed = np.bincount(self.owner, into / WORD, self.elements).reshape(1, -1)
        found = _Counts(out[None], into[None], flows.messages, between, _sent(copies, copied), landed)
        if len(self._counts) >= _KEPT:
            self._counts.clear()
        self._counts[id(flows)] = flows, found  # the flows are kept, so that their id stays their own
        return found

    def _summed(
        self, work: np.ndarray, counts: Sequence[_Counts], costs: Sequence[Cost], registers: bool
    ) -> SuperstepSums:
        """Return the sums of one superstep over all processes."""
        p, shape = self.nprocs, (1, self.elements)
        sent, received, messages, known, inside, landed = counts[0] if counts else self._counted(self._nothing)
        between = [*known]
        for more in counts[1:]:
            sent, received, messages = sent + more.sent, received + more.received, messages + more.messages
            inside, landed = inside + more.inside, landed + more.landed
            between = [(a + c, b + d) for (a, b), (c, d) in zip(between, more.between, strict=True)]
        spent = work[self.sample.index]
        for cost in costs:
            sent, received = sent + WORD * cost.H, received + WORD * cost.H
            messages += round(cost.messages * p)
            if cost.load is None:
                volume = np.full(p, WORD * cost.H)
                self._spread(between, volume, volume, round(cost.messages * p))
                spent = spent + cost.W / self.machine.r
                continue
            for level, traffic in enumerate(cost.load.between):
                alike = _everywhere(traffic, between[level][0].words.shape)
                between[level] = between[level][0] + alike, between[level][1] + alike
            inside = inside + _everywhere(cost.load.inside, shape)
            landed = landed + cost.load.fresh
            spent = spent + cost.load.work / self.machine.r * self.elements / p
        return SuperstepSums(
            work=spent.reshape(1, p), wall=np.zeros(1), sent=sent, received=received, messages=np.array([messages]),
            landed=landed, registers=np.array([int(registers)]), between=tuple(between), inside=inside,
            heat=np.zeros((self.bins, self.bins)),
        )  # fmt: skip

    def _spread(self, between: list[tuple[Traffic, Traffic]], out: np.ndarray, into: np.ndarray, messages: int) -> None:
        """Add traffic in bytes by process, which goes to all others alike, to the levels that it crosses."""
        p, levels = self.nprocs, self.machine.outer
        near = -(-p // self.elements)  # processes of one element
        for k, level in enumerate(levels):
            last = k + 1 == len(levels)
            within = p if last else min(p, levels[k + 1].widest * -(-p // self.elements))
            share = (within - near) / max(p - 1, 1)
            near = within
            port = level.port_of(self.owner)
            blocks = np.bincount(port).reshape(1, -1) * (share * messages / p)
            leaves, enters = (
                Traffic(blocks, words, np.zeros_like(words), words)
                for words in (np.bincount(port, share * each / WORD).reshape(1, -1) for each in (out, into))
            )
            between[k] = between[k][0] + leaves, between[k][1] + enters


def _first(sums: Any, count: int) -> Any:
    """Return the first `count` supersteps of sums."""
    if isinstance(sums, np.ndarray):
        return sums[:count]
    return type(sums)(*[_first(each, count) for each in sums]) if hasattr(sums, "_fields") else tuple(
        _first(each, count) for each in sums
    )  # fmt: skip


def _sent(blocks: np.ndarray, nbytes: np.ndarray) -> Traffic:
    """Return the traffic of one superstep, by port, in which pieces are sent."""
    words = (nbytes / WORD).reshape(1, -1)
    return Traffic(blocks.reshape(1, -1), words, np.zeros_like(words), words)


def _part(cost: Cost) -> Any:
    """Return the load of one of the S alike supersteps of a cost."""
    if cost.load is None or cost.S == 1:
        return cost.load
    share = 1 / cost.S
    load = cost.load
    return load._replace(
        work=load.work * share, turns=load.turns * share, inside=_scaled(load.inside, share), fresh=load.fresh * share,
        between=tuple(_scaled(each, share) for each in load.between),
    )  # fmt: skip


def _scaled(traffic: Traffic, share: float) -> Traffic:
    return Traffic(*[share * each for each in traffic])


def _everywhere(traffic: Traffic, shape: tuple[int, ...]) -> Traffic:
    """Return the traffic of one port as that of all."""
    return Traffic(*[np.full(shape, float(each)) for each in traffic])
