"""Multinomial logistic regression: one of several classes, a linear predictor for each but the reference."""
