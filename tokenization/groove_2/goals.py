"""Goals of the second groove language: a gap to be filled, and parts to be written to others and their chords."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import chain

import numpy as np

from tokenization.analysis.chords import (
    NONE,
    PITCH_CLASSES,
    QUALITIES,
    ROOTS,
    TONES,
    changes_in_fours,
)
from tokenization.continuing import Script, Scripted
from tokenization.grammar import LogitBias
from tokenization.groove.language import Groove
from tokenization.groove.spelling import (
    BAR_TICKS,
    BASS,
    BEGIN,
    DRUMS,
    END,
    KEYS,
    NOTE_ON,
    OTHER,
    PARTS,
    PITCHES,
    TICKS_PER_BEAT,
    TRACKS,
    Events,
    events_of,
)
from tokenization.groove_2.grammar import BarGrammar, Given
from tokenization.groove_2.spelling import (
    AFTER,
    BAR,
    BEFORE,
    CHORD,
    GIVEN,
    LEFT_1,
    NOTHING,
    ROOT,
    SEAM_1,
    VOCABULARY,
    WRITE,
    BarReading,
    ChordTokens,
    bars_of,
    plain,
    spell,
    spell_bars,
)
from tokenization.language import COUNTED, Goal, check_gap, given_until
from tokenization.score import Notes
from tokenization.wording import listed

# How a groove is laid out for a goal: what is given before what is written, for prompts and for training alike.
#
# Accompaniment goes bar by bar, the given parts of each before the written ones: so what sounds at a place of the bar
# is what stood there a bar ago, where metric heads look first (musicgen/metre/heads.py). Time goes on by two bars for
# each: heads of an even period find what the same parts did before, apart from what is given. A written bar says the
# chords that the given parts play in it (see below). What comes after a gap is in phase with what is written: so many
# bars stand first as bring those before the gap to the same place of the period.


def ending(notes: Notes, counted: int) -> np.ndarray:
    """Return a piece whose last bars, so many, count down to its end: (T,) int64."""
    bars = bars_of(notes)
    events, start = events_of(notes), max(bars - min(counted, COUNTED), 0)
    bars_left = counted_bars(events, start, bars, LEFT_1)
    return np.concatenate([[BEGIN], spell_bars(events, 0, start), *bars_left, [END]])


def gap(notes: Notes, start: int, stop: int) -> np.ndarray:
    """Return a piece laid out to have the bars start … stop − 1 written: (T,) int64."""
    events = events_of(notes)
    bars_left = counted_bars(events, start, stop, SEAM_1)
    given = spell_bars(events, 0, start)
    return np.concatenate([[BEGIN], beyond(notes, stop), given, *bars_left, [END]])


def counted_bars(events: Events, start: int, stop: int, last: int) -> list[np.ndarray]:
    """Return bars that say, after their bar tokens, how far it is to the goal; `last` is what the last one says."""
    bars = [spell_bars(events, bar, bar + 1) for bar in range(start, stop)]
    return [np.insert(bar, 1, last + stop - start - n - 1) for n, bar in enumerate(bars)]


def beyond(notes: Notes, stop: int) -> np.ndarray:
    """Return what begins in the bars from `stop` on, as it is given before the first bar: (T,) int64."""
    later = notes[notes.onset_ticks >= stop * BAR_TICKS]
    until = given_until(stop, stop)
    return np.concatenate([[AFTER], spell_bars(events_of(later), stop, until), [BEFORE]])


def accompaniment(notes: Notes, given: Collection[int], *, chords: bool = True) -> np.ndarray:
    """Return a piece laid out to have parts written to given ones, which may say their chords: (T,) int64."""
    bars, events = bars_of(notes), events_of(notes[~np.isin(notes.track, list(given))])
    chord_tokens = chords_to(notes, given, bars) if chords else NOTHING
    written = (spell_bars(events, bar, bar + 1, chord_tokens) for bar in range(bars))
    parts = chain.from_iterable(zip(blocks(notes, bars, given), written, strict=True))
    return np.concatenate([[BEGIN], *parts, [END]])


def blocks(notes: Notes, bars: int, given: Collection[int]) -> Sequence[np.ndarray]:
    """Return what is given before each bar of a piece of so many: [(T,) int64]."""
    tracks = sorted(given)
    events = events_of(notes[np.isin(notes.track, tracks)])
    who = [GIVEN.start + track for track in tracks]
    return [np.concatenate([who, spell_bars(events, bar, bar + 1), [WRITE]]) for bar in range(bars)]


# Chord tokens for accompaniment: the chords of the given parts, which a new pitched part is conditioned on.
#
# The harmony is spread over many given notes, and a bass note needs its root; linear attention hardly finds that. So
# the chords are recognised (analysis/chords.py) and written as tokens: at the beginning of each bar of the new part,
# and in it on the beat on which they change. Being goals, these tokens add their embedding to every later position
# (musicgen/model/performer.py). Where a bass alone is given, and perhaps drums, no more than a root is known. What
# this is worth is printed for generated parts by `musicgen evaluate accompaniment`, and in losses by
# tests/tools/measure/accompaniment.py.
#
# Conditioning is not enough: in training a part's own last bars are right, and the model follows these. So what is
# generated has a bias towards the chord (tokenization/grammar.py), by the weights that make hidden parts of held-out
# pieces likeliest beside groove-2 (`python -m tests.tools.fit.chord_bias`), times LOUD: a wrong note draws others
# after it.


def chords_to(given: Notes, tracks: Collection[int], bars: int) -> ChordTokens:
    """Return the chords of notes of the given tracks, over so many bars: at each bar line and where they change.

    Nothing is told where no pitched part is given, or none is written.
    """
    pitched = given[np.isin(given.track, list(tracks)) & (given.track != DRUMS)]
    unwritten = {DRUMS, *tracks}
    if not len(pitched) or unwritten >= set(range(len(TRACKS))):
        return NOTHING
    ticks, chords = _bridged(*changes_in_fours(pitched, TICKS_PER_BEAT))
    times = np.union1d(ticks, np.arange(bars) * BAR_TICKS)
    times = times[times < bars * BAR_TICKS]
    at = np.searchsorted(ticks, times, side="right") - 1
    ids = CHORD.start + chords[at]
    if OTHER not in tracks:
        rooted = chords[at] != NONE
        ids = np.where(rooted, ROOT.start + chords[at] // len(QUALITIES), ids)
    return ChordTokens(times, ids)


def _bridged(ticks: np.ndarray, chords: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out rests of less than a bar: the chord after one begins with it."""
    lasts = np.diff(ticks, append=ticks[-1] + BAR_TICKS)
    rests = (chords == NONE) & (lasts < BAR_TICKS)
    begins = np.where(np.append(False, rests[:-1]), np.append(0, ticks[:-1]), ticks)
    return begins[~rests], chords[~rests]


# Near what fits: of a bass's notes that are tones of the chord; of another part's, by semitones above the bass's root.
TONE = 1.45
ABOVE_ROOT = (0.7, -0.4, -0.2, 0.0, 0.8, -0.1, -0.3, 0.7, -0.1, -0.2, -0.5, -0.3)
LOUD = 2.0


@cache
def toward_chords() -> LogitBias:
    """Return how notes of the pitched parts lean towards a chord or a root that is told."""
    size, roots = len(VOCABULARY), np.arange(len(ROOTS))
    goal, kind = np.zeros(size, np.int64), np.zeros(size, np.int64)
    goal[CHORD.start : ROOT.stop] = np.arange(1, len(CHORD) + len(ROOT) + 1)
    for first, track in ((1, BASS), (1 + PITCH_CLASSES, OTHER)):
        key = NOTE_ON.start + track * PITCHES
        kind[key : key + PITCHES] = first + np.arange(PITCHES) % PITCH_CLASSES
    weights = np.zeros((len(CHORD) + len(ROOT) + 1, 2 * PITCH_CLASSES + 1))
    of_chords, of_roots = weights[1 : len(CHORD) + 1], weights[len(CHORD) + 1 :]
    of_chords[:, 1 : PITCH_CLASSES + 1] = LOUD * TONE * TONES
    above = (np.arange(PITCH_CLASSES) - roots[:, None]) % PITCH_CLASSES
    of_roots[:, PITCH_CLASSES + 1 :] = LOUD * np.array(ABOVE_ROOT)[above]
    group = np.concatenate([[0], np.repeat([0, 1], PITCH_CLASSES)])
    return LogitBias(goal=goal, kind=kind, group=group, weights=weights)


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
