"""Checkpoints in a folder: write, commit, verify, read and remove them.

They serve a job that has lost every clone of a bundle.

A checkpoint is a folder of its own, `DIR/checkpoint-000120`, with one part per bundle and `manifest.json`.  Different
processes write the parts, possibly on machines that share DIR, in any order; clones write the same part more than once.
The launcher then commits: it writes the manifest, which lists the parts and makes them a checkpoint.

How a checkpoint stays complete, whenever its writers are killed:
1. A file appears under its name only when it is complete: it is written under a temporary name in the same folder,
   synced (fsync) and renamed, and then the folder is synced.  A manifest appears only after all its parts.
2. The name of a part contains its digest.  So a late clone whose bytes differ (equal objects pickle differently after
   a move), or a second run of the job, never changes a part that a manifest lists.
3. Nothing is removed before a newer checkpoint is complete, and a manifest is removed before the parts it lists.
4. Everything read is verified: the manifest by its seal, byte for byte, each part by size and digest, once by
   `latest` and again when it is read.  A checkpoint that fails is refused by name, and the one before it is tried.

How a checkpoint cannot be made without the key (`key`; a part holds a pickle, and whoever chooses a pickle runs code):
5. A manifest ends with its seal: the HMAC-SHA256, with the user's key, of all bytes before it.  These bytes contain
   the job, the checkpoint's name, superstep and head, and every part with its bundle, size and SHA-256.  So anybody who
   changes a part, or substitutes one of another bundle, checkpoint, run or job, has to change the manifest, and cannot
   seal it again.
6. Nothing without a right seal is used, or even parsed.  The digest of a part is computed over the bytes that are
   used, on their way into memory: a part that is changed after `latest` has verified it is refused as well.
7. A checkpoint that other users can write into (`ownership`) is refused, whatever its seal.

A folder serves one job at a time (`claim`).  Checkpoints of other jobs in it are refused and never removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from bsp.faults.checkpoints.archive import Block
from bsp.faults.checkpoints.key import VARIABLE, Key, regular
from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.errors import CheckpointError

# format 2 had no seal, 3 no list of the arrays that lie in the memory of others, 4 no BLAS threads, no versions, and no
# names of objects that are filled, 5 no contexts of libraries, 6 no memory of several slices
FORMAT = 7
MANIFEST = "manifest.json"

_NAME = re.compile(r"checkpoint-(\d+)")
_OURS = re.compile(r"part-\d+-[0-9a-f]{16}\.npz|manifest\.json|\.(part|manifest)-[0-9a-f]{16}\.partial")
_SEAL = re.compile(rb',\n "key": "([0-9a-f]{16})",\n "seal": "([0-9a-f]{64})"\n}\n\Z')
_UNSEALED = re.compile(rb',\n "digest": "[0-9a-f]{32}"\n}\n\Z')  # how a manifest of format 2 ends
_CHUNK = 1 << 22  # bytes read and digested at a time
_NOT_GIVEN = object()  # marks a key that one of two jobs lacks; None is a JSON value


@dataclass(frozen=True)
class PartFile:
    """The file that holds one bundle's part of a checkpoint."""

    bundle: int
    file: str
    size: int
    digest: str  # SHA-256


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that `latest` has verified: complete, undamaged and of this job."""

    folder: Path
    name: str
    job: dict[str, Any]
    head: dict[str, Any]
    parts: tuple[PartFile, ...]  # the part of bundle k at index k

    def read(self, bundle: int) -> bytearray:
        """Return the part of a bundle, whole, in one buffer.  The file is verified again while it is read.

        Raises CheckpointError if there is no such bundle, or the file is missing or damaged.
        """
        if not 0 <= bundle < len(self.parts):
            raise CheckpointError(f"{self.name} has no bundle {bundle}, only 0 to {len(self.parts) - 1}")
        part = self.parts[bundle]
        with opened(self.folder / self.name, part) as source:
            return source.take(part.size)


class HashedFile:
    """The bytes of an open file, read from front to back, with the SHA-256 of everything read so far."""

    def __init__(self, file: FileIO, size: int) -> None:
        """Read `file`, which has `size` bytes, from its beginning."""
        self._file = file
        self._left = size
        self._digest = hashlib.sha256()

    def take(self, count: int) -> bytearray:
        """Return the next `count` bytes.  Raises ValueError if fewer are left."""
        if count > self._left:
            raise ValueError(f"{count} bytes wanted, {self._left} left")
        data = bytearray(count)
        self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> None:
        """Read as many bytes as `view` holds into it, and digest them.  Raises ValueError if the file ends before."""
        self._left -= len(view)
        while view:
            count = self._file.readinto(view[:_CHUNK])
            if not count:
                raise ValueError("the file has become shorter")
            self._digest.update(view[:count])
            view = view[count:]

    def digest(self) -> str:
        """Return the SHA-256 of the whole file, in hexadecimal; reads whatever is left of the file."""
        chunk = memoryview(bytearray(min(_CHUNK, self._left)))
        while self._left:
            self._fill(chunk[: self._left])
        return self._digest.hexdigest()


@contextlib.contextmanager
def opened(inside: Path, part: PartFile) -> Iterator[HashedFile]:
    """Open a part for reading, as a context manager.  Use what was read after the `with` block, not inside it.

    Raises CheckpointError when the block ends if the bytes of the file, including those that were read, are not the
    bytes that the manifest lists.
    """
    path = inside / part.file
    try:
        file = regular(path)
    except FileNotFoundError:
        raise CheckpointError(f"{part.file} (bundle {part.bundle}) is missing") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size != part.size:
            raise CheckpointError(f"{part.file} (bundle {part.bundle}) {_of_size(size, part)}")
        source, wrong = HashedFile(file, size), None
        try:
            yield source
        except ValueError as error:  # the contents are not as expected; a wrong digest below explains why
            wrong = error
        try:
            same = hmac.compare_digest(source.digest(), part.digest)
        except ValueError:
            same = False
        # damage explains whatever the reader found, so it is reported first
        if not same:
            raise CheckpointError(f"{part.file} (bundle {part.bundle}) is damaged: its digest does not match")
        if wrong is not None:
            raise wrong


def claim(folder: Path) -> int:
    """Claim a folder for the checkpoints of one job; return a descriptor, which keeps it until it is closed.

    Two jobs at once would remove each other's parts.  The claim ends with the process.  File systems without locks of
    folders (NFS) have none.
    Raises CheckpointError if another process has the folder, and OSError if it cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise CheckpointError("another bsprun writes its checkpoints there now; wait for its end") from None
    except OSError:
        pass
    return descriptor


def name_at(superstep: int) -> str:
    """Return the name of the checkpoint at a superstep.  Its number, not its text, gives the order in time."""
    return f"checkpoint-{superstep:06d}"


def write_part(folder: Path, name: str, bundle: int, blocks: Iterable[Block]) -> PartFile:
    """Write one bundle's part of checkpoint `name`, durably; the checkpoint becomes complete only with `commit`.

    blocks : contiguous buffers of any type, written one after the other and never joined in memory.
    The digest of the returned Part is computed from the blocks, not read back from the file, which could have been
    changed.
    Raises OSError with the file's name (full disk, no permission); files that were there before stay untouched.
    """
    _number(name)
    inside = folder / name
    inside.mkdir(mode=0o755, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    size = 0

    def chunks() -> Iterator[Block]:
        """Yield the blocks; digest and count each on the way."""
        nonlocal size
        for block in blocks:
            digest.update(block)
            size += memoryview(block).nbytes
            yield block

    def named() -> Path:
        """Return the part's path; its digest is complete only after the last block."""
        return inside / f"part-{bundle:06d}-{digest.hexdigest()[:16]}.npz"

    path = _write_whole(inside, "part", chunks(), named)
    return PartFile(bundle, path.name, size, digest.hexdigest())


def commit(
    folder: Path,
    key: Key,
    name: str,
    job: Mapping[str, Any],
    parts: Sequence[PartFile],
    head: Mapping[str, Any],
    keep: int,
) -> Path:
    """Seal the parts into a checkpoint, remove those before the last `keep`, and return the path of the manifest.

    job : what must be equal for the checkpoint to be used: script, nprocs, arguments, ...; JSON values.
    head : what else the job needs to go on: superstep, loop, text offsets, ...; JSON values.
    parts : one for each bundle 0, 1, ..., in any order.
    Raises CheckpointError if a part is not given or has another size on disk, and OSError with the file's name.  If the
    OSError comes from removing old checkpoints, the new one is complete all the same.
    """
    number = _number(name)
    if keep < 1:
        raise ValueError(f"keep must be 1 or more, not {keep}")
    parts = sorted(parts, key=lambda part: part.bundle)
    if not parts or [part.bundle for part in parts] != list(range(len(parts))):
        have = ", ".join(str(part.bundle) for part in parts) or "none"
        raise CheckpointError(f"{name} needs one part for each bundle from 0 on; parts given: {have}")
    for part in parts:
        path = folder / name / part.file
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # its writer has it
            raise CheckpointError(f"{path} was written, and is missing here; all hosts must share the folder") from None
        if size != part.size:
            raise CheckpointError(f"{path} {_of_size(size, part)}")
    content = {"format": FORMAT, "name": name, "job": dict(job), "head": dict(head), "parts": [*map(asdict, parts)]}
    text = _sealed(content, key)
    inside = folder / name
    path = _write_whole(inside, "manifest", [text], lambda: inside / MANIFEST)
    _settle(folder)
    _tidy(folder, key, number, json.loads(text)["job"], keep)
    return path


def plainly(key: str, theirs: Any, ours: Any) -> str:
    """Return in words how two jobs differ in `key`: the value in the checkpoint, and the value of this job."""
    told = ["not given" if value is _NOT_GIVEN else json.dumps(value) for value in (theirs, ours)]
    return f"{key} is {told[0]} there and {told[1]} here"


def latest(
    folder: Path,
    key: Key,
    job: Mapping[str, Any],
    say: Callable[[str], None],
    words: Callable[[str, Any, Any], str] = plainly,
) -> Checkpoint | None:
    """Return the newest checkpoint that is complete, sealed, undamaged and of this job; None if all are refused.

    job : as given to `commit`.
    say : is called for each refused checkpoint with a line that contains its name and the reason.
    words : describes a difference between two jobs, as `plainly` does.
    Reads every file of the checkpoints it tries.
    Raises CheckpointError if the folder does not exist, or contains no checkpoint, complete or not.
    """
    try:
        found = _checkpoints(folder)
    except FileNotFoundError:
        raise CheckpointError(f"there is no folder {folder}") from None
    except NotADirectoryError:
        raise CheckpointError(f"{folder} is no folder") from None
    if not found:
        raise CheckpointError(f"there is no checkpoint in {folder}")
    wanted = _as_read(job)
    for _, name in reversed(found):
        try:
            return _verified(folder, key, name, wanted, words)
        except CheckpointError as refused:
            say(f"{name} refused: {refused}")
        except OSError as error:
            say(f"{name} refused: {error}")
    return None


def discard(folder: Path, name: str) -> None:
    """Remove the files of a checkpoint that could not be completed, and of incomplete ones before it; best effort."""
    number = _number(name)
    with contextlib.suppress(OSError):
        for each, incomplete in _checkpoints(folder):
            if each <= number and not (folder / incomplete / MANIFEST).exists():
                _remove(folder / incomplete)


def last_of(folder: Path, key: Key, job: Mapping[str, Any]) -> str | None:
    """Return the name of the newest checkpoint of this job, or None.  Reads manifests only and verifies no part."""
    wanted = _as_read(job)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for _, name in reversed(_checkpoints(folder)):
            with contextlib.suppress(CheckpointError, OSError):
                _same_job(_read_manifest(folder / name, key)["job"], wanted)
                return name
    return None


def newest(folder: Path, key: Key) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the job and the head in the newest manifest that this key has sealed; ({}, {}) if there is none."""
    with contextlib.suppress(OSError):
        for _, name in reversed(_checkpoints(folder)):
            with contextlib.suppress(CheckpointError):
                manifest = _read_manifest(folder / name, key)
                return manifest["job"], manifest["head"]
    return {}, {}


def needs_key(folder: Path) -> bool:
    """Return whether the folder contains a manifest that ends with a seal, by whatever key.

    If there is none, every checkpoint in the folder is refused anyway, and the caller needs no key to report it.
    """
    with contextlib.suppress(OSError):
        for _, name in _checkpoints(folder):
            with contextlib.suppress(OSError, CheckpointError), regular(folder / name / MANIFEST) as file:
                if _SEAL.search(file.readall()):
                    return True
    return False


# ------------------------------------------------------------------------------------ reading


def _verified(
    folder: Path, key: Key, name: str, wanted: dict[str, Any], words: Callable[[str, Any, Any], str]
) -> Checkpoint:
    """Read and verify all files of one checkpoint.  Raises CheckpointError with the reason to refuse it."""
    if why := exposed(folder / name):
        raise CheckpointError(why)
    manifest = _read_manifest(folder / name, key)
    _same_job(manifest["job"], wanted, words)
    parts = tuple(PartFile(**part) for part in manifest["parts"])
    for part in parts:
        with opened(folder / name, part):
            pass
    return Checkpoint(folder, name, manifest["job"], manifest["head"], parts)


def _read_manifest(inside: Path, key: Key) -> dict[str, Any]:
    """Return the contents of a manifest that this key has sealed and whose format this version reads.

    The seal is verified before the JSON is parsed.  Raises CheckpointError with the reason to refuse it.
    """
    try:
        with regular(inside / MANIFEST) as file:
            text = file.readall()
    except FileNotFoundError:
        raise CheckpointError(f"incomplete: it has no {MANIFEST}, so the job ended while it was written") from None
    sealed = _SEAL.search(text)
    if sealed is None:
        if _UNSEALED.search(text):
            raise CheckpointError(
                "it is not sealed, as those of earlier versions are not, so anybody could have written it: "
                "run the job from its beginning, with another folder for its checkpoints"
            )
        raise CheckpointError(f"{MANIFEST} is damaged or cut short: it does not end with a seal")
    name, seal = sealed[1].decode(), sealed[2].decode()
    is_right = hmac.compare_digest(key.seal(text[: sealed.start()]), seal)
    if not is_right and name != key.name():
        raise CheckpointError(
            f"it was sealed by another key ({name}) than yours ({key.name()}, from {key.source}): set "
            f"{VARIABLE} to the key of the job that wrote it, or use its key file"
        )
    if not is_right or name != key.name():
        raise CheckpointError(f"{MANIFEST} is damaged: its seal does not match")
    content: dict[str, Any] = json.loads(text)
    if content["format"] != FORMAT:
        raise CheckpointError(f"it has format {content['format']}, and this version reads format {FORMAT}")
    if content["name"] != inside.name:
        raise CheckpointError(f"its {MANIFEST} is that of {content['name']}")
    return content


def _same_job(written: dict[str, Any], wanted: dict[str, Any], words: Callable[[str, Any, Any], str] = plainly) -> None:
    """Raise CheckpointError, which names the first difference, unless a checkpoint's job equals the wanted one."""
    for key in [*wanted, *(key for key in written if key not in wanted)]:
        theirs, ours = written.get(key, _NOT_GIVEN), wanted.get(key, _NOT_GIVEN)
        if theirs != ours:
            raise CheckpointError(f"it is another job's: {words(key, theirs, ours)}")


def _of_size(size: int, part: PartFile) -> str:
    """Return in words that a part's file has another size than the manifest lists."""
    return f"has {size:,} bytes instead of {part.size:,}"


def _as_read(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values as they come back from a file: tuples become lists, and keys become strings."""
    result: dict[str, Any] = json.loads(json.dumps(dict(values), allow_nan=False))
    return result


def _checkpoints(folder: Path) -> list[tuple[int, str]]:
    """Return (number, name) of all subfolders named like checkpoints, complete or not, oldest first."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and entry.is_dir():
                found.append((int(match[1]), entry.name))
    return sorted(found)


# ------------------------------------------------------------------------------------ writing


def _write_whole(inside: Path, kind: str, blocks: Iterable[Block], named: Callable[[], Path]) -> Path:
    """Write a file so that it appears complete and durable, or not at all; return its path.

    kind : the prefix of the temporary name.
    named : returns the final path; called after the last block, because the name may contain the digest of the blocks.
    """
    partial = inside / f".{kind}-{secrets.token_hex(8)}.partial"
    path = partial
    try:
        with open(partial, "xb", opener=_creating) as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        path = named()
        partial.rename(path)
        _settle(inside)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError) and error.filename is None:  # a failed write or fsync sets no file name
            error.filename = str(path)
        raise
    return path


def _creating(path: str, flags: int) -> int:
    """Open a new file with mode 644 at most, whatever the umask: nobody but its owner can write into it."""
    return os.open(path, flags, 0o644)


def _settle(folder: Path) -> None:
    """Make creations, renames and removals in a folder durable (fsync of the folder)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # EINVAL: a file system that cannot sync folders
            error.filename = str(folder)
            raise
    finally:
        os.close(descriptor)


def _sealed(content: Mapping[str, Any], key: Key) -> bytes:
    """Return a manifest: JSON whose last members are the key's name and the seal of all bytes before them."""
    body = json.dumps(content, indent=1, allow_nan=False).encode()[: -len(b"\n}")]
    return body + f',\n "key": "{key.name()}",\n "seal": "{key.seal(body)}"\n}}\n'.encode()


def _number(name: str) -> int:
    """Return the superstep in a checkpoint's name.  Raises ValueError for any other name."""
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(f"a checkpoint's name is like {name_at(120)}, not {name!r}")
    return int(match[1])


# ----------------------------------------------------------------------------------- tidying up


def _tidy(folder: Path, key: Key, committed: int, job: dict[str, Any], keep: int) -> None:
    """Remove this job's checkpoints before the last `keep`, and incomplete ones, up to the one just committed.

    Later checkpoints stay until they are written again: a job that was resumed from an earlier one finds them.  A
    folder with a damaged manifest stays too, because nothing shows which job it belongs to.
    """
    complete: list[str] = []
    gone: list[str] = []
    for number, name in _checkpoints(folder):
        if number > committed:
            break
        try:
            manifest = _read_manifest(folder / name, key)
            _same_job(manifest["job"], job)
        except CheckpointError:
            if not (folder / name / MANIFEST).exists():
                gone.append(name)
            continue
        whole = all(_on_disk(folder / name, PartFile(**part)) for part in manifest["parts"])
        (complete if whole else gone).append(name)
    gone += complete[:-keep]
    for name in gone:
        _remove(folder / name)
    if gone:
        _settle(folder)


def _on_disk(inside: Path, part: PartFile) -> bool:
    """Return whether the file of a part exists with the right size; its digest is not checked."""
    try:
        return (inside / part.file).stat().st_size == part.size
    except FileNotFoundError:
        return False


def _remove(inside: Path) -> None:
    """Remove a checkpoint, the manifest first, so that an interrupted removal leaves an incomplete checkpoint.

    Files that this module did not name stay, and then the folder stays too.
    """
    names = [entry for entry in os.listdir(inside) if _OURS.fullmatch(entry)]
    for name in sorted(names, key=lambda name: name != MANIFEST):
        (inside / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not empty: somebody else's files are in it
        inside.rmdir()
