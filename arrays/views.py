"""Views: the links between arrays that share elements, as in NumPy.  A write through one is visible in the others.

An array holds a node, and nodes never change: a write gives the array another node.  An array of which a view was
taken, and the view, have a `TreeLink` each.  The links of a family form a tree: the link of a view has the link of its
base, and the operation that shows a part of the base (a View, a Reshape, real or imaginary parts).  A write through a
view replaces nodes as follows.

1. The view, and every array between it and the top of the tree, get a node that includes the written elements.  Slices
   of slices compose, so that each of these nodes is planned as one assignment.
2. Every other living array of the family that shows some of these elements gets its operation on the new node of its
   base.

The node of an array therefore always describes its values: arithmetic needs no link, and a write computes nothing
early.  An assignment of values that every process has to a computed array is carried out at once (`assign`, and see
`writing`): the new nodes are leaves over the same blocks, and views of those.  Which nodes they are does not depend on
the links above the array, and views that share no element with the write keep theirs.

Once the blocks of a base are computed, its views are read from them (`settle`), and the expressions that the views were
made from are released.

Memory: a view keeps its base in memory, as in NumPy.  There is one exception.  Where no name refers to the base any
more and no two of its living views overlap, no write through one view is visible in another.  Each view then becomes
an array of its own, and the blocks of the base are released.  Python's reference counts determine when.  Where a cycle
delays them, processes may release at different times.  That changes no plan: views that do not overlap never give each
other a node, and the node that a write gives an array does not depend on the links above it.
"""

from __future__ import annotations

import weakref
from itertools import combinations
from math import gcd
from typing import TYPE_CHECKING, Any, TypeAlias

from bsp.arrays import build
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF, Access, Node, Operation, Reshape, ViewOperation
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.writing import below, note, over, overwritten, renewed, source, write

if TYPE_CHECKING:
    from bsp.arrays.array import Array

COMPARED = 32  # views of an array without a name at most that `release` compares, pair by pair

_new = object.__new__

# the links of arrays that are written to, up to the top: of each what is written (None: all), and the shape of that
Path: TypeAlias = "list[tuple[TreeLink, tuple[Access, ...] | None, Shape]]"


class TreeLink:
    """The position of one array in a tree of arrays that share elements."""

    __slots__ = ("__weakref__", "base", "children", "node", "op", "owner", "strides", "writeable")

    def __init__(self, node: Node, base: TreeLink | None = None, op: Operation | None = None, writeable: bool = True):
        self.node = node  # the node of the owner
        self.base = base  # None: the top of the tree
        self.op = op  # gives the node from that of the base
        self.writeable = writeable
        self.owner: _Owner | None = None  # None: the array was released, or this is an inner step of a view
        self.children: dict[_Child, None] = {}
        self.strides: Shape | None = None  # of a top that was a view: its strides in bytes; None: C order
        if base is not None:
            child = _Child(self, _gone)
            child.parent = base
            base.children[child] = None

    # ------------------------------------------------------------------------------------ writing

    def check_writeable(self) -> None:
        """Raise ValueError if the elements may not be written to."""
        if not self.writeable:
            raise ValueError(
                "assignment destination is read-only: diagonals and repeated elements are not written to; .copy() is "
                "an array of its own; x[i, i] = values, with i = np.arange(n), sets a diagonal"
            )

    def write(self, value: Node, access: tuple[Access, ...] | None = None) -> None:
        """Write a node, of their shape and dtype, into the elements that `access` shows; None: all elements."""
        self.check_writeable()
        if not value.kind.size:
            return
        self._refresh_around(self._laid_up(value, access))

    def assign(self, values: Any, access: tuple[Access, ...], shape: Shape) -> None:
        """Assign values that every process has: at once in the blocks of a computed array, else when it is computed.

        Each array up to the first that shows its base through a reshape, or as parts of numbers, gets a new leaf or a
        view of that of its base, or is overwritten if it is not computed; beyond, nodes are made as in `write`.
        """
        self.check_writeable()
        if 0 in shape:
            return
        top = self
        regions = [(top, access)]
        while top.base is not None and isinstance(top.op, ViewOperation):
            access, top = build.composed(top.op.access, access), top.base
            regions.append((top, access))
        fresh: list[tuple[Node, tuple[Access, ...]]] = []
        for link, region in reversed(regions):
            link._assign_own(values, region, shape, fresh)
        path: Path = [(link, region, shape) for link, region in regions]
        if top.base is not None:
            path += top.base._laid_up(_undone(top, top.base.node), None)
        self._refresh_around(path)
        for leaf, region in fresh:
            write(world(), leaf, region, shape, values)

    def _assign_own(
        self, values: Any, access: tuple[Access, ...], shape: Shape, fresh: list[tuple[Node, tuple[Access, ...]]]
    ) -> None:
        """Give this array a node for an assignment; its base, if it is one of the arrays assigned to, has its own.

        fresh : gains the new leaf into which the values have to be written, with the access to it.
        """
        leaf = source(self.node)
        if leaf is None:
            self.show(overwritten(self.node, access, shape, values))
            return
        if self.base is not None and isinstance(self.op, ViewOperation):
            found = self.derived(self.base.node)
            if any(source(found) is new for new, _ in fresh) and _alike(found, self.node):
                self.show(found)
                return
        new = renewed(leaf, merged=True)
        fresh.append((new, below(self.node, access)))
        self.show(over(self.node, new))

    def _laid_up(self, value: Node, access: tuple[Access, ...] | None) -> Path:
        """Give this array, and each above it, a node with the values in the elements of an access; return all these."""
        whole = access is None
        link, new = self, value
        path: Path = []
        while True:
            link.show(_laid(link.node, access, new, whole))
            path.append((link, access, new.kind.shape))
            if link.base is None:
                break
            if isinstance(link.op, ViewOperation):
                access = link.op.access if access is None else build.composed(link.op.access, access)
            else:
                new, access = _undone(link, link.base.node), None
            link = link.base
        return path

    def _refresh_around(self, path: Path) -> None:
        """Give new nodes to the views that show elements which were written on a path, and are not on it."""
        passed = [link for link, *_ in path]
        for link, region, shape in path:
            link.refresh([
                child for child in link.living()
                if child not in passed and not (region is not None and child.apart(region, shape))
            ])  # fmt: skip

    def show(self, node: Node) -> None:
        """Set the node of the link and of its array."""
        self.node = node
        array = None if self.owner is None else self.owner()
        if array is not None:
            array._node = node

    def derived(self, node: Node) -> Node:
        """Return the node of this view for a node of its base."""
        if isinstance(self.op, Reshape):
            return _back(node, self.op.shape)
        if isinstance(self.op, ViewOperation):
            return build.viewed(node, self.node.kind.shape, self.op.access)
        assert self.op is not None
        return Node(self.op, (node,), self.node.kind)

    def refresh(self, children: list[TreeLink]) -> None:
        """Give new nodes to some views of this array, and to all views of those."""
        waiting = [(self, child) for child in children]
        for base, child in waiting:
            child.show(child.derived(base.node))
            waiting += [(child, each) for each in child.living()]

    def settle(self) -> None:
        """Make the views of this array read its computed blocks, so that the expressions they used are released."""
        waiting = [(self, child) for child in self.living()]
        for base, child in waiting:
            if child.node.op is not LEAF and base.node not in child.node.args:
                child.show(child.derived(base.node))
            waiting += [(child, each) for each in child.living()]

    # -------------------------------------------------------------------------------------- family

    def living(self) -> list[TreeLink]:
        """Return the links of the views of this array that still exist."""
        return [child for each in list(self.children) if (child := each()) is not None]

    def apart(self, access: tuple[Access, ...], shape: Shape) -> bool:
        """Return whether this view certainly shares no element with an access, of shape `shape`, of the same base."""
        return isinstance(self.op, ViewOperation) and _apart(self.op.access, self.node.kind.shape, access, shape)

    def release(self) -> None:
        """Make each view a top of its own if this is a top without an array and no two views overlap; then repeat."""
        tops = [self]
        for top in tops:
            if top.base is not None or top.owner is not None:
                continue
            views = top.living()
            if len(views) > COMPARED or not all(_alien(a, b) for a, b in combinations(views, 2)):
                continue
            for view in views:
                view.strides = view.steps()
            for view in views:
                view.base = None
            top.children.clear()
            tops += views

    def steps(self) -> Shape:
        """Return the strides that NumPy's view would have, in bytes; a top is in C order unless it was a view."""
        chain = [self]
        while chain[-1].base is not None:
            chain.append(chain[-1].base)
        top = chain.pop()
        kind = top.node.kind
        found = top.strides if top.strides is not None else _c_steps(kind.shape, kind.dtype.itemsize)
        shape = kind.shape
        for link in reversed(chain):
            if isinstance(link.op, ViewOperation):
                own = [0] * len(link.node.kind.shape)
                for step, each in zip(found, link.op.access, strict=True):
                    if each.label >= 0:
                        own[each.label] += step * each.step
                found = tuple(own)
            elif isinstance(link.op, Reshape):
                kept = _reshaped_steps(shape, found, link.op.shape)
                assert kept is not None
                found = kept
            shape = link.node.kind.shape
        return found


class _Owner(weakref.ref["Array"]):
    """A weak reference of a link to its array; when the array is released, `_unnamed` updates the link."""

    __slots__ = ("link",)
    link: TreeLink | None


class _Child(weakref.ref[TreeLink]):
    """A weak reference of a base to the link of a view; when that is released, `_gone` updates the base."""

    __slots__ = ("parent",)
    parent: TreeLink | None


def _unnamed(owner: _Owner) -> None:
    link, owner.link = owner.link, None  # leaves no reference cycle
    if link is not None:
        link.owner = None
        if link.base is None:
            link.release()


def _gone(child: _Child) -> None:
    parent, child.parent = child.parent, None
    if parent is not None:
        parent.children.pop(child, None)
        if parent.base is None and parent.owner is None:
            parent.release()


# -------------------------------------------------------------------------------------- of arrays


def link_of(array: Array) -> TreeLink | None:
    """Return the link of an array; None if it shares no elements."""
    return getattr(array, "_link", None)


def own(array: Array) -> TreeLink:
    """Return the link of an array; make one if there is none."""
    link = link_of(array)
    if link is None:
        link = array._link = TreeLink(array._node)
        _named(link, array)
    return link


def _named(link: TreeLink, array: Array) -> None:
    link.owner = _Owner(array, _unnamed)
    link.owner.link = link


def view(base: Array, node: Node, writeable: bool = True) -> Array:
    """Return an array of `node` that shares the elements of `base`.

    node : the node of the base, after any number of views, reshapes and real or imaginary parts.
    """
    array = _new(type(base))
    array._node = node
    link, top = link_of(base), base._node
    if link is None and not top.kind.shape:  # a number: views of it share nothing, as in NumPy
        if writeable:
            return array
        link = TreeLink(node, writeable=False)
    elif link is not None and node is not top and node.args[0] is top:
        link = TreeLink(node, link, node.op, writeable and link.writeable)
    else:
        link = own(base)
        writeable &= link.writeable
        steps = []
        while node is not base._node:
            steps.append(node)
            node = node.args[0]
        for step in reversed(steps):
            link = TreeLink(step, link, step.op, writeable)
        if not steps:
            link = TreeLink(node, link, build.identity(len(node.kind.shape)), writeable)
    array._link = link
    _named(link, array)
    return array


def store(array: Array, value: Node, access: tuple[Access, ...] | None = None) -> None:
    """Replace the elements that an access shows of an array by a value of their shape and dtype; None: all elements.

    The write is visible in every array that shares the elements.  There is no other way to change an array's values.
    """
    link = link_of(array)
    if link is not None:
        link.write(value, access)
    else:
        array._node = value if access is None else build.written(array._node, access, value)


def assign(array: Array, values: Any, access: tuple[Access, ...], shape: Shape) -> None:
    """Assign values that every process has: at once in the blocks of a computed array, else when it is computed.

    values : an array of the array's dtype that broadcasts to `shape`, the shape of the accessed part.
    The write is visible in every array that shares the elements.  Local, see `writing`.
    """
    link, node, here = link_of(array), array._node, world()
    if source(node) is not None:
        note(here, access, shape, values)
    if link is not None:
        del node  # what refers to the blocks no more lets them be written to in place
        link.assign(values, access, shape)
    elif node.op is LEAF:
        node = array._node = renewed(node, merged=True)
        write(here, node, access, shape, values)
    else:
        array._node = overwritten(node, access, shape, values)


def replace(array: Array, value: Node) -> None:
    """Give an array a node of another shape; ValueError if it shares elements with other arrays."""
    link = link_of(array)
    if link is not None:
        if link.base is not None or link.living():
            raise ValueError("cannot resize an array that references or is referenced by another array")
        del array._link
    array._node = value


def settled(array: Array) -> None:
    """Make the views of an array read its blocks, which have been computed."""
    link = link_of(array)
    if link is not None:
        link.settle()


def shows(view: Array, array: Array, access: tuple[Access, ...]) -> bool:
    """Return whether `view` is the view of `array` that an access gives.

    `x[2:5] += 1` first writes through the view and then assigns it to x[2:5], which has nothing left to do.
    """
    link, top = link_of(view), link_of(array)
    if top is None or not top.writeable:
        return False
    found: tuple[Access, ...] | None = None
    while link is not None and link is not top:
        if not isinstance(link.op, ViewOperation):
            return False
        found = link.op.access if found is None else build.composed(link.op.access, found)
        link = link.base
    return link is not None and found == access


def overlap(a: Array, b: Array) -> bool:
    """Return whether a write through one array may be visible in the other: exact for slices, else true in a family."""
    if not a.size or not b.size:
        return False
    first, second = link_of(a), link_of(b)
    if first is None or second is None or a is b:
        return a is b
    regions = []
    for link in (first, second):
        region: tuple[Access, ...] | None = None
        shape, sliced = link.node.kind.shape, True
        while link.base is not None:
            sliced &= isinstance(link.op, ViewOperation)
            if isinstance(link.op, ViewOperation):
                region = link.op.access if region is None else build.composed(link.op.access, region)
            link = link.base
        regions.append((link, region, shape, sliced))
    (top, x, x_shape, x_sliced), (other, y, y_shape, y_sliced) = regions
    if top is not other:
        return False
    if not (x_sliced and y_sliced) or x is None or y is None:
        return True
    return not _apart(x, x_shape, y, y_shape)


def keeps_order(array: Array, shape: Shape | None = None) -> bool:
    """Return whether NumPy would reshape an array without a copy; shape None: whether its elements are in C order."""
    link = link_of(array)
    if link is None or array.size <= 1:
        return True
    steps = link.steps()
    if shape is not None:
        return _reshaped_steps(array.shape, steps, shape) is not None
    return _runs(array.shape, steps) == [(array.size, array.itemsize)]


# ---------------------------------------------------------------------------------------- regions


def _alike(a: Node, b: Node) -> bool:
    """Return whether two nodes with a `source` are the same views of leaves of one layout."""
    while a.op is b.op and a.kind is b.kind:
        if a.op is LEAF:
            return a.layout is b.layout
        (a,), (b,) = a.args, b.args
    return False


def _laid(node: Node, access: tuple[Access, ...] | None, value: Node, whole: bool) -> Node:
    """Return a node with the elements that an access shows replaced by a value.

    whole : an access that shows all elements gives the value alone, without the node.
    """
    if access is None:
        return value
    if whole and all(
        each.label >= 0 and value.kind.shape[each.label] == length
        for each, length in zip(access, node.kind.shape, strict=True)
    ):
        return build.placed(access, value)[0]
    return build.written(node, access, value)


def _undone(link: TreeLink, base: Node) -> Node:
    """Return the base's node after a write to a view that is a reshape, real or imaginary parts, or another dtype."""
    value = link.node
    if isinstance(link.op, Reshape):
        return _back(value, base.kind.shape)
    if link.op is not ew.REAL and link.op is not ew.IMAG:
        return build.apply(ew.bits_as(base.kind.dtype), value)
    real, imaginary = (value, build.apply(ew.IMAG, base)) if link.op is ew.REAL else (build.apply(ew.REAL, base), value)
    return build.apply(ew.COMPLEX, real, imaginary)


def _back(node: Node, shape: Shape) -> Node:
    """Return a node reshaped; if it is a reshape of a node of this shape, that node."""
    if isinstance(node.op, Reshape) and node.args[0].kind.shape == shape:
        return node.args[0]
    return build.reshaped(node, shape)


def _span(access: Access, shape: Shape) -> range:
    """Return the positions of an axis that an access shows."""
    if access.label < 0:
        return range(access.start, access.start + 1)
    return range(access.start, access.start + access.step * shape[access.label], access.step)


def _apart(a: tuple[Access, ...], a_shape: Shape, b: tuple[Access, ...], b_shape: Shape) -> bool:
    """Return whether two accesses of one array certainly share no element: along some axis they share no position."""
    if 0 in a_shape or 0 in b_shape:
        return True
    return any(_parted(_span(x, a_shape), _span(y, b_shape)) for x, y in zip(a, b, strict=True))


def _parted(a: range, b: range) -> bool:
    if max(a[0], a[-1]) < min(b[0], b[-1]) or max(b[0], b[-1]) < min(a[0], a[-1]):
        return True
    if len(a) == 1 or len(b) == 1:
        return a[0] not in b if len(a) == 1 else b[0] not in a
    return (a.start - b.start) % gcd(a.step, b.step) != 0


def _alien(a: TreeLink, b: TreeLink) -> bool:
    """Return whether two views of one array certainly share no element."""
    if isinstance(a.op, ViewOperation) and isinstance(b.op, ViewOperation):
        return _apart(a.op.access, a.node.kind.shape, b.op.access, b.node.kind.shape)
    return {a.op, b.op} == {ew.REAL, ew.IMAG}


# ---------------------------------------------------------------------------------------- strides


def _c_steps(shape: Shape, itemsize: int) -> Shape:
    steps = [itemsize]
    for length in shape[:0:-1]:
        steps.append(steps[-1] * length)
    return tuple(reversed(steps[: len(shape)]))


def _runs(shape: Shape, steps: Shape) -> list[tuple[int, int]]:
    """Return runs of axes whose elements are evenly spaced, from first to last: (elements, bytes between them)."""
    runs: list[tuple[int, int]] = []
    for length, step in zip(shape, steps, strict=True):
        if length == 1:
            continue
        if runs and runs[-1][1] == length * step:
            runs[-1] = runs[-1][0] * length, step
        else:
            runs.append((length, step))
    return runs


def _reshaped_steps(shape: Shape, steps: Shape, wanted: Shape) -> Shape | None:
    """Return the strides of the same elements under another shape; None if only a copy can have that shape.

    The new axes must divide each run of axes exactly.
    """
    if 0 in shape:
        return _c_steps(wanted, 1)
    runs = _runs(shape, steps)
    found = []
    left, step = runs.pop() if runs else (1, 1)
    for length in reversed(wanted):
        if length > 1 and left == 1:
            left, step = runs.pop()
        if left % length:
            return None
        found.append(step)
        left //= length
        step *= length
    return tuple(reversed(found))
