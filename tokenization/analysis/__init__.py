"""What files of music leave unsaid: beats, bars, chords, which part is which."""
