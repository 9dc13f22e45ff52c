"""Placement: figures 1.12 to 1.17 of McColl 2022 as claims, and what holds for every size."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.faults.protocol.placement import Placement, elements_for, instances, place


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int]:
    """(bundles, elements, vertical), whole levels and others."""
    bundles = draw(st.integers(1, 24))
    return bundles, draw(st.integers(bundles, 4 * bundles + 3)), draw(st.integers(1, min(bundles, 7)))


def times(placement: Placement, rows: int | None = None) -> Counter[int]:
    """How many instances each bundle has in the first rows."""
    return Counter(bundle for row in placement for bundle in row[:rows])


def spread(counts: Counter[int]) -> int:
    return max(counts.values()) - min(counts.values())


def most_shared(placement: Placement) -> int:
    """The most bundles any two elements have in common."""
    shared: Counter[tuple[int, int]] = Counter()
    for bundle in times(placement):
        shared.update(combinations(sorted(instances(placement, bundle)), 2))
    return max(shared.values(), default=0)


# ---------------------------------------------------------------------------------- the figures


def test_figure_1_12_each_process_appears_twice_and_no_extra_elements_are_required() -> None:
    """'multiple process instances run consecutively on the same processing element (no extra elements required)'."""
    placement = place(10, 10, vertical=2)
    assert [row[0] for row in placement] == list(range(10))
    assert all(len(row) == len(set(row)) == 2 for row in placement)
    assert times(placement) == dict.fromkeys(range(10), 2)
    assert most_shared(placement) == 1  # no two elements mirror each other


def test_figure_1_13_each_process_has_three_additional_clones() -> None:
    """'In the example shown in Figure 1.13, we have VC = 4.'"""
    placement = place(10, 10, vertical=4)
    assert [row[0] for row in placement] == list(range(10))
    for row in range(4):
        assert sorted(bundles[row] for bundles in placement) == list(range(10))  # each row of the figure has all ten
    assert all(len(set(row)) == 4 for row in placement)
    assert most_shared(placement) == 2  # 4·3 differences among the 9 distances that there are
    figure: Placement = ((0, 1, 7, 2), (1, 8, 5, 3), (2, 3, 4, 6), (3, 4, 9, 1), (4, 0, 1, 7))
    figure += ((5, 9, 6, 4), (6, 7, 8, 0), (7, 6, 0, 5), (8, 2, 3, 9), (9, 5, 2, 8))
    assert most_shared(placement) < most_shared(figure) == 3  # the book's own table


def test_figure_1_14_each_process_appears_twice_on_different_elements() -> None:
    """'we can instead run multiple instances of processes on different elements concurrently' (p = 10, HC = 2)."""
    placement = place(10, elements_for(10, 2))
    assert placement == tuple((element % 10,) for element in range(20))
    assert all(instances(placement, bundle) == (bundle, bundle + 10) for bundle in range(10))


def test_figure_1_15_the_multiples_do_not_need_to_be_uniform() -> None:
    """'for p = 6 and P = 21 we might have the cloning structure shown in Figure 1.15' (HC = 3.5)."""
    assert elements_for(6, 3.5) == 21
    placement = place(6, 21)
    assert all(len(row) == 1 for row in placement)
    assert sorted(times(placement).values()) == [3, 3, 3, 4, 4, 4]


def test_figure_1_16_vertical_and_horizontal_cloning_can_be_combined() -> None:
    """'we might have VC = 3 and HC = 2, as shown in Figure 1.16' (p = 10)."""
    placement = place(10, elements_for(10, 2), vertical=3)
    assert len(placement) == 20
    assert [row[0] for row in placement] == [*range(10), *range(10)]
    assert times(placement) == dict.fromkeys(range(10), 6)
    assert all(len(set(instances(placement, bundle))) == 6 for bundle in range(10))
    assert all(placement[e][1:] != placement[e + 10][1:] for e in range(10))  # first-row clones differ below


def test_figure_1_17_two_rows_and_half_of_the_bundles_twice_in_each() -> None:
    """'we might have VC = 2 and HC = 1.5, as shown in Figure 1.17' (p = 10)."""
    placement = place(10, elements_for(10, 1.5), vertical=2)
    assert len(placement) == 15
    assert times(placement, 1) == dict.fromkeys(range(5), 2) | dict.fromkeys(range(5, 10), 1)
    assert times(placement) == dict.fromkeys(range(10), 3)  # the second row evens out the first
    assert most_shared(placement) == 1


# ------------------------------------------------------------------------------- for every size


@given(sizes())
def test_the_first_row_covers_all_bundles_as_evenly_as_possible(size: tuple[int, int, int]) -> None:
    """'Each of the p processes is run as the first process on at least one of the P elements.'"""
    bundles, elements, vertical = size
    placement = place(bundles, elements, vertical)
    assert [row[0] for row in placement] == [element % bundles for element in range(elements)]
    assert set(times(placement, 1)) == set(range(bundles))
    assert spread(times(placement, 1)) <= 1


@given(sizes())
def test_each_instance_of_a_bundle_is_on_another_element(size: tuple[int, int, int]) -> None:
    bundles, elements, vertical = size
    placement = place(bundles, elements, vertical)
    assert len(placement) == elements
    assert all(len(row) == len(set(row)) == vertical and set(row) <= set(range(bundles)) for row in placement)


@given(sizes())
def test_any_number_of_rows_holds_every_bundle_equally_often_or_once_more(size: tuple[int, int, int]) -> None:
    placement = place(*size)
    assert all(spread(times(placement, rows)) <= 1 for rows in range(1, size[2] + 1))


def test_sizes_whose_gaps_are_no_interval_are_laid_end_to_end() -> None:
    for bundles, elements, vertical in ((8, 10, 4), (8, 11, 3), (9, 15, 3), (10, 12, 5), (10, 14, 3)):
        placement = place(bundles, elements, vertical)
        assert all(len(set(row)) == vertical for row in placement)
        assert all(spread(times(placement, rows)) <= 1 for rows in range(1, vertical + 1))


@given(sizes())
def test_instances_lists_the_first_row_first(size: tuple[int, int, int]) -> None:
    placement = place(*size)
    for bundle in range(size[0]):
        found = instances(placement, bundle)
        assert sorted(found) == [element for element, row in enumerate(placement) if bundle in row]
        rows = [placement[element].index(bundle) for element in found]
        assert rows == sorted(rows)
        assert rows[0] == 0


@pytest.mark.parametrize(("vertical", "clones", "bundles"), [(2, 1, 3), (3, 1, 7), (4, 1, 15), (2, 2, 5), (3, 2, 17)])
def test_from_some_size_on_a_lost_element_leaves_its_bundles_to_all_different_elements(
    vertical: int, clones: int, bundles: int
) -> None:
    for n in range(bundles, bundles + 40):
        assert most_shared(place(n, clones * n, vertical)) == 1


def test_in_smaller_sizes_no_element_takes_much_more_than_its_share() -> None:
    """vertical·(vertical - 1) instances to hand over to n - 1 others: at best the mean, rounded up."""
    for bundles in range(2, 30):
        for vertical in range(2, min(bundles, 5) + 1):
            mean = vertical * (vertical - 1) / (bundles - 1)
            assert most_shared(place(bundles, bundles, vertical)) <= -(-mean // 1) + 1


def test_neighbours_which_tend_to_share_a_node_hold_different_bundles() -> None:
    for bundles, clones in ((6, 1), (16, 1), (16, 2), (16, 3)):
        placement = place(bundles, clones * bundles, vertical=2)
        assert all(not set(row) & set(after) for row, after in pairwise(placement))


def test_ten_thousand_elements_are_placed() -> None:
    placement = place(2500, 10_000, vertical=4)
    assert times(placement) == dict.fromkeys(range(2500), 16)


# ------------------------------------------------------------------------------------- refusals


def test_fewer_elements_than_bundles_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"^8 bundles need 8 elements or more, not 7: give more elements, or put "):
        place(8, 7)


def test_more_rows_than_bundles_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"^vertical 4 would put one of 3 bundles twice on an element: give "):
        place(3, 9, vertical=4)


@pytest.mark.parametrize(("bundles", "vertical"), [(0, 1), (-1, 1), (3, 0)])
def test_nothing_to_place_is_refused(bundles: int, vertical: int) -> None:
    with pytest.raises(ValueError, match="must be 1"):
        place(bundles, 4, vertical)


@pytest.mark.parametrize(("clones", "elements"), [(1, 6), (1.5, 9), (3.5, 21), (1.1, 7), (2, 12)])
def test_elements_for_rounds_bundles_times_clones(clones: float, elements: int) -> None:
    assert elements_for(6, clones) == elements


@pytest.mark.parametrize("clones", [0.99, 0, -2, float("nan"), float("inf")])
def test_less_than_one_clone_is_refused(clones: float) -> None:
    with pytest.raises(ValueError, match="clones must be 1 or more"):
        elements_for(6, clones)


def test_a_bundle_that_nobody_runs_has_no_instances() -> None:
    with pytest.raises(ValueError, match="no element runs bundle 3"):
        instances(place(3, 3), 3)
    with pytest.raises(ValueError, match="there must be 1 bundle"):
        elements_for(0, 2)
