"""The errors and warnings of array programs; each error is also of the class that NumPy would raise."""

from __future__ import annotations

from bsp.errors import BspError, LocalMistake


class ArrayError(LocalMistake):
    """A mistake in an array program, raised by the call that makes it."""


class LayoutError(ArrayError, ValueError):
    """A grid that does not fit the array or the processes."""


class PlanTooLarge(BspError, MemoryError):
    """A plan that needs more memory than the limit; raised before anything has run."""


class GatherRefused(BspError, MemoryError):
    """A conversion or function was refused because it would bring a large array to every process."""


class GatherWarning(UserWarning):
    """A large array is brought to every process, since a function has no distributed form; the text has the price."""


class RecomputedWarning(UserWarning):
    """A loop computes twice, in each round, an array that it carries to the next; persist() avoids it."""


class LoopWarning(UserWarning):
    """A loop is carried out as it is written, element by element of distributed arrays; the text says why."""


class ComprehensionError(ArrayError, ValueError):
    """A mistake in a comprehension; the message has a caret under it."""


class FileError(BspError, OSError):
    """A file that some process could not read or write; raised alike on every process."""


class NoSuchFile(FileError, FileNotFoundError):
    """A file that does not exist; raised alike on every process."""


class FormatError(BspError, ValueError):
    """A file that is not in the format of its reader, or ends early; raised alike on every process."""
