"""The page and the server under it, from their start to their end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.web.server.folder import delete_left_behind
from app.web.server.names import Names
from app.web.server.process import (
    allow_many_connections,
    be_quiet_outside,
    free,
    keep_memory_flat,
    silence_other_threads,
)
from app.web.server.quick_start import without_stubs


def _warm(actions: Any) -> None:
    """Open what the page begins with, and play a little: who comes first waits for no import."""
    from app.web.examples import EXAMPLES

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
    from app.web.server.tunnel import TunnelError, public_address
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
