"""Operations on one block of a matrix: order it for BLAS, add to it."""

from __future__ import annotations

from typing import Any

from bsp.declared import declares


def contiguous(block: Any) -> Any:
    """Return a block in C order: itself if it is, else a copy."""
    return block if block.flags.c_contiguous else block.copy()


@declares(lambda costs, block: contiguous(costs.shape_of(block)))
def own(block: Any) -> Any:
    """Return a block in C order, ready to multiply."""
    return contiguous(block)


def added(total: Any, new: Any) -> Any:
    """Add `new` to `total` in place and return it; booleans are united."""
    if new.dtype.kind == "b":
        total |= new
    else:
        total += new
    return total
