"""The option that names a token language, from the table of those that there are."""

from __future__ import annotations

import argparse


def add_language(
    parser: argparse.ArgumentParser,
    default: str | None,
    family: str | tuple[str, ...] = "",
    otherwise: str = "",
) -> None:
    """Declare the option, for all languages or those of some families; `otherwise` is taken without a default."""
    from tokenization.language import LANGUAGES

    named = {name: row.title for name, row in LANGUAGES.items() if name.startswith(family)}
    parser.add_argument(
        "--language", choices=[*named], default=default,
        help="; ".join(f"{name}: {title}" for name, title in named.items())
        + f" (default: {default or otherwise})",
    )  # fmt: skip
