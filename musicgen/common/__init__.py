"""What several packages use: processes and workers, seeds, means over seeds, and the machine's name."""
