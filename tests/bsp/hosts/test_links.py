"""Messages of bsprun about a host whose daemon has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bsp.hosts.links import DaemonLink, Links


def test_the_last_line_of_a_daemons_traceback_is_told_and_not_what_the_login_says(tmp_path: Path) -> None:
    complaints = tmp_path / "complaints"
    complaints.write_text("Welcome to h1\n")
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        link = DaemonLink("h1", process, complaints)
        links = Links.__new__(Links)
        links._links = {"h1": link}
        links._on(link, {"hello": {}}, b"")
        link.lost = "closed its connection"
        assert links.why_lost("h1") == "closed its connection"
        with complaints.open("a") as more:
            more.write("Traceback (most recent call last):\n  ...\nOSError: [Errno 28] No space left on device\n")
        assert links.why_lost("h1") == "closed its connection (OSError: [Errno 28] No space left on device)"
