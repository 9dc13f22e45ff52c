"""Labels of which all responses are the lowest there is: the effects of such labels have no finite estimates.

Where all y of a label are the lowest (counts of 0), its effect falls without end.  Such rows tell nothing of X and are
left out, as ppmlhdfe, fixest and pyfixest leave them out.  Combinations of columns and labels that separate rows are
found in `separated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.problem import Rows, product
from bsp.cost.units import counted


def without_lowest(
    rows: Rows, family: Family, labels: Sequence[Levels], names: Sequence[str]
) -> tuple[Rows, list[Levels], tuple[str, ...]]:
    """Return the rows of positive weight that no label's lowest y determine, their labels, and a note.  Collective."""
    weights = product(rows.weights, rows.frequencies)
    used = np.ones(len(rows.y), bool) if weights is None else weights > 0
    above = (used & (rows.y > family.lowest)).astype(float)
    lowest = [
        used & ~(each.combined(np.bincount(each.codes, above, each.count)[:, None])[:, 0] > 0)[each.codes]
        for each in labels
    ]
    gone = np.logical_or.reduce(lowest)
    dropped = int(labels[0].proc.allreduce(np.array([np.count_nonzero(gone)]))[0])
    notes: tuple[str, ...] = ()
    if dropped:
        counts = [
            (each.number(some.astype(float)), name) for each, some, name in zip(labels, lowest, names, strict=True)
        ]
        of = ", ".join(f"{number} of {name}" for number, name in counts if number)
        notes = (
            f"{counted(dropped, 'row')} left out: all y of their label are {family.lowest:g}, and so its effect has no "
            f"finite estimate (labels: {of})",
        )
    kept = used & ~gone
    return *only(kept, rows, labels), notes


def only(kept: np.ndarray, rows: Rows, labels: Sequence[Levels]) -> tuple[Rows, list[Levels]]:
    """Return some rows and their labels, `kept` (n_local,) being truth values.  Local."""
    if kept.all():
        return rows, list(labels)
    some = {
        name: values[kept]
        for name in ("X", "y", "weights", "offset", "clusters", "frequencies")
        if (values := getattr(rows, name)) is not None
    }
    return replace(rows, **some), [each.of_rows(kept) for each in labels]
