"""The commands of the program, a file each: `add` declares its arguments, `run` does the work."""
