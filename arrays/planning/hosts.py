"""The price of an exchange on several hosts: each word at the level that it crosses.

The price by the largest h-relation takes all words to cross the network.  Inside a host they cost a fraction of that,
so which axis of a process grid lies inside hosts decides what a product or a reduction takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bsp.cost.model import WORD, Cost, Load, Machine, Traffic
from bsp.cost.record.account import starts

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]  # source, receiver and bytes of each piece that moves

Pieces = tuple[np.ndarray, np.ndarray]  # source and bytes of each piece that goes to all other processes
_NOTHING = (np.zeros(0, np.int64),) * 3


class Hosts:
    """The ports of each level that p processes of a job have on a machine."""

    def __init__(self, machine: Machine, nprocs: int) -> None:
        elements = min(nprocs, machine.p)
        self._machine = machine
        self._owner = np.repeat(np.arange(elements), np.diff(starts(nprocs, elements)))  # the element of each process
        self._ports = [np.asarray(level.port_of(self._owner)) for level in machine.outer]
        self._turns = -(-nprocs // elements)
        widest = np.bincount(self._ports[-1]).max()
        self.several = bool(machine.levels) and len(machine.outer) > 1 and nprocs > widest > 1

    def price(self, exchange: Sequence[Pairs], to_all: Sequence[Pieces] = ()) -> float:
        """Return the flop-times of a superstep in which pieces move: each to one process, or to all others."""
        source, dest, size = (np.concatenate(each) for each in zip(_NOTHING, *exchange, strict=True))
        words, apart = size / WORD, self._owner[source] != self._owner[dest]
        between = []
        for k, ports in enumerate(self._ports):
            crosses = ports[source] != ports[dest]
            wider = self._ports[k + 1] if k + 1 < len(self._ports) else np.zeros_like(ports)
            crosses &= wider[source] == wider[dest]
            count = int(ports[-1]) + 1
            traffic = _busiest(ports[source[crosses]], ports[dest[crosses]], words[crosses], count)
            for senders, sizes in to_all:
                traffic += _spread(ports, wider, senders, sizes / WORD)
            between.append(traffic)
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


def _spread(ports: np.ndarray, wider: np.ndarray, source: np.ndarray, words: np.ndarray) -> Traffic:
    """Return the traffic of each port when pieces go to all processes that share the wider port, and not this one."""
    count = int(ports[-1]) + 1
    first = np.searchsorted(ports, np.arange(count))
    inside = np.bincount(ports, minlength=count)
    around = np.bincount(wider)[wider[first]]
    found = []
    for weights in (np.ones(len(source)), words):
        own = np.bincount(ports[source], weights, count)
        near = np.bincount(wider[source], weights, int(wider[-1]) + 1)[wider[first]]
        found.append(np.maximum(own * (around - inside), (near - own) * inside))
    return Traffic(found[0], found[1], np.zeros(count), found[1])
