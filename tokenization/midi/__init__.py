"""Any MIDI file to a score, and a score to a MIDI file."""
