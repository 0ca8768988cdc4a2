"""What every package may use: records read from plain data, child processes, the machine's name."""
