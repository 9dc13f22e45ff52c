"""The hosts of a job: which they are, how to reach them, and a daemon of the job on each of them."""
