"""Orders, in which bsprun sends its whole state to all elements each time (rule N14)."""

from __future__ import annotations

from dataclasses import dataclass

from bsp.faults.protocol.messages.views import View


@dataclass(frozen=True, slots=True)
class Hold:
    """The order to stop all clones at one head (N13)."""

    number: int
    target: int | None  # the common head; None until every bundle has named its next head


@dataclass(frozen=True, slots=True)
class Orders:
    """The state of bsprun, as it sends it to every element (N14)."""

    view: View
    hold: Hold | None = None
    raised: tuple[tuple[int, int], ...] = ()  # (bundle, exchange): the exception belongs to the program (N12)
    writes: tuple[tuple[int, int, int], ...] = ()  # (bundle, element, head): writer of each part of a checkpoint
    printed: int = 0  # bytes of standard output that have been written
    released: int = -1  # checkpoints of heads up to this one are settled, whether written or not
    end: bool = False  # the job is over: every element leaves (N8)
    allowance: float = 0.0  # seconds added to every limit of silence (N3)
    settled: int = -1  # no round before this head is run again, but for those in `repeats`; see OnceValues
    repeats: tuple[tuple[int, int], ...] = ()
    number: int = 0  # a larger number is newer; 0: not numbered
    heard: tuple[tuple[int, int], ...] = ()  # (element, number of its newest report): from its time its lease runs (N9)
