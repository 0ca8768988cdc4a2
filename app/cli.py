"""The program `musicgen`: finds the command, runs it, and turns what goes wrong into one line.

`python -X dev -m app.cli …` shows where an error arose.
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
from typing import Any, NoReturn

from app import output

# Name → module and what it does, in the order of use. A module is imported when its command is called; it has
# `add(parser)`, which declares arguments, `EXAMPLES` that follow them in its help, and `run(arguments)`.
OLD_NAMES = {"infill": "rewrite"}  # still understood
DEFAULTS: dict[str, dict[str, Any]] = {"end": {"ends": True}, "harmonise": {"write": []}}
COMMANDS: dict[str, tuple[str, str]] = {
    "app": ("app.commands.app", "open the web app"),
    "models": ("app.commands.models", "list the models at hand"),
    "continue": ("app.commands.continue_", "continue a piece: MIDI, MusicXML or ABC"),
    "end": ("app.commands.continue_", "continue a piece to its end"),
    "rewrite": ("app.commands.infill", "rewrite some bars of a piece"),
    "accompany": ("app.commands.accompany", "write parts of a piece to the others"),
    "harmonise": ("app.commands.accompany", "write chords to a melody"),
    "generate": ("app.commands.generate", "write a piece from nothing"),
    "tokenize": ("app.commands.tokenize", "write a piece as readable tokens"),
    "detokenize": ("app.commands.detokenize", "write tokens as a MIDI file"),
    "data": ("app.commands.data", "prepare a data set; say what is in one"),
    "train": ("app.commands.train", "train a model, or go on with a run"),
    "compare": ("app.commands.compare", "train several models by one budget, and tabulate"),
    "evaluate": ("app.commands.evaluate.evaluate", "measure models, and the music they write"),
    "benchmark": ("app.commands.benchmark", "classify sequences and model text, as the papers do"),
    "bench": ("app.commands.bench", "measure speed and memory of this machine"),
}

NO_MEMORY = "there is not enough memory for this; try with less at a time"
LONGEST_SENTENCE = 1000  # characters: what is quoted may be of any length
WRONG_INPUT, NO_READER = 2, 141  # the last as shells report the signal


class UsageError(ValueError):
    """Arguments that no command understands."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Leaves examples as they are, and room for the longest names; says the default of an option that does not."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
        self._action_max_length = 16  # argparse forgets that the names of commands are indented

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        is_value = isinstance(default, str | int | float) and not isinstance(default, bool)
        has_default = "(default" in text or default == argparse.SUPPRESS
        return f"{text} (default: %(default)s)" if is_value and not has_default else text


class Parser(argparse.ArgumentParser):
    """Raises what argparse would print over several lines."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore
        """Take what may be left out after options too, as in `benchmark image --short FOLDER`."""
        found, left = super().parse_known_args(args, namespace)
        for action in self._actions:
            late = action.nargs == "?" and not action.option_strings and left
            if late and getattr(found, action.dest, None) is None and left[0][:1] != "-":
                setattr(found, action.dest, self._get_value(action, left.pop(0)))
        return found, left

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")

    def format_help(self) -> str:
        """Return the help, with the text before and after the options in as many columns as those have."""
        width = shutil.get_terminal_size().columns - 2  # as argparse
        parts = (_in_columns(part, width) for part in (self.epilog or "").split("\n\n"))
        self.description = textwrap.fill(self.description or "", width)
        self.epilog = "\n\n".join(parts)
        return super().format_help()


def _in_columns(part: str, width: int) -> str:
    """Return a paragraph, or examples, in lines of a width; a long example goes on with an option on the next line."""
    if "\n " not in part:
        return textwrap.fill(part, width)
    return "\n".join(
        line if len(line) <= width else " \\\n      ".join(_broken(line, width - 8))
        for line in part.rstrip().split("\n")
    )


def _broken(command: str, width: int) -> list[str]:
    """Return a command in parts that fit into a width, each but the first beginning with an option."""
    if len(command) <= width or (at := command.rfind(" --", 4, width)) < 0:
        return [command]
    return [command[:at], *_broken(command[at + 1 :], width)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _prepare_streams()
    try:
        _run(arguments or ["--help"])
        output.flush()
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except BrokenPipeError:
        return NO_READER  # nobody reads on
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and _sentence_of_fault(error) is None:
            raise
        if sys.flags.dev_mode and not isinstance(error, UsageError):
            raise
        output.remark([f"musicgen: {sentence(error)}"])
        return WRONG_INPUT
    return 0


def _prepare_streams() -> None:
    """Let the standard streams take a file's name that is no text, and be closed by the caller."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def sentence(error: Exception) -> str:
    """Return an error as one line."""
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, RuntimeError) and (message := _sentence_of_fault(error)):
        return message
    if isinstance(error, OSError) and error.strerror:
        named = f"{os.fspath(error.filename)!s:.{LONGEST_SENTENCE}}: " if error.filename else ""
        return f"{named}{error.strerror}"
    message = " ".join(str(error).split())
    return message if len(message) <= LONGEST_SENTENCE else f"{message[:LONGEST_SENTENCE]} …"


def _sentence_of_fault(error: RuntimeError) -> str | None:
    """Return what to say of an error that a library reports as a fault of the program; None of one that is."""
    if isinstance(error, RecursionError):
        return "what was given is nested more deeply than anything here is"
    of_memory = ("not enough memory", "out of memory", "can't allocate memory", "std::bad_alloc")
    return NO_MEMORY if any(words in str(error).lower() for words in of_memory) else None


def build_parser(called: str = "", kind: str = "") -> Parser:
    """Return the parser; only the command that is called has arguments, and of `evaluate` only one evaluation."""
    parser = Parser(
        prog="musicgen",
        description="Continue a piece of music.",
        epilog="`musicgen COMMAND --help` tells what a command takes, with an example.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for name, (module_name, does) in COMMANDS.items():
        command = commands.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
        if name == called:
            module = import_module(module_name)
            module.add(command, *([kind] if name == "evaluate" else []))
            command.epilog = module.EXAMPLES
            command.set_defaults(run=module.run, **DEFAULTS.get(name, {}))
    return parser


def _run(arguments: Sequence[str]) -> None:
    called, kind = ([word for word in arguments if not word.startswith("-")] + ["", ""])[:2]
    if called in OLD_NAMES:
        at, called = arguments.index(called), OLD_NAMES[called]
        arguments = [*arguments[:at], called, *arguments[at + 1 :]]
    try:
        parsed = build_parser(called, kind).parse_args(arguments)
    except SystemExit:  # after --help
        return
    parsed.run(parsed)


if __name__ == "__main__":
    sys.exit(main())
