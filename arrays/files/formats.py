"""Reading and writing files by what their names end in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.api.creation import Grid
from bsp.arrays.files.agreement import PathLike, path_of
from bsp.arrays.files.csv import read_csv
from bsp.arrays.files.hdf5 import read_hdf5, write_hdf5
from bsp.arrays.files.npy import load_npy, save_npy
from bsp.arrays.files.npz import load_npz, savez, savez_compressed
from bsp.arrays.files.parquet import read_parquet, write_parquet
from bsp.arrays.files.text import savetxt, tofile
from bsp.arrays.files.zarr import read_zarr, write_zarr

_READERS: dict[str, Callable[..., Any]] = {
    ".h5": read_hdf5, ".hdf5": read_hdf5, ".zarr": read_zarr, ".parquet": read_parquet, ".csv": read_csv,
    ".npz": load_npz,
}  # fmt: skip
_WRITERS: dict[str, Callable[..., Any]] = {
    ".h5": write_hdf5, ".hdf5": write_hdf5, ".zarr": write_zarr, ".parquet": write_parquet,
}  # fmt: skip


def _ending(path: PathLike) -> str:
    return os.path.splitext(os.fspath(path))[1].lower()


def load(path: PathLike, *, grid: Grid = None, process_grid: Grid = None, **options: Any) -> Any:
    """An array from a file: .npy, or by its name HDF5 (.h5, .hdf5), Zarr, Parquet, CSV; of .npz, arrays by name.

    options : of `read_hdf5` (dataset=), `read_zarr`, `read_parquet`, `read_csv`; a .npy file has none.
    Each process reads its own blocks.  Cost: one superstep, in which all agree that they could read; see the readers.
    Raises NoSuchFile, FileError, FormatError, the same on every process.
    """
    reader = _READERS.get(_ending(path), load_npy)
    return reader(path, grid=grid, process_grid=process_grid, **options)


def save(path: PathLike, x: Any, **options: Any) -> None:
    """An array as a file: .npy, or by its name HDF5, Zarr, Parquet; each process writes its own blocks.

    As with NumPy, .npy is added to a name that ends in nothing known.  An interrupted write leaves the old file.
    Cost: 3 supersteps; see `save_npy` and the other writers.
    Raises FileError on every process if one could not write.
    """
    writer = _WRITERS.get(_ending(path))
    if writer is None:
        name = os.fspath(path)
        save_npy(name if name.endswith(".npy") else name + ".npy", x, **options)
    else:
        writer(path, x, **options)


def _save_npy(file: PathLike, arr: Any, allow_pickle: bool = True) -> None:
    """numpy.save: a .npy file, whatever the name says."""
    path = path_of(file, "save")
    save_npy(path if path.endswith(".npy") else path + ".npy", arr)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        load, save, read_csv, read_hdf5, write_hdf5, read_zarr, write_zarr, read_parquet, write_parquet,
        savez, savez_compressed, savetxt,
    )
}  # fmt: skip
OF_NUMPY = {np.save: _save_npy, np.savez: savez, np.savez_compressed: savez_compressed, np.savetxt: savetxt}
METHODS: dict[str, Callable[..., Any]] = {"tofile": tofile}
