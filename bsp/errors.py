"""What can go wrong, split by who broke the rule.

A *local* mistake is one process's own: it raises at the call.  A *collective* mistake is only
visible when processes are compared: the same exception is raised on every process, and it names
both source lines.  A *failure* is what the other processes see when one of them raised or left.
"""

from __future__ import annotations


class BspError(Exception):
    """Base of everything this package raises on purpose."""


# ---------------------------------------------------------------- local: raised at the call


class LocalMistake(BspError):
    """A call that is wrong by itself, whatever the other processes do."""


class PutOutOfRange(LocalMistake, IndexError):
    """A put addresses memory the destination does not have."""


class GetOutOfRange(LocalMistake, IndexError):
    """A get addresses memory the source does not have."""


class NoSuchProcess(LocalMistake, ValueError):
    """A pid that is not an integer in 0..nprocs-1."""


class CastError(LocalMistake, TypeError):
    """Values whose dtype does not cast to the coarray's under the rule 'same_kind'."""


class ShapeError(LocalMistake, ValueError):
    """Values, positions or counts whose shapes do not fit each other."""


class NotRegistered(LocalMistake, ValueError):
    """A coarray that is released, another process's, or of a run that has ended."""


class CannotSend(LocalMistake, TypeError):
    """A payload that cannot be pickled."""


class CannotMove(LocalMistake, TypeError):
    """Something in a `bsp.State` that cannot be pickled: no clone could take it over, no checkpoint keep it."""


class NotReady(LocalMistake, RuntimeError):
    """The value of a get was read before the boundary that delivers it."""


class UnknownOperation(LocalMistake, ValueError):
    """An `op` that names no known operation, or one undefined for the dtype."""


class UnknownAlgorithm(LocalMistake, ValueError):
    """`algorithm=` names none that this collective has."""


class BoundaryInImport(LocalMistake, RuntimeError):
    """A boundary, or `bsp.process()`, in a module while it is imported: modules are shared between processes."""


class WrongThread(LocalMistake, RuntimeError):
    """A boundary called by a thread that the process has started."""


class Forked(LocalMistake, RuntimeError):
    """A boundary called in a child of a process, made by `os.fork`: the child is none of the job's processes."""


class EffectsLost(LocalMistake, RuntimeError):
    """Puts, gets or sends issued after the last boundary: nothing would ever deliver them."""


# ------------------------------------------------- collective: the same on every process


class CollectiveMistake(BspError):
    """Processes disagree about what they do together."""


class SyncMismatch(CollectiveMistake):
    """Processes stand at different boundaries, or some have returned while others wait."""


class RegistrationMismatch(CollectiveMistake):
    """Coarrays do not match by creation order: their number, dtype or dimensions differ."""


class TransferMismatch(CollectiveMistake):
    """A `transfer` with two senders for one receiver, or sent and expected not matching."""


class Overlap(CollectiveMistake):
    """--check: two accesses of one superstep touch the same elements without a common `op`."""


class ScheduleDependence(CollectiveMistake):
    """--check: the order in which processes took their turns changed some bytes."""


class Undeclared(CollectiveMistake):
    """--check: a round needs something of the last one that is not in its bsp.State: a newcomer goes astray."""


class Nondeterminism(CollectiveMistake):
    """--check: two runs of the same program differ: unseeded randomness, the clock, the order of a set."""


# ------------------------------------------------------------------ failure of another process


class ProcessFailed(BspError):
    """Another process raised; its traceback is printed once, by the job."""


class ProcessExited(BspError):
    """Another process called `sys.exit` with a status while this one waits."""


class LaunchError(BspError):
    """The job could not be started as asked."""


# --------------------------------------------------------------------------- prices and records


class MachineError(BspError, ValueError):
    """A machine file that is damaged, no machine file at all, or of another machine than asked for."""


class TraceError(BspError, ValueError):
    """A trace file that is damaged, no trace at all, or of a version this one does not read."""


class NoRoom(BspError, MemoryError):
    """A prediction with real data needs more memory than there is."""


class NoInput(BspError, EOFError):
    """A prediction of a script that reads standard input."""


class ValueNeeded(BspError, RuntimeError):
    """--abstract: the program asks for a value that is carried as a shape only."""
