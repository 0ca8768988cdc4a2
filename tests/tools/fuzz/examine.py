"""Check one file: it must be read, encoded in each language, decoded and written, or refused with a message.

The outcome depends on the music alone, so each piece of music is examined once.
"""

import re
import traceback
from collections.abc import Sequence
from hashlib import blake2b

from tests.tokenization.grammar_cases import quantised
from tokenization.formats import musicxml, read_file
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
