"""What a model writes at a validation: pieces from nothing to be heard, and a picture of each of its abilities.

The picture shows held-out music that the model continues, brings to an end, fills in and accompanies: what is given in
blue, what is new in orange.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from musicgen.completion import accompaniment, infilling
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.performer import Performer
from musicgen.pieces import Piece, no_prompt
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.language import Language, language_from_spec
from tokenization.midi.writing import write_midi
from tokenization.score import Score
from tokenization.whole_file import replacing, write_whole
from training.curves import BLUE, VERMILION
from training.data.batches import Batches

ABILITIES = {"continue", "end", "rewrite", "accompany"}  # what a language has to be able to
BARS = 8  # of the piece in the picture; half of them is the prompt


def write_samples(
    player: Playable, folder: Path, step: int, *, count: int, tokens: int
) -> list[Path]:
    """Write `count` pieces from nothing as STEP_0.mid …; one without a note is left out.

    They have the same seed at every step.
    """
    request = Request(tokens=tokens, variations=count, may_end=True)
    work = Continuation(player, no_prompt(player.language), request).finish()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for take in work.takes():
        if len(take.score.notes):
            path = folder / f"{step:08d}_{take.number}.mid"
            text = f"musicgen training step {step}, sample {take.number}"
            write_whole(path, write_midi(take.score, texts=(text,)))
            paths.append(path)
    return paths


def player_of(model: Performer, batches: Batches, step: int) -> Playable:
    """Return the model at a step with the language of its data, to write music."""
    return Playable(
        name=f"step {step}",
        language=language_from_spec(batches.language),
        weights=lambda: model,
        longest_ticks=batches.longest_ticks,
    )


def draw_abilities(player: Playable, batches: Batches, folder: Path, step: int) -> Path:
    """Draw what a model makes of a held-out piece as STEP.png, a roll for each of the ABILITIES."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    written = _written(player, _held_out(batches, player.language))
    for axes, (title, score, is_new) in zip(figure.subplots(4, 1), written, strict=True):
        draw_roll(axes, score, is_new)
        axes.set_title(title, loc="left", fontsize="medium")
    figure.suptitle(f"step {step:,}")
    path = folder / f"{step:08d}.png"
    with replacing(path) as part:
        figure.savefig(part, dpi=110, format="png")
    return path


def _held_out(batches: Batches, language: Language) -> np.ndarray:
    """Return the first bars of the first held-out piece that has enough, or all of the longest."""
    rows = batches.shards.rows("validation")
    row = max(rows, key=lambda one: min(len(batches.shards.bars(int(one))), BARS))
    ids = batches.shards.ids(int(row)).astype(np.int64)
    lines = language.bars(ids)
    return language.close(ids[: lines[BARS]] if len(lines) > BARS else ids, BARS)


def _written(player: Playable, ids: np.ndarray) -> Iterator[tuple[str, Score, np.ndarray]]:
    """Yield what each ability of the model makes of a piece: its name, the whole piece, and which notes are new."""
    language, score = player.language, player.language.decode(ids)
    piece = Piece(name="", language=language, encoded=language.encode(score), score=score)
    prompt = piece.prompt(max(1, piece.bars // 2))
    gap = prompt.bars, min(prompt.bars + 1, piece.bars)
    line, seam = bar_lines(score, piece.bars)[[gap[0] - 1, gap[1]]]
    part = "bass" if score.on_drums.all() else "drums"
    for title, ends in (("continue", False), ("end", True)):
        work = Continuation(player, prompt, Request(bars=prompt.bars, ends=ends)).finish()
        whole = work.takes()[0].score
        yield title, whole, whole.notes.onset_ticks >= prompt.ticks
    whole = infilling(player, piece, gap, Request()).finish().takes()[0].score
    onset = whole.notes.onset_ticks
    yield f"fill bars {gap[0]} to {gap[1]}", whole, (onset >= line) & (onset < seam)
    added = accompaniment(player, piece, [part], Request()).finish()
    whole = added.takes()[0].score
    yield f"add {part}", whole, np.isin(whole.notes.track, added.goal.tracks)


def draw_roll(axes: Axes, score: Score, is_new: np.ndarray) -> None:
    """Draw the notes of a score over its bars, new ones in another colour."""
    notes, beat = score.notes, score.ticks_per_beat
    colours = np.where(is_new, VERMILION, BLUE).tolist()
    start, end = notes.onset_ticks / beat, notes.end_ticks / beat
    axes.hlines(notes.pitch, start, end, colors=colours, linewidth=2)
    lines = bar_lines(score, max(1, bar_count(score))) / beat
    axes.vlines(lines, 0, 1, colors="0.85", linewidth=0.6, transform=axes.get_xaxis_transform())
    axes.set_xlim(0, lines[-1])
    axes.set_xticks(lines[:-1:4], [str(bar) for bar in range(1, len(lines), 4)])
    axes.tick_params(labelsize="small")
