"""The `musicgen` program: finds the command, runs it, and reports an error in one line.

`python -X dev -m app.cli …` prints the traceback of an error.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from app import output

# Name → module and summary, in the order of the help. A module is imported only when its command is called. It has
# `add(parser)`, which declares the arguments, `EXAMPLES`, which end the help, and `run(arguments)`. A module of several
# commands finds the name in `parser.get_default("command")` and `arguments.command`.
COMMANDS: dict[str, tuple[str, str]] = {
    "app": ("app.commands.app", "open the web app"),
    "bridge": ("app.commands.bridge", "put scripts for MuseScore, REAPER or Ardour in their place"),
    "page": ("app.commands.page", "write the web app as a folder of static files"),
    "models": ("app.commands.models", "list the available models"),
    "continue": ("app.commands.making_music", "continue a piece: MIDI, MusicXML or ABC"),
    "end": ("app.commands.making_music", "continue a piece to its end"),
    "rewrite": ("app.commands.making_music", "rewrite some bars of a piece, all parts or some"),
    "accompany": ("app.commands.making_music", "write new parts for a piece"),
    "harmonise": ("app.commands.making_music", "write chords for a melody"),
    "generate": ("app.commands.making_music", "write a piece from scratch"),
    "edit": ("app.commands.edit", "change a file and keep everything else in it"),
    "tokenize": ("app.commands.tokens", "print a piece as readable tokens"),
    "detokenize": ("app.commands.tokens", "write tokens as a MIDI file"),
    "data": ("app.commands.data", "prepare a data set, or inspect one"),
    "train": ("app.commands.train", "train a model, or resume a run"),
    "learn": ("app.commands.learn", "learn a style from your own files, or remove one"),
    "compare": (
        "app.commands.compare",
        "train several models with the same budget and tabulate the results",
    ),
    "evaluate": ("app.commands.evaluate.evaluate", "evaluate models and the music they write"),
    "benchmark": ("app.commands.benchmark", "compare small models on the papers' benchmarks"),
    "bench": ("app.commands.bench", "measure speed and memory on this machine"),
}

# The packages that are imported only where they are needed, and the extra of pyproject.toml that each comes with.
EXTRAS = {
    **dict.fromkeys(("jinja2", "matplotlib", "pandas", "scipy", "sklearn", "torch"), "train"),
    **dict.fromkeys(("anyio", "fastapi", "gradio", "orjson", "starlette", "uvicorn"), "app"),
    "distributed": "cluster",
}  # fmt: skip
NO_MEMORY = "not enough memory for this; try less at a time"
LONGEST_MESSAGE = 1000  # characters; a quotation in a message can be of any length
WRONG_INPUT, NO_READER = 2, 141  # 141 is 128 + SIGPIPE, as shells report it


class UsageError(ValueError):
    """Arguments that cannot be parsed."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples, leaves room for long names, and appends the default to an option's help."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
        self._action_max_length = 16  # argparse ignores the indentation of subcommands

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        is_value = isinstance(default, str | int | float) and not isinstance(default, bool)
        has_default = "(default" in text or default == argparse.SUPPRESS
        return f"{text} (default: %(default)s)" if is_value and not has_default else text


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print its usage and exit."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, **settings})

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def format_help(self) -> str:
        """Wrap the description and the epilog to the width that argparse gives the options."""
        width = shutil.get_terminal_size().columns - 2  # as argparse does
        parts = (_wrapped(part, width) for part in (self.epilog or "").split("\n\n"))
        self.description = textwrap.fill(self.description or "", width)
        self.epilog = "\n\n".join(parts)
        return super().format_help()


def _wrapped(part: str, width: int) -> str:
    """Wrap a paragraph, or break long examples before an option."""
    if "\n " not in part:
        return textwrap.fill(part, width)
    return "\n".join(
        line if len(line) <= width else " \\\n      ".join(_broken(line, width - 8))
        for line in part.rstrip().split("\n")
    )


def _broken(command: str, width: int) -> list[str]:
    """Break a command into parts of at most `width` characters; each but the first starts with an option."""
    if len(command) <= width or (at := command.rfind(" --", 4, width)) < 0:
        return [command]
    return [command[:at], *_broken(command[at + 1 :], width)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    try:
        _run(arguments or ["--help"])
        output.flush()
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except BrokenPipeError:
        return NO_READER
    except (ValueError, OSError, MemoryError, RuntimeError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and _extra_of(error) is None:
            raise
        if isinstance(error, RuntimeError) and _user_message(error) is None:
            raise
        if sys.flags.dev_mode and not isinstance(error, UsageError):
            raise
        if isinstance(error, ModuleNotFoundError):
            error = ValueError(missing(error, arguments))
        output.remark([f"musicgen: {describe(error)}"])
        return WRONG_INPUT
    return 0


def _extra_of(error: ModuleNotFoundError) -> str | None:
    """Return the extra that brings a missing package, if one does."""
    return EXTRAS.get((error.name or "").partition(".")[0])


def missing(error: ModuleNotFoundError, arguments: Sequence[str] = ()) -> str:
    """Say which package is missing, what needs it, and how to install it."""
    words = [word for word in arguments if not word.startswith("-")]
    called = " ".join(words[: 2 if words[:1] == ["evaluate"] else 1])
    package, extra = (error.name or "").partition(".")[0], _extra_of(error)
    is_clone = (Path(__file__).parents[1] / "pyproject.toml").is_file()
    wanted = f'-e ".[{extra}]"' if is_clone else f'"symbolic-musicgen[{extra}]"'
    return f"`musicgen {called}` needs {package}, which is not installed: pip install {wanted}"


def _prepare_streams() -> None:
    """Open the standard streams that the caller closed, and escape characters that they cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def describe(error: Exception) -> str:
    """Describe an error for the user, in one line."""
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, RuntimeError) and (message := _user_message(error)):
        return message
    if isinstance(error, OSError) and error.strerror:
        named = f"{os.fspath(error.filename)!s:.{LONGEST_MESSAGE}}: " if error.filename else ""
        return f"{named}{error.strerror}"
    message = " ".join(str(error).split())
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} …"


def _user_message(error: RuntimeError) -> str | None:
    """Describe a RuntimeError that the input or the machine causes; return None for a fault of the program."""
    if isinstance(error, RecursionError):
        return "the input is nested too deeply"
    of_memory = ("not enough memory", "out of memory", "can't allocate memory", "std::bad_alloc")
    return NO_MEMORY if any(words in str(error).lower() for words in of_memory) else None


def build_parser(called: str = "", kind: str = "") -> Parser:
    """Build the parser. Only the command `called` has its arguments; for `evaluate`, only the evaluation `kind`."""
    parser = Parser(
        prog="musicgen",
        description="Continue, complete and generate music; train and evaluate models.",
        epilog="`musicgen COMMAND --help` describes a command, with examples.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for name, (module_name, summary) in COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=description)
        if name == called:
            module = import_module(module_name)
            command.epilog = module.EXAMPLES
            command.set_defaults(run=module.run, command=name)
            module.add(command, *([kind] if name == "evaluate" else []))
    return parser


def _run(arguments: Sequence[str]) -> None:
    called, kind = ([word for word in arguments if not word.startswith("-")] + ["", ""])[:2]
    try:
        parsed = build_parser(called, kind).parse_args(arguments)
    except SystemExit:  # after --help
        return
    parsed.run(parsed)


if __name__ == "__main__":
    sys.exit(main())
