"""`bsp advise`: computes whether cloning a job pays, from measured round times and models of failure."""
