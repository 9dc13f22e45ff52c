"""Staging memory is used again, within its limit."""

from __future__ import annotations

import numpy as np

from bsp.engine.staging import KEPT_BYTES, Staging


def test_staging_uses_memory_again_and_keeps_no_more_than_it_says() -> None:
    staging = Staging()
    source = np.arange(1 << 15, dtype=float).reshape(128, 256)
    first = staging.copy(source.T, source.dtype)
    assert np.array_equal(first, source.T) and first.flags.c_contiguous and not np.shares_memory(first, source)
    where = first.__array_interface__["data"][0]
    staging.give_back(first)
    again = staging.copy(source, source.dtype)
    assert again.__array_interface__["data"][0] == where and np.array_equal(again, source)
    huge = np.zeros(KEPT_BYTES + 8, np.uint8)
    held = staging.copy(huge, huge.dtype)
    staging.give_back(held)
    assert staging._kept == 0
