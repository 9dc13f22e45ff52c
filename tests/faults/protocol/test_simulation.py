"""Whole jobs in virtual time: nothing wrong is ever delivered, what can survive does, a seed replays identically.

`BSP_SCHEDULES=10000 python -m pytest tests/faults/protocol/test_simulation.py` tries so many mixed schedules, a tenth
as many that bsprun leaves, which take five times as long, and a fifth of each other kind. A schedule that fails prints
the command that replays it.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.clones.clone import Clone
from bsp.faults.protocol.clones.once_values import Copies
from bsp.faults.protocol.clones.phases import ClonePhase
from bsp.faults.protocol.lease import Lease
from bsp.faults.protocol.member import Member
from bsp.faults.protocol.messages import (
    AgentReport,
    BundlePacket,
    ClonePlace,
    Commit,
    Ended,
    Finished,
    Handover,
    Leave,
    Limits,
    Once,
    Orders,
    Print,
    Reply,
    Role,
    SendTo,
    Submitted,
    Write,
)
from bsp.faults.simulate import command, simulation
from bsp.faults.simulate.elements import DriftingClock
from bsp.faults.simulate.network import OUTSIDE
from bsp.faults.simulate.program import SimulatedProgram
from bsp.faults.simulate.schedules import Cut, SimulatedRun, changing, drawn, hosts, orphaned, survivable, torn
from bsp.faults.simulate.simulation import Simulation

SCHEDULES = int(os.environ.get("BSP_SCHEDULES", "100"))
PROCESSES = 2


def ran(schedule: SimulatedRun) -> Simulation:
    """The run of a schedule, to its end."""
    run = Simulation(schedule)
    run.run()
    return run


def history(run: Simulation) -> str:
    """All that happened, and how much was said."""
    told = repr((run.notes, run.messages, run.outcome, run.printed, sorted(run.called.items())))
    return hashlib.sha256(told.encode()).hexdigest()


def counted(runs: Iterable[Simulation]) -> Counter[str]:
    """How often each kind of note was made."""
    return Counter(kind for run in runs for _, kind, _ in run.notes)


# ---------------------------------------------------------------------------------------- seeds


@pytest.mark.thorough
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "schedules"), [
    ("mixed", SCHEDULES), ("survivable", SCHEDULES // 5), ("changing", SCHEDULES // 5), ("orphaned", SCHEDULES // 10),
    ("hosts", SCHEDULES // 5), ("torn", SCHEDULES // 5),
])  # fmt: skip
def test_no_schedule_delivers_anything_wrong(kind: str, schedules: int) -> None:
    """Whatever strikes: every packet, the text and the answer are right, or the loss is named; survivable: no loss."""
    share = -(-schedules // PROCESSES)
    command = [sys.executable, "-m", "bsp.faults.simulate", "--kind", kind]
    running = [
        subprocess.Popen(
            [*command, "--seed", str(first), "--schedules", str(min(share, schedules - first))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for first in range(0, schedules, share)
    ]
    told = [(process.communicate()[0], process.returncode) for process in running]
    assert all(status == 0 for _, status in told), "\n".join(text for text, _ in told)
    assert all("schedules:" in text and text.rstrip().endswith("; 0 failed") for text, _ in told)


def three_faults(seed: int) -> SimulatedRun:
    """p = 4, HC = 2, S = 2; three elements are lost, each when the one before has been replaced."""
    rng = random.Random(f"three faults {seed}")
    script = SimulatedProgram(
        4, rng.randrange(0, 4), ((rng.randrange(60, 80), 1), (rng.randrange(5, 20), 1)), 1, once=5
    )
    schedule = SimulatedRun(seed, script, 8, 2, 1, Limits(hang_limit=0.5, linger=0.2), step=0.05, harmless=True)
    schedule.tail = rng.choice((0.0, 4.0))
    when = rng.random() * 0.3
    for element in rng.sample(range(10), 3):
        what = rng.choice(("crash", "crash", "stop"))
        schedule.faults.append((when, what, element, float(rng.randrange(0, 12)) if what == "crash" else 0.0))
        when += 1.2 + 0.3 * rng.random()
    return schedule


@pytest.mark.thorough
def test_three_well_spaced_faults_are_always_survived() -> None:
    """p = 4, HC = 2, S = 2 (DESIGN section 7: 600 of 600; the chapter's sketch read literally: 0 of 100)."""
    runs = [ran(three_faults(seed)) for seed in range(36)]
    failed = {run.schedule.seed: run.wrong for run in runs if run.wrong or not isinstance(run.outcome, Finished)}
    assert not failed
    assert counted(runs)["died"] > 2 * len(runs)


def one_flip(seed: int) -> SimulatedRun:
    """p = 4, HC = 3: a bit of a message or of a state, while clones lag and messages are lost."""
    rng = random.Random(f"one flip {seed}")
    loops = ((rng.randrange(20, 40), 1), (rng.randrange(2, 20), 1))
    script = SimulatedProgram(4, rng.randrange(0, 4), loops, 1, rng.choice((0, 3)), once=rng.choice((0, 5)))
    limits = Limits(hang_limit=rng.choice((1.0, 2.0)), linger=0.2)
    schedule = SimulatedRun(
        seed, script, 12, rng.choice((0, 2)), 1, limits, step=rng.choice((0.01, 0.05)), harmless=True
    )
    schedule.tail, schedule.lossy = rng.choice((0.0, 2.0, 1.2)), rng.choice((0.0, 0.0, 0.01, 0.05))
    for _ in range(rng.randrange(0, 3)):
        schedule.faults.append((0.0, "slow", rng.randrange(12), rng.choice((2.0, 5.0))))
    what = rng.choice(("flip", "flip state"))
    schedule.faults.append((rng.random() * schedule.step * 40, what, rng.randrange(12), 0.0))
    return schedule


@pytest.mark.thorough
def test_three_clones_outvote_a_flipped_bit_whoever_lags() -> None:
    """N6, N11: a laggard does not leave out what it must judge, nor takes what one alone has come to."""
    runs = [ran(one_flip(seed)) for seed in range(80 if SCHEDULES > 100 else 30)]
    failed = {run.schedule.seed: run.wrong for run in runs if run.wrong or not isinstance(run.outcome, Finished)}
    assert not failed
    assert not any(run.unprotected for run in runs if run.flipped)
    seen = counted(runs)
    assert seen["jumped"] > len(runs)
    assert seen["outvoted"] > 0.8 * len(runs)


@pytest.mark.thorough
def test_simulated_faults_do_happen_and_are_healed() -> None:
    """The harness cannot pass by doing nothing: deaths led to promotions, and newcomers went on from a state."""
    runs = [ran(survivable(seed)) for seed in range(30)]
    assert not any(run.wrong for run in runs)
    seen = counted(runs)
    assert seen["died"] > len(runs)  # two are struck in each, some of them twice or while they stand by
    assert seen["promoted"] > len(runs) / 2
    assert seen["restored"] > len(runs) / 2
    assert seen["suspected"] > 5
    assert seen["relaunched"] > 5
    assert seen["jumped"] > 5
    assert seen["tail"] > 5


def test_mixed_schedules_end_in_every_way_a_job_can() -> None:
    """Answers, losses and differences; and each kind of fault strikes."""
    runs = [ran(drawn(seed)) for seed in range(100)]
    outcomes = Counter(type(run.outcome).__name__ for run in runs)
    assert set(outcomes) == {"Finished", "Lost", "Corrupt"}
    assert outcomes["Finished"] > len(runs) / 2
    struck = Counter(fields["what"] for run in runs for _, kind, fields in run.notes if kind == "fault")
    kinds = {"crash", "stop", "slow", "worker dies", "worker stops", "flip", "flip state", "cut"}
    assert set(struck) == kinds
    assert {"pulled", "outvoted", "degraded"} <= set(counted(runs))


@pytest.mark.thorough
def test_on_hosts_each_fault_strikes_and_is_healed() -> None:
    """Hosts are lost and come back, are cut off, drained, join; bsprun dies; elements learn that they were replaced."""
    runs = [ran(draw(seed)) for seed in range(60) for draw in (hosts, torn)]
    assert not any(run.wrong for run in runs)
    struck = Counter(fields["what"] for run in runs for _, kind, fields in run.notes if kind == "fault")
    for what in ("host crashes", "host stops", "host is drained", "host joins", "bsprun dies", "cut"):
        assert struck[what] > 5, what
    one_way = [cut for run in runs for cut in run.schedule.cuts if len(cut.ways) == 1]
    assert len(one_way) > 5
    notes = [str(fields) for run in runs for _, _, fields in run.notes]
    for what in ("could not be reached", "is not wanted any more", "declared dead", "in a call of proc.once when"):
        assert any(what in text for text in notes), what
    seen = counted(runs)
    assert min(seen[kind] for kind in ("suspected", "promoted", "restored", "left", "taken over")) > 10
    assert {run.clock.rate for run in runs} > {1.0, 1.045, 0.955}


# ------------------------------------------------------------------------------------ determinism


@pytest.mark.thorough
@pytest.mark.parametrize("draw", [drawn, survivable, hosts, torn])
def test_the_same_seed_gives_the_identical_history(draw: Callable[[int], SimulatedRun]) -> None:
    """A failing seed replays identically."""
    for seed in range(12):
        assert history(ran(draw(seed))) == history(ran(draw(seed)))


def test_a_state_that_waits_for_a_second_vote_is_not_used_when_its_donor_is_voted_out() -> None:
    """The state came when two of three had to agree; without the donor two clones are left, which need no vote."""
    run = ran(drawn(11273))
    assert not run.wrong and "outvoted" in {kind for _, kind, _ in run.notes}


@pytest.mark.thorough
def test_the_same_seed_gives_the_identical_history_in_another_interpreter() -> None:
    """Neither the seed of string hashing nor what ran before has a say."""
    seeds = [3, 8, 21]
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import test_simulation as t\n"
        f"print(*[t.history(t.ran(draw(seed))) for draw in (t.drawn, t.survivable, t.hosts) for seed in {seeds}])"
    )
    here = [history(ran(draw(seed))) for draw in (drawn, survivable, hosts) for seed in seeds]
    for hash_seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.split() == here


def test_different_seeds_are_different_schedules() -> None:
    """Thousands of schedules are no repetition of a few."""
    assert len({repr(drawn(seed)) for seed in range(200)}) == 200
    assert len({history(ran(drawn(seed))) for seed in range(40)}) == 40


# ---------------------------------------------------------------------------------------- effects


def deaths(run: Simulation) -> int:
    """Elements and workers that may have died in the middle of a call, and clones that were made anew."""
    return sum(kind in ("died", "relaunched", "restored", "remade") for _, kind, _ in run.notes)


def effects_of(schedule: SimulatedRun) -> Simulation:
    """The same schedule with a program that writes and calls `proc.once` often."""
    script = schedule.script
    schedule.script = SimulatedProgram(
        script.bundles, script.before, script.loops, script.after, script.large, text=1, once=2
    )
    return ran(schedule)


@pytest.mark.thorough
def test_text_and_effects_are_exact_under_faults() -> None:
    """N9: every byte once and in order; a call is made again only for a death."""
    runs = [effects_of(survivable(seed)) for seed in range(100, 130)]
    for run in runs:
        assert not run.wrong, f"survivable {run.schedule.seed}: {run.wrong}"
        assert run.printed == run.text
        assert run.called
        assert max(run.called.values()) <= 1 + deaths(run)
    assert sum(deaths(run) for run in runs) > len(runs)


def test_without_deaths_an_effect_happens_exactly_once() -> None:
    """N9: at least once is more than once only for a death."""
    for seed in range(10):
        schedule = survivable(seed)
        schedule.faults = []
        run = effects_of(schedule)
        assert not run.wrong
        assert set(run.called.values()) == {1}


# ------------------------------------------------------------------ holds, exceptions, memory


class Heavy(Simulation):
    """States take seconds to travel."""

    handovers = 0

    def _send(self, source: int, dest: int, message: Any) -> None:
        if type(message) is Handover:
            self.handovers += 1
            self.at(self.now + 3.0, self._arrive, source, dest, message)
        else:
            super()._send(source, dest, message)


@pytest.mark.parametrize("fault", [(1.0, "crash", 1, 0.0), (1.0, "slow", 1, 5.0)])
def test_large_states_are_not_sent_again_and_again(fault: tuple[float, str, int, float]) -> None:
    """N6: in twenty seconds; a newcomer joins, a laggard jumps."""
    schedule = SimulatedRun(
        1, SimulatedProgram(4, 1, ((400, 1),), 1, text=0), 8, 1, 1, Limits(linger=0.2), step=0.05, harmless=True
    )
    schedule.faults = [fault]
    run = Heavy(schedule)
    run.run()
    assert not run.wrong
    assert run.handovers <= 8
    assert counted([run])["restored" if fault[1] == "crash" else "jumped"]


class Held(Simulation):
    """bsprun is told to hold at some moment; a checkpoint of one head ends the run."""

    def __init__(self, schedule: SimulatedRun, when: float) -> None:
        super().__init__(schedule)
        self.at(when, self._hold)

    def _hold(self) -> None:
        if self.outcome is None:
            self._obey(self.arbiter.hold(self.now))

    def _obey(self, effects: Any) -> None:
        for effect in effects:
            hold = self.arbiter.orders.hold
            if isinstance(effect, Commit) and hold is not None and hold.target is not None:
                self.outcome = effect
                for node in self.nodes:
                    node.alive = False
                return
            super()._obey([effect])


def holding(seed: int) -> tuple[SimulatedRun, float]:
    """Loops of rounds, and the moment of a hold."""
    rng = random.Random(f"hold {seed}")
    loops = tuple((rng.randrange(2, 20), rng.choice((1, 2))) for _ in range(3))
    script = SimulatedProgram(rng.choice((2, 4)), rng.randrange(3), loops, 1, text=0)
    schedule = SimulatedRun(seed, script, script.bundles * rng.choice((1, 2)), 1, 1, Limits(hang_limit=1.0, linger=0.2))
    return schedule, rng.random() * script.exchanges() * 0.01


def test_a_hold_ends_with_a_checkpoint_of_one_head_or_with_the_program() -> None:
    """N13, wherever it strikes."""
    for seed in range(40):
        schedule, when = holding(seed)
        run = Held(schedule, when)
        run.run(until=20.0)
        assert run.outcome is not None, f"hold {seed}: nobody moves"
        if isinstance(run.outcome, Commit):
            for bundle, head, state in run.outcome.parts:
                assert (head, state.snapshot.head) == (run.outcome.head, run.outcome.head)
                assert state.snapshot.data[0] == run.history[state.snapshot.exchange][bundle]


class Raising(Simulation):
    """The program raises before an exchange and catches it behind it; the text of some exceptions differs."""

    def __init__(self, schedule: SimulatedRun, exchange: int, alike: bool) -> None:
        super().__init__(schedule)
        self.exchange, self.alike = exchange, alike

    def _ask(self, element: int, bundle: int, life: int, asked: Any) -> None:
        if type(asked) is Submitted and asked.exchange == self.exchange and bundle == 0:
            asked = asked._replace(raised=True, digest=b"E%d" % (0 if self.alike else element))
        super()._ask(element, bundle, life, asked)


def raising(seed: int, alike: bool) -> Raising:
    rng = random.Random(f"raise {seed}")
    script = SimulatedProgram(2, 1, ((12, 1),), 1)
    schedule = SimulatedRun(seed, script, 4, 1, 1, Limits(hang_limit=1.0, linger=0.2), lossy=rng.choice((0.0, 0.05)))
    schedule.harmless = alike
    if rng.random() < 0.5:
        schedule.faults = [(rng.random() * 0.2, rng.choice(("crash", "worker dies", "stop")), rng.randrange(4), 0.0)]
    run = Raising(schedule, rng.randrange(14), alike)
    run.run(until=20.0)
    return run


def test_exceptions_of_all_clones_are_passed_on_under_faults() -> None:
    """N12: nobody waits for ever, nobody is run again for ever."""
    for seed in range(60):
        run = raising(seed, alike=True)
        assert not run.wrong, f"raise {seed}: {run.wrong}"


def test_exceptions_that_differ_stop_the_job_by_name() -> None:
    """N12, N11: an address in its text is enough to make them differ."""
    for seed in range(20):
        assert raising(seed, alike=False).outcome is not None, f"raise {seed}: nobody moves"


class OddOne(Raising):
    """One of three clones raises something else, once."""

    def _ask(self, element: int, bundle: int, life: int, asked: Any) -> None:
        odd = self.arbiter.view.hosts[0][2]
        self.alike = (element, odd.since) != (odd.element, 1)
        super()._ask(element, bundle, life, asked)


def test_an_exception_that_one_of_three_raises_otherwise_costs_that_clone_its_state_alone() -> None:
    """N12, N11: the program goes on, with three clones."""
    for seed in range(20):
        schedule = protected_flip(seed)
        schedule.faults = []
        run = OddOne(schedule, 1 + seed % 8, alike=False)
        run.run(until=20.0)
        assert not run.wrong, f"flip {seed}: {run.wrong}"
        assert counted([run])["outvoted"] == counted([run])["restored"] == 1


def test_memory_does_not_grow_with_the_job() -> None:
    """A month of rounds: what is kept is what somebody may still need."""
    for seed in range(6):
        script = SimulatedProgram(3, 1, ((200, 1),), 0, large=2 * (seed % 2), text=0)
        schedule = SimulatedRun(seed, script, 6, 0, 1, Limits(linger=0.2), tail=3.0 * (seed % 3 > 0))
        run = ran(schedule)
        assert not run.wrong
        for node in run.nodes:
            for clone in node.member.clones.values():
                recent = clone.outbox.announced - 20
                assert sum(exchange < recent for exchange in clone.outbox.sent) <= 3
                assert sum(exchange < recent for exchange, _ in clone.inbox.offers) <= 3
                assert len(clone.inbox.log) + len(clone.outbox.digests) + len(clone.inbox.ballots) <= 60


@pytest.mark.parametrize("vertical", [1, 2])
@pytest.mark.parametrize("every", [0, 4])
def test_values_of_calls_do_not_pile_up(vertical: int, every: int) -> None:
    """N9: a month of proc.once; no call is made again because its value was forgotten."""
    script = SimulatedProgram(2, 2, ((200, 1),), 0, text=0, once=1)
    run = ran(SimulatedRun(1, script, 4, 0, vertical, Limits(linger=0.2, every=every), harmless=True))
    assert not run.wrong
    assert len(run.called) == 202 and set(run.called.values()) == {1}
    assert len(run.arbiter.once) <= 12


def test_with_three_clones_the_text_is_right_too() -> None:
    """N11: what is printed cannot be taken back."""
    for seed in range(60):
        schedule = protected_flip(seed)
        script = schedule.script
        schedule.script = SimulatedProgram(script.bundles, script.before, script.loops, script.after, text=2)
        schedule.faults = [(when, "flip state", 2 * (element % 3), much) for when, _, element, much in schedule.faults]
        run = ran(schedule)
        assert not run.wrong, f"flip {seed}: {run.wrong}"


@pytest.mark.parametrize("seed", range(3))
def test_who_was_held_for_a_checkpoint_that_nobody_can_write_goes_on(seed: int) -> None:
    """N13: a full disk stops no job."""
    script = SimulatedProgram(4, 1, ((40, 1),), 1, text=0)
    run = Full(SimulatedRun(seed, script, 8, 0, 1, Limits(linger=0.2), harmless=True))
    for when in (0.1, 0.25):
        run.at(when, lambda: run._obey(run.arbiter.hold(run.now)))
    assert isinstance(run.run(until=30.0), Finished)
    assert not run.wrong and run.failed == 2


class Full(Simulation):
    """No part of a checkpoint can be written: the first who tries says so."""

    failed = 0

    def _perform(self, element: int, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Write):
                self.at(self.now + 0.01, self._no_room, effect.head)
        super()._perform(element, [effect for effect in effects if not isinstance(effect, Write)])

    def _no_room(self, head: int) -> None:
        if self.arbiter.orders.hold is not None:
            self.failed += 1
            self._obey(self.arbiter.release(self.now, head))


# ---------------------------------------------------------------- what the rules prevent can be seen


class Unasked(Member):
    """N1 without asking again."""

    def _ask_again(self, clone: Clone) -> None:
        clone.pull_at = self._now + 1.0


class Impatient(Member):
    """N2 turned round: who is late by its own clock is fenced."""

    def _is_late(self, clone: Clone) -> None:
        self._over = True
        self._do(simulation.Die("late"))


class Startled(Member):
    """N3 without looking whether the clock has jumped: whoever was not heard meanwhile is silent."""

    def tick(self, now: float) -> list[Any]:
        self._ticked = None
        return super().tick(now)


class Drowsy(Arbiter):
    """N3 without it, in bsprun."""

    def tick(self, now: float) -> list[Any]:
        self._ticked = now
        return super().tick(now)


class Forgetful(Member):
    """N4 without every clone: packets are dropped when the first clone has them."""

    def _drop(self, dest: int) -> None:
        said = [mark for mark in self._retention.said(dest) if mark is not None]
        for clone in self.clones.values():
            if clone.bundle != dest and said:
                clone.outbox.drop(dest, max(said))


class Blind(Member):
    """N4 without newcomers: who has not said what it has does not count."""

    def _drop(self, dest: int) -> None:
        said = [mark for mark in self._retention.said(dest) if mark is not None]
        for clone in self.clones.values():
            if clone.bundle != dest and said:
                clone.outbox.drop(dest, min(said))


class Ruthless(Arbiter):
    """N5 without the last holder: whoever lags is made anew."""

    def _refresh(self, bundle: int, element: int, why: str) -> bool:
        if super()._refresh(bundle, element, why):
            return True
        self._replace(bundle, element, ClonePlace(element, Role.JOINING, self.view.number + 1))
        return True


class Nameless(Member):
    """N7 without names: what comes is what is waited for."""

    def _take(self, clone: Clone, exchange: int, source: int, packet: BundlePacket, sender: int) -> None:
        super()._take(clone, clone.inbox.complete, source, packet, sender)


class Leaving(Member):
    """N8 without the second step: who has ended goes."""

    def _ended(self, event: Ended) -> None:
        super()._ended(event)
        self._over = True
        self._do(Leave())


class Amnesiac(Member):
    """The join without its log: a newcomer is given the state alone."""

    def _handover(self, state: Handover, sender: int = -1) -> None:
        super()._handover(state._replace(log=()), sender)


class Headless(Member):
    """N10 without heads: a state is said to be of the exchange that its clone has come to."""

    def _do(self, effect: Any) -> None:
        if type(effect) is SendTo and type(effect.message) is Handover and effect.message.snapshot is not None:
            state = effect.message
            state = state._replace(snapshot=state.snapshot._replace(exchange=state.announced))
            effect = effect._replace(message=state)
        super()._do(effect)


class Credulous(Member):
    """N11 without a quorum: one of three is believed."""

    def _needed(self, source: int) -> int:
        return 1


class Incurious(Member):
    """N11 without comparing."""

    def _vote(self, bundle: int, said: Any, element: int) -> None:
        pass


class Rash(Member):
    """N12 without the siblings: an exception of one clone is the program's."""

    def _settle_raised(self, clone: Clone) -> None:
        assert clone.worker.waiting is not None
        clone.worker.enter(ClonePhase.WAITING)
        self._go(clone, clone.worker.waiting)


class Stubborn(Member):
    """N13 without an answer: each stays at the head at which it was stopped."""

    def _obey(self, orders: Orders) -> None:
        hold = orders.hold
        if hold is not None and hold.target is not None:
            orders = replace(orders, hold=replace(hold, target=0))
        super()._obey(orders)


class Reticent(Member):
    """N13 without those who wait: a head is named where one stands."""

    def _next_head(self, clone: Clone) -> int | None:
        return clone.worker.held


class Curt(Arbiter):
    """N14 without repeating: what bsprun says, it says once."""

    def tick(self, now: float) -> list[Any]:
        self._beat_at = float("inf")
        return super().tick(now)


class Careless(Arbiter):
    """Text as it comes."""

    def text(self, now: float, element: int, offset: int, data: bytes, since: int = 0) -> list[Any]:
        self._set(printed=max(self.orders.printed, offset + len(data)))
        return [Print(data)]


class Hasty(Member):
    """A laggard takes whatever state it is offered."""

    def _is_agreed(self, clone: Any, donor: int, there: Any) -> bool:
        return True


class Gullible(Arbiter):
    """Text of whoever says it first, with three clones too."""

    def text(self, now: float, element: int, offset: int, data: bytes, since: int = 0) -> list[Any]:
        new = data[self.orders.printed - offset :] if offset <= self.orders.printed else b""
        if new:
            self._set(printed=offset + len(data))
            self._effects.append(Print(new))
        return self._flush()


def protected_flip(seed: int) -> SimulatedRun:
    """Three clones of each bundle, and a bit of one clone's bytes turns over."""
    rng = random.Random(f"flip {seed}")
    script = SimulatedProgram(2, 1, ((12, 1),), 1, text=0)
    schedule = SimulatedRun(seed, script, 6, 0, 1, Limits(hang_limit=1.0, linger=0.2), harmless=True)
    schedule.faults = [(0.02 + 0.1 * rng.random(), "flip", rng.randrange(6), 0.0)]
    return schedule


def pair_flip(seed: int) -> SimulatedRun:
    """Two clones of each bundle, and a bit of one clone's bytes turns over."""
    schedule = protected_flip(seed)
    schedule.elements, schedule.harmless = 4, False
    schedule.faults = [(when, what, element % 4, much) for when, what, element, much in schedule.faults]
    return schedule


def lossy(seed: int) -> SimulatedRun:
    """Two clones of each bundle; every fifth message is lost, and as many come twice or late."""
    rng = random.Random(f"lossy {seed}")
    script = SimulatedProgram(3, 1, ((40, 1),), 1, large=rng.choice((0, 3)))
    schedule = SimulatedRun(seed, script, 6, 0, 1, Limits(hang_limit=5.0, linger=0.2), lossy=0.2, harmless=True)
    schedule.faults = [(0.1, "slow", rng.randrange(6), 2.0)]
    return schedule


def lonely(seed: int) -> SimulatedRun:
    """One clone of each bundle, and the same network."""
    schedule = lossy(seed)
    schedule.elements, schedule.faults = 3, []
    return schedule


def joining(seed: int) -> SimulatedRun:
    """The same network, and elements that die."""
    schedule = lossy(seed)
    rng = random.Random(f"joining {seed}")
    schedule.standbys = 2
    schedule.faults = [(when, "crash", rng.randrange(6), 0.0) for when in (0.1,)]
    return schedule


def cramped(seed: int) -> SimulatedRun:
    """The same network, little memory for what a clone that lags may still need, and nobody dies."""
    schedule = lossy(seed)
    schedule.script = SimulatedProgram(2, 1, ((40, 1),), 1, large=1, text=0)
    schedule.elements, schedule.limits = 4, Limits(hang_limit=2.0, linger=0.2, retention=4 << 20)
    schedule.faults = [(0.0, "slow", seed % 4, 20.0)]
    return schedule


class Suspended(Simulation):
    """All elements and bsprun sleep for ten seconds, as on a computer that is closed."""

    def __init__(self, schedule: SimulatedRun, when: float) -> None:
        super().__init__(schedule)
        self.at(when, self._sleep)

    def _sleep(self) -> None:
        self._queue[:] = [(when + 10.0, *what) for when, *what in self._queue]


def suspended(seed: int) -> Simulation:
    """Somewhere in the same network's run."""
    return Suspended(lossy(seed), 0.1 + 0.01 * seed)


class Exhausted(Raising):
    """One clone raises what its sibling does not, in its worker's first run: no memory is left."""

    def _ask(self, element: int, bundle: int, life: int, asked: Any) -> None:
        if element == 0 and life == 1:
            super()._ask(element, bundle, life, asked)
        else:
            Simulation._ask(self, element, bundle, life, asked)


def exhausted(seed: int) -> Simulation:
    """In some superstep of the same network's run."""
    return Exhausted(lossy(seed), 2 + seed, alike=True)


def stopped(seed: int) -> Simulation:
    """A hold, while messages are lost."""
    schedule, when = holding(seed)
    schedule.lossy = 0.1
    return Held(schedule, when)


class Evicting(Arbiter):
    """N15 left out: who is to leave is let go at once, before others have joined in its places."""

    def drain(self, now: float, element: int, why: str) -> list[Any]:
        """As if it had died."""
        return self.died(now, element, why)


class Disinherited(Arbiter):
    """N16 without what elements have of proc.once: the next bsprun has the same call made again."""

    def take_over(self, now: float, reign: int, orders: Any, values: Any, present: Any) -> None:
        super().take_over(now, reign, orders, (), present)


class Boastful(Arbiter):
    """N16 without keeping text until it has been written: it counts as printed when it is to be printed."""

    def text(self, now: float, element: int, offset: int, data: bytes, since: int = 0) -> list[Any]:
        effects = super().text(now, element, offset, data, since)
        return effects + self.printed(now, self.taken)


class Clinging(Member):
    """N9 without the end of leases: who is cut off goes on with a call that another makes now."""

    def _lapse(self) -> None:
        pass


class Renewed(Member):
    """N9 with a lease that runs from whatever is heard, however long it was on its way."""

    def command(self, now: float, orders: Orders) -> list[Any]:
        self._lease = Lease()
        return super().command(now, orders)


class Rested(Member):
    """N9 with a lease that does not run while the element stands still."""

    def tick(self, now: float) -> list[Any]:
        if now - self._deadline > self.limits.alone / 2:
            self._lease = Lease()
        return super().tick(now)


class Eager(Arbiter):
    """N9 without waiting for the lease: a death that nobody has seen counts as certain."""

    def died(self, now: float, element: int, how: str, confirmed: bool = True) -> list[Any]:
        return super().died(now, element, how)


class Exact(Arbiter):
    """N9 without regard to clocks that run apart."""

    def _lease(self) -> float:
        return self.limits.alone + self._allowed


class Early(Arbiter):
    """N16 without waiting for what an earlier bsprun has permitted."""

    def take_over(self, *what: Any) -> None:
        super().take_over(*what)
        self._permits_from = -float("inf")


class Ignorant(Arbiter):
    """N16 without asking who makes a call."""

    def report(self, now: float, report: AgentReport) -> list[Any]:
        clones = tuple(progress._replace(calls=False) for progress in report.clones)
        return super().report(now, replace(report, clones=clones))


class Trusting(Arbiter):
    """N16 without copies: values are acted on that one element has."""

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self._copies = Unneeded()


class Unneeded(Copies):
    """No value needs copies."""

    def lose(self, tokens: Any) -> None:
        pass


class Obedient(Member):
    """N16 without numbers and reigns: whatever bsprun said comes last is in force."""

    def command(self, now: float, orders: Orders) -> list[Any]:
        self._orders = self._orders and replace(self._orders, number=0)
        view = orders.view if self.element in orders.view.elements() else self.view
        self.view = replace(self.view, number=0)
        return super().command(now, replace(orders, view=replace(view, number=1)))


def packed(rows: Sequence[Sequence[int]], standbys: int, slots: Sequence[int], domains: Sequence[str]) -> list[int]:
    """N17 left out: clones of a bundle stand together, host by host."""
    order = sorted(range(len(rows)), key=lambda element: rows[element][0])
    found = [0] * (len(rows) + standbys)
    room = [host for host, number in enumerate(slots) for _ in range(number)]
    for element, host in zip([*order, *range(len(rows), len(found))], room, strict=False):
        found[element] = host
    return found


class Lengthy(Simulation):
    """Every call takes long."""

    def _calling(self) -> float:
        return self.schedule.call * self.rng.random()


def leased(seed: int, alone: float = 1.0, rounds: int = 6) -> Simulation:
    """Two clones of each bundle on three hosts; the host of a clone that calls is cut off, for ever.

    The elements' clocks are slow, and bsprun's is fast; bsprun sees at once that its connection has ended.
    """
    rng = random.Random(f"leased {seed}")
    script = SimulatedProgram(2, 0, ((rounds, 1),), 1, text=3, once=1)
    limits = Limits(hang_limit=2.0, linger=0.2, alone=alone, orphan=60.0)
    schedule = SimulatedRun(seed, script, 4, 0, 1, limits, step=0.05, slots=[2, 2, 2], harmless=True)
    schedule.call = 4 * alone
    run = Lengthy(schedule)
    host = run.nodes[rng.choice((0, 2))].host
    ways = ((host, OUTSIDE), (OUTSIDE, host))
    schedule.cuts = [Cut(0.1 + 4 * alone * rng.random(), ways, float("inf"), noticed=(host,))]
    run.clock = DriftingClock(1.045)
    for node in run.nodes:
        node.clock = DriftingClock(0.955, 5.0)
    return run


def long_leased(seed: int) -> Simulation:
    """The same with a longer lease, by which clocks are apart by more."""
    return leased(seed, 5.0, 1)


def delayed(seed: int) -> Simulation:
    """The same, and what bsprun sent before comes late."""
    run = leased(seed)
    (cut,) = run.schedule.cuts
    inward, outward = cut.ways
    slow = Cut(max(cut.when - 1.0, 0.0), (outward,), 30.0, late=2.0)
    run.schedule.cuts = [slow, cut._replace(when=cut.when + 0.2, ways=(inward,), noticed=())]
    return run


def frozen(seed: int) -> Simulation:
    """The same, but the host stands still for some seconds."""
    run = leased(seed)
    (cut,) = run.schedule.cuts
    run.schedule.cuts = []
    run.schedule.faults = [(cut.when, "host stops", cut.ways[0][0], 5.0)]
    return run


def succeeded(seed: int) -> Simulation:
    """The same, but bsprun dies at that time, and another takes over at once or after some seconds."""
    run = leased(seed)
    (cut,) = run.schedule.cuts
    rng = random.Random(f"succeeded {seed}")
    run.schedule.faults = [(cut.when, "bsprun dies", 0, rng.choice((0.05, 0.05, 3.0)))]
    run.schedule.cuts = [] if rng.random() < 0.7 else [cut._replace(noticed=())]
    return run


def beheaded(seed: int) -> SimulatedRun:
    """Two clones on three hosts, one three times as slow; bsprun's host is lost with the faster clone."""
    rng = random.Random(f"beheaded {seed}")
    script = SimulatedProgram(2, 0, ((20, 1),), 1, text=3, once=1)
    limits = Limits(hang_limit=2.0, linger=0.2, alone=0.7, orphan=60.0)
    schedule = SimulatedRun(seed, script, 4, 0, 1, limits, step=0.05, slots=[2, 2, 2], seat=0, harmless=True)
    schedule.faults = [(0.0, "slow", 2, 3.0), (0.2 + rng.random(), "host crashes", 0, 0.0)]
    return schedule


def superseded(seed: int) -> SimulatedRun:
    """A bsprun goes on after another one has taken over, and hosts are lost after that."""
    rng = random.Random(f"superseded {seed}")
    script = SimulatedProgram(2, 0, ((40, 1),), 1, text=3, once=5)
    limits = Limits(hang_limit=2.0, linger=0.2, alone=0.7, orphan=60.0)
    schedule = SimulatedRun(seed, script, 4, 2, 1, limits, step=0.05, slots=[3, 3, 3], harmless=True)
    schedule.faults = [(0.1 + rng.random(), "bsprun is superseded", 0, 10.0)]
    schedule.faults.append((1.2 + rng.random(), "host crashes", rng.randrange(3), 0.0))
    return schedule


def begun(drawn: SimulatedRun | Simulation) -> Simulation:
    """A run of what was drawn."""
    return drawn if isinstance(drawn, Simulation) else Simulation(drawn)


def harmed(run: Simulation) -> bool:
    """Something went wrong, or was healed at the price of a clone's state."""
    return bool(run.wrong) or any("kept by nobody" in str(fields) for _, _, fields in run.notes)


@cache
def survived(draw: Callable[[int], SimulatedRun | Simulation]) -> bool:
    """Whether the whole protocol survives all SEEDS of a kind of schedules unharmed; several rules are tried by one."""
    whole = [begun(draw(seed)) for seed in SEEDS]
    for run in whole:
        run.run()
    return not any(harmed(run) for run in whole)


SEEDS = range(48)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("broken", "draw"),
    [
        (Unasked, survivable), (Impatient, survivable), (Nameless, survivable), (Amnesiac, survivable),
        (Careless, survivable), (Forgetful, lossy), (Blind, joining), (Leaving, lonely), (Curt, lonely),
        (Credulous, protected_flip), (Incurious, pair_flip), (Hasty, one_flip), (Gullible, one_flip),
        (Startled, suspended), (Drowsy, suspended), (Ruthless, cramped), (Headless, joining), (Rash, exhausted),
        (Stubborn, stopped), (Reticent, stopped), (Evicting, changing),
        (Disinherited, orphaned), (Boastful, orphaned),
        (Clinging, leased), (Renewed, delayed), (Rested, frozen), (Eager, leased), (Exact, long_leased),
        (Early, succeeded), (Ignorant, succeeded), (Trusting, beheaded), (Obedient, superseded),
        (packed, hosts),
    ],
)  # fmt: skip
def test_the_simulation_sees_what_a_rule_prevents(
    broken: Any, draw: Callable[[int], SimulatedRun | Simulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protocol without the rule fails in a fixed range of schedules that the whole one survives unharmed."""
    assert survived(draw)
    if broken is packed:
        monkeypatch.setattr(simulation, "deal", packed)
    else:
        monkeypatch.setattr(simulation, "Arbiter" if issubclass(broken, Arbiter) else "Member", broken)
    if broken is Obedient:
        monkeypatch.setattr(Simulation, "_is_outdated", lambda run, node, reign: False)
    for seed in SEEDS:
        run = begun(draw(seed))
        run.run(until=60.0)
        if harmed(run):
            return
    pytest.fail(f"{broken.__name__} passed: {broken.__doc__}")


@pytest.mark.thorough
def test_elements_leave_without_a_round_lost_and_newcomers_take_their_places() -> None:
    """One clone of each process, and all elements are drained, some before others have come."""
    for seed in range(20):
        schedule = changing(seed)
        drains = {element for _, what, element, _ in schedule.faults if what == "drain"}
        run = ran(schedule)
        assert not run.wrong
        left = {fields["element"] for _, kind, fields in run.notes if kind == "left"}
        struck = {element for _, what, element, _ in schedule.faults if what in ("crash", "stop")}
        ended = next(when for when, kind, _ in run.notes if kind == "outcome")
        due = {element for when, what, element, _ in schedule.faults if what == "drain" and when < ended - 1.0}
        assert left <= drains
        assert due - struck - set(run.arbiter.dead) <= set(run.arbiter.leaving), f"seed {seed}"
    assert counted([ran(changing(seed)) for seed in range(20)])["left"] > 20


def test_an_effect_for_every_clone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """N9 without a holder: every clone that asks is given leave."""

    class Generous(Arbiter):
        def _once(self, element: int, bundle: int, token: Any, life: int, value: bytes | None) -> None:
            super()._once(element, bundle, token, life, value)
            if token not in self.once:
                self._effects.append(Reply(element, Once(bundle, token, None)))

    monkeypatch.setattr(simulation, "Arbiter", Generous)
    schedule = survivable(0)
    schedule.faults = []
    run = effects_of(schedule)
    assert max(run.called.values()) > 1


def test_the_simulation_checks_every_delivery() -> None:
    """A wrong packet is found where it is delivered, not only in the answer."""

    class Swapping(Simulation):
        def _to_worker(self, node: Any, element: int, effect: Any) -> None:
            if type(effect) is simulation.Deliver and element == 1 and effect.exchange == 3:
                source = next(iter(effect.packets))
                effect.packets[source] = BundlePacket(8, 1, 1)  # type: ignore[arg-type]
            super()._to_worker(node, element, effect)

    schedule = protected_flip(0)
    schedule.faults = []
    run = Swapping(schedule)
    run.run()
    assert "element 1 was given wrong packets in exchange 3" in run.wrong


def test_a_schedule_that_fails_prints_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failing seed is one command away."""
    monkeypatch.setattr(simulation, "Member", Nameless)
    assert command.main(["--kind", "survivable", "--seed", "7"]) == 1
    assert "replay: python -m bsp.faults.simulate --kind survivable --seed 7 --verbose" in capsys.readouterr().out


@pytest.mark.parametrize("count", ["0", "-3"])
def test_no_schedules_are_refused(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are no proof that none fails."""
    with pytest.raises(SystemExit) as ended:
        command.main(["--schedules", count])
    assert ended.value.code == 2 and f"--schedules {count}: 1 or more" in capsys.readouterr().err


def test_a_reader_that_leaves_ends_the_command_without_a_word() -> None:
    words = [sys.executable, "-m", "bsp.faults.simulate", "--schedules", "3", "--verbose"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_text_before_a_loss_is_right_too() -> None:
    """What was printed before the end of a job that is lost is a beginning of its text."""
    lost = [run for run in (ran(drawn(seed)) for seed in range(60)) if isinstance(run.outcome, simulation.Lost)]
    assert lost
    assert all(run.text.startswith(run.printed) for run in lost if not run.flipped)
