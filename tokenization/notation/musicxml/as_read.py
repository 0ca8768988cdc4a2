"""Simplify rhythms as a player reads them: onsets on a grid, swing as straight eighths, at most two voices a staff.

Onsets of each beat go to sixteenths or triplets, or to 32nds and sextuplets if only these keep them apart. A note lasts
until the next one of its voice if it nearly does; a note that is held over others goes to a second voice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

from tokenization.edit import Bar
from tokenization.notation.musicxml.rhythm import DOTTED_QUARTER, EIGHTH, QUARTER, is_compound
from tokenization.notation.musicxml.voices import Chord, until_the_next
from tokenization.score import Notes

# Parts of a beat to which onsets are rounded → the mean deviation, in beats, that their rarity costs.
GRIDS = {4: 0.0, 3: 0.012, 8: 0.03, 6: 0.04, 12: 0.3, 24: 0.6}
# Of an eighth, where that is the beat of the metre or a third of it.
EIGHTH_GRIDS = {2: 0.0, 4: 0.03, 3: 0.05, 6: 0.3, 12: 0.6}
MERGED = 0.15  # the cost of onsets that a grid does not keep apart
LOST = 1.0  # that of notes of one pitch, which become one note
APART = 1 / 12  # of a beat: onsets that are nearer are one chord, or one note if they repeat it
EARLY = 1 / 16  # of a beat: how early a note of the next beat can be
# Swing: the place of the second eighth of a beat, and the least number of beats that have it.
SWUNG, SWUNG_RANGE, LEAST_SWUNG, MOST_OTHERS = (0.57, 0.72), (0.4, 0.85), 8, 1.0
LEGATO, HELD = (
    6,
    0.25,
)  # divisions, and share of the time to the next note, for which a note may overlap it
LEAP = 5  # semitones to the next note over which a note can be held
ROUNDED = 3  # divisions by which an end may exceed an eighth


@dataclass(slots=True)
class Played:
    """A note in divisions; its onset is rounded, and its end is where it was played, or where that is in swing."""

    start: int
    end: float
    pitch: int
    velocity: int
    track: int


def bar_of(bars: Sequence[Bar], at: float) -> Bar:
    """Return the bar at a time; the last one after the end."""
    return bars[max(0, bisect_right(bars, at, key=lambda bar: bar.start) - 1)]


@dataclass(frozen=True, slots=True)
class Cell:
    """A beat, or an eighth of metres in eighths."""

    start: float
    unit: int

    @staticmethod
    def at(bars: Sequence[Bar], place: float) -> Cell:
        """Return the cell of an onset; slightly early onsets are of the next one."""
        bar = bar_of(bars, place + EARLY * QUARTER)
        unit = QUARTER if bar.time[1] < 8 else EIGHTH
        return Cell(bar.start + (place + EARLY * unit - bar.start) // unit * unit, unit)


def rounded(
    notes: Notes,
    bars: Sequence[Bar],
    per_division: float = 1.0,
    *,
    may_swing: bool = False,
    keeps_onsets: bool = False,
) -> tuple[list[Played], bool]:
    """Return the notes with rounded onsets, sorted, and whether their eighths swing.

    `per_division`: ticks of the notes. `keeps_onsets`: whether onsets are only rounded to divisions.
    """
    rows = [
        Played(0, (on + length) / per_division, pitch, velocity, track)
        for on, length, pitch, velocity, track in zip(
            *(column.tolist() for column in notes.columns), strict=True
        )
    ]
    onsets = [on / per_division for on in notes.onset_ticks.tolist()]
    cells: defaultdict[tuple[int, Cell], list[int]] = defaultdict(list)
    for index, (row, onset) in enumerate(zip(rows, onsets, strict=True)):
        cells[row.track, Cell.at(bars, onset)].append(index)
    places = {
        key: [(onsets[index] - key[1].start) / key[1].unit for index in some]
        for key, some in cells.items()
    }
    swings = may_swing and _swings(places)
    if swings:
        places = {
            key: some if _is_triplet(some) or key[1].unit != QUARTER else [*map(_straight, some)]
            for key, some in places.items()
        }
        for row in rows:
            cell = Cell.at(bars, row.end)
            if cell.unit == QUARTER and not _is_triplet(places.get((row.track, cell), [])):
                row.end = cell.start + QUARTER * _straight((row.end - cell.start) / QUARTER)
    for key, some in cells.items():
        cell = key[1]
        grids = GRIDS if cell.unit == QUARTER else EIGHTH_GRIDS
        pitches = [rows[index].pitch for index in some]
        grid = cell.unit if keeps_onsets else _grid_of(places[key], pitches, grids)
        for index, place in zip(some, places[key], strict=True):
            rows[index].start = max(0, round(cell.start + round(place * grid) * cell.unit / grid))
    return sorted(rows, key=lambda row: (row.start, row.pitch)), swings


def _grid_of(places: Sequence[float], pitches: Sequence[int], grids: Mapping[int, float]) -> int:
    """Return the number of parts of a beat to which its onsets are rounded."""
    by_pitch: defaultdict[int, list[float]] = defaultdict(list)
    for place, pitch in zip(places, pitches, strict=True):
        by_pitch[pitch].append(place)
    distinct, repeated = _distinct(places), [*map(_distinct, by_pitch.values())]

    def cost(grid: int) -> float:
        deviation = sum(abs(place - round(place * grid) / grid) for place in places) / len(places)
        merged, lost = _merged(distinct, grid), sum(_merged(own, grid) for own in repeated)
        return round(deviation + grids[grid] + MERGED * merged + LOST * lost, 9)

    return min(grids, key=cost)


def _distinct(places: Sequence[float]) -> list[float]:
    """Return the onsets that are apart from those before."""
    found: list[float] = []
    for place in sorted(places):
        if not found or place > found[-1] + APART:
            found.append(place)
    return found


def _merged(places: Sequence[float], grid: int) -> int:
    """Return how many onsets are lost by rounding."""
    return len(places) - len({round(place * grid) for place in places})


def _off_beats(places: Sequence[float]) -> list[float]:
    """Return the distinct onsets between beats."""
    return sorted({round(place, 2) for place in places if 0.12 < place < 0.9})


def _swings(places: Mapping[tuple[int, Cell], Sequence[float]]) -> bool:
    """Return whether the second eighths of most beats are late, as in swing."""
    seconds: list[float] = []
    others = 0
    for (_, cell), some in places.items():
        off = _off_beats(some) if cell.unit == QUARTER else []
        if len(off) == 1 and SWUNG_RANGE[0] < off[0] < SWUNG_RANGE[1]:
            seconds.append(off[0])
        elif off:
            others += 1
    if len(seconds) < LEAST_SWUNG or others > MOST_OTHERS * len(seconds):
        return False
    inside = sum(SWUNG[0] - 0.02 <= place <= SWUNG[1] + 0.02 for place in seconds)
    return SWUNG[0] <= median(seconds) <= SWUNG[1] and inside > 0.7 * len(seconds)


def _is_triplet(places: Sequence[float]) -> bool:
    """Return whether a beat has the second note of a triplet."""
    return any(0.2 < place < 0.45 for place in places) and any(
        0.5 < place < 0.85 for place in places
    )


def _straight(place: float) -> float:
    """Return a place in a swung beat as in a straight one."""
    return place * 0.75 if place <= 2 / 3 else 0.5 + (place - 2 / 3) * 1.5


# The voices of a staff.


FEET = {35, 36, 44}  # bass drums and the pedal of the hi-hat


def drum_voices(rows: Sequence[Played], bars: Sequence[Bar]) -> list[list[Chord]]:
    """Return the voices of hands and feet on drums, whose lengths have no meaning."""

    def next_beat(at: int) -> int:
        bar = bar_of(bars, at)
        beat = DOTTED_QUARTER if is_compound(bar.time) else QUARTER
        return at + beat - (at - bar.start) % beat

    hands = [row for row in rows if row.pitch not in FEET]
    feet = [row for row in rows if row.pitch in FEET]
    return [until_the_next(_chords(some), next_beat) for some in (hands, feet) if some]


def staff_voices(
    rows: Sequence[Played], bars: Sequence[Bar], *, is_single: bool = False
) -> list[list[Chord]]:
    """Return one or two voices of a staff: in the second are the notes that are held over others.

    `is_single`: whether the instrument plays one note after another, so that overlaps are only played legato.
    """
    chords = _chords(rows)
    grid = {chord.start for chord in chords}
    main: list[Chord] = []
    held: list[Chord] = []
    ends = _ends(rows)
    for chord, following in zip_longest(chords, chords[1:]):
        limit = following.start if following else None
        over = [
            note for note in chord.notes
            if not is_single and limit is not None and _is_held(chord.start, ends[chord.start, note[0]], limit)
        ]  # fmt: skip
        if len(over) == len(chord.notes) and following and _is_line(over, following):
            over = []
        if over and (not held or held[-1].end <= chord.start):
            latest = Counter(
                _end(chord.start, ends[chord.start, p], None, grid, bars) for p, _ in over
            )
            held.append(Chord(chord.start, latest.most_common(1)[0][0], over))
            chord = replace(chord, notes=[note for note in chord.notes if note not in over])
        if chord.notes:
            end = max(ends[chord.start, pitch] for pitch, _ in chord.notes)
            chord.end = _end(chord.start, end, limit, grid, bars)
            main.append(chord)
    return [main, held] if held else [main]


def _is_line(notes: Sequence[tuple[int, int]], following: Chord) -> bool:
    """Return whether the next notes continue a line, in which overlaps are only played legato."""
    return min(abs(one - other) for one, _ in notes for other, _ in following.notes) < LEAP


def _chords(rows: Sequence[Played]) -> list[Chord]:
    chords: dict[int, Chord] = {}
    for row in rows:
        chord = chords.setdefault(row.start, Chord(row.start, row.start))
        if all(row.pitch != pitch for pitch, _ in chord.notes):
            chord.notes.append((row.pitch, row.velocity))
    return [chords[start] for start in sorted(chords)]


def _ends(rows: Sequence[Played]) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for row in rows:
        found[row.start, row.pitch] = max(row.end, found.get((row.start, row.pitch), 0.0))
    return found


def _is_held(start: int, end: float, following: int) -> bool:
    return end > following + max(LEGATO, HELD * (following - start))


def _end(start: int, end: float, following: int | None, grid: set[int], bars: Sequence[Bar]) -> int:
    """Return where a note ends on paper: at the next one if it nearly does, otherwise on an eighth or triplet."""
    if following is not None and end > following - EIGHTH:
        return following
    cell = Cell.at(bars, max(start, end - ROUNDED))
    inside = {place - cell.start for place in grid if cell.start < place < cell.start + cell.unit}
    in_triplet = any(place % 3 for place in inside)
    step = cell.unit // 3 if in_triplet else EIGHTH
    steps = -(
        (cell.start + ROUNDED - end) // step
    )  # rounded up, unless it exceeds a step by little
    stop = round(cell.start + max(0, steps) * step)
    shortest = 4 if in_triplet else EIGHTH // 2
    stop = max(stop, start + shortest)
    return stop if following is None else min(stop, following)


# The hands of a keyboard player.

SPAN = 14  # semitones that a hand reaches
OCTAVE, NARROW_DIVIDED = 12, 1.5  # a chord that one hand reaches stays in it
SPLITS = range(52, 69)
MIDDLE_C = 60


def split_hands(rows: Sequence[Played], bars: Sequence[Bar]) -> tuple[list[Played], list[Played]]:
    """Divide notes between two staves: in each bar at the pitch that lets each hand reach its notes."""
    high: list[Played] = []
    low: list[Played] = []
    by_bar: defaultdict[int, list[Played]] = defaultdict(list)
    for row in rows:
        by_bar[bar_of(bars, row.start).start].append(row)
    before = MIDDLE_C
    for some in by_bar.values():
        together: defaultdict[int, list[int]] = defaultdict(list)
        for row in some:
            together[row.start].append(row.pitch)
        before = min(SPLITS, key=lambda split: _strain(split, before, [*together.values()]))
        for row in some:
            (high if row.pitch >= before else low).append(row)
    return high, low


def _strain(split: int, before: int, chords: Sequence[Sequence[int]]) -> float:
    """Return how hard a split is to play and read."""
    strain = abs(split - MIDDLE_C) * 0.15 * len(chords) ** 0.5 + abs(split - before) * 0.1
    for chord in chords:
        for hand in ([p for p in chord if p >= split], [p for p in chord if p < split]):
            strain += max(0, max(hand) - min(hand) - SPAN) if hand else 0
        divided = min(chord) < split <= max(chord)
        strain += NARROW_DIVIDED * (divided and max(chord) - min(chord) <= OCTAVE)
        strain += 0.3 * sum(abs(pitch - split + 0.5) < 2 for pitch in chord)
    return round(strain, 6)
