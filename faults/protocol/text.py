"""The program's output: each byte is printed once, in order (N9), with three clones only if two agree (N11).

Standard error is treated differently: it is shown as it arrives, each piece once.  Its order is not kept, because
clones may be at different places: what one clone wrote before it was killed may come from its sibling after other
text has been shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations


class Spoken:
    """The standard output that the clones of bundle 0 have sent beyond what is printed."""

    def __init__(self) -> None:
        self._beyond: dict[int, bytes] = {}  # by element

    def add(self, element: int, offset: int, data: bytes, printed: int) -> None:
        """Add a piece of a clone's text.

        printed : bytes of all text printed so far.  A piece that leaves a gap is ignored; elements repeat it later
        (N14).
        """
        known = self._beyond.get(element, b"")
        end = printed + len(known)
        if offset <= end < offset + len(data):
            self._beyond[element] = known + data[end - offset :]

    def sound(self, clones: Sequence[int], voted: bool) -> bytes:
        """Return the text that can be printed now.

        clones : elements whose text counts.
        voted : whether two of them must agree (see `votes_needed`).

        If not, the longest text of any clone is printed; else the longest beginning that two of them share.  If all
        differ from the first byte on, which no single fault can cause (the program itself prints something different
        in each clone), one line of the first clone is printed.
        """
        texts = [self._beyond.get(element, b"") for element in clones]
        if not voted:
            return max(texts, key=len, default=b"")
        agreed = max((_common(*pair) for pair in combinations(texts, 2)), key=len)
        if not agreed and all(texts):
            line, newline, _ = texts[0].partition(b"\n")
            return line + newline
        return agreed

    def gone(self, count: int) -> None:
        """Remove `count` bytes that have been printed."""
        self._beyond = {element: text[count:] for element, text in self._beyond.items() if len(text) > count}

    def forget(self, element: int) -> None:
        """Forget the text of an element whose clone is made anew."""
        self._beyond.pop(element, None)


class Shown:
    """The pieces of one bundle's standard error that have been shown, whichever clone they came from.

    Pieces are counted, not their bytes: clones write the same lines, which may tell of times that differ in length.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []  # [start, stop) of numbers shown; ascending, with gaps between

    def add(self, number: int) -> bool:
        """Return whether a piece has not been shown, and count it as shown."""
        if any(low <= number < high for low, high in self._ranges):
            return False
        touching = [each for each in self._ranges if number in (each[0] - 1, each[1])]
        whole = min([number, *(low for low, _ in touching)]), max([number + 1, *(high for _, high in touching)])
        self._ranges = sorted([*(each for each in self._ranges if each not in touching), whole])
        return True


def _common(a: bytes, b: bytes) -> bytes:
    """Return the longest common beginning of two texts."""
    size = min(len(a), len(b))
    if a[:size] == b[:size]:
        return a[:size]
    return a[: next(k for k in range(size) if a[k] != b[k])]
