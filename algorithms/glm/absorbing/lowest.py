"""Rows of the lowest response there is, which log-linear models with effects may have no finite estimates for.

Where all y of a label are the lowest (counts of 0), its effect falls without end.  Such rows tell nothing of X and are
left out, as ppmlhdfe, fixest and pyfixest leave them out.  Other combinations of columns and labels that separate rows
are named: the last step shows them, as in `solvers.separation`, or means that are next to nothing.
Source: Correia, Guimarães & Zylkin, arXiv:1903.01633.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import bsp
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.problem import Rows, product
from bsp.algorithms.glm.solvers.separation import SLIGHT, STILL, sentence
from bsp.cost.units import counted

FAINT = 20.0  # of a difference of predictors: means of e^-20


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
    if kept.all():
        return rows, list(labels), notes
    some = {
        name: values[kept]
        for name in ("X", "y", "weights", "offset", "clusters", "frequencies")
        if (values := getattr(rows, name)) is not None
    }
    return replace(rows, **some), [each.of_rows(kept) for each in labels], notes


def separation_of(
    proc: bsp.Process, rows: Rows, family: Family, state: bsp.State, names: Sequence[str]
) -> tuple[bool, str] | None:
    """Return whether rows of lowest y are separated, or only seem to be, and a sentence; None if not.  Collective.

    They are if the last step still lowers their predictors, and hardly any others.  Where effects of several columns
    of labels part them from the rest, no step shows it: projections do not end where weights are nearly 0.
    Cost: one superstep of 4 + k words.
    """
    step, lowest = state.step, rows.y == family.lowest
    against = np.where(lowest, step, np.abs(step)).max(initial=-np.inf)
    eta = state.eta if rows.offset is None else state.eta - rows.offset
    ends = (np.max(-eta[each], initial=-np.inf) for each in (lowest, ~lowest))
    parts = np.abs(state.X * state.slope).max(axis=0, initial=0.0)
    found = proc.allreduce(np.array([against, np.abs(step).max(initial=0.0), *ends, *parts]), op="max")
    against, largest, least, other = found[:4]
    if largest > STILL and against <= SLIGHT * largest:
        parts = np.where(found[4:] > SLIGHT * largest, found[4:], 0.0)
        return True, sentence(names, parts, False, "leave columns or these rows out")
    if least - other < FAINT:
        return None
    return False, (
        f"rows of y = {family.lowest:g} have means that are {np.exp(other - least):.1g} of the least of the others: "
        "effects of labels seem to separate them, and have no finite estimates; coefficients are those without them"
    )
