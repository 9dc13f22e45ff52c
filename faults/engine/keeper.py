"""The keeper of a host: starts the agents of a job there, tells bsprun when one has ended, and ends them.

bsprun tells each keeper which agents it wants, and each keeper tells bsprun which it has and how others ended.  Both
repeat it (N14): a keeper starts what is missing and kills what is not wanted.  Agents are forked from a process that
has imported everything, within milliseconds.  They die with the keeper.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

import zmq

from bsp.faults.carrier.job_key import from_secret
from bsp.faults.carrier.mesh import BSPRUN, Address, Mesh, reachable
from bsp.faults.carrier.wire import Closed, Wire
from bsp.faults.engine import forks
from bsp.faults.engine.agent import asked_to_leave, lead, leave_when_asked
from bsp.faults.engine.control_messages import (
    SERVED_ANOTHER,
    Answered,
    Inquiry,
    Introduced,
    KeeperReport,
    Refused,
    Successor,
    Superseded,
    Wanted,
)
from bsp.faults.engine.forks import Fork, Over, Signal, WorkerStarted, how_ended
from bsp.faults.engine.spot_notice import SpotNotice
from bsp.host import allow_many_files, die_with_parent
from bsp.hosts.daemon import facts
from bsp.hosts.processes import kill_session

_BEAT = 0.25  # seconds between reports
_UNHEARD = 40  # reports without a word from bsprun, after which a keeper ends at the earliest
_FORMER = -(1 << 39)  # number of a bsprun that another one has superseded


class Keeper:
    """A host's keeper, from its start to the end of the job."""

    def __init__(self, settings: dict[str, Any], program: list[str]) -> None:
        """Start the process that agents are forked from, then connect to bsprun."""
        self._number, self._lifeline, self._orphan = settings["keeper"], settings["lifeline"], settings["orphan"]
        self._environment = settings["environment"]
        self._wrong = _why_not(settings["cwd"], program)  # first: what is forked works in that folder
        self._forks = forks.start(lead(settings, program))  # before ZeroMQ has threads
        self._mesh = Mesh(
            from_secret(settings["secret"]), self._number, network=settings["network"], reign=settings["reign"]
        )
        self._bsprun = Address(*settings["bsprun"])
        self._mesh.meet(BSPRUN, self._bsprun)
        self._first_reign = settings["reign"]
        self._facts = facts()
        self._wanted = Wanted(0, 0, frozenset(), {})
        self._running: dict[tuple[int, int], int] = {}
        self._ended: dict[tuple[int, int], str] = {}
        self._channels: dict[tuple[int, int], Wire] = {}  # to the agents
        self._unheard = 0
        self._spot = SpotNotice(settings["leave_when"])

    def run(self) -> int:
        """Serve until the job is over, or bsprun is gone; return the exit status: 0, SERVED_ANOTHER, 1 if it failed."""
        try:
            self._serve()
        except Closed:  # the fork server is gone
            return 1
        return SERVED_ANOTHER if self._mesh.reign > self._first_reign else 0

    def _serve(self) -> None:
        poller = zmq.Poller()
        for what in (self._forks.fileno(), *self._mesh.sources):
            poller.register(what, zmq.POLLIN)
        if self._lifeline >= 0:
            poller.register(self._lifeline, zmq.POLLIN)
        said = 0.0
        while True:
            ready = dict(poller.poll(max(0, math.ceil(1000 * (said + _BEAT - time.monotonic())))))
            if self._lifeline in ready and not os.read(self._lifeline, 1):  # bsprun is gone
                if not self._orphan:
                    return
                poller.unregister(self._lifeline)
                self._lifeline = -1
            changed = self._from_forks() if self._forks.fileno() in ready else False
            for sender, message in self._mesh.take():
                if isinstance(message, Successor):
                    changed |= self._follow(message)
                elif isinstance(message, Inquiry):
                    self._answer(sender, message)
                elif sender == BSPRUN and isinstance(message, Wanted) and message.number >= self._wanted.number:
                    self._unheard = 0
                    if message.over:
                        return
                    self._obey(message)
                    changed = True
            if changed or time.monotonic() >= said + _BEAT:
                said = time.monotonic()
                self._unheard += 1
                # only with agents there is something to take over
                if self._unheard > (max(_UNHEARD, self._orphan / _BEAT) if self._running else _UNHEARD):
                    return
                if self._mesh.outdated:
                    self._mesh.send(_FORMER, Superseded(self._mesh.reign))
                self._report()

    def _report(self) -> None:
        if self._wrong:
            self._mesh.send(BSPRUN, Refused(self._number, self._wrong))
            return
        told = KeeperReport(
            self._number, self._wanted.number, self._mesh.address, self._bsprun.network, self._facts, self._running,
            self._ended, asked_to_leave() or self._spot.look(),
        )  # fmt: skip
        self._mesh.send(BSPRUN, told)

    def _obey(self, wanted: Wanted) -> None:
        """Start the agents that are wanted and not there, and kill the others."""
        self._wanted = wanted
        wished = {(wanted.term, element) for element in wanted.agents}
        for key in wished - self._running.keys() - self._ended.keys():
            self._start(key, wanted.settings)
        for term, element in self._running.keys() - wished:
            self._forks.send(Signal(_life(term, element), signal.SIGKILL))

    def _start(self, key: tuple[int, int], settings: dict[str, Any]) -> None:
        """Fork an agent, and give it its settings."""
        term, element = key
        mine, its = socket.socketpair()
        forks.ask(self._forks, Fork(element, _life(term, element), element, True), its)
        self._channels[key] = Wire(mine)
        self._channels[key].send((settings, term, element, self._mesh.reign, self._bsprun, self._mesh.address.network))
        self._running[key] = 0

    def _from_forks(self) -> bool:
        """Handle agents that have started or ended."""
        messages = self._forks.read()
        for message in messages:
            key = divmod(message.life, _TERM)
            if isinstance(message, WorkerStarted):
                self._running[key] = message.pid
            elif isinstance(message, Over):
                self._running.pop(key, None)
                if key in self._channels:
                    self._channels.pop(key).close()
                self._ended[key] = how_ended(message.status)
        return bool(messages)

    def _answer(self, who: int, inquiry: Inquiry) -> None:
        """Answer a bsprun that would take over."""
        self._mesh.meet(who, inquiry.address)
        told = {"reign": self._mesh.reign, "silent": self._unheard * _BEAT, "environment": self._environment}
        self._mesh.send(who, Answered(inquiry.number, "done", told))

    def _follow(self, successor: Successor) -> bool:
        """Serve another bsprun from now on, with all agents here; return whether it is a new one."""
        if successor.reign <= self._mesh.reign:
            return False
        reached = reachable(successor.bsprun, successor.networks)
        if reached is None:
            return False
        self._mesh.meet(_FORMER, self._bsprun)
        self._bsprun, network = reached
        self._mesh.reign, self._unheard = successor.reign, 0
        if network:
            self._mesh.address = self._mesh.address._replace(network=network)
        self._mesh.meet(BSPRUN, self._bsprun)
        for channel in self._channels.values():
            with contextlib.suppress(Closed):
                channel.send(Introduced(successor.reign, self._bsprun, network))
        return True

    def end(self) -> None:
        """End all agents, and what programs have started and left, and wait until they are gone."""
        with contextlib.suppress(Closed):  # without the fork server there are no agents
            for term, element in self._running:
                self._forks.send(Signal(_life(term, element), signal.SIGKILL))
            until = time.monotonic() + 2.0
            selector = selectors.DefaultSelector()
            selector.register(self._forks, selectors.EVENT_READ)
            while self._running and time.monotonic() < until:
                if selector.select(0.1):
                    self._from_forks()
        if os.getsid(0) == os.getpid():  # the session is the job's: bsprun, or a login, has begun it for this keeper
            kill_session(os.getpid())


_TERM = 1 << 32


def _life(term: int, element: int) -> int:
    """Return the number by which the fork server knows an agent."""
    return term * _TERM + element


def _find_bsprun(settings: dict[str, Any]) -> None:
    """Find the address at which bsprun can be reached from here, and ours on the way there."""
    address, networks = Address(*settings["bsprun"]), settings["networks"]
    reached = reachable(address, networks)
    if reached is None and not networks:
        sys.exit("bsprun's host has no IPv4 address: the hosts of a job connect to each other by IPv4")
    if reached is None:
        sys.exit(f"it cannot connect to bsprun's host ({', '.join(networks)}), port {address.port}: a firewall?")
    settings["bsprun"], network = reached
    if network:
        settings["network"] = network


def _why_not(folder: str, program: list[str]) -> str:
    """Go to the job's folder; return why the program cannot run here, or nothing."""
    try:
        os.chdir(folder)
    except OSError as wrong:
        return f"{wrong.strerror} there: {folder}"
    if not program[0].startswith("-") and not os.path.isfile(program[0]):
        return f"script '{program[0]}' does not exist there (looked in {folder})"
    return ""


def main() -> None:
    """Keep a host; the arguments are the descriptor of the settings, and the program with its own arguments."""
    with open(int(sys.argv[1])) as file:
        settings = json.load(file)
    if settings["here"]:
        if not settings["orphan"]:
            die_with_parent()
    elif not settings["joins"]:
        os.dup2(2, 1)  # what a login prints there does not get into the program's text
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leave_when_asked(signal.SIGINT if settings["joins"] else signal.SIGTERM)
    settings["lifeline"] = -1 if settings["joins"] else os.dup(0)  # closes when bsprun ends; programs have no input
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    _find_bsprun(settings)
    allow_many_files()
    keeper = Keeper(settings, sys.argv[2:])
    status = 1
    try:
        status = keeper.run()
    finally:
        keeper.end()
        os._exit(status)


if __name__ == "__main__":
    main()
