"""Options shared by several commands: counts, language, tracks, devices, workers and the output folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tokenization.workers import Workers

SCHEDULER_SECONDS = 10  # until a scheduler has to answer

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
    """Declare --workers and --scheduler."""
    parser.add_argument(
        "--workers", type=int, metavar="N", help="number of processes (default: one per processor)"
    )
    add_scheduler(parser)


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    """Declare --scheduler."""
    parser.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="work on the machines of this dask scheduler, such as tcp://HOST:8786",
    )  # fmt: skip


def chosen_device(arguments: argparse.Namespace) -> str:
    """Return the device that --device selects."""
    from musicgen.playable import device_of

    return device_of(arguments.device)


@contextmanager
def scheduled(address: str | None) -> Iterator[Executor | None]:
    """Yield what runs tasks on the machines of the scheduler that --scheduler names, or None without one."""
    if address is None:
        yield None
        return
    from distributed import Client

    try:
        client = Client(address, timeout=SCHEDULER_SECONDS)
    except (OSError, ValueError):
        raise ValueError(
            f"no scheduler answers at {address}: start `dask scheduler`, and `dask worker {address} --nthreads 1` "
            "on each machine"
        ) from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise ValueError(
                f"the scheduler has no workers: start `dask worker {address} --nthreads 1` on each machine"
            )
        yield client.get_executor()


@contextmanager
def workers_of(arguments: argparse.Namespace) -> Iterator[Workers]:
    """Yield the number of processes, which is 1 by default on a GPU, or what runs on other machines."""
    from tokenization.processes import processors

    check_counts(arguments, "workers")
    count = arguments.workers or (processors() if chosen_device(arguments) == "cpu" else 1)
    with scheduled(arguments.scheduler) as executor:
        yield executor or count


def default_folder(name: str) -> Path:
    """Return the output folder without -o: the first of NAME, NAME-2, … that does not exist."""
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(folder for folder in map(Path, names) if not folder.exists())


def resumed_by(folder: Path) -> str:
    """Return a remark on how to resume a command that writes to a folder."""
    return f"Results go to {folder}; if interrupted, the command resumes with -o {folder}."
