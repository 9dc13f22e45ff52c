"""The backend of matplotlib on the processes of a notebook's session: figures appear below the cell that draws them.

Matplotlib imports it by its name, which the elements find in MPLBACKEND.
"""

from __future__ import annotations

import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

from bsp.session.serving import show_figure

__all__ = ["FigureCanvas", "show"]


def show(*_: Any, **__: Any) -> None:
    """Show the open figures in the notebook, and close them; `pyplot.show` calls it."""
    from matplotlib import pyplot  # it may be what imports this module

    numbers = pyplot.get_fignums()
    try:
        for number in numbers:
            figure, drawn = pyplot.figure(number), io.BytesIO()
            figure.savefig(drawn, format="png", bbox_inches="tight")
            show_figure(drawn.getvalue(), str(figure))
    finally:
        for number in numbers:
            pyplot.close(number)
