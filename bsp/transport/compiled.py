"""Supersteps of records, reductions of numbers, copies: in C where there was a compiler at installation, else Python.

With BSP_PURE_PYTHON=1 in the environment they are those in Python in any case.  Elements of one job may differ.
"""

from __future__ import annotations

import os
from typing import Any

if os.environ.get("BSP_PURE_PYTHON"):
    COMPILED = False
else:
    try:
        from bsp.transport._compiled import (
            apply,
            arranged,
            copy,
            end_superstep,
            fill,
            message_in,
            pack,
            prefixes_of_plain,
            read,
            read_asked,
            tree_of_plain,
            tree_of_small,
        )

        COMPILED = True
    except ImportError:  # there was no compiler
        COMPILED = False

if not COMPILED:
    from bsp.transport.copies import copy
    from bsp.transport.slots import fill, read
    from bsp.values.blocks import arranged
    from bsp.values.records import apply, message_in, pack, read_asked  # type: ignore[assignment]

    def end_superstep(element: Any, transport: Any, clock: float, /) -> bool | list[Any]:
        """Return False: the element ends the superstep in Python, which is the reference.

        In C it ends one with nothing but records, and returns True; False if it has done nothing, because a process
        here has more than that.  If headers have been exchanged and another element has more, it returns what it took
        out of the outboxes.
        """
        return False

    def tree_of_plain(packed: dict[int, Any], function: Any, /) -> Any:
        """Return NotImplemented: values are combined in Python (`bsp.values.operations.combine`).

        In C: the values combined in the tree of D3, if all are pickles of Python's own numbers, strings or bytes;
        NotImplemented if not, or if they do not combine.
        """
        return NotImplemented

    def tree_of_small(
        given: dict[int, Any], function: Any, head: bytes, shape: tuple[int, ...], dtype: Any, /
    ) -> Any:  # fmt: skip
        """Return NotImplemented: arrays are combined in Python (`bsp.values.operations.combine`).

        In C: the values combined in the tree of D3, if all are arrays that begin with `head`, so have this dtype and
        shape, with axes; NotImplemented if not, or if they do not combine.
        """
        return NotImplemented

    def prefixes_of_plain(packed: dict[int, Any], function: Any, least: int, /) -> Any:
        """Return NotImplemented; in C, a list of the first `least`, least + 1, ... values combined.

        A single one stays as it is.
        """
        return NotImplemented


__all__ = [
    "COMPILED", "apply", "arranged", "copy", "end_superstep", "fill", "message_in", "pack", "prefixes_of_plain",
    "read", "read_asked", "tree_of_plain", "tree_of_small",
]  # fmt: skip
