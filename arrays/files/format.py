"""The registry of file formats, by the endings of names.  Each module of this folder registers its formats.

To add one: a module here that calls `register` with its endings and functions.  `formats` imports all modules of the
folder; `load` and `save` then take the endings, and `bsp.arrays` has the functions under their own names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from bsp.arrays.files.columns import Columns
from bsp.arrays.files.lines.dialect import Dialect
from bsp.arrays.typing import PathLike

Function = Callable[..., Any]
Choose = Callable[[tuple[str, ...]], tuple[str, ...]]  # maps the names of all columns to the names to read


class TableRows(Protocol):
    """The interface of a table's reader: this process's rows, in columns of numbers and of texts.

    The rows of the table are those of all processes, in the order of the pids.
    """

    names: tuple[str, ...]  # of the columns that are read; known once `columns` has been called

    def columns(self, texts: set[int]) -> Columns:
        """Read the columns; those at the places `texts` as texts, others as numbers unless they hold text.

        Local: no process sends or waits here.  Raises ValueError or OSError, which the caller raises on all processes.
        """

    def place(self, row: int) -> str:
        """Return the position in the file of one of this process's rows, in words: "line 17"."""


Table = Callable[[PathLike, Choose, Dialect], TableRows]  # path, choose, how it is written


class Format(NamedTuple):
    """A file format: how to read and write it as arrays, and how to read it as a table; None where it cannot."""

    read: Function | None = None
    write: Function | None = None
    table: Table | None = None


FORMATS: dict[str, Format] = {}  # by ending, in lower case
FUNCTIONS: dict[str, Function] = {}  # by their names in `bsp.arrays`
OF_NUMPY: dict[Any, Function] = {}  # by function of NumPy: the function called instead


def register(
    *endings: str, read: Function | None = None, write: Function | None = None, table: Table | None = None,
    functions: tuple[Function, ...] = (), of_numpy: dict[Any, Function] | None = None,
) -> None:  # fmt: skip
    """Add a file format.

    endings : endings of names, such as ".h5"; `load` calls read(path, grid=, process_grid=, **options) for them, `save`
        write(path, x, **options).
    table : makes the `TableRows` of a file whose columns are numbers or texts, from (path, choose, dialect).  All
        processes call it; it may take supersteps.  Models of `bsp.algorithms.glm` then fit to such files.
    functions : functions to add to `bsp.arrays`, which also imports them by name for type checkers.
    of_numpy : by function of NumPy, the function that replaces it in calls with arrays.
    Raises ValueError if an ending or a name belongs to another format.
    """
    for ending in endings:
        if ending in FORMATS:
            raise ValueError(f"files that end in {ending} are read and written by {FORMATS[ending]} already")
    for each in functions:
        if each.__name__ in FUNCTIONS:
            raise ValueError(f"{each.__name__} is the name of another format's function")
    FORMATS.update(dict.fromkeys(endings, Format(read, write, table)))
    FUNCTIONS.update({each.__name__: each for each in functions})
    OF_NUMPY.update(of_numpy or {})
