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
4. What is read is verified: the manifest by its own digest, byte for byte, each part by size and digest, once by
   `latest` and again when read.  What is refused is refused by name, and the one before it is tried.

A folder is one job's at a time.  Checkpoints of other jobs in it are refused and never removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import xxhash

from bsp.faults.errors import CheckpointError

FORMAT = 2
MANIFEST = "manifest.json"

_NAME = re.compile(r"checkpoint-(\d+)")
_OURS = re.compile(r"part-\d+-[0-9a-f]{16}|manifest\.json|\.(part|manifest)-[0-9a-f]{16}\.partial")
_CHUNK = 1 << 22
_NOT_GIVEN = object()

Block = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Part:
    """One bundle's share of a checkpoint, as it lies on disk."""

    bundle: int
    file: str
    size: int
    digest: str  # xxh3_128


@dataclass(frozen=True)
class Checkpoint:
    """One that `latest` has found complete, undamaged and this job's."""

    folder: Path
    name: str
    job: dict[str, Any]
    head: dict[str, Any]
    parts: tuple[Part, ...]  # by bundle

    def read(self, bundle: int) -> bytes:
        """A bundle's part, all blocks in one; verified as it is read."""
        if not 0 <= bundle < len(self.parts):
            raise CheckpointError(f"{self.name} has no bundle {bundle}, only 0 to {len(self.parts) - 1}")
        part = self.parts[bundle]
        path = self.folder / self.name / part.file
        content = path.read_bytes()
        if wrong := _difference(part, len(content), xxhash.xxh3_128_hexdigest(content)):
            raise CheckpointError(f"{path} {wrong}; it was undamaged when the job looked for its last checkpoint")
        return content


def name_at(superstep: int) -> str:
    """The name of the checkpoint at a superstep; their order in time is that of the numbers."""
    return f"checkpoint-{superstep:06d}"


def write_part(folder: Path, name: str, bundle: int, blocks: Sequence[Block]) -> Part:
    """Write one bundle's part of checkpoint `name`, durable on return; the checkpoint is not complete yet.

    Blocks are contiguous buffers of any type, written one after the other, never joined in memory.
    Raises OSError with the file's name (full disk, no permission); what is there already is untouched.
    """
    _number(name)
    inside = folder / name
    inside.mkdir(parents=True, exist_ok=True)
    digest = xxhash.xxh3_128()
    size = 0

    def chunks() -> Iterator[Block]:
        nonlocal size
        for block in blocks:
            digest.update(block)
            size += memoryview(block).nbytes
            yield block

    def named() -> Path:
        return inside / f"part-{bundle:06d}-{digest.hexdigest()[:16]}"

    path = _write_whole(inside, "part", chunks(), named)
    return Part(bundle, path.name, size, digest.hexdigest())


def commit(
    folder: Path, name: str, job: Mapping[str, Any], parts: Sequence[Part], head: Mapping[str, Any], keep: int
) -> Path:
    """Make the parts a checkpoint, remove those before the last `keep`, and return the manifest's path.

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
            raise CheckpointError(f"{path} {_difference(part, size)}")
    content = {"format": FORMAT, "name": name, "job": dict(job), "head": dict(head), "parts": [*map(asdict, parts)]}
    text = _sealed(content)
    inside = folder / name
    path = _write_whole(inside, "manifest", [text], lambda: inside / MANIFEST)
    _settle(folder)
    _tidy(folder, number, json.loads(text)["job"], keep)
    return path


def plainly(key: str, theirs: Any, ours: Any) -> str:
    """How two jobs differ in any key."""
    told = ["not given" if value is _NOT_GIVEN else json.dumps(value) for value in (theirs, ours)]
    return f"{key} is {told[0]} there and {told[1]} here"


def latest(
    folder: Path,
    job: Mapping[str, Any],
    say: Callable[[str], None],
    words: Callable[[str, Any, Any], str] = plainly,
) -> Checkpoint | None:
    """The newest checkpoint that is complete, undamaged and this job's; None if all are refused.

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
            return _verified(folder, name, wanted, words)
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


def last_of(folder: Path, job: Mapping[str, Any]) -> str | None:
    """The name of the newest checkpoint of this very job, by its manifest alone; None where there is none."""
    wanted = _as_read(job)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for _, name in reversed(_checkpoints(folder)):
            with contextlib.suppress(CheckpointError, OSError):
                _same_job(_read_manifest(folder / name)["job"], wanted)
                return name
    return None


def newest_job(folder: Path) -> dict[str, Any]:
    """What the newest manifest that can be read says of its job; empty if there is none."""
    with contextlib.suppress(OSError):
        for _, name in reversed(_checkpoints(folder)):
            with contextlib.suppress(CheckpointError):
                job: dict[str, Any] = _read_manifest(folder / name)["job"]
                return job
    return {}


# ------------------------------------------------------------------------------------ reading


def _verified(folder: Path, name: str, wanted: dict[str, Any], words: Callable[[str, Any, Any], str]) -> Checkpoint:
    """One checkpoint, all of its files read; CheckpointError with the reason to refuse it."""
    manifest = _read_manifest(folder / name)
    _same_job(manifest["job"], wanted, words)
    parts = tuple(Part(**part) for part in manifest["parts"])
    for part in parts:
        path = folder / name / part.file
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                wrong = _difference(part, size) or _difference(part, size, _digest(file))
        except FileNotFoundError:
            wrong = "is missing"
        if wrong:
            raise CheckpointError(f"{part.file} (bundle {part.bundle}) {wrong}")
    return Checkpoint(folder, name, manifest["job"], manifest["head"], parts)


def _read_manifest(inside: Path) -> dict[str, Any]:
    """A manifest whose bytes are those that were written, in a format this version reads."""
    try:
        text = (inside / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"incomplete: it has no {MANIFEST}, so the job ended while it was written") from None
    body = text[: -len(_seal(b""))]
    if not body or text != body + _seal(body):
        raise CheckpointError(f"{MANIFEST} is damaged or cut short: its digest does not match")
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


def _difference(part: Part, size: int, digest: str | None = None) -> str:
    """What is wrong with a file that should be this part, or nothing."""
    if size != part.size:
        return f"has {size:,} bytes instead of {part.size:,}"
    if digest is not None and digest != part.digest:
        return "is damaged: its digest does not match"
    return ""


def _digest(file: FileIO) -> str:
    """Of all that is left of a file."""
    digest = xxhash.xxh3_128()
    chunk = bytearray(_CHUNK)
    view = memoryview(chunk)
    while count := file.readinto(chunk):
        digest.update(view[:count])
    return digest.hexdigest()


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
        with partial.open("xb") as file:
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


def _seal(body: bytes) -> bytes:
    """What ends a manifest: the digest of all bytes before it."""
    return b',\n "digest": "%s"\n}\n' % xxhash.xxh3_128_hexdigest(body).encode()


def _sealed(content: Mapping[str, Any]) -> bytes:
    """A manifest: JSON whose last member is the digest of the bytes before it, so that no bit of it is free."""
    body = json.dumps(content, indent=1, allow_nan=False).encode()[: -len(b"\n}")]
    return body + _seal(body)


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    if not match:
        raise ValueError(f"a checkpoint's name is like {name_at(120)}, not {name!r}")
    return int(match[1])


# ----------------------------------------------------------------------------------- tidying up


def _tidy(folder: Path, committed: int, job: dict[str, Any], keep: int) -> None:
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
            manifest = _read_manifest(folder / name)
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
