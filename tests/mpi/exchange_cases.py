"""Random blocks between real ranks by every schedule; run by test_exchange.py under mpiexec."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from bsp.cost.model import Machine
from bsp.errors import UnknownAlgorithm
from bsp.transport import exchange
from bsp.transport.schedules import SCHEDULES

comm = MPI.COMM_WORLD
me, elements = comm.rank, comm.size
KINDS = SCHEDULES


def content(source: int, dest: int, k: int, size: int) -> np.ndarray:
    """The bytes of the k-th block from `source` to `dest`."""
    return np.random.default_rng([source, dest, k]).integers(0, 256, size, np.uint8)


def sizes_of(case: str, seed: int) -> list[list[list[int]]]:
    """sizes[source][dest]: the sizes of the blocks, known everywhere."""
    rng = np.random.default_rng(seed)
    table: list[list[list[int]]] = [[[] for _ in range(elements)] for _ in range(elements)]
    for source in range(elements):
        for dest in range(elements):
            if source == dest:
                continue
            if case == "ragged":
                table[source][dest] = rng.integers(0, 9000, rng.integers(0, 4)).tolist()
            elif case == "skewed" and source == 0:
                table[source][dest] = [100_000] if dest == 1 else []
            elif case == "sparse" and rng.random() < 0.3:
                table[source][dest] = [int(rng.integers(0, 3))]
            elif case == "large":
                table[source][dest] = [30_001, 5]
    return table


def move(case: str, kind: str, seed: int) -> None:
    """One exchange, compared byte for byte."""
    sizes = sizes_of(case, seed)
    out = {d: [content(me, d, k, n) for k, n in enumerate(sizes[me][d])] for d in range(elements) if sizes[me][d]}
    into = {s: [np.empty(n, np.uint8) for n in sizes[s][me]] for s in range(elements) if sizes[s][me]}
    exchange.exchange(comm, out, into, kind, (seed, 3))
    for source, blocks in into.items():
        for k, block in enumerate(blocks):
            assert np.array_equal(block, content(source, me, k, block.size)), (case, kind, seed, source, k)


# every schedule can be chosen for something
grid = np.array([[0, 9, 9, 0], [9, 0, 0, 9], [9, 0, 0, 9], [0, 9, 9, 0]]) * 1000  # rows and columns of two each
whole = exchange.ExchangeSizes([18_000] * 4, [2] * 4, grid)
for kind in KINDS:
    schedule = exchange.checked(kind)
    costs = [cost for cost in (schedule.packets(whole), schedule.blocks(whole)) if cost is not None]
    assert costs and all(0 < cost.price(Machine()) < float("inf") for cost in costs), kind

for largest in (1 << 30, 1000):  # the second splits every block into messages of 1000 bytes
    exchange._LARGEST = largest
    for case in ("ragged", "skewed", "sparse", "large", "nothing"):
        for kind in KINDS:
            for seed in range(3):
                move(case, kind, seed)

try:
    exchange.exchange(comm, {}, {}, "diagonal", (0, 0))
except UnknownAlgorithm as unknown:
    assert "schedule 'diagonal' is none of latin, matched, bruck, two-phase" in str(unknown)
else:
    raise AssertionError("an unknown schedule ran")

# the choice is the same on every rank, and by predicted cost
machine = Machine(o=1e4, g=1.0)
many = exchange.ExchangeSizes([800] * elements, [elements - 1] * elements)
few = exchange.ExchangeSizes([8_000_000] * elements, [1] * elements)
chosen = comm.allgather(tuple(exchange.choose_small(traffic, machine).chosen for traffic in (many, few)))
assert len(set(chosen)) == 1
assert chosen[0] == ("bruck" if elements >= 16 else "latin", "latin"), chosen
skewed = [0] * elements
skewed[(me + 1 + me % 3) % elements] = 2_000_000  # every round of the Latin square has a heavy pair
totals = comm.allgather(sum(skewed))
free = Machine(o=0.0)  # messages cost nothing: only words decide
kinds = comm.allgather(exchange.choose_large(comm, exchange.ExchangeSizes(totals, [1] * elements), skewed, free).chosen)
assert len(set(kinds)) == 1
matrix = np.array(comm.allgather(skewed))
rounds = sum(max(int(matrix[i, (i + r) % elements]) for i in range(elements)) for r in range(1, elements))
relation = max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max())
paired = exchange.matched_rounds(matrix)
for dests in paired:
    receivers = [dest for dest in dests if dest >= 0]
    assert len(set(receivers)) == len(receivers) and all(matrix[i, j] for i, j in enumerate(dests) if j >= 0)
assert sorted((i, j) for dests in paired for i, j in enumerate(dests) if j >= 0) == [
    (i, j) for i, j in np.argwhere(matrix).tolist() if i != j
]
words = sum(max(int(matrix[i, j]) for i, j in enumerate(dests) if j >= 0) for dests in paired)
considered = {"latin": rounds, "two-phase": 2 * relation} | ({"matched": words} if rounds > 1.2 * relation else {})
assert kinds[0] == min(considered, key=considered.__getitem__)
assert [sum(j >= 0 for j in dests) for dests in exchange.matched_rounds(grid)] == [4, 4]
if me == 0:
    print(f"exchange: all blocks arrived on {elements} elements; skewed traffic goes {kinds[0]}")
