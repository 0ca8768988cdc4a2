"""The pieces that come along, to try the page with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

EXAMPLES = {
    "piano-c-major": "Piano in C",
    "piano-c-sharp-minor": "Piano in C♯ minor",
    "piano-g-minor": "Piano in G minor",
    "trio-disco": "Disco trio",
    "trio-jazz": "Jazz trio",
    "trio-trance": "Trance trio",
}
EXAMPLE_LANGUAGES = {"piano": "remi", "trio": "groove"}  # by the first part of an example's name


def language_of_example(name: str) -> str:
    """Return the language that an example is of; nothing, of what is no piece."""
    return EXAMPLE_LANGUAGES.get(name.partition("-")[0], "")


def example(name: str) -> bytes:
    """Return the file of an example."""
    if name not in EXAMPLES:
        raise ValueError(f"there is no example of that name; there are {', '.join(EXAMPLES)}")
    return (Path(str(files("app") / "examples")) / f"{name}.mid").read_bytes()
