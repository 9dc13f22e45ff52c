"""Collectives of a sample: the cost is that of the algorithm which all processes would choose, the result is made here.

The processes that run exchange their values at one boundary.  Those of all others are taken to be the alike ones'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.abstract import HeldMemory, counter
from bsp.abstract.array import owned, traits_of, viewing
from bsp.collectives import exchanges
from bsp.collectives.broadcasts import BROADCAST
from bsp.collectives.choice import Algorithm, Collective
from bsp.collectives.exchanges import ALLGATHER, ALLTOALL
from bsp.collectives.gathers import GATHER
from bsp.collectives.reductions import ALLREDUCE, REDUCE, SCAN
from bsp.collectives.scatters import SCATTER
from bsp.collectives.sizes import Sizes
from bsp.collectives.steps import check_one_for_each, pack, unpack, words_of
from bsp.cost.model import WORD
from bsp.cost.prediction.sample import CannotStand, Sample
from bsp.cost.prediction.sample_recorder import SampleRecorder
from bsp.engine.task import Call
from bsp.transport.header import digest
from bsp.values.operations import Reduction, combine, operation
from bsp.values.payload import Packed, dumps, is_abstract, is_array, size_of

if TYPE_CHECKING:
    from bsp.processes import Process

_CHANNEL = 1  # the collectives' context
_OF_ROOTS = (BROADCAST, SCATTER)  # the root alone chooses how
_BUNDLING = (GATHER, ALLGATHER, SCATTER, ALLTOALL)  # all algorithms but those of one phase pickle values together
Group = Sequence[int] | None


class SampledCollectives:
    """The functions of `bsp.collectives`, for the processes of a sample."""

    def __init__(self, sample: Sample, recorder: SampleRecorder) -> None:
        self._sample = sample
        self._recorder = recorder
        self._given: dict[int, dict[int, Any]] = {}  # by superstep: what each process that runs has brought
        self._left: dict[int, int] = {}  # how many of them have not taken what was brought
        self._found: dict[tuple[int, str], Any] = {}  # results that all need alike, by superstep

    def _exchange(
        self, proc: Process, collective: Collective, text: str, value: Any, words: float, group: Group,
        algorithm: str | None, chooses: int | None = 1, cuttable: bool = False,
    ) -> dict[int, Any]:  # fmt: skip
        """End the supersteps of a collective; return what each process that runs has brought, by pid.

        words : those of the value, by which it is priced, with fractions, because words are rounded when they are
            added up; chooses : those by which the algorithm is chosen, None on a process that leaves it to the root.
        """
        if group is not None:
            raise CannotStand(f"{text} of a group: a few processes cannot stand for all; predict with all processes")
        task, name = proc._task, ""
        if chooses is not None:
            chosen: Algorithm = collective.choose(proc, chooses, algorithm, text, False, cuttable)
            if collective in _BUNDLING and chosen.name != "one-phase":
                apart = collective in (GATHER, ALLGATHER)
                added = _added(value[0] if isinstance(value, list) else value, proc.nprocs, apart)
                words += added * (proc.nprocs if collective is SCATTER else 1)  # its words are those of all values
            sizes = Sizes(task.element.machine, proc.nprocs, words, elements=self._recorder.elements)
            self._recorder.costs(_CHANNEL, chosen.costs(sizes))
            name = "" if collective in _OF_ROOTS else chosen.name
        superstep = task.element.superstep
        self._given.setdefault(superstep, {})[proc.pid] = value
        call = Call(text, digest(text, name), (proc._context, task.contexts[_CHANNEL]))
        task.boundary(call)
        given, self._last = self._given[superstep], superstep
        self._left[superstep] = self._left.get(superstep, len(given)) - 1
        if not self._left[superstep]:  # the last one: what it takes is kept by nobody else
            del self._given[superstep], self._left[superstep]
            self._found = {key: each for key, each in self._found.items() if key[0] >= superstep}
        return given

    def _once(self, name: str, make: Callable[[], Packed]) -> Any:
        """Return a value that all processes make alike, made once; each gets a copy of its own."""
        key = (self._last, name)
        if key not in self._found:
            self._found[key] = make()
        return unpack(self._found[key])

    def _all(self, given: dict[int, Packed]) -> list[Any]:
        """Return the values of all processes, by pid."""
        parts = {pid: _held(unpack(packed), len(self._sample.of[pid])) for pid, packed in given.items()}
        return [parts[pid] for pid in self._sample.alike.tolist()]

    def broadcast(self, proc: Process, value: Any, root: int, group: Group, algorithm: str | None) -> Any:
        """See `Process.broadcast`."""
        return _held(unpack(self._from(proc, BROADCAST, f"broadcast(root={root!r})", value, root, group, algorithm)))

    def _from(
        self, proc: Process, collective: Collective, text: str, value: Any, root: int, group: Group,
        algorithm: str | None,
    ) -> Any:  # fmt: skip
        """Return what the root has brought."""
        if root not in self._sample.place:
            raise CannotStand(f"{text}: a few processes stand for all, process {root} is not one of them")
        scattered = collective is SCATTER
        at_root = proc.pid == root
        if scattered and at_root:
            check_one_for_each(proc, text, value, proc.nprocs)
        packed: Any = b""
        if at_root:
            packed = [pack(each, proc, text) for each in value] if scattered else pack(value, proc, text)
        words = _words(*packed) if scattered else _words(packed)
        chooses = None if not at_root else sum(map(words_of, packed)) if scattered else words_of(packed)
        return self._exchange(
            proc, collective, text, packed, words, group, algorithm, chooses, cuttable=not scattered
        )[root]  # fmt: skip

    def scatter(
        self, proc: Process, values: Sequence[Any] | None, root: int, group: Group, algorithm: str | None
    ) -> Any:
        """See `Process.scatter`."""
        text = f"scatter(root={root!r})"
        return _held(unpack(self._from(proc, SCATTER, text, values, root, group, algorithm)[proc.pid]))

    def gather(self, proc: Process, value: Any, root: int, group: Group, algorithm: str | None) -> Any:
        """See `Process.gather`."""
        packed, text = pack(value, proc, "gather"), f"gather(root={root!r})"
        given = self._exchange(proc, GATHER, text, packed, _words(packed), group, algorithm)
        return self._all(given) if proc.pid == root else None

    def allgather(self, proc: Process, value: Any, group: Group, algorithm: str | None) -> Any:
        """See `Process.allgather`."""
        packed = pack(value, proc, "allgather")
        return self._all(self._exchange(proc, ALLGATHER, "allgather", packed, _words(packed), group, algorithm))

    def alltoall(
        self, proc: Process, values: Sequence[Any], group: Group, algorithm: str | None, text: str = "alltoall"
    ) -> Any:
        """See `Process.alltoall`."""
        check_one_for_each(proc, text, values, proc.nprocs)
        packed = [pack(value, proc, text) for value in values]
        words = _words(*packed) / proc.nprocs
        given = self._exchange(proc, ALLTOALL, text, packed, words, group, algorithm)
        return self._all({pid: parts[proc.pid] for pid, parts in given.items()})

    def total_exchange(
        self, proc: Process, rows: Any, counts: Sequence[int] | np.ndarray | None, algorithm: str | None
    ) -> Any:
        """See `Process.total_exchange`."""
        return exchanges.total_exchange(proc, rows, counts, algorithm, self.alltoall)

    def transfer(self, proc: Process, payload: Any, to: int | None, expect: bool) -> Any:
        """Raise CannotStand: whether a process expects something is its own matter."""
        raise CannotStand("transfer: a few processes cannot stand for all; predict with all processes")

    def _combined(
        self, proc: Process, collective: Collective, name: str, value: Any, op: Any, group: Group,
        algorithm: str | None,
    ) -> tuple[Reduction, dict[int, Packed]]:  # fmt: skip
        known = operation(op)
        array = is_array(value)
        kind = f"{value.dtype}{list(value.shape)}" if array else "object"
        packed, text = pack(value, proc, name), f"{name}({kind}, op='{known.name}')"
        cuttable = array and known.elementwise
        chooses = words_of(packed) if array else 1
        return known, self._exchange(
            proc, collective, text, packed, _words(packed), group, algorithm, chooses, cuttable
        )  # fmt: skip

    def reduce(self, proc: Process, value: Any, op: Any, root: int, group: Group, algorithm: str | None) -> Any:
        """See `Process.reduce`."""
        known, given = self._combined(proc, REDUCE, "reduce", value, op, group, algorithm)
        result = self._result(proc, known, given)
        return result if proc.pid == root else None

    def allreduce(self, proc: Process, value: Any, op: Any, group: Group, algorithm: str | None) -> Any:
        """See `Process.allreduce`."""
        return self._result(proc, *self._combined(proc, ALLREDUCE, "allreduce", value, op, group, algorithm))

    def _result(self, proc: Process, op: Reduction, given: dict[int, Packed]) -> Any:
        """Return all values combined; arrays without values combine to one of their shape."""
        own = unpack(given[proc.pid])
        if is_abstract(own):
            return combine([own, own.copy()], op)
        return self._once("combined", lambda: pack(combine(self._all(given), op), proc, "allreduce"))

    def scan(self, proc: Process, value: Any, op: Any, group: Group, algorithm: str | None, inclusive: bool) -> Any:
        """See `Process.scan` and `Process.exscan`."""
        known, given = self._combined(proc, SCAN, "scan" if inclusive else "exscan", value, op, group, algorithm)
        own = unpack(given[proc.pid])
        if is_abstract(own):
            return combine([own, own.copy()], known)
        if not inclusive and not proc.pid:
            return known.identity_like(value)
        at = proc.pid - (not inclusive)
        sums = self._once("prefixes", lambda: pack(self._prefixes(known, given), proc, "scan"))
        return sums[at]

    def _prefixes(self, op: Reduction, given: dict[int, Packed]) -> dict[int, Any]:
        """Return the values up to each process that is asked for, combined."""
        wanted = {pid + shift for pid in self._sample.pids for shift in (-1, 0)}
        return {pid: each for pid, each in enumerate(accumulate(self._all(given), op)) if pid in wanted}


def _held(value: Any, times: int = 1) -> Any:
    """Return a value that this process receives, in memory of its own for as many of it as it gets."""
    if not (is_array(value) and is_abstract(value)):
        return value
    return viewing(owned((times, *value.shape), value.dtype), value.shape, value.dtype, traits_of(value))


def _words(*packed: Packed) -> float:
    """Return the words of values, with fractions."""
    return sum(map(size_of, packed)) / WORD


def _added(packed: Packed, nprocs: int, apart: bool) -> float:
    """Return the words that a value has more inside a pickle of several values.

    apart : whether the values come from different processes: each array then brings a dtype of its own.
    """
    account, counter.account = counter.account, HeldMemory()  # no process holds what is made to be measured
    first, second = (unpack(dumps([packed]))[0] for _ in range(2))
    if not apart and not isinstance(first, bytes):
        second = first.copy()
    counter.account = account
    of_one, of_two = (size_of(dumps({nprocs - k: part for k, part in enumerate(parts, 1)}))
                      for parts in ([first], [first, second]))  # fmt: skip
    return (of_two - of_one - size_of(packed)) / WORD
