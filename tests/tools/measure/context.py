"""Chord tones of parts written by a bridge and by the page: python -m tests.tools.measure.context --takes 3.

A part is written for bars 5 to 8 of six own files: by REAPER's script in its stand-in, and by the page's request for a
part of the whole piece, whose same bars are counted. The chords are those heard in the given parts. The control is the
part of the bridge, a semitone higher.
"""

from __future__ import annotations

import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np

from app import output
from app.commands.bridge import script
from musicgen.playable import DEFAULT
from tests.app.web.browser import started
from tests.bridges.test_reaper import ran
from tests.tools.options import options
from tests.tools.page.own_files import MIDIS
from tokenization.analysis.chords import CHORD_INDEX, NONE, TONES
from tokenization.analysis.hearing import recognise
from tokenization.analysis.metres import bar_lines
from tokenization.formats import read_file
from tokenization.intervals import mean_interval
from tokenization.score import Score, sustained

FILES = ("pop band", "quartet", "waltz", "12/8 blues", "swing", "ten tracks")
PART, WRITE_A_PART = "strings", 4
FIRST, LAST = 5, 8


def as_reaper(score: Score) -> dict[str, object]:
    """Return a file for the stand-in of REAPER, with the bars selected."""
    notes, beat = score.notes, score.ticks_per_beat
    columns = notes.onset_ticks, notes.end_ticks, notes.pitch, notes.velocity
    tracks = []
    for number, track in enumerate(score.tracks):
        own = notes.track == number
        at, end, pitch, velocity = (column[own].tolist() for column in columns)
        rows = [
            [a / beat, b / beat, p, v, 9 * track.is_drum]
            for a, b, p, v in zip(at, end, pitch, velocity, strict=True)
        ]
        name = track.name or f"Track {number + 1}"
        tracks.append(
            {"name": name, "items": [{"from": 0, "to": score.end_ticks / beat, "notes": rows}]}
        )
    top, low = int(score.meters.numerator[0]), int(score.meters.denominator[0])
    lines = (bar_lines(score, LAST) / beat).tolist()
    tempo = float(score.tempos.beats_per_minute[0])
    return {"bars": [[top, low, tempo]], "tracks": tracks, "range": [lines[FIRST - 1], lines[LAST]]}


def by_bridge(home: Path, score: Score, seed: int) -> list[tuple[float, float, int]]:
    """Return the part that the script writes, in quarters."""
    given = as_reaper(score)
    found = ran(home, given, WRITE_A_PART, PART, seed=seed)
    known = {track["name"] for track in given["tracks"]}  # type: ignore[attr-defined]
    new = [items for name, items in found["tracks"].items() if name not in known]
    return [
        (on, off, int(pitch))
        for items in new
        for _, takes in items
        for _, notes in takes
        for on, off, pitch, *_ in notes
    ]


def by_page(address: str, data: bytes, seed: int) -> list[tuple[float, float, int]]:
    """Return the part that the page's request writes, in quarters."""
    query = urllib.parse.urlencode(
        {"do": "accompany", "parts": f"+{PART}", "result": "new", "seed": seed}
    )
    request = urllib.request.Request(
        f"{address}/write?{query}", data, {"Content-Type": "audio/midi"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        score = read_file(answer.read())
    beat = score.ticks_per_beat
    pairs = zip(
        score.notes.onset_ticks / beat, score.notes.end_ticks / beat, score.notes.pitch, strict=True
    )
    return [(float(on), float(off), int(pitch)) for on, off, pitch in pairs]


def share(score: Score, part: list[tuple[float, float, int]], up: int = 0) -> float | None:
    """Return the fraction of chord tones of a part in the bars."""
    beat = score.ticks_per_beat
    lines = bar_lines(score, LAST) / beat
    inside = [one for one in part if lines[FIRST - 1] <= one[0] < lines[LAST]]
    if not inside:
        return None
    known = sorted(
        (m.onset_ticks, CHORD_INDEX[m.text])
        for m in recognise(sustained(score))
        if m.text in CHORD_INDEX
    )
    ticks, chords = np.array([(-1, NONE), *known]).T
    on, _, pitch = np.array(inside).T
    now = chords[np.searchsorted(ticks, np.round(on * beat), side="right") - 1]
    judged = now != NONE
    return float(TONES[now, (pitch.astype(int) + up) % 12][judged].mean()) if judged.any() else None


def main() -> None:
    given = options(__doc__, takes=3, model=DEFAULT)
    rows: list[tuple[str, ...]] = [("file", "bridge", "page", "control")]
    found: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "script.lua").write_text(script("musicgen_reaper.lua"))
        with started("--model", given.model, HOME=folder) as server:
            for name in FILES:
                data = MIDIS[name]()[0]
                score = read_file(data)
                parts = [by_bridge(home, score, seed) for seed in range(given.takes)]
                pages = [by_page(server.address, data, seed) for seed in range(given.takes)]
                shares = [
                    [share(score, part) for part in parts],
                    [share(score, part) for part in pages],
                    [share(score, part, 1) for part in parts],
                ]
                means = [
                    float(np.mean([one for one in some if one is not None])) for some in shares
                ]
                found.append(means)
                rows.append((name, *(f"{mean:.2f}" for mean in means)))
    means = np.array(found)
    rows.append(("mean", *(f"{mean:.2f}" for mean in means.mean(0))))
    output.write(output.table(rows))
    mean, half = mean_interval((means[:, 0] - means[:, 1]).tolist())
    output.write(
        f"bridge − page: {mean:+.3f} ± {half or 0:.3f} (95 %, {len(found)} files × {given.takes} takes)"
    )


if __name__ == "__main__":
    main()
