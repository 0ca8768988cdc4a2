"""Small files of many kinds, made in code, for the table of jobs."""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import mido

from tests.tokenization.notation.scores import bars, score

Meta, Message = mido.MetaMessage, mido.Message
BARS = 8
Row = tuple[float, float, int, int]  # beat, beats, pitch, velocity
Timed = tuple[float, mido.Message | Meta]  # at a beat
DRUMS = 9
CHORDS = ((48, 52, 55), (45, 48, 52), (41, 45, 48), (43, 47, 50))
TUNE = (0, 2, 4, 7, 9, 7, 4, 2)


@dataclass(frozen=True)
class OwnFile:
    """A file with its name, and the length of its bars in ticks."""

    name: str
    data: bytes
    bar: int = 0  # ticks
    beat: int = 480  # ticks


def part(
    channel: int, program: int, rows: Iterable[Row], more: Iterable[Timed] = ()
) -> list[Timed]:
    """Return the events of a part, which are released before the next note of their key."""
    found: list[Timed] = [*more]
    if channel != DRUMS:
        found.append((0, Message("program_change", channel=channel, program=program)))
    for at, beats, pitch, velocity in rows:
        found.append((at, Message("note_on", channel=channel, note=pitch, velocity=velocity)))
        found.append(
            (at + beats * 0.95, Message("note_off", channel=channel, note=pitch, velocity=64))
        )
    return found


def midi(
    parts: dict[str, list[Timed]], *, metre: tuple[int, int] = (4, 4), beat: int = 480, tempo: float = 120,
    kind: int = 1, head: Iterable[Timed] = (),
) -> tuple[bytes, int, int]:  # fmt: skip
    """Return a file, the ticks of a bar, and those of a beat."""
    top, low = metre
    conductor: list[Timed] = [
        (0, Meta("set_tempo", tempo=mido.bpm2tempo(tempo))),
        (0, Meta("time_signature", numerator=top, denominator=low)),
        *head,
    ]
    tracks = [("", conductor), *parts.items()]
    if kind == 0:
        tracks = [("", [event for _, events in tracks for event in events])]
    file = mido.MidiFile(type=kind, ticks_per_beat=beat)
    for name, events in tracks:
        track, tick = mido.MidiTrack(), 0
        if name:
            track.append(Meta("track_name", name=name))
        # Ends of notes come before starts.
        for at, message in sorted(
            events, key=lambda one: (round(one[0] * beat), one[1].type == "note_on")
        ):
            track.append(message.copy(time=round(at * beat) - tick))
            tick = round(at * beat)
        file.tracks.append(track)
    file.save(file=(saved := io.BytesIO()))
    return saved.getvalue(), beat * 4 * top // low, beat


def melody(octave: int = 60, beats: float = 4, step: float = 0.5) -> list[Row]:
    return [
        (n * step, step, octave + TUNE[n % 8] + 2 * (n // 8 % 2), 70 + 5 * (n % 5))
        for n in range(int(BARS * beats / step))
    ]


def chords(beats: float = 4, at: Iterable[float] = (0, 2)) -> list[Row]:
    return [
        (bar * beats + beat, 1, pitch + 12, 64 + bar)
        for bar in range(BARS) for beat in at for pitch in CHORDS[bar % 4]
    ]  # fmt: skip


def bass(beats: float = 4, step: float = 1) -> list[Row]:
    count = int(beats / step)
    return [
        (bar * beats + n * step, step, CHORDS[bar % 4][0] - 12 + (0, 7, 4, 7)[n % 4], 80 + n)
        for bar in range(BARS) for n in range(count)
    ]  # fmt: skip


def kit(beats: float = 4, step: float = 0.5) -> list[Row]:
    """Return a beat with a fill in every fourth bar."""
    rows: list[Row] = []
    for bar in range(BARS):
        for n in range(int(beats / step)):
            at = bar * beats + n * step
            rows.append((at, 0.2, 42, 60 + 10 * (n % 2)))
            if n % 4 in (0, 2):
                rows.append((at, 0.2, 38 if n % 4 else 36, 96))
            if bar % 4 == 3 and n > 4:
                rows.append((at, 0.2, 45 + n % 3, 90))
    return rows


def pedal(channel: int, beats: float = 4) -> list[Timed]:
    return [
        (bar * beats + at, Message("control_change", channel=channel, control=64, value=value))
        for bar in range(BARS) for at, value in ((0.1, 127), (beats - 0.2, 0))
    ]  # fmt: skip


def pop_band() -> tuple[bytes, int, int]:
    volume = [(0.0, Message("control_change", channel=0, control=7, value=110))]
    bends = [
        (2.0, Message("pitchwheel", channel=2, pitch=900)),
        (2.5, Message("pitchwheel", channel=2, pitch=0)),
    ]
    return midi(
        {
            "Lead Vocal": part(0, 53, melody(67), volume),
            "Keys": part(1, 4, chords(), pedal(1)),
            "E-Guitar": part(2, 27, chords(at=(1, 3)), bends),
            "Bass": part(3, 33, bass()),
            "Drums": part(DRUMS, 0, kit()),
        },
        head=[(0, Meta("key_signature", key="C")), (0, Meta("marker", text="Verse"))],
    )


def quartet() -> tuple[bytes, int, int]:
    return midi({
        "Violin I": part(0, 40, melody(72, step=1 / 3)), "Violin II": part(1, 40, melody(67, step=1)),
        "Viola": part(2, 41, melody(60, step=1)), "Violoncello": part(3, 42, bass(step=2)),
    })  # fmt: skip


def waltz() -> tuple[bytes, int, int]:
    hands = {"Right hand": part(0, 0, melody(72, 3)), "Left hand": part(1, 0, chords(3, (1, 2)))}
    return midi(hands, metre=(3, 4), tempo=160)


def blues() -> tuple[bytes, int, int]:
    third = 0.5  # an eighth, three of which are a beat of 12/8
    return midi(
        {"Lead Guitar": part(0, 29, melody(64, 6, 1.5)), "Organ": part(1, 16, chords(6, (0, 3))),
         "Upright Bass": part(2, 32, bass(6, 1.5)), "Kit": part(DRUMS, 0, kit(6, third))},
        metre=(12, 8), tempo=150,
    )  # fmt: skip


def swing() -> tuple[bytes, int, int]:
    swung = [
        (n // 2 + (n % 2) * 2 / 3, 2 / 3 - (n % 2) / 3, 58 + TUNE[n % 8], 80 + 8 * (n % 2))
        for n in range(BARS * 8)
    ]
    return midi({
        "Tenor Sax": part(0, 66, swung), "Piano": part(1, 0, chords(at=(1.667, 3))),
        "Upright Bass": part(2, 32, bass()), "Drums": part(DRUMS, 0, kit(step=1)),
    })  # fmt: skip


def everything() -> tuple[bytes, int, int]:
    """Return a file with events of all kinds, at 960 ticks a beat."""
    wide = [
        *pedal(0), (1.0, Message("aftertouch", channel=0, value=50)),
        (1.5, Message("polytouch", channel=0, note=60, value=40)), (2.0, Message("pitchwheel", channel=0, pitch=-700)),
        (2.2, Message("pitchwheel", channel=0, pitch=0)), (4.0, Meta("lyrics", text="la")),
        (3.0, Message("control_change", channel=0, control=1, value=64)), (0.0, Meta("instrument_name", name="Grand")),
    ]  # fmt: skip
    head = [
        (0, Meta("key_signature", key="Eb")), (0, Meta("copyright", text="nobody")), (0, Meta("cue_marker", text="go")),
        (0, Message("sysex", data=(0x7E, 0x7F, 9, 1))), (16, Meta("set_tempo", tempo=600_000)),
        (8, Meta("marker", text="Chorus")), (0, Meta("sequencer_specific", data=(1, 2, 3))),
    ]  # fmt: skip
    parts = {
        "Grand Piano": part(0, 0, melody(), wide),
        "Synth": part(1, 81, chords()),
        "Slap": part(2, 36, bass()),
    }
    return midi(parts, beat=960, head=head)


def ten_tracks() -> tuple[bytes, int, int]:
    winds = {
        "Flute": 73,
        "Oboe": 68,
        "Clarinet": 71,
        "Trumpet 1": 56,
        "Trumpet 2": 56,
        "Trombone": 57,
        "Strings": 48,
    }
    parts = {
        name: part(number, program, melody(58 + 2 * number, step=1))
        for number, (name, program) in enumerate(winds.items())
    }
    rest = {
        "Guitar": part(7, 26, chords()),
        "Bass": part(8, 32, bass()),
        "Set": part(DRUMS, 0, kit()),
    }
    return midi(parts | rest)


def lead_sheet() -> bytes:
    """Return a melody with words and chord symbols as MusicXML."""
    steps, words = "CEGECDEG", ["sing", "a", "song", "of", "six", "pence", "my", "dear"]
    measures = []
    for number in range(BARS):
        root = "CAFG"[number % 4]
        kind = "minor" if root == "A" else "major"
        symbol = f"<harmony><root><root-step>{root}</root-step></root><kind>{kind}</kind></harmony>"
        notes = "".join(
            f"<note><pitch><step>{steps[(number + n) % 8]}</step><octave>5</octave></pitch><duration>2</duration>"
            f"<type>quarter</type><lyric><text>{words[(number + n) % 8]}</text></lyric></note>"
            for n in range(4)
        )
        measures.append(symbol + notes)
    names = '<score-part id="P1"><part-name>Voice</part-name></score-part>'
    return score(bars(*measures), listed=names)


JIG = """X:1
T:Own Jig
M:6/8
L:1/8
Q:3/8=110
K:G
|:GAB c2d|edc BAG|FGA ABc|dcB AGF|GAB c2d|edc BAG|AGF DEF|G3 G3|
"""

MIDIS: dict[str, Callable[[], tuple[bytes, int, int]]] = {
    "pop band": pop_band, "quartet": quartet, "waltz": waltz, "12/8 blues": blues, "swing": swing,
    "everything": everything,
    "type 0": lambda: midi(
        {"": part(0, 73, melody(72)), " ": part(1, 24, chords()), "  ": part(2, 33, bass())}, kind=0
    ),
    "piano solo": lambda: midi({"Piano": part(0, 0, [*melody(72), *chords()], pedal(0))}),
    "drums only": lambda: midi({"Drums": part(DRUMS, 0, kit())}),
    "ten tracks": ten_tracks,
}  # fmt: skip


def own_files() -> dict[str, OwnFile]:
    """Return all files by the names of their columns."""
    made = {name: make() for name, make in MIDIS.items()}
    found = {
        name: OwnFile(f"{name.replace('/', '-')}.mid", data, bar, beat)
        for name, (data, bar, beat) in made.items()
    }
    found["lead sheet"] = OwnFile("lead sheet.musicxml", lead_sheet())
    return found | {"jig": OwnFile("jig.abc", JIG.replace("|:", "|").encode(), bar=3 * 480)}
