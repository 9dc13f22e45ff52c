"""Processes on an element: their turns, boundaries, what they ask for, and how it is delivered."""
