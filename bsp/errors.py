"""The exceptions of the runtime, in groups by who broke the rule.

A *local* mistake is one process's own: it raises at the call.  A *collective* mistake is only
visible when processes are compared: the same exception is raised on every process, and it names
both source lines.  A *failure* is what the other processes see when one of them raised or left.
After a collective mistake or a failure the job has failed: every later boundary raises it again (B6).
"""

from __future__ import annotations


class BspError(Exception):
    """Base class of every exception that this package raises on purpose.

    IPython and Jupyter print it without the frames of this package.
    """

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints; it calls this method of exceptions that have it."""
        from bsp.notebook import rendered

        return rendered(self)


# ---------------------------------------------------------------- local: raised at the call


class LocalMistake(BspError):
    """A call that is wrong by itself, whatever the other processes do."""


class PutOutOfRange(LocalMistake, IndexError):
    """A put that addresses memory which the destination does not have."""


class GetOutOfRange(LocalMistake, IndexError):
    """A get that addresses memory which the source does not have."""


class NoSuchProcess(LocalMistake, ValueError):
    """A pid that is not an integer in 0..nprocs-1."""


class CastError(LocalMistake, TypeError):
    """Values or arrays of the wrong kind: their dtype does not cast to the coarray's under the rule 'same_kind'.

    Also raised for an array that cannot be registered: one that is not contiguous or writable, or holds objects.
    """


class ShapeError(LocalMistake, ValueError):
    """Values, positions or counts whose shapes do not fit each other."""


class NotRegistered(LocalMistake, ValueError):
    """A coarray or process handle that cannot be used: released, another process's, or of a run that has ended."""


class CannotSend(LocalMistake, TypeError):
    """A payload that cannot be pickled."""


class CannotMove(LocalMistake, TypeError):
    """A value that cannot leave its place: one in a `bsp.State` that has no pickle, a `bsp.Session`, or a handle."""


class NotReady(LocalMistake, RuntimeError):
    """A value read before the boundary that delivers it: a get's, or the shape of a coarray on another process."""


class UnknownOperation(LocalMistake, ValueError):
    """An `op` that names no known operation, or one undefined for the dtype."""


class UnknownAlgorithm(LocalMistake, ValueError):
    """An `algorithm=` that the collective does not have."""


class BoundaryInImport(LocalMistake, RuntimeError):
    """A boundary, or `bsp.process()`, in a module while it is imported: modules are shared between processes."""


class BoundaryInOnce(LocalMistake, RuntimeError):
    """A boundary inside a call of `once`, in cloned execution: clones that do not make the call would miss it."""


class WrongThread(LocalMistake, RuntimeError):
    """A boundary called by a thread that the process has started: only the process itself ends its supersteps."""


class Forked(LocalMistake, RuntimeError):
    """A boundary, or a call of a `bsp.Session`, in a child made by `os.fork`: it belongs to the process that forked."""


class EffectsLost(LocalMistake, RuntimeError):
    """Puts, gets or sends issued after the last boundary: nothing would ever deliver them (B5)."""


# ------------------------------------------------- collective: the same on every process


class CollectiveMistake(BspError):
    """A disagreement between processes about what they do together; raised on every process alike."""


class SyncMismatch(CollectiveMistake):
    """Processes wait at different boundaries, or some have returned while others wait."""


class RegistrationMismatch(CollectiveMistake):
    """Coarrays that do not match by creation order (B3): their number, dtype, dimensions or releases differ."""


class TransferMismatch(CollectiveMistake):
    """A `transfer` with two senders for one receiver, or one whose `to` and `expect` do not match."""


class Overlap(CollectiveMistake):
    """Found by --check: two accesses of one superstep touch the same elements without a common `op`."""


class ScheduleDependence(CollectiveMistake):
    """Found by --check: the order in which processes took their turns changed some bytes."""


class Undeclared(CollectiveMistake):
    """Found by --check: a round needs a value that is not in its bsp.State; a joining clone would compute wrongly."""


class Nondeterminism(CollectiveMistake):
    """Found by --check: two runs of the program differ, by unseeded randomness, the clock, or the order of a set."""


# ------------------------------------------------------------------ failure of another process


class ProcessFailed(BspError):
    """Another process raised an exception; its traceback is printed once, by the job."""


class ProcessExited(BspError):
    """Another process called `sys.exit` with a non-zero status while this one waits."""


class LaunchError(BspError):
    """A job that could not be started as asked, or that ended without results."""


class SessionEnded(BspError):
    """A call of a `bsp.Session` that has ended: closed, interrupted, or after an element died or processes disagreed.

    Start a new one.
    """


# --------------------------------------------------------------------------- prices and records


class MachineError(BspError, ValueError):
    """A machine file that cannot be used: damaged, of another format, or of another machine than asked for."""


class TraceError(BspError, ValueError):
    """A trace file that cannot be used: damaged, of another format, or of a version that this release does not read."""


class NoRoom(BspError, MemoryError):
    """A prediction with real data that needs more memory than there is."""


class NoInput(BspError, EOFError):
    """A prediction of a script that reads standard input."""


class ValueNeeded(BspError, RuntimeError):
    """The program asks for a value in a run without values (--abstract), where arrays carry shapes only."""
