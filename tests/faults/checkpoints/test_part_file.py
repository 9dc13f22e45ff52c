"""A bundle's part of a checkpoint: what comes back is what went in, arrays outside the pickle, names checked."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bsp.faults.carrier import frames
from bsp.faults.checkpoints import archive, part_file
from bsp.faults.checkpoints.npy import encode
from bsp.faults.errors import CheckpointError
from bsp.faults.protocol.messages import BundlePacket, Handover, Packed, Snapshot

OF = {"job": "ab" * 32, "checkpoint": "checkpoint-000120", "bundle": 1, "assignment": 3, "superstep": 120, "head": 40}
LARGE = 1 << 16

SMALL_ARRAY, LARGE_ARRAY = np.arange(3.0), np.arange(LARGE, dtype="f8").reshape(256, -1)


def packed(light: bytes, **arrays: np.ndarray) -> Packed:
    return Packed(light, tuple(f"process-2/{name}" for name in arrays), tuple(map(encode, arrays.values())))


def place(head: int, loop: int, data: Packed, final: bool = False) -> Snapshot:
    return Snapshot(1, head, loop, head, final, 50, 10, 120, b"digest", data, 7, 9)


def packet(data: bytes) -> BundlePacket:
    return BundlePacket(len(data), b"d", data)


HANDOVER = Handover(
    1, 3, (place(9, 0, packed(b"ended", beta=SMALL_ARRAY), final=True),),
    place(40, 1, packed(b"light", beta=LARGE_ARRAY, gamma=SMALL_ARRAY)),
    ((0, ((0, packet(b"small")), (2, packet(b"L" * LARGE)))), (1, ((0, packet(b"M" * LARGE)),))), 2, 2, (), (),
)  # fmt: skip
FORMS: dict[str, Handover] = {
    "all of it": HANDOVER,
    "no loop has ended": HANDOVER._replace(finals=()),
    "nothing was delivered": HANDOVER._replace(log=()),
    "no arrays": HANDOVER._replace(snapshot=place(40, 1, packed(b"x")), finals=()),
    "a large pickle": HANDOVER._replace(snapshot=place(40, 1, packed(b"x" * LARGE, beta=SMALL_ARRAY))),
}


def found(handover: Handover, of: dict[str, Any] = OF) -> dict[str, bytearray]:
    return {name: bytearray(data) for name, data in part_file.members(handover, of)}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_is_what_was_written(form: str) -> None:
    assert part_file.handover(found(FORMS[form]), OF) == FORMS[form]


def test_the_pickle_is_small_whatever_the_arrays_and_messages_are() -> None:
    members = found(HANDOVER)
    assert len(members["handover.pickle"]) < 2000
    for data in (LARGE_ARRAY.tobytes()[:64], b"L" * 64, b"M" * 64):
        assert data not in members["handover.pickle"]


def test_arrays_are_read_by_their_names_without_pickle(tmp_path: Path) -> None:
    path = tmp_path / "part.npz"
    path.write_bytes(b"".join(archive.blocks(part_file.members(HANDOVER, OF))))
    with np.load(path, allow_pickle=False) as read:
        np.testing.assert_array_equal(read["process-2/beta"], LARGE_ARRAY)
        np.testing.assert_array_equal(read["process-2/gamma"], SMALL_ARRAY)
        np.testing.assert_array_equal(read["loop-0/process-2/beta"], SMALL_ARRAY)
    with zipfile.ZipFile(path) as read:
        assert read.testzip() is None


def test_members_are_the_very_bytes_of_the_state() -> None:
    assert HANDOVER.snapshot is not None
    state: Packed = HANDOVER.snapshot.data
    assert any(data is state.arrays[0] for _, data in part_file.members(HANDOVER, OF))


@pytest.mark.parametrize(("key", "value"), [("job", "cd" * 32), ("checkpoint", "checkpoint-000121"), ("bundle", 2)])
def test_a_part_of_something_else_is_refused_by_name_before_its_pickle_is_read(key: str, value: Any) -> None:
    members = found(HANDOVER, OF | {key: value})
    members["handover.pickle"] = bytearray(b"no pickle at all")
    asked = {name: OF[name] for name in ("job", "checkpoint", "bundle")}
    with pytest.raises(CheckpointError) as refused:
        part_file.handover(members, asked)
    assert str(refused.value) == f"it is the part of another checkpoint: {key} {value!r}, not {OF[key]!r}"


def test_a_packed_state_travels_beside_the_pickle_it_is_in() -> None:
    state = packed(b"x" * LARGE, beta=LARGE_ARRAY, gamma=SMALL_ARRAY)
    first, buffers = frames.encode(state)
    assert len(buffers) == 2 and len(first) < 1000
    assert (
        frames.decode(first, [bytearray(buffer) for buffer in buffers]) == pickle.loads(pickle.dumps(state, 5)) == state
    )
    assert state.size == LARGE + sum(map(len, state.arrays))
