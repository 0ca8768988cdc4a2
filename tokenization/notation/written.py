"""What a written score says, bar by bar, before its repeats are played: what MusicXML and ABC have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenization.score import Track

TICKS_PER_BEAT = 10080  # 2⁵·3²·5·7: tuplets of 3, 5, 7 and 9 are whole numbers of ticks
SIXTEENTH_TICKS = TICKS_PER_BEAT // 4
GRACE_TICKS = TICKS_PER_BEAT // 8  # a 32nd each before the note they lead to; one alone is a 16th
VELOCITY = 80  # where nothing is said
# As programs for scores play them: about 15 between two.
DYNAMICS = {
    **{"pppp": 12, "ppp": 22, "pp": 34, "p": 50, "mp": 65, "mf": 80, "f": 92, "ff": 104},
    **{"fff": 116, "ffff": 124, "sf": 104, "sfz": 104, "fp": 70, "fz": 104},
}


@dataclass(slots=True)
class WrittenNote:
    """A note as it stands in a bar; ticks count from the bar's start, before it for a grace note."""

    ticks: int
    length: int
    pitch: int
    velocity: int
    instrument: int  # of its part
    tied_from: bool = False  # it goes on with a note that ends where it begins
    tied_on: bool = False


@dataclass(slots=True)
class PartBar:
    """One bar of one part."""

    notes: list[WrittenNote] = field(default_factory=list)
    length: int = 0  # how far its notes and rests reach


@dataclass
class Part:
    """A player's part, with a track for each instrument in it."""

    tracks: list[Track]
    bars: list[PartBar] = field(default_factory=list)


@dataclass
class Line:
    """What stands at a bar for all parts: its time, tempos, chords, and where to go on after it."""

    time: tuple[int, int] | None = None  # where it changes
    tempos: list[tuple[int, float]] = field(default_factory=list)  # (ticks, quarters a minute)
    chords: list[tuple[int, str]] = field(default_factory=list)
    forward: bool = False  # a repeat starts here
    backward: int = 0  # a repeat ends here, after so many times; 0 for none
    endings: frozenset[int] | None = None  # the times at which it is played; None: always
    section: str = ""  # the name of the section that starts here
    marks: set[str] = field(default_factory=set)  # segno, coda, fine, tocoda, dacapo, dalsegno


@dataclass
class Written:
    """A written score."""

    parts: list[Part]
    lines: list[Line]
    remarks: list[str] = field(default_factory=list)
    sections: str = ""  # in the order of playing, a letter each; as they stand if empty


def place_graces(graces: list[WrittenNote], tick: int) -> list[WrittenNote]:
    """Return grace notes as they are played: before the note they lead to, which begins at a tick."""
    length = GRACE_TICKS if len(graces) > 1 else 2 * GRACE_TICKS
    for place, note in enumerate(reversed(graces), 1):
        note.ticks, note.length = tick - place * length, length
    return graces
