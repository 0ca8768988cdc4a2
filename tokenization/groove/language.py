"""The groove language: arrange a score as a trio, convert it to tokens, and back.

    begin (time_shift* (note_on | note_off))+ end

The tokens have no dynamics, instruments or tempo; a `Band` stores them separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tokenization.analysis.beats import (
    DEFAULT_BEATS_PER_MINUTE,
    FOUR_FOUR,
    on_four_four,
    tempo_map,
    without_rest_in_front,
)
from tokenization.analysis.parts import (
    find_bass,
    find_drums,
    find_other,
    find_tracks,
    label,
    melodic,
    note_counts,
    parts_of,
    regrouped,
    remarks_on_others,
)
from tokenization.groove.spelling import (
    BAR_TICKS,
    BASS,
    BEGIN,
    DRUMS,
    END,
    KEYS,
    LONGEST_TICKS,
    MOST_UNISONS,
    OTHER,
    PARTS,
    PITCHES,
    SHIFTS,
    TICKS_PER_BEAT,
    TIME_SHIFT,
    TRACKS,
    VOCABULARY,
    GrooveGrammar,
    Reading,
    earlier_equals,
    notes_of_keys,
    spelled,
)
from tokenization.language import Encoded, Language
from tokenization.score import Notes, Score, Tempos, Track, steps_of, sustained
from tokenization.wording import Remark, listed

MOST_BEATS = 1 << 18  # a rest costs a token per two beats; no music that we know of is as long


@dataclass(frozen=True, kw_only=True)
class Band:
    """The details of a trio that the tokens do not carry: programs, velocities, and the tempo."""

    programs: tuple[int, int, int] = (33, 0, 0)  # finger bass, standard kit, grand piano
    velocities: tuple[int, int, int] = (90, 90, 75)
    beats_per_minute: float = DEFAULT_BEATS_PER_MINUTE

    def __post_init__(self) -> None:
        three = len(self.programs) == len(self.velocities) == len(TRACKS)
        playable = all(0 <= program <= 127 for program in self.programs)
        audible = all(1 <= velocity <= 127 for velocity in self.velocities)
        if not (three and playable and audible and 0 < self.beats_per_minute < np.inf):
            raise ValueError(
                "a band needs three programs from 0 to 127, three velocities from 1 to 127 and a positive tempo, "
                f"but got {self}"
            )

    def score(self, notes: Notes) -> Score:
        """Return the score of these notes, with the velocities of the band."""
        return Score(
            ticks_per_beat=TICKS_PER_BEAT,
            notes=notes.replace(velocity=np.array(self.velocities)[notes.track]),
            tracks=tuple(
                Track(name, program, index == DRUMS)
                for index, (name, program) in enumerate(zip(TRACKS, self.programs, strict=True))
            ),
            tempos=Tempos(np.array([0]), np.array([self.beats_per_minute])),
            meters=FOUR_FOUR,
        )


DEFAULT_BAND = Band()


def band_of(score: Score) -> Band:
    """Return the programs and mean velocities of a trio's tracks, and its mean tempo."""
    notes, tracks = score.notes, score.tracks
    count = np.bincount(notes.track, minlength=len(TRACKS))
    total = np.bincount(notes.track, weights=notes.velocity, minlength=len(TRACKS))
    mean = np.rint(total / np.maximum(count, 1)).astype(np.int64).clip(1, 127)
    bass, drums, other = np.where(count > 0, mean, DEFAULT_BAND.velocities).tolist()
    return Band(
        programs=(tracks[0].program, tracks[1].program, tracks[2].program),
        velocities=(bass, drums, other),
        beats_per_minute=_mean_tempo(score),
    )


def _mean_tempo(score: Score) -> float:
    """Return the constant tempo at which the piece has the same duration."""
    beats = max(score.end_ticks, 1) / score.ticks_per_beat
    seconds = float(tempo_map(score).to_seconds(np.array(beats)))
    return round(60 * beats / seconds, 6)  # keeps 120 exact


def grid(score: Score) -> tuple[Notes, dict[str, int]]:
    """Round the notes of a trio to the grid; also count the notes dropped or changed by more than rounding.

    Notes last at least one tick. Of simultaneous notes on one key, the first to start is the first to end.
    """
    _check(score)
    onset, end = (
        steps_of(ticks, score.ticks_per_beat, TICKS_PER_BEAT)
        for ticks in (score.notes.onset_ticks, score.notes.end_ticks)
    )
    end = np.maximum(end, onset + 1)
    key = score.notes.track * PITCHES + score.notes.pitch

    longest_first = np.argsort(-end, kind="stable")
    kept = longest_first[earlier_equals((onset * KEYS + key)[longest_first]) < MOST_UNISONS]
    order = kept[np.lexsort((end[kept], onset[kept], key[kept]))]
    onset, end, key = onset[order], end[order], key[order]
    in_order = end[np.lexsort((end, key))]
    room = _end_of_room(onset, key)

    losses = {
        "struck more than 8 times at once": len(score.notes) - len(kept),
        "cut where the 8th note after it is struck": int((in_order > room).sum()),
        "overlapping on one pitch, closed first-in first-out": int((in_order != end).sum()),
    }
    notes = notes_of_keys(onset, np.minimum(in_order, room), key)
    return notes, {reason: count for reason, count in losses.items() if count}


def _end_of_room(onset: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the latest end of each note within the limit of unisons; notes are sorted by key."""
    room = np.full_like(onset, np.iinfo(np.int64).max)
    same_key = key[:-MOST_UNISONS] == key[MOST_UNISONS:]
    room[:-MOST_UNISONS][same_key] = onset[MOST_UNISONS:][same_key]
    return room


def _check(score: Score) -> None:
    if len(score.tracks) != len(TRACKS):
        raise ValueError(
            f"the groove language needs the three tracks {', '.join(TRACKS)}, "
            f"but the score has {len(score.tracks)}; arrange it first"
        )
    if not len(score.notes):
        raise ValueError("the score has no notes")
    beats = score.end_ticks // score.ticks_per_beat
    if beats > MOST_BEATS:
        raise ValueError(f"the score has {beats} beats; the limit is {MOST_BEATS}")


Choice = int | str | Iterable[int | str] | None
FIND = {DRUMS: find_drums, BASS: find_bass, OTHER: find_other}  # in this order
NO_TRIO = "a trio needs a bass, drums or another part, but the score has only sound effects"


def arrange(score: Score, tracks: Mapping[str, Choice] | None = None) -> Score:
    """Arrange a score as bass, drums and one other part in 4/4, with remarks on the choice of tracks.

    `tracks` are those of bass, drums and other, by index or name: one or several per part, or None for silence. Parts
    that it does not mention are found automatically.
    """
    aligned = _on_grid(score)
    roles = _roles(aligned, _given(aligned, tracks or {}))
    remarks = remarks_on_others(aligned, [index for chosen in roles.values() for index in chosen])
    for role, name in enumerate(TRACKS):
        played_by = listed([label(aligned, index) for index in roles[role]])
        remarks.append(f"{name}: {played_by}." if played_by else Remark(f"{name}: silent."))
    trio = _trio(aligned.remark(*remarks), roles)
    if not len(trio.notes):
        raise ValueError(
            NO_TRIO
            if tracks is None
            else "the chosen tracks have no notes; choose others, or let the program choose"
        )
    return without_rest_in_front(trio)


def trios(score: Score) -> list[Score]:
    """Return bass and drums with each of the other parts in turn, as training examples."""
    aligned = without_rest_in_front(_on_grid(score))
    roles = _roles(aligned, {})
    taken = {*roles[BASS], *roles[DRUMS]}
    others = [p.tracks for p in melodic(parts_of(aligned)) if not taken.intersection(p.tracks)]
    if not (taken or others):
        raise ValueError(NO_TRIO)
    return [_trio(aligned, {**roles, OTHER: list(other)}) for other in others or [()]]


def _on_grid(score: Score) -> Score:
    if not len(score.notes):
        raise ValueError("the score has no notes to arrange")
    return on_four_four(sustained(score))


def _given(score: Score, tracks: Mapping[str, Choice]) -> dict[int, list[int]]:
    """Return the tracks of each role that the user has chosen."""
    if unknown := [name for name in tracks if name not in PARTS]:
        raise ValueError(f"a trio has the parts {listed(PARTS)}, but not {listed(unknown)}")
    given = {PARTS.index(name): _tracks(score, choice) for name, choice in tracks.items()}
    chosen = [index for indices in given.values() for index in indices]
    if twice := {index for index in chosen if chosen.count(index) > 1}:
        raise ValueError(
            f"{listed([label(score, index) for index in sorted(twice)])} "
            "can play only one of bass, drums and other"
        )
    return given


def _tracks(score: Score, choice: Choice) -> list[int]:
    if choice is None:
        return []
    wanted = [choice] if isinstance(choice, int | str) else choice
    return sorted({index for name in wanted for index in find_tracks(score, name)})


def _roles(score: Score, given: dict[int, list[int]]) -> dict[int, list[int]]:
    """Return the tracks of each role: the given ones, or those of the parts that are found."""
    taken = {index for tracks in given.values() for index in tracks}
    parts = [part for part in parts_of(score) if not taken.intersection(part.tracks)]
    roles = dict(given)
    for role, find in FIND.items():
        if role not in given:
            found = find(parts)
            roles[role] = [index for part in found for index in part.tracks]
            parts = [part for part in parts if part not in found]
    return roles


def _trio(score: Score, roles: dict[int, list[int]]) -> Score:
    """Return the score of the three roles, each with the program of its busiest track."""
    counts = note_counts(score)
    groups = []
    for role, name in enumerate(TRACKS):
        tracks, program = roles.get(role, []), DEFAULT_BAND.programs[role]
        if tracks:
            busiest = score.tracks[max(tracks, key=lambda index: counts[index])]
            # Programs of the drum channel are not instruments of other channels.
            if busiest.is_drum == (role == DRUMS):
                program = busiest.program
        groups.append((Track(name, program, role == DRUMS), tracks))
    return regrouped(score, groups)


class Groove(Language):
    """The language of bass, drums and one other part."""

    name = "groove"
    vocabulary = VOCABULARY
    begin = BEGIN
    end = END
    onset_steps = TICKS_PER_BEAT
    arrange = staticmethod(arrange)
    details: ClassVar = {
        "tracks": [*TRACKS],
        "ticks_per_beat": TICKS_PER_BEAT,
        "bar_ticks": BAR_TICKS,
        "shifts": [[*shift] for shift in SHIFTS],
        "most_unisons": MOST_UNISONS,
    }

    def encode(self, score: Score) -> Encoded:
        """Convert an arranged score to tokens, from `begin` to `end`."""
        notes, losses = grid(score)
        ids = self.spell(notes)
        return Encoded(
            ids=ids, bars=self.bars(ids), notes=len(notes), losses=losses, setting=band_of(score)
        )

    def decode(self, ids: np.ndarray, setting: Band | None = None) -> Score:
        """Convert a valid sequence or prefix to a score; an incomplete note at the end is left out."""
        return (setting or DEFAULT_BAND).score(self.notes(ids))

    def notes(self, ids: np.ndarray) -> Notes:
        """Return the notes of valid ids, without velocities, for augmentation."""
        return Reading(np.asarray(ids, dtype=np.int64)).notes

    def spell(self, notes: Notes) -> np.ndarray:
        """Convert notes on the grid to tokens: (T,) uint16."""
        return np.append(spelled(notes), END).astype(np.uint16)

    def close(self, ids: np.ndarray, bars: int | None = None) -> np.ndarray:
        """Complete a prefix: end all notes with the last bar, sort simultaneous events, and append `end`.

        With `bars`, the piece has at most this number of bars.
        """
        reading = Reading(np.asarray(ids, dtype=np.int64))
        count = self._bar_count(reading)
        if bars and len(reading.ids):  # a time shift to a bar line starts that bar
            count = min(bars, int(reading.time_ticks[-1]) // BAR_TICKS + 1)
        return self.spell(reading.all_notes(BAR_TICKS * count))

    def grammar(
        self,
        prompt: Sequence[int] | np.ndarray = (),
        *,
        prompt_bars: int = 0,
        **asked: Any,
    ) -> GrooveGrammar:
        """Return the grammar for continuing a prompt, with simultaneous events in any order (see `close`)."""
        longest = [*LONGEST_TICKS]
        notes = (
            self.notes(self.close(np.asarray(prompt), prompt_bars))
            if prompt_bars
            else Notes.empty()
        )
        for track in np.unique(notes.track).tolist():
            own = int(notes.duration_ticks[notes.track == track].max())
            longest[track] = min(longest[track], max(own, TICKS_PER_BEAT))
        return GrooveGrammar(
            prompt_tokens=len(prompt), start_ticks=prompt_bars * BAR_TICKS, longest_ticks=longest
        )

    def bars(self, ids: np.ndarray) -> np.ndarray:
        """Return the offset of each bar: that of the first token to reach its bar line.

        A note that only ends on a bar line does not start a bar there.
        """
        reading = Reading(np.asarray(ids, dtype=np.int64))
        lines = BAR_TICKS * np.arange(self._bar_count(reading))
        return np.maximum(np.searchsorted(reading.time_ticks, lines), 1)

    @staticmethod
    def _bar_count(reading: Reading) -> int:
        """Return the number of bars up to the last event or time shift."""
        if not len(reading.ids):
            return 0
        onset = reading.time_ticks[reading.event_places[reading.is_on]]
        reached = max(int(reading.time_ticks[-1]), int(onset.max(initial=-1)) + 1)
        return max(-(-reached // BAR_TICKS), 1)

    def clock(self) -> dict[str, Any]:
        """Return how time shifts move time: by whole beats, then to a tick of the beat."""
        return {
            "bar_ticks": BAR_TICKS,
            "step_ticks": TICKS_PER_BEAT,
            "moves": [[TIME_SHIFT.start + i, *shift] for i, shift in enumerate(SHIFTS)],
        }
