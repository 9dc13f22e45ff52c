"""`bsp.run`: run a function as a BSP program, from a notebook, a test, or another program."""

from __future__ import annotations

import contextlib
import linecache
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bsp import source
from bsp.command.launch import BLAS_VARIABLES, Launch, start
from bsp.cost.machine_file import Profile, profile_of, to_machine
from bsp.cost.model import DEFAULT, Machine
from bsp.cost.record.progress import RunProgress, live_line
from bsp.cost.units import counted
from bsp.engine.element import Element
from bsp.engine.layout import check_numbers
from bsp.engine.reports import pickled
from bsp.engine.verdict import Verdict
from bsp.errors import CannotSend, LaunchError, ProcessFailed
from bsp.host import is_own
from bsp.hosts.listing import from_option, placed
from bsp.notebook import cell_lines, cell_names, hide_ours
from bsp.transport.base import Solo, Transport
from bsp.transport.schedules import CHOICES
from bsp.world import handle, hosting

if TYPE_CHECKING:
    from bsp.engine.reordering import Reordering
    from bsp.engine.task import Task
    from bsp.hosts.lifeline import Lifeline


def run(
    main: Callable[..., Any],
    *args: Any,
    nprocs: int | None = None,
    elements: int | None = None,
    engine: str = "plain",
    seed: int = 0,
    check: bool = False,
    schedule: str = "auto",
    blas_threads: int | None = None,
    machine: Machine | str | os.PathLike[str] | None = None,
    hosts: str | None = None,
    reach: str | None = None,
    progress: bool = False,
) -> list[Any]:
    """Run `main(proc, *args)` on `nprocs` processes and return their results, by pid.

    main, args : with elements > 1 they travel by cloudpickle, and so do the results.
    nprocs : the number of processes; None: as many as elements.
    elements : the number of MPI ranks, at most nprocs.  1: in this interpreter.  More: this call starts an MPI job of
        that many ranks, and waits for its end.  None: 1, or the slots of the hosts, at most nprocs.
    engine : "plain", or "world": this interpreter is itself one rank of an MPI job, and every rank makes
        this same call; the ranks of COMM_WORLD are the elements, results are returned on all.
    seed : of `proc.rng` and the global random generators of each process (D4).
    check : also look for overlaps, and run a second time in another order of turns (see bsp.checking.overlaps).
    schedule : of the exchange between elements, one of `bsp.transport.schedules.CHOICES`: "auto", "latin", ...
    blas_threads : BLAS threads; None: 1 if nprocs > 1 (D8), else left as they are.
    machine : what choices of algorithms depend on (D5): a Machine, a machine file, or a name that `bsprun --machine`
        accepts.  None: what `bsp probe` has measured here for this many elements, else a default.
    hosts, reach : where the elements run and how hosts are reached, as `bsprun --hosts` and `--reach` take them; None:
        on this machine.
    progress : whether to show a live line: superstep, h, time elapsed and predicted.  In a notebook it is an output of
        the cell; on standard error elsewhere, where it is replaced on a terminal and written once to a file.
        Of a job on `hosts`, or with `check` on several elements, none is shown.
    Raises the exception of the program, with a note that names the process and the superstep; LaunchError for
    arguments that do not fit, or a job that ends without results; CannotSend for what cannot go to other elements.
    """
    check_numbers("bsp.run", nprocs=nprocs, elements=elements, seed=seed, blas_threads=blas_threads)
    if engine not in ("plain", "world"):
        raise LaunchError(f"bsp.run: engine {engine!r} is none of 'plain', 'world'")
    if schedule not in CHOICES:
        raise LaunchError(f"bsp.run: schedule {schedule!r} is none of {', '.join(CHOICES)}")
    if engine == "world":
        from mpi4py import MPI

        elements = MPI.COMM_WORLD.size
    places = None if hosts is None else from_option(hosts)
    if elements is None:
        slots = 1 if places is None else sum(host.slots for host in places)
        elements = slots if nprocs is None else min(slots, nprocs)
    if places is not None:
        placed(places, elements)  # raises where there is no room
    nprocs = elements if nprocs is None else nprocs
    if nprocs < 1 or elements < 1:
        raise LaunchError(f"bsp.run: {nprocs} processes on {elements} elements; both are 1 or more")
    if elements > nprocs and engine == "plain":
        raise LaunchError(
            f"bsp.run: {counted(elements, 'element')} for {counted(nprocs, 'process', 'processes')}; "
            "at most one element a process"
        )
    threads = blas_threads if blas_threads is not None else 1 if nprocs > 1 else None
    profile = profile_of(machine, elements, places)

    def once(checker: Any) -> list[Any]:
        if engine == "world":
            return _in_world(main, args, nprocs, seed, checker, schedule, profile, progress)
        return run_here(main, args, nprocs, Solo(), seed, to_machine(profile), checker, progress)

    try:
        if engine == "plain" and elements > 1 and places is None and progress and not check:
            from bsp.session.session import OneCall

            with OneCall(
                nprocs, elements, seed=seed, schedule=schedule, blas_threads=blas_threads, machine=machine,
                progress=True,
            ) as call:  # fmt: skip
                return call.results(main, args)
        if engine == "plain" and (elements > 1 or places is not None):
            job = Launch(
                nprocs=nprocs, elements=elements, seed=seed, check=check, schedule=schedule, blas_threads=blas_threads,
                program=[], machine=profile, hosts=places, reach=reach,
            )  # fmt: skip
            return _in_a_job(main, args, job)
        with blas_limit(threads):
            if not check:
                return once(None)
            from bsp.checking.overlaps import twice

            return twice(once) if engine == "plain" else twice(once, _first_ranks)
    except BaseException as error:  # shown are the caller's line and those of main
        hide_ours(error)
        raise


def run_here(
    main: Callable[..., Any], args: tuple[Any, ...], nprocs: int, transport: Transport, seed: int,
    machine: Machine = DEFAULT, checker: Any = None, progress: bool = False, reordering: Reordering | None = None,
    lifeline: Lifeline | None = None,
) -> list[Any]:  # fmt: skip
    """Run `main` on this element and the other elements of `transport`; return the results by pid, on every element.

    reordering : the order of turns and arrivals here, for checks; None: that of pids.
    lifeline : this element's connection to the launcher, which is told whose turn it is.
    """
    element = Element(nprocs, transport, seed, checker, machine, lifeline=lifeline)
    element.reordering = reordering or element.reordering
    if progress and element.index == 0:
        element.progress = RunProgress(machine, live_line())
    sent: dict[int, bytes] = {}

    def body(task: Task) -> Any:
        result = main(handle(task), *args)
        if transport.elements > 1:  # in the process: what it raises reaches all elements, and none waits in `gather`
            sent[task.pid] = _pickled_result(task.pid, result)
        return result

    element.host(body)
    with hosting(element):
        verdict = element.run()
    raise_failure(verdict, element)
    mine = [task.result for task in element.tasks]
    if transport.elements == 1:
        return mine
    parts = transport.gather([sent.get(task.pid) for task in element.tasks])  # nothing after sys.exit
    results: list[Any] = []
    for k, part in enumerate(parts):
        results += mine if k == element.index else [each and pickle.loads(each) for each in part]
    return results


def _pickled_result(pid: int, result: Any) -> bytes:
    """Return the pickle of what process `pid` returns.  Raises CannotSend if there is none."""
    from bsp.values import by_value

    try:
        data: bytes = by_value.dumps(result)
    except Exception as wrong:  # noqa: BLE001 - pickling fails with any of them
        raise CannotSend(
            f"bsp.run: the result of process {pid}, {type(result).__name__}, cannot be pickled ({wrong}); "
            "return values, or run on one element"
        ) from None
    return data


def _readable(error: BaseException) -> BaseException:
    """Return an exception that another interpreter can unpickle: this one, or else its type and text in ProcessFailed.

    The notes of the exception, which hold its traceback, are kept.
    """
    if pickled(error):
        return error
    told = ProcessFailed(traceback.format_exception_only(error)[0].strip())
    for note in getattr(error, "__notes__", ()):
        told.add_note(note)
    return told


def raise_failure(verdict: Verdict, element: Element) -> None:
    """Raise the exception that ended the job, if there is one: the process's own object if the process ran here.

    A process on another element sent its exception pickled, where that was possible; else ProcessFailed is raised.
    `sys.exit` with a text or a non-zero status raises SystemExit with it.
    """
    culprit = verdict.culprit
    error = None
    if culprit is not None and isinstance(verdict.failure, ProcessFailed):
        error = next((task.raised for task in element.tasks if task.pid == culprit.pid), None)
        if error is None and culprit.pickled:
            error = pickle.loads(culprit.pickled)
    if culprit is not None and error is not None:
        error.add_note(f"raised by process {culprit.pid} in superstep {culprit.superstep}:\n{culprit.traceback}")
        raise error
    farewell = verdict.farewell.removesuffix("\n")
    if verdict.failure is not None:
        if culprit is not None and culprit.traceback:
            verdict.failure.add_note(culprit.traceback)
        if farewell:
            verdict.failure.add_note(farewell)
        raise verdict.failure
    if verdict.status:
        raise SystemExit(farewell or verdict.status)


def _in_world(
    main: Callable[..., Any], args: tuple[Any, ...], nprocs: int, seed: int, checker: Any, schedule: str,
    profile: Profile | None, progress: bool,
) -> list[Any]:  # fmt: skip
    """Run `main` on the ranks of COMM_WORLD; ranks beyond nprocs host no process, and receive the results of rank 0."""
    from mpi4py import MPI

    from bsp.transport.mpi import MpiTransport

    world = MPI.COMM_WORLD
    machine = to_machine(world.bcast(profile))  # rank 0's: the ranks may be on machines of their own
    hosts = world.Split(0 if world.rank < nprocs else 1)  # ranks beyond p have no process
    results: list[Any] | None = None
    error: BaseException | None = None
    if world.rank < nprocs:
        transport: Transport = MpiTransport(hosts, schedule, seed, machine) if hosts.size > 1 else Solo()
        try:
            results = run_here(main, args, nprocs, transport, seed, machine, checker, progress)
        except BaseException as raised:  # noqa: BLE001 - the idle ranks wait for it in bcast
            error = raised
    hosts.Free()
    if world.size > nprocs:
        from bsp.values import by_value

        known = None if error is None else _readable(error)
        told = world.bcast(by_value.dumps((results, known)) if world.rank == 0 else None)
        if world.rank >= nprocs:
            results, error = pickle.loads(told)
    if error is not None:
        raise error
    assert results is not None
    return results


def _first_ranks(value: Any) -> Any:
    """Return rank 0's value on every rank."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.bcast(value)


def _in_a_job(main: Callable[..., Any], args: tuple[Any, ...], job: Launch) -> list[Any]:
    """Start an MPI job that runs `main`; return its results, or raise its exception."""
    from bsp.values import by_value

    with tempfile.TemporaryDirectory(prefix="bsp-run-") as folder:
        request, answer = os.path.join(folder, "main"), os.path.join(folder, "results")
        call = by_value.call_dumps("bsp.run", main, args, by_value.dumps)
        with open(request, "wb") as file:
            pickle.dump(sys.path, file)  # so that the job imports the modules that main needs from the same places
            pickle.dump((cell_names(), cell_lines()), file)
            file.write(call)
        job.program = ["--function", request, answer]
        status = start(job)
        if status == 130:
            raise KeyboardInterrupt
        if not os.path.exists(answer):
            raise LaunchError(f"bsp.run: the job of {job.elements} elements ended with status {status} and no results")
        with open(answer, "rb") as file:
            results, error = pickle.load(file)
    if error is not None:
        raise error
    done: list[Any] = results
    return done


def serve(
    request: str, answer: str, nprocs: int, seed: int, transport: Transport, machine: Machine, checker: Any,
    lifeline: Lifeline | None,
) -> int:  # fmt: skip
    """Run the function of a request file in an element of the job that `run` started; element 0 writes the answer.

    request : a file with sys.path, the names and lines of the caller's cells, then (main, args).  It is unpickled, so
        its folder must be this user's alone.
    answer : the file that `run` reads: (results, error).
    Returns the exit status of the element.  Raises LaunchError if the folder is not on this machine.
    """
    from bsp.values import by_value

    if not is_own(os.path.dirname(request)):
        raise LaunchError(f"bsp.run: {os.path.dirname(request)} is not on this machine: its elements share one")
    with open(request, "rb") as file:
        sys.path[:] = pickle.load(file)
        names, lines = pickle.load(file)
        source.cells.update(names)
        linecache.cache.update(lines)
        main, args = pickle.load(file)
    results, error, status = None, None, 0
    try:
        results = run_here(main, args, nprocs, transport, seed, machine, checker, lifeline=lifeline)
    except BaseException as raised:  # noqa: BLE001 - `run` raises it again in the interpreter of its caller
        error, status = _readable(raised), 1
    if transport.index == 0:
        try:
            data = by_value.dumps((results, error))
        except Exception as wrong:  # noqa: BLE001
            told = LaunchError(f"bsp.run: what the job gives back cannot be pickled: {wrong!r} (error: {error!r})")
            data = by_value.dumps((None, told))
        with open(answer, "wb") as file:
            file.write(data)
    return status


@contextlib.contextmanager
def blas_limit(threads: int | None) -> Iterator[None]:
    """Limit BLAS to this many threads inside the block, including libraries loaded inside it (D8); None: no limit."""
    if threads is None:
        yield
        return
    from threadpoolctl import threadpool_limits

    # threadpoolctl reaches libraries that are loaded; those loaded later read the environment
    kept = {name: os.environ.get(name) for name in BLAS_VARIABLES}
    os.environ.update(dict.fromkeys(BLAS_VARIABLES, str(threads)))
    try:
        with threadpool_limits(threads):
            yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
