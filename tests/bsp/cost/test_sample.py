"""Predictions of very wide worlds: a few processes run, and what they show for all is what all would do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bsp
import bsp.arrays as ba
from bsp.algorithms import matmul as mm
from bsp.cost.prediction import predict as predicting
from bsp.cost.prediction.sample import _ROOTED, _SHIFTED, CannotStand, Sample, Sent
from bsp.values.effects import Send

EXAMPLES = Path(__file__).parents[3] / "examples"
MACHINE = bsp.Machine(p=1 << 20, name="wide")


def both(main: Callable[..., Any], p: int, monkeypatch: pytest.MonkeyPatch, **more: Any) -> list[bsp.Prediction]:
    """The prediction with all processes, and that by a sample."""
    monkeypatch.setattr(predicting, "WIDE", 8)
    return [
        bsp.predict(main, nprocs=p, machine=MACHINE, elements=p, abstract=True, every_process=every, **more)
        for every in (True, False)
    ]


def h_of(found: bsp.Prediction) -> list[int]:
    return [max(row["h_sent"], row["h_received"]) for row in found]


def ring(proc: bsp.Process) -> None:
    x = proc.coarray(3)
    x.put((proc.pid + 1) % proc.nprocs, np.ones(3))
    proc.sync()


def line(proc: bsp.Process) -> None:
    """Neighbours on both sides, by messages whose shapes the receiver uses."""
    for other in (proc.pid - 1, proc.pid + 1):
        if 0 <= other < proc.nprocs:
            proc.send(other, np.ones(5))
    proc.sync()
    for message in proc.inbox:
        proc.send(message.source, np.concatenate([message.payload, message.payload]))
    proc.sync()
    assert all(message.payload.shape == (10,) for message in proc.inbox)
    assert len(proc.inbox) == 2 - (proc.pid in (0, proc.nprocs - 1))


def opposite(proc: bsp.Process) -> None:
    proc.send(proc.nprocs - 1 - proc.pid, np.ones(7))
    proc.sync()
    assert [message.source for message in proc.inbox] == [proc.nprocs - 1 - proc.pid]


def to_root(proc: bsp.Process) -> None:
    proc.send(0, np.ones(4))
    proc.sync()
    assert [each.source for each in proc.inbox] == ([*range(proc.nprocs)] if proc.pid == 0 else [])


def to_all(proc: bsp.Process) -> None:
    for dest in range(proc.nprocs):
        proc.send(dest, np.ones(2))
    proc.sync()
    assert [each.source for each in proc.inbox] == [*range(proc.nprocs)]


def reads(proc: bsp.Process) -> None:
    x = proc.coarray(6)
    proc.sync()
    found = x.get((proc.pid + 2) % proc.nprocs, at=slice(0, 4))
    all_of = x.get_each([(proc.pid + 1) % proc.nprocs] * 2, [0, 5])
    proc.sync()
    assert found.value.shape == (4,) and all_of.value.shape == (2,)


def collectives(proc: bsp.Process) -> None:
    """Collectives of arrays, by algorithms that send arrays and nothing else."""
    x = np.ones((4, 5))
    assert proc.broadcast(x if proc.pid == 0 else None).shape == (4, 5)
    assert proc.allreduce(x).shape == (4, 5)
    proc.reduce(x, "max", root=0)
    assert proc.scan(np.ones(3)).shape == proc.exscan(np.ones(3)).shape == (3,)
    assert len(proc.allgather(np.ones(2), algorithm="one-phase")) == proc.nprocs
    assert [each.shape for each in proc.alltoall([np.ones(3)] * proc.nprocs, algorithm="one-phase")] == [
        (3,)
    ] * proc.nprocs
    found = proc.gather(np.ones(6), algorithm="one-phase")
    assert (found is None) == (proc.pid > 0)
    mine, counts = proc.total_exchange(np.ones((2 * proc.nprocs, 3)), [2] * proc.nprocs, algorithm="one-phase")
    assert mine.shape == (2 * proc.nprocs, 3) and counts == [2] * proc.nprocs


def arrays(proc: bsp.Process) -> None:
    x = ba.ones((proc.nprocs * 40, 3))
    y = (x - x.mean(axis=0)).persist()
    ba.sum(y.T @ y).compute()
    ba.roll(y[:, 0], 1).persist()


@pytest.mark.parametrize("p", [30, 64, 101])
@pytest.mark.parametrize("main", [ring, line, opposite, to_root, to_all, reads, arrays])
def test_a_sample_predicts_what_all_processes_do(
    main: Callable[..., Any], p: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    every, some = both(main, p, monkeypatch)
    assert some.supersteps == every.supersteps
    assert h_of(some) == h_of(every)
    assert some.messages == every.messages
    assert some.record["words_by_level"] == every.record["words_by_level"]
    assert some.seconds == pytest.approx(every.seconds, rel=0.02)
    assert f"8 of {p} processes ran; the others are taken to do as those" in some.record["notes"]


def products(proc: bsp.Process) -> None:
    """Grids of processes, partial sums that are merged, results that all get, in ragged blocks."""
    p = proc.nprocs
    x, w = ba.ones((p * 30 + 7, 41)), ba.ones((41, 300))
    tall = (x @ w).persist()
    ba.sum(tall.T @ tall, axis=0).compute()
    ba.linalg.solve(x.T @ x, x.T @ (x @ ba.ones(41))).compute()
    tall[:, ::-1].T.reshape(-1).persist()
    ba.concatenate([x[3:], x[::2]]).persist()


@pytest.mark.thorough
@pytest.mark.parametrize("p", [30, 64, 101])
@pytest.mark.parametrize(("machine", "elements"), [(MACHINE, 2), (MACHINE, 7), ("cluster16", 16)])
def test_a_sample_counts_what_crosses_between_few_elements(
    p: int, machine: Any, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece crosses once to each element that has receivers of it, and is copied there for the others."""
    monkeypatch.setattr(predicting, "WIDE", 8)
    every, some = (
        bsp.predict(products, nprocs=p, machine=machine, elements=elements, abstract=True, every_process=each)
        for each in (True, False)
    )
    assert h_of(some) == h_of(every)
    assert [row["messages"] for row in some] == [row["messages"] for row in every]
    assert some.record["levels"] == every.record["levels"]
    assert [row["words_by_level"] for row in some] == [row["words_by_level"] for row in every]
    assert some.record["per_process"]["sent"] == every.record["per_process"]["sent"]
    assert some.record["per_process"]["received"] == every.record["per_process"]["received"]


@pytest.mark.parametrize("p", [30, 64])
@pytest.mark.parametrize("method", [1, 2, 4, "recursive", "summa"])
def test_a_product_has_the_words_that_are_counted_for_it(p: int, method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(proc: bsp.Process) -> None:
        found = mm.matmul(
            ba.ones((230, 190)), ba.ones((190, 210)), method, memory=60_000 if method == "recursive" else 0
        )
        assert ba.sum(found).compute().shape == ()

    every, some = both(main, p, monkeypatch)
    assert h_of(some) == h_of(every)
    assert some.seconds == pytest.approx(every.seconds, rel=0.05)
    assert some.peak_bytes == pytest.approx(every.peak_bytes, rel=0.2)


def numbers(proc: bsp.Process) -> None:
    p, k = proc.nprocs, proc.pid
    assert proc.allreduce(1) == p and proc.allreduce(k, "max") == p - 1
    assert proc.reduce(2, root=0) == (2 * p if k == 0 else None)
    assert (proc.scan(1), proc.exscan(1)) == (k + 1, k)
    assert proc.allgather("x") == ["x"] * p
    assert proc.gather(3) == ([3] * p if k == 0 else None)
    assert proc.alltoall([k] * p)[0] == 0
    assert proc.allreduce(["a"], lambda a, b: a + b) == ["a"] * p
    assert proc.allreduce(np.ones((4, 5))).shape == (4, 5)
    assert proc.scan(np.ones(3)).shape == (3,)


@pytest.mark.parametrize("p", [30, 64, 101])
def test_collectives_of_arrays_cost_what_they_cost(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    every, some = both(collectives, p, monkeypatch)
    assert h_of(some) == h_of(every)
    assert some.seconds == pytest.approx(every.seconds, rel=0.05)


BUNDLED = {
    "gather": lambda proc: proc.gather(np.ones(6), algorithm="tree-4"),
    "gather of numbers": lambda proc: proc.gather(1.0, algorithm="tree-2"),
    "scatter": lambda proc: proc.scatter(
        [np.ones(7) for _ in range(proc.nprocs)] if not proc.pid else None, algorithm="tree-4"
    ),
    "allgather": lambda proc: proc.allgather(np.ones(3), algorithm="doubling"),
    "alltoall": lambda proc: proc.alltoall([np.ones(2) for _ in range(proc.nprocs)], algorithm="logarithmic"),
}


@pytest.mark.parametrize("p", [64, 300])
@pytest.mark.parametrize("name", sorted(BUNDLED))
def test_words_of_bundles_are_with_their_pickles(name: str, p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    every, some = both(BUNDLED[name], p, monkeypatch)
    assert some.words == pytest.approx(every.words, rel=0.25)


@pytest.mark.parametrize("p", [64, 200])
@pytest.mark.parametrize("machine", [MACHINE, "cluster16"])
def test_collectives_between_few_elements_take_their_time(
    p: int, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many processes share an element, whose messages all count."""
    monkeypatch.setattr(predicting, "WIDE", 8)

    def main(proc: bsp.Process) -> None:
        proc.alltoall([np.ones(3)] * proc.nprocs, algorithm="one-phase")
        proc.allgather(np.ones(2), algorithm="one-phase")
        proc.broadcast(np.ones(200) if proc.pid == 0 else None, algorithm="two-phase")

    every, some = (
        bsp.predict(main, nprocs=p, machine=machine, elements=2, abstract=True, every_process=each)
        for each in (True, False)
    )
    assert h_of(some) == h_of(every)
    assert some.seconds == pytest.approx(every.seconds, rel=0.1)


def of_roots(proc: bsp.Process) -> None:
    """Collectives whose algorithm the root chooses by a size that no other process has."""
    assert proc.broadcast(np.ones(90_000) if proc.pid == 1 else None, root=1).shape == (90_000,)
    assert proc.scatter([np.ones(700)] * proc.nprocs if proc.pid == 0 else None).shape == (700,)


@pytest.mark.parametrize("p", [30, 64, 101])
def test_the_root_alone_chooses(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    every, some = both(of_roots, p, monkeypatch)
    assert some.supersteps == every.supersteps
    assert some.words == pytest.approx(every.words, rel=0.02)
    assert [choice["chosen"] for choice in some.record["choices"]] == [
        choice["chosen"] for choice in every.record["choices"]
    ]


@pytest.mark.parametrize("p", [30, 64, 101])
def test_collectives_give_their_results(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    every, some = both(numbers, p, monkeypatch)
    assert some.supersteps == every.supersteps
    assert every.words / 3 <= some.words <= every.words  # the pickles of bundles are longer than what is in them
    assert some.seconds == pytest.approx(every.seconds, rel=0.15)


@pytest.mark.parametrize("name", ["heat", "hello", "prefix_sum", "reverse", "shortest_paths", "transpose"])
def test_examples_by_a_sample(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = EXAMPLES / f"{name}.py"
    code = compile(path.read_text(), str(path), "exec")
    monkeypatch.setattr(sys, "argv", [str(path)])
    every, some = both(lambda proc: exec(code, {"__name__": "__main__", "__file__": str(path)}), 64, monkeypatch)
    assert some.supersteps == every.supersteps
    assert some.words == pytest.approx(every.words, rel=0.2)  # of pickled numbers, the largest are longest
    assert some.seconds == pytest.approx(every.seconds, rel=0.15)


@given(p=st.integers(9, 3000), stride=st.integers(1, 40))
def test_every_process_has_one_alike_that_runs(p: int, stride: int) -> None:
    sample = Sample(p)
    assert set(sample.alike.tolist()) == set(sample.pids)
    assert all(sample.alike[pid] == pid for pid in sample.pids)
    assert sum(len(of) for of in sample.of.values()) == p
    assert len(sample.everybodys(sample.pids)) == p and sample.everybodys(sample.pids)[p - 1] == p - 1


@given(data=st.data(), p=st.integers(9, 60))
def test_what_arrives_is_what_all_alike_send(data: st.DataObject, p: int) -> None:
    """Against each message in turn: who else sends such a one to a process that runs."""
    sample = Sample(p)
    sends = [
        Send(source, tuple(dests), 0, None, None, bytes([k % 256]))
        for k, (source, dests) in enumerate(
            data.draw(
                st.lists(
                    st.tuples(
                        st.sampled_from(sample.pids),
                        st.lists(st.sampled_from([0, 1, p // 2, p - 1]) | st.integers(0, p - 1), max_size=4),
                    ),
                    max_size=12,
                )
            )
        )
    ]
    *_, rules = sample._flat([Sent(each.source, each.dests, 0, 0) for each in sends])
    known, rule_of = [], iter(rules.tolist())
    for each in sends:
        for dest in each.dests:
            rule = next(rule_of)
            for q in np.flatnonzero(sample.alike == each.source).tolist():
                to = dest if rule == _ROOTED else dest + q - each.source if rule == _SHIFTED else dest - q + each.source
                if to in sample.place:
                    known.append((to, q, each.pickled))
    found = [(each.dests[0], each.source, each.pickled) for each in sample.among(sends) if isinstance(each, Send)]
    for pid in sample.pids:  # in the order in which a process receives
        arrived = [(source, what) for to, source, what in found if to == pid]
        assert arrived == sorted([(source, what) for to, source, what in known if to == pid])


@pytest.mark.parametrize(("call", "text"), [
    (lambda proc: proc.transfer(1, to=0, expect=proc.pid == 0), "transfer: a few processes cannot stand for all"),
    (lambda proc: proc.allreduce(1, group=[0, 1]), "of a group: a few processes cannot stand for all"),
    (lambda proc: proc.broadcast(1, root=proc.nprocs // 3), "process 33 is not one of them"),
])  # fmt: skip
def test_what_a_sample_cannot_show_is_said(
    call: Callable[[bsp.Process], Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "WIDE", 8)
    with pytest.raises((CannotStand, bsp.ProcessFailed), match=text):
        bsp.predict(call, nprocs=99, machine=MACHINE, abstract=True)


def test_a_mistake_of_the_program_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "WIDE", 8)

    def main(proc: bsp.Process) -> None:
        proc.coarray(3).put(0, np.ones(2))
        proc.sync()

    with pytest.raises(bsp.ShapeError):
        bsp.predict(main, nprocs=99, machine=MACHINE, abstract=True)


def bsprun(*args: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("bsprun")), "--predict", "--machine", "infiniband1000", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


@pytest.mark.thorough
def test_sixty_four_thousand_processes(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import bsp\nimport bsp.arrays as ba\nproc = bsp.process()\n"
        "X, y = ba.ones((1000 * proc.nprocs, 20)), ba.ones(1000 * proc.nprocs)\n"
        "beta = ba.linalg.solve(X.T @ X, X.T @ y)\nprint(proc.pid, beta)\n"
    )
    found = bsprun("-p", "64000", "--abstract", str(script))
    assert found.returncode == 0, found.stderr
    assert "64000 processes on 64000 elements" in found.stdout
    assert "note: 8 of 64000 processes ran; the others are taken to do as those" in found.stdout


@pytest.mark.thorough
def test_the_command_says_that_a_sample_failed(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import bsp\nproc = bsp.process()\nproc.transfer()\n")
    found = bsprun("-p", "2000", "--abstract", str(script))
    assert found.returncode != 0
    assert "8 of 2000 processes ran, for all; --every-process runs each" in found.stderr
    found = bsprun("-p", "2000", "--abstract", "--every-process", str(script))
    assert found.returncode == 0, found.stderr
    assert "processes ran" not in found.stdout
    found = bsprun("-p", "2", "--every-process", str(script))
    assert found.returncode == 0, found.stderr


@pytest.mark.thorough
def test_the_command_says_what_would_help(tmp_path: Path) -> None:
    script = tmp_path / "values.py"
    script.write_text("import bsp\nimport numpy as np\nif np.ones(3).sum() > 2:\n    bsp.process().sync()\n")
    found = bsprun("-p", "2000", "--abstract", str(script))
    assert "a branch needs the values of" in found.stderr
    assert "--every-process" not in found.stderr  # it would need them, too
    found = bsprun("-p", "1001", str(script))
    assert found.returncode == 0, found.stderr
    assert "all 1001 processes run in this one, in turn; --abstract runs a few that stand for all" in found.stderr
