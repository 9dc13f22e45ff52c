"""The program that simulated jobs run: it computes nothing, and a sequential evaluation gives its every packet."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from bsp.faults.protocol.messages import Asks, BundlePacket, Deliver, Ended, Head, Printed, Snapshot, Submitted

_MASK = (1 << 61) - 1


def mix(*parts: int) -> int:
    """Return a number that depends on all of `parts`.  The same in every interpreter, like hashes of integer tuples."""
    return hash(parts) & _MASK


@dataclass(frozen=True)
class SimulatedProgram:
    """A simulated program: exchanges before, between and behind its loops, and loops of rounds."""

    bundles: int
    before: int
    loops: tuple[tuple[int, int], ...]  # (rounds, exchanges of each)
    after: int
    large: int = 0  # packets of every large-th exchange are large; 0: never
    text: int = 3  # bundle 0 prints a line in every text-th exchange; 0: never
    once: int = 0  # bundle 0 calls proc.once in every once-th exchange; 0: never
    left: int = 0  # every left-th loop is left by a `return` whose value what follows depends on; 0: none

    def exchanges(self) -> int:
        """Return the number of exchanges of the whole program."""
        return self.before + sum(rounds * each for rounds, each in self.loops) + self.after * len(self.loops)

    def packet(self, state: int, exchange: int, dest: int) -> BundlePacket:
        """Return the packet that a bundle in this state sends to bundle `dest` in an exchange."""
        value = mix(state, exchange, dest)
        size = 1 << 20 if self.large and exchange % self.large == 0 else 8
        return BundlePacket(size, value, value)  # type: ignore[arg-type]

    def reference(self) -> tuple[list[list[int]], bytes]:
        """Evaluate the program in sequence; return the states by exchange and bundle, and the text.

        The states are those with which the bundles send in each exchange, then those at the end.
        """
        states = [mix(bundle, 7) for bundle in range(self.bundles)]
        history, text = [list(states)], b""
        for exchange in range(self.exchanges()):
            if self.text and exchange % self.text == 0:
                text += b"%d %d\n" % (exchange, states[0])
            if self.once and exchange % self.once == 1 % self.once:
                states = [mix(s, exchange, 99) if b == 0 else s for b, s in enumerate(states)]
            submitted = list(states)
            history[-1] = submitted
            states = [
                self.absorb(
                    states[b], {a: self.packet(submitted[a], exchange, b) for a in range(self.bundles) if a != b}
                )
                for b in range(self.bundles)
            ]
            history.append(list(states))
        return history, text

    @staticmethod
    def absorb(state: int, packets: dict[int, BundlePacket]) -> int:
        """Return the state after packets, given by source bundle, are delivered to a bundle in `state`."""
        for source in sorted(packets):
            state = mix(state, source, packets[source].data)
        return state


Step = Generator[Any, Any, None]


class Worker:
    """A simulated worker: the script as the generator `steps` of requests, which is sent the agent's answers.

    life : the number of the worker in its slot, so that what an earlier one has asked is recognised.
    """

    def __init__(self, script: SimulatedProgram, bundle: int, life: int) -> None:
        self.script = script
        self.bundle = bundle
        self.life = life
        self.state = mix(bundle, 7)
        self.exchange = 0
        self.head = -1
        self.said = 0  # bytes of text printed so far
        self.ask = False  # whether the agent wants to be asked at the next head
        self.flip = False  # whether to send the next packets with a wrong bit
        self.stopped = False
        self.steps = self.run()

    def run(self) -> Step:
        """Run the program from its first line to its last, or from the state that the agent answers at a head."""
        script = self.script
        for _ in range(script.before):
            yield from self.superstep()
        for loop, (rounds, each) in enumerate(script.loops):
            start, k, entry = self.exchange, 0, True
            while True:
                self.head += 1
                final = k == rounds
                loaded = yield self.at_head(loop, k, start, final, entry)
                entry = False
                while loaded is not None:
                    self.state, self.said = loaded.data
                    self.exchange, self.head, k, start = loaded.exchange, loaded.head, loaded.round, loaded.start
                    if loaded.final:
                        assert not self.leaves(loop), (
                            "the state at which a loop was left does not hold what it returned"
                        )
                        break
                    loaded = yield self.at_head(loop, k, start, False, False, again=True)
                if k == rounds:
                    break
                for _ in range(each):
                    yield from self.superstep(inside=True)
                k += 1
            for _ in range(script.after):
                yield from self.superstep()
        yield Ended(self.bundle, self.life, b"%d" % self.state)

    def at_head(self, loop: int, k: int, start: int, final: bool, entry: bool, again: bool = False) -> Head:
        """Return the report of a head to the agent.

        It carries a state, except at a loop's entry, where there is nothing to hand over yet.

        again : the state was just loaded at this head; the worker asks once more, because a further one may be ready.
        """
        digest = b"%d" % self.state
        data = None if (entry and not final) or (final and self.leaves(loop)) else (self.state, self.said)
        at = self.exchange
        place = Snapshot(self.bundle, self.head, loop, k, final, at, start, at, digest, data, self.said)
        return Head(self.bundle, self.life, self.ask or entry or again, entry, place)

    def leaves(self, loop: int) -> bool:
        """Return whether a loop is left early."""
        return bool(self.script.left) and loop % self.script.left == 0

    def superstep(self, inside: bool = False) -> Step:
        """Run one superstep: text and `once` if due, then the exchange of packets."""
        script, exchange = self.script, self.exchange
        if self.bundle == 0 and script.text and exchange % script.text == 0:
            line = b"%d %d\n" % (exchange, self.state)
            yield Printed(0, self.life, self.said, line)
            self.said += len(line)
        if self.bundle == 0 and script.once and exchange % script.once == 1 % script.once:
            token = ("round", 0, self.head, exchange) if inside else ("once", 0, exchange, 0)
            value = yield Asks(0, self.life, token, None)
            if value is None:
                value = yield Asks(0, self.life, token, b"99")
            self.state = mix(self.state, exchange, int(value.split()[0]))
        state = self.state ^ 1 if self.flip else self.state
        self.flip = False
        packets = {b: script.packet(state, exchange, b) for b in range(script.bundles) if b != self.bundle}
        digest = mix(state, exchange, -1)
        submitted = Submitted(self.bundle, self.life, exchange, exchange, 0.0, True, digest, False, packets)  # type: ignore[arg-type]
        deliver: Deliver = yield submitted
        self.ask = deliver.ask
        self.state = script.absorb(self.state, deliver.packets)
        self.exchange += 1
