"""The rectifier: the rows that columns and effects separate, against a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.optimize import linprog

import bsp
from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.absorbing.separated import separated_rows
from bsp.algorithms.glm.families import family_of
from bsp.algorithms.glm.problem import Rows


def by_linear_program(Z: np.ndarray, lowest: np.ndarray) -> np.ndarray:
    """Return the rows in which some Z·g is above 0 that is 0 where y is not the lowest, and never below."""
    (n, k), few = Z.shape, int(lowest.sum())
    found = linprog(
        np.r_[np.zeros(k), -np.ones(few)], A_ub=np.hstack([-Z[lowest], np.eye(few)]), b_ub=np.zeros(few),
        A_eq=np.hstack([Z[~lowest], np.zeros((n - few, few))]), b_eq=np.zeros(n - few),
        bounds=[(None, None)] * k + [(0, 1)] * few,
    )  # fmt: skip
    mask = np.zeros(n, bool)
    mask[lowest] = found.x[k:] > 0.5
    return mask


def with_counts(y: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the rows of labels that have a y above 0."""
    kept = np.ones(len(y), bool)
    for _ in range(len(y)):
        kept &= np.isin(one, one[kept & (y > 0)]) & np.isin(other, other[kept & (y > 0)])
    return kept


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), p=st.sampled_from([1, 2, 3]), k=st.integers(0, 2),
    share=st.sampled_from([0.3, 0.6, 0.9]),
)  # fmt: skip
def test_the_rectifier_finds_the_rows_that_a_linear_program_finds(seed: int, p: int, k: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 4, 40), rng.integers(0, 5, 40)
    X = rng.choice([0.0, 0.0, 0.0, 1.0, 2.0], (40, k))
    y = (rng.random(40) < share) * rng.integers(1, 9, 40).astype(float)
    y[0] = 1.0
    one, other, X, y = (each[with_counts(y, one, other)] for each in (one, other, X, y))
    dummies = np.column_stack([one[:, None] == np.arange(4), other[:, None] == np.arange(5)])
    expected = by_linear_program(np.column_stack([X, dummies]), y == 0)

    def body(proc: bsp.Process) -> Any:
        own = slice(proc.pid * len(y) // p, (proc.pid + 1) * len(y) // p)
        labels = [Levels(proc, each[own]) for each in (one, other)]
        return separated_rows(proc, Rows(X[own], y[own]), family_of("poisson"), labels, [f"x{j}" for j in range(k)])

    parts = bsp.run(body, nprocs=p)
    assert_array_equal(np.concatenate([mask for mask, _ in parts]), expected)
    number = int(expected.sum())
    assert all(note.startswith(f"{number} row") if number else note == "" for _, note in parts)
