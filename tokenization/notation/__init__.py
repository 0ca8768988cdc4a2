"""Written scores, MusicXML and ABC, to the one music type, and back to MusicXML."""
