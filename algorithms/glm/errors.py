"""Errors of data that a model cannot be fitted to, raised alike on all processes."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from bsp.arrays.procedures import world
from bsp.errors import BspError


class DataError(BspError, ValueError):
    """Data that the model cannot be fitted to, or applied to; the same error on every process."""


class NotFittedError(ValueError, AttributeError):
    """Raised by a model that has not been fitted."""


def agreed(work: Callable[[], Any]) -> list[Any]:
    """Run work() on every process and return all results, by pid; it has no boundaries of its own.  Collective.

    Cost: one superstep, h = p - 1 times what is returned.
    Raises the error of the lowest process that had one, on all of them, so none waits for one that failed; DataError if
    what was noted of arrays, which every process is given whole, differs.
    """
    wrong: Exception | None = None
    told = None
    try:
        told = work()
    except (ValueError, TypeError, OSError) as error:
        wrong = error
    answers = world().private.allgather((wrong, told, world().given()))
    for failure, _, _ in answers:
        if failure is not None:
            raise failure from None
    differs = next((pid for pid, (*_, given) in enumerate(answers) if given != answers[0][2]), None)
    if differs is not None:
        raise DataError(
            f"processes 0 and {differs} were given different data: arrays of NumPy, matrices of scipy and data frames "
            "are whole, the same on every process; bsp.arrays.from_local(rows) makes one array of what each process has"
        )
    return [answer for _, answer, _ in answers]


def no_column(name: str, names: tuple[str, ...]) -> str:
    """Return a message that there is no such column, with the one that may have been meant."""
    near = get_close_matches(name, names, 1, 0.5) or [each for each in names if each.lower() == name.lower()]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no column {name!r}{hint} (there are {', '.join(names)})"
