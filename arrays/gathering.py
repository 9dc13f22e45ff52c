"""Gathers of arrays on every process, for functions without a distributed form: their limits and warnings."""

from __future__ import annotations

from typing import Any

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF
from bsp.arrays.kernels import shared_warnings
from bsp.declared import Costs, declares
from bsp.values.payload import is_abstract

MOST_BYTES = 1 << 28  # bytes at most of an array that a function without a distributed form brings to every process
SILENT_BYTES = 16 << 20  # bytes at most that are brought without a warning


def _of_decided(costs: Costs, condition: Any, usual: bool) -> bool:
    """Declare a decision: the condition is computed, as in a run with values."""
    if isinstance(condition, Array):
        condition.compute()
        return usual
    return usual if is_abstract(condition) else bool(condition)


@declares(_of_decided)
def decided(condition: Any, usual: bool) -> bool:
    """Return whether a condition holds, on every process.  Collective for an array: one element, which is computed.

    usual : the answer in a run without values.
    """
    return bool(condition)


def is_everywhere(array: Array) -> bool:
    """Return whether every process holds all of an array already, or there is only one process.  Local."""
    node = array._node
    return world().nprocs == 1 or (node.op is LEAF and node.layout is not None and node.layout.replicated)


def warned(text: str, kind: type[Warning] = GatherWarning) -> None:
    """Warn at the program's line.  Every process must call this alike.

    Process 0 shows the warning; if a filter makes it an error, all processes raise it.
    """
    shared_warnings.warned(text, kind)


def told_of(call: str, array: Array) -> None:
    """Warn, with the price, of a conversion that brings a large array to every process; compute() never warns."""
    if array.nbytes > SILENT_BYTES and not is_everywhere(array):
        warned(
            f"{call} of shape {array.shape} brings {array.nbytes / 1e6:.3g} MB to each of {world().nprocs} processes; "
            "compute() does so without a warning, persist() and to_local() give the blocks"
        )


def permitted(call: str, nbytes: int, advice: str) -> None:
    """Raise GatherRefused for a call that would bring too many bytes to each process; warn if they are many."""
    p = world().nprocs
    if nbytes > MOST_BYTES:
        raise GatherRefused(
            f"{call} has no distributed form and would bring {nbytes / 1e9:.3g} GB to each of {p} processes; {advice}"
        )
    if nbytes > SILENT_BYTES:
        warned(f"{call} has no distributed form and brings {nbytes / 1e6:.3g} MB to each of {p} processes; {advice}")


def brought(call: str, x: Any, advice: str = "persist() and to_local() give the blocks") -> Any:
    """Return all values of an array on every process, for a function that has no distributed form.

    Collective: h = size words; none if every process holds them already.  Raises GatherRefused above MOST_BYTES,
    and warns with the price above SILENT_BYTES.
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
    """Return an array with values that are the same on every process; each keeps its blocks."""
    from bsp.arrays.array import wrap

    return wrap(build.from_whole(found))
