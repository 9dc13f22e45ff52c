"""The machine as the model sees it: (p, r, g, L), and the overhead o of a message.

The price of a superstep is  w + g·h + o·m + L  in flop-times, McColl's W + gH + LS (section 1.5.2)
summed over supersteps, with a term for the m messages of the busiest process.  Every choice of an
algorithm in this package minimises it, so a choice is a pure function of sizes and this profile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Machine:
    """r in flop/s; g in flop-times a word of 8 bytes; L in flop-times a superstep; o a message."""

    p: int = 1
    r: float = 2e9
    g: float = 4.0
    L: float = 2e4
    o: float = 2e3
    name: str = "default"

    def with_processes(self, p: int) -> Machine:
        """The same machine, seen by a program of `p` processes."""
        return replace(self, p=p)

    def price(self, h: float, supersteps: int = 1, messages: float = 0, w: float = 0.0) -> float:
        """Flop-times of `supersteps` that move `h` words in all, the busiest process sending `messages`."""
        return w + self.g * h + self.o * messages + self.L * supersteps


DEFAULT = Machine()
