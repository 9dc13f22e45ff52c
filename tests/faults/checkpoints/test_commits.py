"""Commits of checkpoints by bsprun: each one ends, with an error or without."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bsp.faults.bsprun.background import Aside
from bsp.faults.bsprun.commits import Commits
from bsp.faults.checkpoints.folder import name_at, write_part
from bsp.faults.checkpoints.key import Key
from bsp.faults.protocol.messages import Commit


def test_a_part_that_was_changed_before_the_commit_is_told_and_later_checkpoints_are_written(tmp_path: Path) -> None:
    asked: Any = SimpleNamespace(keep=2)
    key = Key(b"the key of these tests, 32 or more", "these tests")
    job: Any = SimpleNamespace(disk=Aside(), checkpoints=str(tmp_path), key=key, identity={}, asked=asked)
    commits = Commits(job)
    for superstep in (10, 20):
        part = write_part(tmp_path, name_at(superstep), 0, [b"a state"])
        if superstep == 10:
            (tmp_path / name_at(10) / part.file).write_bytes(b"short")
        commits.write(Commit(superstep, ((part, superstep, 0),)), {})
    assert job.disk.finish(30)
    told = {effect.head: wrong for effect, wrong in commits.ended()}
    assert told[10].endswith("has 5 bytes instead of 7")
    assert told[20] == ""
    commits.close(30)
