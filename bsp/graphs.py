"""The package `bsp.algorithms.graphs` under its short name, `bsp.graphs`."""

import sys

from bsp.algorithms import graphs

sys.modules[__name__] = graphs
