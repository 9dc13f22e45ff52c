"""Run a script for NumPy on all processes: `bsprun -p 8 --numpy script.py`, with --explain for its loops."""

import sys

from bsp.arrays.scripts.running import main

main(sys.argv[1:])
