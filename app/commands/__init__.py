"""The commands of the program, one per file: `add` declares the arguments, `run` does the work."""
