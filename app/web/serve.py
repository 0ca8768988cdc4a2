"""The page and the server under it, from their start to their end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.web.guard import Names
from app.web.process import (
    ServerFolder,
    be_quiet_outside,
    delete_left_behind,
    free,
    keep_memory_flat,
    silence_other_threads,
)


def serve(
    *,
    model: str | None,
    host: str,
    port: int | None,
    share: bool,
    mcp: bool,
    soundfont: Path | None,
    browser: bool,
    say: Any,
    known_as: Sequence[str] = (),
) -> None:
    """Serve the page until interrupted; `say` is called with sentences for the terminal."""
    from app.web.composing.composer import Composer

    if port is not None and not free(host, port):
        raise ValueError(f"port {port} of {host} is taken or forbidden; choose another with --port")
    keep_memory_flat()
    delete_left_behind()
    folder, composer, names = ServerFolder(), Composer(), Names(host, known_as)
    try:
        composer.start()  # while gradio is imported and the page is built
        be_quiet_outside(folder.path, host)
        from app.web.launch import open_page

        actions, address, public = open_page(
            composer,
            folder.path / "gradio",
            model=model,
            host=host,
            port=port,
            names=names,
            soundfont=soundfont,
            browser=browser,
            share=share,
            mcp=mcp,
        )
        say(f"The page is at {address} (Ctrl-C ends it).")
        threading.Thread(target=_warm, args=(actions,), daemon=True).start()
        if public:
            names.add(public)
            say(f"For everyone, it is at {public}.")
        elif share:
            say(
                f"gradio's tunnel cannot be opened, so the page stays at {address}; --share takes a way to the "
                "internet."
            )
        threading.Event().wait()
    finally:
        silence_other_threads()
        composer.close()
        if share:
            from gradio.tunneling import CURRENT_TUNNELS

            for tunnel in CURRENT_TUNNELS:
                tunnel.kill()
        folder.close()


def _warm(actions: Any) -> None:
    """Open what the page begins with, and play a little: who comes first waits for no import."""
    from app.web.offered_models import EXAMPLES

    actions.open_example(next(iter(EXAMPLES)), "", fit=True)
    with suppress(ValueError):  # of a model that is gone by now: who asks for it gets the sentence
        actions.warm()
