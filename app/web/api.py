"""The page's actions as named endpoints: for programs and, below, for the page's own scripts."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr
import orjson

from app.audio import render_to
from app.web.actions import PageActions, ending
from app.web.composing.opened_files import title_of
from app.web.composing.requests import (
    MOST_BARS,
    MOST_VARIATIONS,
    SAMPLING,
    request_from,
    streamed_takes,
    with_able_model,
)
from app.web.composing.streamed_takes import StreamedTakes, by_quarter
from app.web.server.jobs import TOGETHER
from app.web.server.sessions import Asker, Visitors, client_of
from musicgen import playable
from musicgen.generation.sampling import MUSICAL
from musicgen.pieces import Piece
from tokenization.formats import ENDINGS, is_midi, midi
from tokenization.score import Score
from tokenization.whole_file import write_whole
from tokenization.wording import sentence

Answer = TypeVar("Answer")


def answering(action: Callable[..., Answer]) -> Callable[..., Answer]:
    """Turn what is wrong with a request into its answer: one sentence."""

    @functools.wraps(action)
    def answered(*values: Any, **named: Any) -> Answer:
        try:
            return action(*values, **named)
        except ValueError as error:
            raise gr.Error(sentence(str(error)), print_exception=False) from None

    return answered


def with_sampling(action: Callable[..., Answer]) -> Callable[..., Answer]:
    """Let gradio hand over `sampling` of an endpoint value by value, as it has to, under their names."""
    signature = inspect.signature(action)
    names = [*signature.parameters]
    first = names.index("sampling")
    stop = first + len(SAMPLING)

    @functools.wraps(action)
    def called(*values: Any) -> Answer:
        return action(
            *values[:first], dict(zip(SAMPLING, values[first:stop], strict=True)), *values[stop:]
        )

    one_by_one = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in SAMPLING
    ]
    parameters = [*signature.parameters.values()]
    parameters[first : first + 1] = one_by_one
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


Sampled = dict[str, float]  # by the names of SAMPLING
Files = tuple[list[str], list[dict[str, Any]]]
FILE_TYPES: list[str] = list(ENDINGS)


class Api:
    """The endpoints over the page's actions; files lie in the folder of who asked, which is emptied."""

    def __init__(
        self, actions: PageActions, visitors: Visitors, soundfont: Path | None = None
    ) -> None:
        self.actions, self.visitors, self.soundfont = actions, visitors, soundfont

    @answering
    def models(self) -> list[dict[str, Any]]:
        """List the models that can be asked for, with what is known of them."""
        known = {row["name"]: row for row in playable.models()}
        return [
            known.get(name, {"name": name, "language": language.name})
            for name, language in self.actions.models.languages.items()
        ]

    @answering
    def read(self, file: str, model: str, request: gr.Request) -> dict[str, Any]:
        """Say what a file of music is to a model: its bars, notes and tracks, and remarks."""
        piece = self._piece(self._given(file), model, request)
        return {
            "title": piece.name,
            "language": piece.language.name,
            "bars": piece.bars,
            "notes": len(piece.score.notes),
            "tracks": [track.name for track in piece.score.tracks],
            "tokens": len(piece.encoded.ids),
            "remarks": list(piece.remarks),
        }

    @answering
    @with_sampling
    def go_on(
        self, file: str | None, model: str, prompt_bars: int, bars: int, variations: int, sampling: Sampled,
        ends: bool, chords: str, request: gr.Request,
    ) -> Files:  # fmt: skip
        """Continue a file of music, or begin from nothing: a MIDI file a variation, and what is known of each."""
        wanted = {
            "model": model, "promptBars": prompt_bars, "bars": bars, "variations": variations, "sampling": sampling,
            "ends": ends, "chords": chords,
        }  # fmt: skip
        return self._written(file, wanted, "cont", request)

    @answering
    @with_sampling
    def begin(
        self, model: str, style: str, key: str, tempo: float, metre: str, parts: str, form: str,
        bars: int, variations: int, sampling: Sampled, ends: bool, chords: str, request: gr.Request,
    ) -> Files:  # fmt: skip
        """Begin a piece from nothing, in a style, key, tempo, metre, parts and form; what is empty is left open."""
        idea = {
            "style": style,
            "key": key,
            "tempo": tempo,
            "metre": metre,
            "parts": parts,
            "form": form,
        }
        wanted = {
            "model": model, "idea": idea, "bars": bars, "variations": variations, "sampling": sampling,
            "ends": ends, "chords": chords,
        }  # fmt: skip
        return self._written(None, wanted, "cont", request)

    @answering
    @with_sampling
    def infill(
        self, file: str, model: str, first: int, last: int, variations: int, sampling: Sampled,
        request: gr.Request,
    ) -> Files:  # fmt: skip
        """Rewrite some bars of a file; every note outside them stays as it is."""
        wanted = {"kind": "infill", "model": model, "first": first, "last": last}
        drawn = {"bars": 1, "variations": variations, "sampling": sampling}
        return self._written(self._given(file), {**wanted, **drawn}, "infill", request)

    @answering
    @with_sampling
    def accompany(
        self, file: str, model: str, parts: str, variations: int, sampling: Sampled,
        request: gr.Request,
    ) -> Files:  # fmt: skip
        """Write parts of a file, such as "bass drums", to its other parts, which stay note for note."""
        named = str(parts or "").replace(",", " ").split()
        wanted = {"kind": "accompany", "model": model, "parts": named}
        drawn = {"bars": 1, "variations": variations, "sampling": sampling}
        return self._written(self._given(file), {**wanted, **drawn}, "accompany", request)

    @answering
    def sound(self, file: str, request: gr.Request) -> str:
        """Play a file of music: a WAV file."""
        data, score = self._score(file, request)
        if not is_midi(data):
            data = midi(score)
        path = self._path(file, "wav", request)
        render_to(path, data, self.soundfont)
        self.visitors.sessions.make_room()
        return str(path)

    @answering
    def score(self, file: str, request: gr.Request) -> str:
        """Write a file of music as MusicXML, for programs that print it; a score stays as it is."""
        data, asker = self._data(file), self.visitors.asker(request)
        written = self.actions.reader.notated(data, Path(file).name, asker)
        path = self._path(file, "musicxml", request)
        write_whole(path, written)
        self.visitors.sessions.make_room()
        return str(path)

    @answering
    def similarity(self, reference: str, output: str, request: gr.Request) -> list[dict[str, Any]]:
        """Compare the style of a piece with a reference's, quarter by quarter."""
        both = [self._score(file, request)[1] for file in (reference, output)]
        asker = self.visitors.asker(request)
        return self.actions.reader.apart(asker, "one of these files", by_quarter, *both)

    def _written(
        self, file: str | None, plain: dict[str, Any], kind: str, request: gr.Request
    ) -> Files:
        wanted = with_able_model(self.actions.models, request_from(plain))
        piece = self._piece(file, wanted.model, request) if file else None
        playing = self.actions.models.find(wanted.model)
        streamed = streamed_takes(playing, piece, wanted)
        begun = time.monotonic()
        with self.actions.at_work(streamed, self.visitors.asker(request)) as job:
            job.ended.wait()
        spent = time.monotonic() - begun
        name = piece.name if piece else playing.name.replace(":", "-")
        state = ending(job, spent)
        return self._files(streamed, f"{_file_name(name)}.{kind}", state, spent, request)

    def _files(
        self, streamed: StreamedTakes, name: str, state: str, seconds: float, request: gr.Request
    ) -> Files:
        """Write a file a take; a silent one has none, and there is nothing to say of it."""
        folder, paths, facts = self._folder(request), [], []
        takes = [take for take in streamed.chosen() if len(take.score.notes)]
        if not takes:
            raise ValueError(
                "no note was written; more bars, another seed or a higher temperature may help"
            )
        for number, take in enumerate(takes):
            path = folder / f"{name}_{number}.mid"
            said = take.save(path)
            paths.append(str(path))
            prompt = streamed.region.prompt
            facts.append(
                {
                    "variation": take.number,
                    "tokens": take.tokens,
                    "notes": len(take.continuation.notes),
                    "seconds": round(seconds, 3),
                    "state": state,
                    "similarity": by_quarter(prompt, take.continuation) if prompt else [],
                    **({"not_kept": said} if said else {}),
                    **take.provenance,
                }
            )
        return paths, facts

    @staticmethod
    def _given(file: str) -> str:
        if not file:
            raise ValueError(
                "there is no file: send one, or leave it out of /continue to begin from nothing"
            )
        return file

    def _piece(self, file: str, model: str, request: gr.Request) -> Piece:
        language, asker = self.actions.models.language(model), self.visitors.asker(request)
        name, data = Path(file).name, self._data(file)
        return self.actions.reader.open(data, name, language, asker=asker).piece

    def _score(self, file: str, request: gr.Request) -> tuple[bytes, Score]:
        data, asker = self._data(file), self.visitors.asker(request)
        return data, self.actions.reader.read(data, Path(file).name, asker)

    @staticmethod
    def _data(file: str) -> bytes:
        if not file:
            raise ValueError("there is no file: send one")
        return Path(file).read_bytes()

    def _path(self, file: str, ending: str, request: gr.Request) -> Path:
        return self._folder(request) / f"{_file_name(title_of(file))}.{ending}"

    def _folder(self, request: gr.Request) -> Path:
        return self.visitors.sessions.folder_for_answer(str(request.session_hash))


def add_api(api: Api) -> None:
    """Declare the endpoints in the page at hand; their components are never shown."""
    models, waits = api.actions.models, {"concurrency_limit": TOGETHER, "concurrency_id": "music"}
    reads = {"concurrency_limit": TOGETHER, "concurrency_id": "reading"}  # Readers share it out
    with gr.Row(visible=False):
        file = gr.File(label="file", file_types=FILE_TYPES, type="filepath")
        other = gr.File(label="output", file_types=FILE_TYPES, type="filepath")
        model = gr.Textbox(models.first, label="model", info=", ".join(models.languages))
        prompt_bars = _whole("prompt_bars", 0, 0, info="0: all")
        first, last = _whole("first", 1, 1), _whole("last", 1, 1)
        bars, variations = (
            _whole("bars", 16, 1, MOST_BARS),
            _whole("variations", 1, 1, MOST_VARIATIONS),
        )
        named = {
            "temperature": gr.Number(MUSICAL.temperature, label="temperature", minimum=0),
            "top_p": gr.Number(MUSICAL.top_p, label="top_p"),
            "top_k": _whole("top_k", 0, 0, info="0: no limit"),
            "min_p": gr.Number(MUSICAL.min_p, label="min_p"),
            "seed": _whole("seed", 0, 0),
        }
        sampling = [*named.values()]  # in the order of SAMPLING
        ends = gr.Checkbox(False, label="ends", info="with the last of these bars")
        chords = gr.Textbox("", label="chords", info="C | G7 | Am F | C")
        idea = {
            "style": gr.Textbox("", label="style", info="song, quartet, band …"),
            "key": gr.Textbox("", label="key", info="G minor"),
            "tempo": gr.Number(0, label="tempo", info="beats a minute, 0: any"),
            "metre": gr.Textbox("", label="metre", info="3/4"),
            "parts": gr.Textbox("", label="parts", info="flute, piano"),
            "form": gr.Textbox("", label="form", info="A A B A"),
        }
        parts = gr.Textbox("drums", label="parts", info="of bass, drums and other, one or two")
        files = gr.File(label="files", file_count="multiple")
        made, facts = gr.File(label="made"), gr.JSON(label="facts")
        button = gr.Button("call")
    continued = [file, model, prompt_bars, bars, variations, *sampling, ends, chords]
    begun = [model, *idea.values(), bars, variations, *sampling, ends, chords]
    filled = [file, model, first, last, variations, *sampling]
    accompanied = [file, model, parts, variations, *sampling]
    button.click(api.models, None, facts, api_name="models", queue=False)
    button.click(api.read, [file, model], facts, api_name="read", **reads)
    button.click(api.go_on, continued, [files, facts], api_name="continue", **waits)
    button.click(api.begin, begun, [files, facts], api_name="begin", **waits)
    button.click(api.infill, filled, [files, facts], api_name="infill", **waits)
    button.click(api.accompany, accompanied, [files, facts], api_name="accompany", **waits)
    button.click(api.sound, file, made, api_name="sound", concurrency_limit=2)
    button.click(api.score, file, made, api_name="score", **reads)
    button.click(api.similarity, [file, other], facts, api_name="similarity", **reads)


def _whole(
    label: str, value: int, least: int, most: int | None = None, info: str | None = None
) -> gr.Number:
    return gr.Number(value, label=label, precision=0, minimum=least, maximum=most, info=info)


def _file_name(title: str) -> str:
    """Return a title as a name that any file system takes."""
    return "".join(c if c.isalnum() or c in "-_ " else "_" for c in title)[:60].strip() or "music"


# What the page's scripts call: hear a file, write to it, stop. Programs have endpoints of their own.

HIDDEN: dict[str, Any] = {"api_visibility": "undocumented", "show_progress": "hidden"}


class DeskApi:
    """The page's endpoints over the page's actions."""

    def __init__(self, actions: PageActions, visitors: Visitors) -> None:
        self.actions, self.visitors = actions, visitors

    @answering
    def open(self, file: str | None, what: Any, request: gr.Request) -> str:
        """Return a file, an example or nothing, as the page shows it."""
        what = what if isinstance(what, dict) else {}
        model, fit = str(what.get("model") or ""), bool(what.get("fit"))
        if file:
            name = str(what.get("name") or "") or Path(file).name
            data, asker = Path(file).read_bytes(), Asker(client=client_of(request))
            return as_text(self.actions.open(data, name, model, fit=fit, asker=asker))
        if what.get("example"):
            return as_text(self.actions.open_example(str(what["example"]), model, fit=fit))
        return as_text(self.actions.nothing(model))

    def write(self, file: str | None, plain: Any, job: str, request: gr.Request) -> Iterator[str]:
        """Yield music as it is written."""
        try:
            wanted = request_from(plain)
            data = Path(file).read_bytes() if file else None
            # As the piece is called now, and of the kind that the file was sent as: a tune stays one.
            name = f"{wanted.title or 'Your file'}{Path(file or '').suffix or '.'}"
            asker = self.visitors.asker(request)
            for view in self.actions.write(asker, wanted, data, name, str(job or "")):
                yield as_text(view)
        except ValueError as error:
            raise gr.Error(sentence(str(error)), print_exception=False) from None

    def stop(self, job: str) -> None:
        """End a request; what there is stays."""
        self.actions.stop(str(job or ""))


def as_text(view: dict[str, Any]) -> str:
    """Return a view as JSON: gradio would look at each of its thousands of numbers, five times, for files."""
    return orjson.dumps(view, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def add_desk_api(actions: PageActions, visitors: Visitors) -> None:
    """Declare the page's endpoints in the page at hand."""
    api = DeskApi(actions, visitors)
    with gr.Row(visible=False):
        file = gr.File(label="file", type="filepath")
        what, view = gr.JSON(label="what"), gr.Textbox(label="view")
        job = gr.Textbox(label="job")
        button = gr.Button("call")
    button.click(api.open, [file, what], view, api_name="desk_open", queue=False, **HIDDEN)
    button.click(
        api.write,
        [file, what, job],
        view,
        api_name="desk_write",
        concurrency_limit=TOGETHER,
        concurrency_id="music",
        **HIDDEN,
    )
    button.click(api.stop, job, None, api_name="desk_stop", queue=False, **HIDDEN)
