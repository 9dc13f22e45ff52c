"""The price of an exchange on several hosts: each word at the level that it crosses.

The price by the largest h-relation takes all words to cross the network.  Inside a host they cost a fraction of that,
so which axis of a process grid lies inside hosts decides what a product or a reduction takes.
"""

from __future__ import annotations

import numpy as np

from bsp.cost.flows import Flows
from bsp.cost.model import WORD, Cost, Load, Machine, Traffic
from bsp.cost.record.account import starts


class Hosts:
    """The ports of each level that p processes of a job have on a machine."""

    def __init__(self, machine: Machine, nprocs: int) -> None:
        elements = min(nprocs, machine.p)
        self._machine = machine
        self._owner = np.repeat(np.arange(elements), np.diff(starts(nprocs, elements)))  # the element of each process
        self._ports = [np.asarray(level.port_of(np.arange(elements))) for level in machine.outer]
        self._turns = -(-nprocs // elements)
        widest = np.bincount(self._ports[-1][self._owner]).max()
        self.several = bool(machine.levels) and len(machine.outer) > 1 and nprocs > widest > 1

    def price(self, flows: Flows) -> float:
        """Return the flop-times of a superstep in which arrays move."""
        levels, copies, copied = flows.crossing(self._owner, self._ports, each_receiver=True)
        between = []
        for level in levels:
            words = np.maximum(level.bytes_out, level.bytes_into) / WORD
            between.append(Traffic(np.maximum(level.blocks_out, level.blocks_into), words, 0 * words, words))
        inside = Traffic(copies, copied / WORD, 0 * copied, copied / WORD)
        return float(self._machine.price(Cost(0, 0, 1, load=Load(0.0, tuple(between), inside, self._turns))))

    def group_price(self, words: float, messages: float, count: int, stride: int, supersteps: int = 1) -> float:
        """Return the flop-times of exchanges in groups of `count` processes, which are `stride` apart.

        words, messages : of a process in all supersteps, to all others of its group alike.
        """
        group = np.arange(count) * stride
        by_process = [ports[self._owner] for ports in self._ports]
        reached = [int(np.count_nonzero(ports[group] == ports[0])) for ports in by_process] + [count]
        between = []
        for ports, near, far in zip(by_process, reached[:-1], reached[1:], strict=True):
            share = (far - near) / max(count - 1, 1) * int(np.bincount(ports).max())
            between.append(Traffic(messages * share, words * share, 0.0, words * share))
        load = Load(0.0, tuple(between), Traffic(), self._turns * supersteps)
        return float(self._machine.price(Cost(0, 0, supersteps, load=load)))
