"""Patterns of traffic as costs: the supersteps that algorithms of collectives are made of (McColl 1.6.1).

A cost is counted twice.  W, H and messages are those of the busiest process, as a trace counts them.  The load is that
of the busiest element, and is what the price follows from.

Both are pure functions of p, of sizes that all processes have, and of the machine profile, whatever number of elements
hosts the run (D5).  A machine without levels is the classical one: every process has a processor of its own, one word
combined is one flop, and only the values in pickled bundles are taken up one by one.  With levels the number of
elements is the profile's, or p if that is less: p / P processes share an element, messages between them are copies,
each superstep takes each of them a turn, and a value that is sent to several processes of an element crosses to it
once.  Elements fill nodes one after the other, as `Machine.using` has them, and the receivers of an element's messages
are spread evenly over the others.  So the price of supersteps is the time that a prediction has for them.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from bsp.collectives.domains import hosts_of, several, swapping
from bsp.cost.model import WORD, Cost, Load, Machine, Traffic
from bsp.values.operations import nodes_of

ARITIES = (2, 4, 8, 16)
_TAKEN_UP = 0.5  # of a message's overhead without levels: a probe has found 0.2 us of 0.4 us for a value in a bundle
_BUNDLE = 8  # the number of blocks inside an element whose overhead equals pickling and unpickling one bundle

Blocks = tuple[float, float]  # how many blocks, and the words of each


def levels_of(p: int, arity: int) -> int:
    """Return ceil(log_arity p), and 1 for a single process: a collective is a boundary for it too."""
    levels, reached = 1, arity
    while reached < p:
        levels, reached = levels + 1, reached * arity
    return levels


class Sizes:
    """p processes that pass values of n words, on one machine: P elements with at most v processes each.

    words : of a value; of all values together for a scatter.
    count, itemsize : items of a value and their bytes, if they are no words: two-phase algorithms cut between items.
    elements : of a run whose time is predicted; None, where algorithms are chosen: those of the machine (D5).
    """

    def __init__(
        self, machine: Machine, p: int, words: float, count: int | None = None, itemsize: int = WORD,
        elements: int | None = None,
    ) -> None:  # fmt: skip
        self.p, self.n = p, words
        inside = machine.inside
        self.P = elements or (p if inside is None else max(1, min(p, machine.p)))
        ports = [min(level.widest, self.P) for level in machine.outer] + [self.P]
        others = max(self.P - 1, 1)
        # of each level between elements: those that share a port, and the share of the others that is reached by it
        self._levels = {"all": [(low, (high - low) / others) for low, high in pairwise(ports)]}
        self.v = ceil(p / self.P)
        self.hosts = hosts_of(machine, p)
        if several(self.hosts):
            self.crossings = levels_of(len(self.hosts), 2)
            self.swaps, self.folded_hosts = swapping(len(self.hosts))
            self._widest, self._narrowest = max(map(len, self.hosts)), min(map(len, self.hosts))
            self._nodes = max(len(nodes_of(ranks.start, ranks.stop, p)) for ranks in self.hosts)
            self._share = ports[-2]  # the elements of a host
            self._neighbours = ports[-2] - 1  # the other elements of a host
            inner = [(low, (high - low) / max(self._neighbours, 1)) for low, high in pairwise(ports[:-1])]
            self._levels["host"] = [*inner, (ports[-2], 0.0)]
            self._levels["hosts"] = [*[(low, 0.0) for low, _ in inner], (ports[-2], 1.0)]
        self.away = p - self.v  # processes of other elements
        self.chunk = words / p
        self.hops = levels_of(p, 2)
        self._flop = machine.r / machine.rates["elementwise"] if machine.rates else 1.0  # flop-times of one combination
        # flop-times of taking up a value that is combined, and one in a bundle
        self._handling, self._bundling = (0.0, _TAKEN_UP * machine.o) if inside is None else (inside.o, inside.o)
        self._items, self._itemsize = words if count is None else count, itemsize

    def step(
        self, h: float, messages: float, out: Blocks, copies: Blocks, combined: Blocks = (0, 0),
        *, flops: float = 0.0, bundles: float = 0, handled: float = 0, supersteps: int = 1, by_all: bool = False,
        reach: str = "all",
    ) -> Cost:  # fmt: skip
        """Return the cost of one superstep, or of several alike.

        h, messages, flops : of the busiest process.
        out, copies : blocks that leave, or enter, the busiest element, and copies made inside it.
        combined : values that the element combines, and the words of each.
        bundles, handled : pickles that it writes or reads, and values that it takes up besides.
        by_all : whether all elements send as much at the same time, and so share ports.
        reach : where the blocks go: to "all" elements alike, to those of the same "host", or to other "hosts".
        """
        (blocks, size), (copied, each), (values, length) = out, copies, combined
        within = copied * each
        work = self._flop * values * length + self._handling * values
        work += self._bundling * (_BUNDLE * bundles + handled)
        between = []
        for ports, share in self._levels[reach]:
            share *= ports if by_all else 1
            between.append(Traffic(blocks * share, blocks * size * share, 0.0, blocks * size * share))
        landed = blocks * size + within
        load = Load(work, tuple(between), Traffic(copied, within, 0.0, within), self.v * supersteps, 0.0, landed)
        return Cost(flops, h, supersteps, messages=messages, load=load)

    @property
    def h_of_pieces(self) -> int:
        """The h of a superstep in which every process sends each a piece of its value, or its own piece to all."""
        smallest, largest = self._items // self.p, -(-self._items // self.p)
        most = max(self._items - smallest, (self.p - 1) * largest)
        return int(-(-most * self._itemsize // WORD))

    @property
    def h_of_others(self) -> int:
        """The h of a superstep in which one process sends or receives all pieces of a value but a smallest one."""
        return int(-(-(self._items - self._items // self.p) * self._itemsize // WORD))

    @property
    def doubled(self) -> int:
        """The values that a process receives if it holds 1, 2, 4, ... after the supersteps of an allgather."""
        return sum(1 << j for j in range(self.hops) if 1 << j < self.p)

    @property
    def hopped(self) -> int:
        """The values that a process sends if each travels by the powers of two that add up to its distance."""
        return sum((self.p >> j + 1 << j) + max(0, self.p % (2 << j) - (1 << j)) for j in range(self.hops))

    def one_to_all(self) -> Cost:
        """Return the cost of a value from one process to all others at once; it crosses once to each element."""
        return self.step((self.p - 1) * self.n, self.p - 1, (self.P - 1, self.n), (self.v, self.n))

    def pieces_to_all(self) -> Cost:
        """Return the cost of sending each process its piece of one process's value."""
        return self.step(self.h_of_others, self.p - 1, (self.away, self.chunk), (self.v, self.chunk))

    def all_to_one(self, words: float, h: float, combining: bool = False) -> Cost:
        """Return the cost of a value of so many words from every process to one, which may combine them."""
        combined = (self.p - 1, words) if combining else (0, 0)
        flops = combined[0] * combined[1]
        return self.step(h, self.p - 1, (self.away, words), (self.v, words), combined, flops=flops)

    def all_to_all(self, words: float, h: float, combined: float = 0, flops: float = 0.0) -> Cost:
        """Return the cost of a different value for each pair of processes; each combines `combined` of them."""
        out, copies = (self.v * self.away, words), (self.v * self.v, words)
        return self.step(h, self.p - 1, out, copies, (self.v * combined, words), flops=flops, by_all=True)

    def each_to_all(self, words: float, h: float, combined: float = 0, flops: float = 0.0) -> Cost:
        """Return the cost of one value from every process to all others; an element combines `combined` of them.

        An element keeps one copy of each, and combines them for all of its processes.
        """
        out, copies = (self.away, words), (self.v, words)
        return self.step(h, self.p - 1, out, copies, (combined, words), flops=flops, by_all=True)

    def combined_pieces(self) -> Cost:
        """Return the cost of the first of two phases: process k combines the k-th pieces of all values."""
        return self.all_to_all(self.chunk, self.h_of_pieces, self.p - 1, (self.p - 1) * self.chunk)

    def tree(self, arity: int, combining: bool) -> list[Cost]:
        """Return the costs of a value's way down a tree, or of values' way up a tree, where they are combined."""
        costs = []
        for level in range(levels_of(self.p, arity)):  # ranks `stride` apart pass a value on
            stride = arity**level
            ends = min(arity, ceil(self.p / stride)) - 1
            apart = max(0, ends + 1 - max(1, self.v // stride))  # those on other elements
            out = apart if combining else min(apart, self.P - 1), self.n
            copies = (0 if level else self.v), self.n
            combined = (ends * max(1, self.v // (stride * arity)), self.n) if combining else (0, 0)
            flops = ends * self.n * combining
            costs.append(self.step(ends * self.n, ends, out, copies, combined, flops=flops))
        return costs if combining else costs[::-1]

    def bundles(
        self, supersteps: int, words: float, h: float, messages: float, blocks: float, items: float,
        by_all: bool = False,
    ) -> Cost:  # fmt: skip
        """Return the cost of pickled bundles, `blocks` of them with `items` values; h is without what pickles add."""
        near = (self.v - 1) / (self.p - 1) if self.p > 1 else 1.0  # share of receivers on the same element
        size = words * items / max(blocks, 1)
        return self.step(
            h, messages, (blocks * (1 - near), size), (blocks * near, size),
            bundles=blocks, handled=items, supersteps=supersteps, by_all=by_all,
        )  # fmt: skip

    # ------------------------------------------------------------------ host by host

    def to_leader(self, combining: bool = False) -> Cost:
        """Return the cost of a value from every process to the leader of its host, which may combine them."""
        others, words = self._widest - 1, self.n
        combined = (others, words) if combining else (0, 0)
        out, copies = (self._widest - self.v, words), (self.v, words)
        return self.step(others * words, others, out, copies, combined, flops=others * words * combining, reach="host")

    def to_host(self) -> Cost:
        """Return the cost of a value from the leader of each host to all processes there."""
        others = self._widest - 1
        return self.step(others * self.n, others, (self._neighbours, self.n), (self.v, self.n), reach="host")

    def between_hosts(self, combining: bool = False, swapping: bool = False) -> list[Cost]:
        """Return the costs of a value's way down the binary tree of hosts, or of values' way up, where they combine.

        swapping : both ways at once, between hosts at distance 1, 2, 4, ...
        """
        words = self.n * (self._nodes if combining else 1)
        combined = (1, words) if combining else (0, 0)
        one = self.step(words, 1, (1, words), (0, 0), combined, flops=words * combining, reach="hosts")
        return [one] * (self.swaps if swapping else self.crossings)

    def _largest(self, parts: int) -> tuple[float, float]:
        """Return the words of the smallest and of the largest of so many pieces of a value."""
        smallest, largest = self._items // parts, -(-self._items // parts)
        return smallest * self._itemsize / WORD, largest * self._itemsize / WORD

    def shares_to_all(self) -> Cost:
        """Return the cost of sending each place of each host its share of one process's value."""
        hosts, places = len(self.hosts), self._narrowest
        words, (smallest, _) = self.n / (hosts * places), self._largest(hosts * places)
        away = places * (hosts - 1)
        return self.step(ceil(self.n - smallest), hosts * places - 1, (away, words), (self.v, words), reach="hosts")

    def swapped_shares(self, combining: bool = False) -> Cost:
        """Return the cost of sending a share to, or another one for, the same place of every other host."""
        others, shares = len(self.hosts) - 1, len(self.hosts) * self._narrowest
        nodes = self._nodes if combining else 1
        words, (_, largest) = nodes * self.n / shares, self._largest(shares)
        combined = (self.v * others, words) if combining else (0, 0)
        return self.step(
            ceil(others * nodes * largest), others, (self.v * others, words), (0, 0), combined,
            flops=others * words * combining, by_all=True, reach="hosts",
        )  # fmt: skip

    def pieces_within(self) -> Cost:
        """Return the cost of combining inside each host: place k combines the k-th pieces of the values there."""
        others, words = self._widest - 1, self.n / self._narrowest
        out, copies = (self.v * (self._narrowest - self.v), words), (self.v * self.v, words)
        return self.step(
            self._h_of_places(), others, out, copies, (self.v * others, words), flops=others * words,
            by_all=True, reach="host",
        )  # fmt: skip

    def pieces_to_host(self) -> Cost:
        """Return the cost of sending the piece of every place to all processes of its host."""
        words, away = self.n / self._narrowest, self._narrowest - self.v
        copies = self._narrowest * self.v - away, words  # what comes from another element is the first copy
        return self.step(self._h_of_places(), self._widest - 1, (away, words), copies, by_all=True, reach="host")

    def _h_of_places(self) -> int:
        """Return the h of a superstep in which processes send each place of their host a piece, or theirs to all."""
        smallest, largest = self._largest(self._narrowest)
        kept = smallest if self._widest == self._narrowest else 0
        return ceil(max(self.n - kept, (self._widest - 1) * largest))

    # of pickled bundles h is without what pickles add, and at least

    def bundles_of_leaders(self) -> Cost:
        """Return the cost of the values of each host, sent by its leader to all others."""
        others, held = len(self.hosts) - 1, self._widest
        out, bundles = (others, held * self.n), len(self.hosts)
        h = others * self._narrowest * self.n
        return self.step(h, others, out, (1, held * self.n), bundles=bundles, handled=held, reach="hosts")

    def all_bundles_to_host(self) -> Cost:
        """Return the cost of all values, sent by the leader of each host to the processes there."""
        others, words = self._widest - 1, self.p * self.n
        out, copies = (self._neighbours, words), (self.v, words)
        return self.step(
            others * words, others, out, copies, bundles=2 * self.v, handled=self.v * self.p, reach="host"
        )  # fmt: skip

    def bundles_to_forwarders(self) -> Cost:
        """Return the cost of what goes to other hosts, in bundles to those that forward it, and of what stays."""
        many = min(self._narrowest, len(self.hosts) - 1)  # forwarders of a host
        away = self.p - self._widest
        blocks = self.v * (many + self._widest)
        share = (self._widest - self.v) / self._widest  # of the receivers that are on other elements
        words = self.n * self.v * self.p / blocks
        taken = (self._widest - 1) * self._narrowest * ceil((len(self.hosts) - 1) / many)  # by the busiest forwarder
        return self.step(
            max(self.p - self._widest * ceil(len(self.hosts) / many), taken) * self.n, self._widest - 1,
            (blocks * share, words), (blocks * (1 - share), words),
            bundles=2 * self.v * many, handled=2 * self.v * away, by_all=True, reach="host",
        )  # fmt: skip

    def bundles_across(self) -> Cost:
        """Return the cost of one bundle from each host to each other."""
        others, values = len(self.hosts) - 1, self._widest**2
        turns = ceil(others / self._widest)
        each = others / self._share
        return self.step(
            turns * self._narrowest**2 * self.n, turns, (each, values * self.n), (0, 0),
            bundles=2 * each, handled=2 * values * each, by_all=True, reach="hosts",
        )  # fmt: skip

    def bundles_from_forwarders(self) -> Cost:
        """Return the cost of handing on what came from other hosts, in a bundle for each process."""
        many, away = min(self._narrowest, len(self.hosts) - 1), self.p - self._widest
        blocks = many * self._widest / self._share
        share = (self._widest - self.v) / self._widest
        words = self.n * away / many
        return self.step(
            self._narrowest * (self._widest - 1) * ceil((len(self.hosts) - 1) / many) * self.n, self._widest - 1,
            (blocks * share, words), (blocks * (1 - share), words),
            bundles=blocks + self.v * many, handled=2 * self.v * away, by_all=True, reach="host",
        )  # fmt: skip
