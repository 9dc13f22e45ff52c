"""Evaluations in C against the reference in Python: the same graphs, the same bytes, the same errors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from expressions import PROCESSES, applied, programs
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays import compiled
from bsp.arrays.compiled import small_blocks
from bsp.arrays.execution import run, world
from bsp.arrays.expressions import graph
from bsp.arrays.expressions.graph import Kind, Node, Operation, leaf, parameter
from bsp.arrays.expressions.layout import automatic
from bsp.arrays.kernels.shared_errors import current

pytestmark = pytest.mark.skipif(not compiled.COMPILED, reason="the package was installed without a C compiler")

OPERATIONS = [Operation(), Operation()]
KINDS = [Kind((3,), np.dtype(float)), Kind((), np.dtype(int))]


@st.composite
def roots(draw: st.DrawFn) -> list[Node]:
    """Roots of graphs with equal subexpressions, in which some nodes were computed before."""
    nodes = [parameter(draw(st.integers(0, 1))) for _ in range(2)]
    nodes += [leaf((3,), np.dtype(float), automatic((3,), p), {}) for p in (1, 2)]
    for _ in range(draw(st.integers(0, 12))):
        args = tuple(draw(st.lists(st.sampled_from(nodes), max_size=3)))
        node = Node(draw(st.sampled_from(OPERATIONS)), args, draw(st.sampled_from(KINDS)))
        node.computed = draw(st.booleans())
        nodes.append(node)
    return draw(st.lists(st.sampled_from(nodes[::-1]), min_size=1, max_size=6))


@examples(1000)
@given(roots())
def test_the_graph_is_that_of_the_reference(given: list[Node]) -> None:
    found, expected = compiled.capture(given), graph.capture(given)
    assert found == expected
    assert list(found.positions) == list(expected.positions)
    assert type(found) is type(expected)
    assert [type(each) for each in found] == [type(each) for each in expected]


def test_a_deep_graph_needs_no_stack_and_what_is_no_node_is_refused() -> None:
    node = parameter(1.0)
    for _ in range(200_000):
        node = Node(OPERATIONS[0], (node, node), KINDS[0])
    assert compiled.capture([node]).roots == (200_000,)
    while node.args:  # else the nodes release each other, one inside the other
        node = node.args[0]
    for bad in ([1], [Node(OPERATIONS[0], (3,), KINDS[0])], [Node(OPERATIONS[0], [], KINDS[0])], 1):  # type: ignore[arg-type, list-item]
        with pytest.raises(TypeError):
            compiled.capture(bad)  # type: ignore[arg-type]


def both(main: Callable[[bsp.Process], Any], p: int) -> tuple[Any, Any, list[bool]]:
    """Return what a program returns with small blocks in C and in Python, and of each stage whether C computed it."""
    stages = []

    def counted(*args: Any) -> Any:
        blocks = small_blocks(*args)
        stages.append(blocks is not NotImplemented)
        return blocks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "small_blocks", counted)
        in_c = bsp.run(main, nprocs=p)
        patch.setattr(run, "small_blocks", lambda *args: NotImplemented)
        in_python = bsp.run(main, nprocs=p)
    return in_c, in_python, stages


@examples(300)
@given(programs())
def test_random_programs_give_the_same_bytes(program: Any) -> None:
    p, shape, grid, steps = program
    data = np.random.default_rng(0).normal(size=shape)

    def main(proc: bsp.Process) -> tuple[Any, bytes]:
        x = ba.asarray(data, grid=grid)
        with np.errstate(all="ignore"):
            for step in steps:
                x = applied(ba, x, step)
            found = x.persist().compute()
        return found.shape, found.tobytes()

    in_c, in_python, _ = both(main, p)
    assert in_c == in_python


Y = np.arange(24.0).reshape(8, 3) - 9  # with a zero, and powers of it that overflow
MODES = ("ignore", "warn", "raise", "call", "log", "print")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("p", PROCESSES[:3])
def test_floating_point_errors_are_the_same(p: int, mode: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def main(proc: bsp.Process) -> Any:
        x, heard = ba.asarray(Y, grid=(4, 1)), []

        class Log:
            def write(self, text: str) -> None:
                heard.append(text)

        with np.errstate(all=mode, call=Log() if mode == "log" else lambda *args: heard.append(args)):
            for make in (lambda: 1 / x, lambda: np.sqrt(x) + 1 / x, lambda: np.exp(x * 900) + np.exp(x * -800)):
                try:
                    heard.append(make().persist().compute().tobytes())
                except FloatingPointError as error:
                    heard.append(str(error))
        return heard

    if mode == "warn":
        with pytest.warns(RuntimeWarning) as warned:
            in_c, in_python, stages = both(main, p)
        texts = [str(each.message) for each in warned]
        assert texts[: len(texts) // 2] == texts[len(texts) // 2 :]
    else:
        in_c, in_python, stages = both(main, p)
        shown = capsys.readouterr().out
        assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]
        assert bool(shown) == (mode == "print")
    assert in_c == in_python
    assert all(stages)


def test_functions_of_the_program_see_its_own_modes() -> None:
    def main(proc: bsp.Process) -> Any:
        modes = []

        def noted(line: Any) -> Any:
            modes.append({**np.geterr()})
            return line.sum()

        with np.errstate(all="ignore", over="raise"):
            ba.apply_along_axis(noted, 1, ba.asarray(Y, grid=(4, 1))).persist()
            return modes[-1]

    wanted = {"divide": "ignore", "over": "log", "under": "ignore", "invalid": "ignore"}
    assert bsp.run(main, nprocs=2) == [wanted] * 2


def test_not_a_number_is_the_same_parameter_whatever_its_sign() -> None:
    def main(proc: bsp.Process) -> Any:
        return (ba.arange(6.0, grid=(2,)) + (-1) ** proc.pid * float("nan")).compute()

    assert np.isnan(bsp.run(main, nprocs=2)).all()


def test_caches_of_plans_are_bounded() -> None:
    def main(proc: bsp.Process) -> int:
        x = ba.ones(5).persist()
        for k in range(3 * world._OPTIONS):
            with ba.options(memory=1e9 + k):
                (x + 1.0).persist()
        return len(world._plans)

    assert bsp.run(main, nprocs=1)[0] <= world._OPTIONS


def test_underflow_is_ignored_unless_the_program_asks() -> None:
    def main(proc: bsp.Process) -> str:
        x = ba.full(5, 1e-200)
        (x * x).persist()
        with np.errstate(under="raise"), pytest.raises(FloatingPointError) as raised:
            (x * x).persist()
        return str(raised.value)

    assert both(main, 2)[:2] == (["underflow encountered in multiply"] * 2,) * 2


def test_results_are_stored_by_columns_where_the_operands_are() -> None:
    def main(proc: bsp.Process) -> Any:
        x = ba.asarray(Y, grid=(4, 1))
        found = [(x.T * 2).persist(), (x.T + x.T[:, :1]).persist(), (x[:, :1] + x).persist(), (x[::2].T + 1).persist()]
        found += [(found[0] + 1).persist(), (found[0] * found[0][:, :1]).persist()]
        cube = ba.asarray(np.arange(60.0).reshape(3, 4, 5), grid=(2, 1, 1))
        found += [(ba.permute_dims(cube, order) * 2).persist() for order in ((1, 2, 0), (2, 1, 0), (0, 2, 1))]
        return [
            (block.strides, block.flags.c_contiguous, block.flags.f_contiguous, block.tobytes())
            for each in found
            for _, block in sorted(each._node.value.items())
        ]

    in_c, in_python, stages = both(main, 2)
    assert in_c == in_python
    assert set(stages) == {False, True}


def test_what_an_operation_raises_is_noted_by_the_reference() -> None:
    calls = []

    def refusing(x: Any, out: Any) -> None:
        calls.append(x.shape)
        raise ValueError("no good")

    stage = (((refusing, (0,), -1),), (), np.dtype(float), (), (((0,), (3,), ((0, (0,), None, None),)),))
    block = np.ones(3)
    before = sys.getrefcount(block), gc.get_count()[2]
    assert small_blocks(stage, [{(0,): block}], [], current) is NotImplemented  # type: ignore[arg-type]
    assert calls == [(3,)]
    assert (sys.getrefcount(block), gc.get_count()[2]) == before
    for bad in (((), [], [], current), (stage, (), [], current)):
        with pytest.raises(TypeError):
            small_blocks(*bad)  # type: ignore[arg-type]


def test_what_stops_the_program_is_not_held_back() -> None:
    def stopping(x: Any, out: Any) -> None:
        raise KeyboardInterrupt

    stage = (((stopping, (0,), -1),), (), np.dtype(float), (), (((0,), (3,), ((0, (0,), None, None),)),))
    with pytest.raises(KeyboardInterrupt):
        small_blocks(stage, [{(0,): np.ones(3)}], [], current)  # type: ignore[arg-type]


def test_blocks_and_operands_have_the_references_that_they_need() -> None:
    block, number, index = np.ones(3), 1e300, (slice(None),)
    code = ((np.add, (0, 1), 0), (np.multiply, (2, 0), -1))
    task = ((0,), (3,), ((0, (0,), index, None),))
    stage = (code, (block.dtype,), block.dtype, (0,), (task,))
    before = [sys.getrefcount(each) for each in (block, number, index, stage)]
    found = small_blocks(stage, [{(0,): block}], [number], current)  # type: ignore[arg-type]
    (result,) = found.values()
    assert sys.getrefcount(result) == 3  # the dictionary, the name, the argument
    assert [sys.getrefcount(each) for each in (block, number, index, stage)] == before


def test_evaluations_leave_nothing_behind() -> None:
    def main(proc: bsp.Process) -> list[int]:
        s, m = ba.ones(100).persist(), ba.asarray(np.ones((5, 100))).persist()
        found = []
        for _ in range(3):
            for k in range(500):
                (s * 2.0 + m[k % 5]).persist()
            gc.collect()
            found.append(len(gc.get_objects()))
        gc.disable()
        try:
            for _ in range(100):
                (s + 1.0).persist()
            found.append(gc.collect())
        finally:
            gc.enable()
        return found

    first, second, third, unreachable = bsp.run(main, nprocs=1)[0]
    assert third - second < 50
    assert second - first < 500  # what is remembered once
    assert unreachable < 100  # no evaluation makes a cycle
