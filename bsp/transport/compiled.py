"""The functions of small supersteps and of copies: in C where the package was installed with a compiler, else Python's.

With BSP_PURE_PYTHON=1 in the environment they are those in Python in any case.  Elements of one job may differ.
"""

from __future__ import annotations

import os

if os.environ.get("BSP_PURE_PYTHON"):
    COMPILED = False
else:
    try:
        from bsp.transport._compiled import apply, copy, fill, meeting, pack, places, read

        COMPILED = True
    except ImportError:  # there was no compiler
        COMPILED = False

if not COMPILED:
    from bsp.transport.copies import copy
    from bsp.transport.slots import fill, read
    from bsp.values.records import apply, meeting, pack, places  # type: ignore[assignment]

__all__ = ["COMPILED", "apply", "copy", "fill", "meeting", "pack", "places", "read"]
