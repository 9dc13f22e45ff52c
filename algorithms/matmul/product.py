"""The product of two distributed matrices by a method of choice: operands brought to its layout, blocks exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.matmul.counts import Counted, bringing
from bsp.algorithms.matmul.methods import chosen
from bsp.algorithms.matmul.running import run
from bsp.arrays.procedures import (
    LEAF,
    Array,
    Blocks,
    DType,
    Layout,
    Node,
    World,
    cast,
    dealt_blocks,
    known,
    made_of,
    node_of,
    procedure,
    relaid,
    world,
    wrap,
)
from bsp.arrays.typing import ArrayLike
from bsp.cost.model import DEFAULT, WORD, Cost, Machine
from bsp.errors import ShapeError
from bsp.values.payload import as_array


@procedure
def matmul(
    A: ArrayLike, B: ArrayLike, method: int | str = "auto", memory: float | None = None, leaf: str = "blas"
) -> Array:
    """Return A @ B by an algorithm whose words, supersteps and memory are known beforehand.  Collective.

    A : shape (m, k);  B : (k, n); arrays, or what `bsp.arrays.asarray` takes (the whole, equal on all processes).
    method : 1 all blocks at once, 2 a pair at a time, 4 three-dimensional, "recursive" any grid in as many rounds as
        the memory asks for, "summa"; "auto": the cheapest of all by the machine's (p, g, L) and o that fits.
    memory : bytes that a process may use for it, its blocks of A, B and C among them; None: what the machine profile
        has for it; 0: no limit.
    leaf : "strassen" multiplies large bricks by Strassen's recursion (Winograd's form): fewer flops, less accurate in
        small elements; see `strassen`.  Booleans are always multiplied by NumPy.
    Returns C of shape (m, n), NumPy's dtype for the product, one block on each process of the method's grid.
    Where words cost more than messages and supersteps, "auto" moves at most 1.3 times the words of the lower bounds
    (`bounds`) in memory of 1.75 times a process's share of A, B and C or more; with less, see docs/matmul-study.md.

    Cost: that of `cost(m, k, n, p, method, memory, machine)`, exactly; the formulas are in `methods`.  Operands in
    another layout than the method's are brought there first: one superstep, h = at most (mk + kn)/q words if they
    are dealt evenly to the q processes of the grid or more; expressions are computed in it.  What every process has
    whole costs nothing to bring, nor do operands made with the method's `grid=`, or by `laid_out`.
    The sum over k is taken in an order that follows from shapes, layouts, p, the arguments and the machine alone.
    Raises ShapeError, TypeError; PlanTooLarge where no way fits, with the least that is needed.
    """
    here = world()
    a, b = _operands(A, B)
    cost = _choice(here, a, b, method, memory, leaf, True)
    left, right, out = cost.schedule.layouts(here.nprocs)
    block_a, block_b = brought(here, (a, b), (left, right), False)
    blocks = run(here, cost, block_a, block_b, out, a.dtype, leaf)
    return made_of(out.shape, a.dtype, out, blocks)


def laid_out(
    A: ArrayLike, B: ArrayLike, method: int | str = "auto", memory: float | None = None, leaf: str = "blas"
) -> tuple[Array, Array]:
    """Return A and B in the layouts in which `matmul` with the same arguments multiplies them.  Collective.

    Cost: one superstep, h = at most (mk + kn)/q words, for a grid of q processes, if they are dealt evenly to as many.
    """
    here = world()
    a, b = _operands(A, B)
    layouts = _choice(here, a, b, method, memory, leaf, False).schedule.layouts(here.nprocs)[:2]
    found = brought(here, (a, b), layouts, True)
    first, second = (
        made_of(layout.shape, a.dtype, layout, blocks) for layout, blocks in zip(layouts, found, strict=True)
    )
    return first, second


def cost(
    m: int, k: int, n: int, p: int, method: int | str = "auto", memory: float | None = None,
    machine: Machine | None = None, *, itemsize: int = WORD, leaf: str = "blas",
) -> Counted:  # fmt: skip
    """Return the cost of multiplying (m, k) by (k, n) on p processes: h of every superstep, W, and memory.  Local.

    memory : bytes, as in `matmul` (None: what the machine has for a process; 0: no limit).
    machine : decides the grid, and the method of "auto"; None: the default one.
    itemsize : bytes of an element.
    Raises PlanTooLarge as `matmul` does.
    """
    if min(m, k, n) < 0 or p < 1:
        raise ValueError(f"cost of ({m}, {k}) by ({k}, {n}) on {p} processes: lengths from 0, processes from 1")
    machine = machine or DEFAULT
    limit = machine.memory / max(1, -(-p // machine.p)) if memory is None else memory
    return chosen((m, k, n), p, method, limit, machine, itemsize, leaf)


class GivenOperand(NamedTuple):
    """An operand as it was passed: an expression, or the whole of it on every process."""

    dtype: DType
    shape: tuple[int, ...]
    node: Node | None
    whole: Any

    @property
    def layout(self) -> Layout | None:
        """The layout of its blocks; None: every process has it whole."""
        found = None if self.node is None else wrap(self.node).layout
        return None if found is None or (found.replicated and found.blocks == 1) else found


def _operands(A: Any, B: Any) -> tuple[GivenOperand, GivenOperand]:
    values = [each if isinstance(each, Array) else as_array(each) for each in (A, B)]
    for name, each in zip("AB", values, strict=True):
        if each.dtype.kind not in "biufc":
            raise TypeError(f"matmul: {name} holds {each.dtype}; matrices hold numbers")
        if each.ndim != 2:
            raise ShapeError(
                f"matmul: {name} has shape {tuple(each.shape)}, not two axes; matrix times vector: matvec, stacks of "
                "matrices: bsp.arrays.matmul"
            )
    if values[0].shape[1] != values[1].shape[0]:
        first, second = (tuple(each.shape) for each in values)
        raise ShapeError(
            f"matmul: shapes {first} and {second} do not match: {first[1]} columns of A meet {second[0]} rows of B"
        )
    dtype = np.result_type(values[0].dtype, values[1].dtype)
    first, second = (operand(each, dtype) for each in values)
    return first, second


def operand(value: Any, dtype: DType) -> GivenOperand:
    """Return a vector or matrix as an operand of a product whose elements have this dtype."""
    node = node_of(value) if isinstance(value, Array) else None
    whole = None if isinstance(value, Array) else value
    if node is not None and node.op is LEAF and node.layout is not None and node.layout.blocks == 1:
        whole = known(node)  # None if one process has it
    node = None if node is None else cast(node, dtype)
    return GivenOperand(dtype, tuple(value.shape), node, whole if whole is None else whole.astype(dtype, copy=False))


def _choice(
    here: World, a: GivenOperand, b: GivenOperand, method: int | str, memory: float | None, leaf: str, moved: bool
) -> Counted:
    """Return the way to multiply; if operands are `moved`, the price includes bringing them to its layout."""
    limit = here.memory if memory is None else memory
    if not isinstance(limit, (int, float)) or not limit >= 0:
        raise ValueError(f"matmul: memory={memory!r}: bytes, 0 or more")
    return _cheapest(
        (a.shape[0], a.shape[1], b.shape[1]), (a.layout, b.layout) if moved else (None, None), here.nprocs, method,
        limit, here.machine, a.dtype.itemsize, leaf,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _cheapest(
    shape: tuple[int, int, int], sources: tuple[Layout | None, Layout | None], nprocs: int,
    method: int | str, limit: float, machine: Machine, itemsize: int, leaf: str,
) -> Counted:  # fmt: skip
    """Return the cheapest way, with what it takes to bring operands from their layouts."""

    def extra(cost: Counted) -> float:
        h = bringing(sources, cost.schedule.layouts(nprocs), nprocs, itemsize)
        return Cost(0, h, 1).price(machine) if h else 0.0

    return chosen(shape, nprocs, method, limit, machine, itemsize, leaf, extra)


def brought(here: World, operands: Sequence[GivenOperand], layouts: Sequence[Layout], kept: bool) -> list[Blocks]:
    """Return this process's blocks of operands in the first of the layouts; expressions are computed together.

    kept : blocks that outlive the call, so none is a view of what came.
    Cost: one superstep for operands that lie otherwise, none for what every process has whole.
    """
    found: list[Any] = []
    for operand, layout in zip(operands, layouts, strict=False):
        node = operand.node
        if node is not None and node.op is LEAF and node.layout is layout:
            found.append(node)
        elif operand.whole is not None and kept:
            found.append(dealt_blocks(operand.whole, layout, here.pid))
        elif operand.whole is not None:
            boxes = {at: tuple(slice(*span) for span in layout.box(at)) for at in layout.mine(here.pid)}
            found.append({at: operand.whole[box] for at, box in boxes.items()})
        else:
            assert node is not None
            found.append(relaid(node, layout))
    waiting = [each for each in found if isinstance(each, Node) and each.op is not LEAF]
    if waiting:
        here.evaluate(waiting, False)
    return [each.value if isinstance(each, Node) else each for each in found]
