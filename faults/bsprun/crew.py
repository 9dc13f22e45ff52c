"""bsprun's connections to the agents of a job, and to the keepers that start and end them, one on each host."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import psutil
import zmq

from bsp.errors import LaunchError
from bsp.faults.carrier.job_key import JobKey, fresh
from bsp.faults.carrier.mesh import BSPRUN, Address, Mesh
from bsp.faults.engine.control_messages import (
    SERVED_ANOTHER,
    Addresses,
    Answered,
    Appeared,
    Confirmed,
    FromAgent,
    Inquiry,
    KeeperReport,
    Refused,
    Successor,
    Superseded,
    Wanted,
)
from bsp.faults.protocol.messages import Orders, Token
from bsp.host import die_with_parent, umask
from bsp.hosts.build import Build
from bsp.hosts.daemon import NAMES_OF_A_HOST, PREFIXES_OF_A_HOST
from bsp.hosts.launcher import reaching, starting, why_not_started
from bsp.hosts.listing import Host, is_here
from bsp.hosts.processes import GRACE, kill_session

_BOOTSTRAP = (sys.executable, "-m", "bsp.faults.engine.bootstrap")
_ANSWER = 12.0  # seconds for a keeper on another host to answer
_ANSWER_HERE = 300.0  # and for one on this machine, which starts at once unless others keep its cores busy
_BEAT = 0.5  # seconds until what a keeper is told is repeated
_FORGOTTEN = 15.0  # seconds without a word, after which a keeper that is not our child counts as gone
_LAST_WORDS = 1.0  # seconds to tell keepers that are not our children that the job is over
_SILENT = 2.5  # seconds without a word of a keeper and its agents, after which their host counts as lost
_ALIVE = 2.0  # seconds since a keeper was heard, within which it can be relied on to end an agent
_REVIVE = (1.0, 30.0)  # seconds until a keeper is started anew on a host that was lost: at first, and at most


class Came(NamedTuple):
    """An agent has introduced itself."""

    element: int
    pid: int
    build: Build
    orders: Orders | None  # the newest that it has from an earlier bsprun
    values: tuple[tuple[Token, bytes], ...]  # and what it has of proc.once and proc.time


class Said(NamedTuple):
    """A message of an agent."""

    element: int
    message: Any


class Went(NamedTuple):
    """An agent has ended, or counts as ended because nothing can be known of it any more (not `certain`)."""

    element: int
    host: int  # its position among the hosts
    how: str
    certain: bool


class Silent(NamedTuple):
    """Nothing is heard any more of a host."""

    host: int
    elements: list[int]
    seconds: float


class Leaves(NamedTuple):
    """A host is to be left."""

    host: int
    why: str


class HostJoined(NamedTuple):
    """The keeper of a host that has joined is there."""

    host: int


class Overthrown(NamedTuple):
    """Another bsprun has taken over."""


class Asked(NamedTuple):
    """Somebody outside the job asks something; `Crew.answer` answers."""

    who: int
    inquiry: Inquiry


class Text(NamedTuple):
    """What a host's processes have written to standard error, beside what the program writes there."""

    data: bytes


Event = Came | Said | Went | Silent | Leaves | HostJoined | Overthrown | Asked | Text


@dataclass
class HostLink:
    """The connection to the keeper of one host."""

    number: int  # of the keeper
    position: int  # of the host
    host: Host
    process: subprocess.Popen[bytes] | None  # that starts it; None if it is not this bsprun's
    here: bool
    by_hand: bool = False  # it has joined by itself
    address: Address | None = None  # of the keeper of an earlier bsprun
    kept: KeeperReport | None = None  # its latest report
    heard: float = 0.0  # when, from it or from an agent of its host
    silent: bool = False
    refused: str = ""
    complaint: bytes = b""  # what came on standard error before it answered
    wanted: frozenset[int] = frozenset()  # elements
    order: int = 0  # number of the latest wish
    told: float = 0.0
    gone: str = ""  # why it is not there any more
    again_at: float = 0.0  # time at which another one is started, when it is gone
    again_after: float = _REVIVE[0]


@dataclass
class AgentLink:
    """What bsprun knows of one agent."""

    keeper: HostLink
    pid: int = 0
    address: Address | None = None
    addresses: int = 0  # number of the latest addresses that it has
    sent: int = 0  # number of those sent to it last
    told: float = 0.0  # and when
    give_up: float | None = None  # time at which its end counts as uncertain


def keeper_command(host: str, program: Sequence[str], reach: str | None, local: bool) -> list[str]:
    """Return the command that starts the keeper of a host.

    reach : see `reaching`.  local : whether the whole job is on this machine.
    """
    command = [*_BOOTSTRAP, *program]
    return command if local else reaching(host, reach, command)


class Crew:
    """The agents of one job, and the keepers of its hosts."""

    def __init__(
        self, hosts: list[Host], program: Sequence[str], reach: str | None, local: bool, *,
        leave_when: str | None = None, port: int = 0, orphan: float = 0.0, key: JobKey | None = None, reign: int = 0,
    ) -> None:  # fmt: skip
        """Open bsprun's connections; `start` then starts the keepers, or `take_over` finds those that are there.

        local : whether all is on this machine.  leave_when : a command, see `SpotNotice`.
        port : at which joiners from other machines are heard; 0: any that is free.
        orphan : seconds that keepers and agents wait for another bsprun.
        key : of a job that another bsprun has begun.  reign : see `Job.seal`.
        """
        self._leave_when, self._orphan = leave_when, orphan
        self.hosts = hosts  # those that join are added
        self._program, self._reach, self._local = list(program), reach, local
        self._key = key or fresh()
        self._mesh = Mesh(self._key, BSPRUN, network=None if local else "", port=port, reign=reign)
        self.changed = False  # whether what the job's file holds has changed
        self.overthrown = False  # another bsprun has taken over
        self._keepers: dict[int, HostLink] = {}  # by number, those that are gone included
        self._at: dict[int, HostLink] = {}  # the latest of each host
        self.left: set[int] = set()  # hosts that are to be left, or have been
        self._heard_at = time.monotonic()  # when `hear` was called last
        self._agents: dict[int, AgentLink] = {}
        self._numbered = 0  # of addresses
        self._settings: dict[str, Any] = {}
        self._begun = False
        self._environment: dict[str, str] = {}
        self._events: list[Event] = []
        self._poller = zmq.Poller()
        for source in self._mesh.sources:
            self._poller.register(source, zmq.POLLIN)
        self._pipes: dict[int, HostLink] = {}

    # ------------------------------------------------------------------------------ keepers

    def start(self, environment: Mapping[str, str], enough: Callable[[], bool]) -> None:
        """Start a keeper on each host, and wait for their answers.

        environment : the job's.  enough : whether the wait is to end, because the job is not wanted any more.
        Raises LaunchError that names each host that is not ready, and why.
        """
        self._environment = dict(environment)
        for position in range(len(self.hosts)):
            self._start_keeper(position)
        began, held = time.monotonic(), list[Event]()
        while waiting := [link for link in self._keepers.values() if not (link.kept or link.refused or link.gone)]:
            for link in waiting:
                if time.monotonic() > began + (_ANSWER_HERE if link.here else _ANSWER):
                    link.refused = "did not answer (overloaded? does its login wait?)"
            held += self.hear(0.1)
            if enough():
                return
        self._events = held
        wrong = [f"host {each.host.name}: {self._why(each)}" for each in self._keepers.values() if not each.kept]
        if wrong := wrong or self._given_twice():
            raise LaunchError("; ".join(wrong))

    def _given_twice(self) -> list[str]:
        """Return a complaint for each host given under two names: clones on them would be lost together."""
        names, found = dict[str, str](), list[str]()
        for position, host in enumerate(self.hosts):
            facts = self.facts(position)
            machine = repr((facts["name"], facts["addresses"]))
            if names.setdefault(machine, host.name) != host.name:
                found.append(
                    f"host {host.name} is {names[machine]} under another name; give it once, with all its slots"
                )
        return found

    def _start_keeper(self, position: int) -> HostLink:
        """Start a keeper on a host, the first or one in place of a lost one."""
        host, number = self.hosts[position], -2 - (self._mesh.reign >> 32 << 20) - len(self._keepers)
        here = self._local or is_here(host.name)
        command = keeper_command(host.name, self._program, self._reach, self._local)
        # a keeper outlives bsprun: one here, and one whose srun lives on, for with srun Slurm ends what it has started
        outlives = self._orphan > 0 and (here or command[0] == "srun")
        with starting(host.name, command):
            process = subprocess.Popen(
                command,
                env=self._environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                stdout=None if here else subprocess.DEVNULL, start_new_session=True,
                preexec_fn=None if outlives else die_with_parent,
            )  # fmt: skip
        link = self._keepers[number] = self._at[position] = HostLink(number, position, host, process, here)
        settings = self._keepers_settings(number) | {"here": here, "joins": False}
        assert process.stdin is not None and process.stderr is not None
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(settings).encode() + b"\n")
            process.stdin.flush()
        os.set_blocking(process.stderr.fileno(), False)
        self._pipes[process.stderr.fileno()] = link
        self._poller.register(process.stderr.fileno(), zmq.POLLIN)
        return link

    def _keepers_settings(self, number: int) -> dict[str, Any]:
        """Return the settings of a keeper."""
        given = {name: value for name, value in self._environment.items() if not _is_of_a_host(name)}
        return {
            "keeper": number, "secret": self._key.secret.decode(), "bsprun": self._mesh.address,
            "networks": self.networks(), "network": None if self._local else "", "environment": given,
            "cwd": os.getcwd(), "umask": umask(), "leave_when": self._leave_when, "program": self._program,
            "orphan": self._orphan, "reign": self._mesh.reign,
        }  # fmt: skip

    def networks(self) -> list[str]:
        """Return the IP addresses of this machine, for others to try; none if the job is on this machine only."""
        return [] if self._local else _networks()

    def told(self) -> dict[str, Any]:
        """Return what the job's file says about bsprun, the hosts and their keepers."""
        kept = [link for link in self._at.values() if link.kept is not None and not link.gone]
        return {
            "secret": self._key.secret.decode(), "bsprun": tuple(self._mesh.address),
            "networks": tuple(self.networks()), "reign": self._mesh.reign, "term": self._mesh.term,
            "hosts": [asdict(host) for host in self.hosts], "left": sorted(self.left),
            "keepers": [(link.number, link.position, link.kept.address) for link in kept if link.kept is not None],
        }  # fmt: skip

    def take_over(
        self, term: int, settings: dict[str, Any], environment: Mapping[str, str], keepers: Sequence[Any],
        left: Sequence[int], enough: Callable[[], bool],
    ) -> list[int]:  # fmt: skip
        """Take over the keepers of an earlier bsprun, with their agents; return the positions of hosts without one.

        term, settings : of the agents.  environment : the job's.  keepers : (number, position of the host, address) of
        each that answers.  left : positions of hosts that are not used any more.  enough : see `start`.
        """
        self._settings, self._environment, self._mesh.term = settings, dict(environment), term
        self.left = set(left)
        for number, position, address in keepers:
            link = HostLink(number, position, self.hosts[position], None, False, address=address)
            self._keepers[number] = self._at[position] = link
            self._mesh.meet(number, address)
        until = time.monotonic() + _ANSWER
        held = list[Event]()
        while any(link.kept is None for link in self._keepers.values()) and time.monotonic() < until and not enough():
            for link in self._keepers.values():
                if link.kept is None:
                    self._mesh.send(link.number, Successor(self._mesh.reign, self._mesh.address, self.networks()))
            held += self.hear(_BEAT)
        self._events = held
        for number, link in list(self._keepers.items()):
            if link.kept is None:
                del self._keepers[number], self._at[link.position]
        return [at for at in range(len(self.hosts)) if at not in self._at and at not in self.left]

    def engage(self, hosts: Sequence[int]) -> None:
        """Start keepers on hosts that have none, as on hosts that were lost."""
        self._begun = True
        for position in hosts:
            lost = HostLink(0, position, self.hosts[position], None, False, gone="has ended", again_at=time.monotonic())
            self._at[position] = lost

    def join(self, number: int, host: Host) -> dict[str, Any]:
        """Take a host into the job; return the settings of its keeper, which has this number."""
        if number not in self._keepers:
            self.hosts.append(host)
            position = len(self.hosts) - 1
            self._keepers[number] = self._at[position] = HostLink(number, position, host, None, False, by_hand=True)
            self.changed = True
        return self._keepers_settings(number) | {"here": False, "joins": True}

    def _why(self, link: HostLink) -> str:
        said = link.complaint.decode(errors="replace").strip().splitlines()
        last = said[-1].strip() if said else ""
        status = None if link.process is None else link.process.poll()
        return link.refused or why_not_started(link.host.name, last, status, link.gone)

    def ready(self) -> list[int]:
        """Return the positions in `hosts` of those whose keepers are there."""
        there = [at for at, link in sorted(self._at.items()) if link.kept and not (link.gone or link.silent)]
        return [at for at in there if at not in self.left]

    def leave(self, host: int) -> None:
        """Start nothing more on a host."""
        self.left.add(host)
        self.changed = True

    def answer(self, asked: Asked, status: str, said: Any) -> None:
        """Answer somebody outside the job."""
        self._mesh.send(asked.who, Answered(asked.inquiry.number, status, said))

    def facts(self, host: int) -> dict[str, Any]:
        """Return what the keeper of a host has said about it."""
        kept = self._at[host].kept
        return {} if kept is None else kept.facts

    def _tend(self, link: HostLink, over: bool = False) -> None:
        """Tell a keeper what is wanted of it."""
        link.told = time.monotonic()
        self._mesh.send(link.number, Wanted(link.order, self._mesh.term, link.wanted, self._settings, over))

    # ------------------------------------------------------------------------------- agents

    def begin(self, term: int, settings: dict[str, Any]) -> None:
        """Begin a new set of agents, after all of the last one have been ended.  Their numbers begin again.

        settings : of every agent.
        """
        self._settings, self._begun = settings, True
        for element in list(self._agents):
            self._forget(element)
        self._mesh.term = term
        for link in self._keepers.values():
            link.wanted = frozenset()
            link.order += 1
        self.changed = True

    def launch(self, element: int, host: int) -> None:
        """Have a keeper start the agent of an element.

        host : position in `hosts`.
        """
        link = self._at[host]
        link.wanted |= {element}
        link.order += 1
        self._agents[element] = AgentLink(link)
        self._tend(link)

    def host_of(self, element: int) -> int:
        """Return the position in `hosts` of an element's host."""
        return self._agents[element].keeper.position

    def on(self, host: int) -> int:
        """Return the number of agents on a host, those that are just being started included."""
        return sum(agent.keeper.position == host for agent in self._agents.values())

    def pids(self) -> dict[int, int]:
        """Return the process ids of the agents that are there, by element."""
        return {element: agent.pid for element, agent in sorted(self._agents.items()) if agent.pid}

    def running(self) -> set[int]:
        """Return the elements whose agents have been started and have not ended."""
        return set(self._agents)

    def known(self) -> set[int]:
        """Return the elements whose agents have introduced themselves and have not ended."""
        return {element for element, agent in self._agents.items() if agent.address is not None}

    def kill(self, element: int) -> None:
        """End an agent: its end is an event, not certain if its keeper is silent."""
        agent = self._agents.get(element)
        if agent is None or agent.give_up is not None:
            return
        link = agent.keeper
        now = time.monotonic()
        agent.give_up = now + (_ALIVE if now - link.heard < _ALIVE else 0.0)
        link.wanted -= {element}
        link.order += 1
        self._tend(link)

    def post(self, element: int, message: Any) -> None:
        """Send a message to an agent."""
        self._mesh.send(element, message)

    def _forget(self, element: int) -> None:
        """Forget an agent that has ended."""
        agent = self._agents.pop(element)
        agent.keeper.wanted -= {element}
        agent.keeper.order += 1
        self._mesh.forget(element)
        self._numbered += 1

    # ------------------------------------------------------------------------------ hearing

    def also(self, descriptor: int) -> None:
        """Have `hear` return when a further descriptor is readable."""
        self._poller.register(descriptor, zmq.POLLIN)

    def not_also(self, descriptor: int) -> None:
        """Undo `also`."""
        self._poller.unregister(descriptor)

    def hear(self, seconds: float) -> list[Event]:
        """Wait at most so long; return what has happened."""
        for descriptor, _ in self._poller.poll(0 if self._events else round(seconds * 1000)):
            if descriptor in self._pipes:
                self._complaint(descriptor)
        for sender, message in self._mesh.take():
            if isinstance(message, KeeperReport):
                self._from_keeper(message)
            elif isinstance(message, Inquiry):
                self._mesh.meet(sender, message.address)
                self._events.append(Asked(sender, message))
            elif isinstance(message, Refused):
                self._keepers[message.keeper].refused = message.why
            elif isinstance(message, Superseded) and message.reign > self._mesh.reign:
                self._give_way()
            elif isinstance(message, FromAgent) and sender in self._agents:
                self._from_agent(sender, message)
        now = time.monotonic()
        if now - self._heard_at > 1.0:  # who does not listen cannot say that others are silent (N3)
            for link in self._at.values():
                link.heard = now
        self._heard_at = now
        for link in list(self._at.values()):
            self._look_after(link, now)
        for element, agent in list(self._agents.items()):
            if agent.give_up is not None and now >= agent.give_up:
                self._went(element, "could not be reached", certain=False)
        events, self._events = self._events, []
        return events

    def _look_after(self, link: HostLink, now: float) -> None:
        """Notice that a keeper is gone or silent, repeat what is wanted of it, start one in place of a lost one."""
        if link.gone:
            if now >= link.again_at and self._begun and link.position not in self.left:
                later = self._start_keeper(link.position)
                later.again_after = min(2 * link.again_after, _REVIVE[1])
            return
        if link.process is not None and link.process.poll() is not None:
            if link.process.returncode == SERVED_ANOTHER:  # we have stood still since
                self._give_way()
            if link.here:
                kill_session(link.process.pid)  # what programs have started and left; at once: the number may be reused
            self._lose(link, "has ended")
            return
        if link.kept is None:
            return
        if link.by_hand and link.position in self.left and not self.on(link.position):
            self._tend(link, over=True)  # what has joined by hand is free again
            link.gone = "has left"
            return
        if now - link.told > _BEAT:
            self._tend(link)
        silent = now - link.heard
        if link.process is None and not link.by_hand and silent > _FORGOTTEN:
            self._lose(link, "has ended")
            return
        if silent > _SILENT and not link.silent:
            link.silent = True
            elements = [element for element, agent in self._agents.items() if agent.keeper is link]
            self._events.append(Silent(link.position, elements, silent))

    def _give_way(self) -> None:
        """Note that another bsprun has taken over, before all else that has happened."""
        self.overthrown = True
        self._events.insert(0, Overthrown())

    def _complaint(self, descriptor: int) -> None:
        """Read what a host's processes have written to standard error."""
        link, data = self._pipes[descriptor], b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(descriptor, 1 << 16)
            if not data:
                self._poller.unregister(descriptor)
                del self._pipes[descriptor]
        if link.kept is None:
            link.complaint += data
        elif data:
            self._events.append(Text(data))

    def _from_keeper(self, kept: KeeperReport) -> None:
        """Handle a keeper's report."""
        link = self._keepers.get(kept.keeper)
        if link is None:
            return
        if link.gone:  # it was cut off, and another one is started there
            self._mesh.meet(kept.keeper, kept.address)
            self._mesh.send(kept.keeper, Wanted(link.order + 1, self._mesh.term, frozenset(), {}, over=True))
            return
        first = link.kept is None
        if first:
            self._mesh.meet(kept.keeper, kept.address if link.address is None else link.address)
            self.changed = True
        link.kept, link.heard, link.silent = kept, time.monotonic(), False
        link.again_after = _REVIVE[0]
        if first and link.by_hand:
            self._events.append(HostJoined(link.position))
        if first and link.address is not None:
            link.order = kept.number + 1
            for (term, element), pid in kept.running.items():
                if term == self._mesh.term:
                    link.wanted |= {element}
                    self._agents[element] = AgentLink(link, pid)
        if kept.leaving and link.position not in self.left:
            self._events.append(Leaves(link.position, kept.leaving))
        for (term, element), how in kept.ended.items():
            agent = self._agents.get(element)
            if term == self._mesh.term and agent is not None and agent.keeper is link:
                self._went(element, how, certain=True)

    def _from_agent(self, element: int, told: FromAgent) -> None:
        """Handle a message of an agent."""
        agent, message = self._agents[element], told.message
        agent.addresses = told.addresses
        agent.keeper.heard = time.monotonic()
        if isinstance(message, Appeared):
            if agent.address is None and agent.give_up is None:
                agent.pid, agent.address = message.pid, message.address
                self._numbered += 1
                self._mesh.meet(element, message.address)
                self._events.append(Came(element, message.pid, message.build, message.orders, message.values))
            return
        self._events.append(Said(element, message))

    def make_sure(self) -> list[Event]:
        """Ask all keepers whether this bsprun is still theirs, and wait for their answers; return what has happened.

        After a standstill another one may have taken over, and what has come meanwhile is no longer ours to print.
        """
        asked = {}
        for link in self._at.values():
            if link.kept is not None and not (link.gone or link.silent):
                link.order += 1
                asked[link.number] = link.order
                self._tend(link)
        held, until = list[Event](), time.monotonic() + _SILENT
        while time.monotonic() < until and not self.overthrown:
            links = [self._keepers[number] for number in asked]
            if all(link.gone or (link.kept is not None and link.kept.number >= asked[link.number]) for link in links):
                break
            held += self.hear(_BEAT / 10)
        return held

    def tell_addresses(self) -> None:
        """Send the addresses of all agents to those that do not have the latest."""
        now = time.monotonic()
        late = [e for e, a in self._agents.items() if a.address and a.addresses < self._numbered]
        late = [e for e in late if now - self._agents[e].told > _BEAT or self._agents[e].sent < self._numbered]
        if not late:
            return
        ours = next((k.kept.bsprun for k in self._keepers.values() if k.kept is not None and k.kept.bsprun), "")
        found = {
            element: agent.address if agent.address.network else agent.address._replace(network=ours)
            for element, agent in self._agents.items()
            if agent.address is not None
        }
        for element in late:
            self._agents[element].told = now
            self._agents[element].sent = self._numbered
            self._mesh.send(element, Addresses(self._numbered, found))

    def confirm(self, element: int, fault: str) -> None:
        """Tell an agent that bsprun knows of a fault that is about to strike."""
        self._mesh.send(element, Confirmed(fault))

    def _went(self, element: int, how: str, certain: bool) -> None:
        if element in self._agents:
            host = self.host_of(element)
            self._forget(element)
            self._events.append(Went(element, host, how, certain))

    def _lose(self, link: HostLink, why: str) -> None:
        """Handle the end of a keeper, or of the connection to it: its agents die with it."""
        link.gone = why
        link.again_at = time.monotonic() + link.again_after
        self._mesh.forget(link.number)
        for element in [e for e, agent in self._agents.items() if agent.keeper is link]:
            self._went(element, f"was lost with its host {link.host.name}", certain=link.here)

    # ------------------------------------------------------------------------------ the end

    def end_all(self) -> None:
        """End all agents, and wait until they are gone as far as their keepers can be reached."""
        if self.overthrown:
            return
        for element in list(self._agents):
            self.kill(element)
        until = time.monotonic() + GRACE
        while self._agents and time.monotonic() < until:
            self.hear(0.05)

    def close(self) -> None:
        """End all keepers, and all agents with them, unless another bsprun has taken over."""
        self._begun = False
        if self.overthrown:
            self._mesh.close()
            return
        reached = [link for link in self._at.values() if link.kept is not None and not (link.gone or link.silent)]
        for link in reached:
            self._tend(link, over=True)
        until = time.monotonic() + 2 * GRACE
        for link in self._keepers.values():
            if link.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                link.process.wait(max(0.0, until - time.monotonic()) if link in reached else 0.0)
            if link.process.poll() is None:
                link.process.kill()
                link.process.wait()
                if link.here:
                    kill_session(link.process.pid)
            for pipe in (link.process.stdin, link.process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self._mesh.close(_LAST_WORDS if any(link.process is None for link in reached) else 0.0)


def _networks() -> list[str]:
    """Return the IP addresses of this machine, for others to try."""
    return [
        address.address
        for found in psutil.net_if_addrs().values()
        for address in found
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]


def _is_of_a_host(name: str) -> bool:
    return name in NAMES_OF_A_HOST or name.startswith(PREFIXES_OF_A_HOST)
