"""What depends on values: masks, positions, sorting, ranks, sets."""
