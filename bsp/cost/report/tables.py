"""Predictions, sweeps and machines as text for a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bsp.cost.model import Cost, Machine
from bsp.cost.terms import OF_LEVELS, OF_MACHINE
from bsp.cost.units import counted, in_bytes, in_seconds, in_words

_WIDTH = 110
_MOST_ROWS = 30


def prediction_text(record: dict[str, Any]) -> str:
    """Return a prediction as text: sums, advice and notes, then one row for each place that ends supersteps."""
    machine, known = record["machine"], record["classical"]
    abstract = ", work counted by shape" if record.get("abstract") else ""
    p, elements = record["processes"], record["elements"]
    lines = [
        f"{' '.join(record['program']) or 'program'}: {counted(p, 'process', 'processes')} on "
        f"{counted(elements, 'element')} of {_named(machine)}{abstract}",
        f"predicted {in_seconds(record['seconds'])}   {counted(record['supersteps'], 'superstep')}   "
        f"{in_words(record['words'])} word{'s' * (record['words'] != 1)}   "
        f"{in_words(record['messages'])} message{'s' * (record['messages'] != 1)}   "
        f"{in_bytes(record['peak_bytes'])} an element",
        Cost(known["W"], known["H"], known["S"], machine=Machine(g=known["g"], L=known["L"])).classical(),
    ]
    crossing = [
        f"{in_words(count)} {name}" for name, count in zip(record["levels"], record["words_by_level"], strict=True)
    ]
    lines.append(f"words of all processes: {', '.join(crossing)}")
    lines += record["balance"]
    lines += [f"note: {note}" for note in record.get("notes", ())]
    return "\n".join(lines) + "\n" + _rendered(_places(record))


def _named(machine: dict[str, Any]) -> str:
    """Return a machine's name, and where its figures come from."""
    return "a default machine" if machine["kind"] == "default" else f"{machine['name']} ({machine['kind']})"


def _places(record: dict[str, Any]) -> Table:
    """Return the table of supersteps, those that end at the same place in one row."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["per_superstep"]:
        found.setdefault((row["label"] or row["call"], row["source"]), []).append(row)
    table = _table("superstep", "source", "times", "w", "h", "messages", "seconds")
    ranked = sorted(found.items(), key=lambda item: -sum(row["seconds"] for row in item[1]))
    shown = {place for place, _ in ranked[:_MOST_ROWS]}
    rest = [row for place, rows in found.items() if place not in shown for row in rows]
    for (what, source), rows in [(place, rows) for place, rows in found.items() if place in shown]:
        _row(table, what, source, rows)
    if rest:
        _row(table, f"{len(found) - len(shown)} more places", "", rest)
    end = record["end"]
    table.add_row("after the last", "", "", in_seconds(end["w"]), "", "", in_seconds(end["predicted"]))
    return table


def _row(table: Table, what: str, source: str, rows: Sequence[dict[str, Any]]) -> None:
    h = sum(max(row["h_sent"], row["h_received"]) for row in rows)
    table.add_row(
        what, source, str(len(rows)), in_seconds(sum(row["w"] for row in rows)), in_words(h),
        in_words(sum(row["messages"] for row in rows)), in_seconds(sum(row["seconds"] for row in rows)),
    )  # fmt: skip


def sweep_text(records: Sequence[dict[str, Any]]) -> str:
    """Return the scaling curve as text: time, and speedup and efficiency relative to the first p."""
    table = _table("p", "elements", "predicted", "speedup", "efficiency", "supersteps", "words", "messages", "memory")
    first = records[0]
    for record in records:
        speedup = first["seconds"] / record["seconds"] if record["seconds"] else 1.0
        efficiency = speedup * first["processes"] / record["processes"]
        table.add_row(
            str(record["processes"]), str(record["elements"]), in_seconds(record["seconds"]), f"{speedup:.2f}",
            f"{efficiency:.0%}", str(record["supersteps"]), in_words(record["words"]), in_words(record["messages"]),
            in_bytes(record["peak_bytes"]),
        )  # fmt: skip
    machine = first["machine"]
    notes = dict.fromkeys(note for record in records for note in record.get("notes", ()))
    head = f"{' '.join(first['program'])} on {_named(machine)}\n"
    return head + "".join(f"note: {note}\n" for note in notes) + _rendered(table)


def probe_text(profile: dict[str, Any]) -> str:
    """Return a measured machine as text."""
    machine = profile["machine"]
    r = machine["r"]
    table = _table("block", *[f"g {level['name']}, ns/word" for level in profile["levels"]])
    for pairs in zip(*[level["blocks"] for level in profile["levels"]], strict=True):
        size = pairs[0][0]
        shown = f"{size} B" if size < 1024 else f"{size >> 10} KiB"
        table.add_row(shown, *[f"{g / r * 1e9:.3g}" for _, g in pairs])
    intervals = ", ".join(
        f"{name} {in_seconds(low / r)}..{in_seconds(high / r)}" for name, (low, high) in profile["intervals"].items()
    )
    rates = ", ".join(f"{name} {value / 1e9:.3g}" for name, value in profile["rates"].items() if name != "bandwidth")
    errors = ", ".join(f"{name} {error:+.0%}" for name, error in profile.get("held_out", {}).items())
    lines = [
        f"{profile['name']}: (p, r, g, L) = "
        f"({machine['p']}, {r / 1e9:.3g} Gflop/s, {machine['g']:.3g}, {machine['L']:.3g})",
        *[f"{term.name}: {in_seconds(machine[term.name] / r)} {term.meaning}" for term in OF_MACHINE],
        *[
            f"{term.name} of each level: {', '.join(in_seconds(level[term.name] / r) for level in profile['levels'])}"
            for term in OF_LEVELS
        ],
        f"Gflop/s, all busy: {rates}; bandwidth {in_bytes(profile['rates']['bandwidth'])}/s; "
        f"{machine['slowdown']:.2f} times slower than alone; {in_bytes(machine['memory'])} an element",
        f"95 % intervals: {intervals}",
        f"held out, predicted over measured at its worst: {errors}",
    ]
    return "\n".join(lines) + "\n" + _rendered(table)


def machines_text(known: Sequence[tuple[str, dict[str, Any] | Exception]]) -> str:
    """Return the machines that `--machine` takes by name as text; then what is wrong with files that are none."""
    table = _table("name", "kind", "p", "r, Gflop/s", "g", "L", "o", "when")
    wrong = [str(found) for _, found in known if isinstance(found, Exception)]
    for name, found in known:
        if isinstance(found, Exception):
            continue
        machine = found["machine"]
        table.add_row(
            name, found["kind"], str(machine["p"]), f"{machine['r'] / 1e9:.3g}", f"{machine['g']:.3g}",
            f"{machine['L']:.3g}", f"{machine['o']:.3g}", found.get("measured", {}).get("date", "")[:10],
        )  # fmt: skip
    return "\n".join([_rendered(table, _WIDTH + max(len(name) for name, _ in known)), *wrong])


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for k, name in enumerate(columns):
        table.add_column(
            name, justify="left" if name in ("superstep", "source", "name", "kind") else "right", no_wrap=k > 0
        )
    return table


def _rendered(table: Table, width: int = _WIDTH) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
