"""The IPython extension: `%load_ext bsp` gives the cell magic `%%bsp`."""

from __future__ import annotations

from typing import Any

from bsp.errors import BspError
from bsp.notebook import render_as_it_is
from bsp.session import cells
from bsp.session.session import Session, newest
from bsp.source import without_ours


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls it for `%load_ext bsp`."""

    def bsp_cell(line: str, cell: str) -> Any:
        """Run the cell on all processes of a `bsp.Session`; show the value of the last expression, of process 0.

        %%bsp            on the session that was made last, and is not closed
        %%bsp NAME       on the session that a variable holds

        The names that a cell sets live on for the next one.  `Session.put` and `Session.get` bring values there and
        back.
        """
        return _run(shell, line.strip(), cell)

    shell.register_magic_function(bsp_cell, "cell", "bsp")


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magic; sessions go on."""
    shell.magics_manager.magics["cell"].pop("bsp", None)


def _run(shell: Any, line: str, cell: str) -> Any:
    """Run a cell on the session that its first line names."""
    name = f"In[{len(shell.history_manager.input_hist_parsed) - 1}]"
    cell = "\n" + cell  # the line of the magic itself, so that numbers are those of the notebook
    cells.remember(cell, name)
    _check(shell, cell, name)
    try:
        session = _session(shell, line)
        return session.run(cells.execute, cell, name)[0]
    except BaseException as error:  # shown are the lines of the cell, none of the magic
        error.__traceback__ = without_ours(error, isinstance(error, BspError | KeyboardInterrupt))
        render_as_it_is(error)
        raise


def _check(shell: Any, cell: str, name: str) -> None:
    """Raise an error that IPython prints as the SyntaxError of the cell, if it has one.

    It is none itself: IPython prints every SyntaxError with the frames of the magic.
    """
    try:
        cells.compiled(cell, name)
    except SyntaxError as error:
        wrong = BspError(f"{type(error).__name__}: {error}")
        shown = shell.SyntaxTB.structured_traceback(type(error), error, [])
        if _is_ipythons(shell, cell, name):
            shown = [
                *shown,
                "A %%bsp cell is plain Python: magics (%), shell commands (!) and ? need cells of their own.",
            ]
        wrong._render_traceback_ = lambda: shown  # type: ignore[method-assign]
        raise wrong from None


def _is_ipythons(shell: Any, cell: str, name: str) -> bool:
    """Return whether a cell that is not Python's would run in the notebook itself."""
    try:
        cells.compiled(shell.transform_cell(cell), name)
    except SyntaxError:
        return False
    return True


def _session(shell: Any, name: str) -> Session:
    """Return the session of a variable, or without a name the newest one."""
    found = shell.user_ns.get(name) if name else newest()
    if not isinstance(found, Session):
        what = f"no session is in the variable {name!r}" if name else "no session is open"
        raise BspError(f"%%bsp: {what}; start one in a cell of its own: s = bsp.Session(4, 2)")
    return found
