"""The protocol of cloned execution as state machines without I/O: members, the arbiter, and their messages."""
