"""A fitted model as one HTML page that needs nothing else: summary, intervals and convergence as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bsp.algorithms.glm.inference.summary import Coefficient, Summary

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #6a737d; --line: #d0d7de; --paper: #fff; --mark: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --paper: #0d1117; --mark: #6cb6ff; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: 0; }  h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.from { color: var(--soft); margin-top: 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 1rem; }
th, td { padding: .15rem .8rem; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
.glm > p:first-child { display: none; }
svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }  svg .soft { fill: var(--soft); }
svg .axis { stroke: var(--line); }  svg .bar { stroke: var(--mark); stroke-width: 2; }  svg .dot { fill: var(--mark); }
svg .curve { fill: none; stroke: var(--mark); stroke-width: 2; }
"""
_WIDTH, _ROW = 860, 22


def page(summary: Summary, source: str) -> str:
    """Return the page as HTML; `source` names the data."""
    level = f"{100 * summary.level:g} %"
    parts = [
        f"<h1>{escape(summary.title)}</h1><p class='from'>{escape(source)}</p>",
        summary.to_html(),
    ]
    shown = [each for each in summary.coefficients if math.isfinite(each.low) and math.isfinite(each.high)]
    others = [each for each in shown if each.name != "intercept"]
    if others:
        parts.append(f"<h2>Coefficients with {level} intervals</h2>{intervals(others)}")
    norms = [norm for _, norm in summary.solution.history]
    if len(norms) > 1:
        parts.append(f"<h2>Convergence</h2><p>Norm of the gradient after each iteration</p>{descent(norms)}")
    body = "\n".join(parts)
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{escape(summary.title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def intervals(coefficients: Sequence[Coefficient]) -> str:
    """Draw a line for each coefficient: its interval, its estimate, and the position of 0."""
    left = min(300, 12 + 7 * max(len(each.name) for each in coefficients))
    low = min(0.0, *(each.low for each in coefficients))
    high = max(0.0, *(each.high for each in coefficients))
    high = high if high > low else low + 1
    height = _ROW * len(coefficients) + 30

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (_WIDTH - left - 20)

    bottom = height - 24
    marks = [
        f"<line class='axis' x1='{x(tick):.1f}' x2='{x(tick):.1f}' y1='0' y2='{bottom}'/>"
        f"<text class='soft' x='{x(tick):.1f}' y='{height - 8}' text-anchor='middle'>{tick:g}</text>"
        for tick in ticks(low, high)
    ]
    marks.append(f"<line x1='{x(0):.1f}' x2='{x(0):.1f}' y1='0' y2='{bottom}' stroke='currentColor'/>")
    for k, each in enumerate(coefficients):
        y = _ROW * k + _ROW / 2
        name = each.name if len(each.name) <= 40 else each.name[:39] + "…"
        marks.append(
            f"<g><title>{escape(each.name)}: {each.estimate:.6g} [{each.low:.6g}, {each.high:.6g}]</title>"
            f"<text x='{left - 10}' y='{y + 4}' text-anchor='end'>{escape(name)}</text>"
            f"<line class='bar' x1='{x(each.low):.1f}' x2='{x(each.high):.1f}' y1='{y}' y2='{y}'/>"
            f"<circle class='dot' cx='{x(each.estimate):.1f}' cy='{y}' r='4'/></g>"
        )
    return _svg(height, marks, "coefficients and their intervals")


def descent(norms: Sequence[float]) -> str:
    """Draw the gradient's norm by iteration, on a logarithmic axis."""
    logs = [math.log10(max(norm, 1e-300)) for norm in norms]
    low, high = math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1)
    left, height = 60, 220
    bottom = height - 34

    def x(k: int) -> float:
        return left + k / (len(logs) - 1) * (_WIDTH - left - 30)

    def y(value: float) -> float:
        return 10 + (high - value) / (high - low) * (bottom - 10)

    step = max(1, (high - low) // 6)
    marks = [
        f"<line class='axis' x1='{left}' x2='{_WIDTH - 20}' y1='{y(k):.1f}' y2='{y(k):.1f}'/>"
        f"<text class='soft' x='{left - 8}' y='{y(k) + 4:.1f}' text-anchor='end'>1e{k}</text>"
        for k in range(low, high + 1, step)
    ]
    every = max(1, len(logs) // 10)
    marks += [
        f"<text class='soft' x='{x(k):.1f}' y='{height - 14}' text-anchor='middle'>{k}</text>"
        for k in range(0, len(logs), every)
    ]
    points = " ".join(f"{x(k):.1f},{y(value):.1f}" for k, value in enumerate(logs))
    marks.append(f"<polyline class='curve' points='{points}'/>")
    marks += [
        f"<circle class='dot' cx='{x(k):.1f}' cy='{y(value):.1f}' r='4'><title>{norms[k]:.3g}</title></circle>"
        for k, value in enumerate(logs)
    ]
    return _svg(height, marks, "norm of the gradient by iteration")


def ticks(low: float, high: float) -> list[float]:
    """Return about six round numbers from low to high."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each for each in (power, 2 * power, 5 * power, 10 * power) if each >= rough)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _svg(height: float, marks: Sequence[str], label: str) -> str:
    return f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='{label}'>{''.join(marks)}</svg>"
