"""Predictions as text for a terminal."""

from __future__ import annotations

import bsp
from bsp.cost.units import counted


def test_numbers_stand_before_nouns_of_their_number() -> None:
    assert [counted(n, "superstep") for n in (0, 1, 2)] == ["0 supersteps", "1 superstep", "2 supersteps"]
    assert [counted(n, "process", "processes") for n in (1, 2)] == ["1 process", "2 processes"]


def test_a_prediction_of_one_superstep_and_one_message_is_told_in_the_singular() -> None:
    def main(proc: bsp.Process) -> None:
        if proc.pid == 0:
            proc.send(1, [1.0])
        proc.sync()

    head, sums, *_ = str(bsp.predict(main, nprocs=2, elements=1, machine=bsp.Machine(p=1))).splitlines()
    assert head.startswith("main: 2 processes on 1 element of a default machine")
    assert "   1 superstep   " in sums
    assert "   1 message   " in sums
    two = str(bsp.predict(lambda proc: (proc.sync(), proc.sync()), nprocs=2, elements=2)).splitlines()
    assert two[0].startswith("<lambda>: 2 processes on 2 elements of ")
    assert "   2 supersteps   0 words   0 messages   " in two[1]
