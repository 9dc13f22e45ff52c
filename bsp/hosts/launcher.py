"""How a command is run on a host: as a child here, by srun in a Slurm allocation, or by ssh."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence

from bsp.errors import LaunchError
from bsp.hosts.listing import is_here, repeated

_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8", "-T")
DAEMON = (sys.executable, "-m", "bsp.hosts.daemon")


def reaching(
    host: str,
    by: str | None = None,
    command: Sequence[str] = DAEMON,
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Return the command that runs another one on a host, by default this job's daemon, on our standard streams.

    by : what to put before it, with `{host}` in the place of the name, such as 'kubectl exec -i {host} --'.
    """
    if is_here(host):
        return list(command)
    if by is not None:
        return [*shlex.split(by.replace("{host}", host)), *command]
    if "SLURM_JOB_ID" in environment and "SLURM_JOB_NODELIST" in environment:
        # a step of its own beside other steps, with all of the host's cores and memory
        return [
            "srun", "--overlap", "--quiet", "--unbuffered", "--nodes=1", "--ntasks=1", f"--nodelist={host}", "--mem=0",
            f"--cpus-per-task={_cores(environment)}", "--cpu-bind=none", "--export=ALL", *command,
        ]  # fmt: skip
    return [*_SSH, host, shlex.join(("env", f"PYTHONPATH={environment.get('PYTHONPATH', '')}", *command))]


@contextlib.contextmanager
def starting(host: str, command: Sequence[str]) -> Iterator[None]:
    """Inside, a command from `reaching` is started; raise LaunchError that names the host if there is no such one."""
    try:
        yield
    except OSError as wrong:
        raise LaunchError(f"host {host}: '{command[0]}' cannot be started here: {wrong.strerror}") from None


def wrong_reach(by: str) -> str:
    """Return why a text is no command that reaches a host; "" if it may be one."""
    try:
        words = shlex.split(by)
    except ValueError as wrong:
        return str(wrong).lower()
    if not words:
        return "no command"
    return "" if any("{host}" in word for word in words) else "it does not say where"


def why_not_started(host: str, said: str, status: int | None, otherwise: str) -> str:
    """Return why a command could not be run on a host, in a line that says what to do.

    said : the last line on standard error on the way there.  otherwise : what is known in any case.
    status : of the command that `reaching` made; None while it runs.
    """
    python = sys.executable
    if "No module named" in said:
        return f"{python} lacks nonstop-bsp there, or what it needs ({said}): install it there, in the same place"
    if status == 127 or "No such file" in said or "not found" in said:
        return f"there is no {python} there: programs and Python must be installed at the same place on every host"
    if status == 126:
        return f"{python} cannot be run there ({said}): is it, and each folder above it, open to you on that host?"
    if "ermission denied" in said:
        return f"ssh is refused ({said}): bsprun needs a login without a password (ssh-copy-id {host})"
    if "Host key verification failed" in said:
        return f"ssh does not trust it ({said}): its key is new here, or has changed; log in once by hand: ssh {host}"
    if "resolve" in said:
        return f"its name cannot be resolved ({said})"
    if "node configuration is not available" in said:
        return f"it is no node of this Slurm allocation ({said})"
    if "timed out" in said or "No route" in said or "refused" in said:
        return f"cannot be reached ({said})"
    known = ([] if status is None else [f"status {status}"]) + ([said] if said else [])
    return f"{otherwise} ({': '.join(known)})" if known else otherwise


def _cores(environment: Mapping[str, str]) -> int:
    """Return the cores of the smallest host in the allocation: srun refuses more than there are."""
    counts = environment.get("SLURM_JOB_CPUS_PER_NODE", "1")
    number = int(environment.get("SLURM_JOB_NUM_NODES", environment.get("SLURM_NNODES", "1")))
    return min(repeated(counts, number))
