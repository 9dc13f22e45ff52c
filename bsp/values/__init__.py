"""Values on their way: what they are to the runtime, what is asked to be done with them, how they combine."""
