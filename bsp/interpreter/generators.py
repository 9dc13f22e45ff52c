"""The random generators of each process (D4): `proc.rng`, and the global ones of NumPy and of the module `random`.

NumPy keeps one global RandomState, and `random` one instance behind its functions.  Each process has states of its
own for both, which are put in place at the beginning of its turn.  A process seldom draws from them, so a change of
turns compares one word or two and copies only a state that has changed: through NumPy's documented address of a
generator's state, and through the memory of `random`'s instance where a check at import finds CPython's layout.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# documented, but absent from NumPy's own type stubs
set_global_bits: Any = np.random.set_bit_generator  # type: ignore[attr-defined]
global_bits: Any = np.random.get_bit_generator  # type: ignore[attr-defined]

_KEY_WORDS = 624  # the state of MT19937: 624 words of 32 bits, then the position in them


class NumPyStream:
    """The NumPy global generator of one process, in place only during its turns.

    `normal()` draws pairs, and RandomState keeps the second half for the next call.  Putting a generator in place makes
    RandomState forget that half.  So `leave` reads it from RandomState, and `enter` puts it back: the stream is the one
    that NumPy alone gives.  Reading is slow, so it is done only when the process has drawn, has set the state, or held
    such a half when its turn began.
    """

    __slots__ = ("_gauss", "_key", "_position", "_seen", "_whole", "bits", "current")

    state_was_set = False  # by `np.random.set_state`, in the turn under way

    def __init__(self, seed: int, pid: int) -> None:
        self.bits = np.random.MT19937(np.random.SeedSequence([seed, pid, 1]))
        self.current: Any = self.bits  # or what the process has given to np.random.set_bit_generator
        address = self.bits.ctypes.state_address
        self._whole = (ctypes.c_char * (4 * _KEY_WORDS + 4)).from_address(address)
        self._key = ctypes.c_uint32.from_address(address)
        self._position = ctypes.c_int.from_address(address + 4 * _KEY_WORDS)
        self._seen = self._mark()
        self._gauss: float | None = None

    def _mark(self) -> tuple[int, int]:
        """Return a mark that changes with every draw: the position, and a word of the key that each 624 words renew."""
        return self._position.value, self._key.value

    def enter(self) -> None:
        """Put the stream in place, for `np.random.normal()` and its like to draw from."""
        set_global_bits(self.current)
        if self._gauss is not None:
            state: Any = np.random.get_state(legacy=False)
            state["has_gauss"], state["gauss"] = 1, self._gauss
            _set_state(state)

    def leave(self) -> None:
        """Keep what the process has changed since it entered."""
        current = global_bits()
        if (
            self._gauss is not None
            or NumPyStream.state_was_set
            or current is not self.bits
            or self._mark() != self._seen
        ):
            state: Any = np.random.get_state(legacy=False)
            self._gauss = state["gauss"] if state["has_gauss"] else None
            self._seen = self._mark()
            self.current = current
            NumPyStream.state_was_set = False

    def state(self) -> tuple[Any, ...]:
        """Return the state of the stream.  Valid only while it is not in place."""
        return self._whole.raw, self._gauss, None if self.current is self.bits else self.current

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the state of the stream to one that `state` has returned.  Valid only while it is not in place."""
        self._whole.raw, self._gauss, current = state
        self.current = self.bits if current is None else current
        self._seen = self._mark()


_set_state: Callable[..., None] = np.random.set_state


@contextlib.contextmanager
def watching_set_state() -> Iterator[None]:
    """Notice `np.random.set_state` inside the block: it may set a half of a normal pair without changing the key."""

    def set_state(state: Any) -> None:
        _set_state(state)
        NumPyStream.state_was_set = True

    set_state.__doc__ = _set_state.__doc__
    kept: Any = np.random.set_state
    np.random.set_state = set_state
    try:
        yield
    finally:
        np.random.set_state = kept


# ------------------------------------------------------------------------------- the module random

_instance: Any = random._inst  # its bound methods are random.random() and its like
_BASE: type = random.Random.__mro__[1]  # _random.Random, which holds the state
_STATE_BYTES = 4 * (1 + _KEY_WORDS)  # CPython: an index, then the words of the key


def _memory_of(instance: random.Random) -> memoryview | None:
    """Return the bytes of an instance's state, or None if they are not laid out as CPython lays them out.

    The layout is checked against `getstate`: it is no documented interface.
    """
    if _BASE.__basicsize__ < object.__basicsize__ + _STATE_BYTES:
        return None
    memory = memoryview((ctypes.c_char * _STATE_BYTES).from_address(id(instance) + object.__basicsize__)).cast("B")
    words = memory.cast("I")
    _, state, _ = instance.getstate()
    return memory if (*words[1:], words[0]) == state else None


_memory = _memory_of(_instance)
_words = None if _memory is None else _memory.cast("I")


class PythonStream:
    """The state of the module `random` of one process, in place only during its turns.

    With `_memory` a change of turns is one copy of the state; without it, `setstate` and `getstate`, which are slow.
    """

    __slots__ = ("_first", "_gauss", "_index", "_kept", "_slow")

    def __init__(self, seed: int, pid: int) -> None:
        words = np.random.SeedSequence([seed, pid, 2]).generate_state(4)
        own = random.Random(int.from_bytes(words.tobytes(), "little"))
        memory = _memory_of(own)
        self._slow = own.getstate() if memory is None else None
        self._kept = memoryview(bytearray(b"" if memory is None else memory))
        self._gauss: float | None = None
        self._index = self._first = -1

    def enter(self) -> None:
        """Put the state in place, for `random.random()` and its like to draw from."""
        if _memory is None or _words is None:
            assert self._slow is not None
            _instance.setstate(self._slow)
            return
        _memory[:] = self._kept
        _instance.gauss_next = self._gauss
        self._index, self._first = _words[0], _words[1]

    def leave(self) -> None:
        """Keep what the process has drawn since it entered."""
        if _memory is None or _words is None:
            self._slow = _instance.getstate()
            return
        self._gauss = _instance.gauss_next
        if _words[0] != self._index or _words[1] != self._first:  # each draw moves the index or renews the words
            self._kept[:] = _memory

    def state(self) -> tuple[Any, ...]:
        """Return the state of the stream.  Valid only while it is not in place."""
        return bytes(self._kept), self._gauss, self._slow

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the state of the stream to one that `state` has returned.  Valid only while it is not in place."""
        self._kept[:], self._gauss, self._slow = state


class GlobalStreams:
    """The global generators of one process: NumPy's, and that of the module `random`."""

    __slots__ = ("numpy", "python")

    def __init__(self, seed: int, pid: int) -> None:
        self.numpy = NumPyStream(seed, pid)
        self.python = PythonStream(seed, pid)

    def enter(self) -> None:
        """Put both in place."""
        self.numpy.enter()
        self.python.enter()

    def leave(self) -> None:
        """Keep both as the process leaves them."""
        self.numpy.leave()
        self.python.leave()

    def state(self) -> tuple[Any, ...]:
        """Return the states of both.  Valid only while they are not in place."""
        return self.numpy.state(), self.python.state()

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the states of both to those that `state` has returned.  Valid only while they are not in place."""
        self.numpy.restore(state[0])
        self.python.restore(state[1])


@contextlib.contextmanager
def lent() -> Iterator[None]:
    """Restore the caller's global generators after a block that puts those of processes in place."""
    kept = global_bits(), np.random.get_state(legacy=False), random.getstate()
    with watching_set_state():
        try:
            yield
        finally:
            set_global_bits(kept[0])
            _set_state(kept[1])
            random.setstate(kept[2])


def generator(seed: int, pid: int) -> np.random.Generator:
    """Return a new `proc.rng`: PCG64 seeded from (job seed, pid)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, pid])))


def standing(rng: np.random.Generator) -> tuple[int, ...]:
    """Return the state of a `proc.rng` in four numbers."""
    known: Any = rng.bit_generator.state
    return known["state"]["state"], known["state"]["inc"], known["has_uint32"], known["uinteger"]


def put(rng: np.random.Generator, where: tuple[int, ...]) -> None:
    """Set the state of a `proc.rng` to one that `standing` has returned."""
    state, inc, has_uint32, uinteger = where
    rng.bit_generator.state = {
        "bit_generator": "PCG64", "state": {"state": state, "inc": inc}, "has_uint32": has_uint32, "uinteger": uinteger
    }  # fmt: skip
