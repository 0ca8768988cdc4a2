"""What the evaluations of models have in common: options, the data that models learned from, doing their jobs."""

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


DATA = Path("data")  # where the examples of `musicgen data` write


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--data", type=Path, metavar="DEST",
        help="a prepared data set (default: the one in ./data that the first model learned from)",
    )  # fmt: skip


def data_of(playables: Sequence[Playable]) -> Path:
    """Return the data set of the first model that learned from one; if it is not here, say how to make it."""
    from training.data.sources import SOURCES

    learned = next((playable for playable in playables if "data" in playable.training), None)
    if learned is None:
        raise ValueError(
            f"{playables[0].name} has learned from no data; name a prepared data set with --data"
        )
    folder = _folder_of(learned)
    if folder is None:
        title = str(learned.training["data"])
        kind = next((kind for kind in SOURCES if kind in title.lower()), "midi")
        raise FileNotFoundError(
            f"{learned.name} learned from {title}, which is not among the prepared data sets in {DATA}; "
            f"`musicgen data {kind} SOURCE {_place(kind, learned.language.name)}` prepares it, "
            "or name another with --data"
        )
    return folder


def _place(kind: str, language: str) -> str:
    """Return the folder to prepare, and the model's language where the source takes another one by itself."""
    from training.data.sources import SOURCES

    if SOURCES[kind].language == language:
        return str(DATA / kind)
    return f"{DATA / f'{kind}-{language}'} --language {language}"


def data_by_language(playables: Sequence[Playable]) -> list[Path]:
    """Return the data sets that are here, that of the first model of each language."""
    found: dict[str, Path] = {}
    for playable in playables:
        folder = _folder_of(playable)
        if folder is not None:
            found.setdefault(playable.language.name, folder)
    return list(found.values())


def _folder_of(playable: Playable) -> Path | None:
    """Return the set with the checksum in the model's card, else with a title there, else with the model's name.

    Of several sets that a model learned from, it is the first one that holds pieces out.
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
    """Return the prepared data sets of a language and their descriptions, by name."""
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


KEPT = ".results"  # the folder of what was measured, inside that of the output


def add_study(parser: argparse.ArgumentParser, results: str = "") -> None:
    """Declare what all take; with `results`, the folder that such files go to, and --json instead of it."""
    if results:
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR",
            help=f"folder for {results}; interrupted, it goes on there",
        )  # fmt: skip
        output.add_json(parser)
    parser.add_argument(
        "models", metavar="MODEL", nargs="+",
        help="models of `musicgen models`, folders, or untrained:tiny[:groove]",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of all that is drawn")
    add_device(parser)
    add_workers(parser)


def add_choice(parser: argparse.ArgumentParser, pieces: int, split: str = "validation") -> None:
    """Declare how many pieces are taken, and from which part of the data."""
    parser.add_argument("--pieces", type=int, default=pieces, metavar="N", help="how many")
    parser.add_argument(
        "--split", choices=("train", "validation", "test"), default=split, help="part of the data"
    )


def add_length(parser: argparse.ArgumentParser) -> None:
    """Declare how far pieces are read."""
    parser.add_argument(
        "--length",
        type=int,
        metavar="N",
        help="tokens a piece (default: 4 times the trained length)",
    )


def seed(text: str) -> int:
    """Read a seed as it is typed."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed, which is a whole number, 0 or more")
    return int(text)


def conducted(
    experiments: Mapping[str, Experiment], arguments: argparse.Namespace, doing: str
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the results of experiments, and sentences about what failed; results in the output folder are kept.

    A bar shows how far `doing` it has come.
    """
    from evaluation.study.experiments import conduct

    folder = getattr(arguments, "output", None)
    kept = None if folder is None else Path(folder) / KEPT
    workers = workers_of(arguments)
    with output.progress_bar(doing) as progress:
        return conduct(experiments, folder=kept, workers=workers, progress=progress)


def conducted_alone(
    name: str, experiment: Experiment, arguments: argparse.Namespace, doing: str
) -> dict[str, Any]:
    """Return the result of one experiment with its command; what is left out of it is said."""
    left_out = [*experiment.facts.get("left_out", ())]
    output.remark(left_out)
    found, failures = conducted({name: experiment}, arguments, doing)
    output.remark(failures)
    result = {"command": command_line(), **found[name], "left_out": left_out + failures}
    if not result["models"]:
        why = "; ".join(failures) or "no model has a part to take away"
        raise ValueError(f"no model could be measured: {why}")
    return result


def command_line() -> str:
    """Return the command that is running."""
    return shlex.join(["musicgen", *sys.argv[1:]])
