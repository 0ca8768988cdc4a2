"""Compare recognised chords with written ones: python -m tests.tools.measure.chords FOLDER … [--split validation].

A folder has songs of POP909, of which those of the split are read, or files with chord symbols, such as MIDI files with
chords as markers. Shares are of time, sampled every half beat where a chord is written; the intervals are over pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from app import output
from tests.tools.options import options
from tokenization.analysis.chords import CHORD_INDEX, NONE, QUALITIES, named
from tokenization.analysis.hearing import recognise
from tokenization.analysis.metres import bar_count
from tokenization.formats import ENDINGS, read_file
from tokenization.intervals import mean_interval
from tokenization.score import Marker, Score, sustained
from training.data.sources.pop909 import CHORDS_FILE, read_song
from training.data.sources.works import split_works

HELD_OUT = 0.05  # for validation and for test, as by `musicgen data`
SAMPLES_PER_BEAT = 2
SEVENTHS = np.array([quality.endswith("7") for quality in QUALITIES])
# The third of each quality: none (suspended), minor or major.
THIRDS = np.array([2 * (4 in tones) + (3 in tones) for tones in QUALITIES.values()])
MEASURES = {
    "root": "right root",
    "third": "right root and third",
    "seventh": "right seventh chord where one is written",
    "extra": "a seventh chord where none is written",
    "changes": "changes a bar",
    "written": "changes a bar as written",
}


def sampled(chords: tuple[Marker, ...], score: Score) -> np.ndarray:
    """Return the index of the chord that holds in the middle of each half beat: (2 × beats,)."""
    known = sorted((m.onset_ticks, CHORD_INDEX[m.text]) for m in chords if m.text in CHORD_INDEX)
    onset, index = np.array([(-1, NONE), *known]).T
    count = -(-SAMPLES_PER_BEAT * score.end_ticks // score.ticks_per_beat)
    at = (2 * np.arange(count) + 1) * score.ticks_per_beat // (2 * SAMPLES_PER_BEAT)
    return index[np.searchsorted(onset, at, side="right") - 1]


def measured(score: Score) -> dict[str, float | None]:
    """Return the measures of a score with written chords; None where nothing is to be judged."""
    heard, written = recognise(sustained(score)), named(score)
    found, true = sampled(heard, score), sampled(written, score)
    judged = true != NONE
    found, true = found[judged], true[judged]
    roots = [chords // len(QUALITIES) for chords in (found, true)]
    kinds = [chords % len(QUALITIES) for chords in (found, true)]
    root = roots[0] == roots[1]
    third = root & (THIRDS[kinds[0]] == THIRDS[kinds[1]])
    seventh = SEVENTHS[kinds[1]]
    extra = (SEVENTHS[kinds[0]] & (found != NONE))[~seventh]
    shares = {
        "root": root,
        "third": third,
        "seventh": (found == true)[seventh],
        "extra": extra,
    }
    bars = bar_count(score)
    return {
        **{name: float(share.mean()) if len(share) else None for name, share in shares.items()},
        "changes": (len(heard) - 1) / bars,
        "written": (len(written) - 1) / bars,
    }


def scores(folder: Path, split: str) -> Iterator[tuple[str, Score]]:
    """Return the name and score of each piece of a folder that has chords."""
    songs = sorted(file.parent for file in folder.rglob(CHORDS_FILE))
    names = [song.name for song in songs]
    splits = split_works(names, [()] * len(names), HELD_OUT, by_name=True)
    for song, own in zip(songs, splits, strict=True):
        if own == split:
            yield song.name, read_song(song)
    if songs:
        return
    for file in sorted(folder.rglob("*")):
        if file.suffix.lower() in ENDINGS and named(score := read_file(file)):
            yield file.name, score


def main() -> None:
    given = options(__doc__, "folders", split="validation", each=0)
    rows: list[tuple[str, ...]] = [("pieces", *MEASURES)]
    for folder in given.folders:
        results = [(name, measured(score)) for name, score in scores(folder, given.split)]
        if given.each:
            rows += [(name, *(_number([one[key]]) for key in MEASURES)) for name, one in results]
        columns = [[one[key] for _, one in results] for key in MEASURES]
        rows.append((f"{folder.name}: {len(results)}", *map(_number, columns)))
    output.write(output.table(rows))
    for name, meaning in MEASURES.items():
        output.write(f"{name}: {meaning}")


def _number(values: list[float | None]) -> str:
    """Return the mean of the known values and its interval."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean, half = mean_interval(known)
    return f"{mean:.3f}" if half is None else f"{mean:.3f} ± {half:.3f}"


if __name__ == "__main__":
    main()
