"""Samples generated at a validation: unprompted pieces as MIDI files, and a figure of the model's abilities.

The figure shows held-out music that the model continues, ends, fills in and accompanies; given notes are blue and new
ones orange.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from musicgen.continuation import Continuation, accompaniment, infilling
from musicgen.generation.request import Request
from musicgen.performer import Performer
from musicgen.pieces import Piece, empty_prompt
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.language import Language, language_from_spec
from tokenization.midi.writing import write_midi
from tokenization.score import Score
from tokenization.whole_file import replacing, write_whole
from training.curves import BLUE, VERMILION
from training.data.batches import Batches

ABILITIES = {"continue", "end", "rewrite", "accompany"}  # those that the figure needs of a language
BARS = 8  # of the piece in the figure; the first half is the prompt


def write_samples(
    player: Playable, folder: Path, step: int, *, count: int, tokens: int
) -> list[Path]:
    """Write `count` unprompted pieces as STEP_0.mid …, with the same seed at every step; skip those without notes."""
    request = Request(tokens=tokens, variations=count, may_end=True)
    work = Continuation(player, empty_prompt(player.language), request).finish()
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
    """Return the current model as one that can be played, named after its step."""
    return Playable(
        name=f"step {step}",
        language=language_from_spec(batches.language),
        weights=lambda: model,
        longest_ticks=batches.longest_ticks,
    )


def draw_abilities(player: Playable, batches: Batches, folder: Path, step: int) -> Path:
    """Apply each of the ABILITIES to a held-out piece and draw the piano rolls as STEP.png."""
    figure = Figure(figsize=(11, 9), layout="constrained")
    results = _results(player, _held_out_excerpt(batches, player.language))
    for axes, (title, score, is_new) in zip(figure.subplots(4, 1), results, strict=True):
        draw_roll(axes, score, is_new)
        axes.set_title(title, loc="left", fontsize="medium")
    figure.suptitle(f"step {step:,}")
    path = folder / f"{step:08d}.png"
    with replacing(path) as part:
        figure.savefig(part, dpi=110, format="png")
    return path


def _held_out_excerpt(batches: Batches, language: Language) -> np.ndarray:
    """Return the first BARS bars of the first held-out piece long enough, or else the longest piece."""
    rows = batches.shards.rows("validation")
    row = max(rows, key=lambda one: min(len(batches.shards.bars(int(one))), BARS))
    ids = batches.shards.ids(int(row)).astype(np.int64)
    lines = language.bars(ids)
    return language.close(ids[: lines[BARS]] if len(lines) > BARS else ids, BARS)


def _results(player: Playable, ids: np.ndarray) -> Iterator[tuple[str, Score, np.ndarray]]:
    """Yield for each ability a title, the resulting piece, and a mask of its new notes."""
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
    """Draw a piano roll with bar lines, new notes in another colour."""
    notes, beat = score.notes, score.ticks_per_beat
    colours = np.where(is_new, VERMILION, BLUE).tolist()
    start, end = notes.onset_ticks / beat, notes.end_ticks / beat
    axes.hlines(notes.pitch, start, end, colors=colours, linewidth=2)
    lines = bar_lines(score, max(1, bar_count(score))) / beat
    axes.vlines(lines, 0, 1, colors="0.85", linewidth=0.6, transform=axes.get_xaxis_transform())
    axes.set_xlim(0, lines[-1])
    axes.set_xticks(lines[:-1:4], [str(bar) for bar in range(1, len(lines), 4)])
    axes.tick_params(labelsize="small")
