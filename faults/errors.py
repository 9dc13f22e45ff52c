"""Exceptions of cloned execution; the others are in `bsp.errors`."""

from __future__ import annotations

from bsp.errors import BspError


class CheckpointError(BspError, ValueError):
    """There is no usable checkpoint or key: missing, damaged, forged, open to other users, or another job's."""
