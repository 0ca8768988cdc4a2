"""The option --tracks, and its words as a language takes them."""

from __future__ import annotations

import argparse
from typing import Any


def add_tracks(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--tracks",
        nargs="+",
        metavar="TRACK",
        help="tracks to use, as `musicgen tokenize` takes them",
    )


def tracks_of(words: list[str] | None, language: str) -> Any:
    """Return the choice of tracks as the language takes it."""
    if words is None or language.split("-")[0] != "groove":
        return words
    from tokenization.groove.tokens import PARTS
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
