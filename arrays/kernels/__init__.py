"""What one task of a plan computes on the blocks that were brought to it."""
