"""A CSV file to a fitted logistic model with pandas and scikit-learn, two threads: csv_contender.py FILE ENGINE."""

import sys

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

frame = pd.read_csv(sys.argv[1], engine=sys.argv[2])
y = frame.pop("y").to_numpy()
model = LogisticRegression(C=np.inf, tol=1e-6, max_iter=1000).fit(frame.to_numpy(), y)
print(model.intercept_, model.coef_)
