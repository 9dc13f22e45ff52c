"""The report page: a trace as one self-contained HTML file that works offline in any browser.

The page is `report.html` with the data put into it.  It uses no framework and fetches nothing; its own
Content-Security-Policy forbids it.  Sums are computed here, where they are tested, and the page draws them.  Rows are
stored as columns, which keeps a page of 5,000 supersteps under a megabyte.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

from bsp.cost.record.reading import Parts, parts
from bsp.cost.whole_file import write_text
from bsp.errors import TraceError

_HEAD = [
    "kind",
    "program",
    "date",
    "abstract",
    "bsp",
    "seed",
    "processes",
    "elements",
    "supersteps",
    "words",
    "levels",
    "words_by_level",
    "messages",
    "seconds",
    "predicted_seconds",
    "peak_bytes",
    "machine",
    "end",
    "per_process",
    "per_element",
    "traffic",
    "choices",
    "costings",
    "classical",
    "balance",
    "notes",
]
_COLUMNS = [
    "superstep",
    "label",
    "call",
    "source",
    "w",
    "w_mean",
    "w_by",
    "h_sent",
    "h_sent_by",
    "h_received",
    "h_received_by",
    "h_mean",
    "words_by_level",
    "messages",
    "seconds",
    "predicted",
    "choice",
    "schedule",
]
_HOLE = re.compile("__BSP_(TITLE|DATA)__")


def render(trace: dict[str, Any], prediction: dict[str, Any] | None = None) -> str:
    """Return the page of `trace`; a `prediction` made before the run is shown beside it as a third series.

    Both must fit the schema, as those from `load` do.  Equal arguments give equal bytes.
    Raises TraceError if `prediction` is no prediction, or if `trace` is no trace of a run.
    """
    title = f"{' '.join(trace['program'])}: {'cost of a run' if trace['kind'] == 'trace' else 'predicted cost'}"
    # a browser ends a script at "</script" and reads "<!--" as a comment: the data must not contain "<"
    data = json.dumps(page(trace, prediction), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    template = resources.files("bsp.cost.report").joinpath("report.html").read_text(encoding="utf-8")
    filling = {"TITLE": html.escape(title), "DATA": data}
    return _HOLE.sub(lambda hole: filling[hole[1]], template)


def write(trace: dict[str, Any], path: str | os.PathLike[str], prediction: dict[str, Any] | None = None) -> None:
    """Write the page to `path`, completely or not at all; on an error an existing file stays as it is."""
    write_text(render(trace, prediction), path)


def page(trace: dict[str, Any], prediction: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the data of the page: the trace with its rows as columns, and the sums that it shows."""
    rows = trace["per_superstep"]
    split = parts(trace)
    before = None if prediction is None else _before(trace, prediction)
    given: dict[str, Any] = {key: trace[key] for key in _HEAD if key in trace}
    given["rows"] = {key: [row.get(key) for row in rows] for key in _COLUMNS}
    for name in Parts._fields:
        given["rows"][name] = [getattr(part, name) for part in split or ()]
    given["split"] = split is not None
    given["before"] = before
    early = before["rows"] if before else [None] * len(rows)
    given["groups"] = {
        "source": _grouped(trace, split, early, lambda row: row["source"]),
        "label": _grouped(trace, split, early, lambda row: row["label"] or ""),
        "call": _grouped(trace, split, early, lambda row: row["call"]),
    }
    return given


def _grouped(
    trace: dict[str, Any],
    split: list[Parts] | None,
    before: list[float | None],
    name: Callable[[dict[str, Any]], str],
) -> list[dict[str, Any]]:
    """Return the sums over all supersteps of one name, in the order in which names first appear."""
    groups: dict[str, dict[str, Any]] = {}
    for row, part, early in zip(trace["per_superstep"], split or [Parts(0, 0, 0)] * len(before), before, strict=True):
        summed = {
            "times": 1,
            "seconds": row["seconds"],
            "predicted": row["predicted"],
            "before": early or 0,
            "words": max(row["h_sent"], row["h_received"]),
            "messages": row["messages"],
            **part._asdict(),
        }
        group = groups.setdefault(name(row), dict.fromkeys(summed, 0))
        for key, value in summed.items():
            group[key] += value
    return [{"name": key, **group} for key, group in groups.items()]


def _before(trace: dict[str, Any], prediction: dict[str, Any]) -> dict[str, Any]:
    """Return the prediction's seconds by row of `trace`, and how the run differs from what was predicted."""
    if trace["kind"] != "trace":
        raise TraceError("a prediction has no run to stand beside: give the trace of a run first")
    if prediction["kind"] != "prediction":
        raise TraceError("what should be the prediction is a trace of a run: `bsprun --predict` makes a prediction")
    seconds = [row["seconds"] for row in prediction["per_superstep"]][: trace["supersteps"]]
    return {
        "seconds": prediction["seconds"],
        "machine": prediction["machine"]["name"],
        "date": prediction["date"],
        "rows": seconds + [None] * (trace["supersteps"] - len(seconds)),
        "end": prediction["end"]["seconds"],
        "differences": list(_differences(trace, prediction)),
    }


def _differences(trace: dict[str, Any], prediction: dict[str, Any]) -> Iterable[str]:
    named: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
        ("program", lambda one: " ".join(one["program"])),
        ("p", lambda one: one["processes"]),
        ("elements", lambda one: one["elements"]),
        ("machine", lambda one: one["machine"]["name"]),
        ("supersteps", lambda one: one["supersteps"]),
        ("words", lambda one: one["words"]),
        ("seed", lambda one: one.get("seed", 0)),
    ]
    for name, of in named:
        if of(trace) != of(prediction):
            yield f"{name}: {_plain(of(prediction))} predicted, {_plain(of(trace))} run"


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
