"""When the other side of a connection is taken for dead."""

from __future__ import annotations

import socket

from bsp.hosts.silence import LOOK_SECONDS, Silence, host_answers


def looks_to_the_end(silence: Silence) -> int:
    """Count the looks after which a side that says nothing is taken for dead."""
    return next(k for k in range(1, 1000) if silence.look())


def test_a_silence_of_four_seconds_is_too_long() -> None:
    assert 3 < looks_to_the_end(Silence()) * LOOK_SECONDS < 4


def test_a_side_that_was_silent_for_long_before_may_be_so_again() -> None:
    silence = Silence()
    assert not any(silence.look() for _ in range(10))
    silence.heard()
    assert looks_to_the_end(silence) == 3 * 10 + 1


def test_no_silence_is_endless() -> None:
    silence = Silence()
    assert looks_to_the_end(silence) == 15
    assert silence.excuse()
    assert 10 < (15 + looks_to_the_end(silence)) * LOOK_SECONDS < 13
    assert not silence.excuse()
    silence.heard()
    assert looks_to_the_end(silence) * LOOK_SECONDS < 13


def test_a_host_answers_where_its_program_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # which accepts nobody
        port = listener.getsockname()[1]
        assert host_answers(["127.0.0.2", "127.0.0.1"], port)
    assert not host_answers(["127.0.0.2", "127.0.0.1"], port)
    assert not host_answers([], port)


def test_an_address_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):  # the kernel takes no second one
            assert not host_answers(["127.0.0.1"], port)
