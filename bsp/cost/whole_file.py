"""Files that are written completely or not at all."""

from __future__ import annotations

import os


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file completely or not at all.  A pipe or a device is written to directly.

    Raises OSError with the file's name, also if its disk is full (Python names no file then).
    """
    try:
        _write(text, path)
    except OSError as wrong:
        wrong.filename = os.fspath(path)
        raise


def _write(text: str, path: str | os.PathLike[str]) -> None:
    if os.path.exists(path) and not os.path.isfile(path):  # cannot be replaced by a renamed file
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    target = os.path.realpath(path)  # a symbolic link stays a link
    partial = f"{target}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def why_not(path: str | os.PathLike[str]) -> str:
    """Return why a file cannot be written there; empty if it can."""
    try:
        if os.path.exists(path):
            with open(path, "a"):
                return ""
        with open(path, "x"):
            pass
        os.unlink(path)
    except OSError as wrong:
        return wrong.strerror or str(wrong)
    return ""


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths are one file; a pipe or a device may be written to twice."""
    if os.path.exists(one) and not os.path.isfile(one):
        return False
    return os.path.realpath(one) == os.path.realpath(other)
