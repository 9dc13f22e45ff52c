"""The event log of a nonstop job, `--events f.jsonl`: what happened, to whom, when; one JSON object a line.

It is evidence, for tests (each injected fault appears once, with what was done about it) and for people, so its
kinds are a closed set, documented here.  It is written by bsprun alone, outside the data path, and flushed at
once: what was recorded before a crash of bsprun is in the file.  It is no part of the job: a full disk or a view
that fails is told once on stderr, and the job goes on.

Times are seconds since the job began, on the monotonic clock: they never go back, whatever is done to the date.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Kind(NamedTuple):
    """What an event means, and the fields it usually has besides time and kind."""

    means: str
    fields: tuple[str, ...]


KINDS: Mapping[str, Kind] = {
    "started": Kind(
        "the job runs: all elements are connected", ("nprocs", "bundles", "elements", "clones", "standbys", "agents")
    ),
    "view": Kind("who hosts what from now on", ("view", "hosts", "standbys")),
    "injected": Kind("a fault was made on purpose (--inject)", ("fault", "element", "superstep")),
    "suspected": Kind("an element or worker gives no sign of life", ("element", "silent")),
    "died": Kind("an agent or a worker has ended, for certain", ("element", "worker", "reason", "superstep")),
    "fenced": Kind("an element was killed so that it is certainly gone", ("element", "reason")),
    "promoted": Kind("a standby was given a bundle", ("element", "bundle", "view")),
    "restored": Kind("a newcomer has its state and is live", ("element", "bundle", "superstep", "seconds")),
    "relaunched": Kind("a worker was started again in its slot", ("element", "bundle", "reason", "attempt")),
    "tail": Kind("a clone took longer than T·MinTime by its own clock", ("element", "bundle", "superstep", "seconds")),
    "pulled": Kind("a sibling's packet, or a vertical clone, was asked for", ("element", "bundle", "superstep")),
    "jumped": Kind("a laggard went on from a sibling's state", ("element", "bundle", "superstep", "behind")),
    "lost": Kind("no complete state of a bundle is left", ("bundle", "superstep", "checkpoint")),
    "outvoted": Kind("a clone's bytes differ from those of most siblings", ("element", "bundle", "superstep")),
    "diverged": Kind("clones differ and no majority says who is right", ("bundle", "superstep", "elements")),
    "degraded": Kind("a bundle has fewer clones than asked for and no standby", ("bundle", "clones")),
    "refreshed": Kind("a planned stop: a full-size job goes on from a snapshot", ("superstep", "seconds")),
    "checkpoint": Kind("a checkpoint is complete, or has failed", ("name", "superstep", "bytes", "seconds", "error")),
    "resumed": Kind("the job goes on from a checkpoint", ("name", "superstep", "refused")),
    "held": Kind("all elements hold at one head", ("superstep", "reason")),
    "once": Kind("an effect (`proc.once`) was handed on, or done", ("process", "superstep", "sequence", "element")),
    "ended": Kind("the job is over", ("status", "superstep", "seconds")),
    "note": Kind("anything else worth a line", ("text",)),
}

_RESERVED = frozenset({"time", "kind"})

Subscriber = Callable[[Mapping[str, Any]], None]


class EventLog:
    """Records events: to a file if there is one, to subscribers, and as counts in memory.  Any thread may record."""

    def __init__(
        self,
        path: Path | None = None,
        subscribers: Iterable[Subscriber] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The job begins now.  Raises OSError if the file cannot be made: nothing has run yet, so say so."""
        self.path = path
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._began = clock()
        self._subscribers = list(subscribers)
        self._lock = threading.RLock()  # a subscriber may record
        self._file = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call it with every event from now on, in the order of the file."""
        with self._lock:
            self._subscribers.append(subscriber)

    def record(self, kind: str, /, **fields: Any) -> None:
        """One event, now.  ValueError for a kind that `KINDS` does not have."""
        if kind not in KINDS:
            raise ValueError(f"no event is called {kind!r}; there are {', '.join(KINDS)}")
        if reserved := _RESERVED & fields.keys():
            raise ValueError(f"the log itself gives {', '.join(sorted(reserved))} to event {kind!r}")
        with self._lock:
            seconds = round(self._clock() - self._began, 6)
            event = {"time": seconds, "kind": kind} | {name: _plain(value) for name, value in fields.items()}
            self.counts[kind] += 1
            self._write(event)
            for subscriber in list(self._subscribers):
                self._tell(subscriber, event)

    def close(self) -> None:
        """Close the file; later events are counted and shown, no longer written."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _write(self, event: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        rest = memoryview(json.dumps(event).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:  # half a line may be there: anything after it could not be read
            _complain(f"{self.path}: {error.strerror}; no more events are written, the job goes on")
            self.close()

    def _tell(self, subscriber: Subscriber, event: Mapping[str, Any]) -> None:
        try:
            subscriber(event)
        except Exception as error:  # noqa: BLE001 - a view must not stop the job
            self._subscribers.remove(subscriber)
            _complain(f"a view of the events failed and is shown no more: {type(error).__name__}: {error}")


def read(path: Path) -> list[dict[str, Any]]:
    """The events of a log, also of one whose writer was killed in its last line.

    Raises ValueError if any other line is damaged.
    """
    events: list[dict[str, Any]] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            if not (isinstance(event, dict) and event.keys() >= _RESERVED):
                raise ValueError("no event")
        except ValueError:
            if number == len(lines):  # nothing, or cut short: a whole line ends in a newline
                break
            raise ValueError(f"{path}, line {number}: no event, but {line[:60]!r}") from None
        events.append(event)
    return events


def _plain(value: Any) -> Any:
    """As JSON has it: NumPy's numbers and arrays, sets and tuples; anything else by its text."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has neither inf nor nan
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return [_plain(each) for each in sorted(value, key=lambda each: (len(str(each)), str(each)))]  # 2 before 10
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value)


def _complain(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody is listening
        print(f"bsprun: warning: {text}", file=sys.stderr, flush=True)
