"""A round brings every vertex what its edges carry, whatever p; programs on graphs give networkx's answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp import graphs
from bsp.arrays import ArrayError

PROCESSES = (1, 2, 3, 5)
COMBINERS: list[tuple[np.ufunc, Any]] = [
    (np.add, float), (np.add, np.int64), (np.multiply, float), (np.minimum, float), (np.maximum, np.int32),
    (np.minimum, np.int64), (np.bitwise_or, np.int64), (np.bitwise_and, np.int64), (np.bitwise_xor, np.uint8),
    (np.logical_or, bool), (np.logical_and, bool), (np.maximum, bool),
]  # fmt: skip
EDGES: list[Any] = [None, np.multiply, lambda x, w: x + w, lambda x, w: (x - w).astype(np.float32)]


def heard_by_hand(
    n: int, edges: list[tuple[int, int, float]], values: np.ndarray, combine: Callable[[Any, Any], Any], edge: Any,
    active: np.ndarray,
) -> dict[int, Any]:  # fmt: skip
    """What a round brings, by vertex, edge by edge."""
    found: dict[int, Any] = {}
    for u, v, w in edges:
        if active[u]:
            carried = values[u] if edge is None else edge(values[u : u + 1], np.array([w]))[0]
            found[v] = combine(found[v], carried) if v in found else carried
    return found


def built(n: int, edges: list[tuple[int, int, float]], proc: bsp.Process) -> graphs.Graph:
    """The graph of edges of which each process brings some."""
    mine = np.array(edges[proc.pid :: proc.nprocs], float).reshape(-1, 3)
    return graphs.from_edges(mine[:, 0].astype(int), mine[:, 1].astype(int), mine[:, 2], n)


def whole(parts: list[Any]) -> np.ndarray:
    return np.concatenate(parts)


@given(st.data())
@examples(150)
def test_a_round_brings_what_edges_carry(data: st.DataObject) -> None:
    nprocs, n = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 12))
    pairs = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(n - 1, 0)))
    places = data.draw(st.lists(pairs, unique=True, max_size=40)) if n else []
    edges = [(u, v, float(k % 5 + 1)) for k, (u, v) in enumerate(sorted(places))]
    ufunc, dtype = data.draw(st.sampled_from(COMBINERS))
    edge = data.draw(st.sampled_from(EDGES)) if np.dtype(dtype) == float else None
    values = np.random.default_rng(n).integers(0, 6, n).astype(dtype)
    mask = data.draw(st.sampled_from(["none", "all", "some"]))
    active = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool) if mask == "some" else None
    on = np.ones(n, bool) if active is None else active

    def main(proc: bsp.Process) -> Any:
        graph = built(n, edges, proc)
        assert (graph.size, graph.edges) == (n, len(edges))
        given = graph.values(on) if mask != "none" else None
        heard = graph.send(
            graph.values(values), ufunc, edge=edge, active=given, totals=[1.0, proc.pid], least=[-proc.pid]
        )
        assert heard.totals.tolist() == [nprocs, nprocs * (nprocs - 1) / 2]
        assert heard.least.tolist() == [1 - nprocs]
        assert heard.sent == on.sum()
        return heard.values, heard.reached

    found = bsp.run(main, nprocs=nprocs)
    wanted = heard_by_hand(n, edges, values, ufunc, edge, on)
    heard, reached = whole([each[0] for each in found]), whole([each[1] for each in found])
    assert np.flatnonzero(reached).tolist() == sorted(wanted)
    for v in range(n):
        neutral = ufunc(heard[v], np.ones(1, heard.dtype)) if v not in wanted else None
        assert heard[v] == wanted[v] if v in wanted else neutral == np.ones(1, heard.dtype), v


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_known_values_keep_back_what_is_no_news(nprocs: int) -> None:
    """Least numbers spread as without it; a vertex is sent a value once, and then only smaller ones."""
    edges = [(u, v, 1.0) for u in range(20) for v in range(20) if (u * 7 + v * 3) % 5 == 0]

    def main(proc: bsp.Process) -> Any:
        graph = built(20, edges, proc)
        known = graph.reach(np.inf)
        values, more = graph.own[::-1].astype(float), []
        for _ in range(3):
            plain = graph.send(values, np.minimum).values
            heard = graph.send(values, np.minimum, known=known)
            assert np.array_equal(np.minimum(heard.values, values), np.minimum(plain, values)) or len(more)
            more.append(int(heard.reached.sum()))
        assert more[1:] == [0, 0]
        return more

    assert sum(each[0] for each in bsp.run(main, nprocs=nprocs)) == 20


@given(st.data())
@examples(80)
def test_ascending_values_give_the_same_by_targets_as_by_sources(data: st.DataObject) -> None:
    """Whether targets look for their first active neighbour, or each process's active vertices send along all edges."""
    nprocs, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    edges = [(u, v, 1.0) for u in range(n) for v in range(n) if rng.random() < data.draw(st.sampled_from([0.1, 0.5]))]
    values, active = np.sort(rng.integers(0, 9, n)), rng.random(n) < data.draw(st.sampled_from([0.2, 0.9]))
    before = rng.integers(0, 12)

    def main(proc: bsp.Process) -> None:
        graph = built(n, edges, proc)
        known = [graph.reach(before, np.int64) for _ in range(2)]
        found = [
            graph.send(graph.values(values), np.minimum, active=graph.values(active), known=each, ascending=looks)
            for each, looks in zip(known, (False, True), strict=True)
        ]
        assert np.array_equal(*known)
        assert all(np.array_equal(*each) for each in zip(*found, strict=True))

    bsp.run(main, nprocs=nprocs)


def test_a_repeated_round_on_arrays_that_the_program_changes() -> None:
    """What a round returns is the program's own: changing it changes no later round."""

    def main(proc: bsp.Process) -> None:
        graph = built(6, [(0, 1, 1.0), (2, 3, 1.0), (5, 0, 1.0)], proc)
        for _ in range(2):
            heard = graph.send(graph.values(1.0))
            assert proc.allreduce(int(heard.reached.sum())) == 3
            heard.values[:], heard.reached[:] = 7, True

    for nprocs in (1, 2):
        bsp.run(main, nprocs=nprocs)


# ------------------------------------------------------------------------------- other exchanges


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_values_at_targets_of_any_vertices_and_to_any_vertices(nprocs: int) -> None:
    n, rng = 23, np.random.default_rng(4)
    edges = [(int(u), int(v), 1.0) for u, v in {tuple(each) for each in rng.integers(0, n, (60, 2)).tolist()}]
    values = rng.normal(size=n)

    def main(proc: bsp.Process) -> Any:
        graph = built(n, edges, proc)
        own = graph.values(values)
        assert np.array_equal(graph.at_targets(own), values[graph.adjacency.pattern.indices])
        asked = np.random.default_rng(proc.pid).integers(0, n, 3 * proc.pid)
        assert np.array_equal(graph.look_up(own, asked), values[asked])
        return asked, *graph.deliver(asked, asked * 10.0 + proc.pid, np.minimum)

    found = bsp.run(main, nprocs=nprocs)
    heard, reached = whole([each[1] for each in found]), whole([each[2] for each in found])
    for v in range(n):
        sent = [10.0 * v + pid for pid, each in enumerate(found) if v in each[0]]
        assert reached[v] == bool(sent)
        assert heard[v] == min(sent, default=np.inf)


# --------------------------------------------------------------------------------- what is counted


def supersteps(main: Callable[[bsp.Process], Any], nprocs: int, call: str) -> list[dict[str, Any]]:
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    return [row for row in rows if call in row["call"]]


@pytest.mark.parametrize("nprocs", [2, 3, 5])
def test_a_round_is_a_superstep_of_a_word_for_each_vertex_reached_elsewhere(nprocs: int) -> None:
    edges = [(u, (u * k + 1) % 40, 1.0) for u in range(40) for k in (1, 3, 7)]
    edges = sorted({(u, v): (u, v, w) for u, v, w in edges}.values())
    header = 4 * (nprocs - 1)  # what follows, how many have sent, and two totals, to each other process
    far: list[int] = []

    def main(proc: bsp.Process) -> None:
        graph = built(40, edges, proc)
        far.append(len(graph.adjacency.pattern.far.needed))
        for _ in range(3):
            graph.send(graph.values(1.0), totals=[1.0, 2.0])

    rows = supersteps(main, nprocs, "values along edges")
    assert len(rows) == 3
    assert {row["h_sent"] for row in rows} == {max(far[:nprocs]) + header}


def test_few_active_vertices_cost_what_they_reach_and_silent_rounds_only_totals() -> None:
    """A ring over two processes: only the last vertex of each has an edge to the other."""

    def main(proc: bsp.Process) -> None:
        graph = graphs.from_edges(own := np.arange(proc.pid, 2000, 2), (own + 1000) % 2000, 1.0, 2000)
        graph.send(graph.values(1.0), active=graph.own % 1000 < 1)
        graph.send(graph.values(1.0), active=graph.own % 1000 < 500)
        graph.send(graph.values(1.0), active=graph.own < 0)

    words = [row["h_sent"] for row in supersteps(main, 2, "values along edges")]
    assert words == [2 + 1 + 1, 2 + 500 + -(-1000 // 64), 2]


# -------------------------------------------------------------------------------------- mistakes


def test_mistakes_are_told() -> None:
    def main(proc: bsp.Process) -> None:
        graph = built(5, [(0, 1, 1.0)], proc)
        with pytest.raises(graphs.GraphError, match=r"values for \d own vertices"):
            graph.send(np.zeros(2 + graph.count))
        with pytest.raises(graphs.GraphError, match="active is a mask of the"):
            graph.send(graph.values(1.0), active=np.array([0]))
        with pytest.raises(graphs.GraphError, match="identity of subtract is not known"):
            graph.send(graph.values(1), np.subtract)
        with pytest.raises(graphs.GraphError, match="known goes with the combiner minimum, not maximum"):
            graph.send(graph.values(1), np.maximum, known=graph.reach(9, np.int64))
        with pytest.raises(graphs.GraphError, match="ascending goes with known"):
            graph.send(graph.own, np.minimum, ascending=True)
        with pytest.raises(graphs.GraphError, match="5 vertices"):
            graph.values(np.zeros(4))

    bsp.run(lambda proc: main(proc) if proc.pid == 0 else built(5, [(0, 1, 1.0)], proc) and None, nprocs=2)


@pytest.mark.parametrize(("u", "v"), [([0], [5]), ([-1], [0]), ([0.5], [1])])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_vertices_out_of_range_are_refused(u: list[Any], v: list[Any], nprocs: int) -> None:
    with pytest.raises(ArrayError, match=r"out of range for length 5|integers"):
        bsp.run(lambda proc: graphs.from_edges(u, v, 1.0, 5) and None, nprocs=nprocs)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((["a"], ["b"]), r"vertices are integers from 0, not <U1; from_named_edges numbers names"),
        (([0, 1, 2], [1, 2]), "3 sources, 2 targets and 1 values"),
        (([0, 1], [1, 2], [1.0, 2.0, 3.0]), "2 sources, 2 targets and 3 values"),
        (([0], [1], np.array([1j])), "values of edges are real numbers, not complex128"),
        (([0], [1], None), "values of edges are real numbers, not object"),
        (([0], [1], ["2"]), "values of edges are real numbers, not <U1"),
        (([2**60], [1]), r"1152921504606846977 vertices, of at most .* from_named_edges numbers names"),
        (
            (np.array([2**64 - 1], np.uint64), [1]),
            r"18446744073709551616 vertices, of at most .* from_named_edges numbers names",
        ),
        (([0], [1], 1.0, 2.5), r"from_edges\(size=2.5\): an integer"),
        (([0], [1], 1.0, -1), r"from_edges\(size=-1\): an integer"),
    ],
)
@pytest.mark.parametrize("directed", [True, False])
def test_edges_that_are_none_are_refused(given: tuple[Any, ...], told: str, directed: bool) -> None:
    with pytest.raises(graphs.GraphError, match=told):
        bsp.run(lambda proc: graphs.from_edges(*given, directed=directed) and None, nprocs=2)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_complex_values_are_no_lengths(nprocs: int) -> None:
    both = scipy.sparse.csr_array(np.array([[0, 1j], [1j, 0]]))

    def main(proc: bsp.Process) -> None:
        graph = graphs.Graph(both)
        for name, call in {
            "sssp": lambda: graphs.sssp(graph, 0),
            "mst": lambda: graphs.mst(graph),
            "pagerank": lambda: graphs.pagerank(graph, weighted=True),
            "label_propagation": lambda: graphs.label_propagation(graph, weighted=True),
        }.items():
            with pytest.raises(graphs.GraphError, match=f"{name}: the values of edges are complex128"):
                call()

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_programs_that_need_no_values_take_complex_ones(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        for one, other, equal in ((1j, 1j, True), (1 + 1j, 1 + 2j, False), (2j, 1 + 2j, False)):
            graph = graphs.Graph(scipy.sparse.csr_array(np.array([[0, one], [other, 0]])))
            assert graph.undirected()
            assert graph.undirected(valued=True) == equal
            assert graphs.triangles(graph).compute().tolist() == [0, 0]

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize(
    "program",
    [graphs.betweenness, graphs.bfs, graphs.connected_components, graphs.k_core, graphs.label_propagation, graphs.mis,
     graphs.mst, graphs.pagerank, graphs.sssp, graphs.triangles],
)  # fmt: skip
def test_what_is_no_graph_is_refused_with_the_call_that_makes_one(program: Any) -> None:
    networkx = pytest.importorskip("networkx")
    arguments = [0] if program in (graphs.bfs, graphs.sssp) else []

    def main(proc: bsp.Process) -> None:
        with pytest.raises(TypeError, match=rf"{program.__name__}: a Graph is no .*; from_networkx"):
            program(networkx.path_graph(3), *arguments)
        with pytest.raises(TypeError, match=r"a csr_array is no .*; Graph\(matrix\)"):
            program(scipy.sparse.csr_array(np.eye(3)), *arguments)
        with pytest.raises(TypeError, match="a DiGraph is no matrix; from_networkx"):
            graphs.Graph(networkx.DiGraph([(0, 1)]))

    bsp.run(main, nprocs=2)


def test_a_graph_is_square() -> None:
    from bsp.arrays import sparse

    with pytest.raises(graphs.GraphError, match="not square"):
        bsp.run(lambda proc: graphs.Graph(sparse.eye(3, 4)) and None, nprocs=1)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_a_graph_is_made_of_any_matrix(nprocs: int) -> None:
    """Graphs of scipy's and NumPy's matrices are those of sparse arrays; what is no matrix is refused."""
    from bsp.arrays import sparse

    dense = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]])

    def main(proc: bsp.Process) -> None:
        kinds = (
            scipy.sparse.csr_array,
            scipy.sparse.coo_matrix,
            np.array,
            sparse.from_scipy,
            sparse.as_coo,
            ba.asarray,
        )
        for kind in kinds:
            graph = graphs.Graph(kind(dense))
            assert (graph.size, graph.edges) == (3, 3)
            assert np.array_equal(graph.adjacency.compute().toarray(), dense)
        with pytest.raises(graphs.GraphError, match=r"shape \(3, 2\) is not square"):
            graphs.Graph(dense[:, :2])
        with pytest.raises(ArrayError, match="a matrix has 2"):
            graphs.Graph(dense[0])

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint64, np.uint8, np.int8])
def test_vertices_are_numbers_of_any_integers(nprocs: int, dtype: Any) -> None:
    u, v = np.array([0, 1, 2, 5]), np.array([1, 2, 5, 0])

    def main(proc: bsp.Process) -> None:
        mine = slice(proc.pid, None, proc.nprocs)
        for directed in (True, False):
            for size in (None, 9):
                wanted = graphs.from_edges(u[mine], v[mine], 2.0, size, directed=directed)
                found = graphs.from_edges(u[mine].astype(dtype), v[mine], 2.0, size, directed=directed)
                assert found.size == (size or 6)
                assert (found.adjacency.compute() != wanted.adjacency.compute()).nnz == 0
        with pytest.raises(ArrayError, match="out of range for length 9"):
            graphs.from_edges(u.astype(dtype) * dtype(20), v, 1.0, 9)
        most = np.array([0, 2**64 - 1], np.uint64)
        for directed in (True, False):
            for other in (most, [0, 1]):
                with pytest.raises(ArrayError, match="index 18446744073709551615 is out of range for length 9"):
                    graphs.from_edges(most, other, 1.0, 9, directed=directed)

    bsp.run(main, nprocs=nprocs)


def last(a: float, b: float) -> float:
    return b


def greatest(a: float, b: float) -> float:
    return a if a > b else b


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("active", [False, True])
def test_any_associative_function_combines(nprocs: int, active: bool) -> None:
    edges = [(u, v, 1.0) for u in range(9) for v in range(9) if (u + v) % 3]

    def main(proc: bsp.Process) -> Any:
        graph = built(9, edges, proc)
        mask = graph.own > 0 if active else None
        values = graph.own * 1.0
        mine = graph.send(values, np.frompyfunc(greatest, 2, 1), identity=-1.0, active=mask).values
        logs = graph.send(values, np.logaddexp, identity=-np.inf, active=mask).values
        return mine.tolist() == graph.send(values, np.maximum, active=mask).values.tolist(), logs

    for check in (False, True):
        found = bsp.run(main, nprocs=nprocs, check=check)
        assert all(each[0] for each in found)
        sums = [sum(np.exp(u) for u in range(active, 9) if (u + v) % 3) for v in range(9)]
        np.testing.assert_allclose(whole([each[1] for each in found]), np.log(sums), rtol=1e-14)


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("combine", [np.frompyfunc(last, 2, 1), np.subtract, np.hypot, np.arctan2])
def test_check_finds_combiners_that_depend_on_the_order(nprocs: int, active: bool, combine: np.ufunc) -> None:
    edges = [(u, v, 1.0) for u in range(9) for v in range(9)]

    def main(proc: bsp.Process) -> None:
        graph = built(9, edges, proc)
        graph.send(1.5 + graph.own, combine, identity=0.0, active=graph.own != 4 if active else None)

    bsp.run(main, nprocs=nprocs)
    if combine is np.hypot:  # is associative
        bsp.run(main, nprocs=nprocs, check=True)
        return
    with pytest.raises(graphs.GraphError, match=rf"test_graphs.py:\d+.*{combine.__name__.split()[0]}.*depends on"):
        bsp.run(main, nprocs=nprocs, check=True)


# ---------------------------------------------------------------------------------------- building


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_random_graphs_depend_on_the_seed_only(nprocs: int) -> None:
    def edges(proc: bsp.Process, seed: int, directed: bool) -> Any:
        found = graphs.rmat(7, 8, seed=seed, directed=directed).adjacency.compute()
        return found.indptr.tolist(), found.indices.tolist(), found.data.tolist()

    for directed in (True, False):
        one = bsp.run(edges, 1, directed, nprocs=1)[0]
        assert bsp.run(edges, 1, directed, nprocs=nprocs)[-1] == one
        assert bsp.run(edges, 2, directed, nprocs=1)[0] != one
        assert set(one[2]) == {1.0}
        matrix = np.zeros((128, 128), bool)
        matrix[np.repeat(np.arange(128), np.diff(one[0])), one[1]] = True
        assert not matrix.diagonal().any()
        assert directed or np.array_equal(matrix, matrix.T)


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"seed": 2**64}, {"seed": 1.5}, {"scale": 41}, {"scale": 3.5}, {"edge_factor": -1}]
)
def test_random_graphs_of_wrong_arguments_are_one_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(graphs.GraphError, match=r"^rmat\(scale=.*\): scale is an integer from 0 to 40, .* 2\^64 - 1$"):
        graphs.rmat(**{"scale": 3, **wrong})


def test_a_random_graph_beyond_all_memory_is_refused_before_an_edge_is_drawn() -> None:
    """Where no limit is set, too: scale 40 would draw edges for days."""
    program = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))\n"
    program += "from bsp import graphs; graphs.rmat(40)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    assert "MemoryError: Unable to allocate 8.00 TiB" in ran.stderr


@pytest.mark.parametrize("wrong", [[(0, 1)], None, {0: [1]}])
def test_what_is_no_networkx_graph_is_refused(wrong: Any) -> None:
    with pytest.raises(graphs.GraphError, match=r"^from_networkx: \w+ is no networkx graph; from_edges takes lists"):
        graphs.from_networkx(wrong)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_identifiers_that_would_need_a_word_each_are_refused_with_what_to_do(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        u = np.array([0, 10**10] if proc.pid == 0 else [], int)
        with (
            ba.options(memory=1e9),
            pytest.raises(ba.PlanTooLarge, match=r"from_coo: 10000000001 rows need .* np\.searchsorted\("),
        ):
            graphs.from_edges(u, u)
        with pytest.raises(
            ba.PlanTooLarge, match=r"from_coo: 281474976710656 rows need .*, limit \d"
        ):  # of the machine
            graphs.from_edges(u * 0 + 2**48 - 1, u)

    bsp.run(main, nprocs=nprocs)


def test_graphs_that_are_too_large_are_refused_before_they_are_made() -> None:
    def main(proc: bsp.Process) -> None:
        with ba.options(memory=2**30), pytest.raises(ba.PlanTooLarge, match=r"rmat\(24, 16\) needs 9.93 GB on"):
            graphs.rmat(24)
        small = graphs.rmat(6)
        with (
            ba.options(memory=1000),
            pytest.raises(ba.PlanTooLarge, match=r"rounds on 64x64 pattern .* take more proc"),
        ):
            graphs.Graph(small.adjacency)

    bsp.run(main, nprocs=2)


def test_rmat_has_few_vertices_with_most_of_the_edges() -> None:
    degrees = bsp.run(lambda proc: np.sort(graphs.rmat(12).out_degree)[::-1], nprocs=1)[0]
    assert degrees[: len(degrees) // 10].sum() > degrees.sum() / 2


@pytest.mark.parametrize("value", ["long", None, 1j, 10**400])
def test_a_value_of_networkx_that_is_no_number_is_named_on_every_process(value: object) -> None:
    networkx = pytest.importorskip("networkx")
    G = networkx.Graph([(0, 1), (1, 2)])
    G[1][2]["weight"] = value

    def main(proc: bsp.Process) -> str:
        with pytest.raises(graphs.GraphError, match=r"^from_networkx: weight=.* of the edge \(1, 2\) is no real"):
            graphs.from_networkx(G)
        return "named"

    assert bsp.run(main, nprocs=3) == ["named"] * 3


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_graphs_come_from_networkx_and_from_edges_of_both_ways(nprocs: int) -> None:
    karate = nx.karate_club_graph()

    def main(proc: bsp.Process) -> None:
        graph, nodes = graphs.from_networkx(karate)
        assert np.array_equal(graph.adjacency.compute().toarray(), nx.to_numpy_array(karate))
        assert nodes == list(karate)
        u, v, w = np.array([(u, v, d["weight"]) for u, v, d in karate.edges(data=True)]).T
        mine = slice(proc.pid, None, proc.nprocs)
        other = graphs.from_edges(u[mine].astype(int), v[mine].astype(int), w[mine], directed=False)
        assert np.array_equal(other.adjacency.compute().toarray(), nx.to_numpy_array(karate))
        turned = graphs.from_edges([0] * (proc.pid == 0), [1] * (proc.pid == 0), 2.0, 3).reversed()
        assert turned.adjacency.compute().toarray().tolist() == [[0, 0, 0], [2, 0, 0], [0, 0, 0]]
        light = graph.kept(graph.weights < 3)
        assert light.bounds == graph.bounds
        assert np.array_equal(
            light.adjacency.compute().toarray(), np.where(nx.to_numpy_array(karate) < 3, nx.to_numpy_array(karate), 0)
        )

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_parallel_edges_of_either_direction_have_one_sum_both_ways(nprocs: int) -> None:
    rng = np.random.default_rng(3)
    u, v, w = rng.integers(0, 6, 400), rng.integers(0, 6, 400), rng.random(400)
    wanted = np.zeros((6, 6))
    np.add.at(wanted, (np.minimum(u, v), np.maximum(u, v)), w)
    wanted += np.triu(wanted, 1).T

    def main(proc: bsp.Process) -> Any:
        mine = slice(proc.pid, None, proc.nprocs)
        graph = graphs.from_edges(u[mine], v[mine], w[mine], directed=False)
        assert graph.undirected(valued=True)
        return graph.adjacency.compute().toarray()

    found = bsp.run(main, nprocs=nprocs)[0]
    assert np.array_equal(found, found.T)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=400 * np.finfo(float).eps * wanted.max())


# ---------------------------------------------------------------------------------------- pagerank


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("personal", [False, True])
def test_pagerank_is_networkxs(nprocs: int, weighted: bool, personal: bool) -> None:
    """Of a graph with vertices without links; what these hold jumps as a reader does."""
    G = nx.gnp_random_graph(60, 0.04, seed=3, directed=True)
    assert any(not degree for _, degree in G.out_degree())
    for k, (u, v) in enumerate(G.edges):
        G[u][v]["weight"] = 1.0 + k % 4
    jump = {v: float(v % 5) for v in G} if personal else None
    wanted = nx.pagerank(G, 0.8, jump, tol=1e-14, max_iter=500, weight="weight" if weighted else None)

    def main(proc: bsp.Process) -> Any:
        graph, _ = graphs.from_networkx(G)
        ranks = graphs.pagerank(
            graph, 0.8, personal=None if jump is None else list(jump.values()), weighted=weighted, tol=1e-13
        )
        return ranks.compute()

    found = bsp.run(main, nprocs=nprocs)[-1]
    np.testing.assert_allclose(found, list(wanted.values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, -1.0, np.inf])
def test_pagerank_by_values_that_are_no_shares_is_refused(wrong: float) -> None:
    def main(proc: bsp.Process) -> None:
        graph = built(5, [(0, 1, 1.0), (1, 2, wrong)], proc)
        with pytest.raises(graphs.GraphError, match="1 of 2 values of edges are negative or not finite"):
            graphs.pagerank(graph, weighted=True)
        assert np.isfinite(graphs.pagerank(graph).compute()).all()

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 4])
def test_pagerank_of_numbers_without_shares_is_refused(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        graph = built(3, [(0, 1, 1e308), (0, 2, 1e308), (1, 2, 1e-320)], proc)
        with pytest.raises(graphs.GraphError, match="edges that leave 2 vertices have sums too large or small"):
            graphs.pagerank(graph, weighted=True)
        for damping in (np.nan, -0.1, 1.1, np.inf):
            with pytest.raises(graphs.GraphError, match="from 0 to 1"):
                graphs.pagerank(graph, damping)
        for wrong in (np.inf, np.nan, -1.0, 1.5e308):
            with pytest.raises(graphs.GraphError, match="personal"):
                graphs.pagerank(graph, personal=[wrong, 1.0, wrong])
        for damping in (0, 1):
            assert np.isfinite(graphs.pagerank(graph, damping).compute()).all()

    with np.errstate(over="ignore"):
        bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_what_would_stop_pagerank_at_once_or_never_is_refused(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        graph = graphs.rmat(4, directed=False)
        for rounds in (-1, 1.5, None):
            for program in (graphs.pagerank, graphs.label_propagation):
                with pytest.raises(graphs.GraphError, match=f"^rounds={rounds}: .* an integer from 0"):
                    program(graph, rounds=rounds)  # type: ignore[arg-type]
        for tol in (np.nan, -1e-9):
            with pytest.raises(graphs.GraphError, match="a number from 0; of 0 all rounds are made"):
                graphs.pagerank(graph, tol=tol)
        with pytest.raises(
            graphs.GraphError, match=r"a number for each vertex; .* \[d\.get\(name, 0\) for name in names\]"
        ):
            graphs.pagerank(graph, personal={0: 1.0})  # type: ignore[arg-type]
        np.testing.assert_array_equal(graphs.pagerank(graph, rounds=np.int64(0)).compute(), np.full(16, 1 / 16))

    bsp.run(main, nprocs=nprocs)


def test_pagerank_is_a_superstep_a_round() -> None:
    rows = supersteps(lambda proc: repr(graphs.pagerank(graphs.rmat(6), tol=0, rounds=17)), 3, "values along edges")
    assert len(rows) == 17


def test_pagerank_of_no_vertices_and_of_no_edges() -> None:
    def main(proc: bsp.Process) -> None:
        none = np.zeros(0, int)
        assert graphs.pagerank(graphs.from_edges(none, none, 1.0, 0)).compute().shape == (0,)
        assert graphs.pagerank(graphs.from_edges(none, none, 1.0, 4)).compute().tolist() == [0.25] * 4
        for wrong in (np.array([1.0, -1, 0, 0]), np.zeros(4), ba.zeros(4)):
            with pytest.raises(graphs.GraphError, match="personal"):
                graphs.pagerank(graphs.from_edges(none, none, 1.0, 4), personal=wrong)

    for nprocs in (1, 3, 6):
        bsp.run(main, nprocs=nprocs)
