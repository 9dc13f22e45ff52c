from collections.abc import Sequence
from typing import Any

from bsp.arrays.expressions.graph import ExpressionGraph, Node

def capture(roots: Sequence[Node], /) -> ExpressionGraph: ...
def small_blocks(stage: Any, values: list[Any], params: Sequence[Any], current: Any, /) -> Any: ...
def numbers_of_lines(
    text: Any,
    delimiter: int,
    decimal: int,
    places: Any,
    missing: tuple[bytes, ...],
    powers: bytes,
    out: Any,
    columns: int,
    /,
) -> tuple[int, int] | None: ...
def rows_times_rows(
    begins: Any,
    places: Any,
    values: Any,
    other_begins: Any,
    other_places: Any,
    other_values: Any,
    columns: int,
    out_begins: Any,
    /,
) -> tuple[bytearray, bytearray] | None: ...
def rows_times_vector(begins: Any, places: Any, values: Any, x: Any, out: Any, /) -> bool: ...
