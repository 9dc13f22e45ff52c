"""A run whose arrays carry shapes only: each process's memory and work, counted while it has its turn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bsp.abstract import Account, abstract_generator, abstract_numpy, carried, counter, expectation
from bsp.abstract.array import owned
from bsp.abstract.elementwise import from_sequence, holds_abstract
from bsp.cost.model import Machine
from bsp.values import payload


class Abstraction:
    """What an element needs to host abstract processes."""

    def __init__(self, nprocs: int, machine: Machine) -> None:
        self.accounts = [Account() for _ in range(nprocs)]
        self.rates = _rates(machine)
        self.bounded = False  # whether some work or size so far is an upper bound
        self._turn = 0

    def enter(self, pid: int) -> None:
        """It is a process's turn."""
        self._turn = pid
        counter.account = self.accounts[pid]

    def seconds(self, measured: float) -> float:
        """What the turn that ends now counts as; how long it took here says nothing."""
        work = counter.take()
        self.bounded = self.bounded or work.upper_bound
        return work.seconds(self.rates)

    def memory(self, shape: Any, dtype: Any) -> Any:
        """A coarray's, or a receiver's."""
        return owned(tuple(np.atleast_1d(shape).tolist()) if np.ndim(shape) < 2 else shape, np.dtype(dtype))

    def joined(self, values: Any) -> Any:
        """A list with abstract numbers in it as an abstract array; all else as it is."""
        return from_sequence(values) if isinstance(values, (list, tuple)) and holds_abstract(values) else values

    def carried(self, array: Any) -> Any:
        """Memory of the program's own, registered."""
        return array if payload.is_abstract(array) else carried(array)

    def generator(self, seed: int, pid: int) -> Any:
        """A process's random numbers: shapes of them."""
        return abstract_generator([seed, pid])

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """While the program runs."""
        kept = counter.account, expectation.current
        expectation.current = lambda: self._turn
        payload.weighing = True
        counter.take()
        try:
            with abstract_numpy():
                yield
        finally:
            payload.weighing = False
            counter.account, expectation.current = kept


def _rates(machine: Machine) -> Mapping[str, float]:
    """flop/s by class; a machine that has only r computes everything at r, and its memory costs nothing."""
    if not machine.rates:
        return dict.fromkeys(("blas1", "blas2", "blas3", "elementwise"), machine.r)
    return {**machine.rates, "bytes": machine.rates["bandwidth"]}
