"""REMI, the language of one piano in 4/4: its vocabulary, the arrangement of any score, conversion to tokens, grammar.

    begin (bar (subbeat tempo? chord? (pitch volume duration)*)*)* end

The tokens are those of the pop piano language (Huang & Yang, "Pop Music Transformer", 2020) with chords, in bars of
4/4, with a tempo resolution of 3 beats per minute and 24 volume levels. Tempo and chord are given when they change, the
tempo only at the start of a bar. The notes of a sub-beat ascend. A bar without notes is only a `bar` token; changes of
tempo and chord in it move to the next bar with notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tokenization.analysis.beats import (
    FOUR_FOUR,
    on_four_four,
    tempo_map,
    with_tempo,
    without_rest_in_front,
)
from tokenization.analysis.chords import CHORDS, QUALITIES, ROOTS, in_steps
from tokenization.analysis.hearing import with_chords
from tokenization.analysis.parts import (
    chosen_tracks,
    label,
    melodic,
    parts_of,
    regrouped,
    remarks_on_others,
)
from tokenization.grammar import Grammar
from tokenization.language import Encoded, Language, Vocabulary
from tokenization.score import Marker, Notes, Score, Tempos, Track, notes_in_steps, sustained
from tokenization.wording import Remark, listed

BAR_BEATS = 4
SUBBEATS_PER_BEAT = 4
BAR_SUBBEATS = BAR_BEATS * SUBBEATS_PER_BEAT
SUBBEAT_TICKS = 2  # durations are in half sub-beats, onsets in whole ones
TICKS_PER_BEAT = SUBBEATS_PER_BEAT * SUBBEAT_TICKS

LOWEST_PITCH, HIGHEST_PITCH = 21, 108
KEYS = HIGHEST_PITCH - LOWEST_PITCH + 1
VOLUMES = 24
SLOWEST, FASTEST, TEMPO_STEP = 32, 224, 3  # quarter notes per minute

LONGEST_TICKS = BAR_SUBBEATS * SUBBEAT_TICKS  # the longest duration

VOCABULARY = Vocabulary([
    ("special", ["padding", "begin", "end"]),
    ("bar", ["bar"]),
    ("subbeat", [f"subbeat_{s}" for s in range(BAR_SUBBEATS)]),
    ("tempo", [f"tempo_{t}" for t in range(SLOWEST, FASTEST + 1, TEMPO_STEP)]),
    ("chord", [f"chord_{name}" for name in CHORDS]),
    ("pitch", [f"pitch_{p}" for p in range(LOWEST_PITCH, HIGHEST_PITCH + 1)]),
    ("volume", [f"volume_{v}" for v in range(1, VOLUMES + 1)]),
    ("duration", [f"duration_{t / SUBBEAT_TICKS:g}" for t in range(1, LONGEST_TICKS + 1)]),
])  # fmt: skip
BEGIN, END = VOCABULARY.id("begin"), VOCABULARY.id("end")
BAR = VOCABULARY.id("bar")
TEMPO, CHORD = VOCABULARY["tempo"], VOCABULARY["chord"]
PITCH, VOLUME = VOCABULARY["pitch"], VOCABULARY["volume"]
SUBBEAT, DURATION = VOCABULARY["subbeat"], VOCABULARY["duration"]
SUBBEAT_OF = VOCABULARY.table("subbeat", range(BAR_SUBBEATS))
TICKS_OF = VOCABULARY.table("duration", range(1, LONGEST_TICKS + 1))


def tempo_level(beats_per_minute: np.ndarray) -> np.ndarray:
    """Return the nearest tempo level."""
    # Rounding first keeps the level of a steady tempo between two levels the same in every bar.
    steps = (np.round(beats_per_minute, 6) - SLOWEST) / TEMPO_STEP
    return np.clip(np.floor(steps + 0.5), 0, len(TEMPO) - 1).astype(np.int64)


def volume_level(velocity: np.ndarray) -> np.ndarray:
    """Return the volume level, 0 … 23, of a velocity; the levels divide 1 … 127 evenly."""
    return (np.clip(velocity, 1, 127) * VOLUMES - 1) // 127


def level_velocity(level: np.ndarray) -> np.ndarray:
    """Return the velocity in the middle of a level."""
    return ((2 * np.asarray(level) + 1) * 127 + VOLUMES) // (2 * VOLUMES)


MOST_BARS = 1 << 16  # even an empty bar costs a token; no music that we know of is as long


class Gridded(NamedTuple):
    """A piece on the grid, as integer columns; sub-beats count from the start of the piece."""

    onset_subbeats: np.ndarray  # (N,) ascending; notes of a sub-beat are sorted by key
    key: np.ndarray  # (N,) 0 … 87
    volume: np.ndarray  # (N,) level
    duration_ticks: np.ndarray  # (N,) from 1
    tempo_bar: np.ndarray  # bars at which the tempo changes
    tempo: np.ndarray  # the new level in each of them
    chord_subbeats: np.ndarray  # sub-beats at which the chord changes
    chord: np.ndarray  # the index of the new chord at each of them

    def score(self) -> Score:
        """Return the piece as a score with one piano track."""
        notes = Notes(
            self.onset_subbeats * SUBBEAT_TICKS,
            self.duration_ticks,
            self.key + LOWEST_PITCH,
            level_velocity(self.volume),
            np.zeros_like(self.key),
        )
        markers = zip(
            (self.chord_subbeats * SUBBEAT_TICKS).tolist(), self.chord.tolist(), strict=True
        )
        return Score(
            ticks_per_beat=TICKS_PER_BEAT,
            notes=notes,
            tracks=(Track(name="Piano"),),
            tempos=Tempos(self.tempo_bar * LONGEST_TICKS, SLOWEST + TEMPO_STEP * self.tempo),
            meters=FOUR_FOUR,
            markers=tuple(Marker(onset, CHORDS[chord]) for onset, chord in markers),
        )


def to_grid(score: Score) -> tuple[Gridded, dict[str, int]]:
    """Round a score to the grid; also count the notes dropped or changed by more than rounding.

    Notes are cut to the length of a bar. Each note is counted once at most.
    """
    notes, losses = _one_piano(score)
    noted = np.unique(notes[0] // BAR_SUBBEATS)
    if (count := int(noted[-1]) + 1) > MOST_BARS:
        raise ValueError(f"the score has {count} bars; the limit is {MOST_BARS}")
    columns = (*notes, *_tempo_changes(score, noted), *_chord_changes(score, noted))
    return Gridded._make(columns), losses


def _one_piano(score: Score) -> tuple[tuple[np.ndarray, ...], dict[str, int]]:
    """Merge all notes onto one keyboard, on which notes of the same key do not overlap.

    Returns the note columns of `Gridded`, and the losses.
    """
    rounded = _rounded(score)
    notes = rounded.merged()
    room = np.minimum(notes.next_strike_ticks - notes.onset_ticks, LONGEST_TICKS)
    kept = np.minimum(notes.duration_ticks, LONGEST_TICKS)
    cut = kept > room
    losses = {
        "out of range": len(score.notes) - len(rounded),
        "merged": len(rounded) - len(notes),
        "cut where struck again": int(cut.sum()),
        "cut to a bar": int(((notes.duration_ticks > LONGEST_TICKS) & ~cut).sum()),
    }
    losses = {reason: count for reason, count in losses.items() if count}
    onset, key = notes.onset_ticks // SUBBEAT_TICKS, notes.pitch - LOWEST_PITCH
    return (onset, key, volume_level(notes.velocity), np.minimum(kept, room)), losses


def _rounded(score: Score) -> Notes:
    """Return the notes within the range of a piano, in ticks of the grid."""
    notes = score.notes
    in_range = (notes.pitch >= LOWEST_PITCH) & (notes.pitch <= HIGHEST_PITCH)
    if not in_range.any():
        raise ValueError(
            f"the score has {len(notes)} notes, but none within the range of a piano, "
            f"pitches {LOWEST_PITCH} to {HIGHEST_PITCH}"
        )
    notes = notes_in_steps(score, SUBBEATS_PER_BEAT, TICKS_PER_BEAT)[in_range]
    return notes.replace(track=np.zeros_like(notes.track))


def _tempo_changes(score: Score, noted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bars with notes in which the tempo level changes, and the new level in each.

    The tempo of a bar is its number of beats divided by its duration, without the time before the first tempo.
    """
    known = score.tempos.beats_per_minute > 0  # excludes zero, negative numbers and NaN
    tempos = score.tempos[known]
    if not len(tempos):
        return noted[:0], noted[:0]
    tempos = tempos.replace(beats_per_minute=np.clip(tempos.beats_per_minute, 1, 10_000))
    to_seconds = tempo_map(score.replace(tempos=tempos)).to_seconds
    stop = (noted + 1) * BAR_BEATS
    start = np.maximum(stop - BAR_BEATS, tempos.onset_ticks.min() / score.ticks_per_beat)
    has_tempo = start < stop
    noted, start, stop = noted[has_tempo], start[has_tempo], stop[has_tempo]
    level = tempo_level(60 * (stop - start) / (to_seconds(stop) - to_seconds(start)))
    changes = np.diff(level, prepend=-1) != 0
    return noted[changes], level[changes]


def _chord_changes(score: Score, noted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sub-beats at which the chord changes in bars with notes, and the new chord at each.

    A chord that starts in a bar without notes is moved to the next bar with notes.
    """
    onset, number = in_steps(score, SUBBEATS_PER_BEAT)
    in_time = onset < (noted[-1] + 1) * BAR_SUBBEATS
    number, onset = number[in_time], onset[in_time]
    index = np.searchsorted(noted, onset // BAR_SUBBEATS)
    onset = np.maximum(onset, BAR_SUBBEATS * noted[index])

    last = np.diff(onset, append=-1) != 0  # of several chords on one sub-beat
    onset, number = onset[last], number[last]
    changes = np.diff(number, prepend=-1) != 0
    return onset[changes], number[changes]


def arrange(score: Score, tracks: int | str | Iterable[int | str] | None = None) -> Score:
    """Arrange a score for one piano in 4/4, with chords and with remarks on what was changed.

    `tracks`: the tracks to include, by index or name; None for all pitched ones.
    """
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    chosen = _pitched(score) if tracks is None else chosen_tracks(score, tracks)
    remarks = remarks_on_others(score, chosen)
    if len(chosen) > 1:
        names = listed([label(score, index) for index in chosen])
        remarks.insert(0, Remark(f"{len(chosen)} tracks are played on one piano: {names}."))
    piano = regrouped(sustained(score), [(Track("Piano"), chosen)]).remark(*remarks)
    return with_chords(with_tempo(without_rest_in_front(on_four_four(piano))))


def _pitched(score: Score) -> list[int]:
    """Return the tracks that have notes and are neither drums nor sound effects."""
    tracks = [index for part in melodic(parts_of(score)) for index in part.tracks]
    if not tracks:
        raise ValueError(
            f"all {len(score.notes)} notes are played by drums or sound effects; "
            "a piano part needs a pitched track"
        )
    return sorted(tracks)


# The grammar: the tokens that can follow each prefix of a batch.
#
# They depend on a small state (the kind of the last token, the sub-beat, and whether the bar has a note), for which
# there is a table, and on four memories: the last tempo and chord, the last key played in this sub-beat, and the end of
# the last note on each key. There is no dead end: a chord can follow in any sub-beat, and a sub-beat of a bar without
# notes is only entered if some key becomes free before the bar ends.
#
# Letters: B rows of a batch, V tokens of the vocabulary.

# The kind of the last token; NOTHING before the first one.
NOTHING, AFTER_BEGIN, AFTER_END, AFTER_BAR, AFTER_SUBBEAT = range(5)
AFTER_TEMPO, AFTER_CHORD, AFTER_PITCH, AFTER_VOLUME, AFTER_DURATION = range(5, 10)
KINDS = 10


def _kinds() -> np.ndarray:
    """Return the kind of each token, (V,); padding, which is never allowed, has NOTHING."""
    kind = np.full(len(VOCABULARY), NOTHING)
    kind[[BEGIN, END, BAR]] = AFTER_BEGIN, AFTER_END, AFTER_BAR
    blocks = (SUBBEAT, TEMPO, CHORD, PITCH, VOLUME, DURATION)
    for number, block in enumerate(blocks, AFTER_SUBBEAT):
        kind[block.start : block.stop] = number
    return kind


def _may_follow() -> np.ndarray:
    """Return the mask of the tokens that can follow each state, before the memories apply: (states, V)."""
    kind = KIND
    table = np.zeros((KINDS, BAR_SUBBEATS, 2, len(VOCABULARY)), dtype=bool)
    later = np.arange(BAR_SUBBEATS)[:, None] < SUBBEAT_OF
    later = (later & (kind == AFTER_SUBBEAT))[:, None]  # (16, 1, V)
    pitch, chord = kind == AFTER_PITCH, kind == AFTER_CHORD
    close = (kind == AFTER_BAR) | (kind == AFTER_END)
    table[NOTHING] = kind == AFTER_BEGIN
    table[AFTER_BEGIN] = kind == AFTER_BAR
    table[AFTER_BAR] = (kind == AFTER_BAR) | (kind == AFTER_SUBBEAT)
    table[AFTER_SUBBEAT] = chord | pitch
    table[AFTER_SUBBEAT, 0] |= kind == AFTER_TEMPO
    table[AFTER_TEMPO] = chord | pitch | later
    table[AFTER_CHORD] = pitch | later
    table[AFTER_CHORD, :, 1] |= close
    table[AFTER_PITCH] = kind == AFTER_VOLUME
    table[AFTER_VOLUME] = kind == AFTER_DURATION
    table[AFTER_DURATION] = pitch | later | close
    return table.reshape(-1, len(VOCABULARY))


def _next_state() -> np.ndarray:
    """Return the state after each state and token: (states, V)."""
    state = np.arange(KINDS * BAR_SUBBEATS * 2)[:, None]
    subbeat = np.where(KIND == AFTER_SUBBEAT, SUBBEAT_OF, state // 2 % BAR_SUBBEATS)
    noted = (state % 2) | (KIND == AFTER_PITCH)
    in_bar = KIND != AFTER_BAR
    return (KIND * BAR_SUBBEATS + subbeat * in_bar) * 2 + noted * in_bar


KIND = _kinds()
MAY_FOLLOW = _may_follow()
NEXT_STATE = _next_state()


class RemiGrammar(Grammar):
    """The rules above for a batch; nothing follows `end`."""

    def __init__(self) -> None:
        """Start one sequence, before the begin token."""
        self._state = np.zeros(1, dtype=np.int64)
        self._bars = np.zeros(1, dtype=np.int64)
        self._tempo = np.zeros(1, dtype=np.int64)  # id of the last tempo; 0 (padding) before it
        self._chord = np.zeros(1, dtype=np.int64)
        self._key = np.full(1, -1)  # the last one played in this sub-beat
        self._silent_at = np.zeros((1, KEYS), dtype=np.int64)  # ticks

    @property
    def bars(self) -> np.ndarray:
        """The number of bars so far, including the current one: (B,)."""
        return self._bars

    def allowed(self) -> np.ndarray:
        """Return the mask of the tokens that can come next: (B, V) bool."""
        rows = np.arange(len(self._state))
        mask = MAY_FOLLOW[self._state]
        mask[rows, self._tempo] = False
        mask[rows, self._chord] = False
        free = self._silent_at <= self._now()[:, None]
        free &= np.arange(KEYS) > self._key[:, None]
        mask[:, PITCH.start : PITCH.stop] &= free
        last = self._bar_ticks() + (BAR_SUBBEATS - 1) * SUBBEAT_TICKS
        never_free = np.flatnonzero((self._silent_at.min(axis=1) > last) & (self._state % 2 == 0))
        if len(never_free):
            mask[never_free] &= KIND != AFTER_SUBBEAT
        return mask

    def advance(self, tokens: np.ndarray) -> None:
        """Append one token to each row: (B,) allowed ids."""
        tokens = np.asarray(tokens, dtype=np.int64)
        kind = KIND[tokens]
        self._state = NEXT_STATE[self._state, tokens]
        new = kind == AFTER_BAR
        self._bars = self._bars + new
        self._tempo = np.where(kind == AFTER_TEMPO, tokens, self._tempo)
        self._chord = np.where(kind == AFTER_CHORD, tokens, self._chord)
        self._key = np.where((kind == AFTER_SUBBEAT) | new, -1, self._key)
        self._key = np.where(kind == AFTER_PITCH, tokens - PITCH.start, self._key)
        rows = np.flatnonzero(kind == AFTER_DURATION)
        if len(rows):
            ends = self._now()[rows] + TICKS_OF[tokens[rows]]
            self._silent_at[rows, self._key[rows]] = ends

    def _now(self) -> np.ndarray:
        """Return the tick of the current sub-beat: (B,)."""
        return self._bar_ticks() + self._state // 2 % BAR_SUBBEATS * SUBBEAT_TICKS

    def _bar_ticks(self) -> np.ndarray:
        """Return the tick at which the current bar starts: (B,)."""
        return np.maximum(self._bars - 1, 0) * BAR_SUBBEATS * SUBBEAT_TICKS


class Remi(Language):
    """The pop piano language, in bars of 4/4."""

    name = "remi"
    vocabulary = VOCABULARY
    begin = BEGIN
    end = END
    bar = BAR
    onset_steps = SUBBEATS_PER_BEAT
    arrange = staticmethod(arrange)
    details: ClassVar = {
        "bar_beats": BAR_BEATS,
        "bar_subbeats": BAR_SUBBEATS,
        "duration_steps_per_subbeat": SUBBEAT_TICKS,
        "pitch_range": [LOWEST_PITCH, HIGHEST_PITCH],
        "volume_levels": VOLUMES,
        "tempo_range_and_step": [SLOWEST, FASTEST, TEMPO_STEP],
        "chord_roots": [*ROOTS],
        "chord_qualities": [*QUALITIES],
    }

    def encode(self, score: Score) -> Encoded:
        """Convert an arranged score to tokens, from `begin` to `end`."""
        gridded, losses = to_grid(score)
        ids = _spell(gridded)
        return Encoded(ids=ids, bars=self.bars(ids), notes=len(gridded.key), losses=losses)

    def decode(self, ids: np.ndarray, setting: Any = None) -> Score:
        """Convert a valid sequence or prefix to a score; an incomplete note at the end is left out."""
        return _read(np.asarray(ids, dtype=np.int64)).score()

    def grammar(self, prompt: Sequence[int] | np.ndarray = (), **asked: Any) -> RemiGrammar:
        """Return the grammar for continuing a prompt, which is that of all valid sequences."""
        return RemiGrammar()

    def clock(self) -> dict[str, Any]:
        """Return how bar and sub-beat tokens move time, in sub-beats."""
        subbeats = [[SUBBEAT.start + place, 0, place] for place in range(BAR_SUBBEATS)]
        moves = [[BAR, 1, 0], *subbeats]
        return {"bar_ticks": BAR_SUBBEATS, "step_ticks": BAR_SUBBEATS, "moves": moves}


def _spell(piece: Gridded) -> np.ndarray:
    """Return the tokens of a piece: (T,) uint16.

    Every item gets a sort key, sub-beat × 8 + its rank within the sub-beat.
    """
    notes = piece.onset_subbeats
    bars = BAR_SUBBEATS * np.arange(notes[-1] // BAR_SUBBEATS + 1)
    tempos = bars[piece.tempo_bar]
    subbeats = np.unique(np.concatenate([notes, tempos, piece.chord_subbeats]))
    items = (
        (bars, np.full_like(bars, BAR)),
        (subbeats, SUBBEAT.start + subbeats % BAR_SUBBEATS),
        (tempos, TEMPO.start + piece.tempo),
        (piece.chord_subbeats, CHORD.start + piece.chord),
        (notes, PITCH.start + piece.key),
    )
    place = np.concatenate([at * 8 + rank for rank, (at, _) in enumerate(items)])
    # A row of tokens for each item, padded with 0; only notes have three.
    rows = np.zeros((len(place), 3), dtype=np.int64)
    rows[:, 0] = np.concatenate([tokens for _, tokens in items])
    rows[-len(notes) :, 1] = VOLUME.start + piece.volume
    rows[-len(notes) :, 2] = DURATION.start + piece.duration_ticks - 1
    ids = rows[np.argsort(place, kind="stable")]  # keeps the order of the notes of a sub-beat
    return np.concatenate([[BEGIN], ids[ids > 0], [END]]).astype(np.uint16)


def _read(ids: np.ndarray) -> Gridded:
    """Return the piece that valid tokens encode, (T,) int64, without incomplete notes."""
    bar = np.cumsum(ids == BAR) - 1  # (T,) −1 before the first bar
    placed = np.where((ids == BAR) | SUBBEAT.holds(ids), np.arange(len(ids)), 0)
    subbeat = SUBBEAT_OF[ids[np.maximum.accumulate(placed)]]
    onset = np.maximum(bar, 0) * BAR_SUBBEATS + subbeat
    tempos, chords, notes = (np.flatnonzero(b.holds(ids)) for b in (TEMPO, CHORD, PITCH))
    notes = notes[notes + 2 < len(ids)]
    return Gridded(
        onset_subbeats=onset[notes],
        key=ids[notes] - PITCH.start,
        volume=ids[notes + 1] - VOLUME.start,
        duration_ticks=TICKS_OF[ids[notes + 2]],
        tempo_bar=bar[tempos],
        tempo=ids[tempos] - TEMPO.start,
        chord_subbeats=onset[chords],
        chord=ids[chords] - CHORD.start,
    )
