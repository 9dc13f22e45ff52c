"""Monte Carlo counts of cloned rounds, and of runs by time; the oracle that the models of `advise` are tested against.

There is no protocol here and no message (`simulation` has both): only how long each element computes, which elements
are present, and which clone serves.  Arrays over (trials, clones, bundles) and one loop over rounds keep 10,000
elements cheap.  Bundle b is on elements b, b + n, b + 2n, ...; its clone i is element b + i·n.

A round (McColl 1.8.2, as hardened in the design, section 7):
1. Every element that is present computes for MinTime·X, X drawn from the tail.  With several vertical attempts they run
   one after the other, each given up at the TailLimit.
2. First come serves: a bundle is done with its first clone, and the round with its last bundle (N1).
3. A clone later than TailLimit·MinTime is marked.  If all clones of a bundle are marked or gone, the bundle is lost in
   this round.  The loss is counted, and the round goes on without limit (N5) and without the elements that are gone.
4. An element dies in a round with probability `crash`, and then serves nothing in it.  A standby replaces it after
   `away` rounds, including that one, or at the next refresh.
5. With `wait` all elements begin the next round together.  Without it a late clone begins it late; a clone that is
still
   computing when the following round has been served by others is more than one round behind, and jumps to it (N6).

Checkpoints, refreshes and detectors are not counted in rounds.  The functions for them, at the end, go from one failure
to the next: every element has a random lifetime, and a clock passes over work, its upkeep, and what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bsp.faults.advise.estimate import RoundTimes

_NEVER = np.iinfo(np.int32).max
_CHUNK = 2_000_000  # random numbers drawn at a time, to bound the memory


@dataclass(frozen=True)
class Setting:
    """Input of `count`: bundles, elements, rounds, and faults.  Times are in units of MinTime."""

    bundles: int
    elements: int
    rounds: int
    tail: RoundTimes
    limit: float = float("inf")
    min_time: Literal["known", "measured"] = "known"  # 1, or the least time of the first row in each round
    attempts: int = 1  # vertical: one after the other on an element
    relaunch: float = 0.0  # time that each further attempt costs
    crash: float = 0.0  # probability that an element dies in a round
    away: int | None = 1  # rounds until a standby replaces a dead element; None: never
    refresh: int | None = None  # rounds between refreshes, which restore all elements; None: no refresh
    wait: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.bundles <= self.elements or self.rounds < 1:
            raise ValueError(
                f"Setting: {self.bundles} bundles on {self.elements} elements for {self.rounds} rounds;"
                " needs an element for each bundle and a round"
            )
        if not self.limit >= 1 or not 0 <= self.crash <= 1 or not self.relaunch >= 0:
            raise ValueError(
                f"Setting: limit {self.limit:g}, crash {self.crash:g}, relaunch {self.relaunch:g};"
                " needs limit >= 1, a probability, and a time"
            )
        if min(number for number in (self.attempts, self.away, self.refresh) if number is not None) < 1:
            raise ValueError("Setting: attempts, away and refresh are whole numbers, 1 or more")
        if self.attempts > 1 and self.min_time == "measured":
            raise ValueError("Setting: attempts are given up at TailLimit·MinTime, so min_time must be 'known'")


@dataclass(frozen=True)
class Tally:
    """Result of `count`: arrays with one entry per trial, `times` with one row per trial."""

    times: np.ndarray  # (trials, rounds): how long each round took; 0 if every bundle was gone
    lost_rounds: np.ndarray  # rounds that lost a bundle
    lost_bundles: np.ndarray  # bundles lost, summed over rounds
    first_lost: np.ndarray  # the first round that lost a bundle, -1 if none
    marks: np.ndarray  # clones later than the TailLimit, summed over rounds
    crashes: np.ndarray  # elements that died
    jumps: np.ndarray  # rounds skipped by clones more than one round behind
    spent: np.ndarray  # element time computing, in units of MinTime


def count(setting: Setting, rng: np.random.Generator, trials: int = 1) -> Tally:
    """Simulate `trials` independent runs of `setting`; return the times and the counts of losses, marks and crashes."""
    n, rounds = setting.bundles, setting.rounds
    clones = -(-setting.elements // n)
    shape = (trials, clones, n)
    real = (np.arange(clones * n) < setting.elements).reshape(clones, n)  # the last row may be short
    back = np.zeros(shape, dtype=np.int64)  # the round from which on an element is present
    free = np.zeros(shape)  # the time at which an element has finished computing
    head = np.zeros(trials)  # the time at which the round begins
    times = np.zeros((trials, rounds))
    first = np.full(trials, -1)
    lost_rounds, lost_bundles, marks, crashes, jumps = (np.zeros(trials, dtype=np.int64) for _ in range(5))
    spent = np.zeros(trials)
    for now in range(rounds):
        if setting.refresh is not None and now % setting.refresh == 0:
            back[:] = 0
        there = real & (back <= now)
        dies = there & (rng.random(shape) < setting.crash) if setting.crash else np.zeros(shape, dtype=bool)
        back[dies] = _NEVER if setting.away is None else now + setting.away
        serves = there & ~dies
        work, late = _compute(setting, rng, serves)
        begun = np.maximum(free, head[:, None, None]) if not setting.wait else head[:, None, None]
        finish = np.where(serves, begun + work, np.inf)
        done = finish.min(axis=1)  # (trials, bundles)
        # the round ends with its last bundle that some clone serves; if there is none it takes no time
        served = np.where(np.isfinite(done), done, -np.inf).max(axis=1, initial=-np.inf)
        served = np.where(np.isfinite(served), served, head)
        # N6: an element still at an earlier round when this one has been served leaves it out
        behind = (free > served[:, None, None]) & serves if not setting.wait else np.zeros(shape, dtype=bool)
        ran = serves & ~behind
        lost = ~(ran & ~late).any(axis=1)
        if not setting.wait:
            # an element that leaves the round out stays busy as before; an absent one is idle when it returns
            free = np.where(ran, finish, np.where(serves | ~real, free, head[:, None, None]))
        times[:, now] = served - head
        head = served
        lost_rounds += lost.any(axis=1)
        lost_bundles += lost.sum(axis=1)
        first = np.where((first < 0) & lost.any(axis=1), now, first)
        marks += (late & ran).sum(axis=(1, 2))
        crashes += dies.sum(axis=(1, 2))
        jumps += behind.sum(axis=(1, 2))
        spent += np.where(ran, work, 0.0).sum(axis=(1, 2))
    return Tally(times, lost_rounds, lost_bundles, first, marks, crashes, jumps, spent)


def _compute(setting: Setting, rng: np.random.Generator, serves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how long each element computes in one round, and whether it is later than the TailLimit.

    serves : the elements that set MinTime if it is measured; shape (trials, clones, bundles), as both results.
    """
    work = setting.tail.draw(rng, serves.shape)
    if setting.min_time == "measured":
        # the first row alone sets MinTime; if none of it is present, no clone is late in this round
        least = np.where(serves[:, 0], work[:, 0], np.inf).min(axis=1)[:, None, None]
        return work, work > setting.limit * least
    late = work > setting.limit
    given_up = np.zeros(serves.shape)
    for _ in range(setting.attempts - 1):
        given_up[late] += setting.limit + setting.relaunch
        work[late] = setting.tail.draw(rng, (int(late.sum()),))
        late = work > setting.limit
    return given_up + work, late


def survivals(
    bundles: int,
    elements: int,
    faults: int,
    trials: int,
    rng: np.random.Generator,
    laid: Literal["combined", "disjoint"] = "combined",
) -> int:
    """Return how many of `trials` random rounds survive the failure of exactly `faults` elements.

    combined : a round survives if every bundle keeps a clone (element e holds one of bundle e mod bundles).
    disjoint : a round survives if one of the copies of the job keeps all its elements (each `bundles` elements in a row
    are a copy).
    """
    if not 1 <= bundles <= elements or not 0 <= faults <= elements or trials < 1:
        raise ValueError(
            f"survivals: {faults} faults among {elements} elements of {bundles} bundles, {trials} trials;"
            " needs faults <= elements >= bundles >= 1, and a trial"
        )
    if laid == "disjoint" and elements % bundles:
        raise ValueError(f"survivals: {elements} elements are no whole number of copies of {bundles} bundles")
    by = np.arange(elements) % bundles if laid == "combined" else np.arange(elements) // bundles
    kept = 0
    for begin in range(0, trials, max(1, _CHUNK // elements)):
        some = min(max(1, _CHUNK // elements), trials - begin)
        order = rng.random((some, elements)).argpartition(max(faults - 1, 0), axis=1)[:, :faults]
        hit = np.zeros((some, by.max() + 1), dtype=np.int64)
        np.add.at(hit, (np.arange(some)[:, None], by[order]), 1)
        kept += int(((hit < np.bincount(by)).all(axis=1) if laid == "combined" else (hit == 0).any(axis=1)).sum())
    return kept


# -------------------------------------------------------------- runs by time, failure by failure


@dataclass(frozen=True)
class Runs:
    """The time of each run, and its parts; arrays with one entry per trial."""

    time: np.ndarray  # from begin to end
    lost: np.ndarray  # part of `time`: work and upkeep that had to be done again
    restarts: np.ndarray  # part of `time`: restarts, including those that failed themselves
    rollbacks: np.ndarray  # number of times the run went back, also from within a restart


def checkpointed(
    segments: int,
    work: float,
    checkpoint: float,
    mtbf: float,
    restart: float,
    rng: np.random.Generator,
    trials: int,
    elements: int = 1,
) -> Runs:
    """Simulate `trials` jobs of `segments` times `work`, each followed by a checkpoint, on elements that fail.

    mtbf : of one element; a failed element is replaced by a new one at once.
    A failure at any moment, in work, checkpoint or restart, costs all time since the last complete checkpoint, and a
    restart from there.
    """
    fails = rng.exponential(mtbf, (trials, elements))  # the time at which each element fails next
    clock, lost, restarts = (np.zeros(trials) for _ in range(3))
    done, rollbacks = (np.zeros(trials, dtype=np.int64) for _ in range(2))
    back = np.zeros(trials, dtype=bool)  # whether the trial is in a restart
    going = np.arange(trials)
    while going.size:
        who = fails[going].argmin(axis=1)
        failure = fails[going, who]
        begun, returning = clock[going], back[going]
        end = begun + np.where(returning, restart, work + checkpoint)
        struck = failure < end
        end = np.where(struck, failure, end)
        fails[going[struck], who[struck]] += rng.exponential(mtbf, int(struck.sum()))
        clock[going] = end
        restarts[going] += np.where(returning, end - begun, 0.0)
        lost[going] += np.where(struck & ~returning, end - begun, 0.0)
        rollbacks[going] += struck
        done[going] += ~struck & ~returning
        back[going] = struck
        going = going[done[going] < segments]
    return Runs(clock, lost, restarts, rollbacks)


def refreshed(
    periods: int,
    interval: float,
    cost: float,
    groups: int,
    clones: int,
    mtbf: float,
    rng: np.random.Generator,
    trials: int,
    at_once: bool = True,
) -> Runs:
    """Simulate `trials` jobs of `periods` times `interval` of work, each followed by a refresh of all clones.

    cost : of a refresh.  mtbf : of one element.
    A group that loses all its clones between two refreshes costs all time since the last one.  The loss is noticed when
    the last clone fails (`at_once`), or when the refresh ends.  Going back takes no time.
    """
    fails = rng.exponential(mtbf, (trials, clones, groups))
    clock, lost = np.zeros(trials), np.zeros(trials)
    done, rollbacks = (np.zeros(trials, dtype=np.int64) for _ in range(2))
    going = np.arange(trials)
    while going.size:
        lives = fails[going]
        gone = lives.max(axis=1).min(axis=1)  # the first group to have lost its last clone
        begun = clock[going]
        end = begun + interval + cost
        struck = gone < end
        end = np.where(struck, gone, end) if at_once else end
        dead = lives <= end[:, None, None]
        lives[dead] = np.broadcast_to(end[:, None, None], lives.shape)[dead] + rng.exponential(mtbf, int(dead.sum()))
        fails[going] = lives
        clock[going] = end
        lost[going] += np.where(struck, end - begun, 0.0)
        rollbacks[going] += struck
        done[going] += ~struck
        going = going[done[going] < periods]
    return Runs(clock, lost, np.zeros(trials), rollbacks)


def detections(
    limit: float, look: float, tail: RoundTimes, hung: float, rng: np.random.Generator, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate a detector on `rounds` rounds of one element.

    Returns two arrays: how long it had waited at each alarm, and whether that alarm was false.

    look : the time between two looks of the detector, which are not in step with the rounds.
    hung : the probability that the element hangs in a round; otherwise it takes as long as the tail says.
    The detector gives up an element that is still at work at its first look later than `limit`.
    """
    hangs = rng.random(rounds) < hung
    takes = np.where(hangs, np.inf, tail.draw(rng, (rounds,)))
    seen = limit + look * rng.random(rounds)  # the first look beyond the limit
    given_up = takes > seen
    return seen[given_up], ~hangs[given_up]
