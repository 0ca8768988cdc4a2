"""The command line of a tool."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def options(
    doc: str | None, *places: str, words: Sequence[str] | None = None, **defaults: Any
) -> Any:
    """Parse positional paths (a plural name takes several) and options, whose types are those of their defaults."""
    parser = ArgumentParser(description=doc, formatter_class=RawDescriptionHelpFormatter)
    for name in places:
        parser.add_argument(name, type=Path, nargs="+" if name.endswith("s") else None)
    for name, default in defaults.items():
        kind: Any = {"nargs": "*"} if isinstance(default, list) else {"type": type(default)}
        if default is False:
            kind = {"action": "store_true"}
        said = f"default: {default}"
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, help=said, **kind)
    return parser.parse_args(words)
