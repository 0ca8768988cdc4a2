"""`musicgen app`: the web app."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from app import output
from app.web.guard import LOOPBACK

EXAMPLES = """\
examples:
  musicgen app
  musicgen app --model runs/my-run --port 8000
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to serve at (default: 127.0.0.1, for this machine alone)",
    )
    parser.add_argument("--port", type=int, help="default: the first free one from 7860 on")
    parser.add_argument(
        "--model", help="a model to offer first: a name, a folder, or untrained:tiny"
    )
    parser.add_argument(
        "--share", action="store_true", help="make the page public through gradio's tunnel"
    )
    parser.add_argument(
        "--soundfont", type=Path, help="an .sf2 file to play with (default: pretty_midi's)"
    )
    parser.add_argument(
        "--known-as", action="append", default=[], metavar="NAME",
        help="answer to this name too, as behind a proxy; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--mcp", action="store_true",
        help="offer what the page does to assistants too (MCP; needs gradio's extra `mcp`)",
    )  # fmt: skip
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.epilog = EXAMPLES


def run(arguments: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    from app.web.process import leave
    from app.web.serve import serve

    if arguments.port is not None and not 1 <= arguments.port <= 65535:
        raise ValueError(f"--port is {arguments.port}; it must be a number from 1 to 65535")
    if arguments.mcp and find_spec("mcp") is None:
        raise ValueError("--mcp needs gradio's extra: `pip install 'gradio[mcp]'`")
    output.remark(warnings(arguments.host, arguments.share))
    if arguments.soundfont is not None and not arguments.soundfont.is_file():
        raise ValueError(f"there is no soundfont {arguments.soundfont}; name an .sf2 file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # files are emptied then, too
    try:
        serve(
            model=arguments.model,
            host=arguments.host,
            port=arguments.port,
            share=arguments.share,
            mcp=arguments.mcp,
            soundfont=arguments.soundfont,
            browser=not arguments.no_browser and arguments.host in LOOPBACK and has_desktop(),
            say=lambda text: output.remark([text]),
            known_as=arguments.known_as,
        )
    except KeyboardInterrupt:
        leave(output.INTERRUPTED)


def warnings(host: str, share: bool) -> list[str]:
    """Say who else can reach the page."""
    found = []
    if host not in LOOPBACK:
        found.append(
            f"Served at {host}, the page is open to everyone who reaches this machine by network; "
            "it asks for no password."
        )
    if share:
        found.append(
            "The page becomes public: whoever has its address can use it, "
            "and what they send goes through a server of gradio's."
        )
    return found


def has_desktop() -> bool:
    """Say whether a browser window could open."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
