"""Summaries of a fit for people to read: coefficients, their precision, the quality of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import erfc, sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.problem import Model, Solution, is_number
from bsp.cost.units import counted


class Coefficient(NamedTuple):
    """One line of the table; NaN where a penalty or a collinear column leaves no inference."""

    name: str
    estimate: float
    error: float
    statistic: float
    p_value: float
    low: float
    high: float


class Ratio(NamedTuple):
    """The factor by which one more of a column multiplies the mean, or the odds, with its interval."""

    name: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Summary:
    """The summary of a fit: str() and repr() are a table in text, a notebook and `to_html()` show HTML.

    level : of the confidence intervals.
    remarks : notes on the data.   about : facts about them, names and texts: reference levels, weights, offset.
    The statistic is z, compared with the normal distribution; where the dispersion is estimated (gaussian, gamma, ...)
    it is t, with the residual degrees of freedom.
    aic : 2d - 2·log-likelihood;  bic : d·log(rows) - 2·log-likelihood; d counts coefficients, not the dispersion, as
    statsmodels counts.
    """

    solution: Solution
    model: Model
    target: str = "y"
    level: float = 0.95
    remarks: tuple[str, ...] = ()
    about: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not (is_number(self.level) and 0 < self.level < 1):
            raise ValueError(f"level={self.level!r}: between 0 and 1")

    @property
    def statistic(self) -> str:
        """The letter of the test statistic: "t" if the dispersion is estimated, else "z"."""
        return "t" if self.model.family.free_dispersion else "z"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients, the intercept's first."""
        k = len(self.solution.coef)
        names = self.solution.names[-k:] if k else ()
        return (*(("intercept",) if self.model.fit_intercept else ()), *(names or (f"x{j}" for j in range(k))))

    @property
    def estimates(self) -> np.ndarray:
        """The coefficients (d,) in the order of their names."""
        found = self.solution
        return np.append([found.intercept] if self.model.fit_intercept else [], found.coef)

    @property
    def coefficients(self) -> list[Coefficient]:
        """The lines of all coefficients."""
        found = self.solution
        estimates = self.estimates
        covariance = found.robust_covariance if self.model.robust else found.covariance
        errors = np.full(estimates.shape, np.nan) if covariance is None else np.sqrt(np.diag(covariance))
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = estimates / errors
        if self.statistic == "t":
            from scipy import special  # it takes as long to import as many a fit

            p_values = 2 * special.stdtr(found.df_resid, -np.abs(statistics))
        else:
            p_values = np.array([erfc(abs(each) / sqrt(2)) for each in statistics.tolist()])
        reach = self.reach
        columns = (estimates, errors, statistics, p_values, estimates - reach * errors, estimates + reach * errors)
        return [Coefficient(name, *map(float, row)) for name, row in zip(self.names, np.stack(columns, 1), strict=True)]

    @property
    def slopes(self) -> list[Coefficient]:
        """The lines of all coefficients but intercepts."""
        return self.coefficients[int(self.model.fit_intercept) :]

    @property
    def reach(self) -> float:
        """The standard errors from an estimate to each end of its confidence interval."""
        tail = (1 - self.level) / 2
        if self.statistic == "t":
            from scipy import special

            return float(-special.stdtrit(self.solution.df_resid, tail))
        return NormalDist().inv_cdf(1 - tail)

    @property
    def ratios(self) -> list[Ratio]:
        """The factors exp(coefficient) with their intervals, of the links log and logit; else none."""
        if not self.model.family.link.ratio:
            return []
        with np.errstate(over="ignore"):
            return [
                Ratio(each.name, *np.exp([each.estimate, each.low, each.high]).tolist()) for each in self.coefficients
            ]

    @property
    def _count(self) -> float:
        return self.solution.n_rows - self.solution.df_resid

    @property
    def aic(self) -> float | None:
        """Akaike's information criterion; None of a penalised model, which has no number of parameters."""
        likelihood = self.solution.log_likelihood
        return None if likelihood is None or self.model.alpha else float(2 * self._count - 2 * likelihood)

    @property
    def bic(self) -> float | None:
        """Schwarz's information criterion; None where `aic` is."""
        likelihood = self.solution.log_likelihood
        return (
            None
            if likelihood is None or self.model.alpha
            else float(self._count * np.log(self.solution.n_rows) - 2 * likelihood)
        )

    @property
    def title(self) -> str:
        """The model in one line."""
        return (
            f"{self.model.family.title} regression of {self.target} "
            f"({self.model.family.link.name} link), {counted(self.solution.n_rows, 'row')}"
        )

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Facts about the fit as a whole: pairs of a name and a text."""
        found, model = self.solution, self.model
        facts = [
            ("deviance", f"{found.deviance:.7g} on {found.df_resid:g} degrees of freedom"),
            ("null deviance", f"{found.null_deviance:.7g}"),
            ("dispersion", f"{found.dispersion:.6g}" + ("" if self.statistic == "t" else " (fixed)")),
            ("Pearson chi2", f"{found.pearson_chi2:.7g}"),
        ]
        if found.log_likelihood is not None:
            facts.append(("log-likelihood", f"{found.log_likelihood:.7g}"))
        facts += [(name, f"{each:.7g}") for name, each in (("AIC", self.aic), ("BIC", self.bic)) if each is not None]
        if model.alpha:
            facts.append(("penalty", f"alpha {model.alpha:g}, l1_ratio {model.l1_ratio:g}"))
        state = f"converged to {model.tol:g}" if found.converged else f"not converged to {model.tol:g}"
        facts.append(("solver", f"{found.solver}, {counted(found.n_iter, 'iteration')}, {state}"))
        return facts + list(self.about)

    @property
    def notes(self) -> list[str]:
        """Notes that a reader needs: no convergence, separation, columns left out."""
        notes = [*self.remarks, *self.solution.notes]
        if self.model.alpha:
            notes.append("a penalty shrinks coefficients: standard errors, tests and intervals would mean nothing")
        elif self.solution.clusters:
            notes.append(f"standard errors are clustered ({self.solution.clusters} clusters)")
        elif self.model.robust:
            notes.append(
                f"standard errors are robust ({self.model.robust if self.model.robust is not True else 'HC0'})"
            )
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON takes it: numbers, texts, None for what is not defined."""
        found = self.solution
        rows = [{name: _told(value) for name, value in each._asdict().items()} for each in self.coefficients]
        for row, ratio in zip(rows, self.ratios, strict=bool(self.ratios)):
            row.update(zip(("exp", "exp_low", "exp_high"), map(_told, ratio[1:]), strict=True))
        names = (
            "n_rows", "df_resid", "deviance", "null_deviance", "dispersion", "pearson_chi2", "log_likelihood",
            "objective", "gradient_norm", "n_iter", "converged", "solver",
        )  # fmt: skip
        return {
            "family": str(self.model.family), "target": self.target, "alpha": self.model.alpha,
            "l1_ratio": self.model.l1_ratio, "coefficients": rows, "statistic": self.statistic, "level": self.level,
            "robust": self.model.robust, "data": dict(self.about),
            **{name: _told(getattr(found, name)) for name in names},
            "aic": _told(self.aic), "bic": _told(self.bic), "notes": self.notes,
        }  # fmt: skip

    @property
    def table(self) -> list[list[str]]:
        """Return heads and cells of the table of coefficients."""
        heads = ["", "coef", "std err", self.statistic, f"P>|{self.statistic}|", *self._ends]
        return [heads, *([each.name, *_cells(each)] for each in self.coefficients)]

    @property
    def ratio_table(self) -> list[list[str]]:
        """Return heads and cells of the table of ratios; none where exp(coefficient) means nothing."""
        rows = [[name, *(f"{value:.6g}" if value == value else "" for value in rest)] for name, *rest in self.ratios]
        return [[self.model.family.link.ratio, "exp(coef)", *self._ends], *rows] if rows else []

    @property
    def _ends(self) -> list[str]:
        tail = (1 - self.level) / 2
        return [f"[{tail:.3g}", f"{1 - tail:.3g}]"]

    @property
    def _tables(self) -> list[list[list[str]]]:
        """The tables that are shown: without columns that a fit without a covariance leaves empty."""
        tables = [each for each in (self.table, self.ratio_table) if each]
        if self.solution.covariance is None:
            return [[row[:2] for row in table] for table in tables]
        return tables

    def __str__(self) -> str:
        lines = [self.title]
        for table in self._tables:
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            for name, *cells in table:
                lines.append("  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]))
        wide = max(len(name) for name, _ in self.facts)
        lines += [f"{name.ljust(wide)}  {text}" for name, text in self.facts]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__  # a prompt shows the table

    def to_html(self) -> str:
        """Return a <div> with tables, without styles of its own but alignment."""
        tables = "".join(map(_html, self._tables))
        facts = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
            for name, text in self.facts
        )
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)
        return (
            f'<div class="glm"><p><b>{escape(self.title)}</b></p>{tables}'
            f"<table><tbody>{facts}</tbody></table>{notes}</div>"
        )

    _repr_html_ = to_html


def _html(table: list[list[str]]) -> str:
    """Return a table whose first column has names, the others numbers."""
    (first, *heads), *rows = table
    head = "".join(f'<th style="text-align:right">{escape(text)}</th>' for text in heads)
    body = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        + "".join(f'<td style="text-align:right">{text}</td>' for text in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return (
        f'<table><thead><tr><th style="text-align:left">{escape(first)}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _cells(each: Coefficient) -> list[str]:
    numbers = (each.estimate, each.error, each.statistic, each.p_value, each.low, each.high)
    formats = ("{:.6g}", "{:.4g}", "{:.3f}", "{:.3g}", "{:.6g}", "{:.6g}")
    return [text.format(number) if number == number else "" for text, number in zip(formats, numbers, strict=True)]


def _told(value: Any) -> Any:
    """Return a value as JSON has it: None for NaN and infinity."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
