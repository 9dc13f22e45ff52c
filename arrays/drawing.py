"""Drawings of an array's blocks for notebooks: each block in its owner's colour, with its pid."""

from __future__ import annotations

from html import escape
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bsp.arrays.expressions.graph import LEAF
from bsp.cost.units import in_bytes

if TYPE_CHECKING:
    from bsp.arrays.array import Array

_SIDE = 240  # pixels of the longer side
_SHORTEST = 40  # pixels of a side at least
_MOST = 32  # blocks along an axis that are drawn at most


def drawn(array: Array) -> str:
    """Return HTML with a line of text about an array and an SVG drawing of the two axes with most blocks."""
    layout = array.layout
    head = f"<b>{array.dtype}{list(array.shape)}</b> {escape(layout.where)}, {in_bytes(array.nbytes)}"
    if layout.blocks > 1:
        block = [int(np.diff(axis.bounds).max(initial=0)) for axis in layout.axes]
        head += f"; a block at most {' x '.join(map(str, block))}, {in_bytes(prod(block) * array.dtype.itemsize)}"
    if array._node.op is not LEAF:
        head += "; lazy: nothing is computed yet"
    if not array.size or not array.ndim:
        return f"<div>{head}</div>"
    owner = np.zeros(layout.grid, int) if layout.replicated else layout.owner
    # the two axes with most blocks, the last ones if several have as many; position 0 of the others
    shown_axes = sorted(sorted(range(array.ndim), key=lambda k: (layout.axes[k].parts, k))[-2:])
    owner = owner[tuple(slice(None) if k in shown_axes else 0 for k in range(array.ndim))]
    axes = [layout.axes[k] for k in shown_axes]
    cuts = [axis.bounds for axis in axes]
    if len(axes) == 1:
        owner, cuts = owner[None, :], [np.array([0, 1]), *cuts]
    more = " (the first blocks)" if any(len(cut) - 1 > _MOST for cut in cuts) else ""
    cuts = [cut[: _MOST + 1] for cut in cuts]  # those that are drawn fill the drawing
    lengths = [max(int(cut[-1]), 1) for cut in cuts]
    scale = _SIDE / max(lengths)
    sides = [max(_SHORTEST, length * scale) for length in lengths]
    places = [cut * (side / length) for cut, side, length in zip(cuts, sides, lengths, strict=True)]
    boxes = []
    for i in range(len(cuts[0]) - 1):
        for j in range(len(cuts[1]) - 1):
            y, x = places[0][i], places[1][j]
            height, width = places[0][i + 1] - y, places[1][j + 1] - x
            if height <= 0 or width <= 0:
                continue
            pid = int(owner[i, j])
            name = "all" if layout.replicated else str(pid)
            colour = "#ddd" if layout.replicated else f"hsl({pid * 137.508 % 360:.0f} 60% 75%)"
            boxes.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                f'fill="{colour}" stroke="#444">'
                f"<title>block {i}, {j} of process {name}</title></rect>"
            )
            if height >= 14 and width >= 8 * len(name) + 4:
                boxes.append(
                    f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}" font-size="11" '
                    f'text-anchor="middle">{name}</text>'
                )
    width, height = sides[1], sides[0]
    return (
        f'<div>{head}{more}<br><svg width="{width + 2:.0f}" height="{height + 2:.0f}" '
        f'viewBox="-1 -1 {width + 2:.0f} {height + 2:.0f}">{"".join(boxes)}</svg></div>'
    )
