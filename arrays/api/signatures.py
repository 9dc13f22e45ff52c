"""Adapters by which functions with the array API standard's signatures accept calls written for NumPy's.

The standard names parameters otherwise than NumPy (`x` for `a`, `x1, x2` for `a, v`) and makes many of them
positional-only or keyword-only, so `np.roll(a=A, shift=1)` and `np.searchsorted(a=A, v=B)` are no calls of these
functions as they are written.  `numpys` reads NumPy's signature once, matches its parameters with those of the function
by name, else by position, and then passes each argument on.  Calls by the standard's signature work as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from inspect import Parameter, Signature, signature
from typing import Any

import numpy as np

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
# arguments about one process's memory: the order of a result, or what may be overwritten; they have no effect here
_MEMORY = frozenset({"subok", "overwrite_input", "order", "like", "copy"})
_ORDERS = tuple("CFAKcfak")
_NO_VALUE: Any = getattr(np, "_NoValue", object())  # NumPy's default of arguments that were not given


def signature_of(function: Any) -> Signature | None:
    """Return the signature, or None: before 2.4, NumPy's functions that are written in C have none."""
    try:
        return signature(function)
    except (TypeError, ValueError):
        return None


def checked_order(order: Any) -> bool:
    """Return True; raises NumPy's ValueError for anything but the orders of elements in memory."""
    if order is not None and str(order) not in _ORDERS:
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return True


class NotTakenError(TypeError):
    """An argument that NumPy's function takes, and ours does not."""


class Binding:
    """A mapping of arguments of one signature (`theirs`) to those of a function with another (`ours`)."""

    def __init__(self, ours: Callable[..., Any], theirs: Signature, name: str) -> None:
        self.ours = ours
        self.theirs = theirs
        self.name = name
        own = list(signature(ours).parameters.values())
        self._own = {each.name: each for each in own}
        self._places = [each.name for each in own if each.kind in _POSITIONAL]
        self._target = self._matched(list(theirs.parameters.values()))
        self.plain = self._plain(list(theirs.parameters))
        self.by_name = frozenset(
            each for each, target in self._target.items() if each == target and self._own[target].kind in _NAMED
        )
        self.extra = frozenset(each.name for each in own if each.kind in _NAMED) - set(theirs.parameters)

    def _matched(self, theirs: list[Parameter]) -> dict[str, str]:
        """Return for each parameter of `theirs` the one of `ours`: of the same name, else at its place, else none."""
        given = {each.name for each in theirs}
        found = {}
        for k, each in enumerate(theirs):
            if each.name in self._own and self._own[each.name].kind in (*_POSITIONAL, Parameter.KEYWORD_ONLY):
                found[each.name] = each.name
            elif each.kind in _POSITIONAL and k < len(self._places) and self._places[k] not in given:
                found[each.name] = self._places[k]
        return found

    def _plain(self, theirs: list[str]) -> int:
        """Return how many leading positional arguments `ours` takes as they are."""
        count = 0
        for mine, other in zip(self._places, theirs, strict=False):
            if self._target.get(other) != mine:
                break
            count += 1
        return count

    @property
    def trivial(self) -> bool:
        """True if every call of `theirs` is a call of `ours` already."""
        for k, each in enumerate(self.theirs.parameters.values()):
            if each.kind not in _POSITIONAL and each.kind is not Parameter.KEYWORD_ONLY:
                continue
            if each.kind in _POSITIONAL and k >= self.plain:
                return False
            if each.kind in _NAMED and each.name not in self.by_name:
                return False
        return True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call `ours` with arguments written for either signature."""
        if (
            len(args) <= self.plain
            and all(each is not _NO_VALUE for each in args)
            and (
                not kwargs
                or (self.by_name.issuperset(kwargs) and all(each is not _NO_VALUE for each in kwargs.values()))
            )
        ):
            return self.ours(*args, **kwargs)
        extra = {name: kwargs.pop(name) for name in self.extra.intersection(kwargs)}
        bound = None
        with suppress(TypeError):  # not by NumPy's signature
            bound = self.theirs.bind(*args, **kwargs)
        if bound is None:  # by the standard's, or a mistake: the error of `ours` is raised here, without a context
            return self.ours(*args, **kwargs, **extra)
        return self._called(bound.arguments, extra)

    def _called(self, given: dict[str, Any], named: dict[str, Any]) -> Any:
        places: dict[str, Any] = {}
        spread: tuple[Any, ...] = ()
        out = None
        for name, value in given.items():
            parameter = self.theirs.parameters[name]
            if parameter.kind is Parameter.VAR_POSITIONAL:
                spread = value
            elif parameter.kind is Parameter.VAR_KEYWORD:
                named.update(value)
            elif value is _NO_VALUE:
                continue
            elif name not in self._target:
                if name == "out":
                    out = value
                elif name == "order" and checked_order(value):
                    continue
                elif not self._may_go(parameter, value):
                    raise NotTakenError(f"{self.name}: distributed arrays take no {name}={value!r:.40}")
            elif self._own[self._target[name]].kind is Parameter.KEYWORD_ONLY:
                named[self._target[name]] = value
            else:
                places[self._target[name]] = value
        args: list[Any] = []
        for mine in self._places:
            if mine not in places:
                break
            args.append(places.pop(mine))
        found = self.ours(*args, *spread, **places, **named)
        return found if out is None else _stored(found, out, self.name)

    def _may_go(self, parameter: Parameter, value: Any) -> bool:
        """Return True if an argument that `ours` does not take may be dropped, because it changes nothing."""
        if parameter.name in _MEMORY or value is parameter.default:
            return True
        return isinstance(value, (bool, int, float, str, tuple)) and bool(value == parameter.default)


def _stored(found: Any, out: Any, name: str) -> Any:
    from bsp.arrays.api.ufuncs import stored  # here, because that module imports this one

    if isinstance(found, tuple):
        return tuple(stored(each, target, name=name) for each, target in zip(found, out, strict=True))
    return stored(found, out[0] if isinstance(out, tuple) else out, name=name)


def numpys(ours: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """Wrap `ours` so that it also takes the arguments of NumPy's function `theirs`; return it unchanged if it does."""
    given = theirs if isinstance(theirs, Signature) else signature_of(theirs)
    if given is None:
        return ours
    binding = Binding(ours, given, getattr(theirs, "__name__", ours.__name__))
    if binding.trivial:
        return ours

    @functools.wraps(ours)
    def function(*args: Any, **kwargs: Any) -> Any:
        return binding.call(*args, **kwargs)

    return function
