"""Collectives that combine inside a host first: the same bytes, and so many words between hosts as their costs say."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import log2
from typing import Any

import numpy as np
import pytest
from collective_calls import call, check_that_its_result_is_its_own, flattened
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp.collectives.choice import COLLECTIVES
from bsp.collectives.domains import hosts_of
from bsp.collectives.sizes import Sizes
from bsp.collectives.steps import Steps
from bsp.cost.machine_file import fitting, to_machine
from bsp.cost.model import Machine
from bsp.hosts.listing import Host
from bsp.values.operations import combine, combine_nodes, nodes_of, operation
from bsp.values.payload import size_of

pytestmark = pytest.mark.solo

BY_HOSTS = [
    (name, each.name) for name, known in COLLECTIVES.items() for each in known.algorithms.values() if each.by_hosts
]
BUNDLED = {("allgather", "hosts"), ("alltoall", "hosts")}
EVEN, UNEVEN = (4, 4, 4, 4), (3, 1, 2)


def machine(slots: tuple[int, ...]) -> Machine:
    """Return what is assumed of hosts with so many elements each."""
    return to_machine(fitting(sum(slots), [Host(f"h{k}", count) for k, count in enumerate(slots)]))


@pytest.mark.crossed
@pytest.mark.parametrize(
    ("slots", "nprocs"),
    [((2, 2), 4), ((2, 1), 3), ((2, 1), 7), ((3, 3, 3), 24), (UNEVEN, 6), (UNEVEN, 16), (EVEN, 16), (EVEN, 19)],
)
@pytest.mark.parametrize(("name", "algorithm"), BY_HOSTS)
def test_an_algorithm_by_hosts_has_the_result_of_one_phase(
    name: str, algorithm: str, slots: tuple[int, ...], nprocs: int
) -> None:
    """Arguments are taken as they stood at the call (B1), sums have the bits of D3's tree, whatever the root."""
    values = np.random.default_rng(nprocs).standard_normal((nprocs, nprocs, 5))

    def main(proc: bsp.Process) -> None:
        x = proc.coarray((nprocs, 5))
        x.local[:] = values[proc.pid]
        proc.sync()
        expected = flattened(call(proc, name, "one-phase", x.local))
        for dest in range(nprocs):
            x.put(dest, -1.0)
        got = call(proc, name, algorithm, x.local)
        x.local[:] = np.nan  # a result that shares memory with its argument would show it
        assert flattened(got) == expected
        if name in ("broadcast", "reduce"):
            for root in {0, nprocs // 2, nprocs - 1}:
                mine: Any = [proc.pid]
                found = getattr(proc, name)(mine, root=root, algorithm=algorithm) if algorithm == "hosts" else None
                assert found in (None, [root], list(range(nprocs)))
                of_root = getattr(proc, name)(values[proc.pid], root=root, algorithm=algorithm)
                again = getattr(proc, name)(values[proc.pid], root=root, algorithm="one-phase")
                assert flattened(of_root) == flattened(again)

    bsp.run(main, nprocs=nprocs, machine=machine(slots))


@pytest.mark.parametrize(("slots", "nprocs"), [((2, 1), 3), (UNEVEN, 6)])
@pytest.mark.parametrize(("name", "algorithm"), BY_HOSTS)
def test_a_large_result_by_hosts_belongs_to_its_process_alone(
    name: str, algorithm: str, slots: tuple[int, ...], nprocs: int
) -> None:
    main = partial(check_that_its_result_is_its_own, name=name, algorithm=algorithm)
    bsp.run(main, nprocs=nprocs, machine=machine(slots))


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(1, max(1, n - 1)), max_size=6))))
@examples(200)
def test_nodes_of_parts_combine_to_the_tree_of_all(case: tuple[int, set[int]]) -> None:
    """Values are combined inside each part of 0..n-1 first; what is left of all parts gives the same bits."""
    n, inside = case
    values = np.random.default_rng(n).standard_normal(n).tolist()
    cuts = [0, *sorted(k for k in inside if k < n), n]
    op, held = operation("add"), {}
    for start, stop in pairwise(cuts):
        part = combine_nodes({(0, k): values[k] for k in range(start, stop)}, n, op)
        assert list(part) == nodes_of(start, stop, n)
        assert len(part) <= max(1, 2 * log2(n))
        held |= part
    assert list(combine_nodes(held, n, op).values()) == [combine(values, op)]


@pytest.mark.parametrize("nprocs", [16, 32, 64])
@pytest.mark.parametrize(("name", "algorithm"), BY_HOSTS)
def test_an_algorithm_by_hosts_takes_the_supersteps_and_words_of_its_costs(
    name: str, algorithm: str, nprocs: int
) -> None:
    """Counted level by level; pickled bundles have more words than their values."""
    n, hosts = 4 * nprocs * 3, machine(EVEN)
    memory = np.arange(float(nprocs * n)).reshape(nprocs, n)
    costs = COLLECTIVES[name].algorithms[algorithm].costs(Sizes(hosts, nprocs, n, n))
    found = bsp.predict(lambda proc: call(proc, name, algorithm, memory), nprocs=nprocs, elements=16, machine=hosts)
    rows = found.per_superstep
    assert len(rows) == len(costs) == COLLECTIVES[name].supersteps(algorithm, nprocs, hosts)
    h = [max(row["h_sent"], row["h_received"]) for row in rows]
    if (name, algorithm) in BUNDLED:
        pickled = 300 * sum(row["messages"] for row in rows)
        assert sum(cost.H for cost in costs) <= sum(h) <= 2 * sum(cost.H for cost in costs) + pickled
    else:
        assert h == [cost.H for cost in costs]
        priced = [cost.price(hosts) / hosts.r for cost in costs]
        # what is computed is timed here, and is in the price by the rates of the machine
        assert sum(priced) == pytest.approx(sum(row["seconds"] - row["compute"] for row in rows), rel=0.15)


@pytest.mark.parametrize("nprocs", [32, 40, 64, 100])
def test_an_allreduce_sends_few_messages_and_its_words_once(nprocs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host sends at most log2(hosts) messages, each with its combined words once.

    Where a host's processes are no whole part of D3's tree, as of 40 and 100, a host sends the parts that there
    are, in one message.
    """
    hosts, n = machine(EVEN), 40
    of = {pid: k for k, pids in enumerate(hosts_of(hosts, nprocs)) for pid in pids}
    sent: dict[int, list[int]] = {k: [] for k in range(4)}
    post = Steps.post

    def counted(steps: Steps, ranks: Any, value: Any, note: Any = None) -> None:
        ranks = list(ranks)
        sent[of[steps.me]] += [size_of(value) for rank in ranks if of[rank] != of[steps.me]]
        post(steps, ranks, value, note)

    monkeypatch.setattr(Steps, "post", counted)
    found = bsp.predict(lambda proc: proc.allreduce(np.ones(n)), nprocs=nprocs, elements=16, machine=hosts)
    assert found.record["choices"][0]["chosen"] == "hosts"
    assert max(map(len, sent.values())) <= log2(len(sent))
    if nprocs in (32, 64):
        assert found.record["words_by_level"][2] == len(sent) * log2(len(sent)) * n
        assert all(8 * n == each for messages in sent.values() for each in messages)


def test_an_array_crosses_into_each_host_once() -> None:
    """A broadcast of n words in pieces brings each host n, an allreduce 2n less a host's own shares; words are counted.

    The root's host is sent its own value's other shares, too, because all hosts do the same.
    """
    hosts, n = machine(EVEN), 1_000_000
    bytes_of = {
        "broadcast": lambda proc: proc.broadcast(np.ones(n) if proc.pid == 0 else None),
        "allreduce": lambda proc: proc.allreduce(np.ones(n)),
    }
    for name, least in (("broadcast", 3 * n + 3 * n // 4), ("allreduce", 2 * 3 * n)):
        found = bsp.predict(bytes_of[name], nprocs=16, elements=16, machine=hosts, abstract=True)
        assert found.record["choices"][0]["chosen"] == "hosts-in-pieces", name
        assert found.record["words_by_level"][2] == least


def test_a_total_exchange_combines_what_goes_from_host_to_host_where_that_is_cheaper() -> None:
    """The model decides, and `plan` shows it: on one host nothing is combined."""

    def main(proc: bsp.Process) -> str:
        proc.alltoall([1.0] * proc.nprocs)
        return str(proc.plan())

    assert bsp.run(main, nprocs=64, machine=machine(EVEN))[0].startswith("alltoall: hosts;")
    assert not bsp.run(main, nprocs=4, machine=machine((2, 2)))[0].startswith("alltoall: hosts;")
    assert "hosts" not in bsp.run(main, nprocs=64)[0]


@pytest.mark.parametrize(("nprocs", "hosts", "group"), [(4, Machine(), None), (16, machine(EVEN), [0, 1])])
def test_an_algorithm_by_hosts_needs_hosts_and_all_processes(
    nprocs: int, hosts: Machine, group: list[int] | None
) -> None:
    def main(proc: bsp.Process) -> None:
        proc.allreduce(1.0, algorithm="hosts", group=group)

    with pytest.raises(bsp.UnknownAlgorithm, match="'hosts' is none of one-phase"):
        bsp.run(main, nprocs=nprocs, machine=hosts)
