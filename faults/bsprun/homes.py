"""Where the agents of a job run: the hosts of the first ones, and those of agents that take the place of lost ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bsp.errors import LaunchError
from bsp.faults.protocol.domains import deal, together
from bsp.faults.protocol.placement import Placement
from bsp.hosts.listing import Host

_AT_ONCE = 3  # agents of a host that are replaced at once, when they are lost within _RECENT seconds
_RECENT = 60.0  # seconds; later losses within this time wait longer and longer
_LONGEST = 30.0


class Homes:
    """The hosts of a job's elements."""

    def __init__(self, hosts: Sequence[Host] | None, rows: Placement, standbys: int) -> None:
        """Deal the elements to the hosts; raise LaunchError if there is too little room.

        hosts : None for this machine alone.
        """
        count = len(rows) + standbys
        self.hosts = [Host("localhost", count)] if hosts is None else list(hosts)
        self.domains = [host.rack or host.name for host in self.hosts]
        try:
            self.first = deal(rows, standbys, [host.slots for host in self.hosts], self.domains)
        except ValueError as wrong:
            raise LaunchError(f"{wrong}; give hosts more slots, or ask for fewer processes, clones or -n") from None
        self.together = {} if hosts is None else together(rows, self.first, self.domains)
        self._lost: dict[int, list[float]] = {}  # by host: when agents there were lost

    def domain_of(self, host: int) -> str:
        """Return the failure domain of a host; hosts that have joined are added to `hosts` by whoever knows them."""
        return self.hosts[host].rack or self.hosts[host].name

    def lost(self, now: float, host: int) -> float:
        """Note that an agent is lost; return the time from which another may take its place on that host.

        What always fails there is not tried again and again without a pause.
        """
        recent = [when for when in self._lost.get(host, ()) if now - when < _RECENT]
        self._lost[host] = [*recent, now]
        late = len(recent) - _AT_ONCE
        return now if late < 0 else now + min(2.0**late, _LONGEST)

    def room(
        self, on: Callable[[int], int], ready: Sequence[int], before: int, apart_from: set[str], crowded: bool = False
    ) -> int | None:
        """Return the host for a new agent, or None if all are full.

        on : returns the number of agents on a host.  ready : hosts that can be reached.  before : host of the agent
        whose place it takes; it is the first choice.  apart_from : domains to avoid if possible.
        crowded : whether a full host will do where none has room.
        """
        free = {host: self.hosts[host].slots - on(host) for host in ready}
        with_room = [host for host, slots in free.items() if slots > 0] or (list(free) if crowded else [])
        if not with_room:
            return None
        return min(with_room, key=lambda host: (self.domain_of(host) in apart_from, host != before, -free[host]))
