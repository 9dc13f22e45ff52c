"""Links, one module each: how means depend on the linear predictor.  A new module is a link that models can name."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from bsp.algorithms.glm.links.link import LINKS, Expansion, Link

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["LINKS", "Expansion", "Link"]
