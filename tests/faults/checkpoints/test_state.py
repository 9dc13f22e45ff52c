"""The state of a process: arrays of numbers stand beside its pickle, and every array comes back as it was.

Processes are made again by the rehearsal of `check=True`, which captures and restores as clones and checkpoints do.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import bsp
from bsp.faults.checkpoints import npy, state
from bsp.faults.protocol.messages import Packed
from bsp.processes import Process

pytestmark = pytest.mark.solo


def arrays(pid: int) -> dict[str, Any]:
    """One of each kind, other ones on each process."""
    square = np.arange(64.0).reshape(8, 8) + pid
    fixed = np.arange(5) + pid
    fixed.flags.writeable = False
    shared = np.arange(4) + pid
    return {
        "scalar": np.array(3.5 + pid), "empty": np.zeros((0, 3)), "rows": square.copy(),
        "columns": np.asfortranarray(square), "gaps": square[::2, 1:5], "backwards": square[::-1],
        "turned": np.arange(6, dtype=">i4"), "fixed": fixed, "text": np.array(["a", f"Łódź {pid}"]),
        "structured": np.array([(pid, [2.0, 3.0])], [("a", "i1"), ("b", "f8", (2,))]),
        "aligned": np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        "objects": np.array([None, {"pid": pid}, square[:2]], dtype=object),
        "objects_in_fields": np.array([(pid, [1])], [("a", "i4"), ("b", "O")]),
        "masked": np.ma.array([1.0, 2.0], mask=[True, False]),
        "metadata": np.zeros(2, np.dtype("f8", metadata={"unit": "m"})),
        "inside": {"list": [square[0], (square[1],)], "one": shared, "the_same": shared}, "the_same": shared,
    }  # fmt: skip


def described(value: Any) -> Any:
    """All there is to an array, with those inside it; of one with gaps, as it is without."""
    if isinstance(value, dict):
        return {key: described(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [described(each) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.forc:
        value = np.ascontiguousarray(value)
    flags = value.flags
    content = described(value.tolist()) if value.dtype.hasobject else (value.tobytes(), value.tobytes(order="A"))
    return (
        type(value), value.dtype.str, value.dtype.fields, value.dtype.metadata, value.dtype.isalignedstruct,
        value.shape, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned, content,
    )  # fmt: skip


def main(proc: Process) -> Any:
    table = proc.coarray((2, 3))
    rows = proc.register(np.zeros((3, 2)))
    kept = bsp.State(local=table.local, table=table, **arrays(proc.pid))
    before = {
        name: value.copy() if name in ("gaps", "backwards") else value for name, value in arrays(proc.pid).items()
    }
    for k in proc.rounds(6, kept):
        table.local[...] = rows.local.T[...] = 10 * k + proc.pid
        proc.send((proc.pid + 1) % proc.nprocs, np.arange(3) + proc.pid)
        proc.sync()
    now = {name: getattr(kept, name) for name in before}
    assert kept.local is table.local and kept.table.local is table.local
    assert kept.the_same is kept.inside["one"] is kept.inside["the_same"]
    message = proc.inbox[0].payload
    return described(now) == described(before), table.local.tolist(), rows.local.tolist(), described(message)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Packed]:
    """All that is captured in a test."""
    found: list[Packed] = []
    capture = state.capture

    def noted(*args: Any) -> Packed:
        found.append(capture(*args))
        return found[-1]

    monkeypatch.setattr(state, "capture", noted)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_every_array_comes_back_as_it_was(nprocs: int, captured: list[Packed]) -> None:
    """What a process that was made again returns is compared with the first pass byte for byte, and here with NumPy."""
    results = bsp.run(main, nprocs=nprocs, check=True)
    assert captured
    for pid, (same, table, rows, message) in enumerate(results):
        assert same
        assert table == [[50.0 + pid] * 3] * 2 and rows == [[50.0 + pid] * 2] * 3
        assert message == described(np.arange(3) + (pid - 1) % nprocs)


@pytest.mark.thorough
def test_numbers_are_outside_the_pickle_under_the_names_they_have_in_the_program(captured: list[Packed]) -> None:
    bsp.run(main, nprocs=2, check=True)
    last = captured[-1]
    found = {name: npy.decode(data) for name, data in zip(last.names, last.arrays, strict=True)}
    expected = arrays(1)
    for name in ("scalar", "empty", "rows", "columns", "gaps", "backwards", "turned", "fixed", "text", "structured"):
        np.testing.assert_array_equal(found[f"state.{name}"], expected[name])
        if expected[name].nbytes > 8:
            assert expected[name].tobytes() not in last.pickle
    for name in ("aligned", "objects", "objects_in_fields", "masked", "metadata"):  # npy has no form for all of them
        assert f"state.{name}" not in found
    np.testing.assert_array_equal(found["coarray-0.0"], np.full((2, 3), 51.0))
    np.testing.assert_array_equal(found["coarray-0.1"], np.full((3, 2), 51.0))
    inside = [array.tolist() for name, array in found.items() if name.startswith("array-")]
    assert [0.0 + 1, *range(2, 9)] in inside and len(found) == len(last.names)
    assert sum(array.tolist() == [1, 2, 3, 4] for array in found.values()) == 1  # met three times


@pytest.mark.thorough
def test_equal_states_are_equal_bytes(captured: list[Packed]) -> None:
    """Clones compare them: those of the first life and of processes that were made again."""
    bsp.run(main, nprocs=2, check=True)
    first = list(captured)
    captured.clear()
    bsp.run(main, nprocs=2, check=True)
    assert [pickle.dumps(each, 5) for each in captured] == [pickle.dumps(each, 5) for each in first]


def slices(proc: Process) -> Any:
    flat, table = np.zeros((2, 3), order="F"), proc.coarray(4)
    kept = bsp.State(last=flat[:, 2], turned=flat.T[::-1], flat=flat, tail=table.local[2:])
    kept.last.flags.writeable = False
    for k in proc.rounds(6, kept):
        kept.flat += proc.allreduce(1.0)
        kept.turned *= 2
        kept.tail += k
    return kept.flat.tolist(), kept.last.tolist(), kept.last.flags.writeable, table.local.tolist()


@pytest.mark.parametrize("nprocs", [1, 2])
def test_a_slice_in_a_state_stays_in_the_memory_of_the_array(nprocs: int) -> None:
    """Results of a process that was made again are compared with those of the first pass."""
    flat = [[126.0 * nprocs] * 3] * 2
    expected = flat, [126.0 * nprocs] * 2, False, [0.0, 0.0, 15.0, 15.0]
    assert bsp.run(slices, nprocs=nprocs, check=True) == [expected] * nprocs


def alone(proc: Process) -> Any:
    """Keep slices of arrays that are not in the state themselves."""
    kept = bsp.State(turned=np.zeros((4, 3)), rows=None, columns=None, same=None, windows=None)
    for k in proc.rounds(6, kept):
        if k == 1:
            table = np.zeros((4, 6))
            kept.rows, kept.columns = table[1:, ::2], table[:, 1:3]
            kept.same = np.broadcast_to(np.arange(3.0), (2, 3))
            kept.windows = np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 2)
        kept.turned = (kept.turned + proc.allreduce(0.1 * k))[::-1, ::-1]
        if k > 1:
            kept.rows += 1
            kept.columns *= 2
    arrays = [*vars(kept).values()]
    strides = [each.strides for each in arrays]
    return strides, np.shares_memory(kept.rows, kept.columns), [each.tolist() for each in arrays]


@pytest.mark.parametrize("nprocs", [1, 2])
def test_slices_of_an_array_outside_the_state_keep_their_strides_and_the_memory_they_share(nprocs: int) -> None:
    """Sums of an array depend on its strides in their last bits."""
    (first, *others) = bsp.run(alone, nprocs=nprocs, check=True)
    strides, shared, (turned, rows, columns, same, windows) = first
    assert strides == [(-24, -8), (48, 16), (48, 8), (0, 8), (8, 8)]
    assert shared
    assert others == [first] * (nprocs - 1)
    table = np.zeros((4, 6))
    for _ in range(4):
        table[1:, ::2] += 1
        table[:, 1:3] *= 2
    assert (rows, columns) == (table[1:, ::2].tolist(), table[:, 1:3].tolist())
    assert (same, windows) == ([[0.0, 1.0, 2.0]] * 2, [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
    assert np.allclose(turned, 1.5 * nprocs)
