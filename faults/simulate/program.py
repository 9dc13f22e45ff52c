"""What runs in the simulator: a program without computing, whose every packet a sequential evaluation knows."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from bsp.faults.protocol.messages import Asks, Deliver, Ended, Head, Packet, Printed, Snapshot, Submitted

_MASK = (1 << 61) - 1


def mix(*parts: int) -> int:
    """A number that depends on all of these; the same in every interpreter (tuples of integers hash alike)."""
    return hash(parts) & _MASK


@dataclass(frozen=True)
class Script:
    """A program: exchanges before, between and behind its loops, and loops of rounds."""

    bundles: int
    before: int
    loops: tuple[tuple[int, int], ...]  # (rounds, exchanges of each)
    after: int
    large: int = 0  # every so many exchanges packets are large; 0: never
    text: int = 3  # bundle 0 writes a line every so many exchanges
    once: int = 0  # and calls proc.once every so many exchanges; 0: never

    def exchanges(self) -> int:
        """How many there are."""
        return self.before + sum(rounds * each for rounds, each in self.loops) + self.after * len(self.loops)

    def packet(self, state: int, exchange: int, dest: int) -> Packet:
        """What a bundle in this state has for another."""
        value = mix(state, exchange, dest)
        size = 1 << 20 if self.large and exchange % self.large == 0 else 8
        return Packet(size, value, value)  # type: ignore[arg-type]

    def reference(self) -> tuple[list[list[int]], bytes]:
        """The state of each bundle before each exchange and at the end, and the text; computed in sequence."""
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
    def absorb(state: int, packets: dict[int, Packet]) -> int:
        """The state after a delivery."""
        for source in sorted(packets):
            state = mix(state, source, packets[source].data)
        return state


Step = Generator[Any, Any, None]


class Worker:
    """A simulated worker: the script as a generator of what it asks its agent."""

    def __init__(self, script: Script, bundle: int, life: int) -> None:
        self.script = script
        self.bundle = bundle
        self.life = life
        self.state = mix(bundle, 7)
        self.exchange = 0
        self.head = -1
        self.said = 0
        self.ask = False
        self.flip = False  # a bit of the next packets turns over
        self.stopped = False
        self.steps = self.run()

    def run(self) -> Step:
        """The program from its first line to its last."""
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
        digest = b"%d" % self.state
        data = None if entry and not final else (self.state, self.said)
        at = self.exchange
        place = Snapshot(self.bundle, self.head, loop, k, final, at, start, at, digest, data, self.said)
        return Head(self.bundle, self.life, self.ask or entry or again, entry, place)

    def superstep(self, inside: bool = False) -> Step:
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
            self.state = mix(self.state, exchange, int(value))
        state = self.state ^ 1 if self.flip else self.state
        self.flip = False
        packets = {b: script.packet(state, exchange, b) for b in range(script.bundles) if b != self.bundle}
        digest = mix(state, exchange, -1)
        submitted = Submitted(self.bundle, self.life, exchange, exchange, 0.0, True, digest, False, packets)  # type: ignore[arg-type]
        deliver: Deliver = yield submitted
        self.ask = deliver.ask
        self.state = script.absorb(self.state, deliver.packets)
        self.exchange += 1
