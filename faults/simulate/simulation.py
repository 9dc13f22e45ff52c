"""Whole jobs in virtual time: the protocol's own objects, a simulated program, seeded faults.

Everything a schedule does follows from its seed: computing times, delays, losses, and the faults,
which strike at any effect of any element (in the middle of its sends, too).  What is delivered is
compared with the sequential evaluation of the same program (`Script.reference`), so a run that ends
with an answer has been checked packet by packet.

`python -m bsp.faults.simulate --seed 17 --verbose` replays one schedule.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.member import Member
from bsp.faults.protocol.messages import (
    Answer,
    Asks,
    Commit,
    Corrupt,
    Deliver,
    Die,
    Died,
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
    Stuck,
    Submitted,
    Tell,
    Write,
    Wrote,
)
from bsp.faults.protocol.placement import place
from bsp.faults.simulate.program import Worker
from bsp.faults.simulate.schedules import SimulatedRun, changing, drawn, orphaned, survivable


class _Node:
    """The simulated state of an element: its member of the protocol, its workers, and the faults that hit it."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.alive = True
        self.stopped = False
        self.backlog: list[tuple[Any, int]] = []  # (message, source) that arrived while it was stopped
        self.workers: dict[int, Worker] = {}
        self.factor = 1.0  # by which its computing times are multiplied
        self.fuse = -1  # effects that it still performs before it dies; -1: no limit
        self.tick_at = float("inf")  # when its next tick is planned


class Simulation:
    """One run of one schedule.  `outcome` is its result; `wrong` lists every violation of what the protocol promises.

    say : prints each note as it happens.
    """

    def __init__(self, schedule: SimulatedRun, say: Callable[[str], None] | None = None) -> None:
        self.schedule = schedule
        self.now = 0.0
        self.say = say
        self.rng = random.Random(schedule.seed)
        script = schedule.script
        self.arbiter = self._new_arbiter()
        self.reign = 0  # how many bspruns have taken over
        self.deaf = False  # there is no bsprun
        count = schedule.elements + schedule.standbys
        self.nodes = [_Node(Member(e, script.bundles, schedule.limits)) for e in range(count)]
        self.history, self.text = script.reference()
        self.printed = b""
        self.notes: list[tuple[float, str, dict[str, Any]]] = []
        self.outcome: Any = None  # Finished, Lost or Corrupt
        self.wrong: list[str] = []  # violations: empty after a correct run
        self.flipped = False
        self.unprotected = False  # whether a bit was flipped that no sibling can see
        self.cut: tuple[set[int], float] | None = None
        self.messages = 0
        self.called: dict[Any, int] = {}
        self.values: dict[Any, bytes] = {}  # that workers have been given
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def _new_arbiter(self) -> Arbiter:
        schedule = self.schedule
        rows = place(schedule.script.bundles, schedule.elements, schedule.vertical)
        return Arbiter(rows, schedule.standbys, schedule.limits)

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
        for when, fault, element, much in self.schedule.faults:
            self.at(when, self._strike, fault, element, much)
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

    def _latency(self) -> float:
        """Draw the time that a message takes."""
        return self.schedule.delay * (0.5 + self.rng.random())

    def _send(self, source: Any, dest: int, message: Any) -> None:
        """Send a message over the network, which may lose, duplicate or delay it.

        Element -1 is bsprun; as a source, (-1, its reign).
        """
        self.messages += 1
        lossy = self.schedule.lossy
        if self.cut is not None and self.now < self.cut[1] and (source in self.cut[0]) != (dest in self.cut[0]):
            return  # the network is cut between the two
        delay = self._latency()
        if lossy:
            draw = self.rng.random()
            if draw < lossy:
                return
            if draw < 2 * lossy:
                self.at(self.now + delay + self._latency(), self._arrive, source, dest, message)
            elif draw < 3 * lossy:
                delay += 20 * self._latency()
        self.at(self.now + delay, self._arrive, source, dest, message)

    def _arrive(self, source: Any, dest: int, message: Any) -> None:
        """Give an arrived message to its element; a stopped element reads it when it continues."""
        if dest == -1:
            if not self.deaf:
                self._at_arbiter(source, message)
            return
        if isinstance(source, tuple):  # of a bsprun
            if source[1] < self.reign:
                return
            source = -1
        node = self.nodes[dest]
        if not node.alive:
            return
        if node.stopped:
            node.backlog.append((message, source))
            return
        self._give(dest, message, source)

    def _give(self, element: int, message: Any, source: int) -> None:
        """Pass a message to an element's member and perform the effects that it returns."""
        member = self.nodes[element].member
        if source != -1:
            effects = member.receive(self.now, message, source)
        elif isinstance(message, Order):
            effects = member.command(self.now, message.orders)
        else:
            effects = member.reply(self.now, message.once)
        self._perform(element, effects)

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
                    self._kill(element, "crashed")
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
                self._note(effect.kind, effect.fields)
            elif kind is Leave or kind is Die:
                node.alive = False
                if kind is Die:
                    self._note("died by itself", {"element": element, "why": effect.why})
                    self.at(self.now + 0.01, self._dead, element, f"ended itself: {effect.why}")
            elif kind is Write:
                part = (effect.bundle, effect.head, effect.handover)
                self.at(self.now + 0.01, self._wrote, element, effect.bundle, effect.head, part)
        if node.alive:
            self._plan_tick(element)

    def _wrote(self, element: int, bundle: int, head: int, part: Any) -> None:
        """Report to a member that its part of a checkpoint is on disk."""
        if self.nodes[element].alive:
            self._perform(element, self.nodes[element].member.receive(self.now, Wrote(bundle, head, part)))

    def _plan_tick(self, element: int) -> None:
        """Schedule the member's next tick at its deadline, if that is before the one already scheduled."""
        node = self.nodes[element]
        due = node.member.deadline()
        if due < node.tick_at:
            node.tick_at = max(due, self.now)
            self.at(node.tick_at, self._tick, element, node.tick_at)

    def _tick(self, element: int, planned: float) -> None:
        """Tick a member, unless a later plan has replaced this tick."""
        node = self.nodes[element]
        if node.tick_at != planned or not node.alive or node.stopped:
            return
        node.tick_at = float("inf")
        self._perform(element, node.member.tick(self.now))

    def _connect(self, element: int) -> None:
        """Connect an element to bsprun at the start."""
        self.arbiter.appeared(self.now, element)
        self._plan_tick(element)

    def _kill(self, element: int, how: str) -> None:
        """Kill an element; bsprun learns of it 1 to 31 ms later."""
        node = self.nodes[element]
        if node.alive:
            node.alive = False
            self._note("crash", {"element": element, "how": how})
            self.at(self.now + 0.001 + 0.03 * self.rng.random(), self._dead, element, how)

    def _dead(self, element: int, how: str) -> None:
        """Tell the arbiter that an element is dead for certain; another is started, if the schedule says so."""
        if self.deaf:
            return
        left = element in self.arbiter.dead
        self._obey(self.arbiter.died(self.now, element, how))
        if self.schedule.anew and not left:
            self.at(self.now + 0.05 + 0.1 * self.rng.random(), self._join)

    def _join(self) -> None:
        """Add a new element to the job."""
        if self.outcome is None and not self.deaf:
            script, limits = self.schedule.script, self.schedule.limits
            self.nodes.append(_Node(Member(len(self.nodes), script.bundles, limits)))
            self._note("join", {"element": len(self.nodes) - 1})
            self._obey(self.arbiter.add(self.now, len(self.nodes) - 1))
            self._plan_tick(len(self.nodes) - 1)

    # ----------------------------------------------------------------------------- workers

    def _to_worker(self, node: _Node, element: int, effect: Any) -> None:
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
                self.called[effect.token] = self.called.get(effect.token, 0) + 1
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
                asked = asked._replace(compute=seconds)
                self.at(self.now + seconds, self._ask, element, bundle, life, asked)
            else:
                waits = type(asked) is not Printed and not (type(asked) is Head and not asked.asks)
                self._ask(element, bundle, life, asked)
            if waits:
                return
            try:
                asked = worker.steps.send(None)
            except StopIteration:
                return

    def _computing(self, node: _Node, element: int, worker: Worker) -> float:
        """Draw the time that a worker computes in a superstep."""
        schedule = self.schedule
        seconds = schedule.step * node.factor * (0.8 + 0.4 * self.rng.random())
        if schedule.tail:
            seconds *= self.rng.paretovariate(schedule.tail)
        return seconds

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
        self._perform(element, node.member.receive(self.now, asked))

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

    def _at_arbiter(self, source: int, message: Any) -> None:
        """Pass a message to the arbiter; reports of elements known to be dead are dropped."""
        if not self.nodes[source].alive and source in self.arbiter.dead:
            return
        if type(message) is Tell:
            self._obey(self.arbiter.report(self.now, message.report))
        else:
            self._obey(self.arbiter.text(self.now, source, *message))

    def _tick_arbiter(self) -> None:
        """Tick the arbiter every 20 ms, until the job has an outcome and all elements have left."""
        if not self.deaf:
            self._obey(self.arbiter.tick(self.now))
        if self.outcome is None or any(node.alive for node in self.nodes):
            self.at(self.now + 0.02, self._tick_arbiter)

    def _obey(self, effects: Sequence[Any]) -> None:
        """Perform the effects that the arbiter has returned, in order."""
        for effect in effects:
            if isinstance(effect, Order):
                for element, node in enumerate(self.nodes):
                    if node.alive:
                        self._send((-1, self.reign), element, effect)
            elif isinstance(effect, Reply):
                self._send((-1, self.reign), effect.element, effect)
            elif isinstance(effect, Fence):
                self._note("fence", {"element": effect.element, "why": effect.why})
                if self.nodes[effect.element].alive:
                    self._kill(effect.element, "fenced")
                else:
                    self._dead(effect.element, "fenced")
            elif isinstance(effect, Dismiss):
                self._kill(effect.element, "has left")
            elif isinstance(effect, Note):
                self._note(effect.kind, effect.fields)
            elif isinstance(effect, Print):
                self.at(self.now + 0.003, self._print, self.reign, effect.data)
            elif isinstance(effect, Commit):
                self._obey(self.arbiter.committed(self.now, effect.head))
            elif isinstance(effect, (Finished, Lost, Corrupt)) and self.outcome is None:
                self.outcome = effect
                self._note("outcome", {"outcome": effect})
                if isinstance(effect, Finished):
                    self._obey(self.arbiter.end(self.now))
                    self.at(self.now + 2.0, self._fence_rest)
                else:
                    for node in self.nodes:
                        node.alive = False

    def _print(self, reign: int, data: bytes) -> None:
        """Write text, if the bsprun that was to do so is still there."""
        if reign == self.reign and not self.deaf:
            self.printed += data
            self._obey(self.arbiter.printed(self.now, len(self.printed)))

    def _take_over(self) -> None:
        """Have another bsprun take the place of one that is gone (N16)."""
        self.deaf, self.reign = False, self.reign + 1
        there = [element for element, node in enumerate(self.nodes) if node.alive]
        found = [self.nodes[element].member.estate() for element in there]
        known = [orders for orders, _ in found if orders is not None]
        self._note("taken over", {"reign": self.reign, "there": there})
        arbiter = self.arbiter = self._new_arbiter()
        if not known or any(orders.end for orders in known):
            self.outcome = Lost(0, 0, "it ended before another bsprun could take it over")
            self._fence_rest()
            return
        newest = max(known, key=lambda orders: orders.number)
        allowance = max(orders.allowance for orders in known)
        newest = replace(newest, printed=len(self.printed), allowance=allowance)
        values = [each for _, some in found for each in some]
        arbiter.take_over(self.now, self.reign, newest, values, dict.fromkeys(there))
        for element in sorted(arbiter.view.elements() - set(there)):
            self._obey(arbiter.died(self.now, element, "was gone when another bsprun came"))
        for element in sorted(set(there) - arbiter.view.elements()):
            self._obey(arbiter.add(self.now, element))
        for _ in range(arbiter.vacancies() if self.schedule.anew else 0):
            self.at(self.now + 0.05 + 0.1 * self.rng.random(), self._join)

    def _fence_rest(self) -> None:
        """End every element that has not left by itself."""
        for node in self.nodes:
            node.alive = False

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
        """Record something that happened, and print it if asked."""
        self.notes.append((self.now, kind, fields))
        if self.say is not None:
            self.say(f"{self.now:9.4f} {kind:12} {' '.join(f'{k}={v}' for k, v in fields.items())}")

    # ------------------------------------------------------------------------------- faults

    def _strike(self, what: str, element: int, much: float) -> None:
        """Apply a fault of the schedule to an element.

        A flipped bit also decides whether a sibling can notice it; if none can, the run's answer is not judged.
        """
        node = self.nodes[element]
        if self.outcome is not None or (what != "bsprun dies" and not node.alive):
            return
        self._note("fault", {"what": what, "element": element, "much": much})
        if what == "bsprun dies" and not self.deaf:
            self.deaf = True
            self.at(self.now + much, self._take_over)
        if what == "drain" and not self.deaf:
            self._obey(self.arbiter.drain(self.now, element, "is drained"))
            self.at(self.now + 0.05 + 0.1 * self.rng.random(), self._join)
        if what == "crash":
            node.fuse = int(much)  # so that it dies in the middle of what it does next
        elif what == "stop":
            node.stopped = True
            if much:
                self.at(self.now + much, self._continue, element)
        elif what == "slow":
            node.factor = much
        elif what == "fast":
            node.factor = 1.0
        elif what == "worker dies":
            for bundle, worker in list(node.workers.items()):
                del node.workers[bundle]
                died = Died(bundle, worker.life, "was killed")
                self.at(self.now + 0.005, self._worker_event, element, died)
        elif what == "worker stops":
            for bundle, worker in node.workers.items():
                worker.stopped = True
                self._watch(element, bundle, worker)
        elif what in ("flip", "flip state"):
            for bundle, worker in node.workers.items():
                self.flipped = True
                live = self.arbiter.view.live(bundle)
                steady = not self.schedule.tail and not self.schedule.lossy
                if len(live) < 3 and not steady:
                    self.unprotected = True  # a clone that jumps over packets of its only sibling cannot compare them
                if element not in live or len(live) < 2 or len(self._strikes()) > 1:
                    self.unprotected = True  # a clone that joins cannot either
                if what == "flip":
                    worker.flip = True
                else:
                    worker.state ^= 1
        elif what == "cut":
            self.cut = {e for e in range(len(self.nodes)) if e % 3 == 0}, self.now + much

    def _strikes(self) -> list[str]:
        """Return the kinds of the schedule's faults, without those that only change an element's speed."""
        return [what for _, what, _, _ in self.schedule.faults if what not in ("slow", "fast")]

    def _worker_event(self, element: int, event: Any) -> None:
        """Report an event of a worker to its agent, later if the element is stopped."""
        node = self.nodes[element]
        if not node.alive:
            return
        if node.stopped:
            self.at(self.now + 0.05, self._worker_event, element, event)
            return
        self._perform(element, node.member.receive(self.now, event))

    def _watch(self, element: int, bundle: int, worker: Worker) -> None:
        """Report a stopped worker to its agent as stuck, once per hang limit, as the real agent's watch does."""

        def seen() -> None:
            node = self.nodes[element]
            if node.workers.get(bundle) is worker and node.alive and self.outcome is None:
                self._worker_event(element, Stuck(bundle, worker.life, True))
                self._watch(element, bundle, worker)

        self.at(self.now + self.schedule.limits.hang_limit, seen)

    def _continue(self, element: int) -> None:
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
            self._perform(element, node.member.tick(self.now))


_KINDS = {"mixed": drawn, "survivable": survivable, "changing": changing, "orphaned": orphaned}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules from the command line; print the replay command of each that fails.  Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bsp.faults.simulate", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule")
    parser.add_argument("--schedules", type=int, default=1, help="how many")
    parser.add_argument("--kind", choices=tuple(_KINDS), default="mixed")
    parser.add_argument("--verbose", action="store_true", help="print the history")
    options = parser.parse_args(arguments)
    draw = _KINDS[options.kind]
    failed = 0
    outcomes: dict[str, int] = {}
    for seed in range(options.seed, options.seed + options.schedules):
        run = Simulation(draw(seed), print if options.verbose else None)
        outcome = type(run.run()).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if run.wrong:
            failed += 1
            print(f"seed {seed}: {'; '.join(run.wrong[:3])}")
            print(f"  replay: python -m bsp.faults.simulate --kind {options.kind} --seed {seed} --verbose")
    print(
        f"{options.schedules} schedules: {', '.join(f'{n} {o}' for o, n in sorted(outcomes.items()))}; {failed} failed"
    )
    return 1 if failed else 0
