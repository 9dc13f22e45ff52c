"""Values and effects as data: regions of arrays, payloads and their pickles, puts and gets, operations that combine."""
