"""Families of responses, one module each.  A new module here is a family that models and the command line can name."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from bsp.algorithms.glm.families.family import FAMILIES, Family, Fitted, Undefined, family_names, family_of, registered

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["FAMILIES", "Family", "Fitted", "Undefined", "family_names", "family_of", "registered"]


def __getattr__(name: str) -> type[Family]:
    """Return the registered family of this class name: `from bsp.algorithms.glm.families import Tweedie`."""
    for cls in FAMILIES.values():
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
