"""Few long lines are transformed by all processes, in three exchanges, to NumPy's values, whatever their length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import GatherRefused
from bsp.arrays.fft import long_lines

NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
OF_REAL = ("rfft", "ihfft")


def line(n: int, dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n) * 100
    return (values + 1j * rng.normal(size=n) if np.dtype(dtype).kind == "c" else values).astype(dtype)


def close(found: np.ndarray, known: np.ndarray, n: int) -> None:
    """Rounding of a transform grows with the logarithm of its length, and is relative to its norm."""
    assert (found.dtype, found.shape) == (known.dtype, known.shape)
    spread = np.sqrt(np.mean(np.abs(known) ** 2))
    limit = 4 * np.log2(max(n, 2)) * np.finfo(known.dtype).eps * spread
    np.testing.assert_allclose(found, known, rtol=0, atol=limit)


@pytest.mark.crossed
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [1 << 16, 3 * 5 * 7 * 1024, 65_537, 131_074])
@pytest.mark.parametrize("dtype", [float, complex, np.float32, np.complex64, np.int64])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("nprocs", [2, 3, 16])
def test_long_lines(name: str, n: int, dtype: Any, norm: Any, nprocs: int) -> None:
    if name in OF_REAL and np.dtype(dtype).kind == "c":
        dtype = np.float64
    x = line(n, dtype)
    known = getattr(np.fft, name)(x, norm=norm)

    def main(proc: bsp.Process) -> Any:
        found = getattr(ba.fft, name)(ba.array(x, grid=(proc.nprocs,)), norm=norm)
        assert isinstance(found, ba.Array)
        return found.compute()

    close(bsp.run(main, nprocs=nprocs)[0], known, n)


@examples(120)
@given(st.sampled_from(NAMES), st.integers(16, 400), st.integers(-9, 9), st.integers(2, 4), st.integers(1, 5))
def test_any_length_cut_or_filled(name: str, length: int, more: int, nprocs: int, blocks: int) -> None:
    x = line(length, float if name in OF_REAL else complex)
    known = getattr(np.fft, name)(x, length + more)

    def main(proc: bsp.Process) -> Any:
        return getattr(ba.fft, name)(ba.array(x, grid=(blocks,)), length + more).compute()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lines, "LEAST", 8)
        close(bsp.run(main, nprocs=nprocs)[0], known, length)


@pytest.mark.crossed
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(2, 1 << 16), (65_537, 3), (2, 1 << 16, 2)])
@pytest.mark.parametrize("nprocs", [4, 9, 10])
def test_few_lines_along_any_axis(name: str, shape: tuple[int, ...], nprocs: int) -> None:
    axis = int(np.argmax(shape))
    x = line(int(np.prod(shape)), float if name in OF_REAL else complex).reshape(shape)
    known = getattr(np.fft, name)(x, axis=axis)

    def main(proc: bsp.Process) -> Any:
        return getattr(ba.fft, name)(ba.array(x), axis=axis).compute()

    close(bsp.run(main, nprocs=nprocs)[0], known, max(shape))


@pytest.mark.parametrize("nprocs", [2, 4, 8])
def test_three_exchanges_of_what_the_processes_have(nprocs: int) -> None:
    n = 1 << 18

    def main(proc: bsp.Process) -> Any:
        x = ba.array(line(n, complex), grid=(proc.nprocs,)).persist()
        return ba.explain(ba.fft.fft(x)).splitlines()[-1]

    share = 2 * n // nprocs * (nprocs - 1) // nprocs  # of complex numbers, two words each, what goes to others
    assert bsp.run(main, nprocs=nprocs)[0].startswith(f"3 supersteps, {3 * share} words")


@pytest.mark.parametrize("shape", [(1, 1 << 16), (1 << 16, 1), (1, 1 << 16, 1)])
def test_axes_of_length_one_beside_the_line(shape: tuple[int, ...]) -> None:
    x = line(1 << 16, complex).reshape(shape)
    axis = int(np.argmax(shape))

    def main(proc: bsp.Process) -> Any:
        return ba.fft.fft(ba.array(x).persist(), axis=axis).compute(), ba.fft.ifftn(ba.array(x).persist()).compute()

    one, all_axes = bsp.run(main, nprocs=3)[0]
    close(one, np.fft.fft(x, axis=axis), x.size)
    close(all_axes, np.fft.ifftn(x), x.size)


def test_what_is_not_dealt_is_refused_where_it_is_too_long() -> None:
    """Lines of more than double precision, and of fewer elements than pairs of processes."""

    def main(proc: bsp.Process) -> str:
        double = ba.fft.fft(ba.zeros(1 << 23, grid=(2,)))
        assert ba.explain(double).splitlines()[-1].startswith("3 supersteps")
        with pytest.raises(GatherRefused) as refused:
            ba.fft.fft(ba.zeros(1 << 23, np.longdouble, grid=(2,)))
        return str(refused.value)

    assert bsp.run(main, nprocs=2)[0].startswith("fft of one line of 8388608 elements would bring it to each of 2")
