"""What a schedule costs: the words of every superstep, exactly, and the memory of the fullest process.

Nothing is estimated.  For each round the pieces that processes read are laid over the parts that processes hold, all
places of the grid at once, and the most that one process sends, and that one receives, is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.matmul import strassen
from bsp.algorithms.matmul.schedules import SHIFTED, TWO_PHASE, Schedule, cuts
from bsp.arrays.planning.graph import Access
from bsp.arrays.planning.layout import Layout
from bsp.arrays.planning.moves import pieces, stays
from bsp.cost.model import WORD, Machine

__concrete__ = True  # it counts: its arrays are numbers of words, in a run without values too


class Exchange(NamedTuple):
    """What travels at the end of a superstep: words and messages of the busiest processes."""

    what: str
    sent: int
    received: int
    messages: int

    @property
    def h(self) -> int:
        """The h-relation.  Where it is 0 there is no superstep."""
        return max(self.sent, self.received)


class Cost(NamedTuple):
    """W + g·H + L·S and M of one way to multiply.

    exchanges : in order, those that move nothing among them.
    flops : W, of the busiest process in each round, added.  memory : words of the fullest process: its blocks of A, B
        and C, what arrives, what is put together of it, and a brick's product before it is added.
    """

    method: int | str
    schedule: Schedule
    exchanges: tuple[Exchange, ...]
    flops: float
    memory: int

    @property
    def steps(self) -> tuple[Exchange, ...]:
        """The supersteps."""
        return tuple(each for each in self.exchanges if each.h)

    @property
    def h(self) -> tuple[int, ...]:
        """Words of each superstep."""
        return tuple(each.h for each in self.steps)

    @property
    def words(self) -> int:
        """H."""
        return sum(self.h)

    @property
    def supersteps(self) -> int:
        """S."""
        return len(self.steps)

    def price(self, machine: Machine) -> float:
        """Flop-times: W + g·H + o·messages + L·S."""
        messages = sum(each.messages for each in self.steps)
        return machine.price(float(self.words), self.supersteps, messages, self.flops)

    def __str__(self) -> str:
        s = self.schedule
        return (
            f"method {self.method} on {s.rows} x {s.columns} x {s.layers} processes: W = {self.flops:.4g} flops, "
            f"H = {self.words} words, S = {self.supersteps}, M = {self.memory} words"
        )


def bringing(sources: Sequence[Layout | None], targets: Sequence[Layout], nprocs: int, itemsize: int) -> int:
    """h of the superstep that brings matrices to other layouts; None: every process has the whole."""
    out, into = np.zeros(nprocs, np.int64), np.zeros(nprocs, np.int64)
    access = (Access(0), Access(1))
    for source, target in zip(sources, targets, strict=False):
        if source is not None and source is not target and not stays(source, access, target):
            sent, received = pieces(source, access, target, nprocs).traffic(nprocs, itemsize)
            out, into = out + sent, into + received
    return -(-int(max(out.max(initial=0), into.max(initial=0))) // WORD)


@lru_cache(maxsize=4096)
def counted(schedule: Schedule, itemsize: int, leaf: str, method: int | str) -> Cost:
    """The cost of a schedule for elements of so many bytes."""
    count = _shifted if schedule.way == SHIFTED else _broadcast
    exchanges, flops, memory = count(schedule, itemsize, leaf)
    return Cost(method, schedule, tuple(exchanges), float(flops), -(-int(memory) * itemsize // WORD))


def exchange(what: str, sent: Any, received: Any, messages: Any, itemsize: int) -> Exchange:
    out, into = (-(-int(elements.max(initial=0)) * itemsize // WORD) for elements in (sent, received))
    return Exchange(what, out, into, int(messages.max(initial=0)))


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of each range of one list of cuts with each of another."""
    low = np.maximum(first[:-1, None], second[None, :-1])
    high = np.minimum(first[1:, None], second[None, 1:])
    found: np.ndarray = np.maximum(high - low, 0)
    return found


def _layered(k: int, layers: int, rounds: int, parts: int) -> np.ndarray:
    """Elements of k that piece s of layer l shares with the part of that layer at home in place x: [l, s, x]."""
    pieces, homes = cuts(k, layers * rounds), cuts(k, layers * parts)
    return np.stack([
        overlaps(pieces[at * rounds : (at + 1) * rounds + 1], homes[at * parts : (at + 1) * parts + 1])
        for at in range(layers)
    ])  # fmt: skip


def _shifted(s: Schedule, itemsize: int, leaf: str) -> tuple[list[Exchange], float, int]:
    """Every process fetches the piece of its turn: of A from its row of the grid, of B from its column."""
    rows, columns, layers, rounds = s.rows, s.columns, s.layers, s.rounds
    height, width = np.diff(cuts(s.m, rows))[:, None], np.diff(cuts(s.n, columns))[None, :]
    of_a, of_b = _layered(s.k, layers, rounds, columns), _layered(s.k, layers, rounds, rows)
    length = np.diff(cuts(s.k, layers * rounds)).reshape(layers, rounds)
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    turn = (i * rounds // rows + j * rounds // columns) % rounds
    readers_a, readers_b = np.zeros((rows, rounds), np.int64), np.zeros((columns, rounds), np.int64)
    np.add.at(readers_a, (np.broadcast_to(i, turn.shape), turn), 1)  # of each piece in each row of the grid,
    np.add.at(readers_b, (np.broadcast_to(j, turn.shape), turn), 1)  # and in each column
    home = height * of_a.sum(1)[:, None, :] + of_b.sum(1)[:, :, None] * width
    block = height * width
    sliced = columns % rounds != 0  # A's pieces are parts of blocks, so they are copied to be sent
    exchanges, flops, memory = [], 0.0, 0
    for t in range(rounds):
        piece = (turn + t) % rounds
        now_a, now_b = np.roll(readers_a, t, 1), np.roll(readers_b, t, 1)
        own_a, own_b = of_a[:, piece, j], of_b[:, piece, i]  # (layers, rows, columns), like all that follows
        in_a, in_b = height * (length[:, piece] - own_a), (length[:, piece] - own_b) * width
        out_a = height * (now_a @ of_a - own_a)
        out_b = ((now_b @ of_b).transpose(0, 2, 1) - own_b) * width
        messages = (height > 0) * (now_a @ (of_a > 0) - (own_a > 0))
        messages = messages + ((now_b @ (of_b > 0)).transpose(0, 2, 1) - (own_b > 0)) * (width > 0)
        exchanges.append(
            exchange(f"matmul: blocks {t + 1} of {rounds}", out_a + out_b, in_a + in_b, messages, itemsize)
        )
        adds = block if t else 0
        copies = 2 * of_a.sum(1)[:, None, :] * height if sliced else 0  # of the last round too, by who is slower
        held = home + copies + adds
        many_a, many_b = ((of_a > 0).sum(2) > 1)[:, piece] | sliced, ((of_b > 0).sum(2) > 1)[:, piece]
        joined_a, joined_b = many_a * height * length[:, piece], many_b * length[:, piece] * width
        brick_a, brick_b = np.where(many_a, joined_a, in_a), np.where(many_b, joined_b, in_b)
        work = strassen.workspace(int(height.max()), int(length.max()), int(width.max()), leaf)
        for now in (in_a + in_b + joined_a, brick_a + in_b + joined_b, brick_a + brick_b + block + work):
            memory = max(memory, int((held + now).max()))
        flops += _product_flops(height, length[:, piece], width, leaf) + int(np.max(adds))
    if layers > 1:
        parts = np.diff(cuts(s.m, rows * layers)).reshape(rows, layers).T[:, :, None] * width  # (layers, rows, columns)
        summed = parts.sum(0)
        received = (layers - 1) * parts
        sends = ((parts > 0).sum(0) - (parts > 0)) * np.ones_like(parts)
        exchanges.append(exchange("matmul: partial sums", summed - parts, received, sends, itemsize))
        flops += int(received.max())
        memory = max(memory, int((home + block + received + parts).max()))
    return exchanges, flops, memory


def _product_flops(height: np.ndarray, length: np.ndarray, width: np.ndarray, leaf: str) -> float:
    if leaf == "blas":
        return float(2 * int((height * length * width).max()))
    return strassen.flops(int(height.max()), int(length.max()), int(width.max()))


def _broadcast(s: Schedule, itemsize: int, leaf: str) -> tuple[list[Exchange], float, int]:
    """Panels from their owners along rows and columns of the grid; one layer."""
    rows, columns = s.rows, s.columns
    heights, widths = np.diff(cuts(s.m, rows)), np.diff(cuts(s.n, columns))
    height, width = heights[:, None], widths[None, :]
    parts_a = np.diff(height * np.arange(columns + 1) // columns, axis=1)  # of a panel's column, in two phases
    parts_b = np.diff(width * np.arange(rows + 1)[:, None] // rows, axis=0)
    home = height * np.diff(cuts(s.k, columns)) + np.diff(cuts(s.k, rows))[:, None] * width
    block = height * width
    exchanges, flops, memory = [], 0.0, 0
    panels = s.panels
    for t, (low, high) in enumerate(panels):
        w = high - low
        owns_a = (np.arange(columns) == holder(s.k, columns, low))[None, :]
        owns_b = (np.arange(rows) == holder(s.k, rows, low))[:, None]
        name = f"matmul: panel {t + 1} of {len(panels)}"
        if s.way == TWO_PHASE:
            sent = owns_a * (height - parts_a) + owns_b * (width - parts_b)
            received = ~owns_a * parts_a + ~owns_b * parts_b
            messages = owns_a * ((parts_a > 0).sum(1, keepdims=True) - (parts_a > 0))
            messages = messages + owns_b * ((parts_b > 0).sum(0, keepdims=True) - (parts_b > 0))
            exchanges.append(exchange(f"{name}, to be passed on", w * sent, w * received, messages, itemsize))
            others_a, others_b = columns - 1 - ~owns_a, rows - 1 - ~owns_b
            sent = parts_a * others_a + parts_b * others_b
            received = ~owns_a * (height - parts_a) + ~owns_b * (width - parts_b)
            messages = (parts_a > 0) * others_a + (parts_b > 0) * others_b
        else:
            sent = owns_a * height * (columns - 1) + owns_b * width * (rows - 1)
            received = ~owns_a * height + ~owns_b * width
            messages = owns_a * (height > 0) * (columns - 1) + owns_b * (width > 0) * (rows - 1)
        exchanges.append(exchange(name, w * sent, w * received, messages, itemsize))
        adds = block if t else 0
        flops += _product_flops(height, np.array(w), width, leaf) + int(np.max(adds))
        on_way = height * (columns > 1 or len(panels) > 1) + width * (rows > 1)
        passing = w * on_way * (3 if s.way == TWO_PHASE else 2)  # the last panel too, by who is slower
        work = strassen.workspace(int(height.max()), w, int(width.max()), leaf)
        memory = max(memory, int((home + passing + block + adds).max()) + work)
    return exchanges, flops, max(memory, int((home + block).max()))


def holder(length: int, parts: int, position: int) -> int:
    """The part that has a position."""
    return int(np.searchsorted(cuts(length, parts), position, side="right")) - 1
