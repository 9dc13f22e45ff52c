"""A block of a matrix as it is sent, multiplied and added to."""

from __future__ import annotations

from typing import Any

from bsp.arrays.execution.world import World
from bsp.values.payload import is_abstract


def contiguous(block: Any) -> Any:
    """A block in C order; itself if it is that."""
    return block if block.flags.c_contiguous else block.copy()


def own(here: World, block: Any) -> Any:
    """A block to multiply: in C order; in a run without values a shape, if it was real data."""
    return here.empty(block.shape, block.dtype) if here.abstract and not is_abstract(block) else contiguous(block)


def added(total: Any, new: Any) -> Any:
    """`total`, to which `new` has been added in place; of booleans their union."""
    if new.dtype.kind == "b":
        total |= new
    else:
        total += new
    return total
