"""Pickles of NumPy's scalars, which most reductions give: byte for byte those of pickle, in a tenth of the time.

All pickles of a type begin alike, with what the type is, and end alike; between are the bytes of the value.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np


class _Form(NamedTuple):
    """What the pickles of one type have in common."""

    head: bytes
    tail: bytes
    dtype: np.dtype[Any]


def _form_of(dtype: np.dtype[Any]) -> _Form:
    """Return the form of a type of at least two bytes, of which none is padding."""
    sample = bytes(range(1, 1 + dtype.itemsize))
    data = pickle.dumps(np.frombuffer(sample, dtype)[0], 5)
    head, tail = data.split(sample)
    return _Form(head, tail, pickle.loads(data).dtype)  # equal types of two names are read as one


_FORMS = {dtype.type: _form_of(dtype) for dtype in map(np.dtype, "hilqHILQefdFD")}
_BY_HEAD = {(len(form.head) + form.dtype.itemsize + len(form.tail), form.head): form for form in _FORMS.values()}
_HEADS = {length: len(head) for length, head in _BY_HEAD}  # by the length of a pickle, that of its head


def scalar_out(value: Any) -> bytes | None:
    """Return the pickle of a NumPy scalar; None for any other value."""
    form = _FORMS.get(type(value))
    return None if form is None else form.head + value.tobytes() + form.tail


def scalar_in(data: Any) -> Any:
    """Return the NumPy scalar of a pickle; None if it is that of another value."""
    size = len(data)
    start = _HEADS.get(size)
    if start is None or type(data) is not bytes:
        return None
    form = _BY_HEAD.get((size, data[:start]))
    return np.frombuffer(data, form.dtype, 1, start)[0] if form is not None and data.endswith(form.tail) else None
