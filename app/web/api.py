"""The endpoints for programs: the actions of the page for gradio clients, curl and assistants (MCP)."""

import functools
import inspect
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
from gradio.data_classes import FileData

from app.audio import render_to
from app.web.actions import PageActions, end_state
from app.web.composing.opened_files import title_of
from app.web.composing.requests import request_from, streamed_takes
from app.web.errors import client_of, error_message
from app.web.guard import Room, make_room
from app.web.one_step import OneStep, Sent, decoded
from evaluation.metrics.style import ALL, METRICS, profiles, quarters, similarities
from musicgen import playable
from musicgen.generation.request import DRAWN
from musicgen.generation.sampling import CONTROLS, MUSICAL
from musicgen.pieces import Piece
from tokenization.score import Score
from tokenization.whole_file import write_whole

UNSET = ("recall", "guidance")  # sampling parameters that endpoints do not offer
LOOK_SECONDS = 0.25  # between checks of the client and of the job
Answer = TypeVar("Answer")
Drawn = dict[str, Any]  # sampling parameters and the seed, by name
NOTHING: Drawn = {}
Files = tuple[list[FileData], list[dict[str, Any]]]


class Api:
    """The work of the endpoints; uploads and answers are in one folder, which is cleaned up."""

    def __init__(
        self, actions: PageActions, room: Room, files: Path, soundfont: Path | None = None
    ) -> None:
        self.actions, self.room, self.files, self.soundfont = actions, room, files, soundfont

    def answering(self, action: Callable[..., Answer]) -> Callable[..., Answer]:
        """Wrap an action: count it among the running requests, and turn errors into one sentence."""

        @functools.wraps(action)
        def answered(*values: Any, **named: Any) -> Answer:
            request = next(
                (one for one in (*values, *named.values()) if isinstance(one, gr.Request)), None
            )
            try:
                client = client_of(request)
                with self.room.place(client):
                    # Work for answers that are never fetched would slow down other clients.
                    while not self.room.is_reading(client):
                        if self.room.is_gone(client):
                            raise ValueError("the answer was not fetched; send the request again")
                        time.sleep(LOOK_SECONDS)
                    return action(*values, **named)
            except Exception as error:
                raise gr.Error(error_message(error), print_exception=False) from None

        return answered

    def written(
        self, file: Any, plain: dict[str, Any], kind: str, request: gr.Request | None
    ) -> Files:
        """Write music: one MIDI file per variation, and the facts of each."""
        wanted = request_from({"variations": 1, "bars": 1, **plain})
        client = client_of(request)
        piece = (
            self.piece(file, wanted.model, client) if file or wanted.kind != "continue" else None
        )
        playing = self.actions.models.find(wanted.model)
        streamed = streamed_takes(playing, piece, wanted)
        begun = time.monotonic()
        with self.actions.at_work(streamed, client) as job:
            while not job.wait(LOOK_SECONDS):
                if self.room.is_gone(client):
                    job.cancel()
        seconds = time.monotonic() - begun
        name = _file_name(piece.name if piece else playing.name.replace(":", "-"))
        takes = [take for take in streamed.work.takes() if len(take.score.notes)]
        if not takes:
            raise ValueError(
                "the model wrote no notes; try more bars, another seed or a higher temperature"
            )
        folder, paths, facts = self.folder(), [], []
        for number, take in enumerate(takes):
            path = folder / f"{name}.{kind}_{number}.mid"
            said = take.save(path)
            paths.append(_handed_out(path))
            prompt = streamed.region.prompt
            facts.append(
                {
                    "variation": take.number,
                    "tokens": take.tokens,
                    "notes": len(take.continuation.notes),
                    "seconds": round(seconds, 3),
                    "state": end_state(job, seconds),
                    "similarity": likeness(prompt, take.continuation) if prompt else [],
                    **({"not_kept": said} if said else {}),
                    **take.provenance,
                }
            )
        return paths, facts

    def piece(self, file: Any, model: str, client: str) -> Piece:
        """Return a file as a piece in the language of a model."""
        language = self.actions.models.language(model)
        return self.actions.reader.open(*self.sent(file), language, client=client)

    def sent(self, file: Any) -> tuple[bytes, str]:
        """Return the bytes and the name of an uploaded file."""
        if not file:
            raise ValueError("a file is missing: send one; only /continue can do without")
        if not isinstance(file, dict):
            raise ValueError("this file was not sent to this server: upload it first")
        path = Path(file["path"])  # checked by the guard
        return path.read_bytes(), path.name

    def folder(self) -> Path:
        """Return a new folder for answers."""
        make_room(self.files)
        self.files.mkdir(mode=0o700, exist_ok=True)  # the system may have deleted it as old
        return Path(tempfile.mkdtemp(dir=self.files))


def _handed_out(path: Path) -> Any:
    """Return a file in the form that gradio sends as a URL."""
    return {"path": str(path), "orig_name": path.name, "meta": {"_type": "gradio.FileData"}}


def _named_parts(text: Any) -> list[str]:
    """Return the parts named in a text, separated by commas."""
    return [part.strip() for part in str(text or "").split(",") if part.strip()]


def _file_name(title: str) -> str:
    """Turn a title into a file name that is valid on any system."""
    return "".join(c if c.isalnum() or c in "-_ " else "_" for c in title)[:60].strip() or "music"


def likeness(reference: Score, output: Score) -> list[dict[str, Any]]:
    """Return the similarity of an output to a reference by quarters, one row per metric.

    A value is None if the quarter or the reference has nothing to compare.
    """
    if not len(reference.notes):
        return []
    style = profiles(reference, ALL)
    found = [similarities(style, profiles(part, ALL)) for part in quarters(output)]
    rows = [
        {"metric": METRICS[metric], "quarters": [part[metric] for part in found]}
        for metric in style
    ]
    return [row for row in rows if any(value is not None for value in row["quarters"])]


def with_sampling(action: Callable[..., Answer]) -> Callable[..., Answer]:
    """Replace the parameter `sampling` of an endpoint by one parameter per value, and the seed."""
    signature = inspect.signature(action)
    drawn = {name: getattr(MUSICAL, name) or 0 for name in CONTROLS if name not in UNSET}
    parameters: list[inspect.Parameter] = []
    for one in signature.parameters.values():
        named = {**drawn, "seed": 0} if one.name == "sampling" else {one.name: one.default}
        for name, default in named.items():
            kind = one.annotation if name == one.name else type(default)
            parameters.append(one.replace(name=name, default=default, annotation=kind))

    @functools.wraps(action)
    def called(*values: Any, **given: Any) -> Answer:
        said = dict(zip([one.name for one in parameters], values, strict=False)) | given
        sampling = {name: said.pop(name) for name in (*drawn, "seed") if name in said}
        return action(**said, sampling=sampling)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def add_api(api: Api) -> None:
    """Add the endpoints to the open `gr.Blocks`; gradio reads their parameters from the signatures."""
    actions, first_model = api.actions, api.actions.models.first

    def models(request: gr.Request | None = None) -> list[dict[str, Any]]:
        """List the available models with their facts."""
        known = {row["name"]: row for row in playable.models()}
        return [
            known.get(name, {"name": name, "language": language.name})
            for name, language in actions.models.languages.items()
        ]

    def read(
        file: FileData, model: str = first_model, request: gr.Request | None = None
    ) -> dict[str, Any]:
        """Read a music file as a model does: its bars, notes, tracks and remarks."""
        piece = api.piece(file, model, client_of(request))
        return {
            "title": piece.name,
            "language": piece.language.name,
            "bars": piece.bars,
            "notes": len(piece.score.notes),
            "tracks": [track.name for track in piece.score.tracks],
            "tokens": len(piece.encoded.ids),
            "remarks": list(piece.remarks),
        }

    @with_sampling
    def go_on(
        file: FileData | None = None, model: str = first_model, prompt_bars: int = 0, bars: int = 16,
        variations: int = 1, sampling: Drawn = NOTHING, ends: bool = False, chords: str = "",
        draw: int = DRAWN, request: gr.Request | None = None,
    ) -> Files:  # fmt: skip
        """Continue a music file after its first prompt_bars (0: all), or start a new piece.

        Of every `draw` takes, the most convincing is returned, here and by the other endpoints that write.
        """
        wanted = {
            "model": model, "promptBars": prompt_bars, "bars": bars, "variations": variations, "draw": draw,
            "sampling": sampling, "ends": ends, "chords": chords,
        }  # fmt: skip
        return api.written(file, wanted, "prompt_cont", request)

    @with_sampling
    def begin(
        model: str = first_model, style: str = "", key: str = "", tempo: float = 0, metre: str = "",
        parts: str = "", form: str = "", bars: int = 16, variations: int = 1, sampling: Drawn = NOTHING,
        ends: bool = False, chords: str = "", draw: int = DRAWN, request: gr.Request | None = None,
    ) -> Files:  # fmt: skip
        """Write a new piece in a style, key, tempo, metre, parts and form; the model chooses what is empty."""
        wanted = {
            "model": model, "bars": bars, "variations": variations, "draw": draw, "ends": ends, "chords": chords,
            "sampling": sampling,
            "idea": {
                "style": style, "key": key, "tempo": tempo, "metre": metre, "form": form,
                "parts": _named_parts(parts),
            },
        }  # fmt: skip
        return api.written(None, wanted, "cont", request)

    @with_sampling
    def infill(
        file: FileData, model: str = first_model, first: int = 1, last: int = 1, variations: int = 1,
        sampling: Drawn = NOTHING, parts: str = "", draw: int = DRAWN, request: gr.Request | None = None,
    ) -> Files:  # fmt: skip
        """Rewrite some bars of a file, all parts or those named; every other note stays as it is."""
        wanted = {
            "kind": "infill", "model": model, "first": first, "last": last, "variations": variations, "draw": draw,
            "sampling": sampling, "parts": _named_parts(parts),
        }  # fmt: skip
        return api.written(file, wanted, "infill", request)

    @with_sampling
    def accompany(
        file: FileData, model: str = first_model, parts: str = "drums", variations: int = 1,
        sampling: Drawn = NOTHING, draw: int = DRAWN, request: gr.Request | None = None,
    ) -> Files:  # fmt: skip
        """Write parts of a file, such as "bass, E-Guitar, +violin", to its other parts, which stay unchanged."""
        wanted = {
            "kind": "accompany", "model": model, "parts": _named_parts(parts),
            "variations": variations, "draw": draw, "sampling": sampling,
        }  # fmt: skip
        return api.written(file, wanted, "accompany", request)

    def sound(file: FileData, request: gr.Request | None = None) -> FileData:
        """Render a music file as WAV."""
        data, name = api.sent(file)
        data = actions.reader.as_midi(data, name, client_of(request))
        path = api.folder() / f"{_file_name(title_of(name))}.wav"
        client = client_of(request)
        with actions.place(client):
            render_to(path, data, api.soundfont, lambda: not api.room.is_gone(client))
        return _handed_out(path)

    def score(file: FileData, request: gr.Request | None = None) -> FileData:
        """Convert a music file to MusicXML for notation programs; MusicXML stays as it is."""
        data, name = api.sent(file)
        written = actions.reader.notated(data, name, client_of(request))
        path = api.folder() / f"{_file_name(title_of(name))}.musicxml"
        write_whole(path, written)
        return _handed_out(path)

    def similarity(
        file: FileData, output: FileData, request: gr.Request | None = None
    ) -> list[dict[str, Any]]:
        """Compare the style of a piece with that of a reference, quarter by quarter."""
        client = client_of(request)
        both = [actions.reader.read(*api.sent(one), client) for one in (file, output)]
        return actions.reader.apart(client, "one of these files", likeness, *both)

    def write(
        file: str, do: str = "continue", bars: str = "", parts: str = "", chords: str = "", form: str = "",
        seed: int = 0, result: str = "new", request: gr.Request | None = None,
    ) -> str:  # fmt: skip
        """Write in the bars of a file, such as "9-12": continue, end, rewrite, accompany or harmonise it.

        The file is MIDI or MusicXML in base64, and so is the answer's, with the new notes ("new") or all ("whole").
        """
        named = {
            "do": do,
            "bars": bars,
            "parts": parts,
            "chords": chords,
            "form": form,
            "seed": seed,
            "result": result,
        }
        options = {name: value for name, value in named.items() if value != ""}
        *_, last = OneStep(actions).views(
            Sent.checked(options, decoded(file), "", client_of(request))
        )
        return json.dumps(last)  # gradio would show an assistant an object as Python's

    go_on.__name__ = "continue"  # the name of the endpoint and of the tool for assistants
    for action in (models, read, go_on, begin, infill, accompany, sound, score, similarity, write):
        endpoint = api.answering(action)
        gr.api(endpoint, api_name=action.__name__, concurrency_limit=None)  # pyright: ignore[reportPrivateImportUsage]
