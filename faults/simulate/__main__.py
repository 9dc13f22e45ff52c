"""`python -m bsp.faults.simulate`: run schedules; a failing one prints the command that replays it."""

import sys

from bsp.faults.simulate.simulation import main

if __name__ == "__main__":
    sys.exit(main())
