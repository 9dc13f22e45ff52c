"""What bsprun, the keepers of hosts and agents tell each other about who is there; the protocol's messages are apart.

All of it is state that is repeated until it has arrived (N14).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bsp.faults.carrier.mesh import Address
from bsp.faults.protocol.messages import Orders, Token
from bsp.hosts.build import Build


class Wanted(NamedTuple):
    """What bsprun wants of a keeper; the latest holds."""

    number: int
    term: int
    agents: frozenset[int]  # elements
    settings: dict[str, Any]  # of all agents
    over: bool = False  # the job is over: end all agents, and yourself


class KeeperReport(NamedTuple):
    """What a keeper has."""

    keeper: int
    number: int  # of the latest wish that it has fulfilled
    address: Address
    bsprun: str  # the IP address at which it reaches bsprun
    facts: dict[str, Any]
    running: dict[tuple[int, int], int]  # by term and element: process id
    ended: dict[tuple[int, int], str]  # by term and element: how
    leaving: str  # why this host is to be left; empty: it is not


class Inquiry(NamedTuple):
    """A question or a wish of somebody outside the job, repeated until it is answered."""

    number: int
    what: str  # "status", "drain" or "join"
    about: dict[str, Any]
    address: Address  # of who asks


class Answered(NamedTuple):
    """The answer to a request."""

    number: int
    status: str  # "done", "under way" or "refused"
    said: Any


class Successor(NamedTuple):
    """A bsprun takes over a job, and tells the keepers so; repeated until they report to it."""

    reign: int  # larger than that of its predecessor
    bsprun: Address
    networks: list[str]  # IP addresses at which it may be reached


class Introduced(NamedTuple):
    """A keeper tells an agent of a bsprun that has taken over."""

    reign: int
    bsprun: Address
    network: str  # the IP address of this machine on the way there; empty: as before


class Superseded(NamedTuple):
    """A keeper tells a bsprun that another one has taken over."""

    reign: int


SERVED_ANOTHER = 76  # exit status of a keeper which tells the bsprun that has started it the same


class Refused(NamedTuple):
    """The job cannot run on this host."""

    keeper: int
    why: str


class Appeared(NamedTuple):
    """The introduction of an agent to bsprun, repeated until it has its first orders."""

    pid: int
    address: Address
    build: Build  # what its workers compute with
    orders: Orders | None = None  # for a bsprun that takes over: the newest that the agent has
    values: tuple[tuple[Token, bytes], ...] = ()  # and what it has of proc.once and proc.time


class Addresses(NamedTuple):
    """Where all agents are; the latest holds."""

    number: int
    of: dict[int, Address]  # by element


class Confirmed(NamedTuple):
    """bsprun has heard that an injected fault is about to strike."""

    fault: str


class FromAgent(NamedTuple):
    """A message of an agent to bsprun, with the number of the latest addresses that it has."""

    addresses: int
    message: Any
