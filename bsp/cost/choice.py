"""The record of a choice between algorithms, for `Process.plan` and traces."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """A choice between algorithms: the one chosen, and the prices of all in flop-times."""

    call: str
    chosen: str
    forced: bool  # whether the program named the algorithm
    priced: tuple[tuple[str, float], ...]
