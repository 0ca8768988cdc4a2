"""`musicgen generate`: write a piece from nothing."""

from __future__ import annotations

import argparse
from typing import Any

from app.commands.making_music import add_options, going_on, request_of, write_all

EXAMPLES = """\
examples:
  musicgen generate
  musicgen generate --style song --key "G minor" --tempo 90 --metre 3/4 --end
  musicgen generate --parts "flute, piano, piano" --form "A A B A"
  musicgen generate --style band --bars 32 --variations 4 --seed 7 --audio -o output
"""


def add(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    idea = parser.add_argument_group("idea", "how to begin, for a model of any parts")
    idea.add_argument(
        "--style", metavar="STYLE", help="pop, song, quartet, keyboard, band or drums"
    )
    idea.add_argument("--key", metavar="KEY", help="as 'G minor' or 'Eb major'")
    idea.add_argument("--tempo", type=float, metavar="BPM", help="beats a minute")
    idea.add_argument("--metre", metavar="METRE", help="as 3/4")
    idea.add_argument(
        "--parts",
        metavar="NAMES",
        help="instruments, as 'flute, piano, piano'; by default the style's",
    )


def run(arguments: argparse.Namespace) -> None:
    """Write MODEL.cont_0.mid …"""
    from musicgen.pieces import no_prompt
    from musicgen.playable import load

    request = request_of(arguments)
    model = load(arguments.model, arguments.device)
    prompt = no_prompt(model.language, _idea(arguments), request.plan)
    write_all(arguments, going_on(request, model, prompt, model.name.replace(":", "-")))


def _idea(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what is asked of the piece."""
    names = ("style", "key", "tempo", "metre", "parts")
    idea = {
        name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None
    }
    if "parts" in idea:
        idea["parts"] = [part.strip() for part in idea["parts"].split(",") if part.strip()]
    return idea
