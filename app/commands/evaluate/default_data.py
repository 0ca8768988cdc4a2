"""The option that names a prepared data set; without it, the one in the folder `data` that a model learned from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from musicgen.playable import Playable

DATA = Path("data")  # where the examples of `musicgen data` write


def add_data(parser: argparse.ArgumentParser, of: str = "") -> None:
    """Declare the option; `of` says what the pieces have to be."""
    parser.add_argument(
        "--data", type=Path, metavar="DEST",
        help=f"a prepared data set{of} (default: the one in ./data that the first model learned from)",
    )  # fmt: skip


def data_of(playables: Sequence[Playable]) -> Path:
    """Return the data set of the first model that learned from one; if it is not here, say how to make it."""
    from app.commands.data import DESCRIPTIONS

    learned = next((playable for playable in playables if "data" in playable.training), None)
    if learned is None:
        raise ValueError(
            f"{playables[0].name} has learned from no data; name a prepared data set with --data"
        )
    folder = _folder_of(learned)
    if folder is None:
        title = str(learned.training["data"])
        kind = next((kind for kind in DESCRIPTIONS if kind in title.lower()), "midi")
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
    from tokenization.set_description import read_meta

    found = {}
    for path in sorted(DATA.glob("*/meta.json")):
        try:
            meta = read_meta(path.parent)
        except ValueError:
            continue
        if meta["language"]["language"] == language:
            found[path.parent] = meta
    return found
