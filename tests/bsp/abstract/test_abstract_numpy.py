"""Inside `abstract_numpy()` ordinary scripts get shapes; outside nothing has changed.  Whole programs run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from abstract_oracle import same

from bsp.abstract import (
    INDEX_BYTES,
    AbstractArray,
    AbstractGenerator,
    abstract_generator,
    abstract_numpy,
    active,
    counter,
    expect,
    expectation,
)
from bsp.errors import ValueNeeded

BIG = INDEX_BYTES  # as a number of elements, beyond the limit for every dtype of two bytes or more


def names() -> dict[tuple[str, str], Any]:
    return {(module.__name__, name): value for module in (np, np.random) for name, value in vars(module).items()}


# ------------------------------------------------------------------------------------ the names


def test_every_name_is_what_it_was_afterwards() -> None:
    before = names()
    with abstract_numpy():
        assert active() and np.zeros is not before["numpy", "zeros"]
        with pytest.raises(ZeroDivisionError), abstract_numpy():
            1 // 0  # noqa: B018
        assert active() and isinstance(np.zeros(3), AbstractArray)
    assert not active()
    after = names()
    assert before.keys() == after.keys() and all(before[name] is after[name] for name in before)


def test_after_an_exception_too() -> None:
    zeros = np.zeros
    with pytest.raises(KeyError), abstract_numpy():
        raise KeyError
    assert np.zeros is zeros and not active()


def test_a_name_that_the_program_has_kept_is_the_real_function_again() -> None:
    with abstract_numpy():
        from numpy import zeros

        assert isinstance(zeros(3), AbstractArray)
    assert type(zeros(3)) is np.ndarray and zeros is not np.zeros


def test_libraries_call_the_real_functions() -> None:
    called: dict[str, Any] = {"__name__": "scipy.somewhere"}
    exec("import numpy as np\ndef f():\n    return np.zeros(3)", called)
    with abstract_numpy():
        assert type(called["f"]()) is np.ndarray
        called["__name__"] = "bsp.algorithms.block"
        assert type(called["f"]()) is np.ndarray
        called["__name__"] = "bspline.block"
        assert isinstance(called["f"](), AbstractArray)


# ---------------------------------------------------------------------------------------- data

DATA = {
    "zeros": lambda: np.zeros((3, 4)),
    "zeros int": lambda: np.zeros(5, dtype=int),
    "ones": lambda: np.ones(shape=3, dtype="f4"),
    "empty": lambda: np.empty([2, 0]),
    "full": lambda: np.full((2, 3), 7),
    "full float": lambda: np.full(2, 7, "f4"),
    "zeros_like": lambda: np.zeros_like(np.arange(3)),
    "ones_like": lambda: np.ones_like([1.0, 2.0], dtype=int),
    "full_like": lambda: np.full_like(np.arange(3), 0.5, dtype=float),
    "empty_like": lambda: np.empty_like(np.arange(3.0), shape=(2, 2)),
    "rand": lambda: np.random.rand(3, 2),
    "randn": lambda: np.random.randn(3),
    "normal": lambda: np.random.normal(0, 1, (3, 2)),
    "normal of arrays": lambda: np.random.normal(np.arange(3), 1.0),
    "uniform": lambda: np.random.uniform(size=3),
    "randint": lambda: np.random.randint(0, 10, 5),
    "randint dtype": lambda: np.random.randint(0, 10, (5, 1), dtype=np.int8),
    "random_sample": lambda: np.random.random_sample(3),
    "permutation": lambda: np.random.permutation(7),
    "choice": lambda: np.random.choice(7, 3),
    "poisson": lambda: np.random.poisson(3.0, 4),
    "rng.normal": lambda: np.random.default_rng(3).normal(size=(2, 3)),
    "rng.random": lambda: np.random.default_rng(3).random((2, 3), dtype=np.float32),
    "rng.integers": lambda: np.random.default_rng(3).integers(0, 9, 4),
    "rng.integer": lambda: np.random.default_rng(3).integers(9),
    "rng.standard_normal": lambda: np.random.default_rng(3).standard_normal(4),
    "rng.permutation": lambda: np.random.default_rng(3).permutation(np.arange(12).reshape(3, 4)),
    "rng.choice": lambda: np.random.default_rng(3).choice(np.arange(12.0), 3, replace=False),
    "rng.choice axis": lambda: np.random.default_rng(3).choice(np.arange(12).reshape(3, 4), 2, axis=1),
    "rng.multivariate_normal": lambda: np.random.default_rng(3).multivariate_normal([0.0, 0.0], np.eye(2), 5),
    "rng.dirichlet": lambda: np.random.default_rng(3).dirichlet([1, 2, 3]),
    "rng.multinomial": lambda: np.random.default_rng(3).multinomial(9, [0.5, 0.5], 4),
    "rng.exponential": lambda: np.random.default_rng(3).exponential(2.0, 4),
    "Generator": lambda: np.random.Generator(np.random.PCG64(3)).random(3),
    "RandomState": lambda: np.random.RandomState(3).rand(3),
    "frombuffer": lambda: np.frombuffer(b"12345678", np.uint8),
    # indices beyond the limit
    "arange": lambda: np.arange(BIG),
    "arange steps": lambda: np.arange(0.0, BIG, 0.5),
    "arange dtype": lambda: np.arange(3, BIG, dtype=np.int16),
    "linspace": lambda: np.linspace(0, 1, BIG),
    "linspace step": lambda: np.linspace(0, 1, BIG, retstep=True)[0],
    "eye": lambda: np.eye(300),
    "identity": lambda: np.identity(300, np.float32),
    "tri": lambda: np.tri(300, 200),
    "array": lambda: np.array([0.0] * BIG),
    "indices": lambda: np.indices((100, 100)),
    "meshgrid": lambda: np.meshgrid(np.arange(100), np.arange(100)),
    "fromfunction": lambda: np.fromfunction(lambda i, j: i + j, (100, 100)),
    "triu_indices": lambda: np.triu_indices(400),
    "fromiter": lambda: np.fromiter(range(BIG), int),
}  # fmt: skip


@pytest.mark.parametrize("made", DATA)
def test_data_is_abstract_and_like_numpys(made: str) -> None:
    real = DATA[made]()
    with abstract_numpy():
        same(real, DATA[made]())


SMALL = {
    "arange": lambda: np.arange(10, 20, 2),
    "linspace": lambda: np.linspace(0, 1, 5),
    "eye": lambda: np.eye(3, k=1),
    "array": lambda: np.array([[1, 2], [3, 4]], dtype=float),
    "asarray": lambda: np.asarray((1, 2)),
    "meshgrid": lambda: np.meshgrid([1, 2], [3.0]),
    "indices": lambda: np.indices((2, 2)),
    "triu_indices": lambda: np.triu_indices(4),
    "objects": lambda: np.empty(3, dtype=object),
    "full objects": lambda: np.full(2, None),
}


@pytest.mark.parametrize("made", SMALL)
def test_small_index_like_arrays_stay_real(made: str) -> None:
    real = SMALL[made]()
    with abstract_numpy():
        ours = SMALL[made]()
    np.testing.assert_equal(ours, real)


def test_creating_wrongly_is_numpys_error() -> None:
    with abstract_numpy():
        for wrong in (lambda: np.zeros(-1), lambda: np.full((2, 3), np.arange(2)), lambda: np.empty((2, -1))):
            with pytest.raises(ValueError):
                wrong()
        with pytest.raises(TypeError):
            np.zeros(2.5)
        with pytest.raises(TypeError):
            np.random.normal(scales=3)
        with pytest.raises(ValueError, match="not compatible"):
            np.random.normal(np.arange(3), 1, size=2)
        with pytest.raises(ValueNeeded):
            np.zeros(np.zeros(3, int)[0])


def test_lists_with_abstract_numbers_make_abstract_arrays() -> None:
    with abstract_numpy():
        x = np.zeros(3)
        assert repr(np.array([x.sum(), 1])) == "<float64[2]>"
        assert repr(np.asarray([[x.sum(), 1], [2, x.max()]], dtype="f4")) == "<float32[2, 2]>"
        assert repr(np.array([x, x])) == "<float64[2, 3]>"
        assert repr(np.stack([[x.sum(), 1], [2, 3]])) == "<float64[2, 2]>"
        assert repr(np.concatenate([[x.sum()], [1]])) == "<float64[2]>"
        assert repr(np.array([1 + 2j, x.sum()])) == "<complex128[2]>"
        with pytest.raises(ValueError, match="inhomogeneous"):
            np.array([x, x.sum()])
        assert np.asarray(x) is x and not np.shares_memory(np.array(x), x)
        assert repr(np.asarray(x, dtype=int)) == "<int64[3]>"
        assert repr(np.array(x, ndmin=2)) == "<float64[1, 3]>"


def test_python_numbers_drawn_are_weak_as_pythons_are() -> None:
    with abstract_numpy():
        single = np.zeros(3, np.float32)
        assert (single * np.random.normal()).dtype == np.float32
        assert (single * np.random.default_rng().normal()).dtype == np.float32
        assert (single * np.zeros(1)[0]).dtype == np.float64


def test_files_are_read_and_carried(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    np.savez(tmp_path / "b.npz", x=np.ones(3, int), y=np.ones((2, 2)))
    np.savetxt(tmp_path / "c.txt", np.ones((4, 2)))
    np.ones(5, "f4").tofile(tmp_path / "d.bin")
    with abstract_numpy():
        assert repr(np.load(tmp_path / "a.npy")) == "<float64[3, 2]>"
        with np.load(tmp_path / "b.npz") as archive:
            assert {name: repr(archive[name]) for name in archive} == {"x": "<int64[3]>", "y": "<float64[2, 2]>"}
            assert len(archive) == 2 and archive.files == ["x", "y"]
        assert repr(np.loadtxt(tmp_path / "c.txt")) == repr(np.genfromtxt(tmp_path / "c.txt")) == "<float64[4, 2]>"
        assert repr(np.fromfile(tmp_path / "d.bin", np.float32)) == "<float32[5]>"


def test_shuffles_of_real_data_are_real() -> None:
    with abstract_numpy():
        order = np.arange(50)
        np.random.default_rng(7).shuffle(order)
        x = np.zeros(50)
        np.random.shuffle(x)
        np.random.seed(3)
    assert not np.array_equal(order, np.arange(50)) and np.array_equal(np.sort(order), np.arange(50))


def test_a_generator_is_taken_for_numpys() -> None:
    rng = abstract_generator(3)
    assert rng.spawn(2)[1].normal().is_scalar and abstract_generator(rng) is rng and rng.bytes(3) == bytes(3)
    with abstract_numpy():
        assert isinstance(np.random.default_rng(rng), np.random.Generator) and isinstance(rng, AbstractGenerator)
        out = np.empty(3)
        assert rng.random(out=out) is out
    for wrong in (lambda: rng.choice(0, 3), lambda: rng.choice(2, 3, replace=False)):
        with pytest.raises(ValueError):
            wrong()


# ---------------------------------------------------------------------------------- expectations


def test_a_real_condition_is_itself() -> None:
    assert expect(3 > 2, times=0) is True
    assert expect(np.float64(2) > 3, times=5) is False


def test_an_abstract_condition_holds_so_many_times_and_again() -> None:
    condition = AbstractArray(3).sum() > 0

    def rounds(times: int) -> int:
        count = 0
        while expect(condition, times=times):
            count += 1
        return count

    assert [rounds(4), rounds(4), rounds(0), rounds(1)] == [4, 4, 0, 1]


def test_every_place_and_process_counts_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = AbstractArray(1, bool)[0]
    pid = 0
    monkeypatch.setattr(expectation, "current", lambda: pid)

    def one() -> bool:
        return expect(condition, times=1)

    assert [one(), expect(condition, times=1), expect(condition, times=1)] == [True] * 3
    pid = 1
    assert one() is True
    pid = 0
    assert one() is False
    assert one() is True
    expectation.forget()
    assert one() is True


@pytest.mark.parametrize("times", [2.0, "3", True, None])
def test_times_is_an_integer(times: Any) -> None:
    with pytest.raises(TypeError, match="times is an integer, how often"):
        expect(True, times=times)


def test_times_is_not_negative() -> None:
    with pytest.raises(ValueError, match=r"expect\(times=-1\): a condition cannot hold less than 0 times"):
        expect(True, times=-1)


def test_an_array_is_no_condition() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        expect(AbstractArray(3) > 0, times=1)


# ----------------------------------------------------------------------------------- whole programs


def test_power_iteration_by_expectation() -> None:
    n = 50

    def largest_eigenvalue() -> Any:
        a = np.random.default_rng(0).standard_normal((n, n))
        a = a + a.T
        x, value, change = np.ones(n), 0.0, np.inf
        while expect(change > 1e-9, times=20):
            y = a @ x
            new = x @ y / (x @ x)
            change, value = np.abs(new - value), new
            x = y / np.linalg.norm(y)
        return value

    counter.take()
    with abstract_numpy():
        value = largest_eigenvalue()
    # the first condition is real, so that there is a round before the 20 expected
    done = counter.take()
    assert (repr(value), done.blas2) == ("<float64>", 21 * 2 * n * n)
    assert done.blas1 == 21 * (4 * n + 2 * n) and not done.upper_bound


def test_newtons_method_for_logistic_regression() -> None:
    n, d, rounds = 1000, 8, 5
    counter.take()
    with abstract_numpy():
        rng = np.random.default_rng(1)
        x = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
        y = (rng.random(n) < 0.5).astype(float)
        beta = np.zeros(d)
        for _ in range(rounds):
            mu = 1 / (1 + np.exp(-(x @ beta)))
            gradient = x.T @ (y - mu)
            hessian = x.T @ ((mu * (1 - mu))[:, None] * x)
            beta += np.linalg.solve(hessian, gradient)
        deviance = -2 * np.sum(np.where(y > 0, np.log(mu), np.log(1 - mu)))
        errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    done = counter.take()
    assert f"{deviance:.3f} {errors}" == "<float64> <float64[8]>"
    assert done.blas2 == pytest.approx(rounds * (2 * n * d + 2 * n * d + 2 * d**3 / 3 + 2 * d * d) + 2 * d**3)
    assert done.blas3 == rounds * 2 * n * d * d


def test_a_stencil() -> None:
    n, sweeps = 64, 10
    before = counter.live_bytes
    counter.take()
    with abstract_numpy():
        u = np.zeros((n + 2, n + 2))
        u[0] = 1.0
        mode = np.sin(np.pi * np.arange(n + 2) / (n + 1))
        u[1:-1, 1:-1] = np.outer(mode, mode)[1:-1, 1:-1]
        for _ in range(sweeps):
            u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
        error = np.max(np.abs(u[1:-1, 1:-1] - mode[1:-1, None]))
    assert f"{error:.1e}" == "<float64>"
    assert counter.live_bytes - before == u.nbytes
    done = counter.take()
    assert done.elementwise == sweeps * (3 + 4) * n * n + 2 * n * n
    with pytest.raises(ValueError, match=r"could not broadcast input array from shape \(64,64\) into shape \(63,64\)"):
        u[2:-1, 1:-1] = u[1:-1, 1:-1]


def test_a_script_that_imports_names_runs_in_the_context(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "from numpy import zeros, linspace\nfrom numpy.random import default_rng\n"
        "x = zeros(1000) + default_rng(1).normal(size=1000)\n"
        "print(x, linspace(0, 1, 3))\nif x[0] > 0:\n    pass\n"
    )
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "import runpy, sys\nfrom bsp.abstract import abstract_numpy\n"
            "with abstract_numpy():\n    runpy.run_path(sys.argv[1], run_name='__main__')\n",
            str(script),
        ],
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "<float64[1000]> [0.  0.5 1. ]\n"
    assert "ValueNeeded: a branch needs the values of <bool> at program.py:5" in ran.stderr
