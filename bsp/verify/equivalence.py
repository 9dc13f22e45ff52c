"""Equivalence: an SPMD program against its sequential specification, case by case, the smallest first."""

from __future__ import annotations

import copy
import inspect
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np

from bsp.engine.reordering import Reordering
from bsp.errors import BspError
from bsp.runner import blas_limit, run_here
from bsp.transport.base import Solo
from bsp.verify.cases import Case, Shape, numeric, ordered, symbolic
from bsp.verify.distributions import Blocks, Distribution, NoAxis, Unlawful, collected, differences, lawful, plain
from bsp.verify.polynomials import NeedsValue

SIZES = range(7)  # of each name, unless the caller gives others
NPROCS = (1, 2, 3, 4)
_INPUTS = 3  # of numbers in a case that is not proven for all
_SHRUNK = 60  # runs in which a counterexample's input is made simpler

Program = Callable[..., Any]
Values = Callable[..., Sequence[Any]]


class Counterexample(AssertionError):
    """A case in which a program does not compute what its specification does: the smallest that was found.

    case, inputs : the sizes, the number of processes, and the global arguments.  found, wanted : the results, or an
        exception of the program.  order : of turns, if the case fails in that order and holds in that of pids; else "".
    """

    def __init__(
        self, text: str, case: Case, inputs: Sequence[Any], found: object, wanted: object, order: str = ""
    ) -> None:
        super().__init__(text)
        self.case, self.inputs, self.found, self.wanted = case, tuple(inputs), found, wanted
        self.order = order


class NotEnding(BspError):
    """A program has not ended within the supersteps, or the seconds, that a check allows."""


class Equivalence(NamedTuple):
    """The evidence that a program computes its specification.

    proven : the cases that hold for all values.  tried : those that hold for the inputs that were tried.
    left_out : the cases that were not run, because they were too many.  why : why not all are proven, or "".
    ordered : the first case that holds only because puts and messages of several processes are applied in the order of
        their sources (D1, D2); None if none was found.
    """

    proven: list[Case]
    tried: list[Case]
    left_out: int
    why: str
    ordered: Case | None = None

    def __str__(self) -> str:
        parts = [f"equivalent in {len(self.proven) + len(self.tried)} cases"]
        if self.proven:
            parts.append(f"{len(self.proven)} of them proven for all values")
        if self.tried:
            parts.append(f"{len(self.tried)} for {_INPUTS} inputs each" + (f" ({self.why})" if self.why else ""))
        if self.ordered is not None:
            parts.append(f"needs the order in which puts and messages are applied (D1, D2), first for {self.ordered}")
        if self.left_out:
            parts.append(f"{self.left_out} larger cases were left out: raise limit= to run them")
        return "; ".join(parts)


def equivalent(
    program: Program, specification: Callable[..., Any], *,
    distribute: Distribution | Sequence[Distribution] | None = None, collect: Distribution | None = None,
    shapes: Sequence[Shape] | None = None, sizes: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    nprocs: Sequence[int] = NPROCS, values: Values | None = None, assume: Callable[..., bool] | None = None,
    exact: bool = True, tolerance: float = 0.0, limit: int = 2000, seed: int = 0, orders: int = 1,
    supersteps: int = 1000, seconds: float = 20.0,
) -> Equivalence:  # fmt: skip
    """Check that `program(proc, *parts)` computes `specification(*globals)` after its parts are collected.

    distribute : of each argument, or of all; Blocks() by default.  collect : of the result, likewise.
    shapes : of the arguments, as names of sizes and numbers: (("n", "m"), ("m",)); by default all are vectors of n.
    sizes : the lengths to try, for each name or for all; by default 0 to 6.  nprocs : the numbers of processes.
    values : makes the arguments instead: values(rng, **sizes).
    assume : whether a case counts: assume(nprocs=..., n=...).
    exact : False: floats, compared with `tolerance`, relative to the largest element.
    limit : of all cases at most so many are run, the smallest.
    orders : in so many other orders of turns each case is run, too: the reverse of pids, then random ones.
    supersteps, seconds : what a run may take before it counts as one that does not end.
    Inputs are unknowns first, which proves a case for all values (see `polynomials`).  Where the program needs numbers,
    they are integers: distinct ones, random ones, and small random ones, of which some are equal.
    One order of turns stands for all where processes share nothing (Xu, section 4.3), which the other orders test.
    Where several processes put to, or send to, one, the sources are also applied in other orders: a program that needs
    that of D1 and D2 is told from others (`ordered`), and holds.
    Raises Counterexample with the smallest failing case, its input made simpler where that still fails; Unlawful for
    distributions that break their laws; ValueError if there is no case to check, if a size of the shapes has no lengths
    or a number of processes is none, or if a distribution along the first axis is to distribute or collect a scalar;
    TypeError for what is no distribution; what the specification raises, with a note.
    """
    count = _arguments(program)
    given = (
        [distribute or Blocks()] * count
        if distribute is None or isinstance(distribute, Distribution)
        else [*distribute]
    )
    by, forms = collect or Blocks(), [("n",)] * count if shapes is None else [*shapes]
    if not len(given) == len(forms) == count:
        raise ValueError(f"equivalent: {count} arguments, {len(given)} distributions, {len(forms)} shapes")
    for each in dict.fromkeys([*given, by]):
        if not isinstance(each, Distribution):
            raise TypeError(f"equivalent: {each!r:.60} is no distribution, such as verify.Blocks()")
        lawful(each)
    if orders < 0:
        raise ValueError(f"equivalent: orders={orders}: 0 or more other orders of turns and arrivals")
    names = list(dict.fromkeys(name for form in forms for name in form if isinstance(name, str))) or ["n"]
    lengths = sizes if isinstance(sizes, Mapping) else dict.fromkeys(names, SIZES if sizes is None else sizes)
    if values is None and (unknown := [name for name in names if name not in lengths]):
        raise ValueError(f"equivalent: sizes={dict(lengths)} has no lengths of {unknown[0]!r}, a size of the shapes")
    if not all(isinstance(p, (int, np.integer)) and p > 0 for p in nprocs):
        raise ValueError(f"equivalent: nprocs={tuple(nprocs)}: numbers of processes are integers from 1")
    cases = ordered({name: list(each) for name, each in lengths.items()}, list(nprocs), assume)
    if limit < 1 or not cases:
        why = f"limit={limit}" if limit < 1 else f"sizes={dict(lengths)}, nprocs={tuple(nprocs)}"
        raise ValueError(
            f"equivalent: there is no case to check {_name(program)} for: {why}" + (", assume=..." if assume else "")
        )
    check = _Check(program, specification, given, by, exact, tolerance, orders, supersteps, seconds)
    proven: list[Case] = []
    tried: list[Case] = []
    why = ""
    with blas_limit(1):  # D8
        for case in cases[:limit]:
            if values is None and exact and not why:
                try:
                    check.holds(case, symbolic(forms, case))
                    proven.append(case)
                    continue
                except _Undecided as undecided:
                    why = str(undecided)
            for inputs in _inputs(values, forms, case, seed):
                check.holds(case, inputs)
            tried.append(case)
    return Equivalence(proven, tried, max(0, len(cases) - limit), why, check.ordered)


def _arguments(program: Program) -> int:
    """Return the number of arguments of a program besides the process."""
    return max(0, len(inspect.signature(program).parameters) - 1)


def _inputs(values: Values | None, forms: Sequence[Shape], case: Case, seed: int) -> Iterator[list[Any]]:
    if values is None:
        yield from numeric(forms, case, _INPUTS, seed)
        return
    for k in range(_INPUTS):
        yield [*values(np.random.default_rng([seed, k]), **case.sizes)]


class _Undecided(Exception):
    """The program does not run on unknowns; the text says why."""


class _Check:
    """One program, its specification, and how their values are related."""

    def __init__(
        self, program: Program, specification: Callable[..., Any], distribute: list[Distribution],
        collect: Distribution, exact: bool, tolerance: float, orders: int, supersteps: int, seconds: float,
    ) -> None:  # fmt: skip
        self.program, self.specification = program, specification
        self.distribute, self.collect = distribute, collect
        self.exact, self.tolerance = exact, tolerance
        self.supersteps, self.seconds = supersteps, seconds
        named: list[tuple[str, int | None]] = [("the reverse of pids", None)]
        named += [(f"shuffled by seed {k}", k) for k in range(1, orders)]
        self.orders = dict(named[:orders])  # and their seeds
        self.ordered: Case | None = None  # the first that needs D1's or D2's order

    def holds(self, case: Case, inputs: list[Any]) -> None:
        """Raise Counterexample unless both agree on some inputs; _Undecided if these are unknowns and do not do.

        The other orders come first: what a run leaves in memory that processes share, as if the processes before had
        just put it there, is then of another case, and gives nothing right in this one.
        """
        failed: tuple[str, Any] | None = None
        meetings = False
        for named, seed in self.orders.items() if case.nprocs > 1 else ():
            order = Reordering(seed)
            wrong = self._wrong(case, inputs, order)
            meetings = meetings or order.meetings
            if wrong is not None:
                failed = named, wrong
                break
        wrong = self._wrong(case, inputs)
        if wrong is not None:
            self._refuted(case, inputs, wrong)
        if failed is not None:
            self._refuted(case, inputs, failed[1], failed[0])
        if meetings and self.ordered is None:
            every = (Reordering(seed, turns=False, arrivals=True) for seed in self.orders.values())
            if any(self._wrong(case, inputs, order) is not None for order in every):
                self.ordered = case

    def _refuted(self, case: Case, inputs: list[Any], wrong: Any, named: str = "") -> NoReturn:
        """Raise the counterexample, its input made simpler.  named : the order of turns, if not that of pids."""
        if not _unknown(inputs):
            inputs, wrong = self._simpler(case, inputs, wrong, named)
        what, found, wanted = wrong
        shown = ", ".join(_shown(each) for each in inputs)
        where = "\n".join(f"  {name}: {_place(each)}" for name, each in
                          (("program", self.program), ("specification", self.specification)))  # fmt: skip
        only = ""
        if named:
            only = (
                f", but only when processes take their turns in another order ({named}): it depends on what processes "
                "of one interpreter share (modules, closures, files)"
            )
        raise Counterexample(
            f"{_name(self.program)} is not {_name(self.specification)} for {case}{only}\n"
            f"  input: {shown}\n  {what}\n{where}",
            case, inputs, found, wanted, named,
        )  # fmt: skip

    def _wrong(self, case: Case, inputs: list[Any], order: Reordering | None = None) -> tuple[str, Any, Any] | None:
        """Return what differs, the result and the one that is wanted; None if they agree.

        order : of turns and arrivals; None: that of pids.
        """
        unknown, raised = _unknown(inputs), NeedsValue.raised
        try:
            wanted = self.specification(*copy.deepcopy(inputs))
        except Exception as error:
            if unknown:
                raise _Undecided(f"{_name(self.specification)} needs numbers: {error}") from None
            error.add_note(f"raised by the specification {_place(self.specification)} for {case}: {inputs}")
            raise
        try:
            parts = [
                [by.take(each, pid, case.nprocs) for by, each in zip(self.distribute, inputs, strict=True)]
                for pid in range(case.nprocs)
            ]
        except NoAxis as wrong:
            raise ValueError(
                f"{_name(self.program)}: an argument is a scalar. {wrong}: use distribute=Everywhere() for it"
            ) from None
        try:
            with _at_most(self.seconds):
                main = _guarded(self.program, self.supersteps)
                returned = run_here(main, (parts,), case.nprocs, Solo(), 0, reordering=order)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any error of a program refutes it, and so does an exit
            if unknown and not isinstance(error, NotEnding):
                raise _Undecided(f"{_name(self.program)} needs numbers: {_first_line(error)}") from None
            return f"it raises {type(error).__name__}: {_first_line(error)}", error, wanted
        if unknown and NeedsValue.raised > raised:  # what it did then is no evidence of what it does with numbers
            raise _Undecided("it decides by values, and catches the exception that an unknown raises")
        try:
            found = collected(self.collect, returned, wanted)
        except Unlawful as wrong:
            return str(wrong), returned, wanted
        except NoAxis as wrong:
            raise ValueError(
                f"{_name(self.program)}: {_name(self.specification)} gives a scalar. {wrong}: use collect=Everywhere() "
                "if every process returns the scalar, or collect=OnRoot() if process 0 alone does"
            ) from None
        return self._difference(found, np.asarray(wanted))

    def _difference(self, found: np.ndarray, wanted: np.ndarray) -> tuple[str, Any, Any] | None:
        if self.exact:
            different = differences(found, wanted)
        else:
            different = ~_near(found.astype(complex), wanted.astype(complex), self.tolerance)
        if not different.any():
            return None
        at = tuple(int(k) for k in np.argwhere(different.reshape(wanted.shape))[0]) if wanted.ndim else ()
        where = f"element {list(at)}" if at else "the result"
        return f"{where}: {plain(found[at])!r}, but {plain(wanted[at])!r} is specified", found, wanted

    def _simpler(self, case: Case, inputs: list[Any], wrong: Any, named: str) -> tuple[list[Any], Any]:
        """Return inputs with as many zeros and ones as still fail."""
        runs = 0
        for k, each in enumerate(inputs):
            if not isinstance(each, np.ndarray):
                continue
            for at in np.ndindex(*each.shape):
                for simple in (0, 1):
                    if runs >= _SHRUNK or inputs[k][at] == simple:
                        break
                    trial = copy.deepcopy(inputs)
                    trial[k][at] = simple
                    runs += 1
                    found = self._wrong(case, trial, Reordering(self.orders[named]) if named else None)
                    if found is not None:
                        inputs, wrong = trial, found
                        break
        return inputs, wrong


def _unknown(inputs: Sequence[Any]) -> bool:
    """Return whether some input is an array of unknowns."""
    return any(isinstance(each, np.ndarray) and each.dtype.hasobject for each in inputs)


def _near(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> np.ndarray:
    """Return where complex numbers differ by at most the tolerance, relative to the largest finite one.

    NaN and infinity are near to themselves only, in the real and in the imaginary part.
    """
    most = tolerance * max(1.0, float(abs(wanted[np.isfinite(wanted)]).max(initial=0)))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        far = abs(found - wanted) > most
    parts = ((found.real, wanted.real), (found.imag, wanted.imag))
    near = [np.isclose(a, b, rtol=0, atol=most, equal_nan=True) for a, b in parts]
    return np.array(near[0] & near[1] & ~far, bool)


def _guarded(program: Program, supersteps: int) -> Callable[..., Any]:
    """Return a program that ends with NotEnding after so many supersteps."""

    def main(proc: Any, parts: list[list[Any]]) -> Any:
        task = proc._task
        boundary, ended = task.boundary, 0

        def counted(call: Any) -> Any:
            nonlocal ended
            ended += 1
            if ended > supersteps:
                raise NotEnding(f"it has not ended after {supersteps} supersteps")
            return boundary(call)

        proc._boundary = task.boundary = counted
        try:
            return program(proc, *parts[proc.pid])
        finally:
            proc._boundary = task.boundary = boundary

    return main


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise NotEnding inside the block after so many seconds, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: Any) -> None:
        raise NotEnding(f"it has not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _place(function: Any) -> str:
    """Return the file and line of a function."""
    try:
        _, line = inspect.getsourcelines(function)
        return f"{_name(function)}, {inspect.getsourcefile(function)}:{line}"
    except (OSError, TypeError):
        return _name(function)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]


def _shown(value: Any) -> str:
    text = repr(plain(value))
    return text if len(text) <= 200 else text[:197] + "..."
