"""Chrome trace events: what a viewer needs to draw the supersteps in their places."""

from __future__ import annotations

import json
from typing import Any

import pytest
from made_traces import MADE, made

from bsp.cost.report.perfetto import MODEL, PROGRAM, perfetto


def slices(trace: dict[str, Any], pid: int, *categories: str) -> list[dict[str, Any]]:
    events = perfetto(trace)["traceEvents"]
    return [event for event in events if event["ph"] == "X" and event["pid"] == pid and event["cat"] in categories]


def nanoseconds(event: dict[str, Any]) -> tuple[int, int]:
    """Start and end of a slice, which are whole nanoseconds given in microseconds."""
    start, lasted = event["ts"] * 1000, event["dur"] * 1000
    assert abs(start - round(start)) < 1e-3 and abs(lasted - round(lasted)) < 1e-3
    return round(start), round(start) + round(lasted)


@pytest.mark.parametrize("name", MADE)
def test_every_event_has_what_its_phase_asks_for_and_time_never_goes_back(name: str) -> None:
    made_of = perfetto(MADE[name]())
    json.dumps(made_of, allow_nan=False)
    last = 0.0
    for event in made_of["traceEvents"]:
        assert {"name", "ph", "pid", "tid", "ts", "args"} <= set(event)
        assert event["ph"] in "MXC" and event["name"]
        assert event["ts"] >= last
        last = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["cat"]
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())


@pytest.mark.parametrize("name", MADE)
def test_slices_of_a_track_touch_and_never_overlap(name: str) -> None:
    trace = MADE[name]()
    for pid, kind, key in ((PROGRAM, "trace", "seconds"), (MODEL, trace["kind"], "predicted")):
        track = slices(trace, pid, "superstep", "end")
        assert len(track) == (trace["supersteps"] + 1 if trace["kind"] == kind else 0)
        now = 0
        for event in track:
            start, end = nanoseconds(event)
            assert start == now
            now = end
        if track:
            total = sum(row[key] for row in trace["per_superstep"]) + trace["end"][key]
            assert now / 1e9 == pytest.approx(total, rel=0, abs=len(track) * 1e-9)


@pytest.mark.parametrize("pid", [PROGRAM, MODEL])
def test_computing_and_communicating_fill_their_superstep(pid: int) -> None:
    events = slices(made(10, p=4), pid, "superstep", "compute", "communicate")
    assert len(events) == 30
    for outer, compute, communicate in zip(events[::3], events[1::3], events[2::3], strict=True):
        assert (outer["cat"], compute["cat"], communicate["cat"]) == ("superstep", "compute", "communicate")
        start, end = nanoseconds(outer)
        assert nanoseconds(compute)[0] == start
        assert nanoseconds(compute)[1] == nanoseconds(communicate)[0]
        assert nanoseconds(communicate)[1] == end


def test_a_slice_is_named_by_its_label_or_its_call_and_tells_its_figures() -> None:
    trace = made(10, p=4)
    for row, event in zip(trace["per_superstep"], slices(trace, PROGRAM, "superstep"), strict=True):
        assert event["name"] == (row["label"] or row["call"])
        args = event["args"]
        assert (args["superstep"], args["source"], args["messages"]) == (
            row["superstep"],
            row["source"],
            row["messages"],
        )
        assert args["words (h)"] == max(row["h_sent"], row["h_received"])
        assert (args["predicted (s)"], args["measured (s)"]) == (row["predicted"], row["seconds"])
    assert {event["name"] for event in slices(trace, PROGRAM, "superstep")} >= {"halo", "sync"}


def test_counters_follow_h_and_end_at_nothing() -> None:
    trace = made(10, p=4)
    counters = [event for event in perfetto(trace)["traceEvents"] if event["name"] == "h, words"]
    told = [(event["args"]["sent"], event["args"]["received"]) for event in counters]
    assert told == [(row["h_sent"], row["h_received"]) for row in trace["per_superstep"]] + [(0, 0)]
    assert {event["pid"] for event in counters} == {PROGRAM}


def test_a_prediction_has_the_track_of_the_model_alone() -> None:
    trace = made(10, p=4, kind="prediction")
    assert {event["pid"] for event in perfetto(trace)["traceEvents"]} == {MODEL}
    assert any(event["ph"] == "C" for event in perfetto(trace)["traceEvents"])
    assert len(slices(trace, MODEL, "compute")) == 10
    many = made(10, p=64, elements=8, kind="prediction")  # the busiest process is not the busiest element
    assert slices(many, MODEL, "compute") == []


def test_tracks_are_named_by_program_processes_and_elements() -> None:
    names = {event["args"].get("name") for event in perfetto(made(1, p=64))["traceEvents"] if event["ph"] == "M"}
    program = "solver.py --grid 512 --out a b.npy"
    assert f"{program}: measured, p = 64 on 8 elements" in names
    assert f"{program}: predicted for machine desk, p = 64 on 8 elements" in names
