"""The folder for what nonstop jobs keep of a user: the key of checkpoints, the files of running jobs."""

from __future__ import annotations

import os
from pathlib import Path

from bsp.faults.errors import CheckpointError


def state_folder() -> Path:
    """Return `nonstop-bsp` in XDG_STATE_HOME, or in ~/.local/state.  Raises CheckpointError if there is no home."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        home = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:
        raise CheckpointError("there is no home folder: set XDG_STATE_HOME") from None
    return home / "nonstop-bsp"
