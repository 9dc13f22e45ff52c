"""QR of a tall matrix whose rows are dealt to the processes: TSQR.

Each process factors its own rows in blocks that stay in the cache, then stacks the R's of its blocks and factors these
likewise.  It sends only its final R, which is factored with those of others, stacked in the order of the pids, in a
tree of any arity.  All steps use Householder reflections, so Q is orthogonal to rounding for a matrix of any rank or
condition (Demmel, Grigori, Hoemmen, Langou 2012; Benson, Gleich, Demmel 2013).  Each process rebuilds its rows of Q
block by block, down the tree, from reflections that it has kept; this takes no words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bsp.abstract import table
from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, leaf
from bsp.arrays.expressions.layout import Axis, Layout, dealt, layout_of
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs, declares

BLOCK = 1024  # rows of a block: with few columns it fits in the cache while it is factored
_PANEL = 32  # columns in LAPACK's block reflections


class RowBlocks(NamedTuple):
    """A matrix dealt in blocks of whole rows."""

    layout: Layout
    blocks: Blocks  # this process's


class Factors(NamedTuple):
    """The factors of Q·R: Q dealt like the rows that were factored (None if not wanted), R on every process."""

    q: RowBlocks | None
    r: Any


def is_tall(x: Array) -> bool:
    """Return True if R, which every process gets, is small beside the rows of x that a process has."""
    m, n = x.shape
    return m >= n and (m >= n * world().nprocs or n * n <= layouts.REPLICATED_SIZE)


def by_rows(x: Array) -> RowBlocks:
    """Return x in blocks of whole rows.  Cost: none if dealt so already; else one total exchange, size/p words."""
    rows, columns = x.shape
    own = x.layout
    if own.replicated or own.table is not None or own.axes[1].parts > 1 or own.axes[0].deal == 1:
        count = max(1, min(world().nprocs, rows))
        target = dealt((rows, columns), (count, 1), (count, 1))
    else:
        target = own
    return RowBlocks(target, settled(x, target))


def settled(x: Array, layout: Layout) -> Blocks:
    """Return this process's blocks of x in a layout.  Collective, but no superstep if x has this layout already."""
    node = x._node
    if x.layout is not layout:
        node = build.relaid(node, layout)
    if node.op is not LEAF:
        node = wrap(node).persist()._node
    found: Blocks = node.value
    return found


def to_array(rows: RowBlocks, dtype: DType) -> Array:
    """Return rows as an array."""
    return wrap(leaf(rows.layout.shape, dtype, rows.layout, rows.blocks))


def times(rows: RowBlocks, small: Any) -> RowBlocks:
    """Return rows @ small, a matrix that every process has.  No words."""
    layout = layout_of((rows.layout.axes[0], Axis(small.shape[1])), rows.layout.replicated)
    return RowBlocks(layout, {at: block @ small for at, block in rows.blocks.items()})


class Blocked:
    """The Q·R of rows: R's of blocks are stacked and factored in turn until one is left, a tree of fan-in 8 or more.

    r : (k, n), k = min(rows, n).  Q is kept as reflections; if want_q is false, nothing larger than a block is kept.
    Cost: 2mn² flops, reading the rows once.
    """

    def __init__(self, blocks: Sequence[Any], columns: int, dtype: DType, want_q: bool) -> None:
        self.dtype = dtype
        self.rows = [block.shape[0] for block in blocks]
        self.kept: list[list[Any]] = []  # for each block the reflections of its pieces
        found = []
        for block in blocks:
            self.kept.append([])
            for piece in _cut(block):
                reflections, r = _reflected(piece, want_q)
                self.kept[-1].append(reflections)
                found.append(r)
        self.above: Blocked | None = None
        if len(found) == 1:
            self.r = found[0]
        elif found:
            self.above = Blocked([np.concatenate(found)], columns, dtype, want_q)
            self.r = self.above.r
        else:
            self.r = world().empty((0, columns), dtype)

    def times(self, small: Any) -> list[Any]:
        """Return Q @ small in the blocks of the rows; the reflections are used up.  Cost: 6mn² flops for n columns."""
        (between,) = [small] if self.above is None else self.above.times(small)
        made, start = [], 0
        for rows, kept in zip(self.rows, self.kept, strict=True):
            out = world().empty((rows, small.shape[1]), self.dtype)
            at = 0
            for k, reflections in enumerate(kept):
                q, kept[k] = _unreflected(reflections), None
                np.matmul(q, between[start : start + q.shape[1]], out=out[at : at + q.shape[0]])
                start, at = start + q.shape[1], at + q.shape[0]
            made.append(out)
        return made


def _cut(block: Any) -> list[Any]:
    """Cut a block into pieces of about BLOCK rows, and of at least 8n."""
    rows, columns = block.shape
    parts = max(1, rows // max(BLOCK, 8 * columns))
    return [block[rows * k // parts : rows * (k + 1) // parts] for k in range(parts)]


def _reflected(piece: Any, want_q: bool) -> tuple[Any, Any]:
    """Factor one piece by LAPACK; return the reflections that Q is made from, or None, and R."""
    raw = np.copy(piece, order="F")
    if not piece.size:
        return ((raw, None) if want_q else None), np.linalg.qr(raw, mode="r")
    from scipy.linalg.lapack import get_lapack_funcs

    (geqrf,) = get_lapack_funcs(("geqrf",), (piece,))
    raw, tau, _, _ = geqrf(raw, lwork=_PANEL * piece.shape[1], overwrite_a=1)
    return ((raw, tau) if want_q else None), np.triu(raw[: min(piece.shape)])


def _unreflected(reflections: tuple[Any, Any]) -> Any:
    """Return the Q of a piece, with as many columns as its R has rows."""
    raw, tau = reflections
    if tau is None:
        return raw[:, : min(raw.shape)]
    from scipy.linalg.lapack import get_lapack_funcs

    (orgqr,) = get_lapack_funcs(("ungqr" if raw.dtype.kind == "c" else "orgqr",), (raw,))
    return orgqr(raw[:, : tau.shape[0]], tau, lwork=_PANEL * tau.shape[0], overwrite_a=1)[0]


def declared_tree(
    costs: Costs, counts: np.ndarray, columns: int, dtype: DType, want_q: bool, pattern: str | int | None = None,
    pid: int = 0,
) -> None:  # fmt: skip
    """Declare the cost of `tsqr` for process `pid`.

    counts : (p,) rows of each process; (1,) where every process has all rows.
    """
    own, many = int(counts[pid]) if len(counts) > 1 else int(counts[0]), table.complexity(dtype)
    half, nbytes = 2.0 * many * own * columns**2, own * columns * dtype.itemsize
    costs.reflecting(half, columns, nbytes=2 * nbytes)  # of a copy by columns
    if want_q:
        costs.reflecting(half, columns, nbytes=nbytes)
        costs.squaring(half, columns, nbytes=2 * nbytes)
    nprocs = len(counts)
    if nprocs == 1:
        return
    if pattern is None:
        pattern = cheapest(costs.machine, nprocs, columns, dtype.itemsize)
    arity = _arity(pattern, nprocs)
    have, cube = np.minimum(counts, columns), many * float(columns) ** 3

    def words(rows: Any) -> float:
        return int(rows) * columns * dtype.itemsize / 8

    low, levels = tree_of(nprocs, arity)
    joining = np.arange(low, nprocs)
    if low < nprocs:
        sends = {pid - low: words(have[pid])} if pid >= low and have[pid] else {}
        costs.exchange("tsqr join", sends, max(map(words, have[low:])), 1)
        before = have.copy()
        have[joining - low] = np.minimum(columns, have[joining - low] + have[joining])
        costs.factoring(10 * cube, columns)
    for level in range(levels):
        distance = arity**level
        first = np.arange(low) - np.arange(low) // distance % arity * distance
        groups = first[:, None] + distance * np.arange(arity)
        sends = {int(dest): words(have[pid]) for dest in groups[pid] if dest != pid} if pid < low and have[pid] else {}
        sent = (arity - 1) * np.array([words(rows) for rows in have[:low]])
        received = np.array([sum(words(have[k]) for k in group) - words(have[i]) for i, group in enumerate(groups)])
        costs.exchange("tsqr", sends, float(max(sent.max(), received.max())), arity - 1)
        have[:low] = np.minimum(columns, have[groups].sum(axis=1))
        costs.factoring((4 * arity + 2) * cube, columns)
    if low < nprocs:

        def back(joined: int) -> float:
            return words(have[0]) + words(before[joined] if want_q else 0)

        sends = {pid + low: back(pid + low)} if pid + low < nprocs else {}
        costs.exchange("tsqr back", sends, max(back(int(each)) for each in joining), 1)


def _of_tsqr(
    costs: Costs, rows: RowBlocks, dtype: DType, want_q: bool = True, pattern: str | int | None = None
) -> Factors:
    """Declare the cost of `tsqr`."""
    here = world()
    layout, columns = rows.layout, rows.layout.shape[1]
    counts = rows_held(layout, here.nprocs)
    k, own = min(layout.shape), sum(block.shape[0] for block in rows.blocks.values())
    reflections = own * columns * dtype.itemsize // 8 if want_q else 0
    with costs.holding(reflections + pieces_words(own, columns, dtype.itemsize)):
        declared_tree(costs, counts, columns, dtype, want_q, pattern, here.pid)
        r = costs.array((k, columns), dtype)
        if not want_q:
            return Factors(None, r)
        made = layout_of((layout.axes[0], Axis(k)), layout.replicated)
        q = {at: costs.array((block.shape[0], k), dtype) for at, block in rows.blocks.items()}
    return Factors(RowBlocks(made, q), r)


def pieces_words(rows: int, columns: int, itemsize: int) -> int:
    """Return the words in use while one piece is factored: the piece, its copy, and the R's of all pieces."""
    length = max(BLOCK, 8 * columns)
    return (2 * min(rows, length) * columns + 2 * rows * columns**2 // length + 8 * columns**2) * itemsize // 8


def rows_held(layout: Layout, nprocs: int) -> np.ndarray:
    """Return the number of rows of each process, (p,); (1,) if every process has all rows or there is one process."""
    if layout.replicated or nprocs == 1:
        return np.array([layout.shape[0]])
    found: np.ndarray = layout.held(nprocs) // max(1, layout.shape[1])
    return found


@declares(_of_tsqr)
def tsqr(rows: RowBlocks, dtype: DType, want_q: bool = True, pattern: str | int | None = None) -> Factors:
    """Factor m rows of n, k = min(m, n): Q (m, k) dealt like the rows, R (k, n) on every process with a diagonal >= 0.

    pattern : the tree's arity a: at each of log_a p levels a processes send each other their R's, and each factors them
        alike: h = (a-1)·n² words, 4an³ flops.  Where p is no power of a, two supersteps more: h = n², and, back, n²
        (2n² with Q).  "direct": arity p, a single superstep; "tree": arity 2; None: the cheapest by (g, L).
        The greatest power of a up to p must be at least p/2, else ValueError: only that many processes can join.
    Cost: 2(m/p)n² flops, 6(m/p)n² with Q, and the tree's.  The sign of the diagonal makes R of a matrix of full rank
    unique, so it does not depend on how the rows are dealt.  No words for rows that every process has.
    """
    here = world()
    columns = rows.layout.shape[1]
    order = sorted(rows.blocks)
    own = Blocked([rows.blocks[at] for at in order], columns, dtype, want_q)
    r, piece = own.r, None
    if here.nprocs > 1 and not rows.layout.replicated:
        if pattern is None:
            pattern = cheapest(here.machine, here.nprocs, columns, dtype.itemsize)
        arity = _arity(pattern, here.nprocs)
        piece, r = _met(here, r, arity, want_q)
    phase = phases(r)
    whole = (r * np.conj(phase)[:, None]).copy()  # C order on all processes: products of it then have the same bytes
    if not want_q:
        return Factors(None, whole)
    if piece is None:
        piece = np.eye(r.shape[0], dtype=dtype)
    blocks = own.times(piece * phase)
    layout = layout_of((rows.layout.axes[0], Axis(r.shape[0])), rows.layout.replicated)
    return Factors(RowBlocks(layout, dict(zip(order, blocks, strict=True))), whole)


def phases(r: Any) -> Any:
    """Return the number of modulus 1 by which each diagonal element of R is divided to become real and >= 0."""
    sign = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
    return np.where(sign == 0, 1, sign).astype(r.dtype)


def _arity(pattern: str | int, nprocs: int) -> int:
    """Return the arity of a tree's pattern.  Raises ValueError for one whose tree does not reach all processes."""
    arity = nprocs if pattern == "direct" else 2 if pattern == "tree" else int(pattern)
    if not 2 <= arity <= nprocs or 2 * tree_of(nprocs, arity)[0] < nprocs:
        raise ValueError(
            f"tsqr: a tree of arity {pattern} does not reach {nprocs} processes: its greatest power up to p must be at"
            " least p/2; use 'tree', 'direct' or None"
        )
    return arity


@lru_cache(maxsize=1024)
def cheapest(machine: Machine, nprocs: int, columns: int, itemsize: int = 8) -> str | int:
    """Return the tree's arity that is cheapest by the machine's (g, L, o); of equally cheap ones the least."""
    words, cube = columns * columns * itemsize / 8, float(columns) ** 3

    def price(arity: int) -> float:
        members, levels = tree_of(nprocs, arity)
        joins = members < nprocs
        sent = levels * (arity - 1) + 3 * joins
        flops = (levels * (4 * arity + 2) + 10 * joins) * cube
        return Cost(flops, sent * words, levels + 2 * joins, messages=sent).price(machine)

    found = min((arity for arity in range(2, nprocs + 1) if 2 * tree_of(nprocs, arity)[0] >= nprocs), key=price)
    return "direct" if found == nprocs else "tree" if found == 2 else found


def tree_of(nprocs: int, arity: int) -> tuple[int, int]:
    """Return the number of processes that take part at every level, and of levels; any other joins one of them."""
    members, levels = 1, 0
    while members * arity <= nprocs:
        members, levels = members * arity, levels + 1
    return members, levels


def _factored(parts: Sequence[Any], want_q: bool) -> tuple[list[Any], Any]:
    """Factor R's stacked one below the other; return for each of them its rows of Q, and the R of all."""
    if not want_q:
        return [None] * len(parts), np.linalg.qr(np.concatenate(parts), mode="r")
    q, r = np.linalg.qr(np.concatenate(parts))
    ends = np.cumsum([part.shape[0] for part in parts])
    return [q[end - part.shape[0] : end] for end, part in zip(ends, parts, strict=True)], r


def _met(here: World, r: Any, arity: int, want_q: bool) -> tuple[Any, Any]:
    """Factor the R's of all processes in a butterfly: groups at distance 1, a, a², ... each factor their R's alike.

    Processes beyond the greatest power of a first join one of the others.  Returns the factor that takes the R of the
    whole to this process's own, and the R of the whole.
    """
    pid, nprocs = here.pid, here.nprocs
    low, levels = tree_of(nprocs, arity)
    nothing = r[:0]
    piece: Any = None
    others: Any = None  # the factor for the process that joined this one
    joined = pid + low < nprocs
    if low < nprocs:
        arrived = dict(here.exchange("tsqr join", [(pid - low, r)] if pid >= low and r.shape[0] else []))
        if joined:
            (piece, others), r = _factored([r, arrived.get(pid + low, nothing)], want_q)
    for level in range(levels):
        distance = arity**level
        place = pid // distance % arity
        group = [pid + (k - place) * distance for k in range(arity)] if pid < low else []
        arrived = dict(here.exchange("tsqr", [(dest, r) for dest in group if dest != pid and r.shape[0]]))
        if pid >= low:
            continue
        arrived[pid] = r
        owns, r = _factored([arrived.get(source, nothing) for source in group], want_q)
        if want_q:
            piece = owns[place] if piece is None else piece @ owns[place]
            others = others @ owns[place] if joined else None
    if low < nprocs:
        given = [(pid + low, each) for each in (r, others) if each is not None] if joined else []
        back = here.exchange("tsqr back", given)
        if pid >= low:
            r = back[0][1]
            piece = back[1][1] if want_q else None
    return piece, r
