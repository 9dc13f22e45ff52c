"""Whose a file is: asked of every imported module at each head of a rehearsal, and found out once."""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from typing import Any

import numpy as np
import pytest

import bsp
from bsp.checking import names


def test_files_are_the_users_unless_they_are_installed_ours_or_made_up() -> None:
    assert names.is_users(__file__)
    for other in (os.__file__, np.__file__, bsp.__file__, "<frozen importlib._bootstrap>"):
        assert not names.is_users(other)
    assert not names.is_users(os.path.join(sysconfig.get_path("purelib"), "some.py"))


@pytest.mark.thorough
@pytest.mark.solo
def test_each_file_is_resolved_once_however_many_processes_and_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: Counter[str] = Counter()
    realpath = os.path.realpath

    def counting(path: Any, **options: Any) -> Any:
        resolved[str(path)] += 1
        return realpath(path, **options)

    def main(proc: bsp.Process) -> None:
        state = bsp.State(total=0.0)
        for _ in proc.rounds(4, state):
            state.total += proc.allreduce(1.0)

    names.is_users.cache_clear()
    monkeypatch.setattr(os.path, "realpath", counting)
    bsp.run(main, nprocs=3, check=True)
    modules = {path: times for path, times in resolved.items() if path.endswith(".py")}
    assert __file__ in modules
    assert set(modules.values()) == {1}
