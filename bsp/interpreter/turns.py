"""Changes of turns: in C where the package was installed with a compiler, else as `Belongings` does them in Python.

With BSP_PURE_PYTHON=1 in the environment it is Python in any case.
"""

from __future__ import annotations

import os

from bsp.interpreter.belongings import Belongings

if os.environ.get("BSP_PURE_PYTHON"):
    COMPILED = False
else:
    try:
        from bsp.interpreter._turns import enter, leave

        COMPILED = True
    except (ImportError, TypeError):  # there was no compiler, or the module `random` is laid out in another way
        COMPILED = False

if not COMPILED:
    enter, leave = Belongings.enter, Belongings.leave

__all__ = ["COMPILED", "enter", "leave"]
