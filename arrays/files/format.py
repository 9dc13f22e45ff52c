"""File formats by what a name ends in.  Each module of this folder registers the formats that it has.

To add one: a module here that calls `register` with its endings and functions.  `formats` imports all modules of the
folder; `load` and `save` then take the endings, and `bsp.arrays` has the functions under their own names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Function = Callable[..., Any]


class Format(NamedTuple):
    """A file format: its ending, its reader, and its writer if there is one."""

    read: Function | None
    write: Function | None


FORMATS: dict[str, Format] = {}  # by ending, in small letters
FUNCTIONS: dict[str, Function] = {}  # names of `bsp.arrays`
OF_NUMPY: dict[Any, Function] = {}  # functions of NumPy, and what takes their place
METHODS: dict[str, Function] = {}  # of arrays


def register(
    *endings: str, read: Function | None = None, write: Function | None = None, functions: tuple[Function, ...] = (),
    of_numpy: dict[Any, Function] | None = None, methods: tuple[Function, ...] = (),
) -> None:  # fmt: skip
    """Add a format.

    endings : of names, as ".h5"; `load` calls read(path, grid=, process_grid=, **options), `save` write(path, x,
        **options).
    functions, methods : that `bsp.arrays` and its arrays have by their names.   of_numpy : what replaces functions of
        NumPy that are called with arrays.
    Raises ValueError if an ending or a name is another format's.
    """
    for ending in endings:
        if ending in FORMATS:
            raise ValueError(f"files that end in {ending} are read and written by {FORMATS[ending]} already")
    for found, known in ((functions, FUNCTIONS), (methods, METHODS)):
        for each in found:
            if each.__name__ in known:
                raise ValueError(f"{each.__name__} is the name of another format's function")
    FORMATS.update(dict.fromkeys(endings, Format(read, write)))
    FUNCTIONS.update({each.__name__: each for each in functions})
    METHODS.update({each.__name__: each for each in methods})
    OF_NUMPY.update(of_numpy or {})
