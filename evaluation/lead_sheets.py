"""Bands for lead sheets, by models and by other systems, measured alike.

A collection of lead sheets is a folder or a tar archive. It has `sheets/NAME.mid`, with the melody in the first track
and its chords in the second, `phrases/NAME.txt`, which begins with the phrases, such as A4A4B8 (a letter and a number
of bars each), and in further folders arrangements by other systems, `SYSTEM/NAME.mid`.

The measures are those of `metrics/arrangement.py`. They differ from those of AccoMontage-3's notebook: chords are
recognised by this program, and compared by root and quality instead of quality alone; segments are compared by their
sounding pitches instead of a trained encoder; drums do not count; and the melody is found by its notes in each file.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from evaluation.metrics.arrangement import FRACTIONS, MEASURES, Phrases, measures, melody_of
from evaluation.metrics.estimates import FRACTION, estimate
from evaluation.tables import Result, Table, with_interval
from musicgen.completion import Completion, accompaniment
from musicgen.continuation import Player
from musicgen.generation.request import Request
from musicgen.pieces import read_piece
from tokenization.analysis.hearing import recognise
from tokenization.formats import read_file
from tokenization.limits import GENEROUS, read_source
from tokenization.midi.writing import write_midi
from tokenization.score import Score
from tokenization.wording import filled

SHEETS, PHRASES = "sheets", "phrases"
BAND = ("bass", "guitar", "strings", "electric piano", "drums")
MOST_FILES = 10_000
_PHRASE = re.compile(r"([A-Za-z])(\d{1,3})")
CAPTION = """chord accuracy: share of beats with the chord that is recognised in the sheet; structure: similarity of the
    segments of like phrases to that of all segments; DOA: deviation over parts of their distance from the whole, in
    nats; semitone: share of the melody's time in which a pitch class a semitone from it sounds; chord tones: share of
    notes that belong to the sheet's chord; pitches at once: in the accompaniment, where it sounds. Drums do not count.
    Mean [95 % interval] over sheets (n)."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Lead sheets with their phrases, and the arrangements of each system, by name."""

    sheets: Mapping[str, bytes]
    phrases: Mapping[str, Phrases]
    systems: Mapping[str, Mapping[str, bytes]]

    def only(self, names: Sequence[str]) -> Collection:
        """Return the collection with some sheets."""
        return replace(self, sheets={name: self.sheets[name] for name in names})


def read_collection(path: Path) -> Collection:
    """Read a folder or an archive; raise ValueError if it has no lead sheets."""
    folders: dict[str, dict[str, bytes]] = {}
    for name, data in _files(path):
        place = PurePosixPath(name)
        if place.suffix in (".mid", ".txt"):
            folders.setdefault(place.parent.name, {})[place.stem] = data
    sheets = folders.pop(SHEETS, {})
    phrases = {
        name: _phrases(text, f"{PHRASES}/{name}.txt")
        for name, text in folders.pop(PHRASES, {}).items()
    }
    known = {name: sheets[name] for name in sorted(sheets) if name in phrases}
    if not known:
        raise ValueError(
            f"{path} has no lead sheets: {SHEETS}/NAME.mid with {PHRASES}/NAME.txt for each"
        )
    return Collection(sheets=known, phrases=phrases, systems=dict(sorted(folders.items())))


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of a folder or an archive."""
    if path.is_dir():
        for file in sorted(path.glob("*/*")):
            yield file.relative_to(path).as_posix(), file.read_bytes()
        return
    try:
        with tarfile.open(path) as archive:
            for number, member in enumerate(archive):
                if number >= MOST_FILES:
                    raise ValueError(f"{path} has more than {MOST_FILES} files")
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and member.size <= GENEROUS.bytes:
                    yield member.name, content.read()
    except tarfile.TarError as error:
        raise ValueError(f"{path} is neither a folder nor a tar archive") from error


def _phrases(text: bytes, name: str) -> Phrases:
    first = (text.decode("latin-1").splitlines() or [""])[0].strip()
    found = [(letter, int(bars)) for letter, bars in _PHRASE.findall(first)]
    if "".join(f"{letter}{bars}" for letter, bars in found) != first or not found:
        raise ValueError(f"{name} begins with {first!r}; phrases look like A4A4B8")
    return found


def score_of(data: bytes, name: str) -> Score:
    """Return the score of an arrangement or a sheet."""
    return read_file(read_source(data, GENEROUS, name)[1], name=name, suffix=".mid")


def arranged(model: Player, sheet: bytes, name: str, request: Request) -> Completion:
    """Return the generation that writes the band for a sheet: its melody, and its chords as symbols."""
    score = score_of(sheet, name)
    chords = tuple(replace(one, is_guess=False) for one in recognise(score))
    melody = score.replace(
        notes=score.notes[score.notes.track == 0], tracks=score.tracks[:1], markers=chords
    )
    return accompaniment(
        model, read_piece(model.language, write_midi(melody), name=name), BAND, request
    )


def measured(collection: Collection, systems: Mapping[str, Mapping[str, bytes]]) -> list[Result]:
    """Return one row per system, with an estimate of each measure over the sheets."""
    rows = []
    sheets = {name: score_of(data, name) for name, data in collection.sheets.items()}
    for system, files in systems.items():
        found: list[dict[str, Any]] = []
        for name, sheet in sheets.items():
            if name in files:
                score = score_of(files[name], f"{system}/{name}.mid")
                melody = melody_of(score, sheet)
                found.append(measures(sheet, collection.phrases[name], score, melody))
        if found:
            means = {
                one: estimate(
                    (row[one] for row in found), bounds=FRACTION if one in FRACTIONS else None
                )
                for one in MEASURES
            }
            rows.append({"system": system, "sheets": len(found), **means})
    return rows


def sheets_table(rows: Sequence[Result]) -> Table:
    """Return a table with one row per measure and one column per system."""
    cells = [[title, *(with_interval(row[one]) for row in rows)] for one, title in MEASURES.items()]
    head = ["", *(row["system"] for row in rows)]
    return Table(head=head, rows=cells, caption=filled(CAPTION))
