"""The optimisation: survey of the data, objective, Newton, L-BFGS, coordinate descent, separation."""
