"""From folders of MIDI files to prepared data, and from prepared data to trained models."""
