"""What the runtime chose between, and at which prices: for plans of a program and for traces."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """What was chosen between, and at which prices in flop-times."""

    call: str
    chosen: str
    forced: bool  # whether the program named it
    priced: tuple[tuple[str, float], ...]
