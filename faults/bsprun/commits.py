"""Checkpoints that are being committed, by a background thread: a slow disk does not keep bsprun from its agents."""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bsp.faults.bsprun.job import Job
from bsp.faults.checkpoints.folder import commit, discard, name_at
from bsp.faults.errors import CheckpointError
from bsp.faults.protocol.messages import Commit


class Commits:
    """The commits of one incarnation."""

    def __init__(self, job: Job) -> None:
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # readable when a commit has ended
        self._job = job
        self._settled: queue.SimpleQueue[tuple[Commit, str]] = queue.SimpleQueue()

    def write(self, effect: Commit, head: dict[str, Any]) -> None:
        """Commit a checkpoint; `ended` tells when that is done.

        head : what the checkpoint holds beside the bundles' states.
        """
        job, parts = self._job, [part for part, _, _ in effect.parts]
        name = name_at(effect.parts[0][1])

        def work() -> None:
            wrong = ""
            try:
                commit(Path(job.checkpoints), job.key, name, job.identity, parts, head, job.asked.keep)
            except (OSError, CheckpointError) as error:
                wrong = str(error)
            self._settled.put((effect, wrong))
            os.eventfd_write(self.bell, 1)

        job.disk.do(work)

    def discard(self, superstep: int) -> None:
        """Remove what has been written of a checkpoint."""
        folder = Path(self._job.checkpoints)
        self._job.disk.do(lambda: discard(folder, name_at(superstep)))

    def ended(self) -> Iterator[tuple[Commit, str]]:
        """Yield the commits that have ended since the last call, with the error, if any."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)
        while not self._settled.empty():
            yield self._settled.get()

    def close(self, seconds: float) -> bool:
        """Wait for a checkpoint that is being committed; return whether it ended in time."""
        ended = self._job.disk.finish(seconds)
        os.close(self.bell)
        return ended
