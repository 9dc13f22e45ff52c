"""Traces without a run: the same arguments give the same trace, and its sums are those of its rows.

The figures are drawn, but they hang together as a run's do: h is what the busiest process sends, the
parts of a superstep add up to its seconds, and a few supersteps are slow so that charts have something to show.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

MACHINE = {"name": "desk", "kind": "measured", "p": 4, "r": 2.5e9, "g": 3.2, "L": 18_500.0, "o": 1_900.0}
DEFAULT = {**MACHINE, "name": "default", "kind": "default"}
PATTERNS: list[tuple[str | None, str, str, int | None]] = [
    ("scatter rows", "sync", "solver.py:31", None),
    ("halo", "sync", "solver.py:48", 1),
    ("residual", "allreduce(op='add')", "solver.py:52", 0),
    (None, "sync", "mesh.py:117", 1),
]
SCHEDULES = ["slots", "latin", "two-phase", "slots"]


def made(
    supersteps: int = 10,
    p: int = 4,
    elements: int | None = None,
    kind: str = "trace",
    machine: dict[str, Any] | None = None,
    seed: int = 0,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A trace (or prediction) of `supersteps` supersteps of `p` processes."""
    draw = random.Random(f"{supersteps} {p} {seed}")
    machine = dict(machine or MACHINE)
    elements = min(p, 8) if elements is None else elements
    skew = [1 + 0.35 * draw.random() + (0.6 if pid == p // 3 else 0) for pid in range(p)]
    sent, received, worked = [0] * p, [0] * p, [0.0] * p
    bins = min(p, 128)
    traffic = [[0] * bins for _ in range(bins)]
    rows = [
        _row(draw, number, supersteps, p, elements, kind, machine, skew, (sent, received, worked, traffic))
        for number in range(supersteps)
    ]
    end_w = 0.0021 * draw.random()
    end = {"source": "solver.py:70", "w": end_w, "seconds": end_w * 1.1, "predicted": end_w}
    if kind == "prediction":
        end["seconds"] = end["predicted"]
    h = sum(max(row["h_sent"], row["h_received"]) for row in rows)
    flops = sum(row["w"] for row in rows) * machine["r"]
    predicted = sum(row["predicted"] for row in rows) + end["predicted"]
    seconds = sum(row["seconds"] for row in rows) + end["seconds"]
    per_element = [_element(draw, element, p, elements) for element in range(elements)]
    return {
        "format": "bsp-trace",
        "version": 1,
        "kind": kind,
        "program": ["solver.py", "--grid", "512", "--out", "a b.npy"],
        "date": "2025-03-14T09:26:53Z",
        "bsp": "0.1.0",
        "seed": seed,
        "processes": p,
        "elements": elements,
        "supersteps": supersteps,
        "words": h,
        "messages": sum(row["messages"] for row in rows),
        "seconds": seconds,
        "predicted_seconds": predicted,
        "peak_bytes": max(element["peak_bytes"] for element in per_element),
        "machine": machine,
        "per_superstep": rows,
        "end": end,
        "per_process": {"w": worked, "sent": sent, "received": received},
        "per_element": per_element,
        "traffic": {"bins": bins, "words": traffic},
        "choices": _choices(),
        "costings": {
            "max_supersteps": predicted,
            "max_async": predicted * 0.83,
            "volume": predicted * 0.71,
            "min_async": predicted * 0.64,
        },
        "classical": {
            "W": flops,
            "H": h,
            "S": supersteps,
            "g": machine["g"],
            "L": machine["L"],
            "total": flops + machine["g"] * h + machine["L"] * supersteps,
        },
        "balance": [
            f"g = {machine['g']} is below W/H = 41: computing outweighs communication.",
            f"L = {machine['L']:,.0f} is above W/S = 9,400: barriers outweigh computing; do more in each superstep.",
        ],
        "notes": list(notes),
    }


def _row(
    draw: random.Random,
    number: int,
    supersteps: int,
    p: int,
    elements: int,
    kind: str,
    machine: dict[str, Any],
    skew: list[float],
    sums: tuple[list[int], list[int], list[float], list[list[int]]],
) -> dict[str, Any]:
    sent, received, worked, traffic = sums
    pattern = 0 if number == 0 else 1 + number % 3
    label, call, source, choice = PATTERNS[pattern]
    base = 0.0008 * (1 + 0.3 * draw.random()) * (6 if number % 997 == 700 else 1) * (1 + number / max(supersteps, 20))
    work = [base * factor * (1 + 0.1 * draw.random()) for factor in skew]
    out, into, messages = [0] * p, [0] * p, 0
    for pid in range(p):
        for dest in {(pid + 1) % p, (pid - 1) % p} if pattern else {q for q in range(p) if pid == 0}:
            if dest != pid:
                words = int((60_000 if pattern == 0 else 900) * skew[pid] * (1 + draw.random()))
                out[pid] += words
                into[dest] += words
                messages += 1
                bins = len(traffic)
                traffic[pid * bins // p][dest * bins // p] += words
    for pid in range(p):
        sent[pid] += out[pid]
        received[pid] += into[pid]
        worked[pid] += work[pid]
    w, w_mean, h = max(work), sum(work) / p, max(max(out), max(into))
    communicate = (machine["L"] + machine["o"] * 2 + machine["g"] * h) / machine["r"]
    row: dict[str, Any] = {
        "superstep": number,
        "label": label,
        "call": call,
        "source": source,
        "w": w,
        "w_mean": w_mean,
        "w_by": work.index(w),
        "h_sent": max(out),
        "h_sent_by": out.index(max(out)),
        "h_received": max(into),
        "h_received_by": into.index(max(into)),
        "h_mean": sum(out) / p,
        "messages": messages,
        "predicted": w + communicate,
        "choice": choice,
    }
    if kind == "prediction":
        return {**row, "seconds": row["predicted"]}
    clock = random.Random(number)  # its own, so that a prediction and a trace differ in nothing else
    measured = communicate * (0.8 + 0.9 * clock.random()) + (0.004 if number % 613 == 400 else 0)
    wait = (w - w_mean) * (0.5 + 0.5 * clock.random())
    row |= {"seconds": w + measured, "compute": w, "wait": wait, "communicate": measured}
    return {**row, "schedule": None if elements == 1 else SCHEDULES[pattern]}


def _element(draw: random.Random, element: int, p: int, elements: int) -> dict[str, Any]:
    return {
        "element": element,
        "first_pid": -(-element * p // elements),
        "last_pid": -(-(element + 1) * p // elements) - 1,
        "peak_bytes": int(48e6 * (1 + 0.4 * draw.random()) * (1.7 if element == 0 else 1)),
        "host": f"node{element // 4}",
    }


def _choices() -> list[dict[str, Any]]:
    return [
        {
            "call": "allreduce(float64[7], op='add')",
            "chosen": "tree-4",
            "forced": False,
            "priced": {"one-phase": 2.9e-5, "two-phase": 3.6e-5, "tree-2": 4.4e-5, "tree-4": 2.2e-5, "tree-8": 2.4e-5},
            "times": 3,
        },
        {
            "call": "exchange of blocks",
            "chosen": "latin",
            "forced": True,
            "priced": {"slots": 0.00031, "latin": 0.00034, "bruck": 0.00091, "two-phase": 0.0012},
            "times": 7,
        },
    ]


MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "no superstep": lambda: made(supersteps=0, p=1),
    "10 supersteps, p = 1": lambda: made(10, p=1),
    "10 supersteps, p = 4": lambda: made(10, p=4),
    "10 supersteps, p = 64": lambda: made(10, p=64),
    "10 supersteps, p = 300": lambda: made(10, p=300),
    "5,000 supersteps, p = 4": lambda: made(5000, p=4),
    "prediction": lambda: made(10, p=64, elements=64, kind="prediction", machine=DEFAULT, notes=("unique: a bound",)),
    "prediction, p > P": lambda: made(10, p=64, kind="prediction"),
}
