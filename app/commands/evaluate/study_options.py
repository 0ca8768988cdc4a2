"""Shared by the evaluations of models: options, finding the training data, and running the experiments."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import output
from app.options import add_device, add_workers, workers_of

if TYPE_CHECKING:
    from evaluation.study.experiments import Experiment
    from musicgen.playable import Playable


DATA = Path("data")  # where the examples of `musicgen data` put prepared sets


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare --data."""
    parser.add_argument(
        "--data", type=Path, metavar="DEST",
        help="a prepared data set (default: the one in ./data that the first model was trained on)",
    )  # fmt: skip


def data_of(playables: Sequence[Playable]) -> Path:
    """Return the prepared set of the first trained model; raise an error that says how to make it if it is missing."""
    from training.data.sources import SOURCES

    learned = next((playable for playable in playables if "data" in playable.training), None)
    if learned is None:
        raise ValueError(
            f"{playables[0].name} was not trained on data; name a prepared data set with --data"
        )
    folder = _folder_of(learned)
    if folder is None:
        title = str(learned.training["data"])
        kind = next((kind for kind in SOURCES if kind in title.lower()), "midi")
        raise FileNotFoundError(
            f"{learned.name} was trained on {title}, which is not among the prepared data sets in {DATA}: "
            f"prepare it with `musicgen data {kind} SOURCE {_destination(kind, learned.language.name)}`, "
            "or name another one with --data"
        )
    return folder


def _destination(kind: str, language: str) -> str:
    """Return the folder to prepare, with --language if the source has another default."""
    from training.data.sources import SOURCES

    if SOURCES[kind].language == language:
        return str(DATA / kind)
    return f"{DATA / f'{kind}-{language}'} --language {language}"


def data_by_language(playables: Sequence[Playable]) -> list[Path]:
    """Return the available prepared sets: for each language, that of the first model."""
    found: dict[str, Path] = {}
    for playable in playables:
        folder = _folder_of(playable)
        if folder is not None:
            found.setdefault(playable.language.name, folder)
    return list(found.values())


def _folder_of(playable: Playable) -> Path | None:
    """Find a model's prepared set by the checksum in its card, else by a title in it, else by the model's name.

    Of several sets that the model was trained on, it is the first one with held-out pieces.
    """
    if "data" not in playable.training:
        return None
    here, learned = _sets(playable.language.name), f", {playable.training['data']}, "
    titles = {folder: f", {meta.get('source', {}).get('title')}, " for folder, meta in here.items()}
    of_several = sorted(
        (learned.index(titles[folder]), folder)
        for folder, meta in here.items()
        if titles[folder] in learned and meta["counts"]["validation"]["pieces"]
    )
    found = [
        *(f for f, meta in here.items() if meta["checksum"] == playable.training.get("checksum")),
        *(folder for folder in here if titles[folder] == learned),
        *(folder for _, folder in of_several),
        *(folder for folder in here if folder.name == playable.name),
    ]
    return next(iter(found), None)


def _sets(language: str) -> dict[Path, dict[str, Any]]:
    """Return the prepared sets of a language with their descriptions, sorted by name."""
    from tokenization.prepared import read_meta

    found = {}
    for path in sorted(DATA.glob("*/meta.json")):
        try:
            meta = read_meta(path.parent)
        except ValueError:
            continue
        if meta["language"]["language"] == language:
            found[path.parent] = meta
    return found


KEPT = ".results"  # the subfolder of the output folder with all measurements


def add_study(parser: argparse.ArgumentParser, results: str = "") -> None:
    """Declare the shared options; with `results`, a description of the files, also -o and --json."""
    if results:
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR",
            help=f"folder for {results}; an interrupted command resumes from it",
        )  # fmt: skip
        output.add_json(parser)
    parser.add_argument(
        "models", metavar="MODEL", nargs="+",
        help="names that `musicgen models` lists, folders, or untrained:tiny[:groove]",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="random seed")
    add_device(parser)
    add_workers(parser)


def add_choice(parser: argparse.ArgumentParser, pieces: int, split: str = "validation") -> None:
    """Declare --pieces and --split."""
    parser.add_argument("--pieces", type=int, default=pieces, metavar="N", help="pieces to use")
    parser.add_argument(
        "--split", choices=("train", "validation", "test"), default=split,
        help="part of the data to use",
    )  # fmt: skip


def add_length(parser: argparse.ArgumentParser) -> None:
    """Declare --length."""
    parser.add_argument(
        "--length", type=int, metavar="N",
        help="tokens to read of each piece (default: 4 times the trained length)",
    )  # fmt: skip


def seed(text: str) -> int:
    """Parse a seed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def run_experiments(
    experiments: Mapping[str, Experiment], arguments: argparse.Namespace, doing: str
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Run experiments with a progress bar titled `doing`; return their results, and remarks on what failed.

    The output folder keeps the results, and those that it already has are not computed again.
    """
    from evaluation.study.experiments import conduct

    folder = getattr(arguments, "output", None)
    kept = None if folder is None else Path(folder) / KEPT
    workers = workers_of(arguments)
    with output.progress_bar(doing) as progress:
        return conduct(experiments, folder=kept, workers=workers, progress=progress)


def run_experiment(
    name: str, experiment: Experiment, arguments: argparse.Namespace, doing: str
) -> dict[str, Any]:
    """Run one experiment and print remarks on what is left out; return the result with its command."""
    left_out = [*experiment.facts.get("left_out", ())]
    output.remark(left_out)
    found, failures = run_experiments({name: experiment}, arguments, doing)
    output.remark(failures)
    result = {"command": command_line(), **found[name], "left_out": left_out + failures}
    if not result["models"]:
        why = "; ".join(failures) or "no model has a part to remove"
        raise ValueError(f"no model could be measured: {why}")
    return result


def command_line() -> str:
    """Return the command line of this process."""
    return shlex.join(["musicgen", *sys.argv[1:]])
