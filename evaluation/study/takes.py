"""Takes to listen to: what a model writes to a held-out piece with each of its abilities, as MIDI and as a roll.

The first bars are continued and brought to an end, some bars in the middle are filled in, and the last part is written
again for the others, or drums if the piece has none.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import numpy as np

from evaluation.study.piece_jobs import Measure, TokenCompletion, held_out_piece, model_of
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.ensemble.spelling import instrument_of, names_of
from tokenization.midi.writing import write_midi
from tokenization.score import Score

GAP = 4  # bars
DRUMS = "drums"


def write_takes(
    *, model: str, data: str, device: str, row: int, prompt_bars: int, bars: int, seed: int
) -> Measure:
    """Return one take for each ability, with its MIDI file in base64 and the notes of its roll."""
    loaded = model_of(model, device)
    language, piece = loaded.language, held_out_piece(data, row, loaded.language)
    prompt, request = piece.prompt(prompt_bars), Request(bars=bars, seed=seed)
    works: dict[str, Continuation | TokenCompletion] = {
        "continued": Continuation(loaded, prompt, request)
    }
    given = min(2 * prompt_bars, piece.bars)
    start = (given - GAP) // 2  # of the gap
    beginning = language.close(piece.encoded.ids, given)
    if "end" in language.abilities:
        ending = replace(request, bars=GAP, ends=True)
        works["ended"] = Continuation(loaded, prompt, ending)
        task = language.infilling(beginning, start, start + GAP)
        works["filled in"] = TokenCompletion(loaded, task, request)
    names = language.part_names(beginning) if language.parts else ()
    if names:
        if len(names) > 1:
            task = language.accompanying(beginning, [names[-1]])
            works["accompanied"] = TokenCompletion(loaded, task, request)
        if DRUMS not in names:
            task = language.accompanying(beginning, [DRUMS])
            works["with drums"] = TokenCompletion(loaded, task, request)
    yield [*works.values()]
    takes = []
    for ability, work in works.items():
        work.check()
        if isinstance(work, Continuation):
            score = work.takes()[0].score
        else:
            score = language.decode(work.whole(), piece.encoded.setting)
        onset, lines = score.notes.onset_ticks, bar_lines(score, given)
        if ability == "with drums":
            new = score.on_drums
        elif ability == "accompanied":
            new = score.notes.track == len(score.tracks) - 1
        elif ability == "filled in":
            new = (onset >= lines[start]) & (onset < lines[start + GAP])
        else:
            new = onset >= prompt.ticks
        midi = b64encode(write_midi(score)).decode()
        takes.append({"piece": piece.name, "ability": ability, "midi": midi, **roll_of(score, new)})
    return takes


def roll_of(score: Score, new: np.ndarray) -> dict[str, Any]:
    """Return the notes and bar lines of a roll, in beats."""
    notes, beat = score.notes, score.ticks_per_beat
    instruments = np.array([instrument_of(track) for track in score.tracks], int)
    return {
        "lines": (bar_lines(score, bar_count(score)) / beat).tolist(),
        "tracks": [name.replace("_", " ") for name in names_of(instruments)],
        "onset": (notes.onset_ticks / beat).round(3).tolist(),
        "duration": (notes.duration_ticks / beat).round(3).tolist(),
        "pitch": notes.pitch.tolist(),
        "track": notes.track.tolist(),
        "drum": score.on_drums.tolist(),
        "new": new.tolist(),
    }
