"""The addresses of pieces: MIDI at once, sound when it is first asked for.

`music/KEY.mid`, `music/KEY.part.mid` and `music/KEY.wav`, where KEY is a name that only its visitor
knows. Nothing of a request becomes a path.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote
from weakref import WeakKeyDictionary

import anyio
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.audio import AudioError, render_to
from app.web.server.sessions import Sessions, Tune

RENDERERS = 2  # at once; the others wait in line


class Music:
    """The routes over the visitors' pieces."""

    def __init__(self, sessions: Sessions, soundfont: Path | None = None) -> None:
        self._sessions, self._soundfont = sessions, soundfont
        self._limiter = anyio.CapacityLimiter(RENDERERS)
        self._rendering: WeakKeyDictionary[Tune, asyncio.Lock] = WeakKeyDictionary()

    def routes(self) -> list[Route]:
        """Return what to give to the server."""
        return [
            Route("/music/{key}.part.{kind}", self.part),
            Route("/music/{key}.{kind}", self.answer),
        ]

    async def answer(self, request: Request) -> Response:
        """Give a piece as MIDI or sound."""
        key, kind = request.path_params["key"], request.path_params["kind"]
        tune = self._sessions.tune(key)
        if tune is None:
            return _gone()
        if kind == "mid":
            return _midi(tune.midi, tune.title)
        return await self._sound(tune) if kind == "wav" else _gone()

    async def part(self, request: Request) -> Response:
        """Give what is new of a continuation as MIDI."""
        tune = self._sessions.tune(request.path_params["key"])
        if tune is None or tune.part is None or request.path_params["kind"] != "mid":
            return _gone()
        return _midi(tune.part, f"{tune.title}, continuation")

    async def _sound(self, tune: Tune) -> Response:
        lock = self._rendering.setdefault(tune, asyncio.Lock())
        async with lock:  # two requests for a piece render it once
            if not tune.wav.is_file():
                try:
                    await anyio.to_thread.run_sync(self._render, tune, limiter=self._limiter)
                except AudioError as error:
                    return PlainTextResponse(f"{error}", 422)
                except OSError:  # the visitor has left, or the disk is full
                    return _gone()
        headers = {"Content-Disposition": _named(tune.title, "wav", "inline")}
        return FileResponse(tune.wav, media_type="audio/wav", headers=headers)

    def _render(self, tune: Tune) -> None:
        """Write the sound of a piece, whole or not at all."""
        render_to(tune.wav, tune.midi, self._soundfont)
        self._sessions.make_room()


def _midi(data: bytes, title: str) -> Response:
    return Response(
        data,
        media_type="audio/midi",
        headers={"Content-Disposition": _named(title, "mid", "attachment")},
    )


def _named(title: str, ending: str, how: str) -> str:
    """Return the header that names a download; the name is in UTF-8, as RFC 6266 has it."""
    return f"{how}; filename=\"music.{ending}\"; filename*=UTF-8''{quote(f'{title}.{ending}', safe='')}"


def _gone() -> Response:
    return PlainTextResponse("There is no such piece any more; make or open it again.", 404)
