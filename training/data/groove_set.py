"""Generate a groove set: accompaniments in MMA's styles over chord charts, two files per style.

The bytes of all files are a function of the seed, the charts and MMA's styles. All styles of a library file are in the
same split. Tracks are named as `musicgen data groove` expects: Bass, Drums, and MMA's names for the rest.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tokenization.analysis.chords import NO_CHORD, ROOTS
from tokenization.analysis.parts import role
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Score, Track
from tokenization.whole_file import full_disk_named, make_folder, write_bytes
from training.data.sources.pop909 import BEATS_FILE, CHORDS_FILE, read_beats, read_chords
from training.data.sources.source import split_of

BEATS = 4  # per bar
FEWEST_BARS = 16
FEWEST_CHORDS = 3  # distinct; with fewer the bass hardly moves
GENERATED_CHARTS = 200


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The chords of a song in 4/4, in whole bars."""

    name: str
    beats: tuple[str, ...]  # a chord for each beat (tokenization/analysis/chords.py)


def charts_of(folder: Path | None, seed: int) -> list[Chart]:
    """Return the charts in a folder of POP909, or generated ones."""
    if folder is None:
        return [generated_chart(number, seed) for number in range(GENERATED_CHARTS)]
    charts = [chart for file in sorted(folder.rglob(CHORDS_FILE)) if (chart := _pop909(file))]
    fit = [
        chart for chart in charts
        if len(chart.beats) >= FEWEST_BARS * BEATS
        and len({*chart.beats} - {NO_CHORD}) >= FEWEST_CHORDS
    ]  # fmt: skip
    if len(fit) < 2:
        raise ValueError(
            f"{folder} has {len(fit)} charts of POP909 ({CHORDS_FILE}) in 4/4 of {FEWEST_BARS} bars or more; two are "
            "needed; omit --chords to generate progressions"
        )
    return fit


def _pop909(file: Path) -> Chart | None:
    """Return the chart of a song; None if it is not in 4/4."""
    seconds, downbeats = read_beats(file.parent / BEATS_FILE)
    bars = np.flatnonzero(downbeats)
    chords = read_chords(file)
    if len(bars) < 2 or np.bincount(np.diff(bars)).argmax() != BEATS or not chords:
        return None
    starts = np.array([start for start, _ in chords])
    middle = seconds + np.append(np.diff(seconds), np.diff(seconds)[-1:]) / 2
    at = np.searchsorted(starts, middle, side="right") - 1
    beats = [NO_CHORD if index < 0 else chords[index][1] for index in at]
    return _chart(f"pop{file.parent.name}", beats, bars)


def _chart(name: str, beats: list[str], bars: Iterable[int]) -> Chart | None:
    """Return the whole bars from the first chord at a downbeat on; beats without a chord keep the last one."""
    first = next((bar for bar in bars if beats[bar] != NO_CHORD), None)
    if first is None:
        return None
    filled: list[str] = []
    for chord in beats[first:]:
        filled.append(filled[-1] if chord == NO_CHORD else chord)
    return Chart(name=name, beats=tuple(filled[: len(filled) // BEATS * BEATS]))


# Common progressions in major and minor, a chord per bar: semitones above the key, and quality.
_PROGRESSIONS = (
    "0M 7M 9m 5M", "9m 5M 0M 7M", "0M 9m 5M 7M", "0M 5M 7M 5M", "2m7 7_7 0M7 0M7", "0M 4m 5M 7_7", "0M 9m 2m 7_7",
    "0m 8M 3M 10M", "0m 10M 8M 7_7", "0m 5m 8M 7M", "0m 3M 10M 5m", "4m7 9_7 2m7 7_7", "5M 5m 0M 0M", "0M 0_7 5M 5m",
    "0M 2M 5M 0M", "9m 2m 7M 0M", "0_7 5_7 0_7 7_7", "8M 10M 0m 0m", "0M 10M 5M 0M", "5M7 4m7 2m7 0M7",
)  # fmt: skip


def generated_chart(number: int, seed: int) -> Chart:
    """Return a chart of the form A A B A in a random key; each section is a progression played twice."""
    random = np.random.default_rng([seed, number, 909])
    key = int(random.integers(12))
    a, b = (_PROGRESSIONS[i] for i in random.choice(len(_PROGRESSIONS), 2, replace=False))
    beats: list[str] = []
    for progression in (a, a, b, a):
        for word in progression.split() * 2:
            degree, quality = re.findall(r"(\d+)_?(.*)", word)[0]
            beats += [f"{ROOTS[(key + int(degree)) % 12]}_{quality}"] * BEATS
    return Chart(name=f"own{number:03d}", beats=tuple(beats))


# Accompaniments by MMA, the Musical MIDI Accompaniment of Bob van der Poel.

PROGRAM = "mma"
LIBRARIES = (Path("/usr/share/mma/lib"), Path("/usr/local/share/mma/lib"))
SECONDS = 600  # limit per file, for a busy machine; a fifth of a second is usual
TEMPO = 120
_QUALITIES = {
    "M": "", "m": "m", "o": "dim", "+": "aug", "7": "7", "M7": "M7", "m7": "m7", "o7": "dim7", "/o7": "m7b5",
    "sus2": "sus2", "sus4": "sus4",
}  # fmt: skip
_GROOVE = re.compile(r"^\s*DefGroove\s+(\S+)(.*)$", re.IGNORECASE | re.MULTILINE)
_TIME = re.compile(r"^\s*Time\s+(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
# Grooves that do not last for a whole piece.
_TRANSIENT = re.compile(r"intro|end(ing)?\d*$|fill|break|count|tag|turn|1st|trad", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Style:
    """A groove of a library file."""

    file: Path
    library: str  # the file's path in the library, without extension: stdlib/bossanova
    groove: str

    @property
    def name(self) -> str:
        """The name for files: LIBRARYFILE_GROOVE, without dots and without stdlib."""
        library = self.library.removeprefix("stdlib/").replace("/", "-")
        return re.sub(r"[^a-z0-9_#+-]", "", f"{library}_{self.groove}".lower())


def installed() -> tuple[Path, Path]:
    """Return the paths of MMA and its library; raises FileNotFoundError with advice if they are missing."""
    program = shutil.which(PROGRAM)
    library = next((folder for folder in LIBRARIES if folder.is_dir()), None)
    if program is None or library is None:
        raise FileNotFoundError(
            "this needs MMA, which is not installed: `apt-get install mma` on Debian and Ubuntu, or "
            "https://www.mellowood.ca/mma; to read an existing set, use `musicgen data groove`"
        )
    return Path(program), library


def styles(library: Path, most: int) -> list[Style]:
    """Return the styles in 4/4 of a library in sorted order, at most `most` per file."""
    found = []
    for file in sorted(library.rglob("*.mma")):
        text = file.read_text(encoding="latin-1")
        times = {int(time) for time in _TIME.findall(text)}
        if times - {4}:
            continue
        named = dict.fromkeys(
            groove
            for groove, rest in _GROOVE.findall(text)
            if not _TRANSIENT.search(groove) and "3/4" not in rest
        )
        own = file.relative_to(library).with_suffix("").as_posix()
        found += [Style(file=file, library=own, groove=groove) for groove in list(named)[:most]]
    return found


def accompaniment(program: Path, style: Style, chart: Chart, seed: int) -> Score | None:
    """Return a style over a repeated chart, as a function of the seed; None if MMA fails."""
    # Linked under a plain name, since MMA does not accept paths with spaces or non-ASCII letters.
    used = "musicgen-style.mma"
    lines = [f"RndSeed {seed}", f"Tempo {TEMPO}", f"Use {used}", f"Groove {style.groove}"]
    for bar in range(BARS):
        first = bar * BEATS % len(chart.beats)
        lines.append(f"{bar + 1} {_bar_text(chart.beats[first : first + BEATS])}")
    with TemporaryDirectory(prefix="musicgen-") as folder:
        source, target = Path(folder) / "in.mma", Path(folder) / "out.mid"
        (Path(folder) / used).symlink_to(style.file.resolve())
        source.write_text("\n".join(lines) + "\n", encoding="ascii")
        try:
            ended = subprocess.run(
                [program, "-f", target, source],
                cwd=folder,
                env={"HOME": folder, "PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:  # skipping it would make the set depend on the machine
            raise ValueError(
                f"{program} took more than {SECONDS} s for {style.groove} of {style.file}; remove that file from "
                "its library, or use a less busy machine"
            ) from None
        return read_midi(target) if ended.returncode == 0 and target.is_file() else None


def _bar_text(chords: Sequence[str]) -> str:
    """Return a bar in MMA's notation: one chord per beat, `/` for the same one, `z` for none."""
    words, last = [], ""
    for chord in chords:
        root, _, quality = chord.partition("_")
        spelled = "z" if root == "N" else root + _QUALITIES[quality]
        words.append("/" if chord == last else spelled)
        last = chord
    return " ".join(words)


BARS = 40
FILES = 2  # per style
MOST_STYLES = 6  # per library file
FEWEST_TRACKS, FEWEST_NOTES = 3, 120
HELD_OUT = {"val": 0.07, "test": 0.12}  # fractions of the library files


@dataclass(frozen=True, kw_only=True)
class Made:
    """A summary of a generated set."""

    files: dict[str, int]  # by split
    left_out: int  # styles


def make_groove_set(
    folder: Path,
    chords: Path | None,
    *,
    seed: int,
    workers: int,
    progress: Callable[[int, int], None],
) -> Made:
    """Generate a set in a new or empty folder."""
    program, library = installed()
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; choose a folder that does not exist")
    charts = charts_of(chords, seed)
    found = styles(library, MOST_STYLES)
    chosen = [found[i] for i in np.random.default_rng([seed, 1]).permutation(len(found))]
    kept: dict[str, bytes] = {}
    left_out = 0
    with ThreadPoolExecutor(max(1, workers)) as pool:  # each thread waits for an MMA process
        made = pool.map(partial(_files_of, program, charts, seed), chosen)
        for number, files in enumerate(made, 1):
            progress(number, len(chosen))
            # Names can coincide without dots and capitals, such as those of grooves A.B and ab.
            is_taken = any(path in kept or midi in kept.values() for path, midi in files)
            if len(files) < FILES or is_taken:
                left_out += 1
                continue
            kept.update(files)
    if not kept:
        raise ValueError(
            f"none of {len(chosen)} styles gave a groove of bass, drums and another track"
        )
    splits = [path.partition("/")[0] for path in kept]
    counts = {split: splits.count(split) for split in ("train", *HELD_OUT)}
    with full_disk_named(folder, "choose another folder"):
        make_folder(folder, "choose another folder")
        for path, midi in kept.items():
            write_bytes(folder / path, midi)
    return Made(files=counts, left_out=left_out)


def _files_of(
    program: Path, charts: list[Chart], seed: int, style: Style
) -> list[tuple[str, bytes]]:
    """Return the path and bytes of a style's files, as a function of seed and name; fewer if some fail."""
    number = int.from_bytes(hashlib.sha256(style.name.encode()).digest()[:8], "big")
    random = np.random.default_rng([seed, 2, number])
    drawn = random.choice(len(charts), FILES, replace=False).tolist()
    seeds = random.integers(1, 2**31, FILES).tolist()
    # By library file, since its styles resemble each other.
    split = split_of(f"{seed}/{style.library}", HELD_OUT)
    files = []
    for chart, own in zip([charts[i] for i in drawn], seeds, strict=True):
        score = accompaniment(program, style, chart, own)
        arranged = None if score is None else named_tracks(score)
        if arranged is not None:
            files.append((f"{split}/{chart.name}.{style.name}.mid", write_midi(arranged)))
    return files


def named_tracks(score: Score) -> Score | None:
    """Return a score with the tracks Bass, Drums and others by name; None if one of them is missing or hardly plays."""
    names = []
    for track in score.tracks:
        bass = track.name.lower().startswith(("bass", "walk")) and role(track) == "bass"
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
