"""bsprun's connections to the daemons of a job, one on each host (see `daemon`).

`Links` starts the daemons, checks that every host can take part, and stands in for the `Desk` of a job on one
machine: it hears how the job ends and which elements or hosts are lost, and passes text and input on.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import math
import os
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from bsp.errors import LaunchError
from bsp.host import die_with_parent, umask
from bsp.hosts.daemon import NAMES_OF_A_HOST, PREFIXES_OF_A_HOST
from bsp.hosts.frames import Message, Reader, head, opening
from bsp.hosts.launcher import reaching, starting, why_not_started
from bsp.hosts.lifeline import Ending, LastMoments, end_of
from bsp.hosts.processes import GRACE
from bsp.hosts.remote_shell import VARIABLE
from bsp.hosts.silence import LOOK_SECONDS, Silence, host_answers
from bsp.hosts.text import TextWriter

_ANSWER_SECONDS = 12.0  # for a host to answer, and to do what the start of a job needs
_STILL_SECONDS = 10.0  # in one superstep, after which hosts are asked whether they still reach each other
_LATE_SECONDS = 15.0  # for elements to start, before a note says where none has
_ALL_PAIRS = 16  # hosts of which each tries to connect to every other
_PIECE = 1 << 16
_LEAST_SHARED = 64 << 20  # bytes in /dev/shm that MPI needs for its elements on a host
_LEAST_TEMPORARY = 1 << 20  # bytes in /tmp for the files of a job on a host

T = TypeVar("T")


@dataclass
class DaemonLink:
    """The connection to the daemon on one host, and what it has said."""

    host: str
    process: subprocess.Popen[bytes]
    complaints: Path  # what ssh, srun or Python write to standard error
    reader: Reader = field(default_factory=Reader)
    silence: Silence = field(default_factory=Silence)
    hello: dict[str, Any] = field(default_factory=dict)
    greetings: int = 0  # bytes of complaints before its hello: what a login says
    hello_at: float = 0.0  # by our clock
    versions: dict[str, str] = field(default_factory=dict)
    ready: bool = False
    wrong: str = ""
    ports: list[int] = field(default_factory=list)
    reached: dict[str, list[str]] | None = None  # by host the addresses that it last could connect to
    trying: bool = False  # to connect, during the job
    collected: bool = False
    lost: str = ""  # why nothing is heard of the host any more
    behind: float = math.inf  # our clock less the host's; the least difference is the one with the least delay
    at: int = 0  # the superstep that its elements are in, as last heard
    took_at: float = -math.inf  # by our clock: when it last took a part of a file
    unsent: SimpleQueue[bytes | None] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        self._sender = threading.Thread(target=self._send_all, daemon=True)
        self._sender.start()

    def say(self, message: Message, data: bytes = b"") -> None:
        """Send a message behind all earlier ones, in a thread: bsprun waits for no host that takes it slowly."""
        self.unsent.put(head(message, len(data)))
        self.unsent.put(data)

    def _send_all(self) -> None:
        with contextlib.suppress(OSError):  # a host that is lost is noticed when we read
            while (piece := self.unsent.get()) is not None:
                assert self.process.stdin is not None
                view = memoryview(piece)
                while view:
                    view = view[os.write(self.process.stdin.fileno(), view[:_PIECE]) :]
                    if len(piece) >= _PIECE:
                        self.took_at = time.monotonic()

    def end(self) -> None:
        """End the command that leads to the host, and whatever that has started; say no more."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.unsent.put(None)
        self._sender.join()
        with contextlib.suppress(OSError):
            self.process.communicate()

    def only_waits(self) -> bool:
        """Return whether the daemon is silent on a host that is alive: loaded, it gives the daemon no turn."""
        addresses = [address for _, address, _ in self.hello["addresses"]]
        return self.silence.excuse() and bool(self.ports) and host_answers(addresses, self.ports[0])

    def complaint(self) -> str:
        """Return the last line that was written to standard error on the way there, since the daemon's hello."""
        lines = self.complaints.read_bytes()[self.greetings :].decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def why(self) -> str:
        """Return what is wrong with the host, in a line that says what to do."""
        if self.wrong:
            return self.wrong
        return why_not_started(self.host, self.complaint(), self.process.poll(), self.lost)


class Links:
    """The hosts of one job, as bsprun talks with them; the interface of `Desk`, for many hosts."""

    def __init__(
        self, folder: str, hosts: Iterable[tuple[str, int]], carried: Mapping[str, str], reach: str | None = None
    ) -> None:
        """Start links to hosts.

        hosts : names, with the number of elements on each, in the order of their elements.
        carried : local folders whose files elements read and write, by the name of their copy on each host.
        reach : the command that runs another command on a host (see `reaching`).
        """
        self.ending = Ending()
        self.lost_hosts: list[str] = []  # by name, in the order in which they fell silent
        self._folder = folder
        self._carried = carried
        self._names: list[str] = [host for host, count in hosts for _ in range(count)]
        self._selector = selectors.DefaultSelector()
        self._links: dict[str, DaemonLink] = {}
        self._met: dict[str, list[int]] = {}
        self._moments: dict[int, LastMoments] = {}
        self._text = TextWriter()
        self._next_look = time.monotonic() + LOOK_SECONDS
        self._late_at = math.inf  # by our clock: when to tell where no element has started
        self._at = (-1, math.inf)  # the superstep of the job, and when to ask whether hosts still reach each other
        self._asked: dict[int, socket.socket] = {}
        self.folder = f"/tmp/bsprun-{secrets.token_hex(8)}"  # of this job on every host
        self._socket = os.path.join(folder, "socket")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._socket)
        self._listener.listen(1024)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        for host in dict.fromkeys(self._names):
            self._start(host, reach)

    @property
    def lost_output(self) -> str:
        """The reason why standard output takes no more text, such as a full disk; empty if its reader has just left."""
        return self._text.lost

    def host_of(self, element: int) -> str:
        """Return the name of an element's host."""
        return self._names[element]

    def elements_of(self, host: str) -> list[int]:
        """Return the elements on a host."""
        return [element for element, name in enumerate(self._names) if name == host]

    def why_lost(self, host: str) -> str:
        """Return why nothing is heard of a host any more, with the last line that it or ssh told."""
        link = self._links[host]
        return f"{link.lost} ({said})" if (said := link.complaint()) else link.lost

    def superstep(self) -> int:
        """Return the superstep that the elements are in, as last heard."""
        return max(link.at for link in self._links.values())

    def _places(self, hosts: Iterable[str]) -> dict[str, tuple[list[str], list[int]]]:
        """Return the addresses of hosts, and the ports at which their daemons listen."""
        found = {host: self._links[host] for host in hosts}
        return {host: ([at for _, at, _ in link.hello["addresses"]], link.ports) for host, link in found.items()}

    def _start(self, host: str, reach: str | None) -> None:
        complaints = Path(self._folder, f"complaints-{len(self._links)}")
        command = reaching(host, reach)
        with open(complaints, "wb") as errors, starting(host, command):
            # in a session of its own: a Ctrl-C is bsprun's to handle
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                preexec_fn=die_with_parent, start_new_session=True,
            )  # fmt: skip
        link = self._links[host] = DaemonLink(host, process, complaints)
        link.unsent.put(opening())
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, lambda: self._read(link))

    # -------------------------------------------------------------------------- the start

    def prepare(self, environment: Mapping[str, str], program: str | None, with_input: bool) -> list[str]:
        """Make every host ready for the job; return the networks by which all reach each other, as '10.0.0.0/24'.

        Raises LaunchError that names each host that is not ready, and why.
        """
        self._greet()
        self._refuse()
        self._give_job(environment, program, with_input)
        self._refuse()
        networks = self._connect()
        self._refuse()
        if with_input:
            self._send_input()
        return networks

    def examine(self, packages: Sequence[str], program: str | None) -> None:
        """Find out about every host what `prepare` would, and the versions of packages there; raise nothing."""
        self._greet()
        self._give_job({}, program, False)
        self._connect()
        for link in self._fine():
            link.say({"versions": list(packages)})
        self._await(lambda link: bool(link.versions))

    def all(self) -> list[DaemonLink]:
        """Return the connections, in the order of the hosts."""
        return list(self._links.values())

    def _fine(self) -> list[DaemonLink]:
        return [link for link in self._links.values() if not (link.wrong or link.lost)]

    def _greet(self) -> None:
        self._await(lambda link: bool(link.hello))
        for link in self._fine():
            shared = link.hello["shared"]
            if shared is not None and shared < _LEAST_SHARED and len(self.elements_of(link.host)) > 1:
                needed = _LEAST_SHARED >> 20
                link.wrong = f"/dev/shm is full: {shared >> 20} MiB are left, MPI needs {needed}; empty it"
            if link.hello["temporary"] < _LEAST_TEMPORARY:
                link.wrong = f"/tmp is full: {link.hello['temporary'] >> 10} KiB are left, a job needs 1024; empty it"
            if not link.hello["addresses"] and len(self._links) > 1:
                link.wrong = "it has no IPv4 address: the hosts of a job connect to each other by IPv4"

    def _give_job(self, environment: Mapping[str, str], program: str | None, with_input: bool) -> None:
        """Tell every host the job's environment, umask, folders and files."""
        given = {name: value for name, value in environment.items() if not _is_of_a_host(name)}
        files = [
            (str(Path(name, path.relative_to(local))), path.read_bytes())
            for local, name in self._carried.items()
            for path in sorted(Path(local).rglob("*"))
            if path.is_file()
        ]
        mask = umask()
        for link in self._fine():
            job: dict[str, Any] = {"folder": self.folder, "environment": given, "cwd": os.getcwd(), "program": program}
            job |= {"umask": mask, "folders": list(self._carried.values())}
            job |= {"input": with_input and link.host == self._names[0]}
            link.say({"job": job})
            for name, data in files:
                link.say({"file": name}, data)
            link.say({"listen": True})
        self._await(lambda link: link.ready and bool(link.ports))

    def _connect(self) -> list[str]:
        """Have hosts connect to each other; return the networks over which every host reaches every other."""
        links = self._fine()
        if len(links) < 2:
            return []
        for k, link in enumerate(links):
            # all pairs of a few hosts; of many, those at distances 1, 2, 4, ..., so that several try each
            few = len(links) <= _ALL_PAIRS
            distances = range(1, len(links)) if few else [1 << j for j in range(len(links).bit_length() - 1)]
            others = [links[(k + distance) % len(links)] for distance in distances]
            link.say({"reach": self._places(other.host for other in others)})
        self._await(lambda link: link.reached is not None)
        common: set[str] | None = None
        for link in links:
            for host, addresses in (link.reached or {}).items():
                masks = {address: mask for _, address, mask in self._links[host].hello["addresses"]}
                found = {str(ipaddress.ip_network(f"{each}/{masks[each]}", strict=False)) for each in addresses}
                common = found if common is None else common & found
                if not addresses:
                    link.wrong = (
                        f"it cannot connect to host {host} ({', '.join(masks)}): a firewall? MPI needs connections"
                        " between all hosts, on any port"
                    )
        return sorted(common or ())

    def _await(self, answered: Callable[[DaemonLink], bool]) -> None:
        """Wait until all hosts that nothing is known against have answered, but not for ever."""
        began = time.monotonic()
        while waiting := [link for link in self._fine() if not answered(link)]:
            # a host that still takes files is not late
            now = time.monotonic()
            if all(now > max(began, link.took_at) + _ANSWER_SECONDS for link in waiting):
                for link in waiting:
                    link.wrong = f"did not answer within {_ANSWER_SECONDS:.0f} s (overloaded? does its login wait?)"
                return
            self._hear(LOOK_SECONDS)

    def _refuse(self) -> None:
        """Raise for what is wrong with hosts, all in one message."""
        wrong = [f"host {link.host}: {link.why()}" for link in self._links.values() if link.wrong or link.lost]
        if wrong:
            raise LaunchError(f"{'; '.join(wrong)} (all about them: bsp doctor --hosts {','.join(self._links)})")

    def launching(self) -> dict[str, str]:
        """Return the environment of MPI's launcher, which starts its daemons by ours, each from here.

        So it needs no ssh of its own, and does not take the Slurm allocation that we are in for its own.
        """
        # in a folder whose name has no spaces, as that of temporary files may have: the launcher divides there
        os.makedirs(self.folder, 0o700, exist_ok=True)
        shell = os.path.join(self.folder, "remote-shell")
        with open(shell, "w") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bsp.hosts.remote_shell "$@"\n')
        os.chmod(shell, 0o700)
        # an element that loses its connection to a dead one waits for a second: the launcher sees who died first
        waits = {"OMPI_MCA_opal_abort_delay": "1"}
        if any(len(self.elements_of(link.host)) > link.hello["cores"] for link in self.all()):
            waits["OMPI_MCA_mpi_yield_when_idle"] = "1"  # or elements that wait take the cores of those that do not
        open_mpi = {"plm": "ssh", "plm_ssh_agent": shell, "plm_ssh_no_tree_spawn": "1", "ras": "^slurm"}
        hydra = {"LAUNCHER": "ssh", "LAUNCHER_EXEC": shell, "RMK": "user"}  # of MPICH
        found = {f"PRTE_MCA_{name}": value for name, value in open_mpi.items()}
        return waits | found | {f"HYDRA_{name}": value for name, value in hydra.items()} | {VARIABLE: self._socket}

    # ---------------------------------------------------------------- the interface of Desk

    def wait(self, child: subprocess.Popen[bytes], seconds: float | None) -> int | None:
        """Hear the hosts until `child` ends; its status then.

        None after so many seconds, or, without a limit, when the end of the job has begun, or a host or the output is
        lost.
        """
        until = None if seconds is None else time.monotonic() + seconds
        if until is None:
            self._late_at, self._at = time.monotonic() + _LATE_SECONDS, (-1, 0.0)
        with end_of(child, self._selector):
            while (code := child.poll()) is None:
                over = self.ending.begun or self.lost_hosts or self.lost_output
                if over if until is None else time.monotonic() >= until:
                    return None
                self._hear(None if until is None else max(0.0, until - time.monotonic()))
        return code

    def drain(self, seconds: float) -> None:
        """Hear what is still to be said, and bring back the files of the job."""
        until = time.monotonic() + seconds
        while not (self.all_have_left() or self.lost_hosts) and (left := until - time.monotonic()) > 0:
            self._hear(left)
        for link in self._links.values():
            link.say({"collect": list(self._carried.values())})
        while not all(link.collected or link.lost for link in self._links.values()):
            self._hear(LOOK_SECONDS)
        self._text.finish()

    def all_have_left(self) -> bool:
        """Return whether every element that has connected has said farewell, or is dead."""
        return len(self.ending.waits) + len(self.ending.lost) >= sum(map(len, self._met.values()))

    def last_moments(self, element: int) -> LastMoments:
        """Return the last that is known of a dead element, on any host."""
        return self._moments.get(element, LastMoments())

    def close(self) -> None:
        """End the daemons, and with them all processes of the job, on every host."""
        for link in self._links.values():
            link.say({"end": True})
        until = time.monotonic() + 2 * GRACE
        for link in self._links.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                link.process.wait(0.0 if link.lost else max(0.0, until - time.monotonic()))
            link.end()
        for connection in (self._listener, *self._asked.values()):
            connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # it is here, too, where no element runs
        self._selector.close()

    # --------------------------------------------------------------------------- messages

    def _hear(self, seconds: float | None) -> None:
        """Wait for messages, at most to the next look at who is silent."""
        left = max(0.0, self._next_look - time.monotonic())
        for key, _ in self._selector.select(left if seconds is None else min(left, seconds)):
            if key.data is not None:
                key.data()
        if time.monotonic() >= self._next_look:
            for link in self._links.values():
                if link.silence.look() and link.hello and not link.lost and not link.only_waits():
                    self._lose(link, "is silent")
                link.say({})
            self._look_at_job()
            self._next_look = time.monotonic() + LOOK_SECONDS

    def _look_at_job(self) -> None:
        """Find out why a job does not go on, as far as hosts are the reason: MPI would wait without a word."""
        now, at = time.monotonic(), self.superstep()
        if now > self._late_at:
            self._late_at = math.inf
            late = [host for host in self._links if len(self._met.get(host, [])) < len(self.elements_of(host))]
            if late:
                text = f"bsprun: note: after {_LATE_SECONDS:.0f} s, elements have not started on {', '.join(late)}\n"
                self._text.write(2, text.encode(), "", then=lambda _: None)
        if at != self._at[0]:
            self._at = (at, now + _STILL_SECONDS)
        elif now > self._at[1]:
            self._at = (at, now + _STILL_SECONDS)
            for link in self._fine():
                if link.reached and not link.trying:
                    link.trying = True
                    link.say({"reach": self._places(link.reached)})

    def _compare(self, link: DaemonLink, reached: dict[str, list[str]]) -> None:
        """Note which hosts a host reaches.  One that it cannot reach twice in a row, during the job, ends it."""
        before, link.reached, link.trying = link.reached, reached, False
        for host, addresses in reached.items():
            if before is not None and not addresses and not before[host]:
                self._lose(link, f"can no longer connect to host {host} (a firewall?)")

    def _read(self, link: DaemonLink) -> None:
        assert link.process.stdout is not None
        piece = os.read(link.process.stdout.fileno(), _PIECE)
        if not piece:
            with contextlib.suppress(subprocess.TimeoutExpired):
                link.process.wait(GRACE)
            self._lose(link, "closed its connection")
            return
        link.silence.heard()
        for message, data in link.reader.feed(piece):
            self._on(link, message, data)

    def _lose(self, link: DaemonLink, why: str) -> None:
        if not link.lost and link.process.stdout is not None:
            link.lost = why
            self._selector.unregister(link.process.stdout)
            self.lost_hosts.append(link.host)

    def _on(self, link: DaemonLink, message: Message, data: bytes) -> None:
        match message:
            case {"hello": found}:
                link.hello, link.hello_at = found, time.time()
                link.greetings = link.complaints.stat().st_size
            case {"versions": versions}:
                link.versions = versions
            case {"ready": _}:
                link.ready = True
            case {"at": superstep, "clock": clock}:
                link.at = superstep
                link.behind = min(link.behind, time.monotonic() - clock)
            case {"wrong": text}:
                link.wrong = text
            case {"ports": ports}:
                link.ports = ports
            case {"reached": reached}:
                self._compare(link, reached)
            case {"text": stream}:
                self._text.write(
                    stream, data, link.host,
                    then=lambda taken: link.say({"written": len(data)} if taken else {"closed": stream}),
                )  # fmt: skip
            case {"more": _}:
                self._send_input()
            case {"file": name}:
                self._keep(name, data)
            case {"collected": _}:
                link.collected = True
            case {"exited": number, "status": status}:
                answer = {"status": status & 0xFF, "said": data.decode(errors="replace")}
                with contextlib.suppress(OSError), self._asked.pop(number) as connection:
                    connection.sendall(json.dumps(answer).encode() + b"\n")
            case {"ending": told}:
                self._add(link, told)

    def _keep(self, name: str, data: bytes) -> None:
        """Write a file that elements have written on their host to where it belongs here."""
        room, _, rest = name.partition("/")
        for local, carried in self._carried.items():
            if carried == room and rest and ".." not in rest.split("/"):
                path = Path(local, rest)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def _add(self, link: DaemonLink, told: Message) -> None:
        """Add what the elements of one host have told to what is known of all."""
        self._met[link.host] = told["met"]
        if told["status"] is not None:
            self.ending.status, self.ending.said, self.ending.failed = told["status"], told["said"], told["failed"]
        self.ending.waits.update({int(element): threads for element, threads in told["waits"].items()})
        # one death has others as its consequence: the first by the clock counts, not the first that we hear of
        lost = self.ending.lost | {int(element): when + link.behind for element, when in told["lost"].items()}
        self.ending.lost = dict(sorted(lost.items(), key=lambda found: found[1]))
        self._moments.update({int(element): LastMoments(*found) for element, found in told["moments"].items()})

    # ----------------------------------------------------------------- MPI's remote shell

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._run(connection))

    def _run(self, connection: socket.socket) -> None:
        """Pass on the command of MPI's launcher; it is answered when the command has ended."""
        self._selector.unregister(connection)
        with connection.makefile("r") as asked:
            request = json.loads(asked.readline() or "{}")
        link = self._links.get(request.get("host", ""))
        if link is None:
            connection.close()
            return
        number = connection.fileno()
        self._asked[number] = connection
        link.say({"run": {"number": number, "command": request["command"]}})

    # ----------------------------------------------------------------------- text and input

    def _send_input(self) -> None:
        """Send element 0 the next piece of our standard input; it asks for more when it has taken that."""

        def send() -> None:
            piece = os.read(0, _PIECE)
            self._links[self._names[0]].say({"input": bool(piece)}, piece)

        threading.Thread(target=send, daemon=True).start()


def _is_of_a_host(name: str) -> bool:
    return name in NAMES_OF_A_HOST or name.startswith(PREFIXES_OF_A_HOST)
