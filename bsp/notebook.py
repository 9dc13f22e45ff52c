"""IPython, where this interpreter runs in it: its shell, tracebacks without internal frames, lines and pictures.

Nothing here imports IPython: it is used if the program that runs here has imported it.
"""

from __future__ import annotations

import base64
import linecache
import os
import sys
from typing import Any

from bsp.errors import BspError
from bsp.source import without_ours


def shell() -> Any:
    """Return IPython's shell if this interpreter runs in one, else None."""
    ipython = sys.modules.get("IPython")
    get = getattr(ipython, "get_ipython", None)
    return None if get is None else get()


def rendered(error: BaseException) -> list[str]:
    """Return the traceback of an exception as IPython prints it, without the frames of this package.

    IPython calls the method `_render_traceback_` of an exception that has one.
    """
    lines: list[str] = shell().InteractiveTB.structured_traceback(type(error), error, without_ours(error, True))
    return lines


def hide_ours(error: BaseException) -> None:
    """Take the frames of this package out of the traceback of an error, and out of what IPython prints."""
    error.__traceback__ = without_ours(error, isinstance(error, BspError | KeyboardInterrupt))
    if shell() is not None and not hasattr(error, "_render_traceback_"):
        error._render_traceback_ = lambda: rendered(error)  # type: ignore[attr-defined]


def render_as_it_is(error: BaseException) -> None:
    """Make IPython print an exception with the frames that its traceback has now, and none of those that follow."""
    shown = error.__traceback__

    def render() -> list[str]:
        lines: list[str] = shell().InteractiveTB.structured_traceback(type(error), error, shown, tb_offset=0)
        return lines

    error._render_traceback_ = render  # type: ignore[attr-defined]


def cell_names() -> dict[str, str]:
    """Return the names of the notebook's cells, such as `In[3]`, by the files that their code objects name."""
    numbers = getattr(getattr(shell(), "compile", None), "_filename_map", {})
    return {file: f"In[{number}]" for file, number in numbers.items()}


def cell_lines() -> dict[str, tuple[int, None, list[str], str]]:
    """Return the entries of linecache for the notebook's cells, with which tracebacks elsewhere show their lines."""
    known = {file: linecache.getlines(file) for file in cell_names()}
    return {file: (sum(map(len, lines)), None, lines, file) for file, lines in known.items()}


def is_notebook() -> bool:
    """Return whether this interpreter is the kernel of a notebook."""
    return getattr(shell(), "kernel", None) is not None


def publish(data: dict[str, Any], metadata: dict[str, Any], others: dict[str, Any]) -> None:
    """Show a value below the cell that runs; data: by MIME type, of which the notebook takes the best it can show.

    metadata : by MIME type.  others : `transient` and `update`, of displays that are replaced.
    """
    shown = {kind: base64.b64encode(each).decode() if isinstance(each, bytes) else each for kind, each in data.items()}
    sys.modules["IPython"].display.publish_display_data(shown, metadata, **others)


def clear(wait: bool) -> None:
    """Remove what the cell that runs has shown; wait: when the next output replaces it."""
    sys.modules["IPython"].display.clear_output(wait)


def backend_of_figures() -> dict[str, str]:
    """Return the environment in which processes show matplotlib's figures in this notebook; empty where none is.

    A backend that the user has named in MPLBACKEND stays: the kernel names only its own.
    """
    own = os.environ.get("MPLBACKEND", "inline").endswith("inline")
    return {"MPLBACKEND": "module://bsp.session.figures"} if own and is_notebook() else {}


def display_line() -> Any:
    """Return a display handle whose text can be replaced, if this interpreter runs in a notebook; else None."""
    if not is_notebook():
        return None
    return sys.modules["IPython"].display.display(_CellText(""), display_id=True)


def replace_line(handle: Any, text: str) -> None:
    """Replace the text of a handle that `display_line` has returned."""
    handle.update(_CellText(text))


class _CellText:
    """Text that a notebook shows as it is, without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
