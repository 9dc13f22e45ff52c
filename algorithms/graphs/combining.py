"""How values that reach one vertex become one: combiners, their identities, and the check that order does not matter.

A combiner is a binary ufunc that is associative and commutative: values are combined first at the sender, then at the
receiver, by processes.  NumPy's own are known to be so.  Of any other, also of np.frompyfunc, the program gives the
identity, and `bsprun --check` combines in a second order and compares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.graphs.errors import GraphError
from bsp.source import here

_IDENTITIES: dict[np.ufunc, Any] = {
    np.add: 0, np.multiply: 1, np.bitwise_or: 0, np.bitwise_xor: 0, np.bitwise_and: -1, np.logical_or: False,
    np.logical_and: True, np.logical_xor: False,
}  # fmt: skip
_LEAST, _MOST = (np.minimum, np.fmin), (np.maximum, np.fmax)
_ROUNDING = 1e-12  # by which sums of few values in two orders may differ, relative to the sum of magnitudes


class Combiner:
    """A ufunc that combines values of one dtype, and its identity.

    given : the identity, of a ufunc that NumPy does not have.
    checked : whether each result is compared with that of another order.
    Raises GraphError if there is no identity.
    """

    def __init__(self, ufunc: np.ufunc, dtype: np.dtype[Any], given: Any, checked: bool) -> None:
        self.ufunc, self.dtype = ufunc, dtype
        self.known = ufunc in _IDENTITIES or ufunc in _LEAST or ufunc in _MOST
        self.identity = _identity(ufunc, dtype) if given is None else given
        self.checked = checked and not self.known
        self.objects = ufunc.types == ["OO->O"]  # np.frompyfunc's work on objects only

    def empty(self, length: int) -> np.ndarray:
        """Return a vector of identities."""
        return np.full(length, self.identity, self.dtype)

    def by_groups(self, values: np.ndarray, begins: np.ndarray) -> np.ndarray:
        """Return the values combined in consecutive groups, of which none is empty."""
        found = self._reduced(values, begins)
        if self.checked and len(begins):
            ends = np.append(begins[1:], len(values))
            other = self._reduced(values[::-1], (len(values) - ends)[::-1])[::-1]
            other = np.asarray(self.ufunc(np.full(len(other), self.identity, self.dtype), other)).astype(self.dtype)
            alike = found == other
            if self.dtype.kind in "fc":
                with np.errstate(all="ignore"):
                    alike |= abs(found - other) <= _ROUNDING * np.add.reduceat(abs(values), begins)
            if not alike.all():
                raise GraphError(
                    f"send at {here()}: the combiner {self.ufunc.__name__} depends on the order: the same values gave "
                    f"{found[~alike][0]} and {other[~alike][0]}; it must be associative and "
                    f"commutative, and leave a value as it is when combined with {self.identity!r}"
                )
        return found

    def into(self, found: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
        """Combine values into the places `at` of a vector, of which some may be the same."""
        if self.known:
            self.ufunc.at(found, at, values)
            return
        order = np.argsort(at, kind="stable")
        places = at[order]
        begins = np.flatnonzero(np.concatenate([np.ones(min(1, len(places)), bool), places[1:] != places[:-1]]))
        if len(begins):
            self.merge(found, places[begins], self.by_groups(values[order], begins))

    def merge(self, found: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
        """Combine values into places of a vector, of which each is another."""
        found[at] = self.ufunc(found[at], values)

    def _reduced(self, values: np.ndarray, begins: np.ndarray) -> np.ndarray:
        if self.objects:
            return np.asarray(self.ufunc.reduceat(values.astype(object), begins)).astype(self.dtype)
        return np.asarray(self.ufunc.reduceat(values, begins))


def _identity(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Return the value that one of NumPy's combiners leaves as it is."""
    if ufunc in _LEAST or ufunc in _MOST:
        most = ufunc in _MOST
        if dtype.kind == "b":
            return not most
        if dtype.kind in "iu":
            return np.iinfo(dtype).min if most else np.iinfo(dtype).max
        return -np.inf if most else np.inf
    if ufunc not in _IDENTITIES:
        known = ", ".join(each.__name__ for each in (*_IDENTITIES, *_LEAST, *_MOST))
        raise GraphError(
            f"send: the identity of {ufunc.__name__} is not known: pass identity=, a value that it leaves as it is, or "
            f"take one of {known}"
        )
    return np.array(_IDENTITIES[ufunc]).astype(dtype)[()]
