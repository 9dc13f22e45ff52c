"""The objective of a multinomial model at a point: one pass over the rows, one superstep of sums.

    f(b) = sum_i w_i·loss_i / sum_i w_i + alpha/2·sum over classes of |b_c - mean of all b|²

The ridge is on the coefficients less their mean over all classes, the reference's 0 among them: it is scikit-learn's,
and no choice of the reference changes the probabilities.
Cost at a point, D = (classes - 1)·d coefficients: W = 4nD + n·D(D + d)/2, one allreduce of 1 + D + D(D + 1)/2 words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.multinomial.softmax import expansion
from bsp.algorithms.glm.multinomial.survey import ClassSurvey
from bsp.algorithms.glm.solvers.objective import Objective
from bsp.algorithms.glm.solvers.passes import Gram, Sums, chunks, is_sparse
from bsp.algorithms.glm.solvers.semidefinite import Factored, explained, factor


class BlockGram:
    """The sum over rows of weights_jm·x·x' for each pair of classes j, m: a symmetric matrix of (d, d) blocks."""

    def __init__(self, of: ClassSurvey, signed: bool = False) -> None:
        self.count, self.width = len(of.others), of.width
        self.pairs = [(j, m) for j in range(self.count) for m in range(j, self.count)]
        self.grams = [Gram(of.k, of.model.fit_intercept, signed) for _ in self.pairs]

    def add(self, X: Any, weights: Any) -> None:
        """Add rows; weights(j, m) returns their weights (n,) for a pair of classes."""
        for (j, m), gram in zip(self.pairs, self.grams, strict=True):
            gram.add(X, weights(j, m))

    def whole(self, off_diagonal: float = 1.0) -> np.ndarray:
        """Return the matrix (D, D), its blocks of different classes times a factor."""
        d = self.width
        found = np.empty((self.count * d, self.count * d))
        for (j, m), gram in zip(self.pairs, self.grams, strict=True):
            block = gram.whole() * (1.0 if j == m else off_diagonal)
            found[j * d : (j + 1) * d, m * d : (m + 1) * d] = block
            found[m * d : (m + 1) * d, j * d : (j + 1) * d] = block.T
        return found


class ClassObjective(Objective):
    """Evaluates the objective of a multinomial model."""

    of: ClassSurvey
    rebased = False

    def __init__(self, of: ClassSurvey) -> None:
        self.of = of
        self.ridge, self.lasso = of.model.alpha, 0.0
        one = np.ones(of.width)
        one[: of.model.fit_intercept] = 0.0
        self.penalised = np.tile(one, len(of.others))

    def sums(self, beta: np.ndarray, curvature: str) -> Sums:
        """Return the sums over this process's rows."""
        of, intercept, j = self.of, int(self.of.model.fit_intercept), len(self.of.others)
        loss: Any = np.zeros(())
        gradient, diagonal = np.zeros((j, of.width)), np.zeros((j, of.width))
        gram = BlockGram(of) if curvature == "full" else None
        with np.errstate(over="ignore", invalid="ignore"):  # of a step too far; the objective says so
            for rows, X in chunks(of):
                at = expansion(of.predictors(X, beta), of.classes(rows))
                w = np.ones(len(at.loss)) if of.weights is None else of.weights[rows]
                score = w[:, None] * at.score
                loss = loss + w @ at.loss
                gradient[:, intercept:] += (X.T @ score).T
                gradient[:, :intercept] += score.sum(axis=0)[:, None]
                if gram is not None:
                    gram.add(X, lambda a, b, at=at, w=w: _curvature(at, w, a, b))
                elif curvature == "diagonal":
                    bends = w[:, None] * at.probability * at.rest
                    squares = X.multiply(X) if is_sparse(X) else X * X
                    diagonal[:, intercept:] += (squares.T @ bends).T
                    diagonal[:, :intercept] += bends.sum(axis=0)[:, None]
        bend = None if curvature == "none" else diagonal.ravel()
        return Sums(loss, gradient.ravel(), bend if gram is None else gram.whole(-1.0))

    def ridged(self, beta: np.ndarray) -> np.ndarray:
        """Return the gradient of the ridge."""
        each = beta.reshape(len(self.of.others), -1)
        centred: np.ndarray = (each - each.sum(axis=0) / (len(each) + 1)).ravel()
        found: np.ndarray = self.ridge * self.penalised * centred
        return found

    def _ridge_diagonal(self) -> np.ndarray:
        return self.ridge * self.penalised * (1 - 1 / (len(self.of.others) + 1))

    def _ridge_matrix(self) -> np.ndarray:
        count = len(self.of.others)
        centring = np.eye(count) - 1 / (count + 1)
        return np.kron(centring, np.diag(self.ridge * self.penalised[: self.of.width]))

    def _spread(self) -> Any:
        return 1.0

    def explained(self, curvature: np.ndarray, by: Factored, among: np.ndarray | None = None) -> tuple[str, ...]:
        """Return a sentence on each column that was left out: by the first class, for all have the same columns."""
        width = self.of.width
        block = curvature[:width, :width]
        own = np.arange(width) if among is None else among[among < width]
        return explained(block, factor(block, own), self.of.names, self.of.model.fit_intercept, own)


def _curvature(at: Any, w: np.ndarray, j: int, m: int) -> np.ndarray:
    """Return the weights of a block of the Hessian, those of different classes without their sign."""
    found: np.ndarray = w * at.probability[:, j] * (at.rest[:, j] if j == m else at.probability[:, m])
    return found
