"""`musicgen generate`: a piece from nothing."""

from __future__ import annotations

import argparse

from app.commands.takes import add_options, make, wish_of

EXAMPLES = """\
examples:
  musicgen generate
  musicgen generate --model groove --bars 32 --variations 4 --seed 7 --audio -o output
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write MODEL.cont_0.mid …"""
    from app.models import load
    from app.service import no_prompt

    wish = wish_of(arguments)
    model = load(arguments.model, arguments.device)
    make(arguments, wish, model, no_prompt(model), model.name.replace(":", "-"))
