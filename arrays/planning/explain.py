"""Plans as text, for `explain()` and for the names of stages."""

from __future__ import annotations

from collections.abc import MutableMapping

from bsp.arrays.expressions.graph import LEAF, PARAM, Contract, ExpressionGraph, Reduce, ViewOperation
from bsp.arrays.kernels.elementwise import Elementwise
from bsp.arrays.planning.plan import Explanation, Plan, stage_flops
from bsp.cost.units import counted, in_bytes, in_seconds

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**", "less": "<", "greater": ">",
    "less_equal": "<=", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "floor_divide": "//",
    "remainder": "%", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
_LONGEST = 60
_DEEPEST = 20


def text_of(graph: ExpressionGraph, i: int, known: MutableMapping[int, str], deep: int = 0) -> str:
    """Return a node as an expression, cut to at most 60 characters.

    known : texts of nodes that are already named, by position; gains those that are made here.
    deep : the depth of the recursion; below a limit the text is "...".
    """
    node = graph.nodes[i]
    if deep > _DEEPEST:
        return "..."
    if node.op is PARAM:
        return "c"
    if node.op is LEAF:
        return known.get(i, "x")
    args = []
    for arg in node.args:
        k = graph.positions[arg]
        if k not in known:
            known[k] = text_of(graph, k, known, deep + 1)
        args.append(known[k])
    op = node.op
    if isinstance(op, Elementwise) and op.name in _SIGNS and len(args) == 2:
        text = f"({args[0]} {_SIGNS[op.name]} {args[1]})"
    elif isinstance(op, ViewOperation):
        text = args[0] + _view(op)
    elif isinstance(op, Contract):
        text = " @ ".join(args)
    elif isinstance(op, Reduce):
        whole = len(op.axes) == len(node.args[0].kind.shape)
        text = f"{op.how.name.partition('(')[0]}({args[0]}{'' if whole else f', axis={list(op.axes)}'})"
    else:
        text = f"{op.name.split('[')[0]}({', '.join(args)})"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _view(op: ViewOperation) -> str:
    labels = [each.label for each in op.access if each.label >= 0]
    plain = all(start == 0 and step == 1 for label, start, step in op.access if label >= 0)
    if plain and labels == sorted(labels, reverse=True) and len(labels) == 2 == len(op.access):
        return ".T"
    return "" if plain and labels == sorted(labels) else "[...]"


def table(plan: Plan) -> Explanation:
    """Return a plan as text, with one line for each stage and each exchange, then the totals."""
    lines = []
    for step in plan.supersteps:
        # stages after the last boundary run in the superstep that the program's next boundary ends
        head = f"superstep {step.number + 1}" if step.number < plan.boundaries else "afterwards "
        for stage in step.stages:
            flops = stage_flops(stage, plan.nprocs).max(initial=0)
            where = stage.tasks.processes
            what = f"{stage.out.name} = {stage.what}"
            lines.append(f"{head}  {stage.pattern:<20}  {what:<40}  on {where:<8}  {flops:.2g} flops")
        if step.fetches:
            what = ", ".join(dict.fromkeys(fetch.ref.value.name for fetch in step.fetches))
            moved = f"h = {counted(step.h, 'word')}, {counted(step.messages, 'piece')}"
            lines.append(f"{head}  {'total exchange':<20}  {what:<40}  {moved}")
        if not step.stages and not step.fetches:
            lines.append(f"{head}  agreement")
    lines.append(
        f"{counted(plan.boundaries, 'superstep')}, {counted(plan.words, 'word')}, {plan.flops:.3g} flops, "
        f"peak {in_bytes(plan.peak_bytes)}/process, {in_seconds(plan.seconds)} predicted"
    )
    return Explanation("\n".join(lines))
