"""The engine of an element: the processes it hosts, their turns and boundaries, the delivery of what they issued."""
