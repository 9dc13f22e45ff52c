"""What can be wrong with data that a model is to be fitted to, and how all processes hear of it together."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from bsp.arrays.execution.world import world
from bsp.errors import BspError


class DataError(BspError, ValueError):
    """Data that the model cannot be fitted to, or applied to; the same error on every process."""


class NotFittedError(ValueError, AttributeError):
    """A model that is asked for what only `fit` can tell."""


def agreed(work: Callable[[], Any]) -> list[Any]:
    """work() on every process, and what each returned, by pid; it has no boundaries of its own.

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
    """That there is no such column, and which may have been meant."""
    near = get_close_matches(name, names, 1, 0.5) or [each for each in names if each.lower() == name.lower()]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no column {name!r}{hint} (there are {', '.join(names)})"
