"""Who said what, and who is right when they differ (N11): digests of exchanges and of states.

`Votes` is what an element has heard, `Jury` what bsprun makes of the differences that elements report: with three
votes the minority is wrong, with two nobody can say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bsp.faults.protocol.messages import Divergence, Progress

KEPT_STATES = 16  # heads whose states' digests are remembered for siblings
_KEPT_VOTES = 256  # exchanges whose digests are remembered for siblings that come later


class Votes:
    """The digests that one element knows of."""

    def __init__(self, bundles: int) -> None:
        self._said: list[dict[int, dict[int, bytes]]] = [{} for _ in range(bundles)]  # by exchange and element
        self._differences: dict[tuple[int, int], Divergence] = {}

    @property
    def differences(self) -> tuple[Divergence, ...]:
        """The latest of them."""
        return tuple(self._differences.values())

    def of(self, bundle: int, exchange: int) -> Mapping[int, bytes]:
        """What has been said of an exchange, by element."""
        return self._said[bundle].get(exchange, {})

    def hear(self, bundle: int, exchange: int, superstep: int, element: int, digest: bytes) -> bool:
        """What a clone has computed; whether that makes a new difference."""
        said = self._said[bundle]
        votes = said.get(exchange)
        if votes is None:
            votes = said[exchange] = {}
            if len(said) > _KEPT_VOTES:
                del said[min(said)]
        votes[element] = digest
        return len(votes) > 1 and len(set(votes.values())) > 1 and self.differ(bundle, exchange, superstep, votes)

    def hear_states(self, bundle: int, head: int, superstep: int, votes: dict[int, bytes]) -> bool:
        """States that differ at a head; whether that is new."""
        known = self._differences.get((bundle, -1 - head))
        return self.differ(bundle, -1 - head, superstep, (dict(known.votes) if known is not None else {}) | votes)

    def differ(self, bundle: int, exchange: int, superstep: int, votes: Mapping[int, bytes]) -> bool:
        """A difference; whether it is new."""
        found = Divergence(bundle, exchange, superstep, tuple(sorted(votes.items())))
        key = bundle, exchange
        if self._differences.get(key) == found:
            return False
        self._differences[key] = found
        if len(self._differences) > KEPT_STATES:
            del self._differences[next(iter(self._differences))]
        return True

    def are_alike(self, bundle: int, start: int, end: int, donor: int, others: Collection[int]) -> bool:
        """Whether one of the others has said of every exchange from start to end what the donor has."""
        said = self._said[bundle]
        if len(said) >= _KEPT_VOTES:  # nobody is that far ahead of what is in doubt
            start = max(start, min(said))
        for exchange in range(start, end):
            votes = said.get(exchange, {})
            if donor not in votes or all(votes.get(other) != votes[donor] for other in others):
                return False
        return True


class Verdict(NamedTuple):
    """Of a difference: who is wrong; nobody, if the votes cannot tell."""

    wrong: list[int]
    votes: dict[int, bytes]  # by element


class Jury:
    """The votes on every difference, and whose they were."""

    def __init__(self) -> None:
        self._votes: dict[tuple[int, int], dict[int, bytes]] = {}  # by (bundle, exchange) and element
        self._settled: set[tuple[int, int]] = set()
        self._last: dict[tuple[int, int], Progress | None] = {}  # (bundle, element): of a clone that was made anew
        self._first: dict[tuple[int, int], Progress] = {}  # (bundle, element): of a newcomer

    def remade(self, bundle: int, element: int, last: Progress | None) -> None:
        """A clone is made anew; `last`: what it has said of itself."""
        key = bundle, element
        self._last[key] = last if last is not None else self._last.get(key)

    def joined(self, element: int, first: Progress) -> None:
        """A newcomer goes on from a sibling's state."""
        self._first[first.bundle, element] = first

    def hear(self, found: Divergence, live: Sequence[int]) -> Verdict | None:
        """Judge a difference, when all live clones that can vote on it have."""
        key = found.bundle, found.exchange
        if key in self._settled:
            return None
        votes = self._votes.setdefault(key, {})
        votes.update(found.votes)
        for element in [e for e in votes if self._is_of_a_former_clone(found, e if e >= 0 else -1 - e)]:
            del votes[element]
        present = {element: votes[element] for element in live if element in votes}
        # one whose worker, run again, says other than before: what was said first has been used
        wavering = {element for element in present if votes.get(-1 - element, present[element]) != present[element]}
        if len(set(present.values())) < 2 and not wavering:
            return None
        counts = Counter(present.values()).most_common()
        agreed = counts[0][1] >= 2 and (len(counts) == 1 or counts[0][1] > counts[1][1])
        if agreed and (len(counts) == 1 or len(present) >= 3):
            self._settled.add(key)
            wrong = {element for element, digest in present.items() if digest != counts[0][0]} | wavering
            return Verdict(sorted(wrong), present)
        if any(element not in present and not self._came_later(found, element) for element in live):
            return None  # the others will have their say
        return Verdict([], present)

    def _is_of_a_former_clone(self, found: Divergence, element: int) -> bool:
        """Whether this vote was cast before the clone there was made anew."""
        key = found.bundle, element
        if key not in self._last:
            return False
        last = self._last[key]
        if last is not None and _is_behind(found, last.exchange, last.head):
            return True
        return self._came_later(found, element)

    def _came_later(self, found: Divergence, element: int) -> bool:
        """Whether this clone began from a state behind that: of what it has not seen it will say nothing."""
        first = self._first.get((found.bundle, element))
        return first is not None and _is_behind(found, first.exchange - 1, first.head)


def _is_behind(found: Divergence, exchange: int, head: int) -> bool:
    """Whether a difference lies before this exchange or, one of states, not after this head."""
    return found.exchange < exchange if found.exchange >= 0 else -1 - found.exchange <= head
