"""MusicXML to a score, and a score to MusicXML."""
