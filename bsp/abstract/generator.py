"""Random numbers without values: the arrays that NumPy's generators would return, as shapes.

Drawing advances no state, so a seed makes no difference.  Only `shuffle` of real data (a list, a small array of
indices) is done for real, by a generator seeded as the program asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bsp.abstract.array import AbstractArray, copied, into, owned, scalar
from bsp.abstract.elementwise import described, operand
from bsp.abstract.errors import value_needed
from bsp.abstract.index import fits
from bsp.abstract.probe import DType, Shape, axis_of, broadcast, checked_shape
from bsp.abstract.table import RANDOM
from bsp.abstract.work import counter

_FLOAT, _INT = np.dtype(float), np.dtype(np.int64)
_real_generator = np.random.default_rng

# the parameters of each distribution, in the order of its arguments, which end with `size`
_FLOATS = {
    "beta": "a b", "chisquare": "df", "exponential": "scale", "f": "dfnum dfden", "gamma": "shape scale",
    "gumbel": "loc scale", "laplace": "loc scale", "logistic": "loc scale", "lognormal": "mean sigma",
    "noncentral_chisquare": "df nonc", "noncentral_f": "dfnum dfden nonc", "normal": "loc scale", "pareto": "a",
    "power": "a", "rayleigh": "scale", "standard_cauchy": "", "standard_t": "df", "triangular": "left mode right",
    "uniform": "low high", "vonmises": "mu kappa", "wald": "mean scale", "weibull": "a",
}  # fmt: skip
_INTEGERS = {
    "binomial": "n p", "geometric": "p", "hypergeometric": "ngood nbad nsample", "logseries": "p",
    "negative_binomial": "n p", "poisson": "lam", "zipf": "a",
}  # fmt: skip


def drawn(parameters: Sequence[Any], size: Any, dtype: DType, out: Any = None) -> Any:
    """Return numbers of shape `size`, or of the parameters' common shape; a Python number if both are missing."""
    common = broadcast((), *[described(parameter)[1] for parameter in parameters])
    if out is not None:
        counter.flops("elementwise", RANDOM * out.size)
        return into(out, out.shape, dtype)
    if size is None:
        shape = common
    else:
        shape = checked_shape(size)
        if not fits(common, shape):
            raise ValueError(f"Output size {shape} is not compatible with broadcast dimensions of inputs {common}.")
    counter.flops("elementwise", RANDOM * prod(shape))
    if shape or size is not None:
        return owned(shape, dtype)
    return scalar(dtype, float if dtype == _FLOAT else int if dtype == _INT else dtype)


def _distribution(name: str, parameters: list[str], dtype: DType) -> Callable[..., Any]:
    """Return the method that draws from a distribution."""
    names = [*parameters, "size"]

    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names) or not kwargs.keys() <= set(names[len(args) :]):
            raise TypeError(f"{name}() takes {', '.join(names)}; got {len(args)} positional and {sorted(kwargs)}")
        given = dict(zip(names, args, strict=False), **kwargs)
        size = given.pop("size", None)
        return drawn(list(given.values()), size, dtype)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = f"As numpy.random.Generator.{name}, abstract."
    return draw


class _Distributions:
    """The methods that both kinds of generator have."""

    def __init__(self, seed: Any = None) -> None:
        self._seed = seed
        self._shuffler: np.random.Generator | None = None

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return normal vectors: shape size + (n,)."""
        return self._vectors(size, operand(mean).shape, _FLOAT)

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Return Dirichlet vectors: shape size + (n,)."""
        return self._vectors(size, operand(alpha).shape[-1:], _FLOAT)

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Return vectors of counts: shape size + (k,)."""
        leading = operand(n).shape if size is None else checked_shape(size)
        return self._vectors(leading, operand(pvals).shape[-1:], _INT)

    def _vectors(self, size: Any, each: Shape, dtype: DType) -> Any:
        """Return vectors of shape `each`, `size` of them."""
        leading = () if size is None else checked_shape(size)
        return drawn((), (*leading, *each), dtype)

    def _chosen(self, a: Any, size: Any, replace: bool, axis: int) -> Any:
        """Return a choice from range(a), or from an array along an axis."""
        if isinstance(a, (int, np.integer)):
            population, before, after, dtype = int(a), Shape(), Shape(), _INT
        else:
            pool = operand(a)
            if pool.ndim == 0:
                raise value_needed("the population of a choice", pool)
            place = axis_of(axis, pool.ndim)
            population, before, after, dtype = (
                pool.shape[place],
                pool.shape[:place],
                pool.shape[place + 1 :],
                pool.dtype,
            )
        shape: Shape = () if size is None else checked_shape(size)
        count: int = prod(shape)
        if not population and count:
            raise ValueError("a cannot be empty unless no samples are taken")
        if not replace and count > population:
            raise ValueError("Cannot take a larger sample than population when replace is False")
        return drawn((), None if size is None and not (before or after) else (*before, *shape, *after), dtype)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return a permutation of range(x), or of an array along an axis."""
        if isinstance(x, (int, np.integer)):
            return drawn((), int(x), _INT)
        array = operand(x)
        axis_of(axis, array.ndim)
        return copied(array, array.shape)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Shuffle real data in place; of abstract data, count the bytes."""
        if type(x) is AbstractArray:
            axis_of(axis, x.ndim)
            counter.moved(2 * x.nbytes)
            return
        if self._shuffler is None:
            self._shuffler = _real_generator(self._seed)
        self._shuffler.shuffle(x, axis=axis)

    def bytes(self, length: int) -> bytes:
        """Return zero bytes."""
        return bytes(length)


for _name, _parameters in _FLOATS.items():
    setattr(_Distributions, _name, _distribution(_name, _parameters.split(), _FLOAT))
for _name, _parameters in _INTEGERS.items():
    setattr(_Distributions, _name, _distribution(_name, _parameters.split(), _INT))


class AbstractGenerator(_Distributions):
    """An abstract numpy.random.Generator, made from a seed or from anything that would make a real one."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(None if isinstance(seed, np.random.BitGenerator) else seed)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Return integers; without a size a NumPy scalar."""
        found = drawn((low,) if high is None else (low, high), size, np.dtype(dtype))
        return found if found.shape or size is not None else scalar(np.dtype(dtype))

    def random(self, size: Any = None, dtype: Any = float, out: Any = None) -> Any:
        """Return uniform numbers in [0, 1)."""
        return drawn((), size, np.dtype(dtype), out)

    def standard_normal(self, size: Any = None, dtype: Any = float, out: Any = None) -> Any:
        """Return normal numbers."""
        return drawn((), size, np.dtype(dtype), out)

    def standard_exponential(self, size: Any = None, dtype: Any = float, method: str = "zig", out: Any = None) -> Any:
        """Return exponential numbers."""
        return drawn((), size, np.dtype(dtype), out)

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = float, out: Any = None) -> Any:
        """Return gamma numbers."""
        return drawn((shape,), size, np.dtype(dtype), out)

    def multivariate_hypergeometric(
        self, colors: Any, nsample: Any, size: Any = None, method: str = "marginals"
    ) -> Any:
        """Return vectors of counts: shape size + (n,)."""
        leading = operand(nsample).shape if size is None else size
        return self._vectors(leading, operand(colors).shape, _INT)

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """Return a choice from range(a), or from an array along an axis."""
        return self._chosen(a, size, replace, axis)

    def permuted(self, x: Any, *, axis: int | None = None, out: Any = None) -> Any:
        """Return a copy in which each line along an axis is permuted by itself."""
        array = operand(x)
        return copied(array, array.shape) if out is None else out

    def spawn(self, n_children: int) -> list[AbstractGenerator]:
        """Return new generators."""
        return [AbstractGenerator() for _ in range(n_children)]


class AbstractRandomState(_Distributions):
    """An abstract numpy.random.RandomState; its methods also replace the functions of numpy.random."""

    def rand(self, *shape: int) -> Any:
        """Return uniform numbers in [0, 1)."""
        return drawn((), shape or None, _FLOAT)

    def randn(self, *shape: int) -> Any:
        """Return normal numbers."""
        return drawn((), shape or None, _FLOAT)

    def random_sample(self, size: Any = None) -> Any:
        """Return uniform numbers in [0, 1)."""
        return drawn((), size, _FLOAT)

    random = ranf = sample = standard_normal = standard_exponential = random_sample

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:
        """Return gamma numbers."""
        return drawn((shape,), size, _FLOAT)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Return integers."""
        return drawn((low,) if high is None else (low, high), size, np.dtype(dtype))

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Return a choice from range(a), or from a vector."""
        return self._chosen(a, size, replace, 0)

    def seed(self, seed: Any = None) -> None:
        """Seed the shuffles of real data."""
        self._seed, self._shuffler = seed, None


def abstract_generator(seed: Any = None) -> AbstractGenerator:
    """Return numpy.random.default_rng(seed) in abstract form; a generator is returned as it is."""
    return seed if isinstance(seed, AbstractGenerator) else AbstractGenerator(seed)
