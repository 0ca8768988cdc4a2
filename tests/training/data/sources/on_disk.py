"""Tiny data sets in the format of each source, and a reader that crashes. Worker processes import it without torch."""

import os
import pickle
import signal
from pathlib import Path

import numpy as np

from tests.tokenization.notation.scores import bars, compressed, note, rest, score
from tokenization.midi.writing import write_midi
from tokenization.score import Marker, Meters, Notes, Score, Tempos, Track
from tokenization.whole_file import write_bytes
from training.data.prepare import EncodedPiece, encode_piece
from training.data.sources.source import Piece, Skipped

TICKS = 480


def piano(seed: int = 0, *, bars: int = 4, markers: tuple[Marker, ...] = ()) -> Score:
    """Return a random piano piece with two notes on each beat, as a function of the seed."""
    random = np.random.default_rng(seed)
    onset = np.repeat(np.arange(4 * bars) * TICKS, 2)
    pitch = random.integers(40, 90, len(onset))
    pitch[1::2] = (pitch[::2] - 40 + 7) % 50 + 40  # never the same pitch twice at once
    same = np.ones_like(onset)
    notes = Notes(onset, TICKS * same, pitch, 80 * same, 0 * same)
    return piece([notes], (Track(name="piano"),), 100.0, markers)


def band(seed=0, *, names=("Bass", "Drums", "Piano", "Guitar"), first_beat=0, bars=4) -> Score:
    """Return random bars of bass, drums and others, from a beat on."""
    random = np.random.default_rng(seed)
    programs = {"Bass": 33, "Drums": 0, "Piano": 0, "Guitar": 25, "Strings": 48}
    parts, tracks = [], []
    for index, name in enumerate(names):
        beats = first_beat + np.arange(4 * bars)
        kind = name.split()[-1]
        lowest = {"Bass": 30, "Drums": 36}.get(kind, 60)
        pitch = lowest + random.integers(0, 12, 4 * bars)
        ticks = np.full(4 * bars, TICKS // 2)
        parts.append(Notes(beats * TICKS, ticks, pitch, ticks * 0 + 90, ticks * 0 + index))
        tracks.append(Track(name=name, program=programs[kind], is_drum=kind == "Drums"))
    return piece(parts, tuple(tracks), 120.0)


def piece(parts: list[Notes], tracks: tuple, tempo: float, markers: tuple = ()) -> Score:
    """Return a score in 4/4 at one tempo."""
    notes, tempos = Notes.concatenate(parts).sorted(), Tempos([0], [tempo])
    in_four = Score(ticks_per_beat=TICKS, notes=notes, tracks=tracks, meters=Meters([0], [4], [4]))
    return in_four.replace(tempos=tempos, markers=markers)


def put(path: Path, score: Score) -> None:
    """Write a score as a MIDI file, with its folder."""
    write_bytes(path, write_midi(score))


def midi_folder(folder: Path, count: int = 5) -> Path:
    """Write MIDI files at several depths, with all extensions."""
    for number in range(count):
        name = f"song{number}{('.mid', '.MIDI', '.kar')[number % 3]}"
        put(folder / ("deep/er" if number % 2 else "") / name, piano(number))
    return folder


def pop909_song(folder: Path, number: int, *, bars: int = 4) -> None:
    """Write a song at 100 beats per minute with one chord per bar."""
    song = folder / f"{number:03d}"
    put(song / f"{number:03d}.mid", piano(number, bars=bars))
    beats = range(4 * bars + 1)
    rows = [f"{0.6 * beat:.3f} {beat % 2 == 0:.1f} {beat % 4 == 0:.1f}" for beat in beats]
    (song / "beat_midi.txt").write_text("\n".join(rows))
    names = ("C:maj", "A:min7", "N", "G:7")
    chords = [f"{2.4 * bar} {2.4 * (bar + 1)} {names[bar % 4]}" for bar in range(bars)]
    (song / "chord_midi.txt").write_text("\n".join(chords))


def pop909(folder: Path, count: int = 3) -> Path:
    for number in range(1, count + 1):
        pop909_song(folder, number)
    (folder / "LICENSE").write_text("MIT License")
    return folder


def pop_piano_midi(folder: Path, count: int = 3) -> Path:
    """Write files of the release's last two stages, of which the last has markers."""
    names = ((0, "global_bpm_100"), (0, "A_m7_A"), (960, "N_N_N"), (1920, "C_M_E"), (1920, "Bar-2"))
    markers = tuple(Marker(*named) for named in names)
    for stage, marked in (("midi_synchronized", ()), ("midi_analyzed", markers)):
        for number in range(count):
            put(folder / stage / f"{number}.mid", piano(number, markers=marked))
    return folder


def events(seed: int = 0) -> tuple[list[int], list[dict]]:
    """Return the content of an event pickle: two bars, with some numpy numbers as values."""
    high, loud = np.int64(60 + seed), np.int64(80)
    bar = [
        *(("Bar", None), ("Beat", 0), ("Tempo", 110), ("Chord", "A_m7")),
        *(("Note_Pitch", high), ("Note_Velocity", loud), ("Note_Duration", 480)),
        *(("Beat", 8), ("Note_Pitch", 64), ("Note_Velocity", 70), ("Note_Duration", 60)),
    ]
    listed = [{"name": name, "value": value} for name, value in [*bar, *bar, ("EOS", None)]]
    return [0, len(bar)], listed


def pop_piano_events(folder: Path, count: int = 3) -> Path:
    for number in range(count):
        write_bytes(folder / f"{number}.pkl", pickle.dumps(events(number)))
    return folder


def lieder(folder: Path, count: int = 3) -> Path:
    """Write compressed scores for voice and piano that begin with a pickup."""
    for number in range(count):
        voice = (note("CDEFGAB"[n + number], 4, 2 if n == 0 else 6) for n in range(4))
        piano = bars(rest(2), *(note("C", 3 + number % 2, 6) for _ in range(3)), beats=3)
        parts = bars(*voice, beats=3), piano
        write_bytes(folder / f"lc{100 + number}.mxl", compressed(score(*parts)))
    (folder / "LICENSE.txt").write_text("CC0 1.0 Universal")
    return folder


def quartets(folder: Path, count: int = 3) -> Path:
    """Write compressed scores in four parts."""
    for number in range(count):
        parts = [
            bars(*(note(step, octave, 8) for step in "CDEFGAB"[number : number + 4]))
            for octave in (5, 4, 4, 3)
        ]
        write_bytes(folder / f"sq{100 + number}.mxl", compressed(score(*parts)))
    return folder


def polish_keyboard(folder: Path) -> Path:
    """Write MIDI files of keyboard music, and a list in which two of them are the same work."""
    rows = []
    for number, name in enumerate(("Polonez", "Mazur", "Polonez", "Walc")):
        put(folder / f"pl-{number}.mid", piano(number))
        rows.append(f"pl-{number}\tOgiński, Michał\t{name}\t4/4\t64\t4\t0")
    (folder / "list.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def orchestra(folder: Path) -> Path:
    """Write two movements of a work, and one of another with its melody, for two instruments."""
    names = (
        "Beach__Amy_Op.32_1_Beach_Op.32_1 Haydn_104_1 Symphony/Beach_Op.32_2,3 Haydn_104_1_melody"
    )
    for number, name in enumerate(names.split()):
        parts = [
            bars(*(note(step, octave, 8) for step in "CDEFGAB"[number : number + 4]))
            for octave in (5, 3)
        ]
        write_bytes(folder / f"{name}.mxl", compressed(score(*parts)))
    return folder


def open_hymnal(folder: Path) -> Path:
    """Write two hymns to one tune and one to another."""
    for number, name in enumerate(("Praise-Old_100th", "Joy-Old_100th", "Joy-Ode")):
        notes = "".join("CDEFGAB"[(number + place) % 7] for place in range(4))
        hymn(folder / f"{name}.abc", *(f"{notes}|{notes}|" for _ in range(4)))
    return folder


def hymn(path: Path, *voices: str) -> None:
    """Write a hymn with the voices' notes in ABC."""
    body = "".join(f"V:{number}\n{notes}\n" for number, notes in enumerate(voices, 1))
    write_bytes(path, f"X:1\nT:Hymn\nM:4/4\nL:1/4\nK:C\n{body}".encode())


def madrigals(folder: Path) -> Path:
    """Write scores for two voices in bars of a breve."""
    for number in range(3):
        parts = [
            bars(
                *(note(step, octave, 16) for step in "CDEFGAB"[number : number + 4]),
                beats=2,
                beat_type=1,
            )
            for octave in (5, 4)
        ]
        write_bytes(folder / f"{number}.musicxml", score(*parts))
    return folder


def freedoom(folder: Path) -> Path:
    """Write three bands, of which one is based on another."""
    for number, name in enumerate(("d_dm10", "d_map30", "d_e1m1")):
        put(folder / f"{name}.mid", band(number))
    (folder / "SOURCE-COPYING.adoc").write_text("Redistribution and use")
    return folder


def free_music(folder: Path) -> Path:
    """Write a piece, a remix of it, and another piece."""
    for number, name in enumerate(("Faith", "Faith_love_remix_", "Fate (march remix)")):
        put(folder / f"{name}.mid", band(number))
    return folder


def dance_tunes(folder: Path) -> Path:
    """Write a high and a low tune, of which one has an accompaniment."""
    for lowest, name, tracks in (
        (66, "AnacCuanThe", ("Piano", "Bass")),
        (57, "AnacCuanReel2", ("Piano",)),
    ):
        tune = band(lowest, names=tracks)
        pitch = np.where(tune.notes.track == 0, tune.notes.pitch + lowest - 60, tune.notes.pitch)
        put(folder / f"{name}.mid", tune.replace(notes=tune.notes.replace(pitch=pitch).sorted()))
    return folder


def human_drums(folder: Path, *, odd: bool = False) -> Path:
    """Write performances in every split; with `odd`, also a fill, one in 3/4, and one that is listed but missing."""
    listed = ["drummer,style,beat_type,time_signature,midi_filename,split"]
    rows = [("beat", "4-4", split) for split in ("train", "train", "validation", "test")]
    if odd:
        rows += [("fill", "4-4", "train"), ("beat", "3-4", "train"), ("beat", "4-4", "train")]
    for number, (kind, metre, split) in enumerate(rows):
        file = f"drummer1/{number}_rock_120_{kind}_{metre}.mid"
        listed.append(f"drummer1,rock,{kind},{metre},{file},{split}")
        beats = 3 if kind == "fill" else 16
        onset = np.arange(2 * beats) * TICKS // 2 + np.arange(2 * beats) % 2 * (5 + number)
        pitch = np.random.default_rng(number).choice([36, 22, 38, 26], len(onset))
        drums = Notes(onset, 0 * onset + 40, pitch, 0 * onset + 90, 0 * onset)
        if number < 6:
            tracks = (Track("Drums", 0, True),)
            put(folder / file, Score(ticks_per_beat=TICKS, notes=drums, tracks=tracks))
    (folder / "info.csv").write_text("\n".join(listed) + "\n")
    (folder / "LICENSE").write_text("Creative Commons Attribution 4.0")
    return folder


def groove_songs(folder: Path) -> Path:
    """Write accompaniments over songs, all in the training split."""
    for number, style in enumerate("ab"):
        put(folder / "train" / f"bb{number:04d}.{style}_{style}1.mid", band(60 + number))
    return folder


def groove(folder: Path) -> Path:
    """Write two training styles, one for validation and one for test, with two pieces each."""
    for split, styles in {"train": "ab", "val": "c", "test": "d"}.items():
        for style in styles:
            for chart in range(2):
                name = f"pop{chart}.lib{style}_{style}.mid"
                put(folder / split / name, band(10 * ord(style) + chart))
    return folder


def groove2groove(folder: Path, styles: int = 6) -> Path:
    """Write files like Groove2Groove's: two sub-styles per style, two files per sub-style, with a count-in."""
    names = ("BB Bass", "BB Drums", "BB Piano", "BB Strings", "BB Strings")
    for part, range_ in {"train": range(styles), "itest": range(1), "val": range(90, 91)}.items():
        for style in range_:
            for sub in "ab":
                for chart in range(2):
                    name = f"midi/{part}/fixed/maj{chart}.STYLE{style}_{sub}.mid"
                    score = band(1000 * style + 10 * ord(sub) + chart, names=names, first_beat=8)
                    count_in = Notes([0, 480], [240, 240], [37, 37], [90, 90], [1, 1])
                    notes = Notes.concatenate([score.notes, count_in]).sorted()
                    put(folder / name, score.replace(notes=notes))
    return folder


def encode_or_crash(source: str, language: str, piece: Piece) -> EncodedPiece | Skipped:
    """Do what `encode_piece` does, but crash on the first song."""
    if piece.name == "song0.mid":
        os.kill(os.getpid(), signal.SIGSEGV)
    return encode_piece(source, language, piece)
