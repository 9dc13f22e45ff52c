"""The beginning of a text file: the names of its columns, and where its data begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bsp.arrays.files.lines.comments import without
from bsp.arrays.files.lines.fields import Fields, fields_of, is_blank, is_missing, is_number
from bsp.cost.units import counted

Chosen = int | str | Sequence[int | str] | None
BOM = b"\xef\xbb\xbf"


class Opening(NamedTuple):
    """The fields of a text file, the number of bytes and lines before its data, and what they are.

    head : the bytes before the data, of formats whose data are described there; else empty.
    named : whether the line before the data has names of columns.
    comments : how comments among the data are marked.
    end : the number of bytes before what follows the data; None: nothing does.
    """

    fields: Fields
    start: int
    lines: int
    head: bytes = b""
    named: bool = False
    comments: tuple[str, ...] = ()
    end: int | None = None


def opening_of(
    file: BinaryIO, delimiter: str | None, header: bool | str, dtype: Any, usecols: Chosen, skiprows: int,
    comments: tuple[str, ...] = (),
) -> Opening:  # fmt: skip
    """Read the first lines; return the number of fields, their names, and where the data begin."""
    start = lines = 0
    while True:
        line = file.readline()
        if not line:
            raise ValueError("it has no data: " + (counted(lines, "line") if lines else "it is empty"))
        text = line.removeprefix(BOM) if not lines else line
        bare = without(text, comments)
        if lines >= skiprows and not is_blank(bare, delimiter):
            break
        start, lines = start + len(line), lines + 1
    start += len(line) - len(text)
    try:
        first = fields_of(bare.rstrip(b"\r\n"), delimiter)
    except ValueError as wrong:
        raise ValueError(f"line {lines + 1}: {wrong}") from None
    if b"\0" in text:
        raise ValueError(
            f"line {lines + 1} has NUL characters: if it is UTF-16 without a byte-order mark, convert it, as with iconv"
        )
    wanted: Sequence[int | str] | None = [usecols] if isinstance(usecols, (int, np.integer, str)) else usecols
    by_name = wanted is not None and any(isinstance(each, str) for each in wanted)
    if header == "auto" and not by_name:
        used = [first[each] for each in _places(wanted, len(first), ())]
        header = not any(map(is_number, used)) and any(not is_missing(each) for each in used)
    if by_name and header is False:
        raise ValueError(f"usecols={usecols!r} names columns, but header=False: the file has no names")
    names = tuple(each.strip().decode("utf-8", "replace") for each in first) if header else ()
    columns = _places(wanted, len(first), names)
    if header:
        start, lines = start + len(text), lines + 1
    fields = Fields(delimiter, len(first), columns, names or tuple(f"c{k}" for k in range(len(first))), dtype)
    return Opening(fields, start, lines, named=bool(names), comments=comments)


def shortened(file: BinaryIO, opening: Opening, rows: int) -> Opening:
    """Return the opening of a file of which only the first rows are read."""
    file.seek(opening.start)
    while rows > 0 and (line := file.readline()):
        rows -= not is_blank(without(line, opening.comments), opening.fields.delimiter)
    return opening._replace(end=file.tell())


def _places(wanted: Sequence[int | str] | None, width: int, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers of the wanted columns."""
    found = []
    for each in range(width) if wanted is None else wanted:
        if isinstance(each, str):
            if each not in names:
                raise ValueError(f"usecols: there is no column {each!r}; there are {', '.join(names)}")
            places = [place for place, name in enumerate(names) if name == each]
            if len(places) > 1:
                numbered = ", ".join(map(str, places))
                raise ValueError(f"usecols: {len(places)} columns are named {each!r}: choose by number, {numbered}")
            found += places
        elif -width <= each < width:
            found.append(int(each) % width)
        else:
            raise ValueError(f"usecols: there is no column {each}; there are {width}")
    return tuple(found)
