"""`POST /write`: a music file and a request in one step, and the music back, as the bridges need it (bridges/).

The options are in the query, in fields of a form, or in a JSON object (composing/file_requests.py); the file is the
body, in a form, or base64 in the object.
"""

from __future__ import annotations

import base64
import io
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.web.actions import PageActions, end_state
from app.web.composing.file_requests import OPTIONS, asked, check
from app.web.composing.opened_files import title_of
from app.web.composing.requests import streamed_takes
from app.web.composing.streamed_takes import as_text, decoded
from app.web.errors import client_of, error_message
from app.web.guard import UPLOAD_BYTES
from musicgen.continuation import Take
from tokenization.analysis.symbols import chord_texts
from tokenization.edit import Edit
from tokenization.formats import kind_of
from tokenization.midi.rows import rows_of
from tokenization.notation.written import TICKS_PER_BEAT

LOOK_SECONDS = 0.05  # between looks at the progress
JSON, LINES = "application/json", "application/x-ndjson"
KINDS = {".mid": "audio/midi", ".musicxml": "application/vnd.recordare.musicxml+xml"}
GONE = 499  # the status of a client that has gone, which nobody reads


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request: its options, the file and its name, and who asks."""

    options: Mapping[str, Any]
    data: bytes
    name: str
    client: str

    @classmethod
    def checked(cls, options: Mapping[str, Any], data: bytes, name: str, client: str) -> Sent:
        """Return a request with known options and a file; raise an error that says what is wrong."""
        check(options)
        if not data:
            raise ValueError("a file is missing: send MIDI, MusicXML or ABC")
        if len(data) > UPLOAD_BYTES:
            said = f"The file is larger than the limit of {UPLOAD_BYTES >> 10} KB."
            raise HTTPException(413, said)
        return cls(options=options, data=data, name=name, client=client)


async def read_request(request: Request) -> Sent:
    """Return what a request says."""
    options: dict[str, Any] = {name: _plain(text) for name, text in request.query_params.items()}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    data, name = b"", ""
    if kind == "multipart/form-data":
        most = {"max_files": 1, "max_fields": len(OPTIONS), "max_part_size": UPLOAD_BYTES}
        try:
            async with request.form(**most) as form:
                for field, value in form.items():
                    if isinstance(value, UploadFile):
                        data, name = await value.read(), value.filename or ""
                    else:
                        options[field] = _plain(value)
        except MultiPartException as error:
            raise HTTPException(400, error.message) from None
    else:
        data = await request.body()
        if kind == JSON:
            options |= _object(data)
            data = decoded(options.pop("file", ""))
    name = str(options.pop("name", name))
    return Sent.checked(options, data, name, client_of(request))


def _plain(text: str) -> Any:
    """Return a value of a query or a form: a text, unless it is a number, a truth value or a list."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise HTTPException(400, "The request is not a JSON object.")
    return found


class OneStep:
    """The endpoint."""

    def __init__(self, actions: PageActions) -> None:
        self.actions = actions

    async def answer(self, request: Request) -> Response:
        """Answer with a file, JSON, or lines of progress, as the request accepts; a disconnect stops the writing."""
        sent, accepted = await read_request(request), request.headers.get("accept", "")
        views = self.views(sent)
        view = await run_in_threadpool(next, views)
        if LINES in accepted:
            return StreamingResponse(_lines(view, views), media_type=LINES)
        async for view in iterate_in_threadpool(views):  # noqa: B007  the last one is the answer
            if await request.is_disconnected():
                return Response(status_code=GONE)
        if JSON in accepted:
            return Response(orjson.dumps(view), media_type=JSON)
        return _file(view["takes"])

    def views(self, sent: Sent) -> Iterator[dict[str, Any]]:
        """Write music; yield the progress in bars now and then, and finally the takes."""
        actions, name, client = self.actions, sent.name or "it", sent.client
        model = actions.models.find(str(sent.options.get("model") or ""))
        file = actions.reader.read(sent.data, name, client)
        piece = actions.reader.open(sent.data, name, model.language, client)
        wanted = asked(sent.options, piece, file)
        streamed = streamed_takes(model, wanted.piece, wanted.request)
        begun = time.monotonic()
        yield {"bars": 0, "of": wanted.bars}
        with actions.at_work(streamed, client) as job:
            while not job.wait(LOOK_SECONDS):
                yield {"bars": min(job.bars, wanted.bars), "of": wanted.bars}
        takes, alone = streamed.work.takes(), sent.options.get("result") == "new"
        written = [take.continuation if alone else take.score for take in takes]
        writes_chords = any(take.edit and take.edit.over_chords for take in takes)
        if not (writes_chords or any(len(score.notes) for score in written)):
            raise ValueError("the model wrote no notes; try more bars or another seed")
        title = title_of(sent.name)
        yield {
            "state": end_state(job, time.monotonic() - begun),
            "seed": wanted.request.seed,
            "takes": [_as_sent(take, wanted.until(take.score), title, alone) for take in takes],
        }


def _until(take: Take, edit: Edit, stop: int) -> Take:
    """Return a take whose new notes are before a tick, and end there at the latest."""
    notes = take.score.notes
    new = edit.is_new(notes)
    kept = notes.ended_by(stop, new)[~new | (notes.onset_ticks < stop)]
    return replace(take, score=take.score.replace(notes=kept))


def _lines(first: dict[str, Any], views: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield views that differ from the last one as lines of JSON, and an error as the last line."""
    yield orjson.dumps(first) + b"\n"
    try:
        for view in views:
            if view != first:
                yield orjson.dumps(view) + b"\n"
            first = view
    except Exception as error:
        yield orjson.dumps({"detail": error_message(error)}) + b"\n"


def _as_sent(take: Take, stop: int, title: str, alone: bool) -> dict[str, Any]:
    """Return a take: its file, for MIDI the rows of its new notes, its new chords, and their span in the file sent."""
    if (edit := take.edit) is None:
        raise RuntimeError("a take of a file has no edit")
    take = _until(take, edit, stop)
    data, said = (
        take.alone
        if alone
        else take.file(".musicxml" if edit.kind == "musicxml" else ".mid", title)
    )
    kind = kind_of(data)
    rows: dict[str, Any] = {"ticksPerBeat": TICKS_PER_BEAT}
    if edit.kind == "midi":
        rows = rows_of(data if alone else take.alone[0])
    return {
        "name": f"{title}{'.mid' if kind == 'midi' else '.musicxml'}",
        "file": as_text(data),
        **rows,
        "chords": [
            [max(0, int(edit.tick_of(one.onset_ticks))), text]
            for one, text in chord_texts(take.score, take.score.markers)
            if edit.holds(one.onset_ticks)
        ],
        "range": edit.tick_of(np.array([edit.start, stop])).clip(0).tolist(),
        **({"remark": said} if said else {}),
    }


def _file(takes: list[dict[str, Any]]) -> Response:
    """Return the file of a take, or an archive with those of several."""
    if len(takes) == 1:
        name, data = takes[0]["name"], base64.b64decode(takes[0]["file"])
        return Response(data, media_type=KINDS[Path(name).suffix])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, take in enumerate(takes, 1):
            archive.writestr(f"{number}{Path(take['name']).suffix}", base64.b64decode(take["file"]))
    return Response(packed.getvalue(), media_type="application/zip")
