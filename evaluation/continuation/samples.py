"""Continuations of prompts by models: written once, stored as files, spread over processes or machines.

A finished prompt is a JSON file with the tokens of its samples, and MIDI files to listen to; it takes its name in one
step. What is there is not written again, so an interrupted experiment goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.continuation.plan import Plan
from evaluation.continuation.prompts import PromptedPiece
from musicgen.common.workers.pool import Workers, as_done, at_most
from musicgen.common.workers.process import Failed
from musicgen.continuation import Generation, longest_ticks, together
from musicgen.generation.sampling import Sampling
from musicgen.options import Options
from musicgen.playable import Playable
from tokenization.continuing import continuing
from tokenization.formats import write_score
from tokenization.whole_file import make_folder, write_whole
from tokenization.wording import listed

Progress = Callable[[int, int], None]
TOGETHER = 32  # samples that are continued in one batch
_EDITION = 2  # changes with how a prompt is continued: then it is continued anew


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
    options = Options(
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
    new = plan.tokens - len(prompt.ids)
    return Generation(model, prompt.ids, grammar, options, tokens=new)


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
