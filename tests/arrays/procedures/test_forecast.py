"""What procedures are expected to take is not less than what they take, and known before they run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.expressions.graph import LEAF

N = 40_000


def ordered(i: Any) -> Any:
    return i * 1.0


def backwards(i: Any) -> Any:
    return N - i * 1.0


def mixed(i: Any) -> Any:
    return np.sin(i * 7.7)


def few(i: Any) -> Any:
    return (i * i % 11) * 1.0


DATA: dict[str, Callable[..., Any]] = {f.__name__: f for f in (ordered, backwards, mixed, few)}
PROCEDURES: dict[str, Callable[[Any], Any]] = {
    "sort": ba.sort,
    "descending": lambda x: ba.sort(x, descending=True),
    "argsort": ba.argsort,
    "partition": lambda x: ba.partition(x, [10, 20_000]),
    "argpartition": lambda x: ba.argpartition(x, [10, 20_000]),
    "unique": ba.unique_values,
    "unique, all": ba.unique_all,
    "median": ba.median,
    "percentiles": lambda x: ba.percentile(x, [1, 25, 99]),
    "largest": lambda x: ba.topk(x, 10),
    "mask": lambda x: x[x > 3],
    "mask of nothing": lambda x: x[x != x],
    "nonzero": ba.nonzero,
    "positions": lambda x: x[ba.astype(abs(x) % N, ba.int64)],
    "searched": lambda x: ba.searchsorted(ba.sort(x), x[::3]),
    "histogram": lambda x: ba.histogram(x, 20),
    "tall qr": lambda x: ba.linalg.qr(x.reshape(-1, 8)),
    "tall svd": lambda x: ba.linalg.svd(x.reshape(-1, 8), full_matrices=False),
    "solve": lambda x: ba.linalg.solve(x.reshape(200, 200) + 1e6 * ba.eye(200), ba.ones(200)),
}


def done(found: Any) -> None:
    """What a procedure has left to do is done, as a forecast has it."""
    lazy = [each for each in (found if isinstance(found, tuple) else (found,)) if each._node.op is not LEAF]
    if lazy:
        ba.persist(*lazy)


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("name", list(PROCEDURES))
def test_words_are_not_below_what_travels(name: str, p: int) -> None:
    for data in DATA.values():
        expected: list[ba.Forecast] = []

        def main(proc: bsp.Process, run: bool, data: Any = data, expected: Any = expected) -> None:
            x = ba.from_function(data, (N,)).persist()
            proc.sync()
            if run:
                done(PROCEDURES[name](x))
            else:
                before = proc.superstep
                expected.append(ba.forecast(PROCEDURES[name], x))
                assert proc.superstep == before

        def counted(run: bool, main: Any = main) -> list[dict[str, Any]]:
            return bsp.predict(main, run, nprocs=p, machine=bsp.Machine(p=p)).per_superstep

        real = counted(True)[len(counted(False)) :]
        (found, *others) = expected
        assert all(other == found for other in others)
        assert len(expected) == p
        assert sum(step.h for step in found.supersteps) >= sum(max(row["h_sent"], row["h_received"]) for row in real)
        if not found.bounded:
            assert len(found.supersteps) == len(real)
            assert [step.h for step in found.supersteps] == [max(row["h_sent"], row["h_received"]) for row in real]
        assert found.explain().count("superstep ") == len(found.supersteps)
        assert ("at most" in found.explain()) == found.bounded


@pytest.mark.parametrize("name", list(PROCEDURES))
def test_peak_bytes_are_not_below_what_is_used(name: str) -> None:
    p = 2
    expected: list[int] = []

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(mixed, (N,)).persist()
        expected.append(ba.forecast(PROCEDURES[name], x).peak_bytes)
        proc.sync()
        if proc.pid == 0 and tracemalloc.is_tracing():
            tracemalloc.reset_peak()
        proc.sync()
        done(PROCEDURES[name](x))

    bsp.run(main, nprocs=p)
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=p)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert p * expected[-1] >= most - (256 << 10)  # Python's own objects


ROWS = 512
BESIDE = 1 << 20  # bytes beside arrays
LARGE: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "sort": ((1 << 19,), ba.sort),
    "argsort": ((1 << 19,), ba.argsort),
    "partition": ((1 << 19,), lambda x: ba.argpartition(x, [10, 200_000])),
    "unique": ((1 << 19,), ba.unique_values),
    "unique, all": ((1 << 19,), ba.unique_all),
    "isin": ((1 << 19,), lambda x: ba.isin(x, x + 0.5)),
    "median": ((1 << 19,), ba.median),
    "percentiles": ((1 << 19,), lambda x: ba.percentile(x, range(101))),
    "largest": ((1 << 20,), lambda x: ba.topk(x, 10)),
    "sum": ((1 << 20,), ba.sum),
    "chain": ((1 << 20,), lambda x: ba.sqrt(x * 2 + 1) - x),
    "fft": ((1024, 512), ba.fft.fft2),
    "one line's fft": ((1 << 17,), ba.fft.fft),
    "inv": ((ROWS * 2, ROWS * 2), ba.linalg.inv),
    "solve": ((ROWS * 2, ROWS * 2), lambda x: ba.linalg.solve(x, x[:, :8])),
    "qr": ((1 << 15, 32), ba.linalg.qr),
    "svd": ((1 << 15, 32), lambda x: ba.linalg.svd(x, full_matrices=False)),
    "matmul": ((ROWS * 2, ROWS * 2), lambda x: x @ x),
    "transpose": ((ROWS * 2, ROWS * 2), lambda x: (x.T + 0).reshape(-1)),
    "distances": ((ROWS * 2, 512), lambda x: ba.linalg.norm(x[:, None, :16] - x[None, :256, :16], axis=2)),
    "searched": ((1 << 19,), lambda x: ba.searchsorted(ba.sort(x), x[::2])),
    "positions": ((1 << 19,), lambda x: x[ba.astype(x * 500_000, int)]),
}


def taken(proc: bsp.Process, shape: tuple[int, ...], call: Callable[[Any], Any], done: Callable[[Any], None]) -> Any:
    """What a call is forecast to take on a process, and what it takes here, its operand included."""
    from bsp.arrays.execution import memory

    memory.KEPT_BYTES = 0  # freed blocks are freed
    memory.release()
    x = ba.random.default_rng(3).random(shape).persist()
    done(call(x))  # what is imported, planned and kept for later calls is there
    expected = ba.forecast(call, x).peak_bytes
    own = sum(block.nbytes for block in x._node.value.values())
    tracemalloc.start()
    try:
        proc.sync()
        done(call(x))
        return expected, own + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.parametrize("p", [2, 3])
def test_a_forecast_is_what_a_process_with_its_own_memory_takes(p: int) -> None:
    def main(proc: bsp.Process) -> dict[str, Any]:
        return {name: taken(proc, shape, call, done) for name, (shape, call) in LARGE.items()}

    results = bsp.run(main, nprocs=p, elements=p)
    found = {name: (results[0][name][0], max(each[name][1] for each in results)) for name in LARGE}
    wrong = {name: each for name, each in found.items() if not each[1] - BESIDE <= each[0] <= 2 * each[1]}
    assert not wrong


@pytest.mark.parametrize("call", [ba.sort, ba.unique_all, ba.linalg.qr, ba.nonzero])
def test_what_would_not_fit_is_refused_before_anything_runs(call: Callable[..., Any]) -> None:
    def main(proc: bsp.Process) -> tuple[str, int]:
        x = ba.from_function(mixed, (N,))
        x = x.reshape(-1, 8).persist() if call is ba.linalg.qr else x
        peak = ba.forecast(call, x).peak_bytes
        before = proc.superstep
        with ba.options(memory=0.9 * peak), pytest.raises(ba.PlanTooLarge) as refused:
            call(x)
        supersteps = proc.superstep - before
        with ba.options(memory=1.1 * peak):
            call(x)
        return str(refused.value), supersteps

    (text, supersteps), other = bsp.run(main, nprocs=2)
    assert (text, supersteps) == other
    assert supersteps == 0
    assert text.startswith(call.__name__)
    assert "on a process, limit " in text
    assert text.endswith("take more processes")


def test_a_result_says_what_making_it_was_expected_to_take() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.from_function(mixed, (N,))
        values, places = ba.sort(x), ba.argsort(x)
        assert values.explain() == ba.forecast(ba.sort, x).explain()
        assert ba.explain(places) == places.explain() == ba.forecast(ba.argsort, x).explain()
        assert values.cost().S == 3
        assert values.cost().peak_bytes > 8 * N / proc.nprocs
        assert "elements to their pieces" in values.explain()
        assert "sqrt(x0)" in ba.sqrt(values).explain()
        assert x.explain().startswith("superstep 1  agreement")

    bsp.run(main, nprocs=3)


def test_a_function_of_ones_own_is_forecast_whole() -> None:
    def main(proc: bsp.Process) -> ba.Forecast:
        x = ba.from_function(mixed, (N,))
        np.random.seed(proc.pid)
        first = np.random.random()
        found = ba.forecast(lambda x: ba.median(x[x > 0]) + ba.max(x), x)
        np.random.seed(proc.pid)
        assert np.random.random() == first
        assert bsp.process().pid == proc.pid
        return found

    one, two = bsp.run(main, nprocs=2)
    assert one == two
    assert one.bounded
    assert one.name == "<lambda>"


def test_what_decides_by_a_value_cannot_be_forecast() -> None:
    def decides(x: Any) -> Any:
        return ba.sort(x) if float(x[0]) > 0 else x

    def main(proc: bsp.Process) -> None:
        x = ba.from_function(mixed, (N,))
        with pytest.raises(bsp.ValueNeeded):
            ba.forecast(decides, x)
        assert float(ba.sort(x)[0]) == float(x.min())

    bsp.run(main, nprocs=2)


@pytest.mark.parametrize(
    "name", ["digitize", pytest.param("repeat", marks=pytest.mark.xfail(strict=True, reason="counts are values"))]
)
def test_functions_that_look_at_a_few_values_can_be_predicted(name: str) -> None:
    def main(proc: bsp.Process) -> None:
        if name == "digitize":
            ba.digitize(ba.zeros(1 << 20), ba.arange(10.0))
        else:
            ba.repeat(ba.zeros(1 << 20), ba.ones(1 << 20, dtype=int))

    bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=True)


def test_a_forecast_of_bincount_needs_the_number_of_bins() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.astype(ba.from_function(few, (N,)), ba.int64).persist()
        with pytest.raises(
            bsp.ValueNeeded, match=r"the length of bincount .* say how many bins there are \(minlength=\)"
        ):
            ba.forecast(ba.bincount, x)
        assert ba.forecast(ba.bincount, x, minlength=11).words >= 11

    bsp.run(main, nprocs=3)


def test_a_forecast_refuses_arrays_that_are_not_arguments() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.from_function(mixed, (N,)).persist()
        nested = [lambda: ba.sort(x), lambda: next(ba.sort(x) for _ in range(2)), lambda a=x: ba.sort(a)]
        for function in nested:
            with pytest.raises(ba.ArrayError, match=r"reads the array '[ax]', which is not an argument"):
                ba.forecast(function)
        outside = eval("lambda y: ba.sort(x) + y.x", {"ba": ba, "x": x})
        with pytest.raises(ba.ArrayError, match=r"take it as one: forecast\(lambda x: \.\.\., x\)"):
            ba.forecast(outside, x)
        attribute = eval("lambda y: ba.sort(y.T)", {"ba": ba, "T": x})  # an attribute of that name is no array outside
        assert ba.forecast(attribute, x).words == ba.forecast(lambda x: ba.sort(x.T), x).words > 0

    bsp.run(main, nprocs=3)
