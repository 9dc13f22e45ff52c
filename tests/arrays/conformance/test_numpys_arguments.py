"""What NumPy gives, for arguments that are seldom given: value, dtype and kind of error are NumPy's, whatever p."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import as_numpys

Call = Callable[..., Any]
ONE, TWO = np.uint8(1), np.int64(2)
INFINITE = [
    [np.inf, 1, 2], [np.nan, 1, 2], [np.inf, np.nan, 2], [np.inf, -np.inf, 1], [-np.inf, np.nan, 3], [np.nan] * 3,
    [1.0], [np.inf], [np.nan, 5], [],
]  # fmt: skip


def changed(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


NUMBERS_AS_NUMPYS: dict[str, Call] = {
    "split": lambda a, b, n: np.split(a, TWO),
    "array_split": lambda a, b, n: np.array_split(a, np.int32(4)),
    "hsplit": lambda a, b, n: np.hsplit(b, TWO),
    "vsplit": lambda a, b, n: np.vsplit(b, np.array(2)),
    "split list": lambda a, b, n: np.split(a, np.array([1, 3])),
    "split float": lambda a, b, n: np.split(a, 2.0),
    "array_split float": lambda a, b, n: np.array_split(a, 2.5),
    "split uneven": lambda a, b, n: np.split(a, np.int64(5)),
    "array_split 0": lambda a, b, n: np.array_split(a, np.int64(0)),
    "split bool": lambda a, b, n: np.split(a, True),
    "split axis": lambda a, b, n: np.split(b, TWO, axis=np.int64(1)),
    "split bad axis": lambda a, b, n: np.split(b, 2, axis=5),
    "roll": lambda a, b, n: np.roll(a, TWO),
    "roll ax": lambda a, b, n: np.roll(b, TWO, np.int64(1)),
    "roll float": lambda a, b, n: np.roll(a, 1.5),
    "repeat": lambda a, b, n: np.repeat(a, TWO),
    "repeat ONE": lambda a, b, n: np.repeat(a, ONE),
    "tile": lambda a, b, n: np.tile(a, TWO),
    "fftn as long as it is": lambda a, b, n: np.fft.fftn(b, (-1, 2), (0, 1)),
    "irfftn as long as it is": lambda a, b, n: np.fft.irfftn(b, (2, -1), (0, 1)),
    "tile float": lambda a, b, n: np.tile(a, 1.5),
    "tile arr": lambda a, b, n: np.tile(a, np.array([2, 1])),
    "reshape": lambda a, b, n: np.reshape(a, np.int64(6)),
    "reshape t": lambda a, b, n: a.reshape(TWO, np.int32(3)),
    "reshape -1": lambda a, b, n: a.reshape(np.int64(-1), TWO),
    "reshape arr": lambda a, b, n: np.reshape(a, np.array([2, 3])),
    "sum ax": lambda a, b, n: b.sum(axis=np.int64(0)),
    "sum ax tuple": lambda a, b, n: b.sum(axis=(np.int64(0), ONE)),
    "sum ax float": lambda a, b, n: b.sum(axis=1.0),
    "mean ax": lambda a, b, n: b.mean(axis=ONE),
    "var ax": lambda a, b, n: b.var(axis=TWO - 1, ddof=ONE),
    "cumsum ax": lambda a, b, n: b.cumsum(axis=ONE),
    "diff n": lambda a, b, n: np.diff(a, TWO),
    "diff ax": lambda a, b, n: np.diff(b, ONE, axis=np.int64(0)),
    "diff float": lambda a, b, n: np.diff(a, 1.0),
    "take": lambda a, b, n: np.take(a, TWO),
    "take ax": lambda a, b, n: np.take(b, ONE, axis=ONE),
    "moveaxis": lambda a, b, n: np.moveaxis(b, ONE, np.int64(0)),
    "transpose": lambda a, b, n: b.transpose(np.array([1, 0])),
    "transpose t": lambda a, b, n: np.transpose(b, (ONE, np.int64(0))),
    "transpose neg": lambda a, b, n: np.transpose(b, (-1, 0)),
    "swapaxes": lambda a, b, n: np.swapaxes(b, ONE, np.int64(0)),
    "expand": lambda a, b, n: np.expand_dims(a, ONE),
    "expand t": lambda a, b, n: np.expand_dims(a, (ONE, np.int64(2))),
    "squeeze": lambda a, b, n: np.squeeze(a[None], np.int64(0)),
    "flip": lambda a, b, n: np.flip(b, ONE),
    "flip t": lambda a, b, n: np.flip(b, (ONE, np.int64(0))),
    "rot90": lambda a, b, n: np.rot90(b, TWO),
    "rot90 ax": lambda a, b, n: np.rot90(b, ONE, (ONE, np.int64(0))),
    "concat ax": lambda a, b, n: np.concatenate([b, b], axis=ONE),
    "stack ax": lambda a, b, n: np.stack([a, a], axis=ONE),
    "concat None": lambda a, b, n: np.concatenate([a, b], axis=None),
    "pad": lambda a, b, n: np.pad(a, TWO),
    "pad t": lambda a, b, n: np.pad(a, (ONE, TWO)),
    "pad arr": lambda a, b, n: np.pad(b, np.array([[1, 2], [0, 1]])),
    "pad float": lambda a, b, n: np.pad(a, 1.5),
    "round": lambda a, b, n: np.round(a / 7, TWO),
    "sort ax": lambda a, b, n: np.sort(b, axis=np.int64(0)),
    "argsort": lambda a, b, n: np.argsort(b, axis=np.int64(0)),
    "partition": lambda a, b, n: np.partition(a, TWO)[2],
    "argpartition": lambda a, b, n: a[np.argpartition(a, TWO)[2]],
    "bincount min": lambda a, b, n: np.bincount(n, minlength=np.int64(9)),
    "bincount min f": lambda a, b, n: np.bincount(n, minlength=9.5),
    "bincount none": lambda a, b, n: np.bincount(n, minlength=None),
    "histogram": lambda a, b, n: np.histogram(a, TWO),
    "histogram u8": lambda a, b, n: np.histogram(a, np.uint8(3)),
    "histogram float": lambda a, b, n: np.histogram(a, 2.0),
    "histogram 0": lambda a, b, n: np.histogram(a, 0),
    "hist2d": lambda a, b, n: np.histogram2d(a, a, TWO),
    "histdd": lambda a, b, n: np.histogramdd(b, np.int64(2))[0],
    "vander": lambda a, b, n: np.vander(a, TWO),
    "insert": lambda a, b, n: np.insert(a, TWO, 5),
    "delete": lambda a, b, n: np.delete(a, ONE),
    "delete ax": lambda a, b, n: np.delete(b, ONE, axis=np.int64(0)),
    "append": lambda a, b, n: np.append(b, b, axis=ONE),
    "trace": lambda a, b, n: np.trace(b, ONE),
    "diag": lambda a, b, n: np.diag(a, TWO),
    "diagonal": lambda a, b, n: np.diagonal(b, ONE),
    "tril": lambda a, b, n: np.tril(b, -np.int64(1)),
    "triu float": lambda a, b, n: np.triu(b, 1.0),
    "tri": lambda a, b, n: np.eye(3)[ONE],
    "matrix_power": lambda a, b, n: np.linalg.matrix_power(b[:2, :2], np.int64(3)),
    "norm": lambda a, b, n: np.linalg.norm(a, np.int64(1)),
    "norm ax": lambda a, b, n: np.linalg.norm(b, axis=ONE),
    "norm 3": lambda a, b, n: np.linalg.norm(a, np.int64(3)),
    "norm f ord": lambda a, b, n: np.linalg.norm(b, np.int64(2)),
    "fft n": lambda a, b, n: np.fft.fft(a, np.int64(4)),
    "fft ax": lambda a, b, n: np.fft.fft(b, axis=np.int64(0)),
    "unwrap": lambda a, b, n: np.unwrap(b, axis=np.int64(0)),
    "gradient": lambda a, b, n: np.gradient(b, axis=np.int64(0)),
    "gradient h": lambda a, b, n: np.gradient(a, TWO),
    "gradient eo": lambda a, b, n: np.gradient(a, edge_order=np.int64(2)),
    "trapz": lambda a, b, n: np.trapezoid(b, axis=np.int64(0)),
    "cross": lambda a, b, n: np.cross(b[:, :3], b[:, :3] * 2, axis=np.int64(1)),
    "tensordot": lambda a, b, n: np.tensordot(b, b, np.int64(1)),
    "tensordot2": lambda a, b, n: np.tensordot(b, b, np.int64(2)),
    "tensordot ax": lambda a, b, n: np.tensordot(b, b, (np.int64(0), ONE - 1)),
    "percentile": lambda a, b, n: np.percentile(a, np.int64(50)),
    "percentile ax": lambda a, b, n: np.percentile(b, 50, axis=np.int64(0)),
    "median": lambda a, b, n: np.median(b, axis=ONE),
    "apply_along": lambda a, b, n: np.apply_along_axis(np.sum, np.int64(0), b),
    "apply_over": lambda a, b, n: np.apply_over_axes(np.sum, b, np.int64(0)),
    "rollaxis": lambda a, b, n: np.rollaxis(b, ONE),
    "polyder": lambda a, b, n: np.polyder(a, TWO),
    "polyint": lambda a, b, n: np.polyint(a, ONE),
    "polyfit": lambda a, b, n: np.polyfit(a, a * 2, np.int64(1)),
    "unravel": lambda a, b, n: np.unravel_index(n, (np.int64(3), 4)),
    "broadcast_to": lambda a, b, n: np.broadcast_to(a, (TWO, np.int64(6))),
    "broadcast_to int": lambda a, b, n: np.broadcast_to(a[:1], np.int64(4)),
    "resize": lambda a, b, n: np.resize(a, np.int64(8)),
    "index": lambda a, b, n: (a[TWO], b[ONE], b[TWO - 1, ONE], a[:TWO], a[np.int64(-1)]),
    "cov ddof": lambda a, b, n: np.cov(b, ddof=np.int64(0)),
    "argmax": lambda a, b, n: np.argmax(b, axis=ONE),
    "searchsorted": lambda a, b, n: np.searchsorted(a, TWO),
    "digitize": lambda a, b, n: np.digitize(a, np.array([2, 4])),
    "full_like": lambda a, b, n: np.full_like(a, TWO),
    "unstack": lambda a, b, n: np.unstack(b, axis=ONE),
    "sliding": lambda a, b, n: np.lib.stride_tricks.sliding_window_view(a, TWO),
    "item": lambda a, b, n: a.item(TWO),
    "packbits": lambda a, b, n: np.packbits(n > 2, axis=np.int64(0)),
    "packbits count": lambda a, b, n: np.unpackbits(np.packbits(n > 2), count=np.int64(3)),
    "average": lambda a, b, n: np.average(b, axis=ONE),
    "count_nonzero": lambda a, b, n: np.count_nonzero(b, axis=ONE),
    "all": lambda a, b, n: np.all(b, axis=ONE),
    "ptp": lambda a, b, n: np.ptp(b, axis=ONE),
    "clip": lambda a, b, n: np.clip(a, ONE, TWO),
    "ediff": lambda a, b, n: np.ediff1d(a, to_begin=TWO),
    "unique ax": lambda a, b, n: np.unique(b, axis=ONE),
    "take_along": lambda a, b, n: np.take_along_axis(b, np.argsort(b, axis=1), axis=ONE),
    "put_along": lambda a, b, n: np.lexsort((a,), axis=np.int64(0)),
    "lexsort": lambda a, b, n: np.lexsort((a, a)),
    "fftshift": lambda a, b, n: np.fft.fftshift(b, axes=ONE),
    "fftn": lambda a, b, n: np.fft.fftn(b, s=(np.int64(2),), axes=(ONE,)),
    "convolve": lambda a, b, n: np.convolve(a, [1, 2, 1]),
    "interp": lambda a, b, n: np.interp(TWO, a, a * 2),
    "nanquantile": lambda a, b, n: np.nanquantile(a, 0.5, axis=ONE - 1),
    "cumulative": lambda a, b, n: np.cumulative_sum(b, axis=ONE),
    "squeeze t": lambda a, b, n: np.squeeze(b[None, None], (ONE, np.int64(0))),
    "dsplit": lambda a, b, n: np.dsplit(b[:, :, None][..., [0, 0]], TWO),
    "partition ax": lambda a, b, n: np.sort(np.partition(b, ONE, axis=np.int64(0)), axis=0),
    "block": lambda a, b, n: np.block([b, b]),
    "delete arr": lambda a, b, n: np.delete(a, np.array(2)),
    "kron": lambda a, b, n: np.kron(a, TWO),
    "logspace": lambda a, b, n: np.var(a, ddof=np.float32(1)),
    "tri n": lambda a, b, n: np.triu_indices(np.int64(3)),
}


SELDOM: dict[str, Call] = {
    "bincount empty w": lambda i, f, u, t, d, e: np.bincount(e.astype(int), weights=e),
    "bincount empty": lambda i, f, u, t, d, e: np.bincount(e.astype(int)),
    "bincount empty w min": lambda i, f, u, t, d, e: np.bincount(e.astype(int), weights=e, minlength=3),
    "bincount cw": lambda i, f, u, t, d, e: np.bincount(i, weights=f * 1j),
    "bincount iw": lambda i, f, u, t, d, e: np.bincount(i, weights=i),
    "bincount u64": lambda i, f, u, t, d, e: np.bincount(u),
    "bincount u64 big": lambda i, f, u, t, d, e: np.bincount(u + np.uint64(2**63)),
    "bincount u8": lambda i, f, u, t, d, e: np.bincount(u.astype("u1")),
    "bincount f": lambda i, f, u, t, d, e: np.bincount(f),
    "bincount bool": lambda i, f, u, t, d, e: np.bincount(i > 2),
    "bincount e f": lambda i, f, u, t, d, e: np.bincount(e),
    "bincount t": lambda i, f, u, t, d, e: np.bincount(t),
    "bincount dw": lambda i, f, u, t, d, e: np.bincount(i, weights=t),
    "bincount bw": lambda i, f, u, t, d, e: np.bincount(i, weights=i > 1),
    "diff0 app": lambda i, f, u, t, d, e: np.diff(f, n=0, append=5),
    "diff0 pre": lambda i, f, u, t, d, e: np.diff(f, n=0, prepend=[1, 2.0]),
    "diff-1": lambda i, f, u, t, d, e: np.diff(f, n=-1, append=1),
    "diff 0d": lambda i, f, u, t, d, e: np.diff(f[0]),
    "diff big": lambda i, f, u, t, d, e: np.diff(f, n=9),
    "diff app": lambda i, f, u, t, d, e: np.diff(i, append=2.5),
    "diff0d n0": lambda i, f, u, t, d, e: np.diff(f[0], n=0),
    "diff app bad": lambda i, f, u, t, d, e: np.diff(f[None], append=[1, 2]),
    "std int": lambda i, f, u, t, d, e: np.std(i, dtype=int),
    "std intf": lambda i, f, u, t, d, e: np.std(f, dtype=int),
    "var int": lambda i, f, u, t, d, e: np.var(i, dtype=int),
    "var f4": lambda i, f, u, t, d, e: np.var(i, dtype="f4"),
    "mean int": lambda i, f, u, t, d, e: np.mean(i, dtype=int),
    "mean intf": lambda i, f, u, t, d, e: np.mean(f, dtype=int),
    "std c": lambda i, f, u, t, d, e: np.std(f, dtype=complex),
    "var bool": lambda i, f, u, t, d, e: np.var(f, dtype=bool),
    "mean bool": lambda i, f, u, t, d, e: np.mean(i, dtype=bool),
    "sum bool": lambda i, f, u, t, d, e: np.sum(i, dtype=bool),
    "nanmean int": lambda i, f, u, t, d, e: np.nanmean(i, dtype=int),
    "nanmean intf": lambda i, f, u, t, d, e: np.nanmean(f, dtype=int),
    "nanvar int": lambda i, f, u, t, d, e: np.nanvar(i, dtype=int),
    "nanvar intf": lambda i, f, u, t, d, e: np.nanvar(f, dtype=int),
    "nanstd int": lambda i, f, u, t, d, e: np.nanstd(f, dtype=int),
    "std int ax": lambda i, f, u, t, d, e: np.std(f[None], axis=0, dtype=np.int32),
    "mean where int": lambda i, f, u, t, d, e: np.mean(f, dtype=int, where=f > 1),
    "var where int": lambda i, f, u, t, d, e: np.var(f, dtype=int, where=f > 1),
    "std i8": lambda i, f, u, t, d, e: np.std(i, dtype=np.int8),
    "mean i8": lambda i, f, u, t, d, e: np.mean(i * 30, dtype=np.int8),
    "var f2": lambda i, f, u, t, d, e: np.var(i, dtype="f2"),
    "mean f2": lambda i, f, u, t, d, e: np.mean(i, dtype="f2"),
    "mean of f2": lambda i, f, u, t, d, e: np.mean(f.astype("f2")),
    "std of u1": lambda i, f, u, t, d, e: np.std(u.astype("u1"), dtype=np.uint8),
    "cumsum i8": lambda i, f, u, t, d, e: np.cumsum(f, dtype=np.int8),
    "sum int": lambda i, f, u, t, d, e: np.sum(f + 0.7, dtype=int),
    "prod int": lambda i, f, u, t, d, e: np.prod(f + 0.7, dtype=int),
    "trace int": lambda i, f, u, t, d, e: np.trace(f[None] + 0.7, dtype=int),
    "cov int": lambda i, f, u, t, d, e: np.cov(f, dtype=int),
    "td": lambda i, f, u, t, d, e: changed(t, ..., 1),
    "td 0": lambda i, f, u, t, d, e: changed(t, 0, 5),
    "td slice": lambda i, f, u, t, d, e: changed(t, slice(1, 3), 7),
    "td f": lambda i, f, u, t, d, e: changed(t, 0, 1.5),
    "td arr": lambda i, f, u, t, d, e: changed(t, ..., i),
    "td np": lambda i, f, u, t, d, e: changed(t, ..., np.int64(3)),
    "td farr": lambda i, f, u, t, d, e: changed(t, ..., f),
    "td bool": lambda i, f, u, t, d, e: changed(t, 0, True),
    "d int": lambda i, f, u, t, d, e: changed(d, 0, 1),
    "d f": lambda i, f, u, t, d, e: changed(d, 0, 1.5),
    "td mask": lambda i, f, u, t, d, e: changed(t, i > 1, 4),
    "td fancy": lambda i, f, u, t, d, e: changed(t, [0, 2], 4),
    "td td": lambda i, f, u, t, d, e: changed(t, 0, np.timedelta64(3, "s")),
    "td py": lambda i, f, u, t, d, e: changed(t, 0, datetime.timedelta(days=3)),
    "td nat": lambda i, f, u, t, d, e: changed(t, 0, np.timedelta64("NaT")),
    "d str": lambda i, f, u, t, d, e: changed(d, 0, "2020-01-01"),
    "d d": lambda i, f, u, t, d, e: changed(d, 0, np.datetime64("2020-01-01")),
    "d date": lambda i, f, u, t, d, e: changed(d, 0, datetime.date(2020, 1, 1)),
    "i f": lambda i, f, u, t, d, e: changed(i, 0, 1.7),
    "i big": lambda i, f, u, t, d, e: changed(i, 0, 2**70),
    "i c": lambda i, f, u, t, d, e: changed(i, 0, 1j),
    "f c": lambda i, f, u, t, d, e: changed(f, 0, 1j),
    "b f": lambda i, f, u, t, d, e: changed(i > 1, 0, 2.5),
    "i nan": lambda i, f, u, t, d, e: changed(i, 0, np.nan),
    "td fill": lambda i, f, u, t, d, e: (t.fill(3), t)[1],
    "d fill": lambda i, f, u, t, d, e: (d.fill(3), d)[1],
    "td full_like": lambda i, f, u, t, d, e: np.full_like(t, 3),
    "td where": lambda i, f, u, t, d, e: np.where(i > 1, t, np.timedelta64(0, "D")),
    "td zeros_like": lambda i, f, u, t, d, e: np.zeros_like(t),
    "td ones_like": lambda i, f, u, t, d, e: np.ones_like(t),
    "d copyto": lambda i, f, u, t, d, e: (np.copyto(t, 3), t)[1],
    "td place": lambda i, f, u, t, d, e: (np.place(t, i > 1, [3]), t)[1],
    "td putmask": lambda i, f, u, t, d, e: (np.putmask(t, i > 1, 3), t)[1],
    "td put": lambda i, f, u, t, d, e: (t.put([0], 3), t)[1],
    "td flat": lambda i, f, u, t, d, e: changed(t.flat, 0, 3) and t,
    "td insert": lambda i, f, u, t, d, e: np.insert(t, 1, 3),
    "td append": lambda i, f, u, t, d, e: np.append(t, t[:1]),
    "td pad": lambda i, f, u, t, d, e: np.pad(t, 1, constant_values=3),
    "td fill_diag": lambda i, f, u, t, d, e: (lambda m: (np.fill_diagonal(m, 3), m)[1])(t[:4].reshape(2, 2).copy()),
    "td clip": lambda i, f, u, t, d, e: np.clip(t, 0, 2),
    "td iadd": lambda i, f, u, t, d, e: t + 1,
    "td cmp": lambda i, f, u, t, d, e: t > 1,
    "td max init": lambda i, f, u, t, d, e: t.max(initial=1),
    "td sum init": lambda i, f, u, t, d, e: t.sum(initial=1),
    "td nan": lambda i, f, u, t, d, e: changed(t, 0, np.nan),
    "lstsq rank": lambda i, f, u, t, d, e: np.linalg.lstsq(np.stack([f, f * f], axis=1), f, rcond=None)[2],
    "rank": lambda i, f, u, t, d, e: np.linalg.matrix_rank(np.stack([f, f * f], axis=1)),
    "lstsq rank type": lambda i, f, u, t, d, e: (
        type(np.linalg.lstsq(np.stack([f, f * f], axis=1), f, rcond=None)[2]).__name__
    ),
    "lstsq rank zero": lambda i, f, u, t, d, e: np.linalg.lstsq(np.stack([f, f * f], axis=1)[:0], f[:0], rcond=None),
    "lstsq zero col": lambda i, f, u, t, d, e: np.linalg.lstsq(np.stack([f, f * f], axis=1)[:, :0], f, rcond=None),
    "rank vec": lambda i, f, u, t, d, e: np.linalg.matrix_rank(f),
}


@pytest.mark.parametrize("nprocs", [1, 3])
def test_integers_of_numpys_are_counts_axes_and_positions(nprocs: int) -> None:
    """Not always are floats: NumPy's refusals are ours."""
    arrays = [np.arange(6.0), np.arange(24.0).reshape(4, 6) % 7, np.array([1, 5, 2, 2])]
    as_numpys(NUMBERS_AS_NUMPYS, arrays, nprocs=nprocs, ways=["blocks"], tolerance=512)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_what_is_seldom_asked_for(nprocs: int) -> None:
    days = np.arange(6).astype("m8[D]")
    arrays = [
        np.arange(6), np.arange(6.0) * 1.25, np.arange(6).astype("u8"), days, np.datetime64("2026-01-01") + days,
        np.empty(0),
    ]  # fmt: skip
    as_numpys(SELDOM, arrays, nprocs=nprocs, ways=["ragged"], tolerance=512)


@pytest.mark.parametrize("values", INFINITE, ids=str)
def test_infinities_and_nan(values: list[float]) -> None:
    names = (
        "nansum nanprod nanmin nanmax nanmean nanvar nanstd nancumsum nancumprod nanargmin nanargmax nanmedian "
        "var std mean sum prod min max median ptp argmin argmax cumsum cumprod average cov gradient diff trapezoid "
        "nan_to_num histogram sort unique"
    )
    calls: dict[str, Call] = {name: getattr(np, name) for name in names.split()}
    calls |= {
        f"{name} of {q}": lambda x, name=name, q=q: getattr(np, name)(x, q)
        for name in ("nanpercentile", "nanquantile", "percentile", "quantile") for q in (0.25, 1)
    }  # fmt: skip
    calls |= {
        "freedom": lambda x: np.nanvar(x, ddof=1),
        "masked": lambda x: (np.nansum(x, where=x == x), np.nanvar(x, where=x != 1), np.var(x, where=x == x)),
        "a column": lambda x: [getattr(np, name)(x[:, None], axis=0) for name in ("nanvar", "nanstd", "var", "nanmax")],
        "complex": lambda x: (np.nanvar(x + 1j), np.nanmean(x + 1j), np.nansum(x + 1j)),
        "single": lambda x: (np.nanvar(x.astype("f4")), np.nanstd(x.astype("f4"))),
    }
    for nprocs in (1, 3):
        as_numpys(calls, [np.array(values, float)], nprocs=nprocs, ways=["blocks", "ragged"], tolerance=512)


REDUCTIONS = ["sum", "prod", "min", "max", "nansum", "nanprod", "nanmin", "nanmax", "all", "any"]
UFUNCS = [
    "add", "multiply", "maximum", "minimum", "fmax", "logical_and", "logical_xor", "bitwise_or", "gcd", "subtract",
    "hypot", "logaddexp",
]  # fmt: skip
STARTS: list[Any] = [
    1, 1.5, np.float32(1.5), 1j, True, np.int8(3), 300, -1, None, np.float64(2), [1.5], np.uint64(2**63)
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("values", [
    np.arange(6), np.arange(6, dtype="i1"), np.arange(6.0, dtype="f4"), np.arange(6) > 2, np.arange(0.0),
    np.arange(12.0).reshape(3, 4), np.arange(4).astype("m8[s]"),
], ids=lambda x: f"{x.dtype}{list(x.shape)}")  # fmt: skip
def test_a_value_to_start_from_is_of_the_results_dtype(values: np.ndarray) -> None:
    calls: dict[str, Call] = {}
    for start in STARTS:
        for name in REDUCTIONS:
            calls[f"{name} from {start!r}"] = lambda x, name=name, start=start: getattr(np, name)(x, initial=start)
            calls[f"{name} of some from {start!r}"] = lambda x, name=name, start=start: getattr(np, name)(
                x, axis=0, initial=start, where=x > x.dtype.type(1)
            )
        for name in UFUNCS:
            for dtype in (None,) if values.dtype.kind == "m" else (None, np.float32):
                calls[f"{name}.reduce from {start!r} in {dtype}"] = lambda x, name=name, start=start, dtype=dtype: (
                    getattr(np, name).reduce(x, initial=start, dtype=dtype)
                )
    for nprocs in (1, 3):
        as_numpys(calls, [values], nprocs=nprocs, ways=["ragged"], tolerance=64)


@pytest.mark.parametrize("rule", ["no", "equiv", "safe", "same_kind", "unsafe", "nonsense"])
def test_casting_is_kept_to(rule: str) -> None:
    calls: dict[str, Call] = {
        "to integers": lambda i, f: np.add(i, f, dtype=int, casting=rule),
        "to bytes": lambda i, f: np.add(i, i, dtype=np.int8, casting=rule),
        "mixed": lambda i, f: np.add(i, f, casting=rule),
        "one": lambda i, f: np.sqrt(i, casting=rule),
        "one in single": lambda i, f: np.sqrt(i, dtype=np.float32, casting=rule),
        "alike": lambda i, f: np.add(i, i, casting=rule),
        "narrow": lambda i, f: np.sin(f, dtype="f4", casting=rule),
        "remainder": lambda i, f: np.remainder(f, 2, dtype=int, casting=rule),
        "two results": lambda i, f: np.divmod(f, 2.0, dtype=int, casting=rule),
        "comparison": lambda i, f: np.less(i, f, casting=rule),
        "concatenate": lambda i, f: np.concatenate([i, f], dtype=int, casting=rule),
        "stack": lambda i, f: np.stack([i, f], dtype=int, casting=rule),
        "hstack": lambda i, f: np.hstack([i, f], dtype=int, casting=rule),
        "astype": lambda i, f: f.astype(int, casting=rule),
        "matmul": lambda i, f: np.matmul(i, f, dtype=int, casting=rule),
        "matmul as it is": lambda i, f: np.matmul(i, f, casting=rule),
        "can": lambda i, f: np.can_cast(i.dtype, f.dtype, rule),
        "into": lambda i, f: np.negative(f, out=i, casting=rule),
        "outer": lambda i, f: np.add.outer(i, f, dtype=int, casting=rule),
        "numbers": lambda i, f: np.add(i, 2.5, casting=rule),
        "numbers and single": lambda i, f: np.add(f.astype("f4"), 2.5, casting=rule),
        "complex": lambda i, f: np.add(f, 1, dtype=complex, casting=rule),
    }  # fmt: skip
    for nprocs in (1, 3):
        as_numpys(calls, [np.arange(6), np.arange(6.0)], nprocs=nprocs, ways=["blocks"])
