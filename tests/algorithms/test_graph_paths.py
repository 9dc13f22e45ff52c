"""Paths and components are networkx's and scipy's, whatever p; what cannot be is refused with its place."""

from __future__ import annotations

import math
import pickle
import warnings
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as ss
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csgraph
from thinning import examples

import bsp
from bsp import graphs
from bsp.arrays import sparse

PROCESSES = (1, 2, 3, 5)


def from_scipy(matrix: Any) -> graphs.Graph:
    from bsp.arrays import sparse

    return graphs.Graph(sparse.from_scipy(matrix))


def random_matrix(seed: int, n: int, degree: float, lengths: Any) -> ss.csr_array:
    """A random graph whose edges have some of these lengths."""
    rng = np.random.default_rng(seed)
    on = rng.random((n, n)) < degree / max(n, 1)
    return ss.csr_array(np.where(on, rng.choice(lengths, (n, n)), 0.0))


def path(n: int, seed: int) -> ss.csr_array:
    """A path of n vertices in random order."""
    order = np.random.default_rng(seed).permutation(n)
    return ss.coo_array((np.ones(n - 1), (order[:-1], order[1:])), shape=(n, n)).tocsr()


# --------------------------------------------------------------------------- breadth-first search


def validate(matrix: ss.csr_array, source: int, distance: np.ndarray, parent: np.ndarray) -> None:
    """Graph500's rules of validation (specification, kernel 2), of which the last is for graphs of both directions."""
    n = matrix.shape[0]
    reached = parent >= 0
    assert parent[source] == source
    assert distance[source] == 0
    assert np.array_equal(reached, distance >= 0)
    others = np.flatnonzero(reached & (np.arange(n) != source))
    # 1, 2: a tree without cycles, whose edges join vertices of which the distances differ by one
    assert np.array_equal(distance[others], distance[parent[others]] + 1)
    # 5: of edges of the graph
    dense = matrix.toarray() != 0
    assert dense[parent[others], others].all()
    # 3, 4: each edge of the graph leads at most one further, and from what is reached to what is reached
    u, v = dense.nonzero()
    assert (distance[v][reached[u]] <= distance[u][reached[u]] + 1).all()
    assert reached[v[reached[u]]].all()


@given(st.data())
@examples(60)
def test_breadth_first_trees_pass_graph500s_validation(data: st.DataObject) -> None:
    n, nprocs = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5))
    W = random_matrix(data.draw(st.integers(0, 99)), n, data.draw(st.sampled_from([0.0, 0.8, 2.0, 6.0])), [1.0])
    source = data.draw(st.integers(0, n - 1))

    def main(proc: bsp.Process) -> Any:
        distance, parent = graphs.bfs(from_scipy(W), source)
        return distance.compute(), parent.compute()

    distance, parent = bsp.run(main, nprocs=nprocs)[-1]
    validate(W, source, distance, parent)
    wanted = csgraph.dijkstra(W, indices=source, unweighted=True)
    assert np.array_equal(distance, np.where(np.isinf(wanted), -1, wanted))
    dense = W.toarray() != 0
    for v in np.flatnonzero(distance > 0):  # the least of all parents that would do
        assert parent[v] == np.flatnonzero(dense[:, v] & (distance == distance[v] - 1))[0]


@pytest.mark.parametrize("nprocs", [1, 4])
def test_breadth_first_search_of_rmat_passes_graph500s_validation(nprocs: int) -> None:
    def main(proc: bsp.Process) -> Any:
        graph = graphs.rmat(9, seed=4, directed=False)
        source = int(np.argmax(np.concatenate(proc.allgather(graph.out_degree))))
        distance, parent = graphs.bfs(graph, source)
        return graph.adjacency.compute(), source, distance.compute(), parent.compute()

    validate(*bsp.run(main, nprocs=nprocs)[0])


def test_a_search_is_a_superstep_a_distance_and_each_vertex_is_sent_once() -> None:
    """A complete graph on two processes: the other process's 20 vertices are sent a word each, once."""
    W = ss.csr_array(1.0 - np.eye(40))
    rows = bsp.predict(
        lambda proc: repr(graphs.bfs(from_scipy(W), 0)), nprocs=2, machine=bsp.Machine(p=2)
    ).per_superstep
    words = [row["h_sent"] for row in rows if row["call"].count("values along edges")]
    assert words == [2 + 20, 2 + 20, 2]  # all there, then all here, and no vertex twice
    with pytest.raises(graphs.GraphError, match="bfs: vertex 40 of a graph of 40 vertices"):
        bsp.run(lambda proc: repr(graphs.bfs(from_scipy(W), 40)), nprocs=1)


# --------------------------------------------------------------------------------- shortest paths


@given(st.data())
@examples(80)
def test_shortest_paths_are_scipys(data: st.DataObject) -> None:
    n, nprocs = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5))
    lengths = data.draw(st.sampled_from([[1.0], [0.5, 3.0, 100.0], [1e-3, 1.0, 1e3], list(np.linspace(0.1, 9, 50))]))
    W = random_matrix(data.draw(st.integers(0, 99)), n, data.draw(st.sampled_from([0.8, 2.0, 6.0])), lengths)
    delta: Any = data.draw(st.sampled_from(["auto", 0.0, 1.0, 7.5, np.inf]))
    source = data.draw(st.integers(0, n - 1))
    found = bsp.run(lambda proc: graphs.sssp(from_scipy(W), source, delta).compute(), nprocs=nprocs)[-1]
    np.testing.assert_allclose(found, csgraph.dijkstra(W, indices=source), rtol=1e-13, atol=0)


@pytest.mark.parametrize("nprocs", [2, 4])
def test_paths_within_a_process_take_one_round(nprocs: int) -> None:
    """A chain of 400 vertices: the window covers all of it after 9 doublings, and it is cut nprocs - 1 times."""
    chain = ss.coo_array((np.ones(399), (np.arange(399), np.arange(1, 400))), shape=(400, 400)).tocsr()

    def main(proc: bsp.Process) -> None:
        np.testing.assert_array_equal(graphs.sssp(from_scipy(chain), 0).compute(), np.arange(400))

    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    rounds = [row["h_sent"] for row in rows if "values along edges" in row["call"]]
    assert len(rounds) <= 9 + nprocs
    assert sum(rounds) < 4 * len(rounds) * nprocs  # headers, and one word at each cut


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
@pytest.mark.parametrize("delta", [0.0, 0.5, 3.0])
def test_narrow_windows_reach_all_vertices_of_paths(nprocs: int, delta: float) -> None:
    """Values sent back to settled vertices make windows end too early: rounds in which nothing is settled."""
    orders = [np.array([0, 4, 1, 5, 2, 6, 3, 7]), *(np.random.default_rng(k).permutation(12) for k in range(4))]
    made = [ss.coo_array((np.arange(1.0, len(o)), (o[:-1], o[1:])), shape=(len(o), len(o))).tocsr() for o in orders]
    paths = [ss.csr_array(W + W.T) for W in made]
    found = bsp.run(lambda proc: [graphs.sssp(from_scipy(W), 0, delta).compute() for W in paths], nprocs=nprocs)[-1]
    assert found[0].tolist() == [0, 3, 10, 21, 1, 6, 15, 28]
    for W, distance in zip(paths, found, strict=True):
        np.testing.assert_array_equal(distance, csgraph.dijkstra(W, indices=0))


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("last", [1.0, -1.0])
def test_lengths_beyond_all_numbers_are_no_paths(nprocs: int, last: float) -> None:
    """People mark a road that is closed by the greatest float."""
    most = np.finfo(float).max
    W = ss.coo_array(([most, most, 5.0, most, last], ([0, 1, 0, 2, 2], [1, 2, 2, 3, 4])), shape=(5, 5)).tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bsp.run(lambda proc: graphs.sssp(from_scipy(W), 0).compute(), nprocs=nprocs)[-1]
    assert found.tolist() == [0, most, 5, most, 5 + last]  # most + 5 is rounded to most


@pytest.mark.parametrize("nprocs", [2, 3])
def test_the_window_of_a_long_path_grows_without_a_warning(nprocs: int) -> None:
    """It is doubled in each of more than 1024 rounds, to infinity."""
    W = path(3000, 1)
    begin = int(np.flatnonzero(W.sum(axis=0) == 0)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bsp.run(lambda proc: graphs.sssp(from_scipy(W), begin).compute(), nprocs=nprocs)[-1]
    assert sorted(found.tolist()) == list(range(3000))


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_lengths_of_zero_are_lengths(nprocs: int) -> None:
    def main(proc: bsp.Process) -> Any:
        first = proc.pid == 0
        graph = graphs.from_edges([0, 1, 2, 0] * first, [1, 2, 0, 3] * first, [0.0, 0.0, 0.0, 2.0] * first, 5)
        return graphs.sssp(graph, 1).compute().tolist()

    assert bsp.run(main, nprocs=nprocs)[0] == [0, 0, 0, 2, np.inf]


@given(st.data())
@examples(80)
def test_negative_lengths_give_paths_or_a_cycle(data: st.DataObject) -> None:
    n, nprocs = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 4))
    lengths = [*data.draw(st.sampled_from([[4.0, 5.0, 9.0], [1.0, 2.0], [20.0, 30.0, 40.0]])), -1.0]
    W = random_matrix(data.draw(st.integers(0, 99)), n, data.draw(st.sampled_from([0.8, 2.0, 4.0])), lengths)
    source = data.draw(st.integers(0, n - 1))

    def main(proc: bsp.Process) -> Any:
        try:
            return graphs.sssp(from_scipy(W), source).compute()
        except graphs.NegativeCycle as error:
            return error

    found = bsp.run(main, nprocs=nprocs)
    G = nx.from_scipy_sparse_array(W, create_using=nx.DiGraph)
    try:
        wanted = nx.single_source_bellman_ford_path_length(G, source)
    except nx.NetworkXUnbounded:
        for error in found:
            assert isinstance(error, graphs.NegativeCycle)
            assert error.cycle == found[0].cycle
        cycle = [*found[0].cycle, found[0].cycle[0]]
        assert len(set(cycle)) == len(cycle) - 1
        assert sum(G[u][v]["weight"] for u, v in pairwise(cycle)) < 0
        assert " -> ".join(map(str, cycle)) in str(found[0]) or len(cycle) > 13
    else:
        assert found[0].tolist() == [wanted.get(v, np.inf) for v in range(n)]


def test_a_long_negative_cycle_is_told_by_its_first_vertices() -> None:
    n = 40
    W = ss.coo_array((-np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n)).tocsr()
    with pytest.raises(graphs.NegativeCycle, match=r"11 -> \.\.\. \(40 vertices\) sum to less than 0") as told:
        bsp.run(lambda proc: repr(graphs.sssp(from_scipy(W), 7)), nprocs=3)
    assert sorted(told.value.cycle) == list(range(n))
    assert pickle.loads(pickle.dumps(told.value)).cycle == told.value.cycle


@pytest.mark.parametrize("nprocs", [1, 3])
def test_lengths_that_are_no_numbers_are_refused(nprocs: int) -> None:
    for wrong in (np.nan, -np.inf):
        with pytest.raises(graphs.GraphError, match="1 of 3 lengths are NaN or -inf"):
            bsp.run(lambda proc: repr(graphs.sssp(
                graphs.from_edges(*([[0, 1, 2], [1, 2, 3], [1, wrong, 1]] if proc.pid == 0 else [[], [], []]), 4), 0  # type: ignore[misc]
            )), nprocs=nprocs)  # fmt: skip
    for delta in (-1.0, np.nan):
        with pytest.raises(graphs.GraphError, match="delta"):
            bsp.run(lambda proc: repr(graphs.sssp(from_scipy(path(4, 0)), 0, delta)), nprocs=nprocs)
    with pytest.raises(graphs.GraphError, match="sssp: vertex -1"):
        bsp.run(lambda proc: repr(graphs.sssp(from_scipy(path(4, 0)), -1)), nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_a_source_is_an_integer(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        graph = from_scipy(path(6, 0))
        for program in (graphs.bfs, graphs.sssp):
            for wrong in (1.5, "1", None):
                with pytest.raises(TypeError, match="a source is the integer of a vertex, not"):
                    program(graph, wrong)  # type: ignore[operator]
        for each in (np.int8(2), np.uint64(2), np.array(2)):
            assert graphs.bfs(graph, each)[0].compute().tolist() == graphs.bfs(graph, 2)[0].compute().tolist()  # type: ignore[arg-type]

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 3, 4])
def test_other_arguments_on_each_process_are_a_mismatch(nprocs: int) -> None:
    negative = path(6, 0) * -1.0
    programs: list[Any] = [
        lambda proc: graphs.bfs(from_scipy(path(6, 0)), proc.pid),
        lambda proc: graphs.sssp(from_scipy(path(6, 0)), proc.pid),
        lambda proc: graphs.sssp(from_scipy(path(6, 0)), 0, 1.0 + proc.pid),
        lambda proc: graphs.sssp(from_scipy(negative), proc.pid),
        lambda proc: graphs.pagerank(from_scipy(path(6, 0)), 0.5 + proc.pid / 10),
        lambda proc: graphs.mis(from_scipy(path(6, 0) + path(6, 0).T), seed=proc.pid),
    ]
    texts = ("bfs from 1", "sssp from 1, delta auto", "delta 2.0", "sssp from 1", "damping 0.6", "mis of seed 1")
    for program, text in zip(programs, texts, strict=True):
        with pytest.raises(bsp.SyncMismatch, match=text):
            bsp.run(lambda proc, program=program: program(proc) and None, nprocs=nprocs)  # type: ignore[misc]


# ------------------------------------------------------------------------------------- components


@given(st.data())
@examples(80)
def test_components_are_scipys(data: st.DataObject) -> None:
    n, nprocs = data.draw(st.integers(0, 60)), data.draw(st.integers(1, 6))
    W = random_matrix(data.draw(st.integers(0, 99)), n, data.draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])), [1.0])
    found = bsp.run(lambda proc: graphs.connected_components(from_scipy(W)).compute(), nprocs=nprocs)[-1]
    count, labels = csgraph.connected_components(W, directed=True, connection="weak") if n else (0, np.zeros(0, int))
    least = np.array([np.flatnonzero(labels == k)[0] for k in range(count)], int)
    assert found.tolist() == least[labels].tolist()


@pytest.mark.parametrize("nprocs", [2, 5])
def test_long_paths_take_few_rounds(nprocs: int) -> None:
    """A path of 2000 vertices in random order crosses between processes a thousand times."""
    W = path(2000, 1)
    rows = bsp.predict(
        lambda proc: np.testing.assert_array_equal(graphs.connected_components(from_scipy(W)).compute(), 0),
        nprocs=nprocs, machine=bsp.Machine(p=nprocs),
    ).per_superstep  # fmt: skip
    assert len(rows) < 6 * 1.5 * math.log2(2000)


# -------------------------------------------------------------------------------------- and faults


@pytest.mark.thorough
@pytest.mark.parametrize("nprocs", [1, 4])
def test_answers_do_not_depend_on_the_turns_of_processes(nprocs: int) -> None:
    W = random_matrix(3, 30, 2.0, [1.0, 2.0, 5.0])

    def main(proc: bsp.Process) -> Any:
        graph = from_scipy(W)
        return (
            graphs.sssp(graph, 0).compute().tolist(), graphs.bfs(graph, 0)[1].compute().tolist(),
            graphs.connected_components(graph).compute().tolist(),
        )  # fmt: skip

    assert bsp.run(main, nprocs=nprocs, check=True)[0] == bsp.run(main, nprocs=1)[0]


@pytest.mark.parametrize("delta", [-1, float("nan"), "fast", None])
def test_a_window_is_a_number_or_found_by_itself(delta: Any) -> None:
    def main(proc: bsp.Process) -> None:
        graph = graphs.Graph(sparse.eye(3))
        with pytest.raises(graphs.GraphError, match=r"sssp\(delta=.*\): 'auto', or a number that is not negative"):
            graphs.sssp(graph, 0, delta)
        assert graphs.sssp(graph, 0, np.float32(2)).compute().tolist() == [0, np.inf, np.inf]

    bsp.run(main, nprocs=2)
