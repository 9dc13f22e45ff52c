"""Checkpoints in a folder: the second line of defence, for when every clone of a bundle is lost.

A checkpoint is a folder of its own, `DIR/checkpoint-000120`, with one part a bundle and `manifest.json`.  Parts
are written by different processes, possibly on machines that share DIR, in any order and more than once (by
clones).  The launcher then commits: the manifest names the parts and makes them a checkpoint.

How it stays whole, whenever its writers are killed:
1. A file appears under its name only when complete: temporary name in the same folder, fsync, rename, fsync of the
   folder.  A manifest appears only after all its parts.
2. A part's name holds its digest, so a late clone whose bytes differ (equal objects pickle differently after a
   move), or a second run of the job, never changes a part that a manifest names.
3. Nothing is removed before a newer checkpoint is complete, and a manifest goes before the parts it names.
4. What is read is verified: the manifest by its seal, byte for byte, each part by size and digest, once by
   `latest` and again when read.  What is refused is refused by name, and the one before it is tried.

How nobody without the key makes one (`key`; a part holds a pickle, and whoever chooses a pickle runs code):
5. A manifest ends with its seal: the HMAC-SHA256, with the user's key, of all bytes before it.  They name the job, the
   checkpoint, its superstep and head, and every part with its bundle, size and SHA-256.  So whoever changes a part,
   or takes one of another bundle, checkpoint, run or job, has to change the manifest, and cannot seal it again.
6. Of what has no right seal nothing is used, not even parsed.  A part's digest is taken of the bytes that are used,
   on their way into memory: a part that is changed behind `latest` is refused as well.
7. A checkpoint that others can write into (`ownership`) is refused, whatever its seal.

A folder is one job's at a time.  Checkpoints of other jobs in it are refused and never removed.
"""

from __future__ import annotations

import contextlib
import errno
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
from bsp.faults.checkpoints.key import VARIABLE, Key
from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.errors import CheckpointError

FORMAT = 3  # 2: not sealed
MANIFEST = "manifest.json"

_NAME = re.compile(r"checkpoint-(\d+)")
_OURS = re.compile(r"part-\d+-[0-9a-f]{16}\.npz|manifest\.json|\.(part|manifest)-[0-9a-f]{16}\.partial")
_SEAL = re.compile(rb',\n "key": "([0-9a-f]{16})",\n "seal": "([0-9a-f]{64})"\n}\n\Z')
_UNSEALED = re.compile(rb',\n "digest": "[0-9a-f]{32}"\n}\n\Z')  # the end of a manifest of format 2
_CHUNK = 1 << 22
_NOT_GIVEN = object()


@dataclass(frozen=True)
class Part:
    """One bundle's share of a checkpoint, as it lies on disk."""

    bundle: int
    file: str
    size: int
    digest: str  # SHA-256


@dataclass(frozen=True)
class Checkpoint:
    """One that `latest` has found complete, undamaged and this job's."""

    folder: Path
    name: str
    job: dict[str, Any]
    head: dict[str, Any]
    parts: tuple[Part, ...]  # by bundle

    def read(self, bundle: int) -> bytearray:
        """A bundle's part, all blocks in one; verified as it is read."""
        if not 0 <= bundle < len(self.parts):
            raise CheckpointError(f"{self.name} has no bundle {bundle}, only 0 to {len(self.parts) - 1}")
        part = self.parts[bundle]
        with opened(self.folder / self.name, part) as source:
            return source.take(part.size)


class Source:
    """The bytes of a file, front to back; a digest is taken of what passes."""

    def __init__(self, file: FileIO, size: int) -> None:
        self._file = file
        self._left = size
        self._digest = hashlib.sha256()

    def take(self, count: int) -> bytearray:
        """Return the next bytes, exactly so many; ValueError if fewer are left."""
        if count > self._left:
            raise ValueError(f"{count} bytes wanted, {self._left} left")
        data = bytearray(count)
        self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> None:
        self._left -= len(view)
        while view:
            count = self._file.readinto(view[:_CHUNK])
            if not count:
                raise ValueError("the file has become shorter")
            self._digest.update(view[:count])
            view = view[count:]

    def digest(self) -> str:
        """Return the SHA-256 of the whole file; what is left of it is read for that."""
        chunk = memoryview(bytearray(min(_CHUNK, self._left)))
        while self._left:
            self._fill(chunk[: self._left])
        return self._digest.hexdigest()


@contextlib.contextmanager
def opened(inside: Path, part: Part) -> Iterator[Source]:
    """Open a part to be read.  What was read may be used behind the block, not in it.

    Raises CheckpointError at the end of the block unless the bytes of the file, those that were read included, are
    those that the manifest names.
    """
    path = inside / part.file
    try:
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        raise CheckpointError(f"{part.file} (bundle {part.bundle}) is missing") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size != part.size:
            raise CheckpointError(f"{part.file} (bundle {part.bundle}) {_of_size(size, part)}")
        source, wrong = Source(file, size), None
        try:
            yield source
        except ValueError as error:  # it is not what it should be: why, its digest says
            wrong = error
        try:
            same = hmac.compare_digest(source.digest(), part.digest)
        except ValueError:
            same = False
        if not same:
            raise CheckpointError(f"{part.file} (bundle {part.bundle}) is damaged: its digest does not match")
        if wrong is not None:
            raise wrong


def name_at(superstep: int) -> str:
    """The name of the checkpoint at a superstep; their order in time is that of the numbers."""
    return f"checkpoint-{superstep:06d}"


def write_part(folder: Path, name: str, bundle: int, blocks: Iterable[Block]) -> Part:
    """Write one bundle's part of checkpoint `name`, durable on return; the checkpoint is not complete yet.

    Blocks are contiguous buffers of any type, written one after the other, never joined in memory.  The digest is
    that of the blocks, not of what somebody may make of the file.
    Raises OSError with the file's name (full disk, no permission); what is there already is untouched.
    """
    _number(name)
    inside = folder / name
    inside.mkdir(mode=0o755, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    size = 0

    def chunks() -> Iterator[Block]:
        nonlocal size
        for block in blocks:
            digest.update(block)
            size += memoryview(block).nbytes
            yield block

    def named() -> Path:
        return inside / f"part-{bundle:06d}-{digest.hexdigest()[:16]}.npz"

    path = _write_whole(inside, "part", chunks(), named)
    return Part(bundle, path.name, size, digest.hexdigest())


def commit(
    folder: Path, key: Key, name: str, job: Mapping[str, Any], parts: Sequence[Part], head: Mapping[str, Any], keep: int
) -> Path:
    """Make the parts a sealed checkpoint, remove those before the last `keep`, and return the manifest's path.

    job : what must be equal for the checkpoint to be used: script, nprocs, arguments, ...; JSON values.
    head : what else the job must know to go on: superstep, loop, text offsets, ...; JSON values.
    parts : one for each bundle 0, 1, ..., in any order.
    Raises OSError with the file's name.  If it comes from removing old ones, the new one stands all the same.
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
        if (size := path.stat().st_size) != part.size:
            raise CheckpointError(f"{path} {_of_size(size, part)}")
    content = {"format": FORMAT, "name": name, "job": dict(job), "head": dict(head), "parts": [*map(asdict, parts)]}
    text = _sealed(content, key)
    inside = folder / name
    path = _write_whole(inside, "manifest", [text], lambda: inside / MANIFEST)
    _settle(folder)
    _tidy(folder, key, number, json.loads(text)["job"], keep)
    return path


def plainly(key: str, theirs: Any, ours: Any) -> str:
    """How two jobs differ in any key."""
    told = ["not given" if value is _NOT_GIVEN else json.dumps(value) for value in (theirs, ours)]
    return f"{key} is {told[0]} there and {told[1]} here"


def latest(
    folder: Path,
    key: Key,
    job: Mapping[str, Any],
    say: Callable[[str], None],
    words: Callable[[str, Any, Any], str] = plainly,
) -> Checkpoint | None:
    """The newest checkpoint that is complete, sealed by this key, undamaged and this job's; None if all are refused.

    `say` hears of each one refused, by name and with the reason, in `words` where the job is another.
    Raises CheckpointError if there is no such folder, or no checkpoint in it, whole or not.
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
    """Remove what there is of a checkpoint that could not be completed, and of such ones before it."""
    number = _number(name)
    with contextlib.suppress(OSError):
        for each, incomplete in _checkpoints(folder):
            if each <= number and not (folder / incomplete / MANIFEST).exists():
                _remove(folder / incomplete)


def last_of(folder: Path, key: Key, job: Mapping[str, Any]) -> str | None:
    """The name of the newest checkpoint of this very job, by its manifest alone; None where there is none."""
    wanted = _as_read(job)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for _, name in reversed(_checkpoints(folder)):
            with contextlib.suppress(CheckpointError, OSError):
                _same_job(_read_manifest(folder / name, key)["job"], wanted)
                return name
    return None


def newest_job(folder: Path, key: Key) -> dict[str, Any]:
    """What the newest manifest that is sealed by this key says of its job; empty if there is none."""
    with contextlib.suppress(OSError):
        for _, name in reversed(_checkpoints(folder)):
            with contextlib.suppress(CheckpointError):
                job: dict[str, Any] = _read_manifest(folder / name, key)["job"]
                return job
    return {}


def needs_key(folder: Path) -> bool:
    """Whether there is a checkpoint that some key may have sealed: what others are like needs none to be told."""
    with contextlib.suppress(OSError):
        for _, name in _checkpoints(folder):
            with contextlib.suppress(OSError):
                if _SEAL.search((folder / name / MANIFEST).read_bytes()):
                    return True
    return False


# ------------------------------------------------------------------------------------ reading


def _verified(
    folder: Path, key: Key, name: str, wanted: dict[str, Any], words: Callable[[str, Any, Any], str]
) -> Checkpoint:
    """One checkpoint, all of its files read; CheckpointError with the reason to refuse it."""
    if why := exposed(folder / name):
        raise CheckpointError(why)
    manifest = _read_manifest(folder / name, key)
    _same_job(manifest["job"], wanted, words)
    parts = tuple(Part(**part) for part in manifest["parts"])
    for part in parts:
        with opened(folder / name, part):
            pass
    return Checkpoint(folder, name, manifest["job"], manifest["head"], parts)


def _read_manifest(inside: Path, key: Key) -> dict[str, Any]:
    """A manifest whose bytes are those that were sealed by this key, in a format this version reads."""
    try:
        text = (inside / MANIFEST).read_bytes()
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
    for key in [*wanted, *(key for key in written if key not in wanted)]:
        theirs, ours = written.get(key, _NOT_GIVEN), wanted.get(key, _NOT_GIVEN)
        if theirs != ours:
            raise CheckpointError(f"it is another job's: {words(key, theirs, ours)}")


def _of_size(size: int, part: Part) -> str:
    return f"has {size:,} bytes instead of {part.size:,}"


def _as_read(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values as they come back: tuples are lists, keys are text."""
    result: dict[str, Any] = json.loads(json.dumps(dict(values), allow_nan=False))
    return result


def _checkpoints(folder: Path) -> list[tuple[int, str]]:
    """(number, name) of all that look like checkpoints, oldest first."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and entry.is_dir():
                found.append((int(match[1]), entry.name))
    return sorted(found)


# ------------------------------------------------------------------------------------ writing


def _write_whole(inside: Path, kind: str, blocks: Iterable[Block], named: Callable[[], Path]) -> Path:
    """A file that appears complete and durable, under a name that may depend on what was written, or not at all."""
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
        if isinstance(error, OSError) and error.filename is None:  # a failed write or fsync does not know
            error.filename = str(path)
        raise
    return path


def _creating(path: str, flags: int) -> int:
    """Whatever the umask: nobody else writes into it."""
    return os.open(path, flags, 0o644)


def _settle(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            error.filename = str(folder)
            raise
    finally:
        os.close(descriptor)


def _sealed(content: Mapping[str, Any], key: Key) -> bytes:
    """A manifest: JSON whose last members are the key's name and the seal of all bytes before them."""
    body = json.dumps(content, indent=1, allow_nan=False).encode()[: -len(b"\n}")]
    return body + f',\n "key": "{key.name()}",\n "seal": "{key.seal(body)}"\n}}\n'.encode()


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(f"a checkpoint's name is like {name_at(120)}, not {name!r}")
    return int(match[1])


# ----------------------------------------------------------------------------------- tidying up


def _tidy(folder: Path, key: Key, committed: int, job: dict[str, Any], keep: int) -> None:
    """Remove what is older than the last `keep` of this job up to the new one: checkpoints and incomplete ones.

    Later ones (a job that was resumed from an earlier one finds them) stay until it has written them again.
    A damaged manifest does not say whose it is: its folder stays.
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
        whole = all(_on_disk(folder / name, Part(**part)) for part in manifest["parts"])
        (complete if whole else gone).append(name)
    gone += complete[:-keep]
    for name in gone:
        _remove(folder / name)
    if gone:
        _settle(folder)


def _on_disk(inside: Path, part: Part) -> bool:
    try:
        return (inside / part.file).stat().st_size == part.size
    except FileNotFoundError:
        return False


def _remove(inside: Path) -> None:
    """A checkpoint, the manifest first: interrupted, it is an incomplete one.  Files not ours stay."""
    names = [entry for entry in os.listdir(inside) if _OURS.fullmatch(entry)]
    for name in sorted(names, key=lambda name: name != MANIFEST):
        (inside / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # something else is in it
        inside.rmdir()
