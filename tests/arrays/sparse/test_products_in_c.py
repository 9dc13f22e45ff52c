"""Products of sparse rows in C have the entries of scipy's, with the same bits, in the order of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

from bsp.arrays.compiled import COMPILED, rows_times_rows, rows_times_vector
from bsp.arrays.sparse.semirings import PLAIN, product_of

pytestmark = pytest.mark.skipif(not COMPILED, reason="the package was installed without a C compiler")

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e308, 5e-324])


def sparse(
    rng: np.random.Generator, rows: int, columns: int, entries: int, value: Any = float, place: Any = np.int32
) -> ss.csr_array:
    """Return random CSR rows: some empty, some with a column several times, columns in any order, special values."""
    ends = np.sort(rng.integers(0, entries + 1, max(rows - 1, 0)))
    begins = np.concatenate([[0], ends, [entries]])[: rows + 1].astype(place)
    entries = int(begins[-1])
    values = np.where(rng.random(entries) < 0.3, rng.choice(SPECIAL, entries), rng.normal(size=entries))
    with np.errstate(over="ignore", under="ignore"):
        values = values.astype(value)
    places = rng.integers(0, max(columns, 1), entries).astype(place)
    return ss.csr_array((values, places, begins), shape=(rows, columns))


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two arrays have the same type and bytes, NaN apart, which have many."""
    numbers = ~np.isnan(expected)
    return found.dtype == expected.dtype and bool(
        (np.isnan(found) == ~numbers).all() and found[numbers].tobytes() == expected[numbers].tobytes()
    )


@given(
    st.integers(0, 2**32), st.sampled_from([0, 1, 5, 40]), st.sampled_from([1, 7, 64, 65, 5000, 300_000]),
    st.sampled_from([np.float32, np.float64]), st.sampled_from([np.int32, np.int64]),
    st.sampled_from([0, 10, 300, 3000]),
)  # fmt: skip
@examples(150)
def test_products_are_those_of_scipy(seed: int, rows: int, columns: int, value: Any, place: Any, entries: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = sparse(rng, rows, 30, entries, value, place), sparse(rng, 30, columns, 4 * entries, value, place)
    found, expected = product_of(left, right, PLAIN), left @ right
    expected.sort_indices()
    assert found.shape == expected.shape
    assert np.array_equal(found.indptr, expected.indptr) and np.array_equal(found.indices, expected.indices)
    assert same_bits(found.data, expected.data)
    x = sparse(rng, 1, columns, columns, value, place).toarray()[0]
    out = np.full(30, 777, value)
    assert rows_times_vector(right.indptr, right.indices, right.data, x, out)
    assert same_bits(out, right @ x)


def test_rows_that_grow_beyond_the_first_room_keep_their_entries() -> None:
    """Rows of one entry, then rows of thousands: the room grows many times."""
    rng = np.random.default_rng(5)
    left = ss.csr_array(np.tril(rng.random((300, 300)) < 0.5).astype(float))
    right = sparse(rng, 300, 2000, 60_000)
    expected = left @ right
    expected.sort_indices()
    found = product_of(left, right, PLAIN)
    assert same_bits(found.data, expected.data) and np.array_equal(found.indices, expected.indices)


def test_a_part_of_the_rows_is_multiplied() -> None:
    rng = np.random.default_rng(1)
    matrix, x, out = sparse(rng, 20, 10, 200), rng.random(10), np.zeros(5)
    assert rows_times_vector(matrix.indptr[8:14], matrix.indices, matrix.data, x, out)
    assert same_bits(out, (matrix @ x)[8:13])


@pytest.mark.parametrize("value", [np.int64, np.complex128, np.longdouble, ">f8", bool])
def test_other_types_are_left_to_scipy(value: Any) -> None:
    matrix = ss.csr_array(np.eye(3)[:, [0, 2, 1]])
    data, begins = matrix.data.astype(value), matrix.indptr.astype(np.int64)
    out = np.zeros(3, value)
    assert not rows_times_vector(matrix.indptr, matrix.indices, data, data, out)
    assert not out.any()
    assert rows_times_rows(begins, matrix.indices, data, begins, matrix.indices, data, 3, np.empty(4, np.int64)) is None
    if value != ">f8":
        mixed = product_of(matrix.astype(value), matrix.astype(value), PLAIN)
        assert mixed.dtype == np.dtype(value) and (mixed.toarray() == np.eye(3)).all()


def test_lengths_that_do_not_fit_are_refused() -> None:
    matrix, out = ss.csr_array(np.eye(3)), np.zeros(2)
    begins = matrix.indptr.astype(np.int64)
    with pytest.raises(ValueError, match="lengths do not fit"):
        rows_times_vector(matrix.indptr, matrix.indices, matrix.data, out, out)
    with pytest.raises(ValueError, match="lengths do not fit"):
        rows_times_vector(matrix.indptr, matrix.indices[:2], matrix.data[:2], matrix.data, np.zeros(3))
    operand = (begins, matrix.indices, matrix.data)
    with pytest.raises(ValueError, match="lengths do not fit"):
        rows_times_rows(*operand, *operand, 3, np.empty(3, np.int64))
    with pytest.raises(ValueError, match="-1 columns"):
        rows_times_rows(*operand, *operand, -1, np.empty(4, np.int64))
    with pytest.raises(ValueError, match="contiguous"):
        rows_times_vector(matrix.indptr, matrix.indices, np.zeros(6)[::2], matrix.data, np.zeros(3))
