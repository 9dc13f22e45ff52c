"""The standard's inspection of the library, and exchange of arrays with other libraries by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays.api.creation import asarray
from bsp.arrays.api.creation import copy as copy_of
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.typing import Device, SupportsDLPack

__all__ = ["__array_namespace_info__", "from_dlpack"]

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
    """The result of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities in which libraries differ."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the only device."""
        return "cpu"

    def default_dtypes(self, *, device: Device = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of numbers for which none is given, by kind."""
        _checked(device)
        return {
            "real floating": np.dtype(np.float64), "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64), "indexing": np.dtype(np.int64),
        }  # fmt: skip

    def dtypes(
        self, *, device: Device = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:  # fmt: skip
        """Return the dtypes of some kinds by name; None: all of the standard's."""
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
        """Return all devices."""
        return ["cpu"]


def __array_namespace_info__() -> Information:
    """Return the standard's description of this library: capabilities, devices and dtypes."""
    return Information()


def from_dlpack(x: SupportsDLPack, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """Return an array from one of another library, which must be whole and equal on every process.  No words.

    copy : False raises an error except for distributed arrays, since blocks always have memory of their own.
    """
    _checked(device)
    if isinstance(x, Array):
        return copy_of(x) if copy else x
    if copy is False:
        raise ValueError("from_dlpack: copy=False, but the blocks of an array are memory of their own")
    return asarray(np.from_dlpack(x))


def dlpack(
    self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """Return the whole array as a DLPack capsule.  Collective, as compute().

    copy : None and True make a copy.  False lends the memory of the array where every process has it in one piece (one
        process, or a small array), computed first if needed.  It must not be written to; capsules are marked read-only
        from DLPack 1.0 on.
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
