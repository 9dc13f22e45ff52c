from typing import Any

def pack(
    outboxes: list[list[Any]], owner: list[int], elements: int, index: int, room: int, blocks: dict[int, list[Any]], /
) -> dict[int, bytes] | None: ...
def apply(
    packet: bytes | memoryview, tasks: list[Any], first: int, values: dict[int, Any], blocks: list[Any], /
) -> None: ...
def places(packet: bytes | memoryview, tasks: list[Any], first: int, /) -> list[tuple[int, int, Any]]: ...
def meeting(blocks: list[Any], ranges: list[tuple[int, int]], /) -> list[int]: ...
def copy(to: Any, source: Any, /) -> None: ...
def fill(
    slots: bytearray,
    slot: int,
    clock: float,
    superstep: int,
    digest: bytes,
    hint: int,
    packets: dict[int, bytes],
    block_bytes: int,
    /,
) -> int: ...
def read(
    slots: bytearray, slot: int, index: int, superstep: int, digest: bytes, /
) -> tuple[dict[int, bytes], int, int, bool] | None: ...
