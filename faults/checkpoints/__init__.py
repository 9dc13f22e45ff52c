"""Checkpoints: the state of a process as bytes, files that hold it, and who may write them."""
