"""The page and the server under it, from their start to their end."""

from __future__ import annotations

import inspect
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from app.web.server.names import Names
from app.web.server.process import (
    allow_many_connections,
    be_quiet_outside,
    delete_left_behind,
    free,
    keep_memory_flat,
    silence_other_threads,
)

# Import gradio in half the time: without the type stubs that it checks for each of its components.
#
# It reads and parses their sources to compare them with stubs that its package already has. That step gives up where
# a class has no file; so, for the time of the import, its own classes have none.


@contextmanager
def without_stubs() -> Iterator[None]:
    """Hide the files of gradio's classes."""
    getfile = inspect.getfile

    def hidden(thing: Any) -> str:
        if isinstance(thing, type) and thing.__module__.startswith("gradio."):
            raise OSError("hidden from the maker of stubs")
        return getfile(thing)

    inspect.getfile = hidden
    try:
        yield
    finally:
        inspect.getfile = getfile


# A public address for the page, through gradio's tunnel.
#
# gradio's own `share` would give the browser scripts from elsewhere; so the page is served as always, and the tunnel
# only leads to it.


class TunnelError(ValueError):
    """A tunnel that cannot be opened."""


def public_address(blocks: Any) -> str:
    """Return an address at which everyone reaches a page that is being served."""
    import httpx
    from gradio import networking
    from gradio.exceptions import ChecksumMismatchError

    output = io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            address = networking.setup_tunnel(
                local_host=blocks.server_name,
                local_port=blocks.server_port,
                share_token=blocks.share_token,
                share_server_address=None,
                share_server_tls_certificate=None,
            )
    except (OSError, RuntimeError, ValueError, httpx.HTTPError, ChecksumMismatchError) as error:
        raise TunnelError(
            f"gradio's tunnel cannot be opened ({type(error).__name__}), so the page stays at "
            f"{blocks.local_url}; --share takes a way to the internet"
        ) from error
    return address.replace("http://", "https://", 1)


def _warm(actions: Any) -> None:
    """Open what the page begins with, and play a little: who comes first waits for no import."""
    from app.web.offered_models import EXAMPLES

    actions.open_example(next(iter(EXAMPLES)), "", fit=True)
    with suppress(ValueError):  # of a model that is gone by now: who asks for it is told
        actions.warm()


def serve(
    *,
    model: str | None,
    host: str,
    port: int | None,
    share: bool,
    soundfont: Path | None,
    browser: bool,
    say: Any,
    known_as: Sequence[str] = (),
) -> None:
    """Serve the page until interrupted; `say` is called with sentences for the terminal."""
    from app.web.composing.composer import Composer
    from app.web.server.sessions import Sessions
    from tokenization.wording import sentence

    if port is not None and not free(host, port):
        raise ValueError(f"port {port} of {host} is taken or forbidden; choose another with --port")
    keep_memory_flat()
    allow_many_connections()
    delete_left_behind()
    sessions, composer, names = Sessions(), Composer(), Names(host, known_as)
    try:
        composer.start()  # while the page is built
        be_quiet_outside(sessions.folder, host)
        with without_stubs():
            from app.web.launch import open_page
        blocks, actions = open_page(
            sessions,
            composer,
            model=model,
            host=host,
            port=port,
            names=names,
            soundfont=soundfont,
            browser=browser,
        )
        say(f"The page is at {blocks.local_url} (Ctrl-C ends it).")
        threading.Thread(target=_warm, args=(actions,), daemon=True).start()
        if share:
            try:
                address = public_address(blocks)
                names.add(address)
                say(f"For everyone, it is at {address}.")
            except TunnelError as error:
                say(sentence(str(error)))
        threading.Event().wait()
    finally:
        silence_other_threads()
        composer.close()
        sessions.close()
