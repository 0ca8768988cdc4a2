"""REMI, the language of pop piano: bars, positions in them, and notes."""
