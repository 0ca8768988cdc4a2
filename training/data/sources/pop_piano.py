"""The pop piano data of Hsiao et al. (AAAI 2021): transcribed songs with beats and chords.

It exists as MIDI files with chords as markers (`A_m7_A` or `Chord-A_m7`), in several stages of processing, the last of
which is `midi_analyzed`, and as pickled events.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from tokenization.analysis.beats import FOUR_FOUR
from tokenization.analysis.chords import parse
from tokenization.language import Language
from tokenization.score import Marker, Notes, Score, Tempos, Track
from tokenization.workers import Bounds, Failed, in_order
from training.data.sources.restricted_pickle import read_pickle
from training.data.sources.source import Found, Listing, Piece, Source, read, split_of

# An event file is a pickle of (bar positions, events), where events are a list of {name, value}: `Bar`, `Beat` 0 … 15,
# `Tempo`, `Chord`, and the sequence `Note_Pitch`, `Note_Velocity`, `Note_Duration`, with durations in 480ths of a beat.

TICKS_PER_BEAT = 480
SUBBEAT_TICKS = TICKS_PER_BEAT // 4
BAR_SUBBEATS = 16
_NOTE = ("Note_Pitch", "Note_Velocity", "Note_Duration")
_RANGES = {
    **{"Beat": (0, BAR_SUBBEATS - 1), "Tempo": (1, 1000)},
    **dict(zip(_NOTE, ((0, 127), (1, 127), (1, 1 << 20)), strict=True)),
}
_IGNORED = {"EOS", "PAD"}


def score_of_events(content: Any) -> Score:
    """Return the score of an event file, given its content."""
    notes, tempos, markers = [], [], []
    bar, subbeat = -1, 0
    note: list[int] = []  # the values of the current note so far
    for number, (name, value) in enumerate(_events(content)):
        tick = (bar * BAR_SUBBEATS + subbeat) * SUBBEAT_TICKS
        if name in _IGNORED:
            continue
        if name != "Bar" and bar < 0:
            raise ValueError(f"event {number} is {name}; expected the first Bar")
        amount = _number(number, name, value) if name in _RANGES else 0
        if name == "Bar":
            bar, subbeat = bar + 1, 0
        elif name == "Beat":
            subbeat = amount
        elif name == "Tempo":
            tempos.append((tick, amount))
        elif name == "Chord":
            markers.append(Marker(tick, str(value)))
        elif name == _NOTE[len(note)]:
            note.append(amount)
            if len(note) == len(_NOTE):
                notes.append((tick, *note))
                note = []
        else:
            raise ValueError(
                f"event {number} is {name!r}; expected Bar, Beat, Tempo, Chord or {_NOTE[len(note)]}"
            )
    onset, pitch, velocity, duration = _columns(notes, 4)
    return Score(
        ticks_per_beat=TICKS_PER_BEAT,
        notes=Notes(onset, duration, pitch, velocity, np.zeros_like(onset)),
        tracks=(Track(name="Piano"),),
        tempos=Tempos(*_columns(tempos, 2)),
        meters=FOUR_FOUR,
        markers=tuple(markers),
    )


def _events(content: Any) -> list[tuple[str, Any]]:
    try:
        _, events = content
        return [(str(event["name"]), event["value"]) for event in events]
    except (TypeError, KeyError, ValueError):
        raise ValueError("the pickle does not hold (bar positions, [{name, value}, …])") from None


def _number(number: int, name: str, value: Any) -> int:
    least, most = _RANGES[name]
    try:
        found = round(float(value))
    except (TypeError, ValueError, OverflowError):
        found = least - 1
    if not least <= found <= most:
        raise ValueError(f"event {number} is {name} {value!r}; expected {least} to {most}")
    return found


def _columns(rows: list[tuple[int, ...]], count: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, count).T


_PICKLE = re.compile(r"\.(pkl|pickle)$", re.IGNORECASE)
_SPLIT_LIST = re.compile(r"(?:^|.*/)(train|val|valid|validation|test)_pieces\.pkl")
_SPLITS = {"train": "train", "test": "test"}  # any other is validation
_LAST_STAGE = "midi_analyzed"
LIST_SECONDS, LIST_BYTES = 10.0, 1 << 29  # limits on reading a list of pieces


class PopPiano(Source):
    """MIDI files with chord markers in a folder of their stage, or event pickles, at any depth."""

    name = "pop-piano"
    title = "the pop piano data"
    shape = f"MIDI files in a folder {_LAST_STAGE}, or event pickles (.pkl)"
    language = "remi"
    languages = ("remi",)
    licence = "not stated by its authors; transcriptions of recordings"

    def find(self, listing: Listing, validation: float) -> Found:
        files = self._midi_files(listing)
        pickles = [f for f in listing.files if _PICKLE.search(f) and not _SPLIT_LIST.fullmatch(f)]
        remarks = []
        if files and pickles:
            remarks.append(f"{len(pickles)} pickles are not read, since there are MIDI files.")
        listed = _listed_splits(listing)
        if listed:
            remarks.append("The splits are those of the lists of pieces next to the files.")
        pieces = []
        for file in files or pickles:
            stem = PurePosixPath(file).stem  # does not depend on the folder that is given
            split = listed.get(stem) or split_of(stem, {"validation": validation})
            pieces.append(listing.piece(file, split))
        return Found(pieces=pieces, remarks=remarks)

    def scores(self, piece: Piece, language: Language) -> list[Score]:
        if _PICKLE.search(piece.path.name):
            score = score_of_events(read_pickle(piece.path))
        else:
            score = read(piece)
        return [language.arrange(with_chords(score))]

    def _midi_files(self, listing: Listing) -> list[str]:
        """Return the MIDI files of the last stage of processing."""
        inside = listing.root.name == _LAST_STAGE
        return [file for file in listing.midi_files if inside or _LAST_STAGE in file.split("/")]


def with_chords(score: Score) -> Score:
    """Return the score with only its chord markers, without the bass notes in names such as `A_m7_A`."""
    markers = []
    for marker in score.markers:
        name = "_".join(marker.text.split("_")[:2])
        if "_" in name and (chord := parse(name)):
            markers.append(Marker(marker.onset_ticks, chord))
    return score.replace(markers=tuple(markers))


def _listed_splits(listing: Listing) -> dict[str, str]:
    """Return the splits given by the release's lists of pieces, by the pieces' names.

    They are read in another process, since a few bytes of a pickle can take much memory or time.
    """
    splits: dict[str, str] = {}
    lists = {file: named[1] for file in listing.files if (named := _SPLIT_LIST.fullmatch(file))}
    paths = [listing.path(file) for file in lists]
    bounds = Bounds(seconds=LIST_SECONDS, memory_bytes=LIST_BYTES)
    with closing(in_order(read_pickle, paths, workers=1, bounds=bounds)) as contents:
        for (file, named), names in zip(lists.items(), contents, strict=True):
            if isinstance(names, Failed):
                raise ValueError(names.reason)
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{listing.path(file)} is not a list of names of pieces")
            split = _SPLITS.get(named, "validation")
            splits |= {PurePosixPath(name).stem: split for name in names}
    return splits
