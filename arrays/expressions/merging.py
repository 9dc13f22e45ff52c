"""Merged blocks: along an axis that is not dealt, a process stores its blocks side by side in one.

A grid may ask for many small blocks.  For each of them Python works as long as NumPy does for ten thousand elements.
So plans compute with merged layouts (`Layout.merged`), as if the grid had one block along such an axis.  What a
program asked for shows in its layout alone: blocks that are looked at one by one are views of the merged ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise, product
from typing import Any

from bsp.arrays.expressions.graph import Blocks, DType, Node
from bsp.arrays.expressions.layout import Layout, Shape


class CutBlocks(Mapping[Shape, Any]):
    """Blocks of a layout that are views of the blocks of its merged layout, made when they are first looked at."""

    def __init__(self, layout: Layout, merged: Mapping[Shape, Any]) -> None:
        self.layout = layout
        self.merged = merged

    @cached_property
    def _views(self) -> Blocks:
        return {
            at: block[where] for whole, block in self.merged.items() for at, where in _inside(self.layout, whole)
        }  # fmt: skip

    def __getitem__(self, at: Shape) -> Any:
        return self._views[at]

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __reduce__(self) -> Any:
        return CutBlocks, (self.layout, self.merged)


def cut(layout: Layout, merged: Mapping[Shape, Any]) -> Any:
    """Return the blocks of a layout, given those of its merged layout."""
    return merged if layout.merged is layout else CutBlocks(layout, merged)


def merged_blocks(node: Node, empty: Callable[[Shape, DType], Any]) -> Blocks:
    """Return a leaf's blocks as its merged layout has them.

    Blocks that lie apart are copied together, once: they become views of the copy.
    empty : returns new memory.
    """
    layout, blocks = node.layout, node.value
    assert layout is not None
    if layout.merged is layout:
        return blocks  # type: ignore[no-any-return]
    if not isinstance(blocks, CutBlocks):
        owned = {
            tuple(k if axis.parts > 1 else 0 for k, axis in zip(at, layout.merged.axes, strict=True)) for at in blocks
        }
        found = {}
        for whole in sorted(owned):
            found[whole] = empty(layout.merged.block_shape(whole), node.kind.dtype)
            for at, where in _inside(layout, whole):
                found[whole][where] = blocks[at]
        node.value = blocks = CutBlocks(layout, found)
    return blocks.merged  # type: ignore[return-value]


def _inside(layout: Layout, whole: Shape) -> Iterator[tuple[Shape, tuple[Any, ...]]]:
    """Yield the coordinates of the blocks inside a merged block, in C order, with their places in it."""
    ranges: list[Shape] = []
    places: list[tuple[slice, ...]] = []
    for axis, merged, k in zip(layout.axes, layout.merged.axes, whole, strict=True):
        if axis is merged or axis == merged:
            ranges.append((k,))
            places.append((slice(None),))
        else:
            bounds = axis.bounds.tolist()
            ranges.append(tuple(range(axis.parts)))
            places.append(tuple(slice(*each) for each in pairwise(bounds)))
    return zip(product(*ranges), product(*places), strict=True)
