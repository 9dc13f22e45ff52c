"""Hosts of a simulated job with their keepers, and what bsprun makes of them: as faults/bsprun/crew.py does.

A host that is lost or cut off is silent.  After a while bsprun lets the arbiter suspect its elements, and has
those that the arbiter fences killed by their keeper.  If the keeper cannot be reached, their deaths are reported as not
confirmed.  A keeper that is heard again kills what bsprun no longer wants, and others are started in their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bsp.faults.simulate.simulation import Simulation

BEAT = 0.05  # seconds between reports of keepers
_SOON = 0.005  # seconds until bsprun sees that a connection has ended


@dataclass
class SimulatedHost:
    """A host with its keeper, as it is and as bsprun sees it."""

    slots: int  # elements for which it has room
    up: bool = True
    ended: list[tuple[int, str]] = field(default_factory=list)  # elements whose ends its keeper has not reported
    renewed: bool = False  # its keeper is another one than bsprun has heard
    heard: float = 0.0  # when, by bsprun
    silent: bool = False  # bsprun counts it as lost
    starting: int = 0  # elements that are being started there
    asleep: float = 0.0  # time until which it stands still

    def acts(self, now: float) -> bool:
        """Return whether its keeper can do anything."""
        return self.up and now >= self.asleep


class SimulatedKeepers:
    """All hosts of a run, and what bsprun has started on them."""

    def __init__(self, run: Simulation, homes: list[int]) -> None:
        """Create hosts; homes : the host of each element."""
        self._run, self._rng, self._schedule = run, run.rng, run.schedule
        self.hosts = [SimulatedHost(slots) for slots in self._schedule.slots]
        self.crew = dict(enumerate(homes))  # by element that bsprun knows: its host
        self.left: set[int] = set()  # hosts that are not used any more
        self._dismissed: set[int] = set()
        self._give_up: dict[int, float] = {}  # by element that is being killed: when its end counts as unconfirmed
        self._vacancies: list[bool] = []  # missing elements: whether one may be started on a full host

    def domain(self, host: int) -> str:
        """Return the failure domain of a host."""
        return f"host {host}"

    # ------------------------------------------------------------------------- what happens

    def beat(self) -> None:
        """Let all keepers report, and obey; let bsprun draw its conclusions."""
        run, now = self._run, self._run.now
        for number, host in enumerate(self.hosts):
            if run.deaf or run.outcome is not None:
                break
            if host.acts(now) and run.hears(number):
                host.heard, host.silent = now, False
                self._report(number, host)
            if now - host.heard > self._schedule.silent and not host.silent:
                host.silent = True
                run.suspect([e for e, at in self.crew.items() if at == number], f"host {number} is silent")
            if host.acts(now) and run.is_heard(number) and self._schedule.keepers_tell:
                self._kill_unwanted(number)
        for element, due in list(self._give_up.items()):
            if now >= due and not run.deaf:
                self._went(element, "could not be reached", certain=False)
        self._fill()
        if run.goes_on():
            run.at(now + BEAT, self.beat)

    def _report(self, number: int, host: SimulatedHost) -> None:
        """Handle the report of a keeper that bsprun hears."""
        if host.renewed:
            host.renewed = False
            for element in [e for e, at in self.crew.items() if at == number and not self._run.nodes[e].alive]:
                self._went(element, "was lost with its host", certain=False)
        ended, host.ended = host.ended, []
        for element, how in ended:
            self._went(element, how, certain=True)

    def _kill_unwanted(self, number: int) -> None:
        """Let a keeper that hears bsprun kill what is not wanted there."""
        run = self._run
        for element, node in enumerate(run.nodes):
            wanted = element in self.crew and element not in self._give_up
            if node.alive and node.host == number and node.reign == run.reign and not wanted:
                run.kill(element, "is not wanted any more")

    def ended(self, element: int, how: str) -> None:
        """Let a keeper see that an element has ended."""
        number = self._run.nodes[element].host
        host = self.hosts[number]
        if host.up:
            host.ended.append((element, how))
            self._run.at(self._run.now + 0.001 + 0.03 * self._rng.random(), self._tell, number)

    def _tell(self, number: int) -> None:
        """Let a keeper report at once, if bsprun hears it."""
        if self.hosts[number].acts(self._run.now) and not self._run.deaf and self._run.hears(number):
            self._report(number, self.hosts[number])

    def fence(self, element: int, dismissed: bool = False) -> None:
        """Have the keeper of an element kill it."""
        if element not in self.crew:  # it has ended already
            self._run.bury(element, "was fenced", certain=True)
            return
        if dismissed:
            self._dismissed.add(element)
        if element not in self._give_up:
            number, now = self.crew[element], self._run.now
            heard = now - self.hosts[number].heard < self._schedule.reliable
            self._give_up[element] = now + (self._schedule.reliable if heard else 0.0)
            self._run.at(now + 0.001 + 0.02 * self._rng.random(), self._strike, element)

    def _strike(self, element: int) -> None:
        """Let a keeper kill an element that is fenced."""
        node = self._run.nodes[element]
        if (
            self.hosts[node.host].acts(self._run.now)
            and self._run.is_heard(node.host)
            and node.alive
            and element in self._give_up
        ):
            self._run.kill(element, "fenced")

    def lose(self, number: int) -> None:
        """Let bsprun see that the connection to a keeper has ended: its elements count as lost at once."""
        if not self._run.deaf:
            self.hosts[number].silent, self.hosts[number].heard = True, -1e9
            for element in [e for e, at in self.crew.items() if at == number]:
                self._went(element, f"was lost with its host {number}", certain=False)

    def _went(self, element: int, how: str, certain: bool) -> None:
        """Handle the end of an element, certain or not; another is to take its place."""
        self._give_up.pop(element, None)
        if element not in self.crew:
            return
        del self.crew[element]
        if element not in self._dismissed:
            self._vacancies.append(False)
        self._run.bury(element, how, certain)

    # ---------------------------------------------------------------------- where others start

    def _fill(self) -> None:
        """Start elements in place of those that are missing, where there is room."""
        run = self._run
        while self._vacancies and not run.deaf and run.outcome is None:
            host = self._room(crowded=self._vacancies[0])
            if host is None:
                return
            self._vacancies.pop(0)
            self._start(host)

    def _room(self, crowded: bool) -> int | None:
        """Return the host for a new element, as faults/bsprun/homes.py chooses it; None if all are full."""
        on = list(self.crew.values())
        ready = [n for n, host in enumerate(self.hosts) if not host.silent and n not in self.left]
        free = {n: self.hosts[n].slots - on.count(n) - self.hosts[n].starting for n in ready}
        with_room = [n for n in ready if free[n] > 0] or (ready if crowded else [])
        apart = self._run.arbiter.domains_of_vacancies()
        return min(with_room, key=lambda n: (self.domain(n) in apart, -free[n]), default=None)

    def _start(self, host: int) -> None:
        """Start an element on a host."""
        self.hosts[host].starting += 1
        self._run.at(self._run.now + 0.05 + 0.1 * self._rng.random(), self._appear, host)

    def _appear(self, number: int) -> None:
        """Let an element that has been started introduce itself to bsprun."""
        run, host = self._run, self.hosts[number]
        if run.outcome is not None:
            return
        if run.deaf or not host.acts(run.now) or not (run.hears(number) and run.is_heard(number)):
            run.at(run.now + 0.2, self._missed, number)
            return
        host.starting -= 1
        element = run.new_element(number)
        self.crew[element] = number
        run.welcome(element, self.domain(number))

    def _missed(self, number: int) -> None:
        """Start another element in place of one that could not introduce itself."""
        self.hosts[number].starting -= 1
        self._vacancies.append(False)

    def join(self, slots: int) -> None:
        """Let a new host join, with an element for each slot."""
        if not self._run.deaf:
            self.hosts.append(SimulatedHost(slots, heard=self._run.now))
            for _ in range(slots):
                if self._vacancies:
                    self._vacancies.pop(0)
                self._start(len(self.hosts) - 1)

    def drain(self, number: int) -> None:
        """Let the elements of a host leave it in good order, if there is another host."""
        run = self._run
        others = [n for n, h in enumerate(self.hosts) if n != number and not h.silent and n not in self.left]
        if run.deaf or not others or number in self.left:
            return
        self.left.add(number)
        there = [element for element, at in self.crew.items() if at == number]
        for element in sorted(there, key=lambda element: element not in run.arbiter.view.standbys):
            self._vacancies.append(True)
            run.drain(element)
        self._fill()

    # ------------------------------------------------------------------- crashes, and another bsprun

    def crash(self, number: int, seconds: float) -> None:
        """Let a host crash with all that it carries; it comes back after some seconds, or never (0)."""
        host = self.hosts[number]
        host.up = False
        host.ended.clear()
        for element, node in enumerate(self._run.nodes):
            if node.alive and node.host == number:
                self._run.kill(element, "was lost with its host", seen=False)
        if seconds:
            self._run.at(self._run.now + seconds, self._come_back, number)

    def _come_back(self, number: int) -> None:
        """Let a host that has crashed be there again, with another keeper and no elements."""
        self.hosts[number].up = self.hosts[number].renewed = True

    def sleep(self, number: int, seconds: float) -> None:
        """Let a host stand still with all that it carries, as a virtual machine that is moved."""
        run = self._run
        self.hosts[number].asleep = run.now + seconds
        for element, node in enumerate(run.nodes):
            if node.alive and node.host == number and not node.stopped:
                node.stopped = True
                run.at(run.now + seconds, run.wake, element)

    def notice(self, number: int) -> None:
        """Let bsprun see at once that a connection has ended."""
        self._run.at(self._run.now + _SOON, self.lose, number)

    def reached(self) -> Iterator[int]:
        """Yield the hosts whose keepers a bsprun can talk to."""
        for number, host in enumerate(self.hosts):
            if host.acts(self._run.now) and self._run.hears(number) and self._run.is_heard(number):
                yield number

    def take_over(self) -> list[int]:
        """Let another bsprun take over the keepers that it reaches; return the elements there."""
        run, reached = self._run, set(self.reached())
        for number, host in enumerate(self.hosts):
            host.heard, host.silent = run.now, number not in reached
            host.ended.clear()
            host.renewed = host.renewed and number not in reached
        there = [element for element, node in enumerate(run.nodes) if node.alive and node.host in reached]
        self.crew = {element: run.nodes[element].host for element in there}
        self._give_up.clear()
        self._vacancies.clear()
        return there

    def missing(self, count: int) -> None:
        """Note that elements are missing when another bsprun has taken over."""
        self._vacancies = [False] * count
