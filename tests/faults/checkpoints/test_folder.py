"""Checkpoints: whatever is torn, flipped or foreign is refused by name; kill -9 at any moment leaves a whole one.

Run as a program (`test_folder.py DIR SEED`), it is the victim and its killer: see `killed_writers`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from bsp.errors import BspError
from bsp.faults.checkpoints import archive
from bsp.faults.checkpoints.folder import (
    FORMAT,
    MANIFEST,
    Checkpoint,
    PartFile,
    commit,
    discard,
    last_of,
    latest,
    name_at,
    needs_key,
    newest,
    opened,
    write_part,
)
from bsp.faults.checkpoints.key import Key
from bsp.faults.errors import CheckpointError

JOB = {"script": "heat.py", "nprocs": 8, "bundles": 3, "arguments": ["--size", "100"]}
BUNDLES = 3
KEY = Key(b"the key of these tests, 32 or more", "these tests")


def content(superstep: int, bundle: int) -> list[bytes]:
    """What a bundle writes: three blocks, the second a larger one."""
    rng = random.Random(superstep * 1000 + bundle)
    return [rng.randbytes(17), rng.randbytes(30_000 + bundle), b""]


def write(folder: Path, superstep: int, keep: int = 3, job: dict[str, Any] = JOB) -> Path:
    """A whole checkpoint."""
    name = name_at(superstep)
    parts = [write_part(folder, name, bundle, content(superstep, bundle)) for bundle in range(BUNDLES)]
    return commit(folder, KEY, name, job, parts, {"superstep": superstep}, keep)


def last(folder: Path, job: dict[str, Any] = JOB) -> tuple[Checkpoint | None, list[str]]:
    """`latest`, and what it says."""
    said: list[str] = []
    return latest(folder, KEY, job, said.append), said


def assert_is(checkpoint: Checkpoint | None, superstep: int) -> None:
    assert checkpoint is not None
    assert (checkpoint.name, checkpoint.head) == (name_at(superstep), {"superstep": superstep})
    assert [checkpoint.read(bundle) for bundle in range(BUNDLES)] == [
        b"".join(content(superstep, bundle)) for bundle in range(BUNDLES)
    ]


def files(folder: Path, superstep: int) -> list[Path]:
    return sorted((folder / name_at(superstep)).iterdir())


def part_of(folder: Path, superstep: int, bundle: int) -> Path:
    (path,) = (folder / name_at(superstep)).glob(f"part-{bundle:06d}-*")
    return path


# --------------------------------------------------------------------------------- what is written is read


def test_the_newest_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    for superstep in (99, 100, 1_000_000):  # a longer number than the others is still the newest
        manifest = write(tmp_path, superstep)
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1_000_000)
    assert said == []
    assert checkpoint is not None
    assert checkpoint.job == JOB
    assert manifest == tmp_path / "checkpoint-1000000" / "manifest.json"
    with pytest.raises(CheckpointError, match="checkpoint-1000000 has no bundle 3, only 0 to 2"):
        checkpoint.read(3)


def test_the_manifest_is_json_that_names_every_part(tmp_path: Path) -> None:
    manifest = json.loads(write(tmp_path, 7).read_text())
    assert (manifest["format"], manifest["job"], manifest["head"]) == (FORMAT, JOB, {"superstep": 7})
    assert [part["bundle"] for part in manifest["parts"]] == [0, 1, 2]
    assert [part["size"] for part in manifest["parts"]] == [30_017, 30_018, 30_019]
    assert {path.name for path in files(tmp_path, 7)} == {MANIFEST} | {part["file"] for part in manifest["parts"]}


def test_blocks_are_buffers_of_any_type_and_are_never_joined(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    blocks = [memoryview(array), b"", memoryview(b"tail"), bytearray(b"."), memoryview(np.zeros((0, 3)))]
    part = write_part(tmp_path, name_at(1), 0, blocks)
    assert part.size == array.nbytes + 5
    commit(tmp_path, KEY, name_at(1), JOB, [part], {}, keep=1)
    checkpoint, _ = last(tmp_path)
    assert checkpoint is not None
    assert checkpoint.read(0) == array.tobytes() + b"tail."


def test_an_empty_part_is_a_part(tmp_path: Path) -> None:
    commit(tmp_path, KEY, name_at(1), JOB, [write_part(tmp_path, name_at(1), 0, [])], {}, keep=1)
    checkpoint, _ = last(tmp_path)
    assert checkpoint is not None
    assert checkpoint.read(0) == b""


def test_a_folder_that_its_writer_does_not_share_is_told(tmp_path: Path) -> None:
    """Each host has a folder of that name."""
    part = write_part(tmp_path / "h2", name_at(1), 0, [b"state"])
    with pytest.raises(CheckpointError, match=r"was written, and is missing here; all hosts must share the folder"):
        commit(tmp_path / "h1", KEY, name_at(1), JOB, [part], {}, keep=1)


def test_a_clone_that_writes_other_bytes_later_does_not_harm_the_checkpoint(tmp_path: Path) -> None:
    """Equal objects pickle differently after a move."""
    write(tmp_path, 5)
    other = write_part(tmp_path, name_at(5), 1, [b"the same state, other bytes"])
    again = write_part(tmp_path, name_at(5), 2, content(5, 2))
    assert_is(last(tmp_path)[0], 5)
    assert (other.bundle, again.file) == (1, part_of(tmp_path, 5, 2).name)


def test_a_job_that_writes_a_checkpoint_again_replaces_it_at_once_or_not_at_all(tmp_path: Path) -> None:
    write(tmp_path, 5)
    part = write_part(tmp_path, name_at(5), 0, [b"again"])
    assert_is(last(tmp_path)[0], 5)
    commit(tmp_path, KEY, name_at(5), JOB, [part], {"superstep": 5}, keep=2)
    checkpoint, said = last(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.read(0), said) == (b"again", [])


# ------------------------------------------------------------------------------------- what is refused


def test_no_folder_no_checkpoint_and_no_folder_at_all_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no folder .*/none"):
        last(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="/file is no folder"):
        last(tmp_path / "file")
    (tmp_path / "run-7").mkdir()
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        last(tmp_path)
    assert issubclass(CheckpointError, (BspError, ValueError))


def test_parts_without_a_manifest_are_no_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write_part(tmp_path, name_at(2), 0, content(2, 0))
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    assert said == [
        "checkpoint-000002 refused: incomplete: it has no manifest.json, so the job ended while it was written"
    ]


def test_none_is_returned_when_all_are_refused(tmp_path: Path) -> None:
    for manifest in [write(tmp_path, 1), write(tmp_path, 2)]:
        manifest.unlink()
    checkpoint, said = last(tmp_path)
    assert checkpoint is None
    assert [line.split()[0] for line in said] == ["checkpoint-000002", "checkpoint-000001"]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    path = part_of(tmp_path, 2, 1)
    path.unlink()
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    assert said == [f"checkpoint-000002 refused: {path.name} (bundle 1) is missing"]


def test_a_file_cut_short_anywhere_or_with_more_at_its_end_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    for path in files(tmp_path, 2):
        whole = path.read_bytes()
        places = {0, 1, 16, 17, 4096, len(whole) // 2, len(whole) - 46, len(whole) - 45, len(whole) - 1}
        if path.name == MANIFEST:
            places |= set(range(len(whole)))
        for changed in [*(whole[:place] for place in sorted(places)), whole + b"\0", whole + b"\n"]:
            if changed == whole:
                continue
            path.write_bytes(changed)
            checkpoint, said = last(tmp_path)
            assert checkpoint is not None
            assert checkpoint.name == name_at(1)
            (line,) = said
            assert line.startswith(f"checkpoint-000002 refused: {path.name} ")
            assert "cut short" in line if path.name == MANIFEST else "bytes instead of" in line
        path.write_bytes(whole)
    assert_is(last(tmp_path)[0], 2)


def flips(path: Path, count: int, seed: int) -> list[tuple[int, int]]:
    """(offset, bit): all of a small file, else `count` drawn."""
    size = path.stat().st_size
    if 8 * size <= count:
        return [(offset, bit) for offset in range(size) for bit in range(8)]
    rng = random.Random(seed)
    return [(rng.randrange(size), rng.randrange(8)) for _ in range(count)]


@pytest.mark.thorough
def test_every_single_flipped_bit_is_refused(tmp_path: Path) -> None:
    """All bits of the manifest and of a part of 64 bytes, 600 of the large parts."""
    write(tmp_path, 1)
    name = name_at(2)
    blocks = [[random.Random(2).randbytes(64)], content(2, 1), content(2, 2)]
    parts = [write_part(tmp_path, name, bundle, each) for bundle, each in enumerate(blocks)]
    commit(tmp_path, KEY, name, JOB | {"who": "Łukasiewicz\u00e9"}, parts, {"superstep": 2}, keep=2)
    tried = 0
    for path in files(tmp_path, 2):
        whole = path.read_bytes()
        for offset, bit in flips(path, 600 if path.stat().st_size > 10_000 else 100_000, seed=3):
            changed = bytearray(whole)
            changed[offset] ^= 1 << bit
            path.write_bytes(changed)
            said: list[str] = []
            found = latest(tmp_path, KEY, JOB | {"who": "Łukasiewicz\u00e9"}, said.append)
            assert found is None, (path, offset, bit)  # and the first is another job's
            assert said[0].startswith(f"checkpoint-000002 refused: {path.name} "), (path, offset, bit, said)
            assert "is damaged" in said[0]
            tried += 1
        path.write_bytes(whole)
    assert tried > 5000
    assert latest(tmp_path, KEY, JOB | {"who": "Łukasiewicz\u00e9"}, said.append) is not None


def test_a_part_damaged_after_the_look_is_refused_when_read(tmp_path: Path) -> None:
    write(tmp_path, 1)
    checkpoint, _ = last(tmp_path)
    path = part_of(tmp_path, 1, 2)
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    assert checkpoint is not None
    assert checkpoint.read(1) == b"".join(content(1, 1))
    with pytest.raises(CheckpointError, match=rf"{path.name} \(bundle 2\) is damaged: its digest does not match"):
        checkpoint.read(2)


def test_another_jobs_checkpoint_is_refused_with_the_key_and_both_values(tmp_path: Path) -> None:
    write(tmp_path, 1)
    for job, reason in [
        (JOB | {"nprocs": 16}, "nprocs is 8 there and 16 here"),
        (JOB | {"arguments": ["--size", "200"]}, 'arguments is ["--size", "100"] there and ["--size", "200"] here'),
        (JOB | {"seed": None}, "seed is not given there and null here"),
        ({"script": "heat.py", "nprocs": 8, "bundles": 3}, 'arguments is ["--size", "100"] there and not given here'),
    ]:
        checkpoint, said = last(tmp_path, job)
        assert checkpoint is None
        assert said == [f"checkpoint-000001 refused: it is another job's: {reason}"]
    assert_is(last(tmp_path, JOB | {"arguments": ("--size", "100")})[0], 1)  # JSON has no tuples


def test_a_newer_format_and_a_moved_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)
    (tmp_path / name_at(1)).rename(tmp_path / name_at(9))
    monkeypatch.setattr("bsp.faults.checkpoints.folder.FORMAT", FORMAT + 1)
    write(tmp_path, 5)
    monkeypatch.undo()
    checkpoint, said = last(tmp_path)
    assert checkpoint is None
    assert said == [
        "checkpoint-000009 refused: its manifest.json is that of checkpoint-000001",
        f"checkpoint-000005 refused: it has format {FORMAT + 1}, and this version reads format {FORMAT}",
    ]


def test_a_file_that_cannot_be_read_is_refused_with_the_systems_words(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    path = part_of(tmp_path, 2, 0)
    path.unlink()
    path.mkdir()
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    assert said == [f"checkpoint-000002 refused: [Errno 21] Is a directory: '{path}'"]


@pytest.mark.parametrize("which", ["part", "manifest"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, which: str) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    path = part_of(tmp_path, 2, 0) if which == "part" else tmp_path / name_at(2) / MANIFEST
    path.unlink()
    os.mkfifo(path)
    assert needs_key(tmp_path)
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    assert said == [f"checkpoint-000002 refused: {path} is no regular file"]


# --------------------------------------------------------------------------------------- what others have made


def rewritten(manifest: Path, change: Callable[[dict[str, Any]], None], key: Key | None = None) -> None:
    """Change a manifest as somebody who can write into the folder would; sealed by `key`, or with its old seal."""
    content = json.loads(manifest.read_text())
    name, seal = content.pop("key"), content.pop("seal")
    change(content)
    body = json.dumps(content, indent=1).encode()[: -len(b"\n}")]
    if key is not None:
        name, seal = key.name(), key.seal(body)
    manifest.write_bytes(body + f',\n "key": "{name}",\n "seal": "{seal}"\n}}\n'.encode())


def replaced(manifest: Path, bundle: int, content: bytes) -> None:
    """Put another part in the place of one, with the digest, size and name that it would have."""
    part = write_part(manifest.parents[1], manifest.parent.name, bundle, [content])
    rewritten(manifest, lambda told: told["parts"][bundle].update(asdict(part)))


DAMAGED = "checkpoint-000002 refused: manifest.json is damaged: its seal does not match"


def test_a_forged_part_with_a_right_digest_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    replaced(write(tmp_path, 2), 1, b"cos\nsystem\n(S'true'\ntR.")
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    assert said == [DAMAGED]


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["head"].update(superstep=3),
        lambda told: told["job"].update(script="other.py"),
        lambda told: told["parts"].reverse(),
        lambda told: told["parts"][0].update(bundle=1) or told["parts"][1].update(bundle=0),
        lambda told: told.update(more=1),
    ],
)
def test_whatever_a_manifest_says_is_sealed(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    write(tmp_path, 1)
    rewritten(write(tmp_path, 2), change)
    assert_is(last(tmp_path)[0], 1)
    assert last(tmp_path)[1] == [DAMAGED]


def test_one_that_is_sealed_by_another_key_is_refused_with_the_names_of_both(tmp_path: Path) -> None:
    other = Key(b"another key, of 32 bytes or more too", "")
    write(tmp_path, 1)
    rewritten(write(tmp_path, 2), lambda told: None, other)
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    assert said == [
        f"checkpoint-000002 refused: it was sealed by another key ({other.name()}) than yours ({KEY.name()}, "
        "from these tests): set BSP_CHECKPOINT_KEY to the key of the job that wrote it, or use its key file"
    ]


def test_a_forger_who_takes_the_name_of_the_right_key_has_not_the_key(tmp_path: Path) -> None:
    class Posing(Key):
        def name(self) -> str:
            return KEY.name()

    rewritten(write(tmp_path, 2), lambda told: None, Posing(b"another key, of 32 bytes or more too", ""))
    assert last(tmp_path) == (None, [DAMAGED])


def test_one_of_an_earlier_version_is_refused_as_not_sealed(tmp_path: Path) -> None:
    """Format 2: the digest of the bytes before it ends the manifest; so it is, and is worth nothing."""
    manifest = write(tmp_path, 2)
    content = json.loads(manifest.read_text())
    told = {"format": 2} | {key: content[key] for key in ("name", "job", "head", "parts")}
    body = json.dumps(told, indent=1).encode()[: -len(b"\n}")]
    manifest.write_bytes(body + b',\n "digest": "%s"\n}\n' % xxhash.xxh3_128_hexdigest(body).encode())
    checkpoint, (said,) = last(tmp_path)
    assert checkpoint is None
    assert said.startswith("checkpoint-000002 refused: it is not sealed, as those of earlier versions are not")
    assert newest(tmp_path, KEY) == ({}, {}) and last_of(tmp_path, KEY, JOB) is None


def test_parts_cannot_take_each_others_places(tmp_path: Path) -> None:
    """Another bundle's, another checkpoint's, another run's; each a part that this key has sealed somewhere."""
    here, run = tmp_path / "here", tmp_path / "run"
    for superstep in (1, 2):
        write(here, superstep)
    name = name_at(2)  # the same job, another run: inputs have changed
    commit(run, KEY, name, JOB, [write_part(run, name, b, [b"x" * 30_000]) for b in range(3)], {"superstep": 2}, 1)
    victim = part_of(here, 2, 1)
    whole = victim.read_bytes()
    for other in (part_of(here, 2, 0), part_of(here, 1, 1), part_of(run, 2, 1)):
        for size in (None, len(whole)):  # cut or filled up to the right size, too
            content = other.read_bytes()
            victim.write_bytes(content if size is None else content[:size].ljust(size, b"\0"))
            checkpoint, said = last(here)
            assert_is(checkpoint, 1)
            assert said[0].startswith(f"{name} refused: {victim.name} (bundle 1) ")
    victim.write_bytes(whole)
    assert_is(last(here)[0], 2)


def test_an_old_manifest_does_not_go_with_new_parts(tmp_path: Path) -> None:
    old = write(tmp_path, 2).read_bytes()
    parts = [write_part(tmp_path, name_at(2), b, [b"new"]) for b in range(BUNDLES)]
    manifest = commit(tmp_path, KEY, name_at(2), JOB, parts, {"superstep": 2}, 2)
    for bundle in range(BUNDLES):
        stale = next(p for p in files(tmp_path, 2) if p.name.startswith(f"part-{bundle:06d}") and p.stat().st_size > 3)
        stale.write_bytes(b"new")  # under the name that the old manifest has
    manifest.write_bytes(old)
    checkpoint, (said,) = last(tmp_path)
    assert checkpoint is None
    assert "(bundle 0) has 3 bytes instead of" in said


def test_a_whole_checkpoint_does_not_pass_for_that_of_another_superstep_or_job(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    shutil.copytree(tmp_path / name_at(1), tmp_path / name_at(3))
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, 4, job=JOB | {"nprocs": 4})
    shutil.copytree(elsewhere / name_at(4), tmp_path / name_at(4))
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 2)
    assert said == [
        "checkpoint-000004 refused: it is another job's: nprocs is 4 there and 8 here",
        "checkpoint-000003 refused: its manifest.json is that of checkpoint-000001",
    ]


def test_a_part_that_is_changed_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """The digest is of the bytes that are used: there is no moment between a look and the use."""
    part = write_part(tmp_path, name_at(1), 0, [b"a" * 10, b"b" * 10])
    inside = tmp_path / name_at(1)
    with opened(inside, part) as source:
        assert bytes(source.take(10)) == b"a" * 10
    changes = {"before": b"A" * 10 + b"b" * 10, "behind": b"a" * 10 + b"B" * 10, "shorter": b"a" * 12}
    for name, changed in changes.items():
        (inside / part.file).write_bytes(b"a" * 10 + b"b" * 10)
        with (
            pytest.raises(CheckpointError, match="is damaged: its digest does not match"),
            opened(inside, part) as source,
        ):
            if name == "before":
                (inside / part.file).write_bytes(changed)
            source.take(10)
            (inside / part.file).write_bytes(changed)


def test_a_checkpoint_into_which_others_can_write_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    (tmp_path / name_at(2)).chmod(0o777)
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 1)
    why = f"everybody may write into it (mode 777): chmod 700 {tmp_path / name_at(2)}"
    assert said == [f"checkpoint-000002 refused: {why}"]


def test_nobody_else_may_write_into_what_is_made_here_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(tmp_path, 1)
    finally:
        os.umask(before)
    for path in (tmp_path / name_at(1), *files(tmp_path, 1)):
        assert not path.stat().st_mode & 0o022


def test_memory_does_not_double(tmp_path: Path) -> None:
    """Blocks are written as they are; a part that is looked at is never in memory, one that is read is there once."""
    size, slack = 48 << 20, 10 << 20
    block = bytes(size)
    tracemalloc.start()
    try:
        part = write_part(tmp_path, name_at(1), 0, archive.blocks([("large", block)]))
        written = tracemalloc.get_traced_memory()[1]
        commit(tmp_path, KEY, name_at(1), JOB, [part], {}, keep=1)
        tracemalloc.reset_peak()
        assert last(tmp_path)[0] is not None
        looked = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        with opened(tmp_path / name_at(1), part) as source:
            found = archive.read(source)
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == {"large": block}
    assert written < slack and looked < slack
    assert size <= read < size + slack


# ------------------------------------------------------------------------------------ keep K, and stray ones


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_could_not_be_completed_is_discarded_and_nothing_else(tmp_path: Path) -> None:
    """On a full disk parts that belong to nothing would take the room that the next one needs."""
    write(tmp_path, 10)
    for superstep in (15, 20, 30):
        write_part(tmp_path, name_at(superstep), 0, content(superstep, 0))
    discard(tmp_path, name_at(20))
    assert names(tmp_path) == [name_at(10), name_at(30)]
    assert_is(last(tmp_path)[0], 10)


def test_the_last_one_of_a_job_is_known_by_its_manifest(tmp_path: Path) -> None:
    assert last_of(tmp_path / "nowhere", KEY, JOB) is None
    write(tmp_path, 10)
    write(tmp_path, 20)
    write(tmp_path, 30, job={**JOB, "script": "another"})
    write_part(tmp_path, name_at(40), 0, content(40, 0))
    assert last_of(tmp_path, KEY, JOB) == name_at(20)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_last_k_are_kept(tmp_path: Path, keep: int) -> None:
    for superstep in range(10, 100, 10):
        write(tmp_path, superstep, keep)
        assert len(names(tmp_path)) == min(keep, superstep // 10)
    assert names(tmp_path) == [name_at(superstep) for superstep in range(100 - 10 * keep, 100, 10)]


def test_incomplete_ones_older_than_the_new_one_go_and_younger_ones_stay(tmp_path: Path) -> None:
    write(tmp_path, 10)
    for superstep in (20, 40):
        write_part(tmp_path, name_at(superstep), 0, content(superstep, 0))
    (tmp_path / name_at(20) / ".part-0123456789abcdef.partial").write_bytes(b"half a pa")
    write(tmp_path, 25)
    part_of(tmp_path, 25, 0).unlink()  # complete once
    write(tmp_path, 30)
    assert names(tmp_path) == [name_at(10), name_at(30), name_at(40)]


def test_files_and_folders_of_others_are_never_removed(tmp_path: Path) -> None:
    write(tmp_path, 10, job=JOB | {"nprocs": 2})
    write(tmp_path, 20)
    (tmp_path / name_at(20) / "my notes").write_text("keep me")
    (tmp_path / "results-3").mkdir()
    (tmp_path / name_at(15)).write_text("a file")
    damaged = write(tmp_path, 22)
    damaged.write_bytes(damaged.read_bytes()[:-3])  # whose it is, it does not say
    write(tmp_path, 30, keep=1)
    assert names(tmp_path) == [name_at(10), name_at(15), name_at(20), name_at(22), name_at(30), "results-3"]
    assert files(tmp_path, 20) == [tmp_path / name_at(20) / "my notes"]


def test_a_job_resumed_from_an_earlier_checkpoint_keeps_what_it_has_just_written(tmp_path: Path) -> None:
    for superstep in (10, 20, 30, 40):
        write(tmp_path, superstep, keep=4)
    for superstep in (30, 40):  # both damaged, so 20 it is
        path = part_of(tmp_path, superstep, 0)
        path.write_bytes(bytes(path.stat().st_size))
    assert_is(last(tmp_path)[0], 20)
    write(tmp_path, 25, keep=1)
    checkpoint, said = last(tmp_path)
    assert_is(checkpoint, 25)
    assert len(said) == 2
    assert names(tmp_path) == [name_at(25), name_at(30), name_at(40)]


# ---------------------------------------------------------------------------------------- wrong calls


def test_wrong_names_parts_and_levels_are_refused(tmp_path: Path) -> None:
    for name in ("checkpoint", "../checkpoint-1", "checkpoint-1/x", "run-7", ""):
        with pytest.raises(ValueError, match="a checkpoint's name is like checkpoint-000120, not "):
            write_part(tmp_path, name, 0, [])
    one = write_part(tmp_path, name_at(1), 1, [b"x"])
    with pytest.raises(CheckpointError, match="needs one part for each bundle from 0 on; parts given: 1, 1"):
        commit(tmp_path, KEY, name_at(1), JOB, [one, one], {}, keep=1)
    with pytest.raises(CheckpointError, match="parts given: none"):
        commit(tmp_path, KEY, name_at(1), JOB, [], {}, keep=1)
    with pytest.raises(ValueError, match="keep must be 1 or more, not 0"):
        commit(tmp_path, KEY, name_at(1), JOB, [one], {}, keep=0)
    zero = write_part(tmp_path, name_at(1), 0, [b"y"])
    with pytest.raises(ValueError, match="not JSON compliant"):
        commit(tmp_path, KEY, name_at(1), JOB, [zero], {"loss": float("nan")}, keep=1)
    with pytest.raises(CheckpointError, match="has 1 bytes instead of 5"):
        commit(tmp_path, KEY, name_at(1), JOB, [PartFile(0, zero.file, 5, zero.digest)], {}, keep=1)
    assert not (tmp_path / name_at(1) / MANIFEST).exists()


# ------------------------------------------------------------------------------------ the file system says no


def on_a_full_disk(attempt: Callable[[], object]) -> OSError:
    """The error of an attempt while no file may grow beyond 20,000 bytes (Python ignores SIGXFSZ)."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        attempt()
    except OSError as error:
        return error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    raise AssertionError("there was room")


def test_a_full_disk_is_named_leaves_no_partial_file_and_the_earlier_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 1)
    for blocks in (content(2, 0), [b"x" * 100] * 300):  # a large block, and many that are gathered
        error = on_a_full_disk(lambda blocks=blocks: write_part(tmp_path, name_at(2), 0, blocks))
        assert str(tmp_path / name_at(2)) in str(error)
        assert list((tmp_path / name_at(2)).iterdir()) == []
    assert_is(last(tmp_path)[0], 1)

    parts = [write_part(tmp_path, name_at(2), bundle, content(2, bundle)) for bundle in range(BUNDLES)]
    large = {"superstep": 2, "text": "x" * 30_000}
    error = on_a_full_disk(lambda: commit(tmp_path, KEY, name_at(2), JOB, parts, large, keep=1))
    assert str(tmp_path / name_at(2)) in str(error)
    assert not any("manifest" in path.name for path in files(tmp_path, 2))
    assert_is(last(tmp_path)[0], 1)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"/file"):
        write_part(tmp_path / "file", name_at(1), 0, [b"x"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match=name_at(1)):
            write_part(tmp_path, name_at(1), 0, [b"x"])
    finally:
        tmp_path.chmod(0o700)


# --------------------------------------------------------------------------------------- real processes


def write_bundles(folder: Path, bundle: int, supersteps: int) -> list[PartFile]:
    """One process's share of `test_four_processes_...`."""
    return [write_part(folder, name_at(s), bundle, content(s, bundle)) for s in range(1, supersteps + 1)]


@pytest.mark.jobs
def test_four_processes_write_the_parts_of_one_checkpoint(tmp_path: Path) -> None:
    """The fourth is a clone of bundle 0 and writes the same parts at the same time."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        written = pool.starmap(write_bundles, [(tmp_path, bundle, 20) for bundle in (0, 1, 2, 0)], chunksize=1)
    assert written[3] == written[0]
    for superstep in range(1, 21):
        parts = [written[bundle][superstep - 1] for bundle in (2, 0, 1)]
        commit(tmp_path, KEY, name_at(superstep), JOB, parts, {"superstep": superstep}, keep=20)
        assert_is(last(tmp_path)[0], superstep)
        assert len(files(tmp_path, superstep)) == BUNDLES + 1


def killed_writers(folder: Path, seed: int) -> None:
    """30 times: fork a writer of endless checkpoints, kill -9 it at some moment, and look at what it leaves."""
    rng = random.Random(seed)
    torn = unfinished = 0
    for _ in range(30):
        receiver, sender = os.pipe()
        newest, _ = last(folder)
        assert newest is not None
        pid = os.fork()
        if pid == 0:
            superstep = newest.head["superstep"]
            while True:
                superstep += 1
                write(folder, superstep, keep=2)
                os.write(sender, superstep.to_bytes(8, "little"))
        os.close(sender)
        time.sleep(rng.uniform(0, 0.06))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with open(receiver, "rb") as pipe:
            told = np.frombuffer(pipe.read(), dtype="<i8").tolist()
        committed = [newest.head["superstep"], *told][-1]
        unfinished = 1 if told else unfinished + 1  # writes in a row, this one too, that may not have cleared up
        found, said = last(folder)
        assert found is not None
        assert found.head["superstep"] in (committed, committed + 1)  # killed before it could tell
        assert_is(found, found.head["superstep"])
        assert all("incomplete" in line for line in said)
        assert len(list(folder.iterdir())) <= 2 + unfinished
        torn += bool(said)
    print("torn", torn)


@pytest.mark.jobs
def test_kill_9_at_30_random_moments_always_leaves_the_last_complete_checkpoint(tmp_path: Path) -> None:
    write(tmp_path, 1)
    ran = subprocess.run([sys.executable, __file__, str(tmp_path), "20"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout.split()[1]) >= 5  # the kills did strike half-way
    write(tmp_path, 10**6, keep=1)
    assert names(tmp_path) == [name_at(10**6)]  # nothing is left behind


if __name__ == "__main__":
    killed_writers(Path(sys.argv[1]), int(sys.argv[2]))
