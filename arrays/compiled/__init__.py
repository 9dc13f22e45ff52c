"""Evaluations of small arrays, and numbers of text: in C where there was a compiler at installation, else in Python.

With BSP_PURE_PYTHON=1 in the environment they are those in Python in any case.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

if os.environ.get("BSP_PURE_PYTHON"):
    COMPILED = False
else:
    try:
        from bsp.arrays.compiled._quick import capture, numbers_of_lines, small_blocks

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

    def numbers_of_lines(
        text: Any, delimiter: int, decimal: int, places: Any, missing: tuple[bytes, ...], powers: bytes, out: Any,
        columns: int, /,
    ) -> tuple[int, int] | None:  # fmt: skip
        """Return None: lines are read by pyarrow or by `files.fields`, which is the reference.

        In C: read the complete lines of a text, of plain numbers; return (rows, bytes) read, or None if it cannot.

        delimiter, decimal : the numbers of characters.
        places : by field of a line its column in `out`, as int64; -1 for none.
        powers : `powers_of_five()`.
        out : float64, (columns, rows), by rows; lines that do not fit are not read.
        """
        return None


@cache
def powers_of_five() -> bytes:
    """Return 5^q, -342 <= q <= 308, as 128 bits that begin with a one, the rest cut off: 64 high bits, then 64 low."""
    found = []
    for q in range(-342, 309):
        power = 5 ** abs(q)
        size = power.bit_length()
        bits = (power << 128 >> size) if q >= 0 else (1 << (size + 127)) // power
        found += [bits >> 64, bits & (1 << 64) - 1]
    return struct.pack(f"={len(found)}Q", *found)


__all__ = ["COMPILED", "capture", "numbers_of_lines", "powers_of_five", "small_blocks"]
