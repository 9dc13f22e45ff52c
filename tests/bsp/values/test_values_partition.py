"""Items are parted by the process they are for, in the order in which they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.values.partition import by_process


@given(st.lists(st.integers(0, 40), max_size=200), st.integers(41, 300))
def test_a_partition_is_stable_and_complete(pids: list[int], nprocs: int) -> None:
    array = np.array(pids, int)
    parts = by_process(array, nprocs)
    assert parts is not None
    assert [pid for pid, _ in parts] == sorted(set(pids))
    for pid, items in parts:
        assert np.arange(len(pids))[items].tolist() == [k for k, found in enumerate(pids) if found == pid]


@pytest.mark.parametrize("nprocs", [2, 300, 70000])
def test_a_partition_refuses_pids_outside(nprocs: int) -> None:
    assert by_process(np.array([0, nprocs]), nprocs) is None
    assert by_process(np.array([-1, 0]), nprocs) is None
    everyone = by_process(np.arange(nprocs)[::-1].copy(), nprocs)
    assert everyone is not None and len(everyone) == nprocs
