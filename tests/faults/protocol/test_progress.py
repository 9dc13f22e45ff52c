"""What a restart from a head loses, by what bsprun has heard."""

from __future__ import annotations

from bsp.faults.protocol.messages import AgentReport, Progress
from bsp.faults.protocol.progress import Reach


def said(element: int, bundle: int, head: int, held: int | None = None, sent: int = 0) -> AgentReport:
    """An element's report of its one clone."""
    clone = Progress(bundle, 1, True, True, 0, 0, head, held, None, None, None, False, 0, None, 0, (), ())
    return AgentReport(element, 1, (clone,), sent=sent)


def test_a_restart_loses_the_rounds_begun_since_its_head() -> None:
    reach = Reach()
    reach.hear(said(0, 0, 24))
    reach.hear(said(1, 1, 25))
    assert reach.lost(20, {0, 1}) == 6  # rounds 20 to 25


def test_who_is_held_at_the_head_has_lost_nothing() -> None:
    reach = Reach()
    reach.hear(said(0, 0, 20, held=20))
    reach.hear(said(1, 1, 20, held=20))
    assert reach.lost(20, {0, 1}) == 0


def test_who_is_let_go_when_all_is_over_begins_no_round() -> None:
    reach = Reach()
    reach.hear(said(0, 0, 20, held=20, sent=100))
    reach.hear(said(0, 0, 20, sent=200), over=True)
    assert (reach.lost(20, {0}), reach.sent) == (0, 200)


def test_what_a_dead_clone_was_ahead_of_its_sibling_is_not_computed_again_by_all() -> None:
    reach = Reach()
    reach.hear(said(0, 0, 25))
    reach.hear(said(2, 0, 22, held=22))
    assert reach.lost(22, {2}) == 0
    assert reach.lost(22, set()) == 4  # both are dead


def test_bytes_of_an_element_are_those_of_its_latest_word() -> None:
    reach = Reach()
    for sent in (100, 300, 200):  # reports may overtake each other
        reach.hear(said(0, 0, 1, sent=sent))
    reach.hear(said(1, 1, 1, sent=50))
    assert reach.sent == 350
