"""Modules that were compiled at installation can be imported: else the package runs in Python, and nobody notices."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest

MODULES = ["bsp.arrays.compiled._quick", "bsp.transport._compiled", "bsp.interpreter._turns"]


@pytest.mark.parametrize("name", MODULES)
def test_a_compiled_module_can_be_imported(name: str) -> None:
    if find_spec(name) is None:
        pytest.skip("the package was installed without a C compiler")
    import_module(name)
