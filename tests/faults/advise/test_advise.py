"""What `bsp advise` chooses, that its prices hold in counted rounds, and what it says."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bsp.command.bsprun import bsprun
from bsp.command.tool import bsp
from bsp.faults.advise import models
from bsp.faults.advise.command import Advice, advise
from bsp.faults.advise.estimate import RoundTimes, estimate
from bsp.faults.advise.intervals import checkpoint_interval, slowdown
from bsp.faults.advise.plans import Option, ways
from bsp.faults.bsprun.job import Resilience
from bsp.faults.protocol.domains import deal
from bsp.faults.protocol.placement import place
from bsp.faults.simulate.counting import Setting, count


def cloned(advice: Advice) -> Option:
    plan = advice.plan("clone")
    assert plan is not None
    return plan


# --------------------------------------------------------------------------- the choice


def test_a_quiet_machine_is_not_cloned() -> None:
    found = advise(8, 1000, 1.0, mtbf_hours=50_000, D=math.inf, checkpoint_seconds=10)
    assert not found.clone and found.choice.way == "nothing" and found.choice.time < 1.001
    assert found.headline().startswith("do not clone")


def test_a_long_job_on_a_fair_machine_is_checkpointed() -> None:
    found = advise(1000, 100_000, 10.0, mtbf_hours=5000, checkpoint_seconds=60, availability=0)
    assert found.choice.way == "checkpoint" and found.reason() == "the cheapest way; there is no target"
    ideal = checkpoint_interval(60, 5 * 3600)
    assert found.choice.interval_seconds == pytest.approx(ideal, rel=0.01, abs=0)
    assert found.choice.time == pytest.approx(slowdown(60, 5 * 3600, 60), rel=1e-3, abs=0)


@pytest.mark.parametrize(("hours", "way"), [(253 * 0.8, "clone"), (253 * 1.25, "checkpoint")])
def test_the_choice_turns_at_the_crash_crossover(hours: float, way: str) -> None:
    """Reference formula 8: 2000 elements, C = 60 s, two clones of 1000 processes below 253 h of element MTBF."""
    found = advise(2000, 20_000, 1.0, mtbf_hours=hours, checkpoint_seconds=60, elements=2150, availability=0.9)
    assert min(found.plans, key=lambda plan: plan.time).way == way  # whatever the target
    # without room for standbys every crash costs a pause, and clones do not pay here
    full = advise(2000, 20_000, 1.0, mtbf_hours=hours, checkpoint_seconds=60, elements=2000, availability=0.9)
    assert min(full.plans, key=lambda plan: plan.time).way == "checkpoint"
    assert "below an element MTBF of 253 h" in full.text()


@pytest.mark.parametrize(("D", "clones"), [(5.5, True), (6.6, False)])
def test_the_choice_turns_at_the_tail_crossover(D: float, clones: bool) -> None:
    """Reference formula 6: 6.06 for 1000 elements and two clones."""
    found = advise(1000, 1000, 1.0, D=D, elements=1000)
    assert found.clone == clones
    assert found.plan("nothing").time == pytest.approx(models.expected_maximum(1000, D), rel=1e-12, abs=0)  # type: ignore[union-attr]
    assert min(1.0, cloned(found).time / found.plan("nothing").time) == pytest.approx(  # type: ignore[union-attr]
        min(1.0, models.cloning_factor(1000, cloned(found).clones, D)), rel=1e-9, abs=0
    )


def test_idle_elements_make_clones_free() -> None:
    """A budget of twice the processes: the same tails that do not pay for clones when they are bought."""
    assert advise(100, 1000, 1.0, D=5, elements=200).clone
    assert not advise(100, 1000, 1.0, D=5).clone


def test_a_tail_without_a_mean_is_cloned() -> None:
    found = advise(8, 1000, 1.0, D=0.8)
    assert found.clone and cloned(found).clones >= 2
    assert found.plan("nothing").seconds == math.inf  # type: ignore[union-attr]


def test_a_higher_target_never_takes_fewer_clones_and_more_risk() -> None:
    plans = [
        cloned(advise(100, 100_000, 1.0, mtbf_hours=1000, availability=target))
        for target in (0.9, 0.999, 0.99999, 0.9999999)
    ]
    assert [plan.clones for plan in plans] == sorted(plan.clones for plan in plans)
    assert [plan.loss for plan in plans] == sorted((plan.loss for plan in plans), reverse=True)


def test_standbys_are_the_quantile_of_the_run() -> None:
    plan = cloned(advise(50, 10_000, 1.0, mtbf_hours=1000, availability=0.999))
    lost = -math.expm1(-plan.seconds / 3_600_000)
    assert plan.standby == plan.standby_wanted == models.standby_level(100, lost, 0.999)
    assert plan.elements == 100 + plan.standby and plan.pauses == 0


def test_a_budget_without_room_for_a_clone_or_standbys_says_so() -> None:
    assert "elements hold no second clone" in advise(4, 10, 1.0, D=2, elements=1).text()
    tight = advise(64, 100_000, 1.0, mtbf_hours=100, availability=0.99, checkpoint_seconds=300, elements=128)
    assert cloned(tight).elements <= 128
    if cloned(tight).standby < cloned(tight).standby_wanted:
        assert "the job pauses about" in tight.text()


def test_vertical_clones_are_weighed_where_their_copy_has_a_price() -> None:
    """HC = 1, VC = 2 on the same elements: crashes survived for a copy a round."""
    without = advise(64, 3600, 10.0, mtbf_hours=500, checkpoint_seconds=300, availability=0.999, elements=70)
    given = advise(
        64, 3600, 10.0, mtbf_hours=500, checkpoint_seconds=300, availability=0.999, elements=70, copy_seconds=0.01
    )
    assert cloned(given).vertical == 2 and cloned(given).clones == 1
    assert cloned(given).time < cloned(without).time


def test_of_the_ways_that_meet_the_target_the_cheapest_is_chosen_and_the_reason_told() -> None:
    """McColl 1.8.5, and the head of `advise`: a cheaper way that misses the target is no choice, unless all do."""
    asked: Any = {"mtbf_hours": 500, "D": 4, "checkpoint_seconds": 20}
    found = advise(64, 10_000, 2.0, **asked)
    assert found.clone and found.choice.reaches(0.9999) and found.choice.cost > found.plan("checkpoint").cost  # type: ignore[union-attr]
    assert found.reason().startswith("the cheapest way that meets the target; 'no clones, checkpoints' costs 0.91 ")
    free = advise(64, 10_000, 2.0, **asked, availability=0)
    assert free.choice == found.plan("checkpoint") and free.plans == found.plans
    assert "no target\n" in free.text() and "misses the target" not in free.text()
    fixed = advise(64, 10_000, 2.0, **asked, elements=139)
    assert fixed.clone and fixed.reason() == "the fastest way, and it meets the target"


def test_what_cannot_be_reached_is_not_recommended() -> None:
    found = advise(1000, 10**7, 10.0, mtbf_hours=0.1, availability=0.999999, checkpoint_seconds=1e-3)
    assert not found.reached and not found.clone
    assert found.reason() == "no way reaches the target here, and this is the cheapest"
    assert "reaches the target" in found.text()


# ------------------------------------------------------------ the prices, in counted rounds


@pytest.mark.parametrize(("D", "mtbf_hours"), [(3.0, 0.05), (4.0, 1.0), (2.0, 0.2)])
def test_the_loss_and_the_time_hold_in_counted_rounds(D: float, mtbf_hours: float) -> None:
    """Within 99.9 %: of 3000 runs as many lose a round as it says, and their rounds take as long."""
    found = advise(10, 50, 1.0, availability=0.9, mtbf_hours=mtbf_hours, D=D, relaunch_seconds=0)
    plan = cloned(found)
    mean = RoundTimes(D).mean_of_maximum(10, plan.clones)
    crash = -math.expm1(-mean / 3600 / mtbf_hours)
    setting = Setting(10, 10 * plan.clones, 50, RoundTimes(D), limit=plan.tail_limit or 0, crash=crash, away=1)
    counts = count(setting, np.random.default_rng(31), 3000)
    interval = stats.binomtest(int((counts.first_lost >= 0).sum()), 3000).proportion_ci(0.999)
    assert interval.low <= plan.loss <= interval.high
    if plan.tail_limit and plan.tail_limit > 3:
        assert plan.loss == pytest.approx(0.1, rel=1e-6, abs=0)
    # a clone that is away leaves a bundle to the others: at most that much longer
    times = counts.times.ravel()
    error = 3.29 * times.std() / math.sqrt(times.size)
    single = RoundTimes(D).mean_of_maximum(10, 1)
    assert mean - error <= times.mean() <= mean + error + 10 * plan.clones * crash * (single - mean)


def test_marks_hold_in_counted_rounds() -> None:
    plan = cloned(advise(10, 20, 1.0, availability=0.5, D=2.0))
    setting = Setting(10, 10 * plan.clones, 20, RoundTimes(2.0), limit=plan.tail_limit or 0)
    marks = count(setting, np.random.default_rng(32), 3000).marks / 20
    assert abs(marks.mean() - plan.marks_per_round) < 3.29 * marks.std() / math.sqrt(3000)


def test_the_cost_is_below_mccolls_bound() -> None:
    """1.8.5: at most T·HC·Perfect, where no pool and no pause is counted."""
    for D in (1.5, 3.0, 8.0):
        plan = cloned(advise(64, 1000, 1.0, D=D))
        assert plan.bound is not None and plan.cost <= plan.bound


# -------------------------------------------------------------------------- measured tails


def test_measured_times_stand_in_for_d() -> None:
    times = np.random.default_rng(33).pareto(3, 5000) + 1
    found = advise(16, 1000, 1.0, estimate=estimate(times), elements=32)
    assert pytest.approx(3, rel=0.1, abs=0) == found.D
    assert "a power law is not refused" in found.text()
    lumpy = np.random.default_rng(34).choice([1.0, 1.1, 6.0], 5000, p=[0.6, 0.3, 0.1])
    found = advise(16, 1000, 1.0, estimate=estimate(lumpy), elements=32)
    assert found.D is None and cloned(found).tail_limit == 6
    assert "beyond every time that was measured" in found.text() and "as measured" in found.text()


# ------------------------------------------------------------------------------- what it says


PINNED = """\
64 processes, 10000 rounds of 2 s: 5.56 h without faults or tails; target 0.9999 that no round is lost

advice: clone: --clones 2 --standby 5 --tail-limit 17.2
reason: the cheapest way that meets the target; 'no clones, checkpoints' costs 0.94 times as much and misses it \
(--availability 0: no target)

                           elements      time  /perfect    cost   P[a round is lost]
   no clones, begin again        64    26.7 h     4.804   4.804   0.46  misses the target
   no clones, checkpoints        64    19.9 h     3.589   3.589   0.47  misses the target
-> clone HC=2 VC=1 S=5          133    10.2 h     1.834   3.812   0.0001

- clones: 64 bundles x 2 elements + 5 standbys
- TailLimit T = 17.2 x MinTime, 0.0015 healthy clones a round marked; cost at most T·HC = 34.35 x perfect
- checkpoints: one every 60.9 min of work, 0.64 returns to one expected

- on any 64 elements, all used either way, two clones pay for tails alone below D = 4.16
- on any 64 elements, all used either way, two clones pay for crashes alone below an element MTBF of 8.09 h \
(every 7.59 checkpoint times a crash)

assumed:
- clones of a bundle stand in failure domains of their own (no shared node, power supply or switch)
- elements crash independently, each every 2000 h on average, at any age; a standby takes over within 1 s
- a standby, or a free slot for an element started anew; what is lost does not come back during the run
- a job that lost a bundle, or a crashed one without clones, is back in 60 s
- tails: every round and element drawn anew, a share t^-4 takes longer than t·MinTime
- processes are balanced, and clones add no traffic to what one of each sends
"""


def test_the_text() -> None:
    found = advise(64, 10_000, 2.0, mtbf_hours=2000, D=4, checkpoint_seconds=60)
    assert found.text() == PINNED


def test_json_says_the_same_and_holds_no_infinity() -> None:
    found = advise(8, 1000, 1.0, D=0.8)
    read = json.loads(found.to_json())
    assert read["choice"]["clones"] == found.choice.clones and read["headline"] == found.headline()
    assert read["plans"][0]["seconds"] is None and read["job"]["mtbf_hours"] is None
    assert "never" in found.text() and "no crashes, for want of an MTBF" in found.text()


@pytest.mark.parametrize("availability", [0, 0.9999])
def test_a_job_that_no_way_ends_is_not_recommended(availability: float) -> None:
    found = advise(64, 1000, 1.0, mtbf_hours=100, D=0.1, availability=availability)
    assert found.headline().startswith("do not run it so")
    assert found.reason() == "none of these ways is expected to end within a century"
    assert not advise(64, 1000, 1.0, mtbf_hours=100, D=0.3, availability=availability).never


# -------------------------------------------------------------------------------- the command


COMMON = ["advise", "-p", "64", "--rounds", "10000", "--round-seconds", "2"]


def test_the_command_prints_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert bsp([*COMMON, "--mtbf", "2000", "--predictability", "4", "--checkpoint-seconds", "60"]) == 0
    assert capsys.readouterr().out == PINNED


def test_the_command_reads_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "times.jsonl"
    rows = np.random.default_rng(35).pareto(3, (500, 4)) + 1
    file.write_text("".join(json.dumps(row) + "\n" for row in rows.tolist()))
    assert bsp([*COMMON, "--times", str(file), "--elements", "128", "--json"]) == 0
    assert abs(json.loads(capsys.readouterr().out)["D"] - 3) < 0.5


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--availability", "1"], "availability is 1; give a probability such as 0.9999"),
        (["--elements", "0"], "advise: 0 elements; give 1 or more"),
        (["-p", "0"], "advise: 0 processes; give 1 or more"),
        (["-p", "2000000000"], "advise: 2000000000 processes; give 1 or more, up to 1e+08"),
        (["--rounds", "9" * 400], "rounds; give 1 or more, up to 1e+18"),
        (["--times", "missing"], "error: 'missing': No such file or directory"),
        (["--mtbf", "-1"], "mtbf_hours is -1; give a time above 0"),
        (["--predictability", "0"], "D is 0; a tail exponent is above 0"),
        (["--times", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--relaunch-seconds", "nan"], "relaunch_seconds is nan; give a time, 0 or more"),
    ],
)
def test_wrong_questions_are_answered_in_one_line(
    more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bsp([*COMMON, *more]) == 2
    said = capsys.readouterr().err
    assert said.startswith("bsp advise: error: ") and said.count("\n") == 1 and says in said


def test_d_and_times_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="both D and an estimate"):
        advise(2, 2, 1.0, D=2, estimate=estimate([1.0, 2.0]))
    with pytest.raises(SystemExit):
        bsp([*COMMON, "--predictability", "2", "--times", "x"])


# -------------------------------------------------------------------- bsprun --resilience auto


Ran = Callable[..., tuple[Resilience | None, str]]


@pytest.fixture
def auto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    """What `bsprun --resilience auto ...` would run, None for the plain engine, and what it says; 2 elements."""
    script = tmp_path / "program.py"
    script.write_text("import bsp\nprint(bsp.process().nprocs)\n")

    def ran(*more: object) -> tuple[Resilience | None, str]:
        engines: list[Resilience | None] = []
        monkeypatch.setattr("bsp.command.bsprun.start", lambda job: engines.append(None) or 0)
        monkeypatch.setattr("bsp.faults.bsprun.nonstop.run", lambda job, asked: engines.append(asked) or 0)
        assert bsprun(["-p", "2", "-n", "2", "--resilience", "auto", *map(str, more), str(script)]) == 0
        said = capsys.readouterr().err
        assert len(engines) == 1 and said.startswith("bsprun: --resilience auto: ") and said.count("\n") == 1
        return engines[0], said

    return ran


def test_where_nothing_pays_the_plain_engine_runs(auto: Ran) -> None:
    engine, said = auto("--mtbf", 50_000, "--rounds", 100)
    assert engine is None and "no clones, begin again" in said and "the plain engine runs it" in said


def test_what_only_the_nonstop_engine_can_do_keeps_it(auto: Ran, tmp_path: Path) -> None:
    for more in (["--events", tmp_path / "log"], ["--hang-limit", 5], ["--standby", 1], ["--checkpoint", tmp_path]):
        engine, said = auto("--mtbf", 50_000, *more)
        assert engine is not None and engine.clones == 1 and "plain" not in said


def test_a_target_that_only_clones_reach_is_cloned(auto: Ran) -> None:
    engine, said = auto("--mtbf", 50, "--availability", 0.9999)
    assert engine is not None and engine.clones >= 2 and f"clone HC={engine.clones:g}" in said


@pytest.mark.parametrize("mtbf", [0.5, 50, 50_000])
def test_every_follows_the_advice(auto: Ran, tmp_path: Path, mtbf: float) -> None:
    """Rounds of 2 s and checkpoints of 4: as many rounds as `bsp advise` has seconds of work, all if it never pays."""
    found = advise(2, 5000, 2.0, mtbf_hours=mtbf, checkpoint_seconds=4).plan("checkpoint")
    assert found is not None and found.interval_seconds is not None and found.interval_rounds is not None
    assert abs(found.interval_rounds - found.interval_seconds / 2) <= 0.5
    job = ["--mtbf", mtbf, "--rounds", 5000, "--round-seconds", 2, "--checkpoint", tmp_path, "--checkpoint-seconds", 4]
    job += ["--availability", 0]  # no target: else clones are taken for it
    engine, said = auto(*job)
    assert engine is not None and engine.limits.every == found.interval_rounds
    assert said.endswith(
        f"no clones, checkpoints; P[a round is lost] = {found.loss:.2g}; --every {engine.limits.every}\n"
    )
    own, said = auto(*job, "--every", 7)
    assert own is not None and own.limits.every == 7 and "--every" not in said


def test_every_stays_where_the_advice_is_not_about_it(auto: Ran, tmp_path: Path) -> None:
    engine, said = auto("--mtbf", 50, "--checkpoint", tmp_path, "--availability", 0)
    assert engine is not None and engine.limits.every == 100 and "--every 100, for want of --checkpoint-seconds" in said
    cloned, said = auto("--mtbf", 50, "--checkpoint", tmp_path, "--checkpoint-seconds", 4, "--clones", 2)
    assert cloned is not None and cloned.limits.every == 100 and "--every" not in said


def test_checkpoints_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bsprun(["-p", "2", "--resilience", "auto", "--mtbf", "50", "--checkpoint-seconds", "4", __file__])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "bsprun: error: --checkpoint-seconds: say where checkpoints go, too (--checkpoint DIR)\n"
    )


@pytest.mark.parametrize(("processes", "slots", "clones"), [(8, 4, 2), (12, 3, 2), (6, 2, 3), (5, 4, 2), (4, 8, 2)])
def test_hosts_are_lost_with_all_that_they_carry(processes: int, slots: int, clones: int) -> None:
    """Against the sum over all sets of hosts that may be lost in a round, with the clones where bsprun deals them."""
    mtbf_hours, rounds = 100.0, 400
    found = advise(processes, rounds, 60.0, availability=0.9, mtbf_hours=mtbf_hours, slots=slots, relaunch_seconds=0.0)
    (plan,) = [each for each in ways(found.job, None)[1] if (each.clones, each.vertical) == (clones, 1)]
    rows = place(processes, processes * clones, 1)
    hosts = max(clones, -(-len(rows) // slots))
    dealt = deal(rows, 0, [slots] * hosts, [str(host) for host in range(hosts)])
    q = -math.expm1(-60.0 / (mtbf_hours * 3600))
    fatal = 0.0
    for lost in itertools.chain.from_iterable(itertools.combinations(range(hosts), k) for k in range(hosts + 1)):
        if any(all(dealt[b + r * processes] in lost for r in range(clones)) for b in range(processes)):
            fatal += q ** len(lost) * (1 - q) ** (hosts - len(lost))
    expected = -math.expm1(rounds * math.log1p(-fatal))
    assert plan.loss == pytest.approx(expected, rel=2e-3)
    alone = advise(processes, rounds, 60.0, availability=0.9, mtbf_hours=mtbf_hours, relaunch_seconds=0.0)
    (single,) = [each for each in ways(alone.job, None)[1] if (each.clones, each.vertical) == (clones, 1)]
    assert plan.loss < single.loss * (1 + 1e-9)
    assert plan.standby % slots == 0


def test_clones_that_share_a_host_are_not_offered() -> None:
    found = advise(4, 100, 1.0, mtbf_hours=10.0, slots=8, elements=8)
    assert found.plan("clone") is None
    with pytest.raises(ValueError, match="0 elements on a host; give 1 or more"):
        advise(4, 100, 1.0, slots=0)


def test_only_advise_loads_the_faults_package() -> None:
    """`bsp` imports nothing of the other packages; the command names it only when asked."""
    code = (
        "import sys; from bsp.command.tool import bsp; bsp([]); "
        "sys.exit(any(name.startswith('bsp.faults') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0
