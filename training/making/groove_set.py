"""A groove set, made: styles of MMA over chord charts, two files a style, whole library files held out.

Everything is a function of the seed, the charts and MMA's styles, down to the bytes. Tracks are named as the sources of
`musicgen data groove` look for them: Bass, Drums, and the rest by MMA's names.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tokenization.midi.writing import write_midi
from tokenization.score import Score, Track
from tokenization.whole_file import make_folder, write_bytes, write_text
from training.data.sources.splits import split_by_name
from training.disk import full_disk_named
from training.making.charts import Chart, charts_of
from training.making.mma import Style, accompaniment, installed, styles

BARS = 40
FILES = 2  # a style
MOST_STYLES = 6  # of a library file
FEWEST_TRACKS, FEWEST_NOTES = 3, 120
SHARES = {"val": 0.07, "test": 0.12}  # of the library files
BASS_PROGRAMS = range(32, 40)


@dataclass(frozen=True, kw_only=True)
class Order:
    """One file to be made."""

    style: Style
    chart: Chart
    split: str
    seed: int

    @property
    def path(self) -> str:
        """Below the set's folder."""
        return f"{self.split}/{self.chart.name}.{self.style.name}.mid"


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a set came to."""

    files: dict[str, int]  # by split
    left_out: int  # styles whose files were no grooves of bass, drums and more
    checksum: str  # of all files


def make_groove_set(
    folder: Path,
    chords: Path | None,
    *,
    seed: int,
    most: int | None,
    workers: int,
    progress: Callable[[int, int], None],
) -> Made:
    """Write a set into a folder that is not there, or empty."""
    program, library = installed()
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; name a folder that does not exist")
    charts, about = charts_of(chords, seed)
    chosen = _chosen(styles(library, MOST_STYLES), seed, most)
    orders = [order for style in chosen for order in _orders(style, charts, seed)]
    kept: dict[str, bytes] = {}
    rows, left_out = [], 0
    found = []
    with ThreadPoolExecutor(max(1, workers)) as pool:  # each waits for a process of its own
        for number, data in enumerate(pool.map(partial(_made, program), orders), 1):
            found.append(data)
            progress(number, len(orders))
    for first in range(0, len(orders), FILES):
        pair = list(zip(orders[first : first + FILES], found[first : first + FILES], strict=True))
        data = [midi for _, midi in pair if midi is not None]
        # Names without dots and capitals may fall together, as those of grooves A.B and ab do.
        taken = any(order.path in kept or midi in kept.values() for order, midi in pair)
        if len(data) < FILES or taken:
            left_out += 1
            continue
        for order, midi in pair:
            assert midi is not None
            kept[order.path] = midi
            rows.append(
                f"{order.path}\t{order.style.library}.mma\t{order.style.groove}\t{order.seed}"
            )
    if not kept:
        raise ValueError(
            f"none of {len(chosen)} styles made a groove of bass, drums and another track"
        )
    table = "\n".join(["file\tlibrary file\tgroove\tseed", *sorted(rows)]) + "\n"
    with full_disk_named(folder, "name another one"), _whole(folder) as part:
        for path, midi in kept.items():
            write_bytes(part / path, midi)
        write_text(part / "styles.tsv", table)
        write_text(part / "README.md", _readme(about, seed, kept, left_out))
    return Made(files=_counted(kept), left_out=left_out, checksum=_checksum(kept))


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """Give a hidden folder to fill, whose content goes into `folder` if nothing goes wrong."""
    make_folder(folder, "name another one")
    with TemporaryDirectory(dir=folder, prefix=".", suffix=".part") as part:
        yield Path(part)
        if any(not entry.name.startswith(".") for entry in folder.iterdir()):  # since the start
            raise ValueError(f"{folder} is not empty any more; name a folder that does not exist")
        for entry in Path(part).iterdir():
            os.replace(entry, folder / entry.name)


def _chosen(found: list[Style], seed: int, most: int | None) -> list[Style]:
    """Return the styles in the order of a draw, so that fewer are some of more."""
    order = np.random.default_rng([seed, 1]).permutation(len(found))
    return [found[i] for i in order[:most]]


def _orders(style: Style, charts: list[Chart], seed: int) -> list[Order]:
    """Return the files of a style: a function of the seed and its name alone, whatever others there are."""
    number = int.from_bytes(hashlib.sha256(style.name.encode()).digest()[:8], "big")
    random = np.random.default_rng([seed, 2, number])
    drawn = random.choice(len(charts), FILES, replace=False)
    split = _split(style.library, seed)
    seeds = random.integers(1, 2**31, FILES)
    return [
        Order(style=style, chart=charts[i], split=split, seed=int(own))
        for i, own in zip(drawn, seeds, strict=True)
    ]


def _split(library: str, seed: int) -> str:
    """Return where the styles of a library file go: all into one split, lest what is held out have a sibling."""
    split = split_by_name(f"{seed}/{library}", validation=SHARES["val"], test=SHARES["test"])
    return "val" if split == "validation" else split


def _made(program: Path, order: Order) -> bytes | None:
    """Return a file's bytes, or None of what is no groove."""
    score = accompaniment(program, order.style, order.chart.bars(BARS), order.seed)
    if score is None or (arranged := named_tracks(score)) is None:
        return None
    return write_midi(arranged)


def named_tracks(score: Score) -> Score | None:
    """Return a score with one track of drums, one bass, and others; None where one of them is missing."""
    names = []
    for track in score.tracks:
        bass = track.name.lower().startswith(("bass", "walk")) and track.program in BASS_PROGRAMS
        names.append("Drums" if track.is_drum else "Bass" if bass else track.name or "Other")
    if "Bass" not in names or "Drums" not in names:
        return None
    order = ["Bass", "Drums", *sorted(set(names) - {"Bass", "Drums"})]
    first = {name: names.index(name) for name in order}
    target = np.array([order.index(name) for name in names], dtype=np.int64)
    notes = score.notes.replace(track=target[score.notes.track]).sorted()
    tracks = tuple(
        Track(name=name, program=score.tracks[first[name]].program, is_drum=name == "Drums")
        for name in order
    )
    played = set(np.unique(notes.track).tolist())
    if len(played) < FEWEST_TRACKS or not {0, 1} <= played or len(notes) < FEWEST_NOTES:
        return None
    return Score(
        ticks_per_beat=score.ticks_per_beat, notes=notes, tracks=tracks,
        tempos=score.tempos, meters=score.meters,
    )  # fmt: skip


def _counted(kept: dict[str, bytes]) -> dict[str, int]:
    splits = [path.partition("/")[0] for path in kept]
    return {split: splits.count(split) for split in ("train", *SHARES)}


def _checksum(kept: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(kept):
        digest.update(path.encode() + b"\0" + kept[path])
    return digest.hexdigest()


def _readme(about: str, seed: int, kept: dict[str, bytes], left_out: int) -> str:
    counts = ", ".join(f"{count} {split}" for split, count in _counted(kept).items())
    return f"""# Grooves made by MMA

Accompaniments of one style each, {FILES} files a style over different charts: {counts} files of {BARS} bars in 4/4.

- Made by `musicgen data make-groove` with seed {seed}: the same files, to the byte, from the same charts and the same
  version of MMA (Musical MIDI Accompaniment, GPL-2.0-or-later), whose styles they are.
- Chords: {about}.
- A library file's styles all lie in one of train, val and test. {left_out} styles are left out, which made no groove of
  bass, drums and another track, or one that another makes too.
- Checksum (SHA-256 of all paths and files): {_checksum(kept)}

`styles.tsv` names library file, groove and seed of each. `musicgen data groove` prepares them for training.
"""
