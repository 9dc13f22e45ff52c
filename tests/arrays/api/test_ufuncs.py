"""Ufuncs have NumPy's dtypes beside Python's numbers, and under masks the warnings of what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpys_answers import alike, as_numpys

import bsp
import bsp.arrays as ba
from bsp.errors import ShapeError


@pytest.mark.parametrize("name", ["divide", "arctan2", "hypot", "float_power", "copysign", "logaddexp", "logical_and"])
@pytest.mark.parametrize("number", [300, -1])
def test_python_integers_need_fit_only_what_the_ufunc_computes_in(name: str, number: int) -> None:
    data = np.arange(1, 8, dtype=np.uint8)
    alike(lambda xp, x: getattr(xp, name)(x, number), data)
    alike(lambda xp, x: getattr(xp, name)(number, x), data)


def test_python_integers_fit_the_dtype_that_is_asked_for() -> None:
    alike(lambda xp, x: xp.add(x, 300, dtype=np.int64), np.arange(7, dtype=np.uint8))


def test_divmod_of_a_number() -> None:
    alike(lambda xp, x: divmod(50, x)[1], np.arange(1, 8))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64, np.complex128])
def test_what_a_mask_leaves_alone_neither_warns_nor_changes(dtype: Any) -> None:
    a, b = np.array([[0, 1, 2], [3, 0, 5]], dtype), np.array([0, 1, 4], dtype)
    out = np.full(a.shape, 9, np.result_type(a / np.ones(1, dtype)))

    def divided(xp: Any, x: Any, y: Any, out: Any) -> Any:
        return np.divide(x, y, out=out, where=y != 0)

    alike(divided, a, b, out)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.float32, np.complex64])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 2.0, 0.5])
def test_powers_have_the_dtypes_of_numpys(dtype: Any, exponent: float) -> None:
    alike(lambda xp, x: x**exponent, np.array([1, 0, 1, 1], dtype))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_a_mask_chooses_among_integers_of_64_bits_exactly(dtype: Any) -> None:
    a, out = np.array([2**62 + 1, 8, 7], np.uint64), np.array([5, 2**62 + 1, 2**62 + 3], dtype)
    mask = np.array([True, True, False])
    alike(lambda xp, a, out, mask: np.invert(a, out=out, where=mask, casting="same_kind"), a, out, mask)


def test_ufuncs_with_casting_name_themselves_and_compare_any_integer() -> None:
    alike(lambda xp, x: np.less(-1, x, casting="unsafe"), np.array([1, 2], np.uint64))
    alike(lambda xp, x: np.greater(2**40, x, casting="no"), np.array([1, 2], np.int8))
    with pytest.raises(ShapeError, match=r"^add: operands"):
        ba.add(ba.ones(3), ba.ones(2), dtype="f4")


@pytest.mark.parametrize("sequence", [[0], (1, 2), "ab", b"-"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_an_integer_repeats_a_sequence(sequence: Any, dtype: Any) -> None:
    n = np.arange(4, dtype=dtype)

    def main(proc: bsp.Process) -> list[Any]:
        each = ba.asarray(n)
        again = each[2]
        again *= sequence
        return [each.sum() * sequence, sequence * each.max(), again]

    again = n[2]
    again *= sequence
    for found in bsp.run(main, nprocs=3):
        assert found == [n.sum() * sequence, sequence * n.max(), again]
        assert [type(each) for each in found] == [type(sequence)] * 3


def test_a_vector_is_multiplied_by_a_sequence() -> None:
    alike(lambda xp, x: [3, 4] * x, np.arange(2))


@pytest.mark.parametrize("name", ["sqrt", "floor", "multiply", "modf", "matmul"])
def test_results_go_into_the_arrays_after_the_operands(name: str) -> None:
    def into(xp: Any, x: Any, y: Any, one: Any, two: Any) -> Any:
        args = (x, y) if name in ("multiply", "matmul") else (x,)
        results = (one, two) if name == "modf" else (one,)
        found = getattr(xp, name)(*args, *results)
        assert found is one or all(each is result for each, result in zip(found, results, strict=True))
        return one + two

    a = np.arange(9.0).reshape(3, 3) / 4
    alike(into, a, a[::-1].copy(), np.zeros((3, 3)), np.zeros((3, 3)))


def test_too_many_operands_are_told() -> None:
    x = ba.ones(3)
    with pytest.raises(TypeError, match=r"add\(\) takes from 2 to 3 positional arguments but 4 were given"):
        ba.add(x, x, x, x)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1", "u1", "i8", "?", "c16", "m8[s]"])
def test_clipped_elements_are_numpys_to_the_bit(dtype: str) -> None:
    bounds: list[Any] = [
        (0, 1), (0.0, 1.0), (-300, 300), (np.float32(0), 1), (np.float64(0.5), np.int8(1)), (1, 0), (None, 1),
        (0, None), (np.zeros(5), np.ones((3, 5))),
    ]  # fmt: skip
    x = np.array([-0.0, 0.0, 3.0, -1.0, 2.0])
    x = x.astype(int).astype(dtype) if dtype[0] == "m" else x.astype(dtype)
    if x.dtype.kind in "fc":
        x[2] = np.nan

    def main(proc: bsp.Process, low: Any, high: Any) -> Any:
        return [np.clip(ba.asarray(x), low, high).compute()]

    for low, high in bounds:
        try:
            want = np.clip(x, low, high)
        except (TypeError, ValueError) as wrong:
            with pytest.raises(type(wrong)):
                bsp.run(main, low, high, nprocs=2)
            continue
        for (found,) in bsp.run(main, low, high, nprocs=2):
            assert (found.dtype, found.shape, found.tobytes()) == (want.dtype, want.shape, want.tobytes())


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1", "u8", "?", "c8", "c16", "m8[s]"])
def test_a_choice_between_an_array_and_a_number_keeps_every_bit(dtype: str) -> None:
    x = np.array([-0.0, 0.0, 3.0, -1.0, np.nan, np.inf])
    x = np.where(np.isfinite(x), x, 7).astype(int).astype(dtype) if dtype[0] in "iu?m" else x.astype(dtype)
    mask = np.array([True, False, True, False, True, False])
    zero = x.dtype.type(0)
    for number in (zero, -zero if dtype[0] in "fc" else zero, x[2]):
        for pick in (lambda xp, x, m, n=number: xp.where(m, x, n), lambda xp, x, m, n=number: xp.where(m, n, x)):
            want = pick(np, x, mask)
            for (found,) in bsp.run(lambda proc: [pick(ba, ba.asarray(x), ba.asarray(mask)).compute()], nprocs=2):
                assert (found.dtype, found.tobytes()) == (want.dtype, want.tobytes())


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8"])
def test_what_replaces_nan_and_infinities_is_not_replaced_again(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 2.0, -1e30])
    x = x.astype(dtype) if dtype != "i8" else np.arange(5)
    for options in ({}, {"nan": np.inf}, {"nan": 5}, {"posinf": -np.inf}, {"neginf": np.nan}, {"posinf": 1.0},
                    {"nan": -np.inf, "posinf": 3, "neginf": np.inf}):  # fmt: skip
        alike(lambda xp, x, options=options: np.nan_to_num(x, **options), x)


def test_numbers_and_lists_are_masks_and_arrays_of_numbers_are_refused() -> None:
    masks: list[Any] = [0, -2, 2.5, np.int64(2), [2, 0, 4], [[1.5], [0]], np.ones(3, "i1"), np.zeros((2, 1)), "array"]
    calls: dict[str, Any] = {}
    for mask in masks:
        for name, function in {
            "add": lambda x, where: np.add(x, 1, out=np.zeros_like(x), where=where),
            "sum": lambda x, where: np.sum(x, axis=0, where=where),
            "max": lambda x, where: np.max(x, axis=1, initial=-9, where=where),
            "subtract": lambda x, where: np.subtract.reduce(x, where=where, initial=0),
            "copyto": lambda x, where: (np.copyto(x, 7, where=where), x)[1],
        }.items():
            calls[f"{name} where {mask!r}"] = lambda x, m, f=function, mask=mask: f(x, m if mask == "array" else mask)
    as_numpys(calls, [np.arange(6.0).reshape(2, 3), np.array([2, 0, 4], np.int8)])
    calls = {
        "nanmean": lambda x: np.nanmean(x, axis=1, where=[1, 0, 1]),
        "nanvar": lambda x: np.nanvar(x, axis=1, where=[1, 0, 1]),
    }
    as_numpys(calls, [np.arange(6.0).reshape(2, 3)])
