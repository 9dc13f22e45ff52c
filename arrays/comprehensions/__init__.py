"""Named indices: `C[i,j] = sum(A[i,k] * B[k,j])`."""
