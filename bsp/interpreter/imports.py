"""Context variables that a module sets while it is imported, for every process that imports it.

Python runs a module once per interpreter, while each process has a context of its own.  So `np.set_printoptions`,
`np.seterr` or a decimal precision in a module would reach only the process that imports it first.  Here the import
statement that runs a module records what the module has changed, and the same statement of another process makes
the same changes in its context.

Not covered: a module run by other means than an import statement or `importlib.import_module`.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

_Place = tuple[Any, str]  # a context variable, or a setting and the name of one of its parts
_Changes = dict[Any, dict[str, Any]]


class Imports:
    """The changes that modules made in contexts, and the processes that have made each of them."""

    def __init__(self, turn: Callable[[], Any]) -> None:
        """Start without changes; `turn()` returns the process whose code runs, or None."""
        self._turn = turn
        self._changes: dict[str, _Changes] = {}  # by module
        self._made: dict[Any, set[str]] = {}  # by process: the modules whose changes are in its context

    @contextlib.contextmanager
    def noticed(self) -> Iterator[None]:
        """Watch every import inside the block."""
        statement, function = builtins.__import__, importlib.import_module

        def import_statement(
            name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
        ) -> Any:
            package = "" if globals is None else globals.get("__package__") or ""
            if level and not package:  # a relative import outside a package, or an old form: Python decides
                return statement(name, globals, locals, fromlist, level)
            absolute = importlib.util.resolve_name("." * level + name, package) if level else name
            if absolute not in sys.modules or fromlist or self._changes:
                self._run(absolute, fromlist or (), function)
            return statement(name, globals, locals, fromlist, level)

        def import_module(name: str, package: str | None = None) -> Any:
            absolute = importlib.util.resolve_name(name, package) if name.startswith(".") else name
            self._run(absolute, (), function)
            return function(absolute)

        builtins.__import__, importlib.import_module = import_statement, import_module
        try:
            yield
        finally:
            builtins.__import__, importlib.import_module = statement, function

    def _run(self, name: str, fromlist: Any, load: Callable[[str], Any]) -> None:
        """Load the modules that an import names, in Python's order, and record what each one changes."""
        parts = name.split(".")
        for k in range(len(parts)):
            self._load(".".join(parts[: k + 1]), load)
        package = sys.modules.get(name)
        if hasattr(package, "__path__"):
            for item in fromlist:
                module = f"{name}.{item}"
                if module in sys.modules or (item != "*" and not hasattr(package, item) and _exists(module)):
                    self._load(module, load)

    def _load(self, module: str, load: Callable[[str], Any]) -> None:
        """Import a module that is new and record its changes; make the recorded changes of one that is not."""
        if module in sys.modules:
            if module in self._changes:
                self._make(module)
            return
        before = _standing()
        load(module)
        changes = _differences(before)
        if changes:
            self._changes[module] = changes
            self._made.setdefault(self._turn(), set()).add(module)

    def _make(self, module: str) -> None:
        """Make the changes of a module that another process has run in the context of this one, once."""
        made = self._made.setdefault(self._turn(), set())
        if module not in made:
            made.add(module)
            _apply(self._changes[module])


def _exists(module: str) -> bool:
    """Return whether a submodule can be found; errors are left to the import statement itself."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


class _Setting(NamedTuple):
    """A context variable of which modules change parts: how to read the parts, and how to change some of them."""

    module: str
    variable: str
    read: Callable[[], dict[str, Any]]
    change: Callable[[dict[str, Any]], object]


def _decimal() -> dict[str, Any]:
    """Return the parts of the current decimal context."""
    import decimal

    context = decimal.getcontext()
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    return {name: getattr(context, name) for name in names} | {"traps": dict(context.traps)}


def _set_decimal(parts: dict[str, Any]) -> None:
    """Change parts of the current decimal context."""
    import decimal

    context = decimal.getcontext()
    for name, value in parts.items():
        if name == "traps":
            context.traps.update(value)
        else:
            setattr(context, name, value)


_SETTINGS = (
    _Setting("decimal", "decimal_context", _decimal, _set_decimal),
    _Setting(
        "numpy", "format_options", lambda: dict(np.get_printoptions()), lambda parts: np.set_printoptions(**parts)
    ),
    _Setting("numpy", "numpy.ufunc.extobj", lambda: dict(np.geterr()), lambda parts: np.seterr(**parts)),
)


def _is_there(module: str) -> bool:
    """Return whether the import of a module has been completed."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _standing() -> dict[_Place, Any]:
    """Return the values in the current context: the parts of the variables in _SETTINGS, the values of the others."""
    found: dict[_Place, Any] = {
        (setting, name): value
        for setting in _SETTINGS
        if _is_there(setting.module)
        for name, value in setting.read().items()
    }
    taken = {setting.variable for setting in _SETTINGS}
    context = contextvars.copy_context()
    return found | {(variable, ""): value for variable, value in context.items() if variable.name not in taken}


def _differences(before: dict[_Place, Any]) -> _Changes:
    """Return what has changed in the current context since `before`."""
    missing = object()
    changed: _Changes = {}
    for (what, name), value in _standing().items():
        known = before.get((what, name), missing)
        if known is not value and (isinstance(what, contextvars.ContextVar) or known != value):
            changed.setdefault(what, {})[name] = value
    return changed


def _apply(changes: _Changes) -> None:
    """Make recorded changes in the current context."""
    for what, parts in changes.items():
        if isinstance(what, contextvars.ContextVar):
            what.set(parts[""])
        else:
            what.change(parts)
