"""A function with loops that became array statements is the function itself in all else: names, defaults, results."""

from __future__ import annotations

import collections
import functools
import traceback
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.loops import parallel

KEPT = np.arange(6.0)
Pair = collections.namedtuple("Pair", "array number")
_calls = 0
_total = "a name that array statements have, too"


@parallel
def calls(x: Any) -> int:
    """Count calls in a global variable."""
    global _calls
    _calls += 1
    for i in range(3):
        x[i] = _calls
    return _calls


def test_globals_are_the_modules_own() -> None:
    before = _calls
    x = np.zeros(4)
    assert [calls(x), calls(x)] == [before + 1, before + 2]
    assert x.tolist() == [before + 2] * 3 + [0]
    assert _calls == before + 2


def test_variables_of_the_function_around_and_default_values_are_shared() -> None:
    count, n = 0, 3

    @parallel
    def following(x: Any, m: int = n, *, seen: list[int] = []) -> list[int]:  # noqa: B006 - it is the list that is tested
        nonlocal count
        count += 1
        seen.append(count)
        for i in range(m):
            x[i] = count
        return seen

    n = 5
    x = np.zeros(5)
    following(x)
    assert following(x) == [1, 2]
    assert x.tolist() == [2, 2, 2, 0, 0]
    assert count == 2


@parallel
def with_our_names(x: Any) -> str:
    """Sum elements beside a global of the name that our function for sums once had."""
    return f"{_total} {sum(x[i] for i in range(3))}"


def test_names_of_the_program_do_not_meet_those_of_array_statements() -> None:
    assert with_our_names(np.ones(3)) == f"{_total} 3.0"


@parallel
def beside_a_global(x: Any) -> float:
    """Write an argument that may be a global array."""
    for i in range(1, 6):
        x[i] = 7
    return float(KEPT[2])


@parallel
def first_of(arrays: list[Any], x: Any) -> float:
    """Write an argument that may be in a list."""
    for i in range(6):
        x[i] = 7
    return float(arrays[0][2])


def test_an_argument_that_is_also_reached_by_another_name_is_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KEPT", np.arange(6.0))
    assert beside_a_global(KEPT[:]) == 7
    x = np.arange(6.0)
    assert first_of([x], x) == 7

    @parallel
    def beside_a_variable(y: Any) -> float:
        for i in range(6):
            y[i] = 8
        return float(x[2])

    assert beside_a_variable(x[::-1]) == 8


@parallel
def twice(x: Any) -> Any:
    """Return a new array."""
    y = np.zeros(3)
    for i in range(3):
        y[i] = 2 * x[i]
    return y


@pytest.mark.parametrize("p", [1, 3])
def test_an_array_that_is_returned_can_be_written_and_is_the_processs_own(p: int) -> None:
    def main(proc: bsp.Process) -> list[float]:
        x = np.arange(3.0)
        y = twice(x)
        y += proc.pid
        return list(y)

    assert bsp.run(main, nprocs=p) == [[pid, 2 + pid, 4 + pid] for pid in range(p)]


class Body:
    """An object whose attributes are arrays."""

    def __init__(self) -> None:
        self.x, self.parts = np.arange(6.0), [np.arange(6.0)]
        self.names = {"x": self.x}
        self.names["names"] = self.names  # type: ignore[assignment]

    @parallel
    def moved(self, x: Any) -> float:
        """Write an argument that may be an attribute."""
        for i in range(6):
            x[i] = 7
        return float(self.x[2] + self.parts[0][2])


def test_an_argument_that_is_an_attribute_of_another_is_one_array() -> None:
    for x, wanted in ((lambda body: body.x, 9), (lambda body: body.parts[0], 9), (lambda body: np.arange(6.0), 4)):
        body = Body()
        assert body.moved(x(body)) == wanted


def test_a_global_by_the_name_of_a_parameter_is_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "dealt", np.arange(6.0))

    @parallel
    def is_dealt(dealt: Any) -> bool:
        return isinstance(dealt, ba.Array)

    assert is_dealt(globals()["dealt"])


@parallel
def stopped(x: Any, y: Any) -> None:
    """Write an argument, and raise an exception."""
    for i in range(6):
        x[i] = 7
    if x.sum() > 0:
        raise ValueError("x is written")
    for i in range(6):
        y[i] = 7


@pytest.mark.parametrize("p", [1, 3])
def test_what_is_written_before_an_exception_is_seen_where_it_is_caught(p: int) -> None:
    def main(proc: bsp.Process) -> list[list[float]]:
        x, y = np.arange(6.0), np.arange(6.0)
        with pytest.raises(ValueError, match="x is written"):
            stopped(x, y)
        return [x.tolist(), y.tolist()]

    assert bsp.run(main, nprocs=p) == [[[7.0] * 6, [*range(6)]]] * p


@parallel
def doubled(x: Any, how: type) -> Any:
    """Return arrays and numbers in a container."""
    for i in range(3):
        x[i] *= 2
    values = {"array": x, "number": x[1] + 0}
    return values if how is dict else how(**values) if how is Pair else how(values.values())


@pytest.mark.parametrize("how", [dict, Pair, list, tuple])
def test_results_are_numpys_and_an_argument_that_is_returned_is_itself(how: Any) -> None:
    def main(proc: bsp.Process) -> Any:
        x = np.arange(3.0)
        found = doubled(x, how)
        assert type(found) is how
        array, number = found.values() if how is dict else found
        assert array is x
        return x.tolist(), float(number), type(number)

    assert bsp.run(main, nprocs=2) == [([0, 2, 4], 2.0, np.float64)] * 2


class Grid:
    """A class with a method whose loops are array statements."""

    n = 3

    @parallel
    def fill(self, x: Any) -> int:
        """Fill the first elements."""
        for i in range(self.n):
            x[i] = i + 1
        return self.n


def test_methods_have_their_object() -> None:
    x = np.zeros(3)
    assert Grid().fill(x) == 3
    assert x.tolist() == [1, 2, 3]
    assert "becomes" in Grid.fill.explain()


@parallel
def failing(x: Any, y: Any) -> None:
    """Raise in a line of this file."""
    for i in range(3):
        y[i] = x[i]
    y[7] = 1


def test_an_error_is_at_the_line_of_the_function() -> None:
    with pytest.raises(IndexError) as raised:
        failing(np.zeros(3), np.zeros(3))
    own = [each for each in traceback.extract_tb(raised.value.__traceback__) if each.filename == __file__]
    assert own[-1].line == "y[7] = 1"


def test_a_value_that_is_missing_is_told_at_the_line_of_the_function() -> None:
    @parallel
    def branching(x: Any) -> None:
        if sum(x[i] for i in range(3)) > 1:
            x[0] = 1

    with pytest.raises(bsp.ValueNeeded, match=r"at .*test_functions_with_loops.py:\d+"):
        bsp.predict(lambda proc: branching(ba.ones(3)), nprocs=2, machine=bsp.Machine(p=2), abstract=True)


def test_what_has_no_source_of_its_own_is_refused() -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def both(*args: Any) -> Any:
            function(*args)
            return function(*args)

        return both

    @twice
    def added(x: Any) -> None:
        for i in range(3):
            x[i] += 1

    with pytest.raises(TypeError, match=r"write @bsp.parallel below the other decorators"):
        parallel(added)
    for other in (lambda x: x, len, np.sin, Grid):
        with pytest.raises(TypeError, match="a function that is written with def"):
            parallel(other)
