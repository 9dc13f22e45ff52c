"""Polynomials with exact coefficients, as values of programs: what holds for them holds for all numbers.

A program that adds, subtracts and multiplies its inputs, and decides nothing by them, computes polynomials.  Run on
unknowns it gives their normal forms; if these are those of the specification, both agree on every input of that size.
A comparison of unknowns, or any function that is no polynomial, raises `NeedsValue`.
"""

from __future__ import annotations

from fractions import Fraction
from numbers import Number, Rational
from typing import Any

import numpy as np

_Monomial = tuple[tuple[str, int], ...]  # unknowns and their powers, by name


class NeedsValue(TypeError):
    """The program needs a number where it has an unknown: it decides by it, or computes what is no polynomial.

    raised : how many there have been, by which one that a program catches is found.
    """

    raised = 0

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        NeedsValue.raised += 1


class Polynomial:
    """A polynomial of unknowns.  `Polynomial.unknown("x0")` is one of them."""

    __slots__ = ("_terms",)

    def __init__(self, terms: dict[_Monomial, Any] | None = None) -> None:
        self._terms = {} if terms is None else terms

    @classmethod
    def unknown(cls, name: str) -> Polynomial:
        """Return the polynomial that is one unknown."""
        return cls({((name, 1),): 1})

    @staticmethod
    def _of(value: Any) -> Polynomial | None:
        if isinstance(value, Polynomial):
            return value
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Rational, np.integer)):
            return None
        number = int(value) if isinstance(value, (int, np.integer)) else Fraction(value)
        return Polynomial({(): number} if number else {})

    def __add__(self, other: Any) -> Polynomial:
        right = self._of(other)
        if right is None:
            return NotImplemented
        found = dict(self._terms)
        for monomial, factor in right._terms.items():
            total = found.get(monomial, 0) + factor
            if total:
                found[monomial] = total
            else:
                found.pop(monomial, None)
        return Polynomial(found)

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -factor for monomial, factor in self._terms.items()})

    def __pos__(self) -> Polynomial:
        return self

    def __sub__(self, other: Any) -> Polynomial:
        right = self._of(other)
        if right is None:
            return NotImplemented
        return self + -right

    def __rsub__(self, other: Any) -> Polynomial:
        found: Polynomial = -self + other
        return found

    def __mul__(self, other: Any) -> Polynomial:
        right = self._of(other)
        if right is None:
            return NotImplemented
        found = Polynomial()
        for a, factor in self._terms.items():
            found += Polynomial({_product(a, b): factor * other_factor for b, other_factor in right._terms.items()})
        return found

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Polynomial:
        if not isinstance(power, (int, np.integer)) or power < 0:
            raise NeedsValue(f"{self} ** {power!r} is no polynomial")
        found = Polynomial({(): 1})
        for _ in range(int(power)):
            found *= self
        return found

    def __truediv__(self, other: Any) -> Polynomial:
        if isinstance(other, (int, Fraction, np.integer)) and other:
            return self * Fraction(1, int(other) if isinstance(other, np.integer) else other)
        raise NeedsValue(f"{self} / {other} is no polynomial")

    def conjugate(self) -> Polynomial:
        """Return the polynomial: its unknowns are real."""
        return self

    def __eq__(self, other: object) -> bool:
        """Return whether both are equal: for all values of the unknowns, or for none; else raise NeedsValue."""
        if not isinstance(other, (Polynomial, Number, np.bool_)):
            return NotImplemented
        right = self._of(other)
        rest = self if right is None else self - right  # None: of a float, or a truth value
        if any(rest._terms):
            raise NeedsValue(f"the program decides by whether {self} == {other}")
        value = rest._terms.get((), 0)
        return bool(value == other) if right is None else not value

    def __hash__(self) -> int:
        """Return the hash of a constant; NeedsValue for others, since sets and keys compare values."""
        if any(self._terms):
            raise NeedsValue(f"the program decides by the value of {self}")
        return hash(self._terms.get((), 0))

    def _undecided(self, *_: Any) -> Any:
        raise NeedsValue(f"the program decides by the value of {self}")

    __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = __abs__ = __floordiv__ = __mod__ = _undecided

    def __bool__(self) -> bool:
        if any(self._terms):
            raise NeedsValue(f"the program decides by the value of {self}")
        return bool(self._terms)

    def __repr__(self) -> str:
        def written(monomial: _Monomial, factor: Any) -> str:
            powers = "*".join(name if power == 1 else f"{name}**{power}" for name, power in monomial)
            return powers if factor == 1 and powers else f"{factor}*{powers}" if powers else str(factor)

        return " + ".join(written(monomial, factor) for monomial, factor in sorted(self._terms.items())) or "0"


def _product(a: _Monomial, b: _Monomial) -> _Monomial:
    powers = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def unknowns(shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return an array of unknowns, named by their places."""
    found = np.empty(shape, object)
    for at in np.ndindex(*shape):
        found[at] = Polynomial.unknown(f"{name}[{','.join(map(str, at))}]" if at else name)
    return found
