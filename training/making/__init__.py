"""Data sets that are made and not found: grooves, by an accompaniment program."""
