"""Measures drums that are written to pieces: python -m tests.tools.measure.drums FILE… [--bars 16] [--model ensemble].

The first bars of each file are accompanied by drums, as `musicgen accompany --write drums` does, and with `--free`; its
own drums, if it has some, are measured too. Backbeat: bars of 4/4 with a snare, rim or clap on beats two and four, or
the pedal hi-hat in swung music. Feel: onsets of the drums between the beats that are where those of the other parts
are, if these are clearly straight or swung. Fills: notes of toms in bars that end a phrase, and in the other bars. Kit:
bars of 4/4 with a bass drum, a snare or side stick, and hats or rides on three beats. Open hats: their share of all
hats and rides.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evaluation.metrics.estimates import estimate
from evaluation.study.accompaniment import cut_bars
from musicgen.completion import Completion, accompaniment
from musicgen.continuation import run_together
from musicgen.generation.request import Request
from musicgen.pieces import piece_of
from musicgen.playable import Playable, load
from tests.tools.options import options
from tokenization.analysis.metres import FOUR_FOUR
from tokenization.ensemble.arranging import phrases_of
from tokenization.ensemble.drumming import (
    COMPOUND,
    FOOT,
    FRAMES,
    KICKS,
    OPEN_HAT,
    SNARES,
    SWUNG,
    TOMS,
    Groove,
    feel_of,
)
from tokenization.ensemble.fitting import first_downbeat
from tokenization.ensemble.given_returns import returns_of
from tokenization.ensemble.language import Ensemble
from tokenization.ensemble.spelling import Sheet
from tokenization.ensemble.tokens import (
    DRUMS,
    LONGEST_BAR,
    LOWEST_DRUM,
    STEPS_PER_BEAT,
    STEPS_PER_SUBBEAT,
)
from tokenization.formats import read_file
from tokenization.score import Score

MEASURES = (
    "backbeat", "kick and snare", "kit", "feel", "toms in fills", "toms elsewhere", "open hats",
)  # fmt: skip
FRAME = 3  # beats of a bar
WAYS = ("its own drums", "with --free", "as promised")


def of_drums(sheet: Sheet) -> dict[str, float | None]:
    """Return the measures of the drums of a piece, which are compared with its other parts."""
    hits = sheet.instrument == DRUMS
    given = Sheet(**{
        **{name: getattr(sheet, name) for name in ("bars", "parts", "tempo", "flat")},
        **{name: getattr(sheet, name)[~hits] for name in ("bar", "part", "onset", "length", "loudness", "value")},
    })  # fmt: skip
    feel, bars = feel_of(given), len(sheet.bars)
    bar, drum = sheet.bar[hits], sheet.value[hits] + LOWEST_DRUM
    step = sheet.onset[hits] - (sheet.bars.start * STEPS_PER_SUBBEAT)[bar]
    backs = [*SNARES, *([FOOT] if feel == SWUNG else [])]
    struck = np.isin(drum, backs)
    both = [np.bincount(bar[struck & (step == at)], minlength=bars) > 0 for at in (24, 72)]
    counted = (sheet.bars.metre == FOUR_FOUR) & (np.bincount(bar, minlength=bars) > 0)
    has_both = np.logical_and(
        *(np.bincount(bar[np.isin(drum, one)], minlength=bars) > 0 for one in (KICKS, SNARES))
    )
    frame = np.zeros((bars, LONGEST_BAR // STEPS_PER_BEAT), bool)
    is_frame = np.isin(drum, (*FRAMES, FOOT, OPEN_HAT))
    framed = is_frame & (step % STEPS_PER_BEAT == 0)
    frame[bar[framed], step[framed] // STEPS_PER_BEAT] = True
    has_all = has_both & (frame.sum(1) >= FRAME)
    within = step % STEPS_PER_BEAT
    between = within[(within > 0) & ~np.array(COMPOUND)[sheet.bars.metre[bar]]]
    agree = between % (8 if feel == SWUNG else 6) == 0
    phrases = phrases_of(returns_of(given), first_downbeat(given))
    ends = Groove.of(given, phrases).fills
    toms = np.bincount(bar[np.isin(drum, TOMS)], minlength=bars)
    return {
        "backbeat": float((both[0] & both[1])[counted].mean()) if counted.any() else None,
        "kick and snare": float(has_both[counted].mean()) if counted.any() else None,
        "kit": float(has_all[counted].mean()) if counted.any() else None,
        "feel": float(agree.mean()) if feel and len(agree) else None,
        "toms in fills": float(toms[ends].mean()) if ends.any() else None,
        "toms elsewhere": float(toms[~ends].mean()) if (~ends).any() else None,
        "open hats": float(np.mean(drum[is_frame] == OPEN_HAT)) if is_frame.any() else None,
    }


def without_drums(score: Score) -> Score:
    """Return the pitched tracks of a score."""
    kept = [track for track, one in enumerate(score.tracks) if not one.is_drum]
    place = np.full(len(score.tracks), -1)
    place[kept] = np.arange(len(kept))
    notes = score.notes[~score.on_drums]
    return score.replace(
        notes=notes.replace(track=place[notes.track]),
        tracks=tuple(score.tracks[one] for one in kept),
    )


def works_of(model: Playable, score: Score, name: str) -> dict[str, Completion]:
    """Return the works that write drums to a piece, by way."""
    piece = piece_of(model.language, without_drums(score), name)
    request = Request(seed=1)
    return {
        way: accompaniment(model, piece, ["drums"], replace(request, free=way == WAYS[1]))
        for way in WAYS[1:]
    }


def main() -> int:
    """Measure all ways on all files, and print a table."""
    given = options(__doc__, "files", bars=16, model="ensemble")
    model = load(given.model)
    language = model.language
    assert isinstance(language, Ensemble), f"{given.model} does not use the language ensemble"
    rows: dict[str, list[Mapping[str, float | None]]] = {way: [] for way in WAYS}
    works: list[tuple[str, str, Completion]] = []
    for path in given.files:
        arranged = language.arrange(
            read_file(path.read_bytes(), name=path.name, suffix=path.suffix)
        )
        score = cut_bars(arranged, given.bars) or arranged
        if score.on_drums.any():
            rows[WAYS[0]].append(of_drums(language.sheet(language.encode(score).ids)))
        works += [(path.stem, *one) for one in works_of(model, score, path.name).items()]
    for _ in run_together([work for *_, work in works]):
        pass
    for name, way, work in works:
        work.check()
        found = of_drums(language.sheet(work.goal.whole(work.sequences()[0])))
        rows[way].append(found)
        cells = "".join(
            "      –" if found[one] is None else f"{found[one]:7.2f}" for one in MEASURES
        )
        print(f"{name[:40]:<42}{way:<16}{cells}")
    print(f"\n{'':<16}" + "".join(f"{name:>26}" for name in MEASURES))
    for way, found in rows.items():
        each = [estimate(row[name] for row in found) for name in MEASURES]
        print(f"{way:<16}" + "".join(f"{_cell(one):>26}" for one in each))
    return 0


def _cell(found: Mapping[str, float | None]) -> str:
    if found["mean"] is None or found["low"] is None:
        return "–"
    return f"{found['mean']:.2f} [{found['low']:.2f}, {found['high']:.2f}] ({found['n']})"


if __name__ == "__main__":
    sys.exit(main())
