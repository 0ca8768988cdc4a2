"""`musicgen generate`: write a piece from nothing."""

from __future__ import annotations

import argparse

from app.commands.making_music import add_options, going_on, options_of, write_all

EXAMPLES = """\
examples:
  musicgen generate
  musicgen generate --model groove-2 --bars 32 --variations 4 --seed 7 --audio -o output
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_options(parser)
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Write MODEL.cont_0.mid …"""
    from musicgen.loading import load
    from musicgen.pieces import no_prompt

    options = options_of(arguments)
    model = load(arguments.model, arguments.device)
    prompt = no_prompt(model.language)
    write_all(arguments, going_on(options, model, prompt, model.name.replace(":", "-")))
