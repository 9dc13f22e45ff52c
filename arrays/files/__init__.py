"""Arrays in files, each process reading and writing its own part."""
