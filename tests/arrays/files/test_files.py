"""Files: what NumPy writes we read and the other way round, on any number of processes; one clear error for all."""

from __future__ import annotations

import builtins
import bz2
import errno
import gzip
import io
import lzma
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.algorithms.glm import read_table
from bsp.arrays import sparse
from bsp.arrays.compiled import COMPILED
from bsp.arrays.errors import FileError, FormatError, LayoutError, NoSuchFile
from bsp.arrays.files import agreement, npz
from bsp.arrays.files import columns as io_columns
from bsp.arrays.files import format as registry
from bsp.arrays.files import hdf5 as io_hdf5
from bsp.arrays.files import npy as io_npy
from bsp.arrays.files import parquet as io_parquet
from bsp.arrays.files.checksums import joined
from bsp.arrays.files.columns import columns_of, numbers_of
from bsp.arrays.files.lines import division as io_lines
from bsp.arrays.files.lines.division import TextLines
from bsp.arrays.files.lines.fields import MISSING, BadLine, Fields, exact
from bsp.arrays.files.lines.opening import Opening

PROCESSES = [1, 2, 3, 5, 8]

_made = np.random.default_rng(0)
ARRAYS: dict[str, np.ndarray] = {
    "matrix": _made.normal(size=(301, 97)),
    "vector": _made.integers(-9, 9, size=20_001),
    "cube": _made.normal(size=(40, 31, 20)) + 1j,
    "bools": _made.random((300, 90)) > 0.5,
    "float32": _made.random((30_000, 1)).astype(np.float32),
    "number": np.array(3.5),
    "one": np.array([7], np.uint16),
    "empty": np.zeros((0, 4)),
    "small": np.arange(12).reshape(3, 4),
}


def alike(call: Callable[..., Any], nprocs: int, *args: Any) -> Any:
    """What call() gives, as NumPy's array; the same on every process."""

    def main(proc: bsp.Process) -> Any:
        found = call(*args)
        return np.array(found.compute()) if isinstance(found, ba.Array) else found

    results = bsp.run(main, nprocs=nprocs)
    for each in results:
        np.testing.assert_equal(each, results[0])
        assert getattr(each, "dtype", None) == getattr(results[0], "dtype", None)
    return results[0]


def told(kind: type[Exception], call: Callable[..., Any], nprocs: int, *args: Any) -> str:
    """The error of call(), the same on every process, none of which is left behind."""

    def main(proc: bsp.Process) -> str:
        with pytest.raises(kind) as wrong:
            call(*args)
        proc.sync()
        return str(wrong.value)

    results = bsp.run(main, nprocs=nprocs)
    assert len(set(results)) == 1
    return str(results[0])


def grid_of(x: np.ndarray) -> Any:
    return tuple(3 for _ in x.shape) if x.ndim else None


# --------------------------------------------------------------------------------------- .npy


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("name", ARRAYS)
def test_load_reads_what_numpy_saved_in_either_order(tmp_path: Path, name: str, nprocs: int) -> None:
    x = ARRAYS[name]
    for order in "CF":
        np.save(tmp_path / "x.npy", np.array(x, order=order))
        for grid in (None, grid_of(x)):
            found = alike(lambda grid=grid: ba.load(tmp_path / "x.npy", grid=grid), nprocs)
            assert found.dtype == x.dtype and np.array_equal(found, x)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("name", ARRAYS)
def test_save_writes_the_bytes_that_numpy_does(tmp_path: Path, name: str, nprocs: int) -> None:
    x = ARRAYS[name]
    np.save(tmp_path / "theirs.npy", x)
    for grid in (None, grid_of(x), (1,) * (x.ndim - 1) + (7,) if x.ndim else None):
        alike(lambda grid=grid: ba.save(tmp_path / "ours", ba.asarray(x, grid=grid)), nprocs)
        assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours.npy", "theirs.npy"]


@examples(30)
@given(
    shape=st.lists(st.integers(1, 60), min_size=1, max_size=4), nprocs=st.sampled_from([2, 3, 5]), data=st.data()
)  # fmt: skip
def test_blocks_of_any_grid_find_their_places(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], nprocs: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    grid = tuple(data.draw(st.integers(1, 5)) for _ in shape)
    x = np.arange(np.prod(shape)).reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io_npy, "_RUN", data.draw(st.sampled_from([0, 64])))
        alike(lambda: ba.save(path, ba.asarray(x, grid=grid)), nprocs)
    assert np.array_equal(np.load(path), x)


def test_expressions_and_numpy_arrays_can_be_saved(tmp_path: Path) -> None:
    alike(lambda: ba.save(tmp_path / "a.npy", ba.arange(40_000) * 2.0 + 1), 3)
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.arange(40_000) * 2.0 + 1)
    alike(lambda: ba.save(tmp_path / "b.npy", [[1, 2], [3, 4]]), 3)
    assert np.load(tmp_path / "b.npy").tolist() == [[1, 2], [3, 4]]


def test_another_byte_order_becomes_ours(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(30_000, dtype=">f8"))
    found = alike(ba.load, 3, tmp_path / "x.npy")
    assert found.dtype.isnative and np.array_equal(found, np.arange(30_000.0))


@pytest.mark.parametrize("when", [0, 1])
@pytest.mark.parametrize("ending", [".npy", ".h5", ".npz", ".parquet"])
def test_a_file_that_is_replaced_while_it_is_read_is_told_to_all(
    tmp_path: Path, ending: str, when: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else some processes would have blocks of the old array, others of the new one."""
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    path, other = tmp_path / f"x{ending}", tmp_path / f"y{ending}"
    for at, value in ((path, 1.0), (other, 2.0)):
        x = np.full((30_000, 2), value)
        if ending == ".npz":
            np.savez_compressed(at, x=x)
        elif ending == ".parquet":
            parquet.write_table(pyarrow.table({"x": x[:, 0]}), at)
        else:
            ba.save(at, x)
    module, name = {
        ".npy": (io_npy, "blocks_read"), ".h5": (io_hdf5, "blocks_read"), ".npz": (npz, "same_everywhere"),
        ".parquet": (io_parquet, "blocks_read"),
    }[ending]  # fmt: skip
    plain = getattr(module, name)

    def reading(*args: Any) -> Any:
        found = plain(*args)
        if bsp.process().pid == when and other.exists():
            os.replace(other, path)
        return found

    monkeypatch.setattr(module, name, reading)
    assert "while it was read" in told(FormatError, lambda: ba.load(path), 3)


@pytest.mark.parametrize("grid", [None, (1, 3), (5, 2)])
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_a_file_that_is_cut_short_while_it_is_read_is_told_to_all(
    tmp_path: Path, ending: str, grid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program opens it to write it anew.  A file mapped into memory would end the process by a signal."""
    path, plain = tmp_path / f"x{ending}", io_npy.blocks_read
    x = np.ones((30_000, 3))
    if ending == ".npz":
        np.savez(path, x=x)
    else:
        np.save(path, x)

    def cut(*args: Any) -> Any:
        os.truncate(path, 4096)
        return plain(*args)

    monkeypatch.setattr(io_npy, "blocks_read", cut)
    message = told(FormatError, lambda: ba.load(path, grid=grid), 3)
    assert "it was written to while it was read" in message


_SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 7, 500, 2500]), max_size=4).filter(lambda shape: np.prod(shape) < 1e6)


@examples(100)
@given(_SHAPES, st.data(), st.sampled_from(["C", "F"]), st.sampled_from(["<f8", ">i2", "?", "c16"]))
def test_any_blocks_are_read_and_written(shape: list[int], data: Any, order: Any, dtype: str) -> None:
    """Runs in the file are shorter and longer than those for which whole lines are read."""
    grid = tuple(data.draw(st.integers(1, max(min(length, 4), 1))) for length in shape)
    x = np.asarray(np.arange(np.prod(shape)).reshape(shape).astype(dtype), order=order)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", x)

        def copied() -> Any:
            found = ba.load(f"{folder}/x.npy", grid=grid or None)
            ba.save(f"{folder}/y.npy", found)
            return found

        np.testing.assert_array_equal(alike(copied, 3), x)
        np.testing.assert_array_equal(np.load(f"{folder}/y.npy"), x)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".h5", ".csv", ".txt.gz"])
def test_paths_are_text_or_bytes_or_path_objects(tmp_path: Path, ending: str) -> None:
    path, x = tmp_path / f"h\u00f6he{ending}", np.arange(12.0).reshape(4, 3)
    save = {
        ".npz": lambda path: ba.savez(path, x), ".csv": lambda path: ba.savetxt(path, x, delimiter=","),
        ".txt.gz": lambda path: ba.savetxt(path, x),
    }.get(ending, lambda path: ba.save(path, x))  # fmt: skip
    load = {".npz": lambda path: ba.load(path)["arr_0"], ".txt.gz": ba.loadtxt}.get(ending, ba.load)
    for each in (path, os.fspath(path), os.fsencode(path)):
        alike(lambda each=each: save(each), 2)
        np.testing.assert_array_equal(alike(load, 2, each), x)
        path.unlink()
    for call in (ba.load, ba.loadtxt, ba.read_csv, lambda file: ba.save(file, x)):
        with pytest.raises(TypeError, match="a path, for all processes open the file; not BytesIO"):
            call(io.BytesIO())


def test_load_takes_one_superstep_and_save_three(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ARRAYS["matrix"])

    def main(proc: bsp.Process) -> list[int]:
        steps = [proc.superstep]
        x = ba.load(tmp_path / "x.npy")
        steps.append(proc.superstep)
        ba.save(tmp_path / "y.npy", x)
        steps.append(proc.superstep)
        return np.diff(steps).tolist()

    assert bsp.run(main, nprocs=2)[0] == [1, 3]


def _npy_of(damage: str) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, np.arange(20_000.0))
    whole = file.getvalue()
    strings = io.BytesIO()
    np.save(strings, np.array(["a", "b"]))
    return {
        "no magic": b"hello world, this is no array",
        "empty": b"",
        "no header": whole[:9],
        "header ends": whole[:40],
        "data end": whole[:-1],
        "data far too short": whole[:1000],
        "strings": strings.getvalue(),
        "header is no dict": whole.replace(b"'descr'", b"!descr!"),
    }[damage]


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("damage, text", [
    ("no magic", "no .npy file"), ("empty", "no .npy file"), ("no header", "damaged"), ("header ends", "damaged"),
    ("data end", "ends early: float64[20000] takes 160000 bytes after its header, there are 159999"),
    ("data far too short", "ends early"), ("strings", "arrays hold numbers; the file has <U1"),
    ("header is no dict", "damaged"),
])  # fmt: skip
def test_a_damaged_npy_is_told_to_all(tmp_path: Path, damage: str, text: str, nprocs: int) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(_npy_of(damage))
    message = told(FormatError, ba.load, nprocs, path)
    assert text in message and message.startswith(f"load({str(path)!r}): ")


@pytest.mark.parametrize("ending", [".npy", ".h5", ".zarr", ".parquet", ".csv", ".csv.gz"])
def test_a_missing_file_is_file_not_found_on_all(tmp_path: Path, ending: str) -> None:
    call = ba.read_csv if ending == ".csv.gz" else ba.load
    assert "No such file" in told(FileNotFoundError, call, 3, tmp_path / f"x{ending}")
    assert issubclass(NoSuchFile, bsp.BspError)


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_a_write_that_fails_on_one_process_fails_on_all_and_leaves_the_old_file(
    tmp_path: Path, culprit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    plain = os.pwrite

    def full(file: int, data: Any, place: int) -> int:
        if bsp.process().pid == culprit:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return plain(file, data, place)

    monkeypatch.setattr(os, "pwrite", full)
    message = told(FileError, lambda: ba.save(tmp_path / "x.npy", ba.ones(50_000)), 3)
    assert message == f"save({str(tmp_path / 'x.npy')!r}): No space left on device (process {culprit})"
    assert np.load(tmp_path / "x.npy").tolist() == [0, 1, 2]
    assert [each.name for each in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize("ending", [".npy", ".h5", ".zarr", ".parquet"])
def test_a_folder_that_is_not_there_is_told_to_all(tmp_path: Path, ending: str) -> None:
    told(OSError, lambda: ba.save(tmp_path / "no" / f"x{ending}", ba.ones(50_000)), 3)
    assert not list(tmp_path.iterdir())
    (tmp_path / "no").write_bytes(b"a file")
    assert "there is no folder" in told(NoSuchFile, lambda: ba.save(tmp_path / "no" / f"x{ending}", ba.ones(9)), 3)


def test_pipes_and_devices_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for call in (lambda: ba.savetxt(tmp_path / "pipe", ba.ones(3)), lambda: ba.ones(3).tofile(tmp_path / "pipe")):
        assert "it is a device, a pipe or a socket, which is not replaced" in told(FileError, call, 2)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("ending", [".npy", ".zarr", ".parquet"])
def test_a_folder_of_other_contents_is_not_replaced(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    assert "a folder of other contents" in told(FileError, lambda: ba.save(path, ba.ones((9, 2))), 3)
    assert (path / "notes.txt").read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", [".ssh/id", "_notes/x.csv", ".hidden", "x.parquet/x.csv"])
def test_a_folder_of_hidden_files_is_not_replaced_by_tables(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "home" / name).parent.mkdir(parents=True)
    (tmp_path / "home" / name).write_text("mine")
    assert "a folder of other contents" in told(FileError, lambda: ba.write_parquet(tmp_path / "home", ba.ones(9)), 2)
    assert (tmp_path / "home" / name).read_text() == "mine"


def test_a_folder_of_tables_is_replaced_with_the_marks_of_their_writers(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.parquet"
    (path / "year=2026").mkdir(parents=True)
    for name in ("_SUCCESS", "._SUCCESS.crc", "_metadata", "year=2026/x.parquet"):
        (path / name).write_bytes(b"")
    alike(lambda: ba.save(path, ba.arange(4)), 2)
    assert alike(lambda: ba.load(path), 3).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("nprocs", [1, 3, 7])
def test_columns_in_the_names_of_folders_are_read_where_they_are_named(tmp_path: Path, nprocs: int) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {"x": np.arange(9), "year": [2024, 2025, 2026] * 3, "share": [2.0, 1.0, None] * 3, "town": list("abcabcabc")}
    )
    path = tmp_path / "sales"
    frame.to_parquet(path, partition_cols=["year", "share", "town"], index=False)
    known = frame.sort_values("year", kind="stable")

    def read(*names: str, **options: Any) -> Any:
        return alike(lambda: ba.read_parquet(path, list(names) or None, **options), nprocs)

    assert alike(lambda: ba.read_parquet(path, "year"), nprocs).tolist() == known.year.tolist()
    assert read("year").dtype == np.int64
    np.testing.assert_array_equal(read("year", "x", "share"), known[["year", "x", "share"]].to_numpy())
    assert read("x", "year", dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(read(), known[["x"]])
    for wrong, why in (
        (lambda: ba.read_parquet(path, ["x", "town"]), "column 'town', of the names of folders, has texts"),
        (lambda: ba.read_parquet(path, ["share"], dtype=int), "column 'share': a value is missing"),
        (lambda: ba.read_parquet(path, ["yaer"]), "no column 'yaer'; there are x, year, share, town"),
    ):
        assert why in told(FormatError, wrong, nprocs)


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_group_is_not_replaced_by_an_array(tmp_path: Path, version: Any) -> None:
    zarr = import_module("zarr")
    path = tmp_path / "x.zarr"
    zarr.open_group(path, mode="w", zarr_format=version).create_array("y", data=np.arange(3))
    assert "a folder of other contents" in told(FileError, lambda: ba.save(path, ba.ones(9)), 2)
    assert alike(lambda: ba.read_zarr(path / "y"), 2).tolist() == [0, 1, 2]
    alike(lambda: ba.write_zarr(path / "y", ba.ones(2)), 3)
    assert zarr.open_group(path, mode="r")["y"][...].tolist() == [1, 1]


@pytest.mark.parametrize("ending", [".npy", ".npz", ".h5", ".zarr", ".parquet", ".txt"])
def test_what_is_read_only_is_not_replaced(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x{ending}"
    save = {".npz": lambda x: ba.savez(path, x), ".txt": lambda x: ba.savetxt(path, x)}.get(
        ending, lambda x: ba.save(path, x)
    )
    alike(lambda: save(ba.ones(3)), 2)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "access", lambda name, mode: (Path(name), mode) != (path, os.W_OK))  # root may write all
    assert os.strerror(errno.EACCES) in told(FileError, lambda: save(ba.zeros(30_000)), 3)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("ending", [".npy", ".zarr", ".parquet"])
def test_what_was_saved_is_replaced_by_another_of_its_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    for size in (9, 5):
        alike(lambda size=size: ba.save(path, ba.ones((size, 2))), 3)
        assert alike(lambda: ba.load(path).shape, 2) == (size, 2)


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones(3))
    path.chmod(0o600)
    alike(lambda: ba.save(path, ba.zeros(3)), 2)
    assert path.stat().st_mode & 0o777 == 0o600 and np.array_equal(np.load(path), np.zeros(3))


def test_short_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: plain(file, data[:1001], place))
    alike(lambda: ba.save(tmp_path / "x.npy", ba.arange(20_000)), 3)
    assert np.array_equal(np.load(tmp_path / "x.npy"), np.arange(20_000))


def test_what_an_interrupted_write_left_is_in_nobodys_way(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (tmp_path / f".x.npy.{platform.node()}-{ended.stdout.strip()}.part").write_bytes(b"half")
    alike(lambda: ba.save(tmp_path / "x.npy", ba.arange(20_000)), 2)
    assert [each.name for each in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.parametrize("name", ["n" * 251, "é" * 125, "a b\n*[x]?"])
def test_names_may_be_as_long_as_the_system_takes(tmp_path: Path, name: str) -> None:
    for value in (1, 2):
        alike(lambda value=value: ba.save(tmp_path / f"{name}.npy", ba.full(9, value)), 2)
        assert alike(lambda: ba.load(tmp_path / f"{name}.npy"), 3).tolist() == [value] * 9
    assert [each.name for each in tmp_path.iterdir()] == [f"{name}.npy"]


@pytest.mark.parametrize("ending", [".npy", ".h5", ".zarr", ".parquet"])
def test_two_jobs_that_write_one_file_do_not_mix(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain, done = tmp_path / f"x{ending}", agreement._replace, []
    program = f"import bsp.arrays as ba; ba.save({str(path)!r}, ba.zeros((90_000, 1)))"

    def replacing(part: Path, target: Path) -> None:
        if not done:
            done.append(subprocess.run([sys.executable, "-c", program]).returncode)
            assert not alike(lambda: ba.load(path), 1).any()
        plain(part, target)

    monkeypatch.setattr(agreement, "_replace", replacing)
    alike(lambda: ba.save(path, ba.ones((90_000, 1))), 3)
    assert done == [0] and alike(lambda: ba.load(path), 2).all()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.thorough
@pytest.mark.jobs
def test_elements_write_and_read_one_file(tmp_path: Path) -> None:
    def main(proc: bsp.Process, folder: str) -> Any:
        import bsp.arrays as ba

        x = ba.random.default_rng(0).normal(size=(300, 200), grid=(3, 2))
        ba.save(f"{folder}/x.npy", x)
        ba.save(f"{folder}/x.h5", x)
        return [ba.load(f"{folder}/x{ending}").compute() for ending in (".npy", ".h5")]

    for npy, hdf5 in bsp.run(main, str(tmp_path), nprocs=3, elements=2):
        assert np.array_equal(npy, np.load(tmp_path / "x.npy")) and np.array_equal(npy, hdf5)


# ---------------------------------------------------------------------------------------- text

TABLE = ARRAYS["matrix"]


def text_of(x: np.ndarray, header: str = "", end: str = "\n") -> bytes:
    lines = [header] * bool(header) + [",".join(f"{each:.17g}" for each in row) for row in x]
    return "".join(line + end for line in lines).encode()


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2", ".xz", ".GZ"])
def test_read_csv_reads_every_line_once(tmp_path: Path, ending: str, nprocs: int) -> None:
    path = tmp_path / f"x.csv{ending}"
    pack = {"": lambda text: text, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[ending.lower()]
    for end in ("\n", "\r\n"):
        for text in (text_of(TABLE[:50], end=end), text_of(TABLE[:50], end=end).rstrip()):
            path.write_bytes(pack(text))
            assert np.array_equal(alike(ba.read_csv, nprocs, path), TABLE[:50])
            assert np.array_equal(alike(ba.load, nprocs, path), TABLE[:50])


@examples(40)
@given(
    rows=st.lists(st.lists(st.floats(width=64), min_size=2, max_size=2), max_size=20),
    blanks=st.lists(st.integers(0, 20), max_size=4), nprocs=st.sampled_from([1, 2, 5, 8]),
    end=st.sampled_from(["\n", "\r\n"]),
)  # fmt: skip
def test_floats_come_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]], blanks: list[int], nprocs: int, end: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    lines = ["a,b", *[f"{one!r}, {other!r}" for one, other in rows]]
    for blank in blanks:
        lines.insert(min(blank, len(lines)), " ")
    path.write_bytes(end.join(lines).encode())
    expected = np.array(rows, float).reshape(-1, 2)
    found = alike(ba.read_csv, nprocs, path)
    np.testing.assert_array_equal(found, expected)
    assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


def test_the_layout_does_not_depend_on_the_text(tmp_path: Path) -> None:
    """Long lines first: processes get other numbers of lines, but not of rows."""
    path = tmp_path / "x.csv"
    x = np.arange(60_000.0).reshape(-1, 2)
    path.write_text("".join(f"{a:{60 if k < 15_000 else 1}},{b}\n" for k, (a, b) in enumerate(x)))

    def main(proc: bsp.Process) -> Any:
        found = ba.read_csv(path)
        assert found.layout is ba.ones(x.shape).layout
        assert ba.read_csv(path, grid=(2, 2)).grid == (2, 2)
        return found.compute()

    assert np.array_equal(bsp.run(main, nprocs=4)[3], x)


@pytest.mark.parametrize("text, header, names, rows", [
    ("a,b\n1,2\n", "auto", ["a", "b"], 1),
    ("1,2\n3,4\n", "auto", ["c0", "c1"], 2),
    ("1,2\n3,4\n", True, ["1", "2"], 1),
    ('"a, really",\' b\n1,2\n', "auto", ["a, really", "' b"], 1),
    ('"say ""x""",b\n1,2\n', "auto", ['say "x"', "b"], 1),
    ("\n \n a , b\n\n1,2\n\n\n3,4\n", "auto", ["a", "b"], 2),
    ("\ufeffa,é\n1,2\n", "auto", ["a", "é"], 1),
    ("\ufeff1,2\n", "auto", ["c0", "c1"], 1),
    (",NA\n1,2\n", "auto", ["c0", "c1"], 2),
    ("a,b\n", "auto", ["a", "b"], 0),
    ("a,b", "auto", ["a", "b"], 0),
    ("a,b\r\n1,2\r\n", "auto", ["a", "b"], 1),
])  # fmt: skip
@pytest.mark.parametrize("nprocs", [1, 3])
def test_headers_are_found(tmp_path: Path, text: str, header: Any, names: list[str], rows: int, nprocs: int) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())

    def call() -> Any:
        found, titles = ba.read_csv(path, header=header, names=True)
        return found.shape, titles

    assert alike(call, nprocs) == ((rows, 2), names)


@pytest.mark.parametrize("nprocs", [1, 4])
def test_columns_are_chosen_by_number_and_name_and_others_may_be_text(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "x.csv"
    path.write_text('name,x,y\n"Ann, of ""T""",1,2\nBéa,3,4\n,5,6\n')
    call = lambda **options: alike(lambda: ba.read_csv(path, **options), nprocs).tolist()  # noqa: E731
    assert call(usecols=["y", "x"]) == [[2, 1], [4, 3], [6, 5]]
    assert call(usecols=[2, -2, 2]) == [[2, 1, 2], [4, 3, 4], [6, 5, 6]]
    assert call(usecols="x") == call(usecols=1) == [1, 3, 5]
    assert call(usecols=[1], skiprows=2, header=False) == [[3], [5]]
    assert "no column 'z'; there are name, x, y" in told(FormatError, lambda: ba.read_csv(path, usecols="z"), nprocs)
    assert "no column 7; there are 3" in told(FormatError, lambda: ba.read_csv(path, usecols=7), nprocs)
    twice = tmp_path / "twice.csv"
    twice.write_text("x,y,x\n1,2,3\n")
    message = "usecols: 2 columns are named 'x': choose by number, 0, 2"
    assert message in told(FormatError, lambda: ba.read_csv(twice, usecols="x"), nprocs)


@pytest.mark.parametrize("delimiter, text", [
    ("\t", "1\t2\n\t4\n"), (";", "1;2\nNA; 4\n"), (" ", "1 2\nnan 4\n"), (None, " 1   2\n\nNULL\t4 \n"),
    ("|", "1|2\n|4"),
])  # fmt: skip
def test_delimiters_and_missing_values(tmp_path: Path, delimiter: str | None, text: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    found = alike(lambda: ba.read_csv(path, delimiter=delimiter), 2)
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 4]])


def test_integers_are_exact(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{2**63 - 1},{-(2**63)}\n007,+5\n")
    assert alike(lambda: ba.read_csv(path, dtype=int), 2).tolist() == [[2**63 - 1, -(2**63)], [7, 5]]


ERRORS = [
    ("a,b\n1,2\n3,x\n", {}, "line 3: column 2 ('b'): 'x' is no number"),
    ("1,2\n3,x\n", {}, "line 2: column 2 ('c1'): 'x' is no number"),
    ("a,2019\n1,2\n", {}, "line 1: column 1 ('c0'): 'a' is no number; header=True if this line has names"),
    ("a,b\n1,x\n", {}, "line 2: column 2 ('b'): 'x' is no number; usecols= leaves columns of text out"),
    ("a,b\n1,2\n\n\n3\n4,5\n", {}, "line 5: it has 1 field, the first line has 2"),
    ("a,b\n1,2\n3,4,\n", {}, "line 3: it has 3 fields, the first line has 2"),
    ("1,2\n3,4\n5", {}, "line 3: it has 1 field, the first line has 2"),
    ("1,2,3,4,5\n6\n", {}, "line 2: it has 1 field, the first line has 5"),  # all that one process has
    ("1,2\n3,1_000\n", {}, "line 2: column 2 ('c1'): '1_000' is no number"),
    ("1,2\n3,0x10\n", {"dtype": int}, "line 2: column 2 ('c1'): '0x10' is no integer"),
    ("1,2\n3,4.0\n", {"dtype": int}, "line 2: column 2 ('c1'): '4.0' is no integer"),
    ("1,2\n3,\n", {"dtype": int}, "a value is missing, and int64 has none for that"),
    ("1,2\n3,300\n", {"dtype": np.int8}, "line 2: column 2 ('c1'): 300 does not fit int8"),
    ('1,2\n3,"4\n5",6\n', {}, "line 2: its quotes do not match"),
    ("a\r1\r2\r", {}, "line 1: it has carriage returns inside; if they end its lines, convert the file"),
    ("a,b\r1,2\r", {"delimiter": None}, "line 1: it has carriage returns inside"),
    ('"a","b"\r1,2\r', {}, "line 1: it has carriage returns inside"),
    ("1,2\n3\r,4\n", {"usecols": 1}, "line 2: it has carriage returns inside"),
    ("", {}, "it has no data: it is empty"),
    ("\n\n", {}, "it has no data: 2 lines"),
    ("1,2\n", {"skiprows": 5}, "it has no data: 1 line"),
    ("1,2\n3,4\n" * 50 + "5,6\n7,oops\n" + "1,2\n" * 99 + "x\n", {}, "line 102: column 2 ('c1'): 'oops' is no number"),
]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("text, options, message", ERRORS)
def test_wrong_lines_are_told_with_their_place_in_the_file(
    tmp_path: Path, text: str, options: dict[str, Any], message: str, ending: str
) -> None:
    path = tmp_path / f"x.csv{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending else text.encode())
    found = {told(FormatError, lambda: ba.read_csv(path, **options), nprocs) for nprocs in (1, 2, 5)}
    assert len(found) == 1 and message in found.pop()


@pytest.mark.parametrize("nprocs", [1, 3])
def test_compressed_text_that_ends_early_is_told_to_all(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "x.csv.gz"
    whole = gzip.compress(text_of(TABLE))
    for damaged in (whole[:-20], whole[: len(whole) // 2], b"plain,text\n1,2\n", b"\x1f\x8b" + b"\xff" * 50, b""):
        path.write_bytes(damaged)
        assert told(FormatError, ba.read_csv, nprocs, path).startswith(f"read_csv({str(path)!r}): ")


def test_arguments_of_read_csv_are_checked(tmp_path: Path) -> None:
    for options in ({"dtype": complex}, {"delimiter": ",,"}, {"delimiter": '"'}, {"header": "yes"}):
        with pytest.raises((TypeError, ValueError), match="read_csv"):
            ba.read_csv(tmp_path / "x.csv", **options)


def lines(text: bytes) -> TextLines:
    return TextLines(Opening(Fields(",", 0, (), (), np.dtype(float)), 0, 0), lambda: io.BytesIO(text), lambda: 0)


_fields = st.one_of(
    st.floats().map(repr), st.integers(-(10**25), 10**25).map(str), st.sampled_from(MISSING),
    st.sampled_from([" 1", "2 ", "+3", ".5", "5.", "1e400", "-1e-400", "inf", "-Infinity", "-nan", "1_0", "0x1p3",
                     "0x1A", "nan(1)", "1d5", "١", '"7"', "a", "''", "1 2", "--1", "1e", "\r", "\t8", "4\0", "True",
                     " NA ", "-NaN(1)", '"7"8', '""7', '"7,"8', '"7""8"', '5"6']),
)  # fmt: skip


def _none(*arguments: Any) -> None:
    """Read nothing, as a way of reading does that cannot read a text."""


@examples(400)
@given(
    rows=st.lists(st.lists(_fields, min_size=3, max_size=3), max_size=6),
    kind=st.sampled_from([float, np.int64, np.uint8]),
    columns=st.sampled_from([(0, 1, 2), (2, 0), (1, 1)]), end=st.sampled_from(["\n", "\r\n"]), in_c=st.booleans(),
)  # fmt: skip
def test_c_and_pyarrow_change_nothing(
    rows: list[list[str]], kind: Any, columns: tuple[int, ...], end: str, in_c: bool
) -> None:
    import_module("pyarrow")
    text = "".join(",".join(row) + end for row in rows).encode()
    fields = Fields(",", 3, columns, ("a", "b", "c"), np.dtype(kind))

    def outcome(read: Any) -> Any:
        try:
            found = read(text, fields)
            return found.shape, found.dtype, np.where(found != found, np.nan, found).tobytes()
        except BadLine as wrong:
            return wrong.index, wrong.text

    with pytest.MonkeyPatch.context() as patch:
        if not in_c:
            patch.setattr(io_columns, "COMPILED", False)
        assert outcome(lambda text, fields: numbers_of(lines(text), fields)) == outcome(exact)


@examples(200)
@given(
    rows=st.lists(st.lists(_fields, min_size=3, max_size=3), max_size=6),
    columns=st.sampled_from([(0, 1, 2), (2, 0)]), end=st.sampled_from(["\n", "\r\n"]),
    texts=st.sampled_from([set(), {0}]),
)  # fmt: skip
def test_c_and_pyarrow_change_no_table(
    rows: list[list[str]], columns: tuple[int, ...], end: str, texts: set[int]
) -> None:
    """Numbers and texts are told apart alike, and have the same values."""
    import_module("pyarrow")
    text = "".join(",".join(row) + end for row in rows).encode()
    fields = Fields(",", 3, columns, ("a", "b", "c"), np.dtype(float))

    def outcome() -> Any:
        try:
            found = columns_of(lines(text), fields, texts)
        except BadLine as wrong:
            return wrong.index, wrong.text
        return [
            [None if level is None and code != code else code if level is None or code < 0 else level[code]
             for chunk in found.chunks for code in chunk[k].tolist()]
            for k, level in enumerate(found.levels)
        ]  # fmt: skip

    in_c = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io_columns, "COMPILED", False)
        assert in_c == outcome()
        patch.setattr(io_columns, "_by_pyarrow", _none)
        assert in_c == outcome()


@pytest.mark.parametrize("in_c", [True, False])
def test_python_reads_no_plain_numbers(in_c: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("pyarrow")
    fields = Fields(",", 97, tuple(range(97)), tuple(map(str, range(97))), np.dtype(float))
    text = text_of(TABLE)
    expected = exact(text, fields)
    monkeypatch.setattr(io_columns, "exact", None)
    if not in_c:
        monkeypatch.setattr(io_columns, "COMPILED", False)
    elif COMPILED:
        monkeypatch.setattr(io_columns, "_by_pyarrow", _none)
    assert np.array_equal(numbers_of(lines(text), fields), expected)


@pytest.mark.parametrize("read", [
    lambda path: ba.read_csv(path, header=False), lambda path: sparse.read_edges(path, delimiter=","), read_table,
])  # fmt: skip
def test_text_that_grows_while_it_is_read_is_told_to_all(
    tmp_path: Path, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that see different sizes cut the text at different places: lines would be lost or read twice."""
    path, plain = tmp_path / "x.csv", io_lines._own_lines
    path.write_text("a,b\n" * (read is read_table) + "1,2\n" * 999)

    def grown(*args: Any) -> TextLines:
        own = plain(*args)
        if bsp.process().pid == 0:
            with open(path, "a") as file:
                file.write("3,4\n" * 99)
        return own

    monkeypatch.setattr(io_lines, "_own_lines", grown)
    assert "it was written to while it was read" in told(ValueError, read, 3, path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("read", [
    lambda path: ba.loadtxt(path, delimiter=",", skiprows=1), ba.read_csv,
    lambda path: sparse.read_edges(path, delimiter=",", header=True), read_table,
])  # fmt: skip
def test_text_that_is_cut_short_while_it_is_read_is_told_to_all(
    tmp_path: Path, read: Any, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processes have seen its whole size; the last one finds no lines."""
    path, plain = tmp_path / "x.csv", io_lines._own_lines
    path.write_text("a,b\n" + "1,2\n" * 999, encoding=encoding)

    def cut(*args: Any) -> TextLines:
        own = plain(*args)
        if bsp.process().pid == 2:
            os.truncate(path, 2000 // 3)
        return own

    monkeypatch.setattr(io_lines, "_own_lines", cut)
    assert "it was written to while it was read" in told(ValueError, read, 3, path)


def test_without_pyarrow_text_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_bytes(text_of(TABLE))
    _without(monkeypatch, "pyarrow")
    monkeypatch.setattr(io_columns, "COMPILED", False)
    assert np.array_equal(alike(ba.read_csv, 2, tmp_path / "x.csv"), TABLE)


# ------------------------------------------------------------------------ HDF5, Zarr, Parquet


def _without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    plain = builtins.__import__

    def importing(module: str, *args: Any, **kwargs: Any) -> Any:
        if module.partition(".")[0] == name:
            raise ImportError(f"no {module}")
        return plain(module, *args, **kwargs)

    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(builtins, "__import__", importing)


FORMATS = [(".h5", "h5py"), (".zarr", "zarr"), (".parquet", "pyarrow")]


@pytest.mark.parametrize("ending, library", FORMATS)
@pytest.mark.parametrize("name", ARRAYS)
def test_what_one_number_of_processes_wrote_another_reads(tmp_path: Path, name: str, ending: str, library: str) -> None:
    import_module(library)
    x = ARRAYS[name]
    if ending == ".parquet" and (x.ndim not in (1, 2) or x.dtype.kind == "c"):
        return
    path = tmp_path / f"x{ending}"
    for wrote, read, grid in ((1, 3, grid_of(x)), (3, 1, None), (5, 2, grid_of(x))):
        alike(lambda grid=grid: ba.save(path, ba.asarray(x, grid=grid)), wrote)
        for other in (None, grid_of(x)):
            if ending == ".parquet" and x.ndim == 1:
                found = alike(lambda: ba.read_parquet(path, "c0"), read)
            else:
                found = alike(lambda other=other: ba.load(path, grid=other), read)
            assert found.dtype == x.dtype and np.array_equal(found, x)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending, library", FORMATS)
def test_a_missing_library_is_told_with_its_extra(
    tmp_path: Path, ending: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_module(library)
    path = tmp_path / f"x{ending}"
    alike(lambda: ba.save(path, ba.ones((3, 3))), 1)
    _without(monkeypatch, library)
    for call in (lambda: ba.load(path), lambda: ba.save(path, ba.ones((3, 3)))):
        assert f"needs {library}, which is not there: pip install 'nonstop-bsp[io]'" in told(ImportError, call, 2)


@pytest.mark.parametrize("ending, library", FORMATS)
def test_a_file_of_another_kind_is_told_to_all(tmp_path: Path, ending: str, library: str) -> None:
    import_module(library)
    path = tmp_path / f"x{ending}"
    path.write_bytes(b"what is this" * 99)
    assert str(path) in told(FormatError, ba.load, 3, path)


def test_errors_of_the_system_have_no_addresses_and_no_times(tmp_path: Path) -> None:
    """Clones send the errors that they meet, which must be the same bytes."""
    pytest.importorskip("h5py")
    (tmp_path / "x.h5").mkdir()
    named = f"read_hdf5({str(tmp_path / 'x.h5')!r})"
    assert told(FileError, ba.load, 3, tmp_path / "x.h5") == f"{named}: {os.strerror(errno.EISDIR)}"
    np.save(tmp_path / "x.npy", np.arange(3))
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes().replace(b"False", b"Flase"))
    assert "malformed" in (wrong := told(FormatError, ba.load, 1, tmp_path / "x.npy")) and "0x" not in wrong


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_error_in_an_archive_names_the_member(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "x.npz", good=np.arange(3), bad=np.array(["text"]))
    assert "member 'bad.npy': arrays hold numbers" in told(FormatError, ba.load, 2, tmp_path / "x.npz")


def test_hdf5_datasets_are_named(tmp_path: Path) -> None:
    h5py = import_module("h5py")
    path = tmp_path / "x.h5"
    alike(lambda: ba.write_hdf5(path, {"x": ba.ones((200, 100)), "group/y": ba.arange(5)}, compression="gzip"), 3)
    assert alike(lambda: ba.load(path, dataset="group/y"), 3).tolist() == [0, 1, 2, 3, 4]
    assert "dataset= says which; the file has 'group/y', 'x'" in told(FormatError, ba.load, 3, path)
    assert "there is no dataset 'z'" in told(FormatError, lambda: ba.read_hdf5(path, "z"), 3)
    with h5py.File(path, "a") as file:
        assert file["x"].compression == "gzip"
        file["s"] = "text"
        file["soft"], file["hard"] = h5py.SoftLink("/group/y"), file["group/y"]
    for link in ("soft", "hard"):
        assert alike(lambda: ba.read_hdf5(path, link), 3).tolist() == [0, 1, 2, 3, 4]
    assert "arrays hold numbers" in told(FormatError, lambda: ba.read_hdf5(path, "s"), 2)


@pytest.mark.parametrize("options", ["", "compression='gzip'", "chunks=(1000,)"])
def test_hdf5_that_does_not_fit_on_the_disk_leaves_the_old_file(tmp_path: Path, options: str) -> None:
    """HDF5 writes its caches when it closes a file, and may crash if that fails: so in an interpreter of its own."""
    pytest.importorskip("h5py")
    program = f"""
import resource
import numpy as np
import bsp, bsp.arrays as ba

def main(proc):
    x = ba.asarray(np.random.default_rng(0).random(100_000))
    try:
        ba.write_hdf5("x.h5", x, {options})
    except OSError as wrong:
        return str(wrong).partition(" (process")[0]

bsp.run(lambda proc: ba.save("x.h5", ba.arange(3)), nprocs=2)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
for nprocs in (1, 3, 1, 2):
    print(bsp.run(main, nprocs=nprocs)[0])
print(ba.load("x.h5").tolist())
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    wrong = f"write_hdf5('x.h5'): {os.strerror(errno.EFBIG)}"
    assert (ran.returncode, ran.stderr, ran.stdout.splitlines()) == (0, "", [*[wrong] * 4, "[0, 1, 2]"])
    assert [each.name for each in tmp_path.iterdir()] == ["x.h5"]


def test_zarr_chunks_are_the_blocks(tmp_path: Path) -> None:
    zarr = import_module("zarr")
    alike(lambda: ba.write_zarr(tmp_path / "x.zarr", ba.ones((203, 110), grid=(4, 2))), 8)
    assert zarr.open_array(str(tmp_path / "x.zarr"), mode="r").chunks == (51, 55)


def test_parquet_columns_have_names_and_may_miss_values(tmp_path: Path) -> None:
    pandas, _ = import_module("pandas"), import_module("pyarrow")
    table = pandas.DataFrame(
        {"a": [1, 2, 3], "b": [0.5, None, 2.5], "t": ["x", "y", "z"], "m": pandas.array([1, None, 3])}
    )
    path = tmp_path / "x.parquet"
    table.to_parquet(path, row_group_size=2)
    for nprocs in (1, 2, 5):
        found = alike(lambda: ba.read_parquet(path, ["m", "a", "b"], grid=(3, 2)), nprocs)
        np.testing.assert_array_equal(found, [[1, 1, 0.5], [np.nan, 2, np.nan], [3, 3, 2.5]])
        assert alike(lambda: ba.read_parquet(path, "a"), nprocs).dtype == np.int64
    assert "column 't' has" in told(FormatError, ba.load, 2, path)
    assert "there is no column 'q'; there are a, b, t, m" in told(FormatError, lambda: ba.read_parquet(path, "q"), 2)
    alike(lambda: ba.write_parquet(tmp_path / "y.parquet", ba.asarray(TABLE[:, :2]), ["u", "v"]), 3)
    assert alike(lambda: ba.read_parquet(tmp_path / "y.parquet", names=True)[1], 3) == ["u", "v"]
    assert np.array_equal(pandas.read_parquet(tmp_path / "y.parquet").to_numpy(), TABLE[:, :2])


def test_what_two_jobs_remove_at_the_same_time_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both remove, as they begin to write, the parts that a job left whose processes have ended."""
    left, remove = tmp_path / "left.part", shutil.rmtree
    left.mkdir()

    def both(path: Path) -> None:
        remove(path)
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", both)
    agreement._remove(left)
    assert not left.exists()


@pytest.mark.parametrize("nprocs", [1, 3])
def test_hidden_files_in_a_folder_are_no_part_of_the_table(tmp_path: Path, nprocs: int) -> None:
    """pyarrow leaves them out, too: among them is what an interrupted write left."""
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    for name in ("a.parquet", "b/c.parquet", ".d.parquet", "_e.parquet", ".a.parquet.part/f.parquet", "_g/h.parquet"):
        (tmp_path / "_x" / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table({"x": [1.0, 2.0]}), tmp_path / "_x" / name)
    assert alike(lambda: ba.read_parquet(tmp_path / "_x", "x"), nprocs).tolist() == [1, 2] * 2


def test_columns_that_parquet_files_would_not_give_back_are_refused(tmp_path: Path) -> None:
    import_module("pyarrow")
    path = tmp_path / "x.parquet"
    for call, message in (
        (lambda: ba.write_parquet(path, ba.ones((5, 0))), "files without columns would not hold the number of rows"),
        (lambda: ba.write_parquet(path, ba.ones((5, 2)), ["a", "a"]), "1 different names for 2 columns"),
    ):
        assert message in told(LayoutError, call, 2)
    assert not path.exists()
    alike(lambda: ba.write_parquet(path, ba.ones((5, 2))), 2)
    assert alike(lambda: ba.read_parquet(path, []), 2).shape == (5, 0)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_what_is_no_integer_is_none_in_parquet(tmp_path: Path, nprocs: int) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    nested = [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]  # two columns in the file, before x
    parquet.write_table(pyarrow.table({"nested": nested, "x": [1, 300, None], "half": [1.0, 2.0, 2.5]}), path)
    np.testing.assert_array_equal(alike(lambda: ba.read_parquet(path, "x"), nprocs), [1, 300, np.nan])
    for column, dtype, message in (
        ("x", int, "column 'x': a value is missing, and int64 has none for that; dtype=float gives NaN"),
        ("x", bool, "column 'x': a value is missing, and bool has none for that"),
        ("half", int, "column 'half': the value 2.5 is none of int64"),
    ):
        assert message in told(FormatError, lambda: ba.read_parquet(path, column, dtype=dtype), nprocs)
    parquet.write_table(pyarrow.table({"x": [1, 2, 300]}), path)
    assert "the value 300 is none of int8" in told(FormatError, lambda: ba.read_parquet(path, dtype="i1"), nprocs)


# ------------------------------------------------------------------------ archives and text


@examples(60)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_checksums_of_parts_give_that_of_the_whole(first: bytes, second: bytes) -> None:
    assert joined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_a_checksum_of_many_bytes_is_joined_too() -> None:
    zeros = 21 << 24
    whole = reduce(lambda crc, _: zlib.crc32(bytes(1 << 24), crc), range(zeros >> 24), 0)
    assert joined(0, whole, zeros) == whole
    assert joined(zlib.crc32(b"x"), joined(0, whole, zeros), zeros) == reduce(
        lambda crc, _: zlib.crc32(bytes(1 << 24), crc), range(zeros >> 24), zlib.crc32(b"x")
    )


ARCHIVED = {
    "a": np.arange(300.0).reshape(60, 5), "b": np.arange(7), "number": np.array(2.5), "empty": np.zeros((0, 3)),
    "dates": np.arange("2026-01", "2026-03", dtype="M8[D]"), "wide": np.arange(24, dtype=np.int8).reshape(2, 3, 4),
}  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@pytest.mark.parametrize("name", ["savez", "savez_compressed"])
def test_archives_are_numpys(tmp_path: Path, name: str, nprocs: int) -> None:
    def main(proc: bsp.Process) -> Any:
        arrays = {key: ba.asarray(each, grid=(2,) * each.ndim) for key, each in ARCHIVED.items()}
        getattr(np, name)(tmp_path / "x", arrays["a"], arrays["b"] + 1, **arrays)
        getattr(ba, name)(tmp_path / "y.npz")
        return {key: each.compute() for key, each in ba.load(tmp_path / "x.npz").items()}

    want = {"arr_0": ARCHIVED["a"], "arr_1": ARCHIVED["b"] + 1, **ARCHIVED}
    results = bsp.run(main, nprocs=nprocs)
    with np.load(tmp_path / "x.npz") as found, zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None
        for loaded in (dict(found), *results):
            assert loaded.keys() == want.keys()
            for key, each in want.items():
                assert (loaded[key].dtype, loaded[key].shape) == (each.dtype, each.shape)
                np.testing.assert_array_equal(loaded[key], each)
    assert list(np.load(tmp_path / "y.npz")) == []


def test_archives_of_numpy_are_read_and_equal_arrays_are_equal_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", **ARCHIVED)
    np.savez_compressed(tmp_path / "small.npz", **ARCHIVED)

    def main(proc: bsp.Process) -> Any:
        arrays = {key: ba.asarray(each) for key, each in ARCHIVED.items()}
        ba.savez(tmp_path / f"{proc.nprocs}.npz", **arrays)
        return [
            {key: each.compute() for key, each in ba.load(tmp_path / f"{name}.npz").items()}
            for name in ("plain", "small")
        ]

    for nprocs in (1, 3):
        for both in bsp.run(main, nprocs=nprocs):
            for found in both:
                for key, each in ARCHIVED.items():
                    np.testing.assert_array_equal(found[key], each)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "3.npz").read_bytes()


def test_an_archive_is_used_as_numpys_is(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **ARCHIVED)
    with np.load(tmp_path / "x.npz") as theirs, ba.load(tmp_path / "x.npz") as ours:
        assert ours.files == theirs.files and list(ours) == list(theirs)
    ours.close()
    np.testing.assert_array_equal(ours["a"].compute(), ARCHIVED["a"])


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_grid_that_does_not_fit_is_told_as_elsewhere(nprocs: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    message = told(LayoutError, lambda path: ba.load(path, grid=(2, 2, 2)), nprocs, tmp_path / "x.npy")
    assert "grid=(2, 2, 2) of an array of shape (4, 3)" in message


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_archives_are_read_alike_compressed_or_not(tmp_path: Path, write: Callable[..., None]) -> None:
    write(tmp_path / "x.npz", big=np.arange(5, dtype=">f4"))
    assert alike(lambda: ba.load(tmp_path / "x.npz")["big"], 3).dtype.str == "<f4"
    write(tmp_path / "x.npz", text=np.array(["a"]))
    assert "arrays hold numbers; the file has <U1" in told(FormatError, ba.load, 3, tmp_path / "x.npz")


def test_the_long_end_of_an_archive_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of one with more than 65,535 arrays or 4 GB."""
    monkeypatch.setattr(npz, "_MANY", 1)

    def main(proc: bsp.Process) -> None:
        ba.savez(tmp_path / "x", a=ba.arange(9), b=ba.arange(3))

    bsp.run(main, nprocs=2)
    text = (tmp_path / "x.npz").read_bytes()
    assert b"PK\x06\x06" in text
    (tmp_path / "x.npz").write_bytes(text[:-14] + b"\xff\xff\xff\xff" + text[-10:])  # a count that has no room
    with np.load(tmp_path / "x.npz") as found:
        np.testing.assert_array_equal(found["a"], np.arange(9))
        assert sorted(found) == ["a", "b"]


_large = np.random.default_rng(5).integers(-9, 9, (211, 90)).astype(float)
CHANGED: dict[str, tuple[np.ndarray, Any]] = {  # arrays, and their grids: by rows, by columns, both, whole everywhere
    "rows": (_large, None), "columns": (_large, (1, 3)), "blocks": (_large, (2, 2)), "cyclic": (_large, (9, 1)),
    "fortran": (np.asfortranarray(_large), None), "swapped": (_large.astype(">f8"), None),
    "small": (np.arange(12.0), None), "vector": (_large.reshape(-1), None), "number": (np.array(2.5), None),
    "bools": (_large > 0, None), "dates": (_large.astype("M8[D]"), None), "empty": (np.zeros((0, 3)), None),
}  # fmt: skip


def _with_a_byte_changed(path: Path, at: int) -> None:
    text = bytearray(path.read_bytes())
    text[at] ^= 1
    path.write_bytes(text)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_byte_of_an_archive_is_found(tmp_path: Path, name: str, nprocs: int) -> None:
    """A changed byte is found by the CRC-32 of its member, as NumPy does, also outside of what a process reads."""
    array, grid = CHANGED[name]
    path = tmp_path / "x.npz"
    np.savez(path, first=_large[:20], x=array)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("x.npy")
    start = member.header_offset + 30 + int.from_bytes(whole[member.header_offset + 26 :][:2], "little")
    start += int.from_bytes(whole[member.header_offset + 28 :][:2], "little")
    places = [start + 60, *np.linspace(start + 128, start + member.file_size - 1, 7).astype(int).tolist()]
    places = places[: 1 if name == "empty" else None]

    def load(proc: bsp.Process) -> Any:
        return ba.load(path, grid=grid)["x"].compute()

    def fails(proc: bsp.Process) -> str:
        with pytest.raises(FormatError) as caught:
            ba.load(path, grid=grid)
        return str(caught.value)

    for found in bsp.run(load, nprocs=nprocs):
        np.testing.assert_array_equal(found, array)
    for place in places:
        _with_a_byte_changed(path, place)
        with pytest.raises((zipfile.BadZipFile, ValueError, SyntaxError, tokenize.TokenError)), np.load(path) as theirs:
            theirs["x"]
        (wrong,) = set(bsp.run(fails, nprocs=nprocs))
        if place > start + 127:
            assert f"load({str(path)!r}), member 'x.npy': Bad CRC-32: it has changed" in wrong
        path.write_bytes(whole)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_changed_byte_of_a_compressed_archive_is_found(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "x.npz"
    array = np.random.default_rng(6).integers(0, 4, 300)
    np.savez_compressed(path, x=array)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("x.npy")
    first = member.header_offset + 30 + len(member.filename) + 20
    checksum = whole.index(b"PK\x01\x02") + 16

    def main(proc: bsp.Process) -> Any:
        try:
            return ba.load(path)["x"].compute()
        except FormatError as wrong:
            return str(wrong)

    assert all((found == array).all() for found in bsp.run(main, nprocs=nprocs))
    told = 0
    for place in [*range(first, first + member.compress_size, 7), checksum]:
        _with_a_byte_changed(path, place)
        for found in bsp.run(main, nprocs=nprocs):  # some bits of the format have no effect on what is decompressed
            told += isinstance(found, str)
            assert isinstance(found, str) or (place != checksum and np.array_equal(found, array)), place
        path.write_bytes(whole)
    assert told > nprocs * member.compress_size / 7 / 2


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_bytes_behind_an_array_in_an_archive_are_checked_and_missing_ones_found(tmp_path: Path, nprocs: int) -> None:
    text = io.BytesIO()
    np.save(text, _large)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("more.npy", text.getvalue() + b"more")
        archive.writestr("less.npy", text.getvalue()[:-8])
    with zipfile.ZipFile(tmp_path / "more.npz", "w") as archive:
        archive.writestr("more.npy", text.getvalue() + b"more")

    def main(proc: bsp.Process) -> Any:
        with pytest.raises(FormatError, match="it ends early"):
            ba.load(tmp_path / "x.npz")
        return ba.load(tmp_path / "more.npz")["more"].compute()

    for found in bsp.run(main, nprocs=nprocs):
        np.testing.assert_array_equal(found, _large)
    _with_a_byte_changed(tmp_path / "more.npz", (tmp_path / "more.npz").read_bytes().index(b"more", 100))

    def changed(proc: bsp.Process) -> None:
        with pytest.raises(FormatError, match=r"member 'more\.npy': Bad CRC-32"):
            ba.load(tmp_path / "more.npz")

    bsp.run(changed, nprocs=nprocs)


def test_checksums_take_no_superstep_and_rows_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", a=_large, b=_large.reshape(-1))

    def main(proc: bsp.Process) -> int:
        before = proc.superstep
        ba.load(tmp_path / "x.npz")
        return proc.superstep - before

    def twice(*_: Any) -> Any:
        raise AssertionError("a share is read for its checksum alone")

    monkeypatch.setattr(io_npy, "share", twice)
    assert bsp.run(main, nprocs=3) == [3, 3, 3]


def test_archives_are_read_without_values(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=_large, b=np.arange(3), c=np.asfortranarray(_large))
    shapes = []

    def main(proc: bsp.Process) -> None:
        shapes.append({name: each.shape for name, each in ba.load(tmp_path / "x.npz").items()})

    assert bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=True).per_superstep
    assert shapes == [{"a": (211, 90), "b": (3,), "c": (211, 90)}] * 3


@pytest.mark.parametrize("ending, library", [(".npy", "numpy"), *FORMATS])
def test_files_are_read_and_not_written_without_values(tmp_path: Path, ending: str, library: str) -> None:
    import_module(library)
    path, shapes = tmp_path / f"x{ending}", []
    alike(lambda: ba.save(path, _large), 1)

    def main(proc: bsp.Process) -> None:
        shapes.append(ba.load(path).shape)
        ba.save(path, ba.zeros((3, 2)))

    assert bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=True).per_superstep
    assert shapes == [_large.shape] * 3 and np.array_equal(alike(lambda: ba.load(path), 2), _large)


@pytest.mark.parametrize("ending, library", [(".npy", "numpy"), *FORMATS])
def test_a_run_without_values_sends_what_one_that_writes_sends(tmp_path: Path, ending: str, library: str) -> None:
    import_module(library)

    def sent(abstract: bool) -> list[tuple[int, int, int]]:
        rows = bsp.predict(
            lambda proc: ba.save(tmp_path / f"x{ending}", ba.ones((300, 20))),
            nprocs=3, machine=bsp.Machine(p=3), abstract=abstract,
        )  # fmt: skip
        return [(row["h_sent"], row["h_received"], row["messages"]) for row in rows]

    assert sent(False) == sent(True)


def test_wrong_archives(tmp_path: Path) -> None:
    (tmp_path / "no.npz").write_bytes(b"nothing")

    def main(proc: bsp.Process) -> None:
        x = ba.arange(5)
        with pytest.raises(FormatError, match=r"load\('.*no\.npz'\): this is no \.npz archive"):
            ba.load(tmp_path / "no.npz")
        with pytest.raises(FileNotFoundError):
            ba.load(tmp_path / "missing.npz")
        with pytest.raises(ValueError, match="Cannot use un-named variables and keyword arr_0"):
            np.savez(tmp_path / "x", x, arr_0=x)
        with pytest.raises(TypeError, match="savez: a path, for all processes open the file; not BytesIO"):
            np.savez(io.BytesIO(), x)
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            np.savez(tmp_path / "no folder" / "x", x)

    bsp.run(main, nprocs=3)


TEXTS: list[tuple[Any, dict[str, Any]]] = [
    (np.random.default_rng(0).normal(size=(17, 3)), {}),
    (np.arange(17), {"fmt": "%d"}),
    (np.arange(12.0).reshape(6, 2), {"fmt": ["%5.1f", "%g"], "delimiter": ", ", "header": "a b\nc", "footer": "end"}),
    (np.arange(6.0).reshape(3, 2), {"newline": "\r\n", "comments": "% ", "header": "x"}),
    (np.array([[1 + 2j, 3]]), {}),
    (np.zeros((0, 3)), {"header": "nothing"}),
    (np.arange(6.0), {"header": "größe → 1"}),
    (np.arange(2.0), {"encoding": "utf-16"}),  # process 0 of 3 has no rows
    (np.arange(6.0), {"encoding": "utf-16", "header": "a", "footer": "b"}),
]


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("ending", [".txt", ".gz", ".bz2", ".xz"])
def test_text_is_numpys(tmp_path: Path, nprocs: int, ending: str) -> None:
    def main(proc: bsp.Process) -> None:
        for k, (x, options) in enumerate(TEXTS):
            np.savetxt(tmp_path / f"ours{k}{ending}", ba.asarray(x, grid=(2,) * x.ndim), **options)

    bsp.run(main, nprocs=nprocs)
    opened = {".txt": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}[ending]
    for k, (x, options) in enumerate(TEXTS):
        np.savetxt(tmp_path / "theirs.txt", x, **options)
        with opened(tmp_path / f"ours{k}{ending}", "rb") as file:
            assert file.read() == (tmp_path / "theirs.txt").read_bytes()


def test_wrong_text(tmp_path: Path) -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.ones((4, 3)))
        with pytest.raises(ValueError, match="Expected 1D or 2D array, got 3D array instead"):
            np.savetxt(tmp_path / "x", x[None])
        with pytest.raises((ValueError, AttributeError, TypeError), match="fmt"):
            np.savetxt(tmp_path / "x", x, fmt=["%d"])
        with pytest.raises(TypeError, match="savetxt: a path"):
            np.savetxt(io.StringIO(), x)
        with pytest.raises(UnicodeEncodeError, match="latin-1"):
            np.savetxt(tmp_path / "x", x, header="→", encoding="latin1")
        gone = ba.asarray(np.array([1, 2, np.nan]))  # on the last process alone
        with pytest.raises(FormatError, match=r"savetxt\(.*\): cannot convert float NaN to integer"):
            np.savetxt(tmp_path / "x", gone, fmt="%d")
        with pytest.raises(FormatError, match=r"tofile\(.*\): cannot convert float NaN to integer"):
            gone.tofile(tmp_path / "x", sep=" ", format="%d")

    bsp.run(main, nprocs=3)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("nprocs", [1, 3])
def test_tofile_writes_memory_or_text(tmp_path: Path, nprocs: int) -> None:
    x = np.arange(21.0).reshape(7, 3) / 4

    def main(proc: bsp.Process) -> None:
        array = ba.asarray(x, grid=(3, 2))
        array.tofile(tmp_path / "memory")
        array.tofile(tmp_path / "text", sep=", ", format="%.3f")
        (array > 2).tofile(tmp_path / "plain", "; ")

    bsp.run(main, nprocs=nprocs)
    assert (tmp_path / "memory").read_bytes() == x.tobytes()
    for name, values, options in (("text", x, {"sep": ", ", "format": "%.3f"}), ("plain", x > 2, {"sep": "; "})):
        values.tofile(tmp_path / "theirs", **options)
        assert (tmp_path / name).read_bytes() == (tmp_path / "theirs").read_bytes()


def test_numpys_save_adds_npy_to_any_other_name(tmp_path: Path) -> None:
    def main(proc: bsp.Process) -> None:
        np.save(tmp_path / "x.h5", ba.arange(7))
        np.save(tmp_path / "y.npy", ba.arange(7))

    bsp.run(main, nprocs=2)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.h5.npy", "y.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "x.h5.npy"), np.arange(7))


def test_archives_and_text_without_values(tmp_path: Path) -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(5000, 3))
        ba.savez(tmp_path / "x", x)
        ba.savez_compressed(tmp_path / "y", x)
        ba.savetxt(tmp_path / "x.txt", x)
        x.tofile(tmp_path / "x.bin")

    assert bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=True).per_superstep
    assert not list(tmp_path.iterdir())


LENGTHS_AND_KINDS = ["?", "i1", "u8", "f2", "f8", "g", "D", "G", ">f8", "M8[D]", "M8[h]", "m8[s]", ">M8[s]"]


@pytest.mark.parametrize("ending", [".npy", ".npz", ".h5", ".zarr", ".parquet"])
def test_what_a_format_takes_it_gives_back(tmp_path: Path, ending: str) -> None:
    """Dtype, shape and values; what it does not hold is one TypeError before anything is written."""
    path = tmp_path / f"x{ending}"

    def main(proc: bsp.Process, x: np.ndarray) -> Any:
        try:
            ba.savez(path, x=ba.asarray(x)) if ending == ".npz" else ba.save(path, ba.asarray(x))
        except TypeError as error:
            return str(error)
        found = ba.load(path)
        return np.array((found["x"] if ending == ".npz" else found).compute())

    for name in LENGTHS_AND_KINDS:
        x = (np.arange(7) % 2 if name == "?" else np.arange(7)).astype(name)
        refused = (
            x.dtype.kind in {".h5": "mM", ".parquet": "cmM"}.get(ending, "")
            or (x.dtype.char in "gG" and ending in (".zarr", ".parquet"))
        )  # fmt: skip
        for found in bsp.run(main, x, nprocs=3):
            if refused:
                assert "hold no" in found and not path.exists(), (name, found)
            else:
                assert (found.dtype.newbyteorder("="), found.shape) == (x.dtype.newbyteorder("="), x.shape), name
                assert np.array_equal(found, x), name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def test_a_format_of_ones_own_is_one_call_of_register(tmp_path: Path) -> None:
    def read_pairs(path: Any, *, grid: Any = None, process_grid: Any = None, scale: float = 1.0) -> Any:
        return ba.asarray(scale * np.loadtxt(path), grid=grid)

    def write_pairs(path: Any, x: Any) -> None:
        values = x.compute()
        if bsp.process().pid == 0:
            np.savetxt(path, values)
        bsp.process().sync()

    registry.register(".pairs", read=read_pairs, write=write_pairs)
    try:
        with pytest.raises(ValueError, match=r"files that end in \.pairs are read and written by .* already"):
            registry.register(".PAIRS".lower(), read=read_pairs)
        path = tmp_path / "x.pairs"

        def main(proc: bsp.Process) -> np.ndarray:
            ba.save(path, ba.arange(12.0).reshape((6, 2)))
            return ba.load(path, scale=3.0, grid=(3, 1)).compute()

        for found in bsp.run(main, nprocs=3):
            np.testing.assert_array_equal(found, 3 * np.arange(12.0).reshape(6, 2))
    finally:
        del registry.FORMATS[".pairs"]


def test_every_format_that_is_registered_is_reached_by_its_ending() -> None:
    for ending, known in registry.FORMATS.items():
        assert ending == ending.lower() and ending.startswith(".")
        assert known != registry.Format()
    for name, function in registry.FUNCTIONS.items():
        assert getattr(ba, name) is function
    with pytest.raises(ValueError, match="read_csv is the name of another format's function"):
        registry.register(functions=(ba.read_csv,))


def test_a_number_in_the_other_byte_order_is_saved_with_its_value(tmp_path: Path) -> None:
    x = np.array(43.0, dtype=np.dtype(float).newbyteorder("S"))

    def main(proc: bsp.Process) -> np.dtype[Any]:
        array = ba.asarray(x)
        ba.save(tmp_path / "x.npy", array)
        ba.savez(tmp_path / "x.npz", x=array)
        return array.compute().dtype

    assert bsp.run(main, nprocs=2) == [x.dtype, x.dtype]
    assert np.load(tmp_path / "x.npy") == np.load(tmp_path / "x.npz")["x"] == 43
