"""What proc.once and proc.time have given, which every clone that asks later must be given too (N9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bsp.faults.protocol.messages import Token

KEPT_TIMES = 256  # readings of the clock kept from the start of the job, and as many of the latest


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
