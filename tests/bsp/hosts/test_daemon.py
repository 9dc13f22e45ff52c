"""The daemon of a job on a host leaves nothing behind, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bsp.hosts import daemon
from bsp.hosts.frames import Reader, opening, packed


def test_sigterm_ends_it_and_removes_the_folder_of_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    job = {"folder": str(folder), "environment": {}, "cwd": str(tmp_path), "folders": [], "input": False}
    words = [sys.executable, "-m", "bsp.hosts.daemon"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(opening() + packed({"job": {**job, "program": None}}))
        reader, told = Reader(), set[str]()
        while "ready" not in told:
            told |= {name for message, _ in reader.feed(process.stdout.read(1 << 16)) for name in message}
        assert folder.is_dir()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
    assert not folder.exists()


def test_it_ends_when_bsprun_takes_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "LONGEST_SECONDS", 0.0)
    (given, ours), (theirs, said) = os.pipe(), os.pipe()
    try:
        with pytest.raises(ConnectionError, match="takes nothing"):
            daemon.Daemon(given, said)._say({"file": "results"}, bytes(1 << 22))
    finally:
        for each in (given, ours, theirs, said):
            os.close(each)
