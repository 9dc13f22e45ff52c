"""Simulation of the protocol in virtual time: seeded faults, thousands of schedules, thousands of elements."""
