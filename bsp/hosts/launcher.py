"""How a command is run on a host: as a child here, by srun in a Slurm allocation, or by ssh."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping

from bsp.hosts.listing import is_here, repeated

_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=8", "-T")
DAEMON = (sys.executable, "-m", "bsp.hosts.daemon")


def reaching(host: str, by: str | None = None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command that runs this job's daemon on a host, connected to our standard streams.

    by : what to put before it, with `{host}` in the place of the name, such as 'kubectl exec -i {host} --'.
    """
    if is_here(host):
        return list(DAEMON)
    if by is not None:
        return [*shlex.split(by.replace("{host}", host)), *DAEMON]
    if "SLURM_JOB_ID" in environment and "SLURM_JOB_NODELIST" in environment:
        # a step of its own beside other steps, with all of the host's cores and memory
        return [
            "srun", "--overlap", "--quiet", "--unbuffered", "--nodes=1", "--ntasks=1", f"--nodelist={host}", "--mem=0",
            f"--cpus-per-task={_cores(environment)}", "--cpu-bind=none", "--export=ALL", *DAEMON,
        ]  # fmt: skip
    return [*_SSH, host, shlex.join(("env", f"PYTHONPATH={environment.get('PYTHONPATH', '')}", *DAEMON))]


def _cores(environment: Mapping[str, str]) -> int:
    """Return the cores of the smallest host in the allocation: srun refuses more than there are."""
    counts = environment.get("SLURM_JOB_CPUS_PER_NODE", "1")
    number = int(environment.get("SLURM_JOB_NUM_NODES", environment.get("SLURM_NNODES", "1")))
    return min(repeated(counts, number))
