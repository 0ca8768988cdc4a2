"""The page: one HTML file, whose scripts, styles and other files are in app/assets."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.web.composing.requests import MOST_BARS, MOST_DRAWN, MOST_VARIATIONS, unsupported
from app.web.offered_models import EXAMPLES, OfferedModels
from musicgen.checkpoint import styles
from musicgen.generation.request import DRAWN
from musicgen.generation.sampling import CONTROLS, MUSICAL
from tokenization.midi.instruments import INSTRUMENTS

TITLE = "musicgen"
ASSETS = Path(__file__).parent.parent / "assets"
PLAYERS = {"remi": "piano", "groove": "trio", "ensemble": "band"}  # by language
YOURS = "your style"  # for those of the user
STYLES = ("tokens", "page", "roll", "small")  # in the order of use
# The browser loads nothing from other servers, whatever a part of the page requests.
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; "
    "connect-src 'self' data: blob:; object-src 'none'; base-uri 'self'; form-action 'self'"
)
APART = ("vendor", "worker")  # folders of scripts that the page does not import at once


def version() -> str:
    """Return a hash of the assets; in their URLs, it makes browsers load them again after an update."""
    files = sorted(path for path in ASSETS.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def html(address: str, facts: dict[str, Any], *more: str) -> str:
    """Return the page, with more elements in its head; nested imports load in parallel, by preloading."""
    plain = json.dumps(facts).replace("<", "\\u003c")
    scripts = sorted(
        path.as_posix()
        for path in (path.relative_to(ASSETS) for path in ASSETS.rglob("*.js"))
        if path.parts[0] not in APART
    )
    head = (
        f"<title>{TITLE}</title>",
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        *more,
        *(f'<link rel="stylesheet" href="{address}/style/{name}.css">' for name in STYLES),
        *(f'<link rel="modulepreload" href="{address}/{name}">' for name in scripts),
        f'<script type="application/json" id="mg-facts">{plain}</script>',
        f'<script type="module" src="{address}/page/main.js"></script>',
    )
    return f'<!doctype html><html lang="en"><head>{"".join(head)}</head><body></body></html>'


def page_facts(models: OfferedModels, address: str) -> dict[str, Any]:
    """Return the data that the page's scripts need at the start."""
    own = styles()
    return {
        "assets": address,
        "licences": f"{address}/vendor/LICENCES.txt",
        "models": [
            {
                "name": name,
                "player": YOURS if name in own else PLAYERS[language.name],
                "language": language.name,
                "idea": language.beginnings() or None,
                "parts": [*language.parts],
                "lacks": unsupported(language),
            }
            for name, language in models.languages.items()
        ],
        "trained": models.trained,
        "examples": [{"name": name, "title": title} for name, title in EXAMPLES.items()],
        "mostBars": MOST_BARS,
        "mostVariations": MOST_VARIATIONS,
        "mostDrawn": MOST_DRAWN,
        "usuallyDrawn": DRAWN,
        "instruments": INSTRUMENTS,
        "sampling": [
            {"name": name, "value": getattr(MUSICAL, name) or 0, **asdict(control)}
            for name, control in CONTROLS.items()
        ],
    }
