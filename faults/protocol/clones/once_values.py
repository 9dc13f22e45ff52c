"""Values of proc.once and proc.time: every clone that asks later must be given the same ones (N9)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from bsp.faults.protocol.messages import Token

KEPT_TIMES = 256  # readings of the clock kept from the start of the job, and as many of the latest


class Copies:
    """The elements that keep those values on which nobody may act yet: too few have them.

    Were bsprun's host lost together with the element that acts on a value, another value would take its place (N16).
    """

    def __init__(self) -> None:
        self._of: dict[Token, set[int]] = {}
        self._bundles: dict[Token, int] = {}
        self._asked: dict[Token, tuple[float, float]] = {}  # when elements were asked first, and last

    def __contains__(self, token: Token) -> bool:
        return token in self._of

    def lose(self, tokens: Iterable[Token]) -> None:
        """Record values of which no copies are known."""
        for token in tokens:
            self._of[token] = set()

    def of(self, token: Token) -> set[int]:
        """Return the elements that keep a value."""
        return self._of.get(token, set())

    def ask(self, token: Token, bundle: int, now: float, patience: float) -> float | None:
        """Record that elements are asked to keep a value of a bundle; return the seconds since they were asked first.

        None if they have been asked within `patience` seconds, and are not to be asked again.
        """
        self._bundles[token] = bundle
        first, last = self._asked.get(token, (now, -math.inf))
        if now - last < patience:
            return None
        self._asked[token] = first, now
        return now - first

    def confirm(self, element: int, tokens: Iterable[Token]) -> list[tuple[Token, int]]:
        """Record that an element keeps values; return those that it has not kept before, with their bundles."""
        new = [token for token in tokens if token in self._bundles and element not in self._of[token]]
        for token in new:
            self._of[token].add(element)
        return [(token, self._bundles[token]) for token in new]

    def settle(self, token: Token) -> None:
        """Forget a value: all may act on it, or nobody will ask for it again."""
        self._of.pop(token, None)
        self._bundles.pop(token, None)
        self._asked.pop(token, None)


class OnceValues(dict[Token, bytes]):
    """Results of proc.once and readings of the clock, by token."""

    def __init__(self) -> None:
        super().__init__()
        self._readings: list[Token] = []  # of the clock, in order

    def add(self, values: Iterable[tuple[Token, bytes]]) -> None:
        """Add values; one that is known already stays."""
        for token, value in values:
            if token in self:
                continue
            self[token] = value
            if token[0] == "time":
                self._readings.append(token)
                # keep the first readings as well as the latest: a newcomer replays the program from its beginning
                if len(self._readings) > 2 * KEPT_TIMES:
                    del self[self._readings.pop(KEPT_TIMES)]

    def settle(self, head: int, repeats: Collection[tuple[int, int]]) -> list[Token]:
        """Forget the results of calls in rounds that nobody will run again; return their tokens.

        head : the first round that may be run again.
        repeats : ranges of rounds before it that may be run again, too: the last ones of loops that were left early.
        """
        before = [token for token in self if token[0] == "round" and token[2] < head]
        gone = [token for token in before if not any(first <= token[2] < last for first, last in repeats)]
        for token in gone:
            del self[token]
        return gone
