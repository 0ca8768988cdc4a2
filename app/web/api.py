"""The page's actions as named endpoints, for programs: models, read, continue, sound, similarity."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gradio as gr

from app import models
from app.audio import render_to
from app.service import Continuation, midi_of, no_prompt, read_piece
from app.web.server.doorman import Keeper
from app.web.server.limits import TOGETHER
from app.web.similarity import by_quarter
from app.web.studio import (
    LONGEST_SECONDS,
    MOST_BARS,
    MOST_VARIATIONS,
    Studio,
    check,
    title_of,
)
from app.web.wishes import sentence, whole, wished
from musicgen.sampling import MUSICAL
from tokenization import any_file
from tokenization.midi import write_midi
from tokenization.midi_limits import UPLOAD
from tokenization.whole_file import write_whole

Answer = TypeVar("Answer")
ENDINGS: list[str] = list(any_file.ENDINGS)


def answering(action: Callable[..., Answer]) -> Callable[..., Answer]:
    """Turn what is wrong with a request into its answer: one sentence."""

    @functools.wraps(action)
    def answered(*values: Any, **named: Any) -> Answer:
        try:
            return action(*values, **named)
        except ValueError as error:
            raise gr.Error(sentence(error), print_exception=False) from None

    return answered


class Api:
    """The endpoints over a studio; files lie in the folder of who asked, which is emptied."""

    def __init__(self, studio: Studio, keeper: Keeper, soundfont: Path | None = None) -> None:
        self.studio, self.keeper, self.soundfont = studio, keeper, soundfont

    @answering
    def models(self) -> list[dict[str, Any]]:
        """List the models that can be asked for, with what is known of them."""
        known = {row["name"]: row for row in models.table()}
        return [
            known.get(name, {"name": name, "language": language.name})
            for name, language in self.studio.shelf.languages.items()
        ]

    @answering
    def read(self, file: str, model: str) -> dict[str, Any]:
        """Say what a file of music is to a model: its bars, notes and tracks, and remarks."""
        piece = self._piece(file, model)
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
    def go_on(
        self, file: str | None, model: str, prompt_bars: int, bars: int, variations: int, temperature: float,
        top_p: float, top_k: int, min_p: float, seed: int, request: gr.Request,
    ) -> tuple[list[str], list[dict[str, Any]]]:  # fmt: skip
        """Continue a file of music, or begin from nothing: a MIDI file a variation, and what is known of each."""
        wish, asker = (
            wished(bars, variations, temperature, top_p, top_k, min_p, seed),
            self.keeper.asker(request),
        )
        first = whole("prompt_bars", prompt_bars)
        check(wish)
        piece = self._piece(file, model) if file else None
        playing = self.studio.shelf.load(model)
        work = Continuation(
            playing, piece.prompt(first or None) if piece else no_prompt(playing), wish
        )
        begun = time.monotonic()
        late = begun + LONGEST_SECONDS
        running = work.run(lambda: time.monotonic() > late or asker.is_gone(begun))
        for _ in self.studio.turns.taken(running, asker.client):
            pass
        folder, paths, facts = self._folder(request), [], []
        for take in work.takes():
            name = piece.name if piece else playing.name.replace(":", "-")
            path = folder / f"{_file_name(name)}.cont_{take.number}.mid"
            write_whole(path, midi_of(take.whole, take.provenance))
            paths.append(str(path))
            facts.append(
                {
                    "variation": take.number,
                    "tokens": take.tokens,
                    "notes": len(take.continuation.notes),
                    "seconds": round(time.monotonic() - begun, 3),
                    "similarity": by_quarter(work.prompt.score, take.continuation),
                    **take.provenance,
                }
            )
        return paths, facts

    @answering
    def sound(self, file: str, request: gr.Request) -> str:
        """Play a file of music: a WAV file."""
        data, name = Path(file).read_bytes(), title_of(file)
        score = any_file.read_file(data, limits=UPLOAD, name=name)  # says what is wrong with it
        if not any_file.is_midi(data):
            data = write_midi(score)
        path = self._folder(request) / f"{_file_name(name)}.wav"
        render_to(path, data, self.soundfont)
        return str(path)

    @answering
    def similarity(self, reference: str, output: str) -> list[dict[str, Any]]:
        """Compare the style of a piece with a reference's, quarter by quarter."""
        scores = [
            any_file.read_file(Path(file).read_bytes(), limits=UPLOAD, name=title_of(file))
            for file in (reference, output)
        ]
        return by_quarter(*scores)

    def _piece(self, file: str, model: str):
        if not file:
            raise ValueError(
                "there is no file: send one, or leave it out of /continue to begin from nothing"
            )
        spoken = self.studio.shelf.language(model)
        return read_piece(spoken, Path(file).read_bytes(), name=title_of(file), limits=UPLOAD)

    def _folder(self, request: gr.Request) -> Path:
        return self.studio.sessions.folder_for_answer(str(request.session_hash))


def add_api(api: Api) -> None:
    """Declare the endpoints in the page at hand; their components are never shown."""
    shelf, waits = api.studio.shelf, {"concurrency_limit": TOGETHER, "concurrency_id": "music"}
    with gr.Row(visible=False):
        file = gr.File(label="file", file_types=ENDINGS, type="filepath")
        other = gr.File(label="output", file_types=ENDINGS, type="filepath")
        model = gr.Textbox(shelf.first, label="model", info=", ".join(shelf.languages))
        prompt_bars = gr.Number(0, label="prompt_bars", info="0: all", precision=0, minimum=0)
        numbers = [
            gr.Number(16, label="bars", precision=0, minimum=1, maximum=MOST_BARS),
            gr.Number(1, label="variations", precision=0, minimum=1, maximum=MOST_VARIATIONS),
            gr.Number(MUSICAL.temperature, label="temperature", minimum=0),
            gr.Number(MUSICAL.top_p, label="top_p"),
            gr.Number(0, label="top_k", info="0: no limit", precision=0, minimum=0),
            gr.Number(MUSICAL.min_p, label="min_p"),
            gr.Number(0, label="seed", precision=0, minimum=0),
        ]
        files = gr.File(label="files", file_count="multiple")
        sound, facts = gr.File(label="sound"), gr.JSON(label="facts")
        button = gr.Button("call")
    button.click(api.models, None, facts, api_name="models", queue=False)
    button.click(api.read, [file, model], facts, api_name="read")
    button.click(
        api.go_on,
        [file, model, prompt_bars, *numbers],
        [files, facts],
        api_name="continue",
        **waits,
    )
    button.click(api.sound, file, sound, api_name="sound", concurrency_limit=2)
    button.click(api.similarity, [file, other], facts, api_name="similarity")


def _file_name(title: str) -> str:
    """Return a title as a name that any file system takes."""
    return "".join(c if c.isalnum() or c in "-_ " else "_" for c in title)[:60].strip() or "music"
