"""The command `python -m bsp.faults.simulate`: runs schedules, and prints the replay command of each that fails."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bsp.faults.simulate.schedules import KINDS
from bsp.faults.simulate.simulation import Simulation


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules from the command line; print the replay command of each that fails.  Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bsp.faults.simulate", allow_abbrev=False,
        description="Run the protocol of nonstop jobs in virtual time, on seeded schedules of faults.  "
        "--seed 17 --verbose replays one.",
        epilog="exit status: 0; 1 if a schedule failed; 2 wrong usage; 130 after Ctrl-C",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule; the others count on (default 0)")
    parser.add_argument("--schedules", type=int, default=1, metavar="N", help="how many (default 1)")
    parser.add_argument("--kind", choices=tuple(KINDS), default="mixed", help="what may happen in them (default mixed)")
    parser.add_argument("--verbose", action="store_true", help="print what happens, and when")
    options = parser.parse_args(arguments)
    if options.schedules < 1:
        parser.error(f"--schedules {options.schedules}: 1 or more")
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
