"""The standard output that a clone has written and bsprun has not confirmed, which its agent says again (N9, N14)."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 1 << 20  # bytes that are said again at a time: bsprun may be gone, and the text that waits for it long

Piece = tuple[int, bytes]  # offset in all that the clone has written, text


class UnconfirmedText:
    """Pieces of text, each of which is sent once when it comes, and again with every sign of life after the next."""

    def __init__(self) -> None:
        self._waiting: list[Piece] = []  # ascending; sent before the last sign of life
        self._fresh: list[Piece] = []
        self._next = 0  # offset of what is said again next; all is, in turn

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces."""
        return (*self._waiting, *self._fresh)

    def add(self, piece: Piece) -> None:
        """Add a piece that is being sent."""
        self._fresh.append(piece)

    def inherit(self, pieces: Iterable[Piece]) -> None:
        """Add pieces that another clone has sent."""
        self._waiting = sorted({*self._waiting, *pieces}.difference(self._fresh))

    def confirm(self, printed: int) -> None:
        """Forget what lies in the first `printed` bytes of the output."""
        if self._waiting or self._fresh:
            self._waiting, self._fresh = (
                [piece for piece in some if piece[0] + len(piece[1]) > printed] for some in (self._waiting, self._fresh)
            )

    def overdue(self) -> list[Piece]:
        """Return what is to be sent again with this sign of life; neighbours are one piece.

        It goes on where it ended last time, and begins again behind the last: bsprun may have the first of it, and be
        unable to write it.
        """
        found: list[tuple[int, bytearray]] = []
        size = 0
        waiting = [piece for piece in self._waiting if piece[0] >= self._next] or self._waiting
        self._next = 0
        for offset, data in waiting:
            if size >= _MOST:
                self._next = offset
                break
            if found and offset == found[-1][0] + len(found[-1][1]):
                found[-1][1].extend(data)
            else:
                found.append((offset, bytearray(data)))
            size += len(data)
        self._waiting, self._fresh = sorted(self._waiting + self._fresh), []
        return [(offset, bytes(data)) for offset, data in found]
