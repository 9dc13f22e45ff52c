"""Flows by groups of processes hold what the table of all pieces lists: sums, messages, levels, sends, reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bsp.arrays.expressions.graph import Access
from bsp.arrays.expressions.layout import Axis, Layout, layout_of, replicated, table_layout
from bsp.arrays.planning.moves import pieces
from bsp.arrays.planning.stages import Fetch, Ref, Value
from bsp.cost.flows import Flows
from bsp.cost.record.account import starts

P = 12  # processes
ITEM = 8


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> Layout:
    """A process grid of any digits, in any order, with more parts than processes, ragged cuts; a table; replicated."""
    kind = draw(st.sampled_from(["grid", "grid", "grid", "table", "replicated"]))
    if kind == "replicated":
        return replicated(shape)
    room, stride = P, 1
    axes = [Axis(length) for length in shape]
    for k in draw(st.permutations(range(len(shape)))):
        deal = draw(st.integers(1, max(room, 1)))
        parts = max(1, deal * draw(st.integers(1, 2)) - draw(st.integers(0, 1)))
        cuts = draw(st.lists(st.integers(0, shape[k]), min_size=parts - 1, max_size=parts - 1).map(sorted))
        ragged = (0, *cuts, shape[k]) if draw(st.booleans()) else None
        digits = min(deal, parts)
        axes[k] = Axis(shape[k], parts, digits, stride if digits > 1 else 0, ragged)
        room, stride = room // deal, stride * deal
    if kind == "table":
        blocks = layout_of(tuple(axes)).blocks
        owner = draw(st.lists(st.integers(0, P - 1), min_size=blocks, max_size=blocks))
        return table_layout(tuple(axes), np.array(owner))
    return layout_of(tuple(axes))


@st.composite
def fetches(draw: st.DrawFn) -> Fetch:
    """A reference to a value of up to three axes by up to three labels: slices, steps, fixed positions, diagonals."""
    labels = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    access, shape = [], []
    for _ in range(draw(st.integers(0, 3))):
        label = draw(st.integers(-1, len(labels) - 1))
        if label < 0:
            length = draw(st.integers(1, 9))
            access.append(Access(-1, draw(st.integers(0, length - 1)), 0))
        else:
            step = draw(st.sampled_from([1, 1, 1, 2, -1, -3]))
            start, reach = draw(st.integers(0, 3)), abs(step) * (labels[label] - 1)
            length = start + reach + 1 + draw(st.integers(0, 2))
            access.append(Access(label, start if step > 0 else start + reach, step))
        shape.append(length)
    source = draw(layouts(tuple(shape)))
    value = Value(0, "x", tuple(shape), np.dtype(float), source)
    return Fetch(Ref(value, tuple(access)), draw(layouts(labels)), P)


def moved(fetch: Fetch) -> list[tuple[int, int, int, int]]:
    """All that moves as (row, source, destination, elements), by the table of pieces."""
    table = pieces(fetch.ref.value.layout, fetch.ref.access, fetch.tasks, P)
    found = []
    for row, (source, size) in enumerate(zip(table.source.tolist(), table.sizes.tolist(), strict=True)):
        dests: Any = range(P) if table.dests is None else table.dests[row].tolist()
        found += [(row, source, dest, size) for dest in dests if dest not in (-1, source)]
    return found


@given(fetch=fetches())
def test_sums_are_those_of_all_pieces(fetch: Fetch) -> None:
    out, into, sent = np.zeros((3, P), np.int64)
    for _, source, dest, size in moved(fetch):
        out[source] += size
        into[dest] += size
        sent[source] += 1
    for found, known in zip(fetch.flow.sums(P), (out, into, sent), strict=True):
        np.testing.assert_array_equal(found, known)
    assert (fetch.traffic[0] == ITEM * out).all() and (fetch.traffic[1] == ITEM * into).all()
    assert (fetch.moves, fetch.messages) == (bool(out.any()), sent.max())


@given(first=fetches(), second=fetches())
def test_messages_are_pairs_of_processes(first: Fetch, second: Fetch) -> None:
    pairs = {(source, dest) for fetch in (first, second) for _, source, dest, _ in moved(fetch)}
    assert Flows(P, [(first.flow, ITEM), (second.flow, 1)]).messages == len(pairs)
    assert Flows(P, []).messages == 0


@given(fetch=fetches(), elements=st.integers(1, P), widths=st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_a_piece_crosses_once_to_each_element(fetch: Fetch, elements: int, widths: tuple[int, int]) -> None:
    owner = np.repeat(np.arange(elements), np.diff(starts(P, elements)))
    ports = [np.arange(elements) // widths[0], np.arange(elements) // (widths[0] * widths[1])]
    for each_receiver in (False, True):
        counts = [np.zeros((4, int(port[-1]) + 1)) for port in ports]
        copies, copied = np.zeros((2, elements))
        crossed: set[tuple[int, int]] = set()
        for row, source, dest, size in moved(fetch):
            a, b = owner[source], owner[dest]
            if a == b or ((row, b) in crossed and not each_receiver):
                copies[b] += 1
                copied[b] += ITEM * size
                continue
            crossed.add((row, b))
            for k, port in enumerate(ports):
                if port[a] != port[b] and (k + 1 == len(ports) or ports[k + 1][a] == ports[k + 1][b]):
                    counts[k][:, port[a]] += [1, ITEM * size, 0, 0]
                    counts[k][:, port[b]] += [0, 0, 1, ITEM * size]
        levels, *inside = Flows(P, [(fetch.flow, ITEM)]).crossing(owner, ports, each_receiver)
        for level, known in zip(levels, counts, strict=True):
            np.testing.assert_array_equal(np.array(level), known)
        np.testing.assert_array_equal(inside, [copies, copied])


@given(fetch=fetches())
def test_each_process_sends_and_reads_its_rows_of_the_table(fetch: Fetch) -> None:
    table = pieces(fetch.ref.value.layout, fetch.ref.access, fetch.tasks, P)
    known: dict[int, dict[int, list[int]]] = {pid: {} for pid in range(P)}
    for row, source, dest, _ in moved(fetch):
        known[source].setdefault(row, []).append(dest)
    for pid in range(P):
        if not fetch.local:
            assert {row.number: sorted(to) for row, to in fetch.sends(pid)} == known[pid]
        for at, region in fetch.regions(pid).items():
            part = [at[label] for label in table.labels]
            rows = [row for row in range(len(table.source)) if table.task[row].tolist() == part]
            assert [row.number for row in region.rows] == rows
            for row in region.rows:
                k = row.number
                owner = -1 if fetch.ref.value.layout.replicated else table.source[k]
                assert (row.source, row.block) == (owner, tuple(table.block[k].tolist()))
                low = [fetch.tasks.axes[label].bounds[p] for label, p in zip(table.labels, part, strict=True)]
                assert [each.start for each in row.into] == (table.start[k] - low).tolist()
                assert [each.stop for each in row.into] == (table.stop[k] - low).tolist()
