"""Text of other hosts: whole, in order, without MPI's complaints about what bsprun says itself."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from bsp.hosts import text
from bsp.hosts.text import TextWriter

COMPLAINTS = (
    "[h2:00000] *** An error occurred in Socket closed\n"
    "[h2][[29,1],2][btl_tcp_frag.c:241:mca_btl_tcp_frag_recv] readv failed: Connection reset by peer (104)\n"
    "peer: h3 mca_btl_tcp_frag_send: writev failed: Connection reset by peer (104)\n"
    "[h1:00474] PMIX ERROR: PMIX_ERR_NOT_FOUND in file pmix_server.c at line 1747\n"
)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, bytearray]]:
    """Collect the bytes written to descriptors 1 and 2."""
    found = {1: bytearray(), 2: bytearray()}

    def write(stream: int, data: memoryview) -> int:
        found[stream] += data[:7]
        return min(7, len(data))

    monkeypatch.setattr(text.os, "write", write)
    yield found
    monkeypatch.undo()
    assert os.write is not write


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_lines_of_mpi_are_left_out(written: dict[int, bytearray], size: int) -> None:
    ours = "a line\n[1, 2, 3]\n[h2] is a host\n" + COMPLAINTS + "[x] the end without a newline"
    writer, taken = TextWriter(), []
    data = ours.encode()
    for k in range(0, len(data), size):
        writer.write(2, data[k : k + size], "h2", taken.append)
    writer.write(1, COMPLAINTS.encode(), "h2", taken.append)  # the program's own business
    writer.finish()
    assert written[2].decode() == ours.replace(COMPLAINTS, "")
    assert written[1].decode() == COMPLAINTS
    assert set(taken) == {True}


def test_a_reader_that_has_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(stream: int, data: memoryview) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(text.os, "write", write)
    writer, taken = TextWriter(), []
    writer.write(1, b"a", "h1", taken.append)
    writer.finish()
    assert (taken, writer.lost) == ([False], "")


@pytest.mark.parametrize("stream", [1, 2])
def test_a_full_disk_is_no_reader_that_has_left(monkeypatch: pytest.MonkeyPatch, stream: int) -> None:
    def write(stream: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(text.os, "write", write)
    writer, taken = TextWriter(), []
    writer.write(stream, b"a", "h1", taken.append)
    writer.finish()
    assert (taken, writer.lost) == ([True], os.strerror(errno.ENOSPC) if stream == 1 else "")
