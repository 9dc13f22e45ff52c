"""HDF5 files by h5py: every process reads its own blocks; processes write in turns."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bsp.arrays.api.creation import Grid, asarray, layout_for
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.files.agreement import (
    Held,
    agreed,
    blocks_read,
    evaluated,
    needed,
    replaced,
    same_everywhere,
    sampled,
    unchanged,
    write_at,
    writers_of,
)
from bsp.arrays.files.format import register
from bsp.arrays.typing import ArrayLike, PathLike

_FILES = Held("HDF5", "biufc")


@contextmanager
def _opened(path: PathLike) -> Iterator[Any]:
    """Open an HDF5 file to read it.  An error of the system is raised in its own words.

    h5py's words for it have the time and addresses in memory, which differ between clones.
    """
    try:
        with needed("h5py").File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as wrong:
        number = re.search(r"errno = (\d+)", str(wrong))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


class _WrittenFile(io.FileIO):
    """A file that HDF5 writes through Python.  It keeps the first error of a write; HDF5 continues as if all went well.

    HDF5 writes what it has cached when a dataset or the file is closed.  If that fails, as on a full disk, h5py may
    raise nothing, and HDF5 may crash later.
    """

    error: OSError | None = None

    def _attempt(self, change: Callable[[], Any]) -> None:
        if self.error is None:
            try:
                change()
            except OSError as wrong:
                self.error = wrong

    def write(self, data: Any) -> int:
        """Write all of `data` at the current position, which HDF5 sets before each write."""
        self._attempt(lambda: write_at(self, self.tell(), data))
        return memoryview(data).nbytes

    def truncate(self, size: int | None = None) -> int:
        """Change the size of the file."""
        self._attempt(lambda: super(_WrittenFile, self).truncate(size))
        return self.tell() if size is None else size


@contextmanager
def _written(path: Path, mode: str) -> Iterator[Any]:
    """Open an HDF5 file to write it, and flush it to the disk.  Raise the error of the first write that failed."""
    h5py = needed("h5py")
    with _WrittenFile(path, "w+" if mode == "w" else mode) as raw:
        try:
            with h5py.File(raw, mode) as file:
                yield file
        finally:
            if raw.error is not None:
                raise raw.error
        os.fsync(raw.fileno())


def read_hdf5(path: PathLike, dataset: str | None = None, *, grid: Grid = None, process_grid: Grid = None) -> Array:
    """Read a dataset of an HDF5 file; each process reads its own blocks.

    dataset : its name; None if the file has only one.
    Cost: one superstep, in which all agree that they could read.
    Raises NoSuchFile, FileError, FormatError if there is no such dataset of numbers, ImportError without h5py.
    """
    call = f"read_hdf5({os.fspath(path)!r})"
    found: dict[str, Any] = {}

    def work() -> Any:
        h5py = needed("h5py")
        with _opened(path) as file:
            names: list[str] = []
            file.visititems(lambda name, each: names.append(name) if isinstance(each, h5py.Dataset) else None)
            name = names[0] if dataset is None and len(names) == 1 else dataset
            data = file.get(name) if name else None  # `names` has no links
            if not isinstance(data, h5py.Dataset):
                asked = "dataset= says which" if name is None else f"there is no dataset {name!r}"
                raise ValueError(f"{asked}; the file has {', '.join(map(repr, names)) or 'none'}")
            if data.shape is None:
                raise ValueError(f"dataset {name!r} is empty: it has no shape")
            kind = _FILES.native(data.dtype)
            layout = layout_for(data.shape, grid, process_grid)
            blocks = blocks_read(layout, kind, lambda box: np.array(data[box], kind, order="C"))
            found.update(shape=data.shape, dtype=kind, layout=layout, blocks=blocks)
            return name, data.shape, data.dtype.str

    told = agreed(call, lambda: sampled(path, work))
    same_everywhere(call, [seen for seen, _ in told])
    unchanged(call, [sample for _, sample in told])
    return wrap(leaf(found["shape"], found["dtype"], found["layout"], found["blocks"]))


def write_hdf5(path: PathLike, x: ArrayLike, dataset: str = "data", **options: Any) -> None:
    """Write an array, or a mapping of names to arrays, to a new HDF5 file.

    options : those of h5py's create_dataset: chunks, compression, ...
    h5py is usually built without parallel HDF5, so processes write one after the other: writing takes as long as on one
    process.  The file replaces the old one, with all datasets in it, when all is written.
    Cost: 2 supersteps, and one for each process that owns blocks; no words.
    Raises FileError on every process if one could not write, ImportError without h5py.
    """
    here = world()
    given = dict(x) if isinstance(x, Mapping) else {dataset: x}
    arrays = {name: asarray(each) for name, each in given.items()}
    for array in arrays.values():
        _FILES.writable("write_hdf5", array.dtype)
    nodes = {name: evaluated(array) for name, array in arrays.items()}
    writers = sorted({pid for node in nodes.values() if node.layout is not None for pid in writers_of(node.layout)})

    def prepare(part: Path) -> None:
        with _written(part, "w") as file:
            for name, node in nodes.items():
                file.create_dataset(name, node.kind.shape, node.kind.dtype, **(options if node.kind.shape else {}))

    def write(part: Path) -> None:
        with _written(part, "r+") as file:
            for name, node in nodes.items():
                layout = node.layout
                assert layout is not None
                if layout.replicated and here.pid != 0:
                    continue
                for at, block in node.value.items():
                    if block.size:
                        file[name][tuple(slice(*span) for span in layout.box(at))] = block

    replaced(f"write_hdf5({os.fspath(path)!r})", path, prepare, write, writers, in_turns=True)


register(".h5", ".hdf5", read=read_hdf5, write=write_hdf5, functions=(read_hdf5, write_hdf5))
