"""What pop piano can be asked for: a gap filled, an end reached, chords kept to."""
