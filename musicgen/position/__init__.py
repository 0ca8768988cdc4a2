"""Positional encodings by name."""

from musicgen.position.base import NoneConfig, Position, Shape

POSITIONS: dict[str, tuple[type, type[Position]]] = {
    "none": (NoneConfig, Position),
}

__all__ = ["POSITIONS", "Position", "Shape"]
