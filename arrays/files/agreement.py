"""Files that all processes use together: an error on one process becomes the same error on every process.

Each process does its part and reports success or error to the others in one superstep, so none waits for a
failed one.  Files are written beside the target and replace it when all processes have written: an interrupted write
leaves the old file.  With clones, one clone of each process writes.  The file system must be shared by all elements.
"""

from __future__ import annotations

import errno
import glob
import os
import platform
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.build import strong
from bsp.arrays.errors import FileError, FormatError, LayoutError, NoSuchFile
from bsp.arrays.execution.world import filled, world
from bsp.arrays.expressions.element_types import KINDS, ElementTypeError
from bsp.arrays.expressions.graph import LEAF, Blocks, DType, Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.expressions.merging import cut
from bsp.arrays.files.lines.streams import CHANGED
from bsp.arrays.typing import PathLike


class OtherElementsError(FormatError, ElementTypeError):
    """A file of elements that arrays cannot hold, such as text; raised alike on every process."""


_KINDS: dict[str, type[Exception]] = {
    "format": FormatError, "missing": NoSuchFile, "system": FileError, "import": ImportError, "memory": MemoryError,
    "layout": LayoutError, "elements": OtherElementsError,
}  # fmt: skip


_BEGINNING = 80  # bytes of a file's name in that of the unfinished file beside it
_WRITER = 72  # characters of a host's name, at most 64, and of a number of the operating system's processes
_SAMPLES, _SAMPLE = 16, 1 << 12  # parts of a file that are compared, and the bytes of each


class SentError(NamedTuple):
    """An error that `work` raised on one process, in a form that can be sent to the others."""

    kind: str
    text: str
    number: int | None


def _attempt(work: Callable[[], Any]) -> tuple[SentError | None, Any]:
    try:
        return None, work()
    except Exception as wrong:  # noqa: BLE001 - any error must reach all processes
        number = wrong.errno if isinstance(wrong, OSError) else None
        text = re.sub(r" at 0x[0-9a-f]+", "", str(wrong)) or type(wrong).__name__  # clones must send the same bytes
        if isinstance(wrong, OSError):
            text = wrong.strerror or text
            kind = "missing" if isinstance(wrong, FileNotFoundError) else "system" if number is not None else "format"
        elif isinstance(wrong, KeyError):
            kind, text = "format", str(wrong.args[0]) if wrong.args else text
        else:
            kind = {
                ImportError: "import", ModuleNotFoundError: "import", MemoryError: "memory", LayoutError: "layout",
                OtherElementsError: "elements",
            }.get(type(wrong), "format")  # fmt: skip
        return SentError(kind, text, number), None


def agreed(call: str, work: Callable[[], Any], once: bool = False, unrun: str | None = None) -> list[Any]:
    """Run `work` on every process and return what each returned, ordered by pid.  Collective; `work` must not sync.

    call : the call as error messages name it: "load('x.npy')".
    once : `work` has effects outside the process, so only one clone of each process runs it.
    unrun : what takes the place of its value in a run without values, which has no such effects.
    Cost: one superstep, h = p - 1 times the size of what `work` returns.
    Raises FormatError, NoSuchFile, FileError, ImportError, MemoryError or LayoutError on all processes if `work` raised
    on any of them; the message is that of the failing process with the lowest pid.
    """
    here = world()
    told = here.proc.once(lambda: _attempt(work)) if once else _attempt(work)
    answers = here.private.allgather((None, unrun) if told is None else told)
    faults = {pid: fault for pid, (fault, _) in enumerate(answers) if fault is not None}
    if faults:
        pid, fault = next(iter(faults.items()))
        where = "" if fault.kind in ("format", "elements") or len(faults) == here.nprocs else f" (process {pid})"
        error = _KINDS[fault.kind](f"{call}: {fault.text}{where}")
        if fault.number is not None and isinstance(error, OSError):
            error.errno = fault.number
        raise error
    return [value for _, value in answers]


def same_everywhere(call: str, answers: Sequence[Any]) -> Any:
    """Return the answer that all processes gave; raise FormatError if they see different files under one name."""
    for pid, answer in enumerate(answers):
        if answer != answers[0]:
            raise FormatError(
                f"{call}: process {pid} sees another file there than process 0: {answer} and {answers[0]}"
            )
    return answers[0]


def sample_of(path: PathLike) -> tuple[int, int] | None:
    """Return the size of a file and a checksum of some of its bytes; None for a folder, or where there is nothing."""
    if not os.path.isfile(path):
        return None
    crc = 0
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for k in range(_SAMPLES):
            crc = zlib.crc32(os.pread(file.fileno(), _SAMPLE, max(size - _SAMPLE, 0) * k // (_SAMPLES - 1)), crc)
    return size, crc


def sampled(path: PathLike, read: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what `read()` returns and a sample of the file that it reads; ValueError if the file changes meanwhile."""
    sample = sample_of(path)
    found = read()
    if sample_of(path) != sample:
        raise ValueError(CHANGED)
    return found, sample


def unchanged(call: str, samples: Sequence[Any]) -> None:
    """Raise FormatError if processes saw different contents of a file; else they would have parts of several states.

    samples : by process, what it saw: the size of the file, or a sample.
    """
    for pid, sample in enumerate(samples):
        if sample != samples[0]:
            raise FormatError(
                f"{call}: process {pid} sees other contents than process 0: it was written to while it was read, or is "
                "not the same file on all hosts"
            )


def replaced(
    call: str, path: PathLike, prepare: Callable[[Path], None], write: Callable[[Path], None],
    writers: Sequence[int], in_turns: bool = False, is_own: Callable[[Path], bool] = lambda folder: False,
) -> None:  # fmt: skip
    """Write a file or folder from several processes, then rename it to `path`, replacing what was there.  Collective.

    prepare : run by process 0; creates the new file or folder beside the target, complete except for its contents.
    write : run by each of the `writers` to write its part; one process after the other if `in_turns`.
    is_own : whether a folder that is there may be replaced: it has the same format.  A file is, unless
        it is read-only.
    Cost: 3 supersteps, or 2 + len(writers) in turns; the only words are each step's success or error.
    A file is replaced in one rename.  A folder takes two, and between them the target does not exist for a moment; the
    old folder then lies beside it.  If a step fails, the partial file is removed and the old one stays.
    """
    here = world()
    target = Path(os.path.realpath(path))
    # as many characters everywhere: the words that are sent follow from the program
    writer = f"{platform.node()}-{os.getpid()}".ljust(_WRITER) if here.pid == 0 else None

    def begin() -> str | None:
        if writer is None:
            return None
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {os.fspath(target.parent)!r}")
        if target.exists() and not target.is_file() and not (target.is_dir() and is_own(target)):
            what = "folder of other contents" if target.is_dir() else "device, a pipe or a socket"
            raise OSError(errno.EEXIST, f"it is a {what}, which is not replaced; choose another name")
        if target.exists() and not os.access(target, os.W_OK):  # a rename would replace it all the same
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        _remove_left(target)
        part = _part_of(target, writer)
        try:
            prepare(part)
        except Exception:
            give_up(part)
            raise
        return writer

    def give_up(part: Path) -> None:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            _remove(part)

    part = _part_of(target, agreed(call, begin, once=True, unrun=writer)[0])

    def finish() -> None:
        if here.pid == 0:
            _replace(part, target)

    def turn_of(pids: Sequence[int]) -> Callable[[], None]:
        return lambda: write(part) if here.pid in pids else None

    turns = [[pid] for pid in writers] if in_turns else [writers]
    for step in [*map(turn_of, turns), finish]:
        try:
            agreed(call, step, once=True)
        except tuple(_KINDS.values()):
            if here.pid == 0:
                here.proc.once(lambda: give_up(part))
            raise


def path_of(given: Any, call: str) -> str:
    """Return a path as text; raise TypeError for an open file, which belongs to one process only."""
    try:
        found = os.fspath(given)
    except TypeError:
        raise TypeError(f"{call}: a path, for all processes open the file; not {type(given).__name__}") from None
    return found if isinstance(found, str) else os.fsdecode(found)


def write_at(file: Any, place: int, data: Any) -> None:
    """Write all of `data` at byte `place` of an open file; the system may take several writes for it."""
    left = memoryview(data)
    while left:
        done = os.pwrite(file.fileno(), left, place)
        left, place = left[done:], place + done


def read_at(file: Any, place: int, data: Any) -> None:
    """Fill `data` from byte `place` of an open unbuffered file.  Raise ValueError if the file has become too short."""
    left = memoryview(data)
    file.seek(place)
    while left:
        done = file.readinto(left)
        if not done:
            raise ValueError(CHANGED)
        left = left[done:]


def written_in_parts(call: str, path: PathLike, make: Callable[[], bytes]) -> None:
    """Write one file from the bytes of all processes, in the order of the pids.  Collective.

    make : returns this process's bytes; an error that it raises on one process is raised on all.
    Cost: 4 supersteps; in the first, processes exchange the lengths of their parts.
    """
    here = world()
    made: list[bytes] = []

    def length() -> int:
        made.append(make())
        return len(made[0])

    sizes = agreed(call, length)
    (own,) = made
    start = sum(sizes[: here.pid])

    def prepare(part: Path) -> None:
        with open(part, "wb") as file:
            file.truncate(sum(sizes))

    def write(part: Path) -> None:
        with open(part, "r+b", buffering=0) as file:
            write_at(file, start, own)
            os.fsync(file.fileno())

    replaced(call, path, prepare, write, [pid for pid, size in enumerate(sizes) if size])


def _part_of(target: Path, writer: str) -> Path:
    """Return the name of the unfinished file beside the target, which no other job writes.

    writer : the host, and the operating system's process that begins to write.
    """
    beginning = os.fsdecode(os.fsencode(target.name)[:_BEGINNING])  # the name may be as long as names can be
    return target.with_name(f".{beginning}.{writer.rstrip()}.part")


def _remove_left(target: Path) -> None:
    """Remove the unfinished files beside the target that jobs of this host have left which have ended."""
    import psutil

    start = _part_of(target, f"{platform.node()}-").name.removesuffix(".part")
    for left in target.parent.glob(f"{glob.escape(start)}*.part"):
        pid = left.name[len(start) :].removesuffix(".part")
        if pid.isdecimal() and (int(pid) == os.getpid() or not psutil.pid_exists(int(pid))):
            _remove(left)


def _replace(part: Path, target: Path) -> None:
    if part.is_dir():
        old = target.with_name(f".{target.name}.old")
        _remove(old)
        if target.exists():
            os.rename(target, old)
        os.rename(part, target)
        with suppress(OSError):  # the new folder is complete
            _remove(old)
    else:
        if target.exists():
            shutil.copymode(target, part)
        os.replace(part, target)
    flushed(target.parent)


def _remove(path: Path) -> None:
    while path.is_dir() and not path.is_symlink():
        with suppress(FileNotFoundError):  # another job removes it at the same time
            shutil.rmtree(path)
    with suppress(FileNotFoundError):
        path.unlink()


def flushed(path: Path) -> None:
    """Flush a file, or a folder's entries, to the disk."""
    found = os.open(path, os.O_RDONLY)
    try:
        os.fsync(found)
    finally:
        os.close(found)


def needed(module: str) -> Any:
    """Import and return a library of the `io` extra; raise ImportError with the pip command if it is missing."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise ImportError(f"this needs {name}, which is not there: pip install 'nonstop-bsp[io]'") from None


# ------------------------------------------------------------------------- arrays on the way to files


_LONG = "gG"  # extended precision, which other machines and most formats do not have


class Held(NamedTuple):
    """The dtypes that the files of a format can hold; its writer accepts exactly those that its reader returns."""

    name: str
    kinds: str = KINDS
    long: bool = True  # whether numbers of extended precision are among them

    def __contains__(self, dtype: object) -> bool:
        assert isinstance(dtype, np.dtype)
        return dtype.kind in self.kinds and (self.long or dtype.char not in _LONG)

    def writable(self, call: str, dtype: DType) -> None:
        """Raise TypeError for a dtype that the format cannot hold, before anything is written."""
        if dtype not in self:
            raise TypeError(f"{call}: {self.name} files hold no {dtype} here; .npy and .npz hold every dtype of arrays")

    def native(self, dtype: DType) -> DType:
        """Return a file's dtype in this machine's byte order; raise OtherElementsError if it cannot be held."""
        if dtype not in self:
            raise OtherElementsError(f"arrays hold numbers; the file has {dtype}")
        return dtype.newbyteorder("=")


def evaluated(x: Array) -> Node:
    """Return the computed node of an array; computes it first where needed."""
    node = strong(x._node)
    return node if node.op is LEAF else wrap(node).persist()._node


def blocks_read(layout: Layout, dtype: DType, part: Callable[[tuple[slice, ...]], Any]) -> Blocks:
    """Return this process's blocks of a layout, read by `part(region)`; read nothing in a run of shapes."""
    merged = layout.merged

    def block(at: Shape) -> Any:
        region = tuple(slice(*span) for span in merged.box(at))
        return filled(merged.block_shape(at), dtype, lambda: part(region))

    return cut(layout, {at: block(at) for at in merged.mine(world().pid)})  # type: ignore[no-any-return]


def writers_of(layout: Layout) -> list[int]:
    """Return the pids of the processes that own elements; process 0 alone for a replicated array."""
    if layout.replicated:
        return [0]
    return [int(pid) for pid in np.unique(layout.owner[layout.sizes > 0])]
