"""Where elements stand: clones apart whenever that is possible at all, loads even, and conflicts named."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bsp.faults.protocol.domains import deal, together
from bsp.faults.protocol.placement import Placement, place


def possible(bundles: int, elements: int, slots: list[int], domains: list[str]) -> bool:
    """Whether some assignment keeps all first-row clones apart, by trying all: a naive search."""
    room = Counter[str]()
    for domain, number in zip(domains, slots, strict=True):
        room[domain] += number
    needs = [len(range(bundle, elements, bundles)) for bundle in range(bundles)]

    def fits(bundle: int) -> bool:
        if bundle == bundles:
            return True
        for chosen in itertools.combinations([d for d in room if room[d]], needs[bundle]):
            room.subtract(chosen)
            if fits(bundle + 1):
                return True
            room.update(chosen)
        return False

    return fits(0)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 5), st.integers(0, 10), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 2),
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
)  # fmt: skip
def test_clones_are_apart_whenever_they_can_be(
    bundles: int, more: int, slots: list[int], standbys: int, racks: list[int]
) -> None:
    rows, domains = place(bundles, bundles + more), [f"rack {rack}" for rack in racks[: len(slots)]]
    if len(rows) + standbys > sum(slots):
        with pytest.raises(ValueError, match="but the hosts have"):
            deal(rows, standbys, slots, domains)
        return
    found = deal(rows, standbys, slots, domains)
    assert len(found) == len(rows) + standbys
    assert all(Counter(found)[host] <= number for host, number in enumerate(slots))
    apart = not together(rows, found, domains)
    if standbys == 0:
        assert apart == possible(bundles, len(rows), slots, domains)


@pytest.mark.parametrize(
    ("bundles", "elements", "slots", "found"),
    [
        (4, 8, [2, 2, 2, 2], [0, 0, 2, 2, 1, 1, 3, 3]),  # neighbours share a host, in each copy
        (3, 6, [2, 2, 2], [0, 0, 1, 1, 2, 2]),
        (4, 8, [3, 3, 2, 3], [0, 0, 2, 2, 1, 1, 3, 3]),  # room for one more on all but the third
        (2, 2, [4, 4], [0, 1]),  # nobody is crowded while another host is idle
    ],
)
def test_neighbours_share_a_host_and_loads_are_even(
    bundles: int, elements: int, slots: list[int], found: list[int]
) -> None:
    assert deal(place(bundles, elements), 0, slots, [f"h{host}" for host in range(len(slots))]) == found


def test_bundles_that_cannot_be_kept_apart_are_named_with_their_domain() -> None:
    rows: Placement = place(3, 6)
    found = deal(rows, 0, [4, 1, 1], ["a", "b", "c"])
    assert list(together(rows, found, ["a", "b", "c"]).values()) == ["a"]
    assert together(rows, deal(rows, 0, [2, 2, 2], ["one rack"] * 3), ["one rack"] * 3) == dict.fromkeys(
        range(3), "one rack"
    )


def test_a_hundred_hosts_take_seconds() -> None:
    rows = place(1000, 2000)
    domains = [f"h{host}" for host in range(100)]
    assert not together(rows, deal(rows, 100, [24] * 100, domains), domains)
