"""The groove experiment of the SPE paper (section 3.3, figure 5): does a continuation keep the style of its prompt?

Every model continues every prompt several times. Each continuation, and each quarter of its duration, is compared with
the prompt (the paper's figure) and with the whole piece (its appendix) by style profiles. Further measures are copying
from the prompt, the diversity of samples, and statistics of the music; reference passages are measured in the same way.
Each style counts once, by the mean over its prompts and their samples; means and intervals are over styles.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Generator as StdGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.continuation.prompts import (
    REFERENCE_PASSAGES,
    Passage,
    Plan,
    PromptedPiece,
    read_prompt,
    read_prompts,
    reference_passages,
    style_of,
)
from evaluation.metrics.estimates import estimate, grouped, means
from evaluation.metrics.statistics import STATISTICS, statistics
from evaluation.metrics.style import (
    copied_share,
    diversity,
    profiles,
    quarters,
    similarities,
)
from evaluation.study.experiments import (
    Experiment,
    Found,
    job_of,
    model_fields,
    models_for_language,
)
from evaluation.study.piece_jobs import model_of
from musicgen.continuation import Generation, continuation_grammar
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.playable import Playable
from tokenization.analysis.metres import bar_count, bar_lines
from tokenization.formats import read_file, write_score
from tokenization.score import Score, excerpt
from tokenization.whole_file import make_folder

# The continuations, one job per model and prompt (evaluation/study/experiments.py).

SAMPLES = "samples"  # the folder of the continuations as MIDI files
_EDITION = 3  # increase when prompts are continued differently, to invalidate stored continuations


def continuation(
    playables: Sequence[Playable],
    source: Path,
    plan: Plan,
    *,
    folder: Path,
    device: str,
    limit: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Experiment:
    """Continue the prompts of a source with the models that share the first one's language, and measure the results.

    The continuations are written to a folder as MIDI files.
    """
    language = playables[0].language
    models, left_out = models_for_language(playables, language.name, "continuation")
    prompts, refused = read_prompts(
        source,
        language,
        bars=plan.prompt_bars,
        tokens=plan.tokens,
        limit=limit,
        progress=progress,
    )
    jobs = [
        job_of(
            model,
            continued,
            device,
            places={"source": str(source)},
            identity={
                "prompt": hashlib.sha256(prompt.ids.astype("<u2").tobytes()).hexdigest(),
                "edition": _EDITION,
            },
            prompt=prompt.name,
            plan=asdict(plan),
        )
        for model in models
        for prompt in prompts
    ]

    def compose(found: Found) -> dict[str, Any]:
        measured = list(dict.fromkeys(model.name for model, _, _ in found))
        able = [model for model in models if model.name in measured]
        samples = {
            (model.name, job.arguments["prompt"]): [np.array(ids, np.uint16) for ids in done.result]
            for model, job, done in found
        }
        for model in able:
            for prompt in prompts:
                _write_music(folder, model, prompt, plan, samples[model.name, prompt.name])
        return measured_outputs(able, prompts, plan, samples)

    return Experiment(jobs=jobs, compose=compose, facts={"left_out": left_out + refused})


def continued(
    *, model: str, source: str, device: str, prompt: str, plan: Mapping[str, Any]
) -> StdGenerator[Sequence[Generation], None, list[list[int]]]:
    """Return a model's continuations of a prompt as token sequences of the planned number and length.

    Each sequence begins with the prompt. In a language without an end token, one that falls silent may be shorter.
    """
    loaded, how = model_of(model, device), Plan(**plan)
    piece = read_prompt(Path(source), prompt, loaded.language, how.prompt_bars, how.tokens)
    work = continuing_work(loaded, piece, how)
    yield [work]
    return [ids.tolist() for ids in sequences(work, how)]


def continuing_work(model: Playable, prompt: PromptedPiece, plan: Plan) -> Generation:
    """Return the generation that continues a prompt according to the plan."""
    request = Request(
        tokens=plan.tokens - len(prompt.ids),
        variations=plan.samples,
        seed=zlib.crc32(f"{plan.seed} {prompt.name}".encode(errors="replace")),
        sampling=Sampling(temperature=plan.temperature),
    )
    grammar = continuation_grammar(
        model.language,
        prompt.ids,
        prompt_bars=prompt.bars,
    )
    return Generation(model, prompt.ids, grammar, request)


def sequences(work: Generation, plan: Plan) -> list[np.ndarray]:
    """Return the generated sequences, truncated to the planned length."""
    work.check()
    close = work.model.language.close
    return [close(ids)[: plan.tokens].astype(np.uint16) for ids in work.sequences()]


def _write_music(
    folder: Path, model: Playable, prompt: PromptedPiece, plan: Plan, samples: Sequence[np.ndarray]
) -> None:
    """Write the continuations of a prompt as MIDI files that record the model and the settings."""
    home = folder / SAMPLES / f"{_plain_name(model.name)}-{model.sha256[:8]}"
    # Unique among the prompts, and valid on any file system.
    stem = f"{_plain_name(prompt.name)}-{zlib.crc32(prompt.name.encode(errors='replace')):08x}"
    make_folder(home, "name another one")
    facts = {"model": model.name, "weights_sha256": model.sha256, **asdict(plan)}
    for number, ids in enumerate(samples):
        score = model.language.decode(model.language.close(ids), prompt.setting)
        facts |= {"prompt": prompt.name, "sample": number}
        write_score(home / f"{stem}.prompt_cont_{number}.mid", score, facts)


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name)[:100].strip(".-") or "unnamed"


# The results: means over styles with intervals.

Row = dict[str, Any]

SIMILARITY_KEY = ("output", "against", "metric", "quarter")
MEASURES = ("copied_share", "tokens", "beats", *STATISTICS)


def by_style(rows: Iterable[Row], key: Sequence[str], value: str) -> list[Row]:
    """Return one row per key, with the mean over styles of a value and its interval.

    Missing values are ignored; a style without any value is counted as missing.
    """
    return [
        {**dict(zip(key, group, strict=True)), **asdict(estimate(means(own, "style", value)))}
        for group, own in grouped(rows, *key).items()
    ]


def measured_outputs(
    models: Sequence[Playable],
    prompts: Sequence[PromptedPiece],
    plan: Plan,
    samples: Mapping[tuple[str, str], Sequence[np.ndarray]],
) -> dict[str, Any]:
    """Compare continuations and reference passages with prompts and pieces, and return the results."""
    # Rows per quarter and reference, per passage, and per model and prompt.
    measured: dict[str, list[Row]] = {"similarities": [], "passages": [], "diversities": []}
    for prompt in prompts if models else ():
        language = models[0].language
        for model in models:
            own = samples[model.name, prompt.name]
            passages = [prompt.passage(language, ids, len(prompt.ids)) for ids in own]
            _add(measured, model.name, prompt, passages)
        for name, passage in reference_passages(
            language, prompts, prompt, plan.tokens, plan.seed
        ).items():
            _add(measured, REFERENCE_PASSAGES[name], prompt, [] if passage is None else [passage])
    return {
        "experiment": "continuation",
        "settings": asdict(plan),
        "models": [model_fields(model) for model in models],
        "yardsticks": list(REFERENCE_PASSAGES.values()),
        "prompts": len(prompts),
        "styles": len({prompt.style for prompt in prompts}),
        "similarity": by_style(measured["similarities"], SIMILARITY_KEY, "similarity"),
        "measures": [
            {"measure": measure, **row}
            for measure in (*MEASURES, "diversity")
            for row in by_style(
                measured["diversities" if measure == "diversity" else "passages"],
                ["output"],
                measure,
            )
        ],
        "measured": measured,
    }


def _add(
    measured: dict[str, list[Row]],
    output: str,
    prompt: PromptedPiece,
    passages: Sequence[Passage],
) -> None:
    """Add the rows of one output's passages for one prompt."""
    shared = {"output": output, "prompt": prompt.name, "style": prompt.style}
    for number, (new, score) in enumerate(passages):
        row = {**shared, "sample": number}
        music = excerpt(score, prompt.start_ticks)
        references = {"prompt": prompt.score, "piece": prompt.piece}
        measured["similarities"] += [{**row, **one} for one in compared(references, music)]
        measured["passages"].append({**row, **_measures(prompt, new, music)})
    if len(passages) > 1:
        value = diversity([new for new, _ in passages])
        measured["diversities"].append({**shared, "samples": len(passages), "diversity": value})


def compared(references: Mapping[str, Score], music: Score) -> Iterator[Row]:
    """Yield the similarities of music, whole (quarter None) and by quarter, to each reference."""
    parts = {None: music, **dict(enumerate(quarters(music), start=1))}
    found = {quarter: profiles(part) for quarter, part in parts.items()}
    for against, reference in references.items():
        expected = profiles(reference)
        for quarter, histograms in found.items():
            for metric, value in similarities(expected, histograms).items():
                yield {
                    "against": against,
                    "metric": metric,
                    "quarter": quarter,
                    "similarity": value,
                }


def _measures(prompt: PromptedPiece, new: np.ndarray, music: Score) -> Row:
    return {
        "tokens": len(new),
        "beats": music.end_ticks / music.ticks_per_beat,
        "copied_share": copied_share(new, prompt.ids),
        **statistics(music),
    }


# Folders of prompts and continuations by any model: NAME.prompt.mid, and prompt and continuation together as
# NAME.prompt_cont_0.mid and so on, the names that the authors of SPE and `musicgen continue` use.

_PROMPT = ".prompt.mid"
_CONTINUATION = re.compile(r"(?P<name>.+?)(\.prompt)?\.prompt_cont_\d+\.mid")


def of_folders(folders: list[Path]) -> dict[str, Any]:
    """Return the similarities of continuations to their prompts as means over styles, by folder."""
    rows = [row for folder in folders for row in _rows_of(folder)]
    counts = {
        str(folder): {
            kind: len({row[kind] for row in rows if row["output"] == str(folder)})
            for kind in ("file", "style")
        }
        for folder in folders
    }
    return {"counts": counts, "similarity": by_style(rows, SIMILARITY_KEY, "similarity")}


def _rows_of(folder: Path) -> Iterator[Row]:
    files = sorted(folder.iterdir())
    prompts = {
        file.name.removesuffix(_PROMPT): file for file in files if file.name.endswith(_PROMPT)
    }
    found = [(file, match) for file in files if (match := _CONTINUATION.fullmatch(file.name))]
    if not found:
        raise ValueError(
            f"{folder} has no continuations; they are named NAME.prompt_cont_0.mid and so on"
        )
    for file, match in found:
        if (name := match["name"]) not in prompts:
            raise ValueError(f"{folder} has {file.name}, but not {name}{_PROMPT}")
        prompt, whole = read_file(prompts[name]), read_file(file)
        bars = bar_count(prompt)
        music = excerpt(whole, int(bar_lines(whole, bars)[-1]))
        columns = {"output": str(folder), "file": file.name, "style": style_of(name)}
        for row in compared({"prompt": prompt}, music):
            yield {**columns, **row}
