"""`musicgen generate`: write a piece from scratch."""

from __future__ import annotations

import argparse

from app.commands.making_music import (
    Options,
    add_group,
    add_options,
    continuation_task,
    given_values,
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
    "style": (str, "STYLE", "one of pop, song, quartet, keyboard, band and drums"),
    "key": (str, "KEY", "such as 'G minor' or 'Eb major'"),
    "tempo": (float, "BPM", "beats per minute"),
    "metre": (str, "METRE", "such as 3/4"),
    "parts": (
        lambda text: [part.strip() for part in text.split(",") if part.strip()], "NAMES",
        "instruments, such as 'flute, piano, piano' (default: those of the style)",
    ),
}  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    add_group(parser, "idea", "how the piece starts, for models of any parts", IDEA)


def run(arguments: argparse.Namespace) -> None:
    """Write MODEL.cont_0.mid …"""
    from musicgen.pieces import empty_prompt
    from musicgen.playable import load

    request = request_of(arguments)
    model = load(arguments.model, arguments.device)
    prompt = empty_prompt(model.language, given_values(arguments, IDEA), request.plan)
    stem = model.name.replace(":", "-")
    write_all(arguments, continuation_task(request, model, prompt, stem))
