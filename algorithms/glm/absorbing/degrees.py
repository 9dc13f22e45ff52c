"""How many parameters absorbed effects are: what degrees of freedom lose by them.

The first column of labels has as many as labels.  Of the second as many are redundant as the two have connected
components, which is exact; of each further one a single label, which may count too many: as reghdfe and pyfixest count.
Clustered errors do not count columns whose labels are each within one cluster.
Source: Abowd, Creecy & Kramarz, "Computing person and firm effects" (2002); Correia (2017), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bsp.algorithms.glm.absorbing.levels import Levels
from bsp.algorithms.glm.problem import Absorbed


def absorbed_parameters(labels: Sequence[Levels], used: np.ndarray, clusters: Levels | None) -> Absorbed:
    """Return the number of parameters of all effects, and that which counts with clustered errors.  Collective.

    used : (n_local,) 1.0 for rows that have a weight, else 0.0.
    Cost: six supersteps for each column of labels; h = labels of all processes, for the components.
    """
    more = [each.number(used) - 1 for each in labels]
    if len(labels) > 1:
        more[1] -= _components(labels[0], labels[1], used > 0) - 1
    nested = [clusters is not None and _is_nested(each, clusters, used) for each in labels]
    counted = sum(own for own, inside in zip(more, nested, strict=True) if not inside)
    return Absorbed(1 + sum(more), 1 + counted)


def _is_nested(levels: Levels, clusters: Levels, used: np.ndarray) -> bool:
    """Return whether each label is within one cluster.  Collective: five supersteps."""
    some, cluster = used > 0, clusters.ids[clusters.codes].astype(float)
    low, high = np.full(levels.count, np.inf), np.full(levels.count, -np.inf)
    np.minimum.at(low, levels.codes[some], cluster[some])
    np.maximum.at(high, levels.codes[some], cluster[some])
    low, high = (levels.combined(each[:, None], op) for each, op in ((low, "min"), (high, "max")))
    return not levels.proc.allreduce(np.array([float((high > low).any())]))[0]


def _components(one: Levels, other: Levels, used: np.ndarray) -> int:
    """Return the connected components of the labels of two columns, which a row connects.  Collective: a superstep."""
    own = _forest(one.ids[one.codes[used]] * 2, other.ids[other.codes[used]] * 2 + 1)
    parts = one.proc.allgather(own)
    every = _forest(*(np.concatenate([part[side] for part in parts]) for side in (0, 1)))
    return len(np.unique(every[0]))


def _forest(tails: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each node of a graph the least node that it is connected with: (roots, nodes)."""
    nodes, places = np.unique(np.concatenate([tails, heads]), return_inverse=True)
    if not len(nodes):
        return nodes, nodes
    from scipy.sparse import csr_array  # here, because SciPy takes as long to import as many a fit
    from scipy.sparse.csgraph import connected_components

    n, count = len(nodes), len(tails)
    edges = csr_array((np.ones(count), (places[:count], places[count:])), shape=(n, n))
    _, component = connected_components(edges, directed=False)
    _, first = np.unique(component, return_index=True)
    return nodes[first[component]], nodes
