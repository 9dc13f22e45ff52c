"""Absorbed effects: one coefficient for each label of some columns, taken out of a linear model before it is fitted."""
