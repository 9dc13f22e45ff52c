"""Reading and writing files by the endings of their names, in all formats that the modules of this folder register."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from typing import Any

from bsp.arrays import files
from bsp.arrays.api.creation import Grid
from bsp.arrays.files import format as registry
from bsp.arrays.files.agreement import path_of
from bsp.arrays.files.format import FORMATS, OF_NUMPY, Format, Function, Table
from bsp.arrays.files.lines.division import OPENERS
from bsp.arrays.files.npy import load_npy, save_npy
from bsp.arrays.typing import ArrayLike, PathLike

__all__ = ["FUNCTIONS", "OF_NUMPY", "load", "save", "table_of"]

for _module in pkgutil.iter_modules(files.__path__):
    if _module.name != "formats":
        import_module(f"{files.__name__}.{_module.name}")


def _ending(path: PathLike) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def _read_as(path: PathLike) -> Format | None:
    """Return the format of a file by its ending; that of compressed text is before it: "people.csv.gz".

    A folder whose name has no known ending is of the format of the files in it, as those that Spark writes are.
    """
    name, ending = os.path.splitext(os.fspath(path).lower())
    found = FORMATS.get(_ending(name) if ending in OPENERS else ending)
    if found is None and os.path.isdir(path):
        endings = {_ending(each) for _, _, files in os.walk(path) for each in files}
        found = next((FORMATS[each] for each in sorted(endings & {*FORMATS})), None)
    return found


def table_of(path: PathLike) -> Table | None:
    """Return the reader of a file as a table of named columns, by its ending; None if its format has none."""
    known = _read_as(path)
    return None if known is None else known.table


def load(path: PathLike, *, grid: Grid = None, process_grid: Grid = None, **options: Any) -> Any:
    """Read an array from a file: .npy, or by its name HDF5 (.h5, .hdf5), Zarr, Parquet, CSV; from .npz, arrays by name.

    options : those of `read_hdf5` (dataset=), `read_zarr`, `read_parquet`, `read_csv`; a .npy file has none.
    Each process reads its own blocks.  Cost: one superstep, in which all agree that they could read; see the readers.
    A file that is written to while it is read is a FormatError.  Of folders (Zarr, Parquet) this is not noticed.
    Raises NoSuchFile, FileError, FormatError, the same on every process.
    """
    path = path_of(path, "load")
    known = _read_as(path)
    reader = load_npy if known is None or known.read is None else known.read
    return reader(path, grid=grid, process_grid=process_grid, **options)


def save(path: PathLike, x: ArrayLike, **options: Any) -> None:
    """Write an array to a file: .npy, or by its name HDF5, Zarr, Parquet; each process writes its own blocks.

    As with NumPy, .npy is added to a name without a known ending.  An interrupted write leaves the old file.
    Cost: 3 supersteps; see `save_npy` and the other writers.
    Raises FileError on every process if one could not write.
    """
    path = path_of(path, "save")
    known = FORMATS.get(_ending(path))
    if known is None or known.write is None:
        save_npy(path if path.endswith(".npy") else path + ".npy", x, **options)
    else:
        known.write(path, x, **options)


FUNCTIONS: dict[str, Function] = {"load": load, "save": save, **registry.FUNCTIONS}
