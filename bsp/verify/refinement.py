"""Refinement: a class against a sequential twin, each public method alone, from every small state (Xu, chapter 7).

A state is boxed, from plain values to an object of either class, and unboxed back.  If from every state each method
leads both to the same plain values, and boxing and unboxing lose nothing, no sequence of calls can tell them apart
(theorem 7.3.3).  `invariant` is checked on every object, so a broken invariant is found at the method that breaks it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bsp.verify.cases import Case
from bsp.verify.equivalence import Counterexample


def refines(
    ours: type, twin: type, *, box: tuple[Callable[..., Any], Callable[..., Any]],
    unbox: tuple[Callable[[Any], Any], Callable[[Any], Any]], states: Iterable[Any],
    calls: Mapping[str, Sequence[tuple[Any, ...]]] | None = None, invariant: Callable[[Any], bool] | None = None,
    same: Callable[[Any, Any], bool] | None = None,
) -> int:  # fmt: skip
    """Check that each public method of `ours` does what that of `twin` does; return the number of calls compared.

    box : makes an object of each class of a state.  unbox : the plain values of an object of each class.
    states : the states to start from; each object is boxed from a copy of its own, and each call has its own arguments.
    calls : the arguments to call each method with, by name; by default all public methods that take no arguments.
    invariant : of objects of `ours`.
    same : whether two plain values are the same; by default as NumPy compares arrays, exactly.
    Raises Counterexample naming the method, the state and the arguments.  An exception of a method counts as its
    result: both must raise the same type.  Raises ValueError if there is no call to compare.
    """
    equal = same or _equal
    methods = dict(calls) if calls is not None else {name: [()] for name in _without_arguments(twin)}
    compared = 0
    for state in states:
        one, other = (each(copy.deepcopy(state)) for each in box)
        _kept(ours, one, unbox[0], invariant, state, "box", (), equal, unbox[1](other))
        for name, every in methods.items():
            for args in every:
                objects = [each(copy.deepcopy(state)) for each in box]
                results = [_called(one, name, copy.deepcopy(args)) for one in objects]
                where = f"{ours.__name__}.{name}{args!r} from the state {state!r}"
                mine, theirs = (_plain(result, unbox, k) for k, result in enumerate(results))
                if not equal(mine, theirs):
                    raise Counterexample(f"{where}: {mine!r}, but {twin.__name__} gives {theirs!r}", Case({}, 1),
                                         [state, args], mine, theirs)  # fmt: skip
                _kept(ours, objects[0], unbox[0], invariant, state, name, args, equal, unbox[1](objects[1]))
                compared += 1
    if not compared:
        raise ValueError(f"refines: there is nothing to compare {ours.__name__} for: give states, and calls of methods")
    return compared


def _without_arguments(twin: type) -> list[str]:
    found = []
    for name, method in inspect.getmembers(twin, callable):
        if name.startswith("_"):
            continue
        try:
            needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        except ValueError:
            continue
        if len(needed) <= 1:
            found.append(name)
    return found


def _called(one: Any, name: str, args: tuple[Any, ...]) -> Any:
    try:
        return getattr(one, name)(*args)
    except Exception as error:  # noqa: BLE001 - what both raise is compared
        return type(error)


def _plain(result: Any, unbox: Sequence[Callable[[Any], Any]], which: int) -> Any:
    """Return the plain values of a result: of an object of the classes compared its unboxed state, else itself."""
    try:
        return unbox[which](result)
    except (AttributeError, TypeError, ValueError):
        return result


def _kept(
    ours: type, one: Any, unbox: Callable[[Any], Any], invariant: Callable[[Any], bool] | None, state: Any, name: str,
    args: tuple[Any, ...], equal: Callable[[Any, Any], bool], wanted: Any,
) -> None:  # fmt: skip
    """Check an object after a call: its invariant holds, and its state is the twin's."""
    where = f"{ours.__name__}.{name}{args!r} from the state {state!r}"
    if invariant is not None and not invariant(one):
        raise Counterexample(f"{where} breaks the invariant: {unbox(one)!r}", Case({}, 1), [state, args], one, None)
    after = unbox(one)
    if not equal(after, wanted):
        raise Counterexample(
            f"{where} leaves {after!r}, but the twin has {wanted!r}", Case({}, 1), [state, args], after, wanted
        )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return x.shape == y.shape and x.dtype == y.dtype and bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))
    return type(a) is type(b) and bool(a == b or (a != a and b != b))
