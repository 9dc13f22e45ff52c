"""The protocol of cloned execution as state machines without I/O: members, the arbiter, what they send."""
