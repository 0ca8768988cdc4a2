"""Check one file: it must be read, encoded in each language, decoded and written, or refused with a message.

A file that is read must also be written back with one note less, and with one more: no other note changes. What is
encoded depends on the music alone, so each piece of music is encoded once.
"""

import re
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import blake2b
from random import Random

import numpy as np

from tests.tokenization.grammar_cases import quantised
from tokenization.changes import changes_from
from tokenization.formats import changed, musicxml, read_file
from tokenization.language import Language
from tokenization.limits import UPLOAD, Limits, MusicFileError
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Score

LANGUAGES = ("remi", "groove")
# A tempo outside a language's range is clipped, so a piece can become much longer.
ROOMY = Limits(bytes=64 << 20, seconds=48 * 3600, beats=50_000)
MOST_NOTATED_BEATS = 500  # over all parts
READ = "read"
MOST_REMEMBERED = 100_000  # pieces of music: some 20 MB

_outcomes: dict[bytes, str] = {}  # by the digest of the music


def examine(data: bytes, suffix: str, languages: Sequence[Language]) -> str:
    """Return the outcome for a file of a format; raises if it is not one of those promised."""
    try:
        score = read_file(data, limits=UPLOAD, name="it", suffix=suffix)
    except MusicFileError as error:
        return f"refused: {_kind(error)}"
    if len(score.notes) and suffix != ".abc":
        _check_writing_back(data, suffix, score)
    read = _digest(score)
    if read not in _outcomes:
        _check_notation(score)
        if len(_outcomes) > MOST_REMEMBERED:
            _outcomes.clear()
        _outcomes[read] = _encoded(score, languages)
    return _outcomes[read]


def _check_notation(score: Score) -> None:
    """Write a score as MusicXML, unless it is very long, and read it back."""
    beats = score.end_ticks / score.ticks_per_beat
    if beats * len(score.tracks) < MOST_NOTATED_BEATS:
        try:
            read_file(musicxml(score), limits=ROOMY, name="it")
        except ValueError as error:
            if not _is_stated(error):
                raise


def _check_writing_back(data: bytes, suffix: str, score: Score) -> None:
    """Delete a note of a file and insert one, each alone, unless the file cannot hold that."""
    random = Random(len(data))
    rows = list(zip(*map(np.ndarray.tolist, score.notes.columns), strict=True))
    onset, _, _, _, track = old = random.choice(rows)
    key = next(n for n in range(127, -1, -1) if n not in set(score.notes.pitch.tolist()))
    beat = score.ticks_per_beat
    new = (onset // beat * beat, beat, key, 99, track)
    for rows_changed, remaining in (
        ([old, None], [row for row in rows if row != old] + [old] * (rows.count(old) - 1)),
        ([None, new], [*rows, new]),
    ):
        changes = changes_from([{"change": "notes", "rows": [rows_changed]}])
        try:
            saved = changed(data, changes, suffix=suffix)
        except ValueError as error:
            if not _is_stated(error):
                raise
            continue
        expected = _sounding(score, remaining)
        again = read_file(saved, limits=ROOMY, name="it", suffix=suffix)
        found = _sounding(again, zip(*map(np.ndarray.tolist, again.notes.columns), strict=True))
        if found != expected:
            wrong = f"{[*(found - expected)][:3]} instead of {[*(expected - found)][:3]}"
            raise AssertionError(f"the file with {rows_changed} has {wrong}")


def _sounding(score: Score, rows: Iterable[tuple[int, ...]]) -> Counter[tuple[object, ...]]:
    """Return notes by beats and sound: tracks without notes are not numbered, and a score's divisions can change."""
    unit, tracks = score.ticks_per_beat, score.tracks
    return Counter(
        (
            Fraction(on, unit),
            Fraction(length, unit),
            *how,
            tracks[track].program,
            tracks[track].is_drum,
        )
        for on, length, *how, track in rows
    )


def _encoded(score: Score, languages: Sequence[Language]) -> str:
    """Return the outcome for a score in each language."""
    refusals = []
    for spoken in languages:
        try:
            arranged = spoken.arrange(score)
            spelled = quantised(spoken, arranged).notes
            encoded = spoken.encode(arranged)
        except ValueError as error:
            if not _is_stated(error):
                raise
            refusals.append(f"{spoken.name}: {_kind(error)}")
            continue
        music = spoken.decode(encoded.ids, encoded.setting)
        decoded = music.notes
        # The velocities of groove are stored apart from its tokens.
        if decoded.replace(velocity=spelled.velocity) != spelled:
            raise AssertionError(f"{spoken.name} decodes other notes than it encoded")
        if len(decoded) and len(read_midi(write_midi(music), limits=ROOMY).notes) != len(decoded):
            raise AssertionError(f"{spoken.name}: the MIDI file has other notes than the score")
    return "; ".join([READ, *refusals])


def _digest(score: Score) -> bytes:
    """Return a digest of the music."""
    digest = blake2b(digest_size=16)
    for part in (score.notes, score.tempos, score.meters, score.pedals):
        for column in part.columns:
            digest.update(len(column).to_bytes(4, "big"))
            digest.update(column.tobytes())
    rest = score.ticks_per_beat, score.tracks, score.markers, score.beats_known
    digest.update(repr(rest).encode(errors="surrogatepass"))
    return digest.digest()


def _is_stated(error: ValueError) -> bool:
    """Return whether an error was raised on purpose, not by a library on nonsensical input."""
    return (traceback.extract_tb(error.__traceback__)[-1].line or "").startswith("raise ")


def _kind(error: ValueError) -> str:
    """Return the part of a message that is the same for all files with this flaw."""
    return re.sub(r"\d[\d,.]*", "#", str(error).split(":")[0])
