"""Style profiles: histograms over the notes of a piece, whose cosine is the similarity of two styles.

The profiles are those of Cífka et al. (2019, 2020) as defined in the SPE paper (appendix C.2), with times in beats. The
code of the SPE authors takes onsets in ticks, so that its numbers differ. Times are binned exactly.

    onset_duration  (onset mod 4 beats, duration) of a note, in [0, 4) × [0, 2) beats, 24 × 12 bins
    time_pitch      (onset(b) − onset(a), pitch(b) − pitch(a)) of two notes a ≠ b, in [0, 4) beats × −20 … 20
                    semitones, 24 × 41 bins; simultaneous notes make two such pairs
    onset_drum      (onset mod 4 beats, drum) of a drum note, 24 × 128 bins

In other metres, too, the onset is the position in the bar, and a fifth beat counts as the first. Values outside the
ranges are ignored. The similarity to an empty histogram is None.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.metrics.estimates import FRACTION, estimate, grouped, means
from tokenization.analysis.metres import bar_count, bar_lines, bars_of
from tokenization.formats import read_file
from tokenization.score import Notes, Score, excerpt

Profiles = dict[str, np.ndarray]

PITCHED, ALL = "pitched", "all"
METRICS = {
    "onset_duration": "onset–duration",
    "time_pitch": "time–pitch",
    "onset_drum": "onset–drum",
}
QUARTERS = 4
QUARTER_NAMES = {None: "whole", 1: "1st quarter", 2: "2nd", 3: "3rd", 4: "4th"}

BAR_BEATS = 4
BINS_PER_BEAT = 6
ONSET_BINS = BAR_BEATS * BINS_PER_BEAT
DURATION_BINS = 2 * BINS_PER_BEAT
WIDEST_INTERVAL = 20  # semitones, up or down
INTERVALS = 2 * WIDEST_INTERVAL + 1
PITCHES = 128


def in_bars(score: Score) -> Notes:
    """Return a score's notes; unless all its bars have four beats, onsets are replaced by positions in the bar."""
    notes, meters, bar_ticks = score.notes, score.meters, BAR_BEATS * score.ticks_per_beat
    four_beats = meters.numerator * 4 == meters.denominator * BAR_BEATS
    if (four_beats & (meters.onset_ticks % bar_ticks == 0)).all():
        return notes
    last = 4 * int(notes.onset_ticks.max(initial=0)) // score.ticks_per_beat
    lines = bars_of(meters, score.ticks_per_beat, last).start * score.ticks_per_beat // 4
    bar = np.searchsorted(lines, notes.onset_ticks, side="right") - 1
    return notes.replace(onset_ticks=notes.onset_ticks - lines[bar])


def onset_duration(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    """Return the onset–duration histogram, (24, 12), of notes from `in_bars`."""
    onset = _onset_bins(notes, ticks_per_beat)
    duration = notes.duration_ticks * BINS_PER_BEAT // ticks_per_beat
    short = duration < DURATION_BINS
    return _histogram(onset[short], duration[short], (ONSET_BINS, DURATION_BINS))


def onset_drum(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    """Return the onset–drum histogram, (24, 128), of drum notes from `in_bars`."""
    return _histogram(_onset_bins(notes, ticks_per_beat), notes.pitch, (ONSET_BINS, PITCHES))


def time_pitch(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    """Return the time–pitch histogram: (24, 41)."""
    cells, count = np.unique(notes.onset_ticks * PITCHES + notes.pitch, return_counts=True)
    onset, pitch = np.divmod(cells, PITCHES)
    # Row 0 counts simultaneous pairs, each once: the lower note first.
    rows = np.zeros((1 + ONSET_BINS) * INTERVALS, dtype=np.int64)
    # Pairs of the cells i and i + apart, which are sorted by onset: none is near if a closer one is not.
    first, apart = np.arange(len(onset)), 1
    while len(first := first[first + apart < len(onset)]):
        lag = onset[first + apart] - onset[first]
        first, lag = (values[lag < BAR_BEATS * ticks_per_beat] for values in (first, lag))
        interval = pitch[first + apart] - pitch[first]
        near = np.abs(interval) <= WIDEST_INTERVAL
        row = np.where(lag == 0, 0, 1 + lag * BINS_PER_BEAT // ticks_per_beat)
        bins = (row * INTERVALS + interval + WIDEST_INTERVAL)[near]
        weights = (count[first + apart] * count[first])[near]
        rows += np.bincount(bins, weights=weights, minlength=len(rows)).astype(np.int64)
        apart += 1
    together, *later = rows.reshape(1 + ONSET_BINS, INTERVALS)
    result = np.array(later)
    result[0] += together + together[::-1]
    result[0, WIDEST_INTERVAL] += int((count * (count - 1)).sum())  # unisons
    return result


def cosine(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the cosine of two histograms as vectors, 0 … 1; None if one is empty."""
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    lengths = np.sqrt(a @ a) * np.sqrt(b @ b)
    return min(float(a @ b / lengths), 1.0) if lengths else None


def profiles(score: Score, tracks: str = PITCHED) -> Profiles:
    """Return the histograms by metric: of the pitched tracks, or of all tracks, and onset_drum of the drums."""
    is_drum, placed, ticks_per_beat = score.on_drums, in_bars(score), score.ticks_per_beat
    rows = ~is_drum if tracks == PITCHED else np.ones_like(is_drum)
    return {
        "onset_duration": onset_duration(placed[rows], ticks_per_beat),
        "time_pitch": time_pitch(score.notes[rows], ticks_per_beat),
        "onset_drum": onset_drum(placed[is_drum], ticks_per_beat),
    }


def similarities(reference: Profiles, output: Profiles) -> dict[str, float | None]:
    """Return the cosine of each histogram of the reference with that of the output; None if either is empty."""
    return {metric: cosine(histogram, output[metric]) for metric, histogram in reference.items()}


def quarters(score: Score) -> list[Score]:
    """Split a score into four parts of equal duration, up to the end of the last note.

    A note belongs to the part in which it begins, and keeps its onset.
    """
    notes = score.notes
    length = int(notes.end_ticks.max(initial=1))
    part = notes.onset_ticks * QUARTERS // max(length, 1)
    part = np.minimum(part, QUARTERS - 1)  # a note without length at the very end
    return [score.replace(notes=notes[part == quarter]) for quarter in range(QUARTERS)]


def compared(references: Mapping[str, Score], music: Score) -> Iterator[dict[str, Any]]:
    """Yield the similarities of music, whole (quarter None) and by quarter, to each reference."""
    parts = {None: music, **dict(enumerate(quarters(music), start=1))}
    found = {quarter: profiles(part) for quarter, part in parts.items()}
    for against, reference in references.items():
        expected = profiles(reference)
        for quarter, histograms in found.items():
            for metric, value in similarities(expected, histograms).items():
                yield {
                    "against": against,
                    "metric": metric,
                    "quarter": quarter,
                    "similarity": value,
                }


def _onset_bins(notes: Notes, ticks_per_beat: int) -> np.ndarray:
    return notes.onset_ticks % (BAR_BEATS * ticks_per_beat) * BINS_PER_BEAT // ticks_per_beat


def _histogram(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.bincount(row * shape[1] + column, minlength=shape[0] * shape[1]).reshape(shape)


# Copying from the prompt, and the diversity of several outputs.
#
# Both compare runs of tokens. Token languages without absolute times, such as all of ours, encode a repeated passage
# by the same run wherever it occurs.

COPIED_RUN = 32  # tokens: about a beat of a trio; shorter runs recur in all pieces of a style
SHARED_RUN = 8


def copied_share(output: np.ndarray, prompt: np.ndarray, run: int = COPIED_RUN) -> float | None:
    """Return the fraction of an output's tokens that lie in runs of `run` tokens that also occur in the prompt.

    None if the output or the prompt is shorter than a run.
    """
    if len(output) < run or len(prompt) < run:
        return None
    known = np.isin(_runs(output, run), _runs(prompt, run))
    return float((np.convolve(known, np.ones(run)) > 0).mean())


def diversity(outputs: Sequence[np.ndarray], run: int = SHARED_RUN) -> float | None:
    """Return 1 − the mean Jaccard index |A ∩ B| / |A ∪ B| over pairs of outputs, as multisets of runs.

    0 for equal outputs, 1 if they share no run; None for fewer than two outputs that are long enough.
    """
    counts = [Counter(_runs(output, run).tolist()) for output in outputs if len(output) >= run]
    shared = [(a & b).total() / (a | b).total() for a, b in combinations(counts, 2)]
    return 1 - float(np.mean(shared)) if shared else None


def _runs(ids: np.ndarray, run: int) -> np.ndarray:
    """Return all runs of `run` tokens, each packed into one value: (T − run + 1,)."""
    ids = np.ascontiguousarray(ids, dtype=np.uint16)
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(ids, run))
    return windows.view(np.dtype((np.void, windows.itemsize * run)))[:, 0]


# Files, and folders of prompts and continuations by any model: NAME.prompt.mid, and prompt and continuation together as
# NAME.prompt_cont_0.mid and so on, the names that the authors of SPE and `musicgen continue` use.

Row = dict[str, Any]
_PROMPT = ".prompt.mid"
_CONTINUATION = re.compile(r"(?P<name>.+?)(\.prompt)?\.prompt_cont_\d+\.mid")


def compared_files(reference: str, outputs: Sequence[str]) -> list[Row]:
    """Return the similarities of files to a reference."""
    score = read_file(reference)
    if not len(score.notes):
        raise ValueError(f"{reference} has no notes, so there is no style to compare with")
    return [
        {"output": name, **row}
        for name in outputs
        for row in compared({"reference": score}, read_file(name))
    ]


def compared_folders(folders: Sequence[str]) -> Row:
    """Return the similarities of continuations to their prompts as means over styles, by folder."""
    rows = {folder: list(_rows_of(Path(folder))) for folder in folders}
    columns = ("against", "metric", "quarter")
    return {
        "counts": {
            folder: {kind: len({row[kind] for row in own}) for kind in ("file", "style")}
            for folder, own in rows.items()
        },
        "similarity": [
            {
                "output": folder,
                **dict(zip(columns, key, strict=True)),
                **estimate(means(group, "style", "similarity"), bounds=FRACTION),
            }
            for folder, own in rows.items()
            for key, group in grouped(own, *columns).items()
        ],
    }


def _rows_of(folder: Path) -> Iterator[Row]:
    files = sorted(folder.iterdir())
    prompts = {
        file.name.removesuffix(_PROMPT): file for file in files if file.name.endswith(_PROMPT)
    }
    found = [(file, match) for file in files if (match := _CONTINUATION.fullmatch(file.name))]
    if not found:
        raise ValueError(
            f"{folder} has no continuations; they are named NAME.prompt_cont_0.mid and so on"
        )
    for file, match in found:
        if (name := match["name"]) not in prompts:
            raise ValueError(f"{folder} has {file.name}, but not {name}{_PROMPT}")
        prompt, whole = read_file(prompts[name]), read_file(file)
        music = excerpt(whole, int(bar_lines(whole, bar_count(prompt))[-1]))
        for row in compared({"prompt": prompt}, music):
            yield {"file": file.name, "style": style_of(name), **row}


def style_of(name: str) -> str:
    """Return STYLE of a file named CHART.STYLE.mid, as in both groove data sets, or else the name itself."""
    stem = Path(name).stem
    return stem.partition(".")[2] or stem
