"""Who sees a doctor at all?  Logistic regression as nonstop training, killed on purpose, and the output is the same.

The RAND Health Insurance Experiment again (see doctor_visits.py).  `fit` is one loop of proc.rounds(...): what an
iteration needs of the last one stands in a bsp.State, so a worker that is killed in the middle of the training is made
again at the head of an iteration, and goes on.  Nothing in this program says so.

    bsprun -p 8 -n 2 --clones 2 --standby 1 --inject "kill:element=1,superstep=12" examples/nonstop_logistic.py
"""

import sys
from pathlib import Path

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm

DATA = Path(__file__).resolve().parent / "data" / "randhie.csv.gz"
DEVIANCE = 23763.225517620762  # as statsmodels computes it: GLM(family=Binomial), IRLS to 1e-14

proc = bsp.process()
table = ba.read_csv(DATA, grid=(proc.nprocs, 1))
saw_one, people = table[:, 0] > 0, table[:, 1:]


def tell(iteration: int, loss: float, slope: float) -> None:
    if proc.pid == 0:
        print(f"iteration {iteration:3d}  loss {loss:.12f}  slope {slope:.3e}", flush=True)


model = glm.LogisticRegression(solver="lbfgs").fit(people, saw_one, progress=tell)
share = model.score(people, saw_one)

if proc.pid == 0:
    print("coefficients", " ".join(f"{each:.9f}" for each in (model.intercept_, *model.coef_)))
    print(f"{share:.1%} are classified right")
if not bsp.expect(abs(model.deviance_ / DEVIANCE - 1) < 1e-9, times=1):
    sys.exit(f"the fit is not the known one: deviance {model.deviance_!r}")
