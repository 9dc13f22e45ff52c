"""Loops over elements become array statements where their iterations are independent, and compute what the loops do."""

from __future__ import annotations

import copy
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_kernels import (
    KERNELS,
    Kernel,
    averages,
    deriche,
    durbin,
    lu,
    nussinov,
    resnet_block,
    seidel,
    shifted,
    steps,
    trisolv,
)

import bsp
import bsp.arrays as ba
from bsp.arrays.loops import parallel
from tools import loops_study


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [] if value is None else [value]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.function.__name__)
def test_what_becomes_of_loops(kernel: Kernel) -> None:
    made = parallel(kernel.function)
    counted = [sum(each.parallel is which for each in made.loops) for which in (True, False)]
    assert counted == [kernel.becomes, kernel.stays], made.explain()
    assert all(each.line > 0 for each in made.loops)
    made.check(*kernel.arguments)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.function.__name__)
def test_kernels_on_processes(kernel: Kernel, nprocs: int) -> None:
    wanted = copy.deepcopy(kernel.arguments)
    result = kernel.function(*wanted)
    made = parallel(kernel.function)

    def main(proc: bsp.Process) -> None:
        given = copy.deepcopy(kernel.arguments)
        found = made(*given)
        for a, b in zip(leaves((result, wanted)), leaves((found, given)), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9)

    bsp.run(main, nprocs=nprocs)


def test_the_table_of_kernels_is_what_is_made_of_them() -> None:
    written = Path(loops_study.__file__).parents[1] / "docs" / "loops-study.md"
    assert written.read_text() == loops_study.page()


def test_distributed_arrays_stay_distributed() -> None:
    def smooth(u: Any, v: Any) -> None:
        for i in range(1, len(u) - 1):
            v[i] = (u[i - 1] + u[i] + u[i + 1]) / 3

    def main(proc: bsp.Process) -> Any:
        u = np.arange(40.0) ** 2
        v = ba.zeros(40, grid=(4,))
        assert parallel(smooth)(ba.asarray(u, grid=(4,)), v) is None
        return v.compute()

    wanted = np.zeros(40)
    smooth(np.arange(40.0) ** 2, wanted)
    np.testing.assert_allclose(bsp.run(main, nprocs=4)[0], wanted, rtol=0, atol=1e-9)


def test_what_is_written_into_numpys_arrays_comes_back() -> None:
    def doubled(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = 2 * x[i]

    def main(proc: bsp.Process) -> Any:
        given, y = np.arange(5.0), np.zeros(5)
        given.flags.writeable = False
        parallel(doubled)(ba.asarray(given), y)  # beside a distributed array, too
        z = np.zeros(5)
        parallel(doubled)(given, z)
        return y, z

    for found in bsp.run(main, nprocs=2)[0]:
        assert found.tolist() == [0, 2, 4, 6, 8]


def test_explain_shows_slices_and_reasons() -> None:
    assert "becomes A[k + 1:n, k + 1:n] = " in parallel(lu).explain()
    text = parallel(seidel).explain()
    assert "A[i - 1, j] may be what another iteration writes as A[i, j]" in text
    assert text.startswith("line ")


def test_explain_prices_what_every_process_does() -> None:
    told = {each.line: each for each in parallel(trisolv).loops if not each.parallel}
    ((line, outer),) = told.items()
    assert outer.operations == 3  # two assignments and a division; the inner loop is an array statement
    assert outer.text.endswith("; every process does 3 operations for each of range(len(b))")
    n = 9
    factor, right = np.tril(np.ones((n, n))), np.arange(1.0, n + 1)
    text = parallel(trisolv).explain(factor, np.zeros(n), right)
    assert f"line {line}: stays: " in text
    assert f"({n} iterations: {3 * n} operations, at least " in text

    A = np.random.default_rng(3).random((6, 7))
    before = A.copy()
    text = parallel(seidel).explain(A)  # the inner loop runs n - 2 times in each of n - 2 rounds
    assert "every process does 6 operations for each of range(1, n - 1) (16 iterations: 96 operations, " in text
    assert (before == A).all()
    assert "operation" not in parallel(deriche).explain(A, 0.4, 0.3, -0.1)  # all of its loops are array statements


def test_loops_that_carry_dependences_go_outside() -> None:
    """The recursion along a row, and the offsets of a convolution, stay loops, with array statements in them."""
    text = parallel(deriche).explain()
    assert "becomes for j in range(2, m):\n    forth[0:n, j] = a * image[0:n, j] + b * forth[0:n, j - 1]" in text
    assert "becomes for j in range(m - 3, -1, -1):\n    back[0:n, j] = " in text
    text = parallel(resnet_block).explain()
    assert "becomes for di in range(k):\n    for dj in range(k):\n        conv[0:b, 0:h, 0:width, 0:filters] = " in text


def test_loops_of_an_imperfect_nest_are_distributed() -> None:
    text = parallel(averages).explain()
    assert "becomes s = np.broadcast_to(0, (len(range(len(y))),)); s = s + np.einsum('ij,j->i'," in text
    assert text.endswith("y[0:len(y)] = s / d[0:len(y)]")
    becomes, stays = sorted(parallel(shifted).loops[:2], key=lambda each: not each.parallel)
    assert becomes.text == "y[1:len(x)] = 2 * x[1:len(x)]; x[1:len(x)] = y[0:len(x) - 1]"
    assert "z[i - 1] may be what another iteration writes as z[i]" in stays.text


def test_steps_are_slices() -> None:
    text = parallel(steps).explain()
    assert "becomes y[(n - 2) % 3 + 1:n:3] = " in text
    assert "becomes x[0:n:2] = np.flip(y[" in text
    for n in (1, 2, 3, 4, 5, 6, 7):
        parallel(steps).check(np.arange(1.0, n + 1), np.arange(2.0, n + 2))


def test_elements_may_be_overwritten_after_they_are_read_but_not_before() -> None:
    def behind(x: Any, y: Any) -> None:
        for i in range(len(x) - 1):
            x[i] = x[i + 1]
        for i in range(len(y) - 1, 1, -1):
            y[i] = y[i - 2] + i

    def ahead(x: Any, y: Any) -> None:
        for i in range(1, len(x)):
            x[i] = x[i - 1]
        for i in range(len(y) - 3, -1, -1):
            y[i] = y[i + 2] + i

    for function, which in ((behind, True), (ahead, False)):
        made = parallel(function)
        assert [each.parallel for each in made.loops] == [which, which], made.explain()
        made.check(np.arange(1.0, 8.0), np.arange(1.0, 10.0))


def test_a_position_that_is_counted_from_the_end_leaves_the_loop() -> None:
    """k is before all that the loop writes, unless it is -1, which is the last of them."""

    def ahead(x: Any, k: int) -> None:
        for i in range(len(x) - 1, k, -1):
            x[i] = x[i] + x[k]

    made = parallel(ahead)
    assert all(each.parallel for each in made.loops), made.explain()
    for k in (2, 0, -1, -3):
        made.check(np.arange(1.0, 6.0), k)


def test_extremes_and_indices_that_descend() -> None:
    assert "np.maximum(table[i, j], np.max(table[i, i + 1:j] + table[i + 2:j + 1, j]" in parallel(nussinov).explain()
    assert "np.einsum('i,i->', np.flip(r[0:k], axis=(0,)), y[0:k])" in parallel(durbin).explain()

    def extremes(x: Any, y: Any, n: int) -> Any:
        most, least, product = -1.0, 100.0, 2.0
        for i in range(n):
            most = max(most, x[i] * y[n - 1 - i])
            if x[i] > 2:
                least = min(x[i], least)
            product *= x[i]
        for i in range(n - 1, -1, -1):
            y[i] = x[i] + i
        return most, least, product

    made = parallel(extremes)
    assert all(each.parallel for each in made.loops), made.explain()
    for n in (6, 1, 0):  # of none the old value is left
        made.check(np.arange(1.0, 7.0), np.array([3.0, 9, 1, 2, 5, 4]), n)


def test_what_a_branch_that_is_not_taken_would_compute_raises_nothing() -> None:
    """Divisors, powers and arguments are 1 there; `np.where` alone would divide by 0."""

    def branches(x: Any, y: Any, z: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            if x[i] > 0 and 1 / x[i] < 0.9:
                y[i] = np.log(x[i]) + 1 / x[i] + x[i] ** -0.5
            else:
                y[i] = np.arctanh(x[i] / 4) if x[i] > -4 else 2.0
            total += 1 / x[i] if x[i] != 0 else 3.0
            z[i] = sum(1 / x[m] for m in range(len(x)) if x[m] != 0 and x[m] != x[i])
        return total

    made = parallel(branches)
    assert all(each.parallel for each in made.loops), made.explain()
    with np.errstate(all="raise"):
        made.check(np.array([0.0, 2, -4, 1, 3]), np.zeros(5), np.zeros(5))


def test_diagonals_are_read_and_written_pair_by_pair() -> None:
    def diagonals(A: Any, B: Any, x: Any, n: int) -> Any:
        trace = 0.0
        for i in range(n):
            trace += A[i, i]
            x[i] = A[i, i + 1] * A[i, n - 1 - i]
        for i in range(n - 1, -1, -1):
            B[i, i] += x[i]
        for i in range(n):
            for j in range(n):
                B[i, j] = B[i, j] / A[i, i]
        return trace

    made = parallel(diagonals)
    assert all(each.parallel for each in made.loops), made.explain()
    assert "A[np.arange(0, n), np.arange(0, n) + 1] * A[np.arange(0, n), n - 1 - np.arange(0, n)]" in made.explain()
    assert "B[np.arange(0, n), np.arange(0, n)] = B[np.arange(0, n), np.arange(0, n)] + x[0:n]" in made.explain()
    A = np.random.default_rng(8).random((6, 7)) + 1
    for n in (6, 1, 0):
        made.check(A, np.zeros((6, 6)), np.zeros(6), n)

    def main(proc: bsp.Process) -> Any:
        B, x = ba.zeros((6, 6)), ba.zeros(6)
        trace = made(ba.asarray(A), B, x, 6)
        return float(trace), B.compute(), x.compute()

    B, x = np.zeros((6, 6)), np.zeros(6)
    wanted = diagonals(A, B, x, 6), B, x
    for a, b in zip(bsp.run(main, nprocs=3)[0], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("rows", "inner", "columns", "grid"), [(4000, 40, 40, "on 4x1x1"), (40, 4000, 40, "on 1x4x1")])
def test_grids_of_what_loops_become_are_chosen_by_price(rows: int, inner: int, columns: int, grid: str) -> None:
    """A tall product is cut by its rows, and moves nothing; one with a long sum by that, and moves its small result."""

    def gemm(A: Any, B: Any, C: Any) -> None:
        for i in range(A.shape[0]):
            for j in range(B.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]

    def main(proc: bsp.Process) -> str:
        C = ba.zeros((rows, columns))
        parallel(gemm)(ba.zeros((rows, inner)), ba.zeros((inner, columns)), C)
        return str(C.explain())

    (product, *_) = [line for line in bsp.run(main, nprocs=4)[0].splitlines() if "x1 @ x2" in line]
    assert grid in product


def test_a_diagonal_that_is_written_depends_on_what_reads_it() -> None:
    def scaled(A: Any, n: int) -> None:
        for i in range(n):
            for j in range(n):
                A[i, j] = A[i, j] / A[i, i]

    def eliminated(A: Any, n: int) -> None:
        for i in range(1, n):
            A[i, i] = A[i, i] - A[i - 1, i - 1] * A[i, i - 1]

    def around(A: Any, n: int) -> None:
        for i in range(-n, n):
            A[i, i] = A[i, i] + 1

    for function, which in ((scaled, False), (eliminated, False), (around, True)):
        made = parallel(function)
        outer = min(made.loops)
        assert outer.parallel is which or "for " in outer.text, made.explain()
        made.check(np.random.default_rng(8).random((6, 6)) + 1, 6)


def refused(function: Any, why: str) -> None:
    made = parallel(function)
    assert not any(each.parallel for each in made.loops)
    assert why in made.explain()


def test_why_loops_stay() -> None:
    def scan(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total = total * 0.5 + x[i]
        return total

    def last(x: Any) -> Any:
        for i in range(len(x)):
            found = x[i]
        return found

    def same(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[0] = x[i]

    def by_position(x: Any, at: Any, y: Any) -> None:
        for i in range(len(at)):
            y[at[i]] = x[i]

    def calls(x: Any) -> None:
        for i in range(len(x)):
            x[i] = repr(x[i])

    def by_all(x: Any) -> None:
        for i in range(len(x)):
            x[i] = x[i] / x.sum()

    def by_steps(x: Any, step: int) -> None:
        for i in range(0, len(x), step):
            x[i] = 0

    def broken(x: Any) -> None:
        for i in range(len(x)):
            if x[i] > 2:
                break

    def prefix(x: Any, y: Any) -> None:
        total = 0.0
        for i in range(len(x)):
            total += x[i]
            y[i] = total

    def mixed(x: Any) -> Any:
        total = 1.0
        for i in range(len(x)):
            total += x[i]
            total *= 2
        return total

    def after(x: Any) -> Any:
        for i in range(len(x)):
            x[i] = 0
        return i

    def across(A: Any, n: int) -> None:
        for i in range(n):
            for j in range(n):
                A[j, i + j] += A[i, j]

    def by_rows(A: Any, B: Any) -> None:
        for i in range(len(A)):
            A[i, :] = B[i, :]

    def marked(x: Any, y: Any) -> None:
        for i in range(len(x)):
            if x[i] > 0:
                x[i] = -1
                y[i] = 1

    def growing(x: Any, limit: Any) -> None:
        for _ in range(3):
            for j in range(limit[0]):
                limit[j] += x[j]

    def kept(A: Any, y: Any) -> Any:
        for i in range(len(y)):
            s = 0.0
            for j in range(len(y)):
                s += A[i, j]
            y[i] = s
        return s

    def triangle(A: Any, y: Any) -> None:
        for i in range(len(y)):
            s = 0.0
            for j in range(i * i):
                s += A[i, j]
            y[i] = s

    def wave(x: Any, y: Any) -> None:
        for i in range(1, len(x)):
            s = x[i - 1]
            for j in range(len(y)):
                s += y[j]
            x[i] = s

    for function, why in [
        (prefix, "total depends on the iteration before"), (mixed, "total depends on the iteration before"),
        (after, "i is used outside of the loop"), (across, "index i + j has two loop variables"),
        (by_rows, "A[i, :] is a part of an array, not an element"),
        (scan, "total is used outside of the loop"), (last, "found is used outside of the loop"),
        (same, "iterations of i write the same element y[0]"), (by_position, "at[i]"), (calls, "calls repr"),
        (by_all, "x, which iterations write, is used as a whole"), (by_steps, "its step is step, not a number"),
        (broken, "break is no assignment"), (marked, "x is changed, and part of the condition"),
        (growing, "the range of j depends on limit"),
    ]:  # fmt: skip
        refused(function, why)
    for function, why in [
        (kept, "s is used outside of"), (triangle, "the range of j depends on i"), (wave, "another iteration uses"),
    ]:  # fmt: skip
        made = parallel(function)
        outer, *_ = sorted(made.loops)
        assert not outer.parallel
        assert why in outer.text


def test_rows_and_lists_are_computed_by_the_loops() -> None:
    """Nothing in the source tells a matrix from a vector: an index gives a row of one and an element of the other."""

    def scaled(x: Any, A: Any, B: Any) -> None:
        for i in range(len(x)):
            B[i] = x[i] * A[i]

    def added(x: Any, w: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total += x[i] * w
        return total, np.array([x[i] * w for i in range(len(x))])

    def listed() -> Any:
        weights = [0.5, 0.25]
        return np.array([2 * weights[k] for k in range(2)]), sum(weights[k] * weights[k] for k in range(2))

    x, square = np.array([1.0, 2, 3]), np.arange(9.0).reshape(3, 3)
    for function, arguments in [
        (scaled, (x, square, np.zeros((3, 3)))), (scaled, (x, x, np.zeros(3))), (scaled, (x, [4.0, 5, 6], np.zeros(3))),
        (added, (x, x)), (added, (x, 2.0)), (listed, ()),
    ]:  # fmt: skip
        made = parallel(function)
        assert all(each.parallel for each in made.loops), made.explain()
        made.check(*arguments)


def test_why_comprehensions_stay() -> None:
    def rows(A: Any, x: Any) -> Any:
        return [
            np.array([np.sum(A[i]) for i in range(3)]),
            np.array([math.log(x[i] + 1, 2) for i in range(3)]),
            np.array([len(str(x[i])) for i in range(3)]),
            np.array([x[i] for i in range(3) if x[i] > 1]),
            np.array([x[i] + j for i in range(3) for j in range(2)]),
            np.array([[x[i], 1] for i in range(3)]),
            sum(A[i, j] for i in range(3) for j in range(i)),
            max(x[i] for i in range(3) if x[i] > 1),
            sum(value for value in x),
            sum(k * k for k in range(3)),
        ]

    made = parallel(rows)
    assert not any(each.parallel for each in made.loops)
    reasons = [
        "calls np.sum", "calls math.log", "calls str", "depends on values", "puts two loops on one axis",
        "[x[i], 1] is not known to work on arrays", "the range of j depends on i", "the largest or smallest of some",
    ]  # fmt: skip
    assert len(made.loops) == len(reasons)
    for reason in reasons:
        assert reason in made.explain()
    made.check(np.arange(9.0).reshape(3, 3), np.arange(3.0))


def test_counts_are_sizes_and_positions() -> None:
    def positive(x: Any) -> Any:
        count = sum(1 for i in range(len(x)) if x[i] > 0)
        total = 0
        for _ in range(count):
            total += 1
        return np.zeros(count), total, [10, 20, 30][count], f"{max(x[i] for i in range(len(x))):.2f}"

    found = bsp.run(lambda proc: parallel(positive)(np.array([1.0, -2, 3])), nprocs=2)
    for zeros, *others in found:
        assert zeros.tolist() == [0, 0]
        assert others == [2, 30, "3.00"]


def test_variables_of_generators_are_their_own() -> None:
    """k is the loop's first position outside, and any inside the generator."""

    def shadowed(x: Any, y: Any, k: int) -> None:
        for i in range(k + 1, len(y)):
            y[i] = sum(y[k] for k in range(len(y)))

    made = parallel(shadowed)
    assert [each.parallel for each in made.loops] == [True, False]  # the sum, and the loop around it
    assert "y[k'] may be what another iteration writes as y[i]" in made.explain()
    made.check(np.zeros(4), np.arange(4.0), 0)


def test_positions_before_the_first_are_taken_from_the_end_by_the_loop_itself() -> None:
    """Slices would not take them from there."""

    def wrapped(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[i - 1]

    y = np.zeros(4)
    parallel(wrapped).with_numpy(np.arange(4.0), y)
    assert y.tolist() == [3, 0, 1, 2]


def test_check_compares_finite_values_beside_infinite_ones() -> None:
    def halves(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[i] / 2

    made = parallel(halves)
    made.check(np.array([1.0, np.inf, np.nan]), np.zeros(3))
    made.function = lambda x, y: y.__setitem__(slice(None), x)
    with pytest.raises(AssertionError):
        made.check(np.array([1.0, np.inf]), np.zeros(2))


def added(w, C, D, s, t, A, B, x):
    """Products and elements of few bits, added to sums of more."""
    total = 0
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
                D[i, j] -= w * A[i, k] * B[k, j]
    for i in range(len(x)):
        s[0] += x[i] * x[i]
        s[1] += x[i]
        t[0] *= x[i]
        total += x[i] * x[i]
    return C, D, s, t, total, sum(x[i] * x[i] for i in range(len(x)))


@pytest.mark.parametrize(
    ("dtype", "sums"),
    [
        (dtype, sums)
        for dtype in ["?", "i1", "u2", "i8", "f4", "f8"]
        for sums in ["i8", "f4", "f8", "c16"]
        if dtype[0] != "f" or sums != "i8"  # that is refused
    ],
)
def test_loops_add_in_the_dtype_of_their_sums(dtype: str, sums: str) -> None:
    rng = np.random.default_rng(5)
    A, B = (rng.integers(-90, 90, shape).astype(dtype) for shape in ((3, 40), (40, 2)))
    x = rng.integers(1, 3, 60).astype(dtype)
    w = 2 if sums == "i8" else 2.0
    given = (w, np.zeros((3, 2), sums), np.zeros((3, 2), sums), np.zeros(2, sums), np.ones(1, sums), A, B, x)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = added(*copy.deepcopy(given))
        for nprocs in (1, 3):
            (found, *_) = bsp.run(lambda proc: parallel(added)(*copy.deepcopy(given)), nprocs=nprocs)
            for a, b in zip(found, wanted, strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype
                np.testing.assert_allclose(a, b, rtol=2e-5 if "f4" in (dtype, sums) else 1e-12)


def test_a_loop_that_rounds_in_each_iteration_is_refused() -> None:
    @parallel
    def halves(n: Any, A: Any) -> Any:
        for i in range(A.shape[0]):
            for k in range(A.shape[1]):
                n[i] += A[i, k]
        return n

    with pytest.raises(TypeError, match="a loop puts float64 into elements of int64 and rounds in each iteration"):
        halves(np.zeros(2, int), np.full((2, 3), 0.5))
