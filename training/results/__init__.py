"""What comes out of runs: models that ship, comparisons, curves."""
