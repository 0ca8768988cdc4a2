"""Goals of pop piano: a gap to be filled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenization.constraints.scripted import Script, Scripted
from tokenization.goal import Goal, check_gap, given_until
from tokenization.language import Language
from tokenization.remi.gap import FAR_TICKS, GapGrammar
from tokenization.remi.layouts import SEAM_1, bar_offsets, beyond, from_bar, plain
from tokenization.remi.reading import Reading
from tokenization.remi.tokens import BAR, BEGIN, END, KEYS, LOWEST_PITCH, SUBBEAT_TICKS
from tokenization.score import Marker, Notes, Score, Tempos


def infilling(
    language: Language,
    /,
    ids: np.ndarray,
    start: int,
    stop: int,
    *,
    longest_ticks: Sequence[int] | None = None,
    plan: object = None,
) -> Goal:
    """Return the goal to write the bars start … stop − 1 of a piece anew; every note outside stays.

    No note is longer than a token can say, whatever `longest_ticks` is.
    """
    ids = np.asarray(ids, dtype=np.int64)
    lines = bar_offsets(ids)
    bars = len(lines) - 1
    check_gap(start, stop, bars)
    piece, reading = language.decode(ids), Reading(ids)
    edges = np.append(reading.bars.start, reading.bars.start[-1] + reading.bars.length[-1])
    line, seam = edges[[start, stop]] * SUBBEAT_TICKS
    first = beyond(ids, stop, stop)
    left = [BAR, SEAM_1 + stop - start - 1]
    prompt = np.concatenate([[BEGIN], first, ids[1 : lines[start]], left])
    script = Script.to_a_seam(language, first, start, stop)
    later = piece.notes[piece.notes.onset_ticks >= seam]
    free_until = np.full(KEYS, FAR_TICKS)
    np.minimum.at(free_until, later.pitch - LOWEST_PITCH, later.onset_ticks)
    grammar = GapGrammar(start, reading.bars.metre[start:stop], free_until)

    def whole(written: np.ndarray) -> np.ndarray:
        sequence = plain(written)
        new = language.decode(sequence[sequence != END])
        joined = _joined(piece, new, int(line), int(seam))
        return language.encode(joined).ids if len(joined.notes) else ids[:1]  # all notes were there

    return Goal(
        prompt=prompt,
        grammar=Scripted(grammar, language, script, may_end_silent=True),
        whole=whole,
        elsewhere=_from(ids, lines, given_until(stop, stop)),
        replaced=ids[lines[start] + 1 : lines[stop]],
    )


def _from(ids: np.ndarray, lines: np.ndarray, bar: int) -> np.ndarray:
    """Return a piece's ids from a bar on, without its end."""
    return from_bar(ids[: lines[-1]], int(lines[bar])) if bar < len(lines) - 1 else ids[:0]


def _joined(piece: Score, new: Score, line: int, seam: int) -> Score:
    """Return a piece with what is new between two times, and all else as it was."""

    def within(onset_ticks: np.ndarray) -> np.ndarray:
        return (onset_ticks >= line) & (onset_ticks < seam)

    kept = piece.notes[~within(piece.notes.onset_ticks)]
    notes = Notes.concatenate([kept, new.notes[within(new.notes.onset_ticks)]]).sorted()
    back = piece.tempos[piece.tempos.onset_ticks <= seam][-1:]  # in force again at the seam
    tempos = Tempos.concatenate(
        [
            piece.tempos[piece.tempos.onset_ticks < line],
            new.tempos[within(new.tempos.onset_ticks)],
            back.replace(onset_ticks=np.full(len(back), seam)),
            piece.tempos[piece.tempos.onset_ticks > seam],
        ]
    )
    chords = [marker for marker in piece.markers if marker.onset_ticks < line]
    chords += [marker for marker in new.markers if line <= marker.onset_ticks < seam]
    chords += [
        Marker(seam, m.text) for m in [m for m in piece.markers if m.onset_ticks <= seam][-1:]
    ]
    chords += [marker for marker in piece.markers if marker.onset_ticks > seam]
    return piece.replace(notes=notes, tempos=tempos, markers=tuple(chords))
