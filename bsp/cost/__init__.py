"""The cost of programs on a machine known by (p, r, g, L): model, machine files, records, reports, predictions."""
