"""The task Symbolic Music Generation of MIREX (2025: piano continuation): its file format, and automatic measures.

A prompt is `{"prompt": [{"start": 16, "pitch": 72, "duration": 6}, …]}`: a bar for a pickup, which may be empty, and
four bars of 4/4 in sixteenths, 0 to 79. A continuation is `{"generation": […]}`: twelve bars, 80 to 271. MIREX uses
listening tests; the measures here need no listeners, and are also taken of real pieces for comparison.

A folder has a subfolder for each prompt, with `prompt.json`, `real.json` if the piece is known, and the continuations
of each system, `NAME_01.json`, `NAME_02.json`, and so on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.metrics import style
from evaluation.metrics.estimates import FRACTION, estimate, grouped, means
from evaluation.metrics.form import form
from evaluation.tables import Table, interval
from musicgen.continuation import Continuation, Player, run_together
from musicgen.generation.request import Request
from musicgen.pieces import piece_of
from tokenization.analysis.metres import bar_lines
from tokenization.analysis.statistics import Measured
from tokenization.prepared import Prepared
from tokenization.records import json_of
from tokenization.score import Meters, Notes, Score, Tempos, Track, excerpt
from tokenization.whole_file import make_folder, write_whole
from tokenization.wording import filled

PROMPT, GENERATION = "prompt", "generation"
BAR, BEAT = 16, 4  # sixteenths
FIRST, LAST = 80, 272  # a continuation is in the sixteenths FIRST … LAST − 1
GIVEN_BARS, BARS = FIRST // BAR, LAST // BAR
STARTS = {PROMPT: range(FIRST), GENERATION: range(FIRST, LAST)}
FIELDS = ("start", "pitch", "duration")
REAL = "real"
PICKUP = 8  # bar of a piece, from 1, that becomes the pickup bar: the last one of the first phrase
TAKEN_BARS = PICKUP - 1 + BARS  # bars of a piece up to the end of the real continuation
TEMPO, VELOCITY = 100.0, 80  # the format has neither

MAJOR = np.array([1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1], dtype=bool)
MINOR = np.array([1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0], dtype=bool)  # natural
SCALES = np.array([np.roll(scale, root) for scale in (MAJOR, MINOR) for root in range(12)])
MEASURES = {
    "notes": "notes per bar",
    "sounding": "sounding pitches",
    "scale": "in the prompt's scale",
    "onset_duration": "onset–duration similarity",
    "time_pitch": "time–pitch similarity",
    "returns": "returning bars",
    "repeats": "repeated bars",
    "top_repeated": "repeated top notes",
}
COUNTS = ("notes", "sounding")  # without bounds; the others are fractions and similarities
CAPTION = """Bars 5 to 16 of each prompt's continuation, mean [95 % interval] over prompts. Similarity: cosine of the
    style profiles of continuation and prompt."""


def read(path: Path, key: str) -> Notes:
    """Read the notes of a file in MIREX's format, in sixteenths; a ValueError says that the file breaks a rule."""
    try:
        rows = [[note[name] for name in FIELDS] for note in json_of(path)[key]]
        if not all(isinstance(value, int) for row in rows for value in row):
            raise ValueError("not whole numbers")
        start, pitch, duration = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{path} is not in MIREX's format: it needs a list {key!r} of notes with whole numbers for "
            f"{', '.join(FIELDS)}"
        ) from None
    within = np.isin(start, STARTS[key]) & np.isin(pitch, range(128)) & (duration >= 1)
    if not within.all():
        raise ValueError(
            f"{path}: note {within.argmin() + 1} of {len(start)} breaks a rule: start in {STARTS[key].start} to "
            f"{STARTS[key].stop - 1}, pitch in 0 to 127, duration of 1 or more"
        )
    if not len(start):
        raise ValueError(f"{path} has no notes")
    zeros = np.zeros_like(start)
    return Notes(start, np.minimum(duration, LAST - start), pitch, zeros + VELOCITY, zeros).sorted()


def write(path: Path, key: str, notes: Notes) -> None:
    """Write notes in sixteenths to a new file in MIREX's format."""
    rows = zip(
        notes.onset_ticks.tolist(), notes.pitch.tolist(), notes.duration_ticks.tolist(), strict=True
    )
    content = {key: [dict(zip(FIELDS, row, strict=True)) for row in rows]}
    write_whole(path, (json.dumps(content) + "\n").encode(), new=True)


def piano(notes: Notes) -> Score:
    """Return a piano score in 4/4 with notes in sixteenths."""
    return Score(
        ticks_per_beat=BEAT,
        notes=notes,
        tracks=(Track("Piano"),),
        tempos=Tempos(np.array([0]), np.array([TEMPO])),
        meters=Meters(np.array([0]), np.array([4]), np.array([4])),
        beats_known=True,
    )


def in_sixteenths(score: Score) -> Notes:
    """Return the pitched notes of a score quantised to sixteenths; of one pitch at one onset, the longest."""
    notes = score.replace(notes=score.pitched).rescaled(BEAT).notes
    zeros = np.zeros(len(notes), dtype=int)
    notes = notes.replace(track=zeros, velocity=zeros + VELOCITY).sorted()[::-1]
    _, first = np.unique(notes.onset_ticks * 128 + notes.pitch, return_index=True)
    return notes[first]


def continued(
    model: Player,
    prompts: Sequence[Notes],
    request: Request,
    bar: Callable[[str], AbstractContextManager[Callable[[int, int], None]]],
) -> list[Notes]:
    """Return the continuation of each prompt up to bar 16, all generated in one batch.

    Silent bars at the beginning of a prompt are removed; those at its end are left for the model to write.
    """
    rests = [int(prompt.onset_ticks.min()) // BAR for prompt in prompts]
    given = [piece_of(model.language, piano(prompt), "the prompt").prompt() for prompt in prompts]
    lengths = [BARS - rest - each.bars for rest, each in zip(rests, given, strict=True)]
    works = [
        Continuation(model, each, replace(request, bars=bars))
        for each, bars in zip(given, lengths, strict=True)
    ]
    with bar(f"{model.name}: bars") as progress:
        for _ in run_together(works):
            progress(sum(work.job.bars for work in works), sum(lengths))
    found = []
    for work, rest in zip(works, rests, strict=True):
        work.check()
        notes = in_sixteenths(work.takes()[0].score)
        notes = notes.replace(onset_ticks=notes.onset_ticks + rest * BAR)
        new = notes[(notes.onset_ticks >= FIRST) & (notes.onset_ticks < LAST)]
        found.append(new.ended_by(LAST))
    return found


def prompts_in(folder: Path) -> list[Path]:
    """Return the subfolders that have a prompt."""
    return sorted(path.parent for path in folder.glob(f"*/{PROMPT}.json"))


def write_prompts(data: Path, split: str, pieces: int, seed: int, folder: Path) -> None:
    """Write prompts and real continuations from pieces in 4/4 of a data set, until the folder has `pieces` prompts."""
    prepared = Prepared.open(data)
    rows = np.random.default_rng(seed).permutation(prepared.rows(split))
    # A piece may also have rows with some of its parts: take its longest row.
    whole: dict[int, int] = {}
    for row in rows.tolist():
        file = int(prepared.pieces.file[row])
        if file not in whole or prepared.pieces.length[row] > prepared.pieces.length[whole[file]]:
            whole[file] = row
    for row in whole.values():
        if len(prompts_in(folder)) >= pieces:
            break
        found = _passage(prepared, row)
        name = re.sub(r"[^\w-]+", "_", Path(prepared.name(row)).stem)
        if found is None or (folder / name).exists():
            continue
        make_folder(folder / name, "name another one")
        for kind, key, notes in zip((PROMPT, REAL), (PROMPT, GENERATION), found, strict=True):
            write(folder / name / f"{kind}.json", key, notes)


def _passage(prepared: Prepared, row: int) -> tuple[Notes, Notes] | None:
    """Return a prompt and its real continuation; None if the piece is too short, not in 4/4, or silent in either."""
    score = prepared.language.decode(np.asarray(prepared.ids(row)))
    if len(prepared.bars(row)) < TAKEN_BARS:
        return None
    lines = bar_lines(score, TAKEN_BARS)[PICKUP - 1 :]
    notes = in_sixteenths(excerpt(score, int(lines[0]), int(lines[-1])))
    notes = notes[notes.onset_ticks < LAST]
    of_bar = np.bincount(notes.onset_ticks // BAR, minlength=BARS)
    if (np.diff(lines) != 4 * score.ticks_per_beat).any() or not of_bar[[1, GIVEN_BARS]].all():
        return None
    notes = notes.ended_by(LAST)
    return notes[notes.onset_ticks < FIRST], notes[notes.onset_ticks >= FIRST]


def measured(folder: Path) -> dict[str, Any]:
    """Return the measures of every continuation in a folder of prompts; a file that breaks a rule is an error."""
    rows: list[dict[str, Any]] = []
    for place in prompts_in(folder):
        prompt = read(place / f"{PROMPT}.json", PROMPT)
        for path in sorted(place.glob("*.json")):
            if path.stem != PROMPT:
                about = {"prompt": place.name, "system": re.sub(r"_\d+$", "", path.stem)}
                rows.append(
                    {**about, "file": path.name, **_measures(prompt, read(path, GENERATION))}
                )
    return {"rows": rows, "table": _summary(rows)}


def _measures(prompt: Notes, written: Notes) -> dict[str, Any]:
    given, whole = piano(prompt), piano(Notes.concatenate([prompt, written]).sorted())
    new = piano(written)
    likeness = style.similarities(style.profiles(given), style.profiles(new))
    measured = Measured(whole, BARS).statistics(GIVEN_BARS, BARS, GIVEN_BARS)
    of_form = form(whole, GIVEN_BARS, BARS)
    assert measured is not None, "files without notes are rejected"
    scale = SCALES[(SCALES @ np.bincount(prompt.pitch % 12, minlength=12)).argmax()]
    return {
        "notes": of_form["notes"],
        "sounding": measured.get("length: sounding"),
        "scale": float(scale[written.pitch % 12].mean()),
        **likeness,
        "returns": of_form["returns"],
        "repeats": of_form["repeats"],
        "top_repeated": measured.get("top: repeated"),
    }


def _summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per system, real pieces first: estimates over prompts of the means over continuations."""
    systems = {system: own for (system,), own in grouped(rows, "system").items()}
    return [
        {
            "system": system,
            "prompts": len({row["prompt"] for row in own}),
            "files": len(own),
            **{
                name: estimate(
                    means(own, "prompt", name), bounds=None if name in COUNTS else FRACTION
                )
                for name in MEASURES
            },
        }
        for system, own in sorted(systems.items(), key=lambda one: (one[0] != REAL, one[0]))
    ]


def mirex_table(table: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one row per measure and one column per system."""
    rows = [
        ["prompts · files", *(f"{row['prompts']} · {row['files']}" for row in table)],
        *([title, *(_cell(row[name]) for row in table)] for name, title in MEASURES.items()),
    ]
    head = ["", *(row["system"] for row in table)]
    return Table(head=head, rows=rows, caption=filled(CAPTION))


def _cell(found: Mapping[str, Any]) -> str:
    return interval(found["mean"], found["low"], found["high"], "{:.2f}".format)
