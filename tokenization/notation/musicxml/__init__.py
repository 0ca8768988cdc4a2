"""Read MusicXML to scores, and write scores as MusicXML."""

FORTE = 90  # the velocity of 100 % in `dynamics` attributes
DRUM_CHANNEL = 10
# General MIDI drum → step and octave of its usual position on the staff; the first drum on each position is read there.
DRUM_PLACES = {
    **{36: ("F", 4), 35: ("F", 4), 38: ("C", 5), 37: ("C", 5), 40: ("C", 5), 39: ("C", 5)},
    **{43: ("A", 4), 41: ("A", 4), 47: ("D", 5), 45: ("D", 5), 50: ("E", 5), 48: ("E", 5)},
    **{42: ("G", 5), 46: ("G", 5), 44: ("D", 4), 49: ("A", 5), 57: ("A", 5), 51: ("F", 5)},
    **{52: ("A", 5), 53: ("F", 5), 55: ("A", 5), 59: ("F", 5)},
}
