"""Profiles of processes that share an interpreter: each counts the calls of its own turns (see `profilers`).

`bsprun --profile DIR` gives every process a profiler.  It writes DIR/process-N.pstats for each, and DIR/merged.pstats
of all together, with one entry for each pair of a function and the boundary that ended the superstep it ran in, or
AFTER.
"""

from __future__ import annotations

import cProfile
import os
import pstats
from collections.abc import Callable, Sequence
from typing import Any

AFTER = "after the last superstep"

_Key = tuple[str, int, str]  # file, line, function
_Times = tuple[int, int, float, float]  # calls without recursion, all calls, own time, time with what it called


class ProcessProfile:
    """The profile of one process, divided by supersteps.

    by_place : for each boundary, by its label or source line, the times of the functions in the supersteps it ended;
    for AFTER, those of calls that ended after the last one.
    """

    def __init__(self) -> None:
        self._profile = cProfile.Profile()
        self._before: dict[_Key, _Times] = {}
        self.by_place: dict[str, dict[_Key, _Times]] = {}

    def run(self, body: Callable[[], Any]) -> Any:
        """Return `body()`, run under the profiler."""
        self._profile.enable()
        try:
            return body()
        finally:
            self._profile.disable()
            self.superstep_ended(AFTER)

    def superstep_ended(self, place: str) -> None:
        """Assign the calls since the end of the last superstep to the boundary at `place`."""
        now = self._times()
        at = self.by_place.setdefault(place, {})
        for key, times in now.items():
            new = tuple(t - b for t, b in zip(times, self._before.get(key, (0, 0, 0.0, 0.0)), strict=True))
            if any(new):
                at[key] = _sum(at.get(key), new)  # type: ignore[arg-type]
        self._before = now

    def _times(self) -> dict[_Key, _Times]:
        """Return the times of all functions so far."""
        found: dict[_Key, _Times] = {}
        for entry in self._profile.getstats():
            code = entry.code
            key = ("~", 0, code) if isinstance(code, str) else (code.co_filename, code.co_firstlineno, code.co_name)
            times = entry.callcount - entry.reccallcount, entry.callcount, entry.inlinetime, entry.totaltime
            found[key] = _sum(found.get(key), times)
        return found

    def dump(self, path: str) -> None:
        """Write the profile to a file for `python -m pstats` and similar tools."""
        self._profile.dump_stats(path)


def _sum(a: _Times | None, b: _Times) -> _Times:
    """Return the sum of two times; `a` None counts as zero."""
    return b if a is None else (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])


def process_file(folder: str, pid: int) -> str:
    """Return the path of one process's profile."""
    return os.path.join(folder, f"process-{pid}.pstats")


def write_merged(folder: str, parts: Sequence[dict[str, dict[_Key, _Times]]]) -> None:
    """Write DIR/merged.pstats: the profiles of all processes, by function and boundary that ended its superstep."""
    merged: dict[_Key, _Times] = {}
    for part in parts:
        for place, functions in part.items():
            for (file, line, name), times in functions.items():
                key = file, line, f"{name} [{place}]"
                merged[key] = _sum(merged.get(key), times)
    stats: Any = pstats.Stats()
    stats.stats = {key: (*times, {}) for key, times in merged.items()}
    stats.dump_stats(os.path.join(folder, "merged.pstats"))
