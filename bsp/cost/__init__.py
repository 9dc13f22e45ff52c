"""What a program costs on a machine known by (p, r, g, L): the model, machines, records, predictions."""
