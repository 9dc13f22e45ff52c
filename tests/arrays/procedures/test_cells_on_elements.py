"""What is on the page of what there is also runs between elements, where blocks of over 32 KiB travel by themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.transport.packet import Packet
from tools import arrays_coverage as coverage

NPROCS, ELEMENTS = 3, 2
BULK = 32 << 10  # bytes: more do not travel in the control packet


# sections, and how many of their cells send a block over 32 KiB between elements, whatever the dtype; the others end in
# numbers, in text, or in less than 96 KiB on purpose: sums along an axis, a row, positions of a few or of a
# partition, packed bits
MOVED = {
    "numpy": 262, "numpy.linalg": 20, "numpy.fft": 18, "numpy.random.Generator": 42,
    "samplers of dealt parameters": 32, "methods and attributes": 33, "operators and conversions": 30,
    "as users write it": 38, "indexing": 15, "ufunc.reduce": 14, "ufunc.accumulate": 30, "ufunc.reduceat": 13,
    "ufunc.outer": 38, "ufunc.at": 80, "array API standard 2024.12": 142,
}  # fmt: skip


def _nbytes(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return max(map(_nbytes, value), default=0)
    return getattr(value, "nbytes", 0)


def _sizes() -> list[int]:
    """The sizes of what this element packs from now on: one list for all of its processes."""
    made: Any = Packet._data
    if hasattr(made, "sizes"):
        return made.sizes  # type: ignore[no-any-return]
    sizes: list[int] = []

    def seen(packet: Packet, values: np.ndarray) -> Any:
        sizes.append(values.nbytes)
        return made(packet, values)

    seen.sizes = sizes  # type: ignore[attr-defined]
    Packet._data = seen  # type: ignore[method-assign]
    return sizes


def _cells(proc: bsp.Process) -> tuple[list[str], dict[tuple[str, str], tuple[int, int]]]:
    """What is wrong, and for each cell the bytes of its largest block that travelled, and of its result."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    blocks = _sizes()

    def watch(case: coverage.Case, attempt: coverage.Attempt) -> None:
        cell = (case.section, f"{case.name}: {case.text}")
        most, size = found.get(cell, (0, 0))
        found[cell] = max(most, *blocks, 0), max(size, _nbytes(attempt.value) if attempt.arrays else 0)
        proc.sync()
        blocks.clear()

    wrong = coverage.told_apart(proc, coverage.cases(), watch)
    every = proc.allgather(found)
    return wrong, {cell: (max(each[cell][0] for each in every), found[cell][1]) for cell in found}


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.long
def test_every_cell_of_the_page_is_right_on_two_elements() -> None:
    (wrong, cells), *others = bsp.run(_cells, nprocs=NPROCS, elements=ELEMENTS)
    assert wrong == []
    assert others == [(wrong, cells)] * (NPROCS - 1)
    moved = Counter(section for (section, _), (most, _) in cells.items() if most >= BULK)
    assert {section: moved[section] for section, least in MOVED.items() if moved[section] < least} == {}
    assert [cell for cell, (most, size) in cells.items() if size >= NPROCS * BULK and most < BULK] == []


def _strided(A: Any, v: Any, xp: Any) -> list[Any]:
    """Parts whose blocks lie with gaps, backwards or in another order in memory."""
    return [
        A[:, 0], v[::2], A.T[0], np.flip(A), np.flip(A, 0), np.flip(A, 1), np.concatenate([v[::-1], v]), A[::-1, ::-2],
        xp.asarray(A[:, 0]), np.fft.fft(A[:, 0]), np.fft.fft(A, axis=0)[:, 1], np.diag(A[:120] @ A[:120].T),
        np.diagonal(np.reshape(v[:57_600], (240, 240))), A.T, A.T[::2], A[:, 1:3], A[5::7, 2], v[::-3],
        np.roll(A, 1, 0), np.roll(A[:, 2], -5), np.stack([A[:, 0], A[:, 1]], 0), np.stack([A[:, 0], v[:20_000]], -1),
        A[:, 0] * A[::-1, 5],
        np.take(A, [4, 1], 1), np.repeat(A[:, 3], 2), np.tile(A[:, 3], 2), np.sort(A[:, 0]), np.cumsum(A[::2, 1]),
        np.where(A[:, 0] > 0)[0], A[A[:, 0] > 0], np.broadcast_to(A[:, :1], A.shape), A.real[:, 0], (A + 1j)[:, 0].imag,
        np.reshape(A, (6, 20_000)), np.reshape(A.T, (40_000, 3)), A.swapaxes(0, 1)[3], np.tril(A, 1)[:, 0],
        np.tensordot(A[:, 0], A, 1), A[:, 0] @ A, np.split(A, 2, 1)[0], np.einsum("ij->ji", A)[2], A.astype("f4")[:, 0],
    ]  # fmt: skip


def _parts(proc: bsp.Process, way: Any) -> list[Any]:
    A, v = _operands()
    a, x = ba.asarray(A, grid=way and (way, 1)), ba.asarray(v, grid=way and (way,))
    return [each.compute() if isinstance(each, ba.Array) else each for each in _strided(a, x, np)]


def _operands() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(120_000.0).reshape(20_000, 6) % 977, np.arange(60_000.0) % 991


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.parametrize("way", [None, 5])
def test_blocks_with_gaps_travel_between_elements(way: Any) -> None:
    A, v = _operands()
    assert A[: 20_000 // NPROCS - 1, 0].nbytes > BULK
    assert not A[:, 0].flags.c_contiguous
    want = _strided(A, v, np)
    for found in bsp.run(_parts, way, nprocs=NPROCS, elements=ELEMENTS):
        for k, (one, other) in enumerate(zip(found, want, strict=True)):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), k
            atol = 1e-9 * float(np.abs(other).max(initial=0)) if other.dtype.kind in "fc" else 0
            np.testing.assert_allclose(one, other, rtol=0, atol=atol, err_msg=str(k))
