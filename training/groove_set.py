"""A groove set, made: styles of MMA over chord charts, two files a style, whole library files held out.

Everything is a function of the seed, the charts and MMA's styles, down to the bytes. Tracks are named as the sources of
`musicgen data groove` look for them: Bass, Drums, and the rest by MMA's names.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from musicgen.common.processes import full_disk_named
from tokenization.analysis.chords import NO_CHORD, ROOTS, parse
from tokenization.midi.reading import read_midi
from tokenization.midi.writing import write_midi
from tokenization.score import Score, Track
from tokenization.whole_file import make_folder, write_bytes, write_text
from training.data.sources.pop909 import BEATS_FILE, CHORDS_FILE, read_beats, read_chords
from training.data.sources.source import split_of

# Chord charts to accompany: of POP909's songs, of the McGill Billboard annotations, or progressions of our own.
#
# A chart is a chord of the vocabulary for each beat of 4/4 (tokenization/analysis/chords.py).

BEATS = 4  # a bar
FEWEST_BARS = 16
FEWEST_CHORDS = 3  # different ones: with fewer a bass has nothing to follow
BILLBOARD_FILE = "salami_chords.txt"
OWN_CHARTS = 200


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A song's chords, one a beat."""

    name: str
    beats: tuple[str, ...]  # of whole bars


def charts_of(folder: Path | None, seed: int) -> tuple[list[Chart], str]:
    """Return the charts of a folder, or some of our own, and what they are."""
    if folder is None:
        found = [own_chart(number, seed) for number in range(OWN_CHARTS)]
        return found, "progressions made here (training/groove_set.py), MIT"
    for name, about, read in (
        (CHORDS_FILE, "POP909 (Wang et al., ISMIR 2020; MIT)", _pop909),
        (
            BILLBOARD_FILE,
            "McGill Billboard annotations (Burgoyne et al., ISMIR 2011; CC0)",
            _billboard,
        ),
    ):
        files = sorted(folder.rglob(name))
        if files:
            charts = [chart for file in files if (chart := read(file)) is not None]
            fit = [
                chart for chart in charts
                if len(chart.beats) >= FEWEST_BARS * BEATS
                and len({*chart.beats} - {NO_CHORD}) >= FEWEST_CHORDS
            ]  # fmt: skip
            if len(fit) < 2:
                raise ValueError(
                    f"{folder} has {len(fit)} charts in 4/4 of {FEWEST_BARS} bars; two are needed"
                )
            return fit, about
    raise ValueError(
        f"{folder} holds neither {CHORDS_FILE} files (POP909, https://github.com/music-x-lab/POP909-Dataset) nor "
        f"{BILLBOARD_FILE} files (the McGill Billboard annotations, https://ddmal.ca/research); "
        "leave --chords out for progressions made here"
    )


def _pop909(file: Path) -> Chart | None:
    """Return a song's chords on its beats; None where it is not in fours."""
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


_BARS = re.compile(r"\|(.*)\|(?:\s*x(\d{1,3})(?!\d))?")  # more repeats would fill the memory


def _billboard(file: Path) -> Chart | None:
    """Return bars between bar lines, | A:min | C:maj D:min |, a chord for its share of one; None if not in fours."""
    beats: list[str] = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("# metre:") and line.split(":", 1)[1].strip() != "4/4":
            return None
        found = _BARS.search(line)
        if found is None or line.startswith("#"):
            continue
        once: list[str] = []
        for bar in found[1].split("|"):
            words = bar.split()
            if any(word.startswith("(") for word in words):  # a bar of another metre
                return None
            chords = _bar(words, (beats + once)[-1:] or [NO_CHORD])
            if chords is None:
                return None
            once += chords
        beats += once * int(found[2] or 1)
    return _chart(f"bb{file.parent.name}", beats, range(0, len(beats), BEATS))


def _bar(words: list[str], before: list[str]) -> list[str] | None:
    """Return a bar's chord a beat; `.` goes on with the one before. None where the beats are not given."""
    chords: list[str] = []
    for word in words:
        chord = (chords or before)[-1] if word == "." else parse(word)
        chords.append(NO_CHORD if chord is None else chord)
    if len(chords) not in (1, 2, BEATS):
        return None
    return [chord for chord in chords for _ in range(BEATS // len(chords))]


def _chart(name: str, beats: list[str], bars: Iterable[int]) -> Chart | None:
    """Return whole bars from the first one that has a chord; where none is named, the one before goes on."""
    first = next((bar for bar in bars if beats[bar] != NO_CHORD), None)
    if first is None:
        return None
    held: list[str] = []
    for chord in beats[first:]:
        held.append(held[-1] if chord == NO_CHORD else chord)
    return Chart(name=name, beats=tuple(held[: len(held) // BEATS * BEATS]))


# Bars of degrees in semitones above the key, with qualities: common turns of songs in major and minor.
_TURNS = (
    "0M 7M 9m 5M", "9m 5M 0M 7M", "0M 9m 5M 7M", "0M 5M 7M 5M", "2m7 7_7 0M7 0M7", "0M 4m 5M 7_7", "0M 9m 2m 7_7",
    "0m 8M 3M 10M", "0m 10M 8M 7_7", "0m 5m 8M 7M", "0m 3M 10M 5m", "4m7 9_7 2m7 7_7", "5M 5m 0M 0M", "0M 0_7 5M 5m",
    "0M 2M 5M 0M", "9m 2m 7M 0M", "0_7 5_7 0_7 7_7", "8M 10M 0m 0m", "0M 10M 5M 0M", "5M7 4m7 2m7 0M7",
)  # fmt: skip


def own_chart(number: int, seed: int) -> Chart:
    """Return a chart of four parts, A A B A, each a turn of four bars played twice, in a key of its own."""
    random = np.random.default_rng([seed, number, 909])
    key = int(random.integers(12))
    first, second = (_TURNS[i] for i in random.choice(len(_TURNS), 2, replace=False))
    beats: list[str] = []
    for turn in (first, first, second, first):
        for word in turn.split() * 2:
            degree, quality = re.findall(r"(\d+)_?(.*)", word)[0]
            beats += [f"{ROOTS[(key + int(degree)) % 12]}_{quality}"] * BEATS
    return Chart(name=f"own{number:03d}", beats=tuple(beats))


# Accompaniments by MMA, the Musical MIDI Accompaniment of Bob van der Poel: its styles, one of them over a chart.

PROGRAM = "mma"
LIBRARIES = (Path("/usr/share/mma/lib"), Path("/usr/local/share/mma/lib"))
SECONDS = 600  # that a file may take on a busy machine: the usual is a fifth of one
ROOM_BYTES = 1 << 20  # more than a file takes
TEMPO = 120
_QUALITIES = {
    "M": "", "m": "m", "o": "dim", "+": "aug", "7": "7", "M7": "M7", "m7": "m7", "o7": "dim7", "/o7": "m7b5",
    "sus2": "sus2", "sus4": "sus4",
}  # fmt: skip
_GROOVE = re.compile(r"^\s*DefGroove\s+(\S+)(.*)$", re.IGNORECASE | re.MULTILINE)
_TIME = re.compile(r"^\s*Time\s+(\d+)\s*$", re.IGNORECASE | re.MULTILINE)
# Not of one style from beginning to end.
_PASSING = re.compile(r"intro|end(ing)?\d*$|fill|break|count|tag|turn|1st|trad", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Style:
    """A groove of a library file."""

    file: Path
    library: str  # the file below the library, without its ending: stdlib/bossanova
    groove: str

    @property
    def name(self) -> str:
        """As files are named by it: LIBRARYFILE_GROOVE, without dots; stdlib goes unsaid."""
        library = self.library.removeprefix("stdlib/").replace("/", "-")
        return re.sub(r"[^a-z0-9_#+-]", "", f"{library}_{self.groove}".lower())


def installed() -> tuple[Path, Path]:
    """Return the program and the folder of its styles, or say how to get them."""
    program = shutil.which(PROGRAM)
    library = next((folder for folder in LIBRARIES if folder.is_dir()), None)
    if program is None or library is None:
        raise FileNotFoundError(
            "grooves are made by MMA, which is not installed here: `apt-get install mma` on Debian and Ubuntu, or "
            "https://www.mellowood.ca/mma; a set that exists is read by `musicgen data groove`"
        )
    return Path(program), library


def styles(library: Path, most: int) -> list[Style]:
    """Return the styles in 4/4 of a library, sorted, at most so many of a file."""
    found = []
    for file in sorted(library.rglob("*.mma")):
        text = file.read_text(encoding="latin-1")
        times = {int(time) for time in _TIME.findall(text)}
        if times - {4}:
            continue
        named = dict.fromkeys(
            groove
            for groove, rest in _GROOVE.findall(text)
            if not _PASSING.search(groove) and "3/4" not in rest
        )
        own = file.relative_to(library).with_suffix("").as_posix()
        found += [Style(file=file, library=own, groove=groove) for groove in list(named)[:most]]
    return found


def accompaniment(program: Path, style: Style, chart: Chart, seed: int) -> Score | None:
    """Return a style over a chart, again and again, the same for a seed; None where MMA makes nothing of it."""
    # By a name of its own, since MMA takes no path with a space or a letter that is not ASCII.
    used = "musicgen-style.mma"
    lines = [f"RndSeed {seed}", f"Tempo {TEMPO}", f"Use {used}", f"Groove {style.groove}"]
    for bar in range(BARS):
        first = bar * BEATS % len(chart.beats)
        lines.append(f"{bar + 1} {_bar_text(chart.beats[first : first + BEATS])}")
    with (
        tempfile.TemporaryDirectory(prefix="musicgen-") as folder,
        full_disk_named(Path(folder), "point TMPDIR to another disk"),
    ):
        source, made = Path(folder) / "in.mma", Path(folder) / "out.mid"
        (Path(folder) / used).symlink_to(style.file.resolve())
        source.write_text("\n".join(lines) + "\n", encoding="ascii")
        try:
            ended = subprocess.run(
                [program, "-f", made, source],
                cwd=folder,
                env={"HOME": folder, "PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:  # to leave it out would make the set one of this machine
            raise ValueError(
                f"{program} took more than {SECONDS} s for {style.groove} of {style.file}; leave that file out of "
                "its library, or try on a machine with less to do"
            ) from None
        if ended.returncode != 0:  # as where there is no room, which is no fault of the style
            made.write_bytes(bytes(ROOM_BYTES))
            return None
        return read_midi(made) if made.is_file() else None


def _bar_text(chords: Sequence[str]) -> str:
    """Return a bar as MMA writes it: a chord a beat, `/` where it stays, `z` for none."""
    words, last = [], ""
    for chord in chords:
        root, _, quality = chord.partition("_")
        spelled = "z" if root == "N" else root + _QUALITIES[quality]
        words.append("/" if chord == last else spelled)
        last = chord
    return " ".join(words)


BARS = 40
FILES = 2  # a style
MOST_STYLES = 6  # of a library file
FEWEST_TRACKS, FEWEST_NOTES = 3, 120
SHARES = {"val": 0.07, "test": 0.12}  # of the library files
BASS_PROGRAMS = range(32, 40)


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
    found = styles(library, MOST_STYLES)
    # Drawn in an order, so that fewer are some of more.
    chosen = [found[i] for i in np.random.default_rng([seed, 1]).permutation(len(found))[:most]]
    kept: dict[str, bytes] = {}
    rows, left_out = [], 0
    with ThreadPoolExecutor(max(1, workers)) as pool:  # each waits for a process of its own
        made = pool.map(partial(_made, program, charts, seed), chosen)
        for number, (style, files) in enumerate(zip(chosen, made, strict=True), 1):
            progress(number, len(chosen))
            # Names without dots and capitals may fall together, as those of grooves A.B and ab do.
            taken = any(path in kept or midi in kept.values() for path, _, midi in files)
            if len(files) < FILES or taken:
                left_out += 1
                continue
            for path, own, midi in files:
                kept[path] = midi
                rows.append(f"{path}\t{style.library}.mma\t{style.groove}\t{own}")
    if not kept:
        raise ValueError(
            f"none of {len(chosen)} styles made a groove of bass, drums and another track"
        )
    splits = [path.partition("/")[0] for path in kept]
    counts = {split: splits.count(split) for split in ("train", *SHARES)}
    result = Made(files=counts, left_out=left_out, checksum=_checksum(kept))
    table = "\n".join(["file\tlibrary file\tgroove\tseed", *sorted(rows)]) + "\n"
    with full_disk_named(folder, "name another one"), _whole(folder) as part:
        for path, midi in kept.items():
            write_bytes(part / path, midi)
        write_text(part / "styles.tsv", table)
        write_text(part / "README.md", _readme(about, seed, result))
    return result


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


def _made(
    program: Path, charts: list[Chart], seed: int, style: Style
) -> list[tuple[str, int, bytes]]:
    """Return path, seed and bytes of a style's files, a function of the seed and its name; fewer if it is no groove."""
    number = int.from_bytes(hashlib.sha256(style.name.encode()).digest()[:8], "big")
    random = np.random.default_rng([seed, 2, number])
    drawn = random.choice(len(charts), FILES, replace=False).tolist()
    seeds = random.integers(1, 2**31, FILES).tolist()
    # All of a library file, lest what is held out have a sibling.
    split = split_of(f"{seed}/{style.library}", SHARES)
    files = []
    for chart, own in zip([charts[i] for i in drawn], seeds, strict=True):
        score = accompaniment(program, style, chart, own)
        arranged = None if score is None else named_tracks(score)
        if arranged is not None:
            files.append((f"{split}/{chart.name}.{style.name}.mid", own, write_midi(arranged)))
    return files


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


def _checksum(kept: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(kept):
        digest.update(path.encode() + b"\0" + kept[path])
    return digest.hexdigest()


def _readme(about: str, seed: int, made: Made) -> str:
    left_out, counts = made.left_out, ", ".join(f"{n} {split}" for split, n in made.files.items())
    return f"""# Grooves made by MMA

Accompaniments of one style each, {FILES} files a style over different charts: {counts} files of {BARS} bars in 4/4.

- Made by `musicgen data make-groove` with seed {seed}: the same files, to the byte, from the same charts and the same
  version of MMA (Musical MIDI Accompaniment, GPL-2.0-or-later), whose styles they are.
- Chords: {about}.
- A library file's styles all lie in one of train, val and test. {left_out} styles are left out, which made no groove of
  bass, drums and another track, or one that another makes too.
- Checksum (SHA-256 of all paths and files): {made.checksum}

`styles.tsv` names library file, groove and seed of each. `musicgen data groove` prepares them for training.
"""
