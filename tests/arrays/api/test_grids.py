"""Grids of coordinates, triangles, diagonals and C-order positions are NumPy's; each process makes its own blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import agree, as_numpys, dealt_always, outcome
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.array import Array


def made_alike(calls: dict[str, Callable[[Any], Any]]) -> None:
    """Functions of no arrays, which are ours by the name of the namespace."""
    with dealt_always():
        for nprocs in (1, 3):
            for found in bsp.run(lambda proc: [outcome(call, [ba]) for call in calls.values()], nprocs=nprocs):
                for (name, call), each in zip(calls.items(), found, strict=True):
                    agree(each, outcome(call, [np]), name, 64)


def test_grids_and_sequences() -> None:
    made_alike(
        {
            "indices": lambda xp: xp.indices((2, 3)),
            "indices of a kind": lambda xp: xp.indices((2, 3), np.int8),
            "sparse indices": lambda xp: xp.indices((2, 3), sparse=True),
            "indices of nothing": lambda xp: xp.indices(()),
            "mgrid": lambda xp: xp.mgrid[0:5, 1:9:2],
            "mgrid of points": lambda xp: xp.mgrid[0:1:3j, 0:5],
            "mgrid of one": lambda xp: xp.mgrid[-1:1:5j],
            "mgrid of floats": lambda xp: xp.mgrid[0:1:0.25],
            "ogrid": lambda xp: xp.ogrid[0:5, 0:3],
            "ogrid of one": lambda xp: xp.ogrid[:7],
            "r_": lambda xp: xp.r_[1:4, 0, 5:6:3j],
            "c_": lambda xp: xp.c_[1:4, 4:7],
            "logspace": lambda xp: xp.logspace(0, 3, 7),
            "logspace of another base": lambda xp: xp.logspace(0, 3, 7, False, 2.0, np.int64),
            "geomspace": lambda xp: xp.geomspace(1, 1000, 4),
            "geomspace of integers": lambda xp: xp.geomspace(1, 1000, 4, False, int),
            "negative geomspace": lambda xp: xp.geomspace(-2, -1000, 9),
            "complex geomspace": lambda xp: xp.geomspace(1j, 1000j, 5),
            "geomspace through zero": lambda xp: xp.geomspace(0, 1),
            "geomspace of none": lambda xp: xp.geomspace(1, 2, 0),
            **{name: lambda xp, name=name: getattr(xp, name)(51) for name in ("bartlett", "hanning", "hamming")},
            "kaiser": lambda xp: xp.kaiser(20, 14.0),
            "blackman": lambda xp: xp.blackman(1),
        }
    )


@examples(40)
@given(st.integers(0, 9), st.integers(0, 9), st.integers(-4, 4))
def test_triangles_and_diagonals(n: int, m: int, k: int) -> None:
    made_alike(
        {
            "tri": lambda xp: xp.tri(n, m, k, int),
            "tril_indices": lambda xp: xp.tril_indices(n, k, m),
            "triu_indices": lambda xp: xp.triu_indices(n, k),
            "mask_indices": lambda xp: xp.mask_indices(n, xp.triu, k) if n else 0,
            "diag_indices": lambda xp: xp.diag_indices(n, 3),
        }
    )


def test_positions_for_a_matrix_and_an_open_grid() -> None:
    a, v = np.arange(20.0).reshape(4, 5), np.arange(7)
    as_numpys(
        {
            "tril": lambda a, v: np.tril_indices_from(a, -1),
            "triu": lambda a, v: np.triu_indices_from(a, 1),
            "tril of a vector": lambda a, v: np.tril_indices_from(v),
            "diagonal": lambda a, v: np.diag_indices_from(a[:, :4]),
            "diagonal of no square": lambda a, v: np.diag_indices_from(a),
            "diagonal of a vector": lambda a, v: np.diag_indices_from(v),
            "ix_": lambda a, v: np.ix_(v, v % 2 == 0),
            "ix_ of a matrix": lambda a, v: np.ix_(a),
            "diagflat": lambda a, v: np.diagflat(a[:2], 1),
            "rollaxis": lambda a, v: np.rollaxis(a.reshape(2, 2, 5), 2),
            "rollaxis to an end": lambda a, v: np.rollaxis(a.reshape(2, 2, 5), 0, 3),
            "rollaxis beyond": lambda a, v: np.rollaxis(a, 0, 5),
            "einsum_path": lambda a, v: np.einsum_path("ij,kj->ik", a, a)[0],
            "sort_complex": lambda a, v: np.sort_complex(a[::-1]),
            "sort_complex of bytes": lambda a, v: np.sort_complex(v.astype(np.int8)),
            "real_if_close": lambda a, v: (np.real_if_close(a + 1e-15j), np.real_if_close(a + 1j), np.real_if_close(a)),
        },
        [a, v],
    )


@examples(40)
@given(st.sampled_from([(9, 7), (4,), (2, 3, 4)]), st.sampled_from(["C", "F", "X"]),
       st.sampled_from(["raise", "wrap", "clip"]), st.booleans(), st.integers(1, 4))  # fmt: skip
def test_positions_and_indices(shape: tuple[int, ...], order: str, mode: str, beyond: bool, nprocs: int) -> None:
    rng = np.random.default_rng(1)
    at = rng.integers(0, np.prod(shape), 20)
    each = np.stack([rng.integers(0, length, 20) for length in shape])
    if beyond:
        at[7], each[0, 3] = np.prod(shape), -3
    as_numpys(
        {
            "unravel_index": lambda at, each: np.unravel_index(at, shape, order),
            "ravel_multi_index": lambda at, each: np.ravel_multi_index(tuple(each), shape, mode, order),
            "of floats": lambda at, each: np.unravel_index(at * 1.0, shape),
            "of booleans": lambda at, each: np.unravel_index(at > 3, shape),
            "of rows of booleans": lambda at, each: np.ravel_multi_index(tuple(each > 0), shape),
            "of too few": lambda at, each: np.ravel_multi_index(tuple(each[1:]), shape),
        } if order != "X" else {"no order": lambda at, each: np.unravel_index(at, shape, order)},
        [at, each], nprocs=nprocs, ways=("blocks", "ragged"),
    )  # fmt: skip


@examples(40)
@given(st.sampled_from([(17,), (3, 9), (2, 8), (0,)]), st.sampled_from([None, 0, -1]),
       st.sampled_from(["big", "little", "x"]), st.sampled_from([None, 0, 5, -2, 99]), st.integers(1, 4))  # fmt: skip
def test_bits(shape: tuple[int, ...], axis: Any, order: Any, count: Any, nprocs: int) -> None:
    bits = np.random.default_rng(2).integers(0, 2, shape)
    as_numpys(
        {
            "pack": lambda bits, whole: np.packbits(bits, axis, order),
            "unpack": lambda bits, whole: np.unpackbits(whole, axis, count, order),
            "pack floats": lambda bits, whole: np.packbits(bits * 1.0),
            "unpack integers": lambda bits, whole: np.unpackbits(bits),
        },
        [bits, (bits * 37 % 256).astype(np.uint8)], nprocs=nprocs, ways=("blocks", "ragged"),
    )  # fmt: skip


def test_text_in_r_is_refused() -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(TypeError, match="concatenate names an axis"):
            ba.r_["0,2", 1:4]
        assert isinstance(ba.r_[ba.arange(3), 4], Array)

    bsp.run(main, nprocs=2)
