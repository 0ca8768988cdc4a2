"""The page: what its scripts know from the start, and gradio's frame around the endpoints that they call."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import gradio as gr

from app.web.actions import PageActions
from app.web.api import Api, add_api, add_desk_api
from app.web.composing.requests import MOST_BARS, MOST_VARIATIONS, offered
from app.web.offered_models import EXAMPLES, OfferedModels, language_of_example
from app.web.server.sessions import Visitors
from musicgen.generation.sampling import MUSICAL

TITLE = "musicgen"
ASSETS = Path(__file__).parent.parent / "assets"
PLAYERS = {"remi": "piano", "groove": "trio", "ensemble": "band"}  # by language
STYLES = ("tokens", "page", "roll", "desk", "small")  # in the order of use


def version() -> str:
    """Return a name of what the assets hold: with it in their addresses, a browser keeps none beyond an update."""
    files = sorted(path for path in ASSETS.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def head(address: str, models: OfferedModels) -> str:
    """Return what the page's head holds: what scripts need to know from the start, and what it asks for.

    The desk is drawn before gradio's own scripts are there, and stays above what they draw. Modules are named early,
    or each would wait for the one before.
    """
    facts = json.dumps(page_facts(models, address)).replace("<", "\\u003c")
    scripts = sorted(
        path.relative_to(ASSETS).as_posix()
        for path in ASSETS.rglob("*.js")
        if "vendor" not in path.parts
    )
    styles = [f'<link rel="stylesheet" href="{address}/style/{name}.css">' for name in STYLES]
    early = [f'<link rel="modulepreload" href="{address}/{name}">' for name in scripts]
    start = f'<script type="module" src="{address}/page/main.js"></script>'
    known = f'<script type="application/json" id="mg-facts">{facts}</script>'
    # Until gradio's scripts set it again, a tab would have no title.
    return "".join((f"<title>{TITLE}</title>", *styles, *early, known, start))


def page(actions: PageActions, visitors: Visitors, soundfont: Path | None = None) -> gr.Blocks:
    """Return the page's endpoints; what is seen is drawn by its scripts."""

    def leave(request: gr.Request) -> None:
        visitors.sessions.leave(str(request.session_hash))

    with gr.Blocks(title=TITLE, analytics_enabled=False, delete_cache=(600, 3600)) as blocks:
        blocks.unload(leave)
        add_desk_api(actions, visitors)
        add_api(Api(actions, visitors, soundfont))
    return blocks


def page_facts(models: OfferedModels, address: str) -> dict[str, Any]:
    """Return what the page's scripts need to know from the start."""
    return {
        "assets": address,
        "models": [
            {
                "name": name,
                "player": PLAYERS[language.name],
                "language": language.name,
                "idea": language.beginnings() or None,
                **offered(models, name),
            }
            for name, language in models.languages.items()
        ],
        "trained": models.trained,
        "examples": [
            {"name": name, "title": title, "language": language_of_example(name)}
            for name, title in EXAMPLES.items()
        ],
        "mostBars": MOST_BARS,
        "mostVariations": MOST_VARIATIONS,
        "sampling": {
            "temperature": MUSICAL.temperature,
            "topP": MUSICAL.top_p,
            "topK": MUSICAL.top_k or 0,
            "minP": MUSICAL.min_p,
            "recall": MUSICAL.recall,
        },
    }
