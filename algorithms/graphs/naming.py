"""Graphs whose vertices have names: texts, or integers of any size, which are numbered in their order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bsp.algorithms.graphs.building import from_edges
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph
from bsp.arrays.files import Dialect, PathLike, TextRows, agreed, same_everywhere, table_of
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike


def from_named_edges(
    source: ArrayLike, target: ArrayLike, weight: ArrayLike = 1.0, *, directed: bool = True
) -> tuple[Graph, list[Any]]:
    """Return the graph of the edges of all processes between named vertices, and the names in order.  Collective.

    source, target : this process's edges, as vectors or lists of names: all texts, or all integers.
    weight, directed : as of `from_edges`.
    Vertex k has the k-th name; bisect.bisect_left(names, name) is the number of one.  It does not depend on p.
    Raises GraphError on all processes if other objects are among the names, and as `from_edges` does.
    Cost: H = the distinct names of each process, of which every process gets and keeps all; S = 1; that of
        `from_edges`.
    """
    ends = [np.asarray(each) for each in (source, target)]
    if any(each.ndim > 1 for each in ends):
        raise GraphError("from_named_edges: source and target are vectors of names, one of an edge's ends each")
    places: dict[Any, int] = {}
    u, v = (
        np.array([places.setdefault(name, len(places)) for name in each.reshape(-1).tolist()], np.int64)
        for each in ends
    )
    names, numbers = _numbered("from_named_edges", list(places))
    return from_edges(numbers[u], numbers[v], weight, len(names), directed=directed), names


def read_named_edges(
    path: PathLike, columns: tuple[str | int, str | int], weights: str | int | None = None, *, header: bool = True,
    delimiter: str | None = None, comments: str | None = None, directed: bool = True,
) -> tuple[Graph, list[str]]:  # fmt: skip
    """Read the graph of a list of edges between named vertices; return it, and the names in order.  Collective.

    path : a file of text, also compressed (.gz, .bz2, .xz), or of Parquet, or a folder of them.
    columns, weights : the columns of the ends and the values of the edges; without weights each edge is a one.  They
        are names; with header=False, which is for text whose first line is an edge, they are numbers from 0.
    delimiter : one character; None: what separates the fields of the first lines, a comma where several do.  Runs of
        blanks are several delimiters.
    comments : of text, what is between this and the end of a line is not read; None: names may have any characters.
    directed : as of `from_edges`.
    A name is the text of its field, without blanks around it.  Vertex k has the k-th name; bisect.bisect_left(names,
    name) is the number of one.  The graph does not depend on p.
    Cost: one superstep to read and to agree on it; that of `from_named_edges`.
    Raises NoSuchFile, FileError, or FormatError, with the line or row if a name is missing, on all processes.
    """
    call = f"read_named_edges({os.fspath(path)!r})"
    chosen = [*columns, *([] if weights is None else [weights])]
    if (
        len(columns) != 2
        or len({*chosen}) < len(chosen)
        or not all(isinstance(each, str if header else int) for each in chosen)
    ):
        given = f"columns={columns!r}, weights={weights!r}"
        raise GraphError(
            f"{call}: {given}: two columns of ends, and others of values, by name; by number with header=False"
        )
    wanted = tuple(str(each) if header else f"c{each}" for each in chosen)

    def choose(there: tuple[str, ...]) -> tuple[str, ...]:
        for each in wanted:
            if there.count(each) != 1:
                raise ValueError(
                    f"there {'are several columns' if each in there else 'is no column'} {each!r}: {', '.join(there)}"
                )
        return wanted

    dialect = Dialect(delimiter, missing=("",), header=header, comments=() if comments is None else (comments,))
    rows = (table_of(path) or TextRows)(path, choose, dialect)
    parts: list[np.ndarray] = []
    levels: list[list[str]] = []

    def work() -> int:
        found = rows.columns({0, 1})
        for k, name in enumerate(rows.names):
            part = np.concatenate([np.zeros(0, np.int32), *(chunk[k] for chunk in found.chunks)])
            texts = found.levels[k]
            if k == 2 and texts is not None:
                raise ValueError(f"column {name!r} has texts, no numbers: {', '.join(texts[:3])}")
            if k < 2 and len(wrong := np.flatnonzero(part < 0)):
                raise ValueError(f"{rows.place(int(wrong[0]))}: there is no name in column {name!r}")
            parts.append(part)
            levels.append(texts or [])
        return found.size

    same_everywhere(call, agreed(call, work))
    names, numbers = _numbered(call, levels[0] + levels[1])
    u, v = numbers[parts[0]], numbers[len(levels[0]) :][parts[1]]
    return from_edges(u, v, 1.0 if weights is None else parts[2], len(names), directed=directed), names


def _numbered(call: str, own: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Return the names of all processes in order, and the numbers of this process's ones.  Collective, S = 1."""
    names = set[Any]().union(*world().private.allgather(own))
    kinds = {type(name) for name in names}
    if len(kinds - {str}) and len(kinds - {int}):
        found = ", ".join(sorted(each.__name__ for each in kinds))
        raise GraphError(f"{call}: names are all texts, or all integers, not {found}; leave out edges without names")
    ordered = sorted(names)
    number = {name: k for k, name in enumerate(ordered)}
    return ordered, np.array([number[name] for name in own], np.int64)
