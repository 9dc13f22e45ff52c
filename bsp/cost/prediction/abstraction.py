"""Runs without values: arrays carry shapes, and each process's memory and work are counted during its turns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bsp.abstract import HeldMemory, abstract_generator, abstract_numpy, carried, counter, expectation
from bsp.abstract.array import owned
from bsp.abstract.elementwise import from_sequence, holds_abstract
from bsp.abstract.work import FLOPS
from bsp.cost.model import Machine
from bsp.values import payload
from bsp.values.effects import Effect, Send


class Abstraction:
    """The part of an element that hosts processes without values: their accounts, memory and random numbers."""

    def __init__(self, nprocs: int, machine: Machine) -> None:
        self.accounts = [HeldMemory() for _ in range(nprocs)]
        self.rates = _rates(machine)
        self.bounded = False  # whether some work or size counted so far is an upper bound
        self.arriving = np.zeros(nprocs, np.int64)  # bytes of what the last boundary counted and did not deliver
        self._turn = 0

    def enter(self, pid: int) -> None:
        """Count on the account of process `pid`, whose turn begins.

        Copies that the boundary before has made are no work of a process: the price of the words includes them.
        """
        self._turn = pid
        self.charge(pid)
        counter.take()

    def charge(self, pid: int) -> None:
        """Charge memory to process `pid`, which is to receive it at a boundary."""
        counter.account = self.accounts[pid]

    def seconds(self, measured: float) -> float:
        """Return the predicted seconds of the work counted in the turn that ends; the measured time is not used."""
        work = counter.take()
        self.bounded = self.bounded or work.upper_bound
        return work.seconds(self.rates)

    def without_counted(self, effects: list[Effect]) -> list[Effect]:
        """Return the effects that are delivered, and note how much of the others arrives at each process."""
        kept: list[Effect] = []
        self.arriving[:] = 0
        for effect in effects:
            if not (isinstance(effect, Send) and effect.counted and effect.array is not None):
                kept.append(effect)
                continue
            self.arriving[list(effect.dests)] += effect.array.nbytes
            if effect.source in effect.dests:
                self.arriving[effect.source] -= effect.array.nbytes
        return kept

    def memory(self, shape: Any, dtype: Any) -> Any:
        """Return an array of this shape without data: the memory of a coarray or a receiver."""
        if type(shape) is tuple and all(type(length) is int for length in shape):  # by far the most calls
            return owned(shape, np.dtype(dtype))
        return owned(tuple(np.atleast_1d(shape).tolist()) if np.ndim(shape) < 2 else shape, np.dtype(dtype))

    def joined(self, values: Any) -> Any:
        """Return a list that holds abstract numbers as an abstract array, and anything else unchanged."""
        return from_sequence(values) if isinstance(values, (list, tuple)) and holds_abstract(values) else values

    def carried(self, array: Any) -> Any:
        """Return an array that the program registers as an abstract array."""
        return array if payload.is_abstract(array) else carried(array)

    def generator(self, seed: int, pid: int) -> Any:
        """Return a generator of random numbers without values."""
        return abstract_generator([seed, pid])

    def divided(self, by: int) -> contextlib.AbstractContextManager[None]:
        """Count a share of the work inside the block: so many processes have it done once for all of them."""
        return counter.divided(by)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Replace NumPy by its abstract form while the program runs."""
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
    """Return flop/s by class of work; without measured rates all work has rate r, and memory traffic is free."""
    if not machine.rates:
        return dict.fromkeys(FLOPS, machine.r)
    return {**machine.rates, "bytes": machine.rates["bandwidth"]}
