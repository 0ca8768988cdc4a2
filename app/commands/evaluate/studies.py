"""The experiments with trained models as commands, on held-out pieces or on the model alone.

`musicgen evaluate extrapolation`, `ablation`, `positions`, `continuation`, `form`, `infilling`, `gaps`,
`tracks`, `accompaniment`, `plan`, `realism` and `originality`.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from app import output
from app.commands.evaluate import sheets
from app.commands.evaluate.study_options import KEPT, add_split, add_study, run_experiment
from app.options import check_counts, chosen_device, from_options
from evaluation.tables import ABOUT
from musicgen.generation.sampling import MUSICAL
from tokenization.wording import filled

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable

MOST_BARS_OF_A_GAP = 16
PIECES = 20  # to use, unless the number is given
PARTS = ("bass", "drums", "other")
# Experiments that only music in a language with an ability allows.
NEEDED = {"infilling": "rewrite", "gaps": "rewrite", "tracks": "accompany", "plan": "plan"}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The title of an experiment's progress bar, and the options of its command with their default values."""

    doing: str
    examples: tuple[str, ...]
    results: str = "the results as JSON"
    split: str = "validation"
    options: Mapping[str, Any] = field(default_factory=dict)


RECALL = {"recall": MUSICAL.recall}
WRITING = {"prompt-bars": 8, "skip": 0}
EVALUATIONS = {
    "extrapolation": Evaluation(
        doing="Reading pieces", results="extrapolation.json and .png",
        options={"pieces": 32, "length": None, "control": False},
        examples=(
            "ensemble --data data/pop909 --length 8192 --control",
            "runs/ape runs/sine --data data/pop909 --length 3072 -o compared",
        ),
    ),
    "ablation": Evaluation(
        doing="Removing parts", results="ablation.json", options={"pieces": 32, "length": None, "layers": False},
        examples=(
            "ensemble --data data/pop909",
            "ensemble --data data/pop909 --layers --pieces 12",
            "runs/none runs/sine --data data/groove --length 1024 --json",
        ),
    ),
    "positions": Evaluation(
        doing="Probing", results="positions.json and pictures",
        examples=("ensemble", "runs/ape runs/sine -o positions"),
    ),
    "continuation": Evaluation(
        doing="Continuing", split="test",
        options={**WRITING, "prompt-bars": 2, "tokens": 1024, "samples": 3, "temperature": 0.6},
        examples=(
            "runs/groove runs/mine --data data/groove",
            "ensemble --data data/pop909 --pieces 40 --samples 5 --json",
        ),
    ),
    "form": Evaluation(
        doing="Continuing", options={**WRITING, "bars": 56, **RECALL, "no-plan": False},
        examples=(
            "runs/mine --data data/pop909",
            "runs/groove --data data/groove --prompt-bars 4 --bars 28 --pieces 40 --json",
        ),
    ),
    "infilling": Evaluation(
        doing="Filling", options={"skip": 0, "gap": 4, **RECALL},
        examples=(
            "runs/mine --data data/pop909",
            "runs/mine --data data/mine --split test --gap 8 --pieces 40 --json",
        ),
    ),
    "gaps": Evaluation(
        doing="Filling", options={"skip": 0, "gap": 4},
        examples=("ensemble --data data/pop909", "runs/mine --data data/lieder --pieces 40 --json"),
    ),
    "tracks": Evaluation(
        doing="Continuing", options={**WRITING, "bars": 16},
        examples=("ensemble --data data/pop909", "runs/mine --data data/quartets --bars 32 --json"),
    ),
    "accompaniment": Evaluation(
        doing="Accompanying", split="test",
        options={"pieces": None, "skip": 0, "hide": PARTS, "bars": 8, "hear-chords": False},
        examples=(
            "--sheets lead-sheets.tar.xz -o bands",
            "runs/mine --data data/groove",
            "runs/mine --data data/groove --hide drums --bars 16 --pieces 40 --json",
        ),
    ),
    "plan": Evaluation(
        doing="Continuing", split="test", options={**WRITING, "bars": 16},
        examples=("ensemble --data data/pop909", "runs/mine --data data/lieder --pieces 10 --json"),
    ),
    "realism": Evaluation(
        results="realism.json, and choices-1.png of the takes that the model's critic chose and left",
        doing="Continuing", split="test",
        options={**WRITING, "pieces": 40, "lessons": 240, "bars": 16, "takes": 1, **RECALL, "no-plan": False},
        examples=(
            "ensemble --data data/pop909 -o runs/realism",
            "ensemble --data data/lieder --split validation --pieces 24 --takes 8 -o runs/realism",
        ),
    ),
    "takes": Evaluation(  # of the report only, which plays them
        doing="Composing", split="test", options={**WRITING, "bars": 24}, examples=(),
    ),
    "originality": Evaluation(
        doing="Continuing", split="test", options={**WRITING, "bars": 24, **RECALL, "no-plan": False},
        examples=(
            "ensemble --data data/pop909",
            "runs/mine --data data/lieder --split validation --pieces 12 --json",
        ),
    ),
}  # fmt: skip
OPTIONS = {
    "pieces": "pieces to use",
    "skip": "leave out the first N pieces, such as those that --pieces N has measured before",
    "length": "tokens to read of each piece (default: 4 times the trained length)",
    "control": "also predict the tokens past the trained length from the last tokens only",
    "layers": "remove one layer at a time instead of parts",
    "prompt-bars": "bars in the prompt",
    "bars": "bars to write of each piece",
    "tokens": "tokens of prompt and continuation together",
    "samples": "continuations per prompt",
    "lessons": "training pieces from which the critics learn",
    "takes": "takes of each piece; the best of 2, 4 … N, which the model's critic chooses, is judged, too",
    "temperature": "temperature of sampling",
    "gap": f"bars to remove, at most {MOST_BARS_OF_A_GAP}",
    "hide": f"the parts to hide, one at a time: {', '.join(PARTS)} (default: all)",
    "hear-chords": "use chords recognised in the other parts, instead of those of the piece",
    "recall": "weight of what the model recalls from the piece, 0 to 1",
    "no-plan": "write no plan before the notes of a bar; this excludes endings",
}
EXAMPLES = {
    name: "\n".join([
        fill(filled(ABOUT[name]), 100), "", "examples:",
        *(f"  musicgen evaluate {name} {words}" for words in evaluation.examples),
    ])
    for name, evaluation in EVALUATIONS.items()
}  # fmt: skip


def add(parser: argparse.ArgumentParser, name: str) -> None:
    evaluation = EVALUATIONS[name]
    accompanies = name == "accompaniment"
    add_study(parser, results=evaluation.results, models="*" if accompanies else "+")
    if name == "positions":
        parser.add_argument(
            "--tokens", type=int, default=64, metavar="N", help="probe with N tokens (default: 64)"
        )
        return
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", type=Path, metavar="DEST", help="a prepared data set")
    if accompanies:
        sheets.add(data)
    add_split(parser, evaluation.split)
    for option, value in {"pieces": PIECES, **evaluation.options}.items():
        how: dict[str, Any] = {"type": type(value), "default": value, "metavar": "N"}
        if value is False:
            how = {"action": "store_true"}
        elif value is None:
            how = {"type": int, "metavar": "N"}
        elif value is PARTS:
            how = {"nargs": "+", "choices": PARTS, "default": [*PARTS], "metavar": "PART"}
        parser.add_argument(f"--{option}", help=OPTIONS[option], **how)


def run(arguments: argparse.Namespace) -> None:
    """Run the experiment, write the results and print the table."""
    if getattr(arguments, "sheets", None) is not None:
        sheets.run(arguments)
        return
    from evaluation.study.experiments import models_of
    from evaluation.tables import table_of

    if not arguments.models:
        raise ValueError("name at least one model, such as ensemble")
    name: str = arguments.evaluation
    experiment = experiment_of(models_of(arguments.models), arguments)
    indexes = name == "originality" and not _is_stored(experiment, arguments.output)
    with _indexed(experiment) if indexes else nullcontext(experiment) as experiment:
        result = run_experiment(name, experiment, arguments, EVALUATIONS[name].doing)
    if not any(model.get("table", True) for model in result["models"]):
        raise ValueError(
            f"the {result['pieces']} pieces of {result['data']} have nothing to measure: "
            "a part can be hidden only if there is another one"
        )
    if arguments.output is not None:
        _write(arguments.output, name, result)
    text = output.captioned(table_of(name, result), across=name != "positions")
    shown = result["models"] if name == "ablation" else result
    where = (
        f"Measured on {result['pieces']} pieces of {result['data']}." if "data" in result else ""
    )
    output.write_result(arguments.json, shown, text, *[where] if where else [])
    if name == "originality" and not arguments.json:
        _print_closest(result)


def _is_stored(experiment: Experiment, folder: Path | None) -> bool:
    """Return whether the output folder has the results of all jobs."""
    keys = (job.key for _, job in experiment.jobs)
    return folder is not None and all((folder / KEPT / f"{key}.json").is_file() for key in keys)


@contextmanager
def _indexed(experiment: Experiment) -> Iterator[Experiment]:
    """Yield an experiment whose processes on this machine share an index of the training pieces."""
    from evaluation.study.originality import collected

    assert experiment.prepared is not None, "it is on pieces"
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "passages.npz"
        with output.progress_bar("Indexing training pieces") as progress:
            collected(str(experiment.prepared.folder), progress).write(index)
        jobs = [
            (playable, replace(job, places={**job.places, "index": str(index)}))
            for playable, job in experiment.jobs
        ]
        yield replace(experiment, jobs=jobs)


def experiment_of(models: Sequence[Playable], arguments: argparse.Namespace) -> Experiment:
    """Return the experiment with its options."""
    from evaluation.study import (
        ablation,
        accompaniment,
        continuation,
        extrapolation,
        form_and_infilling,
        gaps,
        originality,
        positions,
        realism,
        takes,
        tracks,
    )
    from evaluation.study.piece_jobs import Choice, piece_experiment

    device = chosen_device(arguments)
    if arguments.evaluation == "positions":
        check_counts(arguments, "tokens")
        drawn = arguments.output is not None
        how = {"tokens": arguments.tokens, "seed": arguments.seed, "drawn": drawn}
        return positions.positions(models, device=device, **how)
    name: str = arguments.evaluation
    options = {
        option.replace("-", "_"): getattr(arguments, option.replace("-", "_"))
        for option in EVALUATIONS[name].options
        if option not in ("pieces", "skip")
    }
    if "no_plan" in options:
        options["planned"] = not options.pop("no_plan")
    if name in ("infilling", "gaps") and arguments.gap > MOST_BARS_OF_A_GAP:
        raise ValueError(
            f"--gap is {arguments.gap}; at most {MOST_BARS_OF_A_GAP} bars can be filled at once"
        )
    if "recall" in options:
        replace(MUSICAL, recall=arguments.recall)  # raises ValueError for a wrong value
    counts = (
        "length",
        "prompt-bars",
        "bars",
        "gap",
        "pieces",
        "samples",
        "tokens",
        "takes",
        "lessons",
    )
    check_counts(arguments, *counts)
    if arguments.pieces is None:
        arguments.pieces = PIECES
    if name == "originality" and arguments.bars < originality.BARS:
        raise ValueError(
            f"--bars is {arguments.bars}; it must be {originality.BARS} or more, the length of a passage"
        )
    if "skip" in arguments and arguments.skip < 0:
        raise ValueError(f"--skip is {arguments.skip}; it must be 0 or more")
    choice = from_options(Choice, arguments, data=str(arguments.data), device=device)
    language = choice.prepared.language
    if name in NEEDED and NEEDED[name] not in language.abilities:
        raise ValueError(
            f"{name} needs music in the language ensemble; {choice.data} is in {language.name}"
        )
    if name == "extrapolation":
        return extrapolation.extrapolation(models, choice, **options)
    if name == "ablation":
        return ablation.ablation(models, choice, **options)
    if name == "realism":
        return realism.realism(models, choice, **options)
    measures: dict[str, Any] = {
        "accompaniment": accompaniment.accompanied,
        "continuation": continuation.measure_continuation,
        "form": form_and_infilling.measure_form,
        "infilling": form_and_infilling.measure_infilling,
        "gaps": gaps.measure_gaps,
        "tracks": tracks.measure_tracks,
        "plan": form_and_infilling.measure_plan,
        "originality": originality.measure_originality,
        "takes": takes.write_takes,
    }
    if name == "accompaniment":
        options |= {"language": "ensemble", "with_others": True}
    elif name == "continuation":
        options |= {"fewest_bars": arguments.prompt_bars + 1, "with_others": True}
    elif name == "infilling":
        options["fewest_bars"] = arguments.gap + 2
    elif name == "gaps":
        options["fewest_bars"] = 4 * arguments.gap
    else:
        # Plans replace the rest of a piece.
        compared = 0 if name in ("plan", "takes") else arguments.bars
        options["fewest_bars"] = arguments.prompt_bars + compared
    return piece_experiment(name, measures[name], models, choice, **options)


def _write(folder: Path, name: str, result: dict[str, Any]) -> None:
    """Write a result as JSON, and its figures."""
    from evaluation import figures
    from tokenization.whole_file import write_bytes, write_json

    write_json(folder / f"{name}.json", result)
    drawn = {}
    if name == "extrapolation":
        drawn = {name: figures.extrapolation(result)}
    elif name == "positions":
        drawn = {"probes": figures.probes(result)}
        for number, model in enumerate(result["models"], 1):
            file = re.sub(r"[^\w.+-]+", "-", f"{number}-{model['model']}")
            drawn |= {f"{kind}-{file}": one for kind, one in figures.pictures(model).items()}
    elif name == "realism":
        for number, model in enumerate(result["models"], 1):
            if model["choices"]:
                drawn[f"choices-{number}"] = figures.choices(model)
    for file, one in drawn.items():
        write_bytes(folder / f"{file}.png", figures.png(one))


def _print_closest(found: dict[str, Any]) -> None:
    """Print the written passages that are most similar to one in the training pieces."""
    from evaluation.study.originality import closest_cases

    for model in found["models"]:
        output.write(f"\nClosest passages of {model['model']}")
        cases = [
            [f"{case['likeness']:.2f}", case["piece"], case["bar"] + 1, case["of"], case["at"] + 1]
            for case in closest_cases(model["rows"])
        ]
        head = ["similarity", "piece", "bar", "training piece", "bar"]
        output.write(output.table([head, *cases]))
