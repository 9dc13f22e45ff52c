"""A base class for objects that represent a value without being one: misuse raises an error with the right call.

Without it, Python fails with a text that helps nobody, or does not fail at all: the truth of any object is true,
a comparison with one is false, and a loop over one calls `x[0]`, `x[1]`, ... for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


class NotAValue:
    """An object that refuses to be used as a number or an array.  `_advice(what)` returns the text of the TypeError."""

    __slots__ = ()
    __hash__ = object.__hash__

    def _advice(self, what: str) -> str:
        """Return the message for an attempted use `what`, an operator or conversion: what to write instead."""
        raise NotImplementedError


def _refusing(what: str) -> Callable[..., NoReturn]:
    """Return a method that raises TypeError with the advice for `what`."""

    def method(self: NotAValue, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(self._advice(what))

    return method


_CONVERSIONS = {
    "float": "float()", "int": "int()", "complex": "complex()", "index": "an index", "bool": "a condition",
    "iter": "a loop", "contains": "in", "len": "len()", "array": "np.asarray()",
    "neg": "-", "pos": "+", "abs": "abs()", "invert": "~", "round": "round()",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
IN_PLACE = tuple(f"{sign}=" for sign in _OPERATORS.values())

for _name, _what in _CONVERSIONS.items():
    setattr(NotAValue, f"__{_name}__", _refusing(_what))
for _name, _what in _OPERATORS.items():
    setattr(NotAValue, f"__{_name}__", _refusing(_what))
    setattr(NotAValue, f"__r{_name}__", _refusing(_what))
    setattr(NotAValue, f"__i{_name}__", _refusing(f"{_what}="))
