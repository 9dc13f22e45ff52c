"""Fault injection: the text of `bsprun --inject`, parsed and checked, as data.

    bsprun --clones 2 --inject "kill:element=3,superstep=17; slow:element=2,factor=10" heat.py

This module performs no fault: agents, workers, the transport, bsprun and the simulator each look for those that concern
them.  A fault refers to an element, its worker or a process, and to a superstep, never to a time, so that a run with
injected faults can be repeated.  Faults are parsed before anything starts, because a typing error must not turn a test
of resilience into a run without faults.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

Value = int | float | str


@dataclass(frozen=True)
class Fault:
    """A fault: its kind, and the fields that the kind takes (`KINDS`).  `str` returns the text that `parse` reads."""

    kind: str
    element: int | None = None
    worker: int | None = None  # the element whose worker is hit
    process: int | None = None
    superstep: int | None = None
    seconds: float | None = None
    status: int | None = None
    name: str | None = None  # the signal's name
    factor: float | None = None
    since: int | None = None  # "from" in the text
    until: int | None = None  # inclusive
    D: float | None = None
    unit: float | None = None
    rate: float | None = None
    seed: int | None = None
    clone: int = 0
    what: str = "message"

    def __str__(self) -> str:
        given = (f"{key}={_text(value)}" for key, value in self._given())
        return f"{self.kind}:{','.join(given)}"

    @property
    def host(self) -> int | None:
        """The element that is hit, itself or its worker; None if the fault refers to no element."""
        return self.worker if self.element is None else self.element

    def lasts(self, superstep: int) -> bool:
        """Return whether a superstep lies in the fault's range from..until, both included."""
        return (self.since is None or superstep >= self.since) and (self.until is None or superstep <= self.until)

    def _given(self) -> Iterator[tuple[str, Value]]:
        """Yield the keys of the fault's kind, as in the text, with those values that are not the defaults."""
        for key in KINDS[self.kind].keys:
            field = _FIELDS.get(key, key)
            value = getattr(self, field)
            if value != getattr(Fault, field):
                yield key, value


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault: its effect, the keys it takes, and an example."""

    does: str
    needs: tuple[str, ...]  # required keys; "element|worker": exactly one of the two
    may: tuple[str, ...]  # optional keys
    example: str

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that the kind takes, required and optional."""
        return tuple(key for need in (*self.needs, *self.may) for key in need.split("|"))


_HIT = ("element|worker", "superstep")

KINDS: Mapping[str, FaultKind] = {
    "kill": FaultKind("SIGKILL to an element (its agent) or its worker", _HIT, (), "kill:element=3,superstep=17"),
    "stop": FaultKind(
        "SIGSTOP, and after `seconds` SIGCONT", _HIT, ("seconds",), "stop:element=1,superstep=5,seconds=2"
    ),
    "signal": FaultKind("the signal of this name", (*_HIT, "name"), (), "signal:worker=0,superstep=4,name=SIGSEGV"),
    "exit": FaultKind(
        "os._exit in user code", ("worker", "superstep", "status"), (), "exit:worker=1,superstep=3,status=1"
    ),
    "raise": FaultKind("an exception in user code", ("worker", "superstep"), (), "raise:worker=1,superstep=3"),
    "slow": FaultKind(
        "an element computes `factor` times as long, in supersteps from..until",
        ("element", "factor"),
        ("from", "until"),
        "slow:element=2,factor=10,from=5,until=9",
    ),
    "tails": FaultKind(
        "every element's compute time is stretched by a factor of its own each superstep, above t with"
        " probability t^-D; with `unit`, that many seconds are stretched instead, whatever it computes",
        ("D", "seed"),
        ("unit",),
        "tails:D=2,seed=1",
    ),
    "flip": FaultKind(
        "one bit of what a clone of a process sends, or of its state",
        ("process", "superstep"),
        ("clone", "what"),
        "flip:process=4,superstep=9",
    ),
    "drop": FaultKind("packets vanish at this rate", ("rate", "seed"), (), "drop:rate=0.01,seed=1"),
    "delay": FaultKind("packets are late", ("rate", "seed", "seconds"), (), "delay:rate=0.01,seed=1,seconds=0.2"),
    "duplicate": FaultKind("packets arrive twice", ("rate", "seed"), (), "duplicate:rate=0.01,seed=1"),
}


def parse(text: str) -> tuple[Fault, ...]:
    """Return the faults in `kind:key=value,key=value; kind:...`.  Raises ValueError, which quotes the wrong part."""
    if not text.strip():
        raise ValueError(f"--inject: no fault in {text!r}; the kinds are {', '.join(KINDS)}; {_example('kill')}")
    return tuple(_parse_one(part.strip(), text) for part in text.split(";"))


def check(faults: Iterable[Fault], elements: int, nprocs: int) -> None:
    """Raise ValueError if a fault refers to an element or a process that the job does not have."""
    for fault in faults:
        for what, number, count in (("element", fault.host, elements), ("process", fault.process, nprocs)):
            if number is not None and not 0 <= number < count:
                there = f"only {what} 0" if count == 1 else f"only 0 to {count - 1}"
                raise ValueError(f"--inject: {str(fault)!r}: there is no {what} {number}, {there}")


def stretch(D: float, seed: int, element: int, superstep: int) -> float:
    """Return the factor by which `tails` multiplies an element's compute time: Pareto, P(factor > t) = t^-D, t >= 1.

    A pure function of its arguments, so every run draws the same factors.  McColl 1.8.2: 'an expected fraction P/t^D of
    the processing elements will fail to complete any round in less than t·MinTime'.
    """
    if not D > 0:
        raise ValueError(f"D must be above 0, not {D}")
    word = int(np.random.SeedSequence(seed, spawn_key=(element, superstep)).generate_state(1, np.uint64)[0])
    uniform = ((word >> 11) + 0.5) * 2.0**-53  # 53 random bits; the half keeps it off 0 and 1
    return math.exp(min(-math.log(uniform) / D, 700.0))  # finite for any D


# -------------------------------------------------------------------------------- keys and values

# each function returns the value of a key; it raises ValueError with what a value must be, for `_parse_item`


def _natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError("a whole number from 0 on")
    return int(text)


def _status(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > 255:
        raise ValueError("an exit status from 0 to 255")
    return int(text)


def _number(text: str, wanted: str, fits: Callable[[float], bool]) -> float:
    """Return the finite number in `text` if it `fits`.  Raises ValueError with `wanted`, what a value must be."""
    try:
        value = float(text) if re.fullmatch(r"[0-9.eE+-]+", text) else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and fits(value)):
        raise ValueError(wanted)
    return value


def _positive(text: str) -> float:
    return _number(text, "a number above 0", lambda value: value > 0)


def _factor(text: str) -> float:
    return _number(text, "a number from 1 on", lambda value: value >= 1)


def _rate(text: str) -> float:
    return _number(text, "a number above 0 and not above 1", lambda value: 0 < value <= 1)


def _signal(text: str) -> str:
    if text not in signal.Signals.__members__:
        raise ValueError("a signal of this system, like SIGSEGV, SIGABRT or SIGTERM")
    return text


def _what(text: str) -> str:
    if text not in ("message", "state"):
        raise ValueError("message or state")
    return text


_VALUES: Mapping[str, Callable[[str], Value]] = {
    "element": _natural,
    "worker": _natural,
    "process": _natural,
    "superstep": _natural,
    "seconds": _positive,
    "status": _status,
    "name": _signal,
    "factor": _factor,
    "from": _natural,
    "until": _natural,
    "D": _positive,
    "unit": _positive,
    "rate": _rate,
    "seed": _natural,
    "clone": _natural,
    "what": _what,
}
_FIELDS = {"from": "since"}  # `from` is a keyword of Python and cannot be a field's name


def _text(value: Value) -> str:
    """Return the shortest text that is parsed to the same value."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


# ------------------------------------------------------------------------------------ one fault


def _parse_one(part: str, text: str) -> Fault:
    """Return the fault in one part of `text`.  Raises ValueError."""
    if not part:
        raise ValueError(f"--inject: there is an empty part in {text!r}; faults are separated by one ';'")
    name, colon, rest = part.partition(":")
    name = name.strip()
    if name not in KINDS:
        raise ValueError(f"--inject: {part!r}: no kind {name!r}; the kinds are {', '.join(KINDS)}; {_example('kill')}")
    if not colon or not rest.strip():
        raise _wrong(part, name, "nothing after the kind")
    given: dict[str, Value] = {}
    for item in rest.split(","):
        key, value = _parse_item(part, name, item)
        if key in given:
            raise _wrong(part, name, f"{key} is given twice")
        given[key] = value
    for need in KINDS[name].needs:
        have = [key for key in need.split("|") if key in given]
        if not have:
            raise _wrong(part, name, f"{' or '.join(need.split('|'))} is missing")
        if len(have) > 1:
            raise _wrong(part, name, f"{' and '.join(have)} exclude each other")
    fault = Fault(name, **{_FIELDS.get(key, key): value for key, value in given.items()})  # type: ignore[arg-type]
    if fault.since is not None and fault.until is not None and fault.since > fault.until:
        raise _wrong(part, name, f"from={fault.since} is after until={fault.until}")
    return fault


def _parse_item(part: str, kind: str, item: str) -> tuple[str, Value]:
    """Return the key and the value of one `key=value` of a fault.  Raises ValueError."""
    key, equals, value = (piece.strip() for piece in item.partition("="))
    if not equals or not key or not value:
        raise _wrong(part, kind, f"{item.strip()!r} is not key=value")
    if key not in KINDS[kind].keys:
        raise _wrong(part, kind, f"no key {key!r}")
    try:
        return key, _VALUES[key](value)
    except ValueError as wanted:
        raise _wrong(part, kind, f"{key} is {wanted}, not {value!r}") from None


def _wrong(part: str, kind: str, reason: str) -> ValueError:
    """Return the error for a wrong part: the reason, the keys that the kind takes, and an example."""
    needs = ", ".join(need.replace("|", " or ") for need in KINDS[kind].needs)
    may = "".join(f", {key}" for key in KINDS[kind].may)
    takes = f"{kind} takes {needs}" + (f" (optional: {may[2:]})" if may else "")
    return ValueError(f"--inject: {part!r}: {reason}; {takes}; {_example(kind)}")


def _example(kind: str) -> str:
    """Return an example of a kind, for messages."""
    return f"for example {KINDS[kind].example}"
