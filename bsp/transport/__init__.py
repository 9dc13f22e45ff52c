"""The exchange of data between elements: control packets, blocks, schedules, and MPI."""
