"""Numbers of the lines or rows that a process reads, and the places of mistakes in them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from bsp.arrays.errors import PlanTooLarge
from bsp.arrays.execution.world import world
from bsp.arrays.files.columns import line_of, numbers_of
from bsp.arrays.files.lines.division import TextLines
from bsp.arrays.files.lines.fields import BadLine
from bsp.arrays.files.parquet import ParquetRows
from bsp.arrays.typing import PathLike
from bsp.cost.units import in_bytes

EXACT = 1 << 53  # floats hold all integers below it
_PIECE = 1 << 22  # bytes of text that are parsed at a time
_RUNS = (b"  ", b" \n", b"\n ", b"\t", b"\r", b"\v", b"\f", b'"')  # text without them is read faster

Place = Callable[[int], str]  # names the line, or the row, of a row of a table


def without(text: bytes, comments: str | None) -> bytes:
    """Return text without what follows a mark of comments on each line; the lines stay."""
    if comments is None or (mark := comments.encode()) not in text:
        return text
    lines = text.split(b"\n")
    return b"\n".join([line.partition(mark)[0] for line in lines])


def pieces(own: TextLines, comments: str | None) -> Iterator[bytes]:
    """Yield a process's text in pieces of whole lines, without comments."""
    rest = b""
    with own.stream() as stream:
        while part := stream.read(_PIECE):
            end = part.rfind(b"\n") + 1
            if end:
                yield without(rest + part[:end], comments)
            rest = part[end:] if end else rest + part
    if rest:
        yield without(rest, comments)


def table_of(
    own: TextLines, comments: str | None, rewritten: Callable[[bytes], bytes] = bytes
) -> tuple[np.ndarray, Place]:
    """Return the numbers of this process's lines, (lines, columns), and a function that names the line of a row.

    rewritten : returns whole lines as they are to be read.
    """
    fields, lines = own.opening.fields, 0
    parts = [np.empty((0, len(fields.columns)), fields.dtype)]
    for piece in map(rewritten, pieces(own, comments)):
        single = fields.delimiter is None and piece[:1] != b" " and not any(mark in piece for mark in _RUNS)
        found = fields._replace(delimiter=" ") if single else fields
        try:
            parts.append(numbers_of(own._replace(stream=partial(io.BytesIO, piece)), found))
        except BadLine as bad:
            raise ValueError(f"line {own.before() + lines + bad.index + 1}: {bad.text}") from None
        lines += piece.count(b"\n")

    def place(row: int) -> str:
        text = b"".join(pieces(own, comments))
        return f"line {own.before() + line_of(row, text, fields.delimiter) + 1}"

    return np.concatenate(parts), place


def indices_of(table: np.ndarray, k: int, base: int, length: int, place: Place, name: str) -> np.ndarray:
    """Return a column of a table as indices counted from 0; ValueError if one is none or out of range.

    name : of the column, for messages.
    Of a table of floats, indices from 2^53 on are out of range: they may have been rounded.
    """
    given = table[:, k]
    if given.dtype.kind == "f":
        length = min(length, EXACT - base)
    with np.errstate(invalid="ignore"):
        found = given.astype(np.int64)
    wrong = np.flatnonzero((found != given) | (found < base) | (found >= base + length))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"{place(at)}: {name} {given[at]:.16g} is none of {base} to {base + length - 1}")
    return found - base


def table_of_parquet(path: PathLike, chosen: Sequence[int | str]) -> tuple[np.ndarray, Place]:
    """Return the numbers of this process's rows of a Parquet file, and a function that names a row."""

    def choose(names: tuple[str, ...]) -> tuple[str, ...]:
        for each in chosen:
            if each not in names if isinstance(each, str) else not -len(names) <= each < len(names):
                raise ValueError(f"there is no column {each!r}; there are {', '.join(names)}")
        return tuple(each if isinstance(each, str) else names[each] for each in chosen)

    rows = ParquetRows(path, choose)
    found = rows.columns(set())
    for name, levels in zip(rows.names, found.levels, strict=True):
        if levels is not None:
            raise ValueError(f"column {name!r} has texts, no numbers")
    parts = [np.stack(chunk, axis=1) for chunk in found.chunks]
    return np.concatenate([np.empty((0, len(chosen))), *parts]), rows.place


def check_fits(call: str, rows: int, entries: int, dtype: np.dtype[Any]) -> None:
    """Raise PlanTooLarge if a process's share of rows, and of entries as triples and as rows, exceeds its memory."""
    here = world()
    needed = -(-entries // here.nprocs) * (16 + dtype.itemsize + 4 + dtype.itemsize) + -(-rows // here.nprocs) * 16
    if here.memory and needed > here.memory:
        raise PlanTooLarge(
            f"{call} needs {in_bytes(needed)} on each process for {rows} rows with {entries} entries, limit "
            f"{in_bytes(here.memory)}; take more processes"
        )
