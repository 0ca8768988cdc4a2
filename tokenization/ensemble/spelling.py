"""Convert a score to the tokens of the ensemble language and back, with array operations.

    begin tempo? flat? (part voice?)+ (bar metre? (part voice? (at (length? loudness? value)+)+)*)* end

The first tokens declare the parts in order; the second and later parts of an instrument have a `voice` number. A bar
names its metre if it changes, then the parts that play in it, in their order. Within a part's bar, length and loudness
are given for the first note and wherever they change, so that every bar can be read by itself. The notes of an onset
are sorted by length, loudness and pitch. A value is a pitch, a drum or a chord; drums have no length, chords neither
length nor loudness.

Letters: T tokens, E events, P parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.analysis.chords import CHORDS, in_steps
from tokenization.analysis.metres import FOUR_FOUR, Bars, bars_of
from tokenization.ensemble.tokens import (
    AT,
    BAR,
    BEGIN,
    CHORD,
    DRUM,
    DRUMS,
    END,
    FLAT,
    FLAT_VELOCITY,
    HARMONY,
    HIGHEST_DRUM,
    INSTRUMENT_OF,
    INSTRUMENTS,
    LENGTH,
    LENGTHS,
    LOUDNESS,
    LOWEST_DRUM,
    METRE,
    MOST_PARTS,
    MOST_VOICES,
    PART,
    PART_NAMES,
    PITCH,
    PITCHED,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
    TEMPO,
    TEMPOS,
    VOICE,
    longest_within,
    loudness_of,
    nearest_length,
    tempo_level,
    velocity_of,
)
from tokenization.language import Block
from tokenization.score import Marker, Notes, Score, Tempos, Track, notes_in_steps, steps_of

MOST_BARS = 1 << 16  # even an empty bar costs a token; no music that we know of is as long
NO_TEMPO = -1
DRUM_STEPS = 6  # duration of a drum note in a decoded score
_UNBOUNDED = 1 << 40


@dataclass(frozen=True, kw_only=True, eq=False)
class Sheet:
    """A piece on the grid; events are sorted by bar, part, onset, length, loudness and value."""

    bars: Bars
    parts: np.ndarray  # (P,) the instrument of each part
    tempo: int  # level, or NO_TEMPO
    flat: bool  # without dynamics
    bar: np.ndarray  # (E,)
    part: np.ndarray  # (E,) index of the part
    onset: np.ndarray  # (E,) steps from the start of the piece
    length: np.ndarray  # (E,) index of the note value; 0 for drums and chords
    loudness: np.ndarray  # (E,) level; 0 for chords and in a flat piece
    value: np.ndarray  # (E,) index of the pitch, drum or chord

    @cached_property
    def instrument(self) -> np.ndarray:
        """The instrument of each event: (E,)."""
        return self.parts[self.part] if len(self.parts) else self.part


def voices_of(parts: np.ndarray) -> np.ndarray:
    """Number the parts of each instrument from 1: (P,)."""
    same = parts[:, None] == parts
    return np.tril(same).sum(1) if len(parts) else parts


def names_of(parts: np.ndarray) -> list[str]:
    """Return the names of parts: instruments, numbered from the second part of each."""
    return [
        PART_NAMES[part] + (f"_{voice}" if voice > 1 else "")
        for part, voice in zip(parts.tolist(), voices_of(parts).tolist(), strict=True)
    ]


def instrument_of(track: Track) -> int:
    """Return the instrument of a track."""
    return DRUMS if track.is_drum else int(INSTRUMENT_OF[track.program])


def sheet_of(score: Score, *, to_its_end: bool = False) -> tuple[Sheet, dict[str, int]]:
    """Round an arranged score to the grid; also count the notes dropped or changed by more than rounding.

    `to_its_end`: whether bars of rest at the end of its notation are bars of the piece.
    """
    instruments = np.array([instrument_of(track) for track in score.tracks], dtype=np.int64)
    chord_onset, chord = in_steps(score, STEPS_PER_BEAT)
    parts = np.concatenate([[HARMONY] if len(chord) else [], instruments]).astype(np.int64)
    _check_parts(parts)
    flat = bool((score.notes.velocity == FLAT_VELOCITY).all())
    events, losses = _notes(score, flat)  # part, onset, length, loudness, value: (5, E)
    first, last = int(events[1].min()), int(events[1].max())
    end = score.extent[1] if score.extent and to_its_end else 0
    bars = _bars(score, max(last, STEPS_PER_BEAT * end // score.ticks_per_beat - 1))
    tempo = _tempo(score, first, last)
    if len(parts) > len(instruments):  # the chords are the first part
        end = (bars.start[-1] + bars.length[-1]) * STEPS_PER_SUBBEAT
        zeros, early = np.zeros_like(chord), chord_onset < end
        chords = np.stack([zeros, chord_onset, zeros, zeros, chord])
        events[0] += 1
        events = np.concatenate([chords[:, early], events], axis=1)
    events = np.stack([bars.of(events[1] // STEPS_PER_SUBBEAT), *events])
    events = events[:, np.lexsort(events[::-1])]
    bar, part, *_, value = events
    repeated = ~(_changes(bar) | _changes(part) | _changes(value))
    bar, part, onset, length, loudness, value = events[:, ~(repeated & (parts[part] == HARMONY))]
    sheet = Sheet(
        bars=bars, parts=parts, tempo=tempo, flat=flat,
        bar=bar, part=part, onset=onset, length=length, loudness=loudness, value=value,
    )  # fmt: skip
    return sheet, losses


def _check_parts(parts: np.ndarray) -> None:
    if len(parts) > MOST_PARTS or (len(parts) and np.bincount(parts).max() > MOST_VOICES):
        raise ValueError(
            f"the score has {len(parts)} parts; the limit is {MOST_PARTS}, and {MOST_VOICES} of one instrument"
        )
    for number in (DRUMS, HARMONY):
        if (parts == number).sum() > 1:
            raise ValueError(
                f"the score has several parts for {PART_NAMES[number]}; merge them into one"
            )


def _tempo(score: Score, first: int, last: int) -> int:
    """Return the level of the mean tempo from the first onset to a beat after the last one."""
    tempos = score.tempos
    if not len(tempos):
        return NO_TEMPO
    onset = steps_of(tempos.onset_ticks, score.ticks_per_beat, STEPS_PER_BEAT)
    onset[0] = min(onset[0], first)
    edges = np.clip(np.append(onset, _UNBOUNDED), first, last + STEPS_PER_BEAT)
    minutes = np.diff(edges) / np.clip(tempos.beats_per_minute, 1, 10_000)
    return tempo_level(float((edges[-1] - edges[0]) / minutes.sum()))


def _notes(score: Score, flat: bool) -> tuple[np.ndarray, dict[str, int]]:
    """Return part, onset, length, loudness and value of each note, (5, E), and the losses.

    Notes on the same key of a part do not overlap.
    """
    notes, is_drum = score.notes, np.array([track.is_drum for track in score.tracks], dtype=bool)
    known = ~is_drum[notes.track] | ((notes.pitch >= LOWEST_DRUM) & (notes.pitch <= HIGHEST_DRUM))
    if not known.any():
        raise ValueError("the score has no notes that the language can represent")
    notes = notes_in_steps(score, STEPS_PER_BEAT, STEPS_PER_BEAT)[known]
    merged = notes.merged()
    onset, steps, drum = merged.onset_ticks, merged.duration_ticks, is_drum[merged.track]
    room = merged.next_strike_ticks - onset
    length = np.minimum(nearest_length(steps), longest_within(room))
    losses = {
        "drums without a name": int((~known).sum()),
        "merged": len(notes) - len(merged),
        "cut where struck again": int(((steps > room) & ~drum).sum()),
        f"cut to {LENGTHS[-1] // STEPS_PER_BEAT} beats": int(
            ((steps > LENGTHS[-1]) & (room > LENGTHS[-1]) & ~drum).sum()
        ),
    }
    loudness = np.zeros_like(onset) if flat else loudness_of(merged.velocity)
    value = np.where(drum, merged.pitch - LOWEST_DRUM, merged.pitch)
    events = np.stack([merged.track, onset, np.where(drum, 0, length), loudness, value])
    return events, {reason: count for reason, count in losses.items() if count}


def _bars(score: Score, last_step: int) -> Bars:
    """Return the bars up to the one of the last note."""
    last = last_step // STEPS_PER_SUBBEAT
    if last < MOST_BARS * 16:
        bars = bars_of(score.meters, score.ticks_per_beat, last)
        if len(bars) <= MOST_BARS:
            return bars
    raise ValueError(f"the score has more than {MOST_BARS} bars, which is the limit")


def spell(sheet: Sheet) -> np.ndarray:
    """Return the tokens of a piece: (T,) int64."""
    tempo = [TEMPO.start + sheet.tempo] if sheet.tempo != NO_TEMPO else []
    head = [BEGIN, *tempo, *([FLAT] if sheet.flat else [])]
    header = np.concatenate([head, declared(sheet.parts)]).astype(np.int64)
    new_part = (np.diff(sheet.bar, prepend=-1) != 0) | (np.diff(sheet.part, prepend=-1) != 0)
    voice = voices_of(sheet.parts)[sheet.part] if len(sheet.parts) else sheet.part
    pitched = sheet.instrument < PITCHED
    loud = (sheet.instrument != HARMONY) & (not sheet.flat)
    start = (sheet.bars.start * STEPS_PER_SUBBEAT)[sheet.bar] if len(sheet.bar) else sheet.bar
    metre = sheet.bars.metre
    bars = (
        (np.ones(len(metre), dtype=bool), np.full(len(metre), BAR)),
        (np.diff(metre, prepend=FOUR_FOUR) != 0, METRE.start + metre),
    )
    events = (
        (new_part, PART.start + sheet.instrument),
        (new_part & (voice > 1), VOICE.start + voice - 2),
        (new_part | _changes(sheet.onset), AT.start + sheet.onset - start),
        (pitched & (new_part | _changes(sheet.length)), LENGTH.start + sheet.length),
        (loud & (new_part | _changes(sheet.loudness)), LOUDNESS.start + sheet.loudness),
        (np.ones(len(sheet.bar), dtype=bool), value_start(sheet.instrument) + sheet.value),
    )
    # A row of tokens for each bar and for each event, with the mask of those that are written.
    rows = np.zeros((2, len(metre) + len(sheet.bar), len(bars) + len(events)), dtype=np.int64)
    for column, of_bars in enumerate(bars):
        rows[:, : len(metre), column] = of_bars
    for column, of_events in enumerate(events, len(bars)):
        rows[:, len(metre) :, column] = of_events
    order = np.argsort(np.append(np.arange(len(metre)), sheet.bar), kind="stable")
    written, values = rows[:, order]
    return np.concatenate([header, values[written > 0], [END]])


def declared(parts: np.ndarray) -> np.ndarray:
    """Return the tokens that declare parts with these instruments."""
    voices = voices_of(parts)
    ids = np.stack([PART.start + parts, VOICE.start + voices - 2], 1)
    return ids[np.stack([voices > 0, voices > 1], 1)]


def _changes(column: np.ndarray) -> np.ndarray:
    return np.diff(column, prepend=-1) != 0


def value_start(instrument: np.ndarray) -> np.ndarray:
    """Return the id of value 0 for each instrument: its first pitch, drum or chord."""
    others = np.where(instrument == DRUMS, DRUM.start, CHORD.start)
    return np.where(instrument < PITCHED, PITCH.start, others)


class Reading:
    """The state at each position of a sequence of plain tokens: bar, part, onset, length and loudness."""

    def __init__(self, ids: np.ndarray) -> None:
        self.ids = ids = np.asarray(ids, dtype=np.int64)
        place = np.arange(len(ids))
        self.bar = np.cumsum(ids == BAR) - 1  # (T,) −1 before the first bar
        inside = self.bar >= 0
        self.parts = ids[PART.holds(ids) & ~inside] - PART.start  # (P,) instruments
        bar_at = np.maximum.accumulate(np.where(ids == BAR, place, -1))
        part_at = np.maximum.accumulate(np.where(PART.holds(ids) & inside, place, -1))
        self.part_at = np.where(part_at > bar_at, part_at, -1)  # (T,) offset of the part token
        self.part = self._parts_at()  # (T,)

        def latest(block: Block) -> np.ndarray:
            """Return the value of the last token of a block since the part token, or −1."""
            at = np.maximum.accumulate(np.where(block.holds(ids), place, -1))
            known = (self.part_at >= 0) & (at > self.part_at)
            return np.where(known, ids[at] - block.start, -1)

        self.step, self.length, self.loudness = latest(AT), latest(LENGTH), latest(LOUDNESS)

    def _parts_at(self) -> np.ndarray:
        """Return the index of the current part at each position, or −1."""
        index = np.full((len(PART), MOST_VOICES + 2), -1)
        parts = self.parts[: MOST_PARTS * 2]
        index[parts, np.minimum(voices_of(parts), MOST_VOICES + 1)] = np.arange(len(parts))
        named = np.flatnonzero(PART.holds(self.ids) & (self.bar >= 0))
        following = self.ids[np.minimum(named + 1, len(self.ids) - 1)] if len(named) else named
        voice = np.where(VOICE.holds(following), following - VOICE.start + 2, 1)
        found = np.full(len(self.ids), -1)
        found[named] = index[self.ids[named] - PART.start, voice]
        return np.where(self.part_at >= 0, found[self.part_at], -1)

    @cached_property
    def bars(self) -> Bars:
        """The bars so far; the last one may be incomplete."""
        named = np.flatnonzero(METRE.holds(self.ids) & (self.bar >= 0))
        count = int(self.bar[-1]) + 1 if len(self.bar) else 0
        metre = np.append(FOUR_FOUR, self.ids[named] - METRE.start)
        return Bars(metre[np.searchsorted(self.bar[named], np.arange(count), side="right")])

    @cached_property
    def events(self) -> np.ndarray:
        """The positions of pitches, drums and chords."""
        ids = self.ids
        return np.flatnonzero((ids >= PITCH.start) & (ids < CHORD.stop))

    def sheet(self) -> Sheet:
        """Return the piece that the tokens encode."""
        at, head = self.events, self.ids[1:3]
        flat, tempo = bool((head == FLAT).any()), head[TEMPO.holds(head)]
        at = at[(self.part[at] >= 0) & (self.step[at] >= 0)]
        instrument = self.parts[self.part[at]] if len(self.parts) else at[:0]
        ids = self.ids[at]
        others = np.where(instrument == DRUMS, DRUM.holds(ids), CHORD.holds(ids))
        fits = np.where(instrument < PITCHED, PITCH.holds(ids), others)
        at, instrument = at[fits], instrument[fits]
        part, bar = self.part[at], self.bar[at]
        starts = self.bars.start * STEPS_PER_SUBBEAT
        return Sheet(
            bars=self.bars,
            parts=self.parts,
            tempo=int(tempo[0]) - TEMPO.start if len(tempo) else NO_TEMPO,
            flat=flat,
            bar=bar,
            part=part,
            onset=starts[bar] + self.step[at] if len(at) else bar,
            length=np.where(instrument < PITCHED, np.maximum(self.length[at], 0), 0),
            loudness=np.where((instrument == HARMONY) | flat, 0, np.maximum(self.loudness[at], 0)),
            value=self.ids[at] - value_start(instrument),
        )


def closed(ids: np.ndarray) -> np.ndarray:
    """Return a sequence without an incomplete event at its end, such as a note without a pitch."""
    ids = np.asarray(ids)
    opens = AT.holds(ids) | LENGTH.holds(ids) | LOUDNESS.holds(ids)
    opens |= (PART.holds(ids) | VOICE.holds(ids)) & (np.cumsum(ids == BAR) > 0)
    complete = np.flatnonzero(~opens)
    return ids[: complete[-1] + 1] if len(complete) else ids[:0]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Details of a score that its tokens do not carry, for decoding."""

    tracks: tuple[Track, ...] = ()  # with names and programs
    tempos: tuple[tuple[int, float], ...] = ()  # (steps, beats per minute)
    velocity: int | None = None  # of all notes, instead of their loudness
    key_signature: tuple[int, bool] | None = None  # of the key that was asked for


def score_of(sheet: Sheet, setting: Setting) -> Score:
    """Return a piece as a score, with the details of its setting."""
    harmony = sheet.instrument == HARMONY
    drum = sheet.instrument == DRUMS
    sound = ~harmony
    track = np.cumsum(sheet.parts != HARMONY) - 1  # of each part
    length = np.where(drum, DRUM_STEPS, LENGTHS[sheet.length])
    velocity = velocity_of(sheet.loudness)
    if sheet.flat or setting.velocity is not None:
        velocity = np.full_like(velocity, setting.velocity or FLAT_VELOCITY)
    pitch = np.where(drum, sheet.value + LOWEST_DRUM, sheet.value)
    columns = (sheet.onset, length, pitch, velocity, track[sheet.part] if len(track) else pitch)
    chords = zip(sheet.onset[harmony].tolist(), sheet.value[harmony].tolist(), strict=True)
    encoded = ((0, TEMPOS[sheet.tempo]),) if sheet.tempo != NO_TEMPO else ()
    tempos = np.array(setting.tempos or encoded, np.float64).reshape(-1, 2).T
    return Score(
        ticks_per_beat=STEPS_PER_BEAT,
        notes=Notes(*(column[sound] for column in columns)).sorted(),
        tracks=_tracks(sheet, setting),
        tempos=Tempos(*tempos),
        meters=sheet.bars.meters(STEPS_PER_SUBBEAT),
        markers=tuple(Marker(onset, CHORDS[chord]) for onset, chord in sorted(chords)),
        key_signature=setting.key_signature,
    )


def _tracks(sheet: Sheet, setting: Setting) -> tuple[Track, ...]:
    """Return the tracks of the setting, then a new one for each further part."""
    parts = sheet.parts[sheet.parts != HARMONY]
    new = [new_track(int(part), int(v)) for part, v in zip(parts, voices_of(parts), strict=True)]
    kept = setting.tracks[: len(new)]
    return (*kept, *new[len(kept) :])


def new_track(instrument: int, voice: int) -> Track:
    """Return the track of a new part."""
    name = PART_NAMES[instrument].replace("_", " ").capitalize()
    program = INSTRUMENTS[PART_NAMES[instrument]][0] if instrument < PITCHED else 0
    return Track(name if voice == 1 else f"{name} {voice}", program, instrument == DRUMS)
