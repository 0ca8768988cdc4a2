"""The models at hand, as the page calls them; all else is in musicgen/loading.py."""

from musicgen.loading import DEFAULT, UNTRAINED, described, device_of, language_of, load
from musicgen.loading import models as table
from musicgen.playable import Playable as Model

__all__ = [
    "DEFAULT",
    "UNTRAINED",
    "Model",
    "described",
    "device_of",
    "language_of",
    "load",
    "table",
]
