"""`musicgen app`: the web app."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from app import output
from app.web.guard import LOOPBACK, Names

EXAMPLES = """\
examples:
  musicgen app
  musicgen app --model runs/my-run --port 8000
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1",
        help="the address to listen on (default: 127.0.0.1, for this machine only)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, help="default: the first free one from 7860 on")
    parser.add_argument(
        "--model",
        help="the model that is selected when the page opens: a name, a folder, or untrained:tiny",
    )
    parser.add_argument(
        "--share", action="store_true", help="make the page public through gradio's tunnel"
    )
    parser.add_argument(
        "--soundfont", type=Path, metavar="FILE.sf2",
        help="the soundfont to play with (default: that of pretty_midi)",
    )  # fmt: skip
    parser.add_argument(
        "--known-as", action="append", default=[], metavar="NAME",
        help="another host name to answer to, such as that of a proxy; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--mcp", action="store_true",
        help="also serve the page's functions to AI assistants (MCP; needs gradio's extra `mcp`)",
    )  # fmt: skip
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")


def run(arguments: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    from app.web.process import leave

    if arguments.port is not None and not 1 <= arguments.port <= 65535:
        raise ValueError(f"--port is {arguments.port}; it must be a number from 1 to 65535")
    if arguments.mcp and find_spec("mcp") is None:
        raise ValueError("--mcp needs gradio's extra: `pip install 'gradio[mcp]'`")
    output.remark(warnings(arguments.host, arguments.share))
    if arguments.soundfont is not None and not arguments.soundfont.is_file():
        raise ValueError(f"there is no soundfont {arguments.soundfont}; name an .sf2 file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to delete temporary files then too
    try:
        _serve(arguments)
    except KeyboardInterrupt:
        leave(output.INTERRUPTED)


def _serve(arguments: argparse.Namespace) -> None:
    """Start the server, serve the page, and clean up."""
    from app.web import process
    from app.web.composing.composer import Composer
    from app.web.whereabouts import announced, new_token

    host, port, share = arguments.host, arguments.port, arguments.share
    listener = process.listen(host, port)
    process.keep_memory_flat()
    folder = TemporaryDirectory(prefix="musicgen-app-", ignore_cleanup_errors=True)
    composer, names = Composer(), Names(host, arguments.known_as)
    is_open = share or host not in LOOPBACK or bool(arguments.known_as)
    token = new_token() if is_open else ""
    try:
        composer.start()  # in parallel with the building of the page
        process.keep_gradio_local(Path(folder.name), host)
        from app.web.launch import open_page

        actions, server = open_page(
            composer,
            Path(folder.name) / "gradio",
            model=arguments.model,
            host=host,
            listener=listener,
            names=names,
            soundfont=arguments.soundfont,
            browser=not arguments.no_browser and host in LOOPBACK and has_desktop(),
            share=share,
            mcp=arguments.mcp,
            token=token,
        )
        remarks = [*actions.models.left_out]
        remarks.append(f"The page is at {server.address} (Ctrl-C stops it).")
        if server.public:
            names.add(server.public)
            remarks.append(f"Its public address is {server.public}.")
        elif share:
            remarks.append(
                f"gradio's tunnel cannot be opened, so the page is only at {server.address}; "
                "--share needs access to the internet."
            )
        with announced(server.address, token):
            output.remark(remarks)
            threading.Thread(target=actions.warm, daemon=True).start()
            server.wait()
    except KeyboardInterrupt:
        for stream in (sys.stdout, sys.stderr):  # the work of other threads fails now
            output.drop(stream)
        raise
    except Exception:
        listener.close()
        raise
    finally:
        composer.close()
        folder.cleanup()


def warnings(host: str, share: bool) -> list[str]:
    """Warn about who else can reach the page."""
    found = []
    if host not in LOOPBACK:
        found.append(
            f"Served at {host}, the page is open to everyone who can reach this machine over the network; "
            "it has no password."
        )
    if share:
        found.append(
            "The page becomes public: everyone who has its address can use it, "
            "and all data goes through a server of gradio."
        )
    return found


def has_desktop() -> bool:
    """Return whether a browser window can open."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
