"""Claims about prediction: how near it is, whether the model chooses well, what tracing costs."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
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


def _output(*command: Any) -> Any:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def accuracy(machine: Path, rounds: int) -> dict[str, list[float]]:
    """Predicted over measured seconds, p = 2 on two elements; both sides take turns."""
    found: dict[str, list[float]] = {}
    for example, *arguments in PREDICTED:
        name = " ".join([example.stem.replace("_", " "), *arguments])
        words = ["-p", 2, "-n", 2, "--machine", machine]
        for _ in range(rounds):
            predicted = _output(BSPRUN, *words, "--predict", "--json", example, *arguments)
            with tempfile.TemporaryDirectory() as folder:
                trace = Path(folder) / "trace.json"
                command = [BSPRUN, *words, "--trace", trace, example, *arguments]
                subprocess.run([*map(str, command)], check=True, timeout=300, stdout=subprocess.DEVNULL)
                measured = json.loads(trace.read_text())
            found.setdefault(name, []).append(predicted["seconds"] / measured["seconds"])
    return found


def algorithms(machine: Path, rounds: int) -> dict[str, tuple[bool, list[float]]]:
    """Of what comes behind a `sync`: whether the words are the prediction's, made without data, and time over time."""
    found = {}
    for work in ALGORITHMS:
        words = ["-p", 2, "-n", 2, "--machine", machine]
        script = [HERE / "algorithm.py", work]
        predicted = _behind_sync(_output(BSPRUN, *words, "--predict", "--abstract", "--json", *script))
        ratios, same = [], True
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                trace = Path(folder) / "trace.json"
                command = [BSPRUN, *words, "--trace", trace, *script]
                subprocess.run([*map(str, command)], check=True, timeout=300, stdout=subprocess.DEVNULL)
                measured = _behind_sync(json.loads(trace.read_text()))
            ratios.append(predicted[1] / measured[1])
            same = same and predicted[0] == measured[0]
        found[work] = same, ratios
    return found


def _behind_sync(record: dict[str, Any]) -> tuple[list[int], float]:
    """The words of each superstep, and all seconds."""
    rows = record["per_superstep"]
    first = 1 + max(k for k, row in enumerate(rows) if row["call"] == "sync")
    words = [max(row["h_sent"], row["h_received"]) for row in rows[first:]]
    return words, sum(row["seconds"] for row in rows[first:]) + record["end"]["seconds"]


def choices(machine: Path) -> dict[str, float]:
    """Seconds of the chosen algorithm over those of the best, for each (collective, words, p)."""
    found = {}
    for nprocs, cases in CHOICES.items():
        told = _output(BSPRUN, "-p", nprocs, "-n", 2, "--machine", machine, HERE / "choices.py", *cases)
        for case, each in told.items():
            found[f"{case}, p = {nprocs}"] = each["seconds"][each["chosen"]] / min(each["seconds"].values())
    return found


def tracing(rounds: int) -> list[float]:
    """Seconds of a superstep of 1 ms with tracing over without, taking turns."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            plain = _output(BSPRUN, "-p", 2, "-n", 2, HERE / "traced.py")
            traced = _output(BSPRUN, "-p", 2, "-n", 2, "--trace", Path(folder) / "t.json", HERE / "traced.py")
            found.append(traced / plain)
    return found


def rows(rounds: int = 5) -> list[tuple[str, str, str, str, bool]]:
    """What, against what, at most, measured, met: rows of docs/benchmarks.md."""
    table = []
    with tempfile.TemporaryDirectory(prefix="bsp-bench-") as folder:
        machine = probed(folder)
        for name, ratios in accuracy(machine, rounds).items():
            middle = statistics.median(ratios)
            table.append(
                (f"predicted time of {name}", "the run's", "0.75× to 1.25×",
                 f"{middle:.2f}× ({min(ratios):.2f} to {max(ratios):.2f})", 0.75 <= middle <= 1.25)
            )  # fmt: skip
        for work, (same, ratios) in algorithms(machine, rounds).items():
            middle = statistics.median(ratios)
            table.append(
                (f"predicted time of {ALGORITHMS[work]}, without data", "the run's", "0.75× to 1.25×, words equal",
                 f"{middle:.2f}× ({min(ratios):.2f} to {max(ratios):.2f}), words {'equal' if same else 'differ'}",
                 same and 0.75 <= middle <= 1.25)
            )  # fmt: skip
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
