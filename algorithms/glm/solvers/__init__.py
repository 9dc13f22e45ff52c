"""The optimisation: objective, Newton, L-BFGS, coordinate descent, and what is known before them."""
