"""What happens between an element and bsprun when one of them ends early."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from bsp.hosts.lifeline import Desk


def test_an_element_that_dies_before_it_is_answered_is_lost(tmp_path: Path) -> None:
    with contextlib.closing(Desk(str(tmp_path), (1, 2))) as desk:
        with socket.socket(socket.AF_UNIX) as element:
            element.connect(os.path.join(tmp_path, "socket"))
            element.sendall(b'{"element": 3}\n')
        for _ in range(3):  # it connects, tells its number, and is gone
            desk.hear(None)
        assert list(desk.ending.lost) == [3]


def test_an_element_ends_without_a_word_if_bsprun_does_not_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(tmp_path, "socket"))
        listener.listen()
        program = f"from bsp.hosts.lifeline import Lifeline; Lifeline({str(tmp_path)!r}, 0)"
        element = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
        listener.accept()[0].close()
        _, said = element.communicate()
    assert (element.returncode, said) == (1, b"")
