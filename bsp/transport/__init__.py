"""How elements exchange data: control packets, blocks, the total exchange, and MPI below them."""
