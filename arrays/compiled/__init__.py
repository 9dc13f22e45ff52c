"""Small arrays, numbers of text, sparse products: in C where there was a compiler at installation, else in Python.

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
        from bsp.arrays.compiled._quick import (
            capture,
            numbers_of_lines,
            rows_times_rows,
            rows_times_vector,
            small_blocks,
        )

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
        """Return None: lines are read by pyarrow or by `files.lines.fields`, which is the reference.

        In C: read the complete lines of a text, of plain numbers; return (rows, bytes) read, or None if it cannot.

        delimiter, decimal : the numbers of characters; delimiter 0: any run of blanks.
        places : by field of a line its column in `out`, as int64; -1 for none.
        powers : `powers_of_five()`.
        out : float64, (rows, columns), by rows; lines that do not fit are not read.
        """
        return None

    def rows_times_rows(
        begins: Any, places: Any, values: Any, other_begins: Any, other_places: Any, other_values: Any, columns: int,
        out_begins: Any, /,
    ) -> tuple[bytearray, bytearray] | None:  # fmt: skip
        """Return None: scipy multiplies, which is the reference.

        In C: the places and the values of the entries of a product of two CSR arrays, in order; where its rows begin is
        written to `out_begins`.  None if places are not all int32 or all int64, or values all float32 or all float64.

        begins, other_begins, out_begins : int64.
        """
        return None

    def rows_times_vector(begins: Any, places: Any, values: Any, x: Any, out: Any, /) -> bool:
        """Return False: scipy multiplies, which is the reference.

        In C: write the product of a CSR array and a vector to `out`; False, and nothing is written, if begins and
        places are not both int32 or both int64, or values, x and out not all float32 or all float64.
        """
        return False


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


__all__ = [
    "COMPILED",
    "capture",
    "numbers_of_lines",
    "powers_of_five",
    "rows_times_rows",
    "rows_times_vector",
    "small_blocks",
]
