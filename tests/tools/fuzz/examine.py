"""Check one file: it must be read or refused with a message.

A file that is read must also be written back with one note replaced: no other note changes. The rest depends on the
music alone: each piece of music is once encoded and decoded in one of the languages or written as a score, by turns.
"""

import re
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
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

Row = tuple[int, ...]  # a note: onset, duration, pitch, velocity, track

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
        if len(_outcomes) > MOST_REMEMBERED:
            _outcomes.clear()
        turn = read[0] % (len(languages) + 1)
        if turn < len(languages):
            _outcomes[read] = _encoded(score, languages[turn : turn + 1])
        else:
            _outcomes[read] = READ
            _check_notation(score)
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
    """Delete a note of a file and insert one at once, or one of the two if the file cannot hold both."""
    random = Random(len(data))
    rows = _rows(score)
    onset, _, _, _, track = old = random.choice(rows)
    key = next(n for n in range(127, -1, -1) if n not in set(score.notes.pitch.tolist()))
    beat = score.ticks_per_beat
    deleted = [old, None]
    inserted = [None, (onset // beat * beat, beat, key, 99, track)]
    if not _writes_back(data, suffix, score, rows, [deleted, inserted]):
        _writes_back(data, suffix, score, rows, [random.choice((deleted, inserted))])


def _writes_back(
    data: bytes, suffix: str, score: Score, rows: Sequence[Row], made: Sequence[list[Row | None]]
) -> bool:
    """Return whether a file can hold changes of notes; raises if it then has others than it should."""
    try:
        changes = changes_from([{"change": "notes", "rows": made}])
        saved = changed(data, changes, suffix=suffix)
    except ValueError as error:
        if not _is_stated(error):
            raise
        return False
    again = read_file(saved, limits=ROOMY, name="it", suffix=suffix)
    expected = Counter(rows)
    for before, after in made:
        expected.subtract([before] if before else [])
        expected.update([after] if after else [])
    # The divisions of a score can change.
    wanted = _sounding(score, expected.elements(), again.ticks_per_beat)
    found = _sounding(again, _rows(again), score.ticks_per_beat)
    if found != wanted:
        wrong = f"{[*(found - wanted)][:3]} instead of {[*(wanted - found)][:3]}"
        raise AssertionError(f"the file with {made} has {wrong}")
    return True


def _rows(score: Score) -> list[Row]:
    return list(zip(*map(np.ndarray.tolist, score.notes.columns), strict=True))


def _sounding(score: Score, rows: Iterable[Row], unit: int) -> Counter[tuple[object, ...]]:
    """Return notes by sound, in ticks times a unit: tracks without notes are not numbered."""
    sounds = [(track.program, track.is_drum) for track in score.tracks]
    return Counter(
        (onset * unit, length * unit, *how, sounds[track]) for onset, length, *how, track in rows
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
