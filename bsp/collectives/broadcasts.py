"""Broadcast: a value from one process to all; the root chooses how, and its plan travels with the data.

Where the value goes to all processes in one superstep, it travels alone: its coming says everything, and an element
keeps it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bsp.collectives.choice import Collective
from bsp.collectives.domains import Domains
from bsp.collectives.steps import Steps, joined, pack, rejoined, root_rank, unpack, words_of
from bsp.values.payload import Packed, as_array, loads, pieces_of

if TYPE_CHECKING:
    from bsp.processes import Process

BROADCAST = Collective("broadcast")


class _Plan(NamedTuple):
    """The root's choice."""

    algorithm: str
    supersteps: int
    shape: tuple[int, ...] | None  # of an array; None: the value is a pickle


def broadcast(proc: Process, value: Any, root: int, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """Return the root's value on every process of the group; see `Process.broadcast`."""
    text = "broadcast" if group is not None else f"broadcast(root={root!r})"
    steps = Steps(proc, text, group, algorithm)
    source = root_rank(steps, root)
    plan: _Plan | None = None
    received: dict[int, Packed] = {}
    if steps.me == source:
        packed = pack(value, proc, text)
        name = BROADCAST.choose(proc, words_of(packed), algorithm, text, group is not None, cuttable=True).name
        supersteps = BROADCAST.supersteps(name, proc.nprocs, proc._task.element.machine)
        plan = _Plan(name, supersteps, None if isinstance(packed, bytes) else packed.shape)
        received = {source: packed}
    taken, total = 0, 1
    while taken < total:
        if plan is not None and taken < plan.supersteps:
            BROADCAST.algorithms[plan.algorithm].run(steps, plan, received, source, taken)
        arrived = steps.step(plan.supersteps if plan is not None and taken == 0 else 0)
        total = steps.hint if taken == 0 else total
        plan = steps.note or plan
        received = arrived or received
        taken += 1
    if not steps.takes_part:
        return None
    if not received:
        steps.expect(received, [source])
    if plan is None:
        return steps.own(received[source])
    if not BROADCAST.algorithms[plan.algorithm].cuts:
        return steps.own(received[min(received)])
    pieces = [received[rank] for rank in sorted(received)]
    if isinstance(pieces[0], bytes):  # a pickle of abstract arrays is not cut: the first piece is all of it
        return unpack(pieces[0])
    whole = joined([as_array(piece) for piece in pieces])
    return whole.reshape(plan.shape) if plan.shape is not None else loads(whole.data)


# What a process that holds the value, or its piece, sends in superstep `taken`.


@BROADCAST.algorithm("one-phase", lambda at: [at.one_to_all()])
def _one_phase(steps: Steps, plan: _Plan, received: dict[int, Packed], source: int, taken: int) -> None:
    if steps.all_take_part:
        steps.post_to_all(received[source])
    else:
        steps.post(range(steps.n), received[source], plan)


@BROADCAST.algorithm("two-phase", lambda at: [at.pieces_to_all(), at.each_to_all(at.chunk, at.h_of_pieces)], cuts=True)
def _two_phase(steps: Steps, plan: _Plan, received: dict[int, Packed], source: int, taken: int) -> None:
    (held,) = received.values()
    if taken:
        steps.post_to_all(held)
        return
    for rank, piece in enumerate(pieces_of(held, steps.n)):
        steps.post([rank], piece, plan)


@BROADCAST.algorithm("hosts", lambda at: [*at.between_hosts(), at.to_host()], by_hosts=True)
def _by_hosts(steps: Steps, plan: _Plan, received: dict[int, Packed], source: int, taken: int) -> None:
    """Pass the value down a binary tree of hosts, led by the root on its own host, then on inside each host."""
    at = Domains(steps)
    home = next(k for k, ranks in enumerate(at.hosts) if source in ranks)
    position = (at.mine - home) % len(at.hosts)
    if not received:
        return
    held = received[min(received)]
    stride = 1 << at.levels - 1 - taken if taken < at.levels else 0
    if not stride:
        steps.post([rank for rank in at.here if rank != steps.me], held, plan)
    elif position % (2 * stride) == 0:
        below = [at.leader((at.mine + stride) % len(at.hosts))] if position + stride < len(at.hosts) else []
        steps.post([steps.me, *below] if taken == 0 else below, held, plan)


@BROADCAST.algorithm(
    "hosts-in-pieces",
    lambda at: [at.shares_to_all(), at.swapped_shares(), at.pieces_to_host()],
    cuts=True,
    by_hosts=True,
)
def _by_hosts_in_pieces(steps: Steps, plan: _Plan, received: dict[int, Packed], source: int, taken: int) -> None:
    """Cut the value for the places of every host: the shares cross between hosts once, and are joined inside each."""
    at = Domains(steps)
    hosts = len(at.hosts)
    if taken == 0:
        (held,) = received.values()
        for k, piece in enumerate(pieces_of(held, at.narrowest * hosts)):
            steps.post([at.hosts[k % hosts][k // hosts]], piece, plan)
    elif at.at >= at.narrowest:
        return
    elif taken == 1:
        (held,) = received.values()
        steps.post(at.counterparts(), held, plan)
    else:
        steps.post(at.here, rejoined([received[rank] for rank in sorted(received)]), plan)


@BROADCAST.trees(lambda at, arity: at.tree(arity, combining=False))
def _tree(arity: int, steps: Steps, plan: _Plan, received: dict[int, Packed], source: int, taken: int) -> None:
    stride = arity ** (plan.supersteps - 1 - taken)
    position = (steps.me - source) % steps.n
    if position % (stride * arity) == 0:
        below = [position + j * stride for j in range(1, arity) if position + j * stride < steps.n]
        ranks = [(at + source) % steps.n for at in below]
        steps.post([steps.me, *ranks] if taken == 0 else ranks, received[min(received)], plan)
