"""The commands for running jobs: `bsp jobs`, `bsp status`, `bsp drain` and `bsp join`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bsp.errors import LaunchError
from bsp.faults.bsprun.job_file import JobFile, known, of
from bsp.faults.bsprun.visitor import Visitor, visiting
from bsp.faults.carrier.job_key import from_secret
from bsp.faults.engine.bootstrap import become_keeper
from bsp.host import cores

KEY = "BSP_JOB_KEY"  # the environment variable with the key of a job to join
_POLL = 0.5  # seconds between two questions whether a host is empty


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command to its parser."""
    if command == "status":
        parser.add_argument("job", nargs="?", help="name or file of the job (default: the latest)")
        parser.add_argument("--json", action="store_true", help="as JSON")
    if command == "drain":
        parser.add_argument("job", help="name or file of the job")
        parser.add_argument("host", help="name of the host")
    if command == "join":
        parser.add_argument("address", help="HOST:PORT of bsprun, as it says at its start")
        parser.add_argument(
            "--slots", type=int, default=cores(), metavar="N", help="room for elements (default: cores)"
        )
        parser.add_argument("--rack", default="", metavar="R", help="what fails together with this machine")
        parser.add_argument("--name", default=socket.gethostname(), help="of this machine (default: its own)")
        what = f"file of mode 600 with the job's key, or the job's file (default: the environment variable {KEY})"
        parser.add_argument("--key-file", metavar="FILE", help=what)


def main(options: argparse.Namespace) -> int:
    """Carry out a command; return its exit status."""
    if options.command == "jobs":
        return _jobs()
    if options.command == "join":
        return _join(options)
    if options.command == "status":
        return _status(_latest() if options.job is None else of(options.job), options.json)
    return _drain(of(options.job), options.host)


def _latest() -> JobFile:
    jobs = known()
    if not jobs:
        raise LaunchError("no nonstop job of yours runs on this machine")
    return jobs[0]


def _jobs() -> int:
    found = known()
    if not found:
        print("no nonstop job of yours runs on this machine", file=sys.stderr)
    for file in found:
        ago = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file.began))
        where = f"pid {file.pid} on {file.host}" if file.runs() else f"its bsprun is gone: bsprun --attach {file.name}"
        print(f"{file.name}  since {ago}  {where}  {shlex.join(file.program)}")
    return 0


def _status(file: JobFile, as_json: bool) -> int:
    with visiting(file) as visitor:
        found = visitor.ask("status").said
    if as_json:
        print(json.dumps(found, indent=1))
        return 0
    print(f"{file.name}: {shlex.join(found['program'])}")
    sizes = f"{found['processes']} processes in {found['bundles']} bundles"
    print(f"{sizes}, superstep {found['superstep']}, {found['seconds']:.0f} s")
    console = Console(width=None if sys.stdout.isatty() else 200)
    hosts = Table(box=None, pad_edge=False)
    for name in ("host", "slots", "agents", ""):
        hosts.add_column(name)
    for host in found["hosts"]:
        hosts.add_row(host["name"], str(host["slots"]), str(host["agents"]), "" if host["ready"] else "not used")
    console.print(hosts)
    clones = Table(box=None, pad_edge=False)
    for name in ("bundle", "element", "host", "role", "superstep", "tails", "silent", "since", "what"):
        clones.add_column(name)
    for clone in found["clones"]:
        quiet = f"{clone['silent']:.0f} s" if clone["silent"] >= 1 else ""
        leaves = " leaves" if clone["element"] in found["leaving"] else ""
        clones.add_row(
            str(clone["bundle"]), str(clone["element"]), clone["host"], clone["role"] + leaves, str(clone["superstep"]),
            str(clone["tails"]), quiet, f"{clone['seconds']:.1f} s", _doing(clone),
        )  # fmt: skip
    console.print(clones)
    standbys = ", ".join(f"{element} on {host}" for element, host in found["standbys"].items())
    print(f"standing by: {standbys or 'none'}")
    for element, how in found["dead"].items():
        print(f"element {element} {how}")
    return 0


# what the phases of a clone are called where a user reads them
_PHASES = {
    "joining": "waits for the state of a sibling", "replaying": "catches up", "computing": "computes",
    "calling": "waits in proc.once", "raised": "has raised an exception, which siblings have not confirmed",
    "paused": "stands by for its sibling", "held": "held at the start of a round, for a checkpoint",
    "jumping": "far behind: waits for a later state of a sibling", "ended": "has ended",
    "stopped": "failed: its worker died too often",
}  # fmt: skip


def _doing(clone: Mapping[str, Any]) -> str:
    """Return what a clone does: for whom it waits, and at which line, or behind which one it computes."""
    if clone["waits_for"]:
        first, *more = clone["waits_for"]
        others = f" and {len(more)} more" if more else ""
        return f"waits for bundle {first}{others} in {clone['line']}"
    what = _PHASES.get(clone["phase"], "waits")
    return f"{what}, behind {clone['line']}" if clone["line"] and clone["phase"] != "ended" else what


def _drain(file: JobFile, host: str) -> int:
    with visiting(file) as visitor:
        while (answered := visitor.ask("drain", host=host)).status == "under way":
            time.sleep(_POLL)
    if answered.status == "refused":
        raise LaunchError(str(answered.said))
    print(answered.said)
    return 0


def _join(options: argparse.Namespace) -> int:
    address, _, port = options.address.rpartition(":")
    if not (address and port.isdecimal()):
        raise LaunchError(f"'{options.address}' is no address; it is HOST:PORT, as bsprun says at its start")
    if options.slots < 1:
        raise LaunchError(f"--slots {options.slots}: a host has room for 1 element or more")
    there = ("", "", int(port), "")
    file = JobFile(options.address, _key(options.key_file), there, (address.strip("[]"),), 0, address, 0.0, ())
    visitor = Visitor(file)
    try:
        asked = visitor.ask("join", name=options.name, slots=options.slots, rack=options.rack)
    except LaunchError as wrong:
        raise LaunchError(f"{wrong}; it hears only who has its key") from None
    visitor.close()
    settings = asked.said
    print(f"bsp join: this machine works for {options.address} as {options.name}; Ctrl-C takes it away", flush=True)
    become_keeper(settings, settings["program"])
    return 1


def _key(path: str | None) -> str:
    """Return the key of the job to join, from a file or from the environment; raise LaunchError if it is none."""
    where = KEY if path is None else f"--key-file '{path}'"
    try:
        key = _given_key(path)
        from_secret(key)
    except (ValueError, KeyError):
        raise LaunchError(f"{where} holds no key: a key has 40 characters; it is 'secret' in the job's file") from None
    return key


def _given_key(path: str | None) -> str:
    if path is None:
        key = os.environ.pop(KEY, "")
        if not key:
            raise LaunchError(f"no key: set {KEY}, or name a file (--key-file); it is 'secret' in the job's file")
        return key.strip()
    try:
        found = os.stat(path)
        text = Path(path).read_text()
    except OSError as wrong:
        raise LaunchError(f"--key-file '{path}': {wrong.strerror}") from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise LaunchError(f"--key-file '{path}': others may read it: chmod 600 {path}")
    return str(json.loads(text)["secret"]) if text.lstrip().startswith("{") else text.strip()
