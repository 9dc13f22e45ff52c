"""Archives: zipfile and numpy.load read what is written, and what is read is what was written or an error."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.faults.checkpoints import archive
from bsp.faults.checkpoints.npy import encode


class Bytes:
    """A source in memory."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def take(self, count: int) -> bytearray:
        if count > len(self._data) - self.at:
            raise ValueError("end")
        self.at += count
        return bytearray(self._data[self.at - count : self.at])


def written(members: list[tuple[str, bytes]]) -> bytes:
    return b"".join(archive.blocks(members))


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/\\"), min_size=1, max_size=20)


@given(st.dictionaries(NAMES, st.binary(max_size=300), max_size=6))
def test_the_librarys_zipfile_reads_what_is_written_and_so_do_we(members: dict[str, bytes]) -> None:
    data = written(list(members.items()))
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None  # checksums
        assert [(info.filename, read.read(info)) for info in read.infolist()] == list(members.items())
    assert list(archive.read(Bytes(data)).items()) == list(members.items())


def test_numpy_reads_the_arrays_by_name(tmp_path: Path) -> None:
    arrays = {"process-0/state.beta": np.arange(5.0), "process-1/état": np.asfortranarray(np.ones((2, 3)))}
    members = [(f"{name}.npy", bytes(encode(array) or b"")) for name, array in arrays.items()]
    path = tmp_path / "part.npz"
    path.write_bytes(written([("part.json", b"{}"), *members]))
    with np.load(path, allow_pickle=False) as read:
        assert read.files == ["part.json", *arrays]
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array)


def test_equal_members_are_equal_bytes_and_none_is_copied() -> None:
    large = bytearray(1 << 20)
    blocks = list(archive.blocks([("a", large), ("b", b"")]))
    assert any(block is large for block in blocks)
    assert b"".join(blocks) == written([("a", bytes(1 << 20)), ("b", b"")])


def test_whatever_is_cut_off_is_an_error_or_what_follows_the_members() -> None:
    members = [("a", b"12345"), ("b", b"")]
    data = written(members)
    behind = data.index(b"PK\1\2")
    for end in range(len(data)):
        if end >= behind + 4:
            assert list(archive.read(Bytes(data[:end])).items()) == members
        else:
            with pytest.raises(ValueError):
                archive.read(Bytes(data[:end]))


def test_a_member_that_says_it_is_larger_than_all_there_is_costs_no_memory() -> None:
    data = bytearray(written([("a", b"12345")]))
    at = data.index(struct.pack("<2H2Q", 1, 16, 5, 5))
    data[at + 4 : at + 20] = struct.pack("<2Q", 1 << 62, 1 << 62)
    with pytest.raises(ValueError, match="end"):
        archive.read(Bytes(bytes(data)))


def test_others_archives_are_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as theirs:
        theirs.writestr("a", b"12345")
    with pytest.raises(ValueError, match="member 'a' is not one of ours"):
        archive.read(Bytes(out.getvalue()))
    with pytest.raises(ValueError, match="member 'a' is not one of ours"):
        archive.read(Bytes(written([("a", b"1"), ("a", b"2")])))
