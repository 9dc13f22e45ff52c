"""How often do people see a doctor?  Quasi-Poisson regression of real data, in ten lines.

The RAND Health Insurance Experiment, 20,190 people (data/randhie.csv.gz, public domain): visits to a doctor (mdvis) by
the other nine columns, log link.  Visits vary 6.3 times as much as a Poisson distribution has it (the "dispersion"):
family="poisson" finds the same coefficients, notes that, and has standard errors that are 2.5 times too small.
Compressed text is read by one process and parsed by all. `fit` is one loop of proc.rounds(...); a Newton iteration is
one pass over a process's rows and one superstep, which sums 1 + d + d(d + 1)/2 words for d = 10 coefficients.

Run as: bsprun -p 64 examples/doctor_visits.py
"""

import sys
from pathlib import Path

import bsp
from bsp.algorithms import glm

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"

model = glm.GLM(family="quasi-poisson").fit(DATA, y="mdvis")
if bsp.process().pid == 0:
    print(model.summary())

# the deviance and the dispersion as statsmodels computes them: GLM(family=Poisson).fit(scale="X2"), IRLS to 1e-14
KNOWN = 83934.23786046743, 6.279175321487754
found = model.deviance_, model.solution_.dispersion
if not bsp.expect(all(abs(a / b - 1) < 1e-12 for a, b in zip(found, KNOWN, strict=True)), times=1):
    sys.exit(f"the fit is not the known one: deviance and dispersion {found!r}")
