"""Declared costs: a second function, beside a procedure, that states what the procedure computes and sends.

A procedure of many supersteps, such as a fit or a factorisation, decides its course by values, while its cost
follows from shapes.  `declares(cost)` attaches the cost to the procedure.  The cost function reports work, memory
and supersteps to a `Costs`, in the order in which the procedure does them, and returns what the procedure returns,
made of shapes:

    def _cost(costs, rows, model): costs.work(blas2=4 * n * d); costs.allreduce(1 + d); return costs.array((d,))

    @declares(_cost)
    def solve(rows, model): ...

In a run with values the body runs and the cost function is never called.  In a run without values
(`bsprun --predict --abstract`) the cost function runs and the body is never entered: each superstep that is
declared ends a superstep, with that traffic.  With `Totals` the same function computes the price before there are
processes.  So there is one formula for both, and tests compare it with real runs.
"""

from __future__ import annotations

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any, TypeVar, Unpack, cast

import numpy as np

from bsp.abstract import table
from bsp.abstract.array import owned, scalar, viewing
from bsp.abstract.work import CACHED, FLOPS, Block, Flops, counter
from bsp.collectives.reductions import ALLREDUCE
from bsp.cost.model import WORD, Cost, Machine
from bsp.engine.task import Call
from bsp.processes import Process
from bsp.transport.header import digest
from bsp.values.effects import Send
from bsp.world import process

Function = TypeVar("Function", bound=Callable[..., Any])


def _amounts(**given: float) -> None:
    """Raise ValueError for a declared amount that is negative, infinite, or not a number."""
    for name, amount in given.items():
        if not 0 <= amount < inf:
            raise ValueError(f"a declared cost has {name} = {amount}: an amount is a number, and not negative")


class Costs(ABC):
    """The receiver of a declared cost: its methods are called in the order in which the procedure would do the work.

    p : the number of processes.  machine : the profile by which algorithms are chosen.
    """

    p: int
    machine: Machine

    def work(self, *, nbytes: float = 0, **flops: Unpack[Flops]) -> None:
        """Declare computing by this process: flops by class, and bytes read and written.

        flops : `blas1`, `blas2`, `blas3`, `elementwise`, ..., which `bsp.abstract.work` explains.
        Raises TypeError for another class, ValueError for an amount that is negative or no number, as all methods do.
        """
        for name in flops:
            if name not in FLOPS:
                raise TypeError(f"work of the class {name!r}: it is one of {', '.join(FLOPS)}")
        _amounts(nbytes=nbytes, **flops)
        self._work(cast("dict[str, float]", flops), nbytes)

    @abstractmethod
    def _work(self, flops: Mapping[str, float], nbytes: float) -> None:
        """Take what `work` was given."""

    def allreduce(self, count: int, dtype: Any = float) -> None:
        """Declare a sum of `count` numbers over all processes, by the algorithm that is cheapest on the machine."""
        _amounts(count=count)
        self._allreduce(count, dtype)

    @abstractmethod
    def _allreduce(self, count: int, dtype: Any) -> None:
        """Take what `allreduce` was given."""

    def factoring(self, flops: float, columns: int) -> None:
        """Declare factoring so many columns: some flops are BLAS-2, the rest BLAS-3."""
        narrow = table.factored(columns)
        self.work(blas2=narrow * flops, blas3=(1 - narrow) * flops)

    def reflecting(self, flops: float, columns: int, nbytes: float = 0) -> None:
        """Declare Householder QR of tall blocks of so many columns, and bytes read and written."""
        slow = table.reflected(columns)
        self.work(elementwise=slow * flops, blas2=(1 - slow) * flops, nbytes=nbytes)

    def squaring(self, flops: float, columns: int, nbytes: float = 0) -> None:
        """Declare xᴴ·x of so many columns, and bytes read and written: flops of few columns are slow ones."""
        self._work({name: share * flops for name, share in table.squared(columns).items()}, nbytes)

    def substituting(self, flops: float, columns: int, nbytes: float = 0) -> None:
        """Declare rows divided by a triangle of so many columns, and bytes; flops of few columns are slow ones."""
        self._work({name: share * flops for name, share in table.substituted(columns).items()}, nbytes)

    def exchange(self, text: str, sends: Mapping[int, float], h: float, messages: int) -> None:
        """Declare one superstep in which this process sends words to some other processes.

        text : the name of the superstep.
        sends : words by pid; fractions of words where elements are shorter, which are rounded up in their sum.
        h, messages : those of the process that sends or receives most.
        Raises ValueError if there is no process of such a pid.
        """
        _amounts(h=h, messages=messages, **{f"words to process {dest}": words for dest, words in sends.items()})
        for dest in sends:
            if not 0 <= dest < self.p:
                raise ValueError(f"{text}: a declared cost sends to process {dest}; there are {self.p}, from 0 on")
        self._exchange(text, sends, h, messages)

    @abstractmethod
    def _exchange(self, text: str, sends: Mapping[int, float], h: float, messages: int) -> None:
        """Take what `exchange` was given."""

    @abstractmethod
    def at_most(self) -> None:
        """Declare that all that follows is an upper bound: values decide how much of it takes place."""

    def holding(self, words: float) -> contextlib.AbstractContextManager[None]:
        """Declare memory that the procedure holds inside the `with`, beside its operands and what it returns."""
        _amounts(words=words)
        return self._holding(words)

    @abstractmethod
    def _holding(self, words: float) -> contextlib.AbstractContextManager[None]:
        """Take what `holding` was given."""

    @abstractmethod
    def array(self, shape: tuple[int, ...], dtype: Any = float) -> Any:
        """Return the array that the procedure returns, as a shape; a number if the shape is ()."""

    def shape_of(self, value: Any) -> Any:
        """Return an array as a shape; whatever is no array with values as it is."""
        return owned(value.shape, value.dtype) if isinstance(value, np.ndarray) else value

    def product(self, m: int, k: int, n: int, dtype: Any = float) -> None:
        """Declare a product of matrices, (m, k) by (k, n)."""
        kind = np.dtype(dtype)
        flops = table.product(m, k, n) * table.complexity(kind)
        self.work(**{table.product_kernel(m, n, kind, k): flops})

    def visits(self, count: int, dtype: Any = float) -> None:
        """Declare one operation on each of so many pairs of elements, which come from memory if no cache holds them."""
        kind = np.dtype(dtype)
        nbytes = 3 * count * kind.itemsize if count > CACHED else 0
        self.work(elementwise=count * table.complexity(kind), nbytes=nbytes)


class Totals(Costs):
    """The sum of a declared cost, for p processes on a machine: `cost`."""

    def __init__(self, p: int, machine: Machine) -> None:
        self.p, self.machine = p, machine
        self.cost = Cost(0, 0, 0)
        self._held: float = 0

    def _work(self, flops: Mapping[str, float], nbytes: float) -> None:
        """Add up flops; bytes cost nothing in McColl's model."""
        self.cost += Cost(sum(flops.values()), 0, 0)

    def _allreduce(self, count: int, dtype: Any) -> None:
        """See `Costs.allreduce`."""
        self.cost += allreduced(count, self.p, self.machine, np.dtype(dtype).itemsize)

    def _exchange(self, text: str, sends: Mapping[int, float], h: float, messages: int) -> None:
        """See `Costs.exchange`."""
        self.cost += Cost(0, ceil(h), 1, messages=messages)

    def at_most(self) -> None:
        """See `Costs.at_most`.  No effect: the price of an upper bound is an upper bound."""

    @contextlib.contextmanager
    def _holding(self, words: float) -> Iterator[None]:
        """See `Costs.holding`."""
        self._held += words
        self.cost = self.cost._replace(M=max(self.cost.M, ceil(self._held)))
        yield
        self._held -= words

    def array(self, shape: tuple[int, ...], dtype: Any = float) -> Any:
        """Return None: the result of a procedure that is only priced is not used."""
        return None


class Reported(Costs):
    """One process's report of a declared cost in a run without values: it counts the work and ends the supersteps.

    Its supersteps take place in a context of their own (B2).
    """

    def __init__(self, proc: Process) -> None:
        self._proc = proc.private("bsp.declared")
        self.p, self.machine = proc.nprocs, proc.machine

    def _work(self, flops: Mapping[str, float], nbytes: float) -> None:
        """Count flops and bytes."""
        for kernel, amount in flops.items():
            if amount:
                counter.flops(kernel, amount)
        if nbytes:
            counter.moved(int(nbytes))

    def _allreduce(self, count: int, dtype: Any) -> None:
        """See `Costs.allreduce`."""
        self._proc.allreduce(self.array((count,), dtype))

    def _exchange(self, text: str, sends: Mapping[int, float], h: float, messages: int) -> None:
        """See `Costs.exchange`.  Raises ValueError if this process sends more than the busiest."""
        element, own = self._proc._task.element, sum(sends[dest] for dest in sends if dest != self._proc.pid)
        if own > h + 1:  # a word that rounding makes more
            raise ValueError(f"{text}: a declared cost sends {own} words, more than h = {h} of the busiest process")
        if element.sample is not None:  # most processes do not run: the largest h is told, not counted
            cost = Cost(0, ceil(h), 1, messages=messages)
            element.recorder.costs(self._proc._context.id, [cost])  # type: ignore[union-attr]
            self._superstep(text, [])
            Block(ceil(WORD * h))
            return
        alike: dict[int, list[int]] = {}  # receivers, by what each gets
        for dest, words in sends.items():
            alike.setdefault(round(WORD * words), []).append(dest)
        context, task = self._proc._context, self._proc._task
        for size, dests in alike.items():
            data = shaped((size,), np.dtype(np.uint8))
            context.outbox.effects.append(Send(task.pid, tuple(dests), context.id, None, data, None, counted=True))
        self._superstep(text, [])
        assert element.abstract is not None
        Block(int(element.abstract.arriving[self._proc.pid]))  # memory, for a moment

    def at_most(self) -> None:
        """See `Costs.at_most`."""
        counter.upper_bound = True

    @contextlib.contextmanager
    def _holding(self, words: float) -> Iterator[None]:
        """See `Costs.holding`."""
        held = Block(ceil(WORD * words))
        yield
        del held

    def array(self, shape: tuple[int, ...], dtype: Any = float) -> Any:
        """See `Costs.array`."""
        return owned(shape, np.dtype(dtype)) if shape else scalar(np.dtype(dtype))

    # What follows is for procedures whose words follow from the arrays that this process has.

    def memory(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of this shape, of no dimensions if that is (): it takes memory as long as it is there."""
        return owned(tuple(shape), np.dtype(dtype))

    def passing(self, count: int, dtype: Any) -> None:
        """Declare memory of `count` elements that the procedure takes, and gives back before it goes on."""
        self.memory((count,), dtype)

    @property
    def busiest(self) -> int:
        """The process that gets all that travels, where values could make it so; another one if that is this one."""
        return 0 if self._proc.pid or self.p == 1 else 1

    def total_exchange(
        self, text: str, out: Sequence[tuple[int | range, Any]], placed: bool = False
    ) -> list[tuple[int, Any]]:
        """Declare one superstep in which this process sends arrays; return those that arrive, by ascending source.

        out : (pid, array), or (a range of pids, array), in any order; to itself is allowed, and costs nothing.
        placed : whether arrays are received into memory that is declared already; otherwise they take some here.
        """
        pid = self._proc.pid
        return [
            (source, array if placed or source == pid else self.memory(array.shape, array.dtype))
            for source, array in self._superstep(text, out)
        ]

    def tell(self, text: str, *arrays: Any) -> list[tuple[int, Any]]:
        """Declare one superstep in which each process sends the same arrays to all; see `total_exchange`."""
        return self.total_exchange(text, [(range(self.p), each) for each in arrays])

    def _superstep(self, text: str, out: Sequence[tuple[int | range, Any]]) -> list[tuple[int, Any]]:
        """End a superstep in which arrays are sent; return what arrives."""
        context, task = self._proc._context, self._proc._task
        for dest, array in out:
            dests = tuple(dest) if isinstance(dest, range) else (dest,)
            context.outbox.effects.append(
                Send(task.pid, dests, context.id, None, array, None, borrowed=True, shared=True)
            )
        task.label = text
        task.boundary(Call(text, digest("exchange", text), (context,)))
        arrived, context.arrived = context.arrived, []
        return [(source, array) for source, _, array, _ in arrived]


def declares(cost: Callable[..., Any]) -> Callable[[Function], Function]:
    """Give a procedure its declared cost: `cost(costs, *args)`, where the arguments are the procedure's own.

    In a run without values the procedure's body is not entered.  So errors that follow from shapes and options alone
    must be raised before the procedure is called, or by `cost`.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            proc = process()
            if proc._task.element.abstract is None:
                return function(*args, **kwargs)
            return cost(Reported(proc), *args, **kwargs)

        return called  # type: ignore[return-value]

    return decorate


def shaped(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an array without values whose memory is somebody else's."""
    return viewing(owned((0,), dtype), shape, dtype, 0)


def allreduced(count: int, p: int, machine: Machine, itemsize: int = 8) -> Cost:
    """Return the cost of `allreduce` of `count` numbers by the algorithm that is cheapest on the machine.

    Source: McColl 1.6.1; W counts one flop for each word combined.
    """
    return sum(ALLREDUCE.cheapest(machine, p, count, itemsize), Cost(0, 0, 0))
