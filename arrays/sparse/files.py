"""Sparse arrays in files: Matrix Market, scipy's .npz, and lists of edges as text or Parquet.

Each process reads its own lines, rows or row groups, and writes its own entries at their place in the one file.  Lines
that a process has read go to the owners of their rows; an .npz archive has rows in order, so there nothing moves.  An
error of one process is the same error on all, with the line in which it is.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse

from bsp.arrays.errors import FormatError, PlanTooLarge
from bsp.arrays.execution.world import world
from bsp.arrays.files.agreement import Held, PathLike, agreed, path_of, same_everywhere, written_in_parts
from bsp.arrays.files.columns import line_of, numbers_of
from bsp.arrays.files.fields import BadLine, Fields
from bsp.arrays.files.lines import OPENERS, Opening, TextLines, lines_of, opening_of
from bsp.arrays.files.npy import header_of
from bsp.arrays.files.npz import member_bytes, written_members
from bsp.arrays.files.parquet import ParquetRows
from bsp.arrays.files.text import COMPRESSORS
from bsp.arrays.sparse.array import SparseArray, of_rows
from bsp.arrays.sparse.creation import columns_like, cut_by_weight, from_coo, limits_of
from bsp.arrays.sparse.market import Entries, entries_of
from bsp.arrays.sparse.pattern import even
from bsp.arrays.typing import DTypeLike
from bsp.cost.units import in_bytes
from bsp.declared import declares

_FIELDS = {"real": (3, float), "integer": (3, np.int64), "complex": (4, float), "pattern": (2, np.int64)}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
_PIECE = 1 << 22  # bytes of text that are parsed at a time
_RUNS = (b"  ", b" \n", b"\n ", b"\t", b"\r", b"\v", b"\f", b'"')  # text without them is read faster
_EXACT = 1 << 53  # indices from here on are not exact as floats
_HELD = Held("sparse .npz")
_Place = Callable[[int], str]


def load(path: PathLike, **options: Any) -> SparseArray:
    """Read a sparse array from a file: Matrix Market (.mtx), scipy's .npz, else a list of edges.  Collective.

    options : those of `read_mtx`, `read_npz` or `read_edges`.
    """
    name, ending = os.path.splitext(os.fspath(path).lower())
    ending = os.path.splitext(name)[1] if ending in OPENERS else ending
    readers: dict[str, Callable[..., SparseArray]] = {".mtx": read_mtx, ".npz": read_npz}
    reader: Callable[..., SparseArray] = readers.get(ending, read_edges)
    return reader(path, **options)


# ------------------------------------------------------------------------------ Matrix Market


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
        return np.dtype({"integer": np.int64, "complex": complex}.get(self.field, float))


def _market(file: BinaryIO) -> tuple[MarketHeader, int, bytes]:
    """Read the head of a Matrix Market file; return it parsed, its number of lines, and its bytes."""
    head = [file.readline()]
    words = head[0].decode("latin-1").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("this is no Matrix Market file: it does not begin with '%%MatrixMarket matrix'")
    if words[2] != "coordinate":
        raise ValueError(f"line 1: a matrix in the format {words[2]!r}; sparse arrays are in 'coordinate'")
    for given, known in ((words[3], _FIELDS), (words[4], _SYMMETRIES)):
        if given not in known:
            raise ValueError(f"line 1: {given!r} is none of {', '.join(known)}")
    while not (sizes := head[-1].split()) or sizes[0].startswith(b"%"):
        head.append(file.readline())
        if not head[-1]:
            raise ValueError("it ends before the line of its sizes")
    if len(sizes) != 3 or not all(each.isdigit() for each in sizes):
        raise ValueError(f"line {len(head)}: three sizes, rows, columns and entries, not {head[-1][:40]!r}")
    found = MarketHeader(words[3], words[4], *map(int, sizes))
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
    Matrices are real, integer, complex or patterns, whose entries become 1.0; symmetric, skew-symmetric and Hermitian
    ones get the entries of the other triangle.  Duplicates are summed.
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
    _fits(call, header.rows, header.entries * (1 + both), header.dtype)
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
    for piece in _pieces(own, "%"):
        part = entries_of(piece, header.field, own.opening.fields.width, (header.rows, header.columns))
        if part is None:
            return None
        parts.append(part)
    return Entries(*map(np.concatenate, zip(*parts, strict=True)))


def _checked_entries(own: TextLines, header: MarketHeader) -> Entries:
    """Return the entries of a process's lines; ValueError with the line of the first mistake."""
    table, place = _table(own, "%")
    rows, columns = (_indices(table, k, 1, length, place) for k, length in enumerate((header.rows, header.columns)))
    return Entries(rows, columns, _values(table, header))


def _values(table: np.ndarray, header: MarketHeader) -> np.ndarray:
    if header.field == "pattern":
        return np.ones(len(table))
    if header.field == "complex":
        return np.asarray(table[:, 2] + 1j * table[:, 3])
    return np.ascontiguousarray(table[:, 2])


def _fits(call: str, rows: int, entries: int, dtype: np.dtype[Any]) -> None:
    """Raise PlanTooLarge if a process's share of rows, and of entries as triples and as rows, exceeds its memory."""
    here = world()
    needed = -(-entries // here.nprocs) * (16 + dtype.itemsize + 4 + dtype.itemsize) + -(-rows // here.nprocs) * 16
    if here.memory and needed > here.memory:
        raise PlanTooLarge(
            f"{call} needs {in_bytes(needed)} on each process for {rows} rows with {entries} entries, limit "
            f"{in_bytes(here.memory)}; take more processes"
        )


def write_mtx(path: PathLike, a: SparseArray, *, comment: str = "") -> None:
    """Write a sparse array as a Matrix Market file, of general symmetry; compressed if the name ends in .gz, .bz2, .xz.

    Numbers are written so that reading gives the same ones.  Each process formats and writes its own entries.
    Cost: 4 supersteps, in which the only words are the lengths of the parts.
    Raises FileError on every process if one could not write; nothing is left behind.
    """
    name = path_of(path, "write_mtx")
    field = {"f": "real", "c": "complex"}.get(a.dtype.kind, "integer")
    head = f"%%MatrixMarket matrix coordinate {field} general\n"
    head += "".join(f"%{line}\n" for line in comment.splitlines()) + f"{a.shape[0]} {a.shape[1]} {a.nnz}\n"
    text = head.encode() * (world().pid == 0) + _lines(*a.triples())
    compress = COMPRESSORS.get(os.path.splitext(name)[1].lower())
    written_in_parts(f"write_mtx({name!r})", name, compress(text) if compress and text else text)


@declares(lambda costs, *args: b"")
def _lines(rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> bytes:
    """Return entries as lines, counted from 1; no text in a run with shapes only."""
    parts = [values.real, values.imag] if values.dtype.kind == "c" else [values + 0]  # bool + 0 is an integer
    lists = [(rows + 1).tolist(), (columns + 1).tolist(), *(each.tolist() for each in parts)]
    form = "%d %d" + " %r" * len(parts) + "\n"
    return "".join([form % each for each in zip(*lists, strict=True)]).encode()


# --------------------------------------------------------------------------------------- edges


def read_edges(
    path: PathLike, *, delimiter: str | None = None, columns: tuple[int | str, int | str] = (0, 1),
    weights: int | str | None = None, base: int = 0, shape: tuple[int, int] | None = None, symmetric: bool = False,
    comments: str | None = "#", header: bool | str = "auto", dtype: DTypeLike = float,
    bounds: Sequence[int] | None = None,
) -> SparseArray:  # fmt: skip
    """Read a list of edges, one a line of text or one a row of a Parquet file, as a matrix.  Collective.

    path : text, also compressed (.gz, .bz2, .xz); or a Parquet file, or a folder of them, if it ends in .parquet.
    delimiter : one character; None: a comma if the name ends in .csv, else any run of blanks.
    columns, weights : the columns of the rows, of the columns and of the values, by number or name; without weights
        each edge is a one.  Duplicates are summed.
    base : the number of the first row and column: 0 or 1.
    shape : None: square, with as many rows as the largest index needs.
    symmetric : add each edge that is not a loop in the other direction too.
    comments : what is between this text and the end of a line is not read; None: there are no comments.
    header : whether the first line has names; "auto": it does if none of its fields is a number.
    dtype : of the values.  With float values, indices and weights are exact up to 2^53, from Parquet always.
    bounds : of the processes' rows, as in `from_coo`.
    Cost: one superstep to read and to agree on it, and those of `from_coo`; see `lines_of` for compressed text.
    Raises NoSuchFile, FileError, or FormatError with the line or row; PlanTooLarge if the rows do not fit in memory.
    """
    call = f"read_edges({os.fspath(path)!r})"
    if base not in (0, 1):
        raise ValueError(f"{call}: base={base}: 0 or 1")
    kind = np.dtype(dtype)
    chosen = [*columns, *([] if weights is None else [weights])]
    exact = np.dtype(np.int64 if weights is None or kind.kind in "iub" else float)
    if os.fspath(path).lower().endswith(".parquet"):
        read: Callable[[], tuple[np.ndarray, _Place]] = partial(_of_parquet, path, chosen)
    else:
        name, ending = os.path.splitext(os.fspath(path).lower())
        if delimiter is None and ".csv" in (ending, os.path.splitext(name)[1]):
            delimiter = ","

        def opening(file: BinaryIO) -> Opening:
            before = 0
            while (line := file.readline()) and not _without(line, comments).strip():
                before += 1
            file.seek(0)
            return opening_of(file, delimiter, header, exact, chosen, before)

        lines = lines_of(path, opening)
        read = lambda: _table(lines(), comments)  # noqa: E731
    found: list[Any] = []

    def work() -> tuple[int, ...]:
        table, place = read()
        limits = shape or (_EXACT, _EXACT)
        rows, others = (_indices(table, k, base, length, place) for k, length in enumerate(limits))
        found.extend((rows, others, np.ones(len(table), kind) if weights is None else table[:, 2].astype(kind)))
        return int(rows.max(initial=-1)) + 1, int(others.max(initial=-1)) + 1, len(rows)

    told = agreed(call, work)
    most = max(max(each[:2]) for each in told)
    _fits(call, shape[0] if shape else most, sum(each[2] for each in told), kind)
    rows, others, values = found
    if symmetric:
        other = rows != others
        rows, others = np.concatenate([rows, others[other]]), np.concatenate([others, rows[other]])
        values = np.concatenate([values, values[other]])
    return from_coo(rows, others, values, shape or (most, most), bounds=bounds)


def _of_parquet(path: PathLike, chosen: Sequence[int | str]) -> tuple[np.ndarray, _Place]:
    def choose(names: tuple[str, ...]) -> tuple[str, ...]:
        for each in chosen:
            if each not in names if isinstance(each, str) else not -len(names) <= each < len(names):
                raise ValueError(f"there is no column {each!r}; there are {', '.join(names)}")
        return tuple(each if isinstance(each, str) else names[each] for each in chosen)

    rows = ParquetRows(path, choose)
    found = rows.columns(set())
    for name, levels in zip(rows.names, found.levels, strict=True):
        if levels is not None:
            raise ValueError(f"column {name!r} has texts, no numbers")
    parts = [np.stack(chunk, axis=1) for chunk in found.chunks]
    return np.concatenate([np.empty((0, len(chosen))), *parts]), rows.place


# ------------------------------------------------------------------------ numbers of own lines


def _without(text: bytes, comments: str | None) -> bytes:
    """Return text without what follows a mark of comments on each line; the lines stay."""
    if comments is None or (mark := comments.encode()) not in text:
        return text
    lines = text.split(b"\n")
    return b"\n".join([line.partition(mark)[0] for line in lines])


def _pieces(own: TextLines, comments: str | None) -> Iterator[bytes]:
    """Yield a process's text in pieces of whole lines, without comments."""
    rest = b""
    with own.stream() as stream:
        while part := stream.read(_PIECE):
            end = part.rfind(b"\n") + 1
            if end:
                yield _without(rest + part[:end], comments)
            rest = part[end:] if end else rest + part
    if rest:
        yield _without(rest, comments)


def _table(own: TextLines, comments: str | None) -> tuple[np.ndarray, _Place]:
    """Return the numbers of this process's lines, (lines, columns), and a function that names the line of a row."""
    fields, lines = own.opening.fields, 0
    parts = [np.empty((0, len(fields.columns)), fields.dtype)]
    for piece in _pieces(own, comments):
        single = fields.delimiter is None and piece[:1] != b" " and not any(mark in piece for mark in _RUNS)
        found = fields._replace(delimiter=" ") if single else fields
        try:
            parts.append(numbers_of(own._replace(stream=partial(io.BytesIO, piece)), found))
        except BadLine as bad:
            raise ValueError(f"line {own.before() + lines + bad.index + 1}: {bad.text}") from None
        lines += piece.count(b"\n")

    def place(row: int) -> str:
        text = b"".join(_pieces(own, comments))
        return f"line {own.before() + line_of(row, text, fields.delimiter) + 1}"

    return np.concatenate(parts), place


def _indices(table: np.ndarray, k: int, base: int, length: int, place: _Place) -> np.ndarray:
    """Return a column of a table as indices counted from 0; ValueError if one is none or out of range."""
    given = table[:, k]
    with np.errstate(invalid="ignore"):
        found = given.astype(np.int64)
    wrong = np.flatnonzero((found != given) | (found < base) | (found >= base + length))
    if len(wrong):
        at, side = int(wrong[0]), ("row", "column")[k]
        raise ValueError(f"{place(at)}: {side} {given[at]:.15g} is none of {base} to {base + length - 1}")
    return found - base


# ---------------------------------------------------------------------------------- scipy's npz


def read_npz(path: PathLike, *, bounds: Sequence[int] | None = None) -> SparseArray:
    """Read a matrix that scipy.sparse.save_npz, or `save_npz`, has written: CSR, CSC or COO.  Collective.

    bounds : of the processes' rows (of a CSC matrix, its columns), as in `from_coo`.
    Each process reads its own rows' entries, and decompresses but does not keep those before them.  A CSC matrix is
    read as the transpose of a CSR one.
    Cost: H = p words, S = 5; a COO matrix takes what `from_coo` does.
    Raises NoSuchFile, FileError, FormatError; PlanTooLarge, before any entry is read.
    """
    call = f"read_npz({os.fspath(path)!r})"
    here = world()

    def opened() -> tuple[str, tuple[int, ...], int, str]:
        with _archive(path) as archive:
            names = archive.namelist()
            if "format.npy" not in names or "shape.npy" not in names:
                raise ValueError(f"this is no sparse matrix of scipy: it has {', '.join(sorted(names))}")
            word = _read(archive, "format").item()
            form = word.decode() if isinstance(word, bytes) else str(word)
            if form not in ("csr", "csc", "coo"):
                raise ValueError(f"a matrix in the format {form!r}: csr, csc or coo")
            shape = tuple(int(each) for each in _read(archive, "shape"))
            if len(shape) != 2:
                raise ValueError(f"an array with {len(shape)} axes; a matrix has 2")
            (count,), dtype = _member(archive, "data")
            return form, shape, count, _HELD.native(dtype).str

    form, shape, count, kind = same_everywhere(call, agreed(call, opened))
    _fits(call, shape[form == "csc"], count, np.dtype(kind))
    low, high = (count * k // here.nprocs for k in (here.pid, here.pid + 1))
    if form == "coo":
        found: list[np.ndarray] = []

        def triples() -> None:
            with _archive(path) as archive:
                found.extend(_read(archive, name, low, high) for name in ("row", "col", "data"))

        agreed(call, triples)
        return from_coo(found[0], found[1], found[2], (shape[0], shape[1]), bounds=bounds)
    stored = shape if form == "csr" else shape[::-1]
    if bounds is None:
        low, high = even(stored[0], here.nprocs)[here.pid : here.pid + 2]
        weights: list[np.ndarray] = []

        def lengths() -> None:
            with _archive(path) as archive:
                weights.append(np.diff(_ascending(_read(archive, "indptr", low, high + 1))) + 1.0)

        agreed(call, lengths)
        limits = cut_by_weight(here, low, weights[0], stored[0])
    else:
        limits = limits_of(bounds, stored[0], here.nprocs)
    low, high = limits[here.pid : here.pid + 2]
    own: list[Any] = []

    def rows() -> None:
        with _archive(path) as archive:
            indptr = _ascending(_read(archive, "indptr", low, high + 1))
            if len(indptr) != high - low + 1 or indptr[-1] > count:
                raise ValueError(f"its member indptr does not fit {stored[0]} rows and {count} entries")
            first, last = int(indptr[0]), int(indptr[-1])
            indices, data = (_read(archive, name, first, last) for name in ("indices", "data"))
        matrix = scipy.sparse.csr_array((data, indices, indptr - first), shape=(high - low, stored[1]))
        matrix.check_format(full_check=True)
        own.append(matrix)

    agreed(call, rows)
    whole = of_rows(own[0], limits, columns_like(limits, (stored[0], stored[1])))
    return whole if form == "csr" else whole.T


def _ascending(indptr: np.ndarray) -> np.ndarray:
    found = indptr.astype(np.int64)
    if len(found) and (found[0] < 0 or (np.diff(found) < 0).any()):
        raise ValueError("its member indptr does not ascend")
    return found


def _archive(path: PathLike) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as wrong:
        raise ValueError(f"this is no .npz archive: {wrong}") from None


def _member(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with archive.open(f"{name}.npy") as file:
        shape, _, dtype = header_of(file)  # type: ignore[arg-type]
    return shape, dtype


def _read(archive: zipfile.ZipFile, name: str, low: int = 0, high: int | None = None) -> np.ndarray:
    """Return the elements low to high of a member, a vector or a number, in this machine's byte order."""
    try:
        with archive.open(f"{name}.npy") as file:
            shape, _, dtype = header_of(file)  # type: ignore[arg-type]
            if dtype.hasobject or len(shape) > 1:
                raise ValueError(f"its member {name} has {dtype} of shape {shape}")
            low, high, _ = slice(low, high).indices(shape[0] if shape else 1)
            size = max(high - low, 0) * dtype.itemsize
            file.seek(low * dtype.itemsize, os.SEEK_CUR)
            data = file.read(size)
    except zipfile.BadZipFile as wrong:
        raise ValueError(f"its member {name} is damaged: {wrong}") from None
    if len(data) < size:
        raise ValueError(f"its member {name} ends early")
    found = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="), copy=False)
    return found if shape else found.reshape(())


def save_npz(path: PathLike, a: SparseArray, *, compressed: bool = True) -> None:
    """Write a sparse array to an .npz archive, which scipy.sparse.load_npz reads: CSR, or CSC if it is a transpose.

    Each process writes its own rows.  Cost: 4 supersteps; see `bsp.arrays.savez`.
    Raises FileError on every process if one could not write; nothing is left behind.
    """
    name = path_of(path, "save_npz")
    name = name if name.endswith(".npz") else name + ".npz"
    pattern = a.pattern
    here, outline, pid = world(), pattern.outline, pattern.pid
    kind = np.dtype(np.int32 if max(*a.shape, a.nnz) < 2**31 else np.int64)
    first = here.pid == 0
    indptr = pattern.indptr[0 if first else 1 :].astype(kind) + kind.type(outline.entries[pid])
    members: dict[str, tuple[tuple[int, ...], Any]] = {
        "indices": ((a.nnz,), pattern.indices.astype(kind, copy=False)),
        "indptr": ((outline.shape[0] + 1,), indptr),
        "format": ((), np.array(a.format.encode())),
        "shape": ((2,), np.array(a.shape)),
        "data": ((a.nnz,), a._own()),
        "_is_array": ((), np.array(True)),
    }
    parts = ("indices", "indptr", "data")  # the others are process 0's alone
    own = (
        (key, member_bytes(shape, block.dtype, block if first or key in parts else None))
        for key, (shape, block) in members.items()
    )
    written_members(f"save_npz({name!r})", name, own, compressed)
