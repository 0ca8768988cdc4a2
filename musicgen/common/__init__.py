"""Seeds, learning rates, and the machine."""
