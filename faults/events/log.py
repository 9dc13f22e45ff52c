"""The event log of a nonstop job, `--events f.jsonl`: one JSON object per line with time, kind and fields of an event.

The log is evidence, for tests (each injected fault appears once, with its consequences) and for people.  So its kinds
and their fields are closed sets, documented here; `record` refuses any other.  The ledger adds the fields that follow
from earlier events: the injected fault that an event shows, the time since its detection, and the rounds lost.

Only bsprun writes the log, outside the data path, and each event at once: what was recorded before a crash of bsprun is
in the file.  The job does not depend on the log: after a full disk or a failing view there is one warning on stderr,
and the job goes on.

Times are seconds since the job began, on the monotonic clock, so they never decrease, even if the date is changed.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bsp.faults.events.ledger import Ledger


class EventKind(NamedTuple):
    """A kind of event: its meaning, and its fields besides time and kind.

    fields : given whenever it is recorded.
    may : given where they apply.
    adds : added by the log itself, where known.
    """

    means: str
    fields: tuple[str, ...]
    may: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()


_SEEN = ("injected",)
_MENDED = ("seconds", "injected")

KINDS: Mapping[str, EventKind] = {
    "started": EventKind(
        "the job runs: all elements are connected",
        ("nprocs", "bundles", "elements", "clones", "standbys", "incarnation", "agents", "hosts", "seconds"),
        adds=_MENDED,
    ),
    "appeared": EventKind("an agent that was started in place of a lost one is there", ("element", "pid", "host")),
    "view": EventKind("from now on these elements host these bundles", ("view", "hosts", "standbys")),
    "injected": EventKind("a fault was injected (--inject)", ("fault", "element", "superstep")),
    "suspected": EventKind("an element gives no sign of life", ("element", "silent"), adds=_SEEN),
    "fenced": EventKind("bsprun kills an element, so that it is certainly dead", ("element", "reason"), adds=_SEEN),
    "died": EventKind("an agent has certainly ended", ("element", "reason"), adds=_SEEN),
    "joined": EventKind("a host has joined the job by `bsp join`", ("host", "slots")),
    "drained": EventKind("a host is to be left: its elements are moved to others", ("host", "reason")),
    "attached": EventKind(
        "another bsprun goes on with a job whose bsprun was gone",
        ("reign", "elements", "lost"),
    ),
    "left": EventKind("an element has left, after others have taken its places", ("element", "reason")),
    "promoted": EventKind(
        "a standby or a new element is given the bundles of a dead one, or a passive clone computes from now on",
        ("element",),
        ("instead_of", "bundles", "bundle", "was"),
    ),
    "restored": EventKind(
        "a newcomer has its state and is live", ("element", "bundle", "superstep", "rounds", "bytes"), adds=_MENDED
    ),
    "relaunched": EventKind(
        "a worker has failed and is started again in its slot",
        ("element", "bundle", "superstep", "reason", "attempt"),
        adds=_SEEN,
    ),
    "caught_up": EventKind(
        "a worker that was started again has reached the point where the one before it failed",
        ("element", "bundle", "superstep", "rounds", "bytes"),
        adds=("rounds_lost", *_MENDED),
    ),
    "tail": EventKind(
        "a clone takes longer than T·MinTime by its own clock",
        ("element", "bundle", "superstep", "seconds"),
        adds=_SEEN,
    ),
    "pulled": EventKind("a vertical clone is asked to compute", ("element", "bundle", "superstep", "reason")),
    "jumped": EventKind(
        "a clone that lags goes on from a sibling's state and leaves out the rounds between",
        ("element", "bundle", "superstep", "rounds", "bytes"),
        adds=_MENDED,
    ),
    "outvoted": EventKind(
        "a clone's bytes differ from those of most siblings", ("element", "bundle", "superstep"), adds=_SEEN
    ),
    "remade": EventKind("a clone is to be given a sibling's state", ("element", "bundle", "reason"), adds=_SEEN),
    "diverged": EventKind(
        "clones differ, and no majority shows which is right", ("bundle", "superstep", "elements"), adds=_SEEN
    ),
    "degraded": EventKind(
        "a bundle has fewer clones than asked for, and no standby takes the place",
        ("bundle", "clones", "goal", "passive"),
    ),
    "lost": EventKind("no complete state of a bundle is left", ("bundle", "superstep", "reason")),
    "held": EventKind("all elements are asked to hold at one head", ("head",)),
    "checkpoint": EventKind("a checkpoint is complete, or has failed", ("superstep",), ("name", "bytes", "error")),
    "resumed": EventKind("the job goes on from a checkpoint", ("name", "superstep"), ("rounds_lost",), _MENDED),
    "once": EventKind(
        "a call of `proc.once` is handed to an element, or its value is known",
        ("what", "process", "sequence", "element", "done"),
        ("superstep", "head"),
    ),
    "ended": EventKind("the job is over", ("status", "seconds", "bytes"), adds=("rounds_lost",)),
    "note": EventKind("anything else worth a line", ("text",), ("bundle",)),
}

FIELDS: Mapping[str, str] = {
    "agents": "process ids of the agents, by element",
    "attempt": "how often the worker was started again in this superstep",
    "bundle": "number of the bundle",
    "bundles": "number of bundles; in `promoted`: the bundles that the standby is given",
    "bytes": "size of the state handed over, or the checkpoint; in `ended`: sent between agents, shared memory apart",
    "clones": "clones of each bundle; in `degraded`: clones that are left",
    "done": "false: the call is handed to this element; true: its value is known",
    "element": "number of the element; in `injected`: null for a fault of the transport",
    "elements": "number of elements, including standbys; in `diverged`: the elements whose bytes differ",
    "error": "why there is no checkpoint",
    "fault": "the fault, as `--inject` takes it",
    "goal": "clones that were asked for",
    "head": "number of the head: how many heads of rounds come before it",
    "host": "name of the host",
    "hosts": "for each bundle, its elements, each live, joining or passive; in `started`: the host of each element",
    "incarnation": "how often the job has gone on from a checkpoint",
    "injected": "the injected fault that this event shows",
    "instead_of": "the dead element",
    "lost": "elements that were gone when the job was taken over",
    "name": "name of the checkpoint",
    "nprocs": "processes of the program",
    "passive": "further clones, which do not compute",
    "pid": "process id",
    "process": "the calling process",
    "reason": "why, in words",
    "reign": "how often another bsprun has taken over",
    "rounds": "rounds computed again, the last perhaps in part; in `jumped`: rounds left out",
    "rounds_lost": "rounds that all clones of a bundle compute again, the last perhaps in part; as of the last beat",
    "seconds": "since the fault was detected; in `tail`: of computing; in `ended`, first `started`: of the job",
    "sequence": "number of the call within its superstep",
    "slots": "for how many elements a host has room",
    "silent": "seconds since the last sign of life",
    "standbys": "number of standbys; in `view`: the elements that stand by",
    "status": "bsprun's exit status",
    "superstep": "the superstep that the clone computes, or that a state belongs to",
    "text": "the note, in words",
    "view": "number of the view; the one with the largest number holds",
    "was": "role of the clone before",
    "what": "`round`: a call in a round of a loop, named by `head`; `once`: any other, named by `superstep`",
}

_RESERVED = frozenset({"time", "kind"})

Subscriber = Callable[[Mapping[str, Any]], None]


class EventLog:
    """Records events in a file, if there is one, passes them to subscribers, and counts them.  Thread-safe."""

    def __init__(
        self,
        path: Path | None = None,
        subscribers: Iterable[Subscriber] = (),
        clock: Callable[[], float] = time.monotonic,
        since: float | None = None,
    ) -> None:
        """Open the log; the job begins now.

        path : the file to write, replaced if it exists; None: no file.
        since : seconds since the job began, for one that another bsprun began; its file is continued.
        Raises OSError if the file cannot be made.  Nothing has run at that point, so the caller reports it and stops.
        """
        self.path = path
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._began = clock() - (since or 0.0)
        self._subscribers = list(subscribers)
        self._ledger = Ledger()
        self._lock = threading.RLock()  # reentrant, because a subscriber may record an event itself
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if since is None else 0)
        self._file = None if path is None else os.open(path, how, 0o666)

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every event from now on, in the order of the file.

        It is called while the log is locked, so it must be quick; if it raises, it is removed with a warning.
        """
        with self._lock:
            self._subscribers.append(subscriber)

    def record(self, kind: str, /, **fields: Any) -> None:
        """Record one event, at the present time.

        Raises ValueError for a kind or field that `KINDS` does not contain, and for a missing field.
        """
        if kind not in KINDS:
            raise ValueError(f"no event is called {kind!r}; there are {', '.join(KINDS)}")
        if reserved := _RESERVED & fields.keys():
            raise ValueError(f"the log itself gives {', '.join(sorted(reserved))} to event {kind!r}")
        known = KINDS[kind]
        if more := fields.keys() - {*known.fields, *known.may}:
            raise ValueError(f"event {kind!r} has no {', '.join(sorted(more))}; see KINDS in bsp.faults.events.log")
        if missing := {*known.fields} - fields.keys():
            raise ValueError(f"event {kind!r} lacks {', '.join(sorted(missing))}")
        with self._lock:
            seconds = round(self._clock() - self._began, 6)
            event = {"time": seconds, "kind": kind} | {name: _plain(value) for name, value in fields.items()}
            event |= self._ledger.complete(event)
            self.counts[kind] += 1
            self._write(event)
            for subscriber in list(self._subscribers):
                self._tell(subscriber, event)

    def move_beginning(self, seconds: float) -> None:
        """Take the job to have begun so many seconds earlier than was thought."""
        with self._lock:
            self._began -= seconds

    def close(self) -> None:
        """Close the file.  Later events are still counted and passed to subscribers, but not written."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _write(self, event: Mapping[str, Any]) -> None:
        """Write one line.  If that fails, warn and close the file; the job goes on."""
        if self._file is None:
            return
        rest = memoryview(json.dumps(event).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:  # a partial line may be in the file: what follows it could not be read
            _complain(f"{self.path}: {error.strerror}; no more events are written, the job goes on")
            self.close()

    def _tell(self, subscriber: Subscriber, event: Mapping[str, Any]) -> None:
        """Call a subscriber; if it raises, warn and remove it, since a view must not stop the job."""
        try:
            subscriber(event)
        except Exception as error:  # noqa: BLE001 - a view must not stop the job
            self._subscribers.remove(subscriber)
            _complain(f"a view of the events failed and is shown no more: {type(error).__name__}: {error}")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the events of a log, without the last line if its writer was killed while writing it.

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
            if number == len(lines):  # empty or cut short: every complete line ends in a newline
                break
            raise ValueError(f"{path}, line {number}: no event, but {line[:60]!r}") from None
        events.append(event)
    return events


def documentation() -> str:
    """Return docs/events.md: the tables above as Markdown."""
    return "\n".join(_documentation()) + "\n"


def _documentation() -> Iterator[str]:
    yield "# The event log"
    yield ""
    yield "`bsprun --events f.jsonl` writes one JSON object a line: `time` (seconds since the job began), `kind`, and"
    yield "the fields of its kind. This file is what `python -m bsp.faults.events.log` prints."
    yield ""
    yield "| kind | means | always | sometimes | added by the log, where known |"
    yield "| --- | --- | --- | --- | --- |"
    for name, kind in KINDS.items():
        fields = (" ".join(f"`{field}`" for field in some) for some in (kind.fields, kind.may, kind.adds))
        yield f"| `{name}` | {kind.means} | {' | '.join(fields)} |"
    yield ""
    yield "| field | |"
    yield "| --- | --- |"
    for field, means in FIELDS.items():
        yield f"| `{field}` | {means} |"


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NumPy values, sets and tuples become lists and numbers, the rest text."""
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
    """Print a warning on stderr; do nothing if stderr is closed."""
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        print(f"bsprun: warning: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(documentation(), end="")
