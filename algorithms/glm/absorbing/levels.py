"""The labels of a column over all processes: each has an owner, where what belongs to the label comes together.

The owner of a label is a function of its text, so that no process has to know all labels.
"""

from __future__ import annotations

import copy

import numpy as np
from xxhash import xxh3_64_intdigest

import bsp


class Levels:
    """The labels of this process's rows, numbered alike on every process, and the routes to their owners.

    codes : (n_local,) the local number of each row's label.   ids : (count,) its number among those of all processes.
    To make them is collective: three supersteps, h = words of this process's labels.
    """

    def __init__(self, proc: bsp.Process, labels: np.ndarray) -> None:
        self.proc = proc
        given = np.asarray(labels)
        own, self.codes = np.unique(given.astype(str) if given.dtype == object else given, return_inverse=True)
        self.count = len(own)
        owners = np.array([xxh3_64_intdigest(str(label).encode()) % proc.nprocs for label in own.tolist()], int)
        self.sent = {dest: np.flatnonzero(owners == dest) for dest in np.unique(owners).tolist()}
        for dest, places in self.sent.items():
            proc.send(dest, places, tag=own[places].tolist())
        proc.sync()
        arrived = [(each.source, each.tag) for each in proc.inbox]
        number = {label: k for k, label in enumerate(dict.fromkeys(label for _, part in arrived for label in part))}
        self.owned = len(number)
        self.held = {source: np.array([number[label] for label in part], int) for source, part in arrived}
        first = sum(proc.allgather(self.owned)[: proc.pid])
        self.ids = self._returned(first + np.arange(float(self.owned))[:, None])[:, 0].astype(int)

    def of_rows(self, kept: np.ndarray) -> Levels:
        """Return the labels of some rows, `kept` (n_local,) being truth values, with the same numbers.  Local."""
        some = copy.copy(self)
        some.codes = self.codes[kept]
        return some

    def combined(self, values: np.ndarray, op: str = "add") -> np.ndarray:
        """Return values (count, c) by label of this process, combined over all processes: (count, c).

        op : "add", "min" or "max".  In the order of the processes: the same bytes in every run.
        Cost: two supersteps, c words for each label of this process there and back.
        """
        for dest, places in self.sent.items():
            self.proc.send(dest, values[places])
        self.proc.sync()
        start = {"add": 0.0, "min": np.inf, "max": -np.inf}[op]
        ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}[op]
        total = np.full((self.owned, values.shape[1]), start)
        for each in self.proc.inbox:
            places = self.held[each.source]
            total[places] = ufunc(total[places], each.payload)
        return self._returned(total)

    def _returned(self, total: np.ndarray) -> np.ndarray:
        """Return to every process the owners' rows of its labels.  One superstep."""
        for source, places in self.held.items():
            self.proc.send(source, total[places])
        self.proc.sync()
        found = np.zeros((self.count, total.shape[1]))
        for each in self.proc.inbox:
            found[self.sent[each.source]] = each.payload
        return found

    def number(self, used: np.ndarray) -> int:
        """Return how many labels of all processes have a used row.  Collective: three supersteps."""
        own = np.bincount(self.codes, used, self.count)[:, None]
        some = self.combined(own)[:, 0] > 0
        first = self.combined(np.where(own > 0, self.proc.pid, np.inf), "min")[:, 0] == self.proc.pid
        return int(self.proc.allreduce(np.array([np.count_nonzero(some & first)]))[0])
