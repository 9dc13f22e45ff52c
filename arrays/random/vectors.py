"""Draws of vectors whose parameters are large dealt arrays: each part of a vector is drawn where its parameters are.

Whether a parameter is large depends on its shape and dtype alone, so that the numbers do not depend on p or on
layouts.  They differ from those that the same parameter gives as a NumPy array, of which every process has all.

- dirichlet: gamma numbers divided by their sum, in logarithms, so that small parameters give no zeros.
- multinomial: first the trials of each segment of outcomes are drawn, alike on every process; then those inside it.
- multivariate normal: independent numbers times the Cholesky factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from bsp.arrays import build, gathering, linalg
from bsp.arrays.api.creation import Grid
from bsp.arrays.array import Array
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.procedures.operands import computed
from bsp.arrays.random.parameters import DealtParameter, fetch
from bsp.arrays.random.tiles import Box, Draw, Streams, Tiles
from bsp.declared import Costs, Reported, declares

if TYPE_CHECKING:
    from bsp.arrays.random.generator import Generator

_TOLERANCE = 1e-12  # of the sum of probabilities, as in NumPy


def large(x: Any) -> TypeGuard[Array]:
    """Return whether a parameter is a distributed array too large to be brought to every process (over 16 MB)."""
    return isinstance(x, Array) and x.nbytes > gathering.SILENT_BYTES


def dirichlet(generator: Generator, alpha: Array, size: Shape, grid: Grid, process_grid: Grid) -> Array:
    """Draw Dirichlet vectors with a large dealt alpha.  Collective.

    Cost: supersteps that check alpha and bring it to the tiles; then a maximum and a sum over the result's last axis.
    """
    if alpha.ndim != 1:
        raise ValueError(f"dirichlet: alpha is one vector, not of shape {alpha.shape}")
    _refuse((alpha < 0).any(), "alpha < 0")
    shape = (*size, *alpha.shape)
    gammas = generator.standard_gamma(alpha + 1, shape, grid=grid, process_grid=process_grid)
    uniform = generator.random(shape, grid=grid, process_grid=process_grid)
    with np.errstate(divide="ignore", invalid="ignore"):
        # a gamma number of shape alpha is one of shape alpha + 1 times a uniform number to the power 1/alpha
        logs = np.log(gammas) + np.log1p(-uniform) / alpha
        weights: Any = np.exp(logs - logs.max(axis=-1, keepdims=True))
        found: Array = (weights / weights.sum(axis=-1, keepdims=True)).persist()
    return found


def _refused_cost(costs: Costs, wrong: Array, message: str) -> None:
    """Declare the cost of `_refuse`, assuming that nothing is wrong."""
    wrong.persist()


@declares(_refused_cost)
def _refuse(wrong: Array, message: str) -> None:
    """Raise ValueError on every process if `wrong` is true.  Collective."""
    if bool(wrong.persist()):
        raise ValueError(message)


def multivariate_normal(
    generator: Generator, mean: Any, cov: Array, size: Shape, grid: Grid, process_grid: Grid
) -> Array:
    """Draw normal vectors by the Cholesky factor of a large dealt covariance.  Collective.

    Cost: those of `linalg.cholesky` and of a product.
    """
    if np.ndim(mean) != 1 or cov.shape != (np.shape(mean)[0],) * 2:
        raise ValueError(f"multivariate_normal: a mean of shape {np.shape(mean)} and a cov of shape {cov.shape}")
    factor: Any = linalg.cholesky(cov)
    normal = generator.standard_normal((*size, *np.shape(mean)), grid=grid, process_grid=process_grid)
    found: Array = (normal @ factor.T + mean).persist()
    return found


def _sums_cost(costs: Reported, here: World, tiles: Tiles, part: DealtParameter, layout: Layout) -> Any:
    """Declare the cost of `_segment_sums`."""
    segments = -(-tiles.shape[-1] // tiles.lengths[-1])
    costs.allreduce(segments + 2)
    return costs.array((segments,))


@declares(_sums_cost)
def _segment_sums(here: World, tiles: Tiles, part: DealtParameter, layout: Layout) -> Any:
    """Return the probability of each segment of outcomes, where a segment is the outcomes of a tile.

    Collective: one allreduce.  Raises NumPy's ValueError for bad probabilities, on every process.
    """
    step, outcomes = tiles.lengths[-1], tiles.shape[-1]
    told = np.zeros(-(-outcomes // step) + 2)
    for where in tiles.met(layout, here.pid):
        given = part.at(tiles.box(where))
        if not ((given >= 0) & (given <= 1)).all():
            told[-1] = 1
        else:
            told[where[-1]] = given.sum()
            if tiles.box(where)[-1][1] == outcomes:
                told[-2] = given[:-1].sum()
    told = here.private.allreduce(told, "max")
    sums = told[:-2]
    if told[-1]:
        raise ValueError("pvals < 0, pvals > 1 or pvals contains NaNs")
    if sums[:-1].sum() + told[-2] > 1 + _TOLERANCE:
        raise ValueError("sum(pvals[:-1]) > 1.0")
    sums[-1] += max(0.0, 1 - sums.sum())  # as NumPy: what is missing to 1 belongs to the last outcome
    return sums


def multinomial(here: World, n: Any, pvals: Array, shape: Shape, layout: Layout, rows: Streams) -> tuple[Tiles, Draw]:
    """Return the tiles, and the function that draws a tile, of counts of a shape whose last axis is the outcomes.

    Collective.
    rows : the streams of the counts of segments; a segment is the outcomes of a tile.
    Cost: one superstep brings pvals to the tiles; one allreduce combines their sums over segments, and their errors.
    """
    (node,) = computed(build.cast(build.strong(pvals._node), np.dtype(float)))
    tiles, part = Tiles(shape), DealtParameter(node)
    fetch(here, "multinomial", [part], tiles, layout)
    sums = _segment_sums(here, tiles, part, layout)
    counted: dict[Box, np.ndarray] = {}

    def of_segments(box: Box) -> np.ndarray:
        """Return how many trials of each vector of a tile fall on each segment; equal on every process."""
        if box not in counted:
            number = 0
            for (low, _), length, whole in zip(box, tiles.lengths, shape, strict=False):
                number = number * -(-whole // length) + low // length
            chances = sums / max(1.0, sums.sum())
            counted[box] = rows(number).multinomial(n, chances, size=tuple(high - low for low, high in box))
        return counted[box]

    def draw(generator: np.random.Generator, box: Box) -> Any:
        segment = box[-1][0] // tiles.lengths[-1]
        trials = of_segments(box[:-1])[..., segment]
        given = part.at(box)
        inside = given / sums[segment] if sums[segment] > 0 else np.zeros_like(given)
        return generator.multinomial(trials, inside)

    return tiles, draw
