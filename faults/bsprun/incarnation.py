"""bsprun's part of one incarnation: it starts the agents and carries out what the `Arbiter` decides.

What agents say is passed to the arbiter, and the arbiter's effects are performed here: orders, printing, fencing,
checkpoints, the end.  When an agent is lost, another one is started where there is room.
"""

from __future__ import annotations

import base64
import contextlib
import pickle
import signal
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from bsp.errors import LaunchError
from bsp.faults.bsprun.commits import Commits
from bsp.faults.bsprun.crew import Asked, Came, Crew, Event, HostJoined, Leaves, Overthrown, Said, Silent, Text, Went
from bsp.faults.bsprun.homes import Homes
from bsp.faults.bsprun.inquiries import answer
from bsp.faults.bsprun.job import LOST, OVERTHROWN, PREEMPTED, Job, digest_of
from bsp.faults.bsprun.job_file import WRITTEN_EVERY
from bsp.faults.checkpoints.folder import Checkpoint, last_of, name_at
from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.clones.once_values import OnceValues
from bsp.faults.protocol.messages import (
    END_COMPARED,
    Commit,
    Corrupt,
    Dismiss,
    Fence,
    Finished,
    Lost,
    Note,
    NotWritten,
    Order,
    Orders,
    Print,
    Reply,
    Say,
    Tell,
)
from bsp.faults.protocol.text import Shown
from bsp.hosts.build import Build, build, difference
from bsp.hosts.listing import Host
from bsp.hosts.processes import GRACE

_TURN = 0.05  # seconds
_INTRODUCED = 10.0  # seconds in which agents introduce themselves to a bsprun that takes over
_APPEAR = 60.0  # seconds without an agent that introduces itself, after which the missing ones are given up


class NotStarted(LaunchError):
    """Agents were lost before they appeared; the incarnation can be started again."""


class Vacancy(NamedTuple):
    """The place of an agent that is lost or leaves."""

    due: float  # time from which another may be started
    host: int
    crowding: bool  # whether it may be started on a full host


class Estate(NamedTuple):
    """What an earlier bsprun has left behind."""

    environment: Mapping[str, str]
    keepers: Sequence[Any]  # see Crew.take_over
    left: Sequence[int]
    pause: float  # seconds in which a bsprun that is alive finds that it is superseded, and has printed what it has


class Incarnation:
    """A set of agents, from its start to the end of the program, a checkpoint to continue from, or a loss."""

    def __init__(self, job: Job, crew: Crew, homes: Homes, resume: Checkpoint | None, wake: socket.socket) -> None:
        """Prepare the start.

        resume : the checkpoint to continue from, if any.  wake : a socket that becomes readable when a signal arrives.
        """
        self.job, self.crew, self.homes = job, crew, homes
        self.launch, self.asked = job.launch, job.asked
        self.resume = resume
        self.count = len(job.rows) + self.asked.standbys
        domains = None if job.local else [homes.domain_of(host) for host in homes.first]
        self.arbiter = Arbiter(job.rows, self.asked.standbys, self.asked.limits, domains)
        self.arbiter.orders = Orders(self.arbiter.view, printed=job.written())
        self.arbiter.taken = job.printed
        self.arbiter.once = job.once
        self.status: int | None = None
        self.over = False
        self.reason = ""
        self._wake = wake
        self._commits = Commits(job)
        self._bells = wake.fileno(), self._commits.bell, job.output.bell
        for descriptor in self._bells:
            crew.also(descriptor)
        self._why: dict[int, str] = {}  # reasons, of elements that are being fenced
        self._preempting = False
        self._end_at: float | None = None  # time at which bsprun stops waiting for agents to leave
        self._began = False
        self._came: set[int] = set()  # elements whose agents have appeared
        self._builds: dict[int, Build] = {}  # of the first element with each
        self._missing: dict[int, str] = {}  # elements lost before the job began, and how
        self._appeared_at = time.monotonic()
        self._numbers = self.count  # the number of the next element
        self._vacancies: list[Vacancy] = []
        self._refused: set[str] = set()  # reasons why a host is not left, as they have been told
        self._dismissed: set[int] = set()  # elements that have left in good order
        self._degraded: list[str] = []  # bundles that have lost a clone just now, in words
        self._written = time.monotonic()  # when the job's file was written
        self._settled_head = -1  # of the last checkpoint that is complete, or could not be written
        self._fails = False  # whether the last checkpoint could not be written, which has been told
        self._early: Commit | None = None  # a checkpoint that waits for text
        # for how many seconds bsprun last stood still, and when
        self._stood, self._stood_at = 0.0, float("-inf")
        self._warned: set[int] = set()  # bundles for which a warning has been printed
        self._outvoted: set[int] = set()  # elements for which one has

    # ------------------------------------------------------------------------------ start

    def _settings(self) -> dict[str, Any]:
        """Return the settings of all agents."""
        job, launch, asked = self.job, self.launch, self.asked
        settings: dict[str, Any] = {
            "bundles": launch.elements, "nprocs": launch.nprocs, "seed": launch.seed, "machine": launch.machine,
            "every": asked.limits.every, "limits": asdict(asked.limits),
            "inject": asked.inject if job.incarnation == 0 else None,
            "checkpoint": job.checkpoints, "job": digest_of(job.identity),
        }  # fmt: skip
        if self.resume is not None:
            parts = [tuple(asdict(part).values()) for part in self.resume.parts]
            settings["resume"] = str(Path(job.checkpoints) / self.resume.name), parts
        return settings

    def run(self, estate: Estate | None = None) -> int | None:
        """Run the incarnation; return the exit status, or None to continue from the last checkpoint.

        estate : what an earlier bsprun has left behind, if this one takes over from it.
        """
        if self.job.preempted and self.resume is not None:
            return self._stand()
        if estate is None:
            self.job.term += 1
            self.crew.begin(self.job.term, self._settings())
            self._wait_for_a_host()
            if not self.over:
                for element in range(self.count):
                    self._launch(element)
        else:
            self._take_over(estate)
        turned = time.monotonic()
        while not self.over:
            events = self.crew.hear(_TURN)
            before, turned = turned, time.monotonic()
            if turned - before > 1.0:  # measured over a whole turn: a stop may happen anywhere in it
                self._stood, self._stood_at = turned - before, turned
                events += self.crew.make_sure()
                events.sort(key=lambda event: not isinstance(event, Overthrown))
                turned = time.monotonic()
            for event in events:
                if not self.over:
                    self._on(event)
            self._hear_signals()
            self.job.output.quiet()
            if self.crew.changed or time.monotonic() > self._written + WRITTEN_EVERY:
                self.crew.changed, self._written = False, time.monotonic()
                self.job.save()
            for effect, wrong in self._commits.ended():
                self._settle(effect, wrong)
            if self._early is not None:
                self._commit(self._early)
            if self.over:
                break
            if self._began:
                self._obey(self.arbiter.printed(self.seconds(), self.job.written()))
                self._obey(self.arbiter.tick(self.seconds()))
                self.crew.tell_addresses()
                self._fill_vacancies()
                self.job.output.show(self.arbiter, self.seconds())
            else:
                self._look_at_start()
            if self._end_at is not None and (not self.crew.known() or time.monotonic() > self._end_at):
                self.over = True
        return self.status

    def _take_over(self, estate: Estate) -> None:
        """Go on where an earlier bsprun has ended: with its agents, and from what they know (N16)."""
        job, crew = self.job, self.crew
        without = crew.take_over(
            job.term, self._settings(), estate.environment, estate.keepers, estate.left, lambda: bool(job.signals)
        )
        came: dict[int, Came] = {}
        until = time.monotonic() + _INTRODUCED
        while time.monotonic() < until and not crew.running() <= came.keys() and not job.signals:
            events = crew.hear(_TURN)
            came |= {event.element: event for event in events if isinstance(event, Came)}
            for event in events:
                if isinstance(event, Overthrown):  # another one was told to attach at the same time
                    self._on(event)
                    return
        known = [event.orders for event in came.values() if event.orders is not None]
        if not known:
            raise LaunchError(
                f"job {job.name} cannot be taken over: it had not begun, has ended, has lost its elements, or another "
                "bsprun has just taken it over"
            )
        for element in crew.running() - came.keys():
            crew.kill(element)
        newest = max(known, key=lambda orders: orders.number)
        time.sleep(estate.pause)
        job.goes_on_behind(newest.printed)
        newest = replace(newest, printed=job.printed, allowance=max(orders.allowance for orders in known))
        members = newest.view.elements()  # others were given up, and what they know may have been replaced
        values = [each for event in came.values() if event.element in members for each in event.values]
        there = {element: self._domain(element) for element in came if element in crew.known()}
        readings = (struct.unpack("<d", value)[0] for token, value in values if token[0] == "time")
        job.not_before(max(readings, default=0.0))
        self.arbiter.take_over(self.seconds(), job.reign, newest, values, there)
        self._began, self._came = True, set(there)
        self._numbers = (max(came.keys() | self.arbiter.view.elements()) // 1000 + 1) * 1000  # nobody has had these
        lost = len(self.arbiter.view.elements() - there.keys())
        job.log.record("attached", reign=job.reign, elements=len(there), lost=lost)
        job.say(f"job {job.name} goes on, with {len(there)} elements" + (f"; {lost} are lost" if lost else ""))
        crew.engage(without)
        crew.tell_addresses()
        if newest.end:
            self._leave()
            return
        for element in sorted(self.arbiter.view.elements() - there.keys()):
            self._obey(self.arbiter.died(self.seconds(), element, "was gone when bsprun was attached", confirmed=False))
        for element in sorted(there.keys() - self.arbiter.view.elements()):
            self._obey(self.arbiter.add(self.seconds(), element, there[element]))
        host = without[0] if without else 0
        self._vacancies = [Vacancy(time.monotonic(), host, False) for _ in range(self.arbiter.vacancies())]

    def _domain(self, element: int) -> str | None:
        """Return the failure domain of an element; None if all are on this machine."""
        return None if self.job.local else self.homes.domain_of(self.crew.host_of(element))

    def _wait_for_a_host(self) -> None:
        """Wait until a host can run agents: all may be lost just now, and the crew starts their keepers anew."""
        until = time.monotonic() + _APPEAR
        while not self.crew.ready() and not self.over:
            if time.monotonic() > until:
                raise NotStarted(f"no host is left, and none has come back in {_APPEAR:.0f} s")
            for event in self.crew.hear(_TURN):
                self._on(event)
            self._hear_signals()

    def _launch(self, element: int) -> None:
        """Start an agent at the beginning of the incarnation, on another host if its own is lost."""
        ready, host = self.crew.ready(), self.homes.first[element]
        self.crew.launch(element, host if host in ready else min(ready, key=self.crew.on))

    def seconds(self) -> float:
        """Return the seconds since the job began."""
        return time.monotonic() - self.job.began

    def _look_at_start(self) -> None:
        """Begin when all agents have appeared; without some of them, if the others hold all bundles."""
        if time.monotonic() > self._appeared_at + _APPEAR:
            for element in set(range(self.count)) - self._came - self._missing.keys():
                self._missing[element] = f"did not appear in {_APPEAR:.0f} s"
                self.crew.kill(element)
        if len(self._came) + len(self._missing) < self.count:
            return
        there = {bundle for e, row in enumerate(self.job.rows) if e in self._came for bundle in row}
        told = "; ".join(f"element {element} {how}" for element, how in sorted(self._missing.items()))
        if len(there) < self.launch.elements:
            raise NotStarted(told)
        if told:
            self.job.say(f"warning: the job starts without some of its elements: {told}")
        self._begin()
        for element, how in sorted(self._missing.items()):
            self._obey(self.arbiter.died(self.seconds(), element, how, confirmed=False))

    def _begin(self) -> None:
        """Begin the job."""
        self._began = True
        self.job.log.record(
            "started", nprocs=self.launch.nprocs, bundles=self.launch.elements, elements=self.count,
            clones=self.asked.clones, standbys=self.asked.standbys, incarnation=self.job.incarnation,
            seconds=round(self.seconds(), 3), agents={f"{e}": pid for e, pid in self.crew.pids().items()},
            hosts=[self.homes.hosts[host].name for host in self.homes.first],
        )  # fmt: skip
        self.job.log.record("view", **self.arbiter.view.plain())
        self.crew.tell_addresses()
        if self.job.preempted:
            self._preempt()
        self._obey(self.arbiter.tick(self.seconds()))

    def superstep(self) -> int:
        """Return the latest superstep that an element has reported."""
        return max((p.superstep for r in self.arbiter.reports.values() for p in r.clones), default=0)

    # ------------------------------------------------------------------------------ events

    def _on(self, event: Event) -> None:
        """Handle what has happened to an agent, or what it has said."""
        if isinstance(event, Said):
            self._hear(event.element, event.message)
        elif isinstance(event, Came):
            self._greet(event)
        elif isinstance(event, Went):
            self._bury(event)
        elif isinstance(event, Silent):
            self._suspect(event)
        elif isinstance(event, Leaves):
            if event.host not in self.crew.left:  # a keeper repeats it until it is told to end
                self.drain(event.host, event.why)
        elif isinstance(event, HostJoined):
            self._use(event.host)
        elif isinstance(event, Asked):
            answer(self, event)
        elif isinstance(event, Overthrown):
            self.job.output.abandon()
            self.job.say("another bsprun has taken over this job")
            self.status, self.over = OVERTHROWN, True
        elif isinstance(event, Text):
            self.job.output.complain(event.data)

    def _suspect(self, event: Silent) -> None:
        """Handle the silence of a host: others take the places of its elements.

        The arbiter decides about elements that take part in the job.  Those that do not yet are given up at once: they
        hold nothing, and the start, or the place of a lost element, would wait for them.
        """
        why = f"its host {self.homes.hosts[event.host].name} has been silent for {event.seconds:.1f} s"
        part = self._came if self._began else set[int]()
        for element in event.elements:
            if element not in part:
                self._why[element] = f"was given up: {why}"
                self.crew.kill(element)
        self._obey(self.arbiter.suspect(self.seconds(), [e for e in event.elements if e in part], why))

    def _hear(self, element: int, message: Any) -> None:
        """Handle a message of an agent."""
        if isinstance(message, Tell):
            if message.report.leaving and self._began:
                self._drain(element, message.report.leaving)
            self._obey(self.arbiter.report(self.seconds(), message.report))
        elif isinstance(message, Say):
            self._obey(self.arbiter.text(self.seconds(), element, *message))
        elif isinstance(message, Note):
            self._note(message.kind, message.fields)
            if message.kind == "injected":
                self.crew.confirm(element, message.fields["fault"])
        elif isinstance(message, NotWritten):
            self._failed(*message)
        else:
            self._show_error(*message)

    def _greet(self, event: Came) -> None:
        """Handle the introduction of an agent; a job that has begun takes it in."""
        element = event.element
        if element not in self.crew.running():
            return  # lost with its host before we read this: its loss comes next
        self._appeared_at = time.monotonic()
        self._came.add(element)
        self._compare(element, event.build)
        if not self._began:
            self.arbiter.appeared(self.seconds(), element)
            return
        host = self.homes.hosts[self.crew.host_of(element)]
        self.job.log.record("appeared", element=element, pid=event.pid, host=host.name)
        self.crew.tell_addresses()
        self._obey(self.arbiter.add(self.seconds(), element, self._domain(element)))

    def _compare(self, element: int, build: Build) -> None:
        """Tell once that an element computes with another build than the first one, and with which (D7)."""
        if build not in self._builds.values():
            self._builds[element] = build
            (first, known), *_ = self._builds.items()
            differs = difference({first: known, element: build})
            if differs is not None:
                self.job.say(f"note: {differs}")

    def _bury(self, event: Went) -> None:
        """Handle the loss of an agent; another takes its place, where there is room."""
        if self._end_at is not None:
            return
        if event.element in self._dismissed:
            self._obey(self.arbiter.died(self.seconds(), event.element, event.how, confirmed=event.certain))
            return
        self._vacancies.append(Vacancy(self.homes.lost(time.monotonic(), event.host), event.host, False))
        how = self._why.pop(event.element, "")
        if not self._began:
            self._came.discard(event.element)
            self._missing.setdefault(event.element, how or event.how)
            return
        if event.element not in self._came:
            self.job.log.record("note", text=f"element {event.element} {how or event.how} before it appeared")
            return
        how = how or self._how_ended(event.how)
        self._obey(self.arbiter.died(self.seconds(), event.element, how, confirmed=event.certain))
        self._fill_vacancies()
        if self._vacancies and not self.over:  # no other agent could be started
            wait = max(vacancy.due for vacancy in self._vacancies) - time.monotonic()
            then = f"another is not tried for {max(wait, 1):.0f} s" if wait > 0 else "no room for another"
            for text in self._degraded:
                self.job.say(f"warning: {text}, and {then}")
        self._degraded.clear()

    def drain(self, host: int, why: str) -> str:
        """Have the elements of a host leave it in good order, for other hosts (N15); return why not, or nothing."""
        name = self.homes.hosts[host].name
        if self.job.preempted:
            return f"host {name} is not left: the whole job is about to end"
        if all(self.homes.hosts[other].name == name for other in self.crew.ready()):
            refused = f"host {name} cannot be left ({why}): there is no other host"
        else:
            refused = ""
            self.crew.leave(host)
            self.job.log.record("drained", host=name, reason=why)
            self.job.say(f"host {name} is left: {why}")
            there = [element for element in self.crew.running() if self.crew.host_of(element) == host]
            for element in set(there) - self.crew.known():  # it is only being started, and holds nothing
                self._why[element] = f"was given up: {why}"
                self.crew.kill(element)
            there = [element for element in there if element in self.crew.known()]
            for element in sorted(there, key=lambda element: element not in self.arbiter.view.standbys):
                self._drain(element, why)
        if refused and refused not in self._refused:
            self._refused.add(refused)
            self.job.say(f"warning: {refused}")
        return refused

    def join(self, keeper: int, host: Host) -> dict[str, Any]:
        """Take a host into the job; return the settings of its keeper.  Its agents are started when that is there."""
        known = len(self.homes.hosts)
        settings = self.crew.join(keeper, host)
        if len(self.homes.hosts) > known:
            self.job.log.record("joined", host=host.name, slots=host.slots)
            self.job.say(f"host {host.name} joins, with room for {host.slots} elements")
        return settings

    def _use(self, host: int) -> None:
        """Start agents on a host that has joined: they take what is missing, or stand by.

        None if it was left before its keeper was there: the keeper has been told to end.
        """
        if host in self.crew.left:
            return
        for _ in range(self.homes.hosts[host].slots):
            if self._vacancies:
                self._vacancies.pop(0)
            self.crew.launch(self._numbers, host)
            self._numbers += 1

    def _drain(self, element: int, why: str) -> None:
        """Have one element leave in good order; another is started in its place where there is room.

        An agent says that it is to leave until it has ended: also when it leaves already, or has left.
        """
        known = element in self.arbiter.leaving or element in self.arbiter.dead
        if not known and not self.job.preempted:  # then the whole job is about to leave
            self._vacancies.append(Vacancy(time.monotonic(), self.crew.host_of(element), True))
            self._obey(self.arbiter.drain(self.seconds(), element, why))
            self._fill_vacancies()

    def _how_ended(self, how: str) -> str:
        """Return the likely reason why an element ended that was not fenced."""
        alone = self.asked.limits.alone
        if time.monotonic() - self._stood_at < alone:
            return (
                f"had not heard bsprun, which stood still for {self._stood:.0f} s, and ended itself after {alone:g} s"
            )
        return how

    def _staying(self, host: int) -> int:
        """Return how many agents of a host are not to leave."""
        leaving = [element for element in self.arbiter.leaving if element in self.crew.known()]
        return self.crew.on(host) - sum(self.crew.host_of(element) == host for element in leaving)

    def _fill_vacancies(self) -> None:
        """Start agents in place of lost ones, as far as there is room; they take over when they have appeared."""
        now = time.monotonic()
        for vacancy in list(self._vacancies):
            if now < vacancy.due or self._end_at is not None or self.over:
                continue
            apart_from = self.arbiter.domains_of_vacancies()
            host = self.homes.room(self._staying, self.crew.ready(), vacancy.host, apart_from, vacancy.crowding)
            if host is None:
                continue
            self._vacancies.remove(vacancy)
            self.crew.launch(self._numbers, host)
            self._numbers += 1

    # --------------------------------------------------------------------------- effects

    def _obey(self, effects: Sequence[Any]) -> None:
        """Perform effects of the arbiter."""
        for effect in effects:
            if isinstance(effect, Order):
                # not before they are in the view: who is in none that it is sent ends itself
                for element in self.crew.known() & self._came:
                    self.crew.post(element, effect)
            elif isinstance(effect, Reply):
                self.crew.post(effect.element, effect)
            elif isinstance(effect, Print):
                self._print(effect.data)
            elif isinstance(effect, Note):
                self._note(effect.kind, effect.fields)
            elif isinstance(effect, Fence):
                self._fence(effect)
            elif isinstance(effect, Dismiss):
                self._dismissed.add(effect.element)
                self.crew.kill(effect.element)
            elif isinstance(effect, Commit):
                self._commit(effect)
            elif isinstance(effect, Finished):
                self._finish(effect)
            elif isinstance(effect, Lost):
                self._lose(effect.why, effect.bundle, effect.superstep)
            elif isinstance(effect, Corrupt):
                found = effect.found
                told = ", ".join(f"element {e}: {d.hex()[:8]}" for e, d in found.votes if e >= 0)
                what = "computed different bytes" if found.exchange >= 0 else "came to a round in different states"
                why = f"its clones {what} ({told}); faulty hardware, or a program that is not deterministic"
                # a corrupt clone may have computed results that were given since the last checkpoint
                self.job.once = OnceValues()
                self._lose(f"{why} (bsprun --check tells)", found.bundle, found.superstep, "Corruption")

    def _print(self, data: bytes) -> None:
        """Print standard output of the program."""
        self.job.output.print(data)
        self.job.printed += len(data)

    def _show_error(self, bundle: int, life: int, number: int, data: bytes) -> None:
        """Print a piece of a bundle's standard error that has not been shown."""
        if self.job.errors.setdefault(bundle, Shown()).add(number):
            self.job.output.complain(data)

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        """Log an event, and print a warning for some kinds."""
        if fields.pop("warning", False) and fields["bundle"] not in self._warned:
            self._warned.add(fields["bundle"])
            self.job.say(f"warning: {fields['text']} (more of these are in --events)")
        if kind == "outvoted" and fields["element"] not in self._outvoted:
            element = fields["element"]
            self._outvoted.add(element)
            known = not self.job.local and element in self.crew.known()
            where = f" on host {self.homes.hosts[self.crew.host_of(element)].name}" if known else ""
            self.job.say(
                f"warning: element {element}{where} has computed other bytes than the other clones of bundle "
                f"{fields['bundle']}, in superstep {fields['superstep']}, and gets theirs: its memory or its processor "
                "may be faulty, or the program is not deterministic (bsprun --check)"
            )
        if kind == "injected":
            self.job.struck.add(fields["fault"])
        if kind == "degraded":
            passive = f" (and {fields['passive']} passive)" if fields["passive"] else ""
            left = f"{fields['clones']} of {fields['goal']} clones left{passive}"
            self._degraded.append(f"bundle {fields['bundle']} has {left}")
        self.job.log.record(kind, **fields)

    def _fence(self, effect: Fence) -> None:
        """Kill an element; its death is reported to the arbiter when it is certain, or its host cannot be reached."""
        self.job.log.record("fenced", element=effect.element, reason=effect.why)
        if effect.element in self.crew.known():
            self._why[effect.element] = f"was fenced: {effect.why}"
            self.crew.kill(effect.element)
        else:
            self._obey(self.arbiter.died(self.seconds(), effect.element, effect.why))

    # ----------------------------------------------------------------------- checkpoints

    def _commit(self, effect: Commit) -> None:
        """Commit a checkpoint in the background, when all text before it has come.

        A job that resumes does not repeat that text.  What has been lost on the way comes again (N14).
        """
        said = max(said for _, _, said in effect.parts)
        self._early = effect if self.job.printed < said else None
        if self._early is not None:
            return
        once = [[list(token), base64.b64encode(value).decode()] for token, value in self.arbiter.once.items()]
        head = {
            "superstep": effect.parts[0][1],
            "head": effect.head,
            "said": said,
            "seconds": round(self.seconds(), 6),
            "once": once,
            "build": dict(build()),
            "machine": self.job.launch.machine,
        }
        self._commits.write(effect, head)

    def _settle(self, effect: Commit, wrong: str) -> None:
        """Handle the end of a commit; end this incarnation if it was to end with it."""
        if self.over or self._end_at is not None:
            return
        superstep = effect.parts[0][1]
        if wrong:
            self._failed(effect.head, superstep, wrong)
            return
        self._fails = False
        self._settled_head = max(self._settled_head, effect.head)
        size = sum(part.size for part, _, _ in effect.parts)
        self.job.log.record("checkpoint", name=name_at(superstep), superstep=superstep, bytes=size)
        if self._is_last(effect.head):
            self.job.say(f"checkpoint of superstep {superstep} written; go on with --resume {self.job.checkpoints}")
            self.status = PREEMPTED
            self._leave()
        else:
            self._obey(self.arbiter.committed(self.seconds(), effect.head))

    def _failed(self, head: int, superstep: int, why: str) -> None:
        """Handle a checkpoint that could not be written.

        Each writer of a part may report the failure; only the first report counts, and none of a checkpoint before one
        that is complete: that has removed what is late.  A full disk fails each checkpoint: a warning comes once, until
        one succeeds, and for the last.
        """
        if head <= self._settled_head:
            return
        self._settled_head = head
        if not self._fails or self._is_last(head):
            silence = "" if self._is_last(head) else "; the next warning comes after one that succeeds"
            self.job.say(f"warning: no checkpoint at superstep {superstep}: {why}{silence}")
        self._fails = True
        self.job.log.record("checkpoint", error=why, superstep=superstep)
        self._commits.discard(superstep)
        if self._is_last(head):
            last = last_of(Path(self.job.checkpoints), self.job.key, self.job.identity)
            stands = "there is no checkpoint" if last is None else f"{last} stands"
            self.job.say(f"{self.job.interrupted()}; {stands} in {self.job.checkpoints}")
            self.status = 128 + signal.SIGTERM
            self._leave()
        else:
            self._obey(self.arbiter.committed(self.seconds(), head))

    def _is_last(self, head: int) -> bool:
        """Return whether a checkpoint is the one with which the job is to end, and not one begun before."""
        hold = self.arbiter.orders.hold
        return self._preempting and hold is not None and hold.target is not None and head >= hold.target

    def _leave(self) -> None:
        """Let every agent leave; those that do not within a time limit are killed."""
        self._end_at = time.monotonic() + GRACE
        self._obey(self.arbiter.end(self.seconds()))

    # ----------------------------------------------------------------------------- the end

    def _finish(self, effect: Finished) -> None:
        """Handle the end of the program."""
        status, said = pickle.loads(effect.digests[0][END_COMPARED:])
        self.job.output.complain(said.encode(errors="backslashreplace"))
        self.status = status
        self._leave()

    def _lose(self, why: str, bundle: int, superstep: int, what: str = "BundleLost") -> None:
        """End this incarnation after a loss: the job continues from the last checkpoint, or ends."""
        layout = self.launch.nprocs
        first, last = layout * bundle // self.launch.elements, layout * (bundle + 1) // self.launch.elements - 1
        processes = f"process {first}" if first == last else f"processes {first}-{last}"
        self.reason = f"bsprun: {what}: {processes} (bundle {bundle}), superstep {superstep}: {why}\n"
        self.job.log.record("lost", bundle=bundle, superstep=superstep, reason=why)
        self.over = True
        self.status = None

    def gave_up(self) -> int:
        """Print why the job cannot continue; return its exit status."""
        if self.asked.checkpoint is not None and self.resume is not None:
            self.reason += f"bsprun: {self.resume.name} stands; go on with --resume {self.job.checkpoints}\n"
        self.job.output.complain(self.reason.encode(errors="backslashreplace"))
        self.job.log.record("ended", status=LOST, **self.job.totals())
        return LOST

    def _hear_signals(self) -> None:
        """Handle signals."""
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(64, socket.MSG_DONTWAIT)
        while self.job.signals:
            number = self.job.signals.pop(0)
            if number == signal.SIGTERM and self.asked.checkpoint is not None and not self.job.preempted:
                if self._began:
                    self.job.preempted = True
                    self.job.say("SIGTERM: a checkpoint is written at the next round; a second SIGTERM ends the job")
                    self._preempt()
                    continue
                if self.resume is not None:
                    self.status, self.over = self._stand(), True
                    continue
            if not self.job.left:
                self.status, self.over = self.job.leave(number), True

    def _preempt(self) -> None:
        """Hold all clones for a checkpoint after which the job ends."""
        self._preempting = True
        self._obey(self.arbiter.hold(self.seconds()))

    def _stand(self) -> int:
        """End before anything was computed: the checkpoint from which the job was to continue is still the last."""
        assert self.resume is not None
        self.job.say(f"{self.resume.name} stands; go on with --resume {self.job.checkpoints}")
        return PREEMPTED

    def close(self) -> None:
        """End all that belongs to this incarnation."""
        self.crew.end_all()
        for descriptor in self._bells:
            self.crew.not_also(descriptor)
        if not self._commits.close(GRACE):
            self.job.say("warning: the disk with the checkpoints does not answer")
