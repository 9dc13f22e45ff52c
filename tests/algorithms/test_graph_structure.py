"""Triangles, cores, communities, forests, independent sets and betweenness: networkx's, or by their definitions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp import graphs

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")


def graph_of(G: nx.Graph) -> graphs.Graph:
    return graphs.from_networkx(G)[0]


def answer(G: nx.Graph, program: Callable[[graphs.Graph], Any], nprocs: int) -> Any:
    """The array that a program gives, as a list, the same on every process."""
    found = bsp.run(lambda proc: program(graph_of(G)).compute().tolist(), nprocs=nprocs)
    assert all(each == found[0] for each in found)
    return found[0]


@st.composite
def drawn(draw: st.DrawFn, loops: bool = True) -> tuple[nx.Graph, int]:
    """Return an undirected graph whose edges have few different lengths, and a number of processes."""
    n, nprocs = draw(st.integers(0, 30)), draw(st.integers(1, 5))
    G = nx.gnp_random_graph(n, draw(st.sampled_from([0.0, 0.05, 0.15, 0.4])), seed=draw(st.integers(0, 99)))
    for k, (u, v) in enumerate(G.edges):
        G[u][v]["weight"] = float(k * 7 % 5 - 1)
    if loops and n:
        G.add_edge(n - 1, n - 1, weight=2.0)
    return G, nprocs


def without_loops(G: nx.Graph) -> nx.Graph:
    found = G.copy()
    found.remove_edges_from(list(nx.selfloop_edges(found)))
    return found


@given(drawn())
@examples(60)
def test_triangles_are_networkxs(case: tuple[nx.Graph, int]) -> None:
    G, nprocs = case
    assert answer(G, graphs.triangles, nprocs) == list(nx.triangles(without_loops(G)).values())


def test_triangles_of_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["bsp.algorithms.graphs.triangles"]
    G = nx.barabasi_albert_graph(200, 6, seed=1)
    for entries in (1, 30, 5000):
        for name in ("_PAIRS", "_ROWS", "_ENTRIES"):
            monkeypatch.setattr(module, name, entries)
        assert answer(G, graphs.triangles, 3) == list(nx.triangles(G).values())


@given(drawn())
@examples(60)
def test_core_numbers_are_networkxs(case: tuple[nx.Graph, int]) -> None:
    G, nprocs = case
    assert answer(G, graphs.k_core, nprocs) == list(nx.core_number(without_loops(G)).values())


@given(drawn())
@examples(60)
def test_forests_are_networkxs(case: tuple[nx.Graph, int]) -> None:
    G, nprocs = case

    def main(proc: bsp.Process) -> Any:
        forest, total = graphs.mst(graph_of(G))
        u, v, w = forest.adjacency.triples()
        return list(zip(u.tolist(), v.tolist(), w.tolist(), strict=True)), total, forest.edges

    found = bsp.run(main, nprocs=nprocs)
    edges = {(u, v): w for each in found for u, v, w in each[0]}
    wanted = nx.minimum_spanning_tree(without_loops(G))
    assert found[0][2] == len(edges) == 2 * wanted.number_of_edges()
    assert all(G[u][v]["weight"] == w for (u, v), w in edges.items())
    assert found[0][1] == pytest.approx(wanted.size("weight"), abs=1e-12)
    assert sum(edges.values()) == pytest.approx(2 * wanted.size("weight"), abs=1e-12)
    T = nx.Graph(list(edges))
    T.add_nodes_from(G)
    assert set(map(frozenset, nx.connected_components(T))) == set(map(frozenset, nx.connected_components(G)))


@pytest.mark.parametrize("nprocs", [2, 5])
def test_trees_that_grow_in_rounds_are_those_that_one_process_finds(
    nprocs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths are equal and different; few edges are left for all processes, whatever is left out first."""
    trees = sys.modules["bsp.algorithms.graphs.trees"]

    def forest(proc: bsp.Process, seed: int) -> Any:
        graph = graphs.rmat(9, 6, seed=seed, directed=False)
        least, most = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
        length = (least * 7919 + most * 104729) % 101 / (7.0 if seed else np.inf)
        graph = graphs.from_edges(graph.sources, graph.targets, length + 1.0, graph.size)
        return [each.tolist() for each in graphs.mst(graph)[0].adjacency.compute().tocoo().coords]

    for seed in (0, 1):
        wanted = bsp.run(lambda proc, seed=seed: forest(proc, seed), nprocs=1)[0]
        assert bsp.run(lambda proc, seed=seed: forest(proc, seed), nprocs=nprocs)[0] == wanted
        for name, value in (("_few", lambda graph: 0), ("_SPARSE", 0)):
            with monkeypatch.context() as patch:
                patch.setattr(trees, name, value)
                assert bsp.run(lambda proc, seed=seed: forest(proc, seed), nprocs=nprocs)[0] == wanted


@pytest.mark.parametrize("nprocs", [1, 3])
def test_lengths_of_a_forest_may_be_infinite(nprocs: int) -> None:
    """Their sum is what Python's is, without a warning: -inf, inf or NaN."""
    u, v, least, most = [0, 1, 0, 2, 3], [1, 2, 2, 3, 4], -np.inf, np.inf

    def main(proc: bsp.Process, w: list[float]) -> tuple[list[float], float]:
        mine = slice(proc.pid, None, proc.nprocs)
        forest, total = graphs.mst(graphs.from_edges(u[mine], v[mine], w[mine], 5, directed=False))
        one, other, lengths = forest.adjacency.triples()
        return sorted(np.concatenate(proc.allgather(lengths[one < other])).tolist()), total

    for lengths in ([least, 2.0, most, 3.0, most], [1.0, 2.0, 3.0, most, 1.0], [least, 1.0, 1.0, 2.0, 3.0]):
        with np.errstate(all="raise"):
            found, total = bsp.run(main, lengths, nprocs=nprocs)[0]
        known = sorted([*sorted(lengths[:3])[:2], *lengths[3:]])
        assert found == known
        np.testing.assert_equal(total, sum(known))


def test_of_parallel_edges_a_forest_takes_the_first() -> None:
    trees = sys.modules["bsp.algorithms.graphs.trees"]
    one, other = np.array([2, 0, 1, 1, 3, 0]), np.array([2, 1, 0, 0, 0, 3])  # a loop, then parallel ones
    assert trees._forest(one, other, 4).tolist() == [1, 4]


def test_the_forest_does_not_depend_on_the_number_of_processes() -> None:
    G = nx.gnp_random_graph(60, 0.2, seed=2)  # all lengths are 1
    edges = [
        np.concatenate(bsp.run(lambda proc: np.array(graphs.mst(graph_of(G))[0].adjacency.triples()[:2]).T, nprocs=p))
        for p in (1, 2, 5)
    ]
    assert all(np.array_equal(each, edges[0]) for each in edges)


@given(drawn(), st.integers(0, 3))
@examples(60)
def test_independent_sets_are_independent_and_maximal(case: tuple[nx.Graph, int], seed: int) -> None:
    G, nprocs = case
    found = answer(G, lambda graph: graphs.mis(graph, seed=seed), nprocs)
    chosen, H = {v for v in G if found[v]}, without_loops(G)
    assert not any(H.has_edge(u, v) for u in chosen for v in chosen)
    assert all(v in chosen or chosen & set(H[v]) for v in H)
    assert found == answer(G, lambda graph: graphs.mis(graph, seed=seed), 1)


def test_other_seeds_choose_other_sets() -> None:
    G = nx.cycle_graph(50)
    assert len({tuple(answer(G, lambda graph, seed=seed: graphs.mis(graph, seed=seed), 2)) for seed in range(5)}) == 5


@given(drawn(), st.booleans())
@examples(60)
def test_each_vertex_is_where_most_of_its_neighbours_are(case: tuple[nx.Graph, int], weighted: bool) -> None:
    G, nprocs = case
    for _, _, data in G.edges(data=True):
        data["weight"] = abs(data["weight"]) + 1
    found = answer(G, lambda graph: graphs.label_propagation(graph, weighted=weighted, rounds=1000), nprocs)
    assert found == answer(G, lambda graph: graphs.label_propagation(graph, weighted=weighted, rounds=1000), 1)
    for v in G:
        votes: dict[int, float] = {}
        for u, data in G[v].items():
            votes[found[u]] = votes.get(found[u], 0) + (data["weight"] if weighted else 1)
        assert not votes or votes.get(found[v], 0) == max(votes.values())
    for label in set(found):
        assert label == found.index(label)  # the least number of a member


def test_planted_communities_are_found() -> None:
    """Six cliques of eight, joined to a ring."""
    G = nx.connected_caveman_graph(6, 8)
    for nprocs in (1, 4):
        found = answer(G, graphs.label_propagation, nprocs)
        assert found == [v // 8 * 8 for v in range(48)]


@given(drawn(loops=False), st.booleans())
@examples(40)
def test_betweenness_is_networkxs(case: tuple[nx.Graph, int], directed: bool) -> None:
    G, nprocs = case
    if directed:
        G = nx.gnp_random_graph(len(G), 0.1, seed=5, directed=True)
    found = answer(G, graphs.betweenness, nprocs)
    np.testing.assert_allclose(found, list(nx.betweenness_centrality(G).values()), rtol=0, atol=1e-13)


def test_sampled_betweenness_is_the_mean_over_samples() -> None:
    G = nx.barbell_graph(5, 3)
    exact = np.array(answer(G, graphs.betweenness, 1))
    found = np.array([answer(G, lambda graph, k=k: graphs.betweenness(graph, 6, seed=k), 2) for k in range(30)])
    assert np.array_equal(found[3], answer(G, lambda graph: graphs.betweenness(graph, 6, seed=3), 1))
    assert not np.array_equal(found[0], found[1])
    assert abs(found.mean(axis=0) - exact).max() < 4 * found.std(axis=0).max() / 30**0.5
    np.testing.assert_allclose(answer(G, lambda graph: graphs.betweenness(graph, 13), 3), exact, rtol=0, atol=1e-14)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_edges_of_one_direction_are_refused_where_they_have_no_meaning(nprocs: int) -> None:
    programs: dict[str, Callable[[graphs.Graph], Any]] = {
        "triangles": graphs.triangles, "k_core": graphs.k_core, "mst": graphs.mst, "mis": graphs.mis,
        "label_propagation": graphs.label_propagation,
    }  # fmt: skip

    def main(proc: bsp.Process) -> None:
        first = proc.pid == 0
        graph = graphs.from_edges([0, 1, 1] * first, [1, 0, 2] * first, 1.0, 3)
        values = graphs.from_edges([0, 1] * first, [1, 0] * first, [1.0, 2.0] * first, 3)
        assert [graph.undirected(), values.undirected(), values.undirected(True)] == [False, True, False]
        both = graphs.from_edges([0, 1] * first, [1, 2] * first, 3.0, 3, directed=False)
        assert both.both_ways
        assert both.undirected(True)
        assert graphs.Graph(both.adjacency).undirected(True)
        for name, program in programs.items():
            with pytest.raises(graphs.GraphError, match=f"{name}: not each edge has an opposite one; from_edges") as a:
                program(graph) if name != "mst" else graph.must_be_undirected("mst")
            assert a
        with pytest.raises(graphs.GraphError, match="mst: not each edge has an opposite one of equal value"):
            graphs.mst(values)
        with pytest.raises(graphs.GraphError, match=r"label_propagation: .* of equal value"):
            graphs.label_propagation(values, weighted=True)
        for odd in (np.nan, np.inf, -np.inf):
            weights = graphs.from_edges([0, 1] * first, [1, 2] * first, [odd, 1.0] * first, 3, directed=False)
            with pytest.raises(graphs.GraphError, match="label_propagation: 2 of 4 values of edges are not finite"):
                graphs.label_propagation(weights, weighted=True)
            assert graphs.label_propagation(weights).compute().tolist() == [0, 0, 0]
        for wrong in (0, 4):
            with pytest.raises(graphs.GraphError, match=rf"samples={wrong}"):
                graphs.betweenness(graph, wrong)
        blank = graphs.from_edges([0, 1] * first, [1, 0] * first, np.nan, 3)
        with pytest.raises(graphs.GraphError, match="mst: 2 of 2 lengths are NaN"):
            graphs.mst(blank)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.thorough
def test_the_turns_of_processes_change_nothing() -> None:
    G = nx.barabasi_albert_graph(40, 2, seed=0)

    def main(proc: bsp.Process) -> Any:
        graph = graph_of(G)
        programs = (graphs.triangles, graphs.k_core, graphs.mis, graphs.label_propagation)
        return [program(graph).compute().tolist() for program in programs], graphs.mst(graph)[1]

    assert bsp.run(main, nprocs=3, check=True)[2] == bsp.run(main, nprocs=1)[0]


EVERYTHING = """
import numpy as np
import bsp
from bsp import graphs

graph = graphs.rmat(5, 3, directed=False)
inside = [0.0]
state = bsp.State(total=0)
for k in bsp.process().rounds(3, state):    # a process that is made again here repeats nothing of earlier rounds
    state.total = state.total + int(graphs.triangles(graph).sum()) + int(graphs.mis(graph, seed=k).sum())
    state.total += int(graphs.label_propagation(graph).sum()) + int(graphs.connected_components(graph).sum())
print(state.total)
for found in (
    graphs.pagerank(graph), *graphs.bfs(graph, 1), graphs.sssp(graph, 1), graphs.connected_components(graph),
    graphs.triangles(graph), graphs.k_core(graph), graphs.label_propagation(graph), graphs.mis(graph),
    graphs.betweenness(graph, 4),
):
    print((found.compute() + 0.0).round(6))
print(graphs.mst(graph)[1])
chain = graphs.from_edges(np.arange(5), np.arange(1, 6), -1.0, 6)
print(graphs.sssp(chain, 0).compute() * bsp.process().nprocs)
"""


@pytest.mark.jobs
@pytest.mark.thorough
def test_processes_that_are_made_again_at_any_round_go_on(tmp_path: Path) -> None:
    """Also in the middle of each algorithm: nothing that a round needs was found out in an earlier round."""
    (tmp_path / "everything.py").write_text(EVERYTHING)
    words = [BSPRUN, "-p", "3", "-n", "2"], ["everything.py"]
    told = [
        subprocess.run([*words[0], *check, *words[1]], cwd=tmp_path, capture_output=True, text=True)
        for check in ([], ["--check"])
    ]
    assert [each.returncode for each in told] == [0, 0], told[1].stderr
    assert told[0].stdout == told[1].stdout
    assert "made again at the heads of rounds" in told[1].stderr


def test_supersteps_are_those_of_the_docstrings() -> None:
    G = nx.karate_club_graph()
    counts: dict[str, list[str]] = {}
    for program in (graphs.triangles, graphs.mis, graphs.k_core):
        rows = bsp.predict(
            lambda proc, program=program: repr(program(graph_of(G))), nprocs=3, machine=bsp.Machine(p=3)
        ).per_superstep
        calls = [row["call"] for row in rows]
        counts[program.__name__] = calls[1 + max(k for k, call in enumerate(calls) if "entries" in call) :]
    rounds = {name: sum("values along edges" in call for call in calls) for name, calls in counts.items()}
    assert 4 < rounds["k_core"] == len(counts["k_core"]) - 3 < 4 * 5  # of four core numbers; what comes before is known
    assert rounds["mis"] % 2 == 1
    assert rounds["triangles"] == 0
