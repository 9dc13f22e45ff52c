"""Pictures of a report, as HTML that needs no script: bars with labels of any length, curves, clouds of cells.

Labels are text of the page, not of a picture, so the browser measures and wraps them: none is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from bsp.algorithms.glm.inference.diagnosis import Diagnosis
from bsp.algorithms.glm.inference.summary import Coefficient

STYLE = """
.plot { width: 100%; table-layout: auto; margin: .5rem 0 1rem; }
.plot th { font-weight: 400; font-size: 13px; text-align: right; overflow-wrap: anywhere; width: 1%; min-width: 7rem;
  border: 0; padding: 0 .8rem 0 0; }
.plot th span { display: inline-block; max-width: min(20rem, 40vw); width: max-content; overflow-wrap: anywhere; }
.plot td { position: relative; height: 22px; border: 0; padding: 0; min-width: 10rem; }
.plot td svg { position: absolute; inset: 0; width: 100%; height: 100%; max-width: none; }
.plot td:last-child, .plot { padding-right: 2rem; box-sizing: border-box; }
svg { max-width: 100%; height: auto; overflow: visible; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }  svg .soft { fill: var(--soft); }
svg .axis { stroke: var(--line); }  svg .zero { stroke: var(--soft); }
svg .bar { stroke: var(--mark); stroke-width: 2; }  svg .dot { fill: var(--mark); }
svg .cell { fill: var(--mark); fill-opacity: .55; }  svg .curve { fill: none; stroke: var(--mark); stroke-width: 2; }
svg .mean { fill: none; stroke: var(--warm); stroke-width: 2; }
"""
_WIDTH = 860


def intervals(coefficients: Sequence[Coefficient], label: str) -> str:
    """Draw a line for each coefficient: its label, its interval, its estimate, and the position of 0."""
    ends = [end for each in coefficients for end in (each.low, each.high, each.estimate) if math.isfinite(end)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    high = high if high > low else low + 1
    marks = ticks(low, high)

    def x(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.3f}%"

    lines = "".join(
        f"<line class='{'axis' if tick else 'zero'}' x1='{x(tick)}' x2='{x(tick)}' y1='0' y2='100%'/>"
        for tick in sorted({*marks, 0.0}, key=abs, reverse=True)
    )
    rows = []
    for each in coefficients:
        bar, said = "", f"{each.name}: {each.estimate:.6g}"
        if math.isfinite(each.low) and math.isfinite(each.high):
            bar = f"<line class='bar' x1='{x(each.low)}' x2='{x(each.high)}' y1='50%' y2='50%'/>"
            said += f" [{each.low:.6g}, {each.high:.6g}]"
        rows.append(
            f"<tr><th scope='row'><span>{escape(each.name)}</span></th><td><svg><title>{escape(said)}</title>"
            f"{lines}{bar}<circle class='dot' cx='{x(each.estimate)}' cy='50%' r='4'/></svg></td></tr>"
        )
    numbers = "".join(f"<text class='soft' x='{x(tick)}' y='15' text-anchor='middle'>{tick:g}</text>" for tick in marks)
    return (
        f"<table class='plot' aria-label='{escape(label)}'>{''.join(rows)}"
        f"<tr><th></th><td><svg>{numbers}</svg></td></tr></table>"
    )


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


def cloud(found: Diagnosis) -> str:
    """Draw residuals by linear predictor: a disc in each cell with rows, larger for more, and the mean's curve."""
    left, height = 60, 380
    bottom, right = height - 44, _WIDTH - 20
    up, across = found.counts.shape
    (low, high), (least, most) = map(_range, (found.predictors, found.residuals))
    floor, ceiling = min(least, 0.0), max(most, 0.0)

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (right - left)

    def y(value: float) -> float:
        return 10 + (ceiling - value) / (ceiling - floor) * (bottom - 10)

    marks = [
        f"<line class='axis' x1='{x(tick):.1f}' x2='{x(tick):.1f}' y1='10' y2='{bottom}'/>"
        f"<text class='soft' x='{x(tick):.1f}' y='{bottom + 16}' text-anchor='middle'>{tick:g}</text>"
        for tick in ticks(low, high)
    ]
    marks += [
        f"<line class='{'axis' if tick else 'zero'}' x1='{left}' x2='{right}' y1='{y(tick):.1f}' y2='{y(tick):.1f}'/>"
        f"<text class='soft' x='{left - 8}' y='{y(tick) + 4:.1f}' text-anchor='end'>{tick:g}</text>"
        for tick in ticks(floor, ceiling)
    ]
    marks.append(
        f"<text x='{(left + right) / 2:.0f}' y='{height - 8}' text-anchor='middle'>linear predictor</text>"
        f"<text x='14' y='{bottom / 2:.0f}' text-anchor='middle' transform='rotate(-90 14 {bottom / 2:.0f})'>"
        "Pearson residual</text>"
    )
    largest = 0.62 * (right - left) / across  # discs of neighbours that are full overlap a little
    fullest = float(found.counts.max()) or 1.0
    for row, column in zip(*np.nonzero(found.counts), strict=True):
        count = float(found.counts[row, column])
        at, of = (low + (column + 0.5) / across * (high - low)), (least + (row + 0.5) / up * (most - least))
        radius = max(1.2, largest * math.sqrt(count / fullest)) if fullest > 1 else 3.0
        marks.append(
            f"<circle class='cell' cx='{x(at):.1f}' cy='{y(of):.1f}' r='{radius:.1f}'>"
            f"<title>{count:.0f} near ({at:.4g}, {of:.4g})</title></circle>"
        )
    there = np.flatnonzero(np.isfinite(found.means))
    points = " ".join(
        f"{x(low + (k + 0.5) / len(found.means) * (high - low)):.1f},{y(float(found.means[k])):.1f}"
        for k in there.tolist()
    )
    marks.append(f"<polyline class='mean' points='{points}'/>")
    return _svg(height, marks, "Pearson residuals by linear predictor")


def _range(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an axis that has some length."""
    low, high = ends if all(map(math.isfinite, ends)) else (0.0, 0.0)
    around = max(abs(low), abs(high), 1.0) / 2 if not high > low else 0.0
    return low - around, high + around


def ticks(low: float, high: float) -> list[float]:
    """Return about six round numbers from low to high."""
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each for each in (power, 2 * power, 5 * power, 10 * power) if each >= rough)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _svg(height: float, marks: Sequence[str], label: str) -> str:
    return f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='{label}'>{''.join(marks)}</svg>"
