"""Results are written over arrays that nothing can read any more, and over no others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from expressions import nothing_replicated
from hypothesis import given
from hypothesis import strategies as st

import bsp
import bsp.arrays as ba
from bsp.arrays.execution import memory
from bsp.arrays.execution.run import Run
from bsp.arrays.planning import plan, small

LENGTH = 2 * memory.SMALLEST // 8
NAMES = "abc"


@contextlib.contextmanager
def however_small() -> Iterator[None]:
    """Inside the block small results are written over their operands too."""
    with nothing_replicated(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LEAST", 0)
        patch.setattr(small, "COMPILED", False)
        yield


def places(x: ba.Array) -> list[int]:
    """Return where the blocks of a computed array are in memory."""
    return [block.ctypes.data for block in x._node.value.values()]


# ------------------------------------------------------------------------------- what is written over


def _renamed(x: ba.Array, p: ba.Array) -> ba.Array:
    x = x + 0.5 * p
    return x.persist()


def _in_place(x: ba.Array, p: ba.Array) -> ba.Array:
    x += 0.5 * p
    return x.persist()


def _beside_others(x: ba.Array, p: ba.Array) -> ba.Array:
    x = x + 0.5 * p
    ba.persist(x, p - 1, (x * x).sum())
    return x


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("step", [_renamed, _in_place, _beside_others])
def test_a_result_takes_the_memory_of_the_array_that_it_replaces(step: Callable[..., Any], nprocs: int) -> None:
    def main(proc: bsp.Process) -> Any:
        names = [ba.ones(2 * LENGTH).persist(), ba.arange(2.0 * LENGTH).persist()]
        before = places(names[0])
        x = step(names.pop(0), names[0])
        return places(x) == before, x.compute()

    for same, found in bsp.run(main, nprocs=nprocs):
        assert same
        np.testing.assert_array_equal(found, 1 + 0.5 * np.arange(2.0 * LENGTH))


KEEPERS: dict[str, Callable[[ba.Array], Any]] = {
    "the array": lambda x: x,
    "a view": lambda x: x[3:],
    "an expression": lambda x: x * 2,
    "an expression of an expression": lambda x: ((x + 1) * 2).sum(),
    "another name of its values": lambda x: ba.asarray(x, copy=False),
    "a copy": lambda x: x.copy(),
    "a block": lambda x: next(iter(x._node.value.values())),
    "a buffer of a block": lambda x: memoryview(next(iter(x._node.value.values()))[2:]),
}


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_what_something_refers_to_is_not_written_over(keep: Callable[[ba.Array], Any], nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        x, p = (2.0 * ba.arange(2 * LENGTH)).persist(), ba.ones(2 * LENGTH).persist()
        kept, expected = keep(x), np.array(keep(x))
        x = x + 0.5 * p
        x.persist()
        np.testing.assert_array_equal(np.asarray(kept), expected)

    bsp.run(main, nprocs=nprocs)


def test_an_array_of_numpys_is_not_written_over() -> None:
    def main(proc: bsp.Process) -> None:
        data = np.ones(LENGTH)
        x = ba.asarray(data)
        x = x + 1
        x.persist()
        assert (data == 1).all()

    bsp.run(main, nprocs=1)


# ------------------------------------------------------------------------------------ programs

_TERMS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + 2 * y, lambda x, y: x * y - x, lambda x, y: x[::-1] - y, lambda x, y: (x > y) * 1.0,
    lambda x, y: x.reshape(3, 5).T.reshape(15) + y, lambda x, y: x.sum() + y, lambda x, y: x.astype(int) + y,
]  # fmt: skip
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("name"), st.sampled_from(NAMES), st.sampled_from(_TERMS), *[st.sampled_from(NAMES)] * 2),
        st.tuples(st.just("add"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("persist"), st.sets(st.sampled_from(NAMES), min_size=1)),
        st.tuples(st.just("view"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("set"), st.sampled_from(NAMES), st.integers(0, 14)),
    ),
    max_size=14,
)


def _carry_out(steps: list[Any], names: dict[str, Any], persist: Callable[..., Any]) -> list[Any]:
    for kind, name, *rest in steps:
        if kind == "name":
            term, left, right = rest
            names[name] = term(names[left], names[right])
        elif kind == "add":
            names[name] += names[rest[0]]
        elif kind == "persist":
            persist(*[names[each] for each in sorted(name)])
        elif kind == "view":
            names[name] = names[rest[0]][::-1]
        else:
            names[name][rest[0]] = 7.0
    return list(names.values())


@given(_steps, st.sampled_from([1, 2, 3]))
def test_programs_have_numpys_values(steps: list[Any], nprocs: int) -> None:
    def initial(make: Callable[[Any], Any]) -> dict[str, Any]:
        return {name: make(np.arange(15.0) + k) for k, name in enumerate(NAMES)}

    def main(proc: bsp.Process) -> list[Any]:
        names = initial(lambda values: ba.asarray(values.copy()).persist())
        return [each.compute() for each in _carry_out(steps, names, ba.persist)]

    with however_small(), np.errstate(all="ignore"):
        expected = _carry_out(steps, initial(np.copy), lambda *arrays: None)
        for results in bsp.run(main, nprocs=nprocs):
            for found, values in zip(results, expected, strict=True):
                np.testing.assert_array_equal(found, values)


# -------------------------------------------------------------------------------------- errors


def test_an_array_can_be_computed_again_after_an_error_of_floating_point() -> None:
    def main(proc: bsp.Process) -> Any:
        x = ba.full(LENGTH, 1e300).persist()
        x = x * 1e200
        with pytest.raises(FloatingPointError), np.errstate(over="raise"):
            x.persist()
        with np.errstate(over="ignore"):
            return (x / 1e200).compute()[0], x.compute()[0]

    assert bsp.run(main, nprocs=2) == [(np.inf, np.inf)] * 2


def test_an_array_can_be_computed_again_after_an_exponent_below_zero() -> None:
    def main(proc: bsp.Process) -> Any:
        x, n = ba.full(LENGTH, 2).persist(), ba.full(LENGTH, -1).persist()
        x = x + 3
        with pytest.raises(ValueError, match="negative integer powers"):
            ba.persist(x, n**n)
        return x.compute()[0]

    assert bsp.run(main, nprocs=2) == [5, 5]


def test_an_array_that_was_written_over_in_vain_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def main(proc: bsp.Process) -> None:
        x, y = ba.ones(LENGTH).persist(), ba.ones(LENGTH).persist()
        x = x + 3

        def full(*_: Any) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(memory, "empty", full)
            ba.persist(x, y * 2)
        with pytest.raises(ba.ArrayError, match="written over"):
            x.persist()

    bsp.run(main, nprocs=1)


def test_a_stage_does_not_take_what_one_in_c_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """C, which small stages run in, makes blocks of its own."""

    def main(proc: bsp.Process) -> list[Any]:
        x, y = ba.ones(100).persist(), ba.ones(1 << 16).persist()
        x, z = x * 2.0, y < 2
        ba.persist(x, z)
        return [x.compute(), z.compute(), y.compute()]

    monkeypatch.setattr(plan, "LEAST", 0)
    with nothing_replicated():
        for x, z, y in bsp.run(main, nprocs=1):
            np.testing.assert_array_equal(x, np.full(100, 2.0))
            np.testing.assert_array_equal(z, np.ones(1 << 16, bool), strict=True)
            np.testing.assert_array_equal(y, np.ones(1 << 16))


# ------------------------------------------------------------------------------- rows from the rows before them


def _recursion(a: ba.Array) -> ba.Array:
    for i in range(1, a.shape[0]):
        a[i] = a[i - 1] + 1
    return a


def test_assignments_in_a_row_hold_no_array_for_each() -> None:
    for rows in (10, 40):
        a = _recursion(ba.zeros((rows, 20_000)))
        assert a.plan().peak_bytes < 5 * a.nbytes


@pytest.mark.parametrize("nprocs", [1, 2])
def test_assignments_in_a_row_copy_the_array_once_at_most(nprocs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plain = Run.empty
    monkeypatch.setattr(Run, "empty", lambda self, shape, dtype: made.append(shape[0]) or plain(self, shape, dtype))

    def main(proc: bsp.Process) -> np.ndarray:
        a = _recursion(ba.zeros((12, 2 * LENGTH), grid=(1, nprocs)).persist()).persist()
        return a[:, ::LENGTH].compute()

    for found in bsp.run(main, nprocs=nprocs):
        np.testing.assert_array_equal(found, np.arange(12.0)[:, None] + np.zeros(2))
    assert made.count(12) <= 2 * nprocs  # with the one for what is shown; there are 11 assignments


def _forward(a: Any) -> None:
    a[1:] = a[:-1] * 2


def _mirrored(a: Any) -> None:
    a[:] = a[::-1] + 1


def _over_each_other(a: Any) -> None:
    a[0] = a[3] + 1
    a[3] = a[0] * 2
    a[2:] = a[:-2] + a[2:]


def _of_columns(a: Any) -> None:
    a[:, ::2] = a[:, 1:] - 3 if a.shape[1] == 2 else a[:, ::2] * 5
    a[1:, 1:] = a[:-1, :-1] + 1


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("assign", [_recursion, _forward, _mirrored, _over_each_other, _of_columns])
def test_an_assignment_reads_what_was_there_before_it(assign: Callable[[Any], Any], nprocs: int) -> None:
    start = np.random.default_rng(3).integers(0, 50, (5, 4)).astype(float)
    expected = start.copy()

    def main(proc: bsp.Process) -> np.ndarray:
        a = ba.asarray(start) + 0
        for _ in range(3):
            assign(a)
        return a.compute()

    for _ in range(3):
        assign(expected)
    with however_small():
        for found in bsp.run(main, nprocs=nprocs):
            np.testing.assert_array_equal(found, expected)
