"""The limits of the protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the protocol; times are in seconds."""

    tail_limit: float = 5.0  # T: a computation longer than T * max(MinTime, floor) is a tail (N2)
    floor: float = 0.05  # least value used for MinTime, because equal rounds vary on a loaded machine
    hang_limit: float = 10.0  # an element that is silent for longer is fenced (N2)
    grace: float = 0.002  # until a large packet is asked of others than the designated sender (N1)
    patience: float = 0.1  # until a missing packet is asked for again (N1)
    beat: float = 0.1  # between signs of life
    alone: float = 5.0  # without a word from bsprun, after which an element's permissions have lapsed (N9)
    orphan: float = 0.0  # without a word from bsprun, after which an element ends itself; at least `alone`
    inline: int = 1 << 15  # bytes; larger packets travel outside the announcement
    retention: int = 1 << 32  # bytes an element retains for others before it reports the clone that lags most (N6)
    linger: float = 0.5  # for siblings to compare results after every bundle has an ended clone (N8)
    relaunches: int = 3  # of a clone's worker within one superstep (N12)
    every: int = 0  # rounds between checkpoints; 0: no checkpoints
