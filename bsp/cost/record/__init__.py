"""Records of runs: counting what each superstep does, and trace files."""
