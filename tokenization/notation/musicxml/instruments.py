"""How the part of an instrument is written: its clefs, staves, transposition and names, by its name and program."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from tokenization.score import Notes, Track

MIDDLE_C = 60
# Sign, line and octave of a clef.
CLEFS: dict[str, tuple[str, int, int]] = {
    "treble": ("G", 2, 0), "treble8": ("G", 2, -1), "treble+8": ("G", 2, 1),
    "alto": ("C", 3, 0), "tenor": ("C", 4, 0), "bass": ("F", 4, 0), "bass8": ("F", 4, -1),
    "drums": ("percussion", 0, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a part is written."""

    clefs: tuple[str, ...]  # one for each staff
    transposed: int = 0  # semitones from written to sounding pitch
    is_single: bool = False  # plays one note after another


_GRAND = ("treble", "bass")
_BY_RANGE = ("range",)  # treble or bass
_WIDE = ("range", "range")  # one staff by range, or two if the music is wide


def _line(clef: str, transposed: int = 0) -> Layout:
    return Layout((clef,), transposed, is_single=True)


# Words in a track's name → its layout; the first that matches counts.
_BY_NAME: tuple[tuple[str, Layout], ...] = (
    (r"contrabass|double ?bass|upright|kontrabass|contrabasso", Layout(("bass8",), is_single=True)),
    (r"bass clarinet", _line("treble", -14)),
    (r"(sopranino)", _line("treble", 3)),
    (r"soprano sax", _line("treble", -2)),
    (r"alto sax", _line("treble", -9)),
    (r"ten(or|\.)? ?sax", _line("treble", -14)),
    (r"bari(tone|\.)? ?sax", _line("treble", -21)),
    (r"trombone|posaune|euphonium|bassoon|fagott|fagotto|tuba", _line("bass")),
    (r"english horn|cor anglais", _line("treble", -7)),
    (r"flugel|flügel|cornet", _line("treble", -2)),
    (r"\bhorns?\b|\bcorn[oi]\b", _line("treble", -7)),
    (r"trumpets?|\btpt|tromba|trompete", _line("treble", -2)),
    (r"clarinets?|klarinette|clarinetto", _line("treble", -2)),
    (r"piccolo", Layout(("treble+8",), is_single=True)),
    (r"flutes?|oboes?|flöte|flauto|recorder", _line("treble")),
    (r"violoncell[oi]|\bcell[oi]\b", _line("bass")),
    (r"violas?\b|bratsche", _line("alto")),
    (r"violin[eo]?s?\b|violini|fiddle|geige", _line("treble")),
    (r"bass guitar|e-?bass|slap|fretless", Layout(("bass8",), is_single=True)),
    (r"guitars?|gitarre|\bgtr\b|banjo", Layout(("treble8",))),
    (r"soprano|alto\b|mezzo|vocals?|voice|singer|lead vox|melody", _line("range")),
    (r"tenor", _line("treble8")),
    (r"baritone|\bbass\b", _line("bass")),
)
_BY_PROGRAM: tuple[tuple[range, Layout], ...] = (
    (range(0, 9), Layout(_GRAND)), (range(9, 12), Layout(("treble",))), (range(12, 16), Layout(_BY_RANGE)),
    (range(16, 22), Layout(_GRAND)), (range(22, 23), Layout(("treble",))), (range(23, 24), Layout(_GRAND)),
    (range(24, 32), Layout(("treble8",))), (range(32, 40), Layout(("bass8",), is_single=True)),
    (range(40, 41), _line("treble")), (range(41, 42), _line("alto")), (range(42, 43), _line("bass")),
    (range(43, 44), Layout(("bass8",), is_single=True)), (range(44, 46), Layout(_BY_RANGE)),
    (range(46, 47), Layout(_GRAND)), (range(47, 48), Layout(("bass",))), (range(48, 53), Layout(_WIDE)),
    (range(53, 54), _line("range")), (range(54, 56), Layout(_WIDE)), (range(56, 57), _line("treble", -2)),
    (range(57, 59), _line("bass")), (range(59, 60), _line("treble", -2)), (range(60, 61), _line("treble", -7)),
    (range(61, 64), Layout(_BY_RANGE)), (range(64, 65), _line("treble", -2)), (range(65, 66), _line("treble", -9)),
    (range(66, 67), _line("treble", -14)), (range(67, 68), _line("treble", -21)), (range(68, 69), _line("treble")),
    (range(69, 70), _line("treble", -7)), (range(70, 71), _line("bass")), (range(71, 72), _line("treble", -2)),
    (range(72, 73), Layout(("treble+8",), is_single=True)), (range(73, 80), _line("treble")),
    (range(80, 88), Layout(_BY_RANGE)), (range(88, 104), Layout(_WIDE)), (range(104, 106), Layout(("treble8",))),
    (range(106, 128), Layout(_BY_RANGE)),
)  # fmt: skip
_GUITARS, _BASSES = range(24, 32), range(32, 40)
_PIANOS = range(8)
_KEYBOARD = re.compile(
    r"piano|keys?\b|keyboard|klavier|clav|organ|harpsi|cembalo|\bhand|rhodes|wurli|grand|celesta|\be\.?p\b"
)
_SECTIONS = range(61, 64)  # of brass, which are often called horns
_IN_KEY = re.compile(r"\bin ([A-G])(?:([b♭]|[- ]?flat|es)|([#♯]))?(?![a-z])", re.IGNORECASE)
_SEMITONES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
FAR = 5  # semitones from middle C on both sides that need a second staff


def layout_of(track: Track, notes: Notes) -> Layout:
    """Return how a part with these notes is written, if it is alone on its staves."""
    if track.is_drum:
        return Layout(("drums",))
    return _by_range(_stated(track), notes.pitch)


def _stated(track: Track) -> Layout:
    """Return the layout of an instrument: by its name, unless that names the line of another family."""
    by_program = next(layout for programs, layout in _BY_PROGRAM if track.program in programs)
    name = track.name.lower()
    if track.program in _PIANOS and not _KEYBOARD.search(name):  # often only the default
        by_program = Layout(_WIDE)
    found = next((layout for words, layout in _BY_NAME if re.search(words, name)), None)
    if track.program in _BASSES or found is None:  # "Bass" is a guitar there
        return by_program
    if track.program in _SECTIONS or (found.clefs == _BY_RANGE and _KEYBOARD.search(name)):
        return by_program
    if track.program in _GUITARS and found.clefs[0] not in ("treble8", "bass8"):
        return by_program
    stated = _IN_KEY.search(track.name)
    if stated and found.is_single:
        return replace(found, transposed=_sounding(stated, found.transposed))
    return found


def _sounding(stated: re.Match[str], usual: int) -> int:
    """Return the transposition of an instrument “in A”, in the octave nearest to the usual one."""
    up = _SEMITONES[stated[1].upper()] - bool(stated[2]) + bool(stated[3])
    near = min((up - 24, up - 12, up), key=lambda one: (abs(one - usual), one))
    return near if usual or near != 12 else 0


def _by_range(layout: Layout, pitches: np.ndarray) -> Layout:
    """Choose clefs and staves where they depend on the music."""
    if layout.clefs[0] in _HIGHEST and len(pitches):
        return replace(layout, clefs=(_comfortable(layout.clefs[0], float(np.median(pitches))),))
    if layout.clefs[0] != "range":
        return layout
    highest, lowest = pitches.max(initial=MIDDLE_C), pitches.min(initial=MIDDLE_C)
    if len(layout.clefs) > 1 and lowest < MIDDLE_C - FAR and highest > MIDDLE_C + FAR:
        return replace(layout, clefs=_GRAND)
    is_high = not len(pitches) or np.median(pitches) >= MIDDLE_C - 1
    return replace(layout, clefs=("treble" if is_high else "bass",))


# The highest median pitch for which players of low instruments read a clef.
_HIGHEST = {"alto": 74, "bass": 63, "tenor": 70}


def _comfortable(clef: str, median: float) -> str:
    """Return the clef of a low instrument, or a higher one where it plays high."""
    following = {"bass": "tenor", "tenor": "treble", "alto": "treble"}
    while clef in _HIGHEST and median > _HIGHEST[clef]:
        clef = following[clef]
    return clef


_RIGHT = re.compile(r"\b(right|r\.? ?h\.?|upper|rechte)\b", re.IGNORECASE)
_LEFT = re.compile(r"\b(left|l\.? ?h\.?|lower|linke)\b|\(staff 2\)", re.IGNORECASE)


def are_hands(one: Track, other: Track) -> bool:
    """Return whether two tracks are the right and the left hand of one keyboard player."""
    alike = one.program == other.program and not one.is_drum and not other.is_drum
    keyboard = _stated(replace(one, name="keys")).clefs == _GRAND
    second = _LEFT.search(other.name) is not None
    return (
        alike
        and keyboard
        and second
        and (_RIGHT.search(one.name) is not None or other.name.startswith(one.name))
    )


def hands_name(one: Track) -> str:
    """Return the name of the part of both hands."""
    rest = re.sub(
        rf"[\s,:()_-]*{_RIGHT.pattern}[\s.]*(hand)?[\s,:()_-]*", " ", one.name, flags=re.IGNORECASE
    )
    return rest.strip() or INSTRUMENTS[one.program]


# The instruments of General MIDI as players call them, by program.
INSTRUMENTS: tuple[str, ...] = (
    "Piano", "Bright Piano", "Electric Grand", "Honky-tonk Piano", "Electric Piano", "Electric Piano", "Harpsichord",
    "Clavinet", "Celesta", "Glockenspiel", "Music Box", "Vibraphone", "Marimba", "Xylophone", "Tubular Bells",
    "Dulcimer", "Organ", "Organ", "Organ", "Church Organ", "Harmonium", "Accordion", "Harmonica", "Bandoneon",
    "Guitar", "Acoustic Guitar", "Jazz Guitar", "Electric Guitar", "Electric Guitar", "Electric Guitar",
    "Electric Guitar", "Guitar Harmonics", "Double Bass", "Bass Guitar", "Bass Guitar", "Fretless Bass", "Bass Guitar",
    "Bass Guitar", "Synth Bass", "Synth Bass", "Violin", "Viola", "Violoncello", "Contrabass", "Strings", "Strings",
    "Harp", "Timpani", "Strings", "Strings", "Synth Strings", "Synth Strings", "Choir", "Voice", "Synth Voice",
    "Orchestra Hit", "Trumpet in B♭", "Trombone", "Tuba", "Trumpet in B♭", "Horn in F", "Brass", "Synth Brass",
    "Synth Brass", "Soprano Saxophone", "Alto Saxophone", "Tenor Saxophone", "Baritone Saxophone", "Oboe",
    "English Horn", "Bassoon", "Clarinet in B♭", "Piccolo", "Flute", "Recorder", "Pan Flute", "Bottle", "Shakuhachi",
    "Whistle", "Ocarina", *["Synth Lead"] * 8, *["Synth Pad"] * 8, *["Synth Effects"] * 8, "Sitar", "Banjo",
    "Shamisen", "Koto", "Kalimba", "Bagpipe", "Fiddle", "Shanai", "Tinkle Bell", "Agogo", "Steel Drums", "Woodblock",
    "Taiko", "Melodic Tom", "Synth Drum", "Reverse Cymbal", *["Effects"] * 8,
)  # fmt: skip
DRUMS: dict[int, str] = {
    35: "Bass Drum", 36: "Bass Drum", 37: "Side Stick", 38: "Snare", 39: "Hand Clap", 40: "Snare",
    41: "Low Floor Tom", 42: "Closed Hi-Hat", 43: "High Floor Tom", 44: "Pedal Hi-Hat", 45: "Low Tom",
    46: "Open Hi-Hat", 47: "Mid Tom", 48: "High Tom", 49: "Crash Cymbal", 50: "High Tom", 51: "Ride Cymbal",
    52: "China Cymbal", 53: "Ride Bell", 54: "Tambourine", 55: "Splash Cymbal", 56: "Cowbell", 57: "Crash Cymbal 2",
    58: "Vibraslap", 59: "Ride Cymbal 2", 60: "High Bongo", 61: "Low Bongo", 62: "Muted Conga", 63: "High Conga",
    64: "Low Conga", 65: "High Timbale", 66: "Low Timbale", 67: "High Agogo", 68: "Low Agogo", 69: "Cabasa",
    70: "Maracas", 75: "Claves", 76: "High Woodblock", 77: "Low Woodblock", 80: "Muted Triangle", 81: "Triangle",
}  # fmt: skip


def name_of(track: Track, layout: Layout) -> str:
    """Return the name that a part carries: its own, or that of its instrument; a tune may have none."""
    if name := track.name.strip():
        return name
    is_tune = track.program == 0 and len(layout.clefs) == 1
    return "Drums" if track.is_drum else "" if is_tune else INSTRUMENTS[track.program]


def drum_name(pitch: int) -> str:
    """Return the name of a drum."""
    return DRUMS.get(pitch, f"Drum {pitch}")
