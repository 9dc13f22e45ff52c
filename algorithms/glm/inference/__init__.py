"""What follows from a fit: covariances, likelihood, summaries, reports, predictions."""
