"""Numbers with units as text."""

from __future__ import annotations


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 superstep`, `2 supersteps`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def in_bytes(number: float) -> str:
    """Return a number of bytes as text: `12.3 MB`."""
    return _scaled(number, 1000.0, ("B", "KB", "MB", "GB", "TB", "PB"))


def in_words(number: float) -> str:
    """Return a number of words as text without the noun: `12.3 k`."""
    return _scaled(number, 1000.0, ("", "k", "M", "G", "T")).rstrip()


def in_seconds(number: float) -> str:
    """Return a number of seconds as text: `12.3 ms`, `2.5 min`."""
    if number >= 120:
        return f"{number / 60:.3g} min" if number < 7200 else f"{number / 3600:.3g} h"
    if number >= 1 or number == 0:
        return f"{number:.3g} s"
    return _scaled(number * 1e9, 1000.0, ("ns", "us", "ms", "s"))


def _scaled(number: float, step: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if abs(number) < step * 0.9995:
            return f"{number:.3g} {unit}"
        number /= step
    return f"{number:.3g} {units[-1]}"
