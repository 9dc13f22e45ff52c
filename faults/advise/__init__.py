"""`bsp advise`: whether cloning a job is worth it, from measured times and models of failure."""
