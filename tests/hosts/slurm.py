"""A Slurm cluster on test hosts: slurmctld on h1, slurmd and munged on every host (Debian's packages)."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from typing import Any

from hosts.cluster import Cluster, Host
from hosts.cluster import missing as hosts_missing

_PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
_START_SECONDS = 60.0

# config_overrides: a node has the cores that we say, not those of the machine
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=5
NodeName={nodes} CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Return why this machine cannot make a Slurm cluster; empty if it can."""
    packages = sorted({package for tool, package in _PACKAGES.items() if shutil.which(tool) is None})
    return hosts_missing() or (f"Slurm needs {', '.join(packages)}" if packages else "")


class SlurmCluster(Cluster):
    """Test hosts that are the nodes of a Slurm cluster, with `cores` each; commands run on h1."""

    def __init__(self, number: int, cores: int = 2, rate: str = "") -> None:
        super().__init__(number, rate)
        self._folder = self.share / "slurm"
        self._folder.mkdir()
        (self._folder / "slurm.conf").write_text(
            _CONFIGURATION.format(controller="h1", nodes=f"h[1-{number}]", cores=cores)
        )
        # slurmd looks for control groups; an empty folder of the first version's kind is enough for it
        (self._folder / "cgroups").mkdir()
        (self._folder / "cgroup.conf").write_text(
            f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={self._folder / 'cgroups'}\n"
        )
        key = self._folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))

    def _start(self) -> None:
        super()._start()
        until = time.monotonic() + _START_SECONDS
        while (idle := self.idle()) < len(self.hosts):
            if time.monotonic() > until:
                raise RuntimeError(f"only {idle} of {len(self.hosts)} nodes of the Slurm cluster are ready")
            time.sleep(0.1)

    def idle(self) -> int:
        """Return how many nodes are ready."""
        said = self.hosts[0].run(["sinfo", "--json"])
        if said.returncode:
            return 0
        return sum(node["state"].lower() == "idle" for node in json.loads(said.stdout)["nodes"])

    def environment(self) -> dict[str, str]:
        """Return the environment of commands, with the configuration of this cluster."""
        return super().environment() | {"SLURM_CONF": str(self._folder / "slurm.conf")}

    def setup(self, host: Host) -> Mapping[str, Any]:
        """Return what a host's first process starts: munged and slurmd too, slurmctld on h1."""
        found = super().setup(host)
        munged = ["munged", "--foreground", "--force", f"--key-file={self._folder / 'munge.key'}"]
        munged += [f"--{name}-file=/run/munge/{name}" for name in ("log", "pid", "seed")]
        services = [*found["services"], munged]
        if host is self.hosts[0]:
            services.append(["slurmctld", "-D"])
        services.append(["slurmd", "-D", "-N", host.name])
        folders = [*found["folders"], "/run/munge", "/run/slurmd", "/run/slurmctld"]
        return {**found, "folders": folders, "services": services}
