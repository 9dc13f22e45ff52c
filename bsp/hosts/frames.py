"""Messages over a pipe: a JSON object and some bytes, each behind its length.

A login may print text before the other end speaks; all before the first message is skipped.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

_LENGTHS = struct.Struct(">II")
_HELLO = b"\0nonstop-bsp 1\n"  # before the first message

Message = dict[str, Any]


def packed(message: Message, data: bytes = b"") -> bytes:
    """Return a message as bytes."""
    return head(message, len(data)) + data


def head(message: Message, size: int) -> bytes:
    """Return a message as bytes, without the `size` bytes of data that follow."""
    text = json.dumps(message).encode()
    return _LENGTHS.pack(len(text), size) + text


def opening() -> bytes:
    """Return what each end sends before its first message."""
    return _HELLO


class Reader:
    """Messages, put together again from whatever pieces a pipe gives."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._open = False

    def feed(self, piece: bytes) -> Iterator[tuple[Message, bytes]]:
        """Take a piece; yield the messages that are complete with it."""
        self._unread += piece
        if not self._open:
            before, found, _ = self._unread.partition(_HELLO)
            if not found:
                return
            self._open = True
            del self._unread[: len(before) + len(_HELLO)]
        while len(self._unread) >= _LENGTHS.size:
            text, data = _LENGTHS.unpack_from(self._unread)
            middle, end = _LENGTHS.size + text, _LENGTHS.size + text + data
            if len(self._unread) < end:
                return
            message = json.loads(self._unread[_LENGTHS.size : middle])
            content = bytes(self._unread[middle:end])
            del self._unread[:end]
            yield message, content
