"""How often do people see a doctor?  Poisson regression of real data, in ten lines.

The RAND Health Insurance Experiment, 20,190 people (data/randhie.csv.gz, public domain): visits to a doctor (mdvis) by
the other nine columns, log link.  Compressed text is read by one process and parsed by all.  `fit` is one loop of
proc.rounds(...); a Newton iteration is one pass over a process's rows and one superstep, which sums 1 + d + d(d + 1)/2
words for d = 10 coefficients.

Run as: bsprun -p 64 examples/doctor_visits.py
"""

import sys
from pathlib import Path

import bsp
from bsp.algorithms import glm

model = glm.PoissonRegression().fit(Path(__file__).resolve().parent / "data" / "randhie.csv.gz", y="mdvis")
if bsp.process().pid == 0:
    print(model.summary())

KNOWN = 83934.23786046743  # the deviance as statsmodels computes it: GLM(family=Poisson), IRLS to 1e-14
if not bsp.expect(abs(model.deviance_ / KNOWN - 1) < 1e-12, times=1):
    sys.exit(f"the fit is not the known one: deviance {model.deviance_!r}")
