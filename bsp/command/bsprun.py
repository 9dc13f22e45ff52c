"""The command `bsprun`: run a program, or predict its cost."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from bsp.command.launch import FOR_NUMPY, MOST_ELEMENTS_A_CORE, Launch, start
from bsp.cost.machine_file import Profile, fitting, named
from bsp.cost.whole_file import same_file, why_not
from bsp.errors import LaunchError, MachineError
from bsp.host import cores, find_mpiexec, has_terminal, is_screen, no_mpi
from bsp.hosts.launcher import wrong_reach
from bsp.hosts.listing import Host, from_file, from_option, from_slurm, placed
from bsp.hosts.processes import nothing_left
from bsp.transport.schedules import CHOICES

_RUN_EXAMPLES = """\
examples:
  bsprun -p 64 script.py --its own arguments     64 processes, on all cores of this machine
  bsprun -p 64 --predict script.py               what that would cost, before it runs
"""
_NONSTOP_EXAMPLES = """\
examples:
  bsprun -p 64 --clones 2 --standby 2 train.py     the same answer while elements crash, hang and slow down
  bsprun -p 64 --checkpoint DIR --every 100 train.py     one copy, and a second line; later: --resume DIR
"""
_RUN_STATUS = """\
exit status: the program's own (the first non-zero sys.exit by superstep and pid); 1 after an exception
or a mismatch between processes; 2 wrong usage; 3 a bundle of processes is lost (clones and checkpoints
used up); 75 a checkpoint was written on SIGTERM; 130 after Ctrl-C, 143 after SIGTERM.
"""


_OF_MPIEXEC = {
    "-np": "-p 4 for processes of the program, -n 4 for MPI ranks", "--np": "-p 4", "--nproc": "-p 4",
    "-H": "--hosts h1:4,h2:4", "-host": "--hosts h1:4,h2:4", "--host": "--hosts h1:4,h2:4",
    "-hostfile": "--hostfile FILE", "-machinefile": "--hostfile FILE", "--machinefile": "--hostfile FILE",
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser of the command line that reports errors in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Write one line to standard error and exit with status 2."""
        unknown = message.partition("unrecognized arguments: ")[2].partition(" ")[0]
        if near := difflib.get_close_matches(unknown.partition("=")[0], self._option_string_actions, 1, 0.7):
            message += f"; did you mean {near[0]}?"
        self.exit(2, f"{self.prog}: error: {message}\n")


def _run_parser() -> Parser:
    parser = Parser(
        prog="bsprun",
        usage="bsprun [options] script.py [arguments]\n       bsprun [options] -m module [arguments]",
        description=_RUN_EXAMPLES,
        epilog=_RUN_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-p", "--nprocs", type=int, default=None, metavar="P", help="processes of the program (default: one a core)")
    add(
        "-n",
        "--elements",
        type=int,
        default=None,
        metavar="N",
        help="elements (MPI ranks) for one copy of them (default: min(P, cores), or the slots of the hosts)",
    )
    add("--seed", type=int, default=0, help="seed of proc.rng and numpy.random in every process (default 0)")
    add("--check", action="store_true", help="find overlaps, undeclared state, nondeterminism")
    add(
        "--schedule",
        choices=CHOICES,
        default="auto",
        help="how data travels (default: the cheapest way)",
    )
    add(
        "--blas-threads",
        type=int,
        default=None,
        metavar="K",
        help="BLAS threads of an element (default 1; all cores for P = 1)",
    )
    add(
        "--machine",
        metavar="FILE",
        help="the machine that choices and prices are made by: a file of `bsp probe`, a name",
    )
    add("--numpy", action="store_true", help="a script for NumPy; --explain: what becomes of its loops")
    add("--explain", action="store_true", help=argparse.SUPPRESS)
    add("--predict", action="store_true", help="say what the run would cost, without running it on MPI")
    add("--abstract", action="store_true", help="with --predict: carry arrays as shapes, count the work")
    add("--every-process", action="store_true", help="with --abstract: run also those that others could stand for")
    add("--sweep", metavar="1,2,4", help="with --predict: for each of these P")
    add("--json", action="store_true", help="with --predict: as JSON")
    add("--trace", metavar="FILE.json", help="record every superstep")
    add("--trace-format", choices=("bsp", "perfetto"), default="bsp", help="of --trace (default bsp)")
    add("--report", metavar="FILE.html", help="a page: predicted beside measured, for every superstep")
    add("--profile", metavar="DIR", help="profile every process: DIR/process-N.pstats, DIR/merged.pstats")
    add("--progress", action="store_true", help="a live line on a terminal: supersteps, rate, time left")
    add("--help-nonstop", action=_HelpNonstop, nargs=0, help="--clones, --checkpoint, ...: jobs that survive faults")
    _nonstop().add(parser, shown=False)
    add_hosts(parser)
    add("--mpi-args", default="", metavar="'...'", help="further options for mpiexec")
    add("--show", action="store_true", help="print the command line that would run, and end")
    add("--version", action="version", version=version())
    return parser


def add_hosts(parser: argparse.ArgumentParser) -> None:
    """Add the options that name hosts; `chosen_hosts` reads them."""
    parser.add_argument(
        "--hosts", metavar="H1:4,H2:4", help="machines to run on, with the elements that each has room for"
    )
    parser.add_argument(
        "--hostfile", metavar="FILE", help="the same from a file, a line a host: NAME slots=4, or NAME:4"
    )
    parser.add_argument(
        "--reach",
        metavar="'...'",
        help="the command that runs another on {host} (default: ssh {host}; under Slurm srun)",
    )


def chosen_hosts(options: argparse.Namespace) -> list[Host] | None:
    """Return the hosts that are named, or those of the Slurm allocation; None for this machine alone."""
    if options.hosts is not None and options.hostfile is not None:
        raise LaunchError("--hosts and --hostfile both name the hosts: leave one out")
    if options.reach is not None and (wrong := wrong_reach(options.reach)):
        said = f"--reach '{options.reach}': {wrong}"
        raise LaunchError(f"{said}: a command with {{host}} in it, such as 'ssh {{host}}'")
    if options.hosts is not None:
        return from_option(options.hosts)
    if options.hostfile is not None:
        return from_file(options.hostfile)
    return from_slurm()


class _HelpNonstop(argparse.Action):
    """The option --help-nonstop: prints the help of the options of nonstop jobs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser = Parser(
            prog="bsprun", add_help=False, usage=parser.usage, description=_NONSTOP_EXAMPLES, epilog=_RUN_STATUS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        _nonstop().add(parser, shown=True)
        parser.print_help()
        parser.exit()


def _nonstop() -> Any:
    """Return the module of nonstop options.  Imported by name, because `bsp` does not depend on `bsp.faults`."""
    return importlib.import_module("bsp.faults.options")


def version() -> str:
    """Return the line that --version prints."""
    from bsp import __version__

    return f"nonstop-bsp {__version__}"


def split(arguments: Sequence[str], parser: argparse.ArgumentParser | None = None) -> tuple[list[str], list[str]]:
    """Return bsprun's own options, and the program with all that follows it, unchanged."""
    parser = parser or _run_parser()
    takes_one = {flag for action in parser._actions if action.nargs is None for flag in action.option_strings}
    own: list[str] = []
    k = 0
    while k < len(arguments):
        word = arguments[k]
        if word == "--":
            return own, list(arguments[k + 1 :])
        if word == "-m" or not word.startswith("-"):
            break
        alone = word not in takes_one  # takes no value, holds it (--seed=1, -p4), or is unknown, which the parser tells
        if not alone and arguments[k + 1 : k + 2] and arguments[k + 1] in parser._option_string_actions:
            alone = word != "--mpi-args"  # an option of ours is no value: the parser tells that one is missing
        if not alone and word.startswith("--") and k + 1 < len(arguments):
            own.append(f"{word}={arguments[k + 1]}")  # a value may look like an option: --mpi-args '--verbose'
        else:
            own += arguments[k : k + (1 if alone else 2)]
        k += 1 if alone else 2
    return own, list(arguments[k:])


def bsprun(arguments: Sequence[str] | None = None) -> int:
    """Run the command `bsprun`; return its exit status."""
    parser = _run_parser()
    own, program = split(sys.argv[1:] if arguments is None else arguments, parser)
    for word in own:
        name = "-np" if word.startswith("-np") else word.partition("=")[0]
        if name in _OF_MPIEXEC:
            parser.error(f"{name} is an option of mpiexec; bsprun has {_OF_MPIEXEC[name]}")
    options = parser.parse_args(own)
    if options.takeover and options.attach is None:
        parser.error("--takeover goes with --attach JOB")
    if options.attach is None:
        _check(parser, options, program)
        if options.numpy:
            program = [*FOR_NUMPY, *(["--explain"] if options.explain else []), *program]
    try:
        if options.attach is not None:
            return int(_nonstop().attach(parser, options, program))
        return _predict(parser, options, program) if options.predict else _run(parser, options, program)
    except (LaunchError, MachineError) as wrong:
        parser.error(str(wrong))
    except BrokenPipeError:
        raise
    except OSError as wrong:
        parser.error(str(wrong))
    return 2


def _check(parser: Parser, options: argparse.Namespace, program: list[str]) -> None:
    """Exit with one error if an option is wrong, whichever way the program would be run."""
    _check_script(parser, program)
    _check_numbers(parser, options)
    # of the shells of `srun --pty bash` the one with the terminal goes on alone
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1 and not has_terminal():
        if os.environ.get("SLURM_PROCID") != "0":
            raise SystemExit(2)  # the first copy says it for all
        parser.error(
            f"srun has started {os.environ['SLURM_STEP_NUM_TASKS']} copies of bsprun; start one, which starts the"
            " elements itself: leave srun out"
        )
    _no_hosts_among(parser, options.mpi_args.split())
    _check_company(parser, options, program)
    _check_outputs(parser, options, program)


def _check_script(parser: Parser, program: list[str]) -> None:
    """Exit with an error if there is no such program."""
    try:
        os.getcwd()
    except FileNotFoundError:
        parser.error("the working folder does not exist any more: cd to another one")
    if not program:
        parser.error("no script: bsprun -p 4 script.py")
    if program[0] == "-m":
        if len(program) < 2:
            parser.error("-m needs the name of a module: bsprun -p 4 -m package.module")
        if os.path.isfile(program[1]):
            parser.error(f"-m '{program[1]}' is a file, not the name of a module: leave -m out")
    elif not os.path.isfile(program[0]):
        what = "is no regular file, which every element could read" if os.path.exists(program[0]) else "does not exist"
        what = "is a folder" if os.path.isdir(program[0]) else what
        python = os.path.basename(program[0]).startswith("python") and len(program) > 1
        advice = f": leave {program[0]} out, bsprun starts it" if python else f" (looked in {os.getcwd()})"
        parser.error(f"script '{program[0]}' {what}{advice}")


def _check_numbers(parser: Parser, options: argparse.Namespace) -> None:
    """Exit with an error if a number is impossible."""
    if options.nprocs is not None and options.nprocs < 1:
        parser.error(f"-p {options.nprocs}: a program has 1 process or more")
    if options.elements is not None and options.elements < 1:
        parser.error(f"-n {options.elements}: a program runs on 1 element or more")
    if options.seed < 0:
        parser.error(f"--seed {options.seed}: seeds are 0 or more")
    if options.blas_threads is not None and options.blas_threads < 1:
        parser.error(f"--blas-threads {options.blas_threads}: 1 or more")


def _check_company(parser: Parser, options: argparse.Namespace, program: list[str]) -> None:
    """Exit with an error if options do not go together."""
    if options.explain and not options.numpy:
        parser.error("--explain goes with --numpy")
    if options.numpy and program[0] == "-m":
        parser.error("--numpy runs a script: bsprun -p 4 --numpy script.py")
    for name in ("abstract", "every_process", "sweep", "json"):
        if getattr(options, name) and not options.predict:
            parser.error(f"--{name.replace('_', '-')} goes with --predict")
    if options.predict and options.show:
        parser.error("--predict starts no command that --show could print: leave one of them out")
    if options.predict and options.check:
        parser.error("--predict computes nothing that --check could compare: leave one of them out")
    if options.trace_format != "bsp" and options.trace is None:
        parser.error(f"--trace-format {options.trace_format} goes with --trace FILE")
    if options.predict and _nonstop().asked(options):
        parser.error("--predict is of a plain run: leave out --clones, --checkpoint and so on; bsp advise prices them")
    if options.profile is not None and (options.predict or options.check or _nonstop().asked(options)):
        parser.error("--profile goes with a plain run: without --predict, --check, --clones and --checkpoint")


def _check_outputs(parser: Parser, options: argparse.Namespace, program: list[str]) -> None:
    """Exit with an error if what is recorded has no place; make the folder of profiles."""
    if options.profile is not None:
        try:
            if not options.show:
                os.makedirs(options.profile, exist_ok=True)
        except OSError as error:
            parser.error(f"--profile '{options.profile}': cannot be made: {error.strerror}")
        merged = os.path.join(options.profile, "merged.pstats")
        if not options.show and (wrong := why_not(merged)):
            parser.error(f"--profile '{options.profile}': '{merged}' cannot be written: {wrong}")
    for name in ("trace", "report"):
        path = getattr(options, name)
        if path is not None:
            wrong = why_not(path)
            if wrong:
                parser.error(f"--{name} '{path}': cannot be written: {wrong}")
            if program[0] != "-m" and same_file(path, program[0]):
                parser.error(f"--{name} '{path}': that is the script, which would be overwritten; name another file")
    if options.trace is not None and options.report is not None and same_file(options.trace, options.report):
        parser.error(f"--report '{options.report}': that is the file of --trace, which the page would overwrite")


def _no_hosts_among(parser: Parser, given: list[str]) -> None:
    """Hosts are ours to start: refuse them among the options for mpiexec."""
    for word in given:
        if word.partition("=")[0] in ("-H", "--host", "-host", "--hostfile", "-hostfile", "--machinefile", "-f"):
            parser.error(f"--mpi-args '{word}': name the hosts with bsprun's own --hosts or --hostfile")


def _profile(
    parser: Parser, options: argparse.Namespace, elements: int, hosts: list[Host] | None = None
) -> Profile | None:
    """Return the profile of the machine named or measured, fixed for the whole job (D5), or one that is fitting."""
    if options.machine is None:
        return fitting(elements, hosts)
    profile = named(options.machine)
    has, asked = profile["machine"]["p"], options.elements
    if asked is not None and (asked > has or (asked != has and profile["kind"] == "measured")):
        parser.error(
            f"machine '{options.machine}' has P = {has} elements, -n asks for {asked}; "
            f"leave -n out, or measure that many: bsp probe -n {asked} -o FILE"
        )
    return profile


def _run(parser: Parser, options: argparse.Namespace, program: list[str]) -> int:
    nonstop = _nonstop().asked(options)
    if nonstop:
        _nonstop().resume(options)
    nprocs = cores() if options.nprocs is None else options.nprocs
    hosts = chosen_hosts(options)
    if options.nprocs is None and hosts is not None:
        nprocs = sum(host.slots for host in hosts)
    elements = _elements(parser, options, nprocs, hosts)
    job = Launch(
        nprocs=nprocs,
        elements=elements,
        program=program,
        seed=options.seed,
        check=options.check,
        schedule=options.schedule,
        blas_threads=options.blas_threads,
        hosts=hosts,
        reach=options.reach,
        mpi_args=options.mpi_args.split(),
        machine=_profile(parser, options, elements, hosts),
        progress=options.progress and is_screen(sys.stderr),
        profile=None if options.profile is None else os.path.abspath(options.profile),
    )
    if nonstop and (status := _nonstop().start(parser, options, job)) is not None:
        return int(status)
    if options.show:
        import shlex

        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(job.environment().items()))
        for line in job.placement():
            print(line)
        print(f"{settings} {shlex.join(job.command())}".strip())
        return 0
    if options.trace is None and options.report is None:
        return _started(job)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="bsprun-") as folder:
        job.trace = os.path.join(folder, "record")
        status = _started(job)
        if not os.path.exists(job.trace):
            files = ", ".join(filter(None, (options.trace, options.report)))
            print(f"bsprun: not written: {files} (the record of a run is made at its end)", file=sys.stderr)
            return status
        from bsp.command.prediction import deliver

        try:
            deliver(job, options.trace, options.trace_format, options.report)
        except LaunchError as wrong:  # a full disk: the program's status is worth more
            print(f"bsprun: error: {wrong}", file=sys.stderr)
            return status or 2
        return status


def _started(job: Launch) -> int:
    """Run a job to its end, and end what its processes have left; on hosts their daemons do."""
    # with hosts, ssh may leave a process here that serves other connections, too
    with nothing_left() if job.local else contextlib.nullcontext():
        return start(job)


def _predict(parser: Parser, options: argparse.Namespace, program: list[str]) -> int:
    from bsp.command.prediction import forecast

    counts = [options.nprocs]
    if options.sweep is not None:
        if options.nprocs is not None:
            parser.error("--sweep names the numbers of processes; leave -p out")
        counts = [int(part) if part.strip().isdecimal() else 0 for part in options.sweep.split(",")]
        if min(counts) < 1:
            parser.error(f"--sweep {options.sweep}: numbers of processes, 1 or more each, as in --sweep 1,2,4,8")
    hosts = chosen_hosts(options)
    jobs = []
    for count in counts:
        if options.machine is not None:
            most = named(options.machine)["machine"]["p"]
        else:
            most = cores() if hosts is None else sum(host.slots for host in hosts)
        nprocs = most if count is None else count
        if options.elements is not None and options.elements > nprocs:
            parser.error(f"-n {options.elements} elements for {nprocs} processes; an element hosts at least one")
        elements = min(nprocs, most) if options.elements is None else options.elements
        jobs.append(
            Launch(
                nprocs=nprocs, elements=1, program=program, seed=options.seed, blas_threads=options.blas_threads,
                machine=_profile(parser, options, elements, hosts),
                predict={"elements": elements, "abstract": options.abstract, "every_process": options.every_process},
            )
        )  # fmt: skip
    given = (options.sweep is not None, options.json, options.trace, options.trace_format, options.report)
    with nothing_left():
        return forecast(jobs, *given)


def _elements(parser: Parser, options: argparse.Namespace, nprocs: int, hosts: list[Host] | None) -> int:
    """Return the number of elements; end with one clear error if the options do not fit."""
    wanted: int | None = options.elements
    if wanted is not None and wanted > nprocs:
        fits = f"use -n {nprocs} or less" if options.nprocs is not None else f"give -p {wanted} or more"
        parser.error(f"-n {wanted} elements for -p {nprocs} processes; an element hosts at least one: {fits}")
    nonstop = _nonstop().asked(options)  # carries its data without MPI
    if hosts is not None:
        if not nonstop and find_mpiexec() is None:
            parser.error(no_mpi())
        slots = sum(host.slots for host in hosts)
        elements = min(nprocs, _nonstop().room(options, slots) if nonstop else slots) if wanted is None else wanted
        placed(hosts, elements)  # raises where there is no room
        return elements
    most = MOST_ELEMENTS_A_CORE * cores()
    if wanted is not None and wanted > most and not options.mpi_args:
        parser.error(
            f"-n {wanted} elements on {cores()} cores; use -n {most} or less here, or name machines with --hosts"
        )
    elements = min(nprocs, cores()) if wanted is None else wanted
    if elements > 1 and not nonstop and find_mpiexec() is None:
        if wanted is not None:
            parser.error(f"-n {wanted}: {no_mpi()}")
        print(f"bsprun: one element instead of {elements}: {no_mpi()}", file=sys.stderr)
        return 1
    return elements
