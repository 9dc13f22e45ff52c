"""Machine files: a machine and how it was measured, or where its figures come from, as readable TOML.

The launcher reads them and passes the contents to the elements, so this module does not import NumPy.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bsp.cost.terms import OF_LEVELS, OF_MACHINE
from bsp.errors import MachineError
from bsp.hosts.listing import Host, in_words, placed

if TYPE_CHECKING:
    from bsp.cost.model import Machine

FORMAT, VERSION = "bsp-machine", 1
READY_MADE = Path(__file__).parent / "machines"
_ASSUMED = "gigabit"  # the ready-made machine that hosts are taken for which were not measured
RATES = ("blas1", "blas2", "blas3", "narrow", "triangle", "elementwise", "functions", "bandwidth")
LATER = ("functions", "narrow", "triangle")  # rates that files of older versions lack
_KEYS = {
    "": (
        "format",
        "version",
        "kind",
        "name",
        "machine",
        "rates",
        "levels",
        "measured",
        "alone",
        "intervals",
        "held_out",
    ),
    "[machine] ": ("p", "r", "memory", "slowdown", *(term.name for term in OF_MACHINE)),
    "[[levels]] ": ("name", "ports", "blocks", *(term.name for term in OF_LEVELS)),
}

Profile = dict[str, Any]  # the checked contents of a machine file


def cache() -> Path:
    """Return the folder of measured machines: $BSP_MACHINES, or one in the user's cache folder.

    Raises MachineError if there is neither.
    """
    named = os.environ.get("BSP_MACHINES")
    if named:
        return Path(named)
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(given) if given else Path.home() / ".cache") / "nonstop-bsp" / "machines"
    except RuntimeError:
        raise MachineError("there is no home folder: set BSP_MACHINES to a folder for measured machines") from None


def read(path: str | os.PathLike[str]) -> Profile:
    """Return the contents of a machine file.  Raises MachineError with what is wrong and what to do."""
    where = f"machine file '{os.fspath(path)}'"
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # editors may put a byte order mark first
        found = json.loads(json.dumps(tomllib.loads(text), default=str))  # elements get it as JSON: dates as text
    except FileNotFoundError:
        ready = ", ".join(sorted(known.stem for known in READY_MADE.glob("*.toml")))
        raise MachineError(f"{where} does not exist; make one with `bsp probe -o`, or name one of: {ready}") from None
    except (OSError, UnicodeDecodeError) as wrong:
        raise MachineError(f"{where} cannot be read: {wrong}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise MachineError(f"{where} is damaged: {wrong}; make a new one with `bsp probe -o`") from None
    return checked(found, where)


def checked(found: Mapping[str, Any], where: str) -> Profile:
    """Return `found` if it is a machine's profile.  Raises MachineError with the place and what belongs there."""
    if found.get("format") != FORMAT:
        raise MachineError(f'{where} is no machine file: it does not say format = "{FORMAT}"; see `bsp probe -o`')
    if not _is_count(found.get("version")) or found["version"] != VERSION:
        raise MachineError(
            f"{where} is of version {found.get('version')!r}, not {VERSION}; probe anew with `bsp probe`"
        )
    kind = found.get("kind")
    if kind not in ("measured", "imagined"):
        raise MachineError(f'{where}: kind = {kind!r}; it is "measured" or "imagined"')
    machine = _table(found, "machine", where)
    _known(found, "", where)
    _text(found, f"{where}:")
    _known(machine, "[machine] ", where)
    elements = machine.get("p")
    if not _is_count(elements):
        raise MachineError(f"{where}: [machine] p = {elements!r}; the number of elements, an integer of 1 or more")
    _positive(machine, "r", f"{where}: [machine]")
    for name in [term.name for term in OF_MACHINE if term.required or machine.get(term.name, 0) != 0]:
        _positive(machine, name, f"{where}: [machine]")
    if machine.get("memory", 0) != 0:
        _positive(machine, "memory", f"{where}: [machine]")
    if "slowdown" in machine:
        _positive(machine, "slowdown", f"{where}: [machine]")
        if machine["slowdown"] < 1:
            raise MachineError(f"{where}: [machine] slowdown = {machine['slowdown']!r}; a number of 1 or more")
    if kind == "measured":
        measured = _table(found, "measured", where)
        for name in ("host", "cpu", "mpiexec"):
            if not isinstance(measured.get(name), str):
                raise MachineError(f"{where}: [measured] {name} = {measured.get(name)!r}; a text")
        if not isinstance(measured.get("date", ""), str):
            raise MachineError(f"{where}: [measured] date = {measured['date']!r}; a text")
    if "rates" in found:
        rates = _table(found, "rates", where)
        for name in RATES:
            if name in LATER and name not in rates:
                continue  # a file of an older version
            _positive(rates, name, f"{where}: [rates]")
        if unknown := sorted(set(rates) - set(RATES)):
            raise MachineError(f"{where}: [rates] {unknown[0]} is no rate; they are {', '.join(RATES)}")
    levels = found.get("levels", [])
    if not isinstance(levels, list) or not all(isinstance(level, dict) for level in levels) or len(levels) == 1:
        raise MachineError(f"{where}: [[levels]] are two tables or more, innermost first, or none")
    for k, level in enumerate(levels):
        place = f"{where}: [[levels]] number {k + 1},"
        _known(level, "[[levels]] ", where)
        _text(level, place)
        for name in [term.name for term in OF_LEVELS if term.required or level.get(term.name, 0) != 0]:
            _positive(level, name, place)
        ports = level.get("ports", 1)
        listed = ports if isinstance(ports, list) and ports else [ports]
        if not all(map(_is_count, listed)):
            raise MachineError(
                f"{place} ports = {ports!r}; elements that share one, or a list with one number for each"
            )
        blocks = level.get("blocks", [])
        sizes = [size for size, _ in blocks] if _pairs(blocks) else [0]
        if sizes != sorted(set(sizes)) or not all(_is_rate(number) for pair in blocks for number in pair):
            raise MachineError(f"{place} blocks: pairs [bytes, g], both finite and above 0, by ascending size")
    return dict(found)


def _pairs(blocks: Any) -> bool:
    return isinstance(blocks, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(x) in (int, float) for x in pair) for pair in blocks
    )


def _is_rate(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _known(table: Mapping[str, Any], name: str, where: str) -> None:
    """Refuse a key that no machine file has: a mistyped term would silently not be used."""
    if unknown := sorted(set(table) - set(_KEYS[name])):
        raise MachineError(f"{where}: {name}{unknown[0]} is unknown; there are {', '.join(_KEYS[name])}")


def _text(table: Mapping[str, Any], place: str) -> None:
    if not isinstance(table.get("name", ""), str):
        raise MachineError(f"{place} name = {table['name']!r}; a text")


def _table(found: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    table = found.get(name)
    if not isinstance(table, dict):
        raise MachineError(f"{where}: [{name}] is missing")
    return table


def _positive(table: Mapping[str, Any], name: str, place: str) -> None:
    if name not in table:
        raise MachineError(f"{place} {name} is missing")
    value = table[name]
    if not _is_rate(value):
        raise MachineError(f"{place} {name} = {value!r}; a number above 0")


def cached() -> Iterator[tuple[Path, Profile | MachineError]]:
    """Yield the files of the cache by name, each with its profile, or the error if it has none."""
    for path in sorted(cache().glob("*.toml")):
        try:
            yield path, read(path)
        except MachineError as wrong:
            yield path, wrong


def here(mpiexec: str | None) -> dict[str, str]:
    """Return the host, processor and mpiexec here; a measured profile is of this machine if it has the same."""
    return {
        "host": socket.gethostname(),
        "cpu": _cpu(),
        "mpiexec": os.path.realpath(mpiexec) if mpiexec else "none",
    }


def host_id() -> str:
    """Return the name of this host and its processor, in the form of `Machine.host`."""
    return f"{socket.gethostname()} ({_cpu()})"


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cache_name(elements: int, hosts: str = "") -> str:
    """Return the name of the cache's file for this host, or for hosts 'h1:4,h2:4', and a number of elements."""
    if not hosts:
        return f"{socket.gethostname()}-{elements}.toml"
    digest = hashlib.sha256(hosts.encode()).hexdigest()[:8]
    return f"{hosts.count(',') + 1}-hosts-{digest}-{elements}.toml"


def matching(elements: int, mpiexec: str | None, hosts: str = "") -> Profile | None:
    """Return the cached profile of this host, or of hosts 'h1:4,h2:4', with this MPI and so many elements, or None."""
    try:
        path = cache() / cache_name(elements, hosts)
        if not os.path.exists(path):
            return None
        profile = read(path)
    except MachineError:
        return None  # `bsp probe --list` shows what is wrong with it
    measured = profile.get("measured", {})
    now = here(mpiexec) if not hosts else {"hosts": hosts, "mpiexec": here(mpiexec)["mpiexec"]}
    fits = all(measured.get(key) == value for key, value in now.items())
    return profile if fits and profile["machine"]["p"] == elements else None


def fitting(elements: int, hosts: list[Host] | None) -> Profile | None:
    """Return the profile measured here, or of these hosts; else what is assumed of several hosts; else None."""
    from bsp.host import find_mpiexec

    found = matching(elements, find_mpiexec(), in_words(hosts))
    if found is not None or hosts is None or len(places := placed(hosts, elements)) == 1:
        return found
    counts = [count for _, count in places]
    profile = read(READY_MADE / f"{_ASSUMED}.toml") | {"kind": "default"}
    profile["machine"]["p"] = elements
    profile["levels"][-1]["ports"] = counts[0] if len(set(counts)) == 1 else counts
    return profile


def named(name: str) -> Profile:
    """Return the profile of a file, a ready-made machine, a cached one, or NETWORK:P of McColl's Table 1.1.

    Raises MachineError for another name.
    """
    if os.path.exists(name) or os.sep in name or name.endswith(".toml"):
        return read(name)
    if (READY_MADE / f"{name}.toml").exists():
        return read(READY_MADE / f"{name}.toml")
    network, _, size = name.partition(":")
    if size:
        from bsp.cost.model import NETWORKS, on_network

        if network not in NETWORKS or not size.isdecimal() or int(size) < 1:
            raise MachineError(
                f"--machine {name}: NETWORK:P with a network of {', '.join(NETWORKS)} and P of 1 or more"
            )
        return of_machine(on_network(network, int(size)))
    kept = cache() / f"{name}.toml"
    return read(kept if os.path.exists(kept) else name)


def of_machine(machine: Machine) -> Profile:
    """Return the profile of a machine."""
    levels = [
        {"name": level.name, "ports": _listed(level.ports), "blocks": [list(pair) for pair in level.blocks]}
        | {term.name: rate for term in OF_LEVELS if (rate := getattr(level, term.name)) or term.required}
        for level in machine.levels
    ]
    return {
        "format": FORMAT, "version": VERSION, "kind": machine.kind, "name": machine.name,
        "machine": {name: value for name in ("p", "r", "memory", "slowdown") if (value := getattr(machine, name))}
        | {term.name: rate for term in OF_MACHINE if (rate := getattr(machine, term.name)) or term.required},
        "rates": dict(machine.rates), "levels": levels,
    }  # fmt: skip


def _listed(ports: int | tuple[int, ...]) -> int | list[int]:
    """Return `ports` as files hold them."""
    return ports if isinstance(ports, int) else list(ports)


def profile_of(
    machine: Machine | str | os.PathLike[str] | None, elements: int, hosts: list[Host] | None = None
) -> Profile | None:
    """Return the profile of a Machine, a file or a name; for None the one that is `fitting`, None for the default."""
    from bsp.cost.model import Machine

    if machine is None:
        return fitting(elements, hosts)
    return of_machine(machine) if isinstance(machine, Machine) else named(os.fspath(machine))


def to_machine(profile: Profile | None) -> Machine:
    """Return the machine of a checked profile; None: the default one."""
    from bsp.cost.model import DEFAULT, Level, Machine

    if profile is None:
        return DEFAULT
    table = profile["machine"]
    levels = tuple(
        Level(
            level.get("name", f"level {k}"),
            blocks=tuple((size, g) for size, g in level.get("blocks", ())),
            ports=ports if isinstance(ports := level.get("ports", 1), int) else tuple(ports),
            **{term.name: level[term.name] for term in OF_LEVELS if term.name in level},
        )
        for k, level in enumerate(profile.get("levels", ()))
    )
    return Machine(
        name=profile.get("name", "unnamed"), kind=profile["kind"], levels=levels, rates=profile.get("rates", {}),
        host="{host} ({cpu})".format(**profile["measured"]) if "measured" in profile else "",
        **{name: table[name] for name in ("p", "r", "memory", "slowdown") if name in table},
        **{term.name: table[term.name] for term in OF_MACHINE if term.name in table},
    )  # fmt: skip
