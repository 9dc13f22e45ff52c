"""Files of Matrix Market, the format that collections of sparse matrices have."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bsp.arrays.errors import ArrayError, FormatError
from bsp.arrays.execution.world import world
from bsp.arrays.files.agreement import agreed, path_of, same_everywhere, written_in_parts
from bsp.arrays.files.lines.division import TextLines, lines_of
from bsp.arrays.files.lines.fields import Fields
from bsp.arrays.files.lines.opening import Opening
from bsp.arrays.files.text import compressed
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.creation import from_coo
from bsp.arrays.sparse.files.market_lines import Entries, entries_of
from bsp.arrays.sparse.files.tables import check_fits, indices_of, pieces, table_of
from bsp.arrays.typing import PathLike
from bsp.declared import declares

_FIELDS = {
    "real": (3, float), "integer": (3, np.int64), "unsigned-integer": (3, np.uint64), "complex": (4, float),
    "pattern": (2, np.int64),
}  # fmt: skip
_FORTRAN = re.compile(rb"(?<=[\d.])[dD](?=[+-]?\d)")  # in 1.5D+03, as it writes numbers of double precision
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


class MarketHeader(NamedTuple):
    """The head of a Matrix Market file: what its entries are, the shape, and the number of its lines."""

    field: str
    symmetry: str
    rows: int
    columns: int
    entries: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the array, which is that of scipy.io.mmread."""
        return np.dtype({"integer": np.int64, "unsigned-integer": np.uint64, "complex": complex}.get(self.field, float))


def _market(file: BinaryIO) -> tuple[MarketHeader, int, bytes]:
    """Read the head of a Matrix Market file; return it parsed, its number of lines, and its bytes."""
    head = [file.readline()]
    words = head[0].decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("this is no Matrix Market file: it does not begin with '%%MatrixMarket matrix'")
    if words[2] != "coordinate":
        raise ValueError(f"line 1: a matrix in the format {words[2]!r}; sparse arrays are in 'coordinate'")
    for given, known in ((words[3], (*_FIELDS, "double")), (words[4], _SYMMETRIES)):
        if given not in known:
            raise ValueError(f"line 1: {given!r} is none of {', '.join(known)}")
    while not (sizes := head[-1].split()) or sizes[0].startswith(b"%"):
        head.append(file.readline())
        if not head[-1]:
            raise ValueError("it ends before the line of its sizes")
    if len(sizes) != 3 or not all(each.isdigit() for each in sizes):
        raise ValueError(f"line {len(head)}: three sizes, rows, columns and entries, not {head[-1][:40]!r}")
    if max(map(int, sizes)) > np.iinfo(np.int64).max:
        raise ValueError(f"line {len(head)}: sizes are at most {np.iinfo(np.int64).max}, not {head[-1][:60]!r}")
    found = MarketHeader("real" if words[3] == "double" else words[3], words[4], *map(int, sizes))
    if found.symmetry != "general" and found.rows != found.columns:
        raise ValueError(f"line {len(head)}: a {found.symmetry} matrix of {found.rows} rows, {found.columns} columns")
    return found, len(head), b"".join(head)


def _opened_market(file: BinaryIO) -> Opening:
    header, lines, head = _market(file)
    width, dtype = _FIELDS[header.field]
    names = ("row", "column", "value", "imaginary part")[:width]
    return Opening(Fields(None, width, tuple(range(width)), names, np.dtype(dtype)), len(head), lines, head)


def read_mtx(path: PathLike, *, bounds: Sequence[int] | None = None) -> SparseArray:
    """Read a Matrix Market file in coordinate format, also compressed (.gz, .bz2, .xz).  Collective.

    bounds : of the processes' rows, as in `from_coo`.
    Matrices are real (also called double), integer, unsigned-integer (scipy's for uint64), complex, or patterns, whose
    entries become 1.0; symmetric, skew-symmetric and Hermitian ones get the entries of the other triangle.  Duplicates
    are summed.  Exponents may be Fortran's: 1.5D+03.
    Cost: two supersteps to read and to agree on it, and those of `from_coo`; see `lines_of` for compressed text.
    Raises NoSuchFile, FileError, FormatError with the line; PlanTooLarge, before any entry is read, if the processes'
    shares of the entries do not fit in their memory.
    """
    call = f"read_mtx({os.fspath(path)!r})"
    lines, opened = lines_of(path, _opened_market), []

    def open_() -> MarketHeader:
        opened.append(lines())
        return _market(io.BytesIO(opened[0].opening.head))[0]

    header = MarketHeader(*same_everywhere(call, agreed(call, open_)))
    both = header.symmetry != "general"
    check_fits(call, header.rows, header.entries * (1 + both), header.dtype)
    found: list[Any] = []

    def work() -> int:
        found.extend(_plain_entries(opened[0], header) or _checked_entries(opened[0], header))
        return len(found[0])

    count = sum(agreed(call, work))
    if count != header.entries:
        raise FormatError(f"{call}: its head says {header.entries} entries, it has {count}")
    rows, columns, values = found
    if both:
        other = rows != columns
        mirrored = {"skew-symmetric": np.negative, "hermitian": np.conjugate}.get(header.symmetry, np.positive)
        rows, columns = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
        values = np.concatenate([values, mirrored(values[other])])
    return from_coo(rows, columns, values, (header.rows, header.columns), bounds=bounds)


def _plain_entries(own: TextLines, header: MarketHeader) -> Entries | None:
    """Return the entries of a process's lines, if they are plain."""
    parts = [Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, header.dtype))]
    for piece in pieces(own, "%"):
        part = entries_of(piece, header.field, own.opening.fields.width, (header.rows, header.columns))
        if part is None:
            return None
        parts.append(part)
    return Entries(*map(np.concatenate, zip(*parts, strict=True)))


def _checked_entries(own: TextLines, header: MarketHeader) -> Entries:
    """Return the entries of a process's lines; ValueError with the line of the first mistake."""
    table, place = table_of(own, "%", lambda lines: _FORTRAN.sub(b"e", lines) if header.dtype.kind in "fc" else lines)
    rows = indices_of(table, 0, 1, header.rows, place, "row")
    columns = indices_of(table, 1, 1, header.columns, place, "column")
    return Entries(rows, columns, _values(table, header))


def _values(table: np.ndarray, header: MarketHeader) -> np.ndarray:
    if header.field == "pattern":
        return np.ones(len(table))
    if header.field == "complex":
        return np.ascontiguousarray(table[:, 2:]).view(complex)[:, 0]  # a sum would make NaN of 1 + inf j
    return np.ascontiguousarray(table[:, 2])


def write_mtx(path: PathLike, a: SparseArray, *, comment: str = "") -> None:
    """Write a sparse array as a Matrix Market file, of general symmetry; compressed if the name ends in .gz, .bz2, .xz.

    Numbers are written so that reading gives the same ones.  Each process formats and writes its own entries.
    Cost: 4 supersteps, in which the only words are the lengths of the parts.
    Raises FileError on every process if one could not write; nothing is left behind.  ArrayError for other arrays.
    """
    name = path_of(path, "write_mtx")
    if not isinstance(a, SparseArray):
        raise ArrayError(f"write_mtx: {a!r:.60} is no sparse array of two axes; save_npz takes any number of axes")
    field = "unsigned-integer" if a.dtype == np.uint64 else {"f": "real", "c": "complex"}.get(a.dtype.kind, "integer")
    head = f"%%MatrixMarket matrix coordinate {field} general\n"
    head += "".join(f"%{line}\n" for line in comment.splitlines()) + f"{a.shape[0]} {a.shape[1]} {a.nnz}\n"
    first, entries = head.encode() * (world().pid == 0), a.triples()
    written_in_parts(f"write_mtx({name!r})", name, lambda: compressed(name, first + _lines(*entries)))


@declares(lambda costs, *args: b"")
def _lines(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> bytes:
    """Return entries as lines, counted from 1; no text in a run with shapes only."""
    parts = [values.real, values.imag] if values.dtype.kind == "c" else [values + 0]  # bool + 0 is an integer
    lists = [(rows + 1).tolist(), (columns + 1).tolist(), *(each.tolist() for each in parts)]
    form = "%d %d" + " %s" * len(parts) + "\n"
    return "".join([form % each for each in zip(*lists, strict=True)]).encode()
