"""Files that a program has written to and not closed: what it wrote must be in them when it has ended.

Python's own end closes the files that only `__main__` refers to.  The processes' modules of that name are not in
`sys.modules` then, and a worker of a nonstop job ends without Python's own end.
"""

from __future__ import annotations

import contextlib
import gc
import io
import sys
from collections.abc import Iterator

_FILE: type = io.IOBase.__mro__[1]  # the class that those of all files derive from, in C and in Python


def flush_files() -> None:
    """Flush all open files of this interpreter, standard output and error included.  Errors are ignored, as at exit."""
    kinds = set(_with_subclasses(_FILE))
    for file in [sys.stdout, sys.stderr, *(each for each in gc.get_objects() if type(each) in kinds)]:
        with contextlib.suppress(Exception):  # it is closed, its disk is full, its reader is gone, its class is wrong
            file.flush()


def _with_subclasses(base: type) -> Iterator[type]:
    """Yield a class and all that derive from it."""
    yield base
    subclasses: list[type] = type.__subclasses__(base)
    for each in subclasses:
        yield from _with_subclasses(each)
