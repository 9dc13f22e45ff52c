"""The options of bsprun that make a job nonstop: their definitions, and the checks of their values."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from bsp.command.launch import MOST_ELEMENTS_A_CORE, Launch
from bsp.host import cores, is_screen

EVERY = 100  # rounds between checkpoints, unless asked otherwise
MOST_CLONES = 1000  # a larger number is taken for a typing error

OPTIONS: dict[str, dict[str, Any]] = {  # by flag, as `add_argument` takes them; each is declared here alone
    "--clones": {
        "type": float, "metavar": "HC", "help": "copies of all processes (2, 1.5, ...), each on -n elements of its own",
    },
    "--vertical": {"type": int, "metavar": "VC", "help": "instances an element keeps, the others passive (default 1)"},
    "--standby": {"type": int, "metavar": "S", "help": "elements that wait to take a place (default 0)"},
    "--tail-limit": {"type": float, "metavar": "T", "help": "a clone above T times MinTime is a tail (default 5)"},
    "--hang-limit": {
        "type": float, "metavar": "SECONDS", "help": "after which a silent element is ended (default 10)",
    },
    "--checkpoint": {
        "metavar": "DIR", "help": "write the state of rounds there, sealed; SIGTERM: write one and end (75)",
    },
    "--every": {"type": int, "metavar": "N", "help": f"rounds between checkpoints (default {EVERY})"},
    "--keep": {"type": int, "metavar": "K", "help": "checkpoints to keep (default 2)"},
    "--resume": {"metavar": "DIR", "help": "go on from the last checkpoint there"},
    "--inject": {"metavar": "FAULTS", "help": 'rehearse: "kill:element=3,superstep=17; slow:element=2,factor=10"'},
    "--events": {"metavar": "FILE.jsonl", "help": "log each fault, when it was seen, what was done"},
    "--listen": {"type": int, "metavar": "PORT", "help": "let other hosts join by hand (`bsp join`); 0: any free port"},
    "--leave-when": {
        "metavar": "'...'", "help": "a command asked on each host every 5 s; when its status is 0 the host is left",
    },
    "--strict": {
        "action": "store_true", "default": None, "help": "refuse to run with two clones of a process on one host",
    },
    "--orphan-limit": {
        "type": float, "metavar": "S", "help": "how long the job waits for --attach when bsprun has died (default 600)",
    },
    "--resilience": {
        "choices": ("auto",), "help": "choose clones, standbys and T as `bsp advise` does, from what follows",
    },
}  # fmt: skip
ATTACH_OPTIONS: dict[str, dict[str, Any]] = {  # those of bsprun without a program
    "--attach": {"metavar": "JOB", "help": "go on with a nonstop job whose bsprun has died (`bsp jobs`); no program"},
    "--takeover": {"action": "store_true", "help": "with --attach: even if its bsprun is alive, which then ends"},
}
AUTO_OPTIONS: dict[str, dict[str, Any]] = {  # what --resilience auto goes by
    "--availability": {"type": float, "metavar": "A", "help": "with auto: P[no round is lost] (default 0.9999)"},
    "--rounds": {"type": int, "metavar": "R", "help": "with auto: rounds of the run (default 1000)"},
    "--round-seconds": {"type": float, "metavar": "S", "help": "with auto: length of a round (default 1)"},
    "--mtbf": {
        "type": float, "metavar": "HOURS", "help": "with auto: mean time between the losses of one host",
    },
    "--checkpoint-seconds": {
        "type": float, "metavar": "S", "help": "with auto: length of a checkpoint; sets --every by it",
    },
    "--times": {
        "metavar": "FILE", "help": "with auto: measured round times, or a trace, that show how heavy tails are",
    },
}  # fmt: skip
NAMES, AUTO = (tuple(flag.removeprefix("--").replace("-", "_") for flag in each) for each in (OPTIONS, AUTO_OPTIONS))
_ORPHAN = 600.0  # seconds that a job waits for another bsprun, unless asked otherwise
_BEATS = 5  # signs of life that must be missing before an element is taken for dead


def add(parser: argparse.ArgumentParser, shown: bool) -> None:
    """Add the options to bsprun's parser.

    shown : whether help lists them; most people never need them, so help lists them only on request.
    """
    for flag, declared in (OPTIONS | AUTO_OPTIONS | ATTACH_OPTIONS).items():
        parser.add_argument(flag, **(declared if shown else declared | {"help": argparse.SUPPRESS}))


def attach(parser: Any, options: argparse.Namespace, program: list[str]) -> int:
    """Carry out `--attach`; return the exit status of the job."""
    from bsp.faults.bsprun.attach import attach as go_on

    others = [name for name in NAMES + AUTO if getattr(options, name) is not None]
    if program or others:
        what = f"leave out {program[0] if program else _option(others[0])}"
        parser.error(f"--attach {options.attach}: the job has its program and its options already; {what}")
    return go_on(options.attach, options.takeover, options.progress and is_screen(sys.stderr))


def asked(options: argparse.Namespace) -> bool:
    """Return whether any of these options was given."""
    return any(getattr(options, name) is not None for name in NAMES + AUTO)


def _option(name: str) -> str:
    """Return an option as it is typed: `--tail-limit` for tail_limit."""
    return f"--{name.replace('_', '-')}"


def room(options: argparse.Namespace, slots: int) -> int:
    """Return the elements that hosts with so many slots have room for, with their clones and the standbys."""
    return max(1, int((slots - (options.standby or 0)) / max(1.0, options.clones or 1.0)))


def resume(options: argparse.Namespace) -> None:
    """Fill in -p and -n from the checkpoint of `--resume` where they were not given.

    The number of cores here may differ from that of the machine on which the job began.
    """
    if options.resume is not None:
        job, _ = _newest(options)
        for name in ("nprocs", "elements"):
            if getattr(options, name) is None:
                setattr(options, name, job.get(name))


def _newest(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the job and the head of the newest checkpoint of `--resume`, or two empty dictionaries."""
    from bsp.faults.checkpoints.folder import newest
    from bsp.faults.checkpoints.key import user_key
    from bsp.faults.errors import CheckpointError

    with contextlib.suppress(CheckpointError):  # reported when the job starts
        return newest(Path(options.resume), user_key(make=False))
    return {}, {}


def choose(parser: Any, options: argparse.Namespace, job: Launch) -> None:
    """Carry out `--resilience auto`: set the options that were not given, and print the choice and its risk on stderr.

    Ends the program with a message if the question cannot be answered.
    """
    from bsp.faults.advise.command import AVAILABILITY, advise
    from bsp.faults.advise.measured import estimate_from

    if options.mtbf is None and options.times is None:
        parser.error("--resilience auto: say how often elements crash (--mtbf HOURS) or how late they are (--times)")
    periodic = options.checkpoint is not None or options.resume is not None
    if options.checkpoint_seconds is not None and not periodic:
        parser.error("--checkpoint-seconds: say where checkpoints go, too (--checkpoint DIR)")
    rounds = 1000 if options.rounds is None else options.rounds
    seconds = 1.0 if options.round_seconds is None else options.round_seconds
    try:
        estimate = None if options.times is None else estimate_from(options.times)
        advice = advise(
            job.elements, rounds, seconds, mtbf_hours=options.mtbf, estimate=estimate,
            availability=AVAILABILITY if options.availability is None else options.availability,
            checkpoint_seconds=options.checkpoint_seconds,
            slots=1 if job.hosts is None else max(host.slots for host in job.hosts),
        )  # fmt: skip
    except ValueError as wrong:
        parser.error(f"--resilience auto: {wrong}")
    plan = advice.choice
    missed = ""
    if not plan.reaches(advice.target):  # no plan does: take the clones that come nearest
        plan, missed = advice.plan("clone") or plan, f", and the target is {1 - advice.target:.2g}"
    written = advice.plan("checkpoint")
    if plan.way == "nothing" and written is not None:  # checkpoints do not pay, but were asked for
        plan = written
    says = f"{plan.name()}; P[a round is lost] = {plan.loss:.2g}{missed}"
    if plan.way == "clone":
        if options.clones is None:
            options.clones = float(plan.clones)
        if options.vertical is None:
            options.vertical = plan.vertical
        if options.standby is None:
            options.standby = plan.standby
        if options.tail_limit is None and plan.tail_limit is not None:
            options.tail_limit = max(plan.tail_limit, 1.0)
    elif plain(options):
        says += "; the plain engine runs it"
    elif periodic and options.every is None and (options.clones or 1) == 1:
        if written is not None:
            options.every = written.interval_rounds
            says += f"; --every {options.every}"
        elif options.mtbf is not None:
            says += f"; --every {EVERY}, for want of --checkpoint-seconds"
    print(f"bsprun: --resilience auto: {says}", file=sys.stderr)


def plain(options: argparse.Namespace) -> bool:
    """Return whether no option is left that needs the nonstop engine: no clones, checkpoints, faults or event log."""
    return all(getattr(options, name) is None for name in NAMES if name != "resilience")


def start(parser: Any, options: argparse.Namespace, job: Launch) -> int | None:
    """Check all options, then run the job, or print what would run with `--show`; return the exit status.

    Returns None if `--resilience auto` chooses neither clones nor checkpoints: the caller then uses the plain engine,
    which costs less.  Ends the program with a message if an option is wrong.
    """
    from bsp.faults.bsprun.job import Resilience
    from bsp.faults.bsprun.nonstop import run, show

    if options.resilience is not None:
        choose(parser, options, job)
        if plain(options):
            return None
    elif given := [name for name in AUTO if getattr(options, name) is not None]:
        parser.error(f"{_option(given[0])} goes with --resilience auto; without it it has no effect")
    clones = 1.0 if options.clones is None else options.clones
    vertical = 1 if options.vertical is None else options.vertical
    standbys = options.standby or 0
    if not 1 <= clones <= MOST_CLONES:
        parser.error(f"--clones {clones:g}: 1 or more, up to {MOST_CLONES}; 2 keeps a second copy of every process")
    if not 1 <= vertical <= job.elements:
        parser.error(f"--vertical {vertical}: 1 up to the number of elements of one copy ({job.elements}; see -n)")
    if standbys < 0:
        parser.error(f"--standby {standbys}: 0 or more elements that wait to take a place")
    _check_values(parser, options)
    _check_company(parser, options)
    count = round(job.elements * clones) + standbys
    most = MOST_ELEMENTS_A_CORE * cores()
    if job.local and count > most:
        parser.error(f"{count} elements on {cores()} cores; {most} at most here, or name machines with --hostfile")
    _check_folders(parser, options)
    if options.resume is not None and options.machine is None:
        # not the one that fits the hosts that are left, or that was measured since: the job keeps its choices (D5)
        job.machine = _newest(options)[1].get("machine", job.machine)
    limits = _limits(parser, options, count)
    resilience = Resilience(
        clones, vertical, standbys, limits, options.checkpoint or options.resume, options.keep or 2,
        options.resume, options.inject, options.events, options.progress and is_screen(sys.stderr), options.listen,
        options.leave_when, bool(options.strict), limits.orphan,
    )  # fmt: skip
    return show(job, resilience) if options.show else run(job, resilience)


def _check_values(parser: Any, options: argparse.Namespace) -> None:
    """End the program if the value of an option is impossible by itself."""
    from bsp.faults.injection import parse

    for name, least in (("tail_limit", 1.0), ("hang_limit", 0.1), ("orphan_limit", 0.0)):
        value = getattr(options, name)
        if value is not None and not value >= least:
            parser.error(f"{_option(name)} {value:g}: {least:g} or more")
    nowhere = options.checkpoint is None and options.resume is None
    if options.every is not None and (options.every < 1 or nowhere):
        parser.error(f"--every {options.every}: 1 or more rounds, together with --checkpoint DIR")
    if options.keep is not None and (options.keep < 1 or nowhere):
        parser.error(f"--keep {options.keep}: 1 checkpoint or more, together with --checkpoint DIR")
    if options.listen is not None and not 0 <= options.listen < 1 << 16:
        parser.error(f"--listen {options.listen}: ports are 0 (any that is free) to 65535")
    if options.inject is not None:
        try:
            parse(options.inject)
        except ValueError as wrong:
            parser.error(str(wrong))


def _check_company(parser: Any, options: argparse.Namespace) -> None:
    """End the program if an option does not go with clones and checkpoints."""
    if options.check:
        extra = ", ".join(_option(name) for name in NAMES if getattr(options, name) is not None)
        parser.error(f"--check rehearses by itself what clones and checkpoints need of a program; leave out {extra}")
    for name in ("trace", "report"):
        if getattr(options, name):
            parser.error(f"--{name} does not go with clones and checkpoints; record a run without them")


def _check_folders(parser: Any, options: argparse.Namespace) -> None:
    """End the program if checkpoints cannot be where they are said to be."""
    for name in ("checkpoint", "resume"):
        folder = getattr(options, name)
        if folder == "":
            parser.error(f"--{name} '': name a folder; the word is empty, as that of a shell variable that is not set")
        if folder is not None and os.path.exists(folder) and not os.path.isdir(folder):
            parser.error(f"--{name} '{folder}' is not a folder")
    if options.resume is not None and not os.path.isdir(options.resume):
        parser.error(f"--resume '{options.resume}': there is no such folder")
    if options.resume is not None and options.checkpoint not in (None, options.resume):
        parser.error(f"--checkpoint '{options.checkpoint}': a resumed job goes on writing into '{options.resume}'")


def _limits(parser: Any, options: argparse.Namespace, count: int) -> Any:
    """Return the limits of the protocol for so many elements.  Ends the program if --hang-limit is below their beat."""
    from bsp.faults.protocol.messages import Limits

    beat = 0.1 * max(1.0, count / 10)  # so that bsprun receives at most 100 signs of life a second
    if options.hang_limit is not None and options.hang_limit < _BEATS * beat:
        parser.error(
            f"--hang-limit {options.hang_limit:g}: {_BEATS * beat:g} s or more; "
            f"each of {count} elements gives a sign of life every {beat:g} s"
        )
    periodic = options.checkpoint is not None or options.resume is not None
    return Limits(
        tail_limit=options.tail_limit or 5.0,
        hang_limit=options.hang_limit or max(10.0, _BEATS * beat),
        beat=beat,
        alone=max(5.0, _BEATS * beat),
        every=(options.every or EVERY) if periodic else 0,
        orphan=_ORPHAN if options.orphan_limit is None else options.orphan_limit,
    )
