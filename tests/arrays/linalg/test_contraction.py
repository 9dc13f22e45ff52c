"""Products and einsum are NumPy's where a factor is a number, all share an index, or values are true or false."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpys_answers import alike, random, refused

import bsp
import bsp.arrays as ba


def test_a_product_with_a_number_that_is_computed() -> None:
    alike(lambda xp, x, s: xp.einsum("ij,->ij", x, s * 2), random(4, 5), np.array(3.0))
    alike(lambda xp, x, y: xp.einsum("...i,...i", x, y), np.array([3]), np.arange(3))


def test_three_factors_may_share_their_only_index() -> None:
    alike(lambda xp, x: xp.einsum("i,i,i->i", x, x, x), random(8))
    alike(lambda xp, x, y, z: xp.einsum("ij,jk,ki", x, y, z), random(3, 1), random(8, 8), random(8, 1))


def test_matmul_and_vecdot_take_what_numpy_gives_them() -> None:
    alike(lambda xp, x, y: np.vecdot(x, y, axis=0), random(7, 5), random(7, 5))
    alike(lambda xp, x, y: np.matmul(x, y, dtype=np.complex128), random(7, 5), random(5, 3))


def test_products_of_truth_values_are_joined_by_or() -> None:
    left, right = random(5, 12) > -0.5, random(12, 4) > -0.5

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(left, grid=(1, 6), process_grid=(1, 2))
        y = ba.asarray(right, grid=(6, 1), process_grid=(2, 1))
        np.testing.assert_array_equal((x @ y).compute(), left @ right)
        np.testing.assert_array_equal(ba.einsum("ij,jk->", x, y).compute(), np.einsum("ij,jk->", left, right))

    bsp.run(main, nprocs=2)
    bsp.run(main, nprocs=5)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.permutations([0, 1, 2]), st.permutations([0, 1, 2]), st.integers(1, 3), st.sampled_from([1, 2, 3]))
def test_axes_are_summed_in_any_order(of_a: list[int], of_b: list[int], count: int, p: int) -> None:
    shape_a, shape_b = [4, 5, 6], [7, 8, 9]
    for i, j in zip(of_a[:count], of_b[:count], strict=True):
        shape_b[j] = shape_a[i]
    a, b = random(*shape_a), random(*shape_b)
    axes = (of_a[:count], of_b[:count])

    def main(proc: bsp.Process) -> None:
        for x, y in ((ba.asarray(a), ba.asarray(b)), (ba.asarray(a, grid=(2, 1, 3)), ba.asarray(b, grid=(1, 2, 2)))):
            found = ba.tensordot(x, y, axes=axes).compute()
            np.testing.assert_allclose(found, np.tensordot(a, b, axes=axes), rtol=0, atol=1e-12)

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [("ij,i->i", ["i1", "i8"]), ("ij,i->", ["?", "f8"]), ("ij,i->", ["f2", "f8"]), ("ij,k->k", ["f4", "f8"]),
     ("ij,jk,kl->il", ["u1", "u1", "f8"]), ("ij,jk,k->i", ["?", "?", "f4"]), ("ij,jk,->ik", ["i2", "i2", "c16"])],
)  # fmt: skip
@pytest.mark.parametrize("nprocs", [1, 3])
def test_sums_have_the_dtype_of_the_result(text: str, dtypes: list[str], nprocs: int) -> None:
    rng = np.random.default_rng(7)
    given = [rng.integers(0, 100, (40,) * len(term)).astype(dtype)
             for term, dtype in zip(text.partition("-")[0].split(","), dtypes, strict=True)]  # fmt: skip
    known = np.einsum(text, *[each.astype(np.result_type(*dtypes)) for each in given])

    def main(proc: bsp.Process) -> None:
        found = np.einsum(text, *map(ba.asarray, given))
        assert found.dtype == known.dtype
        np.testing.assert_allclose(found.compute(), known, rtol=1e-5 if known.dtype.itemsize == 4 else 1e-12)

    bsp.run(main, nprocs=nprocs)


def test_cross_products_take_numpys_arguments() -> None:
    a, b = random(3, 4), random(4, 3)
    alike(lambda xp, a, b: xp.cross(a, b, axisa=0, axisc=0), a, b)
    alike(lambda xp, a, b: xp.cross(a, b, axis=0), a, a + 1)
    alike(lambda xp, a, b: np.cross(a[:, 0], b), a, b)


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (5, 4)])
@pytest.mark.parametrize("text", ["ii", "ii->i", "ii,i->i"])
def test_a_diagonal_has_axes_of_one_length(shape: tuple[int, int], text: str) -> None:
    operands = [np.ones(shape), np.ones(5)][: 1 + text.count(",")]
    refused(lambda xp, *given: xp.einsum(text, *given), *operands)


def test_einsum_takes_lists_of_indices() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    alike(lambda xp, x, y: xp.einsum(x, [0, 1], y, [1, 2], [0, 2]), a, b)
    alike(lambda xp, x, y: xp.einsum(x, [30, 2], y, [2, 1]), a, b)
    alike(lambda xp, x, y: xp.einsum(x, [..., 7], y[:, 0], [7], [...]), a, b)
    alike(lambda xp, x, y: xp.einsum(x, [1, 0]), a, b)
    with pytest.raises(ValueError, match="indices in lists are from 0 to 51"):
        ba.einsum(ba.asarray(a), [0, 52])
    with pytest.raises(TypeError, match="a list of indices after each operand"):
        ba.einsum(ba.asarray(a), "ij")


@pytest.mark.parametrize(("rows", "columns", "length"), [(2, 1, 3), (2, 3, 1), (1, 3, 2)])
def test_products_with_vectors_repeat_no_axis_that_is_summed_over(rows: int, columns: int, length: int) -> None:
    matrices, vector = np.ones((2, rows, columns)), np.ones(length)
    refused(lambda xp, a, x: xp.matvec(a, x), matrices, vector)
    refused(lambda xp, a, x: xp.vecmat(x, a.mT), matrices, vector)
