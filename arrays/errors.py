"""What can be wrong with array programs; each also is the error NumPy would raise for it."""

from __future__ import annotations

from bsp.errors import BspError, LocalMistake


class ArrayError(LocalMistake):
    """A mistake in an array program, found where it is made."""


class LayoutError(ArrayError, ValueError):
    """A grid that does not fit the array or the processes."""


class PlanTooLarge(BspError, MemoryError):
    """A plan that needs more memory than there is; nothing has run."""


class GatherRefused(BspError, MemoryError):
    """A conversion or function that would bring a large array to every process."""


class GatherWarning(UserWarning):
    """A function has no distributed form, so a large array is brought to every process; with the price."""


class RecomputedWarning(UserWarning):
    """A loop computes what it carries from round to round twice in each; persist() it."""


class ComprehensionError(ArrayError, ValueError):
    """A comprehension that cannot be read, with a caret under what is wrong."""


class FileError(BspError, OSError):
    """A file that some process could not read or write; the same error on every process."""


class NoSuchFile(FileError, FileNotFoundError):
    """A file that is not there."""


class FormatError(BspError, ValueError):
    """A file that is not what its reader takes, or ends early; the same error on every process."""
