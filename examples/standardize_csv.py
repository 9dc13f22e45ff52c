"""A file of any size: read in parts, standardised, its quantiles exact, saved for the next program.

The RAND Health Insurance Experiment (see doctor_visits.py), 20,190 rows of ten columns.  Compressed text is read by
one process and parsed by all; plain text each process reads by itself.  Means and deviations take one pass over the
rows and one superstep; quantiles are NumPy's to the last bit, without a sort of the whole.

Run as: bsprun -p 4 examples/standardize_csv.py [file.csv] [file.npy]
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

import bsp
import bsp.arrays as ba

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"

proc = bsp.process()
path = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
target = Path(sys.argv[2] if len(sys.argv) > 2 else f"{tempfile.gettempdir()}/standardised-{os.getuid()}.npy")

x, names = ba.read_csv(path, names=True)
mean, deviation = ba.compute(x.mean(axis=0), x.std(axis=0))
quantiles = ba.percentile(x, [5, 50, 95], axis=0).compute()
z = ((x - mean) / deviation).persist()

if proc.pid == 0:
    print(f"{x.shape[0]} rows on {proc.nprocs} processes")
    print(f"{'':<8} {'mean':>9} {'std':>9} {'5 %':>9} {'median':>9} {'95 %':>9}")
    for name, *row in zip(names, mean, deviation, *quantiles, strict=True):
        print(f"{name:<8}", *(f"{each:>9.4f}" for each in row))

ba.save(target, z)  # each process writes its own rows; NumPy reads it too

wrong = []
if target.exists():  # but in an abstract prediction, which writes nothing
    same = (ba.load(target) == z).all().compute()
    if not bsp.expect(same, times=1):
        wrong.append("what was saved is not what is read")
off = np.maximum(abs(z.mean(axis=0)), abs(z.std(axis=0) - 1)).max().compute()
if bsp.expect(off > 1e-9, times=0):
    wrong.append(f"columns are not standardised: {off}")
below = ((x <= quantiles[1]).mean(axis=0).compute() >= 0.5).all()
if not bsp.expect(below, times=1):
    wrong.append("a median is too small")
if wrong:
    sys.exit("; ".join(wrong))
