"""Chord charts to accompany: of POP909's songs, of the McGill Billboard annotations, or progressions of our own.

A chart is a chord of the vocabulary for each beat of 4/4 (tokenization/analysis/chord_names.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenization.analysis.chord_names import NO_CHORD, ROOTS, parse
from training.data.sources.annotated_song import BEATS_FILE, CHORDS_FILE, read_beats, read_chords

BEATS = 4  # a bar
FEWEST_BARS = 16
FEWEST_CHORDS = 3  # different ones: with fewer a bass has nothing to follow
BILLBOARD_FILE = "salami_chords.txt"
OWN_CHARTS = 200


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A song's chords, one a beat."""

    name: str
    beats: tuple[str, ...]

    def bars(self, count: int) -> list[tuple[str, ...]]:
        """Return so many bars, from the beginning again where the chart is shorter."""
        whole = len(self.beats) // BEATS
        return [self.beats[bar % whole * BEATS : (bar % whole + 1) * BEATS] for bar in range(count)]


def charts_of(folder: Path | None, seed: int) -> tuple[list[Chart], str]:
    """Return the charts of a folder, or some of our own, and what they are."""
    if folder is None:
        found = [own_chart(number, seed) for number in range(OWN_CHARTS)]
        return found, "progressions made here (training/making/charts.py), MIT"
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
            found = [chart for file in files if (chart := read(file)) is not None]
            fit = [chart for chart in found if _fits(chart)]
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


def _fits(chart: Chart) -> bool:
    sounding = {chord for chord in chart.beats if chord != NO_CHORD}
    return len(chart.beats) >= FEWEST_BARS * BEATS and len(sounding) >= FEWEST_CHORDS


def _pop909(file: Path) -> Chart | None:
    """Return a song's chords on its beats, from the first bar that has one; None where it is not in fours."""
    seconds, downbeats = read_beats(file.parent / BEATS_FILE)
    bars = np.flatnonzero(downbeats)
    chords = read_chords(file)
    if len(bars) < 2 or np.bincount(np.diff(bars)).argmax() != BEATS or not chords:
        return None
    starts = np.array([start for start, _ in chords])
    middle = seconds + np.append(np.diff(seconds), np.diff(seconds)[-1:]) / 2
    at = np.searchsorted(starts, middle, side="right") - 1
    beats = [NO_CHORD if index < 0 else chords[index][1] for index in at]
    first = next((int(bar) for bar in bars if beats[bar] != NO_CHORD), None)
    if first is None:
        return None
    return Chart(name=f"pop{file.parent.name}", beats=_held(beats[first:]))


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
    first = next((i for i in range(0, len(beats), BEATS) if beats[i] != NO_CHORD), None)
    if first is None:
        return None
    return Chart(name=f"bb{file.parent.name}", beats=_held(beats[first:]))


def _bar(words: list[str], before: list[str]) -> list[str] | None:
    """Return a bar's chord a beat; `.` goes on with the one before. None where the beats are not given."""
    chords: list[str] = []
    for word in words:
        chord = (chords or before)[-1] if word == "." else parse(word)
        chords.append(NO_CHORD if chord is None else chord)
    if len(chords) not in (1, 2, BEATS):
        return None
    return [chord for chord in chords for _ in range(BEATS // len(chords))]


def _held(beats: list[str]) -> tuple[str, ...]:
    """Return whole bars, where no chord is named with the one before, as an accompaniment goes on."""
    held: list[str] = []
    for chord in beats[: len(beats) // BEATS * BEATS]:
        held.append(held[-1] if chord == NO_CHORD and held else chord)
    return tuple(held)


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
            beats += [_named(word, key)] * BEATS
    return Chart(name=f"own{number:03d}", beats=tuple(beats))


def _named(word: str, key: int) -> str:
    found = re.match(r"(\d+)_?(.*)", word)
    assert found, "a turn's words are degrees with qualities"
    return f"{ROOTS[(key + int(found[1])) % 12]}_{found[2]}"
