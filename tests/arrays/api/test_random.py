"""Random arrays: the same numbers whatever the processes and the grid, of the right distributions, always fresh."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays import gathering
from bsp.arrays.errors import GatherWarning
from bsp.arrays.expressions.layout import automatic
from bsp.arrays.random import generator
from bsp.arrays.random.order import SMALL, Permutation
from bsp.arrays.random.reordering import ascending
from bsp.arrays.random.tiles import TILE, Streams, tile_shape

SEVERAL = [2, 3, 5, 8]

# a large array of each distribution: the call, its mean and its variance
CALLS: dict[str, tuple[Any, float, float]] = {
    "random": (lambda r, n: r.random(n), 1 / 2, 1 / 12),
    "random float32": (lambda r, n: r.random(n, dtype=np.float32), 1 / 2, 1 / 12),
    "standard_normal": (lambda r, n: r.standard_normal(n), 0, 1),
    "normal": (lambda r, n: r.normal(3, 2, n), 3, 4),
    "uniform": (lambda r, n: r.uniform(-1, 3, n), 1, 16 / 12),
    "integers": (lambda r, n: r.integers(10, size=n), 4.5, 99 / 12),
    "integers with endpoint": (lambda r, n: r.integers(1, 6, n, np.int8, True), 3.5, 35 / 12),
    "exponential": (lambda r, n: r.exponential(2.0, size=n), 2, 4),
    "poisson": (lambda r, n: r.poisson(4.0, n), 4, 4),
    "binomial": (lambda r, n: r.binomial(10, 0.3, n), 3, 2.1),
    "gamma": (lambda r, n: r.gamma(2.0, 3.0, n), 6, 18),
    "standard_gamma": (lambda r, n: r.standard_gamma(2.0, n), 2, 2),
    "beta": (lambda r, n: r.beta(2, 3, size=n), 0.4, 0.04),
    "lognormal": (lambda r, n: r.lognormal(0, 0.5, n), np.exp(0.125), (np.exp(0.25) - 1) * np.exp(0.25)),
    "choice": (lambda r, n: r.choice(10, n), 4.5, 99 / 12),
    "choice with p": (lambda r, n: r.choice([1.0, 5.0], n, p=[0.25, 0.75]), 4, 3),
    "triangular": (lambda r, n: r.triangular(0, 1, 2, n), 1, 1 / 6),
    "laplace": (lambda r, n: r.laplace(size=n), 0, 2),
    "chisquare": (lambda r, n: r.chisquare(3, n), 3, 6),
    "standard_exponential": (lambda r, n: r.standard_exponential(n, method="inv"), 1, 1),
}


def whole(x: Any) -> np.ndarray:
    return np.array(x.compute()) if isinstance(x, ba.Array) else np.asarray(x)


def drawn(call: Any, nprocs: int = 1, seed: Any = 7) -> np.ndarray:
    """What call(generator) gives, after asserting that every process sees the same."""
    found = bsp.run(lambda proc: whole(call(ba.random.default_rng(seed))), nprocs=nprocs)
    assert all(each.dtype == found[0].dtype and np.array_equal(each, found[0]) for each in found)
    return found[0]


# ------------------------------------------------------------------------------ the same for all


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_do_not_depend_on_the_processes(name: str, nprocs: int) -> None:
    call = CALLS[name][0]
    assert np.array_equal(drawn(lambda r: call(r, (301, 157)), nprocs), drawn(lambda r: call(r, (301, 157))))


@examples(25)
@given(data=st.data())
def test_numbers_do_not_depend_on_the_grid(data: st.DataObject) -> None:
    shape = data.draw(
        st.sampled_from([(100_003,), (401, 199), (3, 40_000), (70_000, 2), (37, 41, 43), (5,), (0, 4), ()])
    )
    grid = tuple(data.draw(st.integers(1, 7)) for _ in shape)
    nprocs = data.draw(st.sampled_from([1, 2, 3, 5, 8]))
    expected = drawn(lambda r: r.normal(size=shape))
    assert expected.shape == shape
    assert np.array_equal(drawn(lambda r: r.normal(size=shape, grid=grid), nprocs), expected)


def test_numbers_do_not_depend_on_the_process_grid() -> None:
    expected = drawn(lambda r: r.random((500, 300)))
    for grid in [(1, 6), (6, 1), (2, 3), (3, 2)]:
        found = drawn(lambda r, grid=grid: r.random((500, 300), grid=(7, 11), process_grid=grid), 6)
        assert np.array_equal(found, expected)


@pytest.mark.thorough
@pytest.mark.jobs
def test_numbers_do_not_depend_on_the_elements() -> None:
    def main(proc: bsp.Process) -> Any:
        import bsp.arrays as ba

        rng = ba.random.default_rng()
        return rng.normal(size=(300, 300)).compute(), rng.permutation(100_000).compute()

    for each in bsp.run(main, nprocs=3, elements=2):
        for found, expected in zip(each, bsp.run(main, nprocs=1)[0], strict=True):
            assert np.array_equal(found, expected)


def test_creation_takes_no_superstep() -> None:
    def main(proc: bsp.Process) -> int:
        rng = ba.random.default_rng(1)
        rng.normal(size=(400, 400))
        rng.integers(9, size=100_000)
        rng.choice(10**6, 50_000, replace=False)
        rng.permutation(10**5)
        return proc.superstep

    assert bsp.run(main, nprocs=3) == [0, 0, 0]


# ------------------------------------------------------------------------------------- tiles


@given(st.lists(st.integers(0, 5000), max_size=4), st.integers(0, 2))
def test_tiles_cover_their_shape_and_are_small(shape: list[int], core: int) -> None:
    core = min(core, len(shape))
    tile = tile_shape(tuple(shape), core)
    assert tile[len(tile) - core :] == tuple(shape[len(shape) - core :])
    if core == 0 or np.prod(shape[len(shape) - core :]) <= TILE:
        assert np.prod(tile) <= TILE


@pytest.mark.parametrize("columns", [1, 2, 20, 100])
def test_narrow_arrays_have_tiles_of_whole_rows(columns: int) -> None:
    rows, width = tile_shape((10**6, columns))
    assert width == columns and TILE / 4 < rows * width <= TILE


def test_square_arrays_have_tiles_as_square_as_can_be() -> None:
    assert tile_shape((4096, 4096)) == (128, 256)


def test_the_first_tile_is_numpys_philox() -> None:
    bits = np.random.Philox(np.random.SeedSequence(7, spawn_key=(0,)))
    assert np.array_equal(drawn(lambda r: r.normal(size=100)), np.random.Generator(bits).normal(size=100))


def test_every_tile_is_alike_and_none_is_another() -> None:
    """Moments by tile, and correlations between neighbouring tiles."""
    x = drawn(lambda r: r.random(40 * TILE), 4).reshape(40, TILE)
    assert_allclose(x.mean(axis=1), 0.5, rtol=0, atol=5 / np.sqrt(12 * TILE))
    assert_allclose(x.var(axis=1), 1 / 12, rtol=0, atol=5 * np.sqrt(1 / 180 / TILE))
    correlated = np.corrcoef(x) - np.eye(40)
    assert np.abs(correlated).max() < 6 / np.sqrt(TILE)
    assert len(np.unique(x)) > x.size * (1 - 1e-9)


def test_numbers_on_both_sides_of_a_tiles_edge_are_independent() -> None:
    tile = tile_shape((20 * TILE,))[0]
    pairs = np.array([drawn(lambda r: r.normal(size=20 * TILE), seed=s)[tile - 1 : tile + 1] for s in range(60)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 0.5


@pytest.mark.parametrize("name", CALLS)
def test_moments_are_those_of_the_distribution(name: str) -> None:
    call, mean, variance = CALLS[name]
    x = drawn(lambda r: call(r, 200_000), 3).astype(float)
    assert_allclose(x.mean(), mean, rtol=0, atol=5 * np.sqrt(variance / x.size))
    assert_allclose(x.var(), variance, rtol=0.05)


# --------------------------------------------------------------------------- seeds and draws


def test_draws_and_seeds_and_children_differ() -> None:
    def main(proc: bsp.Process) -> list[np.ndarray]:
        rng = ba.random.default_rng(0)
        children = [*rng.spawn(2), *rng.spawn(1)]
        grandchild = children[0].spawn(1)[0]
        others = [ba.random.default_rng(seed) for seed in (1, [0, 1], [0, 0, 1], 2**80, None, None)]
        return [whole(each.random(20_000)) for each in [rng, rng, *children, grandchild, *others]]

    found = bsp.run(main, nprocs=2)[0]
    for one, other in itertools.combinations(found, 2):
        assert not np.intersect1d(one, other).size


def test_the_same_shape_in_another_order_of_draws_is_another_draw() -> None:
    def main(proc: bsp.Process) -> Any:
        a, b = ba.random.default_rng(5), ba.random.default_rng(5)
        b.poisson(3.0, 10)
        return whole(a.normal(size=50)), whole(b.normal(size=50))

    first, second = bsp.run(main, nprocs=1)[0]
    assert not np.intersect1d(first, second).size


def test_without_a_seed_it_is_the_jobs_seed() -> None:
    def main(proc: bsp.Process) -> Any:
        return [whole(ba.random.default_rng().normal(size=(200, 100))) for _ in range(2)]

    again, three, other = (bsp.run(main, nprocs=p, seed=s)[0] for p, s in ((1, 0), (3, 0), (1, 1)))
    assert np.array_equal(again, three)
    assert not np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], other[0])


def test_seeds_are_checked() -> None:
    for seed, kind in ((-1, ValueError), ("x", TypeError), (1.5, TypeError)):
        with pytest.raises(kind, match="seed is an integer"):
            ba.random.default_rng(seed)
    rng = ba.random.default_rng(np.random.SeedSequence(3, spawn_key=(1,)))
    assert ba.random.default_rng(rng) is rng


def test_the_children_of_a_generator_are_others_than_those_of_its_seed_sequence() -> None:
    def main(proc: bsp.Process) -> list[np.ndarray]:
        seeds = np.random.SeedSequence(5)
        first = [ba.random.default_rng(each) for each in seeds.spawn(2)]
        rng = ba.random.default_rng(seeds)
        with pytest.raises(ValueError, match=r"spawn\(-1\): a generator has 0 or more children"):
            rng.spawn(-1)
        return [whole(each.random(100)) for each in [*first, *rng.spawn(2)]]

    for one, other in itertools.combinations(bsp.run(main, nprocs=2)[0], 2):
        assert not np.intersect1d(one, other).size


def test_a_pickled_generator_goes_on_where_it_stood() -> None:
    def main(proc: bsp.Process) -> Any:
        rng = ba.random.default_rng(9).spawn(3)[2]
        rng.normal(size=5)
        rng.spawn(1)
        twins = [pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng)]
        return [(whole(each.normal(size=30_000)), whole(each.spawn(1)[0].random(3))) for each in (rng, *twins)]

    one, *others = bsp.run(main, nprocs=2)[0]
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# --------------------------------------------------------------------------- arguments as NumPy's


def test_without_a_size_a_number_comes_on_every_process() -> None:
    def main(proc: bsp.Process) -> Any:
        rng = ba.random.default_rng(2)
        return rng.normal(), rng.integers(10), rng.random(dtype=np.float32), rng.choice(5), rng.choice(3, p=[0, 1, 0])

    found = bsp.run(main, nprocs=3)
    assert found[0] == found[1] == found[2] and found[0][4] == 1
    assert type(found[0][0]) is float and isinstance(found[0][1], np.integer)


def test_parameters_broadcast() -> None:
    loc = np.arange(300.0)[:, None] * 1000
    scale = np.linspace(0.1, 1, 200)
    expected = drawn(lambda r: r.normal(loc, scale))
    assert expected.shape == (300, 200)
    assert np.abs((expected - loc) / scale).max() < 6
    assert np.array_equal(drawn(lambda r: r.normal(ba.asarray(loc), ba.asarray(scale)), 3), expected)
    assert np.array_equal(drawn(lambda r: r.normal(loc, scale, (300, 200), grid=(3, 2)), 4), expected)
    with pytest.raises(ValueError, match="do not broadcast"):
        drawn(lambda r: r.normal(loc, size=(5, 200)))


def test_dtype_casts() -> None:
    assert drawn(lambda r: r.normal(size=10, dtype=np.float32)).dtype == np.float32
    assert drawn(lambda r: r.integers(3, size=10, dtype=np.uint8)).dtype == np.uint8
    assert drawn(lambda r: r.poisson(size=10, dtype=np.int32)).dtype == np.int32
    with pytest.raises(TypeError, match="Unsupported dtype"):
        drawn(lambda r: r.random(3, dtype=int))


@pytest.mark.parametrize("call", [
    lambda r: r.normal(0, -1, 100_000), lambda r: r.poisson(-1.0, 100_000), lambda r: r.binomial(5, 2.0, 100_000),
    lambda r: r.integers(5, 5, 100_000), lambda r: r.normal(0, [1.0, -1.0], (100_000, 2)),
    lambda r: r.choice(5, 9, replace=False), lambda r: r.choice(2, 9, p=[0.5, 0.6]), lambda r: r.choice(0, 9),
])  # fmt: skip
def test_wrong_parameters_are_told_to_all_processes(call: Any) -> None:
    def main(proc: bsp.Process) -> str:
        with pytest.raises(ValueError) as wrong:
            call(ba.random.default_rng(0))
        proc.sync()
        return str(wrong.value)

    assert len(set(bsp.run(main, nprocs=3))) == 1


def test_what_is_no_integer_and_no_real_number_is_refused() -> None:
    def main(proc: bsp.Process) -> None:
        rng = ba.random.default_rng(0)
        for wrong in (2.5, "7", None, np.array(5.0), ba.asarray(5.0)):
            with pytest.raises(ValueError, match="a must be an array or an integer"):
                rng.choice(wrong, 3)
        for p in (np.full(5, 0.2 + 0j), ba.full(5, 0.2 + 0j)):
            with pytest.raises(TypeError, match="p has dtype complex128"):
                rng.choice(5, 3, p=p)
        with pytest.raises(TypeError, match="complex"):
            rng.gumbel(1j)
        with pytest.raises(TypeError, match="Unsupported dtype"):
            rng.integers(0, 5, 3, float, grid=(1,))  # where other processes draw nothing
        proc.sync()

    bsp.run(main, nprocs=3)


def test_unknown_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match=r"normal\(\) got an unexpected keyword"):
        ba.random.default_rng(0).normal(siz=3)
    with pytest.raises(TypeError, match=r"binomial\(\) missing 1 required positional argument: 'p'"):
        ba.random.default_rng(0).binomial(3)


def test_every_distribution_of_numpy_is_there() -> None:
    theirs = {name for name in dir(np.random.Generator) if not name.startswith("_")}
    missing = theirs - set(dir(ba.random.Generator))
    assert missing == {"bit_generator", "multivariate_hypergeometric"}


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_vectors_are_whole_and_the_same(nprocs: int) -> None:
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = drawn(lambda r: r.multivariate_normal([1, -1], cov, 40_000), nprocs)
    assert np.array_equal(x, drawn(lambda r: r.multivariate_normal([1, -1], cov, 40_000)))
    assert_allclose(np.cov(x.T), cov, rtol=0, atol=0.06)
    counts = drawn(lambda r: r.multinomial(12, [0.2, 0.3, 0.5], (100, 90), grid=(2, 3, 2)), nprocs)
    assert counts.shape == (100, 90, 3) and (counts.sum(axis=-1) == 12).all()
    assert_allclose(drawn(lambda r: r.dirichlet([1, 2, 3.0], 9000), nprocs).sum(axis=1), 1, rtol=0, atol=1e-14)


# ---------------------------------------------------------------------------- orders and choices


@pytest.mark.parametrize("n", [0, 1, 2, 1000, SMALL, SMALL + 1, 2**17 - 1, 300_007])
def test_an_order_is_a_permutation_and_knows_its_inverse(n: int) -> None:
    order = Permutation(n, Streams(1, (0,)))
    every = np.arange(n)
    found = order.at(every)
    assert np.array_equal(np.sort(found), every)
    assert np.array_equal(order.where(found), every)
    assert np.array_equal(order.at(every[n // 3 : n // 2]), found[n // 3 : n // 2])


def test_a_large_order_looks_random() -> None:
    """Displacements, neighbours and the parity of what follows what are those of a shuffle."""
    n = 400_000
    orders = [Permutation(n, Streams(seed, (0,))).at(np.arange(n)) for seed in range(2)]
    for found in orders:
        assert abs(np.corrcoef(found, np.arange(n))[0, 1]) < 5 / np.sqrt(n)
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 5 / np.sqrt(n)
        table = np.histogram2d(found, np.arange(n), bins=20)[0]
        chi2 = ((table - n / 400) ** 2 / (n / 400)).sum()
        assert abs(chi2 - 361) < 6 * np.sqrt(2 * 361)
        assert (found == np.arange(n)).sum() < 12  # fixed points are Poisson of mean 1
        steps = np.diff(found)
        assert (np.abs(steps) == 1).sum() < 20
    assert (orders[0] == orders[1]).sum() < 12


@pytest.mark.parametrize("nprocs", [1, *SEVERAL])
@pytest.mark.parametrize("shape, axis", [((200, 150), 0), ((200, 150), 1), ((70_001,), 0), ((5, 4), 0), ((0, 3), 0)])
def test_permutation_moves_whole_parts(shape: tuple[int, ...], axis: int, nprocs: int) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    found = drawn(lambda r: r.permutation(ba.asarray(values), axis), nprocs)
    order = drawn(lambda r: r.permutation(shape[axis]))
    assert np.array_equal(found, values.take(order, axis))


def test_permutation_of_slabs_takes_one_superstep() -> None:
    def main(proc: bsp.Process) -> int:
        x = ba.random.default_rng(0).normal(size=(50_000, 3), grid=(4, 1))
        before = proc.superstep
        ba.random.default_rng(1).permutation(x)
        return proc.superstep - before

    assert bsp.run(main, nprocs=4) == [1] * 4


def test_shuffle_changes_the_array_and_nothing_made_from_it() -> None:
    def main(proc: bsp.Process) -> Any:
        x = ba.arange(30_000)
        doubled = 2 * x
        assert ba.random.default_rng(0).shuffle(x) is None
        return whole(x), whole(doubled)

    x, doubled = bsp.run(main, nprocs=3)[0]
    assert np.array_equal(np.sort(x), np.arange(30_000)) and not np.array_equal(x, np.arange(30_000))
    assert np.array_equal(doubled, 2 * np.arange(30_000))


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("count, size", [(50, 50), (10**6, 30_000), (10**12, 20_000), (100_000, (100, 200)), (7, 0)])
def test_choice_without_replacement_takes_none_twice(count: int, size: Any, nprocs: int) -> None:
    found = drawn(lambda r: r.choice(count, size, replace=False), nprocs)
    assert len(np.unique(found)) == found.size == np.prod(size)
    assert not found.size or set((found // count).flat) == {0}


def test_choice_from_arrays() -> None:
    rows = np.arange(40.0).reshape(10, 4)
    where = drawn(lambda r: r.choice(10, 9000))
    assert np.array_equal(drawn(lambda r: r.choice(rows, 9000), 3), rows[where])
    assert np.array_equal(drawn(lambda r: r.choice(ba.asarray(rows), 9000), 3), rows[where])
    assert np.array_equal(drawn(lambda r: r.choice(rows.T, 9000, axis=1), 3), rows.T[:, where])
    assert drawn(lambda r: r.choice(rows), 3).shape == (4,)
    some = drawn(lambda r: r.choice(5, 3, replace=False, p=[0, 0.2, 0.3, 0, 0.5]), 3)
    assert sorted(some) == [1, 2, 4]


def test_a_block_generates_no_more_than_the_tiles_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plain = Streams.__call__
    monkeypatch.setattr(Streams, "__call__", lambda self, tile: made.append(tile) or plain(self, tile))
    shape = (2**10, 2**10)
    layout = automatic(shape, 4)
    tiles = 2**20 // TILE
    bsp.run(lambda proc: ba.random.default_rng(0).random(shape).shape, nprocs=4)
    assert layout.grid == (2, 2)
    assert len(made) - 4 == tiles  # and one look at the parameters on each process


# ---------------------------------------------------------------------------- dealt parameters

SHAPE = (1203, 90)  # four tiles, none of which ends where blocks do


def parameters(name: str) -> list[np.ndarray]:
    """In range for each distribution of NumPy's, of shapes that broadcast to SHAPE."""
    rng = np.random.default_rng(3)
    share, size, column = rng.uniform(0.1, 0.9, SHAPE), rng.uniform(1.1, 3.0, SHAPE), rng.uniform(1.1, 3.0, (1203, 1))
    many, row = rng.integers(10, 30, SHAPE), rng.integers(1, 9, 90)
    return {
        "beta": [size, column], "binomial": [row, share], "chisquare": [size], "exponential": [column + 0 * size],
        "f": [size, column], "gamma": [size, share], "geometric": [share], "gumbel": [size, column],
        "hypergeometric": [many, many, row], "integers": [row, many], "laplace": [size, column],
        "logistic": [column, size], "lognormal": [share, column], "logseries": [share],
        "negative_binomial": [row, share], "noncentral_chisquare": [size, column],
        "noncentral_f": [size, column, share], "normal": [size, column], "pareto": [size], "poisson": [size],
        "power": [size], "rayleigh": [size], "standard_gamma": [size], "standard_t": [size],
        "triangular": [-size, np.zeros(90), size], "uniform": [-size, column], "vonmises": [share, size],
        "wald": [size, column], "weibull": [size], "zipf": [size],
    }[name]  # fmt: skip


OF_VECTORS = {"choice", "dirichlet", "multinomial", "multivariate_normal"}


def is_sampler(name: str) -> bool:
    """Return whether a method draws elements from parameters that broadcast."""
    method = getattr(generator.Generator, name)
    own = list(inspect.signature(method).parameters) if inspect.isfunction(method) else []
    return {"size", "grid"} <= set(own) and own[1] != "size" and name not in OF_VECTORS


SAMPLERS = [name for name in sorted(vars(generator.Generator)) if not name.startswith("_") and is_sampler(name)]


@pytest.mark.parametrize("name", SAMPLERS)
def test_dealt_parameters_give_the_numbers_of_whole_ones(name: str) -> None:
    given = parameters(name)
    expected = drawn(lambda r: getattr(r, name)(*given))
    assert expected.shape == SHAPE and len(np.unique(expected[:, 0])) > 1
    grids = {1: [None], 3: [None, (2, 3)], 4: [(4, 1), (3, 2)]}
    for p, choices in grids.items():
        for grid in choices:
            dealt = [(each, grid and grid[2 - each.ndim :]) for each in given]
            found = drawn(lambda r: getattr(r, name)(*[ba.asarray(each, grid=own) for each, own in dealt]), p)
            assert np.array_equal(found, expected)


@examples(30)
@given(st.data())
def test_dealt_parameters_may_lie_in_any_grid_and_so_may_the_result(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(70_000,), (300, 400), (3, 200, 150), (40, 1, 2000)]))
    p = data.draw(st.sampled_from(SEVERAL))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    own = [tuple(data.draw(st.sampled_from([length, 1])) for length in shape) for _ in range(2)]
    own[1] = own[1][data.draw(st.integers(0, len(shape))) :]
    loc, scale = rng.normal(size=own[0]), rng.uniform(1, 2, size=own[1])
    grids = [
        None if data.draw(st.booleans()) else tuple(data.draw(st.integers(1, 5)) for _ in each)
        for each in (own[0], own[1], shape)
    ]

    def call(r: Any) -> Any:
        given = ba.asarray(loc, grid=grids[0]), ba.asarray(scale, grid=grids[1]) * 1
        return r.normal(*given, size=shape, grid=grids[2])

    assert np.array_equal(drawn(call, p), drawn(lambda r: r.normal(loc, scale, size=shape)))


@pytest.mark.parametrize(
    ("grid", "words"), [(None, 0), ((4, 1), 0), ((8, 2), 0), ((1, 4), 2048 * 128), ((5, 1), 205 * 512)]
)
def test_a_process_gets_of_a_dealt_parameter_what_lies_under_its_tiles(grid: Any, words: int) -> None:
    """Tiles are of 128 × 256 here: nothing moves where blocks end with them."""
    shape = (2048, 512)
    seen: list[tuple[int, int]] = []

    def main(proc: bsp.Process) -> None:
        loc = ba.random.default_rng(0).uniform(size=shape, grid=grid)
        before = proc.superstep
        found = ba.random.default_rng(1).normal(loc, 2.0)
        assert found.layout is loc.layout  # beside its parameter
        after = proc.superstep
        turned = ba.random.default_rng(1).normal(loc, 2.0, grid=(2, 2))
        assert np.array_equal(turned.compute(), found.compute())
        seen.append((before, after))

    traced = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4))
    before, after = seen[0]
    fetching, agreeing = traced.per_superstep[before:after]
    assert fetching["label"] == "parameters of normal"
    assert fetching["h_received"] == words
    assert agreeing["h_received"] < 100
    assert traced.per_superstep[after]["label"] == "parameters of normal"
    assert traced.per_superstep[after]["h_received"] <= 2048 * 512 / 4


BAD = {
    "normal": (lambda r, x: r.normal(0.0, x), -1.0, ValueError, "scale < 0"),
    "poisson": (lambda r, x: r.poisson(x), -1.0, ValueError, "lam < 0 or lam contains NaNs"),
    "uniform": (lambda r, x: r.uniform(0.0, x), np.inf, OverflowError, "Range exceeds valid bounds"),
    "integers": (lambda r, x: r.integers(1, (x * 50).astype(int)), -1.0, ValueError, "low >= high"),
    "binomial": (lambda r, x: r.binomial(5, x), 2.0, ValueError, "p < 0, p > 1 or p contains NaNs"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("dealt", [False, True])
@pytest.mark.parametrize("place", [0, 77_000, 199_999])
def test_a_parameter_out_of_range_in_one_block_is_told_to_all_processes(name: str, dealt: bool, place: int) -> None:
    call, value, error, text = BAD[name]
    data = np.full(200_000, 0.5)
    data[place] = value

    def main(proc: bsp.Process) -> None:
        for grid in (None, (2,), (7,)):
            with pytest.raises(error) as wrong:
                call(ba.random.default_rng(0), ba.asarray(data, grid=grid) if dealt else data)
            assert str(wrong.value) == text
        proc.sync()  # all go on

    bsp.run(main, nprocs=3)


def test_parameters_out_of_range_are_told_to_processes_that_draw_nothing() -> None:
    def main(proc: bsp.Process) -> None:
        rng = ba.random.default_rng(0)
        for wrong in (
            lambda: rng.integers(5, 5, 100_000, grid=(1,)),
            lambda: rng.integers(0, 300, 9, dtype=np.int8),
            lambda: rng.integers(0, 129, 9, np.int8, True),
            lambda: rng.integers([1, 5], [3, 5], (50_000, 2), grid=(1, 1)),
            lambda: rng.normal(0, -1, 9, grid=(1,)),
        ):
            with pytest.raises(ValueError, match=r"low|high|scale"):
                wrong()
        assert rng.integers([0, 5], [1, 6], (50_000, 2), grid=(1, 1)).shape == (50_000, 2)
        assert rng.integers(0, 2**64, 9, np.uint64).dtype == np.uint64
        assert rng.integers(-128, 127, 9, np.int8, True).dtype == np.int8

    bsp.run(main, nprocs=3)


def test_a_covariance_is_brought_with_a_warning_but_for_its_cholesky_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 20_000)
    cov = np.diag(np.arange(1.0, 61.0))

    def main(proc: bsp.Process) -> None:
        rng = ba.random.default_rng(0)
        dealt = ba.asarray(cov, grid=(3, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(GatherWarning, match=r"multivariate_normal: cov .* 0\.02\d+ MB .* method='cholesky'"):
                rng.multivariate_normal(np.zeros(60), dealt, 700)
            rng.multivariate_normal(np.zeros(60), cov, 700)
            rng.multivariate_normal(np.zeros(60), dealt, 700, method="cholesky")

    bsp.run(main, nprocs=3)


OUTCOMES = np.random.default_rng(8).random(3001) / 1500.5
OUTCOMES[1000:1100] = 0
OUTCOMES[-1] = 1 - OUTCOMES[:-1].sum() - 1e-9  # a little less than 1 altogether
MATRIX = np.random.default_rng(9).normal(size=(60, 60))
VECTORS: dict[str, Callable[[Any, Any], Any]] = {
    "dirichlet": lambda rng, grid: rng.dirichlet(ba.asarray(900 * OUTCOMES, grid=grid), (50,)),
    "multinomial": lambda rng, grid: rng.multinomial(100_000, ba.asarray(OUTCOMES, grid=grid), (30, 2)),
    "one": lambda rng, grid: rng.multinomial(77, ba.asarray(OUTCOMES, grid=grid)),
    "normal": lambda rng, grid: rng.multivariate_normal(
        np.arange(60.0), ba.asarray(MATRIX @ MATRIX.T, grid=(*grid, 2)), 4000, method="cholesky"
    ),
}


@pytest.mark.parametrize("name", list(VECTORS))
def test_draws_of_vectors_with_large_parameters_are_the_same_in_any_layout(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 20_000)

    def main(proc: bsp.Process) -> Any:
        return [VECTORS[name](ba.random.default_rng(5), grid).compute() for grid in ((1,), (proc.nprocs,), (7,))]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = bsp.run(main, nprocs=1)[0][0]
        for nprocs in (1, 2, 4):
            for found in bsp.run(main, nprocs=nprocs)[0]:
                if expected.dtype.kind == "i":
                    assert np.array_equal(found, expected)
                else:  # up to the rounding of sums
                    assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


ROWS = np.random.default_rng(3).dirichlet(np.ones(5), 6000)
TRIALS = np.random.default_rng(4).integers(0, 50, 6000)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_rows_of_probabilities_stay_where_they_are_and_broadcast_as_numpys(nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[Any]:
        found = []
        for grid in ((1,), (proc.nprocs,), (5,)):
            rng = ba.random.default_rng(5)
            rows, trials = ba.asarray(ROWS, grid=(*grid, 2)), ba.asarray(TRIALS, grid=grid)
            draws = [
                rng.multinomial(trials, rows), rng.multinomial(40, rows, (3, 6000)), rng.multinomial(trials, ROWS[0]),
                rng.multinomial(TRIALS, ROWS), rng.multinomial([[3], [5]], ROWS[:4]),
            ]  # fmt: skip
            found.append([each.compute() for each in draws])
            before = proc.superstep
            rng.multinomial(trials, rows, grid=(proc.nprocs, 1))
            assert proc.superstep - before <= 3
        for wrong in (-0.5, 1.5):
            with pytest.raises(ValueError, match="pvals"):
                rng.multinomial(3, ba.asarray(np.array([[0.5, 0.5], [wrong, 0.5]]), grid=(2, 1)), 2)
        with pytest.raises(ValueError, match="broadcast"):
            rng.multinomial(trials, rows, 5)
        return found

    first, *others = (each for every in bsp.run(main, nprocs=nprocs) for each in every)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert [each.shape for each in first] == [(6000, 5), (3, 6000, 5), (6000, 5), (6000, 5), (2, 4, 5)]
    for found, trials in zip(first, (TRIALS, 40, TRIALS, TRIALS, np.array([[3], [5]])), strict=True):
        assert np.array_equal(found.sum(axis=-1), np.broadcast_to(trials, found.shape[:-1]))
    expected = (TRIALS[:, None] * ROWS).sum(axis=0)
    assert (np.abs(first[0].sum(axis=0) - expected) < 5 * np.sqrt(expected)).all()
    assert np.array_equal(bsp.run(main, nprocs=4)[0][0][1], first[1])


def test_large_parameters_of_vectors_give_the_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 20_000)
    alpha = np.concatenate([[0.0, 4.0, 9.0], np.full(2998, 1e-3)])

    def main(proc: bsp.Process) -> Any:
        rng = ba.random.default_rng(5)
        shares = rng.dirichlet(ba.asarray(alpha, grid=(3,)), 3000)
        counts = rng.multinomial(1000, ba.asarray(np.r_[0.4, 0, np.full(2999, 0.6 / 2999)], grid=(3,)), 3000)
        normal = rng.multivariate_normal(
            np.arange(60.0), ba.asarray(MATRIX @ MATRIX.T, grid=(3, 1)), 20_000, method="cholesky"
        )
        tiny = rng.dirichlet(ba.asarray(np.full(3001, 1e-9)), 5).compute()
        return shares[:, :3].compute(), shares.sum(axis=1).compute(), counts.compute(), normal.compute(), tiny

    shares, totals, counts, normal, tiny = bsp.run(main, nprocs=3)[0]
    assert_allclose(totals, 1, rtol=0, atol=1e-12)
    assert (shares[:, 0] == 0).all()
    for k in (1, 2):
        assert stats.kstest(shares[:, k], stats.beta(alpha[k], alpha.sum() - alpha[k]).cdf).pvalue > 1e-3
    assert (counts.sum(axis=1) == 1000).all() and (counts[:, 1] == 0).all()
    assert (
        stats.kstest(counts[:, 0] + np.random.default_rng(0).random(3000) - 0.5, stats.norm(400, 240**0.5).cdf).pvalue
        > 1e-3
    )
    assert abs(counts[:, 2:].sum() - 1_800_000) < 5 * (3_000_000 * 0.24) ** 0.5
    assert stats.chisquare(counts[:, 2:].sum(axis=0)).pvalue > 1e-3
    factor = np.linalg.cholesky(MATRIX @ MATRIX.T)
    whitened = np.linalg.solve(factor, (normal - np.arange(60.0)).T)
    assert_allclose(np.cov(whitened), np.eye(60), rtol=0, atol=0.05)
    assert stats.kstest(whitened.reshape(-1), stats.norm.cdf).pvalue > 1e-3
    assert_allclose(tiny.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_wrong_large_parameters_of_vectors_raise_numpys_errors_on_all(
    nprocs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 20_000)

    def main(proc: bsp.Process) -> None:
        rng = ba.random.default_rng(5)
        for wrong, text in ((-1e-3, "pvals < 0"), (np.nan, "pvals < 0"), (0.9, r"sum\(pvals")):
            chances = OUTCOMES.copy()
            chances[17] = wrong
            with pytest.raises(ValueError, match=text):
                rng.multinomial(3, ba.asarray(chances, grid=(3,)), 4)
        with pytest.raises(ValueError, match="alpha < 0"):
            rng.dirichlet(ba.asarray(OUTCOMES - 1e-9, grid=(3,)), 4)
        with pytest.raises(ValueError, match="of shape"):
            rng.multivariate_normal(np.zeros(59), ba.asarray(np.eye(60)), 4, method="cholesky")

    bsp.run(main, nprocs=nprocs)


def test_large_parameters_of_vectors_are_not_brought_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "SILENT_BYTES", 20_000)
    size, p = 400_000, 4

    def main(proc: bsp.Process, name: str) -> None:
        given = ba.full(size, 1 / size, grid=(p,))
        if name == "dirichlet":
            ba.random.default_rng(5).dirichlet(given)
        else:
            ba.random.default_rng(5).multinomial(1000, given)

    for name in ("dirichlet", "multinomial"):
        rows = bsp.predict(main, name, nprocs=p, machine=bsp.Machine(p=p)).per_superstep
        assert sum(max(row["h_received"], row["h_sent"]) for row in rows) < size / p
        bound = bsp.predict(main, name, nprocs=p, machine=bsp.Machine(p=p), abstract=True).per_superstep
        assert [max(row["h_received"], row["h_sent"]) for row in rows] <= [
            max(row["h_received"], row["h_sent"]) for row in bound
        ]


@pytest.mark.parametrize("nprocs", [2, 4])
def test_choice_gathers_no_array(nprocs: int) -> None:
    """Of a NumPy array no word moves; of a dealt one positions and the chosen parts."""
    rows = np.arange(200_000.0).reshape(50_000, 4)
    seen: list[tuple[int, int]] = []

    def main(proc: bsp.Process) -> None:
        before = proc.superstep
        local = ba.random.default_rng(1).choice(rows, 20_000)
        across = ba.random.default_rng(1).choice(rows.T, (30, 50), axis=1)
        assert proc.superstep == before
        assert local.layout.process_grid[0] == nprocs
        dealt = ba.asarray(rows)
        start = proc.superstep
        found = ba.random.default_rng(1).choice(dealt, 20_000)
        seen.append((start, proc.superstep))
        where = ba.random.default_rng(1).choice(50_000, 20_000).compute()
        for each in (local, found):
            assert np.array_equal(each.compute(), rows[where])
        where = ba.random.default_rng(1).choice(50_000, (30, 50)).compute()
        assert np.array_equal(across.compute(), rows.T[:, where])

    traced = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs))
    received = [row["h_received"] for row in traced.per_superstep[slice(*seen[0])]]
    assert 20_000 / nprocs <= max(received) <= 4 * 20_000 / nprocs


def test_a_run_without_values_counts_the_same_words() -> None:
    def main(proc: bsp.Process) -> None:
        loc = ba.zeros((1500, 130), grid=(3, 2))
        scale = ba.ones((1500, 1), grid=(4, 1))
        ba.random.default_rng(1).normal(loc, scale + 1.0, grid=(1, 4)).persist()

    machine = bsp.Machine(p=4)
    real, abstract = (bsp.predict(main, nprocs=4, machine=machine, abstract=each) for each in (False, True))
    assert [row["h_received"] for row in real] == [row["h_received"] for row in abstract]
    assert real.words > 1000


def test_out_is_filled_and_so_is_what_it_shows() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.zeros((40, 500), grid=(2, 2))
        for name in ("random", "standard_normal", "standard_exponential"):
            row = x[3]
            assert getattr(ba.random.default_rng(1), name)(out=row) is row
            expected = getattr(ba.random.default_rng(1), name)(500).compute()
            assert np.array_equal(x[3].compute(), expected)
        rng = ba.random.default_rng(1)
        with pytest.raises(TypeError, match=r"wrong type\. Expected float32, got float64"):
            rng.random(dtype=np.float32, out=x)
        with pytest.raises(ValueError, match=r"size must match out\.shape"):
            rng.random(7, out=x)
        with pytest.raises(TypeError, match=r"out= takes an array of bsp\.arrays, not ndarray"):
            rng.random(out=np.zeros(3))

    bsp.run(main, nprocs=2)


def test_bytes_and_independent_orders_depend_on_the_seed_alone() -> None:
    a = np.arange(24).reshape(4, 6)

    def main(proc: bsp.Process) -> list[Any]:
        rng = ba.random.default_rng(3)
        x, out = ba.asarray(a, grid=(2, 3)), ba.zeros((4, 6), int)
        rng.permuted(x, axis=1, out=out)
        found = [rng.permuted(x, axis=axis).compute() for axis in (0, 1, None)]
        return [rng.bytes(9), rng.bytes(0), np.array(out.compute()), *found, rng.permuted(np.arange(5)).compute()]

    first, *others = [each for nprocs in (1, 2, 3) for each in bsp.run(main, nprocs=nprocs)]
    for other in others:
        assert other[:2] == first[:2]
        assert all(np.array_equal(x, y) for x, y in zip(first[2:], other[2:], strict=True))
    data, nothing, rows, columns, lines, both, vector = first
    assert (len(data), nothing, len(set(data)) > 1) == (9, b"", True)
    assert np.array_equal(np.sort(rows, axis=1), a) and np.array_equal(np.sort(lines, axis=1), a)
    assert len({tuple(np.argsort(line)) for line in lines}) > 1
    assert np.array_equal(np.sort(columns, axis=0), a) and sorted(both.ravel()) == list(range(24))
    assert sorted(vector) == list(range(5))
    with pytest.raises(TypeError):
        ba.random.default_rng(1).bytes(2.5)


@pytest.mark.parametrize("size", (0, 1, 1000))
def test_positions_of_a_random_order_sort_also_where_they_do_not_fit_beside_their_places(size: int) -> None:
    numbers = np.random.default_rng(2).permutation(size) + (1 << 60)
    for bound in (1 << 61, 1 << 62):  # with 1000 places they have more than 64 bits
        assert np.array_equal(ascending(numbers, bound), np.argsort(numbers))
    assert np.array_equal(ascending(numbers - (1 << 60), size), np.argsort(numbers))
