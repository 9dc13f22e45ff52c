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
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from bsp.abstract import table
from bsp.abstract.array import owned, scalar
from bsp.abstract.work import Block, counter
from bsp.collectives.prices import levels_of, prices
from bsp.cost.model import WORD, Cost, Machine
from bsp.engine.task import Call
from bsp.processes import Process
from bsp.transport.header import digest
from bsp.values.effects import Send
from bsp.world import process

Function = TypeVar("Function", bound=Callable[..., Any])


class Costs(ABC):
    """The receiver of a declared cost: its methods are called in the order in which the procedure would do the work.

    p : the number of processes.  machine : the profile by which algorithms are chosen.
    """

    p: int
    machine: Machine

    @abstractmethod
    def work(
        self, *, blas1: float = 0, blas2: float = 0, blas3: float = 0, elementwise: float = 0, nbytes: float = 0
    ) -> None:
        """Declare computing by this process: flops by class (see `bsp.abstract.work`), and bytes read and written."""

    @abstractmethod
    def allreduce(self, count: int, dtype: Any = float) -> None:
        """Declare a sum of `count` numbers over all processes, by the algorithm that is cheapest on the machine."""

    def factoring(self, flops: float, columns: int) -> None:
        """Declare factoring so many columns, or a substitution with them: some flops are BLAS-2, the rest BLAS-3."""
        narrow = table.factored(columns)
        self.work(blas2=narrow * flops, blas3=(1 - narrow) * flops)

    @abstractmethod
    def exchange(self, text: str, sends: Mapping[int, int], h: int, messages: int) -> None:
        """Declare one superstep in which this process sends words to some other processes.

        text : the name of the superstep.
        sends : words by pid.
        h, messages : those of the process that sends or receives most.
        """

    @abstractmethod
    def at_most(self) -> None:
        """Declare that all that follows is an upper bound: values decide how much of it takes place."""

    @abstractmethod
    def holding(self, words: int) -> contextlib.AbstractContextManager[None]:
        """Declare memory that the procedure holds inside the `with`, beside its operands and what it returns."""

    @abstractmethod
    def array(self, shape: tuple[int, ...], dtype: Any = float) -> Any:
        """Return the array that the procedure returns, as a shape; a number if the shape is ()."""


class Totals(Costs):
    """The sum of a declared cost, for p processes on a machine: `cost`."""

    def __init__(self, p: int, machine: Machine) -> None:
        self.p, self.machine = p, machine
        self.cost = Cost(0, 0, 0)
        self._held = 0

    def work(
        self, *, blas1: float = 0, blas2: float = 0, blas3: float = 0, elementwise: float = 0, nbytes: float = 0
    ) -> None:
        """See `Costs.work`; bytes cost nothing in McColl's model."""
        self.cost += Cost(blas1 + blas2 + blas3 + elementwise, 0, 0)

    def allreduce(self, count: int, dtype: Any = float) -> None:
        """See `Costs.allreduce`."""
        self.cost += allreduced(count, self.p, self.machine, np.dtype(dtype).itemsize)

    def exchange(self, text: str, sends: Mapping[int, int], h: int, messages: int) -> None:
        """See `Costs.exchange`."""
        self.cost += Cost(0, h, 1, messages=messages)

    def at_most(self) -> None:
        """See `Costs.at_most`.  No effect: the price of an upper bound is an upper bound."""

    @contextlib.contextmanager
    def holding(self, words: int) -> Iterator[None]:
        """See `Costs.holding`."""
        self._held += words
        self.cost = self.cost._replace(M=max(self.cost.M, self._held))
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
        libraries = proc._task.libraries
        self._proc: Process = libraries.get("declared") or libraries.setdefault("declared", proc.private())  # B2
        self.p, self.machine = proc.nprocs, proc.machine

    def work(
        self, *, blas1: float = 0, blas2: float = 0, blas3: float = 0, elementwise: float = 0, nbytes: float = 0
    ) -> None:
        """See `Costs.work`."""
        for kernel, flops in (("blas1", blas1), ("blas2", blas2), ("blas3", blas3), ("elementwise", elementwise)):
            if flops:
                counter.flops(kernel, flops)
        if nbytes:
            counter.moved(int(nbytes))

    def allreduce(self, count: int, dtype: Any = float) -> None:
        """See `Costs.allreduce`."""
        self._proc.allreduce(self.array((count,), dtype))

    def exchange(self, text: str, sends: Mapping[int, int], h: int, messages: int) -> None:
        """See `Costs.exchange`."""
        context, task = self._proc._context, self._proc._task
        for dest, words in sends.items():
            values = self.array((words,))
            context.outbox.effects.append(
                Send(task.pid, (dest,), context.id, None, values, None, borrowed=True, shared=True)
            )
        task.label = text
        task.boundary(Call(text, digest("exchange", text), (context,)))
        context.arrived = []

    def at_most(self) -> None:
        """See `Costs.at_most`."""
        counter.upper_bound = True

    @contextlib.contextmanager
    def holding(self, words: int) -> Iterator[None]:
        """See `Costs.holding`."""
        held = Block(WORD * words)
        yield
        del held

    def array(self, shape: tuple[int, ...], dtype: Any = float) -> Any:
        """See `Costs.array`."""
        return owned(shape, np.dtype(dtype)) if shape else scalar(np.dtype(dtype))


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


def allreduced(count: int, p: int, machine: Machine, itemsize: int = 8) -> Cost:
    """Return the cost of `allreduce` of `count` numbers by the algorithm that is cheapest on the machine.

    Source: McColl 1.6.1; W counts one flop for each word combined.
    """
    if p == 1:
        return Cost(0, 0, 1)  # a boundary all the same
    words = -(-count * itemsize // WORD)
    found = prices(machine, p, "allreduce", words, True)
    chosen = min(found, key=found.__getitem__)
    if chosen == "one-phase":
        return Cost(p * words, (p - 1) * words, 1, messages=p - 1)
    if chosen == "two-phase":
        cuts = [count * k // p for k in range(p + 1)]
        sizes = [high - low for low, high in pairwise(cuts)]
        first = max(max(count - size, (p - 1) * size) for size in sizes)
        second = max(max((p - 1) * size, count - size) for size in sizes)
        moved = sum(-(-each * itemsize // WORD) for each in (first, second))
        return Cost(words, moved, 2, messages=2 * (p - 1))
    arity = int(chosen.removeprefix("tree-"))
    sent = sum(min(arity, -(-p // arity**level)) - 1 for level in range(levels_of(p, arity)))
    return Cost(sent * words, 2 * sent * words, 2 * levels_of(p, arity), messages=2 * sent)
