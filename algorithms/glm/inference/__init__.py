"""Results derived from a fit: covariances, likelihood, summaries, reports, predictions."""
