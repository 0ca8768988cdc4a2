"""The groove experiment of the SPE paper (section 3.3, figure 5): does a continuation keep the style of its prompt?

Every prompt is continued several times by every model. A continuation, and each quarter of it (four parts of equal
duration), is compared with the prompt and with the whole piece that the prompt was taken from, by style profiles. The
paper's figure does the first, its appendix describes the second. It also measures what similarity hides, copies of the
prompt and sameness of the samples, the statistics of the music, and reference passages that no model wrote.

A style is one value: the mean over its prompts and their samples; means and intervals are over styles.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.continuation.plan import Plan
from evaluation.continuation.prompts import (
    REFERENCE_PASSAGES,
    JudgedPassage,
    PromptedPiece,
    reference_passages,
)
from evaluation.metrics.estimates import estimate, mean
from evaluation.metrics.statistics import STATISTICS, distances, statistics
from evaluation.metrics.style import (
    copied_share,
    diversity,
    in_bars,
    onset_drum,
    profiles,
    quarters,
    similarities,
    track_profiles,
)
from musicgen.common.workers.pool import Workers, as_done, at_most
from musicgen.common.workers.process import Failed
from musicgen.continuation import Generation, continuing, longest_ticks, together
from musicgen.generation.request import Request
from musicgen.generation.sampling import Sampling
from musicgen.playable import Playable
from tokenization.formats import write_score
from tokenization.score import Score, excerpt
from tokenization.whole_file import make_folder, write_whole
from tokenization.wording import listed

# Continuations of prompts by models: written once, stored as files, spread over processes or machines.
#
# A finished prompt is a JSON file with the tokens of its samples, and MIDI files to listen to; it takes its name in
# one step. What is there is not written again, so an interrupted experiment goes on where it was.

Progress = Callable[[int, int], None]
TOGETHER = 32  # samples that are continued in one batch
_EDITION = 2  # changes with how a prompt is continued: then it is continued again


def write_samples(
    model: Playable,
    prompts: Sequence[PromptedPiece],
    plan: Plan,
    folder: Path,
    *,
    workers: Workers = 0,
    progress: Progress = lambda done, total: None,
) -> None:
    """Continue every prompt that has not been continued by this model yet."""
    home = home_of(model, plan, folder)
    make_folder(home, "name another one")
    missing = [p for p in prompts if _kept(home, model, p, plan) is None]
    before = len(prompts) - len(missing)
    progress(before, len(prompts))
    if not missing:
        return
    size = max(1, TOGETHER // plan.samples)
    if isinstance(workers, int) and workers > 1:
        size = min(size, -(-len(missing) // workers))
    groups = [missing[first : first + size] for first in range(0, len(missing), size)]
    # Of a copy, the weights are forgotten when this is done.
    work = partial(_continued, replace(model), plan=plan)
    with closing(as_done(work, groups, workers=at_most(workers, len(groups)))) as answers:
        for index, found in answers:
            if isinstance(found, Failed):
                names = listed([prompt.name for prompt in groups[index]])
                raise ValueError(f"{model.name} cannot continue {names}: {found.reason}")
            for prompt, samples in zip(groups[index], found, strict=True):
                _keep(home, model, prompt, plan, samples)
            before += len(found)
            progress(before, len(prompts))


def _continued(
    model: Playable, prompts: Sequence[PromptedPiece], plan: Plan
) -> list[list[np.ndarray]]:
    """Return what a model writes for some prompts, all of them in one batch."""
    works = [continuing_work(model, prompt, plan) for prompt in prompts]
    for _ in together(works):
        pass
    return [sequences(work, plan) for work in works]


def read_samples(
    model: Playable, prompt: PromptedPiece, plan: Plan, folder: Path
) -> list[np.ndarray]:
    """Return the sequences that a model wrote, each with the prompt at its beginning."""
    kept = _kept(home_of(model, plan, folder), model, prompt, plan)
    if kept is None:
        raise FileNotFoundError(f"{model.name} has not continued {prompt.name} in {folder}")
    return [np.array(ids, dtype=np.uint16) for ids in kept]


def continuing_work(model: Playable, prompt: PromptedPiece, plan: Plan) -> Generation:
    """Return the work to continue a prompt as often and as far as planned."""
    request = Request(
        tokens=plan.tokens - len(prompt.ids),
        variations=plan.samples,
        seed=zlib.crc32(f"{plan.seed} {prompt.name}".encode(errors="replace")),
        sampling=Sampling(temperature=plan.temperature),
    )
    closed = model.language.close(prompt.ids, prompt.bars)
    grammar = continuing(
        model.language,
        prompt.ids,
        prompt_bars=prompt.bars,
        longest_ticks=longest_ticks(model, closed, prompt.piece),
    )
    return Generation(model, prompt.ids, grammar, request)


def sequences(work: Generation, plan: Plan) -> list[np.ndarray]:
    """Return as many valid sequences as planned, of the planned length and broken off there.

    Each has the prompt at its beginning. Without an end token, one that falls silent before may be shorter.
    """
    work.check()
    close = work.model.language.close
    return [close(ids)[: plan.tokens].astype(np.uint16) for ids in work.sequences()]


def home_of(model: Playable, plan: Plan, folder: Path) -> Path:
    """Return the folder of what this very model wrote under this very plan."""
    facts = [model.sha256, model.longest_ticks, asdict(plan), _EDITION]
    asked = json.dumps(facts, sort_keys=True)
    return folder / f"{_plain_name(model.name)}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"


def _keep(
    home: Path, model: Playable, prompt: PromptedPiece, plan: Plan, samples: list[np.ndarray]
) -> None:
    """Write the MIDI files first and last, in one step, the file that says that all is there."""
    facts = _facts(model, prompt, plan)
    stem = _file_name(prompt)
    language = model.language
    for number, ids in enumerate(samples):
        score = language.decode(language.close(ids), prompt.setting)
        write_score(home / f"{stem}.prompt_cont_{number}.mid", score, {**facts, "sample": number})
    text = json.dumps({**facts, "ids": [ids.tolist() for ids in samples]})
    write_whole(home / f"{stem}.json", text.encode())


def _kept(home: Path, model: Playable, prompt: PromptedPiece, plan: Plan) -> list[list[int]] | None:
    """Return the samples of a prompt, or None where there are none or they answer to another prompt."""
    try:
        kept = json.loads((home / f"{_file_name(prompt)}.json").read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    facts = _facts(model, prompt, plan)
    same = isinstance(kept, dict) and facts == {name: kept.get(name) for name in facts}
    return kept["ids"] if same and "ids" in kept else None


def _facts(model: Playable, prompt: PromptedPiece, plan: Plan) -> dict[str, Any]:
    return {
        "model": model.name,
        "weights_sha256": model.sha256,
        **asdict(plan),
        "prompt": prompt.name,
        "prompt_sha256": hashlib.sha256(prompt.ids.astype("<u2").tobytes()).hexdigest(),
    }


def _file_name(prompt: PromptedPiece) -> str:
    """Return a name that no other prompt of the folder has, and any file system takes."""
    return f"{_plain_name(prompt.name)}-{zlib.crc32(prompt.name.encode(errors='replace')):08x}"


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name)[:100].strip(".-") or "unnamed"


# From the rows of the groove experiment to its tables: means over styles with intervals, and distances.

Row = dict[str, Any]

SIMILARITY_KEY = ("output", "against", "track", "metric", "quarter")
MEASURES = ("copied_share", "tokens", "beats")


def summary(
    similarities: Iterable[Row], passages: Sequence[Row], diversities: Iterable[Row]
) -> dict[str, list[Row]]:
    """Return the tables; `values` are those of the styles, sorted by their names."""
    return {
        "similarity": by_style(similarities, SIMILARITY_KEY, "similarity"),
        "variety": _variety(passages, diversities),
        "statistics": _statistics(passages),
    }


def by_style(rows: Iterable[Row], key: Sequence[str], value: str) -> list[Row]:
    """Return a row a key, with the mean over styles of a value and its interval.

    What a passage does not have is in no style's mean; a style of which none has it is missing.
    """
    groups: dict[tuple[Any, ...], dict[str, list[float | None]]] = {}
    for row in rows:
        styles = groups.setdefault(tuple(row[name] for name in key), {})
        styles.setdefault(row["style"], []).append(row[value])
    found = []
    for group, styles in groups.items():
        values = [mean(styles[style]) for style in sorted(styles)]
        known = dict(zip(key, group, strict=True))
        found.append({**known, **asdict(estimate(values)), "values": values})
    return found


def _variety(passages: Sequence[Row], diversities: Iterable[Row]) -> list[Row]:
    tables = [(measure, by_style(passages, ["output"], measure)) for measure in MEASURES]
    tables.append(("diversity", by_style(diversities, ["output"], "diversity")))
    return [
        {"output": row.pop("output"), "measure": measure, **row}
        for measure, rows in tables
        for row in rows
    ]


def _statistics(passages: Sequence[Row]) -> list[Row]:
    """Return the distance of each output's statistics from those of the pieces' own continuations.

    Where there is one style, its pieces are what is taken for independent. Pieces of another style are left out: all
    together, they are the same pieces.
    """
    over = "style" if len({passage["style"] for passage in passages}) > 1 else "prompt"
    outputs: dict[str, list[Row]] = {}
    for passage in passages:
        known = {name: passage[name] for name in (over, *STATISTICS)}
        outputs.setdefault(passage["output"], []).append(known)
    real = outputs.pop(REFERENCE_PASSAGES["piece"], [])
    outputs.pop(REFERENCE_PASSAGES["other"], None)
    return [
        {"output": output, "unit": STATISTICS[row.statistic].unit, "over": over, **asdict(row)}
        for output, rows in outputs.items()
        for row in distances(rows, real, over)
    ]


ProgressBar = Callable[[str], AbstractContextManager[Progress]]

SAMPLES = "samples"  # the folder of what models wrote, inside the experiment's
PITCHED, DRUMS = "pitched", "drums"  # stand for all tracks of their kind
REFERENCES = ("prompt", "piece")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All that was measured, in rows."""

    similarities: list[Row] = field(default_factory=list)  # of a part of a passage to a reference
    passages: list[Row] = field(default_factory=list)  # what else is known of each continuation
    diversities: list[Row] = field(default_factory=list)  # one of the samples of a model and prompt


def run(
    models: Sequence[Playable],
    prompts: Sequence[PromptedPiece],
    plan: Plan,
    folder: Path,
    *,
    workers: Workers = 0,
    progress_bar: ProgressBar = lambda title: nullcontext(lambda done, total: None),
) -> tuple[Measured, dict[str, Any]]:
    """Write what is missing of the continuations into a folder, measure them all, and sum up."""
    for model in models:
        with progress_bar(f"{model.name}: prompts") as progress:
            write_samples(
                model, prompts, plan, folder / SAMPLES, workers=workers, progress=progress
            )
    with progress_bar("Measuring: prompts") as progress:
        measured = measure(models, prompts, plan, folder, progress)
    results = {
        "experiment": "continuation",
        "settings": asdict(plan),
        "models": [_model_facts(model) for model in models],
        "yardsticks": list(REFERENCE_PASSAGES.values()),
        "prompts": len(prompts),
        "styles": len({prompt.style for prompt in prompts}),
        **summary(measured.similarities, measured.passages, measured.diversities),
    }
    return measured, results


def _model_facts(model: Playable) -> Row:
    """Return what identifies a model, as plain data."""
    return {
        "name": model.name,
        "sha256": model.sha256 or None,
        "language": model.language.name,
        "trained_length": model.trained_length or None,
        "number": model.number,
    }


def measure(
    models: Sequence[Playable],
    prompts: Sequence[PromptedPiece],
    plan: Plan,
    folder: Path,
    progress: Progress = lambda done, total: None,
) -> Measured:
    """Compare what the models wrote, and the reference passages, with prompts and pieces."""
    measured, language = Measured(), models[0].language
    for done, prompt in enumerate(prompts, start=1):
        for model in models:
            samples = read_samples(model, prompt, plan, folder / SAMPLES)
            passages = [prompt.passage(language, ids, len(prompt.ids)) for ids in samples]
            _add(measured, model.name, prompt, passages)
        for name, passage in reference_passages(
            language, prompts, prompt, plan.tokens, plan.seed
        ).items():
            _add(measured, REFERENCE_PASSAGES[name], prompt, [] if passage is None else [passage])
        progress(done, len(prompts))
    return measured


def _add(
    measured: Measured, output: str, prompt: PromptedPiece, passages: Sequence[JudgedPassage]
) -> None:
    """Add the rows of some continuations of one prompt."""
    shared = {"output": output, "prompt": prompt.name, "style": prompt.style}
    for number, passage in enumerate(passages):
        row = {**shared, "sample": number}
        music = excerpt(passage.score, passage.start_ticks)
        measured.similarities.extend({**row, **one} for one in compared(prompt, music))
        measured.passages.append({**row, **_described(prompt, passage, music)})
    if len(passages) > 1:
        value = diversity([passage.new_ids for passage in passages])
        measured.diversities.append({**shared, "samples": len(passages), "diversity": value})


def compared(prompt: PromptedPiece, music: Score) -> Iterator[Row]:
    """Yield the similarities of a continuation, the whole (no quarter) and its quarters, to both references."""
    parts = {None: music, **dict(enumerate(quarters(music), start=1))}
    found = {quarter: _profiles(part) for quarter, part in parts.items()}
    for against, reference in zip(REFERENCES, (prompt.score, prompt.piece), strict=True):
        expected = _profiles(reference)
        for quarter, histograms in found.items():
            for (track, metric), value in similarities(expected, histograms).items():
                yield {
                    "against": against,
                    "track": track,
                    "metric": metric,
                    "quarter": quarter,
                    "similarity": value,
                }


def _profiles(score: Score) -> Mapping[tuple[str, str], np.ndarray]:
    """Return the histograms of all pitched tracks, of the drums, and of each pitched track."""
    drums = onset_drum(in_bars(score)[score.on_drums], score.ticks_per_beat)
    together = {(PITCHED, metric): value for metric, value in profiles(score).items()}
    by_track = {k: v for k, v in track_profiles(score).items() if k[1] != "onset_drum"}
    return {**together, (DRUMS, "onset_drum"): drums, **by_track}


def _described(prompt: PromptedPiece, passage: JudgedPassage, music: Score) -> Row:
    return {
        "tokens": len(passage.new_ids),
        "beats": music.end_ticks / music.ticks_per_beat,
        "copied_share": copied_share(passage.new_ids, prompt.ids),
        **statistics(music),
    }
