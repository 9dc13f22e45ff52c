"""The command `python -m bsp.faults.simulate`: runs schedules, and prints the replay command of each that fails."""

import sys

from bsp.faults.simulate.command import main

if __name__ == "__main__":
    sys.exit(main())
