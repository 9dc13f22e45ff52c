"""Sums of scores by cluster: the middle of the sandwich for rows that vary together within clusters.

The rows of a cluster may lie on several processes.  Each process sums the scores of its rows by cluster, and sends each
sum to the process that owns the cluster's label; that one adds them, squares, and all squares are summed.
Sources: Liang & Zeger, Biometrika 73 (1986); the correction for few clusters is that of Stata and statsmodels,
G/(G - 1) · (n - 1)/(n - d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.solvers.objective import half, unpacked
from bsp.algorithms.glm.solvers.passes import chunks, predictor
from bsp.algorithms.glm.solvers.survey import Survey

Scores = Callable[[slice, Any], np.ndarray]


class ClusteredScores(NamedTuple):
    """The sum over clusters of the outer products of their summed scores, (d, d), and the number of clusters."""

    meat: np.ndarray
    clusters: int

    def correction(self, n_rows: float, d: int) -> float:
        """Return the factor by which the covariance of few clusters is too small."""
        return self.clusters / (self.clusters - 1) * (n_rows - 1) / max(n_rows - d, 1)


def few_note(clusters: int, d: int) -> str:
    """Return a sentence on fewer clusters than coefficients, or as many."""
    return f"{clusters} clusters for {d} coefficients: clustered errors need more of them"


def scores_at(of: Survey, beta: np.ndarray) -> Scores:
    """Return the function that `clustered_scores` takes, of a model with one linear predictor."""

    def scores(rows: slice, X: Any) -> np.ndarray:
        found: np.ndarray = of.family.expansion(predictor(of, X, beta, rows), of.rows.y[rows]).score[:, None]
        return found

    return scores


def clustered_scores(of: Survey, scores: Scores) -> ClusteredScores:
    """Return the sums over the clusters of all rows.  Collective.

    scores : returns for a chunk of rows, a slice and their X, the loss's derivatives by their linear predictors,
        (n, predictors), without weights.
    Rows of weight 0 make no cluster.   Raises DataError if all others are in one.
    Cost: a pass of W = 2nd; two supersteps: d words for each cluster of this process, and d(d + 1)/2 + 1 summed words.
    """
    labels, sums = _own_sums(of, scores)
    owners = np.array([xxh3_64_intdigest(str(label).encode()) % of.proc.nprocs for label in labels.tolist()], int)
    for dest in np.unique(owners).tolist():
        of.proc.send(dest, sums[owners == dest], tag=labels[owners == dest].tolist())
    of.proc.sync()
    arrived = of.proc.inbox
    names = {name: place for place, name in enumerate(dict.fromkeys(name for each in arrived for name in each.tag))}
    total = np.zeros((len(names), of.d))
    for each in arrived:  # in the order of their sources: the same bytes in every run
        total[[names[name] for name in each.tag]] += each.payload
    *meat, count = of.proc.allreduce(np.append((total.T @ total)[half(of.d)], len(names)))
    if count < 2:
        raise DataError("all rows are in one cluster: there is nothing to see how clusters vary by")
    return ClusteredScores(unpacked(np.array(meat), of.d), int(count))


def _own_sums(of: Survey, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of this process's clusters and the sums of their scores: (count, d)."""
    from scipy import sparse  # imported here: it takes a tenth of a second, and few models have clusters

    given = np.asarray(of.rows.clusters)
    labels, codes = np.unique(given.astype(str) if given.dtype == object else given, return_inverse=True)
    sums, width = np.zeros((len(labels), of.d)), of.k + of.model.fit_intercept
    for rows, X in chunks(of):
        present, inside = np.unique(codes[rows], return_inverse=True)
        for j, score in enumerate(scores(rows, X).T):
            score = score if of.weights is None else of.weights[rows] * score
            membership = sparse.csr_array((score, (inside, np.arange(len(score)))), (len(present), len(score)))
            own, first = membership @ X, j * width + of.model.fit_intercept
            sums[present, first : (j + 1) * width] += own.toarray() if sparse.issparse(own) else own
            if of.model.fit_intercept:
                sums[present, first - 1] += membership.sum(axis=1)
    used = np.ones(len(labels), bool)
    if of.weights is not None:
        used = np.bincount(codes, of.weights > 0, len(labels)) > 0
    return labels[used], sums[used]
