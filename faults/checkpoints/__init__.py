"""Checkpoints: a process's state as bytes, the files that hold it, the key that seals them, and folder permissions."""
