"""Goals of the second groove language: a gap to be filled, and parts to be written to others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tokenization.constraints.scripted import Script, Scripted
from tokenization.goal import Goal, check_gap, given_until
from tokenization.groove.events import Events, events_of
from tokenization.groove.language import Groove
from tokenization.groove.tokens import BAR_TICKS, BEGIN, KEYS, PARTS, PITCHES, TRACKS
from tokenization.groove_2.grammar import BarGrammar, Given
from tokenization.groove_2.harmony import chords_to, toward_chords
from tokenization.groove_2.layouts import beyond, blocks
from tokenization.groove_2.spelling import (
    NOTHING,
    BarReading,
    ChordTokens,
    plain,
    spell,
    spell_bars,
)
from tokenization.groove_2.tokens import BAR, SEAM_1
from tokenization.score import Notes
from tokenization.wording import listed


def infilling(
    language: Groove,
    /,
    ids: np.ndarray,
    start: int,
    stop: int,
    *,
    longest_ticks: Sequence[int] | None = None,
    plan: object = None,
) -> Goal:
    """Return the goal to write the bars start … stop − 1 of a piece anew; every note outside stays."""
    notes, bars = language.notes(ids), len(language.bars(ids))
    check_gap(start, stop, bars)
    line, seam = start * BAR_TICKS, stop * BAR_TICKS
    outside = (notes.onset_ticks < line) | (notes.onset_ticks >= seam)
    # What sounds into the gap sounds there as it did, on a key of its own.
    held = notes[(notes.onset_ticks < line) & (notes.end_ticks >= line)]
    never_free = np.zeros(KEYS, dtype=bool)
    never_free[_keys(held[held.end_ticks >= seam])] = True
    events = events_of(held)
    inside = (events.time_ticks >= line) & (events.time_ticks < seam) & (events.is_on == 0)
    given = Given.of(events[inside], never_free)
    first, before = beyond(notes, stop), spell_bars(events_of(notes), 0, start)
    prompt = np.concatenate([[BEGIN], first, before, [BAR, SEAM_1 + stop - start - 1]])
    script = Script.to_a_seam(language, first, start, stop)
    grammar = BarGrammar(
        prompt_tokens=len(prompt),
        longest_ticks=language.checked_longest(longest_ticks),
        given=given,
        size=len(language.vocabulary),
    )

    def ours(new: Notes) -> Notes:
        return new[(new.onset_ticks >= line) & (new.onset_ticks < seam)]

    return Goal(
        prompt=prompt,
        grammar=Scripted(grammar, language, script, may_end_silent=True),
        whole=_joined(notes[outside], ours, seam),
        elsewhere=spell_bars(events_of(notes[outside]), given_until(stop, stop), bars),
        replaced=spell_bars(events_of(notes), start, stop)[1:],
    )


def accompanying(
    language: Groove,
    /,
    ids: np.ndarray,
    write: Collection[str],
    *,
    longest_ticks: Sequence[int] | None = None,
    plan: object = None,
) -> Goal:
    """Return the goal to write some parts of a piece anew, to the others, which stay note for note."""
    notes, bars = language.notes(ids), len(language.bars(ids))
    if unknown := [part for part in write if part not in PARTS]:
        raise ValueError(f"there is no part {unknown[0]}; a groove has {listed(PARTS)}")
    tracks = [PARTS.index(part) for part in PARTS if part not in write]
    if not write or not tracks:
        raise ValueError(
            f"{listed(PARTS)} cannot {'all' if write else 'none'} be written; choose one or two of them"
        )
    kept = notes[np.isin(notes.track, tracks)]
    if not len(kept):
        raise ValueError(
            f"there is nothing to accompany: the piece has no {' and no '.join(PARTS[t] for t in tracks)}"
        )
    before = blocks(kept, bars, tracks)
    prompt = np.concatenate([[BEGIN], before[0], [BAR]])
    own = np.repeat(np.isin(np.arange(len(TRACKS)), tracks), PITCHES)
    chord_tokens = chords_to(kept, tracks, bars) if language.has_chords else NOTHING
    on_line = chord_tokens.time_ticks % BAR_TICKS == 0
    at_once = [
        chord_tokens.between(bar * BAR_TICKS, bar * BAR_TICKS + 1).ids.tolist()
        for bar in range(bars)
    ]
    later = ChordTokens(chord_tokens.time_ticks[~on_line], chord_tokens.ids[~on_line])
    grammar = BarGrammar(
        prompt_tokens=len(prompt),
        longest_ticks=language.checked_longest(longest_ticks),
        own_lengths=True,
        given=Given.of(Events.empty(), own, later),
        size=len(language.vocabulary),
    )
    script = Script.around(language, [run.tolist() for run in before], at_once)

    def ours(new: Notes) -> Notes:
        return new[~np.isin(new.track, tracks)]

    return Goal(
        prompt=prompt,
        grammar=Scripted(grammar, language, script, may_end_silent=True),
        whole=_joined(kept, ours, bars * BAR_TICKS),
        logit_bias=toward_chords() if len(chord_tokens.ids) else None,
        tracks=tuple(track for track, part in enumerate(PARTS) if part in write),
    )


def _joined(
    kept: Notes, ours: Callable[[Notes], Notes], most_ticks: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Return how a piece is put together from what was kept, note for note, and what was written."""

    def whole(ids: np.ndarray) -> np.ndarray:
        reading = BarReading(plain(ids))
        new = reading.all_notes(min(max(reading.bars, 1) * BAR_TICKS, most_ticks))
        return spell(Notes.concatenate([kept, ours(new)]).sorted()).astype(np.uint16)

    return whole


def _keys(notes: Notes) -> np.ndarray:
    return notes.track * PITCHES + notes.pitch
