"""The models that the page offers: found at the start, loaded when first wanted, kept while used."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from musicgen import loading
from musicgen.playable import Playable
from musicgen.storage.library import shipped
from tokenization.language import Language

KEPT = 3  # models in memory
UNTRAINED = ("untrained:tiny", "untrained:tiny:groove")


class Shelf:
    """Models by name; `first` is offered first."""

    def __init__(self, first: str | None = None) -> None:
        found = sorted(shipped(), key=lambda name: (name != loading.DEFAULT, name))
        self.trained = bool(found) or not (first or loading.UNTRAINED).startswith(loading.UNTRAINED)
        names = ([first] if first else []) + (found or list(UNTRAINED))
        self.languages: dict[str, Language] = {name: loading.language_of(name) for name in names}
        self._loaded: OrderedDict[str, Playable] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def first(self) -> str:
        """The model to begin with."""
        return next(iter(self.languages))

    def language(self, name: str) -> Language:
        """Return the language of a model on the shelf; no name means the first."""
        if (name or self.first) not in self.languages:
            raise ValueError(
                f"there is no model of that name here; there are {', '.join(self.languages)}"
            )
        return self.languages[name or self.first]

    def load(self, name: str) -> Playable:
        """Return a model on the shelf, ready to play."""
        self.language(name)
        name = name or self.first
        with self._lock:  # the second to want it waits for the first
            if name not in self._loaded:
                _share_cores()
                self._loaded[name] = loading.load(name)
                while len(self._loaded) > KEPT:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(name)
            return self._loaded[name]

    def warm(self) -> None:
        """Load the first model and let it play two notes, so that nobody waits for that."""
        from musicgen.continuation import Continuation
        from musicgen.options import Options
        from musicgen.pieces import no_prompt

        model = self.load(self.first)
        for _ in Continuation(model, no_prompt(model.language), Options(tokens=2)):
            pass


def _share_cores() -> None:
    """Give a request a few cores at most: several play at once, and threads that wait for busy cores are slow."""
    import torch

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 4))
