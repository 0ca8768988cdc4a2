"""Compare recognised chords with written ones: python -m tests.tools.measure.chords FOLDER … [--split validation].

A folder has songs of POP909, of which those of the split are read, or files, such as MIDI files with chords as markers;
`--every 10` reads one of ten. Shares are of time, sampled every half beat where a chord is written; the intervals are
over pieces. Files without written chords are judged by how much of what sounds the heard chords explain.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from app import output
from tests.tools.options import options
from tokenization.analysis.chords import CHORD_INDEX, NONE, PITCH_CLASSES, QUALITIES, TONES, named
from tokenization.analysis.hearing import recognise
from tokenization.analysis.metres import bar_count
from tokenization.formats import ENDINGS, read_file
from tokenization.intervals import mean_interval
from tokenization.score import Marker, Score, sustained
from training.data.sources.pop909 import CHORDS_FILE, read_song
from training.data.sources.works import split_works

HELD_OUT = 0.05  # for validation and for test, as by `musicgen data`
SAMPLES_PER_BEAT, STEPS_PER_SAMPLE = 2, 6
SEVENTHS = np.array([quality.endswith("7") for quality in QUALITIES])
SEVENTH = np.array([tones[-1] for tones in QUALITIES.values()])  # of those, above the root
LEAST = 0.1  # of the time of a chord, in which its seventh can be heard
# The third of each quality: none (suspended), minor or major.
THIRDS = np.array([2 * (4 in tones) + (3 in tones) for tones in QUALITIES.values()])
MEASURES = {
    "root": "right root",
    "third": "right root and third",
    "seventh": "right seventh chord where one is written",
    "precision": "the written chord where a seventh chord is heard",
    "ceiling": "seventh sounds for a tenth of the written seventh chord",
    "extra": "a seventh chord where none is written",
    "changes": "changes a bar",
    "written": "changes a bar as written",
    "explained": "of what sounds, by the chord heard",
    "bar before": "by the chord heard a bar before",
    "by written": "by the written chord",
}


def sampled(chords: tuple[Marker, ...], score: Score) -> np.ndarray:
    """Return the index of the chord that holds in the middle of each half beat: (2 × beats,)."""
    known = sorted((m.onset_ticks, CHORD_INDEX[m.text]) for m in chords if m.text in CHORD_INDEX)
    onset, index = np.array([(-1, NONE), *known]).T
    count = -(-SAMPLES_PER_BEAT * score.end_ticks // score.ticks_per_beat)
    at = (2 * np.arange(count) + 1) * score.ticks_per_beat // (2 * SAMPLES_PER_BEAT)
    return index[np.searchsorted(onset, at, side="right") - 1]


def sounding(score: Score, samples: int) -> np.ndarray:
    """Return the share of each half beat in which each pitch class sounds: (samples, 12)."""
    notes, steps = score.pitched, samples * STEPS_PER_SAMPLE
    step = score.ticks_per_beat / (SAMPLES_PER_BEAT * STEPS_PER_SAMPLE)
    change = np.zeros((steps + 1, PITCH_CLASSES), dtype=np.int64)
    for ticks, sign in ((notes.onset_ticks, 1), (notes.end_ticks, -1)):
        at = np.minimum(np.rint(ticks / step).astype(np.int64), steps)
        np.add.at(change, (at, notes.pitch % PITCH_CLASSES), sign)
    return (change.cumsum(0)[:-1] > 0).reshape(samples, STEPS_PER_SAMPLE, -1).mean(1)


def explained(chords: np.ndarray, sounds: np.ndarray) -> float | None:
    """Return the share of what sounds that are tones of the chords, where there are some."""
    known = chords != NONE
    total = float(sounds[known].sum())
    return float((sounds * TONES[chords])[known].sum()) / total if total else None


def measured(score: Score) -> dict[str, float | None]:
    """Return the measures of a score; None where nothing is to be judged."""
    held = sustained(score)
    heard, written = recognise(held), named(score)
    found, true = sampled(heard, score), sampled(written, score)
    sounds, bars = sounding(held, len(true)), bar_count(score)
    before = round(len(true) / bars)
    cuts = np.flatnonzero(np.diff(true, prepend=-1))
    can_be_heard = np.zeros(len(true), dtype=bool)
    for start, end in zip(cuts, [*cuts[1:], len(true)], strict=True):
        if true[start] != NONE:
            root, kind = divmod(true[start], len(QUALITIES))
            tone = (root + SEVENTH[kind]) % PITCH_CLASSES
            can_be_heard[start:end] = sounds[start:end, tone].mean() >= LEAST
    whole = {
        "changes": (len(heard) - 1) / bars,
        "explained": explained(found, sounds),
        "bar before": explained(found[:-before], sounds[before:]),
    }
    if not written:
        return {**dict.fromkeys(MEASURES), **whole}
    judged = true != NONE
    by_written = explained(true, sounds)
    found, true, can_be_heard = found[judged], true[judged], can_be_heard[judged]
    roots = [chords // len(QUALITIES) for chords in (found, true)]
    kinds = [chords % len(QUALITIES) for chords in (found, true)]
    root = roots[0] == roots[1]
    seventh, heard_sevenths = SEVENTHS[kinds[1]], SEVENTHS[kinds[0]] & (found != NONE)
    shares = {
        "root": root,
        "third": root & (THIRDS[kinds[0]] == THIRDS[kinds[1]]),
        "seventh": (found == true)[seventh],
        "precision": (found == true)[heard_sevenths],
        "ceiling": can_be_heard[seventh],
        "extra": heard_sevenths[~seventh],
    }
    return {
        **{name: float(share.mean()) if len(share) else None for name, share in shares.items()},
        **whole,
        "written": (len(written) - 1) / bars,
        "by written": by_written,
    }


def scores(folder: Path, split: str, every: int) -> Iterator[tuple[str, Score]]:
    """Return the name and score of each piece of a folder, or of one of so many files."""
    songs = sorted(file.parent for file in folder.rglob(CHORDS_FILE))
    names = [song.name for song in songs]
    splits = split_works(names, [()] * len(names), HELD_OUT, by_name=True)
    for song, own in zip(songs, splits, strict=True):
        if own == split:
            yield song.name, read_song(song)
    if songs:
        return
    files = [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in ENDINGS]
    for file in files[::every]:
        yield file.name, read_file(file)


def main() -> None:
    given = options(__doc__, "folders", split="validation", each=0, every=1)
    rows: list[tuple[str, ...]] = [("pieces", *MEASURES)]
    for folder in given.folders:
        results = [
            (name, measured(score)) for name, score in scores(folder, given.split, given.every)
        ]
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
