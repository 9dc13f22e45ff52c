"""Reading of traces and predictions, with a one-line error for files that are neither.

The schema beside this module is the contract.  The check implements the keywords that the schema uses and no others:
reading then needs no package, and a key added to the schema is checked without a change here.  A test compares the list
of keywords with the schema.  Further checks cover what a schema cannot express, that lists fit each other, so code that
uses a dict from `load` may index without checks.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from bsp.errors import TraceError

FORMAT, VERSION = "bsp-trace", 1
KEYWORDS = {"type", "const", "enum", "minimum", "required", "properties", "additionalProperties", "items"}
ANNOTATIONS = {"$schema", "title", "description"}

_WRITE = "`bsprun --trace FILE` writes one"
_AGAIN = "write it again with `bsprun --trace FILE`"


class Parts(NamedTuple):
    """The parts of one superstep's seconds on the mean element; they add up to `seconds`."""

    compute: float
    wait: float
    communicate: float


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the trace or prediction in the file `path`, checked against the schema.

    Raises TraceError: one line with the file, what is wrong with it and what to do.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file; {_WRITE}") from None
    except IsADirectoryError:
        raise TraceError(f"{path}: is a folder; name the trace file in it") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is no text, so no trace; {_WRITE}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise TraceError(f"{path}: cannot be read: {reason}") from None
    try:
        trace: dict[str, Any] = json.loads(text, parse_constant=_no_number)
    except _NoNumber as error:
        raise TraceError(f"{path}: holds {error}, which is no JSON; {_AGAIN}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: {_why_no_json(text, error)}") from None
    fault = fault_of(trace)
    if fault:
        raise TraceError(f"{path}: {fault}")
    return trace


def fault_of(trace: object) -> str | None:
    """Return why `trace` is no trace of this version and what to do, or None if it is one."""
    if isinstance(trace, dict) and trace.get("format") == "bsp-sweep":
        return "is a series of predictions; `bsprun -p P --predict --json` writes one, which a page shows"
    if isinstance(trace, dict) and "traceEvents" in trace:
        return "is a trace for Perfetto's viewer; leave out --trace-format perfetto for one that bsp reads"
    if not isinstance(trace, dict) or trace.get("format") != FORMAT:
        return f"is JSON, but no {FORMAT}; {_WRITE}"
    version = trace.get("version")
    if type(version) is not int or version != VERSION:
        writer = f" (written by bsp {trace['bsp']})" if isinstance(trace.get("bsp"), str) else ""
        return f"is version {_shown(version)} of {FORMAT}{writer}, this bsp reads version {VERSION}; {_AGAIN}"
    fault = _fault(trace, _schema(), "") or _misfit(trace)
    return fault and f"{fault}; {_AGAIN}"


def parts(trace: dict[str, Any]) -> list[Parts] | None:
    """Return the parts of every superstep's time, or None if the file does not contain them.

    The busiest element computes for `compute` seconds, during which the mean element waits for `wait` seconds and
    computes for the rest.  A prediction without these keys contains them if every process has an element of its own,
    because then the busiest process is the busiest element.
    """
    rows = trace["per_superstep"]
    if all("compute" in row and "communicate" in row for row in rows):
        return [_parts(row["compute"], row.get("wait", 0.0), row["communicate"]) for row in rows]
    if trace["kind"] == "prediction" and trace["processes"] == trace["elements"]:
        return [_parts(row["w"], row["w"] - row["w_mean"], row["predicted"] - row["w"]) for row in rows]
    return None


def _parts(busiest: float, wait: float, communicate: float) -> Parts:
    wait = min(max(wait, 0.0), busiest)
    return Parts(busiest - wait, wait, max(communicate, 0.0))


# ------------------------------------------------------------------------------------- JSON


class _NoNumber(Exception):
    """Raised for NaN or Infinity, which Python's reader accepts although they are no JSON."""


def _no_number(name: str) -> float:
    raise _NoNumber(name)


def _why_no_json(text: str, error: Exception) -> str:
    """Return what is wrong; a file cut short and a file of another kind need different actions."""
    body = text.strip()
    if not body:
        return f"is empty; {_AGAIN}"
    if body.startswith("{") and isinstance(error, json.JSONDecodeError):
        if not body.endswith("}") or error.pos >= len(text.rstrip()):
            return f"is cut short after {len(text)} characters; {_AGAIN}"
        return f"is damaged JSON: {error.msg} in line {error.lineno}, column {error.colno}; {_AGAIN}"
    return f"is no JSON, so no trace; {_WRITE}"


# ----------------------------------------------------------------------------------- schema


@cache
def _schema() -> dict[str, Any]:
    text = resources.files("bsp.cost.record").joinpath("trace.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _is_number(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _is_integer(value: object) -> bool:
    """Return whether JSON takes a value for an integer: 2.0 is one, true is not."""
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_TYPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "null": ("null", lambda value: value is None),
    "number": ("a number", _is_number),
    "integer": ("an integer", _is_integer),
}


def _shown(value: object) -> str:
    """Return `value` as JSON on one line, cut to 40 characters."""
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _fault(value: Any, schema: dict[str, Any], at: str) -> str | None:
    """Return the first place where `value` breaks `schema`, or None; `at` is the place of `value` in the file."""
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_TYPES[kind][1](value) for kind in kinds):
            return f"{at} is {_shown(value)}, not {' or '.join(_TYPES[kind][0] for kind in kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} is {_shown(value)}, none of {', '.join(schema['enum'])}"
    if "const" in schema and (value != schema["const"] or isinstance(value, bool)):
        return f"{at} is {_shown(value)}, not {_shown(schema['const'])}"
    if "minimum" in schema and value < schema["minimum"]:
        return f"{at} is {_shown(value)}, less than {schema['minimum']}"
    if isinstance(value, dict):
        return _fault_in_object(value, schema, at)
    if isinstance(value, list) and "items" in schema:
        faults = (_fault(item, schema["items"], f"{at}[{index}]") for index, item in enumerate(value))
        return next(filter(None, faults), None)
    return None


def _fault_in_object(value: dict[str, Any], schema: dict[str, Any], at: str) -> str | None:
    for key in schema.get("required", ()):
        if key not in value:
            return f"{at or 'the trace'} lacks {key!r}"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    for key, item in value.items():
        fault = _fault(item, known.get(key, others), f"{at}.{key}" if at else key)
        if fault:
            return fault
    return None


def _misfit(trace: dict[str, Any]) -> str | None:
    """Return the first two parts that each fit the schema and do not fit each other, or None."""
    rows, p = trace["per_superstep"], trace["processes"]
    if len(rows) != trace["supersteps"]:
        return f"per_superstep has {len(rows)} rows for {trace['supersteps']} supersteps"
    for key in ("w", "sent", "received"):
        if len(trace["per_process"][key]) != p:
            return f"per_process.{key} has {len(trace['per_process'][key])} entries for {p} processes"
    bins, words = trace["traffic"]["bins"], trace["traffic"]["words"]
    if not 1 <= bins <= p:
        return f"traffic.bins is {bins} for {p} processes"
    if len(words) != bins or any(len(row) != bins for row in words):
        return f"traffic.words is not {bins} x {bins}"
    for index, row in enumerate(rows):
        choice = row.get("choice")
        if choice is not None and not 0 <= choice < len(trace["choices"]):
            return f"per_superstep[{index}].choice is {choice}, choices has {len(trace['choices'])} entries"
    return None
