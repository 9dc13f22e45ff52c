"""What functions that run in supersteps of their own are made of: operands, forecasts, gathers."""
