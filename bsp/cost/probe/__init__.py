"""`bsp probe`: measuring a machine, fitting the model to it, and checking the fit."""
