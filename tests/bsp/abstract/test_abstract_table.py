"""Every entry of the table gives NumPy's shapes, dtypes and errors; flops are the documented formulas."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import log2
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from abstract_oracle import abstract, agree, outcome, same
from hypothesis import given
from hypothesis import strategies as st

from bsp.abstract import AbstractArray, Work, counter
from bsp.abstract.table import FEW, TABLE, squared, substituted

ONES = np.ones
V, W, M, S, T = ONES(6), ONES(6, int), ONES((4, 6)), np.eye(4) + 1, ONES((2, 3, 4))
C, F = ONES((4, 4), complex), ONES((5, 3), np.float32)
B = np.arange(6) % 2 == 0
I = np.arange(4)  # noqa: E741
STACK = np.eye(3) + np.zeros((2, 1, 3, 3))

Calls = list[tuple[Any, ...]]
# for each function: calls on real data; the arrays in them become abstract
CALLS: dict[str, Calls] = {
    # elementwise
    "clip": [(V, 0, 2), (W, 0, 2.5), (W, None, 3), (M, V, 9), (V, 0, 300)],
    "where": [(B, V, 0), (B, W, 1.5), (B, F[:, :1], V), (B, 1, 2)],
    "select": [([B, ~B], [V, W], 0.5), ([B], [V, W])],
    "round": [(V,), (V, 2), (W,), (C,), (V[0],)],
    "around": [(M, 1)],
    "fix": [(V,), (F,)],
    "isneginf": [(V,)],
    "isposinf": [(M,)],
    "iscomplex": [(V,), (C,)],
    "isreal": [(V,), (C,)],
    "real_if_close": [(V,)],
    "nan_to_num": [(V,), (F,), (W,)],
    "unwrap": [(V,), (M,)],
    "angle": [(C,), (V,)],
    "sinc": [(V,), (F,)],
    "i0": [(V,)],
    "isclose": [(V, W), (M, V), (V, M.T), (V, 1.0)],
    "allclose": [(V, W), (V, F)],
    "array_equal": [(V, W), (V, M)],
    "array_equiv": [(V, W)],
    "copyto": [(V, W), (M, V), (V, M), (W, V), (V, 3.0)],
    "real": [(V,), (C,), (ONES(3, "F"),)],
    "imag": [(V,), (C,)],
    "copy": [(V,), (M,)],
    "astype": [(V, np.float32)],
    # reductions
    "sum": [(M,), (M, 0), (M, (0, 1)), (M, -1, np.float32), (M, 2), (ONES((3, 0)), 1), (B,),
            (M, None, None, None, True)],
    "prod": [(M, 1), (ONES(3, "i1"),)],
    "min": [(M, 1), (ONES((0, 3)),), (ONES((0, 3)), 0), (ONES((0, 3)), 1)],
    "max": [(M,), (ONES(0),)],
    "amin": [(M,)],
    "amax": [(M, 0)],
    "any": [(M, 1), (B,)],
    "all": [(M > 0, 0)],
    "mean": [(M, 0), (W,), (C,), (ONES(3, "e"),), (F, None, float)],
    "var": [(M, 0), (C,), (F,)],
    "std": [(M, 1), (W,)],
    "ptp": [(M,), (M, 1), (W, 0)],
    "argmin": [(M,), (M, 1), (ONES(0),), (M, 7)],
    "argmax": [(M, 0), (V,)],
    "count_nonzero": [(M,), (M, 1)],
    "cumsum": [(M,), (M, 1), (B,), (ONES(3, "i1"),), (V[0],)],
    "cumprod": [(M, 0), (F,)],
    "nansum": [(M, 1)],
    "nanprod": [(M,)],
    "nanmin": [(M, 0)],
    "nanmax": [(M,)],
    "nanmean": [(M, 1)],
    "nanvar": [(M, 1)],
    "nanstd": [(F, 0)],
    "nanargmin": [(M, 1)],
    "nanargmax": [(M,)],
    "nancumsum": [(M, 1)],
    "nancumprod": [(M,)],
    "diff": [(V,), (M, 1, 0), (V, 2), (V, -1), (W,), (B,), (V, 1, -1, 0.0), (V, 1, -1, V[:2], 1.0), (V[:1], 3),
             (V[0],)],
    "ediff1d": [(V,), (M, V, 3.0)],
    "gradient": [(V,), (M,), (V, 0.5), (M, 1.0, V), (V, V), (ONES(1),), (F,)],
    "trapezoid": [(V,), (M, V), (V, V), (M,)],
    "median": [(M,), (M, 1), (W,), (F, 0)],
    "nanmedian": [(M, 0)],
    "quantile": [(M, 0.5), (M, [0.1, 0.9], 1), (F, 0.5)],
    "nanquantile": [(M, 0.5)],
    "percentile": [(M, 50), (M, [1, 2, 3], 0), (V, 30.0)],
    "nanpercentile": [(M, 50, 1)],
    "average": [(M,), (M, 0), (V, None, W), (M, 1, V), (M, 0, V), (M, None, V)],
    "cov": [(M,), (V,), (M, M), (F,), (M, ONES((2, 5)))],
    "corrcoef": [(M,)],
    "shape": [(M,)],
    "ndim": [(M,)],
    "size": [(M,), (M, 1)],
    "result_type": [(V, np.float32)],
    "can_cast": [],
    "min_scalar_type": [(V,)],
    "common_type": [(V, F), (F, F)],
    "iscomplexobj": [(V,), (C,)],
    "isrealobj": [(V,), (C,)],
    # linear
    "dot": [(V, V), (M, V), (S, M), (M, M), (T, M), (T, M.T), (V, 2.0), (W, V), (T[..., 0], T[0]), (F, F.T)],
    "vdot": [(V, V), (M, M), (C, C), (V, M)],
    "inner": [(V, V), (M, V), (M, M), (M, S), (V, 3.0)],
    "outer": [(V, V), (M, W), (V, 2.0)],
    "kron": [(V, V), (S, M), (V, S), (F, W)],
    "tensordot": [(M, M.T, 1), (M, V, 1), (T, T, 3), (T, M, ([2], [0])), (T, T, ([0, 1], [0, 1])), (M, M, 1),
                  (V, V, 0)],
    "cross": [(ONES(3), ONES(3)), (ONES((4, 3)), ONES(3)), (ONES((3, 4)), ONES((3, 4)), 0, 0, 0), (V, V)],
    "trace": [(S,), (T,), (M, 1)],
    "convolve": [(V, ONES(3)), (V, ONES(3), "same"), (ONES(3), V, "valid"), (V, M), (V, ONES(0))],
    "correlate": [(V, ONES(3)), (V, ONES(3), "full")],
    "linalg.matmul": [(S, M)],
    "linalg.vecdot": [(M, M)],
    "linalg.outer": [(V, V)],
    "linalg.tensordot": [(M, M.T, 1)],
    "linalg.cross": [(ONES(3), ONES(3))],
    "linalg.trace": [(S,)],
    "linalg.solve": [(S, I), (S, M), (STACK, ONES((3, 2))), (STACK, ONES(3)), (S, V), (M, M),
                     (S.astype("f4"), M), (V, V)],
    "linalg.inv": [(np.eye(3),), (STACK,), (M,), (np.eye(2, dtype="f4"),), (np.eye(2, dtype="e"),), (V,)],
    "linalg.det": [(S,), (STACK,), (M,)],
    "linalg.slogdet": [(S,), (STACK,), (C,)],
    "linalg.cholesky": [(np.eye(3),), (STACK,), (M,), (np.eye(3, dtype=int),)],
    "linalg.qr": [(M,), (M.T,), (M, "complete"), (M.T, "complete"), (M, "r"), (M.T, "r"), (F,), (T,), (M, "no"), (V,)],
    "linalg.svd": [(M,), (M, False), (M, True, False), (F, False), (T, False), (C,)],
    "linalg.svdvals": [(M,)],
    "linalg.eigh": [(S,), (STACK,), (C,), (M,)],
    "linalg.eigvalsh": [(S,), (C,), (np.eye(3, dtype="f4"),)],
    "linalg.eig": [(C,), (M,)],
    "linalg.eigvals": [(C,)],
    "linalg.lstsq": [(np.vander(np.arange(5.0), 3), ONES(5)), (np.eye(3), ONES((3, 2))), (M, M), (V, V)],
    "linalg.pinv": [(M,), (F,), (T,)],
    "linalg.matrix_rank": [(M,), (T,)],
    "linalg.cond": [(S,), (S + 1, 1)],
    "linalg.matrix_power": [(S, 3), (S, 0), (S, 1), (np.eye(3), -2), (M, 2)],
    "linalg.multi_dot": [([M, M.T, S],), ([V, M.T, M, V],), ([M, V],), ([M, M, M],)],
    "linalg.norm": [(V,), (M,), (M, "fro"), (M, 2), (M, 1), (M, "nuc"), (M, None, 1), (V, 1), (M, "x"),
                    (T, None, (0, 1)),                    (T, 2, (0, 2)), (F,), (C,), (W,),
                    (M, None, None, True), (V, "fro"), (T, 3)],
    "linalg.vector_norm": [(V,), (M,)],
    "linalg.matrix_norm": [(M,), (T,)],
    "linalg.diagonal": [(S,)],
    "linalg.matrix_transpose": [(M,)],
    "einsum": [("ij,j", M, V), ("ij,kj->ik", M, M), ("ii", S), ("ii->i", S), ("i,j->ji", V, W),
               ("...ij,jk->...ik", T, S), ("...j,...j", M, V), ("ij->ji", M), ("ij,jk", M, M),
               ("ij", V), ("ijk->k", T), ("i->", W)],
    "fft.fft": [(V,), (M,), (M, 8, 0), (F,), (C,), (V, 0)],
    "fft.ifft": [(V,), (W,)],
    "fft.rfft": [(V,), (M, 5), (F,), (C,)],
    "fft.irfft": [(V,), (M, 5, 0)],
    "fft.hfft": [(V,)],
    "fft.ihfft": [(V,)],
    "fft.fft2": [(M,), (T,), (T, (5, 5))],
    "fft.ifft2": [(M,)],
    "fft.rfft2": [(M,), (M, (8, 8))],
    "fft.irfft2": [(M,)],
    "fft.fftn": [(T,), (T, (2, 2), (0, 2)), (M, (2,), (0, 1))],
    "fft.ifftn": [(T,)],
    "fft.rfftn": [(T,), (F,)],
    "fft.irfftn": [(T,)],
    "fft.fftshift": [(V,), (M, 1), (M, (0, 1))],
    "fft.ifftshift": [(M,)],
    # shaping
    "moveaxis": [(T, 0, -1), (T, 5, 0)],
    "rollaxis": [(T, 2)],
    "swapaxes": [(T, 0, 2)],
    "squeeze": [(ONES((1, 3, 1)),), (M, 0), (ONES((1, 3)), 0)],
    "expand_dims": [(M, 0), (M, (0, -1)), (M, 9)],
    "broadcast_to": [(V, (3, 6)), (V, (3, 5))],
    "flip": [(M,), (M, 0)],
    "fliplr": [(M,), (V,)],
    "flipud": [(M,)],
    "rot90": [(M,), (M, 2)],
    "split": [(V, 3), (V, [1, 4]), (V, 4), (M, 2, 1)],
    "array_split": [(V, 4), (M, 3)],
    "hsplit": [(M, 2), (V, 2)],
    "vsplit": [(M, 2), (V, 2)],
    "dsplit": [(T, 2)],
    "unstack": [(M,)],
    "matrix_transpose": [(M,), (V,)],
    "lib.stride_tricks.sliding_window_view": [(V, 3), (M, (2, 2)), (V, 9)],
    "diagonal": [(M,), (T, 0, 1, 2), (V,)],
    "transpose": [(M,), (T, (2, 0, 1)), (T, (0, 1))],
    "atleast_1d": [(V,), (V, M), (V[0],)],
    "atleast_2d": [(V,)],
    "atleast_3d": [(V,), (M,)],
    "broadcast_arrays": [(V, M), (V, F)],
    "reshape": [(M, 24), (M, (2, -1)), (M, (5, 5)), (V[0], (1, 1))],
    "ravel": [(M,), (V,)],
    "meshgrid": [(V, I), (V,)],
    "concatenate": [([V, V],), ([M, M], 1), ([M, S], 1), ([M, V],), ([V, W, F[:, 0]],), ([M, V], None), ([V[0], V[1]],),
                    ([],), ([[1.0], V, [V[0], 2]],), ([V, C[0]],), ([B, W],), ([M, M], 5)],
    "stack": [([V, W],), ([V, V], 1), ([V, F],), ([V[0], V[1]],), ([V, V], 7)],
    "vstack": [([V, V],), ([V, M],), ([M, I],)],
    "hstack": [([V, V],), ([M, M],), ([M, V],)],
    "dstack": [([V, V],), ([M, M],)],
    "column_stack": [([V, V],), ([V, M.T],), ([ONES(4), M],)],
    "block": [([[S, M], [M.T, ONES((6, 6))]],), ([V, V],), ([[S, V]],), (V,)],
    "append": [(V, 1.0), (V, V), (M, M, 0), (M, V), (M, V, 0)],
    "delete": [(V, 1), (V, [1, 2]), (M, slice(2), 0), (V, 9)],
    "insert": [(V, 1, 5.0), (M, 1, 2.0, 1), (V, [1, 3], 1.0)],
    "tile": [(V, 2), (V, (2, 1)), (M, 3)],
    "repeat": [(V, 2), (M, 2), (M, 2, 0), (V, [0, 1, 2, 3, 4, 5]), (V, [1, 2]), (V, -1)],
    "pad": [(V, 2), (M, ((1, 0), (2, 3))), (M, (1, 2)), (V, -1), (V, 1, "edge"), (V, 1.5)],
    "roll": [(V, 2), (M, 1, 0), (M, 1, 5)],
    "resize": [(V, (2, 2)), (V, 9)],
    "triu": [(M,), (S, 1), (V,)],
    "tril": [(T,)],
    "diag": [(V,), (M,), (V, -2), (M, 1), (T,)],
    "diagflat": [(M,), (V, 1)],
    "vander": [(V,), (W, 3), (M,)],
    "fill_diagonal": [(S, 3.0), (V, 1.0), (T, 1.0)],
    "triu_indices_from": [],
    "tril_indices_from": [],
    "diag_indices_from": [],
    "empty_like": [(V,), (M, int)],
    "zeros_like": [(V,), (M, "f4")],
    "ones_like": [(V,)],
    "full_like": [(V, 2), (M, V), (V, F)],
    "linspace": [(0.0, V, 5), (V, 2.0, 3), (V[0], V[1], 4), (0, V[0], 4)],
    "logspace": [(0.0, V, 5)],
    "geomspace": [(V, 2.0, 5)],
    # selecting
    "sort": [(V,), (M, 0), (M, None), (M, 4), (V[0],)],
    "argsort": [(V,), (M,), (M, 0), (M, None)],
    "sort_complex": [(V,), (F[0],)],
    "lexsort": [((V, V),), ((V, M),)],
    "partition": [(V, 2), (M, 1, 0), (V, 8)],
    "argpartition": [(M, 2), (V, -9)],
    "searchsorted": [(V, 2.0), (V, M), (M, V), (V, [1, 2])],
    "digitize": [(V, V), (M, V)],
    "isin": [(M, V), (V, [1, 2])],
    "interp": [(V, V, V), (M, V, W), (2.0, V, V), (V, V, I), (V, V, C[0])],
    "nonzero": [(V,), (M,), (V[0],)],
    "flatnonzero": [(V,)],
    "argwhere": [(M,)],
    "extract": [(B | True, V)],
    "compress": [(B | True, V), (ONES(4, bool), M, 0), (B, M, 0)],
    "bincount": [(W, None, 3), (I, I + 0.5, 9), (V, None, 3), (M, None, 3), (W, V[:3], 3)],
    "histogram": [(V,), (M, 4), (V, [0, 1, 2.5]), (V, 0), (V, V, None, None, W)],
    "histogram_bin_edges": [(V,), (V, 4), (F,)],
    "take": [(V, [1, 2]), (M, I), (M, I, 0), (M, I[None], 1), (V, 9), (V, 1), (M, [0], 3), (V, V), (M, [])],
    "take_along_axis": [(M, ONES((4, 2), int)), (M, ONES((1, 6), int), 0), (M, W, None), (M, M), (M, W),
                        (M, ONES((3, 2), int))],
    "put_along_axis": [(M, ONES((4, 2), int), 1.0, 1), (M, ONES((4, 2), int), V, 1)],
    "put": [(V, [1, 2], 1.0), (V, 17, 1.0)],
    "putmask": [(V, B, 1.0), (V, M > 0, 1)],
    "place": [(V, B, [1.0])],
    "ix_": [(I, I), (M, I)],
    "unravel_index": [(I, (2, 3))],
    "ravel_multi_index": [((I, I), (4, 4))],
    "choose": [(W, [V, V, M]), (I, [V, V])],
    "unique_values": [],
}  # fmt: skip
NEWER = {
    "cumulative_sum": [(V,), (M,)],
    "cumulative_prod": [(V,)],
    "linalg.vecdot": [(M, M)],
}
# checked by name below or in the tests of arrays: they give no arrays, or upper bounds
APART = {
    "unique", "unique_values", "unique_counts", "unique_inverse", "unique_all", "union1d", "setxor1d", "intersect1d",
    "setdiff1d", "save", "savez", "savez_compressed", "savetxt", "may_share_memory", "shares_memory", "array_repr",
    "array_str", "array2string", "einsum_path", "can_cast",
}  # fmt: skip


def named(name: str) -> Any:
    return operator.attrgetter(name)(np)


CASES = [(name, call) for name, calls in (CALLS | NEWER).items() for call in calls if hasattr(np, name.split(".")[0])]


@pytest.mark.parametrize(("name", "call"), CASES, ids=[f"{name}-{k}" for k, (name, _) in enumerate(CASES)])
def test_an_entry_gives_what_numpy_gives(name: str, call: tuple[Any, ...]) -> None:
    try:
        function = named(name)
    except AttributeError:
        pytest.skip(f"this NumPy has no {name}")
    agree(function, *call)


def test_every_entry_of_the_table_is_checked() -> None:
    checked = {id(outcome(named, name)) for name in (*CALLS, *NEWER, *APART)}
    assert not [entry for entry in TABLE if callable(entry) and id(entry) not in checked]


def test_what_depends_on_shapes_alone_stays_real() -> None:
    for function in (np.triu_indices_from, np.tril_indices_from, np.diag_indices_from):
        for real, ours in zip(function(S), function(abstract(S)), strict=True):
            np.testing.assert_array_equal(real, ours, strict=True)
    assert np.can_cast(abstract(W).dtype, float) and np.result_type(abstract(F), 1.0) == np.float32


def test_unique_and_sets_are_at_most_everything() -> None:
    m, v = abstract(M), abstract(V)
    assert [part.shape for part in np.unique(m, True, True, True)] == [(24,), (24,), (4, 6), (24,)]
    assert np.unique(m, axis=0).shape == (4, 6)
    assert [np.union1d(m, v).size, np.setxor1d(m, v).size, np.intersect1d(m, v).size, np.setdiff1d(m, v).size] == [
        30,
        30,
        6,
        24,
    ]
    if hasattr(np, "unique_all"):
        assert type(np.unique_all(v)) is type(np.unique_all(V))
        assert np.unique_values(v).shape == (6,)
        assert np.unique_inverse(v)[1].shape == np.unique_counts(v)[1].shape == (6,)
    assert counter.take().upper_bound


def test_texts_are_placeholders() -> None:
    v = abstract(V)
    assert np.array_repr(v) == np.array_str(v) == np.array2string(v) == "<float64[6]>"


@given(data=st.data())
def test_joining_like_numpy(data: st.DataObject) -> None:
    side = hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=2)
    parts = [ONES(data.draw(side), data.draw(st.sampled_from("?bHlfdD"))) for _ in range(data.draw(st.integers(1, 3)))]
    axis = data.draw(st.integers(-2, 1))
    for function in (np.vstack, np.hstack, np.dstack, np.column_stack):
        agree(function, parts)
    agree(np.concatenate, parts, axis=axis)
    agree(np.stack, parts, axis=axis)
    same(outcome(np.concatenate, parts), outcome(np.concatenate, [abstract(parts[0]), *parts[1:]]))


@given(data=st.data())
def test_factorisations_like_numpy(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=3))
    a = ONES(shape, data.draw(st.sampled_from("efdFDi?")))
    a = a + np.eye(shape[-1], dtype=a.dtype) * 3 if len(shape) > 1 and shape[-1] == shape[-2] else a
    for function in ("inv", "det", "cholesky", "eigh", "eigvalsh", "slogdet", "qr", "svd", "pinv", "norm"):
        agree(getattr(np.linalg, function), a)


# ------------------------------------------------------------------------------------------ prices


def work(call: Callable[..., Any], *args: Any) -> Work:
    held = abstract(args)
    counter.take()
    call(*held)
    return counter.take()


m, n, k = 12.0, 5.0, 7.0
TALL, WIDE, SQUARE, RIGHT = ONES((12, 5)), ONES((5, 12)), np.eye(5), ONES((5, 7))
PRICES: list[tuple[str, Callable[..., Any], tuple[Any, ...], str, float]] = [
    ("add", np.add, (TALL, TALL), "elementwise", 60),
    ("broadcast", np.add, (ONES((3, 1)), ONES(4)), "elementwise", 12),
    ("divide", np.divide, (TALL, 2.0), "elementwise", 4 * 60),
    ("sqrt", np.sqrt, (TALL,), "elementwise", 4 * 60),
    ("exp", np.exp, (TALL,), "functions", 8 * 60),
    ("power", np.power, (TALL, 3.5), "functions", 17 * 60),
    ("square", lambda x: x**2, (TALL,), "elementwise", 60),
    ("complex", np.multiply, (C, C), "elementwise", 4 * 16),
    ("at", lambda x: np.add.at(x, np.array([1, 1, 2]), 1.0), (V,), "elementwise", 3),
    ("sum", np.sum, (TALL, 0), "blas1", 60),
    ("mean", np.mean, (TALL, 0), "blas1", 60 + 4 * 5),
    ("std", np.std, (TALL, 0), "blas1", 4 * 60 + 8 * 5),
    ("cumsum", np.cumsum, (TALL,), "blas1", 60),
    ("norm", np.linalg.norm, (V,), "blas1", 12),
    ("inner product", np.dot, (V, V), "blas1", 12),
    ("matvec", operator.matmul, (TALL, ONES(5)), "blas2", 2 * m * n),
    ("vecmat", operator.matmul, (ONES(12), TALL), "blas2", 2 * m * n),
    ("rank one", operator.matmul, (ONES((6, 1)), ONES((1, 4))), "blas2", 48),
    ("matmul", operator.matmul, (TALL, RIGHT), "blas3", 2 * m * n * k),
    ("stack of matmuls", operator.matmul, (T, S), "blas3", 2 * 2 * 3 * 4 * 4),
    ("complex matmul", operator.matmul, (C, C), "blas3", 8 * 4**3),
    ("integers are no BLAS", operator.matmul, (I[None] * W[:, None], ONES((4, 3), int)), "elementwise", 2 * 6 * 4 * 3),
    ("tensordot", lambda a, b: np.tensordot(a, b, 1), (TALL, RIGHT), "blas3", 2 * m * n * k),
    ("einsum", lambda a, b: np.einsum("ij,jk", a, b), (TALL, RIGHT), "elementwise", 2 * m * n * k),
    ("einsum by BLAS", lambda a, b: np.einsum("ij,jk", a, b, optimize=True), (TALL, RIGHT), "blas3", 2 * m * n * k),
    ("solve", np.linalg.solve, (SQUARE, ONES(5)), "blas2", 2 * n**3 / 3 + 2 * n * n),
    ("solve many", np.linalg.solve, (SQUARE, RIGHT), "blas2", 2 * n**3 / 3 + 2 * n * n * k),
    ("inv", np.linalg.inv, (SQUARE,), "blas2", 2 * n**3),
    ("det", np.linalg.det, (SQUARE,), "blas2", 2 * n**3 / 3 + n),
    ("cholesky", np.linalg.cholesky, (SQUARE,), "blas2", n**3 / 3),
    ("stack of cholesky", np.linalg.cholesky, (STACK,), "blas2", 2 * 3.0**3 / 3),
    ("qr r", lambda a: np.linalg.qr(a, "r"), (TALL,), "blas2", 2 * n * n * (m - n / 3)),
    ("qr", np.linalg.qr, (TALL,), "blas2", 4 * n * n * (m - n / 3)),
    ("qr wide", lambda a: np.linalg.qr(a, "r"), (WIDE,), "blas2", 2 * n * n * (m - n / 3)),
    ("svd values", lambda a: np.linalg.svd(a, compute_uv=False), (WIDE,), "blas3", 4 * m * n * n - 4 * n**3 / 3),
    ("svd", lambda a: np.linalg.svd(a, full_matrices=False), (TALL,), "blas3", 14 * m * n * n + 8 * n**3),
    ("svd full", np.linalg.svd, (TALL,), "blas3", 4 * m * m * n + 8 * m * n * n + 9 * n**3),
    ("eigh", np.linalg.eigh, (SQUARE,), "blas3", 9 * n**3),
    ("eigvalsh", np.linalg.eigvalsh, (SQUARE,), "blas3", 4 * n**3 / 3),
    ("eig", np.linalg.eig, (SQUARE,), "blas3", 25 * n**3),
    ("lstsq", np.linalg.lstsq, (TALL, ONES(12)), "blas3", 4 * m * n * n + 8 * n**3 + 2 * m * n),
    ("fft", np.fft.fft, (ONES((3, 8)),), "elementwise", 3 * 5 * 8 * 3),
    ("rfft", np.fft.rfft, (ONES((3, 8)),), "elementwise", 3 * 5 * 8 * 3 / 2),
    ("sort", np.sort, (ONES((3, 8)),), "elementwise", 3 * 8 * 3),
    ("searchsorted", np.searchsorted, (ONES(8), ONES(10)), "elementwise", 10 * 3),
    ("copy", np.copy, (V,), "bytes", 2 * 48),
    ("concatenate", lambda a, b: np.concatenate([a, b]), (V, V), "bytes", 2 * 96),
    ("gather", lambda a, i: a[i], (V, W[:3]), "bytes", 2 * 24),
    ("store", lambda a: operator.setitem(a, slice(3), 1.0), (V,), "bytes", 24 + 8),
    ("view", lambda a: a[1:].T.reshape(-1), (V,), "bytes", 0),
]  # fmt: skip


# flops and bytes of what NumPy's own code does beside the operation
BESIDE = {
    "norm": 4,  # the root
    **dict.fromkeys(("qr r", "qr"), 2 * 480 + 25 + 8 + (25 + 2 * 200)),  # a copy; R, by a mask of its triangle
    "qr wide": 2 * 480 + 60 + 8 + (60 + 2 * 480),
    "eig": 25 + 25 + 5 + 5,  # is A finite, are the eigenvalues real?
    "lstsq": 1 + 80,  # is the rank full?  the solution as a vector
}  # fmt: skip


@pytest.mark.parametrize(("name", "call", "args", "kernel", "amount"), PRICES, ids=[p[0] for p in PRICES])
def test_an_operation_costs_its_formula_in_one_class(
    name: str, call: Any, args: Any, kernel: str, amount: float
) -> None:
    done = work(call, *args)
    assert getattr(done, kernel) == pytest.approx(amount, rel=1e-12)
    assert done.flops + done.bytes == pytest.approx(amount + BESIDE.get(name, 0), rel=1e-12)


@pytest.mark.parametrize(("n", "share"), [(128, 1.0), (129, 0.5), (1000, 0.5)])
def test_few_columns_are_factored_at_the_rate_of_matrix_times_vector(n: int, share: float) -> None:
    for call, flops in ((np.linalg.cholesky, n**3 / 3), (np.linalg.qr, 8 * n**3 / 3), (np.linalg.inv, 2 * n**3)):
        done = work(call, ONES((n, n)))
        assert (done.blas2, done.blas3) == pytest.approx((share * flops, (1 - share) * flops))


@pytest.mark.parametrize("shares", [squared, substituted])
def test_work_on_few_columns_is_split_into_classes(shares: Callable[[int], dict[str, float]]) -> None:
    """More columns are faster, whatever the classes' rates are as long as they are in the order of all processors."""
    rates = {"elementwise": 1.0, "triangle": 2.0, "narrow": 4.0, "blas2": 4.0, "blas3": 10.0}
    times = []
    for n in range(1, 600):
        found = shares(n)
        assert sum(found.values()) == pytest.approx(1) and min(found.values()) >= 0
        times.append(Work(**dict[str, Any](found)).seconds(rates))
    assert times == sorted(times, reverse=True)
    measured = "narrow" if shares is squared else "triangle"
    assert shares(FEW)[measured] == 1 and not any(share for name, share in shares(FEW).items() if name != measured)


def test_classes_that_a_machine_file_lacks_take_the_time_of_others() -> None:
    rates = {"blas2": 2.0, "blas3": 8.0, "elementwise": 1.0}
    assert Work(functions=3).seconds(rates) == 3
    assert 1 / 8 < Work(narrow=1).seconds(rates) < 1 / 2 < Work(triangle=1).seconds(rates) < 1
    assert Work(narrow=1).seconds(rates | {"narrow": 3.0}) == 1 / 3


def test_work_adds_up_and_is_priced_by_rates() -> None:
    one = Work(blas3=10, elementwise=4, bytes=100, calls=2) + Work(blas1=3, elementwise=1, calls=1, upper_bound=True)
    assert one == Work(blas1=3, blas3=10, elementwise=5, bytes=100, calls=3, upper_bound=True)
    rates = {"blas1": 1.0, "blas3": 10.0, "elementwise": 5.0}
    assert one.seconds(rates) == 3 + 1 + 1
    assert one.seconds(rates | {"bytes": 50.0, "calls": 3.0}) == 3 + 1 + 1 + 2 + 1
    with pytest.raises(KeyError):
        Work(blas2=1).seconds(rates)
    assert log2(8) == 3 and one.flops == 18


def test_functions_have_a_rate_of_their_own_or_that_of_elementwise_work() -> None:
    done = work(lambda x: np.exp(x) + np.log(x), TALL)
    assert (done.elementwise, done.functions, done.flops) == (60, 2 * 8 * 60, 17 * 60)
    assert done.seconds({"elementwise": 60.0}) == 1 + 16
    assert done.seconds({"elementwise": 60.0, "functions": 30.0}) == 1 + 32


def test_memory_peaks_are_kept_by_account() -> None:
    from bsp.abstract import HeldMemory

    mine, others = HeldMemory(), HeldMemory()
    before, counter.account = counter.account, mine
    try:
        a = AbstractArray(1000)
        counter.account = others
        b = AbstractArray(10)
        del a
        assert (mine.live_bytes, mine.peak_bytes, counter.live_bytes, counter.peak_bytes) == (0, 8000, 80, 80)
        del b
    finally:
        counter.account = before
