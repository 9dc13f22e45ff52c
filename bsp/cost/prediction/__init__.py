"""Predictions: all processes run in one interpreter, or a few that stand for all; a machine prices their supersteps."""
