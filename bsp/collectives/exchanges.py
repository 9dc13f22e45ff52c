"""Allgather, alltoall and total exchange: every process sends to every process."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.collectives.choice import Collective
from bsp.collectives.domains import Domains
from bsp.collectives.sizes import levels_of
from bsp.collectives.steps import Steps, as_int, check_one_for_each, joined, own_copy, pack, unpack
from bsp.errors import ShapeError
from bsp.values.payload import NUMBERS, PLAIN, UNREADABLE, Packed, dumps, is_abstract

if TYPE_CHECKING:
    from bsp.processes import Process

_Item = tuple[int, int, Packed]  # source, destination and value

ALLGATHER, ALLTOALL = Collective("allgather"), Collective("alltoall")


def allgather(proc: Process, value: Any, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """Return all values on every process; see `Process.allgather`.

    Sizes may differ between processes, so the choice is that for one word.
    """
    chosen = ALLGATHER.choose(proc, 1, algorithm, "allgather", group is not None)
    steps = Steps(proc, "allgather", group, chosen.name)
    held = chosen.run(steps, pack(value, proc, "allgather") if steps.takes_part else b"")
    return [steps.own(part) for part in steps.of_all(held)] if steps.takes_part else None


@ALLGATHER.algorithm("one-phase", lambda at: [at.each_to_all(at.n, (at.p - 1) * at.n)])
def _gathered_at_once(steps: Steps, packed: Packed) -> dict[int, Packed]:
    if steps.takes_part:
        steps.post_to_all(packed)
    return steps.step()


@ALLGATHER.algorithm(
    "doubling",
    lambda at: [at.bundles(at.hops, at.n, at.doubled * at.n, at.hops, at.v * at.hops, at.v * at.p, by_all=True)],
)
def _doubling(steps: Steps, packed: Packed) -> dict[int, Packed]:
    held = {steps.me: own_copy(packed)}
    for j in range(levels_of(steps.proc.nprocs, 2)):
        if steps.takes_part and 1 << j < steps.n:
            wanted = {rank: held[rank] for rank in [(steps.me + i) % steps.n for i in range(1 << j)] if rank in held}
            steps.post([(steps.me - (1 << j)) % steps.n], dumps(wanted))
        for part in steps.step().values():
            held |= unpack(part)
    return held


@ALLGATHER.algorithm(
    "hosts", lambda at: [at.to_leader(), at.bundles_of_leaders(), at.all_bundles_to_host()], by_hosts=True
)
def _gathered_by_hosts(steps: Steps, packed: Packed) -> dict[int, Packed]:
    """Gather the values of a host at its leader, which sends them to all other leaders and hands all of them on."""
    at = Domains(steps)
    leads = steps.me == at.leader(at.mine)
    steps.post([at.leader(at.mine)], packed)
    held: dict[int, Packed] = steps.step()
    if leads:
        steps.post([at.leader(host) for host in range(len(at.hosts))], dumps(held))
    bundles = list(steps.step().values())
    if leads:
        steps.post(at.here, dumps(bundles))
    (arrived,) = steps.step().values()
    for bundle in unpack(arrived):
        held |= unpack(bundle)
    return held


def alltoall(
    proc: Process, values: Sequence[Any], group: Sequence[int] | None, algorithm: str | None, text: str = "alltoall"
) -> Any:
    """Return the values that all processes have for this one; see `Process.alltoall`.

    Sizes may differ between processes, so the choice is that for one word.
    """
    chosen = ALLTOALL.choose(proc, 1, algorithm, text, group is not None)
    steps = Steps(proc, text, group, chosen.name)
    if steps.takes_part:
        check_one_for_each(proc, text, values, steps.n)
    given = values if steps.takes_part else ()
    if chosen.name == "one-phase" and steps.all_take_part and NUMBERS.issuperset(map(type, given)):
        steps.post_row(list(given))
        held = steps.step()
    else:
        held = chosen.run(steps, [dumps(value) if type(value) in PLAIN else pack(value, proc, text) for value in given])
    if not steps.takes_part:
        return None
    read = pickle.loads  # as `unpack`, without a call for each value
    try:
        return [read(part) if isinstance(part, bytes) else part for part in steps.of_all(held)]
    except Exception as wrong:
        wrong.add_note(UNREADABLE)
        raise


@ALLTOALL.algorithm("one-phase", lambda at: [at.all_to_all(at.n, (at.p - 1) * at.n)])
def _exchanged_at_once(steps: Steps, packed: list[Packed]) -> dict[int, Packed]:
    steps.post_each(packed)
    return steps.step()


@ALLTOALL.algorithm(
    "logarithmic",
    lambda at: [
        at.bundles(at.hops, at.n, at.hopped * at.n, at.hops, at.v * at.hops, at.v * at.hops * at.p / 2, by_all=True)
    ],
)
def _logarithmic(steps: Steps, packed: list[Packed]) -> dict[int, Packed]:
    """Bruck's algorithm: in superstep j every value moves on by 2^j whose distance has bit j set.

    At any time every process has one value for each distance, so bundles need no addresses.
    """
    n = steps.n
    held = [*packed[steps.me :], *packed[: steps.me]] if steps.takes_part else []
    held = [value if isinstance(value, bytes) else value.copy() for value in held]
    for j in range(levels_of(steps.proc.nprocs, 2)):
        moving, chosen = _moving(n, j)
        if moving and steps.takes_part:
            steps.post([(steps.me + (1 << j)) % n], dumps(list(chosen(held))))
        for part in steps.step().values():
            for distance, value in zip(moving, unpack(part), strict=True):
                held[distance] = value
    return {(steps.me - distance) % n: value for distance, value in enumerate(held)}


@lru_cache(maxsize=64)
def _moving(n: int, j: int) -> tuple[list[int], Callable[[list[Packed]], Iterable[Packed]]]:
    """Return the distances whose values move on in superstep j, and a function that picks these out of all values."""
    moving = [distance for distance in range(n) if distance >> j & 1]
    return moving, itemgetter(*moving) if len(moving) > 1 else lambda held: [held[distance] for distance in moving]


@ALLTOALL.algorithm(
    "hosts", lambda at: [at.bundles_to_forwarders(), at.bundles_across(), at.bundles_from_forwarders()], by_hosts=True
)
def _exchanged_by_hosts(steps: Steps, packed: list[Packed]) -> dict[int, Packed]:
    """Send what goes from one host to another as one bundle, which a process of either host makes and opens."""
    at = Domains(steps)
    others = [host for host in range(len(at.hosts)) if host != at.mine]
    bundles: dict[int, list[_Item]] = {at.forwarder(at.mine, host): [] for host in others}
    for host in others:
        bundles[at.forwarder(at.mine, host)] += [(steps.me, rank, packed[rank]) for rank in at.hosts[host]]
    for rank in at.here:
        if rank in bundles:
            steps.post([rank], dumps([*bundles[rank], (steps.me, rank, packed[rank])]))
        else:
            steps.post([rank], packed[rank])
    arrived = steps.step()
    if steps.me not in bundles:
        found = arrived
        leaving: list[_Item] = []
    else:
        items: list[_Item] = [item for part in arrived.values() for item in unpack(part)]
        found = {source: part for source, dest, part in items if dest == steps.me}
        leaving = [item for item in items if item[1] not in at.here]
    for host in others:
        if at.forwarder(at.mine, host) == steps.me:
            away = [item for item in leaving if item[1] in at.hosts[host]]
            steps.post([at.forwarder(host, at.mine)], dumps(away))
    entering: list[_Item] = [item for part in steps.step().values() for item in unpack(part)]
    for rank in at.here if entering else ():
        steps.post([rank], dumps([(source, part) for source, dest, part in entering if dest == rank]))
    for part in steps.step().values():
        found |= unpack(part)
    return found


def total_exchange(
    proc: Process, rows: Any, counts: Sequence[int] | np.ndarray | None, algorithm: str | None,
    exchange: Callable[..., Any] = alltoall,
) -> Any:  # fmt: skip
    """Return the rows, or values, that all processes have for this one; see `Process.total_exchange`.

    exchange : carries it out, a function as `alltoall`.
    """
    if not isinstance(rows, np.ndarray) and not is_abstract(rows):
        if counts is not None:
            raise TypeError(
                f"total_exchange: counts are of the rows of an array, and these are in a {type(rows).__name__}; give "
                f"np.asarray(rows){proc._place()}"
            )
        return exchange(proc, rows, None, algorithm, "total_exchange of values")
    p = proc.nprocs
    if rows.ndim == 0:
        raise ShapeError(f"total_exchange of a 0-d array: its first axis is dealt to processes{proc._place()}")
    shares = [1] * p if counts is None else [as_int(count) for count in (counts if np.iterable(counts) else ())]
    whole = all(type(count) is int for count in shares)
    if not whole or len(shares) != p or min(shares) < 0 or sum(shares) != len(rows):
        raise ShapeError(
            f"total_exchange of {len(rows)} rows, {'one' if counts is None else shares or counts} for each of {p} "
            f"processes: counts are {p} whole numbers >= 0 that sum to the rows{proc._place()}"
        )
    cuts = np.cumsum([0, *shares])
    parts = [rows[cuts[k] : cuts[k + 1]] for k in range(p)]
    received = exchange(proc, parts, None, algorithm, "total_exchange")
    other = next((k for k, part in enumerate(received) if part.shape[1:] != received[0].shape[1:]), None)
    if other is not None:  # they would broadcast
        raise ShapeError(
            f"total_exchange of rows of shape {received[0].shape[1:]} from process 0 and {received[other].shape[1:]} "
            f"from process {other}: the rows of all processes have one shape{proc._place()}"
        )
    together = joined(received)
    return together if counts is None else (together, [len(part) for part in received])
