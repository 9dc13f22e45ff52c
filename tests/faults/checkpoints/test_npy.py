"""Arrays as npy bytes: NumPy reads them without pickle, they come back as they were, or stay in the pickle."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as some
from numpy.testing import assert_array_equal

from bsp.faults.checkpoints.npy import decode, encode

GAPS = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})
SQUARE = np.arange(64.0).reshape(8, 8)

KEPT: dict[str, np.ndarray] = {
    "0-d": np.array(3.5),
    "0-d structured": np.array((1, 2.5), [("a", "i4"), ("b", "f4")]),
    "empty": np.zeros((0, 3)),
    "empty in columns": np.zeros((3, 0), order="F"),
    "rows": SQUARE[:3].copy(),
    "columns": np.asfortranarray(SQUARE),
    "columns of three dimensions": np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
    "gaps": SQUARE[::2, 1:5],
    "backwards": SQUARE[::-1],
    "gaps in columns": np.asfortranarray(SQUARE)[::2],
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
    "big-endian": np.arange(6, dtype=">i4"),
    "bool": np.array([True, False]),
    "half, long": np.array([1, np.nan], np.longdouble),
    "complex": np.array([1 + 2j, -0.0]),
    "text": np.array(["a", "Łódź"]),
    "bytes": np.array([b"a\0b", b""]),
    "no bytes an item": np.zeros(3, "V0"),
    "dates": np.array(["2020-01-01", "NaT"], "M8[25s]"),
    "structured": np.array([(1, [2.0, 3.0]), (4, [5.0, 6.0])], [("a", "i1"), ("b", "f8", (2,))]),
    "nested": np.zeros(2, [("a", [("b", "i2"), ("c", ">f4")])]),
    "gaps between fields": np.arange(72, dtype="u1").view(GAPS),
    "names beyond ASCII": np.zeros(2, [("é", "i4")]),
    "titles": np.zeros(2, [(("title", "n"), "i4")]),
    "many fields": np.zeros(2, [(f"a_field_with_a_long_name_{k}", "f8") for k in range(3000)]),
}


def in_order(array: np.ndarray) -> tuple[bool, bool]:
    """As a pickle would have it: without gaps."""
    flags = (array if array.flags.forc else np.ascontiguousarray(array)).flags
    return flags.c_contiguous, flags.f_contiguous


@pytest.mark.parametrize("name", KEPT)
def test_an_array_comes_back_with_all_its_bytes_its_dtype_shape_and_order(name: str) -> None:
    array = KEPT[name]
    data = encode(array)
    assert data is not None
    for form in (data, bytes(data), memoryview(bytes(data))):
        back = decode(form)
        assert (back.dtype, back.dtype.str, back.shape) == (array.dtype, array.dtype.str, array.shape)
        assert back.tobytes("A") == array.tobytes("A") if array.flags.forc else back.tobytes() == array.tobytes()
        assert (back.flags.c_contiguous, back.flags.f_contiguous) == in_order(array)
        assert back.flags.writeable and back.flags.aligned and back.flags.owndata
    assert encode(decode(data)) == data


@pytest.mark.parametrize("name", KEPT)
def test_numpy_reads_it_without_pickle(name: str) -> None:
    data = encode(KEPT[name])
    assert data is not None
    back = np.load(io.BytesIO(data), allow_pickle=False, max_header_size=1 << 20)
    assert back.dtype == KEPT[name].dtype
    assert_array_equal(back, KEPT[name])


@given(some.arrays(some.array_dtypes() | some.scalar_dtypes(), some.array_shapes(min_dims=0, min_side=0, max_side=4)))
def test_whatever_is_encoded_comes_back(array: np.ndarray) -> None:
    for form in (array, array.T, array[::2] if array.ndim else array):
        data = encode(form)
        if data is None:  # names or titles of fields that its header has no letters for
            assert not repr(form.dtype).isascii()
            continue
        back = decode(data)
        assert (back.dtype, back.shape, back.tobytes()) == (form.dtype, form.shape, form.tobytes())


class Mine(np.ndarray):
    """A subclass."""


NOT_KEPT: dict[str, Any] = {
    "objects": np.array([None, {}]),
    "objects in a field": np.zeros(2, [("a", "O")]),
    "a subclass": np.zeros(3).view(Mine),
    "a masked array": np.ma.array([1, 2], mask=[True, False]),
    "records": np.zeros(2, np.dtype((np.record, [("a", "i4")]))),
    "records in a plain array": np.zeros(2, [("a", np.dtype((np.record, [("b", "i4")])))]),
    "names beyond Latin-1": np.zeros(2, [("Ł", "i4")]),
    "metadata": np.zeros(2, np.dtype("f8", metadata={"unit": "m"})),
    "metadata of a field": np.zeros(2, [("a", np.dtype("f8", metadata={"unit": "m"}))]),
    "long long, which equals long": np.zeros(2, np.longlong),
    "long long in a field": np.zeros(2, [("a", np.ulonglong)]),
    "aligned fields": np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "fields out of order": np.zeros(2, {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]}),
    "fields that overlap": np.zeros(2, {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 0]}),
    "text of any length": np.array(["a"], np.dtypes.StringDType()),
}


@pytest.mark.parametrize("name", NOT_KEPT)
def test_what_npy_would_lose_something_of_is_left_to_pickle(name: str) -> None:
    assert encode(NOT_KEPT[name]) is None


def test_a_dtype_with_metadata_is_not_taken_for_the_equal_one_without() -> None:
    plain = np.zeros(2, "f8")
    assert encode(plain) is not None
    assert encode(np.zeros(2, np.dtype("f8", metadata={"unit": "m"}))) is None
    assert encode(plain) is not None
