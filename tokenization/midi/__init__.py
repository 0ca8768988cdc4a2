"""Read MIDI files to scores, and write scores as MIDI files."""
