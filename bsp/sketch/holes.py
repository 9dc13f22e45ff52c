"""Holes: what a sketch leaves open.  They have a meaning inside a function that `complete` is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


class NotCompleted(RuntimeError):
    """A hole was run as it is: the sketch has to be completed first."""


def _open(name: str) -> NotCompleted:
    return NotCompleted(f"{name}(...) is a hole: bsp.sketch.complete fills it")


def hole(values: Iterable[int]) -> Any:
    """Stand for one of some constants, the same in all runs: hole(range(3))."""
    raise _open("hole")


def choose(*expressions: object) -> Any:
    """Stand for one of the expressions; the others are not evaluated."""
    raise _open("choose")


def expr(operands: Sequence[object], operators: str, depth: int = 1) -> Any:
    """Stand for an expression over some operands: expr((a, b, 2), "+*", 2).

    operators : of + - * / and %, where / divides integers without remainder (//).
    depth : of the expression; 0 is an operand alone, and a subexpression is never deeper than depth - 1.
    """
    raise _open("expr")


def repeat(most: int) -> Iterable[int]:
    """Stand, in `for _ in repeat(3): ...`, for the least number of times, each time with holes of its own."""
    raise _open("repeat")


def generator(function: _Function) -> _Function:
    """Make a function of one return statement a generator: each of its calls in a sketch has holes of its own.

    It may call itself inside `choose`, to a bounded depth.
    """
    function.__bsp_generator__ = True  # type: ignore[attr-defined]
    return function
