"""Music to token ids and back: MIDI files, scores, and the three token languages."""
