"""What cloned execution raises on purpose; the rest is in `bsp.errors`."""

from __future__ import annotations

from bsp.errors import BspError


class CheckpointError(BspError, ValueError):
    """A folder without checkpoints, or a checkpoint that is damaged or does not fit."""
