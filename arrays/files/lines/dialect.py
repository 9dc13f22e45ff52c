"""How a text file writes its fields: what separates them, the decimal mark, what stands for a missing value.

What is not given is found from the first lines of the file, which every process reads: the answer depends neither on
the number of processes nor on what pyarrow or csv.Sniffer of some version take for likely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bsp.arrays.files.lines.comments import without
from bsp.arrays.files.lines.fields import MISSING, fields_of, is_blank

SAMPLE = 1 << 16  # bytes from the beginning of a file that are looked at
_OTHERS = (",", ";", "\t", "|")  # separators, beside that of the file's ending
_NUMBER = re.compile(rb"[+-]?(\d[\d.,]*|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE)
_GROUP = r"[+-]?[1-9]\d{0,2}(%s\d{3})+"  # of digits, three and three
_FRACTION = r"[+-]?\d*%s\d+(e[+-]?\d+)?"
_BOTH = r"[+-]?\d{1,3}(%s\d{3})+%s\d+"


class Dialect(NamedTuple):
    """How the fields of a text file are written.

    delimiter : between fields, one character; None: found from the first lines.
    decimal : the decimal mark, "." or ","; None: found from the first lines.
    missing : texts that mark a missing value.
    header : whether the first line has the names of the columns; else they are c0, c1, ...
    comments : marks that begin a comment, which ends with its line; lines of comments alone are no rows.
    """

    delimiter: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] = MISSING
    header: bool = True
    comments: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ValueError for a delimiter or decimal mark that cannot be."""
        given, decimal = self.delimiter, self.decimal
        if given is not None and (len(given) != 1 or not given.isascii() or given in '"\r\n'):
            raise ValueError(f"delimiter={given!r}: one character, not a quote")
        if decimal not in (None, ".", ","):
            raise ValueError(f"decimal={decimal!r}: '.' or ','")


def completed(given: Dialect, sample: bytes, usual: str) -> Dialect:
    """Return the dialect with what was not given found from the beginning of a file.

    sample : the first `SAMPLE` bytes, UTF-8; all of a shorter file.   usual : the separator by the file's ending.
    """
    lines = without(sample.removeprefix(b"\xef\xbb\xbf"), given.comments).split(b"\n")
    if len(sample) >= SAMPLE:
        del lines[-1]  # it may end anywhere
    lines = [line.removesuffix(b"\r") for line in lines if line.strip()]
    delimiter = given.delimiter or _delimiter(lines, usual)
    return given._replace(delimiter=delimiter, decimal=given.decimal or _decimal(lines, delimiter))


def _delimiter(lines: Sequence[bytes], usual: str) -> str:
    """Return the separator under which most fields are numbers, among those that divide most lines as the first."""
    found = {each: _share(lines, each) for each in dict.fromkeys((usual, *_OTHERS))}
    possible = {each: share for each, share in found.items() if share is not None}
    if possible:
        return max(possible, key=lambda each: possible[each])
    blanks = lines and usual.encode() not in lines[0] and _share(lines, " ") is not None
    return " " if blanks else usual


def _share(lines: Sequence[bytes], delimiter: str) -> float | None:
    """Return the share of fields that are numbers; None if this is not what separates them."""
    if not lines or delimiter.encode() not in lines[0]:
        return None
    rows = [_fields(line, delimiter) for line in lines]
    width = len(rows[0])
    alike = [row for row in rows[1:] if len(row) == width]
    if width < 2 or 2 * len(alike) < len(rows) - 1:
        return None
    numbers = sum(_NUMBER.fullmatch(field.strip()) is not None for row in alike for field in row)
    return numbers / (width * max(len(rows) - 1, 1))


def _fields(line: bytes, delimiter: str) -> list[bytes]:
    """Return the fields of a line; none if its quotes do not match, or it is blank."""
    try:
        return [] if is_blank(line, delimiter) else fields_of(line, delimiter)
    except ValueError:
        return []


def _decimal(lines: Sequence[bytes], delimiter: str) -> str:
    """Return the decimal mark that more numbers show.

    "1,101" shows neither: with commas between fields it is taken for a group of digits, with other separators, which
    people choose whose decimal mark is the comma, for a fraction.
    """
    texts = [field.strip().decode("latin-1") for line in lines[1:] for field in _fields(line, delimiter)]
    points, commas = (sum(map(_shows(mark, other), texts)) for mark, other in ((".", ","), (",", ".")))
    if points == commas == 0 and delimiter == ";":
        group = re.compile(_GROUP % ",")
        return "," if any(map(group.fullmatch, texts)) else "."
    return "," if commas > points else "."


def _shows(mark: str, other: str) -> Callable[[str], bool]:
    """Return a function that returns True for a number with this decimal mark."""
    mark, other = re.escape(mark), re.escape(other)
    group, fraction = re.compile(_GROUP % mark), re.compile(_FRACTION % mark, re.IGNORECASE)
    both = re.compile(_BOTH % (other, mark))

    def shows(text: str) -> bool:
        return bool((fraction.fullmatch(text) and not group.fullmatch(text)) or both.fullmatch(text))

    return shows
