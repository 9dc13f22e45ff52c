"""Elements that compute with different builds are told which."""

from __future__ import annotations

import numpy as np

from bsp.hosts.build import build, difference


def test_elements_that_compute_with_different_builds_are_told() -> None:
    mine = build()
    assert difference({0: mine, 1: mine, 2: mine}) is None
    other = tuple((name, "1.0" if name == "NumPy" else value) for name, value in mine)
    told = difference({0: mine, 1: mine, 2: other})
    assert told is not None
    assert told.startswith(f"NumPy is {np.__version__} on element 0 and 1.0 on element 2: results may differ")
