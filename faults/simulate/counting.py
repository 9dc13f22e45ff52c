"""Cloned rounds by the thousand, for counting, and runs by time: what the models are held against.

No protocol and no messages (`simulation` has those): only how long each element computes, which elements
are there, and which clone serves.  Arrays over (trials, clones, bundles) and a loop over rounds, so that
10,000 elements are cheap.  Bundle b is on elements b, b + n, b + 2n, ...; clone i of it is element b + i·n.

A round, McColl 1.8.2 as hardened in the design (section 7):
1. Every element that is there computes for MinTime·X, X from the tail; in vertical attempts, one after the
   other, each given up at the TailLimit, if there are more than one.
2. First come serves: a bundle is done with its first clone, the round with its last bundle (N1).
3. A clone later than TailLimit·MinTime is marked.  A bundle all of whose clones are marked or gone is lost
   in this round; it is counted, and the round goes on without limit (N5) and without the gone.
4. An element dies in a round with probability `crash` and serves nothing in it; a standby stands in after
   `away` rounds, that one included, or at the next refresh.
5. With `wait` all begin the next round together.  Without, a late clone begins it late, and one that is still
   computing when the following round is served by others, so more than one round behind, jumps to it (N6).

What is not counted in rounds - checkpoints, refreshes, a detector - is run from one failure to the next, below:
every element has a lifetime of its own, and a clock passes over work, what it costs to keep it, and what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bsp.faults.advise.estimate import Tail

_NEVER = np.iinfo(np.int32).max
_CHUNK = 2_000_000  # random numbers at a time


@dataclass(frozen=True)
class Setting:
    """What is run: `bundles` on `elements`, for `rounds`, under which faults.  Times are in units of MinTime."""

    bundles: int
    elements: int
    rounds: int
    tail: Tail
    limit: float = float("inf")
    min_time: Literal["known", "measured"] = "known"  # 1, or that of the fastest of the first row in each round
    attempts: int = 1  # vertical: one after the other on an element
    relaunch: float = 0.0  # what each further attempt costs
    crash: float = 0.0  # probability, for an element in a round
    away: int | None = 1  # rounds; None: nobody stands in
    refresh: int | None = None  # every that many rounds all are there again
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
class Counts:
    """What happened.  Arrays with one entry a trial, `times` with one row."""

    times: np.ndarray  # (trials, rounds): how long each round took; 0 if every bundle was gone
    lost_rounds: np.ndarray  # rounds that lost a bundle
    lost_bundles: np.ndarray  # by round and bundle
    first_lost: np.ndarray  # the first such round, -1 if none
    marks: np.ndarray  # clones later than the TailLimit, by round and clone
    crashes: np.ndarray
    jumps: np.ndarray  # rounds left out by clones more than one round behind
    spent: np.ndarray  # element time computing, in units of MinTime


def count(setting: Setting, rng: np.random.Generator, trials: int = 1) -> Counts:
    """`trials` runs of `setting`, independent of each other."""
    n, rounds = setting.bundles, setting.rounds
    clones = -(-setting.elements // n)
    shape = (trials, clones, n)
    real = (np.arange(clones * n) < setting.elements).reshape(clones, n)  # the last row may be short
    back = np.zeros(shape, dtype=np.int64)  # the round from which an element is there
    free = np.zeros(shape)  # when it has finished what it computes
    head = np.zeros(trials)
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
        served = np.where(np.isfinite(done), done, -np.inf).max(axis=1, initial=-np.inf)
        served = np.where(np.isfinite(served), served, head)
        behind = (free > served[:, None, None]) & serves if not setting.wait else np.zeros(shape, dtype=bool)
        ran = serves & ~behind
        lost = ~(ran & ~late).any(axis=1)
        if not setting.wait:
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
    return Counts(times, lost_rounds, lost_bundles, first, marks, crashes, jumps, spent)


def _compute(setting: Setting, rng: np.random.Generator, serves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How long each element computes in one round, and whether that is later than the TailLimit."""
    work = setting.tail.draw(rng, serves.shape)
    if setting.min_time == "measured":
        # MinTime is set by the first row alone; no one of it there: no tails that round
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
    """How many of `trials` rounds outlive exactly `faults` random elements failing.

    combined : every bundle keeps a clone (element e holds one of bundle e mod bundles).
    disjoint : one of the copies of the job keeps all its elements (`bundles` elements in a row are a copy).
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
    """Where the time of each run went; arrays with one entry a trial."""

    time: np.ndarray  # from begin to end
    lost: np.ndarray  # of it, work and upkeep that had to be done again
    restarts: np.ndarray  # of it, getting back, those that were struck themselves included
    rollbacks: np.ndarray  # how often it went back, from within a restart too


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
    """`trials` jobs of `segments` times `work`, each with a checkpoint behind it, on elements that fail.

    mtbf is an element's; one that has failed is replaced by a new one at once.  A failure at any moment, in
    work, checkpoint or restart, costs all since the last whole checkpoint, and a restart from there.
    """
    fails = rng.exponential(mtbf, (trials, elements))  # when each fails next
    clock, lost, restarts = (np.zeros(trials) for _ in range(3))
    done, rollbacks = (np.zeros(trials, dtype=np.int64) for _ in range(2))
    back = np.zeros(trials, dtype=bool)  # on the way back from a failure
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
    """`trials` jobs of `periods` times `interval` of work, each with a refresh behind it that brings lost clones back.

    mtbf is an element's.  A group all of whose clones have failed since the last refresh costs all since then; it is
    noticed when the last one fails (`at_once`), or when the refresh ends.  Getting back takes no time.
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
    limit: float, look: float, tail: Tail, hung: float, rng: np.random.Generator, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """What a detector decides in so many rounds of one element: how long it had waited, and whether falsely.

    hung : probability that the element hangs in a round; else it takes as long as the tail says.  The detector looks
    every `look`, not in step with the rounds, and gives up an element that it sees at work later than `limit`.
    """
    hangs = rng.random(rounds) < hung
    takes = np.where(hangs, np.inf, tail.draw(rng, (rounds,)))
    seen = limit + look * rng.random(rounds)  # the first look beyond the limit
    given_up = takes > seen
    return seen[given_up], ~hangs[given_up]
