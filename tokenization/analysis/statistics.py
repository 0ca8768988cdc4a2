"""What some bars of a piece are like: about 300 statistics, in which generated music may differ from real music.

They describe the notes that begin in the bars, cut at their last line, in any metre. Those of `form` compare them with
all earlier bars, and those of `change` with the bars before the new music. What cannot be computed is missing. A name
begins with its group, one of GROUPS. P pitched notes, O onsets, T steps, K beats, B bars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenization.analysis import harmony_statistics, part_statistics
from tokenization.analysis.metres import bar_lines
from tokenization.analysis.shares import commonest, correlation, entropy, shares, spread
from tokenization.score import Notes, Score

STEPS = 24  # per beat: the finest grid of the languages
WINDOW = 8  # bars of an excerpt, and of those before the new music with which it is compared
PITCHES = 128
LOUDNESS, CHANGE = "loudness", "change"
GROUPS = {  # in words of musicians
    "rhythm": "rhythm: density, places in the bar, gaps between onsets",
    "length": "lengths: of notes, legato, how many sound at once",
    LOUDNESS: "loudness: level, accents, contrast",
    "top": "the top line: range, steps and leaps, repeated figures",
    "bass": "the bass line: range, steps and leaps, repeated figures",
    "harmony": "harmony: scale, chords and their changes, dissonance, spacing",
    "parts": "parts: their shares, registers and density",
    "form": "form: what returns, from how far back, how exactly",
    "drums": "drums: kit, pattern, changes",
    CHANGE: "change from the bars before the new music",
}
COMPARED = (  # statistics whose change since the bars before is one, too
    "rhythm: notes", "rhythm: onsets", "rhythm: bar deviation", "rhythm: off the beat", "rhythm: place entropy",
    "length: mean", "length: entropy", "length: sounding", "loudness: mean", "loudness: deviation",
    "loudness: commonest", "top: mean", "top: deviation", "top: step", "top: repeated", "bass: mean", "bass: step",
    "harmony: class entropy", "harmony: in scale", "harmony: classes in a beat", "harmony: chord changes",
    "harmony: seconds and sevenths", "parts: number", "parts: evenness", "drums: share", "drums: kinds",
)  # fmt: skip
Found = dict[str, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Excerpt:
    """Bars of a score on the grid, from their first line."""

    notes: Notes  # by onset, then pitch
    drum: np.ndarray  # (N,) bool
    lines: np.ndarray  # (B + 1,)

    @property
    def beats(self) -> float:
        """Its duration."""
        return float(self.lines[-1]) / STEPS

    @cached_property
    def bar(self) -> np.ndarray:
        """The bar of each note: (N,)."""
        return np.searchsorted(self.lines, self.notes.onset_ticks, side="right") - 1

    @cached_property
    def place(self) -> np.ndarray:
        """The step of each note in its bar: (N,)."""
        return self.notes.onset_ticks - self.lines[self.bar]

    @cached_property
    def pitched(self) -> Notes:
        """The notes of pitched parts: (P,)."""
        return self.notes[~self.drum]

    @cached_property
    def sounding(self) -> np.ndarray:
        """Whether each pitch sounds at each step: (T, PITCHES)."""
        change = np.zeros((int(self.lines[-1]) + 1, PITCHES), dtype=np.int16)
        np.add.at(change, (self.pitched.onset_ticks, self.pitched.pitch), 1)
        np.add.at(change, (self.pitched.end_ticks, self.pitched.pitch), -1)
        return np.cumsum(change, axis=0)[:-1] > 0

    @cached_property
    def begins(self) -> np.ndarray:
        """The index of the first pitched note at each onset, which is the lowest: (O,)."""
        return np.flatnonzero(np.diff(self.pitched.onset_ticks, prepend=-1))

    @cached_property
    def chord(self) -> np.ndarray:
        """The number of each pitched note's onset: (P,)."""
        counts = np.diff(np.append(self.begins, len(self.pitched)))
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def ends(self) -> np.ndarray:
        """The index of the last pitched note at each onset, which is the highest: (O,)."""
        return np.append(self.begins[1:], len(self.pitched))[: len(self.begins)] - 1


class Measured:
    """A score whose excerpts are measured: they share what compares its bars with each other."""

    def __init__(self, score: Score, bars: int) -> None:
        """Take the first bars of a score."""
        score = score.rescaled(STEPS)
        self._lines = bar_lines(score, bars)
        notes, drum = score.notes, score.on_drums
        order = np.lexsort((notes.pitch, notes.onset_ticks))
        order = order[notes.onset_ticks[order] < self._lines[-1]]
        self._whole = self._cut(
            Excerpt(notes=notes[order], drum=drum[order], lines=self._lines), 0, bars
        )
        self._before: tuple[int, Found] = (-1, {})
        self._likeness: dict[str, np.ndarray] = {}

    def excerpt(self, start: int, stop: int) -> Excerpt:
        """Return bars start … stop − 1, with notes cut at their end."""
        return self._cut(self._whole, start, stop)

    def statistics(self, start: int, stop: int, begun: int) -> Found | None:
        """Return those of bars start … stop − 1, in music that is new from bar `begun`; None if they are silent."""
        window = self.excerpt(start, stop)
        if not len(window.notes):
            return None
        found = _of(window)
        if self._before[0] != begun:
            before = self.excerpt(max(0, begun - WINDOW), begun)
            self._before = begun, _of(before) if len(before.notes) else {}
        before = self._before[1]
        changes = {
            f"{CHANGE}: {name.replace(': ', ' ')}": found[name] - before[name]
            for name in COMPARED
            if name in found and name in before
        }
        return {**found, **self._form(start, stop, begun), **changes}

    @staticmethod
    def _cut(whole: Excerpt, start: int, stop: int) -> Excerpt:
        lines = whole.lines[start : stop + 1]
        first, last = np.searchsorted(whole.notes.onset_ticks, lines[[0, -1]])
        notes = whole.notes[first:last]
        length = np.minimum(notes.end_ticks, lines[-1]) - notes.onset_ticks
        notes = notes.replace(onset_ticks=notes.onset_ticks - lines[0], duration_ticks=length)
        return Excerpt(notes=notes, drum=whole.drum[first:last], lines=lines - lines[0])

    # Form.

    def _alike(self, what: str) -> np.ndarray:
        """Return the share of what either of two bars has that both have: (all B, all B); NaN if neither has any."""
        if what not in self._likeness:
            whole = self._whole
            place, pitch, drum = whole.place, whole.notes.pitch, whole.drum
            keys = {
                "notes": (place * 2 + drum) * PITCHES + pitch,
                "rhythm": place,
                "classes": np.where(drum, -1, pitch % 12),
                "top": np.where(self._is_top, place * PITCHES + pitch, -1),
                "bass": np.where(self._is_bass, place * PITCHES + pitch, -1),
                "drums": np.where(drum, place * PITCHES + pitch, -1),
            }[what]  # fmt: skip
            counted = keys >= 0
            kinds, key = np.unique(keys[counted], return_inverse=True)
            has = np.zeros((len(whole.lines) - 1, len(kinds)), dtype=np.float32)
            has[whole.bar[counted], key] = 1
            common, size = has @ has.T, has.sum(axis=1)
            either = size[:, None] + size - common
            self._likeness[what] = np.divide(
                common, either, out=np.full_like(common, np.nan), where=either > 0
            )
        return self._likeness[what]

    @cached_property
    def _is_top(self) -> np.ndarray:
        return self._is_outer(self._whole.ends)

    @cached_property
    def _is_bass(self) -> np.ndarray:
        return self._is_outer(self._whole.begins)

    def _is_outer(self, indices: np.ndarray) -> np.ndarray:
        mask = np.zeros(len(self._whole.notes), dtype=bool)
        mask[np.flatnonzero(~self._whole.drum)[indices]] = True
        return mask

    def _form(self, start: int, stop: int, begun: int) -> Found:
        bars = np.arange(max(start, 1), stop)
        found: Found = {}
        for what in ("notes", "rhythm", "classes", "top", "bass", "drums"):
            alike = self._alike(what)
            rows = alike[bars]
            earlier = np.where(
                np.arange(len(alike)) < bars[:, None], np.nan_to_num(rows, nan=-1), -1
            )
            best, back = earlier.max(axis=1), bars - earlier.argmax(axis=1)
            known = best >= 0
            best, back = best[known], back[known]
            if not len(best):
                continue
            found |= {
                f"form: {what} best": float(best.mean()),
                f"form: {what} best deviation": float(best.std()),
                f"form: {what} exact": float((best > 0.999).mean()),
            }
            for lag in (1, 2, 4, 8):
                later = bars[bars >= lag]
                found[f"form: {what} {lag} back"] = _known_mean(alike[later, later - lag])
            if begun:
                found[f"form: {what} of the given"] = _known_mean(
                    np.nan_to_num(rows[:, :begun], nan=-1).max(axis=1)
                )
            if what == "notes":
                found |= {
                    "form: half": float((best >= 0.5).mean()),
                    "form: tenth": float((best >= 0.1).mean()),
                    **{f"form: from {lag} back": float((back == lag).mean()) for lag in (1, 2, 4, 8)},
                    "form: from far back": float((back > 8).mean()),
                }  # fmt: skip
        return found


def _known_mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def _of(window: Excerpt) -> Found:
    """Return the statistics that need no other bars."""
    found = _rhythm(window)
    notes = window.pitched
    if len(notes):
        found |= _lengths(window)
        found |= _line("top", notes[window.ends], window.beats)
        found |= _line("bass", notes[window.begins], window.beats)
        found |= harmony_statistics.harmony(window.sounding, STEPS, window.lines)
        found |= harmony_statistics.spacing(notes.pitch, window.begins)
        found |= _parts(window)
    return {**found, **_loudness(window), **_drums(window)}


def _rhythm(window: Excerpt) -> Found:
    notes, place = window.notes, window.place
    onsets = np.unique(notes.onset_ticks)
    beat, gap = place % STEPS, np.diff(onsets)
    bars = len(window.lines) - 1
    per_bar = np.bincount(window.bar, minlength=bars)
    line = window.lines[np.searchsorted(window.lines, onsets, side="right") - 1]
    after = (onsets - line) % STEPS
    late = after > 0  # of these onsets, those that are not followed by the next beat are syncopated
    tied = np.append(gap, 4 * STEPS)[late] > (STEPS - after[late])
    patterns = np.unique(np.stack([window.bar, place], axis=1), axis=0)
    by_bar = {bar: patterns[patterns[:, 0] == bar, 1].tobytes() for bar in range(bars)}
    found = {
        "rhythm: notes": len(notes) / window.beats,
        "rhythm: onsets": len(onsets) / window.beats,
        "rhythm: bar deviation": float(per_bar.std() / per_bar.mean()),
        "rhythm: fullest bar": float(per_bar.max() / per_bar.mean()),
        "rhythm: emptiest bar": float(per_bar.min() / per_bar.mean()),
        "rhythm: bar change": float(np.abs(np.diff(per_bar)).mean() / per_bar.mean())
        if bars > 1
        else np.nan,
        "rhythm: first of bar": float((place == 0).mean()),
        "rhythm: off the beat": float((beat > 0).mean()),
        "rhythm: place entropy": entropy(place),
        "rhythm: gap entropy": entropy(gap),
        "rhythm: commonest gap": commonest(gap),
        "rhythm: syncopated": float(tied.mean()) if len(tied) else 0.0,
        "rhythm: different bars": len({*by_bar.values()}) / bars,
    }
    on = {"half": (12,), "quarter": (6, 18), "triplet": (8, 16), "thirty-second": (3, 9, 15, 21)}
    found |= {
        f"rhythm: on {name}": float(np.isin(beat, steps).mean()) for name, steps in on.items()
    }
    edges = [0, 6, 7, 12, 13, 24, 25, 48, 1 << 40]
    return found | shares("rhythm: gap", gap, edges)


def _lengths(window: Excerpt) -> Found:
    notes = window.pitched
    length, count = notes.duration_ticks, np.count_nonzero(window.sounding, axis=1)
    common = np.isin(length, [3, 6, 12, 18, 24, 36, 48, 72, 96])
    order = np.lexsort((notes.onset_ticks, notes.track))
    track, onset, end = notes.track[order], notes.onset_ticks[order], notes.end_ticks[order]
    follows = (np.diff(track) == 0) & (np.diff(onset) > 0)
    gap = (onset[1:] - end[:-1])[follows]
    together = np.diff(window.chord) == 0
    found = {
        "length: mean": float(length.mean()) / STEPS,
        "length: spread": float(np.log2(length).std()),
        "length: entropy": entropy(length),
        "length: commonest": commonest(length),
        "length: odd": 1 - float(common.mean()),
        "length: legato": float((gap == 0).mean()) if len(gap) else np.nan,
        "length: overlapping": float((gap < 0).mean()) if len(gap) else np.nan,
        "length: equal in chords": float((np.diff(length) == 0)[together].mean()) if together.any() else np.nan,
        "length: sounding": float(count[count > 0].mean()),
        "length: sounding deviation": float(count.std()),
    }  # fmt: skip
    found |= shares("length: beats", length, [1, 4, 7, 13, 25, 49, 97, 1 << 40])
    return found | shares("length: at once", count, [0, 1, 2, 3, 4, 5, 6, 8, 1 << 40])


def _loudness(window: Excerpt) -> Found:
    loud, beat = window.notes.velocity.astype(float), window.place % STEPS
    bars = np.bincount(window.bar, minlength=len(window.lines) - 1)
    by_bar = np.bincount(window.bar, loud, len(bars))[bars > 0] / bars[bars > 0]
    found = {
        "loudness: mean": float(loud.mean()),
        "loudness: deviation": float(loud.std()),
        "loudness: range": spread(loud),
        "loudness: commonest": commonest(loud),
        "loudness: levels": float(len(np.unique(loud))),
        "loudness: entropy": entropy(loud),
        "loudness: step": float(np.abs(np.diff(loud)).mean()) if len(loud) > 1 else np.nan,
        "loudness: equal to the last": float((np.diff(loud) == 0).mean())
        if len(loud) > 1
        else np.nan,
        "loudness: bar deviation": float(by_bar.std()),
        "loudness: bar change": float(np.abs(np.diff(by_bar)).mean())
        if len(by_bar) > 1
        else np.nan,
        "loudness: accents": _difference(loud, beat == 0),
        "loudness: first of bar": _difference(loud, window.place == 0),
    }
    notes = window.pitched
    if len(notes):
        top = np.zeros(len(notes), dtype=bool)
        top[window.ends] = True
        own = notes.velocity.astype(float)
        within = np.abs(np.diff(own))[np.diff(window.chord) == 0]
        found |= {
            "loudness: of the top": _difference(own, top),
            "loudness: with pitch": correlation(own, notes.pitch),
            "loudness: with length": correlation(own, np.log2(notes.duration_ticks)),
            "loudness: within chords": float(within.mean()) if len(within) else np.nan,
        }
    return found


def _difference(values: np.ndarray, some: np.ndarray) -> float:
    """Return by how much the mean of some values exceeds that of the others; NaN if a side is empty."""
    return (
        np.nan
        if some.all() or not some.any()
        else float(values[some].mean() - values[~some].mean())
    )


def _line(name: str, notes: Notes, beats: float) -> Found:
    """Return the statistics of a line of notes, one per onset."""
    pitch = notes.pitch
    found = {
        f"{name}: mean": float(pitch.mean()),
        f"{name}: deviation": float(pitch.std()),
        f"{name}: range": float(np.ptp(pitch)),
        f"{name}: pitches": float(len(np.unique(pitch))),
        f"{name}: entropy": entropy(pitch),
        f"{name}: length": float(notes.duration_ticks.mean()) / STEPS,
    }
    step = np.diff(pitch)
    if not len(step):
        return found
    moved = step[step != 0]
    turns = np.diff(np.sign(moved)) != 0
    leap = np.abs(moved[:-1]) > 4
    figure = (
        np.lib.stride_tricks.sliding_window_view(step, 3)
        if len(step) > 2
        else np.zeros((0, 3), int)
    )
    figures = len(np.unique(figure @ [1 << 16, 1 << 8, 1])) if len(figure) else 0
    found |= {
        f"{name}: repeated": float((step == 0).mean()),
        f"{name}: step": float(np.abs(step).mean()),
        f"{name}: rising": float((moved > 0).mean()) if len(moved) else np.nan,
        f"{name}: turns": float(turns.mean()) if len(turns) else np.nan,
        f"{name}: leaps turned": float(turns[leap].mean()) if leap.any() else np.nan,
        f"{name}: step entropy": entropy(step),
        f"{name}: figures again": 1 - figures / len(figure) if len(figure) else np.nan,
    }
    return found | shares(f"{name}: steps", np.abs(step), [1, 3, 5, 6, 8, 12, 13, 128])


def _parts(window: Excerpt) -> Found:
    """Return what the highest, the lowest and the other pitched parts do."""
    notes = window.pitched
    tracks, own, count = np.unique(notes.track, return_inverse=True, return_counts=True)
    height = np.bincount(own, notes.pitch) / count
    rank = np.argsort(np.argsort(height))[own]
    last = len(tracks) - 1
    onset_of_track = np.unique(np.stack([own, notes.onset_ticks]), axis=1)
    together = np.unique(onset_of_track[1], return_counts=True)[1]
    doubled = np.unique(np.stack([notes.onset_ticks, notes.pitch]), axis=1).shape[1]
    found = {
        "parts: number": float(len(tracks)),
        "parts: evenness": entropy(own),
        "parts: on one onset": float(together.mean()),
        "parts: unisons": 1 - doubled / len(notes),
    }
    sides = {"highest": rank == last, "lowest": rank == 0, "others": (rank > 0) & (rank < last)}
    for name, some in sides.items():
        if not some.any() or (name == "lowest" and not last):
            continue
        mine = notes[some]
        onsets = np.unique(mine.onset_ticks)
        sounds = np.zeros(int(window.lines[-1]) + 1, dtype=np.int64)
        np.add.at(sounds, mine.onset_ticks, 1)
        np.add.at(sounds, mine.end_ticks, -1)
        found |= {
            f"parts: {name} share": float(some.mean()),
            f"parts: {name} pitch": float(mine.pitch.mean()),
            f"parts: {name} pitch deviation": float(mine.pitch.std()),
            f"parts: {name} at onset": len(mine) / len(onsets),
            f"parts: {name} onsets": len(onsets) / window.beats,
            f"parts: {name} length": float(mine.duration_ticks.mean()) / STEPS,
            f"parts: {name} sounding": float((np.cumsum(sounds)[:-1] > 0).mean()),
            f"parts: {name} loudness": _difference(notes.velocity, some),
        }
    bar = window.bar[~window.drum]
    return found | part_statistics.together(notes, rank, bar, window.lines, STEPS)


def _drums(window: Excerpt) -> Found:
    drum = window.drum
    if not drum.any():
        return {"drums: share": 0.0}
    pitch, place, bar = window.notes.pitch[drum], window.place[drum], window.bar[drum]
    bars = len(window.lines) - 1
    per_bar = np.bincount(bar, minlength=bars)
    kinds: Mapping[str, tuple[int, ...]] = {
        "kick": (35, 36), "snare": (38, 40, 37, 39), "hat": (42, 44, 46), "crash": (49, 57, 55, 52),
        "ride": (51, 53, 59), "toms": (41, 43, 45, 47, 48, 50),
    }  # fmt: skip
    notes = window.pitched
    tracks, own, count = np.unique(notes.track, return_inverse=True, return_counts=True)
    lowest = own == np.argmin(np.bincount(own, notes.pitch) / count) if len(tracks) else own == 0
    bass = np.unique(notes.onset_ticks[lowest])
    return {
        **part_statistics.with_drums(bass, window.notes.onset_ticks[drum], pitch, place, STEPS),
        "drums: share": float(drum.mean()),
        "drums: kinds": float(len(np.unique(pitch))),
        "drums: place entropy": entropy(place),
        "drums: entropy": entropy(pitch),
        "drums: bar deviation": float(per_bar.std() / per_bar.mean()),
        "drums: last bar": float(per_bar[-1] / per_bar.mean()),
        "drums: off the beat": float((place % STEPS > 0).mean()),
        "drums: loudness deviation": float(window.notes.velocity[drum].std()),
        **{
            f"drums: {name}": float(np.isin(pitch, some).sum() / window.beats)
            for name, some in kinds.items()
        },
    }
