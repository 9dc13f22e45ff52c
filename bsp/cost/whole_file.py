"""Files that are written whole or not at all."""

from __future__ import annotations

import os


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """A file, whole or not at all; what is no regular file (a pipe, a device) is written to as it is."""
    if os.path.exists(path) and not os.path.isfile(path):  # no place to rename to
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    target = os.path.realpath(path)  # a link stays one
    partial = f"{target}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
