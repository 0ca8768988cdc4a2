"""REMI, the language of pop piano: bars, places in them, and notes; with gaps to fill, ends and chords."""
