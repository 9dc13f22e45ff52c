"""IPython's `display` on the processes of a notebook's session: what it shows appears below the cell.

IPython's own functions look for the shell of the notebook, which the processes do not have, and print without one.
Those here take their place: they format a value with IPython's formatters, where it is, and send what they make of it.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import io
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from bsp.session.channel import CLEAR, DISPLAY

_THEIRS = "IPython.core.display_functions"  # `IPython.display` has them from there

Send = Callable[[str, Any], None]


def install(send: Send) -> None:
    """Let processes of this interpreter show values by `display`, with an import of IPython's or without.

    send : sends a message to the caller, who runs in IPython.
    """
    if hasattr(builtins, "display"):
        return
    functions = _functions(send)
    builtins.display = functions["display"]  # type: ignore[attr-defined]  # where IPython has it
    if _THEIRS in sys.modules:
        vars(sys.modules[_THEIRS]).update(functions)
    else:
        sys.meta_path.insert(0, _Finder(functions))


class _Finder:
    """An importer that changes IPython's module as soon as a program imports it: that takes longer than to start."""

    def __init__(self, functions: dict[str, Any]) -> None:
        self._functions = functions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's own specification, whose loader puts our functions in the place of IPython's."""
        if name != _THEIRS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def changed(module: ModuleType) -> None:
                execute(module)
                vars(module).update(self._functions)

            spec.loader.exec_module = changed  # type: ignore[method-assign]
        return spec


def _functions(send: Send) -> dict[str, Any]:
    """Return functions with the parameters of IPython's, by their names there."""

    def publish_display_data(data: Any, metadata: Any = None, **others: Any) -> None:
        sys.stdout.flush()  # what was printed before appears before
        send(DISPLAY, (data, metadata or {}, others))

    def clear_output(wait: bool = False) -> None:
        sys.stdout.flush()
        send(CLEAR, wait)

    def display(
        *objects: Any, include: Any = None, exclude: Any = None, metadata: Any = None, transient: Any = None,
        display_id: Any = None, raw: bool = False, clear: bool = False, **others: Any,
    ) -> Any:  # fmt: skip
        """Show values below the cell, as IPython's function of this name does."""
        theirs: Any = importlib.import_module(_THEIRS)
        if clear:
            clear_output(wait=True)
        if display_id:
            display_id = theirs._new_id() if display_id is True else display_id
            transient = {**(transient or {}), "display_id": display_id}
            if not objects:  # a place for what will be shown later
                objects, raw = ({},), True
        if transient:
            others["transient"] = transient
        for each in objects:
            data, known = (each, {}) if raw else _formatter().format(each, include, exclude)
            if data or raw:  # else the value has shown itself
                publish_display_data(data, {**known, **(metadata or {})}, **others)
        return theirs.DisplayHandle(display_id) if display_id else None

    return {"display": display, "publish_display_data": publish_display_data, "clear_output": clear_output}


@cache
def _formatter() -> Any:
    """Return IPython's formatter of values, which draws figures of matplotlib too."""
    found: Any = importlib.import_module("IPython.core.formatters").DisplayFormatter()
    found.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", drawn)
    return found


def drawn(figure: Any) -> bytes:
    """Return a figure of matplotlib as a PNG."""
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()
