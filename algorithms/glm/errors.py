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
    Raises the error of the lowest process that had one, on all of them, so none waits for one that failed.
    """
    wrong: Exception | None = None
    told = None
    try:
        told = work()
    except (ValueError, TypeError, OSError) as error:
        wrong = error
    answers = world().private.allgather((wrong, told))
    for failure, _ in answers:
        if failure is not None:
            raise failure from None
    return [answer for _, answer in answers]


def no_column(name: str, names: tuple[str, ...]) -> str:
    """Return a message that there is no such column, with the one that may have been meant."""
    near = get_close_matches(name, names, 1, 0.5) or [each for each in names if each.lower() == name.lower()]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no column {name!r}{hint} (there are {', '.join(names)})"
