"""What is found by order: sorts, ranks, quantiles, sets, searches, counts in bins."""
