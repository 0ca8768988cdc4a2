"""A public address for the page, through gradio's tunnel.

gradio's own `share` would give the browser scripts from elsewhere; so the page is served as always, and the tunnel
only leads to it.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


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
