"""Coarrays and what a get returns: memory that is one, and handles that are no values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import bsp


def test_an_assignment_to_local_copies_into_the_registered_memory(run: Any) -> None:
    """There is one memory: what others put and get is what `local` shows, whatever was assigned to it."""

    def main(proc: bsp.Process) -> Any:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray(6, int)
        memory = x.local
        x.local = np.arange(6) * 10
        x.local += proc.pid
        x.local = x.local[::-1]
        assert x.local is memory
        proc.sync()
        x.put(right, -7, at=0)
        strided = x.get(right, at=slice(0, None, 2))
        proc.sync()
        assert strided.value.tolist() == [50 + right, 30 + right, 10 + right]
        return x.local.tolist()

    assert run(main, nprocs=3) == [[-7, *(v + pid for v in (40, 30, 20, 10, 0))] for pid in range(3)]


def test_an_assignment_to_local_of_another_shape_or_kind_is_refused(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray((2, 3), int)
        with pytest.raises(
            bsp.ShapeError, match=r"values of shape \(3,\) into 'x' of shape \(2, 3\): the shapes must be"
        ):
            x.local = np.arange(3)
        with pytest.raises(bsp.ShapeError, match=r"x.local\[...\] = values broadcasts"):
            x.local = 5
        with pytest.raises(bsp.CastError, match="assignment of float64 values into int64 'x'"):
            x.local = np.ones((2, 3))
        assert not x.local.any()

    run(main, nprocs=1)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("u8", [2**64 - 1, 1]), ("u8", [2**63, 0]), (float, [2**70, 1]), (float, 2**64), ("c16", [2**64, 1])],
)
def test_python_integers_of_any_size_are_put_where_they_fit(run: Any, dtype: str, values: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(2, dtype)
        x.put(0, values)
        proc.sync()
        np.testing.assert_array_equal(x.local, np.broadcast_to(np.array(values, dtype), 2))
        for wrong, into in (
            (2**64, "u8"),
            ([2**64, 1], "i8"),
            ([2**63, 1.0], "u8"),
            ([-1, 2**63], "u8"),
            (2**5000, float),
        ):
            with pytest.raises(bsp.CastError):
                proc.coarray(2, into).put(0, wrong)
        proc.sync()

    run(main, nprocs=1)


@pytest.mark.parametrize("fill", [np.nan, np.inf, 2.5, np.float32(0.5), 1j, 1e30])
@pytest.mark.parametrize("size", [3, 20_000])
def test_integers_are_not_filled_with_what_they_cannot_hold(run: Any, fill: Any, size: int) -> None:
    def main(proc: bsp.Process) -> None:
        for dtype in (int, np.uint8, bool):
            with pytest.raises(bsp.CastError, match=r"fill=.* is no (int64|uint8|bool)"):
                proc.coarray(size, dtype, fill)
            assert proc.coarray(size, dtype, fill=1.0).local.all()

    run(main, nprocs=1)


@pytest.mark.parametrize("dtype", [str, bytes, "U", "S", "V"])
def test_text_without_a_length_is_refused_as_puts_would_be_cut_to_one_character(run: Any, dtype: Any) -> None:
    def main(proc: bsp.Process) -> str:
        with pytest.raises(bsp.CastError, match=r"dtype=\w+ has no length: .* dtype='U20'"):
            proc.coarray(2, dtype)
        x = proc.coarray(2, "U5")
        x.put(0, "hello")
        proc.sync()
        return str(x.local[1])

    assert run(main, nprocs=1) == ["hello"]


@pytest.mark.parametrize("shape", [3, 5000, (200, 200), [300, 40], range(300, 302), np.array([300, 40]), (), 0, (0, 9)])
@pytest.mark.parametrize("dtype", [float, ">i2", "?", "S300", (float, (3,)), [("a", "i1"), ("b", "f8")]])
def test_a_coarray_is_what_numpy_makes_of_its_shape_and_dtype(run: Any, shape: Any, dtype: Any) -> None:
    """Large ones begin at a page, which makes no other difference."""

    def main(proc: bsp.Process) -> None:
        for fill, expected in ((0, np.zeros(shape, dtype)), (1, np.full(shape, 1, dtype))):
            x = proc.coarray(shape, dtype, fill).local
            assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(x, expected)
            assert x.flags.c_contiguous and x.flags.writeable and x.flags.aligned
        for narrow in (np.uint8(200), (np.int16(200), np.int16(200))):
            assert proc.coarray(narrow, "S300").shape == np.zeros(narrow, "S1").shape

    run(main, nprocs=1)


@pytest.mark.parametrize("shape", [-1, (-5, -5000), 1e5, None, "3"])
def test_a_shape_that_is_none_is_refused_as_numpy_does(run: Any, shape: Any) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(Exception) as expected:
            np.empty(shape)
        with pytest.raises(type(expected.value)) as refused:
            proc.coarray(shape)
        assert str(refused.value) == str(expected.value)

    run(main, nprocs=1)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("known", [True, False])
def test_positions_and_values_are_read_at_the_call(run: Any, dtype: Any, known: bool) -> None:
    """`put_each` and `get_each` copy everything now: for every integer type, before and after the shapes are known."""

    def main(proc: bsp.Process) -> None:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray(5)
        x.local[:] = np.arange(5.0) + 10 * proc.pid
        if known:
            proc.sync()
        dests, positions, values = np.full(2, right), np.array([1, 3], dtype), np.array([7.0, 8.0])
        got = x.get_each(dests, positions)
        x.put_each(dests, positions, values)
        dests[:] = proc.pid
        positions[:] = 0
        values[:] = -1.0
        proc.sync()
        assert got.value.tolist() == [1.0 + 10 * right, 3.0 + 10 * right]
        assert x.local.tolist() == [10.0 * proc.pid, 7.0, 2.0 + 10 * proc.pid, 8.0, 4.0 + 10 * proc.pid]

    run(main, nprocs=3)


MISTAKES = {
    "x[0] += 1": r"x\[pid, index\] \+= values .* use x.put\(pid, values, at=index, op='add'\)",
    "x[0, 1] |= 2": r"use x.put\(pid, values, at=index, op='or'\)",
    "x[0, 1] /= 2": "use its .value after a boundary, and a put",
    "float(x[0])": r"float\(\) needs a value, and x\[pid\] gives a Pending: use its .value after the next boundary",
    "int(x[0])": r"int\(\) needs a value, and x\[pid\] gives a Pending",
    "np.asarray(x[0])": r"np.asarray\(\) needs a value, and x\[pid\] gives a Pending",
    "np.ones(3) * x[0]": r"np.asarray\(\) needs a value, and x\[pid\] gives a Pending",
    "1 - x[0]": "- needs a value",
    "x[0] == 3": "== needs a value",
    "x[0] if x[0] else 0": "a condition needs a value",
    "x[0][1]": r"\[\] needs a value, and x\[pid\] gives a Pending: use its .value after the next boundary",
    "x[0][1] = 3": r"\[\] needs a value, and x\[pid\] gives a Pending",
    "x[0].sum()": r"\.sum needs a value, and x\[pid\] gives a Pending: use its .value after the next boundary",
    "list(x[0])": "a loop needs a value",
    "np.asarray(x)": r"np.asarray\(\) needs a value, and 'x' is a coarray, .* use its .local",
    "np.sum(x)": r"'x' is a coarray, .* use its .local",
    "x + 1": r"\+ needs a value, and 'x' is a coarray",
    "list(x)": "a loop needs a value, and 'x' is a coarray",
    "3 in x": "in needs a value, and 'x' is a coarray",
    "x == 3": "== needs a value, and 'x' is a coarray",
    "x.local[0] == 0 and x != 3": "!= needs a value, and 'x' is a coarray",
    "len(x)": r"len\(\) needs a value, and 'x' is a coarray",
    "float(x)": r"float\(\) needs a value, and 'x' is a coarray",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_handle_that_is_used_as_a_value_says_what_to_write(run: Any, mistake: str) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(3)
        proc.sync()
        with pytest.raises((TypeError, AttributeError), match=MISTAKES[mistake]):
            exec(mistake, {"x": x, "np": np})
        proc.sync()
        assert x.local.tolist() == [0.0, 0.0, 0.0]

    run(main, nprocs=1)


def test_a_pending_shows_whether_its_value_is_there(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(2)
        got = x[proc.pid]
        assert repr(got) == "<Pending: .value is there after the next boundary>"
        assert len({got, x[proc.pid]}) == 2
        proc.sync()
        assert repr(got) == "<Pending: array([0., 0.])>"

    run(main, nprocs=2)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("call", ["put", "lent", "each", "one"])
def test_a_number_too_large_for_the_dtype_is_put_as_inf_without_a_warning(run: Any, call: str, known: bool) -> None:
    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(3, np.float32)
        if known:
            proc.sync()
        values = np.array([1.0, 1e300, -1e300])
        right = (proc.pid + 1) % proc.nprocs
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if call == "each":
                x.put_each(right, [0, 1, 2], values)
            elif call == "one":
                for k in range(3):
                    x.put(right, float(values[k]), at=k)
            else:
                x.put(right, values, buffered=call == "put")
            proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=3) == [[1.0, np.inf, -np.inf]] * 3
