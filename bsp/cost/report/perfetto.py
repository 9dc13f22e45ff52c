"""Traces as Chrome trace events, for ui.perfetto.dev and chrome://tracing.

A trace contains supersteps and not what each element did at each moment.  So there are two tracks on one clock: the run
as measured, and the same supersteps as the model prices them.  The model is wrong where the tracks drift apart.  Each
superstep is a slice that contains one slice of computing and one of communication.

Times are whole nanoseconds until they are written in microseconds, the unit of the format, so that a slice ends exactly
where the next begins: viewers drop slices that overlap by a rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bsp.cost.record.reading import Parts, parts
from bsp.cost.units import counted

PROGRAM, MODEL = 1, 2
_NANO = 10**9


def perfetto(trace: dict[str, Any]) -> dict[str, Any]:
    """Return `{"traceEvents": [...]}`: metadata first, then slices and counters in the order of time.

    A prediction has only the track of the model.
    """
    measured = trace["kind"] == "trace"
    program = " ".join(trace["program"])
    on = f"p = {trace['processes']} on {counted(trace['elements'], 'element')}"
    events = []
    if measured:
        events += _named(PROGRAM, f"{program}: measured, {on}", "supersteps")
    events += _named(MODEL, f"{program}: predicted for machine {trace['machine']['name']}, {on}", "supersteps")
    timed = (_program(trace) if measured else []) + _model(trace)
    events += sorted(timed, key=lambda event: event["ts"])  # stable: a slice stays before what it holds
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"program": program, "date": trace["date"], "kind": trace["kind"], "bsp": trace.get("bsp", "")},
    }


def _named(pid: int, process: str, thread: str) -> list[dict[str, Any]]:
    common = {"ph": "M", "pid": pid, "tid": 1, "ts": 0}
    return [
        {**common, "name": "process_name", "args": {"name": process}},
        {**common, "name": "process_sort_index", "args": {"sort_index": pid}},
        {**common, "name": "thread_name", "args": {"name": thread}},
    ]


def _program(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of the measured track, with the counters."""
    events: list[dict[str, Any]] = []
    now = 0
    split: Sequence[Parts | None] = parts(trace) or [None] * trace["supersteps"]
    for row, part in zip(trace["per_superstep"], split, strict=True):
        lasted = round(row["seconds"] * _NANO)
        computed = None if part is None else round((part.compute + part.wait) * _NANO)
        events += _superstep(PROGRAM, now, lasted, computed, row)
        events += _counters(PROGRAM, now, row)
        now += lasted
    return events + _end(PROGRAM, now, trace["end"]["seconds"], trace)


def _model(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of the predicted track; for a prediction with the counters.

    Computing lasts as long as on the busiest element.  That is w, which is the busiest process's, only if each process
    has an element of its own.
    """
    alone = trace["processes"] == trace["elements"]
    events: list[dict[str, Any]] = []
    now = 0
    for row in trace["per_superstep"]:
        lasted = round(row["predicted"] * _NANO)
        computed = row.get("compute", row["w"] if alone else None)
        events += _superstep(MODEL, now, lasted, None if computed is None else round(computed * _NANO), row)
        if trace["kind"] == "prediction":
            events += _counters(MODEL, now, row)
        now += lasted
    return events + _end(MODEL, now, trace["end"]["predicted"], trace)


def _superstep(pid: int, start: int, lasted: int, computed: int | None, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the slice of one superstep and, if its computing time is given, slices of computing and communication."""
    args = {
        "superstep": row["superstep"],
        "call": row["call"],
        "source": row["source"],
        "words (h)": max(row["h_sent"], row["h_received"]),
        "h sent": f"{row['h_sent']} by process {row['h_sent_by']}",
        "h received": f"{row['h_received']} by process {row['h_received_by']}",
        "messages": row["messages"],
        "w, busiest (s)": row["w"],
        "busiest process": row["w_by"],
        "w, mean (s)": row["w_mean"],
        "predicted (s)": row["predicted"],
    }
    if pid == PROGRAM:
        args |= {"measured (s)": row["seconds"], "mean wait (s)": row.get("wait"), "schedule": row.get("schedule")}
    args = {name: value for name, value in args.items() if value is not None}
    events = [_slice(pid, row["label"] or row["call"], "superstep", start, lasted, args)]
    if computed is not None:
        computed = min(computed, lasted)
        events.append(_slice(pid, "compute", "compute", start, computed, {}))
        events.append(_slice(pid, "communicate", "communicate", start + computed, lasted - computed, {}))
    return events


def _end(pid: int, start: int, seconds: float, trace: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the slice after the last boundary, and counters set back to 0."""
    args = {"source": trace["end"]["source"], "predicted (s)": trace["end"]["predicted"]}
    events = [_slice(pid, "after the last superstep", "end", start, round(seconds * _NANO), args)]
    if (pid == PROGRAM) == (trace["kind"] == "trace"):
        events += _counters(pid, start, {"h_sent": 0, "h_received": 0, "messages": 0})
    return events


def _slice(pid: int, name: str, category: str, start: int, lasted: int, args: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": start / 1000, "dur": lasted / 1000}
    return {"name": name, "cat": category, "ph": "X", "pid": pid, "tid": 1, **times, "args": args}


def _counters(pid: int, start: int, row: dict[str, Any]) -> list[dict[str, Any]]:
    common = {"ph": "C", "pid": pid, "tid": 1, "ts": start / 1000}
    return [
        {**common, "name": "h, words", "args": {"sent": row["h_sent"], "received": row["h_received"]}},
        {**common, "name": "messages", "args": {"messages": row["messages"]}},
    ]
