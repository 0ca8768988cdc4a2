"""What the page's head holds, written into the HTML itself (ASGI middleware).

gradio hands a head to its own scripts, which put it on the page when they have started: the desk would wait for them.
"""

from __future__ import annotations

from typing import Any


class HeadInHtml:
    """Adds to the head of the page; everything else goes through as it is."""

    def __init__(self, app: Any, *, head: str) -> None:
        self.app, self.head = app, head.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http" or scope["path"].strip("/"):
            return await self.app(scope, receive, send)
        start: dict[str, Any] = {}
        parts: list[bytes] = []

        async def gathered(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                body = b"".join(parts).replace(b"<head>", b"<head>" + self.head, 1)
                kept = [(n, v) for n, v in start["headers"] if n.lower() != b"content-length"]
                start["headers"] = [*kept, (b"content-length", str(len(body)).encode())]
                await send(start)
                await send({**message, "body": body})

        await self.app(scope, receive, gathered)
