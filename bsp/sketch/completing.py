"""Completion: candidates against examples, and counterexamples that become examples (CEGIS)."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.sketch.sources import NumberedSketch, OpenHole, completed, most_times, prepared, sketched
from bsp.verify.distributions import same
from bsp.verify.equivalence import Counterexample, equivalent

_CONTEXTS = 64  # different operands of an expression in a run, up to which equal expressions are found


class NoCompletion(ValueError):
    """No values of the holes make the sketch compute its specification."""


class Completion(NamedTuple):
    """A completed sketch.  source : Python without holes.  function : the same, compiled.  tried : candidates run."""

    source: str
    function: Callable[..., Any]
    tried: int
    examples: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.source}\n# {self.tried} candidates, {self.examples} examples, {self.seconds:.2f} s"


def complete(
    sketch: Callable[..., Any], specification: Callable[..., Any], *, inputs: Iterable[tuple[Any, ...]] | None = None,
    most: int = 1_000_000, **options: Any,
) -> Completion:  # fmt: skip
    """Return a completion of a sketch that computes what `specification` does.

    inputs : of a plain function: the arguments to compare on, all of them.  Without, the sketch is an SPMD program,
        `sketch(proc, *parts)`, and `options` are those of `bsp.verify.equivalent`.
    most : candidates at most.
    Results are compared exactly.  An exception refutes a candidate.  `repeat` takes the least number of times.
    Raises NoCompletion, with the example that the last candidates did not compute; ValueError if there are no inputs,
    or a hole has no values or an unknown operator; TypeError for a sketch that is a lambda, and for inputs that are no
    tuples.
    """
    began, tried = time.perf_counter(), 0
    every = None if inputs is None else list(inputs)  # each number of repetitions is checked on them
    check: _Plain | _Parallel
    refused = ""
    for times in range(most_times(sketch) + 1) if most_times(sketch) else [0]:
        found = sketched(sketch, times)
        check = _Plain(specification, every) if every is not None else _Parallel(specification, options)
        search = _Completing(found, check, most - tried)
        chosen = search.run()
        tried += search.tried
        if chosen is not None:
            source, function = completed(found, chosen)
            return Completion(source, function, tried, len(search.examples), time.perf_counter() - began)
        refused = search.refused
    raise NoCompletion(f"{sketch.__name__}: none of {tried} candidates computes {refused or 'its specification'}")


class _Plain:
    """The check of a plain function on all inputs."""

    def __init__(self, specification: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> None:
        self.pairs = []
        for args in inputs:
            if not isinstance(args, (tuple, list)):
                raise TypeError(f"complete: inputs holds {args!r:.80}; each is a tuple of the arguments, such as (1,)")
            self.pairs.append((args, specification(*copy.deepcopy(args))))
        if not self.pairs:
            raise ValueError("complete: inputs is empty; any candidate would do")

    def fails(self, candidate: Callable[..., Any], example: Any) -> bool:
        args, wanted = example
        try:
            return not _same(candidate(*copy.deepcopy(args)), wanted)
        except Exception:  # noqa: BLE001 - an error refutes a candidate
            return True

    def first(self) -> list[Any]:
        return self.pairs[:1]

    def refuted(self, candidate: Callable[..., Any]) -> Any:
        """Return an example that a candidate does not compute, or None."""
        return next((pair for pair in self.pairs if self.fails(candidate, pair)), None)

    @staticmethod
    def shown(example: Any) -> str:
        return f"{example[1]!r:.80} of {example[0]!r:.120}"


class _Parallel:
    """The check of an SPMD program by `equivalent`."""

    def __init__(self, specification: Callable[..., Any], options: dict[str, Any]) -> None:
        self.specification, self.options = specification, {"seconds": 5.0, "supersteps": 200, "orders": 0, **options}

    def first(self) -> list[Any]:
        return []

    def fails(self, candidate: Callable[..., Any], example: Counterexample) -> bool:
        options = {**self.options, "sizes": {name: [size] for name, size in example.case.sizes.items()},
                   "nprocs": [example.case.nprocs]}  # fmt: skip
        try:
            equivalent(candidate, self.specification, **options)
        except Counterexample:
            return True
        return False

    def refuted(self, candidate: Callable[..., Any]) -> Any:
        try:
            equivalent(candidate, self.specification, **self.options)
        except Counterexample as found:
            return found
        return None

    @staticmethod
    def shown(example: Counterexample) -> str:
        return f"the result for {example.case}"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return x.shape == y.shape and all(map(same, x.flat, y.flat))
    return same(a, b)


class _Choices:
    """The values of the holes in a run, and what the run has come to."""

    def __init__(self, openings: Sequence[OpenHole]) -> None:
        self.openings = openings
        self.chosen: dict[int, int] = {}
        self.touched: dict[int, set[Any]] = {}  # by hole: the operands with which it was evaluated

    def hole(self, number: int) -> Any:
        self.touched.setdefault(number, set())
        option: Any = self.openings[number].options[self.chosen.setdefault(number, 0)]
        return option.value

    def choose(self, number: int, *options: Callable[[], Any]) -> Any:
        self.touched.setdefault(number, set())
        return options[self.chosen.setdefault(number, 0)]()

    def expr(self, number: int, *operands: Any) -> Any:
        seen = self.touched.setdefault(number, set())
        if len(seen) <= _CONTEXTS:
            try:
                seen.add(operands)
            except TypeError:  # operands that cannot be compared: every expression is its own
                seen.update(range(_CONTEXTS + 1))
        return self.openings[number].codes[self.chosen.setdefault(number, 0)](*operands)


_NoGood = dict[int, frozenset[int]]  # by hole: options; not all of the holes may have one of theirs


class _Completing:
    """The search for values of the holes; runs that fail rule out others."""

    def __init__(self, sketch: NumberedSketch, check: _Plain | _Parallel, most: int) -> None:
        self.sketch, self.check, self.most = sketch, check, most
        self.choices = _Choices(sketch.openings)
        self.candidate = prepared(sketch, self.choices)
        self.examples: list[Any] = check.first()
        self.tried = 0
        self.refused = ""
        self._ruled_out: dict[int, list[_NoGood]] = {}  # by the last of its holes in the order of search
        self._single: dict[int, dict[tuple[int, ...], set[tuple[int, ...]]]] = {}  # likewise: one option in each hole
        self._order: list[int] = []  # holes in the order in which runs came to them
        self._alike: dict[Any, list[Any]] = {}

    def run(self) -> dict[int, int] | None:
        """Return the options of the holes; None if there are none."""
        self.choices.chosen = {}
        while self.tried < self.most:
            failed = self._fails()
            if failed is None:
                return dict(self.choices.chosen)
            self._learn()
            if not self._next():
                return None
        return None

    def _fails(self) -> Any:
        """Return an example that the candidate does not compute, or None; `touched` is that run's."""
        self.tried += 1
        for k, example in enumerate(self.examples):
            self.choices.touched = {}
            if self.check.fails(self.candidate, example):
                self.examples.insert(0, self.examples.pop(k))  # what refuted the last one may refute the next
                self.refused = self.check.shown(example)
                return example
        self.choices.touched = {}
        found = self.check.refuted(self.candidate)
        if found is not None:
            self.examples.insert(0, found)
            self.refused = self.check.shown(found)
        return found

    def _learn(self) -> None:
        """Rule out what would run alike: the same options in the holes touched, or expressions of the same values."""
        for number in self.choices.touched:
            if number not in self._order:
                self._order.append(number)
        nogood = {number: self._like(number, seen) for number, seen in self.choices.touched.items()}
        last = max(nogood, key=self._order.index, default=None)
        if last is None:  # no hole has a part in the failure: nothing can help
            self._order.append(-1)
            self._ruled_out.setdefault(-1, []).append({})
            return
        if all(len(options) == 1 for options in nogood.values()):  # found by hash, however many there are
            holes = tuple(nogood)
            alone = self._single.setdefault(last, {}).setdefault(holes, set())
            alone.add(tuple(self.choices.chosen[each] for each in holes))
        else:
            self._ruled_out.setdefault(last, []).append(nogood)

    def _like(self, number: int, contexts: set[Any]) -> frozenset[int]:
        opening, chosen = self.sketch.openings[number], self.choices.chosen[number]
        if opening.kind != "expr" or not contexts or len(contexts) > _CONTEXTS:
            return frozenset([chosen])
        key = (number, frozenset(contexts))
        values = self._alike.get(key)
        if values is None:
            ordered = list(contexts)
            values = self._alike[key] = [tuple(_value(code, each) for each in ordered) for code in opening.codes]
        return frozenset(k for k, each in enumerate(values) if each == values[chosen])

    def _next(self) -> bool:
        """Move on to the next options that nothing rules out; return whether there are any."""
        if -1 in self._order:
            return False
        order, chosen = self._order, self.choices.chosen
        position = next((k for k in range(len(order)) if self._refused(order[k])), len(order) - 1)
        for number in order[position + 1 :]:
            chosen[number] = 0
        while 0 <= position < len(order):
            number = order[position]
            count = len(self.sketch.openings[number].options)
            while chosen[number] < count and self._refused(number):
                chosen[number] += 1
            if chosen[number] < count:
                position += 1
                continue
            chosen[number] = 0
            position -= 1
            if position >= 0:
                chosen[order[position]] += 1
        return position >= 0

    def _refused(self, number: int) -> bool:
        """Return whether the options of the holes up to this one are ruled out."""
        chosen = self.choices.chosen
        for holes, alone in self._single.get(number, {}).items():
            if tuple(chosen[each] for each in holes) in alone:
                return True
        return any(
            all(chosen[each] in options for each, options in nogood.items())
            for nogood in reversed(self._ruled_out.get(number, ()))
        )


def _value(code: Callable[..., Any], operands: Any) -> Any:
    """Return the value of an expression, or the type of the exception that it raises."""
    try:
        return code(*operands)
    except Exception as error:  # noqa: BLE001 - the candidate that raises it is refuted, and those like it
        return type(error)
