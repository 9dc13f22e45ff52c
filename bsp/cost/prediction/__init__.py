"""Predictions: all processes run in one interpreter, and their supersteps are priced on a machine."""
