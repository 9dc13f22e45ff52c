"""An object that stands in a State from the loop's entry on stays the object that the script's other variables mean.

Processes are made again by the rehearsal of `check=True`, which compares all bytes with those of the first pass.
"""

from __future__ import annotations

import array
import random
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.errors import CannotMove, Nondeterminism, Undeclared
from bsp.processes import Process
from bsp.values.identity import keeps_identity

pytestmark = pytest.mark.solo


class Model:
    """Weights, and an optimizer that refers to the model."""

    def __init__(self) -> None:
        self.w = np.zeros(3)
        self.optimizer = Optimizer(self)


class Optimizer:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.velocity = np.zeros(3)

    def step(self, slope: np.ndarray) -> None:
        self.velocity = 0.9 * self.velocity - slope
        self.model.w = self.model.w + self.velocity


class Settings(dict[str, float]):
    """A dictionary with an attribute."""

    scale = 1.0


@dataclass(slots=True)
class Count:
    n: int = 0
    seen: list[int] = field(default_factory=list)


class Own:
    """A class with its own idea of its state."""

    def __init__(self) -> None:
        self.total, self.cache = 0.0, object()

    def __getstate__(self) -> float:
        return self.total

    def __setstate__(self, state: float) -> None:
        self.__init__()  # type: ignore[misc]
        self.total = state


def train(proc: Process) -> Any:
    model, history, best, settings = Model(), [], {}, Settings(rate=0.1)
    optimizer, seen, count, own = model.optimizer, {"none"}, Count(), Own()
    coin, older = random.Random(proc.pid), np.random.RandomState(proc.pid)
    drawn, rate = np.random.default_rng(proc.pid), np.ones(6).reshape(2, 3)
    row, start = rate[1], np.arange(3.0)
    last, by_parity, kinds, order = deque([0.0], maxlen=3), defaultdict(list), Counter(), OrderedDict()
    spelt, parts = bytearray(b"x"), array.array("d", [0.5, 1.5])
    objects: dict[str, Any] = {
        "model": model, "history": history, "best": best, "settings": settings, "optimizer": optimizer, "seen": seen,
        "count": count, "own": own, "coin": coin, "older": older, "drawn": drawn, "rate": rate, "last": last,
        "by_parity": by_parity, "kinds": kinds, "order": order, "spelt": spelt, "parts": parts,
    }  # fmt: skip
    state = bsp.State(**objects, x=start)
    for k in proc.rounds(6, state):
        slope = proc.allreduce(model.w - start + drawn.random(3) + row)
        optimizer.step(settings["rate"] * slope)
        history.append(float(slope.sum()))
        seen.add(f"{len(seen)} {history[-1]}")
        best["at"], best["of"] = k, history
        settings["rate"] *= 0.9
        settings.scale += 1.0
        count.n += 1
        count.seen.append(k)
        own.total += history[-1] + coin.random() + older.normal()
        last.append(own.total)
        by_parity[k % 2].append(k)
        kinds.update(["round", k % 2])
        order[k] = kinds["round"]
        order.move_to_end(0)
        row *= 0.5
        spelt += b"%d" % k
        parts[0] += own.total
        parts.append(k)
        state.x = state.x + start  # `start` itself stays as it was
        assert model.optimizer is optimizer and optimizer.model is model and best["of"] is history
        assert all(getattr(state, name) is value for name, value in objects.items())
    return (
        model.w.tolist(), history, best, dict(settings), settings.scale, sorted(seen), count, own.total,
        drawn.random(), rate.tolist(), state.x.tolist(), last, by_parity, kinds, order, spelt, parts.tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 3])
def test_variables_and_the_state_go_on_meaning_the_same_objects(nprocs: int) -> None:
    results = bsp.run(train, nprocs=nprocs, check=True)
    assert results == bsp.run(train, nprocs=nprocs)
    assert results[0][6] == Count(6, [0, 1, 2, 3, 4, 5]) and results[0][10] == [0.0, 7.0, 14.0]


class Cached:
    """A class with slots, one of which is not always set."""

    __slots__ = ("cache", "total")

    def __init__(self) -> None:
        self.total, self.cache = 0.0, 1.0


class Lasting(dict[str, float]):
    """A dictionary that refuses to be cleared."""

    def clear(self) -> None:
        raise NotImplementedError


def test_attributes_that_rounds_delete_are_gone_and_those_of_containers_stay() -> None:
    def attributes(proc: Process) -> Any:
        kinds: Counter[str] = Counter()
        order: OrderedDict[int, int] = OrderedDict()
        cached, lasting = Cached(), Lasting(x=0.0)
        kinds.seen = 0  # type: ignore[attr-defined]
        settings = SimpleNamespace(rate=1.0, inner=bsp.State(n=0))
        inner = settings.inner
        state = bsp.State(cached=cached, kinds=kinds, order=order, lasting=lasting, settings=settings, inner=inner)
        for k in proc.rounds(6, state):
            cached.total += proc.allreduce(getattr(cached, "cache", 0.0))
            if k == 0:
                del cached.cache
            kinds.seen += 1  # type: ignore[attr-defined]
            order[k] = kinds.seen  # type: ignore[attr-defined]
            lasting["x"] += k
            settings.rate *= 0.5
            inner.n += 1
        return cached.total, hasattr(cached, "cache"), vars(kinds), order, lasting, settings.rate, inner.n

    assert bsp.run(attributes, nprocs=2, check=True)[0] == (
        2.0, False, {"seen": 6}, OrderedDict((k, k + 1) for k in range(6)), {"x": 15.0}, 0.5**6, 6,
    )  # fmt: skip


def test_generators_go_on_to_spawn_others() -> None:
    def spawning(proc: Process) -> list[float]:
        rng, drawn = np.random.default_rng(proc.pid), []
        state = bsp.State(rng=rng, drawn=drawn)
        for _ in proc.rounds(6, state):
            drawn.append(proc.allreduce(rng.spawn(1)[0].random() + rng.random()))
        return drawn

    assert bsp.run(spawning, nprocs=2, check=True) == bsp.run(spawning, nprocs=2)


class Trainer:
    """A model that holds its State."""

    def __init__(self) -> None:
        self.w = 0.0
        self.state = bsp.State(model=self)

    def fit(self, proc: Process) -> float:
        for k in proc.rounds(6, self.state):
            self.w = 0.5 * self.w + proc.allreduce(k)
            assert self.state.model is self
        return self.w


def test_a_state_that_is_met_inside_itself_is_the_same_state() -> None:
    assert bsp.run(lambda proc: Trainer().fit(proc), nprocs=2, check=True)[0] == 16.125


def test_an_array_may_get_another_shape() -> None:
    def reshaped(proc: Process) -> list[float]:
        x = np.arange(6.0)
        state = bsp.State(x=x)
        for k in proc.rounds(6, state):
            if k == 0:
                x.shape = (2, 3)
            x += proc.allreduce(1.0)
        return x.sum(axis=1).tolist()

    assert bsp.run(reshaped, nprocs=2, check=True)[0] == [39.0, 48.0]


class Counted:
    """A class whose objects count how often they have been loaded."""

    def __init__(self) -> None:
        self.x, self.loaded = 0.0, 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, loaded=state["loaded"] + 1)


def test_what_loading_changes_is_told() -> None:
    """The program computes the same, but clones would find the states of a process different, and stop."""

    def counted(proc: Process) -> float:
        state = bsp.State(y=1.0, counted=Counted())
        for _ in proc.rounds(6, state):
            state.counted.x += proc.allreduce(1.0)
        return float(state.counted.x)

    with pytest.raises(CannotMove, match=r"^state.counted is not pickled to the same bytes once .*__setstate__"):
        bsp.run(counted, nprocs=2, check=True)


def test_a_difference_that_only_the_state_shows_is_told() -> None:
    def hidden(proc: Process) -> None:
        seen = [0]
        state = bsp.State(last=0)

        def see() -> int:
            seen[0] += 1
            return seen[0]

        for _ in proc.rounds(6, state):
            state.last = see()

    with pytest.raises(Undeclared, match=r"something else in state.last at the end of that loop: it has 'seen'"):
        bsp.run(hidden, nprocs=2, check=True)


def test_a_clock_in_the_state_is_told() -> None:
    """Nothing that the program computes depends on it, but clones compare their states."""

    def timed(proc: Process) -> float:
        state = bsp.State(x=0.0, began=[])
        for _ in proc.rounds(6, state):
            state.began.append(time.perf_counter())
            state.x += proc.allreduce(1.0)
        return float(state.x)

    with pytest.raises(Nondeterminism, match=r"something else in state\.began at .* proc\.time"):
        bsp.run(timed, nprocs=2, check=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("times", [7, 8])
def test_variables_that_change_places_are_told(seed: int, times: int) -> None:
    """They mean the same as at the entry at every other head, and perhaps at that where processes are made again."""

    def swapped(proc: Process) -> float:
        a, b = np.zeros(2), np.zeros(2)
        state = bsp.State(a=a, b=b)
        for _ in proc.rounds(times, state):
            np.add(a * 0.5, proc.allreduce(1.0), out=b)
            a, b = b, a
        return float(a.sum())

    with pytest.raises(Undeclared, match=r"process 0 needs 'a' .* in round 1 of the loop .* use it as state\.a"):
        bsp.run(swapped, nprocs=2, check=True, seed=seed)


def test_what_was_replaced_in_the_state_is_an_object_of_its_own() -> None:
    """A process that is made again has the variable as it was before the loop; if rounds change it, that is told."""

    def replaced(proc: Process) -> float:
        x = np.zeros(3)
        state = bsp.State(x=x)
        for k in proc.rounds(6, state):
            x += proc.allreduce(1.0)
            if k == 1:
                state.x = state.x.copy()
        return float(x.sum())

    with pytest.raises(Undeclared, match="'x'"):
        bsp.run(replaced, nprocs=2, check=True)


def test_inner_objects_are_made_again() -> None:
    def inner(proc: Process) -> float:
        model = Model()
        w, state = model.w, bsp.State(model=model)
        for _ in proc.rounds(6, state):
            w += proc.allreduce(1.0)
        return float(w.sum())

    with pytest.raises(Undeclared, match="'w'"):
        bsp.run(inner, nprocs=2, check=True)


def distributed(proc: Process) -> Any:
    x, rng = ba.zeros(50).persist(), ba.random.default_rng(3)
    state = bsp.State(x=x, rng=rng)
    for k in proc.rounds(6, state):
        x += rng.random(50)
        x[10:40] *= 0.5
        x[k] = 7 * k
        x.persist()
        assert state.x is x and state.rng is rng
    return x.compute().tolist(), float(rng.random())


@pytest.mark.parametrize("nprocs", [1, 3])
def test_distributed_arrays_and_their_generators(nprocs: int) -> None:
    assert bsp.run(distributed, nprocs=nprocs, check=True) == bsp.run(distributed, nprocs=nprocs)


def test_a_distributed_array_with_a_view_is_made_again() -> None:
    """The node of a view holds what was computed from it, and no other process has that."""

    def viewed(proc: Process) -> float:
        x = ba.zeros(50).persist()
        view, state = x[1:], bsp.State(x=x)
        for _ in proc.rounds(6, state):
            x += 1.0
            x.persist()
        return float(view.sum())

    with pytest.raises(Undeclared, match=r"'x'.* use it as state\.x"):
        bsp.run(viewed, nprocs=2, check=True)


def test_which_objects_keep_their_identity() -> None:
    square = np.arange(6.0).reshape(2, 3)
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    for value in (
        square,
        square.T.copy().T,
        np.array(1.0),
        [],
        {},
        set(),
        ba.zeros(3),
        Model(),
        Count(),
        Own(),
        Settings(),
    ):
        assert keeps_identity(value)
    others = [
        None, 1, 1.5, "text", b"", (), frozenset(), 1j, ..., int, Model, abs, len, np, lambda: 0, np.float64(1.0),
        range(3), np.ma.zeros(3), np.dtype("f8"), square[1:], square[:, ::2], fixed, np.array([None]),
        ba.zeros(3)[1:], np.frombuffer(bytearray(8)),
    ]  # fmt: skip
    assert not any(map(keeps_identity, others))


# ----------------------------------------------------------------------------- random programs

CHANGES = ["variable", "state", "slice", "replace", "swap", "twice", "away"]
MAKE: dict[str, Callable[[int], Any]] = {
    "array": lambda k: np.arange(6.0) + k,
    "matrix": lambda k: (np.arange(6.0) + k).reshape(2, 3),
    "list": lambda k: [k],
    "dict": lambda k: {"k": k},
    "set": lambda k: {k},
    "object": lambda k: Settings(k=k),
    "count": lambda k: Count(k),
}


def change(value: Any, k: int) -> None:
    """Change an object in place."""
    if isinstance(value, np.ndarray):
        value *= 0.5
        value.flat[k % value.size] += k
    elif isinstance(value, list):
        value.append(k)
    elif isinstance(value, dict):
        value[str(k)] = k
        value.pop(str(k - 2), None)
    elif isinstance(value, set):
        value.add(k)
        value.discard(k - 2)
    else:
        value.n += k
        value.seen.append(k)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(k, marks=pytest.mark.rest) for k in range(8, 200))])
def test_random_programs(seed: int) -> None:
    """Objects are changed through either name, replaced, moved to other names, kept twice, and looked at as slices."""
    draw = random.Random(seed)
    kinds = [draw.choice([*MAKE]) for _ in range(4)]
    rounds = [
        [(draw.choice(CHANGES), draw.randrange(4), draw.randrange(4)) for _ in range(3)]
        for _ in range(6)
    ]  # fmt: skip

    def program(proc: Process) -> list[str]:
        variables: list[Any] = [MAKE[kind](k) for k, kind in enumerate(kinds)]
        slices = [each.reshape(-1)[1:] if isinstance(each, np.ndarray) else None for each in variables]
        state, said = bsp.State(**{f"x{k}": value for k, value in enumerate(variables)}), []
        for k in proc.rounds(6, state):
            known = vars(state)
            for what, i, j in rounds[k]:
                stands = known.get(f"x{i}") is variables[i] and i not in state.__dict__.get("moved", [])
                if what == "variable" and stands:
                    change(variables[i], k)
                elif what == "slice" and stands and slices[i] is not None:
                    slices[i] += k
                elif what == "state" and f"x{i}" in known:
                    change(known[f"x{i}"], k)
                elif what == "replace":
                    setattr(state, f"x{i}", MAKE[kinds[i]](k))
                elif what == "swap" and {f"x{i}", f"x{j}"} <= {*known}:
                    known[f"x{i}"], known[f"x{j}"] = known[f"x{j}"], known[f"x{i}"]
                elif what == "twice" and f"x{i}" in known:
                    state.other = [known[f"x{i}"]] * 2
                elif what == "away":
                    known.pop(f"x{i}", None)
            # a variable whose object has left the State once means no longer what is there
            gone = [i for i in range(4) if known.get(f"x{i}") is not variables[i]]
            state.moved = sorted({*getattr(state, "moved", []), *gone})
            stand = [repr(variables[i]) + repr(slices[i]) for i in range(4) if i not in state.moved]
            said.append(repr(sorted(known.items())) + repr(stand))
            proc.allreduce(said[-1], op=lambda a, b: a)
            said.clear()
        return [repr(variables[i]) for i in range(4) if i not in getattr(state, "moved", [])]

    bsp.run(program, nprocs=2, check=True)
