"""How the processes of a nonstop job exchange objects: ZeroMQ between agents, a socket pair inside an element."""
