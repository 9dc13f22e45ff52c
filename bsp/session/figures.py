"""The backend of matplotlib on the processes of a notebook's session: figures appear below the cell that draws them.

Matplotlib imports it by its name, which the elements find in MPLBACKEND.
"""

from __future__ import annotations

from typing import Any

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from bsp.session.displays import drawn
from bsp.session.serving import show_figure
from bsp.world import process

__all__ = ["FigureCanvas", "show"]


class FigureManager(FigureManagerBase):
    """An open figure, which knows its process: the processes of an element share pyplot."""

    def __init__(self, canvas: Any, num: int | str) -> None:
        super().__init__(canvas, num)
        self.pid = process().pid


class FigureCanvas(FigureCanvasAgg):
    """A canvas whose figures know their processes."""

    manager_class = FigureManager


def show(*_: Any, **__: Any) -> None:
    """Show this process's open figures in the notebook, and close them; `pyplot.show` calls it."""
    managers: list[Any] = Gcf.get_all_fig_managers()
    own = [each for each in managers if each.pid == process().pid]
    try:
        for manager in own:
            figure = manager.canvas.figure
            show_figure(drawn(figure), str(figure))
    finally:
        for manager in own:
            Gcf.destroy(manager)
