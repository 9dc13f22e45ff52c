"""Array comprehensions: arrays described with named indices, as in `C[i,j] = sum(A[i,k] * B[k,j])`."""
