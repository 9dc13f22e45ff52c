"""QR of a tall matrix whose rows are dealt to the processes: TSQR.

Each process factors its own rows; of these only the small factors R travel and are factored again, stacked in the
order of the pids.  Householder reflections throughout, so that Q is orthogonal to rounding for any matrix, of
whatever rank or condition (Demmel, Grigori, Hoemmen, Langou 2012; Benson, Gleich, Demmel 2013).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.functions import build
from bsp.arrays.planning.graph import LEAF, Blocks, DType, leaf
from bsp.arrays.planning.layout import Axis, Layout, dealt, layout_of
from bsp.arrays.world import World, world
from bsp.cost.model import Machine


class Rows(NamedTuple):
    """A matrix whose blocks are whole rows."""

    layout: Layout
    blocks: Blocks  # this process's


class Factors(NamedTuple):
    """Q·R: Q dealt like the rows that were factored (None if it was not asked for), R on every process."""

    q: Rows | None
    r: Any


def by_rows(x: Array, layout: Layout | None = None) -> Rows:
    """x in blocks of whole rows, as it lies if it lies so; else one total exchange, size/p words.

    layout : rows cut and dealt as in this one.
    """
    rows, columns = x.shape
    own = x.layout
    if layout is not None:
        target = layout_of((layout.axes[0], Axis(columns)))
    elif own.replicated or own.table is not None or own.axes[1].parts > 1 or own.axes[0].deal == 1:
        count = max(1, min(world().nprocs, rows))
        target = dealt((rows, columns), (count, 1), (count, 1))
    else:
        target = own
    return Rows(target, settled(x, target))


def settled(x: Array, layout: Layout) -> Blocks:
    """This process's blocks of x in a layout; no superstep if they lie there already."""
    node = x._node
    if x.layout is not layout:
        node = build.relaid(node, layout)
    if node.op is not LEAF:
        node = wrap(node).persist()._node
    found: Blocks = node.value
    return found


def to_array(rows: Rows, dtype: DType) -> Array:
    """Rows as an array."""
    return wrap(leaf(rows.layout.shape, dtype, rows.layout, rows.blocks))


def times(rows: Rows, small: Any) -> Rows:
    """Rows @ small, a matrix that every process has.  No words."""
    layout = layout_of((rows.layout.axes[0], Axis(small.shape[1])))
    return Rows(layout, {at: block @ small for at, block in rows.blocks.items()})


def tsqr(rows: Rows, dtype: DType, want_q: bool = True, pattern: str | None = None) -> Factors:
    """Thin QR of m rows of n, k = min(m, n): Q of shape (m, k) dealt like the rows, R (k, n) everywhere, diagonal >= 0.

    pattern : "direct": every R to every process: one superstep, h = (p-1)·n² words, 4pn³ flops besides.
        "tree": a butterfly, each process meets its partner at distance 1, 2, 4, ...: log2 p supersteps (two more
        where p is no power of two), h = n² in each, 12n³ flops each.  None: the cheaper by (g, L).
    Cost: 4(m/p)n² flops and the pattern's.  The diagonal's sign makes R of a matrix of full rank unique, so it does
    not depend on how the rows are dealt.
    """
    here = world()
    columns = rows.layout.shape[1]
    own = [rows.blocks[at] for at in sorted(rows.blocks)]
    mine = np.concatenate(own) if len(own) > 1 else own[0] if own else here.empty((0, columns), dtype)
    q, r = _factored(mine, want_q)
    if here.nprocs > 1:
        if pattern is None:
            pattern = cheapest(here.machine, here.nprocs, columns, dtype.itemsize)
        if pattern == "direct":
            piece, r = _direct(here, r, want_q)
        else:
            piece, r = _butterfly(here, r, want_q)
        if want_q:
            q = q @ piece
    phase = phases(r)
    r = r * np.conj(phase)[:, None]
    if not want_q:
        return Factors(None, r)
    q = q * phase
    layout = layout_of((rows.layout.axes[0], Axis(q.shape[1])))
    blocks: Blocks = {}
    start = 0
    for at in sorted(rows.blocks):
        stop = start + rows.blocks[at].shape[0]
        blocks[at] = q[start:stop]
        start = stop
    return Factors(Rows(layout, blocks), r)


def phases(r: Any) -> Any:
    """What each diagonal element of R is divided by to become real and >= 0: of modulus 1."""
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    size = np.abs(diagonal)
    zero = size == 0
    return np.where(zero, 1, diagonal / np.where(zero, 1, size)).astype(r.dtype)


def cheapest(machine: Machine, nprocs: int, columns: int, itemsize: int = 8) -> str:
    """The cheaper pattern by the machine's (g, L, o)."""
    words, cube = columns * columns * itemsize / 8, float(columns) ** 3
    levels = nprocs.bit_length() - 1
    steps = levels if nprocs == 1 << levels else levels + 2
    direct = machine.price((nprocs - 1) * words, 1, nprocs - 1, 4 * nprocs * cube)
    tree = machine.price(steps * words, steps, steps, 12 * levels * cube)
    return "direct" if direct <= tree else "tree"


def _factored(a: Any, want_q: bool) -> tuple[Any, Any]:
    if want_q:
        q, r = np.linalg.qr(a)
        return q, r
    return None, np.linalg.qr(a, mode="r")


def _direct(here: World, r: Any, want_q: bool) -> tuple[Any, Any]:
    """Every R on every process; each factors the stack alike and keeps the rows of Q that are its own."""
    sent = [(dest, r) for dest in range(here.nprocs) if dest != here.pid and r.shape[0]]
    found = dict(here.exchange("tsqr", sent))
    found[here.pid] = r
    parts = [found[pid] for pid in sorted(found) if found[pid].shape[0]]
    if not parts:
        return here.empty((0, 0), r.dtype), r
    q, whole = _factored(np.concatenate(parts), want_q)
    before = sum(found[pid].shape[0] for pid in sorted(found) if pid < here.pid)
    return (q[before : before + r.shape[0]] if want_q else None), whole


def _pair(first: Any, second: Any, own_first: bool, want_q: bool) -> tuple[Any, Any, Any]:
    """Two R's factored: this process's rows of Q, the other's, and R."""
    q, r = _factored(np.concatenate([first, second]), want_q)
    if not want_q:
        return None, None, r
    upper, lower = q[: first.shape[0]], q[first.shape[0] :]
    return (upper, lower, r) if own_first else (lower, upper, r)


def _butterfly(here: World, r: Any, want_q: bool) -> tuple[Any, Any]:
    """Partners at distance 1, 2, 4, ... factor their two R's alike; pids beyond a power of two join one below."""
    pid, nprocs = here.pid, here.nprocs
    levels = nprocs.bit_length() - 1
    low = 1 << levels
    piece: Any = None  # what takes the R so far to this process's own
    others: Any = None  # and to the one that joined
    joined = pid + low < nprocs
    if low < nprocs:
        arrived = here.exchange("tsqr join", [(pid - low, r)] if pid >= low else [])
        if joined:
            piece, others, r = _pair(r, arrived[0][1], True, want_q)
    for level in range(levels):
        partner = pid ^ (1 << level)
        arrived = here.exchange("tsqr", [(partner, r)] if pid < low else [])
        if pid >= low:
            continue
        other = arrived[0][1]
        first, second = (r, other) if pid < partner else (other, r)
        own, _, r = _pair(first, second, pid < partner, want_q)
        if want_q:
            piece = own if piece is None else piece @ own
            others = others @ own if joined else None
    if low < nprocs:
        given = [(pid + low, each) for each in (r, others) if each is not None] if joined else []
        arrived = here.exchange("tsqr back", given)
        if pid >= low:
            r = arrived[0][1]
            piece = arrived[1][1] if want_q else None
    return piece, r
