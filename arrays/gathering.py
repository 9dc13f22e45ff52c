"""What has no distributed form is brought to every process: up to a limit, and at a price that is told."""

from __future__ import annotations

from typing import Any

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF
from bsp.arrays.kernels import shared_warnings

MOST_BYTES = 1 << 28  # of an array that a function brings to every process because nothing else is possible
SILENT_BYTES = 16 << 20  # of these, bytes that are brought without a warning


def is_everywhere(array: Array) -> bool:
    """Whether every process has all of an array already, or there is only one."""
    node = array._node
    return world().nprocs == 1 or (node.op is LEAF and node.layout is not None and node.layout.replicated)


def warned(text: str, kind: type[Warning] = GatherWarning) -> None:
    """Warn at the program's line: every process calls this alike, process 0 shows it, an error is raised on all."""
    shared_warnings.warned(text, kind)


def told_of(call: str, array: Array) -> None:
    """Warn, with the price, where a conversion brings a large array to every process; compute() does so on request."""
    if array.nbytes > SILENT_BYTES and not is_everywhere(array):
        warned(
            f"{call} of shape {array.shape} brings {array.nbytes / 1e6:.3g} MB to each of {world().nprocs} processes; "
            "compute() does so without a warning, persist() and to_local() give the blocks"
        )


def permitted(call: str, nbytes: int, advice: str) -> None:
    """Raise GatherRefused, or warn, where a call would bring so many bytes to each process."""
    p = world().nprocs
    if nbytes > MOST_BYTES:
        raise GatherRefused(
            f"{call} has no distributed form and would bring {nbytes / 1e9:.3g} GB to each of {p} processes; {advice}"
        )
    if nbytes > SILENT_BYTES:
        warned(f"{call} has no distributed form and brings {nbytes / 1e6:.3g} MB to each of {p} processes; {advice}")


def brought(call: str, x: Any, advice: str = "persist() and to_local() give the blocks") -> Any:
    """All values of an array, on every process, for a function that has no distributed form.

    Collective: h = size words; nothing if every process has them.  Raises GatherRefused above MOST_BYTES, and warns
    with the price above SILENT_BYTES.
    """
    if not isinstance(x, Array):
        return x
    if is_everywhere(x) and x._node.op is LEAF and x._node.layout is not None and x._node.layout.blocks == 1:
        (found,) = x._node.value.values()
        return found
    if not is_everywhere(x):
        permitted(call, x.nbytes, advice)
    return x.compute()


def given(found: Any) -> Array:
    """A result that every process has alike, as an array; each keeps its blocks."""
    from bsp.arrays.array import wrap

    return wrap(build.from_whole(found))
