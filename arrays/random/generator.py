"""The random generator: arrays whose numbers depend on the seed and the shape, and on nothing else.

    rng = ba.random.default_rng(7)
    x = rng.normal(size=(1_000_000, 20))        # the same numbers on 1 process and on 64, in any grid

A generator has NumPy's methods.  Every process makes one with the same seed and calls the same methods in the same
order.  Each draw is numbered, and its numbers come from tiles of the shape (see `tiles`).  So they differ from those
of NumPy's own generator for this seed.  Creation costs no words and no superstep.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from operator import index
from typing import Any, Literal, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray, checked_shape, layout_for, made
from bsp.arrays.api.dtypes import ndim
from bsp.arrays.api.manipulation import reshape
from bsp.arrays.api.reductions import cumulative_sum
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Axis, Shape, automatic, layout_of
from bsp.arrays.expressions.merging import merged_blocks
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.operands import computed, layout_at
from bsp.arrays.random import parameters as random_parameters
from bsp.arrays.random import vectors
from bsp.arrays.random.chances import checked_chances, least_of
from bsp.arrays.random.draws import FLOAT, INT, drawn_array, drawn_number, position_in
from bsp.arrays.random.order import Permutation
from bsp.arrays.random.parameters import DealtParameter
from bsp.arrays.random.reordering import in_order, reordered
from bsp.arrays.random.tiles import Box, Streams, Tiles
from bsp.arrays.selection.selecting import take_along_axis
from bsp.arrays.sorting.searching import searchsorted
from bsp.arrays.sorting.sorting import argsort
from bsp.arrays.typing import ArrayLike, DTypeLike, Grid, Int, ShapeLike
from bsp.arrays.views import store
from bsp.declared import declares
from bsp.values.payload import as_array

_ADVICE = "every tile is drawn with all of it"
_JOB = 0x6A6F62  # separates streams of the job's seed from those of a program's own seeds
_UNSEEDED = "arrays.random"  # key of the count of generators that a process has made without a seed


class Generator:
    """NumPy's `Generator` for distributed arrays; made by `default_rng`.

    Every method takes NumPy's arguments, and `size=`, `dtype=`, `grid=`, `process_grid=`.  Parameters are numbers, or
    arrays that broadcast to `size`: NumPy arrays, equal on all processes, or distributed ones.  Of a dealt parameter
    each process receives the elements that it draws with, in one superstep; one more superstep raises an error on all
    processes if a parameter is out of range.  The result has the layout of a parameter of its shape, if there is one.
    The parameters of vectors (`multivariate_normal`, `dirichlet`, `multinomial`) are brought to every process if they
    have at most 16 MB.  Larger ones stay where they are (see `vectors`), except for the covariance of
    `multivariate_normal` unless method="cholesky": that is gathered on every process with a GatherWarning.
    Without a size and with numbers for parameters the result is a number, the same on every process.  The types say
    so for `random`, `standard_normal`, `normal`, `uniform` and `integers`; for the other methods they say Array.
    A generator can be pickled, and be part of a bsp.State: it then continues with its next draw.
    """

    __slots__ = ("_draws", "_entropy", "_key", "_spawned")

    def __init__(self, entropy: int | Sequence[int], key: Sequence[int] = (), spawned: int = 0) -> None:
        self._entropy = entropy
        self._key = tuple(key)
        self._draws = 0
        self._spawned = spawned

    def __repr__(self) -> str:
        return f"<generator of seed {self._entropy}{list(self._key) if self._key else ''} after {self._draws} draws>"

    def spawn(self, n_children: int) -> list[Generator]:
        """Return new generators whose numbers are independent of this one's and of each other's."""
        if n_children < 0:
            raise ValueError(f"spawn({n_children}): a generator has 0 or more children")
        first, self._spawned = self._spawned, self._spawned + n_children
        return [Generator(self._entropy, (*self._key, k)) for k in range(first, self._spawned)]

    # ------------------------------------------------------------------------- how draws are made

    def _next(self) -> tuple[int, ...]:
        """Return the key of the next draw, and count the draw."""
        self._draws += 1
        return (*self._key, self._draws - 1)

    def _drawn(
        self, name: str, parameters: Sequence[Any], size: Any, natural: DType, dtype: Any, grid: Grid,
        process_grid: Grid, options: dict[str, Any], core: Sequence[int] | None = None, last: Sequence[int] = (),
    ) -> Any:  # fmt: skip
        """Draw from the distribution that is NumPy's method `name`; every draw comes through here.

        core : the shape of the vectors drawn; None: numbers, with parameters that broadcast elementwise.
        last : for multinomial with rows of probabilities, their length, which `size` lacks; n has one element there.
        """
        here = world()
        key = self._next()
        given = random_parameters.given(here, parameters)
        arrays = [] if core is not None else [each for each in given if getattr(each, "shape", ())]
        if size is None and not arrays and core is None:
            kind = natural if dtype is None else element_type(dtype)

            def one(generator: np.random.Generator) -> Any:
                number = getattr(generator, name)(*given, **options)
                return number if dtype is None else kind.type(number)

            return drawn_number(Streams(self._entropy, key), kind, one)
        found: Shape = np.broadcast_shapes(*[each.shape for each in arrays]) if size is None and core is None else ()
        if size is not None:
            found = (*checked_shape(size), *last)
        if not all(build.broadcasts(each.shape, found) for each in arrays):
            raise ValueError(
                f"{name}: parameters of shapes {[each.shape for each in arrays]} do not broadcast to size={found}"
            )
        shape = (*found, *(core or ()))
        kind = natural if dtype is None else element_type(dtype)
        parts = [each for each in arrays if isinstance(each, DealtParameter)]
        lying = [part.layout for part in parts if part.shape == shape]
        asked_for = grid is not None or process_grid is not None
        layout = lying[0] if lying and not asked_for else layout_for(shape, grid, process_grid)
        streams = Streams(self._entropy, key)
        tiles = Tiles(shape, len(core or last))
        if parts:
            random_parameters.fetch(here, name, parts, tiles, layout)
        elif not last:
            _check(name, streams, given, options, core is not None)
        leading = len(found)

        def draw(generator: np.random.Generator, box: Box) -> Any:
            box = box[:leading]
            index = tuple(slice(*span) for span in box)
            mine = [
                each.at(box) if isinstance(each, DealtParameter)
                else np.broadcast_to(each, found)[index] if arrays and np.ndim(each)
                else each
                for each in given
            ]  # fmt: skip
            lengths = tuple(high - low for low, high in box)
            if last:
                trials, chances = mine
                return generator.multinomial(trials[..., 0], chances, size=lengths[: -len(last)])
            return getattr(generator, name)(*mine, size=lengths, **options)

        return drawn_array(here, kind, layout, streams, draw, tiles, bool(parts or last), (name, *parameters))

    # ----------------------------------------------------------------- distributions of their own

    @overload
    def random(
        self, size: None = None, dtype: DTypeLike = np.float64, out: None = None, *, grid: Grid = None,
        process_grid: Grid = None,
    ) -> float: ...  # fmt: skip
    @overload
    def random(
        self, size: ShapeLike | None = None, dtype: DTypeLike = np.float64, out: Array | None = None, *,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array: ...  # fmt: skip
    def random(
        self, size: ShapeLike | None = None, dtype: DTypeLike = np.float64, out: Array | None = None, *,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Draw uniform numbers in [0, 1); float64 or float32.  No words, no superstep."""
        return self._plain("random", (), size, dtype, out, grid, process_grid)

    @overload
    def standard_normal(
        self, size: None = None, dtype: DTypeLike = np.float64, out: None = None, *, grid: Grid = None,
        process_grid: Grid = None,
    ) -> float: ...  # fmt: skip
    @overload
    def standard_normal(
        self, size: ShapeLike | None = None, dtype: DTypeLike = np.float64, out: Array | None = None, *,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array: ...  # fmt: skip
    def standard_normal(
        self, size: ShapeLike | None = None, dtype: DTypeLike = np.float64, out: Array | None = None, *,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Draw normal numbers of mean 0 and standard deviation 1; float64 or float32.  No words, no superstep."""
        return self._plain("standard_normal", (), size, dtype, out, grid, process_grid)

    def standard_exponential(
        self, size: ShapeLike | None = None, dtype: DTypeLike = np.float64, method: Literal["zig", "inv"] = "zig",
        out: Array | None = None, *, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw exponential numbers of scale 1; float64 or float32.  No words, no superstep."""
        found: Array = self._plain("standard_exponential", (), size, dtype, out, grid, process_grid, method=method)
        return found

    def standard_gamma(
        self, shape: ArrayLike, size: ShapeLike | None = None, dtype: DTypeLike = np.float64, out: Array | None = None,
        *, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Gamma numbers of scale 1; float64 or float32.  No words, no superstep, unless `shape` is dealt."""
        found: Array = self._plain("standard_gamma", (shape,), size, dtype, out, grid, process_grid)
        return found

    def _plain(
        self, name: str, parameters: Sequence[Any], size: Any, dtype: Any, out: Any, grid: Grid, process_grid: Grid,
        **options: Any,
    ) -> Any:  # fmt: skip
        kind = element_type(dtype)
        if kind not in (np.float64, np.float32):
            raise TypeError(f"Unsupported dtype {kind!r} for {name}")
        if out is not None:
            if not isinstance(out, Array):
                raise TypeError(f"{name}: out= takes an array of bsp.arrays, not {type(out).__name__}")
            if out.dtype != kind:
                raise TypeError(f"Supplied output array has wrong type. Expected {kind}, got {out.dtype}")
            if size is not None and checked_shape(size) != out.shape:
                raise ValueError("size must match out.shape when used together")
            size = out.shape
        found = self._drawn(name, parameters, size, kind, None, grid, process_grid, {"dtype": kind.type, **options})
        return found if out is None else stored(found, out)

    @overload
    def integers(
        self, low: Int, high: Int | None = None, size: None = None, dtype: DTypeLike = np.int64,
        endpoint: builtins.bool = False, *, grid: Grid = None, process_grid: Grid = None,
    ) -> np.int64: ...  # fmt: skip
    @overload
    def integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: ShapeLike | None = None,
        dtype: DTypeLike = np.int64, endpoint: builtins.bool = False, *, grid: Grid = None, process_grid: Grid = None,
    ) -> Array: ...  # fmt: skip
    def integers(
        self, low: ArrayLike, high: ArrayLike | None = None, size: ShapeLike | None = None,
        dtype: DTypeLike = np.int64, endpoint: builtins.bool = False, *, grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Draw integers from low to high (from 0 to low if high is None); high itself only with `endpoint`.

        No words, no superstep, unless a bound is dealt.
        """
        bounds = (0, low) if high is None else (low, high)
        kind = element_type(dtype)
        if kind.kind not in "iub":
            raise TypeError(f"Unsupported dtype {kind!r} for integers")
        options = {"dtype": kind.type, "endpoint": endpoint}
        return self._drawn("integers", bounds, size, kind, None, grid, process_grid, options)

    def multinomial(
        self, n: ArrayLike, pvals: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw the number of times that each outcome occurs in n trials: shape (*size, outcomes).

        pvals : the probabilities of the outcomes along its last axis.  The other axes, and those of n, broadcast to
            size; of dealt arrays each process receives the rows that it draws with.
        """
        if ndim(n) or ndim(pvals) > 1:
            trials: Any = n[..., None] if isinstance(n, Array) else np.asarray(n)[..., None]
            chances = pvals if isinstance(pvals, Array) else np.asarray(pvals)
            last = chances.shape[-1:]
            rows: Array = self._drawn(
                "multinomial", (trials, chances), size, INT, dtype, grid, process_grid, {}, last=last
            )  # fmt: skip
            return rows
        if vectors.large(pvals) and pvals.ndim == 1:
            return self._of_large(n, pvals, () if size is None else checked_shape(size), dtype, grid, process_grid)
        whole = brought("multinomial: pvals", pvals, _ADVICE)
        core = np.shape(whole)
        found: Array = self._drawn("multinomial", (n, whole), size, INT, dtype, grid, process_grid, {}, core)
        return found

    def _of_large(self, n: Any, pvals: Array, size: Shape, dtype: Any, grid: Grid, process_grid: Grid) -> Array:
        """Draw from a multinomial distribution with one large dealt vector of probabilities.  Collective."""
        here, shape = world(), (*size, *pvals.shape)
        keys = self._next(), self._next()
        rows, streams = (Streams(self._entropy, key) for key in keys)
        layout = layout_for(shape, grid, process_grid)
        tiles, draw = vectors.multinomial(here, n, pvals, shape, layout, rows)
        return drawn_array(here, INT if dtype is None else element_type(dtype), layout, streams, draw, tiles)

    def dirichlet(
        self, alpha: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Dirichlet vectors of len(alpha) numbers that sum to 1: shape (*size, len(alpha))."""
        if vectors.large(alpha):
            found = vectors.dirichlet(self, alpha, () if size is None else checked_shape(size), grid, process_grid)
            return found if dtype is None else found.astype(element_type(dtype))
        whole = brought("dirichlet: alpha", alpha, _ADVICE)
        drawn: Array = self._drawn("dirichlet", (whole,), size, FLOAT, dtype, grid, process_grid, {}, np.shape(whole))
        return drawn

    def multivariate_normal(
        self, mean: ArrayLike, cov: ArrayLike, size: ShapeLike | None = None,
        check_valid: Literal["warn", "raise", "ignore"] = "warn", tol: float = 1e-8, *,
        method: Literal["svd", "eigh", "cholesky"] = "svd", dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw normal vectors of a mean and a covariance: shape (*size, len(mean))."""
        options = {"check_valid": check_valid, "tol": tol, "method": method}
        if vectors.large(cov) and method == "cholesky":
            lengths = () if size is None else checked_shape(size)
            found = vectors.multivariate_normal(self, mean, cov, lengths, grid, process_grid)
            return found if dtype is None else found.astype(element_type(dtype))
        advice = f"{_ADVICE}; method='cholesky' leaves a large covariance where it is"
        both = brought("multivariate_normal: mean", mean, _ADVICE), brought("multivariate_normal: cov", cov, advice)
        core = np.shape(both[0])
        drawn: Array = self._drawn("multivariate_normal", both, size, FLOAT, dtype, grid, process_grid, options, core)
        return drawn

    # ----------------------------------------------------------------- distributions like all others

    def _draws_of(
        self, name: str, parameters: Sequence[Any], size: Any, natural: DType, dtype: Any, grid: Grid,
        process_grid: Grid,
    ) -> Array:  # fmt: skip
        found: Array = self._drawn(name, parameters, size, natural, dtype, grid, process_grid, {})
        return found

    def beta(
        self, a: ArrayLike, b: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Beta numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("beta", (a, b), size, FLOAT, dtype, grid, process_grid)

    def binomial(
        self, n: ArrayLike, p: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw binomial numbers, successes in n trials.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("binomial", (n, p), size, INT, dtype, grid, process_grid)

    def chisquare(
        self, df: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw chi-square numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("chisquare", (df,), size, FLOAT, dtype, grid, process_grid)

    def exponential(
        self, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw exponential numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("exponential", (scale,), size, FLOAT, dtype, grid, process_grid)

    def f(
        self, dfnum: ArrayLike, dfden: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Fisher's F numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("f", (dfnum, dfden), size, FLOAT, dtype, grid, process_grid)

    def gamma(
        self, shape: ArrayLike, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Gamma numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("gamma", (shape, scale), size, FLOAT, dtype, grid, process_grid)

    def geometric(
        self, p: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw geometric numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("geometric", (p,), size, INT, dtype, grid, process_grid)

    def gumbel(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Gumbel numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("gumbel", (loc, scale), size, FLOAT, dtype, grid, process_grid)

    def hypergeometric(
        self, ngood: ArrayLike, nbad: ArrayLike, nsample: ArrayLike, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw hypergeometric numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("hypergeometric", (ngood, nbad, nsample), size, INT, dtype, grid, process_grid)

    def laplace(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Laplace numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("laplace", (loc, scale), size, FLOAT, dtype, grid, process_grid)

    def logistic(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw logistic numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("logistic", (loc, scale), size, FLOAT, dtype, grid, process_grid)

    def lognormal(
        self, mean: ArrayLike = 0.0, sigma: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw log-normal numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("lognormal", (mean, sigma), size, FLOAT, dtype, grid, process_grid)

    def logseries(
        self, p: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw logarithmic series numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("logseries", (p,), size, INT, dtype, grid, process_grid)

    def negative_binomial(
        self, n: ArrayLike, p: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw negative binomial numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("negative_binomial", (n, p), size, INT, dtype, grid, process_grid)

    def noncentral_chisquare(
        self, df: ArrayLike, nonc: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw noncentral chi-square numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("noncentral_chisquare", (df, nonc), size, FLOAT, dtype, grid, process_grid)

    def noncentral_f(
        self, dfnum: ArrayLike, dfden: ArrayLike, nonc: ArrayLike, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw noncentral F numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("noncentral_f", (dfnum, dfden, nonc), size, FLOAT, dtype, grid, process_grid)

    @overload
    def normal(
        self, loc: float = 0.0, scale: float = 1.0, size: None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> float: ...  # fmt: skip
    @overload
    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array: ...  # fmt: skip
    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Draw normal numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("normal", (loc, scale), size, FLOAT, dtype, grid, process_grid)

    def pareto(
        self, a: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Pareto II numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("pareto", (a,), size, FLOAT, dtype, grid, process_grid)

    def poisson(
        self, lam: ArrayLike = 1.0, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Poisson numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("poisson", (lam,), size, INT, dtype, grid, process_grid)

    def power(
        self, a: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw power numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("power", (a,), size, FLOAT, dtype, grid, process_grid)

    def rayleigh(
        self, scale: ArrayLike = 1.0, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Rayleigh numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("rayleigh", (scale,), size, FLOAT, dtype, grid, process_grid)

    def standard_cauchy(
        self, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Cauchy numbers.  No words, no superstep."""
        return self._draws_of("standard_cauchy", (), size, FLOAT, dtype, grid, process_grid)

    def standard_t(
        self, df: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Student's t numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("standard_t", (df,), size, FLOAT, dtype, grid, process_grid)

    def triangular(
        self, left: ArrayLike, mode: ArrayLike, right: ArrayLike, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw triangular numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("triangular", (left, mode, right), size, FLOAT, dtype, grid, process_grid)

    @overload
    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> float: ...  # fmt: skip
    @overload
    def uniform(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Array: ...  # fmt: skip
    def uniform(
        self, low: ArrayLike = 0.0, high: ArrayLike = 1.0, size: ShapeLike | None = None, *,
        dtype: DTypeLike | None = None, grid: Grid = None, process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Draw uniform numbers in [low, high).  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("uniform", (low, high), size, FLOAT, dtype, grid, process_grid)

    def vonmises(
        self, mu: ArrayLike, kappa: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Von Mises numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("vonmises", (mu, kappa), size, FLOAT, dtype, grid, process_grid)

    def wald(
        self, mean: ArrayLike, scale: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None,
        grid: Grid = None, process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Wald numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("wald", (mean, scale), size, FLOAT, dtype, grid, process_grid)

    def weibull(
        self, a: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Weibull numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("weibull", (a,), size, FLOAT, dtype, grid, process_grid)

    def zipf(
        self, a: ArrayLike, size: ShapeLike | None = None, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array:  # fmt: skip
        """Draw Zipf numbers.  No words, no superstep, unless a parameter is dealt."""
        return self._draws_of("zipf", (a,), size, INT, dtype, grid, process_grid)

    # ---------------------------------------------------------------------------- choosing, ordering

    @overload
    def choice(
        self, a: ArrayLike, size: None = None, replace: builtins.bool = True, p: ArrayLike | None = None,
        axis: int = 0, shuffle: builtins.bool = True, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any: ...  # fmt: skip
    @overload
    def choice(
        self, a: ArrayLike, size: ShapeLike, replace: builtins.bool = True, p: ArrayLike | None = None,
        axis: int = 0, shuffle: builtins.bool = True, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Array: ...  # fmt: skip
    def choice(
        self, a: ArrayLike, size: ShapeLike | None = None, replace: builtins.bool = True, p: ArrayLike | None = None,
        axis: int = 0, shuffle: builtins.bool = True, *, dtype: DTypeLike | None = None, grid: Grid = None,
        process_grid: Grid = None,
    ) -> Any:  # fmt: skip
        """Choose randomly from range(a), or from the parts of an array along an axis.

        p : the probability of each.  Without replacement an exponential number divided by its probability is drawn
            for each, and the least are taken, in their order (Efraimidis and Spirakis 2006).
        grid, process_grid : of the positions that are drawn.
        Cost: no words where `a` is a number or a NumPy array, and every process has p; for a distributed array what
        a[positions] costs.  A dealt p stays where it is: one superstep checks it; with replacement its cumulative sum,
        and `searchsorted` of random numbers in it; without replacement `topk` of as many numbers as p has, or
        `argsort` of all if many are taken.
        """
        source: Any = a if isinstance(a, Array) else as_array(a)
        count = source.shape[build.normal_axis(axis, source.ndim)] if source.ndim else _population(source)
        if count <= 0 and (size is None or np.prod(checked_shape(size)) > 0):
            raise ValueError("a must be a positive integer unless no samples are taken")
        where: Any
        if replace:
            where = self._with_replacement(count, size, p, grid, process_grid)
        else:
            where = self._without_replacement(count, size, p, shuffle, grid, process_grid)
        if source.ndim == 0:
            return where if dtype is None else where.astype(dtype)
        found = self._taken(source, where, axis)
        return found if dtype is None else found.astype(dtype)

    def _with_replacement(self, count: int, size: Any, p: Any, grid: Grid, process_grid: Grid) -> Any:
        if p is None:
            return self.integers(0, max(count, 1), size, grid=grid, process_grid=process_grid)
        chances = checked_chances(p, count)
        here, key = world(), self._next()
        if isinstance(chances, Array):
            return self._by_dealt_chances(here, key, chances, size, grid, process_grid)
        cdf = chances.cumsum()
        cdf /= cdf[-1]
        streams = Streams(self._entropy, key)
        if size is None:
            return drawn_number(streams, INT, lambda stream: np.int64(cdf.searchsorted(stream.random(), side="right")))
        shape = checked_shape(size)

        def draw(generator: np.random.Generator, spans: Box) -> Any:
            return cdf.searchsorted(generator.random(tuple(high - low for low, high in spans)), side="right")

        layout = layout_for(shape, grid, process_grid)
        return drawn_array(here, INT, layout, streams, draw, Tiles(shape), given=(cdf,))

    def _by_dealt_chances(
        self, here: World, key: tuple[int, ...], chances: Array, size: Any, grid: Grid, process_grid: Grid
    ) -> Any:
        """Draw positions with replacement: search random numbers in the cumulative sum of dealt chances.

        Collective.
        """
        sums = cumulative_sum(chances)
        sums = wrap((sums / sums[-1:])._node)
        streams = Streams(self._entropy, key)
        shape = () if size is None else checked_shape(size)

        def draw(generator: np.random.Generator, spans: Box) -> Any:
            return generator.random(tuple(high - low for low, high in spans))

        numbers = drawn_array(here, FLOAT, layout_for(shape, grid, process_grid), streams, draw, Tiles(shape))
        found = searchsorted(sums, numbers, "right")
        return position_in(found) if size is None else found

    def _without_replacement(
        self, count: int, size: Any, p: Any, shuffle: builtins.bool, grid: Grid, process_grid: Grid
    ) -> Any:
        shape = () if size is None else checked_shape(size)
        many = int(np.prod(shape))
        if many > count:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        here, key = world(), self._next()
        layout = layout_for(shape, grid, process_grid)
        if p is not None:
            found = least_of(here, Streams(self._entropy, key), checked_chances(p, count), many)
            found = wrap(build.relaid(build.reshaped(found._node, shape), layout)).persist()
            return position_in(found) if size is None else found
        order = Permutation(count, Streams(self._entropy, key))
        if size is None:
            return drawn_number(order.streams, INT, lambda stream: np.int64(order.at(np.zeros(1, np.int64))[0]))
        return in_order(order, shape, layout)

    def _taken(self, source: Any, where: Any, axis: int) -> Any:
        """Return parts of an array along an axis; no words for a NumPy array, which every process has."""
        axis = build.normal_axis(axis, source.ndim)
        if not isinstance(where, Array):
            return source[(slice(None),) * axis + (int(where),)]
        if isinstance(source, Array):
            return source[(slice(None),) * axis + (where,)]
        (node,) = computed(where._node)
        own = layout_at(node).merged
        before, after = source.shape[:axis], source.shape[axis + 1 :]
        shape = (*before, *where.shape, *after)
        if own.replicated:
            layout, (whole,) = automatic(shape, world().nprocs), node.value.values()
        else:
            layout, whole = layout_of((*map(Axis, before), *own.axes, *map(Axis, after))), None
        last = axis + where.ndim

        def make(size: Shape, box: Box) -> Any:
            windows = [slice(*span) for span in box]
            chosen = blocks[box[axis:last]] if whole is None else whole[tuple(windows[axis:last])]
            return source[(*windows[:axis], slice(None), *windows[last:])].take(chosen, axis)

        blocks = {own.box(at): block for at, block in merged_blocks(node, world().empty).items()}
        return made(shape, source.dtype, layout, make, source, node.given and node.given[1])

    def permutation(self, x: ArrayLike, axis: int = 0, *, grid: Grid = None, process_grid: Grid = None) -> Array:
        """Return range(x) in random order, or an array with its parts along an axis in random order.

        Cost: no words for a number; for an array one superstep, h at most size/p words, after an exchange into slabs
        along the axis if it has another layout.
        """
        here = world()
        if not isinstance(x, Array) and ndim(x) == 0:
            shape = checked_shape(x)
            if len(shape) != 1:
                raise TypeError(f"permutation of {x!r}: a number or an array")
            key = self._next()
            layout = layout_for(shape, grid, process_grid)
            return in_order(Permutation(shape[0], Streams(self._entropy, key)), shape, layout)
        array = asarray(x)
        axis = build.normal_axis(axis, array.ndim)
        key = self._next()
        return wrap(reordered(here, array, axis, Permutation(array.shape[axis], Streams(self._entropy, key))))

    def permuted(self, x: ArrayLike, axis: int | None = None, out: Array | None = None) -> Array:
        """Return an array with each line along an axis in its own random order; axis None: all elements in one order.

        Cost: an argsort of as many random numbers along the axis, and a `take_along_axis`; without an axis as
        `permutation`.
        """
        array = asarray(x)
        if axis is None:
            found = reshape(self.permutation(reshape(array, (-1,))), array.shape)
        else:
            place = build.normal_axis(axis, array.ndim)
            keys = self.integers(0, 1 << 63, array.shape, np.uint64)  # two are equal once in 2^63 pairs
            found = take_along_axis(array, argsort(keys, axis=place, stable=True), place)
        return stored(found, out, name="permuted")

    def bytes(self, length: int) -> builtins.bytes:
        """Return random bytes, the same on every process; each process makes all of them, no words are sent."""
        return _bytes(Streams(self._entropy, self._next()), index(length))

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Put the parts of a distributed array along an axis into random order, in place.

        Arrays that share its elements change too.  Cost: as `permutation`.
        """
        if not isinstance(x, Array):
            raise TypeError("shuffle takes an array of bsp.arrays; permutation(x) gives one of a NumPy array")
        store(x, self.permutation(x, axis)._node)


@declares(lambda costs, streams, length: builtins.bytes(max(length, 0)))
def _bytes(streams: Streams, length: int) -> builtins.bytes:
    """Return `length` random bytes, the same on every process."""
    return streams(0).bytes(length)


@declares(lambda costs, name, streams, given, options, vectors: None)
def _check(name: str, streams: Streams, given: Sequence[Any], options: dict[str, Any], vectors: builtins.bool) -> None:
    """Raise NumPy's errors for wrong replicated parameters on every process, whether it has elements to draw or not."""
    method = getattr(streams(0), name)
    if name == "integers":  # NumPy's `integers` does not check its bounds if it draws nothing
        low, high = np.broadcast_arrays(*given)
        wrong = (low > high if options["endpoint"] else low >= high).reshape(-1)
        limits = np.iinfo(options["dtype"]) if np.dtype(options["dtype"]).kind in "iu" else None
        if limits is not None:
            wrong |= ((low < limits.min) | (high - (not options["endpoint"]) > limits.max)).reshape(-1)
        if wrong.any():
            k = int(wrong.argmax())
            method(low.reshape(-1)[k], high.reshape(-1)[k], **options)
        return
    shapes = [] if vectors else [np.shape(each) for each in given]
    method(*given, size=(0, *np.broadcast_shapes(*shapes)), **options)


def _population(a: Any) -> int:
    """Return the number of parts to choose from that an array of no axes gives; raise NumPy's error for no integer."""
    try:
        return index(a.item())
    except TypeError:
        raise ValueError(f"choice: a must be an array or an integer, not {a.item()!r:.40}") from None


def default_rng(seed: Int | Sequence[int] | np.random.SeedSequence | Generator | None = None) -> Generator:
    """Return a generator for distributed arrays; every process must call this with the same seed.

    seed : an integer, a sequence of integers, or a SeedSequence, whose next children those of the generator are; a
        Generator of this module is returned unchanged.
        None: the job's seed (`--seed`) together with the number of generators made without a seed before; never the
        clock or the machine (D4).
    """
    if isinstance(seed, Generator):
        return seed
    given: Any = seed
    if hasattr(given, "spawn_key"):  # a SeedSequence
        return Generator(_entropy(given.entropy), given.spawn_key, given.n_children_spawned)
    if seed is None:
        task = world().task
        number = task.libraries[_UNSEEDED] = task.libraries.get(_UNSEEDED, 0) + 1
        return Generator([task.element.seed, number, _JOB])
    return Generator(_entropy(seed))


def _entropy(seed: Any) -> int | list[int]:
    """Return a seed as an integer or a list of integers; raise TypeError or ValueError for anything else."""
    try:
        found = [int(each.__index__()) for each in seed] if np.ndim(seed) else int(seed.__index__())
    except (AttributeError, TypeError):
        raise TypeError(
            f"default_rng({seed!r:.40}): a seed is an integer of 0 or more, or a sequence of them"
        ) from None
    if min(found if isinstance(found, list) else [found], default=0) < 0:
        raise ValueError(f"default_rng({seed!r:.40}): a seed is an integer of 0 or more, or a sequence of them")
    return found
