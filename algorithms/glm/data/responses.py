"""Responses in the form that families take: labels of two classes as 0 and 1, counts of successes as proportions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.errors import DataError


class LabelFacts(NamedTuple):
    """One process's labels and weights, from which all processes decide the classes."""

    weighted: bool  # whether a row has a weight and a frequency that are not 0; the solver looks at what they are
    labels: list[Any]  # the first few, sorted; of numbers none
    present: list[Any]  # those of rows with a weight


def facts_of(values: np.ndarray, weights: np.ndarray | None, most: int) -> LabelFacts:
    """Return the facts of this process's part.  Raises DataError if values are no labels.

    most : different labels that there may be; 0: they are numbers.
    """
    some = values if weights is None else values[weights != 0]
    if not most:
        return LabelFacts(bool(some.size), [], [])
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        raise DataError(
            "Unknown label type: continuous. A classifier needs labels of classes; "
            "proportions are for GLM(family='binomial')"
        )
    try:
        labels, present = (np.unique(each)[: most + 1].tolist() for each in (values, some))
    except TypeError:
        raise DataError("Unknown label type: labels of different types in one y") from None
    return LabelFacts(bool(some.size), labels, present)


def check_weights(told: list[LabelFacts], weighted: bool) -> None:
    """Raise DataError if no row of any process counts: all weights are 0, or all frequencies."""
    if not any(facts.weighted for facts in told):
        if not weighted:
            raise DataError("frequencies are 0 in every row: nothing to fit")
        raise DataError("Sample weights must contain at least one non-zero number.")


def classes_of(told: list[LabelFacts], target: str, most: int) -> list[Any]:
    """Return the labels that rows with a weight have, sorted.  Raises DataError if there are more, or one."""
    found = sorted({label for facts in told for label in facts.labels})
    if len(found) > most:
        shown = ", ".join(map(repr, found[:3])) + ", ..." * (len(found) > 3)
        if most > 2:
            raise DataError(f"{target} has more than {most} different labels ({shown}): too many classes")
        raise DataError(
            f"Only binary classification is supported. The type of the target is multiclass: {target} has {shown}; "
            "MultinomialRegression is for more than two classes"
        )
    present = sorted({label for facts in told for label in facts.present})
    if len(present) < 2:
        raise DataError(f"there is only one class: every {target} is {present[0]!r}; a classifier needs two classes")
    return present


def shares(successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Return successes of trials as proportions, 0 of no trials.  Raises DataError with the first impossible one."""
    wrong = ~(trials >= 0)
    if wrong.any():
        raise DataError(f"trials must be 0 or more; one is {trials[np.argmax(wrong)]:g}")
    more = (successes > trials) | (successes < 0)
    if more.any():
        k = int(np.argmax(more))
        raise DataError(f"y counts the successes of its trials: {successes[k]:g} of {trials[k]:g} is impossible")
    found: np.ndarray = successes / np.where(trials > 0, trials, 1)
    return found
