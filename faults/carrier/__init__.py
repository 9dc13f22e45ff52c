"""How the processes of a nonstop job exchange objects: by ZeroMQ between machines, sockets and shared memory on one."""
