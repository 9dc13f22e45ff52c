"""When the other side of a connection is taken for dead."""

from __future__ import annotations

from bsp.hosts.silence import LOOK_SECONDS, Silence


def looks_to_the_end(silence: Silence, running: bool = True) -> int:
    """Count the looks after which a side that says nothing is taken for dead."""
    return next(k for k in range(1, 1000) if silence.look(running))


def test_a_running_job_waits_for_less_than_four_seconds() -> None:
    assert 3 < looks_to_the_end(Silence()) * LOOK_SECONDS < 4


def test_a_job_that_starts_waits_longer() -> None:
    assert looks_to_the_end(Silence(), running=False) * LOOK_SECONDS > 10


def test_a_side_that_was_silent_for_long_before_may_be_so_again() -> None:
    silence = Silence()
    for _ in range(10):
        assert not silence.look(True)
    silence.heard()
    assert looks_to_the_end(silence) > 3 * 10


def test_no_silence_is_endless() -> None:
    silence = Silence()
    for _ in range(47):
        silence.look(False)
    silence.heard()
    assert looks_to_the_end(silence) <= 49
