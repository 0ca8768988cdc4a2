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
FAMILIES = {"piano": "remi", "trio": "groove"}  # of languages, by how an example's name begins


def family_of_example(name: str) -> str:
    """Return the family of languages that an example is for: "remi" for a piano, "groove" for a trio."""
    return FAMILIES[name.partition("-")[0]]


def example(name: str) -> bytes:
    """Return the file of an example."""
    if name not in EXAMPLES:
        raise ValueError(f"there is no example of that name; there are {', '.join(EXAMPLES)}")
    return (Path(str(files("app") / "examples")) / f"{name}.mid").read_bytes()
