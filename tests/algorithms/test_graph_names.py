"""Graphs of edges between names have networkx's edges and pandas' numbers of the names, whatever p and the file."""

from __future__ import annotations

import gzip
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
from bsp.arrays.errors import FileError, FormatError

pd = pytest.importorskip("pandas")
PROCESSES = (1, 2, 3, 5)
NAMES = st.text("abzåß日 -_.0", min_size=1, max_size=4).map(str.strip).filter(bool)
Edge = tuple[Any, Any, float]


def wanted(edges: list[Edge], directed: bool = True) -> tuple[list[Any], list[Edge]]:
    """The names as pandas numbers them, and the edges with sums of values as networkx has them."""
    ends = np.array([[u, v] for u, v, _ in edges], object).reshape(-1)
    names = pd.factorize(ends, sort=True)[1].tolist()
    G: Any = nx.DiGraph() if directed else nx.Graph()
    for u, v, w in edges:
        G.add_edge(u, v, weight=w + G.get_edge_data(u, v, {"weight": 0.0})["weight"])
    pairs = {(u, v, w) for u, v, w in G.edges(data="weight")}
    return names, sorted(pairs if directed else pairs | {(v, u, w) for u, v, w in pairs})


def named(found: tuple[graphs.Graph, list[Any]]) -> tuple[list[Any], list[Edge]]:
    """The names, and the edges between them."""
    graph, names = found
    assert graph.size == len(names)
    matrix = graph.adjacency.compute().tocoo()
    return names, sorted((names[i], names[j], float(w)) for i, j, w in zip(*matrix.coords, matrix.data, strict=True))


@given(st.data())
@examples(60)
def test_names_are_numbered_as_pandas_does(data: st.DataObject) -> None:
    nprocs, directed = data.draw(st.integers(1, 5)), data.draw(st.booleans())
    name = data.draw(st.sampled_from([NAMES, st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)]))
    edges: list[Edge] = data.draw(st.lists(st.tuples(name, name, st.integers(1, 4).map(float)), max_size=20))

    def main(proc: bsp.Process) -> Any:
        u, v, w = ([edge[k] for edge in edges[proc.pid :: proc.nprocs]] for k in range(3))
        return named(graphs.from_named_edges(u, v, w, directed=directed))

    assert bsp.run(main, nprocs=nprocs) == [wanted(edges, directed)] * nprocs


@pytest.mark.parametrize("nprocs", [1, 3])
def test_identifiers_of_data_frames_are_names(nprocs: int) -> None:
    frame = pd.DataFrame({"from": ["zoe", "al", "bo"], "to": ["al", "bo", "zoe"]})
    edges = [(u, v, 1.0) for u, v in frame.itertuples(index=False)]

    def main(proc: bsp.Process) -> Any:
        mine = frame[proc.pid :: proc.nprocs]
        kinds = ("object", "string", "category")
        return [named(graphs.from_named_edges(mine["from"].astype(kind), mine["to"].astype(kind))) for kind in kinds]

    assert bsp.run(main, nprocs=nprocs)[-1] == [wanted(edges)] * 3


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("wrong", [None, 1.5, np.nan, 7, pd.NA])
def test_what_is_no_name_is_one_error_on_every_process(wrong: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        source = np.array(["a", wrong if proc.pid == nprocs - 1 else "b"], object)
        with pytest.raises(graphs.GraphError, match=r"names are all texts, or all integers, not \w+, \w+; leave out"):
            graphs.from_named_edges(source, ["c", "d"])

    bsp.run(main, nprocs=nprocs)


EDGES: list[Edge] = [
    ("Zürich", "New York", 2.0), ("New York", "NA", 0.5), ("NA", "007", 1e3), ("007", "7", 3.0), ("7", "Zürich", 1.0),
    ("Zürich", "New York", 0.25), ("null", "Zürich", 4.0), ("7", "7", 1.0),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".csv.gz", ".edges", ".parquet"])
@pytest.mark.parametrize("directed", [True, False])
def test_edges_between_names_are_read_from_files(tmp_path: Path, nprocs: int, ending: str, directed: bool) -> None:
    frame = pd.DataFrame(EDGES, columns=["from", "to", "minutes"])[["minutes", "to", "from"]]
    path = tmp_path / f"a{ending}"
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path, row_group_size=3)
    else:
        text = frame.to_csv(index=False, sep="\t" if ending in (".tsv", ".txt") else ",").encode()
        path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)

    def main(proc: bsp.Process) -> Any:
        valued = graphs.read_named_edges(path, ("from", "to"), "minutes", directed=directed)
        return named(valued), named(graphs.read_named_edges(path, ("from", "to"), directed=directed))

    ones = [(u, v, 1.0) for u, v, _ in EDGES]
    assert bsp.run(main, nprocs=nprocs) == [(wanted(EDGES, directed), wanted(ones, directed))] * nprocs


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("mark", [" ", ",", "\t", ";"])
def test_a_first_line_may_be_an_edge(tmp_path: Path, mark: str, nprocs: int) -> None:
    path = tmp_path / "a.txt"
    edges = [("Oslo", "Rome", 1.5), ("Rome", "Cairo", 2.0), ("Lima", "Quito", 3.0)]
    path.write_text("".join(f"{u}{mark}{v}{mark}{w}\n" for u, v, w in edges))
    read = lambda proc: named(graphs.read_named_edges(path, (0, 1), 2, header=False))  # noqa: E731
    assert bsp.run(read, nprocs=nprocs) == [wanted(edges)] * nprocs
    path.write_text(f"Oslo{mark}Rome\n")
    read = lambda proc: named(graphs.read_named_edges(path, (1, 0), header=False))  # noqa: E731
    assert bsp.run(read, nprocs=nprocs) == [wanted([("Rome", "Oslo", 1.0)])] * nprocs


@pytest.mark.parametrize("nprocs", [1, 3, 5])
@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_lists_of_names_may_have_comments(tmp_path: Path, ending: str, nprocs: int) -> None:
    """Lists of SNAP begin with comments; a name may have the mark where there are none."""
    path = tmp_path / f"a{ending}"
    edges = [("Oslo", "Rome", 1.0), ("Rome", "C#", 1.0), ("Lima", "Quito", 1.0)]
    lines = ["# Nodes: 5 Edges: 3, directed", "#", *(f"{u}\t{v}" for u, v, _ in edges), "# end"]
    write = gzip.compress if ending.endswith("gz") else bytes

    def read(proc: bsp.Process, comments: str | None, header: bool) -> Any:
        columns: Any = ("from", "to") if header else (0, 1)
        return named(graphs.read_named_edges(path, columns, header=header, comments=comments))

    path.write_bytes(write("\n".join(lines[2:5]).encode()))
    assert bsp.run(read, None, False, nprocs=nprocs) == [wanted(edges)] * nprocs
    edges[1] = ("Rome", "C", 1.0)
    for head in ([], ["from\tto  # both cities"]):
        path.write_bytes(write("\r\n".join([*lines[:2], *head, *lines[2:]]).encode()))
        assert bsp.run(read, "#", bool(head), nprocs=nprocs) == [wanted(edges)] * nprocs


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_table_without_rows_is_an_empty_graph(tmp_path: Path, nprocs: int) -> None:
    (tmp_path / "a.csv").write_text("from,to,w\n")
    read = lambda proc: named(graphs.read_named_edges(tmp_path / "a.csv", ("from", "to"), "w"))  # noqa: E731
    assert bsp.run(read, nprocs=nprocs) == [([], [])] * nprocs


@pytest.mark.parametrize("nprocs", [1, 3])
def test_parquet_has_names_of_any_kind_and_no_missing_ones(tmp_path: Path, nprocs: int) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": pd.Categorical(["x", "y", "x"]), "b": [2**62, 5, 5], "c": ["p", None, "q"]})
    frame.to_parquet(tmp_path / "a.parquet")
    read = lambda proc: named(graphs.read_named_edges(tmp_path / "a.parquet", ("a", "b")))  # noqa: E731
    edges = [("x", str(2**62), 1.0), ("y", "5", 1.0), ("x", "5", 1.0)]
    assert bsp.run(read, nprocs=nprocs) == [wanted(edges)] * nprocs
    with pytest.raises((FormatError, bsp.BspError), match="row 2: there is no name in column 'c'"):
        bsp.run(lambda proc: graphs.read_named_edges(tmp_path / "a.parquet", ("a", "c")), nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_mistakes_in_lists_of_names_are_told_to_all(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "a.csv"
    for text, columns, weights, message in [
        ("a,b\nx,y\nz,\n", ("a", "b"), None, "line 3: there is no name in column 'b'"),
        ("a,b\nx,y\n", ("a", "c"), None, "there is no column 'c': a, b"),
        ("a,a\nx,y\n", ("a", "b"), None, "there are several columns 'a': a, a"),
        ("a,b,w\nx,y,1\nz,x,NA\n", ("a", "b"), "w", "column 'w' has texts, no numbers"),
        ("a,b\nx,y\nz\n", ("a", "b"), None, "line 3: it has 1 field, the first line has 2"),
        ("", ("a", "b"), None, "it has no data"),
    ]:
        path.write_text(text)

        def main(proc: bsp.Process, columns: Any = columns, weights: Any = weights, message: str = message) -> None:
            with pytest.raises(FormatError, match=rf"^read_named_edges\('.*a\.csv'\): {message}"):
                graphs.read_named_edges(path, columns, weights)

        bsp.run(main, nprocs=nprocs)

    def others(proc: bsp.Process) -> None:
        for columns, header in (
            (("a", "a"), True),
            ((0, 1), True),
            (("a", "b"), False),
            ((0, "b"), True),
            (("a", "b", "c"), True),
        ):
            with pytest.raises(
                graphs.GraphError, match=r"two columns of ends, .* by name; by number with header=False"
            ):
                graphs.read_named_edges(path, columns, header=header)
        with pytest.raises(graphs.GraphError, match="source and target are vectors of names"):
            graphs.from_named_edges([("a", "b")], [("c", "d")])  # type: ignore[arg-type]
        with pytest.raises(FileError, match="No such file"):
            graphs.read_named_edges(tmp_path / "none.csv", ("a", "b"))

    bsp.run(others, nprocs=nprocs)
