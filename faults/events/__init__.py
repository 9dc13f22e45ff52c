"""The event log of a nonstop job, and the live view of `--progress`."""
