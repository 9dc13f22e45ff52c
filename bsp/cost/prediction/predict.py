"""Predictions: all p processes run in this interpreter, and are priced as if they ran on a machine's elements.

With real data the processes compute in turn on this machine.  Words, messages and supersteps are exact; computing time
is scaled by r to the machine with all elements busy.  MPI is never started.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any, TextIO

import psutil

from bsp.cost.machine_file import host_id, profile_of, to_machine
from bsp.cost.model import Machine
from bsp.cost.prediction.clock import OwnClock
from bsp.cost.prediction.sample import WIDE, Sample
from bsp.cost.prediction.sample_recorder import SampleRecorder
from bsp.cost.prediction.sampled_collectives import SampledCollectives
from bsp.cost.record.account import starts
from bsp.cost.record.recorder import Recorder
from bsp.cost.record.trace import headed, peak_bytes
from bsp.cost.units import in_bytes, in_seconds
from bsp.engine.element import Element
from bsp.engine.layout import check_numbers
from bsp.engine.verdict import Verdict
from bsp.errors import LaunchError, NoInput, NoRoom
from bsp.host import cores, memory_in_use
from bsp.source import here
from bsp.world import handle, hosting

_DEFAULT = "the machine is a default, not measured: run `bsp probe` first"
_ALONE = (
    "the processes never meet: each does the whole program alone; supersteps of bsp.run and bsp.Session are not "
    "counted here, bsp.predict(main, nprocs=...) prices them"
)
Host = Callable[[Element], None]
_MEMORY_KEPT = 0.9  # share of the available memory that the first superstep may fill
_OF_A_PROCESS = 64  # bytes noted at least of each process, also of one that does not run
_LEAST = 0.03  # share of all memory that stays free
_EVERY = 0.005  # seconds between measurements of memory
_BUSY, _NOTICED = 0.25, 0.05  # a machine is busy above this share, and so many seconds, of waits for a core


class Prediction(Sequence[dict[str, Any]]):
    """The priced supersteps, in order: `prediction[0]["words"]`; the sums are attributes.

    processes, supersteps, words, messages : counts;  seconds : predicted;  peak_bytes : of an element;
    per_superstep : the rows;  record : everything, as `bsprun --predict --json` prints it.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.processes: int = record["processes"]
        self.supersteps: int = record["supersteps"]
        self.words: int = record["words"]
        self.messages: int = record["messages"]
        self.seconds: float = record["seconds"]
        self.peak_bytes: int = record["peak_bytes"]
        self.per_superstep: list[dict[str, Any]] = record["per_superstep"]

    def __len__(self) -> int:
        return len(self.per_superstep)

    def __getitem__(self, k: int | slice) -> Any:
        return self.per_superstep[k]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.per_superstep)

    def __str__(self) -> str:
        from bsp.cost.report.tables import prediction_text

        return prediction_text(self.record)

    __repr__ = __str__


def predict(
    main: Callable[..., Any],
    *args: Any,
    nprocs: int | None = None,
    machine: Machine | str | os.PathLike[str] | None = None,
    elements: int | None = None,
    seed: int = 0,
    abstract: bool = False,
    blas_threads: int | None = None,
    every_process: bool = False,
) -> Prediction:
    """Predict the cost of `bsp.run(main, *args, nprocs=nprocs)` on `machine`.  With real data it runs all processes.

    machine : a Machine, a machine file or a name that `bsprun --machine` takes; None: this one, as probed.
    elements : number of the machine's elements that are used; None: all, at most nprocs.
    abstract : carry arrays as shapes and count the work instead of doing it.  More than 1000 processes are then
        predicted from a few that run and stand for those that do alike (see `bsp.cost.prediction.sample`).
    every_process : run all of them nevertheless.
    Raises what the program raises; ValueNeeded where an abstract program asks for a value.
    """
    from bsp.runner import blas_limit, raise_failure

    check_numbers("bsp.predict", nprocs=nprocs, elements=elements, seed=seed, blas_threads=blas_threads)
    here_first = min(nprocs or cores(), cores()) if elements is None and machine is None else (elements or 1)
    model = to_machine(profile_of(machine, here_first))
    nprocs = elements or model.p if nprocs is None else nprocs
    if elements is None:
        elements = min(nprocs, model.p if machine is not None else cores())
    if nprocs < 1 or not 1 <= elements <= nprocs:
        raise LaunchError(f"bsp.predict: {nprocs} processes on {elements} elements; 1 <= elements <= processes")

    def host(element: Element) -> None:
        element.host(lambda task: main(handle(task), *args))

    with blas_limit(blas_threads if blas_threads is not None else 1 if nprocs > 1 else None):
        record, verdict, element = predicted(
            host,
            nprocs,
            elements,
            model,
            seed,
            abstract,
            [getattr(main, "__name__", "a function")],
            every_process=every_process,
        )
    raise_failure(verdict, element)
    return Prediction(record)


def predicted(
    host: Host, nprocs: int, elements: int, machine: Machine, seed: int, abstract: bool = False,
    program: Sequence[str] = (), say: Callable[[str], None] = lambda text: None, every_process: bool = False,
) -> tuple[dict[str, Any], Verdict, Element]:  # fmt: skip
    """Return the record of a prediction, how the program ended, and the element that hosted it.

    host : gives the element its processes.  say : called with messages during the prediction.
    """
    least, available = nprocs * _OF_A_PROCESS, psutil.virtual_memory().available
    if least > available:
        raise NoRoom(
            f"--predict: notes on {nprocs} processes alone need {in_bytes(least)}; {in_bytes(available)} are free; "
            "predict fewer processes"
        )
    seen = machine.using(elements)
    sample = Sample(nprocs) if abstract and nprocs > WIDE and not every_process else None
    notes: list[str] = []
    if nprocs > WIDE and sample is None and not every_process:
        say(f"all {nprocs} processes run in this one, in turn; --abstract runs a few that stand for all, in seconds")
    if sample is None:
        recorder = Recorder(nprocs, elements, range(nprocs), seen)
        element = Element(nprocs, None, seed, None, machine, recorder)
    else:
        recorder = SampleRecorder(nprocs, elements, seen, sample)
        element = Element(nprocs, None, seed, None, machine, recorder)
        element.sample, element.sampled = sample, SampledCollectives(sample, recorder)
        notes.append(f"{len(sample.pids)} of {nprocs} processes ran; the others are taken to do as those")
    host(element)
    around: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if abstract:
        from bsp.cost.prediction.abstraction import Abstraction

        element.abstract = Abstraction(nprocs, seen)
        recorder.work_of = element.abstract.seconds
        around = element.abstract.around()
        if machine.kind == "default":
            notes.append(_DEFAULT + "; everything is computed at r = 2 Gflop/s")
    else:
        scale, notes = _scale(seen)
        recorder.work_of = lambda seconds: seconds * scale
    memory = _Memory(nprocs, say)
    clock = OwnClock()
    if not abstract:
        recorder.after_a_turn = memory.look
        recorder.clock = clock
    began, waited = clock(), clock.waited()
    with around, hosting(element):
        verdict = element.run()
    if not abstract:
        notes += _on_a_busy_machine(clock() - began, clock.waited() - waited)
    clock.close()
    assert recorder.account is not None
    record = headed("prediction", program, seed, notes) | recorder.account.record(measured=False)
    if nprocs > 1 and not record["supersteps"]:
        record["notes"].append(_ALONE)
    record["abstract"] = abstract
    first = starts(nprocs, elements)
    if element.abstract is not None:
        peaks = [account.peak_bytes for account in element.abstract.accounts]
        if sample is not None:
            peaks = sample.everybodys([peaks[pid] for pid in sample.pids])
        passing = 0
        if element.abstract.bounded:
            record["notes"].append("some sizes depend on values: work, words and memory are upper bounds")
    else:
        peaks = [memory.kept // nprocs] * nprocs
        passing = memory.passing
    record["per_element"] = [
        {
            "element": k,
            "first_pid": low,
            "last_pid": high - 1,
            "peak_bytes": memory.before + sum(peaks[low:high]) + passing,
        }
        for k, (low, high) in enumerate(pairwise(first))
    ]  # fmt: skip
    record["peak_bytes"] = max(part["peak_bytes"] for part in record["per_element"])
    return record, verdict, element


def _scale(machine: Machine) -> tuple[float, list[str]]:
    """Return the seconds that a second of computing on one core here takes on the machine, and notes on that factor."""
    if machine.kind == "default":
        return 1.0, [_DEFAULT + "; computing is taken to go as fast as here"]
    if machine.kind == "measured" and machine.host == host_id():
        return machine.slowdown, []
    from bsp.cost.probe.rates import quick_rate

    return quick_rate() / machine.r, [f"computing is scaled to {machine.name} by r, from a short measurement here"]


def _on_a_busy_machine(own: float, waited: float) -> list[str]:
    """Return notes on a prediction that took `own` seconds and waited for a core for `waited` more."""
    if waited < max(_NOTICED, _BUSY * own):
        return []
    return [
        f"this machine was busy: of {in_seconds(own + waited)} the program waited {in_seconds(waited)} for a core, "
        "which is left out; what shared caches cost is not: repeat it when less runs here"
    ]


class _NoInput(io.TextIOBase):
    """A standard input that raises NoInput when it is read."""

    def __init__(self, why: str) -> None:
        self._why = why

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> str:
        raise NoInput(f"the script reads standard input ({here()}); {self._why}")

    @property
    def buffer(self) -> _NoInput:
        """The binary layer, which raises as well."""
        return self

    readline = read  # type: ignore[assignment]


def no_input(why: str = "a prediction has none: give it its data by file or argument") -> TextIO:
    """Return a sys.stdin that raises NoInput when it is read; `why` ends the message."""
    return _NoInput(why)  # type: ignore[return-value]


class _Memory:
    """The memory of a prediction: what processes hold between their turns, and what a turn needs in addition."""

    def __init__(self, nprocs: int, say: Callable[[str], None]) -> None:
        self._nprocs = nprocs
        self._say = say
        self.before: int = memory_in_use()
        self._growth: list[int] = []
        self._highest: int = self.before
        self._looked = 0.0

    @property
    def kept(self) -> int:
        """The largest number of bytes that all processes held at the end of a turn."""
        return self._highest - self.before

    @property
    def passing(self) -> int:
        """The largest number of bytes that a turn needed in addition."""
        return max(0, peak_bytes() - self._highest)

    def look(self) -> None:
        """Measure memory at the end of a turn.  Raises NoRoom before the system would kill this process."""
        if len(self._growth) < 2:
            self._highest = max(self._highest, held := memory_in_use())
            self._growth.append(held - self.before - sum(self._growth))
            if len(self._growth) == 2:  # the second shows what one more process takes; the first also pays for imports
                _room_for(self._nprocs, self._growth[0], max(self._growth[1], 0), self._say)
            return
        now = perf_counter()
        if now - self._looked < _EVERY:
            return
        self._looked = now
        self._highest = max(self._highest, memory_in_use())
        memory = psutil.virtual_memory()
        if memory.available < _LEAST * memory.total:
            raise NoRoom(
                f"--predict with real data: its processes fill the memory, {in_bytes(memory.available)} are free; "
                "use --abstract, or fewer processes"
            )


def _room_for(nprocs: int, first: int, each: int, say: Callable[[str], None]) -> None:
    """Raise NoRoom if not all processes fit into memory, judged in the first superstep before the third one starts."""
    available = psutil.virtual_memory().available
    more = each * (nprocs - 2)
    said = f"all {nprocs} processes run in this one; in their first superstep they need {in_bytes(first + each + more)}"
    if more > _MEMORY_KEPT * available:
        raise NoRoom(
            f"--predict with real data: {said} ({in_bytes(each)} each); {in_bytes(available)} are free; "
            "use --abstract, or fewer processes"
        )
    say(f"{said}; {in_bytes(available)} are free")
