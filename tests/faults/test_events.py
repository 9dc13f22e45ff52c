"""The event log: a closed set of kinds, one line an event, and never the reason a job stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.faults.events import KINDS, EventLog, read


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1e6

    def __call__(self) -> float:
        return self.now


def test_an_event_is_a_line_of_json_with_its_time_since_the_job_began(tmp_path: Path) -> None:
    clock = Clock()
    with EventLog(tmp_path / "f.jsonl", clock=clock) as log:
        log.record("started", nprocs=8, elements=4)
        clock.now += 1.25
        log.record("died", element=3, worker=True, reason="SIGKILL")
    assert (tmp_path / "f.jsonl").read_text() == (
        '{"time": 0.0, "kind": "started", "nprocs": 8, "elements": 4}\n'
        '{"time": 1.25, "kind": "died", "element": 3, "worker": true, "reason": "SIGKILL"}\n'
    )
    assert read(tmp_path / "f.jsonl") == [
        {"time": 0.0, "kind": "started", "nprocs": 8, "elements": 4},
        {"time": 1.25, "kind": "died", "element": 3, "worker": True, "reason": "SIGKILL"},
    ]


def test_the_kinds_are_a_documented_closed_set() -> None:
    assert " ".join(KINDS) == (
        "started view injected suspected died fenced promoted restored relaunched tail pulled jumped lost outvoted "
        "diverged degraded refreshed checkpoint resumed held once ended note"
    )
    assert all(kind.means and kind.fields for kind in KINDS.values())
    assert not any({"time", "kind"} & set(kind.fields) for kind in KINDS.values())


def test_an_unknown_kind_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with EventLog(tmp_path / "f.jsonl") as log:
        with pytest.raises(ValueError, match="no event is called 'dead'; there are started, view, injected, "):
            log.record("dead", element=3)
        with pytest.raises(ValueError, match="the log itself gives kind, time to event 'note'"):
            log.record("note", time=3, kind="died")
    assert read(tmp_path / "f.jsonl") == []
    assert log.counts == {}


def test_without_a_file_events_are_counted_and_shown() -> None:
    shown: list[Mapping[str, Any]] = []
    log = EventLog(None, subscribers=[shown.append])
    for element in range(3):
        log.record("tail", element=element)
    log.record("ended", status=0)
    assert log.counts == {"tail": 3, "ended": 1}
    assert [(event["kind"], event.get("element")) for event in shown] == [
        ("tail", 0),
        ("tail", 1),
        ("tail", 2),
        ("ended", None),
    ]


def test_every_event_is_in_the_file_as_soon_as_record_returns(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "f.jsonl")
    for count in range(1, 6):
        log.record("note", text="ünïcode\n in one line")
        assert len(read(tmp_path / "f.jsonl")) == count
        assert (tmp_path / "f.jsonl").read_bytes().count(b"\n") == count
    log.close()
    log.record("note", text="counted, not written")
    log.close()
    assert len(read(tmp_path / "f.jsonl")) == 5
    assert log.counts["note"] == 6


def test_a_new_job_begins_a_new_file(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with EventLog(tmp_path / "f.jsonl") as log:
            log.record("note", text=text)
    assert [event["text"] for event in read(tmp_path / "f.jsonl")] == ["second"]


def test_values_become_what_json_has(tmp_path: Path) -> None:
    with EventLog(tmp_path / "f.jsonl") as log:
        log.record(
            "note",
            number=np.int64(7),
            array=np.arange(3),
            real=np.float32(0.5),
            truth=np.True_,
            nothing=None,
            inside={3: (np.int8(1), float("inf"))},
            some={2, 10, 1},
            never=float("nan"),
            path=Path("/tmp/x"),
            signal=signal.SIGKILL,
        )
    (event,) = read(tmp_path / "f.jsonl")
    assert {name: value for name, value in event.items() if name not in ("time", "kind")} == {
        "number": 7,
        "array": [0, 1, 2],
        "real": 0.5,
        "truth": True,
        "nothing": None,
        "inside": {"3": [1, "inf"]},
        "some": [1, 2, 10],
        "never": "nan",
        "path": "/tmp/x",
        "signal": 9,
    }


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name not in ("time", "kind")), st.floats() | st.text()))
def test_any_fields_are_one_line_of_strict_json(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("log") / "f.jsonl"
    with EventLog(path) as log:
        log.record("note", **fields)
    (line,) = path.read_text().splitlines()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert set(json.loads(line, parse_constant=refuse)) == {"time", "kind", *fields}


# ----------------------------------------------------------------------------- the job goes on


def test_a_full_disk_is_told_once_and_does_not_stop_the_job(capfd: pytest.CaptureFixture[str]) -> None:
    shown: list[Mapping[str, Any]] = []
    log = EventLog(Path("/dev/full"), subscribers=[shown.append])
    for _ in range(3):
        log.record("note", text="x")
    assert capfd.readouterr() == (
        "",
        "bsprun: warning: /dev/full: No space left on device; no more events are written, the job goes on\n",
    )
    assert (log.counts["note"], len(shown)) == (3, 3)


def test_a_disk_that_fills_up_leaves_a_log_that_is_read(tmp_path: Path) -> None:
    """A short write, then the error: the last line is cut short."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = EventLog(tmp_path / "f.jsonl")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        for number in range(100):
            log.record("note", number=number)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.record("note", number=100)  # there is room again, but no whole line to follow
    assert (tmp_path / "f.jsonl").stat().st_size == 1000
    events = read(tmp_path / "f.jsonl")
    assert [event["number"] for event in events] == list(range(len(events)))
    assert 15 < len(events) < 30
    assert log.counts["note"] == 101


def test_a_file_that_cannot_be_made_is_told_before_the_job_begins(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none/f\.jsonl"):
        EventLog(tmp_path / "none" / "f.jsonl")


def test_a_view_that_fails_is_told_once_and_shown_no_more(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shown: list[Mapping[str, Any]] = []

    def fails(event: Mapping[str, Any]) -> None:
        raise RuntimeError("terminal gone")

    with EventLog(tmp_path / "f.jsonl", subscribers=[fails]) as log:
        log.subscribe(shown.append)
        log.record("note", text="x")
        log.record("note", text="y")
    assert capfd.readouterr().err == (
        "bsprun: warning: a view of the events failed and is shown no more: RuntimeError: terminal gone\n"
    )
    assert [event["text"] for event in shown] == ["x", "y"]
    assert len(read(tmp_path / "f.jsonl")) == 2


def test_a_view_may_record(tmp_path: Path) -> None:
    with EventLog(tmp_path / "f.jsonl") as log:

        def answer(event: Mapping[str, Any]) -> None:
            if event["kind"] == "tail":
                log.record("note", text="seen")

        log.subscribe(answer)
        log.record("tail", element=1)
    assert [event["kind"] for event in read(tmp_path / "f.jsonl")] == ["tail", "note"]


def test_threads_record_whole_lines_in_the_order_of_time(tmp_path: Path) -> None:
    shown: list[Mapping[str, Any]] = []
    with EventLog(tmp_path / "f.jsonl", subscribers=[shown.append]) as log:

        def records(element: int) -> None:
            for superstep in range(200):
                log.record("tail", element=element, superstep=superstep)

        threads = [threading.Thread(target=records, args=(element,)) for element in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = read(tmp_path / "f.jsonl")
    assert len(events) == log.counts["tail"] == 800
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    assert events == shown


# ---------------------------------------------------------------------------------- reading it


def test_a_last_line_cut_short_anywhere_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    with EventLog(path) as log:
        for element in range(3):
            log.record("died", element=element, reason="Łuk{}")
    whole = path.read_bytes()
    ends = [place for place, byte in enumerate(whole, 1) if byte == ord("\n")]
    for place in range(len(whole) + 1):
        path.write_bytes(whole[:place])
        assert len(read(path)) == sum(end - 1 <= place for end in ends)  # only the newline may be missing


@pytest.mark.parametrize("line", ["{", "3", '{"kind": "note"}', "", "\xff"])
def test_any_other_damaged_line_is_refused_by_number(tmp_path: Path, line: str) -> None:
    good = '{"time": 1.0, "kind": "note"}\n'
    (tmp_path / "f.jsonl").write_bytes((good + line + "\n" + good).encode("latin-1"))
    with pytest.raises(ValueError, match=r"f\.jsonl, line 2: no event, but b'"):
        read(tmp_path / "f.jsonl")


@pytest.mark.jobs
def test_what_was_recorded_before_kill_9_is_in_the_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from bsp.faults.events import EventLog\n"
        "log = EventLog(Path(sys.argv[1]))\n"
        "for number in range(10**9):\n"
        "    log.record('note', number=number)\n"
        "    print(number, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "f.jsonl")], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(100)]
        os.kill(process.pid, signal.SIGKILL)
        told += [int(line) for line in process.stdout if line.endswith(b"\n")]
    events = read(tmp_path / "f.jsonl")
    assert [event["number"] for event in events] == list(range(len(events)))
    assert len(events) >= len(told)
