"""Rules D1 to D9 of the design: a result is a function of (script, arguments, inputs, p, seed) alone."""

from __future__ import annotations

import operator
import time
from typing import Any

import numpy as np
import pytest

import bsp
from bsp.values.operations import Prefixes, combine, operation

PROCS = [1, 2, 3, 4, 5, 8]


@pytest.mark.parametrize("nprocs", PROCS)
def test_d1_gets_read_what_stood_there_before_any_put_of_the_superstep(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> tuple[Any, Any]:
        x = proc.coarray(3, fill=proc.pid)
        right = (proc.pid + 1) % proc.nprocs
        proc.sync()
        before = x.get(right)
        x.put(right, [10.0 + proc.pid] * 3)
        proc.sync()
        return before.value.tolist(), x.local.tolist()

    results = run(main, nprocs=nprocs)
    for pid, (before, after) in enumerate(results):
        assert before == [(pid + 1) % nprocs] * 3
        assert after == [10.0 + (pid - 1) % nprocs] * 3


@pytest.mark.parametrize("nprocs", PROCS)
def test_d1_puts_apply_by_source_pid_and_then_issue_order(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(4)
        proc.sync()
        x.put(0, 1.0 + proc.pid, at=0)  # a scalar, then a block over it, then a scattered item
        x.put(0, [100.0 + proc.pid, 200.0 + proc.pid], at=slice(0, 2))
        x.put_each([0, 0], [1, 2], [300.0 + proc.pid, 1.0])
        x.put(0, 1.0, at=3, op="add")
        x.put(0, 2.0, at=3, op="multiply")
        proc.sync()
        return x.local.tolist()

    last = nprocs - 1
    total = 0.0
    for _ in range(nprocs):
        total = (total + 1.0) * 2.0
    assert run(main, nprocs=nprocs)[0] == [100.0 + last, 300.0 + last, 1.0, total]


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_d1_holds_between_an_array_and_a_new_registration_of_it(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> float:
        x = proc.coarray(4)
        proc.sync()
        y = proc.register(x.local)
        if proc.pid == 0:
            for value, handle in ((1.0, x), (2.0, y), (3.0, x)):
                handle.put(proc.nprocs - 1, value, at=0)
        proc.sync()
        return float(x.local[0])

    assert run(main, nprocs=nprocs)[-1] == 3.0


@pytest.mark.parametrize("nprocs", PROCS)
def test_d2_messages_come_by_source_pid_and_then_issue_order(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[tuple[int, Any, Any]]:
        for k in (2, 1, 0):
            proc.send(0, (proc.pid, k), tag=k)
        proc.send(0, np.arange(6000.0))
        proc.sync()
        return [(m.source, m.tag, m.payload if m.tag is not None else m.payload.size) for m in proc.inbox]

    wanted = [(q, k, (q, k)) if k is not None else (q, None, 6000) for q in range(nprocs) for k in (2, 1, 0, None)]
    assert run(main, nprocs=nprocs)[0] == wanted


def tree_by_hand(values: list[Any]) -> Any:
    """The balanced binary tree of D3, written down once more: level by level, neighbours combine."""
    while len(values) > 1:
        values = [values[k] + values[k + 1] if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
    return values[0]


@pytest.mark.parametrize("nprocs", [1, 2, 3, 5, 6, 7, 8, 13])
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase", "tree-2", "tree-4", "tree-16"])
def test_d3_every_algorithm_reproduces_the_bytes_of_the_one_tree(run: Any, nprocs: int, algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> tuple[bytes, bytes | None]:
        value = np.random.default_rng(proc.pid).standard_normal((5, 7)) * 10.0 ** (proc.pid % 5)
        everywhere = proc.allreduce(value, algorithm=algorithm)
        at_root = proc.reduce(value, root=proc.nprocs - 1, algorithm=algorithm)
        return everywhere.tobytes(), None if at_root is None else at_root.tobytes()

    values = [np.random.default_rng(pid).standard_normal((5, 7)) * 10.0 ** (pid % 5) for pid in range(nprocs)]
    tree = tree_by_hand(values).tobytes()
    results = run(main, nprocs=nprocs)
    assert all(everywhere == tree for everywhere, _ in results)
    assert [at_root for _, at_root in results] == [None] * (nprocs - 1) + [tree]


@pytest.mark.parametrize("count", range(1, 40))
def test_d3_a_prefix_has_the_bytes_of_the_tree_over_its_values(count: int) -> None:
    values = list(np.random.default_rng(count).standard_normal(40) * 1e3)
    add = operation("add")
    assert Prefixes(values, add).first(count) == combine(values[:count], add) == tree_by_hand(values[:count])
    text = [chr(97 + k % 26) for k in range(40)]  # not commutative: the order is the pids'
    assert Prefixes(text, operation(operator.add)).first(count) == "".join(text[:count])


@pytest.mark.parametrize("nprocs", [1, 3, 4, 7])
def test_d4_each_process_has_its_own_seeded_generators(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> tuple[bytes, bytes]:
        own = proc.rng.random(5)
        legacy = [np.random.random(2)]
        proc.sync()
        legacy.append(np.random.random(2))
        return own.tobytes(), np.concatenate(legacy).tobytes()

    first = run(main, nprocs=nprocs)
    assert first == run(main, nprocs=nprocs)
    assert first != run(main, nprocs=nprocs, seed=1)
    assert len({own for own, _ in first}) == len({legacy for _, legacy in first}) == nprocs


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_d4_seeding_numpy_in_one_process_leaves_the_others_alone(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process, seeded: bool) -> list[float]:
        if seeded and proc.pid == 0:
            np.random.seed(42)
        drawn = []
        for _ in range(5):  # an odd number of normals: the pending half of a pair stays with its process
            drawn.append(float(np.random.standard_normal()))
            proc.sync()
        return drawn

    plain, seeded = run(main, False, nprocs=nprocs), run(main, True, nprocs=nprocs)
    assert seeded[1:] == plain[1:]
    assert seeded[0] == np.random.RandomState(42).standard_normal(5).tolist()


def test_d4_the_callers_own_generator_is_untouched(run: Any) -> None:
    np.random.seed(7)
    expected = np.random.RandomState(7).random(3)
    run(lambda proc: np.random.random(100) is None or proc.sync(), nprocs=3)
    assert np.array_equal(np.random.random(3), expected)


@pytest.mark.parametrize("nprocs", [1, 2, 4])
def test_d4_time_is_agreed_at_boundaries_and_stands_still_between(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[float]:
        times = [proc.time()]
        for _ in range(3):
            until = time.perf_counter() + 0.001 * (proc.pid + 1)
            while time.perf_counter() < until:
                pass
            before = proc.time()
            proc.sync()
            assert before == times[-1]
            times.append(proc.time())
        return times

    results = run(main, nprocs=nprocs)
    assert all(times == results[0] for times in results)
    assert results[0] == sorted(results[0])
    assert results[0][0] == 0 < results[0][1]


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_d8_blas_has_one_thread_when_there_are_several_processes(run: Any, nprocs: int) -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    def main(proc: bsp.Process) -> list[int]:
        a = np.ones((50, 50))
        _ = a @ a
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2):
        for threads in run(main, nprocs=nprocs):
            assert threads and all(count == (2 if nprocs == 1 else 1) for count in threads)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("size", [3, 5000])
def test_d9_what_is_delivered_is_aligned_c_ordered_writable_and_ones_own(run: Any, nprocs: int, size: int) -> None:
    def main(proc: bsp.Process) -> None:
        dest = (proc.pid + 1) % proc.nprocs
        payload = np.asfortranarray(np.arange(2.0 * size).reshape(2, size) + proc.pid)
        unaligned = np.frombuffer(b"x" + np.arange(size, dtype=float).tobytes(), np.uint8)[1:].view(float)
        held = {"list": [1, 2]}
        proc.send(dest, payload)
        proc.send(dest, unaligned)
        proc.send(dest, held)
        proc.send(proc.pid, held)
        payload[:] = -1  # what was sent is what it was
        held["list"].append(3)
        x = proc.coarray((2, size), fill=1.0)
        got = x.get(dest)
        proc.sync()
        by_source: dict[int, list[Any]] = {}
        for message in proc.inbox:
            by_source.setdefault(message.source, []).append(message.payload)
        source = (proc.pid - 1) % proc.nprocs
        ordered, plain, thing = by_source[source][:3]
        for array in (ordered, plain, got.value):
            assert array.flags.aligned and array.flags.c_contiguous and array.flags.writeable
            assert type(array) is np.ndarray
        assert np.array_equal(ordered, np.arange(2.0 * size).reshape(2, size) + source)
        assert thing == {"list": [1, 2]}
        assert by_source[proc.pid][-1] == {"list": [1, 2]} and by_source[proc.pid][-1] is not held
        got.value[:] = 5
        assert (x.local == 1).all()

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_d9_results_of_collectives_share_no_memory_with_anything(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        value = np.full(4, 1.0)
        results = [
            proc.broadcast(value), proc.allreduce(value), proc.scan(value), proc.allgather(value)[proc.pid],
            proc.alltoall([value] * proc.nprocs)[proc.pid], proc.scatter([value] * proc.nprocs, root=0),
        ]  # fmt: skip
        at_root = proc.reduce(value), proc.gather(value)
        results += [at_root[0], at_root[1][0]] if proc.pid == 0 else []
        for result in results:
            assert not np.shares_memory(result, value)
            result[:] = 99
        proc.sync()
        assert (value == 1).all()

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 3, 5])
def test_strided_gets_of_every_size_read_what_stood_there_before_the_puts(run: Any, nprocs: int) -> None:
    """D1 for regions whose memory is no single range, of more and of less than stands inside a packet."""
    places = [(slice(None), 0), (slice(None, None, -1), 1), slice(0, None, 1000), slice(None, None, -1), (..., [6, 1])]

    def main(proc: bsp.Process) -> None:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray((9001, 8))
        before = np.arange(9001.0 * 8).reshape(9001, 8)
        x.local[:] = before + right * proc.pid
        proc.sync()
        pending = [x.get(right, at=place) for place in places]
        for dest in range(proc.nprocs):
            x.put(dest, -1.0)
        proc.sync()
        theirs = before + (right + 1) % proc.nprocs * right
        for got, place in zip(pending, places, strict=True):
            assert np.array_equal(got.value, theirs[place])
            assert got.value.flags.c_contiguous and got.value.flags.writeable and got.value.flags.aligned
        assert (x.local == -1.0).all()

    run(main, nprocs=nprocs)


def test_items_without_bytes_and_large_pickles_travel_like_any_other(run: Any) -> None:
    """Results do not depend on the number of elements: dtypes of itemsize 0, and pickles beyond a packet's size."""

    def main(proc: bsp.Process) -> Any:
        right = (proc.pid + 1) % proc.nprocs
        nothing = np.zeros(5, dtype=[])
        x = proc.coarray(5, dtype=[])
        proc.sync()
        x.put(right, nothing)
        pending = x.get(right, at=slice(0, 5, 2))
        proc.send(right, nothing)
        large = {"pid": proc.pid, "text": "x" * 100_000, "items": list(range(50_000))}
        proc.send(right, large, tag="large")
        proc.send(right, "small")
        proc.sync()
        assert pending.value.shape == (3,) and pending.value.dtype == nothing.dtype
        empty, received, small = proc.inbox
        assert empty.payload.shape == (5,) and empty.payload.dtype == nothing.dtype
        left = (proc.pid - 1) % proc.nprocs
        assert (received.source, received.tag, received.payload) == (left, "large", large | {"pid": left})
        assert small.payload == "small"
        return [part["pid"] for part in proc.allgather(large)]

    assert run(main, nprocs=4) == [[0, 1, 2, 3]] * 4
