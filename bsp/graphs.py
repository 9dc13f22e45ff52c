"""The package `bsp.algorithms.graphs` under its short name, `bsp.graphs`."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bsp.algorithms.graphs import *  # noqa: F403
else:
    sys.modules[__name__] = import_module("bsp.algorithms.graphs")
