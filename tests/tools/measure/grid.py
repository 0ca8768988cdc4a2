"""Hold the ensemble language to its grid, note for note: python -m tests.tools.measure.grid SOURCE FOLDER.

Every row of every piece is spelled and read back. What should come back is reckoned here note by note, in plain Python:
the nearest step, the note value of the nearest ratio, or the longest that fits before the key is struck again.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from functools import lru_cache, partial
from math import floor, log
from pathlib import Path

from app import output
from musicgen.common.workers import in_order
from tokenization.ensemble.tokens import FLAT_VELOCITY, HIGHEST_DRUM, LENGTHS, LOWEST_DRUM
from tokenization.language import language
from tokenization.score import Score
from training.data.sources import SOURCES
from training.data.sources.source import Piece, list_files

Note = tuple[int, int, int, int, int]  # track, pitch, step, length, level
STEPS = 24
VALUES = [int(length) for length in LENGTHS]
Key = tuple[int, int]


@lru_cache(maxsize=1 << 16)
def nearest(steps: int) -> int:
    """Return the note value whose ratio to a length is nearest to 1, the longer of two."""
    return min(VALUES, key=lambda value: (round(abs(log(value / steps)), 9), -value))


def expected(score: Score) -> set[Note]:
    """Return the notes that the grid keeps of an arranged score."""
    flat = all(velocity == FLAT_VELOCITY for velocity in score.notes.velocity.tolist())
    keys: defaultdict[Key, dict[int, list[tuple[int, int]]]] = defaultdict(dict)
    columns = (column.tolist() for column in score.notes.columns)
    for onset, duration, pitch, velocity, track in zip(*columns, strict=True):
        if score.tracks[track].is_drum and not LOWEST_DRUM <= pitch <= HIGHEST_DRUM:
            continue
        step, steps = (
            floor(ticks * STEPS / score.ticks_per_beat + 0.5) for ticks in (onset, duration)
        )
        keys[track, pitch].setdefault(step, []).append((max(1, steps), velocity))
    notes = set()
    for (track, pitch), struck in keys.items():
        at = sorted(struck)
        for step, following in zip(at, [*at[1:], None], strict=True):
            length = nearest(max(steps for steps, _ in struck[step]))
            if following is not None and length > following - step:
                length = max(value for value in VALUES if value <= following - step)
            level = 0 if flat else max(velocity for _, velocity in struck[step]) // 8
            is_drum = score.tracks[track].is_drum
            notes.add((track, pitch, step, 0 if is_drum else length, level))
    return notes


def read_back(score: Score) -> set[Note]:
    """Return the notes of an arranged score after spelling and reading it."""
    speaker = language("ensemble")
    spelled = speaker.encode(score)
    read = speaker.decode(spelled.ids, spelled.setting)
    flat = all(velocity == FLAT_VELOCITY for velocity in read.notes.velocity.tolist())
    columns = (column.tolist() for column in read.notes.columns)
    return {
        (
            track,
            pitch,
            onset,
            0 if read.tracks[track].is_drum else duration,
            0 if flat else velocity // 8,
        )
        for onset, duration, pitch, velocity, track in zip(*columns, strict=True)
    }


def compared(source: str, piece: Piece) -> tuple[int, int, int]:
    """Return how many rows a piece has, their notes, and how many notes differ."""
    try:
        rows = SOURCES[source].scores(piece, language("ensemble"))
    except ValueError:
        return 0, 0, 0  # it is in no set
    pairs = [(expected(row), read_back(row)) for row in rows]
    return len(rows), sum(len(one) for one, _ in pairs), sum(len(a ^ b) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", metavar="SOURCE", choices=[*SOURCES])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each Nth piece")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    arguments = parser.parse_args()
    source = arguments.source
    pieces = SOURCES[source].find(list_files(arguments.folder), 0.05).pieces[:: arguments.every]
    totals = [0, 0, 0]
    for answer in in_order(
        partial(compared, source),
        pieces,
        workers=arguments.workers,
        limit_seconds=300,
        memory_bytes=2 << 30,
    ):
        if not isinstance(answer, tuple):
            raise SystemExit(f"a piece of {source} could not be compared: {answer.reason}")
        totals = [total + count for total, count in zip(totals, answer, strict=True)]
    rows, notes, differ = totals
    output.write(f"{source}: {len(pieces)} pieces, {rows} rows, {notes:,} notes, {differ} differ")


if __name__ == "__main__":
    main()
