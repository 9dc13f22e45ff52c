"""What a fit is told like: the numbers of the table are statsmodels', as text, HTML, a page, and for programs."""

from __future__ import annotations

import json
import pickle
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from glm_families import DEFAULTS, possible, theirs_of, tight

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.data.preparing import Given
from bsp.algorithms.glm.families import family_of
from bsp.algorithms.glm.inference.diagnosis import Diagnosis, diagnosis
from bsp.algorithms.glm.inference.drawing import ticks
from bsp.algorithms.glm.inference.report import page


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


def pictured(nprocs: int, X: Any, y: Any, family: str = "poisson", **vectors: Any) -> tuple[Any, Diagnosis]:
    """The summary, and what pictures need of the rows: the same on every process."""

    def main(proc: bsp.Process) -> Any:
        model = glm.GLM(family)
        data = model._fit(X, Given(y, **vectors), model._model())
        return model.summary(), diagnosis(data.rows, model._model(), model.solution_)

    told = bsp.run(main, nprocs=nprocs)
    assert len({pickle.dumps([np.asarray(each).tobytes() for each in found]) for _, found in told}) == 1
    return told[0]


@pytest.mark.parametrize("nprocs", [1, 3, 64])
@pytest.mark.parametrize("family", DEFAULTS)
def test_pictures_show_the_residuals_of_all_rows(family: str, nprocs: int) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(1e4, [1.0, 0.01, 300], (300, 3))
    y = possible(family, rng.integers(0, 4, 300).astype(float))
    offset, weights = rng.normal(size=300) / 9, rng.integers(0, 3, 300) / 2
    summary, found = pictured(nprocs, X, y, family, weights=weights, offset=offset)
    some = weights > 0
    solution, model = summary.solution, summary.model
    eta = X @ solution.coef + solution.intercept + offset
    mu = model.family.mean(eta)
    away = ((y - mu) / np.sqrt(model.family.variance(mu)) * np.sqrt(weights))[some]
    known, rows, columns = np.histogram2d(away, eta[some], [36, 72])
    np.testing.assert_allclose([*found.residuals, *found.predictors], [*rows[[0, -1]], *columns[[0, -1]]], rtol=1e-9)
    assert found.counts.sum() == some.sum()
    assert abs(found.counts - known).sum() <= 4  # rows at a cell's edge, which rounding may move
    np.testing.assert_allclose(found.spreads, np.sqrt(np.cov(X.T, aweights=weights, ddof=0).diagonal()), rtol=1e-9)
    wide = np.minimum(((eta[some] - columns[0]) / (columns[-1] - columns[0]) * 24).astype(int), 23)
    means = [away[wide == k].mean() if (wide == k).sum() >= 5 else np.nan for k in range(24)]
    assert np.isclose(found.means, means, rtol=1e-9, atol=1e-12, equal_nan=True).sum() >= 22


@pytest.mark.parametrize("family", ["poisson", "binomial", "gamma", "quasi-poisson"])
def test_ratios_are_those_of_statsmodels(family: str) -> None:
    X, raw = affairs()
    y = response(family.removeprefix("quasi-"), raw)
    summary = glm.GLM(family, tol=1e-12).fit(X, y).summary()
    theirs = theirs_of(family.removeprefix("quasi-"))
    options = {"scale": "X2", "use_t": True} if summary.statistic == "t" else {}
    known = sm.GLM(y, sm.add_constant(X), family=theirs).fit(**tight(family.removeprefix("quasi-")), **options)
    found = np.array([each[1:] for each in summary.ratios])
    np.testing.assert_allclose(found[:, 0], np.exp(known.params), rtol=1e-7)
    np.testing.assert_allclose(found[:, 1:], np.exp(known.conf_int()), rtol=1e-6)
    assert summary.ratio_table[0][0] == ("odds ratio" if family == "binomial" else "ratio of means")
    rows = summary.to_dict()["coefficients"]
    np.testing.assert_array_equal([[row["exp"], row["exp_low"], row["exp_high"]] for row in rows], found)
    text = str(summary).splitlines()
    assert text[text.index(next(line for line in text if "exp(coef)" in line)) + 1].split()[0] == "intercept"


def test_links_without_ratios_show_none() -> None:
    X, raw = affairs()
    for summary in (
        glm.LinearRegression().fit(X, raw).summary(), glm.GLM("binomial:probit").fit(X, raw > 0).summary(),
    ):  # fmt: skip
        assert summary.ratios == summary.ratio_table == []
        assert "exp" not in str(summary) + summary.to_html()
        assert "exp" not in summary.to_dict()["coefficients"][0]


def test_a_penalised_fit_has_ratios_without_intervals() -> None:
    summary = small(alpha=0.1).summary()
    text = str(summary).splitlines()
    (at,) = [k for k, line in enumerate(text) if "exp(coef)" in line]
    assert len(text[at + 2].split()) == 2
    assert float(text[at + 2].split()[1]) == pytest.approx(np.exp(summary.solution.coef[0]), rel=1e-5)


def test_a_summary_names_offset_weights_trials_and_clusters() -> None:
    import pandas

    frame = pandas.DataFrame(
        {"y": [2.0, 1, 1, 3, 2, 6], "x": np.arange(6.0) % 4, "o": 0.1, "w": 2.0, "c": [1, 1, 2] * 2}
    )
    named = glm.GLM("poisson", robust="cluster").fit(frame, "y", "w", "o", clusters="c").summary()
    assert named.about == (("weights", "column w"), ("offset", "column o"), ("clusters", "column c"))
    assert re.search(r"^offset +column o$", str(named), re.MULTILINE)
    assert named.to_dict()["data"] == dict(named.about)
    given = glm.GLM("binomial").fit(frame[["x"]], frame["y"], trials=frame["y"] + 1).summary()
    assert given.about == (("trials", "an array"),)


def test_the_page_needs_nothing_else_and_draws_each_coefficient() -> None:
    X, raw = affairs()
    summary, found = pictured(1, X, (raw > 0) * 1.0, "binomial")
    text = page(summary, "affairs & more.csv", found)
    assert "affairs &amp; more.csv" in text
    assert not re.search(r"https?:|<script|<link|src=|@import|url\(", text)
    body = ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", text)).find("body")
    assert body is not None
    titles = [each.text for each in body.iter("h2")]
    assert titles == ["Coefficients with 95 % intervals", "Standardised coefficients", "Residuals", "Convergence"]
    plain, standardised = (each for each in body.iter("table") if each.get("class") == "plot")
    for table, rows in (
        (plain, summary.coefficients[1:]),
        (standardised, sorted(
            (each._replace(estimate=each.estimate * spread) for each, spread in zip(
                summary.coefficients[1:], X.std(0), strict=True)), key=lambda each: -abs(each.estimate))),
    ):  # fmt: skip
        assert [span.text for span in table.iter("span")] == [each.name for each in rows]
        said = [title.text or "" for title in table.iter("title")]
        assert [float(each.split()[1]) for each in said] == pytest.approx([each.estimate for each in rows], rel=1e-5)
        bars = [each for each in table.iter("line") if each.get("class") == "bar"]
        dots = [*table.iter("circle")]
        assert len(bars) == len(dots) == X.shape[1]
        for bar, dot in zip(bars, dots, strict=True):
            low, at, high = (float(str(each).strip("%")) for each in (bar.get("x1"), dot.get("cx"), bar.get("x2")))
            assert 0 <= low <= at <= high <= 100
    residuals, convergence = (each for each in body.iter("svg") if each.get("role") == "img")
    assert len([*residuals.iter("circle")]) == np.count_nonzero(found.counts)
    assert sum(int((each.text or "").split()[0]) for each in residuals.iter("title")) == len(X)
    assert len([*convergence.iter("circle")]) == len(summary.solution.history)


@pytest.mark.parametrize("y", [[2.0, 2, 2, 2], [1.0, 2, 3, 4], [0.0, 0, 0, 5]])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_a_page_of_a_few_rows_or_of_a_perfect_fit_is_a_page(family: str, y: list[float]) -> None:
    summary, found = pictured(3, np.array([[0.0, 1], [1, 1], [2, 1], [3, 1]]), np.array(y), family)
    text = page(summary, "few.csv", found)
    assert "nan" not in text
    assert "inf" not in text[text.index("<h2>") :]  # in pictures; a perfect fit has a likelihood of inf
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", text))


LONG = ["W" * 70, "a_name_without_blanks_" * 6, "Süd mit einer langen Bezeichnung, die sonst abgeschnitten wäre", "x"]


@pytest.mark.parametrize("width", [1100, 400])
def test_no_label_is_cut_off_in_a_browser(width: int, browser: Any, tmp_path: Path) -> None:
    import pandas

    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({"y": rng.poisson(2.0, 200), **{name: rng.normal(size=200) for name in LONG}})
    file = tmp_path / "fit.html"
    file.write_text(_page_of(frame), "utf-8")
    browser.set_window_size(width, 900)
    browser.get(file.as_uri())
    shown = browser.execute_script("""
        return [...document.querySelectorAll('.plot th span')].map(label => {
            const range = document.createRange(), cell = label.closest('th').getBoundingClientRect();
            range.selectNodeContents(label);
            const text = range.getBoundingClientRect();
            return [label.textContent, text.left >= Math.max(cell.left, 0) - 1, text.right <= cell.right + 1,
                    text.top >= cell.top - 1, text.bottom <= cell.bottom + 1,
                    label.scrollWidth <= label.clientWidth + 1 || label.clientWidth === 0];
        })""")
    assert sorted(label for label, *_ in shown) == sorted(LONG * 2)
    assert all(all(inside) for _, *inside in shown)
    wide, room = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= room
    dots = browser.execute_script("""
        return [...document.querySelectorAll('.plot circle')].map(dot => {
            const at = dot.getBoundingClientRect(), cell = dot.closest('td').getBoundingClientRect();
            return at.width > 5 && at.left >= cell.left - 6 && at.right <= cell.right + 6
                && at.top >= cell.top - 1 && at.bottom <= cell.bottom + 1;
        })""")
    assert len(dots) == 2 * len(LONG) and all(dots)
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def _page_of(frame: Any) -> str:
    model = glm.PoissonRegression()
    data = model._fit(frame, Given("y"), model._model())
    return page(model.summary(), "long.csv", diagnosis(data.rows, model._model(), model.solution_))


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
