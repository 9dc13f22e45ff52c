"""Rules B1 to B6 of the design: what a boundary is, and what takes effect at it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bsp

PROCS = [1, 2, 3, 5]


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("algorithm", ["one-phase", "two-phase", "tree-2"])
def test_b1_a_collective_is_one_boundary_and_delivers_in_its_first_superstep(
    run: Any, nprocs: int, algorithm: str
) -> None:
    def main(proc: bsp.Process) -> None:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray(2)
        proc.sync()
        proc.send(right, "hello")
        x.put(right, 5.0, at=0)
        got = x.get(right, 0)
        total = proc.allreduce(np.ones(10), algorithm=algorithm)
        assert total.tolist() == [proc.nprocs] * 10
        assert [m.payload for m in proc.inbox] == ["hello"]
        assert x.local[0] == 5.0 and got.value == 0.0
        proc.broadcast(1)
        assert proc.inbox == []

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_b1_a_boundary_makes_a_new_inbox_and_leaves_the_old_list_alone(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        proc.send(proc.pid, 1)
        proc.sync()
        old = proc.inbox
        assert proc.inbox is old
        proc.sync()
        assert [m.payload for m in old] == [1] and proc.inbox == [] and proc.inbox is not old

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_b2_a_librarys_supersteps_leave_the_users_effects_for_the_users_boundary(run: Any, nprocs: int) -> None:
    def library(proc: bsp.Process) -> float:
        inner = proc.private()
        y = inner.coarray(1, fill=proc.pid)
        inner.send((proc.pid + 1) % proc.nprocs, "inside")
        inner.sync()
        assert [m.payload for m in inner.inbox] == ["inside"]
        y.put((proc.pid + 1) % proc.nprocs, 7.0, at=0)
        inner.sync()
        return float(inner.allreduce(float(y.local[0])))

    def main(proc: bsp.Process) -> int:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray(1)
        proc.send(proc.pid, "kept")
        proc.sync()
        proc.send(right, "mine")
        x.put(right, 3.0)
        began = proc.superstep
        assert library(proc) == 7.0 * proc.nprocs
        assert [m.payload for m in proc.inbox] == ["kept"]  # neither delivered nor cleared
        assert x.local[0] == 0.0
        counted = proc.superstep - began
        proc.sync()
        assert [m.payload for m in proc.inbox] == ["mine"] and x.local[0] == 3.0
        return counted

    assert all(count >= 3 for count in run(main, nprocs=nprocs))


@pytest.mark.parametrize("nprocs", PROCS)
def test_b3_a_coarray_is_usable_in_the_superstep_that_registers_it(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(proc.pid + 2, dtype=int, fill=-1)
        right = (proc.pid + 1) % proc.nprocs
        values, at = np.array([proc.pid]), np.array([right + 1])
        x.put(right, values, at=at)  # the last place of the neighbour's
        x.put_each([right], [0], [10 + proc.pid])
        got, each = x.get(right, -1), x.get_each([right, proc.pid], [0, 0])
        values[:], at[:] = 99, 0  # everything was copied
        proc.sync()
        left = (proc.pid - 1) % proc.nprocs
        assert x.local[-1] == left and x.local[0] == 10 + left
        assert got.value == -1 and each.value.tolist() == [-1, -1]
        assert x.shape_on(right) == (right + 2,)

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 3, 5])
def test_b3_a_remote_range_error_is_raised_everywhere_at_the_registering_boundary(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> str:
        rows = proc.coarray(2 if proc.pid == 1 else 9)
        if proc.pid == 0:
            rows.put(1, [1.0, 2.0, 3.0], at=slice(1, 4))
        try:
            proc.sync()
        except bsp.PutOutOfRange as wrong:
            said = str(wrong)
        else:
            said = "nothing"
        with pytest.raises(bsp.PutOutOfRange):
            proc.sync()
        return said

    with pytest.raises(bsp.PutOutOfRange) as told:
        run(main, nprocs=nprocs)
    assert "put of 3 float64 at offset 1 runs 2 past the end of 'rows' (length 2) on process 1" in str(told.value)
    assert "test_rules_of_boundaries.py:" in str(told.value)


@pytest.mark.parametrize("nprocs", [2, 4])
def test_b3_after_the_boundary_a_remote_range_error_is_raised_at_the_call(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        rows = proc.coarray(2 if proc.pid == 1 else 9)
        proc.sync()
        with pytest.raises(bsp.PutOutOfRange, match=r"put of 1 float64 at offset 5 runs 4 past the end of 'rows'"):
            rows.put(1, 1.0, at=5)
        with pytest.raises(bsp.GetOutOfRange, match=r"get at offset -3 runs 1 past the start of 'rows' \(length 2\)"):
            rows.get(1, -3)
        with pytest.raises(bsp.PutOutOfRange, match="position 2 of 'rows'"):
            rows.put_each([0, 1], [2, 2], [0.0, 0.0])
        with pytest.raises(bsp.GetOutOfRange, match="position -3"):
            rows.get_each([1], [-3])
        proc.sync()
        assert (rows.local == 0).all()

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 3])
@pytest.mark.parametrize("mistake", ["dtype", "fields", "dimensions", "number"])
def test_b3_registrations_that_do_not_match_are_told_with_both_lines(run: Any, nprocs: int, mistake: str) -> None:
    def main(proc: bsp.Process) -> None:
        if proc.pid == 1 and mistake == "dtype":
            proc.coarray(3, dtype=np.float32)
        elif proc.pid == 1 and mistake == "dimensions":
            proc.coarray((3, 1))
        elif mistake == "fields":  # of one size together
            proc.coarray(3, dtype=[("a", int), ("b", float)] if proc.pid == 1 else [("a", float), ("b", int)])
        else:
            proc.coarray(3)
        if proc.pid == 1 and mistake == "number":
            proc.coarray(3)
        with pytest.raises(bsp.RegistrationMismatch, match=r"test_rules_of_boundaries.py:\d+"):
            proc.sync()

    with pytest.raises(bsp.RegistrationMismatch, match="process 1"):
        run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_b4_at_is_numpys_index_into_the_destinations_array(run: Any, nprocs: int) -> None:
    indices: list[Any] = [
        ..., 0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), (1, 2), (slice(None), 1), (-1, ...),
        [0, 2], ([0, 2], [1, 1]), (slice(0, 2), [3, 0, 1]), np.array([[0, 1], [2, 0]]), (Ellipsis, 3), slice(2, 2),
        np.array([True, False, True]), (),
    ]  # fmt: skip

    def main(proc: bsp.Process) -> None:
        right = (proc.pid + 1) % proc.nprocs
        x = proc.coarray((3, 4), dtype=int)
        proc.sync()
        for k, index in enumerate(indices):
            x.local[:] = np.arange(12).reshape(3, 4)
            wanted = x.local.copy()
            proc.sync()
            got = x.get(right, index)
            x.put(right, 100 + k, at=index)
            proc.sync()
            assert np.array_equal(got.value, wanted[index])
            wanted[index] = 100 + k
            assert np.array_equal(x.local, wanted), index
            x.put(right, 1, at=index, op="add")
            proc.sync()
            np.add.at(wanted, index, 1)
            assert np.array_equal(x.local, wanted), index
            proc.sync()

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_b4_repeated_positions_end_with_the_last_value_and_count_each_time_with_op(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        x, y = proc.coarray(3), proc.coarray(3)
        x.put_each(0, [1, 1, 1], [5.0, 6.0, 7.0])
        y.put_each(0, [1, 1, 2], [5.0, 6.0, 7.0], op="add")
        y.put(0, [1.0, 1.0], at=[0, 0], op="add")
        proc.sync()
        if proc.pid == 0:
            assert x.local.tolist() == [0, 7, 0]
            assert y.local.tolist() == [2.0 * proc.nprocs, 11.0 * proc.nprocs, 7.0 * proc.nprocs]

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_b5_the_end_is_no_superstep_and_effects_after_the_last_boundary_raise(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process, late: bool) -> int:
        proc.sync()
        if late and proc.pid == 0:
            proc.send(0, 1)
        return proc.superstep

    assert run(main, False, nprocs=nprocs) == [1] * nprocs
    with pytest.raises(bsp.EffectsLost, match=r"process 0 ends with 1 put, get or send call\(s\)"):
        run(main, True, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 3, 5])
def test_b6_a_caught_mismatch_leaves_the_job_failed(run: Any, nprocs: int) -> None:
    seen: list[str] = []

    def main(proc: bsp.Process) -> None:
        for attempt in range(3):
            try:
                if proc.pid == 1 and attempt == 0:
                    proc.broadcast(0)
                else:
                    proc.sync()
            except bsp.SyncMismatch as wrong:
                seen.append(str(wrong))
            else:
                raise AssertionError("a boundary of a failed job went through")

    with pytest.raises(bsp.SyncMismatch):
        run(main, nprocs=nprocs)
    if not seen:  # a rank without processes
        return
    assert len(seen) >= 3 and len(set(seen)) == 1
    assert "process 1 waits in broadcast(root=0) at test_rules_of_boundaries.py" in seen[0]


@pytest.mark.parametrize("caught", [False, True])
def test_a_mismatch_tells_what_a_process_was_handling_unless_the_program_is_done_with_it(caught: bool) -> None:
    def main(proc: bsp.Process) -> None:
        try:
            if proc.pid == 1:
                raise KeyError("the cause")
        except KeyError:
            if not caught:
                proc.broadcast(0)
        if caught and proc.pid == 1:
            proc.broadcast(0)
        proc.sync()

    with pytest.raises(bsp.SyncMismatch) as raised:
        bsp.run(main, nprocs=3)
    notes = "\n".join(getattr(raised.value, "__notes__", []))
    assert ("process 1 was handling an exception there" in notes) is not caught
    assert ("KeyError: 'the cause'" in notes) is not caught


def test_a_boundary_inside_an_import_raises(run: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "syncs_on_import.py").write_text("import bsp\nbsp.process().sync()\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def main(proc: bsp.Process) -> None:
        import syncs_on_import  # type: ignore[import-not-found]  # noqa: F401

    with pytest.raises(bsp.BoundaryInImport, match="while module 'syncs_on_import' is imported"):
        run(main, nprocs=2)


@pytest.mark.solo
@pytest.mark.parametrize("superstep", [0, 1])
def test_an_interrupt_ends_all_processes_of_an_interpreter(superstep: int) -> None:
    """The others neither compute on to the end of their superstep, nor begin; those that wait clean up."""
    computed, cleaned = [], []

    def main(proc: bsp.Process) -> None:
        try:
            for _ in range(superstep):
                proc.sync()
            computed.append(proc.pid)
            if proc.pid == 1:
                raise KeyboardInterrupt
            proc.sync()
        finally:
            cleaned.append(proc.pid)

    with pytest.raises(KeyboardInterrupt) as caught:
        bsp.run(main, nprocs=4)
    assert computed == [0, 1]
    assert sorted(cleaned) == ([0, 1, 2, 3] if superstep else [0, 1])
    assert f"raised by process 1 in superstep {superstep}" in caught.value.__notes__[0]
    assert bsp.run(lambda proc: proc.allreduce(1), nprocs=3) == [3, 3, 3]
