"""One clone of a bundle, in parts: packets received and sent, states at heads, and the worker with its phase."""
