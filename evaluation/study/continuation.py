"""The style of continuations: do they keep that of their prompts (section 3.3 and figure 5 of the SPE paper)?

Each continuation, and each quarter of its duration, is compared by style profiles (metrics/style.py) with its prompt,
as in the paper's figure, and with the whole piece, as in its appendix. So are the references that tables.py describes,
passages of the same number of tokens. Each style counts once, by the mean over its pieces and their samples.
"""

from __future__ import annotations

from collections import defaultdict

from evaluation.metrics.estimates import mean
from evaluation.metrics.style import METRICS, QUARTER_NAMES, compared, copied_share, diversity
from evaluation.study.piece_jobs import Measure, held_out_piece, model_of, style_of
from musicgen.continuation import Continuation
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.pieces import Piece
from tokenization.analysis.metres import bar_lines
from tokenization.prepared import Prepared
from tokenization.score import Notes, Score, excerpt


def measure_continuation(
    *,
    model: str,
    data: str,
    device: str,
    row: int,
    same: int | None,
    other: int | None,
    prompt_bars: int,
    tokens: int,
    samples: int,
    temperature: float,
    seed: int,
) -> Measure:
    """Compare the continuations of a prompt, and the reference passages, with the prompt and the whole piece."""
    loaded, prepared = model_of(model, device), Prepared.open(data)
    piece = held_out_piece(data, row, loaded.language)
    prompt = piece.prompt(prompt_bars)
    begun = len(prompt.ids)
    if begun >= tokens:
        raise ValueError(
            f"its first {prompt_bars} bars have {begun} tokens, which leaves none of the {tokens} to write"
        )
    sampling = Sampling(temperature=temperature)
    request = Request(tokens=tokens - begun, variations=samples, seed=seed, sampling=sampling)
    work = Continuation(loaded, prompt, request)
    yield [work]
    work.check()
    takes = work.takes()
    real = passage(piece, prompt_bars, tokens)
    start = int(bar_lines(piece.score, prompt_bars)[-1])
    opening = excerpt(piece.score, 0, start)
    sides = {
        "written": [take.continuation for take in takes],
        "looped": [looped(opening, start, max(real.end_ticks, start))],
        "real": [real],
        **{
            name: []
            if number is None
            else [passage(held_out_piece(data, number, loaded.language), prompt_bars, tokens)]
            for name, number in (("same", same), ("other", other))
        },
    }
    about = {"piece": piece.name, "style": style_of(prepared, row)}
    values: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: {s: [] for s in sides})
    for side, passages in sides.items():
        for music in passages:
            for one in compared({"prompt": opening, "piece": piece.score}, music):
                quarter, metric = QUARTER_NAMES[one["quarter"]], METRICS[one["metric"]]
                name = f"to the {one['against']}, {quarter}: {metric}"
                values[name][side].append(one["similarity"])
    rows = [
        {**about, "measure": name, **{side: mean(found) for side, found in by_side.items()}}
        for name, by_side in values.items()
    ]
    none = dict.fromkeys(sides)
    new = [take.ids[begun:] for take in takes]
    copied = {
        "written": mean(copied_share(ids, prompt.ids) for ids in new),
        "real": copied_share(piece.encoded.ids[begun:tokens], prompt.ids),
    }
    rows.append({**about, "measure": "copied from the prompt", **none, **copied})
    rows.append({**about, "measure": "diversity of samples", **none, "written": diversity(new)})
    return [row for row in rows if any(row[side] is not None for side in sides)]


def passage(piece: Piece, bars: int, tokens: int) -> Score:
    """Return the music after the first bars of a piece, within its first `tokens` tokens."""
    score = piece.language.decode(piece.encoded.ids[:tokens])
    return excerpt(score, int(bar_lines(piece.score, bars)[-1]))


def looped(prompt: Score, period_ticks: int, stop_ticks: int) -> Score:
    """Return a prompt repeated up to a time."""
    notes = Notes.concatenate(
        prompt.notes.replace(onset_ticks=prompt.notes.onset_ticks + start)
        for start in range(0, stop_ticks, period_ticks)
    ).sorted()
    return prompt.replace(notes=notes[notes.onset_ticks < stop_ticks])
