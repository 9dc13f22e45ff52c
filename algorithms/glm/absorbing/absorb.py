"""Rows without the effects of their labels: what `fit(..., absorb=)` solves in the place of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bsp.algorithms.glm.absorbing.degrees import absorbed_parameters
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.absorbing.within import SWEEPS, TOLERANCE, within
from bsp.algorithms.glm.errors import DataError, agreed
from bsp.algorithms.glm.problem import Model, Rows, product
from bsp.arrays.procedures import world


def columns_of(absorb: Any) -> tuple[Any, ...]:
    """Return the columns of labels: absorb is one, or a list or tuple of several; names, or vectors."""
    if absorb is None:
        return ()
    columns = tuple(absorb) if isinstance(absorb, (list, tuple)) else (absorb,)
    for each in columns:
        if not isinstance(each, str) and getattr(each, "ndim", 1 if isinstance(each, (list, tuple)) else 0) != 1:
            raise TypeError("absorb takes a column of labels, or a list of columns: names of a table's, or vectors")
    if not columns:
        raise ValueError("absorb=[]: a column of labels, or None")
    return columns


def check_absorbing(model: Model, X_is_sparse: bool = False) -> None:
    """Raise ValueError for a model from which effects cannot be absorbed."""
    if not model.family.linear:
        raise ValueError(f"absorb= is of linear models, family='gaussian'; this one is {str(model.family)!r}")
    if model.robust in ("HC2", "HC3"):
        raise ValueError(f"robust={model.robust!r} needs leverages, which absorbed effects leave unknown: HC0 or HC1")
    if X_is_sparse:
        raise ValueError("absorb= needs a dense X: what is left of its columns is dense")


def absorbing(rows: Rows, model: Model, names: Sequence[str]) -> tuple[Rows, Model, tuple[str, ...]]:
    """Return rows and model without the effects of their labels, and notes.  Collective; see `within` for the cost.

    names : of the columns of labels.
    """
    proc = world().private
    weights = product(rows.weights, rows.frequencies)

    def look() -> None:
        sound = [rows.y, rows.X, *(each for each in (rows.offset, weights) if each is not None)]
        if not all(np.isfinite(each).all() for each in sound) or (weights is not None and (weights < 0).any()):
            raise DataError("absorb= needs finite X, y and offset, and finite weights, 0 or more")

    agreed(look)
    w = np.ones(len(rows.y)) if weights is None else weights
    labels = [Levels(proc, each) for each in rows.absorb]
    clusters = None if rows.clusters is None else Levels(proc, rows.clusters)
    found = absorbed_parameters(labels, (w > 0).astype(float), clusters)
    y = rows.y if rows.offset is None else rows.y - rows.offset
    left, done = within(proc, np.column_stack([rows.X, y]), w, labels)
    notes: tuple[str, ...] = (f"effects of {', '.join(names)} are absorbed: {found.parameters} parameters",)
    if not done:
        notes += (f"no convergence: {SWEEPS} sweeps have not absorbed the effects to {TOLERANCE:g}",)
    X = np.ascontiguousarray(left[:, :-1])
    clean = replace(rows, X=X, y=left[:, -1].copy(), offset=None, absorb=(), absorbed=found)
    return clean, replace(model, fit_intercept=False), notes
