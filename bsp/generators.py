"""Random numbers that belong to a process (D4): `proc.rng`, and NumPy's global generator.

NumPy keeps one global RandomState.  Each process brings its own MT19937 and it is put in place when
the process takes its turn.  Putting one in place makes RandomState forget the second half of a
normal pair; a process that has drawn is asked for it, so its stream is the one NumPy alone gives.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

# documented, but absent from NumPy's own type stubs
set_global_bits: Any = np.random.set_bit_generator  # type: ignore[attr-defined]
global_bits: Any = np.random.get_bit_generator  # type: ignore[attr-defined]

_KEY_WORDS = 624  # MT19937: 624 words of 32 bits, then the position in them


class GlobalStream:
    """The NumPy global generator of one process, in place only during its turns."""

    __slots__ = ("_gauss", "_key", "_position", "_seen", "_whole", "bits")

    def __init__(self, seed: int, pid: int) -> None:
        self.bits = np.random.MT19937(np.random.SeedSequence([seed, pid, 1]))
        address = self.bits.ctypes.state_address
        self._whole = (ctypes.c_char * (4 * _KEY_WORDS + 4)).from_address(address)
        self._key = ctypes.c_uint32.from_address(address)
        self._position = ctypes.c_int.from_address(address + 4 * _KEY_WORDS)
        self._seen = self._mark()
        self._gauss: float | None = None

    def _mark(self) -> tuple[int, int]:
        """Changes with every draw: the position, and a word of the key that each 624 words renew."""
        return self._position.value, self._key.value

    def enter(self) -> None:
        """Becomes what `np.random.normal()` and its kin draw from."""
        set_global_bits(self.bits)
        if self._gauss is not None:
            state: Any = np.random.get_state(legacy=False)
            state["has_gauss"], state["gauss"] = 1, self._gauss
            np.random.set_state(state)

    def leave(self) -> None:
        """Keeps the pending half of a normal pair, if the process has drawn since it entered."""
        if self._gauss is not None or self._mark() != self._seen:
            state: Any = np.random.get_state(legacy=False)
            self._gauss = state["gauss"] if state["has_gauss"] else None
            self._seen = self._mark()

    def state(self) -> tuple[bytes, float | None]:
        """Where the stream stands; only while it is not in place."""
        return self._whole.raw, self._gauss

    def restore(self, state: tuple[bytes, float | None]) -> None:
        """Go on from there; only while it is not in place."""
        self._whole.raw, self._gauss = state
        self._seen = self._mark()


def generator(seed: int, pid: int) -> np.random.Generator:
    """`proc.rng`: PCG64 seeded from (job seed, pid)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, pid])))


def standing(rng: np.random.Generator) -> tuple[int, ...]:
    """Where a `proc.rng` stands, in four numbers."""
    known: Any = rng.bit_generator.state
    return known["state"]["state"], known["state"]["inc"], known["has_uint32"], known["uinteger"]


def put(rng: np.random.Generator, where: tuple[int, ...]) -> None:
    """Go on from there."""
    state, inc, has_uint32, uinteger = where
    rng.bit_generator.state = {
        "bit_generator": "PCG64", "state": {"state": state, "inc": inc}, "has_uint32": has_uint32, "uinteger": uinteger
    }  # fmt: skip
