"""The vocabulary of the ensemble language: its time grid, its instruments, and the meaning of its tokens.

A beat (a quarter note) has 24 steps, which fit both triplets and thirty-second notes. Lengths are note values,
including dotted and tied ones; any other length is rounded to the nearest of them.
"""

from __future__ import annotations

import numpy as np

from tokenization.analysis.chords import CHORDS, ROOTS
from tokenization.analysis.metres import LENGTHS as METRE_SUBBEATS
from tokenization.analysis.metres import NAMES as METRE_NAMES
from tokenization.language import GOAL_FAMILIES, Vocabulary
from tokenization.records import nearest

STEPS_PER_BEAT = 24
STEPS_PER_SUBBEAT = STEPS_PER_BEAT // 4  # metres are counted in sixteenths
METRE_STEPS = METRE_SUBBEATS * STEPS_PER_SUBBEAT  # (metres,)
LONGEST_BAR = int(METRE_STEPS.max())
# Steps per tick of musical time. Eight ticks per beat keep the positions in a bar apart.
CLOCK_STEPS = 3

MOST_PARTS = 16  # per piece
MOST_VOICES = 8  # parts with the same instrument
LOUDNESS_LEVELS = 16
FLAT_VELOCITY = 72  # of every note in a piece without dynamics; no loudness level decodes to it

# Note values in steps: exact for notated lengths, at most a fifth off for performed ones.
LENGTHS = np.array([
    1, 2, 3, 4, 6, 8, 9, 12, 15, 16, 18, 21, 24, 27, 30, 32, 36, 42, 48, 54, 60, 66, 72, 84, 96, 108,
    120, 132, 144, 168, 192, 240, 288, 336, 384,
])  # fmt: skip

# General MIDI programs that sound alike and are played alike. New parts get the first program of their group.
INSTRUMENTS = {
    "piano": (0, 1, 3),
    "electric_piano": (4, 2, 5),
    "harpsichord": (6, 7),
    "mallets": (11, 8, 9, 10, 12, 13, 14, 15, 108),
    "organ": (16, 17, 18, 19, 20),
    "accordion": (21, 22, 23),
    "nylon_guitar": (24,),
    "steel_guitar": (25,),
    "electric_guitar": (26, 27),
    "muted_guitar": (28,),
    "distorted_guitar": (29, 30, 31),
    "acoustic_bass": (32,),
    "electric_bass": (33, 34, 36, 37),
    "fretless_bass": (35,),
    "synth_bass": (38, 39),
    "violin": (40, 110),
    "viola": (41,),
    "cello": (42,),
    "contrabass": (43,),
    "strings": (48, 44, 49, 50, 51),
    "pizzicato": (45,),
    "harp": (46,),
    "timpani": (47,),
    "voice": (52, 53, 54, 85),
    "trumpet": (56, 59),
    "trombone": (57,),
    "tuba": (58,),
    "horn": (60,),
    "brass": (61, 55, 62, 63),
    "alto_sax": (65, 64),
    "tenor_sax": (66, 67),
    "oboe": (68, 69, 109, 111),
    "bassoon": (70,),
    "clarinet": (71,),
    "flute": (73, 72),
    "recorder": (74, 75, 76, 77, 78, 79),
    "lead": (80, 81, 82, 83, 84, 86, 87),
    "pad": (89, 88, 90, 91, 92, 93, 94, 95),
    "synth_effects": (99, 96, 97, 98, 100, 101, 102, 103),
    "plucked": (105, 104, 106, 107),
    "percussion": (115, 112, 113, 114, 116, 117, 118, 119),
    "sound_effects": (120, 121, 122, 123, 124, 125, 126, 127),
}
PITCHED = len(INSTRUMENTS)  # instruments with a smaller index are pitched
DRUMS, HARMONY = PITCHED, PITCHED + 1  # the drum kit; the chord symbols, which are a part too
PART_NAMES = (*INSTRUMENTS, "drums", "chords")
# Generic names for several instruments. If a piece has none of them, the first one is added.
FAMILIES = {
    "bass": ("electric_bass", "acoustic_bass", "fretless_bass", "synth_bass"),
    "guitar": ("electric_guitar", "steel_guitar", "nylon_guitar", "muted_guitar"),
    "sax": ("alto_sax", "tenor_sax"),
}
LOWEST_DRUM, HIGHEST_DRUM = 27, 87  # the drum sounds of General MIDI 2
STYLES = ("pop", "song", "quartet", "keyboard", "band", "drums")
LATER_STYLES = ("rock", "film", "choir", "orchestra", "folk")  # unknown to earlier models
# Tempo levels in beats per minute, and the lower edges of all but the first.
TEMPOS = (44, 55, 65, 75, 85, 95, 106, 120, 135, 156, 184, 215)
TEMPO_EDGES = (50, 60, 70, 80, 90, 100, 112, 126, 144, 168, 200)
RETURNS = ("new", "1", "2", "4", "8", "16", "other")  # bars back
BARS_BACK = np.array([int(name) for name in RETURNS if name.isdecimal()])
DENSITIES, REGISTERS, DYNAMICS, PLAYERS = 8, 10, 8, 8

PLAN_FAMILIES: list[tuple[str, list[str]]] = [
    ("return", [f"return_{bars}" for bars in RETURNS]),  # new, or like the bar n bars back
    ("density", [f"density_{level}" for level in range(DENSITIES)]),  # notes per beat
    ("register", [f"register_{level}" for level in range(REGISTERS)]),  # of the highest notes
    ("dynamics", [f"dynamics_{level}" for level in range(DYNAMICS)]),
    ("players", [f"players_{count}" for count in range(1, PLAYERS + 1)]),  # number of parts
]
PLAN = tuple(name for name, _ in PLAN_FAMILIES)

_FAMILIES = [
    ("special", ["padding", "begin", "end"]),
    ("bar", ["bar"]),
    ("tempo", [f"tempo_{tempo}" for tempo in TEMPOS]),
    ("flat", ["flat"]),  # the piece has no dynamics
    ("metre", [f"metre_{name}" for name in METRE_NAMES]),
    ("part", list(PART_NAMES)),
    ("voice", [f"voice_{number}" for number in range(2, MOST_VOICES + 1)]),
    ("at", [f"at_{step}" for step in range(LONGEST_BAR)]),
    ("length", [f"length_{steps}" for steps in LENGTHS]),
    ("loudness", [f"loudness_{level}" for level in range(LOUDNESS_LEVELS)]),
    ("pitch", [f"pitch_{pitch}" for pitch in range(128)]),
    ("drum", [f"drum_{pitch}" for pitch in range(LOWEST_DRUM, HIGHEST_DRUM + 1)]),
    ("chord", [f"chord_{name}" for name in CHORDS]),
    ("style", [f"style_{name}" for name in STYLES]),
    ("key", [f"key_{root}_{mode}" for mode in ("major", "minor") for root in ROOTS]),
    *PLAN_FAMILIES,
    *GOAL_FAMILIES,
]  # fmt: skip
EARLIER = Vocabulary(_FAMILIES)
VOCABULARY = Vocabulary([*_FAMILIES, ("later_style", [f"style_{name}" for name in LATER_STYLES])])
BEGIN, END, BAR = (VOCABULARY.id(name) for name in ("begin", "end", "bar"))
FLAT, AFTER, BEFORE = (VOCABULARY.id(name) for name in ("flat", "after", "before"))
METRE, PART, VOICE, AT = (VOCABULARY[name] for name in ("metre", "part", "voice", "at"))
LENGTH, LOUDNESS, PITCH = (VOCABULARY[name] for name in ("length", "loudness", "pitch"))
DRUM, CHORD = VOCABULARY["drum"], VOCABULARY["chord"]
STYLE, TEMPO, KEY = (VOCABULARY[name] for name in ("style", "tempo", "key"))
LEFT_1, SEAM_1 = VOCABULARY["left"].start, VOCABULARY["seam"].start
LATER_STYLE = VOCABULARY["later_style"]
# Tokens from here on are not part of a score: style, key, plan, and goals.
EXTRA_START = STYLE.start
PLAN_START, PLAN_STOP = VOCABULARY[PLAN[0]].start, VOCABULARY[PLAN[-1]].stop
PLAYERS_1 = VOCABULARY["players"].start
HARMONY_ID = PART.start + HARMONY


def label_of(name: str) -> str:
    """Return a name typed by a user in the form used here: lower case, with underscores."""
    return name.strip().casefold().replace(" ", "_")


def instruments(name: str) -> tuple[str, ...]:
    """Return the instruments that a name can stand for; raise ValueError for an unknown name."""
    label = label_of(name)
    found = FAMILIES.get(label, (label,))
    if found[0] not in PART_NAMES:
        raise ValueError(
            f"there is no instrument {name!r}{nearest(label, PART_NAMES)}; "
            "examples are piano, violin, flute, electric_bass and drums"
        )
    return found


INSTRUMENT_OF = np.zeros(128, dtype=np.int64)  # program → instrument
for _number, _programs in enumerate(INSTRUMENTS.values()):
    INSTRUMENT_OF[list(_programs)] = _number
_MIDDLES = np.sqrt(LENGTHS[1:] * LENGTHS[:-1])


def nearest_length(steps: np.ndarray) -> np.ndarray:
    """Return the index of the note value whose ratio to each length is nearest to 1."""
    return np.searchsorted(_MIDDLES, steps, side="right")


def longest_within(steps: np.ndarray) -> np.ndarray:
    """Return the index of the longest note value that fits into each number of steps, from 1."""
    return np.searchsorted(LENGTHS, steps, side="right") - 1


def loudness_of(velocity: np.ndarray) -> np.ndarray:
    """Return the loudness level of velocities."""
    return np.clip(velocity, 0, 127) * LOUDNESS_LEVELS // 128


def velocity_of(level: np.ndarray) -> np.ndarray:
    """Return the velocity in the middle of a loudness level."""
    return np.asarray(level) * (128 // LOUDNESS_LEVELS) + 64 // LOUDNESS_LEVELS


def tempo_level(beats_per_minute: float) -> int:
    """Return the tempo level."""
    return int(np.searchsorted(TEMPO_EDGES, beats_per_minute, side="right"))
