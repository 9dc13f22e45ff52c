"""The daemon of a job on a host leaves nothing behind, however it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bsp.hosts import daemon
from bsp.hosts.frames import Message, Reader, opening, packed

# the daemon, which gets SIGTERM as it begins to remove what is left of the job
AT_ITS_END = """
import os, signal
from bsp.hosts import daemon

real = daemon.descendants

def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
    return real()

daemon.descendants = terminated
daemon.main()
"""


@pytest.mark.jobs
@pytest.mark.parametrize("late", [False, True])
def test_sigterm_ends_it_and_removes_the_folder_of_the_job(late: bool) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as cwd:  # the path of a socket must be short
        folder = Path(cwd, "job")
        job = {"folder": str(folder), "environment": {}, "umask": 0o022, "cwd": cwd, "folders": [], "input": False}
        words = [sys.executable, *(["-c", AT_ITS_END] if late else ["-m", "bsp.hosts.daemon"])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(opening() + packed({"job": {**job, "program": None}}))
            reader, told = Reader(), list[Message]()
            while not any("ready" in message for message in told):
                piece = process.stdout.read(1 << 16)
                assert piece and not any("wrong" in message for message in told), told
                told += (message for message, _ in reader.feed(piece))
            assert folder.is_dir()
            if late:
                process.stdin.close()
            else:
                process.send_signal(signal.SIGTERM)
            assert process.wait() == (0 if late else -signal.SIGTERM)
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
