"""The daemon of one job on one host: starts what MPI's launcher asks for, relays text, and ends all with the job.

`bsprun` starts `python -m bsp.hosts.daemon` on each host by ssh, by srun, or as a child, and talks with it over the
standard streams (`frames`), so that the connection is as private as ssh makes it and needs no port.  MPI's launcher
starts its own daemons through it (`remote_shell`), and elements connect to it as they connect to bsprun on one
machine (`lifeline`).  Every process of the job on this host descends from this one.  It ends them when bsprun
says so, when the connection closes, when nothing has been heard or taken for too long (`silence`), because bsprun's
host is down or the network is, and at SIGTERM, by which Slurm ends the steps of a job.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import select
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bsp.host import adopt_orphans, cores, die_with_parent
from bsp.hosts.frames import Message, Reader, opening, packed
from bsp.hosts.lifeline import Desk
from bsp.hosts.processes import descendants, kill
from bsp.hosts.silence import LONGEST_SECONDS, LOOK_SECONDS, Silence

_WINDOW = 1 << 20  # bytes of text that bsprun has not written yet
_PIECE = 1 << 16
_CONNECT_SECONDS = 3.0
_FIRST_PORT = "OMPI_MCA_btl_tcp_port_min_v4"  # the variable that says from where Open MPI takes ports
# variables of bsprun's environment that belong to its host or its login, not to the job
NAMES_OF_A_HOST = {"HOSTNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "DISPLAY", "TMPDIR", "TERM", "KRB5CCNAME", "_"}
PREFIXES_OF_A_HOST = ("SSH_", "XDG_", "DBUS_", "SLURM", "SRUN_", "SBATCH_", "PMI_", "PMIX_", "PRTE_", "OMPI_COMM_")


class Daemon:
    """The daemon, from the first message of bsprun to the last."""

    def __init__(self, given: int, said: int) -> None:
        """given, said : descriptors from and to bsprun."""
        self._given, self._said = given, said
        os.set_blocking(said, False)
        self._reader = Reader()
        self._selector = selectors.DefaultSelector()
        self._selector.register(given, selectors.EVENT_READ, self._read)
        self._silence = Silence()
        self._lock = threading.Lock()  # connections are tried in a thread
        self._folder = ""
        self._desk: Desk | None = None
        self._told: Message = {}
        self._streams: dict[int, int] = {}  # our end of the elements' standard streams
        self._unwritten = 0
        self._commands: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
        self._listeners: list[socket.socket] = []

    def serve(self) -> None:
        """Do as bsprun says until the job ends; leave no process of the job behind."""
        try:
            os.write(self._said, opening())
            self._say({"hello": facts()})
            self._loop()
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the rest takes a moment, and must not be cut short
            while family := descendants():  # a launcher may still be starting some
                kill(family)
                with contextlib.suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _loop(self) -> None:
        next_look = time.monotonic() + LOOK_SECONDS
        while self._given >= 0:
            for key, _ in self._selector.select(max(0.0, next_look - time.monotonic())):
                if key.data is not None:
                    key.data()
            self._report()
            if time.monotonic() >= next_look:
                if self._silence.look():
                    return
                self._say({"clock": time.monotonic(), "at": 0 if self._desk is None else self._desk.superstep()})
                next_look = time.monotonic() + LOOK_SECONDS

    # ----------------------------------------------------------------------------- bsprun

    def _say(self, message: Message, data: bytes = b"") -> None:
        frame = memoryview(packed(message, data))
        with self._lock:
            while frame:
                try:
                    frame = frame[os.write(self._said, frame) :]
                except BlockingIOError:
                    if not select.select([], [self._said], [], LONGEST_SECONDS)[1]:
                        raise ConnectionError("bsprun takes nothing any more") from None

    def _read(self) -> None:
        piece = os.read(self._given, _PIECE)
        if not piece:
            self._selector.unregister(self._given)
            self._given = -1
            return
        self._silence.heard()
        for message, data in self._reader.feed(piece):
            for name, value in message.items():
                getattr(self, f"_do_{name}")(value, data)

    def _do_job(self, job: dict[str, Any], _: bytes) -> None:
        """Prepare for a job: its environment, umask and working folder, and where its elements connect."""
        os.environ.update(job["environment"])
        os.umask(job["umask"])
        try:
            os.chdir(job["cwd"])
            os.mkdir(job["folder"], 0o700)
            self._folder = job["folder"]
            for name in job["folders"]:
                os.mkdir(os.path.join(self._folder, name), 0o700)
            given = self._open_streams(job["input"])
            self._desk = Desk(self._folder, given, self._selector)
        except FileExistsError:
            self._say(
                {"wrong": f"{job['folder']} is there already: is this a host that is given under another name, too?"}
            )
            return
        except OSError as wrong:
            self._say({"wrong": f"{wrong.strerror} there: {wrong.filename}" if wrong.filename else str(wrong)})
            return
        if job["program"] is not None and not os.path.isfile(job["program"]):
            self._say({"wrong": f"script '{job['program']}' does not exist there (looked in {job['cwd']})"})
            return
        self._say({"ready": True})

    def _do_file(self, name: str, data: bytes) -> None:
        """Keep a file for the elements."""
        path = Path(self._folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _do_run(self, asked: dict[str, Any], _: bytes) -> None:
        """Run a command of MPI's launcher as its remote shell would."""
        path = Path(self._folder, f"command-{asked['number']}")
        with open(path, "wb") as said:
            child = subprocess.Popen(
                [os.environ.get("SHELL", "/bin/sh"), "-c", asked["command"]],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
            )  # fmt: skip
        self._commands[asked["number"]] = child, path

    def _do_input(self, open_: bool, data: bytes) -> None:
        """Give element 0 more of its standard input, or its end."""

        def write() -> None:  # it may read slowly, or never
            with contextlib.suppress(OSError):
                view = memoryview(data)
                while view:
                    view = view[os.write(self._streams[0], view) :]
            if open_:
                self._say({"more": True})
            else:
                os.close(self._streams[0])

        threading.Thread(target=write, daemon=True).start()

    def _do_written(self, size: int, _: bytes) -> None:
        """Note that bsprun has written so much of the elements' text."""
        self._unwritten -= size
        self._listen_to_text()

    def _do_closed(self, number: int, _: bytes) -> None:
        """Let elements find a stream closed that nobody reads any more."""
        if self._streams[number] >= 0:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._streams[number])
            os.close(self._streams[number])
            self._streams[number] = -1

    def _do_listen(self, _: bool, __: bytes) -> None:
        """Wait for connections of the other hosts' daemons, to show that they can reach this one."""
        # a firewall may let some ports through: one that the system chooses, as the launcher's, and one of MPI's
        self._listeners = [socket.create_server(("", 0)), listening_from(_mpi_port())]
        for listener in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ, lambda each=listener: each.accept()[0].close())
        self._say({"ports": [listener.getsockname()[1] for listener in self._listeners]})

    def _do_reach(self, others: dict[str, tuple[list[str], list[int]]], _: bytes) -> None:
        """Try to connect to other daemons: by host its addresses and ports."""

        def reach() -> None:
            self._say({"reached": {host: reached(*place) for host, place in others.items()}})

        threading.Thread(target=reach, daemon=True).start()

    def _do_versions(self, packages: list[str], _: bytes) -> None:
        """Tell the versions of some packages, and what decides the last bits of results (D7)."""
        from bsp.hosts.build import build, version_of  # here, because jobs do not wait for its imports

        found = {name: version_of(name) for name in packages}
        self._say({"versions": found | (dict(build()) if find_spec("numpy") is not None else {})})

    def _do_collect(self, folders: list[str], _: bytes) -> None:
        """Send the files that elements have written into some of the job's folders, then all text that is left."""
        self._drain_text()
        for folder in folders:
            for path in sorted(Path(self._folder, folder).rglob("*")):
                if path.is_file():
                    self._say({"file": str(path.relative_to(self._folder))}, path.read_bytes())
        self._say({"collected": True})

    def _do_end(self, _: bool, __: bytes) -> None:
        """End this daemon, and the job's processes here with it."""
        self._given = -1

    # --------------------------------------------------------------------------- elements

    def _open_streams(self, with_input: bool) -> tuple[int, ...]:
        """Make the pipes that elements take for their standard streams; return the elements' ends."""
        given = []
        for number in (1, 2):
            ours, theirs = os.pipe()
            with contextlib.suppress(OSError, AttributeError):
                fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _WINDOW)
            os.set_blocking(ours, False)
            self._streams[number] = ours
            self._selector.register(ours, selectors.EVENT_READ, lambda n=number: self._text(n))
            given.append(theirs)
        if not with_input:
            return tuple(given)
        theirs, self._streams[0] = os.pipe()
        return (theirs, *given)

    def _text(self, number: int) -> bool:
        """Send on what elements have printed; whether there was something."""
        try:
            piece = os.read(self._streams[number], _PIECE) if self._streams[number] >= 0 else b""
        except BlockingIOError:
            return False
        if not piece:
            return False
        self._say({"text": number}, piece)
        self._unwritten += len(piece)
        self._listen_to_text()
        return True

    def _listen_to_text(self) -> None:
        """Read on only as far as bsprun writes, whose reader may be slow: the elements wait then, as for a pipe."""
        for number in (1, 2):
            ours = self._streams[number]
            registered = ours >= 0 and ours in self._selector.get_map()
            if registered and self._unwritten >= _WINDOW:
                self._selector.unregister(ours)
            elif ours >= 0 and not registered and self._unwritten < _WINDOW:
                self._selector.register(ours, selectors.EVENT_READ, lambda n=number: self._text(n))

    def _drain_text(self) -> None:
        for number in (1, 2):
            while self._text(number):
                pass

    def _report(self) -> None:
        """Tell bsprun of commands that have ended, and what elements have said or left unsaid."""
        for number, (child, path) in list(self._commands.items()):
            if child.poll() is not None:
                del self._commands[number]
                self._say({"exited": number, "status": child.returncode}, path.read_bytes()[-_PIECE:])
        if self._desk is None:
            return
        told = {**asdict(self._desk.ending), "met": sorted(self._desk.met)}
        if told != self._told:
            self._drain_text()  # what an element printed goes before what is said of its end
            self._told = told
            moments = {element: self._desk.last_moments(element) for element in told["lost"]}
            self._say({"ending": {**told, "moments": moments}})


def reached(addresses: list[str], ports: list[int]) -> list[str]:
    """Return those addresses that can be connected to, at all the ports."""
    return [address for address in addresses if all(_connects(address, port) for port in ports)]


def _connects(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def listening_from(first: int) -> socket.socket:
    """Listen at the first port from `first` on that is free, as Open MPI's elements do."""
    for port in range(first, 1 << 16):
        with contextlib.suppress(OSError):
            return socket.create_server(("", port))
    return socket.create_server(("", 0))


def _mpi_port() -> int:
    """Return the first port that Open MPI tries; its own default, unless the job's environment sets another."""
    given = os.environ.get(_FIRST_PORT, "")
    return int(given) if given.isdecimal() else 1024


def facts() -> dict[str, Any]:
    """Return what bsprun asks of every host: name, addresses, cores, clock, versions, room in /dev/shm and /tmp."""
    import psutil

    addresses = [
        (name, address.address, address.netmask)
        for name, found in sorted(psutil.net_if_addrs().items())
        for address in found
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]
    shared = shutil.disk_usage("/dev/shm").free if os.path.isdir("/dev/shm") else None
    return {
        "name": socket.gethostname(),
        "addresses": addresses,
        "cores": cores(),
        "python": platform.python_version(),
        "time": time.time(),
        "memory": psutil.virtual_memory().available,
        "shared": shared,
        "temporary": shutil.disk_usage("/tmp").free,
    }


def main() -> None:
    """Serve bsprun over the standard streams; nothing else may write to them."""
    adopt_orphans()  # prted leaves its parent: it becomes ours, as what programs leave does
    given, said = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        Daemon(given, said).serve()
    except ConnectionError:
        pass
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


class _Terminated(Exception):
    """SIGTERM has come."""


def _terminate(number: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Terminated


if __name__ == "__main__":
    main()
