"""Records of runs: what each superstep did, on its way to a trace file, and back from one."""
