"""The bench: speed and memory of this machine."""
