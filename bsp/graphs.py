"""The package `bsp.algorithms.graphs` under its short name, `bsp.graphs`."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("bsp.algorithms.graphs")
