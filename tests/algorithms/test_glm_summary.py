"""What a fit is told like: the numbers of the table are statsmodels', as text, HTML, a page, and for programs."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from glm_families import DEFAULTS, possible, theirs_of, tight

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.families import family_of
from bsp.algorithms.glm.inference.report import page, ticks


def affairs() -> tuple[np.ndarray, np.ndarray]:
    """Fair's affairs: 6366 people, eight columns."""
    data = sm.datasets.fair.load_pandas()
    return np.ascontiguousarray(data.exog.to_numpy(float)), data.endog.to_numpy(float)


def response(family: str, y: np.ndarray) -> np.ndarray:
    return possible(family, np.round(y))


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("family", DEFAULTS)
def test_the_numbers_are_statsmodels(family: str, robust: bool) -> None:
    X, raw = affairs()
    y = response(family, raw)
    estimated = family_of(family).free_dispersion
    known = sm.GLM(y, sm.add_constant(X), family=theirs_of(family)).fit(
        **tight(family), cov_type="HC0" if robust else "nonrobust", use_t=estimated
    )
    summary = bsp.run(lambda proc: glm.GLM(family, tol=1e-12, robust=robust).fit(X, y).summary(level=0.9), nprocs=3)[1]
    rows = np.array([each[1:] for each in summary.coefficients])
    low, high = known.conf_int(0.1).T
    np.testing.assert_allclose(rows[:, 0], known.params, rtol=1e-8, atol=0)
    np.testing.assert_allclose(rows[:, 1], known.bse, rtol=1e-6, atol=0)
    np.testing.assert_allclose(rows[:, 2], known.tvalues, rtol=1e-6, atol=0)
    np.testing.assert_allclose(rows[:, 3], known.pvalues, rtol=2e-4, atol=1e-300)  # 1e-6 in z, far out in the tail
    np.testing.assert_allclose(rows[:, 4:], np.stack([low, high], axis=1), rtol=1e-6, atol=1e-10)
    assert summary.statistic == ("t" if estimated else "z")
    found = summary.solution
    assert found.deviance == pytest.approx(known.deviance, rel=1e-10)
    assert found.null_deviance == pytest.approx(known.null_deviance, rel=1e-10)
    assert found.pearson_chi2 == pytest.approx(known.pearson_chi2, rel=1e-8)
    assert found.dispersion == pytest.approx(known.scale, rel=1e-8)
    assert found.df_resid == known.df_resid


@pytest.mark.parametrize("family", [each for each in DEFAULTS if not family_of(each).free_dispersion])
def test_information_criteria_are_statsmodels(family: str) -> None:
    X, raw = affairs()
    y = response(family, raw)
    known = sm.GLM(y, sm.add_constant(X), family=theirs_of(family)).fit(**tight(family))
    summary = glm.GLM(family).fit(X, y).summary()
    assert summary.aic == pytest.approx(known.aic, rel=1e-10)
    assert summary.bic == pytest.approx(known.bic_llf, rel=1e-10)


def small(**options: Any) -> Any:
    X, y = np.array([[0.0], [1], [2], [3], [4], [5]]), np.array([2.0, 1, 1, 3, 2, 6])
    return glm.PoissonRegression(**options).fit(X, y)


def test_the_text_is_a_table() -> None:
    text = str(small().summary())
    head, table = text.splitlines()[0], text.splitlines()[1:4]
    assert head == "Poisson regression of y (log link), 6 rows"
    assert len({len(line) for line in table}) == 1  # columns are aligned
    assert table[0].split() == ["coef", "std", "err", "z", "P>|z|", "[0.025", "0.975]"]
    assert [line.split()[0] for line in table[1:]] == ["intercept", "x0"]
    assert re.search(r"^deviance +[\d.]+ on 4 degrees of freedom$", text, re.MULTILINE)
    assert re.search(r"^solver +newton, \d+ iterations, converged to 1e-10$", text, re.MULTILINE)
    assert "nan" not in text


def test_a_penalised_fit_shows_coefficients_alone_and_says_why() -> None:
    text = str(small(alpha=0.1).summary())
    assert "std err" not in text
    assert "penalty         alpha 0.1, l1_ratio 0" in text
    assert "note: a penalty shrinks coefficients: standard errors, tests and intervals would mean nothing" in text


def test_a_fit_that_has_not_converged_says_so() -> None:
    text = str(small(max_iter=1).summary())
    assert "1 iteration, not converged to 1e-10" in text
    assert "note: no convergence" in text


def test_a_collinear_column_has_no_numbers_and_a_note() -> None:
    X = np.arange(12.0)[:, None] % 5
    model = glm.LinearRegression().fit(np.hstack([X, 2 * X]), np.arange(12.0) ** 0.5)
    text = str(model.summary())
    assert "nan" not in text
    assert "note:" in text
    assert json.loads(json.dumps(model.summary().to_dict(), allow_nan=False))["coefficients"][2]["error"] is None


def test_an_intercept_that_is_not_fitted_is_not_shown() -> None:
    assert [each.name for each in small(fit_intercept=False).summary().coefficients] == ["x0"]


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="level=95: between 0 and 1"):
        small().summary(level=95)


def test_html_has_the_same_numbers_as_the_text_and_escapes_names() -> None:
    import pandas

    frame = pandas.DataFrame({"<b>&": [0.0, 1, 2, 3, 4, 5], "y": [2, 1, 1, 3, 2, 6]})
    summary = glm.PoissonRegression().fit(frame, "y").summary()
    root = ElementTree.fromstring(summary.to_html())
    cells = [cell.text for cell in root.iter() if cell.tag in ("td", "th")]
    for row in summary.table[1:]:
        assert all(text in cells for text in row)
    assert "<b>&" in cells
    assert summary._repr_html_() == summary.to_html()


def test_the_page_needs_nothing_else_and_draws_each_coefficient() -> None:
    X, raw = affairs()
    summary = glm.LogisticRegression().fit(X, raw > 0).summary()
    text = page(summary, "affairs & more.csv")
    assert "affairs &amp; more.csv" in text
    assert not re.search(r"https?:|<script|<link|src=|@import|url\(", text)
    pictures = [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(pictures) == 2
    intervals, convergence = pictures
    bars = [each for each in intervals.iter("line") if each.get("class") == "bar"]
    dots = [*intervals.iter("circle")]
    assert len(bars) == len(dots) == X.shape[1]
    for bar, dot in zip(bars, dots, strict=True):
        assert float(bar.get("x1", "")) <= float(dot.get("cx", "")) <= float(bar.get("x2", ""))
    assert len([*convergence.iter("circle")]) == len(summary.solution.history)


def test_the_page_of_a_penalised_fit_has_no_intervals() -> None:
    assert "intervals</h2>" not in page(small(alpha=0.1).summary(), "few.csv")


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3e-7, 2e-7), (-1e9, 5.0), (0.0, 7.3)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 2 <= len(found) <= 8
    assert all(low - 1e-9 * (high - low) <= each <= high + 1e-9 * (high - low) for each in found)


def test_a_prompt_shows_the_table_and_not_what_it_is_made_of() -> None:
    X = np.arange(12.0).reshape(6, 2) ** 1.5
    summary = glm.LinearRegression().fit(X, X[:, 0] + 1).summary()
    assert repr(summary) == str(summary)
    assert "Solution(" not in repr(summary)
