"""MusicXML to a score, and a score to MusicXML."""

FORTE = 90  # the velocity that `dynamics` are percents of
DRUM_CHANNEL = 10
