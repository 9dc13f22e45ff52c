"""Products of sparse arrays whose rows are nearly full: ordered by places, with scipy's bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss

import bsp
from bsp.arrays import sparse

N = 700


def matrix(seed: int, dtype: Any) -> Any:
    found = ss.random_array((N, N), density=0.1, format="csr", rng=np.random.default_rng(seed))
    found.data = (10 * found.data - 5).astype(dtype)
    return found


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int32])
def test_rows_that_are_nearly_full_are_scipys(dtype: Any, nprocs: int) -> None:
    first, second = matrix(0, dtype), matrix(1, dtype)
    right = first @ second
    assert not right.has_sorted_indices and right.nnz > N * N / 2  # what is tried here
    right.sort_indices()

    def main(proc: bsp.Process) -> Any:
        return (sparse.from_scipy(first) @ sparse.from_scipy(second)).compute()

    found = bsp.run(main, nprocs=nprocs)[0]
    assert found.dtype == right.dtype
    assert (found.indptr == right.indptr).all() and (found.indices == right.indices).all()
    if nprocs == 1:  # else the far columns are numbered behind the own ones, and summed after them
        assert (found.data == right.data).all()
    np.testing.assert_allclose(found.data, right.data, rtol=1e-4)
