"""What the standard asks for besides functions: the library's own description, and arrays of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.api.creation import asarray
from bsp.arrays.api.creation import copy as copy_of
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world

_KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (np.bool_,),
    "signed integer": (np.int8, np.int16, np.int32, np.int64),
    "unsigned integer": (np.uint8, np.uint16, np.uint32, np.uint64),
    "real floating": (np.float32, np.float64),
    "complex floating": (np.complex64, np.complex128),
}
_UNIONS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


def _checked(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r}: there is one device, 'cpu'")


class Information:
    """What `__array_namespace_info__` returns."""

    def capabilities(self) -> dict[str, Any]:
        """What is not the same in all libraries."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The only one."""
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """What numbers become that name no dtype."""
        _checked(device)
        return {
            "real floating": np.dtype(np.float64), "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64), "indexing": np.dtype(np.int64),
        }  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes of some kinds by name; None: all of the standard's."""
        _checked(device)
        asked = tuple(_KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        found: dict[str, Any] = {}
        for each in asked:
            if each not in _KINDS and each not in _UNIONS:
                raise ValueError(f"unsupported kind: {each!r}; kinds are {', '.join([*_KINDS, *_UNIONS])}")
            for name in _UNIONS.get(each, (each,)):
                found |= {np.dtype(dtype).name: np.dtype(dtype) for dtype in _KINDS[name]}
        return found

    def devices(self) -> list[str]:
        """All devices."""
        return ["cpu"]


def __array_namespace_info__() -> Information:
    """What this library can do."""
    return Information()


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another library's, whole and equal on every process; each keeps its blocks of it.  No words.

    copy : False is refused, but for arrays of ours: blocks are memory of their own.
    """
    _checked(device)
    if isinstance(x, Array):
        return copy_of(x) if copy else x
    if copy is False:
        raise ValueError("from_dlpack: copy=False, but the blocks of an array are memory of their own")
    return asarray(np.from_dlpack(x))


def _dlpack(
    self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """The whole array, for another library: a collective, as compute().

    copy : None and True make a copy.  False lends the memory of the array where every process has it in one piece (one
        process, or a small array), computed first if need be; it must not be written to, which capsules tell from
        DLPack 1.0 on.
    Raises GatherRefused for arrays of more than a gigabyte; BufferError if no copy may be made of a dealt array, or
    for another device or a stream: arrays live on the CPU.
    """
    device = None if dl_device is None else tuple(int(getattr(each, "value", each)) for each in dl_device)
    if stream is not None or device not in (None, (1, 0)):
        raise BufferError(f"__dlpack__: stream={stream!r}, dl_device={dl_device!r}: arrays live on the CPU, (1, 0)")
    asked: dict[str, Any] = {} if max_version is None else {"max_version": max_version}
    if copy is not False:
        return np.array(self._gathered("__dlpack__")).__dlpack__(**asked)
    node = self.persist()._node
    assert node.layout is not None
    if node.layout.blocks > 1 or not (node.layout.replicated or world().nprocs == 1):
        raise BufferError("__dlpack__: copy=False, but a distributed array has to be brought together")
    (block,) = node.value.values()
    if max_version is not None and max_version[0] >= 1:
        block = block.view()
        block.flags.writeable = False
    lent: Any = block.__dlpack__(**asked)
    return lent


def _dlpack_device(self: Array) -> tuple[int, int]:
    """The CPU."""
    return 1, 0


METHODS: dict[str, Callable[..., Any]] = {"__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "from_dlpack": from_dlpack, "__array_namespace_info__": __array_namespace_info__,
}  # fmt: skip
