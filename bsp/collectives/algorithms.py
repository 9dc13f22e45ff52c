"""Collectives: each the cheapest of several algorithms, all with the same result (D3).

Which algorithm runs is decided in `choice`; where only the root knows the size, it decides, and the number
of supersteps it needs travels in the headers of the first.  The supersteps themselves are in `steps`.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.collectives.choice import arity_of, choose
from bsp.collectives.prices import levels_of
from bsp.collectives.steps import Steps, joined, own_copy, pack, root_rank, unpack, words_of
from bsp.errors import NoSuchProcess, ShapeError, TransferMismatch
from bsp.source import Line, here
from bsp.values.operations import Reduction, combine, operation, prefix
from bsp.values.payload import Packed, as_array, cuts_of, dumps, is_abstract, is_array, pieces_of

if TYPE_CHECKING:
    from bsp.processes import Process


# -------------------------------------------------------------------- from one to all


def _only(chosen: str, name: str) -> None:
    """Check that what follows is the algorithm that was chosen: one that has a price and no steps is a mistake."""
    if chosen != name:
        raise NotImplementedError(f"algorithm {chosen!r} has a price, and no steps in bsp/collectives/algorithms.py")


class _Plan(NamedTuple):
    """How the root of a broadcast or scatter goes about it; travels with the data."""

    algorithm: str
    supersteps: int
    shape: tuple[int, ...] | None = None  # of a value in chunks; None if they are of a pickle


def _planned(proc: Process, algorithm: str, shape: tuple[int, ...] | None) -> _Plan:
    if algorithm.startswith("tree"):
        return _Plan(algorithm, levels_of(proc.nprocs, arity_of(algorithm)), shape)
    return _Plan(algorithm, 2 if algorithm == "two-phase" else 1, shape)


def broadcast(proc: Process, value: Any, root: int, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.broadcast."""
    text = "broadcast" if group is not None else f"broadcast(root={root!r})"
    steps = Steps(proc, text, group, algorithm)
    source = root_rank(steps, root)
    plan: _Plan | None = None
    received: dict[int, Packed] = {}
    if steps.me == source:
        packed = pack(value, proc, text)
        chosen = choose(proc, "broadcast", words_of(packed), algorithm, text, chunked=True)
        plan = _planned(proc, chosen, None if isinstance(packed, bytes) else packed.shape)
        received = {source: packed}
    taken, total = 0, 1
    while taken < total:
        if plan is not None and taken < plan.supersteps:
            _pass_on(steps, plan, received, source, taken)
        arrived = steps.step(plan.supersteps if plan is not None and taken == 0 else 0)
        total = steps.hint if taken == 0 else total
        plan = steps.note or plan
        received = arrived or received
        taken += 1
    if plan is None or not steps.takes_part:
        return None
    if plan.algorithm != "two-phase":
        return unpack(received[min(received)])
    pieces = [received[rank] for rank in sorted(received)]
    if isinstance(pieces[0], bytes):  # with abstract arrays inside, the first piece is all there is
        return unpack(pieces[0])
    whole = joined([as_array(piece) for piece in pieces])
    return whole.reshape(plan.shape) if plan.shape is not None else pickle.loads(whole.data)


def _pass_on(steps: Steps, plan: _Plan, received: dict[int, Packed], source: int, taken: int) -> None:
    """What a process that has its part sends in superstep `taken` of a broadcast."""
    everyone = range(steps.n)
    packed = received[min(received)]
    if plan.algorithm == "one-phase":
        steps.post(everyone, packed, plan)
    elif plan.algorithm == "two-phase" and taken == 0:
        for rank, piece in enumerate(pieces_of(packed, steps.n)):
            steps.post([rank], piece, plan)
    elif plan.algorithm == "two-phase":
        steps.post(everyone, packed)
    else:
        arity = arity_of(plan.algorithm)
        stride = arity ** (plan.supersteps - 1 - taken)
        position = (steps.me - source) % steps.n
        if position % (stride * arity) == 0:
            below = [position + j * stride for j in range(1, arity) if position + j * stride < steps.n]
            ranks = [(at + source) % steps.n for at in below]
            steps.post([steps.me, *ranks] if taken == 0 else ranks, packed, plan)


def scatter(
    proc: Process, values: Sequence[Any] | None, root: int, group: Sequence[int] | None, algorithm: str | None
) -> Any:
    """See Process.scatter."""
    text = "scatter" if group is not None else f"scatter(root={root!r})"
    steps = Steps(proc, text, group, algorithm)
    source = root_rank(steps, root)
    plan: _Plan | None = None
    bundle: dict[int, Packed] = {}  # what this process holds, by position in the tree
    if steps.me == source:
        if values is None or len(values) != steps.n:
            count = "none" if values is None else len(values)
            raise ShapeError(f"{text} of {count} values for {steps.n} processes: one for each{proc._place()}")
        parts = [pack(value, proc, text) for value in values]
        plan = _planned(proc, choose(proc, "scatter", sum(map(words_of, parts)), algorithm, text), None)
        if plan.algorithm != "one-phase":
            parts = list(map(own_copy, parts))
        bundle = {(rank - source) % steps.n: parts[rank] for rank in range(steps.n)}
    position = (steps.me - source) % steps.n
    taken, total = 0, 1
    while taken < total:
        if plan is not None and taken < plan.supersteps:
            if plan.algorithm == "one-phase":
                for at, packed in bundle.items():
                    steps.post([(at + source) % steps.n], packed, plan)
            else:
                arity = arity_of(plan.algorithm)
                stride = arity ** (plan.supersteps - 1 - taken)
                for start in range(position + stride, min(position + stride * arity, steps.n), stride):
                    part = {at: bundle.pop(at) for at in range(start, min(start + stride, steps.n))}
                    steps.post([(start + source) % steps.n], dumps(part), plan)
        arrived = steps.step(plan.supersteps if plan is not None and taken == 0 else 0)
        total = steps.hint if taken == 0 else total
        for packed in arrived.values():
            plan = steps.note
            if plan is not None and plan.algorithm == "one-phase":
                bundle = {position: packed}
            else:
                bundle = unpack(packed)
        taken += 1
    if not steps.takes_part:
        return None
    return unpack(bundle[position])


# -------------------------------------------------------------------- from all to one


def gather(proc: Process, value: Any, root: int, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.gather.  Sizes may differ, so the choice goes by p alone, as if for one word."""
    text = "gather" if group is not None else f"gather(root={root!r})"
    chosen = choose(proc, "gather", 1, algorithm, text)
    steps = Steps(proc, text, group, chosen)
    target = root_rank(steps, root)
    packed = pack(value, proc, text) if steps.takes_part else b""
    if chosen == "one-phase":
        if steps.takes_part:
            steps.post([target], packed)
        arrived = steps.step()
        return [unpack(part) for part in steps.of_all(arrived)] if steps.me == target else None
    arity = arity_of(chosen)
    position = (steps.me - target) % steps.n
    bundle = {steps.me: own_copy(packed)}
    for level in range(levels_of(proc.nprocs, arity)):
        stride = arity**level
        if steps.takes_part and position % stride == 0 and position % (stride * arity):
            above = position - position % (stride * arity)
            steps.post([(above + target) % steps.n], dumps(bundle))
        for part in steps.step().values():
            bundle |= unpack(part)
    if steps.me != target:
        return None
    return [unpack(part) for part in steps.of_all(bundle)]


class _Reduction:
    """A reduce or allreduce: its operation, its steps and the algorithm all processes agree on."""

    def __init__(
        self, proc: Process, name: str, value: Any, op: Any, group: Sequence[int] | None, algorithm: str | None,
        root: int | None = None,
    ) -> None:  # fmt: skip
        self.op: Reduction = operation(op)
        self.array = is_array(value)
        kind = f"{value.dtype}{list(value.shape)}" if self.array else "object"
        outside = group is not None and proc.pid not in group
        self.text = f"{name}({kind}, op='{self.op.name}'" + (
            f", root={root!r})" if root is not None and group is None else ")"
        )
        if group is not None:  # other groups may reduce other things meanwhile; their steps must be as many
            self.text = f"{name}(op='{self.op.name}')"
        words = -(-value.nbytes // 8) if self.array and group is None else 1
        chunked = self.array and group is None and self.op.elementwise
        kind = "scan" if name == "exscan" else name
        self.algorithm = choose(proc, kind, words, algorithm, self.text, chunked)
        self.steps = Steps(proc, self.text, group, self.algorithm)
        self.packed: Packed = b"" if outside else pack(value, proc, self.text)

    def combined(self, parts: dict[int, Packed]) -> Any:
        """The values of ranks 0..n-1 in the tree of D3; a single one as a copy of its own."""
        return self.combine([unpack(parts[rank]) for rank in sorted(parts)])

    def combine(self, values: list[Any]) -> Any:
        """`values` in the tree of D3; a mistake of shape says which call made it."""
        try:
            return combine(values, self.op)
        except (TypeError, ValueError) as wrong:
            raise ShapeError(f"{self.text}: the values do not combine: {wrong}{self.steps.proc._place()}") from wrong

    def chunks(self) -> list[np.ndarray]:
        """The flat value cut into one piece for each rank."""
        flat = as_array(self.packed).reshape(-1)
        cuts = cuts_of(flat.size, self.steps.n)
        return [flat[cuts[k] : cuts[k + 1]] for k in range(self.steps.n)]

    def own_chunk(self) -> Any:
        """Superstep 1 of the two-phase algorithms: rank k combines the k-th piece of everybody's value."""
        for rank, chunk in enumerate(self.chunks()):
            self.steps.post([rank], chunk)
        return self.combined(self.steps.step())

    def whole(self, parts: dict[int, Packed]) -> np.ndarray:
        """The value from its pieces by rank."""
        shape = as_array(self.packed).shape
        return joined([as_array(part) for part in self.steps.of_all(parts)]).reshape(shape)

    def up_the_tree(self, target: int) -> Any:
        """Aligned blocks of arity^j ranks combine at their first rank, until rank 0 has all; `target` gets it."""
        steps, arity = self.steps, arity_of(self.algorithm)
        levels = levels_of(steps.proc.nprocs, arity)
        held = unpack(self.packed) if steps.takes_part else None
        for level in range(levels):
            stride = arity**level
            if steps.takes_part and steps.me % stride == 0:
                above = target if level == levels - 1 else steps.me - steps.me % (stride * arity)
                steps.post([above], pack(held, steps.proc, self.text))
            arrived = steps.step()
            held = self.combined(arrived) if arrived else held
        return held


def reduce(proc: Process, value: Any, op: Any, root: int, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.reduce."""
    todo = _Reduction(proc, "reduce", value, op, group, algorithm, root)
    steps = todo.steps
    target = root_rank(steps, root)
    if todo.algorithm == "one-phase":
        if steps.takes_part:
            steps.post([target], todo.packed)
        arrived = steps.step()
        result = todo.combined(arrived) if arrived else None
    elif todo.algorithm == "two-phase":
        steps.post([target], todo.own_chunk())
        arrived = steps.step()
        result = todo.whole(arrived) if arrived else None
    else:
        result = todo.up_the_tree(target)
    return _own(result, todo) if steps.me == target else None


def allreduce(proc: Process, value: Any, op: Any, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.allreduce."""
    todo = _Reduction(proc, "allreduce", value, op, group, algorithm)
    steps = todo.steps
    everyone = range(steps.n)
    if todo.algorithm == "one-phase":
        if steps.takes_part:
            steps.post(everyone, todo.packed)
        arrived = steps.step()
        result = todo.combined(arrived) if arrived else None
    elif todo.algorithm == "two-phase":
        steps.post(everyone, todo.own_chunk())
        result = todo.whole(steps.step())
    else:
        result = todo.up_the_tree(0)
        arity = arity_of(todo.algorithm)
        stride = arity ** (levels_of(proc.nprocs, arity) - 1)
        while stride:
            if steps.takes_part and steps.me % (stride * arity) == 0:
                below = range(steps.me + stride, min(steps.me + stride * arity, steps.n), stride)
                steps.post(below, pack(result, proc, todo.text))
            for packed in steps.step().values():
                result = unpack(packed)
            stride //= arity
    return _own(result, todo) if steps.takes_part else None


def _own(result: Any, todo: _Reduction) -> Any:
    """A result that shares no memory with the argument (a group of one combines nothing)."""
    if isinstance(result, np.ndarray) and isinstance(todo.packed, np.ndarray) and np.shares_memory(result, todo.packed):
        return result.copy()
    return result


def scan(
    proc: Process, value: Any, op: Any, group: Sequence[int] | None, algorithm: str | None, inclusive: bool
) -> Any:
    """See Process.scan and Process.exscan."""
    todo = _Reduction(proc, "scan" if inclusive else "exscan", value, op, group, algorithm)
    steps = todo.steps
    count = steps.me + inclusive
    if todo.algorithm == "one-phase":
        if steps.takes_part:
            steps.post(range(steps.me, steps.n), todo.packed)
        arrived = steps.step()
        if not steps.takes_part:
            return None
        values = [unpack(part) for part in steps.of_all(arrived, count)]
        return _own(prefix(values, count, todo.op), todo) if count else todo.op.identity_like(value)
    _only(todo.algorithm, "two-phase")
    for rank, chunk in enumerate(todo.chunks()):
        steps.post([rank], chunk)
    arrived = steps.step()
    pieces = [as_array(part) for part in steps.of_all(arrived)]
    for rank in range(steps.n):
        if rank + inclusive:
            steps.post([rank], prefix(pieces, rank + inclusive, todo.op))
    arrived = steps.step()
    return todo.whole(arrived) if count else todo.op.identity_like(value)


# --------------------------------------------------------------------- from all to all


def allgather(proc: Process, value: Any, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.allgather."""
    steps_up = levels_of(proc.nprocs, 2)
    chosen = choose(proc, "allgather", 1, algorithm, "allgather")
    steps = Steps(proc, "allgather", group, chosen)
    packed = pack(value, proc, "allgather") if steps.takes_part else b""
    if chosen == "one-phase":
        if steps.takes_part:
            steps.post(range(steps.n), packed)
        arrived = steps.step()
        return [unpack(part) for part in steps.of_all(arrived)] if steps.takes_part else None
    _only(chosen, "doubling")
    held = {steps.me: own_copy(packed)}
    for j in range(steps_up):
        if steps.takes_part and 1 << j < steps.n:
            wanted = {rank: held[rank] for rank in [(steps.me + i) % steps.n for i in range(1 << j)] if rank in held}
            steps.post([(steps.me - (1 << j)) % steps.n], dumps(wanted))
        for part in steps.step().values():
            held |= unpack(part)
    if not steps.takes_part:
        return None
    return [unpack(part) for part in steps.of_all(held)]


def alltoall(proc: Process, values: Sequence[Any], group: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.alltoall."""
    return _all_to_all(proc, values, group, algorithm, "alltoall")


def _all_to_all(
    proc: Process, values: Sequence[Any], group: Sequence[int] | None, algorithm: str | None, text: str
) -> Any:
    hops = levels_of(proc.nprocs, 2)
    chosen = choose(proc, "alltoall", 1, algorithm, text)
    steps = Steps(proc, text, group, chosen)
    if steps.takes_part and len(values) != steps.n:
        raise ShapeError(f"{text} of {len(values)} values for {steps.n} processes: one for each{proc._place()}")
    packed = [pack(value, proc, text) for value in values] if steps.takes_part else []
    if chosen == "one-phase":
        for rank, part in enumerate(packed):
            steps.post([rank], part)
        arrived = steps.step()
        return [unpack(part) for part in steps.of_all(arrived)] if steps.takes_part else None
    _only(chosen, "logarithmic")
    held: list[tuple[int, int, Packed]] = [(steps.me, rank, own_copy(part)) for rank, part in enumerate(packed)]
    for j in range(hops):
        if steps.takes_part and 1 << j < steps.n:
            moving = [item for item in held if (item[1] - item[0]) % steps.n >> j & 1]
            held = [item for item in held if not (item[1] - item[0]) % steps.n >> j & 1]
            steps.post([(steps.me + (1 << j)) % steps.n], dumps(moving))
        for part in steps.step().values():
            held += unpack(part)
    if not steps.takes_part:
        return None
    by_rank = {source: part for source, _, part in held}
    return [unpack(part) for part in steps.of_all(by_rank)]


def total_exchange(proc: Process, rows: Any, counts: Sequence[int] | None, algorithm: str | None) -> Any:
    """See Process.total_exchange."""
    if not isinstance(rows, np.ndarray) and not is_abstract(rows):
        return _all_to_all(proc, rows, None, algorithm, "total_exchange")
    p = proc.nprocs
    if rows.ndim == 0:
        raise ShapeError(f"total_exchange of a 0-d array: its first axis is dealt to processes{proc._place()}")
    shares = [1] * p if counts is None else [int(count) for count in counts]
    if len(shares) != p or min(shares) < 0 or sum(shares) != len(rows):
        raise ShapeError(
            f"total_exchange of {len(rows)} rows, {shares if counts is not None else 'one'} for each of {p} "
            f"processes: counts are {p} numbers >= 0 that sum to the rows{proc._place()}"
        )
    cuts = np.cumsum([0, *shares])
    parts = [rows[cuts[k] : cuts[k + 1]] for k in range(p)]
    received = _all_to_all(proc, parts, None, algorithm, "total_exchange")
    together = joined(received)
    return together if counts is None else (together, [len(part) for part in received])


def transfer(proc: Process, payload: Any, to: int | None, expect: bool) -> Any:
    """See Process.transfer."""
    steps = Steps(proc, "transfer", None)
    if to is not None:
        if not isinstance(to, (int, np.integer)) or isinstance(to, bool) or not 0 <= to < proc.nprocs:
            raise NoSuchProcess(f"transfer to process {to!r}: pids are 0..{proc.nprocs - 1}{proc._place()}")
        steps.post([int(to)], pack(payload, proc, "transfer"), tuple(here()))
    arrived = steps.step()
    if len(arrived) > 1:
        raise steps.failed(
            TransferMismatch(
                f"transfer: processes {', '.join(map(str, sorted(arrived)))} all send to process {proc.pid} "
                f"(one of them at {Line(steps.note)}, received at {here()}); a receiver has at most one sender"
            )
        )
    if bool(arrived) != bool(expect):
        if arrived:
            source = next(iter(arrived))
            what = (
                f"process {source} sends at {Line(steps.note)} to process {proc.pid}, which expects nothing at {here()}"
            )
        else:
            what = f"process {proc.pid} expects a value at {here()}, and no process sends it one"
        raise steps.failed(TransferMismatch(f"transfer: {what}; sent if and only if expected"))
    return unpack(next(iter(arrived.values()))) if arrived else None
