"""Reduce, allreduce and scan: values combined in the tree of D3, whatever the algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.collectives.choice import Algorithm, Collective
from bsp.collectives.domains import Domains
from bsp.collectives.pooled import KnownReduction, alike, no_fit, pool_combined
from bsp.collectives.sizes import Sizes, levels_of
from bsp.collectives.steps import Steps, joined, pack, root_rank, unpack
from bsp.cost.model import Cost
from bsp.errors import UnknownOperation
from bsp.values.memory import empty
from bsp.values.operations import (
    Node,
    Prefixes,
    Reduction,
    combine,
    combine_nodes,
    nodes_of,
    operation,
    wider_result,
)
from bsp.values.payload import Packed, as_array, cuts_of, is_abstract, is_array, pieces_of

if TYPE_CHECKING:
    from bsp.processes import Process

REDUCE, ALLREDUCE, SCAN = Collective("reduce"), Collective("allreduce"), Collective("scan")


def _described(
    proc: Process, name: str, value: Any, op: Any, grouped: bool, algorithm: str | None, root: int | None
) -> tuple[Reduction, str, Algorithm]:
    """Return the operation, the text and the algorithm of a call.  Those of a named operation are kept."""
    element = proc._task.element
    array = is_array(value)
    kind = (value.dtype, value.shape) if array and not grouped else None
    key = name, op, grouped, algorithm, root, kind
    keeps = type(op) is str and (root is None or type(root) is int)
    known = element.calls.get(key) if keeps else None
    found: tuple[Reduction, str, Algorithm]
    if known is not None:
        found, choice = known
        proc._task.choice = proc._task.chosen = choice
        return found
    reduction = operation(op)
    shown = f"{value.dtype}{list(value.shape)}" if array else "object"
    text = f"{name}({shown}, op='{reduction.name}'" + (f", root={root!r})" if root is not None else ")")
    if grouped:  # other groups may reduce other things at the same time; their steps must be as many
        text = f"{name}(op='{reduction.name}')"
    words = -(-value.nbytes // 8) if array and not grouped else 1
    cuttable = array and not grouped and reduction.elementwise
    collective = {"reduce": REDUCE, "allreduce": ALLREDUCE}.get(name, SCAN)
    found = reduction, text, collective.choose(proc, words, algorithm, text, grouped, cuttable)
    if keeps:
        if len(element.calls) >= _KEPT:
            element.calls.clear()
        element.calls[key] = found, proc._task.choice
    return found


_KEPT = 1024  # calls


class _Reducing:
    """One call of a reduction: its operation, its supersteps and the algorithm that all processes agree on."""

    def __init__(
        self, proc: Process, name: str, value: Any, op: Any, group: Sequence[int] | None, algorithm: str | None,
        root: int | None = None,
    ) -> None:  # fmt: skip
        self.op, self.text, self.chosen = _described(proc, name, value, op, group is not None, algorithm, root)
        code = self.op.code
        self.steps = Steps(proc, self.text, group, self.chosen.name, "" if group is not None else code)
        if group is not None:  # other groups may combine other arrays by other functions
            self.steps.agree(code, *((value.dtype.str, *value.shape) if is_array(value) else ()))
        if self.steps.takes_part and self.op.ufunc is not None:
            self._check_kept(value, self.op.ufunc)
        self.packed: Packed = pack(value, proc, self.text) if self.steps.takes_part else b""

    def _check_kept(self, value: Any, ufunc: np.ufunc) -> None:
        """Raise UnknownOperation if the dtype of `value` cannot hold what the operation gives."""
        if not is_array(value) and not (isinstance(value, np.generic) and value.dtype.kind not in "SU"):
            return
        wider = wider_result(ufunc, value.dtype)
        if wider is not None:
            raise UnknownOperation(
                f"{self.text}: {self.op.name} of {value.dtype} values gives {wider}, and the result of a reduction has "
                f"the type of the values; convert them first{self.steps.proc._place()}"
            )

    def combined(self, parts: dict[int, Packed], into: np.ndarray | None = None) -> Any:
        """Return the values of ranks 0..n-1 combined in the tree of D3; a single one as a copy of its own.

        into : an array for the result, which is used if the operation can.
        """
        return self.combine([unpack(parts[rank]) for rank in sorted(parts)], into)

    def combine(self, values: list[Any], into: np.ndarray | None = None) -> Any:
        """Return `values` combined in the tree of D3.  Raises ShapeError, which names the call, if they do not fit."""
        try:
            return combine(values, self.op, into)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise no_fit(self.steps.proc, self.text, wrong) from wrong

    def of_first(self, parts: dict[int, Packed], count: int) -> Any:
        """Return the values of ranks 0..count-1 combined, of those that all ranks gave to all."""
        steps = self.steps
        if steps.pool is None:
            return self.combine([unpack(part) for part in steps.of_all(parts, count)])
        return pool_combined(steps.pool, self.op, count, steps.owns, steps.proc, self.text)

    def prefixes(self, values: list[Any], counts: range) -> list[Any]:
        """Return the first `count` of `values` combined, for each of `counts`."""
        try:
            prefixes = Prefixes(values, self.op)
            return [prefixes.first(count) for count in counts]
        except (TypeError, ValueError, OverflowError) as wrong:
            raise no_fit(self.steps.proc, self.text, wrong) from wrong

    def post_chunks(self) -> None:
        """Send rank k the k-th piece of this process's value: the first superstep of the two-phase algorithms."""
        flat = as_array(self.packed).reshape(-1)
        cuts = cuts_of(flat.size, self.steps.n)
        for rank in range(self.steps.n):
            self.steps.post([rank], flat[cuts[rank] : cuts[rank + 1]], kept=rank == self.steps.me)

    def own_chunk(self, into: np.ndarray | None = None) -> Any:
        """Return the k-th piece of all values, combined, on rank k.  One superstep.

        into : where it is to be written.
        """
        self.post_chunks()
        found = self.combined(self.steps.step(), into)
        if into is not None and found is not into:
            into[...] = found
            return into
        return found

    def all_chunks(self) -> np.ndarray:
        """Return all values combined: every rank combines a piece and gives it to all.  Two supersteps.

        The pieces are made, and received, in their places in the result.
        """
        steps, like = self.steps, as_array(self.packed)
        if is_abstract(like):
            steps.post_to_all(self.own_chunk())
            return self.whole(steps.step())
        result = empty(like.shape, like.dtype)
        places = [as_array(piece) for piece in pieces_of(result, steps.n)]
        # the piece lies in the result, which this process may change before others here have read it
        others_here = len(steps.proc._task.element.tasks) > 1
        steps.post_to_all(self.own_chunk(places[steps.me]), lent=others_here)
        steps.land(places)
        for rank, part in steps.step().items():
            if as_array(part).ctypes.data != places[rank].ctypes.data:
                places[rank][...] = part
        return result

    def whole(self, parts: dict[int, Packed]) -> np.ndarray:
        """Return the value whose pieces these are, by rank."""
        shape = as_array(self.packed).shape
        return joined([as_array(part) for part in self.steps.of_all(parts)]).reshape(shape)

    def own(self, result: Any) -> Any:
        """Return a result that shares no memory with the argument: a group of one combines nothing."""
        packed = self.packed
        if isinstance(result, np.ndarray) and isinstance(packed, np.ndarray) and np.shares_memory(result, packed):
            return result.copy()
        return result

    def up_the_tree(self, arity: int, target: int) -> Any:
        """Combine aligned blocks of arity^j ranks at their first rank, at last all at `target`; return what is here."""
        steps = self.steps
        levels = levels_of(steps.proc.nprocs, arity)
        held = unpack(self.packed) if steps.takes_part else None
        for level in range(levels):
            stride = arity**level
            first = 0 if level == levels - 1 else steps.me - steps.me % (stride * arity)
            above = target if level == levels - 1 else first
            if steps.takes_part and steps.me % stride == 0:
                steps.post([above], pack(held, steps.proc, self.text))
            arrived = steps.step()
            if steps.me == above:
                steps.expect(arrived, range(first, min(first + stride * arity, steps.n), stride))
            held = self.combined(arrived) if arrived else held
        return held

    # ------------------------------------------------------------------ host by host

    def merged(self, nodes: dict[Node, Any]) -> dict[Node, Any]:
        """Return what follows from nodes of the tree of D3, as far as their neighbours are there."""
        try:
            return combine_nodes(nodes, self.steps.n, self.op)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise no_fit(self.steps.proc, self.text, wrong) from wrong

    def at_leader(self, at: Domains) -> dict[Node, Any]:
        """Combine the values of each host at its leader; return what it has.  One superstep."""
        self.steps.post([at.leader(at.mine)], self.packed)
        return self.merged({(0, rank): unpack(part) for rank, part in self.steps.step().items()})

    def packed_nodes(self, nodes: dict[Node, Any]) -> Packed:
        """Return the values of nodes as one message; `arrived_nodes` takes it apart."""
        values = list(nodes.values())
        return pack(values[0] if len(values) == 1 else values, self.steps.proc, self.text)

    def arrived_nodes(self, spans: dict[int, tuple[int, int]]) -> dict[Node, Any]:
        """Return the nodes that arrive from leaders, each with those of the ranks start..stop-1.  One superstep."""
        nodes: dict[Node, Any] = {}
        for rank, part in self.steps.step().items():
            known = nodes_of(*spans[rank], self.steps.n)
            nodes |= zip(known, [unpack(part)] if len(known) == 1 else unpack(part), strict=True)
        return nodes

    def up_the_hosts(self, at: Domains, target: int) -> Any:
        """Combine inside each host at its leader, then up a binary tree of hosts; return what `target` has at last."""
        steps = self.steps
        nodes = self.at_leader(at)
        for level in range(at.levels):
            stride = 1 << level
            if steps.me == at.leader(at.mine) and at.mine % stride == 0:
                above = at.leader(at.mine - at.mine % (2 * stride)) if level < at.levels - 1 else target
                steps.post([above], self.packed_nodes(nodes))
            spans = {at.leader(host): at.span(host, stride) for host in range(0, len(at.hosts), stride)}
            nodes = self.merged(self.arrived_nodes(spans))
        return next(iter(nodes.values()), None)


def reduce(proc: Process, value: Any, op: Any, root: int, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """Return all values combined, on the root; see `Process.reduce`."""
    call = _Reducing(proc, "reduce", value, op, group, algorithm, root)
    target = root_rank(call.steps, root)
    result = call.chosen.run(call, target)
    return call.own(result) if call.steps.me == target else None


# Each returns the result on the target; what others return is not used.


@REDUCE.algorithm("one-phase", lambda at: [at.all_to_one(at.n, (at.p - 1) * at.n, combining=True)])
def _reduced_at_once(call: _Reducing, target: int) -> Any:
    if call.steps.takes_part:
        call.steps.post([target], call.packed)
    arrived = call.steps.step()
    return call.combine([unpack(part) for part in call.steps.of_all(arrived)]) if call.steps.me == target else None


@REDUCE.algorithm("two-phase", lambda at: [at.combined_pieces(), at.all_to_one(at.chunk, at.h_of_others)], cuts=True)
def _reduced_in_pieces(call: _Reducing, target: int) -> Any:
    call.steps.post([target], call.own_chunk())
    arrived = call.steps.step()
    return call.whole(arrived) if arrived else None


@REDUCE.algorithm("hosts", lambda at: [at.to_leader(combining=True), *at.between_hosts(combining=True)], by_hosts=True)
def _reduced_by_hosts(call: _Reducing, target: int) -> Any:
    return call.up_the_hosts(Domains(call.steps), target)


@REDUCE.trees(lambda at, arity: at.tree(arity, combining=True))
def _reduced_up_a_tree(arity: int, call: _Reducing, target: int) -> Any:
    return call.up_the_tree(arity, target)


def allreduce(proc: Process, value: Any, op: Any, group: Sequence[int] | None, algorithm: str | None) -> Any:
    """Return all values combined, on every process of the group; see `Process.allreduce`."""
    call = _Reducing(proc, "allreduce", value, op, group, algorithm)
    if type(op) is str and group is None and algorithm is None:
        kind = alike(value, op)
        if kind is not None:
            _keep(call, kind, proc._allreductions, value)
    result = call.chosen.run(call)
    return call.own(result) if call.steps.takes_part else None


def _keep(call: _Reducing, kind: Any, kept: dict[Any, KnownReduction], value: Any) -> None:
    """Keep what calls like this one have in common, if they take the one superstep in which all give to all."""
    proc = call.steps.proc
    if call.chosen.name == "one-phase" and len(kept) < _KEPT:
        assert proc._task.choice is not None
        kept[kind] = KnownReduction(proc, call.steps.call(), call.op, proc._task.choice, value)


def _combined_everywhere(at: Sizes) -> list[Cost]:
    return [at.each_to_all(at.n, (at.p - 1) * at.n, at.p - 1, (at.p - 1) * at.n)]


@ALLREDUCE.algorithm("one-phase", _combined_everywhere)
def _allreduced_at_once(call: _Reducing) -> Any:
    if call.steps.takes_part:
        call.steps.post_to_all(call.packed)
    arrived = call.steps.step()
    return call.of_first(arrived, call.steps.n) if call.steps.takes_part else None


@ALLREDUCE.algorithm(
    "two-phase", lambda at: [at.combined_pieces(), at.each_to_all(at.chunk, at.h_of_pieces)], cuts=True
)
def _allreduced_in_pieces(call: _Reducing) -> Any:
    return call.all_chunks()


def _hosts_costs(at: Sizes) -> list[Cost]:
    swaps, folds = at.between_hosts(combining=True, swapping=True), at.folded_hosts > 0
    up, down = at.between_hosts(combining=True)[:folds], at.between_hosts()[:folds]
    return [at.to_leader(combining=True), *up, *swaps, *down, at.to_host()]


@ALLREDUCE.algorithm("hosts", _hosts_costs, by_hosts=True)
def _allreduced_by_hosts(call: _Reducing) -> Any:
    """Combine inside each host at its leader; then leaders swap what they have with one at distance 1, 2, 4, ...

    If the number of hosts is no power of two, some of the first hosts act for their neighbours as well.
    """
    steps, at = call.steps, Domains(call.steps)
    leads, acts = steps.me == at.leader(at.mine), at.acting(at.mine)
    nodes = call.at_leader(at)
    if at.folded:
        if leads and acts is None:
            steps.post([at.leader(at.mine - 1)], call.packed_nodes(nodes))
        spans = {ranks.start: (ranks.start, ranks.stop) for ranks in at.hosts}
        nodes = call.merged(nodes | call.arrived_nodes(spans))
    for level in range(at.swaps):
        other, spanned = at.partner(acts, level) if leads and acts is not None else (-1, (0, 0))
        if other >= 0:
            steps.post([other], call.packed_nodes(nodes))
        nodes = call.merged(nodes | call.arrived_nodes({other: spanned}))
    result = next(iter(nodes.values()), None)
    if at.folded:
        if leads and at.mine < 2 * at.folded and acts is not None:
            steps.post([at.leader(at.mine + 1)], pack(result, steps.proc, call.text))
        for packed in steps.step().values():
            result = unpack(packed)
    if leads:
        steps.post(at.here, pack(result, steps.proc, call.text))
    (packed,) = steps.step().values()
    return unpack(packed)


@ALLREDUCE.algorithm(
    "hosts-in-pieces",
    lambda at: [at.pieces_within(), at.swapped_shares(combining=True), at.swapped_shares(), at.pieces_to_host()],
    cuts=True, by_hosts=True,
)  # fmt: skip
def _allreduced_by_hosts_in_pieces(call: _Reducing) -> Any:
    """Combine the k-th pieces of a host at its place k, then shares of them with the same place of other hosts."""
    steps, at = call.steps, Domains(call.steps)
    flat = as_array(call.packed).reshape(-1)
    cuts = cuts_of(flat.size, at.narrowest)
    for k in range(at.narrowest):
        steps.post([at.here[k]], flat[cuts[k] : cuts[k + 1]])
    nodes = call.merged({(0, rank): as_array(part) for rank, part in steps.step().items()})
    places = at.counterparts() if at.at < at.narrowest else []
    for k, rank in enumerate(places):
        shares = [pieces_of(piece, len(places))[k] for piece in nodes.values()]
        steps.post([rank], shares[0] if len(shares) == 1 else np.stack(shares))
    nodes = {}
    for ranks, share in zip(at.hosts, _by_rank(steps.step()), strict=bool(places)):
        known = nodes_of(ranks.start, ranks.stop, steps.n)
        nodes |= zip(known, [share] if len(known) == 1 else share, strict=True)
    for whole in call.merged(nodes).values():
        steps.post(places, whole)
    combined = _by_rank(steps.step())
    if places:
        steps.post(at.here, joined(combined))
    return joined(_by_rank(steps.step())).reshape(as_array(call.packed).shape)


def _by_rank(arrived: dict[int, Packed]) -> list[np.ndarray]:
    """Return the arrays that arrived in one superstep, in the order of their ranks."""
    return [as_array(arrived[rank]) for rank in sorted(arrived)]


@ALLREDUCE.trees(lambda at, arity: at.tree(arity, combining=True) + at.tree(arity, combining=False))
def _allreduced_by_a_tree(arity: int, call: _Reducing) -> Any:
    steps = call.steps
    result = call.up_the_tree(arity, 0)
    stride = arity ** (levels_of(steps.proc.nprocs, arity) - 1)
    while stride:
        if steps.takes_part and steps.me % (stride * arity) == 0:
            below = range(steps.me + stride, min(steps.me + stride * arity, steps.n), stride)
            steps.post(below, pack(result, steps.proc, call.text))
        for packed in steps.step().values():
            result = unpack(packed)
        stride //= arity
    return result


def scan(
    proc: Process, value: Any, op: Any, group: Sequence[int] | None, algorithm: str | None, inclusive: bool
) -> Any:
    """Return the values up to this process combined; see `Process.scan` and `Process.exscan`."""
    brief = type(op) is str and group is None and algorithm is None and not is_array(value)
    kept = proc._scans if inclusive else proc._exscans
    if brief and op in kept:
        return kept[op].first(value, proc.pid + inclusive)
    call = _Reducing(proc, "scan" if inclusive else "exscan", value, op, group, algorithm)
    if brief:
        _keep(call, op, kept, value)
    result = call.chosen.run(call, inclusive)
    if not call.steps.takes_part:
        return None
    return result if call.steps.me + inclusive else call.op.identity_like(value)


# Each returns the prefix of this process; what it returns for none of the values is not used.


def _scanned_costs(at: Sizes) -> list[Cost]:
    # the parts of the tree are made once, then every process folds some of them
    return [at.each_to_all(at.n, (at.p - 1) * at.n, at.p + at.v * at.hops / 2, (at.p - 1) * at.n)]


@SCAN.algorithm("one-phase", _scanned_costs)
def _scanned_at_once(call: _Reducing, inclusive: bool) -> Any:
    steps, count = call.steps, call.steps.me + inclusive
    if steps.takes_part:
        steps.post_to_all(call.packed, steps.me)
    arrived = steps.step()
    return call.own(call.of_first(arrived, count)) if steps.takes_part and count else None


def _scanned_pieces_costs(at: Sizes) -> list[Cost]:
    # every process makes the prefixes of all of its pieces, each in the tree of D3
    prefixes = at.all_to_all(at.chunk, at.h_of_pieces, at.p * at.hops, at.p * at.hops * at.chunk)
    return [at.all_to_all(at.chunk, at.h_of_pieces), prefixes]


@SCAN.algorithm("two-phase", _scanned_pieces_costs, cuts=True)
def _scanned_in_pieces(call: _Reducing, inclusive: bool) -> Any:
    steps = call.steps
    call.post_chunks()
    pieces = [as_array(part) for part in steps.of_all(steps.step())]
    for rank, prefix in enumerate(call.prefixes(pieces, range(1, steps.n + inclusive)), 1 - inclusive):
        steps.post([rank], prefix)
    arrived = steps.step()
    return call.whole(arrived) if steps.me + inclusive else None
