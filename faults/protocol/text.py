"""Text on its way out: each byte is printed once, in order (N9), and with three clones if two have said it (N11).

Standard error is shown as it comes, each byte once: clones may be at different places, and what one of them had
written when it was killed may come from its sibling after what a third place has shown already.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations


class Spoken:
    """What the clones of the bundle that writes have said beyond what is printed."""

    def __init__(self) -> None:
        self._beyond: dict[int, bytes] = {}  # by element

    def add(self, element: int, offset: int, data: bytes, printed: int) -> None:
        """A piece of a clone's text; one behind a gap is said again later."""
        known = self._beyond.get(element, b"")
        end = printed + len(known)
        if offset <= end < offset + len(data):
            self._beyond[element] = known + data[end - offset :]

    def sound(self, clones: Sequence[int], three: bool) -> bytes:
        """What can be printed now, of these clones' texts.

        With fewer than three live ones anybody's word.  With three what two begin with alike; where all differ from
        the first byte on, which no single fault does, a line of the first.
        """
        texts = [self._beyond.get(element, b"") for element in clones]
        if not three:
            return max(texts, key=len, default=b"")
        agreed = max((_common(*pair) for pair in combinations(texts, 2)), key=len)
        if not agreed and all(texts):
            line, newline, _ = texts[0].partition(b"\n")
            return line + newline
        return agreed

    def gone(self, count: int) -> None:
        """So many bytes more are printed."""
        self._beyond = {element: text[count:] for element, text in self._beyond.items() if len(text) > count}

    def forget(self, element: int) -> None:
        """What stood there is made anew."""
        self._beyond.pop(element, None)


class Shown:
    """Which bytes of one bundle's standard error have been shown, whichever clone they came from."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []  # ascending, apart

    def add(self, offset: int, data: bytes) -> bytes:
        """The part of a piece that has not been shown; from now on it has."""
        start, stop = offset, offset + len(data)
        new = bytearray()
        at = start
        for low, high in self._ranges:
            if low >= stop:
                break
            if high > at:
                new += data[at - start : max(low - start, at - start)]
                at = max(at, high)
        new += data[min(at, stop) - start :]
        touching = [each for each in self._ranges if each[0] <= stop and each[1] >= start]
        whole = min([start, *(low for low, _ in touching)]), max([stop, *(high for _, high in touching)])
        self._ranges = sorted([*(each for each in self._ranges if each not in touching), whole])
        return bytes(new)


def _common(a: bytes, b: bytes) -> bytes:
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return a[:size]
    return a[: next(k for k in range(size) if a[k] != b[k])]
