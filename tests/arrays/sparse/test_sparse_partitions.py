"""Partitions say what a product moves, and it moves that: McColl's formulas (section 1.6.2), by prediction and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss

import bsp
import bsp.arrays as ba
from bsp.algorithms import krylov
from bsp.arrays import sparse
from bsp.arrays.sparse import partition


def mesh(*shape: int) -> ss.csr_array:
    """The adjacency matrix of a mesh: each node, and its neighbours along each axis."""
    places = np.arange(np.prod(shape)).reshape(shape)
    rows, columns = [places.reshape(-1)], [places.reshape(-1)]
    for axis, length in enumerate(shape):
        here, there = (np.take(places, range(k, length - 1 + k), axis).reshape(-1) for k in (0, 1))
        rows += [here, there]
        columns += [there, here]
    at = np.concatenate(rows), np.concatenate(columns)
    return ss.coo_array((np.ones(len(at[0])), at)).tocsr()


def hypercube(dimension: int) -> ss.csr_array:
    nodes = np.arange(2**dimension)
    rows = np.tile(nodes, dimension + 1)
    columns = np.concatenate([nodes, *[nodes ^ (1 << k) for k in range(dimension)]])
    return ss.coo_array((np.ones(len(rows)), (rows, columns))).tocsr()


def expander(n: int, seed: int = 0) -> ss.csr_array:
    """Four entries in each row and column, in random places."""
    rng = np.random.default_rng(seed)
    rows, columns = np.tile(np.arange(n), 4), np.concatenate([rng.permutation(n) for _ in range(4)])
    return ss.coo_array((np.ones(4 * n), (rows, columns))).tocsr()


# ----------------------------------------------------------------- the chapter's formulas, by prediction


@pytest.mark.parametrize("p", [16, 64, 1024, 4096])
def test_a_square_mesh_in_bricks_moves_its_border(p: int) -> None:
    side = 4 * int(p**0.5)
    traffic = partition.bricks((side, side), p).product(mesh(side, side))
    assert traffic.h == 4 * side // int(p**0.5)


@pytest.mark.parametrize("p", [64, 512, 4096])
def test_a_cubic_mesh_in_bricks_moves_its_surface(p: int) -> None:
    boxes = round(p ** (1 / 3))
    side = 2 * boxes
    assert partition.bricks((side,) * 3, p).product(mesh(side, side, side)).h == 6 * (side // boxes) ** 2


@pytest.mark.parametrize(("dimension", "p"), [(8, 4), (10, 64), (13, 4096)])
def test_a_hypercube_in_halves_moves_n_log_p_over_p(dimension: int, p: int) -> None:
    traffic = partition.halves(dimension, p).product(hypercube(dimension))
    assert traffic.h == 2**dimension * int(np.log2(p)) // p
    assert traffic.into.tolist() == [traffic.h] * p


@pytest.mark.parametrize("p", [16, 256, 4096])
@pytest.mark.thorough
def test_an_expander_moves_n_over_p_whatever_the_cut(p: int) -> None:
    n = 16 * p
    graph = expander(n)
    for deal in (partition.blocks(n, p), partition.of_graph(graph, p, method="bisection")):
        assert n / p <= deal.product(graph).h <= 8 * n / p


@pytest.mark.parametrize("method", ["hypergraph", "bisection"])
def test_a_cut_graph_is_as_good_as_bricks(method: str) -> None:
    """Of a mesh whose nodes are numbered at random, the partitioners find the mesh again."""
    if method == "hypergraph":
        pytest.importorskip("mtkahypar", reason="an extra: partition")
    rng = np.random.default_rng(1)
    order = rng.permutation(1024)
    graph = mesh(32, 32)[order][:, order]
    traffic = partition.of_graph(graph, 8, method=method).product(graph)
    assert traffic.words <= 1.5 * partition.bricks((32, 32), 8).product(mesh(32, 32)).words
    assert traffic.words < partition.blocks(1024, 8).product(graph).words / 4
    assert traffic.balance < 1.15


@pytest.mark.parametrize("p", [2, 5])
def test_words_are_the_connectivity_of_the_cut_less_one(p: int) -> None:
    """The sum over columns of the processes with entries in it, less one (its owner is one of them)."""
    graph = expander(60) + ss.eye_array(60)
    deal = partition.of_graph(graph, p)
    columns = graph.tocsc()
    spans = [
        len(set(deal.owner[columns.indices[a:b]])) for a, b in zip(columns.indptr, columns.indptr[1:], strict=False)
    ]
    assert deal.product(graph).words == sum(spans) - 60


# --------------------------------------------------------------------------------------- and by running


CASES: list[Any] = [
    (mesh(16, 16), lambda p: partition.bricks((16, 16), p), (4, 16, 64)),
    (mesh(8, 8, 8), lambda p: partition.bricks((8, 8, 8), p), (8, 64)),
    (hypercube(8), lambda p: partition.halves(8, p), (4, 64)),
    (expander(192), lambda p: partition.of_graph(expander(192), p, method="bisection"), (3, 64)),
    (mesh(9, 11), lambda p: partition.of_graph(mesh(9, 11), p, method="bisection"), (5,)),
]


@pytest.mark.parametrize(("graph", "make", "nprocs"), [(g, make, p) for g, make, ps in CASES for p in ps])
def test_a_run_moves_what_the_partition_says(graph: ss.csr_array, make: Any, nprocs: int) -> None:
    n = graph.shape[0]
    graph = graph * np.linspace(1, 2, n)
    deal = make(nprocs)
    said = deal.product(graph)

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(graph)
        x = deal.vector(np.arange(n, dtype=float))
        B = deal.matrix(A)
        for k in range(2):
            y = (B @ x).persist()
            if not k:
                assert all((a == b).all() for a, b in zip(deal.product(A), said, strict=True))
                np.testing.assert_allclose(deal.undone(y).compute(), graph @ np.arange(n), rtol=1e-12)

    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    last = rows[-1]
    assert "sparse product" in last["call"]
    assert max(last["h_sent"], last["h_received"]) == said.h


# --------------------------------------------------------------------------------- two-dimensional blocks


def power_law(n: int, seed: int = 0) -> ss.csr_array:
    """About eight entries a row; a few rows and columns have entries nearly everywhere."""
    rng = np.random.default_rng(seed)
    rows, columns = ((n * rng.random(8 * n) ** 3).astype(int) for _ in range(2))
    return ss.coo_array((rng.integers(1, 9, 8 * n) + 0.0, (rows, columns)), shape=(n, n)).tocsr()


@pytest.mark.parametrize("p", [16, 64, 1024, 4096])
def test_a_power_law_graph_by_blocks_moves_2n_over_the_root_of_p(p: int) -> None:
    n = 16 * p
    graph, deal = power_law(n), partition.of_owner(np.random.default_rng(1).permutation(n) % p, p)
    said, root = deal.grid_product(graph), int(p**0.5)
    assert said.h <= 2 * (n // root - n // p)
    assert said.elements.messages.max() <= root - 1 and said.sums.messages.max() <= root - 1
    assert said.h < deal.product(graph).h
    assert said.balance < deal.product(graph).balance


@pytest.mark.parametrize(("nprocs", "counts"), [(1, None), (3, None), (4, (1, 4)), (6, None), (6, (2, 3)), (16, None)])
def test_products_by_blocks_are_those_of_the_matrix_and_move_what_is_said(nprocs: int, counts: Any) -> None:
    n = 97
    graph = power_law(n)
    deal = partition.of_owner(np.random.default_rng(2).integers(0, nprocs, n), nprocs)
    said = deal.grid_product(graph, counts)
    x, wide = np.arange(n) + 0.5, np.arange(3.0 * n).reshape(n, 3)

    def main(proc: bsp.Process, products: int) -> None:
        A = sparse.from_scipy(graph)
        B = deal.grid(A, counts)
        assert (B.shape, B.dtype, B.nnz) == (graph.shape, graph.dtype, graph.nnz)
        assert B.nnz == B.T.nnz
        assert all((a == b).all() for pair in zip(deal.grid_product(A, counts), said, strict=True)
                   for a, b in zip(*pair, strict=True))  # fmt: skip
        ordered = ba.asarray(wide if deal.order is None else wide[deal.order])
        np.testing.assert_allclose(deal.undone((B @ ordered)[:, 1]).compute(), graph @ wide[:, 1], rtol=1e-12)
        v = deal.vector(x)
        np.testing.assert_allclose(deal.undone(B.T @ v).compute(), graph.T @ x, rtol=1e-12)
        np.testing.assert_allclose(deal.undone(B @ v).compute(), graph @ x, rtol=1e-12)
        for _ in range(products):
            (B @ v).persist()

    def moved(products: int) -> int:
        rows = bsp.predict(main, products, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
        return sum(max(each["h_sent"], each["h_received"]) for each in rows)

    assert moved(2) - moved(1) == said.h


def test_a_solver_takes_a_matrix_by_blocks() -> None:
    graph = mesh(9, 9) * -1.0 + 6.0 * ss.eye_array(81)
    deal, b = partition.bricks((9, 9), 4), np.linspace(1, 2, 81)

    def main(proc: bsp.Process) -> None:
        x, info = krylov.cg(deal.grid(sparse.from_scipy(graph)), deal.vector(b), rtol=1e-12)
        assert info == 0
        np.testing.assert_allclose(graph @ deal.undone(x).compute(), b, rtol=1e-10)

    bsp.run(main, nprocs=4)


# -------------------------------------------------------------------------------------------- mistakes


def test_mistakes_are_told() -> None:
    for wrong, text in [
        (lambda: partition.bricks((4, 4), 32), "is not cut into 32"),
        (lambda: partition.bricks((4, 4), (0, 3)), "is not cut into"),
        (lambda: partition.blocks(3, 2, [1, np.nan, 0]), "or NaN"),
        (lambda: partition.halves(3, 6), "a power of two"),
        (lambda: partition.of_owner([0, 5], 3), "processes from 0 to 2"),
        (lambda: partition.of_graph(ss.eye_array(3, 4), 2), "not square"),
        (lambda: partition.of_graph(ss.eye_array(3), 2, method="best"), "auto, hypergraph or bisection"),
        (lambda: partition.blocks(3, 2, [1, -1, 0]), "negative"),
        (lambda: partition.blocks(3, 2).product(ss.eye_array(4)), "do not fit"),
        (lambda: partition.blocks(8, 4).grid_product(ss.eye_array(8), (3, 2)), "3 x 2 processes; there are 4"),
        (lambda: partition.blocks(8, 4).grid_product(ss.eye_array(7)), "do not fit"),
    ]:
        with pytest.raises(ba.ArrayError, match=text):
            wrong()

    def main(proc: bsp.Process) -> None:
        with pytest.raises(ba.ArrayError, match="for 4 processes; there are 2"):
            partition.blocks(8, 4).vector(np.ones(8))
        deal = partition.of_owner([1, 0, 1], 2)
        with pytest.raises(ba.ArrayError, match=r"vector: shape \(3, 2\) of what is no vector"):
            deal.vector(np.ones((3, 2)))
        for x in (np.ones((3, 2)), np.ones(4)):
            with pytest.raises(ba.ArrayError, match=r"undone: shape .*; a vector of 3 elements"):
                deal.undone(x)

    bsp.run(main, nprocs=2)


def test_more_processes_than_positions() -> None:
    for deal in (
        partition.blocks(3, 8),
        partition.of_graph(mesh(3), 8, method="bisection"),
        partition.of_owner([2, 7, 0], 8),
    ):
        assert deal.product(mesh(3)).words == 4
        assert np.bincount(deal.owner, minlength=8).max() == 1
