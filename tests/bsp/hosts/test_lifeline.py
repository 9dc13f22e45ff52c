"""The connection between an element and bsprun when one of them ends early."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest

from bsp.hosts.lifeline import Desk


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder for sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="bsp-", dir="/tmp") as found:
        yield found


def test_an_element_that_dies_before_it_is_answered_is_lost(folder: str) -> None:
    with contextlib.closing(Desk(folder, (1, 2))) as desk:
        with socket.socket(socket.AF_UNIX) as element:
            element.connect(os.path.join(folder, "socket"))
            element.sendall(b'{"element": 3}\n')
        for _ in range(3):  # it connects, tells its number, and is gone
            desk.hear(None)
        assert list(desk.ending.lost) == [3]


def test_an_element_ends_without_a_word_if_bsprun_does_not_answer(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(folder, "socket"))
        listener.listen()
        program = f"from bsp.hosts.lifeline import Lifeline; Lifeline({folder!r}, 0)"
        element = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
        listener.accept()[0].close()
        _, said = element.communicate()
    assert (element.returncode, said) == (1, b"")
