"""The event log: a closed set of kinds, one line an event, and never the reason a job stops."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bsp.faults
from bsp.faults.events.log import FIELDS, KINDS, EventLog, documentation, read
from bsp.faults.simulate.schedules import SimulatedRun, drawn, survivable
from bsp.faults.simulate.simulation import Simulation


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1e6

    def __call__(self) -> float:
        return self.now


def test_an_event_is_a_line_of_json_with_its_time_since_the_job_began(tmp_path: Path) -> None:
    clock = Clock()
    with EventLog(tmp_path / "f.jsonl", clock=clock) as log:
        log.record("injected", fault="kill:element=3,superstep=17", element=3, superstep=17)
        clock.now += 1.25
        log.record("died", element=3, reason="was killed")
    assert (tmp_path / "f.jsonl").read_text() == (
        '{"time": 0.0, "kind": "injected", "fault": "kill:element=3,superstep=17", "element": 3, "superstep": 17}\n'
        '{"time": 1.25, "kind": "died", "element": 3, "reason": "was killed", '
        '"injected": "kill:element=3,superstep=17"}\n'
    )
    fault = "kill:element=3,superstep=17"
    assert read(tmp_path / "f.jsonl") == [
        {"time": 0.0, "kind": "injected", "fault": fault, "element": 3, "superstep": 17},
        {"time": 1.25, "kind": "died", "element": 3, "reason": "was killed", "injected": fault},
    ]


def test_the_kinds_are_a_documented_closed_set() -> None:
    assert " ".join(KINDS) == (
        "started appeared view injected suspected fenced died joined drained attached left promoted restored "
        "relaunched caught_up tail pulled jumped outvoted remade diverged degraded lost held checkpoint "
        "resumed once ended note"
    )
    assert all(kind.means and kind.fields for kind in KINDS.values())
    used = {field for kind in KINDS.values() for field in (*kind.fields, *kind.may, *kind.adds)}
    assert used == set(FIELDS)
    assert not {"time", "kind"} & used


def _said(source: str) -> Iterator[tuple[int, str, set[str], bool]]:
    """Events that a module makes: line, kind, fields, and whether there may be more of them than the text shows."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        kind = call.args[0] if call.args else None
        if name not in ("record", "_note", "Note") or not (isinstance(kind, ast.Constant) and kind.value != ""):
            continue
        fields = {word.arg for word in call.keywords if word.arg is not None}
        more = any(word.arg is None for word in call.keywords)
        for given_fields in call.args[1:]:
            assert isinstance(given_fields, ast.Dict), f"line {call.lineno}: fields that cannot be read"
            fields |= {ast.literal_eval(key) for key in given_fields.keys if key is not None}
        yield call.lineno, str(kind.value), fields, more


def test_every_event_that_the_package_makes_is_as_the_table_has_it() -> None:
    """Kinds and fields, in every call; and no kind is documented that nobody makes."""
    made = set()
    for path in sorted(Path(bsp.faults.__file__).parent.rglob("*.py")):
        if path.name == "simulation.py":  # its own notes are no events
            continue
        for line, kind, fields, more in _said(path.read_text()):
            where, known = f"{path.name}, line {line}: {kind}", KINDS[kind]
            made.add(kind)
            fields -= {"warning"}  # for incarnation.py, which takes it out
            assert fields <= {*known.fields, *known.may}, where
            assert more or fields >= {*known.fields}, where
    assert made == set(KINDS)


def test_the_documentation_is_the_table() -> None:
    """docs/events.md is what `python -m bsp.faults.events.log` prints."""
    assert (Path(__file__).parents[3] / "docs" / "events.md").read_text() == documentation()


@pytest.mark.thorough
@pytest.mark.parametrize("drawing", [drawn, survivable])
def test_what_the_protocol_says_in_simulated_runs_is_an_event(drawing: Callable[[int], SimulatedRun]) -> None:
    """Whatever strikes: all of it is recorded, and each fault that is mended says how long that took."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        run = Simulation(drawing(seed))
        run.run()
        events: list[Mapping[str, Any]] = []
        clock = Clock()
        log = EventLog(None, [events.append], clock)
        log.record("view", **Simulation(drawing(seed)).arbiter.view.plain())
        for when, kind, fields in run.notes:
            clock.now = 1e6 + when
            if kind in KINDS:
                log.record(kind, **{name: value for name, value in fields.items() if name != "warning"})
        seen += log.counts
        for event in events:
            assert event.keys() <= {"time", "kind", *KINDS[event["kind"]].fields, *KINDS[event["kind"]].may,
                                    *KINDS[event["kind"]].adds}  # fmt: skip
            if event["kind"] in ("restored", "caught_up"):
                assert 0.0 <= event["seconds"] < 60.0
                assert event["rounds"] >= 0
        if not any(fields["what"].startswith(("worker", "flip")) for _, kind, fields in run.notes if kind == "fault"):
            assert sum(event.get("rounds_lost", 0) for event in events) == 0  # elements: their siblings were current
    assert min(seen[kind] for kind in ("died", "restored", "relaunched", "caught_up", "jumped", "view")) > 5


def test_an_unknown_kind_or_field_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with EventLog(tmp_path / "f.jsonl") as log:
        with pytest.raises(ValueError, match="no event is called 'dead'; there are started, appeared, view, "):
            log.record("dead", element=3)
        with pytest.raises(ValueError, match="the log itself gives kind, time to event 'note'"):
            log.record("note", time=3, kind="died")
        with pytest.raises(
            ValueError, match=r"event 'died' has no superstep, worker; see KINDS in bsp\.faults\.events"
        ):
            log.record("died", element=3, reason="was killed", worker=True, superstep=7)
        with pytest.raises(ValueError, match="event 'restored' lacks bytes, rounds, superstep"):
            log.record("restored", element=3, bundle=1)
        with pytest.raises(ValueError, match="event 'died' has no injected"):  # the log itself says so
            log.record("died", element=3, reason="was killed", injected="kill:element=3,superstep=17")
    assert read(tmp_path / "f.jsonl") == []
    assert log.counts == {}


def test_without_a_file_events_are_counted_and_shown() -> None:
    shown: list[Mapping[str, Any]] = []
    log = EventLog(None, subscribers=[shown.append])
    for element in range(3):
        log.record("degraded", bundle=element, clones=1, goal=2, passive=0)
    log.record("note", text="x")
    assert log.counts == {"degraded": 3, "note": 1}
    assert [(event["kind"], event.get("bundle")) for event in shown] == [
        ("degraded", 0),
        ("degraded", 1),
        ("degraded", 2),
        ("note", None),
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
    values = {
        "number": (np.int64(7), 7),
        "array": (np.arange(3), [0, 1, 2]),
        "real": (np.float32(0.5), 0.5),
        "truth": (np.True_, True),
        "nothing": (None, None),
        "inside": ({3: (np.int8(1), float("inf"))}, {"3": [1, "inf"]}),
        "some": ({2, 10, 1}, [1, 2, 10]),
        "never": (float("nan"), "nan"),
        "path": (Path("/tmp/x"), "/tmp/x"),
        "signal": (signal.SIGKILL, 9),
    }
    with EventLog(tmp_path / "f.jsonl") as log:
        log.record("note", text={name: given for name, (given, _) in values.items()})
    (event,) = read(tmp_path / "f.jsonl")
    assert event["text"] == {name: plain for name, (_, plain) in values.items()}


@given(st.dictionaries(st.text(), st.floats() | st.text()))
def test_any_value_is_one_line_of_strict_json(tmp_path_factory: pytest.TempPathFactory, value: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("log") / "f.jsonl"
    with EventLog(path) as log:
        log.record("note", text=value)
    (line,) = path.read_text().splitlines()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert set(json.loads(line, parse_constant=refuse)["text"]) == set(value)


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
            log.record("note", text=number)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.record("note", text=100)  # there is room again, but no whole line to follow
    assert (tmp_path / "f.jsonl").stat().st_size == 1000
    events = read(tmp_path / "f.jsonl")
    assert [event["text"] for event in events] == list(range(len(events)))
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
            if event["kind"] == "held":
                log.record("note", text="seen")

        log.subscribe(answer)
        log.record("held", head=1)
    assert [event["kind"] for event in read(tmp_path / "f.jsonl")] == ["held", "note"]


def test_threads_record_whole_lines_in_the_order_of_time(tmp_path: Path) -> None:
    shown: list[Mapping[str, Any]] = []
    with EventLog(tmp_path / "f.jsonl", subscribers=[shown.append]) as log:

        def records(element: int) -> None:
            for superstep in range(200):
                log.record("tail", element=element, bundle=0, superstep=superstep, seconds=0.5)

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
        "import sys; from pathlib import Path; from bsp.faults.events.log import EventLog\n"
        "log = EventLog(Path(sys.argv[1]))\n"
        "for number in range(10**9):\n"
        "    log.record('note', text=number)\n"
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
    assert [event["text"] for event in events] == list(range(len(events)))
    assert len(events) >= len(told)
