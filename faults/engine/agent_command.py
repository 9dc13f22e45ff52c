"""The command line and environment that start the agents of an incarnation, to be run or to be shown."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bsp.command.launch import Launch
from bsp.faults.checkpoints.folder import Checkpoint
from bsp.faults.engine.job import Resilience
from bsp.faults.engine.wire import SECRET
from bsp.host import cores


@dataclass(frozen=True)
class Command:
    """Everything that the command line of an incarnation depends on."""

    launch: Launch
    asked: Resilience
    mpiexec: str
    elements: int  # standbys included
    folder: str  # for files that are deleted with the job
    checkpoints: str
    job: str  # digest of the job's identity
    incarnation: int = 0
    resume: Checkpoint | None = None

    def words(self, host: str, port: int) -> list[str]:
        """Return mpiexec's command line, for a bsprun that listens at `host` and `port`."""
        launch, asked = self.launch, self.asked
        settings = {
            "bsprun": (host, port),
            "bundles": launch.elements,
            "nprocs": launch.nprocs,
            "seed": launch.seed,
            "machine": launch.machine,
            "every": asked.limits.every,
            "limits": asdict(asked.limits),
            "inject": asked.inject if self.incarnation == 0 else None,
            "checkpoint": self.checkpoints,
            "job": self.job,
            "spins": launch.local and self.elements <= cores(),
        }
        if self.resume is not None:
            parts = [tuple(asdict(part).values()) for part in self.resume.parts]
            settings["resume"] = str(Path(self.checkpoints) / self.resume.name), parts
        flags = ["--with-ft", "ulfm"]
        if self.elements > cores() and launch.local:
            flags.append("--oversubscribe")
        flags += ["--bind-to", "none"]
        if not launch.local:
            for name in sorted({SECRET, *launch.environment()}):
                flags += ["-x", name]
        if launch.hosts is not None:
            flags += ["--host", ",".join(f"{host.name}:{host.slots}" for host in launch.hosts)]
        agent = [sys.executable, "-m", "bsp.faults.engine.agent", json.dumps(settings), *launch.program]
        return [self.mpiexec, *flags, *launch.mpi_args, "-n", str(self.elements), *agent]

    def environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return the variables to be added to our environment, without the job's secret."""
        extra = self.launch.environment()
        if self.launch.local:
            base = os.path.join(self.folder, f"mpi-{self.incarnation}")
            extra["PRTE_MCA_prte_tmpdir_base"] = ours.get("PRTE_MCA_prte_tmpdir_base", base)
        return extra

    def line(self, host: str, port: int) -> str:
        """Return environment and command line as one line for a shell."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.environment(os.environ).items())]
        return " ".join([*settings, shlex.join(self.words(host, port))])
