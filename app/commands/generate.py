"""`musicgen generate`: write a piece from nothing."""

from __future__ import annotations

import argparse

from app.commands.making_music import (
    Options,
    add_asked,
    add_options,
    asked_of,
    continued,
    request_of,
    write_all,
)

EXAMPLES = """\
examples:
  musicgen generate
  musicgen generate --style song --key "G minor" --tempo 90 --metre 3/4 --end
  musicgen generate --parts "flute, piano, piano" --form "A A B A"
  musicgen generate --style band --bars 32 --variations 4 --seed 7 --audio -o output
"""
IDEA: Options = {
    "style": (str, "STYLE", "pop, song, quartet, keyboard, band or drums"),
    "key": (str, "KEY", "as 'G minor' or 'Eb major'"),
    "tempo": (float, "BPM", "beats a minute"),
    "metre": (str, "METRE", "as 3/4"),
    "parts": (
        lambda text: [part.strip() for part in text.split(",") if part.strip()], "NAMES",
        "instruments, as 'flute, piano, piano'; by default the style's",
    ),
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    add_asked(parser, "idea", "how to begin, for a model of any parts", IDEA)


def run(arguments: argparse.Namespace) -> None:
    """Write MODEL.cont_0.mid …"""
    from musicgen.pieces import no_prompt
    from musicgen.playable import load

    request = request_of(arguments)
    model = load(arguments.model, arguments.device)
    prompt = no_prompt(model.language, asked_of(arguments, IDEA), request.plan)
    stem = model.name.replace(":", "-")
    write_all(arguments, continued(request, model, prompt, stem, stem))
