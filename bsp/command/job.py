"""One element of a job, after its operating-system process has been set up by `start`.

Runs the script once for each process of this element, each in a `__main__` of its own; element 0
prints for all and tells bsprun the job's exit status.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, BinaryIO

import numpy as np

from bsp.checking.overlaps import Checker
from bsp.cost.machine_file import to_machine
from bsp.cost.model import DEFAULT, Machine
from bsp.cost.record.progress import RunProgress, after_clearing
from bsp.cost.record.recorder import Recorder
from bsp.cost.record.trace import record, write
from bsp.engine.console import OutputLost, tell_failure
from bsp.engine.element import Element
from bsp.engine.layout import Hosting
from bsp.engine.task import Task
from bsp.engine.verdict import Verdict
from bsp.errors import NoRoom, ValueNeeded
from bsp.host import keep_freed_memory
from bsp.hosts.build import build, difference
from bsp.hosts.lifeline import Lifeline, threads_waited_for
from bsp.interpreter.open_files import flush_files
from bsp.processes import Process
from bsp.source import is_program, traceback_of
from bsp.transport.base import Solo, Transport
from bsp.world import hosting

_REHEARSED = 1 << 16  # words in a large block


@dataclass(frozen=True)
class Script:
    """A program as code, and the attributes of its `__main__`."""

    code: CodeType
    file: str
    spec: importlib.machinery.ModuleSpec | None = None

    def main_module(self, pid: int) -> ModuleType:
        """Return a new `__main__` for a process."""
        module = ModuleType("__main__")
        module.__file__ = self.file
        module.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
        module.__spec__ = self.spec
        module.__loader__ = self.spec.loader if self.spec else None
        module.__package__ = self.spec.parent if self.spec else None
        return module


def load(program: list[str]) -> Script:
    """Return the script `program[0]`, or the module of `-m MODULE`; set sys.argv and sys.path as Python does.

    Raises ModuleNotFoundError for an unknown module, what reading and compiling a file raises, and what the packages
    raise that contain the module of -m: they are imported here.
    """
    if program[0] == "-m":
        sys.path[0] = os.getcwd()
        spec = importlib.util.find_spec(program[1])
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{program[1]}.__main__")
        loader = spec.loader if spec is not None else None
        code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None  # type: ignore[union-attr]
        if spec is None or code is None:
            raise ModuleNotFoundError(f"No module named {program[1]}")
        sys.argv = [spec.origin or program[1], *program[2:]]
        return Script(code, sys.argv[0], spec)
    path = os.path.abspath(program[0])
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    sys.argv = list(program)
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    return Script(code, path)


def run_element(settings: dict[str, Any], program: list[str], lifeline: Lifeline | None = None) -> None:
    """Run one element from start to end; `lifeline` is its connection to bsprun, if both are on one machine."""
    keep_freed_memory()
    # a job's only element is started without MPI: the environment may be that of a rank whose program starts the job
    ranks = () if settings.get("alone") else ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")
    under_mpi = any(name in os.environ for name in ranks)
    transport: Transport = Solo()
    profile = settings.get("machine")
    machine = DEFAULT if profile is None else to_machine(profile)
    if under_mpi:
        with contextlib.nullcontext() if lifeline is None else lifeline.starting_mpi():
            from mpi4py import MPI

        from bsp.transport.mpi import MpiTransport
        from bsp.transport.shared_memory import unlink_segments

        if MPI.COMM_WORLD.size > 1:
            unlink_segments(MPI.COMM_WORLD)
            transport = MpiTransport(MPI.COMM_WORLD, settings["schedule"], settings["seed"], machine)
            differs = difference(dict(enumerate(transport.gather(build()))))
            if differs is not None and transport.index == 0:
                print(f"bsprun: note: {differs}", file=sys.stderr)
    if transport.elements > 1:
        rehearse(transport, transport.elements)
    elif settings.get("predict") and not settings["predict"]["abstract"]:  # what it times has been rehearsed, too
        rehearse(transport, 2)
    try:
        verdict, said = _run(settings, program, transport, machine, lifeline)
    except BaseException as error:  # noqa: BLE001 - the end of this element, whatever it is
        tell_failure(error, lifeline)
        if under_mpi:
            MPI.COMM_WORLD.Abort(1)
        sys.exit(1)
    flush_files()
    if lifeline is not None:
        ending: dict[str, Any] = {"threads": threads_waited_for()}
        if transport.index == 0:
            ending |= {"status": verdict.status, "said": said, "failed": verdict.failure is not None}
        lifeline.farewell(**ending)
    elif transport.index == 0:
        sys.stderr.write(said)
        sys.exit(verdict.status)


def rehearse(transport: Transport, nprocs: int) -> None:
    """Run a few supersteps with all kinds of traffic, so that the program's first is as fast as its later ones.

    MPI makes connections when they are first used, and Python specialises code when it has run: together some
    milliseconds, which belong to the start.
    """

    def body(task: Task) -> None:
        proc = Process(task, task.contexts[0])
        neighbour = (proc.pid + 1) % proc.nprocs
        room, values = proc.coarray(_REHEARSED), np.ones(_REHEARSED)
        for size in (1, _REHEARSED, 1, _REHEARSED):
            room.put(neighbour, values[:size], at=slice(0, size))
            proc.send(neighbour, values[:size])
            room.get(neighbour, slice(0, 8))
            proc.sync()
            proc.allreduce(values[:8])
        proc.broadcast("ready")

    element = Element(nprocs, transport)
    element.host(body)
    element.run()
    transport.restart_clock()


def _run(
    settings: dict[str, Any], program: list[str], transport: Transport, machine: Machine, lifeline: Lifeline | None
) -> tuple[Verdict, str]:
    """Run the program on this element; return how the job has ended, and the message for standard error."""
    checker = Checker.of(settings, transport)
    if program[0] == "--function":
        from bsp.runner import serve

        if lifeline is not None:
            lifeline.watch()
        status = serve(
            program[1], program[2], settings["nprocs"], settings["seed"], transport, machine, checker, lifeline
        )
        if checker is not None and not status:
            checker.keep(transport)
        return Verdict(True, None, status), ""
    if program[0] == "--session":
        from bsp.session.serving import serve as serve_session

        if lifeline is not None:
            lifeline.watch()
        serve_session(program[1], settings, transport, machine, lifeline)
        return Verdict(True, None, 0), ""
    try:
        script = load(program)
    except Exception as error:  # noqa: BLE001 - what the program raises
        ran = any(is_program(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))
        told = traceback_of(error) if ran else "".join(traceback.format_exception_only(error))  # ran: a package of -m
        return Verdict(True, None, 1), told
    if settings.get("predict") is not None:
        status, said = _predict(settings, program, script, machine)
        return Verdict(True, None, status), said
    if lifeline is not None:
        lifeline.watch()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # process 0's text appears at once
    if transport.elements > 1:  # elements write to one place, and print writes a line in pieces: buffer lines
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    console: BinaryIO = os.fdopen(os.dup(1), "wb")  # the element prints the other processes' text there
    stderr = sys.stderr
    if checker is not None and checker.silent:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the first pass has printed it
        console = open(os.devnull, "wb")  # noqa: SIM115
    if settings.get("no_input"):
        from bsp.cost.prediction.predict import no_input

        sys.stdin = no_input("--check runs it several times and can read only a file anew: bsprun --check ... < FILE")
    nprocs, seed = settings["nprocs"], settings["seed"]
    recorder = None
    if settings.get("trace") is not None:
        layout = Hosting(nprocs, transport.elements)
        recorder = Recorder(nprocs, transport.elements, layout.pids(transport.index), machine.using(transport.elements))
    element = Element(
        nprocs,
        transport,
        seed,
        checker,
        machine,
        recorder,
        lifeline=lifeline,
        console=console,
        profile=settings.get("profile"),
    )
    if settings.get("progress") and transport.index == 0:
        element.progress = RunProgress(machine)
        sys.stdout, sys.stderr = (after_clearing(stream, element.progress) for stream in (sys.stdout, sys.stderr))
    element.host(executing(script.code), script.main_module)
    with hosting(element):
        verdict = element.run()
    sys.stderr = stderr
    if checker is not None:
        checker.keep(transport)
    if recorder is not None:
        notes = [f"the program failed: {verdict.failure}"] if verdict.failure is not None else []
        found = record(recorder, transport, program, seed, notes)
        if found is not None:
            try:
                write(found, settings["trace"])
            except OSError as wrong:  # a full disk
                raise OutputLost(wrong.errno, wrong.strerror, wrong.filename) from wrong
    return verdict, explanation(verdict)


def _predict(settings: dict[str, Any], program: list[str], script: Script, machine: Machine) -> tuple[int, str]:
    """Predict the script's cost and write the record for the launcher; return a status and a message.

    The script's output is discarded, except for standard error if the prediction succeeds.
    """
    from bsp.abstract import NotCounted
    from bsp.cost.prediction.predict import no_input, predicted

    stdout, stderr = sys.stdout, sys.stderr

    def host(element: Element) -> None:
        element.host(executing(script.code), script.main_module)

    def say(text: str) -> None:
        print(f"bsprun: predict: {text}", file=stderr, flush=True)

    sys.stdout.flush()
    with open(os.devnull, "w") as nobody, tempfile.TemporaryFile("w+", errors="replace") as said:
        os.dup2(nobody.fileno(), 1)  # also for what the script prints past sys.stdout
        sys.stdout, sys.stderr, sys.stdin = nobody, said, no_input()
        try:
            found, verdict, element = predicted(
                host, settings["nprocs"], settings["predict"]["elements"], machine, settings["seed"],
                settings["predict"]["abstract"], program, say, settings["predict"]["every_process"],
            )  # fmt: skip
        except NoRoom as wrong:
            return 2, f"bsprun: error: {wrong}\n"
        finally:
            sys.stdout, sys.stderr = stdout, stderr
        said.seek(0)
        text = said.read()
    if verdict.failure is None and not verdict.status:
        sys.stderr.write(text)
        write(found, settings["trace"])
        return 0, ""
    last = (verdict.farewell or text).strip().rpartition("\n")[2]
    ended = f"the program ends with status {verdict.status}" + (f": {last}" if last else "")
    what = str(verdict.failure) if verdict.failure is not None else ended
    asks = verdict.failure is None or "IndexError" in what
    hint = "; its arguments, if it needs any, stand after the script" if asks and len(program) == 1 else ""
    lacks_values = any(isinstance(task.raised, (ValueNeeded, NotCounted)) for task in element.tasks)
    if element.sample is not None and not lacks_values:
        hint += f" ({len(element.sample.pids)} of {element.nprocs} processes ran, for all; --every-process runs each)"
    return verdict.status or 1, f"bsprun: error: --predict: {what}{hint}\n"


def executing(code: CodeType) -> Callable[[Any], Any]:
    """Return a function that runs a program's code in its task's main module."""

    def body(task: Any) -> None:
        exec(code, task.main.__dict__)

    return body


def explanation(verdict: Verdict) -> str:
    """Return the message on what ended the job; empty after an orderly end."""
    culprit = verdict.culprit
    if culprit is not None and culprit.traceback:
        return f"bsprun: process {culprit.pid} raised in superstep {culprit.superstep}:\n{culprit.traceback}"
    if verdict.failure is not None:
        notes = "".join(f"{note}\n" for note in getattr(verdict.failure, "__notes__", ()))
        return f"bsprun: {type(verdict.failure).__name__}: {verdict.failure}\n{notes}{verdict.farewell}"
    return verdict.farewell
