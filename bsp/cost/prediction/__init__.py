"""What a run will cost, before it runs: all processes in one interpreter, priced on a machine."""
