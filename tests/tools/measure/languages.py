"""Measure languages on a data set: python -m tests.tools.measure.languages SOURCE FOLDER --every 20.

Each piece, arranged by the ensemble language but not yet quantised, is encoded and decoded by each language. A note is
lost if no decoded note of its pitch starts within half a beat; its onset is off if it moved by more than 1/48 beat,
half a step of 24 per beat. Tokens are counted per kept note. MidiTok's REMI has its default configuration: one sequence
per track, without the instrument.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import symusic
from miditok import REMI

from app import output
from tests.tools.options import options
from tokenization.language import language
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Score
from training.data.sources import SOURCES
from training.data.sources.source import list_files

NEAR_BEATS, GRID_BEATS, TOLERANCE = 0.5, 1 / 48, 1e-6
ENSEMBLE = language("ensemble")
SHIFTS = np.arange(-32, 33) / 4  # beats by which a language may shift a piece
Notes = tuple[np.ndarray, np.ndarray]  # (N,) key: pitch, and 128 more on drums; (N,) onset in beats


def notes_of(score: Score) -> Notes:
    """Return the notes' keys and onsets, sorted by both."""
    key = score.notes.pitch + 128 * score.on_drums
    onset = score.notes.onset_ticks / score.ticks_per_beat
    order = np.lexsort((onset, key))
    return key[order], onset[order]


def paired(notes: Notes, read: Notes) -> np.ndarray:
    """Return the distance of each note from its decoded partner in beats, infinite without one: (N,).

    Notes of a key are paired in order: first those within the tolerance, then the rest.
    """
    away = np.full(len(notes[0]), np.inf)
    for key in np.unique(notes[0]):
        own, there = np.flatnonzero(notes[0] == key), read[1][read[0] == key].tolist()
        for most in (GRID_BEATS + TOLERANCE, NEAR_BEATS):
            left, at = [], 0
            for index in own[np.isinf(away[own])]:
                onset = notes[1][index]
                while at < len(there) and there[at] < onset - most:
                    left.append(there[at])
                    at += 1
                if at < len(there) and there[at] <= onset + most:
                    away[index] = abs(there[at] - onset)
                    at += 1
            there = left + there[at:]
    return away


def best_pairing(notes: Notes, read: Notes) -> np.ndarray:
    """Return the distances for the shift of the decoded music that fits best."""
    fine = [{*(256 * np.rint(onset * 12) + key).tolist()} for key, onset in (notes, read)]
    common = [len(fine[1] & {at + 12 * 256 * shift for at in fine[0]}) for shift in SHIFTS]
    shift = SHIFTS[np.lexsort((np.abs(SHIFTS), -np.array(common)))[0]]
    return paired(notes, (read[0], read[1] - shift))


def round_trip(score: Score) -> tuple[int, Score]:
    """Encode and decode a score; return the number of tokens and the result."""
    ids = ENSEMBLE.encode(ENSEMBLE.arrange(score)).ids
    return len(ids), ENSEMBLE.decode(ids)


def miditok_remi() -> Callable[[Score], tuple[int, Score]]:
    """Return the round trip of MidiTok's REMI."""
    tokenizer = REMI()

    def spell(score: Score) -> tuple[int, Score]:
        song: Any = symusic.Score.from_midi(write_midi(score))
        sequences: Any = tokenizer(song)
        programs = [(track.program, track.is_drum) for track in song.tracks]
        tokens = sum(len(one.ids) for one in sequences)
        read = tokenizer.decode(sequences, programs)
        return tokens, read_midi(read.dumps_midi())

    return spell


def measure(source: str, folder: Path, every: int) -> tuple[int, dict[str, Counter[str]]]:
    """Return the number of pieces and the counts for each language."""
    kind, spellers = SOURCES[source], {"ensemble": round_trip, "MidiTok REMI": miditok_remi()}
    counts, pieces = {name: Counter[str]() for name in spellers}, 0
    for piece in kind.find(list_files(folder), 0.05).pieces[::every]:
        try:
            score = kind.scores(piece, ENSEMBLE)[0].replace(beats_known=True)
        except ValueError:
            continue  # left out of prepared sets too
        pieces += 1
        notes = notes_of(score)
        for name, spell in spellers.items():
            try:
                tokens, read = spell(score)
            except ValueError as error:
                counts[name].update(refused=1, notes=len(notes[0]), lost=len(notes[0]))
                output.remark([f"{piece.name}, {name}: {error}"])
                continue
            away = best_pairing(notes, notes_of(read))
            lost = int(np.isinf(away).sum())
            off = int((away > GRID_BEATS + TOLERANCE).sum()) - lost
            kept = len(away) - lost
            counts[name].update(tokens=tokens, notes=len(away), kept=kept, lost=lost, off=off)
    return pieces, counts


def main() -> None:
    """Measure a data set and print the table."""
    given = options(__doc__, "source", "folder", every=20)
    pieces, counts = measure(str(given.source), given.folder, given.every)
    rows: list[tuple[object, ...]] = [
        ("language", "tokens per note", "notes lost", "onsets off", "refused")
    ]
    for name, count in counts.items():
        kept, lost = max(count["kept"], 1), count["lost"] / count["notes"]
        shares = f"{count['tokens'] / kept:.2f}", f"{lost:.2%}", f"{count['off'] / kept:.2%}"
        rows.append((name, *shares, count["refused"]))
    output.write(f"{given.source}: {pieces} pieces, {counts['ensemble']['notes']:,} notes")
    output.write(output.table(rows))


if __name__ == "__main__":
    main()
