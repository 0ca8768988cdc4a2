"""Options that several commands have: counts, language, files, tracks, where work is done, the folder of results."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

from tokenization.whole_file import make_folder, write_bytes, write_json

T = TypeVar("T")


def check_counts(arguments: argparse.Namespace, *options: str) -> None:
    """Refuse what is below 1; options that were left out, or that a command lacks, are not looked at."""
    for option in options:
        value = getattr(arguments, option.replace("-", "_"), None)
        if value is not None and value < 1:
            raise ValueError(f"--{option} is {value}; it must be 1 or more")


def from_options(kind: type[T], arguments: argparse.Namespace, **others: Any) -> T:
    """Return a dataclass whose fields are what the options of their names say, but for the `others`."""
    names = [field.name for field in fields(cast(Any, kind)) if field.name in arguments]
    return kind(**{**{name: getattr(arguments, name) for name in names}, **others})


def add_language(
    parser: argparse.ArgumentParser,
    default: str | None,
    among: tuple[str, ...] = (),
    otherwise: str = "",
) -> None:
    """Declare the option, for all languages or some; `otherwise` is taken without a default."""
    from tokenization.language import LANGUAGES

    named = {name: title for name, title in LANGUAGES.items() if not among or name in among}
    parser.add_argument(
        "--language", choices=[*named], default=default,
        help="; ".join(f"{name}: {title}" for name, title in named.items())
        + f" (default: {default or otherwise})",
    )  # fmt: skip


STANDARD_INPUT = "-"


def read_given(file: str, most_bytes: int) -> tuple[bytes, str]:
    """Return the bytes of a file, one more than allowed at most, and what errors call it."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(most_bytes + 1), "the standard input"
    path = Path(file)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {file}: check its name and folder")
    if not path.is_file():
        raise ValueError(f"{file} is a folder or a device: give a file")
    with path.open("rb") as content:
        return content.read(most_bytes + 1), file


def add_tracks(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--tracks", nargs="+", metavar="TRACK",
        help="tracks to use, by name or number; for groove the bass, the drums and the other, "
        "or bass=… drums=… other=… (- for none; by default they are found)",
    )  # fmt: skip


def tracks_of(words: list[str] | None, language: str) -> Any:
    """Return the choice of tracks as the language takes it."""
    if words is None or language != "groove":
        return words
    from tokenization.groove.spelling import PARTS
    from tokenization.wording import counted

    if all("=" in word for word in words):
        named = dict(word.split("=", 1) for word in words)
        if not {*named} <= {*PARTS} or len(named) != len(words):
            raise ValueError(
                f"--tracks {' '.join(words)} names roles; each of {', '.join(PARTS)} can be, once"
            )
        return {role: _choice(tracks) for role, tracks in named.items()}
    if len(words) != len(PARTS):
        raise ValueError(
            f"--tracks has {counted(len(words), 'track')}; groove takes the bass, the drums and the other, "
            "or some of them as bass=… drums=… other=…"
        )
    return [_choice(word) for word in words]


def _choice(word: str) -> list[str] | None:
    return None if word in ("-", "") else word.split(",")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names a device of torch."""
    parser.add_argument(
        "--device", default="auto", metavar="auto|cpu|cuda|mps",
        help="where to compute; auto takes a GPU if there is one",
    )  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Declare the options, of which one can be given."""
    who = parser.add_mutually_exclusive_group()
    who.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one a processor)"
    )
    who.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="let the workers of a dask scheduler do it, such as tcp://HOST:8786; they have musicgen and "
        "its extra `cluster`, and see the same files",
    )  # fmt: skip


def chosen_device(arguments: argparse.Namespace) -> str:
    """Return the device to compute on."""
    from musicgen.playable import device_of

    return device_of(arguments.device)


def workers_of(arguments: argparse.Namespace) -> int | str:
    """Return the number of processes, a GPU being fed by one, or the scheduler's address."""
    from musicgen.common.processes import processors

    if arguments.scheduler:
        return arguments.scheduler
    check_counts(arguments, "workers")
    return arguments.workers or (processors() if chosen_device(arguments) == "cpu" else 1)


# The folder of results where none is named: the same request comes back to its own, another gets a new one, and what
# was measured for others there, which is known by what it is and not by the request.

ASKED = ".asked.json"
# What has no say in the results: a request that was interrupted goes on with other values of these.
WITHOUT_EFFECT = ("output", "json", "workers", "scheduler", "device")


def own_folder(name: str, arguments: argparse.Namespace) -> Path:
    """Return NAME, else NAME-2, … : the first that is not there, or is that of the same request."""
    asked = _asked(arguments)
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(f for f in map(Path, names) if not f.exists() or _asked_before(f) == asked)


def claim(folder: Path, arguments: argparse.Namespace, *reused: str) -> None:
    """Write into a folder what it is for; a new one gets copies of the folders `reused` of its neighbours."""
    others = [] if folder.exists() else sorted(folder.parent.glob(f"*/{ASKED}"))
    make_folder(folder, "give another one with -o")
    write_json(folder / ASKED, _asked(arguments))
    for source, name in ((other.parent / name, name) for other in others for name in reused):
        for file in (path for path in source.rglob("*") if path.is_file()):
            if not file.match(".*.part"):
                write_bytes(folder / name / file.relative_to(source), file.read_bytes())


def _asked(arguments: argparse.Namespace) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in sorted(vars(arguments).items())
        if name not in WITHOUT_EFFECT and not callable(value)
    }


def _asked_before(folder: Path) -> dict[str, str] | None:
    try:
        return json.loads((folder / ASKED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
