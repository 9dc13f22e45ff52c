"""How often Python's garbage collector looks for cycles where several processes share an interpreter."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MOST = 100_000  # new objects between two collections: some 10 MB


@contextmanager
def collected_for(processes: int) -> Iterator[None]:
    """Let so many processes together make as many objects between two collections as each of them would alone.

    The collector counts the objects of all.  Otherwise it would run k times as often for k processes, and each time
    look at the messages that all of them have issued and that no superstep has delivered yet: half of the time of a
    sort by 512 processes.  What a program sets itself stays.
    """
    before = gc.get_threshold()
    ours = (max(before[0], min(processes * before[0], MOST)), *before[1:])
    gc.set_threshold(*ours)
    try:
        yield
    finally:
        if gc.get_threshold() == ours:
            gc.set_threshold(*before)
