"""Messages of bsprun about a host whose daemon has ended."""

from __future__ import annotations

import os
import signal
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


def test_hosts_without_an_ipv4_address_are_refused_by_that_name(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        links = Links.__new__(Links)
        links._names = ["h1", "h2"]
        links._links = {host: DaemonLink(host, process, tmp_path / host) for host in links._names}
        for link, addresses in zip(links.all(), ([["eth0", "10.0.0.1", "255.0.0.0"]], []), strict=True):
            link.hello = {"shared": None, "temporary": 1 << 30, "addresses": addresses}
        links._greet()
        said = "it has no IPv4 address: the hosts of a job connect to each other by IPv4"
        assert [link.wrong for link in links.all()] == ["", said]


_TAKES_NO_FILE = """\
import signal, sys
from bsp.hosts import daemon, frames
if sys.argv[1] == "well":
    daemon.main()
else:
    sys.stdout.buffer.write(frames.opening() + frames.packed({"hello": daemon.facts()}))
    sys.stdout.buffer.flush()
    signal.pause()
"""


def test_a_host_that_takes_no_file_is_silent_and_keeps_bsprun_from_nothing(tmp_path: Path) -> None:
    daemon, program = tmp_path / "daemon.py", tmp_path / "program.py"
    daemon.write_text(_TAKES_NO_FILE)
    program.write_text(
        "import sys, bsp\n"
        "reach = f'{sys.executable} {sys.argv[1]} {{host}}'\n"
        "bsp.run(lambda proc, x: None, bytes(1 << 22), nprocs=2, hosts='badly,well', reach=reach)\n"
    )
    words = [sys.executable, str(program), str(daemon)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1].startswith("bsp.errors.LaunchError: host badly: is silent (all about them: ")


def test_sigterm_while_hosts_are_waited_for_ends_bsprun_in_one_line_and_leaves_no_folder(tmp_path: Path) -> None:
    called, program = tmp_path / "called", tmp_path / "program.py"
    os.mkfifo(called)
    program.touch()
    reach = f"sh -c 'echo {{host}} > {called}; exec cat' sh"
    words = [
        str(Path(sys.executable).with_name("bsprun")),
        "-p",
        "2",
        "--hosts",
        "h1,h2",
        "--reach",
        reach,
        str(program),
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as job:
        called.read_text()
        job.send_signal(signal.SIGTERM)
        said = job.communicate()[1]
    assert (job.returncode, said) == (143, "bsprun: ended by SIGTERM\n")
    assert {path.name for path in tmp_path.iterdir()} == {"called", "program.py"}
