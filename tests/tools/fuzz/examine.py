"""What must become of any file: it is read, spelled in each language, decoded and written, or refused in a sentence.

All of this depends on nothing but the music. So of two files with the same music, the second one's is not looked at
again.
"""

import re
import traceback
from collections.abc import Sequence
from hashlib import blake2b

from tests.tokenization.grammar_cases import quantised
from tokenization.formats import musicxml, read_file
from tokenization.language import Language
from tokenization.midi.limits import UPLOAD, Limits, MidiError
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Score

LANGUAGES = ("remi", "groove")
# A tempo past a language's range becomes the nearest in it, so that a piece may last much longer than it did.
ROOMY = Limits(bytes=64 << 20, seconds=48 * 3600, beats=50_000)
MOST_NOTED_BEATS = 500  # in all parts together
READ = "read"
MOST_REMEMBERED = 100_000  # pieces of music: some 20 MB

_outcomes: dict[bytes, str] = {}  # of music that was read


def examine(data: bytes, suffix: str, languages: Sequence[Language]) -> str:
    """Return what becomes of a file of a format; raises where that is none of the promised outcomes."""
    try:
        score = read_file(data, limits=UPLOAD, name="it", suffix=suffix)
    except MidiError as error:
        return f"refused: {_kind(error)}"
    read = _digest(score)
    if read not in _outcomes:
        _note_down(score)
        if len(_outcomes) > MOST_REMEMBERED:
            _outcomes.clear()
        _outcomes[read] = _spelled(score, languages)
    return _outcomes[read]


def _note_down(score: Score) -> None:
    """Write a score, unless it has very many bars, and read it back."""
    beats = score.end_ticks / score.ticks_per_beat
    if beats * len(score.tracks) < MOST_NOTED_BEATS:
        try:
            read_file(musicxml(score), limits=ROOMY, name="it")
        except ValueError as error:
            if not _is_stated(error):
                raise


def _spelled(score: Score, languages: Sequence[Language]) -> str:
    """Return what becomes of a score in each language."""
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
        # The velocities of groove stand beside its tokens.
        if decoded.replace(velocity=spelled.velocity) != spelled:
            raise AssertionError(f"{spoken.name} reads back other notes than it has spelled")
        if len(decoded) and len(read_midi(write_midi(music), limits=ROOMY).notes) != len(decoded):
            raise AssertionError(f"{spoken.name} is written with other notes than it has")
    return "; ".join([READ, *refusals])


def _digest(score: Score) -> bytes:
    """Return what two scores have in common only if they are the same music."""
    digest = blake2b(digest_size=16)
    for part in (score.notes, score.tempos, score.meters, score.pedals):
        for column in part.columns:
            digest.update(len(column).to_bytes(4, "big"))
            digest.update(column.tobytes())
    rest = score.ticks_per_beat, score.tracks, score.markers, score.beats_known
    digest.update(repr(rest).encode(errors="surrogatepass"))
    return digest.digest()


def _is_stated(error: ValueError) -> bool:
    """Say whether an error was raised on purpose, not by a library that got nonsense."""
    return (traceback.extract_tb(error.__traceback__)[-1].line or "").startswith("raise ")


def _kind(error: ValueError) -> str:
    """Return the part of a sentence that is the same for all files with one flaw."""
    return re.sub(r"\d[\d,.]*", "#", str(error).split(":")[0])
