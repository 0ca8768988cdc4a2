"""Options shared by several commands: counts, language, tracks, devices, workers and the output folder."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

from tokenization.whole_file import make_folder, write_bytes, write_json

T = TypeVar("T")


def check_counts(arguments: argparse.Namespace, *options: str) -> None:
    """Raise ValueError if one of these options is below 1; options that are not given, or do not exist, pass."""
    for option in options:
        value = getattr(arguments, option.replace("-", "_"), None)
        if value is not None and value < 1:
            raise ValueError(f"--{option} is {value}; it must be 1 or more")


def from_options(kind: type[T], arguments: argparse.Namespace, **others: Any) -> T:
    """Build a dataclass from the options named like its fields; `others` take precedence."""
    names = [field.name for field in fields(cast(Any, kind)) if field.name in arguments]
    return kind(**{**{name: getattr(arguments, name) for name in names}, **others})


def add_language(
    parser: argparse.ArgumentParser,
    default: str | None,
    among: tuple[str, ...] = (),
    otherwise: str = "",
) -> None:
    """Declare --language, for all languages or those `among` them; `otherwise` describes a missing default."""
    from tokenization.language import LANGUAGES

    named = {name: title for name, title in LANGUAGES.items() if not among or name in among}
    parser.add_argument(
        "--language", choices=[*named], default=default,
        help="; ".join(f"{name}: {title}" for name, title in named.items())
        + f" (default: {default or otherwise})",
    )  # fmt: skip


def add_tracks(parser: argparse.ArgumentParser) -> None:
    """Declare --tracks."""
    parser.add_argument(
        "--tracks", nargs="+", metavar="TRACK",
        help="tracks to use, by name or number; for the language groove, bass=… drums=… other=… (default: detected)",
    )  # fmt: skip


def tracks_of(words: list[str] | None, language: str) -> Any:
    """Return the value of --tracks in the form that the language takes."""
    if words is None or language != "groove":
        return words
    from tokenization.groove.spelling import PARTS

    parts = (word.partition("=") for word in words)
    named = {role: tracks.split(",") for role, _, tracks in parts}
    if not {*named} <= {*PARTS} or len(named) != len(words):
        raise ValueError(
            f"--tracks {' '.join(words)} is not possible in groove: use bass=…, drums=… and other=…, each at most once"
        )
    return named


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare --device."""
    parser.add_argument(
        "--device", default="auto", metavar="auto|cpu|cuda|mps",
        help="the device to compute on; auto uses a GPU if one is available",
    )  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Declare --workers and --scheduler, which exclude each other."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=int, metavar="N", help="number of processes (default: one per processor)"
    )
    where.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="run on the workers of a dask scheduler, such as tcp://HOST:8786; they need musicgen with its "
        "extra `cluster`, and the same files",
    )  # fmt: skip


def chosen_device(arguments: argparse.Namespace) -> str:
    """Return the device that --device selects."""
    from musicgen.playable import device_of

    return device_of(arguments.device)


def workers_of(arguments: argparse.Namespace) -> int | str:
    """Return the scheduler's address, or the number of processes, which is 1 by default on a GPU."""
    from musicgen.common.processes import processors

    if arguments.scheduler:
        return arguments.scheduler
    check_counts(arguments, "workers")
    return arguments.workers or (processors() if chosen_device(arguments) == "cpu" else 1)


# The output folder without -o. A repeated request finds its own folder again. A different request gets a new folder,
# with copies of the measurements in the others: these are stored by what was measured, not by request.

REQUEST_FILE = ".asked.json"  # the request, in its folder
# Options that do not change the results: an interrupted request can be resumed with other values of these.
WITHOUT_EFFECT = ("command", "output", "json", "workers", "scheduler", "device")


def default_folder(name: str, arguments: argparse.Namespace) -> Path:
    """Return the first of NAME, NAME-2, … that does not exist or belongs to the same request."""
    asked = _request(arguments)
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(f for f in map(Path, names) if not f.exists() or _recorded_request(f) == asked)


def claim(folder: Path, arguments: argparse.Namespace, *reused: str) -> None:
    """Record the request in its folder; a new folder gets copies of the subfolders `reused` of its neighbours."""
    others = [] if folder.exists() else sorted(folder.parent.glob(f"*/{REQUEST_FILE}"))
    make_folder(folder, "give another one with -o")
    write_json(folder / REQUEST_FILE, _request(arguments))
    for source, name in ((other.parent / name, name) for other in others for name in reused):
        for file in (path for path in source.rglob("*") if path.is_file()):
            if not file.match(".*.part"):
                write_bytes(folder / name / file.relative_to(source), file.read_bytes())


def _request(arguments: argparse.Namespace) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in sorted(vars(arguments).items())
        if name not in WITHOUT_EFFECT and not callable(value)
    }


def _recorded_request(folder: Path) -> dict[str, str] | None:
    try:
        return json.loads((folder / REQUEST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
