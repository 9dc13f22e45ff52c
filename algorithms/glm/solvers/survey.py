"""Survey of all rows before the first pass over X: check them, and fit the model with an intercept only.

Two supersteps, which look at y and all that goes with it in all rows, and at a few rows of X.

Columns whose mean is far from 0 beside their spread (years, times, temperatures in kelvin) make X'WX nearly singular
together with the intercept, though there is nothing wrong with them.  Such columns are shifted by about their mean,
which changes no fitted value; the intercept is moved back in the end.  A sample of rows finds the shift, for it need
not be exact.  Of a sparse matrix such columns have hardly any zeros, and it is shifted once: each value that is stored,
exactly, with the few zeros filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import bsp
from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.families import Family
from bsp.algorithms.glm.problem import Model, Rows, product
from bsp.algorithms.glm.solvers.basis import OrthogonalBasis
from bsp.arrays.procedures import world

SAMPLE = 256  # rows of each process
LENGTH = 1 << 13  # rows in a chunk of y
ALIKE = 256 * float(np.finfo(float).eps)  # relative differences of responses that are rounding
LEAST = float(np.finfo(float).tiny / np.finfo(float).eps)  # of squares that have all their digits
FAR = 8.0  # standard deviations from 0 to a mean


@dataclass(frozen=True)
class Survey:
    """One process's rows, checked, and sums over all rows.

    weights : (n_local,) weight·trials·frequency, or None if all are 1.   basis : of nearly collinear columns, or None.
    Coefficients here: the intercept first, if there is one, then those of the columns less `shift`, or of the basis.
    A sparse X in `rows` has been shifted, a dense one has not.
    """

    proc: bsp.Process
    rows: Rows
    model: Model
    family: Family
    weights: np.ndarray | None
    shift: np.ndarray | None
    n_rows: Any  # of positive weight, on all processes, as often as their frequencies
    sum_weights: Any
    constant: Any  # the linear predictor, less the offset, of the model with an intercept only
    least: Any  # the weighted losses where mu = y, summed: see Family.least
    null_deviance: Any
    null_chi2: Any
    basis: OrthogonalBasis | None = None
    mean: Any = None  # of y, by weight

    @property
    def k(self) -> int:
        """The number of columns of X, or of the basis."""
        return int(self.rows.X.shape[1]) if self.basis is None else len(self.basis.columns)

    @property
    def d(self) -> int:
        """The number of coefficients that a solver looks for, the intercept included."""
        return self.k + self.model.fit_intercept

    def squares(self, scores: np.ndarray, rows: slice) -> np.ndarray:
        """Return the squares of weighted scores of some rows, summed over the equal rows that one of them stands for.

        The weight has the frequency f in it, so that the square of one of f equal rows is score²/f².
        """
        found: np.ndarray = scores * scores
        if self.rows.frequencies is not None:
            found = found / np.maximum(self.rows.frequencies[rows], 1.0)
        return found

    @property
    def is_exact(self) -> bool:
        """True if the model with an intercept only leaves nothing but rounding: all responses are alike."""
        if not self.model.fit_intercept or self.rows.offset is not None:
            return False
        mu = self.family.mean(self.constant)
        rounding = ALIKE * (abs(mu) + abs(self.constant) * self.family.link.slope(self.constant))
        with np.errstate(over="ignore"):
            return bool(self.null_chi2 * self.family.variance(mu) <= rounding * rounding * self.sum_weights)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of X."""
        return self.rows.names or tuple(f"x{j}" for j in range(self.rows.X.shape[1]))

    @property
    def kept_names(self) -> tuple[str, ...]:
        """The names of the columns that coefficients here are of."""
        return self.names if self.basis is None else tuple(self.names[j] for j in self.basis.columns)

    def inside(self, intercept: float, coef: np.ndarray) -> np.ndarray:
        """Return the coefficients of the shifted columns, from those of the columns as they were given."""
        if not self.model.fit_intercept:
            return np.array(coef, float)
        return np.concatenate([[intercept + (0.0 if self.shift is None else self.shift @ coef)], coef])

    def shifted(self, beta: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return intercept and coefficients of the shifted columns, 0 of those that the basis leaves out."""
        first: Any = beta[0] if self.model.fit_intercept else 0.0
        slopes = beta[self.model.fit_intercept :]
        if self.basis is None:
            return first, slopes
        own = np.linalg.solve(self.basis.r, slopes)
        slopes = np.zeros(self.rows.X.shape[1])
        slopes[self.basis.columns] = own
        return first - self.basis.means @ own, slopes

    def outside(self, beta: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return intercept and coefficients of the columns as they were given, from those here."""
        first, slopes = self.shifted(beta)
        return first - (0.0 if self.shift is None else self.shift @ slopes), slopes

    def covariance_outside(self, covariance: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the covariance of the coefficients as given from that of those here; NaN for all but the kept ones."""
        intercept, k = self.model.fit_intercept, self.rows.X.shape[1]
        back = np.eye(k + intercept)
        if self.shift is not None:
            back[0, 1:] = -self.shift
        if self.basis is not None:
            back, kept = back @ self._of_basis(), np.concatenate([np.arange(intercept), self._places])[kept]
        covariance = back @ covariance @ back.T
        covariance = (covariance + covariance.T) / 2
        left_out = np.ones(k + intercept, bool)
        left_out[kept] = False
        covariance[left_out] = np.nan
        covariance[:, left_out] = np.nan
        return covariance

    def intercept_row(self, covariance: np.ndarray) -> np.ndarray:
        """Return the intercept's row (d,) of the covariance for the shifted columns, from that of coefficients here."""
        if self.basis is None:
            return np.array(covariance[0])
        back = self._of_basis()
        found: np.ndarray = back @ (covariance @ back[0])
        return found

    @property
    def _places(self) -> np.ndarray:
        """The basis's columns among the coefficients as given."""
        assert self.basis is not None
        found: np.ndarray = self.basis.columns + self.model.fit_intercept
        return found

    def _of_basis(self) -> np.ndarray:
        """Return the matrix that takes the basis's coefficients to those of the shifted columns."""
        assert self.basis is not None
        intercept = self.model.fit_intercept
        own = np.zeros((self.rows.X.shape[1] + intercept, self.d))
        own[:intercept, :intercept] = 1.0
        own[:intercept, intercept:] = -self.basis.means @ self.basis.back
        own[self._places, intercept:] = self.basis.back
        return own


def survey(rows: Rows, model: Model) -> Survey:
    """Check the rows of all processes, and fit the model with an intercept only.  Collective.

    Cost: W = O(n_local), two supersteps of 7 + 2k and 3 summed words (where an offset leaves no closed form, 2 more
    for each step of a Newton iteration in one variable).
    Raises DataError, the same on every process, naming the first row in which something is wrong.
    """
    if not rows.X.shape[1] + model.fit_intercept:
        raise ValueError("there are no columns and there is no intercept: nothing to fit")
    proc = world().private
    family: Family = model.family
    wrong = wrong_row(rows, family)
    y = rows.y
    weights = product(rows.weights, rows.trials, rows.frequencies)
    w = np.ones(y.shape) if weights is None else weights
    sums = np.zeros(7 + 2 * rows.X.shape[1])
    if wrong is None:
        some, sampled = sampled_columns(rows.X)
        sums = np.concatenate(
            [
                np.stack([counted_rows(w, rows), w.sum(), w @ y, w @ (1 - y), _closed_form(family, w, y, rows.offset)]),
                [0.0, some],
                sampled,
            ]
        )
    else:
        sums[5] = 1.0
    n_rows, total, successes, failures, closed, bad, some, *_ = sums = proc.allreduce(sums)
    if bad:
        say_wrong(proc, len(y), wrong)
    _possible(family, n_rows, total, successes, failures)
    shift = shift_of(sums[7:], some) if model.fit_intercept else None
    if shift is not None and not isinstance(rows.X, np.ndarray):
        rows = replace(rows, X=less_shift(rows.X, shift))
    constant = _constant(proc, family, rows, w, (total, successes, failures, closed))
    least, above, chi2 = proc.allreduce(np.stack(_null(family, rows, w, constant)))
    if np.isnan(chi2) and np.isfinite(above):
        raise DataError("y differs so little from its mean that the squares are no numbers any more: scale it up")
    if rows.offset is not None and not np.isfinite(above):
        low, high = family.means
        raise DataError(
            f"with this offset a {family} model has no intercept by which all means lie from {low:g} to {high:g}, "
            "where a fit begins: leave it out, or take another link"
        )
    return Survey(
        proc, rows, model, family, weights, shift, n_rows, total, constant, least, 2 * above, chi2,
        mean=successes / total,
    )  # fmt: skip


# ------------------------------------------------------------------------------ is it sound?


def wrong_row(rows: Rows, family: Family) -> tuple[int, str] | None:
    """Return the first of this process's rows that is impossible, and why."""
    checks = [(~np.isfinite(rows.y), "y = {}", rows.y, "must be a finite number")]
    impossible, must_be = family.wrong(rows.y)
    checks.append((impossible, "y = {}", rows.y, f"of a {family} model must be {must_be}"))
    if rows.weights is not None:
        bad = ~(np.isfinite(rows.weights) & (rows.weights >= 0))
        checks.append((bad, "weight = {}", rows.weights, "must be finite and 0 or more"))
    if rows.trials is not None:
        bad = ~(np.isfinite(rows.trials) & (rows.trials >= 0))
        checks.append((bad, "trials = {}", rows.trials, "must be finite and 0 or more"))
    if rows.frequencies is not None:
        with np.errstate(invalid="ignore"):
            bad = ~(np.isfinite(rows.frequencies) & (rows.frequencies >= 0) & (rows.frequencies % 1 == 0))
        checks.append((bad, "frequency = {}", rows.frequencies, "must be a whole number, 0 or more"))
    if rows.offset is not None:
        checks.append((~np.isfinite(rows.offset), "offset = {}", rows.offset, "must be a finite number"))
    found = [
        (int(np.argmax(bad)), f"{what.format(values[np.argmax(bad)])}, which {why}")
        for bad, what, values, why in checks
        if bad.any()
    ]
    return min(found, default=None, key=lambda each: each[0])


def say_wrong(proc: bsp.Process, n_local: int, wrong: tuple[int, str] | None) -> None:
    """Raise DataError about the first of all rows that is wrong, if there is one.  Collective."""
    first = 0
    for length, found in proc.allgather((n_local, wrong)):
        if found is not None:
            raise DataError(f"row {first + found[0]}: {found[1]}")
        first += length


def look_for_nonfinite(of: Survey) -> None:
    """Raise DataError that names the first row and column of X where there is no finite number.  Collective."""
    say_wrong(of.proc, of.rows.X.shape[0], nonfinite(of.rows.X, of.names))


def nonfinite(X: Any, names: Sequence[str]) -> tuple[int, str] | None:
    """Return the first of this process's rows of X in which a number is not finite, and which that is."""
    wrong = None
    sparse = not isinstance(X, np.ndarray)
    if not np.isfinite(X.data if sparse else X).all():
        if sparse:
            at = int(np.argmax(~np.isfinite(X.data)))
            row, column, value = int(np.searchsorted(X.indptr, at, "right")) - 1, int(X.indices[at]), X.data[at]
        else:
            row = int(np.argmax(~np.isfinite(X).all(axis=1)))
            column = int(np.argmax(~np.isfinite(X[row])))
            value = X[row, column]
        held = "NaN" if np.isnan(value) else value
        wrong = row, f"column {names[column]!r} holds {held}; leave such rows out, or fill the gaps in"
    return wrong


def _possible(family: Family, n_rows: float, total: float, successes: float, failures: float) -> None:
    """Raise DataError if no model can be fitted: no or infinite weights, or responses that are hopeless."""
    if n_rows == 0:
        raise DataError("there are no rows of positive weight: nothing to fit")
    if not np.isfinite(total):
        raise DataError("the weights sum to infinity: scale them down")
    if why := family.hopeless(successes, failures):
        raise DataError(why)


# ------------------------------------------------------------------------ the constant model


def counted_rows(w: np.ndarray, rows: Rows) -> Any:
    """Return the number of rows of positive weight, equal ones counted."""
    return np.count_nonzero(w) if rows.frequencies is None else rows.frequencies[w > 0].sum()


def _closed_form(family: Family, w: np.ndarray, y: np.ndarray, offset: np.ndarray | None) -> Any:
    """Return the further sum that gives the constant with an offset; that of w·y where there is no closed form."""
    found = None if offset is None else family.offset_sum(w, y, offset)
    return w @ y if found is None else found


def _constant(proc: bsp.Process, family: Family, rows: Rows, w: np.ndarray, sums: tuple[Any, Any, Any, Any]) -> Any:
    """Return the linear predictor, less the offset, of the model with an intercept only.  Collective."""
    total, successes, failures, closed = sums
    if rows.offset is None:
        return family.level(total, successes, failures)
    nothing = np.zeros(0)
    if family.offset_sum(nothing, nothing, nothing) is not None:
        return family.level_with_offset(total, successes, closed)
    return _iterated(proc, family, rows, w, family.level(total, successes, failures))


def _null(family: Family, rows: Rows, w: np.ndarray, constant: Any) -> list[Any]:
    """Return sums over this process's rows: least losses, the constant model's excess over them, Pearson's chi²."""
    sums = [np.zeros(())] * 3
    for first in range(0, len(w), LENGTH):
        part = slice(first, first + LENGTH)
        y = rows.y[part]
        eta = np.reshape(constant, 1) if rows.offset is None else rows.offset[part] + constant  # the same for all
        squares = family.chi2(eta, y)
        mu = family.mean(eta)
        differ = np.abs(y - mu) > ALIKE * np.abs(mu)
        if differ.any() and squares[differ].max() < LEAST:
            squares = squares + np.nan  # all processes see it in the sum
        here = (w[part] @ each for each in (family.least(y), family.excess(eta, y), squares))
        with np.errstate(over="ignore", invalid="ignore"):  # the solver raises an error of such sums
            sums = [so_far + more for so_far, more in zip(sums, here, strict=True)]
    return sums


def _iterated(proc: bsp.Process, family: Family, rows: Rows, w: np.ndarray, constant: Any) -> Any:
    """Fit the constant by Newton's method in one variable, kept between points where the slope changes its sign."""
    low, high = -np.inf, np.inf
    for _ in range(100):
        eta = constant + rows.offset
        _, score, curvature = family.expansion(eta, rows.y)
        slope, bend = proc.allreduce(np.stack([w @ score, w @ family.bend(eta, curvature)]))
        low, high = (constant, high) if slope < 0 else (low, constant)
        step = np.clip(-slope / bend if bend > 0 else -np.sign(slope), -4.0, 4.0)
        if abs(step) <= 4 * np.finfo(float).eps * max(1.0, abs(constant)):
            break
        inside = low < constant + step < high
        constant = constant + step if inside else (low + high) / 2
    return constant


# ----------------------------------------------------------------------------------- columns


def sampled_columns(X: Any) -> tuple[int, np.ndarray]:
    """Sample rows, evenly spaced: return their number, and sums of values and of squares by column."""
    sample = X[:: max(1, X.shape[0] // SAMPLE)]
    with np.errstate(over="ignore", invalid="ignore"):
        squares = sample * sample if isinstance(X, np.ndarray) else sample.multiply(sample)
        return sample.shape[0], np.concatenate([np.asarray(each.sum(axis=0)).ravel() for each in (sample, squares)])


def shift_of(sampled: np.ndarray, some: float) -> np.ndarray | None:
    """Return about the means of the columns that are far from 0, in few digits, which rounds less; 0 for the others."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean, square = sampled.reshape(2, -1) / some
        far = np.isfinite(square) & (mean * mean > FAR**2 * (square - mean * mean))
        return np.where(far, mean.astype(np.float32).astype(float), 0.0) if far.any() else None


def less_shift(X: Any, shift: np.ndarray) -> Any:
    """Return a CSR matrix less its columns' shifts; memory for all values of the columns that are shifted."""
    n, far = X.shape[0], np.flatnonzero(shift)
    ends = np.arange(0, n * len(far) + 1, len(far))
    return X - type(X)((np.tile(shift[far], n), np.tile(far, n), ends), shape=X.shape)
