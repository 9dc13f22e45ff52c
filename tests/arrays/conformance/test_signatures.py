"""Calls written for NumPy's signatures, positional and named, are bound as NumPy does; the standard's still are."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from numpys_answers import as_numpys

import bsp
import bsp.arrays as ba
from bsp.arrays import namespace
from bsp.arrays.api.signatures import Binding, numpys

A = np.random.default_rng(0).normal(size=(6, 5))
B = np.random.default_rng(1).normal(size=(6, 5))
J = np.random.default_rng(2).integers(0, 5, 6)


def out(shape: Any, like: Any, dtype: Any = float) -> Any:
    return np.zeros_like(like, shape=shape, dtype=dtype)


def test_positional_arguments_of_numpys_functions() -> None:
    as_numpys(
        {
            "roll": lambda a, b, j: np.roll(a, 1, 0),
            "flip": lambda a, b, j: np.flip(a, 0),
            "stack": lambda a, b, j: np.stack([a, b], 1),
            "take": lambda a, b, j: np.take(a, j, 0),
            "take wrapped": lambda a, b, j: np.take(a, j + 9, 0, None, "wrap"),
            "repeat": lambda a, b, j: np.repeat(a, 2, 0),
            "tril": lambda a, b, j: np.tril(a, -1),
            "triu": lambda a, b, j: np.triu(a, 1),
            "tensordot": lambda a, b, j: np.tensordot(a, b.T, 1),
            "zeros_like": lambda a, b, j: np.zeros_like(a, int),
            "full_like": lambda a, b, j: np.full_like(a, 2.5, np.float32),
            "reshape": lambda a, b, j: np.reshape(a, (5, 6), "C"),
            "reshape in Fortran's order": lambda a, b, j: np.reshape(a, (3, -1), "F"),
            "ravel in Fortran's order": lambda a, b, j: np.ravel(a, "F"),
            "clip": lambda a, b, j: np.clip(a, -0.5, 0.5),
            "clip from above": lambda a, b, j: np.clip(a, None, 0.5),
            "max": lambda a, b, j: np.max(a, 0, None, True),
            "std": lambda a, b, j: np.std(a, 0, None, None, 1),
            "nanmean": lambda a, b, j: np.nanmean(a, 0, np.float64, None, True),
            "diff": lambda a, b, j: np.diff(a, 1, 0, b[:1]),
            "unique": lambda a, b, j: np.unique(j, True, False, True),
            "trace": lambda a, b, j: np.trace(a, 1, 0, 1, float),
            "where": lambda a, b, j: np.where(a > 0, a, b),
            "where alone": lambda a, b, j: np.where(a > 0),
            "linspace": lambda a, b, j: np.linspace(0, 1, 5, True, True)[1],
        },
        [A, B, J],
    )


def test_named_arguments_of_numpys_functions() -> None:
    as_numpys(
        {
            "roll": lambda a, b, j: np.roll(a=a, shift=(1, 2), axis=(0, 1)),
            "sum": lambda a, b, j: np.sum(a=a, axis=0, initial=2.0, where=b > 0),
            "mean": lambda a, b, j: np.mean(a=a, axis=1, where=b > 0),
            "var": lambda a, b, j: np.var(a=a, axis=1, where=b > -1, ddof=1),
            "std of a known mean": lambda a, b, j: np.std(a, axis=0, mean=np.mean(a, axis=0, keepdims=True)),
            "tensordot": lambda a, b, j: np.tensordot(a=a, b=b, axes=([0], [0])),
            "searchsorted": lambda a, b, j: np.searchsorted(a=np.sort(j), v=j, side="right"),
            "tile": lambda a, b, j: np.tile(A=a, reps=(2, 1)),
            "array_split": lambda a, b, j: np.array_split(ary=a, indices_or_sections=4),
            "clip": lambda a, b, j: np.clip(a=a, a_min=0, a_max=1),
            "clip by the standard's names": lambda a, b, j: np.clip(a, min=0, max=1),
            "angle": lambda a, b, j: np.angle(z=a, deg=True),
            "copy": lambda a, b, j: np.copy(a=a, order="F", subok=True),
            "median": lambda a, b, j: np.median(a=a, axis=0, overwrite_input=True),
            "sort": lambda a, b, j: np.sort(a=a, axis=0, kind="mergesort"),
            "full_like": lambda a, b, j: np.full_like(a=a, fill_value=3, dtype=int, shape=(2, 2)),
            "meshgrid": lambda a, b, j: np.meshgrid(j, j, sparse=True, copy=False),
            "lstsq": lambda a, b, j: np.linalg.lstsq(a=a, b=b[:, 0], rcond=None)[0],
            "rfft": lambda a, b, j: np.fft.rfft(a=a, n=4, axis=0, norm="ortho"),
        },
        [A, B, J],
    )


def test_results_go_where_out_says() -> None:
    as_numpys(
        {
            "stack": lambda a, b, j: np.stack([a, b], 0, out((2, 6, 5), a)),
            "max": lambda a, b, j: np.max(a, 0, out(5, a)),
            "fft": lambda a, b, j: np.fft.fft(a, out=out((6, 5), a, complex)),
            "dot": lambda a, b, j: np.dot(a, b.T, out((6, 6), a)),
            "cumulative_sum": lambda a, b, j: np.cumulative_sum(a, axis=0, out=out((6, 5), a)),
            "nansum": lambda a, b, j: np.nansum(a, axis=0, out=out(5, a)),
        },
        [A, B, J],
    )


def test_methods_take_what_numpys_take() -> None:
    as_numpys(
        {
            "repeat": lambda a, b, j: a.repeat(2, 0),
            "take": lambda a, b, j: a.take(j, 0),
            "copy": lambda a, b, j: a.copy("C"),
            "flatten": lambda a, b, j: a.flatten("F"),
            "astype": lambda a, b, j: a.astype(np.float32, "C", "same_kind", True, False),
            "astype refused": lambda a, b, j: a.astype(int, casting="safe"),
            "item": lambda a, b, j: (a.item(3, 4), a.item(7), a.item((2, 1)), j.item(-1)),
            "item of none": lambda a, b, j: a.item(1, 2, 3),
            "item beyond": lambda a, b, j: a.item(30),
            "item of many": lambda a, b, j: a.item(),
            "clip": lambda a, b, j: a.clip(-0.5, 0.5),
            "max": lambda a, b, j: a.max(0, None, True),
            "argsort": lambda a, b, j: a.argsort(0, "stable"),
            "compress": lambda a, b, j: a.compress([True, False, True], 0),
            "reshape": lambda a, b, j: a.reshape(3, 10, order="F"),
            "dot": lambda a, b, j: a.dot(b.T, out((6, 6), a)),
            "mean": lambda a, b, j: a.mean(0, where=b > 0),
            "round": lambda a, b, j: (a.round(1), a.round(decimals=2)),
            "searchsorted": lambda a, b, j: np.sort(j).searchsorted(v=j, side="right"),
        },
        [A, B, J],
    )


def test_wrong_calls_raise_what_numpys_do() -> None:
    as_numpys(
        {
            "no such argument": lambda a, b, j: np.roll(a, 1, axes=0),
            "too many": lambda a, b, j: np.flip(a, 0, 1),
            "too few": lambda a, b, j: np.roll(a),
            "given twice": lambda a, b, j: np.roll(a, 1, shift=2),
            "of a method": lambda a, b, j: a.repeat(2, axes=0),
            "two bounds": lambda a, b, j: np.clip(a, 0, 1, min=0),
            "order": lambda a, b, j: np.reshape(a, (5, 6), "X"),
            "half a where": lambda a, b, j: np.where(a > 0, a),
        },
        [A, B, J],
        ways=("blocks",),
    )


def test_a_misspelt_name_is_one_error_that_names_the_function() -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(TypeError, match=r"^ones\(\) got an unexpected keyword argument 'dtpye'$") as raised:
            ba.ones(8, dtpye=int)
        assert raised.value.__context__ is None  # a traceback would begin with a frame of Python's inspect

    bsp.run(main, nprocs=2)


def test_what_has_no_meaning_here_is_refused_by_name() -> None:
    def main(proc: bsp.Process) -> None:
        a = ba.asarray(A)
        with pytest.raises(TypeError, match="linspace: distributed arrays take no axis=1"):
            ba.linspace(0, 1, 5, axis=1)
        assert np.sort(a, order=None).shape == A.shape

    bsp.run(main, nprocs=2)


def test_functions_of_the_namespace_take_both_signatures_and_show_the_standards() -> None:
    def main(proc: bsp.Process) -> list[Any]:
        a = ba.asarray(A, grid=(2, 2))
        found = [ba.roll(a, 1, 0), ba.roll(a, 1, axis=0), ba.tril(a, -1), ba.tril(a, k=-1), ba.expand_dims(a, axis=0),
                 ba.take(a, J, 0), ba.eye(3, 4, 1, int), ba.where(a > 0, a, 0)]  # fmt: skip
        return [each.compute() for each in found]

    want = [np.roll(A, 1, 0), np.roll(A, 1, 0), np.tril(A, -1), np.tril(A, -1), A[None], A[J], np.eye(3, 4, 1, int),
            np.where(A > 0, A, 0)]  # fmt: skip
    for found in bsp.run(main, nprocs=3):
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == expected.dtype
    assert list(inspect.signature(ba.roll).parameters) == ["x", "shift", "axis"]
    assert pickle.loads(pickle.dumps(ba.roll)) is ba.roll


def test_every_argument_of_every_numpy_function_has_a_place_or_a_reason() -> None:
    """A parameter of NumPy's that ours has under another name must not be lost: positional ones are matched."""
    lost = {}
    for theirs, ours in namespace.OF_NUMPY.items():
        try:
            binding = Binding(inspect.unwrap(ours), inspect.signature(theirs), "f")
        except ValueError:
            continue
        # no meaning here, or dropped only if it is the default
        known = {"subok", "order", "like", "overwrite_input", "copy", "out", "retstep", "axis", "casting", "kind",
                 "ndmax", "sorted", "writeable",
                 "einsum_call"}  # fmt: skip
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        missing = [
            name for name, each in inspect.signature(theirs).parameters.items()
            if name not in binding._target and name not in known and each.kind not in kinds
        ]  # fmt: skip
        if missing:
            lost[theirs.__name__] = missing
    assert lost == {}


def test_a_signature_that_ours_has_already_costs_nothing() -> None:
    def ours(a: Any, axis: Any = None) -> Any:
        return a, axis

    assert numpys(ours, lambda a, axis=None: None) is ours
    assert numpys(ours, print) is not None
