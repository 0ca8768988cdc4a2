"""What the page's scripts call: hear a file, write to it, stop. Programs have endpoints of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import orjson

from app.web.actions import PageActions
from app.web.composing.requests import request_from
from app.web.endpoint import answering
from app.web.server.capacity import TOGETHER
from app.web.server.visitors import Visitors
from tokenization.wording import sentence

HIDDEN: dict[str, Any] = {"api_visibility": "undocumented", "show_progress": "hidden"}


class DeskApi:
    """The page's endpoints over the page's actions."""

    def __init__(self, actions: PageActions, visitors: Visitors) -> None:
        self.actions, self.visitors = actions, visitors

    @answering
    def open(self, file: str | None, what: Any) -> str:
        """Return a file, an example or nothing, as the page shows it."""
        what = what if isinstance(what, dict) else {}
        model, fit = str(what.get("model") or ""), bool(what.get("fit"))
        if file:
            name = str(what.get("name") or "") or Path(file).name
            return as_text(self.actions.open(Path(file).read_bytes(), name, model, fit=fit))
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
