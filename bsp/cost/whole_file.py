"""Files that are written completely or not at all."""

from __future__ import annotations

import os


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file completely or not at all.  A pipe or a device is written to directly."""
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
