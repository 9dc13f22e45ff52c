"""Where array statements would compute something else than a loop, the loop is carried out as it is written."""

from __future__ import annotations

import copy
import math
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import LoopWarning
from bsp.arrays.loops import parallel
from bsp.arrays.loops.functions import elements
from bsp.arrays.loops.integers import fit

pytestmark = pytest.mark.filterwarnings("ignore::bsp.arrays.errors.LoopWarning")

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")


def beyond_the_end(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(7):
        s += x[i]
    return s


def assignment_beyond_the_end(x: Any, y: Any) -> Any:
    for i in range(9):
        y[i] = 1.0
    return y


def generator_beyond_the_end(x: Any, y: Any) -> Any:
    return sum(x[i] for i in range(8))


def generator_in_a_loop_beyond_the_end(x: Any, y: Any) -> Any:
    for i in range(2):
        y[i] = sum(x[i + k] for k in range(6))
    return y


def one_element_for_many(x: Any, y: Any) -> Any:
    for i in range(5):
        y[i] = x[i + 4]
    return y


def before_the_first(x: Any, y: Any) -> Any:
    for i in range(len(x)):
        y[i] = x[i - 1]
    return y


def inside_by_a_condition(x: Any, y: Any) -> Any:
    n = len(x)
    for i in range(n):
        y[i] = x[i + 1] if i < n - 1 else 0
    return y


def inside_by_an_if(x: Any, y: Any) -> Any:
    for i in range(len(x)):
        if i > 0:
            y[i] = x[i] - x[i - 1]
    return y


def descending(x: Any, y: Any) -> Any:
    return np.array([x[i] + i for i in range(5, -1, -1)])


def descending_twice(x: Any, y: Any) -> Any:
    return np.array([[x[i] + 10 * j for j in range(3, 0, -2)] for i in range(4, 0, -1)])


def descending_numbers(x: Any, y: Any) -> Any:
    return np.array([i for i in range(6, 0, -1)])  # noqa: C416 - the comprehension is what is tested


def large_powers(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = 2 ** (20 * i)
    return y


def shifts(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = 1 << (15 * i)
    return y


def negative_powers(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = 2**-i
    return y


def roots_of_negative_numbers(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(6):
        s += abs((-1 - i) ** 0.5)
    return s


def factorial(x: Any, y: Any) -> Any:
    p = 1
    for i in range(1, 26):
        p *= i
    return p


def large_sum(x: Any, y: Any) -> Any:
    s = 0
    for i in range(1000):
        s += i**7
    return s


def large_terms(x: Any, y: Any) -> Any:
    return sum(y[i % 6] * 0 + 2.0**i for i in range(60)) + sum(y[i] * 2 ** (12 * i) for i in range(6))


def products_of_variables(x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(6):
        for j in range(6):
            s += x[i] * ((i + 10**7) * (j + 10**7) * (i + 10**7))
    return s


def divided_but_by_zero(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = x[i] + (1 / (i - 2) if i != 2 else 0.0) + (5 % (i - 1) if i != 1 else 0)
    return y


def divided_unless_by_zero(x: Any, y: Any) -> Any:
    for i in range(6):
        if i != 3:
            y[i] = x[i] + 1 / (i - 3)
    return y


def powers_in_a_generator(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = sum(x[k] * (i + 1) ** k for k in range(6))
    return y


def squares(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = x[i] + i * i + i**3 + (i << 2) + 7 % (i + 1)
    return y + np.array([x[i] * (i + 60000) ** 2 for i in range(6)])


def division_by_zero(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = 1 / i
    return y


def remainder_by_zero(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = 5 % i
    return y


def one_array_by_two_names(x: Any, y: Any) -> Any:
    y = x
    for i in range(6):
        y[i] = y[i] + x[5 - i]
    return x


def a_view_and_its_array(x: Any, y: Any) -> Any:
    y = x[1:]
    for i in range(5):
        y[i] = x[i] + 1
    return x


def a_view_that_another_part_reads(x: Any, y: Any) -> Any:
    y = x[1:]
    s = 1.0
    for i in range(5):
        s = s / 2 + x[i]
        y[i] = 1.0
    return x + s


def loops_of_nothing(x: Any, y: Any) -> Any:
    for i in range(3):  # noqa: B007 - used below
        for _ in range(3):
            pass
    return y + i


def a_sum_whose_power_is_large(x: Any, y: Any) -> Any:
    s, most = 0, 0
    for i in range(1000):
        s += i
        most = max(most, i)
    return (s**8 + sum(i for i in range(1000)) ** 8 + most**8) % 1000003


def a_product_after_a_large_number(x: Any, y: Any) -> Any:
    s = 10**15
    for i in range(1, 16):
        s *= i
    return s % 1000003


def a_small_number_many_times(x: Any, y: Any) -> Any:
    small = np.full(3, 200, np.uint8)
    s = 0.0
    for _ in range(300):
        s += small[0]
    for i in range(3):
        for _ in range(300):
            y[i] += small[i]
    return y + s


def beyond_the_end_in_no_iteration(x: Any, y: Any) -> Any:
    for k in range(6):
        for j in range(k + 1, 6):
            y[j] -= x[k + 1]
    for j in range(6, 6):
        y[j] = x[6]
    return y


def one_of_two_operands(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = (y[i] and x[i]) + (y[i] - 3 or 2.5)
    return y + sum((y[i] or 7.0) for i in range(6))


def conditions_of_numbers(x: Any, y: Any) -> Any:
    for i in range(6):
        if y[i] and (x[i] or i) and not (y[i] and i > 4):
            y[i] = -1.0 if x[i] - 1 and i else 2.0
    return y


def truths_as_integers(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] += (i > 2) + (i > 3)
        x[i] -= -(i > 2) - (not i)
    return x + y + any(x[i] > 2 for i in range(6)) + (all(x[i] > 0 for i in range(6)) + any(y[i] > 2 for i in range(6)))


def functions_of_math(x: Any, y: Any) -> Any:
    small, short = np.full(6, 50, np.int8), x.astype(np.float32)
    for i in range(6):
        y[i] = math.sqrt(small[i]) + math.log(short[i] / 7) + math.pow(small[i], 40)
    return y


def a_remainder_of_math(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = math.remainder(x[i], 3.0) + math.floor(x[i] / 2)
    return y


def numbers_that_are_large(x: Any, y: Any) -> Any:
    large, s = 10**18, 0
    for i in range(6):
        y[i] = (i + 10) * large + (2**63 - 1 + i)
    for i in range(6):
        s += 4 * large - i
    return y + s


def names_set_in_expressions(x: Any, y: Any) -> Any:
    k = -1
    for i in range(6):
        y[i] = x[(k := k + 1)]
    for i in range(6):
        x[i] += float(k := k + 1)
    return x + y


def ranges_that_are_made_once(x: Any, y: Any) -> Any:
    ends = [6, 5, 4, 3]
    s = 0.0
    for i in range(ends.pop()):
        s += x[i]
    for i in range(2):
        y[i] = s
        for j in range(ends.pop()):
            x[j] += i
    return x + y + sum(x[i] for i in range(ends.pop()))


def calls_in_their_order(x: Any, y: Any) -> Any:
    rng = random.Random(3)
    z = np.zeros(6)
    for i in range(6):
        z[i] = 1
        x[i] = rng.random()
        y[i] = rng.random()
    return x + 2 * y + z


def a_range_of_the_variable_before(x: Any, y: Any) -> Any:
    i = 0
    for i in range(4):
        y[i] = 1.0
    for i in range(i, 6):  # noqa: B020 - it is this that is tested
        y[i] = 5.0
    return y


def a_list_that_grows(x: Any, y: Any) -> Any:
    found, row = [1.0], [2.0]
    same = found
    for _ in range(3):
        found += row
    return y + len(same)


def sizes_alone(x: Any, y: Any) -> Any:
    return np.array([x.shape[0] + i for i in range(6)]) + y


def names_of_a_triangle(x: Any, y: Any) -> Any:
    for i in range(1, 2):
        for j in range(3):
            for k in range(i + 1):
                u = 0.0
                for z in range(2):
                    u += x[z] * k
                y[j] = u
    return y


def nothing_with_names_that_are_not_set(x: Any, y: Any) -> Any:
    if len(x) == 0:
        unset = 1.0
    for i in range(0 * len(x)):
        y[i] = unset // (len(x) - 6)
    return y


CASES: list[Callable[[Any, Any], Any]] = [
    beyond_the_end, assignment_beyond_the_end, generator_beyond_the_end, generator_in_a_loop_beyond_the_end,
    one_element_for_many, before_the_first, inside_by_a_condition, inside_by_an_if, descending, descending_twice,
    descending_numbers, large_powers, shifts, negative_powers, roots_of_negative_numbers, factorial, large_sum,
    large_terms, products_of_variables, divided_but_by_zero, divided_unless_by_zero, powers_in_a_generator, squares,
    division_by_zero, remainder_by_zero, one_array_by_two_names, a_view_and_its_array,
    a_view_that_another_part_reads, loops_of_nothing, a_sum_whose_power_is_large,
    a_product_after_a_large_number, a_small_number_many_times, beyond_the_end_in_no_iteration, one_of_two_operands,
    conditions_of_numbers, truths_as_integers, functions_of_math, a_remainder_of_math, numbers_that_are_large,
    names_set_in_expressions, ranges_that_are_made_once, calls_in_their_order, a_range_of_the_variable_before,
    a_list_that_grows, sizes_alone, names_of_a_triangle, nothing_with_names_that_are_not_set,
]  # fmt: skip
X, Y = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0]), np.arange(6.0)


def outcome(function: Callable[[Any, Any], Any]) -> Any:
    """Return the result of a function, or the type of what it raises."""
    try:
        return function(X.copy(), Y.copy())
    except ArithmeticError as error:
        return type(error)
    except IndexError:
        return IndexError


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_python_decides_what_a_loop_computes(case: Callable[[Any, Any], Any], p: int) -> None:
    expected = outcome(case)
    for found in bsp.run(lambda proc: outcome(parallel(case)), nprocs=p):
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-14)


@pytest.mark.parametrize("n", [2.0, np.float64(2), "2"])
def test_a_range_of_what_is_no_integer_is_an_error(n: Any) -> None:
    def moved(x: Any, y: Any) -> None:
        for i in range(n):
            y[i] = x[i]

    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        parallel(moved)(X.copy(), Y.copy())


def less_than_the_larger(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = max(3, x[i]) - 5
    return y


def many_times_the_smaller(x: Any, y: Any) -> Any:
    for i in range(6):
        small = min(x[i], 300)
        y[i] = small * 100
    return y


def times_either(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = (x[i] if x[i] > 3 else 2.7) * 1.1
    return y


def larger_than_what_is_rounded(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = max(x[i], 3.1)
    return y


def array_of_the_larger(x: Any, y: Any) -> Any:
    return np.array([max(3, x[i]) for i in range(6)])


def what_is_positive(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = x[i] if x[i] > 0 else 0
    return y


CHOICES = [
    less_than_the_larger, many_times_the_smaller, times_either, larger_than_what_is_rounded, array_of_the_larger,
    what_is_positive,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.int64, np.float64])
@pytest.mark.parametrize("case", CHOICES, ids=lambda case: case.__name__)
def test_a_choice_between_types_has_that_of_the_value_taken(case: Callable[[Any, Any], Any], dtype: Any) -> None:
    """An integer of Python's does not wrap as the array's elements do, nor is a number rounded to theirs."""
    x = (X * 27.1).astype(dtype)
    with np.errstate(over="ignore"):
        wanted = case(x.copy(), Y.copy())
    found = np.asarray(parallel(case)(ba.asarray(x), ba.asarray(Y)))
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_choice_that_is_stored_as_it_is_stays_an_array_statement(dtype: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        parallel(what_is_positive)(ba.asarray(X.astype(dtype)), ba.asarray(Y))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, ba.asarray])
def test_two_arguments_that_share_elements_are_as_in_the_loop(kind: Callable[[Any], Any], turned: bool) -> None:
    def shift(x: Any, y: Any) -> None:
        for i in range(5):
            y[i + 1] = x[i] + 1

    def shared(function: Callable[[Any, Any], None], kind: Callable[[Any], Any]) -> list[float]:
        x = kind(np.arange(6.0))
        function(x, x[::-1] if turned else x)
        return np.asarray(x).tolist()

    wanted = shared(shift, np.asarray)
    assert bsp.run(lambda proc: shared(parallel(shift), kind), nprocs=3) == [wanted] * 3


def before_the_first_of(x: Any) -> None:
    y = x.copy()
    for i in range(5):
        y[i] = x[i - 1]


def of_its_own_view(x: Any) -> None:
    y = x[::-1]
    for i in range(5):
        y[i] = x[i] + 1


@pytest.mark.parametrize(("case", "why"), [
    (before_the_first_of, "reaches positions before the first element"), (of_its_own_view, "shares elements with"),
])  # fmt: skip
@pytest.mark.parametrize("p", [1, 3])
def test_a_loop_that_takes_dealt_elements_one_by_one_says_why(case: Callable[[Any], None], why: str, p: int) -> None:
    def main(proc: bsp.Process) -> list[tuple[str, int]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            parallel(case)(ba.arange(6.0))
        return [(str(each.message), each.lineno) for each in caught if each.category is LoopWarning]

    first = case.__code__.co_firstlineno
    for ((text, line),) in bsp.run(main, nprocs=p):
        assert text.startswith("this loop is carried out as it is written, element by element: ")
        assert why in text
        assert first < line <= first + 2


def statements_only(case: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether all loops of a function become array statements, and these are what is carried out."""
    held = []
    kept = lambda *given, **choices: held.append(elements(*given, **choices)) or held[-1]  # noqa: E731
    monkeypatch.setattr("bsp.arrays.loops.functions.elements", kept)
    made = parallel(case)
    made(X.copy(), Y.copy())
    return all(each.parallel for each in made.loops) and all(held) and bool(held)


@pytest.mark.parametrize(
    "case", [divided_but_by_zero, divided_unless_by_zero, powers_in_a_generator, squares, a_small_number_many_times]
)
def test_what_is_safe_is_carried_out_as_array_statements(
    case: Callable[[Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert statements_only(case, monkeypatch)


def test_what_is_not_safe_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not statements_only(large_powers, monkeypatch)


def counted(x: Any, y: Any) -> Any:
    calls = []

    def f() -> float:
        calls.append(1)
        return float(len(calls))

    for i in range(6):
        y[i] = x[i] + f()
    return y


def popped(x: Any, y: Any) -> Any:
    waiting = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    for i in range(6):
        y[i] = waiting.pop()
    return y


def drawn(x: Any, y: Any) -> Any:
    rng = random.Random(3)
    inside = 0
    for _ in range(50):
        if rng.random() ** 2 + rng.random() ** 2 < 1:
            inside += 1
    s = 0.0
    for i in range(6):
        s += x[i] * rng.gauss(0, 1)
    return np.array([inside, s, *[rng.random() for i in range(3)]])


def drawn_and_dropped(x: Any, y: Any) -> Any:
    rng = random.Random(3)
    for i in range(6):
        t = rng.random()
        y[i] = x[i] * 2
        t = 0
    return y * rng.random() + t


def chosen(x: Any, y: Any) -> Any:
    numbers = iter([3, 1, 2, 0, 5, 4])
    for i in range(6):
        y[i] = x[next(numbers)]
    return y


def invariants(x: Any, y: Any) -> Any:
    for i in range(6):
        y[i] = x[i] * math.sqrt(2) + x.mean() + len(y) + np.linalg.norm(x) + float(3)
    return y


@pytest.mark.parametrize("case", [counted, popped, drawn, drawn_and_dropped, chosen, invariants])
def test_calls_are_made_as_often_as_they_are_written(case: Callable[[Any, Any], Any]) -> None:
    made = parallel(case)
    np.testing.assert_allclose(np.asarray(made(X.copy(), Y.copy()), float), case(X.copy(), Y.copy()), rtol=1e-14)


def test_calls_that_give_the_same_leave_a_loop_an_array_statement() -> None:
    assert [each.parallel for each in parallel(invariants).loops] == [True]
    assert "may give something else in each iteration" in parallel(counted).explain()


@examples(200)
@given(st.data())
def test_an_interval_holds_all_values(data: Any) -> None:
    """Expressions that `fit` allows have no value beyond the limit, at any of the positions of their ranges."""
    signs = ["+", "-", "*", "**", "//", "%", "<<", ">>"]

    def drawn_tree(depth: int) -> Any:
        if depth == 0 or data.draw(st.booleans()):
            return data.draw(st.one_of(st.integers(-9, 9), st.builds(range, st.integers(-4, 4), st.integers(-4, 12))))
        return data.draw(st.sampled_from(signs)), drawn_tree(depth - 1), drawn_tree(depth - 1)

    def value(tree: Any) -> int:
        if isinstance(tree, range):
            return data.draw(st.sampled_from(tree)) if len(tree) else 0
        if isinstance(tree, int):
            return tree
        a, b = value(tree[1]), value(tree[2])
        if tree[0] in ("**", "<<") and abs(b) > 400:
            raise OverflowError
        return eval(f"({a}) {tree[0]} ({b})")

    tree, most = drawn_tree(3), data.draw(st.integers(1, 1000))
    if fit([(most, tree)]):
        found = value(copy.deepcopy(tree))
        assert type(found) is int
        assert abs(found) <= most


SCRIPT = """
import random
import numpy as np
rng = np.random.default_rng()
inside = 0
for i in range(200):
    if rng.random() ** 2 + rng.random() ** 2 < 1:
        inside += 1
x = np.random.rand(3)
print(inside, (x * np.random.rand()).sum().round(12), round(random.random(), 12), rng.normal(size=2).round(12))
"""


@pytest.mark.jobs
def test_random_numbers_without_a_seed_are_those_of_one_program(tmp_path: Path) -> None:
    path = tmp_path / "drawn.py"
    path.write_text(SCRIPT)
    told = set()
    for words in (["-p", "1"], ["-p", "3", "-n", "1"], ["-p", "3", "-n", "2"]):
        done = subprocess.run([BSPRUN, *words, "--numpy", str(path)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    (text,) = told
    assert 120 < int(text.split()[0]) < 190


def nothing(x: Any, n: int) -> Any:
    a, b, c, d = 0, 0, 1, 0
    for i in range(n):
        a += x[i]
    for i in range(n):
        b -= x[i] * x[i]
    for i in range(n):
        c *= x[i]
    for _ in range(n):
        d += 0.5
    return a, b, c, d, sum(x[i] for i in range(n)), sum(x[i] * x[i] for i in range(n))


def lists_of_nothing(x: Any, n: int) -> Any:
    return (
        np.array([x[i] for i in range(n)]),
        np.array([2 * i for i in range(n)]),
        np.array([[x[i] * x[k] for k in range(2)] for i in range(n)]),
        np.array([[x[k] for i in range(n)] for k in range(2)]),
    )


@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("function", [nothing, lists_of_nothing])
def test_loops_without_iterations_have_the_types_of_the_loop(function: Callable[..., Any], n: int) -> None:
    made = parallel(function)
    assert all(each.parallel for each in made.loops)
    for nprocs in (1, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("error", LoopWarning)
            found = bsp.run(lambda proc: made(np.arange(1, 4, dtype=np.int32), n), nprocs=nprocs)[0]
        for ours, theirs in zip(found, function(np.arange(1, 4, dtype=np.int32), n), strict=True):
            assert type(ours) is type(theirs) and np.array_equal(ours, theirs)
            assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None)
            assert getattr(ours, "shape", None) == getattr(theirs, "shape", None)
