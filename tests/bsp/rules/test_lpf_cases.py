"""The functional and debug tests of LPF (Suijlen, Yzelman), case by case, as claims about this runtime.

Each docstring names the original.  "Ours" marks where we differ on purpose: reads and writes of one superstep
may overlap (gets first, then puts by source pid and issue order), nothing has a capacity that must be
resized, and what LPF's debug layer aborts on is an exception.  Puts and gets run with blocks of 2048 words, as
there, so that conflicts concern blocks; one pattern runs with blocks that travel on their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests_run import PROCESSES, SEVERAL, told_to_all

import bsp
from bsp.transport.schedules import CHOICES

WORDS = 2048
BIG = 40_000  # words; more than fits a control packet
SCHEDULES = CHOICES


def refusal(call: Callable[[], Any]) -> tuple[str, str]:
    """The name and the text of what a call raises; ('', '') if it does not."""
    try:
        call()
    except (bsp.BspError, TypeError) as error:
        return type(error).__name__, str(error)
    return "", ""


def block(pid: int, words: int = WORDS) -> np.ndarray:
    """What process `pid` writes: every word tells its writer and its place."""
    return pid * 1e6 + np.arange(words)


# -------------------------------------------------------------------------------- patterns of puts


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_puts_around_a_ring(run: Any, nprocs: int, schedule: str) -> None:
    """LPF put_parallel ring: by every schedule of the exchange, to the right and to the left at once."""

    def main(proc: bsp.Process) -> bool:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray((2, WORDS))
        proc.sync()
        x.put((s + 1) % p, block(s), at=0)
        x.put((s - 1) % p, block(s), at=1)
        proc.sync()
        return np.array_equal(x.local, [block((s - 1) % p), block((s + 1) % p)])

    assert run(main, nprocs=nprocs, schedule=schedule) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("buffered", [True, False])
def test_puts_from_all_to_all(run: Any, nprocs: int, schedule: str, buffered: bool) -> None:
    """LPF put_parallel alltoall."""

    def main(proc: bsp.Process) -> bool:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray((p, WORDS))
        values = [block(s) + dest / 16 for dest in range(p)]
        proc.sync()
        for dest in range(p):
            x.put(dest, values[dest], at=s, buffered=buffered)
        proc.sync()
        return np.array_equal(x.local, [block(source) + s / 16 for source in range(p)])

    assert run(main, nprocs=nprocs, schedule=schedule) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("words", [WORDS, BIG])
def test_completely_overlapping_puts_end_with_the_highest_pid(run: Any, nprocs: int, schedule: str, words: int) -> None:
    """LPF put_parallel_overlapping_complete.  Ours: not some serialisation but one, by every schedule (D1)."""

    def main(proc: bsp.Process) -> bool:
        x = proc.coarray(words)
        proc.sync()
        for dest in range(proc.nprocs):
            x.put(dest, block(proc.pid, words))
        proc.sync()
        return np.array_equal(x.local, block(proc.nprocs - 1, words))

    assert run(main, nprocs=nprocs, schedule=schedule) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("upside_down", [False, True])
@pytest.mark.parametrize("buffered", [True, False])
def test_puts_that_overlap_as_a_pyramid(
    run: Any, nprocs: int, schedule: str, upside_down: bool, buffered: bool
) -> None:
    """LPF put_parallel_overlapping_pyramid: steps of 2048 words, the widest block from pid 0 or from pid p - 1."""

    def main(proc: bsp.Process) -> list[list[float]]:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray(2 * p * WORDS, fill=-1)
        proc.sync()
        edge = (p - 1 - s if upside_down else s) * WORDS
        values = np.full(2 * p * WORDS - 2 * edge, float(s))
        for dest in range(p):
            x.put(dest, values, at=slice(edge, 2 * p * WORDS - edge), buffered=buffered)
        proc.sync()
        steps = x.local.reshape(2 * p, WORDS)
        return [[step.min(), step.max()] for step in steps]

    steps = [nprocs - 1] * 2 * nprocs if upside_down else [min(k, 2 * nprocs - 1 - k) for k in range(2 * nprocs)]
    assert run(main, nprocs=nprocs, schedule=schedule) == [[[k, k] for k in steps]] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("leftwards", [False, True])
def test_puts_that_overlap_as_rooftiles(run: Any, nprocs: int, schedule: str, leftwards: bool) -> None:
    """LPF put_parallel_overlapping_rooftiling: tiles of 2 x 2048 words, every second step covered twice."""

    def main(proc: bsp.Process) -> list[list[float]]:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray((p + 1) * WORDS, fill=-1)
        proc.sync()
        tile = (p - 1 - s if leftwards else s) * WORDS
        for dest in range(p):
            x.put(dest, np.full(2 * WORDS, float(s)), at=slice(tile, tile + 2 * WORDS))
        proc.sync()
        return [[step.min(), step.max()] for step in x.local.reshape(p + 1, WORDS)]

    tiles = [*range(nprocs), nprocs - 1]
    if leftwards:
        tiles = [nprocs - 1, *reversed(range(nprocs))]
    assert run(main, nprocs=nprocs, schedule=schedule) == [[[k, k] for k in tiles]] * nprocs


# -------------------------------------------------------------------------------- patterns of gets


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [WORDS, BIG])
def test_gets_around_a_ring(run: Any, nprocs: int, words: int) -> None:
    """LPF get_parallel ring."""

    def main(proc: bsp.Process) -> bool:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray(words)
        x.local[:] = block(s, words)
        left, right = x.get((s - 1) % p), x.get((s + 1) % p)
        proc.sync()
        return np.array_equal([left.value, right.value], [block((s - 1) % p, words), block((s + 1) % p, words)])

    assert run(main, nprocs=nprocs) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gets_from_all_to_all(run: Any, nprocs: int, schedule: str) -> None:
    """LPF get_parallel alltoall: row s of everybody's matrix, large and small pieces mixed."""

    def main(proc: bsp.Process) -> bool:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray((p, BIG // 4))
        x.local[:] = [block(s, BIG // 4) + row / 16 for row in range(p)]
        proc.sync()
        rows = [x[source, s] for source in range(p)]
        words = [x[source, (s, source)] for source in range(p)]
        proc.sync()
        right = all(np.array_equal(row.value, block(source, BIG // 4) + s / 16) for source, row in enumerate(rows))
        return right and [word.value for word in words] == [source * 1e6 + source + s / 16 for source in range(p)]

    assert run(main, nprocs=nprocs, schedule=schedule) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("shape", ["complete", "pyramid", "rooftiling"])
def test_overlapping_gets_do_not_disturb_each_other(run: Any, nprocs: int, shape: str) -> None:
    """LPF get_parallel_overlapping_complete, _pyramid, _rooftiling: everybody reads pid 0's memory."""

    def extent(s: int) -> slice:
        return {
            "complete": slice(0, 2 * nprocs * WORDS),
            "pyramid": slice(s * WORDS, (2 * nprocs - s) * WORDS),
            "rooftiling": slice(s * WORDS, (s + 2) * WORDS),
        }[shape]

    def main(proc: bsp.Process) -> bool:
        x = proc.coarray(2 * proc.nprocs * WORDS)
        x.local[:] = block(proc.pid, x.local.size)
        proc.sync()
        got = x.get(0, extent(proc.pid))
        proc.sync()
        return np.array_equal(got.value, block(0, 2 * proc.nprocs * WORDS)[extent(proc.pid)])

    assert run(main, nprocs=nprocs) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("words", [WORDS, BIG])
def test_gets_and_puts_of_the_same_block_swap_cleanly(run: Any, nprocs: int, schedule: str, words: int) -> None:
    """LPF put_and_get_overlapping (illegal there, legal in BSPlib).  Ours: all gets read before any put lands (D1)."""

    def main(proc: bsp.Process) -> bool:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray(words)
        x.local[:] = block(s, words)
        proc.sync()
        got = x.get((s + 1) % p)
        x.put((s + 1) % p, x.local, buffered=False)
        half = x.get((s + 2) % p, slice(words // 2, None))
        proc.sync()
        return (
            np.array_equal(got.value, block((s + 1) % p, words))
            and np.array_equal(half.value, block((s + 2) % p, words)[words // 2 :])
            and np.array_equal(x.local, block((s - 1) % p, words))
        )

    assert run(main, nprocs=nprocs, schedule=schedule) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_larger_than_a_packet_arrive_whole(run: Any, nprocs: int, schedule: str) -> None:
    """LPF put_parallel_big, get_parallel_big (-max-mpi-msg-size 500): large and tiny in one superstep, ragged."""

    def main(proc: bsp.Process) -> bool:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray((p, 2 * BIG))
        proc.sync()
        for dest in range(p):
            size = 2 * BIG if (s + dest) % 2 else 3 + s
            x.put(dest, block(s, size) + dest / 16, at=(s, slice(0, size)))
        proc.sync()
        for source in range(p):
            size = 2 * BIG if (s + source) % 2 else 3 + source
            if not np.array_equal(x.local[source, :size], block(source, size) + s / 16) or x.local[source, size:].any():
                return False
        return True

    assert run(main, nprocs=nprocs, schedule=schedule) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_big_block_between_small_ones_on_the_same_words_keeps_its_turn(run: Any, nprocs: int) -> None:
    """After LPF put_parallel_big: what travels apart from its packet is still applied in issue order."""

    def main(proc: bsp.Process) -> tuple[list[float], float]:
        x = proc.coarray(BIG, fill=-1)
        proc.sync()
        x.put(0, [0.25] * 3, at=slice(0, 3))
        x.put(0, np.full(BIG - 1, float(proc.pid)), at=slice(1, None), buffered=False)
        x.put(0, 0.75, at=2)
        x.put_each([0, 0], [3, 3], [0.5, 1000.0 + proc.pid])
        proc.sync()
        return x.local[:5].tolist(), x.local[5:].max()

    last = nprocs - 1.0
    results = run(main, nprocs=nprocs)
    assert results[0] == ([0.25, last, 0.75, 1000 + last, last], last)
    assert results[1:] == [([-1.0] * 5, -1.0)] * (nprocs - 1)


# -------------------------------------------------------------------------------------- BSPlib on LPF


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_one_remote_word_may_be_got_twice(run: Any, nprocs: int) -> None:
    """LPF bsplib_get_twice_on_same_remote."""

    def main(proc: bsp.Process) -> tuple[float, float, list[float], bool]:
        x = proc.coarray(2, fill=1 + proc.pid)
        right = (proc.pid + 1) % proc.nprocs
        first, second, each = x[right, 0], x[right, 0], x.get_each([right] * 3, [0, 0, 1])
        whole, again = x[right], x[right]
        proc.sync()
        whole.value[:] = -1
        return first.value, second.value, each.value.tolist(), bool((again.value == first.value).all())

    expected = [float((s + 1) % nprocs + 1) for s in range(nprocs)]
    assert run(main, nprocs=nprocs) == [(k, k, [k] * 3, True) for k in expected]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_get_and_a_put_may_share_the_remote_or_the_local_word(run: Any, nprocs: int) -> None:
    """LPF bsplib_getput_same_remote, bsplib_getput_same_dest, bsplib_getput_zero_bytes."""

    def main(proc: bsp.Process) -> tuple[list[int], list[int]]:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray(2, dtype=int)
        x.local[:] = 10 + s, 20 + s
        proc.sync()
        right = (s + 1) % p
        same_remote, mine = x.get(right, 0), x.get(s, 0)
        x.put(right, 30 + s, at=0)
        x.put(s, [], at=slice(1, 1))
        nothing = x.get(right, slice(2, 2))
        proc.sync()
        return x.local.tolist(), [same_remote.value, mine.value, nothing.value.size]

    for s, (held, got) in enumerate(run(main, nprocs=nprocs)):
        assert held == [30 + (s - 1) % nprocs, 20 + s]
        assert got == [10 + (s + 1) % nprocs, 10 + s, 0]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_an_empty_put_or_get_has_no_effect_but_is_checked(run: Any, nprocs: int) -> None:
    """LPF bsplib_put_zero_bytes, bsplib_get_zero_bytes (checks skipped in BSPlib).  Ours: an address is an address."""

    def main(proc: bsp.Process) -> tuple[list[str], list[float], list[int]]:
        x = proc.coarray(3, fill=5)
        proc.sync()
        right = (proc.pid + 1) % proc.nprocs
        x.put(right, [], at=slice(3, 3))
        x.put(right, np.empty(0), at=[])
        x.put(right, 9.0, at=slice(2, 1))
        x.put_each([], [], [])
        got = [x.get(right, slice(3, 3)), x.get(right, []), x.get_each([], [])]
        refused = [
            refusal(lambda: x.put(proc.nprocs, [], at=slice(0, 0)))[0],
            refusal(lambda: x.put(right, [], at=slice(4, 4)))[0],
            refusal(lambda: x.get(-1, slice(0, 0)))[0],
            refusal(lambda: x.get(right, slice(4, 4)))[0],
        ]
        proc.sync()
        return refused, x.local.tolist(), [part.value.size for part in got]

    refused = ["NoSuchProcess", "PutOutOfRange", "NoSuchProcess", "GetOutOfRange"]
    assert run(main, nprocs=nprocs) == [(refused, [5.0] * 3, [0, 0, 0])] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("registered_now", [True, False])
def test_no_get_has_its_value_before_the_boundary_not_even_an_empty_one(
    run: Any, nprocs: int, registered_now: bool
) -> None:
    """LPF get, bsplib_get_zero_bytes: a destination may not be looked at until the sync has passed."""

    def main(proc: bsp.Process) -> tuple[list[bool], list[str], list[bool]]:
        x = proc.coarray(3)
        if not registered_now:
            proc.sync()
        waiting = [x.get(0), x.get(proc.pid, 1), x.get(0, slice(0, 0)), x.get_each([0], [1]), x.get_each([], [])]
        early = [got.ready for got in waiting]
        said = [refusal(lambda: got.value)[0] for got in waiting]
        proc.sync()
        return early, said, [got.ready for got in waiting]

    assert run(main, nprocs=nprocs) == [([False] * 5, ["NotReady"] * 5, [True] * 5)] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_many_unbuffered_puts_gets_and_messages_in_one_superstep(run: Any, nprocs: int) -> None:
    """LPF bsplib_hpput_many, bsplib_hpget_many, bsplib_hpsend_many: nothing to resize, no capacity to run out of."""
    many = 300

    def main(proc: bsp.Process) -> tuple[bool, bool, bool]:
        p, s = proc.nprocs, proc.pid
        x, y = proc.coarray((p, many), dtype=int), proc.coarray(many, dtype=int)
        values = 1000 * s + np.arange(many)
        y.local[:] = values
        proc.sync()
        for k in range(many):
            x.put((s + k) % p, values[k : k + 1], at=(s, slice(k, k + 1)), buffered=False)
            proc.send((s + k) % p, values[k : k + 1])
        got = [y.get((s + k) % p, k) for k in range(many)]
        proc.sync()
        mine = np.array([[1000 * o + k if (o + k) % p == s else 0 for k in range(many)] for o in range(p)])
        heard = [int(message.payload[0]) for message in proc.inbox]
        return (
            np.array_equal(x.local, mine),
            [part.value for part in got] == [1000 * ((s + k) % p) + k for k in range(many)],
            heard == [1000 * o + k for o in range(p) for k in range(many) if (o + k) % p == s],
        )

    assert run(main, nprocs=nprocs) == [(True, True, True)] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_growing_and_shrinking_registrations_of_the_same_memory(run: Any, nprocs: int) -> None:
    """LPF bsplib_pushpopreg_growing_memory, _shrinking_memory, _ambiguous: each handle keeps the size it was given."""

    def main(proc: bsp.Process) -> tuple[list[int], list[str]]:
        array = np.zeros(8, int)
        right = (proc.pid + 1) % proc.nprocs
        said = []
        for size in (2, 5, 8, 5, 2, 0):
            part = proc.register(array[:size])
            proc.sync()
            part.put(right, 1, at=slice(0, size), op="add")
            said.append(refusal(lambda: part.put(right, 1, at=size))[0])
            part.release()
            proc.sync()
        return array.tolist(), said

    assert run(main, nprocs=nprocs) == [([5, 5, 3, 3, 3, 1, 1, 1], ["PutOutOfRange"] * 6)] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [4, BIG])
def test_overlapping_registrations_are_ordered_like_one(run: Any, nprocs: int, words: int) -> None:
    """LPF bsplib_pushpopreg_ambiguous, put to two slots of the same memory: the order of D1 holds across handles."""

    def main(proc: bsp.Process) -> tuple[set[float], set[float], set[float]]:
        array = np.full(3 * words, -1.0)
        low, high = proc.register(array[: 2 * words]), proc.register(array[words:])
        proc.sync()
        for dest in range(proc.nprocs):
            (low if proc.pid % 2 else high).put(dest, np.full(2 * words, 10.0 * proc.pid))
            (high if proc.pid % 2 else low).put(dest, np.full(words, 10.0 * proc.pid + 1), at=slice(0, words))
        proc.sync()
        return set(array[:words]), set(array[words : 2 * words]), set(array[2 * words :])

    array = ["", "", ""]
    for s in range(nprocs):  # the same, on paper
        first, second = ([0, 1], [1]) if s % 2 else ([1, 2], [0])
        for k in first:
            array[k] = f"{10.0 * s}"
        for k in second:
            array[k] = f"{10.0 * s + 1}"
    expected = tuple({float(text) if text else -1.0} for text in array)
    assert run(main, nprocs=nprocs) == [expected] * nprocs


# ------------------------------------------------------------------------------- registers, contexts


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_many_coarrays_in_one_superstep(run: Any, nprocs: int) -> None:
    """LPF register_global_many, resize_memory_register: 200 at once, of every size from 0."""

    def main(proc: bsp.Process) -> bool:
        handles = [proc.coarray((k + proc.pid) % 7, dtype=int) for k in range(200)]
        right = (proc.pid + 1) % proc.nprocs
        proc.sync()
        for k, x in enumerate(handles):
            x.put(right, k + 1000 * proc.pid)
        proc.sync()
        left = (proc.pid - 1) % proc.nprocs
        return all(x.local.tolist() == [k + 1000 * left] * ((k + proc.pid) % 7) for k, x in enumerate(handles))

    assert run(main, nprocs=nprocs) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_irregular_releases_leave_the_other_coarrays_where_they_were(run: Any, nprocs: int) -> None:
    """LPF deregister_global_irregularly ("broke a previous implementation"): out of order, with new ones between."""

    def main(proc: bsp.Process) -> list[tuple[int, list[int]]]:
        handles = {k: proc.coarray(1, dtype=int) for k in range(6)}
        right = (proc.pid + 1) % proc.nprocs
        added = 6
        for going in (4, 1, 5, 6, 0):
            proc.sync()
            handles.pop(going).release()
            handles[added] = proc.coarray(1, dtype=int)
            added += 1
            for k, x in handles.items():
                x.put(right, 10 ** (k % 4), at=0, op="add")
        proc.sync()
        return [(k, x.local.tolist()) for k, x in handles.items()]

    # coarray k >= 6 is made in round k - 6 and counts from then on; 6 itself goes in the round of 9
    counts = {2: 5, 3: 5, 7: 4, 8: 3, 9: 2, 10: 1}
    assert run(main, nprocs=nprocs) == [[(k, [10 ** (k % 4) * n]) for k, n in counts.items()]] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_private_context_keeps_a_librarys_traffic_from_its_callers(run: Any, nprocs: int) -> None:
    """LPF rehook: a fresh context inside a parallel one, so that a library may sync without knowing its caller (B2)."""

    def library(proc: bsp.Process) -> int:
        inner = proc.private()
        y = inner.coarray(1, dtype=int, fill=inner.pid + 1)
        got = y.get((inner.pid + 1) % inner.nprocs, 0)
        inner.send(0, inner.pid)
        inner.sync()
        return int(got.value) + 100 * sum(message.payload for message in inner.inbox)

    def main(proc: bsp.Process) -> tuple[Any, ...]:
        x = proc.coarray(1, dtype=int, fill=-1)
        right = (proc.pid + 1) % proc.nprocs
        proc.send(right, "first")
        proc.sync()
        x.put(right, proc.pid, at=0)
        proc.send(right, "second")
        got = x.get(right, 0)
        answers = library(proc), library(proc)
        inside = [m.payload for m in proc.inbox], x.local.tolist(), got.ready
        proc.sync()
        return answers, inside, [m.payload for m in proc.inbox], x.local.tolist(), int(got.value), proc.superstep

    for s, result in enumerate(run(main, nprocs=nprocs)):
        answer = (s + 1) % nprocs + 1 + (100 * sum(range(nprocs)) if s == 0 else 0)
        inside = ["first"], [-1], False
        assert result == ((answer, answer), inside, ["second"], [(s - 1) % nprocs], -1, 4)


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("leaves", ["pid 0", "all but the last"])
@pytest.mark.parametrize("call", ["sync", "broadcast", "allreduce"])
def test_an_early_exit_is_told_to_all_who_wait(run: Any, nprocs: int, leaves: str, call: str) -> None:
    """LPF exec early exit of pid 0 or of all but one; bsplib_sync_only_p0, _except_p0: fatal, never a hang."""

    def gone(pid: int) -> bool:
        return pid == 0 if leaves == "pid 0" else pid != nprocs - 1

    def main(proc: bsp.Process) -> None:
        proc.sync()
        if gone(proc.pid):
            return
        {"sync": proc.sync, "broadcast": lambda: proc.broadcast(1, root=1), "allreduce": lambda: proc.allreduce(1)}[
            call
        ]()

    error = told_to_all(run, main, nprocs, tuple(pid for pid in range(nprocs) if gone(pid)))
    assert type(error) is bsp.SyncMismatch
    assert "returned; process" in str(error)
    assert f" in {call}" in str(error)
    assert "at test_lpf_cases.py:" in str(error)
    assert "(superstep 1); every process must sync equally often" in str(error)


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_a_failed_job_stays_failed(run: Any, nprocs: int) -> None:
    """LPF's failure state: every later sync returns FATAL.  Ours: raises the same again (B6)."""
    notes: dict[int, list[tuple[str, str]]] = {}

    def main(proc: bsp.Process) -> None:
        if proc.pid == 0:
            proc.coarray(1)
        notes[proc.pid] = [
            refusal(proc.sync),
            refusal(proc.sync),
            refusal(lambda: proc.broadcast(1)),
            refusal(proc.private().sync),
        ]

    with pytest.raises(bsp.RegistrationMismatch) as ended:
        run(main, nprocs=nprocs)
    told = run(lambda proc: notes[proc.pid], nprocs=nprocs)
    assert told == [[("RegistrationMismatch", str(ended.value))] * 4] * nprocs


# -------------------------------------------------------------------- the catalogue of debug_* errors


CALLS: dict[str, Callable[[bsp.Coarray, Any, Any], Any]] = {
    "put": lambda x, pid, at: x.put(pid, 1.0, at=at),
    "get": lambda x, pid, at: x.get(pid, at),
    "put_each": lambda x, pid, at: x.put_each([pid], [at], [1.0]),
    "get_each": lambda x, pid, at: x.get_each([pid], [at]),
}


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("bad", ["-1", "p", "-p - 1", "2**40"])
@pytest.mark.parametrize("registered_now", [False, True])
def test_a_pid_out_of_range_is_refused_at_the_call(
    run: Any, nprocs: int, call: str, bad: str, registered_now: bool
) -> None:
    """LPF debug_put_unknown_dest_pid, debug_get_unknown_source_pid: pids are known without any shapes."""
    pid = eval(bad, {"p": nprocs})

    def main(proc: bsp.Process) -> tuple[tuple[str, str], list[float]]:
        x = proc.coarray(1)
        if not registered_now:
            proc.sync()
        said = refusal(lambda: CALLS[call](x, pid, 0))
        x.put((proc.pid + 1) % proc.nprocs, 7.0, at=0)
        proc.sync()
        return said, x.local.tolist()

    for (name, text), held in run(main, nprocs=nprocs):
        assert name == "NoSuchProcess"
        assert text.startswith(call)
        assert f"process {pid}: pids are integers in 0..{nprocs - 1}" in text
        assert held == [7.0]


@pytest.mark.parametrize("call", ["put", "get"])
@pytest.mark.parametrize("bad", ["True", "0.0", "None", "'0'", "[0]"])
def test_a_pid_of_the_wrong_kind_is_refused_at_the_call(run: Any, call: str, bad: str) -> None:
    """LPF debug_*: NULL and unknown arguments."""

    def main(proc: bsp.Process) -> tuple[str, str]:
        x = proc.coarray(1)
        proc.sync()
        said = refusal(lambda: CALLS[call](x, eval(bad), 0))
        proc.sync()
        return said

    for name, text in run(main, nprocs=3):
        assert name == "NoSuchProcess"
        assert f"{call} on process {eval(bad)!r}: pids are integers in 0..2" in text


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("offset", [3, 4, 2**31, 2**62, -5])
def test_an_access_past_the_end_known_before_the_sync_raises_at_the_call(
    run: Any, nprocs: int, call: str, offset: int
) -> None:
    """LPF debug_put_write_past_dest_memory_remotely_before_sync and its kin: the owner's size is what counts."""

    def main(proc: bsp.Process) -> tuple[tuple[str, str], list[float]]:
        x = proc.coarray(3 if proc.pid == proc.nprocs - 1 else 5, fill=-1)
        proc.sync()
        last = proc.nprocs - 1
        if 0 <= offset < 5:
            CALLS[call](x, (proc.pid + 1) % last if last > 1 else 0, offset)  # nothing wrong where there are 5
        said = refusal(lambda: CALLS[call](x, last, offset))
        proc.sync()
        return said, x.local.tolist()

    last = nprocs - 1
    for pid, ((name, text), held) in enumerate(run(main, nprocs=nprocs)):
        assert name == ("PutOutOfRange" if "put" in call else "GetOutOfRange")
        assert f"on process {last}" in text
        assert "'x'" in text
        assert f"process {pid}, superstep 1)" in text
        assert "test_lpf_cases.py:" in text
        if "each" in call:
            assert f"at position {offset} of 'x' (shape (3,), axis length 3)" in text
        else:
            past = f"{offset - 2} past the end" if offset > 0 else f"{-3 - offset} past the start"
            assert f"at offset {offset} runs {past} of 'x' (length 3)" in text
        if pid == last:
            assert held == [-1.0] * 3


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("offset", [3, 2**31, -5])
def test_an_access_past_the_end_known_at_the_sync_is_told_to_all(run: Any, nprocs: int, call: str, offset: int) -> None:
    """LPF debug_put_write_past_dest_memory_remotely_at_sync and its kin.  Ours: the same exception everywhere (B3)."""

    def main(proc: bsp.Process) -> None:
        x = proc.coarray(3 if proc.pid == proc.nprocs - 1 else 5)
        if proc.pid == 0:
            CALLS[call](x, proc.nprocs - 1, offset)
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is (bsp.PutOutOfRange if "put" in call else bsp.GetOutOfRange)
    assert isinstance(error, IndexError)
    assert f" of 'x' ({'shape (3,), axis ' if 'each' in call else ''}length 3) on process {nprocs - 1}" in str(error)
    assert "process 0, superstep 0)" in str(error)
    assert "test_lpf_cases.py:" in str(error)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("registered_now", [False, True])
def test_an_access_past_the_end_of_ones_own_memory_raises_at_the_call(
    run: Any, nprocs: int, registered_now: bool
) -> None:
    """LPF debug_put_*_local: a process knows its own size from the start."""

    def main(proc: bsp.Process) -> list[str]:
        x = proc.coarray(2 + proc.pid)
        if not registered_now:
            proc.sync()
        size = 2 + proc.pid
        said = [
            refusal(lambda: x.put(proc.pid, 1.0, at=size)),
            refusal(lambda: x.put(proc.pid, [1.0] * 2, at=slice(size - 1, size + 1))),
            refusal(lambda: x.get(proc.pid, slice(0, size + 4))),
        ]
        proc.sync()
        return [f"{name}: {text}" for name, text in said]

    for pid, (one, two, got) in enumerate(run(main, nprocs=nprocs)):
        size = 2 + pid
        where = f"of 'x' (length {size}) on process {pid}"
        assert f"PutOutOfRange: put of 1 float64 at offset {size} runs 1 past the end {where}" in one
        assert f"PutOutOfRange: put of 2 float64 at offset {size - 1} runs 1 past the end {where}" in two
        assert f"GetOutOfRange: get at offset 0 runs 4 past the end {where}" in got


OVERFLOWS = {
    "size_t max - 3": 2**64 - 3,
    "slice from size_t max - 3": slice(2**64 - 3, 2**64 + 1),
    "slice beyond int64": slice(1, 2**63),
    "slice below int64": slice(-(2**63) - 1, None),
    "uint64 scalar": np.uint64(2**64 - 1),
    "uint64 array": np.array([2**64 - 1], np.uint64),
}


@pytest.mark.parametrize("at", OVERFLOWS)
@pytest.mark.parametrize("call", ["put", "get"])
def test_offsets_that_overflow_the_machines_integers_are_out_of_range(run: Any, at: str, call: str) -> None:
    """LPF debug_*_overflow, SIZE_MAX - 3: offset + size must not wrap around to a legal place."""

    def main(proc: bsp.Process) -> tuple[str, list[float]]:
        x = proc.coarray(4, fill=-1)
        proc.sync()
        name, _ = refusal(lambda: CALLS[call](x, (proc.pid + 1) % proc.nprocs, OVERFLOWS[at]))
        proc.sync()
        return name, x.local.tolist()

    assert run(main, nprocs=3) == [("PutOutOfRange" if call == "put" else "GetOutOfRange", [-1.0] * 4)] * 3


@pytest.mark.parametrize("call", ["put_each", "get_each"])
@pytest.mark.parametrize("position", [2**64 - 1, 2**63, 2**63 - 1, -(2**63)])
def test_positions_that_overflow_the_machines_integers_are_out_of_range(run: Any, call: str, position: int) -> None:
    """LPF debug_*_overflow, for whole arrays of positions."""

    def main(proc: bsp.Process) -> tuple[str, str]:
        x = proc.coarray(4, fill=-1)
        proc.sync()
        said = refusal(lambda: CALLS[call](x, 0, position))
        proc.sync()
        return said

    for name, text in run(main, nprocs=3):
        assert name == ("PutOutOfRange" if "put" in call else "GetOutOfRange")
        assert f"{call} at position {position} of 'x'" in text


WRONG_INDICES = {"a float": 1.5, "text": "0", "newaxis": None, "floats": [0.5], "two ellipses": (..., ...),
                 "no step": slice(None, None, 0)}  # fmt: skip


@pytest.mark.parametrize("at", WRONG_INDICES)
@pytest.mark.parametrize("call", ["put", "get"])
@pytest.mark.parametrize("registered_now", [False, True])
def test_an_index_of_the_wrong_kind_raises_at_the_call(run: Any, at: str, call: str, registered_now: bool) -> None:
    """LPF debug_*: NULL and invalid arguments.  Wrong whatever the sizes are, so it need not wait for them."""

    def main(proc: bsp.Process) -> tuple[str, str]:
        x = proc.coarray(4)
        if not registered_now:
            proc.sync()
        said = refusal(lambda: CALLS[call](x, (proc.pid + 1) % proc.nprocs, WRONG_INDICES[at]))
        proc.sync()
        return said

    for name, text in run(main, nprocs=2):
        assert name == "TypeError"
        assert f"{call} on 'x': at= takes" in text


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_registering_what_is_no_memory_is_refused_at_the_call(run: Any, nprocs: int) -> None:
    """LPF debug_register_*: NULL with a size, and memory that others cannot write to."""

    def main(proc: bsp.Process) -> list[tuple[str, str]]:
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        wrong = [None, [1.0, 2.0], np.float64(1), np.zeros((2, 3)).T, np.zeros(6)[::2], frozen, np.array([None])]
        said = [refusal(lambda: proc.register(array)) for array in wrong]  # type: ignore[arg-type]
        said.append(refusal(lambda: proc.coarray(2, dtype=object)))
        proc.sync()  # none of them has been registered: nothing to match
        return said

    fragments = [
        "register takes a NumPy array, not NoneType",
        "register takes a NumPy array, not list",
        "register takes a NumPy array, not float64",
        "this one is not C-contiguous, writable, float64",
        "this one is not C-contiguous, writable, float64",
        "this one is C-contiguous, read-only, float64",
        "this one is C-contiguous, writable, object",
        "a coarray holds numbers, not Python objects",
    ]
    for said in run(main, nprocs=nprocs):
        for (name, text), fragment in zip(said, fragments, strict=True):
            assert name == "CastError"
            assert fragment in text


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_an_empty_array_is_memory(run: Any, nprocs: int) -> None:
    """LPF register_global of zero bytes."""

    def main(proc: bsp.Process) -> tuple[tuple[int, ...], tuple[int, ...]]:
        x = proc.register(np.empty((proc.pid, 3)))
        proc.sync()
        x.put(proc.nprocs - 1, 4.0, at=(slice(0, 0), 1))
        proc.sync()
        return x.shape, x.shape_on(0)

    assert run(main, nprocs=nprocs) == [((pid, 3), (0, 3)) for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("wrong", ["count", "dtype", "dimensions", "order"])
def test_registrations_that_differ_are_told_to_all(run: Any, nprocs: int, wrong: str) -> None:
    """LPF debug_register_global_unequal: number, kind and order; both lines are named."""

    def main(proc: bsp.Process) -> None:
        odd = proc.pid == proc.nprocs - 1
        if wrong == "count":
            if odd:
                proc.coarray(1)
        elif wrong == "dtype":
            proc.coarray(2, dtype=np.float32 if odd else np.float64)
        elif wrong == "dimensions":
            proc.coarray((2, 1) if odd else 2)
        elif odd:
            proc.coarray(1, dtype=int)
            proc.coarray(1, dtype=float)
        else:
            proc.coarray(1, dtype=float)
            proc.coarray(1, dtype=int)
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.RegistrationMismatch
    last = nprocs - 1
    fragment = {
        "count": f"process 0 has registered 0 coarray(s) and process {last} 1 (test_lpf_cases.py:",
        "dtype": "process 0 registers <f8 of 1 dimension(s) at test_lpf_cases.py:",
        "dimensions": "process 0 registers <f8 of 1 dimension(s) at test_lpf_cases.py:",
        "order": "process 0 registers <f8 of 1 dimension(s) at test_lpf_cases.py:",
    }[wrong]
    assert fragment in str(error)
    there = {"dtype": "<f4 of 1", "dimensions": "<f8 of 2", "order": "<i8 of 1"}.get(wrong)
    if there is not None:
        assert f"process {last} {there} at test_lpf_cases.py:" in str(error)


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("wrong", ["mismatch", "order", "subset"])
def test_releases_that_differ_are_told_to_all(run: Any, nprocs: int, wrong: str) -> None:
    """LPF debug_deregister_global_mismatch, _unequal_order, _subset."""

    def main(proc: bsp.Process) -> None:
        x, y = proc.coarray(1), proc.coarray(1)
        proc.sync()
        odd = proc.pid == proc.nprocs - 1
        for handle in {
            "mismatch": [y] if odd else [x],
            "order": [y, x] if odd else [x, y],
            "subset": [] if odd else [x],
        }[wrong]:
            handle.release()
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.RegistrationMismatch
    theirs = {"mismatch": ([0], [1]), "order": ([0, 1], [1, 0]), "subset": ([0], [])}[wrong]
    assert f"process 0 releases coarrays {theirs[0]} and process {nprocs - 1} {theirs[1]}" in str(error)
    assert "superstep 1" in str(error)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("call", [*CALLS, "release"])
def test_a_released_coarray_is_refused_after_the_boundary(run: Any, nprocs: int, call: str) -> None:
    """LPF debug_deregister_then_used, local and remote; the other coarrays go on."""

    def main(proc: bsp.Process) -> tuple[tuple[str, str], float]:
        x = proc.coarray(1)
        y = proc.coarray(1)
        proc.sync()
        x.release()
        proc.sync()
        right = (proc.pid + 1) % proc.nprocs
        said = refusal(lambda: CALLS[call](x, right, 0) if call in CALLS else x.release())
        y.put(right, 3.0, at=0)
        proc.sync()
        return said, y.local[0]

    for (name, text), held in run(main, nprocs=nprocs):
        assert name == "NotRegistered"
        assert f"{call} on coarray 'x': it was released (test_lpf_cases.py:" in text
        assert held == 3.0


def test_an_error_never_names_another_coarray(run: Any) -> None:
    """LPF debug_deregister_then_used: of two slots registered by one line, the message means the right one."""

    def main(proc: bsp.Process) -> tuple[str, str]:
        x, y = proc.coarray(1), proc.coarray(2)
        proc.sync()
        _, first = refusal(lambda: x.put(0, 1.0, at=1))
        _, second = refusal(lambda: y.put(0, 1.0, at=2))
        proc.sync()
        return first, second

    for first, second in run(main, nprocs=2):
        assert "(length 1)" in first
        assert "(length 2)" in second
        assert "of 'y' (length 1)" not in first
        assert "of 'x' (length 2)" not in second


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_overlaps_are_legal_and_check_tells_of_them(run: Any, nprocs: int) -> None:
    """LPF debug read-write conflict, write-write conflict (illegal, or any order, there): --check names both lines."""

    def writing(proc: bsp.Process) -> float:
        x = proc.coarray(2)
        proc.sync()
        x.put(0, float(proc.pid), at=1)
        proc.sync()
        return x.local[1]

    def reading(proc: bsp.Process) -> float:
        x = proc.coarray(2, fill=-1)
        proc.sync()
        if proc.pid == 1:
            x.put(0, [5.0, 6.0])
        got = x.get(0, 1)
        proc.sync()
        return got.value

    def together(proc: bsp.Process) -> float:
        x = proc.coarray(2)
        proc.sync()
        x.put(0, 1.0, at=1, op="add")
        proc.sync()
        return x.local[1]

    assert run(writing, nprocs=nprocs)[0] == nprocs - 1
    assert run(reading, nprocs=nprocs) == [-1.0] * nprocs
    assert run(together, nprocs=nprocs, check=True)[0] == nprocs
    with pytest.raises(
        bsp.Overlap, match=r"put at test_lpf_cases.py:\d+ by process 0 and put .*flat position 1 of 'x'"
    ):
        run(writing, nprocs=nprocs, check=True)
    with pytest.raises(bsp.Overlap, match=r"put at test_lpf_cases.py:\d+ by process 1 and get .* on process 0"):
        run(reading, nprocs=nprocs, check=True)


# ----------------------------------------------------------------------------------- collectives


SIZES = [1, 2, 3, 7, 13, 101, 1009]  # primes, and sizes below p


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("size", SIZES)
def test_collectives_of_prime_sizes(run: Any, nprocs: int, size: int) -> None:
    """LPF collectives broadcast, gather, scatter, allgather, alltoall (prime size, size < P), from the last root."""

    def main(proc: bsp.Process) -> list[bool]:
        p, s = proc.nprocs, proc.pid
        root = p - 1
        told = proc.broadcast(block(root, size) if s == root else None, root=root)
        gathered = proc.gather(block(s, size), root=root)
        part = proc.scatter([block(d, size) + 0.5 for d in range(p)] if s == root else None, root=root)
        everyones = proc.allgather(block(s, size))
        swapped = proc.alltoall([block(s, size) + d / 16 for d in range(p)])
        matrix = proc.total_exchange(np.array([block(s, size) + d / 16 for d in range(p)]))
        return [
            np.array_equal(told, block(root, size)),
            gathered is None if s != root else np.array_equal(gathered, [block(o, size) for o in range(p)]),
            np.array_equal(part, block(s, size) + 0.5),
            np.array_equal(everyones, [block(o, size) for o in range(p)]),
            np.array_equal(swapped, [block(o, size) + s / 16 for o in range(p)]),
            np.array_equal(matrix, [block(o, size) + s / 16 for o in range(p)]),
        ]

    assert run(main, nprocs=nprocs) == [[True] * 6] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase", "tree-2"])
def test_reductions_of_prime_sizes(run: Any, nprocs: int, size: int, algorithm: str | None) -> None:
    """LPF collectives reduce, allreduce, combine, allcombine: of whole arrays, by every operation."""

    def main(proc: bsp.Process) -> list[list[int]]:
        values = (np.arange(size) * 7 + proc.pid * 3) % 11 + 1
        return [
            proc.allreduce(values, op, algorithm=algorithm).tolist() for op in ("add", "multiply", "min", "max", "xor")
        ]

    values = [(np.arange(size) * 7 + s * 3) % 11 + 1 for s in range(nprocs)]
    ops = [np.add, np.multiply, np.minimum, np.maximum, np.bitwise_xor]
    assert run(main, nprocs=nprocs) == [[op.reduce(values).tolist() for op in ops]] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_an_argument_and_a_result_may_be_parts_of_one_array(run: Any, nprocs: int) -> None:
    """LPF collectives allgather_overlapped: in and out share memory there.  Ours: results are always new (D9)."""

    def main(proc: bsp.Process) -> tuple[list[float], bool]:
        whole = np.full((proc.nprocs, 5), -1.0)
        whole[proc.pid] = proc.pid
        parts = proc.allgather(whole[proc.pid])
        apart = not any(np.shares_memory(part, whole) for part in parts)
        whole[:] = parts
        return whole[:, 0].tolist(), apart

    assert run(main, nprocs=nprocs) == [([float(s) for s in range(nprocs)], True)] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("name", ["broadcast", "reduce", "gather", "scatter"])
@pytest.mark.parametrize("bad", ["-1", "p"])
def test_a_root_out_of_range_is_refused_at_the_call(run: Any, nprocs: int, name: str, bad: str) -> None:
    """LPF collectives: a root that is no process."""
    root = eval(bad, {"p": nprocs})

    def main(proc: bsp.Process) -> tuple[str, str]:
        said = refusal(lambda: getattr(proc, name)([1] * proc.nprocs, root=root))
        proc.sync()
        return said

    for error, text in run(main, nprocs=nprocs):
        assert error == "NoSuchProcess"
        assert f"root {root} is not one of the processes that take part" in text
        assert text.startswith(name)


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_different_roots_are_a_mismatch_on_every_process(run: Any, nprocs: int) -> None:
    """LPF collectives: all processes must name the same root (undefined there)."""

    def main(proc: bsp.Process) -> None:
        proc.broadcast(proc.pid, root=proc.pid % 2)

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.SyncMismatch
    assert "in broadcast(root=0) at test_lpf_cases.py:" in str(error)
    assert "in broadcast(root=1) at test_lpf_cases.py:" in str(error)


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_reductions_of_different_sizes_are_a_mismatch_on_every_process(run: Any, nprocs: int) -> None:
    """LPF collectives: element counts that differ (undefined there)."""

    def main(proc: bsp.Process) -> None:
        proc.allreduce(np.ones(3 if proc.pid else 4))

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.SyncMismatch
    assert "allreduce(float64[4], op='add')" in str(error)
    assert "allreduce(float64[3], op='add')" in str(error)
