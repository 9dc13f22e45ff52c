"""The command `bsp`: facts about this machine, and pages made from records."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from bsp.command.bsprun import Parser, add_hosts, chosen_hosts, version
from bsp.command.launch import MOST_ELEMENTS_A_CORE
from bsp.cost.whole_file import same_file, why_not
from bsp.errors import BspError
from bsp.host import cores, find_mpiexec, no_mpi

COMMANDS = {  # by name: what it does, and an example
    "doctor": (
        "say what works here, or on other hosts: Python, NumPy, MPI, a real job",
        "bsp doctor --hosts h1:4,h2:4 script.py",
    ),
    "probe": (
        "measure r, g, o and L of this machine, or of hosts and their network",
        "bsp probe --hosts h1:4,h2:4",
    ),
    "report": ("make a page from a trace or a prediction", "bsp report run.json -o run.html"),
    "verify": (
        "check SPMD functions against their sequential specifications",
        "bsp verify examples/verified.py --mutate",
    ),
    "advise": (
        "say whether to clone a job, to checkpoint it, or neither",
        "bsp advise -p 64 --rounds 5000 --round-seconds 2 --mtbf 1000",
    ),
    "jobs": ("list your nonstop jobs on this machine", "bsp jobs"),
    "status": ("say where a nonstop job's processes run, and how far they are", "bsp status training-3f2a"),
    "drain": ("move what a nonstop job has on a host to others, without a pause", "bsp drain training-3f2a h2"),
    "join": ("give a nonstop job this machine (bsprun --listen)", "bsp join h1:7411 --slots 4"),
}
_OF_JOBS = ("jobs", "status", "drain", "join")  # the commands for nonstop jobs


def bsp(arguments: Sequence[str] | None = None) -> int:
    """Run the command `bsp`; return its exit status."""
    parser = Parser(prog="bsp", description="Ask about machines, programs and running jobs.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    parsers = {
        name: commands.add_parser(
            name, help=does, description=f"{does[0].upper()}{does[1:]}.\n\n  {example}", allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, (does, example) in COMMANDS.items()
    }  # fmt: skip
    doctor, probe, report, verify = (parsers[name] for name in ("doctor", "probe", "report", "verify"))
    add_hosts(doctor)
    doctor.add_argument("script", nargs="?", help="a program that must be there, on every host")
    probe.add_argument("-n", "--elements", type=int, metavar="P", help="elements to measure with (default: one a core)")
    add_hosts(probe)
    probe.add_argument("-o", "--output", metavar="FILE", help="write the machine file here too (always: the cache)")
    probe.add_argument(
        "--seconds", type=float, default=35.0, help="measure no longer, even if rates are still uncertain (default 35)"
    )
    probe.add_argument("--list", action="store_true", help="show what has been measured, and what comes ready-made")
    report.add_argument("trace", metavar="TRACE.json", help="what bsprun --trace, or --predict --json, wrote")
    report.add_argument("-o", "--output", metavar="FILE.html", help="the page (default: TRACE.html)")
    report.add_argument("--prediction", metavar="FILE.json", help="a prediction of the same program, to show beside")
    verify.add_argument("file", help="a Python file with functions that bsp.verify.spec decorates; FILE::name for one")
    verify.add_argument(
        "--limit", type=int, metavar="N", help="inputs to check of each function, at most (default 2000)"
    )
    verify.add_argument(
        "--orders", type=int, metavar="N",
        help="further orders, of the processes' turns and of arriving messages, in which each runs (default 1)",
    )  # fmt: skip
    verify.add_argument(
        "--mutate", action="store_true", help="change the functions, one fault at a time; count the faults found"
    )
    given = sys.argv[1:] if arguments is None else arguments
    if "advise" in given[:1]:  # by name: bsp does not depend on bsp.faults
        importlib.import_module("bsp.faults.advise.command").add_arguments(parsers["advise"])
    if given and given[0] in _OF_JOBS:
        importlib.import_module("bsp.faults.bsprun.commands").add_arguments(given[0], parsers[given[0]])
    options, unknown = parser.parse_known_args(given)
    if unknown:
        parsers.get(options.command, parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        if options.command == "doctor":
            from bsp.command.doctor import here, on_hosts

            hosts = chosen_hosts(options)
            if hosts is not None:
                return on_hosts(hosts, options.script, options.reach)
            if options.script is not None and not os.path.isfile(options.script):
                doctor.error(f"script '{options.script}' does not exist (looked in {os.getcwd()})")
            return here()
        if options.command == "probe":
            return _probe(probe, options)
        if options.command == "verify":
            from bsp.verify.command import verified

            return verified(options.file, options.limit, options.mutate, options.orders)
        if options.command == "report":
            return _report(report, options)
        if options.command in _OF_JOBS:
            return int(importlib.import_module("bsp.faults.bsprun.commands").main(options))
        if options.command == "advise":
            return int(importlib.import_module("bsp.faults.advise.command").main(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except (BspError, OSError) as wrong:
        file = getattr(wrong, "filename", None)
        said = wrong if file is None else f"'{file}': {getattr(wrong, 'strerror', wrong)}"  # without [Errno 2]
        print(f"bsp {options.command}: error: {said}", file=sys.stderr)
        return 2
    parser.print_help()
    return 2


def _probe(parser: Parser, options: argparse.Namespace) -> int:
    from bsp.cost.probe.command import listing, probe, probe_hosts

    if options.list:
        print(listing())
        return 0
    hosts = chosen_hosts(options)
    if hosts is not None and options.elements is not None:
        parser.error("-n goes without hosts: they are measured with all their slots")
    slots = cores() if hosts is None else sum(host.slots for host in hosts)
    elements = slots if options.elements is None else options.elements
    if elements < 1 or not options.seconds > 0:  # nan is no time, either
        parser.error(f"-n {elements} --seconds {options.seconds:g}: one element and some time, or more")
    most = MOST_ELEMENTS_A_CORE * cores()
    if hosts is None and elements > most:
        parser.error(
            f"-n {elements} elements on {cores()} cores; use -n {most} or less here, or name machines with --hosts"
        )
    if elements > 1 and find_mpiexec() is None:
        parser.error(f"-n {elements}: {no_mpi()}")
    if options.output is not None:
        _writable(parser, options.output)
    if hosts is None:
        return probe(elements, options.seconds, options.output)
    return probe_hosts(hosts, options.seconds, options.output, options.reach)


def _writable(parser: Parser, path: str) -> None:
    """Refuse -o of a file that cannot be written, before any work."""
    if wrong := why_not(path):
        parser.error(f"-o '{path}': cannot be written: {wrong}")


def _report(parser: Parser, options: argparse.Namespace) -> int:
    from bsp.cost.record import reading
    from bsp.cost.report import page

    trace = reading.load(options.trace)
    prediction = None if options.prediction is None else reading.load(options.prediction)
    path = options.output or f"{os.path.splitext(options.trace)[0]}.html"
    for given in (options.trace, options.prediction):
        if given is not None and same_file(given, path):
            parser.error(f"-o '{path}': the page would overwrite what it is made from; name another file")
    _writable(parser, path)
    page.write(trace, path, prediction)
    print(path)
    return 0
