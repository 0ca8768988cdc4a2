"""The page: gradio's controls around the piano rolls, and what each of them calls."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import gradio as gr

from app.web.api import Api, add_api
from app.web.errors import tell_errors
from app.web.server.doorman import Keeper
from app.web.server.limits import TOGETHER
from app.web.shelf import Shelf
from app.web.studio import EXAMPLES, MOST_BARS, MOST_VARIATIONS, NOTHING, Studio
from app.web.wishes import sentence, whole, wished
from musicgen.sampling import MUSICAL

ASSETS = Path(__file__).parent.parent / "assets"
NAMES = ("paint", "roll", "player", "parts", "stage", "takes", "page")  # in the order of use
# With a version in their addresses, a browser does not keep these files beyond an update.
VERSION = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(ASSETS.iterdir()))).hexdigest()[:8]
SCRIPTS = "".join(f'<script src="musicgen/{name}.js?{VERSION}"></script>' for name in NAMES)
# As a file of its own: gradio would take the styles apart and lose some.
STYLES = f'<link rel="stylesheet" href="musicgen/page.css?{VERSION}">'
PLAYERS = {"remi": "piano", "groove": "trio"}  # by family of languages
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
AT_ONCE: dict[str, Any] = {**PRIVATE, "queue": False}
# The names in quotes are the events that gr.HTML lets Python listen to.
STAGE_SCRIPT = "musicgen.stage(element, trigger, props, watch); // 'file' 'example' 'choose' 'undo'"
TAKES_SCRIPT = "musicgen.takes(element, trigger, props, watch); // 'further'"
NO_MODEL = (
    '<p class="mg-note">No trained model is installed, so an untrained one plays: what it writes is '
    "valid music, and makes no sense. <code>make models</code> trains the real ones.</p>"
)


class Page:
    """The components, and the handlers that connect them with a studio."""

    def __init__(self, studio: Studio, keeper: Keeper, soundfont: Path | None = None) -> None:
        self.studio, self.keeper = studio, keeper
        self._nonce = count()
        with gr.Blocks(
            title="musicgen", analytics_enabled=False, delete_cache=(600, 3600)
        ) as self.blocks:
            self._lay_out(studio.shelf)
            self._connect()
            add_api(Api(studio, keeper, soundfont))
        tell_errors(self.blocks, keeper.answered)

    def _lay_out(self, shelf: Shelf) -> None:
        gr.HTML(
            html_template='<header class="mg-bar"><h1>musicgen</h1><p>Continue a piece of music.</p></header>',
            js_on_load="musicgen.page(element)",
            head=SCRIPTS,
            apply_default_css=False,
        )
        if not shelf.trained:
            gr.HTML(NO_MODEL, js_on_load=None, apply_default_css=False)
        with gr.Row():
            with gr.Column(scale=7, min_width=320):
                self.stage = own_part(
                    "mg-stage",
                    STAGE_SCRIPT,
                    examples=[*EXAMPLES.items(), (NOTHING, "From nothing")],
                )
            with gr.Column(scale=3, min_width=300):
                self._lay_out_controls(shelf)
        self.takes = own_part("mg-takes", TAKES_SCRIPT)

    def _lay_out_controls(self, shelf: Shelf) -> None:
        names = [
            (f"{name} · {PLAYERS[spoken.family]}", name) for name, spoken in shelf.languages.items()
        ]
        self.model = gr.Dropdown(names, value=shelf.first, label="Model", elem_id="mg-model")
        self.prompt_bars = gr.Slider(
            1, 16, 8, step=1, label="Prompt: the first bars", elem_id="mg-prompt-bars", buttons=[]
        )
        self.bars = gr.Slider(
            1, MOST_BARS, 16, step=1, label="Go on for, in bars", elem_id="mg-bars", buttons=[]
        )
        self.variations = gr.Slider(
            1, MOST_VARIATIONS, 2, step=1, label="Variations", elem_id="mg-variations", buttons=[]
        )
        with gr.Accordion("More: temperature, top-p, seed", open=False, elem_id="mg-more"):
            self.temperature = gr.Slider(
                0,
                2,
                MUSICAL.temperature,
                step=0.05,
                label="Temperature",
                info="0: always the likeliest note",
                buttons=[],
            )
            self.top_p = gr.Slider(
                0.05, 1, MUSICAL.top_p, step=0.01, label="Top-p", info="1: no limit", buttons=[]
            )
            self.top_k = gr.Slider(0, 200, 0, step=1, label="Top-k", info="0: no limit", buttons=[])
            self.min_p = gr.Slider(
                0, 0.5, MUSICAL.min_p, step=0.01, label="Min-p", info="0: no limit", buttons=[]
            )
            self.seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="mg-seed")
            self.new_seed = gr.Checkbox(True, label="Another seed each time", elem_id="mg-new-seed")
        self.go = gr.Button("Continue", variant="primary", size="lg", elem_id="mg-go")
        self.halt = gr.Button("Stop", variant="stop", size="lg", elem_id="mg-halt", visible=False)

    def _connect(self) -> None:
        shown = [self.stage, self.prompt_bars, self.takes]
        wish = [self.bars, self.variations, self.temperature, self.top_p, self.top_k, self.min_p]
        self.blocks.load(self._arrive, [self.model], shown, **AT_ONCE)
        self.blocks.unload(self._leave)
        self.stage.file(self._open_file, [self.model], shown, **AT_ONCE)
        self.stage.example(self._open_example, [self.model], [*shown, self.model], **AT_ONCE)
        self.stage.undo(self._undo, [self.model], shown, **AT_ONCE)
        self.stage.choose(None, None, self.prompt_bars, js="() => musicgen.chosen", **PRIVATE)
        # Of changes that come while one is answered, the last counts.
        self.model.input(
            self._change_model, [self.model], shown, trigger_mode="always_last", **AT_ONCE
        )
        for event in (self.prompt_bars.input, self.prompt_bars.release):
            event(
                None, [self.prompt_bars], None, js="(bars) => { musicgen.choose(bars); }", **PRIVATE
            )
        self.takes.further(self._further, [self.model, self.prompt_bars], shown, **AT_ONCE)
        self.go.click(None, None, None, js="() => { musicgen.waiting(); }", **PRIVATE)
        buttons = [self.go, self.halt]
        playing = self.go.click(
            self._go_on,
            [self.model, self.prompt_bars, *wish, self.seed, self.new_seed],
            [self.takes, *buttons, self.seed],
            concurrency_limit=TOGETHER,
            concurrency_id="music",
            **PRIVATE,
        )
        playing.then(_buttons, None, buttons, **AT_ONCE)
        self.halt.click(self._stop, None, None, **AT_ONCE)

    # What the parts call: each answers with what the stage, the prompt's length and the takes show.

    def _arrive(self, model: str, request: gr.Request) -> tuple[Any, ...]:
        first = self.studio.first_example(model)
        return self._staged(
            lambda visitor: self.studio.open_example(visitor, first, model), request
        )

    def _open_file(self, model: str, event: gr.EventData, request: gr.Request) -> tuple[Any, ...]:
        def opened(visitor: str) -> dict[str, Any]:
            try:
                data = base64.b64decode(str(event.data), validate=True)
            except binascii.Error:
                raise ValueError("the file did not arrive whole; choose it again") from None
            return self.studio.open_file(visitor, str(event.name), data, model)

        return self._staged(opened, request)

    def _open_example(
        self, model: str, event: gr.EventData, request: gr.Request
    ) -> tuple[Any, ...]:
        model = self.studio.model_for(str(event.name), model)
        staged = self._staged(
            lambda visitor: self.studio.open_example(visitor, str(event.name), model), request
        )
        return *staged, model

    def _undo(self, model: str, request: gr.Request) -> tuple[Any, ...]:
        return self._staged(lambda visitor: self.studio.undo(visitor, model), request)

    def _further(
        self, model: str, prompt_bars: int, event: gr.EventData, request: gr.Request
    ) -> tuple[Any, ...]:
        return self._staged(
            lambda visitor: self.studio.go_on_from(visitor, int(event.number), prompt_bars, model),
            request,
        )

    def _change_model(self, model: str, request: gr.Request) -> tuple[Any, ...]:
        stage, prompt_bars, _ = self._staged(
            lambda visitor: self.studio.look(visitor, model), request
        )
        return stage, prompt_bars, gr.skip()

    def _stop(self, request: gr.Request) -> None:
        self.studio.stop(str(request.session_hash))

    def _leave(self, request: gr.Request) -> None:
        self.studio.sessions.leave(str(request.session_hash))

    def _staged(self, act: Callable[[str], dict[str, Any]], request: gr.Request) -> tuple[Any, ...]:
        try:
            stage = act(str(request.session_hash))
        except ValueError as error:
            return self._new(error=sentence(error)), gr.skip(), gr.skip()
        bars = gr.Slider(
            maximum=max(2, stage["length"]),
            value=stage["chosen"] or 1,
            interactive=stage["length"] > 1,
            visible=stage["length"] > 0,
        )
        return self._new(**stage), bars, self._new(cleared=True)

    def _go_on(
        self, model: str, prompt_bars: int, bars: int, variations: int, temperature: float, top_p: float,
        top_k: int, min_p: float, seed: int | None, new_seed: bool, request: gr.Request,
    ) -> Iterator[tuple[Any, ...]]:  # fmt: skip
        try:
            draws = new_seed or seed is None
            seed = secrets.randbelow(1_000_000) if draws else whole("seed", seed)
            started = [gr.Button(visible=False), gr.Button(visible=True), seed]
            wish = wished(bars, variations, temperature, top_p, top_k, min_p, seed)
            asker = self.keeper.asker(request)
            for view in self.studio.go_on(asker, model, whole("prompt_bars", prompt_bars), wish):
                yield view, *started
                started = [gr.skip()] * 3
        except ValueError as error:
            yield self._new(state="failed", error=sentence(error)), *[gr.skip()] * 3

    def _new(self, **view: Any) -> dict[str, Any]:
        """Return a view that differs from the one before, so that the page sees it."""
        return {**view, "nonce": next(self._nonce)}


def own_part(name: str, script: str, **properties: Any) -> gr.HTML:
    """Return a part of the page that its own script draws."""
    return gr.HTML(
        value=None,
        html_template="<div></div>",
        js_on_load=script,
        head=SCRIPTS,
        apply_default_css=False,
        elem_id=name,
        **properties,
    )


def _buttons() -> tuple[gr.Button, gr.Button]:
    return gr.Button(visible=True), gr.Button(visible=False)
