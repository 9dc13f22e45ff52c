"""The softmax of linear predictors: probabilities of classes, their loss, and no digits lost where one is nearly sure.

A row has a linear predictor for each class but the last, the reference, whose predictor is 0.
Source: Agresti, Categorical Data Analysis, 3rd edition, section 8.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.families.family import Family, Vector


class Multinomial(Family):
    """The distribution of one of several classes.

    No name finds it: its rows have several linear predictors, which only `MultinomialRegression` fits.
    """

    name, links, convex_links, canonical_link = "multinomial", ("logit",), ("logit",), "logit"

    @property
    def title(self) -> str:
        """The first words of a summary's title."""
        return "Multinomial logistic"

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return that no class is impossible."""
        return np.zeros(y.shape, bool), ""


class ClassExpansion(NamedTuple):
    """The loss (n,) of rows, and for each class but the reference (n, classes - 1) its score and probabilities."""

    loss: np.ndarray
    score: np.ndarray  # the loss's derivative by the class's predictor: its probability, less 1 if the row is of it
    probability: np.ndarray
    rest: np.ndarray  # the probability of all other classes, which is no difference: a small one has all digits


def probabilities(eta: Any) -> Any:
    """Return the probabilities (n, K) of predictors of all K classes."""
    powers = np.exp(eta - eta.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def expansion(eta: np.ndarray, classes: np.ndarray) -> ClassExpansion:
    """Return loss, score and probabilities of rows, of which `classes` (n,) are the numbers of their classes."""
    n, j = eta.shape
    every = np.concatenate([eta, np.zeros((n, 1))], axis=1)
    rows, highest = np.arange(n), every.argmax(axis=1)
    top = every[rows, highest]
    powers = np.exp(every - top[:, None])
    others = powers @ (1.0 - np.eye(j + 1))
    total = powers.sum(axis=1)[:, None]
    probability, rest = powers / total, others / total
    score = probability.copy()
    score[rows, classes] = -rest[rows, classes]
    loss = (top - every[rows, classes]) + np.log1p(others[rows, highest])
    return ClassExpansion(loss, score[:, :j], probability[:, :j], rest[:, :j])
