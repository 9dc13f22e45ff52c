"""bsprun's part of a nonstop job: connections to keepers and agents, incarnations, output, and who asks what."""
