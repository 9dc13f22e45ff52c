"""Two of three: how clones of a bundle are compared, and who is believed when they differ (N11).

`Ballots` counts the copies of packets that one clone waits for.  `Votes` holds the digests that one element has
received.  `Jury` is bsprun's part: it judges the differences that elements report.  With three votes the minority is
wrong; with two nothing decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bsp.faults.protocol.messages import BundlePacket, Divergence, Progress

KEPT_STATES = 16  # heads for which digests of states are kept
_KEPT_VOTES = 256  # exchanges for which digests are kept, so that siblings behind can be compared


def votes_needed(live: int) -> int:
    """Return how many of a bundle's `live` clones must say the same before it is used: two of three, else one."""
    return 2 if live >= 3 else 1


def majority(votes: Iterable[bytes]) -> bytes | None:
    """Return what at least two say and fewer say anything else; None if there is no such value."""
    counts = Counter(votes).most_common(2)
    if not counts or counts[0][1] < 2 or (len(counts) > 1 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


class _Ballot:
    """The clones that sent one digest for a packet, and the packet, once one of them has sent its bytes."""

    __slots__ = ("packet", "voters")

    def __init__(self) -> None:
        self.voters: set[int] = set()
        self.packet: BundlePacket | None = None


class Ballots:
    """The copies of packets that one clone has been sent and has not accepted."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, int], dict[bytes, _Ballot]] = {}  # (exchange, source): by digest

    def __len__(self) -> int:
        return len(self._of)

    def vote(self, exchange: int, source: int, packet: BundlePacket, sender: int, needed: int) -> BundlePacket | None:
        """Count one clone's copy of a packet; return it once `needed` clones agree and its bytes are here."""
        ballot = self._of.setdefault((exchange, source), {}).setdefault(packet.digest, _Ballot())
        ballot.voters.add(sender)
        if packet.data is not None:
            ballot.packet = packet
        return ballot.packet if len(ballot.voters) >= needed else None

    def strike(self, exchange: int, source: int, out: set[int], needed: int) -> BundlePacket | None:
        """Count the votes on a packet again, without the elements `out`; return it if `needed` clones agree."""
        ballots = self._of.get((exchange, source), {})
        for ballot in ballots.values():
            ballot.voters -= out
        good = [b for _, b in sorted(ballots.items()) if b.packet is not None and b.voters and len(b.voters) >= needed]
        return max(good, key=lambda ballot: len(ballot.voters)).packet if good else None

    def open(self) -> list[tuple[int, int]]:
        """Return the packets that are voted on, as (exchange, source)."""
        return list(self._of)

    def close(self, exchange: int, source: int) -> None:
        """End the vote on a packet that has been accepted."""
        self._of.pop((exchange, source), None)

    def forget(self, before: int) -> None:
        """Forget the packets of exchanges before one."""
        for key in [key for key in self._of if key[0] < before]:
            del self._of[key]

    def are_beyond(self, exchange: int) -> bool:
        """Return whether a packet of a later exchange is voted on."""
        return any(later > exchange for later, _ in self._of)


class Votes:
    """The digests of all clones' exchanges that one element has received, and the differences among them."""

    def __init__(self, bundles: int) -> None:
        self._said: list[dict[int, dict[int, bytes]]] = [{} for _ in range(bundles)]  # [bundle][exchange][element]
        self._differences: dict[tuple[int, int], Divergence] = {}

    @property
    def differences(self) -> tuple[Divergence, ...]:
        """The latest differences, at most KEPT_STATES."""
        return tuple(self._differences.values())

    def of(self, bundle: int, exchange: int) -> Mapping[int, bytes]:
        """Return the digests of an exchange of a bundle, by element."""
        return self._said[bundle].get(exchange, {})

    def hear(self, bundle: int, exchange: int, superstep: int, element: int, digest: bytes) -> bool:
        """Record a clone's digest of an exchange; return whether that makes a new difference."""
        said = self._said[bundle]
        votes = said.get(exchange)
        if votes is None:
            votes = said[exchange] = {}
            if len(said) > _KEPT_VOTES:
                del said[min(said)]
        votes[element] = digest
        return len(votes) > 1 and len(set(votes.values())) > 1 and self.differ(bundle, exchange, superstep, votes)

    def hear_states(self, bundle: int, head: int, superstep: int, votes: dict[int, bytes]) -> bool:
        """Record digests of states that differ at a head; return whether the difference is new."""
        known = self._differences.get((bundle, -1 - head))
        return self.differ(bundle, -1 - head, superstep, (dict(known.votes) if known is not None else {}) | votes)

    def differ(self, bundle: int, exchange: int, superstep: int, votes: Mapping[int, bytes]) -> bool:
        """Record a difference; return whether it is new or has more votes."""
        found = Divergence(bundle, exchange, superstep, tuple(sorted(votes.items())))
        key = bundle, exchange
        if self._differences.get(key) == found:
            return False
        self._differences[key] = found
        if len(self._differences) > KEPT_STATES:
            del self._differences[next(iter(self._differences))]
        return True

    def are_alike(self, bundle: int, start: int, end: int, donor: int, others: Collection[int]) -> bool:
        """Return whether the donor's digests of all exchanges in [start, end) are confirmed.

        Each must be known, and equal to the digest of at least one element of `others`.
        """
        said = self._said[bundle]
        # older digests are no longer kept: no donor is that many exchanges ahead of one that is in doubt
        if len(said) >= _KEPT_VOTES:
            start = max(start, min(said))
        for exchange in range(start, end):
            votes = said.get(exchange, {})
            if donor not in votes or all(votes.get(other) != votes[donor] for other in others):
                return False
        return True


class Judgement(NamedTuple):
    """The judgement of a difference."""

    wrong: list[int]  # elements whose clones are wrong; empty if the votes do not decide
    votes: dict[int, bytes]  # by element


class Jury:
    """All votes on each difference, and from which clones they came."""

    def __init__(self) -> None:
        # by (bundle, exchange) and element
        self._votes: dict[tuple[int, int], dict[int, bytes]] = {}
        self._settled: set[tuple[int, int]] = set()
        # by (bundle, element): the last report of a clone that was made anew
        self._last: dict[tuple[int, int], Progress | None] = {}
        # by (bundle, element): the first report of a newcomer that has joined
        self._first: dict[tuple[int, int], Progress] = {}

    def remade(self, bundle: int, element: int, last: Progress | None) -> None:
        """Record that a clone is made anew; `last` is its last report.  Its votes up to there no longer count."""
        key = bundle, element
        self._last[key] = last if last is not None else self._last.get(key)

    def joined(self, element: int, first: Progress) -> None:
        """Record that a newcomer has continued from a sibling's state; `first` is its report at that time."""
        self._first[first.bundle, element] = first

    def hear(self, found: Divergence, live: Sequence[int]) -> Judgement | None:
        """Judge a difference.  Return None while a live clone that can vote on it has not, or if it has been judged.

        found : the difference as one element reports it; its votes are added to those reported before.
        live : elements with a live clone of the bundle.
        """
        key = found.bundle, found.exchange
        if key in self._settled:
            return None
        votes = self._votes.setdefault(key, {})
        votes.update(found.votes)
        for element in [e for e in votes if self._is_of_a_former_clone(found, e if e >= 0 else -1 - e)]:
            del votes[element]
        present = {element: votes[element] for element in live if element in votes}
        # A clone whose restarted worker computed other bytes than its first one: others have used the first ones, so it
        # counts as wrong although it now agrees with the majority.
        wavering = {element for element in present if votes.get(-1 - element, present[element]) != present[element]}
        if len(set(present.values())) < 2 and not wavering:
            return None
        agreed = majority(present.values())
        if agreed is not None:
            self._settled.add(key)
            wrong = {element for element, digest in present.items() if digest != agreed} | wavering
            return Judgement(sorted(wrong), present)
        if any(element not in present and not self._came_later(found, element) for element in live):
            return None  # wait for the votes of the others
        return Judgement([], present)

    def _is_of_a_former_clone(self, found: Divergence, element: int) -> bool:
        """Return whether this element's vote came from a clone that has been made anew since."""
        key = found.bundle, element
        if key not in self._last:
            return False
        last = self._last[key]
        if last is not None and _is_behind(found, last.exchange, last.head):
            return True
        return self._came_later(found, element)

    def _came_later(self, found: Divergence, element: int) -> bool:
        """Return whether this clone started from a state after the difference: it will never vote on it."""
        first = self._first.get((found.bundle, element))
        return first is not None and _is_behind(found, first.exchange - 1, first.head)


def _is_behind(found: Divergence, exchange: int, head: int) -> bool:
    """Return whether a difference lies before `exchange`, or, for a difference between states, not after `head`."""
    return found.exchange < exchange if found.exchange >= 0 else -1 - found.exchange <= head
