"""The phases of a clone: the table of transitions is the one in the documentation, and simulated jobs take them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_simulation import Held, exhausted, holding, raising, stopped

from bsp.faults.protocol.clones import phases, worker_state
from bsp.faults.protocol.clones.phases import TRANSITIONS, ClonePhase, WrongPhase, follow, table
from bsp.faults.protocol.clones.worker_state import WorkerState
from bsp.faults.simulate.schedules import changing, drawn, orphaned, survivable
from bsp.faults.simulate.simulation import Simulation

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "protocol.md"

# What takes two faults at once, or three in one superstep, which few schedules have.  Those into STOPPED are tried in
# test_member.py (N12).
RARE = {
    (ClonePhase.REPLAYING, ClonePhase.HELD), (ClonePhase.REPLAYING, ClonePhase.RAISED),
    (ClonePhase.REPLAYING, ClonePhase.ENDED), (ClonePhase.PAUSED, ClonePhase.HELD),
    (ClonePhase.PAUSED, ClonePhase.JUMPING), (ClonePhase.HELD, ClonePhase.REPLAYING),
    (ClonePhase.HELD, ClonePhase.PAUSED), (ClonePhase.HELD, ClonePhase.JUMPING),
    (ClonePhase.JUMPING, ClonePhase.HELD),
}  # fmt: skip


def test_the_documentation_shows_the_table() -> None:
    print(table())
    assert f"```text\n{table()}\n```\n" in PAGE.read_text()


def test_every_phase_can_be_reached_and_only_two_are_the_end() -> None:
    reached, new = set[ClonePhase](), {ClonePhase.JOINING}
    while new:
        reached |= new
        new = {after for phase in new for after in TRANSITIONS[phase]} - reached
    assert reached == set(ClonePhase) == set(TRANSITIONS)
    assert {phase for phase in ClonePhase if not TRANSITIONS[phase]} == {ClonePhase.ENDED, ClonePhase.STOPPED}


def test_a_wrong_transition_is_refused() -> None:
    with pytest.raises(WrongPhase, match="a clone that is ended cannot be waiting next"):
        follow(ClonePhase.ENDED, ClonePhase.WAITING)
    worker = WorkerState(now=0.0)
    with pytest.raises(WrongPhase, match="a clone that is joining cannot be held next"):
        worker.enter(ClonePhase.HELD)
    assert worker.phase is ClonePhase.JOINING


def runs() -> Iterator[Simulation]:
    """Jobs under all kinds of faults."""
    for seed in range(1000, 1025):
        for draw in (drawn, survivable, changing, orphaned):
            yield Simulation(draw(seed))
    for seed in range(6):
        yield exhausted(seed)
        yield stopped(seed)
        yield Held(*holding(seed))


@pytest.mark.thorough
def test_simulated_jobs_take_every_transition_but_rare_ones_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other: WrongPhase would end the run."""
    seen = set[tuple[ClonePhase, ClonePhase]]()

    def noted(present: ClonePhase, new: ClonePhase) -> ClonePhase:
        seen.add((present, new))
        return phases.follow(present, new)

    monkeypatch.setattr(worker_state, "follow", noted)
    for run in runs():
        run.run()
        assert not run.wrong, f"{run.schedule.seed}: {run.wrong}"
    for seed in range(6):
        raising(seed, alike=True)
    known = {(phase, after) for phase, some in TRANSITIONS.items() for after in some}
    assert {pair for pair in known - seen if pair[1] is not ClonePhase.STOPPED} <= RARE
