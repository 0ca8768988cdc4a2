"""The instruments of General MIDI."""

import re

from tokenization.score import Track

_BY_PROGRAM = """
    Acoustic Grand Piano · Bright Acoustic Piano · Electric Grand Piano · Honky-tonk Piano · Electric Piano 1 ·
    Electric Piano 2 · Harpsichord · Clavinet · Celesta · Glockenspiel · Music Box · Vibraphone · Marimba ·
    Xylophone · Tubular Bells · Dulcimer · Drawbar Organ · Percussive Organ · Rock Organ · Church Organ · Reed
    Organ · Accordion · Harmonica · Tango Accordion · Acoustic Guitar (nylon) · Acoustic Guitar (steel) ·
    Electric Guitar (jazz) · Electric Guitar (clean) · Electric Guitar (muted) · Overdriven Guitar · Distortion
    Guitar · Guitar Harmonics · Acoustic Bass · Electric Bass (finger) · Electric Bass (pick) · Fretless Bass ·
    Slap Bass 1 · Slap Bass 2 · Synth Bass 1 · Synth Bass 2 · Violin · Viola · Cello · Contrabass · Tremolo
    Strings · Pizzicato Strings · Orchestral Harp · Timpani · String Ensemble 1 · String Ensemble 2 · Synth
    Strings 1 · Synth Strings 2 · Choir Aahs · Voice Oohs · Synth Choir · Orchestra Hit · Trumpet · Trombone ·
    Tuba · Muted Trumpet · French Horn · Brass Section · Synth Brass 1 · Synth Brass 2 · Soprano Sax · Alto Sax
    · Tenor Sax · Baritone Sax · Oboe · English Horn · Bassoon · Clarinet · Piccolo · Flute · Recorder · Pan
    Flute · Blown bottle · Shakuhachi · Whistle · Ocarina · Lead 1 (square) · Lead 2 (sawtooth) · Lead 3
    (calliope) · Lead 4 chiff · Lead 5 (charang) · Lead 6 (voice) · Lead 7 (fifths) · Lead 8 (bass + lead) · Pad
    1 (new age) · Pad 2 (warm) · Pad 3 (polysynth) · Pad 4 (choir) · Pad 5 (bowed) · Pad 6 (metallic) · Pad 7
    (halo) · Pad 8 (sweep) · FX 1 (rain) · FX 2 (soundtrack) · FX 3 (crystal) · FX 4 (atmosphere) · FX 5
    (brightness) · FX 6 (goblins) · FX 7 (echoes) · FX 8 (sci-fi) · Sitar · Banjo · Shamisen · Koto · Kalimba ·
    Bagpipe · Fiddle · Shanai · Tinkle Bell · Agogo · Steel Drums · Woodblock · Taiko Drum · Melodic Tom · Synth
    Drum · Reverse Cymbal · Guitar Fret Noise · Breath Noise · Seashore · Bird Tweet · Telephone Ring ·
    Helicopter · Applause · Gunshot
"""
INSTRUMENTS = tuple(" ".join(name.split()) for name in _BY_PROGRAM.split("·"))  # by program, from 0


def instrument_name(track: Track) -> str:
    """Return the name of the instrument that a track plays."""
    return "Drums" if track.is_drum else INSTRUMENTS[track.program]


# Plain names, without those that voices of a choir have too, such as bass.
_PLAIN = """
    piano 0 · harpsichord 6 · clavichord 7 · celesta 8 · glockenspiel 9 · vibraphone 11 · marimba 12 · xylophone 13 ·
    bells 14 · dulcimer 15 · organ 19 · accordion 21 · concertina 21 · harmonica 22 · guitar 24 · lute 24 · violin 40 ·
    fiddle 110 · viola 41 · cello 42 · violoncello 42 · contrabass 43 · double bass 43 · harp 46 · timpani 47 ·
    strings 48 · choir 52 · trumpet 56 · cornet 56 · trombone 57 · tuba 58 · horn 60 · brass 61 · sax 65 ·
    saxophone 65 · oboe 68 · bassoon 70 · clarinet 71 · piccolo 72 · flute 73 · recorder 74 · whistle 78 · ocarina 79 ·
    sitar 104 · banjo 105 · koto 107 · kalimba 108 · bagpipe 109 · pipes 109
"""
_PROGRAMS = {" ".join(re.findall(r"[a-z]+", name.lower())): n for n, name in enumerate(INSTRUMENTS)}
_PROGRAMS |= {
    name: int(n) for name, n in (one.strip().rsplit(maxsplit=1) for one in _PLAIN.split("·"))
}
_NAMED = re.compile(rf"\b({'|'.join(sorted(_PROGRAMS, key=len, reverse=True))})s?\b")


def program_named(text: str) -> int | None:
    """Return the program of the first instrument in a text such as Piano_Treble3V2, or None."""
    found = _NAMED.search(" ".join(re.findall(r"[a-z]+", text.lower())))
    return _PROGRAMS[found[1]] if found else None
