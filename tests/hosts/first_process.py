"""The first process of a test host: sets up its own files and services, then waits for the end of its children.

Started by `cluster.py` in new pid, mount, network and uts namespaces, with the host's description as JSON on the
command line.  When this process ends, the kernel ends every process of the host.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Call mount(2); the command would resolve a path under /proc/self/fd to a name that is hidden by now."""
    given = [text.encode() if text else None for text in (source, target, kind)]
    if _LIBC.mount(*given, ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def private_folders(keep: list[str]) -> None:
    """Give the host a /tmp, /dev/shm and /run of its own; the folders in `keep` stay where they are."""
    descriptors = {folder: os.open(folder, os.O_PATH) for folder in keep}
    mount("none", "/", flags=_REC | _PRIVATE)
    mount("proc", "/proc", "proc")
    for folder in ("/tmp", "/dev/shm", "/run"):
        mount("tmpfs", folder, "tmpfs", options="mode=1777" if folder != "/run" else "mode=755")
    for folder, descriptor in descriptors.items():
        os.makedirs(folder, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", folder, flags=_BIND | _REC)
        os.close(descriptor)


def own_files(files: dict[str, str], name: str) -> None:
    """Lay files of the host over the machine's: by the path of each, its contents."""
    for k, (path, text) in enumerate(files.items()):
        mine = Path(f"/run/own-{name}-{k}")
        mine.write_text(text)
        mount(str(mine), path, flags=_BIND)


def main() -> None:
    """Become the host that the command line describes."""
    host = json.loads(sys.argv[1])
    _LIBC.sethostname(host["name"].encode(), len(host["name"]))
    private_folders(host["keep"])
    own_files(host["files"], host["name"])
    for folder in host["folders"]:
        os.makedirs(folder, mode=0o755)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print("ready", flush=True)
    sys.stdin.readline()  # until the host has its network
    for command in host["services"]:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD])
    while True:  # the first process collects those whose parents have ended
        try:
            os.wait()
        except ChildProcessError:
            signal.sigwait([signal.SIGCHLD])


if __name__ == "__main__":
    main()
