"""Requests with a known result, which any host can run, also one without a test runner: see hashes()."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import app
from musicgen import Playable, Sampling, Take

EXAMPLES = Path(app.__file__).parent / "examples"
TWO = {"variations": 2, "draw": 1, "seed": 2026}
REQUESTS: dict[str, Callable[[Playable], list[Take]]] = {
    "continue": lambda model: model.continue_(EXAMPLES / "trio-jazz.mid", prompt_bars=4, bars=2, **TWO),
    "choose": lambda model: model.continue_(
        EXAMPLES / "trio-jazz.mid", prompt_bars=4, bars=5, **{**TWO, "variations": 1, "draw": 2}),
    "rewrite": lambda model: model.infill(EXAMPLES / "piano-g-minor.mid", (3, 3), **TWO),
    "accompany": lambda model: model.accompany(EXAMPLES / "trio-trance.mid", "drums", **TWO),
    "end": lambda model: model.continue_(EXAMPLES / "trio-disco.mid", prompt_bars=3, bars=2, ends=True, **TWO),
    "generate": lambda model: model.continue_(
        bars=2, idea={"style": "song", "key": "G minor", "tempo": 90, "metre": "3/4"},
        plan={"density": 4}, sampling=Sampling(temperature=0.9, top_p=0.95, min_p=0.02), **TWO),
    "harmonise": lambda model: model.accompany(EXAMPLES / "piano-c-major.mid", "chords", **TWO),
}  # fmt: skip


def hashes(model: Playable, *names: str) -> dict[str, list[str]]:
    """Return the hashes of the files of both takes of each request."""
    return {
        name: [hashlib.sha256(take.midi).hexdigest()[:16] for take in REQUESTS[name](model)]
        for name in names or REQUESTS
    }
