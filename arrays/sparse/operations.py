"""Operations of sparse patterns on dense vectors, as stages of the same plans as all other operations.

An operation takes arrays of rows, of columns or of entries of a pattern, and gives one of them.  Three kinds:

local     every process has what it needs: entries from rows, rows from entries
forward   each process needs the elements of far columns: they are packed where they are, sent, and used
back      each process has contributions to far columns: they are sent to the owners of the columns, and combined

Cost: W = 2 operations for each entry (and column of a dense matrix), H = the elements of far columns, S = 1; local
operations move nothing.  The exchanges are ordinary fetches of the plan, so they share supersteps with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bsp.abstract.work import counter
from bsp.arrays.compiled import COMPILED, rows_times_vector
from bsp.arrays.execution import memory
from bsp.arrays.expressions.graph import Blocks, DType, Node, Staged, interned, kind_of
from bsp.arrays.expressions.layout import Axis, Layout, Shape, layout_of
from bsp.arrays.kernels.kernels import Room, StageTask
from bsp.arrays.planning.fusing import identity
from bsp.arrays.planning.planner import Planner
from bsp.arrays.planning.reshaping import read
from bsp.arrays.planning.stages import Ref, Spec, Value
from bsp.arrays.sparse.pattern import FarExchange, Outline, Pattern

_IN_PLACE, _FORWARD, _BACK = "own entries", "far columns", "to far columns"


class SparseWork(NamedTuple):
    """Description of an operation: `call(pattern, *shares)` on a process's shares of its operands.

    takes, gives : "rows", "columns" or "entries", for each operand and for the result.
    way : "local", "forward" or "back".  Forward, the elements of far columns are one more share, if there are any.
        Back, the result has contributions to far columns after those to the own ones; `ufunc` combines them.
    """

    name: str
    takes: tuple[str, ...]
    gives: str
    way: str
    call: Callable[..., Any]
    ufunc: np.ufunc | None = None


class SparseOperation(Staged):
    """An operation of a pattern's entries and dense arrays.

    wide : the length of the second axis of dense matrices; None: all operands and the result are vectors.
    flat : whether the result is a vector nevertheless.
    """

    def __init__(
        self, work: SparseWork, outline: Outline, exchange: FarExchange | None, wide: int | None, flat: bool
    ) -> None:  # fmt: skip
        self.work, self.outline, self.exchange, self.wide, self.flat = work, outline, exchange, wide, flat
        self.name = work.name

    def expand(self, planner: Planner, i: int, node: Node) -> Value:
        """Create the stages of a node with this operation; return its value."""
        *args, pattern = node.args
        where = planner.fusion.param(pattern)
        refs = [self._ref(planner, arg, side) for arg, side in zip(args, self.work.takes, strict=True)]
        layouts = [self._wide(self.outline.lines[side]) for side in self.work.takes]
        result = self.outline.lines[self.work.gives]
        result = result if self.flat else self._wide(result)
        dtype, text = node.kind.dtype, planner.text(i)
        if self.work.way == "forward" and self.exchange is not None:
            return self._forward(planner, refs, layouts, result, dtype, where, text)
        if self.work.way == "back" and self.exchange is not None:
            return self._back(planner, refs, layouts, result, dtype, where, text)
        kernel = PatternKernel(self._own, self.outline, where, dtype)
        return self._stage(planner, refs, layouts, kernel, result, dtype, text, _IN_PLACE)

    def _wide(self, layout: Layout) -> Layout:
        if self.wide is None:
            return layout
        return layout_of((*layout.axes, Axis(self.wide)), layout.replicated, layout.table)

    def _ref(self, planner: Planner, arg: Node, side: str) -> Ref:
        """Return a reference to an operand; a view that repeats elements or turns axes is made an array first."""
        ref, whole = read(planner, arg), identity(len(arg.kind.shape))
        if [each.label for each in ref.access] == [each.label for each in whole]:
            return ref
        line = self.outline.lines[side]
        layout = self._wide(line) if len(whole) > 1 else line
        return Ref(planner.copied(ref, layout, _IN_PLACE, f"view of {ref.value.name}"), whole)

    def _stage(
        self, planner: Planner, refs: Sequence[Ref], layouts: Sequence[Layout], kernel: PatternKernel, result: Layout,
        dtype: DType, text: str, pattern: str,
    ) -> Value:  # fmt: skip
        """Return the value of a stage whose tasks, one a process, each read a process's share of every operand."""
        nprocs = planner.nprocs
        tasks = self._wide(self.outline.lines["rows"])
        labels = tuple(axis.length for axis in tasks.axes)
        spec = Spec(labels, tuple(refs), tuple(range(len(labels))), (), 1.0, dtype.itemsize)
        kernel.ndim, kernel.gives = len(result.axes), self.work.gives
        kernel.longest = max([int(each.held(nprocs).max(initial=0)) for each in (*layouts, result)])
        return planner.stage(spec, tasks, kernel, result, dtype, text, pattern, layouts)

    def _own(self, pattern: Pattern, *shares: Any) -> Any:
        """Return the result where nothing is far."""
        return self.work.call(pattern, *shares)

    def _forward(
        self, planner: Planner, refs: list[Ref], layouts: list[Layout], result: Layout, dtype: DType, where: int,
        text: str,
    ) -> Value:  # fmt: skip
        exchange = self.exchange
        assert exchange is not None
        sent, packed = refs[-1], self._wide(exchange.packed)
        packing = Packing(self.outline, where, sent.value.dtype, packed)
        value = self._stage(
            planner, [sent], layouts[-1:], packing, packed, sent.value.dtype, f"packed {sent.value.name}", _FORWARD
        )
        every = Ref(value, identity(len(packed.axes)))

        kernel = PatternKernel(self._own, self.outline, where, dtype)
        arriving = self._wide(exchange.arriving)
        return self._stage(planner, [*refs, every], [*layouts, arriving], kernel, result, dtype, text, _IN_PLACE)

    def _back(
        self, planner: Planner, refs: list[Ref], layouts: list[Layout], result: Layout, dtype: DType, where: int,
        text: str,
    ) -> Value:  # fmt: skip
        exchange = self.exchange
        assert exchange is not None
        given, at_owners, parts = exchange.back
        given, at_owners = self._wide(given), self._wide(at_owners)
        unpacking = Unpacking(self._own, self.outline, where, dtype, given, parts)
        value = self._stage(planner, refs, layouts, unpacking, given, dtype, f"parts of {text}", _BACK)
        every = Ref(value, identity(len(given.axes)))
        ufunc = self.work.ufunc
        assert ufunc is not None

        def combined(pattern: Pattern, share: Any) -> Any:
            own = share[: pattern.stop - pattern.first].copy()
            ufunc.at(own, pattern.far.served, share[len(own) :])
            return own

        kernel = PatternKernel(combined, self.outline, where, dtype)
        return self._stage(planner, [every], [at_owners], kernel, result, dtype, text, "combined")


class PatternKernel:
    """A kernel that calls a function of a process's pattern and of its shares of the operands."""

    calculates = False  # scipy's loops report no floating-point errors
    fallible = False
    longest = 0  # elements of the longest share
    ndim = 1  # axes of the result

    def __init__(self, call: Callable[..., Any], outline: Outline, where: int, dtype: DType) -> None:
        self.call, self.outline, self.where, self.dtype = call, outline, where, dtype
        self.gives = "rows"

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return two operations for each entry of a process, for each column of a dense matrix."""
        rows = np.maximum(np.diff(self.outline.rows), 1)
        wide = np.ceil(points / rows) if len(points) == len(rows) else 1
        counts = self.outline.counts if len(points) == len(rows) else self.outline.counts.max(initial=0)
        return np.asarray(2.0 * counts * wide)

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return 2 * self.longest * self.dtype.itemsize + 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return this process's share of the result."""
        pattern = room.params[self.where]
        found: Blocks = {}
        for task in tasks:
            share = np.asarray(self.call(pattern, *task.regions))
            found[task.at[: self.ndim]] = share if share.dtype == self.dtype else share.astype(self.dtype)
        return found

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        for task in tasks:
            pattern = room.params[self.where]
            counter.flops("elementwise", 2.0 * len(pattern.indices) * (task.shape[1] if len(task.shape) > 1 else 1))
            found[task.at[: self.ndim]] = room.empty(self._shape(pattern, task)[: self.ndim], self.dtype)
        return found

    def _shape(self, pattern: Pattern, task: StageTask) -> Shape:
        shares = {"rows": pattern.rows, "columns": pattern.stop - pattern.first, "entries": len(pattern.indices)}
        return (shares[self.gives], *task.shape[1:])


class Packing(PatternKernel):
    """A kernel that puts the elements that a process sends side by side, a block for each receiver."""

    def __init__(self, outline: Outline, where: int, dtype: DType, packed: Layout) -> None:
        super().__init__(lambda pattern, share: share.take(pattern.far.served, axis=0), outline, where, dtype)
        self.rest = (0,) * (len(packed.axes) - 1)
        self.sizes = packed.held(outline.nprocs)

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return one operation for each element that a process sends."""
        return np.asarray(self.sizes if len(points) == len(self.sizes) else self.sizes.max(initial=0), float)

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the blocks of this process's pairs."""
        far = room.params[self.where].far
        (packed,) = super().compute(room, tasks).values()
        return {(pair, *self.rest): packed[a:b] for pair, a, b in zip(far.sends, far.sent, far.sent[1:], strict=False)}

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values, as `Kernel.declared` requires."""
        far = room.params[self.where].far
        (task,) = tasks
        shape = (len(far.served), *task.shape[1:])
        packed = room.empty(shape, self.dtype)
        return {(pair, *self.rest): packed[a:b] for pair, a, b in zip(far.sends, far.sent, far.sent[1:], strict=False)}


class Unpacking(PatternKernel):
    """A kernel whose result is cut into a process's contribution to its own columns and those for other owners."""

    def __init__(
        self, call: Callable[..., Any], outline: Outline, where: int, dtype: DType, given: Layout, parts: np.ndarray
    ) -> None:
        super().__init__(call, outline, where, dtype)
        self.given, self.parts = given, parts

    def _cut(self, pattern: Pattern, whole: Any) -> Blocks:
        far, rest = pattern.far, (0,) * (len(self.given.axes) - 1)
        own = pattern.stop - pattern.first
        nprocs = pattern.outline.nprocs
        found = {(int(self.parts[pattern.pid]), *rest): whole[:own]}
        for pair, a, b in zip(far.receives, far.received, far.received[1:], strict=False):
            found[(int(self.parts[nprocs + pair]), *rest)] = whole[own + a : own + b]
        return found

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the blocks that this process gives to itself and to other owners."""
        (whole,) = super().compute(room, tasks).values()
        return self._cut(room.params[self.where], whole)

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        (whole,) = super().declared(room, tasks).values()
        return self._cut(room.params[self.where], whole)

    def _shape(self, pattern: Pattern, task: StageTask) -> Shape:
        return (pattern.width, *task.shape[1:])


def applied(
    work: SparseWork, pattern: Pattern, args: Sequence[Node], dtype: DType, wide: int | None = None, flat: bool = False
) -> Node:
    """Return the node of an operation.  Collective if it is the first one of this pattern that moves anything."""
    outline = pattern.outline
    exchange = None
    if work.way != "local":
        exchange = pattern.far.exchange
        if not exchange.words:
            exchange = None
    op = interned(SparseOperation, work, outline, exchange, wide, flat)
    side = outline.lines[work.gives].shape
    return Node(op, (*args, pattern.node), kind_of((*side, wide) if wide is not None and not flat else side, dtype))


# ------------------------------------------------------------------------------ the operations


def _matrix(pattern: Pattern, entries: Any) -> csr_array:
    """Return this process's rows with compact columns, as scipy's CSR array, of which it copies nothing."""
    return csr_array((entries, pattern.compact, pattern.indptr), shape=(pattern.rows, pattern.width), copy=False)


def _joined(own: Any, far: Any) -> Any:
    """Return own and far elements as one array, in memory that is used again: new memory costs more than the copy."""
    if far is None or not len(far):
        return own
    return np.concatenate([own, far], out=memory.empty((len(own) + len(far), *own.shape[1:]), own.dtype))


def _product(pattern: Pattern, entries: Any, own: Any, far: Any = None) -> Any:
    """Return this process's rows times a vector or matrix.

    The rows that have own columns only, as most rows of a mesh do, are multiplied by the own elements where they are;
    own and far elements are put side by side for the rest.
    """
    if COMPILED and own.ndim == 1 and entries.dtype == own.dtype:
        entries, own = np.ascontiguousarray(entries), np.ascontiguousarray(own)
        found = memory.empty((pattern.rows,), entries.dtype)
        if all(
            rows_times_vector(pattern.indptr[low : high + 1], at, entries, x, found[low:high])
            for low, high, at, x in _ranges(pattern, own, far)
        ):
            return found
    return _matrix(pattern, entries) @ _joined(own, far)


def _ranges(pattern: Pattern, own: Any, far: Any) -> Iterator[tuple[int, int, np.ndarray, Any]]:
    """Yield ranges of rows, the columns of all entries as numbers of elements of a vector, and this vector."""
    inner = pattern.inner if far is not None and len(far) else None
    if inner is None:
        yield 0, pattern.rows, pattern.compact, _joined(own, far)
        return
    low, high, columns, touched = inner
    every = np.concatenate([own[touched], far])
    yield 0, low, columns, every
    yield low, high, pattern.compact, own
    yield high, pattern.rows, columns, every


def _product_back(pattern: Pattern, entries: Any, x: Any) -> Any:
    return _matrix(pattern, entries).T @ x


PRODUCT = SparseWork("sparse product", ("entries", "columns"), "rows", "forward", _product)
TRANSPOSED = SparseWork("transposed sparse product", ("entries", "rows"), "columns", "back", _product_back, np.add)
AT_COLUMNS = SparseWork(
    "elements at columns", ("columns",), "entries", "forward",
    lambda pattern, own, far=None: _joined(own, far).take(pattern.compact, axis=0),
)  # fmt: skip
AT_ROWS = SparseWork(
    "elements at rows", ("rows",), "entries", "local", lambda pattern, x: x.take(pattern.row_of, axis=0)
)


def _dense(pattern: Pattern, entries: Any) -> Any:
    found = np.zeros((pattern.rows, pattern.outline.shape[1]), entries.dtype)
    found[pattern.row_of, pattern.indices] = entries
    return found


DENSE = SparseWork("dense", ("entries",), "rows", "local", _dense)
AT_ENTRIES = SparseWork(
    "elements at entries", ("rows",), "entries", "local", lambda pattern, x: x[pattern.row_of, pattern.indices]
)


@cache
def diagonal(k: int) -> SparseWork:
    """Return the operation that gives each row its element on the k-th diagonal, 0 where there is none."""

    def on_diagonal(pattern: Pattern, entries: Any) -> Any:
        found = np.zeros(pattern.rows, entries.dtype)
        on = pattern.indices == pattern.row_of + (pattern.outline.rows[pattern.pid] + k)
        found[pattern.row_of[on]] = entries[on]
        return found

    return SparseWork("diagonal", ("entries",), "rows", "local", on_diagonal)


_combinations: dict[tuple[str, np.ufunc, Any], SparseWork] = {}


def combining(ufunc: np.ufunc, empty: Any, side: str) -> SparseWork:
    """Return the operation that combines the entries of each row, or column, by a ufunc.

    empty : the value of rows without entries; for columns it must be the ufunc's identity.
    side : "rows" or "columns".
    """
    key = (side, ufunc, empty)
    found = _combinations.get(key)
    if found is not None:
        return found

    def over_rows(pattern: Pattern, entries: Any) -> Any:
        total = np.full((pattern.rows, *entries.shape[1:]), empty, entries.dtype)
        begins = pattern.indptr[:-1]
        (filled,) = np.nonzero(np.diff(pattern.indptr))
        if len(filled):
            total[filled] = ufunc.reduceat(entries, begins[filled], dtype=entries.dtype)
        return total

    def over_columns(pattern: Pattern, entries: Any) -> Any:
        total = np.full((pattern.width, *entries.shape[1:]), empty, entries.dtype)
        order, begins, columns = pattern.by_column
        if len(begins):
            total[columns] = ufunc.reduceat(entries[order], begins, dtype=entries.dtype)
        return total

    if side == "rows":
        found = SparseWork(f"{ufunc.__name__} over rows", ("entries",), "rows", "local", over_rows)
    else:
        found = SparseWork(f"{ufunc.__name__} over columns", ("entries",), "columns", "back", over_columns, ufunc)
    _combinations[key] = found
    return found
