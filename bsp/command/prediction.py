"""The launcher's part of predictions and traces: it runs predictions and writes records in the format asked for."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from bsp.command.launch import Launch, start
from bsp.cost.record.trace import write
from bsp.cost.whole_file import write_text
from bsp.errors import LaunchError


def forecast(
    jobs: Sequence[Launch], sweep: bool, as_json: bool, trace: str | None, trace_format: str, report: str | None
) -> int:
    """Predict each job in a process of its own; print a table, or JSON.  A trace and a report are of the last one.

    Return 0, or the status of the first job that fails, which ends the series: what came before it is printed.
    """
    records: list[dict[str, Any]] = []
    status = 0
    with tempfile.TemporaryDirectory(prefix="bsprun-") as folder:
        for job in jobs:
            job.trace = os.path.join(folder, "record")
            status = start(job)
            if status:
                break
            records.append(_record(job))
    if not records:
        return status
    last = records[-1]
    if as_json:
        found = {"format": "bsp-sweep", "version": 1, "predictions": records} if sweep else last
        print(json.dumps(found, indent=1))
    else:
        from bsp.cost.report.tables import prediction_text, sweep_text

        print(sweep_text(records) if sweep else prediction_text(last))
    if (len(records) > 1 or status) and (trace or report):
        print(f"bsprun: the record is that of {last['processes']} processes, the last of the sweep", file=sys.stderr)
    _write(last, trace, trace_format, report)
    return status


def deliver(job: Launch, trace: str | None, trace_format: str, report: str | None) -> None:
    """Write the record of a run, which element 0 has left in the file `job.trace`, as a trace, a report or both."""
    _write(_record(job), trace, trace_format, report)


def _record(job: Launch) -> dict[str, Any]:
    """Return the record that a job has left, with the program as bsprun's command line has it."""
    assert job.trace is not None
    with open(job.trace) as file:
        found: dict[str, Any] = json.load(file)
    return found | {"program": job.asked}


def _write(found: dict[str, Any], trace: str | None, trace_format: str, report: str | None) -> None:
    """Write a record in the forms asked for.  Raises LaunchError where a file cannot be written."""
    try:
        _write_files(found, trace, trace_format, report)
    except OSError as wrong:
        raise LaunchError(f"'{wrong.filename}': cannot be written: {wrong.strerror}") from wrong


def _write_files(found: dict[str, Any], trace: str | None, trace_format: str, report: str | None) -> None:
    if trace is not None and trace_format == "perfetto":
        from bsp.cost.report.perfetto import perfetto

        write_text(json.dumps(perfetto(found)), trace)
    elif trace is not None:
        write(found, trace)
    if report is not None:
        from bsp.cost.report.page import write as write_report

        write_report(found, report)
        print(f"bsprun: report in {report}", file=sys.stderr)
