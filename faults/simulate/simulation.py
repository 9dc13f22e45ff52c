"""Whole jobs in virtual time: the protocol's own objects, a simulated program, seeded faults.

All that happens in a schedule follows from its seed: computing times, delays, losses, the rates of clocks, and the
faults, which strike at any effect of any element (in the middle of its sends, too).  What is delivered is compared with
the sequential evaluation of the same program (`SimulatedProgram.reference`), so a run that ends with an answer has been
checked packet by packet.  Calls of proc.once are checked for their times, too (calls.py).

With hosts, elements stand on them, and bsprun learns of their ends what it hears of keepers (keepers.py).  Without
hosts bsprun learns of each end soon, and for certain.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from typing import Any

from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.domains import deal
from bsp.faults.protocol.member import Member
from bsp.faults.protocol.messages import (
    Answer,
    Asks,
    Commit,
    Corrupt,
    Deliver,
    Die,
    Dismiss,
    Fence,
    Finished,
    Head,
    Leave,
    Lost,
    Note,
    Once,
    Order,
    Print,
    Printed,
    Reply,
    Say,
    SendTo,
    StartWorker,
    StopWorker,
    Submitted,
    Tell,
    Write,
    Wrote,
)
from bsp.faults.protocol.placement import place
from bsp.faults.simulate.calls import Caller, OnceCalls
from bsp.faults.simulate.elements import DriftingClock, SimulatedElement, drawn_clock
from bsp.faults.simulate.faults import strike
from bsp.faults.simulate.keepers import SimulatedKeepers
from bsp.faults.simulate.network import OUTSIDE, VirtualNetwork
from bsp.faults.simulate.program import Worker
from bsp.faults.simulate.schedules import Cut, SimulatedRun
from bsp.faults.simulate.successors import take_over

_TURN = 0.02  # seconds between two ticks of bsprun


class Simulation:
    """One run of one schedule.  `outcome` is its result; `wrong` lists every violation of what the protocol promises.

    say : prints each note as it happens.
    """

    def __init__(self, schedule: SimulatedRun, say: Callable[[str], None] | None = None) -> None:
        self.schedule = schedule
        self.now = 0.0
        self.say = say
        self.rng = random.Random(schedule.seed)
        self._clocks = random.Random(f"clocks {schedule.seed}")
        script = schedule.script
        self.rows = place(script.bundles, schedule.elements, schedule.vertical)
        self.seat = schedule.seat  # the place of bsprun
        self.clock = self.new_clock()  # bsprun's
        self.network = VirtualNetwork(self.rng, schedule.delay, schedule.lossy, schedule.holds)
        count = schedule.elements + schedule.standbys
        hosts = [f"host {number}" for number in range(len(schedule.slots))]
        homes = deal(self.rows, schedule.standbys, schedule.slots, hosts) if hosts else list(range(count))
        self._domains = [hosts[home] for home in homes] if hosts else None
        self.arbiter = self.new_arbiter()
        self.reign = 0  # how many bspruns have taken over
        self.deaf = False  # there is no bsprun
        self.bsprun_fuse = -1  # effects that bsprun still performs before it dies; -1: no limit
        self.absence = 0.0  # seconds until another one takes over then
        self.nodes: list[SimulatedElement] = []
        for home in homes:
            self._add_node(home)
        self.keepers = SimulatedKeepers(self, homes) if hosts else None
        self.history, self.text = script.reference()
        self.printed = b""
        self.notes: list[tuple[float, str, dict[str, Any]]] = []
        self.outcome: Any = None  # Finished, Lost or Corrupt
        self.wrong: list[str] = []  # violations: empty after a correct run
        self.flipped = False
        self.unprotected = False  # whether a bit was flipped that no sibling can see
        self.messages = 0
        self.calls = OnceCalls(lambda caller: self.nodes[caller.element].runs(caller.bundle, caller.life), self.wrong)
        self.values: dict[Any, bytes] = {}  # that workers have been given
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    @property
    def called(self) -> dict[Any, int]:
        """How often each call of proc.once was begun."""
        return self.calls.made

    def new_arbiter(self) -> Arbiter:
        """Create an arbiter as it is at the start."""
        return Arbiter(self.rows, self.schedule.standbys, self.schedule.limits, self._domains)

    def new_clock(self) -> DriftingClock:
        """Draw a clock."""
        return drawn_clock(self._clocks, self.schedule.drift)

    def _add_node(self, host: int | None) -> int:
        """Create an element, without hosts in a place of its own; return its number."""
        element, script = len(self.nodes), self.schedule.script
        member = Member(element, script.bundles, self.schedule.limits)
        self.nodes.append(SimulatedElement(member, element if host is None else host, self.new_clock(), self.reign))
        return element

    # ------------------------------------------------------------------------------- time

    def at(self, when: float, what: Callable[..., None], *arguments: Any) -> None:
        """Call `what` with `arguments` at the virtual time `when`.  Calls at equal times keep their order."""
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, what, arguments))

    def run(self, until: float = 120.0) -> Any:
        """Run until the job has ended and all elements have left, compare answer and text, and return the outcome.

        A job that has not ended after `until` virtual seconds is a violation.
        """
        for element in range(len(self.nodes)):
            self.at(0.0, self._connect, element)
        self.at(0.0, self._tick_arbiter)
        if self.keepers is not None:
            self.at(0.0, self.keepers.beat)
        for when, fault, element, much in self.schedule.faults:
            self.at(when, strike, self, fault, element, much)
        for cut in self.schedule.cuts:
            self.at(cut.when, self._cut, cut)
        queue = self._queue
        while queue:
            self.now, _, what, arguments = heapq.heappop(queue)
            if self.now > until:
                self.wrong.append(f"not ended after {until:g} s")
                break
            what(*arguments)
            if self.outcome is not None and not any(node.alive for node in self.nodes):
                break
        self._judge()
        return self.outcome

    def goes_on(self) -> bool:
        """Return whether the job has no outcome yet, or an element has not left."""
        return self.outcome is None or any(node.alive for node in self.nodes)

    def _judge(self) -> None:
        """Compare the outcome, the answer and the text with the sequential evaluation; append violations to `wrong`."""
        if self.unprotected:
            return
        if isinstance(self.outcome, Finished):
            expected = tuple(b"%d" % state for state in self.history[-1])
            if self.outcome.digests != expected:
                self.wrong.append(f"wrong answer: {self.outcome.digests} instead of {expected}")
            if self.printed != self.text:
                self.wrong.append(f"wrong text: {self.printed!r:.200} instead of {self.text!r:.200}")
        elif not self.flipped and not self.text.startswith(self.printed):
            self.wrong.append("wrong text before the loss")
        if self.schedule.harmless and not isinstance(self.outcome, Finished):
            self.wrong.append(f"should have survived, but: {self.outcome}")

    # ----------------------------------------------------------------------------- network

    def _send(self, source: Any, dest: int, message: Any) -> None:
        """Send a message over the network, which may lose, duplicate or delay it.

        Element -1 is bsprun; as a source, (-1, its reign).
        """
        self.messages += 1
        nodes = self.nodes
        sender = self.seat if type(source) is tuple else nodes[source].host
        receiver = self.seat if dest == -1 else nodes[dest].host
        for when in self.network.arrivals(sender, receiver, self.now):
            self.at(when, self._arrive, source, dest, message)

    def _arrive(self, source: Any, dest: int, message: Any) -> None:
        """Give an arrived message to its element; a stopped element reads it when it continues."""
        if dest == -1:
            if not self.deaf:
                self._at_arbiter(source, message)
            return
        node = self.nodes[dest]
        if not node.alive:
            return
        if isinstance(source, tuple):  # of a bsprun
            if self._is_outdated(node, source[1]):
                return
            source = -1
        if node.stopped:
            node.backlog.append((message, source))
            return
        self._give(dest, message, source)

    def _is_outdated(self, node: SimulatedElement, reign: int) -> bool:
        """Return whether a bsprun is not heard any more by an element, because another one has taken over (N16)."""
        return reign < node.reign

    def _give(self, element: int, message: Any, source: int) -> None:
        """Pass a message to an element's member and perform the effects that it returns."""
        node = self.nodes[element]
        member, now = node.member, node.clock.read(self.now)
        if source != -1:
            effects = member.receive(now, message, source)
        elif isinstance(message, Order):
            effects = member.command(now, message.orders)
        else:
            effects = member.reply(now, message.once)
        self._perform(element, effects)

    def _cut(self, cut: Cut) -> None:
        """Cut the network."""
        if self.outcome is None:
            self.note("fault", {"what": "cut", **cut._asdict()})
            # from bsprun, wherever it runs, and from the next one
            ways = [(a, b) for way in cut.ways for a, b in (way, tuple(self.seat if x == OUTSIDE else x for x in way))]
            self.network.cut([(a, b) for a, b in ways if a != b], self.now + cut.seconds, cut.late)
            for host in cut.noticed:
                assert self.keepers is not None
                self.keepers.notice(host)

    def hears(self, host: int) -> bool:
        """Return whether messages of a host reach bsprun."""
        return self.network.is_open(host, self.seat, self.now)

    def is_heard(self, host: int) -> bool:
        """Return whether messages of bsprun reach a host."""
        return self.network.is_open(self.seat, host, self.now)

    # ---------------------------------------------------------------------------- elements

    def _perform(self, element: int, effects: Sequence[Any]) -> None:
        """Perform the effects that a member has returned, in order; a fault may strike between two of them."""
        node = self.nodes[element]
        for effect in effects:
            if not node.alive:
                return
            if node.fuse >= 0:  # a crash is counted in effects, so it can come between two sends of a superstep
                node.fuse -= 1
                if node.fuse < 0:
                    self.kill(element, "crashed")
                    return
            kind = type(effect)
            if kind is SendTo:
                self._send(element, effect.element, effect.message)
            elif kind is Deliver or kind is Answer or kind is Once:
                self._to_worker(node, element, effect)
            elif kind is Tell or kind is Say:
                self._send(element, -1, effect)
            elif kind is StartWorker:
                node.workers[effect.bundle] = Worker(self.schedule.script, effect.bundle, effect.life)
                self.at(self.now + 0.02, self._resume, element, effect.bundle, effect.life, None)
            elif kind is StopWorker:
                node.workers.pop(effect.bundle, None)
            elif kind is Note:
                self.note(effect.kind, effect.fields)
            elif kind is Leave or kind is Die:
                node.alive = False
                if kind is Die:
                    self.note("died by itself", {"element": element, "why": effect.why})
                    if self.keepers is None:
                        self.at(self.now + 0.01, self._dead, element, f"ended itself: {effect.why}")
                if self.keepers is not None:
                    self.keepers.ended(element, "ended itself")
            elif kind is Write:
                part = (effect.bundle, effect.head, effect.handover)
                self.at(self.now + 0.01, self._wrote, element, effect.bundle, effect.head, part)
        if node.alive:
            self._plan_tick(element)

    def _wrote(self, element: int, bundle: int, head: int, part: Any) -> None:
        """Report to a member that its part of a checkpoint is on disk."""
        if self.nodes[element].alive:
            self._perform(element, self._received(element, Wrote(bundle, head, part)))

    def _plan_tick(self, element: int) -> None:
        """Schedule the member's next tick at its deadline, if that is before the one already scheduled."""
        node = self.nodes[element]
        due = node.clock.when(node.member.deadline())
        if due < node.tick_at:
            node.tick_at = max(due, self.now)
            self.at(node.tick_at, self._tick, element, node.tick_at)

    def _tick(self, element: int, planned: float) -> None:
        """Tick a member, unless a later plan has replaced this tick."""
        node = self.nodes[element]
        if node.tick_at != planned or not node.alive or node.stopped:
            return
        node.tick_at = float("inf")
        self._perform(element, node.member.tick(node.clock.read(self.now)))

    def _received(self, element: int, event: Any) -> list[Any]:
        """Pass an event of its own workers to a member; return the effects."""
        node = self.nodes[element]
        return node.member.receive(node.clock.read(self.now), event)

    def _connect(self, element: int) -> None:
        """Connect an element to bsprun at the start."""
        self.arbiter.appeared(self.seconds(), element)
        self._plan_tick(element)

    def kill(self, element: int, how: str, seen: bool = True) -> None:
        """Kill an element; if that is seen there, bsprun learns of it, without hosts 1 to 31 ms later."""
        node = self.nodes[element]
        if node.alive:
            node.alive = False
            self.note("crash", {"element": element, "how": how})
            if self.keepers is None:
                self.at(self.now + 0.001 + 0.03 * self.rng.random(), self._dead, element, how)
            elif seen:
                self.keepers.ended(element, how)

    def _dead(self, element: int, how: str) -> None:
        """Tell the arbiter that an element is dead for certain; another is started, if the schedule says so."""
        if self.deaf:
            return
        left = element in self.arbiter.dead
        self.bury(element, how, certain=True)
        if self.schedule.anew and not left:
            self.join_soon()

    def join_soon(self) -> None:
        """Have a new element join in a moment, on no host."""
        self.at(self.now + 0.05 + 0.1 * self.rng.random(), self._join)

    def _join(self) -> None:
        """Add a new element to the job."""
        if self.outcome is None and not self.deaf:
            self.welcome(self.new_element(None))

    def new_element(self, host: int | None) -> int:
        """Start an element; return its number."""
        element = self._add_node(host)
        self.note("join", {"element": element} | ({} if host is None else {"host": host}))
        return element

    def welcome(self, element: int, domain: str | None = None) -> None:
        """Take an element into the job."""
        self._obey(self.arbiter.add(self.seconds(), element, domain))
        self._plan_tick(element)

    # ----------------------------------------------------------------------------- workers

    def _to_worker(self, node: SimulatedElement, element: int, effect: Any) -> None:
        """Pass an effect's content to the worker of its bundle, after checking deliveries."""
        worker = node.workers.get(effect.bundle)
        if worker is None:
            return
        if type(effect) is Deliver:
            self._check_delivery(element, effect)
        value = effect
        if type(effect) is Answer:
            value = effect.snapshot
        elif type(effect) is Once:
            value = effect.value
            if value is None:
                self.calls.begin(effect.token, Caller(element, effect.bundle, worker.life))
            elif self.values.setdefault(effect.token, value) != value:
                self.wrong.append(f"element {element} was given another value for {effect.token}")
        self.at(self.now + 0.0001, self._resume, element, effect.bundle, worker.life, value)

    def _resume(self, element: int, bundle: int, life: int, value: Any) -> None:
        """Send `value` into a worker's generator, and pass its requests to its agent until it waits for an answer.

        A life that is not the worker's present one belongs to an earlier worker in the slot: such a call does nothing.
        """
        node = self.nodes[element]
        worker = node.workers.get(bundle)
        if worker is None or worker.life != life or not node.alive:
            return
        if worker.stopped:
            return  # it never goes on; its agent will notice
        if node.stopped:
            self.at(self.now + 0.05, self._resume, element, bundle, life, value)
            return
        try:
            asked = worker.steps.send(value)
        except StopIteration:
            return
        while True:
            waits = True
            if type(asked) is Submitted:
                seconds = self._computing(node, element, worker)
                asked = asked._replace(compute=seconds * node.clock.rate)
                self.at(self.now + seconds, self._ask, element, bundle, life, asked)
            elif type(asked) is Asks and asked.value is not None and self.schedule.call:
                self.at(self.now + self._calling(), self._ask, element, bundle, life, asked)
            else:
                waits = type(asked) is not Printed and not (type(asked) is Head and not asked.asks)
                self._ask(element, bundle, life, asked)
            if waits:
                return
            try:
                asked = worker.steps.send(None)
            except StopIteration:
                return

    def _computing(self, node: SimulatedElement, element: int, worker: Worker) -> float:
        """Draw the time that a worker computes in a superstep."""
        schedule = self.schedule
        seconds = schedule.step * node.factor * (0.8 + 0.4 * self.rng.random())
        if schedule.tail:
            seconds *= self.rng.paretovariate(schedule.tail)
        return seconds

    def _calling(self) -> float:
        """Draw the time that a call of proc.once takes: most are short."""
        return self.schedule.call * self.rng.random() if self.rng.random() < 0.3 else 0.001

    def _ask(self, element: int, bundle: int, life: int, asked: Any) -> None:
        """Pass a worker's request to its agent, later if the element is stopped."""
        node = self.nodes[element]
        worker = node.workers.get(bundle)
        if worker is None or worker.life != life or not node.alive or worker.stopped:
            return
        if node.stopped:
            self.at(self.now + 0.05, self._ask, element, bundle, life, asked)
            return
        if type(asked) is Asks and asked.value is not None:  # no two calls have the same result
            asked = asked._replace(value=b"%s %d %d" % (asked.value, element, life))
            self.calls.end(asked.token, Caller(element, bundle, life))
        self._perform(element, self._received(element, asked))

    def _check_delivery(self, element: int, effect: Deliver) -> None:
        """Compare the delivered packets with those of the sequential program (invariant I6)."""
        if self.flipped:
            return  # packets differ then; only the answer is compared
        script, states = self.schedule.script, self.history[effect.exchange]
        expected = {b: script.packet(states[b], effect.exchange, effect.bundle) for b in range(script.bundles)}
        del expected[effect.bundle]
        if effect.packets != expected:
            self.wrong.append(f"element {element} was given wrong packets in exchange {effect.exchange}")

    # ------------------------------------------------------------------------------ bsprun

    def seconds(self) -> float:
        """Return what bsprun's clock shows."""
        return self.clock.read(self.now)

    def _at_arbiter(self, source: int, message: Any) -> None:
        """Pass a message to the arbiter; reports of elements that bsprun takes for dead are dropped."""
        if self.keepers is not None:
            if source not in self.keepers.crew:
                return
        elif not self.nodes[source].alive and source in self.arbiter.dead:
            return
        if type(message) is Tell:
            self._obey(self.arbiter.report(self.seconds(), message.report))
        else:
            self._obey(self.arbiter.text(self.seconds(), source, *message))

    def _tick_arbiter(self) -> None:
        """Tick the arbiter every 20 ms, until the job has an outcome and all elements have left."""
        if not self.deaf:
            self._obey(self.arbiter.tick(self.seconds()))
        if self.goes_on():
            self.at(self.now + _TURN, self._tick_arbiter)

    def suspect(self, elements: Sequence[int], why: str) -> None:
        """Let the arbiter know that nothing is heard of these elements."""
        self._obey(self.arbiter.suspect(self.seconds(), elements, why))

    def bury(self, element: int, how: str, certain: bool) -> None:
        """Tell the arbiter that an element is dead, or counts as dead."""
        self._obey(self.arbiter.died(self.seconds(), element, how, confirmed=certain))

    def drain(self, element: int) -> None:
        """Have an element leave in good order."""
        self._obey(self.arbiter.drain(self.seconds(), element, "is drained"))

    def _obey(self, effects: Sequence[Any]) -> None:
        """Perform the effects that the arbiter has returned, in order; bsprun may die between two of them."""
        for effect in effects:
            if self.deaf or self._dies_now():
                return
            if isinstance(effect, Order):
                self._broadcast(effect)
            elif isinstance(effect, Reply):
                if effect.once.value is None:
                    self.calls.permit(effect.once.token, effect.element)
                self._send((-1, self.reign), effect.element, effect)
            elif isinstance(effect, Fence):
                self.note("fence", {"element": effect.element, "why": effect.why})
                if self.keepers is not None:
                    self.keepers.fence(effect.element)
                elif self.nodes[effect.element].alive:
                    self.kill(effect.element, "fenced")
                else:
                    self._dead(effect.element, "fenced")
            elif isinstance(effect, Dismiss):
                if self.keepers is not None:
                    self.keepers.fence(effect.element, dismissed=True)
                else:
                    self.kill(effect.element, "has left")
            elif isinstance(effect, Note):
                self.note(effect.kind, effect.fields)
            elif isinstance(effect, Print):
                self.at(self.now + 0.003, self._print, self.reign, effect.data)
            elif isinstance(effect, Commit):
                self._obey(self.arbiter.committed(self.seconds(), effect.head))
            elif isinstance(effect, (Finished, Lost, Corrupt)) and self.outcome is None:
                self.outcome = effect
                self.note("outcome", {"outcome": effect})
                if isinstance(effect, Finished):
                    self._obey(self.arbiter.end(self.seconds()))
                    self.at(self.now + 2.0, self.fence_rest)
                else:
                    self.fence_rest()

    def _broadcast(self, order: Order) -> None:
        """Send orders to all elements that bsprun knows, or, if the keepers tell nobody, to all that are there."""
        crew = self.keepers.crew if self.keepers is not None and self.schedule.keepers_tell else None
        for element, node in enumerate(self.nodes):
            if node.alive and (crew is None or element in crew):
                if self._dies_now():
                    return
                self._send((-1, self.reign), element, order)

    def send_orders(self, order: Order, reign: int) -> None:
        """Send orders of a bsprun to all elements that are there."""
        for element, node in enumerate(self.nodes):
            if node.alive:
                self._send((-1, reign), element, order)

    def _dies_now(self) -> bool:
        """Count one effect of bsprun, and return whether it dies before it."""
        if self.bsprun_fuse < 0:
            return False
        self.bsprun_fuse -= 1
        if self.bsprun_fuse < 0 and self.outcome is None:
            self.bsprun_dies(self.absence)
            return True
        return False

    def bsprun_dies(self, seconds: float) -> None:
        """End bsprun; another takes over some seconds later."""
        self.note("bsprun dies", {"seconds": seconds})
        self.deaf, self.bsprun_fuse = True, -1
        self.at(self.now + seconds, take_over, self)

    def _print(self, reign: int, data: bytes) -> None:
        """Write text, if the bsprun that was to do so is still there."""
        if reign == self.reign and not self.deaf:
            self.printed += data
            self._obey(self.arbiter.printed(self.seconds(), len(self.printed)))

    def fence_rest(self) -> None:
        """End every element that has not left by itself."""
        for node in self.nodes:
            node.alive = False

    def note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record something that happened, and print it if asked."""
        self.notes.append((self.now, kind, fields))
        if self.say is not None:
            self.say(f"{self.now:9.4f} {kind:12} {' '.join(f'{k}={v}' for k, v in fields.items())}")

    def worker_event(self, element: int, event: Any) -> None:
        """Report an event of a worker to its agent, later if the element is stopped."""
        node = self.nodes[element]
        if not node.alive:
            return
        if node.stopped:
            self.at(self.now + 0.05, self.worker_event, element, event)
            return
        self._perform(element, self._received(element, event))

    def wake(self, element: int) -> None:
        """Let a stopped element go on (SIGCONT).

        Messages that arrived meanwhile are handled before the clock is looked at (N3).
        """
        node = self.nodes[element]
        if not node.alive:
            return
        node.stopped = False
        backlog, node.backlog = node.backlog, []
        for message, source in backlog:
            if node.alive:
                self._give(element, message, source)
        if node.alive:
            node.tick_at = float("inf")
            self._perform(element, node.member.tick(node.clock.read(self.now)))
            self.calls.resumed(element)
