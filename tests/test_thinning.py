"""Thinning leaves out combinations only: each value of a parameter and both ends of process counts are tried."""

from __future__ import annotations

from itertools import product

import pytest
from thinning import FEW, crossing, left_out, some


@pytest.mark.parametrize("sizes", [(1,), (4,), (3, 5), (2, 2, 2), (6, 4, 3)])
def test_every_value_occurs_in_as_few_choices_as_the_longest_parameter_has(sizes: tuple[int, ...]) -> None:
    choices = [list(zip("abc", each, strict=False)) for each in product(*map(range, sizes))]
    kept = [choices[k] for k in crossing(choices)]
    assert {value for choice in kept for value in choice} == {value for choice in choices for value in choice}
    assert len(kept) == max(sizes)


@pytest.mark.parametrize(("counts", "kept"), [
    ([1, 2, 3, 4, 5, 8], {1, 3, 8}), ([64, 2, 7, 8], {2, 8, 64}), ([2, 3, 5], {2, 3, 5}), ([1], {1}),
])  # fmt: skip
def test_of_the_numbers_of_processes_the_ends_and_one_between_are_kept(counts: list[int], kept: set[int]) -> None:
    assert some(counts) == kept


@pytest.mark.parametrize("letter", ["a", "b", "c"])
@pytest.mark.parametrize(("nprocs", "elements"), [(1, 1), (4, 1), (4, 2)])
def test_names_that_are_given_together_are_one_parameter(
    request: pytest.FixtureRequest, letter: str, nprocs: int, elements: int
) -> None:
    """Thinning keeps three of this function's nine tests: each letter, and each pair, once."""
    own = [item for item in request.session.items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])]
    assert len(own) == (3 if FEW else 9)
    kept = [item.callspec.params for item in own if item not in left_out(own, crossed=True)]
    assert {each["letter"] for each in kept} == {"a", "b", "c"}
    assert {(each["nprocs"], each["elements"]) for each in kept} == {(1, 1), (4, 1), (4, 2)}
    assert len(kept) == 3


@pytest.mark.jobs
@pytest.mark.parametrize("letter", ["a", "b", "c"])
def test_of_a_test_that_starts_processes_a_choice_of_minutes_has_one(
    request: pytest.FixtureRequest, letter: str
) -> None:
    items = request.session.items
    own = [item for item in items if item.nodeid.startswith(request.node.nodeid.partition("[")[0])]
    assert [item for item in own if item not in left_out(own, crossed=False, few=True)] == own[:1]
    thorough = [item for item in items if item.get_closest_marker("thorough")]
    assert not left_out([item for item in thorough if not item.get_closest_marker("rest")][:1], False, few=False)
    assert left_out(thorough, crossed=False, few=True) == thorough
