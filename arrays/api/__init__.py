"""The functions of NumPy and of the array API standard, as nodes of an expression."""
