"""`bsp probe`: measure a machine, fit the model to it, and check the fit."""
