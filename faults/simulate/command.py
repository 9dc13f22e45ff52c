"""The command `python -m bsp.faults.simulate`: runs schedules, and prints the replay command of each that fails.

`python -m bsp.faults.simulate --seed 17 --verbose` replays one schedule.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bsp.faults.simulate.schedules import KINDS
from bsp.faults.simulate.simulation import Simulation


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules from the command line; print the replay command of each that fails.  Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bsp.faults.simulate", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule")
    parser.add_argument("--schedules", type=int, default=1, help="how many")
    parser.add_argument("--kind", choices=tuple(KINDS), default="mixed")
    parser.add_argument("--verbose", action="store_true", help="print the history")
    options = parser.parse_args(arguments)
    draw = KINDS[options.kind]
    failed = 0
    outcomes: dict[str, int] = {}
    for seed in range(options.seed, options.seed + options.schedules):
        run = Simulation(draw(seed), print if options.verbose else None)
        outcome = type(run.run()).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if run.wrong:
            failed += 1
            print(f"seed {seed}: {'; '.join(run.wrong[:3])}")
            print(f"  replay: python -m bsp.faults.simulate --kind {options.kind} --seed {seed} --verbose")
    print(
        f"{options.schedules} schedules: {', '.join(f'{n} {o}' for o, n in sorted(outcomes.items()))}; {failed} failed"
    )
    return 1 if failed else 0
