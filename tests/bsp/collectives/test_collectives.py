"""Collectives: the same answer by every algorithm, for any p, any root, any group; one boundary each."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from collective_calls import call, check_that_its_result_is_its_own, flattened

import bsp
from bsp.collectives.choice import COLLECTIVES
from bsp.collectives.sizes import Sizes
from bsp.cost.machine_file import named, to_machine
from bsp.cost.model import Machine

PROCS = [1, 2, 3, 4, 7, 12]
ROOTED = [None, "one-phase", "tree-2", "tree-4", "tree-16"]


def word(pid: int) -> Any:
    """A value of another type and size on every process."""
    return [pid, "text" * pid, None, {"pid": pid}, np.arange(pid + 1.0), (pid,), 2.5 * pid][pid % 7]


def same(a: Any, b: Any) -> bool:
    """Equality that looks into arrays and lists."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("algorithm", [*ROOTED, "two-phase"])
def test_broadcast_brings_the_roots_value_to_all(run: Any, nprocs: int, algorithm: str | None) -> None:
    values = [word(pid) for pid in range(7)] + [np.arange(9000.0).reshape(90, 100), np.array(3.5), b"\0" * 9999]

    def main(proc: bsp.Process) -> None:
        for root in range(proc.nprocs):
            for value in values:
                got = proc.broadcast(value if proc.pid == root else "ignored", root=root, algorithm=algorithm)
                assert same(got, value)

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("algorithm", ROOTED)
def test_gather_and_scatter_are_inverse_and_in_pid_order(run: Any, nprocs: int, algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> None:
        for root in {0, proc.nprocs // 2, proc.nprocs - 1}:
            everything = proc.gather(word(proc.pid), root=root, algorithm=algorithm)
            if proc.pid == root:
                assert same(everything, [word(pid) for pid in range(proc.nprocs)])
            else:
                assert everything is None
            assert same(proc.scatter(everything, root=root, algorithm=algorithm), word(proc.pid))

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "doubling"])
def test_allgather_lists_everyones_value(run: Any, nprocs: int, algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> None:
        assert same(proc.allgather(word(proc.pid), algorithm=algorithm), [word(pid) for pid in range(proc.nprocs)])

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "logarithmic"])
def test_alltoall_transposes(run: Any, nprocs: int, algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> None:
        p = proc.nprocs
        got = proc.alltoall([(proc.pid, dest, word(dest)) for dest in range(p)], algorithm=algorithm)
        assert [item[:2] for item in got] == [(source, proc.pid) for source in range(p)]
        assert all(same(item[2], word(proc.pid)) for item in got)
        rows = np.arange(p * 3).reshape(p, 3) + 100 * proc.pid
        turned = proc.total_exchange(rows, algorithm=algorithm)
        assert np.array_equal(turned, [np.arange(3) + 3 * proc.pid + 100 * source for source in range(p)])
        counts = [(proc.pid + dest) % 3 for dest in range(p)]
        keys = np.repeat(np.arange(p), counts) * 1000 + proc.pid
        received, by_source = proc.total_exchange(keys, counts, algorithm=algorithm)
        assert by_source == [(source + proc.pid) % 3 for source in range(p)]
        assert received.tolist() == [proc.pid * 1000 + s for s in range(p) for _ in range((s + proc.pid) % 3)]

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase"])
def test_scan_and_exscan_combine_those_before(run: Any, nprocs: int, algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> None:
        mine = np.array([proc.pid + 1, -proc.pid, 2])
        upto = [np.array([k + 1, -k, 2]) for k in range(proc.nprocs)]
        assert proc.scan(mine, algorithm=algorithm).tolist() == sum(upto[: proc.pid + 1]).tolist()
        before = proc.exscan(mine, algorithm=algorithm)
        assert before.dtype == mine.dtype
        assert before.tolist() == (sum(upto[: proc.pid]).tolist() if proc.pid else [0, 0, 0])
        largest = proc.exscan(mine, op="max", algorithm=algorithm)
        if proc.pid == 0:
            assert largest is None  # min and max have no identity
        else:
            assert largest.tolist() == np.max(upto[: proc.pid], axis=0).tolist()

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_reductions_keep_the_type_of_their_input(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        p = proc.nprocs
        for value in (3, 2.5, 1 + 2j, np.float32(1.5), np.int16(3), np.float64(2), 10**30):
            total = proc.allreduce(value)
            assert type(total) is type(value) and total == value * p
        small = proc.allreduce(np.full(3, 2, np.int8))
        assert small.dtype == np.int8 and small.tolist() == [2 * p] * 3
        assert proc.allreduce(np.array(2.0)).shape == ()
        assert proc.allreduce("ab") == "ab" * p
        assert proc.allreduce([proc.pid]) == list(range(p))
        assert proc.allreduce(proc.pid, op="max") == p - 1 == proc.allreduce(proc.pid, op=max)
        assert proc.allreduce(proc.pid, op=np.minimum) == 0
        assert proc.allreduce(proc.pid + 1, op="multiply") == functools.reduce(operator.mul, range(1, p + 1))
        assert proc.allreduce(True, op="logical_and") is True
        assert proc.allreduce(1 << proc.pid, op="or") == (1 << p) - 1
        assert proc.allreduce((proc.pid, "x"), op=lambda a, b: (a[0] + b[0], a[1])) == (p * (p - 1) // 2, "x")
        assert proc.exscan(1.5) == 1.5 * proc.pid and type(proc.exscan(1.5)) is float
        assert proc.exscan("a") == ("a" * proc.pid if proc.pid else None)
        assert proc.exscan(3, op="or") == (3 if proc.pid else 0)
        masked = proc.allreduce(np.ma.masked_array([1.0, 2.0], [False, True]))
        assert isinstance(masked, np.ma.MaskedArray) and masked.mask.tolist() == [False, True]

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
@pytest.mark.parametrize("op", ["max", "min", np.maximum, max])
def test_no_order_of_processes_hides_a_nan_among_floats(run: Any, nprocs: int, op: Any) -> None:
    def main(proc: Any) -> Any:
        found = []
        for where in range(nprocs):
            mine = math.nan if proc.pid == where else 1.0
            found += [proc.allreduce(mine, op), proc.allreduce(np.array([mine]), op)[0], proc.scan(mine, op)]
        return found

    for pid, found in enumerate(run(main, nprocs=nprocs)):
        expected = [[math.nan, math.nan, math.nan if where <= pid else 1.0] for where in range(nprocs)]
        np.testing.assert_array_equal(found, np.ravel(expected))


@pytest.mark.parametrize("nprocs", [2, 3])
@pytest.mark.parametrize(("first", "other"), [(np.int64(1), 2.5), (np.int64(1), 1j), (np.int8(1), np.float32(0.5))])
def test_numpys_numbers_of_unlike_types_are_promoted_as_numpy_does(
    run: Any, nprocs: int, first: Any, other: Any
) -> None:
    def main(proc: Any) -> Any:
        return proc.allreduce(first if proc.pid == 0 else other), proc.allreduce(other if proc.pid == 0 else first)

    for here, there in run(main, nprocs=nprocs):
        assert here == first + other * (nprocs - 1)
        assert there == other + first * (nprocs - 1)


@pytest.mark.parametrize("nprocs", [4, 6, 9])
def test_groups_work_side_by_side_and_the_superstep_stays_global(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> int:
        odd = proc.pid % 2
        group = list(range(odd, proc.nprocs, 2))[:: 1 if odd else -1]  # one of them in falling order
        for algorithm in (None, "one-phase", "tree-2", "tree-4"):
            assert proc.allreduce(proc.pid, group=group, algorithm=algorithm) == sum(group)
            value = np.full(proc.pid + 1, 1.0 * proc.pid)
            got = proc.broadcast(value, root=group[1], group=group, algorithm=algorithm)
            assert got.tolist() == [group[1]] * (group[1] + 1)
            everything = proc.gather(proc.pid, root=group[-1], group=group, algorithm=algorithm)
            assert everything == (group if proc.pid == group[-1] else None)
            mine = proc.scatter(
                group if proc.pid == group[0] else None, root=group[0], group=group, algorithm=algorithm
            )
            assert mine == proc.pid
        assert proc.allgather(proc.pid, group=group) == group
        assert proc.allgather(proc.pid, group=group, algorithm="doubling") == group
        turned = [(pid, proc.pid) for pid in group]
        for algorithm in ("one-phase", "logarithmic"):
            assert proc.alltoall([(proc.pid, pid) for pid in group], group=group, algorithm=algorithm) == turned
        assert proc.scan(1, group=group) == group.index(proc.pid) + 1
        return proc.superstep

    assert len(set(run(main, nprocs=nprocs))) == 1


@pytest.mark.parametrize("nprocs", [3, 5])
@pytest.mark.parametrize("algorithm", [None, "one-phase", "tree-2"])
def test_processes_outside_the_group_call_too_and_get_none(run: Any, nprocs: int, algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> None:
        inside = proc.pid in (2, 0)
        results = [
            proc.broadcast(proc.pid, root=2, group=[2, 0], algorithm=algorithm),
            proc.allreduce(proc.pid, group=[2, 0], algorithm=algorithm),
            proc.reduce(proc.pid, root=0, group=[2, 0], algorithm=algorithm),
            proc.gather(proc.pid, root=0, group=[2, 0], algorithm=algorithm),
            proc.scatter([5, 6] if proc.pid == 0 else None, root=0, group=[2, 0], algorithm=algorithm),
            proc.allgather(proc.pid, group=[2, 0]),
        ]
        if not inside:
            assert results == [None] * 6
        elif proc.pid == 0:
            assert results == [2, 2, 2, [2, 0], 6, [2, 0]]
        else:
            assert results == [2, 2, None, None, 5, [2, 0]]

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_transfer_moves_a_value_to_whoever_expects_it(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        p = proc.nprocs
        moved = proc.transfer(proc.pid, to=(proc.pid + 1) % p, expect=True)
        assert moved == (proc.pid - 1) % p
        one = proc.transfer(
            np.arange(3) if proc.pid == 0 else None, to=p - 1 if proc.pid == 0 else None, expect=proc.pid == p - 1
        )
        assert (one.tolist() == [0, 1, 2]) if proc.pid == p - 1 else one is None
        assert proc.transfer() is None

    run(main, nprocs=nprocs)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("two senders", r"processes 0, 1 all send to process 2"),
        ("not expected", r"process 0 sends at test_collectives.py:\d+ to process 2, which expects nothing at"),
        ("not sent", r"process 2 expects a value at test_collectives.py:\d+, and no process sends"),
    ],
)
def test_transfer_checks_its_rules(run: Any, rule: str, message: str) -> None:
    def main(proc: bsp.Process) -> None:
        sends = {"two senders": (0, 1), "not expected": (0,), "not sent": ()}[rule]
        proc.transfer(1, to=2 if proc.pid in sends else None, expect=proc.pid == 2 and rule != "not expected")
        with pytest.raises(bsp.TransferMismatch, match=message):
            proc.sync()  # the receiver has told; every other process hears it here

    with pytest.raises(bsp.TransferMismatch, match=message):
        run(main, nprocs=3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda proc: proc.allreduce(np.ones(2 + proc.pid % 2)),
        lambda proc: proc.allreduce(np.ones(2, np.float32 if proc.pid else np.float64)),
        lambda proc: proc.broadcast(1, root=proc.pid),
        lambda proc: proc.allreduce(1, op="add" if proc.pid else "max"),
        lambda proc: proc.allreduce(1, algorithm="tree-2" if proc.pid else "one-phase"),
    ],
)
def test_arguments_that_must_agree_and_do_not_are_a_mismatch_everywhere(run: Any, wrong: Any) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(bsp.SyncMismatch, match=r"process 0 waits in .* at test_collectives.py"):
            wrong(proc)

    with pytest.raises(bsp.SyncMismatch):
        run(main, nprocs=3)


def test_a_root_is_the_same_as_an_integer_of_any_kind(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        root = [1, np.int64(1), np.uint8(1)][proc.pid]
        assert proc.broadcast(proc.pid, root) == 1
        assert proc.scatter([7, 8, 9] if proc.pid == 1 else None, root) == 7 + proc.pid
        assert proc.reduce(proc.pid, root=root) == (3 if proc.pid == 1 else None)
        assert proc.gather(proc.pid, root) == ([0, 1, 2] if proc.pid == 1 else None)

    run(main, nprocs=3)


@pytest.mark.parametrize("algorithm", ROOTED)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda proc, **how: proc.broadcast(7, root=proc.pid % 2, group=[0, 1, 2], **how),
        lambda proc, **how: proc.broadcast(7, root=0, group=[0, 1] if proc.pid < 2 else [0, 1, 2], **how),
        lambda proc, **how: proc.scatter([7, 8, 9], root=proc.pid % 2, group=[0, 1, 2], **how),
        lambda proc, **how: proc.scatter([7, 8], root=0, group=[0, 1] if proc.pid < 2 else [0, 2], **how),
        lambda proc, **how: proc.reduce(7, root=proc.pid % 2, group=[0, 1, 2], **how),
        lambda proc, **how: proc.reduce(7, root=min(proc.pid, 1), group=[0, 1] if proc.pid == 0 else [1, 2], **how),
        lambda proc, **how: proc.gather(7, root=proc.pid % 2, group=[0, 1, 2], **how),
        lambda proc, **how: proc.allreduce(np.ones(1 + proc.pid % 2), group=[0, 1, 2], **how),
        lambda proc, **how: proc.allreduce(np.ones(2, f"f{4 + 4 * (proc.pid % 2)}"), group=[0, 1, 2], **how),
        lambda proc, **how: proc.allreduce(np.ones(2) if proc.pid else 1.0, group=[0, 1, 2], **how),
    ],
)
def test_members_of_a_group_that_do_not_agree_are_a_mismatch(run: Any, wrong: Any, algorithm: str | None) -> None:
    with pytest.raises(bsp.SyncMismatch, match="must name the same group and root"):
        run(lambda proc: wrong(proc, algorithm=algorithm), nprocs=3)


def test_a_mismatch_tells_which_processes_make_the_call_of_a_group(run: Any) -> None:
    with pytest.raises(
        bsp.SyncMismatch, match=r"process 0 waits in gather of a group at .* process 1 waits in gather\(root=0\)"
    ):
        run(lambda proc: proc.gather(1, group=None if proc.pid else [0]), nprocs=2)


@pytest.mark.parametrize("name", ["reduce", "allreduce", "scan", "exscan"])
@pytest.mark.parametrize("algorithm", ["one-phase", "two-phase"])
def test_values_that_do_not_combine_are_one_error_that_names_the_call(run: Any, name: str, algorithm: str) -> None:
    def main(proc: bsp.Process) -> None:
        getattr(proc, name)(np.array([b"a", b"b", b"c"]), "min", algorithm=algorithm)

    with pytest.raises(
        bsp.ShapeError, match=rf"{name}\(\|S1\[3\], op='min'.*: the values do not combine: .* process \d"
    ):
        run(main, nprocs=3)


@pytest.mark.parametrize("columns", [1, 2])
def test_rows_of_different_shapes_are_a_mistake_that_names_two_processes(run: Any, columns: int) -> None:
    """Rows of one column would broadcast to three."""

    def main(proc: bsp.Process) -> None:
        proc.total_exchange(np.ones((3, 3 if proc.pid else columns)))

    told = rf"rows of shape \({columns},\) from process 0 and \(3,\) from process 1: the rows of all processes have one"
    with pytest.raises(bsp.ShapeError, match=told):
        run(main, nprocs=3)


def test_mistakes_of_one_process_raise_there(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        for mistake, error in (
            (lambda: proc.broadcast(1, root=5), bsp.NoSuchProcess),
            (lambda: proc.broadcast(1, root=-1), bsp.NoSuchProcess),
            (
                lambda: proc.reduce(1, root=0, group=[1]) if proc.pid else proc.reduce(1, root=1, group=[0]),
                bsp.NoSuchProcess,
            ),
            (lambda: proc.allreduce(1, group=[0, 7]), bsp.NoSuchProcess),
            (lambda: proc.allreduce(1, group=[0, 0]), bsp.NoSuchProcess),
            (lambda: proc.allreduce(1, group=[]), bsp.NoSuchProcess),
            (lambda: proc.allreduce(1, group=[0.5, 1]), bsp.NoSuchProcess),
            (lambda: proc.allreduce(1, group=["0", "1"]), bsp.NoSuchProcess),
            (lambda: proc.allreduce(1, group=[True, False]), bsp.NoSuchProcess),
            (lambda: proc.broadcast(1, root=0.0), bsp.NoSuchProcess),
            (lambda: proc.allreduce(1, op="plus"), bsp.UnknownOperation),
            (lambda: proc.allreduce(1, op=7), bsp.UnknownOperation),
            (lambda: proc.allreduce(1, op=np.exp), bsp.UnknownOperation),
            (lambda: proc.allreduce(np.array([3, 4]), op=np.hypot), bsp.UnknownOperation),
            (lambda: proc.scan(np.int64(3), op=np.logaddexp), bsp.UnknownOperation),
            (lambda: proc.reduce(np.array(["ab"])), bsp.UnknownOperation),
            (lambda: proc.allreduce(np.array([b"ab"]), group=[1, 0]), bsp.UnknownOperation),
            (lambda: proc.allreduce(1, algorithm="magic"), bsp.UnknownAlgorithm),
            (lambda: proc.scatter([1], root=proc.pid), bsp.ShapeError),
            (lambda: proc.alltoall([1]), bsp.ShapeError),
            (lambda: proc.alltoall({0: "a", 1: "b"}), bsp.ShapeError),
            (lambda: proc.alltoall({"a", "b"}), bsp.ShapeError),
            (lambda: proc.alltoall(value for value in "ab"), bsp.ShapeError),
            (lambda: proc.alltoall(np.array(1)), bsp.ShapeError),
            (lambda: proc.total_exchange(3), bsp.ShapeError),
            (lambda: proc.scatter({0: "a", 1: "b"}, root=proc.pid), bsp.ShapeError),
            (lambda: proc.scatter((value for value in "ab"), root=proc.pid), bsp.ShapeError),
            (lambda: proc.allreduce(1, group=0), bsp.NoSuchProcess),
            (lambda: proc.total_exchange(np.ones(2), 1), bsp.ShapeError),
            (lambda: proc.total_exchange(np.ones(5), [1, 1]), bsp.ShapeError),
            (lambda: proc.total_exchange(np.ones(2), [3, -1]), bsp.ShapeError),
            (lambda: proc.total_exchange(np.ones(2), [1.5, 1.5]), bsp.ShapeError),
            (lambda: proc.total_exchange([1, 2], [2, 0]), TypeError),
            (lambda: proc.allgather(lambda: 0), bsp.CannotSend),
            (lambda: proc.transfer(1, to=2), bsp.NoSuchProcess),
        ):
            with pytest.raises(error):
                mistake()
        proc.sync()

    run(main, nprocs=2)


def test_a_total_exchange_of_rows_does_not_meet_one_of_values(run: Any) -> None:
    with pytest.raises(bsp.SyncMismatch, match=r"0 waits in total_exchange at .* 1 waits in total_exchange of values"):
        run(lambda proc: proc.total_exchange([1, 2] if proc.pid else np.ones(2)), nprocs=2)


def test_a_reduction_of_which_the_type_of_the_values_is_too_narrow_is_refused_by_name(run: Any) -> None:
    with pytest.raises(bsp.UnknownOperation, match=r"op='hypot'\): hypot of int64 values gives float64, .* convert"):
        run(lambda proc: proc.allreduce(np.array([3, 4]), op=np.hypot), nprocs=2)
    # what fits, or wraps around as it does in NumPy, is not
    results = run(lambda proc: [proc.allreduce(np.array([100], kind), op) for kind, op in (
        (np.int8, np.add), (">f4", np.hypot), (int, np.greater), (bool, np.add), ("m8[s]", np.add),
    )], nprocs=2)  # fmt: skip
    assert [str(value) for value in results[0]] == ["[-56]", "[141.42136]", "[0]", "[ True]", "[200]"]


def test_the_choice_is_the_cheapest_by_the_machine() -> None:
    far = Machine(p=64, g=1.0, L=1e9, o=0.0)  # supersteps are dear: as few as can be
    near = Machine(p=64, g=1.0, L=1.0, o=1e6)  # messages are dear: as few as can be
    wide = Machine(p=64, g=1e3, L=1.0, o=0.0)  # words are dear: move each twice and no more
    machines = {"far": far, "near": near, "wide": wide}
    priced = {name: COLLECTIVES["broadcast"].prices(machine, 64, 1000, True) for name, machine in machines.items()}
    cheapest = {name: min(found, key=found.__getitem__) for name, found in priced.items()}
    assert cheapest["far"] == "one-phase"
    assert cheapest["near"] == "tree-2"
    assert cheapest["wide"] == "two-phase"
    assert priced["far"]["one-phase"] == 63 * 1000 + 1e9  # McColl 1.6.1: g(p - 1)n + L
    assert priced["near"]["tree-4"] == 3 * (3 * 1000 + 3 * 1e6 + 1)  # log_4 64 supersteps


@pytest.mark.parametrize("nprocs", [1, 2, 5, 8])
@pytest.mark.parametrize(
    ("call", "algorithm", "supersteps"),
    [
        ("broadcast", "one-phase", lambda p: 1),
        ("broadcast", "two-phase", lambda p: 2),
        ("broadcast", "tree-2", lambda p: max(1, (p - 1).bit_length())),
        ("allreduce", "one-phase", lambda p: 1),
        ("allreduce", "two-phase", lambda p: 2),
        ("allreduce", "tree-2", lambda p: 2 * max(1, (p - 1).bit_length())),
        ("reduce", "tree-4", lambda p: 1 if p <= 4 else 2),
    ],
)
def test_supersteps_are_those_of_the_cost_formula(
    run: Any, nprocs: int, call: str, algorithm: str, supersteps: Any
) -> None:
    def main(proc: bsp.Process) -> int:
        getattr(proc, call)(np.ones(100), algorithm=algorithm)
        return proc.superstep

    assert run(main, nprocs=nprocs) == [supersteps(nprocs)] * nprocs


@pytest.mark.parametrize("nprocs", [1, 2, 4])
def test_only_elementwise_operations_work_on_pieces(run: Any, nprocs: int) -> None:
    """A function sees whole arrays, however large they are: the choice of algorithm may not show."""

    def heavier(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a if a.sum() >= b.sum() else b

    def main(proc: bsp.Process) -> None:
        value = np.random.default_rng(proc.pid).random((120, 120))
        everything = proc.allgather(value)
        assert np.array_equal(proc.allreduce(value, op=heavier), max(everything, key=np.sum))
        product = (
            functools.reduce(np.matmul, everything)
            if proc.nprocs < 3
            else ((everything[0] @ everything[1]) @ (everything[2] @ everything[3]))
        )
        assert np.array_equal(proc.allreduce(value, op=np.matmul), product)
        with pytest.raises(bsp.UnknownAlgorithm):
            proc.allreduce(value, op=heavier, algorithm="two-phase")

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_a_dtype_is_kept_to_its_byte_order_and_padding_by_every_algorithm(run: Any, nprocs: int) -> None:
    padded = np.dtype({"names": ["a"], "formats": ["<f8"], "offsets": [4], "itemsize": 20})

    def main(proc: bsp.Process) -> None:
        for dtype in (np.dtype(">f8"), padded):
            value = np.zeros(999, dtype)
            for algorithm in ("one-phase", "two-phase", "tree-2"):
                assert proc.broadcast(value, algorithm=algorithm).dtype == dtype
                if dtype.names is None:
                    assert proc.allreduce(value, algorithm=algorithm).dtype == dtype
            turned, _ = proc.total_exchange(value, [999] + [0] * (proc.nprocs - 1))
            assert turned.dtype == dtype

    run(main, nprocs=nprocs)


def test_members_that_name_different_groups_are_a_mismatch_everywhere(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(bsp.SyncMismatch, match="must name the same group"):
            proc.gather(proc.pid, root=proc.pid, group=[0, 1] if proc.pid == 0 else [1])
            proc.sync()
        with pytest.raises(bsp.SyncMismatch, match="must name the same group"):
            proc.sync()  # B6: caught, the job is failed all the same

    with pytest.raises(bsp.SyncMismatch, match="process 1 sends nothing to process 0"):
        run(main, nprocs=2)


def test_a_caught_transfer_mismatch_leaves_the_job_failed(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(bsp.TransferMismatch):
            proc.transfer("x", to=1)
            proc.sync()
        with pytest.raises(bsp.TransferMismatch, match="all send to process 1"):
            proc.sync()

    with pytest.raises(bsp.TransferMismatch):
        run(main, nprocs=3)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_algorithm_that_has_a_price_runs_under_its_name_with_the_same_result(run: Any, name: str) -> None:
    algorithms = [each.name for each in COLLECTIVES[name].algorithms.values() if not each.by_hosts]
    assert len(algorithms) > 1

    def main(proc: bsp.Process) -> list[Any]:
        memory = np.arange(5.0 * 6).reshape(5, 6)
        return [flattened(call(proc, name, each, memory)) for each in [None, *algorithms]]

    for found in run(main, nprocs=5):
        assert all(each == found[0] for each in found)


ALL_ALGORITHMS = [
    *[("broadcast", name) for name in [*ROOTED, "two-phase"]],
    *[("gather", name) for name in ROOTED],
    *[("scatter", name) for name in ROOTED],
    *[("reduce", name) for name in [*ROOTED, "two-phase"]],
    *[("allreduce", name) for name in [*ROOTED, "two-phase"]],
    *[("scan", name) for name in [None, "one-phase", "two-phase"]],
    *[("exscan", name) for name in [None, "one-phase", "two-phase"]],
    *[("allgather", name) for name in [None, "one-phase", "doubling"]],
    *[("alltoall", name) for name in [None, "one-phase", "logarithmic"]],
    *[("total_exchange", name) for name in [None, "one-phase", "logarithmic"]],
    ("transfer", None),
]


@pytest.mark.parametrize("nprocs", [1, 2, 5, 12])
@pytest.mark.parametrize(("name", "algorithm"), ALL_ALGORITHMS)
def test_a_collective_takes_its_argument_as_it_stood_at_the_call(
    run: Any, nprocs: int, name: str, algorithm: str | None
) -> None:
    """B1: puts that were pending take effect at its first superstep; after the call the argument is the caller's."""

    def main(proc: bsp.Process) -> Any:
        p = proc.nprocs
        x = proc.coarray((p, 3))
        x.local[:] = np.arange(p * 3).reshape(p, 3) + 1000 * proc.pid
        proc.sync()
        kept = x.local.copy()
        expected = flattened(call(proc, name, algorithm, kept))
        for dest in range(p):
            x.put(dest, -1.0 - proc.pid)
        got = call(proc, name, algorithm, x.local)
        assert (x.local == -float(p)).all()
        x.local[:] = np.nan  # a result that shares memory with its argument would show it
        kept[:] = np.nan
        assert flattened(got) == expected
        return expected

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 4])
@pytest.mark.parametrize(("name", "algorithm"), ALL_ALGORITHMS)
def test_a_large_result_belongs_to_its_process_alone(run: Any, nprocs: int, name: str, algorithm: str | None) -> None:
    """D9: processes that go on first may change what they have got before others here have theirs."""
    run(lambda proc: check_that_its_result_is_its_own(proc, name, algorithm), nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [28, 64])
def test_collectives_of_a_wide_world_take_their_arguments_as_they_stood_at_the_call(run: Any, nprocs: int) -> None:
    """The algorithms that are chosen for many processes take several supersteps."""

    def main(proc: bsp.Process) -> None:
        p = proc.nprocs
        x = proc.coarray(1)
        x.local[:] = proc.pid
        proc.sync()
        for collective in (proc.allgather, proc.gather, lambda mine: proc.alltoall([mine] * p)):
            x.local[:] = proc.pid
            x.put((proc.pid + 1) % p, -1.0)
            seen = collective(x.local)
            if seen is not None:
                assert [int(part[0]) for part in seen] == list(range(p))
            assert x.local[0] == -1.0

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 8])
@pytest.mark.parametrize("algorithm", [None, "tree-2"])
def test_the_type_of_a_reduction_does_not_depend_on_how_many_processes_there_are(
    run: Any, nprocs: int, algorithm: str | None
) -> None:
    """A single value is reduced too: a sum of truths is a count, a conjunction of numbers a truth."""

    def main(proc: bsp.Process) -> None:
        p, me = proc.nprocs, proc.pid
        for value, op, expected in [
            (True, "add", p), (True, "multiply", 1), (True, "max", True), (True, "and", True),
            (3, "logical_and", True), (0, "logical_or", False), (3, "add", 3 * p), (-0.0, "add", -0.0),
            (np.bool_(True), "add", np.bool_(True)), (np.int64(3), "logical_and", np.int64(1)),
            (12, np.gcd, 12), (0.5, np.fmax, 0.5), (True, np.logical_xor, p % 2 == 1), (3, np.logical_xor, p % 2 == 1),
        ]:  # fmt: skip
            got = proc.allreduce(value, op, algorithm=algorithm)
            assert (type(got), repr(got)) == (type(expected), repr(expected))
        assert proc.allreduce(np.array([3, 0]), "logical_or", algorithm=algorithm).tolist() == [1, 0]
        assert [repr(proc.scan(True)), repr(proc.exscan(True))] == [repr(me + 1), repr(me)]
        assert repr(proc.exscan(2, "logical_or")) == repr(me > 0)
        assert repr(proc.scan(True, np.logical_xor)) == repr(me % 2 == 0)
        assert proc.allreduce(np.array([3, 0]), np.logical_xor, algorithm=algorithm).tolist() == [p % 2, 0]
        assert repr(proc.exscan(np.timedelta64(3, "s"))) == repr(np.timedelta64(3 * me, "s"))

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_a_function_is_called_for_two_values_only_whatever_its_name(run: Any, nprocs: int) -> None:
    def logical_clock(a: Any, b: Any) -> Any:
        return [*(a if isinstance(a, list) else [a]), b]

    def main(proc: bsp.Process) -> None:
        p = proc.nprocs
        for value in (5, True):
            assert proc.allreduce(value, logical_clock) == (value if p == 1 else [value] * p)
            assert proc.scan(value, logical_clock) == ([value] * (proc.pid + 1) if proc.pid else value)

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_functions_of_whole_sequences_mean_the_operation_of_two_values(run: Any, nprocs: int) -> None:
    """NumPy's take an axis as their second argument: np.max(-3, 0) is -3."""

    def main(proc: bsp.Process) -> None:
        everything = [-3, 0, 2][: proc.nprocs]
        mine = everything[proc.pid]
        for op in (sum, min, max, np.sum, np.prod, np.min, np.amin, np.max, np.amax):
            for value, several in ((mine, everything), (np.array([mine, 1]), [[k, 1] for k in everything])):
                expected = np.asarray(several)
                if op in (sum, min, max):
                    expected = functools.reduce({sum: np.add, min: np.minimum, max: np.maximum}[op], expected)
                else:
                    expected = op(expected, axis=0)
                assert np.array_equal(proc.allreduce(value, op), expected), op
        for op in (any, all, np.any, np.all):
            assert proc.allreduce(mine == 0, op) == op([k == 0 for k in everything])

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 8])
def test_calls_of_allreduce_after_the_first_are_like_the_first(run: Any, nprocs: int) -> None:
    """Later calls go a shorter way, whatever their values: numbers, objects of any size, values that do not combine."""

    def main(proc: bsp.Process) -> list[Any]:
        p, me = proc.nprocs, proc.pid
        given = [me, me + 0.5, 1j * me, np.float32(me), np.bool_(me == 1), [me], (me, "x" * 40_000), str(me) * 9, me]
        expected = [functools.reduce(operator.add, proc.allgather(x)) for x in given]
        seen = [[proc.allreduce(x) for x in given] for _ in range(2)]
        assert seen[0] == seen[1] == expected
        assert [type(x) for x in seen[0]] == [type(x) for x in seen[1]] == [type(x) for x in expected]
        shared = proc.allreduce([me])
        shared.append(me)  # each process has a list of its own
        assert proc.allreduce([me]) == [*range(p)]
        mine = proc.private()
        assert [mine.allreduce(1), mine.allreduce(1, "max"), mine.allreduce(2, "max")] == [p, 1, 2]
        with pytest.raises(bsp.CannotSend):
            proc.allreduce(lambda: 0)
        assert proc.plan().collective.chosen == "one-phase"
        if p > 1:
            with pytest.raises(bsp.ShapeError, match="do not combine"):
                proc.allreduce("text" if me else 1)
        return seen[0]

    assert all(found == run(main, nprocs=nprocs)[0] for found in run(main, nprocs=nprocs))


@pytest.mark.parametrize("nprocs", [1, 2, 3, 8])
def test_later_allreduces_of_arrays_are_like_the_first(run: Any, nprocs: int) -> None:
    """Small arrays of plain numbers go a shorter way; others of the same class do not."""

    def main(proc: bsp.Process) -> list[bytes]:
        me = proc.pid
        given = [
            np.arange(3.0) + me, np.full((2, 0), 1.0), np.array(me), np.asfortranarray(np.eye(3, 2) * me),
            np.arange(4.0, dtype=">f8"), np.arange(8)[::2] + me, np.array([Fraction(me, 3), 2], object),
            np.full(2, me, "c16"), np.arange(5000.0) * me, np.array([me > 0, True]), np.array(Fraction(me), object),
            np.full(3, me, "l"), np.full(3, me, "q"), np.full(3, me, "l"),
        ]  # fmt: skip
        expected = [functools.reduce(np.add, proc.allgather(x)) for x in given]
        seen = [[proc.allreduce(x) for x in given] for _ in range(3)]
        for found in seen:
            assert [type(x) for x in found] == [np.ndarray] * len(given)
            assert [(x.dtype.char, x.dtype, x.shape) for x in found] == [
                (x.dtype.char, x.dtype, x.shape) for x in given
            ]
            assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))
        own = proc.allreduce(given[0])
        own += me  # each process has an array of its own
        assert np.array_equal(proc.allreduce(given[0]), expected[0])
        assert np.array_equal(own, expected[0] + me)
        return [x.tobytes() for x in seen[2] if x.dtype != object]

    assert len({tuple(found) for found in run(main, nprocs=nprocs)}) == 1


def test_a_later_allreduce_of_other_things_is_a_mismatch(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        assert proc.allreduce(1) == 3
        assert proc.allreduce(1, "max") == 1
        with pytest.raises(bsp.SyncMismatch, match="process 0 waits in"):
            proc.allreduce(1, "add" if proc.pid else "max")

    with pytest.raises(bsp.SyncMismatch):
        run(main, nprocs=3)


def test_a_later_allreduce_delivers_what_was_put_before_it(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray((1,))
        for k in range(3):
            x.put((proc.pid + 1) % proc.nprocs, [float(k)])
            proc.send(0, k)
            assert proc.allreduce(1) == proc.nprocs
            assert x.local[0] == k
            assert [message.payload for message in proc.inbox] == [k] * (0 if proc.pid else proc.nprocs)

    run(main, nprocs=3)


@pytest.mark.solo
def test_numbers_of_256_processes_for_each_other_are_sent_at_once_on_the_default_machine() -> None:
    """A process would write and read 1,024 numbers in bundles; bundles had no price but that of a message."""

    def main(proc: bsp.Process) -> str:
        assert proc.alltoall([proc.pid] * proc.nprocs) == list(range(proc.nprocs))
        choice = proc.plan().collective
        assert choice is not None
        return choice.chosen

    assert set(bsp.run(main, nprocs=256)) == {"one-phase"}


BUNDLED = {("gather", "tree"), ("scatter", "tree"), ("allgather", "doubling"), ("alltoall", "logarithmic")}


@pytest.mark.solo
@pytest.mark.parametrize("nprocs", [1, 2, 3, 7, 8, 19])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_an_algorithm_takes_the_supersteps_and_words_of_its_costs(name: str, nprocs: int) -> None:
    """Counted in a run; pickled bundles of values have more words than the values, and no algorithm has fewer."""
    n = 4 * nprocs + 3
    memory = np.arange(float(nprocs * n)).reshape(nprocs, n)
    whole = nprocs * n if name == "scatter" else n
    for algorithm in COLLECTIVES[name].algorithms.values():
        if algorithm.by_hosts:  # see test_collectives_by_hosts.py
            continue
        costs = algorithm.costs(Sizes(Machine(), nprocs, whole, whole))

        def main(proc: bsp.Process, chosen: str = algorithm.name) -> None:
            call(proc, name, chosen, memory)

        rows = bsp.predict(main, nprocs=nprocs, elements=nprocs, machine=Machine()).per_superstep
        h = [max(row["h_sent"], row["h_received"]) for row in rows]
        assert len(rows) == sum(cost.S for cost in costs) == COLLECTIVES[name].supersteps(algorithm.name, nprocs)
        if (name, algorithm.name.partition("-")[0]) in BUNDLED:
            pickled = 300 * sum(row["messages"] for row in rows)
            assert sum(cost.H for cost in costs) <= sum(h) <= 2 * sum(cost.H for cost in costs) + pickled
        else:
            assert h == [cost.H for cost in costs], (algorithm.name, h)


@pytest.mark.solo
@pytest.mark.parametrize("nprocs", [3, 32, 64])
@pytest.mark.parametrize(
    ("name", "algorithm"),
    [(name, "one-phase") for name in ("broadcast", "gather", "scatter", "allgather", "alltoall")]
    + [("broadcast", "two-phase")],
)
def test_a_choice_is_priced_as_the_run_is_predicted(name: str, algorithm: str, nprocs: int) -> None:
    """Predictions on levels hold where nothing is combined or pickled, which takes time beside the words."""
    machine = to_machine(named("cluster16"))
    memory = np.ones((nprocs, 640))
    words = memory.size if name == "scatter" else 640
    priced = COLLECTIVES[name].prices(machine, nprocs, words, True)[algorithm]

    def main(proc: bsp.Process) -> None:
        call(proc, name, algorithm, memory)

    predicted = bsp.predict(main, nprocs=nprocs, elements=nprocs, machine=machine, abstract=True)
    assert priced / machine.r == pytest.approx(sum(row["seconds"] for row in predicted), rel=0.02)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("op", ["add", "logical_and", "min"])
@pytest.mark.parametrize("dtype", ["f8", "?", "i2", "g", "c16"])
def test_small_arrays_are_reduced_alike_in_every_call(run: Any, op: str, dtype: str, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        mine = (np.arange(6).reshape(2, 3) * (proc.pid + 1) % 5).astype(dtype)
        first = proc.allreduce(mine, op)
        for _ in range(3):
            found = proc.allreduce(mine, op)
            assert found.dtype == first.dtype and np.array_equal(found, first)  # the padding of `g` is arbitrary
            found += found  # it belongs to this process alone
        proc.sync()
        with np.errstate(over="raise"), contextlib.suppress(FloatingPointError):
            proc.allreduce(np.full(3, np.finfo(float).max))
            assert nprocs == 1, "an overflow is reported"

    run(main, nprocs=nprocs)


class TwoArguments(Exception):
    """An exception that pickle cannot make again from its `args`."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} {second}")


@pytest.mark.parametrize(
    "exchange",
    [
        lambda proc, value: proc.allgather(value),
        lambda proc, value: proc.broadcast(value),
        lambda proc, value: proc.alltoall([value] * proc.nprocs),
        lambda proc, value: (proc.send((proc.pid + 1) % proc.nprocs, value), proc.sync(), proc.inbox),
        lambda proc, value: proc.allreduce(value, max),
        lambda proc, value: proc.scan(value),
    ],
    ids=["allgather", "broadcast", "alltoall", "send", "allreduce", "scan"],
)
def test_a_value_that_cannot_be_read_back_is_told_with_where_it_comes_from(
    run: Any, exchange: Callable[[bsp.Process, Any], Any]
) -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'second'") as caught:
            exchange(proc, TwoArguments(1, 2))
        assert [note.split(":")[0] for note in caught.value.__notes__] == [
            "Another process sent this as a pickle that cannot be read back"
        ]

    run(main, nprocs=3)
