"""The time of a prediction is that of the program, not of what else runs on the machine."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import bsp
from bsp.cost.prediction import clock as clocks
from bsp.cost.prediction import predict as predicting

MACHINE = bsp.Machine(p=2, g=0.0, L=0.0, o=0.0)  # only computing takes time


class Made:
    """A clock that goes on when the program says so; `line` is the time it has spent waiting for a core."""

    now = line = 0.0

    def __call__(self) -> float:
        return Made.now

    def waited(self) -> float:
        return Made.line

    def close(self) -> None:
        pass


@pytest.mark.parametrize("nprocs", [1, 2, 5])
@pytest.mark.parametrize(("line", "told"), [(0.0, False), (0.2, False), (9.0, True)])
def test_time_in_line_for_a_core_is_no_computing_and_is_told_of(
    nprocs: int, line: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(proc: bsp.Process) -> None:
        for _ in range(3):
            Made.now += 1.0
            Made.line += line
            proc.sync()

    monkeypatch.setattr(Made, "now", 0.0)
    monkeypatch.setattr(Made, "line", 0.0)
    monkeypatch.setattr(predicting, "OwnClock", Made)
    found = bsp.predict(main, nprocs=nprocs, elements=1, machine=MACHINE)
    assert [row["w"] for row in found] == [1.0] * 3
    busy = [note for note in found.record["notes"] if note.startswith("this machine was busy")]
    assert bool(busy) is told
    if told:
        assert f"waited {3 * nprocs * 9 / 60:.3g} min" in busy[0] or f"waited {3 * nprocs * 9} s for a core" in busy[0]


def test_waits_for_a_core_are_read_from_where_linux_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "schedstat"
    file.write_text("5000000000 2500000000 17\n")
    monkeypatch.setattr(clocks, "_SCHEDSTAT", str(file))
    monkeypatch.setattr(clocks, "perf_counter", lambda: 10.0)
    clock = clocks.OwnClock()
    assert (clock(), clock.waited()) == (7.5, 2.5)
    file.write_text("5000000000 4000000000 17\n")
    assert clock() == 6.0
    clock.close()
    monkeypatch.setattr(clocks, "_SCHEDSTAT", str(tmp_path / "nowhere"))
    elsewhere = clocks.OwnClock()
    assert (elsewhere(), elsewhere.waited()) == (10.0, 0.0)
    elsewhere.close()


def test_the_clock_never_goes_back() -> None:
    clock = clocks.OwnClock()
    times = [clock() for _ in range(1000)]
    clock.close()
    assert all(before <= after for before, after in pairwise(times))
