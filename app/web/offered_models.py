"""The models and the example pieces that the page offers."""

from __future__ import annotations

import threading
from importlib.resources import files
from pathlib import Path

from musicgen import playable
from musicgen.playable import Playable
from tokenization.language import Language

EXAMPLES = {
    "piano-c-major": "Piano in C",
    "piano-c-sharp-minor": "Piano in C♯ minor",
    "piano-g-minor": "Piano in G minor",
    "trio-disco": "Disco trio",
    "trio-jazz": "Jazz trio",
    "trio-trance": "Trance trio",
}


def example(name: str) -> bytes:
    """Return the file of an example."""
    if name not in EXAMPLES:
        raise ValueError(f"there is no example with that name; available: {', '.join(EXAMPLES)}")
    return (Path(str(files("app") / "examples")) / f"{name}.mid").read_bytes()


UNTRAINED = f"{playable.UNTRAINED}:tiny:ensemble"  # if no trained model is installed


class OfferedModels:
    """The models by name, opened when first used; `first` is offered first, and `left_out` says what cannot be read."""

    def __init__(self, first: str | None = None) -> None:
        wanted = {name: playable.language_of(name) for name in ([first] if first else [])}
        found, self.left_out = playable.readable(playable.language_of)
        self.languages: dict[str, Language] = wanted | found
        if not found:
            self.languages[UNTRAINED] = playable.language_of(UNTRAINED)
        self.trained = not all(name.startswith(playable.UNTRAINED) for name in self.languages)
        self._found: dict[str, Playable] = {}
        self._lock = threading.Lock()

    @property
    def first(self) -> str:
        """The default model."""
        return next(iter(self.languages))

    def language(self, name: str) -> Language:
        """Return the language of a model; no name means the first."""
        if (name or self.first) not in self.languages:
            raise ValueError(
                f"there is no model with that name; available: {', '.join(self.languages)}"
            )
        return self.languages[name or self.first]

    def find(self, name: str) -> Playable:
        """Return a model without its weights."""
        self.language(name)
        name = name or self.first
        with self._lock:  # concurrent requests for it wait for the first
            if name not in self._found:
                try:
                    self._found[name] = playable.find(name)
                except OSError:  # its folder was moved or deleted since the start
                    raise ValueError("this model no longer exists; choose another") from None
            return self._found[name]
