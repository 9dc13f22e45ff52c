"""A fitted model as one HTML page that needs nothing else: the summary, and pictures of coefficients and residuals."""

from __future__ import annotations

import math
from html import escape

from bsp.algorithms.glm.inference.diagnosis import Diagnosis
from bsp.algorithms.glm.inference.drawing import STYLE, cloud, descent, intervals
from bsp.algorithms.glm.inference.summary import Coefficient, Summary

_STYLE = f"""
:root {{ color-scheme: light dark; --ink: #1b1f24; --soft: #6a737d; --line: #d0d7de; --paper: #fff; --mark: #0b5cad;
  --warm: #b3400d; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --paper: #0d1117; --mark: #6cb6ff; --warm: #ff9c6b; }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.4rem; margin-bottom: 0; }}  h2 {{ font-size: 1.1rem; margin: 2rem 0 .5rem; }}
.from {{ color: var(--soft); margin-top: 0; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }}
th, td {{ padding: .15rem .8rem; border-bottom: 1px solid var(--line); }}
th {{ font-weight: 600; }}
.glm {{ overflow-x: auto; }}  .glm > p:first-child {{ display: none; }}
.glm tbody th {{ min-width: 8rem; vertical-align: top; }}
.glm thead th, .glm td[style*=right] {{ white-space: nowrap; }}
{STYLE}"""


def page(summary: Summary, source: str, found: Diagnosis | None = None) -> str:
    """Return the page as HTML.

    source : the name of the data.   found : what pictures of rows need; None: they are left out.
    """
    level = f"{100 * summary.level:g} %"
    parts = [
        f"<h1>{escape(summary.title)}</h1><p class='from'>{escape(source)}</p>",
        summary.to_html(),
    ]
    slopes = summary.slopes
    shown = [each for each in slopes if math.isfinite(each.low) and math.isfinite(each.high)]
    if shown:
        title = f"Coefficients with {level} intervals"
        parts.append(f"<h2>{title}</h2>{intervals(shown, title)}")
    if found is not None and slopes:
        parts.append(
            "<h2>Standardised coefficients</h2><p>Change of the linear predictor by one standard deviation of the "
            f"column, the largest first</p>{intervals(_standardised(slopes, found), 'standardised coefficients')}"
        )
    if found is not None:
        parts.append(
            "<h2>Residuals</h2><p>Each disc stands for the rows near it, a larger one for more; the curve is their "
            f"mean, which stays near 0 if link and columns fit</p>{cloud(found)}"
        )
    norms = [norm for _, norm in summary.solution.history]
    if len(norms) > 1:
        parts.append(f"<h2>Convergence</h2><p>Norm of the gradient after each iteration</p>{descent(norms)}")
    body = "\n".join(parts)
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{escape(summary.title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _standardised(slopes: list[Coefficient], found: Diagnosis) -> list[Coefficient]:
    """Return coefficients and intervals times the standard deviations of their columns, the largest first."""
    scaled = [
        each._replace(estimate=each.estimate * spread, low=each.low * spread, high=each.high * spread)
        for each, spread in zip(slopes, found.spreads.tolist(), strict=True)
    ]
    return sorted(scaled, key=lambda each: -abs(each.estimate))
