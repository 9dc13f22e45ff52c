"""NumPy's .npy files: every process reads and writes its own blocks, at their places in the one file."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from bsp.arrays.api.creation import Grid, asarray, layout_for
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import DType, leaf
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.files.agreement import (
    Held,
    agreed,
    blocks_read,
    evaluated,
    path_of,
    read_at,
    replaced,
    same_everywhere,
    sampled,
    unchanged,
    write_at,
    writers_of,
)
from bsp.arrays.files.checksums import CheckedFile, CheckedPiece, check, share
from bsp.arrays.files.format import register
from bsp.arrays.procedures.operands import in_layout, slabs
from bsp.arrays.typing import PathLike

FILES = Held(".npy")
_RUN = 1 << 12  # bytes: blocks with shorter runs in the file are brought together into whole rows before writing
_LINE = 1 << 14  # bytes of a line that take less time to read than a run of it, which is a call of its own
_PIECE = 1 << 20  # bytes of whole lines that are read at once


def header_of(file: BinaryIO) -> tuple[Shape, bool, DType]:
    """Read a .npy header: return the shape, whether the order is Fortran's, and the dtype; the data follow it."""
    if file.read(6) != b"\x93NUMPY":
        raise ValueError("this is no .npy file: it does not begin with \\x93NUMPY")
    file.seek(-6, os.SEEK_CUR)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (ValueError, SyntaxError, TokenError) as wrong:  # NumPy parses the header as Python
        raise ValueError(f"its .npy header is damaged: {wrong}") from None
    return shape, fortran, dtype


def load_npy(
    path: PathLike, grid: Grid = None, process_grid: Grid = None, *, inside: CheckedFile | None = None
) -> Array:  # fmt: skip
    """Read the array of a .npy file, in C or Fortran order; each process reads its own blocks.

    inside : where it lies inside another file, and its checksum, which is compared.

    Data in another machine's byte order are converted.  Cost: one superstep, in which all agree that they could read,
    and exchange the checksums of their parts.  Where the blocks are no whole rows, an even share of the bytes is read
    once more for its checksum.  Lines of less than 16 KiB of which blocks have parts are read whole.
    Raises NoSuchFile, FileError, or FormatError if it is no .npy file, has no numbers, ends early or was changed.
    """
    call = f"load({os.fspath(path)!r})" + ("" if inside is None else f", member {inside.name!r}")
    found: dict[str, Any] = {}

    def work() -> Any:
        start = 0 if inside is None else inside.start
        with open(path, "rb") as file:
            file.seek(start)
            shape, fortran, dtype = header_of(file)
            first, there = file.tell(), os.fstat(file.fileno()).st_size
            file.seek(start)
            head = CheckedPiece(0, first - start, zlib.crc32(file.read(first - start)))
        there = there if inside is None else min(there, start + inside.size)
        kind = FILES.native(dtype)
        wanted = prod(shape) * dtype.itemsize
        if there - first < wanted:
            raise ValueError(
                f"it ends early: {dtype}{list(shape)} takes {wanted} bytes after its header, there are {there - first}"
            )
        layout = layout_for(shape, grid, process_grid)
        cut_by_rows = len(shape) > 0 and all(axis.parts == 1 for axis in layout.merged.axes[1:])
        consecutive = cut_by_rows and not fortran and not layout.replicated  # blocks that make up the data in the file
        pieces = [head] if world().pid == 0 else []

        def part(box: tuple[slice, ...]) -> np.ndarray:
            spans = tuple((each.start, each.stop) for each in box)
            with open(path, "rb", buffering=0) as file:
                if fortran:
                    block = np.ascontiguousarray(_read_block(file, first, shape[::-1], spans[::-1], dtype).T)
                else:
                    block = _read_block(file, first, shape, spans, dtype)
            if inside is not None and consecutive:
                offset = head.length + box[0].start * prod(shape[1:]) * dtype.itemsize
                pieces.append(CheckedPiece(offset, block.nbytes, zlib.crc32(block.reshape(-1).view(np.uint8).data)))
            return block.astype(kind, copy=False)

        blocks = blocks_read(layout, kind, part)
        found.update(shape=shape, dtype=kind, layout=layout, blocks=blocks)
        if inside is not None and not (consecutive and inside.size == head.length + wanted):
            pieces = share(path, inside)
        return (shape, dtype.str, fortran), pieces

    told = agreed(call, lambda: sampled(path, work) if inside is None else (work(), None))
    same_everywhere(call, [seen for (seen, _), _ in told])
    if inside is None:
        unchanged(call, [sample for _, sample in told])
    else:
        check(call, inside, [piece for (_, pieces), _ in told for piece in pieces])
    return wrap(leaf(found["shape"], found["dtype"], found["layout"], found["blocks"]))


def save_npy(path: PathLike, x: Any) -> None:
    """Write an array to a .npy file in C order; every process writes its own blocks directly at their places.

    The file is written beside its target and replaces it when all have written and flushed: an interrupted write leaves
    the old file.  Cost: 3 supersteps.  Blocks of columns have rows that are short runs in the file; they are first
    brought together into whole rows, which takes one total exchange.
    Raises FileError on every process if one could not write (no room, no permission); nothing is left behind.
    """
    array = asarray(x)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    )
    save_raw(f"save({os.fspath(path)!r})", path, array, head.getvalue())


def save_raw(call: str, path: PathLike, x: Any, head: bytes) -> None:
    """Write a file of a header and all elements in C order; see `save_npy`."""
    here = world()
    node = evaluated(asarray(x))
    assert node.layout is not None
    shape, dtype = node.kind.shape, node.kind.dtype
    if _shortest_run(node.layout) * dtype.itemsize < _RUN:
        node = in_layout(node, slabs(shape, here.nprocs))
    layout = node.layout
    assert layout is not None

    def prepare(part: Path) -> None:
        with open(part, "wb") as file:
            file.write(head)
            file.truncate(len(head) + prod(shape) * dtype.itemsize)

    def write(part: Path) -> None:
        with open(part, "r+b", buffering=0) as file:
            for at, block in node.value.items():
                _write_block(file, len(head), shape, layout.box(at), block)
            os.fsync(file.fileno())

    replaced(call, path, prepare, write, writers_of(layout))


def _whole_axes(box: tuple[tuple[int, int], ...], shape: Shape) -> int:
    """Count the last axes of which a box has the whole length."""
    count = 0
    while count < len(shape) and box[-1 - count] == (0, shape[-1 - count]):
        count += 1
    return count


def _shortest_run(layout: Layout) -> int:
    """Return the shortest run in the file, in elements, over all blocks; a huge number where no exchange can help."""
    if layout.replicated or all(axis.parts == 1 for axis in layout.axes[1:]):
        return 1 << 62
    last = max(k for k, axis in enumerate(layout.axes) if axis.parts > 1)
    run = prod(layout.shape[last + 1 :])
    return run * int(np.diff(layout.axes[last].bounds).min())


def _outer_axes(box: Any, shape: Shape) -> int:
    """Count the axes before the runs of a box: a run in the file covers part of the next axis and all later ones."""
    return max(len(shape) - _whole_axes(box, shape) - 1, 0)


def _runs(shape: Shape, box: Any, block: np.ndarray) -> Iterator[tuple[int, Any]]:
    """Yield where each run of a block begins in the file, in bytes behind the first element, and its own memory."""
    outer = _outer_axes(box, shape)
    rows = block.reshape(prod(block.shape[:outer]), -1)
    steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    inner = sum(low * step for (low, _), step in zip(box[outer:], steps[outer:], strict=True))
    for at, row in zip(np.ndindex(*block.shape[:outer]), rows, strict=True):
        first = inner + sum((box[axis][0] + k) * steps[axis] for axis, k in enumerate(at))
        yield first * block.itemsize, row.view(np.uint8).data


def _write_block(file: io.RawIOBase | BinaryIO, start: int, shape: Shape, box: Any, block: np.ndarray) -> None:
    """Write one block to the file, run by run."""
    if block.size:
        for place, run in _runs(shape, box, np.ascontiguousarray(block)):
            write_at(file, start + place, run)


def _read_block(file: io.RawIOBase, start: int, shape: Shape, box: Any, dtype: DType) -> np.ndarray:
    """Read one block of an array in C order whose elements begin at byte `start` of the file.

    The file is not mapped into memory: if another program cut it short then, the system would end this process.
    """
    found = np.empty([high - low for low, high in box], dtype)
    if not found.size:
        return found
    outer = _outer_axes(box, shape)
    line = prod(shape[outer:]) * dtype.itemsize
    if outer and line < _LINE:
        wide = (*box[:outer], (0, shape[outer]), *box[outer + 1 :])
        step = max(_PIECE // (prod(found.shape[1:outer]) * line), 1)
        for low in range(box[0][0], box[0][1], step):
            rows = (low, min(low + step, box[0][1]))
            lines = _read_block(file, start, shape, (rows, *wide[1:]), dtype)
            found[low - box[0][0] :][: len(lines)] = lines[(slice(None),) * outer + (slice(*box[outer]),)]
        return found
    for place, run in _runs(shape, box, found):
        read_at(file, start + place, run)
    return found


def _save(file: PathLike, arr: Any, allow_pickle: bool = True) -> None:
    """Implement numpy.save: write a .npy file, adding .npy to a name that does not end in it."""
    path = path_of(file, "save")
    save_npy(path if path.endswith(".npy") else path + ".npy", arr)


register(of_numpy={np.save: _save})
