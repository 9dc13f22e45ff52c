"""Claims about prediction: how near it is, whether the model chooses well, what tracing costs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
BSPRUN, BSP = Path(sys.executable).with_name("bsprun"), Path(sys.executable).with_name("bsp")

PREDICTED: list[tuple[Any, ...]] = [
    (HERE / "poisson_by_hand.py", "20"),
    (HERE / "poisson_by_hand.py", "200"),
    (EXAMPLES / "transpose.py",),
    (EXAMPLES / "sample_sort.py",),
    (EXAMPLES / "heat.py",),
]
ALGORITHMS = {
    "newton": "logistic Newton, 6 iterations, 2^20 × 32", "qr": "CholeskyQR2, 2^20 × 32",
    "ill": "direct TSQR, 2^20 × 32", "product": "`matmul`, 4096²",
}  # fmt: skip
CHOICES = {
    2: ["allreduce:1000", "broadcast:10000"],
    8: ["allreduce:1", "allreduce:100000", "reduce:100000", "allgather:4096", "alltoall:8", "scatter:10000"],
    64: ["broadcast:8", "allreduce:10000"],
}
WITHIN = 1.2


def probed(folder: str) -> Path:
    """A machine file measured now; every later job of this benchmark finds it too."""
    os.environ["BSP_MACHINES"] = folder
    path = Path(folder) / "machine.toml"
    subprocess.run([BSP, "probe", "-n", "2", "-o", path], check=True, timeout=300, stdout=subprocess.DEVNULL)
    return path


class Place:
    """Where jobs run: the options of bsprun, and how its commands are started."""

    def __init__(self, folder: str, *words: Any, run: Callable[..., Any] = subprocess.run) -> None:
        self._trace = Path(folder) / "trace.json"
        self._words = words
        self._run = run

    def output(self, *command: Any) -> Any:
        """Return what `bsprun` prints, read as JSON."""
        return json.loads(self._done(*command))

    def traced(self, *command: Any) -> Any:
        """Return the trace of a job."""
        self._done("--trace", self._trace, *command)
        return json.loads(self._trace.read_text())

    def _done(self, *command: Any) -> str:
        whole = [*map(str, (BSPRUN, *self._words, *command))]
        done = self._run(whole, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise SystemExit(f"{' '.join(whole)} failed:\n{done.stderr}")
        return str(done.stdout)


def accuracy(place: Place, rounds: int, programs: Sequence[tuple[Any, ...]]) -> dict[str, tuple[bool, list[float]]]:
    """Whether the words are the prediction's, and predicted over measured seconds; both sides take turns."""
    found: dict[str, tuple[bool, list[float]]] = {}
    for example, *arguments in programs:
        name = " ".join([example.stem.replace("_", " "), *arguments])
        ratios, same = [], True
        for _ in range(rounds):
            predicted = place.output("--predict", "--json", example, *arguments)
            measured = place.traced(example, *arguments)
            ratios.append(predicted["seconds"] / measured["seconds"])
            same = same and _words(predicted["per_superstep"]) == _words(measured["per_superstep"])
        found[name] = same, ratios
    return found


def algorithms(place: Place, rounds: int, works: Iterable[str]) -> dict[str, tuple[bool, list[float]]]:
    """Of what comes behind a `sync`: whether the words are the prediction's, made without data, and time over time."""
    found = {}
    for work in works:
        script = [HERE / "algorithm.py", work]
        predicted = _behind_sync(place.output("--predict", "--abstract", "--json", *script))
        ratios, same = [], True
        for _ in range(rounds):
            measured = _behind_sync(place.traced(*script))
            ratios.append(predicted[1] / measured[1])
            same = same and predicted[0] == measured[0]
        found[work] = same, ratios
    return found


def _behind_sync(record: dict[str, Any]) -> tuple[list[int], float]:
    """The words of each superstep, and all seconds."""
    rows = record["per_superstep"]
    first = 1 + max(k for k, row in enumerate(rows) if row["call"] == "sync")
    return _words(rows[first:]), sum(row["seconds"] for row in rows[first:]) + record["end"]["seconds"]


def _words(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [max(row["h_sent"], row["h_received"]) for row in rows]


def choices(machine: Path) -> dict[str, float]:
    """Seconds of the chosen algorithm over those of the best, for each (collective, words, p)."""
    found = {}
    for nprocs, cases in CHOICES.items():
        told = Place("", "-p", nprocs, "-n", 2, "--machine", machine).output(HERE / "choices.py", *cases)
        for case, each in told.items():
            found[f"{case}, p = {nprocs}"] = each["seconds"][each["chosen"]] / min(each["seconds"].values())
    return found


def tracing(rounds: int) -> list[float]:
    """Seconds of a superstep of 1 ms with tracing over without, taking turns."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            place = Place(folder, "-p", 2, "-n", 2)
            plain = place.output(HERE / "traced.py")
            traced = place.output("--trace", Path(folder) / "t.json", HERE / "traced.py")
            found.append(traced / plain)
    return found


def predicted_row(what: str, same: bool, ratios: list[float], least: float = 0.75) -> tuple[str, str, str, str, bool]:
    """A row on a prediction: whether its words are the run's, and predicted over measured seconds."""
    middle = statistics.median(ratios)
    told = f"{middle:.2f}× ({min(ratios):.2f} to {max(ratios):.2f}), words {'equal' if same else 'differ'}"
    return what, "the run's", f"{least}× to 1.25×, words equal", told, same and least <= middle <= 1.25


def rows(rounds: int = 5) -> list[tuple[str, str, str, str, bool]]:
    """What, against what, at most, measured, met: rows of docs/benchmarks.md."""
    table = []
    with tempfile.TemporaryDirectory(prefix="bsp-bench-") as folder:
        machine = probed(folder)
        place = Place(folder, "-p", 2, "-n", 2, "--machine", machine)
        for name, told in accuracy(place, rounds, PREDICTED).items():
            table.append(predicted_row(f"predicted time of {name}", *told))
        for work, told in algorithms(place, rounds, ALGORITHMS).items():
            table.append(predicted_row(f"predicted time of {ALGORITHMS[work]}, without data", *told))
        ratios = choices(machine)
        good = sum(ratio <= WITHIN for ratio in ratios.values())
        worst = max(ratios, key=ratios.__getitem__)
        table.append(
            ("collectives whose chosen algorithm is within 20 % of the best", "each algorithm, forced", "8 of 10",
             f"{good} of {len(ratios)} (worst {worst}: {ratios[worst]:.2f}×)", good >= 8)
        )  # fmt: skip
        more = statistics.median(tracing(rounds)) - 1
        table.append(("`--trace`, supersteps of 1 ms", "without", "5 % more", f"{more:+.1%}", more <= 0.05))
    return table


if __name__ == "__main__":
    for row in rows():
        print(row)
