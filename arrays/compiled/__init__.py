"""Evaluations of small arrays: in C where there was a compiler at installation, else in Python.

With BSP_PURE_PYTHON=1 in the environment they are those in Python in any case.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

if os.environ.get("BSP_PURE_PYTHON"):
    COMPILED = False
else:
    try:
        from bsp.arrays.compiled._quick import capture, small_blocks

        COMPILED = True
    except ImportError:  # there was no compiler
        COMPILED = False

if not COMPILED:
    from bsp.arrays.expressions.graph import capture

    def small_blocks(stage: Any, values: list[Any], params: Sequence[Any], current: Any, /) -> Any:
        """Return NotImplemented: a stage is computed by its kernel, which is the reference.

        In C: the blocks of a `planning.small.SmallStage`, by coordinates; NotImplemented if the kernel has to.
        """
        return NotImplemented


__all__ = ["COMPILED", "capture", "small_blocks"]
