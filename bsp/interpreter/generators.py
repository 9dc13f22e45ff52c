"""The random generators of each process (D4): `proc.rng`, and the global ones of NumPy and of the module `random`.

NumPy keeps one global RandomState, and `random` one instance behind its functions.  Each process has states of its
own for both, which are copied into place at the beginning of its turn: through NumPy's documented address of a
generator's state, and through the memory of `random`'s instance where a check at import finds CPython's layout.  A
process seldom draws from them, so the end of a turn compares some words and copies only a state that has changed.
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


# In place of NumPy's own generator during a run: each process has a state of its own for it.
_bits = np.random.MT19937(0)


def _words_of_bits(bits: np.random.MT19937) -> memoryview:
    """Return the words of a generator's state: its key, then the position in it."""
    memory = (ctypes.c_char * (4 * (_KEY_WORDS + 1))).from_address(bits.ctypes.state_address)
    return memoryview(memory).cast("B").cast("I")


_bits_words = _words_of_bits(_bits)


class NumPyStream:
    """The NumPy global generator of one process, in place only during its turns.

    `normal()` draws pairs, and RandomState keeps the second half for the next call.  So `leave` reads it from
    RandomState and makes it forget it, and `enter` puts it back: the stream is the one that NumPy alone gives.  Reading
    is slow, so it is done only when the process has drawn, has set the state, or held such a half when its turn began.
    """

    __slots__ = ("_gauss", "_kept", "current")

    state_was_set = False  # by `np.random.set_state`, in the turn under way

    def __init__(self, seed: int, pid: int) -> None:
        own = np.random.MT19937(np.random.SeedSequence([seed, pid, 1]))
        self._kept = memoryview(bytearray(_words_of_bits(own))).cast("I")
        self.current: Any = _bits  # or what the process has given to np.random.set_bit_generator
        self._gauss: float | None = None

    def enter(self) -> None:
        """Put the stream in place, for `np.random.normal()` and its like to draw from."""
        _bits_words[:] = self._kept
        if global_bits() is not self.current:
            set_global_bits(self.current)
        if self._gauss is not None:
            state: Any = np.random.get_state(legacy=False)
            state["has_gauss"], state["gauss"] = 1, self._gauss
            _set_state(state)

    def leave(self) -> None:
        """Keep what the process has changed since it entered."""
        current = global_bits()
        drawn = _differ(_bits_words, self._kept)
        if drawn:
            self._kept[:] = _bits_words
        if drawn or self._gauss is not None or NumPyStream.state_was_set or current is not _bits:
            state: Any = np.random.get_state(legacy=False)
            self._gauss = state["gauss"] if state["has_gauss"] else None
            self.current = current
            NumPyStream.state_was_set = False
            set_global_bits(current)  # which makes RandomState forget its half

    def state(self) -> tuple[Any, ...]:
        """Return the state of the stream.  Valid only while it is not in place."""
        return bytes(self._kept), self._gauss, None if self.current is _bits else self.current

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the state of the stream to one that `state` has returned.  Valid only while it is not in place."""
        words, self._gauss, current = state
        self._kept[:] = memoryview(words).cast("I")
        self.current = _bits if current is None else current


def _differ(words: memoryview, kept: memoryview) -> bool:
    """Return whether something was drawn: a draw changes the position, first or last, or renews the key.

    A seed renews the key but its first word.
    """
    return words[-1] != kept[-1] or words[:4].tolist() != kept[:4].tolist()


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


def _words_of(instance: random.Random) -> memoryview | None:
    """Return the words of an instance's state, or None if they are not laid out as CPython lays them out.

    The layout is checked against `getstate`: it is no documented interface.
    """
    if _BASE.__basicsize__ < object.__basicsize__ + _STATE_BYTES:
        return None
    memory = (ctypes.c_char * _STATE_BYTES).from_address(id(instance) + object.__basicsize__)
    words = memoryview(memory).cast("B").cast("I")
    _, state, _ = instance.getstate()
    return words if (*words[1:], words[0]) == state else None


_words = _words_of(_instance)


class PythonStream:
    """The state of the module `random` of one process, in place only during its turns.

    With `_words` a change of turns is one copy of the state; without them, `setstate` and `getstate`, which are slow.
    """

    __slots__ = ("_gauss", "_kept", "_slow")

    def __init__(self, seed: int, pid: int) -> None:
        key = np.random.SeedSequence([seed, pid, 2]).generate_state(4)
        own = random.Random(int.from_bytes(key.tobytes(), "little"))
        words = _words_of(own)
        self._slow = own.getstate() if words is None else None
        self._kept = memoryview(bytearray(b"" if words is None else words)).cast("I")
        self._gauss: float | None = None

    def enter(self) -> None:
        """Put the state in place, for `random.random()` and its like to draw from."""
        if _words is None:
            assert self._slow is not None
            _instance.setstate(self._slow)
            return
        _words[:] = self._kept
        _instance.gauss_next = self._gauss

    def leave(self) -> None:
        """Keep what the process has drawn since it entered."""
        if _words is None:
            self._slow = _instance.getstate()
            return
        self._gauss = _instance.gauss_next
        if _differ(_words, self._kept):
            self._kept[:] = _words

    def state(self) -> tuple[Any, ...]:
        """Return the state of the stream.  Valid only while it is not in place."""
        return bytes(self._kept), self._gauss, self._slow

    def restore(self, state: tuple[Any, ...]) -> None:
        """Set the state of the stream to one that `state` has returned.  Valid only while it is not in place."""
        words, self._gauss, self._slow = state
        self._kept[:] = memoryview(words).cast("I")


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
    set_global_bits(_bits)
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
