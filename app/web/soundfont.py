"""The soundfont that the page plays with: served from this machine, and kept by the browser."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from app.audio import AudioError, default_soundfont

KEPT = "public, max-age=31536000, immutable"  # what lies there never changes under its address


def soundfont_route(address: str, soundfont: Path | None) -> Route:
    """Return where the soundfont lies, beside the page's other files."""

    async def answer(_: Request) -> Response:
        try:
            path = soundfont or default_soundfont()
        except AudioError as error:
            return PlainTextResponse(str(error), 404)
        headers = {"Cache-Control": KEPT}
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    return Route(f"/{address}/soundfont.sf2", answer)


class KeptFiles(StaticFiles):
    """Files under an address that changes with them."""

    def file_response(self, *values, **named) -> Response:
        """Return a file for the browser to keep."""
        response = super().file_response(*values, **named)
        response.headers["Cache-Control"] = KEPT
        return response
