"""Hosts on one Linux machine: each with processes, a network, a name, a /tmp and a /dev/shm of its own, and sshd.

`Cluster(3)` makes three hosts, h1 to h3, joined by a switch whose links can be shaped (`rate="1gbit"`), cut and
healed; a host can be powered off (to the others: silence), crashed (its connections are closed), and powered on
again.  Hosts and switch are namespaces of processes that end with the process that made them, however it ends, so
nothing stays behind.  By hand: `make hosts`, a shell on h1.  Needs root, iproute2 and openssh-server (`missing()`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from bsp.host import die_with_parent

_NETWORK = "10.77.0"
_TOOLS = {
    "ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "/usr/sbin/sshd": "openssh-server",
    "ssh": "openssh-client",
}  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 30.0
_SERVICES = ("sshd", "munged", "slurmd", "slurmctld", "slurmstepd")


def missing() -> str:
    """Return why this machine cannot make hosts; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts need Linux and root"
    packages = sorted({package for tool, package in _TOOLS.items() if shutil.which(tool) is None})
    if packages:
        return f"hosts need {', '.join(packages)}"
    spaces = ["unshare", "--net", "--pid", "--fork", "--mount", "--uts"]
    bridge = ["ip", "link", "add", "name", "switch", "type", "bridge"]
    tried = subprocess.run([*spaces, *bridge], capture_output=True, text=True, check=False)
    return f"namespaces or bridges are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


class Host:
    """One host: `name`, `address`, and whether it is on."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.name = f"h{number}"
        self.address = f"{_NETWORK}.{number}"
        self.rack = ""
        self._cluster = cluster
        self._first: subprocess.Popen[str] | None = None

    def __repr__(self) -> str:
        return f"<host {self.name}>"

    def _enter(self) -> list[str]:
        assert self._first is not None, f"{self.name} is off"
        return ["nsenter", "-t", str(self._pid), "--mount", "--uts", "--net", "--pid", f"--wdns={self._cluster.share}"]

    def power_on(self) -> None:
        """Start the host's first process, connect it to the switch, and wait for its sshd."""
        cluster = self._cluster
        self._log = open(cluster.share / f"{self.name}.log", "a")  # noqa: SIM115 - open until the host is off
        description = {
            "name": self.name,
            "keep": [str(ROOT), str(cluster.share)],
            **cluster.setup(self),
        }
        self._first = subprocess.Popen(
            ["unshare", "--pid", "--mount", "--net", "--uts", "--fork", "--kill-child", sys.executable,
             str(Path(__file__).with_name("first_process.py")), json.dumps(description)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, preexec_fn=die_with_parent,
            env={**os.environ, **cluster.environment()},
        )  # fmt: skip
        assert self._first.stdout is not None and self._first.stdin is not None
        if self._first.stdout.readline() != "ready\n":
            raise RuntimeError(f"{self.name} did not start")
        (self._pid,) = (child.pid for child in psutil.Process(self._first.pid).children())
        cluster.plug(self, self._pid)
        self._first.stdin.write("\n")
        self._first.stdin.flush()
        self._wait_for_ssh()

    def _wait_for_ssh(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while self.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/22"], check=False).returncode:
            if time.monotonic() > until:
                raise RuntimeError(f"sshd of {self.name} did not start")
            time.sleep(0.02)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command on this host; `options` of subprocess.Popen."""
        options.setdefault("env", self._cluster.environment())
        return subprocess.Popen([*self._enter(), *command], preexec_fn=die_with_parent, **options)

    def run(
        self, command: Sequence[str], timeout: float = 120.0, check: bool = False, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this host to its end."""
        options = {"capture_output": True, "text": True, "env": self._cluster.environment(), **options}
        return subprocess.run([*self._enter(), *command], timeout=timeout, check=check, **options)

    def processes(self) -> list[psutil.Process]:
        """Return the processes of this host, without its services and its first one."""
        if self._first is None:
            return []
        space = os.readlink(f"/proc/{self._pid}/ns/pid")
        found = []
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if process.pid == self._pid or os.readlink(f"/proc/{process.pid}/ns/pid") != space:
                    continue
                if process.status() != psutil.STATUS_ZOMBIE and not process.name().startswith(_SERVICES):
                    found.append(process)
        return found

    def cut(self) -> None:
        """Take the host's link down, without a word to anybody."""
        self._cluster.on_switch("ip", "link", "set", self.name, "down")

    def heal(self) -> None:
        """Bring the link up again."""
        self._cluster.on_switch("ip", "link", "set", self.name, "up")

    def by_hand(self) -> str:
        """Return the command that opens a shell here, for somebody at another terminal."""
        return f"nsenter -t {self._pid} -a --wd={self._cluster.share} hostname   # or bash, or kill -9 of a process"

    def heal_or_power_on(self) -> None:
        """Make the host one that others can reach."""
        if self._first is None:
            self.power_on()
        else:
            self.heal()

    def power_off(self) -> None:
        """End the host as a power cut does: the others hear nothing of it."""
        self.cut()
        self.crash()

    def crash(self) -> None:
        """Kill all processes of the host; the kernel closes their connections."""
        if self._first is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._first.wait()
        for pipe in (self._first.stdin, self._first.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._log.close()
        self._first = None


def _burst(rate: str) -> str:
    """Return how much may pass a link at once: a millisecond's worth, between what tbf needs and what it has need of.

    Less slows a link of 10 Gb/s down; more lets the words of a whole superstep pass a slow one for nothing.
    """
    number, unit = re.fullmatch(r"(\d+)([mg])bit", rate).groups()  # type: ignore[union-attr]
    kilobytes = int(number) * {"m": 1, "g": 1000}[unit] // 8
    return f"{min(max(kilobytes, 16), 256)}kb"


class Cluster:
    """Hosts h1, h2, ... and the switch between them; a context manager.

    rate : of each host's link, both ways, as tc writes it: "1gbit".  Empty: as fast as the machine.
    share : a folder that all hosts see, for programs; nothing else but the checkout and the system is common.
    """

    def __init__(self, number: int, rate: str = "") -> None:
        self.rate = rate
        self.share = Path(tempfile.mkdtemp(prefix="bsp-hosts-")).resolve()
        self._switch: subprocess.Popen[str] | None = None
        self.hosts = [Host(self, k + 1) for k in range(number)]

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._make_keys()
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._switch = subprocess.Popen(["unshare", "--net", "cat"], preexec_fn=die_with_parent, **pipes)
        assert self._switch.stdin is not None and self._switch.stdout is not None
        self._switch.stdin.write("ready\n")
        self._switch.stdin.flush()
        self._switch.stdout.readline()  # unshare has become cat
        self.on_switch("ip", "link", "add", "switch", "type", "bridge")
        self.on_switch("ip", "link", "set", "switch", "up")
        for host in self.hosts:
            host.power_on()

    def close(self) -> None:
        """End all hosts and the switch."""
        for host in self.hosts:
            host.crash()
        if self._switch is not None:
            self._switch.kill()
            self._switch.communicate()
            self._switch = None
        shutil.rmtree(self.share, ignore_errors=True)

    def on_switch(self, *command: str) -> None:
        """Run a command in the network of the switch, where each host's link has the host's name."""
        assert self._switch is not None
        subprocess.run(["nsenter", "-t", str(self._switch.pid), "--net", *command], check=True, capture_output=True)

    def plug(self, host: Host, pid: int) -> None:
        """Connect a host to the switch, and shape the link."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.on_switch("ip", "link", "del", host.name)
        # one hardware address for good: the others remember it, and would not find a host that is on again
        hardware = f"02:00:00:00:00:{int(host.address.rpartition('.')[2]):02x}"
        peer = ["peer", "name", "eth0", "address", hardware, "netns", str(pid)]
        self.on_switch("ip", "link", "add", host.name, "type", "veth", *peer)
        self.on_switch("ip", "link", "set", host.name, "master", "switch", "up")
        inside = ["nsenter", "-t", str(pid), "--net"]
        for command in (["addr", "add", f"{host.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"]):
            subprocess.run([*inside, "ip", *command], check=True, capture_output=True)
        if self.rate:
            shape = ["root", "tbf", "rate", self.rate, "burst", _burst(self.rate), "latency", "50ms"]
            self.on_switch("tc", "qdisc", "replace", "dev", host.name, *shape)
            subprocess.run([*inside, "tc", "qdisc", "replace", "dev", "eth0", *shape], check=True, capture_output=True)

    def environment(self) -> dict[str, str]:
        """Return the environment of commands on hosts: this interpreter's commands on PATH."""
        path = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        # the hosts share the machine's cores: elements that each host binds to its first core would meet there
        unbound = {"PRTE_MCA_hwloc_default_binding_policy": "none"}
        # jobs of other tests have their files in the user's own folder
        state = {"XDG_STATE_HOME": str(self.share / "state")}
        return {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **unbound, **state}

    def setup(self, host: Host) -> Mapping[str, Any]:
        """Return what a host's first process lays over the machine's files, and starts."""
        names = "".join(f"{each.address} {each.name}\n" for each in self.hosts)
        # a login by ssh reads it: a lock that it takes there (pyenv's) would outlast a host that is killed meanwhile
        login = Path.home() / ".bashrc"
        return {
            "files": {
                "/etc/hosts": f"127.0.0.1 localhost\n{names}",
                "/etc/hostname": f"{host.name}\n",
                # by which communication libraries tell whether two processes share a machine, and so its memory
                "/proc/sys/kernel/random/boot_id": f"{uuid.uuid4()}\n",
                "/etc/ssh/ssh_config": _SSH.format(key=self.share / "key"),
                **({str(login): ""} if login.is_file() else {}),
            },
            "folders": ["/run/sshd"],
            "services": [["/usr/sbin/sshd", "-D", "-e", "-f", str(self.share / "sshd_config")]],
        }

    def _make_keys(self) -> None:
        for key in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.share / key)], check=True)
        (self.share / "sshd_config").write_text(_SSHD.format(folder=self.share))


_SSH = """\
Host *
  IdentityFile {key}
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
_SSHD = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PidFile none
LogLevel ERROR
"""
