"""Files that all processes use together: what goes wrong on one becomes one error on every process.

Each process does its part and tells the others in one superstep how it went, so no process waits for one that failed.
Writing is at a place beside the target, which it replaces when all have written: an interrupted write leaves the
old file.  With clones one clone of each process writes.  The files are on a file system that all elements see.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.build import relaid, strong
from bsp.arrays.errors import FileError, FormatError, NoSuchFile
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import KINDS
from bsp.arrays.expressions.graph import LEAF, DType, Node
from bsp.arrays.expressions.layout import Layout, Shape, dealt

PathLike = str | os.PathLike[str]
_KINDS: dict[str, type[Exception]] = {
    "format": FormatError, "missing": NoSuchFile, "system": FileError, "import": ImportError, "memory": MemoryError,
}  # fmt: skip


class Fault(NamedTuple):
    """What went wrong on a process, as it travels."""

    kind: str
    text: str
    number: int | None


def _attempt(work: Callable[[], Any]) -> tuple[Fault | None, Any]:
    try:
        return None, work()
    except Exception as wrong:  # noqa: BLE001 - whatever it is, all processes must hear of it
        number = wrong.errno if isinstance(wrong, OSError) else None
        text = str(wrong) or type(wrong).__name__
        if isinstance(wrong, OSError):
            text = wrong.strerror or text
            kind = "missing" if isinstance(wrong, FileNotFoundError) else "system" if number is not None else "format"
        elif isinstance(wrong, KeyError):
            kind, text = "format", str(wrong.args[0]) if wrong.args else text
        else:
            kind = {ImportError: "import", ModuleNotFoundError: "import", MemoryError: "memory"}.get(
                type(wrong), "format"
            )
        return Fault(kind, text, number), None


def agreed(call: str, work: Callable[[], Any], once: bool = False) -> list[Any]:
    """work() on every process, and what each returned, by pid; it has no boundaries of its own.

    call : names the call in errors: "load('x.npy')".
    once : `work` has effects, which one clone of a process makes for all.
    Cost: one superstep, h = p - 1 times what is returned.
    Raises FormatError, NoSuchFile, FileError or ImportError on all processes if work() raised on one; the lowest
    process's is told.
    """
    here = world()
    told = here.proc.once(lambda: _attempt(work)) if once else _attempt(work)
    answers = here.private.allgather((None, None) if told is None else told)
    faults = {pid: fault for pid, (fault, _) in enumerate(answers) if fault is not None}
    if faults:
        pid, fault = next(iter(faults.items()))
        where = "" if fault.kind == "format" or len(faults) == here.nprocs else f" (process {pid})"
        error = _KINDS[fault.kind](f"{call}: {fault.text}{where}")
        if fault.number is not None and isinstance(error, OSError):
            error.errno = fault.number
        raise error
    return [value for _, value in answers]


def same_everywhere(call: str, answers: Sequence[Any]) -> Any:
    """The one answer; raises FormatError if processes see different files under one name."""
    for pid, answer in enumerate(answers):
        if answer != answers[0]:
            raise FormatError(
                f"{call}: process {pid} sees another file there than process 0: {answer} and {answers[0]}"
            )
    return answers[0]


def replaced(
    call: str, path: PathLike, prepare: Callable[[Path], None], write: Callable[[Path], None],
    writers: Sequence[int], in_turns: bool = False,
) -> None:  # fmt: skip
    """A file or folder written by several processes, then put in the place of the old one.

    prepare : process 0 makes it beside the target, whole but for its contents.
    write : each of the `writers` writes its part; one after the other if `in_turns`.
    Cost: 3 supersteps, or 2 + len(writers) in turns; no words but how it went.
    A folder is replaced in two renames: for a moment between them there is none, the old one beside it.
    """
    here = world()
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.part")

    def begin() -> None:
        if here.pid == 0:
            if not target.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, f"there is no folder {os.fspath(target.parent)!r}")
            _remove(part)
            prepare(part)

    def finish() -> None:
        if here.pid == 0:
            _replace(part, target)

    def turn_of(pids: Sequence[int]) -> Callable[[], None]:
        return lambda: write(part) if here.pid in pids else None

    turns = [[pid] for pid in writers] if in_turns else [writers]
    for step in [begin, *map(turn_of, turns), finish]:
        try:
            agreed(call, step, once=True)
        except (FileError, FormatError, ImportError, MemoryError):
            if here.pid == 0:
                here.proc.once(lambda: _remove(part))
            raise


def path_of(given: Any, call: str) -> str:
    """The name of a file; TypeError for one that is open, for it is one process's."""
    try:
        found = os.fspath(given)
    except TypeError:
        raise TypeError(f"{call}: a path, for all processes write the file; not {type(given).__name__}") from None
    return found if isinstance(found, str) else os.fsdecode(found)


def write_at(file: Any, place: int, data: Any) -> None:
    """Bytes at a place of an open file; a write may take several calls."""
    left = memoryview(data)
    while left:
        done = os.pwrite(file.fileno(), left, place)
        left, place = left[done:], place + done


def written_in_parts(call: str, path: PathLike, own: bytes) -> None:
    """One file of what each process has, in the order of the pids.

    Cost: 4 supersteps, of which the first tells how long the parts are.
    """
    here = world()
    sizes = agreed(call, lambda: len(own))
    start = sum(sizes[: here.pid])

    def prepare(part: Path) -> None:
        with open(part, "wb") as file:
            file.truncate(sum(sizes))

    def write(part: Path) -> None:
        with open(part, "r+b", buffering=0) as file:
            write_at(file, start, own)
            os.fsync(file.fileno())

    replaced(call, path, prepare, write, [pid for pid, size in enumerate(sizes) if size])


def _replace(part: Path, target: Path) -> None:
    if part.is_dir():
        old = target.with_name(f".{target.name}.old")
        _remove(old)
        if target.exists():
            os.rename(target, old)
        os.rename(part, target)
        _remove(old)
    else:
        os.replace(part, target)
    flushed(target.parent)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()


def flushed(path: Path) -> None:
    """What was written there is on the disk."""
    found = os.open(path, os.O_RDONLY)
    try:
        os.fsync(found)
    finally:
        os.close(found)


def needed(module: str) -> Any:
    """A library of the `io` extra."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise ImportError(f"this needs {name}, which is not there: pip install nonstop-bsp[io]") from None


# ------------------------------------------------------------------------- arrays on the way to files


_LONG = "gG"  # numbers that are longer than other machines and most formats have them


class Held(NamedTuple):
    """Which dtypes of arrays the files of a format hold: what its writer takes is what its reader gives back."""

    name: str
    kinds: str = KINDS
    long: bool = True  # whether numbers of extended precision are among them

    def __contains__(self, dtype: object) -> bool:
        assert isinstance(dtype, np.dtype)
        return dtype.kind in self.kinds and (self.long or dtype.char not in _LONG)

    def writable(self, call: str, dtype: DType) -> None:
        """Raise TypeError for a dtype that the format has not, before anything is written."""
        if dtype not in self:
            raise TypeError(f"{call}: {self.name} files hold no {dtype} here; .npy and .npz hold every dtype of arrays")

    def native(self, dtype: DType) -> DType:
        """Return a file's dtype in this machine's byte order; ValueError if arrays or the format do not hold it."""
        if dtype not in self:
            raise ValueError(f"arrays hold numbers; the file has {dtype}")
        return dtype.newbyteorder("=")


def evaluated(x: Array) -> Node:
    """Its leaf, computed if need be."""
    node = strong(x._node)
    return node if node.op is LEAF else wrap(node).persist()._node


def slabs(shape: Shape, nprocs: int) -> Layout:
    """Whole rows, dealt evenly."""
    if not shape:
        return dealt((), (), ())
    grid = (nprocs, *[1] * (len(shape) - 1))
    return dealt(shape, grid, grid)


def in_layout(node: Node, layout: Layout) -> Node:
    """A leaf in a layout; itself if it is in that already."""
    if node.layout is layout:
        return node
    return wrap(relaid(node, layout)).persist()._node


def writers_of(layout: Layout) -> list[int]:
    """The processes that own elements; of a replicated array process 0."""
    if layout.replicated:
        return [0]
    return [int(pid) for pid in np.unique(layout.owner[layout.sizes > 0])]
