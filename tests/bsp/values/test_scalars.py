"""Pickles of NumPy's scalars are pickle's own, byte for byte, and are read as pickle reads them."""

from __future__ import annotations

import pickle
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.values import canonical, payload
from bsp.values.payload import dumps, loads
from bsp.values.scalars import scalar_in, scalar_out

KINDS = "?bhilqBHILQefdgFDG"


def same(a: Any, b: Any) -> bool:
    """Return whether two values have one type and the same bytes."""
    return type(a) is type(b) and pickle.dumps(a, 5) == pickle.dumps(b, 5)


@given(st.sampled_from(KINDS), st.binary(min_size=32, max_size=32))
def test_scalars_of_any_bytes(kind: str, data: bytes) -> None:
    value = np.frombuffer(data, kind, 1)[0] if kind not in "?gG" else np.dtype(kind).type(int.from_bytes(data[:7]))
    with patch.object(payload, "canonical", False):  # as tests of clones in this interpreter may have left it
        written = dumps(value)
    assert written == pickle.dumps(value, 5)
    assert same(pickle.loads(canonical.pickled(value)), value)
    assert same(loads(written), pickle.loads(written)) and same(loads(memoryview(written)), pickle.loads(written))


@pytest.mark.parametrize("kind", "?bhilqBHILQefdFD")
def test_scalars_need_no_pickle(kind: str) -> None:
    value = np.dtype(kind).type(7)
    written = scalar_out(value)
    assert written == pickle.dumps(value, 5) and same(scalar_in(written), pickle.loads(written))


@given(st.integers(0, 150), st.integers(0, 255))
def test_other_pickles_are_left_to_pickle(size: int, byte: int) -> None:
    """Also those of the length of a scalar's, and a scalar's with another byte anywhere in front or behind."""
    for value in (
        "x" * size,
        b"y" * size,
        (1, "z" * size),
        list(range(size)),
        np.str_("n" * size),
        np.datetime64(size, "s"),
    ):
        assert scalar_in(pickle.dumps(value, 5)) is None and scalar_out(value) is None
    whole = bytearray(pickle.dumps(np.float64(0.5), 5))
    for place in (*range(100), *range(len(whole) - 6, len(whole))):
        other = whole.copy()
        other[place] = byte
        if other != whole:
            assert scalar_in(bytes(other)) is None or same(scalar_in(bytes(other)), pickle.loads(other))
