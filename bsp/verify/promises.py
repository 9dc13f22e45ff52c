"""Promises: SPMD functions that name their specification, for pytest and for `bsp verify`.

    @verify.spec(np.cumsum)
    def test_running_sums(proc, x):
        ...

Called without a process, as pytest calls it, the function checks itself.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bsp.errors import BspError
from bsp.source import traceback_of
from bsp.verify.equivalence import Equivalence, Program, equivalent


class Promise:
    """A program, its specification, and the options of its check."""

    def __init__(self, program: Program, specification: Callable[..., Any], options: dict[str, Any]) -> None:
        self.program, self.specification, self.options = program, specification, options

    def check(self) -> Equivalence:
        """Check the program; raise Counterexample if it breaks the promise."""
        return equivalent(self.program, self.specification, **self.options)


def spec(specification: Callable[..., Any], **options: Any) -> Callable[[Program], Program]:
    """Return a decorator that makes an SPMD function promise to compute what `specification` does.

    options : of `equivalent`.
    The function still runs as `function(proc, *parts)`; without arguments it checks itself, as pytest calls it.
    """

    def decorated(program: Program) -> Program:
        promise = Promise(program, specification, options)

        @functools.wraps(program)
        def promised(*args: Any) -> Any:
            return program(*args) if args else promise.check() and None

        del promised.__wrapped__  # pytest would ask for the program's arguments
        promised.promise = promise  # type: ignore[attr-defined]
        return promised

    return decorated


class NotImported(BspError):
    """A file with promises raises an exception when it is imported, or is no Python."""


def promises_of(path: str) -> dict[str, Promise]:
    """Return the promises of a Python file, by name, in the order of the file."""
    where = Path(path).resolve()
    made = importlib.util.spec_from_file_location(where.stem, where)
    if made is None or made.loader is None:
        raise FileNotFoundError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(made)
    sys.modules[made.name] = module
    sys.path.insert(0, str(where.parent))
    where.open().close()  # a file that is not there is another error than one that is not there for its imports
    try:
        made.loader.exec_module(module)
    except Exception as error:
        raise NotImported(f"{path} cannot be imported\n{traceback_of(error).rstrip()}") from error
    found = {name: getattr(value, "promise", None) for name, value in vars(module).items()}
    return {name: promise for name, promise in found.items() if isinstance(promise, Promise)}
