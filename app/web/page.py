"""The page itself: what its scripts know from the start, and what a browser asks for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.web.composing.requests import MOST_BARS, MOST_VARIATIONS, offered
from app.web.offered_models import EXAMPLES, OfferedModels, language_of_example
from musicgen.generation.sampling import CONTROLS, MUSICAL

TITLE = "musicgen"
ASSETS = Path(__file__).parent.parent / "assets"
PLAYERS = {"remi": "piano", "groove": "trio", "ensemble": "band"}  # by language
STYLES = ("tokens", "page", "roll", "desk", "small")  # in the order of use


def version() -> str:
    """Return a name of what the assets hold: with it in their addresses, a browser keeps none beyond an update."""
    files = sorted(path for path in ASSETS.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def html(address: str, models: OfferedModels) -> str:
    """Return the page; modules are named early, or each would wait for the one before."""
    facts = json.dumps(page_facts(models, address)).replace("<", "\\u003c")
    scripts = sorted(
        path.relative_to(ASSETS).as_posix()
        for path in ASSETS.rglob("*.js")
        if "vendor" not in path.parts
    )
    head = (
        f"<title>{TITLE}</title>",
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        *(f'<link rel="stylesheet" href="{address}/style/{name}.css">' for name in STYLES),
        *(f'<link rel="modulepreload" href="{address}/{name}">' for name in scripts),
        f'<script type="application/json" id="mg-facts">{facts}</script>',
        f'<script type="module" src="{address}/page/main.js"></script>',
    )
    return f'<!doctype html><html lang="en"><head>{"".join(head)}</head><body></body></html>'


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
        "sampling": [
            {"name": name, "value": getattr(MUSICAL, name) or 0, **asdict(control)}
            for name, control in CONTROLS.items()
        ],
    }
