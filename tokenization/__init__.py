"""Music to token ids and back: MIDI files, scores, and the four token languages."""
