"""The functions from which array procedures are built, the library's own and any others.

A procedure is a function that looks at the values of computed arrays and runs in supersteps of its own.  All processes
call it.  Every choice that it makes must follow from shapes, layouts and values that all processes have, so that all
run the same supersteps.  For example the greatest absolute value, with one superstep:

    from bsp.arrays.procedures import computed, mine, node_of, procedure, world

    @procedure                                     # forecast(largest, x) shows its price before it runs
    def largest(x):
        (node,) = computed(node_of(x))             # a leaf: it has a layout and blocks
        own = max((abs(block).max(initial=0.0) for block in mine(node)), default=0.0)
        return max(world().private.allgather(own)) # a boundary that leaves the user's messages alone

*Values.*  `node_of` returns an array's expression, `array_of` an array of fixed dtype from any array-like; `computed`
computes expressions in one plan and returns leaves.  For a leaf, `layout_at` returns its layout, `node.value` this
process's blocks by coordinate, `mine` this process's share, and `known` the whole if every process has it.  `cast`,
`relaid`, `everywhere`, `reshaped` and `broadcast` make new expressions; `in_layout`, `in_line` and `evened` change
layouts.
*Results.*  `made_of` makes an array from blocks; `from_whole` and `dealt_blocks` make one from values on every process.
*Layouts.*  `dealt`, `replicated`, `slabs`, `line_layout`, `layout_of` and `table_layout` make layouts, some from
`Axis`; `traffic` counts the bytes to move an array from one layout to another.
*Communication.*  `world()` returns the array state of the calling process: `exchange`, `private` collectives, machine
and memory limit.  `told` sends an array to all processes.
*Kept results.*  `remember` keeps a result that follows from an array's values with the array; `recalled` returns it.
*Lazy functions.*  `of_lines` applies a `LineFunction` to whole lines of an array.
"""

from bsp.arrays.array import Array, wrap
from bsp.arrays.build import broadcast, cast, dealt_blocks, everywhere, from_whole, relaid, reshaped
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, Node, leaf
from bsp.arrays.expressions.layout import (
    Axis,
    Layout,
    Shape,
    automatic,
    dealt,
    layout_of,
    ragged,
    replicated,
    table_layout,
)
from bsp.arrays.procedures.forecast import Forecast, explain, forecast, procedure
from bsp.arrays.procedures.lines import LineFunction, of_lines
from bsp.arrays.procedures.operands import (
    array_of,
    block_map,
    bounds_of,
    computed,
    even_line,
    evened,
    flattened,
    in_layout,
    in_line,
    known,
    layout_at,
    line_layout,
    made_of,
    mine,
    node_of,
    one_vector,
    slabs,
    told,
    traffic,
)
from bsp.arrays.procedures.remembered import recalled, remember

__all__ = [
    "LEAF", "Array", "Axis", "Blocks", "DType", "Forecast", "Layout", "LineFunction", "Node", "Shape", "World",
    "array_of", "automatic", "block_map", "bounds_of", "broadcast", "cast", "computed", "dealt", "dealt_blocks",
    "even_line", "evened", "everywhere", "explain", "flattened", "forecast", "from_whole", "in_layout", "in_line",
    "known", "layout_at", "layout_of", "leaf", "line_layout", "made_of", "mine", "node_of", "of_lines", "one_vector",
    "procedure", "ragged", "recalled", "relaid", "remember", "replicated", "reshaped", "slabs", "table_layout", "told",
    "traffic", "world", "wrap",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
