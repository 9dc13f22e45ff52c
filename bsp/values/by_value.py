"""Pickles by cloudpickle, which takes functions and classes of a script by value; their code keeps its file names.

Messages and tracebacks name the program's lines.  cloudpickle 3.1.3 and later write the file of a function that
travels by value as '<dynamic-code>'.
"""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import IO, Any

import cloudpickle

from bsp.errors import BspError, CannotSend


class ByValue(cloudpickle.Pickler):
    """A pickler of cloudpickle's that also writes the file names of code."""


def dump(value: Any, file: IO[bytes]) -> None:
    """Write the pickle of a value."""
    ByValue(file).dump(value)


def dumps(value: Any) -> bytes:
    """Return the pickle of a value."""
    out = io.BytesIO()
    dump(value, out)
    return out.getvalue()


def call_dumps(call: str, main: Callable[..., Any], args: tuple[Any, ...], pickled: Callable[[Any], bytes]) -> bytes:
    """Return the pickle of (main, args) by `pickled`.  Raises CannotSend, which names what has none, for `call`."""
    try:
        return pickled((main, args))
    except BspError as refused:
        refused.__traceback__ = None  # its message names the value; the frames of cloudpickle do not
        raise
    except Exception as wrong:
        for name, value in (*((f"argument {k + 1}", arg) for k, arg in enumerate(args)), ("the function", main)):
            try:
                pickled(value)
            except Exception:  # noqa: BLE001 - as above
                raise CannotSend(f"{call}: {name}, {type(value).__name__}, cannot be pickled ({wrong})") from None
        raise


def _reduced(code: CodeType) -> tuple[Any, ...]:
    """Return how to make code again: as cloudpickle does, with its file."""
    make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)[:2]
    return _made, (code.co_filename, make, args)


def _made(file: str, make: Callable[..., CodeType], args: tuple[Any, ...]) -> CodeType:
    return make(*args).replace(co_filename=file)


ByValue.dispatch_table = ChainMap({CodeType: _reduced}, cloudpickle.Pickler.dispatch_table)
