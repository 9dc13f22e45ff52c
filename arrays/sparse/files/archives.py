"""Archives of scipy.sparse.save_npz: matrices, and arrays of any number of axes by coordinates."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse

from bsp.arrays.execution.world import world
from bsp.arrays.files.agreement import Held, agreed, path_of, same_everywhere
from bsp.arrays.files.npy import header_of
from bsp.arrays.files.npz import member_bytes, written_members
from bsp.arrays.sparse.array import SparseArray, of_rows
from bsp.arrays.sparse.coo import CooArray
from bsp.arrays.sparse.creation import columns_like, cut_by_weight, from_coo, limits_of
from bsp.arrays.sparse.files.tables import check_fits
from bsp.arrays.sparse.indices import misfit
from bsp.arrays.sparse.pattern import even
from bsp.arrays.typing import PathLike

_HELD = Held("sparse .npz")


def read_npz(path: PathLike, *, bounds: Sequence[int] | None = None) -> SparseArray | CooArray:
    """Read what scipy.sparse.save_npz, or `save_npz`, has written: CSR, CSC or COO.  Collective.

    An array that has not two axes becomes a `CooArray`, also a vector in CSR.
    bounds : of the processes' rows (of a CSC matrix, its columns), as in `from_coo`.
    Each process reads its own rows' entries, and decompresses but does not keep those before them.  A CSC matrix is
    read as the transpose of a CSR one.
    Cost: H = at most 16p words, S = 6; a COO matrix takes what `from_coo` does.
    Raises NoSuchFile, FileError, FormatError; PlanTooLarge, before any entry is read.
    """
    call = f"read_npz({os.fspath(path)!r})"
    form, shape, count, kind = same_everywhere(call, agreed(call, lambda: _header(path)))
    matrix = len(shape) == 2
    check_fits(call, shape[form == "csc"] if matrix else 0, count, np.dtype(kind))
    if form == "coo" or not matrix:
        found = _entries(call, path, form, shape, count)
        if not matrix:
            return from_coo(found[:-1], found[-1], shape=shape)
        return from_coo(found[0], found[1], found[2], (shape[0], shape[1]), bounds=bounds)
    rows, columns = shape if form == "csr" else shape[::-1]
    if bounds is None:
        limits = _balanced(call, path, rows)
    else:
        limits = limits_of(bounds, rows, world().nprocs)
    own = _rows(call, path, limits, (rows, columns), count)
    whole = of_rows(own, limits, columns_like(limits, (rows, columns)))
    return whole if form == "csr" else whole.T


def _header(path: PathLike) -> tuple[str, tuple[int, ...], int, str]:
    """Return the format, the shape, the number of entries and their dtype.  Raises ValueError for other archives."""
    with _archive(path) as archive:
        names = archive.namelist()
        if "format.npy" not in names or "shape.npy" not in names:
            raise ValueError(f"this is no sparse matrix of scipy: it has {', '.join(sorted(names))}")
        word = _read(archive, "format").item()
        form = word.decode() if isinstance(word, bytes) else str(word)
        if form not in ("csr", "csc", "coo"):
            raise ValueError(f"a matrix in the format {form!r}: csr, csc or coo")
        lengths = _read(archive, "shape")
        if lengths.dtype.kind not in "iu" or lengths.ndim != 1 or not len(lengths) or lengths.min() < 0:
            raise ValueError(f"its member shape is {lengths}: one length or more, from 0")
        shape = tuple(int(each) for each in lengths)
        if len(shape) != 2 and form != "coo" and (len(shape), form) != (1, "csr"):
            raise ValueError(f"an array with {len(shape)} axes as {form}; a matrix has 2")
        given, dtype = _member(archive, "data")
        if len(given) != 1:
            raise ValueError(f"its member data has the shape {given}; it is a vector")
        _check_indices(archive, form, shape, given[0])
        if wrong := misfit(dtype):
            raise ValueError(f"its member data: {wrong}")
        return form, shape, given[0], _HELD.native(dtype).str


def _entries(call: str, path: PathLike, form: str, shape: tuple[int, ...], count: int) -> list[np.ndarray]:
    """Return this process's share of the entries: their indices along each axis, and values.  Collective."""
    here, found = world(), list[np.ndarray]()
    low, high = (count * k // here.nprocs for k in (here.pid, here.pid + 1))

    def read() -> None:
        with _archive(path) as archive:
            if form == "csr":
                found.append(_read(archive, "indices", low, high))
            elif len(shape) == 2 and "row.npy" in archive.namelist():
                found.extend(_read(archive, name, low, high) for name in ("row", "col"))
            else:
                found.extend(_read_coords(archive, len(shape), count, low, high))
            for axis, (each, length) in enumerate(zip(found, shape, strict=True)):
                if each.size and not 0 <= each.min() <= each.max() < length:
                    raise ValueError(f"it has an index along axis {axis} that is none of 0 to {length - 1}")
            found.append(_read(archive, "data", low, high))

    agreed(call, read)
    return found


def _balanced(call: str, path: PathLike, rows: int) -> tuple[int, ...]:
    """Return where the rows of each process begin, so that all have about as many entries.  Collective."""
    here, weights = world(), list[np.ndarray]()
    low, high = even(rows, here.nprocs)[here.pid : here.pid + 2]

    def read() -> None:
        with _archive(path) as archive:
            weights.append(np.diff(_ascending(_read(archive, "indptr", low, high + 1))) + 1.0)

    agreed(call, read)
    return cut_by_weight(here, low, weights[0], rows)


def _rows(call: str, path: PathLike, limits: tuple[int, ...], shape: tuple[int, int], count: int) -> Any:
    """Return this process's rows of a matrix of so many entries in CSR.  Collective."""
    here, found = world(), list[Any]()
    low, high = limits[here.pid : here.pid + 2]

    def read() -> None:
        with _archive(path) as archive:
            indptr = _ascending(_read(archive, "indptr", low, high + 1))
            if indptr[-1] > count:
                raise ValueError(f"its member indptr does not fit {shape[0]} rows and {count} entries")
            first, last = int(indptr[0]), int(indptr[-1])
            indices, data = (_read(archive, name, first, last) for name in ("indices", "data"))
        parts = (data, indices, indptr - first)
        part = scipy.sparse.csr_array(parts, (high - low, shape[1]), copy=True)  # to be sorted; they are read-only
        part.check_format(full_check=True)
        found.append(part)

    agreed(call, read)
    return found[0]


def _check_indices(archive: zipfile.ZipFile, form: str, shape: tuple[int, ...], count: int) -> None:
    """Raise ValueError unless the members with the indices of so many entries are integers of the right shape."""
    wanted: dict[str, tuple[int, ...]] = {"coords": (len(shape), count)}
    if form != "coo":
        rows = 1 if len(shape) == 1 else shape[form == "csc"]
        wanted = {"indices": (count,), "indptr": (rows + 1,)}
    elif len(shape) == 2 and "row.npy" in archive.namelist():
        wanted = {"row": (count,), "col": (count,)}
    for name, lengths in wanted.items():
        given, dtype = _member(archive, name)
        if given != lengths or dtype.kind not in "iu":
            raise ValueError(f"its member {name} has {dtype} of shape {given}, not integers of shape {lengths}")


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
    with _opened(archive, name) as (file, shape, _, dtype):
        if len(shape) > 1:
            raise ValueError(f"its member {name} has {dtype} of shape {shape}")
        low, high, _ = slice(low, high).indices(shape[0] if shape else 1)
        found = _run(file, name, dtype, low, max(high - low, 0))
        return found if shape else found.reshape(())


def _read_coords(archive: zipfile.ZipFile, ndim: int, count: int, low: int, high: int) -> list[np.ndarray]:
    """Return the coordinates of the entries low to high, by axis; those of each axis, or entry, lie side by side."""
    with _opened(archive, "coords") as (file, _, fortran, dtype):
        if fortran:
            return list(_run(file, "coords", dtype, ndim * low, ndim * (high - low)).reshape(-1, ndim).T)
        found, at = [], 0
        for axis in range(ndim):
            found.append(_run(file, "coords", dtype, axis * count + low - at, high - low))
            at = axis * count + high
        return found


@contextmanager
def _opened(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[Any, tuple[int, ...], bool, np.dtype[Any]]]:
    """Open a member, and read its header: yield the file, the shape, whether the order is Fortran's, and the dtype."""
    try:
        with archive.open(f"{name}.npy") as file:
            shape, fortran, dtype = header_of(file)  # type: ignore[arg-type]
            if dtype.hasobject:
                raise ValueError(f"its member {name} has {dtype} of shape {shape}")
            yield file, shape, fortran, dtype
    except zipfile.BadZipFile as wrong:
        raise ValueError(f"its member {name} is damaged: {wrong}") from None


def _run(file: Any, name: str, dtype: np.dtype[Any], skipped: int, count: int) -> np.ndarray:
    """Return the next numbers of a member after some that are skipped."""
    file.seek(skipped * dtype.itemsize, os.SEEK_CUR)
    data = file.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise ValueError(f"its member {name} ends early")
    return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="), copy=False)


def save_npz(path: PathLike, a: SparseArray | CooArray, *, compressed: bool = True) -> None:
    """Write a sparse array to an .npz archive, which scipy.sparse.load_npz reads.

    A matrix is written as CSR, or CSC if it is a transpose; a `CooArray` as COO, which scipy reads since 1.15 if it has
    more than two axes.  Each process writes its own entries.  Cost: 4 supersteps; see `bsp.arrays.savez`.
    Raises FileError on every process if one could not write; nothing is left behind.
    """
    name = path_of(path, "save_npz")
    name = name if name.endswith(".npz") else name + ".npz"
    if isinstance(a, CooArray):
        _save_coo(name, a, compressed)
        return
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


def _save_coo(name: str, a: CooArray, compressed: bool) -> None:
    """Write an array by coordinates; those of an entry lie side by side, as each process has some entries."""
    coords, values = a.local()
    kind = np.dtype(np.int32 if max(*a.shape, a.nnz) < 2**31 else np.int64)
    first = world().pid == 0

    def shares() -> Iterator[tuple[str, tuple[list[Any], int]]]:
        if a.ndim == 2:
            for key, each in zip(("row", "col"), coords, strict=True):
                yield key, member_bytes((a.nnz,), kind, each.astype(kind))
        else:
            block = np.stack(coords, axis=1).astype(kind)
            yield "coords", member_bytes((a.ndim, a.nnz), kind, block, fortran=True)
        for key, own in (("format", np.array(b"coo")), ("shape", np.array(a.shape)), ("_is_array", np.array(True))):
            yield key, member_bytes(own.shape, own.dtype, own if first else None)
        yield "data", member_bytes((a.nnz,), values.dtype, values)

    written_members(f"save_npz({name!r})", name, shares(), compressed)
