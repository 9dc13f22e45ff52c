"""The hosts that elements stand on: clones of a bundle apart from each other, so that no single failure takes them all.

A failure domain is what fails as a whole: a host, or the hosts of one rack.  Elements are dealt to hosts bundle by
bundle.  A clone goes to the host of its layer's clone of the bundle before (neighbouring processes often talk to each
other), as long as the remaining bundles can still be kept apart, and otherwise where most room is.  Whether they can
follows from a theorem of Gale and Ryser: bundles with needs h_1 >= h_2 >= ... can be given that many different domains
with room f_d each, if and only if h_1 + ... + h_k <= sum over d of min(f_d, k) for every k.
"""

from __future__ import annotations

from collections.abc import Sequence

from bsp.faults.protocol.placement import Placement


def deal(rows: Placement, standbys: int, slots: Sequence[int], domains: Sequence[str]) -> list[int]:
    """Return the host of each element, of standbys last.

    rows : the bundles of each element, from `place`.  slots : for how many elements each host has room.
    domains : the failure domain of each host.  Raises ValueError if there is not room for all.
    Work: O(elements·hosts), in bad cases O(elements·hosts²).
    """
    count = len(rows) + standbys
    if count > sum(slots):
        raise ValueError(f"{count} elements (clones and standbys included), but the hosts have {sum(slots)} slots")
    even = _deal(rows, standbys, _shares(slots, count), domains)
    if not together(rows, even, domains):
        return even
    return min(even, _deal(rows, standbys, slots, domains), key=lambda found: len(together(rows, found, domains)))


def _shares(slots: Sequence[int], count: int) -> list[int]:
    """Return how many of `count` elements each host gets, so that the most loaded one has as few as possible.

    What room is left is then where it helps most after the loss of a host: everywhere.
    """
    low, high = 0, max(slots)
    while low < high:  # the least number of elements on a host with which there is room for all
        middle = (low + high) // 2
        low, high = (low, middle) if sum(min(each, middle) for each in slots) >= count else (middle + 1, high)
    shares = [min(each, low) for each in slots]
    for host in reversed(range(len(shares))):
        if sum(shares) > count and shares[host] == low:
            shares[host] -= 1
    return shares


def _deal(rows: Placement, standbys: int, slots: Sequence[int], domains: Sequence[str]) -> list[int]:
    """Deal the elements to hosts with so much room."""
    dealt = _Dealer(slots, domains)
    count, bundles = len(rows) + standbys, len({bundle for row in rows for bundle in row})
    clones = [range(bundle, len(rows), bundles) for bundle in range(bundles)]
    found = [-1] * count
    for bundle, elements in enumerate(clones):
        used: set[str] = set()
        later = [len(some) for some in clones[bundle + 1 :]]
        for k, element in enumerate(elements):
            before = found[element - 1] if bundle > 0 else -1
            found[element] = dealt.host(before, used, len(elements) - k - 1, later)
            used.add(domains[found[element]])
    for element in range(len(rows), count):
        found[element] = dealt.host(-1, set(), 0, [])
    return found


def together(rows: Placement, hosts: Sequence[int], domains: Sequence[str]) -> dict[int, str]:
    """Return the bundles of which a domain holds more than one first-row clone, each with that domain.

    hosts : of each element, from `deal`.
    """
    found: dict[int, str] = {}
    seen: set[tuple[int, str]] = set()
    for row, host in zip(rows, hosts, strict=False):
        if (row[0], domains[host]) in seen:
            found[row[0]] = domains[host]
        seen.add((row[0], domains[host]))
    return dict(sorted(found.items()))


class _Dealer:
    """The room that is left on hosts and in domains."""

    def __init__(self, slots: Sequence[int], domains: Sequence[str]) -> None:
        self._slots, self._domains = list(slots), domains
        self._room = dict.fromkeys(domains, 0)
        for domain, number in zip(domains, slots, strict=True):
            self._room[domain] += number

    def host(self, first: int, used: set[str], more: int, later: Sequence[int]) -> int:
        """Take a slot for a clone of a bundle; return its host.

        first : the host that is best unless it stands in the way of others, or -1.  used : domains of the bundle's
        clones so far.  more : clones that the bundle needs besides.  later : clones of each bundle still to be dealt.
        """
        open_ones = [host for host, slots in enumerate(self._slots) if slots]
        open_ones.sort(key=lambda host: (host != first, -self._room[self._domains[host]], -self._slots[host]))
        apart = [host for host in open_ones if self._domains[host] not in used]
        found = next((host for host in apart if self._leaves_room(host, used, more, later)), None)
        if found is None:  # not all can be kept apart
            most = sorted(apart or open_ones, key=lambda host: -self._room[self._domains[host]])
            found = most[0]
        self._slots[found] -= 1
        self._room[self._domains[found]] -= 1
        return found

    def _leaves_room(self, host: int, used: set[str], more: int, later: Sequence[int]) -> bool:
        """Return whether all that is still to be dealt can be kept apart after a clone has gone to `host`."""
        taken = self._domains[host]
        room = self._room | {taken: self._room[taken] - 1}
        others = sorted((d for d in room if d not in used and d != taken and room[d]), key=lambda d: -room[d])
        if len(others) < more:
            return False
        for domain in others[:more]:
            room[domain] -= 1
        needs = sorted(later, reverse=True)
        # the left side of the theorem is linear in k between changes of the needs, and the right side concave: what
        # holds at these ends holds between them
        ends = [k for k in range(1, len(needs) + 1) if k == len(needs) or needs[k] != needs[k - 1]]
        return all(sum(needs[:k]) <= sum(min(number, k) for number in room.values()) for k in ends)
