"""The price of an exchange on several hosts: each word at the level that it crosses.

The price by the largest h-relation takes all words to cross the network.  Inside a host they cost a fraction of that,
so which axis of a process grid lies inside hosts decides what a product or a reduction takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bsp.cost.model import WORD, Cost, Load, Machine, Traffic

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]  # source, receiver and bytes of each piece that moves


class Hosts:
    """The ports of each level that p processes of a job have on a machine."""

    def __init__(self, machine: Machine, nprocs: int) -> None:
        elements = min(nprocs, machine.p)
        self._machine = machine
        self._owner = np.arange(nprocs) * elements // nprocs  # nearly the element; exactly, where it divides p
        self._ports = [np.asarray(level.port_of(self._owner)) for level in machine.outer]
        self._turns = -(-nprocs // elements)
        widest = np.bincount(self._ports[-1]).max()
        self.several = bool(machine.levels) and len(machine.outer) > 1 and nprocs > widest > 1

    def price(self, exchange: Sequence[Pairs]) -> float:
        """Return the flop-times of a superstep in which these pieces move."""
        source, dest, size = (np.concatenate(each) for each in zip(*exchange, strict=True))
        words, apart = size / WORD, self._owner[source] != self._owner[dest]
        between = []
        for k, ports in enumerate(self._ports):
            crosses = ports[source] != ports[dest]
            if k + 1 < len(self._ports):
                crosses &= self._ports[k + 1][source] == self._ports[k + 1][dest]
            count = int(ports[-1]) + 1
            between.append(_busiest(ports[source[crosses]], ports[dest[crosses]], words[crosses], count))
        here = self._owner[source[~apart]]
        inside = _busiest(here, here, words[~apart], int(self._owner[-1]) + 1)
        return float(self._machine.price(Cost(0, 0, 1, load=Load(0.0, tuple(between), inside, self._turns))))

    def group_price(self, words: float, messages: float, count: int, stride: int, supersteps: int = 1) -> float:
        """Return the flop-times of exchanges in groups of `count` processes, which are `stride` apart.

        words, messages : of a process in all supersteps, to all others of its group alike.
        """
        group = np.arange(count) * stride
        reached = [int(np.count_nonzero(ports[group] == ports[0])) for ports in self._ports] + [count]
        between = []
        for ports, near, far in zip(self._ports, reached[:-1], reached[1:], strict=True):
            share = (far - near) / max(count - 1, 1) * int(np.bincount(ports).max())
            between.append(Traffic(messages * share, words * share, 0.0, words * share))
        load = Load(0.0, tuple(between), Traffic(), self._turns * supersteps)
        return float(self._machine.price(Cost(0, 0, supersteps, load=load)))


def _busiest(out: np.ndarray, into: np.ndarray, words: np.ndarray, ports: int) -> Traffic:
    """Return the traffic of each port, out of it or into it, whichever is more."""
    blocks = np.maximum(np.bincount(out, minlength=ports), np.bincount(into, minlength=ports)).astype(float)
    most = np.maximum(np.bincount(out, words, ports), np.bincount(into, words, ports))
    return Traffic(blocks, most, np.zeros(ports), most)
