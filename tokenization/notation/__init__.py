"""Read MusicXML and ABC to scores, and write scores as MusicXML."""
