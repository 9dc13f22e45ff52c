"""The command `python -m bsp.faults.simulate`: runs schedules, and prints the replay command of each that fails."""

import sys

from bsp.command.entry import run

if __name__ == "__main__":
    sys.exit(run("python -m bsp.faults.simulate", "bsp.faults.simulate.command", "main"))
