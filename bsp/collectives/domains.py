"""The hosts on which processes run, for collectives that combine inside a host before anything crosses the network.

Which elements share a host follows from the machine: those that share a port of its outermost level.  On one machine
that is each element alone: its processes combine before anything goes to another.  Processes are dealt to the
machine's elements as a job deals them, so the hosts are the same whatever number of elements runs (D5).
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING

from bsp.cost.model import Machine

if TYPE_CHECKING:
    from bsp.collectives.steps import Steps


@lru_cache(maxsize=64)
def hosts_of(machine: Machine, p: int) -> tuple[range, ...]:
    """Return the pids on each host; a single range if the machine has no levels, or p processes fit on one host."""
    elements = min(p, machine.p)
    level = machine.outer[-1]
    if not machine.levels:
        return (range(p),)
    ports = [int(level.port_of(k)) for k in range(elements)]
    first = [k for k in range(elements) if k == 0 or ports[k] != ports[k - 1]]
    cuts = [p * k // elements for k in [*first, elements]]
    return tuple(range(low, high) for low, high in itertools.pairwise(cuts))


def several(hosts: tuple[range, ...]) -> bool:
    """Return whether there is something to combine inside a host, and something to send to another."""
    return len(hosts) > 1 and max(map(len, hosts)) > 1


def swapping(count: int) -> tuple[int, int]:
    """Return how often so many hosts swap, in pairs at distance 1, 2, 4, ..., and how many have a neighbour do it."""
    swaps = count.bit_length() - 1
    return swaps, count - (1 << swaps)


class Domains:
    """The hosts as one process of a collective sees them; each is led by its first process.

    hosts : the ranks on each host.  mine : the number of this process's host.  here : the ranks there.
    """

    def __init__(self, steps: Steps) -> None:
        self.hosts = hosts_of(steps.proc._task.element.machine, steps.n)
        self.mine = next(k for k, ranks in enumerate(self.hosts) if steps.me in ranks)
        self.here = self.hosts[self.mine]
        self.at = steps.me - self.here.start  # this process's place on its host
        self.narrowest = min(map(len, self.hosts))  # so many processes are at the same place on every host
        self.levels = (len(self.hosts) - 1).bit_length()  # of a binary tree of hosts
        self.swaps, self.folded = swapping(len(self.hosts))

    def leader(self, host: int) -> int:
        """Return the rank that leads a host."""
        return self.hosts[host].start

    def acting(self, host: int) -> int | None:
        """Return the place of a host among the 2**swaps that swap, or None if its neighbour acts for it."""
        if host >= 2 * self.folded:
            return host - self.folded
        return host // 2 if host % 2 == 0 else None

    def partner(self, place: int, level: int) -> tuple[int, tuple[int, int]]:
        """Return the leader with which an acting host swaps at distance 2**level, and the ranks it speaks for."""
        other = place ^ (1 << level)
        low = other >> level << level
        first, last = (2 * k if k < self.folded else k + self.folded for k in (low, low + (1 << level)))
        host = 2 * other if other < self.folded else other + self.folded
        return self.leader(host), self.span(first, last - first)

    def forwarder(self, host: int, other: int) -> int:
        """Return the rank on `host` that exchanges bundles with another host; as few hosts as can be share one."""
        hosts = len(self.hosts)
        ranks = self.hosts[host]
        return ranks[(other - host - 1) % hosts % min(len(ranks), hosts - 1)]

    def counterparts(self) -> list[int]:
        """Return the ranks at this process's place on every host, its own included."""
        return [ranks[self.at] for ranks in self.hosts]

    def span(self, host: int, stride: int) -> tuple[int, int]:
        """Return the first rank of `stride` hosts in sequence, and the first one behind them."""
        return self.hosts[host].start, self.hosts[min(host + stride, len(self.hosts)) - 1].stop
